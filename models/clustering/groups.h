/* Groups: sites whose directions (sketch.h) are alike, found by every agent alone and by all the same.
 *
 * k-means over the sketches scaled to length 1 (FlexCFL, Duan et al. 2022: k-means on the cosines of pre-training updates;
 * seeding by k-means++, Arthur & Vassilvitskii 2007; GROUPS_RESTARTS starts, of which the one with the least sum of squares is
 * taken). ‖u_i − μ_c‖² = 1 − 2/|c| Σ_{j∈c} cos_ij + 1/|c|² Σ_{j,l∈c} cos_jl, so that nothing but the matrix of cosines is
 * wanted: n² numbers for n sketches, however long these are. Where the number of groups is not given it is the one with the
 * greatest mean silhouette (Rousseeuw 1987) of distance 1 − cos, or one group where that is not above GROUPS_LEAST, below which there is
 * no structure worth the name (Kaufman & Rousseeuw 1990).
 *
 * The result is a function of the sketches, their order and the seed alone: no history. A newcomer's sketch is one more, and it is
 * put to the group whose mean initial direction is nearest; one whose data have changed has another sketch, and is put anew.
 *
 * Equal on every CPU: cosines are exact sums of whole numbers with single roundings behind (sketch.h); from there on there are
 * only double additions, multiplications and divisions, each rounded by IEEE 754 on its own, in the order of the indices: nothing
 * is contracted (-ffp-contract=off), reassociated or read from a table of the C library, random numbers come from base/rng.h, and
 * ties go to the lower index. So x86 and Arm agree to the bit. Pure; any thread. */
#ifndef MODELS_CLUSTERING_GROUPS_H
#define MODELS_CLUSTERING_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "models/clustering/sketch.h"

enum { MAX_GROUPS = 16, MAX_GROUPED = 512, GROUPS_RESTARTS = 8, GROUPS_PASSES = 64 };
#define GROUPS_LEAST 0.25

/* How many groups are looked for. Until there are more sketches than groups all are one. */
struct groups_wish {
  uint32_t n;    /* 1 … MAX_GROUPS; 0: as many as the silhouette says … */
  uint32_t most; /* … but at most so many, 1 … MAX_GROUPS */
};

struct groups {
  uint8_t of[MAX_GROUPED]; /* [n sketches] its group, from 0 in the order of each group's first member */
  size_t n_groups;         /* no more than there are sketches */
  double silhouette;       /* mean, −1 … 1; 0 for one group */
};

/* The n ≤ MAX_GROUPED sketches stand in the order of their public keys. ERR_NO_MEMORY. */
MUST_USE enum err groups_find(const struct sketch *const *sketches, size_t n, const struct groups_wish *wish,
                              const struct digest *seed, struct groups *out_groups);

#endif
