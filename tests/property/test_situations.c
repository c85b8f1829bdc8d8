/* The situations of the protocol rules, each played by whole agents: what they say, when, and why. */
#include <string.h>

#include "base/must.h"
#include "gossip/message.h"
#include "tests/property/flock.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

static const uint64_t TRAIN_MS = 1000;

static struct sim *forever(size_t n) {
  struct sim *f = flock_new(n, 4);
  for (size_t i = 0; i < n; i++)
    sim_own_config(f->agents[i])->deadline_max_ms = 10000;
  return f;
}

static struct sim *counted(size_t n, uint64_t count) {
  struct sim *f = flock_new(n, 4);
  for (size_t i = 0; i < n; i++)
    sim_own_config(f->agents[i])->count = count;
  return f;
}

static void assert_all_gathers_complete(const struct sim *f, uint64_t count) {
  for (size_t i = 0; i < f->n_agents; i++) {
    const struct sim_agent *a = f->agents[i];
    ck_assert_uint_eq(flock_story(a)->n_told, count);
    for (size_t r = 0; r < count; r++) {
      HOLDS(flock_story(a)->told[r].label.round == r + 1 && flock_story(a)->told[r].label.sub == 0);
      HOLDS(flock_story(a)->told[r].outcome == ROUND_MERGED && flock_story(a)->told[r].n_merged == a->n_peers);
      for (size_t k = 0; k < a->n_peers; k++)
        HOLDS(flock_story(a)->told[r].lags[a->peers[k].agent] == 0);
    }
  }
}

/* Labels go up by one round or one sub-round, but for jumps. */
static void assert_no_round_lost(const struct sim *f, size_t which) {
  const struct sim_agent *a = f->agents[which];
  for (size_t i = 1; i < flock_story(a)->n_told; i++) {
    struct round_label before = flock_story(a)->told[i - 1].label, now = flock_story(a)->told[i].label;
    bool is_next = now.round == before.round + 1 && now.sub == 0;
    bool is_sub = now.round == before.round && now.sub == before.sub + 1;
    HOLDS(is_next || is_sub || flock_story(a)->told[i].outcome == ROUND_JUMPED);
  }
}

/* What the swarm agrees on: everybody pulls to another side, so models stay a step apart. */
static void assert_together(const struct sim *f, uint64_t rounds_apart) {
  uint64_t low = UINT64_MAX, high = 0;
  for (size_t i = 0; i < f->n_agents; i++) {
    uint64_t round = flock_committed(f, i).round;
    low = round < low ? round : low;
    high = round > high ? round : high;
    assert_no_round_lost(f, i);
  }
  ck_assert_uint_le(high - low, rounds_apart);
}

START_TEST(five_agents_do_sixty_rounds_and_agree) {
  struct sim *f = counted(5, 60);
  sim_start_all(f);
  sim_run(f, 120000);
  assert_all_gathers_complete(f, 60);
  ck_assert(flock_spread(f) < 2); /* goals are four apart, alone they would be there */
  for (size_t i = 0; i < 5; i++)
    ck_assert_int_eq(round_end(f->agents[i]->machine, f->now_ms), ROUND_ENDED);
  flock_free(f);
}
END_TEST

/* ---- 5: when a gather ends ---- */

static bool lose_updates(struct sim *f, size_t from, size_t to, uint8_t type) {
  (void)f;
  (void)from;
  (void)to;
  return type == MESSAGE_MANIFEST || type == MESSAGE_STATE;
}

/* Each has published and waits for the other, whose word was lost. */
START_TEST(both_wait_for_each_other) {
  struct sim *f = forever(2);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 10, 60000));
  ck_assert(flock_until_phase(f, 0, PHASE_TRAINING, 5000));
  f->lose = lose_updates;
  ck_assert(flock_until_phase(f, 0, PHASE_GATHERING, 5000));
  uint64_t clock_ms = f->now_ms;
  sim_run(f, 500);
  f->lose = NULL;
  ck_assert_int_eq(flock_phase(f, 0), PHASE_GATHERING);
  ck_assert_int_eq(flock_phase(f, 1), PHASE_GATHERING);
  ck_assert_uint_eq(f->agents[0]->machine->deadline_ms, 1000);
  uint64_t round = flock_committed(f, 0).round + 1;
  sim_run(f, clock_ms + 1000 + 5 + 20 + 30 - f->now_ms); /* the deadline, the merge, the commit; a few ways */
  for (size_t i = 0; i < 2; i++) {
    const struct flock_told *t = flock_told(f, i, 0);
    ck_assert_uint_eq(t->label.round, round - 1);
    ck_assert_uint_eq(t->label.sub, 1);
    ck_assert_int_eq(t->outcome, ROUND_SHORT);
    ck_assert_int_eq(t->reasons[1 - i], ERR_LATE);
    ck_assert_int_eq(t->arrivals_ms[1 - i], -1);
  }
  sim_run(f, 5000);
  for (size_t i = 0; i < 2; i++) /* both updates of the lost round are merged, once */
    ck_assert_uint_ge(flock_committed(f, i).round, round + 1);
  ck_assert_int_eq(flock_told(f, 0, 0)->reasons[1], ERR_OK);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

START_TEST(one_fast_and_one_ten_times_slower) {
  struct sim *f = counted(2, 30);
  f->agents[0]->host.training_ms = 300;
  f->agents[1]->host.training_ms = 3000;
  sim_start_all(f);
  uint64_t start_ms = f->now_ms;
  ck_assert(flock_until_phase(f, 0, PHASE_FINISHED, 200000));
  ck_assert_uint_le(f->now_ms - start_ms, 30 * 3100 + 1000);
  ck_assert_uint_eq(f->agents[0]->machine->deadline_ms, 4050); /* 1.5 × what it waits */
  sim_run(f, 5000);
  assert_all_gathers_complete(f, 30);
  ck_assert_uint_eq(flock_noted(f, 0, "peer-slow"), 0);
  flock_free(f);
}
END_TEST

START_TEST(slow_after_three_missed_gathers_then_back) {
  struct sim *f = forever(3);
  f->agents[2]->host.training_ms = 60000;
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 3, 60000));
  sim_run(f, 50);
  for (size_t i = 0; i < 2; i++) {
    ck_assert_uint_eq(flock_noted(f, i, "peer-slow"), 1);
    ck_assert_int_eq(flock_standing(f, i, 2), ERR_SLOW);
    ck_assert_uint_eq(flock_count_reason(f, i, 0, 2, ERR_LATE), 2);
    ck_assert_int_eq(flock_told(f, i, 0)->reasons[2], ERR_SLOW);
  }
  /* three gathers of 5 s and three trainings */
  ck_assert_uint_ge(f->now_ms, 1000000 + 3 * (8000 + TRAIN_MS));
  ck_assert_uint_le(f->now_ms, 1000000 + 3 * (8000 + TRAIN_MS + 60) + 500);
  uint64_t now_ms = f->now_ms;
  ck_assert(flock_until_round(f, 0, 23, 60000));
  ck_assert_uint_le(f->now_ms - now_ms, 20 * (TRAIN_MS + 60)); /* nobody waits for it */
  f->agents[2]->host.training_ms = TRAIN_MS;
  sim_run(f, 60000);
  for (size_t i = 0; i < 2; i++) {
    ck_assert_uint_eq(flock_noted(f, i, "peer-back"), 1);
    ck_assert_int_eq(flock_standing(f, i, 2), ERR_OK);
    ck_assert_int_eq(flock_told(f, i, 0)->reasons[2], ERR_OK);
    ck_assert_uint_eq(flock_told(f, i, 0)->lags[2], 0);
  }
  ck_assert_uint_eq(f->agents[2]->n_jumps, 1);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

/* ---- 16: restart ---- */

static void compare_stories(const struct sim *f, const struct sim *plain, size_t count) {
  for (size_t i = 0; i < f->n_agents; i++)
    for (size_t r = 0; r < count; r++)
      ck_assert_mem_eq(&flock_story(f->agents[i])->told[r].model, &flock_story(plain->agents[i])->told[r].model,
                       sizeof(double));
}

static struct sim *patient(size_t n, uint64_t count) {
  struct sim *f = counted(n, count);
  for (size_t i = 0; i < n; i++)
    sim_own_config(f->agents[i])->deadline_min_ms = 60000;
  f->agents[0]->host.training_ms = 700;
  return f;
}

static void run_to_the_end(struct sim *f, uint64_t limit_ms) {
  for (size_t i = 0; i < f->n_agents; i++)
    ck_assert(flock_until_phase(f, i, PHASE_FINISHED, limit_ms));
}

START_TEST(restart_in_every_phase) {
  static const struct {
    enum phase phase;
    uint64_t after_round;
  } cases[] = {{PHASE_LOADING, 0},    {PHASE_MEETING, 0},   {PHASE_TRAINING, 0}, {PHASE_TRAINING, 7},
               {PHASE_PUBLISHING, 7}, {PHASE_GATHERING, 7}, {PHASE_MERGING, 7},  {PHASE_COMMITTING, 11},
               {PHASE_PUBLISHING, 0}, {PHASE_GATHERING, 0}, {PHASE_MERGING, 0},  {PHASE_FINISHED, 12}};
  struct sim *plain = patient(3, 12);
  sim_start_all(plain);
  sim_run(plain, 100000);
  assert_all_gathers_complete(plain, 12);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (uint64_t later = least_or(i % 2, 0); later < 4; later += least_or(4, 1 + later)) { /* 0, 1, 3 */
      struct sim *f = patient(3, 12);
      sim_start_all(f);
      ck_assert(flock_until_round(f, 0, cases[i].after_round, 60000));
      ck_assert_msg(flock_until_phase(f, 0, cases[i].phase, 60000), "never in phase %s", phase_name(cases[i].phase));
      sim_run(f, later * 7);
      struct sim_durable *before = sim_back_up(f, 0);
      sim_kill(f, 0);
      sim_run(f, later * 400);
      sim_start(f, 0);
      if (before->is_gathering) { /* the same bytes once more, with a fresh deadline */
        ck_assert(flock_until_phase(f, 0, PHASE_GATHERING, 100));
        ck_assert_uint_eq(f->agents[0]->machine->in_work.round, before->published.round);
        ck_assert_uint_eq(f->agents[0]->machine->own.sequence, before->kept[before->n_kept - 1].position.sequence);
      }
      run_to_the_end(f, 100000);
      assert_all_gathers_complete(f, 12);
      if (later <
          3) /* else the copies that it fetches again are a round ahead, which is as good but not the same bits */
        compare_stories(f, plain, 12);
      ck_assert_uint_le(f->agents[0]->n_trainings, 13);
      for (size_t k = 0; k < 3; k++) {
        ck_assert_int_eq(flock_phase(f, k), PHASE_FINISHED);
        ck_assert_uint_eq(flock_noted(f, k, "rolled-back"), 0);
      }
      sim_durable_free(before);
      flock_free(f);
    }
  }
  flock_free(plain);
}
END_TEST

/* ---- 6: rounds, jumps, joiners ---- */

START_TEST(a_joiner_in_mid_run_adopts_the_median) {
  struct sim *f = forever(4);
  for (size_t i = 0; i < 3; i++)
    sim_start(f, i);
  sim_run(f, 60000);
  uint64_t round = flock_committed(f, 0).round;
  ck_assert_uint_ge(round, 10);
  sim_start(f, 3);
  ck_assert(flock_until_round(f, 3, round, 5000));
  const struct flock_told *t = flock_told(f, 3, 0);
  ck_assert_int_eq(t->outcome, ROUND_ADOPTED);
  ck_assert_uint_eq(t->label.round, flock_committed(f, 0).round);
  double middle[3]; /* of the three copies, which are what their owners have published */
  for (size_t i = 0; i < 3; i++)
    middle[i] = f->agents[3]->peers[i].copy[0];
  double low = middle[0] < middle[1] ? middle[0] : middle[1], high = middle[0] < middle[1] ? middle[1] : middle[0];
  double median = middle[2] < low ? low : middle[2] > high ? high : middle[2];
  ck_assert(t->model == median);
  ck_assert_uint_eq(f->agents[3]->n_trainings, 1); /* of the round after */
  sim_run(f, 10000);
  ck_assert_uint_eq(f->agents[3]->n_jumps, 0);
  for (size_t i = 0; i < 3; i++)
    ck_assert_int_eq(flock_told(f, i, 0)->reasons[3], ERR_OK);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

START_TEST(a_joiner_of_a_finished_job_adopts_and_is_finished) {
  struct sim *f = counted(3, 10);
  sim_start(f, 0);
  sim_start(f, 1);
  sim_run(f, 60000);
  ck_assert_int_eq(flock_phase(f, 0), PHASE_FINISHED);
  sim_start(f, 2);
  uint64_t start_ms = f->now_ms;
  ck_assert(flock_until_phase(f, 2, PHASE_FINISHED, 2000));
  ck_assert_uint_le(f->now_ms - start_ms, 1000);
  ck_assert_uint_eq(flock_story(f->agents[2])->n_told, 1);
  ck_assert_int_eq(flock_told(f, 2, 0)->outcome, ROUND_ADOPTED);
  ck_assert_uint_eq(flock_committed(f, 2).round, 10);
  ck_assert_uint_eq(f->agents[2]->n_trainings, 0);
  ck_assert_int_eq(round_end(f->agents[2]->machine, f->now_ms), ROUND_ENDED);
  flock_free(f);
}
END_TEST

START_TEST(forty_rounds_late_jumps_once) {
  struct sim *f = forever(4);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 3, 5, 60000));
  sim_kill(f, 3);
  ck_assert(flock_until_round(f, 0, 46, 200000));
  sim_start(f, 3);
  size_t told = flock_story(f->agents[3])->n_told;
  sim_run(f, 10000);
  ck_assert_uint_eq(f->agents[3]->n_jumps, 1);
  /* Restarted in GATHERING(6) it first ends that round, else it jumps at once. */
  for (size_t i = told; i < flock_story(f->agents[3])->n_told; i++)
    ck_assert_int_ne(flock_story(f->agents[3])->told[i].outcome, ROUND_SHORT);
  ck_assert_int_eq(flock_told(f, 3, 0)->outcome, ROUND_MERGED);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

/* Five of seven are down for a while. Nobody may follow the two that went on, for two of six peers may lie. */
START_TEST(the_few_that_went_on_mark_time_until_the_many_have_come_up) {
  struct sim *f = forever(7);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 5, 60000));
  for (size_t i = 2; i < 7; i++)
    sim_kill(f, i);
  ck_assert(flock_until_round(f, 0, 20, 60000));
  for (size_t i = 2; i < 7; i++)
    sim_start(f, i);
  ck_assert(flock_until_round(f, 2, 21, 60000));
  uint64_t round = flock_committed(f, 0).round;
  ck_assert_uint_le(round, 23);
  sim_run(f, 20000);
  ck_assert_uint_ge(flock_committed(f, 0).round, round + 10); /* the number goes on */
  ck_assert_uint_eq(flock_committed(f, 0).sub, 0);
  for (size_t i = 0; i < 7; i++)
    ck_assert_uint_eq(f->agents[i]->n_jumps, 0);
  ck_assert(flock_spread(f) < 0.5); /* everybody merges everybody with full weight */
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

static const uint64_t FAR = 1000000000;

static void claim_far(struct wire_state *state) {
  state->round = state->round_in_work = FAR;
}

static void sign_far(struct manifest *m) {
  m->round = FAR;
}

/* With three peers and more one liar is not followed, whatever it says or signs. */
START_TEST(a_single_liar_about_the_round_is_not_followed) {
  for (size_t signs = 0; signs < 2; signs++) {
    struct sim *f = forever(4);
    sim_start_all(f);
    ck_assert(flock_until_round(f, 0, 5, 60000));
    f->agents[3]->lie = claim_far;
    f->agents[3]->lie_in_manifest = signs ? sign_far : NULL;
    uint64_t start_ms = f->now_ms;
    size_t told = flock_story(f->agents[0])->n_told;
    ck_assert(flock_until_round(f, 0, 25, 100000));
    sim_kill(f, 0);
    sim_start(f, 0); /* so that it fetches a full copy, whatever its round */
    ck_assert(flock_until_round(f, 0, 65, 100000));
    ck_assert_uint_le(f->now_ms - start_ms, 61 * (TRAIN_MS + 100));
    for (size_t i = 0; i < 3; i++) {
      ck_assert_uint_eq(f->agents[i]->n_jumps, 0);
      ck_assert_uint_lt(flock_committed(f, i).round, 70);
      ck_assert_int_eq(flock_told(f, i, 0)->reasons[(i + 1) % 3], ERR_OK);
    }
    size_t n_off_label = 0;
    for (size_t i = told; signs && i < flock_story(f->agents[0])->n_told; i++)
      n_off_label +=
          flock_story(f->agents[0])->told[i].reasons[3] == ERR_OK && flock_story(f->agents[0])->told[i].lags[3] == 5;
    ck_assert_uint_eq((size_t)(n_off_label > 0), signs);
    ck_assert_uint_eq(flock_count_reason(f, 0, flock_story(f->agents[0])->n_told - 10, 3, ERR_STALE), signs ? 10 : 0);
    flock_free(f);
  }
}
END_TEST

/* With fewer than three peers nobody else vouches: a word alone is not followed, only what was signed and served. */
START_TEST(a_lone_peer_has_to_show_the_round_that_it_claims) {
  struct sim *f = forever(2);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 5, 60000));
  f->agents[1]->lie = claim_far;
  uint64_t start_ms = f->now_ms;
  ck_assert(flock_until_round(f, 0, 45, 100000));
  /* Who says that it is past a round is not waited for: every third is a sub-round here. */
  ck_assert_uint_le(f->now_ms - start_ms, 60 * (TRAIN_MS + 50));
  ck_assert_uint_eq(f->agents[0]->n_jumps, 0);
  ck_assert_uint_lt(flock_committed(f, 0).round, 60);
  ck_assert_uint_eq(flock_noted(f, 0, "unproved-round"), 1);
  ck_assert_uint_eq(flock_last_note(f, 0, "unproved-round")->about, 1);
  flock_free(f);
}
END_TEST

/* What it shows is followed, not what it says beside it. */
START_TEST(a_jump_goes_to_the_round_that_was_shown) {
  struct sim *f = forever(3);
  sim_forget(f, 2, 0);
  sim_forget(f, 0, 2);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 5, 60000));
  sim_kill(f, 0);
  ck_assert(flock_until_round(f, 1, 45, 100000));
  f->agents[1]->lie = claim_far;
  sim_start(f, 0);
  sim_run(f, 5000);
  ck_assert_uint_eq(f->agents[0]->n_jumps, 1);
  ck_assert_uint_ge(flock_committed(f, 0).round, 45);
  ck_assert_uint_le(flock_committed(f, 0).round, 52);
  flock_free(f);
}
END_TEST

static void stop_following(struct wire_state *state) {
  state->follows = false;
}

START_TEST(who_does_not_follow_us_is_neither_awaited_nor_merged) {
  struct sim *f = forever(3);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 5, 60000));
  f->agents[2]->lie = stop_following;
  f->agents[2]->host.training_ms = 3000;
  sim_run(f, 3000);
  uint64_t start_ms = f->now_ms;
  size_t told = flock_story(f->agents[0])->n_told;
  ck_assert(flock_until_round(f, 0, flock_committed(f, 0).round + 20, 60000));
  ck_assert_uint_le(f->now_ms - start_ms, 20 * (TRAIN_MS + 60));
  ck_assert_uint_eq(flock_count_reason(f, 0, told, 2, ERR_NOT_FOLLOWING), flock_story(f->agents[0])->n_told - told);
  flock_free(f);
}
END_TEST

/* ---- 7: the end ---- */

START_TEST(different_counts_at_two_sites) {
  struct sim *f = counted(2, 20);
  sim_own_config(f->agents[0])->count = 8;
  sim_start_all(f);
  ck_assert(flock_until_phase(f, 0, PHASE_FINISHED, 60000));
  uint64_t finished_ms = f->now_ms;
  ck_assert_int_eq(round_end(f->agents[0]->machine, f->now_ms), ROUND_GOES_ON); /* its last update is not taken */
  sim_run(f, 2000);
  ck_assert_int_eq(round_end(f->agents[0]->machine, f->now_ms), ROUND_ENDED);
  ck_assert_uint_eq(flock_committed(f, 0).round, 8);
  /* The other is alone with one that has finished: it ends short of its count, without waiting for anybody. */
  ck_assert(flock_until_phase(f, 1, PHASE_ALONE, 10000));
  ck_assert_uint_le(f->now_ms - finished_ms, 4 * (TRAIN_MS + 100) + 1000);
  ck_assert_int_eq(flock_told(f, 1, 0)->reasons[0], ERR_FINISHED);
  ck_assert_uint_eq(flock_committed(f, 1).sub, 3);
  sim_kill(f, 0); /* as its run has ended */
  sim_run(f, 241000);
  ck_assert_int_eq(round_end(f->agents[1]->machine, f->now_ms), ROUND_ENDED_SHORT);
  flock_free(f);
}
END_TEST

START_TEST(who_has_finished_is_served_and_not_waited_for) {
  struct sim *f = counted(3, 20);
  sim_own_config(f->agents[0])->count = 8;
  sim_start_all(f);
  ck_assert(flock_until_phase(f, 0, PHASE_FINISHED, 60000));
  ck_assert_int_eq(round_end(f->agents[0]->machine, f->now_ms), ROUND_GOES_ON);
  sim_run(f, 3000);
  ck_assert_int_eq(round_end(f->agents[0]->machine, f->now_ms), ROUND_ENDED);
  for (size_t i = 1; i < 3; i++) {
    ck_assert_int_eq(flock_standing(f, i, 0), ERR_FINISHED);
    ck_assert_int_eq(flock_told(f, i, 0)->reasons[0], ERR_FINISHED);
  }
  uint64_t start_ms = f->now_ms;
  ck_assert(flock_until_round(f, 1, 20, 60000));
  ck_assert_uint_le(f->now_ms - start_ms, 12 * (TRAIN_MS + 60));
  sim_run(f, 2000);
  for (size_t i = 1; i < 3; i++)
    ck_assert_int_eq(round_end(f->agents[i]->machine, f->now_ms), ROUND_ENDED);
  flock_free(f);
}
END_TEST

START_TEST(the_end_waits_for_a_live_follower_at_most_the_linger) {
  struct sim *f = counted(2, 10);
  sim_own_config(f->agents[0])->linger_ms = 30000;
  sim_start_all(f);
  ck_assert(flock_until_round(f, 1, 9, 60000));
  ck_assert(flock_until_phase(f, 1, PHASE_GATHERING, 10000));
  f->agents[1]->host.disk = ERR_NO_SPACE; /* it cannot commit, so it says nothing of our last update */
  ck_assert(flock_until_phase(f, 0, PHASE_FINISHED, 60000));
  uint64_t finished_ms = f->now_ms;
  sim_run(f, finished_ms + 29999 - f->now_ms);
  ck_assert_int_eq(round_end(f->agents[0]->machine, f->now_ms), ROUND_GOES_ON);
  sim_run(f, 1);
  ck_assert_int_eq(round_end(f->agents[0]->machine, f->now_ms), ROUND_ENDED);
  flock_free(f);
}
END_TEST

/* ---- 5, 13: one-sided configs ---- */

START_TEST(a_peer_that_does_not_list_us_then_does) {
  struct sim *f = forever(3);
  sim_forget(f, 1, 0);
  sim_forget(f, 2, 0);
  for (size_t i = 0; i < 3; i++)
    sim_own_config(f->agents[i])->meet_ms = 10000;
  sim_start_all(f);
  sim_run(f, 9000);
  ck_assert_int_eq(flock_phase(f, 0), PHASE_MEETING);
  ck_assert_uint_ge(flock_committed(f, 1).round, 7); /* the others do not wait for a stranger */
  ck_assert(flock_until_phase(f, 0, PHASE_ALONE, 20000));
  ck_assert_uint_eq(flock_committed(f, 0).round, 0);
  ck_assert_uint_eq(flock_committed(f, 0).sub, 3);
  ck_assert_int_eq(flock_told(f, 0, 0)->reasons[1], ERR_NO_ANSWER);
  sim_kill(f, 1);
  sim_learn(f, 1, 0);
  sim_start(f, 1);
  sim_run(f, 10000);
  ck_assert_int_eq(flock_told(f, 0, 0)->outcome, ROUND_MERGED);
  ck_assert_int_eq(flock_told(f, 0, 0)->reasons[1], ERR_OK);
  ck_assert_int_eq(flock_told(f, 0, 0)->reasons[2], ERR_NO_ANSWER);
  ck_assert_int_eq(flock_told(f, 1, 0)->reasons[0], ERR_OK);
  ck_assert_uint_eq(f->agents[0]->n_jumps, 1);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

/* ---- 4: chains ---- */

static struct sim *dear_copies(size_t n) {
  struct sim *f = forever(n);
  for (size_t i = 0; i < n; i++)
    sim_own_config(f->agents[i])->full_bytes = 100 * f->config.link_bytes; /* links are cheaper */
  return f;
}

START_TEST(missing_links_are_fetched_as_links_and_more_than_eight_as_a_copy) {
  static const struct {
    uint64_t n_missing;
    size_t n_full;
  } cases[] = {{1, 0}, {7, 0}, {12, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct sim *f = dear_copies(3);
    sim_start_all(f);
    ck_assert(flock_until_round(f, 0, 5, 60000));
    ck_assert(flock_until_phase(f, 1, PHASE_TRAINING, 5000));
    size_t n_full = f->agents[0]->n_asked_full;
    sim_part(f, 0, 1);
    ck_assert(flock_until_round(f, 0, 5 + cases[i].n_missing, 60000));
    sim_heal(f, 0, 1);
    sim_run(f, 12000);
    ck_assert_uint_eq(f->agents[0]->n_asked_full - n_full, cases[i].n_full);
    ck_assert_int_eq(flock_told(f, 0, 0)->reasons[1], ERR_OK);
    ck_assert_uint_eq(flock_told(f, 0, 0)->lags[1], 0);
    ck_assert_uint_eq(f->agents[0]->n_jumps, 0);
    assert_together(f, 1);
    flock_free(f);
  }
}
END_TEST

START_TEST(a_broken_payload_is_refused_this_round_and_healed_in_the_next) {
  struct sim *f = forever(3);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 5, 60000));
  ck_assert(flock_until_phase(f, 2, PHASE_TRAINING, 5000));
  sim_part(f, 1, 2);
  f->agents[2]->corrupt = 1;
  size_t told = flock_story(f->agents[0])->n_told, n_full = f->agents[0]->n_asked_full;
  sim_run(f, 6000);
  ck_assert_uint_eq(flock_noted(f, 0, "copy-broken"), 1);
  ck_assert_uint_eq(flock_dropped(f, 0, 2, ERR_ROOT), 1);
  ck_assert_uint_eq(flock_count_reason(f, 0, told, 2, ERR_ROOT), 1);
  ck_assert_uint_eq(f->agents[0]->n_asked_full - n_full, 1);
  ck_assert_int_eq(flock_story(f->agents[0])->told[told + 1].reasons[2], ERR_OK);
  flock_free(f);
}
END_TEST

START_TEST(three_broken_payloads_in_a_row_quarantine) {
  struct sim *f = forever(3);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 5, 60000));
  f->agents[2]->corrupt = 1000;
  uint64_t start_ms = f->now_ms;
  ck_assert(flock_until_round(f, 0, 25, 60000));
  ck_assert_uint_le(f->now_ms - start_ms, 20 * (TRAIN_MS + 100) + 3000);
  for (size_t i = 0; i < 2; i++) {
    ck_assert_uint_eq(flock_noted(f, i, "copy-broken"), 2);
    ck_assert_uint_eq(flock_noted(f, i, "peer-quarantined"), 1);
    ck_assert_int_eq(flock_told(f, i, 0)->reasons[2], ERR_QUARANTINED);
    ck_assert_uint_eq(flock_count_reason(f, i, 0, 2, ERR_ROOT), 3);
  }
  flock_free(f);
}
END_TEST

/* ---- 18: history ---- */

START_TEST(a_restored_backup_is_proved_by_our_own_manifest) {
  for (int is_lost = 0; is_lost < 2; is_lost++) {
    struct sim *f = forever(3);
    sim_start_all(f);
    ck_assert(flock_until_round(f, 0, 4, 60000));
    struct sim_durable *backup = sim_back_up(f, 0);
    ck_assert(flock_until_round(f, 0, 12, 60000));
    sim_kill(f, 0);
    uint64_t epoch = f->agents[0]->durable.boot_epoch;
    uint64_t sequence = f->agents[0]->durable.kept[f->agents[0]->durable.n_kept - 1].position.sequence;
    sim_restore(f, 0, is_lost ? NULL : backup);
    flock_story(f->agents[0])->n_told = 0;
    sim_run(f, 3000);
    sim_start(f, 0);
    size_t n_chains = f->agents[0]->n_chains;
    sim_run(f, 20000);
    ck_assert_uint_eq(flock_noted(f, 0, "rolled-back"), 1);
    const struct sim_durable *d = &f->agents[0]->durable;
    ck_assert_uint_gt(d->boot_epoch >> 32, epoch >> 32);
    ck_assert_uint_gt(d->kept[d->n_kept - 1].position.sequence, sequence);
    ck_assert_uint_eq(f->agents[0]->n_chains - n_chains, 1); /* what it publishes next starts a chain, once */
    for (size_t i = 1; i < 3; i++) {
      ck_assert_int_eq(flock_told(f, i, 0)->reasons[0], ERR_OK);
      ck_assert_uint_eq(flock_noted(f, i, "equivocation"), 0);
    }
    ck_assert_int_eq(flock_told(f, 0, 0)->reasons[1], ERR_OK);
    assert_together(f, 1);
    sim_durable_free(backup);
    flock_free(f);
  }
}
END_TEST

START_TEST(a_cloned_disk_is_reported_and_the_others_go_on) {
  struct sim *f = forever(4);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 6, 60000));
  size_t clone = sim_clone(f, 3);
  sim_start(f, clone);
  uint64_t round = flock_committed(f, 0).round;
  sim_run(f, 60000);
  size_t n_reported = 0;
  for (size_t i = 0; i < 3; i++) {
    n_reported += flock_noted(f, i, "clone") > 0;
    ck_assert_uint_ge(flock_committed(f, i).round, round + 25); /* some gathers run into their deadline */
    ck_assert_int_eq(flock_told(f, i, 0)->outcome, ROUND_MERGED);
    ck_assert_int_eq(flock_told(f, i, 0)->reasons[(i + 1) % 3], ERR_OK);
    ck_assert_uint_eq(flock_noted(f, i, "equivocation"), 0);
    assert_no_round_lost(f, i);
  }
  ck_assert_uint_eq(n_reported, 3);
  flock_free(f);
}
END_TEST

static struct identity *forger;

/* A manifest with the receiver's job, of a later sequence, that the receiver did not sign. */
static void forge_history(struct hello_job *hello, size_t to) {
  struct manifest m;
  (void)to;
  if (!hello->has_proof)
    return;
  HOLDS(manifest_read(hello->proof, MANIFEST_BYTES, &m) == ERR_OK);
  struct identity_key origin = m.origin;
  m.sequence += 1000;
  m.boot_epoch += UINT64_C(1) << 40;
  manifest_sign(&m, forger);
  m.origin = origin;
  manifest_write(&m, hello->proof);
}

START_TEST(a_liar_about_our_history_is_scored_and_changes_nothing) {
  struct sim *f = forever(3);
  HOLDS(identity_new(&forger) == ERR_OK);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 6, 60000));
  f->agents[2]->lie_in_hello = forge_history;
  size_t n_chains = f->agents[0]->n_chains;
  uint64_t epoch = f->agents[0]->durable.boot_epoch;
  sim_part(f, 0, 2);
  sim_run(f, 1500);
  sim_heal(f, 0, 2);
  sim_run(f, 20000);
  ck_assert_uint_ge(flock_dropped(f, 0, 2, ERR_FALSE_HISTORY), 1);
  ck_assert_uint_eq(flock_noted(f, 0, "rolled-back"), 0);
  ck_assert_uint_eq(f->agents[0]->durable.boot_epoch, epoch);
  ck_assert_uint_eq(f->agents[0]->n_chains, n_chains);
  assert_together(f, 1);
  identity_free(forger);
  flock_free(f);
}
END_TEST

/* ---- 31: our own failures ---- */

START_TEST(failed_trainings_publish_none_halve_the_rate_and_pause) {
  struct sim *f = forever(3);
  struct sim_agent *a = f->agents[2];
  sim_start_all(f);
  ck_assert(flock_until_round(f, 2, 5, 60000));
  for (uint32_t n = 1; n <= 2; n++) {
    size_t told = flock_story(f->agents[0])->n_told, own = flock_story(a)->n_told;
    ck_assert(flock_until_phase(f, 2, PHASE_TRAINING, 5000));
    a->fail_trainings = n;
    uint64_t start_ms = f->now_ms;
    ck_assert(flock_until_round(f, 0, flock_story(f->agents[0])->told[told - 1].label.round + 5, 60000));
    ck_assert_uint_le(f->now_ms - start_ms, 5 * (TRAIN_MS + 100)); /* nobody waits for what there is not */
    ck_assert_uint_eq(flock_count_reason(f, 0, told, 2, ERR_NO_UPDATE), n);
    ck_assert_uint_eq(flock_noted(f, 2, "train-failed"), n == 1 ? 1 : 3);
    for (size_t i = own; i < flock_story(a)->n_told; i++) /* the number goes on */
      ck_assert_uint_eq(flock_story(a)->told[i].label.round, flock_story(a)->told[i - 1].label.round + 1);
    ck_assert(a->last_rate_scale == 1); /* a training succeeded since */
  }
  ck_assert_ptr_nonnull(strstr(flock_last_note(f, 2, "train-failed")->text, "halved"));
  a->fail_trainings = 1000;
  ck_assert(flock_until_phase(f, 2, PHASE_PAUSED, 10000));
  ck_assert(a->last_rate_scale == 0.5);
  ck_assert_ptr_nonnull(strstr(flock_last_note(f, 2, "train-failed")->text, "paused"));
  sim_run(f, 3000);
  ck_assert_int_eq(flock_told(f, 0, 0)->reasons[2], ERR_PAUSED);
  uint64_t start_ms = f->now_ms;
  ck_assert(flock_until_round(f, 0, flock_committed(f, 0).round + 20, 60000));
  ck_assert_uint_le(f->now_ms - start_ms, 20 * (TRAIN_MS + 60));
  flock_free(f);
}
END_TEST

START_TEST(a_merge_that_is_not_finite_keeps_the_half_step_and_the_number_goes_on) {
  struct sim *f = forever(3);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 5, 60000));
  ck_assert(flock_until_phase(f, 0, PHASE_GATHERING, 5000));
  uint64_t round = f->agents[0]->machine->in_work.round;
  double half = f->agents[0]->x[0];
  f->agents[0]->merge_is_not_finite = true;
  ck_assert(flock_until_round(f, 0, round, 60000));
  ck_assert_int_eq(flock_told(f, 0, 0)->outcome, ROUND_MERGE_REFUSED);
  ck_assert(flock_told(f, 0, 0)->model == half);
  sim_run(f, 5000);
  ck_assert_int_eq(flock_told(f, 0, 0)->outcome, ROUND_MERGED);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

/* ---- 36: a lost link ---- */

static double number_of(const struct sim_agent *a) {
  double x;
  ck_assert_uint_eq(a->durable.model.n_bytes, a->sim->dims * sizeof x);
  memcpy(&x, a->durable.model.bytes, sizeof x);
  return x;
}

static bool is_same_number(double a, double b) {
  return a <= b && a >= b;
}

START_TEST(who_goes_back_takes_the_kept_model_and_starts_a_chain) {
  struct sim *f = forever(3);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 6, 60000));
  struct sim_agent *a = f->agents[0];
  const struct sim_model *to = &a->durable.models[0];
  ck_assert_uint_eq(a->durable.n_models, SIM_KEEP_MODELS);
  struct round_label label = to->label;
  double kept;
  memcpy(&kept, to->model.bytes, sizeof kept);
  size_t n_chains = a->n_chains;
  ck_assert_int_eq(sim_roll_back(f, 0, SIM_KEEP_MODELS), ERR_NOT_FOUND);
  ck_assert_int_eq(sim_roll_back(f, 0, SIM_KEEP_MODELS - 1), ERR_OK);
  while (flock_noted(f, 0, "model-rolled-back") == 0)
    ck_assert(sim_step(f, f->now_ms + 60000));
  ck_assert(is_same_number(number_of(a), kept) && is_same_number(a->x[0], kept));
  ck_assert(round_label_equal(a->durable.back->to, label));
  ck_assert_uint_eq(a->durable.committed.sub, 1);
  sim_kill(f, 0); /* it is durable, and peers are told after the restart, too */
  sim_start(f, 0);
  sim_run(f, 15000);
  ck_assert_uint_ge(a->durable.committed.round, 9);
  ck_assert_uint_gt(a->n_chains, n_chains);
  ck_assert_uint_ge(flock_noted(f, 1, "peer-rolled-back"), 1);
  ck_assert_uint_ge(flock_noted(f, 2, "peer-rolled-back"), 1);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

/* The model is let go of between its loading and the commit: what was committed goes on. */
START_TEST(a_roll_back_that_is_refused_changes_nothing) {
  struct sim *f = forever(3);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 6, 60000));
  struct sim_agent *a = f->agents[0];
  ck_assert_int_eq(sim_roll_back(f, 0, 2), ERR_OK);
  double kept;
  memcpy(&kept, a->durable.models[0].model.bytes, sizeof kept);
  while (!is_same_number(a->x[0], kept)) /* restored, not committed */
    ck_assert(sim_step(f, f->now_ms + 60000));
  for (size_t i = 0; i < SIM_KEEP_MODELS; i++)
    a->durable.models[i].label.round = 0;
  struct round_label committed = a->durable.committed;
  while (flock_noted(f, 0, "roll-back-refused") == 0)
    ck_assert(sim_step(f, f->now_ms + 60000));
  ck_assert(is_same_number(number_of(a), a->x[0]) && !is_same_number(a->x[0], kept));
  ck_assert(round_label_equal(a->durable.committed, committed));
  sim_run(f, 15000);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

START_TEST(cut_off_for_the_time_of_sixty_rounds) {
  struct sim *f = forever(3);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 18, 60000));
  uint64_t round = flock_committed(f, 0).round;
  sim_part(f, 0, 1);
  sim_part(f, 0, 2);
  sim_part(f, 1, 2);
  sim_run(f, 60 * (TRAIN_MS + 60));
  for (size_t i = 0; i < 3; i++) {
    struct round_label label = flock_committed(f, i);
    ck_assert_int_eq(flock_phase(f, i), PHASE_ALONE);
    ck_assert_uint_eq(label.sub, 3);
    ck_assert_uint_le(label.round - round, 1);
    for (size_t k = 0; k < 3; k++)
      ck_assert_int_eq(flock_told(f, i, k)->outcome, ROUND_SHORT);
    ck_assert_int_eq(flock_told(f, i, 0)->reasons[(i + 1) % 3], ERR_UNREACHABLE);
  }
  size_t n_trainings = f->agents[0]->n_trainings, told = flock_story(f->agents[0])->n_told;
  sim_run(f, 30000);
  ck_assert_uint_eq(f->agents[0]->n_trainings, n_trainings); /* idle */
  sim_heal(f, 0, 1);
  sim_heal(f, 0, 2);
  sim_heal(f, 1, 2);
  ck_assert(flock_until_round(f, 0, round + 2, 40000));                          /* the longest back-off is 30 s */
  ck_assert_int_eq(flock_story(f->agents[0])->told[told].outcome, ROUND_MERGED); /* the very next round */
  sim_run(f, 40000);
  for (size_t i = 0; i < 3; i++)
    ck_assert_uint_eq(flock_told(f, i, 0)->n_merged, 2);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

/* Two go on, one is away: it comes back in one exchange and is merged in the next round. */
/* A restart changes nothing of being alone, nor of coming back. */
START_TEST(restart_while_alone_and_while_jumping) {
  for (int is_jumping = 0; is_jumping < 2; is_jumping++) {
    struct sim *f = forever(3);
    sim_start_all(f);
    ck_assert(flock_until_round(f, 0, 10, 60000));
    sim_part(f, 0, 1);
    sim_part(f, 0, 2);
    ck_assert(flock_until_phase(f, 0, PHASE_ALONE, 60000));
    struct round_label label = flock_committed(f, 0);
    size_t n_trainings = f->agents[0]->n_trainings;
    sim_run(f, 20000);
    if (is_jumping) {
      sim_heal(f, 0, 1);
      sim_heal(f, 0, 2);
      ck_assert(flock_until_phase(f, 0, PHASE_JUMPING, 40000));
    }
    sim_kill(f, 0);
    sim_start(f, 0);
    ck_assert_uint_eq(flock_committed(f, 0).round, label.round);
    ck_assert_uint_eq(flock_committed(f, 0).sub, 3);
    if (!is_jumping) {
      ck_assert(flock_until_phase(f, 0, PHASE_ALONE, 100));
      sim_run(f, 5000);
      ck_assert_uint_eq(f->agents[0]->n_trainings, n_trainings);
      sim_heal(f, 0, 1);
      sim_heal(f, 0, 2);
    }
    sim_run(f, 40000);
    ck_assert_uint_eq(f->agents[0]->n_jumps, 1);
    ck_assert_uint_eq(flock_told(f, 0, 0)->n_merged, 2);
    assert_together(f, 1);
    flock_free(f);
  }
}
END_TEST

START_TEST(one_is_cut_off_and_two_go_on) {
  struct sim *f = forever(3);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 18, 60000));
  sim_part(f, 0, 1);
  sim_part(f, 0, 2);
  sim_run(f, 60 * (TRAIN_MS + 60));
  const struct sim_agent *a = f->agents[0];
  ck_assert_int_eq(flock_phase(f, 0), PHASE_ALONE);
  ck_assert_uint_eq(flock_committed(f, 0).sub, 3);
  ck_assert_uint_ge(flock_committed(f, 1).round, 70);
  size_t told = flock_story(a)->n_told;
  sim_heal(f, 0, 1);
  sim_heal(f, 0, 2);
  for (uint64_t t = 0; t < 40000 && flock_story(a)->n_told < told + 2; t += 10)
    sim_run(f, 10);
  ck_assert_int_eq(flock_story(a)->told[told].outcome, ROUND_JUMPED); /* one exchange */
  ck_assert_int_eq(flock_story(a)->told[told + 1].outcome, ROUND_MERGED);
  sim_run(f, 35000);
  ck_assert_uint_eq(a->n_jumps, 1);
  for (size_t i = 0; i < 3; i++)
    ck_assert_uint_eq(flock_told(f, i, 0)->n_merged, 2);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

/* ---- 5, 10: who is slow costs its own share only ---- */

enum { BIG = 32768 }; /* numbers: four chunks */

static struct sim *big_models(size_t n) {
  struct sim *f = flock_new(n, BIG);
  for (size_t i = 0; i < n; i++)
    sim_own_config(f->agents[i])->deadline_max_ms = 10000;
  return f;
}

static uint64_t last_chunk_ms;

/* The last agent answers a GET by one chunk every 30 s. */
static bool starve(struct sim *f, size_t from, size_t to, uint8_t type) {
  (void)to;
  if (from != f->n_agents - 1 || type != MESSAGE_CHUNK)
    return false;
  bool is_due = f->now_ms >= last_chunk_ms + 30000;
  if (is_due)
    last_chunk_ms = f->now_ms;
  return !is_due;
}

/* From now on agents 0 and 1 need no more than three gathers' deadlines above their own work for so many rounds. */
static void assert_others_on_time(struct sim *f, uint64_t n_rounds) {
  uint64_t start_ms = f->now_ms;
  size_t told = flock_story(f->agents[0])->n_told;
  ck_assert(flock_until_round(f, 0, flock_committed(f, 0).round + n_rounds, 300000));
  ck_assert_uint_le(f->now_ms - start_ms, n_rounds * (TRAIN_MS + 150) + 30000);
  for (size_t i = told; i < flock_story(f->agents[0])->n_told; i++) {
    ck_assert_int_eq(flock_story(f->agents[0])->told[i].outcome, ROUND_MERGED);
    ck_assert_int_eq(flock_story(f->agents[0])->told[i].reasons[1], ERR_OK);
    ck_assert_uint_eq(flock_story(f->agents[0])->told[i].lags[1], 0);
  }
}

START_TEST(a_peer_that_starves_our_fetches_is_slow_and_others_are_on_time) {
  struct sim *f = big_models(3);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 10, 60000));
  last_chunk_ms = 0;
  f->lose = starve;
  assert_others_on_time(f, 40);
  ck_assert_uint_eq(flock_noted(f, 0, "peer-slow"), 1);
  ck_assert_int_eq(flock_told(f, 0, 0)->reasons[2], ERR_SLOW);
  ck_assert_int_eq(flock_standing(f, 0, 2), ERR_SLOW);
  f->lose = NULL;
  sim_run(f, 30000);
  ck_assert_uint_eq(flock_noted(f, 0, "peer-back"), 1);
  ck_assert_int_eq(flock_told(f, 0, 0)->reasons[2], ERR_OK);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

START_TEST(a_link_of_one_byte_a_second_holds_nobody_up) {
  struct sim *f = big_models(3);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 10, 60000));
  for (size_t i = 0; i < 2; i++)
    sim_link(f, 2, i)->bytes_per_s = 1;
  assert_others_on_time(f, 40);
  enum err standing = flock_standing(f, 0, 2);
  ck_assert(standing == ERR_SLOW || standing == ERR_ABSENT); /* with a session, or without one */
  for (size_t i = 0; i < 2; i++)
    sim_link_reset(f, 2, i);
  sim_run(f, 60000);
  ck_assert_int_eq(flock_told(f, 0, 0)->reasons[2], ERR_OK);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

/* A joiner takes the copies that come. The one that starves it is the last agent, so the joiner is another one. */
START_TEST(a_joiner_does_not_wait_for_a_copy_that_trickles) {
  struct sim *f = big_models(3);
  sim_own_config(f->agents[0])->deadline_max_ms = 120000;
  sim_start(f, 1);
  sim_start(f, 2);
  ck_assert(flock_until_round(f, 1, 10, 90000));
  last_chunk_ms = 0;
  f->lose = starve;
  sim_start(f, 0);
  uint64_t start_ms = f->now_ms;
  ck_assert(flock_until_round(f, 0, 10, 60000));
  ck_assert_uint_le(f->now_ms - start_ms, 12000); /* below 16 KiB/s for 10 s */
  ck_assert_int_eq(flock_told(f, 0, 0)->outcome, ROUND_ADOPTED);
  ck_assert_uint_eq(flock_told(f, 0, 0)->n_merged, 1);
  flock_free(f);
}
END_TEST

static bool say_nothing_of_updates(struct sim *f, size_t from, size_t to, uint8_t type) {
  return from == f->n_agents - 1 && to == 0 && type == MESSAGE_MANIFEST;
}

/* Nor for one that claims a round and never answers the question for its copy. */
START_TEST(a_joiner_does_not_wait_for_a_peer_that_shows_nothing) {
  struct sim *f = counted(3, 0);
  sim_start(f, 1);
  sim_start(f, 2);
  ck_assert(flock_until_round(f, 1, 10, 90000));
  f->lose = say_nothing_of_updates;
  sim_start(f, 0);
  uint64_t start_ms = f->now_ms;
  ck_assert(flock_until_round(f, 0, 10, 60000));
  ck_assert_uint_le(f->now_ms - start_ms, (uint64_t)2 * ANSWER_MS + 500);
  ck_assert_int_eq(flock_told(f, 0, 0)->outcome, ROUND_ADOPTED);
  ck_assert_uint_eq(flock_told(f, 0, 0)->n_merged, 1);
  flock_free(f);
}
END_TEST

/* One direction of a link is silent: neither side hangs, and what comes the other way counts. */
START_TEST(a_link_that_is_silent_in_one_direction) {
  struct sim *f = forever(3);
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 10, 60000));
  sim_mute(f, 2, 0);
  uint64_t start_ms = f->now_ms;
  size_t told = flock_story(f->agents[0])->n_told;
  ck_assert(flock_until_round(f, 0, 40, 60000));
  /* The session ends after four seconds of silence; two more gathers without one, and it is absent. */
  ck_assert_uint_le(f->now_ms - start_ms, 30 * (TRAIN_MS + 60) + 7000);
  for (size_t i = told; i < flock_story(f->agents[0])->n_told; i++)
    ck_assert_int_eq(flock_story(f->agents[0])->told[i].reasons[1], ERR_OK);
  ck_assert_int_eq(flock_standing(f, 0, 2), ERR_ABSENT);
  ck_assert_int_eq(flock_standing(f, 2, 0), ERR_ABSENT);
  ck_assert_int_eq(flock_standing(f, 1, 2), ERR_OK);
  sim_heal(f, 0, 2);
  sim_run(f, 20000);
  for (size_t i = 0; i < 3; i++)
    ck_assert_uint_eq(flock_told(f, i, 0)->n_merged, 2);
  assert_together(f, 1);
  flock_free(f);
}
END_TEST

/* ---- unequal sites ---- */

static struct sim *unequal(bool is_auto) {
  static const uint32_t samples[] = {60, 600, 6000};
  struct sim *f = counted(3, 20);
  for (size_t i = 0; i < 3; i++) {
    f->agents[i]->samples = samples[i];
    f->agents[i]->host.step_ms = 50;
    sim_own_config(f->agents[i])->is_steps_auto = is_auto;
    sim_own_config(f->agents[i])->deadline_min_ms = 15000;
  }
  f->agents[1]->host.loading_ms = 3000; /* the others wait until it has counted its samples */
  return f;
}

static uint32_t newest_local_steps(const struct sim *f, size_t which) {
  const struct sim_durable *d = &f->agents[which]->durable;
  struct manifest m;
  HOLDS(manifest_read(d->kept[d->n_kept - 1].manifest, MANIFEST_BYTES, &m) == ERR_OK);
  return m.local_steps;
}

START_TEST(unequal_sites_do_equal_work) {
  static const uint32_t epochs[] = {2, 19, 188};
  for (size_t is_auto = 0; is_auto < 2; is_auto++) {
    struct sim *f = unequal(is_auto);
    sim_start_all(f);
    uint64_t start_ms = f->now_ms;
    run_to_the_end(f, 400000);
    assert_all_gathers_complete(f, 20);
    for (size_t i = 0; i < 3; i++) {
      struct round_view v;
      round_view(f->agents[i]->machine, &v);
      ck_assert_uint_eq(v.steps, is_auto ? 19 : epochs[i]);
      ck_assert_uint_eq(newest_local_steps(f, i), v.steps);
      ck_assert_uint_eq(f->agents[i]->last_steps, v.steps);
    }
    uint64_t rounds_ms = f->now_ms - start_ms - (is_auto ? f->agents[1]->host.loading_ms : 0);
    uint64_t round_ms = rounds_ms / 20; /* as long as the largest site's epoch, or as the median's */
    ck_assert_uint_ge(round_ms, is_auto ? 19 * 50 : 188 * 50);
    ck_assert_uint_le(round_ms, (is_auto ? 19 * 50 : 188 * 50) + 80);
    flock_free(f);
  }
}
END_TEST

static void claim_endless_epoch(struct wire_state *state) {
  state->epoch_steps = MAX_SAMPLES;
}

START_TEST(a_lone_liar_about_its_epoch_does_not_make_us_work_more) {
  struct sim *f = forever(2);
  for (size_t i = 0; i < 2; i++)
    sim_own_config(f->agents[i])->is_steps_auto = true;
  f->agents[1]->lie = claim_endless_epoch;
  sim_start_all(f);
  ck_assert(flock_until_round(f, 0, 5, 60000));
  ck_assert_uint_eq(f->agents[0]->last_steps, 4); /* ⌈100 / 32⌉ */
  flock_free(f);
}
END_TEST

START_TEST(trainings_start_no_more_often_than_asked) {
  struct sim *f = counted(3, 20);
  for (size_t i = 0; i < 3; i++)
    f->agents[i]->host.training_ms = 20;
  sim_own_config(f->agents[1])->every_ms = 3000;
  sim_start_all(f);
  uint64_t start_ms = f->now_ms;
  ck_assert(flock_until_round(f, 1, 5, 60000));
  sim_run(f, 1000);
  struct round_view v;
  round_view(f->agents[1]->machine, &v);
  ck_assert_int_eq(v.phase, PHASE_IDLE);
  ck_assert_uint_gt(v.starts_at_ms, f->now_ms);
  ck_assert_uint_le(v.starts_at_ms, f->now_ms + 3000);
  uint64_t starts_ms = v.starts_at_ms;
  sim_run(f, starts_ms - f->now_ms);
  ck_assert_int_eq(flock_phase(f, 1), PHASE_TRAINING);
  round_view(f->agents[1]->machine, &v);
  ck_assert_uint_eq(v.starts_at_ms, 0);
  run_to_the_end(f, 100000);
  assert_all_gathers_complete(f, 20); /* the others wait for it, within their deadlines */
  ck_assert_uint_ge(f->now_ms - start_ms, 57000);
  ck_assert_uint_le(f->now_ms - start_ms, 57500);
  flock_free(f);
}
END_TEST

int main(void) {
  return SUITE_RUN(
      "situations", five_agents_do_sixty_rounds_and_agree, both_wait_for_each_other, one_fast_and_one_ten_times_slower,
      slow_after_three_missed_gathers_then_back, restart_in_every_phase, a_joiner_in_mid_run_adopts_the_median,
      a_joiner_of_a_finished_job_adopts_and_is_finished, forty_rounds_late_jumps_once,
      the_few_that_went_on_mark_time_until_the_many_have_come_up, a_single_liar_about_the_round_is_not_followed,
      a_lone_peer_has_to_show_the_round_that_it_claims, a_jump_goes_to_the_round_that_was_shown,
      who_does_not_follow_us_is_neither_awaited_nor_merged, different_counts_at_two_sites,
      who_has_finished_is_served_and_not_waited_for, the_end_waits_for_a_live_follower_at_most_the_linger,
      a_peer_that_does_not_list_us_then_does, missing_links_are_fetched_as_links_and_more_than_eight_as_a_copy,
      a_broken_payload_is_refused_this_round_and_healed_in_the_next, three_broken_payloads_in_a_row_quarantine,
      a_restored_backup_is_proved_by_our_own_manifest, a_cloned_disk_is_reported_and_the_others_go_on,
      a_liar_about_our_history_is_scored_and_changes_nothing, failed_trainings_publish_none_halve_the_rate_and_pause,
      a_merge_that_is_not_finite_keeps_the_half_step_and_the_number_goes_on,
      who_goes_back_takes_the_kept_model_and_starts_a_chain, a_roll_back_that_is_refused_changes_nothing,
      cut_off_for_the_time_of_sixty_rounds, one_is_cut_off_and_two_go_on, restart_while_alone_and_while_jumping,
      a_peer_that_starves_our_fetches_is_slow_and_others_are_on_time, a_link_of_one_byte_a_second_holds_nobody_up,
      a_joiner_does_not_wait_for_a_peer_that_shows_nothing, a_joiner_does_not_wait_for_a_copy_that_trickles,
      a_link_that_is_silent_in_one_direction, unequal_sites_do_equal_work,
      a_lone_liar_about_its_epoch_does_not_make_us_work_more, trainings_start_no_more_often_than_asked);
}
