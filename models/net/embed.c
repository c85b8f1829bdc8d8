/* embed V D: each of T inputs is the number of one of V tokens and becomes that token's row of the table [V][D], so that a
 * sample of T tokens is a series of T steps with D values.
 *
 * Tokens come as floats, being the data's columns; that each is one of 0 … V − 1 is the contract's range, which the data's
 * door holds. A value outside is taken as the nearest token, NaN as token 0, so that no value reads outside the table. */
#include <stdio.h>
#include <string.h>

#include "models/floats.h"
#include "models/net/layer.h"

/* Every input's range lies in 0 … V − 1, and nothing is scaled. */
static bool holds_tokens(const struct contract *contract, uint32_t n_tokens) {
  double lo, hi;
  contract_range(contract, &lo, &hi);
  bool holds = contract->n_features > 0 || (lo >= 0 && hi <= n_tokens - 1);
  for (size_t i = 0; i < contract->n_features && holds; i++) {
    contract_feature_range(contract, i, &lo, &hi);
    holds = lo >= 0 && hi <= n_tokens - 1;
  }
  return holds && contract->scale.rule == SCALE_NONE;
}

static enum err read_tokens(struct layer *l, const char *text, const struct contract *contract) {
  enum err e = layer_read_count(text, 1, 1 << 24, &l->n_tokens); /* floats count no further one by one */
  return e || holds_tokens(contract, l->n_tokens) ? e : ERR_RANGE;
}

static enum err read_width(struct layer *l, const char *text, const struct contract *contract) {
  (void)contract;
  return layer_read_count(text, 1, MAX_PARAMETERS, &l->out.channels);
}

static enum err shape(struct layer *l, char why[MAX_REASON_BYTES]) {
  if (l->in.height != 1 || (l->in.width != 1 && l->in.channels != 1)) {
    snprintf(why, MAX_REASON_BYTES, "embed reads a row of tokens; here it is %ux%ux%u", l->in.height, l->in.width,
             l->in.channels);
    return ERR_RANGE;
  }
  return layer_set_out(l, (struct extent){1, l->n_in, l->out.channels}, why);
}

static int text(const struct layer *l, char *out_text, size_t capacity) {
  return snprintf(out_text, capacity, "embed %u %u", l->n_tokens, l->out.channels);
}

static size_t tensors(const struct layer *l, struct tensor out_tensors[MAX_LAYER_TENSORS]) {
  out_tensors[0] = layer_tensor(l, "weight", ROLE_SHARED, 2, (const uint32_t[]){l->n_tokens, l->out.channels});
  return 1;
}

/* Uniform in ±√3, of variance 1 as PyTorch's. */
static void init(const struct layer *l, struct rng *rng, float *out_w) {
  const double bound = 1.7320508075688772;
  floats_draw(out_w, l->n_trained, bound, rng);
}

static size_t token_of(const struct layer *l, float value) {
  if (!(value > 0))
    return 0;
  return value < (float)l->n_tokens ? (size_t)value : l->n_tokens - 1;
}

static void forward(const struct layer *l, const struct pass *p) {
  size_t width = l->out.channels;
  for (size_t i = 0; i < p->n * l->n_in; i++)
    memcpy(p->out + i * width, p->w + token_of(l, p->in[i]) * width, width * sizeof *p->out);
}

/* Tokens have no gradient. */
static void backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  size_t width = l->out.channels;
  floats_scale(d->g, l->n_trained, d->momentum);
  for (size_t i = 0; i < p->n * l->n_in; i++) {
    float *row = d->g + token_of(l, p->in[i]) * width;
    for (size_t j = 0; j < width; j++)
      row[j] += d->d_out[i * width + j];
  }
  if (d->d_in)
    memset(d->d_in, 0, p->n * l->n_in * sizeof *d->d_in);
}

static const struct kernel plain = {.name = "plain", .forward = forward, .backward = backward};

const struct layer_type layer_embed = {
    .word = "embed",
    .usage = "embed V D",
    .sentence = "embedding: each input is a token 0 to V - 1 and becomes D values, T inputs a series of T steps; takes "
                "`range` within 0..V-1 and no `scale`",
    .stem = "embed",
    .words = {{NULL, "a number of tokens V, the contract's range lying in 0..V-1 and its scale being none",
               read_tokens},
              {NULL, "a number of values a token", read_width}},
    .shape = shape,
    .text = text,
    .tensors = tensors,
    .init = init,
    .kernels = &plain,
    .n_kernels = 1,
};
