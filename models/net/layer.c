#include "models/net/layer.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- dense: out = in · Wᵀ + b, W [n_out][n_in], b [n_out] */

static enum err parse_count(const char *digits, uint32_t *out) {
  uint32_t n = 0;
  if (!*digits)
    return ERR_RANGE;
  for (const char *c = digits; *c; c++) {
    if (*c < '0' || *c > '9' || n > MAX_PARAMETERS / 10)
      return ERR_RANGE;
    n = n * 10 + (uint32_t)(*c - '0');
  }
  if (n < 1 || n > MAX_PARAMETERS)
    return ERR_RANGE;
  *out = n;
  return ERR_OK;
}

static enum err dense_read(struct layer *l, const char *argument, const struct contract *contract) {
  bool classes = strcmp(argument, "classes") == 0;
  bool targets = strcmp(argument, "targets") == 0;
  if (!classes && !targets)
    return parse_count(argument, &l->n_out);
  if (classes != (contract->task == TASK_CLASSIFY))
    return ERR_RANGE;
  l->n_out = (uint32_t)contract_n_outputs(contract);
  return ERR_OK;
}

static int dense_text(const struct layer *l, char *out_text, size_t capacity) {
  return snprintf(out_text, capacity, "dense %u", l->n_out);
}

static size_t dense_tensors(const struct layer *l, struct tensor out_tensors[MAX_LAYER_TENSORS]) {
  out_tensors[0] = (struct tensor){.role = ROLE_SHARED, .rank = 2, .shape = {l->n_out, l->n_in}};
  out_tensors[1] = (struct tensor){.role = ROLE_SHARED, .rank = 1, .shape = {l->n_out}};
  snprintf(out_tensors[0].name, MAX_NAME_BYTES, "%s.weight", l->name);
  snprintf(out_tensors[1].name, MAX_NAME_BYTES, "%s.bias", l->name);
  return 2;
}

static void dense_init(const struct layer *l, struct rng *rng, float *out_w) {
  double fans = l->before_relu ? l->n_in : (double)l->n_in + l->n_out;
  double bound = sqrt(6.0 / fans);
  size_t n_weights = (size_t)l->n_in * l->n_out;
  for (size_t i = 0; i < n_weights; i++)
    out_w[i] = (float)(bound * (2.0 * rng_unit(rng) - 1.0));
  memset(out_w + n_weights, 0, l->n_out * sizeof *out_w);
}

static void dense_forward(const struct layer *l, const struct pass *p) {
  const float *bias = p->w + (size_t)l->n_in * l->n_out;
  for (size_t i = 0; i < p->n; i++)
    memcpy(p->out + i * l->n_out, bias, l->n_out * sizeof *bias);
  blasint n = (blasint)p->n, n_in = (blasint)l->n_in, n_out = (blasint)l->n_out;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n_out, n_in, 1, p->in, n_in, p->w, n_in, 1, p->out, n_out);
}

static void dense_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
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

static double dense_flops(const struct layer *l) {
  return 2.0 * l->n_in * l->n_out;
}

/* ---- layers that work value by value and have no parameters */

static enum err elementwise_read(struct layer *l, const char *argument, const struct contract *contract) {
  (void)argument;
  (void)contract;
  l->n_out = l->n_in;
  return ERR_OK;
}

static int elementwise_text(const struct layer *l, char *out_text, size_t capacity) {
  return snprintf(out_text, capacity, "%s", l->type->word);
}

static size_t no_tensors(const struct layer *l, struct tensor out_tensors[MAX_LAYER_TENSORS]) {
  (void)l;
  (void)out_tensors;
  return 0;
}

static double elementwise_flops(const struct layer *l) {
  return l->n_out;
}

static size_t n_values(const struct layer *l, const struct pass *p) {
  return p->n * l->n_out;
}

/* y = max(x, 0), but NaN stays NaN; ∂y/∂x = [y > 0] */
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

/* y = tanh x; ∂y/∂x = 1 − y² */
static void tanh_forward(const struct layer *l, const struct pass *p) {
  for (size_t i = 0; i < n_values(l, p); i++)
    p->out[i] = tanhf(p->in[i]);
}

static void tanh_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  for (size_t i = 0; i < n_values(l, p); i++)
    d->d_in[i] = d->d_out[i] * (1 - p->out[i] * p->out[i]);
}

/* y = 1/(1 + e^−x); ∂y/∂x = y(1 − y) */
static void sigmoid_forward(const struct layer *l, const struct pass *p) {
  for (size_t i = 0; i < n_values(l, p); i++)
    p->out[i] = 1 / (1 + expf(-p->in[i]));
}

static void sigmoid_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  for (size_t i = 0; i < n_values(l, p); i++)
    d->d_in[i] = d->d_out[i] * p->out[i] * (1 - p->out[i]);
}

/* ---- dropout: in training y = kept · x with kept = 0 (with probability P) or 1/(1 − P) (Srivastava et al. 2014,
 * inverted form), else y = x */

/* Digits with at most four decimals, below 1: printing with %g gives them back. */
static enum err dropout_read(struct layer *l, const char *argument, const struct contract *contract) {
  static const double scale[] = {1, 1e1, 1e2, 1e3, 1e4};
  const char *c = argument;
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
  if (*c || c == argument)
    return ERR_RANGE;
  l->rate = digits / scale[decimals];
  return elementwise_read(l, argument, contract);
}

static int dropout_text(const struct layer *l, char *out_text, size_t capacity) {
  return snprintf(out_text, capacity, "dropout %g", l->rate);
}

static void dropout_forward(const struct layer *l, const struct pass *p) {
  if (!p->rng) {
    memcpy(p->out, p->in, n_values(l, p) * sizeof *p->out);
    return;
  }
  float survivor = (float)(1 / (1 - l->rate));
  for (size_t i = 0; i < n_values(l, p); i++) {
    p->kept[i] = rng_unit(p->rng) < l->rate ? 0 : survivor;
    p->out[i] = p->in[i] * p->kept[i];
  }
}

static void dropout_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  for (size_t i = 0; i < n_values(l, p); i++)
    d->d_in[i] = d->d_out[i] * p->kept[i];
}

/* ---- the table */

#define ELEMENTWISE .tensors = no_tensors, .flops = elementwise_flops

static const struct layer_type types[] = {
    {.word = "dense",
     .argument = "a number of outputs, 'classes' (when classifying) or 'targets' (in regression)",
     .stem = "dense",
     .read = dense_read,
     .text = dense_text,
     .tensors = dense_tensors,
     .init = dense_init,
     .forward = dense_forward,
     .backward = dense_backward,
     .flops = dense_flops},
    {.word = "relu",
     .read = elementwise_read,
     .text = elementwise_text,
     .forward = relu_forward,
     .backward = relu_backward,
     ELEMENTWISE},
    {.word = "tanh",
     .read = elementwise_read,
     .text = elementwise_text,
     .forward = tanh_forward,
     .backward = tanh_backward,
     ELEMENTWISE},
    {.word = "sigmoid",
     .read = elementwise_read,
     .text = elementwise_text,
     .forward = sigmoid_forward,
     .backward = sigmoid_backward,
     ELEMENTWISE},
    {.word = "dropout",
     .argument = "a probability from 0 to below 1 with at most four decimals",
     .keeps = true,
     .read = dropout_read,
     .text = dropout_text,
     .forward = dropout_forward,
     .backward = dropout_backward,
     ELEMENTWISE},
};

const struct layer_type *layer_types(size_t *out_n) {
  *out_n = sizeof types / sizeof *types;
  return types;
}

const struct layer_type *layer_type_find(const char *word) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i].word, word) == 0)
      return &types[i];
  return NULL;
}

enum err layer_parameters(const struct layer *l, size_t *out_n) {
  struct tensor tensors[MAX_LAYER_TENSORS];
  size_t total = 0;
  for (size_t i = l->type->tensors(l, tensors); i-- > 0;) {
    size_t n;
    if (tensor_values(&tensors[i], &n) || n > MAX_PARAMETERS - total)
      return ERR_LIMIT;
    total += n;
  }
  *out_n = total;
  return ERR_OK;
}
