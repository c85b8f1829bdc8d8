/* Pools, channel by channel: the largest value or the mean of each window; windows that would reach over the edge are left
 * out. `globalpool` is the mean of the whole image. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/kernels/pool.h"
#include "models/net/layer.h"
#include "models/net/window.h"

static enum err read_side(struct layer *l, const char *text, const struct contract *contract) {
  (void)contract;
  return layer_read_count(text, 1, MAX_KERNEL_SIDE, &l->window.width);
}

/* K rows and columns; of a series K steps. */
static enum err pool_shape(struct layer *l, char why[MAX_REASON_BYTES]) {
  l->window.height = l->in.height == 1 ? 1 : l->window.width;
  if (l->window.stride == 0)
    l->window.stride = l->window.width;
  return window_shape(l, l->in.channels, why);
}

static enum err global_shape(struct layer *l, char why[MAX_REASON_BYTES]) {
  l->window = (struct window){.height = l->in.height, .width = l->in.width, .stride = 1};
  return window_shape(l, l->in.channels, why);
}

static int pool_text(const struct layer *l, char *out_text, size_t capacity) {
  int n = snprintf(out_text, capacity, "%s %" PRIu32, l->type->word, l->window.width);
  return window_text(l, n, l->window.width, out_text, capacity);
}

static double pool_flops(const struct layer *l) {
  return (double)window_area(l) * l->n_out;
}

/* ---- places: windows of all samples, one after the other; the c-th value that comes out of place `at` is at·channels + c */

static size_t n_places(const struct layer *l, const struct pass *p) {
  return p->n * l->out.height * l->out.width;
}

/* Index of a place's first value in the input. */
static size_t first_of(const struct layer *l, size_t at) {
  const size_t x = at % l->out.width, y = at / l->out.width % l->out.height, i = at / l->out.width / l->out.height;
  return i * l->n_in + (y * l->in.width + x) * l->window.stride * l->in.channels;
}

/* Where the k-th value of a window is, from its first. */
static size_t value_at(const struct layer *l, size_t k) {
  return (k / l->window.width * l->in.width + k % l->window.width) * l->in.channels;
}

/* ---- largest: keeps which value of the window it was, the first of equal ones; NaN wins */

static size_t largest_of(const struct layer *l, const float *first) {
  size_t best = 0;
  for (size_t k = 1; k < window_area(l); k++) {
    float value = first[value_at(l, k)], held = first[value_at(l, best)];
    if (value > held || (isnan(value) && !isnan(held)))
      best = k;
  }
  return best;
}

static void largest_forward(const struct layer *l, const struct pass *p) {
  const size_t channels = l->out.channels;
  for (size_t at = 0; at < n_places(l, p); at++) {
    const float *first = p->in + first_of(l, at);
    for (size_t c = 0; c < channels; c++) {
      size_t best = largest_of(l, first + c);
      p->out[at * channels + c] = first[value_at(l, best) + c];
      p->kept[at * channels + c] = (float)best;
    }
  }
}

static void largest_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  const size_t channels = l->out.channels;
  memset(d->d_in, 0, p->n * l->n_in * sizeof *d->d_in);
  for (size_t at = 0; at < n_places(l, p); at++)
    for (size_t c = 0; c < channels; c++)
      d->d_in[first_of(l, at) + value_at(l, (size_t)p->kept[at * channels + c]) + c] += d->d_out[at * channels + c];
}

/* ---- mean */

static void mean_forward(const struct layer *l, const struct pass *p) {
  const size_t channels = l->out.channels;
  const float share = 1 / (float)window_area(l);
  memset(p->out, 0, p->n * l->n_out * sizeof *p->out);
  for (size_t at = 0; at < n_places(l, p); at++) {
    float *out = p->out + at * channels;
    for (size_t k = 0; k < window_area(l); k++)
      for (size_t c = 0; c < channels; c++)
        out[c] += p->in[first_of(l, at) + value_at(l, k) + c];
    for (size_t c = 0; c < channels; c++)
      out[c] *= share;
  }
}

static void mean_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  const size_t channels = l->out.channels;
  const float share = 1 / (float)window_area(l);
  memset(d->d_in, 0, p->n * l->n_in * sizeof *d->d_in);
  for (size_t at = 0; at < n_places(l, p); at++)
    for (size_t k = 0; k < window_area(l); k++)
      for (size_t c = 0; c < channels; c++)
        d->d_in[first_of(l, at) + value_at(l, k) + c] += share * d->d_out[at * channels + c];
}

/* ---- eight channels at a time: models/kernels/pool.h */

static struct pool_shape shape_of(const struct layer *l) {
  return (struct pool_shape){.height = l->in.height,
                             .width = l->in.width,
                             .channels = l->in.channels,
                             .window_height = l->window.height,
                             .window_width = l->window.width,
                             .stride = l->window.stride,
                             .out_height = l->out.height,
                             .out_width = l->out.width};
}

#define DEFINE(kernel)                                                                                                 \
  static bool kernel##_fits(const struct layer *l, const struct cpu *cpu) {                                            \
    (void)l;                                                                                                           \
    return cpu_has(cpu, &pool_##kernel.needs);                                                                         \
  }                                                                                                                    \
  static void kernel##_largest(const struct layer *l, const struct pass *p) {                                          \
    struct pool_shape s = shape_of(l);                                                                                 \
    pool_##kernel.largest(&s, p->n, p->in, p->out, p->kept);                                                           \
  }                                                                                                                    \
  static void kernel##_largest_back(const struct layer *l, const struct pass *p, const struct gradient *d) {           \
    struct pool_shape s = shape_of(l);                                                                                 \
    pool_##kernel.largest_back(&s, p->n, d->d_out, p->kept, d->d_in);                                                  \
  }                                                                                                                    \
  static void kernel##_mean(const struct layer *l, const struct pass *p) {                                             \
    struct pool_shape s = shape_of(l);                                                                                 \
    pool_##kernel.mean(&s, p->n, p->in, p->out);                                                                       \
  }                                                                                                                    \
  static void kernel##_mean_back(const struct layer *l, const struct pass *p, const struct gradient *d) {              \
    struct pool_shape s = shape_of(l);                                                                                 \
    pool_##kernel.mean_back(&s, p->n, d->d_out, d->d_in);                                                              \
  }

DEFINE(lanes)
#if defined __x86_64__
DEFINE(avx2)
DEFINE(avx512)
#endif

/* ---- kernels and rows */

static const struct kernel largest_kernels[] = {
    {.name = "plain", .kept = layer_kept_values, .forward = largest_forward, .backward = largest_backward},
    {.name = "lanes",
     .fits = lanes_fits,
     .kept = layer_kept_values,
     .forward = lanes_largest,
     .backward = lanes_largest_back},
#if defined __x86_64__
    {.name = "lanes-avx2",
     .fits = avx2_fits,
     .kept = layer_kept_values,
     .forward = avx2_largest,
     .backward = avx2_largest_back},
    {.name = "lanes-avx512",
     .fits = avx512_fits,
     .kept = layer_kept_values,
     .forward = avx512_largest,
     .backward = avx512_largest_back},
#endif
};

static const struct kernel mean_kernels[] = {
    {.name = "plain", .forward = mean_forward, .backward = mean_backward},
    {.name = "lanes", .fits = lanes_fits, .forward = lanes_mean, .backward = lanes_mean_back},
#if defined __x86_64__
    {.name = "lanes-avx2", .fits = avx2_fits, .forward = avx2_mean, .backward = avx2_mean_back},
    {.name = "lanes-avx512", .fits = avx512_fits, .forward = avx512_mean, .backward = avx512_mean_back},
#endif
};

#define SIDE "the side of its window, as in 2"
const struct layer_type layer_pool = {.word = "pool",
                                      .usage = "pool K [stride S]",
                                      .sentence = "max pooling: the largest of KxK values, of series the largest of K "
                                                  "steps; stride K unless said",
                                      .words = {{NULL, SIDE, read_side}, {"stride", WINDOW_STRIDE, window_read_stride}},
                                      .transparent = true,
                                      .shape = pool_shape,
                                      .text = pool_text,
                                      .flops = pool_flops,
                                      LAYER_KERNELS(largest_kernels)};
const struct layer_type layer_avgpool = {
    .word = "avgpool",
    .usage = "avgpool K [stride S]",
    .sentence = "average pooling: the mean of as many",
    .words = {{NULL, SIDE, read_side}, {"stride", WINDOW_STRIDE, window_read_stride}},
    .transparent = true,
    .shape = pool_shape,
    .text = pool_text,
    .flops = pool_flops,
    LAYER_KERNELS(mean_kernels)};
const struct layer_type layer_globalpool = {.word = "globalpool",
                                            .sentence = "global average pooling: the mean of each channel over the "
                                                        "whole image or series",
                                            .transparent = true,
                                            .shape = global_shape,
                                            .text = layer_text_word,
                                            .flops = pool_flops,
                                            LAYER_KERNELS(mean_kernels)};
