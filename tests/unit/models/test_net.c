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

/* A team that works backwards: what it changes depends on the order of the parts. */
static void run_backwards(struct team *team, size_t n, void (*part)(void *context, size_t i), void *context) {
  (void)team;
  while (n-- > 0)
    part(context, n);
}

/* Weights [P] after three steps with momentum over batches of n, split in that way. */
static float *steps_with(const char *line, const struct selection *split, struct team *team, size_t n) {
  struct contract c = toy_classes(INPUTS, 3);
  struct schema *s = toy_schema(line, &c);
  struct net *net;
  struct rng rng, dropout;
  const struct net_config config = {.max_batch = BATCH, .batch = BATCH, .selection = split, .team = team};
  ck_assert_int_eq(net_open(schema_arch(s), &config, &net), ERR_OK);
  float *w = calloc(net_floats(net), sizeof *w), *m = calloc(net_floats(net), sizeof *m), d_z[BATCH * 3];
  rng_init(&rng, 5);
  rng_init(&dropout, 6);
  net_init_weights(schema_arch(s), &seed, w);
  net_load(net, w);
  for (size_t step = 0; step < 3; step++) {
    for (size_t i = 0; i < n * INPUTS; i++)
      net_input(net)[i] = (float)toy_normal(&rng);
    const float *z = net_forward_training(net, w, n, &dropout);
    for (size_t i = 0; i < n * 3; i++)
      d_z[i] = z[i] / (float)n;
    net_descend(net, w, d_z, &(struct descent){0.9, 0.1, 0.01}, m);
  }
  net_store(net, w);
  net_free(net);
  free(m);
  schema_free(s);
  return w;
}

static const struct selection ways_to_split[] = {
    {.lanes = 1, .block = 4},
    {.lanes = 2},
    {.lanes = 4, .threads = 2},
    {.lanes = 4, .threads = 3, .block = 1},
    {.lanes = MAX_LANES, .threads = MAX_LANES},
};
enum { N_WAYS = sizeof ways_to_split / sizeof *ways_to_split };

START_TEST(a_split_batch_gives_the_same) {
  const char *line = "dense 17, relu, dense 8, tanh, dense classes";
  const size_t n_values = 13 * 17 + 17 + 17 * 8 + 8 + 8 * 3 + 3;
  for (size_t n = 1; n <= BATCH; n++) {
    float *whole = steps_with(line, NULL, NULL, n);
    for (size_t i = 0; i < N_WAYS; i++) {
      float *parts = steps_with(line, &ways_to_split[i], NULL, n);
      for (size_t k = 0; k < n_values; k++)
        ck_assert_msg(fabsf(parts[k] - whole[k]) < 1e-5f, "way %zu, batch %zu, weight %zu", i, n, k);
      free(parts);
    }
    free(whole);
  }
}
END_TEST

START_TEST(bits_do_not_depend_on_threads) {
  struct team backwards = {run_backwards};
  const char *line = "dense 500, relu, dropout 0.5, dense classes";
  const size_t n_bytes = (13 * 500 + 500 + 500 * 3 + 3) * sizeof(float);
  for (size_t i = 0; i < N_WAYS; i++) {
    struct selection more = ways_to_split[i];
    float *a = steps_with(line, &ways_to_split[i], NULL, BATCH), *b = steps_with(line, &more, &backwards, BATCH);
    ck_assert_mem_eq(a, b, n_bytes);
    free(b);
    more.threads = more.lanes;
    b = steps_with(line, &more, &backwards, BATCH);
    ck_assert_mem_eq(a, b, n_bytes);
    free(a);
    free(b);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("net", first_weights, rows_are_independent, dropout_keeps_the_mean, nan_is_not_hidden_by_relu,
                   absurd_workspace_is_refused, a_split_batch_gives_the_same, bits_do_not_depend_on_threads);
}
