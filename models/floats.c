#include "models/floats.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "models/kernels/cpu.h"

enum { LINE_BYTES = 64 };

float *floats_new(size_t n) {
  size_t n_bytes;
  if (!size_mul(n, sizeof(float), &n_bytes) || !size_add(n_bytes, LINE_BYTES, &n_bytes))
    return NULL;
  n_bytes -= n_bytes % LINE_BYTES;
  float *x = aligned_alloc(LINE_BYTES, n_bytes);
  if (x)
    memset(x, 0, n_bytes);
  return x;
}

void floats_draw(float *out_x, size_t n, double bound, struct rng *rng) {
  for (size_t i = 0; i < n; i++)
    out_x[i] = (float)(bound * (2 * rng_unit(rng) - 1));
}

/* By bits: comparing integers is what compilers turn into vector instructions. */
static inline uint32_t is_without_end(float x) {
  const uint32_t exponent = 0x7f800000;
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (bits & exponent) == exponent;
}

/* The loops below are compiled for the base of the architecture and for AVX2, with equal bits: nothing is fused, and each lane
 * is a sum of its own. */
#define EVERYWHERE static inline __attribute__((always_inline))
#if defined __x86_64__
#define TARGET __attribute__((target("avx2")))
#else
#define TARGET
#endif

EVERYWHERE bool finite_loop(const float *x, size_t n) {
  uint32_t found = 0;
  for (size_t i = 0; i < n; i++)
    found |= is_without_end(x[i]);
  return !found;
}

EVERYWHERE bool add_loop(const float *a, const float *b, size_t n, float *out) {
  uint32_t found = 0;
  for (size_t i = 0; i < n; i++) {
    float sum = a[i] + b[i];
    found |= is_without_end(sum);
    out[i] = sum;
  }
  return !found;
}

EVERYWHERE double distance_loop(const float *a, const float *b, size_t n) {
  enum { LANES = 8 };
  double lanes[LANES] = {0}, sum = 0;
  for (size_t i = 0; i + LANES <= n; i += LANES)
    for (size_t k = 0; k < LANES; k++) {
      double d = (double)a[i + k] - (double)b[i + k];
      lanes[k] += d * d;
    }
  for (size_t i = n - n % LANES; i < n; i++)
    lanes[i % LANES] += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
  for (size_t k = 0; k < LANES; k++)
    sum += lanes[k];
  return sqrt(sum);
}

TARGET static bool finite_avx2(const float *x, size_t n) {
  return finite_loop(x, n);
}

TARGET static bool add_avx2(const float *a, const float *b, size_t n, float *out) {
  return add_loop(a, b, n, out);
}

TARGET static double distance_avx2(const float *a, const float *b, size_t n) {
  return distance_loop(a, b, n);
}

bool floats_finite(const float *x, size_t n) {
  return cpu_detect().avx2 ? finite_avx2(x, n) : finite_loop(x, n);
}

bool floats_add(const float *a, const float *b, size_t n, float *out) {
  return cpu_detect().avx2 ? add_avx2(a, b, n, out) : add_loop(a, b, n, out);
}

double floats_distance(const float *a, const float *b, size_t n) {
  return cpu_detect().avx2 ? distance_avx2(a, b, n) : distance_loop(a, b, n);
}

void floats_scale(float *x, size_t n, float factor) {
  if (factor == 0)
    memset(x, 0, n * sizeof *x);
  else
    for (size_t i = 0; i < n; i++)
      x[i] *= factor;
}

double floats_square_sum(const float *x, size_t n) {
  enum { LANES = 8 };
  double lanes[LANES] = {0}, sum = 0;
  for (size_t i = 0; i + LANES <= n; i += LANES)
    for (size_t k = 0; k < LANES; k++)
      lanes[k] += (double)x[i + k] * (double)x[i + k];
  for (size_t i = n - n % LANES; i < n; i++)
    lanes[i % LANES] += (double)x[i] * (double)x[i];
  for (size_t k = 0; k < LANES; k++)
    sum += lanes[k];
  return sum;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void doubles_sort(double *x, size_t n) {
  qsort(x, n, sizeof *x, compare_doubles);
}

double doubles_median(double *x, size_t n) {
  if (n == 0)
    return 0;
  doubles_sort(x, n);
  return 0.5 * (x[(n - 1) / 2] + x[n / 2]);
}
