#include "models/tuning/tuner.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

/* A made-up host: kernels with a rate, a cost a call and a width below which they are wasted; caches, processors, the sum of
 * the lanes' gradients; and ±2 % that nobody can foresee. LeNet for batches of 32. */

enum { BATCH = 32, N_OPERATIONS = 4, N_KERNELS = 7 };

static const struct tuner_operation operations[N_OPERATIONS] = {
    {.pixels = 576, .depth = 25, .channels = 8, .count = 1, .n_variants = 4, .variants = {0, 1, 2, 3}},
    {.pixels = 64, .depth = 200, .channels = 16, .count = 1, .n_variants = 4, .variants = {0, 1, 2, 3}},
    {.pixels = 1, .depth = 256, .channels = 128, .count = 1, .n_variants = 3, .variants = {4, 5, 6}},
    {.pixels = 1, .depth = 128, .channels = 10, .count = 1, .n_variants = 3, .variants = {4, 5, 6}},
};

static const struct {
  double rate, call, wasted_channels, wasted_samples;
} kernels[N_KERNELS] = {{2e9, 1e-7, 0, 0.5},   {2e10, 2e-6, 0, 0.5}, {4e10, 5e-7, 8, 0.5}, {3e10, 3e-6, 12, 0.5},
                        {1.5e9, 1e-7, 0, 8.0}, {2.5e10, 1e-6, 0, 8}, {5e10, 5e-7, 8, 8}};

static struct tuner_split splits[64];
static size_t n_splits;

static void make_splits(void) {
  n_splits = 0;
  for (uint32_t lanes = 1; lanes <= 8; lanes *= 2)
    for (uint32_t threads = 1; threads <= lanes && threads <= 4; threads *= 2)
      for (uint32_t block = 0; block < BATCH / lanes; block = block ? 2 * block : 4)
        splits[n_splits++] = (struct tuner_split){lanes, threads, block};
}

static double truth(size_t operation, const struct tuner_split *s, uint32_t variant, double processors, uint64_t seed) {
  const struct tuner_operation *o = &operations[operation];
  size_t k = o->variants[variant];
  double of_lane = ceil((double)BATCH / s->lanes), at_once = s->block ? fmin(s->block, of_lane) : of_lane;
  double useful =
      o->channels / (o->channels + kernels[k].wasted_channels) * at_once / (at_once + kernels[k].wasted_samples);
  double missed = 1 + 0.5 * log1p(at_once * o->pixels * o->channels * 4 / 1e6);
  double lane = 6 * o->pixels * o->depth * o->channels * of_lane / (kernels[k].rate * useful) * missed +
                ceil(of_lane / at_once) * kernels[k].call;
  double sum = s->lanes > 1 ? s->lanes * o->depth * o->channels / 4e9 : 0;
  double seconds = lane * ceil((double)s->lanes / s->threads) * s->threads / fmin(s->threads, processors) + sum;
  uint64_t h = rng_mix(rng_mix(rng_mix(seed + operation) + variant) + s->lanes * UINT64_C(1000) +
                       s->threads * UINT64_C(100) + s->block);
  return (seconds + (s->threads > 1 ? 4e-6 : 0)) * (1 + 0.04 * ((double)(h >> 11) * 0x1p-53 - 0.5));
}

static double best_of(double processors, uint64_t seed) {
  double best = INFINITY;
  for (size_t s = 0; s < n_splits; s++) {
    double seconds = 0;
    for (size_t o = 0; o < N_OPERATIONS; o++) {
      double fastest = INFINITY;
      for (uint32_t v = 0; v < operations[o].n_variants; v++)
        fastest = fmin(fastest, truth(o, &splits[s], v, processors, seed));
      seconds += fastest;
    }
    best = fmin(best, seconds);
  }
  return best;
}

static uint64_t n_seeds(void) {
  return sized(3, 6, 6);
}

static struct tuner_config config_of(double processors, uint64_t seed) {
  struct tuner_config c = tuner_defaults();
  c.operations = operations;
  c.n_operations = N_OPERATIONS;
  c.splits = splits;
  c.n_splits = n_splits;
  c.batch = BATCH;
  c.n_variants = N_KERNELS;
  c.host.processors = processors;
  c.seed = seed;
  return c;
}

/* How much slower than the best the tuner's choice is, as a share; what it learnt goes on in *model. */
static double regret(const struct tuner_config *c, struct cost_model **model, size_t *out_cells, size_t *out_measured) {
  struct tuner *t;
  struct tuner_cell cell;
  struct tuner_choice choice;
  bool has;
  ck_assert_int_eq(tuner_new(c, &t), ERR_OK);
  for (;;) {
    ck_assert_int_eq(tuner_next(t, &cell, &has), ERR_OK);
    if (!has)
      break;
    tuner_put(t, &cell, truth(cell.operation, &splits[cell.split], cell.variant, c->host.processors, c->seed));
  }
  ck_assert_int_eq(tuner_choose(t, &choice), ERR_OK);
  double seconds = 0;
  for (size_t o = 0; o < N_OPERATIONS; o++)
    seconds += truth(o, &splits[choice.split], choice.variants[o], c->host.processors, c->seed);
  *out_cells = tuner_cells(t);
  *out_measured = tuner_measured(t);
  if (model) {
    struct cost_model *learnt;
    ck_assert_int_eq(cost_new(N_KERNELS, &learnt), ERR_OK);
    ck_assert_int_eq(cost_take(learnt, cost_weights(tuner_model(t))), ERR_OK);
    cost_free(*model);
    *model = learnt;
  }
  tuner_free(t);
  return seconds / best_of(c->host.processors, c->seed) - 1;
}

START_TEST(a_tenth_of_the_grid_is_enough) {
  double mean = 0, worst = 0, of_random = 0;
  size_t cells, measured;
  make_splits();
  for (uint64_t seed = 0; seed < n_seeds(); seed++) {
    struct tuner_config c = config_of(2, seed);
    double r = regret(&c, NULL, &cells, &measured);
    ck_assert_uint_ge(cells, 200);
    ck_assert_uint_le(10 * measured, cells);
    mean += r / (double)n_seeds();
    worst = fmax(worst, r);
    c.weights = (struct sampler_weights){0};
    c.explored = 1;
    of_random += regret(&c, NULL, &cells, &measured) / (double)n_seeds();
  }
  printf("tuner: regret %.3f, worst %.3f; random sampling %.3f\n", mean, worst, of_random);
  ck_assert_double_le(mean, 0.05);
  ck_assert_double_le(worst, 0.15);
  ck_assert(size_is_small() || of_random > 2 * mean);
}
END_TEST

static double return_regret(double keep, uint64_t seed) {
  struct cost_model *model = NULL;
  size_t cells, measured;
  struct tuner_config c = config_of(2, seed);
  regret(&c, &model, &cells, &measured);
  c = config_of(0.4, seed);
  tuner_learn_again(&c, model, (struct tuner_host){2, 0});
  c.keep = keep;
  struct cost_model *slow = NULL;
  regret(&c, &slow, &cells, &measured);
  ck_assert_uint_le(measured, 8);
  c = config_of(2, seed);
  tuner_learn_again(&c, slow, (struct tuner_host){0.4, 0});
  c.keep = keep;
  double r = regret(&c, NULL, &cells, &measured);
  cost_free(model);
  cost_free(slow);
  return r;
}

START_TEST(a_host_that_comes_back_is_remembered) {
  double kept = 0, forgotten = 0;
  make_splits();
  for (uint64_t seed = 0; seed < n_seeds(); seed++) {
    kept += return_regret(0.5, seed) / (double)n_seeds();
    forgotten += return_regret(0, seed) / (double)n_seeds();
  }
  printf("tuner: regret on return %.3f, without distillation %.3f\n", kept, forgotten);
  ck_assert_double_le(kept, 0.05);
  ck_assert_double_gt(forgotten, 4 * kept);
}
END_TEST

START_TEST(the_caller_may_stop_at_any_time) {
  struct tuner *t;
  struct tuner_cell cell;
  struct tuner_choice choice;
  bool has, measured;
  make_splits();
  struct tuner_config c = config_of(2, 1);
  ck_assert_int_eq(tuner_new(&c, &t), ERR_OK);
  ck_assert_int_eq(tuner_next(t, &cell, &has), ERR_OK);
  ck_assert(has);
  tuner_put(t, &cell, 0.25);
  ck_assert_int_eq(tuner_choose(t, &choice), ERR_OK);
  ck_assert_uint_lt(choice.split, n_splits);
  ck_assert_double_eq_tol(tuner_believes(t, &cell, &measured), 0.25, 1e-12);
  ck_assert(measured);
  tuner_free(t);
}
END_TEST

START_TEST(what_cannot_be_tuned_is_refused) {
  make_splits();
  const struct tuner_operation odd[] = {
      {.pixels = 1, .depth = 1, .channels = 1, .count = 1},                                       /* no variant */
      {.pixels = 0, .depth = 1, .channels = 1, .count = 1, .n_variants = 1},                      /* no work */
      {.pixels = 1, .depth = 1, .channels = 1, .count = 1, .n_variants = MAX_TUNER_VARIANTS + 1}, /* too many */
      {.pixels = 1, .depth = 1, .channels = 1, .count = 1, .n_variants = 1, .variants = {N_KERNELS}},
  };
  struct tuner *t;
  struct tuner_config c = config_of(2, 1);
  c.n_operations = 1;
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    c.operations = &odd[i];
    ck_assert_int_eq(tuner_new(&c, &t), ERR_RANGE);
  }
  c = config_of(2, 1);
  c.n_splits = 0;
  ck_assert_int_eq(tuner_new(&c, &t), ERR_RANGE);
  c = config_of(0, 1);
  ck_assert_int_eq(tuner_new(&c, &t), ERR_RANGE);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/tuner", a_tenth_of_the_grid_is_enough, a_host_that_comes_back_is_remembered,
                   the_caller_may_stop_at_any_time, what_cannot_be_tuned_is_refused);
}
