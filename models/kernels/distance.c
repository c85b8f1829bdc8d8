#include "models/kernels/distance.h"

#include <string.h>

enum { LANES = 8 };

/* The lanes with what is left of the tile, then their sum in order. */
static double finish(const float *a, const float *b, size_t start, size_t n, float lanes[LANES]) {
  double sum = 0;
  for (size_t i = start; i < n; i++) {
    float d = a[i] - b[i];
    lanes[i % LANES] += d * d;
  }
  for (size_t k = 0; k < LANES; k++)
    sum += (double)lanes[k];
  return sum;
}

static double plain_tile(const float *a, const float *b, size_t n) {
  float lanes[LANES] = {0};
  return finish(a, b, 0, n, lanes);
}

#if defined __x86_64__
#include <immintrin.h>

__attribute__((target("avx2"))) static double avx2_tile(const float *a, const float *b, size_t n) {
  __m256 sum = _mm256_setzero_ps();
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    __m256 d = _mm256_sub_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i));
    sum = _mm256_add_ps(sum, _mm256_mul_ps(d, d));
  }
  float lanes[LANES];
  _mm256_storeu_ps(lanes, sum);
  return finish(a, b, i, n, lanes);
}
#endif

#if defined __aarch64__
#include <arm_neon.h>

static double neon_tile(const float *a, const float *b, size_t n) {
  float32x4_t low = vdupq_n_f32(0), high = low;
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    float32x4_t d = vsubq_f32(vld1q_f32(a + i), vld1q_f32(b + i)),
                e = vsubq_f32(vld1q_f32(a + i + 4), vld1q_f32(b + i + 4));
    low = vaddq_f32(low, vmulq_f32(d, d));
    high = vaddq_f32(high, vmulq_f32(e, e));
  }
  float lanes[LANES];
  vst1q_f32(lanes, low);
  vst1q_f32(lanes + 4, high);
  return finish(a, b, i, n, lanes);
}
#endif

static const struct distance_kernel kernels[] = {
    {"plain", {0}, plain_tile},
#if defined __x86_64__
    {"avx2", {.avx2 = true}, avx2_tile},
#endif
#if defined __aarch64__
    {"neon", {.neon = true}, neon_tile},
#endif
};

void distance_pairs(const struct distance_kernel *k, const float *const *x, size_t n, size_t n_values, double *out) {
  memset(out, 0, n * n * sizeof *out);
  for (size_t at = 0; at < n_values; at += DISTANCE_TILE) {
    size_t length = n_values - at < DISTANCE_TILE ? n_values - at : DISTANCE_TILE;
    for (size_t i = 0; i < n; i++)
      for (size_t j = i + 1; j < n; j++)
        out[i * n + j] += k->tile(x[i] + at, x[j] + at, length);
  }
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < i; j++)
      out[i * n + j] = out[j * n + i];
}

const struct distance_kernel *distance_kernels(size_t *out_n) {
  *out_n = sizeof kernels / sizeof *kernels;
  return kernels;
}

const struct distance_kernel *distance_fastest(void) {
  const struct cpu cpu = cpu_detect();
  size_t i = sizeof kernels / sizeof *kernels - 1;
  while (!cpu_has(&cpu, &kernels[i].needs))
    i--;
  return &kernels[i];
}
