/* A pair that cannot meet and a third that both know, in virtual time. By ascending key: a, b, c … */
#include "gossip/relay_queue.h"
#include "tests/size.h"
#include "tests/unit/gossip/world.h"

enum { BIG_PAYLOAD = 16 << 20 };

static struct world *w;
static struct agent *a, *b, *c;

/* Nobody answers there. */
static const char nowhere[] = "tcp://10.9.9.9:1";

static void set_address(struct agent *at, const struct agent *other, const char *address) {
  at->peers[peer_of(at, other)].address = address;
}

/* The two do not find each other, whatever they are told. */
static void separate(struct agent *one, struct agent *other, const char *address) {
  set_address(one, other, address);
  set_address(other, one, address);
  one->config.addresses = other->config.addresses = NULL;
}

static void begin(size_t n) {
  w = world_new(n, false);
  for (size_t i = 0; i < n; i++)
    w->agents[i].config.relay = GOSSIP_RELAY_CARRY;
  a = &w->agents[0];
  b = &w->agents[1];
  c = &w->agents[2];
}

static void begin_apart(const char *address) {
  begin(3);
  separate(a, c, address);
}

static void end(void) {
  world_free(w);
}

/* From now on the address is another one. */
static void move_peer(struct agent *at, const struct agent *other, const char *address) {
  at->peers[peer_of(at, other)].address = address;
}

static void cut_wires(const struct agent *one, const struct agent *other) {
  for (size_t i = 0; i < w->n_wires; i++) {
    struct wire *wire = &w->wires[i];
    if ((wire->from == one && wire->to == other) || (wire->from == other && wire->to == one))
      wire_close(w, wire, NULL);
  }
}

static void assert_via(const struct agent *at, const struct agent *other, const struct agent *via) {
  struct gossip_peer_info info = info_of(at, other);
  ck_assert(info.has_session);
  if (via)
    ck_assert_uint_eq(info.via, peer_of(at, via));
  else
    ck_assert_uint_eq(info.via, SIZE_MAX);
}

static void assert_met_over(const struct agent *one, const struct agent *other, const struct agent *via) {
  assert_via(one, other, via);
  assert_via(other, one, via);
}

static void assert_apart(void) {
  ck_assert(!info_of(a, c).has_session);
  ck_assert(!info_of(c, a).has_session);
}

static uint64_t drops_of(const struct agent *at, const struct agent *other, enum err reason) {
  return info_of(at, other).drops[err_drop_index(reason)];
}

/* The whole of c's payload comes to a, in so many seconds at most. */
static void fetch(size_t n, unsigned within_s) {
  a->fetches = true;
  agent_publish(c, n, 1);
  gossip_offer(c->node, peer_of(c, a), 0, c->published_bytes);
  for (unsigned i = 0; i < within_s && heard_by(a, c)->n_payload == 0; i++)
    world_run(w, 1000);
  ck_assert_uint_eq(heard_by(a, c)->n_payload, 1);
  ck_assert_mem_eq(heard_by(a, c)->payload, c->payload, n);
}

START_TEST(a_pair_without_addresses_meets_over_a_third) {
  begin_apart("");
  world_start(w);
  world_run(w, 2500);
  assert_met_over(a, c, b);
  assert_met_over(a, b, NULL);
  ck_assert_uint_eq(heard_by(a, c)->n_hello, 1);
  ck_assert_uint_ge(heard_by(a, c)->n_state, 1);
  fetch(300000, 5);
  ck_assert_uint_ge(info_of(b, a).relayed_bytes, 300000);
  ck_assert_uint_ge(info_of(b, c).relayed_bytes, 300000);
  ck_assert_uint_ge(gossip_relayed_bytes(b->node), 300000);
  ck_assert_uint_ge(info_of(a, c).received_bytes, 300000);
  ck_assert_uint_le(info_of(a, b).received_bytes, 20000);
  ck_assert_uint_eq(gossip_relayed_bytes(a->node), 0);
}
END_TEST

START_TEST(addresses_where_nobody_answers_are_tried_first) {
  begin_apart(nowhere);
  world_start(w);
  world_run(w, RELAY_AFTER_DIALS_MS - 500);
  assert_apart();
  ck_assert_uint_eq(w->n_by_type[MESSAGE_RELAY], 0);
  world_run(w, 2000);
  assert_met_over(a, c, b);
  ck_assert_str_eq(info_of(a, c).sentence, "");
  world_run(w, (uint64_t)10 * 60 * 1000); /* dialling goes on, keys are renewed, and nothing of it disturbs */
  assert_met_over(a, c, b);
  ck_assert_str_eq(info_of(a, c).sentence, "");
  ck_assert_uint_eq(heard_by(a, c)->n_up, 1);
  ck_assert_uint_eq(heard_by(c, a)->n_down, 0);
}
END_TEST

START_TEST(without_a_relay_the_pair_is_missing) {
  begin_apart("");
  b->config.relay = GOSSIP_RELAY_ASK;
  world_start(w);
  world_run(w, (uint64_t)10 * 60 * 1000);
  assert_apart();
  ck_assert_uint_ge(drops_of(a, b, ERR_REFUSED), 10);
  ck_assert_uint_le(w->n_by_type[MESSAGE_RELAY], 100);
  ck_assert_uint_eq(gossip_relayed_bytes(b->node), 0);
}
END_TEST

START_TEST(a_peer_that_is_down_is_asked_for_more_and_more_rarely) {
  begin(3);
  agent_start(a);
  agent_start(b);
  world_run(w, (uint64_t)10 * 60 * 1000);
  unsigned first = w->n_by_type[MESSAGE_RELAY];
  ck_assert_uint_ge(first, 10);
  ck_assert_uint_le(first, 120);
  world_run(w, (uint64_t)60 * 60 * 1000);
  ck_assert_uint_le(w->n_by_type[MESSAGE_RELAY] - first, 130);
}
END_TEST

START_TEST(who_meets_directly_relays_nothing) {
  begin(3);
  world_start(w);
  world_run(w, 60000);
  assert_met_over(a, c, NULL);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_RELAY], 0);
  ck_assert_ptr_null(a->node->relay);
}
END_TEST

START_TEST(the_direct_way_wins_as_soon_as_it_works) {
  begin_apart(nowhere);
  world_start(w);
  world_run(w, 20000);
  assert_met_over(a, c, b);
  move_peer(c, a, a->listen);
  world_run(w, 15000);
  assert_met_over(a, c, NULL);
  world_run(w, PREVIOUS_KEEP_MS);
  unsigned n = w->n_by_type[MESSAGE_RELAY];
  world_run(w, 60000);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_RELAY], n);
  assert_met_over(a, c, NULL);
  ck_assert_uint_eq(heard_by(a, c)->n_up, 1); /* neither side has noticed a gap */
  ck_assert_uint_eq(heard_by(a, c)->n_down, 0);
  ck_assert_uint_eq(heard_by(c, a)->n_up, 1);
  ck_assert_uint_eq(heard_by(c, a)->n_down, 0);
  for (enum slot_name i = SLOT_PREVIOUS; i < N_SLOTS; i++) {
    ck_assert_ptr_null(a->node->peers[peer_of(a, c)].slots[i]);
    ck_assert_ptr_null(c->node->peers[peer_of(c, a)].slots[i]);
  }
}
END_TEST

START_TEST(a_direct_way_that_breaks_is_replaced) {
  begin(3);
  a->config.addresses = c->config.addresses = NULL;
  world_start(w);
  world_run(w, 20000);
  assert_met_over(a, c, NULL);
  move_peer(a, c, nowhere);
  move_peer(c, a, nowhere);
  cut_wires(a, c);
  world_run(w, RELAY_AFTER_DIALS_MS + 2000);
  assert_met_over(a, c, b);
  fetch(200000, 5);
}
END_TEST

START_TEST(what_two_relays_offer_one_of_them_does) {
  begin(4);
  struct agent *d = &w->agents[3];
  separate(a, d, "");
  world_start(w);
  world_run(w, 3000);
  size_t via = info_of(a, d).via;
  ck_assert_uint_ne(via, SIZE_MAX);
  struct agent *first = via == peer_of(a, b) ? b : c, *second = first == b ? c : b;
  agent_kill(first);
  world_run(w, 3000);
  assert_met_over(a, d, second);
}
END_TEST

START_TEST(one_hop_is_all) {
  begin(4);
  struct agent *d = &w->agents[3];
  separate(a, c, "");
  separate(a, d, "");
  separate(b, d, "");
  world_start(w);
  world_run(w, 60000);
  assert_met_over(a, c, b);
  assert_met_over(b, d, c);
  ck_assert(!info_of(a, d).has_session);
  ck_assert(!info_of(d, a).has_session);
}
END_TEST

/* What a session says that is relayed itself is not carried on, and what was carried is not either. */
START_TEST(a_relayed_session_carries_none) {
  static const uint8_t frame[100];
  begin_apart("");
  world_start(w);
  world_run(w, 3000);
  struct message m = {.type = MESSAGE_RELAY, .relay = {.way = RELAY_TO, .frame = frame, .n_frame = sizeof frame}};
  m.relay.key = *identity_public(b->identity);
  send_message(a->node, &a->node->peers[peer_of(a, c)], &m);
  world_run(w, 1000);
  ck_assert_uint_eq(drops_of(c, a, ERR_MESSAGE), 1);
  ck_assert_uint_eq(gossip_relayed_bytes(c->node), 0);
  m.relay.way = RELAY_FROM; /* of c, for b: it is not for a to say */
  m.relay.key = *identity_public(c->identity);
  uint64_t carried = gossip_relayed_bytes(b->node);
  send_message(a->node, &a->node->peers[peer_of(a, b)], &m);
  world_run(w, 10);
  ck_assert_uint_eq(drops_of(b, a, ERR_FRAME), 1);
  ck_assert_uint_le(gossip_relayed_bytes(b->node) - carried, 1000);
  assert_met_over(b, c, NULL);
}
END_TEST

START_TEST(strangers_are_neither_carried_nor_heard) {
  static const uint8_t frame[100];
  begin_apart("");
  world_start(w);
  world_run(w, 3000);
  struct message m = {.type = MESSAGE_RELAY, .relay = {.way = RELAY_TO, .frame = frame, .n_frame = sizeof frame}};
  memset(m.relay.key.bytes, 9, sizeof m.relay.key.bytes);
  send_message(a->node, &a->node->peers[peer_of(a, b)], &m);
  m.relay.way = RELAY_FROM;
  send_message(b->node, &b->node->peers[peer_of(b, c)], &m);
  world_run(w, 1000);
  ck_assert_uint_eq(drops_of(a, b, ERR_MESSAGE), 1); /* refused: by a key that a does not know either */
  ck_assert_uint_eq(drops_of(c, b, ERR_UNKNOWN_KEY), 1);
  assert_met_over(a, c, b);
}
END_TEST

/* A handshake of one peer that is given out for another's. */
START_TEST(whose_handshake_it_is_is_proven) {
  begin(4);
  struct agent *d = &w->agents[3];
  separate(a, d, "");
  separate(b, d, "");
  world_start(w);
  world_run(w, 5000);
  ck_assert(info_of(a, d).has_session && info_of(b, d).has_session);
  uint8_t bytes[HANDSHAKE_1_BYTES];
  struct offer offer = {
      .version_min = 1, .version_max = GOSSIP_VERSION, .swarm = {7}, .session_index = 256, .boot_epoch = 7};
  struct noise *noise;
  ck_assert_int_eq(a->node->seals->write_1(&a->node->self, a->node->peers[peer_of(a, d)].x25519, &offer, &noise, bytes),
                   ERR_OK);
  struct message m = {.type = MESSAGE_RELAY, .relay = {.way = RELAY_FROM, .frame = bytes, .n_frame = sizeof bytes}};
  m.relay.key = *identity_public(b->identity);
  send_message(c->node, &c->node->peers[peer_of(c, d)], &m);
  world_run(w, 100);
  struct gossip_stranger row;
  ck_assert_uint_eq(gossip_strangers(d->node, &row, 1), 1);
  ck_assert_uint_eq(row.n_handshake, 1);
  ck_assert_ptr_nonnull(strstr(row.address, "which relays"));
  a->node->seals->noise_free(noise);
}
END_TEST

START_TEST(an_older_third_is_not_asked) {
  begin_apart("");
  b->config.version_min = 1;
  b->config.version_max = 2;
  world_start(w);
  world_run(w, 60000);
  ck_assert(info_of(a, b).has_session && info_of(b, c).has_session);
  assert_apart();
  ck_assert_uint_eq(w->n_by_type[MESSAGE_RELAY], 0);
  ck_assert_uint_eq(drops_of(b, a, ERR_FRAME), 0);
}
END_TEST

START_TEST(an_older_peer_is_not_reached) {
  begin_apart("");
  c->config.version_min = 1;
  c->config.version_max = 2;
  world_start(w);
  world_run(w, 60000);
  assert_apart();
  ck_assert_uint_ge(drops_of(a, b, ERR_VERSION), 2);
  ck_assert_uint_eq(drops_of(c, b, ERR_FRAME), 0);
}
END_TEST

/* An agent of version 2 counts the message as one that it does not know, and the session goes on. */
START_TEST(an_older_agent_ignores_what_it_does_not_know) {
  static const uint8_t frame[100];
  begin(3);
  b->config.version_min = 1;
  b->config.version_max = 2;
  world_start(w);
  world_run(w, 3000);
  struct message m = {.type = MESSAGE_RELAY, .relay = {.way = RELAY_TO, .frame = frame, .n_frame = sizeof frame}};
  m.relay.key = *identity_public(c->identity);
  send_message(a->node, &a->node->peers[peer_of(a, b)], &m);
  world_run(w, 10000);
  ck_assert_uint_eq(drops_of(b, a, ERR_FRAME), 1);
  ck_assert(info_of(a, b).has_session && info_of(b, a).has_session);
  ck_assert_uint_eq(heard_by(a, b)->n_down, 0);
}
END_TEST

/* More than a peer may: much at once is slowed down, and nobody is sent away for it. */
START_TEST(a_large_payload_at_full_speed_is_no_crime) {
  begin_apart("");
  world_start(w);
  world_run(w, 3000);
  fetch(BIG_PAYLOAD, 30);
  assert_met_over(a, c, b);
  ck_assert_uint_eq(heard_by(a, c)->n_down + heard_by(a, b)->n_down + heard_by(b, a)->n_down, 0);
  ck_assert_uint_eq(heard_by(b, c)->n_down + heard_by(c, b)->n_down, 0);
  ck_assert_uint_eq(b->node->budget.used, 0);
}
END_TEST

/* The way to a is full at once: what waits at b is bounded, and all comes at last. */
START_TEST(what_waits_is_bounded) {
  begin_apart("");
  world_start(w);
  world_run(w, 3000);
  w->full_after = 2;
  fetch(4 << 20, 60);
  w->full_after = 0;
  world_run(w, 100);
  ck_assert_uint_eq(b->node->budget.used, 0);
  assert_met_over(a, c, b);
}
END_TEST

/* ---- what b holds for c ---- */

/* b has n bytes from a for c, which have not left. */
static void hold_at_b(size_t n) {
  static const uint8_t frame[60000];
  struct message m = {.type = MESSAGE_RELAY, .relay = {.way = RELAY_TO, .frame = frame, .n_frame = n}};
  m.relay.key = *identity_public(c->identity);
  relay_on_relay(b->node, &b->node->peers[peer_of(b, a)], &m);
  ck_assert_uint_gt(b->node->budget.used, n);
}

START_TEST(what_is_held_too_long_is_lost) {
  begin_apart("");
  world_start(w);
  world_run(w, 5000);
  hold_at_b(1000);
  w->now_ms += RELAY_KEEP_MS;
  relay_tick(b->node);
  ck_assert_uint_eq(b->node->budget.used, 0);
}
END_TEST

START_TEST(own_payloads_come_before_what_is_carried) {
  begin_apart("");
  world_start(w);
  world_run(w, 5000);
  hold_at_b(50000);
  b->node->budget.limit = b->node->budget.used + 1000;
  struct manifest m = {.kind = MANIFEST_FULL, .job = b->job.job, .n_payload = 20000};
  ck_assert_int_eq(gossip_fetch(b->node, peer_of(b, a), 0, &m), ERR_OK);
  ck_assert_uint_eq(b->node->budget.used, 20000);
}
END_TEST

/* ---- which way ---- */

/* Somebody else takes the connection, and is never the peer. */
START_TEST(a_false_address_does_not_keep_from_the_way_over_a_third) {
  begin(3);
  separate(a, c, b->listen);
  world_start(w);
  world_run(w, 15000);
  assert_met_over(a, c, b);
  world_run(w, (uint64_t)10 * 60 * 1000); /* and its keys are renewed */
  assert_met_over(a, c, b);
  ck_assert_uint_eq(heard_by(a, c)->n_down, 0);
}
END_TEST

START_TEST(when_a_ban_ends_the_way_is_tried_again) {
  begin_apart("");
  world_start(w);
  world_run(w, 5000);
  struct peer *p = &a->node->peers[peer_of(a, c)];
  p->banned_until_ms = w->now_ms + FLOOD_BAN_MS;
  peer_kick(a->node, p, ERR_BACKLOG);
  world_run(w, FLOOD_BAN_MS - 1000);
  assert_apart();
  world_run(w, 4000);
  assert_met_over(a, c, b);
}
END_TEST

START_TEST(who_comes_is_asked_at_once) {
  begin(4);
  struct agent *d = &w->agents[3];
  separate(a, d, "");
  b->config.relay = GOSSIP_RELAY_ASK; /* carries nothing */
  agent_start(a);
  agent_start(b);
  agent_start(d);
  world_run(w, (uint64_t)20 * 60 * 1000);
  ck_assert(!info_of(a, d).has_session);
  agent_start(c);
  uint64_t begun_ms = w->now_ms;
  while (!(info_of(a, c).has_session && info_of(c, d).has_session) && w->now_ms < begun_ms + 60000)
    world_run(w, 100);
  world_run(w, 3000);
  assert_met_over(a, d, c);
}
END_TEST

START_TEST(who_wants_no_relay_has_none) {
  begin_apart("");
  c->config.relay = GOSSIP_RELAY_OFF;
  world_start(w);
  world_run(w, 60000);
  assert_apart();
  ck_assert_uint_ge(drops_of(c, b, ERR_REFUSED), 1);
}
END_TEST

/* The session of before still goes over the third while the one of now is direct: what counts is the way a frame came by. */
START_TEST(what_came_over_a_third_is_not_carried_on_though_there_is_a_direct_way) {
  static const uint8_t frame[100];
  begin_apart(nowhere);
  world_start(w);
  world_run(w, 20000);
  assert_met_over(a, c, b);
  move_peer(c, a, a->listen);
  for (unsigned i = 0; i < 400 && info_of(a, c).via != SIZE_MAX; i++)
    world_run(w, 50);
  assert_met_over(a, c, NULL);
  world_run(w, 1000);
  struct slot **slots = a->node->peers[peer_of(a, c)].slots, *live = slots[SLOT_LIVE];
  ck_assert(conn_is_relayed(slots[SLOT_PREVIOUS]->conn));
  struct message m = {.type = MESSAGE_RELAY, .relay = {.way = RELAY_TO, .frame = frame, .n_frame = sizeof frame}};
  m.relay.key = *identity_public(b->identity);
  slots[SLOT_LIVE] = slots[SLOT_PREVIOUS];
  slots[SLOT_PREVIOUS] = live;
  send_message(a->node, &a->node->peers[peer_of(a, c)], &m);
  send_flush(a->node, &a->node->peers[peer_of(a, c)]);
  slots[SLOT_PREVIOUS] = slots[SLOT_LIVE];
  slots[SLOT_LIVE] = live;
  world_run(w, 1000);
  ck_assert_uint_eq(drops_of(c, a, ERR_MESSAGE), 1);
  ck_assert_uint_eq(gossip_relayed_bytes(c->node), 0);
}
END_TEST

/* ---- one who relays and lies ---- */

/* What a says first to d, ready to be said again by `by`, as if it were of `of`. */
static uint8_t first_words[HANDSHAKE_1_BYTES];

static struct message words_of(const struct agent *of, const struct agent *d) {
  struct offer offer = {.version_min = 1, .version_max = 3, .swarm = {7}, .session_index = 256, .boot_epoch = 7};
  struct noise *noise;
  const uint8_t *to = a->node->peers[peer_of(a, d)].x25519;
  ck_assert_int_eq(a->node->seals->write_1(&a->node->self, to, &offer, &noise, first_words), ERR_OK);
  a->node->seals->noise_free(noise);
  struct message m = {.type = MESSAGE_RELAY,
                      .relay = {.way = RELAY_FROM, .frame = first_words, .n_frame = sizeof first_words}};
  m.relay.key = *identity_public(of->identity);
  return m;
}

/* n times each 20 ms for so long. */
static void say_again_and_again(struct agent *by, struct agent *to, const struct message *m, unsigned n,
                                unsigned for_s) {
  for (unsigned i = 0; i < for_s * 50; i++) {
    for (unsigned k = 0; k < n; k++)
      send_message(by->node, &by->node->peers[peer_of(by, to)], m);
    world_run(w, 20);
  }
}

START_TEST(handshakes_of_one_pair_do_not_use_up_those_of_another) {
  begin(4);
  struct agent *d = &w->agents[3];
  separate(a, d, "");
  agent_start(b);
  agent_start(c);
  agent_start(d);
  world_run(w, 5000);
  agent_kill(b);
  agent_start(a);
  struct message m = words_of(b, d); /* it is not b's: refused, and paid for */
  say_again_and_again(c, d, &m, 20, 4);
  assert_met_over(a, d, c);
}
END_TEST

/* The keys of a session over one third are renewed, whatever another third says again. */
START_TEST(who_repeats_a_handshake_disturbs_no_other_way) {
  begin(4);
  struct agent *d = &w->agents[3];
  separate(a, d, "");
  w->latency_ms = 50;
  world_start(w);
  world_run(w, 5000);
  size_t via = info_of(a, d).via;
  ck_assert_uint_ne(via, SIZE_MAX);
  struct agent *other = via == peer_of(a, b) ? c : b;
  struct message m = words_of(a, d);
  say_again_and_again(other, d, &m, 1, (unsigned)least_or(30, 2 * SESSION_EXPIRE_MS / 1000));
  ck_assert_uint_eq(heard_by(a, d)->n_down + heard_by(d, a)->n_down, 0);
  ck_assert_uint_eq(info_of(a, d).via, via);
}
END_TEST

static unsigned swallow_at_b(struct world *world, struct agent *from, struct agent *to, const uint8_t *frame,
                             size_t n) {
  (void)world, (void)n;
  return frame_type(frame) != MESSAGE_RELAY || (from != b && to != b);
}

/* c carries nothing at first, and when it does, its turn comes. */
START_TEST(who_swallows_and_comes_again_does_not_take_every_turn) {
  begin(4);
  struct agent *d = &w->agents[3];
  separate(a, d, "");
  c->config.relay = GOSSIP_RELAY_ASK;
  w->filter = swallow_at_b;
  world_start(w);
  world_run(w, 20000);
  ck_assert(!info_of(a, d).has_session);
  c->node->config.relay = GOSSIP_RELAY_CARRY;
  for (unsigned i = 0; i < 50 && !info_of(a, d).has_session; i++) {
    cut_wires(a, b);
    world_run(w, SETTLED_MS + 1000);
  }
  world_run(w, 1000);
  assert_met_over(a, d, c);
}
END_TEST

/* Each way is below what one may send, both together are not. */
START_TEST(what_is_sent_to_a_peer_is_not_charged_to_it) {
  static const uint8_t frame[40000];
  begin_apart("");
  world_start(w);
  world_run(w, 5000);
  struct message m = {.type = MESSAGE_RELAY, .relay = {.way = RELAY_TO, .frame = frame, .n_frame = sizeof frame}};
  for (unsigned i = 0; i < 5000; i += 4) {
    m.relay.key = *identity_public(c->identity);
    send_message(a->node, &a->node->peers[peer_of(a, b)], &m);
    m.relay.key = *identity_public(a->identity);
    send_message(c->node, &c->node->peers[peer_of(c, b)], &m);
    world_run(w, 4);
  }
  ck_assert_uint_eq(drops_of(b, a, ERR_BACKLOG), 0);
  ck_assert_uint_eq(drops_of(b, c, ERR_BACKLOG), 0);
  ck_assert_uint_eq(drops_of(a, b, ERR_BACKLOG), 0);
}
END_TEST

static struct seals lying;
static unsigned n_lies;
static uint8_t kept[MAX_FRAME_PLAIN_BYTES];
static size_t n_kept;

/* Of what it carries, every third frame is another one: with a bit flipped, or one that was carried before. */
static enum err seal_lies(struct session *s, uint64_t now_ms, uint8_t type, uint8_t *frame, size_t n_plain) {
  uint8_t *plain = frame + FRAME_HEAD_BYTES;
  if (type == MESSAGE_RELAY && n_plain <= sizeof kept) {
    unsigned k = n_lies++;
    if (k % 3 == 0)
      plain[RELAY_HEAD_BYTES + k % (n_plain - RELAY_HEAD_BYTES)] ^= (uint8_t)(1 << k % 8);
    else if (k % 3 == 1 && n_kept == n_plain)
      memcpy(plain, kept, n_plain);
    if (k % 7 == 0) {
      memcpy(kept, plain, n_plain);
      n_kept = n_plain;
    }
  }
  return seals_noise.seal(s, now_ms, type, frame, n_plain);
}

static unsigned lose_half(struct world *world, struct agent *from, struct agent *to, const uint8_t *frame, size_t n) {
  static uint32_t x;
  (void)world, (void)from, (void)to, (void)n;
  x = x * 1664525u + 1013904223u;
  return frame_type(frame) != MESSAGE_RELAY || x >> 31;
}

static void assert_not_guilty(const struct agent *at, const struct agent *other) {
  static const enum err crimes[] = {ERR_FRAME,       ERR_MAC,       ERR_HANDSHAKE, ERR_SEAL,  ERR_REPLAY, ERR_MESSAGE,
                                    ERR_KEY_EXPIRED, ERR_SIGNATURE, ERR_ORIGIN,    ERR_CLONE, ERR_ROOT,   ERR_BACKLOG,
                                    ERR_UNKNOWN_KEY, ERR_LENGTH,    ERR_VERSION,   ERR_SWARM};
  for (size_t i = 0; i < sizeof crimes / sizeof *crimes; i++)
    ck_assert_msg(drops_of(at, other, crimes[i]) == 0, "%s", err_name(crimes[i]));
  ck_assert(!peer_is_banned(at->node, &at->node->peers[peer_of(at, other)]));
}

START_TEST(a_relay_that_lies_harms_only_what_it_relays) {
  begin_apart("");
  world_start(w);
  world_run(w, 5000);
  assert_met_over(a, c, b);
  lying = seals_noise;
  lying.seal = seal_lies;
  b->node->seals = &lying;
  w->filter = lose_half;
  world_run(w, (uint64_t)10 * 60 * 1000);
  ck_assert_uint_ge(n_lies, 50);
  assert_not_guilty(a, c);
  assert_not_guilty(c, a);
  ck_assert_uint_eq(heard_by(a, b)->n_down + heard_by(b, a)->n_down, 0);
  ck_assert_uint_eq(heard_by(c, b)->n_down + heard_by(b, c)->n_down, 0);
  ck_assert_uint_ge(heard_by(a, c)->n_down, 1);
  b->node->seals = &seals_noise;
  w->filter = NULL;
  world_run(w, (uint64_t)2 * 60 * 1000);
  assert_met_over(a, c, b);
  fetch(300000, 10);
}
END_TEST

/* Frames that never were the peer's, as fast as one likes. */
START_TEST(a_relay_that_floods_is_sent_away_and_the_peer_is_not) {
  static const uint8_t frame[60000];
  begin_apart("");
  world_start(w);
  world_run(w, 5000);
  struct message m = {.type = MESSAGE_RELAY, .relay = {.way = RELAY_FROM, .frame = frame, .n_frame = 40000}};
  m.relay.key = *identity_public(a->identity);
  for (unsigned i = 0; i < 4000 && info_of(c, b).has_session; i++) {
    for (unsigned k = 0; k < 3; k++)
      send_message(b->node, &b->node->peers[peer_of(b, c)], &m);
    world_run(w, 1);
  }
  ck_assert(peer_is_banned(c->node, &c->node->peers[peer_of(c, b)]));
  assert_not_guilty(c, a);
}
END_TEST

int main(void) {
  return SUITE_RUN_AROUND(
      "relay", 60, NULL, end, a_pair_without_addresses_meets_over_a_third,
      addresses_where_nobody_answers_are_tried_first, without_a_relay_the_pair_is_missing,
      a_peer_that_is_down_is_asked_for_more_and_more_rarely, who_meets_directly_relays_nothing,
      the_direct_way_wins_as_soon_as_it_works, a_direct_way_that_breaks_is_replaced,
      what_two_relays_offer_one_of_them_does, one_hop_is_all, a_relayed_session_carries_none,
      strangers_are_neither_carried_nor_heard, whose_handshake_it_is_is_proven, an_older_third_is_not_asked,
      an_older_peer_is_not_reached, an_older_agent_ignores_what_it_does_not_know,
      a_large_payload_at_full_speed_is_no_crime, what_waits_is_bounded, what_is_held_too_long_is_lost,
      own_payloads_come_before_what_is_carried, a_false_address_does_not_keep_from_the_way_over_a_third,
      when_a_ban_ends_the_way_is_tried_again, who_comes_is_asked_at_once, who_wants_no_relay_has_none,
      what_came_over_a_third_is_not_carried_on_though_there_is_a_direct_way,
      handshakes_of_one_pair_do_not_use_up_those_of_another, who_repeats_a_handshake_disturbs_no_other_way,
      who_swallows_and_comes_again_does_not_take_every_turn, what_is_sent_to_a_peer_is_not_charged_to_it,
      a_relay_that_lies_harms_only_what_it_relays, a_relay_that_floods_is_sent_away_and_the_peer_is_not);
}
