#include "models/clustering/pretraining.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { N_INPUTS = 8, N_CLASSES = 4, N_STEPS = 50 };

static const struct digest seed = {{5}};

struct site {
  struct contract contract;
  struct schema *schema;
  struct dataset train;
  struct learner_config config;
};

static void site_init(struct site *s, uint64_t story, bool permutes) {
  s->contract = toy_classes(N_INPUTS, N_CLASSES);
  s->schema = toy_schema("dense 16, relu, dense classes", &s->contract);
  s->train = toy_clouds(story, 300, N_INPUTS, N_CLASSES);
  for (size_t i = 0; permutes && i < s->train.n; i++)
    s->train.labels[i] = (uint16_t)((s->train.labels[i] + 1) % N_CLASSES);
  s->config = (struct learner_config){
      .schema = s->schema,
      .train = {.epochs = 3, .batch = 16, .learning_rate = 0.05, .optimiser = {.momentum = 0.9}},
      .init = {{9}},
      .train_seed = story,
      .part = (uint32_t)story,
      .n_copies = 3};
  schema_hash(s->schema, &kit_digest, &s->config.schema_hash);
}

static void site_done(struct site *s) {
  schema_free(s->schema);
  toy_dataset_done(&s->train);
}

static struct sketch sketch_at(uint64_t story, bool permutes, uint32_t steps) {
  struct site s;
  struct sketch made;
  site_init(&s, story, permutes);
  ck_assert_int_eq(pretraining_sketch(&s.config, steps, &s.train, &seed, NULL, &made), ERR_OK);
  site_done(&s);
  return made;
}

START_TEST(a_sketch_hangs_on_data_alone) {
  struct site s;
  struct sketch first, other;
  site_init(&s, 1, false);
  ck_assert_int_eq(pretraining_sketch(&s.config, N_STEPS, &s.train, &seed, NULL, &first), ERR_OK);
  s.config.train_seed = 77;
  s.config.part = 5;
  s.config.train.epochs = 0;
  s.config.train.steps = 3;
  ck_assert_int_eq(pretraining_sketch(&s.config, N_STEPS, &s.train, &seed, NULL, &other), ERR_OK);
  ck_assert_mem_eq(&first, &other, sizeof first);
  ck_assert_int_eq(pretraining_sketch(&s.config, N_STEPS + 1, &s.train, &seed, NULL, &other), ERR_OK);
  ck_assert_mem_ne(&first, &other, sizeof first);
  site_done(&s);
}
END_TEST

/* What the job's training does beside is left out. */
START_TEST(a_sketch_takes_no_notice_of_personal_layers_and_methods) {
  struct site s;
  struct sketch first, other;
  site_init(&s, 1, false);
  schema_free(s.schema);
  s.schema = toy_schema("dense 16, relu, dense classes personal", &s.contract);
  s.config.schema = s.schema;
  ck_assert_int_eq(pretraining_sketch(&s.config, N_STEPS, &s.train, &seed, NULL, &first), ERR_OK);
  s.config.train.personal = (struct personal_config){.method = PERSONAL_PARTIAL, .head_epochs = 2};
  ck_assert_int_eq(pretraining_sketch(&s.config, N_STEPS, &s.train, &seed, NULL, &other), ERR_OK);
  ck_assert_mem_eq(&first, &other, sizeof first);
  s.config.train.control_variates = true; /* which goes with no momentum */
  ck_assert_int_eq(pretraining_sketch(&s.config, N_STEPS, &s.train, &seed, NULL, &other), ERR_OK);
  ck_assert_mem_eq(&first, &other, sizeof first);
  site_done(&s);
}
END_TEST

START_TEST(sites_that_number_classes_alike_are_alike) {
  for (uint64_t story = 2; story < 6; story++) {
    struct sketch a = sketch_at(1, false, N_STEPS), like = sketch_at(story, false, N_STEPS),
                  unlike = sketch_at(story, true, N_STEPS);
    ck_assert_double_gt(sketch_cosine(&a, &like), sketch_cosine(&a, &unlike) + 0.3);
  }
}
END_TEST

static enum err stop(void *context, size_t done, size_t total) {
  (void)context;
  (void)total;
  return done >= 3 ? ERR_STOPPED : ERR_OK;
}

START_TEST(it_can_be_stopped) {
  struct site s;
  struct sketch made = {{7}}, before = made;
  const struct work_hook hook = {stop, NULL};
  site_init(&s, 1, false);
  ck_assert_int_eq(pretraining_sketch(&s.config, N_STEPS, &s.train, &seed, &hook, &made), ERR_STOPPED);
  ck_assert_mem_eq(&made, &before, sizeof made);
  site_done(&s);
}
END_TEST

int main(void) {
  return SUITE_RUN("pretraining", a_sketch_hangs_on_data_alone, a_sketch_takes_no_notice_of_personal_layers_and_methods,
                   sites_that_number_classes_alike_are_alike, it_can_be_stopped);
}
