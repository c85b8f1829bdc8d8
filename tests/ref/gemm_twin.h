/* The products of models/kernels/gemm.h once more: row-major, in double, with naive loops. */
#ifndef TESTS_REF_GEMM_TWIN_H
#define TESTS_REF_GEMM_TWIN_H

#include <stdbool.h>
#include <stddef.h>

#include "models/kernels/gemm.h"

/* y [n][n_out] = x·wᵀ + b, w [n_out][n_in]. */
void gemm_twin_forward(const struct gemm_shape *s, const float *x, const float *w, const float *bias, bool relu,
                       double *y);

/* dx [n][n_in] = dy·w, w [n_out][n_in], where dy counts as zero where y ≤ 0 (y NULL: nowhere). */
void gemm_twin_back_inputs(const struct gemm_shape *s, const float *dy, const float *y, const float *w, double *dx);

/* One step of g and w [n_out][n_in] by the rule of struct gemm_update, whose arrays are not used. */
void gemm_twin_back_weights(const struct gemm_shape *s, const float *dy, const float *y, const float *x,
                            const struct gemm_update *rule, double *g, double *w);

#endif
