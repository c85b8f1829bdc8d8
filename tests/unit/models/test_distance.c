/* Pairwise distances: every kernel has the same bits, and they are what long double says. */
#include "models/kernels/distance.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

enum { N = 5, P = 3 * DISTANCE_TILE + 13 };

static float values[N][P];

static void fill(void) {
  struct rng rng;
  rng_init(&rng, 12);
  for (size_t j = 0; j < N; j++)
    for (size_t i = 0; i < P; i++)
      values[j][i] = (float)(rng_unit(&rng) - 0.5);
}

static const struct distance_kernel *kernel_at(size_t i) {
  size_t n;
  const struct distance_kernel *k = distance_kernels(&n);
  struct cpu cpu = cpu_detect();
  ck_assert(cpu_has(&cpu, &distance_fastest()->needs));
  return i < n && cpu_has(&cpu, &k[i].needs) ? &k[i] : NULL;
}

static void check(size_t length) {
  const float *rows[N];
  double first[N * N], got[N * N];
  const struct distance_kernel *k;
  for (size_t j = 0; j < N; j++)
    rows[j] = values[j];
  for (size_t which = 0; (k = kernel_at(which)); which++) {
    distance_pairs(k, rows, N, length, got);
    if (which == 0)
      memcpy(first, got, sizeof first);
    for (size_t i = 0; i < (size_t)N * N; i++)
      ck_assert_msg(first[i] == got[i], "%s of %zu", k->name, length);
  }
  for (size_t a = 0; a < N; a++)
    for (size_t b = 0; b < N; b++) {
      long double sum = 0;
      for (size_t i = 0; i < length; i++)
        sum += ((long double)values[a][i] - (long double)values[b][i]) *
               ((long double)values[a][i] - (long double)values[b][i]);
      ck_assert_double_le(fabs(first[a * N + b] - (double)sum), 0x1p-17 * (double)sum);
      ck_assert(first[a * N + b] == first[b * N + a]);
    }
}

START_TEST(pairs_of_any_length) {
  fill();
  for (size_t length = 0; length < 70; length++)
    check(length);
  check(DISTANCE_TILE);
  check(DISTANCE_TILE + 1);
  check(P);
}
END_TEST

int main(void) {
  return SUITE_RUN("distance", pairs_of_any_length);
}
