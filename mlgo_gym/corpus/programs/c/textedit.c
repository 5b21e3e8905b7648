/* The core of a text editor: a gap buffer with a cursor, selection, clipboard, grouped undo/redo, line motion and search. */
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *data;
    size_t cap;
    size_t gap_start, gap_end;
} gap_buffer;

typedef enum { EDIT_INSERT, EDIT_DELETE } edit_kind;

typedef struct {
    edit_kind kind;
    size_t at;
    size_t len;
    char *text;
    unsigned group; /* edits of one group are undone together */
    size_t cursor_before;
} edit;

typedef struct {
    edit *items;
    size_t count;
    size_t cap;
} edit_stack;

typedef struct {
    gap_buffer buf;
    size_t cursor;
    size_t anchor;
    bool selecting;
    size_t goal_column; /* where vertical motion wants to go */
    edit_stack undo, redo;
    unsigned group;
    char *clip;
    size_t clip_len;
} editor;

typedef void (*editor_command)(editor *ed);

int textedit_selftest(void);

/* ---- gap buffer ---- */

static size_t gap_size(const gap_buffer *b) { return b->gap_end - b->gap_start; }
static size_t text_len(const gap_buffer *b) { return b->cap - gap_size(b); }
static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static char char_at(const gap_buffer *b, size_t i) { return b->data[i < b->gap_start ? i : i + gap_size(b)]; }

static void move_gap(gap_buffer *b, size_t to) {
    if (to < b->gap_start) {
        size_t n = b->gap_start - to;
        memmove(b->data + b->gap_end - n, b->data + to, n);
        b->gap_end -= n;
        b->gap_start = to;
    } else if (to > b->gap_start) {
        size_t n = to - b->gap_start;
        memmove(b->data + b->gap_start, b->data + b->gap_end, n);
        b->gap_start += n;
        b->gap_end += n;
    }
}

static bool grow_gap(gap_buffer *b, size_t need) {
    if (gap_size(b) >= need) return true;
    size_t cap = b->cap * 2 + need + 16, tail = b->cap - b->gap_end;
    char *data = realloc(b->data, cap);
    if (!data) return false;
    memmove(data + cap - tail, data + b->gap_end, tail);
    b->data = data;
    b->gap_end = cap - tail;
    b->cap = cap;
    return true;
}

static bool raw_insert(gap_buffer *b, size_t at, const char *text, size_t len) {
    if (!grow_gap(b, len)) return false;
    move_gap(b, at);
    memcpy(b->data + b->gap_start, text, len);
    b->gap_start += len;
    return true;
}

static void raw_delete(gap_buffer *b, size_t at, size_t len) {
    move_gap(b, at);
    b->gap_end += len;
}

static char *copy_range(const gap_buffer *b, size_t from, size_t to) {
    char *s = malloc(to - from + 1);
    if (!s) return NULL;
    for (size_t i = from; i < to; i++) s[i - from] = char_at(b, i);
    s[to - from] = '\0';
    return s;
}

static size_t line_start(const editor *ed, size_t at) {
    while (at > 0 && char_at(&ed->buf, at - 1) != '\n') at--;
    return at;
}

static size_t line_end(const editor *ed, size_t at) {
    while (at < text_len(&ed->buf) && char_at(&ed->buf, at) != '\n') at++;
    return at;
}

static size_t column_of(const editor *ed, size_t at) { return at - line_start(ed, at); }

static void move_to(editor *ed, size_t at) {
    ed->cursor = min_size(at, text_len(&ed->buf));
    ed->goal_column = column_of(ed, ed->cursor);
}

/* ---- undo ---- */

static edit *top_edit(const edit_stack *s) { return s->count ? &s->items[s->count - 1] : NULL; }

static void clear_edits(edit_stack *s) {
    while (s->count) free(s->items[--s->count].text);
}

static void free_edits(edit_stack *s) {
    clear_edits(s);
    free(s->items);
    memset(s, 0, sizeof *s);
}

static void push_edit(edit_stack *s, edit e) {
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        edit *items = realloc(s->items, cap * sizeof *items);
        if (!items) {
            free(e.text); /* the edit stands, but cannot be undone */
            return;
        }
        s->items = items;
        s->cap = cap;
    }
    s->items[s->count++] = e;
}

static edit pop_edit(edit_stack *s) { return s->items[--s->count]; }
static void begin_group(editor *ed) { ed->group++; }

/* Typing makes one undo step per word: an insertion continues the one before it up to a space. */
static bool continues(const edit *last, const edit *next) {
    return last && last->kind == EDIT_INSERT && next->kind == EDIT_INSERT && next->len == 1 && last->at + last->len == next->at &&
           !isspace((unsigned char)next->text[0]);
}

static void record(editor *ed, edit_kind kind, size_t at, size_t len, char *text) {
    edit e = {kind, at, len, text, ed->group, ed->cursor};
    const edit *last = top_edit(&ed->undo);
    if (continues(last, &e)) e.group = last->group;
    clear_edits(&ed->redo);
    push_edit(&ed->undo, e);
}

static void apply_edit(editor *ed, const edit *e, bool backwards) {
    if ((e->kind == EDIT_INSERT) != backwards) {
        raw_insert(&ed->buf, e->at, e->text, e->len);
        ed->cursor = e->at + e->len;
    } else {
        raw_delete(&ed->buf, e->at, e->len);
        ed->cursor = e->at;
    }
}

/* Moves all the edits of the newest group to the other stack. */
static void replay(editor *ed, edit_stack *from, edit_stack *to, bool backwards) {
    const edit *last = top_edit(from);
    if (!last) return;
    unsigned group = last->group;
    while (top_edit(from) && top_edit(from)->group == group) {
        edit e = pop_edit(from);
        apply_edit(ed, &e, backwards);
        if (backwards) ed->cursor = e.cursor_before;
        push_edit(to, e);
    }
    move_to(ed, ed->cursor);
    ed->selecting = false;
}

static void undo(editor *ed) { replay(ed, &ed->undo, &ed->redo, true); }
static void redo(editor *ed) { replay(ed, &ed->redo, &ed->undo, false); }

/* ---- recorded changes ---- */

static void insert_at(editor *ed, size_t at, const char *text, size_t len) {
    if (!len || !raw_insert(&ed->buf, at, text, len)) return;
    record(ed, EDIT_INSERT, at, len, copy_range(&ed->buf, at, at + len));
    move_to(ed, at + len);
}

static void delete_range(editor *ed, size_t from, size_t to) {
    if (from >= to) return;
    record(ed, EDIT_DELETE, from, to - from, copy_range(&ed->buf, from, to));
    raw_delete(&ed->buf, from, to - from);
    move_to(ed, from);
}

/* ---- selection ---- */

static size_t selection_start(const editor *ed) { return min_size(ed->anchor, ed->cursor); }
static size_t selection_end(const editor *ed) { return ed->anchor > ed->cursor ? ed->anchor : ed->cursor; }
static bool has_selection(const editor *ed) { return ed->selecting && ed->anchor != ed->cursor; }

static bool delete_selection(editor *ed) {
    bool had = has_selection(ed);
    if (had) delete_range(ed, selection_start(ed), selection_end(ed));
    ed->selecting = false;
    return had;
}

static void set_clip(editor *ed, char *text, size_t len) {
    free(ed->clip);
    ed->clip = text;
    ed->clip_len = text ? len : 0;
}

static void toggle_selection(editor *ed) {
    ed->selecting = !ed->selecting;
    ed->anchor = ed->cursor;
}

static void copy_selection(editor *ed) {
    if (!has_selection(ed)) return;
    size_t from = selection_start(ed), to = selection_end(ed);
    set_clip(ed, copy_range(&ed->buf, from, to), to - from);
}

static void cut_selection(editor *ed) {
    copy_selection(ed);
    begin_group(ed);
    delete_selection(ed);
}

void editor_insert(editor *ed, const char *text, size_t len) {
    begin_group(ed);
    delete_selection(ed);
    insert_at(ed, ed->cursor, text, len);
}

static void paste(editor *ed) { editor_insert(ed, ed->clip, ed->clip_len); }

/* ---- motion ---- */

static bool at_start(const editor *ed) { return ed->cursor == 0; }
static bool at_end(const editor *ed) { return ed->cursor >= text_len(&ed->buf); }
static char char_here(const editor *ed) { return char_at(&ed->buf, ed->cursor); }
static char char_before(const editor *ed) { return char_at(&ed->buf, ed->cursor - 1); }
static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void move_left(editor *ed) {
    if (!at_start(ed)) move_to(ed, ed->cursor - 1);
}

static void move_right(editor *ed) {
    if (!at_end(ed)) move_to(ed, ed->cursor + 1);
}

static void move_home(editor *ed) { move_to(ed, line_start(ed, ed->cursor)); }
static void move_end(editor *ed) { move_to(ed, line_end(ed, ed->cursor)); }
static void move_top(editor *ed) { move_to(ed, 0); }
static void move_bottom(editor *ed) { move_to(ed, text_len(&ed->buf)); }

/* Vertical motion keeps the goal column through shorter lines. */
static void enter_line(editor *ed, size_t start) { ed->cursor = min_size(start + ed->goal_column, line_end(ed, start)); }

static void move_up(editor *ed) {
    size_t start = line_start(ed, ed->cursor);
    if (start > 0) enter_line(ed, line_start(ed, start - 1));
}

static void move_down(editor *ed) {
    size_t end = line_end(ed, ed->cursor);
    if (end < text_len(&ed->buf)) enter_line(ed, end + 1);
}

static void word_right(editor *ed) {
    while (!at_end(ed) && !is_word(char_here(ed))) ed->cursor++;
    while (!at_end(ed) && is_word(char_here(ed))) ed->cursor++;
    move_to(ed, ed->cursor);
}

static void word_left(editor *ed) {
    while (!at_start(ed) && !is_word(char_before(ed))) ed->cursor--;
    while (!at_start(ed) && is_word(char_before(ed))) ed->cursor--;
    move_to(ed, ed->cursor);
}

/* ---- editing commands: each deletes what a motion passes over ---- */

static void delete_motion(editor *ed, editor_command motion) {
    begin_group(ed);
    if (delete_selection(ed)) return;
    size_t from = ed->cursor;
    motion(ed);
    size_t to = ed->cursor;
    ed->cursor = from; /* what undo goes back to */
    delete_range(ed, min_size(from, to), from > to ? from : to);
}

static void backspace(editor *ed) { delete_motion(ed, move_left); }
static void delete_char(editor *ed) { delete_motion(ed, move_right); }
static void delete_word(editor *ed) { delete_motion(ed, word_right); }
static void delete_word_back(editor *ed) { delete_motion(ed, word_left); }
static void kill_line(editor *ed) { delete_motion(ed, !at_end(ed) && char_here(ed) == '\n' ? move_right : move_end); }

/* A new line starts with the indentation of the one above. */
static void new_line(editor *ed) {
    size_t start = line_start(ed, ed->cursor), n = start;
    while (n < ed->cursor && char_at(&ed->buf, n) == ' ') n++;
    char *indent = copy_range(&ed->buf, start, n);
    begin_group(ed);
    delete_selection(ed);
    insert_at(ed, ed->cursor, "\n", 1);
    if (indent) insert_at(ed, ed->cursor, indent, n - start);
    free(indent);
}

static const struct {
    char key;
    editor_command run;
} commands[] = {
    {'h', move_left},   {'l', move_right},  {'k', move_up},         {'j', move_down}, {'0', move_home},        {'$', move_end},
    {'g', move_top},    {'G', move_bottom}, {'w', word_right},      {'b', word_left}, {'X', backspace},        {'x', delete_char},
    {'D', delete_word}, {'B', delete_word_back}, {'K', kill_line},  {'v', toggle_selection}, {'c', copy_selection},
    {'d', cut_selection}, {'p', paste},     {'u', undo},            {'r', redo},      {'n', new_line},
};

/* Runs a key script: command letters, and text to type between single quotes. */
bool editor_keys(editor *ed, const char *keys) {
    for (; *keys; keys++) {
        size_t i = 0, n = sizeof commands / sizeof *commands;
        if (*keys == '\'') {
            for (keys++; *keys && *keys != '\''; keys++) editor_insert(ed, keys, 1);
            if (!*keys) return false;
            continue;
        }
        while (i < n && commands[i].key != *keys) i++;
        if (i == n) return false;
        commands[i].run(ed);
    }
    return true;
}

/* ---- search ---- */

static bool same_char(char a, char b, bool ignore_case) {
    return a == b || (ignore_case && tolower((unsigned char)a) == tolower((unsigned char)b));
}

static bool matches_at(const gap_buffer *b, size_t at, const char *needle, size_t len, bool ignore_case) {
    if (at + len > text_len(b)) return false;
    for (size_t i = 0; i < len; i++)
        if (!same_char(char_at(b, at + i), needle[i], ignore_case)) return false;
    return true;
}

static size_t find_from(const editor *ed, size_t at, const char *needle, bool ignore_case) {
    size_t len = strlen(needle);
    for (; at + len <= text_len(&ed->buf); at++)
        if (matches_at(&ed->buf, at, needle, len, ignore_case)) return at;
    return SIZE_MAX;
}

/* Searches behind the cursor, then from the top; the match becomes the selection. */
bool editor_find(editor *ed, const char *needle, bool ignore_case) {
    size_t at = find_from(ed, ed->cursor, needle, ignore_case);
    if (at == SIZE_MAX) at = find_from(ed, 0, needle, ignore_case);
    if (at == SIZE_MAX || !*needle) return false;
    ed->anchor = at;
    ed->selecting = true;
    move_to(ed, at + strlen(needle));
    return true;
}

size_t editor_replace_all(editor *ed, const char *from, const char *to) {
    size_t n = 0, at = 0;
    begin_group(ed); /* one undo takes all of them back */
    while (*from && (at = find_from(ed, at, from, false)) != SIZE_MAX) {
        delete_range(ed, at, at + strlen(from));
        insert_at(ed, at, to, strlen(to));
        at += strlen(to);
        n++;
    }
    return n;
}

void editor_position(const editor *ed, size_t *line, size_t *column) {
    *line = 1;
    for (size_t i = 0; i < ed->cursor; i++) *line += char_at(&ed->buf, i) == '\n';
    *column = column_of(ed, ed->cursor) + 1;
}

void editor_goto(editor *ed, size_t line, size_t column) {
    size_t at = 0;
    for (; line > 1 && line_end(ed, at) < text_len(&ed->buf); line--) at = line_end(ed, at) + 1;
    move_to(ed, min_size(at + column - 1, line_end(ed, at)));
}

void editor_init(editor *ed) { memset(ed, 0, sizeof *ed); }

void editor_free(editor *ed) {
    free_edits(&ed->undo);
    free_edits(&ed->redo);
    free(ed->buf.data);
    set_clip(ed, NULL, 0);
    editor_init(ed);
}

char *editor_text(const editor *ed) { return copy_range(&ed->buf, 0, text_len(&ed->buf)); }

/* ---- self test ---- */

static bool text_is(const editor *ed, const char *want) {
    char *text = editor_text(ed);
    bool ok = text && strcmp(text, want) == 0;
    free(text);
    return ok;
}

static bool after_keys(editor *ed, const char *keys, const char *want) { return editor_keys(ed, keys) && text_is(ed, want); }

int textedit_selftest(void) {
    editor ed;
    size_t line, column;
    int error = 0;
    editor_init(&ed);
    if (!after_keys(&ed, "'hello big world'bbXDx", "helloworld")) error = 1;
    if (!after_keys(&ed, "uuu", "hello big world") || !after_keys(&ed, "u", "hello big") || !after_keys(&ed, "rrr", "hello world")) error = 2;
    if (!after_keys(&ed, "gKK'  one'n'two'n'three'", "  one\n  two\n  three")) error = 3;
    editor_position(&ed, &line, &column);
    if (line != 3 || column != 8 || !after_keys(&ed, "k'!'", "  one\n  two!\n  three")) error = 4;
    if (!after_keys(&ed, "g$v0cvj$p", "  one\n  two!  one\n  three") || !after_keys(&ed, "gvjdGp", "  two!  one\n  three  one\n")) error = 5;
    if (editor_replace_all(&ed, "one", "1") != 2 || !text_is(&ed, "  two!  1\n  three  1\n") || !after_keys(&ed, "u", "  two!  one\n  three  one\n")) error = 6;
    editor_goto(&ed, 2, 3);
    if (!editor_find(&ed, "ONE", true) || !after_keys(&ed, "'x'BB", "  two!  one\n  \n")) error = 7;
    if (editor_find(&ed, "zzz", true) || editor_keys(&ed, "?")) error = 8;
    editor_free(&ed);
    return error;
}
