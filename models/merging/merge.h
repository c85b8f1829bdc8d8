/* Merging: the arithmetic of x ← x + Σ_j w_j (x̂_j − x̂) and the norm bound that keeps one neighbour from dominating it.
 *
 * Sums run in double, value by value, in the order in which the terms are given; the caller gives them by ascending
 * public key, so the order of arrival changes no bit. With Metropolis weights this is one step of average consensus (Xiao
 * & Boyd 2004). Pure. */
#ifndef MODELS_MERGING_MERGE_H
#define MODELS_MERGING_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MERGE_RING = 32, MERGE_BOUND_FACTOR = 5 };

/* The last accepted distances, as they were merged (at most the bound of their time). */
struct distance_ring {
  double distances[MERGE_RING]; /* the first n are in use; when all are, `oldest` is replaced next */
  uint32_t n, oldest;
};

void distance_ring_put(struct distance_ring *ring, double distance);

/* B = 5 × max(median of the ring, own step norm). While there is neither a distance nor a step there is nothing to compare
 * with and B is infinite. The median of an even number is the mean of the middle two. */
double distance_ring_bound(const struct distance_ring *ring, double own_step);

struct merge_term {
  const float *copy; /* x̂_j [P] */
  double weight;     /* w_j, times B/‖x̂_j − x̂‖ where the bound applies */
};

/* x ← x + Σ weight·(copy − own), own = x̂ [P]. n_terms = 0 leaves x to the bit. ERR_MERGE_REFUSED: a sum is not finite as a
 * float; x is then untouched. */
MUST_USE enum err merge_apply(float *x, const float *own, const struct merge_term *terms, size_t n_terms,
                              size_t n_values);

/* x ← coordinate median of n ≤ MAX_PEERS copies, n ≥ 1. */
void merge_median(float *x, const float *const *copies, size_t n, size_t n_values);

#endif
