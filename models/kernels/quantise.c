#include "models/kernels/quantise.h"

#include <float.h>
#include <string.h>

#include "base/must.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Magnitudes of floats order as their bits do. */
ALWAYS_INLINE float largest_magnitude(const float *x, size_t n) {
  uint32_t largest = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    bits &= 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  float x_max;
  memcpy(&x_max, &largest, sizeof x_max);
  return x_max;
}

/* 24 bits of a permutation of h (lowbias32, Wellons 2018). */
ALWAYS_INLINE int32_t noise(uint32_t h) {
  h ^= h >> 16;
  h *= 0x7feb352dU;
  h ^= h >> 15;
  h *= 0x846ca68bU;
  h ^= h >> 16;
  return (int32_t)(h >> 8);
}

/* limit + 1 is added, so that cutting off rounds down; a last bit too many is cut back. */
ALWAYS_INLINE float quantise_body(const float *restrict x, size_t n, int limit, uint64_t seed, uint32_t place,
                                  int8_t *restrict out_q) {
  MUST(n <= QUANTISE_BLOCK && limit >= 1 && limit <= 127);
  float largest = largest_magnitude(x, n), scale = largest / (float)limit;
  if (scale < FLT_MIN) {
    memset(out_q, 0, n);
    return 0;
  }
  const float inverse = (float)limit / largest, up = (float)(limit + 1);
  const uint32_t first = place + (uint32_t)seed, key = (uint32_t)(seed >> 32);
  for (size_t i = 0; i < n; i++) {
    float u = 0x1p-24f * (float)noise((first + (uint32_t)i) ^ key);
    int q = (int)(x[i] * inverse + u + up) - (limit + 1);
    q = q < -limit ? -limit : q;
    out_q[i] = (int8_t)(q > limit ? limit : q);
  }
  return scale;
}

ALWAYS_INLINE void restore_body(const int8_t *restrict q, size_t n, float scale, float *restrict out_x) {
  for (size_t i = 0; i < n; i++)
    out_x[i] = scale * (float)q[i];
}

#define DEFINE_KERNEL(isa, ...)                                                                                        \
  __VA_ARGS__ static float isa##_quantise(const float *x, size_t n, int limit, uint64_t seed, uint32_t place,          \
                                          int8_t *out_q) {                                                             \
    return quantise_body(x, n, limit, seed, place, out_q);                                                             \
  }                                                                                                                    \
  __VA_ARGS__ static void isa##_restore(const int8_t *q, size_t n, float scale, float *out_x) {                        \
    restore_body(q, n, scale, out_x);                                                                                  \
  }

DEFINE_KERNEL(plain, )
#if defined __x86_64__
DEFINE_KERNEL(avx2, __attribute__((target("avx2"))))
DEFINE_KERNEL(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
#endif

static const struct quantise_kernel kernels[] = {
    {"plain", {0}, plain_quantise, plain_restore}, /* NEON where that is the base */
#if defined __x86_64__
    {"avx2", {.avx2 = true}, avx2_quantise, avx2_restore},
    {"avx512", {.avx512 = true}, avx512_quantise, avx512_restore},
#endif
};

const struct quantise_kernel *quantise_kernels(size_t *out_n) {
  *out_n = sizeof kernels / sizeof *kernels;
  return kernels;
}

const struct quantise_kernel *quantise_fastest(void) {
  const struct cpu cpu = cpu_detect();
  return &kernels[CPU_FASTEST(&cpu, kernels)];
}
