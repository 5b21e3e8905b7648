/* Compresses generated text by the fast and the high-compression coder and as a frame, and unpacks all. */
#include <stdio.h>

#include "../workload.h"
#include "lz4.h"
#include "lz4frame.h"
#include "lz4hc.h"

enum { SIZE = 400000 };

static char packed[2 * SIZE], unpacked[SIZE];

static int check(const char *name, const char *text, int size, int length) {
  if (length != SIZE || memcmp(text, unpacked, SIZE))
    return 1;
  printf("%s: %d bytes, checksum %lu\n", name, size, checksum(packed, (size_t)size));
  return 0;
}

int main(void) {
  const char *text = make_text(SIZE);
  int errors = 0;
  for (int level = 1; level <= 12; level += 3) {
    int size = LZ4_compress_HC(text, packed, SIZE, sizeof packed, level);
    errors += check("high compression", text, size, LZ4_decompress_safe(packed, unpacked, size, SIZE));
  }
  for (int speed = 1; speed <= 9; speed += 4) {
    int size = LZ4_compress_fast(text, packed, SIZE, sizeof packed, speed);
    errors += check("fast", text, size, LZ4_decompress_safe(packed, unpacked, size, SIZE));
  }
  size_t size = LZ4F_compressFrame(packed, sizeof packed, text, SIZE, NULL);
  LZ4F_dctx *context;
  if (LZ4F_isError(size) || LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
    return 2;
  size_t length = SIZE, read = size;
  LZ4F_decompress(context, unpacked, &length, packed, &read, NULL);
  LZ4F_freeDecompressionContext(context);
  return errors + check("frame", text, (int)size, (int)length);
}
