#include "models/kernels/distance.h"

#include <string.h>

enum { LANES = 32 };

/* The lanes with what is left of the tile; then the upper half onto the lower one until one is left. */
static double finish(const float *a, const float *b, size_t start, size_t n, float lanes[LANES]) {
  for (size_t i = start; i < n; i++) {
    float d = a[i] - b[i];
    lanes[i % LANES] += d * d;
  }
  for (size_t half = LANES / 2; half > 0; half /= 2)
    for (size_t k = 0; k < half; k++)
      lanes[k] += lanes[half + k];
  return (double)lanes[0];
}

static double plain_tile(const float *a, const float *b, size_t n) {
  float lanes[LANES] = {0};
  return finish(a, b, 0, n, lanes);
}

/* Four vectors of AVX2 at a time, or as many values of another set, hide what an addition waits for. */
#define TILE(name, target, vector, read)                                                                               \
  target static double name##_tile(const float *a, const float *b, size_t n) {                                         \
    enum { WIDTH = sizeof(vector) / sizeof(float) };                                                                   \
    vector sums[LANES / WIDTH] = {0};                                                                                  \
    size_t i = 0;                                                                                                      \
    for (; i + LANES <= n; i += LANES)                                                                                 \
      for (size_t k = 0; k < LANES / WIDTH; k++) {                                                                     \
        vector d = read(a + i + WIDTH * k) - read(b + i + WIDTH * k);                                                  \
        sums[k] += d * d;                                                                                              \
      }                                                                                                                \
    float lanes[LANES];                                                                                                \
    memcpy(lanes, sums, sizeof lanes);                                                                                 \
    return finish(a, b, i, n, lanes);                                                                                  \
  }

#if defined __x86_64__
#include <immintrin.h>
TILE(avx2, __attribute__((target("avx2"))), __m256, _mm256_loadu_ps)
TILE(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), __m512, _mm512_loadu_ps)
#endif

#if defined __aarch64__
#include <arm_neon.h>
TILE(neon, , float32x4_t, vld1q_f32)
#endif

static const struct distance_kernel kernels[] = {
    {"plain", {0}, plain_tile},
#if defined __x86_64__
    {"avx2", {.avx2 = true}, avx2_tile},
    {"avx512", {.avx512 = true}, avx512_tile},
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
  return &kernels[CPU_FASTEST(&cpu, kernels)];
}
