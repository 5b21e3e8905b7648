/* A canonical Huffman coder: bit streams, length-limited codes, run-length coded headers and a table-driven decoder. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SYMBOLS = 257, END_SYMBOL = 256, MAX_BITS = 15, LOOKUP_BITS = 9, LOOKUP_SIZE = 1 << LOOKUP_BITS };

typedef struct {
    uint8_t *data;
    size_t cap;
    size_t pos;
    uint64_t bits;
    unsigned count;
    bool overflow;
} bit_writer;

typedef struct {
    const uint8_t *data;
    size_t size;
    size_t pos;
    uint64_t bits;
    unsigned count;
    unsigned missing; /* zero bits that were made up at the end */
} bit_reader;

typedef struct {
    uint8_t length[SYMBOLS];
    uint16_t code[SYMBOLS]; /* reversed, because streams start at the low bit */
} encoder;

typedef struct {
    uint16_t symbol;
    uint8_t length;
} lookup_entry;

typedef struct {
    lookup_entry fast[LOOKUP_SIZE];
    uint16_t first_code[MAX_BITS + 2];
    uint16_t first_index[MAX_BITS + 2];
    uint16_t count[MAX_BITS + 2];
    uint16_t sorted[SYMBOLS];
} decoder;

/* The heap of the tree builder holds node numbers, ordered by weight. */
typedef struct {
    uint32_t weight[2 * SYMBOLS];
    int16_t parent[2 * SYMBOLS];
    int16_t heap[SYMBOLS];
    int heap_size;
    int node_count;
} tree_builder;

typedef enum { HUFF_OK = 0, HUFF_SPACE = -1, HUFF_CORRUPT = -2 } huff_status;

huff_status huff_encode(const uint8_t *in, size_t size, uint8_t *out, size_t cap, size_t *written);
huff_status huff_decode(const uint8_t *in, size_t size, uint8_t *out, size_t cap, size_t *written);
size_t huff_cost_bits(const uint8_t *in, size_t size);
int huffman_selftest(void);

/* ---- bits out ---- */

static void writer_init(bit_writer *w, uint8_t *data, size_t cap) { *w = (bit_writer){.data = data, .cap = cap}; }

static void flush_byte(bit_writer *w) {
    if (w->pos < w->cap)
        w->data[w->pos++] = (uint8_t)w->bits;
    else
        w->overflow = true;
    w->bits >>= 8;
}

static void flush_full_bytes(bit_writer *w) {
    for (; w->count >= 8; w->count -= 8) flush_byte(w);
}

static void put_bits(bit_writer *w, uint32_t value, unsigned n) {
    w->bits |= (uint64_t)value << w->count;
    w->count += n;
    flush_full_bytes(w);
}

static void put_flag(bit_writer *w, bool flag) { put_bits(w, flag, 1); }

static size_t writer_finish(bit_writer *w) {
    if (w->count) flush_byte(w);
    w->count = 0;
    return w->pos;
}

/* ---- bits in ---- */

static void reader_init(bit_reader *r, const uint8_t *data, size_t size) { *r = (bit_reader){.data = data, .size = size}; }

static void refill(bit_reader *r, unsigned want) {
    while (r->count < want) {
        if (r->pos < r->size)
            r->bits |= (uint64_t)r->data[r->pos++] << r->count;
        else
            r->missing += 8;
        r->count += 8;
    }
}

static uint32_t peek_bits(bit_reader *r, unsigned n) {
    refill(r, n);
    return (uint32_t)(r->bits & ((1u << n) - 1));
}

static void skip_bits(bit_reader *r, unsigned n) {
    r->bits >>= n;
    r->count -= n;
}

static uint32_t get_bits(bit_reader *r, unsigned n) {
    uint32_t v = peek_bits(r, n);
    skip_bits(r, n);
    return v;
}

static bool get_flag(bit_reader *r) { return get_bits(r, 1) != 0; }

/* True once bits have been used that the stream did not have. */
static bool overrun(const bit_reader *r) { return r->missing > r->count; }

static unsigned reverse_bits(unsigned v, unsigned n) {
    unsigned r = 0;
    while (n--) {
        r = r << 1 | (v & 1);
        v >>= 1;
    }
    return r;
}

/* ---- the tree ---- */

static uint32_t weight_at(const tree_builder *t, int i) { return t->weight[t->heap[i]]; }

static void swap_heap(tree_builder *t, int a, int b) {
    int16_t tmp = t->heap[a];
    t->heap[a] = t->heap[b];
    t->heap[b] = tmp;
}

static void sift_up(tree_builder *t, int i) {
    while (i > 0 && weight_at(t, i) < weight_at(t, (i - 1) / 2)) {
        swap_heap(t, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static int lighter_child(const tree_builder *t, int i) {
    int left = 2 * i + 1, right = left + 1;
    return right < t->heap_size && weight_at(t, right) < weight_at(t, left) ? right : left;
}

static void sift_down(tree_builder *t, int i) {
    while (2 * i + 1 < t->heap_size) {
        int child = lighter_child(t, i);
        if (weight_at(t, child) >= weight_at(t, i)) break;
        swap_heap(t, i, child);
        i = child;
    }
}

static void heap_push(tree_builder *t, int node) {
    t->heap[t->heap_size] = (int16_t)node;
    sift_up(t, t->heap_size++);
}

static int heap_pop(tree_builder *t) {
    int top = t->heap[0];
    t->heap[0] = t->heap[--t->heap_size];
    sift_down(t, 0);
    return top;
}

static void join_lightest(tree_builder *t) {
    int a = heap_pop(t), b = heap_pop(t), node = t->node_count++;
    t->weight[node] = t->weight[a] + t->weight[b];
    t->parent[a] = t->parent[b] = (int16_t)node;
    t->parent[node] = -1;
    heap_push(t, node);
}

static int depth_of(const tree_builder *t, int node) {
    int depth = 0;
    for (; t->parent[node] >= 0; node = t->parent[node]) depth++;
    return depth;
}

/* Returns the longest code length. */
static int assign_lengths(const uint32_t *weights, uint8_t *length) {
    tree_builder t = {.node_count = SYMBOLS};
    int longest = 0;
    for (int s = 0; s < SYMBOLS; s++) {
        t.weight[s] = weights[s];
        t.parent[s] = -1;
        if (weights[s]) heap_push(&t, s);
    }
    while (t.heap_size > 1) join_lightest(&t);
    for (int s = 0; s < SYMBOLS; s++) {
        int depth = weights[s] ? depth_of(&t, s) : 0;
        length[s] = (uint8_t)depth;
        if (depth > longest) longest = depth;
    }
    return longest;
}

static void flatten_weights(uint32_t *weights) {
    for (int s = 0; s < SYMBOLS; s++)
        if (weights[s]) weights[s] = weights[s] / 2 + 1;
}

/* Flattens the weights until no code is too long. */
static void limited_lengths(const uint32_t *weights, uint8_t *length) {
    uint32_t flat[SYMBOLS];
    memcpy(flat, weights, sizeof flat);
    while (assign_lengths(flat, length) > MAX_BITS) flatten_weights(flat);
}

/* The end symbol always occurs; a second symbol keeps the tree from having a single leaf. */
static void count_symbols(const uint8_t *in, size_t size, uint32_t *weights) {
    memset(weights, 0, SYMBOLS * sizeof *weights);
    for (size_t i = 0; i < size; i++) weights[in[i]]++;
    weights[END_SYMBOL] = 1;
    if (!size) weights[0] = 1;
}

/* ---- canonical codes ---- */

static void count_lengths(const uint8_t *length, uint16_t *count) {
    memset(count, 0, (MAX_BITS + 2) * sizeof *count);
    for (int s = 0; s < SYMBOLS; s++) count[length[s]]++;
    count[0] = 0;
}

static void first_codes(const uint16_t *count, uint16_t *first) {
    unsigned code = 0;
    first[0] = 0;
    for (int n = 1; n <= MAX_BITS; n++) {
        code = (code + count[n - 1]) << 1;
        first[n] = (uint16_t)code;
    }
}

/* A complete code uses up the code space exactly. */
static bool lengths_complete(const uint16_t *count) {
    uint32_t space = 0;
    for (int n = 1; n <= MAX_BITS; n++) space += (uint32_t)count[n] << (MAX_BITS - n);
    return space == 1u << MAX_BITS;
}

static void make_codes(encoder *e) {
    uint16_t count[MAX_BITS + 2], next[MAX_BITS + 2];
    count_lengths(e->length, count);
    first_codes(count, next);
    for (int s = 0; s < SYMBOLS; s++) {
        unsigned n = e->length[s];
        if (n) e->code[s] = (uint16_t)reverse_bits(next[n]++, n);
    }
}

static void encoder_init(encoder *e, const uint8_t *in, size_t size) {
    uint32_t weights[SYMBOLS];
    count_symbols(in, size, weights);
    limited_lengths(weights, e->length);
    make_codes(e);
}

static void fill_lookup(decoder *d, unsigned code, unsigned n, int symbol) {
    for (unsigned i = reverse_bits(code, n); i < LOOKUP_SIZE; i += 1u << n) d->fast[i] = (lookup_entry){(uint16_t)symbol, (uint8_t)n};
}

static bool decoder_init(decoder *d, const uint8_t *length) {
    uint16_t next[MAX_BITS + 2];
    memset(d, 0, sizeof *d);
    count_lengths(length, d->count);
    if (!lengths_complete(d->count)) return false;
    first_codes(d->count, d->first_code);
    for (int n = 1; n <= MAX_BITS; n++) d->first_index[n + 1] = (uint16_t)(d->first_index[n] + d->count[n]);
    memcpy(next, d->first_index, sizeof next);
    for (int s = 0; s < SYMBOLS; s++) {
        unsigned n = length[s];
        if (!n) continue;
        unsigned index = next[n]++;
        d->sorted[index] = (uint16_t)s;
        if (n <= LOOKUP_BITS) fill_lookup(d, d->first_code[n] + index - d->first_index[n], n, s);
    }
    return true;
}

/* Codes longer than the table are rare: read them bit by bit. */
static int decode_slow(const decoder *d, bit_reader *r) {
    unsigned code = 0;
    for (int n = 1; n <= MAX_BITS; n++) {
        code = code << 1 | get_flag(r);
        unsigned offset = code - d->first_code[n];
        if (code >= d->first_code[n] && offset < d->count[n]) return d->sorted[d->first_index[n] + offset];
    }
    return -1;
}

static int decode_symbol(const decoder *d, bit_reader *r) {
    const lookup_entry *e = &d->fast[peek_bits(r, LOOKUP_BITS)];
    if (!e->length) return decode_slow(d, r);
    skip_bits(r, e->length);
    return e->symbol;
}

/* ---- the header: per run of equal lengths, 4 bits of length, then the run (3 or 9 bits) ---- */

static int run_length(const uint8_t *length, int at) {
    int n = 1;
    while (at + n < SYMBOLS && n < 512 && length[at + n] == length[at]) n++;
    return n;
}

static void put_run(bit_writer *w, unsigned length, unsigned run) {
    bool wide = run > 8;
    put_bits(w, length, 4);
    put_flag(w, wide);
    put_bits(w, run - 1, wide ? 9 : 3);
}

static void put_lengths(bit_writer *w, const uint8_t *length) {
    for (int s = 0; s < SYMBOLS;) {
        int run = run_length(length, s);
        put_run(w, length[s], (unsigned)run);
        s += run;
    }
}

static bool get_lengths(bit_reader *r, uint8_t *length) {
    for (unsigned s = 0; s < SYMBOLS;) {
        unsigned value = get_bits(r, 4);
        unsigned run = get_bits(r, get_flag(r) ? 9 : 3) + 1;
        if (overrun(r) || run > SYMBOLS - s) return false;
        memset(length + s, (int)value, run);
        s += run;
    }
    return true;
}

static void put_symbol(bit_writer *w, const encoder *e, int symbol) { put_bits(w, e->code[symbol], e->length[symbol]); }

huff_status huff_encode(const uint8_t *in, size_t size, uint8_t *out, size_t cap, size_t *written) {
    encoder e;
    bit_writer w;
    encoder_init(&e, in, size);
    writer_init(&w, out, cap);
    put_lengths(&w, e.length);
    for (size_t i = 0; i < size; i++) put_symbol(&w, &e, in[i]);
    put_symbol(&w, &e, END_SYMBOL);
    *written = writer_finish(&w);
    return w.overflow ? HUFF_SPACE : HUFF_OK;
}

huff_status huff_decode(const uint8_t *in, size_t size, uint8_t *out, size_t cap, size_t *written) {
    static decoder d;
    uint8_t length[SYMBOLS];
    bit_reader r;
    reader_init(&r, in, size);
    *written = 0;
    if (!get_lengths(&r, length) || !decoder_init(&d, length)) return HUFF_CORRUPT;
    for (;;) {
        int symbol = decode_symbol(&d, &r);
        if (symbol < 0 || overrun(&r)) return HUFF_CORRUPT;
        if (symbol == END_SYMBOL) return HUFF_OK;
        if (*written == cap) return HUFF_SPACE;
        out[(*written)++] = (uint8_t)symbol;
    }
}

/* The size of the coded data, without its header. */
size_t huff_cost_bits(const uint8_t *in, size_t size) {
    encoder e;
    encoder_init(&e, in, size);
    size_t bits = e.length[END_SYMBOL];
    for (size_t i = 0; i < size; i++) bits += e.length[in[i]];
    return bits;
}

/* ---- self test ---- */

static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* A byte with a skewed distribution: each further bit shift halves the probability. */
static uint8_t skewed_byte(uint32_t *state, unsigned spread) {
    unsigned v = 0;
    while (v < spread && (next_random(state) & 3) == 0) v += 1 + next_random(state) % 3;
    return (uint8_t)(v * 37);
}

static size_t round_trip(const uint8_t *data, size_t size) {
    size_t cap = size + 512, packed_size, unpacked_size;
    uint8_t *packed = malloc(cap), *unpacked = malloc(size + 1);
    bool ok = packed && unpacked && huff_encode(data, size, packed, cap, &packed_size) == HUFF_OK &&
              huff_decode(packed, packed_size, unpacked, size, &unpacked_size) == HUFF_OK && unpacked_size == size &&
              memcmp(data, unpacked, size) == 0;
    /* A shorter stream must be refused. */
    ok = ok && huff_decode(packed, packed_size - 1, unpacked, size, &unpacked_size) == HUFF_CORRUPT;
    free(packed);
    free(unpacked);
    return ok ? packed_size : 0;
}

static size_t round_trip_spread(uint8_t *data, size_t size, unsigned spread) {
    uint32_t state = 12345 + spread;
    for (size_t i = 0; i < size; i++) data[i] = skewed_byte(&state, spread);
    return round_trip(data, size);
}

int huffman_selftest(void) {
    static uint8_t data[20000];
    size_t written;
    if (!round_trip(data, 0) || !round_trip(data, 1) || !round_trip(data, sizeof data)) return 1;
    size_t narrow = round_trip_spread(data, sizeof data, 2), wide = round_trip_spread(data, sizeof data, 200);
    if (!narrow || !wide || narrow >= wide || wide >= sizeof data / 2) return 2;
    if (huff_cost_bits(data, sizeof data) / 8 > wide || huff_encode(data, sizeof data, data, 10, &written) != HUFF_SPACE) return 3;
    for (size_t i = 0; i < 256; i++) data[i] = (uint8_t)i;
    if (!round_trip(data, 256) || !round_trip((const uint8_t *)"abracadabra", 11)) return 4;
    /* Fibonacci counts make the deepest tree: the length limit must hold. */
    size_t n = 0;
    for (size_t a = 1, b = 1, s = 0; n + a < sizeof data; s++) {
        memset(data + n, (int)s, a);
        n += a;
        size_t sum = a + b;
        a = b;
        b = sum;
    }
    return round_trip(data, n) ? 0 : 5;
}
