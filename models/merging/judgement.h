/* Whom to believe: what robust rules make of the distances between a few models. The models themselves are not needed, for
 * all that such a rule says is a number a model; so a rule costs one pass over the parameters for the distances and one for
 * the sum, whatever it does between them.
 *
 * `squares` [n][n] holds ‖p_i − p_j‖², `coefs` [n] the coefficients of a sum Σ a_i p_i with Σ a_i = 1. Sums run from the first
 * to the last, and of two equals the first is preferred: equal input, equal bits. Pure. */
#ifndef MODELS_MERGING_JUDGEMENT_H
#define MODELS_MERGING_JUDGEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Distances of mixtures: row r is Σ_i mixing[r][i] p_i, each row's sum is 1. scratch [n_rows][n]; out [n_rows][n_rows]. */
void judge_mixed(const double *squares, size_t n, const double *mixing, size_t n_rows, double *scratch,
                 double *out_squares);

/* ‖p_i − Σ_k a_k p_k‖ of all i. */
void judge_distances_from(const double *squares, size_t n, const double *coefs, double *out_distances);

/* Nearest-neighbour mixing (Allouah et al. 2023): row i is the mean of the n_nearest models that are nearest to p_i, itself among
 * them. out_mixing [n][n]; scratch [n]. */
void judge_nearest(const double *squares, size_t n, size_t n_nearest, double *scratch, double *out_mixing);

/* Bucketing (Karimireddy, He & Jaggi 2022): the models in a random order are cut into buckets of `size`, the last one has what is
 * left, and each row is the mean of a bucket. Returns their number ⌈n / size⌉. order [n] is scratch; out_mixing [rows][n]. */
size_t judge_buckets(size_t n, size_t size, uint64_t seed, uint32_t *order, double *out_mixing);

/* Krum (Blanchard et al. 2017): a model's score is the sum of its n − f − 2 smallest squared distances, at least one. The n_chosen
 * models with the lowest scores weigh alike: 1 is Krum; of multi-Krum the paper leaves open how many, 1 … n, and here they are
 * n − f, as many as are good. (El Mhamdi et al. 2018 prove it for n − f − 2 at most.) scratch [2·n]. */
void judge_krum(const double *squares, size_t n, size_t f, size_t n_chosen, double *scratch, double *out_coefs);

/* Smoothed Weiszfeld (Pillutla et al. 2022, RFA): 8 steps from the mean, a_i ∝ 1 / max(ν, ‖p_i − z‖); ν is a millionth of the
 * median distance, so that no unit is assumed; models that are all equal weigh alike. scratch [2·n]. */
void judge_geometric_median(const double *squares, size_t n, double *scratch, double *out_coefs);

/* Centred clipping (Karimireddy et al. 2021): v ← v + 1/n Σ (p_i − v) · min(1, τ/‖p_i − v‖), 3 steps from v = p_0, each with τ the
 * median of the others' distances. out_clipped[i]: shortened in the last one. scratch [2·n]. */
void judge_centred_clip(const double *squares, size_t n, double *scratch, double *out_coefs, bool *out_clipped);

/* The k-th smallest, 1 ≤ k ≤ n. scratch [n]. */
double judge_smallest(const double *values, size_t n, size_t k, double *scratch);

#endif
