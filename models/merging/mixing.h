/* Mixing weights: how much of a peer's difference enters a merge. Scalars only; pure; any thread. */
#ifndef MODELS_MERGING_MIXING_H
#define MODELS_MERGING_MIXING_H

#include <stddef.h>
#include <stdint.h>

/* w_ij = 1 / (1 + max(d_i, d_j)): symmetric, and with the rest on the diagonal doubly stochastic (Xiao & Boyd 2004). */
double mixing_metropolis(uint32_t own_degree, uint32_t peer_degree);

/* w_j = n_j / Σ n over oneself and the configured peers whose count is known, each count capped at 5 × their median, the
 * weight at max_share. counts[0] is our own; counts of 0 are unknown and left out. Returns w of counts[which], which ≥ 1. */
double mixing_by_samples(const uint32_t *counts, size_t n_counts, size_t which, double max_share);

/* A contribution of lag s weighs w / (1 + s)^½. */
double mixing_stale(double weight, uint32_t lag);

/* exp(κ·(cos − 1)), 1 … e^−2κ: what similar sites weigh to each other, a_ij ∝ exp(κ·cos(Δ_i, Δ_j)), scaled so that weights only
 * shrink: what is missing goes to oneself, and symmetric weights stay so. κ ≥ 0; 0: 1. */
double mixing_affinity(double kappa, double cosine);

/* max(|λ2|, |λN|)² of a symmetric mixing matrix of n agents with rows of sum 1, by power iteration without its constant vector: what a
 * difference shrinks by in a round, squared. `mix` writes W x to out. scratch [2n]: begins with any vector that is not constant, best
 * near the slowest one; lost. */
typedef void mixing_matrix(const void *context, const double *x, double *out);
double mixing_second_eigenvalue_squared(mixing_matrix *mix, const void *context, size_t n, double *scratch);

/* 1 − max(|λ2|, |λN|), likewise. */
double mixing_spectral_gap(mixing_matrix *mix, const void *context, size_t n, double *scratch);

#endif
