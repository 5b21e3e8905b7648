// Writes a generated document, parses it, changes it, checks it against a schema, and writes it again.
#include <cstdio>
#include <rapidjson/document.h>
#include <rapidjson/pointer.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/schema.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "../workload.h"

using namespace rapidjson;

static const char schema_text[] =
    "{\"type\": \"array\", \"items\": {\"type\": \"object\", \"required\": [\"id\", \"name\"], \"properties\": {\"id\": {"
    "\"type\": \"integer\", \"minimum\": 0}, \"name\": {\"type\": \"string\", \"maxLength\": 20}, \"scores\": {\"type\": "
    "\"array\", \"items\": {\"type\": \"number\"}}}}}";

static void write_document(StringBuffer &buffer) {
  Writer<StringBuffer> writer(buffer);
  char word[16];
  writer.StartArray();
  for (unsigned id = 0; id < 3000; id++) {
    writer.StartObject();
    writer.Key("id");
    writer.Uint(id);
    writer.Key("name");
    make_word(draw(2000), word);
    writer.String(word);
    writer.Key("scores");
    writer.StartArray();
    for (unsigned i = draw(8); i > 0; i--)
      writer.Double((double)draw(100000) / 64);
    writer.EndArray();
    writer.Key("note \"\\u00e9\"");
    draw(3) ? writer.Bool(draw(2)) : writer.Null();
    writer.EndObject();
  }
  writer.EndArray();
}

int main() {
  StringBuffer text;
  write_document(text);
  Document schema_document;
  schema_document.Parse(schema_text);
  SchemaDocument schema(schema_document);
  for (int round = 0; round < 4; round++) {
    Document document;
    if (document.Parse(text.GetString()).HasParseError())
      return 1;
    double sum = 0;
    for (Value &each : document.GetArray()) {
      for (const Value &score : each["scores"].GetArray())
        sum += score.GetDouble();
      each.AddMember("count", each["scores"].Size(), document.GetAllocator());
      if (each["id"].GetInt() % 5 == round)
        each.RemoveMember("scores");
    }
    SchemaValidator validator(schema);
    if (!document.Accept(validator) || !Pointer("/17/name").Get(document))
      return 2;
    StringBuffer again;
    PrettyWriter<StringBuffer> writer(again);
    document.Accept(writer);
    std::printf("round %d: %zu and %zu bytes, sum %.3f, checksum %lu\n", round, text.GetSize(), again.GetSize(), sum,
                checksum(again.GetString(), again.GetSize()));
  }
  return 0;
}
