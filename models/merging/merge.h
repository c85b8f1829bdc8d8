/* Merging: the arithmetic of x ← x + Σ_j w_j (x̂_j − x̂), the norm bound that keeps one neighbour from dominating it, and
 * what robust rules are made of. Everything is read once and takes no memory of its own (models/kernels: mean, order, distance).
 *
 * Sums run in double, value by value, in the order in which the terms are given; the caller gives them by ascending
 * public key, so the order of arrival changes no bit. With Metropolis weights this is one step of average consensus (Xiao
 * & Boyd 2004). Pure. */
#ifndef MODELS_MERGING_MERGE_H
#define MODELS_MERGING_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/kernels/mean.h"

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

/* out_x = x + Σ weight·(values − own), own = x̂ [P], values = x̂_j [P], weight = w_j, times B/‖x̂_j − x̂‖ where the bound
 * applies. n_terms = 0 leaves x to the bit. out_x overlaps nothing else. ERR_MERGE_REFUSED: a sum is not finite as a float;
 * out_x is then undefined. */
MUST_USE enum err merge_apply(const float *x, const float *own, const struct mean_term *terms, size_t n_terms,
                              size_t n_values, float *out_x);

/* x ← coordinate median of n ≤ MAX_PEERS copies, n ≥ 1. */
void merge_median(float *x, const float *const *copies, size_t n, size_t n_values);

/* x ← coordinate mean of n ≤ MAX_PEERS copies without the f smallest and the f largest, 2f < n. */
void merge_trimmed(float *x, const float *const *copies, size_t n, size_t f, size_t n_values);

/* out_squares [n][n] = ‖x̂_i − x̂_j‖² (models/kernels/distance.h). */
void merge_distances(const float *const *copies, size_t n, size_t n_values, double *out_squares);

#endif
