/* Convolutions over NHWC images, and over series, which are images of one row (LeCun et al. 1998):
 *
 *   conv, conv1d   out[y][x][o] = b[o] + Σ_{i,j,c} w[o][i][j][c] · in[y·S + i − P][x·S + j − P][c]
 *   depthwise      out[y][x][c] = b[c] + Σ_{i,j}   w[c][i][j]    · in[y·S + i − P][x·S + j − P][c]
 *
 * with zeros where that is outside. Weights [c_out][kernel height][kernel width][c_in], behind them b [c_out]. */
#include <cblas.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

/* ---- conv, plain: each image's patches as rows of a matrix, and OpenBLAS */

static size_t places(const struct layer *l) {
  return (size_t)l->out.height * l->out.width;
}

/* The patches of one image and, backwards, their gradient: each [places][patch]. */
static size_t plain_scratch(const struct layer *l, size_t n) {
  (void)n;
  return 2 * places(l) * patch(l);
}

/* One place's patch of the image: copied from it, zeros outside. */
static void read_patch(const struct layer *l, uint32_t y, uint32_t x, const float *image, float *out_patch) {
  const size_t c = l->in.channels;
  const struct window_part part = window_at(l, y, x);
  memset(out_patch, 0, patch(l) * sizeof *out_patch);
  for (uint32_t i = part.top; i < part.bottom; i++)
    memcpy(out_patch + (i * l->window.width + part.left) * c,
           image + ((size_t)(part.y + i) * l->in.width + (size_t)(part.x + part.left)) * c,
           (part.right - part.left) * c * sizeof *image);
}

/* The other way: added to the image. */
static void add_patch(const struct layer *l, uint32_t y, uint32_t x, const float *patch_values, float *image) {
  const size_t c = l->in.channels;
  const struct window_part part = window_at(l, y, x);
  for (uint32_t i = part.top; i < part.bottom; i++) {
    const float *from = patch_values + (i * l->window.width + part.left) * c;
    float *to = image + ((size_t)(part.y + i) * l->in.width + (size_t)(part.x + part.left)) * c;
    for (size_t k = 0; k < (part.right - part.left) * c; k++)
      to[k] += from[k];
  }
}

static void read_patches(const struct layer *l, const float *image, float *out_patches) {
  for (uint32_t y = 0; y < l->out.height; y++)
    for (uint32_t x = 0; x < l->out.width; x++)
      read_patch(l, y, x, image, out_patches + ((size_t)y * l->out.width + x) * patch(l));
}

static void plain_forward(const struct layer *l, const struct pass *p) {
  const blasint m = (blasint)places(l), k = (blasint)patch(l), c = (blasint)l->out.channels;
  const float *bias = p->w + patch(l) * l->out.channels;
  for (size_t i = 0; i < p->n; i++) {
    float *out = p->out + i * l->n_out;
    read_patches(l, p->in + i * l->n_in, p->scratch);
    for (size_t at = 0; at < places(l); at++)
      memcpy(out + at * l->out.channels, bias, l->out.channels * sizeof *bias);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, c, k, 1, p->scratch, k, p->w, k, 1, out, c);
  }
}

static void plain_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  const blasint m = (blasint)places(l), k = (blasint)patch(l), c = (blasint)l->out.channels;
  float *g_bias = d->g + patch(l) * l->out.channels, *d_patches = p->scratch + places(l) * patch(l);
  cblas_sscal(c, d->momentum, g_bias, 1);
  for (size_t i = 0; i < p->n; i++) {
    const float *d_out = d->d_out + i * l->n_out;
    read_patches(l, p->in + i * l->n_in, p->scratch);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, c, k, m, 1, d_out, c, p->scratch, k, i > 0 ? 1 : d->momentum,
                d->g, k);
    for (size_t at = 0; at < places(l); at++)
      cblas_saxpy(c, 1, d_out + at * l->out.channels, 1, g_bias, 1);
    if (!d->d_in)
      continue;
    float *d_in = d->d_in + i * l->n_in;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, k, c, 1, d_out, c, p->w, k, 0, d_patches, k);
    memset(d_in, 0, l->n_in * sizeof *d_in);
    for (uint32_t y = 0; y < l->out.height; y++)
      for (uint32_t x = 0; x < l->out.width; x++)
        add_patch(l, y, x, d_patches + ((size_t)y * l->out.width + x) * patch(l), d_in);
  }
}

/* ---- depthwise */

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
          out[c] += p->w[c * area + i * l->window.width + j] * in[c];
      }
  }
}

static void depthwise_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  const size_t channels = l->out.channels, area = window_area(l);
  for (size_t k = 0; k < (area + 1) * channels; k++)
    d->g[k] *= d->momentum;
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
        const size_t in = at / places(l) * l->n_in + pixel, k = i * l->window.width + j;
        for (size_t c = 0; c < channels; c++)
          d->g[c * area + k] += d_out[c] * p->in[in + c];
        for (size_t c = 0; d->d_in && c < channels; c++)
          d->d_in[in + c] += d_out[c] * p->w[c * area + k];
      }
  }
}

/* ---- the rows */

static const struct kernel conv_kernels[] = {
    {.name = "plain", .scratch = plain_scratch, .forward = plain_forward, .backward = plain_backward},
};

static const struct kernel depthwise_kernels[] = {
    {.name = "plain", .forward = depthwise_forward, .backward = depthwise_backward},
};

#define KERNELS(rows) .kernels = (rows), .n_kernels = sizeof(rows) / sizeof *(rows)

const struct layer_type layer_conv = {
    .word = "conv",
    .stem = "conv",
    .words = {{NULL, "height, width and channels of its kernel, as in 3x3x16", window_read_sides_channels},
              {"stride", WINDOW_STRIDE, window_read_stride},
              {"pad", WINDOW_PAD, window_read_pad}},
    .shape = conv_shape,
    .text = conv_text,
    .tensors = conv_tensors,
    .init = conv_init,
    .flops = conv_flops,
    KERNELS(conv_kernels),
};

const struct layer_type layer_conv1d = {
    .word = "conv1d",
    .stem = "conv",
    .words = {{NULL, "steps and channels of its kernel, as in 5x64", conv1d_read},
              {"stride", WINDOW_STRIDE, window_read_stride},
              {"pad", WINDOW_PAD, window_read_pad}},
    .shape = conv1d_shape,
    .text = conv1d_text,
    .tensors = conv_tensors,
    .init = conv_init,
    .flops = conv_flops,
    KERNELS(conv_kernels),
};

const struct layer_type layer_depthwise = {
    .word = "depthwise",
    .stem = "depthwise",
    .words = {{NULL, "height and width of its kernel, as in 3x3", window_read_sides},
              {"stride", WINDOW_STRIDE, window_read_stride},
              {"pad", WINDOW_PAD, window_read_pad}},
    .shape = depthwise_shape,
    .text = depthwise_text,
    .tensors = depthwise_tensors,
    .init = depthwise_init,
    .flops = depthwise_flops,
    KERNELS(depthwise_kernels),
};
