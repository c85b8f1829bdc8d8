#include "tests/ref/conv_twin.h"

#include <string.h>

/* Calls visit for every product of a value of y, a weight and a value of x. */
struct visitor {
  const float *x, *w;
  const double *dz;
  double *y, *g, *dx;
};

typedef void visit_fn(const struct visitor *v, size_t y, size_t w, size_t x);

/* The products of output o of place (p, q) of sample k. */
static inline __attribute__((always_inline)) void walk_window(const struct conv_shape *s, const struct visitor *v,
                                                              visit_fn *visit, size_t k, size_t p, size_t q, size_t o) {
  for (size_t i = 0; i < s->kernel_height; i++)
    for (size_t j = 0; j < s->kernel_width; j++)
      for (size_t c = 0; c < s->c_in; c++) {
        size_t row = p * s->stride + i - s->pad_height, column = q * s->stride + j - s->pad_width;
        if (row < s->height && column < s->width)
          visit(v, ((k * s->out_height + p) * s->out_width + q) * s->c_out + o,
                ((o * s->kernel_height + i) * s->kernel_width + j) * s->c_in + c,
                ((k * s->height + row) * s->width + column) * s->c_in + c);
      }
}

static inline __attribute__((always_inline)) void walk(const struct conv_shape *s, size_t n, const struct visitor *v,
                                                       visit_fn *visit) {
  for (size_t k = 0; k < n; k++)
    for (size_t p = 0; p < s->out_height; p++)
      for (size_t q = 0; q < s->out_width; q++)
        for (size_t o = 0; o < s->c_out; o++)
          walk_window(s, v, visit, k, p, q, o);
}

static void visit_forward(const struct visitor *v, size_t y, size_t w, size_t x) {
  v->y[y] += (double)v->w[w] * v->x[x];
}

static void visit_backward(const struct visitor *v, size_t y, size_t w, size_t x) {
  v->g[w] += v->dz[y] * v->x[x];
  v->dx[x] += v->dz[y] * v->w[w];
}

void conv_twin_forward(const struct conv_shape *s, size_t n, const float *x, const float *w, bool relu, double *y) {
  size_t n_values = n * conv_sites(s) * s->c_out;
  for (size_t i = 0; i < n * conv_sites(s); i++)
    for (size_t o = 0; o < s->c_out; o++)
      y[i * s->c_out + o] = w[conv_taps(s) * s->c_out + o];
  walk(s, n, &(struct visitor){.x = x, .w = w, .y = y}, visit_forward);
  for (size_t i = 0; relu && i < n_values; i++)
    y[i] = y[i] < 0 ? 0 : y[i];
}

void conv_twin_backward(const struct conv_shape *s, size_t n, const float *x, const float *w, const double *dz,
                        double *g, double *dx) {
  size_t n_weights = conv_taps(s) * s->c_out;
  memset(g, 0, (n_weights + s->c_out) * sizeof *g);
  memset(dx, 0, n * s->height * s->width * s->c_in * sizeof *dx);
  walk(s, n, &(struct visitor){.x = x, .w = w, .dz = dz, .g = g, .dx = dx}, visit_backward);
  for (size_t i = 0; i < n * conv_sites(s); i++)
    for (size_t o = 0; o < s->c_out; o++)
      g[n_weights + o] += dz[i * s->c_out + o];
}
