#include "gossip/node.h"

#include <string.h>

#include "base/must.h"
#include "gossip/difference.h"

/* ---- what waits ------------------------------------------------------------------------------------------------------ */

enum err send_message_or_not(struct gossip *g, struct peer *p, const struct message *m) {
  if (!p->slots[SLOT_LIVE])
    return ERR_NO_SESSION;
  struct writer w;
  writer_init(&w, g->scratch, MAX_CONTROL_BYTES);
  message_write(m, &w);
  MUST(writer_end(&w) == ERR_OK);
  enum err e = outbox_put(&p->outbox, (uint8_t)m->type, g->scratch, w.n_bytes);
  peer_stir(g, p);
  return e;
}

void send_message(struct gossip *g, struct peer *p, const struct message *m) {
  enum err e = send_message_or_not(g, p, m);
  if (e != ERR_OK && e != ERR_NO_SESSION)
    peer_count(p, ERR_BACKLOG);
}

void send_hello(struct gossip *g, struct peer *p) {
  struct message m = {.type = MESSAGE_HELLO};
  for (size_t i = 0; i < g->config.n_jobs; i++) {
    const struct gossip_job_config *job = g->jobs[i].config;
    if (g->jobs[i].is_ended)
      continue;
    struct hello_entry *entry = &m.hello.jobs[m.hello.n_jobs++];
    *entry = (struct hello_entry){.job = job->job, .file = job->file, .schema = job->schema, .contract = job->contract};
    g->events->fill_hello(g->config.events_context, peer_index(g, p), i, &entry->words);
  }
  p->n_own_hellos++;
  send_message(g, p, &m);
}

void send_hello_again(struct gossip *g, struct peer *p) {
  if (p->n_own_hellos < MAX_HELLOS)
    send_hello(g, p);
  else
    peer_kick(g, p, ERR_STOPPED);
}

void send_schema(struct gossip *g, struct peer *p, size_t job) {
  struct text schema = text_whole_lines(g->jobs[job].config->schema_text, MAX_SCHEMA_TEXT_BYTES);
  struct text contract = text_whole_lines(g->jobs[job].config->contract_text, MAX_SCHEMA_TEXT_BYTES);
  struct message m = {.type = MESSAGE_SCHEMA,
                      .schema = {.job = g->jobs[job].config->job,
                                 .schema = schema.at,
                                 .n_schema = (uint16_t)schema.n,
                                 .contract = contract.at,
                                 .n_contract = (uint16_t)contract.n}};
  send_message(g, p, &m);
}

void send_states(struct gossip *g, struct peer *p) {
  for (size_t i = 0; i < g->config.n_jobs; i++)
    job_with(g, p, i)->is_state_due = !g->jobs[i].is_ended;
  peer_stir(g, p);
  uint64_t beat_ms = session_beat_ms(g, p);
  timer_set(g, p, TIMER_STATE, beat_ms > STATE_EVERY_MS ? beat_ms : STATE_EVERY_MS);
  strangers_tidy(&g->strangers, node_now(g)); /* as good a time as any */
}

void send_beat(struct gossip *g, struct peer *p) {
  p->is_beat_due = true;
  peer_stir(g, p);
  timer_set(g, p, TIMER_BEAT, session_beat_ms(g, p));
}

void send_forget(struct gossip *g, struct peer *p) {
  outbox_clear(&p->outbox);
  serves_clear(&p->serves);
  p->is_beat_due = false;
  for (size_t i = 0; i < g->config.n_jobs; i++)
    job_with(g, p, i)->is_state_due = false;
  p->flush_wait_ms = FLUSH_MIN_MS;
  timer_clear(g, p, TIMER_FLUSH);
}

/* ---- one frame ------------------------------------------------------------------------------------------------------- */

static void count_sent(struct gossip *g, struct peer *p, uint64_t conn, size_t n_frame) {
  size_t n = conn_frame_bytes(conn, n_frame);
  g->sent_bytes += n;
  p->info.sent_bytes += n;
}

enum err send_frame(struct gossip *g, struct peer *p, uint8_t type, uint8_t *frame, size_t n_plain) {
  const struct slot *live = p->slots[SLOT_LIVE];
  enum err e = g->seals->seal(live->session, node_now(g), type, frame, n_plain);
  if (e != ERR_OK) {
    conn_frame_drop(g);
    return e;
  }
  e = conn_frame_send(g, live->conn);
  if (e == ERR_OK)
    count_sent(g, p, live->conn, frame_bytes(n_plain));
  return e;
}

static enum err send_plain(struct gossip *g, struct peer *p, uint8_t type, const uint8_t *plain, size_t n) {
  uint8_t *frame;
  enum err e = conn_frame_new(g, p->slots[SLOT_LIVE]->conn, frame_bytes(n), &frame);
  if (e != ERR_OK)
    return e;
  memcpy(frame + FRAME_HEAD_BYTES, plain, n);
  return send_frame(g, p, type, frame, n);
}

static enum err send_now(struct gossip *g, struct peer *p, const struct message *m) {
  struct writer w;
  writer_init(&w, g->scratch, MAX_CONTROL_BYTES);
  message_write(m, &w);
  MUST(writer_end(&w) == ERR_OK);
  return send_plain(g, p, (uint8_t)m->type, g->scratch, w.n_bytes);
}

void send_handshake(struct gossip *g, struct peer *p, uint64_t conn, const uint8_t *frame, size_t n) {
  uint8_t *out;
  if (conn_frame_new(g, conn, n, &out) != ERR_OK)
    return;
  memcpy(out, frame, n);
  if (conn_frame_send(g, conn) == ERR_OK)
    count_sent(g, p, conn, n);
}

/* ---- as far as the connection takes it: control first, then levels, then what we want, then what is wanted of us ------ */

static enum err flush_outbox(struct gossip *g, struct peer *p) {
  while (p->outbox.first) {
    const struct outbox_item *item = p->outbox.first;
    enum err e = send_plain(g, p, item->type, item->bytes, item->n);
    if (e != ERR_OK)
      return e;
    outbox_drop(&p->outbox);
  }
  return ERR_OK;
}

static enum err flush_beat(struct gossip *g, struct peer *p) {
  if (!p->is_beat_due)
    return ERR_OK;
  struct message m = {.type = MESSAGE_BEAT, .beat_s = g->config.beat_s};
  enum err e = send_now(g, p, &m);
  p->is_beat_due = e != ERR_OK;
  return e;
}

/* Its own statement is among what waits in the outbox since the session began, so this comes after that. */
static enum err flush_news(struct gossip *g, struct peer *p) {
  struct message m;
  uint64_t told;
  while (membership_news(g, p, &m, &told)) {
    enum err e = m.news.n > 0 ? send_now(g, p, &m) : ERR_OK;
    if (e != ERR_OK)
      return e;
    companion_of(g, p)->told = told;
  }
  return ERR_OK;
}

static enum err flush_states(struct gossip *g, struct peer *p) {
  for (size_t i = 0; i < g->config.n_jobs; i++) {
    if (!job_with(g, p, i)->is_state_due)
      continue;
    struct message m = {.type = MESSAGE_STATE, .state = {.job = g->jobs[i].config->job}};
    g->events->fill_state(g->config.events_context, peer_index(g, p), i, &m.state.words);
    enum err e = send_now(g, p, &m);
    if (e != ERR_OK)
      return e;
    job_with(g, p, i)->is_state_due = false;
  }
  return ERR_OK;
}

static enum err flush_gets(struct gossip *g, struct peer *p) {
  struct message_get get;
  struct fetch *fetch;
  while (fetch_next(&p->fetches, &get, &fetch)) {
    struct message m = {.type = MESSAGE_GET, .get = get};
    enum err e = send_now(g, p, &m);
    if (e != ERR_OK)
      return e;
    fetch_asked(&p->fetches, fetch, &get, node_now(g));
  }
  return ERR_OK;
}

/* Tells the peer that a payload cannot be had. */
static void refuse_serve(struct gossip *g, struct peer *p, const struct serve *range, enum err reason) {
  struct digest root = range->root;
  struct message m = {
      .type = MESSAGE_REFUSED,
      .refused = {.job = g->jobs[range->job].config->job, .is_get = true, .reason = reason, .root = root}};
  send_message(g, p, &m);
  serves_drop(&p->serves, &root);
}

/* The payload's bytes are read into the outgoing frame and sealed there. */
static enum err send_chunk(struct gossip *g, struct peer *p, const struct serve *range) {
  size_t n = serve_bytes(range), n_plain = CHUNK_HEAD_BYTES + n;
  uint8_t *frame;
  enum err e = conn_frame_new(g, p->slots[SLOT_LIVE]->conn, frame_bytes(n_plain), &frame);
  if (e != ERR_OK)
    return e;
  struct writer w;
  writer_init(&w, frame + FRAME_HEAD_BYTES, CHUNK_HEAD_BYTES);
  writer_bytes(&w, range->root.bytes, ROOT_PREFIX_BYTES);
  writer_u32(&w, range->next);
  writer_u8(&w, 0); /* siblings: none from the origin itself */
  e = g->events->read_payload(g->config.events_context, range->job, &range->root, serve_offset(range),
                              frame + FRAME_HEAD_BYTES + CHUNK_HEAD_BYTES, n);
  if (e != ERR_OK) {
    conn_frame_drop(g);
    refuse_serve(g, p, range, e);
    return flush_outbox(g, p); /* at once: the connection has been asked for room */
  }
  e = send_frame(g, p, MESSAGE_CHUNK, frame, n_plain);
  if (e == ERR_OK)
    serves_advance(&p->serves);
  return e;
}

static enum err flush_chunks(struct gossip *g, struct peer *p) {
  const struct serve *range;
  for (size_t i = 0; (range = serves_first(&p->serves)); i++) {
    if (i == MAX_CHUNKS_AT_ONCE) {
      timer_set(g, p, TIMER_FLUSH, 0);
      break;
    }
    enum err e = send_chunk(g, p, range);
    if (e != ERR_OK)
      return e;
  }
  return ERR_OK;
}

static enum err flush_all(struct gossip *g, struct peer *p) {
  enum err e = flush_outbox(g, p);
  if (e == ERR_OK && p->info.has_session)
    e = flush_beat(g, p);
  if (e == ERR_OK && p->info.has_session)
    e = flush_news(g, p);
  if (e == ERR_OK && p->info.has_session)
    e = flush_states(g, p);
  if (e == ERR_OK && p->info.has_session)
    e = flush_gets(g, p);
  p->relays_first = !p->relays_first;
  for (unsigned i = 0; i < 2 && e == ERR_OK && p->info.has_session; i++)
    e = (i == 0) == p->relays_first ? relay_flush(g, p) : flush_chunks(g, p);
  return e;
}

void send_flush(struct gossip *g, struct peer *p) {
  due_set(&g->unsent, peer_index(g, p), DUE_NEVER);
  timer_clear(g, p, TIMER_FLUSH);
  if (!p->slots[SLOT_LIVE])
    return;
  uint64_t conn = p->slots[SLOT_LIVE]->conn;
  uint64_t sent_before = g->sent_bytes;
  enum err e = flush_all(g, p);
  if (e == ERR_NOT_CONNECTED) {
    session_lose_conn(g, p, conn);
  } else if (e == ERR_KEY_EXPIRED) {
    session_expire(g, p);
  } else if (e != ERR_OK) { /* full: again soon */
    unsigned wait_ms = g->sent_bytes > sent_before ? FLUSH_MIN_MS : 2 * p->flush_wait_ms;
    p->flush_wait_ms = wait_ms < FLUSH_MAX_MS ? (uint8_t)wait_ms : FLUSH_MAX_MS;
    timer_set(g, p, TIMER_FLUSH, p->flush_wait_ms);
    peer_stir(g, p); /* sooner, if the link says that there is room */
  } else {
    p->flush_wait_ms = FLUSH_MIN_MS;
  }
  timer_put(g, p, TIMER_FETCH, fetches_due_ms(&p->fetches));
  session_check_rekey(g, p);
}
