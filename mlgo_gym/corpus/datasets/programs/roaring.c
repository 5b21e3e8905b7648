/* Builds compressed bitmaps of several densities, combines them, and writes and reads them. */
#include <stdio.h>

#include "../workload.h"
#include "roaring.h"

enum { BITMAPS = 8, VALUES = 40000 };

int main(void) {
  roaring_bitmap_t *maps[BITMAPS];
  unsigned long sum = 0;
  for (int i = 0; i < BITMAPS; i++) {
    maps[i] = roaring_bitmap_create();
    for (int k = 0; k < VALUES; k++)
      roaring_bitmap_add(maps[i], draw(1u << (16 + i % 10)));
    for (int k = 0; k < 20; k++) {
      unsigned start = draw(1u << 22);
      roaring_bitmap_add_range(maps[i], start, start + draw(9000));
    }
    roaring_bitmap_run_optimize(maps[i]);
  }
  for (int i = 0; i < BITMAPS; i++)
    for (int k = 0; k < BITMAPS; k += 5) {
      roaring_bitmap_t *both = roaring_bitmap_and(maps[i], maps[k]);
      roaring_bitmap_t *either = roaring_bitmap_xor(maps[i], maps[k]);
      sum = sum * 31 + roaring_bitmap_get_cardinality(both) + roaring_bitmap_andnot_cardinality(maps[k], maps[i]);
      roaring_bitmap_or_inplace(either, both);
      if (roaring_bitmap_get_cardinality(either) != roaring_bitmap_or_cardinality(maps[i], maps[k]))
        return 1;
      roaring_bitmap_free(both);
      roaring_bitmap_free(either);
    }
  for (int i = 0; i < BITMAPS; i++) {
    size_t size = roaring_bitmap_portable_size_in_bytes(maps[i]);
    char *data = (char *)malloc(size);
    roaring_bitmap_portable_serialize(maps[i], data);
    roaring_bitmap_t *copy = roaring_bitmap_portable_deserialize(data);
    for (int k = 0; k < 20000; k++)
      sum += roaring_bitmap_contains(copy, draw(1u << 22));
    for (int k = 0; k < 3000; k++)
      sum += roaring_bitmap_rank(copy, draw(1u << 18)) % 3;
    if (!roaring_bitmap_equals(copy, maps[i]))
      return 2;
    sum = (sum * 31 + checksum(data, size)) & 0xffffffff;
    roaring_bitmap_free(copy);
    roaring_bitmap_free(maps[i]);
    free(data);
  }
  printf("checksum %lu\n", sum & 0xffffffff);
  return 0;
}
