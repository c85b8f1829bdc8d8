/* What a round machine was told and did, kept in a ring and done again: simulated agents in every trouble that agent/sim knows, each
 * life of each with a recorder. */
#include "agent/core/recorder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/record.h"
#include "agent/core/replay.h"
#include "agent/core/round_machine.h"
#include "agent/sim/sim.h"
#include "base/must.h"
#include "crypto/random.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

enum { MINUTE_MS = 60000, N_AGENTS = 6, MAX_LIVES = 24, WHOLE_BYTES = 8 << 20, SMALL_BYTES = 64 << 10 };

struct swarm {
  struct sim *sim;
  size_t ring_bytes;
  struct recorder *lives[MAX_LIVES];
  size_t n_lives;
};

static void on_made(void *context, struct sim_agent *a) {
  struct swarm *w = context;
  ck_assert_uint_lt(w->n_lives, MAX_LIVES);
  ck_assert_int_eq(recorder_new(w->ring_bytes, &w->lives[w->n_lives]), ERR_OK);
  recorder_attach(w->lives[w->n_lives++], a->machine);
}

static void swarm_open(struct swarm *w, size_t ring_bytes, uint64_t seed) {
  *w = (struct swarm){.sim = sim_new_as(SIM_PROTOCOL, N_AGENTS, 4, seed), .ring_bytes = ring_bytes};
  w->sim->watch.context = w;
  w->sim->watch.made = on_made;
  for (size_t i = 0; i < N_AGENTS; i++) {
    for (size_t k = 0; k < i; k++)
      sim_meet(w->sim, i, k);
    sim_own_config(w->sim->agents[i])->deadline_max_ms = 4000;
    sim_own_config(w->sim->agents[i])->meet_ms = 2000;
  }
  w->sim->default_link.loss = 0.01;
  w->sim->default_link.delay_us = 20000;
}

static void swarm_close(struct swarm *w) {
  sim_free(w->sim);
  for (size_t i = 0; i < w->n_lives; i++)
    recorder_free(w->lives[i]);
}

/* Kills, a full disk, cut links, failed trainings and broken payloads; a job that is paused and one that is alone. */
static void live(struct sim *s, unsigned n_minutes) {
  sim_start_all(s);
  for (unsigned i = 0; i < n_minutes; i++) {
    size_t one = i % N_AGENTS, two = (i + 2) % N_AGENTS;
    sim_run(s, MINUTE_MS / 4);
    sim_kill(s, one);
    sim_part(s, two, (two + 1) % N_AGENTS);
    s->agents[(i + 3) % N_AGENTS]->host.disk = ERR_NO_SPACE;
    s->agents[(i + 4) % N_AGENTS]->fail_trainings = i % 2 + 1;
    s->agents[(i + 5) % N_AGENTS]->corrupt = 2;
    sim_run(s, MINUTE_MS / 4);
    if (i % 3 == 1)
      sim_restore(s, one, NULL);
    sim_start(s, one);
    sim_heal(s, two, (two + 1) % N_AGENTS);
    s->agents[(i + 3) % N_AGENTS]->host.disk = ERR_OK;
    sim_run(s, MINUTE_MS / 2);
  }
}

struct story {
  uint8_t *bytes;
  size_t n_bytes;
};

static struct story story_of(const struct recorder *r) {
  struct story s = {.n_bytes = recorder_bytes(r)};
  s.bytes = malloc(s.n_bytes + 1);
  MUST(s.bytes != NULL);
  recorder_copy(r, s.bytes);
  return s;
}

/* All events of it again; how many. */
static uint64_t repeat(const struct story *s, uint64_t *out_gaps) {
  struct replay *r;
  bool has = true;
  ck_assert_int_eq(replay_new(s->bytes, s->n_bytes, &r), ERR_OK);
  while (has) {
    ck_assert_msg(replay_next(r, &has) == ERR_OK, "event %d", (int)replay_event(r)->n);
    const struct replay_event *e = replay_event(r);
    ck_assert_msg(!e->differs, "event %d, %s: recorded %s, now %s", (int)e->n, e->text, e->recorded, e->now);
  }
  uint64_t n = replay_event(r)->n;
  *out_gaps += replay_gaps(r);
  replay_free(r);
  return n;
}

static size_t n_checkpoints(const struct story *s) {
  size_t n = 0;
  struct cursor c;
  struct record_head h;
  cursor_init(&c, s->bytes, s->n_bytes);
  while (c.left > 0) {
    record_head_read(&c, &h);
    ck_assert(cursor_view(&c, h.n_body) && !c.failed);
    n += h.kind == RECORD_CHECKPOINT;
  }
  return n;
}

START_TEST(every_life_is_repeated) {
  struct swarm w;
  uint64_t n = 0, n_gaps = 0;
  swarm_open(&w, WHOLE_BYTES, (uint64_t)_i + 1);
  live(w.sim, 6);
  ck_assert_uint_eq(w.sim->n_broken, 0);
  ck_assert_uint_eq(w.n_lives, N_AGENTS + 6);
  for (size_t i = 0; i < w.n_lives; i++) {
    struct story s = story_of(w.lives[i]);
    ck_assert_uint_eq(n_checkpoints(&s), 1);
    n += repeat(&s, &n_gaps);
    free(s.bytes);
  }
  ck_assert_uint_gt(n, 20000);
  ck_assert_uint_eq(n_gaps, 0);
  swarm_close(&w);
}
END_TEST

START_TEST(what_is_left_of_a_ring_is_repeated) {
  struct swarm w;
  uint64_t n_gaps = 0;
  size_t n_two = 0;
  swarm_open(&w, SMALL_BYTES, (uint64_t)_i + 1);
  live(w.sim, 6);
  for (size_t i = 0; i < w.n_lives; i++) {
    struct story s = story_of(w.lives[i]);
    ck_assert_uint_le(s.n_bytes, SMALL_BYTES);
    ck_assert_uint_gt(repeat(&s, &n_gaps), 50);
    n_two += n_checkpoints(&s) == 2;
    free(s.bytes);
  }
  ck_assert_uint_gt(n_two, N_AGENTS);
  swarm_close(&w);
}
END_TEST

/* Until the end, a difference or damage. */
static enum err repeat_changed(const struct story *s, struct replay_event *out_last) {
  struct replay *r;
  bool has = true;
  enum err e = replay_new(s->bytes, s->n_bytes, &r);
  if (e != ERR_OK)
    return e;
  while (e == ERR_OK && has)
    e = replay_next(r, &has);
  *out_last = *replay_event(r);
  out_last->peer = "";
  replay_free(r);
  return e;
}

static struct story story_of_a_minute(void) {
  struct swarm w;
  swarm_open(&w, WHOLE_BYTES, 7);
  sim_start_all(w.sim);
  sim_run(w.sim, MINUTE_MS);
  struct story s = story_of(w.lives[0]);
  swarm_close(&w);
  return s;
}

/* Whatever is changed in what the machine did is found where it was done. */
/* A machine of many peers that have much to tell: its state is longer than a half. What was recorded before it was stays. */
START_TEST(a_checkpoint_that_has_no_room_costs_nothing_that_is_there) {
  enum { N_PEERS = 60, N_EVENTS = 4000 };
  struct swarm w = {.sim = sim_new_as(SIM_PROTOCOL, 1 + N_PEERS, 4, 1), .ring_bytes = SMALL_BYTES};
  w.sim->watch.context = &w;
  w.sim->watch.made = on_made;
  for (size_t i = 1; i <= N_PEERS; i++)
    sim_learn(w.sim, 0, i);
  sim_start(w.sim, 0);
  sim_run(w.sim, MINUTE_MS);
  sim_run(w.sim, MINUTE_MS);
  struct round_machine *m = w.sim->agents[0]->machine;
  ck_assert_uint_gt(recorder_bytes(w.lives[0]), 0);
  struct wire_notice notice = {.kind = NOTICE_ROLLED_BACK, .round = 1};
  memset(notice.text, 'x', sizeof notice.text - 1);
  for (size_t i = 0; i < N_PEERS; i++)
    machine_take_notice(m, i, &notice);
  for (size_t i = 0; i < N_EVENTS; i++) {
    round_on_session(m, i % N_PEERS, i / N_PEERS % 2 == 0, ERR_NO_SESSION, w.sim->now_ms);
    ck_assert_uint_gt(recorder_bytes(w.lives[0]), 0);
  }
  swarm_close(&w);
}
END_TEST

START_TEST(the_first_output_that_differs_is_named) {
  struct story s = story_of_a_minute();
  struct cursor c;
  struct record_head h;
  uint64_t n_event = 0, n_changed = 0;
  cursor_init(&c, s.bytes, s.n_bytes);
  for (size_t i = 0; c.left > 0; i++) {
    record_head_read(&c, &h);
    uint8_t *body = s.bytes + (c.at - s.bytes);
    ck_assert(cursor_view(&c, h.n_body) != NULL);
    n_event += h.kind < FIRST_OUTPUT;
    if (h.kind < FIRST_OUTPUT || h.kind == RECORD_CHECKPOINT || i % 16 != 1)
      continue;
    struct replay_event last = {0};
    size_t at = h.kind == RECORD_SIGN ? h.n_body / 2 : h.n_body - 1; /* the signature is the record's */
    body[at] ^= 1;
    enum err e = repeat_changed(&s, &last);
    body[at] ^= 1;
    ck_assert_int_eq(e, ERR_OK);
    ck_assert_msg(last.differs && last.n == n_event, "%d: %s: %s", (int)n_event, last.text, last.recorded);
    n_changed++;
  }
  ck_assert_uint_gt(n_changed, 20);
  free(s.bytes);
}
END_TEST

/* A peer that claimed to be further, a training that learnt from more samples. */
START_TEST(an_input_that_is_changed_is_found_by_what_comes_of_it) {
  struct story s = story_of_a_minute();
  struct cursor c;
  struct record_head h;
  struct replay_event last = {0};
  uint64_t n_event = 0;
  bool is_changed = false;
  cursor_init(&c, s.bytes, s.n_bytes);
  while (!is_changed) {
    record_head_read(&c, &h);
    ck_assert(!c.failed);
    uint8_t *body = s.bytes + (c.at - s.bytes);
    ck_assert(cursor_view(&c, h.n_body) != NULL);
    n_event += h.kind < FIRST_OUTPUT;
    enum { BEFORE = 1 + 2 + 8 + 8 + 12, LABEL = 12, REASON = 4 }; /* then: the number of samples */
    if (h.kind == RECORD_TRAINED && h.detail == JOB_TRAIN && n_event > 100) {
      body[BEFORE + LABEL + REASON] ^= 1;
      is_changed = true;
    }
  }
  ck_assert_int_eq(repeat_changed(&s, &last), ERR_OK);
  ck_assert(last.differs);
  ck_assert_uint_ge(last.n, n_event);
  ck_assert_str_eq(last.recorded, "signs");
  free(s.bytes);
}
END_TEST

START_TEST(damage_is_told) {
  struct story s = story_of_a_minute();
  struct replay_event last = {0};
  struct cursor c;
  struct record_head h;
  struct story cut = s;
  for (cut.n_bytes = 0; cut.n_bytes < 4000; cut.n_bytes += 7) {
    enum err e = repeat_changed(&cut, &last);
    ck_assert_msg(e == ERR_TRUNCATED || e == ERR_OK, "%d", (int)cut.n_bytes);
  }
  cut.n_bytes = s.n_bytes - 1;
  ck_assert_int_eq(repeat_changed(&cut, &last), ERR_TRUNCATED);
  cursor_init(&c, s.bytes, s.n_bytes);
  record_head_read(&c, &h);
  size_t n_first = RECORD_HEAD_BYTES + h.n_body;
  for (size_t i = RECORD_HEAD_BYTES; i < n_first; i++) { /* lengths and kinds among them */
    uint8_t was = s.bytes[i];
    s.bytes[i] = UINT8_MAX;
    cut = (struct story){s.bytes, n_first};
    (void)!repeat_changed(&cut, &last);
    s.bytes[i] = was;
  }
  cut = (struct story){s.bytes + n_first, s.n_bytes - n_first};
  ck_assert_int_eq(repeat_changed(&cut, &last), ERR_SYNTAX); /* no checkpoint */
  s.bytes[n_first + 4] = N_RECORD_KINDS;
  ck_assert_int_eq(repeat_changed(&s, &last), ERR_SYNTAX);
  s.bytes[n_first + 4] = RECORD_TRAINED; /* of no job */
  ck_assert_int_eq(repeat_changed(&s, &last), ERR_SYNTAX);
  free(s.bytes);
}
END_TEST

int main(void) {
  MUST(random_open() == ERR_OK);
  TCase *tcase = tcase_create("recorder");
  tcase_set_timeout(tcase, 120);
  tcase_add_loop_test(tcase, every_life_is_repeated, 0, (int)least_or(1, 4));
  tcase_add_loop_test(tcase, what_is_left_of_a_ring_is_repeated, 0, (int)least_or(1, 4));
  tcase_add_test(tcase, a_checkpoint_that_has_no_room_costs_nothing_that_is_there);
  tcase_add_test(tcase, the_first_output_that_differs_is_named);
  tcase_add_test(tcase, an_input_that_is_changed_is_found_by_what_comes_of_it);
  tcase_add_test(tcase, damage_is_told);
  return suite_run_case("recorder", tcase);
}
