/* Normalisation: y = γ·x̂ + β with x̂ = (x − m)/√(v + ε), weight γ and bias β [channels], ε = 1e-5.
 *
 *   batchnorm    m, v of a channel over the batch and all positions; running values outside training (Ioffe & Szegedy 2015)
 *   groupnorm G  m, v of a sample's group of channels over all positions (Wu & He 2018)
 *   layernorm    m, v of a sample's channels, at each position apart (Ba, Kiros & Hinton 2016)
 *
 * v is the biased variance. Means and variances are summed in double, in two passes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/floats.h"
#include "models/net/layer.h"

static const float epsilon = 1e-5f;

static size_t positions_of(const struct layer *l) {
  return (size_t)l->in.height * l->in.width;
}

static float spread_inverse(double variance) {
  return (float)(1 / sqrt((variance < 0 ? 0 : variance) + (double)epsilon));
}

static size_t affine_tensors(const struct layer *l, struct tensor out_tensors[MAX_LAYER_TENSORS]) {
  out_tensors[0] = layer_tensor(l, "weight", ROLE_SHARED, 1, &l->in.channels);
  out_tensors[1] = layer_tensor(l, "bias", ROLE_SHARED, 1, &l->in.channels);
  return 2;
}

static void fill(float *x, size_t n, float value) {
  for (size_t i = 0; i < n; i++)
    x[i] = value;
}

static void affine_init(const struct layer *l, struct rng *rng, float *out_w) {
  (void)rng;
  fill(out_w, l->in.channels, 1);
  fill(out_w + l->in.channels, l->in.channels, 0);
}

static double norm_flops(const struct layer *l) {
  return 8.0 * l->n_in;
}

/* ---- batchnorm
 *
 * Running values move in each batch of training: r ← 0.9·r + 0.1·(m, or the unbiased variance v·k/(k − 1) of k values), as
 * PyTorch's do. A batch with a single value a channel has no variance: it is normalised with the running values, which then
 * stay, and its gradient takes them as constants.
 *
 * kept: m [channels], 1/√(v + ε) [channels], and whether they are the batch's own. */

static const float running_share = 0.1f;

static size_t batch_tensors(const struct layer *l, struct tensor out_tensors[MAX_LAYER_TENSORS]) {
  size_t n = affine_tensors(l, out_tensors);
  out_tensors[n++] = layer_tensor(l, "running_mean", ROLE_STATISTIC, 1, &l->in.channels);
  out_tensors[n++] = layer_tensor(l, "running_var", ROLE_STATISTIC, 1, &l->in.channels);
  return n;
}

static void batch_init(const struct layer *l, struct rng *rng, float *out_w) {
  affine_init(l, rng, out_w);
  size_t c = l->in.channels;
  fill(out_w + 2 * c, c, 0);
  fill(out_w + 3 * c, c, 1);
}

static size_t batch_kept(const struct layer *l) {
  return 2 * (size_t)l->in.channels + 1;
}

/* Two sums in double a channel. */
static size_t batch_scratch(const struct layer *l, size_t n) {
  (void)n;
  return 2 * (sizeof(double) / sizeof(float)) * l->in.channels;
}

/* Means, and sums of squared differences from them, of the channels of x [rows][c]. */
static void channel_moments(const float *x, size_t rows, size_t c, double *mean, double *squares) {
  memset(mean, 0, c * sizeof *mean);
  memset(squares, 0, c * sizeof *squares);
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < c; j++)
      mean[j] += (double)x[i * c + j];
  for (size_t j = 0; j < c; j++)
    mean[j] /= (double)rows;
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < c; j++) {
      double d = (double)x[i * c + j] - mean[j];
      squares[j] += d * d;
    }
}

static void take_batch_values(const struct layer *l, const struct pass *p, size_t rows) {
  size_t c = l->in.channels;
  double *mean = (double *)(void *)p->scratch, *squares = mean + c;
  float *running_mean = p->statistics, *running_var = p->statistics + c;
  channel_moments(p->in, rows, c, mean, squares);
  for (size_t j = 0; j < c; j++) {
    p->kept[j] = (float)mean[j];
    p->kept[c + j] = spread_inverse(squares[j] / (double)rows);
    float unbiased = (float)(squares[j] / (double)(rows - 1));
    running_mean[j] += running_share * ((float)mean[j] - running_mean[j]);
    running_var[j] += running_share * (unbiased - running_var[j]);
  }
}

static void take_running_values(const struct layer *l, const struct pass *p) {
  size_t c = l->in.channels;
  const float *running_mean = p->w + 2 * c, *running_var = p->w + 3 * c;
  for (size_t j = 0; j < c; j++) {
    p->kept[j] = running_mean[j];
    p->kept[c + j] = spread_inverse((double)running_var[j]);
  }
}

static void batch_forward(const struct layer *l, const struct pass *p) {
  size_t c = l->in.channels, rows = p->n * positions_of(l);
  bool own = p->statistics && rows > 1;
  if (own)
    take_batch_values(l, p, rows);
  else
    take_running_values(l, p);
  p->kept[2 * c] = own;
  const float *mean = p->kept, *inverse = p->kept + c, *weight = p->w, *bias = p->w + c;
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < c; j++)
      p->out[i * c + j] = (p->in[i * c + j] - mean[j]) * inverse[j] * weight[j] + bias[j];
}

/* ∂L/∂γ = Σ ∂L/∂y·x̂ and ∂L/∂β = Σ ∂L/∂y of each channel. */
static void channel_gradients(const struct layer *l, const struct pass *p, const float *d_out, double *d_weight,
                              double *d_bias) {
  size_t c = l->in.channels, rows = p->n * positions_of(l);
  const float *mean = p->kept, *inverse = p->kept + c;
  memset(d_weight, 0, c * sizeof *d_weight);
  memset(d_bias, 0, c * sizeof *d_bias);
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < c; j++) {
      double d = (double)d_out[i * c + j];
      d_bias[j] += d;
      d_weight[j] += d * (double)((p->in[i * c + j] - mean[j]) * inverse[j]);
    }
}

/* ∂L/∂x = γ/√(v + ε) · (∂L/∂y − (∂L/∂β + x̂·∂L/∂γ)/k); with running values the second term is not there. */
static void batch_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  size_t c = l->in.channels, rows = p->n * positions_of(l);
  double *d_weight = (double *)(void *)p->scratch, *d_bias = d_weight + c;
  channel_gradients(l, p, d->d_out, d_weight, d_bias);
  floats_scale(d->g, 2 * c, d->momentum);
  for (size_t j = 0; j < c; j++) {
    d->g[j] += (float)d_weight[j];
    d->g[c + j] += (float)d_bias[j];
  }
  if (!d->d_in)
    return;
  const float *mean = p->kept, *inverse = p->kept + c, *weight = p->w;
  double share = p->kept[2 * c] > 0 ? 1 / (double)rows : 0;
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < c; j++) {
      float normal = (p->in[i * c + j] - mean[j]) * inverse[j];
      float common = (float)(share * d_bias[j]) + normal * (float)(share * d_weight[j]);
      d->d_in[i * c + j] = weight[j] * inverse[j] * (d->d_out[i * c + j] - common);
    }
}

/* ---- groupnorm and layernorm: blocks of values that are normalised together. Layernorm is groupnorm with one group over
 * samples of one position. kept: m and 1/√(v + ε) of each block. */

struct blocks {
  size_t samples, positions, groups;
  size_t width;  /* channels of a group */
  size_t stride; /* channels of a position */
};

static struct blocks group_blocks(const struct layer *l, size_t n) {
  return (struct blocks){n, positions_of(l), l->groups, l->in.channels / l->groups, l->in.channels};
}

static struct blocks layer_blocks(const struct layer *l, size_t n) {
  return (struct blocks){n * positions_of(l), 1, 1, l->in.channels, l->in.channels};
}

/* Where block `group` of `sample` begins. */
static size_t block_at(const struct blocks *b, size_t sample, size_t group) {
  return sample * b->positions * b->stride + group * b->width;
}

static void block_moments(const struct blocks *b, const float *x, double *out_mean, double *out_variance) {
  double sum = 0, squares = 0, count = (double)(b->positions * b->width);
  for (size_t i = 0; i < b->positions; i++)
    for (size_t j = 0; j < b->width; j++)
      sum += (double)x[i * b->stride + j];
  double mean = sum / count;
  for (size_t i = 0; i < b->positions; i++)
    for (size_t j = 0; j < b->width; j++) {
      double d = (double)x[i * b->stride + j] - mean;
      squares += d * d;
    }
  *out_mean = mean;
  *out_variance = squares / count;
}

static void blocks_forward(const struct blocks *b, const struct pass *p) {
  for (size_t sample = 0; sample < b->samples; sample++)
    for (size_t group = 0; group < b->groups; group++) {
      size_t at = block_at(b, sample, group);
      const float *x = p->in + at, *weight = p->w + group * b->width, *bias = weight + b->stride;
      float *y = p->out + at, *kept = p->kept + 2 * (sample * b->groups + group);
      double exact_mean, variance;
      block_moments(b, x, &exact_mean, &variance);
      float mean = kept[0] = (float)exact_mean, inverse = kept[1] = spread_inverse(variance);
      for (size_t i = 0; i < b->positions; i++)
        for (size_t j = 0; j < b->width; j++)
          y[i * b->stride + j] = (x[i * b->stride + j] - mean) * inverse * weight[j] + bias[j];
    }
}

/* ∂L/∂x of one block: 1/√(v + ε) · (e − (Σ e + x̂·Σ e·x̂)/k) with e = γ·∂L/∂y over its k values. */
static void block_d_in(const struct blocks *b, const float *x, const float *weight, const float *kept,
                       const float *d_out, float *d_in) {
  double sum = 0, sum_normal = 0, count = (double)(b->positions * b->width);
  for (size_t i = 0; i < b->positions; i++)
    for (size_t j = 0; j < b->width; j++) {
      double e = (double)(weight[j] * d_out[i * b->stride + j]);
      sum += e;
      sum_normal += e * (double)((x[i * b->stride + j] - kept[0]) * kept[1]);
    }
  float mean = (float)(sum / count), mean_normal = (float)(sum_normal / count);
  for (size_t i = 0; i < b->positions; i++)
    for (size_t j = 0; j < b->width; j++) {
      float normal = (x[i * b->stride + j] - kept[0]) * kept[1];
      d_in[i * b->stride + j] = kept[1] * (weight[j] * d_out[i * b->stride + j] - mean - normal * mean_normal);
    }
}

static void block_d_affine(const struct blocks *b, const float *x, const float *kept, const float *d_out, float *g) {
  float *g_bias = g + b->stride;
  for (size_t i = 0; i < b->positions; i++)
    for (size_t j = 0; j < b->width; j++) {
      g[j] += d_out[i * b->stride + j] * ((x[i * b->stride + j] - kept[0]) * kept[1]);
      g_bias[j] += d_out[i * b->stride + j];
    }
}

static void blocks_backward(const struct blocks *b, const struct pass *p, const struct gradient *d) {
  floats_scale(d->g, 2 * b->stride, d->momentum);
  for (size_t sample = 0; sample < b->samples; sample++)
    for (size_t group = 0; group < b->groups; group++) {
      size_t at = block_at(b, sample, group);
      const float *kept = p->kept + 2 * (sample * b->groups + group);
      block_d_affine(b, p->in + at, kept, d->d_out + at, d->g + group * b->width);
      if (d->d_in)
        block_d_in(b, p->in + at, p->w + group * b->width, kept, d->d_out + at, d->d_in + at);
    }
}

static enum err read_groups(struct layer *l, const char *text, const struct contract *contract) {
  (void)contract;
  return layer_read_count(text, 1, MAX_PARAMETERS, &l->groups);
}

static enum err group_shape(struct layer *l, char why[MAX_REASON_BYTES]) {
  if (l->in.channels % l->groups != 0) {
    snprintf(why, MAX_REASON_BYTES, "%u channels are not %u groups of equal size", l->in.channels, l->groups);
    return ERR_RANGE;
  }
  return layer_shape_same(l, why);
}

static int group_text(const struct layer *l, char *out_text, size_t capacity) {
  return snprintf(out_text, capacity, "groupnorm %u", l->groups);
}

static size_t group_kept(const struct layer *l) {
  return 2 * (size_t)l->groups;
}

static void group_forward(const struct layer *l, const struct pass *p) {
  struct blocks b = group_blocks(l, p->n);
  blocks_forward(&b, p);
}

static void group_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  struct blocks b = group_blocks(l, p->n);
  blocks_backward(&b, p, d);
}

static size_t layer_kept(const struct layer *l) {
  return 2 * positions_of(l);
}

static void layer_forward(const struct layer *l, const struct pass *p) {
  struct blocks b = layer_blocks(l, p->n);
  blocks_forward(&b, p);
}

static void layer_backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  struct blocks b = layer_blocks(l, p->n);
  blocks_backward(&b, p, d);
}

/* ---- the rows */

static const struct kernel batch_kernel = {.name = "plain",
                                           .kept = batch_kept,
                                           .scratch = batch_scratch,
                                           .forward = batch_forward,
                                           .backward = batch_backward};
static const struct kernel group_kernel = {
    .name = "plain", .kept = group_kept, .forward = group_forward, .backward = group_backward};
static const struct kernel layer_kernel_plain = {
    .name = "plain", .kept = layer_kept, .forward = layer_forward, .backward = layer_backward};

const struct layer_type layer_batchnorm = {.word = "batchnorm",
                                           .sentence = "batch normalisation of each channel; outside training by "
                                                       "running mean and variance",
                                           .stem = "batchnorm",
                                           .transparent = true,
                                           .shape = layer_shape_same,
                                           .text = layer_text_word,
                                           .tensors = batch_tensors,
                                           .init = batch_init,
                                           .flops = norm_flops,
                                           .kernels = &batch_kernel,
                                           .n_kernels = 1};

const struct layer_type layer_groupnorm = {
    .word = "groupnorm",
    .usage = "groupnorm G",
    .sentence = "group normalisation: of G equal groups of channels, over all positions of a sample",
    .stem = "groupnorm",
    .words = {{NULL, "a number of groups that divides the channels", read_groups}},
    .transparent = true,
    .shape = group_shape,
    .text = group_text,
    .tensors = affine_tensors,
    .init = affine_init,
    .flops = norm_flops,
    .kernels = &group_kernel,
    .n_kernels = 1};

const struct layer_type layer_layernorm = {.word = "layernorm",
                                           .sentence = "layer normalisation: of the channels of each position",
                                           .stem = "layernorm",
                                           .transparent = true,
                                           .shape = layer_shape_same,
                                           .text = layer_text_word,
                                           .tensors = affine_tensors,
                                           .init = affine_init,
                                           .flops = norm_flops,
                                           .kernels = &layer_kernel_plain,
                                           .n_kernels = 1};
