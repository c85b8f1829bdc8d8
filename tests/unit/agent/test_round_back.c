/* Going back to a kept model: between rounds, durable, told to peers. */
#include "tests/unit/agent/swarm.h"
#include "tests/unit/suite.h"

static struct swarm *running(size_t n, uint64_t count, uint64_t until) {
  struct swarm *s = swarm_new(n);
  for (size_t i = 0; i < n; i++)
    s->agents[i].config.count = count;
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, until, 200000));
  return s;
}

static double model_of(const struct swarm *s, size_t which, struct round_label label) {
  const struct told *t = store_kept(&s->agents[which], label);
  ck_assert_ptr_nonnull(t);
  return t->model;
}

static struct round_roll_back_view view_of(const struct swarm *s, size_t which) {
  struct round_roll_back_view v;
  round_roll_back_view(s->agents[which].machine, &v);
  return v;
}

/* The commitment of a roll-back that was asked for, when it is there. */
static const struct told *back_told(struct swarm *s, size_t which, uint64_t limit_ms) {
  for (uint64_t t = 0; t < limit_ms && view_of(s, which).is_pending; t++)
    swarm_run(s, 1);
  ck_assert(!view_of(s, which).is_pending);
  const struct told *t = swarm_told(s, which, 0);
  ck_assert_int_eq(t->outcome, ROUND_ROLLED_BACK);
  return t;
}

/* Whatever it is doing: the number stays, the model is the old one, the next payload starts a chain, the swarm goes on. */
START_TEST(it_happens_between_rounds_in_every_phase) {
  static const enum phase phases[] = {PHASE_TRAINING, PHASE_PUBLISHING, PHASE_GATHERING, PHASE_MERGING, PHASE_IDLE};
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    struct swarm *s = running(3, 0, 10);
    s->agents[1].training_ms = 1500; /* so that the first one waits */
    if (phases[i] != PHASE_IDLE)
      ck_assert(swarm_until_phase(s, 0, phases[i], 20000));
    size_t n_chains = s->agents[0].n_chains;
    uint64_t round = swarm_round(s, 0);
    ck_assert_int_eq(round_on_roll_back(s->agents[0].machine, (struct round_label){4, 0}, "bad sensor", 7), ERR_OK);
    const struct told *t = back_told(s, 0, 20000);
    bool was_open = phases[i] != PHASE_TRAINING && phases[i] != PHASE_IDLE;
    ck_assert_uint_eq(t->label.round, round + was_open); /* what was out is committed first */
    ck_assert_uint_eq(t->label.sub, 1);
    ck_assert(t->model == model_of(s, 0, (struct round_label){4, 0}));
    ck_assert(s->agents[0].x == t->model);
    ck_assert_uint_eq(swarm_noted(s, 0, "model-rolled-back"), 1);
    ck_assert(swarm_until_round(s, 0, t->label.round + 3, 60000));
    ck_assert_uint_eq(s->agents[0].n_chains, n_chains + 1);
    ck_assert_uint_eq(swarm_told(s, 0, 0)->n_merged, 2);
    ck_assert_uint_eq(swarm_told(s, 1, 0)->n_merged, 2); /* and its updates are merged as before */
    swarm_free(s);
  }
}
END_TEST

START_TEST(peers_are_told_until_eight_more_rounds_are_committed) {
  struct swarm *s = running(3, 0, 10);
  ck_assert_int_eq(round_on_roll_back(s->agents[0].machine, (struct round_label){4, 0}, "bad sensor", 7), ERR_OK);
  uint64_t round = back_told(s, 0, 20000)->label.round;
  swarm_run(s, 100);
  struct round_peer_view v;
  char text[MAX_REASON_BYTES];
  round_peer_view(s->agents[1].machine, peer_index(&s->agents[1], 0), &v);
  notice_text(&v.notice, text);
  ck_assert_str_eq(text, "rolled back to 4: bad sensor");
  swarm_kill(s, 0); /* it is a level: also after a restart */
  swarm_run(s, 1000);
  swarm_start(s, 0);
  ck_assert(swarm_until_round(s, 0, round + 7, 100000));
  swarm_run(s, 50);
  round_peer_view(s->agents[1].machine, peer_index(&s->agents[1], 0), &v);
  ck_assert_int_eq(v.notice.kind, NOTICE_ROLLED_BACK);
  ck_assert(swarm_until_round(s, 0, round + 8, 100000));
  swarm_run(s, 50);
  round_peer_view(s->agents[1].machine, peer_index(&s->agents[1], 0), &v);
  ck_assert_int_eq(v.notice.kind, NOTICE_NONE);
  ck_assert_uint_eq(swarm_noted(s, 1, "peer-rolled-back"), 1); /* once, sessions and STATEs in between */
  ck_assert_uint_eq(swarm_noted(s, 2, "peer-rolled-back"), 1);
  swarm_free(s);
}
END_TEST

START_TEST(a_kill_right_after_it_keeps_it) {
  struct swarm *s = running(3, 0, 10);
  size_t n_chains = s->agents[0].n_chains;
  ck_assert_int_eq(round_on_roll_back(s->agents[0].machine, (struct round_label){4, 0}, "", 7), ERR_OK);
  const struct told *t = back_told(s, 0, 20000);
  double model = t->model;
  uint64_t round = t->label.round;
  swarm_kill(s, 0);
  swarm_run(s, 100);
  swarm_start(s, 0);
  swarm_run(s, 100);
  ck_assert(s->agents[0].x == model || s->agents[0].has_pending);
  ck_assert(swarm_until_round(s, 0, round + 2, 60000));
  ck_assert_uint_eq(s->agents[0].n_chains, n_chains + 1);
  swarm_free(s);
}
END_TEST

START_TEST(a_model_that_is_not_kept_changes_nothing) {
  struct swarm *s = running(3, 0, 10);
  size_t n_chains = s->agents[0].n_chains;
  ck_assert(swarm_until_phase(s, 0, PHASE_TRAINING, 20000));
  ck_assert_int_eq(round_on_roll_back(s->agents[0].machine, (struct round_label){99, 3}, "", 7), ERR_OK);
  for (uint64_t t = 0; t < 20000 && view_of(s, 0).is_pending; t++)
    swarm_run(s, 1);
  ck_assert_int_eq(view_of(s, 0).error, ERR_NOT_FOUND);
  ck_assert_uint_eq(swarm_noted(s, 0, "roll-back-refused"), 1);
  uint64_t round = swarm_round(s, 0);
  ck_assert(swarm_until_round(s, 0, round + 3, 60000));
  ck_assert_uint_eq(s->agents[0].n_chains, n_chains); /* its chain goes on */
  ck_assert_int_eq(swarm_told(s, 0, 0)->outcome, ROUND_MERGED);
  swarm_free(s);
}
END_TEST

/* Unpinned between being read and being committed: the agent goes on with what it had. */
START_TEST(a_model_that_is_let_go_of_meanwhile_changes_nothing) {
  struct swarm *s = running(3, 0, 10);
  size_t n_chains = s->agents[0].n_chains;
  s->agents[0].back_refused = ERR_NOT_FOUND;
  ck_assert_int_eq(round_on_roll_back(s->agents[0].machine, (struct round_label){4, 0}, "", 7), ERR_OK);
  for (uint64_t t = 0; t < 20000 && view_of(s, 0).is_pending; t++)
    swarm_run(s, 1);
  ck_assert_int_eq(view_of(s, 0).error, ERR_NOT_FOUND);
  ck_assert_uint_eq(swarm_noted(s, 0, "roll-back-refused"), 1);
  ck_assert(s->agents[0].x == swarm_told(s, 0, 0)->model);
  uint64_t round = swarm_round(s, 0);
  ck_assert(swarm_until_round(s, 0, round + 3, 60000));
  ck_assert_uint_eq(s->agents[0].n_chains, n_chains);
  ck_assert_int_eq(swarm_told(s, 0, 0)->outcome, ROUND_MERGED);
  swarm_free(s);
}
END_TEST

/* A roll-back is no round without peers: after a restart as many are left as before. */
START_TEST(a_roll_back_does_not_count_as_a_round_alone) {
  struct swarm *s = running(2, 0, 10);
  ck_assert_int_eq(round_on_roll_back(s->agents[0].machine, (struct round_label){4, 0}, "", 7), ERR_OK);
  (void)back_told(s, 0, 20000);
  for (size_t i = 0; i < 2; i++)
    swarm_kill(s, i);
  size_t n_trainings = s->agents[0].n_trainings;
  swarm_start(s, 0);
  ck_assert(swarm_until_phase(s, 0, PHASE_ALONE, 200000));
  ck_assert_uint_eq(s->agents[0].n_trainings - n_trainings, s->agents[0].config.alone_rounds);
  swarm_free(s);
}
END_TEST

/* Neither does it wake a job that has paused or finished. */
START_TEST(a_refused_one_leaves_a_job_at_rest) {
  struct swarm *s = running(2, 6, 6);
  ck_assert(swarm_until_phase(s, 0, PHASE_FINISHED, 20000));
  unsigned n_finished = swarm_noted(s, 0, "finished");
  ck_assert_int_eq(round_on_roll_back(s->agents[0].machine, (struct round_label){99, 3}, "", 7), ERR_OK);
  for (uint64_t t = 0; t < 20000 && view_of(s, 0).is_pending; t++)
    swarm_run(s, 1);
  swarm_run(s, 1000);
  ck_assert_int_eq(view_of(s, 0).error, ERR_NOT_FOUND);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_FINISHED);
  ck_assert_uint_eq(swarm_noted(s, 0, "finished"), n_finished);
  swarm_free(s);

  s = running(2, 0, 6);
  s->agents[0].fail_trainings = 3;
  ck_assert(swarm_until_phase(s, 0, PHASE_PAUSED, 60000));
  ck_assert_int_eq(round_on_roll_back(s->agents[0].machine, (struct round_label){99, 3}, "", 7), ERR_OK);
  for (uint64_t t = 0; t < 20000 && view_of(s, 0).is_pending; t++)
    swarm_run(s, 1);
  swarm_run(s, 5000);
  ck_assert_int_eq(view_of(s, 0).error, ERR_NOT_FOUND);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_PAUSED);
  swarm_free(s);
}
END_TEST

START_TEST(one_at_a_time) {
  struct swarm *s = running(2, 0, 5);
  struct round_machine *m = s->agents[0].machine;
  char note[STORE_NOTE_BYTES + 1];
  memset(note, 'x', sizeof note - 1);
  note[sizeof note - 1] = '\0';
  ck_assert_int_eq(round_on_roll_back(m, (struct round_label){3, 0}, note, 7), ERR_LIMIT);
  ck_assert_int_eq(round_on_roll_back(m, (struct round_label){3, 0}, "", 7), ERR_OK);
  ck_assert_int_eq(round_on_roll_back(m, (struct round_label){3, 0}, "", 7), ERR_OK);
  ck_assert_int_eq(round_on_roll_back(m, (struct round_label){4, 0}, "", 7), ERR_BUSY);
  (void)back_told(s, 0, 20000);
  ck_assert_uint_eq(swarm_noted(s, 0, "model-rolled-back"), 1);
  swarm_free(s);
}
END_TEST

/* What no longer trains can be taken back too: a job that has finished stays finished, one that is paused goes on. */
START_TEST(a_finished_or_paused_job_goes_back_too) {
  struct swarm *s = running(2, 6, 6);
  ck_assert(swarm_until_phase(s, 0, PHASE_FINISHED, 20000));
  ck_assert_int_eq(round_on_roll_back(s->agents[0].machine, (struct round_label){3, 0}, "", 7), ERR_OK);
  swarm_run(s, 6000); /* the next tick may be the STATE's */
  ck_assert_int_eq(swarm_told(s, 0, 0)->outcome, ROUND_ROLLED_BACK);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_FINISHED);
  swarm_free(s);

  s = running(2, 0, 6);
  s->agents[0].fail_trainings = 3;
  ck_assert(swarm_until_phase(s, 0, PHASE_PAUSED, 60000));
  ck_assert_int_eq(round_on_roll_back(s->agents[0].machine, (struct round_label){3, 0}, "", 7), ERR_OK);
  uint64_t round = back_told(s, 0, 20000)->label.round;
  ck_assert(swarm_until_round(s, 0, round + 2, 60000));
  swarm_free(s);
}
END_TEST

/* A full disk only postpones it. */
START_TEST(a_full_disk_halts_it) {
  struct swarm *s = running(2, 0, 6);
  ck_assert_int_eq(round_on_roll_back(s->agents[0].machine, (struct round_label){3, 0}, "", 7), ERR_OK);
  ck_assert(swarm_until_phase(s, 0, PHASE_COMMITTING, 20000));
  for (uint64_t t = 0; t < 1000 && s->agents[0].machine->back.stage != BACK_WORKS; t++)
    swarm_run(s, 1);
  swarm_run(s, 23); /* its bytes are loaded */
  s->agents[0].disk = ERR_NO_SPACE;
  swarm_run(s, 5000);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_HALTED);
  s->agents[0].disk = ERR_OK;
  ck_assert_int_eq(back_told(s, 0, 60000)->outcome, ROUND_ROLLED_BACK);
  ck_assert_uint_eq(swarm_noted(s, 0, "resumed"), 1);
  swarm_free(s);
}
END_TEST

/* A model from elsewhere: committed between rounds as adopted; what peers hold of us stays, so no chain starts. */
START_TEST(a_model_from_elsewhere_goes_on_in_every_phase) {
  static const enum phase phases[] = {PHASE_TRAINING, PHASE_PUBLISHING, PHASE_GATHERING, PHASE_MERGING, PHASE_IDLE};
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    struct swarm *s = running(3, 0, 10);
    struct round_machine *m = s->agents[0].machine;
    s->agents[0].imported = 1234;
    s->agents[1].training_ms = 1500;
    if (phases[i] != PHASE_IDLE)
      ck_assert(swarm_until_phase(s, 0, phases[i], 20000));
    size_t n_chains = s->agents[0].n_chains;
    uint64_t round = swarm_round(s, 0);
    ck_assert_int_eq(round_on_import(m, "/state/.import-1"), ERR_OK);
    ck_assert_int_eq(round_on_import(m, "/state/.import-2"), ERR_BUSY);
    ck_assert_int_eq(round_on_roll_back(m, (struct round_label){0, 0}, "", 7), ERR_BUSY);
    for (uint64_t t = 0; t < 20000 && view_of(s, 0).is_pending; t++)
      swarm_run(s, 1);
    const struct round_roll_back_view v = view_of(s, 0);
    ck_assert(!v.is_pending && v.error == ERR_OK);
    const struct told *t = swarm_told(s, 0, 0);
    bool was_open = phases[i] != PHASE_TRAINING && phases[i] != PHASE_IDLE;
    ck_assert(round_label_equal(v.label, t->label) && t->label.round == round + was_open && t->label.sub == 1);
    ck_assert(t->outcome == ROUND_ADOPTED && t->model == 1234 && s->agents[0].x == 1234);
    ck_assert_uint_eq(swarm_noted(s, 0, "model-imported"), 1);
    if (i == 0) /* and it is what a restart begins with */
      swarm_kill(s, 0);
    if (i == 0)
      swarm_start(s, 0);
    ck_assert(swarm_until_round(s, 0, round + was_open + 3, 100000));
    ck_assert_uint_eq(s->agents[0].n_chains, n_chains);
    ck_assert_uint_eq(swarm_told(s, 1, 0)->n_merged, 2);
    swarm_free(s);
  }
}
END_TEST

START_TEST(a_model_from_elsewhere_that_cannot_be_read_changes_nothing) {
  struct swarm *s = running(2, 0, 5);
  s->agents[0].import_refused = ERR_NOT_FOUND;
  ck_assert_int_eq(round_on_import(s->agents[0].machine, ""), ERR_LIMIT);
  ck_assert_int_eq(round_on_import(s->agents[0].machine, "/state/.import-1"), ERR_OK);
  for (uint64_t t = 0; t < 20000 && view_of(s, 0).is_pending; t++)
    swarm_run(s, 1);
  ck_assert_int_eq(view_of(s, 0).error, ERR_NOT_FOUND);
  ck_assert_uint_eq(swarm_noted(s, 0, "import-refused"), 1);
  ck_assert_int_ne(swarm_told(s, 0, 0)->outcome, ROUND_ADOPTED);
  ck_assert(swarm_until_round(s, 0, 8, 60000));
  s->agents[0].import_refused = ERR_OK; /* a full disk halts it, and it is done when there is room again */
  s->agents[0].imported = 9;
  ck_assert_int_eq(round_on_import(s->agents[0].machine, "/state/.import-1"), ERR_OK);
  for (uint64_t t = 0; t < 20000 && !s->agents[0].machine->commit_pending; t++)
    swarm_run(s, 1);
  s->agents[0].disk = ERR_NO_SPACE;
  swarm_run(s, 5000);
  s->agents[0].disk = ERR_OK;
  ck_assert(swarm_until_round(s, 0, swarm_round(s, 0) + 2, 60000));
  ck_assert_int_eq(view_of(s, 0).error, ERR_OK);
  swarm_free(s);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/round_back", it_happens_between_rounds_in_every_phase,
                   peers_are_told_until_eight_more_rounds_are_committed, a_kill_right_after_it_keeps_it,
                   a_model_that_is_not_kept_changes_nothing, a_refused_one_leaves_a_job_at_rest,
                   a_model_that_is_let_go_of_meanwhile_changes_nothing, a_roll_back_does_not_count_as_a_round_alone,
                   one_at_a_time, a_finished_or_paused_job_goes_back_too, a_full_disk_halts_it,
                   a_model_from_elsewhere_goes_on_in_every_phase,
                   a_model_from_elsewhere_that_cannot_be_read_changes_nothing);
}
