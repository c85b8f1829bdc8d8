#include "agent/sim/topology.h"

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

static const char *fault_random(size_t n, size_t degree) {
  return degree < n ? NULL : "degree: there are not so many other agents; write a smaller one";
}

static const char *fault_regular(size_t n, size_t degree) {
  if (degree % 2 != 0 || degree == 0)
    return "degree: of topology regular it is even; write 2, 4, 6 …";
  return degree < n ? NULL : "degree: there are not so many other agents; write a smaller one";
}

static const char *fault_dumbbell(size_t n, size_t degree) {
  (void)degree;
  return n >= 4 && n % 2 == 0 ? NULL : "agents: a dumbbell has two equal halves; write an even number from 4 on";
}

static const char *fault_besieged(size_t n, size_t degree) {
  (void)degree;
  return n >= 9 && n % 3 == 0 ? NULL : "agents: each of a besieged ring has two others; write 9, 12, 15 …";
}

static const struct {
  size_t (*degree)(size_t n, size_t degree);
  void (*connect)(struct sim *s, size_t degree);
  const char *(*fault)(size_t n, size_t degree); /* NULL: never one */
} topologies[] = {
    [TOPOLOGY_FULL] = {degree_full, connect_full, NULL},
    [TOPOLOGY_RING] = {degree_ring, connect_ring, NULL},
    [TOPOLOGY_RANDOM] = {degree_random, connect_random, fault_random},
    [TOPOLOGY_REGULAR] = {degree_regular, connect_regular, fault_regular},
    [TOPOLOGY_ALONE] = {degree_nobody, connect_nobody, NULL},
    [TOPOLOGY_DUMBBELL] = {degree_dumbbell, connect_dumbbell, fault_dumbbell},
    [TOPOLOGY_BESIEGED] = {degree_besieged, connect_besieged, fault_besieged},
};
_Static_assert(sizeof topologies / sizeof *topologies == N_TOPOLOGIES, "a row each");

size_t topology_degree(enum topology t, size_t n_agents, size_t degree) {
  size_t others = n_agents - 1, wanted = topologies[t].degree(n_agents, degree);
  return wanted < others ? wanted : others;
}

const char *topology_fault(enum topology t, size_t n_agents, size_t degree) {
  return topologies[t].fault ? topologies[t].fault(n_agents, degree) : NULL;
}

void topology_connect(enum topology t, struct sim *s, size_t degree) {
  topologies[t].connect(s, degree);
}
