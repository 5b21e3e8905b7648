/* ChaCha20 (one or two blocks at a time), HChaCha20, Poly1305 on 26-bit limbs, and the AEAD built from them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint32_t r[5], square[5], h[5], pad[4];
    uint8_t buffer[32];
    size_t fill;
} chacha_poly_state;

#define ROL32(x, n) ((uint32_t)((x) << (n)) | (uint32_t)((x) >> (32 - (n))))
#define LOAD32(p)                                                                                                      \
    ((uint32_t)(p)[0] | (uint32_t)(p)[1] << 8 | (uint32_t)(p)[2] << 16 | (uint32_t)(p)[3] << 24)

#define QUARTER(a, b, c, d)                                                                                            \
    do {                                                                                                               \
        a += b, d = ROL32(d ^ a, 16);                                                                                  \
        c += d, b = ROL32(b ^ c, 12);                                                                                  \
        a += b, d = ROL32(d ^ a, 8);                                                                                   \
        c += d, b = ROL32(b ^ c, 7);                                                                                   \
    } while (0)

#define DOUBLE_ROUND(x)                                                                                                \
    QUARTER(x##0, x##4, x##8, x##12);                                                                                  \
    QUARTER(x##1, x##5, x##9, x##13);                                                                                  \
    QUARTER(x##2, x##6, x##10, x##14);                                                                                 \
    QUARTER(x##3, x##7, x##11, x##15);                                                                                 \
    QUARTER(x##0, x##5, x##10, x##15);                                                                                 \
    QUARTER(x##1, x##6, x##11, x##12);                                                                                 \
    QUARTER(x##2, x##7, x##8, x##13);                                                                                  \
    QUARTER(x##3, x##4, x##9, x##14)

#define FOUR_ROUNDS(x)                                                                                                 \
    DOUBLE_ROUND(x);                                                                                                   \
    DOUBLE_ROUND(x)
#define TWENTY_ROUNDS(x)                                                                                               \
    FOUR_ROUNDS(x);                                                                                                    \
    FOUR_ROUNDS(x);                                                                                                    \
    FOUR_ROUNDS(x);                                                                                                    \
    FOUR_ROUNDS(x);                                                                                                    \
    FOUR_ROUNDS(x)

#define DECLARE_STATE(x, s)                                                                                            \
    uint32_t x##0 = s[0], x##1 = s[1], x##2 = s[2], x##3 = s[3], x##4 = s[4], x##5 = s[5], x##6 = s[6], x##7 = s[7];   \
    uint32_t x##8 = s[8], x##9 = s[9], x##10 = s[10], x##11 = s[11], x##12 = s[12], x##13 = s[13], x##14 = s[14];      \
    uint32_t x##15 = s[15]

static void store32(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)v, p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16), p[3] = (uint8_t)(v >> 24);
}

void chacha_setup(uint32_t state[16], const uint8_t key[32], const uint8_t nonce[12], uint32_t counter) {
    state[0] = 0x61707865, state[1] = 0x3320646e, state[2] = 0x79622d32, state[3] = 0x6b206574;
    for (int i = 0; i < 8; i++)
        state[4 + i] = LOAD32(key + 4 * i);
    state[12] = counter;
    for (int i = 0; i < 3; i++)
        state[13 + i] = LOAD32(nonce + 4 * i);
}

void chacha_block(uint32_t out[16], const uint32_t s[16]) {
    DECLARE_STATE(x, s);
    TWENTY_ROUNDS(x);
    out[0] = x0 + s[0], out[1] = x1 + s[1], out[2] = x2 + s[2], out[3] = x3 + s[3];
    out[4] = x4 + s[4], out[5] = x5 + s[5], out[6] = x6 + s[6], out[7] = x7 + s[7];
    out[8] = x8 + s[8], out[9] = x9 + s[9], out[10] = x10 + s[10], out[11] = x11 + s[11];
    out[12] = x12 + s[12], out[13] = x13 + s[13], out[14] = x14 + s[14], out[15] = x15 + s[15];
}

/* Two consecutive counters with their rounds interleaved. */
void chacha_block_pair(uint32_t out[32], const uint32_t s[16]) {
    DECLARE_STATE(x, s);
    DECLARE_STATE(y, s);
    y12++;
    for (int round = 0; round < 10; round++) {
        DOUBLE_ROUND(x);
        DOUBLE_ROUND(y);
    }
    out[0] = x0 + s[0], out[1] = x1 + s[1], out[2] = x2 + s[2], out[3] = x3 + s[3];
    out[4] = x4 + s[4], out[5] = x5 + s[5], out[6] = x6 + s[6], out[7] = x7 + s[7];
    out[8] = x8 + s[8], out[9] = x9 + s[9], out[10] = x10 + s[10], out[11] = x11 + s[11];
    out[12] = x12 + s[12], out[13] = x13 + s[13], out[14] = x14 + s[14], out[15] = x15 + s[15];
    out[16] = y0 + s[0], out[17] = y1 + s[1], out[18] = y2 + s[2], out[19] = y3 + s[3];
    out[20] = y4 + s[4], out[21] = y5 + s[5], out[22] = y6 + s[6], out[23] = y7 + s[7];
    out[24] = y8 + s[8], out[25] = y9 + s[9], out[26] = y10 + s[10], out[27] = y11 + s[11];
    out[28] = y12 + s[12] + 1, out[29] = y13 + s[13], out[30] = y14 + s[14], out[31] = y15 + s[15];
}

/* Derives a sub-key from a key and 16 bytes of nonce. */
void chacha_hash(uint8_t out[32], const uint8_t key[32], const uint8_t nonce[16]) {
    uint32_t x0 = 0x61707865, x1 = 0x3320646e, x2 = 0x79622d32, x3 = 0x6b206574;
    uint32_t x4 = LOAD32(key), x5 = LOAD32(key + 4), x6 = LOAD32(key + 8), x7 = LOAD32(key + 12);
    uint32_t x8 = LOAD32(key + 16), x9 = LOAD32(key + 20), x10 = LOAD32(key + 24), x11 = LOAD32(key + 28);
    uint32_t x12 = LOAD32(nonce), x13 = LOAD32(nonce + 4), x14 = LOAD32(nonce + 8), x15 = LOAD32(nonce + 12);
    TWENTY_ROUNDS(x);
    store32(out, x0), store32(out + 4, x1), store32(out + 8, x2), store32(out + 12, x3);
    store32(out + 16, x12), store32(out + 20, x13), store32(out + 24, x14), store32(out + 28, x15);
}

void chacha_xor(uint8_t *out, const uint8_t *in, size_t n, uint32_t state[16]) {
    uint32_t stream[32];
    while (n) {
        size_t take = n < 128 ? n : 128;
        if (take > 64) {
            chacha_block_pair(stream, state);
            state[12] += 2;
        } else {
            chacha_block(stream, state);
            state[12]++;
        }
        for (size_t i = 0; i < take; i++)
            out[i] = in[i] ^ (uint8_t)(stream[i / 4] >> (8 * (i % 4)));
        out += take, in += take, n -= take;
    }
}

#define CARRY_CHAIN(d0, d1, d2, d3, d4)                                                                                \
    do {                                                                                                               \
        d1 += d0 >> 26, d2 += d1 >> 26, d3 += d2 >> 26, d4 += d3 >> 26;                                                \
        h0 = ((uint32_t)d0 & 0x3ffffff) + (uint32_t)(d4 >> 26) * 5;                                                    \
        h1 = ((uint32_t)d1 & 0x3ffffff) + (h0 >> 26);                                                                  \
        h0 &= 0x3ffffff, h2 = (uint32_t)d2 & 0x3ffffff;                                                                \
        h3 = (uint32_t)d3 & 0x3ffffff, h4 = (uint32_t)d4 & 0x3ffffff;                                                  \
    } while (0)

#define MUL(a, b) ((uint64_t)(a) * (b))

#define SPLIT_BLOCK(p, top)                                                                                            \
    h0 += LOAD32(p) & 0x3ffffff;                                                                                       \
    h1 += (LOAD32((p) + 3) >> 2) & 0x3ffffff;                                                                          \
    h2 += (LOAD32((p) + 6) >> 4) & 0x3ffffff;                                                                          \
    h3 += (LOAD32((p) + 9) >> 6) & 0x3ffffff;                                                                          \
    h4 += (LOAD32((p) + 12) >> 8) | (uint32_t)(top) << 24

void chacha_poly_block(uint32_t h[5], const uint32_t r[5], const uint8_t *p, bool whole) {
    uint32_t h0 = h[0], h1 = h[1], h2 = h[2], h3 = h[3], h4 = h[4];
    uint32_t r0 = r[0], r1 = r[1], r2 = r[2], r3 = r[3], r4 = r[4];
    uint32_t s1 = r1 * 5, s2 = r2 * 5, s3 = r3 * 5, s4 = r4 * 5;
    SPLIT_BLOCK(p, whole);
    uint64_t d0 = MUL(h0, r0) + MUL(h1, s4) + MUL(h2, s3) + MUL(h3, s2) + MUL(h4, s1);
    uint64_t d1 = MUL(h0, r1) + MUL(h1, r0) + MUL(h2, s4) + MUL(h3, s3) + MUL(h4, s2);
    uint64_t d2 = MUL(h0, r2) + MUL(h1, r1) + MUL(h2, r0) + MUL(h3, s4) + MUL(h4, s3);
    uint64_t d3 = MUL(h0, r3) + MUL(h1, r2) + MUL(h2, r1) + MUL(h3, r0) + MUL(h4, s4);
    uint64_t d4 = MUL(h0, r4) + MUL(h1, r3) + MUL(h2, r2) + MUL(h3, r1) + MUL(h4, r0);
    CARRY_CHAIN(d0, d1, d2, d3, d4);
    h[0] = h0, h[1] = h1, h[2] = h2, h[3] = h3, h[4] = h4;
}

/* (h + m0) * r^2 + m1 * r per step: the two products share one carry chain. */
void chacha_poly_block_pairs(uint32_t h[5], const uint32_t r[5], const uint32_t square[5], const uint8_t *p,
                             size_t pairs) {
    uint32_t h0 = h[0], h1 = h[1], h2 = h[2], h3 = h[3], h4 = h[4];
    uint32_t r0 = r[0], r1 = r[1], r2 = r[2], r3 = r[3], r4 = r[4];
    uint32_t s1 = r1 * 5, s2 = r2 * 5, s3 = r3 * 5, s4 = r4 * 5;
    uint32_t q0 = square[0], q1 = square[1], q2 = square[2], q3 = square[3], q4 = square[4];
    uint32_t t1 = q1 * 5, t2 = q2 * 5, t3 = q3 * 5, t4 = q4 * 5;
    for (; pairs; pairs--, p += 32) {
        SPLIT_BLOCK(p, 1);
        uint32_t g0 = LOAD32(p + 16) & 0x3ffffff, g1 = (LOAD32(p + 19) >> 2) & 0x3ffffff;
        uint32_t g2 = (LOAD32(p + 22) >> 4) & 0x3ffffff, g3 = (LOAD32(p + 25) >> 6) & 0x3ffffff;
        uint32_t g4 = (LOAD32(p + 28) >> 8) | 1u << 24;
        uint64_t d0 = MUL(h0, q0) + MUL(h1, t4) + MUL(h2, t3) + MUL(h3, t2) + MUL(h4, t1);
        uint64_t d1 = MUL(h0, q1) + MUL(h1, q0) + MUL(h2, t4) + MUL(h3, t3) + MUL(h4, t2);
        uint64_t d2 = MUL(h0, q2) + MUL(h1, q1) + MUL(h2, q0) + MUL(h3, t4) + MUL(h4, t3);
        uint64_t d3 = MUL(h0, q3) + MUL(h1, q2) + MUL(h2, q1) + MUL(h3, q0) + MUL(h4, t4);
        uint64_t d4 = MUL(h0, q4) + MUL(h1, q3) + MUL(h2, q2) + MUL(h3, q1) + MUL(h4, q0);
        d0 += MUL(g0, r0) + MUL(g1, s4) + MUL(g2, s3) + MUL(g3, s2) + MUL(g4, s1);
        d1 += MUL(g0, r1) + MUL(g1, r0) + MUL(g2, s4) + MUL(g3, s3) + MUL(g4, s2);
        d2 += MUL(g0, r2) + MUL(g1, r1) + MUL(g2, r0) + MUL(g3, s4) + MUL(g4, s3);
        d3 += MUL(g0, r3) + MUL(g1, r2) + MUL(g2, r1) + MUL(g3, r0) + MUL(g4, s4);
        d4 += MUL(g0, r4) + MUL(g1, r3) + MUL(g2, r2) + MUL(g3, r1) + MUL(g4, r0);
        CARRY_CHAIN(d0, d1, d2, d3, d4);
    }
    h[0] = h0, h[1] = h1, h[2] = h2, h[3] = h3, h[4] = h4;
}

void chacha_poly_init(chacha_poly_state *s, const uint8_t key[32]) {
    static const uint8_t zero[16];
    memset(s, 0, sizeof *s);
    s->r[0] = LOAD32(key) & 0x3ffffff;
    s->r[1] = (LOAD32(key + 3) >> 2) & 0x3ffff03;
    s->r[2] = (LOAD32(key + 6) >> 4) & 0x3ffc0ff;
    s->r[3] = (LOAD32(key + 9) >> 6) & 0x3f03fff;
    s->r[4] = (LOAD32(key + 12) >> 8) & 0x00fffff;
    memcpy(s->square, s->r, sizeof s->r);
    chacha_poly_block(s->square, s->r, zero, false);
    for (int i = 0; i < 4; i++)
        s->pad[i] = LOAD32(key + 16 + 4 * i);
}

void chacha_poly_update(chacha_poly_state *s, const uint8_t *p, size_t n) {
    while (n) {
        if (s->fill == 0 && n >= 32) {
            chacha_poly_block_pairs(s->h, s->r, s->square, p, n / 32);
            p += n & ~(size_t)31, n &= 31;
            continue;
        }
        s->buffer[s->fill++] = *p++;
        n--;
        if (s->fill == 32) {
            chacha_poly_block_pairs(s->h, s->r, s->square, s->buffer, 1);
            s->fill = 0;
        }
    }
}

void chacha_poly_final(chacha_poly_state *s, uint8_t tag[16]) {
    size_t tail = s->fill % 16;
    if (s->fill >= 16)
        chacha_poly_block(s->h, s->r, s->buffer, true);
    if (tail) {
        uint8_t last[16] = {0};
        memcpy(last, s->buffer + s->fill - tail, tail);
        last[tail] = 1;
        chacha_poly_block(s->h, s->r, last, false);
    }
    uint32_t h0 = s->h[0], h1 = s->h[1], h2 = s->h[2], h3 = s->h[3], h4 = s->h[4];
    h2 += h1 >> 26, h3 += h2 >> 26, h4 += h3 >> 26, h0 += (h4 >> 26) * 5, h1 &= 0x3ffffff;
    h1 += h0 >> 26, h0 &= 0x3ffffff, h2 &= 0x3ffffff, h3 &= 0x3ffffff, h4 &= 0x3ffffff;
    uint32_t g0 = h0 + 5, g1 = h1 + (g0 >> 26), g2 = h2 + (g1 >> 26), g3 = h3 + (g2 >> 26), g4 = h4 + (g3 >> 26);
    uint32_t above = 0u - (g4 >> 26), below = ~above;
    h0 = (h0 & below) | (g0 & 0x3ffffff & above), h1 = (h1 & below) | (g1 & 0x3ffffff & above);
    h2 = (h2 & below) | (g2 & 0x3ffffff & above), h3 = (h3 & below) | (g3 & 0x3ffffff & above);
    h4 = (h4 & below) | (g4 & 0x3ffffff & above);
    uint64_t f = (uint64_t)(h0 | h1 << 26) + s->pad[0];
    store32(tag, (uint32_t)f);
    f = (uint64_t)(h1 >> 6 | h2 << 20) + s->pad[1] + (f >> 32);
    store32(tag + 4, (uint32_t)f);
    f = (uint64_t)(h2 >> 12 | h3 << 14) + s->pad[2] + (f >> 32);
    store32(tag + 8, (uint32_t)f);
    f = (uint64_t)(h3 >> 18 | h4 << 8) + s->pad[3] + (f >> 32);
    store32(tag + 12, (uint32_t)f);
}

static void authenticate(uint8_t tag[16], const uint32_t state[16], const uint8_t *aad, size_t aad_bytes,
                         const uint8_t *text, size_t n) {
    static const uint8_t zero[16];
    uint8_t key[32], lengths[16];
    uint32_t first[16];
    chacha_poly_state poly;
    chacha_block(first, state);
    for (int i = 0; i < 8; i++)
        store32(key + 4 * i, first[i]);
    chacha_poly_init(&poly, key);
    chacha_poly_update(&poly, aad, aad_bytes);
    chacha_poly_update(&poly, zero, -aad_bytes & 15);
    chacha_poly_update(&poly, text, n);
    chacha_poly_update(&poly, zero, -n & 15);
    for (int i = 0; i < 8; i++) {
        lengths[i] = (uint8_t)((uint64_t)aad_bytes >> (8 * i));
        lengths[8 + i] = (uint8_t)((uint64_t)n >> (8 * i));
    }
    chacha_poly_update(&poly, lengths, 16);
    chacha_poly_final(&poly, tag);
}

void chacha_seal(uint8_t *out, uint8_t tag[16], const uint8_t key[32], const uint8_t nonce[12], const uint8_t *aad,
                 size_t aad_bytes, const uint8_t *in, size_t n) {
    uint32_t state[16], body[16];
    chacha_setup(state, key, nonce, 0);
    memcpy(body, state, sizeof body);
    body[12] = 1;
    chacha_xor(out, in, n, body);
    authenticate(tag, state, aad, aad_bytes, out, n);
}

bool chacha_open(uint8_t *out, const uint8_t tag[16], const uint8_t key[32], const uint8_t nonce[12],
                 const uint8_t *aad, size_t aad_bytes, const uint8_t *in, size_t n) {
    uint32_t state[16];
    uint8_t expected[16], difference = 0;
    chacha_setup(state, key, nonce, 0);
    authenticate(expected, state, aad, aad_bytes, in, n);
    for (int i = 0; i < 16; i++)
        difference |= expected[i] ^ tag[i];
    if (difference)
        return false;
    state[12] = 1;
    chacha_xor(out, in, n, state);
    return true;
}

int chacha_selftest(void) {
    static const char text[] = "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
                               "future, sunscreen would be it.";
    static const uint8_t nonce[16] = {0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0, 0x31, 0x41, 0x59, 0x27};
    static const uint8_t aead_nonce[12] = {7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47};
    static const uint8_t aad[12] = {0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7};
    static const uint8_t aead_tag[16] = {0x1a, 0xe1, 0x0b, 0x59, 0x4f, 0x09, 0xe2, 0x6a,
                                         0x7e, 0x90, 0x2e, 0xcb, 0xd0, 0x60, 0x06, 0x91};
    static const uint8_t poly_key[32] = {0x85, 0xd6, 0xbe, 0x78, 0x57, 0x55, 0x6d, 0x33, 0x7f, 0x44, 0x52,
                                         0xfe, 0x42, 0xd5, 0x06, 0xa8, 0x01, 0x03, 0x80, 0x8a, 0xfb, 0x0d,
                                         0xb2, 0xfd, 0x4a, 0xbf, 0xf6, 0xaf, 0x41, 0x49, 0xf5, 0x1b};
    uint8_t key[32], out[256], back[256], tag[16];
    uint32_t state[16], stream[32], next[16];
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)i;
    chacha_setup(state, key, nonce, 1);
    chacha_block(stream, state);
    if (stream[0] != 0xe4e7f110 || stream[15] != 0x4e3c50a2)
        return 1;
    chacha_block_pair(stream, state);
    state[12]++;
    chacha_block(next, state);
    if (stream[0] != 0xe4e7f110 || memcmp(stream + 16, next, sizeof next))
        return 2;
    chacha_hash(out, key, nonce);
    if (LOAD32(out) != 0x423b4182 || LOAD32(out + 28) != 0xdcecd326)
        return 3;
    chacha_poly_state poly;
    chacha_poly_init(&poly, poly_key);
    chacha_poly_update(&poly, (const uint8_t *)"Cryptographic Forum Research Group", 34);
    chacha_poly_final(&poly, tag);
    if (LOAD32(tag) != 0xc11d06a8 || LOAD32(tag + 12) != 0xa927010c)
        return 4;
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)(0x80 + i);
    size_t n = sizeof text - 1;
    chacha_seal(out, tag, key, aead_nonce, aad, 12, (const uint8_t *)text, n);
    if (memcmp(tag, aead_tag, 16) || out[0] != 0xd3)
        return 5;
    if (!chacha_open(back, tag, key, aead_nonce, aad, 12, out, n) || memcmp(back, text, n))
        return 6;
    out[n / 2] ^= 4;
    return chacha_open(back, tag, key, aead_nonce, aad, 12, out, n) ? 7 : 0;
}
