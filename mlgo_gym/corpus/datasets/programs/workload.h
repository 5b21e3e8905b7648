/* Reproducible input for the drivers: numbers, text, and a checksum. */

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static unsigned generator_state = 1;

/* Returns a number from 0 to bound - 1. */
static inline unsigned draw(unsigned bound) {
  generator_state = generator_state * 1664525u + 1013904223u;
  return (unsigned)(((unsigned long long)generator_state * bound) >> 32);
}

/* Writes a word of 2 to 9 letters with a NUL; equal numbers give equal words. */
static inline void make_word(unsigned number, char *word) {
  unsigned state = number * 2654435761u + 12345u;
  unsigned length = 2 + (state >> 29);
  for (unsigned i = 0; i < length; i++) {
    state = state * 1664525u + 1013904223u;
    word[i] = "etaoinshrdlucmfwypvbgkqjxz"[(state >> 24) * 26 >> 8];
  }
  word[length] = 0;
}

/* Returns text of words and lines with a NUL at the end; frequent words occur often. */
static inline char *make_text(size_t size) {
  char *text = (char *)malloc(size + 16);
  size_t length = 0;
  while (length < size) {
    make_word(draw(1 + draw(3000)), text + length);
    length += strlen(text + length);
    text[length++] = draw(12) ? ' ' : '\n';
  }
  text[size] = 0;
  return text;
}

static inline unsigned long checksum(const void *data, size_t size) {
  const unsigned char *bytes = (const unsigned char *)data;
  unsigned long sum = 5381;
  for (size_t i = 0; i < size; i++)
    sum = (sum * 33 + bytes[i]) & 0xffffffff;
  return sum;
}
