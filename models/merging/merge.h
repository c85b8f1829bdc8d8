/* Merging, what every rule (models/merging/rule.h) starts from: the norm bound that keeps one neighbour from dominating a merge; and
 * the median that a joiner adopts. Pure. */
#ifndef MODELS_MERGING_MERGE_H
#define MODELS_MERGING_MERGE_H

#include <stddef.h>
#include <stdint.h>

enum { MERGE_RING = 32, MERGE_BOUND_FACTOR = 5 };

/* The last accepted distances, as they were merged (at most the bound of their time). */
struct distance_ring {
  double distances[MERGE_RING]; /* the first n are in use; when all are, `oldest` is replaced next */
  uint32_t n, oldest;
};

void distance_ring_put(struct distance_ring *ring, double distance);

/* B = factor × max(median of the ring, own step norm). While there is neither a distance nor a step there is nothing to compare
 * with and B is infinite. The median of an even number is the mean of the middle two. */
double distance_ring_bound(const struct distance_ring *ring, double own_step, double factor);

/* x ← coordinate median of n ≤ MAX_PEERS copies, n ≥ 1. */
void merge_median(float *x, const float *const *copies, size_t n, size_t n_values);

#endif
