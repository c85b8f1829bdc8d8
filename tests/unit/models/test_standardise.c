/* Every kernel gives the bits of the formula, at every length and alignment, and writes no further. */
#include "models/kernels/standardise.h"

#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

enum { MOST = 300 };

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static void check_kernel(const struct standardise *k, const uint8_t *bytes, size_t n, const double *shift,
                         const double *gain) {
  float x[MOST + 1];
  memset(x, 0xff, sizeof x);
  float guard = x[n];
  k->bytes(bytes, n, shift, gain, x);
  ck_assert_msg(bits_of(x[n]) == bits_of(guard), "%s writes more than %zu", k->name, n);
  for (size_t i = 0; i < n; i++) {
    float want = (float)((bytes[i] - shift[i]) * gain[i]);
    if (bits_of(x[i]) != bits_of(want))
      ck_abort_msg("%s: [%zu] of %zu is %a, not %a", k->name, i, n, (double)x[i], (double)want);
  }
}

START_TEST(every_kernel_gives_the_bits_of_the_formula) {
  struct cpu cpu = cpu_detect();
  struct rng rng;
  rng_init(&rng, 1);
  uint8_t bytes[MOST];
  double shift[MOST], gain[MOST];
  for (size_t i = 0; i < MOST; i++) {
    bytes[i] = (uint8_t)rng_below(&rng, 256);
    shift[i] = 255 * rng_unit(&rng);
    gain[i] = rng_unit(&rng);
  }
  size_t n_kernels;
  const struct standardise *kernels = standardise_kernels(&n_kernels);
  for (size_t k = 0; k < n_kernels; k++)
    for (size_t n = 0; n < MOST - 3 && cpu_has(&cpu, &kernels[k].needs); n++)
      check_kernel(&kernels[k], bytes + n % 4, n, shift + n % 4, gain + n % 4);
}
END_TEST

START_TEST(the_fastest_is_the_last_that_runs) {
  size_t n_kernels;
  const struct standardise *kernels = standardise_kernels(&n_kernels);
  const struct cpu none = {0}, all = {true, true, true, true};
  ck_assert_ptr_eq(standardise_fastest(&none), &kernels[0]);
  ck_assert_ptr_eq(standardise_fastest(&all), &kernels[n_kernels - 1]);
}
END_TEST

int main(void) {
  return SUITE_RUN("standardise", every_kernel_gives_the_bits_of_the_formula, the_fastest_is_the_last_that_runs);
}
