/* Losses: how far a batch's outputs are from what is right, and in which direction to move them. One row a loss.
 *
 * Each gives the sum over the n samples in double, the weight by which it is divided to a mean, and, unless d_z is NULL, the
 * gradient of that mean, d_z = ∂(sum/weight)/∂z [n][k]. All are PyTorch's of the same name with reduction='mean'; where the
 * weight is 0 the gradient is 0. Pure; any thread.
 *
 *   cross-entropy         CrossEntropyLoss(weight = w, label_smoothing = ε): −Σ_c t_c log softmax(z)_c with
 *                         t_c = w_c ε/k + [c = y] (1 − ε) w_y; a sample weighs w_y, so sum/weight is the weighted mean
 *   mean-squared-error    MSELoss: 1/k Σ_c (z_c − y_c)²
 *   huber                 HuberLoss(delta = δ): 1/k Σ_c of ½d² where |d| ≤ δ, else δ(|d| − ½δ), d = z_c − y_c
 *                         (Huber 1964)
 *   binary-cross-entropy  BCEWithLogitsLoss(pos_weight = w): 1/k Σ_c −w_c y_c log σ(z_c) − (1 − y_c) log(1 − σ(z_c)),
 *                         y_c of 0 … 1, computed without overflow
 *
 * A sample weighs 1 where nothing else is said. */
#ifndef MODELS_NET_LOSS_H
#define MODELS_NET_LOSS_H

#include <stddef.h>

#include "models/task.h"

struct loss {
  enum loss_kind kind;
  double label_smoothing; /* ε, 0 … <1: cross-entropy */
  double delta;           /* δ > 0: huber */
  const float *weights;   /* [k] w ≥ 0, borrowed; NULL: all 1 */
};

struct loss_sum {
  double sum, weight;
};

/* How classes are weighed in training. */
enum class_weighting { CLASS_WEIGHTS_NONE, CLASS_WEIGHTS_BALANCED, CLASS_WEIGHTS_GIVEN };

/* The weights w [k] by which classes that `counts` of n samples have count alike: n/(k·count) for one class a sample (King &
 * Zeng 2001), 0 where there is none; (n − count)/count for sets, 1 where that is not a number above 0. */
void loss_balance(enum loss_kind kind, const uint32_t *counts, size_t k, size_t n, float *out_weights);

struct loss_sum loss_of_batch(const struct loss *loss, const float *z, const struct answers *answers, size_t n,
                              size_t k, float *d_z);

#endif
