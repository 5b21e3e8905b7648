/* Hashes generated text of many lengths by all four functions, at once and in pieces. */
#include <stdio.h>

#include "../workload.h"
#include "xxhash.h"

enum { SIZE = 200000 };

int main(void) {
  const char *text = make_text(SIZE);
  unsigned long long sums[4] = {0};
  for (size_t length = 1; length < SIZE; length += 1 + length / 60) {
    sums[0] += XXH32(text, length, 7);
    sums[1] += XXH64(text, length, 7);
    sums[2] += XXH3_64bits(text, length);
    sums[3] += XXH3_128bits(text, length).high64;
  }
  for (size_t length = 1; length < 300; length++)
    for (size_t at = 0; at < 60000; at += 250) {
      sums[0] += XXH32(text + at, length, 1);
      sums[1] += XXH64(text + at, length, 1);
      sums[2] += XXH3_64bits(text + at, length);
      sums[3] += XXH3_128bits(text + at, length).low64;
    }
  XXH3_state_t *state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (size_t at = 0, piece = 1; at + piece < SIZE; at += piece, piece = 1 + draw(900))
    XXH3_64bits_update(state, text + at, piece);
  sums[2] += XXH3_64bits_digest(state);
  XXH3_freeState(state);
  printf("%llx %llx %llx %llx\n", sums[0], sums[1], sums[2], sums[3]);
  return 0;
}
