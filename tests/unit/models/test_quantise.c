/* Quantisation: every kernel has the same bits, and the magnitudes stay within the limit. */
#include "models/kernels/quantise.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

static const struct quantise_kernel *kernel_at(size_t i) {
  size_t n;
  const struct quantise_kernel *k = quantise_kernels(&n);
  struct cpu cpu = cpu_detect();
  ck_assert(cpu_has(&cpu, &quantise_fastest()->needs));
  return i < n && cpu_has(&cpu, &k[i].needs) ? &k[i] : NULL;
}

START_TEST(kernels_agree) {
  const struct quantise_kernel *k;
  struct rng rng;
  rng_init(&rng, 6);
  for (size_t n = 0; n <= QUANTISE_BLOCK; n += n < 40 ? 1 : 27)
    for (int limit = 1; limit <= 127; limit += 42) {
      float x[QUANTISE_BLOCK], scale = 0, restored[QUANTISE_BLOCK], restored_too[QUANTISE_BLOCK];
      int8_t q[QUANTISE_BLOCK], q_too[QUANTISE_BLOCK];
      uint64_t seed = rng_u64(&rng);
      uint32_t place = (uint32_t)rng_u64(&rng);
      double size = pow(10, (double)rng_below(&rng, 70) - 40);
      for (size_t i = 0; i < n; i++)
        x[i] = (float)(size * (rng_unit(&rng) - 0.5));
      for (size_t which = 0; (k = kernel_at(which)); which++) {
        float scale_too = k->quantise(x, n, limit, seed, place, q_too);
        k->restore(q_too, n, scale_too, restored_too);
        if (which == 0) {
          scale = scale_too;
          memcpy(q, q_too, n);
          memcpy(restored, restored_too, n * sizeof *restored);
        }
        ck_assert_msg(scale == scale_too && memcmp(q, q_too, n) == 0, "%s: %zu values", k->name, n);
        ck_assert(memcmp(restored, restored_too, n * sizeof *restored) == 0);
      }
      for (size_t i = 0; i < n; i++)
        ck_assert(q[i] >= -limit && q[i] <= limit && restored[i] == scale * (float)q[i]);
      ck_assert(scale >= 0 && isfinite(scale));
    }
}
END_TEST

/* The largest magnitude is the limit, in whichever place and of whichever sign, and the noise hangs on both halves of the seed
 * and on the place. */
START_TEST(limits_and_noise) {
  float x[QUANTISE_BLOCK];
  int8_t q[QUANTISE_BLOCK], other[QUANTISE_BLOCK];
  for (size_t i = 0; i < QUANTISE_BLOCK; i++)
    x[i] = 0.3f;
  for (size_t i = 0; i < QUANTISE_BLOCK; i++) {
    x[i] = i % 2 ? 7 : -7;
    quantise_fastest()->quantise(x, QUANTISE_BLOCK, 7, i, 0, q);
    ck_assert_int_eq(q[i], i % 2 ? 7 : -7);
    x[i] = 0.3f;
  }
  x[0] = 7;
  quantise_fastest()->quantise(x, QUANTISE_BLOCK, 7, 0, 0, q);
  const struct {
    uint64_t seed;
    uint32_t place;
  } others[] = {{1, 0}, {(uint64_t)1 << 32, 0}, {0, 256}};
  for (size_t i = 0; i < 3; i++) {
    size_t n_equal = 0;
    quantise_fastest()->quantise(x, QUANTISE_BLOCK, 7, others[i].seed, others[i].place, other);
    for (size_t j = 1; j < QUANTISE_BLOCK; j++)
      n_equal += q[j] == other[j];
    ck_assert_uint_ge(n_equal, 110); /* 0.58 of 255 by chance */
    ck_assert_uint_le(n_equal, 185);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("quantise", kernels_agree, limits_and_noise);
}
