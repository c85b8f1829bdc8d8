#include "agent/run/shadow.h"

#include <math.h>

#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { N_INPUTS = 4, N_CLASSES = 3 };

/* What a shadow needs from its site. */
struct bench {
  struct contract contract;
  struct schema *schema;
  struct dataset train, test;
  const struct dataset *tests[N_TEST_SETS];
  struct learner_config learner;
  struct buffer stored;
};

static void bench_init(struct bench *b) {
  *b = (struct bench){.contract = toy_classes(N_INPUTS, N_CLASSES)};
  b->schema = toy_schema("dense 8, relu, dropout 0.2, dense classes", &b->contract);
  b->train = toy_clouds(1, 90, N_INPUTS, N_CLASSES);
  b->test = toy_clouds(2, 60, N_INPUTS, N_CLASSES);
  b->tests[TEST_LOCAL] = &b->test;
  b->learner = (struct learner_config){
      .schema = b->schema,
      .train = {.epochs = 1, .batch = 16, .learning_rate = 0.05, .optimiser = {.momentum = 0.9}},
      .train_seed = 5,
      .n_copies = 2};
}

static void bench_done(struct bench *b) {
  schema_free(b->schema);
  toy_dataset_done(&b->train);
  toy_dataset_done(&b->test);
  free(b->stored.bytes);
}

static struct shadow open_shadow(const struct bench *b, enum shadow_mode mode, bool is_first) {
  struct shadow s;
  const struct shadow_start start = {.mode = mode,
                                     .learner = &b->learner,
                                     .train = &b->train,
                                     .tests = b->tests,
                                     .stored = &b->stored,
                                     .is_first = is_first,
                                     .metric = METRIC_ACCURACY};
  ck_assert_int_eq(shadow_open(&s, &start), ERR_OK);
  return s;
}

static void pay(struct shadow *s, uint64_t round) {
  shadow_owe(s, (struct round_label){.round = round}, 1, 0);
  shadow_pay(s, NULL);
  ck_assert_ptr_nonnull(s->learner);
}

START_TEST(when_there_is_one) {
  static const struct {
    enum shadow_mode mode;
    size_t n_peers;
    bool is_first, is_stored, is_there;
  } cases[] = {
      {SHADOW_AUTO, 2, true, false, true},  {SHADOW_AUTO, 2, false, true, true}, {SHADOW_AUTO, 2, false, false, false},
      {SHADOW_AUTO, 0, true, false, false}, {SHADOW_ON, 2, false, false, true},  {SHADOW_ON, 0, true, false, true},
      {SHADOW_OFF, 2, true, true, false},
  };
  struct bench b;
  bench_init(&b);
  struct shadow first = open_shadow(&b, SHADOW_ON, true);
  struct buffer stored;
  ck_assert_int_eq(shadow_write(&first, &stored), ERR_OK);
  shadow_close(&first);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    b.learner.n_copies = cases[i].n_peers;
    b.stored = cases[i].is_stored ? stored : (struct buffer){0};
    struct shadow s = open_shadow(&b, cases[i].mode, cases[i].is_first);
    ck_assert_msg((s.learner != NULL) == cases[i].is_there, "case %zu", i);
    ck_assert(s.figures.is_on == cases[i].is_there);
    shadow_close(&s);
  }
  b.stored = stored;
  bench_done(&b);
}
END_TEST

/* Stored and opened again in between, it comes to the same bits as in one go, and as a plain learner. */
START_TEST(it_goes_on_after_a_restart) {
  struct bench b;
  struct learner *plain;
  struct train_report report;
  struct buffer half, whole;
  uint64_t n_trainings, n_steps;
  bench_init(&b);
  for (uint64_t round = 1; round <= 4; round++) {
    struct shadow s = open_shadow(&b, SHADOW_AUTO, round == 1);
    pay(&s, round);
    free(b.stored.bytes);
    ck_assert_int_eq(shadow_write(&s, &b.stored), ERR_OK);
    ck_assert(s.figures.headline > 0.3 && s.figures.seconds > 0);
    shadow_close(&s);
  }
  ck_assert_int_eq(shadow_split(&b.stored, &half, &n_trainings, &n_steps), ERR_OK);
  ck_assert_uint_eq(n_trainings, 4);
  ck_assert_uint_eq(n_steps, 24); /* 4 rounds of 6 */
  ck_assert_int_eq(learner_open(&b.learner, &plain), ERR_OK);
  ck_assert_int_eq(learner_attach(plain, &b.train, b.tests), ERR_OK);
  for (uint64_t round = 1; round <= 4; round++)
    ck_assert_int_eq(learner_train(plain, round, 0, 1, NULL, &report), ERR_OK);
  whole = (struct buffer){malloc(learner_half_bytes(plain)), learner_half_bytes(plain)};
  learner_half_write(plain, whole.bytes);
  ck_assert_uint_eq(half.n_bytes, whole.n_bytes);
  ck_assert_mem_eq(half.bytes, whole.bytes, whole.n_bytes);
  free(whole.bytes);
  learner_free(plain);
  bench_done(&b);
}
END_TEST

START_TEST(as_many_steps_as_the_site) {
  struct bench b;
  bench_init(&b);
  struct shadow s = open_shadow(&b, SHADOW_ON, true);
  shadow_owe(&s, (struct round_label){.round = 1}, 1, 4);
  shadow_pay(&s, NULL);
  ck_assert_uint_eq(s.figures.n_steps, 4);
  shadow_close(&s);
  bench_done(&b);
}
END_TEST

START_TEST(what_cannot_be_read_is_a_note) {
  struct bench b;
  bench_init(&b);
  b.stored = (struct buffer){calloc(1, 200), 200};
  struct shadow s = open_shadow(&b, SHADOW_ON, false);
  ck_assert_ptr_null(s.learner);
  ck_assert_ptr_nonnull(strstr(s.note, "the stored model trained alone"));
  shadow_owe(&s, (struct round_label){.round = 1}, 1, 0); /* nothing happens */
  shadow_pay(&s, NULL);
  struct buffer nothing;
  ck_assert_int_eq(shadow_write(&s, &nothing), ERR_OK);
  ck_assert_uint_eq(nothing.n_bytes, 0);
  shadow_close(&s);
  bench_done(&b);
}
END_TEST

START_TEST(a_training_that_fails_ends_it) {
  struct bench b;
  bench_init(&b);
  b.learner.train.learning_rate = 1000;
  struct shadow s = open_shadow(&b, SHADOW_ON, true);
  for (uint64_t round = 1; round < 100 && s.learner; round++) {
    shadow_owe(&s, (struct round_label){.round = round}, 1e30, 0);
    shadow_pay(&s, NULL);
  }
  ck_assert_ptr_null(s.learner);
  ck_assert_ptr_nonnull(strstr(s.note, "its training failed"));
  ck_assert(!s.figures.is_on);
  shadow_close(&s);
  bench_done(&b);
}
END_TEST

/* Rounds of which the shadow takes a share, as the trainer tells it, a part of it for storing; returns how many until it was
 * given up, 0 if not. */
static size_t rounds_until_given_up_storing(enum shadow_mode mode, const double *shares, size_t n, double storing) {
  struct bench b;
  bench_init(&b);
  struct shadow s = open_shadow(&b, mode, true);
  size_t given_up = 0;
  double now = 1000;
  for (size_t i = 0; i < n && !given_up; i++) {
    shadow_stored(&s, i > 0 ? shares[i - 1] * storing : 0);
    shadow_round(&s, now);
    if (!s.learner)
      given_up = i;
    else
      pay(&s, i + 1);
    s.figures.seconds = shares[i] * (1 - storing);
    now += 1;
  }
  if (given_up)
    ck_assert_ptr_nonnull(strstr(s.note, "alone: { shadow: on }"));
  shadow_close(&s);
  bench_done(&b);
  return given_up;
}

static size_t rounds_until_given_up(enum shadow_mode mode, const double *shares, size_t n) {
  return rounds_until_given_up_storing(mode, shares, n, 0);
}

START_TEST(auto_looks_at_the_median) {
  static const double dear[] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, cheap[12] = {0.09, 0.09, 0.09, 0.09, 0.09, 0.09};
  static const double odd[] = {0.9, 0.01, 0.9, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.9, 0.01, 0.9};
  static const double rising[] = {0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3};
  ck_assert_uint_eq(rounds_until_given_up(SHADOW_AUTO, dear, 6), SHADOW_DECIDE);
  ck_assert_uint_eq(rounds_until_given_up(SHADOW_ON, dear, 6), 0);
  ck_assert_uint_eq(rounds_until_given_up_storing(SHADOW_AUTO, dear, 6, 0.9), SHADOW_DECIDE); /* 0.05 for training */
  ck_assert_uint_eq(rounds_until_given_up_storing(SHADOW_AUTO, cheap, 12, 0.9), 0);
  ck_assert_uint_eq(rounds_until_given_up(SHADOW_AUTO, cheap, 12), 0);
  ck_assert_uint_ne(rounds_until_given_up(SHADOW_AUTO, odd, 12), 3);     /* not before it decides */
  ck_assert_uint_eq(rounds_until_given_up(SHADOW_AUTO, rising, 14), 10); /* four of eight: the median is in between */
}
END_TEST

START_TEST(cost_of_the_window) {
  struct shadow_cost c = {0};
  ck_assert(shadow_cost_share(&c) == 0);
  shadow_cost_put(&c, 1, 4);
  ck_assert_double_eq_tol(shadow_cost_share(&c), 0.25, 1e-12);
  shadow_cost_put(&c, 3, 4);
  ck_assert_double_eq_tol(shadow_cost_share(&c), 0.5, 1e-12);
  for (size_t i = 0; i < SHADOW_WINDOW; i++)
    shadow_cost_put(&c, 1, 8);
  ck_assert_double_eq_tol(shadow_cost_share(&c), 0.125, 1e-12);
  shadow_cost_put(&c, 1, 0); /* no time at all is all of it */
  ck_assert_double_eq_tol(shadow_cost_share(&c), 0.125, 1e-12);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/shadow", when_there_is_one, it_goes_on_after_a_restart, as_many_steps_as_the_site,
                   what_cannot_be_read_is_a_note, a_training_that_fails_ends_it, auto_looks_at_the_median,
                   cost_of_the_window);
}
