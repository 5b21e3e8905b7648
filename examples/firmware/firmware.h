/* A data logger: it reads samples, filters and packs them, and answers commands on a console. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* console.c: text on the debugger's console. */
void put_char(char letter);
void put_text(const char *text);
void put_number(int32_t value, unsigned width);
void put_hex(uint32_t value, unsigned digits);
void put_line(const char *name, int32_t value);

/* queue.c: samples between the reader and the filter. */
#define QUEUE_LENGTH 32
typedef struct {
    int16_t values[QUEUE_LENGTH];
    unsigned head, tail, lost;
} Queue;
void queue_push(Queue *queue, int16_t value);
int queue_pop(Queue *queue, int16_t *value);
unsigned queue_length(const Queue *queue);

/* filter.c: fixed-point filters. */
typedef struct {
    int16_t window[5];
    unsigned count;
    int32_t mean; /* of all samples, in 1/256 */
} Filter;
int16_t filter_add(Filter *filter, int16_t sample);
uint32_t square_root(uint32_t value);

/* pack.c: differences in bytes of seven bits, with a checksum. */
size_t pack(const int16_t *values, size_t count, uint8_t *out, size_t room);
size_t unpack(const uint8_t *data, size_t length, int16_t *values, size_t room);
uint16_t checksum(const uint8_t *data, size_t length);

/* commands.c: the console's commands. */
int run_command(const char *line);
