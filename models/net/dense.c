/* dense: out = in · Wᵀ + b, W [n_out][n_in], b [n_out] */
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "models/net/layer.h"

static enum err read_outputs(struct layer *l, const char *text, const struct contract *contract) {
  bool classes = strcmp(text, "classes") == 0;
  bool targets = strcmp(text, "targets") == 0;
  if (!classes && !targets)
    return layer_read_count(text, 1, MAX_PARAMETERS, &l->out.channels);
  if (classes != (contract->task == TASK_CLASSIFY))
    return ERR_RANGE;
  l->out.channels = (uint32_t)contract_n_outputs(contract);
  return ERR_OK;
}

static enum err dense_shape(struct layer *l, char why[MAX_REASON_BYTES]) {
  return layer_set_out(l, (struct extent){1, 1, l->out.channels}, why);
}

static int dense_text(const struct layer *l, char *out_text, size_t capacity) {
  return snprintf(out_text, capacity, "dense %u", l->n_out);
}

static size_t dense_tensors(const struct layer *l, struct tensor out_tensors[MAX_LAYER_TENSORS]) {
  out_tensors[0] = layer_tensor(l, "weight", ROLE_SHARED, 2, (const uint32_t[]){l->n_out, l->n_in});
  out_tensors[1] = layer_tensor(l, "bias", ROLE_SHARED, 1, &l->n_out);
  return 2;
}

static void dense_init(const struct layer *l, struct rng *rng, float *out_w) {
  size_t n_weights = (size_t)l->n_in * l->n_out;
  layer_init_uniform(l, l->n_in, l->n_out, rng, n_weights, out_w);
  memset(out_w + n_weights, 0, l->n_out * sizeof *out_w);
}

static double dense_flops(const struct layer *l) {
  return 2.0 * l->n_in * l->n_out;
}

/* ---- plain: OpenBLAS */

static void plain_forward(const struct layer *l, const struct pass *p) {
  const float *bias = p->w + (size_t)l->n_in * l->n_out;
  for (size_t i = 0; i < p->n; i++)
    memcpy(p->out + i * l->n_out, bias, l->n_out * sizeof *bias);
  blasint n = (blasint)p->n, n_in = (blasint)l->n_in, n_out = (blasint)l->n_out;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n_out, n_in, 1, p->in, n_in, p->w, n_in, 1, p->out, n_out);
}

static void plain_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  blasint n = (blasint)p->n, n_in = (blasint)l->n_in, n_out = (blasint)l->n_out;
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n_out, n_in, n, 1, d->d_out, n_out, p->in, n_in, d->momentum,
              d->g, n_in);
  if (d->d_in)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n_in, n_out, 1, d->d_out, n_out, p->w, n_in, 0, d->d_in,
                n_in);
  float *g_bias = d->g + (size_t)l->n_in * l->n_out;
  cblas_sscal(n_out, d->momentum, g_bias, 1);
  for (size_t i = 0; i < p->n; i++)
    cblas_saxpy(n_out, 1, d->d_out + i * l->n_out, 1, g_bias, 1);
}

static const struct kernel kernels[] = {
    {.name = "plain", .forward = plain_forward, .backward = plain_backward},
};

const struct layer_type layer_dense = {
    .word = "dense",
    .stem = "dense",
    .words = {{NULL, "a number of outputs, 'classes' (when classifying) or 'targets' (in regression)", read_outputs}},
    .shape = dense_shape,
    .text = dense_text,
    .tensors = dense_tensors,
    .init = dense_init,
    .flops = dense_flops,
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof *kernels,
};
