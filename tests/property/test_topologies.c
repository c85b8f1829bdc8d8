/* The topologies of a job, played by whole agents that all list each other. */
#include <string.h>

#include "base/must.h"
#include "tests/property/flock.h"
#include "tests/unit/suite.h"

enum { N = 6, COUNT = 20 };

static struct sim *flock_with(struct job_topology t) {
  struct sim *f = flock_new(N, 4);
  f->config.topology = t;
  f->config.count = COUNT;
  f->config.deadline_max_ms = 10000;
  sim_start_all(f);
  return f;
}

static bool is_beside(size_t a, size_t b) {
  return (a + 1) % N == b || (b + 1) % N == a;
}

START_TEST(in_a_ring_two_are_followed_and_the_others_cost_nothing) {
  struct sim *f = flock_with((struct job_topology){.rule = GRAPH_RING});
  for (size_t i = 0; i < N; i++)
    HOLDS(flock_until_round(f, i, COUNT, 100000));
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < N; j++) {
      if (i == j)
        continue;
      const struct round_peer *p = &f->agents[i]->machine->peers[sim_peer_index(f->agents[i], j)];
      HOLDS(round_peer_refusal(p) == (is_beside(i, j) ? ERR_OK : ERR_NOT_NEIGHBOUR));
      HOLDS((p->inbox.copy.position.sequence > 0) == is_beside(i, j)); /* nothing was fetched */
      HOLDS(p->inbox.n_remembered == 0 || is_beside(i, j));            /* nothing was even offered */
      for (size_t r = 0; r < COUNT; r++) {
        const struct flock_told *t = &flock_story(f->agents[i])->told[r];
        HOLDS(t->reasons[j] == (is_beside(i, j) ? ERR_OK : ERR_NOT_NEIGHBOUR));
        HOLDS(t->weights[j] == (is_beside(i, j) ? 1.0 / 3 : 0) && t->n_merged == 2);
      }
      HOLDS(flock_dropped(f, i, j, ERR_NOT_NEIGHBOUR) == 0); /* it is nobody's fault */
    }
  flock_free(f);
}
END_TEST

START_TEST(who_is_not_beside_us_is_not_waited_for) {
  struct sim *f = flock_with((struct job_topology){.rule = GRAPH_RING});
  HOLDS(flock_until_round(f, 0, 3, 100000));
  f->agents[3]->host.training_ms = 9000; /* opposite: its neighbours wait, we only for them */
  sim_kill(f, 2);
  sim_kill(f, 4);
  uint64_t from_ms = f->now_ms;
  HOLDS(flock_until_round(f, 0, 12, 100000));
  ck_assert_uint_le(f->now_ms - from_ms, 60000);
  HOLDS(flock_committed(f, 3).round < 12);
  flock_free(f);
}
END_TEST

static bool was_merged(const struct sim *f, size_t i, size_t j, uint64_t round) {
  const struct flock_story *s = flock_story(f->agents[i]);
  for (size_t r = 0; r < s->n_told; r++)
    if (s->told[r].label.round == round && s->told[r].label.sub == 0)
      return s->told[r].reasons[j] == ERR_OK;
  return false;
}

START_TEST(random_pairs_are_of_both_sides_and_all_agree) {
  struct sim *f = flock_with((struct job_topology){.rule = GRAPH_RANDOM, .k = 1});
  size_t n_met = 0;
  bool met[N][N] = {{false}};
  for (size_t i = 0; i < N; i++)
    HOLDS(flock_until_round(f, i, COUNT, 200000));
  for (uint64_t r = 1; r <= COUNT; r++)
    for (size_t i = 0; i < N; i++) {
      size_t n = 0;
      for (size_t j = 0; j < N; j++) {
        HOLDS(i == j || was_merged(f, i, j, r) == was_merged(f, j, i, r));
        n += i != j && was_merged(f, i, j, r);
        met[i][j] = met[i][j] || (i != j && was_merged(f, i, j, r));
      }
      HOLDS(n == 1);
    }
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < N; j++)
      n_met += met[i][j];
  ck_assert_uint_eq(n_met, (size_t)N * (N - 1)); /* in twenty rounds each was beside each */
  flock_free(f);
}
END_TEST

START_TEST(a_dead_one_costs_a_random_topology_few_sub_rounds) {
  struct sim *f = flock_with((struct job_topology){.rule = GRAPH_RANDOM, .k = 1});
  HOLDS(flock_until_round(f, 0, 3, 100000));
  sim_kill(f, 5);
  for (size_t i = 0; i < N - 1; i++)
    HOLDS(flock_until_round(f, i, COUNT, 600000));
  for (size_t i = 0; i < N - 1; i++) {
    size_t n_short = 0;
    for (size_t r = 0; r < flock_story(f->agents[i])->n_told; r++)
      n_short += flock_told(f, i, r)->outcome == ROUND_SHORT;
    HOLDS(flock_noted(f, i, "alone") == 0 && n_short <= ABSENT_AFTER + 1);
  }
  flock_free(f);
}
END_TEST

START_TEST(whoever_lists_other_members_is_not_waited_for_for_ever) {
  struct sim *f = flock_new(N, 4);
  f->config.topology = (struct job_topology){.rule = GRAPH_RING};
  f->config.deadline_max_ms = 10000;
  sim_forget(f, 0, 1); /* its ring has no 1 in it: 2 is beside it, which does not follow it back */
  sim_start_all(f);
  HOLDS(flock_until_round(f, 0, 10, 100000));
  HOLDS(flock_until_round(f, 2, 10, 100000));
  HOLDS(flock_standing(f, 0, 2) == ERR_NOT_FOLLOWING);
  flock_free(f);
}
END_TEST

int main(void) {
  return SUITE_RUN("topologies", in_a_ring_two_are_followed_and_the_others_cost_nothing,
                   who_is_not_beside_us_is_not_waited_for, random_pairs_are_of_both_sides_and_all_agree,
                   a_dead_one_costs_a_random_topology_few_sub_rounds,
                   whoever_lists_other_members_is_not_waited_for_for_ever);
}
