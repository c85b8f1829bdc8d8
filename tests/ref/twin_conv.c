/* Convolutions, one multiplication after the other. */
#include "tests/ref/twin_layer.h"

#include <stdbool.h>

/* One product of a convolution: a weight, an input and an output. */
struct product {
  size_t w, in, out;
};

/* The product of sample n, output (y, x, o), kernel place (i, j) and input channel c; false in the padding. A depthwise one
 * has weights of one input channel, and c is o. */
static bool product_at(const struct layer *l, size_t n, size_t y, size_t x, size_t o, size_t i, size_t j, size_t c,
                       bool depthwise, struct product *out_product) {
  long row = (long)(y * l->window.stride + i) - (long)l->window.pad_height;
  long column = (long)(x * l->window.stride + j) - (long)l->window.pad_width;
  if (row < 0 || column < 0 || row >= (long)l->in.height || column >= (long)l->in.width)
    return false;
  size_t w = (o * l->window.height + i) * l->window.width + j;
  out_product->w = depthwise ? w : w * l->in.channels + c;
  out_product->in = ((n * l->in.height + (size_t)row) * l->in.width + (size_t)column) * l->in.channels + c;
  out_product->out = ((n * l->out.height + y) * l->out.width + x) * l->out.channels + o;
  return true;
}

/* Calls `with` for each product of one output. */
static void each_of_output(const struct twin_pass *p, size_t n, size_t y, size_t x, size_t o, bool depthwise,
                           void (*with)(const struct twin_pass *p, struct product product)) {
  const struct layer *l = p->l;
  struct product product;
  for (size_t i = 0; i < l->window.height; i++)
    for (size_t j = 0; j < l->window.width; j++)
      for (size_t c = depthwise ? o : 0; c < (depthwise ? o + 1 : l->in.channels); c++)
        if (product_at(l, n, y, x, o, i, j, c, depthwise, &product))
          with(p, product);
}

static void each_product(const struct twin_pass *p, bool depthwise,
                         void (*with)(const struct twin_pass *p, struct product product)) {
  for (size_t n = 0; n < p->n; n++)
    for (size_t y = 0; y < p->l->out.height; y++)
      for (size_t x = 0; x < p->l->out.width; x++)
        for (size_t o = 0; o < p->l->out.channels; o++)
          each_of_output(p, n, y, x, o, depthwise, with);
}

static void add_forward(const struct twin_pass *p, struct product at) {
  p->out[at.out] += p->w[at.w] * p->in[at.in];
}

static void add_backward(const struct twin_pass *p, struct product at) {
  p->g[at.w] += p->d_out[at.out] * p->in[at.in];
  p->d_in[at.in] += p->d_out[at.out] * p->w[at.w];
}

static size_t n_weights(const struct layer *l, bool depthwise) {
  return (size_t)l->out.channels * l->window.height * l->window.width * (depthwise ? 1 : l->in.channels);
}

static void forward(const struct twin_pass *p, bool depthwise) {
  for (size_t k = 0; k < p->n * p->l->n_out; k++)
    p->out[k] = p->w[n_weights(p->l, depthwise) + k % p->l->out.channels];
  each_product(p, depthwise, add_forward);
}

static void backward(const struct twin_pass *p, bool depthwise) {
  for (size_t k = 0; k < p->n * p->l->n_out; k++)
    p->g[n_weights(p->l, depthwise) + k % p->l->out.channels] += p->d_out[k];
  each_product(p, depthwise, add_backward);
}

static void forward_conv(const struct twin_pass *p) {
  forward(p, false);
}

static void backward_conv(const struct twin_pass *p) {
  backward(p, false);
}

static void forward_depthwise(const struct twin_pass *p) {
  forward(p, true);
}

static void backward_depthwise(const struct twin_pass *p) {
  backward(p, true);
}

const struct twin_layer twin_conv = {"conv", forward_conv, backward_conv};
const struct twin_layer twin_conv1d = {"conv1d", forward_conv, backward_conv};
const struct twin_layer twin_depthwise = {"depthwise", forward_depthwise, backward_depthwise};
