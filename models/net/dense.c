/* dense: out = in · Wᵀ + b, W [n_out][n_in], b [n_out] */
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "models/floats.h"
#include "models/kernels/gemm.h"
#include "models/net/layer.h"

static enum err read_outputs(struct layer *l, const char *text, const struct contract *contract) {
  if (strcmp(text, task_type(contract->task)->outputs) != 0)
    return layer_read_count(text, 1, MAX_PARAMETERS, &l->out.channels);
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
  floats_scale(g_bias, l->n_out, d->momentum);
  for (size_t i = 0; i < p->n; i++)
    cblas_saxpy(n_out, 1, d->d_out + i * l->n_out, 1, g_bias, 1);
}

/* ---- packed: models/kernels/gemm.h, W and behind it b in whole panels, the relu and the step within the products */

static size_t packed_weights(const struct layer *l) {
  return gemm_packed(l->n_out, l->n_in) + gemm_padded(l->n_out);
}

static void packed_load(const struct layer *l, const float *w, float *own) {
  size_t n_packed = gemm_packed(l->n_out, l->n_in);
  gemm_pack(l->n_out, l->n_in, w, own);
  memset(own + n_packed, 0, gemm_padded(l->n_out) * sizeof *own);
  memcpy(own + n_packed, w + (size_t)l->n_in * l->n_out, l->n_out * sizeof *own);
}

static void packed_store(const struct layer *l, const float *own, float *w) {
  gemm_unpack(l->n_out, l->n_in, own, w);
  memcpy(w + (size_t)l->n_in * l->n_out, own + gemm_packed(l->n_out, l->n_in), l->n_out * sizeof *w);
}

/* ∂L/∂out in rows and in columns, and room for a part of ∂L/∂in. */
static size_t packed_scratch(const struct layer *l, size_t n) {
  return (n + gemm_padded(n)) * gemm_padded(l->n_out) + (size_t)l->n_in * GEMM_ROOM;
}

static struct gemm_shape shape_of(const struct layer *l, size_t n) {
  return (struct gemm_shape){n, l->n_in, l->n_out, l->n_in, l->n_out};
}

static void packed_forward(const struct gemm *gemm, const struct layer *l, const struct pass *p) {
  struct gemm_shape s = shape_of(l, p->n);
  gemm->forward(&s, p->in, p->w, p->w + gemm_packed(l->n_out, l->n_in), p->relu, p->out);
}

static void packed_backward(const struct gemm *gemm, const struct layer *l, const struct pass *p,
                            const struct gradient *d) {
  struct gemm_shape s = shape_of(l, p->n);
  size_t n_out = gemm_padded(l->n_out), n_packed = gemm_packed(l->n_out, l->n_in);
  float *columns = p->scratch + p->n * n_out, *room = columns + gemm_padded(p->n) * n_out;
  const struct gemm_delta delta = {p->scratch, d->d_in ? columns : NULL};
  gemm_prepare(&s, d->d_out, p->relu ? p->out : NULL, &delta);
  if (d->d_in)
    gemm->back_inputs(&s, &delta, p->w, room, d->d_in);
  struct gemm_update weights = {d->g, d->momentum, d->w, d->rate, d->decay}, bias = weights;
  bias.g += n_packed;
  bias.w = d->w ? d->w + n_packed : NULL;
  gemm->back_weights(&s, &delta, p->in, &weights);
  gemm->back_bias(&s, &delta, &bias);
}

/* ---- few: the same products where outputs are few; W as it is, and going backwards is one pass over what comes in */

enum { FEW = GEMM_PANEL };

static size_t few_scratch(const struct layer *l, size_t n) {
  return n * l->n_out * GEMM_PANEL;
}

static void few_forward(const struct gemm *gemm, const struct layer *l, const struct pass *p) {
  struct gemm_shape s = shape_of(l, p->n);
  gemm->few_forward(&s, p->in, p->w, p->w + (size_t)l->n_in * l->n_out, p->relu, p->scratch, p->out);
}

/* ∂L/∂out before the relu. */
static const float *few_delta(const struct layer *l, const struct pass *p, const float *d_out) {
  if (!p->relu)
    return d_out;
  for (size_t i = 0; i < p->n * l->n_out; i++)
    p->scratch[i] = p->out[i] > 0 ? d_out[i] : 0;
  return p->scratch;
}

static void few_backward(const struct gemm *gemm, const struct layer *l, const struct pass *p,
                         const struct gradient *d) {
  struct gemm_shape s = shape_of(l, p->n);
  size_t n_weights = (size_t)l->n_in * l->n_out;
  const float *dy = few_delta(l, p, d->d_out);
  gemm->few_backward(&s, dy, p->in, p->w, &(struct gemm_update){d->g, d->momentum, d->w, d->rate, d->decay}, d->gated,
                     d->d_in);
  for (size_t o = 0; o < l->n_out; o++) {
    float *g = d->g + n_weights + o, *w = d->w ? d->w + n_weights + o : NULL;
    *g = (d->momentum != 0 ? d->momentum * *g : 0) + (w ? d->decay * *w : 0);
    for (size_t i = 0; i < p->n; i++)
      *g += dy[i * l->n_out + o];
    if (w)
      *w -= d->rate * *g;
  }
}

/* ---- the rows */

#define DEFINE(kernel, which)                                                                                          \
  static bool kernel##_fits(const struct layer *l, const struct cpu *cpu) {                                            \
    (void)l;                                                                                                           \
    return cpu_has(cpu, &gemm_kernel(which)->needs);                                                                   \
  }                                                                                                                    \
  static bool kernel##_fits_few(const struct layer *l, const struct cpu *cpu) {                                        \
    return kernel##_fits(l, cpu) && l->n_out <= FEW && l->n_in % GEMM_PANEL == 0;                                      \
  }                                                                                                                    \
  static void kernel##_packed_forward(const struct layer *l, const struct pass *p) {                                   \
    packed_forward(gemm_kernel(which), l, p);                                                                          \
  }                                                                                                                    \
  static void kernel##_packed_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {        \
    packed_backward(gemm_kernel(which), l, p, d);                                                                      \
  }                                                                                                                    \
  static void kernel##_few_forward(const struct layer *l, const struct pass *p) {                                      \
    few_forward(gemm_kernel(which), l, p);                                                                             \
  }                                                                                                                    \
  static void kernel##_few_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {           \
    few_backward(gemm_kernel(which), l, p, d);                                                                         \
  }
#define ROWS(kernel)                                                                                                   \
  {.name = "packed-" #kernel,                                                                                          \
   .fits = kernel##_fits,                                                                                              \
   .takes_relu = true,                                                                                                 \
   .folds = true,                                                                                                      \
   .scratch = packed_scratch,                                                                                          \
   .weights = packed_weights,                                                                                          \
   .load = packed_load,                                                                                                \
   .store = packed_store,                                                                                              \
   .forward = kernel##_packed_forward,                                                                                 \
   .backward = kernel##_packed_backward},                                                                              \
      {.name = "few-" #kernel,                                                                                         \
       .fits = kernel##_fits_few,                                                                                      \
       .takes_relu = true,                                                                                             \
       .folds = true,                                                                                                  \
       .gates = true,                                                                                                  \
       .scratch = few_scratch,                                                                                         \
       .forward = kernel##_few_forward,                                                                                \
       .backward = kernel##_few_backward},

#if defined __x86_64__
DEFINE(avx2, GEMM_AVX2)
DEFINE(avx512, GEMM_AVX512)
#elif defined __aarch64__
DEFINE(neon, GEMM_NEON)
#endif

static const struct kernel kernels[] = {{.name = "plain", .forward = plain_forward, .backward = plain_backward},
#if defined __x86_64__
                                        ROWS(avx2) ROWS(avx512)
#elif defined __aarch64__
                                        ROWS(neon)
#endif
};

const struct layer_type layer_dense = {
    .word = "dense",
    .usage = "dense N",
    .sentence =
        "fully connected, N outputs; `dense classes`, `dense targets` and `dense inputs`: as many as the task has",
    .stem = "dense",
    .words = {{NULL,
               "a number of outputs, or what the task has: 'classes', 'targets' (in regression) or 'inputs' (to "
               "reconstruct)",
               read_outputs}},
    .shape = dense_shape,
    .text = dense_text,
    .tensors = dense_tensors,
    .init = dense_init,
    .flops = dense_flops,
    LAYER_KERNELS(kernels),
};
