/* Depthwise convolution over NHWC arrays, eight channels at a time:
 *
 *   y[p, q, c] = b[c] + Σ_{i,j} w[i, j, c] · x[p·s + i − pad_h, q·s + j − pad_w, c]
 *
 * Weights are laid out with the channels last, [kernel height · kernel width][channels padded to 8], biases behind them; in
 * the model they are [channels][kernel height][kernel width]. Pure, no allocation. */
#ifndef MODELS_KERNELS_DEPTHWISE_H
#define MODELS_KERNELS_DEPTHWISE_H

#include "models/kernels/conv.h"

size_t depthwise_weights(const struct conv_shape *s);
void depthwise_load(const struct conv_shape *s, const float *w, float *out_own);
void depthwise_store(const struct conv_shape *s, const float *own, float *out_w);

/* As in conv.h, with c_out = c_in; no relu, no scratch. */
struct depthwise_kernel {
  struct cpu needs;
  void (*forward)(const struct conv_shape *s, const struct conv_batch *b);
  void (*backward)(const struct conv_shape *s, const struct conv_batch *b, const struct conv_gradient *d);
};

extern const struct depthwise_kernel depthwise_lanes;
#if defined __x86_64__
extern const struct depthwise_kernel depthwise_avx2;
#endif

#endif
