#include "firmware.h"

/* Semihosting: the debugger, or qemu, does the work of an operation. */
static uint32_t host(uint32_t operation, const void *argument) {
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void finish(int status) {
    const uint32_t block[2] = {0x20026, (uint32_t)status};
    for (;;) host(0x20, block);
}

void put_char(char letter) { host(0x03, &letter); }

void put_text(const char *text) {
    while (*text) put_char(*text++);
}

static unsigned digits_of(uint32_t value, char *digits) {
    unsigned count = 0;
    do digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    return count;
}

static void pad(unsigned count, unsigned width) {
    for (; count < width; count++) put_char(' ');
}

void put_number(int32_t value, unsigned width) {
    char digits[10];
    const int negative = value < 0;
    unsigned count = digits_of(negative ? 0u - (uint32_t)value : (uint32_t)value, digits);
    pad(count + (unsigned)negative, width);
    if (negative) put_char('-');
    while (count) put_char(digits[--count]);
}

static char hex_digit(unsigned value) { return (char)(value < 10 ? '0' + value : 'a' + value - 10); }

void put_hex(uint32_t value, unsigned digits) {
    while (digits--) put_char(hex_digit(value >> 4 * digits & 15));
}

void put_line(const char *name, int32_t value) {
    put_text(name);
    put_text(": ");
    put_number(value, 6);
    put_char('\n');
}
