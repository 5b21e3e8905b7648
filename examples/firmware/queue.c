#include "firmware.h"

static unsigned next(unsigned index) { return (index + 1) % QUEUE_LENGTH; }
static int is_empty(const Queue *queue) { return queue->head == queue->tail; }
static int is_full(const Queue *queue) { return next(queue->head) == queue->tail; }

void queue_push(Queue *queue, int16_t value) {
    if (is_full(queue)) {
        queue->tail = next(queue->tail);
        queue->lost++;
    }
    queue->values[queue->head] = value;
    queue->head = next(queue->head);
}

int queue_pop(Queue *queue, int16_t *value) {
    if (is_empty(queue)) return 0;
    *value = queue->values[queue->tail];
    queue->tail = next(queue->tail);
    return 1;
}

unsigned queue_length(const Queue *queue) { return (queue->head - queue->tail) % QUEUE_LENGTH; }
