#include "firmware.h"

typedef struct {
    uint8_t *next, *end;
} Writer;
typedef struct {
    const uint8_t *next, *end;
} Reader;

static uint32_t zigzag(int32_t value) { return (uint32_t)value << 1 ^ (uint32_t)(value >> 31); }
static int32_t unzigzag(uint32_t value) { return (int32_t)(value >> 1 ^ (0 - (value & 1))); }

static int write_byte(Writer *writer, uint32_t value) {
    if (writer->next == writer->end) return 0;
    *writer->next++ = (uint8_t)value;
    return 1;
}

static int write_varint(Writer *writer, uint32_t value) {
    for (; value >= 128; value >>= 7)
        if (!write_byte(writer, value | 128)) return 0;
    return write_byte(writer, value);
}

static int read_varint(Reader *reader, uint32_t *value) {
    *value = 0;
    for (unsigned shift = 0; reader->next < reader->end && shift < 32; shift += 7) {
        const uint8_t byte = *reader->next++;
        *value |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

static size_t run_of(const int16_t *values, size_t count) {
    size_t length = 1;
    while (length < count && values[length] == values[0]) length++;
    return length;
}

size_t pack(const int16_t *values, size_t count, uint8_t *out, size_t room) {
    Writer writer = {out, out + room};
    int32_t before = 0;
    for (size_t i = 0, run; i < count; i += run) {
        run = run_of(values + i, count - i);
        if (!write_varint(&writer, zigzag(values[i] - before) << 1 | (run > 1))) return 0;
        if (run > 1 && !write_varint(&writer, (uint32_t)run)) return 0;
        before = values[i];
    }
    return (size_t)(writer.next - out);
}

size_t unpack(const uint8_t *data, size_t length, int16_t *values, size_t room) {
    Reader reader = {data, data + length};
    int32_t value = 0;
    size_t count = 0;
    for (uint32_t word, run; read_varint(&reader, &word); ) {
        value += unzigzag(word >> 1);
        run = 1;
        if (word & 1 && !read_varint(&reader, &run)) return 0;
        while (run-- && count < room) values[count++] = (int16_t)value;
    }
    return count;
}

static uint16_t add_bit(uint16_t sum) { return (uint16_t)(sum & 1 ? sum >> 1 ^ 0xa001 : sum >> 1); }

static uint16_t add_byte(uint16_t sum, uint8_t byte) {
    sum ^= byte;
    for (unsigned bit = 0; bit < 8; bit++) sum = add_bit(sum);
    return sum;
}

uint16_t checksum(const uint8_t *data, size_t length) {
    uint16_t sum = 0xffff;
    while (length--) sum = add_byte(sum, *data++);
    return sum;
}
