// Builds a static trie of words, and runs lookups, prefix searches and predictive searches.
#include <cstdio>
#include <marisa/agent.h>
#include <marisa/keyset.h>
#include <marisa/trie.h>

#include "../workload.h"

int main() {
  char word[16];
  for (int tries = 1; tries <= 3; tries++) {
    marisa::Keyset keys;
    for (int i = 0; i < 12000; i++) {
      make_word(draw(9000), word);
      keys.push_back(word);
    }
    marisa::Trie trie;
    trie.build(keys, tries);
    unsigned long found = 0, prefixes = 0, completions = 0, sum = 0;
    for (int i = 0; i < 15000; i++) {
      marisa::Agent agent;
      make_word(draw(18000), word);
      agent.set_query(word);
      if (trie.lookup(agent)) {
        found++;
        sum += agent.key().id();
      }
      while (trie.common_prefix_search(agent))
        prefixes++;
      if (i % 10 == 0) {
        agent.set_query(word, 2);
        while (trie.predictive_search(agent)) {
          completions++;
          sum += checksum(agent.key().ptr(), agent.key().length());
        }
      }
    }
    std::printf("%d tries: %zu keys, %zu bytes, %lu found, %lu prefixes, %lu completions, sum %lu\n", tries, trie.size(),
                trie.io_size(), found, prefixes, completions, sum);
  }
  return 0;
}
