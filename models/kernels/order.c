#include "models/kernels/order.h"

#include <string.h>

#include "base/limits.h"
#include "base/must.h"

/* ---- plain: one coordinate after the other, however many arrays there are */

/* Shell 1959, gaps of Ciura 2001. */
static void sort_column(float *v, size_t n) {
  static const size_t gaps[] = {57, 23, 10, 4, 1};
  for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
    for (size_t i = gaps[g]; i < n; i++) {
      float value = v[i];
      size_t j = i;
      for (; j >= gaps[g] && v[j - gaps[g]] > value; j -= gaps[g])
        v[j] = v[j - gaps[g]];
      v[j] = value;
    }
}

static void load_sorted(const float *const *x, size_t n, size_t i, float v[MAX_PEERS + 1]) {
  for (size_t k = 0; k < n; k++)
    v[k] = x[k][i];
  sort_column(v, n);
}

static void median_range(const float *const *x, size_t n, size_t start, size_t end, float *out) {
  float v[MAX_PEERS + 1];
  MUST(n >= 1 && n <= MAX_PEERS + 1);
  for (size_t i = start; i < end; i++) {
    load_sorted(x, n, i, v);
    out[i] = n % 2 ? v[n / 2] : 0.5f * v[n / 2 - 1] + 0.5f * v[n / 2];
  }
}

static void trimmed_range(const float *const *x, size_t n, size_t f, size_t start, size_t end, float *out) {
  float v[MAX_PEERS + 1];
  MUST(n >= 1 && n <= MAX_PEERS + 1 && 2 * f < n);
  const double share = 1.0 / (double)(n - 2 * f);
  for (size_t i = start; i < end; i++) {
    double sum = 0;
    load_sorted(x, n, i, v);
    for (size_t k = f; k < n - f; k++)
      sum += (double)v[k];
    out[i] = (float)(share * sum);
  }
}

static void plain_median(const float *const *x, size_t n, size_t n_values, float *out) {
  median_range(x, n, 0, n_values, out);
}

static void plain_trimmed(const float *const *x, size_t n, size_t n_values, size_t f, float *out) {
  trimmed_range(x, n, f, 0, n_values, out);
}

/* ---- networks: as many coordinates at a time as a vector has lanes */

/* Merge exchange of 16. Those of its comparators that are among the first n sort n. */
/* clang-format off */
#define NETWORK(C)                                                                                                     \
  C(0, 8) C(1, 9) C(2, 10) C(3, 11) C(4, 12) C(5, 13) C(6, 14) C(7, 15)                                                \
  C(0, 4) C(1, 5) C(2, 6) C(3, 7) C(8, 12) C(9, 13) C(10, 14) C(11, 15)                                                \
  C(4, 8) C(5, 9) C(6, 10) C(7, 11)                                                                                    \
  C(0, 2) C(1, 3) C(4, 6) C(5, 7) C(8, 10) C(9, 11) C(12, 14) C(13, 15)                                                \
  C(2, 8) C(3, 9) C(6, 12) C(7, 13)                                                                                    \
  C(2, 4) C(3, 5) C(6, 8) C(7, 9) C(10, 12) C(11, 13)                                                                  \
  C(0, 1) C(2, 3) C(4, 5) C(6, 7) C(8, 9) C(10, 11) C(12, 13) C(14, 15)                                                \
  C(1, 8) C(3, 10) C(5, 12) C(7, 14)                                                                                   \
  C(1, 4) C(3, 6) C(5, 8) C(7, 10) C(9, 12) C(11, 14)                                                                  \
  C(1, 2) C(3, 4) C(5, 6) C(7, 8) C(9, 10) C(11, 12) C(13, 14)
/* clang-format on */

#define WIRES(W) W(0) W(1) W(2) W(3) W(4) W(5) W(6) W(7) W(8) W(9) W(10) W(11) W(12) W(13) W(14) W(15)
#define COUNTS(W) W(1) W(2) W(3) W(4) W(5) W(6) W(7) W(8) W(9) W(10) W(11) W(12) W(13) W(14) W(15) W(16)

#define LOAD(k)                                                                                                        \
  if ((k) < n)                                                                                                         \
    memcpy(&v[k], x[k] + i, sizeof *v);

/* With a NaN minps and maxps return their second argument, so the two swap and neither is lost. */
#define EXCHANGE(a, b)                                                                                                 \
  if ((b) < n) {                                                                                                       \
    lower = MIN(v[a], v[b]);                                                                                           \
    v[b] = MAX(v[b], v[a]);                                                                                            \
    v[a] = lower;                                                                                                      \
  }

#define ADD_KEPT(k)                                                                                                    \
  if ((k) < n && (k) >= f && (k) < n - f)                                                                              \
    sum += __builtin_convertvector(v[k], NAME(doubles));

#define CASE_MEDIAN(k)                                                                                                 \
  case k:                                                                                                              \
    done = NAME(median_body)(x, k, n_values, out);                                                                     \
    break;

#define CASE_TRIMMED(k)                                                                                                \
  case k:                                                                                                              \
    done = NAME(trimmed_body)(x, k, n_values, f, out);                                                                 \
    break;

#if defined __x86_64__
#include <immintrin.h>

#define NAME(x) avx2_##x
#define TARGET __attribute__((target("avx2")))
#define VECTOR __m256
#define MIN _mm256_min_ps
#define MAX _mm256_max_ps
#include "models/kernels/order_body.h"

#define NAME(x) avx512_##x
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define VECTOR __m512
#define MIN _mm512_min_ps
#define MAX _mm512_max_ps
#include "models/kernels/order_body.h"
#endif

#if defined __aarch64__
#include <arm_neon.h>

#define NAME(x) neon_##x
#define TARGET
#define VECTOR float32x4_t
#define MIN vminq_f32
#define MAX vmaxq_f32
#include "models/kernels/order_body.h"
#endif

static const struct order_kernel kernels[] = {
    {"plain", {0}, plain_median, plain_trimmed},
#if defined __x86_64__
    {"avx2", {.avx2 = true}, avx2_median, avx2_trimmed},
    {"avx512", {.avx512 = true}, avx512_median, avx512_trimmed},
#endif
#if defined __aarch64__
    {"neon", {.neon = true}, neon_median, neon_trimmed},
#endif
};

const struct order_kernel *order_kernels(size_t *out_n) {
  *out_n = sizeof kernels / sizeof *kernels;
  return kernels;
}

const struct order_kernel *order_fastest(void) {
  const struct cpu cpu = cpu_detect();
  return &kernels[CPU_FASTEST(&cpu, kernels)];
}
