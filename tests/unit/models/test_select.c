/* Selection: the bound that the histogram gives, and every kernel finds the same places. */
#include "models/kernels/select.h"

#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

static uint32_t histogram[SELECT_BINS];

START_TEST(bound_is_where_enough_lie_above) {
  const float x[] = {0, -0.0f, 1e-42f, 1, -1, 1.0001f, -8, 3};
  uint32_t bin, of_bin;
  memset(histogram, 0, sizeof histogram);
  select_count(x, 8, histogram);
  const struct {
    uint32_t wanted;
    float bound;
    uint32_t of_bin;
  } rows[] = {{1, 8, 1}, {2, 3, 1}, {3, 1, 1}, {5, 1, 3}};
  for (size_t i = 0; i < 4; i++) {
    select_bound(histogram, rows[i].wanted, &bin, &of_bin);
    ck_assert_uint_eq(bin, select_bits(rows[i].bound) >> SELECT_SHIFT);
    ck_assert_uint_eq(of_bin, rows[i].of_bin);
  }
  select_bound(histogram, 6, &bin, &of_bin); /* only five are not next to nothing */
  ck_assert(bin == 1 && of_bin == 0);
}
END_TEST

START_TEST(kernels_agree) {
  size_t n_kernels;
  const struct select_kernel *k = select_kernels(&n_kernels);
  const struct cpu cpu = cpu_detect();
  struct rng rng;
  rng_init(&rng, 3);
  ck_assert(cpu_has(&cpu, &select_fastest()->needs));
  for (size_t n = 0; n <= SELECT_BLOCK; n += n < 20 ? 1 : 41) {
    float x[SELECT_BLOCK];
    uint16_t places[SELECT_BLOCK + 1], places_too[SELECT_BLOCK + 1];
    for (size_t i = 0; i < n; i++)
      x[i] = (float)(rng_unit(&rng) - 0.5);
    for (int tenth = 1; tenth < 10; tenth++) {
      float bound = 0.1f * (float)tenth * (float)tenth * 0.1f;
      uint32_t least = select_bits(bound);
      size_t found = k[0].find(x, n, least, places), expected = 0;
      for (size_t i = 0; i < n; i++)
        if (x[i] >= bound || -x[i] >= bound)
          ck_assert_uint_eq(places[expected++], i);
      ck_assert_uint_eq(found, expected);
      for (size_t i = 1; i < n_kernels; i++)
        if (cpu_has(&cpu, &k[i].needs)) {
          ck_assert_uint_eq(k[i].find(x, n, least, places_too), found);
          ck_assert(memcmp(places, places_too, found * sizeof *places) == 0);
        }
    }
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("select", bound_is_where_enough_lie_above, kernels_agree);
}
