/* Every loss: the mean against the double twin's, the gradient against central differences of the twin. Seeds are
 * fixed. */
#include "models/net/loss.h"

#include <math.h>

#include "base/rng.h"
#include "tests/ref/loss_twin.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

#define N ((size_t)9)
#define K ((size_t)4)

static const float class_weights[] = {0.5f, 2, 0, 1.25f};

static const struct loss losses[] = {
    {.kind = LOSS_CROSS_ENTROPY},
    {.kind = LOSS_CROSS_ENTROPY, .weights = class_weights},
    {.kind = LOSS_CROSS_ENTROPY, .label_smoothing = 0.1},
    {.kind = LOSS_CROSS_ENTROPY, .label_smoothing = 0.3, .weights = class_weights},
    {.kind = LOSS_MEAN_SQUARED_ERROR},
    {.kind = LOSS_HUBER, .delta = 1},
    {.kind = LOSS_HUBER, .delta = 0.3},
    {.kind = LOSS_BINARY_CROSS_ENTROPY},
    {.kind = LOSS_BINARY_CROSS_ENTROPY, .weights = class_weights},
};
enum { N_LOSSES = sizeof losses / sizeof *losses };

struct batch {
  float z[N * K], targets[N * K];
  double exact[N * K];
  uint16_t labels[N];
  struct answers answers;
};

static void batch_init(struct batch *b, bool is_set, uint64_t seed) {
  struct rng rng;
  rng_init(&rng, seed);
  for (size_t i = 0; i < N * K; i++) {
    b->exact[i] = (double)(b->z[i] = (float)(2 * toy_normal(&rng)));
    b->targets[i] = (float)(is_set ? rng_unit(&rng) < 0.4 : toy_normal(&rng));
  }
  for (size_t i = 0; i < N; i++)
    b->labels[i] = (uint16_t)rng_below(&rng, K);
  b->answers = (struct answers){b->labels, b->targets};
}

static double slope(const struct loss *l, struct batch *b, size_t i) {
  const double h = 1e-6, held = b->exact[i];
  b->exact[i] = held + h;
  double above = loss_twin(l, b->exact, &b->answers, N, K);
  b->exact[i] = held - h;
  double below = loss_twin(l, b->exact, &b->answers, N, K);
  b->exact[i] = held;
  return (above - below) / (2 * h);
}

START_TEST(mean_and_gradient_are_the_twins) {
  static struct batch b;
  float d_z[N * K];
  for (size_t l = 0; l < N_LOSSES; l++)
    for (uint64_t seed = 1; seed <= 5; seed++) {
      batch_init(&b, losses[l].kind == LOSS_BINARY_CROSS_ENTROPY, seed);
      struct loss_sum s = loss_of_batch(&losses[l], b.z, &b.answers, N, K, d_z);
      double twin = loss_twin(&losses[l], b.exact, &b.answers, N, K);
      ck_assert_msg(fabs(s.sum / s.weight - twin) < 1e-12 * (1 + twin), "loss %zu: %.15g, twin %.15g", l,
                    s.sum / s.weight, twin);
      struct loss_sum only = loss_of_batch(&losses[l], b.z, &b.answers, N, K, NULL);
      ck_assert(only.sum == s.sum && only.weight == s.weight);
      for (size_t i = 0; i < N * K; i++) {
        double by_differences = slope(&losses[l], &b, i);
        ck_assert_msg(fabs((double)d_z[i] - by_differences) < 1e-7, "loss %zu, value %zu: %.9g, by differences %.9g", l,
                      i, (double)d_z[i], by_differences);
      }
    }
}
END_TEST

/* Outputs far apart neither overflow nor lose the loss. */
START_TEST(far_outputs_are_stable) {
  const float z[] = {1e30f, 0, -1e30f, 1000, 1001, 999};
  const uint16_t labels[] = {0, 0}, far[] = {2};
  const struct loss cross = {.kind = LOSS_CROSS_ENTROPY}, sets = {.kind = LOSS_BINARY_CROSS_ENTROPY};
  float d_z[6];
  double sum = loss_of_batch(&cross, z, &(struct answers){.labels = labels}, 2, 3, d_z).sum;
  double expected = log(1 + exp(1) + exp(-1));
  ck_assert_double_eq_tol(sum, expected, 1e-12);
  ck_assert_float_eq(d_z[0], 0);
  ck_assert_float_eq_tol(d_z[3], (float)((exp(-expected) - 1) / 2), 1e-7f);
  sum = loss_of_batch(&cross, z, &(struct answers){.labels = far}, 1, 3, NULL).sum;
  ck_assert_double_eq_tol(sum / 2e30, 1, 1e-6);
  const float sure[] = {1e30f, -1e30f, 1e30f, -1e30f}, y[] = {1, 0, 0, 1};
  struct loss_sum s = loss_of_batch(&sets, sure, &(struct answers){.targets = y}, 2, 2, d_z);
  ck_assert_double_eq_tol(s.sum / 1e30, 1, 1e-6);
  ck_assert_float_eq(d_z[0], 0);
  ck_assert_float_eq(d_z[1], 0);
  ck_assert_float_eq(d_z[2], 0.25f);
  ck_assert_float_eq(d_z[3], -0.25f);
}
END_TEST

/* A batch of classes without weight moves nothing. */
START_TEST(a_batch_without_weight_has_no_gradient) {
  const float z[] = {1, 2, 3}, weights[] = {1, 0, 1};
  const struct loss loss = {.kind = LOSS_CROSS_ENTROPY, .label_smoothing = 0.1, .weights = weights};
  float d_z[3] = {9, 9, 9};
  struct loss_sum s = loss_of_batch(&loss, z, &(struct answers){.labels = (const uint16_t[]){1}}, 1, 3, d_z);
  ck_assert(s.weight == 0 && isfinite(s.sum));
  for (size_t i = 0; i < 3; i++)
    ck_assert(d_z[i] == 0);
}
END_TEST

START_TEST(nan_is_told) {
  const float z[] = {1, NAN}, y[] = {0, 1};
  for (size_t l = 0; l < N_LOSSES; l++) {
    const struct answers answers = {(const uint16_t[]){1}, y};
    ck_assert_msg(isnan(loss_of_batch(&losses[l], z, &answers, 1, 2, NULL).sum), "loss %zu", l);
  }
}
END_TEST

START_TEST(balanced_weights) {
  float w[3];
  loss_balance(LOSS_CROSS_ENTROPY, (const uint32_t[]){6, 0, 3}, 3, 9, w);
  ck_assert_float_eq(w[0], 0.5f);
  ck_assert_float_eq(w[1], 0);
  ck_assert_float_eq(w[2], 1);
  loss_balance(LOSS_BINARY_CROSS_ENTROPY, (const uint32_t[]){6, 0, 9}, 3, 9, w);
  ck_assert_float_eq(w[0], 0.5f);
  ck_assert_float_eq(w[1], 1);
  ck_assert_float_eq(w[2], 1);
}
END_TEST

int main(void) {
  return SUITE_RUN("loss", mean_and_gradient_are_the_twins, far_outputs_are_stable,
                   a_batch_without_weight_has_no_gradient, nan_is_told, balanced_weights);
}
