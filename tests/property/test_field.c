/* What users of other tools report and what partitions and crashes cost, as situations in virtual time. The figures are
 * printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "crypto/random.h"
#include "tests/property/flock.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

static const uint64_t TRAIN_MS = 1000;

static struct sim *forever(size_t n, size_t dims) {
  struct sim *f = flock_new(n, dims);
  for (size_t i = 0; i < n; i++)
    sim_own_config(f->agents[i])->deadline_max_ms = 10000;
  return f;
}

static uint64_t round_of(const struct sim *f, size_t which) {
  return flock_committed(f, which).round;
}

static double first_number(const struct sim *f, size_t which) {
  double x;
  memcpy(&x, f->agents[which]->durable.model.bytes, sizeof x);
  return x;
}

/* ---- partitions ---- */

static double gap_of_halves(const struct sim *f) {
  double gap = 0;
  for (size_t i = 0; i < 4; i++)
    gap += (first_number(f, i + 4) - first_number(f, i)) / 4;
  return gap < 0 ? -gap : gap;
}

static void part_halves(struct sim *f, void (*act)(struct sim *, size_t, size_t)) {
  for (size_t i = 0; i < 4; i++)
    for (size_t k = 4; k < 8; k++)
      act(f, i, k);
}

/* Each with its neighbours on both sides and theirs. */
static struct sim *ring_of_eight(void) {
  struct sim *f = forever(8, 4);
  for (size_t i = 0; i < 8; i++)
    for (size_t away = 3; away <= 5; away++)
      sim_forget(f, i, (i + away) % 8);
  return f;
}

START_TEST(halves_go_on_and_come_together_within_six_rounds) {
  struct sim *f = ring_of_eight();
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 40, 100000));
  double undisturbed = flock_spread(f);
  size_t told[8], n_short = 0;
  part_halves(f, sim_part);
  for (size_t i = 0; i < 8; i++)
    told[i] = flock_story(f->agents[i])->n_told;
  ck_assert(flock_until_round(f, 0, round_of(f, 0) + 10, 200000));
  for (size_t i = 0; i < 8; i++)
    for (size_t r = told[i]; r < flock_story(f->agents[i])->n_told; r++)
      n_short += flock_story(f->agents[i])->told[r].outcome != ROUND_MERGED;
  ck_assert_uint_eq(n_short, 0);
  for (size_t i = 0; i < 8; i++)
    ck_assert_uint_ge(round_of(f, i), 49);
  double apart = flock_spread(f);
  ck_assert(apart > 1.2 * undisturbed);
  part_halves(f, sim_heal);
  uint64_t healed = round_of(f, 0), n = 0;
  for (; n < 30 && flock_spread(f) > 1.02 * undisturbed; n++)
    ck_assert(flock_until_round(f, 0, healed + n + 1, 60000));
  printf("partition of 8 into 4+4 for 10 rounds: distance %.3f, %.3f at its end, back after %llu rounds (at most 6)\n",
         undisturbed, apart, (unsigned long long)n);
  ck_assert_uint_le(n, 6);
  flock_free(f);
}
END_TEST

START_TEST(a_hundred_rounds_apart_are_forgotten_within_twenty) {
  struct sim *f = forever(8, 4);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 10, 100000));
  part_halves(f, sim_part);
  ck_assert(flock_until_round(f, 0, 110, 400000));
  double apart = gap_of_halves(f);
  ck_assert(apart > 3);
  part_halves(f, sim_heal);
  uint64_t healed = round_of(f, 0), n = 0;
  for (; n < 40 && gap_of_halves(f) > 0.01 * apart; n++)
    ck_assert(flock_until_round(f, 0, healed + n + 1, 60000));
  printf("partition of 8 into 4+4 for 100 rounds: gap %.3f, below a hundredth after %llu rounds (at most 20)\n", apart,
         (unsigned long long)n);
  ck_assert_uint_le(n, 20);
  flock_free(f);
}
END_TEST

/* ---- crashes ---- */

enum { CRASHERS = 10, MAX_DOWN = 3 };

static void on_broken(void *context, const struct sim_agent *a, enum sim_invariant i) {
  (void)context;
  ck_abort_msg("agent %zu: %s", a->number, sim_invariant_name(i));
}

START_TEST(three_of_ten_crash_and_restart_for_a_hundred_rounds) {
  ck_assert_int_eq(random_open(), ERR_OK);
  struct sim *s = sim_new(CRASHERS, 4, 1);
  uint64_t up_at_ms[CRASHERS] = {0}, longest_ms = 0, last_ms[CRASHERS] = {0}, last_round[CRASHERS] = {0};
  size_t n_down = 0, n_kills = 0;
  s->watch.broken = on_broken;
  for (size_t i = 0; i < CRASHERS; i++) {
    sim_own_config(s->agents[i])->deadline_max_ms = 10000;
    for (size_t k = 0; k < CRASHERS; k++)
      if (k != i)
        sim_learn(s, i, k);
  }
  sim_start_all(s);
  const size_t rounds = least_or(6, 100);
  while (s->agents[0]->durable.committed.round < rounds) {
    sim_run(s, 100);
    for (size_t i = 0; i < CRASHERS; i++) {
      struct sim_agent *a = s->agents[i];
      if (!a->is_alive && s->now_ms >= up_at_ms[i]) {
        sim_start(s, i);
        n_down--;
        last_ms[i] = s->now_ms;
      }
      if (a->durable.committed.round != last_round[i]) {
        longest_ms = last_ms[i] && s->now_ms - last_ms[i] > longest_ms ? s->now_ms - last_ms[i] : longest_ms;
        last_round[i] = a->durable.committed.round;
        last_ms[i] = s->now_ms;
      }
    }
    size_t who = (size_t)rng_below(&s->rng, CRASHERS);
    if (n_down == MAX_DOWN || !s->agents[who]->is_alive)
      continue;
    sim_kill(s, who);
    up_at_ms[who] = s->now_ms + 500 + rng_below(&s->rng, 8000);
    n_down++;
    n_kills++;
  }
  sim_check_all(s);
  printf("30 %% crash and restart, %zu rounds: %zu kills in %.0f s, the longest round %.1f s (training 1 s, deadline "
         "10 s), no invariant broken\n",
         rounds, n_kills, (double)(s->now_ms - SIM_START_MS) / 1000, (double)longest_ms / 1000);
  ck_assert_uint_ge(n_kills, rounds / 2);
  ck_assert_uint_eq(s->n_broken, 0);
  ck_assert_uint_le(longest_ms, 2 * (10000 + TRAIN_MS) + 1000); /* a jump, or a training, and a gather */
  sim_free(s);
}
END_TEST

/* ---- what users report ---- */

/* MediSwarm 346: one network fault killed a run of seven sites. */
START_TEST(a_site_that_stops_for_a_minute_is_back_within_two_rounds) {
  struct sim *f = forever(7, 4);
  sim_start_all(f);
  for (uint64_t at = 3; at <= least_or(3, 15); at += 6) {
    ck_assert(flock_until_round(f, 0, round_of(f, 0) + at, 100000));
    sim_pause(f, 6, 60000);
    uint64_t round = round_of(f, 0);
    sim_run(f, 60000);
    ck_assert_uint_ge(round_of(f, 0), round + 20); /* every round closes */
    round = round_of(f, 0);
    ck_assert(flock_until_round(f, 0, round + 2, 60000));
    sim_run(f, 500);
    for (size_t i = 0; i < 6; i++)
      ck_assert_int_eq(flock_told(f, i, 0)->reasons[6], ERR_OK);
  }
  flock_free(f);
}
END_TEST

/* flower 775: an idle connection is cut during long work. Beats keep it. */
START_TEST(a_nat_that_forgets_after_a_minute_costs_nothing) {
  struct sim *f = forever(2, 4);
  f->default_link.nat_idle_us = UINT64_C(60) * 1000 * 1000;
  for (size_t i = 0; i < 2; i++) {
    f->agents[i]->host.training_ms = 300000;
    sim_own_config(f->agents[i])->deadline_max_ms = 400000;
  }
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 5, 2000000));
  ck_assert_uint_le(f->wires[0].generation, 3);
  ck_assert_uint_eq(flock_noted(f, 0, "peer-absent"), 0);
  flock_free(f);
}
END_TEST

/* disco 1109: the fast one speaks before the slow one listens. */
START_TEST(an_offer_before_the_peer_listens_is_not_lost) {
  struct sim *f = forever(2, 4);
  sim_own_config(f->agents[0])->meet_ms = 0;
  sim_start(f, 0);
  sim_run(f, 20000);
  ck_assert_uint_ge(f->agents[0]->n_trainings, 1);
  sim_start(f, 1);
  sim_run(f, 60000);
  for (size_t i = 0; i < 2; i++) {
    ck_assert_int_eq(flock_told(f, i, 0)->outcome, ROUND_MERGED);
    ck_assert_int_eq(flock_told(f, i, 0)->reasons[1 - i], ERR_OK);
  }
  flock_free(f);
}
END_TEST

/* disco 718: who joins late is judged outdated for ever. */
START_TEST(who_joins_in_round_fifty_counts_in_round_fifty_two) {
  struct sim *f = forever(3, 4);
  sim_start(f, 0);
  sim_start(f, 1);
  ck_assert(flock_until_round(f, 0, 50, 200000));
  sim_start(f, 2);
  ck_assert(flock_until_round(f, 0, 53, 60000));
  ck_assert_int_eq(flock_told(f, 0, 0)->reasons[2], ERR_OK);
  ck_assert_uint_eq(flock_told(f, 0, 0)->lags[2], 0);
  flock_free(f);
}
END_TEST

/* hivemind 676: fixed time-outs never suit. */
START_TEST(a_link_ten_times_slower_costs_what_it_takes) {
  enum { DIMS = 16000, FAST = 1000000 };
  struct sim *f = forever(4, DIMS);
  f->default_link.bytes_per_s = FAST;
  sim_link(f, 0, 1)->bytes_per_s = sim_link(f, 1, 0)->bytes_per_s = FAST / 10;
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 10, 200000));
  uint64_t start_ms = f->now_ms, ideal_ms = TRAIN_MS + UINT64_C(1000) * DIMS * sizeof(double) / (FAST / 10);
  ck_assert(flock_until_round(f, 0, 20, 200000));
  ck_assert_uint_le(2 * (f->now_ms - start_ms), (uint64_t)30 * ideal_ms);
  flock_free(f);
}
END_TEST

/* hivemind 445: no joiner gets state while the others average. */
START_TEST(five_joiners_in_a_merge_get_what_was_committed) {
  struct sim *f = forever(8, 4);
  for (size_t i = 0; i < 3; i++)
    sim_start(f, i);
  ck_assert(flock_until_round(f, 0, 10, 100000));
  ck_assert(flock_until_phase(f, 0, PHASE_MERGING, 20000));
  uint64_t round = round_of(f, 0);
  for (size_t i = 3; i < 8; i++)
    sim_start(f, i);
  sim_run(f, 15000);
  for (size_t i = 3; i < 8; i++) {
    const struct flock_told *first = &flock_story(f->agents[i])->told[0];
    ck_assert_int_eq(first->outcome, ROUND_ADOPTED);
    ck_assert_uint_ge(first->label.round, round);
    ck_assert_uint_le(first->label.round, round + 3);
  }
  for (size_t i = 0; i < 8; i++)
    ck_assert_uint_eq(flock_told(f, i, 0)->n_merged, 7);
  flock_free(f);
}
END_TEST

/* FedML 121, 367, 435: what happens when one of so many dies? With min_peers left the others go on; else they train alone
 * for a while and wait. */
START_TEST(one_dies_of_each_number_with_each_least) {
  for (size_t n = 2; n <= least_or(3, 5); n++)
    for (uint32_t least = 1; least < n; least++) {
      struct sim *f = forever(n, 4);
      for (size_t i = 0; i < n; i++)
        sim_own_config(f->agents[i])->min_peers = least;
      sim_start_all(f);
      ck_assert(flock_until_round(f, 0, 5, 100000));
      sim_kill(f, n - 1);
      uint64_t round = round_of(f, 0);
      sim_run(f, 60000);
      if (n - 2 >= least) {
        ck_assert_uint_ge(round_of(f, 0), round + 30);
      } else {
        ck_assert_uint_le(round_of(f, 0), round + 2); /* what the dead one had published still counts */
        ck_assert_uint_ge(flock_committed(f, 0).sub, 1);
      }
      sim_start(f, n - 1);
      round = round_of(f, 0);
      sim_run(f, 30000);
      for (size_t i = 0; i < n; i++)
        ck_assert_uint_ge(round_of(f, i), round + 5);
      flock_free(f);
    }
}
END_TEST

int main(void) {
  return SUITE_RUN(
      "field", halves_go_on_and_come_together_within_six_rounds, a_hundred_rounds_apart_are_forgotten_within_twenty,
      three_of_ten_crash_and_restart_for_a_hundred_rounds, a_site_that_stops_for_a_minute_is_back_within_two_rounds,
      a_nat_that_forgets_after_a_minute_costs_nothing, an_offer_before_the_peer_listens_is_not_lost,
      who_joins_in_round_fifty_counts_in_round_fifty_two, a_link_ten_times_slower_costs_what_it_takes,
      five_joiners_in_a_merge_get_what_was_committed, one_dies_of_each_number_with_each_least);
}
