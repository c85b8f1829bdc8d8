/* Shift: whether a site's labels are distributed as they were when its sketch was made (FlexCFL, Duan et al. 2022: a
 * client whose Wasserstein distance between present and remembered label counts is above 0.2·n/C starts anew).
 *
 * Classes have no order, so moving a sample from one class to any other costs the same, 1/C: of counts with one sum n the
 * distance then is ½ Σ_c |p_c − q_c| / C, and that above `most`·n/C means that more than the share `most` of the samples would have to
 * change class. Counts remembered from another number of samples are scaled, so that growth alone is no shift. Exact, in whole numbers
 * but for the last comparison. (SciPy's wasserstein_distance of the two count vectors, as in the paper's code, sorts them first and so
 * takes a site whose two classes were exchanged for the same.) Pure; any thread. */
#ifndef MODELS_CLUSTERING_SHIFT_H
#define MODELS_CLUSTERING_SHIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The share of samples that would have to change class, 0 … 1; 1 where one of the two has none and the other has. */
double shift_share(const uint32_t *remembered, const uint32_t *present, size_t n_classes);

#endif
