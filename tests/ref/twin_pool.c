/* Pools, window by window. */
#include "tests/ref/twin_layer.h"

/* Index in the input of the window's value (i, j) for output k of the batch. */
static size_t in_at(const struct layer *l, size_t k, size_t i, size_t j) {
  size_t c = k % l->out.channels, x = k / l->out.channels % l->out.width;
  size_t y = k / l->out.channels / l->out.width % l->out.height, n = k / l->n_out;
  size_t row = y * l->window.stride + i, column = x * l->window.stride + j;
  return ((n * l->in.height + row) * l->in.width + column) * l->in.channels + c;
}

static size_t largest_at(const struct twin_pass *p, size_t k) {
  size_t best = in_at(p->l, k, 0, 0);
  for (size_t i = 0; i < p->l->window.height; i++)
    for (size_t j = 0; j < p->l->window.width; j++)
      if (p->in[in_at(p->l, k, i, j)] > p->in[best])
        best = in_at(p->l, k, i, j);
  return best;
}

static void forward_largest(const struct twin_pass *p) {
  for (size_t k = 0; k < p->n * p->l->n_out; k++)
    p->out[k] = p->in[largest_at(p, k)];
}

static void backward_largest(const struct twin_pass *p) {
  for (size_t k = 0; k < p->n * p->l->n_out; k++)
    p->d_in[largest_at(p, k)] += p->d_out[k];
}

static void forward_mean(const struct twin_pass *p) {
  const double area = (double)p->l->window.height * p->l->window.width;
  for (size_t k = 0; k < p->n * p->l->n_out; k++)
    for (size_t i = 0; i < p->l->window.height; i++)
      for (size_t j = 0; j < p->l->window.width; j++)
        p->out[k] += p->in[in_at(p->l, k, i, j)] / area;
}

static void backward_mean(const struct twin_pass *p) {
  const double area = (double)p->l->window.height * p->l->window.width;
  for (size_t k = 0; k < p->n * p->l->n_out; k++)
    for (size_t i = 0; i < p->l->window.height; i++)
      for (size_t j = 0; j < p->l->window.width; j++)
        p->d_in[in_at(p->l, k, i, j)] += p->d_out[k] / area;
}

const struct twin_layer twin_pool = {"pool", forward_largest, backward_largest};
const struct twin_layer twin_avgpool = {"avgpool", forward_mean, backward_mean};
const struct twin_layer twin_globalpool = {"globalpool", forward_mean, backward_mean};
