#include "models/kernels/half.h"

#include <string.h>

#define HALF_MAX 65504.0f

static uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float bits_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* ---- portable */

/* Normal results: rebias the exponent by 127 − 15 and round the 13 surplus bits; a carry runs into the exponent, as it
 * should. Below 2^−14: adding 0.5 puts the value into a float whose last place is 2^−24, the last place of a half
 * denormal, so the addition itself rounds to nearest even. */
static uint16_t half_from_float(float x) {
  uint32_t bits = float_bits(x);
  uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x477fe000) /* 65504 */
    return sign | 0x7bff;
  if (magnitude < 0x38800000) /* 2^−14 */
    return (uint16_t)(sign | (float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000));
  uint32_t to_even = magnitude >> 13 & 1;
  return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + to_even) >> 13);
}

static float half_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t exponent = h >> 10 & 31, fraction = h & 0x3ff;
  if (exponent == 31)
    return bits_float(sign | 0x7f800000 | fraction << 13);
  if (exponent > 0)
    return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
  return bits_float(sign | float_bits((float)fraction * 0x1p-24f));
}

static void portable_from_floats(const float *x, size_t n, uint16_t *out_halves) {
  for (size_t i = 0; i < n; i++)
    out_halves[i] = half_from_float(x[i]);
}

static void portable_to_floats(const uint16_t *halves, size_t n, float *out_x) {
  for (size_t i = 0; i < n; i++)
    out_x[i] = half_to_float(halves[i]);
}

/* ---- x86: F16C, eight at a time */

#if defined __x86_64__
#include <immintrin.h>

__attribute__((target("avx,f16c"))) static void f16c_from_floats(const float *x, size_t n, uint16_t *out_halves) {
  const __m256 largest = _mm256_set1_ps(HALF_MAX), smallest = _mm256_set1_ps(-HALF_MAX);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 v = _mm256_max_ps(_mm256_min_ps(_mm256_loadu_ps(x + i), largest), smallest);
    _mm_storeu_si128((__m128i *)(void *)(out_halves + i), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  portable_from_floats(x + i, n - i, out_halves + i);
}

__attribute__((target("avx,f16c"))) static void f16c_to_floats(const uint16_t *halves, size_t n, float *out_x) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out_x + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(halves + i))));
  portable_to_floats(halves + i, n - i, out_x + i);
}
#endif

/* ---- arm64: four at a time */

#if defined __aarch64__
#include <arm_neon.h>

static void neon_from_floats(const float *x, size_t n, uint16_t *out_halves) {
  const float32x4_t largest = vdupq_n_f32(HALF_MAX), smallest = vdupq_n_f32(-HALF_MAX);
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    float32x4_t v = vmaxq_f32(vminq_f32(vld1q_f32(x + i), largest), smallest);
    vst1_u16(out_halves + i, vreinterpret_u16_f16(vcvt_f16_f32(v)));
  }
  portable_from_floats(x + i, n - i, out_halves + i);
}

static void neon_to_floats(const uint16_t *halves, size_t n, float *out_x) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4)
    vst1q_f32(out_x + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves + i))));
  portable_to_floats(halves + i, n - i, out_x + i);
}
#endif

static const struct half_kernel kernels[] = {
    {"portable", {0}, portable_from_floats, portable_to_floats},
#if defined __x86_64__
    {"f16c", {.f16c = true}, f16c_from_floats, f16c_to_floats},
#endif
#if defined __aarch64__
    {"neon", {.neon = true}, neon_from_floats, neon_to_floats},
#endif
};

const struct half_kernel *half_kernels(size_t *out_n) {
  *out_n = sizeof kernels / sizeof *kernels;
  return kernels;
}

const struct half_kernel *half_fastest(void) {
  const struct cpu cpu = cpu_detect();
  return &kernels[CPU_FASTEST(&cpu, kernels)];
}
