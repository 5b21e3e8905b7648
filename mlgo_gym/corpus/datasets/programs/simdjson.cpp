// Parses a generated document into a tree and on demand, minifies it, and parses lines of documents.
#include <cmath>
#include <cstdio>
#include <simdjson.h>
#include <string>

#include "../workload.h"

using namespace simdjson;

enum { RECORDS = 3000, ROUNDS = 4 };

static std::string make_record(unsigned id) {
  char name[16], note[16], line[200];
  make_word(draw(2000), name);
  make_word(draw(2000), note);
  std::string scores;
  for (unsigned i = draw(8); i > 0; i--)
    scores += std::to_string(draw(100000)) + "." + std::to_string(draw(1000)) + (i > 1 ? "e-2, " : "");
  std::snprintf(line, sizeof line, "{\"id\": %u, \"name\": \"%s\", \"note\": \"\\u00e9\\n%s\\\"\", \"sold\": %s", id, name,
                note, draw(2) ? "true" : "null");
  return line + (", \"scores\": [" + scores) + "]}";
}

struct Totals {
  unsigned long count = 0, names = 0, notes = 0;
  double scores = 0;
  void add(std::string_view name, std::string_view note) {
    count++;
    names = (names * 31 + checksum(name.data(), name.size())) & 0xffffffff;
    notes = (notes * 31 + checksum(note.data(), note.size())) & 0xffffffff;
  }
  bool operator==(const Totals &other) const {
    return count == other.count && names == other.names && notes == other.notes && scores == other.scores;
  }
};

static void add_tree(dom::element record, Totals &totals) {
  totals.add(record["name"], record["note"]);
  for (double score : record["scores"])
    totals.scores += score;
}

int main() {
  std::string list = "[", lines;
  for (unsigned id = 0; id < RECORDS; id++) {
    const std::string record = make_record(id);
    list += (id ? ",\n  " : "\n  ") + record;
    lines += record + "\n";
  }
  const padded_string text(list + "\n]"), many(lines);
  Totals tree, demand, stream;
  dom::parser parser;
  ondemand::parser reader;
  unsigned long minified = 0;
  for (int round = 0; round < ROUNDS; round++) {
    const dom::element document = parser.parse(text);
    for (dom::element record : document)
      add_tree(record, tree);
    const std::string small = minify(document);
    minified += checksum(small.data(), small.size());
    ondemand::document records = reader.iterate(text);
    for (ondemand::object record : records) {
      const std::string_view name = record["name"];
      demand.add(name, record["note"]);
      for (double score : record["scores"])
        demand.scores += score;
    }
    dom::document_stream documents = parser.parse_many(many);
    for (dom::element record : documents)
      add_tree(record, stream);
  }
  std::printf("%s: %zu bytes, %lu records, sum %ld, checksums %lu, %lu and %lu\n",
              get_active_implementation()->name().c_str(), text.size(), tree.count, std::lround(tree.scores),
              tree.names, tree.notes, minified);
  return !(tree == demand && tree == stream && tree.count == RECORDS * ROUNDS);
}
