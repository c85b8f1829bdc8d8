#include "models/tuning/sampler.h"

#include <stdbool.h>
#include <string.h>

#include "tests/unit/suite.h"

/* On a line: a crowd near 0, and one far away. */
static const struct cost_point points[] = {
    {.values = {0}}, {.values = {0.1}}, {.values = {0.2}}, {.values = {0.4}}, {.values = {5}}, {.values = {0.16}},
};

enum { N = sizeof points / sizeof *points };

static struct sampler *new_sampler(struct sampler_weights weights, uint64_t seed) {
  struct sampler *s;
  ck_assert_int_eq(sampler_new(points, N, weights, seed, &s), ERR_OK);
  return s;
}

START_TEST(representative_is_in_the_crowd) {
  struct sampler *s = new_sampler((struct sampler_weights){1, 0, 0}, 1);
  ck_assert_uint_eq(sampler_pick(s, NULL), 2); /* its middle, drawn a little to the far one */
  sampler_free(s);
}
END_TEST

START_TEST(diverse_is_far_from_what_is_measured) {
  struct sampler *s = new_sampler((struct sampler_weights){0, 1, 0}, 1);
  sampler_take(s, 0);
  ck_assert_uint_eq(sampler_pick(s, NULL), 4);
  sampler_take(s, 4);
  ck_assert_uint_eq(sampler_pick(s, NULL), 3);
  sampler_free(s);
}
END_TEST

START_TEST(uncertain_is_where_members_differ) {
  static const double spread[N] = {0.1, 0.2, 0.9, 0.3, 0.1, 0.2};
  struct sampler *s = new_sampler((struct sampler_weights){0, 0, 1}, 1);
  ck_assert_uint_eq(sampler_pick(s, spread), 2);
  sampler_take(s, 2);
  ck_assert_uint_eq(sampler_pick(s, spread), 3);
  sampler_free(s);
}
END_TEST

START_TEST(another_variant_is_far_away) {
  struct cost_point twins[3];
  memcpy(twins, points, sizeof twins);
  twins[1].variant = 1;
  struct sampler *s;
  ck_assert_int_eq(sampler_new(twins, 3, (struct sampler_weights){0, 1, 0}, 1, &s), ERR_OK);
  sampler_take(s, 2);
  ck_assert_uint_eq(sampler_pick(s, NULL), 1); /* the other variant, though 0 is further away on the line */
  sampler_free(s);
  memset(twins, 0, sizeof twins);
  twins[2].variant = 1;
  ck_assert_int_eq(sampler_new(twins, 3, (struct sampler_weights){0, 1, 0}, 1, &s), ERR_OK);
  sampler_take(s, 0);
  ck_assert_uint_eq(sampler_pick(s, NULL), 2);
  sampler_free(s);
}
END_TEST

START_TEST(without_weights_it_is_a_seeded_shuffle) {
  size_t order[3][N], first_differs = 0;
  for (size_t seed = 0; seed < 3; seed++) {
    bool seen[N] = {0};
    struct sampler *s = new_sampler((struct sampler_weights){0, 0, 0}, seed == 2 ? 0 : seed);
    for (size_t i = 0; i < N; i++) {
      order[seed][i] = sampler_pick(s, NULL);
      ck_assert_uint_lt(order[seed][i], N);
      ck_assert(!seen[order[seed][i]]);
      seen[order[seed][i]] = true;
      sampler_take(s, order[seed][i]);
      first_differs += order[seed][i] != order[0][i];
    }
    ck_assert_uint_eq(sampler_pick(s, NULL), N);
    sampler_free(s);
  }
  ck_assert_mem_eq(order[0], order[2], sizeof *order);
  ck_assert_uint_gt(first_differs, 0);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/sampler", representative_is_in_the_crowd, diverse_is_far_from_what_is_measured,
                   uncertain_is_where_members_differ, another_variant_is_far_away,
                   without_weights_it_is_a_seeded_shuffle);
}
