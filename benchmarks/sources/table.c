#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct entry { struct entry *next; unsigned key; char name[24]; };
static struct entry *table[64];
static unsigned hash(const char *text) {
  unsigned h = 5381;
  while (*text) h = h * 33 + (unsigned char)*text++;
  return h;
}
static struct entry *find(const char *name) {
  struct entry *e = table[hash(name) % 64];
  while (e && strcmp(e->name, name)) e = e->next;
  return e;
}
int insert(const char *name) {
  if (find(name)) return 0;
  struct entry *e = malloc(sizeof *e);
  if (!e) { fprintf(stderr, "%s: out of memory\n", __FILE__); abort(); }
  e->key = hash(name);
  strncpy(e->name, name, sizeof e->name - 1);
  e->next = table[e->key % 64];
  table[e->key % 64] = e;
  return 1;
}
double mean(const double *values, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += values[i] / count;
  return sum;
}
void swap(int *values, int count) {
  int copy[count];
  for (int i = 0; i < count; i++) copy[i] = values[count - 1 - i];
  memcpy(values, copy, sizeof copy);
}
#ifdef STAMP
int stamp(void) { return STAMP[0] * sizeof STAMP; }
#endif
