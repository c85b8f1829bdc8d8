/* Losses: how far a batch's outputs are from what they should be, and in which direction to move them.
 *
 * Both return the *sum* over the n samples in double and, unless d_z is NULL, write the gradient of the *mean*,
 * d_z = ∂(sum/n)/∂z [n][k]. Pure. */
#ifndef MODELS_NET_LOSS_H
#define MODELS_NET_LOSS_H

#include <stddef.h>
#include <stdint.h>

/* Softmax cross-entropy: Σ −log softmax(z)_y, with the row's largest output subtracted first so that nothing overflows;
 * d_z = (softmax(z) − onehot(y))/n. z [n][k], labels [n] below k. */
double loss_cross_entropy(const float *z, const uint16_t *labels, size_t n, size_t k, float *d_z);

/* Mean squared error: Σ_samples 1/k Σ_outputs (z − y)²; d_z = 2(z − y)/(nk). z and targets [n][k]. */
double loss_mean_squared_error(const float *z, const float *targets, size_t n, size_t k, float *d_z);

#endif
