/* Rules of a merge: each against a twin that works on whole models in double, and what holds for all of them. */
#include "models/merging/rule.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "models/merging/judgement.h"
#include "tests/unit/suite.h"

enum { P = 2500, MOST = 9, N_MOST = MOST + 1 };

static float x[P], own[P], before[P], copies[MOST][P], merged[P];
static const struct statistics no_statistics;

/* Honest ones near to each other about a step away from `before`; x is x̂. */
static void fill(uint64_t seed) {
  struct rng rng;
  rng_init(&rng, seed);
  for (size_t i = 0; i < P; i++) {
    before[i] = (float)(rng_unit(&rng) - 0.5);
    double step = rng_unit(&rng) - 0.5;
    own[i] = x[i] = (float)((double)before[i] + step + 0.4 * (rng_unit(&rng) - 0.5));
    for (size_t j = 0; j < MOST; j++)
      copies[j][i] = (float)((double)before[i] + step + (0.4 + 0.05 * (double)j) * (rng_unit(&rng) - 0.5));
  }
}

static double distance(const float *a, const float *b) {
  double sum = 0;
  for (size_t i = 0; i < P; i++)
    sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
  return sqrt(sum);
}

struct bench {
  struct rule_setting setting;
  struct rule_merge m;
  struct rule_peer peers[MOST];
  struct rule_space *space;
};

static void bench_init(struct bench *b, enum merge_rule rule, size_t n_peers) {
  *b = (struct bench){.setting = {.rule = rule, .byzantine = RULE_A_THIRD, .n_configured = (uint32_t)n_peers}};
  b->m = (struct rule_merge){.x = x,
                             .own = own,
                             .before = before,
                             .n_values = P,
                             .gamma = 1,
                             .bound = INFINITY,
                             .seed = 5,
                             .statistics = &no_statistics,
                             .peers = b->peers,
                             .n_peers = n_peers};
  for (size_t j = 0; j < n_peers; j++)
    b->peers[j] = (struct rule_peer){
        .values = copies[j], .weight = 1.0 / (double)(n_peers + 1), .distance = distance(copies[j], own)};
}

static enum err merge(struct bench *b) {
  ck_assert_int_eq(rule_space_new(&b->setting, b->m.n_peers, &b->space), ERR_OK);
  enum err e = rule_merge(b->space, &b->setting, &b->m, merged);
  rule_space_free(b->space);
  return e;
}

/* ---- twins --------------------------------------------------------------------------------------------------------- */

static double twin[P], rows[N_MOST][P];

/* Oneself and the peers under the bound. */
static size_t twin_rows(const struct bench *b) {
  for (size_t i = 0; i < P; i++) {
    rows[0][i] = (double)own[i];
    for (size_t j = 0; j < b->m.n_peers; j++) {
      const struct rule_peer *p = &b->peers[j];
      double factor = fmin(1, b->m.bound / p->distance);
      rows[j + 1][i] = (double)own[i] + factor * ((double)p->values[i] - (double)own[i]);
    }
  }
  return b->m.n_peers + 1;
}

static double twin_distance(const double *a, const double *b) {
  double sum = 0;
  for (size_t i = 0; i < P; i++)
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sqrt(sum);
}

static int ascending(const void *a, const void *b) {
  double x1 = *(const double *)a, x2 = *(const double *)b;
  return (x1 > x2) - (x1 < x2);
}

static void twin_trimmed(double (*y)[P], size_t n, size_t f) {
  for (size_t i = 0; i < P; i++) {
    double v[N_MOST], sum = 0;
    for (size_t r = 0; r < n; r++)
      v[r] = y[r][i];
    qsort(v, n, sizeof *v, ascending);
    for (size_t r = f; r < n - f; r++)
      sum += v[r];
    twin[i] = sum / (double)(n - 2 * f);
  }
}

static void twin_median(size_t n) {
  twin_trimmed(rows, n, (n - 1) / 2);
}

static void twin_mean_of(const size_t *chosen, size_t n) {
  for (size_t i = 0; i < P; i++) {
    twin[i] = 0;
    for (size_t k = 0; k < n; k++)
      twin[i] += rows[chosen[k]][i] / (double)n;
  }
}

static const double *ranked_by;

static int by_rank(const void *a, const void *b) {
  double s = ranked_by[*(const size_t *)a], t = ranked_by[*(const size_t *)b];
  return (s > t) - (s < t);
}

static void twin_krum(size_t n, size_t f, size_t n_chosen) {
  double scores[N_MOST];
  size_t order[N_MOST];
  for (size_t i = 0; i < n; i++) {
    double squares[N_MOST];
    for (size_t k = 0; k < n; k++)
      squares[k] = twin_distance(rows[i], rows[k]) * twin_distance(rows[i], rows[k]);
    qsort(squares, n, sizeof *squares, ascending);
    scores[i] = 0;
    for (size_t k = 1; k <= n - f - 2; k++)
      scores[i] += squares[k];
    order[i] = i;
  }
  ranked_by = scores;
  qsort(order, n, sizeof *order, by_rank);
  twin_mean_of(order, n_chosen);
}

static void twin_nnm(size_t n, size_t f) {
  static double mixed[N_MOST][P];
  for (size_t i = 0; i < n; i++) {
    double distances[N_MOST];
    size_t order[N_MOST];
    for (size_t k = 0; k < n; k++) {
      distances[k] = k == i ? -1 : twin_distance(rows[i], rows[k]);
      order[k] = k;
    }
    ranked_by = distances;
    qsort(order, n, sizeof *order, by_rank);
    twin_mean_of(order, n - f);
    memcpy(mixed[i], twin, sizeof twin);
  }
  twin_trimmed(mixed, n, f);
}

static void twin_geometric_median(size_t n) {
  twin_trimmed(rows, n, 0);
  for (size_t step = 0; step < 8; step++) {
    double weights[N_MOST], sum = 0;
    for (size_t r = 0; r < n; r++)
      sum += weights[r] = 1 / twin_distance(rows[r], twin);
    for (size_t i = 0; i < P; i++) {
      twin[i] = 0;
      for (size_t r = 0; r < n; r++)
        twin[i] += weights[r] / sum * rows[r][i];
    }
  }
}

static void twin_centred_clip(size_t n) {
  memcpy(twin, rows[0], sizeof twin);
  for (size_t step = 0; step < 3; step++) {
    double distances[N_MOST], sorted[N_MOST];
    for (size_t r = 0; r < n; r++)
      distances[r] = sorted[r] = twin_distance(rows[r], twin);
    qsort(sorted + 1, n - 1, sizeof *sorted, ascending);
    double radius = (sorted[n / 2] + sorted[(n + 1) / 2]) / 2;
    for (size_t i = 0; i < P; i++) {
      double sum = 0;
      for (size_t r = 0; r < n; r++)
        sum += (rows[r][i] - twin[i]) * (distances[r] > radius ? radius / distances[r] : 1);
      twin[i] += sum / (double)n;
    }
  }
}

/* The lower median of the distances. */
static void twin_clip(const struct bench *b, size_t n) {
  double distances[N_MOST] = {0}, sorted[N_MOST] = {0};
  for (size_t r = 1; r < n; r++)
    distances[r] = sorted[r - 1] = twin_distance(rows[r], rows[0]);
  qsort(sorted, n - 1, sizeof *sorted, ascending);
  double radius = sorted[(n - 2) / 2];
  for (size_t i = 0; i < P; i++) {
    twin[i] = rows[0][i];
    for (size_t r = 1; r < n; r++)
      twin[i] += b->peers[r - 1].weight * (rows[r][i] - rows[0][i]) * fmin(1, radius / distances[r]);
  }
}

/* What comes of x beside x̂: shares above max_share are cut, and what is not said of peers is one's own step. */
static void twin_trust(const struct bench *b, size_t n) {
  double trust[N_MOST] = {0}, lengths[N_MOST] = {0}, sum = 1, own_square = 0;
  for (size_t i = 0; i < P; i++)
    own_square += ((double)x[i] - (double)before[i]) * ((double)x[i] - (double)before[i]);
  for (size_t r = 1; r < n; r++) {
    double product = 0, square = 0;
    for (size_t i = 0; i < P; i++) {
      product += (rows[r][i] - (double)before[i]) * ((double)x[i] - (double)before[i]);
      square += (rows[r][i] - (double)before[i]) * (rows[r][i] - (double)before[i]);
    }
    lengths[r] = sqrt(square);
    trust[r] = fmax(0, product / lengths[r] / sqrt(own_square));
    sum += trust[r];
  }
  for (size_t i = 0; i < P; i++) {
    double y = 0, rest = 1;
    for (size_t r = 1; r < n; r++) {
      double share = b->setting.max_share > 0 ? fmin(trust[r] / sum, b->setting.max_share) : trust[r] / sum;
      y += share * sqrt(own_square) / lengths[r] * (rows[r][i] - (double)before[i]);
      rest -= share;
    }
    y += rest * ((double)x[i] - (double)before[i]);
    twin[i] = (double)own[i] + (double)before[i] + y - (double)x[i];
  }
}

static void twin_mean(const struct bench *b, size_t n) {
  for (size_t i = 0; i < P; i++) {
    twin[i] = rows[0][i];
    for (size_t r = 1; r < n; r++)
      twin[i] += b->peers[r - 1].weight * (rows[r][i] - rows[0][i]);
  }
}

static void make_twin(const struct bench *b, enum merge_rule rule) {
  const size_t n = twin_rows(b), f = rule_byzantine(&b->setting, n - 1);
  switch (rule) {
  case RULE_MEAN:
    twin_mean(b, n);
    break;
  case RULE_MEDIAN:
    twin_median(n);
    break;
  case RULE_TRIMMED:
    twin_trimmed(rows, n, f);
    break;
  case RULE_KRUM:
    twin_krum(n, f, 1);
    break;
  case RULE_MULTI_KRUM:
    twin_krum(n, f, n - f);
    break;
  case RULE_GEOMETRIC_MEDIAN:
    twin_geometric_median(n);
    break;
  case RULE_CENTRED_CLIP:
    twin_centred_clip(n);
    break;
  case RULE_CLIP:
    twin_clip(b, n);
    break;
  case RULE_TRUST:
    twin_trust(b, n);
    break;
  default:
    twin_nnm(n, f);
    break;
  }
}

static void check_twin(const struct bench *b, enum merge_rule rule) {
  make_twin(b, rule);
  for (size_t i = 0; i < P; i++) {
    double expected = (double)x[i] + b->m.gamma * (twin[i] - (double)own[i]);
    ck_assert_msg(fabs((double)merged[i] - expected) < 2e-5, "%s, %zu peers, value %zu: %.9g instead of %.9g",
                  merge_rule_name(rule), b->m.n_peers, i, (double)merged[i], expected);
  }
}

/* Of a third of these. */
static bool is_clip(enum merge_rule rule, size_t n_peers) {
  const bool counts_all = rule == RULE_MEAN || rule == RULE_TRUST,
             is_krum = rule == RULE_KRUM || rule == RULE_MULTI_KRUM;
  return !counts_all && (n_peers < 3 || (is_krum && n_peers < 4) || (rule == RULE_ROBUST && n_peers < 6));
}

START_TEST(every_rule_is_its_twin) {
  for (enum merge_rule rule = 0; rule < N_MERGE_RULES; rule++)
    for (size_t n_peers = 1; n_peers <= MOST; n_peers++) {
      struct bench b;
      fill(100 * n_peers + rule);
      bench_init(&b, rule, n_peers);
      b.m.gamma = n_peers % 2 ? 1 : 0.75;
      ck_assert_int_eq(merge(&b), ERR_OK);
      check_twin(&b, is_clip(rule, n_peers) ? RULE_CLIP : rule);
    }
}
END_TEST

/* One of them 10^6 times as far as the others: what is judged and what is merged is what the bound leaves of it. */
START_TEST(what_is_far_is_judged_under_the_bound) {
  for (enum merge_rule rule = 0; rule < N_MERGE_RULES; rule++) {
    struct bench b;
    fill(7);
    for (size_t i = 0; i < P; i++)
      copies[3][i] = own[i] + 1e6f * (copies[3][i] - own[i]);
    bench_init(&b, rule, 8);
    b.m.bound = 5 * b.peers[0].distance;
    ck_assert_int_eq(merge(&b), ERR_OK);
    check_twin(&b, rule);
    ck_assert_int_ne(b.peers[3].fate, FATE_KEPT);
    ck_assert_int_eq(b.peers[0].fate == FATE_LEFT_OUT, rule == RULE_KRUM && b.peers[0].share == 0);
  }
}
END_TEST

/* Two bad ones of eight, together and far off, at what the bound leaves of 10^30. */
START_TEST(rules_that_choose_leave_bad_ones_out) {
  static const enum merge_rule choose[] = {RULE_KRUM, RULE_MULTI_KRUM, RULE_NNM, RULE_ROBUST};
  for (size_t k = 0; k < sizeof choose / sizeof *choose; k++) {
    struct bench b;
    fill(11);
    for (size_t i = 0; i < P; i++)
      copies[2][i] = copies[5][i] = 1e30f;
    bench_init(&b, choose[k], 8);
    b.m.bound = 5 * b.peers[0].distance;
    ck_assert_int_eq(merge(&b), ERR_OK);
    ck_assert_int_eq(b.peers[2].fate, FATE_LEFT_OUT);
    ck_assert_int_eq(b.peers[5].fate, FATE_LEFT_OUT);
    size_t n_kept = 0;
    for (size_t j = 0; j < 8; j++)
      n_kept += b.peers[j].fate == FATE_KEPT;
    ck_assert(choose[k] == RULE_KRUM ? n_kept <= 1 : n_kept == 6); /* Krum may choose oneself */
    ck_assert_double_lt(distance(merged, own), 1.5 * b.peers[0].distance);
  }
}
END_TEST

/* ---- what holds for all -------------------------------------------------------------------------------------------- */

START_TEST(nobody_changes_no_bit) {
  fill(1);
  x[0] = -0.0f;
  x[1] = 0x1p-149f;
  for (enum merge_rule rule = 0; rule < N_MERGE_RULES; rule++) {
    struct bench b;
    bench_init(&b, rule, 0);
    ck_assert_int_eq(merge(&b), ERR_OK);
    ck_assert_mem_eq(merged, x, sizeof x);
  }
}
END_TEST

static void shuffle(size_t *items, size_t n, struct rng *rng) {
  for (size_t i = n; i > 1; i--) {
    size_t k = (size_t)(rng_u64(rng) % i), held = items[i - 1];
    items[i - 1] = items[k];
    items[k] = held;
  }
}

/* Copies fill their places as they come; a merge takes them by key. */
START_TEST(the_order_of_arrival_changes_no_bit) {
  static float sent[MOST][P], first[P];
  struct rng rng;
  fill(3);
  memcpy(sent, copies, sizeof copies);
  rng_init(&rng, 4);
  for (enum merge_rule rule = 0; rule < N_MERGE_RULES; rule++)
    for (size_t run = 0; run < 100; run++) {
      size_t arrival[MOST];
      struct bench b;
      for (size_t j = 0; j < MOST; j++)
        arrival[j] = j;
      shuffle(arrival, MOST, &rng);
      memset(copies, 0, sizeof copies);
      bench_init(&b, rule, MOST);
      b.setting.bucket = merge_rule_takes_buckets(rule) ? 2 : 1;
      for (size_t j = 0; j < MOST; j++) {
        size_t key = arrival[j];
        memcpy(copies[key], sent[key], sizeof sent[key]);
        b.peers[key].distance = distance(copies[key], own);
      }
      ck_assert_int_eq(merge(&b), ERR_OK);
      if (run == 0)
        memcpy(first, merged, sizeof first);
      ck_assert_mem_eq(merged, first, sizeof first);
    }
}
END_TEST

START_TEST(what_is_not_finite_is_refused) {
  for (enum merge_rule rule = 0; rule < N_MERGE_RULES; rule++) {
    struct bench b;
    fill(9);
    for (size_t i = 0; i < P; i++) {
      x[i] = FLT_MAX;
      for (size_t j = 0; j < MOST; j++)
        copies[j][i] = FLT_MAX;
      own[i] = before[i] = -FLT_MAX;
    }
    bench_init(&b, rule, MOST);
    b.m.before = NULL;
    for (size_t j = 0; j < MOST; j++)
      b.peers[j].distance = 1; /* whoever measured it */
    ck_assert_int_eq(merge(&b), ERR_MERGE_REFUSED);
  }
}
END_TEST

/* Whatever one of them sends, the model is no further than that from where it would be without it. */
START_TEST(one_peer_moves_no_more_than_its_share_of_the_bound) {
  for (enum merge_rule rule = 0; rule < N_MERGE_RULES; rule++)
    for (size_t n_peers = 1; n_peers <= 2; n_peers++) {
      struct bench b;
      fill(21);
      for (size_t i = 0; i < P; i++)
        copies[0][i] = 100;
      if (n_peers == 2)
        memcpy(copies[1], own, sizeof own);
      bench_init(&b, rule, n_peers);
      b.setting.max_share = 0.2;
      b.m.bound = 3;
      b.m.before = NULL;
      b.peers[0].weight = 0.9;
      b.peers[1].weight = 0.1;
      ck_assert_int_eq(merge(&b), ERR_OK);
      ck_assert_double_le(distance(merged, x), 0.2 * 3 + 1e-4);
      ck_assert_double_le(b.peers[0].share, 0.2);
    }
}
END_TEST

START_TEST(a_peer_without_weight_takes_no_part) {
  for (enum merge_rule rule = 0; rule < N_MERGE_RULES; rule++) {
    static float without[P];
    struct bench b;
    fill(31);
    bench_init(&b, rule, 7);
    ck_assert_int_eq(merge(&b), ERR_OK);
    memcpy(without, merged, sizeof merged);
    bench_init(&b, rule, 8);
    b.setting.n_configured = 7;
    for (size_t j = 0; j < 7; j++)
      b.peers[j].weight = 1.0 / 8;
    b.peers[7].weight = 0;
    ck_assert_int_eq(merge(&b), ERR_OK);
    ck_assert_mem_eq(merged, without, sizeof merged);
  }
}
END_TEST

START_TEST(robust_is_clip_of_few_and_nnm_of_many) {
  static float other[P];
  static const struct {
    size_t n_heard;
    uint32_t n_configured;
    enum merge_rule is;
  } cases[] = {{5, 5, RULE_CLIP}, {6, 6, RULE_NNM}, {3, 6, RULE_NNM}, {2, 9, RULE_CLIP}, {9, 9, RULE_NNM}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    struct bench b;
    fill(41 + k);
    bench_init(&b, cases[k].is, cases[k].n_heard);
    ck_assert_int_eq(merge(&b), ERR_OK);
    memcpy(other, merged, sizeof merged);
    bench_init(&b, RULE_ROBUST, cases[k].n_heard);
    b.setting.n_configured = cases[k].n_configured;
    ck_assert_int_eq(merge(&b), ERR_OK);
    ck_assert_mem_eq(merged, other, sizeof merged);
  }
}
END_TEST

/* Where one's own step is not known, clip is what is left of trust. */
START_TEST(trust_without_a_root_is_clip) {
  static float other[P];
  struct bench b;
  fill(51);
  bench_init(&b, RULE_CLIP, 5);
  ck_assert_int_eq(merge(&b), ERR_OK);
  memcpy(other, merged, sizeof merged);
  bench_init(&b, RULE_TRUST, 5);
  b.m.before = NULL;
  ck_assert_int_eq(merge(&b), ERR_OK);
  ck_assert_mem_eq(merged, other, sizeof merged);
}
END_TEST

/* One of four has running values far off: trimmed by coordinate they stay among those of the others; under `local` they are
 * one's own. They drive no distance. */
START_TEST(statistics_are_trimmed) {
  struct statistic one = {.offset = 1000, .n = 100, .is_variance = true};
  const struct statistics s = {1, &one};
  for (enum merge_rule rule = RULE_MEDIAN; rule < N_MERGE_RULES; rule++)
    for (int is_local = 0; is_local < 2; is_local++) {
      struct bench b;
      fill(61);
      for (size_t i = 1000; i < 1100; i++) {
        x[i] = own[i] = 1;
        for (size_t j = 0; j < 5; j++)
          copies[j][i] = j == 2 ? 1e20f : (float)j;
      }
      bench_init(&b, rule, 5);
      b.m.statistics = &s;
      b.m.policy = is_local ? STATISTIC_LOCAL : STATISTIC_POOLED;
      for (size_t j = 0; j < 5; j++)
        b.peers[j].distance = learnt_distance(&s, copies[j], own, P);
      const float share = is_clip(rule, 5) || rule == RULE_CLIP ? 5.0f / 6 : 1;
      ck_assert_int_eq(merge(&b), ERR_OK);
      for (size_t i = 1000; i < 1100; i++)
        ck_assert_float_eq_tol(merged[i], is_local ? 1 : 1 + share * 1.25f,
                               1e-6f); /* 0 1 1 3 4 1e20 without the ends */
      ck_assert_double_lt(distance(merged, x), 100);
    }
}
END_TEST

/* A bad peer's variance of all but infinity: of one peer nothing is taken, of two nothing beyond those that are good. Under clip
 * by as much as the mixing weights say, each at most max_share. */
START_TEST(statistics_of_few_stay_among_good_ones) {
  struct statistic one = {.offset = 1000, .n = 100, .is_variance = true};
  const struct statistics s = {1, &one};
  for (enum merge_rule rule = RULE_MEDIAN; rule < N_MERGE_RULES; rule++)
    for (uint32_t f = 0; f < 2; f++)
      for (size_t n_peers = 1; n_peers <= 2; n_peers++) {
        struct bench b;
        fill(71);
        for (size_t i = 1000; i < 1100; i++) {
          x[i] = own[i] = 1;
          copies[0][i] = 3e38f;
          copies[1][i] = 2;
        }
        bench_init(&b, rule, n_peers);
        b.setting.byzantine = f > 0 ? RULE_A_THIRD : 0;
        b.setting.max_share = 0.25;
        b.m.statistics = &s;
        for (size_t j = 0; j < n_peers; j++)
          b.peers[j].distance = learnt_distance(&s, copies[j], own, P);
        ck_assert_int_eq(merge(&b), ERR_OK);
        const bool is_by_weight = rule_that_judges(&b.setting, n_peers) == RULE_CLIP;
        for (size_t i = 1000; i < 1100; i++)
          ck_assert_float_eq_tol(merged[i], n_peers == 1 ? 1 : is_by_weight ? 1.5f : 2, 1e-6f);
      }
}
END_TEST

START_TEST(f_is_what_is_said_or_a_third_as_far_as_it_is_borne) {
  struct rule_setting s = {.rule = RULE_NNM, .byzantine = RULE_A_THIRD};
  static const size_t thirds[] = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3};
  for (size_t m = 0; m < 10; m++)
    ck_assert_uint_eq(rule_byzantine(&s, m), thirds[m]);
  s = (struct rule_setting){.rule = RULE_KRUM, .byzantine = RULE_A_THIRD};
  ck_assert_uint_eq(rule_byzantine(&s, 3), 0); /* 4 models, and 5 would be needed */
  ck_assert_uint_eq(rule_byzantine(&s, 4), 1);
  s = (struct rule_setting){.rule = RULE_TRIMMED, .byzantine = RULE_A_THIRD, .bucket = 2};
  ck_assert_uint_eq(rule_byzantine(&s, 9), 2); /* 5 buckets */
  s = (struct rule_setting){.rule = RULE_CLIP, .byzantine = 9};
  ck_assert_uint_eq(rule_byzantine(&s, 4), 3);
}
END_TEST

START_TEST(clip_judges_where_f_cannot_be_borne) {
  static const struct {
    struct rule_setting s;
    size_t n_heard;
    enum merge_rule judges;
  } cases[] = {
      {{.rule = RULE_TRIMMED, .byzantine = 2}, 3, RULE_CLIP},
      {{.rule = RULE_TRIMMED, .byzantine = 2}, 4, RULE_TRIMMED},
      {{.rule = RULE_TRIMMED, .byzantine = 2, .bucket = 2}, 7, RULE_CLIP},
      {{.rule = RULE_TRIMMED, .byzantine = 2, .bucket = 2}, 8, RULE_TRIMMED},
      {{.rule = RULE_TRIMMED, .byzantine = 0}, 1, RULE_TRIMMED},
      {{.rule = RULE_TRIMMED, .byzantine = RULE_A_THIRD}, 2, RULE_CLIP},
      {{.rule = RULE_TRIMMED, .byzantine = RULE_A_THIRD}, 3, RULE_TRIMMED},
      {{.rule = RULE_KRUM, .byzantine = 1}, 3, RULE_CLIP},
      {{.rule = RULE_KRUM, .byzantine = 1}, 4, RULE_KRUM},
      {{.rule = RULE_KRUM, .byzantine = RULE_A_THIRD}, 3, RULE_CLIP},
      {{.rule = RULE_ROBUST, .byzantine = 2, .n_configured = 6}, 3, RULE_CLIP},
      {{.rule = RULE_ROBUST, .byzantine = 0, .n_configured = 6}, 2, RULE_CLIP},
      {{.rule = RULE_ROBUST, .byzantine = 2, .n_configured = 6}, 4, RULE_NNM},
      {{.rule = RULE_TRUST, .byzantine = RULE_A_THIRD}, 1, RULE_TRUST},
      {{.rule = RULE_MEAN}, 1, RULE_MEAN},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    ck_assert_msg(rule_that_judges(&cases[k].s, cases[k].n_heard) == cases[k].judges, "case %zu", k);
}
END_TEST

/* ---- by hand, in one dimension -------------------------------------------------------------------------------------- */

static void point_init(struct bench *b, enum merge_rule rule, float at, const float *peers, size_t n_peers) {
  bench_init(b, rule, n_peers);
  b->m.n_values = 1;
  x[0] = own[0] = at;
  before[0] = 0;
  for (size_t j = 0; j < n_peers; j++) {
    copies[j][0] = peers[j];
    b->peers[j].distance = fabs((double)peers[j] - (double)at);
  }
}

/* Two bad ones may be among 6, and two are heard: they weigh as two of seven, 2/7 · 4. */
START_TEST(two_bad_ones_that_are_heard_alone_do_no_more_than_among_six) {
  for (enum merge_rule rule = RULE_MEDIAN; rule < N_MERGE_RULES; rule++)
    for (uint32_t bucket = 1; bucket <= 1 + (uint32_t)merge_rule_takes_buckets(rule); bucket++) {
      static const float both[] = {4, 4};
      struct bench b;
      point_init(&b, rule, 0, both, 2);
      b.setting.byzantine = 2;
      b.setting.n_configured = 6;
      b.setting.bucket = bucket;
      b.m.before = NULL;
      b.peers[0].weight = b.peers[1].weight = 1.0 / 7;
      ck_assert_int_eq(merge(&b), ERR_OK);
      ck_assert_float_eq_tol(merged[0], 8.0f / 7, 1e-6f);
    }
}
END_TEST

/* All three say 10; the bound leaves 4 of it, and half of that may be gone. */
START_TEST(an_order_statistic_moves_no_more_than_the_bound_leaves) {
  static const enum merge_rule rules[] = {RULE_MEDIAN, RULE_TRIMMED, RULE_NNM};
  static const float three[] = {10, 10, 10};
  for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
    struct bench b;
    point_init(&b, rules[k], 0, three, 3);
    b.m.bound = 4;
    b.setting.max_share = 0.5;
    ck_assert_int_eq(merge(&b), ERR_OK);
    ck_assert_float_eq_tol(merged[0], 2, 1e-6f);
  }
}
END_TEST

/* What points the same way is made as long as one's own step, what points away or is nothing beside it counts as that: always 1. */
START_TEST(trust_takes_directions_alone_however_it_is_capped) {
  static const float peers[] = {1e-4f, 1e-30f, 0, -3, 1, 50};
  static const double caps[] = {0, 0.5, 0.2};
  for (size_t k = 0; k < sizeof peers / sizeof *peers; k++)
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
      struct bench b;
      point_init(&b, RULE_TRUST, 1, &peers[k], 1);
      b.setting.max_share = caps[i];
      ck_assert_int_eq(merge(&b), ERR_OK);
      ck_assert_float_eq_tol(merged[0], 1, 1e-6f);
      ck_assert_int_eq(b.peers[0].fate, peers[k] >= 1e-4f ? FATE_KEPT : FATE_LEFT_OUT);
      ck_assert_double_le(b.peers[0].share, 0.5);
    }
}
END_TEST

/* The public copy stayed behind x, as after an update that was not published: one's own step is that of x. */
START_TEST(trust_measures_by_x_and_caps_shares) {
  for (int is_withheld = 0; is_withheld < 2; is_withheld++) {
    struct bench b;
    fill(81);
    for (size_t i = 0; i < P && is_withheld; i++)
      own[i] = before[i] + 0.1f * (x[i] - before[i]);
    bench_init(&b, RULE_TRUST, 5);
    b.setting.max_share = 0.12;
    b.m.gamma = 0.75;
    ck_assert_int_eq(merge(&b), ERR_OK);
    check_twin(&b, RULE_TRUST);
  }
}
END_TEST

/* f = 1 of 0 1 3 7 100, two nearest each: 10, 5, 13, 52, 17458. The four best: 11/4; two would be 1/2. */
START_TEST(multi_krum_is_the_mean_of_all_that_may_be_good) {
  static const float peers[] = {1, 3, 7, 100};
  struct bench b;
  point_init(&b, RULE_MULTI_KRUM, 0, peers, 4);
  ck_assert_int_eq(merge(&b), ERR_OK);
  ck_assert_float_eq(merged[0], 2.75f);
}
END_TEST

/* ---- by hand -------------------------------------------------------------------------------------------------------- */

/* Points on a line at 0, 1, 3, 4 and 100. */
static void line(double squares[25]) {
  static const double at[] = {0, 1, 3, 4, 100};
  for (size_t i = 0; i < 5; i++)
    for (size_t j = 0; j < 5; j++)
      squares[5 * i + j] = (at[i] - at[j]) * (at[i] - at[j]);
}

/* f = 1: the two nearest squares: 1 + 9, 1 + 4, 1 + 4, 1 + 9, 96² + 97². */
START_TEST(krum_by_hand) {
  double squares[25], scratch[10], coefs[5];
  line(squares);
  judge_krum(squares, 5, 1, 1, scratch, coefs);
  for (size_t i = 0; i < 5; i++)
    ck_assert_double_eq(coefs[i], i == 1); /* the first of two that are equal */
  judge_krum(squares, 5, 1, 4, scratch, coefs);
  for (size_t i = 0; i < 5; i++)
    ck_assert_double_eq(coefs[i], i < 4 ? 0.25 : 0);
}
END_TEST

START_TEST(nearest_by_hand) {
  static const int among[5][5] = {{1, 1, 1, 0, 0}, {1, 1, 1, 0, 0}, {0, 1, 1, 1, 0}, {0, 1, 1, 1, 0}, {0, 0, 1, 1, 1}};
  double squares[25], scratch[5], mixing[25];
  line(squares);
  judge_nearest(squares, 5, 3, scratch, mixing);
  for (size_t i = 0; i < 25; i++)
    ck_assert_double_eq(mixing[i], among[i / 5][i % 5] ? 1.0 / 3 : 0);
}
END_TEST

/* Means of the first two, of the next two, and the last: 0.5, 3.5, 100. */
START_TEST(distances_of_mixtures_by_hand) {
  const double mixing[] = {0.5, 0.5, 0, 0, 0, 0, 0, 0.5, 0.5, 0, 0, 0, 0, 0, 1};
  static const double expected[] = {0, 9, 9900.25, 9, 0, 9312.25, 9900.25, 9312.25, 0};
  double squares[25], scratch[15], mixed[9];
  line(squares);
  judge_mixed(squares, 5, mixing, 3, scratch, mixed);
  for (size_t i = 0; i < 9; i++)
    ck_assert_double_eq_tol(mixed[i], expected[i], 1e-9);
}
END_TEST

START_TEST(buckets_hold_each_model_once) {
  uint32_t order[7];
  double mixing[28], other[28];
  ck_assert_uint_eq(judge_buckets(7, 2, 1, order, mixing), 4);
  for (size_t i = 0; i < 7; i++) {
    size_t n_rows = 0;
    for (size_t r = 0; r < 4; r++)
      n_rows += mixing[7 * r + i] > 0;
    ck_assert_uint_eq(n_rows, 1);
  }
  for (size_t r = 0; r < 4; r++) {
    double sum = 0;
    for (size_t i = 0; i < 7; i++)
      sum += mixing[7 * r + i];
    ck_assert_double_eq(sum, 1);
  }
  judge_buckets(7, 2, 2, order, other);
  size_t n_other = 0;
  for (size_t i = 0; i < 28; i++)
    n_other += (mixing[i] > 0) != (other[i] > 0);
  ck_assert_uint_gt(n_other, 0);
}
END_TEST

/* The middle one of three on a line is nearest to all; the mean is at 334. */
START_TEST(the_geometric_median_of_a_line_is_its_middle) {
  const double squares[] = {0, 1, 1e6, 1, 0, 998001, 1e6, 998001, 0};
  double scratch[6], coefs[3];
  judge_geometric_median(squares, 3, scratch, coefs);
  ck_assert_double_lt(fabs(coefs[1] + 1000 * coefs[2] - 1), 2);
}
END_TEST

/* 1 / DBL_MIN four times over is infinite. */
START_TEST(the_geometric_median_of_equals_is_any_of_them) {
  double squares[36] = {0}, scratch[12], coefs[6];
  judge_geometric_median(squares, 5, scratch, coefs);
  for (size_t i = 0; i < 5; i++)
    ck_assert_double_eq_tol(coefs[i], 0.2, 1e-15);
  for (size_t i = 0; i < 5; i++)
    squares[30 + i] = squares[6 * i + 5] = 9; /* and one more, elsewhere */
  judge_geometric_median(squares, 6, scratch, coefs);
  for (size_t i = 0; i < 6; i++)
    ck_assert_double_eq_tol(coefs[i], i < 5 ? 0.2 : 0, 1e-4);
}
END_TEST

int main(void) {
  return SUITE_RUN(
      "rule", every_rule_is_its_twin, what_is_far_is_judged_under_the_bound, rules_that_choose_leave_bad_ones_out,
      nobody_changes_no_bit, the_order_of_arrival_changes_no_bit, what_is_not_finite_is_refused,
      one_peer_moves_no_more_than_its_share_of_the_bound, a_peer_without_weight_takes_no_part,
      robust_is_clip_of_few_and_nnm_of_many, trust_without_a_root_is_clip, statistics_are_trimmed,
      statistics_of_few_stay_among_good_ones, f_is_what_is_said_or_a_third_as_far_as_it_is_borne,
      clip_judges_where_f_cannot_be_borne, two_bad_ones_that_are_heard_alone_do_no_more_than_among_six,
      an_order_statistic_moves_no_more_than_the_bound_leaves, trust_takes_directions_alone_however_it_is_capped,
      trust_measures_by_x_and_caps_shares, multi_krum_is_the_mean_of_all_that_may_be_good,
      the_geometric_median_of_equals_is_any_of_them, krum_by_hand, nearest_by_hand, distances_of_mixtures_by_hand,
      buckets_hold_each_model_once, the_geometric_median_of_a_line_is_its_middle);
}
