/* A thousand agents that learn and keep tables of each other on a bad network, with agents that come and go: what must always hold
 * (agent/sim/invariants.h) holds, and one seed is one story. That each invariant can break is a test of its own
 * (tests/unit/agent/test_sim.c); here it is one that a swarm of this size would hide best. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/sim/sim.h"
#include "crypto/random.h"
#include "gossip/node.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

enum { DEGREE = 4, SLICES = 10 /* of a round */, LIMIT_S = 6 * SUITE_LIMIT_S };

static const uint64_t SLICE_MS = 1000, ROUND_MS = 10000, DOWN_MS = 30000, MEETING_MS = 60000;

static const double LOSS = 0.2, DUPLICATE = 0.01, REORDER = 0.05, CHURN = 0.01; /* churn: of a round */

/* Two rings of different steps. */
static struct sim *swarm_new(size_t n, uint64_t seed) {
  static const size_t steps[DEGREE / 2] = {1, 27};
  struct sim *s = sim_new_as(SIM_PROTOCOL, n, 4, seed);
  s->max_members = MAX_MEMBERS;
  s->default_link.loss = LOSS;
  s->default_link.duplicate = DUPLICATE;
  s->default_link.reorder = REORDER;
  s->config.every_ms = ROUND_MS;
  s->config.deadline_max_ms = ROUND_MS;
  for (size_t i = 0; i < n; i++) {
    s->agents[i]->host.training_ms = 1000;
    for (size_t k = 0; k < DEGREE / 2; k++)
      sim_meet(s, i, (i + steps[k]) % n);
  }
  return s;
}

/* Who is down, in the order in which they went, and how many should have gone by now. */
struct churn {
  size_t *down;
  uint64_t *since_ms;
  size_t n_gone, n_back;
  double owed;
};

static void churn_step(struct churn *c, struct sim *s, struct rng *rng) {
  while (c->n_back < c->n_gone && s->now_ms >= c->since_ms[c->n_back] + DOWN_MS)
    sim_start(s, c->down[c->n_back++]);
  c->owed += CHURN * (double)s->n_agents / SLICES;
  while (c->owed >= 1) {
    c->owed -= 1;
    size_t which = (size_t)rng_below(rng, s->n_agents);
    if (!s->agents[which]->is_alive)
      continue;
    sim_kill(s, which);
    c->down[c->n_gone] = which;
    c->since_ms[c->n_gone++] = s->now_ms;
  }
}

/* Somebody restarts and forgets what it has committed. */
static void forget(struct sim *s) {
  size_t which = 0;
  while (!s->agents[which]->is_alive)
    which++;
  sim_kill(s, which);
  sim_start(s, which);
  sim_run(s, SLICE_MS);
  s->agents[which]->machine->committed.round = 0;
}

struct story {
  uint64_t trace, n_broken, least_rounds, n_events;
  size_t n_restarts;
};

static void on_broken(void *context, const struct sim_agent *a, enum sim_invariant i) {
  (void)context;
  printf("  agent %zu at %.3f s: not true that %s\n", a->number, (double)(a->sim->now_ms - SIM_START_MS) / 1000,
         sim_invariant_sentence(i));
}

/* `spoils`: in the middle somebody forgets. */
static struct story live(size_t n, size_t n_rounds, uint64_t seed, bool spoils) {
  struct sim *s = swarm_new(n, seed);
  size_t n_slices = n_rounds * SLICES, most = n_slices * (size_t)(CHURN * (double)n / SLICES + 1);
  struct churn c = {.down = calloc(most, sizeof(size_t)), .since_ms = calloc(most, sizeof(uint64_t))};
  struct rng rng;
  ck_assert(c.down && c.since_ms);
  rng_init(&rng, seed);
  if (!spoils)
    s->watch.broken = on_broken;
  sim_start_all(s);
  sim_run(s, MEETING_MS);
  for (size_t i = 0; i < n_slices && s->n_broken == 0; i++) {
    churn_step(&c, s, &rng);
    sim_run(s, SLICE_MS);
    sim_check_all(s);
    if (spoils && i == n_slices / 2)
      forget(s);
  }
  struct story told = {.trace = s->trace,
                       .n_broken = s->n_broken,
                       .n_events = s->n_events,
                       .n_restarts = c.n_back,
                       .least_rounds = UINT64_MAX};
  for (size_t i = 0; i < n; i++)
    if (s->agents[i]->durable.committed.round < told.least_rounds)
      told.least_rounds = s->agents[i]->durable.committed.round;
  free(c.down);
  free(c.since_ms);
  sim_free(s);
  return told;
}

START_TEST(on_a_bad_network_with_churn_everything_holds_and_a_seed_is_a_story) {
  size_t n = sized(60, 200, 1000), n_rounds = sized(10, 20, 40), n_seeds = 1;
  ck_assert_int_eq(random_open(), ERR_OK);
  for (uint64_t seed = 1; seed <= n_seeds; seed++) {
    struct story a = live(n, n_rounds, seed, false), b = live(n, n_rounds, seed, false);
    printf("  %zu agents, %zu rounds, seed %d: %.1f million events, %zu restarts, at least %d rounds committed, trace "
           "%016llx\n",
           n, n_rounds, (int)seed, (double)a.n_events / 1e6, a.n_restarts, (int)a.least_rounds,
           (unsigned long long)a.trace);
    ck_assert_uint_eq(a.n_broken, 0);
    ck_assert_uint_eq(a.trace, b.trace);
    ck_assert_uint_gt(a.n_restarts, 0);
    ck_assert_uint_gt(a.least_rounds, 0);
  }
}
END_TEST

START_TEST(another_seed_is_another_story_and_one_forgotten_commit_is_found) {
  size_t n = sized(60, 100, 1000);
  ck_assert_int_eq(random_open(), ERR_OK);
  struct story a = live(n, 6, 1, false), b = live(n, 6, 2, false), spoilt = live(n, 6, 1, true);
  ck_assert_uint_ne(a.trace, b.trace);
  ck_assert_uint_eq(a.n_broken + b.n_broken, 0);
  ck_assert_uint_gt(spoilt.n_broken, 0);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN("thousand", LIMIT_S, on_a_bad_network_with_churn_everything_holds_and_a_seed_is_a_story,
                          another_seed_is_another_story_and_one_forgotten_commit_is_found);
}
