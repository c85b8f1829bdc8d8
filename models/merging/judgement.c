#include "models/merging/judgement.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"
#include "models/floats.h"

static double dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

/* With rows a, b: ‖p_a − p_b‖² = a·D·b − (a·D·a + b·D·b)/2. */
void judge_mixed(const double *squares, size_t n, const double *mixing, size_t n_rows, double *scratch,
                 double *out_squares) {
  for (size_t r = 0; r < n_rows; r++)
    for (size_t i = 0; i < n; i++)
      scratch[r * n + i] = dot(mixing + r * n, squares + i * n, n);
  for (size_t r = 0; r < n_rows; r++)
    for (size_t s = r; s < n_rows; s++)
      out_squares[r * n_rows + s] = dot(scratch + r * n, mixing + s * n, n);
  for (size_t r = 0; r < n_rows; r++)
    for (size_t s = r + 1; s < n_rows; s++) {
      double own = (out_squares[r * n_rows + r] + out_squares[s * n_rows + s]) / 2;
      double square = fmax(0, out_squares[r * n_rows + s] - own);
      out_squares[s * n_rows + r] = square;
    }
  for (size_t r = 0; r < n_rows; r++) {
    out_squares[r * n_rows + r] = 0;
    for (size_t s = r + 1; s < n_rows; s++)
      out_squares[r * n_rows + s] = out_squares[s * n_rows + r];
  }
}

void judge_distances_from(const double *squares, size_t n, const double *coefs, double *out_distances) {
  double spread = 0;
  for (size_t i = 0; i < n; i++) {
    out_distances[i] = dot(squares + i * n, coefs, n);
    spread += coefs[i] * out_distances[i];
  }
  for (size_t i = 0; i < n; i++)
    out_distances[i] = sqrt(fmax(0, out_distances[i] - spread / 2));
}

double judge_smallest(const double *values, size_t n, size_t k, double *scratch) {
  MUST(k >= 1 && k <= n);
  memcpy(scratch, values, n * sizeof *values);
  doubles_sort(scratch, n);
  return scratch[k - 1];
}

/* How many come before it: what is smaller, and of equals the first ones. */
static size_t rank_of(const double *values, size_t n, size_t which) {
  size_t rank = 0;
  for (size_t i = 0; i < n; i++)
    rank += values[i] < values[which] || (i < which && values[i] <= values[which]);
  return rank;
}

void judge_nearest(const double *squares, size_t n, size_t n_nearest, double *scratch, double *out_mixing) {
  const double share = 1.0 / (double)n_nearest;
  for (size_t i = 0; i < n; i++) {
    memcpy(scratch, squares + i * n, n * sizeof *scratch);
    scratch[i] = -1; /* before any that is as near */
    for (size_t j = 0; j < n; j++)
      out_mixing[i * n + j] = rank_of(scratch, n, j) < n_nearest ? share : 0;
  }
}

size_t judge_buckets(size_t n, size_t size, uint64_t seed, uint32_t *order, double *out_mixing) {
  struct rng rng;
  size_t n_rows = (n + size - 1) / size;
  rng_init(&rng, seed);
  for (size_t i = 0; i < n; i++)
    order[i] = (uint32_t)i;
  rng_shuffle(&rng, order, n);
  memset(out_mixing, 0, n_rows * n * sizeof *out_mixing);
  for (size_t i = 0; i < n; i++) {
    size_t row = i / size, in_row = row + 1 < n_rows ? size : n - row * size;
    out_mixing[row * n + order[i]] = 1.0 / (double)in_row;
  }
  return n_rows;
}

void judge_krum(const double *squares, size_t n, size_t f, size_t n_chosen, double *scratch, double *out_coefs) {
  double *scores = scratch, *sorted = scratch + n;
  size_t n_near = n > f + 3 ? n - f - 2 : 1;
  for (size_t i = 0; i < n; i++) {
    memcpy(sorted, squares + i * n, n * sizeof *sorted);
    doubles_sort(sorted, n); /* the first is the model itself, or one that is equal to it */
    scores[i] = 0;
    for (size_t k = 1; k <= n_near && k < n; k++)
      scores[i] += sorted[k];
  }
  for (size_t i = 0; i < n; i++)
    out_coefs[i] = rank_of(scores, n, i) < n_chosen ? 1.0 / (double)n_chosen : 0;
}

void judge_geometric_median(const double *squares, size_t n, double *scratch, double *out_coefs) {
  enum { STEPS = 8 };
  double *distances = scratch, *sorted = scratch + n;
  for (size_t i = 0; i < n; i++)
    out_coefs[i] = 1.0 / (double)n;
  for (size_t step = 0; step < STEPS; step++) {
    judge_distances_from(squares, n, out_coefs, distances);
    memcpy(sorted, distances, n * sizeof *sorted);
    double least = fmax(1e-6 * doubles_median(sorted, n), DBL_MIN), sum = 0;
    for (size_t i = 0; i < n; i++)
      sum += least / fmax(least, distances[i]); /* at most 1: models that are equal overflow nothing */
    for (size_t i = 0; i < n; i++)
      out_coefs[i] = least / fmax(least, distances[i]) / sum;
  }
}

void judge_centred_clip(const double *squares, size_t n, double *scratch, double *out_coefs, bool *out_clipped) {
  enum { STEPS = 3 };
  double *distances = scratch, *sorted = scratch + n;
  memset(out_coefs, 0, n * sizeof *out_coefs);
  memset(out_clipped, 0, n * sizeof *out_clipped);
  out_coefs[0] = 1;
  for (size_t step = 0; step < STEPS && n > 1; step++) {
    judge_distances_from(squares, n, out_coefs, distances);
    memcpy(sorted, distances + 1, (n - 1) * sizeof *sorted);
    double most = doubles_median(sorted, n - 1), left = 1;
    for (size_t i = 0; i < n; i++) {
      out_clipped[i] = distances[i] > most;
      distances[i] = (out_clipped[i] ? most / distances[i] : 1) / (double)n;
      left -= distances[i];
    }
    for (size_t i = 0; i < n; i++)
      out_coefs[i] = left * out_coefs[i] + distances[i];
  }
}
