/* What test_gradient.c does not see of batchnorm: running values, its two modes, a single value; all by hand. */
#include "models/net/net.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

#define CHANNELS ((uint32_t)2)
enum { BIAS = 2, MEAN = 4, VARIANCE = 6, P = 8 };

struct bench {
  struct contract contract;
  struct schema *schema;
  struct net *net;
  float w[P];
};

static void bench_open(struct bench *b, struct contract contract) {
  *b = (struct bench){.contract = contract, .w = {1, 1, 0, 0, 0, 0, 1, 1}};
  b->schema = toy_schema("batchnorm", &b->contract); /* there are as many classes as it has outputs */
  ck_assert_uint_eq(schema_parameters(b->schema), P);
  ck_assert_int_eq(net_open(schema_arch(b->schema), &(struct net_config){.max_batch = 8, .batch = 8}, &b->net), ERR_OK);
}

static void bench_done(struct bench *b) {
  net_free(b->net);
  schema_free(b->schema);
}

static const float *forward(struct bench *b, const float *x, size_t n, bool training) {
  memcpy(net_input(b->net), x, n * schema_arch(b->schema)->n_inputs * sizeof *x);
  return training ? net_forward_training(b->net, b->w, n, NULL) : net_forward(b->net, b->w, n);
}

/* Channel 0 has 1, 3, 8: mean 4, variance 26/3, unbiased 13. Channel 1 is constant. */
static const float batch[] = {1, 5, 3, 5, 8, 5};

static void expect_moved(const struct bench *b, const float *z) {
  ck_assert_float_eq_tol(z[0], -3 / sqrtf(26 / 3.0f), 1e-5f);
  ck_assert_float_eq_tol(z[4], 4 / sqrtf(26 / 3.0f), 1e-5f);
  ck_assert_float_eq(z[1], 0);
  ck_assert_float_eq_tol(b->w[MEAN], 0.4f, 1e-6f);
  ck_assert_float_eq_tol(b->w[MEAN + 1], 0.5f, 1e-6f);
  ck_assert_float_eq_tol(b->w[VARIANCE], 0.9f + 1.3f, 1e-6f);
  ck_assert_float_eq_tol(b->w[VARIANCE + 1], 0.9f, 1e-6f);
}

START_TEST(training_moves_running_values) {
  struct bench b;
  bench_open(&b, toy_classes(CHANNELS, CHANNELS));
  expect_moved(&b, forward(&b, batch, 3, true));
  bench_done(&b);
}
END_TEST

/* One sample of three positions is as three rows. */
START_TEST(positions_are_values_of_a_channel) {
  struct bench b;
  bench_open(&b, toy_image(1, 3, CHANNELS, (size_t)3 * CHANNELS, 1));
  expect_moved(&b, forward(&b, batch, 1, true));
  bench_done(&b);
}
END_TEST

START_TEST(evaluation_takes_running_values_and_leaves_them) {
  struct bench b;
  const float w[P] = {2, 1, 0.5f, 0, 1, 5, 4 - 1e-5f, 1};
  bench_open(&b, toy_classes(CHANNELS, CHANNELS));
  memcpy(b.w, w, sizeof w);
  const float *z = forward(&b, batch, 3, false);
  for (size_t i = 0; i < 3; i++) {
    ck_assert_float_eq_tol(z[2 * i], (batch[2 * i] - 1) / 2 * 2 + 0.5f, 1e-5f);
    ck_assert_float_eq(z[2 * i + 1], 0);
  }
  for (size_t i = 0; i < P; i++)
    ck_assert_float_eq(b.w[i], w[i]);
  bench_done(&b);
}
END_TEST

/* No variance of one value: the running ones stand in, stay, and are constants to the gradient. */
START_TEST(single_value_takes_running_values) {
  struct bench b;
  const float w[P] = {2, 1, 0, 0, -1, 0, 4 - 1e-5f, 1}, d_z[] = {3, -1};
  float g[P] = {0};
  bench_open(&b, toy_classes(CHANNELS, CHANNELS));
  memcpy(b.w, w, sizeof w);
  const float *z = forward(&b, batch, 1, true);
  ck_assert_float_eq_tol(z[0], 2, 1e-5f);
  ck_assert_mem_eq(b.w, w, sizeof w);
  net_backward(b.net, b.w, d_z, 0, g);
  ck_assert_float_eq_tol(g[0], 3 * 1, 1e-5f); /* x̂ = (1 + 1)/2 */
  ck_assert_float_eq_tol(g[1], -5, 1e-4f);
  ck_assert_float_eq(g[BIAS], 3);
  ck_assert_float_eq(g[BIAS + 1], -1);
  bench_done(&b);
}
END_TEST

/* Whatever a peer or a file says, nothing becomes NaN. */
START_TEST(negative_variance_is_none) {
  struct bench b;
  bench_open(&b, toy_classes(CHANNELS, CHANNELS));
  b.w[VARIANCE] = -9;
  ck_assert_float_eq_tol(forward(&b, batch, 3, false)[0], 1 / sqrtf(1e-5f), 0.1f);
  bench_done(&b);
}
END_TEST

int main(void) {
  return SUITE_RUN("norm", training_moves_running_values, positions_are_values_of_a_channel,
                   evaluation_takes_running_values_and_leaves_them, single_value_takes_running_values,
                   negative_variance_is_none);
}
