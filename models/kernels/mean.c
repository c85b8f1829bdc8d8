#include "models/kernels/mean.h"

#include <string.h>

#include "models/floats.h"

static bool sum_range(const float *x, const float *own, const struct mean_term *terms, size_t n_terms, size_t start,
                      size_t end, float *out) {
  for (size_t i = start; i < end; i++) {
    double sum = (double)x[i];
    for (size_t j = 0; j < n_terms; j++)
      sum += terms[j].weight * ((double)terms[j].values[i] - (double)own[i]);
    out[i] = (float)sum;
  }
  return floats_finite(out + start, end - start);
}

static bool plain_sum(const float *x, const float *own, const struct mean_term *terms, size_t n_terms, size_t n_values,
                      float *out) {
  return sum_range(x, own, terms, n_terms, 0, n_values, out);
}

#if defined __x86_64__
#include <immintrin.h>

#define NAME(x) avx2_##x
#define TARGET __attribute__((target("avx2")))
#define FLOATS __m128
#define DOUBLES __m256d
#define WIDEN(p) _mm256_cvtps_pd(_mm_loadu_ps(p))
#define NARROW _mm256_cvtpd_ps
#include "models/kernels/mean_body.h"

#define NAME(x) avx512_##x
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define FLOATS __m256
#define DOUBLES __m512d
#define WIDEN(p) _mm512_cvtps_pd(_mm256_loadu_ps(p))
#define NARROW _mm512_cvtpd_ps
#include "models/kernels/mean_body.h"
#endif

#if defined __aarch64__
#include <arm_neon.h>

#define NAME(x) neon_##x
#define TARGET
#define FLOATS float32x2_t
#define DOUBLES float64x2_t
#define WIDEN(p) vcvt_f64_f32(vld1_f32(p))
#define NARROW vcvt_f32_f64
#include "models/kernels/mean_body.h"
#endif

static const struct mean_kernel kernels[] = {
    {"plain", {0}, plain_sum},
#if defined __x86_64__
    {"avx2", {.avx2 = true}, avx2_sum},
    {"avx512", {.avx512 = true}, avx512_sum},
#endif
#if defined __aarch64__
    {"neon", {.neon = true}, neon_sum},
#endif
};

const struct mean_kernel *mean_kernels(size_t *out_n) {
  *out_n = sizeof kernels / sizeof *kernels;
  return kernels;
}

const struct mean_kernel *mean_fastest(void) {
  const struct cpu cpu = cpu_detect();
  return &kernels[CPU_FASTEST(&cpu, kernels)];
}
