/* The wire: an agent with two peers and a live session with each is fed records (kind u8, length u16, bytes): frames of a stranger,
 * frames on the session's connection, and messages as if they had opened. Messages that are read are canonical. */
#include "gossip/node.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static uint64_t now_ms = 1000;
static uint8_t frame_out[MAX_FRAME_BYTES];

static uint64_t clock_now(void *context) {
  (void)context;
  return now_ms;
}

/* ---- a link that leads nowhere ---- */

static enum err frame_new(void *context, uint64_t conn, size_t n, uint8_t **out_frame) {
  (void)context, (void)conn;
  MUST(n <= sizeof frame_out);
  *out_frame = frame_out;
  return ERR_OK;
}

static enum err frame_send(void *context, uint64_t conn) {
  (void)context, (void)conn;
  return ERR_OK;
}

static void frame_drop(void *context) {
  (void)context;
}

static void dial(void *context, size_t peer, const char *address) {
  (void)context, (void)peer, (void)address;
}

static void hang_up(void *context, size_t peer) {
  (void)context, (void)peer;
}

static void kick(void *context, uint64_t conn) {
  (void)context, (void)conn;
}

static void set_session(void *context, uint64_t conn, bool has_session) {
  (void)context, (void)conn, (void)has_session;
}

static void wait_link(void *context, struct link_fd *extra, size_t n_extra, int64_t timeout_ms) {
  (void)context, (void)extra, (void)n_extra, (void)timeout_ms;
}

static void close_link(void *context) {
  (void)context;
}

static const struct link_calls nowhere = {.frame_new = frame_new,
                                          .frame_send = frame_send,
                                          .frame_drop = frame_drop,
                                          .dial = dial,
                                          .hang_up = hang_up,
                                          .kick = kick,
                                          .set_session = set_session,
                                          .wait = wait_link,
                                          .close = close_link};

/* ---- an agent that takes everything ---- */

static void on_session(void *context, size_t peer, bool is_up, enum err reason) {
  (void)context, (void)peer, (void)is_up, (void)reason;
}

static void on_hello(void *context, size_t peer, size_t job, const struct hello_job *hello) {
  (void)context, (void)peer, (void)job, (void)hello;
}

static void on_refused_job(void *context, size_t peer, size_t job, enum err reason) {
  (void)context, (void)peer, (void)job, (void)reason;
}

static void on_state(void *context, size_t peer, size_t job, const struct wire_state *state) {
  (void)context, (void)peer, (void)job;
  MUST(state->phase < N_PHASES);
}

static void on_manifest(void *context, size_t peer, size_t job, const struct manifest *m, const uint8_t *bytes) {
  (void)context, (void)peer, (void)job, (void)m, (void)bytes;
}

static void on_payload(void *context, size_t peer, size_t job, const struct manifest *m, uint8_t *payload) {
  (void)context, (void)peer, (void)job, (void)m;
  free(payload);
}

static void on_fetch_failed(void *context, size_t peer, size_t job, const struct manifest *m, enum err reason) {
  (void)context, (void)peer, (void)job, (void)m, (void)reason;
}

static void on_answer(void *context, size_t peer, size_t job, uint64_t first, enum err reason) {
  (void)context, (void)peer, (void)job, (void)first;
  MUST(reason != ERR_OK);
}

static void on_done(void *context, size_t peer, size_t job, uint64_t sequence, enum err outcome) {
  (void)context, (void)peer, (void)job, (void)sequence, (void)outcome;
}

static void on_pool(void *context, size_t peer, size_t job, const struct wire_pool *pool) {
  (void)context, (void)peer, (void)job;
  MUST(pool->n >= 1 && pool->n <= MAX_POOL_PAIRS);
}

static bool wants_sketch(void *context, size_t peer, size_t job, const struct signed_sketch *s) {
  (void)context, (void)peer, (void)job;
  return s->serial % 2 == 1;
}

static void on_sketch(void *context, size_t peer, size_t job, const struct signed_sketch *s, const uint8_t *bytes) {
  (void)context, (void)peer, (void)job, (void)bytes;
  MUST(s->boot_epoch > 0 && s->serial > 0);
}

static void on_ask_job(void *context, size_t peer, const struct digest *job) {
  (void)context, (void)peer, (void)job;
}

static void on_job_file(void *context, size_t peer, const struct job_file *f, const uint8_t *bytes, size_t n) {
  (void)context, (void)peer;
  struct job_file again;
  MUST(job_file_read(bytes, n, &again) == ERR_OK && again.n_text == f->n_text);
}

static void fill_hello(void *context, size_t peer, size_t job, struct hello_job *out_hello) {
  (void)context, (void)peer, (void)job;
  *out_hello = (struct hello_job){0};
}

static void fill_state(void *context, size_t peer, size_t job, struct wire_state *out_state) {
  (void)context, (void)peer, (void)job;
  *out_state = (struct wire_state){0};
}

static enum err find_manifest(void *context, size_t peer, size_t job, enum manifest_kind kind, uint64_t first, size_t i,
                              uint8_t out_bytes[MANIFEST_BYTES]) {
  (void)context, (void)peer, (void)job, (void)kind, (void)first;
  memset(out_bytes, (int)i, MANIFEST_BYTES);
  return i < 3 ? ERR_OK : ERR_GONE;
}

static enum err read_payload(void *context, size_t job, const struct digest *root, uint64_t offset, uint8_t *out,
                             size_t n) {
  (void)context, (void)job, (void)root;
  memset(out, 1, n);
  return offset < 10 * (uint64_t)CHUNK_BYTES ? ERR_OK : ERR_RANGE;
}

static const struct gossip_events events = {.on_session = on_session,
                                            .on_hello = on_hello,
                                            .on_refused_job = on_refused_job,
                                            .on_state = on_state,
                                            .on_manifest = on_manifest,
                                            .on_payload = on_payload,
                                            .on_fetch_failed = on_fetch_failed,
                                            .on_answer = on_answer,
                                            .on_done = on_done,
                                            .on_pool = on_pool,
                                            .wants_sketch = wants_sketch,
                                            .on_sketch = on_sketch,
                                            .on_ask_job = on_ask_job,
                                            .on_job_file = on_job_file,
                                            .fill_hello = fill_hello,
                                            .fill_state = fill_state,
                                            .find_manifest = find_manifest,
                                            .read_payload = read_payload};

/* A session of the peer over an accepted connection. */
static void session_give(struct gossip *g, size_t peer, uint64_t conn) {
  struct session_keys keys = {{1}, {2}, {3}};
  struct session_ends ends = {(uint32_t)(0x100 | peer), 0x200, false};
  struct slot *live = g->peers[peer].slots[SLOT_LIVE] = calloc(1, sizeof *live);
  MUST(live != NULL);
  MUST(session_new(&keys, &ends, now_ms, &live->session) == ERR_OK);
  live->conn = conn;
  live->version = GOSSIP_VERSION;
}

/* One job of zero ids and two peers: one with a session that says HELLO next, and one that has said it. */
static struct gossip *node_open(const struct identity *own, const struct identity *const others[2]) {
  static const struct gossip_job_config job = {.schema_text = "a: 1\n", .contract_text = "b: 2\n"};
  const struct gossip_job_config *const jobs[] = {&job};
  size_t first = identity_key_compare(identity_public(others[0]), identity_public(others[1])) < 0 ? 0 : 1;
  static struct gossip_peer_config peers[2] = {{.name = "one", .address = ""}, {.name = "two", .address = ""}};
  for (size_t i = 0; i < 2; i++)
    peers[i].key = *identity_public(others[(first + i) % 2]);
  struct gossip_config config = {.identity = own,
                                 .boot_epoch = 1,
                                 .peers = peers,
                                 .n_peers = 2,
                                 .jobs = jobs,
                                 .n_jobs = 1,
                                 .payload_max_bytes = 4 * (uint64_t)CHUNK_BYTES,
                                 .payload_bound = 4 * (uint64_t)CHUNK_BYTES,
                                 .max_members = 8,
                                 .relay = GOSSIP_RELAY_CARRY,
                                 .now_ms = clock_now};
  char why[MAX_REASON_BYTES];
  struct gossip *g;
  MUST(node_new(&config, &events, &g, why) == ERR_OK);
  g->link.calls = &nowhere;
  session_give(g, 0, CONN_ACCEPTED | 1);
  session_give(g, 1, CONN_ACCEPTED | 2);
  session_greeted(g, &g->peers[1]);
  return g;
}

/* ---- records ---- */

/* A payload of three chunks with root 0 is being fetched whenever it may be. */
static void want_something(struct gossip *g) {
  struct manifest m = {.kind = MANIFEST_FULL, .n_payload = 2 * CHUNK_BYTES + 5};
  enum err e = fetch_start(&g->peers[0].fetches, 0, &m, now_ms);
  MUST(e == ERR_OK || e == ERR_BUSY);
}

static void check_canonical(uint8_t type, const uint8_t *plain, size_t n) {
  static uint8_t again[MAX_FRAME_PLAIN_BYTES];
  struct message m;
  struct writer w;
  if (message_read(type, plain, n, &m) != ERR_OK)
    return;
  writer_init(&w, again, sizeof again);
  message_write(&m, &w);
  MUST(writer_end(&w) == ERR_OK && w.n_bytes == n);
  if (type != MESSAGE_REFUSED && type != MESSAGE_DONE && type != MESSAGE_BYE && type != MESSAGE_NOT_RELAYED)
    MUST(memcmp(again, plain, n) == 0);
}

static void feed_message(struct gossip *g, uint8_t type, const uint8_t *plain, size_t n) {
  if (n > MAX_FRAME_PLAIN_BYTES)
    return;
  check_canonical(type, plain, n);
  if (g->peers[0].slots[SLOT_LIVE])
    receive_message(g, &g->peers[0], type, plain, n);
}

static void feed_frame(struct gossip *g, uint64_t conn, const uint8_t *bytes, size_t n) {
  struct link_sink sink = node_sink(g);
  uint8_t *frame = malloc(n + 1);
  MUST(frame != NULL);
  memcpy(frame, bytes, n);
  sink.on_frame(sink.context, conn, "10.0.0.1", frame, n);
  free(frame);
}

static void feed_record(struct gossip *g, uint8_t kind, const uint8_t *bytes, size_t n) {
  if (kind < 2)
    feed_frame(g, CONN_ACCEPTED | kind, bytes, n);
  else
    feed_message(g, kind, bytes, n);
  now_ms += 10;
  link_poll(g, NULL, 0, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct identity *own, *others[2]; /* made once: guarded memory is slow to come by */
  if (!own) {
    own = identity_numbered(1);
    others[0] = identity_numbered(2);
    others[1] = identity_numbered(3);
  }
  struct gossip *g = node_open(own, (const struct identity *const *)others);
  struct cursor c;
  cursor_init(&c, data, size);
  while (c.left > 3) { /* a head and a byte */
    uint8_t kind = cursor_u8(&c);
    size_t n = cursor_u16(&c);
    if (n > c.left)
      n = c.left;
    want_something(g);
    if (n > 0)
      feed_record(g, kind, cursor_view(&c, n), n);
  }
  gossip_close(g, ERR_STOPPED);
  return 0;
}
