/* A software rasteriser for 32-bit pixels: clipped rectangles, lines, circles, shaded triangles, blend modes and blits. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t color; /* 0xAARRGGBB, alpha not premultiplied */

typedef struct {
    int x0, y0, x1, y1; /* x1 and y1 are outside */
} rect;

typedef color (*blend_fn)(color below, color above);

typedef struct {
    color *pixels;
    int width, height;
    rect clip;
    blend_fn blend;
} canvas;

typedef struct {
    int x, y;
    color shade;
} vertex;

typedef enum { BLEND_COPY, BLEND_OVER, BLEND_ADD, BLEND_MULTIPLY, BLEND_XOR } blend_mode;

bool canvas_init(canvas *c, int width, int height);
void canvas_free(canvas *c);
void canvas_set_clip(canvas *c, rect r);
void canvas_set_blend(canvas *c, blend_mode mode);
color canvas_get(const canvas *c, int x, int y);
void canvas_clear(canvas *c, color shade);
void canvas_plot(canvas *c, int x, int y, color shade);
void canvas_line(canvas *c, int x0, int y0, int x1, int y1, color shade);
void canvas_rect(canvas *c, rect r, color shade);
void canvas_frame(canvas *c, rect r, int thickness, color shade);
void canvas_circle(canvas *c, int cx, int cy, int radius, color shade);
void canvas_disc(canvas *c, int cx, int cy, int radius, color shade);
void canvas_triangle(canvas *c, vertex a, vertex b, vertex d);
void canvas_polygon(canvas *c, const int *xy, int n, color shade);
void canvas_blit(canvas *c, const canvas *src, rect from, int x, int y);
void canvas_flood(canvas *c, int x, int y, color shade);
void canvas_gradient(canvas *c, rect r, color left, color right);
int raster_selftest(void);

/* ---- small arithmetic ---- */

static int min_int(int a, int b) { return a < b ? a : b; }
static int max_int(int a, int b) { return a > b ? a : b; }
static int clamp_int(int v, int lo, int hi) { return max_int(lo, min_int(v, hi)); }
static int abs_int(int v) { return v < 0 ? -v : v; }
static int sign_of(int v) { return (v > 0) - (v < 0); }

static void swap_int(int *a, int *b) {
    int t = *a;
    *a = *b;
    *b = t;
}

/* ---- rectangles ---- */

static rect make_rect(int x0, int y0, int x1, int y1) { return (rect){x0, y0, x1, y1}; }
static bool rect_empty(rect r) { return r.x0 >= r.x1 || r.y0 >= r.y1; }
static bool rect_has(rect r, int x, int y) { return x >= r.x0 && x < r.x1 && y >= r.y0 && y < r.y1; }
static rect rect_move(rect r, int dx, int dy) { return make_rect(r.x0 + dx, r.y0 + dy, r.x1 + dx, r.y1 + dy); }
static rect rect_shrink(rect r, int n) { return make_rect(r.x0 + n, r.y0 + n, r.x1 - n, r.y1 - n); }

static rect rect_intersect(rect a, rect b) {
    return make_rect(max_int(a.x0, b.x0), max_int(a.y0, b.y0), min_int(a.x1, b.x1), min_int(a.y1, b.y1));
}

/* ---- colours ---- */

static unsigned alpha_of(color c) { return c >> 24; }
static unsigned red_of(color c) { return c >> 16 & 0xFF; }
static unsigned green_of(color c) { return c >> 8 & 0xFF; }
static unsigned blue_of(color c) { return c & 0xFF; }
static color pack(unsigned a, unsigned r, unsigned g, unsigned b) { return a << 24 | r << 16 | g << 8 | b; }

static unsigned scale255(unsigned a, unsigned b) {
    unsigned t = a * b + 128;
    return (t + (t >> 8)) >> 8;
}

static unsigned add_sat(unsigned a, unsigned b) { return a + b > 255 ? 255 : a + b; }
static unsigned lerp255(unsigned from, unsigned to, unsigned t) { return scale255(from, 255 - t) + scale255(to, t); }

static color mix(color a, color b, unsigned t) {
    return pack(lerp255(alpha_of(a), alpha_of(b), t), lerp255(red_of(a), red_of(b), t), lerp255(green_of(a), green_of(b), t),
                lerp255(blue_of(a), blue_of(b), t));
}

static color blend_copy(color below, color above) {
    (void)below;
    return above;
}

static color blend_over(color below, color above) {
    unsigned a = alpha_of(above);
    if (a == 255) return above;
    if (a == 0) return below;
    return pack(add_sat(a, scale255(alpha_of(below), 255 - a)), lerp255(red_of(below), red_of(above), a),
                lerp255(green_of(below), green_of(above), a), lerp255(blue_of(below), blue_of(above), a));
}

static color blend_add(color below, color above) {
    unsigned a = alpha_of(above);
    return pack(add_sat(alpha_of(below), a), add_sat(red_of(below), scale255(red_of(above), a)),
                add_sat(green_of(below), scale255(green_of(above), a)), add_sat(blue_of(below), scale255(blue_of(above), a)));
}

static color blend_multiply(color below, color above) {
    return pack(alpha_of(below), scale255(red_of(below), red_of(above)), scale255(green_of(below), green_of(above)),
                scale255(blue_of(below), blue_of(above)));
}

static color blend_xor(color below, color above) { return below ^ (above & 0xFFFFFF); }

static const blend_fn blend_modes[] = {blend_copy, blend_over, blend_add, blend_multiply, blend_xor};

/* ---- the canvas ---- */

static rect canvas_bounds(const canvas *c) { return make_rect(0, 0, c->width, c->height); }
static color *pixel_at(const canvas *c, int x, int y) { return c->pixels + (size_t)y * (size_t)c->width + x; }

static void blend_pixel(const canvas *c, int x, int y, color shade) {
    color *p = pixel_at(c, x, y);
    *p = c->blend(*p, shade);
}

bool canvas_init(canvas *c, int width, int height) {
    c->pixels = calloc((size_t)width * (size_t)height, sizeof *c->pixels);
    c->width = width;
    c->height = height;
    c->clip = canvas_bounds(c);
    canvas_set_blend(c, BLEND_COPY);
    return c->pixels != NULL;
}

void canvas_free(canvas *c) {
    free(c->pixels);
    memset(c, 0, sizeof *c);
}

void canvas_set_clip(canvas *c, rect r) { c->clip = rect_intersect(r, canvas_bounds(c)); }
void canvas_set_blend(canvas *c, blend_mode mode) { c->blend = blend_modes[mode]; }
color canvas_get(const canvas *c, int x, int y) { return rect_has(canvas_bounds(c), x, y) ? *pixel_at(c, x, y) : 0; }

void canvas_plot(canvas *c, int x, int y, color shade) {
    if (rect_has(c->clip, x, y)) blend_pixel(c, x, y, shade);
}

/* A horizontal run of pixels; x1 is outside. All the filled shapes are made of these. */
static void span(canvas *c, int x0, int x1, int y, color shade) {
    if (y < c->clip.y0 || y >= c->clip.y1) return;
    x0 = max_int(x0, c->clip.x0);
    x1 = min_int(x1, c->clip.x1);
    for (; x0 < x1; x0++) blend_pixel(c, x0, y, shade);
}

static void column(canvas *c, int x, int y0, int y1, color shade) {
    for (; y0 < y1; y0++) canvas_plot(c, x, y0, shade);
}

void canvas_rect(canvas *c, rect r, color shade) {
    r = rect_intersect(r, c->clip);
    for (int y = r.y0; y < r.y1; y++) span(c, r.x0, r.x1, y, shade);
}

void canvas_clear(canvas *c, color shade) {
    blend_fn saved = c->blend;
    canvas_set_blend(c, BLEND_COPY);
    canvas_rect(c, c->clip, shade);
    c->blend = saved;
}

void canvas_frame(canvas *c, rect r, int thickness, color shade) {
    for (int i = 0; i < thickness && !rect_empty(r); i++) {
        span(c, r.x0, r.x1, r.y0, shade);
        if (r.y1 - 1 > r.y0) span(c, r.x0, r.x1, r.y1 - 1, shade);
        column(c, r.x0, r.y0 + 1, r.y1 - 1, shade);
        if (r.x1 - 1 > r.x0) column(c, r.x1 - 1, r.y0 + 1, r.y1 - 1, shade);
        r = rect_shrink(r, 1);
    }
}

/* ---- lines: Cohen-Sutherland clipping, then Bresenham ---- */

enum { SIDE_LEFT = 1, SIDE_RIGHT = 2, SIDE_TOP = 4, SIDE_BOTTOM = 8 };

static int out_code(rect r, int x, int y) {
    int code = 0;
    if (x < r.x0) code |= SIDE_LEFT;
    if (x >= r.x1) code |= SIDE_RIGHT;
    if (y < r.y0) code |= SIDE_TOP;
    if (y >= r.y1) code |= SIDE_BOTTOM;
    return code;
}

/* The coordinate at `at` on the line through (p0, q0) and (p1, q1). */
static int interpolate(int p0, int q0, int p1, int q1, int at) {
    return q0 + (int)((int64_t)(q1 - q0) * (at - p0) / (p1 - p0));
}

static void move_to_edge(rect r, int code, int *x, int *y, int ox, int oy) {
    int edge;
    if (code & (SIDE_TOP | SIDE_BOTTOM)) {
        edge = code & SIDE_TOP ? r.y0 : r.y1 - 1;
        *x = interpolate(*y, *x, oy, ox, edge);
        *y = edge;
    } else {
        edge = code & SIDE_LEFT ? r.x0 : r.x1 - 1;
        *y = interpolate(*x, *y, ox, oy, edge);
        *x = edge;
    }
}

static bool clip_line(rect r, int *x0, int *y0, int *x1, int *y1) {
    if (rect_empty(r)) return false;
    for (;;) {
        int a = out_code(r, *x0, *y0), b = out_code(r, *x1, *y1);
        if (!(a | b)) return true;
        if (a & b) return false;
        if (a)
            move_to_edge(r, a, x0, y0, *x1, *y1);
        else
            move_to_edge(r, b, x1, y1, *x0, *y0);
    }
}

void canvas_line(canvas *c, int x0, int y0, int x1, int y1, color shade) {
    if (!clip_line(c->clip, &x0, &y0, &x1, &y1)) return;
    int dx = abs_int(x1 - x0), dy = -abs_int(y1 - y0), sx = sign_of(x1 - x0), sy = sign_of(y1 - y0), error = dx + dy;
    for (;;) {
        blend_pixel(c, x0, y0, shade);
        if (x0 == x1 && y0 == y1) break;
        int twice = 2 * error;
        if (twice >= dy) {
            error += dy;
            x0 += sx;
        }
        if (twice <= dx) {
            error += dx;
            y0 += sy;
        }
    }
}

/* ---- circles: the midpoint algorithm ---- */

static void plot_pair(canvas *c, int cx, int dx, int y, color shade) {
    canvas_plot(c, cx + dx, y, shade);
    if (dx) canvas_plot(c, cx - dx, y, shade);
}

static void plot_quad(canvas *c, int cx, int cy, int dx, int dy, color shade) {
    plot_pair(c, cx, dx, cy + dy, shade);
    if (dy) plot_pair(c, cx, dx, cy - dy, shade);
}

void canvas_circle(canvas *c, int cx, int cy, int radius, color shade) {
    for (int x = radius, y = 0, error = 1 - radius; y <= x; y++) {
        plot_quad(c, cx, cy, x, y, shade);
        if (x != y) plot_quad(c, cx, cy, y, x, shade);
        if (error >= 0) error -= 2 * --x;
        error += 2 * y + 3;
    }
}

void canvas_disc(canvas *c, int cx, int cy, int radius, color shade) {
    int half = 0;
    for (int dy = -radius; dy <= radius; dy++) {
        while (half < radius && (half + 1) * (half + 1) + dy * dy <= radius * radius) half++;
        while (half > 0 && half * half + dy * dy > radius * radius) half--;
        span(c, cx - half, cx + half + 1, cy + dy, shade);
    }
}

/* ---- triangles: edge functions, colours from barycentric weights ---- */

static int64_t edge(vertex a, vertex b, int x, int y) {
    return (int64_t)(b.x - a.x) * (y - a.y) - (int64_t)(b.y - a.y) * (x - a.x);
}

static int min3(int a, int b, int c) { return min_int(a, min_int(b, c)); }
static int max3(int a, int b, int c) { return max_int(a, max_int(b, c)); }
static rect triangle_box(vertex a, vertex b, vertex d) {
    return make_rect(min3(a.x, b.x, d.x), min3(a.y, b.y, d.y), max3(a.x, b.x, d.x) + 1, max3(a.y, b.y, d.y) + 1);
}

static unsigned weigh(unsigned a, unsigned b, unsigned d, const int64_t *w, int64_t area) {
    return (unsigned)(((int64_t)a * w[0] + (int64_t)b * w[1] + (int64_t)d * w[2]) / area);
}

static color shade_at(vertex a, vertex b, vertex d, const int64_t *w, int64_t area) {
    return pack(weigh(alpha_of(a.shade), alpha_of(b.shade), alpha_of(d.shade), w, area),
                weigh(red_of(a.shade), red_of(b.shade), red_of(d.shade), w, area),
                weigh(green_of(a.shade), green_of(b.shade), green_of(d.shade), w, area),
                weigh(blue_of(a.shade), blue_of(b.shade), blue_of(d.shade), w, area));
}

void canvas_triangle(canvas *c, vertex a, vertex b, vertex d) {
    int64_t area = edge(a, b, d.x, d.y);
    if (area == 0) return;
    if (area < 0) {
        vertex t = b;
        b = d;
        d = t;
        area = -area;
    }
    rect box = rect_intersect(triangle_box(a, b, d), c->clip);
    for (int y = box.y0; y < box.y1; y++)
        for (int x = box.x0; x < box.x1; x++) {
            int64_t w[3] = {edge(b, d, x, y), edge(d, a, x, y), edge(a, b, x, y)};
            if ((w[0] | w[1] | w[2]) >= 0) blend_pixel(c, x, y, shade_at(a, b, d, w, area));
        }
}

/* Even-odd fill of a closed polygon; xy holds n pairs. */
void canvas_polygon(canvas *c, const int *xy, int n, color shade) {
    int crossings[32];
    for (int y = c->clip.y0; y < c->clip.y1; y++) {
        int count = 0;
        for (int i = 0; i < n && count < 32; i++) {
            const int *p = xy + 2 * i, *q = xy + 2 * ((i + 1) % n);
            if ((p[1] <= y) == (q[1] <= y)) continue;
            crossings[count++] = interpolate(p[1], p[0], q[1], q[0], y);
            for (int k = count - 1; k > 0 && crossings[k] < crossings[k - 1]; k--) swap_int(&crossings[k], &crossings[k - 1]);
        }
        for (int i = 0; i + 1 < count; i += 2) span(c, crossings[i], crossings[i + 1], y, shade);
    }
}

void canvas_blit(canvas *c, const canvas *src, rect from, int x, int y) {
    int dx = x - from.x0, dy = y - from.y0;
    from = rect_intersect(from, canvas_bounds(src));
    rect to = rect_intersect(rect_move(from, dx, dy), c->clip);
    for (int ty = to.y0; ty < to.y1; ty++)
        for (int tx = to.x0; tx < to.x1; tx++) blend_pixel(c, tx, ty, *pixel_at(src, tx - dx, ty - dy));
}

static bool can_flood(const canvas *c, int x, int y, color old) { return rect_has(c->clip, x, y) && *pixel_at(c, x, y) == old; }

/* Recurses only when it leaves a run, so the depth follows the shape and not its area. */
static void flood_run(canvas *c, int x, int y, color old, color shade) {
    int left = x, right = x;
    while (can_flood(c, left - 1, y, old)) left--;
    while (can_flood(c, right, y, old)) *pixel_at(c, right++, y) = shade;
    for (int i = left; i < x; i++) *pixel_at(c, i, y) = shade;
    for (int i = left; i < right; i++) {
        if (can_flood(c, i, y - 1, old)) flood_run(c, i, y - 1, old, shade);
        if (can_flood(c, i, y + 1, old)) flood_run(c, i, y + 1, old, shade);
    }
}

void canvas_flood(canvas *c, int x, int y, color shade) {
    color old = canvas_get(c, x, y);
    if (old != shade && can_flood(c, x, y, old)) flood_run(c, x, y, old, shade);
}

void canvas_gradient(canvas *c, rect r, color left, color right) {
    int width = max_int(1, r.x1 - r.x0 - 1);
    for (int x = r.x0; x < r.x1; x++) {
        unsigned t = (unsigned)clamp_int((x - r.x0) * 255 / width, 0, 255);
        column(c, x, r.y0, r.y1, mix(left, right, t));
    }
}

/* ---- self test ---- */

static int count_color(const canvas *c, color shade) {
    int n = 0;
    for (int y = 0; y < c->height; y++)
        for (int x = 0; x < c->width; x++) n += canvas_get(c, x, y) == shade;
    return n;
}

/* The number of painted pixels since the last call. */
static int take_count(canvas *c, color shade) {
    int n = count_color(c, shade);
    canvas_clear(c, 0);
    return n;
}

int raster_selftest(void) {
    const color white = 0xFFFFFFFF, red = 0xFFFF0000;
    static const int diamond[] = {20, 5, 35, 20, 20, 35, 5, 20};
    canvas c, d;
    int error = 0;
    if (!canvas_init(&c, 40, 40)) return 1;
    if (!canvas_init(&d, 8, 8)) return canvas_free(&c), 1;
    canvas_rect(&c, make_rect(-5, -5, 10, 10), white);
    if (take_count(&c, white) != 100) error = 2;
    canvas_frame(&c, make_rect(5, 5, 15, 15), 2, white);
    if (take_count(&c, white) != 64) error = 3;
    canvas_line(&c, -100, -100, 200, 200, white);
    if (canvas_get(&c, 17, 17) != white || take_count(&c, white) != 40) error = 4;
    canvas_line(&c, -50, 10, -1, 10, white);
    canvas_line(&c, 3, 100, 3, -100, white);
    if (take_count(&c, white) != 40) error = 5;
    canvas_circle(&c, 20, 20, 10, white);
    if (canvas_get(&c, 30, 20) != white || canvas_get(&c, 20, 20) || canvas_get(&c, 20, 10) != white) error = 6;
    canvas_flood(&c, 20, 20, red);
    int inside = count_color(&c, red);
    canvas_disc(&c, 20, 20, 10, white);
    if (inside < 240 || count_color(&c, red) || take_count(&c, white) < inside) error = 7;
    canvas_set_blend(&c, BLEND_XOR); /* each pixel of a circle is drawn once */
    canvas_circle(&c, 20, 20, 7, white);
    canvas_circle(&c, 20, 20, 7, white);
    if (count_color(&c, 0) != 1600) error = 8;
    canvas_set_blend(&c, BLEND_COPY);
    canvas_polygon(&c, diamond, 4, white);
    if (abs_int(take_count(&c, white) - 450) > 20) error = 9;
    canvas_triangle(&c, (vertex){0, 0, red}, (vertex){30, 0, red}, (vertex){0, 30, red});
    if (take_count(&c, red) != 496) error = 10;
    canvas_rect(&c, make_rect(0, 0, 40, 40), red);
    canvas_set_blend(&c, BLEND_OVER);
    canvas_plot(&c, 1, 1, 0x800000FF);
    if (canvas_get(&c, 1, 1) != 0xFF7F0080) error = 11;
    canvas_gradient(&d, make_rect(0, 0, 8, 8), 0xFF000000, white);
    canvas_set_clip(&c, make_rect(2, 2, 6, 6));
    canvas_blit(&c, &d, make_rect(0, 0, 8, 8), -1, -1);
    if (canvas_get(&c, 6, 6) != red || canvas_get(&c, 2, 2) != canvas_get(&d, 3, 3) || canvas_get(&d, 7, 0) != white) error = 12;
    canvas_free(&c);
    canvas_free(&d);
    return error;
}
