/* Every layer and every loss: the double twin's gradient against central differences of its loss, and the fast float
 * gradient against the twin's. Seeds are fixed; tolerances are about ten times what was seen. */
#include "models/net/loss.h"
#include "models/net/net.h"
#include "tests/ref/net_twin.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

#define N ((size_t)7)
#define N_INPUTS ((size_t)5)
enum { N_CLASSES = 4, MAX_P = 512 };

static const char *const class_archs[] = {
    "dense classes",
    "dense 6, relu, dense classes",
    "dense 6, tanh, dense classes",
    "dense 6, sigmoid, dense classes",
    "dense 6, dropout 0.3, dense classes",
    "tanh, dropout 0.2, dense 9, relu, dropout 0.5, dense 3, sigmoid, dense 4, relu",
    "dense 8, relu, dense 7, tanh, dense 6, sigmoid, dense classes",
};
static const char *const regression_archs[] = {
    "dense targets",
    "dense 6, relu, dense targets",
    "dense 6, dropout 0.3, tanh, dense 1",
    "dense 6, sigmoid, dense targets, sigmoid",
};

struct problem {
  struct schema *schema;
  const struct arch *arch;
  size_t n_w;
  float w[MAX_P], x[N * N_INPUTS], targets[N];
  double w_double[MAX_P], x_double[N * N_INPUTS], targets_double[N], g[MAX_P];
  uint16_t labels[N];
  struct rng dropout;
  struct twin_batch batch;
};

static void problem_init(struct problem *p, const char *arch, const struct contract *contract, uint64_t seed) {
  struct rng rng;
  rng_init(&rng, seed);
  memset(p, 0, sizeof *p);
  p->schema = toy_schema(arch, contract);
  p->arch = schema_arch(p->schema);
  p->n_w = schema_parameters(p->schema);
  ck_assert_uint_le(p->n_w, MAX_P);
  for (size_t i = 0; i < p->n_w; i++)
    p->w_double[i] = p->w[i] = (float)(0.7 * toy_normal(&rng));
  for (size_t i = 0; i < N * N_INPUTS; i++)
    p->x_double[i] = p->x[i] = (float)toy_normal(&rng);
  for (size_t i = 0; i < N; i++) {
    p->labels[i] = (uint16_t)rng_below(&rng, N_CLASSES);
    p->targets_double[i] = p->targets[i] = (float)toy_normal(&rng);
  }
  p->dropout = rng;
  p->batch = (struct twin_batch){N, p->x_double, p->labels, p->targets_double, &p->dropout};
}

static void check_differences(struct problem *p, const char *arch) {
  const double h = 1e-6;
  memset(p->g, 0, sizeof p->g);
  net_twin(p->arch, p->w_double, &p->batch, p->g);
  for (size_t i = 0; i < p->n_w; i++) {
    double held = p->w_double[i];
    p->w_double[i] = held + h;
    double above = net_twin(p->arch, p->w_double, &p->batch, NULL);
    p->w_double[i] = held - h;
    double below = net_twin(p->arch, p->w_double, &p->batch, NULL);
    p->w_double[i] = held;
    double slope = (above - below) / (2 * h);
    ck_assert_msg(fabs(slope - p->g[i]) < 1e-8 + 1e-7 * fabs(slope), "%s: weight %zu: %.12g by differences, %.12g",
                  arch, i, slope, p->g[i]);
  }
}

static double fast_loss(struct net *net, const struct problem *p, float *d_z) {
  struct rng dropout = p->dropout;
  memcpy(net_input(net), p->x, sizeof p->x);
  const float *z = net_forward(net, p->w, N, &dropout);
  if (p->arch->loss == LOSS_CROSS_ENTROPY)
    return loss_cross_entropy(z, p->labels, N, p->arch->n_outputs, d_z) / (double)N;
  return loss_mean_squared_error(z, p->targets, N, p->arch->n_outputs, d_z) / (double)N;
}

/* g starts as ones, so that momentum·g is seen to be added to. */
static void check_fast(struct problem *p, const char *arch) {
  struct net *net;
  float d_z[N * N_CLASSES], g[MAX_P];
  const double momentum = 0.5;
  for (size_t i = 0; i < p->n_w; i++)
    g[i] = 1;
  memset(p->g, 0, sizeof p->g);
  double expected = net_twin(p->arch, p->w_double, &p->batch, p->g);
  ck_assert_int_eq(net_open(p->arch, N + 3, &net), ERR_OK);
  double loss = fast_loss(net, p, d_z);
  ck_assert_msg(fabs(loss - expected) < 1e-6 * (1 + expected), "%s: loss %.9g, twin %.9g", arch, loss, expected);
  net_backward(net, p->w, d_z, momentum, g);
  for (size_t i = 0; i < p->n_w; i++) {
    double twin = momentum + p->g[i];
    ck_assert_msg(fabs(g[i] - twin) < 2e-6 * (1 + fabs(twin)), "%s: weight %zu: %.9g, twin %.9g", arch, i, (double)g[i],
                  twin);
  }
  net_free(net);
}

static void check_all(const char *const *archs, size_t n, const struct contract *contract) {
  static struct problem p;
  for (size_t i = 0; i < n; i++)
    for (uint64_t seed = 1; seed <= 3; seed++) {
      problem_init(&p, archs[i], contract, seed);
      check_differences(&p, archs[i]);
      check_fast(&p, archs[i]);
      schema_free(p.schema);
    }
}

START_TEST(cross_entropy) {
  struct contract c = toy_classes(N_INPUTS, N_CLASSES);
  check_all(class_archs, sizeof class_archs / sizeof *class_archs, &c);
}
END_TEST

START_TEST(mean_squared_error) {
  struct contract c = toy_regression(N_INPUTS);
  check_all(regression_archs, sizeof regression_archs / sizeof *regression_archs, &c);
}
END_TEST

/* Outputs far apart neither overflow nor lose the loss. */
START_TEST(cross_entropy_is_stable) {
  const float z[] = {1e30f, 0, -1e30f, 1000, 1001, 999};
  const uint16_t labels[] = {0, 0};
  float d_z[6];
  double sum = loss_cross_entropy(z, labels, 2, 3, d_z);
  double expected = log(1 + exp(1) + exp(-1));
  ck_assert_double_eq_tol(sum, expected, 1e-12);
  ck_assert_float_eq(d_z[0], 0);
  ck_assert_float_eq_tol(d_z[3], (float)((exp(-expected) - 1) / 2), 1e-7f);
  const uint16_t far[] = {2};
  ck_assert_double_eq_tol(loss_cross_entropy(z, far, 1, 3, NULL) / 2e30, 1, 1e-6);
}
END_TEST

int main(void) {
  return SUITE_RUN("gradient", cross_entropy, mean_squared_error, cross_entropy_is_stable);
}
