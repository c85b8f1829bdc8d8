/* The mean, which is the first rule; the bound; and the median that a joiner adopts. */
#include "models/merging/merge.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "models/kernels/mean.h"
#include "models/merging/rule.h"
#include "tests/unit/suite.h"

enum { P = 1300, PEERS = 3 };

static float x[P], own[P], copies[PEERS][P], merged[P];

static void fill(float *values, struct rng *rng) {
  for (size_t i = 0; i < P; i++)
    values[i] = (float)(rng_unit(rng) - 0.5);
}

static void fill_all(void) {
  struct rng rng;
  rng_init(&rng, 17);
  fill(x, &rng);
  memcpy(own, x, sizeof own);
  for (size_t j = 0; j < PEERS; j++)
    fill(copies[j], &rng);
}

static enum err merge_mean(const struct mean_term *terms, size_t n) {
  static const struct rule_setting mean;
  static const struct statistics none;
  struct rule_space *space;
  struct rule_peer peers[PEERS];
  for (size_t j = 0; j < n; j++)
    peers[j] = (struct rule_peer){.values = terms[j].values, .weight = terms[j].weight, .distance = 1};
  const struct rule_merge m = {.x = x,
                               .own = own,
                               .n_values = P,
                               .gamma = 1,
                               .bound = INFINITY,
                               .statistics = &none,
                               .peers = peers,
                               .n_peers = n};
  ck_assert_int_eq(rule_space_new(&mean, n, &space), ERR_OK);
  enum err e = rule_merge(space, &mean, &m, merged);
  rule_space_free(space);
  return e;
}

/* Sample counts 1 : 10 : 100 and 7 of our own, against long double. */
START_TEST(weighted_mean_is_exact) {
  const long double counts[PEERS] = {1, 10, 100}, total = 118;
  struct mean_term terms[PEERS];
  long double expected[P];
  fill_all();
  for (size_t i = 0; i < P; i++) {
    expected[i] = 7 * (long double)x[i];
    for (size_t j = 0; j < PEERS; j++)
      expected[i] += counts[j] * (long double)copies[j][i];
    expected[i] /= total;
  }
  for (size_t j = 0; j < PEERS; j++)
    terms[j] = (struct mean_term){copies[j], (double)(counts[j] / total)};
  ck_assert_int_eq(merge_mean(terms, PEERS), ERR_OK);
  for (size_t i = 0; i < P; i++)
    ck_assert_double_le(fabs((double)merged[i] - (double)expected[i]),
                        0.51 * (double)(nextafterf(fabsf(merged[i]), 1) - fabsf(merged[i])));
}
END_TEST

START_TEST(no_terms_change_no_bit) {
  fill_all();
  x[0] = -0.0f;
  x[1] = 0x1p-149f;
  ck_assert_int_eq(merge_mean(NULL, 0), ERR_OK);
  ck_assert_mem_eq(merged, x, sizeof x);
}
END_TEST

/* Whoever arrives in whatever order: sorted, the bits are the same. */
START_TEST(sorted_order_gives_equal_bits) {
  float first[P];
  const int arrivals[2][PEERS] = {{2, 0, 1}, {1, 2, 0}};
  for (size_t run = 0; run < 2; run++) {
    struct mean_term terms[PEERS];
    fill_all();
    for (size_t j = 0; j < PEERS; j++) {
      int key = arrivals[run][j];
      terms[key] = (struct mean_term){copies[key], 0.1 + 0.07 * key}; /* placed by key, not by arrival */
    }
    ck_assert_int_eq(merge_mean(terms, PEERS), ERR_OK);
    if (run == 0)
      memcpy(first, merged, sizeof first);
  }
  ck_assert_mem_eq(merged, first, sizeof first);
}
END_TEST

START_TEST(non_finite_result_is_refused) {
  float before[P];
  fill_all();
  x[P - 1] = FLT_MAX;
  copies[0][P - 1] = FLT_MAX;
  memcpy(before, x, sizeof x);
  struct mean_term term = {copies[0], 1};
  own[P - 1] = 0;
  ck_assert_int_eq(merge_mean(&term, 1), ERR_MERGE_REFUSED);
  ck_assert_mem_eq(x, before, sizeof x);
}
END_TEST

START_TEST(bound_is_five_medians) {
  struct distance_ring ring = {0};
  ck_assert(isinf(distance_ring_bound(&ring, 0, 5)));
  ck_assert_double_eq(distance_ring_bound(&ring, 2, 5), 10);
  distance_ring_put(&ring, 3);
  ck_assert_double_eq(distance_ring_bound(&ring, 2, 5), 15);
  distance_ring_put(&ring, 1);
  ck_assert_double_eq(distance_ring_bound(&ring, 0, 5), 10);
  ck_assert_double_eq(distance_ring_bound(&ring, 7, 5), 35);
  distance_ring_put(&ring, 100);
  ck_assert_double_eq(distance_ring_bound(&ring, 0, 5), 15);
}
END_TEST

START_TEST(ring_forgets_the_oldest) {
  struct distance_ring ring = {0};
  for (int i = 0; i < MERGE_RING; i++)
    distance_ring_put(&ring, 1);
  for (int i = 0; i < MERGE_RING / 2 - 1; i++)
    distance_ring_put(&ring, 4);
  ck_assert_double_eq(distance_ring_bound(&ring, 0, 5), 5);
  distance_ring_put(&ring, 4);
  ck_assert_double_eq(distance_ring_bound(&ring, 0, 5), 12.5);
  distance_ring_put(&ring, 4);
  ck_assert_double_eq(distance_ring_bound(&ring, 0, 5), 20);
  ck_assert_uint_eq(ring.n, MERGE_RING);
}
END_TEST

START_TEST(median_by_coordinate) {
  float result[P];
  const float *three[] = {copies[0], copies[1], copies[2]};
  fill_all();
  merge_median(result, three, 1, P);
  ck_assert_mem_eq(result, copies[0], sizeof result);
  merge_median(result, three, 2, P);
  for (size_t i = 0; i < P; i++)
    ck_assert_float_eq(result[i], (float)(0.5 * ((double)copies[0][i] + (double)copies[1][i])));
  merge_median(result, three, 3, P);
  for (size_t i = 0; i < P; i++) {
    float a = copies[0][i], b = copies[1][i], c = copies[2][i];
    ck_assert_float_eq(result[i], fmaxf(fminf(a, b), fminf(fmaxf(a, b), c)));
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("merge", weighted_mean_is_exact, no_terms_change_no_bit, sorted_order_gives_equal_bits,
                   non_finite_result_is_refused, bound_is_five_medians, ring_forgets_the_oldest, median_by_coordinate);
}
