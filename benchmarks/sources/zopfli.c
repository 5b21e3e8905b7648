/* Writes TEXT, a list of bytes, packed in gzip's format. */
#include <stdio.h>
#include <stdlib.h>
typedef struct { int verbose, verbose_more, iterations, splitting, last, most; } options;
void ZopfliInitOptions(options *);
void ZopfliCompress(const options *, int, const unsigned char *, size_t, unsigned char **, size_t *);
static unsigned char text[] = {TEXT};
int main(void) {
    options o;
    unsigned char *packed = NULL;
    size_t size = 0;
    ZopfliInitOptions(&o);
    o.iterations = 3;
    ZopfliCompress(&o, 0, text, sizeof text, &packed, &size);
    fwrite(packed, 1, size, stdout);
    free(packed);
    return 0;
}
