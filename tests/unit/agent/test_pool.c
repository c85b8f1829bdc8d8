#include "agent/core/pool.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "tests/unit/suite.h"

enum { N = 2, SITES = 3 };

/* Sites in the order of their keys; each has the others as its peers. */
struct swarm {
  struct pool *pools[SITES];
  struct scale_stats own[SITES], whole;
};

static void swarm_init(struct swarm *s) {
  struct rng r;
  rng_init(&r, 3);
  ck_assert_int_eq(scale_stats_init(&s->whole, N), ERR_OK);
  for (size_t i = 0; i < SITES; i++) {
    ck_assert_int_eq(pool_new(SITES - 1, i, N, &s->pools[i]), ERR_OK);
    ck_assert_int_eq(scale_stats_init(&s->own[i], N), ERR_OK);
    for (size_t k = 0; k < 10 + 100 * i; k++) {
      for (size_t f = 0; f < N; f++)
        s->own[i].x[f] = s->whole.x[f] = 1e3 * (double)(i * f) + rng_unit(&r);
      scale_stats_add(&s->own[i]);
      scale_stats_add(&s->whole);
    }
  }
}

static void swarm_done(struct swarm *s) {
  for (size_t i = 0; i < SITES; i++) {
    pool_free(s->pools[i]);
    scale_stats_done(&s->own[i]);
  }
  scale_stats_done(&s->whole);
}

/* The index of site `of` among the peers of site `at`. */
static size_t peer_of(size_t at, size_t of) {
  return of < at ? of : of - 1;
}

static void tell(struct swarm *s, size_t from, size_t to) {
  struct wire_pool words;
  ck_assert(pool_words(s->pools[from], &words));
  ck_assert_int_eq(pool_on_words(s->pools[to], peer_of(to, from), &words), ERR_OK);
}

static void all_live(struct swarm *s) {
  for (size_t i = 0; i < SITES; i++)
    for (size_t k = 0; k + 1 < SITES; k++)
      pool_set_live(s->pools[i], k, true);
}

static struct scale closed(struct swarm *s, size_t at) {
  const struct scale *frozen = NULL;
  struct scale copy = {0};
  ck_assert(pool_close(s->pools[at], &frozen));
  ck_assert_ptr_nonnull(frozen);
  ck_assert_int_eq(scale_copy(frozen, &copy), ERR_OK);
  return copy;
}

static void all_own(struct swarm *s) {
  for (size_t i = 0; i < SITES; i++)
    ck_assert_int_eq(pool_set_own(s->pools[i], &s->own[i]), ERR_OK);
}

START_TEST(all_sites_close_with_the_bits_of_the_union) {
  struct swarm s;
  struct scale of[SITES];
  const struct scale *none;
  struct wire_pool words;
  swarm_init(&s);
  all_live(&s);
  ck_assert(!pool_words(s.pools[0], &words));
  all_own(&s);
  for (size_t from = 0; from < SITES; from++)
    for (size_t to = 0; to < SITES; to++)
      if (from != to) {
        ck_assert(pool_lacks(s.pools[to], peer_of(to, from)));
        ck_assert(!pool_close(s.pools[to], &none));
        tell(&s, from, to);
        ck_assert(!pool_lacks(s.pools[to], peer_of(to, from)));
      }
  for (size_t i = 0; i < SITES; i++) {
    of[i] = closed(&s, i);
    ck_assert(!pool_close(s.pools[i], &none)); /* once */
    ck_assert_int_eq(of[i].rule, SCALE_POOLED);
  }
  for (size_t f = 0; f < N; f++) {
    ck_assert_double_eq_tol(of[0].mean[f] / s.whole.mean[f], 1, 1e-12);
    ck_assert_double_eq_tol(of[0].sd[f] / sqrt(s.whole.m2[f] / (double)s.whole.count), 1, 1e-12);
    for (size_t i = 1; i < SITES; i++)
      ck_assert(of[0].mean[f] == of[i].mean[f] && of[0].sd[f] == of[i].sd[f]);
  }
  tell(&s, 0, 1);
  ck_assert(!pool_differs(s.pools[1], peer_of(1, 0)));
  for (size_t i = 0; i < SITES; i++)
    scale_done(&of[i]);
  swarm_done(&s);
}
END_TEST

/* Sites 0 and 1 have frozen numbers; 2 comes without. */
START_TEST(a_late_site_takes_what_all_live_peers_say) {
  struct swarm s;
  const struct scale *none;
  struct scale frozen = {0};
  swarm_init(&s);
  ck_assert_int_eq(scale_init(&frozen, SCALE_POOLED, N), ERR_OK);
  frozen.mean[1] = 7;
  ck_assert_int_eq(pool_set_frozen(s.pools[0], &frozen), ERR_OK);
  ck_assert_int_eq(pool_set_frozen(s.pools[1], &frozen), ERR_OK);
  all_live(&s);
  tell(&s, 0, 2);
  ck_assert(!pool_close(s.pools[2], &none)); /* its own training samples are not read yet */
  ck_assert_int_eq(pool_set_own(s.pools[2], &s.own[2]), ERR_OK);
  ck_assert(!pool_close(s.pools[2], &none)); /* 1 is live and has not spoken */
  pool_set_live(s.pools[2], 1, false);
  struct scale taken = closed(&s, 2);
  ck_assert(taken.mean[1] == 7);
  scale_done(&taken);
  scale_done(&frozen);
  swarm_done(&s);
}
END_TEST

START_TEST(other_frozen_numbers_are_told_apart_and_never_taken) {
  struct swarm s;
  const struct scale *none;
  struct scale frozen = {0};
  swarm_init(&s);
  ck_assert_int_eq(scale_init(&frozen, SCALE_POOLED, N), ERR_OK);
  ck_assert_int_eq(pool_set_frozen(s.pools[0], &frozen), ERR_OK);
  frozen.sd[0] = nextafter(1, 2);
  ck_assert_int_eq(pool_set_frozen(s.pools[1], &frozen), ERR_OK);
  ck_assert_int_eq(pool_set_own(s.pools[2], &s.own[2]), ERR_OK);
  all_live(&s);
  tell(&s, 0, 2);
  tell(&s, 1, 2);
  ck_assert(!pool_close(s.pools[2], &none));
  ck_assert(!pool_differs(s.pools[2], 0)); /* it has none itself */
  tell(&s, 0, 1);
  ck_assert(pool_differs(s.pools[1], peer_of(1, 0)));
  pool_set_live(s.pools[1], peer_of(1, 0), false);
  ck_assert(!pool_differs(s.pools[1], peer_of(1, 0)));
  scale_done(&frozen);
  swarm_done(&s);
}
END_TEST

START_TEST(a_site_without_peers_pools_its_own) {
  struct pool *p;
  struct scale_stats own;
  const struct scale *frozen;
  ck_assert_int_eq(pool_new(0, 0, 1, &p), ERR_OK);
  ck_assert_int_eq(scale_stats_init(&own, 1), ERR_OK);
  own.x[0] = 4;
  scale_stats_add(&own);
  ck_assert_int_eq(pool_set_own(p, &own), ERR_OK);
  ck_assert(pool_close(p, &frozen));
  ck_assert(frozen->mean[0] == 4 && frozen->sd[0] == 1); /* what does not vary has no scale */
  scale_stats_done(&own);
  pool_free(p);
}
END_TEST

START_TEST(words_that_cannot_be_are_refused_and_not_kept) {
  static const struct {
    double mean, spread;
    bool is_frozen;
    enum err expected;
  } cases[] = {
      {NAN, 1, false, ERR_NON_FINITE},
      {0, INFINITY, false, ERR_NON_FINITE},
      {-INFINITY, 1, true, ERR_NON_FINITE},
      {0, -1, false, ERR_MESSAGE},
      {0, 0, true, ERR_MESSAGE},
      {0, -0.5, true, ERR_MESSAGE},
      {-1e308, 1, false, ERR_MESSAGE},
      {0, 0, false, ERR_OK},
      {-3e38, 1e80, false, ERR_OK},
      {0, 1e300, false, ERR_MESSAGE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pool *p;
    struct writer w;
    uint8_t bytes[2 * POOL_PAIR_BYTES];
    struct wire_pool words = {.is_frozen = cases[i].is_frozen, .count = !cases[i].is_frozen, .n = 1, .bytes = bytes};
    writer_init(&w, bytes, sizeof bytes);
    writer_f64(&w, cases[i].mean);
    writer_f64(&w, cases[i].spread);
    writer_f64(&w, 0);
    writer_f64(&w, 1);
    ck_assert_int_eq(pool_new(1, 0, 1, &p), ERR_OK);
    ck_assert_int_eq(pool_on_words(p, 0, &words), cases[i].expected);
    ck_assert_int_eq(pool_lacks(p, 0), cases[i].expected != ERR_OK || cases[i].is_frozen);
    words.count = (uint64_t)MAX_SAMPLES + 1;
    ck_assert_int_eq(pool_on_words(p, 0, &words), ERR_ABSURD_SAMPLES);
    words.n = 2;
    ck_assert_int_eq(pool_on_words(p, 0, &words), ERR_MESSAGE);
    pool_free(p);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/pool", all_sites_close_with_the_bits_of_the_union, a_late_site_takes_what_all_live_peers_say,
                   other_frozen_numbers_are_told_apart_and_never_taken, a_site_without_peers_pools_its_own,
                   words_that_cannot_be_are_refused_and_not_kept);
}
