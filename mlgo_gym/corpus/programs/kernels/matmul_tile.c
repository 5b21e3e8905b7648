/* Matrix products from hand-unrolled register tiles: 4x4 double, 6x4 float, 8x2 integer, 2x3 complex, 4x4 modular. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { DEPTH_BLOCK = 64, LARGEST = 64 };

/* Panels are packed so that step k of a tile reads `rows` values of A and `columns` values of B in a row. */
#define DEFINE_PACKING(NAME, T)                                                                                        \
    static void pack_rows_##NAME(T *out, const T *a, size_t stride, size_t rows, size_t depth, size_t tile) {          \
        for (size_t i = 0; i < rows; i += tile)                                                                        \
            for (size_t k = 0; k < depth; k++)                                                                         \
                for (size_t r = 0; r < tile; r++)                                                                      \
                    *out++ = i + r < rows ? a[(i + r) * stride + k] : 0;                                               \
    }                                                                                                                  \
    static void pack_columns_##NAME(T *out, const T *b, size_t stride, size_t depth, size_t columns, size_t tile) {    \
        for (size_t j = 0; j < columns; j += tile)                                                                     \
            for (size_t k = 0; k < depth; k++)                                                                         \
                for (size_t c = 0; c < tile; c++)                                                                      \
                    *out++ = j + c < columns ? b[k * stride + j + c] : 0;                                              \
    }

DEFINE_PACKING(double, double)
DEFINE_PACKING(float, float)
DEFINE_PACKING(int32_t, int32_t)

#define ROW4(c, i) c##i##0 = 0, c##i##1 = 0, c##i##2 = 0, c##i##3 = 0
#define MAC4(c, i, x) c##i##0 += (x) * y0, c##i##1 += (x) * y1, c##i##2 += (x) * y2, c##i##3 += (x) * y3
#define ADD_ROW4(out, i, stride, c)                                                                                    \
    out[i * stride] += c##i##0, out[i * stride + 1] += c##i##1, out[i * stride + 2] += c##i##2,                        \
        out[i * stride + 3] += c##i##3

#define STEP_4X4(a, b)                                                                                                 \
    do {                                                                                                               \
        double x0 = (a)[0], x1 = (a)[1], x2 = (a)[2], x3 = (a)[3];                                                     \
        double y0 = (b)[0], y1 = (b)[1], y2 = (b)[2], y3 = (b)[3];                                                     \
        MAC4(c, 0, x0);                                                                                                \
        MAC4(c, 1, x1);                                                                                                \
        MAC4(c, 2, x2);                                                                                                \
        MAC4(c, 3, x3);                                                                                                \
    } while (0)

void matmul_tile_4x4_double(double *out, size_t stride, const double *a, const double *b, size_t depth) {
    double ROW4(c, 0), ROW4(c, 1), ROW4(c, 2), ROW4(c, 3);
    for (; depth >= 4; depth -= 4, a += 16, b += 16) {
        STEP_4X4(a, b);
        STEP_4X4(a + 4, b + 4);
        STEP_4X4(a + 8, b + 8);
        STEP_4X4(a + 12, b + 12);
    }
    for (; depth; depth--, a += 4, b += 4)
        STEP_4X4(a, b);
    ADD_ROW4(out, 0, stride, c);
    ADD_ROW4(out, 1, stride, c);
    ADD_ROW4(out, 2, stride, c);
    ADD_ROW4(out, 3, stride, c);
}

#define STEP_6X4(a, b)                                                                                                 \
    do {                                                                                                               \
        float x0 = (a)[0], x1 = (a)[1], x2 = (a)[2], x3 = (a)[3], x4 = (a)[4], x5 = (a)[5];                            \
        float y0 = (b)[0], y1 = (b)[1], y2 = (b)[2], y3 = (b)[3];                                                      \
        MAC4(c, 0, x0);                                                                                                \
        MAC4(c, 1, x1);                                                                                                \
        MAC4(c, 2, x2);                                                                                                \
        MAC4(c, 3, x3);                                                                                                \
        MAC4(c, 4, x4);                                                                                                \
        MAC4(c, 5, x5);                                                                                                \
    } while (0)

void matmul_tile_6x4_float(float *out, size_t stride, const float *a, const float *b, size_t depth) {
    float ROW4(c, 0), ROW4(c, 1), ROW4(c, 2), ROW4(c, 3), ROW4(c, 4), ROW4(c, 5);
    for (; depth >= 2; depth -= 2, a += 12, b += 8) {
        STEP_6X4(a, b);
        STEP_6X4(a + 6, b + 4);
    }
    if (depth)
        STEP_6X4(a, b);
    ADD_ROW4(out, 0, stride, c);
    ADD_ROW4(out, 1, stride, c);
    ADD_ROW4(out, 2, stride, c);
    ADD_ROW4(out, 3, stride, c);
    ADD_ROW4(out, 4, stride, c);
    ADD_ROW4(out, 5, stride, c);
}

#define STEP_8X2(a, b)                                                                                                 \
    do {                                                                                                               \
        int64_t x0 = (a)[0], x1 = (a)[1], x2 = (a)[2], x3 = (a)[3], x4 = (a)[4], x5 = (a)[5], x6 = (a)[6];             \
        int64_t x7 = (a)[7], y0 = (b)[0], y1 = (b)[1];                                                                 \
        c00 += x0 * y0, c10 += x1 * y0, c20 += x2 * y0, c30 += x3 * y0;                                                \
        c40 += x4 * y0, c50 += x5 * y0, c60 += x6 * y0, c70 += x7 * y0;                                                \
        c01 += x0 * y1, c11 += x1 * y1, c21 += x2 * y1, c31 += x3 * y1;                                                \
        c41 += x4 * y1, c51 += x5 * y1, c61 += x6 * y1, c71 += x7 * y1;                                                \
    } while (0)

/* Full 64-bit sums of 32-bit products. */
void matmul_tile_8x2_int(int64_t *out, size_t stride, const int32_t *a, const int32_t *b, size_t depth) {
    int64_t c00 = 0, c10 = 0, c20 = 0, c30 = 0, c40 = 0, c50 = 0, c60 = 0, c70 = 0;
    int64_t c01 = 0, c11 = 0, c21 = 0, c31 = 0, c41 = 0, c51 = 0, c61 = 0, c71 = 0;
    for (; depth >= 2; depth -= 2, a += 16, b += 4) {
        STEP_8X2(a, b);
        STEP_8X2(a + 8, b + 2);
    }
    if (depth)
        STEP_8X2(a, b);
    out[0] += c00, out[1] += c01, out += stride, out[0] += c10, out[1] += c11, out += stride;
    out[0] += c20, out[1] += c21, out += stride, out[0] += c30, out[1] += c31, out += stride;
    out[0] += c40, out[1] += c41, out += stride, out[0] += c50, out[1] += c51, out += stride;
    out[0] += c60, out[1] += c61, out += stride, out[0] += c70, out[1] += c71;
}

#define COMPLEX_MAC(i, j)                                                                                              \
    r##i##j += x##i * u##j - y##i * v##j, s##i##j += x##i * v##j + y##i * u##j

/* A tile of 2x3 complex numbers, real and imaginary parts alternating. */
void matmul_tile_2x3_complex(double *out, size_t stride, const double *a, const double *b, size_t depth) {
    double r00 = 0, r01 = 0, r02 = 0, r10 = 0, r11 = 0, r12 = 0;
    double s00 = 0, s01 = 0, s02 = 0, s10 = 0, s11 = 0, s12 = 0;
    for (; depth; depth--, a += 4, b += 6) {
        double x0 = a[0], y0 = a[1], x1 = a[2], y1 = a[3];
        double u0 = b[0], v0 = b[1], u1 = b[2], v1 = b[3], u2 = b[4], v2 = b[5];
        COMPLEX_MAC(0, 0), COMPLEX_MAC(0, 1), COMPLEX_MAC(0, 2);
        COMPLEX_MAC(1, 0), COMPLEX_MAC(1, 1), COMPLEX_MAC(1, 2);
    }
    out[0] += r00, out[1] += s00, out[2] += r01, out[3] += s01, out[4] += r02, out[5] += s02;
    out += stride;
    out[0] += r10, out[1] += s10, out[2] += r11, out[3] += s11, out[4] += r12, out[5] += s12;
}

/* out = a * b modulo p < 2^31, all 4x4: the eight values of a row and the row sums stay in registers. */
void matmul_tile_4x4_modular(uint32_t out[16], const uint32_t a[16], const uint32_t b[16], uint32_t p) {
    uint64_t b00 = b[0], b01 = b[1], b02 = b[2], b03 = b[3], b10 = b[4], b11 = b[5], b12 = b[6], b13 = b[7];
    uint64_t b20 = b[8], b21 = b[9], b22 = b[10], b23 = b[11], b30 = b[12], b31 = b[13], b32 = b[14], b33 = b[15];
    for (size_t i = 0; i < 16; i += 8) {
        uint64_t x0 = a[i], x1 = a[i + 1], x2 = a[i + 2], x3 = a[i + 3];
        uint64_t y0 = a[i + 4], y1 = a[i + 5], y2 = a[i + 6], y3 = a[i + 7];
        uint64_t s0 = x0 * b00 + x1 * b10, s1 = x0 * b01 + x1 * b11, s2 = x0 * b02 + x1 * b12, s3 = x0 * b03 + x1 * b13;
        uint64_t t0 = y0 * b00 + y1 * b10, t1 = y0 * b01 + y1 * b11, t2 = y0 * b02 + y1 * b12, t3 = y0 * b03 + y1 * b13;
        s0 += x2 * b20 + x3 * b30, s1 += x2 * b21 + x3 * b31, s2 += x2 * b22 + x3 * b32, s3 += x2 * b23 + x3 * b33;
        t0 += y2 * b20 + y3 * b30, t1 += y2 * b21 + y3 * b31, t2 += y2 * b22 + y3 * b32, t3 += y2 * b23 + y3 * b33;
        out[i] = (uint32_t)(s0 % p), out[i + 1] = (uint32_t)(s1 % p), out[i + 2] = (uint32_t)(s2 % p);
        out[i + 3] = (uint32_t)(s3 % p), out[i + 4] = (uint32_t)(t0 % p), out[i + 5] = (uint32_t)(t1 % p);
        out[i + 6] = (uint32_t)(t2 % p), out[i + 7] = (uint32_t)(t3 % p);
    }
}

void matmul_tile_power_modular(uint32_t out[16], const uint32_t base[16], uint64_t exponent, uint32_t p) {
    uint32_t square[16], next[16];
    memcpy(square, base, sizeof square);
    memset(out, 0, 16 * sizeof out[0]);
    out[0] = out[5] = out[10] = out[15] = 1;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) {
            matmul_tile_4x4_modular(next, out, square, p);
            memcpy(out, next, sizeof next);
        }
        matmul_tile_4x4_modular(next, square, square, p);
        memcpy(square, next, sizeof next);
    }
}

/* The inverse of a 4x4 matrix from its twelve 2x2 minors; returns the determinant, `out` is unset if that is 0. */
double matmul_tile_inverse_4x4(double out[16], const double m[16]) {
    double a0 = m[0], a1 = m[1], a2 = m[2], a3 = m[3], b0 = m[4], b1 = m[5], b2 = m[6], b3 = m[7];
    double c0 = m[8], c1 = m[9], c2 = m[10], c3 = m[11], d0 = m[12], d1 = m[13], d2 = m[14], d3 = m[15];
    double s0 = a0 * b1 - b0 * a1, s1 = a0 * b2 - b0 * a2, s2 = a0 * b3 - b0 * a3;
    double s3 = a1 * b2 - b1 * a2, s4 = a1 * b3 - b1 * a3, s5 = a2 * b3 - b2 * a3;
    double t0 = c0 * d1 - d0 * c1, t1 = c0 * d2 - d0 * c2, t2 = c0 * d3 - d0 * c3;
    double t3 = c1 * d2 - d1 * c2, t4 = c1 * d3 - d1 * c3, t5 = c2 * d3 - d2 * c3;
    double determinant = s0 * t5 - s1 * t4 + s2 * t3 + s3 * t2 - s4 * t1 + s5 * t0;
    if (determinant == 0)
        return 0;
    double k = 1 / determinant;
    out[0] = (b1 * t5 - b2 * t4 + b3 * t3) * k, out[1] = (-a1 * t5 + a2 * t4 - a3 * t3) * k;
    out[2] = (d1 * s5 - d2 * s4 + d3 * s3) * k, out[3] = (-c1 * s5 + c2 * s4 - c3 * s3) * k;
    out[4] = (-b0 * t5 + b2 * t2 - b3 * t1) * k, out[5] = (a0 * t5 - a2 * t2 + a3 * t1) * k;
    out[6] = (-d0 * s5 + d2 * s2 - d3 * s1) * k, out[7] = (c0 * s5 - c2 * s2 + c3 * s1) * k;
    out[8] = (b0 * t4 - b1 * t2 + b3 * t0) * k, out[9] = (-a0 * t4 + a1 * t2 - a3 * t0) * k;
    out[10] = (d0 * s4 - d1 * s2 + d3 * s0) * k, out[11] = (-c0 * s4 + c1 * s2 - c3 * s0) * k;
    out[12] = (-b0 * t3 + b1 * t1 - b2 * t0) * k, out[13] = (a0 * t3 - a1 * t1 + a2 * t0) * k;
    out[14] = (-d0 * s3 + d1 * s1 - d2 * s0) * k, out[15] = (c0 * s3 - c1 * s1 + c2 * s0) * k;
    return determinant;
}

/* out (rows x columns) += a (rows x depth) * b (depth x columns); no side may exceed LARGEST. Edge tiles are computed
   whole in a scratch tile and only their inside is added. */
#define DEFINE_PRODUCT(NAME, OUT, IN, TILE_ROWS, TILE_COLUMNS, KERNEL)                                                 \
    void NAME(OUT *out, const IN *a, const IN *b, size_t rows, size_t depth, size_t columns) {                         \
        static IN left[(LARGEST + TILE_ROWS) * DEPTH_BLOCK], right[(LARGEST + TILE_COLUMNS) * DEPTH_BLOCK];            \
        for (size_t k = 0; k < depth; k += DEPTH_BLOCK) {                                                              \
            size_t steps = depth - k < DEPTH_BLOCK ? depth - k : DEPTH_BLOCK;                                          \
            pack_rows_##IN(left, a + k, depth, rows, steps, TILE_ROWS);                                                \
            pack_columns_##IN(right, b + k * columns, columns, steps, columns, TILE_COLUMNS);                          \
            for (size_t i = 0; i < rows; i += TILE_ROWS)                                                               \
                for (size_t j = 0; j < columns; j += TILE_COLUMNS) {                                                   \
                    const IN *x = left + i * steps, *y = right + j * steps;                                            \
                    OUT edge[TILE_ROWS * TILE_COLUMNS] = {0};                                                          \
                    if (i + TILE_ROWS <= rows && j + TILE_COLUMNS <= columns) {                                        \
                        KERNEL(out + i * columns + j, columns, x, y, steps);                                           \
                        continue;                                                                                      \
                    }                                                                                                  \
                    KERNEL(edge, TILE_COLUMNS, x, y, steps);                                                           \
                    for (size_t r = 0; r < TILE_ROWS && i + r < rows; r++)                                             \
                        for (size_t c = 0; c < TILE_COLUMNS && j + c < columns; c++)                                   \
                            out[(i + r) * columns + j + c] += edge[r * TILE_COLUMNS + c];                              \
                }                                                                                                      \
        }                                                                                                              \
    }

DEFINE_PRODUCT(matmul_tile_double, double, double, 4, 4, matmul_tile_4x4_double)
DEFINE_PRODUCT(matmul_tile_float, float, float, 6, 4, matmul_tile_6x4_float)
DEFINE_PRODUCT(matmul_tile_int, int64_t, int32_t, 8, 2, matmul_tile_8x2_int)

#define COUNT_WRONG(OUT, IN, PRODUCT, rows, depth, columns)                                                            \
    do {                                                                                                               \
        static IN a[LARGEST * LARGEST], b[LARGEST * LARGEST];                                                          \
        static OUT out[LARGEST * LARGEST];                                                                             \
        for (size_t i = 0; i < (size_t)LARGEST * LARGEST; i++)                                                         \
            a[i] = (IN)(int)(i * 7 % 23) - 11, b[i] = (IN)(int)(i * 5 % 19) - 9, out[i] = (OUT)(int)(i % 3);           \
        PRODUCT(out, a, b, rows, depth, columns);                                                                      \
        for (size_t i = 0; i < rows; i++)                                                                              \
            for (size_t j = 0; j < columns; j++) {                                                                     \
                OUT sum = (OUT)(int)((i * columns + j) % 3);                                                           \
                for (size_t k = 0; k < depth; k++)                                                                     \
                    sum += (OUT)a[i * depth + k] * b[k * columns + j];                                                 \
                wrong += sum != out[i * columns + j];                                                                  \
            }                                                                                                          \
    } while (0)

int matmul_tile_selftest(void) {
    static const size_t sides[][3] = {{4, 4, 4}, {12, 16, 8}, {1, 1, 1}, {13, 9, 7}, {29, 63, 31}, {64, 64, 64}};
    int wrong = 0;
    for (size_t s = 0; s < sizeof sides / sizeof sides[0]; s++) {
        size_t rows = sides[s][0], depth = sides[s][1], columns = sides[s][2];
        COUNT_WRONG(double, double, matmul_tile_double, rows, depth, columns);
        COUNT_WRONG(float, float, matmul_tile_float, rows, depth, columns);
        COUNT_WRONG(int64_t, int32_t, matmul_tile_int, rows, depth, columns);
    }
    if (wrong)
        return 1;
    double a[12], b[18], out[12] = {0}, expected[12] = {0};
    for (int i = 0; i < 18; i++)
        a[i % 12] = i - 7, b[i] = 5 - i * i % 11;
    matmul_tile_2x3_complex(out, 6, a, b, 3);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) {
                double x = a[4 * k + 2 * i], y = a[4 * k + 2 * i + 1], u = b[6 * k + 2 * j], v = b[6 * k + 2 * j + 1];
                expected[6 * i + 2 * j] += x * u - y * v, expected[6 * i + 2 * j + 1] += x * v + y * u;
            }
    for (int i = 0; i < 12; i++)
        if (out[i] != expected[i])
            return 2;
    double m[16], inverse[16], unit[16] = {0};
    for (int i = 0; i < 16; i++)
        m[i] = (i * 5 % 7) + (i % 5 == 0 ? 9 : 0);
    if (matmul_tile_inverse_4x4(inverse, m) == 0)
        return 3;
    matmul_tile_double(unit, m, inverse, 4, 4, 4);
    for (int i = 0; i < 16; i++)
        if (fabs(unit[i] - (i % 5 == 0)) > 1e-12)
            return 4;
    /* The four-step Fibonacci matrix: entry [0][1] of its n-th power is a tetranacci number. */
    static const uint32_t step[16] = {1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
    uint32_t power[16], f[4] = {1, 0, 0, 0};
    matmul_tile_power_modular(power, step, 1000, 998244353);
    for (int i = 0; i < 1000; i++) {
        uint32_t next = (uint32_t)(((uint64_t)f[0] + f[1] + f[2] + f[3]) % 998244353);
        f[3] = f[2], f[2] = f[1], f[1] = f[0], f[0] = next;
    }
    return power[0] == f[0] && power[4] == f[1] ? 0 : 5;
}
