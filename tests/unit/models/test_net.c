#include "models/net/net.h"

#include <stdio.h>

#include "models/net/loss.h"
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

/* g [P] of d_z = 1, of a pass of training that drops nothing, after one that did. */
static float *gradient_undropped(const char *line) {
  struct contract c = toy_classes(INPUTS, 3);
  struct schema *s = toy_schema(line, &c);
  struct net *net;
  struct rng rng;
  rng_init(&rng, 5);
  ck_assert_int_eq(net_open(schema_arch(s), &(struct net_config){.max_batch = BATCH}, &net), ERR_OK);
  float *w = calloc(net_floats(net), sizeof *w), *g = calloc(net_floats(net), sizeof *g), d_z[BATCH * 3];
  for (size_t i = 0; i < BATCH * INPUTS; i++)
    net_input(net)[i] = (float)toy_normal(&rng);
  for (size_t i = 0; i < BATCH * 3; i++)
    d_z[i] = 1;
  net_init_weights(schema_arch(s), &seed, w);
  net_forward_training(net, w, BATCH, &rng);
  net_forward_training(net, w, BATCH, NULL);
  net_backward(net, w, d_z, 0, g);
  net_free(net);
  free(w);
  schema_free(s);
  return g;
}

START_TEST(dropout_without_a_generator_is_not_there) {
  float *with = gradient_undropped("dense 4, dropout 0.5, dense classes");
  float *without = gradient_undropped("dense 4, dense classes");
  size_t hidden = 4, n = (INPUTS + 1) * hidden + (hidden + 1) * 3; /* three classes */
  ck_assert_mem_eq(with, without, n * sizeof *with);
  ck_assert(with[0] != 0);
  free(with);
  free(without);
}
END_TEST

/* A NaN anywhere in the input comes out of the layers and a dense one behind them. */
static void check_nan(const char *layers, const struct contract *c, struct cpu cpu) {
  char line[MAX_ARCH_BYTES];
  snprintf(line, sizeof line, "%s, dense classes", layers);
  struct schema *s = toy_schema(line, c);
  const struct arch *a = schema_arch(s);
  struct net *net;
  ck_assert_int_eq(net_open(a, &(struct net_config){.max_batch = 2, .batch = 2, .cpu = cpu}, &net), ERR_OK);
  float *w = calloc(net_floats(net), sizeof *w);
  net_init_weights(a, &seed, w);
  net_load(net, w);
  for (size_t at = 0; at < a->n_inputs; at++) {
    for (size_t i = 0; i < (size_t)2 * a->n_inputs; i++)
      net_input(net)[i] = (float)i;
    net_input(net)[at] = NAN;
    ck_assert_msg(isnan(net_forward(net, w, 2)[0]), "%s: [%zu]", layers, at);
  }
  net_free(net);
  free(w);
  schema_free(s);
}

START_TEST(nan_is_not_hidden) {
  static const char *const of_images[] = {"relu",
                                          "leakyrelu",
                                          "elu",
                                          "gelu",
                                          "silu",
                                          "softplus",
                                          "hardswish",
                                          "tanh",
                                          "sigmoid",
                                          "dropout 0.5",
                                          "pool 2",
                                          "avgpool 2",
                                          "globalpool",
                                          "conv 3x3x2",
                                          "conv 3x3x3 pad 1, relu, pool 2",
                                          "conv 1x1x9, relu",
                                          "depthwise 2x2",
                                          "dense 3, relu",
                                          "batchnorm",
                                          "groupnorm 2",
                                          "layernorm",
                                          "residual { relu }, relu",
                                          NULL};
  static const char *const of_series[] = {"conv1d 3x4, relu, pool 2", "gru 3", "gru 2 states all", NULL};
  struct contract image = toy_image(4, 4, 2, 3, 1), series = toy_image(1, 12, 2, 3, 1);
  for (size_t i = 0; of_images[i]; i++) {
    check_nan(of_images[i], &image, (struct cpu){0});
    check_nan(of_images[i], &image, cpu_detect());
  }
  for (size_t i = 0; of_series[i]; i++) {
    check_nan(of_series[i], &series, (struct cpu){0});
    check_nan(of_series[i], &series, cpu_detect());
  }
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

/* ---- a kernel that does all that kernels may: weights of its own, [n_in][n_out and three more] and the bias behind them,
 * a relu, the step; and its layer has a statistic, which counts the passes of training */

static size_t odd_row(const struct layer *l) {
  return l->n_out + 3;
}

static size_t odd_weights(const struct layer *l) {
  return (l->n_in + (size_t)1) * odd_row(l);
}

/* Of the o-th output's k-th weight in the model; its bias is weight n_in. */
static size_t model_at(const struct layer *l, size_t o, size_t k) {
  return k < l->n_in ? o * l->n_in + k : (size_t)l->n_in * l->n_out + o;
}

static void odd_load(const struct layer *l, const float *w, float *own) {
  memset(own, 0, odd_weights(l) * sizeof *own);
  for (size_t o = 0; o < l->n_out; o++)
    for (size_t k = 0; k <= l->n_in; k++)
      own[k * odd_row(l) + o] = w[model_at(l, o, k)];
}

static void odd_store(const struct layer *l, const float *own, float *w) {
  for (size_t o = 0; o < l->n_out; o++)
    for (size_t k = 0; k <= l->n_in; k++)
      w[model_at(l, o, k)] = own[k * odd_row(l) + o];
}

static void odd_forward(const struct layer *l, const struct pass *p) {
  for (size_t i = 0; i < p->n; i++)
    for (size_t o = 0; o < l->n_out; o++) {
      float sum = p->w[l->n_in * odd_row(l) + o];
      for (size_t k = 0; k < l->n_in; k++)
        sum += p->w[k * odd_row(l) + o] * p->in[i * l->n_in + k];
      p->out[i * l->n_out + o] = p->relu && sum < 0 ? 0 : sum;
    }
  if (p->statistics)
    p->statistics[0] += 1;
}

static float odd_slope(const struct layer *l, const struct pass *p, const struct gradient *d, size_t i, size_t o) {
  return p->relu && !(p->out[i * l->n_out + o] > 0) ? 0 : d->d_out[i * l->n_out + o];
}

static void odd_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  for (size_t i = 0; d->d_in && i < p->n; i++)
    for (size_t k = 0; k < l->n_in; k++) {
      d->d_in[i * l->n_in + k] = 0;
      for (size_t o = 0; o < l->n_out; o++)
        d->d_in[i * l->n_in + k] += odd_slope(l, p, d, i, o) * p->w[k * odd_row(l) + o];
    }
  for (size_t o = 0; o < l->n_out; o++)
    for (size_t k = 0; k <= l->n_in; k++) {
      size_t at = k * odd_row(l) + o;
      d->g[at] = d->momentum == 0 ? 0 : d->momentum * d->g[at];
      for (size_t i = 0; i < p->n; i++)
        d->g[at] += odd_slope(l, p, d, i, o) * (k < l->n_in ? p->in[i * l->n_in + k] : 1);
      if (!d->w)
        continue;
      d->g[at] += d->decay * d->w[at];
      d->w[at] -= d->rate * d->g[at];
    }
}

static const struct kernel odd_kernels[] = {
    {.name = "odd",
     .takes_relu = true,
     .folds = true,
     .weights = odd_weights,
     .load = odd_load,
     .store = odd_store,
     .forward = odd_forward,
     .backward = odd_backward},
};

/* The same layers, the dense ones of another type. */
static struct arch *odd_arch(const char *text, const struct contract *c, const struct layer_type *type) {
  struct arch *a;
  char why[MAX_REASON_BYTES];
  ck_assert_int_eq(arch_parse(text, c, &a, why), ERR_OK);
  a->n_parameters = 0;
  for (size_t i = 0; i < a->n_layers; i++) {
    struct layer *l = &a->layers[i];
    l->n_statistics = l->type == &layer_dense;
    l->type = l->type == &layer_dense ? type : l->type;
    l->offset = a->n_parameters;
    a->n_parameters += l->n_trained + l->n_statistics;
  }
  return a;
}

/* Three steps with labels 0, 1, 2, 0 … from w [P], and what the momentum then is. */
static void take_steps(const struct arch *a, float *w, float *m) {
  const struct descent step = {.momentum = 0.9, .rate = 0.1, .decay = 0.01};
  struct net *net;
  struct rng rng;
  uint16_t labels[BATCH];
  float d_z[BATCH * 3];
  rng_init(&rng, 5);
  ck_assert_int_eq(net_open(a, &(struct net_config){.max_batch = BATCH, .batch = BATCH}, &net), ERR_OK);
  net_load(net, w);
  net_load(net, m);
  for (int i = 0; i < 3; i++) {
    for (size_t k = 0; k < BATCH * INPUTS; k++)
      net_input(net)[k] = (float)toy_normal(&rng);
    const struct loss loss = {.kind = LOSS_CROSS_ENTROPY};
    const struct answers answers = {.labels = labels};
    for (size_t k = 0; k < BATCH; k++)
      labels[k] = (uint16_t)(k % 3);
    loss_of_batch(&loss, net_forward_training(net, w, BATCH, NULL), &answers, BATCH, 3, d_z);
    net_descend(net, w, d_z, &step, m);
  }
  net_store(net, w);
  net_store(net, m);
  net_free(net);
}

/* In a layout of its own with folded steps the net learns what it learns layer by layer, and statistics are not stepped. */
START_TEST(kernels_may_fold_and_lay_out) {
  static const char text[] = "dense 7, relu, dense 5, residual { relu, dense 5, relu }, dense 4, tanh, dense classes";
  struct contract c = toy_classes(INPUTS, 3);
  struct layer_type odd = layer_dense;
  odd.kernels = odd_kernels;
  odd.n_kernels = 1;
  struct arch *plain = odd_arch(text, &c, &layer_dense), *other = odd_arch(text, &c, &odd);
  ck_assert_uint_eq(plain->n_parameters, other->n_parameters);
  float *start = calloc(4 * plain->n_parameters, sizeof *start);
  float *w[2] = {calloc(4 * plain->n_parameters, sizeof *start), calloc(4 * plain->n_parameters, sizeof *start)};
  float *m[2] = {calloc(4 * plain->n_parameters, sizeof *start), calloc(4 * plain->n_parameters, sizeof *start)};
  net_init_weights(plain, &seed, start);
  for (size_t i = 0; i < 2; i++) {
    memcpy(w[i], start, plain->n_parameters * sizeof *start);
    take_steps(i == 0 ? plain : other, w[i], m[i]);
  }
  for (size_t i = 0; i < plain->n_layers; i++)
    for (size_t k = 0; k < plain->layers[i].n_trained + plain->layers[i].n_statistics; k++) {
      size_t at = plain->layers[i].offset + k;
      bool is_statistic = k == plain->layers[i].n_trained;
      ck_assert_float_eq_tol(w[1][at], is_statistic ? 3 : w[0][at], 1e-6f);
      ck_assert_float_eq_tol(m[1][at], is_statistic ? 0 : m[0][at], 1e-6f);
      ck_assert(!is_statistic || w[0][at] == 0);
      ck_assert(is_statistic || k % 5 || w[0][at] != start[at]);
    }
  for (size_t i = 0; i < 2; i++) {
    free(w[i]);
    free(m[i]);
  }
  free(start);
  arch_free(plain);
  arch_free(other);
}
END_TEST

START_TEST(layouts_go_there_and_back) {
  static const char text[] = "dense 7, relu, dense 5, dense classes";
  struct contract c = toy_classes(INPUTS, 3);
  struct layer_type odd = layer_dense;
  odd.kernels = odd_kernels;
  odd.n_kernels = 1;
  struct arch *a = odd_arch(text, &c, &odd);
  struct net *net;
  ck_assert_int_eq(net_open(a, &(struct net_config){.max_batch = 1, .batch = 1}, &net), ERR_OK);
  size_t n_ranges, n = net_floats(net);
  const struct net_range *ranges = net_trained(net, &n_ranges);
  ck_assert_uint_ge(n, 14 * 10 + 1 + 8 * 8 + 1 + 6 * 6 + 1);
  float *w = calloc(n, sizeof *w);
  for (size_t i = 0; i < n; i++)
    w[i] = (float)i + 1;
  net_load(net, w);
  ck_assert_uint_eq(n_ranges, 3);
  for (size_t i = 0; i < n_ranges; i++) {
    const struct layer *l = &a->layers[i == 0 ? 0 : i + 1];
    ck_assert_uint_eq(ranges[i].offset % 16, 0);
    ck_assert_uint_eq(ranges[i].n, odd_weights(l));
    ck_assert_float_eq(w[ranges[i].offset], (float)l->offset + 1);
    ck_assert_float_eq(w[ranges[i].offset + l->n_out], 0); /* padding */
    ck_assert_float_eq(w[ranges[i].offset + ranges[i].n], (float)(l->offset + l->n_trained) + 1);
  }
  net_store(net, w);
  for (size_t i = 0; i < a->n_parameters; i++)
    ck_assert_float_eq(w[i], (float)i + 1);
  net_free(net);
  free(w);
  arch_free(a);
}
END_TEST

/* A selection decides, where the kernel that it names can run. */
START_TEST(kernels_are_chosen) {
  static const struct kernel rows[] = {{.name = "plain", .forward = odd_forward},
                                       {.name = "odd", .forward = odd_forward, .takes_relu = true}};
  struct contract c = toy_classes(INPUTS, 3);
  struct layer_type two = layer_dense;
  two.kernels = rows;
  two.n_kernels = 2;
  struct arch *a = odd_arch("dense 7, relu, dense 5, dense classes", &c, &two);
  struct selection selection = {0};
  struct net *net;
  ck_assert_int_eq(selection_put(&selection, "dense 7 of 1x1x13 batch 9", "plain"), ERR_OK);
  ck_assert_int_eq(selection_put(&selection, "dense 5 of 1x1x7 batch 9", "gone"), ERR_OK);
  struct net_config config = {.max_batch = 20, .batch = 9, .selection = &selection};
  ck_assert_int_eq(net_open(a, &config, &net), ERR_OK);
  ck_assert_str_eq(net_kernel(net, 0)->name, "plain");
  ck_assert_str_eq(net_kernel(net, 2)->name, "odd");
  ck_assert_str_eq(net_kernel(net, 3)->name, "odd");
  net_free(net);
  config.batch = 10;
  ck_assert_int_eq(net_open(a, &config, &net), ERR_OK);
  ck_assert_str_eq(net_kernel(net, 0)->name, "odd");
  net_free(net);
  arch_free(a);
}
END_TEST

int main(void) {
  return SUITE_RUN("net", first_weights, rows_are_independent, dropout_keeps_the_mean,
                   dropout_without_a_generator_is_not_there, nan_is_not_hidden, absurd_workspace_is_refused,
                   a_split_batch_gives_the_same, bits_do_not_depend_on_threads, kernels_may_fold_and_lay_out,
                   layouts_go_there_and_back, kernels_are_chosen);
}
