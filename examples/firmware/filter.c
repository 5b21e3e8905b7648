#include "firmware.h"

static void swap(int16_t *a, int16_t *b) {
    const int16_t kept = *a;
    *a = *b;
    *b = kept;
}

static void order(int16_t *a, int16_t *b) {
    if (*a > *b) swap(a, b);
}

static int16_t clamp(int32_t value, int32_t low, int32_t high) {
    return (int16_t)(value < low ? low : value > high ? high : value);
}

static int16_t median(const int16_t *window) {
    int16_t v[5];
    for (unsigned i = 0; i < 5; i++) v[i] = window[i];
    order(&v[0], &v[1]);
    order(&v[3], &v[4]);
    order(&v[0], &v[3]);
    order(&v[1], &v[4]);
    order(&v[1], &v[2]);
    order(&v[2], &v[3]);
    order(&v[1], &v[2]);
    return v[2];
}

static int32_t follow(int32_t mean, int32_t sample, unsigned shift) { return mean + ((sample * 256 - mean) >> shift); }

int16_t filter_add(Filter *filter, int16_t sample) {
    filter->window[filter->count++ % 5] = clamp(sample, -2048, 2047);
    if (filter->count < 5) return sample;
    const int16_t middle = median(filter->window);
    filter->mean = follow(filter->mean, middle, filter->count < 64 ? 3 : 6);
    return clamp(middle - (filter->mean >> 8), -1024, 1023);
}

uint32_t square_root(uint32_t value) {
    uint32_t root = 0;
    for (uint32_t bit = 1u << 30; bit; bit >>= 2) {
        const uint32_t trial = root + bit;
        root >>= 1;
        if (value >= trial) {
            value -= trial;
            root += bit;
        }
    }
    return root;
}
