/* Parses generated HTTP requests with headers and chunked bodies, in pieces. */
#include <llhttp.h>
#include <stdio.h>

#include "../workload.h"

enum { REQUESTS = 2500, PASSES = 11, CAPACITY = 4 << 20 };

static char stream[CAPACITY];
static size_t length;
static unsigned long sum, messages;

static int on_data(llhttp_t *parser, const char *at, size_t size) {
  (void)parser;
  sum = (sum * 31 + size + (unsigned char)at[size / 2]) & 0xffffffff;
  return 0;
}

static int on_end(llhttp_t *parser) {
  (void)parser;
  messages++;
  return 0;
}

static void put_request(void) {
  static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "OPTIONS"};
  char word[16];
  make_word(draw(900), word);
  char *end = stream + length;
  end += sprintf(end, "%s /%s/%u?q=%s HTTP/1.1\r\nHost: %s.org\r\n", methods[draw(5)], word, draw(100), word, word);
  for (unsigned i = draw(9) + 3; i > 0; i--) {
    make_word(draw(200), word);
    end += sprintf(end, "X-%s: %s; q=0.%u, %s\r\n", word, word, draw(10), word);
  }
  end += sprintf(end, "Transfer-Encoding: chunked\r\n\r\n");
  for (unsigned i = draw(4); i > 0; i--)
    end += sprintf(end, "%zx\r\n%s\r\n", strlen(word), word);
  length = (size_t)(end + sprintf(end, "0\r\n\r\n") - stream);
}

int main(void) {
  for (int i = 0; i < REQUESTS; i++)
    put_request();
  llhttp_settings_t settings;
  llhttp_settings_init(&settings);
  settings.on_url = settings.on_header_field = settings.on_header_value = settings.on_body = on_data;
  settings.on_message_complete = on_end;
  for (int pass = 0; pass < PASSES; pass++) {
    size_t piece = (size_t)50 << pass;
    llhttp_t parser;
    llhttp_init(&parser, HTTP_REQUEST, &settings);
    for (size_t at = 0; at < length; at += piece)
      if (llhttp_execute(&parser, stream + at, length - at < piece ? length - at : piece) != HPE_OK)
        return 1;
    printf("%lu requests, checksum %lu\n", messages, sum);
  }
  return messages != PASSES * REQUESTS;
}
