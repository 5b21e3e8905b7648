/* Runs a program and writes to a file: its wait status, instructions in user mode (-1 without a hardware counter), wall
   time in nanoseconds and maximum memory in KiB. Arguments: the file, the program, its arguments. */

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int count, char **words) {
  if (count < 3)
    return 2;
  struct perf_event_attr event;
  memset(&event, 0, sizeof event);
  event.type = PERF_TYPE_HARDWARE;
  event.config = PERF_COUNT_HW_INSTRUCTIONS;
  event.size = sizeof event;
  event.disabled = 1;
  event.enable_on_exec = 1;
  event.inherit = 1;
  event.exclude_kernel = 1;
  event.exclude_hv = 1;

  int start[2];
  if (pipe(start))
    return 2;
  pid_t child = fork();
  if (child < 0)
    return 2;
  if (child == 0) {
    /* The counter must exist before the program does. */
    char byte;
    close(start[1]);
    if (read(start[0], &byte, 1) != 1)
      _exit(127);
    close(start[0]);
    execv(words[2], words + 2);
    _exit(127);
  }
  close(start[0]);
  int counter = (int)syscall(SYS_perf_event_open, &event, child, -1, -1, PERF_FLAG_FD_CLOEXEC);
  long long began = now();
  if (write(start[1], "x", 1) != 1)
    return 2;
  close(start[1]);

  int status;
  struct rusage usage;
  if (wait4(child, &status, 0, &usage) != child)
    return 2;
  long long time = now() - began, instructions = -1;
  if (counter < 0 || read(counter, &instructions, sizeof instructions) != sizeof instructions)
    instructions = -1;
  FILE *file = fopen(words[1], "w");
  if (!file)
    return 2;
  fprintf(file, "%d %lld %lld %ld\n", status, instructions, time, usage.ru_maxrss);
  return fclose(file) ? 2 : 0;
}
