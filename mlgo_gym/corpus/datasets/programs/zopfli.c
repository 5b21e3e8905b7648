/* Compresses a short generated text with Zopfli into each of its three formats. */
#include <stdio.h>

#include "../workload.h"
#include "zopfli.h"

enum { SIZE = 12000 };

int main(void) {
  static const ZopfliFormat formats[] = {ZOPFLI_FORMAT_GZIP, ZOPFLI_FORMAT_ZLIB, ZOPFLI_FORMAT_DEFLATE};
  const unsigned char *text = (const unsigned char *)make_text(SIZE);
  for (int i = 0; i < 3; i++) {
    ZopfliOptions options;
    ZopfliInitOptions(&options);
    options.numiterations = 3;
    unsigned char *packed = NULL;
    size_t size = 0;
    ZopfliCompress(&options, formats[i], text, SIZE, &packed, &size);
    printf("format %d: %zu bytes, checksum %lu\n", i, size, checksum(packed, size));
    free(packed);
  }
  return 0;
}
