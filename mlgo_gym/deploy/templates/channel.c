// The channel of one compile: reads the observations that clang writes, and writes the decisions of a policy.
//
// `mlgo_clang.native` reads the header of the channel, and this code the rest. Callee features follow an observation.

int poll(void *, unsigned long, int);
long read(int, void *, mlgo_size);
long pread(int, void *, mlgo_size, long);
long write(int, const void *, mlgo_size);
int close(int);
int openat(int, const char *, int, ...);
int unlinkat(int, const char *, int);
int ftruncate(int, long);
void *fdopendir(int);
void rewinddir(void *);
void *readdir(void *);
void qsort(void *, mlgo_size, mlgo_size, int (*)(const void *, const void *));
int *__errno_location(void);

enum { INTERRUPTED = 4, NOT_READY = 11 }; // errno
enum { QUIET, OTHERS, ENDED, UNREAD_ADVICE, NO_OBSERVATION, NO_CONTEXT, FAILED };
enum { NAME_OFFSET = 19 }; // of the name in a 64-bit `struct dirent`, in glibc and musl
enum { LARGEST_FILE = 1 << 22 };

typedef struct { int descriptor; short events, found; } Polled;
typedef struct { long long pass; int name; } Dump;

typedef struct {
  int log, advice, count;
  long long size;
  const int *offsets;
  ARRAY(char) data;
  // With callee features: clang's standard error, and the folder in which it prints code, or none.
  Prediction *prediction;
  int messages;
  long position;
  void *folder;
  int folder_descriptor;
  ARRAY(char) text;
  ARRAY(char) dump_names;
  ARRAY(Dump) dumps;
  ARRAY(char) answers;
} Channel;

static int by_pass(const void *a, const void *b) {
  long long x = ((const Dump *)a)->pass, y = ((const Dump *)b)->pass;
  return (x > y) - (x < y);
}

// Read a file to its end, from `*position`; return 0 if that fails.
static int read_text(Channel *c, int descriptor, long *position) {
  c->text.count = 0;
  for (;;) {
    ROOM(c->text, 1 << 16);
    long size = pread(descriptor, c->text.at + c->text.count, 1 << 16, *position);
    if (size < 0) return 0;
    c->text.count += (int)size, *position += size;
    if (size < 1 << 16) return 1;
  }
}

// Read standard error, which is complete, since clang waits; a file in append mode can be truncated.
static int read_messages(Channel *c) {
  if (!read_text(c, c->messages, &c->position)) return 0;
  mlgo_prediction_read(c->prediction, c->text.at, c->text.count);
  if (c->position < LARGEST_FILE) return 1;
  c->position = 0;
  return !ftruncate(c->messages, 0);
}

// Read and remove the code that clang has printed, one file per pass, whose name starts with the number of the pass.
static int read_dumps(Channel *c) {
  c->dumps.count = c->dump_names.count = 0;
  rewinddir(c->folder);
  for (char *entry; (entry = readdir(c->folder));) {
    const char *name = entry + NAME_OFFSET;
    Dump dump = {0, c->dump_names.count};
    if (*name < '0' || *name > '9') continue;
    for (const char *digit = name; *digit >= '0' && *digit <= '9'; ++digit) dump.pass = dump.pass * 10 + *digit - '0';
    APPEND(c->dumps, dump);
    do APPEND(c->dump_names, *name);
    while (*name++);
  }
  if (c->dumps.count > 1) qsort(c->dumps.at, c->dumps.count, sizeof(Dump), by_pass);
  for (int i = 0; i < c->dumps.count; ++i) {
    const char *name = c->dump_names.at + c->dumps.at[i].name;
    long position = 0;
    int file = openat(c->folder_descriptor, name, 0);
    if (file < 0) return 0;
    int complete = read_text(c, file, &position);
    close(file);
    mlgo_prediction_read(c->prediction, c->text.at, c->text.count);
    if (!complete || unlinkat(c->folder_descriptor, name, 0)) return 0;
  }
  return 1;
}

static int answer(Channel *c, char *observation) {
  if (c->prediction) {
    if (!read_messages(c) || (c->folder && !read_dumps(c))) return FAILED;
    float features[MLGO_CALLEE_FEATURES];
    if (!mlgo_prediction_features(c->prediction, observation, features)) return NO_CONTEXT;
    c->text.count = 0;
    ROOM(c->text, (int)c->size + (int)sizeof features);
    memcpy(c->text.at, observation, c->size);
    memcpy(c->text.at + c->size, features, sizeof features);
    observation = c->text.at;
  }
  long long advice = mlgo_decide(observation, 0, c->offsets);
  if (c->prediction) mlgo_prediction_answer(c->prediction, advice != 0);
  if (write(c->advice, &advice, sizeof advice) != sizeof advice) return UNREAD_ADVICE;
  APPEND(c->answers, (char)('0' + (advice != 0)));
  return QUIET;
}

// Answer the complete observations, and keep the rest.
static int answer_all(Channel *c) {
  char *at = c->data.at, *end = at + c->data.count, *newline;
  while (at < end && (newline = memchr(at, '\n', end - at))) {
    char *after = newline + 1 + c->size;
    if (same(at, (int)(end - at), LITERAL("{\"context\""))) {
      at = newline + 1;
      continue;
    }
    if (after >= end) break;
    if (!same(at, (int)(end - at), LITERAL("{\"observation\"")) || *after != '\n') return NO_OBSERVATION;
    int status = answer(c, newline + 1);
    if (status != QUIET) return status;
    at = after + 1;
  }
  c->data.count = (int)(end - at);
  memmove(c->data.at, at, c->data.count);
  return QUIET;
}

// Return a channel with these descriptors; `data` follows the header, whose observations have `size` bytes.
Channel *mlgo_channel(int log, int advice, long long size, const int *offsets, const char *data, long long length) {
  int room = 0;
  Channel *c = reserve(0, 1, &room, sizeof(Channel));
  *c = (Channel){.log = log, .advice = advice, .size = size, .offsets = offsets};
  ROOM(c->data, (int)length);
  memcpy(c->data.at, data, length);
  c->data.count = (int)length;
  return c;
}

// Compute callee features from the file of clang's standard error, and from a folder of printed code unless it is -1.
int mlgo_channel_predict(Channel *c, Prediction *prediction, int messages, int folder) {
  c->prediction = prediction;
  c->messages = messages;
  c->folder_descriptor = folder;
  return folder < 0 || (c->folder = fdopendir(folder));
}

// Answer until clang closes the channel, another descriptor is readable, or nothing happens for some milliseconds.
int mlgo_channel_serve(Channel *c, const int *others, int count, int milliseconds) {
  Polled polled[8] = {{c->log, 1, 0}};
  for (int i = 0; i < count; ++i) polled[i + 1] = (Polled){others[i], 1, 0};
  for (;;) {
    int status = answer_all(c);
    if (status != QUIET) return status;
    int ready = poll(polled, 1 + (unsigned)count, milliseconds);
    if (ready < 0) return *__errno_location() == INTERRUPTED ? OTHERS : FAILED;
    if (!ready) return QUIET;
    if (!polled[0].found) return OTHERS;
    ROOM(c->data, 1 << 16);
    long size = read(c->log, c->data.at + c->data.count, 1 << 16);
    if (!size) return ENDED;
    if (size < 0 && *__errno_location() != NOT_READY) return FAILED;
    if (size > 0) c->data.count += (int)size;
  }
}

// Read the rest of standard error; return the length of clang's other output, negative if that fails. A channel without
// callee features reads no standard error.
long long mlgo_channel_others(Channel *c, const char **text) {
  *text = 0;
  if (!c->prediction) return 0;
  if (!read_text(c, c->messages, &c->position)) return -1;
  if (c->text.count && c->text.at[c->text.count - 1] != '\n') APPEND(c->text, '\n');
  mlgo_prediction_read(c->prediction, c->text.at, c->text.count);
  return mlgo_prediction_others(c->prediction, text);
}

// Return the number of decisions, each a character of the text.
long long mlgo_channel_answers(const Channel *c, const char **text) {
  *text = c->answers.at;
  return c->answers.count;
}
