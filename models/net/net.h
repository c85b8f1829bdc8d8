/* The net: a model's layers run forwards and backwards over a batch.
 *
 * It chooses a kernel for each layer and owns a workspace for one batch; weights, momentum and gradients are the caller's
 * arrays, of net_floats each, in the *training layout*: each layer's trained parameters as its kernel likes them, zeros
 * where that pads, and its statistics behind them. net_load makes it of an array in the order of the model, in place, and
 * net_store goes back; both only move values. Optimisers work on such arrays value by value, so they need not know.
 *
 * A batch is split as the selection says (models/kernels/selection.h): in lanes, each with a sum of ∂L/∂w of its own, which
 * are then added in the order of the lanes; so bits depend on lanes, block and kernels, and not on the threads of the team.
 * A net with statistics is never split.
 *
 * Memory: all of it from net_open, none later: the workspace, and net_floats for each lane but the first. One caller at a
 * time; OpenBLAS computes on the thread that calls it. */
#ifndef MODELS_NET_NET_H
#define MODELS_NET_NET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/rng.h"
#include "models/kernels/cpu.h"
#include "models/kernels/selection.h"
#include "models/kernels/team.h"
#include "models/net/arch.h"

struct net;

struct net_config {
  size_t max_batch; /* samples that the workspace holds, 1 … MAX_BATCH */
  size_t batch;     /* those of a training step, which the selection is asked for */
  struct cpu cpu;   /* what kernels may use */
  const struct selection
      *selection;    /* read in net_open only; NULL: one lane; NULL, or no entry: layer_kernel's choice */
  struct team *team; /* borrowed for the net's life; NULL: the caller's thread does all */
  bool to_inputs;    /* going backwards does not end at the first layer that learns */
};

/* The kernels that OpenBLAS has chosen for this CPU, "HASWELL". */
const char *net_blas(void);

/* Floats that net_open would take, in its workspace and for the gradients of all lanes but the first; and those of an array in the
 * training layout, as net_floats says. */
struct net_size {
  size_t n_workspace, n_lanes, n_floats;
};

/* ERR_LIMIT: workspace or lanes are above 2^28 floats; ERR_NO_MEMORY. */
MUST_USE enum err net_measure(const struct arch *arch, const struct net_config *config, struct net_size *out_size);

/* `arch` is borrowed for the net's life. Errors as net_measure. */
MUST_USE enum err net_open(const struct arch *arch, const struct net_config *config, struct net **out_net);
void net_free(struct net *net);

/* First weights w [P] in the order of the model from RNG(seed), layer by layer: uniform in ±√(6/fan_in) before relu (He et
 * al. 2015), else in ±√(6/(fan_in + fan_out)) (Glorot & Bengio 2010); biases 0. */
void net_init_weights(const struct arch *arch, const struct digest *seed, float *out_w);

/* The kernel of a layer. */
const struct kernel *net_kernel(const struct net *net, size_t layer);

/* Length of arrays in the training layout, at least P; equal to it, and the layout the model's, while every kernel takes
 * the weights as they are. */
size_t net_floats(const struct net *net);

/* From values [P], in the order of the model, to w [net_floats], in the training layout, and back. Either may be the same array,
 * [net_floats], as the other, which takes longer. They use the workspace: outputs of net_forward are lost. */
void net_load_from(struct net *net, const float *values, float *out_w);
void net_store_to(struct net *net, const float *w, float *out_values);

/* The same in place. */
void net_load(struct net *net, float *a);
void net_store(struct net *net, float *a);

/* What of an array in the training layout the optimiser steps: everything but the statistics. */
struct net_range {
  size_t offset, n;
};
const struct net_range *net_trained(const struct net *net, size_t *out_n);

/* That of one layer; n is 0 where it learns nothing. */
struct net_range net_layer_trained(const struct net *net, size_t layer);

/* Where the caller puts the batch: [max_batch][n_inputs]. */
float *net_input(struct net *net);

/* Outputs z [n][n_outputs] of the first n ≤ max_batch samples of the input, valid until the next call. */
const float *net_forward(struct net *net, const float *w, size_t n);

/* The same in training: dropout drops (where its generator is not NULL), and the statistics in w move on. */
const float *net_forward_training(struct net *net, float *w, size_t n, struct rng *dropout);

/* That batch backwards with the same w, once (kernels may write ∂L/∂in over what came in), from d_z = ∂L/∂z [n][n_outputs]: g ← momentum·g + ∂L/∂w. Statistics' places stay as
 * they are in g. */
void net_backward(struct net *net, const float *w, const float *d_z, double momentum, float *g);

/* A step of gradient descent with momentum (models/net/optimiser.h). */
struct descent {
  double momentum, rate, decay;
};

/* The same, and the step at once, layer by layer: m ← βm + ∂L/∂w + λw, w ← w − η·m. Kernels may fold the one into the
 * other, so with β = 0 m need not hold the gradient. */
void net_descend(struct net *net, float *w, const float *d_z, const struct descent *descent, float *m);

#endif
