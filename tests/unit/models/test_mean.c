/* The weighted sum: every kernel has the bits of the plain one, and sees what is not finite wherever it stands. */
#include "models/kernels/mean.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

enum { P = 77, TERMS = 9 };

static float x[P], own[P], y[TERMS][P];
static struct mean_term terms[TERMS];

static void fill(struct rng *rng) {
  for (size_t i = 0; i < P; i++) {
    x[i] = (float)(rng_unit(rng) - 0.5);
    own[i] = (float)(rng_unit(rng) - 0.5);
    for (size_t j = 0; j < TERMS; j++)
      y[j][i] = (float)((rng_unit(rng) - 0.5) * pow(10, (double)rng_below(rng, 12) - 6));
  }
  for (size_t j = 0; j < TERMS; j++)
    terms[j] = (struct mean_term){y[j], rng_unit(rng)};
}

static const struct mean_kernel *kernel_at(size_t i) {
  size_t n;
  const struct mean_kernel *k = mean_kernels(&n);
  struct cpu cpu = cpu_detect();
  ck_assert(cpu_has(&cpu, &mean_fastest()->needs));
  return i < n && cpu_has(&cpu, &k[i].needs) ? &k[i] : NULL;
}

START_TEST(kernels_agree) {
  const struct mean_kernel *k;
  float expected[P], got[P];
  struct rng rng;
  rng_init(&rng, 8);
  fill(&rng);
  for (size_t n_terms = 0; n_terms <= TERMS; n_terms++)
    for (size_t length = 0; length <= P; length++) {
      ck_assert(kernel_at(0)->sum(x, own, terms, n_terms, length, expected));
      for (size_t which = 1; (k = kernel_at(which)); which++) {
        memset(got, 0, sizeof got);
        ck_assert(k->sum(x, own, terms, n_terms, length, got));
        ck_assert_msg(memcmp(expected, got, length * sizeof *got) == 0, "%s: %zu terms of %zu", k->name, n_terms,
                      length);
        memcpy(got, x, sizeof got); /* in place */
        ck_assert(k->sum(got, own, terms, n_terms, length, got));
        ck_assert(memcmp(expected, got, length * sizeof *got) == 0);
      }
    }
}
END_TEST

START_TEST(whatever_is_not_finite_is_seen) {
  const struct mean_kernel *k;
  float got[P];
  struct rng rng;
  rng_init(&rng, 9);
  fill(&rng);
  for (size_t which = 0; (k = kernel_at(which)); which++)
    for (size_t i = 0; i < P; i++) {
      const float before = y[1][i], bad[] = {NAN, INFINITY, -INFINITY};
      for (size_t b = 0; b < 3; b++) {
        y[1][i] = bad[b];
        ck_assert_msg(!k->sum(x, own, terms, TERMS, P, got), "%s does not see %zu", k->name, i);
      }
      y[1][i] = FLT_MAX; /* fits in double, not in float */
      terms[1].weight = 2;
      ck_assert(!k->sum(x, own, terms, TERMS, P, got));
      y[1][i] = before;
      ck_assert(k->sum(x, own, terms, TERMS, P, got));
    }
}
END_TEST

int main(void) {
  return SUITE_RUN("mean", kernels_agree, whatever_is_not_finite_is_seen);
}
