#include "agent/sim/topology.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"

const char *const topology_words[] = {
#define X(symbol, word) word,
    SIM_TOPOLOGIES(X)
#undef X
        NULL};

/* ---- connecting ---- */

static void connect_all_of(struct sim *s, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    for (size_t k = i + 1; k < to; k++)
      sim_meet(s, i, k);
}

static void connect_full(struct sim *s, size_t degree) {
  (void)degree;
  connect_all_of(s, 0, s->n_agents);
}

static void connect_ring_of(struct sim *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    sim_meet(s, i, (i + 1) % n);
}

static void connect_ring(struct sim *s, size_t degree) {
  (void)degree;
  connect_ring_of(s, s->n_agents);
}

/* Each chooses `degree` others that have less than twice as many peers; the ring keeps it in one piece. */
static void connect_random(struct sim *s, size_t degree) {
  connect_ring(s, degree);
  for (size_t i = 0; i < s->n_agents; i++)
    for (size_t tries = 0; tries < 16 * degree && s->agents[i]->n_peers < degree; tries++) {
      size_t other = (size_t)rng_below(&s->rng, s->n_agents);
      if (s->agents[other]->n_peers < 2 * degree)
        sim_meet(s, i, other);
    }
}

/* One ring more through all, in an order in which no two are peers already where a few exchanges find one. */
static void connect_another_ring(struct sim *s, uint32_t *order) {
  size_t n = s->n_agents;
  rng_shuffle(&s->rng, order, n);
  for (size_t tries = 0; tries < 64 * n; tries++) {
    size_t i = tries % n, with = (size_t)rng_below(&s->rng, n), next = (i + 1) % n;
    if (sim_peer_index(s->agents[order[i]], order[next]) == SIZE_MAX)
      continue;
    uint32_t moved = order[next];
    order[next] = order[with];
    order[with] = moved;
  }
  for (size_t i = 0; i < n; i++)
    sim_meet(s, order[i], order[(i + 1) % n]);
}

static void connect_regular(struct sim *s, size_t degree) {
  uint32_t *order = calloc(s->n_agents, sizeof *order);
  MUST(order != NULL);
  for (size_t i = 0; i < s->n_agents; i++)
    order[i] = (uint32_t)i;
  for (size_t k = 0; k < degree / 2; k++)
    connect_another_ring(s, order);
  free(order);
}

static void connect_nobody(struct sim *s, size_t degree) {
  (void)s;
  (void)degree;
}

static void connect_dumbbell(struct sim *s, size_t degree) {
  (void)degree;
  size_t half = s->n_agents / 2;
  connect_all_of(s, 0, half);
  connect_all_of(s, half, s->n_agents);
  sim_meet(s, half - 1, half);
}

static void connect_besieged(struct sim *s, size_t degree) {
  (void)degree;
  size_t n = s->n_agents / 3;
  connect_ring_of(s, n);
  for (size_t i = n; i < s->n_agents; i++)
    sim_meet(s, (i - n) % n, i);
}

/* ---- how many peers ---- */

static size_t degree_full(size_t n, size_t degree) {
  (void)degree;
  return n - 1;
}

static size_t degree_ring(size_t n, size_t degree) {
  (void)n;
  (void)degree;
  return 2;
}

static size_t degree_random(size_t n, size_t degree) {
  (void)n;
  return 2 * degree;
}

static size_t degree_regular(size_t n, size_t degree) {
  (void)n;
  return degree;
}

static size_t degree_nobody(size_t n, size_t degree) {
  (void)n;
  (void)degree;
  return 0;
}

static size_t degree_dumbbell(size_t n, size_t degree) {
  (void)degree;
  return n / 2;
}

static size_t degree_besieged(size_t n, size_t degree) {
  (void)n;
  (void)degree;
  return 4;
}

/* ---- what is possible ---- */

__attribute__((format(printf, 2, 3))) static enum err refuse(char *why, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, MAX_REASON_BYTES, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized)
  va_end(arguments);
  return ERR_RANGE;
}

static enum err check_random(size_t n, size_t degree, char *why) {
  return degree < n
             ? ERR_OK
             : refuse(why, "degree: %zu, and there are only %zu other agents; write a smaller one", degree, n - 1);
}

static enum err check_regular(size_t n, size_t degree, char *why) {
  return degree % 2 == 0 ? check_random(n, degree, why)
                         : refuse(why, "degree: %zu, of topology regular it is even; write 2, 4, 6 …", degree);
}

static enum err check_dumbbell(size_t n, size_t degree, char *why) {
  (void)degree;
  return n >= 4 && n % 2 == 0
             ? ERR_OK
             : refuse(why, "agents: %zu, a dumbbell has two equal halves; write an even number from 4 on", n);
}

static enum err check_besieged(size_t n, size_t degree, char *why) {
  (void)degree;
  return n >= 9 && n % 3 == 0
             ? ERR_OK
             : refuse(why, "agents: %zu, each of a besieged ring has two others; write 9, 12, 15 …", n);
}

static const struct {
  size_t (*degree)(size_t n, size_t degree);
  void (*connect)(struct sim *s, size_t degree);
  enum err (*check)(size_t n, size_t degree, char *why); /* NULL: it always goes */
} topologies[] = {
    [TOPOLOGY_FULL] = {degree_full, connect_full, NULL},
    [TOPOLOGY_RING] = {degree_ring, connect_ring, NULL},
    [TOPOLOGY_RANDOM] = {degree_random, connect_random, check_random},
    [TOPOLOGY_REGULAR] = {degree_regular, connect_regular, check_regular},
    [TOPOLOGY_ALONE] = {degree_nobody, connect_nobody, NULL},
    [TOPOLOGY_DUMBBELL] = {degree_dumbbell, connect_dumbbell, check_dumbbell},
    [TOPOLOGY_BESIEGED] = {degree_besieged, connect_besieged, check_besieged},
};
_Static_assert(sizeof topologies / sizeof *topologies == N_TOPOLOGIES, "a row each");

size_t topology_degree(enum topology t, size_t n_agents, size_t degree) {
  size_t others = n_agents - 1, wanted = topologies[t].degree(n_agents, degree);
  return wanted < others ? wanted : others;
}

enum err topology_check(enum topology t, size_t n_agents, size_t degree, char out_why[MAX_REASON_BYTES]) {
  return topologies[t].check ? topologies[t].check(n_agents, degree, out_why) : ERR_OK;
}

void topology_connect(enum topology t, struct sim *s, size_t degree) {
  topologies[t].connect(s, degree);
}
