/* Arbitrary-precision signed integers: arithmetic, division, text conversion, powers and modular exponentiation. */
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t limb;

/* Little-endian limbs without leading zeros; zero has no limbs and is never negative. */
typedef struct {
    limb *d;
    size_t len;
    size_t cap;
    bool negative;
} bigint;

int bigint_selftest(void);

/* ---- storage ---- */

static bool is_zero(const bigint *a) { return a->len == 0; }
static limb limb_at(const bigint *a, size_t i) { return i < a->len ? a->d[i] : 0; }
static limb low_half(uint64_t v) { return (limb)v; }
static limb high_half(uint64_t v) { return (limb)(v >> 32); }
static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

void big_init(bigint *a) { memset(a, 0, sizeof *a); }

void big_free(bigint *a) {
    free(a->d);
    big_init(a);
}

static void reserve(bigint *a, size_t len) {
    if (len <= a->cap) return;
    size_t cap = max_size(len, a->cap * 2);
    limb *d = realloc(a->d, cap * sizeof *d);
    if (!d) abort(); /* a number that does not fit has no sensible value */
    a->d = d;
    a->cap = cap;
}

/* Makes a zero-filled number of some length, for the caller to fill. */
static void start(bigint *a, size_t len) {
    reserve(a, len);
    if (len) memset(a->d, 0, len * sizeof *a->d);
    a->len = len;
    a->negative = false;
}

static void trim(bigint *a) {
    while (a->len && a->d[a->len - 1] == 0) a->len--;
    if (!a->len) a->negative = false;
}

/* Stores a temporary as the result; so results may be the same objects as operands. */
static void move_to(bigint *r, bigint *tmp) {
    big_free(r);
    *r = *tmp;
}

static void copy(bigint *r, const bigint *a) {
    start(r, a->len);
    if (a->len) memcpy(r->d, a->d, a->len * sizeof *a->d);
    r->negative = a->negative;
}

static void set_sign(bigint *a, bool negative) { a->negative = negative && !is_zero(a); }

static void set_u64(bigint *a, uint64_t v) {
    start(a, 2);
    a->d[0] = low_half(v);
    a->d[1] = high_half(v);
    trim(a);
}

void big_set_int(bigint *a, int64_t v) {
    set_u64(a, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
    set_sign(a, v < 0);
}

/* ---- magnitudes ---- */

static int compare_magnitude(const bigint *a, const bigint *b) {
    if (a->len != b->len) return a->len < b->len ? -1 : 1;
    for (size_t i = a->len; i-- > 0;)
        if (a->d[i] != b->d[i]) return a->d[i] < b->d[i] ? -1 : 1;
    return 0;
}

static void add_magnitude(bigint *r, const bigint *a, const bigint *b) {
    bigint t = {0};
    uint64_t carry = 0;
    size_t n = max_size(a->len, b->len);
    start(&t, n + 1);
    for (size_t i = 0; i <= n; i++) {
        carry += (uint64_t)limb_at(a, i) + limb_at(b, i);
        t.d[i] = low_half(carry);
        carry = high_half(carry);
    }
    trim(&t);
    move_to(r, &t);
}

/* Needs |a| >= |b|. */
static void sub_magnitude(bigint *r, const bigint *a, const bigint *b) {
    bigint t = {0};
    uint64_t borrow = 0;
    start(&t, a->len);
    for (size_t i = 0; i < a->len; i++) {
        uint64_t v = (uint64_t)limb_at(a, i) - limb_at(b, i) - borrow;
        t.d[i] = low_half(v);
        borrow = high_half(v) & 1;
    }
    trim(&t);
    move_to(r, &t);
}

static void mul_small(bigint *a, limb factor, limb addend) {
    uint64_t carry = addend;
    reserve(a, a->len + 1);
    for (size_t i = 0; i < a->len; i++) {
        carry += (uint64_t)a->d[i] * factor;
        a->d[i] = low_half(carry);
        carry = high_half(carry);
    }
    a->d[a->len++] = low_half(carry);
    trim(a);
}

/* Divides in place and returns the remainder. */
static limb div_small(bigint *a, limb divisor) {
    uint64_t rest = 0;
    for (size_t i = a->len; i-- > 0;) {
        rest = rest << 32 | a->d[i];
        a->d[i] = (limb)(rest / divisor);
        rest %= divisor;
    }
    trim(a);
    return low_half(rest);
}

/* ---- bits ---- */

static size_t bit_length(const bigint *a) {
    if (is_zero(a)) return 0;
    size_t n = (a->len - 1) * 32;
    for (limb top = a->d[a->len - 1]; top; top >>= 1) n++;
    return n;
}

static bool test_bit(const bigint *a, size_t i) { return limb_at(a, i / 32) >> (i % 32) & 1; }

static void shift_left(bigint *r, const bigint *a, size_t n) {
    bigint t = {0};
    size_t limbs = n / 32;
    start(&t, a->len + limbs + 1);
    for (size_t i = 0; i < a->len; i++) {
        uint64_t v = (uint64_t)a->d[i] << (n % 32);
        t.d[i + limbs] |= low_half(v);
        t.d[i + limbs + 1] = high_half(v);
    }
    trim(&t);
    set_sign(&t, a->negative);
    move_to(r, &t);
}

static void shift_right(bigint *r, const bigint *a, size_t n) {
    bigint t = {0};
    size_t limbs = n / 32;
    start(&t, a->len > limbs ? a->len - limbs : 0);
    for (size_t i = 0; i < t.len; i++) {
        uint64_t v = (uint64_t)limb_at(a, i + limbs + 1) << 32 | limb_at(a, i + limbs);
        t.d[i] = low_half(v >> (n % 32));
    }
    trim(&t);
    set_sign(&t, a->negative);
    move_to(r, &t);
}

/* ---- signed arithmetic ---- */

int big_compare(const bigint *a, const bigint *b) {
    if (a->negative != b->negative) return a->negative ? -1 : 1;
    return a->negative ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

/* a + b, where the sign of b is given apart; subtraction only flips it. */
static void add_signed(bigint *r, const bigint *a, const bigint *b, bool b_negative) {
    bool sign = a->negative;
    if (a->negative == b_negative) {
        add_magnitude(r, a, b);
    } else if (compare_magnitude(a, b) >= 0) {
        sub_magnitude(r, a, b);
    } else {
        sub_magnitude(r, b, a);
        sign = b_negative;
    }
    set_sign(r, sign);
}

void big_add(bigint *r, const bigint *a, const bigint *b) { add_signed(r, a, b, b->negative); }
void big_sub(bigint *r, const bigint *a, const bigint *b) { add_signed(r, a, b, !b->negative); }

/* Adds a * factor at some limb offset; the target must have room for the carry. */
static void mul_accumulate(limb *target, const limb *a, size_t n, limb factor) {
    uint64_t carry = 0;
    for (size_t i = 0; i < n; i++) {
        carry += (uint64_t)a[i] * factor + target[i];
        target[i] = low_half(carry);
        carry = high_half(carry);
    }
    target[n] = low_half(carry);
}

void big_mul(bigint *r, const bigint *a, const bigint *b) {
    bigint t = {0};
    bool sign = a->negative != b->negative;
    start(&t, a->len + b->len + 1);
    for (size_t i = 0; i < b->len; i++) mul_accumulate(t.d + i, a->d, a->len, b->d[i]);
    trim(&t);
    set_sign(&t, sign);
    move_to(r, &t);
}

/* One quotient digit of schoolbook division (Knuth's algorithm D); u has n + 1 limbs here, v is normalised. */
static limb estimate_digit(const limb *u, const limb *v, size_t n) {
    uint64_t top = (uint64_t)u[n] << 32 | u[n - 1];
    uint64_t digit = top / v[n - 1], rest = top % v[n - 1];
    while (high_half(digit) || digit * v[n - 2] > (rest << 32 | u[n - 2])) {
        digit--;
        rest += v[n - 1];
        if (high_half(rest)) break;
    }
    return low_half(digit);
}

/* Subtracts v * digit; returns true when the result went below zero. */
static bool mul_subtract(limb *u, const limb *v, size_t n, limb digit) {
    uint64_t carry = 0, borrow = 0;
    for (size_t i = 0; i <= n; i++) {
        carry += i < n ? (uint64_t)v[i] * digit : 0;
        uint64_t t = (uint64_t)u[i] - low_half(carry) - borrow;
        u[i] = low_half(t);
        borrow = high_half(t) & 1;
        carry = high_half(carry);
    }
    return borrow;
}

static void add_back(limb *u, const limb *v, size_t n) {
    uint64_t carry = 0;
    for (size_t i = 0; i < n; i++) {
        carry += (uint64_t)u[i] + v[i];
        u[i] = low_half(carry);
        carry = high_half(carry);
    }
    u[n] += low_half(carry);
}

static void divide_long(bigint *q, bigint *r, const bigint *a, const bigint *b) {
    bigint u = {0}, v = {0};
    size_t n = b->len, shift = n * 32 - bit_length(b);
    shift_left(&v, b, shift);
    shift_left(&u, a, shift);
    reserve(&u, a->len + 1);
    while (u.len <= a->len) u.d[u.len++] = 0;
    start(q, a->len - n + 1);
    for (size_t i = q->len; i-- > 0;) {
        limb digit = estimate_digit(u.d + i, v.d, n);
        if (mul_subtract(u.d + i, v.d, n, digit)) {
            add_back(u.d + i, v.d, n);
            digit--;
        }
        q->d[i] = digit;
    }
    trim(&u);
    trim(q);
    shift_right(r, &u, shift);
    big_free(&u);
    big_free(&v);
}

static void divide_magnitude(bigint *q, bigint *r, const bigint *a, const bigint *b) {
    if (compare_magnitude(a, b) < 0) {
        copy(r, a);
        start(q, 0);
    } else if (b->len == 1) {
        copy(q, a);
        set_u64(r, div_small(q, b->d[0]));
    } else {
        divide_long(q, r, a, b);
    }
}

/* Truncates towards zero, as C does: the remainder has the sign of a. */
bool big_divmod(bigint *q, bigint *r, const bigint *a, const bigint *b) {
    bigint tq = {0}, tr = {0};
    bool q_negative = a->negative != b->negative, r_negative = a->negative;
    if (is_zero(b)) return false;
    divide_magnitude(&tq, &tr, a, b);
    set_sign(&tq, q_negative);
    set_sign(&tr, r_negative);
    move_to(q, &tq);
    move_to(r, &tr);
    return true;
}

static bool reduce(bigint *a, const bigint *modulus) {
    bigint q = {0};
    bool ok = big_divmod(&q, a, a, modulus);
    big_free(&q);
    if (ok && a->negative) add_signed(a, a, modulus, false);
    return ok;
}

/* ---- text ---- */

bool big_set_text(bigint *a, const char *text) {
    bool negative = *text == '-';
    if (*text == '-' || *text == '+') text++;
    start(a, 0);
    if (!*text) return false;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text)) return false;
        mul_small(a, 10, (limb)(*text - '0'));
    }
    set_sign(a, negative);
    return true;
}

/* Nine digits per division; they come out in reverse, so the text is built from its end. */
char *big_to_text(const bigint *a) {
    bigint t = {0};
    size_t n = a->len * 10 + 12;
    char *text = calloc(n, 1);
    if (!text) return NULL;
    copy(&t, a);
    n--;
    if (is_zero(a)) text[--n] = '0';
    while (!is_zero(&t)) {
        limb group = div_small(&t, 1000000000);
        for (int i = 0; i < 9 && (group || !is_zero(&t)); i++, group /= 10) text[--n] = (char)('0' + group % 10);
    }
    if (a->negative) text[--n] = '-';
    memmove(text, text + n, strlen(text + n) + 1);
    big_free(&t);
    return text;
}

/* ---- number theory ---- */

void big_pow(bigint *r, const bigint *base, unsigned exponent) {
    bigint square = {0}, result = {0};
    copy(&square, base);
    set_u64(&result, 1);
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) big_mul(&result, &result, &square);
        if (exponent > 1) big_mul(&square, &square, &square);
    }
    move_to(r, &result);
    big_free(&square);
}

static void mul_mod(bigint *r, const bigint *a, const bigint *b, const bigint *modulus) {
    big_mul(r, a, b);
    reduce(r, modulus);
}

bool big_powmod(bigint *r, const bigint *base, const bigint *exponent, const bigint *modulus) {
    bigint square = {0}, result = {0};
    if (is_zero(modulus) || modulus->negative || exponent->negative) return false;
    copy(&square, base);
    reduce(&square, modulus);
    set_u64(&result, 1);
    reduce(&result, modulus);
    for (size_t i = 0, n = bit_length(exponent); i < n; i++) {
        if (test_bit(exponent, i)) mul_mod(&result, &result, &square, modulus);
        mul_mod(&square, &square, &square, modulus);
    }
    move_to(r, &result);
    big_free(&square);
    return true;
}

void big_factorial(bigint *r, unsigned n) {
    set_u64(r, 1);
    for (unsigned i = 2; i <= n; i++) mul_small(r, i, 0);
}

/* ---- self test ---- */

static bool is_text(const bigint *a, const char *want) {
    char *text = big_to_text(a);
    bool ok = text && strcmp(text, want) == 0;
    free(text);
    return ok;
}

/* a must equal q * b + r with |r| < |b|. */
static bool division_holds(const bigint *a, const bigint *b) {
    bigint q = {0}, r = {0}, back = {0};
    bool ok = big_divmod(&q, &r, a, b) && compare_magnitude(&r, b) < 0;
    big_mul(&back, &q, b);
    big_add(&back, &back, &r);
    ok = ok && big_compare(&back, a) == 0;
    big_free(&q);
    big_free(&r);
    big_free(&back);
    return ok;
}

static bool power_is(const char *base, unsigned exponent, const char *want) {
    bigint a = {0};
    big_set_text(&a, base);
    big_pow(&a, &a, exponent);
    bool ok = is_text(&a, want);
    big_free(&a);
    return ok;
}

int bigint_selftest(void) {
    bigint a = {0}, b = {0}, c = {0};
    int error = 0;
    big_factorial(&a, 30);
    if (!is_text(&a, "265252859812191058636308480000000")) error = 1;
    if (!power_is("2", 128, "340282366920938463463374607431768211456") || !power_is("-10", 9, "-1000000000") || !power_is("7", 0, "1")) error = 2;
    for (unsigned i = 1; i < 60; i++) {
        big_factorial(&a, 3 * i);
        big_set_int(&b, -(int64_t)i * 0x123456789);
        big_pow(&c, &b, i % 7 + 1);
        big_sub(&a, &a, &b);
        if (!division_holds(&a, &c) || !division_holds(&c, &a)) error = 3;
    }
    big_set_text(&a, "340282366920938463463374607431768211455");
    big_set_text(&b, "340282366920938463444927863358058659840");
    if (!division_holds(&a, &b)) error = 4;
    big_set_int(&b, 65537);
    big_set_text(&c, "-123456789012345678901234567890");
    if (!big_powmod(&a, &c, &b, &b) || !reduce(&c, &b) || big_compare(&a, &c) != 0) error = 5; /* Fermat */
    big_sub(&a, &a, &a);
    if (!is_text(&a, "0") || big_divmod(&c, &c, &b, &a) || big_set_text(&a, "12x") || big_set_text(&a, "-")) error = 6;
    big_free(&a);
    big_free(&b);
    big_free(&c);
    return error;
}
