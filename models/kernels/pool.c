#include "models/kernels/pool.h"

#include <stdbool.h>

#include "models/kernels/lanes.h"

/* Eight channels of one window. */
struct block {
  const struct pool_shape *s;
  size_t n_channels; /* that are left of them */
  size_t in, out;    /* where the window's first value and its result are */
};

static INLINE size_t value_at(const struct block *b, size_t i, size_t j) {
  return b->in + (i * b->s->width + j) * b->s->channels;
}

static INLINE void largest_block(const struct block *b, size_t height, size_t width, const float *x, float *y,
                                 float *which) {
  lanes held, value, best = {0};
  lanes_read(x + value_at(b, 0, 0), b->n_channels, &held);
  for (size_t i = 0; i < height; i++)
    for (size_t j = 0; j < width; j++) {
      lanes place = (lanes){0} + (float)(i * width + j);
      lanes_read(x + value_at(b, i, j), b->n_channels, &value);
      lane_mask more = ~(value <= held) & (held == held); // NOLINT(misc-redundant-expression): false where it is NaN
      lanes_choose(&more, &value, &held);
      lanes_choose(&more, &place, &best);
    }
  lanes_write(y + b->out, b->n_channels, &held);
  lanes_write(which + b->out, b->n_channels, &best);
}

/* Where windows overlap, what is there is added to; elsewhere it need not have been written. */
static INLINE void largest_back_block(const struct block *b, size_t height, size_t width, bool adds, const float *dy,
                                      const float *which, float *dx) {
  lanes d, best;
  lanes_read(dy + b->out, b->n_channels, &d);
  lanes_read(which + b->out, b->n_channels, &best);
  for (size_t i = 0; i < height; i++)
    for (size_t j = 0; j < width; j++) {
      lanes value = {0}, old;
      lane_mask here = best == (float)(i * width + j);
      lanes_choose(&here, &d, &value);
      if (adds) {
        lanes_read(dx + value_at(b, i, j), b->n_channels, &old);
        value = value + old;
      }
      lanes_write(dx + value_at(b, i, j), b->n_channels, &value);
    }
}

static INLINE void mean_block(const struct block *b, const float *x, float *y) {
  lanes sum = {0}, value;
  for (size_t i = 0; i < b->s->window_height; i++)
    for (size_t j = 0; j < b->s->window_width; j++) {
      lanes_read(x + value_at(b, i, j), b->n_channels, &value);
      sum = sum + value;
    }
  sum = sum * (1 / (float)(b->s->window_height * b->s->window_width));
  lanes_write(y + b->out, b->n_channels, &sum);
}

static INLINE void mean_back_block(const struct block *b, bool adds, const float *dy, float *dx) {
  lanes d, old;
  lanes_read(dy + b->out, b->n_channels, &d);
  d = d * (1 / (float)(b->s->window_height * b->s->window_width));
  for (size_t i = 0; i < b->s->window_height; i++)
    for (size_t j = 0; j < b->s->window_width; j++) {
      lanes value = d;
      if (adds) {
        lanes_read(dx + value_at(b, i, j), b->n_channels, &old);
        value = d + old;
      }
      lanes_write(dx + value_at(b, i, j), b->n_channels, &value);
    }
}

static INLINE bool is_two_by_two(const struct pool_shape *s) {
  return s->window_height == 2 && s->window_width == 2;
}

/* Whether each input is in exactly one window. */
static INLINE bool tiles(const struct pool_shape *s) {
  return s->window_height * s->out_height == s->height && s->window_width * s->out_width == s->width &&
         (s->stride == s->window_height || s->out_height == 1) && (s->stride == s->window_width || s->out_width == 1);
}

#define EACH_IN_ROW(n_left, work)                                                                                      \
  b.n_channels = (n_left);                                                                                             \
  for (size_t q = 0; q < shape.out_width; q++, b.in += shape.stride * shape.channels, b.out += shape.channels) {       \
    work;                                                                                                              \
  }

/* For each block of channels of each window of n samples, `b` being it. Whole ones apart, so that they are known to be. The
 * shape is copied, since as far as the compiler knows what is written might be part of it. */
#define EACH_BLOCK(work)                                                                                               \
  const struct pool_shape shape = *s;                                                                                  \
  struct block b = {.s = &shape};                                                                                      \
  for (size_t k = 0; k < n * shape.out_height; k++) {                                                                  \
    size_t row = k / shape.out_height * shape.height + k % shape.out_height * shape.stride;                            \
    for (size_t c = 0; c < shape.channels; c += LANES) {                                                               \
      b.in = row * shape.width * shape.channels + c;                                                                   \
      b.out = k * shape.out_width * shape.channels + c;                                                                \
      if (c + LANES <= shape.channels) {                                                                               \
        EACH_IN_ROW(LANES, work)                                                                                       \
      } else {                                                                                                         \
        EACH_IN_ROW(shape.channels - c, work)                                                                          \
      }                                                                                                                \
    }                                                                                                                  \
  }

static INLINE void largest_all(const struct pool_shape *s, size_t n, const float *x, float *y, float *which) {
  if (is_two_by_two(s)) {
    EACH_BLOCK(largest_block(&b, 2, 2, x, y, which))
  } else {
    EACH_BLOCK(largest_block(&b, s->window_height, s->window_width, x, y, which))
  }
}

static INLINE void largest_back_all(const struct pool_shape *s, size_t n, const float *dy, const float *which,
                                    float *dx) {
  bool adds = !tiles(s);
  if (adds)
    memset(dx, 0, n * s->height * s->width * s->channels * sizeof *dx);
  if (is_two_by_two(s) && !adds) {
    EACH_BLOCK(largest_back_block(&b, 2, 2, false, dy, which, dx))
  } else {
    EACH_BLOCK(largest_back_block(&b, s->window_height, s->window_width, adds, dy, which, dx))
  }
}

static INLINE void mean_all(const struct pool_shape *s, size_t n, const float *x, float *y) {
  EACH_BLOCK(mean_block(&b, x, y))
}

static INLINE void mean_back_all(const struct pool_shape *s, size_t n, const float *dy, float *dx) {
  bool adds = !tiles(s);
  if (adds)
    memset(dx, 0, n * s->height * s->width * s->channels * sizeof *dx);
  EACH_BLOCK(mean_back_block(&b, adds, dy, dx))
}

#define INSTANCE(name, target, all_largest, ...)                                                                       \
  target static void name##_largest(const struct pool_shape *s, size_t n, const float *x, float *y, float *which) {    \
    all_largest(s, n, x, y, which);                                                                                    \
  }                                                                                                                    \
  target static void name##_largest_back(const struct pool_shape *s, size_t n, const float *dy, const float *which,    \
                                         float *dx) {                                                                  \
    largest_back_all(s, n, dy, which, dx);                                                                             \
  }                                                                                                                    \
  target static void name##_mean(const struct pool_shape *s, size_t n, const float *x, float *y) {                     \
    mean_all(s, n, x, y);                                                                                              \
  }                                                                                                                    \
  target static void name##_mean_back(const struct pool_shape *s, size_t n, const float *dy, float *dx) {              \
    mean_back_all(s, n, dy, dx);                                                                                       \
  }                                                                                                                    \
  const struct pool_kernel pool_##name = {.needs = {__VA_ARGS__},                                                      \
                                          .largest = name##_largest,                                                   \
                                          .largest_back = name##_largest_back,                                         \
                                          .mean = name##_mean,                                                         \
                                          .mean_back = name##_mean_back};

INSTANCE(lanes, , largest_all, 0)
#if defined __x86_64__
#include <immintrin.h>

INSTANCE(avx2, __attribute__((target("avx2,fma"))), largest_all, .avx2 = true)

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

/* One more value of a window, as in largest_block. */
INLINE AVX512 static void avx512_judge(const float *x, __m256 place, __m256 *held, __m256 *best) {
  __m256 value = _mm256_loadu_ps(x);
  __mmask8 number = _mm256_cmp_ps_mask(*held, *held, _CMP_ORD_Q);
  __mmask8 more = _mm256_mask_cmp_ps_mask(number, value, *held, _CMP_NLE_UQ);
  *held = _mm256_mask_mov_ps(*held, more, value);
  *best = _mm256_mask_mov_ps(*best, more, place);
}

AVX512 static void avx512_largest_pairs(const struct pool_shape *s, size_t n, const float *x, float *y, float *which) {
  const __m256 second = _mm256_set1_ps(1), third = _mm256_set1_ps(2), fourth = _mm256_set1_ps(3);
  const size_t channels = s->channels, row = s->width * channels, right = s->stride * channels, width = s->out_width;
  for (size_t k = 0; k < n * s->out_height; k++)
    for (size_t c = 0; c < channels; c += LANES) {
      const float *from = x + (k / s->out_height * s->height + k % s->out_height * s->stride) * row + c;
      float *to = y + k * width * channels + c, *to_which = which + k * width * channels + c;
      for (size_t q = 0; q < width; q++, from += right, to += channels, to_which += channels) {
        __m256 held = _mm256_loadu_ps(from), best = _mm256_setzero_ps();
        avx512_judge(from + channels, second, &held, &best);
        avx512_judge(from + row, third, &held, &best);
        avx512_judge(from + row + channels, fourth, &held, &best);
        _mm256_storeu_ps(to, held);
        _mm256_storeu_ps(to_which, best);
      }
    }
}

INLINE AVX512 static void avx512_largest_all(const struct pool_shape *s, size_t n, const float *x, float *y,
                                             float *which) {
  if (is_two_by_two(s) && s->channels % LANES == 0)
    avx512_largest_pairs(s, n, x, y, which);
  else
    largest_all(s, n, x, y, which);
}

INSTANCE(avx512, AVX512, avx512_largest_all, .avx2 = true, .avx512 = true)
#endif
