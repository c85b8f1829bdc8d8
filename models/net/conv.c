/* Convolutions over NHWC images, and over series, which are images of one row (LeCun et al. 1998):
 *
 *   conv, conv1d   out[y][x][o] = b[o] + Σ_{i,j,c} w[o][i][j][c] · in[y·S + i − P][x·S + j − P][c]
 *   depthwise      out[y][x][c] = b[c] + Σ_{i,j}   w[c][i][j]    · in[y·S + i − P][x·S + j − P][c]
 *
 * with zeros where that is outside. Weights [c_out][kernel height][kernel width][c_in], behind them b [c_out]. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "models/floats.h"
#include "models/kernels/conv.h"
#include "models/kernels/depthwise.h"
#include "models/net/layer.h"
#include "models/net/window.h"

/* ---- conv and conv1d: words, tensors, cost */

static enum err conv_shape(struct layer *l, char why[MAX_REASON_BYTES]) {
  return window_shape(l, l->out.channels, why);
}

static int conv_text(const struct layer *l, char *out_text, size_t capacity) {
  int n = snprintf(out_text, capacity, "conv %" PRIu32 "x%" PRIu32 "x%" PRIu32, l->window.height, l->window.width,
                   l->out.channels);
  return window_text(l, n, 1, out_text, capacity);
}

static enum err conv1d_read(struct layer *l, const char *text, const struct contract *contract) {
  uint32_t counts[2];
  (void)contract;
  if (layer_read_counts(text, 2, MAX_PARAMETERS, counts) || counts[0] > MAX_KERNEL_SIDE)
    return ERR_RANGE;
  l->window.height = 1;
  l->window.width = counts[0];
  l->out.channels = counts[1];
  return ERR_OK;
}

static enum err conv1d_shape(struct layer *l, char why[MAX_REASON_BYTES]) {
  l->window.pad_height = 0;
  if (l->in.height == 1)
    return window_shape(l, l->out.channels, why);
  snprintf(why, MAX_REASON_BYTES,
           "conv1d is for series, and what comes in is %" PRIu32 "x%" PRIu32 "x%" PRIu32 "; use conv for images",
           l->in.height, l->in.width, l->in.channels);
  return ERR_RANGE;
}

static int conv1d_text(const struct layer *l, char *out_text, size_t capacity) {
  int n = snprintf(out_text, capacity, "conv1d %" PRIu32 "x%" PRIu32, l->window.width, l->out.channels);
  return window_text(l, n, 1, out_text, capacity);
}

/* Inputs of one output. */
static size_t patch(const struct layer *l) {
  return window_area(l) * l->in.channels;
}

static size_t conv_tensors(const struct layer *l, struct tensor out_tensors[MAX_LAYER_TENSORS]) {
  const uint32_t shape[] = {l->out.channels, l->window.height, l->window.width, l->in.channels};
  out_tensors[0] = layer_tensor(l, "weight", ROLE_SHARED, 4, shape);
  out_tensors[1] = layer_tensor(l, "bias", ROLE_SHARED, 1, &l->out.channels);
  return 2;
}

static void conv_init(const struct layer *l, struct rng *rng, float *out_w) {
  size_t n_weights = patch(l) * l->out.channels;
  layer_init_uniform(l, (double)patch(l), (double)window_area(l) * l->out.channels, rng, n_weights, out_w);
  memset(out_w + n_weights, 0, l->out.channels * sizeof *out_w);
}

static double conv_flops(const struct layer *l) {
  return 2.0 * (double)patch(l) * l->n_out;
}

/* ---- conv and conv1d: ways of computing them, which are models/kernels/conv.h's */

static struct conv_shape shape_of(const struct layer *l) {
  return (struct conv_shape){.height = l->in.height,
                             .width = l->in.width,
                             .c_in = l->in.channels,
                             .kernel_height = l->window.height,
                             .kernel_width = l->window.width,
                             .stride = l->window.stride,
                             .pad_height = l->window.pad_height,
                             .pad_width = l->window.pad_width,
                             .out_height = l->out.height,
                             .out_width = l->out.width,
                             .c_out = l->out.channels};
}

static struct conv_batch batch_of(const struct pass *p) {
  return (struct conv_batch){
      .n = p->n, .x = p->in, .w = p->w, .relu = p->relu, .which = p->which, .scratch = p->scratch, .y = p->out};
}

static struct conv_gradient gradient_of(const struct gradient *d) {
  return (struct conv_gradient){.dy = d->d_out, .dx = d->d_in, .gated = d->gated, .momentum = d->momentum, .g = d->g};
}

/* The pool that kernels do which do one. */
static bool is_pool_of_pairs(const struct layer *l, const struct layer *pool) {
  const struct window *w = &pool->window;
  return l->out.height >= 2 && l->out.width >= 2 && w->height == 2 && w->width == 2 && w->stride == 2 &&
         w->pad_height == 0 && w->pad_width == 0;
}

/* The functions of a row of conv_kernels. */
#define DEFINE(kernel)                                                                                                 \
  static bool kernel##_fits(const struct layer *l, const struct cpu *cpu) {                                            \
    struct conv_shape s = shape_of(l);                                                                                 \
    return cpu_has(cpu, &conv_##kernel.needs) && (!conv_##kernel.fits || conv_##kernel.fits(&s));                      \
  }                                                                                                                    \
  static bool kernel##_takes_pool(const struct layer *l, const struct layer *pool) {                                   \
    return conv_##kernel.pools && is_pool_of_pairs(l, pool);                                                           \
  }                                                                                                                    \
  static size_t kernel##_scratch(const struct layer *l, size_t n) {                                                    \
    struct conv_shape s = shape_of(l);                                                                                 \
    return conv_##kernel.scratch(&s, n);                                                                               \
  }                                                                                                                    \
  static void kernel##_forward(const struct layer *l, const struct pass *p) {                                          \
    struct conv_shape s = shape_of(l);                                                                                 \
    struct conv_batch b = batch_of(p);                                                                                 \
    conv_##kernel.forward(&s, &b);                                                                                     \
  }                                                                                                                    \
  static void kernel##_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {               \
    struct conv_shape s = shape_of(l);                                                                                 \
    struct conv_batch b = batch_of(p);                                                                                 \
    struct conv_gradient g = gradient_of(d);                                                                           \
    conv_##kernel.backward(&s, &b, &g);                                                                                \
  }
#define ROW(kernel)                                                                                                    \
  .fits = kernel##_fits, .takes_relu = true, .takes_pool = kernel##_takes_pool, .scratch = kernel##_scratch,           \
  .forward = kernel##_forward, .backward = kernel##_backward

/* The same of one with its own layout of weights. */
#define DEFINE_OWN(kernel)                                                                                             \
  DEFINE(kernel)                                                                                                       \
  static size_t kernel##_weights(const struct layer *l) {                                                              \
    struct conv_shape s = shape_of(l);                                                                                 \
    return conv_##kernel.weights(&s);                                                                                  \
  }                                                                                                                    \
  static void kernel##_load(const struct layer *l, const float *w, float *own) {                                       \
    struct conv_shape s = shape_of(l);                                                                                 \
    conv_##kernel.load(&s, w, own);                                                                                    \
  }                                                                                                                    \
  static void kernel##_store(const struct layer *l, const float *own, float *w) {                                      \
    struct conv_shape s = shape_of(l);                                                                                 \
    conv_##kernel.store(&s, own, w);                                                                                   \
  }
#define ROW_OWN(kernel) ROW(kernel), .weights = kernel##_weights, .load = kernel##_load, .store = kernel##_store

DEFINE(im2col)
DEFINE(im2col_batch)
DEFINE(winograd)
DEFINE(matmul)
DEFINE_OWN(series)
DEFINE_OWN(direct)
#if defined __x86_64__
DEFINE_OWN(direct_avx2)
DEFINE_OWN(direct_avx512)
DEFINE_OWN(series_avx2)
DEFINE_OWN(series_avx512)
DEFINE_OWN(paired_avx512)
#endif

/* Where a CPU has no row of its own, OpenBLAS has most likely kernels for it: so im2col stands behind direct. */
static const struct kernel conv_rows[] = {
    {.name = "direct", ROW_OWN(direct)},
    {.name = "winograd-series", ROW_OWN(series), .gates = true},
    {.name = "im2col-batch", ROW(im2col_batch)},
    {.name = "winograd", ROW(winograd)},
    {.name = "im2col", ROW(im2col)},
    {.name = "matmul", ROW(matmul)},
#if defined __x86_64__
    {.name = "direct-avx2", ROW_OWN(direct_avx2)},
    {.name = "direct-avx512", ROW_OWN(direct_avx512)},
    {.name = "paired-avx512", ROW_OWN(paired_avx512)},
    {.name = "winograd-series-avx2", ROW_OWN(series_avx2), .gates = true},
    {.name = "winograd-series-avx512", ROW_OWN(series_avx512), .gates = true},
#endif
};

/* ---- depthwise */

static size_t places(const struct layer *l) {
  return (size_t)l->out.height * l->out.width;
}

static enum err depthwise_shape(struct layer *l, char why[MAX_REASON_BYTES]) {
  return window_shape(l, l->in.channels, why);
}

static int depthwise_text(const struct layer *l, char *out_text, size_t capacity) {
  int n = snprintf(out_text, capacity, "depthwise %" PRIu32 "x%" PRIu32, l->window.height, l->window.width);
  return window_text(l, n, 1, out_text, capacity);
}

static size_t depthwise_tensors(const struct layer *l, struct tensor out_tensors[MAX_LAYER_TENSORS]) {
  const uint32_t shape[] = {l->out.channels, l->window.height, l->window.width, 1};
  out_tensors[0] = layer_tensor(l, "weight", ROLE_SHARED, 4, shape);
  out_tensors[1] = layer_tensor(l, "bias", ROLE_SHARED, 1, &l->out.channels);
  return 2;
}

static void depthwise_init(const struct layer *l, struct rng *rng, float *out_w) {
  size_t n_weights = window_area(l) * l->out.channels;
  layer_init_uniform(l, (double)window_area(l), (double)window_area(l), rng, n_weights, out_w);
  memset(out_w + n_weights, 0, l->out.channels * sizeof *out_w);
}

static double depthwise_flops(const struct layer *l) {
  return 2.0 * (double)window_area(l) * l->n_out;
}

static void depthwise_forward(const struct layer *l, const struct pass *p) {
  const size_t channels = l->out.channels, area = window_area(l);
  for (size_t at = 0; at < p->n * places(l); at++) {
    const struct window_part part =
        window_at(l, (uint32_t)(at % places(l) / l->out.width), (uint32_t)(at % places(l) % l->out.width));
    const float *image = p->in + at / places(l) * l->n_in;
    float *out = p->out + at * channels;
    memcpy(out, p->w + area * channels, channels * sizeof *out);
    for (uint32_t i = part.top; i < part.bottom; i++)
      for (uint32_t j = part.left; j < part.right; j++) {
        const float *in = image + ((size_t)(part.y + i) * l->in.width + (size_t)(part.x + j)) * channels;
        for (size_t c = 0; c < channels; c++)
          out[c] += p->w[c * area + (size_t)i * l->window.width + j] * in[c];
      }
  }
}

static void depthwise_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  const size_t channels = l->out.channels, area = window_area(l);
  floats_scale(d->g, (area + 1) * channels, d->momentum);
  if (d->d_in)
    memset(d->d_in, 0, p->n * l->n_in * sizeof *d->d_in);
  for (size_t at = 0; at < p->n * places(l); at++) {
    const struct window_part part =
        window_at(l, (uint32_t)(at % places(l) / l->out.width), (uint32_t)(at % places(l) % l->out.width));
    const float *d_out = d->d_out + at * channels;
    for (size_t c = 0; c < channels; c++)
      d->g[area * channels + c] += d_out[c];
    for (uint32_t i = part.top; i < part.bottom; i++)
      for (uint32_t j = part.left; j < part.right; j++) {
        const size_t pixel = ((size_t)(part.y + i) * l->in.width + (size_t)(part.x + j)) * channels;
        const size_t in = at / places(l) * l->n_in + pixel, k = (size_t)i * l->window.width + j;
        for (size_t c = 0; c < channels; c++)
          d->g[c * area + k] += d_out[c] * p->in[in + c];
        for (size_t c = 0; d->d_in && c < channels; c++)
          d->d_in[in + c] += d_out[c] * p->w[c * area + k];
      }
  }
}

/* ---- the rows */

/* Eight channels at a time: models/kernels/depthwise.h. */
static size_t lanes_weights(const struct layer *l) {
  struct conv_shape s = shape_of(l);
  return depthwise_weights(&s);
}

static void lanes_load(const struct layer *l, const float *w, float *own) {
  struct conv_shape s = shape_of(l);
  depthwise_load(&s, w, own);
}

static void lanes_store(const struct layer *l, const float *own, float *w) {
  struct conv_shape s = shape_of(l);
  depthwise_store(&s, own, w);
}

#define DEFINE_DEPTHWISE(kernel)                                                                                       \
  static bool kernel##_fits(const struct layer *l, const struct cpu *cpu) {                                            \
    (void)l;                                                                                                           \
    return cpu_has(cpu, &depthwise_##kernel.needs);                                                                    \
  }                                                                                                                    \
  static void kernel##_forward(const struct layer *l, const struct pass *p) {                                          \
    struct conv_shape s = shape_of(l);                                                                                 \
    struct conv_batch b = batch_of(p);                                                                                 \
    depthwise_##kernel.forward(&s, &b);                                                                                \
  }                                                                                                                    \
  static void kernel##_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {               \
    struct conv_shape s = shape_of(l);                                                                                 \
    struct conv_batch b = batch_of(p);                                                                                 \
    struct conv_gradient g = gradient_of(d);                                                                           \
    depthwise_##kernel.backward(&s, &b, &g);                                                                           \
  }
#define ROW_DEPTHWISE(kernel)                                                                                          \
  .fits = kernel##_fits, .weights = lanes_weights, .load = lanes_load, .store = lanes_store,                           \
  .forward = kernel##_forward, .backward = kernel##_backward

DEFINE_DEPTHWISE(lanes)
#if defined __x86_64__
DEFINE_DEPTHWISE(avx2)
#endif

static const struct kernel depthwise_kernels[] = {
    {.name = "plain", .forward = depthwise_forward, .backward = depthwise_backward},
    {.name = "lanes", ROW_DEPTHWISE(lanes)},
#if defined __x86_64__
    {.name = "lanes-avx2", ROW_DEPTHWISE(avx2)},
#endif
};

const struct layer_type layer_conv = {
    .word = "conv",
    .usage = "conv HxWxC [stride S] [pad P]",
    .sentence = "convolution of images with C kernels of H rows and W columns; stride 1, no padding unless said",
    .stem = "conv",
    .words = {{NULL, "height, width and channels of its kernel, as in 3x3x16", window_read_sides_channels},
              {"stride", WINDOW_STRIDE, window_read_stride},
              {"pad", WINDOW_PAD, window_read_pad}},
    .shape = conv_shape,
    .text = conv_text,
    .tensors = conv_tensors,
    .init = conv_init,
    .flops = conv_flops,
    LAYER_KERNELS(conv_rows),
};

const struct layer_type layer_conv1d = {
    .word = "conv1d",
    .usage = "conv1d KxC [stride S] [pad P]",
    .sentence = "convolution along series with C kernels of K steps; stride 1, no padding unless said",
    .stem = "conv",
    .words = {{NULL, "steps and channels of its kernel, as in 5x64", conv1d_read},
              {"stride", WINDOW_STRIDE, window_read_stride},
              {"pad", WINDOW_PAD, window_read_pad}},
    .shape = conv1d_shape,
    .text = conv1d_text,
    .tensors = conv_tensors,
    .init = conv_init,
    .flops = conv_flops,
    LAYER_KERNELS(conv_rows),
};

const struct layer_type layer_depthwise = {
    .word = "depthwise",
    .usage = "depthwise HxW [stride S] [pad P]",
    .sentence = "depthwise convolution: a kernel of H rows and W columns for each channel",
    .stem = "depthwise",
    .words = {{NULL, "height and width of its kernel, as in 3x3", window_read_sides},
              {"stride", WINDOW_STRIDE, window_read_stride},
              {"pad", WINDOW_PAD, window_read_pad}},
    .shape = depthwise_shape,
    .text = depthwise_text,
    .tensors = depthwise_tensors,
    .init = depthwise_init,
    .flops = depthwise_flops,
    LAYER_KERNELS(depthwise_kernels),
};
