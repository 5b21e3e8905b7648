/* A small JSON library: parser, tree model, path queries and two serialisers. */
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { J_NULL, J_FALSE, J_TRUE, J_NUMBER, J_STRING, J_ARRAY, J_OBJECT } json_kind;

typedef struct json {
    json_kind kind;
    double number;
    char *text;         /* value of a string */
    char *key;          /* name inside the parent object, or NULL */
    struct json *first; /* children of arrays and objects */
    struct json *last;
    struct json *next;
    size_t count;
} json;

typedef struct {
    const char *cur;
    const char *end;
    const char *error;
    int depth;
} parser;

typedef struct {
    char *data;
    size_t len;
    size_t cap;
} strbuf;

enum { MAX_DEPTH = 64 };

int json_selftest(void);

/* ---- growable output buffer ---- */

static bool sb_reserve(strbuf *sb, size_t extra) {
    if (sb->len + extra <= sb->cap) return true;
    size_t cap = sb->cap * 2 + extra + 16;
    char *grown = realloc(sb->data, cap);
    if (!grown) return false;
    sb->data = grown;
    sb->cap = cap;
    return true;
}

static void sb_putc(strbuf *sb, char c) {
    if (sb_reserve(sb, 1)) sb->data[sb->len++] = c;
}

static void sb_write(strbuf *sb, const char *s, size_t n) {
    if (!sb_reserve(sb, n)) return;
    memcpy(sb->data + sb->len, s, n);
    sb->len += n;
}

static void sb_puts(strbuf *sb, const char *s) { sb_write(sb, s, strlen(s)); }

static char *sb_finish(strbuf *sb) {
    sb_putc(sb, '\0');
    return sb->data;
}

/* One continuation byte of a UTF-8 sequence. */
static void sb_put_tail(strbuf *sb, unsigned bits) { sb_putc(sb, (char)(0x80 | (bits & 0x3F))); }

static void sb_put_utf8(strbuf *sb, unsigned cp) {
    if (cp < 0x80) {
        sb_putc(sb, (char)cp);
        return;
    }
    if (cp < 0x800) {
        sb_putc(sb, (char)(0xC0 | (cp >> 6)));
    } else {
        if (cp < 0x10000) {
            sb_putc(sb, (char)(0xE0 | (cp >> 12)));
        } else {
            sb_putc(sb, (char)(0xF0 | (cp >> 18)));
            sb_put_tail(sb, cp >> 12);
        }
        sb_put_tail(sb, cp >> 6);
    }
    sb_put_tail(sb, cp);
}

/* ---- nodes ---- */

static json *node_new(json_kind kind) {
    json *n = calloc(1, sizeof *n);
    if (n) n->kind = kind;
    return n;
}

static bool is_container(const json *n) { return n->kind == J_ARRAY || n->kind == J_OBJECT; }
static bool is_object(const json *n) { return n->kind == J_OBJECT; }

static void node_append(json *parent, json *child) {
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

static json *object_get(const json *obj, const char *key, size_t len) {
    for (json *c = obj->first; c; c = c->next)
        if (strlen(c->key) == len && memcmp(c->key, key, len) == 0) return c;
    return NULL;
}

static json *array_at(const json *arr, size_t index) {
    json *c = arr->first;
    while (c && index--) c = c->next;
    return c;
}

void json_free(json *node) {
    while (node) {
        json *next = node->next;
        json_free(node->first);
        free(node->text);
        free(node->key);
        free(node);
        node = next;
    }
}

/* ---- lexical helpers ---- */

static bool at_end(const parser *p) { return p->cur >= p->end; }
static char peek(const parser *p) { return at_end(p) ? '\0' : *p->cur; }
static void advance(parser *p) { p->cur++; }

static void *fail(parser *p, const char *why) {
    if (!p->error) p->error = why;
    return NULL;
}

static void skip_space(parser *p) {
    while (!at_end(p) && (*p->cur == ' ' || *p->cur == '\t' || *p->cur == '\n' || *p->cur == '\r')) advance(p);
}

static bool accept(parser *p, char c) {
    if (peek(p) != c || at_end(p)) return false;
    advance(p);
    return true;
}

static bool accept_token(parser *p, char c) {
    skip_space(p);
    return accept(p, c);
}

static bool accept_word(parser *p, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(p->end - p->cur) < n || memcmp(p->cur, word, n) != 0) return false;
    p->cur += n;
    return true;
}

static int hex_digit(char c) {
    if (isdigit((unsigned char)c)) return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex4(parser *p, unsigned *out) {
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        int d = hex_digit(peek(p));
        if (d < 0) return false;
        v = v << 4 | (unsigned)d;
        advance(p);
    }
    *out = v;
    return true;
}

static bool is_low_surrogate(unsigned u) { return u >= 0xDC00 && u < 0xE000; }

static bool read_unicode(parser *p, strbuf *sb) {
    unsigned u, lo;
    if (!read_hex4(p, &u)) return false;
    if (is_low_surrogate(u)) return false;
    if (u >= 0xD800 && u < 0xDC00) {
        if (!accept(p, '\\') || !accept(p, 'u')) return false;
        if (!read_hex4(p, &lo) || !is_low_surrogate(lo)) return false;
        u = 0x10000 + ((u - 0xD800) << 10) + (lo - 0xDC00);
    }
    sb_put_utf8(sb, u);
    return true;
}

static bool read_escape(parser *p, strbuf *sb) {
    char c = peek(p);
    advance(p);
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (c == 'u') return read_unicode(p, sb);
    const char *found = c ? strchr(names, c) : NULL;
    if (found) sb_putc(sb, values[found - names]);
    return found;
}

/* Reads a string whose opening quote has been consumed already. */
static char *read_string(parser *p) {
    strbuf sb = {0};
    while (!at_end(p)) {
        char c = peek(p);
        advance(p);
        if (c == '"') return sb_finish(&sb);
        if ((unsigned char)c < 0x20) break;
        if (c != '\\') {
            sb_putc(&sb, c);
        } else if (at_end(p) || !read_escape(p, &sb)) {
            break;
        }
    }
    free(sb.data);
    return fail(p, "bad string");
}

static bool at_digit(const parser *p) { return isdigit((unsigned char)peek(p)); }

static bool skip_digits(parser *p) {
    if (!at_digit(p)) return false;
    while (at_digit(p)) advance(p);
    return true;
}

static bool scan_number(parser *p) {
    accept(p, '-');
    if (!accept(p, '0') && !skip_digits(p)) return false;
    if (accept(p, '.') && !skip_digits(p)) return false;
    if (accept(p, 'e') || accept(p, 'E')) {
        if (!accept(p, '+')) accept(p, '-');
        if (!skip_digits(p)) return false;
    }
    return true;
}

/* ---- grammar ---- */

static json *parse_value(parser *p);

static json *parse_number(parser *p) {
    const char *start = p->cur;
    if (!scan_number(p)) return fail(p, "bad number");
    json *node = node_new(J_NUMBER);
    if (node) node->number = strtod(start, NULL);
    return node;
}

static json *parse_string(parser *p) {
    char *text = read_string(p);
    json *node = text ? node_new(J_STRING) : NULL;
    if (node) node->text = text;
    return node;
}

static json *parse_member(parser *p) {
    if (!accept_token(p, '"')) return fail(p, "expected a key");
    char *key = read_string(p);
    if (!key) return NULL;
    json *value = accept_token(p, ':') ? parse_value(p) : fail(p, "expected ':'");
    if (!value) {
        free(key);
        return NULL;
    }
    value->key = key;
    return value;
}

static json *parse_container(parser *p, json_kind kind, char close) {
    json *node = node_new(kind);
    if (!node || accept_token(p, close)) return node;
    if (p->depth >= MAX_DEPTH) {
        json_free(node);
        return fail(p, "nested too deeply");
    }
    p->depth++;
    do {
        json *child = is_object(node) ? parse_member(p) : parse_value(p);
        if (!child) {
            json_free(node);
            return NULL;
        }
        node_append(node, child);
    } while (accept_token(p, ','));
    p->depth--;
    if (accept_token(p, close)) return node;
    json_free(node);
    return fail(p, "expected ',' or a closing bracket");
}

static json *parse_value(parser *p) {
    skip_space(p);
    if (accept(p, '{')) return parse_container(p, J_OBJECT, '}');
    if (accept(p, '[')) return parse_container(p, J_ARRAY, ']');
    if (accept(p, '"')) return parse_string(p);
    if (accept_word(p, "null")) return node_new(J_NULL);
    if (accept_word(p, "true")) return node_new(J_TRUE);
    if (accept_word(p, "false")) return node_new(J_FALSE);
    return parse_number(p);
}

/* The text must be followed by a character that cannot extend a number, such as NUL. */
json *json_parse(const char *text, size_t len, const char **error) {
    parser p = {text, text + len, NULL, 0};
    json *root = parse_value(&p);
    skip_space(&p);
    if (root && !at_end(&p)) {
        json_free(root);
        root = fail(&p, "trailing characters");
    }
    if (error) *error = p.error;
    return root;
}

/* ---- queries such as  users[2].name  ---- */

static json *query_index(json *node, const char **path) {
    size_t index = 0;
    const char *s = *path;
    if (!isdigit((unsigned char)*s)) return NULL;
    while (isdigit((unsigned char)*s)) index = index * 10 + (size_t)(*s++ - '0');
    if (*s != ']') return NULL;
    *path = s + 1;
    return is_container(node) ? array_at(node, index) : NULL;
}

json *json_query(json *root, const char *path) {
    while (root && *path) {
        if (*path == '[') {
            path++;
            root = query_index(root, &path);
        } else {
            if (*path == '.') path++;
            size_t n = strcspn(path, ".[");
            root = is_object(root) ? object_get(root, path, n) : NULL;
            path += n;
        }
    }
    return root;
}

/* ---- output ---- */

static void write_char(strbuf *sb, unsigned char c) {
    static const char hex[] = "0123456789abcdef";
    if (c == '"' || c == '\\') {
        sb_putc(sb, '\\');
        sb_putc(sb, (char)c);
    } else if (c == '\n') {
        sb_puts(sb, "\\n");
    } else if (c < 0x20) {
        sb_puts(sb, "\\u00");
        sb_putc(sb, hex[c >> 4]);
        sb_putc(sb, hex[c & 15]);
    } else {
        sb_putc(sb, (char)c);
    }
}

static void write_string(strbuf *sb, const char *s) {
    sb_putc(sb, '"');
    while (*s) write_char(sb, (unsigned char)*s++);
    sb_putc(sb, '"');
}

static void write_number(strbuf *sb, double v) {
    char tmp[40];
    snprintf(tmp, sizeof tmp, v == floor(v) && fabs(v) < 1e15 ? "%.0f" : "%.17g", v);
    sb_puts(sb, tmp);
}

static void write_break(strbuf *sb, int indent, int depth) {
    if (indent <= 0) return;
    sb_putc(sb, '\n');
    for (int i = 0; i < indent * depth; i++) sb_putc(sb, ' ');
}

static void write_value(strbuf *sb, const json *n, int indent, int depth) {
    static const char *const words[] = {"null", "false", "true"};
    if (n->kind == J_NUMBER) {
        write_number(sb, n->number);
    } else if (n->kind == J_STRING) {
        write_string(sb, n->text);
    } else if (!is_container(n)) {
        sb_puts(sb, words[n->kind]);
    } else {
        sb_putc(sb, is_object(n) ? '{' : '[');
        for (const json *c = n->first; c; c = c->next) {
            write_break(sb, indent, depth + 1);
            if (c->key) {
                write_string(sb, c->key);
                sb_puts(sb, indent > 0 ? ": " : ":");
            }
            write_value(sb, c, indent, depth + 1);
            if (c->next) sb_putc(sb, ',');
        }
        if (n->first) write_break(sb, indent, depth);
        sb_putc(sb, is_object(n) ? '}' : ']');
    }
}

char *json_write(const json *root, int indent) {
    strbuf sb = {0};
    write_value(&sb, root, indent, 0);
    return sb_finish(&sb);
}

static bool rejects(const char *text) {
    const char *error = NULL;
    return !json_parse(text, strlen(text), &error) && error;
}

/* Serialises with indentation, reads that back and expects the compact text again. */
static bool round_trips(const char *text) {
    json *a = json_parse(text, strlen(text), NULL);
    char *pretty = a ? json_write(a, 2) : NULL;
    json *b = pretty ? json_parse(pretty, strlen(pretty), NULL) : NULL;
    char *plain = b ? json_write(b, 0) : NULL;
    bool ok = plain && strcmp(plain, text) == 0;
    json_free(a);
    json_free(b);
    free(pretty);
    free(plain);
    return ok;
}

int json_selftest(void) {
    const char *doc = "{\"users\":[{\"name\":\"Ann\",\"age\":31},{\"name\":\"B\\u00e9la \\ud83d\\ude00\",\"tags\":[]}],\"ok\":true}";
    json *j = json_parse(doc, strlen(doc), NULL);
    if (!j) return 1;
    json *name = json_query(j, "users[1].name"), *age = json_query(j, "users[0].age");
    bool ok = name && strcmp(name->text, "B\xC3\xA9la \xF0\x9F\x98\x80") == 0 && age && age->number == 31 &&
              !json_query(j, "users[2]") && !json_query(j, "ok.x");
    json_free(j);
    if (!ok) return 2;
    if (!round_trips("[1,-2.5,\"a\\n\\\"b\\\\\",{\"k\":null,\"l\":[[],{}]},false]")) return 3;
    if (!round_trips("{\"a\":[1,2,{\"b\":0.125}],\"c\":\"\\u0001\"}")) return 4;
    if (!rejects("[1,]") || !rejects("{\"a\" 1}") || !rejects("\"\\ud800\"") || !rejects("01") || !rejects("\"x")) return 5;
    return 0;
}
