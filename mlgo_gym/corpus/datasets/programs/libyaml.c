/* Parses a generated YAML document, builds its nodes, and writes it as events and in other styles. */
#include <stdio.h>
#include <yaml.h>

#include "../workload.h"

enum { RECORDS = 250, CAPACITY = 1 << 20 };

struct output {
  size_t length;
  char text[CAPACITY];
};

static struct output source, copy;

#define put(...) (source.length += (size_t)snprintf(source.text + source.length, CAPACITY - source.length, __VA_ARGS__))

static int append(void *data, unsigned char *buffer, size_t size) {
  struct output *output = data;
  if (output->length + size > CAPACITY)
    return 0;
  memcpy(output->text + output->length, buffer, size);
  output->length += size;
  return 1;
}

static void put_record(int number) {
  static const char *const scalars[] = {"%s", "'%s it''s'", "\"%s \\u00e9\\n\\t\\x41\"", "!!str %s", "%s # comment"};
  char word[16];
  put("- &id%d\n  name: ", number);
  for (int i = 0; i < 4; i++) {
    make_word(draw(3000), word);
    put(scalars[draw(5)], word);
    put("\n  key-%d: ", i);
  }
  put("{a: %u, \"b\": [1, 2.5, ~, true], c: {d: e, ? f : g}}\n  text: |\n", draw(1000));
  for (int i = 0; i < 3; i++) {
    make_word(draw(3000), word);
    put("    line %d %s: text\n", i, word);
  }
  put("  folded: >-\n    %s %s\n    %s\n\n    end\n", word, word, word);
  put("  before: *id%d\n  list:\n", number ? (int)draw((unsigned)number) : number);
  for (int i = 0; i < 6; i++)
    put("  - %u\n", draw(100000));
}

/* Writes the events of the document, and returns how many there are. */
static int copy_events(int canonical, int unicode, int width) {
  yaml_parser_t parser;
  yaml_emitter_t emitter;
  yaml_event_t event;
  int events = 0, ended = 0;
  yaml_parser_initialize(&parser);
  yaml_emitter_initialize(&emitter);
  yaml_parser_set_input_string(&parser, (const unsigned char *)source.text, source.length);
  copy.length = 0;
  yaml_emitter_set_output(&emitter, append, &copy);
  yaml_emitter_set_canonical(&emitter, canonical);
  yaml_emitter_set_unicode(&emitter, unicode);
  yaml_emitter_set_width(&emitter, width);
  while (!ended) {
    if (!yaml_parser_parse(&parser, &event))
      return -1;
    ended = event.type == YAML_STREAM_END_EVENT;
    events++;
    if (!yaml_emitter_emit(&emitter, &event))
      return -1;
  }
  yaml_emitter_delete(&emitter);
  yaml_parser_delete(&parser);
  return events;
}

/* Builds the nodes of the document, and returns a sum over them; -1 if it cannot be read. */
static long sum_nodes(const struct output *text) {
  yaml_parser_t parser;
  yaml_document_t document;
  long sum = 0;
  yaml_parser_initialize(&parser);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text->text, text->length);
  if (!yaml_parser_load(&parser, &document))
    return -1;
  yaml_node_t *node;
  for (int i = 1; (node = yaml_document_get_node(&document, i)) != NULL; i++) {
    if (node->type == YAML_SCALAR_NODE)
      sum += (long)node->data.scalar.length;
    else if (node->type == YAML_SEQUENCE_NODE)
      sum += 1000 * (node->data.sequence.items.top - node->data.sequence.items.start);
    else
      sum += 100 * (node->data.mapping.pairs.top - node->data.mapping.pairs.start);
  }
  yaml_document_delete(&document);
  yaml_parser_delete(&parser);
  return sum;
}

int main(void) {
  static const struct {
    int canonical, unicode, width;
  } styles[] = {{0, 1, 80}, {1, 1, 80}, {0, 0, 40}};
  for (int i = 0; i < RECORDS; i++)
    put_record(i);
  printf("%zu bytes, sum %ld\n", source.length, sum_nodes(&source));
  for (int i = 0; i < 3; i++) {
    int events = copy_events(styles[i].canonical, styles[i].unicode, styles[i].width);
    printf("style %d: %d events, %zu bytes, checksum %lu", i, events, copy.length, checksum(copy.text, copy.length));
    printf(", sum %ld\n", sum_nodes(&copy));
  }
  return 0;
}
