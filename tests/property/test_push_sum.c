/* Push-sum among whole agents: the mass of all is looked at after every event (SIM_INVARIANT_MASS). */
#include <math.h>
#include <string.h>

#include "base/must.h"
#include "tests/property/flock.h"
#include "tests/unit/suite.h"

enum { N = 8 };

static struct sim *flock_of_sums(void) {
  struct sim *f = flock_new(N, 4);
  sim_push_sum(f);
  f->config.topology = (struct job_topology){.rule = GRAPH_REGULAR, .k = 2, .is_directed = true};
  f->config.deadline_max_ms = 10000;
  return f;
}

static double mass(const struct sim *f, size_t i) {
  return f->agents[i]->mass.mu;
}

START_TEST(whoever_hears_of_others_takes_and_gives) {
  struct sim *f = flock_of_sums();
  size_t n;
  f->config.count = 40;
  sim_start_all(f);
  for (size_t i = 0; i < N; i++)
    HOLDS(flock_until_round(f, i, 40, 200000));
  HOLDS(fabs(sim_mass(f, &n) - N) < 1e-9 && n == N);
  for (size_t i = 0; i < N; i++) {
    size_t n_taken = 0;
    for (size_t k = 0; k < N - 1; k++)
      n_taken += f->agents[i]->mass.edges[k].taken > 10;
    HOLDS(n_taken >= 1 && n_taken <= 2 && mass(f, i) > 0.2 && mass(f, i) < 4);
    HOLDS(flock_told(f, i, 0)->n_merged == n_taken);
  }
  ck_assert_double_lt(sim_spread(f), (N - 1) / 2.0); /* each alone would be at a goal of its own, N - 1 apart */
  flock_free(f);
}
END_TEST

static uint64_t newest(const struct sim *f) {
  uint64_t round = 0;
  for (size_t i = 0; i < N; i++) {
    uint64_t own = f->agents[i]->durable.committed.round;
    round = own > round ? own : round;
  }
  HOLDS(f->now_ms < 20000000);
  return round;
}

START_TEST(a_fifth_of_all_lost_and_agents_that_come_and_go) {
  struct sim *f = flock_of_sums();
  struct rng rng;
  size_t n;
  rng_init(&rng, 5);
  f->default_link.loss = 0.2;
  sim_start_all(f);
  for (size_t r = 0; r < 500; r += 5) {
    size_t i = (size_t)rng_below(&rng, N);
    if (f->agents[i]->is_alive && r % 10 == 0)
      sim_kill(f, i);
    for (size_t k = 0; k < N; k++)
      if (!f->agents[k]->is_alive && (r % 10 == 5 || k != i))
        sim_start(f, k);
    while (newest(f) < r + 5)
      sim_run(f, 1000);
  }
  HOLDS(fabs(sim_mass(f, &n) - N) < 1e-6 && n == N);
  flock_free(f);
}
END_TEST

START_TEST(who_is_away_is_given_nothing_and_finds_what_was_its) {
  struct sim *f = flock_of_sums();
  size_t n;
  sim_start_all(f);
  HOLDS(flock_until_round(f, 0, 10, 100000));
  sim_kill(f, 3);
  HOLDS(flock_until_round(f, 0, 12, 100000));
  double given[N] = {0};
  for (size_t i = 0; i < N; i++)
    given[i] = i == 3 ? 0 : f->agents[i]->mass.edges[sim_peer_index(f->agents[i], 3)].told;
  HOLDS(flock_until_round(f, 0, 60, 1000000));
  for (size_t i = 0; i < N; i++)
    HOLDS(i == 3 || f->agents[i]->mass.edges[sim_peer_index(f->agents[i], 3)].told <= given[i]);
  double all = 0;
  for (size_t i = 0; i < N; i++)
    all += i == 3 ? 0 : mass(f, i);
  ck_assert_double_gt(all, N - 4); /* it does not drain away into who is not there */
  sim_start(f, 3);
  HOLDS(flock_until_round(f, 3, 70, 1000000));
  HOLDS(fabs(sim_mass(f, &n) - N) < 1e-9 && n == N);
  HOLDS(mass(f, 3) > 0.1);
  flock_free(f);
}
END_TEST

static void lie(struct manifest *m) {
  if (m->kind == MANIFEST_SUM)
    m->mu += 1000;
}

START_TEST(who_claims_more_than_there_is_is_refused) {
  struct sim *f = flock_of_sums();
  f->mass_is_void = true;
  sim_start_all(f);
  HOLDS(flock_until_round(f, 0, 10, 100000));
  f->agents[2]->lie_in_manifest = lie;
  HOLDS(flock_until_round(f, 0, 16, 1000000));
  uint64_t n_refused = 0;
  double all = 0;
  for (size_t i = 0; i < N; i++) {
    n_refused += i == 2 ? 0 : flock_dropped(f, i, 2, ERR_MASS);
    all += mass(f, i);
  }
  HOLDS(n_refused > 0);
  ck_assert_double_le(all, N + 1e-6);
  flock_free(f);
}
END_TEST

START_TEST(whose_disk_was_put_back_begins_with_one) {
  struct sim *f = flock_of_sums();
  sim_start_all(f);
  HOLDS(flock_until_round(f, 2, 6, 100000));
  struct sim_durable *backup = sim_back_up(f, 2);
  HOLDS(flock_until_round(f, 2, 12, 100000));
  sim_kill(f, 2);
  sim_restore(f, 2, backup);
  sim_durable_free(backup);
  sim_start(f, 2);
  HOLDS(flock_until_round(f, 2, 20, 1000000));
  HOLDS(f->agents[2]->mass.written_off > 0);
  double all = 0;
  for (size_t i = 0; i < N; i++)
    all += mass(f, i);
  ck_assert_double_le(all, N + 1);
  flock_free(f);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN("push-sum", 120, whoever_hears_of_others_takes_and_gives,
                          a_fifth_of_all_lost_and_agents_that_come_and_go,
                          who_is_away_is_given_nothing_and_finds_what_was_its, who_claims_more_than_there_is_is_refused,
                          whose_disk_was_put_back_begins_with_one);
}
