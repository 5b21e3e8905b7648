/* Builds, prints, parses, changes and compares JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cJSON.h"
#include "cJSON_Utils.h"

static unsigned state = 1;

static unsigned draw(unsigned bound) {
  state = state * 1664525u + 1013904223u;
  return (unsigned)(((unsigned long long)state * bound) >> 32);
}

static cJSON *make(int depth) {
  char name[32];
  switch (depth ? draw(6) : draw(4)) {
  case 0:
    return cJSON_CreateNumber(draw(1000000) / 64.0);
  case 1:
    return cJSON_CreateBool((int)draw(2));
  case 2:
    snprintf(name, sizeof name, "text \"%u\" \\ \t end", draw(1000));
    return cJSON_CreateString(name);
  case 3:
    return cJSON_CreateNull();
  }
  int is_array = (int)draw(2);
  cJSON *item = is_array ? cJSON_CreateArray() : cJSON_CreateObject();
  for (unsigned i = 2 + draw(6); i > 0; i--) {
    snprintf(name, sizeof name, "field%u", i);
    if (is_array)
      cJSON_AddItemToArray(item, make(depth - 1));
    else
      cJSON_AddItemToObject(item, name, make(depth - 1));
  }
  return item;
}

int main(void) {
  cJSON *root = cJSON_CreateArray();
  for (int i = 0; i < 300; i++)
    cJSON_AddItemToArray(root, make(6));
  char *text = cJSON_Print(root);
  cJSON *again = cJSON_Parse(text);
  cJSON *other = cJSON_Duplicate(again, 1);
  for (int i = 0; i < 100; i++)
    cJSON_ReplaceItemInArray(other, (int)draw(300), cJSON_CreateNumber(i));
  cJSON *patch = cJSONUtils_GeneratePatches(again, other);
  char *shown = cJSON_PrintUnformatted(patch);
  int failed = !cJSON_Compare(root, again, 1) || cJSONUtils_ApplyPatches(again, patch) || !cJSON_Compare(again, other, 1);
  printf("%zu %zu %d\n%.300s\n", strlen(text), strlen(shown), failed, shown);
  free(text);
  free(shown);
  cJSON_Delete(root);
  cJSON_Delete(again);
  cJSON_Delete(other);
  cJSON_Delete(patch);
  return failed;
}
