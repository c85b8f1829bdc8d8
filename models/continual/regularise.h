/* What keeps a model from leaving what it knew: arithmetic on flat arrays and on rows of outputs.
 *
 *   EWC          L + ½ λ Σ F (θ − θ*)²; its gradient λF(θ − θ*)                        (Kirkpatrick et al. 2017)
 *     separate   a sum of such terms over tasks is again one: F ← F + F_t, θ* ← (Fθ* + F_t θ)/(F + F_t)
 *     online     F ← γF + F_t, θ* ← θ                                                  (Schwarz et al. 2018)
 *     F          mean over samples of (∂ log p(y|x)/∂θ)² with y drawn from p, of one sample at a time
 *   LwF          T² KL(softmax(z_old/T) ‖ softmax(z/T)), T = 2                          (Li & Hoiem 2016; Hinton et al. 2015)
 *   A-GEM        g ← g − (g·r/‖r‖²) r where g·r < 0, r the gradient on what is remembered  (Chaudhry et al. 2019)
 *
 * Sums in double, in order. Pure; any thread. */
#ifndef MODELS_CONTINUAL_REGULARISE_H
#define MODELS_CONTINUAL_REGULARISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ewc_rule { EWC_ONLINE, EWC_SEPARATE };

/* F [n] += g²/n_samples, for the gradient of one sample. */
void fisher_add(float *f, const float *g, size_t n, size_t n_samples);

/* Takes a task's F_t [n], with the weights x [n] at its end, into F and θ*. */
void ewc_consolidate(enum ewc_rule rule, double decay, const float *task_f, const float *x, size_t n, float *f,
                     float *anchor);

/* g [n] += λF(θ − θ*). */
void ewc_gradient(double lambda, const float *f, const float *anchor, const float *x, size_t n, float *g);

/* One row of k outputs, of which only those with counts[c] are compared: the loss share · T² KL(old ‖ new), and its gradient
 * added to d_z; ∂/∂z_c = share · T (p_c − p_old,c). 0 where fewer than two count. */
double distil_row(const float *old_z, const float *z, const bool *counts, size_t k, double temperature, double share,
                  float *d_z);

/* g [n] is projected where it would undo r [n]; whether it was. */
bool agem_project(float *g, const float *r, size_t n);

#endif
