#include "tests/unit/gossip/world.h"

enum { SOME_BYTES = 20 * CHUNK_BYTES + 12345, N_CHUNKS = 21 };

/* `a` dials `b`, they have met, and `b` has published. */
static struct world *pair_new(size_t n_bytes) {
  struct world *w = world_new(2, false);
  only_called_by(&w->agents[1], &w->agents[0]);
  agent_publish(&w->agents[1], n_bytes, 4);
  w->agents[0].fetches = true;
  world_start(w);
  world_run(w, 100);
  ck_assert(info_of(&w->agents[0], &w->agents[1]).has_session);
  return w;
}

static void assert_arrived(struct agent *a, struct agent *b) {
  struct heard *h = heard_by(a, b);
  ck_assert_uint_eq(h->n_payload, 1);
  ck_assert_uint_eq(h->n_failed, 0);
  ck_assert_mem_eq(h->payload, b->payload, b->published.n_payload);
  ck_assert_uint_eq(a->node->budget.used, 0);
}

static uint64_t dropped(struct agent *a, struct agent *b, enum err reason) {
  return info_of(a, b).drops[err_drop_index(reason)];
}

START_TEST(what_is_asked_for_is_offered_and_fetched) {
  struct world *w = pair_new(SOME_BYTES);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  gossip_ask(a->node, 0, 0, MANIFEST_DIFFERENCE, 4, 8);
  world_run(w, 1000);
  ck_assert_uint_eq(heard_by(a, b)->n_manifest, 1);
  ck_assert_uint_eq(heard_by(a, b)->manifest.sequence, 4);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_CHUNK], N_CHUNKS);
  assert_arrived(a, b);
  gossip_done(a->node, 0, 0, 4, ERR_LATE);
  world_run(w, 10);
  ck_assert_uint_eq(heard_by(b, a)->done_sequence, 4);
  ck_assert_int_eq(heard_by(b, a)->outcome, ERR_LATE);
  world_free(w);
}
END_TEST

START_TEST(a_payload_shorter_than_a_chunk_arrives) {
  struct world *w = pair_new(1);
  gossip_ask(w->agents[0].node, 0, 0, MANIFEST_FULL, 0, 1);
  world_run(w, 1000);
  assert_arrived(&w->agents[0], &w->agents[1]);
  world_free(w);
}
END_TEST

/* Of chunks (or GETs) every third is lost and every third comes twice. */
static unsigned lossy(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame, size_t n) {
  static const unsigned times[] = {1, 0, 2};
  (void)from, (void)to, (void)n;
  if (frame_type(frame) != MESSAGE_CHUNK && frame_type(frame) != MESSAGE_GET)
    return 1;
  return times[w->n_by_type[frame_type(frame)] % 3];
}

START_TEST(lost_and_doubled_chunks_do_no_harm) {
  struct world *w = pair_new(SOME_BYTES);
  w->filter = lossy;
  gossip_ask(w->agents[0].node, 0, 0, MANIFEST_FULL, 0, 1);
  world_run(w, 120000);
  assert_arrived(&w->agents[0], &w->agents[1]);
  ck_assert_uint_gt(dropped(&w->agents[0], &w->agents[1], ERR_REPLAY), 0);
  world_free(w);
}
END_TEST

START_TEST(nothing_published_is_not_yet) {
  struct world *w = pair_new(100);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  b->find = ERR_NOT_YET;
  gossip_ask(a->node, 0, 0, MANIFEST_DIFFERENCE, 17, 2);
  world_run(w, 100);
  ck_assert_uint_eq(heard_by(a, b)->n_answer, 1);
  ck_assert_int_eq(heard_by(a, b)->answer, ERR_NOT_YET);
  ck_assert_uint_eq(heard_by(a, b)->answer_first, 17);
  world_free(w);
}
END_TEST

START_TEST(what_is_no_longer_kept_is_gone) {
  struct world *w = pair_new(100);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  b->find = ERR_GONE;
  gossip_ask(a->node, 0, 0, MANIFEST_DIFFERENCE, 3, 1);
  world_run(w, 100);
  ck_assert_int_eq(heard_by(a, b)->answer, ERR_GONE);
  ck_assert_uint_eq(heard_by(a, b)->answer_first, 3);
  world_free(w);
}
END_TEST

START_TEST(a_payload_that_went_away_fails_its_fetch) {
  struct world *w = pair_new(SOME_BYTES);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  b->read = ERR_GONE;
  gossip_ask(a->node, 0, 0, MANIFEST_FULL, 0, 1);
  world_run(w, 100);
  ck_assert_uint_eq(heard_by(a, b)->n_failed, 1);
  ck_assert_int_eq(heard_by(a, b)->failed, ERR_GONE);
  ck_assert_uint_eq(a->node->budget.used, 0);
  world_free(w);
}
END_TEST

START_TEST(a_fetch_needs_session_length_and_memory) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  agent_publish(b, 1000, 1);
  a->config.payload_bound = 5000;
  a->config.payload_max_bytes = 2500;
  world_start(w);
  ck_assert_int_eq(gossip_fetch(a->node, 0, 0, &b->published), ERR_NO_SESSION);
  world_run(w, 100);
  struct manifest m = b->published;
  m.n_payload = 5001;
  ck_assert_int_eq(gossip_fetch(a->node, 0, 0, &m), ERR_LENGTH);
  m.n_payload = 2501;
  ck_assert_int_eq(gossip_fetch(a->node, 0, 0, &m), ERR_BUDGET);
  ck_assert_int_eq(gossip_fetch(a->node, 0, 0, &b->published), ERR_OK);
  ck_assert_int_eq(gossip_fetch(a->node, 0, 0, &b->published), ERR_BUSY);
  ck_assert_uint_eq(a->node->budget.used, 1000);
  gossip_fetch_cancel(a->node, 0, 0);
  ck_assert_uint_eq(a->node->budget.used, 0);
  world_run(w, 1000);
  ck_assert_uint_eq(heard_by(a, b)->n_payload + heard_by(a, b)->n_failed, 0);
  world_free(w);
}
END_TEST

static unsigned five_chunks(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame, size_t n) {
  (void)from, (void)to, (void)n;
  return frame_type(frame) != MESSAGE_CHUNK || w->n_by_type[MESSAGE_CHUNK] <= 5;
}

START_TEST(a_slow_fetch_pauses_and_goes_on_where_it_stood) {
  struct world *w = pair_new(SOME_BYTES);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  w->filter = five_chunks;
  gossip_ask(a->node, 0, 0, MANIFEST_FULL, 0, 1);
  world_run(w, 25000); /* the first ten seconds had five chunks: enough */
  ck_assert_uint_eq(heard_by(a, b)->n_failed, 1);
  ck_assert_int_eq(heard_by(a, b)->failed, ERR_TIMED_OUT);
  w->filter = NULL;
  world_run(w, 1000); /* what is still on its way */
  memset(w->n_by_type, 0, sizeof w->n_by_type);
  ck_assert_int_eq(gossip_fetch(a->node, 0, 0, &b->published), ERR_OK);
  world_run(w, 1000);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_CHUNK], N_CHUNKS - 5);
  ck_assert_uint_eq(heard_by(a, b)->n_payload, 1);
  ck_assert_mem_eq(heard_by(a, b)->payload, b->payload, SOME_BYTES);
  world_free(w);
}
END_TEST

START_TEST(a_lost_connection_fails_the_fetch_and_keeps_its_bytes) {
  struct world *w = pair_new(SOME_BYTES);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  w->filter = five_chunks;
  gossip_ask(a->node, 0, 0, MANIFEST_FULL, 0, 1);
  world_run(w, 1000);
  wire_close(w, &w->wires[0], NULL);
  world_run(w, 20);
  ck_assert_int_eq(heard_by(a, b)->failed, ERR_NO_SESSION);
  w->filter = NULL;
  world_run(w, 1000);
  memset(w->n_by_type, 0, sizeof w->n_by_type);
  ck_assert_int_eq(gossip_fetch(a->node, 0, 0, &b->published), ERR_OK);
  world_run(w, 1000);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_CHUNK], N_CHUNKS - 5);
  ck_assert_mem_eq(heard_by(a, b)->payload, b->payload, SOME_BYTES);
  world_free(w);
}
END_TEST

START_TEST(parked_bytes_give_way_when_memory_is_wanted) {
  struct world *w = pair_new(SOME_BYTES);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  a->node->budget.limit = SOME_BYTES;
  w->filter = five_chunks;
  gossip_ask(a->node, 0, 0, MANIFEST_FULL, 0, 1);
  world_run(w, 25000);
  ck_assert_uint_eq(a->node->budget.used, SOME_BYTES);
  w->filter = NULL;
  agent_publish(b, 1000, 5);
  ck_assert_int_eq(gossip_fetch(a->node, 0, 0, &b->published), ERR_OK);
  world_run(w, 1000);
  ck_assert_uint_eq(heard_by(a, b)->n_payload, 1);
  ck_assert_uint_eq(a->node->budget.used, 0);
  world_free(w);
}
END_TEST

START_TEST(a_full_connection_is_tried_again) {
  struct world *w = pair_new(SOME_BYTES);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  w->full_after = 2;
  gossip_ask(a->node, 0, 0, MANIFEST_FULL, 0, 1);
  world_run(w, 5000);
  assert_arrived(a, b);
  world_free(w);
}
END_TEST

/* What `b` sends waits for the chunks before it: 25 KiB/s. */
static unsigned through_a_slow_link(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame,
                                    size_t n) {
  uint64_t *free_ms = w->filter_context;
  (void)to;
  if (*free_ms < w->now_ms)
    *free_ms = w->now_ms;
  if (frame_type(frame) == MESSAGE_CHUNK)
    *free_ms += n / 25;
  w->latency_ms = from == &w->agents[1] ? *free_ms - w->now_ms : 0;
  return 1;
}

START_TEST(a_slow_link_carries_each_chunk_once) {
  struct world *w = pair_new(SOME_BYTES);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  uint64_t free_ms = 0;
  w->filter = through_a_slow_link, w->filter_context = &free_ms;
  gossip_ask(a->node, 0, 0, MANIFEST_FULL, 0, 1);
  world_run(w, 30000);
  ck_assert_uint_eq(heard_by(a, b)->n_payload, 0);
  ck_assert_uint_le(free_ms, w->now_ms + 3000); /* no more waits in the queue than a chunk */
  world_run(w, 40000);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_CHUNK], N_CHUNKS);
  assert_arrived(a, b);
  world_free(w);
}
END_TEST

START_TEST(control_does_not_wait_behind_chunks) {
  struct world *w = pair_new(20 << 20);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  w->full_after = 8; /* as the sockets' high-water mark */
  w->latency_ms = 50;
  gossip_ask(a->node, 0, 0, MANIFEST_FULL, 0, 1);
  world_run(w, 1000);
  ck_assert_uint_gt(w->n_by_type[MESSAGE_CHUNK], 20);
  ck_assert_uint_eq(heard_by(a, b)->n_payload, 0);
  b->state.round = 1234;
  gossip_state_changed(b->node, 0);
  world_run(w, 150);
  ck_assert_uint_eq(heard_by(a, b)->state.round, 1234);
  ck_assert_uint_eq(heard_by(a, b)->n_payload, 0);
  world_free(w);
}
END_TEST

START_TEST(a_backlog_is_bounded_and_counted) {
  struct world *w = pair_new(100);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  for (int i = 0; i < 10000; i++)
    gossip_ask(a->node, 0, 0, MANIFEST_DIFFERENCE, 1, 8);
  ck_assert_uint_gt(dropped(a, b, ERR_BACKLOG), 0);
  ck_assert_uint_le(a->node->peers[0].outbox.n_bytes, MAX_OUTBOX_BYTES);
  world_run(w, 100);
  ck_assert(info_of(a, b).has_session);
  world_free(w);
}
END_TEST

/* ---- manifests that are refused ---- */

static void resign(struct agent *b) {
  manifest_sign(&b->published, b->identity);
}

static void spoil_swarm(struct agent *a, struct agent *b) {
  (void)a;
  b->published.swarm.bytes[0] ^= 1;
  resign(b);
}

static void spoil_job(struct agent *a, struct agent *b) {
  (void)a;
  b->published.job.bytes[0] ^= 1;
  resign(b);
}

static void spoil_schema(struct agent *a, struct agent *b) {
  (void)a;
  b->published.schema.bytes[0] ^= 1;
  resign(b);
}

static void spoil_contract(struct agent *a, struct agent *b) {
  (void)a;
  b->published.contract.bytes[0] ^= 1;
  resign(b);
}

static void spoil_origin(struct agent *a, struct agent *b) {
  manifest_sign(&b->published, a->identity);
}

static void spoil_signature(struct agent *a, struct agent *b) {
  (void)a;
  b->published.signature.bytes[5] ^= 1;
}

static void spoil_samples(struct agent *a, struct agent *b) {
  (void)a;
  b->published.samples++; /* not what was signed */
}

static void spoil_length(struct agent *a, struct agent *b) {
  b->published.n_payload = a->config.payload_bound + 1;
  resign(b);
}

static const struct {
  void (*spoil)(struct agent *a, struct agent *b);
  enum err reason;
} spoiled[] = {
    {spoil_swarm, ERR_SWARM},       {spoil_job, ERR_JOB},       {spoil_schema, ERR_SCHEMA},
    {spoil_contract, ERR_CONTRACT}, {spoil_origin, ERR_ORIGIN}, {spoil_signature, ERR_SIGNATURE},
    {spoil_samples, ERR_SIGNATURE}, {spoil_length, ERR_LENGTH},
};

START_TEST(a_manifest_that_does_not_fit_is_refused_with_its_reason) {
  for (size_t i = 0; i < sizeof spoiled / sizeof *spoiled; i++) {
    struct world *w = pair_new(100);
    struct agent *a = &w->agents[0], *b = &w->agents[1];
    spoiled[i].spoil(a, b);
    manifest_write(&b->published, b->published_bytes);
    gossip_offer(b->node, 0, 0, b->published_bytes);
    world_run(w, 100);
    ck_assert_uint_eq(heard_by(a, b)->n_manifest, 0);
    ck_assert_uint_eq(dropped(a, b, spoiled[i].reason), 1);
    world_free(w);
  }
}
END_TEST

/* ---- a peer that does not keep the rules ---- */

static void send_raw(struct agent *from, uint8_t type, const void *bytes, size_t n) {
  ck_assert_int_eq(outbox_put(&from->node->peers[0].outbox, type, bytes, n), ERR_OK);
  peer_stir(from->node, &from->node->peers[0]);
  world_run(from->world, 20);
}

START_TEST(malformed_messages_are_counted_and_survived) {
  struct world *w = pair_new(100);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  send_raw(b, MESSAGE_STATE, "", 0);
  ck_assert_uint_eq(dropped(a, b, ERR_MESSAGE), 1);
  send_raw(b, 99, "?", 1);
  ck_assert_uint_eq(dropped(a, b, ERR_FRAME), 1);
  send_raw(b, MESSAGE_HELLO, "\1", 1); /* a job without its words */
  ck_assert_uint_eq(dropped(a, b, ERR_MESSAGE), 2);
  uint8_t chunk[CHUNK_HEAD_BYTES + DIGEST_BYTES + 1] = {[ROOT_PREFIX_BYTES + 4] = 1}; /* with a sibling */
  send_raw(b, MESSAGE_CHUNK, chunk, sizeof chunk);
  ck_assert_uint_eq(dropped(a, b, ERR_MESSAGE), 3);
  ck_assert(info_of(a, b).has_session);
  world_free(w);
}
END_TEST

START_TEST(a_chunk_of_the_wrong_length_is_not_taken) {
  struct world *w = pair_new((size_t)3 * CHUNK_BYTES);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  w->filter = five_chunks;
  w->n_by_type[MESSAGE_CHUNK] = 5;
  gossip_ask(a->node, 0, 0, MANIFEST_FULL, 0, 1);
  world_run(w, 50);
  w->filter = NULL;
  uint8_t chunk[CHUNK_HEAD_BYTES + 10] = {0};
  memcpy(chunk, b->published.payload_root.bytes, ROOT_PREFIX_BYTES);
  send_raw(b, MESSAGE_CHUNK, chunk, sizeof chunk);
  ck_assert_uint_eq(dropped(a, b, ERR_MESSAGE), 1);
  chunk[ROOT_PREFIX_BYTES] = 3; /* index */
  send_raw(b, MESSAGE_CHUNK, chunk, sizeof chunk);
  ck_assert_uint_eq(dropped(a, b, ERR_MESSAGE), 2);
  world_free(w);
}
END_TEST

START_TEST(asking_for_too_many_ranges_is_a_backlog) {
  struct world *w = pair_new(100);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  w->full_after = 1;
  struct message m = {.type = MESSAGE_GET,
                      .get = {.job = a->job.job, .n_payload = (uint64_t)200 * CHUNK_BYTES, .count = 1}};
  for (uint32_t i = 0; i < MAX_SERVES + 3; i++) {
    struct peer *p = &b->node->peers[0];
    m.get.first = 2 * i;
    uint8_t bytes[128];
    struct writer out;
    writer_init(&out, bytes, sizeof bytes);
    message_write(&m, &out);
    receive_message(b->node, p, MESSAGE_GET, bytes, out.n_bytes);
  }
  ck_assert_uint_eq(dropped(b, a, ERR_BACKLOG), 3);
  world_free(w);
}
END_TEST

START_TEST(a_peer_of_another_job_gets_nothing) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  agent_publish(b, 1000, 1);
  memset(&b->job.contract, 9, sizeof b->job.contract);
  world_start(w);
  world_run(w, 100);
  ck_assert_int_eq(gossip_fetch(a->node, 0, 0, &b->published), ERR_NO_SESSION);
  uint8_t bytes[64];
  struct writer out;
  struct message m = {.type = MESSAGE_ASK, .ask = {.job = a->job.job, .kind = MANIFEST_FULL, .n = 1}};
  writer_init(&out, bytes, sizeof bytes);
  message_write(&m, &out);
  send_raw(a, MESSAGE_ASK, bytes, out.n_bytes);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_MANIFEST], 0);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_REFUSED], 1);
  world_free(w);
}
END_TEST

int main(void) {
  return SUITE_RUN("transfer", what_is_asked_for_is_offered_and_fetched, a_payload_shorter_than_a_chunk_arrives,
                   lost_and_doubled_chunks_do_no_harm, nothing_published_is_not_yet, what_is_no_longer_kept_is_gone,
                   a_payload_that_went_away_fails_its_fetch, a_fetch_needs_session_length_and_memory,
                   a_slow_fetch_pauses_and_goes_on_where_it_stood,
                   a_lost_connection_fails_the_fetch_and_keeps_its_bytes, parked_bytes_give_way_when_memory_is_wanted,
                   a_full_connection_is_tried_again, a_slow_link_carries_each_chunk_once,
                   control_does_not_wait_behind_chunks, a_backlog_is_bounded_and_counted,
                   a_manifest_that_does_not_fit_is_refused_with_its_reason, malformed_messages_are_counted_and_survived,
                   a_chunk_of_the_wrong_length_is_not_taken, asking_for_too_many_ranges_is_a_backlog,
                   a_peer_of_another_job_gets_nothing);
}
