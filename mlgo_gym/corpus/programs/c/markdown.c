/* A Markdown to HTML converter: headings, lists, quotes, code, emphasis, links, images, rules and entity escaping. */
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *start, *end;
} slice;

typedef struct {
    char *data;
    size_t len, cap;
} text_buf;

typedef enum { L_BLANK, L_TEXT, L_HEADING, L_UNDERLINE, L_RULE, L_FENCE, L_QUOTE, L_BULLET, L_NUMBER } line_kind;

typedef struct {
    line_kind kind;
    slice text;     /* the line without its marker */
    int level;      /* of a heading or underline */
    size_t indent;  /* where the text of a list item starts */
    char marker;
} line;

/* Inline parsers get the text at a special character; they return the position behind what they wrote, or NULL. */
typedef const char *(*inline_parser)(text_buf *out, const char *s, const char *end);

enum { MAX_NESTING = 12 };

char *markdown_to_html(const char *source, size_t len);
int markdown_selftest(void);

/* ---- slices ---- */

static slice make_slice(const char *start, const char *end) { return (slice){start, end}; }
static size_t slice_len(slice s) { return (size_t)(s.end - s.start); }
static bool slice_empty(slice s) { return s.start >= s.end; }
static char first_char(slice s) { return slice_empty(s) ? '\0' : *s.start; }
static bool is_blank_char(char c) { return c == ' ' || c == '\t'; }

static slice trim_left(slice s) {
    while (!slice_empty(s) && is_blank_char(*s.start)) s.start++;
    return s;
}

static slice trim_right(slice s) {
    while (!slice_empty(s) && is_blank_char(s.end[-1])) s.end--;
    return s;
}

static slice trim(slice s) { return trim_left(trim_right(s)); }
static slice skip(slice s, size_t n) { return make_slice(s.start + (n < slice_len(s) ? n : slice_len(s)), s.end); }
static size_t indent_of(slice s) { return (size_t)(trim_left(s).start - s.start); }

static size_t run_of(slice s, char c) {
    size_t n = 0;
    while (n < slice_len(s) && s.start[n] == c) n++;
    return n;
}

/* ---- output ---- */

static void reserve(text_buf *b, size_t extra) {
    if (b->len + extra <= b->cap) return;
    size_t cap = (b->len + extra) * 2 + 32;
    char *data = realloc(b->data, cap);
    if (!data) abort();
    b->data = data;
    b->cap = cap;
}

static void put_char(text_buf *b, char c) {
    reserve(b, 1);
    b->data[b->len++] = c;
}

static void put_slice(text_buf *b, slice s) {
    if (slice_empty(s)) return;
    reserve(b, slice_len(s));
    memcpy(b->data + b->len, s.start, slice_len(s));
    b->len += slice_len(s);
}

static void put_text(text_buf *b, const char *s) { put_slice(b, make_slice(s, s + strlen(s))); }

static void put_escaped_char(text_buf *b, char c) {
    switch (c) {
    case '<': put_text(b, "&lt;"); break;
    case '>': put_text(b, "&gt;"); break;
    case '&': put_text(b, "&amp;"); break;
    case '"': put_text(b, "&quot;"); break;
    default: put_char(b, c);
    }
}

static void put_escaped(text_buf *b, slice s) {
    for (const char *p = s.start; p < s.end; p++) put_escaped_char(b, *p);
}

static void open_tag(text_buf *b, const char *name) {
    put_char(b, '<');
    put_text(b, name);
    put_char(b, '>');
}

static void close_tag(text_buf *b, const char *name) {
    put_text(b, "</");
    put_text(b, name);
    put_char(b, '>');
}

static void close_block(text_buf *b, const char *name) {
    close_tag(b, name);
    put_char(b, '\n');
}

static void put_attribute(text_buf *b, const char *name, slice value) {
    put_char(b, ' ');
    put_text(b, name);
    put_text(b, "=\"");
    put_escaped(b, value);
    put_char(b, '"');
}

/* ---- inline text ---- */

static void put_inline(text_buf *b, slice s);

static const char *find_char(const char *s, const char *end, char c) {
    while (s < end && *s != c) s += *s == '\\' && s + 1 < end ? 2 : 1;
    return s < end ? s : NULL;
}

static const char *find_run(const char *s, const char *end, char c, size_t n) {
    for (; s < end; s++)
        if (*s == c && run_of(make_slice(s, end), c) >= n) return s;
    return NULL;
}

static const char *parse_escape(text_buf *b, const char *s, const char *end) {
    if (s + 1 >= end || !ispunct((unsigned char)s[1])) return NULL;
    put_escaped_char(b, s[1]);
    return s + 2;
}

static const char *parse_code(text_buf *b, const char *s, const char *end) {
    size_t ticks = run_of(make_slice(s, end), '`');
    const char *close = find_run(s + ticks, end, '`', ticks);
    if (!close) return NULL;
    open_tag(b, "code");
    put_escaped(b, trim(make_slice(s + ticks, close)));
    close_tag(b, "code");
    return close + ticks;
}

static void wrap_inline(text_buf *b, const char *tag, slice s) {
    open_tag(b, tag);
    put_inline(b, s);
    close_tag(b, tag);
}

/* One marker is emphasis, two are strong; ~~ strikes out. */
static const char *parse_emphasis(text_buf *b, const char *s, const char *end) {
    size_t n = run_of(make_slice(s, end), *s) >= 2 ? 2 : 1;
    const char *body = s + n, *close = find_run(body, end, *s, n);
    if (body >= end || isspace((unsigned char)*body) || !close || close == body || (*s == '~' && n < 2)) return NULL;
    /* At the end of a run, the inner emphasis gets the inner markers. */
    while (close + n < end && close[n] == *s) close++;
    wrap_inline(b, *s == '~' ? "del" : n == 2 ? "strong" : "em", make_slice(body, close));
    return close + n;
}

/* Finds the parts of [text](target); returns the position behind it. */
static const char *scan_link(const char *s, const char *end, slice *text, slice *target) {
    const char *middle = find_char(s + 1, end, ']');
    if (!middle || middle + 1 >= end || middle[1] != '(') return NULL;
    const char *close = find_char(middle + 2, end, ')');
    if (!close) return NULL;
    *text = make_slice(s + 1, middle);
    *target = trim(make_slice(middle + 2, close));
    return close + 1;
}

static const char *parse_link(text_buf *b, const char *s, const char *end) {
    slice text, target;
    const char *after = scan_link(s, end, &text, &target);
    if (!after) return NULL;
    put_text(b, "<a");
    put_attribute(b, "href", target);
    put_char(b, '>');
    put_inline(b, text);
    close_tag(b, "a");
    return after;
}

static const char *parse_image(text_buf *b, const char *s, const char *end) {
    slice text, target;
    const char *after = s + 1 < end && s[1] == '[' ? scan_link(s + 1, end, &text, &target) : NULL;
    if (!after) return NULL;
    put_text(b, "<img");
    put_attribute(b, "src", target);
    put_attribute(b, "alt", text);
    put_char(b, '>');
    return after;
}

static inline_parser parser_for(char c) {
    switch (c) {
    case '\\': return parse_escape;
    case '`': return parse_code;
    case '*': case '_': case '~': return parse_emphasis;
    case '[': return parse_link;
    case '!': return parse_image;
    default: return NULL;
    }
}

/* An underscore inside a word, as in a_b, marks nothing. */
static bool inside_word(slice s, const char *at) {
    return *at == '_' && at > s.start && isalnum((unsigned char)at[-1]);
}

static void put_inline(text_buf *b, slice s) {
    for (const char *p = s.start; p < s.end;) {
        inline_parser parse = inside_word(s, p) ? NULL : parser_for(*p);
        const char *after = parse ? parse(b, p, s.end) : NULL;
        if (after)
            p = after;
        else
            put_escaped_char(b, *p++);
    }
}

/* ---- lines ---- */

/* Cuts the first line off the rest of the text. */
static slice next_slice(slice *r) {
    const char *start = r->start, *stop = start;
    while (stop < r->end && *stop != '\n') stop++;
    r->start = stop < r->end ? stop + 1 : stop;
    if (stop > start && stop[-1] == '\r') stop--;
    return make_slice(start, stop);
}

static bool is_rule(slice s) {
    size_t n = 0;
    char c = first_char(s);
    if (c != '*' && c != '-' && c != '_') return false;
    for (const char *p = s.start; p < s.end; p++) {
        if (*p != c && !is_blank_char(*p)) return false;
        n += *p == c;
    }
    return n >= 3;
}

static bool is_underline(slice s) {
    char c = first_char(s);
    return (c == '=' || c == '-') && run_of(s, c) == slice_len(s);
}

/* The length of a list marker such as "- " or "12. ", or 0. */
static size_t marker_length(slice s, bool *numbered) {
    size_t n = 0;
    while (n < slice_len(s) && isdigit((unsigned char)s.start[n])) n++;
    *numbered = n > 0;
    if (n >= slice_len(s) || !strchr(n ? ".)" : "-*+", s.start[n])) return 0;
    n++;
    return n < slice_len(s) && is_blank_char(s.start[n]) ? n + 1 : 0;
}

static line make_line(line_kind kind, slice text) { return (line){.kind = kind, .text = text}; }

static line make_heading(slice s, size_t level) {
    line l = make_line(L_HEADING, trim(skip(s, level)));
    l.level = (int)level;
    return l;
}

static line make_item(slice whole, slice s, size_t marker, bool numbered) {
    line l = make_line(numbered ? L_NUMBER : L_BULLET, skip(s, marker));
    l.indent = indent_of(whole) + marker;
    l.marker = s.start[marker - 2];
    return l;
}

static line classify(slice whole) {
    bool numbered;
    slice s = trim(whole);
    size_t hashes = run_of(s, '#'), marker = marker_length(s, &numbered);
    if (slice_empty(s)) return make_line(L_BLANK, s);
    if (run_of(s, '`') >= 3) return make_line(L_FENCE, trim(skip(s, run_of(s, '`'))));
    if (hashes >= 1 && hashes <= 6 && is_blank_char(first_char(skip(s, hashes)))) return make_heading(s, hashes);
    if (is_rule(s)) return make_line(L_RULE, s);
    if (is_underline(s)) return make_line(L_UNDERLINE, s);
    if (first_char(s) == '>') return make_line(L_QUOTE, skip(s, first_char(skip(s, 1)) == ' ' ? 2 : 1));
    if (marker) return make_item(whole, s, marker, numbered);
    return make_line(L_TEXT, s);
}

static slice peek_slice(const slice *r) {
    slice copy = *r;
    return next_slice(&copy);
}

/* Blank at the end of the text. */
static line peek_line(const slice *r) { return classify(peek_slice(r)); }

/* ---- blocks ---- */

static void put_blocks(text_buf *b, slice source, int depth, bool tight);

static void put_heading(text_buf *b, int level, slice text) {
    const char tag[3] = {'h', (char)('0' + level), '\0'};
    wrap_inline(b, tag, text);
    put_char(b, '\n');
}

static void put_fence(text_buf *b, slice *r, slice language) {
    put_text(b, "<pre><code");
    if (!slice_empty(language)) put_attribute(b, "class", language);
    put_char(b, '>');
    while (!slice_empty(*r)) {
        slice s = next_slice(r);
        if (classify(s).kind == L_FENCE) break;
        put_escaped(b, s);
        put_char(b, '\n');
    }
    put_text(b, "</code></pre>\n");
}

static slice buf_slice(const text_buf *b) { return make_slice(b->data, b->data + b->len); }

static void put_line(text_buf *b, slice s) {
    put_slice(b, s);
    put_char(b, '\n');
}

/* Converts the collected text of a container and frees it. */
static void put_inner(text_buf *b, text_buf *inner, int depth, bool tight) {
    if (depth < MAX_NESTING) put_blocks(b, buf_slice(inner), depth + 1, tight);
    else put_escaped(b, buf_slice(inner));
    free(inner->data);
}

/* Collects the text of a quote without its markers, and converts that. */
static void put_quote(text_buf *b, slice *r, slice first, int depth) {
    text_buf inner = {0};
    for (slice s = first;; s = classify(next_slice(r)).text) {
        put_line(&inner, s);
        if (peek_line(r).kind != L_QUOTE) break;
    }
    put_text(b, "<blockquote>\n");
    put_inner(b, &inner, depth, false);
    close_block(b, "blockquote");
}

/* The lines of an item: its first one and what follows with enough indentation. */
static void put_item(text_buf *b, slice *r, line item, int depth) {
    text_buf inner = {0};
    put_line(&inner, item.text);
    while (peek_line(r).kind != L_BLANK && indent_of(peek_slice(r)) >= item.indent) put_line(&inner, skip(next_slice(r), item.indent));
    open_tag(b, "li");
    put_inner(b, &inner, depth, true);
    close_block(b, "li");
}

static void put_list(text_buf *b, slice *r, line item, int depth) {
    const char *tag = item.kind == L_NUMBER ? "ol" : "ul";
    open_tag(b, tag);
    put_char(b, '\n');
    for (line next = item;; next_slice(r)) {
        put_item(b, r, next, depth);
        next = peek_line(r);
        if (next.kind != item.kind || next.marker != item.marker) break;
    }
    close_block(b, tag);
}

/* A paragraph, or a heading when an underline follows. Tight ones have no tag of their own. */
static void put_paragraph(text_buf *b, slice *r, slice first, bool tight) {
    text_buf inner = {0};
    put_slice(&inner, first);
    for (; peek_line(r).kind == L_TEXT; put_slice(&inner, trim(next_slice(r)))) put_char(&inner, '\n');
    line next = peek_line(r);
    slice text = buf_slice(&inner);
    bool ruled = next.kind == L_RULE && is_underline(next.text);
    if (next.kind == L_UNDERLINE || ruled) {
        next_slice(r);
        put_heading(b, first_char(next.text) == '=' ? 1 : 2, text);
    } else if (tight) {
        put_inline(b, text);
    } else {
        wrap_inline(b, "p", text);
        put_char(b, '\n');
    }
    free(inner.data);
}

static void put_blocks(text_buf *b, slice source, int depth, bool tight) {
    while (!slice_empty(source)) {
        line l = classify(next_slice(&source));
        switch (l.kind) {
        case L_BLANK: break;
        case L_HEADING: put_heading(b, l.level, l.text); break;
        case L_RULE: put_text(b, "<hr>\n"); break;
        case L_FENCE: put_fence(b, &source, l.text); break;
        case L_QUOTE: put_quote(b, &source, l.text, depth); break;
        case L_BULLET: case L_NUMBER: put_list(b, &source, l, depth); break;
        default: put_paragraph(b, &source, l.text, tight); break;
        }
    }
}

char *markdown_to_html(const char *source, size_t len) {
    text_buf out = {0};
    put_blocks(&out, make_slice(source, source + len), 0, false);
    put_char(&out, '\0');
    return out.data;
}

/* ---- self test ---- */

static bool converts(const char *source, const char *want) {
    char *html = markdown_to_html(source, strlen(source));
    bool ok = strcmp(html, want) == 0;
    free(html);
    return ok;
}

int markdown_selftest(void) {
    char deep[200];
    if (!converts("# A *b*\n\nTitle\n=====\nSub\n---\n***\n", "<h1>A <em>b</em></h1>\n<h1>Title</h1>\n<h2>Sub</h2>\n<hr>\n")) return 1;
    if (!converts("a < b & **c _d_** `x<y`\nsnake_case_x \\*no\\*", "<p>a &lt; b &amp; <strong>c <em>d</em></strong> <code>x&lt;y</code>\n"
                  "snake_case_x *no*</p>\n")) return 2;
    if (!converts("- one\n- two\n  1. in\n  2. ner\n\n* x", "<ul>\n<li>one</li>\n<li>two<ol>\n<li>in</li>\n<li>ner</li>\n</ol>\n</li>\n</ul>\n"
                  "<ul>\n<li>x</li>\n</ul>\n")) return 3;
    if (!converts("> q\n> > r\n\n```c\nif (a<b) # **x**\n```\n", "<blockquote>\n<p>q</p>\n<blockquote>\n<p>r</p>\n</blockquote>\n</blockquote>\n"
                  "<pre><code class=\"c\">if (a&lt;b) # **x**\n</code></pre>\n")) return 4;
    if (!converts("[a *b*](http://x/?a&b) ![alt](i.png) ~~old~~ [x] *", "<p><a href=\"http://x/?a&amp;b\">a <em>b</em></a> <img src=\"i.png\" "
                  "alt=\"alt\"> <del>old</del> [x] *</p>\n")) return 5;
    memset(deep, '>', sizeof deep - 1); /* bounded nesting */
    deep[sizeof deep - 1] = '\0';
    char *html = markdown_to_html(deep, strlen(deep));
    bool ok = strstr(html, "<blockquote>") && strlen(html) < 2000;
    free(html);
    return ok && converts("", "") && converts("\r\n#x\r\n", "<p>#x</p>\n") ? 0 : 6;
}
