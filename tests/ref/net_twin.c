#include "tests/ref/net_twin.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

static double *doubles_new(size_t n) {
  double *x = calloc(n, sizeof *x);
  MUST(x);
  return x;
}

static bool is(const struct layer *l, const char *word) {
  return strcmp(l->type->word, word) == 0;
}

static void forward_dense(const struct layer *l, const double *w, size_t n, const double *in, double *out) {
  const double *bias = w + (size_t)l->n_in * l->n_out;
  for (size_t i = 0; i < n; i++)
    for (size_t o = 0; o < l->n_out; o++) {
      double sum = bias[o];
      for (size_t k = 0; k < l->n_in; k++)
        sum += w[o * l->n_in + k] * in[i * l->n_in + k];
      out[i * l->n_out + o] = sum;
    }
}

static void backward_dense(const struct layer *l, const double *w, size_t n, const double *in, const double *d_out,
                           double *d_in, double *g) {
  double *g_bias = g + (size_t)l->n_in * l->n_out;
  for (size_t i = 0; i < n; i++)
    for (size_t o = 0; o < l->n_out; o++) {
      double d = d_out[i * l->n_out + o];
      g_bias[o] += d;
      for (size_t k = 0; k < l->n_in; k++) {
        g[o * l->n_in + k] += d * in[i * l->n_in + k];
        d_in[i * l->n_in + k] += d * w[o * l->n_in + k];
      }
    }
}

/* Also leaves ∂out/∂in of the layers that work value by value in slope. */
static void forward(const struct layer *l, const double *w, size_t n, const double *in, double *out, double *slope,
                    struct rng *dropout) {
  if (is(l, "dense")) {
    forward_dense(l, w + l->offset, n, in, out);
    return;
  }
  for (size_t i = 0; i < n * l->n_out; i++) {
    double x = in[i];
    if (is(l, "relu")) {
      slope[i] = x > 0;
      out[i] = x > 0 ? x : 0;
    } else if (is(l, "tanh")) {
      out[i] = tanh(x);
      slope[i] = 1 / (cosh(x) * cosh(x));
    } else if (is(l, "sigmoid")) {
      out[i] = 1 / (1 + exp(-x));
      slope[i] = exp(-x) / ((1 + exp(-x)) * (1 + exp(-x)));
    } else {
      MUST(is(l, "dropout"));
      slope[i] = dropout ? (rng_unit(dropout) < l->rate ? 0 : 1 / (1 - l->rate)) : 1;
      out[i] = x * slope[i];
    }
  }
}

static double cross_entropy(const double *z, const struct twin_batch *b, size_t k, double *d_z) {
  double loss = 0;
  for (size_t i = 0; i < b->n; i++) {
    double sum = 0;
    for (size_t j = 0; j < k; j++)
      sum += exp(z[i * k + j]);
    for (size_t j = 0; j < k; j++)
      d_z[i * k + j] = (exp(z[i * k + j]) / sum - (j == b->labels[i])) / (double)b->n;
    loss -= log(exp(z[i * k + b->labels[i]]) / sum);
  }
  return loss / (double)b->n;
}

static double mean_squared_error(const double *z, const struct twin_batch *b, size_t k, double *d_z) {
  double loss = 0, count = (double)(b->n * k);
  for (size_t i = 0; i < b->n * k; i++) {
    double d = z[i] - b->targets[i];
    d_z[i] = 2 * d / count;
    loss += d * d / count;
  }
  return loss;
}

double net_twin(const struct arch *a, const double *w, const struct twin_batch *batch, double *g) {
  size_t n = batch->n;
  double *outs[MAX_LAYERS + 1] = {0}, *deltas[MAX_LAYERS + 1] = {0}, *slopes[MAX_LAYERS] = {0};
  struct rng rng = batch->dropout ? *batch->dropout : (struct rng){0};
  outs[0] = doubles_new(n * a->n_inputs);
  deltas[0] = doubles_new(n * a->n_inputs);
  memcpy(outs[0], batch->x, n * a->n_inputs * sizeof *batch->x);
  for (size_t i = 0; i < a->n_layers; i++) {
    const struct layer *l = &a->layers[i];
    outs[i + 1] = doubles_new(n * l->n_out);
    deltas[i + 1] = doubles_new(n * l->n_out);
    slopes[i] = doubles_new(n * l->n_out);
    forward(l, w, n, outs[i], outs[i + 1], slopes[i], batch->dropout ? &rng : NULL);
  }
  double *z = outs[a->n_layers], *d_z = deltas[a->n_layers];
  double loss = a->loss == LOSS_CROSS_ENTROPY ? cross_entropy(z, batch, a->n_outputs, d_z)
                                              : mean_squared_error(z, batch, a->n_outputs, d_z);
  for (size_t i = a->n_layers; g && i-- > 0;) {
    const struct layer *l = &a->layers[i];
    if (is(l, "dense"))
      backward_dense(l, w + l->offset, n, outs[i], deltas[i + 1], deltas[i], g + l->offset);
    else
      for (size_t v = 0; v < n * l->n_out; v++)
        deltas[i][v] = deltas[i + 1][v] * slopes[i][v];
  }
  for (size_t i = 0; i <= a->n_layers; i++) {
    free(outs[i]);
    free(deltas[i]);
    if (i < a->n_layers)
      free(slopes[i]);
  }
  return loss;
}
