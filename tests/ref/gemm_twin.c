#include "tests/ref/gemm_twin.h"

void gemm_twin_forward(const struct gemm_shape *s, const float *x, const float *w, const float *bias, bool relu,
                       double *y) {
  for (size_t i = 0; i < s->n; i++)
    for (size_t o = 0; o < s->n_out; o++) {
      double sum = (double)bias[o];
      for (size_t k = 0; k < s->n_in; k++)
        sum += (double)x[i * s->x_stride + k] * (double)w[o * s->n_in + k];
      y[i * s->y_stride + o] = relu && sum < 0 ? 0 : sum;
    }
}

static double delta(const struct gemm_shape *s, const float *dy, const float *y, size_t i, size_t o) {
  size_t at = i * s->y_stride + o;
  return y && !(y[at] > 0) ? 0 : (double)dy[at];
}

void gemm_twin_back_inputs(const struct gemm_shape *s, const float *dy, const float *y, const float *w, double *dx) {
  for (size_t i = 0; i < s->n; i++)
    for (size_t k = 0; k < s->n_in; k++) {
      double sum = 0;
      for (size_t o = 0; o < s->n_out; o++)
        sum += delta(s, dy, y, i, o) * (double)w[o * s->n_in + k];
      dx[i * s->x_stride + k] = sum;
    }
}

void gemm_twin_back_weights(const struct gemm_shape *s, const float *dy, const float *y, const float *x,
                            const struct gemm_update *rule, double *g, double *w) {
  for (size_t o = 0; o < s->n_out; o++)
    for (size_t k = 0; k < s->n_in; k++) {
      size_t at = o * s->n_in + k;
      double sum = (double)rule->momentum * g[at];
      for (size_t i = 0; i < s->n; i++)
        sum += delta(s, dy, y, i, o) * (double)x[i * s->x_stride + k];
      g[at] = sum + (w ? (double)rule->decay * w[at] : 0);
      if (w)
        w[at] -= (double)rule->rate * g[at];
    }
}
