/* SHA-224, SHA-256, SHA-384 and SHA-512 with unrolled rounds, a two-lane SHA-256, HMAC and a Merkle root on top. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint32_t h[8];
    uint64_t length;
    uint8_t buffer[64];
    size_t fill;
} sha2_256_state;

typedef struct {
    uint64_t h[8];
    uint64_t length;
    uint8_t buffer[128];
    size_t fill;
} sha2_512_state;

/* The constants of SHA-256 are the upper halves of the first 64 constants of SHA-512. */
static const uint64_t round_constants[80] = {
    0x428a2f98d728ae22ull, 0x7137449123ef65cdull, 0xb5c0fbcfec4d3b2full, 0xe9b5dba58189dbbcull,
    0x3956c25bf348b538ull, 0x59f111f1b605d019ull, 0x923f82a4af194f9bull, 0xab1c5ed5da6d8118ull,
    0xd807aa98a3030242ull, 0x12835b0145706fbeull, 0x243185be4ee4b28cull, 0x550c7dc3d5ffb4e2ull,
    0x72be5d74f27b896full, 0x80deb1fe3b1696b1ull, 0x9bdc06a725c71235ull, 0xc19bf174cf692694ull,
    0xe49b69c19ef14ad2ull, 0xefbe4786384f25e3ull, 0x0fc19dc68b8cd5b5ull, 0x240ca1cc77ac9c65ull,
    0x2de92c6f592b0275ull, 0x4a7484aa6ea6e483ull, 0x5cb0a9dcbd41fbd4ull, 0x76f988da831153b5ull,
    0x983e5152ee66dfabull, 0xa831c66d2db43210ull, 0xb00327c898fb213full, 0xbf597fc7beef0ee4ull,
    0xc6e00bf33da88fc2ull, 0xd5a79147930aa725ull, 0x06ca6351e003826full, 0x142929670a0e6e70ull,
    0x27b70a8546d22ffcull, 0x2e1b21385c26c926ull, 0x4d2c6dfc5ac42aedull, 0x53380d139d95b3dfull,
    0x650a73548baf63deull, 0x766a0abb3c77b2a8ull, 0x81c2c92e47edaee6ull, 0x92722c851482353bull,
    0xa2bfe8a14cf10364ull, 0xa81a664bbc423001ull, 0xc24b8b70d0f89791ull, 0xc76c51a30654be30ull,
    0xd192e819d6ef5218ull, 0xd69906245565a910ull, 0xf40e35855771202aull, 0x106aa07032bbd1b8ull,
    0x19a4c116b8d2d0c8ull, 0x1e376c085141ab53ull, 0x2748774cdf8eeb99ull, 0x34b0bcb5e19b48a8ull,
    0x391c0cb3c5c95a63ull, 0x4ed8aa4ae3418acbull, 0x5b9cca4f7763e373ull, 0x682e6ff3d6b2b8a3ull,
    0x748f82ee5defb2fcull, 0x78a5636f43172f60ull, 0x84c87814a1f0ab72ull, 0x8cc702081a6439ecull,
    0x90befffa23631e28ull, 0xa4506cebde82bde9ull, 0xbef9a3f7b2c67915ull, 0xc67178f2e372532bull,
    0xca273eceea26619cull, 0xd186b8c721c0c207ull, 0xeada7dd6cde0eb1eull, 0xf57d4f7fee6ed178ull,
    0x06f067aa72176fbaull, 0x0a637dc5a2c898a6ull, 0x113f9804bef90daeull, 0x1b710b35131c471bull,
    0x28db77f523047d84ull, 0x32caab7b40c72493ull, 0x3c9ebe0a15c9bebcull, 0x431d67c49c100d4cull,
    0x4cc5d4becb3e42b6ull, 0x597f299cfc657e2aull, 0x5fcb6fab3ad6faecull, 0x6c44198c4a475817ull,
};

#define ROR32(x, n) ((uint32_t)((x) >> (n)) | (uint32_t)((x) << (32 - (n))))
#define ROR64(x, n) ((uint64_t)((x) >> (n)) | (uint64_t)((x) << (64 - (n))))
#define LOAD32(p)                                                                                                      \
    ((uint32_t)(p)[0] << 24 | (uint32_t)(p)[1] << 16 | (uint32_t)(p)[2] << 8 | (uint32_t)(p)[3])
#define LOAD64(p) ((uint64_t)LOAD32(p) << 32 | LOAD32((p) + 4))
#define CHOOSE(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define MAJORITY(x, y, z) (((x) & (y)) | ((z) & ((x) | (y))))

#define BIG0_32(x) (ROR32(x, 2) ^ ROR32(x, 13) ^ ROR32(x, 22))
#define BIG1_32(x) (ROR32(x, 6) ^ ROR32(x, 11) ^ ROR32(x, 25))
#define SMALL0_32(x) (ROR32(x, 7) ^ ROR32(x, 18) ^ ((x) >> 3))
#define SMALL1_32(x) (ROR32(x, 17) ^ ROR32(x, 19) ^ ((x) >> 10))
#define BIG0_64(x) (ROR64(x, 28) ^ ROR64(x, 34) ^ ROR64(x, 39))
#define BIG1_64(x) (ROR64(x, 14) ^ ROR64(x, 18) ^ ROR64(x, 41))
#define SMALL0_64(x) (ROR64(x, 1) ^ ROR64(x, 8) ^ ((x) >> 7))
#define SMALL1_64(x) (ROR64(x, 19) ^ ROR64(x, 61) ^ ((x) >> 6))

#define STEP32(a, b, c, d, e, f, g, h, w, i)                                                                           \
    do {                                                                                                               \
        uint32_t t1 = h + BIG1_32(e) + CHOOSE(e, f, g) + (uint32_t)(round_constants[t + (i)] >> 32) + w;               \
        d += t1;                                                                                                       \
        h = t1 + BIG0_32(a) + MAJORITY(a, b, c);                                                                       \
    } while (0)

#define STEP64(a, b, c, d, e, f, g, h, w, i)                                                                           \
    do {                                                                                                               \
        uint64_t t1 = h + BIG1_64(e) + CHOOSE(e, f, g) + round_constants[t + (i)] + w;                                 \
        d += t1;                                                                                                       \
        h = t1 + BIG0_64(a) + MAJORITY(a, b, c);                                                                       \
    } while (0)

#define EXPAND32(w0, w1, w9, w14) w0 += SMALL0_32(w1) + w9 + SMALL1_32(w14)
#define EXPAND64(w0, w1, w9, w14) w0 += SMALL0_64(w1) + w9 + SMALL1_64(w14)

#define SIXTEEN(STEP, a, b, c, d, e, f, g, h, w)                                                                       \
    STEP(a, b, c, d, e, f, g, h, w##0, 0);                                                                             \
    STEP(h, a, b, c, d, e, f, g, w##1, 1);                                                                             \
    STEP(g, h, a, b, c, d, e, f, w##2, 2);                                                                             \
    STEP(f, g, h, a, b, c, d, e, w##3, 3);                                                                             \
    STEP(e, f, g, h, a, b, c, d, w##4, 4);                                                                             \
    STEP(d, e, f, g, h, a, b, c, w##5, 5);                                                                             \
    STEP(c, d, e, f, g, h, a, b, w##6, 6);                                                                             \
    STEP(b, c, d, e, f, g, h, a, w##7, 7);                                                                             \
    STEP(a, b, c, d, e, f, g, h, w##8, 8);                                                                             \
    STEP(h, a, b, c, d, e, f, g, w##9, 9);                                                                             \
    STEP(g, h, a, b, c, d, e, f, w##10, 10);                                                                           \
    STEP(f, g, h, a, b, c, d, e, w##11, 11);                                                                           \
    STEP(e, f, g, h, a, b, c, d, w##12, 12);                                                                           \
    STEP(d, e, f, g, h, a, b, c, w##13, 13);                                                                           \
    STEP(c, d, e, f, g, h, a, b, w##14, 14);                                                                           \
    STEP(b, c, d, e, f, g, h, a, w##15, 15)

#define SCHEDULE(EXPAND, w)                                                                                            \
    EXPAND(w##0, w##1, w##9, w##14);                                                                                   \
    EXPAND(w##1, w##2, w##10, w##15);                                                                                  \
    EXPAND(w##2, w##3, w##11, w##0);                                                                                   \
    EXPAND(w##3, w##4, w##12, w##1);                                                                                   \
    EXPAND(w##4, w##5, w##13, w##2);                                                                                   \
    EXPAND(w##5, w##6, w##14, w##3);                                                                                   \
    EXPAND(w##6, w##7, w##15, w##4);                                                                                   \
    EXPAND(w##7, w##8, w##0, w##5);                                                                                    \
    EXPAND(w##8, w##9, w##1, w##6);                                                                                    \
    EXPAND(w##9, w##10, w##2, w##7);                                                                                   \
    EXPAND(w##10, w##11, w##3, w##8);                                                                                  \
    EXPAND(w##11, w##12, w##4, w##9);                                                                                  \
    EXPAND(w##12, w##13, w##5, w##10);                                                                                 \
    EXPAND(w##13, w##14, w##6, w##11);                                                                                 \
    EXPAND(w##14, w##15, w##7, w##12);                                                                                 \
    EXPAND(w##15, w##0, w##8, w##13)

#define LOAD_WORDS(TYPE, LOAD, p, n, w)                                                                                \
    TYPE w##0 = LOAD(p), w##1 = LOAD((p) + n), w##2 = LOAD((p) + 2 * n), w##3 = LOAD((p) + 3 * n);                     \
    TYPE w##4 = LOAD((p) + 4 * n), w##5 = LOAD((p) + 5 * n), w##6 = LOAD((p) + 6 * n), w##7 = LOAD((p) + 7 * n);       \
    TYPE w##8 = LOAD((p) + 8 * n), w##9 = LOAD((p) + 9 * n), w##10 = LOAD((p) + 10 * n), w##11 = LOAD((p) + 11 * n);   \
    TYPE w##12 = LOAD((p) + 12 * n), w##13 = LOAD((p) + 13 * n), w##14 = LOAD((p) + 14 * n);                           \
    TYPE w##15 = LOAD((p) + 15 * n)

void sha2_256_compress(uint32_t state[8], const uint8_t *data, size_t blocks) {
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    while (blocks--) {
        LOAD_WORDS(uint32_t, LOAD32, data, 4, w);
        for (size_t t = 0;; t += 16) {
            SIXTEEN(STEP32, a, b, c, d, e, f, g, h, w);
            if (t == 48)
                break;
            SCHEDULE(EXPAND32, w);
        }
        a = state[0] += a, b = state[1] += b, c = state[2] += c, d = state[3] += d;
        e = state[4] += e, f = state[5] += f, g = state[6] += g, h = state[7] += h;
        data += 64;
    }
}

void sha2_512_compress(uint64_t state[8], const uint8_t *data, size_t blocks) {
    uint64_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint64_t e = state[4], f = state[5], g = state[6], h = state[7];
    while (blocks--) {
        LOAD_WORDS(uint64_t, LOAD64, data, 8, w);
        for (size_t t = 0;; t += 16) {
            SIXTEEN(STEP64, a, b, c, d, e, f, g, h, w);
            if (t == 64)
                break;
            SCHEDULE(EXPAND64, w);
        }
        a = state[0] += a, b = state[1] += b, c = state[2] += c, d = state[3] += d;
        e = state[4] += e, f = state[5] += f, g = state[6] += g, h = state[7] += h;
        data += 128;
    }
}

/* Two independent blocks side by side, so that a wide core can overlap their dependency chains. */
void sha2_256_compress_pair(uint32_t left[8], uint32_t right[8], const uint8_t *p, const uint8_t *q) {
    uint32_t a = left[0], b = left[1], c = left[2], d = left[3];
    uint32_t e = left[4], f = left[5], g = left[6], h = left[7];
    uint32_t k = right[0], l = right[1], m = right[2], n = right[3];
    uint32_t o = right[4], r = right[5], s = right[6], u = right[7];
    LOAD_WORDS(uint32_t, LOAD32, p, 4, w);
    LOAD_WORDS(uint32_t, LOAD32, q, 4, x);
    for (size_t t = 0;; t += 16) {
        SIXTEEN(STEP32, a, b, c, d, e, f, g, h, w);
        SIXTEEN(STEP32, k, l, m, n, o, r, s, u, x);
        if (t == 48)
            break;
        SCHEDULE(EXPAND32, w);
        SCHEDULE(EXPAND32, x);
    }
    left[0] += a, left[1] += b, left[2] += c, left[3] += d, left[4] += e, left[5] += f, left[6] += g, left[7] += h;
    right[0] += k, right[1] += l, right[2] += m, right[3] += n;
    right[4] += o, right[5] += r, right[6] += s, right[7] += u;
}

static const uint64_t start_512[8] = {0x6a09e667f3bcc908ull, 0xbb67ae8584caa73bull, 0x3c6ef372fe94f82bull,
                                      0xa54ff53a5f1d36f1ull, 0x510e527fade682d1ull, 0x9b05688c2b3e6c1full,
                                      0x1f83d9abfb41bd6bull, 0x5be0cd19137e2179ull};
static const uint64_t start_384[8] = {0xcbbb9d5dc1059ed8ull, 0x629a292a367cd507ull, 0x9159015a3070dd17ull,
                                      0x152fecd8f70e5939ull, 0x67332667ffc00b31ull, 0x8eb44a8768581511ull,
                                      0xdb0c2e0d64f98fa7ull, 0x47b5481dbefa4fa4ull};

void sha2_256_init(sha2_256_state *s, bool short_digest) {
    memset(s, 0, sizeof *s);
    for (int i = 0; i < 8; i++)
        s->h[i] = short_digest ? (uint32_t)start_384[i] : (uint32_t)(start_512[i] >> 32);
}

void sha2_512_init(sha2_512_state *s, bool short_digest) {
    memset(s, 0, sizeof *s);
    memcpy(s->h, short_digest ? start_384 : start_512, sizeof s->h);
}

#define DEFINE_STREAM(NAME, STATE, BLOCK, COMPRESS, WORD_BITS)                                                         \
    void NAME##_update(STATE *s, const uint8_t *data, size_t n) {                                                      \
        s->length += n;                                                                                                \
        if (s->fill) {                                                                                                 \
            size_t take = n < (BLOCK) - s->fill ? n : (BLOCK) - s->fill;                                               \
            memcpy(s->buffer + s->fill, data, take);                                                                   \
            s->fill += take, data += take, n -= take;                                                                  \
            if (s->fill < (BLOCK))                                                                                     \
                return;                                                                                                \
            COMPRESS(s->h, s->buffer, 1);                                                                              \
            s->fill = 0;                                                                                               \
        }                                                                                                              \
        if (n >= (BLOCK))                                                                                              \
            COMPRESS(s->h, data, n / (BLOCK));                                                                         \
        s->fill = n % (BLOCK);                                                                                         \
        memcpy(s->buffer, data + (n - s->fill), s->fill);                                                              \
    }                                                                                                                  \
    void NAME##_final(STATE *s, uint8_t *digest, size_t bytes) {                                                       \
        s->buffer[s->fill++] = 0x80;                                                                                   \
        memset(s->buffer + s->fill, 0, (BLOCK) - s->fill);                                                             \
        if (s->fill > (BLOCK) - (BLOCK) / 8) {                                                                         \
            COMPRESS(s->h, s->buffer, 1);                                                                              \
            memset(s->buffer, 0, (BLOCK));                                                                             \
        }                                                                                                              \
        for (int i = 0; i < 8; i++)                                                                                    \
            s->buffer[(BLOCK) - 1 - i] = (uint8_t)(s->length * 8 >> (8 * i));                                          \
        COMPRESS(s->h, s->buffer, 1);                                                                                  \
        for (size_t i = 0; i < bytes; i++)                                                                             \
            digest[i] = (uint8_t)(s->h[i / ((WORD_BITS) / 8)] >> ((WORD_BITS) - 8 - 8 * (i % ((WORD_BITS) / 8))));     \
    }

DEFINE_STREAM(sha2_256, sha2_256_state, 64, sha2_256_compress, 32)
DEFINE_STREAM(sha2_512, sha2_512_state, 128, sha2_512_compress, 64)

void sha2_hmac_256(const uint8_t *key, size_t key_bytes, const uint8_t *text, size_t n, uint8_t tag[32]) {
    uint8_t pad[64] = {0};
    sha2_256_state s;
    if (key_bytes > 64) {
        sha2_256_init(&s, false);
        sha2_256_update(&s, key, key_bytes);
        sha2_256_final(&s, pad, 32);
    } else {
        memcpy(pad, key, key_bytes);
    }
    for (int i = 0; i < 64; i++)
        pad[i] ^= 0x36;
    sha2_256_init(&s, false);
    sha2_256_update(&s, pad, 64);
    sha2_256_update(&s, text, n);
    sha2_256_final(&s, tag, 32);
    for (int i = 0; i < 64; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    sha2_256_init(&s, false);
    sha2_256_update(&s, pad, 64);
    sha2_256_update(&s, tag, 32);
    sha2_256_final(&s, tag, 32);
}

/* The bare compression of two adjacent pairs of nodes per call; an odd node moves up unchanged. */
void sha2_merkle_root(uint32_t (*nodes)[8], size_t count) {
    while (count > 1) {
        size_t out = 0, i = 0;
        for (; i + 2 <= count; i += 2) {
            uint8_t block[2][64];
            uint32_t h[2][8];
            size_t lanes = i + 4 <= count ? 2 : 1;
            for (size_t lane = 0; lane < 2; lane++)
                for (size_t j = 0; j < 64; j++) {
                    size_t node = i + 2 * (lane < lanes ? lane : 0) + j / 32;
                    block[lane][j] = (uint8_t)(nodes[node][j % 32 / 4] >> (24 - 8 * (j % 4)));
                }
            for (int j = 0; j < 8; j++)
                h[0][j] = h[1][j] = (uint32_t)(start_512[j] >> 32);
            sha2_256_compress_pair(h[0], h[1], block[0], block[1]);
            memcpy(nodes[out++], h[0], sizeof h[0]);
            if (lanes == 2) {
                memcpy(nodes[out++], h[1], sizeof h[1]);
                i += 2;
            }
        }
        if (i < count)
            memmove(nodes[out++], nodes[i], sizeof nodes[0]);
        count = out;
    }
}

static bool starts_with(const uint8_t *digest, uint64_t expected) { return LOAD64(digest) == expected; }

int sha2_selftest(void) {
    uint8_t message[1000], digest[64];
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (uint8_t)(i * 7);
    sha2_256_state s;
    sha2_512_state l;
    static const uint64_t expected[4][2] = {{0x23097d223405d822ull, 0x4c334cc5a6654620ull},
                                            {0xba7816bf8f01cfeaull, 0x89f4ff56a25dd1dbull},
                                            {0xcb00753f45a35e8bull, 0x81003a03bf67b852ull},
                                            {0xddaf35a193617abaull, 0x5c3d2be85b82f8acull}};
    for (int kind = 0; kind < 2; kind++) {
        for (int text = 0; text < 2; text++) {
            const uint8_t *data = text ? message : (const uint8_t *)"abc";
            size_t n = text ? sizeof message : 3, cut = text ? 333 : 1;
            sha2_256_init(&s, kind == 0);
            sha2_256_update(&s, data, cut);
            sha2_256_update(&s, data + cut, n - cut);
            sha2_256_final(&s, digest, kind ? 32 : 28);
            if (!starts_with(digest, expected[kind][text]))
                return 1 + kind;
            sha2_512_init(&l, kind == 0);
            sha2_512_update(&l, data, cut);
            sha2_512_update(&l, data + cut, n - cut);
            sha2_512_final(&l, digest, kind ? 64 : 48);
            if (!starts_with(digest, expected[2 + kind][text]))
                return 3 + kind;
        }
    }
    sha2_hmac_256((const uint8_t *)"Jefe", 4, (const uint8_t *)"what do ya want for nothing?", 28, digest);
    if (!starts_with(digest, 0x5bdcc146bf60754eull))
        return 5;
    uint32_t pair[2][8], single[2][8], tree[5][8];
    for (int i = 0; i < 8; i++)
        pair[0][i] = single[0][i] = message[i], pair[1][i] = single[1][i] = message[i + 8];
    sha2_256_compress_pair(pair[0], pair[1], message, message + 64);
    sha2_256_compress(single[0], message, 1);
    sha2_256_compress(single[1], message + 64, 1);
    if (memcmp(pair, single, sizeof pair))
        return 6;
    for (int i = 0; i < 40; i++)
        tree[i / 8][i % 8] = (uint32_t)i * 2654435761u;
    uint32_t changed[5][8];
    memcpy(changed, tree, sizeof tree);
    changed[4][7] ^= 1;
    sha2_merkle_root(tree, 5);
    sha2_merkle_root(changed, 5);
    return memcmp(tree[0], changed[0], sizeof tree[0]) ? 0 : 7;
}
