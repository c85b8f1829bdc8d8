/* The net: a model's layers run forwards and backwards over a batch.
 *
 * It owns a workspace for one batch and nothing else; weights and gradients are the caller's arrays in schema order.
 * Memory: about (inputs + Σ outputs + 2 · widest layer) · max_batch floats, allocated once in net_open. Matrix products
 * are OpenBLAS's on one thread. One thread at a time. */
#ifndef MODELS_NET_NET_H
#define MODELS_NET_NET_H

#include <stddef.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/rng.h"
#include "models/net/arch.h"

struct net;

/* `arch` is borrowed for the net's life. ERR_LIMIT: the workspace of such a batch is above 2^28 floats; ERR_NO_MEMORY. */
MUST_USE enum err net_open(const struct arch *arch, size_t max_batch, struct net **out_net);
void net_free(struct net *net);

/* First weights w [P] from RNG(seed), layer by layer in schema order: uniform in ±√(6/fan_in) before relu (He et al.
 * 2015), else in ±√(6/(fan_in + fan_out)) (Glorot & Bengio 2010); biases 0. */
void net_init_weights(const struct arch *arch, const struct digest *seed, float *out_w);

/* Where the caller puts the batch: [max_batch][n_inputs]. */
float *net_input(struct net *net);

/* Outputs z [n][n_outputs] of the first n ≤ max_batch samples of the input, valid until the next call. With `dropout` the
 * pass is one of training, and draws from it. */
const float *net_forward(struct net *net, const float *w, size_t n, struct rng *dropout);

/* The same batch backwards, after net_forward with the same w: g ← momentum·g + ∂L/∂w from d_z = ∂L/∂z [n][n_outputs]. */
void net_backward(struct net *net, const float *w, const float *d_z, double momentum, float *g);

#endif
