/* A plugin of qemu that writes the number of executed guest instructions to the file in its argument `out=FILE`.
   The declarations are those of qemu-plugin.h that all versions from 6 on have. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifndef PLUGIN_VERSION
#define PLUGIN_VERSION 1
#endif

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);

int qemu_plugin_version = PLUGIN_VERSION;
static uint64_t executed;
static char path[4096];

static void execute(unsigned cpu, void *instructions) {
  (void)cpu;
  executed += (uintptr_t)instructions;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_cb(block, execute, 0, (void *)qemu_plugin_tb_n_insns(block));
}

static void finish(qemu_plugin_id_t id, void *data) {
  (void)id, (void)data;
  FILE *file = fopen(path, "w");
  if (file) {
    fprintf(file, "%llu\n", (unsigned long long)executed);
    fclose(file);
  }
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **arguments) {
  (void)info;
  if (count != 1 || strncmp(arguments[0], "out=", 4) || strlen(arguments[0]) >= sizeof path)
    return 1;
  strcpy(path, arguments[0] + 4);
  qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
  qemu_plugin_register_atexit_cb(id, finish, NULL);
  return 0;
}
