#include "firmware.h"

#define RECORDS 128
static Queue queue;
static Filter filter;
static int16_t records[RECORDS], restored[RECORDS];
static uint8_t packed[2 * RECORDS];
static unsigned recorded;
static size_t packed_length;
static uint32_t noise = 1;

static uint32_t random_bits(void) {
    noise ^= noise << 13;
    noise ^= noise >> 17;
    return noise ^= noise << 5;
}

/* A triangle with noise and outliers stands for the analog input. */
static int16_t sample(unsigned time) {
    const int32_t phase = (int32_t)(time % 64), wave = (phase < 32 ? phase : 63 - phase) * 40 - 620;
    return (int16_t)(wave + (int32_t)(random_bits() & 15) + (random_bits() % 23 == 0 ? 1500 : 0));
}

static void record(int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        queue_push(&queue, sample(recorded + (unsigned)i));
        int16_t value;
        while (queue_length(&queue) > 4 && queue_pop(&queue, &value) && recorded < RECORDS)
            records[recorded++] = filter_add(&filter, value);
    }
    put_line("recorded", (int32_t)recorded);
    put_line("lost", (int32_t)queue.lost);
}

static void show_statistics(int32_t unused) {
    (void)unused;
    int32_t low = 32767, high = -32768, sum = 0;
    uint32_t squares = 0;
    for (unsigned i = 0; i < recorded; i++) {
        const int32_t value = records[i];
        low = value < low ? value : low;
        high = value > high ? value : high;
        sum += value;
        squares += (uint32_t)(value * value);
    }
    const int32_t count = recorded ? (int32_t)recorded : 1;
    put_line("low", low);
    put_line("high", high);
    put_line("mean", sum / count);
    put_line("deviation", (int32_t)square_root(squares / (uint32_t)count));
}

static void store(int32_t unused) {
    (void)unused;
    packed_length = pack(records, recorded, packed, sizeof packed);
    put_line("bytes", (int32_t)packed_length);
    put_text("checksum: ");
    put_hex(checksum(packed, packed_length), 4);
    put_char('\n');
}

static void verify(int32_t unused) {
    (void)unused;
    unsigned equal = 0;
    const size_t count = unpack(packed, packed_length, restored, RECORDS);
    for (size_t i = 0; i < count; i++) equal += restored[i] == records[i];
    put_line("restored", (int32_t)equal);
}

static void dump(int32_t count) {
    for (int32_t i = 0; i < count && (size_t)i < packed_length; i++) {
        put_hex(packed[i], 2);
        put_char(i % 16 == 15 ? '\n' : ' ');
    }
}

static const struct {
    const char *name;
    void (*run)(int32_t);
} commands[] = {
    {"record", record}, {"statistics", show_statistics}, {"store", store}, {"verify", verify}, {"dump", dump},
};

static int is_space(char letter) { return letter == ' ' || letter == '\t'; }
static int is_digit(char letter) { return letter >= '0' && letter <= '9'; }

static const char *skip_spaces(const char *text) {
    while (is_space(*text)) text++;
    return text;
}

static const char *match(const char *text, const char *word) {
    while (*word && *text == *word) text++, word++;
    return *word || (*text && !is_space(*text)) ? NULL : skip_spaces(text);
}

static int read_number(const char *text, int32_t *value) {
    *value = 0;
    const char *start = text;
    for (; is_digit(*text); text++) *value = *value * 10 + (*text - '0');
    return text != start && !*skip_spaces(text);
}

int run_command(const char *line) {
    const char *text = skip_spaces(line), *rest;
    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++) {
        int32_t argument = 0;
        if (!(rest = match(text, commands[i].name))) continue;
        if (*rest && !read_number(rest, &argument)) break;
        commands[i].run(argument);
        return 1;
    }
    put_text("unknown command: ");
    put_text(line);
    put_char('\n');
    return 0;
}
