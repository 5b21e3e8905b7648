/* A B-tree map from 64-bit keys to 64-bit values: insert, delete, lookup, ordered cursors and range counts. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEGREE = 4, MAX_KEYS = 2 * DEGREE - 1, MIN_KEYS = DEGREE - 1, MAX_HEIGHT = 32 };

typedef struct node {
    int count;
    bool leaf;
    int64_t keys[MAX_KEYS];
    int64_t values[MAX_KEYS];
    struct node *child[MAX_KEYS + 1];
} node;

typedef struct {
    node *root;
    size_t size;
    int height;
} btree;

typedef struct {
    const node *path[MAX_HEIGHT];
    int slot[MAX_HEIGHT];
    int depth; /* -1: past the end */
} btree_cursor;

typedef bool (*btree_visitor)(int64_t key, int64_t value, void *user);

bool btree_init(btree *t);
void btree_clear(btree *t);
bool btree_insert(btree *t, int64_t key, int64_t value);
bool btree_remove(btree *t, int64_t key);
bool btree_get(const btree *t, int64_t key, int64_t *value);
bool btree_min(const btree *t, int64_t *key);
bool btree_max(const btree *t, int64_t *key);
void btree_seek(const btree *t, int64_t key, btree_cursor *c);
bool btree_next(btree_cursor *c, int64_t *key, int64_t *value);
size_t btree_count_range(const btree *t, int64_t from, int64_t to);
bool btree_visit(const btree *t, btree_visitor visit, void *user);
bool btree_check(const btree *t);
int btree_selftest(void);

/* ---- node helpers ---- */

static node *node_new(bool leaf) {
    node *n = calloc(1, sizeof *n);
    if (n) n->leaf = leaf;
    return n;
}

static void node_free(node *n) {
    if (!n->leaf)
        for (int i = 0; i <= n->count; i++) node_free(n->child[i]);
    free(n);
}

static bool is_full(const node *n) { return n->count == MAX_KEYS; }
static bool is_minimal(const node *n) { return n->count <= MIN_KEYS; }
static node *first_child(const node *n) { return n->child[0]; }
static node *last_child(const node *n) { return n->child[n->count]; }

/* The first slot whose key is not less than the wanted one. */
static int lower_bound(const node *n, int64_t key) {
    int lo = 0, hi = n->count;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (n->keys[mid] < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool holds_key(const node *n, int slot, int64_t key) { return slot < n->count && n->keys[slot] == key; }

static void set_entry(node *n, int slot, int64_t key, int64_t value) {
    n->keys[slot] = key;
    n->values[slot] = value;
}

static void copy_entry(node *dst, int to, const node *src, int from) {
    set_entry(dst, to, src->keys[from], src->values[from]);
}

static void move_entries(node *dst, int to, const node *src, int from, int n) {
    memmove(dst->keys + to, src->keys + from, (size_t)n * sizeof *dst->keys);
    memmove(dst->values + to, src->values + from, (size_t)n * sizeof *dst->values);
}

static void move_children(node *dst, int to, const node *src, int from, int n) {
    memmove(dst->child + to, src->child + from, (size_t)n * sizeof *dst->child);
}

/* Makes room for one entry at the slot; the caller fills it. */
static void open_slot(node *n, int slot) {
    move_entries(n, slot + 1, n, slot, n->count - slot);
    n->count++;
}

static void close_slot(node *n, int slot) {
    move_entries(n, slot, n, slot + 1, n->count - slot - 1);
    n->count--;
}

static void insert_entry(node *n, int slot, int64_t key, int64_t value) {
    open_slot(n, slot);
    set_entry(n, slot, key, value);
}

/* Call before the count changes: a node has count + 1 children. */
static void open_child(node *n, int slot) { move_children(n, slot + 1, n, slot, n->count + 1 - slot); }
static void close_child(node *n, int slot) { move_children(n, slot, n, slot + 1, n->count - slot); }

static const node *descend_left(const node *n) {
    while (!n->leaf) n = first_child(n);
    return n;
}

static const node *descend_right(const node *n) {
    while (!n->leaf) n = last_child(n);
    return n;
}

/* ---- insertion ---- */

/* Splits the full child at the slot; its median moves up into the parent, which must have room. */
static bool split_child(node *parent, int slot) {
    node *left = parent->child[slot];
    node *right = node_new(left->leaf);
    if (!right) return false;
    right->count = MIN_KEYS;
    move_entries(right, 0, left, DEGREE, MIN_KEYS);
    if (!left->leaf) move_children(right, 0, left, DEGREE, DEGREE);
    left->count = MIN_KEYS;
    open_child(parent, slot + 1);
    open_slot(parent, slot);
    copy_entry(parent, slot, left, MIN_KEYS);
    parent->child[slot + 1] = right;
    return true;
}

static bool grow_root(btree *t) {
    node *root = node_new(false);
    if (!root) return false;
    root->child[0] = t->root;
    if (!split_child(root, 0)) {
        free(root);
        return false;
    }
    t->root = root;
    t->height++;
    return true;
}

/* Returns false when the key exists already (its value is replaced) or memory runs out. */
bool btree_insert(btree *t, int64_t key, int64_t value) {
    if (is_full(t->root) && !grow_root(t)) return false;
    node *n = t->root;
    for (;;) {
        int slot = lower_bound(n, key);
        if (holds_key(n, slot, key)) {
            set_entry(n, slot, key, value);
            return false;
        }
        if (n->leaf) {
            insert_entry(n, slot, key, value);
            t->size++;
            return true;
        }
        if (is_full(n->child[slot])) {
            if (!split_child(n, slot)) return false;
            continue; /* look again: the median may be the key */
        }
        n = n->child[slot];
    }
}

/* ---- deletion ---- */

static void borrow_from_left(node *parent, int slot) {
    node *left = parent->child[slot - 1], *right = parent->child[slot];
    if (!right->leaf) {
        open_child(right, 0);
        right->child[0] = last_child(left);
    }
    open_slot(right, 0);
    copy_entry(right, 0, parent, slot - 1);
    copy_entry(parent, slot - 1, left, left->count - 1);
    left->count--;
}

static void borrow_from_right(node *parent, int slot) {
    node *left = parent->child[slot], *right = parent->child[slot + 1];
    if (!left->leaf) left->child[left->count + 1] = first_child(right);
    insert_entry(left, left->count, parent->keys[slot], parent->values[slot]);
    copy_entry(parent, slot, right, 0);
    if (!right->leaf) close_child(right, 0);
    close_slot(right, 0);
}

/* Joins child[slot], the separator and child[slot + 1] into child[slot]. */
static node *merge_children(node *parent, int slot) {
    node *left = parent->child[slot], *right = parent->child[slot + 1];
    int base = left->count + 1;
    insert_entry(left, left->count, parent->keys[slot], parent->values[slot]);
    move_entries(left, base, right, 0, right->count);
    if (!left->leaf) move_children(left, base, right, 0, right->count + 1);
    left->count += right->count;
    close_child(parent, slot + 1);
    close_slot(parent, slot);
    free(right);
    return left;
}

/* Makes sure that child[slot] can lose a key; returns the node to go on with. */
static node *refill_child(node *parent, int slot) {
    node *child = parent->child[slot];
    if (!is_minimal(child)) return child;
    if (slot > 0 && !is_minimal(parent->child[slot - 1])) {
        borrow_from_left(parent, slot);
        return child;
    }
    if (slot < parent->count && !is_minimal(parent->child[slot + 1])) {
        borrow_from_right(parent, slot);
        return child;
    }
    return merge_children(parent, slot < parent->count ? slot : slot - 1);
}

static bool remove_from(node *n, int64_t key);

static void replace_with_predecessor(node *n, int slot) {
    const node *leaf = descend_right(n->child[slot]);
    copy_entry(n, slot, leaf, leaf->count - 1);
    remove_from(n->child[slot], n->keys[slot]);
}

static void replace_with_successor(node *n, int slot) {
    copy_entry(n, slot, descend_left(n->child[slot + 1]), 0);
    remove_from(n->child[slot + 1], n->keys[slot]);
}

static bool remove_from(node *n, int64_t key) {
    int slot = lower_bound(n, key);
    if (n->leaf) {
        if (!holds_key(n, slot, key)) return false;
        close_slot(n, slot);
        return true;
    }
    if (!holds_key(n, slot, key)) return remove_from(refill_child(n, slot), key);
    if (!is_minimal(n->child[slot]))
        replace_with_predecessor(n, slot);
    else if (!is_minimal(n->child[slot + 1]))
        replace_with_successor(n, slot);
    else
        return remove_from(merge_children(n, slot), key);
    return true;
}

static void shrink_root(btree *t) {
    node *old = t->root;
    if (old->leaf || old->count > 0) return;
    t->root = first_child(old);
    t->height--;
    free(old);
}

bool btree_remove(btree *t, int64_t key) {
    bool removed = remove_from(t->root, key);
    shrink_root(t);
    t->size -= removed;
    return removed;
}

/* ---- lookup ---- */

bool btree_init(btree *t) {
    t->root = node_new(true);
    t->size = 0;
    t->height = 1;
    return t->root != NULL;
}

void btree_clear(btree *t) {
    if (t->root) node_free(t->root);
    memset(t, 0, sizeof *t);
}

bool btree_get(const btree *t, int64_t key, int64_t *value) {
    const node *n = t->root;
    for (;;) {
        int slot = lower_bound(n, key);
        if (holds_key(n, slot, key)) {
            *value = n->values[slot];
            return true;
        }
        if (n->leaf) return false;
        n = n->child[slot];
    }
}

bool btree_min(const btree *t, int64_t *key) {
    if (!t->size) return false;
    *key = descend_left(t->root)->keys[0];
    return true;
}

bool btree_max(const btree *t, int64_t *key) {
    if (!t->size) return false;
    const node *leaf = descend_right(t->root);
    *key = leaf->keys[leaf->count - 1];
    return true;
}

/* ---- cursors ---- */

static void cursor_push(btree_cursor *c, const node *n, int slot) {
    c->depth++;
    c->path[c->depth] = n;
    c->slot[c->depth] = slot;
}

static const node *cursor_node(const btree_cursor *c) { return c->path[c->depth]; }
static int cursor_slot(const btree_cursor *c) { return c->slot[c->depth]; }
static bool cursor_done(const btree_cursor *c) { return c->depth < 0; }

/* Leaves nodes whose entries are used up. */
static void cursor_settle(btree_cursor *c) {
    while (!cursor_done(c) && cursor_slot(c) >= cursor_node(c)->count) c->depth--;
}

static void cursor_descend(btree_cursor *c, const node *n) {
    for (;; n = first_child(n)) {
        cursor_push(c, n, 0);
        if (n->leaf) return;
    }
}

/* Places the cursor on the first key that is not less than the given one. */
void btree_seek(const btree *t, int64_t key, btree_cursor *c) {
    c->depth = -1;
    for (const node *n = t->root;;) {
        int slot = lower_bound(n, key);
        cursor_push(c, n, slot);
        if (n->leaf || holds_key(n, slot, key)) break;
        n = n->child[slot];
    }
    cursor_settle(c);
}

bool btree_next(btree_cursor *c, int64_t *key, int64_t *value) {
    if (cursor_done(c)) return false;
    const node *n = cursor_node(c);
    int slot = c->slot[c->depth]++;
    *key = n->keys[slot];
    *value = n->values[slot];
    if (!n->leaf) cursor_descend(c, n->child[slot + 1]);
    cursor_settle(c);
    return true;
}

size_t btree_count_range(const btree *t, int64_t from, int64_t to) {
    btree_cursor c;
    int64_t key, value;
    size_t n = 0;
    btree_seek(t, from, &c);
    while (btree_next(&c, &key, &value) && key < to) n++;
    return n;
}

static bool visit_node(const node *n, btree_visitor visit, void *user) {
    for (int i = 0; i < n->count; i++) {
        if (!n->leaf && !visit_node(n->child[i], visit, user)) return false;
        if (!visit(n->keys[i], n->values[i], user)) return false;
    }
    return n->leaf || visit_node(last_child(n), visit, user);
}

bool btree_visit(const btree *t, btree_visitor visit, void *user) { return visit_node(t->root, visit, user); }

/* Checks order, fill and equal depth of all leaves. */
static bool check_node(const node *n, bool is_root, int height, int64_t low, int64_t high) {
    if (n->leaf != (height == 1) || n->count > MAX_KEYS || (!is_root && n->count < MIN_KEYS)) return false;
    for (int i = 0; i <= n->count; i++) {
        int64_t left = i ? n->keys[i - 1] : low, right = i < n->count ? n->keys[i] : high;
        if (left > right || (i && i < n->count && left == right)) return false;
        if (!n->leaf && !check_node(n->child[i], false, height - 1, left, right)) return false;
    }
    return true;
}

bool btree_check(const btree *t) { return check_node(t->root, true, t->height, INT64_MIN, INT64_MAX); }

/* ---- self test ---- */

static int64_t scramble(int64_t i, int64_t n) { return (i * 7919 + 13) % n; }

static bool sum_visitor(int64_t key, int64_t value, void *user) {
    int64_t *sum = user;
    *sum += value - key;
    return key < 100000;
}

static bool expect_value(const btree *t, int64_t key, int64_t want) {
    int64_t value;
    return btree_get(t, key, &value) && value == want;
}

int btree_selftest(void) {
    const int64_t n = 2000;
    btree t;
    int64_t key, value, sum = 0, previous = -1;
    int error = 0;
    if (!btree_init(&t)) return 1;
    for (int64_t i = 0; i < n; i++)
        if (!btree_insert(&t, scramble(i, n), scramble(i, n) + 1)) error = 2;
    if (btree_insert(&t, 5, 50) || !expect_value(&t, 5, 50) || btree_insert(&t, 5, 6)) error = 3;
    if (t.size != (size_t)n || !btree_check(&t) || t.height < 4) error = 4;
    if (!btree_visit(&t, sum_visitor, &sum) || sum != n) error = 5;
    btree_cursor c;
    for (btree_seek(&t, INT64_MIN, &c); btree_next(&c, &key, &value); previous = key)
        if (key != previous + 1 || value != key + 1) error = 6;
    if (previous != n - 1 || btree_count_range(&t, 100, 350) != 250) error = 7;
    for (int64_t i = 0; i < n; i += 2) {
        if (!btree_remove(&t, scramble(i, n)) || btree_remove(&t, scramble(i, n))) error = 8;
        if (i % 100 == 0 && !btree_check(&t)) error = 9;
    }
    for (int64_t i = 1; i < n; i += 2)
        if (!expect_value(&t, scramble(i, n), scramble(i, n) + 1)) error = 10;
    if (t.size != (size_t)n / 2 || !btree_min(&t, &key) || !btree_max(&t, &value) || key >= value) error = 11;
    for (int64_t i = 1; i < n; i += 2) btree_remove(&t, scramble(i, n));
    if (t.size || t.height != 1 || btree_min(&t, &key) || !btree_check(&t)) error = 12;
    btree_clear(&t);
    return error;
}
