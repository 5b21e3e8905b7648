/* Parses a generated Markdown document with extensions and renders it as HTML, LaTeX, XML and text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmark-gfm-core-extensions.h"
#include "cmark-gfm.h"

enum { SECTIONS = 160, CAPACITY = 1 << 20, WIDTH = 72 };

static unsigned state = 99;
static char text[CAPACITY];
static size_t length;

static unsigned draw(unsigned bound) {
  state = state * 1664525u + 1013904223u;
  return (unsigned)(((unsigned long long)state * bound) >> 32);
}

static void put(const char *part) {
  size_t size = strlen(part);
  if (length + size >= CAPACITY) exit(1);
  memcpy(text + length, part, size + 1);
  length += size;
}

static void put_words(int count) {
  static const char *const marks[] = {"*%s*",  "**%s**",       "`%s`",  "[%s](/u/%s \"t\")",
                                      "~~%s~~", "<b>%s</b>",    "&amp;", "![%s](%s.png)",
                                      "\\*%s",  "http://%s.org", "[%s]",  "[%s][ref-%s]"};
  for (int i = 0; i < count; i++) {
    char word[12], piece[64];
    int size = 2 + (int)draw(8);
    for (int k = 0; k < size; k++) word[k] = "etaoinshrdlucmfw"[draw(16)];
    word[size] = 0;
    if (draw(4) == 0) {
      snprintf(piece, sizeof piece, marks[draw(12)], word, word);
      put(piece);
    } else {
      put(word);
    }
    put(draw(9) ? " " : "\n");
  }
}

static void put_section(int number) {
  static const char *const starts[] = {"- ", "1. ", "> ", "- [x] ", "  * ", "    ", "> > "};
  char line[64];
  snprintf(line, sizeof line, "\n\n%.*s Section %d\n\n", 1 + number % 4, "####", number);
  put(line);
  put_words(60);
  put("\n\n");
  const char *start = starts[draw(7)];
  for (int i = 0; i < 6; i++) {
    put(start);
    put_words(7);
    put("\n");
  }
  put("\n```c\nint x = 1 < 2 && y;\n```\n\n| a | b | c |\n|---|:-:|--:|\n");
  for (int i = 0; i < 5; i++) {
    snprintf(line, sizeof line, "| %u | *%u* | `%u` |\n", draw(100), draw(100), draw(1000));
    put(line);
  }
  snprintf(line, sizeof line, "\nNote[^%d].\n\n[^%d]: Footnote *text*.\n\n", number, number);
  put(line);
  put("---\n\n<div>\nraw <i>html</i>\n</div>\n\n");
}

static unsigned long report(const char *name, char *output) {
  unsigned long hash = 5381, size = strlen(output);
  for (unsigned long i = 0; i < size; i++) hash = (hash * 33 + (unsigned char)output[i]) & 0xffffffff;
  printf("%s: %lu bytes, checksum %lu\n", name, size, hash);
  free(output);
  return hash;
}

static cmark_node *parse(cmark_parser *parser, const char *source) {
  static const char *const names[] = {"table", "strikethrough", "autolink", "tagfilter", "tasklist"};
  for (int i = 0; i < 5; i++)
    cmark_parser_attach_syntax_extension(parser, cmark_find_syntax_extension(names[i]));
  cmark_parser_feed(parser, source, strlen(source));
  return cmark_parser_finish(parser);
}

int main(void) {
  const int options = CMARK_OPT_FOOTNOTES | CMARK_OPT_SMART | CMARK_OPT_UNSAFE;
  cmark_gfm_core_extensions_ensure_registered();
  for (int i = 0; i < SECTIONS; i++) put_section(i);
  cmark_parser *parser = cmark_parser_new(options);
  cmark_node *document = parse(parser, text);
  cmark_llist *extensions = cmark_parser_get_syntax_extensions(parser);
  report("HTML", cmark_render_html(document, options, extensions));
  report("LaTeX", cmark_render_latex(document, options, WIDTH));
  report("XML", cmark_render_xml(document, options));
  report("text", cmark_render_plaintext(document, options, WIDTH));
  report("man", cmark_render_man(document, options, WIDTH));
  char *markdown = cmark_render_commonmark(document, options, WIDTH);
  cmark_parser *again = cmark_parser_new(options);
  cmark_node *copy = parse(again, markdown);
  report("Markdown", markdown);
  report("HTML of it", cmark_render_html(copy, options, cmark_parser_get_syntax_extensions(again)));
  cmark_node_free(copy);
  cmark_node_free(document);
  cmark_parser_free(again);
  cmark_parser_free(parser);
  return 0;
}
