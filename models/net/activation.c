/* Layers that work value by value: activations and dropout. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/net/layer.h"

static size_t n_values(const struct layer *l, const struct pass *p) {
  return p->n * l->n_out;
}

/* ---- relu: y = max(x, 0), but NaN stays NaN; ∂y/∂x = [y > 0] */

static void relu_forward(const struct layer *l, const struct pass *p) {
  for (size_t i = 0; i < n_values(l, p); i++)
    p->out[i] = p->in[i] < 0 ? 0 : p->in[i];
}

static void relu_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  for (size_t i = 0; i < n_values(l, p); i++) {
    float d_out = d->d_out[i]; /* loaded in any case, so that there is no branch */
    d->d_in[i] = p->out[i] > 0 ? d_out : 0;
  }
}

/* ---- tanh: y = tanh x; ∂y/∂x = 1 − y² */

static void tanh_forward(const struct layer *l, const struct pass *p) {
  for (size_t i = 0; i < n_values(l, p); i++)
    p->out[i] = tanhf(p->in[i]);
}

static void tanh_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  for (size_t i = 0; i < n_values(l, p); i++)
    d->d_in[i] = d->d_out[i] * (1 - p->out[i] * p->out[i]);
}

/* ---- sigmoid: y = 1/(1 + e^−x); ∂y/∂x = y(1 − y) */

static void sigmoid_forward(const struct layer *l, const struct pass *p) {
  for (size_t i = 0; i < n_values(l, p); i++)
    p->out[i] = 1 / (1 + expf(-p->in[i]));
}

static void sigmoid_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  for (size_t i = 0; i < n_values(l, p); i++)
    d->d_in[i] = d->d_out[i] * p->out[i] * (1 - p->out[i]);
}

/* ---- dropout: in training y = kept · x with kept = 0 (with probability P) or 1/(1 − P) (Srivastava et al. 2014,
 * inverted form), else y = x */

/* Digits with at most four decimals, below 1: printing with %g gives them back. */
static enum err read_probability(struct layer *l, const char *text, const struct contract *contract) {
  static const double scale[] = {1, 1e1, 1e2, 1e3, 1e4};
  const char *c = text;
  (void)contract;
  if (*c == '0')
    c++;
  size_t decimals = 0;
  uint32_t digits = 0;
  if (*c == '.') {
    for (c++; *c >= '0' && *c <= '9' && decimals < 4; c++, decimals++)
      digits = digits * 10 + (uint32_t)(*c - '0');
    if (decimals == 0)
      return ERR_RANGE;
  }
  if (*c || c == text)
    return ERR_RANGE;
  l->rate = digits / scale[decimals];
  return ERR_OK;
}

static int dropout_text(const struct layer *l, char *out_text, size_t capacity) {
  return snprintf(out_text, capacity, "dropout %g", l->rate);
}

static void dropout_forward(const struct layer *l, const struct pass *p) {
  if (!p->rng) {
    memcpy(p->out, p->in, n_values(l, p) * sizeof *p->out);
    return;
  }
  float survivor = (float)(1 / (1 - l->rate));
  for (size_t i = 0; i < n_values(l, p); i++) {
    p->kept[i] = rng_unit(p->rng) < l->rate ? 0 : survivor;
    p->out[i] = p->in[i] * p->kept[i];
  }
}

static void dropout_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  for (size_t i = 0; i < n_values(l, p); i++)
    d->d_in[i] = d->d_out[i] * p->kept[i];
}

/* ---- the rows */

static const struct kernel relu_kernel = {.name = "plain", .forward = relu_forward, .backward = relu_backward};
static const struct kernel tanh_kernel = {.name = "plain", .forward = tanh_forward, .backward = tanh_backward};
static const struct kernel sigmoid_kernel = {.name = "plain", .forward = sigmoid_forward, .backward = sigmoid_backward};
static const struct kernel dropout_kernel = {
    .name = "plain", .kept = layer_kept_values, .forward = dropout_forward, .backward = dropout_backward};

#define SAME .shape = layer_shape_same, .n_kernels = 1

const struct layer_type layer_relu = {
    .word = "relu", .rectifies = true, .text = layer_text_word, .kernels = &relu_kernel, SAME};
const struct layer_type layer_tanh = {.word = "tanh", .text = layer_text_word, .kernels = &tanh_kernel, SAME};
const struct layer_type layer_sigmoid = {.word = "sigmoid", .text = layer_text_word, .kernels = &sigmoid_kernel, SAME};
const struct layer_type layer_dropout = {
    .word = "dropout",
    .words = {{NULL, "a probability from 0 to below 1 with at most four decimals", read_probability}},
    .text = dropout_text,
    .kernels = &dropout_kernel,
    SAME};
