/* Curve25519: field arithmetic on 5x51-bit and on 10x25.5-bit limbs, and the X25519 ladder built on the former. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

typedef uint64_t curve25519_field[5];
typedef int32_t curve25519_field_10[10];

#define MASK51 0x7ffffffffffffull
#define M128(a, b) ((u128)(a) * (b))
#define M(a, b) ((int64_t)(a) * (b))

#define TAKE(v, p) uint64_t v##0 = p[0], v##1 = p[1], v##2 = p[2], v##3 = p[3], v##4 = p[4]
#define DECLARE(v) uint64_t v##0, v##1, v##2, v##3, v##4
#define GIVE(p, v) p[0] = v##0, p[1] = v##1, p[2] = v##2, p[3] = v##3, p[4] = v##4
#define ADD51(o, a, b)                                                                                                 \
    o##0 = a##0 + b##0, o##1 = a##1 + b##1, o##2 = a##2 + b##2, o##3 = a##3 + b##3, o##4 = a##4 + b##4
/* Twice the prime is added first, so that no limb goes below zero. */
#define SUB51(o, a, b)                                                                                                 \
    o##0 = a##0 + 0xfffffffffffdaull - b##0, o##1 = a##1 + 0xffffffffffffeull - b##1,                                  \
    o##2 = a##2 + 0xffffffffffffeull - b##2, o##3 = a##3 + 0xffffffffffffeull - b##3,                                  \
    o##4 = a##4 + 0xffffffffffffeull - b##4
#define SWAP51(a, b, mask)                                                                                             \
    do {                                                                                                               \
        uint64_t t0 = (a##0 ^ b##0) & mask, t1 = (a##1 ^ b##1) & mask, t2 = (a##2 ^ b##2) & mask;                      \
        uint64_t t3 = (a##3 ^ b##3) & mask, t4 = (a##4 ^ b##4) & mask;                                                 \
        a##0 ^= t0, a##1 ^= t1, a##2 ^= t2, a##3 ^= t3, a##4 ^= t4;                                                    \
        b##0 ^= t0, b##1 ^= t1, b##2 ^= t2, b##3 ^= t3, b##4 ^= t4;                                                    \
    } while (0)
#define CARRY51(o)                                                                                                     \
    do {                                                                                                               \
        r1 += (uint64_t)(r0 >> 51), r2 += (uint64_t)(r1 >> 51), r3 += (uint64_t)(r2 >> 51);                            \
        r4 += (uint64_t)(r3 >> 51);                                                                                    \
        o##0 = ((uint64_t)r0 & MASK51) + 19 * (uint64_t)(r4 >> 51);                                                    \
        o##1 = ((uint64_t)r1 & MASK51) + (o##0 >> 51), o##0 &= MASK51;                                                 \
        o##2 = (uint64_t)r2 & MASK51, o##3 = (uint64_t)r3 & MASK51, o##4 = (uint64_t)r4 & MASK51;                      \
    } while (0)
#define MUL51(o, a, b)                                                                                                 \
    do {                                                                                                               \
        uint64_t w1 = 19 * b##1, w2 = 19 * b##2, w3 = 19 * b##3, w4 = 19 * b##4;                                       \
        u128 r0 = M128(a##0, b##0) + M128(a##1, w4) + M128(a##2, w3) + M128(a##3, w2) + M128(a##4, w1);                \
        u128 r1 = M128(a##0, b##1) + M128(a##1, b##0) + M128(a##2, w4) + M128(a##3, w3) + M128(a##4, w2);              \
        u128 r2 = M128(a##0, b##2) + M128(a##1, b##1) + M128(a##2, b##0) + M128(a##3, w4) + M128(a##4, w3);            \
        u128 r3 = M128(a##0, b##3) + M128(a##1, b##2) + M128(a##2, b##1) + M128(a##3, b##0) + M128(a##4, w4);          \
        u128 r4 = M128(a##0, b##4) + M128(a##1, b##3) + M128(a##2, b##2) + M128(a##3, b##1) + M128(a##4, b##0);        \
        CARRY51(o);                                                                                                    \
    } while (0)
#define SQUARE51(o, a)                                                                                                 \
    do {                                                                                                               \
        uint64_t d0 = 2 * a##0, d1 = 2 * a##1, d2 = 2 * a##2, w3 = 19 * a##3, w4 = 19 * a##4;                          \
        u128 r0 = M128(a##0, a##0) + M128(d1, w4) + M128(d2, w3);                                                      \
        u128 r1 = M128(d0, a##1) + M128(d2, w4) + M128(a##3, w3);                                                      \
        u128 r2 = M128(d0, a##2) + M128(a##1, a##1) + M128(2 * a##3, w4);                                              \
        u128 r3 = M128(d0, a##3) + M128(d1, a##2) + M128(a##4, w4);                                                    \
        u128 r4 = M128(d0, a##4) + M128(d1, a##3) + M128(a##2, a##2);                                                  \
        CARRY51(o);                                                                                                    \
    } while (0)

void curve25519_mul(curve25519_field out, const curve25519_field x, const curve25519_field y) {
    TAKE(a, x);
    TAKE(b, y);
    MUL51(a, a, b);
    GIVE(out, a);
}

void curve25519_square(curve25519_field out, const curve25519_field x, int times) {
    TAKE(a, x);
    while (times--)
        SQUARE51(a, a);
    GIVE(out, a);
}

/* x * y and z * w: the two products that the ladder and every point addition need together. */
void curve25519_mul_pair(curve25519_field xy, curve25519_field zw, const curve25519_field x, const curve25519_field y,
                         const curve25519_field z, const curve25519_field w) {
    TAKE(a, x);
    TAKE(b, y);
    TAKE(c, z);
    TAKE(d, w);
    MUL51(a, a, b);
    MUL51(c, c, d);
    GIVE(xy, a);
    GIVE(zw, c);
}

/* One step of the Montgomery ladder on (x2 : z2) and (x3 : z3), swapped on the way in when mask is all ones. */
void curve25519_ladder_step(curve25519_field point[4], const curve25519_field base, uint64_t mask) {
    TAKE(x, point[0]);
    TAKE(z, point[1]);
    TAKE(u, point[2]);
    TAKE(v, point[3]);
    TAKE(q, base);
    DECLARE(a);
    DECLARE(b);
    DECLARE(c);
    DECLARE(d);
    SWAP51(x, u, mask);
    SWAP51(z, v, mask);
    ADD51(a, x, z);
    SUB51(b, x, z);
    ADD51(c, u, v);
    SUB51(d, u, v);
    MUL51(d, d, a);
    MUL51(c, c, b);
    SQUARE51(a, a);
    SQUARE51(b, b);
    ADD51(u, d, c);
    SUB51(v, d, c);
    SQUARE51(u, u);
    SQUARE51(v, v);
    MUL51(v, v, q);
    MUL51(x, a, b);
    SUB51(c, a, b);
    u128 r0 = M128(c0, 121665), r1 = M128(c1, 121665), r2 = M128(c2, 121665), r3 = M128(c3, 121665);
    u128 r4 = M128(c4, 121665);
    CARRY51(b);
    ADD51(a, a, b);
    MUL51(z, a, c);
    GIVE(point[0], x);
    GIVE(point[1], z);
    GIVE(point[2], u);
    GIVE(point[3], v);
}

void curve25519_invert(curve25519_field out, const curve25519_field x) {
    curve25519_field t, x9, x11, e5, e10, e20, e50, e100;
    curve25519_square(t, x, 1);
    curve25519_square(x9, t, 2);
    curve25519_mul(x9, x9, x);
    curve25519_mul(x11, x9, t);
    curve25519_square(t, x11, 1);
    curve25519_mul(e5, t, x9);
    curve25519_square(t, e5, 5);
    curve25519_mul(e10, t, e5);
    curve25519_square(t, e10, 10);
    curve25519_mul(e20, t, e10);
    curve25519_square(t, e20, 20);
    curve25519_mul(t, t, e20);
    curve25519_square(t, t, 10);
    curve25519_mul(e50, t, e10);
    curve25519_square(t, e50, 50);
    curve25519_mul(e100, t, e50);
    curve25519_square(t, e100, 100);
    curve25519_mul(t, t, e100);
    curve25519_square(t, t, 50);
    curve25519_mul(t, t, e50);
    curve25519_square(t, t, 5);
    curve25519_mul(out, t, x11);
}

static uint64_t load64(const uint8_t *p) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

void curve25519_unpack(curve25519_field out, const uint8_t p[32]) {
    out[0] = load64(p) & MASK51, out[1] = (load64(p + 6) >> 3) & MASK51, out[2] = (load64(p + 12) >> 6) & MASK51;
    out[3] = (load64(p + 19) >> 1) & MASK51, out[4] = (load64(p + 24) >> 12) & MASK51;
}

void curve25519_pack(uint8_t out[32], const curve25519_field x) {
    TAKE(a, x);
    for (int pass = 0; pass < 2; pass++) {
        a1 += a0 >> 51, a0 &= MASK51, a2 += a1 >> 51, a1 &= MASK51, a3 += a2 >> 51, a2 &= MASK51;
        a4 += a3 >> 51, a3 &= MASK51, a0 += 19 * (a4 >> 51), a4 &= MASK51;
    }
    uint64_t q = (a0 + 19) >> 51;
    q = (a1 + q) >> 51, q = (a2 + q) >> 51, q = (a3 + q) >> 51, q = (a4 + q) >> 51;
    a0 += 19 * q;
    a1 += a0 >> 51, a0 &= MASK51, a2 += a1 >> 51, a1 &= MASK51, a3 += a2 >> 51, a2 &= MASK51;
    a4 += a3 >> 51, a3 &= MASK51, a4 &= MASK51;
    uint64_t words[4] = {a0 | a1 << 51, a1 >> 13 | a2 << 38, a2 >> 26 | a3 << 25, a3 >> 39 | a4 << 12};
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(words[i / 8] >> (8 * (i % 8)));
}

void curve25519_x25519(uint8_t out[32], const uint8_t scalar[32], const uint8_t u[32]) {
    curve25519_field base, point[4] = {{1}, {0}, {0}, {1}};
    uint64_t previous = 0;
    curve25519_unpack(base, u);
    memcpy(point[2], base, sizeof base);
    for (int i = 254; i >= 0; i--) {
        uint64_t bit = i == 254 ? 1 : i < 3 ? 0 : scalar[i / 8] >> (i % 8) & 1;
        curve25519_ladder_step(point, base, 0 - (bit ^ previous));
        previous = bit;
    }
    curve25519_invert(point[1], point[1]);
    curve25519_mul(point[0], point[0], point[1]);
    curve25519_pack(out, point[0]);
}

#define TAKE_10(v, p)                                                                                                  \
    int32_t v##0 = p[0], v##1 = p[1], v##2 = p[2], v##3 = p[3], v##4 = p[4];                                           \
    int32_t v##5 = p[5], v##6 = p[6], v##7 = p[7], v##8 = p[8], v##9 = p[9]
#define CARRY25(a, b, bits)                                                                                            \
    do {                                                                                                               \
        int64_t carry = (a + ((int64_t)1 << (bits - 1))) >> bits;                                                      \
        b += carry, a -= carry * ((int64_t)1 << bits);                                                                 \
    } while (0)
#define STORE25(out)                                                                                                   \
    do {                                                                                                               \
        CARRY25(h0, h1, 26);                                                                                           \
        CARRY25(h4, h5, 26);                                                                                           \
        CARRY25(h1, h2, 25);                                                                                           \
        CARRY25(h5, h6, 25);                                                                                           \
        CARRY25(h2, h3, 26);                                                                                           \
        CARRY25(h6, h7, 26);                                                                                           \
        CARRY25(h3, h4, 25);                                                                                           \
        CARRY25(h7, h8, 25);                                                                                           \
        CARRY25(h4, h5, 26);                                                                                           \
        CARRY25(h8, h9, 26);                                                                                           \
        int64_t top = (h9 + (1 << 24)) >> 25;                                                                          \
        h0 += 19 * top, h9 -= top * (1 << 25);                                                                         \
        CARRY25(h0, h1, 26);                                                                                           \
        out[0] = (int32_t)h0, out[1] = (int32_t)h1, out[2] = (int32_t)h2, out[3] = (int32_t)h3, out[4] = (int32_t)h4;  \
        out[5] = (int32_t)h5, out[6] = (int32_t)h6, out[7] = (int32_t)h7, out[8] = (int32_t)h8, out[9] = (int32_t)h9;  \
    } while (0)

void curve25519_mul_10(curve25519_field_10 out, const curve25519_field_10 f, const curve25519_field_10 g) {
    TAKE_10(f, f);
    TAKE_10(g, g);
    int32_t w1 = 19 * g1, w2 = 19 * g2, w3 = 19 * g3, w4 = 19 * g4, w5 = 19 * g5, w6 = 19 * g6, w7 = 19 * g7;
    int32_t w8 = 19 * g8, w9 = 19 * g9, e1 = 2 * f1, e3 = 2 * f3, e5 = 2 * f5, e7 = 2 * f7, e9 = 2 * f9;
    int64_t h0 = M(f0, g0) + M(e1, w9) + M(f2, w8) + M(e3, w7) + M(f4, w6) + M(e5, w5) + M(f6, w4) + M(e7, w3) +
        M(f8, w2) + M(e9, w1);
    int64_t h1 = M(f0, g1) + M(f1, g0) + M(f2, w9) + M(f3, w8) + M(f4, w7) + M(f5, w6) + M(f6, w5) + M(f7, w4) +
        M(f8, w3) + M(f9, w2);
    int64_t h2 = M(f0, g2) + M(e1, g1) + M(f2, g0) + M(e3, w9) + M(f4, w8) + M(e5, w7) + M(f6, w6) + M(e7, w5) +
        M(f8, w4) + M(e9, w3);
    int64_t h3 = M(f0, g3) + M(f1, g2) + M(f2, g1) + M(f3, g0) + M(f4, w9) + M(f5, w8) + M(f6, w7) + M(f7, w6) +
        M(f8, w5) + M(f9, w4);
    int64_t h4 = M(f0, g4) + M(e1, g3) + M(f2, g2) + M(e3, g1) + M(f4, g0) + M(e5, w9) + M(f6, w8) + M(e7, w7) +
        M(f8, w6) + M(e9, w5);
    int64_t h5 = M(f0, g5) + M(f1, g4) + M(f2, g3) + M(f3, g2) + M(f4, g1) + M(f5, g0) + M(f6, w9) + M(f7, w8) +
        M(f8, w7) + M(f9, w6);
    int64_t h6 = M(f0, g6) + M(e1, g5) + M(f2, g4) + M(e3, g3) + M(f4, g2) + M(e5, g1) + M(f6, g0) + M(e7, w9) +
        M(f8, w8) + M(e9, w7);
    int64_t h7 = M(f0, g7) + M(f1, g6) + M(f2, g5) + M(f3, g4) + M(f4, g3) + M(f5, g2) + M(f6, g1) + M(f7, g0) +
        M(f8, w9) + M(f9, w8);
    int64_t h8 = M(f0, g8) + M(e1, g7) + M(f2, g6) + M(e3, g5) + M(f4, g4) + M(e5, g3) + M(f6, g2) + M(e7, g1) +
        M(f8, g0) + M(e9, w9);
    int64_t h9 = M(f0, g9) + M(f1, g8) + M(f2, g7) + M(f3, g6) + M(f4, g5) + M(f5, g4) + M(f6, g3) + M(f7, g2) +
        M(f8, g1) + M(f9, g0);
    STORE25(out);
}

void curve25519_square_10(curve25519_field_10 out, const curve25519_field_10 f) {
    TAKE_10(f, f);
    int32_t d0 = 2 * f0, d1 = 2 * f1, d2 = 2 * f2, d3 = 2 * f3, d4 = 2 * f4, d5 = 2 * f5, d6 = 2 * f6, d7 = 2 * f7;
    int32_t d8 = 2 * f8, d9 = 2 * f9, q1 = 4 * f1, q3 = 4 * f3, q5 = 4 * f5, q7 = 4 * f7;
    int32_t w5 = 19 * f5, w6 = 19 * f6, w7 = 19 * f7, w8 = 19 * f8, w9 = 19 * f9;
    int64_t h0 = M(f0, f0) + M(q1, w9) + M(d2, w8) + M(q3, w7) + M(d4, w6) + M(d5, w5);
    int64_t h1 = M(d0, f1) + M(d2, w9) + M(d3, w8) + M(d4, w7) + M(d5, w6);
    int64_t h2 = M(d0, f2) + M(d1, f1) + M(q3, w9) + M(d4, w8) + M(q5, w7) + M(f6, w6);
    int64_t h3 = M(d0, f3) + M(d1, f2) + M(d4, w9) + M(d5, w8) + M(d6, w7);
    int64_t h4 = M(d0, f4) + M(q1, f3) + M(f2, f2) + M(q5, w9) + M(d6, w8) + M(d7, w7);
    int64_t h5 = M(d0, f5) + M(d1, f4) + M(d2, f3) + M(d6, w9) + M(d7, w8);
    int64_t h6 = M(d0, f6) + M(q1, f5) + M(d2, f4) + M(d3, f3) + M(q7, w9) + M(f8, w8);
    int64_t h7 = M(d0, f7) + M(d1, f6) + M(d2, f5) + M(d3, f4) + M(d8, w9);
    int64_t h8 = M(d0, f8) + M(q1, f7) + M(d2, f6) + M(q3, f5) + M(f4, f4) + M(d9, w9);
    int64_t h9 = M(d0, f9) + M(d1, f8) + M(d2, f7) + M(d3, f6) + M(d4, f5);
    STORE25(out);
}

static void narrow(curve25519_field_10 out, const curve25519_field x) {
    for (int i = 0; i < 5; i++)
        out[2 * i] = (int32_t)(x[i] & 0x3ffffff), out[2 * i + 1] = (int32_t)(x[i] >> 26);
}

static bool same_element(const curve25519_field x, const curve25519_field_10 y) {
    curve25519_field wide;
    uint8_t p[32], q[32];
    for (int i = 0; i < 5; i++)
        wide[i] = (i == 0 ? 0xfffffffffffdaull : 0xffffffffffffeull) +
                  (uint64_t)(y[2 * i] + y[2 * i + 1] * (int64_t)(1 << 26));
    curve25519_pack(p, x);
    curve25519_pack(q, wide);
    return memcmp(p, q, 32) == 0;
}

int curve25519_selftest(void) {
    static const uint8_t scalar[32] = {0xa5, 0x46, 0xe3, 0x6b, 0xf0, 0x52, 0x7c, 0x9d, 0x3b, 0x16, 0x15,
                                       0x4b, 0x82, 0x46, 0x5e, 0xdd, 0x62, 0x14, 0x4c, 0x0a, 0xc1, 0xfc,
                                       0x5a, 0x18, 0x50, 0x6a, 0x22, 0x44, 0xba, 0x44, 0x9a, 0xc4};
    static const uint8_t u[32] = {0xe6, 0xdb, 0x68, 0x67, 0x58, 0x30, 0x30, 0xdb, 0x35, 0x94, 0xc1,
                                  0xa4, 0x24, 0xb1, 0x5f, 0x7c, 0x72, 0x66, 0x24, 0xec, 0x26, 0xb3,
                                  0x35, 0x3b, 0x10, 0xa9, 0x03, 0xa6, 0xd0, 0xab, 0x1c, 0x4c};
    uint8_t out[32];
    curve25519_x25519(out, scalar, u);
    if (load64(out) != 0x90c6e99d3755dac3ull || load64(out + 24) != 0x5285a2775507b454ull)
        return 1;
    curve25519_field a, b, c, d, e;
    curve25519_field_10 f, g, h;
    curve25519_unpack(a, scalar);
    curve25519_unpack(b, u);
    for (int round = 0; round < 50; round++) {
        narrow(f, a), narrow(g, b);
        curve25519_mul_pair(c, d, a, b, a, a);
        curve25519_mul_10(h, f, g);
        if (!same_element(c, h))
            return 2;
        curve25519_square_10(h, f);
        curve25519_square(e, a, 1);
        if (!same_element(d, h) || !same_element(e, h))
            return 3;
        curve25519_mul(a, c, d);
        memcpy(b, e, sizeof b);
    }
    return 0;
}
