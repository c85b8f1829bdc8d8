#include "tests/ref/net_twin.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "tests/ref/twin_layer.h"

double *twin_doubles(size_t n) {
  double *x = calloc(n + 1, sizeof *x);
  MUST(x);
  return x;
}

/* ---- dense */

static void forward_dense(const struct twin_pass *p) {
  size_t n_in = p->l->n_in, n_out = p->l->n_out;
  const double *bias = p->w + n_in * n_out;
  for (size_t i = 0; i < p->n; i++)
    for (size_t o = 0; o < n_out; o++) {
      double sum = bias[o];
      for (size_t k = 0; k < n_in; k++)
        sum += p->w[o * n_in + k] * p->in[i * n_in + k];
      p->out[i * n_out + o] = sum;
    }
}

static void backward_dense(const struct twin_pass *p) {
  size_t n_in = p->l->n_in, n_out = p->l->n_out;
  double *g_bias = p->g + n_in * n_out;
  for (size_t i = 0; i < p->n; i++)
    for (size_t o = 0; o < n_out; o++) {
      double d = p->d_out[i * n_out + o];
      g_bias[o] += d;
      for (size_t k = 0; k < n_in; k++) {
        p->g[o * n_in + k] += d * p->in[i * n_in + k];
        p->d_in[i * n_in + k] += d * p->w[o * n_in + k];
      }
    }
}

/* ---- value by value */

static void forward_relu(const struct twin_pass *p) {
  for (size_t i = 0; i < p->n * p->l->n_out; i++) {
    p->slope[i] = p->in[i] > 0;
    p->out[i] = p->in[i] > 0 ? p->in[i] : 0;
  }
}

static void forward_dropout(const struct twin_pass *p) {
  for (size_t i = 0; i < p->n * p->l->n_out; i++) {
    p->slope[i] = p->rng ? (rng_unit(p->rng) < p->l->rate ? 0 : 1 / (1 - p->l->rate)) : 1;
    p->out[i] = p->in[i] * p->slope[i];
  }
}

/* ---- blocks */

static void forward_same(const struct twin_pass *p) {
  for (size_t i = 0; i < p->n * p->l->n_out; i++) {
    p->slope[i] = 1;
    p->out[i] = p->in[i];
  }
}

static void forward_sum(const struct twin_pass *p) {
  for (size_t i = 0; i < p->n * p->l->n_out; i++)
    p->out[i] = p->in[i] + p->before[i];
}

static void backward_sum(const struct twin_pass *p) {
  for (size_t i = 0; i < p->n * p->l->n_out; i++) {
    p->d_in[i] += p->d_out[i];
    p->d_before[i] += p->d_out[i];
  }
}

/* ---- the table */

static const struct twin_layer twin_dense = {"dense", forward_dense, backward_dense};
static const struct twin_layer twin_relu = {"relu", forward_relu, NULL};
static const struct twin_layer twin_dropout = {"dropout", forward_dropout, NULL};
static const struct twin_layer twin_residual = {"residual", forward_same, NULL};
static const struct twin_layer twin_residual_end = {"}", forward_sum, backward_sum};

static const struct twin_layer *find(const struct layer *l) {
  static const struct twin_layer *const rows[] = {
      &twin_dense,     &twin_relu,     &twin_dropout,   &twin_residual,   &twin_residual_end,
      &twin_tanh,      &twin_sigmoid,  &twin_leakyrelu, &twin_elu,        &twin_gelu,
      &twin_silu,      &twin_softplus, &twin_hardswish, &twin_batchnorm,  &twin_groupnorm,
      &twin_layernorm, &twin_embed,    &twin_gru,       &twin_conv,       &twin_conv1d,
      &twin_depthwise, &twin_pool,     &twin_avgpool,   &twin_globalpool, NULL,
  };
  for (size_t i = 0; rows[i]; i++)
    if (strcmp(rows[i]->word, l->type->word) == 0)
      return rows[i];
  MUST(false); /* a layer without a twin */
  return NULL;
}

/* ---- losses */

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

/* ---- the net */

static void backward(const struct twin_pass *p) {
  const struct twin_layer *row = find(p->l);
  if (row->backward)
    row->backward(p);
  else
    for (size_t v = 0; v < p->n * p->l->n_out; v++)
      p->d_in[v] += p->d_out[v] * p->slope[v];
}

double net_twin(const struct arch *a, const double *w, const struct twin_batch *batch, double *g) {
  const size_t n = batch->n, n_layers = a->n_layers;
  double *outs[MAX_LAYERS + 1] = {0}, *deltas[MAX_LAYERS + 1] = {0}, *slopes[MAX_LAYERS] = {0};
  struct twin_pass passes[MAX_LAYERS];
  struct rng rng = batch->dropout ? *batch->dropout : (struct rng){0};
  outs[0] = twin_doubles(n * a->n_inputs);
  deltas[0] = twin_doubles(n * a->n_inputs);
  memcpy(outs[0], batch->x, n * a->n_inputs * sizeof *batch->x);
  for (size_t i = 0; i < n_layers; i++) {
    const struct layer *l = &a->layers[i];
    outs[i + 1] = twin_doubles(n * l->n_out);
    deltas[i + 1] = twin_doubles(n * l->n_out);
    slopes[i] = twin_doubles(n * l->n_out);
    passes[i] = (struct twin_pass){.l = l,
                                   .n = n,
                                   .w = w + l->offset,
                                   .in = outs[i],
                                   .before = outs[l->partner],
                                   .out = outs[i + 1],
                                   .slope = slopes[i],
                                   .training = batch->training,
                                   .rng = batch->dropout ? &rng : NULL};
    find(l)->forward(&passes[i]);
  }
  double *z = outs[n_layers], *d_z = deltas[n_layers];
  double loss = a->loss == LOSS_CROSS_ENTROPY ? cross_entropy(z, batch, a->n_outputs, d_z)
                                              : mean_squared_error(z, batch, a->n_outputs, d_z);
  for (size_t i = n_layers; g && i-- > 0;) {
    struct twin_pass *p = &passes[i];
    p->d_out = deltas[i + 1];
    p->d_in = deltas[i];
    p->d_before = deltas[p->l->partner];
    p->g = g + p->l->offset;
    backward(p);
  }
  if (batch->z)
    memcpy(batch->z, z, n * a->n_outputs * sizeof *z);
  for (size_t i = 0; i <= n_layers; i++) {
    free(outs[i]);
    free(deltas[i]);
    if (i < n_layers)
      free(slopes[i]);
  }
  return loss;
}
