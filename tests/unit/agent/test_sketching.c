#include "agent/run/sketching.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/agent/site_folder.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { N_INPUTS = 8, N_CLASSES = 4 };

static const struct cluster_settings settings = {.is_on = true, .steps = 20, .shift = 0.2};

/* A site with its folder, and what a start of its agent finds. */
struct bench {
  struct site_folder folder;
  struct contract contract;
  struct schema *schema;
  struct dataset train;
  struct learner_config config;
  const char *run_label;
  struct sketching sketching;
  struct trainer_result result;
};

static void count_labels(struct dataset *d) {
  for (size_t i = 0; i < d->n_classes; i++)
    d->class_counts[i] = 0;
  for (size_t i = 0; i < d->n; i++)
    d->class_counts[d->labels[i]]++;
}

static void bench_init(struct bench *b) {
  *b = (struct bench){.folder = site_folder_new(GOOD_SITE, GOOD_JOB), .run_label = ""};
  b->contract = toy_classes(N_INPUTS, N_CLASSES);
  b->schema = toy_schema("dense 16, relu, dense classes", &b->contract);
  b->train = toy_clouds(1, 300, N_INPUTS, N_CLASSES);
  count_labels(&b->train);
  b->config = (struct learner_config){
      .schema = b->schema,
      .train = {.epochs = 1, .batch = 16, .learning_rate = 0.05, .optimiser = {.momentum = 0.9}},
      .init = {{9}}};
  schema_hash(b->schema, &kit_digest, &b->config.schema_hash);
}

static void bench_done(struct bench *b) {
  sketching_done(&b->sketching);
  schema_free(b->schema);
  toy_dataset_done(&b->train);
  site_folder_free(&b->folder);
}

/* A life begins: whether the steps were done, as the hook counts them. */
static enum err count(void *context, size_t done, size_t total) {
  (void)done, (void)total;
  ++*(size_t *)context;
  return ERR_OK;
}

static bool start(struct bench *b) {
  size_t n_steps = 0;
  const struct work_hook hook = {count, &n_steps};
  sketching_done(&b->sketching);
  b->sketching = (struct sketching){.settings = &settings, .seed = {{9}}};
  b->result = (struct trainer_result){.kind = JOB_LOAD};
  ck_assert_int_eq(sketching_path(b->folder.path, "a", 1, b->run_label, b->sketching.path), ERR_OK);
  ck_assert_int_eq(sketching_start(&b->sketching, &b->config, &b->train, &hook, &b->result), ERR_OK);
  ck_assert(b->result.has_sketch && b->result.sketch_note[0] == '\0');
  return n_steps > 0;
}

static void permute(struct dataset *d) {
  for (size_t i = 0; i < d->n; i++)
    d->labels[i] = (uint16_t)((d->labels[i] + 1) % N_CLASSES);
  count_labels(d);
}

START_TEST(a_restart_takes_what_is_kept) {
  struct bench b;
  bench_init(&b);
  ck_assert(start(&b));
  struct sketch first = b.result.sketch;
  ck_assert(!start(&b));
  ck_assert_mem_eq(&first, &b.result.sketch, sizeof first);
  bench_done(&b);
}
END_TEST

START_TEST(other_labels_are_another_sketch) {
  struct bench b;
  bench_init(&b);
  start(&b);
  struct sketch first = b.result.sketch;
  permute(&b.train);
  ck_assert(start(&b));
  ck_assert_mem_ne(&first, &b.result.sketch, sizeof first);
  ck_assert(!start(&b));
  bench_done(&b);
}
END_TEST

START_TEST(other_inputs_scales_or_steps_are_another_sketch) {
  struct bench b;
  bench_init(&b);
  start(&b);
  for (size_t i = 0; i < b.train.n * N_INPUTS; i++)
    b.train.floats[i] = -b.train.floats[i];
  ck_assert(start(&b));
  ck_assert(!start(&b));
  for (size_t i = 0; i < N_INPUTS; i++)
    b.train.gain[i] *= 2;
  ck_assert(start(&b));
  ck_assert(!start(&b));
  b.config.train.learning_rate /= 2;
  ck_assert(start(&b));
  ck_assert(!start(&b));
  b.config.train.optimiser.momentum = 0;
  ck_assert(start(&b));
  ck_assert(!start(&b));
  bench_done(&b);
}
END_TEST

START_TEST(runs_of_one_job_keep_their_own) {
  struct bench b;
  bench_init(&b);
  start(&b);
  b.run_label = "second";
  b.config.train.learning_rate /= 2;
  ck_assert(start(&b));
  ck_assert(!start(&b));
  b.run_label = "";
  b.config.train.learning_rate *= 2;
  ck_assert(!start(&b));
  bench_done(&b);
}
END_TEST

START_TEST(what_is_damaged_is_found_anew) {
  static const char *const damaged[] = {"", "{", "[]", "{\"schema\":2}", "{\"schema\":2,\"cells\":[1,2,99999]}"};
  struct bench b;
  bench_init(&b);
  start(&b);
  struct sketch first = b.result.sketch;
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    site_folder_write(&b.folder, "sketch-a@1.json", damaged[i]);
    ck_assert(start(&b));
    ck_assert_mem_eq(&first, &b.result.sketch, sizeof first);
    ck_assert(!start(&b));
  }
  bench_done(&b);
}
END_TEST

static bool after(struct bench *b, double loss) {
  b->result = (struct trainer_result){.kind = JOB_TRAIN, .train_loss = loss};
  ck_assert_int_eq(sketching_after(&b->sketching, &b->config, &b->train, NULL, &b->result), ERR_OK);
  return b->result.has_sketch;
}

static bool before(struct bench *b) {
  b->result = (struct trainer_result){.kind = JOB_TRAIN};
  ck_assert_int_eq(sketching_before(&b->sketching, &b->config, &b->train, NULL, &b->result), ERR_OK);
  return b->result.has_sketch;
}

START_TEST(a_loss_that_leaps_is_looked_into) {
  struct bench b;
  bench_init(&b);
  start(&b);
  ck_assert(!after(&b, 2.0));
  ck_assert(!after(&b, 1.0));
  ck_assert(!after(&b, 4.0)); /* the data are what they were: nothing to tell */
  permute(&b.train);
  ck_assert(!after(&b, 4.0));
  ck_assert(after(&b, 9.0));
  ck_assert(!after(&b, 9.0));
  bench_done(&b);
}
END_TEST

START_TEST(labels_that_shift_are_looked_into) {
  struct bench b;
  bench_init(&b);
  start(&b);
  ck_assert(!before(&b));
  for (size_t i = 0; i < b.train.n / 10; i++)
    b.train.labels[i] = 0;
  count_labels(&b.train);
  ck_assert(!before(&b)); /* less than a fifth of them */
  for (size_t i = 0; i < b.train.n / 2; i++)
    b.train.labels[i] = 0;
  count_labels(&b.train);
  ck_assert(before(&b));
  ck_assert(!before(&b));
  bench_done(&b);
}
END_TEST

START_TEST(steps_that_lead_nowhere_are_told) {
  struct bench b;
  bench_init(&b);
  b.config.train.learning_rate = 900;
  for (size_t i = 0; i < b.train.n * N_INPUTS; i++)
    b.train.floats[i] *= 1e18f;
  b.sketching = (struct sketching){.settings = &settings, .seed = {{9}}};
  ck_assert_int_eq(sketching_start(&b.sketching, &b.config, &b.train, NULL, &b.result), ERR_OK);
  ck_assert(!b.result.has_sketch);
  ck_assert_ptr_nonnull(strstr(b.result.sketch_note, "of no group"));
  bench_done(&b);
}
END_TEST

int main(void) {
  return SUITE_RUN("sketching", a_restart_takes_what_is_kept, other_labels_are_another_sketch,
                   other_inputs_scales_or_steps_are_another_sketch, runs_of_one_job_keep_their_own,
                   what_is_damaged_is_found_anew, a_loss_that_leaps_is_looked_into, labels_that_shift_are_looked_into,
                   steps_that_lead_nowhere_are_told);
}
