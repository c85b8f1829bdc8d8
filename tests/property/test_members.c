/* Membership of whole agents in virtual time: what a swarm says of its members when hosts die, restart together, go deaf or lose
 * frames, and what saying so costs. Agents train for ever here, so that nothing but control is sent. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sim/sim.h"
#include "crypto/random.h"
#include "gossip/node.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

static const uint64_t SECOND_MS = 1000, MINUTE_MS = 60000, FAR_MS = UINT64_C(1) << 40;

/* n agents of `degree` (0, 4, 8; 0: all others) peers each; nobody runs. */
static struct sim *swarm_new(size_t n, size_t degree, uint64_t seed) {
  static const size_t steps[] = {1, 3, 9, 27};
  ck_assert_int_eq(random_open(), ERR_OK);
  struct sim *s = sim_new_as(SIM_PROTOCOL, n, 1, seed);
  s->max_members = MAX_MEMBERS;
  for (size_t i = 0; i < n; i++) {
    s->agents[i]->host.training_ms = FAR_MS;
    for (size_t k = 0; k < degree / 2; k++)
      sim_meet(s, i, (i + steps[k]) % n);
    for (size_t k = 0; degree == 0 && k < i; k++)
      sim_meet(s, i, k);
  }
  return s;
}

static const struct member *row(const struct sim *s, size_t observer, size_t about) {
  return members_find(s->agents[observer]->node->members, &s->agents[about]->key);
}

static enum member_state state_at(const struct sim *s, size_t observer, size_t about) {
  const struct member *m = row(s, observer, about);
  return m ? m->state : MEMBER_ABSENT;
}

/* Pairs of living agents of which the first has the second in this state. */
static size_t count_pairs(const struct sim *s, enum member_state state) {
  size_t n = 0;
  for (size_t i = 0; i < s->n_agents; i++)
    for (size_t k = 0; k < s->n_agents; k++)
      n += s->agents[i]->is_alive && s->agents[k]->is_alive && state_at(s, i, k) == state;
  return n;
}

static bool all_see_all(const struct sim *s, size_t n_alive) {
  return count_pairs(s, MEMBER_ALIVE) == n_alive * n_alive;
}

static uint64_t dropped(const struct sim *s, size_t which, enum err reason) {
  uint64_t n = 0;
  struct gossip_peer_info info;
  for (size_t i = 0; i < s->agents[which]->n_peers; i++) {
    gossip_peer_info(s->agents[which]->node, i, &info);
    n += info.drops[err_drop_index(reason)];
  }
  return n;
}

static double seconds_since(const struct sim *s, uint64_t begun_ms) {
  return (double)(s->now_ms - begun_ms) / 1000;
}

/* ---- all restart at once ---------------------------------------------------------------------------------------------- */

/* `n_restarted` of n are killed and start again after `down_ms`, within a second of each other. */
static void mass_restart(size_t n, size_t degree, size_t n_restarted, uint64_t down_ms, uint64_t seed) {
  struct sim *s = swarm_new(n, degree, seed);
  sim_start_all(s);
  sim_run(s, MINUTE_MS);
  ck_assert(all_see_all(s, n));
  for (size_t i = 0; i < n_restarted; i++)
    sim_kill(s, i);
  sim_run(s, down_ms);
  uint64_t begun_ms = s->now_ms;
  for (size_t i = 0; i < n_restarted; i++) {
    sim_start(s, i);
    sim_run(s, SECOND_MS / n_restarted);
  }
  while (!all_see_all(s, n) && s->now_ms < begun_ms + MINUTE_MS)
    sim_run(s, 100);
  double took_s = seconds_since(s, begun_ms);
  printf("  %zu of %zu restarted, degree %zu: all see all after %.1f s\n", n_restarted, n, degree, took_s);
  ck_assert_double_le(took_s, 15);
  sim_run(s, members_suspicion_ms(s->agents[0]->node->members));
  for (uint64_t end_ms = s->now_ms + 2 * MINUTE_MS; s->now_ms < end_ms; sim_run(s, 500))
    ck_assert_uint_eq(count_pairs(s, MEMBER_DEAD), 0);
  ck_assert(all_see_all(s, n));
  sim_free(s);
}

START_TEST(after_a_mass_restart_all_see_all_within_15_s) {
  const size_t few = least_or(12, 32);
  mass_restart(few, 0, few, 2 * SECOND_MS, 1);
  mass_restart(few, 4, few, 10 * SECOND_MS, 2);
  if (size_is("least"))
    return;
  mass_restart(64, 4, 32, 2 * SECOND_MS, 3);
  mass_restart(64, 4, 32, MINUTE_MS, 4);
}
END_TEST

/* ---- deaf agents ------------------------------------------------------------------------------------------------------ */

enum { DEAF_N = 8 };

/* How often each has begun to doubt each, in a time. */
struct flaps {
  uint64_t since_ms[DEAF_N][DEAF_N];
  unsigned n[DEAF_N][DEAF_N];
};

static void watch_flaps(struct sim *s, struct flaps *f, uint64_t for_ms) {
  for (uint64_t end_ms = s->now_ms + for_ms; s->now_ms < end_ms; sim_run(s, 50))
    for (size_t i = 0; i < DEAF_N; i++)
      for (size_t k = 0; k < DEAF_N; k++) {
        const struct member *m = row(s, i, k);
        if (m->state == MEMBER_SUSPECT && m->since_ms != f->since_ms[i][k]) {
          f->n[i][k]++;
          f->since_ms[i][k] = m->since_ms;
        }
      }
}

static unsigned most_flaps(const struct flaps *f) {
  unsigned most = 0;
  for (size_t i = 0; i < DEAF_N; i++)
    for (size_t k = 0; k < DEAF_N; k++)
      most = f->n[i][k] > most ? f->n[i][k] : most;
  return most;
}

/* Nothing arrives at agent 0 that these send. */
static void deafen(size_t n_senders, size_t degree, enum member_state expected) {
  struct sim *s = swarm_new(DEAF_N, degree, 5);
  struct flaps flaps = {0};
  sim_start_all(s);
  sim_run(s, MINUTE_MS);
  for (size_t i = 1; i <= n_senders; i++)
    sim_mute(s, i, 0);
  watch_flaps(s, &flaps, 10 * MINUTE_MS);
  printf("  deaf to %zu of %d: at most %u suspicions of a pair in 10 minutes\n", n_senders, DEAF_N - 1,
         most_flaps(&flaps));
  ck_assert_uint_lt(most_flaps(&flaps), 10);
  ck_assert_int_eq(state_at(s, 1, 0), expected);
  for (size_t i = 1; i <= n_senders; i++)
    sim_heal(s, i, 0);
  sim_run(s, MINUTE_MS);
  ck_assert(all_see_all(s, DEAF_N));
  sim_free(s);
}

START_TEST(a_half_deaf_agent_makes_less_than_one_suspicion_a_minute) {
  deafen(DEAF_N - 1, 0, MEMBER_DEAD);
  deafen(1, 0, MEMBER_ALIVE);
  deafen(1, 4, MEMBER_ALIVE);
  deafen(4, 0, MEMBER_ALIVE);
}
END_TEST

/* ---- false and true deaths -------------------------------------------------------------------------------------------- */

/* Living agents that others have begun to hold for dead since it was last asked; since_ms: [n · n]. */
static size_t count_deaths(const struct sim *s, uint64_t *since_ms) {
  size_t n_begun = 0, n = s->n_agents;
  for (size_t i = 0; i < n; i++) {
    const struct members *m = s->agents[i]->node->members;
    for (size_t k = 0; k < m->n && k < n; k++)
      if (m->rows[k].state == MEMBER_DEAD && since_ms[i * n + k] != m->rows[k].since_ms) {
        since_ms[i * n + k] = m->rows[k].since_ms;
        n_begun++;
      }
  }
  return n_begun;
}

/* In 100 000 node-rounds. */
static double false_deaths(double loss, size_t n_rounds) {
  size_t n = sized(40, 100, 200), n_false = 0, n_lived = 0;
  struct sim *s = swarm_new(n, 8, 6);
  uint64_t *since_ms = calloc(n * n, sizeof *since_ms);
  sim_start_all(s);
  sim_run(s, MINUTE_MS);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < s->agents[i]->n_peers; k++)
      sim_link(s, i, s->agents[i]->peers[k].agent)->loss = loss;
  for (; n_lived < n_rounds; n_lived += n) {
    sim_run(s, SECOND_MS);
    n_false += count_deaths(s, since_ms);
  }
  free(since_ms);
  sim_free(s);
  printf("  %g %% loss: %.3g false deaths in 100 000 node-rounds\n", 100 * loss,
         (double)n_false * 1e5 / (double)n_lived);
  return (double)n_false * 1e5 / (double)n_lived;
}

/* That the measure can fail: when half of all frames are lost there are many. */
START_TEST(at_10_percent_loss_hardly_anybody_is_wrongly_dead) {
  ck_assert_double_le(false_deaths(0.1, sized(4000, 100000, 300000)), 1);
  ck_assert_double_gt(false_deaths(0.5, sized(4000, 20000, 50000)), 1);
}
END_TEST

static size_t count_who_knows(const struct sim *s, size_t dead) {
  size_t n = 0;
  for (size_t i = 0; i < s->n_agents; i++)
    n += s->agents[i]->is_alive && state_at(s, i, dead) == MEMBER_DEAD;
  return n;
}

START_TEST(a_death_is_known_to_99_percent_within_15_beats) {
  size_t n = sized(40, 200, 1000), n_killed = 5, n_alive = n;
  struct sim *s = swarm_new(n, 8, 7);
  double most_s = 0;
  sim_start_all(s);
  sim_run(s, MINUTE_MS);
  ck_assert(all_see_all(s, n));
  for (size_t i = 0; i < n_killed; i++) {
    size_t who = i * n / n_killed;
    for (size_t k = 0; k < s->agents[who]->n_peers; k++) /* the host vanishes: nobody is told */
      sim_mute(s, who, s->agents[who]->peers[k].agent);
    sim_pause(s, who, 100 * MINUTE_MS);
    uint64_t begun_ms = s->now_ms;
    n_alive--;
    while (100 * count_who_knows(s, who) < 99 * n_alive && s->now_ms < begun_ms + MINUTE_MS)
      sim_run(s, 100);
    double took_s = seconds_since(s, begun_ms);
    most_s = took_s > most_s ? took_s : most_s;
  }
  printf("  %zu agents: a death is known to 99 %% after %.1f beats at most\n", n, most_s);
  ck_assert_double_le(most_s, 15);
  sim_free(s);
}
END_TEST

/* ---- a joiner --------------------------------------------------------------------------------------------------------- */

/* On the slowest link that is supported, or a slower one in a smaller swarm: lists of all members in more than one comparison at a
 * time would keep the beats waiting until somebody were dead. */
START_TEST(a_joiner_on_a_slow_link_stays_alive_while_it_hears_of_all) {
  size_t n = least_or(60, sized(400, 400, 1000)), rate = sized(12000, 12000, 16384);
  struct sim *s = swarm_new(n, 4, 11);
  struct sim_agent *joiner = s->agents[0];
  for (size_t i = 1; i < n; i++)
    sim_start(s, i);
  sim_run(s, MINUTE_MS);
  joiner->host.nic.up_bytes_per_s = joiner->host.nic.down_bytes_per_s = rate;
  sim_start(s, 0);
  uint64_t begun_ms = s->now_ms;
  size_t n_known = 0;
  while (n_known < n && s->now_ms < begun_ms + 5 * MINUTE_MS) {
    sim_run(s, 500);
    n_known = 0;
    for (size_t i = 0; i < n; i++) {
      n_known += state_at(s, 0, i) == MEMBER_ALIVE;
      ck_assert_int_ne(state_at(s, i, 0), MEMBER_DEAD);
      ck_assert_int_ne(state_at(s, 0, i), MEMBER_DEAD);
    }
  }
  printf("  %zu agents, %zu bytes a second: a joiner knows all after %.0f s\n", n, rate, seconds_since(s, begun_ms));
  ck_assert_uint_eq(n_known, n);
  ck_assert_uint_eq(dropped(s, 0, ERR_NO_SESSION), 0);
  ck_assert_uint_eq(dropped(s, 0, ERR_BACKLOG), 0);
  sim_free(s);
}
END_TEST

/* ---- what it costs ---------------------------------------------------------------------------------------------------- */

/* What goes on meanwhile. Churn: each agent is killed once in `life_min` minutes and is down for half a minute; 0: none. */
static const struct weather {
  const char *name;
  uint64_t training_ms, life_min;
} weathers[] = {
    {"at rest", UINT64_C(1) << 40, 0},
    {"with rounds", 10000, 0},
    {"with churn", UINT64_C(1) << 40, 100},
    {"with rounds and churn", 10000, 100},
};

static uint64_t control_bytes; /* of all that is sent but for pieces of models */

static bool count_control(struct sim *s, size_t from, size_t to, uint8_t type) {
  (void)from, (void)to;
  control_bytes += type == MESSAGE_CHUNK ? 0 : s->n_outgoing;
  return false;
}

/* Bytes of control that an agent sends in a second, when all know all. */
static double control_rate(size_t n, const struct weather *w) {
  struct sim *s = swarm_new(n, 4, 8);
  uint64_t step_ms = w->life_min > 0 ? w->life_min * MINUTE_MS / n : MINUTE_MS;
  size_t n_killed = 0;
  for (size_t i = 0; i < n; i++)
    s->agents[i]->host.training_ms = w->training_ms;
  sim_start_all(s);
  sim_run(s, MINUTE_MS);
  ck_assert(all_see_all(s, n));
  control_bytes = 0;
  s->lose = count_control;
  uint64_t begun_ms = s->now_ms, end_ms = begun_ms + least_or(2, sized(20, 25, 100)) * MINUTE_MS;
  while (s->now_ms < end_ms) {
    size_t which = n_killed * 5 % n; /* n is no multiple of 5 */
    sim_run(s, step_ms - (w->life_min > 0 ? MINUTE_MS / 2 : 0));
    if (w->life_min == 0)
      continue;
    sim_kill(s, which);
    sim_run(s, MINUTE_MS / 2);
    sim_start(s, which);
    n_killed++;
  }
  double rate = (double)control_bytes / (double)n / seconds_since(s, begun_ms);
  ck_assert_uint_eq(s->n_broken, 0);
  sim_free(s);
  return rate;
}

START_TEST(control_traffic_of_an_agent_does_not_grow_with_the_swarm) {
  for (const struct weather *w = weathers; w < weathers + sizeof weathers / sizeof weathers[0]; w++) {
    double least = 0, most = 0;
    for (size_t n = 8; n <= least_or(16, 64); n *= 2) {
      double rate = control_rate(n, w);
      printf("  %zu agents, 4 peers each, %s: %.1f bytes a second and agent\n", n, w->name, rate);
      least = n == 8 || rate < least ? rate : least;
      most = rate > most ? rate : most;
    }
    ck_assert_double_le(most, 1.2 * least);
  }
}
END_TEST

/* ---- old and new versions ------------------------------------------------------------------------------------------------ */

static enum err reason_at(const struct sim *s, size_t which, size_t about) {
  struct gossip_peer_info info;
  gossip_peer_info(s->agents[which]->node, sim_peer_index(s->agents[which], about), &info);
  return info.reason;
}

/* Half of them speak version 1, and one speaks only what is to come. */
START_TEST(old_and_new_versions_learn_together_and_another_major_is_refused) {
  enum { N = 8, ROUNDS = 10, FUTURE = 7 };
  struct sim *s = swarm_new(N, 4, 10);
  for (size_t i = 0; i < N; i++) {
    s->agents[i]->host.training_ms = SECOND_MS;
    if (i < N / 2)
      s->agents[i]->version_min = s->agents[i]->version_max = 1;
  }
  s->agents[FUTURE]->version_min = s->agents[FUTURE]->version_max = GOSSIP_VERSION + 1;
  sim_start_all(s);
  sim_run(s, 5 * MINUTE_MS);
  for (size_t i = 0; i < N; i++) {
    ck_assert_uint_eq(dropped(s, i, ERR_FRAME), 0);
    ck_assert_uint_eq(dropped(s, i, ERR_MESSAGE), 0);
    for (size_t k = 0; k < s->agents[i]->n_peers; k++) {
      size_t peer = s->agents[i]->peers[k].agent;
      ck_assert_int_eq(reason_at(s, i, peer), i == FUTURE || peer == FUTURE ? ERR_VERSION : ERR_OK);
    }
    if (i != FUTURE)
      ck_assert_uint_ge(s->agents[i]->durable.committed.round, ROUNDS);
  }
  ck_assert_int_eq(state_at(s, 4, 6), MEMBER_ALIVE); /* over 5 */
  ck_assert_int_eq(state_at(s, 4, 3), MEMBER_ALIVE); /* by its session */
  ck_assert_int_eq(state_at(s, 0, FUTURE), MEMBER_ABSENT);
  ck_assert_uint_eq(s->n_broken, 0);
  sim_free(s);
}
END_TEST

START_TEST(one_seed_is_one_story_of_members) {
  uint64_t traces[2];
  for (size_t i = 0; i < 2; i++) {
    struct sim *s = swarm_new(12, 4, 9);
    s->default_link.loss = 0.1;
    sim_start_all(s);
    sim_run(s, MINUTE_MS);
    sim_kill(s, 3);
    sim_run(s, MINUTE_MS);
    traces[i] = s->trace;
    sim_free(s);
  }
  ck_assert_uint_eq(traces[0], traces[1]);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN(
      "members", SUITE_LIMIT_S, after_a_mass_restart_all_see_all_within_15_s,
      a_half_deaf_agent_makes_less_than_one_suspicion_a_minute, at_10_percent_loss_hardly_anybody_is_wrongly_dead,
      a_death_is_known_to_99_percent_within_15_beats, a_joiner_on_a_slow_link_stays_alive_while_it_hears_of_all,
      control_traffic_of_an_agent_does_not_grow_with_the_swarm,
      old_and_new_versions_learn_together_and_another_major_is_refused, one_seed_is_one_story_of_members);
}
