/* BLAKE2b, BLAKE2s and BLAKE3: each compression keeps its 16 state words and 16 message words in locals. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static const uint64_t iv_64[8] = {0x6a09e667f3bcc908ull, 0xbb67ae8584caa73bull, 0x3c6ef372fe94f82bull,
                                  0xa54ff53a5f1d36f1ull, 0x510e527fade682d1ull, 0x9b05688c2b3e6c1full,
                                  0x1f83d9abfb41bd6bull, 0x5be0cd19137e2179ull};
#define IV32(i) ((uint32_t)(iv_64[i] >> 32))

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8, KEYED = 16 };
enum { CHUNK_BYTES = 1024, MAX_DEPTH = 54 };

#define ROR32(x, n) ((uint32_t)((x) >> (n)) | (uint32_t)((x) << (32 - (n))))
#define ROR64(x, n) ((uint64_t)((x) >> (n)) | (uint64_t)((x) << (64 - (n))))

#define MIX64(a, b, c, d, x, y)                                                                                        \
    do {                                                                                                               \
        a += b + (x), d = ROR64(d ^ a, 32), c += d, b = ROR64(b ^ c, 24);                                              \
        a += b + (y), d = ROR64(d ^ a, 16), c += d, b = ROR64(b ^ c, 63);                                              \
    } while (0)

#define MIX32(a, b, c, d, x, y)                                                                                        \
    do {                                                                                                               \
        a += b + (x), d = ROR32(d ^ a, 16), c += d, b = ROR32(b ^ c, 12);                                              \
        a += b + (y), d = ROR32(d ^ a, 8), c += d, b = ROR32(b ^ c, 7);                                                \
    } while (0)

/* One round over state words v0..v15 with message words m in the given order. */
#define ROUND(MIX, v, m, a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q)                                               \
    MIX(v##0, v##4, v##8, v##12, m##a, m##b);                                                                          \
    MIX(v##1, v##5, v##9, v##13, m##c, m##d);                                                                          \
    MIX(v##2, v##6, v##10, v##14, m##e, m##f);                                                                         \
    MIX(v##3, v##7, v##11, v##15, m##g, m##h);                                                                         \
    MIX(v##0, v##5, v##10, v##15, m##i, m##j);                                                                         \
    MIX(v##1, v##6, v##11, v##12, m##k, m##l);                                                                         \
    MIX(v##2, v##7, v##8, v##13, m##n, m##o);                                                                          \
    MIX(v##3, v##4, v##9, v##14, m##p, m##q)

#define ROUNDS_BLAKE2(MIX, v, m)                                                                                       \
    ROUND(MIX, v, m, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);                                            \
    ROUND(MIX, v, m, 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);                                            \
    ROUND(MIX, v, m, 11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4);                                            \
    ROUND(MIX, v, m, 7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8);                                            \
    ROUND(MIX, v, m, 9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13);                                            \
    ROUND(MIX, v, m, 2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9);                                            \
    ROUND(MIX, v, m, 12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11);                                            \
    ROUND(MIX, v, m, 13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10);                                            \
    ROUND(MIX, v, m, 6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5);                                            \
    ROUND(MIX, v, m, 10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0)

#define ROUND_BLAKE3_1(v, m) ROUND(MIX32, v, m, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define ROUND_BLAKE3_2(v, m) ROUND(MIX32, v, m, 2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
#define ROUND_BLAKE3_3(v, m) ROUND(MIX32, v, m, 3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1)
#define ROUND_BLAKE3_4(v, m) ROUND(MIX32, v, m, 10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6)
#define ROUND_BLAKE3_5(v, m) ROUND(MIX32, v, m, 12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4)
#define ROUND_BLAKE3_6(v, m) ROUND(MIX32, v, m, 9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7)
#define ROUND_BLAKE3_7(v, m) ROUND(MIX32, v, m, 11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13)

#define MESSAGE(TYPE, m, words)                                                                                        \
    TYPE m##0 = words[0], m##1 = words[1], m##2 = words[2], m##3 = words[3], m##4 = words[4], m##5 = words[5];         \
    TYPE m##6 = words[6], m##7 = words[7], m##8 = words[8], m##9 = words[9], m##10 = words[10], m##11 = words[11];     \
    TYPE m##12 = words[12], m##13 = words[13], m##14 = words[14], m##15 = words[15]

#define CHAINED(TYPE, v, h)                                                                                            \
    TYPE v##0 = h[0], v##1 = h[1], v##2 = h[2], v##3 = h[3], v##4 = h[4], v##5 = h[5], v##6 = h[6], v##7 = h[7]

#define FOLD(h, v, OP)                                                                                                 \
    h[0] OP v##0 ^ v##8, h[1] OP v##1 ^ v##9, h[2] OP v##2 ^ v##10, h[3] OP v##3 ^ v##11;                              \
    h[4] OP v##4 ^ v##12, h[5] OP v##5 ^ v##13, h[6] OP v##6 ^ v##14, h[7] OP v##7 ^ v##15

void blake_2b_compress(uint64_t h[8], const uint64_t words[16], uint64_t counter, bool last) {
    MESSAGE(uint64_t, m, words);
    CHAINED(uint64_t, v, h);
    uint64_t v8 = iv_64[0], v9 = iv_64[1], v10 = iv_64[2], v11 = iv_64[3];
    uint64_t v12 = iv_64[4] ^ counter, v13 = iv_64[5], v14 = last ? ~iv_64[6] : iv_64[6], v15 = iv_64[7];
    ROUNDS_BLAKE2(MIX64, v, m);
    ROUND(MIX64, v, m, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(MIX64, v, m, 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    FOLD(h, v, ^=);
}

void blake_2s_compress(uint32_t h[8], const uint32_t words[16], uint64_t counter, bool last) {
    MESSAGE(uint32_t, m, words);
    CHAINED(uint32_t, v, h);
    uint32_t v8 = IV32(0), v9 = IV32(1), v10 = IV32(2), v11 = IV32(3);
    uint32_t v12 = IV32(4) ^ (uint32_t)counter, v13 = IV32(5) ^ (uint32_t)(counter >> 32);
    uint32_t v14 = last ? ~IV32(6) : IV32(6), v15 = IV32(7);
    ROUNDS_BLAKE2(MIX32, v, m);
    FOLD(h, v, ^=);
}

void blake_3_compress(uint32_t h[8], const uint32_t words[16], uint64_t counter, uint32_t bytes, uint32_t flags) {
    MESSAGE(uint32_t, m, words);
    CHAINED(uint32_t, v, h);
    uint32_t v8 = IV32(0), v9 = IV32(1), v10 = IV32(2), v11 = IV32(3);
    uint32_t v12 = (uint32_t)counter, v13 = (uint32_t)(counter >> 32), v14 = bytes, v15 = flags;
    ROUND_BLAKE3_1(v, m);
    ROUND_BLAKE3_2(v, m);
    ROUND_BLAKE3_3(v, m);
    ROUND_BLAKE3_4(v, m);
    ROUND_BLAKE3_5(v, m);
    ROUND_BLAKE3_6(v, m);
    ROUND_BLAKE3_7(v, m);
    FOLD(h, v, =);
}

/* Block number `block` of two neighbouring full chunks, interleaved round by round. */
void blake_3_compress_pair(uint32_t h[2][8], const uint32_t words[2][16], uint64_t counter, uint32_t flags) {
    MESSAGE(uint32_t, m, words[0]);
    MESSAGE(uint32_t, n, words[1]);
    CHAINED(uint32_t, v, h[0]);
    CHAINED(uint32_t, w, h[1]);
    uint32_t v8 = IV32(0), v9 = IV32(1), v10 = IV32(2), v11 = IV32(3);
    uint32_t w8 = v8, w9 = v9, w10 = v10, w11 = v11;
    uint32_t v12 = (uint32_t)counter, v13 = (uint32_t)(counter >> 32), v14 = 64, v15 = flags;
    uint32_t w12 = (uint32_t)(counter + 1), w13 = (uint32_t)((counter + 1) >> 32), w14 = 64, w15 = flags;
    ROUND_BLAKE3_1(v, m);
    ROUND_BLAKE3_1(w, n);
    ROUND_BLAKE3_2(v, m);
    ROUND_BLAKE3_2(w, n);
    ROUND_BLAKE3_3(v, m);
    ROUND_BLAKE3_3(w, n);
    ROUND_BLAKE3_4(v, m);
    ROUND_BLAKE3_4(w, n);
    ROUND_BLAKE3_5(v, m);
    ROUND_BLAKE3_5(w, n);
    ROUND_BLAKE3_6(v, m);
    ROUND_BLAKE3_6(w, n);
    ROUND_BLAKE3_7(v, m);
    ROUND_BLAKE3_7(w, n);
    FOLD(h[0], v, =);
    FOLD(h[1], w, =);
}

static void load_words_64(uint64_t words[16], const uint8_t *p, size_t n) {
    memset(words, 0, 16 * sizeof words[0]);
    for (size_t i = 0; i < n; i++)
        words[i / 8] |= (uint64_t)p[i] << (8 * (i % 8));
}

static void load_words_32(uint32_t words[16], const uint8_t *p, size_t n) {
    memset(words, 0, 16 * sizeof words[0]);
    for (size_t i = 0; i < n; i++)
        words[i / 4] |= (uint32_t)p[i] << (8 * (i % 4));
}

void blake_2b(uint8_t *out, size_t out_bytes, const uint8_t *key, size_t key_bytes, const uint8_t *in, size_t n) {
    uint64_t h[8], words[16], done = 0;
    memcpy(h, iv_64, sizeof h);
    h[0] ^= 0x01010000 ^ (key_bytes << 8) ^ out_bytes;
    if (key_bytes) {
        load_words_64(words, key, key_bytes);
        done = 128;
        blake_2b_compress(h, words, done, n == 0);
    }
    while (n > 128) {
        load_words_64(words, in, 128);
        done += 128;
        blake_2b_compress(h, words, done, false);
        in += 128, n -= 128;
    }
    if (n || !key_bytes) {
        load_words_64(words, in, n);
        blake_2b_compress(h, words, done + n, true);
    }
    for (size_t i = 0; i < out_bytes; i++)
        out[i] = (uint8_t)(h[i / 8] >> (8 * (i % 8)));
}

void blake_2s(uint8_t *out, size_t out_bytes, const uint8_t *key, size_t key_bytes, const uint8_t *in, size_t n) {
    uint32_t h[8], words[16];
    uint64_t done = 0;
    for (int i = 0; i < 8; i++)
        h[i] = IV32(i);
    h[0] ^= 0x01010000 ^ (uint32_t)(key_bytes << 8) ^ (uint32_t)out_bytes;
    if (key_bytes) {
        load_words_32(words, key, key_bytes);
        done = 64;
        blake_2s_compress(h, words, done, n == 0);
    }
    while (n > 64) {
        load_words_32(words, in, 64);
        done += 64;
        blake_2s_compress(h, words, done, false);
        in += 64, n -= 64;
    }
    if (n || !key_bytes) {
        load_words_32(words, in, n);
        blake_2s_compress(h, words, done + n, true);
    }
    for (size_t i = 0; i < out_bytes; i++)
        out[i] = (uint8_t)(h[i / 4] >> (8 * (i % 4)));
}

static void hash_chunk(uint32_t h[8], const uint32_t key[8], const uint8_t *in, size_t n, uint64_t index,
                       uint32_t flags) {
    uint32_t words[16], first = CHUNK_START;
    memcpy(h, key, 8 * sizeof h[0]);
    while (n > 64) {
        load_words_32(words, in, 64);
        blake_3_compress(h, words, index, 64, (flags & ~(uint32_t)ROOT) | first);
        first = 0, in += 64, n -= 64;
    }
    load_words_32(words, in, n);
    blake_3_compress(h, words, index, (uint32_t)n, flags | first | CHUNK_END);
}

static void hash_chunk_pair(uint32_t h[2][8], const uint32_t key[8], const uint8_t *in, uint64_t index,
                            uint32_t flags) {
    uint32_t words[2][16];
    memcpy(h[0], key, sizeof h[0]);
    memcpy(h[1], key, sizeof h[1]);
    for (size_t at = 0; at < CHUNK_BYTES; at += 64) {
        uint32_t edge = (at == 0 ? CHUNK_START : 0) | (at == CHUNK_BYTES - 64 ? CHUNK_END : 0);
        load_words_32(words[0], in + at, 64);
        load_words_32(words[1], in + CHUNK_BYTES + at, 64);
        blake_3_compress_pair(h, (const uint32_t(*)[16])words, index, flags | edge);
    }
}

static void join_nodes(uint32_t left[8], const uint32_t right[8], const uint32_t key[8], uint32_t flags) {
    uint32_t words[16];
    memcpy(words, left, 32);
    memcpy(words + 8, right, 32);
    memcpy(left, key, 32);
    blake_3_compress(left, words, 0, 64, flags | PARENT);
}

void blake_3(uint8_t out[32], const uint8_t *key_or_null, const uint8_t *in, size_t n) {
    uint32_t key[16], stack[MAX_DEPTH + 2][8], flags = key_or_null ? KEYED : 0;
    size_t depth = 0;
    uint64_t chunk = 0;
    if (key_or_null)
        load_words_32(key, key_or_null, 32);
    else
        for (int i = 0; i < 8; i++)
            key[i] = IV32(i);
    while (n > CHUNK_BYTES) {
        uint32_t pair[2][8];
        size_t lanes = n > 2 * CHUNK_BYTES ? 2 : 1;
        if (lanes == 2)
            hash_chunk_pair(pair, key, in, chunk, flags);
        else
            hash_chunk(pair[0], key, in, CHUNK_BYTES, chunk, flags);
        for (size_t lane = 0; lane < lanes; lane++) {
            chunk++;
            memcpy(stack[depth++], pair[lane], sizeof pair[lane]);
            for (uint64_t bits = chunk; !(bits & 1); bits >>= 1) {
                join_nodes(stack[depth - 2], stack[depth - 1], key, flags);
                depth--;
            }
        }
        in += lanes * CHUNK_BYTES, n -= lanes * CHUNK_BYTES;
    }
    hash_chunk(stack[depth++], key, in, n, chunk, flags | (chunk ? 0 : ROOT));
    while (depth > 1) {
        join_nodes(stack[depth - 2], stack[depth - 1], key, flags | (depth == 2 ? ROOT : 0));
        depth--;
    }
    for (size_t i = 0; i < 32; i++)
        out[i] = (uint8_t)(stack[0][i / 4] >> (8 * (i % 4)));
}

static bool starts_with(const uint8_t *digest, uint64_t expected) {
    uint64_t got = 0;
    for (int i = 0; i < 8; i++)
        got = got << 8 | digest[i];
    return got == expected;
}

int blake_selftest(void) {
    static uint8_t message[5000];
    uint8_t digest[64];
    for (size_t i = 0; i < 1000; i++)
        message[i] = (uint8_t)(i * 7);
    blake_2b(digest, 64, NULL, 0, (const uint8_t *)"abc", 3);
    if (!starts_with(digest, 0xba80a53f981c4d0dull))
        return 1;
    blake_2b(digest, 64, NULL, 0, message, 1000);
    if (!starts_with(digest, 0xb49dc7bf928d7deeull))
        return 2;
    blake_2b(digest, 64, message, 64, message, 256);
    if (!starts_with(digest, 0x40ae6572f7f74da4ull))
        return 3;
    blake_2s(digest, 32, NULL, 0, (const uint8_t *)"abc", 3);
    if (!starts_with(digest, 0x508c5e8c327c14e2ull))
        return 4;
    blake_2s(digest, 32, message, 32, message, 1000);
    if (!starts_with(digest, 0xf733fb4d8bd1cf3full))
        return 5;
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (uint8_t)(i % 251);
    static const struct {
        size_t bytes;
        uint64_t start;
    } known[] = {{0, 0xaf1349b9f5f9a1a6ull}, {1, 0x2d3adedff11b61f1ull}, {1024, 0x42214739f095a406ull},
                 {1025, 0xd00278ae47eb27b3ull}, {5000, 0xee78d92070de3df1ull}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        blake_3(digest, NULL, message, known[i].bytes);
        if (!starts_with(digest, known[i].start))
            return 6 + (int)i;
    }
    uint8_t keyed[32];
    blake_3(keyed, message, message, 5000);
    return memcmp(keyed, digest, 32) ? 0 : 11;
}
