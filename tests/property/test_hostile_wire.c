/* A hostile wire: damaged, replayed, shuffled, doubled and foreign frames, each refused and each counted under the reason
 * that PROTOCOL.md names. */
#include "base/rng.h"
#include "gossip/zmq_link.h"
#include "tests/property/hostile.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

/* ---- one bit is wrong ------------------------------------------------------------------------------------------------ */

enum { TYPE_AT = 4, COUNTER_AT = 16, BODY_AT = FRAME_HEAD_BYTES, BODY_BIT = 8 * BODY_AT };

static bool is_handshake(uint8_t type) {
  return type == MESSAGE_HANDSHAKE_1 || type == MESSAGE_HANDSHAKE_2;
}

/* The reason for a frame of a session in which one bit was turned; it had the lowest counter that is accepted. */
static enum err reason_of_frame(const uint8_t *turned, size_t bit) {
  size_t at = bit / 8;
  bool is_set_now = turned[at] >> bit % 8 & 1;
  if (at == TYPE_AT)
    return is_handshake(turned[TYPE_AT]) ? ERR_FRAME : ERR_SEAL;
  if (at < COUNTER_AT)
    return ERR_FRAME;
  return at < BODY_AT && !is_set_now ? ERR_REPLAY : ERR_SEAL;
}

static enum err reason_of_handshake_1(const uint8_t *turned, size_t bit) {
  (void)turned;
  return bit / 8 < BODY_AT ? ERR_FRAME : ERR_MAC;
}

static enum err reason_of_handshake_2(const uint8_t *turned, size_t bit) {
  (void)turned;
  return bit / 8 < BODY_AT ? ERR_FRAME : ERR_HANDSHAKE;
}

/* Turns one bit, lets the frame arrive, turns it back; the frame has to be refused for `reason`. */
static void turn_bit(struct agent *to, uint64_t conn, uint8_t *frame, size_t n, size_t bit,
                     enum err (*reason_of)(const uint8_t *, size_t)) {
  unsigned handled = n_handled(to);
  uint64_t all = counted_all(to);
  frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
  enum err reason = reason_of(frame, bit);
  uint64_t before = counted(to, reason);
  inject(to, conn, frame, n);
  frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
  ck_assert_msg(counted(to, reason) == before + 1, "bit %zu of a frame of type %u is not refused as %s", bit,
                frame[TYPE_AT], err_name(reason));
  ck_assert_uint_eq(counted_all(to), all + 1);
  ck_assert_uint_eq(n_handled(to), handled);
}

/* Every bit in turn, or in the small size every so many; how many were turned. */
static size_t turn_bits(struct agent *to, uint64_t conn, uint8_t *frame, size_t n,
                        enum err (*reason_of)(const uint8_t *, size_t), struct slot *forgive) {
  size_t n_turned = 0, step = sized(31, 1, 1);
  for (size_t bit = 0; bit < 8 * n; bit += bit < BODY_BIT ? 1 : step) {
    if (forgive)
      forgive->n_bad_seals = 0; /* the fourth would end the session */
    if (!conn_is_accepted(conn))
      to->node->peers[conn].n_strange = 0; /* the 513th would end the connection */
    turn_bit(to, conn, frame, n, bit, reason_of);
    n_turned++;
  }
  return n_turned;
}

static const char text[] =
    "model: dense 10\ntensor 1: dense1.weight [10,784] f32 shared\ntensor 2: dense1.bias [10] f32 shared\n";
static uint8_t chunk_data[4000];

/* One message of every type; BYE, which ends the session, is the last. */
static size_t every_message(const struct agent *from, struct message out[16]) {
  struct digest job = from->job.job, root = digest_filled(9);
  struct hello_entry entry = {.job = job, .schema = from->job.schema, .contract = from->job.contract};
  entry.words.has_proof = true;
  memcpy(entry.words.proof, from->published_bytes, MANIFEST_BYTES);
  struct message_schema schema = {job, text, text, sizeof text - 1, sizeof text - 1};
  struct message_chunk chunk = {.index = 3, .data = chunk_data, .n_data = sizeof chunk_data};
  struct message all[] = {
      {.type = MESSAGE_HELLO, .hello = {.n_jobs = 1, .jobs = {entry}}},
      {.type = MESSAGE_STATE, .state = {job, from->state}},
      {.type = MESSAGE_ASK, .ask = {job, MANIFEST_FULL, 0, 1}},
      {.type = MESSAGE_MANIFEST, .manifest = from->published_bytes},
      {.type = MESSAGE_NOT_YET, .not_yet = {job, MANIFEST_DIFFERENCE, 7}},
      {.type = MESSAGE_REFUSED, .refused = {.job = job, .is_get = true, .reason = ERR_GONE, .root = root}},
      {.type = MESSAGE_GET, .get = {job, root, 5 << 20, 3, 4}},
      {.type = MESSAGE_CHUNK, .chunk = chunk},
      {.type = MESSAGE_SCHEMA, .schema = schema},
      {.type = MESSAGE_DONE, .done = {job, 5, ERR_OK}},
      {.type = MESSAGE_BYE, .bye = ERR_STOPPED},
  };
  memcpy(out, all, sizeof all);
  return sizeof all / sizeof *all;
}

/* Damages every message from one to the other; each one whole is accepted afterwards. */
static size_t damage_every_message(struct agent *from, struct agent *to) {
  static uint8_t frame[MAX_FRAME_BYTES];
  static struct message messages[16];
  struct slot *live = live_of(to, from);
  size_t n_turned = 0, n_messages = every_message(from, messages);
  for (size_t i = 0; i < n_messages; i++) {
    size_t n = message_seal(from, to, &messages[i], frame);
    const struct session *session = live->session;
    uint64_t next = session->next_receive;
    n_turned += turn_bits(to, live->conn, frame, n, reason_of_frame, live);
    ck_assert_ptr_eq(live->session, session);
    ck_assert_uint_eq(session->next_receive, next);
    inject(to, live->conn, frame, n);
    if (messages[i].type == MESSAGE_BYE)
      ck_assert_ptr_null(live_of(to, from));
    else
      ck_assert_uint_eq(session->next_receive, next + 1);
  }
  return n_turned;
}

START_TEST(a_message_with_one_wrong_bit_is_refused) {
  size_t n_turned = 0;
  for (size_t i = 0; i < 2; i++) {
    struct world *w = met_new();
    agent_publish(&w->agents[i], 100, 1);
    n_turned += damage_every_message(&w->agents[i], &w->agents[1 - i]);
    world_free(w);
  }
  ck_assert_uint_ge(n_turned, sized(4000, 90000, 90000));
}
END_TEST

START_TEST(a_whole_chunk_with_one_wrong_bit_is_refused) {
  static uint8_t frame[MAX_FRAME_BYTES], data[CHUNK_BYTES];
  struct world *w = met_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct message m = {.type = MESSAGE_CHUNK, .chunk = {.data = data, .n_data = CHUNK_BYTES}};
  struct slot *live = live_of(b, a);
  struct rng rng;
  size_t n = message_seal(a, b, &m, frame);
  rng_init(&rng, 3);
  for (size_t i = 0; i < sized(100, 10000, 100000); i++) {
    live->n_bad_seals = 0;
    turn_bit(b, live->conn, frame, n, rng_below(&rng, 8 * n), reason_of_frame);
  }
  world_free(w);
}
END_TEST

START_TEST(a_first_handshake_with_one_wrong_bit_is_refused) {
  struct catch first = {.type = MESSAGE_HANDSHAKE_1, .loses = true};
  struct world *w = strangers_new(&first);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  world_run(w, 10);
  ck_assert_uint_eq(first.n, HANDSHAKE_1_BYTES);
  turn_bits(b, CONN_ACCEPTED, first.frame, first.n, reason_of_handshake_1, NULL);
  ck_assert_uint_eq(gossip_sent_bytes(b->node), 0);
  inject(b, CONN_ACCEPTED, first.frame, first.n);
  ck_assert_uint_eq(gossip_sent_bytes(b->node), HANDSHAKE_2_BYTES);
  first.loses = false;
  world_run(w, 100);
  ck_assert(info_of(a, b).has_session);
  world_free(w);
}
END_TEST

/* Somebody who knows our public key makes a good mac1 for what was damaged. */
START_TEST(a_first_handshake_with_a_new_mac_is_refused) {
  struct catch first = {.type = MESSAGE_HANDSHAKE_1, .loses = true};
  struct world *w = strangers_new(&first);
  struct agent *b = &w->agents[1];
  size_t mac_at = HANDSHAKE_1_BYTES - MAC1_BYTES;
  world_run(w, 10);
  for (size_t bit = BODY_BIT; bit < 8 * mac_at; bit += sized(37, 1, 1)) {
    uint8_t frame[HANDSHAKE_1_BYTES];
    memcpy(frame, first.frame, sizeof frame);
    frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
    mac1_compute(identity_x25519(b->identity)->public_key, frame, mac_at, frame + mac_at);
    w->now_ms += 50; /* as many as an address may begin */
    uint64_t before = counted(b, ERR_HANDSHAKE), all = counted_all(b);
    inject(b, CONN_ACCEPTED, frame, sizeof frame);
    ck_assert_uint_eq(counted(b, ERR_HANDSHAKE), before + 1);
    ck_assert_uint_eq(counted_all(b), all + 1);
  }
  ck_assert_uint_eq(gossip_sent_bytes(b->node), 0);
  world_free(w);
}
END_TEST

START_TEST(a_second_handshake_with_one_wrong_bit_is_refused) {
  struct catch second = {.type = MESSAGE_HANDSHAKE_2, .loses = true};
  struct world *w = strangers_new(&second);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  world_run(w, 20);
  ck_assert_uint_eq(second.n, HANDSHAKE_2_BYTES);
  turn_bits(a, 0, second.frame, second.n, reason_of_handshake_2, NULL);
  ck_assert_uint_eq(n_handled(a), 0);
  ck_assert_ptr_null(live_of(a, b));
  inject(a, 0, second.frame, second.n);
  ck_assert_ptr_nonnull(live_of(a, b));
  world_run(w, 100);
  ck_assert(info_of(a, b).has_session && info_of(b, a).has_session);
  inject(a, 0, second.frame, second.n); /* and once only */
  ck_assert_uint_eq(counted(a, ERR_FRAME), BODY_BIT + 1);
  world_free(w);
}
END_TEST

/* ---- again and in another order ------------------------------------------------------------------------------------- */

enum { BATCH = 64, SPAN = 2 * BATCH, BURST = 4 * BATCH, DONE_BYTES = FRAME_HEAD_BYTES + 41 + FRAME_TAG_BYTES };

/* What has been sealed: DONE with the frame's number for a sequence. */
struct pool {
  uint8_t (*frames)[DONE_BYTES];
  size_t n;
};

static unsigned *n_seen; /* by sequence */

static void see_sequence(void *context, size_t peer, size_t job, uint64_t sequence, enum err outcome) {
  (void)peer;
  (void)job;
  (void)outcome;
  struct agent *a = context;
  a->heard[0].n_done++;
  n_seen[sequence]++;
}

static void pool_add(struct pool *pool, struct agent *from, const struct agent *to) {
  static uint8_t frame[MAX_FRAME_BYTES];
  ck_assert_uint_eq(done_seal(from, to, pool->n, frame), DONE_BYTES);
  memcpy(pool->frames[pool->n++], frame, DONE_BYTES);
}

START_TEST(a_frame_is_accepted_once_at_most) {
  struct world *w = met_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  size_t n_frames = sized(4000, 1000000, 4000000), n_sent = 0, n_fresh = n_frames / 4;
  struct pool pool = {.frames = malloc((n_fresh + BATCH) * DONE_BYTES)};
  n_seen = calloc(n_fresh + BATCH, sizeof *n_seen);
  uint64_t foreign = conn_foreign(w, b), conn = live_of(b, a)->conn;
  const struct session *session = live_of(b, a)->session;
  struct rng rng;
  uint64_t before = counted_all(b);
  rng_init(&rng, 8);
  struct gossip_events events = *b->node->events;
  events.on_done = see_sequence;
  b->node->events = &events;
  while (n_sent < n_frames) {
    if (pool.n < n_fresh)
      for (size_t i = 0; i < BATCH; i++)
        pool_add(&pool, a, b);
    for (size_t i = 0; i < BURST; i++) { /* the newest in any order, mostly twice, and old ones */
      size_t span = i % 4 == 3 ? pool.n : SPAN < pool.n ? SPAN : pool.n;
      size_t k = pool.n - 1 - rng_below(&rng, span);
      bool is_foreign = i % 16 == 0;
      inject(b, is_foreign ? foreign : conn, pool.frames[k], DONE_BYTES);
      n_sent++;
    }
  }
  size_t n_accepted = 0;
  for (size_t i = 0; i < pool.n; i++) {
    ck_assert_uint_le(n_seen[i], 1);
    n_accepted += n_seen[i];
  }
  ck_assert_uint_gt(n_accepted, pool.n / 16);
  ck_assert_uint_eq(b->heard[0].n_done, n_accepted);
  ck_assert_uint_eq(counted_all(b) - before, n_sent - n_accepted);
  ck_assert_uint_eq(counted(b, ERR_FRAME), n_sent / 16);
  ck_assert_uint_eq(counted(b, ERR_REPLAY), n_sent - n_sent / 16 - n_accepted);
  ck_assert_ptr_eq(live_of(b, a)->session, session);
  world_run(w, 5000);
  ck_assert(info_of(a, b).has_session && info_of(b, a).has_session);
  ck_assert_uint_eq(heard_by(b, a)->n_down + heard_by(a, b)->n_down, 0);
  free(pool.frames);
  free(n_seen);
  world_free(w);
}
END_TEST

START_TEST(a_frame_sent_back_is_refused) {
  struct world *w = met_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  uint8_t frame[MAX_FRAME_BYTES];
  size_t n = done_seal(a, b, 1, frame);
  for (int i = 0; i < 100; i++)
    inject(a, 0, frame, n);
  ck_assert_uint_eq(counted(a, ERR_FRAME), 100);
  ck_assert_uint_eq(counted_all(a), 100);
  ck_assert_uint_eq(heard_by(a, b)->n_done, 0);
  world_free(w);
}
END_TEST

/* Each is answered or one too many, and all are counted in the end: an answered one as a handshake that nobody proved. */
START_TEST(a_first_handshake_again_never_replaces_a_session) {
  struct catch first = {.type = MESSAGE_HANDSHAKE_1};
  struct world *w = strangers_new(&first);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  world_run(w, 100);
  const struct session *live = live_of(b, a)->session;
  ck_assert_ptr_nonnull(live);
  uint64_t conns[] = {conn_foreign(w, b), conn_foreign(w, b), live_of(b, a)->conn};
  struct catch again = first;
  uint64_t before = counted_all(b);
  size_t n = sized(60, 5000, 20000);
  for (size_t i = 0; i < n; i++) {
    inject(b, conns[i % 3], again.frame, again.n);
    if (i % 3 == 0)
      world_run(w, 20);
    if (w->now_ms - live->created_ms < SESSION_REKEY_MS)
      ck_assert_ptr_eq(live_of(b, a)->session, live);
    else
      live = live_of(b, a)->session; /* renewed by its initiator in time */
  }
  world_run(w, PENDING_KEEP_MS);
  world_run(w, PENDING_KEEP_MS);
  ck_assert_uint_eq(counted(b, ERR_HANDSHAKE) + counted(b, ERR_BACKLOG), n);
  ck_assert_uint_eq(counted_all(b) - before, n);
  ck_assert_uint_gt(counted(b, ERR_HANDSHAKE), n / 8);
  ck_assert_uint_eq(heard_by(b, a)->n_down + heard_by(a, b)->n_down, 0);
  ck_assert_uint_eq(heard_by(b, a)->n_up, 1);
  ck_assert_uint_eq(heard_by(b, a)->n_hello, 1);
  world_free(w);
}
END_TEST

/* ---- who is not known ------------------------------------------------------------------------------------------------ */

/* A good handshake by somebody whose key is not in the config, and frames of every type without a session. */
static void knock(struct agent *b, uint64_t conn, const struct identity *mallet) {
  uint8_t frame[MAX_FRAME_BYTES] = {0};
  struct noise *noise;
  struct offer offer = {.version_min = 1, .version_max = 1, .session_index = 77, .boot_epoch = 1};
  memcpy(offer.swarm, b->config.swarm, sizeof offer.swarm);
  enum err e =
      handshake_1_write(identity_x25519(mallet), identity_x25519(b->identity)->public_key, &offer, &noise, frame);
  ck_assert_int_eq(e, ERR_OK);
  noise_free(noise);
  inject(b, conn, frame, HANDSHAKE_1_BYTES);
  for (unsigned type = 0; type < 256; type++) {
    struct frame_head head = {.type = (uint8_t)type, .n_plain = 100, .session_index = type};
    frame_head_write(&head, frame);
    inject(b, conn, frame, frame_bytes(100));
  }
}

START_TEST(an_unknown_key_gets_no_byte_and_reaches_no_handler) {
  struct world *w = world_new(2, false);
  struct agent *b = &w->agents[1];
  struct identity *mallet = identity_numbered(99);
  only_called_by(b, &w->agents[0]);
  agent_start(b);
  uint64_t conn = conn_foreign(w, b);
  size_t n = sized(10, 300, 3000);
  for (size_t i = 0; i < n; i++) {
    knock(b, conn, mallet);
    world_run(w, 100);
  }
  ck_assert_uint_eq(gossip_sent_bytes(b->node), 0);
  ck_assert_uint_eq(n_handled(b), 0);
  ck_assert_uint_eq(counted(b, ERR_UNKNOWN_KEY), n);
  ck_assert_uint_eq(counted_all(b), 257 * n);
  identity_free(mallet);
  world_free(w);
}
END_TEST

static void send_raw(struct agent *a, uint64_t conn, const uint8_t *bytes, size_t n) {
  uint8_t *frame;
  const struct link *link = &a->node->link;
  if (link->calls->frame_new(link->context, conn, n, &frame) != ERR_OK)
    return;
  memcpy(frame, bytes, n);
  (void)link->calls->frame_send(link->context, conn);
}

/* The same over ZeroMQ: `a` has a key that `b` does not know, and shouts. */
START_TEST(over_sockets_an_unknown_key_gets_no_byte) {
  struct world *w = world_new(2, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct identity *other = identity_numbered(77);
  only_called_by(b, a);
  b->peers[0].key = *identity_public(other);
  world_start(w);
  WORLD_UNTIL(w, a->node->peers[0].is_connected, 4000);
  for (unsigned type = 0; type < 256; type++) {
    uint8_t frame[FRAME_HEAD_BYTES + 100 + FRAME_TAG_BYTES] = {0};
    struct frame_head head = {.type = (uint8_t)type, .n_plain = 100, .session_index = type};
    frame_head_write(&head, frame);
    uint64_t before = gossip_received_bytes(b->node);
    send_raw(a, 0, frame, sizeof frame);
    WORLD_UNTIL(w, gossip_received_bytes(b->node) > before, 4000);
  }
  WORLD_UNTIL(w, counted(b, ERR_UNKNOWN_KEY) >= 1, 4000);
  ck_assert_uint_ge(counted(b, ERR_FRAME), 254);
  ck_assert_uint_eq(gossip_sent_bytes(b->node), 0);
  ck_assert_uint_eq(gossip_received_bytes(a->node), 0);
  ck_assert_uint_eq(n_handled(b) + n_handled(a), 0);
  identity_free(other);
  world_free(w);
}
END_TEST

/* With the gate's reply socket closed the dialler never gets as far as a handshake; the control run, with it open, does. */
START_TEST(nobody_enters_past_a_closed_gate) {
  bool is_shut = _i == 1;
  struct world *w = world_new(2, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  only_called_by(b, a);
  agent_start(b);
  if (is_shut)
    zmq_link_shut_gate(b->node->link.context);
  agent_start(a);
  if (is_shut)
    WORLD_UNTIL(w, info_of(a, b).reason == ERR_NO_ANSWER || info_of(a, b).reason == ERR_UNREACHABLE, 8000);
  else
    WORLD_UNTIL(w, heard_by(b, a)->n_up == 1, 8000);
  ck_assert_uint_eq(gossip_received_bytes(b->node) == 0, is_shut);
  ck_assert_uint_eq(n_handled(b) == 0, is_shut);
  world_free(w);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("hostile_wire");
  tcase_set_timeout(tcase, SUITE_LIMIT_S);
  tcase_add_test(tcase, a_message_with_one_wrong_bit_is_refused);
  tcase_add_test(tcase, a_whole_chunk_with_one_wrong_bit_is_refused);
  tcase_add_test(tcase, a_first_handshake_with_one_wrong_bit_is_refused);
  tcase_add_test(tcase, a_first_handshake_with_a_new_mac_is_refused);
  tcase_add_test(tcase, a_second_handshake_with_one_wrong_bit_is_refused);
  tcase_add_test(tcase, a_frame_is_accepted_once_at_most);
  tcase_add_test(tcase, a_frame_sent_back_is_refused);
  tcase_add_test(tcase, a_first_handshake_again_never_replaces_a_session);
  tcase_add_test(tcase, an_unknown_key_gets_no_byte_and_reaches_no_handler);
  tcase_add_test(tcase, over_sockets_an_unknown_key_gets_no_byte);
  tcase_add_loop_test(tcase, nobody_enters_past_a_closed_gate, 0, 2);
  return suite_run_case("hostile_wire", tcase);
}
