/* Integer cosine transforms: 8x8 and 16x16 partial butterflies, a float 8x8, and a lifting 8x8 that inverts exactly. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Each pass reads rows and writes columns, so that two passes make a two-dimensional transform. */
#define LINE8(x, p)                                                                                                    \
    int32_t x##0 = p[0], x##1 = p[1], x##2 = p[2], x##3 = p[3], x##4 = p[4], x##5 = p[5], x##6 = p[6], x##7 = p[7]

static void forward_pass_8(int32_t *out, const int32_t *in, int shift) {
    int32_t half = 1 << (shift - 1);
    for (int i = 0; i < 8; i++, in += 8, out++) {
        LINE8(x, in);
        int32_t e0 = x0 + x7, e1 = x1 + x6, e2 = x2 + x5, e3 = x3 + x4;
        int32_t o0 = x0 - x7, o1 = x1 - x6, o2 = x2 - x5, o3 = x3 - x4;
        int32_t ee0 = e0 + e3, ee1 = e1 + e2, eo0 = e0 - e3, eo1 = e1 - e2;
        out[0] = (64 * ee0 + 64 * ee1 + half) >> shift;
        out[32] = (64 * ee0 - 64 * ee1 + half) >> shift;
        out[16] = (83 * eo0 + 36 * eo1 + half) >> shift;
        out[48] = (36 * eo0 - 83 * eo1 + half) >> shift;
        out[8] = (89 * o0 + 75 * o1 + 50 * o2 + 18 * o3 + half) >> shift;
        out[24] = (75 * o0 - 18 * o1 - 89 * o2 - 50 * o3 + half) >> shift;
        out[40] = (50 * o0 - 89 * o1 + 18 * o2 + 75 * o3 + half) >> shift;
        out[56] = (18 * o0 - 50 * o1 + 75 * o2 - 89 * o3 + half) >> shift;
    }
}

static void inverse_pass_8(int32_t *out, const int32_t *in, int shift) {
    int32_t half = 1 << (shift - 1);
    for (int i = 0; i < 8; i++, in++, out += 8) {
        int32_t x0 = in[0], x1 = in[8], x2 = in[16], x3 = in[24], x4 = in[32], x5 = in[40], x6 = in[48], x7 = in[56];
        int32_t ee0 = 64 * x0 + 64 * x4 + half, ee1 = 64 * x0 - 64 * x4 + half;
        int32_t eo0 = 83 * x2 + 36 * x6, eo1 = 36 * x2 - 83 * x6;
        int32_t e0 = ee0 + eo0, e3 = ee0 - eo0, e1 = ee1 + eo1, e2 = ee1 - eo1;
        int32_t o0 = 89 * x1 + 75 * x3 + 50 * x5 + 18 * x7, o1 = 75 * x1 - 18 * x3 - 89 * x5 - 50 * x7;
        int32_t o2 = 50 * x1 - 89 * x3 + 18 * x5 + 75 * x7, o3 = 18 * x1 - 50 * x3 + 75 * x5 - 89 * x7;
        out[0] = (e0 + o0) >> shift, out[7] = (e0 - o0) >> shift, out[1] = (e1 + o1) >> shift;
        out[6] = (e1 - o1) >> shift, out[2] = (e2 + o2) >> shift, out[5] = (e2 - o2) >> shift;
        out[3] = (e3 + o3) >> shift, out[4] = (e3 - o3) >> shift;
    }
}

void dct_forward_8x8(int32_t out[64], const int32_t in[64]) {
    int32_t middle[64];
    forward_pass_8(middle, in, 2);
    forward_pass_8(out, middle, 9);
}

void dct_inverse_8x8(int32_t out[64], const int32_t in[64]) {
    int32_t middle[64];
    inverse_pass_8(middle, in, 7);
    inverse_pass_8(out, middle, 12);
}

#define ODD16(a, b, c, d, e, f, g, h)                                                                                  \
    ((a) * o0 + (b) * o1 + (c) * o2 + (d) * o3 + (e) * o4 + (f) * o5 + (g) * o6 + (h) * o7)

static void forward_pass_16(int32_t *out, const int32_t *in, int shift) {
    int32_t half = 1 << (shift - 1);
    for (int i = 0; i < 16; i++, in += 16, out++) {
        LINE8(x, in);
        LINE8(y, (in + 8));
        int32_t o0 = x0 - y7, o1 = x1 - y6, o2 = x2 - y5, o3 = x3 - y4, o4 = x4 - y3, o5 = x5 - y2, o6 = x6 - y1;
        int32_t o7 = x7 - y0;
        x0 += y7, x1 += y6, x2 += y5, x3 += y4, x4 += y3, x5 += y2, x6 += y1, x7 += y0;
        int32_t q0 = x0 - x7, q1 = x1 - x6, q2 = x2 - x5, q3 = x3 - x4;
        int32_t e0 = x0 + x7, e1 = x1 + x6, e2 = x2 + x5, e3 = x3 + x4;
        int32_t ee0 = e0 + e3, ee1 = e1 + e2, eo0 = e0 - e3, eo1 = e1 - e2;
        out[0] = (64 * ee0 + 64 * ee1 + half) >> shift;
        out[128] = (64 * ee0 - 64 * ee1 + half) >> shift;
        out[64] = (83 * eo0 + 36 * eo1 + half) >> shift;
        out[192] = (36 * eo0 - 83 * eo1 + half) >> shift;
        out[32] = (89 * q0 + 75 * q1 + 50 * q2 + 18 * q3 + half) >> shift;
        out[96] = (75 * q0 - 18 * q1 - 89 * q2 - 50 * q3 + half) >> shift;
        out[160] = (50 * q0 - 89 * q1 + 18 * q2 + 75 * q3 + half) >> shift;
        out[224] = (18 * q0 - 50 * q1 + 75 * q2 - 89 * q3 + half) >> shift;
        out[16] = (ODD16(90, 87, 80, 70, 57, 43, 25, 9) + half) >> shift;
        out[48] = (ODD16(87, 57, 9, -43, -80, -90, -70, -25) + half) >> shift;
        out[80] = (ODD16(80, 9, -70, -87, -25, 57, 90, 43) + half) >> shift;
        out[112] = (ODD16(70, -43, -87, 9, 90, 25, -80, -57) + half) >> shift;
        out[144] = (ODD16(57, -80, -25, 90, -9, -87, 43, 70) + half) >> shift;
        out[176] = (ODD16(43, -90, 57, 25, -87, 70, 9, -80) + half) >> shift;
        out[208] = (ODD16(25, -70, 90, -80, 43, 9, -57, 87) + half) >> shift;
        out[240] = (ODD16(9, -25, 43, -57, 70, -80, 87, -90) + half) >> shift;
    }
}

#define EVEN_ODD(sum, difference, a, b) (sum = (a) + (b), difference = (a) - (b))

static void inverse_pass_16(int32_t *out, const int32_t *in, int shift) {
    int32_t half = 1 << (shift - 1);
    for (int i = 0; i < 16; i++, in++, out += 16) {
        int32_t x1 = in[32], x3 = in[96], x5 = in[160], x7 = in[224], x0 = in[0], x2 = in[64], x4 = in[128];
        int32_t x6 = in[192];
        int32_t ee0 = 64 * (x0 + x4) + half, ee1 = 64 * (x0 - x4) + half;
        int32_t eo0 = 83 * x2 + 36 * x6, eo1 = 36 * x2 - 83 * x6;
        int32_t q0 = 89 * x1 + 75 * x3 + 50 * x5 + 18 * x7, q1 = 75 * x1 - 18 * x3 - 89 * x5 - 50 * x7;
        int32_t q2 = 50 * x1 - 89 * x3 + 18 * x5 + 75 * x7, q3 = 18 * x1 - 50 * x3 + 75 * x5 - 89 * x7;
        int32_t e0, e1, e2, e3, e4, e5, e6, e7;
        EVEN_ODD(e0, e7, ee0 + eo0, q0), EVEN_ODD(e1, e6, ee1 + eo1, q1);
        EVEN_ODD(e2, e5, ee1 - eo1, q2), EVEN_ODD(e3, e4, ee0 - eo0, q3);
        int32_t o0 = in[16], o1 = in[48], o2 = in[80], o3 = in[112], o4 = in[144], o5 = in[176], o6 = in[208];
        int32_t o7 = in[240];
        int32_t p0 = ODD16(90, 87, 80, 70, 57, 43, 25, 9), p1 = ODD16(87, 57, 9, -43, -80, -90, -70, -25);
        int32_t p2 = ODD16(80, 9, -70, -87, -25, 57, 90, 43), p3 = ODD16(70, -43, -87, 9, 90, 25, -80, -57);
        int32_t p4 = ODD16(57, -80, -25, 90, -9, -87, 43, 70), p5 = ODD16(43, -90, 57, 25, -87, 70, 9, -80);
        int32_t p6 = ODD16(25, -70, 90, -80, 43, 9, -57, 87), p7 = ODD16(9, -25, 43, -57, 70, -80, 87, -90);
        out[0] = (e0 + p0) >> shift, out[15] = (e0 - p0) >> shift, out[1] = (e1 + p1) >> shift;
        out[14] = (e1 - p1) >> shift, out[2] = (e2 + p2) >> shift, out[13] = (e2 - p2) >> shift;
        out[3] = (e3 + p3) >> shift, out[12] = (e3 - p3) >> shift, out[4] = (e4 + p4) >> shift;
        out[11] = (e4 - p4) >> shift, out[5] = (e5 + p5) >> shift, out[10] = (e5 - p5) >> shift;
        out[6] = (e6 + p6) >> shift, out[9] = (e6 - p6) >> shift, out[7] = (e7 + p7) >> shift;
        out[8] = (e7 - p7) >> shift;
    }
}

void dct_forward_16x16(int32_t out[256], const int32_t in[256]) {
    int32_t middle[256];
    forward_pass_16(middle, in, 3);
    forward_pass_16(out, middle, 10);
}

void dct_inverse_16x16(int32_t out[256], const int32_t in[256]) {
    int32_t middle[256];
    inverse_pass_16(middle, in, 7);
    inverse_pass_16(out, middle, 12);
}

#define C1 0.98078528040323044913f
#define C2 0.92387953251128675613f
#define C3 0.83146961230254523708f
#define C4 0.70710678118654752440f
#define C5 0.55557023301960222474f
#define C6 0.38268343236508977173f
#define C7 0.19509032201612826785f

/* One line of an orthonormal float transform; the passes unroll it two and four times. */
#define FLOAT_FORWARD(out, step, in, gap)                                                                              \
    do {                                                                                                               \
        float x0 = (in)[0], x1 = (in)[gap], x2 = (in)[2 * gap], x3 = (in)[3 * gap], x4 = (in)[4 * gap];                \
        float x5 = (in)[5 * gap], x6 = (in)[6 * gap], x7 = (in)[7 * gap];                                              \
        float e0 = x0 + x7, e1 = x1 + x6, e2 = x2 + x5, e3 = x3 + x4;                                                  \
        float o0 = x0 - x7, o1 = x1 - x6, o2 = x2 - x5, o3 = x3 - x4;                                                  \
        float s = e0 + e3, t = e1 + e2, d = e0 - e3, u = e1 - e2;                                                      \
        (out)[0] = 0.5f * C4 * (s + t), (out)[4 * step] = 0.5f * C4 * (s - t);                                         \
        (out)[2 * step] = 0.5f * (C2 * d + C6 * u), (out)[6 * step] = 0.5f * (C6 * d - C2 * u);                        \
        (out)[step] = 0.5f * (C1 * o0 + C3 * o1 + C5 * o2 + C7 * o3);                                                  \
        (out)[3 * step] = 0.5f * (C3 * o0 - C7 * o1 - C1 * o2 - C5 * o3);                                              \
        (out)[5 * step] = 0.5f * (C5 * o0 - C1 * o1 + C7 * o2 + C3 * o3);                                              \
        (out)[7 * step] = 0.5f * (C7 * o0 - C5 * o1 + C3 * o2 - C1 * o3);                                              \
    } while (0)

void dct_forward_8x8_float(float block[64]) {
    for (int i = 0; i < 64; i += 16) {
        FLOAT_FORWARD(block + i, 1, block + i, 1);
        FLOAT_FORWARD(block + i + 8, 1, block + i + 8, 1);
    }
    for (int i = 0; i < 8; i += 4) {
        FLOAT_FORWARD(block + i, 8, block + i, 8);
        FLOAT_FORWARD(block + i + 1, 8, block + i + 1, 8);
        FLOAT_FORWARD(block + i + 2, 8, block + i + 2, 8);
        FLOAT_FORWARD(block + i + 3, 8, block + i + 3, 8);
    }
}

/* A plane rotation by three integer shears; the reversed order with opposite signs undoes it bit by bit. */
#define ROTATE(x, y, p, u) (x -= ((p) * y + 2048) >> 12, y += ((u) * x + 2048) >> 12, x -= ((p) * y + 2048) >> 12)
#define UNROTATE(x, y, p, u) (x += ((p) * y + 2048) >> 12, y -= ((u) * x + 2048) >> 12, x += ((p) * y + 2048) >> 12)
/* Sum and difference as a rotation by 45 degrees and a sign. */
#define LIFT(a, b) ROTATE(a, b, 1697, 2896)
#define UNLIFT(a, b) UNROTATE(a, b, 1697, 2896)

#define LIFTING_FORWARD(x)                                                                                             \
    LIFT(x##0, x##7), LIFT(x##1, x##6), LIFT(x##2, x##5), LIFT(x##3, x##4);                                            \
    LIFT(x##7, x##4), LIFT(x##6, x##5), LIFT(x##0, x##3), LIFT(x##1, x##2);                                            \
    ROTATE(x##2, x##3, 815, 1567), ROTATE(x##4, x##5, 403, 799), ROTATE(x##6, x##7, 1243, 2276);                       \
    LIFT(x##7, x##5), LIFT(x##6, x##4), LIFT(x##1, x##0)
#define LIFTING_INVERSE(x)                                                                                             \
    UNLIFT(x##1, x##0), UNLIFT(x##6, x##4), UNLIFT(x##7, x##5);                                                        \
    UNROTATE(x##6, x##7, 1243, 2276), UNROTATE(x##4, x##5, 403, 799), UNROTATE(x##2, x##3, 815, 1567);                 \
    UNLIFT(x##1, x##2), UNLIFT(x##0, x##3), UNLIFT(x##6, x##5), UNLIFT(x##7, x##4);                                    \
    UNLIFT(x##3, x##4), UNLIFT(x##2, x##5), UNLIFT(x##1, x##6), UNLIFT(x##0, x##7)

#define STORE8(p, s, x)                                                                                                \
    (p)[0] = x##0, (p)[s] = x##1, (p)[2 * s] = x##2, (p)[3 * s] = x##3, (p)[4 * s] = x##4, (p)[5 * s] = x##5,          \
    (p)[6 * s] = x##6, (p)[7 * s] = x##7
#define COLUMN8(x, p)                                                                                                  \
    int32_t x##0 = (p)[0], x##1 = (p)[8], x##2 = (p)[16], x##3 = (p)[24], x##4 = (p)[32], x##5 = (p)[40];              \
    int32_t x##6 = (p)[48], x##7 = (p)[56]

/* In place, two lines at a time; both are read before either is written. */
void dct_lifting_forward_8x8(int32_t b[64]) {
    for (int i = 0; i < 64; i += 16) {
        LINE8(x, (b + i));
        LINE8(y, (b + i + 8));
        LIFTING_FORWARD(x);
        LIFTING_FORWARD(y);
        STORE8(b + i, 1, x);
        STORE8(b + i + 8, 1, y);
    }
    for (int i = 0; i < 8; i += 2) {
        COLUMN8(x, b + i);
        COLUMN8(y, b + i + 1);
        LIFTING_FORWARD(x);
        LIFTING_FORWARD(y);
        STORE8(b + i, 8, x);
        STORE8(b + i + 1, 8, y);
    }
}

void dct_lifting_inverse_8x8(int32_t b[64]) {
    for (int i = 0; i < 8; i += 2) {
        COLUMN8(x, b + i);
        COLUMN8(y, b + i + 1);
        LIFTING_INVERSE(x);
        LIFTING_INVERSE(y);
        STORE8(b + i, 8, x);
        STORE8(b + i + 1, 8, y);
    }
    for (int i = 0; i < 64; i += 16) {
        LINE8(x, (b + i));
        LINE8(y, (b + i + 8));
        LIFTING_INVERSE(x);
        LIFTING_INVERSE(y);
        STORE8(b + i, 1, x);
        STORE8(b + i + 8, 1, y);
    }
}

/* Coefficients of an n x n block below the threshold become 0; the return value counts the survivors. */
int dct_threshold(int32_t *block, size_t n, int32_t threshold) {
    int kept = 0;
    for (size_t i = 0; i < n * n; i++) {
        if (abs(block[i]) < threshold)
            block[i] = 0;
        kept += block[i] != 0;
    }
    return kept;
}

int dct_selftest(void) {
    int32_t in[256], out[256], back[256];
    float block[64];
    uint32_t random = 1;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 256; i++) {
            random = random * 1664525u + 1013904223u;
            in[i] = round == 0 ? 100 : round == 1 ? (i % 16 + i / 16) * 8 : (int32_t)(random >> 24) - 128;
        }
        dct_forward_8x8(out, in);
        if (round == 0 && (out[0] != 12800 || dct_threshold(out, 8, 1) != 1))
            return 1;
        dct_inverse_8x8(back, out);
        for (int i = 0; i < 64; i++)
            if (abs(back[i] - in[i]) > 2)
                return 2;
        dct_forward_16x16(out, in);
        dct_inverse_16x16(back, out);
        for (int i = 0; i < 256; i++)
            if (abs(back[i] - in[i]) > 2)
                return 3;
        for (int i = 0; i < 64; i++)
            block[i] = (float)in[i];
        dct_forward_8x8(out, in);
        dct_forward_8x8_float(block);
        float energy = 0, kept = 0;
        for (int i = 0; i < 64; i++) {
            energy += (float)(in[i] * in[i]), kept += block[i] * block[i];
            if (fabsf(block[i] * 16 - (float)out[i]) > 640)
                return 4;
        }
        if (fabsf(energy - kept) > 1e-4f * energy)
            return 4;
        memcpy(back, in, 64 * sizeof in[0]);
        dct_lifting_forward_8x8(back);
        if (memcmp(back, in, 64 * sizeof in[0]) == 0)
            return 5;
        dct_lifting_inverse_8x8(back);
        if (memcmp(back, in, 64 * sizeof in[0]))
            return 6;
    }
    return 0;
}
