#include "tests/unit/gossip/world.h"

static struct gossip_member member_of(const struct agent *a, const struct agent *other) {
  struct gossip_member m;
  for (size_t i = 0; i < gossip_n_members(a->node); i++) {
    gossip_member(a->node, i, &m);
    if (identity_key_equal(&m.key, identity_public(other->identity)))
      return m;
  }
  ck_abort_msg("agent %zu does not know of agent %zu", a->number, other->number);
}

static void assert_state(const struct agent *a, const struct agent *other, enum member_state s) {
  struct gossip_member m = member_of(a, other);
  ck_assert_msg(m.state == s, "agent %zu has agent %zu as %s, not %s", a->number, other->number,
                member_state_name(m.state), member_state_name(s));
}

static void forget(struct agent *a, const struct agent *other) {
  size_t at = peer_of(a, other);
  for (size_t i = at; i + 1 < a->config.n_peers; i++) {
    a->peers[i] = a->peers[i + 1];
    a->number_of_peer[i] = a->number_of_peer[i + 1];
  }
  a->config.n_peers--;
}

/* 0 — 1 — 2: the two ends are no peers of each other. */
static struct world *chain_new(void) {
  struct world *w = world_new(3, false);
  forget(&w->agents[0], &w->agents[2]);
  forget(&w->agents[2], &w->agents[0]);
  world_start(w);
  world_run(w, 1000);
  return w;
}

START_TEST(members_are_known_over_others_and_are_no_peers) {
  struct world *w = chain_new();
  struct agent *a = &w->agents[0], *c = &w->agents[2];
  struct gossip_member m = member_of(a, c);
  assert_state(a, c, MEMBER_ALIVE);
  assert_state(c, a, MEMBER_ALIVE);
  ck_assert(!m.is_peer && !m.is_self);
  ck_assert_str_eq(m.addresses, c->listen);
  ck_assert_uint_eq(m.boot_epoch, c->config.boot_epoch);
  ck_assert_uint_eq(a->config.n_peers, 1);
  ck_assert(member_of(a, a).is_self);
  world_free(w);
}
END_TEST

START_TEST(nothing_but_hashes_is_said_when_all_know_all) {
  struct world *w = chain_new();
  world_run(w, 60000);
  memset(w->n_by_type, 0, sizeof w->n_by_type);
  world_run(w, 300000);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_NEWS], 0);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_LIST], 0);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_SEEK], 0);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_SYNC], 30); /* one an agent and 30 s */
  world_free(w);
}
END_TEST

/* Members that the agent's table is told of by a peer that there is not. */
static void introduce(struct agent *a, uint8_t n) {
  struct statement s = {.incarnation = {1, 0}};
  uint8_t bytes[STATEMENT_MAX_BYTES];
  memcpy(s.swarm.bytes, a->config.swarm, sizeof s.swarm.bytes);
  for (uint8_t i = 0; i < n; i++) {
    struct identity *id = identity_numbered((uint8_t)(100 + i));
    statement_sign(&s, id);
    identity_free(id);
    size_t n_bytes = statement_write(&s, bytes);
    ck_assert_int_eq(members_take_statement(a->node->members, 99, bytes, n_bytes, a->world->now_ms), ERR_OK);
  }
}

START_TEST(a_comparison_ends_when_the_other_side_takes_nothing) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  world_start(w);
  world_run(w, 1000);
  a->node->members->config.max = a->node->members->n; /* it has no room */
  introduce(b, 2 * MAX_NEWS);
  world_run(w, 1000);
  memset(w->n_by_type, 0, sizeof w->n_by_type);
  world_run(w, 90000); /* three comparisons of each side */
  ck_assert_uint_eq(gossip_n_members(a->node), 2);
  ck_assert_uint_gt(w->n_by_type[MESSAGE_LIST], 3);
  ck_assert_uint_lt(w->n_by_type[MESSAGE_LIST], 30);
  a->node->members->config.max = MAX_MEMBERS;
  world_run(w, 60000);
  ck_assert_uint_eq(gossip_n_members(a->node), 2 + 2 * MAX_NEWS);
  world_free(w);
}
END_TEST

START_TEST(who_was_killed_is_dead_for_its_peers_and_comes_back_at_once) {
  struct world *w = world_new(3, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1], *c = &w->agents[2];
  world_start(w);
  world_run(w, 5000);
  agent_kill(c);
  world_run(w, 5000);
  assert_state(a, c, MEMBER_SUSPECT);
  world_run(w, 5000);
  assert_state(a, c, MEMBER_DEAD);
  assert_state(b, c, MEMBER_DEAD);
  c->config.boot_epoch++;
  agent_start(c);
  world_run(w, 1500);
  assert_state(a, c, MEMBER_ALIVE);
  assert_state(b, c, MEMBER_ALIVE);
  assert_state(c, a, MEMBER_ALIVE);
  world_run(w, 30000);
  assert_state(a, c, MEMBER_ALIVE);
  world_free(w);
}
END_TEST

START_TEST(a_member_beyond_one_accuser_stays_suspect) {
  struct world *w = chain_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1], *c = &w->agents[2];
  agent_kill(c);
  world_run(w, 60000);
  assert_state(b, c, MEMBER_DEAD);
  assert_state(a, c, MEMBER_SUSPECT);
  world_free(w);
}
END_TEST

START_TEST(who_stops_has_left) {
  struct world *w = chain_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1], *c = &w->agents[2];
  agent_stop(c, ERR_STOPPED);
  world_run(w, 100);
  assert_state(b, c, MEMBER_LEFT);
  assert_state(a, c, MEMBER_LEFT);
  world_run(w, 60000);
  assert_state(a, c, MEMBER_LEFT);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_SEEK], 0);
  c->config.boot_epoch++;
  agent_start(c);
  world_run(w, 30000);
  assert_state(a, c, MEMBER_ALIVE);
  world_free(w);
}
END_TEST

/* Only one pair does not hear each other. */
static unsigned pair_is_deaf(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame, size_t n) {
  (void)w, (void)frame, (void)n;
  return from->number + to->number == 1 ? 0 : 1;
}

START_TEST(whom_a_common_peer_hears_is_not_suspected) {
  struct world *w = world_new(3, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  world_start(w);
  world_run(w, 5000);
  w->filter = pair_is_deaf;
  for (int i = 0; i < 600; i++) {
    world_run(w, 1000);
    assert_state(a, b, MEMBER_ALIVE);
  }
  ck_assert(!info_of(a, b).has_session);
  ck_assert_uint_gt(w->n_by_type[MESSAGE_SEEK], 10);
  ck_assert_uint_lt(w->n_by_type[MESSAGE_SEEK], 150);
  ck_assert_uint_eq(member_of(a, b).refutation, 0);
  world_free(w);
}
END_TEST

START_TEST(a_moved_peer_is_found_at_the_address_that_it_tells) {
  struct world *w = world_new(3, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1], *c = &w->agents[2];
  only_called_by(c, a); /* a dials c, where c was */
  only_called_by(b, c); /* c dials b, wherever c is */
  world_start(w);
  world_run(w, 5000);
  ck_assert(info_of(a, c).has_session);
  agent_kill(c);
  snprintf(c->listen, sizeof c->listen, "tcp://10.9.9.9:7411");
  c->config.boot_epoch++;
  agent_start(c);
  world_run(w, 10000);
  ck_assert(info_of(a, c).has_session);
  ck_assert(info_of(a, c).we_dialled);
  ck_assert_str_eq(member_of(a, c).addresses, c->listen);
  ck_assert_uint_eq(gossip_n_members(a->node), 3);
  world_free(w);
}
END_TEST

/* A name would have to be resolved, for as long as whoever answers for it likes. */
START_TEST(a_name_that_a_peer_tells_is_listed_and_not_dialled) {
  static const struct {
    const char *address;
    bool is_dialled;
  } cases[] = {{"tcp://slow.example:7411", false},
               {"tcp://[slow.example]:7411", false},
               {"tcp://[fe80]:7411", false},
               {"tcp://10.9.9.999:7411", false},
               {"tcp://[]:7411", false},
               {"tcp://[:7411", false},
               {"tcp://[fe80::1%eth0]:7411", false},
               {"tcp://10.9.9.9:7411", true},
               {"tcp://[fe80::1]:7411", true}};
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  world_start(w);
  world_run(w, 1000);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct statement s = {.incarnation = {1000 + i, 0}};
    uint8_t bytes[STATEMENT_MAX_BYTES];
    char address[MAX_ADDRESS_BYTES];
    memcpy(s.swarm.bytes, a->config.swarm, sizeof s.swarm.bytes);
    snprintf(s.addresses, sizeof s.addresses, "%s", cases[i].address);
    statement_sign(&s, b->identity);
    world_run(w, 1000);
    ck_assert_int_eq(members_take_statement(a->node->members, 0, bytes, statement_write(&s, bytes), w->now_ms), ERR_OK);
    ck_assert_str_eq(member_of(a, b).addresses, cases[i].address);
    ck_assert_msg(membership_address(a->node, &a->node->peers[0], 0, address) == cases[i].is_dialled, "%s",
                  cases[i].address);
  }
  world_free(w);
}
END_TEST

START_TEST(an_agent_of_version_1_is_told_nothing_of_members) {
  struct world *w = world_new(3, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1], *c = &w->agents[2];
  c->config.version_min = c->config.version_max = 1;
  world_start(w);
  world_run(w, 60000);
  ck_assert(info_of(a, c).has_session && info_of(b, c).has_session);
  assert_state(a, b, MEMBER_ALIVE);
  assert_state(a, c, MEMBER_ALIVE); /* by its session */
  ck_assert_uint_eq(member_of(a, c).boot_epoch, 0);
  ck_assert_uint_eq(info_of(c, a).drops[err_drop_index(ERR_FRAME)], 0);
  ck_assert_uint_eq(info_of(a, c).drops[err_drop_index(ERR_FRAME)], 0);
  agent_kill(c);
  world_run(w, 30000);
  assert_state(a, c, MEMBER_ABSENT);
  world_free(w);
}
END_TEST

START_TEST(an_agent_without_membership_takes_no_part_in_it) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  b->config.max_members = 0;
  world_start(w);
  world_run(w, 60000);
  ck_assert(info_of(a, b).has_session);
  ck_assert_uint_eq(gossip_n_members(b->node), 0);
  ck_assert_uint_eq(info_of(b, a).drops[err_drop_index(ERR_FRAME)], 0);
  world_free(w);
}
END_TEST

START_TEST(all_that_were_stopped_are_listed_as_absent_by_those_that_start) {
  struct world *w = world_new(3, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1], *c = &w->agents[2];
  agent_start(a);
  agent_start(b);
  world_run(w, 60000);
  size_t counts[N_MEMBER_STATES];
  assert_state(a, b, MEMBER_ALIVE);
  assert_state(a, c, MEMBER_ABSENT);
  gossip_count_members(a->node, counts);
  ck_assert_uint_eq(counts[MEMBER_ABSENT], 1);
  ck_assert_uint_eq(counts[MEMBER_ALIVE], 2);
  world_free(w);
}
END_TEST

START_TEST(who_stood_still_accuses_nobody) {
  struct world *w = world_new(3, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1], *c = &w->agents[2];
  world_start(w);
  world_run(w, 5000);
  struct gossip *asleep = c->node;
  c->node = NULL; /* nobody turns its loop */
  world_run(w, 3000);
  c->node = asleep;
  world_run(w, 10000);
  assert_state(c, a, MEMBER_ALIVE);
  assert_state(c, b, MEMBER_ALIVE);
  ck_assert_uint_eq(member_of(c, a).refutation, 0);
  ck_assert_uint_eq(member_of(c, b).refutation, 0);
  world_free(w);
}
END_TEST

/* People read it in the log: a count alone nobody looks at. */
START_TEST(a_newer_word_of_our_own_key_is_noted) {
  struct world *w = chain_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct statement s = {.incarnation = {a->config.boot_epoch + 1, 0}};
  uint8_t bytes[STATEMENT_MAX_BYTES];
  struct gossip_note note;
  memcpy(s.swarm.bytes, a->config.swarm, sizeof s.swarm.bytes);
  statement_sign(&s, a->identity);
  struct message m = {.type = MESSAGE_NEWS,
                      .news = {1, {{NEWS_STATEMENT, bytes, (uint16_t)statement_write(&s, bytes)}}}};
  while (gossip_note_take(a->node, &note))
    ck_assert_int_ne(note.reason, ERR_CLONE);
  membership_on_news(a->node, &a->node->peers[peer_of(a, b)], &m);
  ck_assert(gossip_note_take(a->node, &note));
  ck_assert_int_eq(note.reason, ERR_CLONE);
  ck_assert_uint_eq(note.peer, peer_of(a, b));
  world_free(w);
}
END_TEST

int main(void) {
  return SUITE_RUN(
      "membership", members_are_known_over_others_and_are_no_peers, nothing_but_hashes_is_said_when_all_know_all,
      a_comparison_ends_when_the_other_side_takes_nothing, who_was_killed_is_dead_for_its_peers_and_comes_back_at_once,
      a_member_beyond_one_accuser_stays_suspect, who_stops_has_left, whom_a_common_peer_hears_is_not_suspected,
      a_moved_peer_is_found_at_the_address_that_it_tells, a_name_that_a_peer_tells_is_listed_and_not_dialled,
      an_agent_of_version_1_is_told_nothing_of_members, an_agent_without_membership_takes_no_part_in_it,
      all_that_were_stopped_are_listed_as_absent_by_those_that_start, who_stood_still_accuses_nobody,
      a_newer_word_of_our_own_key_is_noted);
}
