#include "models/kernels/select.h"

void select_count(const float *x, size_t n, uint32_t histogram[SELECT_BINS]) {
  for (size_t i = 0; i < n; i++)
    histogram[select_bits(x[i]) >> SELECT_SHIFT]++;
}

void select_bound(const uint32_t histogram[SELECT_BINS], uint32_t wanted, uint32_t *out_bin, uint32_t *out_of_bin) {
  uint32_t bin = SELECT_BINS - 1;
  for (; bin > 1 && histogram[bin] < wanted; bin--)
    wanted -= histogram[bin];
  *out_bin = bin;
  *out_of_bin = histogram[bin] < wanted ? histogram[bin] : wanted;
}

/* Without a branch: a place is always written and counts when it is one. */
static size_t find_range(const float *x, size_t start, size_t end, uint32_t least, uint16_t *out_places, size_t n) {
  for (size_t i = start; i < end; i++) {
    out_places[n] = (uint16_t)i;
    n += select_bits(x[i]) >= least;
  }
  return n;
}

static size_t plain_find(const float *x, size_t n, uint32_t least, uint16_t *out_places) {
  return find_range(x, 0, n, least, out_places, 0);
}

#if defined __x86_64__
#include <immintrin.h>

__attribute__((target("avx2"))) static size_t avx2_find(const float *x, size_t n, uint32_t least,
                                                        uint16_t *out_places) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff), below = _mm256_set1_epi32((int32_t)(least - 1));
  size_t found = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256i bits = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)(x + i)), magnitude);
    unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(bits, below)));
    for (; mask; mask &= mask - 1)
      out_places[found++] = (uint16_t)(i + (unsigned)__builtin_ctz(mask));
  }
  return find_range(x, i, n, least, out_places, found);
}
#endif

static const struct select_kernel kernels[] = {
    {"plain", {0}, plain_find},
#if defined __x86_64__
    {"avx2", {.avx2 = true}, avx2_find},
#endif
};

const struct select_kernel *select_kernels(size_t *out_n) {
  *out_n = sizeof kernels / sizeof *kernels;
  return kernels;
}

const struct select_kernel *select_fastest(void) {
  const struct cpu cpu = cpu_detect();
  return &kernels[CPU_FASTEST(&cpu, kernels)];
}
