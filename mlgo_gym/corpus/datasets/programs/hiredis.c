/* Formats commands and parses generated replies of the Redis protocol in pieces. */
#include <hiredis.h>
#include <stdio.h>

#include "../workload.h"

enum { REPLIES = 4000, PASSES = 8, CAPACITY = 4 << 20 };

static char stream[CAPACITY];
static size_t length;

static void put_reply(unsigned depth) {
  char word[16];
  char *end = stream + length;
  make_word(draw(500), word);
  switch (draw(depth ? 5 : 4)) {
  case 0:
    length += (size_t)sprintf(end, "+%s\r\n", word);
    break;
  case 1:
    length += (size_t)sprintf(end, ":%u\r\n", draw(1000000));
    break;
  case 2:
    length += (size_t)sprintf(end, "$%zu\r\n%s\r\n", strlen(word), word);
    break;
  case 3:
    length += (size_t)sprintf(end, "$-1\r\n");
    break;
  default:
    length += (size_t)sprintf(end, "*6\r\n");
    for (int i = 0; i < 6; i++)
      put_reply(depth - 1);
  }
}

static unsigned long sum_of(const redisReply *reply) {
  unsigned long sum = (unsigned long)reply->type + (unsigned long)reply->integer;
  if (reply->str)
    sum += reply->len * 7 + (unsigned char)reply->str[0];
  for (size_t i = 0; i < reply->elements; i++)
    sum = sum * 31 + sum_of(reply->element[i]);
  return sum & 0xffffffff;
}

int main(void) {
  unsigned long sum = 0, commands = 0, count = 0;
  for (int i = 0; i < REPLIES; i++) {
    put_reply(3);
    char *command;
    int size = redisFormatCommand(&command, "HSET key:%d %s %b", i, "field", stream + length - 3, (size_t)3);
    commands += checksum(command, (size_t)size);
    redisFreeCommand(command);
  }
  for (int pass = 0; pass < PASSES; pass++) {
    redisReader *reader = redisReaderCreate();
    size_t piece = (size_t)100 << pass;
    for (size_t at = 0; at < length; at += piece) {
      void *reply = NULL;
      redisReaderFeed(reader, stream + at, length - at < piece ? length - at : piece);
      while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply) {
        sum += sum_of((const redisReply *)reply);
        count++;
        freeReplyObject(reply);
      }
    }
    redisReaderFree(reader);
  }
  printf("%lu replies, checksums %lu and %lu\n", count, sum, commands & 0xffffffff);
  return count != PASSES * REPLIES;
}
