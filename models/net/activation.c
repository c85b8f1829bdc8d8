/* Layers that work value by value: activations and dropout. */
#include <stdio.h>

#include "models/kernels/elementary.h"
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

/* ---- smooth ones, with the defaults of PyTorch: f(x), and the slope f′ from x and y = f(x). With these inlined the loops
 * become vector instructions. */

typedef float value_fn(float x);
typedef float slope_fn(float x, float y);

static inline __attribute__((always_inline)) void map(const struct layer *l, const struct pass *p, value_fn *f) {
  const float *restrict in = p->in;
  float *restrict out = p->out;
  size_t n = n_values(l, p);
  for (size_t i = 0; i < n; i++)
    out[i] = f(in[i]);
}

static inline __attribute__((always_inline)) void map_back(const struct layer *l, const struct pass *p,
                                                           const struct gradient *d, slope_fn *slope) {
  const float *restrict in = p->in, *restrict out = p->out, *restrict d_out = d->d_out;
  float *restrict d_in = d->d_in;
  size_t n = n_values(l, p);
  for (size_t i = 0; i < n; i++)
    d_in[i] = d_out[i] * slope(in[i], out[i]);
}

static inline float tanh_slope(float x, float y) {
  (void)x;
  return 1 - y * y;
}

/* 1/(1 + e^−x) */
static inline float sigmoid_slope(float x, float y) {
  (void)x;
  return y * (1 - y);
}

/* x, below 0 a hundredth of it (Maas et al. 2013) */
static inline float leakyrelu_value(float x) {
  return x < 0 ? 0.01f * x : x;
}

static inline float leakyrelu_slope(float x, float y) {
  (void)y;
  return x > 0 ? 1 : 0.01f;
}

/* x, below 0 e^x − 1 (Clevert et al. 2016) */
static inline float elu_value(float x) {
  float below = fast_expm1(x);
  return x < 0 ? below : x;
}

static inline float elu_slope(float x, float y) {
  return x > 0 ? 1 : y + 1;
}

/* x·Φ(x) (Hendrycks & Gimpel 2016) */
static inline float gelu_value(float x) {
  float density;
  return x * fast_normal(x, &density);
}

static inline float gelu_slope(float x, float y) {
  float density, normal = fast_normal(x, &density);
  (void)y;
  return normal + x * density;
}

/* x·σ(x) (Elfwing et al. 2018) */
static inline float silu_value(float x) {
  return x * fast_sigmoid(x);
}

static inline float silu_slope(float x, float y) {
  float s = fast_sigmoid(x);
  return s + y * (1 - s);
}

/* log(1 + e^x) */
static inline float softplus_slope(float x, float y) {
  (void)y;
  return fast_sigmoid(x);
}

/* x·min(max(x + 3, 0), 6)/6 (Howard et al. 2019) */
static inline float hardswish_value(float x) {
  float gate = x + 3;
  gate = gate < 0 ? 0 : gate;
  gate = gate > 6 ? 6 : gate;
  return x * gate * (1 / 6.0f);
}

static inline float hardswish_slope(float x, float y) {
  float slope = (2 * x + 3) * (1 / 6.0f);
  (void)y;
  slope = x < -3 ? 0 : slope;
  return x > 3 ? 1 : slope;
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
  float survivor = p->rng ? (float)(1 / (1 - l->rate)) : 1;
  for (size_t i = 0; i < n_values(l, p); i++) {
    p->kept[i] = p->rng && rng_unit(p->rng) < l->rate ? 0 : survivor;
    p->out[i] = p->in[i] * p->kept[i];
  }
}

static void dropout_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  for (size_t i = 0; i < n_values(l, p); i++)
    d->d_in[i] = d->d_out[i] * p->kept[i];
}

/* ---- the rows */

static const struct kernel relu_kernel = {.name = "plain", .forward = relu_forward, .backward = relu_backward};
static const struct kernel dropout_kernel = {
    .name = "plain", .kept = layer_kept_values, .forward = dropout_forward, .backward = dropout_backward};

#define SAME .shape = layer_shape_same, .n_kernels = 1

const struct layer_type layer_relu = {
    .word = "relu", .sentence = "max(0, x)", .rectifies = true, .text = layer_text_word, .kernels = &relu_kernel, SAME};
const struct layer_type layer_dropout = {
    .word = "dropout",
    .usage = "dropout P",
    .sentence = "in training each value is 0 with probability P, the others grow by 1 / (1 - P)",
    .words = {{NULL, "a probability from 0 to below 1 with at most four decimals", read_probability}},
    .text = dropout_text,
    .kernels = &dropout_kernel,
    SAME};

/* A smooth one: its word, f, slope, and f in words. */
#define SMOOTH(noun, f, slope, in_words)                                                                               \
  static void noun##_forward(const struct layer *l, const struct pass *p) {                                            \
    map(l, p, f);                                                                                                      \
  }                                                                                                                    \
  static void noun##_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {                 \
    map_back(l, p, d, slope);                                                                                          \
  }                                                                                                                    \
  static const struct kernel noun##_kernel = {                                                                         \
      .name = "plain", .forward = noun##_forward, .backward = noun##_backward};                                        \
  const struct layer_type layer_##noun = {                                                                             \
      .word = #noun, .sentence = (in_words), .text = layer_text_word, .kernels = &noun##_kernel, SAME}

SMOOTH(tanh, fast_tanh, tanh_slope, "hyperbolic tangent");
SMOOTH(sigmoid, fast_sigmoid, sigmoid_slope, "logistic function, 1 / (1 + exp(-x))");
SMOOTH(leakyrelu, leakyrelu_value, leakyrelu_slope, "x, below 0 x / 100");
SMOOTH(elu, elu_value, elu_slope, "x, below 0 exp(x) - 1");
SMOOTH(gelu, gelu_value, gelu_slope, "x times the normal distribution function at x");
SMOOTH(silu, silu_value, silu_slope, "x times sigmoid(x), also called swish");
SMOOTH(softplus, fast_softplus, softplus_slope, "log(1 + exp(x))");
SMOOTH(hardswish, hardswish_value, hardswish_slope, "x times min(max(x + 3, 0), 6) / 6");
