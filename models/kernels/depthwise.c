#include "models/kernels/depthwise.h"

#include "models/floats.h"
#include "models/kernels/lanes.h"

static size_t padded(const struct conv_shape *s) {
  return (s->c_in + LANES - 1) / LANES * LANES;
}

static size_t area(const struct conv_shape *s) {
  return s->kernel_height * s->kernel_width;
}

size_t depthwise_weights(const struct conv_shape *s) {
  return padded(s) * (area(s) + 1);
}

void depthwise_load(const struct conv_shape *s, const float *w, float *out_own) {
  memset(out_own, 0, depthwise_weights(s) * sizeof *out_own);
  for (size_t c = 0; c < s->c_in; c++) {
    for (size_t k = 0; k < area(s); k++)
      out_own[k * padded(s) + c] = w[c * area(s) + k];
    out_own[area(s) * padded(s) + c] = w[area(s) * s->c_in + c];
  }
}

void depthwise_store(const struct conv_shape *s, const float *own, float *out_w) {
  for (size_t c = 0; c < s->c_in; c++) {
    for (size_t k = 0; k < area(s); k++)
      out_w[c * area(s) + k] = own[k * padded(s) + c];
    out_w[area(s) * s->c_in + c] = own[area(s) * padded(s) + c];
  }
}

/* The taps first … last − 1 of output p that meet an input of one side. */
struct reach {
  size_t first, last;
};

static struct reach reach_of(size_t p, size_t n_taps, size_t stride, size_t pad, size_t n_in) {
  size_t at = p * stride, first = at < pad ? pad - at : 0, left = n_in + pad - at;
  return (struct reach){first, left < n_taps ? left : n_taps};
}

/* Eight channels of one output: `in` is where the input of tap (0, 0) would be, modulo 2^64. */
struct block {
  const struct conv_shape *s;
  struct reach high, wide;
  size_t n_channels; /* that are left of them */
  size_t in, out, w;
};

static INLINE size_t input_at(const struct block *b, size_t i, size_t j) {
  return b->in + (i * b->s->width + j) * b->s->c_in;
}

static INLINE size_t weight_at(const struct block *b, size_t i, size_t j) {
  return b->w + (i * b->s->kernel_width + j) * padded(b->s);
}

static INLINE void forward_block(const struct block *b, const float *x, const float *w, float *y) {
  lanes sum, weight, value;
  lanes_read(w + b->w + area(b->s) * padded(b->s), LANES, &sum);
  for (size_t i = b->high.first; i < b->high.last; i++)
    for (size_t j = b->wide.first; j < b->wide.last; j++) {
      lanes_read(w + weight_at(b, i, j), LANES, &weight);
      lanes_read(x + input_at(b, i, j), b->n_channels, &value);
      sum = sum + weight * value;
    }
  lanes_write(y + b->out, b->n_channels, &sum);
}

static INLINE void back_weights_block(const struct block *b, const float *x, const float *dy, float *g) {
  lanes d, sum, value;
  lanes_read(dy + b->out, b->n_channels, &d);
  for (size_t i = b->high.first; i < b->high.last; i++)
    for (size_t j = b->wide.first; j < b->wide.last; j++) {
      lanes_read(g + weight_at(b, i, j), LANES, &sum);
      lanes_read(x + input_at(b, i, j), b->n_channels, &value);
      sum = sum + d * value;
      lanes_write(g + weight_at(b, i, j), LANES, &sum);
    }
  float *bias = g + b->w + area(b->s) * padded(b->s);
  lanes_read(bias, LANES, &sum);
  sum = sum + d;
  lanes_write(bias, LANES, &sum);
}

static INLINE void back_inputs_block(const struct block *b, const float *w, const float *dy, float *dx) {
  lanes d, sum, weight;
  lanes_read(dy + b->out, b->n_channels, &d);
  for (size_t i = b->high.first; i < b->high.last; i++)
    for (size_t j = b->wide.first; j < b->wide.last; j++) {
      lanes_read(w + weight_at(b, i, j), LANES, &weight);
      lanes_read(dx + input_at(b, i, j), b->n_channels, &sum);
      sum = sum + d * weight;
      lanes_write(dx + input_at(b, i, j), b->n_channels, &sum);
    }
}

/* For each block of channels of each output of n samples, `b` being it. Whole ones apart, so that they are known to be. */
#define EACH_BLOCK(work)                                                                                               \
  struct block b = {.s = s};                                                                                           \
  for (size_t k = 0; k < n * s->out_height; k++) {                                                                     \
    size_t p = k % s->out_height;                                                                                      \
    b.high = reach_of(p, s->kernel_height, s->stride, s->pad_height, s->height);                                       \
    for (size_t q = 0; q < s->out_width; q++) {                                                                        \
      size_t row = k / s->out_height * s->height + p * s->stride - s->pad_height, c = 0;                               \
      b.wide = reach_of(q, s->kernel_width, s->stride, s->pad_width, s->width);                                        \
      b.in = (row * s->width + q * s->stride - s->pad_width) * s->c_in;                                                \
      b.out = (k * s->out_width + q) * s->c_in;                                                                        \
      for (b.w = 0; c + LANES <= s->c_in; c += LANES, b.in += LANES, b.out += LANES, b.w += LANES) {                   \
        b.n_channels = LANES;                                                                                          \
        work;                                                                                                          \
      }                                                                                                                \
      if (c < s->c_in) {                                                                                               \
        b.n_channels = s->c_in - c;                                                                                    \
        work;                                                                                                          \
      }                                                                                                                \
    }                                                                                                                  \
  }

static INLINE void forward_all(const struct conv_shape *s, const struct conv_batch *batch) {
  size_t n = batch->n;
  EACH_BLOCK(forward_block(&b, batch->x, batch->w, batch->y))
}

static INLINE void back_weights_all(const struct conv_shape *s, const struct conv_batch *batch,
                                    const struct conv_gradient *d) {
  size_t n = batch->n;
  floats_scale(d->g, depthwise_weights(s), d->momentum);
  EACH_BLOCK(back_weights_block(&b, batch->x, d->dy, d->g))
}

static INLINE void back_inputs_all(const struct conv_shape *s, const struct conv_batch *batch,
                                   const struct conv_gradient *d) {
  size_t n = batch->n;
  memset(d->dx, 0, n * s->height * s->width * s->c_in * sizeof *d->dx);
  EACH_BLOCK(back_inputs_block(&b, batch->w, d->dy, d->dx))
}

#define INSTANCE(name, target, ...)                                                                                    \
  target static void name##_forward(const struct conv_shape *s, const struct conv_batch *b) {                          \
    forward_all(s, b);                                                                                                 \
  }                                                                                                                    \
  target static void name##_backward(const struct conv_shape *s, const struct conv_batch *b,                           \
                                     const struct conv_gradient *d) {                                                  \
    back_weights_all(s, b, d);                                                                                         \
    if (d->dx)                                                                                                         \
      back_inputs_all(s, b, d);                                                                                        \
  }                                                                                                                    \
  const struct depthwise_kernel depthwise_##name = {                                                                   \
      .needs = {__VA_ARGS__}, .forward = name##_forward, .backward = name##_backward};

INSTANCE(lanes, , 0)
#if defined __x86_64__
INSTANCE(avx2, __attribute__((target("avx2,fma"))), .avx2 = true)
#endif
