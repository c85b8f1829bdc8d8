#include "models/term.h"

#include "models/learner.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { N_INPUTS = 5, N_CLASSES = 3, N_SAMPLES = 24 };

/* A learner whose every step sees all samples, so that its gradient hangs on the model alone. */
struct bench {
  struct contract contract;
  struct schema *schema;
  struct dataset train;
  struct learner *learner;
  size_t n; /* P */
};

static void bench_init(struct bench *b, const struct train_config *train) {
  b->contract = toy_classes(N_INPUTS, N_CLASSES);
  b->schema = toy_schema("dense 7, tanh, dense classes", &b->contract);
  b->n = schema_parameters(b->schema);
  b->train = toy_clouds(1, N_SAMPLES, N_INPUTS, N_CLASSES);
  struct learner_config config = {.schema = b->schema, .train = *train, .init = {{9}}, .train_seed = 5, .n_copies = 1};
  schema_hash(b->schema, &kit_digest, &config.schema_hash);
  const struct dataset *const none[N_TEST_SETS] = {NULL};
  ck_assert_int_eq(learner_open(&config, &b->learner), ERR_OK);
  ck_assert_int_eq(learner_attach(b->learner, &b->train, none), ERR_OK);
}

static void bench_done(struct bench *b) {
  learner_free(b->learner);
  schema_free(b->schema);
  toy_dataset_done(&b->train);
}

static struct train_config whole_batches(uint32_t steps) {
  return (struct train_config){.steps = steps, .batch = N_SAMPLES, .learning_rate = 0.1};
}

static void train(struct bench *b, uint64_t round) {
  struct train_report report;
  ck_assert_int_eq(learner_train(b->learner, round, 0, 1, NULL, &report), ERR_OK);
}

static float *values_of(const struct bench *b) {
  float *x = calloc(b->n, sizeof *x);
  ck_assert_ptr_nonnull(x);
  memcpy(x, learner_values(b->learner), b->n * sizeof *x);
  return x;
}

/* The model after so many steps in one round. */
static float *after(uint32_t steps, double proximal) {
  struct bench b;
  struct train_config c = whole_batches(steps);
  c.proximal = proximal;
  bench_init(&b, &c);
  train(&b, 1);
  float *x = values_of(&b);
  bench_done(&b);
  return x;
}

static void assert_near(const float *x, const float *expected, size_t n, double apart) {
  for (size_t i = 0; i < n; i++)
    ck_assert_double_eq_tol((double)x[i], (double)expected[i], apart);
}

/* x₁ = x₀ − η∇(x₀), for the pull is 0 there; x₂ = x₁ − η(∇(x₁) + μ(x₁ − x₀)) = plain x₂ − ημ(x₁ − x₀). */
START_TEST(proximal_pulls_to_the_start_of_the_round) {
  struct bench b;
  const struct train_config c = whole_batches(1);
  const double mu = 2.5;
  bench_init(&b, &c);
  float *x0 = values_of(&b), *x1 = after(1, 0), *x2 = after(2, 0), *first = after(1, mu), *second = after(2, mu);
  double moved = 0;
  assert_near(first, x1, b.n, 1e-6);
  for (size_t i = 0; i < b.n; i++) {
    double pulled = (double)x2[i] - c.learning_rate * mu * ((double)x1[i] - (double)x0[i]);
    ck_assert_double_eq_tol((double)second[i], pulled, 1e-6);
    moved = fmax(moved, fabs((double)second[i] - (double)x2[i]));
  }
  ck_assert_double_gt(moved, 1e-3); /* or nothing was tested */
  free(x0), free(x1), free(x2), free(first), free(second);
  bench_done(&b);
}
END_TEST

/* The next round begins where this one ended, and so does its pull. */
START_TEST(proximal_begins_anew_each_round) {
  struct bench b;
  struct train_config c = whole_batches(1);
  c.proximal = 1000; /* a second step would fly off */
  bench_init(&b, &c);
  train(&b, 1);
  train(&b, 2);
  float *x = values_of(&b), *plain = after(2, 0);
  assert_near(x, plain, b.n, 1e-6);
  free(x), free(plain);
  bench_done(&b);
}
END_TEST

/* Gradient and step apart are the same training as both at once. */
START_TEST(a_term_of_nothing_changes_nothing) {
  float *plain = after(6, 0), *with = after(6, 1e-30);
  struct bench b;
  const struct train_config c = whole_batches(1);
  bench_init(&b, &c);
  assert_near(with, plain, b.n, 1e-6);
  free(plain), free(with);
  bench_done(&b);
}
END_TEST

START_TEST(bad_numbers_are_refused) {
  struct train_config c = whole_batches(1);
  c.optimiser.momentum = 0;
  ck_assert_int_eq(train_config_check(&c), ERR_OK);
  c.proximal = -0.1;
  ck_assert_int_eq(train_config_check(&c), ERR_RANGE);
  c.proximal = (double)NAN;
  ck_assert_int_eq(train_config_check(&c), ERR_RANGE);
}
END_TEST

int main(void) {
  return SUITE_RUN("term", proximal_pulls_to_the_start_of_the_round, proximal_begins_anew_each_round,
                   a_term_of_nothing_changes_nothing, bad_numbers_are_refused);
}
