/* How often `starling compare` says "helps" where nothing is gained, and how often it sees a gain that is there.
 *
 * 200 synthetic sites each, fixed seeds. Without a gain "helps" may be said of at most 5 % (10 of 200): an interval of 95 %
 * is above 0 in 2.5 % on average, so 5 is expected and more than 10 has a chance of 1.3 %, which the fixed seeds decide once.
 * With a gain of 5 points it must be seen in at least 90 %. The path is the verb's: outcomes → comparison_make → verdict. */
#include <check.h>
#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "models/judging/comparison.h"
#include "models/learner.h"
#include "tests/size.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { MOST_FALSE = 10, LIMIT_S = 50 };

/* A few under sanitisers and valgrind, which say nothing of rates. */
static size_t sites(void) {
  return least_or(2, sized(10, 200, 200));
}

static size_t least_seen(void) {
  return least_or(1, sized(7, 180, 180));
}

/* What the two models do with a sample: P(only the first right) and P(only the second right), both right else. */
struct truth {
  double only_first, only_second, both_wrong;
};

static void add_answer(struct outcomes *o, uint16_t is, bool is_right) {
  float outputs[3] = {0};
  outputs[is_right ? is : (is + 1) % 3] = 1;
  outcomes_add(o, outputs, &(struct answers){.labels = &is}, 1, 3);
}

static enum verdict judge_answers(struct rng *rng, const struct truth *truth, size_t n, enum figure figure) {
  struct outcomes alone, swarm;
  struct comparison r;
  ck_assert_int_eq(outcomes_init(&alone, TASK_CLASSIFY, 3, n), ERR_OK);
  ck_assert_int_eq(outcomes_init(&swarm, TASK_CLASSIFY, 3, n), ERR_OK);
  for (size_t i = 0; i < n; i++) {
    double u = rng_unit(rng);
    bool only_first = u < truth->only_first, only_second = !only_first && u < truth->only_first + truth->only_second;
    bool both = u >= truth->only_first + truth->only_second + truth->both_wrong;
    uint16_t is = (uint16_t)rng_below(rng, 3);
    add_answer(&alone, is, only_first || both);
    add_answer(&swarm, is, only_second || both);
  }
  ck_assert_int_eq(comparison_make(&alone, &swarm, figure, n, &r), ERR_OK);
  outcomes_done(&alone);
  outcomes_done(&swarm);
  return r.verdict;
}

/* Sites of n_least … n_most test samples, whose models differ on 4 … 30 % of them. */
static size_t count_helps(uint64_t seed, double gain, size_t n_least, size_t n_most, enum figure figure) {
  struct rng rng;
  size_t n_helps = 0;
  rng_init(&rng, seed);
  for (size_t i = 0; i < sites(); i++) {
    size_t n = n_least + (size_t)rng_below(&rng, n_most - n_least + 1);
    double differ = fmax(0.04 + 0.26 * rng_unit(&rng), gain);
    struct truth truth = {.only_first = (differ - gain) / 2, .only_second = (differ + gain) / 2, .both_wrong = 0.1};
    n_helps += judge_answers(&rng, &truth, n, figure) == VERDICT_HELPS;
  }
  return n_helps;
}

START_TEST(equal_models) {
  size_t n = count_helps(1, 0, 50, 1000, FIGURE_ACCURACY);
  printf("equal accuracy, 50 … 1000 samples: \"helps\" %zu of %zu\n", n, sites());
  ck_assert_uint_le(n, MOST_FALSE);
  ck_assert(n > 0 || size_is_small()); /* a test that never says it is none */
}
END_TEST

START_TEST(equal_models_by_balanced_accuracy) {
  size_t n = count_helps(2, 0, 50, 300, FIGURE_BALANCED);
  printf("balanced accuracy by the bootstrap, 50 … 300 samples: \"helps\" %zu of %zu\n", n, sites());
  ck_assert_uint_le(n, MOST_FALSE);
}
END_TEST

START_TEST(a_gain_of_five_points) {
  size_t n = count_helps(3, 0.05, 2000, 2000, FIGURE_ACCURACY);
  printf("5 points at 2000 samples: \"helps\" %zu of %zu\n", n, sites());
  ck_assert_uint_ge(n, least_seen());
}
END_TEST

/* ---- trained models ---- */

enum { N_INPUTS = 6, N_CLASSES = 3, ROUNDS = 10, N_TRAIN = 400, N_FEW = 40 };

/* Overlapping clouds, so that accuracies are near 70 % and two models differ on a tenth of the samples. */
static struct dataset noisy_clouds(uint64_t seed, size_t n) {
  struct dataset d = toy_clouds(seed, n, N_INPUTS, N_CLASSES);
  struct rng rng;
  rng_init(&rng, seed ^ 0xfeed);
  for (size_t i = 0; i < n * N_INPUTS; i++)
    d.floats[i] += (float)(2.0 * toy_normal(&rng));
  return d;
}

static void train_model(const struct schema *schema, const struct dataset *train, const struct dataset *test,
                        uint64_t train_seed, struct metrics *out_metrics) {
  struct learner_config config = {
      .schema = schema,
      .train = {.epochs = 1, .batch = 16, .learning_rate = 0.02, .optimiser = {.momentum = 0.5}},
      .train_seed = train_seed};
  const struct dataset *const tests[N_TEST_SETS] = {[TEST_LOCAL] = test};
  struct train_report report;
  struct learner *l;
  ck_assert_int_eq(learner_open(&config, &l), ERR_OK);
  ck_assert_int_eq(learner_attach(l, train, tests), ERR_OK);
  for (uint64_t round = 1; round <= ROUNDS; round++)
    ck_assert_int_eq(learner_train(l, round, 0, 1, NULL, &report), ERR_OK);
  ck_assert_int_eq(learner_evaluate(l, TEST_LOCAL, NULL, out_metrics), ERR_OK);
  learner_free(l);
}

/* Two trainings with other seeds; the first sees n_own of the N_TRAIN samples. */
static enum verdict judge_trainings(const struct schema *schema, uint64_t site, size_t n_test, size_t n_own) {
  struct dataset all = noisy_clouds(10 * site + 1, N_TRAIN), test = noisy_clouds(10 * site + 2, n_test);
  struct dataset own = all;
  struct metrics alone, swarm;
  struct comparison r;
  own.n = n_own;
  train_model(schema, &own, &test, 2 * site, &alone);
  train_model(schema, &all, &test, 2 * site + 1, &swarm);
  ck_assert_int_eq(comparison_make(&alone.outcomes, &swarm.outcomes, FIGURE_ACCURACY, site, &r), ERR_OK);
  metrics_done(&alone);
  metrics_done(&swarm);
  toy_dataset_done(&all);
  toy_dataset_done(&test);
  return r.verdict;
}

static size_t count_trained_helps(size_t n_test, size_t n_own) {
  struct contract contract = toy_classes(N_INPUTS, N_CLASSES);
  struct schema *schema = toy_schema("dense 12, relu, dense classes", &contract);
  struct rng rng;
  size_t n_helps = 0;
  rng_init(&rng, 4);
  for (uint64_t site = 1; site <= sites(); site++) {
    size_t n = n_test ? n_test : 50 + (size_t)rng_below(&rng, 951);
    n_helps += judge_trainings(schema, site, n, n_own) == VERDICT_HELPS;
  }
  schema_free(schema);
  return n_helps;
}

/* The luck of a seed is a true difference of these two models, which the interval rightly sees: it adds to the 2.5 %. Over
 * 1000 sites 2.2 % were measured with these numbers, 3.0 … 4.3 % with fewer samples, fewer rounds or a higher rate. */
START_TEST(other_train_seeds) {
  size_t n = count_trained_helps(0, N_TRAIN);
  printf("same data and steps, other train seeds: \"helps\" %zu of %zu\n", n, sites());
  ck_assert_uint_le(n, MOST_FALSE);
}
END_TEST

START_TEST(ten_times_the_samples) {
  size_t n = count_trained_helps(2000, N_FEW);
  printf("%d training samples against %d, 2000 test samples: \"helps\" %zu of %zu\n", N_FEW, N_TRAIN, n, sites());
  ck_assert_uint_ge(n, least_seen());
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN("helps", LIMIT_S, equal_models, equal_models_by_balanced_accuracy, a_gain_of_five_points,
                          other_train_seeds, ten_times_the_samples);
}
