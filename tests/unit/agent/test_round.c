#include "tests/unit/agent/swarm.h"
#include "tests/unit/suite.h"

/* ---- a whole run -------------------------------------------------------------------------------------------------- */

static void assert_all_gathers_complete(const struct swarm *s, size_t n, uint64_t count) {
  for (size_t i = 0; i < n; i++) {
    const struct swarm_agent *a = &s->agents[i];
    ck_assert_uint_eq(a->n_story, count);
    for (size_t r = 0; r < count; r++) {
      ck_assert_uint_eq(a->story[r].label.round, r + 1);
      ck_assert_uint_eq(a->story[r].label.sub, 0);
      ck_assert_int_eq(a->story[r].outcome, ROUND_MERGED);
      ck_assert_uint_eq(a->story[r].n_merged, a->n_peers);
      for (size_t j = 0; j < a->n_peers; j++)
        ck_assert_uint_eq(a->story[r].lags[a->peers[j]], 0);
    }
  }
}

static bool same_bits(double a, double b) {
  uint64_t bits[2];
  memcpy(&bits[0], &a, sizeof a);
  memcpy(&bits[1], &b, sizeof b);
  return bits[0] == bits[1];
}

static bool same_label(struct round_label a, struct round_label b) {
  return a.round == b.round && a.sub == b.sub;
}

static struct swarm *five_agents(uint64_t delay_ms, bool is_ring) {
  struct swarm *s = swarm_new(5);
  for (size_t i = 0; i < 5; i++)
    for (size_t j = 0; j < 5; j++)
      s->links[i][j].delay_ms = delay_ms * (1 + (i + 2 * j) % 5);
  for (size_t i = 0; i < 5 && is_ring; i++) /* a ring with the chord 0 – 2 */
    for (size_t j = i + 2; j < 5; j++)
      if (!(i == 0 && (j == 4 || j == 2)))
        swarm_unlink(s, i, j);
  return s;
}

START_TEST(five_fresh_agents_meet_and_do_twenty_rounds) {
  for (int is_ring = 0; is_ring < 2; is_ring++) {
    struct swarm *s = five_agents(3, is_ring);
    swarm_start_all(s);
    swarm_run(s, 120000);
    assert_all_gathers_complete(s, 5, 20);
    for (size_t i = 0; i < 5; i++) {
      ck_assert_int_eq(swarm_phase(s, i), PHASE_FINISHED);
      ck_assert_int_eq(round_end(s->agents[i].machine, s->now_ms), ROUND_ENDED);
      ck_assert_uint_eq(s->agents[i].n_trainings, 20);
    }
    swarm_free(s);
  }
}
END_TEST

START_TEST(delays_and_starting_order_change_no_bit) {
  struct swarm *first = five_agents(1, true);
  swarm_start_all(first);
  swarm_run(first, 200000);
  for (uint64_t variant = 0; variant < 6; variant++) {
    struct swarm *s = five_agents(1 + 17 * variant, true);
    for (size_t i = 0; i < 5; i++) {
      s->agents[(i + variant) % 5].training_ms = 200 + 300 * ((i * 7 + variant) % 5);
      swarm_start(s, (i + variant) % 5);
      swarm_run(s, 40 * variant);
    }
    s->jitter = (double)(variant * 30);
    swarm_run(s, 200000);
    assert_all_gathers_complete(s, 5, 20);
    for (size_t i = 0; i < 5; i++)
      for (size_t r = 0; r < 20; r++)
        ck_assert(same_bits(s->agents[i].story[r].model, first->agents[i].story[r].model));
    swarm_free(s);
  }
  swarm_free(first);
}
END_TEST

START_TEST(a_single_agent_trains_without_waiting) {
  struct swarm *s = swarm_new(1);
  s->agents[0].config.count = 5;
  swarm_start_all(s);
  swarm_run(s, 6000); /* five trainings of a second, and writing */
  ck_assert_uint_eq(s->agents[0].n_story, 5);
  for (size_t r = 0; r < 5; r++) {
    ck_assert_uint_eq(s->agents[0].story[r].label.round, r + 1);
    ck_assert_uint_eq(s->agents[0].story[r].label.sub, 0);
  }
  ck_assert_int_eq(round_end(s->agents[0].machine, s->now_ms), ROUND_ENDED);
  swarm_free(s);
}
END_TEST

/* ---- waiting ------------------------------------------------------------------------------------------------------ */

static struct swarm *forever(size_t n) {
  struct swarm *s = swarm_new(n);
  for (size_t i = 0; i < n; i++) {
    s->agents[i].config.count = 0;
    s->agents[i].config.deadline_max_ms = 10000;
  }
  return s;
}

START_TEST(a_cut_while_both_wait_ends_by_deadline) {
  struct swarm *s = forever(2);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 10, 60000));
  ck_assert(swarm_until_phase(s, 0, PHASE_TRAINING, 5000));
  swarm_cut(s, 0, 1);
  swarm_run(s, 2600); /* training, and the adapted deadline of a second */
  for (size_t i = 0; i < 2; i++) {
    const struct told *t = swarm_told(s, i, 0);
    ck_assert_int_eq(t->outcome, ROUND_SHORT);
    ck_assert_uint_eq(t->label.sub, 1);
    ck_assert_int_eq(t->reasons[1 - i], ERR_NO_SESSION);
  }
  swarm_free(s);
}
END_TEST

START_TEST(a_slow_peer_is_no_longer_waited_for_until_it_keeps_up) {
  struct swarm *s = forever(3);
  s->agents[2].training_ms = 60000;
  swarm_start_all(s);
  swarm_run(s, 45000);
  ck_assert_uint_eq(swarm_noted(s, 0, "peer-slow"), 1);
  struct round_peer_view v;
  round_peer_view(s->agents[0].machine, 1, &v);
  ck_assert_int_eq(v.standing, ERR_SLOW);
  const struct told *t = swarm_told(s, 0, 0);
  ck_assert_int_eq(t->outcome, ROUND_MERGED);
  ck_assert_int_eq(t->reasons[2], ERR_SLOW);
  ck_assert_int_eq(t->reasons[1], ERR_OK);
  /* the first gathers ran into their deadline, 5 s and three trainings; then nobody waits */
  uint64_t before = swarm_round(s, 0);
  swarm_run(s, 12000);
  ck_assert_uint_ge(swarm_round(s, 0), before + 9);
  s->agents[2].training_ms = 900;
  swarm_run(s, 120000);
  ck_assert_uint_ge(swarm_noted(s, 0, "peer-back"), 1);
  round_peer_view(s->agents[0].machine, 1, &v);
  ck_assert_int_eq(v.standing, ERR_OK);
  ck_assert_int_eq(swarm_told(s, 0, 0)->reasons[2], ERR_OK);
  swarm_free(s);
}
END_TEST

START_TEST(the_deadline_follows_a_peer_that_is_regularly_late) {
  struct swarm *s = forever(2);
  s->agents[1].training_ms = 4000;
  swarm_start_all(s);
  swarm_run(s, 200000);
  ck_assert_uint_eq(swarm_noted(s, 0, "peer-slow"), 0);
  for (size_t i = 0; i < 20; i++) {
    ck_assert_int_eq(swarm_told(s, 0, i)->reasons[1], ERR_OK);
    ck_assert_uint_eq(swarm_told(s, 0, i)->lags[1], 0);
  }
  ck_assert_uint_ge(s->agents[0].machine->deadline_ms, 4000);
  ck_assert_uint_le(s->agents[0].machine->deadline_ms, 6000);
  swarm_free(s);
}
END_TEST

START_TEST(a_killed_peer_is_absent_after_two_rounds_and_back_by_its_hello) {
  struct swarm *s = forever(3);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 10, 60000));
  swarm_kill(s, 2);
  size_t told = s->agents[0].n_story;
  swarm_run(s, 30000);
  ck_assert_uint_eq(swarm_noted(s, 0, "peer-absent"), 1);
  size_t missed = 0;
  for (size_t i = told; i < s->agents[0].n_story; i++) {
    const struct told *t = &s->agents[0].story[i];
    ck_assert_int_eq(t->outcome, ROUND_MERGED);
    missed += t->reasons[2] == ERR_NO_SESSION || t->reasons[2] == ERR_STALE;
  }
  ck_assert_uint_ge(missed + 1, s->agents[0].n_story - told); /* one update may have been on its way */
  struct round_peer_view v;
  round_peer_view(s->agents[0].machine, 1, &v);
  ck_assert_int_eq(v.standing, ERR_ABSENT);
  swarm_start(s, 2);
  swarm_run(s, 15000);
  ck_assert_uint_eq(swarm_noted(s, 0, "peer-back"), 1);
  ck_assert_int_eq(swarm_told(s, 0, 0)->reasons[2], ERR_OK);
  ck_assert_int_eq(swarm_told(s, 2, 0)->reasons[0], ERR_OK);
  ck_assert_uint_le(swarm_round(s, 0) - swarm_round(s, 2), 1);
  swarm_free(s);
}
END_TEST

/* ---- restart ------------------------------------------------------------------------------------------------------ */

START_TEST(restart_in_every_phase_resumes_at_what_was_committed) {
  static const enum phase phases[] = {PHASE_LOADING,    PHASE_MEETING,   PHASE_TRAINING,
                                      PHASE_PUBLISHING, PHASE_GATHERING, PHASE_MERGING};
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    for (uint64_t later = 0; later < 3; later++) {
      struct swarm *s = swarm_new(3);
      for (size_t j = 0; j < 3; j++)
        s->agents[j].config.deadline_min_ms = 60000;
      s->agents[0].training_ms = 700;
      swarm_start_all(s);
      if (phases[i] >= PHASE_TRAINING)
        ck_assert(swarm_until_round(s, 0, 5, 30000));
      ck_assert(swarm_until_phase(s, 0, phases[i], 5000));
      swarm_run(s, later * 11);
      struct durable before = s->agents[0].durable;
      swarm_kill(s, 0);
      swarm_run(s, 700);
      swarm_start(s, 0);
      ck_assert(same_label(s->agents[0].durable.committed, before.committed));
      if (before.is_gathering) {
        ck_assert(swarm_until_phase(s, 0, PHASE_GATHERING, 100));
        ck_assert_uint_eq(s->agents[0].machine->in_work.round, before.published.round);
        ck_assert_uint_eq(s->agents[0].machine->own.sequence, before.kept[before.n_kept - 1].sequence);
      }
      swarm_run(s, 250000);
      for (size_t j = 0; j < 3; j++) {
        ck_assert_uint_eq(swarm_round(s, j), 20);
        ck_assert_int_eq(swarm_phase(s, j), PHASE_FINISHED);
      }
      ck_assert_uint_le(s->agents[0].n_trainings, 21);
      assert_all_gathers_complete(s, 3, 20);
      swarm_free(s);
    }
  }
}
END_TEST

/* The training of the next round runs beside the commit of this one, and may end before it. */
START_TEST(a_round_shows_the_loss_of_its_own_training) {
  struct swarm *s = forever(3);
  s->agents[0].writing_ms = 2 * s->agents[0].training_ms;
  swarm_start_all(s);
  struct round_view v;
  for (uint64_t round = 1; round <= 5; round++) {
    ck_assert(swarm_until_round(s, 0, round, 60000));
    round_view(s->agents[0].machine, &v);
    ck_assert(v.has_loss && v.train_loss == (double)round);
  }
  s->agents[0].writing_ms = 20;
  s->agents[1].training_ms = s->agents[2].training_ms = 3000; /* so that it gathers for a while */
  ck_assert(swarm_until_phase(s, 0, PHASE_GATHERING, 60000));
  uint64_t resumed = s->agents[0].durable.published.round;
  swarm_kill(s, 0);
  swarm_start(s, 0);
  ck_assert(swarm_until_round(s, 0, resumed, 60000));
  round_view(s->agents[0].machine, &v);
  ck_assert(!v.has_loss); /* of a training before the restart */
  ck_assert(swarm_until_round(s, 0, resumed + 1, 60000));
  round_view(s->agents[0].machine, &v);
  ck_assert(v.has_loss && v.train_loss == (double)(resumed + 1));
  swarm_free(s);
}
END_TEST

START_TEST(a_restart_changes_no_bit) {
  struct swarm *first = swarm_new(3), *s = swarm_new(3);
  struct swarm *both[] = {first, s};
  for (size_t i = 0; i < 2; i++) {
    for (size_t j = 0; j < 3; j++)
      both[i]->agents[j].config.deadline_min_ms = 60000;
    swarm_start_all(both[i]);
  }
  swarm_run(first, 100000);
  for (uint64_t kill = 0; kill < 8; kill++) {
    swarm_run(s, 1370);
    swarm_kill(s, kill % 3);
    swarm_run(s, 90);
    swarm_start(s, kill % 3);
  }
  swarm_run(s, 100000);
  for (size_t i = 0; i < 3; i++) {
    ck_assert_uint_eq(s->agents[i].n_story, 20);
    for (size_t r = 0; r < 20; r++)
      ck_assert(same_bits(s->agents[i].story[r].model, first->agents[i].story[r].model));
  }
  swarm_free(first);
  swarm_free(s);
}
END_TEST

/* ---- joining and jumping ------------------------------------------------------------------------------------------ */

START_TEST(a_joiner_adopts_the_model_of_a_running_swarm) {
  struct swarm *s = forever(4);
  for (size_t i = 0; i < 3; i++)
    swarm_start(s, i);
  swarm_run(s, 60000);
  uint64_t before = swarm_round(s, 0);
  ck_assert_uint_ge(before, 10);
  swarm_start(s, 3);
  swarm_run(s, 20000);
  const struct swarm_agent *joiner = &s->agents[3];
  ck_assert_int_eq(joiner->story[0].outcome, ROUND_ADOPTED);
  ck_assert_uint_ge(joiner->story[0].label.round, before);
  ck_assert_int_eq(joiner->story[1].outcome, ROUND_MERGED);
  ck_assert_int_eq(swarm_told(s, 0, 0)->reasons[3], ERR_OK);
  ck_assert_uint_le(swarm_round(s, 0) - swarm_round(s, 3), 1);
  swarm_free(s);
}
END_TEST

START_TEST(a_joiner_of_a_finished_job_adopts_and_is_finished) {
  struct swarm *s = swarm_new(3);
  swarm_start(s, 0);
  swarm_start(s, 1);
  swarm_run(s, 90000);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_FINISHED);
  swarm_start(s, 2);
  swarm_run(s, 5000);
  ck_assert_int_eq(swarm_phase(s, 2), PHASE_FINISHED);
  ck_assert_uint_eq(s->agents[2].n_story, 1);
  ck_assert_uint_eq(swarm_round(s, 2), 20);
  ck_assert_uint_eq(s->agents[2].n_trainings, 0);
  ck_assert_int_eq(round_end(s->agents[2].machine, s->now_ms), ROUND_ENDED);
  swarm_free(s);
}
END_TEST

START_TEST(forty_rounds_late_jumps_once) {
  struct swarm *s = forever(4);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 3, 5, 60000));
  swarm_kill(s, 3);
  ck_assert(swarm_until_round(s, 0, 46, 200000));
  size_t told = s->agents[3].n_story;
  swarm_start(s, 3);
  swarm_run(s, 20000);
  size_t n_jumps = 0;
  for (size_t i = told; i < s->agents[3].n_story; i++)
    n_jumps += s->agents[3].story[i].outcome == ROUND_JUMPED;
  ck_assert_uint_eq(n_jumps, 1);
  ck_assert_uint_le(swarm_round(s, 0) - swarm_round(s, 3), 1);
  ck_assert_int_eq(swarm_told(s, 3, 0)->outcome, ROUND_MERGED);
  swarm_free(s);
}
END_TEST

START_TEST(nobody_jumps_by_a_number_that_too_few_vouch_for) {
  struct swarm *s = forever(4);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  struct wire_state lie;
  round_fill_state(s->agents[3].machine, 0, &lie);
  lie.round = lie.round_in_work = 1000000;
  swarm_cut(s, 0, 3);
  round_on_session(s->agents[0].machine, 2, true, ERR_OK, s->now_ms);
  for (size_t i = 0; i < 10; i++) {
    round_on_state(s->agents[0].machine, 2, &lie, s->now_ms);
    swarm_run(s, 1000);
  }
  for (size_t i = 0; i < s->agents[0].n_story; i++)
    ck_assert_int_ne(s->agents[0].story[i].outcome, ROUND_JUMPED);
  ck_assert_uint_ge(swarm_round(s, 0), 10);
  swarm_free(s);
}
END_TEST

/* Two went on while four were away, and one of the two is gone when they come back: the other waits for them, however few are beside
 * it in a round. */
START_TEST(who_is_ahead_of_all_marks_time_in_a_graph_that_rotates) {
  struct swarm *s = forever(6);
  for (size_t i = 0; i < 6; i++)
    s->agents[i].config.topology = (struct job_topology){.rule = GRAPH_RANDOM, .k = 2};
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  for (size_t i = 2; i < 6; i++)
    swarm_kill(s, i);
  ck_assert(swarm_until_round(s, 0, 20, 200000));
  swarm_kill(s, 1);
  for (size_t i = 2; i < 6; i++)
    swarm_start(s, i);
  swarm_run(s, 60000);
  for (size_t i = 2; i < 6; i++)
    ck_assert_msg(swarm_round(s, i) + 1 >= swarm_round(s, 0), "%llu against %llu",
                  (unsigned long long)swarm_round(s, i), (unsigned long long)swarm_round(s, 0));
  swarm_free(s);
}
END_TEST

START_TEST(a_jump_leaves_room_to_count_on) {
  struct swarm *s = forever(2);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  struct wire_state lie;
  round_fill_state(s->agents[1].machine, 0, &lie);
  lie.round = lie.round_in_work = UINT64_MAX;
  s->agents[0].machine->peers[0].signed_round = UINT64_MAX; /* it has signed it, too */
  swarm_cut(s, 0, 1);
  round_on_session(s->agents[0].machine, 0, true, ERR_OK, s->now_ms);
  for (size_t i = 0; i < 10; i++) {
    round_on_state(s->agents[0].machine, 0, &lie, s->now_ms);
    swarm_run(s, 1000);
  }
  ck_assert_uint_ge(swarm_round(s, 0), UINT64_C(1) << 62);
  ck_assert_uint_lt(swarm_round(s, 0), (UINT64_C(1) << 62) + 100);
  swarm_free(s);
}
END_TEST

/* ---- the chain ---------------------------------------------------------------------------------------------------- */

START_TEST(missing_links_are_fetched_or_the_full_copy_where_that_is_fewer_bytes) {
  for (int full_is_cheap = 0; full_is_cheap < 2; full_is_cheap++) {
    struct swarm *s = forever(3);
    for (size_t i = 0; i < 3; i++)
      s->agents[i].config.full_bytes = full_is_cheap ? PAYLOAD_BYTES : (size_t)5 * PAYLOAD_BYTES;
    swarm_start_all(s);
    ck_assert(swarm_until_round(s, 0, 5, 60000));
    size_t asked_full = s->agents[0].n_asked_full;
    swarm_cut(s, 0, 1);
    uint64_t round = swarm_round(s, 0);
    ck_assert(swarm_until_round(s, 0, round + 3, 60000));
    swarm_heal(s, 0, 1);
    swarm_run(s, 3000);
    ck_assert_uint_eq(s->agents[0].n_asked_full - asked_full, (size_t)full_is_cheap);
    ck_assert_int_eq(swarm_told(s, 0, 0)->reasons[1], ERR_OK);
    ck_assert(s->agents[0].copies[0] == s->agents[1].copy || s->agents[0].copies[0] == s->agents[1].pending);
    swarm_free(s);
  }
}
END_TEST

START_TEST(links_that_are_gone_are_replaced_by_the_full_copy) {
  struct swarm *s = forever(3);
  for (size_t i = 0; i < 3; i++)
    s->agents[i].config.full_bytes = (size_t)100 * PAYLOAD_BYTES;
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  swarm_cut(s, 0, 1);
  ck_assert(swarm_until_round(s, 0, 5 + KEEP_PAYLOADS + 5, 90000));
  size_t asked_full = s->agents[0].n_asked_full;
  swarm_heal(s, 0, 1);
  swarm_run(s, 4000);
  ck_assert_uint_eq(s->agents[0].n_asked_full - asked_full, 1);
  ck_assert_int_eq(swarm_told(s, 0, 0)->reasons[1], ERR_OK);
  ck_assert_uint_eq(swarm_told(s, 0, 0)->lags[1], 0);
  swarm_free(s);
}
END_TEST

START_TEST(a_broken_payload_is_refused_and_healed_by_a_full_copy) {
  struct swarm *s = forever(3);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  ck_assert(swarm_until_phase(s, 2, PHASE_TRAINING, 5000));
  swarm_cut(s, 1, 2); /* so that the broken one reaches agent 0 only */
  s->agents[2].corrupt = 1;
  size_t asked_full = s->agents[0].n_asked_full, told = s->agents[0].n_story;
  swarm_run(s, 8000);
  ck_assert_uint_eq(s->agents[2].corrupt, 0);
  ck_assert_uint_eq(swarm_noted(s, 0, "copy-broken"), 1);
  ck_assert_uint_eq(swarm_noted(s, 0, "root"), 1);
  ck_assert_uint_eq(s->agents[0].n_asked_full - asked_full, 1);
  size_t n_refused = 0;
  for (size_t i = told; i < s->agents[0].n_story; i++)
    n_refused += s->agents[0].story[i].reasons[2] == ERR_ROOT;
  ck_assert_uint_eq(n_refused, 1);
  ck_assert_int_eq(swarm_told(s, 0, 0)->reasons[2], ERR_OK);
  swarm_free(s);
}
END_TEST

START_TEST(three_broken_payloads_in_a_row_quarantine) {
  struct swarm *s = forever(3);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  s->agents[2].corrupt = 1000;
  swarm_run(s, 30000);
  for (size_t i = 0; i < 2; i++) {
    ck_assert_uint_eq(swarm_noted(s, i, "copy-broken"), QUARANTINE_AFTER - 1);
    ck_assert_uint_eq(swarm_noted(s, i, "peer-quarantined"), 1);
    ck_assert_int_eq(swarm_told(s, i, 0)->reasons[2], ERR_QUARANTINED);
    ck_assert_int_eq(swarm_told(s, i, 0)->outcome, ROUND_MERGED);
  }
  ck_assert_uint_ge(swarm_round(s, 0), 25);
  swarm_free(s);
}
END_TEST

START_TEST(equivocation_quarantines) {
  struct swarm *s = forever(3);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  s->agents[2].equivocates = true;
  swarm_run(s, 10000);
  for (size_t i = 0; i < 2; i++) {
    ck_assert_uint_eq(swarm_noted(s, i, "equivocation"), 2); /* the count and the note */
    ck_assert_int_eq(swarm_told(s, i, 0)->reasons[2], ERR_QUARANTINED);
  }
  ck_assert_uint_ge(swarm_round(s, 0), 12);
  swarm_free(s);
}
END_TEST

START_TEST(unbelievable_sample_counts_are_refused_but_the_copy_moves) {
  static const struct {
    uint32_t samples;
    enum err reason;
  } cases[] = {{0, ERR_ZERO_SAMPLES}, {MAX_SAMPLES + 1u, ERR_ABSURD_SAMPLES}};
  for (size_t i = 0; i < 2; i++) {
    for (int by_samples = 0; by_samples < 2; by_samples++) {
      struct swarm *s = forever(3);
      for (size_t j = 0; j < 3; j++)
        s->agents[j].config.by_samples = by_samples;
      s->agents[2].samples = cases[i].samples;
      swarm_start_all(s);
      swarm_run(s, 20000);
      const struct told *t = swarm_told(s, 0, 0);
      ck_assert_int_eq(t->reasons[2], cases[i].reason);
      ck_assert(t->weights[2] == 0);
      ck_assert_int_eq(t->reasons[1], ERR_OK);
      ck_assert(t->weights[1] > 0);
      struct round_peer_view v;
      round_peer_view(s->agents[0].machine, 1, &v);
      ck_assert_uint_ge(v.copy_round + 1, t->label.round);
      ck_assert_uint_gt(swarm_noted(s, 0, err_name(cases[i].reason)), 10);
      swarm_free(s);
    }
  }
}
END_TEST

START_TEST(weights_by_samples_are_right_from_the_first_round_on) {
  struct swarm *s = swarm_new(4);
  for (size_t i = 0; i < 4; i++) {
    s->agents[i].config.by_samples = true;
    s->agents[i].samples = 100 * (uint32_t)(i + 1);
  }
  swarm_start_all(s);
  swarm_run(s, 60000);
  for (size_t r = 0; r < 20; r++)
    for (size_t j = 1; j < 4; j++)
      ck_assert_double_eq_tol(s->agents[0].story[r].weights[j], (double)(j + 1) / 10, 1e-15);
  swarm_free(s);
}
END_TEST

/* ---- failures of our own ------------------------------------------------------------------------------------------ */

START_TEST(failed_trainings_publish_none_halve_the_rate_and_pause) {
  struct swarm *s = forever(3);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 2, 5, 60000));
  s->agents[2].fail_trainings = 1;
  uint64_t start = s->now_ms;
  ck_assert(swarm_until_round(s, 0, 9, 60000));
  ck_assert_uint_le(s->now_ms - start, 5000); /* nobody waited */
  ck_assert_uint_eq(swarm_noted(s, 2, "train-failed"), 1);
  size_t n_none = 0;
  for (size_t i = 0; i < s->agents[0].n_story; i++)
    n_none += s->agents[0].story[i].reasons[2] == ERR_NO_UPDATE;
  ck_assert_uint_eq(n_none, 1);
  ck_assert_uint_eq(s->agents[2].story[5].label.round, 6); /* the number goes on */
  ck_assert(s->agents[2].last_rate_scale == 1);
  s->agents[2].fail_trainings = 2;
  ck_assert(swarm_until_round(s, 2, 11, 60000));
  swarm_run(s, 500);
  ck_assert(s->agents[2].last_rate_scale == 0.5);
  ck_assert(swarm_until_round(s, 2, 12, 60000));
  s->agents[2].fail_trainings = 1000;
  swarm_run(s, 10000);
  ck_assert_int_eq(swarm_phase(s, 2), PHASE_PAUSED);
  ck_assert_int_eq(swarm_told(s, 0, 0)->reasons[2], ERR_PAUSED);
  uint64_t before = swarm_round(s, 0);
  swarm_run(s, 10500);
  ck_assert_uint_ge(swarm_round(s, 0), before + 9);
  swarm_free(s);
}
END_TEST

START_TEST(a_merge_that_is_not_finite_keeps_the_half_step) {
  struct swarm *s = forever(2);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  s->agents[0].merge_is_not_finite = true;
  ck_assert(swarm_until_round(s, 0, 7, 60000));
  ck_assert_int_eq(s->agents[0].story[5].outcome, ROUND_MERGE_REFUSED);
  ck_assert_uint_eq(s->agents[0].story[5].label.round, 6);
  swarm_free(s);
}
END_TEST

START_TEST(a_full_disk_halts_and_leaves_by_itself) {
  static const enum phase phases[] = {PHASE_TRAINING, PHASE_GATHERING}; /* so that PUBLISH, so that COMMIT fails */
  for (size_t i = 0; i < 2; i++) {
    struct swarm *s = forever(3);
    swarm_start_all(s);
    ck_assert(swarm_until_round(s, 0, 5, 60000));
    ck_assert(swarm_until_phase(s, 0, phases[i], 5000));
    struct round_label before = s->agents[0].durable.committed;
    s->agents[0].disk = i == 0 ? ERR_NO_SPACE : ERR_READ_ONLY;
    swarm_run(s, 70000);
    ck_assert_int_eq(swarm_phase(s, 0), PHASE_HALTED);
    struct round_view v;
    round_view(s->agents[0].machine, &v);
    ck_assert(v.is_halted);
    ck_assert_int_eq(v.halted_reason, s->agents[0].disk);
    ck_assert_uint_eq(swarm_noted(s, 0, "halted"), 1);
    ck_assert(same_label(v.committed, before));
    ck_assert_int_eq(swarm_told(s, 1, 0)->reasons[0], ERR_PAUSED);
    s->agents[0].disk = ERR_OK;
    swarm_run(s, 60000);
    ck_assert_uint_eq(swarm_noted(s, 0, "resumed"), 1);
    ck_assert_int_ne(swarm_phase(s, 0), PHASE_HALTED);
    ck_assert_uint_le(swarm_round(s, 1) - swarm_round(s, 0), 1);
    ck_assert_int_eq(swarm_told(s, 1, 0)->reasons[0], ERR_OK);
    swarm_free(s);
  }
}
END_TEST

START_TEST(room_that_comes_back_is_noticed_within_ten_seconds) {
  struct swarm *s = forever(3);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  s->agents[0].disk = ERR_NO_SPACE;
  swarm_run(s, 61234);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_HALTED);
  s->agents[0].disk = ERR_OK;
  swarm_run(s, 10000);
  ck_assert_int_ne(swarm_phase(s, 0), PHASE_HALTED);
  ck_assert_uint_eq(swarm_noted(s, 0, "resumed"), 1);
  swarm_free(s);
}
END_TEST

/* Without room for its updates an agent learns on and merges, its peers are told not to wait, and with room its next update
 * brings what it had learnt meanwhile; also where that is its first one, which starts its chain. */
START_TEST(a_tight_disk_publishes_nothing_and_nobody_waits) {
  for (int is_first = 0; is_first < 2; is_first++) {
    struct swarm *s = forever(3);
    swarm_start_all(s);
    if (!is_first)
      ck_assert(swarm_until_round(s, 0, 5, 60000));
    round_set_tight(s->agents[0].machine, true);
    swarm_run(s, 10000);
    uint64_t begin = swarm_round(s, 1);
    size_t n_before = s->agents[0].n_trainings;
    double copy = s->agents[0].copy;
    swarm_run(s, 20000);
    ck_assert_uint_ge(swarm_round(s, 1) - begin, 15); /* a round takes a little more than a second */
    ck_assert_uint_gt(s->agents[0].n_trainings, n_before + 14);
    ck_assert_int_eq(swarm_told(s, 1, 0)->reasons[0], ERR_NO_UPDATE);
    ck_assert_int_eq(swarm_told(s, 0, 0)->outcome, ROUND_MERGED);
    ck_assert_int_eq(swarm_told(s, 0, 0)->reasons[1], ERR_OK);
    ck_assert(s->agents[0].copy == copy);
    round_set_tight(s->agents[0].machine, false);
    swarm_run(s, 10000);
    ck_assert_int_eq(swarm_told(s, 1, 0)->reasons[0], ERR_OK);
    ck_assert(s->agents[0].copy != copy);
    ck_assert_uint_le(swarm_round(s, 1) - swarm_round(s, 0), 1);
    swarm_free(s);
  }
}
END_TEST

START_TEST(training_runs_beside_the_commit_and_nothing_leaves_before_it) {
  struct swarm *s = forever(2);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  ck_assert(swarm_until_phase(s, 0, PHASE_MERGING, 5000));
  s->agents[0].writing_ms = 5000;
  s->agents[0].scribe_free_ms = 0;
  uint64_t sequence = s->agents[0].machine->own.sequence, committed = swarm_round(s, 0);
  swarm_run(s, 3000);
  ck_assert_uint_eq(swarm_round(s, 0), committed);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_TRAINING);
  ck_assert_ptr_nonnull(s->agents[0].machine->trained);
  ck_assert_uint_eq(s->agents[0].machine->last_sequence, sequence);
  swarm_run(s, 2500);
  ck_assert_uint_eq(swarm_round(s, 0), committed + 1);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_PUBLISHING);
  swarm_free(s);
}
END_TEST

START_TEST(a_commit_waits_for_a_brief_training) {
  struct swarm *s = swarm_new(2);
  for (size_t i = 0; i < 2; i++) {
    s->agents[i].config.count = 6;
    s->agents[i].config.hold_ms = i == 0 ? 1500 : 900; /* a training takes a second */
  }
  swarm_start_all(s);
  swarm_run(s, 60000);
  assert_all_gathers_complete(s, 2, 6);
  ck_assert_uint_eq(s->agents[0].n_turns, 5); /* the last one has nothing to wait for */
  ck_assert_uint_eq(s->agents[1].n_turns, 0);
  swarm_free(s);
}
END_TEST

/* Round 5 is merged, its commit waits for the training of round 6. */
static struct swarm *holding(uint64_t hold_ms) {
  struct swarm *s = forever(2);
  s->agents[0].config.hold_ms = hold_ms;
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 4, 60000));
  ck_assert(swarm_until_phase(s, 0, PHASE_MERGING, 5000));
  ck_assert(swarm_until_phase(s, 0, PHASE_TRAINING, 5000));
  ck_assert_ptr_nonnull(s->agents[0].machine->held);
  ck_assert_uint_eq(swarm_round(s, 0), 4);
  return s;
}

START_TEST(a_commit_does_not_wait_long) {
  struct swarm *s = forever(2);
  s->agents[0].config.hold_ms = 1500;
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 4, 60000));
  ck_assert(swarm_until_phase(s, 0, PHASE_MERGING, 5000));
  s->agents[0].training_ms = 10000;
  ck_assert(swarm_until_phase(s, 0, PHASE_TRAINING, 5000));
  size_t n_turns = s->agents[0].n_turns;
  swarm_run(s, 1450);
  ck_assert_uint_eq(swarm_round(s, 0), 4);
  swarm_run(s, 200);
  ck_assert_uint_eq(swarm_round(s, 0), 5);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_TRAINING);
  ck_assert_uint_eq(s->agents[0].n_turns, n_turns);
  ck_assert(swarm_until_round(s, 0, 7, 60000));
  ck_assert_uint_eq(s->agents[0].n_turns, n_turns); /* that training was long: the next commit does not wait */
  swarm_free(s);
}
END_TEST

START_TEST(a_commit_that_waits_is_not_lost) {
  for (int how = 0; how < 4; how++) {
    struct swarm *s = holding(1500);
    struct swarm_agent *a = &s->agents[0];
    double model = a->x;
    if (how == 0) { /* a full disk: both are written when there is room */
      a->disk = ERR_NO_SPACE;
      swarm_run(s, 5000);
      ck_assert_int_eq(swarm_phase(s, 0), PHASE_HALTED);
      ck_assert_uint_eq(swarm_round(s, 0), 4);
      a->disk = ERR_OK;
    } else if (how == 1) { /* a roll-back is of what is committed */
      ck_assert_int_eq(round_on_roll_back(a->machine, (struct round_label){2, 0}, "", 7), ERR_OK);
    } else if (how == 2) { /* the end */
      round_release(a->machine);
      ck_assert_ptr_null(a->machine->held);
      swarm_run(s, 100);
      ck_assert_uint_eq(swarm_round(s, 0), 5);
    } else { /* a crash: it gathers again, with the same outcome */
      swarm_kill(s, 0);
      swarm_start(s, 0);
    }
    ck_assert(swarm_until_round(s, 0, 8, 200000));
    const struct told *t = store_kept(a, (struct round_label){5, 0});
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->outcome, ROUND_MERGED);
    ck_assert(same_bits(t->model, model));
    ck_assert_uint_eq(swarm_noted(s, 0, "model-rolled-back"), how == 1);
    ck_assert_uint_eq(swarm_noted(s, 1, "equivocation"), 0);
    swarm_free(s);
  }
}
END_TEST

START_TEST(a_rolled_back_store_is_proved_and_starts_a_new_chain) {
  for (int is_lost = 0; is_lost < 2; is_lost++) {
    struct swarm *s = forever(3);
    swarm_start_all(s);
    ck_assert(swarm_until_round(s, 0, 4, 60000));
    struct durable backup = s->agents[0].durable;
    ck_assert(swarm_until_round(s, 0, 12, 60000));
    swarm_kill(s, 0);
    s->agents[0].durable = is_lost ? (struct durable){0} : backup;
    s->agents[0].n_story = 0;
    swarm_run(s, 1000);
    s->agents[0].training_ms = 200; /* trained before the raised epoch is durable */
    s->agents[0].writing_ms = 2000;
    swarm_start(s, 0);
    swarm_run(s, 6000);
    s->agents[0].training_ms = 1000;
    s->agents[0].writing_ms = 20;
    swarm_run(s, 20000);
    ck_assert_uint_ge(swarm_noted(s, 0, "rolled-back"), 1);
    const struct durable *d = &s->agents[0].durable;
    ck_assert_uint_gt(d->kept[d->n_kept - 1].sequence, 12);
    ck_assert_uint_ge(d->boot_epoch >> 32, is_lost ? 2 : 3); /* above the proof's */
    ck_assert_uint_le(swarm_round(s, 1) - swarm_round(s, 0), 1);
    ck_assert_int_eq(swarm_told(s, 1, 0)->reasons[0], ERR_OK);
    ck_assert_int_eq(swarm_told(s, 0, 0)->reasons[1], ERR_OK);
    ck_assert_uint_ge(s->agents[0].n_chains, 2);
    swarm_free(s);
  }
}
END_TEST

START_TEST(a_second_proof_while_the_epoch_is_being_raised_on_a_full_disk) {
  struct swarm *s = forever(3);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 2, 60000));
  s->agents[0].disk = ERR_NO_SPACE;
  for (uint64_t epoch = 40; epoch <= 42; epoch++) {
    struct manifest proof = {.boot_epoch = epoch << 32, .sequence = 100};
    struct hello_job hello = {0};
    round_on_hello(s->agents[0].machine, 0, &hello, &proof, s->now_ms);
  }
  swarm_run(s, 20000);
  ck_assert_uint_eq(swarm_round(s, 0), 2);
  s->agents[0].disk = ERR_OK;
  swarm_run(s, 60000);
  const struct durable *d = &s->agents[0].durable;
  ck_assert_uint_gt(swarm_round(s, 0), 10);
  ck_assert_uint_eq(d->boot_epoch >> 32, 43);
  ck_assert_uint_gt(d->kept[d->n_kept - 1].sequence, 100);
  swarm_free(s);
}
END_TEST

/* The disk has room again, and the next try is due while the raise is on its way. */
START_TEST(what_a_full_disk_held_back_waits_for_the_epoch_that_rises) {
  struct swarm *s = forever(3);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  ck_assert(swarm_until_phase(s, 0, PHASE_TRAINING, 5000));
  s->agents[0].disk = ERR_NO_SPACE;
  swarm_run(s, 3000);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_HALTED);
  s->agents[0].disk = ERR_OK;
  s->agents[0].writing_ms = 8000;
  struct manifest proof = {.boot_epoch = UINT64_C(40) << 32, .sequence = 100};
  struct hello_job hello = {0};
  round_on_hello(s->agents[0].machine, 0, &hello, &proof, s->now_ms);
  swarm_run(s, 20000);
  s->agents[0].writing_ms = 20;
  swarm_run(s, 60000);
  const struct durable *d = &s->agents[0].durable;
  ck_assert_uint_eq(d->boot_epoch >> 32, 41);
  ck_assert_uint_gt(swarm_round(s, 0), 10);
  ck_assert_int_eq(swarm_told(s, 1, 0)->reasons[0], ERR_OK);
  swarm_free(s);
}
END_TEST

START_TEST(a_full_copy_is_not_ahead_of_the_round_that_its_receiver_works_on) {
  struct swarm *s = forever(2);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  struct round_machine *m = s->agents[0].machine;
  for (uint64_t told = 0; told <= m->committed.round + 1; told++) {
    struct hello_job hello = {.round = told};
    round_on_hello(m, 0, &hello, NULL, s->now_ms);
    bool jumps = told + 2 <= m->committed.round;
    ck_assert_uint_eq(round_copy_for(m, 0), jumps ? UINT64_MAX : told + 1);
  }
  swarm_free(s);
}
END_TEST

/* ---- alone and the end -------------------------------------------------------------------------------------------- */

START_TEST(alone_it_does_three_sub_rounds_then_waits_and_comes_back_in_one_exchange) {
  struct swarm *s = forever(3);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 18, 60000));
  swarm_cut(s, 0, 1);
  swarm_cut(s, 0, 2);
  swarm_run(s, 60000);
  const struct swarm_agent *a = &s->agents[0];
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_ALONE);
  ck_assert_uint_eq(swarm_told(s, 0, 0)->label.sub, 3);
  uint64_t round = swarm_told(s, 0, 0)->label.round;
  for (size_t i = 0; i < 3; i++) {
    ck_assert_int_eq(swarm_told(s, 0, i)->outcome, ROUND_SHORT);
    ck_assert_uint_eq(swarm_told(s, 0, i)->label.round, round);
  }
  size_t trainings = a->n_trainings, told = a->n_story;
  swarm_run(s, 30000);
  ck_assert_uint_eq(a->n_trainings, trainings);
  swarm_heal(s, 0, 1);
  swarm_run(s, 3000);
  ck_assert_int_eq(a->story[told].outcome, ROUND_JUMPED);
  ck_assert_uint_le(swarm_round(s, 1) - a->story[told].label.round, 3);
  swarm_run(s, 10000);
  ck_assert_int_eq(swarm_told(s, 0, 0)->outcome, ROUND_MERGED);
  ck_assert_uint_le(swarm_round(s, 1) - swarm_round(s, 0), 1);
  swarm_free(s);
}
END_TEST

START_TEST(alone_survives_a_restart_and_its_end_is_short) {
  struct swarm *s = swarm_new(2);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 5, 60000));
  swarm_kill(s, 1);
  ck_assert(swarm_until_phase(s, 0, PHASE_ALONE, 200000));
  swarm_kill(s, 0);
  size_t trainings = s->agents[0].n_trainings;
  swarm_start(s, 0);
  ck_assert(swarm_until_phase(s, 0, PHASE_ALONE, 100));
  swarm_run(s, 200000);
  ck_assert_int_eq(round_end(s->agents[0].machine, s->now_ms), ROUND_GOES_ON);
  swarm_run(s, 50000);
  ck_assert_int_eq(round_end(s->agents[0].machine, s->now_ms), ROUND_ENDED_SHORT);
  ck_assert_uint_eq(s->agents[0].n_trainings, trainings);
  swarm_free(s);
}
END_TEST

START_TEST(two_of_three_with_min_peers_two_wait_for_the_third) {
  struct swarm *s = forever(3);
  for (size_t i = 0; i < 3; i++)
    s->agents[i].config.min_peers = 2;
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 0, 10, 60000));
  swarm_kill(s, 2);
  swarm_run(s, 60000);
  for (size_t i = 0; i < 2; i++) {
    ck_assert_int_eq(swarm_phase(s, i), PHASE_ALONE);
    ck_assert_uint_eq(swarm_told(s, i, 0)->label.sub, 3);
    ck_assert_int_eq(swarm_told(s, i, 0)->reasons[1 - i], ERR_OK);
  }
  uint64_t round = swarm_round(s, 0);
  swarm_start(s, 2);
  swarm_run(s, 20000);
  for (size_t i = 0; i < 3; i++) {
    ck_assert_uint_ge(swarm_round(s, i), round + 5);
    ck_assert_int_eq(swarm_told(s, i, 0)->outcome, ROUND_MERGED);
  }
  swarm_free(s);
}
END_TEST

START_TEST(who_has_finished_is_served_and_not_waited_for) {
  struct swarm *s = swarm_new(3);
  s->agents[0].config.count = 8;
  swarm_start_all(s);
  ck_assert(swarm_until_phase(s, 0, PHASE_FINISHED, 60000));
  ck_assert_int_eq(round_end(s->agents[0].machine, s->now_ms), ROUND_GOES_ON); /* others lack its last payload */
  swarm_run(s, 3000);
  ck_assert_int_eq(round_end(s->agents[0].machine, s->now_ms), ROUND_ENDED);
  ck_assert_int_eq(swarm_told(s, 1, 0)->reasons[0], ERR_FINISHED);
  uint64_t before = swarm_round(s, 1);
  swarm_run(s, 5000);
  ck_assert_uint_ge(swarm_round(s, 1), before + 4);
  swarm_run(s, 30000);
  for (size_t i = 1; i < 3; i++) {
    ck_assert_uint_eq(swarm_round(s, i), 20);
    ck_assert_int_eq(round_end(s->agents[i].machine, s->now_ms), ROUND_ENDED);
  }
  swarm_free(s);
}
END_TEST

START_TEST(the_end_waits_for_a_follower_at_most_the_linger) {
  struct swarm *s = swarm_new(2);
  s->agents[0].config.linger_ms = 30000;
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 1, 19, 60000));
  ck_assert(swarm_until_phase(s, 1, PHASE_GATHERING, 10000));
  s->agents[1].disk = ERR_NO_SPACE;
  ck_assert(swarm_until_phase(s, 0, PHASE_FINISHED, 60000));
  swarm_run(s, 29000);
  ck_assert_int_eq(round_end(s->agents[0].machine, s->now_ms), ROUND_GOES_ON);
  swarm_run(s, 1100);
  ck_assert_int_eq(round_end(s->agents[0].machine, s->now_ms), ROUND_ENDED);
  s->agents[1].disk = ERR_OK;
  swarm_run(s, 31000);
  ck_assert_int_eq(round_end(s->agents[1].machine, s->now_ms), ROUND_ENDED);
  swarm_free(s);
}
END_TEST

START_TEST(one_round_behind_peers_that_have_finished_gets_to_the_end) {
  struct swarm *s = swarm_new(3);
  swarm_start_all(s);
  ck_assert(swarm_until_round(s, 2, 18, 60000));
  ck_assert(swarm_until_phase(s, 2, PHASE_TRAINING, 5000));
  swarm_cut(s, 2, 0);
  swarm_cut(s, 2, 1);
  ck_assert(swarm_until_phase(s, 0, PHASE_FINISHED, 60000));
  swarm_heal(s, 2, 0);
  swarm_heal(s, 2, 1);
  swarm_run(s, 60000);
  ck_assert_uint_eq(swarm_round(s, 2), 20);
  ck_assert_int_eq(round_end(s->agents[2].machine, s->now_ms), ROUND_ENDED);
  swarm_free(s);
}
END_TEST

/* Of two the first one ends before the other. */
static struct swarm *first_ended(uint64_t count) {
  struct swarm *s = swarm_new(2);
  s->agents[0].config.count = count;
  swarm_start_all(s);
  swarm_run(s, 120000);
  return s;
}

/* As one that jumped to the last round: its update of it will never come. */
START_TEST(the_last_round_needs_nobody_who_has_finished) {
  struct swarm *s = first_ended(19);
  ck_assert_uint_eq(swarm_round(s, 0), 19);
  ck_assert_uint_eq(swarm_round(s, 1), 20);
  ck_assert_int_eq(round_end(s->agents[1].machine, s->now_ms), ROUND_ENDED);
  swarm_free(s);
}
END_TEST

START_TEST(a_round_before_the_last_still_needs_somebody) {
  struct swarm *s = first_ended(18);
  ck_assert_uint_eq(swarm_round(s, 1), 18);
  swarm_free(s);
}
END_TEST

/* ---- lost messages ------------------------------------------------------------------------------------------------ */

START_TEST(one_lost_message_of_any_kind_costs_no_round) {
  for (enum wire type = WIRE_STATE; type < N_WIRES; type++) { /* without HELLO no session stands */
    for (uint64_t when = 0; when < 4; when++) {
      struct swarm *s = swarm_new(3);
      for (size_t i = 0; i < 3; i++)
        s->agents[i].config.deadline_min_ms = 15000;
      if (when == 0) { /* the very first one */
        s->links[1][0].lose[type] = 1;
        s->links[0][1].lose[type] = 1;
      }
      swarm_start_all(s);
      swarm_run(s, 700 + 4000 * when);
      s->links[1][0].lose[type] = 1;
      swarm_run(s, 4000);
      s->links[0][1].lose[type] = 1;
      swarm_run(s, 100000);
      assert_all_gathers_complete(s, 3, 20);
      swarm_free(s);
    }
  }
}
END_TEST

int main(void) {
  return SUITE_RUN(
      "round", a_commit_waits_for_a_brief_training, a_commit_does_not_wait_long, a_commit_that_waits_is_not_lost,
      five_fresh_agents_meet_and_do_twenty_rounds, delays_and_starting_order_change_no_bit,
      a_single_agent_trains_without_waiting, a_cut_while_both_wait_ends_by_deadline,
      a_slow_peer_is_no_longer_waited_for_until_it_keeps_up, the_deadline_follows_a_peer_that_is_regularly_late,
      a_killed_peer_is_absent_after_two_rounds_and_back_by_its_hello,
      restart_in_every_phase_resumes_at_what_was_committed, a_round_shows_the_loss_of_its_own_training,
      a_restart_changes_no_bit, a_joiner_adopts_the_model_of_a_running_swarm,
      a_joiner_of_a_finished_job_adopts_and_is_finished, forty_rounds_late_jumps_once,
      nobody_jumps_by_a_number_that_too_few_vouch_for, who_is_ahead_of_all_marks_time_in_a_graph_that_rotates,
      a_jump_leaves_room_to_count_on, missing_links_are_fetched_or_the_full_copy_where_that_is_fewer_bytes,
      links_that_are_gone_are_replaced_by_the_full_copy, a_broken_payload_is_refused_and_healed_by_a_full_copy,
      three_broken_payloads_in_a_row_quarantine, equivocation_quarantines,
      unbelievable_sample_counts_are_refused_but_the_copy_moves, weights_by_samples_are_right_from_the_first_round_on,
      failed_trainings_publish_none_halve_the_rate_and_pause, a_merge_that_is_not_finite_keeps_the_half_step,
      a_full_disk_halts_and_leaves_by_itself, room_that_comes_back_is_noticed_within_ten_seconds,
      a_tight_disk_publishes_nothing_and_nobody_waits, training_runs_beside_the_commit_and_nothing_leaves_before_it,
      a_rolled_back_store_is_proved_and_starts_a_new_chain,
      a_second_proof_while_the_epoch_is_being_raised_on_a_full_disk,
      what_a_full_disk_held_back_waits_for_the_epoch_that_rises,
      a_full_copy_is_not_ahead_of_the_round_that_its_receiver_works_on,
      alone_it_does_three_sub_rounds_then_waits_and_comes_back_in_one_exchange,
      alone_survives_a_restart_and_its_end_is_short, two_of_three_with_min_peers_two_wait_for_the_third,
      who_has_finished_is_served_and_not_waited_for, the_end_waits_for_a_follower_at_most_the_linger,
      one_round_behind_peers_that_have_finished_gets_to_the_end, the_last_round_needs_nobody_who_has_finished,
      a_round_before_the_last_still_needs_somebody, one_lost_message_of_any_kind_costs_no_round);
}
