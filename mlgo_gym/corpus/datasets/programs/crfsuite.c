/* Trains sequence models with three algorithms on generated sentences and tags other sentences. */
#include <crfsuite.h>
#include <stdio.h>
#include <sys/mman.h>

#include "../workload.h"

enum { LABELS = 5, TRAINED = 200, TAGGED = 400, LENGTH = 12 };

/* A label has two likely successors; half of its words belong to the next label, too. */
static void make_sentence(crfsuite_instance_t *sentence, crfsuite_dictionary_t *attributes, int is_new) {
  unsigned words[LENGTH + 2] = {0}, labels[LENGTH], label = draw(LABELS); /* word 0 stands at both ends */
  for (int i = 0; i < LENGTH; i++) {
    labels[i] = label = draw(8) ? (label * 2 + draw(2)) % LABELS : draw(LABELS);
    words[i + 1] = 1 + (label * 50 + draw(100)) % (LABELS * 50);
  }
  crfsuite_instance_init(sentence);
  for (int i = 0; i < LENGTH; i++) {
    crfsuite_item_t item;
    crfsuite_item_init(&item);
    for (int k = 0; k < 6; k++) { /* the word before, this word, and the word after; each whole, then its start */
      char name[32] = {(char)('a' + k), '='};
      crfsuite_attribute_t attribute;
      make_word(words[i + k / 2], name + 2);
      name[k % 2 ? 4 : 31] = 0;
      int id = is_new ? attributes->get(attributes, name) : attributes->to_id(attributes, name);
      crfsuite_attribute_set(&attribute, id, k % 2 ? 0.5 : 1);
      if (id >= 0)
        crfsuite_item_append_attribute(&item, &attribute);
    }
    crfsuite_instance_append(sentence, &item, (int)labels[i]);
    crfsuite_item_finish(&item);
  }
}

static int train_and_tag(const char *algorithm, crfsuite_data_t *data) {
  crfsuite_trainer_t *trainer;
  crfsuite_model_t *model;
  crfsuite_tagger_t *tagger;
  crfsuite_dictionary_t *attributes;
  floatval_t value;
  int right = 0, sure = 0, labels[LENGTH];
  char path[64], name[64]; /* the model is a file in memory */
  snprintf(path, sizeof path, "/proc/self/fd/%d", memfd_create("model", 0));
  snprintf(name, sizeof name, "train/crf1d/%s", algorithm);
  if (!crfsuite_create_instance(name, (void **)&trainer) ||
      trainer->params(trainer)->set_int(trainer->params(trainer), "max_iterations", 15) ||
      trainer->train(trainer, data, path, -1) || crfsuite_create_instance_from_file(path, (void **)&model))
    return 1;
  model->get_tagger(model, &tagger);
  model->get_attrs(model, &attributes);
  crfsuite_instance_t sentence;
  for (int i = 0; i < TAGGED; i++, crfsuite_instance_finish(&sentence)) {
    make_sentence(&sentence, attributes, 0);
    tagger->set(tagger, &sentence);
    tagger->viterbi(tagger, labels, &value);
    for (int k = 0; k < LENGTH; k++) {
      right += labels[k] == sentence.labels[k];
      tagger->marginal_point(tagger, labels[k], k, &value);
      sure += value > 0.5;
    }
  }
  printf("%s: %d of %d labels right, %d sure\n", algorithm, right, TAGGED * LENGTH, sure);
  return right < TAGGED * LENGTH / 2;
}

int main(void) {
  crfsuite_data_t data = {0};
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
  return train_and_tag("lbfgs", &data) || train_and_tag("averaged-perceptron", &data) || train_and_tag("arow", &data);
}
