#include "models/merging/merge.h"

#include <math.h>

#include "models/floats.h"
#include "models/kernels/order.h"

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

double distance_ring_bound(const struct distance_ring *ring, double own_step, double factor) {
  if (ring->n == 0 && own_step <= 0)
    return INFINITY;
  return factor * fmax(median(ring), own_step);
}

void merge_median(float *x, const float *const *copies, size_t n, size_t n_values) {
  order_fastest()->median(copies, n, n_values, x);
}
