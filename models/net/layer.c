#include "models/net/layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "models/floats.h"

static const struct layer_type *const types[] = {
    &layer_dense,      &layer_conv,      &layer_conv1d,  &layer_depthwise, &layer_pool,      &layer_avgpool,
    &layer_globalpool, &layer_embed,     &layer_gru,     &layer_batchnorm, &layer_groupnorm, &layer_layernorm,
    &layer_relu,       &layer_leakyrelu, &layer_elu,     &layer_gelu,      &layer_silu,      &layer_softplus,
    &layer_hardswish,  &layer_tanh,      &layer_sigmoid, &layer_dropout,   &layer_residual,  NULL,
};

const struct layer_type *layer_type_at(size_t i) {
  for (size_t k = 0; k < i; k++)
    if (!types[k])
      return NULL;
  return types[i];
}

const struct layer_type *layer_type_find(const char *word) {
  for (size_t i = 0; types[i]; i++)
    if (strcmp(types[i]->word, word) == 0)
      return types[i];
  return NULL;
}

/* ---- for the families */

size_t extent_values(struct extent e) {
  uint64_t plane = (uint64_t)e.height * e.width;
  return plane <= MAX_PARAMETERS && plane * e.channels <= MAX_PARAMETERS ? (size_t)(plane * e.channels) : 0;
}

enum err layer_set_out(struct layer *l, struct extent out, char why[MAX_REASON_BYTES]) {
  size_t n = extent_values(out);
  if (n == 0) {
    snprintf(why, MAX_REASON_BYTES,
             "%" PRIu32 "x%" PRIu32 "x%" PRIu32 " outputs a sample are more than %d; make it smaller", out.height,
             out.width, out.channels, MAX_PARAMETERS);
    return ERR_LIMIT;
  }
  l->out = out;
  l->n_out = (uint32_t)n;
  return ERR_OK;
}

enum err layer_shape_same(struct layer *l, char why[MAX_REASON_BYTES]) {
  return layer_set_out(l, l->in, why);
}

int layer_text_word(const struct layer *l, char *out_text, size_t capacity) {
  return snprintf(out_text, capacity, "%s", l->type->word);
}

size_t layer_kept_values(const struct layer *l) {
  return l->n_out;
}

/* The number up to `end`, which is '\0' or the character that must follow; the place behind it, or NULL. */
static const char *read_number(const char *text, char end, uint32_t lo, uint32_t hi, uint32_t *out) {
  uint64_t n = 0;
  const char *c = text;
  for (; *c >= '0' && *c <= '9' && n <= hi; c++)
    n = n * 10 + (uint64_t)(*c - '0');
  if (c == text || *c != end || n < lo || n > hi)
    return NULL;
  *out = (uint32_t)n;
  return end ? c + 1 : c;
}

enum err layer_read_count(const char *text, uint32_t lo, uint32_t hi, uint32_t *out) {
  return read_number(text, '\0', lo, hi, out) ? ERR_OK : ERR_RANGE;
}

enum err layer_read_counts(const char *text, size_t n, uint32_t hi, uint32_t *out) {
  uint32_t counts[4];
  MUST(n <= sizeof counts / sizeof *counts);
  for (size_t i = 0; i < n; i++)
    if (!(text = read_number(text, i + 1 < n ? 'x' : '\0', 1, hi, &counts[i])))
      return ERR_RANGE;
  memcpy(out, counts, n * sizeof *counts);
  return ERR_OK;
}

struct tensor layer_tensor(const struct layer *l, const char *what, enum role role, uint32_t rank,
                           const uint32_t shape[]) {
  struct tensor t = {.role = role, .rank = rank};
  memcpy(t.shape, shape, rank * sizeof *shape);
  snprintf(t.name, sizeof t.name, "%s.%s", l->name, what);
  return t;
}

void layer_init_uniform(const struct layer *l, double fan_in, double fan_out, struct rng *rng, size_t n, float *out_w) {
  double bound = sqrt(6.0 / (l->before_relu ? fan_in : fan_in + fan_out));
  floats_draw(out_w, n, bound, rng);
}

/* ---- for the net and the parser */

enum err layer_count_parameters(struct layer *l) {
  struct tensor tensors[MAX_LAYER_TENSORS];
  size_t n_tensors = l->type->tensors ? l->type->tensors(l, tensors) : 0, counts[2] = {0}, total = 0;
  for (size_t i = 0; i < n_tensors; i++) {
    size_t n;
    bool is_statistic = tensors[i].role == ROLE_STATISTIC;
    MUST(is_statistic || counts[true] == 0);
    if (tensor_values(&tensors[i], &n) || n > MAX_PARAMETERS - total)
      return ERR_LIMIT;
    counts[is_statistic] += n;
    total += n;
  }
  l->n_trained = counts[false];
  l->n_statistics = counts[true];
  return ERR_OK;
}

double layer_flops(const struct layer *l) {
  return l->type->flops ? l->type->flops(l) : l->n_out;
}

void layer_key(const struct layer *l, size_t batch, char out_key[MAX_SELECTION_KEY_BYTES]) {
  char form[2 * MAX_LAYER_NAME_BYTES];
  l->type->text(l, form, sizeof form);
  selection_key(form, l->in.height, l->in.width, l->in.channels, (uint32_t)batch, out_key);
}

bool kernel_fits(const struct kernel *k, const struct layer *l, const struct cpu *cpu) {
  return !k->fits || k->fits(l, cpu);
}

const struct kernel *layer_kernel(const struct layer *l, const char *name, const struct cpu *cpu) {
  const struct kernel *last = NULL;
  for (size_t i = 0; i < l->type->n_kernels; i++) {
    const struct kernel *k = &l->type->kernels[i];
    if (!kernel_fits(k, l, cpu))
      continue;
    if (name && strcmp(k->name, name) == 0)
      return k;
    last = k;
  }
  MUST(last);
  return last;
}
