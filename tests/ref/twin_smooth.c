/* Activations and their slopes in double, from libm. */
#include <math.h>

#include "tests/ref/twin_layer.h"

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double normal(double x) {
  return 0.5 * erfc(-x / sqrt(2));
}

static double tanh_slope(double x) {
  return 1 / (cosh(x) * cosh(x));
}

static double sigmoid_slope(double x) {
  return sigmoid(x) * sigmoid(-x);
}

static double leakyrelu_value(double x) {
  return x > 0 ? x : 0.01 * x;
}

static double leakyrelu_slope(double x) {
  return x > 0 ? 1 : 0.01;
}

static double elu_value(double x) {
  return x > 0 ? x : expm1(x);
}

static double elu_slope(double x) {
  return x > 0 ? 1 : exp(x);
}

static double gelu_value(double x) {
  return x * normal(x);
}

static double gelu_slope(double x) {
  return normal(x) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
}

static double silu_value(double x) {
  return x * sigmoid(x);
}

static double silu_slope(double x) {
  return sigmoid(x) * (1 + x * sigmoid(-x));
}

static double softplus_value(double x) {
  return log1p(exp(x));
}

static double hardswish_value(double x) {
  return x * fmin(fmax(x + 3, 0), 6) / 6;
}

static double hardswish_slope(double x) {
  return x < -3 ? 0 : x > 3 ? 1 : (2 * x + 3) / 6;
}

static void map(const struct twin_pass *p, double (*value)(double), double (*slope)(double)) {
  for (size_t i = 0; i < p->n * p->l->n_out; i++) {
    p->out[i] = value(p->in[i]);
    p->slope[i] = slope(p->in[i]);
  }
}

#define TWIN(name, value, slope)                                                                                       \
  static void name##_forward(const struct twin_pass *p) {                                                              \
    map(p, value, slope);                                                                                              \
  }                                                                                                                    \
  const struct twin_layer twin_##name = {#name, name##_forward, NULL}

TWIN(tanh, tanh, tanh_slope);
TWIN(sigmoid, sigmoid, sigmoid_slope);
TWIN(leakyrelu, leakyrelu_value, leakyrelu_slope);
TWIN(elu, elu_value, elu_slope);
TWIN(gelu, gelu_value, gelu_slope);
TWIN(silu, silu_value, silu_slope);
TWIN(softplus, softplus_value, sigmoid);
TWIN(hardswish, hardswish_value, hardswish_slope);
