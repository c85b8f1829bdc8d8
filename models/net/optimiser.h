/* Optimisers: how the gradient moves the weights. One row an optimiser.
 *
 * All are PyTorch's of the same name, with ∇ the gradient, λ weight_decay, η the rate of the round and t the step from 1:
 *
 *   sgd    g = ∇ + λx,  m ← βm + g,  x ← x − η·m;  with nesterov x ← x − η·(g + βm)    (Polyak 1964; Sutskever et al. 2013)
 *   adam   g = ∇ + λx,  m ← β₁m + (1 − β₁)g,  v ← β₂v + (1 − β₂)g²,
 *          x ← x − η/(1 − β₁ᵗ) · m / (√v/√(1 − β₂ᵗ) + ε)                               (Kingma & Ba 2015)
 *   adamw  the same with g = ∇ and x ← (1 − ηλ)x before                                (Loshchilov & Hutter 2019)
 *
 * They work value by value on flat arrays, so the order of the values in them does not matter, and all kernels give equal
 * bits. The arrays m and v are the optimiser's state, which is kept between rounds as t is. Pure; any thread. */
#ifndef MODELS_NET_OPTIMISER_H
#define MODELS_NET_OPTIMISER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum optimiser { OPTIMISER_SGD, OPTIMISER_ADAM, OPTIMISER_ADAMW, N_OPTIMISERS };
enum { MAX_OPTIMISER_STATES = 2 };

struct optimiser_config {
  enum optimiser kind;
  double momentum;     /* sgd: β, 0 … <1 */
  bool nesterov;       /* sgd */
  double beta1, beta2; /* adam, adamw: 0 … <1 */
  double epsilon;      /* adam, adamw: > 0 */
  double weight_decay; /* λ */
  double clip_norm;    /* ‖∇‖₂ is scaled down to this (Pascanu et al. 2013); 0: never */
};

const char *optimiser_name(enum optimiser kind); /* "adam" */
size_t optimiser_states(enum optimiser kind);    /* arrays beside the model, at most MAX_OPTIMISER_STATES */

/* Whether every number is in its range and finite. */
bool optimiser_fits(const struct optimiser_config *c);

/* Whether the gradient may be added straight into βm: plain sgd without clipping. Else it needs an array of its own. */
bool optimiser_folds(const struct optimiser_config *c);

/* By how much a gradient with this sum of squares is multiplied: min(1, clip_norm/(‖∇‖ + 1e-6)); 1 without clipping. */
double optimiser_clip(const struct optimiser_config *c, double square_sum);

/* A step, for values [n] of the model x with the gradient g and the states. */
struct optimiser_step {
  double rate;
  double scale; /* of the gradient, from optimiser_clip */
  uint64_t t;   /* from 1 */
};
void optimiser_apply(const struct optimiser_config *c, const struct optimiser_step *step, float *x, const float *g,
                     float *const states[MAX_OPTIMISER_STATES], size_t n);

/* The same for those that fold, m [n] being βm + ∇ already: m ← m + λx, x ← x − rate·m. */
void optimiser_descend(float *x, float *m, size_t n, double rate, double weight_decay);

/* The ways of computing it on this CPU, plain first, for those who compare them. */
size_t optimiser_kernels(void);
void optimiser_apply_by(size_t kernel, const struct optimiser_config *c, const struct optimiser_step *step, float *x,
                        const float *g, float *const states[MAX_OPTIMISER_STATES], size_t n);

#endif
