/* Push-sum: averaging over directed edges, whose weights only the sender knows.
 *
 * An agent holds u and a mass μ, and z = u/μ is what is trained, judged and served. To each of those whom it tells
 * it gives an equal part of both and keeps one itself, so that Σ u and Σ μ are what they were, whoever tells whom.
 * What travels is not a part but the sum σ of all parts so far, one array for all: who has it takes what it grew by
 * since the last one taken, and a sum that was lost is in the next one. u is not stored: it is μ·z, and what rounding
 * of σ leaves stays with the sender.
 *
 * The masses are the caller's (agent/core/mass.h); here are the arrays that go with them. All sums in double,
 * element by element: the same input, the same bits. Sources: Kempe et al. 2003, Nedić & Olshevsky 2016 (push-sum),
 * Assran et al. 2019 (stochastic gradient push), Liu et al. 2024 (DFedPGP); sums in the place of parts: Hadjicostis
 * et al. 2016.
 *
 * Pure; any thread. */
#ifndef MODELS_MERGING_PUSH_SUM_H
#define MODELS_MERGING_PUSH_SUM_H

#include <stddef.h>

#include "base/err.h"

/* A push to n_told agents: `amount` of mass to each, > 0, of which `rest` > 0 stays of `mass`. */
struct push {
  double mass, amount, rest;
  size_t n_told;
};

/* out_sum ← fl(sum + amount·z), z ← (mass·z − n_told·(out_sum − sum)) / rest. Arrays of n; out_sum overlaps no other.
 * With n_told 0 out_sum is sum, and z stays to the bit. ERR_NON_FINITE: z is as it was. */
MUST_USE enum err push_sum_push(const struct push *p, float *z, const float *sum, size_t n, float *out_sum);

/* That did not leave: z ← (rest·z + n_told·(pushed − sum)) / mass. */
void push_sum_take_back(const struct push *p, float *z, const float *sum, const float *pushed, size_t n);

/* u ← mass·z */
void push_sum_begin(double mass, const float *z, size_t n, double *out_u);

/* u ← u + share·(sum − copy), and copy ← sum; share 0 … 1. */
void push_sum_take(double share, const float *sum, float *copy, size_t n, double *u);

/* z ← u / mass. ERR_NON_FINITE: not all of that is a float; out_z is lost. */
MUST_USE enum err push_sum_end(double mass, const double *u, size_t n, float *out_z);

#endif
