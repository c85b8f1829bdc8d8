#include "tests/ref/loss_twin.h"

#include <math.h>

#include "base/must.h"

static double weight(const struct loss *l, size_t c) {
  return l->weights ? (double)l->weights[c] : 1;
}

static double log_softmax(const double *z, size_t k, size_t c) {
  double sum = 0;
  for (size_t j = 0; j < k; j++)
    sum += exp(z[j]);
  return log(exp(z[c]) / sum);
}

/* Σ_i [(1 − ε) w_y (−log p_y) + ε/k Σ_c w_c (−log p_c)] / Σ_i w_y */
static double cross_entropy(const struct loss *l, const double *z, const struct answers *a, size_t n, size_t k) {
  double sum = 0, all = 0;
  for (size_t i = 0; i < n; i++) {
    size_t y = a->labels[i];
    all += weight(l, y);
    sum -= (1 - l->label_smoothing) * weight(l, y) * log_softmax(z + i * k, k, y);
    for (size_t c = 0; c < k; c++)
      sum -= l->label_smoothing / (double)k * weight(l, c) * log_softmax(z + i * k, k, c);
  }
  return sum / all;
}

static double squared(const struct loss *l, double z, double y, size_t c) {
  (void)l;
  (void)c;
  return (z - y) * (z - y);
}

static double huber(const struct loss *l, double z, double y, size_t c) {
  (void)c;
  double d = fabs(z - y);
  return d <= l->delta ? 0.5 * d * d : l->delta * (d - 0.5 * l->delta);
}

static double logits(const struct loss *l, double z, double y, size_t c) {
  double p = 1 / (1 + exp(-z));
  return -weight(l, c) * y * log(p) - (1 - y) * log(1 - p);
}

double loss_twin(const struct loss *l, const double *z, const struct answers *a, size_t n, size_t k) {
  static double (*const values[N_LOSS_KINDS])(const struct loss *, double, double, size_t) = {
      [LOSS_MEAN_SQUARED_ERROR] = squared, [LOSS_HUBER] = huber, [LOSS_BINARY_CROSS_ENTROPY] = logits};
  double sum = 0;
  if (l->kind == LOSS_CROSS_ENTROPY)
    return cross_entropy(l, z, a, n, k);
  for (size_t i = 0; i < n * k; i++)
    sum += values[l->kind](l, z[i], (double)a->targets[i], i % k);
  return sum / (double)(n * k);
}
