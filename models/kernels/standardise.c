#include "models/kernels/standardise.h"

/* A loop that compilers turn into vector instructions. */
__attribute__((always_inline)) static inline void each_byte(const uint8_t *restrict bytes, size_t n,
                                                            const double *restrict shift, const double *restrict gain,
                                                            float *restrict out_x) {
  for (size_t i = 0; i < n; i++)
    out_x[i] = (float)((bytes[i] - shift[i]) * gain[i]);
}

static void portable_bytes(const uint8_t *bytes, size_t n, const double *shift, const double *gain, float *out_x) {
  each_byte(bytes, n, shift, gain, out_x);
}

#if defined __x86_64__
#include <immintrin.h>

__attribute__((target("avx2"))) static void avx2_bytes(const uint8_t *bytes, size_t n, const double *shift,
                                                       const double *gain, float *out_x) {
  each_byte(bytes, n, shift, gain, out_x);
}

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) static void
avx512_bytes(const uint8_t *bytes, size_t n, const double *shift, const double *gain, float *out_x) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)(bytes + i));
    __m512d x = _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(eight));
    x = _mm512_mul_pd(_mm512_sub_pd(x, _mm512_loadu_pd(shift + i)), _mm512_loadu_pd(gain + i));
    _mm256_storeu_ps(out_x + i, _mm512_cvtpd_ps(x));
  }
  each_byte(bytes + i, n - i, shift + i, gain + i, out_x + i);
}
#endif

static const struct standardise kernels[] = {
    {"portable", {0}, portable_bytes},
#if defined __x86_64__
    {"avx2", {.avx2 = true}, avx2_bytes},
    {"avx512", {.avx512 = true}, avx512_bytes},
#endif
};

const struct standardise *standardise_kernels(size_t *out_n) {
  *out_n = sizeof kernels / sizeof *kernels;
  return kernels;
}

const struct standardise *standardise_fastest(const struct cpu *cpu) {
  return &kernels[CPU_FASTEST(cpu, kernels)];
}
