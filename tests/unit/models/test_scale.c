#include "models/data/scale.h"

#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "base/rng.h"
#include "models/text.h"
#include "tests/unit/suite.h"

START_TEST(text_reads_back_to_the_bit) {
  struct scale s, back = {0};
  struct rng r;
  rng_init(&r, 1);
  ck_assert_int_eq(scale_init(&s, SCALE_LOCAL, 100), ERR_OK);
  for (size_t i = 0; i < s.n; i++) {
    s.mean[i] = (rng_unit(&r) - 0.5) * 1e6;
    s.sd[i] = rng_unit(&r) + 1e-9;
  }
  char text[16384];
  size_t n;
  struct writer w;
  writer_init(&w, text, sizeof text);
  scale_write(&w, &s);
  ck_assert_int_eq(text_end(&w, &n), ERR_OK);
  ck_assert_int_eq(scale_read(text, n, &back), ERR_OK);
  ck_assert_int_eq(back.rule, SCALE_LOCAL);
  ck_assert_uint_eq(back.n, s.n);
  ck_assert_mem_eq(back.mean, s.mean, s.n * sizeof *s.mean);
  ck_assert_mem_eq(back.sd, s.sd, s.n * sizeof *s.sd);
  scale_done(&s);
  scale_done(&back);
}
END_TEST

START_TEST(bad_text_is_refused) {
  static const struct {
    const char *text;
    enum err e;
  } table[] = {
      {"", ERR_SYNTAX},
      {"scale: none", ERR_SYNTAX},
      {"scale: some\nscale pairs: 0\n", ERR_SYNTAX},
      {"scale: none\n", ERR_SYNTAX},
      {"scale: none\nscale pairs: -1\n", ERR_RANGE},
      {"scale: none\nscale pairs: 0.5\n", ERR_RANGE},
      {"scale: none\nscale pairs: many\n", ERR_SYNTAX},
      {"scale: fixed\nscale pairs: 1000000000000\n", ERR_RANGE}, /* more than the text can hold */
      {"scale: fixed\nscale pairs: 1\nscale mean 0: 1\n", ERR_SYNTAX},
      {"scale: fixed\nscale pairs: 1\nscale mean 1: 1\nscale sd 1: 1\n", ERR_SYNTAX},
      {"scale: fixed\nscale pairs: 1\nscale mean 0: 1\nscale sd 0: 0\n", ERR_RANGE},
      {"scale: fixed\nscale pairs: 1\nscale mean 0: 1\nscale sd 0: -1\n", ERR_RANGE},
      {"scale: fixed\nscale pairs: 1\nscale mean 0: nan\nscale sd 0: 1\n", ERR_SYNTAX},
      {"scale: fixed\nscale pairs: 1\nscale mean 0: 1\nscale sd 0: 1\nmore\n", ERR_SYNTAX},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct scale s = {.n = 77};
    enum err e = scale_read(table[i].text, strlen(table[i].text), &s);
    ck_assert_msg(e == table[i].e, "%zu: %s", i, err_name(e));
    ck_assert_uint_eq(s.n, 77);
  }
}
END_TEST

START_TEST(statistics_are_stable_far_from_zero) {
  struct scale_stats stats;
  struct scale s;
  ck_assert_int_eq(scale_stats_init(&stats, 3), ERR_OK);
  for (int i = 0; i < 1000; i++) {
    stats.x[0] = 1e9 + i % 2;     /* mean 1e9 + 0.5, sd 0.5 */
    stats.x[1] = 7;               /* does not vary: sd is taken as 1 */
    stats.x[2] = i < 500 ? 0 : 4; /* mean 2, sd 2 */
    scale_stats_add(&stats);
  }
  ck_assert_int_eq(scale_stats_end(&stats, SCALE_LOCAL, &s), ERR_OK);
  ck_assert_int_eq(s.rule, SCALE_LOCAL);
  ck_assert_double_eq_tol(s.mean[0], 1e9 + 0.5, 1e-6);
  ck_assert_double_eq_tol(s.sd[0], 0.5, 1e-6);
  ck_assert(s.mean[1] == 7 && s.sd[1] == 1);
  ck_assert_double_eq_tol(s.mean[2], 2, 1e-12);
  ck_assert_double_eq_tol(s.sd[2], 2, 1e-12);
  scale_stats_done(&stats);
  scale_done(&s);
}
END_TEST

START_TEST(a_copy_is_its_own) {
  struct scale s, copy;
  ck_assert_int_eq(scale_init(&s, SCALE_FIXED, 1), ERR_OK);
  s.mean[0] = 5;
  ck_assert_int_eq(scale_copy(&s, &copy), ERR_OK);
  s.mean[0] = 6;
  ck_assert(copy.mean[0] == 5 && copy.sd[0] == 1 && copy.rule == SCALE_FIXED && copy.n == 1);
  scale_done(&s);
  scale_done(&copy);
  ck_assert_int_eq(scale_init(&s, SCALE_FIXED, MAX_FEATURES + 1), ERR_LIMIT);
}
END_TEST

/* Statistics of four sites of very different sizes and places, merged, are those of the union. */
START_TEST(merging_equals_the_union) {
  static const size_t sizes[] = {1, 1000, 17, 5000};
  struct scale_stats whole, merged, site;
  struct rng r;
  rng_init(&r, 5);
  ck_assert_int_eq(scale_stats_init(&whole, 2), ERR_OK);
  ck_assert_int_eq(scale_stats_init(&merged, 2), ERR_OK);
  for (size_t s = 0; s < 4; s++) {
    ck_assert_int_eq(scale_stats_init(&site, 2), ERR_OK);
    for (size_t i = 0; i < sizes[s]; i++) {
      site.x[0] = whole.x[0] = 1e6 + 1e3 * (double)s + rng_unit(&r);
      site.x[1] = whole.x[1] = 1e-6 * (rng_unit(&r) - 0.3 * (double)s);
      scale_stats_add(&site);
      scale_stats_add(&whole);
    }
    scale_stats_merge(&merged, &site);
    scale_stats_done(&site);
  }
  ck_assert_uint_eq(merged.count, whole.count);
  for (size_t k = 0; k < 2; k++) {
    ck_assert_double_eq_tol(merged.mean[k] / whole.mean[k], 1, 1e-12);
    ck_assert_double_eq_tol(merged.m2[k] / whole.m2[k], 1, 1e-12);
  }
  scale_stats_done(&whole);
  scale_stats_done(&merged);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/scale", text_reads_back_to_the_bit, bad_text_is_refused, statistics_are_stable_far_from_zero,
                   a_copy_is_its_own, merging_equals_the_union);
}
