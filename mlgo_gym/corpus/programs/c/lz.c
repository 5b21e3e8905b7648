/* An LZ77 compressor and decompressor: hash chains, lazy matching, byte-oriented tokens and a checksum. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * Stream layout: "LZ1", the original size as a varint, then sequences until the size is reached:
 *   token    high nibble: number of literals, low nibble: match length - MIN_MATCH (15: a varint follows)
 *   literals
 *   distance as a varint (absent after the final literals)
 * and a 32-bit little-endian checksum of the original data.
 */

enum { MIN_MATCH = 4, WINDOW_BITS = 15, HASH_BITS = 13, NIBBLE_MAX = 15 };
#define WINDOW_SIZE (1u << WINDOW_BITS)
#define WINDOW_MASK (WINDOW_SIZE - 1)
#define HASH_SIZE (1u << HASH_BITS)
#define NO_POS UINT32_MAX

typedef enum { LZ_OK = 0, LZ_ERR_SPACE = -1, LZ_ERR_FORMAT = -2, LZ_ERR_CHECKSUM = -3, LZ_ERR_MEMORY = -4 } lz_status;

typedef struct {
    const uint8_t *data;
    size_t pos;
    size_t size;
    bool failed;
} reader;

typedef struct {
    uint8_t *data;
    size_t pos;
    size_t cap;
    bool failed;
} writer;

typedef struct {
    size_t length;
    size_t distance;
} match;

typedef struct {
    const uint8_t *data;
    size_t size;
    int max_chain;
    size_t good_length; /* a match this long is taken without looking further */
    uint32_t head[HASH_SIZE];
    uint32_t prev[WINDOW_SIZE];
} matcher;

size_t lz_bound(size_t size);
lz_status lz_compress(const uint8_t *in, size_t size, uint8_t *out, size_t cap, int level, size_t *written);
lz_status lz_decompress(const uint8_t *in, size_t size, uint8_t *out, size_t cap, size_t *written);
lz_status lz_content_size(const uint8_t *in, size_t size, size_t *content);
const char *lz_status_name(lz_status status);
int lz_selftest(void);

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

static int clamp_level(int level) {
    if (level < 1) return 1;
    return level > 9 ? 9 : level;
}

/* ---- byte output ---- */

static bool writer_fits(const writer *w, size_t n) { return !w->failed && w->cap - w->pos >= n; }

static void put_byte(writer *w, uint8_t b) {
    if (writer_fits(w, 1))
        w->data[w->pos++] = b;
    else
        w->failed = true;
}

static void put_bytes(writer *w, const uint8_t *src, size_t n) {
    if (!writer_fits(w, n)) {
        w->failed = true;
        return;
    }
    if (n) memcpy(w->data + w->pos, src, n);
    w->pos += n;
}

static void put_varint(writer *w, size_t v) {
    while (v >= 0x80) {
        put_byte(w, (uint8_t)(v | 0x80));
        v >>= 7;
    }
    put_byte(w, (uint8_t)v);
}

static void put_u32(writer *w, uint32_t v) {
    for (int shift = 0; shift < 32; shift += 8) put_byte(w, (uint8_t)(v >> shift));
}

/* Copies from the already written output; byte by byte, because source and target may overlap. */
static void put_match(writer *w, size_t distance, size_t length) {
    if (distance == 0 || distance > w->pos || !writer_fits(w, length)) {
        w->failed = true;
        return;
    }
    const uint8_t *src = w->data + w->pos - distance;
    uint8_t *dst = w->data + w->pos;
    w->pos += length;
    if (distance >= length)
        memcpy(dst, src, length);
    else
        while (length--) *dst++ = *src++;
}

/* ---- byte input ---- */

static size_t bytes_left(const reader *r) { return r->size - r->pos; }

static uint8_t get_byte(reader *r) {
    if (!bytes_left(r)) {
        r->failed = true;
        return 0;
    }
    return r->data[r->pos++];
}

static size_t get_varint(reader *r) {
    size_t v = 0;
    for (unsigned shift = 0; shift < 56; shift += 7) {
        uint8_t b = get_byte(r);
        v |= (size_t)(b & 0x7F) << shift;
        if (!(b & 0x80)) return v;
    }
    r->failed = true;
    return 0;
}

static uint32_t get_u32(reader *r) {
    uint32_t v = 0;
    for (int shift = 0; shift < 32; shift += 8) v |= (uint32_t)get_byte(r) << shift;
    return v;
}

static const uint8_t *get_span(reader *r, size_t n) {
    if (bytes_left(r) < n) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *span = r->data + r->pos;
    r->pos += n;
    return span;
}

/* ---- checksum (Adler-like, with deferred reduction) ---- */

static uint32_t checksum(const uint8_t *data, size_t size) {
    uint32_t a = 1, b = 0;
    while (size) {
        size_t block = min_size(size, 5552);
        size -= block;
        while (block--) {
            a += *data++;
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
}

/* ---- match finding ---- */

static uint32_t load32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t hash4(const uint8_t *p) { return load32(p) * 2654435761u >> (32 - HASH_BITS); }

static bool can_hash(const matcher *m, size_t pos) { return pos + MIN_MATCH <= m->size; }

static void matcher_init(matcher *m, const uint8_t *data, size_t size, int level) {
    m->data = data;
    m->size = size;
    m->max_chain = 1 << clamp_level(level);
    m->good_length = (size_t)8 << clamp_level(level);
    memset(m->head, 0xFF, sizeof m->head);
    memset(m->prev, 0xFF, sizeof m->prev);
}

static void matcher_insert(matcher *m, size_t pos) {
    if (!can_hash(m, pos)) return;
    uint32_t h = hash4(m->data + pos);
    m->prev[pos & WINDOW_MASK] = m->head[h];
    m->head[h] = (uint32_t)pos;
}

static void matcher_insert_range(matcher *m, size_t from, size_t to) {
    while (from < to) matcher_insert(m, from++);
}

static size_t common_length(const uint8_t *a, const uint8_t *b, size_t limit) {
    size_t n = 0;
    while (n + 4 <= limit && load32(a + n) == load32(b + n)) n += 4;
    while (n < limit && a[n] == b[n]) n++;
    return n;
}

static bool in_window(uint32_t candidate, size_t pos) {
    return candidate != NO_POS && candidate < pos && pos - candidate < WINDOW_SIZE;
}

/* A longer distance costs more bytes, so it must buy a longer match. */
static bool is_better(match candidate, match best) {
    if (candidate.length < MIN_MATCH) return false;
    size_t penalty = candidate.distance >= 0x4000 ? 2 : candidate.distance >= 0x80;
    return candidate.length > best.length + (best.length ? 0 : penalty);
}

static match find_match(const matcher *m, size_t pos) {
    match best = {0, 0};
    if (!can_hash(m, pos)) return best;
    const uint8_t *here = m->data + pos;
    size_t limit = m->size - pos;
    uint32_t candidate = m->head[hash4(here)];
    for (int tries = m->max_chain; tries > 0 && in_window(candidate, pos); tries--) {
        match found = {common_length(m->data + candidate, here, limit), pos - candidate};
        if (is_better(found, best)) {
            best = found;
            if (best.length >= m->good_length) break;
        }
        uint32_t next = m->prev[candidate & WINDOW_MASK];
        if (next >= candidate) break; /* the slot has been reused by a newer position */
        candidate = next;
    }
    return best;
}

static bool is_match(match m) { return m.length >= MIN_MATCH; }

/* ---- sequences ---- */

static uint8_t to_nibble(size_t v) { return (uint8_t)min_size(v, NIBBLE_MAX); }

static void put_extra(writer *w, size_t v) {
    if (v >= NIBBLE_MAX) put_varint(w, v - NIBBLE_MAX);
}

static size_t get_extra(reader *r, size_t nibble) { return nibble < NIBBLE_MAX ? nibble : nibble + get_varint(r); }

static void put_sequence(writer *w, const uint8_t *literals, size_t count, match m) {
    size_t code = is_match(m) ? m.length - MIN_MATCH : 0;
    put_byte(w, (uint8_t)(to_nibble(count) << 4 | to_nibble(code)));
    put_extra(w, count);
    put_bytes(w, literals, count);
    if (!is_match(m)) return;
    put_varint(w, m.distance);
    put_extra(w, code);
}

static void put_header(writer *w, size_t size) {
    put_bytes(w, (const uint8_t *)"LZ1", 3);
    put_varint(w, size);
}

static bool get_header(reader *r, size_t *size) {
    const uint8_t *magic = get_span(r, 3);
    if (!magic || memcmp(magic, "LZ1", 3) != 0) return false;
    *size = get_varint(r);
    return !r->failed;
}

static void compress_body(matcher *m, writer *w) {
    size_t pos = 0, literal_start = 0;
    while (pos < m->size) {
        match here = find_match(m, pos);
        matcher_insert(m, pos);
        if (!is_match(here)) {
            pos++;
            continue;
        }
        /* Lazy evaluation: give up this match if the next position has a clearly longer one. */
        if (here.length < m->good_length) {
            match later = find_match(m, pos + 1);
            if (later.length > here.length + 1) {
                here = later;
                pos++;
                matcher_insert(m, pos);
            }
        }
        put_sequence(w, m->data + literal_start, pos - literal_start, here);
        matcher_insert_range(m, pos + 1, pos + here.length);
        pos += here.length;
        literal_start = pos;
    }
    if (literal_start < m->size) put_sequence(w, m->data + literal_start, m->size - literal_start, (match){0, 0});
}

size_t lz_bound(size_t size) { return size + size / 64 + 32; }

lz_status lz_compress(const uint8_t *in, size_t size, uint8_t *out, size_t cap, int level, size_t *written) {
    writer w = {out, 0, cap, false};
    matcher *m = malloc(sizeof *m);
    if (!m) return LZ_ERR_MEMORY;
    matcher_init(m, in, size, level);
    put_header(&w, size);
    compress_body(m, &w);
    put_u32(&w, checksum(in, size));
    free(m);
    *written = w.pos;
    return w.failed ? LZ_ERR_SPACE : LZ_OK;
}

static bool decode_sequence(reader *r, writer *w, size_t size) {
    uint8_t token = get_byte(r);
    size_t literals = get_extra(r, token >> 4);
    const uint8_t *span = get_span(r, literals);
    if (!span || literals > size - w->pos) return false;
    put_bytes(w, span, literals);
    if (w->pos == size) return true;
    size_t distance = get_varint(r);
    size_t length = get_extra(r, token & 15) + MIN_MATCH;
    if (r->failed || length > size - w->pos) return false;
    put_match(w, distance, length);
    return !w->failed;
}

lz_status lz_decompress(const uint8_t *in, size_t size, uint8_t *out, size_t cap, size_t *written) {
    reader r = {in, 0, size, false};
    writer w = {out, 0, cap, false};
    size_t content;
    if (!get_header(&r, &content)) return LZ_ERR_FORMAT;
    if (!writer_fits(&w, content)) return LZ_ERR_SPACE;
    while (w.pos < content)
        if (!decode_sequence(&r, &w, content)) return LZ_ERR_FORMAT;
    uint32_t expected = get_u32(&r);
    if (r.failed || bytes_left(&r)) return LZ_ERR_FORMAT;
    *written = w.pos;
    return expected == checksum(out, w.pos) ? LZ_OK : LZ_ERR_CHECKSUM;
}

lz_status lz_content_size(const uint8_t *in, size_t size, size_t *content) {
    reader r = {in, 0, size, false};
    return get_header(&r, content) ? LZ_OK : LZ_ERR_FORMAT;
}

const char *lz_status_name(lz_status status) {
    static const char *const names[] = {"ok", "output too small", "malformed input", "checksum mismatch", "out of memory"};
    size_t index = (size_t)-(int)status;
    return index < sizeof names / sizeof *names ? names[index] : "unknown";
}

/* ---- self test ---- */

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* Fills a buffer with text-like data: words from a tiny vocabulary, interleaved with noise. */
static void fill_sample(uint8_t *buf, size_t size, uint32_t seed, unsigned noise) {
    static const char *const words[] = {"alpha ", "beta, ", "gamma; ", "delta-", "epsilon\n", "zeta/eta/theta "};
    size_t pos = 0;
    while (pos < size) {
        if (next_random(&seed) % 100 < noise) {
            buf[pos++] = (uint8_t)next_random(&seed);
            continue;
        }
        const char *word = words[next_random(&seed) % 6];
        size_t n = min_size(strlen(word), size - pos);
        memcpy(buf + pos, word, n);
        pos += n;
    }
}

/* Returns the compressed size, or 0 when the data does not survive the round trip. */
static size_t round_trip(const uint8_t *data, size_t size, int level) {
    size_t cap = lz_bound(size), packed_size = 0, unpacked_size = 0, content = 0;
    uint8_t *packed = malloc(cap), *unpacked = malloc(max_size(size, 1));
    bool ok = packed && unpacked && lz_compress(data, size, packed, cap, level, &packed_size) == LZ_OK &&
              lz_content_size(packed, packed_size, &content) == LZ_OK && content == size &&
              lz_decompress(packed, packed_size, unpacked, size, &unpacked_size) == LZ_OK && unpacked_size == size &&
              memcmp(unpacked, data, size) == 0;
    /* Every truncation must be noticed, never crash. */
    for (size_t cut = 1; ok && cut < min_size(packed_size, 40); cut++)
        ok = lz_decompress(packed, packed_size - cut, unpacked, size, &unpacked_size) != LZ_OK;
    if (ok && size > 8) {
        packed[packed_size - 1] ^= 1;
        ok = lz_decompress(packed, packed_size, unpacked, size, &unpacked_size) == LZ_ERR_CHECKSUM;
    }
    free(packed);
    free(unpacked);
    return ok ? packed_size : 0;
}

int lz_selftest(void) {
    static uint8_t sample[100000];
    const size_t sizes[] = {0, 1, 3, 4, 17, 1000, sizeof sample};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fill_sample(sample, sizes[i], (uint32_t)i, 10);
        if (!round_trip(sample, sizes[i], 1 + (int)i)) return 1 + (int)i;
    }
    size_t fast = round_trip(sample, sizeof sample, 1), best = round_trip(sample, sizeof sample, 9);
    if (!fast || !best || best > fast || best > sizeof sample / 2) return 10;
    memset(sample, 'x', sizeof sample);
    size_t run = round_trip(sample, sizeof sample, 5);
    if (!run || run > 40) return 11;
    fill_sample(sample, 5000, 99, 100);
    if (!round_trip(sample, 5000, 5)) return 12;
    return strcmp(lz_status_name(LZ_ERR_FORMAT), "malformed input") != 0;
}
