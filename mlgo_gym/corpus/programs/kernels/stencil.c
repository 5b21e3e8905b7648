/* Stencils over grids: 7-point and 27-point in three dimensions with register blocking, an eighth-order 25-point wave
   step, and Sobel, Gauss and median filters on images. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    size_t nx, ny, nz;
    double *cells; /* x runs fastest */
} stencil_grid;

enum { SIDE_X = 14, SIDE_Y = 11, SIDE_Z = 12, IMAGE_WIDTH = 45, IMAGE_HEIGHT = 34 };

#define CELL(g, x, y, z) ((g)->cells[((z) * (g)->ny + (y)) * (g)->nx + (x)])

/* One Jacobi sweep of centre * c + faces * (the six neighbours), two rows and two planes at once: of the twenty values
   around a 2x2 column of cells the inner ones serve several sums. An odd last inner row or plane is left alone. */
void stencil_7_point(stencil_grid *out, const stencil_grid *in, double centre, double faces) {
    size_t row = in->nx, plane = in->nx * in->ny;
    for (size_t z = 1; z + 2 < in->nz; z += 2)
        for (size_t y = 1; y + 2 < in->ny; y += 2) {
            const double *p = &CELL(in, 1, y, z);
            double *q = &CELL(out, 1, y, z);
            double w00 = p[-1], w10 = p[row - 1], w01 = p[plane - 1], w11 = p[plane + row - 1];
            double c00 = p[0], c10 = p[row], c01 = p[plane], c11 = p[plane + row];
            for (size_t x = 1; x + 1 < in->nx; x++, p++, q++) {
                double e00 = p[1], e10 = p[row + 1], e01 = p[plane + 1], e11 = p[plane + row + 1];
                double s0 = *(p - row), s1 = p[plane - row], n0 = p[2 * row], n1 = p[plane + 2 * row];
                double d0 = *(p - plane), d1 = *(p - plane + row), u0 = p[2 * plane], u1 = p[2 * plane + row];
                q[0] = centre * c00 + faces * (w00 + e00 + s0 + c10 + d0 + c01);
                q[row] = centre * c10 + faces * (w10 + e10 + c00 + n0 + d1 + c11);
                q[plane] = centre * c01 + faces * (w01 + e01 + s1 + c11 + c00 + u0);
                q[plane + row] = centre * c11 + faces * (w11 + e11 + c01 + n1 + c10 + u1);
                w00 = c00, w10 = c10, w01 = c01, w11 = c11, c00 = e00, c10 = e10, c01 = e01, c11 = e11;
            }
        }
}

/* The sums of one column of nine cells by kind: the middle, its four edge neighbours, the four corners. */
#define COLUMN9(m, e, c, i)                                                                                            \
    double m = p[i];                                                                                                   \
    double e = south[i] + north[i] + below[i] + above[i];                                                              \
    double c = below_south[i] + below_north[i] + above_south[i] + above_north[i]
#define WEIGH9(m0, e0, c0, m1, e1, c1, m2, e2, c2)                                                                     \
    (weights[0] * m1 + weights[1] * (m0 + m2 + e1) + weights[2] * (e0 + e2 + c1) + weights[3] * (c0 + c2))

/* Weights for the centre, the faces, the edges and the corners; four cells per iteration share six columns. */
void stencil_27_point(stencil_grid *out, const stencil_grid *in, const double weights[4]) {
    size_t row = in->nx, plane = in->nx * in->ny;
    for (size_t z = 1; z + 1 < in->nz; z++)
        for (size_t y = 1; y + 1 < in->ny; y++) {
            const double *p = &CELL(in, 0, y, z), *south = p - row, *north = p + row, *below = p - plane;
            const double *above = p + plane, *below_south = below - row, *below_north = below + row;
            const double *above_south = above - row, *above_north = above + row;
            double *q = &CELL(out, 0, y, z);
            size_t x = 1;
            for (; x + 4 < in->nx; x += 4) {
                COLUMN9(m0, e0, c0, x - 1);
                COLUMN9(m1, e1, c1, x);
                COLUMN9(m2, e2, c2, x + 1);
                COLUMN9(m3, e3, c3, x + 2);
                COLUMN9(m4, e4, c4, x + 3);
                COLUMN9(m5, e5, c5, x + 4);
                q[x] = WEIGH9(m0, e0, c0, m1, e1, c1, m2, e2, c2);
                q[x + 1] = WEIGH9(m1, e1, c1, m2, e2, c2, m3, e3, c3);
                q[x + 2] = WEIGH9(m2, e2, c2, m3, e3, c3, m4, e4, c4);
                q[x + 3] = WEIGH9(m3, e3, c3, m4, e4, c4, m5, e5, c5);
            }
            for (; x + 1 < in->nx; x++) {
                COLUMN9(m0, e0, c0, x - 1);
                COLUMN9(m1, e1, c1, x);
                COLUMN9(m2, e2, c2, x + 1);
                q[x] = WEIGH9(m0, e0, c0, m1, e1, c1, m2, e2, c2);
            }
        }
}

#define SECOND_DERIVATIVE(a, b, c, d, e, f, g, h, i)                                                                   \
    (k0 * e + k1 * (d + f) + k2 * (c + g) + k3 * (b + h) + k4 * (a + i))

/* next = 2 now - before + v * laplacian(now), eighth order in space: marches along z with a nine-deep window of two
   neighbouring cells in registers, and writes over `before`. An odd last inner x is left alone. */
void stencil_wave_step(stencil_grid *before, const stencil_grid *now, double v) {
    const double k0 = -205.0 / 72, k1 = 8.0 / 5, k2 = -1.0 / 5, k3 = 8.0 / 315, k4 = -1.0 / 560;
    size_t row = now->nx, plane = now->nx * now->ny;
    for (size_t y = 4; y + 4 < now->ny; y++)
        for (size_t x = 4; x + 5 < now->nx; x += 2) {
            const double *p = &CELL(now, x, y, 0);
            double a = p[0], b = p[plane], c = p[2 * plane], d = p[3 * plane], e = p[4 * plane], f = p[5 * plane];
            double g = p[6 * plane], h = p[7 * plane], a1 = p[1], b1 = p[plane + 1], c1 = p[2 * plane + 1];
            double d1 = p[3 * plane + 1], e1 = p[4 * plane + 1], f1 = p[5 * plane + 1], g1 = p[6 * plane + 1];
            double h1 = p[7 * plane + 1];
            for (size_t z = 4; z + 4 < now->nz; z++) {
                const double *q = p + z * plane;
                double i = q[4 * plane], i1 = q[4 * plane + 1];
                double along_z = SECOND_DERIVATIVE(a, b, c, d, e, f, g, h, i);
                double along_z1 = SECOND_DERIVATIVE(a1, b1, c1, d1, e1, f1, g1, h1, i1);
                double m4 = *(q - 4), m3 = *(q - 3), m2 = *(q - 2), m1 = *(q - 1);
                double p2 = q[2], p3 = q[3], p4 = q[4], p5 = q[5];
                double along_x = SECOND_DERIVATIVE(m4, m3, m2, m1, e, e1, p2, p3, p4);
                double along_x1 = SECOND_DERIVATIVE(m3, m2, m1, e, e1, p2, p3, p4, p5);
                const double *s = q - 4 * row;
                double along_y = SECOND_DERIVATIVE(s[0], s[row], s[2 * row], s[3 * row], e, s[5 * row], s[6 * row],
                                                   s[7 * row], s[8 * row]);
                s++;
                double along_y1 = SECOND_DERIVATIVE(s[0], s[row], s[2 * row], s[3 * row], e1, s[5 * row], s[6 * row],
                                                    s[7 * row], s[8 * row]);
                double *target = &CELL(before, x, y, z);
                target[0] = 2 * e - target[0] + v * (along_x + along_y + along_z);
                target[1] = 2 * e1 - target[1] + v * (along_x1 + along_y1 + along_z1);
                a = b, b = c, c = d, d = e, e = f, f = g, g = h, h = i;
                a1 = b1, b1 = c1, c1 = d1, d1 = e1, e1 = f1, f1 = g1, g1 = h1, h1 = i1;
            }
        }
}

/* The edge strength |gx| + |gy|, capped at 255, two rows at a time (an odd last inner row is left alone). */
void stencil_sobel(uint8_t *out, const uint8_t *in, size_t width, size_t height) {
    for (size_t y = 1; y + 2 < height; y += 2) {
        const uint8_t *p = in + (y - 1) * width, *q = p + width, *r = q + width, *s = r + width;
        uint8_t *upper = out + y * width, *lower = upper + width;
        int a0 = p[0], a1 = p[1], b0 = q[0], b1 = q[1], c0 = r[0], c1 = r[1], d0 = s[0], d1 = s[1];
        for (size_t x = 1; x + 1 < width; x++) {
            int a2 = p[x + 1], b2 = q[x + 1], c2 = r[x + 1], d2 = s[x + 1];
            int gx = a2 - a0 + 2 * (b2 - b0) + c2 - c0, gy = c0 - a0 + 2 * (c1 - a1) + c2 - a2;
            int hx = b2 - b0 + 2 * (c2 - c0) + d2 - d0, hy = d0 - b0 + 2 * (d1 - b1) + d2 - b2;
            int g = abs(gx) + abs(gy), h = abs(hx) + abs(hy);
            upper[x] = (uint8_t)(g > 255 ? 255 : g);
            lower[x] = (uint8_t)(h > 255 ? 255 : h);
            a0 = a1, a1 = a2, b0 = b1, b1 = b2, c0 = c1, c1 = c2, d0 = d1, d1 = d2;
        }
    }
}

#define BLUR_COLUMN(i) (p0[i] + p4[i] + 4 * (p1[i] + p3[i]) + 6 * p2[i])
#define BLUR(a, b, c, d, e) ((uint8_t)((a + e + 4 * (b + d) + 6 * c + 128) >> 8))

/* The binomial 5x5 filter; eight columns of weighted sums give four pixels. */
void stencil_gauss(uint8_t *out, const uint8_t *in, size_t width, size_t height) {
    for (size_t y = 2; y + 2 < height; y++) {
        const uint8_t *p2 = in + y * width, *p1 = p2 - width, *p0 = p1 - width, *p3 = p2 + width, *p4 = p3 + width;
        uint8_t *q = out + y * width;
        size_t x = 2;
        int a = BLUR_COLUMN(0), b = BLUR_COLUMN(1), c = BLUR_COLUMN(2), d = BLUR_COLUMN(3);
        for (; x + 5 < width; x += 4) {
            int e = BLUR_COLUMN(x + 2), f = BLUR_COLUMN(x + 3), g = BLUR_COLUMN(x + 4), h = BLUR_COLUMN(x + 5);
            q[x] = BLUR(a, b, c, d, e), q[x + 1] = BLUR(b, c, d, e, f);
            q[x + 2] = BLUR(c, d, e, f, g), q[x + 3] = BLUR(d, e, f, g, h);
            a = e, b = f, c = g, d = h;
        }
        for (; x + 2 < width; x++) {
            int e = BLUR_COLUMN(x + 2);
            q[x] = BLUR(a, b, c, d, e);
            a = b, b = c, c = d, d = e;
        }
    }
}

#define ORDER(x, y)                                                                                                    \
    do {                                                                                                               \
        int smaller = x < y ? x : y;                                                                                   \
        y = x < y ? y : x, x = smaller;                                                                                \
    } while (0)
#define ORDER3(x, y, z)                                                                                                \
    do {                                                                                                               \
        ORDER(x, y);                                                                                                   \
        ORDER(y, z);                                                                                                   \
        ORDER(x, y);                                                                                                   \
    } while (0)
/* The median of nine is the median of the largest low, the middle of the middles and the smallest high. */
#define MEDIAN9(result, l0, m0, h0, l1, m1, h1, l2, m2, h2)                                                            \
    do {                                                                                                               \
        int low = l0 > l1 ? l0 : l1, high = h0 < h1 ? h0 : h1, f = m0, g = m1, h = m2;                                 \
        low = low > l2 ? low : l2, high = high < h2 ? high : h2;                                                       \
        ORDER3(f, g, h);                                                                                               \
        ORDER3(low, g, high);                                                                                          \
        result = (uint8_t)g;                                                                                           \
    } while (0)
#define SORTED_COLUMN(a, b, c, i)                                                                                      \
    int a = p[i], b = q[i], c = r[i];                                                                                  \
    ORDER3(a, b, c)

void stencil_median(uint8_t *out, const uint8_t *in, size_t width, size_t height) {
    for (size_t y = 1; y + 1 < height; y++) {
        const uint8_t *p = in + (y - 1) * width, *q = p + width, *r = q + width;
        uint8_t *target = out + y * width;
        SORTED_COLUMN(a0, b0, c0, 0);
        SORTED_COLUMN(a1, b1, c1, 1);
        for (size_t x = 1; x + 1 < width; x += 2) {
            size_t last = x + 2 < width ? x + 2 : x + 1;
            SORTED_COLUMN(a2, b2, c2, x + 1);
            SORTED_COLUMN(a3, b3, c3, last);
            MEDIAN9(target[x], a0, b0, c0, a1, b1, c1, a2, b2, c2);
            if (last > x + 1)
                MEDIAN9(target[x + 1], a1, b1, c1, a2, b2, c2, a3, b3, c3);
            a0 = a2, b0 = b2, c0 = c2, a1 = a3, b1 = b3, c1 = c3;
        }
    }
}

/* The value of a weighted 3x3x3 neighbourhood, or of the wave operator, straight from the definition. */
static double plain_27(const stencil_grid *g, size_t x, size_t y, size_t z, const double weights[4]) {
    double sum = 0;
    for (size_t i = 0; i < 27; i++) {
        size_t dx = i % 3, dy = i / 3 % 3, dz = i / 9;
        sum += weights[(dx != 1) + (dy != 1) + (dz != 1)] * CELL(g, x + dx - 1, y + dy - 1, z + dz - 1);
    }
    return sum;
}

static double plain_laplacian(const stencil_grid *g, size_t x, size_t y, size_t z) {
    static const double k[5] = {-205.0 / 72, 8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560};
    double sum = 3 * k[0] * CELL(g, x, y, z);
    for (size_t i = 1; i < 5; i++) {
        sum += k[i] * (CELL(g, x + i, y, z) + CELL(g, x - i, y, z) + CELL(g, x, y + i, z) + CELL(g, x, y - i, z));
        sum += k[i] * (CELL(g, x, y, z + i) + CELL(g, x, y, z - i));
    }
    return sum;
}

static int compare_bytes(const void *x, const void *y) { return *(const uint8_t *)x - *(const uint8_t *)y; }

static int check_images(void) {
    static uint8_t in[IMAGE_WIDTH * IMAGE_HEIGHT], edges[sizeof in], soft[sizeof in], clean[sizeof in];
    static const int binomial[5] = {1, 4, 6, 4, 1};
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(i * i * 31 % 251 + i % 5);
    stencil_sobel(edges, in, IMAGE_WIDTH, IMAGE_HEIGHT);
    stencil_gauss(soft, in, IMAGE_WIDTH, IMAGE_HEIGHT);
    stencil_median(clean, in, IMAGE_WIDTH, IMAGE_HEIGHT);
    for (size_t y = 1; y + 1 < IMAGE_HEIGHT; y++)
        for (size_t x = 1; x + 1 < IMAGE_WIDTH; x++) {
            const uint8_t *p = in + y * IMAGE_WIDTH + x;
            uint8_t nine[9];
            int gx = 0, gy = 0, blurred = 128;
            for (int i = 0; i < 9; i++) {
                int dx = i % 3 - 1, dy = i / 3 - 1, v = p[dy * IMAGE_WIDTH + dx];
                gx += dx * (2 - abs(dy)) * v, gy += dy * (2 - abs(dx)) * v, nine[i] = (uint8_t)v;
            }
            int g = abs(gx) + abs(gy) > 255 ? 255 : abs(gx) + abs(gy);
            if (edges[y * IMAGE_WIDTH + x] != g)
                return 1;
            qsort(nine, 9, 1, compare_bytes);
            if (clean[y * IMAGE_WIDTH + x] != nine[4])
                return 2;
            if (x < 2 || y < 2 || x + 2 >= IMAGE_WIDTH || y + 2 >= IMAGE_HEIGHT)
                continue;
            for (int i = 0; i < 25; i++)
                blurred += binomial[i % 5] * binomial[i / 5] * p[(i / 5 - 2) * IMAGE_WIDTH + i % 5 - 2];
            if (soft[y * IMAGE_WIDTH + x] != blurred >> 8)
                return 3;
        }
    return 0;
}

int stencil_selftest(void) {
    static double a[SIDE_X * SIDE_Y * SIDE_Z], b[SIDE_X * SIDE_Y * SIDE_Z], c[SIDE_X * SIDE_Y * SIDE_Z];
    stencil_grid in = {SIDE_X, SIDE_Y, SIDE_Z, a}, seven = {SIDE_X, SIDE_Y, SIDE_Z, b};
    stencil_grid all = {SIDE_X, SIDE_Y, SIDE_Z, c};
    static const double weights[4] = {0.5, 0.05, 0.015, 0.0025}, cross[4] = {0.4, 0.1, 0, 0};
    for (size_t i = 0; i < sizeof a / sizeof a[0]; i++)
        a[i] = (double)(i * 37 % 101) - 50;
    stencil_7_point(&seven, &in, cross[0], cross[1]);
    stencil_27_point(&all, &in, weights);
    for (size_t z = 1; z + 1 < SIDE_Z; z++)
        for (size_t y = 1; y + 1 < SIDE_Y; y++)
            for (size_t x = 1; x + 1 < SIDE_X; x++) {
                if (fabs(CELL(&all, x, y, z) - plain_27(&in, x, y, z, weights)) > 1e-12)
                    return 4;
                if (y < SIDE_Y - 2 && fabs(CELL(&seven, x, y, z) - plain_27(&in, x, y, z, cross)) > 1e-12)
                    return 5;
            }
    memset(b, 0, sizeof b);
    stencil_wave_step(&seven, &in, 0.25);
    for (size_t z = 4; z + 4 < SIDE_Z; z++)
        for (size_t y = 4; y + 4 < SIDE_Y; y++)
            for (size_t x = 4; x + 4 < SIDE_X; x++) {
                double expected = 2 * CELL(&in, x, y, z) + 0.25 * plain_laplacian(&in, x, y, z);
                if (fabs(CELL(&seven, x, y, z) - expected) > 1e-10)
                    return 6;
            }
    return check_images();
}
