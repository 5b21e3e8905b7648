#include "firmware.h"

/* The commands stand for those of a serial line. */
static const char *const lines[] = {"record 40", "record 200", " statistics", "store", "verify", "dump 32", "reset"};

int main(void) {
    unsigned accepted = 0;
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) accepted += (unsigned)run_command(lines[i]);
    return accepted == 6 ? 0 : 1;
}
