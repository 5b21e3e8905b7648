/* Vectors and reset of a Cortex-M, and the functions that clang calls by itself. */
#include <stddef.h>
#include <stdint.h>

extern uint32_t data_start[], data_end[], data_source[], bss_start[], bss_end[], stack_top[];
int main(void);
void finish(int status);

void *memcpy(void *restrict to, const void *restrict from, size_t length) {
    for (size_t i = 0; i < length; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memset(void *to, int value, size_t length) {
    for (size_t i = 0; i < length; i++) ((volatile char *)to)[i] = (char)value;
    return to;
}

static void fault(void) { finish(2); }

void reset(void) {
    for (uint32_t *to = data_start, *from = data_source; to < data_end;) *to++ = *from++;
    for (uint32_t *to = bss_start; to < bss_end;) *to++ = 0;
    finish(main());
}

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    stack_top, (void *)reset, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
};
