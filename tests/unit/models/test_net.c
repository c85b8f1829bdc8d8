#include "models/net/net.h"

#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

static const struct digest seed = {{1, 2, 3}};

START_TEST(first_weights) {
  struct contract c = toy_classes(30, 4);
  struct schema *s = toy_schema("dense 20, relu, dense 10, tanh, softmax", &c);
  size_t n = schema_parameters(s);
  float *w = calloc(n, sizeof *w), *again = calloc(n, sizeof *again);
  net_init_weights(schema_arch(s), &seed, w);
  net_init_weights(schema_arch(s), &seed, again);
  ck_assert_mem_eq(w, again, n * sizeof *w);
  const double bounds[] = {sqrt(6.0 / 30), 0, sqrt(6.0 / (20 + 10)), 0, sqrt(6.0 / (10 + 4)), 0};
  for (size_t t = 0; t < schema_tensors(s); t++) {
    const struct tensor *tensor = schema_tensor(s, t);
    double largest = 0, sum = 0;
    for (size_t i = 0; i < tensor->n_values; i++) {
      largest = fmax(largest, fabs((double)w[tensor->offset + i]));
      sum += (double)w[tensor->offset + i];
    }
    ck_assert_double_le(largest, bounds[t]);
    ck_assert_double_ge(largest, 0.8 * bounds[t]);
    ck_assert_double_le(fabs(sum / (double)tensor->n_values), 0.25 * bounds[t]);
  }
  struct digest other = {{1, 2, 4}};
  net_init_weights(schema_arch(s), &other, again);
  ck_assert_mem_ne(w, again, n * sizeof *w);
  free(w);
  free(again);
  schema_free(s);
}
END_TEST

#define INPUTS ((size_t)13)
#define BATCH ((size_t)9)

/* A sample's outputs do not depend on what else is in the batch, up to the order of float sums. */
START_TEST(rows_are_independent) {
  struct contract c = toy_classes(INPUTS, 3);
  struct schema *s = toy_schema("dense 17, relu, dropout 0.5, dense classes", &c);
  float *w = calloc(schema_parameters(s), sizeof *w);
  float x[BATCH * INPUTS], together[BATCH * 3];
  struct rng rng;
  struct net *net;
  rng_init(&rng, 5);
  for (size_t i = 0; i < BATCH * INPUTS; i++)
    x[i] = (float)toy_normal(&rng);
  net_init_weights(schema_arch(s), &seed, w);
  ck_assert_int_eq(net_open(schema_arch(s), &(struct net_config){.max_batch = BATCH}, &net), ERR_OK);
  memcpy(net_input(net), x, sizeof x);
  memcpy(together, net_forward(net, w, BATCH), sizeof together);
  for (size_t i = 0; i < BATCH; i++) {
    memcpy(net_input(net), x + i * INPUTS, INPUTS * sizeof *x);
    const float *alone = net_forward(net, w, 1);
    for (size_t k = 0; k < 3; k++)
      ck_assert_float_eq_tol(alone[k], together[i * 3 + k], 1e-5f);
  }
  net_free(net);
  free(w);
  schema_free(s);
}
END_TEST

START_TEST(dropout_keeps_the_mean) {
  enum { WIDTH = 20000 };
  struct contract c = toy_classes(WIDTH, 2);
  struct schema *s = toy_schema("dropout 0.25, dense classes", &c);
  float *w = calloc(schema_parameters(s), sizeof *w);
  struct net *net;
  struct rng rng;
  rng_init(&rng, 3);
  ck_assert_int_eq(net_open(schema_arch(s), &(struct net_config){.max_batch = 1}, &net), ERR_OK);
  for (size_t i = 0; i < WIDTH; i++)
    net_input(net)[i] = w[i] = 1;
  ck_assert_float_eq(net_forward(net, w, 1)[0], WIDTH);
  ck_assert_float_eq_tol(net_forward_training(net, w, 1, &rng)[0] / WIDTH, 1, 0.02f); /* 5 standard deviations */
  net_free(net);
  free(w);
  schema_free(s);
}
END_TEST

START_TEST(nan_is_not_hidden_by_relu) {
  struct contract c = toy_classes(1, 2);
  struct schema *s = toy_schema("relu, dense classes", &c);
  float w[4] = {1, 1, 0, 0};
  struct net *net;
  ck_assert_int_eq(net_open(schema_arch(s), &(struct net_config){.max_batch = 1}, &net), ERR_OK);
  net_input(net)[0] = NAN;
  ck_assert(isnan(net_forward(net, w, 1)[0]));
  net_free(net);
  schema_free(s);
}
END_TEST

START_TEST(absurd_workspace_is_refused) {
  struct contract c = toy_classes(1, 2);
  struct schema *s = toy_schema("dense 30000000, relu, relu, relu, dense classes", &c);
  struct net *net = NULL;
  ck_assert_int_eq(net_open(schema_arch(s), &(struct net_config){.max_batch = MAX_BATCH}, &net), ERR_LIMIT);
  ck_assert_ptr_null(net);
  schema_free(s);
}
END_TEST

int main(void) {
  return SUITE_RUN("net", first_weights, rows_are_independent, dropout_keeps_the_mean, nan_is_not_hidden_by_relu,
                   absurd_workspace_is_refused);
}
