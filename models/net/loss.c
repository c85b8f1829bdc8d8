#include "models/net/loss.h"

#include <math.h>

#include "base/must.h"

/* One row of k outputs: the loss, and in d_z, unless it is NULL, its gradient times `share`. */
typedef double loss_row(const struct loss *l, const float *z, const float *targets, size_t k, float *d_z, double share);

static double weight_of(const struct loss *l, size_t c) {
  return l->weights ? (double)l->weights[c] : 1;
}

/* ---- one of k classes */

/* −Σ t_c log p_c = Σ t_c (log Σ e^z − z_c), with the largest output subtracted first so that nothing overflows;
 * ∂/∂z_c = p_c Σ t − t_c */
static double cross_entropy_row(const struct loss *l, const float *z, size_t y, size_t k, float *d_z, double share) {
  MUST(y < k);
  float largest = z[0];
  for (size_t j = 1; j < k; j++)
    largest = z[j] > largest ? z[j] : largest;
  double sum = 0, smooth = l->label_smoothing / (double)k, target = (1 - l->label_smoothing) * weight_of(l, y);
  double all_targets = target, dot = target * ((double)z[y] - (double)largest);
  for (size_t j = 0; j < k; j++) {
    double from_largest = (double)z[j] - (double)largest, e = exp(from_largest);
    sum += e;
    if (d_z)
      d_z[j] = (float)e;
    if (smooth > 0) {
      all_targets += smooth * weight_of(l, j);
      dot += smooth * weight_of(l, j) * from_largest;
    }
  }
  for (size_t j = 0; d_z && j < k; j++) {
    double t = (j == y ? target : 0) + smooth * weight_of(l, j);
    d_z[j] = (float)(((double)d_z[j] / sum * all_targets - t) * share);
  }
  return all_targets * log(sum) - dot;
}

static struct loss_sum of_classes(const struct loss *l, loss_row *row, const float *z, const struct answers *a,
                                  size_t n, size_t k, float *d_z) {
  (void)row;
  struct loss_sum s = {0};
  for (size_t i = 0; i < n; i++)
    s.weight += weight_of(l, a->labels[i]);
  double share = s.weight > 0 ? 1 / s.weight : 0;
  for (size_t i = 0; i < n; i++)
    s.sum += cross_entropy_row(l, z + i * k, a->labels[i], k, d_z ? d_z + i * k : NULL, share);
  return s;
}

/* ---- k numbers */

static double squared_row(const struct loss *l, const float *z, const float *y, size_t k, float *d_z, double share) {
  (void)l;
  double sum = 0;
  for (size_t j = 0; j < k; j++) {
    double d = (double)z[j] - (double)y[j];
    sum += d * d;
    if (d_z)
      d_z[j] = (float)(2 * d * share);
  }
  return sum;
}

static double huber_row(const struct loss *l, const float *z, const float *y, size_t k, float *d_z, double share) {
  double sum = 0, delta = l->delta;
  for (size_t j = 0; j < k; j++) {
    double d = (double)z[j] - (double)y[j], within = fmax(-delta, fmin(d, delta));
    sum += within * (d - within / 2); /* ½d², or ±δ(d ∓ ½δ) */
    if (d_z)
      d_z[j] = (float)(within * share);
  }
  return sum;
}

/* log(1 + e^−z) = log1p(e^−|z|) + max(−z, 0), so the loss is (1 − y) z + v · that with v = 1 + (w − 1) y;
 * ∂/∂z = (1 − y) − v σ(−z) */
static double logits_row(const struct loss *l, const float *z, const float *y, size_t k, float *d_z, double share) {
  double sum = 0;
  for (size_t j = 0; j < k; j++) {
    double at = (double)z[j], no = 1 - (double)y[j], v = 1 + (weight_of(l, j) - 1) * (double)y[j];
    double e = exp(-fabs(at));
    sum += no * at + v * (log1p(e) + fmax(-at, 0));
    if (d_z)
      d_z[j] = (float)((no - v * (at >= 0 ? e : 1) / (1 + e)) * share);
  }
  return sum;
}

/* The rows' mean over n·k values. */
static struct loss_sum mean_of_rows(const struct loss *l, loss_row *row, const float *z, const struct answers *a,
                                    size_t n, size_t k, float *d_z) {
  struct loss_sum s = {.weight = (double)n};
  double share = 1 / ((double)n * (double)k);
  for (size_t i = 0; i < n; i++)
    s.sum += row(l, z + i * k, a->targets + i * k, k, d_z ? d_z + i * k : NULL, share);
  s.sum /= (double)k;
  return s;
}

static const struct loss_type {
  struct loss_sum (*of_batch)(const struct loss *l, loss_row *row, const float *z, const struct answers *a, size_t n,
                              size_t k, float *d_z);
  loss_row *row;
} types[N_LOSS_KINDS] = {
    [LOSS_CROSS_ENTROPY] = {of_classes, NULL},
    [LOSS_MEAN_SQUARED_ERROR] = {mean_of_rows, squared_row},
    [LOSS_HUBER] = {mean_of_rows, huber_row},
    [LOSS_BINARY_CROSS_ENTROPY] = {mean_of_rows, logits_row},
};

struct loss_sum loss_of_batch(const struct loss *l, const float *z, const struct answers *a, size_t n, size_t k,
                              float *d_z) {
  MUST((size_t)l->kind < N_LOSS_KINDS);
  return types[l->kind].of_batch(l, types[l->kind].row, z, a, n, k, d_z);
}

void loss_balance(enum loss_kind kind, const uint32_t *counts, size_t k, size_t n, float *out_weights) {
  for (size_t c = 0; c < k; c++) {
    double count = counts[c], rest = (double)n - count;
    if (kind == LOSS_CROSS_ENTROPY)
      out_weights[c] = (float)(count > 0 ? (double)n / ((double)k * count) : 0);
    else
      out_weights[c] = (float)(count > 0 && rest > 0 ? rest / count : 1);
  }
}
