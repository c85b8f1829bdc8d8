/* Sketches: the direction in which a site's data pull a model, in 512 bytes.
 *
 * A site trains a fixed number of mini-batches from the job's first weights, which are equal everywhere; its *direction* is
 * Δ = what that changed (FlexCFL, Duan et al. 2022, pre-training from one initialisation). A count sketch (Charikar, Chen &
 * Farach-Colton 2002) folds Δ into SKETCH_CELLS sums, y[h(i)] += s(i)·Δ_i with h and s from a seed that the job fixes, so that
 * the cosine of two sketches is that of two directions, ± 1/√SKETCH_CELLS. Length is thrown away and the cells are rounded to whole
 * numbers, the largest ±SKETCH_MOST: what travels has no NaN and no infinity, and one direction has one encoding.
 *
 * Sketches of one site may differ in last bits between hosts, as training does; what is made of given sketches may not:
 * sketch_cosine is a sum of whole numbers, exact, then one conversion, multiplication, square root and division, each rounded
 * as IEEE 754 says. Pure; any thread. */
#ifndef MODELS_CLUSTERING_SKETCH_H
#define MODELS_CLUSTERING_SKETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "models/schema.h"

enum { SKETCH_CELLS = 256, SKETCH_MOST = INT16_MAX };

struct sketch {
  int16_t cells[SKETCH_CELLS]; /* the largest magnitude is SKETCH_MOST */
};

/* The sketch of Δ = to − from, both [P] in schema order: of the shared tensors alone, since personal ones may differ in shape and
 * statistics are not learnt. Value i is the i-th shared one. ERR_NON_FINITE; ERR_RANGE: nothing has changed, which has no
 * direction. */
MUST_USE enum err sketch_of(const struct schema *schema, const float *from, const float *to, const struct digest *seed,
                            struct sketch *out_sketch);

/* Whether it may have been made by sketch_of. */
bool sketch_is_canonical(const struct sketch *s);

/* −1 … 1; symmetric to the bit. Both are canonical. */
double sketch_cosine(const struct sketch *a, const struct sketch *b);

#endif
