/* A string interner and an open-addressing (Robin Hood) hash map from interned names to integers, with set operations and iterators. */
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t symbol; /* 0: no symbol */

typedef struct arena_block {
    struct arena_block *next;
    size_t used;
    size_t cap;
    char data[];
} arena_block;

typedef struct {
    const char *text;
    uint32_t len;
    uint32_t hash;
} interned;

typedef struct {
    arena_block *arena;
    interned *entries; /* indexed by symbol - 1 */
    size_t count;
    size_t entries_cap;
    symbol *table; /* a power of two of slots */
    size_t table_cap;
} interner;

typedef struct {
    symbol key;
    uint32_t hash;
    int64_t value;
} slot;

typedef struct {
    slot *slots;
    size_t cap;
    size_t count;
} map;

typedef struct {
    const map *owner;
    size_t index;
} map_iter;

typedef int64_t (*map_combine)(int64_t a, int64_t b);

void interner_init(interner *in);
void interner_free(interner *in);
symbol interner_add(interner *in, const char *text, size_t len);
symbol interner_find(const interner *in, const char *text, size_t len);
const char *interner_text(const interner *in, symbol s);
void map_init(map *m);
void map_free(map *m);
bool map_set(map *m, symbol key, int64_t value);
bool map_get(const map *m, symbol key, int64_t *value);
int64_t map_add(map *m, symbol key, int64_t delta);
bool map_remove(map *m, symbol key);
map_iter map_begin(const map *m);
bool map_next(map_iter *it, symbol *key, int64_t *value);
void map_merge(map *into, const map *from, map_combine combine);
void map_retain(map *m, const map *other);
bool map_equal(const map *a, const map *b);
size_t count_words(interner *in, map *counts, const char *text);
size_t map_top(const map *m, symbol *out, size_t n);
int hashmap_selftest(void);

/* ---- small helpers ---- */

static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }
static size_t align_up(size_t n, size_t to) { return (n + to - 1) & ~(to - 1); }

static uint32_t hash_bytes(const char *s, size_t len) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static uint32_t hash_symbol(symbol s) {
    uint32_t h = s * 0x9E3779B1u;
    h ^= h >> 15;
    h *= 0x85EBCA77u;
    return h ^ h >> 13;
}

/* Tables grow when they are three quarters full. */
static bool too_full(size_t count, size_t cap) { return (count + 1) * 4 > cap * 3; }
static size_t grown(size_t cap) { return cap ? cap * 2 : 16; }

/* ---- arena ---- */

static size_t block_room(const arena_block *b) { return b ? b->cap - b->used : 0; }

static arena_block *block_new(arena_block *next, size_t cap) {
    arena_block *b = malloc(sizeof *b + cap);
    if (!b) return NULL;
    b->next = next;
    b->used = 0;
    b->cap = cap;
    return b;
}

static char *arena_copy(arena_block **head, const char *text, size_t len) {
    size_t need = align_up(len + 1, 8);
    if (block_room(*head) < need) {
        arena_block *b = block_new(*head, max_size(need, 1024));
        if (!b) return NULL;
        *head = b;
    }
    char *p = (*head)->data + (*head)->used;
    (*head)->used += need;
    memcpy(p, text, len);
    p[len] = '\0';
    return p;
}

static void arena_free(arena_block *b) {
    while (b) {
        arena_block *next = b->next;
        free(b);
        b = next;
    }
}

/* ---- interner: linear probing over symbols ---- */

static const interned *entry_of(const interner *in, symbol s) { return &in->entries[s - 1]; }
static size_t next_index(size_t i, size_t cap) { return (i + 1) & (cap - 1); }
static size_t home_index(uint32_t hash, size_t cap) { return hash & (cap - 1); }

static bool entry_equals(const interned *e, const char *text, size_t len, uint32_t hash) {
    return e->hash == hash && e->len == len && memcmp(e->text, text, len) == 0;
}

/* The slot that holds the text, or the free slot where it belongs. */
static size_t probe_text(const interner *in, const char *text, size_t len, uint32_t hash) {
    size_t i = home_index(hash, in->table_cap);
    while (in->table[i] && !entry_equals(entry_of(in, in->table[i]), text, len, hash)) i = next_index(i, in->table_cap);
    return i;
}

static void place_symbol(interner *in, symbol s) {
    size_t i = home_index(entry_of(in, s)->hash, in->table_cap);
    while (in->table[i]) i = next_index(i, in->table_cap);
    in->table[i] = s;
}

static bool grow_table(interner *in) {
    size_t cap = grown(in->table_cap);
    symbol *table = calloc(cap, sizeof *table);
    if (!table) return false;
    free(in->table);
    in->table = table;
    in->table_cap = cap;
    for (symbol s = 1; s <= in->count; s++) place_symbol(in, s);
    return true;
}

static bool grow_entries(interner *in) {
    size_t cap = grown(in->entries_cap);
    interned *entries = realloc(in->entries, cap * sizeof *entries);
    if (!entries) return false;
    in->entries = entries;
    in->entries_cap = cap;
    return true;
}

static bool interner_reserve(interner *in) {
    if (too_full(in->count, in->table_cap) && !grow_table(in)) return false;
    return in->count < in->entries_cap || grow_entries(in);
}

void interner_init(interner *in) { memset(in, 0, sizeof *in); }

void interner_free(interner *in) {
    arena_free(in->arena);
    free(in->entries);
    free(in->table);
    interner_init(in);
}

symbol interner_find(const interner *in, const char *text, size_t len) {
    return in->table_cap ? in->table[probe_text(in, text, len, hash_bytes(text, len))] : 0;
}

symbol interner_add(interner *in, const char *text, size_t len) {
    uint32_t hash = hash_bytes(text, len);
    if (!interner_reserve(in)) return 0;
    size_t at = probe_text(in, text, len, hash);
    if (in->table[at]) return in->table[at];
    const char *copy = arena_copy(&in->arena, text, len);
    if (!copy) return 0;
    in->entries[in->count++] = (interned){copy, (uint32_t)len, hash};
    return in->table[at] = (symbol)in->count;
}

const char *interner_text(const interner *in, symbol s) { return s && s <= in->count ? entry_of(in, s)->text : ""; }

/* ---- map: Robin Hood hashing with backward-shift deletion ---- */

static bool slot_used(const slot *s) { return s->key != 0; }
static size_t map_home(const map *m, uint32_t hash) { return home_index(hash, m->cap); }
static size_t map_step(const map *m, size_t i) { return next_index(i, m->cap); }

/* How far the entry at an index sits from its home. */
static size_t distance_at(const map *m, size_t i) { return (i - map_home(m, m->slots[i].hash)) & (m->cap - 1); }

static void swap_slots(slot *a, slot *b) {
    slot t = *a;
    *a = *b;
    *b = t;
}

static slot *find_slot(const map *m, symbol key) {
    if (!m->cap) return NULL;
    uint32_t hash = hash_symbol(key);
    size_t i = map_home(m, hash);
    for (size_t distance = 0; slot_used(&m->slots[i]); distance++, i = map_step(m, i)) {
        if (m->slots[i].key == key) return &m->slots[i];
        if (distance_at(m, i) < distance) break; /* a richer entry: the key would have taken its place */
    }
    return NULL;
}

static void insert_slot(map *m, slot entry) {
    size_t i = map_home(m, entry.hash);
    for (size_t distance = 0; slot_used(&m->slots[i]); distance++, i = map_step(m, i)) {
        size_t theirs = distance_at(m, i);
        if (theirs >= distance) continue;
        swap_slots(&entry, &m->slots[i]);
        distance = theirs;
    }
    m->slots[i] = entry;
    m->count++;
}

static bool map_resize(map *m, size_t cap) {
    map bigger = {calloc(cap, sizeof(slot)), cap, 0};
    if (!bigger.slots) return false;
    for (size_t i = 0; i < m->cap; i++)
        if (slot_used(&m->slots[i])) insert_slot(&bigger, m->slots[i]);
    free(m->slots);
    *m = bigger;
    return true;
}

static slot make_slot(symbol key, int64_t value) { return (slot){key, hash_symbol(key), value}; }

void map_init(map *m) { memset(m, 0, sizeof *m); }

void map_free(map *m) {
    free(m->slots);
    map_init(m);
}

bool map_set(map *m, symbol key, int64_t value) {
    slot *found = find_slot(m, key);
    if (found) {
        found->value = value;
        return false;
    }
    if (too_full(m->count, m->cap) && !map_resize(m, grown(m->cap))) return false;
    insert_slot(m, make_slot(key, value));
    return true;
}

bool map_get(const map *m, symbol key, int64_t *value) {
    const slot *found = find_slot(m, key);
    if (found) *value = found->value;
    return found;
}

static int64_t get_or(const map *m, symbol key, int64_t fallback) {
    int64_t value;
    return map_get(m, key, &value) ? value : fallback;
}

static bool map_has(const map *m, symbol key) { return find_slot(m, key) != NULL; }

int64_t map_add(map *m, symbol key, int64_t delta) {
    int64_t value = get_or(m, key, 0) + delta;
    map_set(m, key, value);
    return value;
}

bool map_remove(map *m, symbol key) {
    slot *found = find_slot(m, key);
    if (!found) return false;
    size_t hole = (size_t)(found - m->slots), next = map_step(m, hole);
    while (slot_used(&m->slots[next]) && distance_at(m, next) > 0) {
        m->slots[hole] = m->slots[next];
        hole = next;
        next = map_step(m, next);
    }
    m->slots[hole] = (slot){0, 0, 0};
    m->count--;
    return true;
}

map_iter map_begin(const map *m) { return (map_iter){m, 0}; }

bool map_next(map_iter *it, symbol *key, int64_t *value) {
    while (it->index < it->owner->cap) {
        const slot *s = &it->owner->slots[it->index++];
        if (!slot_used(s)) continue;
        *key = s->key;
        *value = s->value;
        return true;
    }
    return false;
}

void map_merge(map *into, const map *from, map_combine combine) {
    symbol key;
    int64_t value, old;
    for (map_iter it = map_begin(from); map_next(&it, &key, &value);)
        map_set(into, key, map_get(into, key, &old) ? combine(old, value) : value);
}

/* Drops the keys that the other map lacks. Goes through a copy, because removal moves entries. */
void map_retain(map *m, const map *other) {
    map kept;
    symbol key;
    int64_t value;
    map_init(&kept);
    for (map_iter it = map_begin(m); map_next(&it, &key, &value);)
        if (map_has(other, key)) map_set(&kept, key, value);
    map_free(m);
    *m = kept;
}

bool map_equal(const map *a, const map *b) {
    symbol key;
    int64_t value;
    if (a->count != b->count) return false;
    for (map_iter it = map_begin(a); map_next(&it, &key, &value);)
        if (!map_has(b, key) || get_or(b, key, 0) != value) return false;
    return true;
}

/* ---- an application: word counts ---- */

static bool is_letter(char c) { return isalpha((unsigned char)c) || c == '\''; }

size_t count_words(interner *in, map *counts, const char *text) {
    size_t words = 0;
    while (*text) {
        const char *start = text;
        while (is_letter(*text)) text++;
        if (text == start) {
            text++;
            continue;
        }
        map_add(counts, interner_add(in, start, (size_t)(text - start)), 1);
        words++;
    }
    return words;
}

/* Larger counts first; the older symbol wins a tie. */
static bool ranks_before(symbol a, int64_t count_a, symbol b, int64_t count_b) {
    return count_a != count_b ? count_a > count_b : a < b;
}

size_t map_top(const map *m, symbol *out, size_t n) {
    size_t used = 0;
    symbol key;
    int64_t value;
    for (map_iter it = map_begin(m); map_next(&it, &key, &value);) {
        size_t at = used;
        while (at > 0 && ranks_before(key, value, out[at - 1], get_or(m, out[at - 1], 0))) at--;
        if (at == n) continue;
        if (used < n) used++;
        memmove(out + at + 1, out + at, (used - at - 1) * sizeof *out);
        out[at] = key;
    }
    return used;
}

/* ---- self test ---- */

static int64_t add_values(int64_t a, int64_t b) { return a + b; }
static symbol add_text(interner *in, const char *s) { return interner_add(in, s, strlen(s)); }
static symbol find_text(const interner *in, const char *s) { return interner_find(in, s, strlen(s)); }

static int test_words(interner *in) {
    map a, b;
    symbol top[3];
    int error = 0;
    map_init(&a);
    map_init(&b);
    if (count_words(in, &a, "the cat and the dog and the bird") != 8 || count_words(in, &b, "a cat, a dog -- isn't it?") != 6) error = 20;
    if (map_top(&a, top, 3) != 3 || strcmp(interner_text(in, top[0]), "the") != 0 || top[1] != find_text(in, "and")) error = 21;
    map_merge(&b, &a, add_values);
    if (get_or(&b, find_text(in, "cat"), 0) != 2 || b.count != 8 || map_equal(&a, &b)) error = 22;
    map_retain(&b, &a);
    if (b.count != a.count || map_has(&b, find_text(in, "it")) || !find_text(in, "isn't") || find_text(in, "horse")) error = 23;
    map_free(&a);
    map_free(&b);
    return error;
}

int hashmap_selftest(void) {
    interner in;
    map m, odd;
    char name[24];
    symbol key;
    int64_t value, sum = 0;
    interner_init(&in);
    int error = test_words(&in);
    map_init(&m);
    map_init(&odd);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "key-%d", i);
        key = add_text(&in, name);
        if (add_text(&in, name) != key || strcmp(interner_text(&in, key), name) != 0) error = 1;
        if (!map_set(&m, key, i) || map_set(&m, key, i)) error = 2;
        if (i % 2 && !map_set(&odd, key, i)) error = 3;
    }
    for (int i = 0; i < 3000; i += 2) {
        snprintf(name, sizeof name, "key-%d", i);
        if (!map_remove(&m, find_text(&in, name)) || map_remove(&m, find_text(&in, name))) error = 4;
    }
    for (map_iter it = map_begin(&m); map_next(&it, &key, &value);) sum += value;
    if (sum != 1500 * 1500 || m.count != 1500 || !map_equal(&m, &odd) || interner_text(&in, 0)[0]) error = 5;
    map_free(&m);
    map_free(&odd);
    interner_free(&in);
    return error;
}
