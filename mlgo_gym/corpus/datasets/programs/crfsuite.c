/* Trains sequence models with three algorithms on generated sentences and tags other sentences. */
#define _GNU_SOURCE
#include <crfsuite.h>
#include <stdio.h>
#include <sys/mman.h>

#include "../workload.h"

enum { LABELS = 5, TRAINED = 200, TAGGED = 400, LENGTH = 12 };

/* A label has two likely successors; half of its words belong to the next label, too. */
static void make_sentence(crfsuite_instance_t *sentence, crfsuite_dictionary_t *attributes, int is_new) {
  unsigned words[LENGTH], labels[LENGTH], label = draw(LABELS);
  for (int i = 0; i < LENGTH; i++) {
    label = draw(8) ? (label * 2 + draw(2)) % LABELS : draw(LABELS);
    labels[i] = label;
    words[i] = (label * 50 + draw(100)) % (LABELS * 50);
  }
  crfsuite_instance_init(sentence);
  for (int i = 0; i < LENGTH; i++) {
    crfsuite_item_t item;
    crfsuite_item_init(&item);
    for (int offset = -1; offset <= 1; offset++) {
      if (i + offset < 0 || i + offset >= LENGTH)
        continue;
      char name[32] = {(char)('b' + offset), '='}, *word = name + 2;
      make_word(words[i + offset], word);
      for (int kind = 0; kind < 2; kind++) { /* the whole word, then its start */
        crfsuite_attribute_t attribute;
        int id = is_new ? attributes->get(attributes, name) : attributes->to_id(attributes, name);
        crfsuite_attribute_set(&attribute, id, kind ? 0.5 : 1);
        if (id >= 0)
          crfsuite_item_append_attribute(&item, &attribute);
        name[1] = '~';
        word[2] = 0;
      }
    }
    crfsuite_instance_append(sentence, &item, (int)labels[i]);
    crfsuite_item_finish(&item);
  }
}

static int train_and_tag(const char *algorithm, crfsuite_data_t *data, const char *path) {
  crfsuite_trainer_t *trainer;
  crfsuite_model_t *model;
  crfsuite_tagger_t *tagger;
  crfsuite_dictionary_t *attributes;
  int right = 0, sure = 0, labels[LENGTH];
  if (!crfsuite_create_instance(algorithm, (void **)&trainer))
    return 1;
  trainer->params(trainer)->set_int(trainer->params(trainer), "max_iterations", 15);
  if (trainer->train(trainer, data, path, -1) || crfsuite_create_instance_from_file(path, (void **)&model))
    return 2;
  model->get_tagger(model, &tagger);
  model->get_attrs(model, &attributes);
  for (int i = 0; i < TAGGED; i++) {
    crfsuite_instance_t sentence;
    floatval_t value;
    make_sentence(&sentence, attributes, 0);
    tagger->set(tagger, &sentence);
    tagger->viterbi(tagger, labels, &value);
    for (int k = 0; k < LENGTH; k++) {
      right += labels[k] == sentence.labels[k];
      tagger->marginal_point(tagger, labels[k], k, &value);
      sure += value > 0.5;
    }
    crfsuite_instance_finish(&sentence);
  }
  printf("%s: %d of %d labels right, %d sure\n", algorithm, right, TAGGED * LENGTH, sure);
  trainer->release(trainer);
  attributes->release(attributes);
  tagger->release(tagger);
  model->release(model);
  return right < TAGGED * LENGTH / 2;
}

int main(void) {
  static const char *const algorithms[] = {"lbfgs", "averaged-perceptron", "arow"};
  crfsuite_data_t data;
  crfsuite_data_init(&data);
  crfsuite_create_instance("dictionary", (void **)&data.attrs);
  crfsuite_create_instance("dictionary", (void **)&data.labels);
  for (int i = 0; i < LABELS; i++)
    data.labels->get(data.labels, (const char[]){(char)('A' + i), 0});
  for (int i = 0; i < TRAINED; i++) {
    crfsuite_instance_t sentence;
    make_sentence(&sentence, data.attrs, 1);
    crfsuite_data_append(&data, &sentence);
    crfsuite_instance_finish(&sentence);
  }
  for (int i = 0; i < 3; i++) {
    char name[64], path[64]; /* the model is a file in memory */
    snprintf(name, sizeof name, "train/crf1d/%s", algorithms[i]);
    snprintf(path, sizeof path, "/proc/self/fd/%d", memfd_create("model", 0));
    if (train_and_tag(name, &data, path))
      return 1;
  }
  return 0;
}
