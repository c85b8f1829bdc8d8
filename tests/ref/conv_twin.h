/* Convolution once more, in double and with naive loops: what every kernel of models/kernels/conv.h must agree with. */
#ifndef TESTS_REF_CONV_TWIN_H
#define TESTS_REF_CONV_TWIN_H

#include <stdbool.h>
#include <stddef.h>

#include "models/kernels/conv.h"

/* y [n][out_height][out_width][c_out] of x [n][height][width][c_in], w [c_out][kernel][kernel][c_in] and [c_out]. */
void conv_twin_forward(const struct conv_shape *s, size_t n, const float *x, const float *w, bool relu, double *y);

/* g = ∂L/∂w, laid out as w, and dx = ∂L/∂x from dz = ∂L/∂y of the y before the relu. */
void conv_twin_backward(const struct conv_shape *s, size_t n, const float *x, const float *w, const double *dz,
                        double *g, double *dx);

#endif
