/* Hashes of short texts with published vectors, and of parts of a long one. */
#include <stdio.h>
#include <stdint.h>
unsigned XXH32(const void *, size_t, unsigned);
uint64_t XXH64(const void *, size_t, uint64_t), XXH3_64bits(const void *, size_t);
static unsigned char big[100000];
int main(void) {
    for (size_t i = 0; i < sizeof big; i++) big[i] = (unsigned char)(i * 2654435761u >> 24);
    const char *texts[] = {"", "abc"};
    for (size_t i = 0; i < 2; i++)
        printf("%08x %016llx %016llx\n", XXH32(texts[i], 3 * i, 0), (unsigned long long)XXH64(texts[i], 3 * i, 0),
               (unsigned long long)XXH3_64bits(texts[i], 3 * i));
    for (size_t n = 1; n < sizeof big; n = n * 3 + 1)
        printf("%08x %016llx %016llx\n", XXH32(big, n, 7), (unsigned long long)XXH64(big, n, 7),
               (unsigned long long)XXH3_64bits(big, n));
    return 0;
}
