/* Packs and unpacks a text in several ways; prints whether it shrinks and comes back. */
#include <stdio.h>
#include <string.h>
int LZ4_compress_default(const char *, char *, int, int), LZ4_decompress_safe(const char *, char *, int, int),
    LZ4_compress_HC(const char *, char *, int, int, int);
size_t LZ4F_compressFrame(void *, size_t, const void *, size_t, const void *);
unsigned LZ4F_isError(size_t);
static char text[60000], packed[200000], back[60000];
static void report(int size) {
    memset(back, 0, sizeof back);
    int again = LZ4_decompress_safe(packed, back, size, sizeof back);
    int same = again == (int)sizeof text && !memcmp(text, back, sizeof text);
    printf("%d %d\n", size > 0 && size < (int)sizeof text, same);
}
int main(void) {
    unsigned state = 1;
    for (size_t i = 0; i < sizeof text; i++) {
        state = state * 1103515245 + 12345;
        text[i] = i > 300 && state >> 28 > 2 ? text[i - 1 - (state >> 20) % 300] : (char)('a' + (state >> 16) % 26);
    }
    report(LZ4_compress_default(text, packed, sizeof text, sizeof packed));
    for (int level = 3; level <= 12; level += 3)
        report(LZ4_compress_HC(text, packed, sizeof text, sizeof packed, level));
    size_t frame = LZ4F_compressFrame(packed, sizeof packed, text, sizeof text, NULL);
    printf("%d ", !LZ4F_isError(frame));
    for (int i = 0; i < 4; i++) printf("%02x", packed[i] & 255);
    printf("\n");
    return 0;
}
