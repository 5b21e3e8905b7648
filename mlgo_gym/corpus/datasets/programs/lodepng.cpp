// Writes a picture as PNG in five kinds of colour, reads each file again, and compares the pixels.
#include <cstdio>
#include <cstdlib>
#include <lodepng.h>

#include "../workload.h"

enum { WIDTH = 128, HEIGHT = 96, CHANNELS = 4 };

static unsigned char pixels[WIDTH * HEIGHT * CHANNELS];

static void draw_picture() {
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++) {
      unsigned char *pixel = pixels + (y * WIDTH + x) * CHANNELS;
      const bool is_disc = (x - 70) * (x - 70) + (y - 40) * (y - 40) < 900;
      pixel[0] = (unsigned char)(is_disc ? 220 : 2 * x);
      pixel[1] = (unsigned char)(is_disc ? 40 + y : x + y);
      pixel[2] = (unsigned char)(x / 16 % 2 ? 255 - y : draw(9) * 8);
      pixel[3] = (unsigned char)(y < 60 ? 255 : 255 - y);
    }
}

struct Kind {
  const char *name;
  LodePNGColorType type;
  unsigned depth, interlace;
  LodePNGFilterStrategy filter;
};

// Writes and reads the picture in one kind of colour; returns 0 if it is the same afterwards.
static unsigned round_trip(const Kind &kind) {
  const LodePNGColorMode source = lodepng_color_mode_make(LCT_RGBA, 8);
  LodePNGColorMode mode = lodepng_color_mode_make(kind.type, kind.depth);
  for (unsigned i = 0; kind.type == LCT_PALETTE && i < 256; i++)
    lodepng_palette_add(&mode, (unsigned char)(i & 0xe0), (unsigned char)(i << 3 & 0xe0), (unsigned char)(i << 6), 255);
  const size_t size = lodepng_get_raw_size(WIDTH, HEIGHT, &mode);
  unsigned char *raw = (unsigned char *)malloc(size), *file = NULL, *found = NULL;
  unsigned error = 0;
  if (kind.type == LCT_PALETTE)
    for (int i = 0; i < WIDTH * HEIGHT; i++)
      raw[i] = (unsigned char)((pixels[4 * i] & 0xe0) | (pixels[4 * i + 1] >> 5 << 2) | pixels[4 * i + 2] >> 6);
  else
    error = lodepng_convert(raw, pixels, &mode, &source, WIDTH, HEIGHT);
  LodePNGState writer, reader;
  lodepng_state_init(&writer);
  lodepng_state_init(&reader);
  writer.encoder.auto_convert = 0;
  writer.encoder.filter_strategy = kind.filter;
  writer.info_png.interlace_method = kind.interlace;
  lodepng_color_mode_copy(&writer.info_raw, &mode);
  lodepng_color_mode_copy(&writer.info_png.color, &mode);
  lodepng_color_mode_copy(&reader.info_raw, &mode);
  size_t length = 0;
  unsigned width, height;
  error = error ? error : lodepng_encode(&file, &length, raw, WIDTH, HEIGHT, &writer);
  error = error ? error : lodepng_decode(&found, &width, &height, &reader, file, length);
  error = error ? error : memcmp(raw, found, size) != 0;
  printf("%s: %zu bytes, checksum %lu, error %u\n", kind.name, length, checksum(file, length), error);
  lodepng_state_cleanup(&reader);
  lodepng_state_cleanup(&writer);
  lodepng_color_mode_cleanup(&mode);
  free(raw);
  free(file);
  free(found);
  return error;
}

int main() {
  static const Kind kinds[] = {
      {"true colour", LCT_RGB, 8, 0, LFS_MINSUM},       {"interlaced with alpha", LCT_RGBA, 8, 1, LFS_ENTROPY},
      {"palette", LCT_PALETTE, 8, 0, LFS_ZERO},         {"16 bits", LCT_RGBA, 16, 0, LFS_MINSUM},
      {"grey with alpha", LCT_GREY_ALPHA, 8, 1, LFS_MINSUM},
  };
  draw_picture();
  unsigned errors = 0;
  for (const Kind &kind : kinds)
    errors += round_trip(kind);
  return errors != 0;
}
