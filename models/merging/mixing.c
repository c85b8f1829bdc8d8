#include "models/merging/mixing.h"

#include <math.h>

#include "base/limits.h"
#include "base/must.h"

double mixing_metropolis(uint32_t own_degree, uint32_t peer_degree) {
  return 1.0 / (1.0 + (own_degree > peer_degree ? own_degree : peer_degree));
}

/* Insertion into ascending order: a few peers, once a round. */
static double median_of_known(const uint32_t *counts, size_t n_counts) {
  uint32_t sorted[MAX_PEERS + 1];
  size_t n = 0;
  for (size_t i = 0; i < n_counts; i++) {
    if (counts[i] == 0)
      continue;
    size_t at = n++;
    for (; at > 0 && sorted[at - 1] > counts[i]; at--)
      sorted[at] = sorted[at - 1];
    sorted[at] = counts[i];
  }
  if (n == 0)
    return 0;
  size_t low = (n - 1) / 2, high = n / 2;
  return ((double)sorted[low] + (double)sorted[high]) / 2;
}

double mixing_by_samples(const uint32_t *counts, size_t n_counts, size_t which, double max_share) {
  MUST(which >= 1 && which < n_counts && n_counts <= MAX_PEERS + 1);
  double cap = 5 * median_of_known(counts, n_counts);
  double sum = 0;
  for (size_t i = 0; i < n_counts; i++)
    sum += fmin(counts[i], cap);
  return sum > 0 ? fmin(fmin(counts[which], cap) / sum, max_share) : 0;
}

double mixing_stale(double weight, uint32_t lag) {
  return weight / sqrt(1.0 + lag);
}

double mixing_affinity(double kappa, double cosine) {
  return exp(kappa * (cosine - 1));
}

/* ---- the whole matrix --------------------------------------------------------------------------------------------- */

/* Without its mean, of length 1 by its largest part; the sum of squares before. */
static double normalise(double *x, size_t n) {
  double mean = 0, largest = 0, squares = 0;
  for (size_t i = 0; i < n; i++)
    mean += x[i] / (double)n;
  for (size_t i = 0; i < n; i++) {
    x[i] -= mean;
    squares += x[i] * x[i];
    largest = fmax(largest, fabs(x[i]));
  }
  for (size_t i = 0; i < n && largest > 0; i++)
    x[i] /= largest;
  return squares;
}

static double squares_of(const double *x, size_t n) {
  double squares = 0;
  for (size_t i = 0; i < n; i++)
    squares += x[i] * x[i];
  return squares;
}

double mixing_second_eigenvalue_squared(mixing_matrix *mix, const void *context, size_t n, double *scratch) {
  enum { ITERATIONS = 400 };
  double *x = scratch, *y = scratch + n, ratio = 0;
  normalise(x, n);
  for (size_t k = 0; k < ITERATIONS; k++) {
    double before = squares_of(x, n);
    mix(context, x, y);
    double after = normalise(y, n);
    ratio = before > 0 ? after / before : 0;
    double *swap = x;
    x = y;
    y = swap;
  }
  return ratio;
}

double mixing_spectral_gap(mixing_matrix *mix, const void *context, size_t n, double *scratch) {
  return 1 - sqrt(mixing_second_eigenvalue_squared(mix, context, n, scratch));
}
