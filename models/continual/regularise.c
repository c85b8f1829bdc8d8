#include "models/continual/regularise.h"

#include <math.h>

void fisher_add(float *f, const float *g, size_t n, size_t n_samples) {
  double share = 1 / (double)n_samples;
  for (size_t i = 0; i < n; i++)
    f[i] = (float)((double)f[i] + (double)g[i] * (double)g[i] * share);
}

void ewc_consolidate(enum ewc_rule rule, double decay, const float *task_f, const float *x, size_t n, float *f,
                     float *anchor) {
  for (size_t i = 0; i < n; i++) {
    double before = (double)f[i], of_task = (double)task_f[i];
    double all = rule == EWC_ONLINE ? decay * before + of_task : before + of_task;
    bool is_new = rule == EWC_ONLINE || all <= 0;
    anchor[i] = is_new ? x[i] : (float)((before * (double)anchor[i] + of_task * (double)x[i]) / all);
    f[i] = (float)all;
  }
}

void ewc_gradient(double lambda, const float *f, const float *anchor, const float *x, size_t n, float *g) {
  float factor = (float)lambda;
  for (size_t i = 0; i < n; i++)
    g[i] += factor * f[i] * (x[i] - anchor[i]);
}

/* The largest output that counts; their number. */
static size_t largest_of(const float *z, const bool *counts, size_t k, double *out_largest) {
  size_t n = 0;
  for (size_t c = 0; c < k; c++)
    if (counts[c] && (n++ == 0 || (double)z[c] > *out_largest))
      *out_largest = (double)z[c];
  return n;
}

static double exponent_sum(const float *z, const bool *counts, size_t k, double largest, double temperature) {
  double sum = 0;
  for (size_t c = 0; c < k; c++)
    if (counts[c])
      sum += exp(((double)z[c] - largest) / temperature);
  return sum;
}

double distil_row(const float *old_z, const float *z, const bool *counts, size_t k, double temperature, double share,
                  float *d_z) {
  double old_largest = 0, largest = 0;
  if (largest_of(old_z, counts, k, &old_largest) < 2)
    return 0;
  (void)largest_of(z, counts, k, &largest);
  double old_log = log(exponent_sum(old_z, counts, k, old_largest, temperature));
  double log_sum = log(exponent_sum(z, counts, k, largest, temperature)), loss = 0;
  for (size_t c = 0; c < k; c++) {
    if (!counts[c])
      continue;
    double old_p_log = ((double)old_z[c] - old_largest) / temperature - old_log;
    double p_log = ((double)z[c] - largest) / temperature - log_sum;
    loss += exp(old_p_log) * (old_p_log - p_log);
    d_z[c] += (float)(share * temperature * (exp(p_log) - exp(old_p_log)));
  }
  return share * temperature * temperature * loss;
}

bool agem_project(float *g, const float *r, size_t n) {
  double dot = 0, square = 0;
  for (size_t i = 0; i < n; i++) {
    dot += (double)g[i] * (double)r[i];
    square += (double)r[i] * (double)r[i];
  }
  if (dot >= 0 || square <= 0)
    return false;
  for (size_t i = 0; i < n; i++)
    g[i] = (float)((double)g[i] - dot / square * (double)r[i]);
  return true;
}
