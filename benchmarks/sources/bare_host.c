/* The smallest host that an interactive clang can have: answers every inlining question with clang's own choice.
   bare_host BASE SIZE COMMAND... where SIZE is the number of bytes of an observation. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  char in[4096], out[4096];
  static char buffer[1 << 16];
  size_t size = (size_t)atol(argv[2]), have = 0;
  int status, seen_header = 0;
  if (argc < 4 || size + 64 > sizeof buffer) return 2;
  snprintf(in, sizeof in, "%s.in", argv[1]);
  snprintf(out, sizeof out, "%s.out", argv[1]);
  if (mkfifo(in, 0600) || mkfifo(out, 0600)) return 2;
  pid_t child = fork();
  if (child == 0) {
    execv(argv[3], argv + 3);
    _exit(127);
  }
  int advice = open(in, O_RDWR), log = open(out, O_RDONLY);
  for (;;) {
    ssize_t got = read(log, buffer + have, sizeof buffer - have);
    if (got <= 0) break;
    have += (size_t)got;
    for (;;) {
      char *end = memchr(buffer, '\n', have);
      if (!end) break;
      size_t line = (size_t)(end - buffer) + 1;
      int question = seen_header && line > 2 && buffer[2] == 'o';
      size_t all = line + (question ? size + 1 : 0);
      if (have < all) break;
      if (question && write(advice, buffer + line + size - 8, 8) != 8) return 3;
      seen_header = 1;
      memmove(buffer, buffer + all, have - all);
      have -= all;
    }
  }
  waitpid(child, &status, 0);
  unlink(in);
  unlink(out);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
