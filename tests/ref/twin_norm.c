/* Norms in double. Every value's mean and variance are found anew from the set of values that it is normalised with. */
#include <math.h>
#include <stdlib.h>

#include "tests/ref/twin_layer.h"

static const double epsilon = 1e-5;

/* Whether two values of [n][positions][channels] are normalised together. */
typedef bool together_fn(const struct layer *l, size_t a, size_t b);

static size_t channel_of(const struct layer *l, size_t i) {
  return i % l->in.channels;
}

static bool in_batch(const struct layer *l, size_t a, size_t b) {
  return channel_of(l, a) == channel_of(l, b);
}

static bool in_group(const struct layer *l, size_t a, size_t b) {
  size_t width = l->in.channels / l->groups;
  return a / l->n_in == b / l->n_in && channel_of(l, a) / width == channel_of(l, b) / width;
}

static bool in_position(const struct layer *l, size_t a, size_t b) {
  return a / l->in.channels == b / l->in.channels;
}

struct moments {
  double mean, inverse;
  size_t n;
};

static struct moments moments_of(const struct twin_pass *p, together_fn *together, size_t at) {
  size_t n = 0;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < p->n * p->l->n_in; i++)
    if (together(p->l, at, i)) {
      n++;
      sum += p->in[i];
    }
  double mean = sum / (double)n;
  for (size_t i = 0; i < p->n * p->l->n_in; i++)
    if (together(p->l, at, i))
      squares += (p->in[i] - mean) * (p->in[i] - mean);
  return (struct moments){mean, 1 / sqrt(squares / (double)n + epsilon), n};
}

static void forward(const struct twin_pass *p, together_fn *together) {
  const double *weight = p->w, *bias = p->w + p->l->in.channels;
  for (size_t i = 0; i < p->n * p->l->n_in; i++) {
    struct moments m = moments_of(p, together, i);
    p->out[i] = (p->in[i] - m.mean) * m.inverse * weight[channel_of(p->l, i)] + bias[channel_of(p->l, i)];
  }
}

/* ∂x̂_i/∂x_j = inverse · ([i = j] − 1/n − x̂_i x̂_j / n) for j together with i. */
static void backward(const struct twin_pass *p, together_fn *together) {
  const double *weight = p->w;
  double *d_weight = p->g, *d_bias = p->g + p->l->in.channels;
  for (size_t i = 0; i < p->n * p->l->n_in; i++) {
    struct moments m = moments_of(p, together, i);
    size_t channel = channel_of(p->l, i);
    double normal = (p->in[i] - m.mean) * m.inverse, d_normal = p->d_out[i] * weight[channel];
    d_weight[channel] += p->d_out[i] * normal;
    d_bias[channel] += p->d_out[i];
    for (size_t j = 0; j < p->n * p->l->n_in; j++)
      if (together(p->l, i, j)) {
        double other = (p->in[j] - m.mean) * m.inverse;
        p->d_in[j] += d_normal * m.inverse * ((i == j) - (1 + normal * other) / (double)m.n);
      }
  }
}

/* With running values, y is linear in x. */
static bool takes_running(const struct twin_pass *p) {
  return !p->training || p->n * p->l->in.height * p->l->in.width == 1;
}

static double running_inverse(const struct twin_pass *p, size_t channel) {
  size_t c = p->l->in.channels;
  return 1 / sqrt(p->w[3 * c + channel] + epsilon);
}

static double running_normal(const struct twin_pass *p, size_t i) {
  size_t c = p->l->in.channels, channel = channel_of(p->l, i);
  return (p->in[i] - p->w[2 * c + channel]) * running_inverse(p, channel);
}

static void batch_forward(const struct twin_pass *p) {
  size_t c = p->l->in.channels;
  if (!takes_running(p)) {
    forward(p, in_batch);
    return;
  }
  for (size_t i = 0; i < p->n * p->l->n_in; i++)
    p->out[i] = running_normal(p, i) * p->w[channel_of(p->l, i)] + p->w[c + channel_of(p->l, i)];
}

static void batch_backward(const struct twin_pass *p) {
  size_t c = p->l->in.channels;
  if (!takes_running(p)) {
    backward(p, in_batch);
    return;
  }
  for (size_t i = 0; i < p->n * p->l->n_in; i++) {
    size_t channel = channel_of(p->l, i);
    p->g[channel] += p->d_out[i] * running_normal(p, i);
    p->g[c + channel] += p->d_out[i];
    p->d_in[i] += p->d_out[i] * p->w[channel] * running_inverse(p, channel);
  }
}

static void group_forward(const struct twin_pass *p) {
  forward(p, in_group);
}

static void group_backward(const struct twin_pass *p) {
  backward(p, in_group);
}

static void layer_forward(const struct twin_pass *p) {
  forward(p, in_position);
}

static void layer_backward(const struct twin_pass *p) {
  backward(p, in_position);
}

const struct twin_layer twin_batchnorm = {"batchnorm", batch_forward, batch_backward};
const struct twin_layer twin_groupnorm = {"groupnorm", group_forward, group_backward};
const struct twin_layer twin_layernorm = {"layernorm", layer_forward, layer_backward};
