/* Stores words in a double-array trie, looks them up, enumerates all, and deletes a third of them. */
#include <datrie/trie.h>
#include <stdio.h>

#include "../workload.h"

enum { WORDS = 8000, LOOKUPS = 150000 };

static AlphaChar *key_of(unsigned number, AlphaChar *key) {
  char word[16];
  make_word(number, word);
  for (int i = 0; i < 16; i++)
    key[i] = (unsigned char)word[i];
  return key;
}

static Bool add_key(const AlphaChar *key, TrieData data, void *sum) {
  unsigned long value = (unsigned long)data;
  while (*key)
    value = (value * 33 + *key++) & 0xffffffff;
  *(unsigned long *)sum += value;
  return TRUE;
}

int main(void) {
  AlphaChar key[16];
  AlphaMap *letters = alpha_map_new();
  alpha_map_add_range(letters, 'a', 'z');
  Trie *trie = trie_new(letters);
  for (unsigned i = 0; i < WORDS; i++)
    trie_store(trie, key_of(draw(WORDS), key), (TrieData)i);
  for (int round = 0; round < 2; round++) {
    long found = 0, sum = 0;
    for (int i = 0; i < LOOKUPS; i++) {
      TrieData data;
      if (trie_retrieve(trie, key_of(draw(2 * WORDS), key), &data)) {
        found++;
        sum += data;
      }
    }
    unsigned long keys = 0;
    trie_enumerate(trie, add_key, &keys);
    printf("%ld found, sum %ld, checksum %lu\n", found, sum, keys);
    for (unsigned i = 0; i < WORDS; i += 3)
      trie_delete(trie, key_of(i, key));
  }
  trie_free(trie);
  alpha_map_free(letters);
  return 0;
}
