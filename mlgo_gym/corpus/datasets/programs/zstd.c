/* Compresses generated text at three levels, with a dictionary as well, and unpacks all. */
#include <stdio.h>

#include "../workload.h"
#include "zstd.h"

enum { SIZE = 400000, DICTIONARY = 20000 };

int main(void) {
  static const int levels[] = {1, 6, 13};
  static char packed[2 * SIZE], unpacked[SIZE];
  const char *text = make_text(SIZE);
  ZSTD_CCtx *coder = ZSTD_createCCtx();
  ZSTD_DCtx *decoder = ZSTD_createDCtx();
  for (int i = 0; i < 6; i++) {
    size_t dictionary = i < 3 ? 0 : DICTIONARY;
    size_t size = ZSTD_compress_usingDict(coder, packed, sizeof packed, text, SIZE, text, dictionary, levels[i % 3]);
    if (ZSTD_isError(size) || ZSTD_decompress_usingDict(decoder, unpacked, SIZE, packed, size, text, dictionary) != SIZE)
      return 1;
    if (memcmp(text, unpacked, SIZE))
      return 2;
    printf("level %d: %zu bytes, checksum %lu\n", levels[i % 3], size, checksum(packed, size));
  }
  ZSTD_freeDCtx(decoder);
  ZSTD_freeCCtx(coder);
  return 0;
}
