#include "models/merging/merge.h"

#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "base/must.h"
#include "models/floats.h"

void distance_ring_put(struct distance_ring *ring, double distance) {
  if (ring->n < MERGE_RING) {
    ring->distances[ring->n++] = distance;
    return;
  }
  ring->distances[ring->oldest] = distance;
  ring->oldest = (ring->oldest + 1) % MERGE_RING;
}

static double median(const struct distance_ring *ring) {
  double sorted[MERGE_RING];
  for (uint32_t i = 0; i < ring->n; i++)
    sorted[i] = ring->distances[i];
  return doubles_median(sorted, ring->n);
}

double distance_ring_bound(const struct distance_ring *ring, double own_step) {
  if (ring->n == 0 && own_step <= 0)
    return INFINITY;
  return MERGE_BOUND_FACTOR * fmax(median(ring), own_step);
}

enum { BLOCK = 512 };

static void sum_block(const float *x, const float *own, const struct merge_term *terms, size_t n_terms, size_t at,
                      size_t n, float out_x[BLOCK]) {
  double sum[BLOCK];
  for (size_t i = 0; i < n; i++)
    sum[i] = (double)x[at + i];
  for (size_t j = 0; j < n_terms; j++)
    for (size_t i = 0; i < n; i++)
      sum[i] += terms[j].weight * ((double)terms[j].copy[at + i] - (double)own[at + i]);
  for (size_t i = 0; i < n; i++)
    out_x[i] = (float)sum[i];
}

enum err merge_apply(float *x, const float *own, const struct merge_term *terms, size_t n_terms, size_t n_values) {
  float block[BLOCK];
  for (int write = 0; write <= 1; write++) { /* first whether it may be done, then the same again */
    for (size_t at = 0; at < n_values; at += BLOCK) {
      size_t n = n_values - at < BLOCK ? n_values - at : BLOCK;
      sum_block(x, own, terms, n_terms, at, n, block);
      if (write)
        memcpy(x + at, block, n * sizeof *block);
      else if (!floats_finite(block, n))
        return ERR_MERGE_REFUSED;
    }
  }
  return ERR_OK;
}

static float median_of(float *values, size_t n) {
  for (size_t i = 1; i < n; i++) { /* insertion sort */
    float v = values[i];
    size_t j = i;
    for (; j > 0 && values[j - 1] > v; j--)
      values[j] = values[j - 1];
    values[j] = v;
  }
  if (n % 2)
    return values[n / 2];
  return (float)(0.5 * ((double)values[n / 2 - 1] + (double)values[n / 2]));
}

void merge_median(float *x, const float *const *copies, size_t n, size_t n_values) {
  float values[MAX_PEERS];
  MUST(n >= 1 && n <= MAX_PEERS);
  for (size_t i = 0; i < n_values; i++) {
    for (size_t j = 0; j < n; j++)
      values[j] = copies[j][i];
    x[i] = median_of(values, n);
  }
}
