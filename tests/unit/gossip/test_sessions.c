#include "tests/size.h"
#include "tests/unit/gossip/world.h"

static void assert_up(struct agent *a, struct agent *b) {
  struct gossip_peer_info ab = info_of(a, b), ba = info_of(b, a);
  ck_assert_msg(ab.has_session && ba.has_session, "%s / %s", ab.sentence, ba.sentence);
  ck_assert_int_eq(ab.reason, ERR_OK);
  ck_assert_int_eq(ba.reason, ERR_OK);
}

static void assert_reason(struct agent *a, struct agent *b, enum err reason, const char *part) {
  struct gossip_peer_info info = info_of(a, b);
  ck_assert_str_eq(err_name(info.reason), err_name(reason));
  ck_assert_msg(strstr(info.sentence, part) != NULL, "%s", info.sentence);
}

/* `a` dials `b` and they have met. They say nothing of members, which they would at times that differ from run to run. */
static struct world *pair_new(void) {
  struct world *w = world_new(2, false);
  w->agents[0].config.max_members = w->agents[1].config.max_members = 0;
  only_called_by(&w->agents[1], &w->agents[0]);
  world_start(w);
  world_run(w, 100);
  assert_up(&w->agents[0], &w->agents[1]);
  return w;
}

static uint64_t dropped(struct agent *a, struct agent *b, enum err reason) {
  return info_of(a, b).drops[err_drop_index(reason)];
}

static unsigned n_notes(struct agent *a) {
  unsigned n = 0;
  struct gossip_note note;
  while (gossip_note_take(a->node, &note))
    n++;
  return n;
}

/* ---- frames that are kept, lost or changed on the way ---- */

struct tape {
  enum message_type type; /* records the last frame of this type, or of every type when 0 */
  size_t n;
  uint8_t frame[MAX_FRAME_BYTES];
  unsigned lose; /* so many of the type are lost */
};

static unsigned tape_filter(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame, size_t n) {
  (void)from;
  (void)to;
  struct tape *t = w->filter_context;
  if (t->type != 0 && t->type != frame_type(frame))
    return 1;
  memcpy(t->frame, frame, n);
  t->n = n;
  if (t->lose == 0)
    return 1;
  t->lose--;
  return 0;
}

static void tape_start(struct world *w, struct tape *t) {
  w->filter = tape_filter;
  w->filter_context = t;
}

/* An attacker's own connection to `to`. */
static uint64_t wire_foreign(struct world *w, struct agent *to) {
  w->wires[w->n_wires] = (struct wire){.is_open = true, .from = to, .to = to, .peer = SIZE_MAX};
  return CONN_ACCEPTED | w->n_wires++;
}

/* ---- the beginning ---- */

START_TEST(a_handshake_gives_both_sides_a_session) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  ck_assert_uint_eq(heard_by(a, b)->n_up, 1);
  ck_assert_uint_eq(heard_by(b, a)->n_up, 1);
  ck_assert_uint_eq(heard_by(a, b)->n_hello, 1);
  ck_assert_uint_eq(heard_by(a, b)->hello.round, 1);
  ck_assert_uint_ge(heard_by(b, a)->n_state, 1);
  ck_assert(heard_by(b, a)->state.follows);
  ck_assert_uint_eq(info_of(a, b).boot_epoch, 101);
  ck_assert(info_of(a, b).we_dialled && !info_of(b, a).we_dialled);
  ck_assert_int_eq((int)info_of(a, b).rtt_ms, 10);
  ck_assert_uint_eq(gossip_sent_bytes(a->node), gossip_received_bytes(b->node));
  world_free(w);
}
END_TEST

START_TEST(who_dials_at_the_same_time_ends_with_one_session) {
  struct world *w = world_new(3, false);
  world_start(w);
  world_run(w, 60000);
  for (size_t i = 0; i < 3; i++)
    for (size_t k = i + 1; k < 3; k++) {
      struct agent *a = &w->agents[i], *b = &w->agents[k];
      assert_up(a, b);
      ck_assert_uint_eq(heard_by(a, b)->n_down, 0);
      ck_assert_uint_eq(heard_by(b, a)->n_down, 0);
      ck_assert_uint_eq(heard_by(a, b)->n_up, 1);
      ck_assert(info_of(a, b).we_dialled); /* the lower key's */
      ck_assert(!info_of(b, a).we_dialled);
    }
  unsigned n_open = 0;
  for (size_t i = 0; i < w->n_wires; i++)
    n_open += w->wires[i].is_open;
  ck_assert_uint_eq(n_open, 3);
  world_free(w);
}
END_TEST

START_TEST(a_lost_answer_only_delays) {
  struct world *w = world_new(2, false);
  struct tape tape = {.type = MESSAGE_HANDSHAKE_2, .lose = 1};
  only_called_by(&w->agents[1], &w->agents[0]);
  tape_start(w, &tape);
  world_start(w);
  world_run(w, 2000);
  ck_assert_uint_eq(tape.lose, 0);
  assert_up(&w->agents[0], &w->agents[1]);
  world_free(w);
}
END_TEST

START_TEST(a_lost_hello_ends_in_a_new_session) {
  struct world *w = world_new(2, false);
  struct tape tape = {.type = MESSAGE_HELLO, .lose = 2};
  only_called_by(&w->agents[1], &w->agents[0]);
  tape_start(w, &tape);
  world_start(w);
  world_run(w, 20000);
  assert_up(&w->agents[0], &w->agents[1]);
  world_free(w);
}
END_TEST

/* ---- those that do not go together ---- */

START_TEST(the_listener_that_lacks_our_key_is_silent_and_counts) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct identity *other = identity_numbered(77);
  only_called_by(b, a);
  b->peers[0].key = *identity_public(other);
  world_start(w);
  world_run(w, 5000);
  assert_reason(a, b, ERR_NO_ANSWER, "its key differs from the config or it does not know ours");
  ck_assert_uint_eq(w->n_by_type[MESSAGE_HANDSHAKE_2], 0);
  struct gossip_stranger row;
  ck_assert_uint_eq(gossip_strangers(b->node, &row, 1), 1);
  ck_assert_uint_ge(row.n_unknown_key, 1);
  ck_assert_uint_eq(gossip_sent_bytes(b->node), 0);
  n_notes(a), n_notes(b);
  world_run(w, 60000);
  ck_assert_uint_le(n_notes(a), 10);
  ck_assert_uint_le(n_notes(b), 10);
  identity_free(other);
  world_free(w);
}
END_TEST

START_TEST(the_dialler_with_another_key_of_us_gets_silence) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct identity *other = identity_numbered(78);
  only_called_by(b, a);
  a->peers[0].key = *identity_public(other);
  world_start(w);
  world_run(w, 5000);
  assert_reason(a, b, ERR_NO_ANSWER, "its key differs");
  struct gossip_stranger row;
  ck_assert_uint_eq(gossip_strangers(b->node, &row, 1), 1);
  ck_assert_uint_ge(row.n_handshake, 1);
  ck_assert_uint_eq(row.n_unknown_key, 0);
  ck_assert_uint_eq(gossip_sent_bytes(b->node), 0);
  identity_free(other);
  world_free(w);
}
END_TEST

START_TEST(another_swarm_is_said_on_both_sides) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  only_called_by(b, a);
  b->config.swarm[3] = 9;
  world_start(w);
  world_run(w, 1000);
  assert_reason(a, b, ERR_SWARM, "another swarm");
  assert_reason(b, a, ERR_SWARM, "another swarm");
  ck_assert_uint_eq(heard_by(a, b)->n_up, 0);
  world_free(w);
}
END_TEST

START_TEST(without_a_common_version_there_is_no_session) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  only_called_by(b, a);
  b->config.version_min = 5;
  b->config.version_max = 6;
  world_start(w);
  world_run(w, 1000);
  assert_reason(a, b, ERR_VERSION, "it speaks protocol version 5 to 6, we speak 1 to 4");
  assert_reason(b, a, ERR_VERSION, "it speaks protocol version 1 to 4, we speak 5 to 6");
  world_free(w);
}
END_TEST

START_TEST(a_common_version_is_enough) {
  struct world *w = world_new(2, false);
  only_called_by(&w->agents[1], &w->agents[0]);
  w->agents[0].config.version_min = 1;
  w->agents[0].config.version_max = 2;
  world_start(w);
  world_run(w, 1000);
  assert_up(&w->agents[0], &w->agents[1]);
  world_free(w);
}
END_TEST

static void assert_refused_job(struct agent *a, struct agent *b, enum err reason, unsigned times, const char *words) {
  ck_assert_uint_eq(heard_by(a, b)->n_hello, 0);
  ck_assert_uint_eq(heard_by(a, b)->n_state, 0);
  ck_assert_uint_eq(heard_by(a, b)->n_refused_job, times);
  ck_assert_int_eq(heard_by(a, b)->refused_job, reason);
  ck_assert(info_of(a, b).has_session);
  assert_reason(a, b, reason, words);
}

/* The log has the difference, not only that there is one; and one refusal counts once. */
static void assert_noted_once(struct agent *a, struct agent *b, enum err reason, const char *words) {
  struct gossip_note note;
  unsigned n = 0;
  while (gossip_note_take(a->node, &note)) {
    if (note.reason != reason)
      continue;
    ck_assert_str_eq(note.text, words);
    n++;
  }
  ck_assert_uint_eq(n, 1);
  ck_assert_uint_eq(dropped(a, b, reason), 1);
}

START_TEST(a_contract_that_differs_is_shown_in_words) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  memset(&b->job.contract, 4, sizeof b->job.contract);
  b->job.contract_text = "contract: 1\nclass 1: \"ok\"\nclass 2: \"scratch\"\n";
  world_start(w);
  world_run(w, 20000); /* longer than silence may last */
  assert_refused_job(a, b, ERR_CONTRACT, 2, "class 2 is \"dent\" here, \"scratch\" there");
  assert_refused_job(b, a, ERR_CONTRACT, 2, "class 2 is \"scratch\" here, \"dent\" there");
  ck_assert_uint_eq(w->n_by_type[MESSAGE_SCHEMA], 2);
  assert_noted_once(a, b, ERR_CONTRACT, "class 2 is \"dent\" here, \"scratch\" there");
  world_free(w);
}
END_TEST

START_TEST(a_schema_that_differs_is_shown_in_words) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  memset(&b->job.schema, 4, sizeof b->job.schema);
  b->job.schema_text = "model: dense 128, relu, dense 10\n";
  world_start(w);
  world_run(w, 1000);
  assert_refused_job(a, b, ERR_SCHEMA, 2, "model is dense 10 here, dense 128, relu, dense 10 there");
  assert_noted_once(a, b, ERR_SCHEMA, "model is dense 10 here, dense 128, relu, dense 10 there");
  world_free(w);
}
END_TEST

START_TEST(another_job_is_refused_not_the_session) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  memset(&b->job.job, 5, sizeof b->job.job);
  world_start(w);
  world_run(w, 1000);
  assert_refused_job(a, b, ERR_JOB, 1, "does not run this job");
  world_free(w);
}
END_TEST

START_TEST(a_job_file_that_differs_is_only_noted) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  memset(&b->job.file, 6, sizeof b->job.file);
  world_start(w);
  world_run(w, 1000);
  assert_up(a, b);
  struct gossip_note note;
  ck_assert(gossip_note_take(a->node, &note));
  ck_assert_int_eq(note.reason, ERR_JOB);
  world_free(w);
}
END_TEST

START_TEST(an_address_where_nobody_listens_is_unreachable) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  only_called_by(b, a);
  agent_start(a);
  world_run(w, 10000);
  assert_reason(a, b, ERR_UNREACHABLE, b->listen);
  agent_start(b);
  world_run(w, 3000);
  assert_up(a, b);
  world_free(w);
}
END_TEST

/* ---- keys get old ---- */

START_TEST(keys_are_renewed_without_a_gap) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  const struct session *first = a->node->peers[0].slots[SLOT_LIVE]->session;
  world_run(w, 119000);
  ck_assert_ptr_eq(a->node->peers[0].slots[SLOT_LIVE]->session, first);
  world_run(w, 2000);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_HANDSHAKE_1], 2);
  ck_assert_ptr_ne(a->node->peers[0].slots[SLOT_LIVE]->session, first);
  ck_assert_ptr_eq(a->node->peers[0].slots[SLOT_PREVIOUS]->session, first);
  world_run(w, PREVIOUS_KEEP_MS);
  ck_assert_ptr_null(a->node->peers[0].slots[SLOT_PREVIOUS]);
  ck_assert_ptr_null(b->node->peers[0].slots[SLOT_PREVIOUS]);
  world_run(w, 1000000);
  ck_assert_uint_eq(heard_by(a, b)->n_down + heard_by(b, a)->n_down, 0);
  ck_assert_uint_eq(heard_by(a, b)->n_hello, 1);
  ck_assert_uint_ge(w->n_by_type[MESSAGE_HANDSHAKE_1], 9);
  ck_assert_uint_eq(dropped(a, b, ERR_REPLAY) + dropped(b, a, ERR_REPLAY), 0);
  world_free(w);
}
END_TEST

START_TEST(old_keys_are_dead_after_three_minutes) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct tape tape = {.type = MESSAGE_HANDSHAKE_1, .lose = 10000};
  tape_start(w, &tape);
  world_run(w, 179000);
  assert_up(a, b);
  world_run(w, 1000);
  ck_assert_uint_eq(heard_by(a, b)->n_down, 1);
  ck_assert_int_eq(heard_by(a, b)->down, ERR_KEY_EXPIRED);
  world_free(w);
}
END_TEST

/* ---- attacks ---- */

START_TEST(a_replayed_first_message_disturbs_nothing) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct tape tape = {.type = MESSAGE_HANDSHAKE_1};
  only_called_by(b, a);
  tape_start(w, &tape);
  world_start(w);
  world_run(w, 100);
  const struct session *live = b->node->peers[0].slots[SLOT_LIVE]->session;
  uint64_t foreign = wire_foreign(w, b);
  for (int i = 0; i < 5; i++) {
    transit_frame(w, b, foreign, tape.frame, tape.n);
    world_run(w, 1000);
  }
  ck_assert_ptr_eq(b->node->peers[0].slots[SLOT_LIVE]->session, live);
  ck_assert_uint_eq(heard_by(a, b)->n_down + heard_by(b, a)->n_down, 0);
  assert_up(a, b);
  world_free(w);
}
END_TEST

START_TEST(a_replayed_first_message_does_not_stop_a_handshake) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct tape tape = {.type = MESSAGE_HANDSHAKE_1};
  only_called_by(b, a);
  tape_start(w, &tape);
  world_start(w);
  world_run(w, 100);
  agent_kill(a);
  world_run(w, 100);
  uint64_t foreign = wire_foreign(w, b);
  agent_start(a);
  for (int i = 0; i < 20; i++) {
    transit_frame(w, b, foreign, tape.frame, tape.n);
    world_run(w, 5);
  }
  assert_up(a, b);
  world_free(w);
}
END_TEST

START_TEST(a_replayed_frame_is_dropped_and_counted) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct tape tape = {.type = MESSAGE_STATE};
  only_called_by(b, a);
  tape_start(w, &tape);
  world_start(w);
  world_run(w, 6000);
  unsigned n_state = heard_by(b, a)->n_state + heard_by(a, b)->n_state;
  uint64_t conn = b->node->peers[0].slots[SLOT_LIVE]->conn;
  w->filter = NULL;
  for (int i = 0; i < 3; i++) { /* it is one of the two directions */
    transit_frame(w, b, conn, tape.frame, tape.n);
    transit_frame(w, a, 0, tape.frame, tape.n);
  }
  world_run(w, 100);
  ck_assert_uint_eq(heard_by(b, a)->n_state + heard_by(a, b)->n_state, n_state);
  ck_assert_uint_eq(dropped(b, a, ERR_REPLAY) + dropped(a, b, ERR_REPLAY), 3);
  ck_assert_uint_eq(dropped(b, a, ERR_FRAME) + dropped(a, b, ERR_FRAME), 3);
  assert_up(a, b);
  world_free(w);
}
END_TEST

static unsigned frames_to_b_are_lost(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame,
                                     size_t n) {
  (void)from;
  struct tape *t = w->filter_context;
  if (to != &w->agents[1])
    return 1;
  memcpy(t->frame, frame, n);
  t->n = n;
  return 0;
}

START_TEST(a_frame_counts_on_its_own_connection_only) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct tape tape = {0};
  w->filter = frames_to_b_are_lost;
  w->filter_context = &tape;
  gossip_done(a->node, 0, 0, 5, ERR_OK);
  world_run(w, 20);
  ck_assert_uint_eq(tape.frame[4], MESSAGE_DONE);
  w->filter = NULL;
  transit_frame(w, b, wire_foreign(w, b), tape.frame, tape.n);
  world_run(w, 20);
  ck_assert_uint_eq(heard_by(b, a)->n_done, 0);
  struct gossip_stranger row;
  ck_assert_uint_eq(gossip_strangers(b->node, &row, 1), 1);
  transit_frame(w, b, b->node->peers[0].slots[SLOT_LIVE]->conn, tape.frame, tape.n);
  world_run(w, 20);
  ck_assert_uint_eq(heard_by(b, a)->n_done, 1);
  world_free(w);
}
END_TEST

START_TEST(forged_frames_end_the_session_after_three) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct tape tape = {0};
  w->filter = frames_to_b_are_lost;
  w->filter_context = &tape;
  gossip_done(a->node, 0, 0, 5, ERR_OK);
  world_run(w, 20);
  w->filter = NULL;
  tape.frame[tape.n - 1] ^= 1;
  uint64_t conn = b->node->peers[0].slots[SLOT_LIVE]->conn;
  for (int i = 0; i < MAX_BAD_SEALS; i++)
    transit_frame(w, b, conn, tape.frame, tape.n);
  world_run(w, 20);
  assert_up(a, b);
  transit_frame(w, b, conn, tape.frame, tape.n);
  world_run(w, 20);
  ck_assert_uint_eq(heard_by(b, a)->n_down, 1);
  ck_assert_int_eq(heard_by(b, a)->down, ERR_SEAL);
  ck_assert_uint_eq(heard_by(b, a)->n_done, 0);
  world_run(w, 3000);
  assert_up(a, b);
  world_free(w);
}
END_TEST

START_TEST(handshakes_of_one_address_are_limited) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct tape tape = {.type = MESSAGE_HANDSHAKE_1, .lose = 1};
  only_called_by(b, a);
  tape_start(w, &tape);
  world_start(w);
  world_run(w, 10);
  uint64_t foreign = wire_foreign(w, b);
  for (int i = 0; i < 1000; i++)
    transit_frame(w, b, foreign, tape.frame, tape.n);
  world_run(w, 10);
  ck_assert_uint_le(w->n_by_type[MESSAGE_HANDSHAKE_2], 6);
  struct gossip_stranger row;
  ck_assert_uint_eq(gossip_strangers(b->node, &row, 1), 1);
  ck_assert_uint_ge(row.n_handshake, 990);
  world_free(w);
}
END_TEST

/* ---- the end, and again ---- */

START_TEST(a_restarted_peer_is_a_new_session) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  world_run(w, 10000);
  agent_kill(b);
  b->config.boot_epoch = 999;
  agent_start(b);
  world_run(w, 100);
  assert_up(a, b);
  ck_assert_uint_eq(heard_by(a, b)->n_down, 1);
  ck_assert_int_eq(heard_by(a, b)->down, ERR_NO_SESSION);
  ck_assert_uint_eq(heard_by(a, b)->n_up, 2);
  ck_assert_uint_eq(info_of(a, b).boot_epoch, 999);
  world_free(w);
}
END_TEST

START_TEST(after_a_power_cut_the_old_session_does_not_stand_in_the_way) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  only_called_by(a, b); /* b dials; a never learns that the connection is dead */
  world_start(w);
  world_run(w, 100);
  node_free(b->node);
  b->config.boot_epoch = 999;
  agent_start(b);
  world_run(w, 100);
  assert_up(a, b);
  ck_assert_uint_eq(heard_by(a, b)->n_down, 1);
  ck_assert_uint_eq(heard_by(a, b)->n_up, 2);
  world_run(w, 30000);
  ck_assert_uint_eq(heard_by(a, b)->n_down, 1);
  ck_assert_uint_eq(dropped(a, b, ERR_CLONE), 0);
  world_free(w);
}
END_TEST

START_TEST(two_agents_with_one_key_are_noticed) {
  struct world *w = world_new(3, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1], *c = &w->agents[2];
  a->config.n_peers = 1;
  only_called_by(a, b);
  c->config.identity = b->identity; /* a copied disk */
  c->config.n_peers = b->config.n_peers = 1;
  agent_start(a);
  agent_start(b);
  world_run(w, 100);
  agent_start(c);
  world_run(w, 8000);
  ck_assert_uint_ge(dropped(a, b, ERR_CLONE), 1);
  struct gossip_note note;
  bool is_noted = false;
  while (gossip_note_take(a->node, &note))
    is_noted = is_noted || note.reason == ERR_CLONE;
  ck_assert(is_noted);
  world_free(w);
}
END_TEST

static unsigned nothing_arrives(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame, size_t n) {
  (void)w, (void)from, (void)to, (void)frame, (void)n;
  return 0;
}

/* Nothing gets through from now on: the session still stands after `patient_ms` and is over 1 s (a beat) later. */
static void assert_noticed(struct world *w, uint64_t patient_ms, uint64_t beat_ms) {
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  unsigned n_down = heard_by(a, b)->n_down;
  world_run(w, patient_ms);
  ck_assert_uint_eq(heard_by(a, b)->n_down, n_down);
  world_run(w, beat_ms + 10);
  ck_assert_uint_eq(heard_by(a, b)->n_down, n_down + 1);
  ck_assert_int_eq(heard_by(a, b)->down, ERR_TIMED_OUT);
  ck_assert(!info_of(a, b).has_session);
}

START_TEST(silence_is_noticed_within_4_s) {
  struct world *w = pair_new();
  world_run(w, 10000);
  w->filter = nothing_arrives;
  assert_noticed(w, 2990, 1000);
  w->filter = NULL;
  world_run(w, 2000);
  assert_up(&w->agents[0], &w->agents[1]);
  world_free(w);
}
END_TEST

static unsigned no_beat_arrives(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame, size_t n) {
  (void)w, (void)from, (void)to, (void)n;
  return frame_type(frame) != MESSAGE_BEAT;
}

START_TEST(a_peer_without_beats_may_be_silent_for_15_s) {
  struct world *w = pair_new();
  agent_kill(&w->agents[1]);
  w->filter = no_beat_arrives;
  agent_start(&w->agents[1]);
  world_run(w, 60000);
  assert_up(&w->agents[0], &w->agents[1]);
  ck_assert_uint_eq(heard_by(&w->agents[0], &w->agents[1])->n_down, 1);
  w->filter = nothing_arrives;
  assert_noticed(w, 9990, 5000); /* it said its STATE every 5 s */
  world_free(w);
}
END_TEST

static unsigned chunks_are_slow(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame, size_t n) {
  (void)from, (void)n;
  return to != &w->agents[0] || frame_type(frame) == MESSAGE_MANIFEST;
}

START_TEST(while_a_payload_comes_a_chunk_may_take_4_s_more) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  world_run(w, 1000);
  agent_publish(b, 1 << 20, 1);
  a->fetches = true;
  w->filter = chunks_are_slow; /* the one on its way keeps all others waiting */
  gossip_offer(b->node, 0, 0, b->published_bytes);
  world_run(w, 6900);
  ck_assert_uint_eq(heard_by(a, b)->n_down, 0);
  world_run(w, 1200);
  ck_assert_int_eq(heard_by(a, b)->down, ERR_TIMED_OUT);
  world_free(w);
}
END_TEST

START_TEST(a_metered_site_sets_the_pace_for_both) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  b->config.beat_s = GOSSIP_BEAT_METERED_S;
  world_start(w);
  world_run(w, 1000);
  memset(w->n_by_type, 0, sizeof w->n_by_type);
  world_run(w, 600000);
  ck_assert_uint_eq(heard_by(a, b)->n_down + heard_by(b, a)->n_down, 0);
  ck_assert_uint_le(w->n_by_type[MESSAGE_BEAT], 2 * 600 / 25 + 2);
  ck_assert_uint_le(w->n_by_type[MESSAGE_STATE], 2 * 600 / 25 + 2 + 10); /* and one at each renewal of keys */
  w->filter = nothing_arrives;
  assert_noticed(w, 74990, 25000);
  world_free(w);
}
END_TEST

START_TEST(a_healed_black_hole_is_used_within_2_s) {
  for (uint64_t lasts_ms = 5000; lasts_ms <= 50000; lasts_ms += sized(1950, 150, 150)) {
    struct world *w = pair_new();
    struct agent *a = &w->agents[0], *b = &w->agents[1];
    if (lasts_ms % 300 == 0)
      only_called_by(a, b);
    world_run(w, 6000);
    w->is_black = true;
    world_run(w, lasts_ms);
    assert_reason(a, b, lasts_ms % 300 == 0 ? ERR_NO_SESSION : ERR_UNREACHABLE, "");
    w->is_black = false;
    world_run(w, 1700);
    assert_up(a, b);
    world_free(w);
  }
}
END_TEST

/* All but the agent go on. */
static void stands_still(struct agent *a, uint64_t ms) {
  struct gossip *node = a->node;
  a->node = NULL;
  world_run(a->world, ms);
  a->node = node;
}

START_TEST(who_stood_still_hears_what_has_come_first) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  world_run(w, 1000);
  stands_still(a, 2900);
  world_run(w, 5000);
  w->now_ms += 10000; /* the host slept: both have been away, and nothing has come meanwhile */
  world_run(w, 5000);
  ck_assert_uint_eq(heard_by(a, b)->n_down + heard_by(b, a)->n_down, 0);
  stands_still(a, 10000);
  ck_assert_int_eq(heard_by(b, a)->down, ERR_TIMED_OUT);
  world_run(w, 2000);
  assert_up(a, b);
  world_free(w);
}
END_TEST

START_TEST(a_cut_link_is_used_soon_after_it_heals) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  world_run(w, 10000);
  w->is_cut = true;
  for (size_t i = 0; i < w->n_wires; i++)
    wire_close(w, &w->wires[i], NULL);
  world_run(w, 10000);
  ck_assert_int_eq(heard_by(a, b)->down, ERR_NO_SESSION);
  assert_reason(a, b, ERR_UNREACHABLE, "no connection");
  w->is_cut = false;
  world_run(w, 2000);
  assert_up(a, b);
  world_free(w);
}
END_TEST

START_TEST(who_stops_says_bye) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  agent_stop(b, ERR_STOPPED);
  world_run(w, 20);
  ck_assert_int_eq(heard_by(a, b)->down, ERR_STOPPED);
  ck_assert_uint_eq(heard_by(a, b)->n_down, 1);
  world_free(w);
}
END_TEST

/* 100 messages a millisecond. */
static void flood(struct world *w, struct agent *from, uint64_t ms) {
  for (uint64_t end_ms = w->now_ms + ms; w->now_ms < end_ms; world_run(w, 1))
    for (int i = 0; i < 100; i++)
      gossip_done(from->node, 0, 0, 1, ERR_OK);
}

START_TEST(who_floods_has_no_session_for_a_minute) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  only_called_by(a, b);
  world_start(w);
  world_run(w, 1000);
  flood(w, b, 100);
  assert_up(a, b);
  world_run(w, 2000);
  flood(w, b, 1000);
  ck_assert_uint_eq(heard_by(b, a)->n_down, 1);
  ck_assert_int_eq(heard_by(a, b)->down, ERR_BACKLOG);
  assert_reason(a, b, ERR_BACKLOG, "floods");
  world_run(w, FLOOD_BAN_MS - 1500);
  ck_assert(!info_of(a, b).has_session);
  ck_assert_uint_gt(dropped(a, b, ERR_BACKLOG), 1); /* it knocks */
  world_run(w, 20000);
  assert_up(a, b);
  world_free(w);
}
END_TEST

/* A handshake that was answered before the ban and is proven during it. */
START_TEST(a_second_connection_does_not_outlast_the_ban) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct tape tape = {.type = MESSAGE_HANDSHAKE_2};
  only_called_by(a, b);
  world_start(w);
  world_run(w, 1000);
  assert_up(a, b);
  struct offer offer = {.version_min = 1, .version_max = 1, .swarm = {7}, .session_index = 12345, .boot_epoch = 101};
  struct noise *noise;
  uint8_t frame[HANDSHAKE_1_BYTES];
  ck_assert_int_eq(
      handshake_1_write(identity_x25519(b->identity), identity_x25519(a->identity)->public_key, &offer, &noise, frame),
      ERR_OK);
  uint64_t foreign = wire_foreign(w, a);
  tape_start(w, &tape);
  transit_frame(w, a, foreign, frame, sizeof frame);
  world_run(w, 20);
  w->filter = NULL;
  struct frame_head head;
  struct answer answer;
  ck_assert_int_eq(frame_head_read(tape.frame, tape.n, &head), ERR_OK);
  ck_assert_int_eq(handshake_2_read(noise, &head, tape.frame, tape.n, &answer), ERR_OK);
  flood(w, b, 1000);
  ck_assert(!info_of(a, b).has_session);
  ck_assert_ptr_nonnull(a->node->peers[0].slots[SLOT_PENDING]);

  struct session_keys keys;
  struct session *session;
  uint8_t beat[FRAME_HEAD_BYTES + 1 + FRAME_TAG_BYTES] = {[FRAME_HEAD_BYTES] = 1};
  noise_split(noise, &keys);
  const struct session_ends ends = {12345, answer.own.session_index, true};
  ck_assert_int_eq(session_new(&keys, &ends, w->now_ms, &session), ERR_OK);
  ck_assert_int_eq(session_seal(session, w->now_ms, MESSAGE_BEAT, beat, 1), ERR_OK);
  transit_frame(w, a, foreign, beat, sizeof beat);
  world_run(w, 20);
  ck_assert_ptr_null(a->node->peers[0].slots[SLOT_LIVE]);
  ck_assert_ptr_null(a->node->peers[0].slots[SLOT_PENDING]);
  session_free(session);
  noise_free(noise);
  world_free(w);
}
END_TEST

START_TEST(what_floods_at_an_address_is_hung_up_on) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct identity *other = identity_numbered(77);
  const uint8_t junk[64] = {1};
  only_called_by(b, a);
  a->peers[0].key = *identity_public(other);
  world_start(w);
  world_run(w, 50);
  ck_assert(a->node->peers[0].is_connected);
  for (int i = 0; i < MAX_GATE_FRAMES; i++)
    transit_frame(w, a, 0, junk, sizeof junk);
  world_run(w, 10);
  ck_assert(a->node->peers[0].is_connected);
  transit_frame(w, a, 0, junk, sizeof junk);
  world_run(w, 10);
  ck_assert(!a->node->peers[0].is_connected);
  assert_reason(a, b, ERR_NO_ANSWER, "floods us and is not the peer");
  identity_free(other);
  world_free(w);
}
END_TEST

START_TEST(who_is_kicked_learns_why_and_may_return) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  peer_kick(b->node, &b->node->peers[0], ERR_QUARANTINED);
  ck_assert(!info_of(b, a).has_session);
  ck_assert_int_eq(heard_by(b, a)->down, ERR_QUARANTINED);
  world_run(w, 10);
  ck_assert_int_eq(heard_by(a, b)->down, ERR_QUARANTINED);
  world_run(w, 3000);
  assert_up(a, b);
  world_free(w);
}
END_TEST

START_TEST(a_raised_boot_epoch_renews_the_sessions) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  gossip_set_boot_epoch(b->node, 5000);
  world_run(w, 3000);
  assert_up(a, b);
  ck_assert_uint_eq(info_of(a, b).boot_epoch, 5000);
  world_free(w);
}
END_TEST

START_TEST(state_is_repeated_and_sent_at_a_change) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  unsigned n = heard_by(b, a)->n_state;
  world_run(w, 50000);
  ck_assert_uint_eq(heard_by(b, a)->n_state, n + 10);
  a->state.round = 44;
  gossip_state_changed(a->node, 0);
  gossip_state_changed(a->node, 0);
  world_run(w, 10);
  ck_assert_uint_eq(heard_by(b, a)->n_state, n + 11);
  ck_assert_uint_eq(heard_by(b, a)->state.round, 44);
  world_free(w);
}
END_TEST

/* ---- what an idle node costs ---- */

static uint64_t counted_clock(void *context) {
  ++*(unsigned *)context;
  return 1000;
}

static void wait_for_nothing(void *context, struct link_fd *extra, size_t n_extra, int64_t timeout_ms) {
  (void)context;
  (void)extra;
  (void)n_extra;
  (void)timeout_ms;
}

/* How often a poll in which nothing happens asks for the time, in a node with n peers that dial it. */
static unsigned looks_at_clock(size_t n) {
  struct gossip_peer_config *peers = calloc(n, sizeof *peers);
  struct identity **ids = calloc(n + 1, sizeof(void *));
  char why[MAX_REASON_BYTES];
  unsigned n_looks = 0;
  ck_assert(peers && ids && n < UINT8_MAX);
  for (size_t i = 0; i <= n; i++)
    ids[i] = identity_numbered((uint8_t)(i + 1));
  qsort(ids, n, sizeof ids[0], by_key); // NOLINT(bugprone-sizeof-expression): an array of pointers
  for (size_t i = 0; i < n; i++)
    peers[i] = (struct gossip_peer_config){*identity_public(ids[i]), "", ""};
  struct gossip_config config = {
      .identity = ids[n], .peers = peers, .n_peers = n, .now_ms = counted_clock, .now_context = &n_looks};
  static const struct gossip_events events;
  static const struct link_calls idle = {.wait = wait_for_nothing};
  struct gossip *g;
  ck_assert_int_eq(node_new(&config, &events, &g, why), ERR_OK);
  g->link.calls = &idle;
  link_poll(g, NULL, 0, 0);
  n_looks = 0;
  link_poll(g, NULL, 0, 0);
  unsigned n_looked = n_looks;
  node_free(g);
  for (size_t i = 0; i <= n; i++)
    identity_free(ids[i]);
  free(ids);
  free(peers);
  return n_looked;
}

START_TEST(a_poll_in_which_nothing_happens_costs_the_same_with_two_hundred_peers) {
  ck_assert(random_open() == ERR_OK);
  ck_assert_uint_eq(looks_at_clock(200), looks_at_clock(2));
}
END_TEST

START_TEST(a_new_reason_is_told_once_and_only_without_a_session) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  size_t peer;
  enum err reason;
  ck_assert(!gossip_reason_take(a->node, &peer, &reason));
  agent_stop(b, ERR_STOPPED);
  world_run(w, 10);
  ck_assert(gossip_reason_take(a->node, &peer, &reason));
  ck_assert_uint_eq(peer, 0);
  ck_assert_int_eq(reason, info_of(a, b).reason);
  ck_assert(!gossip_reason_take(a->node, &peer, &reason));
  agent_start(b);
  world_run(w, 3000);
  assert_up(a, b);
  ck_assert(!gossip_reason_take(a->node, &peer, &reason));
  world_free(w);
}
END_TEST

int main(void) {
  return SUITE_RUN(
      "sessions", a_handshake_gives_both_sides_a_session, who_dials_at_the_same_time_ends_with_one_session,
      a_lost_answer_only_delays, a_lost_hello_ends_in_a_new_session,
      the_listener_that_lacks_our_key_is_silent_and_counts, the_dialler_with_another_key_of_us_gets_silence,
      another_swarm_is_said_on_both_sides, without_a_common_version_there_is_no_session, a_common_version_is_enough,
      a_contract_that_differs_is_shown_in_words, a_schema_that_differs_is_shown_in_words,
      another_job_is_refused_not_the_session, a_job_file_that_differs_is_only_noted,
      an_address_where_nobody_listens_is_unreachable, keys_are_renewed_without_a_gap,
      old_keys_are_dead_after_three_minutes, a_replayed_first_message_disturbs_nothing,
      a_replayed_first_message_does_not_stop_a_handshake, a_replayed_frame_is_dropped_and_counted,
      a_frame_counts_on_its_own_connection_only, forged_frames_end_the_session_after_three,
      handshakes_of_one_address_are_limited, a_restarted_peer_is_a_new_session,
      after_a_power_cut_the_old_session_does_not_stand_in_the_way, two_agents_with_one_key_are_noticed,
      silence_is_noticed_within_4_s, a_peer_without_beats_may_be_silent_for_15_s,
      while_a_payload_comes_a_chunk_may_take_4_s_more, a_metered_site_sets_the_pace_for_both,
      a_healed_black_hole_is_used_within_2_s, who_stood_still_hears_what_has_come_first,
      a_cut_link_is_used_soon_after_it_heals, who_stops_says_bye, who_floods_has_no_session_for_a_minute,
      a_second_connection_does_not_outlast_the_ban, what_floods_at_an_address_is_hung_up_on,
      who_is_kicked_learns_why_and_may_return, a_raised_boot_epoch_renews_the_sessions,
      state_is_repeated_and_sent_at_a_change, a_poll_in_which_nothing_happens_costs_the_same_with_two_hundred_peers,
      a_new_reason_is_told_once_and_only_without_a_session);
}
