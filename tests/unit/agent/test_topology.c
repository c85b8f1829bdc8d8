#include "agent/core/topology.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"
#include "tests/unit/suite.h"

/* ck_assert tells the runner of every success, which costs more than a graph. */
#define HOLDS(condition) ((condition) ? (void)0 : ck_abort_msg("%s:%d: %s", __FILE__, __LINE__, #condition))

static struct graph made(struct job_topology t, size_t n, uint64_t seed, uint64_t round) {
  struct graph g;
  char why[MAX_REASON_BYTES];
  HOLDS(job_topology_check(&t, n, why) == ERR_OK);
  HOLDS(graph_make(&t, n, seed, round, &g) == ERR_OK);
  return g;
}

static bool is_symmetric(const struct graph *g) {
  for (size_t i = 0; i < g->n; i++)
    for (size_t j = 0; j < g->n; j++)
      if (graph_hears(g, i, j) != graph_hears(g, j, i) || graph_hears(g, i, i))
        return false;
  return true;
}

static bool is_possible(const struct job_topology *t, size_t n) {
  char why[MAX_REASON_BYTES];
  return job_topology_check(t, n, why) == ERR_OK;
}

START_TEST(every_undirected_graph_is_symmetric_and_has_its_degrees) {
  for (size_t n = 1; n <= 24; n++)
    for (enum graph_rule rule = 0; rule < N_GRAPH_RULES; rule++)
      for (uint32_t k = 1; k < 7; k++) {
        struct job_topology t = {.rule = rule, .k = graph_rule_has_number(rule) ? k : 0};
        if (!is_possible(&t, n))
          continue;
        struct graph g = made(t, n, n + k, 7);
        HOLDS(is_symmetric(&g));
        size_t n_less = 0;
        for (size_t i = 0; i < n; i++) {
          n_less += graph_in_degree(&g, i) + 1 == job_topology_degree(&t, n);
          HOLDS(graph_in_degree(&g, i) == job_topology_degree(&t, n) ||
                graph_in_degree(&g, i) + 1 == job_topology_degree(&t, n));
        }
        HOLDS(n_less == (rule == GRAPH_RANDOM && k % 2 == 1 && n % 2 == 1 && n > 1)); /* one may be without a partner */
        HOLDS(rule == GRAPH_RANDOM || graph_is_connected(&g));
        HOLDS(job_topology_follows(&t, n) >= job_topology_degree(&t, n));
        graph_done(&g);
      }
}
END_TEST

START_TEST(every_directed_graph_is_strongly_connected_and_bounded) {
  for (size_t n = 2; n <= 24; n++)
    for (enum graph_rule rule = 0; rule < GRAPH_RANDOM; rule++)
      for (uint32_t k = 1; k < 5; k++) {
        struct job_topology t = {.rule = rule, .k = graph_rule_has_number(rule) ? k : 0, .is_directed = true};
        if (!is_possible(&t, n))
          continue;
        struct graph g = made(t, n, n + k, 0);
        HOLDS(graph_is_connected(&g));
        for (size_t i = 0; i < n; i++) {
          HOLDS(graph_out_degree(&g, i) >= 1 && graph_out_degree(&g, i) <= job_topology_degree(&t, n));
          HOLDS(graph_in_degree(&g, i) >= 1 && graph_in_degree(&g, i) <= job_topology_follows(&t, n));
        }
        HOLDS(n < 4 || rule != GRAPH_RING || !is_symmetric(&g));
        graph_done(&g);
      }
}
END_TEST

START_TEST(known_graphs) {
  struct graph ring = made((struct job_topology){.rule = GRAPH_RING}, 5, 1, 0);
  ck_assert(graph_hears(&ring, 0, 1) && graph_hears(&ring, 0, 4) && !graph_hears(&ring, 0, 2));
  graph_done(&ring);
  struct graph exponential = made((struct job_topology){.rule = GRAPH_EXPONENTIAL}, 16, 1, 0);
  for (size_t j = 1; j < 16; j++)
    ck_assert_int_eq(graph_hears(&exponential, 0, j),
                     j == 1 || j == 2 || j == 4 || j == 8 || j == 15 || j == 14 || j == 12);
  graph_done(&exponential);
  struct graph one_way = made((struct job_topology){.rule = GRAPH_EXPONENTIAL, .is_directed = true}, 6, 1, 0);
  ck_assert(graph_hears(&one_way, 1, 0) && graph_hears(&one_way, 2, 0) && graph_hears(&one_way, 4, 0));
  ck_assert(!graph_hears(&one_way, 5, 0) && !graph_hears(&one_way, 3, 0));
  graph_done(&one_way);
}
END_TEST

/* Roster positions are all that a graph is made of: every agent sorts what it lists, in whatever order that came. */
START_TEST(all_agents_make_the_same_graph_and_another_seed_another) {
  const struct job_topology t = {.rule = GRAPH_REGULAR, .k = 4};
  struct graph a = made(t, 20, 5, 0), b = made(t, 20, 5, 3), c = made(t, 20, 6, 0);
  ck_assert_mem_eq(a.hears, b.hears, 400); /* it does not rotate */
  ck_assert_mem_ne(a.hears, c.hears, 400);
  graph_done(&a);
  graph_done(&b);
  graph_done(&c);
}
END_TEST

START_TEST(random_is_another_each_round_and_the_union_connects) {
  const struct job_topology t = {.rule = GRAPH_RANDOM, .k = 1};
  const size_t n = 12, n_rounds = 30;
  struct graph all = made(t, n, 9, 0);
  size_t n_alike = 0;
  for (uint64_t round = 1; round < n_rounds; round++) {
    struct graph g = made(t, n, 9, round), again = made(t, n, 9, round);
    ck_assert_mem_eq(g.hears, again.hears, n * n);
    n_alike += memcmp(g.hears, all.hears, n * n) == 0;
    for (size_t i = 0; i < n * n; i++)
      all.hears[i] = all.hears[i] || g.hears[i];
    graph_done(&g);
    graph_done(&again);
  }
  ck_assert(graph_is_connected(&all));
  ck_assert_uint_eq(n_alike, 0);
  graph_done(&all);
}
END_TEST

START_TEST(what_cannot_be_is_refused_with_what_can) {
  static const struct {
    struct job_topology t;
    size_t n;
    const char *says;
  } bad[] = {{{GRAPH_REGULAR, 4, false}, 4, "write at most regular 3"},
             {{GRAPH_REGULAR, 3, false}, 7, "write regular 2"},
             {{GRAPH_REGULAR, 1, false}, 4, "write regular 2 or more"},
             {{GRAPH_RANDOM, 9, false}, 5, "write at most random 4"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char why[MAX_REASON_BYTES] = "";
    ck_assert_int_eq(job_topology_check(&bad[i].t, bad[i].n, why), ERR_RANGE);
    ck_assert_msg(strstr(why, bad[i].says) != NULL, "%s", why);
    ck_assert(job_topology_check(&bad[i].t, 1, why) == ERR_OK); /* alone: the same job file without peers */
  }
}
END_TEST

/* METHODS 2.1: 1 − ρ ≈ 4π²/(3N²) of a ring; a full graph agrees at once; a random 3-regular one hardly hangs on N. */
START_TEST(the_spectral_gap_is_that_of_theory) {
  double gap;
  for (size_t n = 10; n <= 40; n += 10) {
    struct graph ring = made((struct job_topology){.rule = GRAPH_RING}, n, 1, 0);
    double exact = 1 - (1 + 2 * cos(2 * M_PI / (double)n)) / 3;
    ck_assert_int_eq(graph_spectral_gap(&ring, &gap), ERR_OK);
    ck_assert_double_eq_tol(gap, exact, 1e-3 * exact + 1e-4);
    ck_assert_double_eq_tol(gap, 4 * M_PI * M_PI / (3 * (double)(n * n)), 0.01);
    graph_done(&ring);
    struct graph full = made((struct job_topology){.rule = GRAPH_FULL}, n, 1, 0);
    ck_assert_int_eq(graph_spectral_gap(&full, &gap), ERR_OK);
    ck_assert_double_eq_tol(gap, 1, 1e-9);
    graph_done(&full);
    struct graph regular = made((struct job_topology){.rule = GRAPH_REGULAR, .k = 3}, n, 1, 0);
    ck_assert_int_eq(graph_spectral_gap(&regular, &gap), ERR_OK);
    ck_assert_double_gt(gap, 0.05);
    graph_done(&regular);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/topology", every_undirected_graph_is_symmetric_and_has_its_degrees,
                   every_directed_graph_is_strongly_connected_and_bounded, known_graphs,
                   all_agents_make_the_same_graph_and_another_seed_another,
                   random_is_another_each_round_and_the_union_connects, what_cannot_be_is_refused_with_what_can,
                   the_spectral_gap_is_that_of_theory);
}
