/* Parses a generated Markdown document with extensions and renders it in six formats. */
#include <cmark-gfm-core-extensions.h>
#include <stdio.h>

#include "../workload.h"

enum { SECTIONS = 160, CAPACITY = 1 << 20, WIDTH = 72 };

static char text[CAPACITY];
static size_t length;

#define put(...) (length += (size_t)snprintf(text + length, CAPACITY - length, __VA_ARGS__))

static void put_words(int count) {
  static const char *const marks[] = {"*%s* ",    "**%s** ",     "`%s` ",  "[%s](/u/%s \"t\") ",
                                      "~~%s~~ ",  "<b>%s</b> ",  "&amp; ", "http://%s.org ",
                                      "![](%s) ", "[%s][r-%s] ", "\\*%s ", "[%s][r-a] "};
  char word[16];
  for (int i = 0; i < count; i++) {
    make_word(draw(3000), word);
    put(draw(4) ? "%s " : marks[draw(12)], word, word);
    if (draw(9) == 0)
      put("\n");
  }
}

static void put_section(int number) {
  static const char *const starts[] = {"- ", "1. ", "> ", "- [x] ", "  * ", "    ", "> > "};
  const char *start = starts[draw(7)];
  put("\n\n%.*s Section %d\n\n", 1 + number % 4, "####", number);
  put_words(60);
  put("\n\n");
  for (int i = 0; i < 6; i++) {
    put("%s", start);
    put_words(7);
    put("\n");
  }
  put("\n```c\nint x = 1 < 2 && y;\n```\n\n| a | b | c |\n|---|:-:|--:|\n");
  for (int i = 0; i < 5; i++)
    put("| %u | *%u* | `%u` |\n", draw(100), draw(100), draw(1000));
  put("\nNote[^%d].\n\n[^%d]: Footnote *text*.\n\n[r-a]: /a \"A\"\n\n", number, number);
  put("---\n\n<div>\nraw <i>html</i>\n</div>\n\n");
}

static void report(const char *name, char *output) {
  size_t size = strlen(output);
  printf("%s: %zu bytes, checksum %lu\n", name, size, checksum(output, size));
  free(output);
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
  for (int i = 0; i < SECTIONS; i++)
    put_section(i);
  cmark_parser *parser = cmark_parser_new(options), *again = cmark_parser_new(options);
  cmark_node *document = parse(parser, text);
  report("HTML", cmark_render_html(document, options, cmark_parser_get_syntax_extensions(parser)));
  report("LaTeX", cmark_render_latex(document, options, WIDTH));
  report("XML", cmark_render_xml(document, options));
  report("text", cmark_render_plaintext(document, options, WIDTH));
  report("man", cmark_render_man(document, options, WIDTH));
  char *markdown = cmark_render_commonmark(document, options, WIDTH);
  cmark_node *copy = parse(again, markdown);
  report("Markdown", markdown);
  report("HTML of it", cmark_render_html(copy, options, cmark_parser_get_syntax_extensions(again)));
  cmark_node_free(copy);
  cmark_node_free(document);
  cmark_parser_free(again);
  cmark_parser_free(parser);
  return 0;
}
