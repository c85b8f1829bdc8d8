/* The sampler: which point of a grid to measure next, so that a tenth of it tells of the whole.
 *
 *   score(x) = a·rep(x) + b·div(x) + c·unc(x),   each scaled to at most 1 over the points that are left
 *   rep(x)   = mean_j exp(−‖x − x_j‖² / 2h²)     near to many
 *   div(x)   = min over measured s of ‖x − x_s‖  far from what is known
 *   unc(x)   = spread of the cost model's members
 *
 * Distances are between values standardised over the grid, and two variants are about four of those apart; h² is half the
 * mean squared distance. Equal scores are decided by the seed; with a = b = c = 0 it is random sampling. Shen et al. 2026 (RDU). Pure. */
#ifndef MODELS_TUNING_SAMPLER_H
#define MODELS_TUNING_SAMPLER_H

#include <stdint.h>

#include "models/tuning/cost.h"

struct sampler;

struct sampler_weights {
  double representative, diverse, uncertain; /* a, b, c */
};

/* The points are borrowed; n ≥ 1. ERR_NO_MEMORY. */
MUST_USE enum err sampler_new(const struct cost_point *points, size_t n, struct sampler_weights weights, uint64_t seed,
                              struct sampler **out_sampler);
void sampler_free(struct sampler *s);

/* The point is measured, or not wanted any more. */
void sampler_take(struct sampler *s, size_t taken);

/* The best of those that are left; the number of points when none is. spread [n]: of each point, NULL while nobody knows. */
size_t sampler_pick(const struct sampler *s, const double *spread);

#endif
