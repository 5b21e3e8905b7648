/* What is preloaded into every program of a build that is recorded: where one starts a compiler by its path, or finds
 * one on a PATH of its own, it starts the recorder with that path instead, which runs the compiler and looks at what it
 * was given. Programs that are linked statically, or that clear their environment, pass it by.
 *
 * It stands alone: no header and no library but libdl, so that the bundled compiler makes it without building anything.
 * Nothing here allocates, since a child of vfork may call it. */

typedef __SIZE_TYPE__ size_t;
typedef int spawn_function(int *, const char *, const void *, const void *, char *const *, char *const *);
typedef int exec_function(const char *, char *const *, char *const *);

extern char **environ;
extern void *dlsym(void *, const char *);
extern int access(const char *, int);

#define NEXT ((void *)-1l)
#define EXECUTABLE 1
#define PATH_SIZE 4096
#define EXPORT __attribute__((visibility("default")))

static size_t length(const char *text) {
  size_t n = 0;
  while (text[n])
    n++;
  return n;
}

static int starts_with(const char *text, const char *beginning) {
  while (*beginning)
    if (*text++ != *beginning++)
      return 0;
  return 1;
}

static int equal(const char *text, size_t size, const char *other) {
  return length(other) == size && starts_with(text, other);
}

static const char *variable(char *const *environment, const char *name) {
  for (; environment && *environment; environment++)
    if (starts_with(*environment, name) && (*environment)[length(name)] == '=')
      return *environment + length(name) + 1;
  return 0;
}

/* Whether a file is called like a compiler or its cache: cc, x86_64-linux-gnu-gcc-12, clang++-19, ccache. */
static int is_compiler(const char *path) {
  static const char *const names[] = {"cc",  "gcc", "clang",  "c++",     "g++", "clang++",
                                      "c99", "c11", "ccache", "sccache", 0};
  const char *name = path, *end = path + length(path), *core;
  for (const char *at = path; *at; at++)
    if (*at == '/')
      name = at + 1;
  const char *digits = end;
  while (digits > name && ((digits[-1] >= '0' && digits[-1] <= '9') || digits[-1] == '.'))
    digits--;
  if (digits < end && digits > name && digits[-1] == '-')
    end = digits - 1;
  for (core = end; core > name && core[-1] != '-'; core--)
    ;
  for (const char *const *each = names; *each; each++)
    if (equal(core, (size_t)(end - core), *each))
      return 1;
  return 0;
}

static int has_slash(const char *file) {
  for (; *file; file++)
    if (*file == '/')
      return 1;
  return 0;
}

/* The first program called so on PATH, or nothing. */
static const char *search(const char *file, char *found) {
  const char *folder = variable(environ, "PATH");
  size_t size = length(file);
  while (folder) {
    size_t n = 0;
    while (folder[n] && folder[n] != ':')
      n++;
    if (n && n + size + 2 < PATH_SIZE) {
      size_t at = 0;
      for (; at < n; at++)
        found[at] = folder[at];
      found[at++] = '/';
      for (size_t i = 0; i <= size; i++)
        found[at + i] = file[i];
      if (!access(found, EXECUTABLE))
        return found;
    }
    folder = folder[n] ? folder + n + 1 : 0;
  }
  return 0;
}

/* The recorder, where it is to stand in for a program; else nothing. */
static const char *stand_in(const char *path, char *const *environment) {
  const char *shims = variable(environment, "MLGO_SHIMS"), *recorder = variable(environment, "MLGO_BY_PATH");
  const char *unchanged = variable(environment, "MLGO_UNCHANGED");
  if (!path || !shims || !recorder || !variable(environment, "MLGO_RECORD") || !is_compiler(path))
    return 0;
  if (unchanged && equal(path, length(path), unchanged))
    return 0;
  if (starts_with(path, shims) && path[length(shims)] == '/')
    return 0;
  return access(path, EXECUTABLE) ? 0 : recorder;
}

static size_t count(char *const *arguments) {
  size_t n = 0;
  while (arguments && arguments[n])
    n++;
  return n;
}

/* The recorder's arguments: its name, the compiler's path, and what the compiler is given. */
static void fill(char **words, const char *recorder, const char *path, char *const *arguments) {
  size_t n = count(arguments);
  words[0] = (char *)recorder;
  words[1] = (char *)path;
  for (size_t i = 1; i < n; i++)
    words[i + 1] = arguments[i];
  words[n < 1 ? 2 : n + 1] = 0;
}

static int execute(const char *path, char *const *arguments, char *const *environment) {
  exec_function *next = (exec_function *)dlsym(NEXT, "execve");
  const char *recorder = stand_in(path, environment);
  if (!recorder)
    return next(path, arguments, environment);
  char *words[count(arguments) + 3];
  fill(words, recorder, path, arguments);
  return next(recorder, words, environment);
}

static int execute_found(const char *file, char *const *arguments, char *const *environment) {
  char found[PATH_SIZE];
  if (is_compiler(file)) {
    const char *path = has_slash(file) ? file : search(file, found);
    if (path && stand_in(path, environment))
      return execute(path, arguments, environment);
  }
  /* The loops of execvp over PATH, and its shell for scripts without a first line, stay the library's own. */
  if (environment == environ)
    return ((int (*)(const char *, char *const *))dlsym(NEXT, "execvp"))(file, arguments);
  return ((exec_function *)dlsym(NEXT, "execvpe"))(file, arguments, environment);
}

EXPORT int execve(const char *path, char *const *arguments, char *const *environment) {
  return execute(path, arguments, environment);
}

EXPORT int execv(const char *path, char *const *arguments) { return execute(path, arguments, environ); }

EXPORT int execvp(const char *file, char *const *arguments) { return execute_found(file, arguments, environ); }

EXPORT int execvpe(const char *file, char *const *arguments, char *const *environment) {
  return execute_found(file, arguments, environment);
}

#define COLLECT(first)                                                                                                \
  size_t n = 1;                                                                                                       \
  __builtin_va_list list;                                                                                             \
  __builtin_va_start(list, first);                                                                                    \
  while (__builtin_va_arg(list, char *))                                                                              \
    n++;                                                                                                              \
  __builtin_va_end(list);                                                                                             \
  char *arguments[n + 1];                                                                                             \
  arguments[0] = (char *)first;                                                                                       \
  __builtin_va_start(list, first);                                                                                    \
  for (size_t i = 1; i <= n; i++)                                                                                     \
    arguments[i] = __builtin_va_arg(list, char *);

EXPORT int execl(const char *path, const char *first, ...) {
  COLLECT(first)
  __builtin_va_end(list);
  return execute(path, arguments, environ);
}

EXPORT int execlp(const char *file, const char *first, ...) {
  COLLECT(first)
  __builtin_va_end(list);
  return execute_found(file, arguments, environ);
}

EXPORT int execle(const char *path, const char *first, ...) {
  COLLECT(first)
  char *const *environment = __builtin_va_arg(list, char *const *);
  __builtin_va_end(list);
  return execute(path, arguments, environment);
}

EXPORT int posix_spawn(int *process, const char *path, const void *actions, const void *attributes,
                       char *const *arguments, char *const *environment) {
  spawn_function *next = (spawn_function *)dlsym(NEXT, "posix_spawn");
  const char *recorder = stand_in(path, environment ? environment : environ);
  if (!recorder)
    return next(process, path, actions, attributes, arguments, environment);
  char *words[count(arguments) + 3];
  fill(words, recorder, path, arguments);
  return next(process, recorder, actions, attributes, words, environment);
}

EXPORT int posix_spawnp(int *process, const char *file, const void *actions, const void *attributes,
                        char *const *arguments, char *const *environment) {
  char found[PATH_SIZE];
  if (is_compiler(file)) {
    const char *path = has_slash(file) ? file : search(file, found);
    if (path && stand_in(path, environment ? environment : environ))
      return posix_spawn(process, path, actions, attributes, arguments, environment);
  }
  return ((spawn_function *)dlsym(NEXT, "posix_spawnp"))(process, file, actions, attributes, arguments, environment);
}
