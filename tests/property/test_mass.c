/* Push-sum over messages that are lost, late, doubled and out of order, among agents that come and go: no mass is lost or made. And
 * what it is for: on a directed graph it finds the mean, which plain averaging with the same weights does not. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/core/mass.h"
#include "agent/core/topology.h"
#include "base/rng.h"
#include "tests/unit/suite.h"

enum { N = 12, P = 5, KEPT = 4, ROUNDS = 500 };

struct sum_sent {
  uint64_t sequence;
  double mass, told[N];
  float values[P];
};

struct site {
  bool is_here;
  struct mass mass; /* edges of all N, its own unused */
  float z[P], sum[P], copies[N][P];
  uint64_t account, sequence;
  bool has_taken[N]; /* of ours, as it told */
  struct sum_sent kept[KEPT];
};

static struct site sites[N];
static double n_now; /* what Σμ is to be */
static struct rng rng;

static void join(size_t i, uint64_t account) {
  struct site *s = &sites[i];
  mass_done(&s->mass);
  *s = (struct site){.is_here = true, .account = account};
  ck_assert_int_eq(mass_open(N, N, &s->mass), ERR_OK);
  for (size_t k = 0; k < P; k++)
    s->z[k] = (float)rng_unit(&rng);
  for (size_t k = 0; k < N; k++)
    sites[k].has_taken[i] = false;
  n_now += 1;
}

static double on_its_way(size_t from, size_t to) {
  const struct mass_edge *at = &sites[to].mass.edges[from];
  bool is_one = at->has_base && at->account == sites[from].account;
  return is_one ? sites[from].mass.edges[to].told - at->taken : 0;
}

static double all_mass(void) {
  double all = 0;
  for (size_t i = 0; i < N; i++) {
    if (!sites[i].is_here)
      continue;
    all += sites[i].mass.mu;
    for (size_t k = 0; k < N; k++)
      all += sites[k].is_here ? on_its_way(i, k) : 0;
  }
  return all;
}

/* For good: what it held and what was on its way from and to it. */
static void leave(size_t i) {
  double before = all_mass();
  sites[i].is_here = false;
  n_now -= before - all_mass();
}

static void publish(size_t i, const struct graph *g) {
  struct site *s = &sites[i];
  bool told[N];
  for (size_t k = 0; k < N; k++)
    told[k] = sites[k].is_here && s->has_taken[k] && graph_hears(g, k, i);
  const struct push p = mass_push(&s->mass, told);
  struct sum_sent *out = &s->kept[++s->sequence % KEPT];
  *out = (struct sum_sent){.sequence = s->sequence, .mass = s->mass.sent};
  for (size_t k = 0; k < N; k++)
    out->told[k] = s->mass.edges[k].told;
  ck_assert_int_eq(push_sum_push(&p, s->z, s->sum, P, out->values), ERR_OK);
  memcpy(s->sum, out->values, sizeof s->sum);
}

static void receive(size_t i, size_t from, const struct sum_sent *m) {
  struct site *s = &sites[i];
  const struct mass_claim claim = {m->mass, m->told[i], sites[from].account, m->sequence};
  struct mass_taken taken;
  double u[P], before = s->mass.mu;
  ck_assert_int_eq(mass_take(&s->mass, from, &claim, &taken), ERR_OK);
  if (taken.what == MASS_NOTHING)
    return;
  push_sum_begin(before, s->z, P, u);
  push_sum_take(taken.share, m->values, s->copies[from], P, u);
  ck_assert_int_eq(push_sum_end(s->mass.mu, u, P, s->z), ERR_OK);
}

static double most_off; /* of |Σμ − N| */

static void holds(void) {
  most_off = fmax(most_off, fabs(all_mass() - n_now));
  ck_assert_double_le(most_off, 1e-6);
}

/* One of the last few, or none, and an answer that is lost as well. */
static void exchange(size_t i, size_t from, double loss) {
  const struct site *s = &sites[from];
  for (int copy = 0; copy < 1 + (rng_unit(&rng) < 0.1); copy++) {
    uint64_t back = loss > 0 ? rng_below(&rng, 2) : 0;
    if (s->sequence <= back || rng_unit(&rng) < loss)
      continue;
    receive(i, from, &s->kept[(s->sequence - back) % KEPT]);
    holds();
  }
  if (sites[i].mass.edges[from].has_base && sites[i].mass.edges[from].account == s->account && rng_unit(&rng) >= loss)
    sites[from].has_taken[i] = true;
}

static void run_round(const struct graph *g, double loss) {
  for (size_t i = 0; i < N; i++)
    if (sites[i].is_here) {
      publish(i, g);
      holds();
    }
  for (size_t i = 0; i < N; i++)
    for (size_t k = 0; k < N; k++)
      if (sites[i].is_here && sites[k].is_here && graph_hears(g, i, k))
        exchange(i, k, loss);
}

static struct graph directed(uint64_t seed) {
  const struct job_topology t = {.rule = GRAPH_REGULAR, .k = 2, .is_directed = true};
  struct graph g;
  ck_assert_int_eq(graph_make(&t, N, seed, 0, &g), ERR_OK);
  return g;
}

static void begin(uint64_t seed) {
  rng_init(&rng, seed);
  n_now = 0;
  for (size_t i = 0; i < N; i++)
    join(i, 1);
}

static void end(void) {
  for (size_t i = 0; i < N; i++) {
    mass_done(&sites[i].mass);
    sites[i].is_here = false;
  }
}

START_TEST(no_mass_is_lost_or_made) {
  begin(7);
  uint64_t epoch = 2;
  size_t n_left = 0, n_joined = 0;
  for (uint64_t r = 0; r < ROUNDS; r++) {
    struct graph g = directed(r / 50); /* time-varying */
    size_t i = (size_t)rng_below(&rng, N);
    if (r % 10 == 5 && sites[i].is_here) {
      leave(i);
      n_left++;
    } else if (r % 10 >= 7 && !sites[i].is_here) {
      join(i, epoch++);
      n_joined++;
    }
    holds();
    run_round(&g, 0.2);
    graph_done(&g);
  }
  printf("%d rounds, 20 %% lost, %zu left and %zu joined: |sum of mass - N| at most %.2e\n", ROUNDS, n_left, n_joined,
         most_off);
  ck_assert_uint_gt(n_left, 10);
  ck_assert_uint_gt(n_joined, 10);
  end();
}
END_TEST

/* It is not reached for a while; what it then finds is its own. */
START_TEST(who_is_away_for_a_while_loses_nothing) {
  begin(3);
  struct graph g = directed(1);
  for (int r = 0; r < 20; r++)
    run_round(&g, 0);
  sites[4].is_here = false; /* its state is kept */
  n_now -= sites[4].mass.mu;
  double held = sites[4].mass.mu;
  for (size_t k = 0; k < N; k++)
    n_now -= on_its_way(k, 4) + on_its_way(4, k);
  for (int r = 0; r < 3; r++)
    run_round(&g, 0);
  sites[4].is_here = true;
  n_now += held;
  for (size_t k = 0; k < N; k++)
    n_now += on_its_way(k, 4) + on_its_way(4, k);
  ck_assert_double_eq_tol(n_now, N, 1e-9);
  for (int r = 0; r < 3; r++)
    run_round(&g, 0);
  graph_done(&g);
  end();
}
END_TEST

/* A circle, so that everybody hears of everybody in the end, and any other edge with chance 1/4: columns are unequal. */
static struct graph random_directed(void) {
  struct graph g = directed(1);
  for (size_t i = 0; i < N; i++)
    for (size_t k = 0; k < N; k++)
      g.hears[i * N + k] = i != k && (i == (k + 1) % N || rng_unit(&rng) < 0.25);
  return g;
}

static double apart(const double *x, double mean) {
  double most = 0;
  for (size_t i = 0; i < N; i++)
    most = fmax(most, fabs(x[i] - mean));
  return most;
}

/* A round with the same weights, in which each takes what it is given for a part of the mean. */
static void average_plainly(const struct graph *g, double x[N]) {
  double next[N] = {0};
  for (size_t i = 0; i < N; i++)
    for (size_t k = 0; k < N; k++)
      if (i == k || graph_hears(g, i, k))
        next[i] += x[k] / (double)(graph_out_degree(g, k) + 1);
  memcpy(x, next, sizeof next);
}

/* How far from the mean both are after 30 rounds, in parts of it. */
static void seek_mean(uint64_t seed, double *out_push_sum, double *out_plain) {
  double mean = 0, plain[N], z[N];
  begin(seed);
  struct graph g = random_directed();
  run_round(&g, 0); /* everybody has a base of everybody's that it hears */
  for (size_t i = 0; i < N; i++) {
    sites[i].z[0] = (float)(i * i);
    plain[i] = (double)(i * i);
    mean += plain[i] / N;
  }
  for (int r = 0; r < 30; r++) {
    run_round(&g, 0);
    average_plainly(&g, plain);
  }
  for (size_t i = 0; i < N; i++)
    z[i] = (double)sites[i].z[0];
  *out_push_sum = apart(z, mean) / mean;
  *out_plain = apart(plain, mean) / mean;
  graph_done(&g);
  end();
}

START_TEST(the_mean_is_found_and_plain_averaging_finds_another) {
  enum { GRAPHS = 20 };
  double most = 0, least = INFINITY;
  for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
    double push_sum, plain;
    seek_mean(seed, &push_sum, &plain);
    most = fmax(most, push_sum);
    least = fmin(least, plain);
  }
  printf("of %d random directed graphs, after 30 rounds, in parts of the mean: push-sum at most %.2e apart, plain "
         "averaging with the "
         "same weights at least %.2e\n",
         GRAPHS, most, least);
  ck_assert_double_lt(most, 1e-3);
  ck_assert_double_gt(least, 0.1);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN("mass", 60, no_mass_is_lost_or_made, who_is_away_for_a_while_loses_nothing,
                          the_mean_is_found_and_plain_averaging_finds_another);
}
