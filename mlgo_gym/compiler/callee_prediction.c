// Site, callee and callee features of the inlining decisions of one compile, from the text that clang prints.
//
// clang names a callee only in its remark after the decision. But it prints each function of a component before it
// inlines into it, and processes the calls in the order of that text. The calls of an inlined body are appended, the
// last one first (llvm/lib/Transforms/IPO/Inliner.cpp). So the next callee can be predicted, and each remark corrects a
// wrong prediction. Of the decisions of seven modules, 98 % were predicted correctly.
//
// mlgo_gym.compiler.inlining_output calls it, and so does the channel of mlgo-clang. All state is in arrays of numbers,
// so a copy of the arrays is a copy of the state. The code needs no header, as a machine without a C library's headers
// can compile it.

typedef __SIZE_TYPE__ mlgo_size;
void *realloc(void *, mlgo_size);
void free(void *);
void abort(void);
void *memcpy(void *, const void *, mlgo_size);
void *memmove(void *, const void *, mlgo_size);
int memcmp(const void *, const void *, mlgo_size);
void *memchr(const void *, int, mlgo_size);
void *memmem(const void *, mlgo_size, const void *, mlgo_size);

enum { INTERNAL, DISCARDABLE, WEAK, AVAILABLE, EXTERNAL };
enum { MLGO_CALLEE_FEATURES = 23 };

#define ARRAY(type) struct { type *at; int count, room; }
#define ROOM(array, more) ((array).at = reserve((array).at, (array).count + (more), &(array).room, sizeof *(array).at))
#define APPEND(array, ...) (ROOM(array, 1), (array).at[(array).count++] = (__VA_ARGS__))
#define LITERAL(text) text, (int)sizeof(text) - 1

static void *reserve(void *at, int needed, int *room, mlgo_size size) {
  if (needed <= *room) return at;
  *room = needed + needed / 2 + 64;
  if (!(at = realloc(at, *room * size))) abort();
  return at;
}

// A function or a context. The facts are those of the code that clang printed first; -1 means unknown.
typedef struct {
  int text, length;
  unsigned hash;
  int linkage, unnamed, comdat, instructions, calls, requested;
  int blocks;           // basic blocks of the function as last known; UNKNOWN_BLOCKS, or CHANGED_BLOCKS
  int body, body_count; // callees of the calls that its body has kept
  int visits;
  int called[2], within[2]; // decisions to keep [0] and to inline [1]: calls of it, and calls in it
  int copies, references;    // link facts; -1 means not in them
} Name;

typedef struct { int context, callee, count[2]; } Pair;
// A call that the inliner will process or has processed: its functions, the last of the inlined functions that it comes
// from (-1 for none), the number of earlier direct calls in the code that it comes from (-1 if unknown), the
// index of its line in the text that was read, whether it was inlined, and the calls of the inlined code.
typedef struct { int callee, caller, history, position, line, inlined, inner, inner_count; } Call;
typedef struct { int callee, previous; } History;
typedef struct { int function, first, count; } Root;

enum { UNKNOWN_BLOCKS = -1, CHANGED_BLOCKS = -2 };
enum { OUTSIDE, LATER_VISIT, FIRST_VISIT, LEFT }; // of a line: the function that it belongs to

#define ARRAYS(DO) \
  DO(text) DO(names) DO(name_table) DO(pairs) DO(pair_table) DO(bodies) DO(calls) DO(histories) DO(roots) DO(queue) \
  DO(callees) DO(numbers) DO(offsets) DO(others)

typedef struct {
  ARRAY(char) text;
  ARRAY(Name) names;
  ARRAY(int) name_table;
  ARRAY(Pair) pairs;
  ARRAY(int) pair_table;
  ARRAY(int) bodies;
  // The component of the call graph that the inliner visits.
  ARRAY(Call) calls;
  ARRAY(History) histories;
  ARRAY(Root) roots;
  ARRAY(int) queue;
  int next, component;
  // Whether the code that the inliner leaves is followed too, by which fewer calls are expected.
  int follows_code;
  ARRAY(int) callees; // of the earlier decisions
  // The site of the decision: context, its first function, number of functions, visit, index.
  int context, caller, functions, visit, index;
  int made, predicted;
  // The pending decision, until its remark was read: the features as clang prints them, then without the last.
  int pending, pending_blocks, pending_context, inlined, digits[2];
  // The last decision after its remark: caller and callee, -1 if unknown, and its component.
  int decided_caller, decided_callee, decided_component;
  // The line that is read: whether it belongs to code, to a function in it, and whether that may be inlined.
  int in_code, within, requested;
  // The function that is read: whether the inliner has left it, its name, first call in `bodies`, blocks, first line.
  int left, function, body, function_blocks, at_start, line;
  ARRAY(char) numbers;
  ARRAY(int) offsets;
  int blocks, users, nodes;
  int least; // link facts of a function that they do not contain: 0, or -1 if they cover the module, and without facts
  // Other output of clang.
  ARRAY(char) others;
} Prediction;

static int same(const char *text, int length, const char *expected, int size) {
  return length >= size && !memcmp(text, expected, size);
}

static int ends(const char *text, int length, const char *expected, int size) {
  return length >= size && !memcmp(text + length - size, expected, size);
}

static const char *find(const char *text, int length, const char *wanted, int size) {
  return memmem(text, length, wanted, size);
}

static unsigned slot_of(unsigned hash, int room) { return (hash * 2654435769u) & (unsigned)(room - 1); }

static int intern(Prediction *p, const char *text, int length) {
  unsigned hash = 2166136261u;
  for (int i = 0; i < length; ++i) hash = (hash ^ (unsigned char)text[i]) * 16777619u;
  if (p->names.count * 2 >= p->name_table.count) {
    int room = p->name_table.count ? 2 * p->name_table.count : 1024;
    p->name_table.count = 0;
    ROOM(p->name_table, room);
    p->name_table.count = room;
    for (int i = 0; i < room; ++i) p->name_table.at[i] = -1;
    for (int i = 0; i < p->names.count; ++i) {
      unsigned slot = slot_of(p->names.at[i].hash, room);
      while (p->name_table.at[slot] >= 0) slot = (slot + 1) & (unsigned)(room - 1);
      p->name_table.at[slot] = i;
    }
  }
  unsigned slot = slot_of(hash, p->name_table.count);
  for (int i; (i = p->name_table.at[slot]) >= 0; slot = (slot + 1) & (unsigned)(p->name_table.count - 1)) {
    const Name *name = &p->names.at[i];
    if (name->hash == hash && name->length == length && !memcmp(p->text.at + name->text, text, length)) return i;
  }
  Name name = {p->text.count, length, hash, -1, -1, -1, -1, -1, -1, UNKNOWN_BLOCKS, 0, 0, 0, {0}, {0}, -1, -1};
  ROOM(p->text, length);
  memcpy(p->text.at + p->text.count, text, length);
  p->text.count += length;
  p->name_table.at[slot] = p->names.count;
  APPEND(p->names, name);
  return p->names.count - 1;
}

static int *pair_of(Prediction *p, int context, int callee) {
  if (p->pairs.count * 2 >= p->pair_table.count) {
    int room = p->pair_table.count ? 2 * p->pair_table.count : 1024;
    p->pair_table.count = 0;
    ROOM(p->pair_table, room);
    p->pair_table.count = room;
    for (int i = 0; i < room; ++i) p->pair_table.at[i] = -1;
    for (int i = 0; i < p->pairs.count; ++i) {
      unsigned slot = slot_of((unsigned)p->pairs.at[i].context * 31u + (unsigned)p->pairs.at[i].callee, room);
      while (p->pair_table.at[slot] >= 0) slot = (slot + 1) & (unsigned)(room - 1);
      p->pair_table.at[slot] = i;
    }
  }
  unsigned slot = slot_of((unsigned)context * 31u + (unsigned)callee, p->pair_table.count);
  for (int i; (i = p->pair_table.at[slot]) >= 0; slot = (slot + 1) & (unsigned)(p->pair_table.count - 1))
    if (p->pairs.at[i].context == context && p->pairs.at[i].callee == callee) return p->pairs.at[i].count;
  p->pair_table.at[slot] = p->pairs.count;
  APPEND(p->pairs, (Pair){context, callee, {0, 0}});
  return p->pairs.at[p->pairs.count - 1].count;
}

// ---- the queue of calls ---------------------------------------------------------------------------------------------

static void keep_remaining(Prediction *p, int first, int count) {
  for (int i = first; i < first + count; ++i) {
    Call call = p->calls.at[i];
    if (call.inlined) keep_remaining(p, call.inner, call.inner_count);
    else APPEND(p->bodies, call.callee);
  }
}

static void begin_component(Prediction *p) {
  for (int i = 0; i < p->roots.count; ++i) {
    Root root = p->roots.at[i];
    if (root.function < 0) continue;
    int body = p->bodies.count;
    keep_remaining(p, root.first, root.count);
    p->names.at[root.function].body = body;
    p->names.at[root.function].body_count = p->bodies.count - body;
  }
  p->roots.count = p->calls.count = p->histories.count = p->queue.count = p->next = 0;
  ++p->component;
}

static int is_recursive(const Prediction *p, const Call *call) {
  if (call->callee == call->caller) return 1;
  for (int i = call->history; i >= 0; i = p->histories.at[i].previous)
    if (p->histories.at[i].callee == call->callee) return 1;
  return 0;
}

// Return the next possible call of the pending decision in the queue, whose callee has its number of basic blocks
// unless `any` is set; the length of the queue if there is none.
static int expected_call(const Prediction *p, int at, int any) {
  for (; at < p->queue.count; ++at) {
    const Call *call = &p->calls.at[p->queue.at[at]];
    const Name *function = &p->names.at[call->callee];
    if (function->requested != 1 || is_recursive(p, call)) continue;
    if (any || function->blocks == UNKNOWN_BLOCKS || function->blocks == p->pending_blocks) break;
  }
  return at;
}

static int predicted_callee(Prediction *p) {
  int at = expected_call(p, p->next, 0);
  if (at == p->queue.count) at = expected_call(p, p->next, 1);
  return at == p->queue.count ? intern(p, "", 0) : p->calls.at[p->queue.at[at]].callee;
}

static void learn(Prediction *p, int callee) {
  int position = p->next;
  p->names.at[callee].blocks = p->pending_blocks;
  while (position < p->queue.count && p->calls.at[p->queue.at[position]].callee != callee) ++position;
  if (position == p->queue.count) {
    int caller = p->next ? p->calls.at[p->queue.at[p->next - 1]].caller : intern(p, "", 0);
    position = p->next;
    APPEND(p->queue, 0);
    memmove(p->queue.at + position + 1, p->queue.at + position, (p->queue.count - 1 - position) * sizeof(int));
    p->queue.at[position] = p->calls.count;
    APPEND(p->calls, (Call){callee, caller, -1, -1, 0, 0, 0, 0});
  }
  p->next = position + 1;
  int number = p->queue.at[position], first = p->calls.count, caller = p->calls.at[number].caller;
  p->decided_caller = caller, p->decided_callee = callee, p->decided_component = p->component;
  if (!p->inlined) return;
  if (p->follows_code) p->names.at[caller].blocks = CHANGED_BLOCKS;
  Name name = p->names.at[callee];
  APPEND(p->histories, (History){callee, p->calls.at[number].history});
  for (int i = 0; i < name.body_count; ++i)
    APPEND(p->calls, (Call){p->bodies.at[name.body + i], caller, p->histories.count - 1, i, 0, 0, 0, 0});
  p->calls.at[number].inlined = 1;
  p->calls.at[number].inner = first;
  p->calls.at[number].inner_count = name.body_count;
  for (int i = name.body_count; i-- > 0;) APPEND(p->queue, first + i);
}

// Process the pending decision, whose callee clang has named; an empty name is unknown.
static void settle(Prediction *p, const char *text, int length) {
  if (!p->pending) return;
  p->pending = 0;
  int callee = intern(p, text, length);
  APPEND(p->callees, callee);
  if (length) learn(p, callee);
  ++p->made;
  ++p->names.at[callee].called[p->inlined];
  ++p->names.at[p->pending_context].within[p->inlined];
  ++pair_of(p, p->pending_context, callee)[p->inlined];
}

// ---- the lines that clang prints ------------------------------------------------------------------------------------

static int order(const char *a, int a_length, const char *b, int b_length) {
  int found = memcmp(a, b, a_length < b_length ? a_length : b_length);
  return found ? found : a_length - b_length;
}

static void read_banner(Prediction *p, const char *names, int length) {
  ARRAY(const char *) starts = {0};
  ARRAY(int) lengths = {0};
  const char *comma;
  settle(p, "", 0);
  do {
    comma = find(names, length, LITERAL(", "));
    int size = comma ? (int)(comma - names) : length, i = starts.count;
    APPEND(starts, names);
    APPEND(lengths, size);
    for (; i && order(names, size, starts.at[i - 1], lengths.at[i - 1]) < 0; --i)
      starts.at[i] = starts.at[i - 1], lengths.at[i] = lengths.at[i - 1];
    starts.at[i] = names, lengths.at[i] = size;
    names += size + 2, length -= size + 2;
  } while (comma);
  ARRAY(char) joined = {0};
  for (int i = 0; i < starts.count; ++i) {
    ROOM(joined, lengths.at[i] + 2);
    if (i) memcpy(joined.at + joined.count, ", ", 2), joined.count += 2;
    memcpy(joined.at + joined.count, starts.at[i], lengths.at[i]);
    joined.count += lengths.at[i];
  }
  p->context = intern(p, joined.at, joined.count);
  p->caller = intern(p, joined.at, lengths.at[0]);
  p->functions = starts.count;
  free(joined.at);
  free(starts.at);
  free(lengths.at);
  p->visit = p->names.at[p->context].visits++;
  p->index = -1;
  p->in_code = 1, p->within = OUTSIDE, p->requested = 1, p->left = 0;
  begin_component(p);
}

static int is_of_name(char c) {
  return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '-' || c == '.' || c == '$';
}

// Return the length of a name with the `@` before it and the quotes, if a `(` follows it, and 0 otherwise.
static int name_length(const char *text, int length) {
  int i = 1;
  if (length > 1 && text[1] == '"') {
    const char *quote = memchr(text + 2, '"', length - 2);
    if (!quote) return 0;
    i = (int)(quote - text) + 1;
  } else {
    while (i < length && is_of_name(text[i])) ++i;
    if (i == 1) return 0;
  }
  return i < length && text[i] == '(' ? i : 0;
}

static int digit_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

// Intern a name that LLVM prints: with special characters it is quoted, such as "o\22d", and has `\\` for a backslash.
static int intern_printed(Prediction *p, const char *text, int length) {
  if (*text != '"') return intern(p, text, length);
  ARRAY(char) name = {0};
  for (int i = 1; i + 1 < length; ++i) {
    int is_code = text[i] == '\\' && i + 3 < length && digit_of(text[i + 1]) >= 0 && digit_of(text[i + 2]) >= 0;
    APPEND(name, (char)(is_code ? digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]) : text[i]));
    i += is_code ? 2 : text[i] == '\\';
  }
  int number = intern(p, name.at, name.count);
  free(name.at);
  return number;
}

static int linkage_of(const char *text, int length) {
  static const struct { const char *word; int linkage; } linkages[] = {
      {"internal", INTERNAL}, {"private", INTERNAL}, {"linkonce", DISCARDABLE}, {"linkonce_odr", DISCARDABLE},
      {"weak", WEAK}, {"weak_odr", WEAK}, {"available_externally", AVAILABLE}};
  for (int start = 0, end; start < length; start = end + 1) {
    for (end = start; end < length && text[end] != ' ';) ++end;
    for (int i = 0; i < (int)(sizeof linkages / sizeof *linkages); ++i) {
      int size = 0;
      while (linkages[i].word[size]) ++size;
      if (size == end - start && !memcmp(text + start, linkages[i].word, size)) return linkages[i].linkage;
    }
  }
  return EXTERNAL;
}

static void read_definition(Prediction *p, const char *line, int length) {
  const char *at = memchr(line, '@', length);
  int size = at ? name_length(at, length - (int)(at - line)) : 0;
  p->in_code = 1;
  p->within = OUTSIDE;
  if (size > 0) {
    const char *rest = at + size + 1;
    int left = length - (int)(rest - line), number = intern_printed(p, at + 1, size - 1);
    Name *name = &p->names.at[number];
    p->within = p->left ? LEFT : LATER_VISIT;
    p->function = number, p->body = p->bodies.count, p->function_blocks = 0, p->at_start = 1;
    if (!p->left) APPEND(p->roots, (Root){number, p->calls.count, 0});
    if (!p->left && name->linkage < 0) {
      // Negative until the end of the function: later visits of the inliner do not count.
      name->linkage = linkage_of(line + 7, (int)(at - line) - 7);
      name->unnamed = !!find(rest, left, LITERAL("unnamed_addr"));
      name->comdat = !!find(rest, left, LITERAL(" comdat"));
      name->requested = p->requested;
      name->instructions = name->calls = 0;
      p->within = FIRST_VISIT;
    }
  }
  p->requested = 1;
}

static int is_label(const char *line, int length) {
  int i = 0;
  if (length && *line == '"') {
    const char *quote = memchr(line + 1, '"', length - 1);
    i = quote ? (int)(quote - line) + 1 : 0;
  } else {
    while (i < length && is_of_name(line[i])) ++i;
  }
  return i && i < length && line[i] == ':';
}

// Read a line of a function that is no instruction.
static void read_structure(Prediction *p, const char *line, int length) {
  p->function_blocks += is_label(line, length);
  if (length != 1 || *line != '}') return;
  if (p->follows_code) p->names.at[p->function].blocks = p->function_blocks;
  if (p->within == LEFT && p->follows_code) {
    p->names.at[p->function].body = p->body;
    p->names.at[p->function].body_count = p->bodies.count - p->body;
    for (int i = 0; i < p->roots.count; ++i)
      if (p->roots.at[i].function == p->function) p->roots.at[i].function = -1;
  }
  p->within = OUTSIDE;
}

static void read_instruction(Prediction *p, const char *line, int length) {
  // Debug records, or calls before LLVM 19.
  if (find(line, length, LITERAL("#dbg_")) || find(line, length, LITERAL("@llvm.dbg."))) return;
  if (p->within == LEFT && !p->follows_code) return;
  Name *name = p->within == FIRST_VISIT ? &p->names.at[p->function] : 0;
  if (name) ++name->instructions;
  if (!find(line, length, LITERAL(" call ")) && !find(line, length, LITERAL(" invoke "))) return;
  if (name) ++name->calls;
  for (const char *start = line, *end = line + length;; ++start) {
    const char *call = find(start, (int)(end - start), LITERAL("call "));
    const char *invoke = find(start, (int)(end - start), LITERAL("invoke "));
    start = !call || (invoke && invoke < call) ? invoke : call;
    if (!start) return;
    const char *at = memchr(start, '@', end - start);
    int size = at ? name_length(at, (int)(end - at)) : 0;
    if (!size) continue;
    int callee = intern_printed(p, at + 1, size - 1);
    if (p->within == LEFT) {
      APPEND(p->bodies, callee);
      return;
    }
    int position = p->roots.at[p->roots.count - 1].count++;
    APPEND(p->calls, (Call){callee, p->function, -1, position, p->line, 0, 0, 0});
    APPEND(p->queue, p->calls.count - 1);
    return;
  }
}

// Return the length of a location `FILE:LINE:COLUMN: ` at the start of a text, 0 without one.
static int location_length(const char *text, int length) {
  for (int i = 0; i < length; ++i) {
    int end = i;
    for (int part = 0; part < 2 && end >= 0; ++part) {
      int digits = end + 1;
      if (end >= length || text[end] != ':') { end = -1; break; }
      while (digits < length && text[digits] >= '0' && text[digits] <= '9') ++digits;
      end = digits > end + 1 ? digits : -1;
    }
    if (end >= 0 && end + 1 < length && text[end] == ':' && text[end + 1] == ' ') return end + 2;
  }
  return 0;
}

// Read a remark without its location; clang prints the features directly after the name of the callee.
static void read_remark(Prediction *p, const char *text, int length) {
  for (int missed = 0; missed < 2; ++missed) {
    int size = missed ? (int)sizeof(" [-Rpass-missed=inline-ml]") - 1 : (int)sizeof(" [-Rpass=inline-ml]") - 1;
    if (!ends(text, length, missed ? " [-Rpass-missed=inline-ml]" : " [-Rpass=inline-ml]", size)) continue;
    length -= size;
    if (ends(text, length, LITERAL("true"))) length -= 4;
    else if (ends(text, length, LITERAL("false"))) length -= 5;
    else return;
    int location = location_length(text, length);
    text += location, length -= location;
    for (int last = 1; last >= 0 && p->pending; --last)
      if (length > p->digits[last] && ends(text, length, p->numbers.at, p->digits[last]))
        settle(p, text, length - p->digits[last]);
    return;
  }
}

static void read_line(Prediction *p, const char *line, int length) {
  if (p->within && p->at_start) {
    // The first block may have no label.
    p->function_blocks = !is_label(line, length);
    p->at_start = 0;
  }
  if (p->within && same(line, length, LITERAL("  "))) {
    read_instruction(p, line, length);
    return;
  }
  const char *banner = line;
  int left = length;
  if (same(line, length, LITERAL("; "))) banner += 2, left -= 2;
  if (same(banner, left, LITERAL("*** IR Dump Before InlinerPass on ("))) {
    const char *names = banner + 35, *end = find(names, left - 35, LITERAL(") ***"));
    if (end) read_banner(p, names, (int)(end - names));
    return;
  }
  if (same(banner, left, LITERAL("*** IR Dump Before CoroSplitPass on ("))) {
    p->in_code = p->left = p->requested = 1, p->within = OUTSIDE;
    return;
  }
  if (same(line, length, LITERAL("define "))) {
    read_definition(p, line, length);
    return;
  }
  if (p->within) {
    read_structure(p, line, length);
    return;
  }
  if (same(line, length, LITERAL("; Function Attrs: "))) {
    p->requested = !find(line, length, LITERAL("noinline")) && !find(line, length, LITERAL("alwaysinline")) &&
                   !find(line, length, LITERAL("optnone"));
    return;
  }
  if (p->in_code && (!length || *line == ';')) return;
  p->in_code = 0;
  const char *remark = find(line, length, LITERAL("remark: "));
  if (remark && ends(line, length, LITERAL("=inline-ml]"))) {
    read_remark(p, remark + 8, length - 8 - (int)(remark - line));
    return;
  }
  ROOM(p->others, length + 1);
  memcpy(p->others.at + p->others.count, line, length);
  p->others.at[p->others.count + length] = '\n';
  p->others.count += length + 1;
}

// ---- the interface --------------------------------------------------------------------------------------------------

// Start a compile.
Prediction *mlgo_prediction_start(int follows_code) {
  int room = 0;
  Prediction *p = reserve(0, 1, &room, sizeof(Prediction));
  *p = (Prediction){.context = -1, .index = -1, .least = -1, .decided_caller = -1, .follows_code = follows_code};
  return p;
}

// Set the offsets of clang's features, int64, in an observation, and of three of them; -1 if clang lacks one.
void mlgo_prediction_layout(Prediction *p, const int *offsets, int count, int blocks, int users, int nodes) {
  p->blocks = blocks, p->users = users, p->nodes = nodes;
  p->offsets.count = 0;
  for (int i = 0; i < count; ++i) APPEND(p->offsets, offsets[i]);
}

Prediction *mlgo_prediction_copy(const Prediction *p) {
  int room = 0;
  Prediction *copy = reserve(0, 1, &room, sizeof(Prediction));
  *copy = *p;
#define COPY(array) \
  copy->array.at = 0, copy->array.room = 0; \
  copy->array.at = reserve(0, p->array.count, &copy->array.room, sizeof *copy->array.at); \
  if (p->array.count) memcpy(copy->array.at, p->array.at, p->array.count * sizeof *p->array.at);
  ARRAYS(COPY)
  return copy;
}

void mlgo_prediction_free(Prediction *p) {
#define FREE(array) free(p->array.at);
  ARRAYS(FREE)
  free(p);
}

static int read_count(const char **text, const char *end) {
  int count = 0;
  while (*text < end && **text >= '0' && **text <= '9' && count < 100000000) count = count * 10 + *(*text)++ - '0';
  if (*text < end && **text == ' ') ++*text;
  return count;
}

// Read link facts: lines `COPIES REFERENCES TWINS USE NAME`. If they cover the module, plain clang inlined every call of
// a function that they do not contain.
void mlgo_prediction_facts(Prediction *p, const char *text, long long length, int covered) {
  p->least = covered ? -1 : 0;
  for (const char *end = text + length, *newline; text < end && (newline = memchr(text, '\n', end - text));
       text = newline + 1) {
    int copies = read_count(&text, newline), references = read_count(&text, newline);
    read_count(&text, newline);
    const char *blank = memchr(text, ' ', newline - text);
    text = blank ? blank + 1 : newline;
    int number = intern(p, text, (int)(newline - text));
    p->names.at[number].copies = copies;
    p->names.at[number].references = references;
  }
}

// Read lines; without a newline at its end the last one is incomplete and ignored.
void mlgo_prediction_read(Prediction *p, const char *text, long long length) {
  p->line = 0;
  for (const char *end = text + length, *newline; text < end && (newline = memchr(text, '\n', end - text));
       text = newline + 1, ++p->line)
    read_line(p, text, (int)(newline - text));
}

static long long integer_at(const char *observation, int offset) {
  long long value = 0;
  if (offset >= 0) memcpy(&value, observation + offset, sizeof value);
  return value;
}

// Write the callee features of a decision; return 0 if clang has printed no context for it. All text has been read.
int mlgo_prediction_features(Prediction *p, const char *observation, float *features) {
  settle(p, "", 0);
  p->decided_caller = -1;
  if (p->context < 0) return 0;
  ++p->index;
  p->pending = 1;
  p->pending_context = p->context;
  p->pending_blocks = (int)integer_at(observation, p->blocks);
  p->numbers.count = 0;
  for (int i = 0; i < p->offsets.count; ++i) {
    long long value = integer_at(observation, p->offsets.at[i]);
    unsigned long long rest = value < 0 ? -(unsigned long long)value : (unsigned long long)value;
    char digits[24];
    int size = 0;
    do digits[size++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) digits[size++] = '-';
    p->digits[1] = p->numbers.count;
    ROOM(p->numbers, size);
    while (size) p->numbers.at[p->numbers.count++] = digits[--size];
  }
  p->digits[0] = p->numbers.count;
  int number = p->predicted = predicted_callee(p);
  Name callee = p->names.at[number], context = p->names.at[p->context];
  const int *pair = pair_of(p, p->context, number);
  double users = (double)integer_at(observation, p->users), nodes = (double)integer_at(observation, p->nodes);
  // Clang counts the symbol of an externally visible function as one more use.
  double uses = users - (callee.linkage != INTERNAL);
  const double found[MLGO_CALLEE_FEATURES] = {
      callee.linkage, callee.unnamed, callee.comdat, p->names.at[p->caller].linkage, callee.instructions, callee.calls,
      p->functions - 1, p->visit, p->index, callee.called[0], callee.called[1], users - callee.called[0], uses <= 1,
      context.within[1], context.within[0], pair[1], pair[0], callee.within[1], callee.within[0],
      p->made, p->made / (nodes > 1 ? nodes : 1), callee.copies < 0 ? p->least : callee.copies,
      callee.references < 0 ? p->least : callee.references};
  for (int i = 0; i < MLGO_CALLEE_FEATURES; ++i) features[i] = (float)found[i];
  return 1;
}

// Note the answer to the decision.
void mlgo_prediction_answer(Prediction *p, int inlined) { p->inlined = inlined; }

// Return clang's other output, and forget it.
long long mlgo_prediction_others(Prediction *p, const char **text) {
  int count = p->others.count;
  *text = p->others.at;
  p->others.count = 0;
  return count;
}

// Return the length of a name.
long long mlgo_prediction_name(const Prediction *p, int number, const char **text) {
  *text = p->text.at + p->names.at[number].text;
  return p->names.at[number].length;
}

// Write the site and the predicted callee of the pending decision: context, visit, index, callee.
void mlgo_prediction_site(const Prediction *p, int *site) {
  site[0] = p->context, site[1] = p->visit, site[2] = p->index, site[3] = p->predicted;
}

// Return the callees of all decisions, each empty if clang printed none, and their number. All text has been read.
long long mlgo_prediction_callees(Prediction *p, const int **callees) {
  settle(p, "", 0);
  *callees = p->callees.at;
  return p->callees.count;
}

// Write caller and callee of the last decision, whose remark was read; return 0 if they are unknown, and 2 if the
// inliner has begun another component since.
int mlgo_prediction_decided(const Prediction *p, int *call) {
  if (p->decided_caller < 0) return 0;
  call[0] = p->decided_caller, call[1] = p->decided_callee;
  return 1 + (p->decided_component != p->component);
}

// Write the next possible call of the pending decision after `at` calls of the queue: callee, caller, the function whose
// code has the call, and its position there. Return the new `at`, 0 at the end.
int mlgo_prediction_expected(const Prediction *p, int at, int *call) {
  at = expected_call(p, at < p->next ? p->next : at, 0);
  if (at == p->queue.count) return 0;
  const Call *expected = &p->calls.at[p->queue.at[at]];
  call[0] = expected->callee, call[1] = expected->caller, call[3] = expected->position;
  call[2] = expected->history < 0 ? expected->caller : p->histories.at[expected->history].callee;
  return at + 1;
}

// Forget the calls in a function that clang has removed.
void mlgo_prediction_drop(Prediction *p, const char *name, long long length) {
  int count = p->next, caller = intern(p, name, (int)length);
  for (int i = p->next; i < p->queue.count; ++i)
    if (p->calls.at[p->queue.at[i]].caller != caller) p->queue.at[count++] = p->queue.at[i];
  p->queue.count = count;
}

// Write facts of the first function in the text, and return the number of its direct calls: its name, linkage,
// instructions, blocks. -1 without a function.
int mlgo_prediction_function(const Prediction *p, int *facts) {
  if (!p->roots.count || p->roots.at->function < 0) return -1;
  const Root *root = p->roots.at;
  const Name *name = &p->names.at[root->function];
  facts[0] = root->function, facts[1] = name->linkage, facts[2] = name->instructions, facts[3] = name->blocks;
  return root->count;
}

// Write callee and index of the line of a direct call of that function.
void mlgo_prediction_call(const Prediction *p, int position, int *call) {
  const Call *found = &p->calls.at[p->roots.at->first + position];
  call[0] = found->callee, call[1] = found->line;
}
