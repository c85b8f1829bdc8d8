/* residual { f }: out = in + f(in) (He et al. 2016). Its two ends are layers: the first lets its input through, the second
 * adds that to what comes out. Backwards the second leaves its ∂L/∂out for the first. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "models/net/layer.h"

/* `out` is what went into the block. */
static enum err end_shape(struct layer *l, char why[MAX_REASON_BYTES]) {
  const struct extent in = l->in, out = l->out;
  if (in.height == out.height && in.width == out.width && in.channels == out.channels)
    return layer_set_out(l, out, why);
  snprintf(why, MAX_REASON_BYTES,
           "the block makes %" PRIu32 "x%" PRIu32 "x%" PRIu32 " of %" PRIu32 "x%" PRIu32 "x%" PRIu32
           ", and what is added to its input must be as large; change its last layers",
           in.height, in.width, in.channels, out.height, out.width, out.channels);
  return ERR_RANGE;
}

static void begin_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  for (size_t i = 0; i < p->n * l->n_out; i++)
    d->d_in[i] = d->d_out[i] + p->kept[i];
}

static void end_forward(const struct layer *l, const struct pass *p) {
  for (size_t i = 0; i < p->n * l->n_out; i++) {
    float sum = p->in[i] + p->before[i];
    p->out[i] = p->relu && sum < 0 ? 0 : sum;
  }
}

static void end_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  for (size_t i = 0; i < p->n * l->n_out; i++) {
    float d_out = d->d_out[i];
    d->d_in[i] = p->kept[i] = p->relu && !(p->out[i] > 0) ? 0 : d_out;
  }
}

static const struct kernel begin_kernel = {.name = "plain", .kept = layer_kept_values, .backward = begin_backward};
static const struct kernel end_kernel = {
    .name = "plain", .takes_relu = true, .forward = end_forward, .backward = end_backward};

const struct layer_type layer_residual_end = {
    .word = "}", .shape = end_shape, .text = layer_text_word, .kernels = &end_kernel, .n_kernels = 1};
const struct layer_type layer_residual = {.word = "residual",
                                          .usage = "residual { LAYER, … }",
                                          .sentence = "residual block: what comes out of the layers in braces, plus "
                                                      "what went in, equally large",
                                          .closes = &layer_residual_end,
                                          .shape = layer_shape_same,
                                          .text = layer_text_word,
                                          .kernels = &begin_kernel,
                                          .n_kernels = 1};
