/* Compresses generated text at three qualities, unpacks it, and compares. */
#include <brotli/decode.h>
#include <brotli/encode.h>
#include <stdio.h>

#include "../workload.h"

enum { SIZE = 300000 };

int main(void) {
  static const int qualities[] = {1, 5, 9};
  static unsigned char packed[2 * SIZE], unpacked[SIZE];
  const unsigned char *text = (const unsigned char *)make_text(SIZE);
  for (int i = 0; i < 3; i++) {
    size_t size = sizeof packed, length = SIZE;
    if (!BrotliEncoderCompress(qualities[i], 20, BROTLI_MODE_TEXT, SIZE, text, &size, packed))
      return 1;
    if (BrotliDecoderDecompress(size, packed, &length, unpacked) != BROTLI_DECODER_RESULT_SUCCESS)
      return 2;
    if (length != SIZE || memcmp(text, unpacked, SIZE))
      return 3;
    printf("quality %d: %zu bytes, checksum %lu\n", qualities[i], size, checksum(packed, size));
  }
  return 0;
}
