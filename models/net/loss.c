#include "models/net/loss.h"

#include <math.h>

#include "base/must.h"

static double cross_entropy_row(const float *z, size_t y, size_t k, float *d_z, double share) {
  MUST(y < k);
  float largest = z[0];
  for (size_t j = 1; j < k; j++)
    largest = z[j] > largest ? z[j] : largest;
  double sum = 0;
  for (size_t j = 0; j < k; j++) {
    double e = exp((double)z[j] - (double)largest);
    sum += e;
    if (d_z)
      d_z[j] = (float)e;
  }
  for (size_t j = 0; d_z && j < k; j++)
    d_z[j] = (float)(((double)d_z[j] / sum - (j == y ? 1.0 : 0.0)) * share);
  return log(sum) + (double)largest - (double)z[y];
}

double loss_cross_entropy(const float *z, const uint16_t *labels, size_t n, size_t k, float *d_z) {
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += cross_entropy_row(z + i * k, labels[i], k, d_z ? d_z + i * k : NULL, 1.0 / (double)n);
  return sum;
}

double loss_mean_squared_error(const float *z, const float *targets, size_t n, size_t k, float *d_z) {
  double sum = 0;
  for (size_t i = 0; i < n * k; i++) {
    double d = (double)z[i] - (double)targets[i];
    sum += d * d;
    if (d_z)
      d_z[i] = (float)(2.0 * d / (double)(n * k));
  }
  return sum / (double)k;
}
