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

/* With momentum kept a second round goes on with the first one's; reset, it is that of a site that begins there. */
START_TEST(momentum_is_kept_or_reset) {
  struct train_config c = whole_batches(1);
  c.optimiser.momentum = 0.9;
  struct bench kept, reset, anew;
  bench_init(&kept, &c);
  bench_init(&anew, &c);
  c.momentum_reset = true;
  bench_init(&reset, &c);
  train(&kept, 1), train(&reset, 1);
  ck_assert_int_eq(learner_go_on_from(anew.learner, learner_values(reset.learner), true), ERR_OK);
  train(&kept, 2), train(&reset, 2), train(&anew, 2);
  ck_assert_mem_eq(learner_values(reset.learner), learner_values(anew.learner), anew.n * sizeof(float));
  ck_assert(memcmp(learner_values(reset.learner), learner_values(kept.learner), kept.n * sizeof(float)) != 0);
  bench_done(&kept), bench_done(&reset), bench_done(&anew);
}
END_TEST

/* ---- control variates: y = wx + b at two sites */

struct line_site {
  struct dataset train;
  struct learner *learner;
};

/* Samples at ±x on the line y = slope·x. */
static void line_site_init(struct line_site *s, const struct schema *schema, const struct train_config *train, double x,
                           double slope) {
  s->train = toy_dataset(TASK_REGRESS, 2, 1, 0);
  for (int i = 0; i < 2; i++) {
    double at = i ? -x : x;
    s->train.floats[i] = (float)at;
    s->train.targets[i] = (float)(slope * at);
  }
  const struct learner_config config = {.schema = schema, .train = *train, .init = {{9}}, .n_copies = 1};
  const struct dataset *const none[N_TEST_SETS] = {NULL};
  ck_assert_int_eq(learner_open(&config, &s->learner), ERR_OK);
  ck_assert_int_eq(learner_attach(s->learner, &s->train, none), ERR_OK);
}

static void line_site_done(struct line_site *s) {
  learner_free(s->learner);
  toy_dataset_done(&s->train);
}

/* Both train, and each merges half of the other. */
static void line_round(struct line_site sites[2], uint64_t round) {
  uint8_t payloads[2][64];
  size_t n;
  for (int k = 0; k < 2; k++) {
    struct train_report report;
    ck_assert_int_eq(learner_train(sites[k].learner, round, 0, 1, NULL, &report), ERR_OK);
    ck_assert_int_eq(learner_encode(sites[k].learner, true, payloads[k], &n), ERR_OK);
    learner_published(sites[k].learner);
  }
  for (int k = 0; k < 2; k++) {
    struct contribution c = {.copy = 0, .weight = 0.5};
    ck_assert_int_eq(learner_copy_set(sites[k].learner, 0, payloads[!k], n), ERR_OK);
    ck_assert_int_eq(learner_merge(sites[k].learner, &c, 1), ERR_OK);
  }
}

/* The slope w on which two sites agree in the end. Curvatures are 2x² = 8 and 0.5, so the mean loss is least at
 * w = (8·3 + 0.5·(−1))/8.5. Of ten steps at η = 0.1 the one goes all the way from w to 3, the other to −1 + 0.95¹⁰(w + 1). */
static double agreed_slope(bool control_variates) {
  struct contract contract = toy_regression(1);
  struct schema *schema = toy_schema("dense targets", &contract);
  struct train_config c = {.steps = 10, .batch = 2, .learning_rate = 0.1};
  struct line_site sites[2];
  c.control_variates = control_variates;
  line_site_init(&sites[0], schema, &c, 2, 3);
  line_site_init(&sites[1], schema, &c, 0.5, -1);
  for (uint64_t round = 1; round <= 200; round++)
    line_round(sites, round);
  double w = (double)learner_values(sites[0].learner)[0];
  ck_assert_double_eq_tol(w, (double)learner_values(sites[1].learner)[0], 1e-5);
  line_site_done(&sites[0]);
  line_site_done(&sites[1]);
  schema_free(schema);
  return w;
}

START_TEST(control_variates_remove_the_drift) {
  double best = (8 * 3 - 0.5) / 8.5, kept = pow(0.95, 10);
  double drifted = (3 - 1 + kept) / (2 - kept); /* w = ½(3 + −1 + kept(w + 1)) */
  ck_assert_double_eq_tol(agreed_slope(false), drifted, 1e-3);
  ck_assert_double_lt(fabs(agreed_slope(true) - best), 0.2 * fabs(drifted - best)); /* with ρ < 1 some is left */
}
END_TEST

/* What a training has changed of c_i and c goes with it. */
START_TEST(undone_rounds_leave_control_variates) {
  struct train_config c = whole_batches(3);
  c.control_variates = true;
  struct bench a, b;
  bench_init(&a, &c), bench_init(&b, &c);
  train(&a, 1), train(&b, 1);
  train(&a, 2);
  learner_undo(a.learner);
  size_t n = learner_half_bytes(b.learner);
  uint8_t *of_a = calloc(n, 1), *of_b = calloc(n, 1);
  ck_assert_uint_eq(learner_half_bytes(a.learner), n);
  learner_half_write(a.learner, of_a), learner_half_write(b.learner, of_b);
  ck_assert_mem_eq(of_a, of_b, n);
  free(of_a), free(of_b);
  bench_done(&a), bench_done(&b);
}
END_TEST

static enum err stop_at_once(void *context, size_t done, size_t total) {
  (void)context, (void)done, (void)total;
  return ERR_STOPPED;
}

/* The half is of the last training that succeeded, the model of the last merge. */
START_TEST(a_restart_behind_a_failed_training_knows_no_more_than_without) {
  struct train_config c = whole_batches(3);
  const struct work_hook hook = {stop_at_once, NULL};
  struct train_report report;
  c.control_variates = true;
  struct bench whole, cut;
  bench_init(&whole, &c), bench_init(&cut, &c);
  train(&whole, 1);
  size_t n_half = learner_half_bytes(whole.learner);
  uint8_t *half = calloc(n_half, 1);
  learner_half_write(whole.learner, half);
  ck_assert_int_eq(learner_merge(whole.learner, NULL, 0), ERR_OK);
  ck_assert_int_eq(learner_train(whole.learner, 2, 0, 1, &hook, &report), ERR_STOPPED);
  learner_undo(whole.learner);
  ck_assert_int_eq(learner_merge(whole.learner, NULL, 0), ERR_OK);
  size_t n_model = learner_model_bytes(whole.learner);
  uint8_t *model = calloc(n_model, 1);
  learner_model_write(whole.learner, model);
  ck_assert_int_eq(learner_half_read(cut.learner, half, n_half), ERR_OK);
  ck_assert_int_eq(learner_model_read(cut.learner, model, n_model), ERR_OK);
  train(&whole, 3), train(&cut, 3);
  ck_assert_mem_eq(learner_values(whole.learner), learner_values(cut.learner), whole.n * sizeof(float));
  free(half), free(model);
  bench_done(&whole), bench_done(&cut);
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
  c.proximal = 0;
  c.personal.lambda = -1;
  ck_assert_int_eq(train_config_check(&c), ERR_RANGE);
  c.personal.lambda = 0;
  c.control_variates = true;
  ck_assert_int_eq(train_config_check(&c), ERR_OK);
  c.optimiser.momentum = 0.9;
  ck_assert_int_eq(train_config_check(&c), ERR_RANGE);
}
END_TEST

int main(void) {
  return SUITE_RUN("term", proximal_pulls_to_the_start_of_the_round, proximal_begins_anew_each_round,
                   a_term_of_nothing_changes_nothing, momentum_is_kept_or_reset, control_variates_remove_the_drift,
                   undone_rounds_leave_control_variates, a_restart_behind_a_failed_training_knows_no_more_than_without,
                   bad_numbers_are_refused);
}
