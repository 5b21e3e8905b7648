/* Hashes of short texts with published vectors, and of parts of a long one. */
#include <stdio.h>
#include <stdint.h>
void murmurhash3_x86_32(const void *, long, uint32_t, void *);
void murmurhash3_x64_128(const void *, long, uint32_t, void *);
void murmurhash3_x86_128(const void *, long, uint32_t, void *);
static unsigned char big[4096];
int main(void) {
    uint32_t small;
    uint64_t wide[2];
    murmurhash3_x86_32("", 0, 1, &small), printf("%08x\n", small);
    murmurhash3_x86_32("test", 4, 0, &small), printf("%08x\n", small);
    murmurhash3_x86_32("Hello, world!", 13, 0, &small), printf("%08x\n", small);
    for (int i = 0; i < (int)sizeof big; i++) big[i] = (unsigned char)(i * 2654435761u >> 24);
    for (int n = 0; n < 100; n++) {
        murmurhash3_x64_128(big, n * 41, n, wide), printf("%016llx%016llx ", (long long)wide[0], (long long)wide[1]);
        murmurhash3_x86_128(big, n * 41, n, wide), printf("%016llx%016llx\n", (long long)wide[0], (long long)wide[1]);
    }
    return 0;
}
