/* Regular expressions: a compiler to a small instruction set, a backtracking matcher with captures, replacement. */
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MAX_PROG = 512, MAX_CLASSES = 32, MAX_GROUPS = 10, MAX_NODES = 512, REPEAT_MAX = 50 };

typedef enum { I_CHAR, I_ANY, I_CLASS, I_SPLIT, I_JUMP, I_SAVE, I_BEGIN, I_END, I_WORD_EDGE, I_MATCH } inst_op;

typedef struct {
    inst_op op;
    int x; /* character, class index, save slot or first target */
    int y; /* second target of a split */
} inst;

typedef struct {
    uint32_t bits[8];
} char_set;

typedef struct {
    inst prog[MAX_PROG];
    int size;
    char_set classes[MAX_CLASSES];
    int class_count, group_count;
} regex;

typedef struct {
    const char *start[MAX_GROUPS], *end[MAX_GROUPS];
} regex_match;

/* The syntax tree: nodes live in an array and refer to each other by index. */
typedef enum { N_EMPTY, N_INST, N_CAT, N_ALT, N_REPEAT, N_GROUP } node_kind;

typedef struct {
    node_kind kind;
    int left, right;
    inst_op op; /* of an instruction */
    int value;
    int min, max; /* of a repeat; max -1: no limit */
    bool lazy;
} node;

typedef struct {
    const char *cur;
    regex *re;
    node nodes[MAX_NODES];
    int node_count;
    const char *error;
} compiler;

typedef struct {
    const regex *re;
    const char *text;
    const char *slots[2 * MAX_GROUPS];
    int steps_left;
} matcher;

int regex_selftest(void);

/* ---- character sets ---- */

static void set_add(char_set *s, unsigned char c) { s->bits[c >> 5] |= 1u << (c & 31); }
static bool set_has(const char_set *s, unsigned char c) { return s->bits[c >> 5] >> (c & 31) & 1; }

static void set_add_range(char_set *s, int from, int to) {
    for (int c = from; c <= to; c++) set_add(s, (unsigned char)c);
}

static void set_invert(char_set *s) {
    for (int i = 0; i < 8; i++) s->bits[i] = ~s->bits[i];
}

static bool is_word_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool in_shorthand(char kind, char c) {
    if (kind == 'd') return isdigit((unsigned char)c);
    if (kind == 's') return isspace((unsigned char)c);
    return is_word_char(c);
}

/* Adds the set for \d, \w, \s, or the inverse for the capital letter. */
static bool add_shorthand(char_set *s, char kind) {
    if (!kind || !strchr("dswDSW", kind)) return false;
    bool wanted = islower((unsigned char)kind);
    for (int c = 1; c < 256; c++)
        if (in_shorthand((char)tolower((unsigned char)kind), (char)c) == wanted) set_add(s, (unsigned char)c);
    return true;
}

/* ---- parser ---- */

static int syntax_error(compiler *c, const char *why) {
    if (!c->error) c->error = why;
    return 0;
}

static int new_node(compiler *c, node_kind kind) {
    if (c->node_count == MAX_NODES) return syntax_error(c, "pattern too long");
    c->nodes[c->node_count] = (node){.kind = kind};
    return c->node_count++;
}

static int new_leaf(compiler *c, inst_op op, int value) {
    int n = new_node(c, N_INST);
    c->nodes[n].op = op;
    c->nodes[n].value = value;
    return n;
}

static int new_pair(compiler *c, node_kind kind, int left, int right) {
    int n = new_node(c, kind);
    c->nodes[n].left = left;
    c->nodes[n].right = right;
    return n;
}

static bool peek_is(const compiler *c, char ch) { return *c->cur == ch; }

static bool accept(compiler *c, char ch) {
    if (!peek_is(c, ch) || !ch) return false;
    c->cur++;
    return true;
}

static char next_char(compiler *c) { return *c->cur ? *c->cur++ : '\0'; }

/* The classes of a new program are all empty. */
static char_set *new_class(compiler *c, int *index) {
    if (c->re->class_count == MAX_CLASSES) *index = syntax_error(c, "too many classes");
    else *index = c->re->class_count++;
    return &c->re->classes[*index];
}

static char unescape(char c) { return c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c; }

static int parse_class(compiler *c) {
    int index;
    char_set *set = new_class(c, &index);
    bool inverted = accept(c, '^'), first = true;
    while (first || !peek_is(c, ']')) {
        char from = next_char(c);
        if (!from) return syntax_error(c, "missing ]");
        first = false;
        bool escaped = from == '\\';
        if (escaped) from = next_char(c);
        if (escaped && add_shorthand(set, from)) continue;
        if (escaped) from = unescape(from);
        char to = from;
        if (peek_is(c, '-') && c->cur[1] && c->cur[1] != ']') {
            c->cur++;
            to = next_char(c);
            if (to == '\\') to = unescape(next_char(c));
        }
        if ((unsigned char)to < (unsigned char)from) return syntax_error(c, "bad range");
        set_add_range(set, (unsigned char)from, (unsigned char)to);
    }
    accept(c, ']');
    if (inverted) set_invert(set);
    return new_leaf(c, I_CLASS, index);
}

static int parse_escape(compiler *c) {
    char ch = next_char(c);
    int index;
    if (!ch) return syntax_error(c, "trailing backslash");
    if (ch == 'b') return new_leaf(c, I_WORD_EDGE, 0);
    if (!strchr("dDsSwW", ch)) return new_leaf(c, I_CHAR, unescape(ch));
    add_shorthand(new_class(c, &index), ch);
    return new_leaf(c, I_CLASS, index);
}

static int parse_alternation(compiler *c);

static int parse_group(compiler *c) {
    bool capture = !(peek_is(c, '?') && c->cur[1] == ':');
    if (!capture) c->cur += 2;
    if (c->re->group_count == MAX_GROUPS) return syntax_error(c, "too many groups");
    int group = capture ? c->re->group_count++ : 0;
    int body = parse_alternation(c);
    if (!accept(c, ')')) return syntax_error(c, "missing )");
    if (!capture) return body;
    int n = new_pair(c, N_GROUP, body, 0);
    c->nodes[n].value = group;
    return n;
}

static int parse_atom(compiler *c) {
    if (accept(c, '(')) return parse_group(c);
    if (accept(c, '[')) return parse_class(c);
    if (accept(c, '\\')) return parse_escape(c);
    if (accept(c, '.')) return new_leaf(c, I_ANY, 0);
    if (accept(c, '^')) return new_leaf(c, I_BEGIN, 0);
    if (accept(c, '$')) return new_leaf(c, I_END, 0);
    if (strchr("*+?", *c->cur)) return syntax_error(c, "nothing to repeat");
    return new_leaf(c, I_CHAR, next_char(c));
}

static int parse_count(compiler *c, int missing) {
    if (!isdigit((unsigned char)*c->cur)) return missing;
    int v = 0;
    while (isdigit((unsigned char)*c->cur) && v <= REPEAT_MAX) v = v * 10 + (next_char(c) - '0');
    return v;
}

static int new_repeat(compiler *c, int body, int min, int max) {
    int n = new_pair(c, N_REPEAT, body, 0);
    c->nodes[n].min = min;
    c->nodes[n].max = max;
    c->nodes[n].lazy = accept(c, '?');
    return n;
}

static int parse_braces(compiler *c, int body) {
    int min = parse_count(c, 0), max = min;
    if (accept(c, ',')) max = parse_count(c, -1);
    if (!accept(c, '}')) return syntax_error(c, "missing }");
    if (min > REPEAT_MAX || max > REPEAT_MAX || (max >= 0 && max < min)) return syntax_error(c, "bad repeat");
    return new_repeat(c, body, min, max);
}

static int parse_repeat(compiler *c) {
    int atom = parse_atom(c);
    for (;;) {
        if (c->error) return 0;
        if (accept(c, '*')) atom = new_repeat(c, atom, 0, -1);
        else if (accept(c, '+')) atom = new_repeat(c, atom, 1, -1);
        else if (accept(c, '?')) atom = new_repeat(c, atom, 0, 1);
        else if (accept(c, '{')) atom = parse_braces(c, atom);
        else return atom;
    }
}

static bool at_branch_end(const compiler *c) { return peek_is(c, '\0') || peek_is(c, '|') || peek_is(c, ')'); }

static int parse_sequence(compiler *c) {
    if (at_branch_end(c)) return new_node(c, N_EMPTY);
    int left = parse_repeat(c);
    while (!c->error && !at_branch_end(c)) left = new_pair(c, N_CAT, left, parse_repeat(c));
    return left;
}

static int parse_alternation(compiler *c) {
    int left = parse_sequence(c);
    while (!c->error && accept(c, '|')) left = new_pair(c, N_ALT, left, parse_sequence(c));
    return left;
}

/* ---- code generation ---- */

static int emit(compiler *c, inst_op op, int x, int y) {
    if (c->re->size == MAX_PROG) return syntax_error(c, "program too large");
    c->re->prog[c->re->size] = (inst){op, x, y};
    return c->re->size++;
}

static int here(const compiler *c) { return c->re->size; }

/* A split prefers its first target; a lazy repeat prefers to leave. */
static void patch_split(compiler *c, int at, int leave, bool lazy) {
    c->re->prog[at].x = lazy ? leave : at + 1;
    c->re->prog[at].y = lazy ? at + 1 : leave;
}

static void generate(compiler *c, int index);

static void generate_repeat(compiler *c, const node *n) {
    int splits[REPEAT_MAX];
    for (int i = 0; i < n->min; i++) generate(c, n->left);
    if (n->max < 0) {
        int split = emit(c, I_SPLIT, 0, 0);
        generate(c, n->left);
        emit(c, I_JUMP, split, 0);
        patch_split(c, split, here(c), n->lazy);
        return;
    }
    int optional = n->max - n->min;
    for (int i = 0; i < optional; i++) {
        splits[i] = emit(c, I_SPLIT, 0, 0);
        generate(c, n->left);
    }
    for (int i = 0; i < optional; i++) patch_split(c, splits[i], here(c), n->lazy);
}

static void generate_alternation(compiler *c, const node *n) {
    int split = emit(c, I_SPLIT, 0, 0);
    generate(c, n->left);
    int jump = emit(c, I_JUMP, 0, 0);
    patch_split(c, split, here(c), false);
    generate(c, n->right);
    c->re->prog[jump].x = here(c);
}

static void generate(compiler *c, int index) {
    const node *n = &c->nodes[index];
    if (c->error) return;
    switch (n->kind) {
    case N_EMPTY: break;
    case N_INST: emit(c, n->op, n->value, 0); break;
    case N_CAT: generate(c, n->left); generate(c, n->right); break;
    case N_ALT: generate_alternation(c, n); break;
    case N_REPEAT: generate_repeat(c, n); break;
    case N_GROUP:
        emit(c, I_SAVE, 2 * n->value, 0);
        generate(c, n->left);
        emit(c, I_SAVE, 2 * n->value + 1, 0);
        break;
    }
}

bool regex_compile(regex *re, const char *pattern, const char **error) {
    static compiler c; /* too large for a small stack */
    memset(re, 0, sizeof *re);
    re->group_count = 1;
    c = (compiler){.cur = pattern, .re = re};
    int root = parse_alternation(&c);
    if (*c.cur) syntax_error(&c, "unmatched )");
    emit(&c, I_SAVE, 0, 0);
    generate(&c, root);
    emit(&c, I_SAVE, 1, 0);
    emit(&c, I_MATCH, 0, 0);
    if (error) *error = c.error;
    return !c.error;
}

/* ---- matching ---- */

static bool consumes(const regex *re, const inst *in, char c) {
    if (!c) return false;
    if (in->op == I_CHAR) return (char)in->x == c;
    if (in->op == I_CLASS) return set_has(&re->classes[in->x], (unsigned char)c);
    return c != '\n';
}

static bool assertion_holds(const matcher *m, inst_op op, const char *s) {
    if (op == I_BEGIN) return s == m->text;
    if (op == I_END) return *s == '\0';
    return (s > m->text && is_word_char(s[-1])) != is_word_char(*s);
}

/* Backtracks over splits by recursion, bounded by a number of steps. */
static bool run(matcher *m, int pc, const char *s) {
    const char *old;
    while (m->steps_left-- > 0) {
        const inst *in = &m->re->prog[pc];
        switch (in->op) {
        case I_BEGIN: case I_END: case I_WORD_EDGE:
            if (!assertion_holds(m, in->op, s)) return false;
            pc++;
            break;
        case I_SPLIT:
            if (run(m, in->x, s)) return true;
            pc = in->y;
            break;
        case I_JUMP: pc = in->x; break;
        case I_SAVE:
            old = m->slots[in->x];
            m->slots[in->x] = s;
            if (run(m, pc + 1, s)) return true;
            m->slots[in->x] = old;
            return false;
        case I_MATCH: return true;
        default:
            if (!consumes(m->re, in, *s++)) return false;
            pc++;
        }
    }
    return false;
}

static bool store_groups(const matcher *m, regex_match *out) {
    for (int g = 0; g < MAX_GROUPS; g++) {
        out->start[g] = m->slots[2 * g];
        out->end[g] = m->slots[2 * g + 1];
    }
    return true;
}

static bool search_from(const regex *re, const char *text, const char *from, regex_match *out) {
    for (const char *s = from;; s++) {
        matcher m = {.re = re, .text = text, .steps_left = 20000};
        if (run(&m, 0, s)) return store_groups(&m, out);
        if (!*s) return false;
    }
}

bool regex_search(const regex *re, const char *text, regex_match *m) { return search_from(re, text, text, m); }

typedef struct {
    char *cur, *limit;
} output;

static void put_char(output *o, char c) {
    if (o->cur < o->limit) *o->cur++ = c;
}

static void put_span(output *o, const char *s, const char *end) {
    while (s < end) put_char(o, *s++);
}

/* Replaces every match; & in the replacement stands for the match, and the result is cut to the capacity. */
size_t regex_replace(const regex *re, const char *text, const char *with, char *out, size_t cap) {
    output o = {out, out + cap - 1};
    regex_match m;
    const char *from = text;
    while (*from && search_from(re, text, from, &m)) {
        put_span(&o, from, m.start[0]);
        for (const char *w = with; *w; w++) {
            if (*w == '&') put_span(&o, m.start[0], m.end[0]);
            else put_char(&o, *w);
        }
        from = m.end[0];
        if (m.start[0] == m.end[0] && *from) put_char(&o, *from++);
    }
    put_span(&o, from, from + strlen(from));
    *o.cur = '\0';
    return (size_t)(o.cur - out);
}

/* ---- self test ---- */

static bool finds(const char *pattern, const char *text, const char *want, int group) {
    static regex re;
    regex_match m;
    if (!regex_compile(&re, pattern, NULL) || !regex_search(&re, text, &m)) return !want;
    size_t n = want ? strlen(want) : 0;
    return want && (size_t)(m.end[group] - m.start[group]) == n && memcmp(m.start[group], want, n) == 0;
}

static bool replaces(const char *pattern, const char *text, const char *with, const char *want) {
    static regex re;
    char out[64];
    return regex_compile(&re, pattern, NULL) && regex_replace(&re, text, with, out, sizeof out) == strlen(want) &&
           strcmp(out, want) == 0;
}

int regex_selftest(void) {
    static const char *const bad[] = {"a**(", "[a", "a{3,1}", "*a", "a)", "x\\", "[z-a]", "a{99}"};
    static regex re;
    if (!finds("(a+)(b|c)?d", "xxaaacd", "c", 2) || !finds("(a+)(b|c)?d", "xxaaacd", "aaa", 1)) return 1;
    if (!finds("\\b[A-Z]\\w*", "the Quick fox", "Quick", 0) || !finds("<.+?>", "<a><b>", "<a>", 0)) return 2;
    if (!finds("<.+>", "<a><b>", "<a><b>", 0) || !finds("^(\\d{1,3}\\.){3}\\d+$", "10.0.200.7", "200.", 1)) return 3;
    if (!finds("a{2,3}", "aaaa", "aaa", 0) || !finds("[^\\s,]+$", "one, two", "two", 0) || !finds("^b", "ab", NULL, 0)) return 4;
    if (!finds("(?:x|yz)*w", "xyzxw!", "xyzxw", 0) || !finds("(a*)*b", "aaaaaaaaaaaaaaaaaaac", NULL, 0)) return 5;
    if (!replaces("[oO]+", "fOo boo", "<&>", "f<Oo> b<oo>") || !replaces("x*", "ab", "-", "-a-b") || !replaces("[K-M]", "KLMN", "", "N")) return 6;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (regex_compile(&re, bad[i], NULL)) return 7;
    return 0;
}
