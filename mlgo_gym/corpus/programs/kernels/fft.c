/* Complex transforms from unrolled codelets: 8 and 16 points, radix-4 and radix-8 passes, real input, convolution. */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    double re, im;
} fft_complex;

enum { FFT_LARGEST = 4096 };

#define HALF 0.70710678118654752440
#define COS16 0.92387953251128675613
#define SIN16 0.38268343236508977173
#define TWO_PI 6.28318530717958647693

/* A complex local v is the pair of doubles vr and vi. */
#define READ(v, p) double v##r = (p).re, v##i = (p).im
#define WRITE(p, v) ((p).re = v##r, (p).im = v##i)
#define BUTTERFLY(a, b)                                                                                                \
    do {                                                                                                               \
        double tr = a##r - b##r, ti = a##i - b##i;                                                                     \
        a##r += b##r, a##i += b##i, b##r = tr, b##i = ti;                                                              \
    } while (0)
/* Multiplication by -i, by exp(-i pi/4), by exp(-3i pi/4), and by any c - s i. */
#define TIMES_MINUS_I(v)                                                                                               \
    do {                                                                                                               \
        double t = v##r;                                                                                               \
        v##r = v##i, v##i = -t;                                                                                        \
    } while (0)
#define TIMES_EIGHTH(v)                                                                                                \
    do {                                                                                                               \
        double t = HALF * (v##r + v##i);                                                                               \
        v##i = HALF * (v##i - v##r), v##r = t;                                                                         \
    } while (0)
#define TIMES_THREE_EIGHTHS(v)                                                                                         \
    do {                                                                                                               \
        double t = HALF * (v##i - v##r);                                                                               \
        v##i = -HALF * (v##r + v##i), v##r = t;                                                                        \
    } while (0)
#define TIMES(v, c, s)                                                                                                 \
    do {                                                                                                               \
        double t = (c) * v##r + (s) * v##i;                                                                            \
        v##i = (c) * v##i - (s) * v##r, v##r = t;                                                                      \
    } while (0)
/* Decimation in frequency; results come in the order a, c, b, d. */
#define FOUR_POINTS(a, b, c, d)                                                                                        \
    do {                                                                                                               \
        BUTTERFLY(a, c);                                                                                               \
        BUTTERFLY(b, d);                                                                                               \
        TIMES_MINUS_I(d);                                                                                              \
        BUTTERFLY(a, b);                                                                                               \
        BUTTERFLY(c, d);                                                                                               \
    } while (0)
/* Results come in the order a, e, c, g, b, f, d, h. */
#define EIGHT_POINTS(a, b, c, d, e, f, g, h)                                                                           \
    do {                                                                                                               \
        BUTTERFLY(a, e);                                                                                               \
        BUTTERFLY(b, f);                                                                                               \
        BUTTERFLY(c, g);                                                                                               \
        BUTTERFLY(d, h);                                                                                               \
        TIMES_EIGHTH(f);                                                                                               \
        TIMES_MINUS_I(g);                                                                                              \
        TIMES_THREE_EIGHTHS(h);                                                                                        \
        FOUR_POINTS(a, b, c, d);                                                                                       \
        FOUR_POINTS(e, f, g, h);                                                                                       \
    } while (0)

#define READ_EIGHT(a, b, c, d, e, f, g, h, p, n)                                                                       \
    READ(a, (p)[0]);                                                                                                   \
    READ(b, (p)[n]);                                                                                                   \
    READ(c, (p)[2 * n]);                                                                                               \
    READ(d, (p)[3 * n]);                                                                                               \
    READ(e, (p)[4 * n]);                                                                                               \
    READ(f, (p)[5 * n]);                                                                                               \
    READ(g, (p)[6 * n]);                                                                                               \
    READ(h, (p)[7 * n])
#define WRITE_EIGHT(p, n, a, b, c, d, e, f, g, h)                                                                      \
    WRITE((p)[0], a), WRITE((p)[n], b), WRITE((p)[2 * n], c), WRITE((p)[3 * n], d), WRITE((p)[4 * n], e),              \
        WRITE((p)[5 * n], f), WRITE((p)[6 * n], g), WRITE((p)[7 * n], h)

void fft_8(fft_complex *out, const fft_complex *in, size_t stride) {
    READ_EIGHT(a, b, c, d, e, f, g, h, in, stride);
    EIGHT_POINTS(a, b, c, d, e, f, g, h);
    WRITE_EIGHT(out, 1, a, e, c, g, b, f, d, h);
}

/* Two halves of eight points; the odd half is rotated by the sixteenth roots of one first. */
void fft_16(fft_complex *out, const fft_complex *in, size_t stride) {
    READ_EIGHT(a, b, c, d, e, f, g, h, in, stride);
    READ_EIGHT(k, l, m, n, o, p, q, s, in + 8 * stride, stride);
    BUTTERFLY(a, k);
    BUTTERFLY(b, l);
    BUTTERFLY(c, m);
    BUTTERFLY(d, n);
    BUTTERFLY(e, o);
    BUTTERFLY(f, p);
    BUTTERFLY(g, q);
    BUTTERFLY(h, s);
    TIMES(l, COS16, SIN16);
    TIMES_EIGHTH(m);
    TIMES(n, SIN16, COS16);
    TIMES_MINUS_I(o);
    TIMES(p, -SIN16, COS16);
    TIMES_THREE_EIGHTHS(q);
    TIMES(s, -COS16, SIN16);
    EIGHT_POINTS(a, b, c, d, e, f, g, h);
    EIGHT_POINTS(k, l, m, n, o, p, q, s);
    WRITE(out[0], a), WRITE(out[1], k), WRITE(out[2], e), WRITE(out[3], o);
    WRITE(out[4], c), WRITE(out[5], m), WRITE(out[6], g), WRITE(out[7], q);
    WRITE(out[8], b), WRITE(out[9], l), WRITE(out[10], f), WRITE(out[11], p);
    WRITE(out[12], d), WRITE(out[13], n), WRITE(out[14], h), WRITE(out[15], s);
}

/* roots[k] = exp(-2 pi i k / n), each from its own sine so that errors do not build up. */
void fft_make_roots(fft_complex *roots, size_t n) {
    for (size_t k = 0; k < n; k++) {
        double angle = TWO_PI * (double)k / (double)n;
        roots[k].re = cos(angle), roots[k].im = -sin(angle);
    }
}

#define TWIDDLE(v, w) TIMES(v, (w).re, -(w).im)

#define PRODUCT(v, a, b) double v##r = a##r * b##r - a##i * b##i, v##i = a##r * b##i + a##i * b##r

/* Combines four transforms of `quarter` points that lie one behind the other, two bins at a time where it can; roots
   has step * 4 * quarter entries. */
void fft_pass_4(fft_complex *x, size_t quarter, const fft_complex *roots, size_t step) {
    fft_complex *y = x + quarter, *z = y + quarter, *w = z + quarter;
    size_t k = 0;
    for (; k + 2 <= quarter; k += 2) {
        READ(a, x[k]);
        READ(b, y[k]);
        READ(c, z[k]);
        READ(d, w[k]);
        READ(e, x[k + 1]);
        READ(f, y[k + 1]);
        READ(g, z[k + 1]);
        READ(h, w[k + 1]);
        TWIDDLE(b, roots[k * step]);
        TWIDDLE(c, roots[2 * k * step]);
        TWIDDLE(d, roots[3 * k * step]);
        TWIDDLE(f, roots[(k + 1) * step]);
        TWIDDLE(g, roots[2 * (k + 1) * step]);
        TWIDDLE(h, roots[3 * (k + 1) * step]);
        FOUR_POINTS(a, b, c, d);
        FOUR_POINTS(e, f, g, h);
        WRITE(x[k], a), WRITE(y[k], c), WRITE(z[k], b), WRITE(w[k], d);
        WRITE(x[k + 1], e), WRITE(y[k + 1], g), WRITE(z[k + 1], f), WRITE(w[k + 1], h);
    }
    if (k < quarter) {
        READ(a, x[k]);
        READ(b, y[k]);
        READ(c, z[k]);
        READ(d, w[k]);
        TWIDDLE(b, roots[k * step]);
        TWIDDLE(c, roots[2 * k * step]);
        TWIDDLE(d, roots[3 * k * step]);
        FOUR_POINTS(a, b, c, d);
        WRITE(x[k], a), WRITE(y[k], c), WRITE(z[k], b), WRITE(w[k], d);
    }
}

/* Of the seven roots only the first is read; the others are its powers. */
#define TWIDDLE_EIGHT(b, c, d, e, f, g, h, root)                                                                       \
    do {                                                                                                               \
        READ(u, root);                                                                                                 \
        PRODUCT(v, u, u);                                                                                              \
        PRODUCT(w, u, v);                                                                                              \
        PRODUCT(z, v, v);                                                                                              \
        TIMES(b, ur, -ui);                                                                                             \
        TIMES(c, vr, -vi);                                                                                             \
        TIMES(d, wr, -wi);                                                                                             \
        TIMES(e, zr, -zi);                                                                                             \
        TIMES(f, zr * ur - zi * ui, -(zr * ui + zi * ur));                                                             \
        TIMES(g, zr * vr - zi * vi, -(zr * vi + zi * vr));                                                             \
        TIMES(h, zr * wr - zi * wi, -(zr * wi + zi * wr));                                                             \
    } while (0)

/* The same for eight transforms of an even number of points. */
void fft_pass_8(fft_complex *x, size_t eighth, const fft_complex *roots, size_t step) {
    for (size_t k = 0; k < eighth; k += 2, x += 2, roots += 2 * step) {
        READ_EIGHT(a, b, c, d, e, f, g, h, x, eighth);
        READ_EIGHT(k, l, m, n, o, p, q, s, x + 1, eighth);
        TWIDDLE_EIGHT(b, c, d, e, f, g, h, roots[0]);
        TWIDDLE_EIGHT(l, m, n, o, p, q, s, roots[step]);
        EIGHT_POINTS(a, b, c, d, e, f, g, h);
        EIGHT_POINTS(k, l, m, n, o, p, q, s);
        WRITE_EIGHT(x, eighth, a, e, c, g, b, f, d, h);
        WRITE_EIGHT(x + 1, eighth, k, o, m, q, l, p, n, s);
    }
}

static void recurse(fft_complex *out, const fft_complex *in, size_t n, size_t stride, const fft_complex *roots,
                    size_t largest) {
    if (n == 16) {
        fft_16(out, in, stride);
    } else if (n == 8) {
        fft_8(out, in, stride);
    } else if (n % 7 == 1 && n > 1) { /* a power of eight */
        for (size_t i = 0; i < 8; i++)
            recurse(out + i * (n / 8), in + i * stride, n / 8, 8 * stride, roots, largest);
        fft_pass_8(out, n / 8, roots, largest / n);
    } else if (n >= 4) {
        for (size_t i = 0; i < 4; i++)
            recurse(out + i * (n / 4), in + i * stride, n / 4, 4 * stride, roots, largest);
        fft_pass_4(out, n / 4, roots, largest / n);
    } else {
        READ(a, in[0]);
        READ(b, in[n == 2 ? stride : 0]);
        if (n == 2)
            BUTTERFLY(a, b);
        WRITE(out[0], a), WRITE(out[n - 1], b);
    }
}

/* Any power of two up to FFT_LARGEST; out and in must differ. Returns false for other sizes. */
bool fft_forward(fft_complex *out, const fft_complex *in, size_t n) {
    static fft_complex roots[FFT_LARGEST];
    static size_t ready;
    if (n == 0 || n > FFT_LARGEST || (n & (n - 1)))
        return false;
    if (ready < n) {
        fft_make_roots(roots, n);
        ready = n;
    }
    recurse(out, in, n, 1, roots, ready);
    return true;
}

bool fft_inverse(fft_complex *out, const fft_complex *in, size_t n) {
    if (!fft_forward(out, in, n))
        return false;
    double scale = 1 / (double)n;
    for (size_t i = 0, j = 0; i <= j; i++, j = n - i) {
        READ(a, out[i]);
        READ(b, out[j]);
        out[j].re = ar * scale, out[j].im = ai * scale;
        out[i].re = br * scale, out[i].im = bi * scale;
    }
    return true;
}

/* The first n/2 + 1 bins of n real samples, from one complex transform of half the size. */
bool fft_real(fft_complex *out, const double *in, size_t n) {
    static fft_complex packed[FFT_LARGEST / 2];
    if (n < 4 || n > FFT_LARGEST)
        return false;
    for (size_t i = 0; i < n / 2; i++)
        packed[i].re = in[2 * i], packed[i].im = in[2 * i + 1];
    if (!fft_forward(out, packed, n / 2))
        return false;
    out[n / 2] = out[0];
    for (size_t i = 0, j = n / 2; i <= j; i++, j--) {
        double angle = TWO_PI * (double)i / (double)n, c = cos(angle), s = sin(angle);
        READ(a, out[i]);
        READ(b, out[j]);
        double er = 0.5 * (ar + br), ei = 0.5 * (ai - bi), dr = 0.5 * (ai + bi), di = 0.5 * (br - ar);
        double tr = c * dr + s * di, ti = c * di - s * dr;
        out[i].re = er + tr, out[i].im = ei + ti;
        out[j].re = er - tr, out[j].im = ti - ei;
    }
    return true;
}

bool fft_convolve(fft_complex *out, const fft_complex *x, const fft_complex *y, size_t n) {
    static fft_complex fx[FFT_LARGEST], fy[FFT_LARGEST];
    if (!fft_forward(fx, x, n) || !fft_forward(fy, y, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        READ(a, fx[i]);
        READ(b, fy[i]);
        fx[i].re = ar * br - ai * bi, fx[i].im = ar * bi + ai * br;
    }
    return fft_inverse(out, fx, n);
}

static double distance(const fft_complex *x, const fft_complex *y, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fmax(fabs(x[i].re - y[i].re), fabs(x[i].im - y[i].im)));
    return worst;
}

int fft_selftest(void) {
    static fft_complex in[FFT_LARGEST], out[FFT_LARGEST], back[FFT_LARGEST], slow[FFT_LARGEST];
    static double samples[FFT_LARGEST];
    for (size_t i = 0; i < FFT_LARGEST; i++) {
        in[i].re = (double)(i * 37 % 101) / 50 - 1, in[i].im = (double)(i * 53 % 97) / 48 - 1;
        samples[i] = in[i].re;
    }
    for (size_t n = 1; n <= FFT_LARGEST; n *= 2) {
        if (!fft_forward(out, in, n) || !fft_inverse(back, out, n) || distance(back, in, n) > 1e-12)
            return 1;
        if (n > 512)
            continue;
        for (size_t k = 0; k < n; k++) {
            slow[k].re = slow[k].im = 0;
            for (size_t i = 0; i < n; i++) {
                double angle = TWO_PI * (double)(i * k % n) / (double)n, c = cos(angle), s = sin(angle);
                slow[k].re += c * in[i].re + s * in[i].im, slow[k].im += c * in[i].im - s * in[i].re;
            }
        }
        if (distance(out, slow, n) > 1e-10)
            return 2;
        for (size_t i = 0; i < n; i++)
            back[i].re = samples[i], back[i].im = 0;
        if (n >= 4 && (!fft_forward(slow, back, n) || !fft_real(out, samples, n)))
            return 3;
        if (n >= 4 && distance(out, slow, n / 2 + 1) > 1e-10)
            return 3;
    }
    memset(back, 0, sizeof back);
    back[3].re = 2;
    fft_convolve(out, in, back, 256);
    for (size_t i = 0; i < 256; i++)
        if (fabs(out[i].re - 2 * in[(i + 253) % 256].re) > 1e-12)
            return 4;
    return 0;
}
