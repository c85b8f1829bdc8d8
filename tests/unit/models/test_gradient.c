/* Every layer and every loss: the double twin's gradient against central differences of its loss, and the fast float
 * gradient against the twin's. Seeds are fixed; tolerances are about ten times what was seen. */
#include "models/net/loss.h"
#include "models/net/net.h"
#include "tests/ref/net_twin.h"
#include "tests/size.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

#define N ((size_t)7)
#define N_INPUTS ((uint32_t)5)
enum { N_CLASSES = 4 };

/* Of plain float kernels; norms divide by spreads that may be small. */
static const double fine = 2e-6, rough = 2e-5;

static const char *const class_archs[] = {
    "dense classes",
    "dense 6, relu, dense classes",
    "dense 6, tanh, dense classes",
    "dense 6, sigmoid, dense classes",
    "dense 6, dropout 0.3, dense classes",
    "tanh, dropout 0.2, dense 9, relu, dropout 0.5, dense 3, sigmoid, dense 4, relu",
    "dense 8, relu, dense 7, tanh, dense 6, sigmoid, dense classes",
    "dense 6, residual { relu, dense 6 }, dense classes",
    "residual { dense 5, relu, residual { tanh, dense 5 }, relu, dense 5 }, relu, dense classes",
    "residual { dropout 0.5 }, relu, dense 4, residual { residual { dense 4 } }",
    NULL,
};
static const char *const smooth_archs[] = {
    "dense 6, leakyrelu, dense classes", "dense 6, elu, dense classes",
    "dense 6, gelu, dense classes",      "dense 6, silu, dense classes",
    "dense 6, softplus, dense classes",  "dense 6, hardswish, dense classes",
    "elu, dense 9, silu, dense classes", NULL,
};
static const char *const norm_archs[] = {
    "batchnorm, dense classes",
    "dense 6, batchnorm, relu, dense classes",
    "dense 6, groupnorm 3, tanh, dense classes",
    "dense 6, layernorm, tanh, dense classes",
    NULL,
};
static const char *const image_norm_archs[] = {
    "residual { batchnorm }, tanh, batchnorm, dense classes",
    "residual { groupnorm 2 }, tanh, groupnorm 4, dense classes",
    "residual { layernorm }, tanh, layernorm, dense classes",
    NULL,
};
static const char *const gru_archs[] = {
    "gru 3, dense classes",
    "gru 3 states all, gru 2, dense classes",
    "gru 2 states all, layernorm, gru 3 states all, dense classes",
    NULL,
};
static const char *const token_archs[] = {
    "embed 5 3, dense classes",
    "embed 5 3, tanh, gru 4, dense classes",
    NULL,
};
static const char *const regression_archs[] = {
    "dense targets",
    "dense 6, relu, dense targets",
    "dense 32, relu, dense 16, relu, dense targets",
    "dense 6, dropout 0.3, tanh, dense 1",
    "relu, dense 1",
    "dense 6, sigmoid, dense targets, sigmoid",
    NULL,
};

/* Of 8×7×2 images. */
static const char *const image_archs[] = {
    "conv 3x3x3, dense classes",
    "conv 3x3x3 pad 1, relu, conv 2x3x4 stride 2, tanh, dense classes",
    "conv 1x1x5, relu, conv 5x4x4 stride 3 pad 2, globalpool",
    "depthwise 3x3 pad 1, tanh, depthwise 3x2 stride 2 pad 1, dense classes",
    "conv 3x3x6, relu, depthwise 3x3 stride 2 pad 1, conv 1x1x4, globalpool",
    "conv 3x3x3 pad 1, pool 2, relu, conv 2x2x4, pool 2 stride 1, dense classes",
    "conv 3x3x9 pad 1, relu, pool 2, conv 1x1x17, pool 2, dense classes",
    "conv 1x1x11, depthwise 3x3 pad 1, pool 3 stride 1, depthwise 2x2 stride 2, avgpool 2 stride 1, dense classes",
    "conv 3x3x4, avgpool 3, dense classes",
    "tanh, avgpool 3 stride 2, conv 2x2x4 stride 2 pad 1, globalpool",
    "conv 8x7x4",
    "conv 3x3x3 pad 1, residual { conv 3x3x3 pad 1, relu, conv 1x1x3 }, relu, pool 3, dense classes",
    "residual { conv 3x3x2 pad 1 }, globalpool, residual { dense 2 }, dense classes",
    NULL,
};
/* Of series of 11 steps of 3 values. */
static const char *const series_archs[] = {
    "conv1d 5x4 pad 2, relu, pool 2, conv1d 3x4 stride 2, tanh, dense classes",
    "conv1d 3x4, avgpool 3 stride 2, globalpool",
    "conv1d 1x6, residual { conv1d 3x6 pad 1, relu }, conv 1x3x4, globalpool",
    "conv1d 1x16 stride 2, relu, conv1d 3x16, relu, dense classes",
    "conv1d 1x16 stride 3, relu, residual { conv1d 3x16 pad 1, relu }, dense classes",
    NULL,
};

struct problem {
  const char *text;
  struct schema *schema;
  const struct arch *arch;
  double tolerance;
  size_t n_w, n_x;
  float *w, *x, targets[N];
  double *w_double, *x_double, *g, targets_double[N];
  uint16_t labels[N];
  struct rng dropout;
  struct twin_batch batch;
};

/* A token where the first layer takes them. */
static float draw_input(const struct arch *a, struct rng *rng) {
  uint32_t n_tokens = a->layers[0].n_tokens;
  return n_tokens > 0 ? (float)rng_below(rng, n_tokens) : (float)toy_normal(rng);
}

static void problem_init(struct problem *p, const char *arch, const struct contract *contract, uint64_t seed) {
  struct rng rng;
  rng_init(&rng, seed);
  *p = (struct problem){.text = arch, .schema = toy_schema(arch, contract)};
  p->arch = schema_arch(p->schema);
  p->n_w = schema_parameters(p->schema);
  p->n_x = N * p->arch->n_inputs;
  p->w = calloc(p->n_w, sizeof *p->w);
  p->x = calloc(p->n_x, sizeof *p->x);
  p->w_double = calloc(p->n_w, sizeof *p->w_double);
  p->x_double = calloc(p->n_x, sizeof *p->x_double);
  p->g = calloc(p->n_w, sizeof *p->g);
  ck_assert(p->w && p->x && p->w_double && p->x_double && p->g);
  for (size_t i = 0; i < p->n_w; i++)
    p->w_double[i] = p->w[i] = (float)(0.7 * toy_normal(&rng));
  for (size_t i = 0; i < p->n_x; i++)
    p->x_double[i] = p->x[i] = draw_input(p->arch, &rng);
  for (size_t i = 0; i < N; i++) {
    p->labels[i] = (uint16_t)rng_below(&rng, N_CLASSES);
    p->targets_double[i] = p->targets[i] = (float)toy_normal(&rng);
  }
  p->dropout = rng;
  p->batch = (struct twin_batch){.n = N,
                                 .x = p->x_double,
                                 .labels = p->labels,
                                 .targets = p->targets_double,
                                 .dropout = &p->dropout,
                                 .training = true};
}

static void problem_done(struct problem *p) {
  free(p->w);
  free(p->x);
  free(p->w_double);
  free(p->x_double);
  free(p->g);
  schema_free(p->schema);
}

/* No gradient: what the layer's statistics are. */
static bool is_trained(const struct problem *p, size_t i) {
  for (size_t t = 0; t < schema_tensors(p->schema); t++) {
    const struct tensor *tensor = schema_tensor(p->schema, t);
    if (i >= tensor->offset && i < tensor->offset + tensor->n_values)
      return tensor->role != ROLE_STATISTIC;
  }
  return false;
}

static void check_differences(struct problem *p) {
  const double h = 1e-6;
  memset(p->g, 0, p->n_w * sizeof *p->g);
  const double noise = 1e-8 * (1 + net_twin(p->arch, p->w_double, &p->batch, p->g));
  for (size_t i = 0; i < p->n_w; i += least_or(11, 1)) { /* of the twin, none of the product */
    if (!is_trained(p, i))
      continue;
    double held = p->w_double[i];
    p->w_double[i] = held + h;
    double above = net_twin(p->arch, p->w_double, &p->batch, NULL);
    p->w_double[i] = held - h;
    double below = net_twin(p->arch, p->w_double, &p->batch, NULL);
    p->w_double[i] = held;
    double slope = (above - below) / (2 * h);
    ck_assert_msg(fabs(slope - p->g[i]) < noise + 1e-7 * fabs(slope), "%s: weight %zu: %.12g by differences, %.12g",
                  p->text, i, slope, p->g[i]);
  }
}

static double fast_loss(struct net *net, const struct problem *p, float *w, float *d_z) {
  struct rng dropout = p->dropout;
  memcpy(net_input(net), p->x, p->n_x * sizeof *p->x);
  const float *z = net_forward_training(net, w, N, &dropout);
  const struct loss loss = {.kind = p->arch->loss};
  const struct answers answers = {p->labels, p->targets};
  return loss_of_batch(&loss, z, &answers, N, p->arch->n_outputs, d_z).sum / (double)N;
}

/* Every layer takes its k-th kernel or its last one, and the first where that cannot run. False when none takes it. */
static bool select_kernels(const struct problem *p, size_t k, const struct cpu *cpu, struct selection *out_selection) {
  bool taken = false;
  *out_selection = (struct selection){0};
  for (size_t i = 0; i < p->arch->n_layers; i++) {
    const struct layer *l = &p->arch->layers[i];
    size_t at = k < l->type->n_kernels ? k : l->type->n_kernels - 1;
    char key[MAX_SELECTION_KEY_BYTES];
    layer_key(l, N, key);
    bool fits = kernel_fits(&l->type->kernels[at], l, cpu);
    taken = taken || (fits && at == k);
    ck_assert_int_eq(selection_put(out_selection, key, l->type->kernels[fits ? at : 0].name), ERR_OK);
  }
  return taken;
}

static size_t most_kernels(const struct problem *p) {
  size_t most = 0;
  for (size_t i = 0; i < p->arch->n_layers; i++)
    most = p->arch->layers[i].type->n_kernels > most ? p->arch->layers[i].type->n_kernels : most;
  return most;
}

/* values [P] in the net's layout, for free(). */
static float *loaded(struct net *net, const float *values, size_t n) {
  float *a = calloc(net_floats(net), sizeof *a);
  ck_assert_ptr_nonnull(a);
  memcpy(a, values, n * sizeof *a);
  net_load(net, a);
  return a;
}

static void check_gradient(const struct problem *p, const float *g, double momentum, double tolerance, size_t k) {
  for (size_t i = 0; i < p->n_w; i++) {
    double twin = is_trained(p, i) ? momentum + p->g[i] : 1;
    ck_assert_msg(fabs(g[i] - twin) < tolerance * (1 + fabs(twin)), "%s, kernel %zu: weight %zu: %.9g, twin %.9g",
                  p->text, k, i, (double)g[i], twin);
  }
}

/* A step of net_descend: the momentum is the gradient with decay, and the weights have moved by it. */
static void check_step(const struct problem *p, struct net *net, const float *d_z, double tolerance, size_t k) {
  const struct descent step = {.momentum = 0.5, .rate = 0.25, .decay = 0.125};
  float *ones = calloc(p->n_w, sizeof *ones);
  for (size_t i = 0; i < p->n_w; i++)
    ones[i] = 1;
  float *w = loaded(net, p->w, p->n_w), *m = loaded(net, ones, p->n_w);
  float *ignored = calloc(N * p->arch->n_outputs, sizeof *ignored);
  fast_loss(net, p, w, ignored);
  net_descend(net, w, d_z, &step, m);
  net_store(net, w);
  net_store(net, m);
  for (size_t i = 0; i < p->n_w; i++) {
    if (!is_trained(p, i)) {
      ck_assert_float_eq(m[i], 1);
      continue;
    }
    double twin = step.momentum + p->g[i] + step.decay * p->w_double[i];
    ck_assert_msg(fabs(m[i] - twin) < tolerance * (1 + fabs(twin)), "%s, kernel %zu: momentum %zu: %.9g, twin %.9g",
                  p->text, k, i, (double)m[i], twin);
    twin = p->w_double[i] - step.rate * twin;
    ck_assert_msg(fabs(w[i] - twin) < tolerance * (1 + fabs(twin)), "%s, kernel %zu: stepped %zu: %.9g, twin %.9g",
                  p->text, k, i, (double)w[i], twin);
  }
  free(ones);
  free(w);
  free(m);
  free(ignored);
}

/* Without momentum it does not matter what g was. */
static void check_overwriting(const struct problem *p, struct net *net, float *w, float *d_z, double tolerance,
                              size_t k) {
  float *g = calloc(net_floats(net), sizeof *g);
  ck_assert_ptr_nonnull(g);
  for (size_t i = 0; i < net_floats(net); i++)
    g[i] = NAN;
  fast_loss(net, p, w, d_z);
  net_backward(net, w, d_z, 0, g);
  net_store(net, g);
  for (size_t i = 0; i < p->n_w; i++)
    g[i] = is_trained(p, i) ? g[i] : 1;
  check_gradient(p, g, 0, tolerance, k);
  free(g);
}

/* g starts as ones, so that momentum·g is seen to be added to. */
static void check_kernels(struct problem *p, double expected, size_t k, const struct net_config *config) {
  const double momentum = 0.5, tolerance = k == 0 ? p->tolerance : 10 * p->tolerance;
  struct net *net;
  ck_assert_int_eq(net_open(p->arch, config, &net), ERR_OK);
  float *d_z = calloc(N * p->arch->n_outputs, sizeof *d_z), *ones = calloc(p->n_w, sizeof *ones);
  ck_assert(d_z && ones);
  for (size_t i = 0; i < p->n_w; i++)
    ones[i] = 1;
  float *w = loaded(net, p->w, p->n_w), *g = loaded(net, ones, p->n_w);
  double loss = fast_loss(net, p, w, d_z);
  ck_assert_msg(fabs(loss - expected) < tolerance * (1 + expected), "%s, kernel %zu: loss %.9g, twin %.9g", p->text, k,
                loss, expected);
  net_backward(net, w, d_z, momentum, g);
  check_overwriting(p, net, w, d_z, tolerance, k);
  net_store(net, g);
  check_gradient(p, g, momentum, tolerance, k);
  check_step(p, net, d_z, tolerance, k);
  free(d_z);
  free(ones);
  free(w);
  free(g);
  net_free(net);
}

static void check_fast(struct problem *p) {
  const struct cpu cpu = cpu_detect();
  struct selection selection;
  memset(p->g, 0, p->n_w * sizeof *p->g);
  double expected = net_twin(p->arch, p->w_double, &p->batch, p->g);
  for (size_t k = 0; k < most_kernels(p); k++)
    if (select_kernels(p, k, &cpu, &selection))
      check_kernels(p, expected, k,
                    &(struct net_config){.max_batch = N + 3, .batch = N, .cpu = cpu, .selection = &selection});
}

static void check_all(const char *const *archs, const struct contract *contract, double tolerance, uint64_t n_seeds) {
  struct problem p;
  for (; *archs; archs++)
    for (uint64_t seed = 1; seed <= sized(1, n_seeds, n_seeds); seed++) {
      problem_init(&p, *archs, contract, seed);
      p.tolerance = tolerance;
      check_differences(&p);
      check_fast(&p);
      problem_done(&p);
    }
}

START_TEST(cross_entropy) {
  struct contract c = toy_classes(N_INPUTS, N_CLASSES);
  check_all(class_archs, &c, fine, 3);
}
END_TEST

START_TEST(images) {
  struct contract c = toy_image(8, 7, 2, N_CLASSES, 1);
  check_all(image_archs, &c, fine, 1);
}
END_TEST

START_TEST(smooth_activations) {
  struct contract c = toy_classes(N_INPUTS, N_CLASSES);
  check_all(smooth_archs, &c, fine, 3);
}
END_TEST

START_TEST(norms) {
  struct contract row = toy_classes(N_INPUTS, N_CLASSES), image = toy_image(3, 2, 4, N_CLASSES, 1);
  check_all(norm_archs, &row, rough, 3);
  check_all(image_norm_archs, &image, rough, 3);
}
END_TEST

START_TEST(series) {
  struct contract c = toy_image(1, 11, 3, N_CLASSES, 1);
  check_all(series_archs, &c, fine, 3);
}
END_TEST

START_TEST(recurrence) {
  struct contract values = toy_image(1, 6, 3, N_CLASSES, 1), tokens = toy_image(1, 6, 1, N_CLASSES, 4);
  check_all(gru_archs, &values, rough, 3);
  check_all(token_archs, &tokens, fine, 3);
}
END_TEST

START_TEST(mean_squared_error) {
  struct contract c = toy_regression(N_INPUTS);
  check_all(regression_archs, &c, fine, 3);
}
END_TEST

int main(void) {
  return SUITE_RUN("gradient", cross_entropy, images, smooth_activations, norms, series, recurrence,
                   mean_squared_error);
}
