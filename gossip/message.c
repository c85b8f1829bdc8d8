#include "gossip/message.h"

#include <string.h>

#include "base/must.h"

enum {
  REASON_STOPPED = 255,
  STATE_FOLLOWS = 1,
  STATE_FINISHED = 2,
  STATE_NOTICE = 4,
  REFUSED_ASK = 0,
  REFUSED_GET = 1
};

const char *phase_name(enum phase p) {
  static const char *const names[N_PHASES] = {
      "loading",    "meeting", "idle",  "training", "publishing", "gathering", "merging",
      "committing", "jumping", "alone", "paused",   "halted",     "finished",
  };
  MUST(p < N_PHASES);
  return names[p];
}

uint8_t reason_code(enum err reason) {
  if (reason == ERR_OK)
    return 0;
  int drop = err_drop_index(reason);
  return drop < 0 ? REASON_STOPPED : (uint8_t)(1 + drop);
}

enum err reason_from_code(uint8_t code) {
  if (code == 0)
    return ERR_OK;
  if (code == REASON_STOPPED)
    return ERR_STOPPED;
  return code <= N_DROPS ? (enum err)(ERR_FIRST_DROP + code - 1) : ERR_REFUSED;
}

/* A field that is well-formed but has no meaning fails the cursor, so that one check at the end judges the whole. */
static void demand(struct cursor *c, bool holds) {
  if (!holds)
    c->failed = true;
}

/* No control byte. */
static bool is_text_byte(uint8_t byte) {
  return byte >= ' ' && byte != 0x7f;
}

static bool cursor_flag(struct cursor *c) {
  uint8_t v = cursor_u8(c);
  demand(c, v <= 1);
  return v == 1;
}

static void digest_read(struct cursor *c, struct digest *out) {
  cursor_bytes(c, out->bytes, DIGEST_BYTES);
}

static void digest_write(struct writer *w, const struct digest *d) {
  writer_bytes(w, d->bytes, DIGEST_BYTES);
}

static void position_read(struct cursor *c, struct position *out) {
  out->boot_epoch = cursor_u64(c);
  out->sequence = cursor_u64(c);
  digest_read(c, &out->chain);
}

static void position_write(struct writer *w, const struct position *p) {
  writer_u64(w, p->boot_epoch);
  writer_u64(w, p->sequence);
  digest_write(w, &p->chain);
}

/* ---- HELLO --------------------------------------------------------------------------------------------------------- */

static void hello_entry_read(struct cursor *c, struct hello_entry *e) {
  digest_read(c, &e->job);
  digest_read(c, &e->file);
  digest_read(c, &e->schema);
  digest_read(c, &e->contract);
  e->words.round = cursor_u64(c);
  e->words.sub = cursor_u32(c);
  position_read(c, &e->words.newest);
  e->words.has_proof = cursor_flag(c);
  if (e->words.has_proof)
    cursor_bytes(c, e->words.proof, MANIFEST_BYTES);
}

static void hello_read(struct cursor *c, struct message *m) {
  struct message_hello *h = &m->hello;
  size_t n_jobs = cursor_u8(c);
  demand(c, n_jobs <= MAX_JOBS_IN_HELLO);
  for (h->n_jobs = 0; !c->failed && h->n_jobs < n_jobs; h->n_jobs++) {
    hello_entry_read(c, &h->jobs[h->n_jobs]);
    for (size_t i = 0; i < h->n_jobs; i++)
      demand(c, !digest_equal(&h->jobs[i].job, &h->jobs[h->n_jobs].job));
  }
}

static void hello_write(struct writer *w, const struct message *m) {
  const struct message_hello *h = &m->hello;
  MUST(h->n_jobs <= MAX_JOBS_IN_HELLO);
  writer_u8(w, (uint8_t)h->n_jobs);
  for (size_t i = 0; i < h->n_jobs; i++) {
    const struct hello_entry *e = &h->jobs[i];
    digest_write(w, &e->job);
    digest_write(w, &e->file);
    digest_write(w, &e->schema);
    digest_write(w, &e->contract);
    writer_u64(w, e->words.round);
    writer_u32(w, e->words.sub);
    position_write(w, &e->words.newest);
    writer_u8(w, e->words.has_proof);
    if (e->words.has_proof)
      writer_bytes(w, e->words.proof, MANIFEST_BYTES);
  }
}

/* ---- STATE --------------------------------------------------------------------------------------------------------- */

static void notice_read(struct cursor *c, struct wire_notice *n) {
  uint8_t kind = cursor_u8(c);
  demand(c, kind > NOTICE_NONE && kind < N_NOTICES);
  n->kind = (enum notice_kind)kind;
  n->round = cursor_u64(c);
  n->sub = cursor_u32(c);
  size_t n_text = cursor_u8(c);
  demand(c, n_text < NOTICE_TEXT_BYTES);
  const uint8_t *text = cursor_view(c, n_text);
  for (size_t i = 0; text && !c->failed && i < n_text; i++) {
    demand(c, is_text_byte(text[i]));
    n->text[i] = (char)text[i];
  }
}

static void notice_write(struct writer *w, const struct wire_notice *n) {
  size_t n_text = strnlen(n->text, NOTICE_TEXT_BYTES);
  MUST(n->kind < N_NOTICES && n_text < NOTICE_TEXT_BYTES);
  writer_u8(w, (uint8_t)n->kind);
  writer_u64(w, n->round);
  writer_u32(w, n->sub);
  writer_u8(w, (uint8_t)n_text);
  writer_bytes(w, n->text, n_text);
}

static void state_read(struct cursor *c, struct message *m) {
  struct wire_state *s = &m->state.words;
  digest_read(c, &m->state.job);
  uint8_t flags = cursor_u8(c);
  demand(c, (flags & ~(STATE_FOLLOWS | STATE_FINISHED | STATE_NOTICE)) == 0);
  s->follows = flags & STATE_FOLLOWS;
  s->finished = flags & STATE_FINISHED;
  uint8_t phase = cursor_u8(c);
  demand(c, phase < N_PHASES);
  s->phase = (enum phase)phase;
  s->degree = cursor_u16(c);
  s->round = cursor_u64(c);
  s->sub = cursor_u32(c);
  s->round_in_work = cursor_u64(c);
  s->sub_in_work = cursor_u32(c);
  position_read(c, &s->newest);
  s->progress = cursor_u32(c);
  s->progress_total = cursor_u32(c);
  s->epoch_steps = cursor_u32(c);
  s->notice = (struct wire_notice){0};
  if (flags & STATE_NOTICE)
    notice_read(c, &s->notice);
}

static void state_write(struct writer *w, const struct message *m) {
  const struct wire_state *s = &m->state.words;
  MUST(s->phase < N_PHASES);
  digest_write(w, &m->state.job);
  bool has_notice = s->notice.kind != NOTICE_NONE;
  writer_u8(w, (uint8_t)((s->follows ? STATE_FOLLOWS : 0) | (s->finished ? STATE_FINISHED : 0) |
                         (has_notice ? STATE_NOTICE : 0)));
  writer_u8(w, (uint8_t)s->phase);
  writer_u16(w, s->degree);
  writer_u64(w, s->round);
  writer_u32(w, s->sub);
  writer_u64(w, s->round_in_work);
  writer_u32(w, s->sub_in_work);
  position_write(w, &s->newest);
  writer_u32(w, s->progress);
  writer_u32(w, s->progress_total);
  writer_u32(w, s->epoch_steps);
  if (has_notice)
    notice_write(w, &s->notice);
}

/* ---- ASK and its answers ------------------------------------------------------------------------------------------- */

static bool is_askable(enum manifest_kind kind, uint64_t first, uint8_t n) {
  if (kind == MANIFEST_FULL)
    return first == 0 && n == 1;
  return kind == MANIFEST_DIFFERENCE && first >= 1 && n >= 1 && n <= MAX_ASK;
}

static void ask_read(struct cursor *c, struct message *m) {
  digest_read(c, &m->ask.job);
  uint8_t kind = cursor_u8(c);
  m->ask.kind = (enum manifest_kind)kind;
  m->ask.first = cursor_u64(c);
  m->ask.n = cursor_u8(c);
  demand(c, is_askable(m->ask.kind, m->ask.first, m->ask.n));
}

static void ask_write(struct writer *w, const struct message *m) {
  MUST(is_askable(m->ask.kind, m->ask.first, m->ask.n));
  digest_write(w, &m->ask.job);
  writer_u8(w, (uint8_t)m->ask.kind);
  writer_u64(w, m->ask.first);
  writer_u8(w, m->ask.n);
}

static void manifest_view(struct cursor *c, struct message *m) {
  m->manifest = cursor_view(c, MANIFEST_BYTES);
}

static void manifest_copy(struct writer *w, const struct message *m) {
  writer_bytes(w, m->manifest, MANIFEST_BYTES);
}

static void not_yet_read(struct cursor *c, struct message *m) {
  digest_read(c, &m->not_yet.job);
  uint8_t kind = cursor_u8(c);
  m->not_yet.kind = (enum manifest_kind)kind;
  m->not_yet.first = cursor_u64(c);
  demand(c, is_askable(m->not_yet.kind, m->not_yet.first, 1));
}

static void not_yet_write(struct writer *w, const struct message *m) {
  MUST(is_askable(m->not_yet.kind, m->not_yet.first, 1));
  digest_write(w, &m->not_yet.job);
  writer_u8(w, (uint8_t)m->not_yet.kind);
  writer_u64(w, m->not_yet.first);
}

static void refused_read(struct cursor *c, struct message *m) {
  struct message_refused *r = &m->refused;
  digest_read(c, &r->job);
  r->is_get = cursor_flag(c);
  uint8_t code = cursor_u8(c);
  demand(c, code != 0);
  r->reason = reason_from_code(code);
  uint8_t kind = cursor_u8(c);
  r->kind = (enum manifest_kind)kind;
  r->first = cursor_u64(c);
  digest_read(c, &r->root);
  if (r->is_get)
    demand(c, kind == 0 && r->first == 0);
  else
    demand(c, is_askable(r->kind, r->first, 1) && digest_is_zero(&r->root));
}

static void refused_write(struct writer *w, const struct message *m) {
  const struct message_refused *r = &m->refused;
  MUST(r->reason != ERR_OK);
  MUST(r->is_get ? r->kind == 0 && r->first == 0 : is_askable(r->kind, r->first, 1) && digest_is_zero(&r->root));
  digest_write(w, &r->job);
  writer_u8(w, r->is_get ? REFUSED_GET : REFUSED_ASK);
  writer_u8(w, reason_code(r->reason));
  writer_u8(w, (uint8_t)r->kind);
  writer_u64(w, r->first);
  digest_write(w, &r->root);
}

/* ---- GET and CHUNK ------------------------------------------------------------------------------------------------- */

static bool is_range(const struct message_get *g) {
  if (g->n_payload == 0 || g->n_payload > (uint64_t)MAX_CHUNKS * CHUNK_BYTES)
    return false;
  uint64_t n_chunks = (g->n_payload + CHUNK_BYTES - 1) / CHUNK_BYTES;
  return g->count >= 1 && g->first < n_chunks && g->count <= n_chunks - g->first;
}

static void get_read(struct cursor *c, struct message *m) {
  digest_read(c, &m->get.job);
  digest_read(c, &m->get.root);
  m->get.n_payload = cursor_u64(c);
  m->get.first = cursor_u32(c);
  m->get.count = cursor_u32(c);
  demand(c, is_range(&m->get));
}

static void get_write(struct writer *w, const struct message *m) {
  MUST(is_range(&m->get));
  digest_write(w, &m->get.job);
  digest_write(w, &m->get.root);
  writer_u64(w, m->get.n_payload);
  writer_u32(w, m->get.first);
  writer_u32(w, m->get.count);
}

static void chunk_read(struct cursor *c, struct message *m) {
  struct message_chunk *k = &m->chunk;
  cursor_bytes(c, k->root_prefix, ROOT_PREFIX_BYTES);
  k->index = cursor_u32(c);
  k->n_siblings = cursor_u8(c);
  demand(c, k->index < MAX_CHUNKS && k->n_siblings <= MAX_SIBLINGS);
  k->siblings = cursor_view(c, (size_t)k->n_siblings * DIGEST_BYTES);
  k->n_data = c->left;
  demand(c, k->n_data >= 1 && k->n_data <= CHUNK_BYTES);
  k->data = cursor_view(c, k->n_data);
}

static void chunk_write(struct writer *w, const struct message *m) {
  const struct message_chunk *k = &m->chunk;
  writer_bytes(w, k->root_prefix, ROOT_PREFIX_BYTES);
  writer_u32(w, k->index);
  writer_u8(w, k->n_siblings);
  writer_bytes(w, k->siblings, (size_t)k->n_siblings * DIGEST_BYTES);
  writer_bytes(w, k->data, k->n_data);
}

/* ---- SCHEMA, DONE, BYE, BEAT --------------------------------------------------------------------------------------- */

static const char *text_read(struct cursor *c, uint16_t *out_n) {
  *out_n = cursor_u16(c);
  demand(c, *out_n <= MAX_SCHEMA_TEXT_BYTES);
  const uint8_t *text = cursor_view(c, *out_n);
  for (size_t i = 0; text && i < *out_n; i++)
    demand(c, text[i] == '\n' || is_text_byte(text[i]));
  return (const char *)text;
}

static void text_write(struct writer *w, const char *text, uint16_t n) {
  MUST(n <= MAX_SCHEMA_TEXT_BYTES);
  writer_u16(w, n);
  writer_bytes(w, text, n);
}

static void schema_read(struct cursor *c, struct message *m) {
  digest_read(c, &m->schema.job);
  m->schema.schema = text_read(c, &m->schema.n_schema);
  m->schema.contract = text_read(c, &m->schema.n_contract);
}

static void schema_write(struct writer *w, const struct message *m) {
  digest_write(w, &m->schema.job);
  text_write(w, m->schema.schema, m->schema.n_schema);
  text_write(w, m->schema.contract, m->schema.n_contract);
}

static void done_read(struct cursor *c, struct message *m) {
  digest_read(c, &m->done.job);
  m->done.sequence = cursor_u64(c);
  m->done.outcome = reason_from_code(cursor_u8(c));
}

static void done_write(struct writer *w, const struct message *m) {
  digest_write(w, &m->done.job);
  writer_u64(w, m->done.sequence);
  writer_u8(w, reason_code(m->done.outcome));
}

static void bye_read(struct cursor *c, struct message *m) {
  uint8_t code = cursor_u8(c);
  demand(c, code != 0);
  m->bye = reason_from_code(code);
}

static void bye_write(struct writer *w, const struct message *m) {
  MUST(m->bye != ERR_OK);
  writer_u8(w, reason_code(m->bye));
}

static void beat_read(struct cursor *c, struct message *m) {
  m->beat_s = cursor_u8(c);
  demand(c, m->beat_s >= 1 && m->beat_s <= MAX_BEAT_S);
}

static void beat_write(struct writer *w, const struct message *m) {
  MUST(m->beat_s >= 1 && m->beat_s <= MAX_BEAT_S);
  writer_u8(w, m->beat_s);
}

/* ---- ASK-JOB and JOB-FILE -------------------------------------------------------------------------------------------- */

static void ask_job_read(struct cursor *c, struct message *m) {
  digest_read(c, &m->ask_job.job);
}

static void ask_job_write(struct writer *w, const struct message *m) {
  digest_write(w, &m->ask_job.job);
}

static void job_file_view(struct cursor *c, struct message *m) {
  struct message_job_file *f = &m->job_file;
  f->n = c->left;
  demand(c, f->n >= 1 && f->n <= JOB_FILE_MAX_BYTES);
  f->bytes = cursor_view(c, f->n);
}

static void job_file_copy(struct writer *w, const struct message *m) {
  writer_bytes(w, m->job_file.bytes, m->job_file.n);
}

/* ---- POOL ------------------------------------------------------------------------------------------------------------ */

static void pool_read(struct cursor *c, struct message *m) {
  struct wire_pool *p = &m->pool.words;
  digest_read(c, &m->pool.job);
  p->is_frozen = cursor_flag(c);
  p->count = cursor_u64(c);
  p->n = cursor_u16(c);
  demand(c, (p->count == 0) == p->is_frozen && p->n >= 1 && p->n <= MAX_POOL_PAIRS);
  p->bytes = cursor_view(c, (size_t)p->n * POOL_PAIR_BYTES);
}

static void pool_write(struct writer *w, const struct message *m) {
  const struct wire_pool *p = &m->pool.words;
  MUST((p->count == 0) == p->is_frozen && p->n >= 1 && p->n <= MAX_POOL_PAIRS);
  digest_write(w, &m->pool.job);
  writer_u8(w, p->is_frozen);
  writer_u64(w, p->count);
  writer_u16(w, p->n);
  writer_bytes(w, p->bytes, (size_t)p->n * POOL_PAIR_BYTES);
}

/* ---- SKETCH ---------------------------------------------------------------------------------------------------------- */

static void sketch_view(struct cursor *c, struct message *m) {
  m->sketch = cursor_view(c, SIGNED_SKETCH_BYTES);
}

static void sketch_copy(struct writer *w, const struct message *m) {
  writer_bytes(w, m->sketch, SIGNED_SKETCH_BYTES);
}

/* ---- members ---------------------------------------------------------------------------------------------------------- */

static void news_read(struct cursor *c, struct message *m) {
  size_t n = cursor_u8(c);
  demand(c, n >= 1 && n <= MAX_NEWS);
  for (m->news.n = 0; !c->failed && m->news.n < n; m->news.n++) {
    struct news *item = &m->news.items[m->news.n];
    uint8_t kind = cursor_u8(c);
    item->kind = (enum news_kind)kind;
    item->n = cursor_u16(c);
    demand(c, (kind == NEWS_STATEMENT || kind == NEWS_ACCUSATION) && item->n >= 1 && item->n <= STATEMENT_MAX_BYTES);
    item->bytes = cursor_view(c, item->n);
  }
}

static void news_write(struct writer *w, const struct message *m) {
  MUST(m->news.n >= 1 && m->news.n <= MAX_NEWS);
  writer_u8(w, (uint8_t)m->news.n);
  for (size_t i = 0; i < m->news.n; i++) {
    const struct news *item = &m->news.items[i];
    MUST(item->n >= 1 && item->n <= STATEMENT_MAX_BYTES);
    writer_u8(w, (uint8_t)item->kind);
    writer_u16(w, item->n);
    writer_bytes(w, item->bytes, item->n);
  }
}

static void sync_read(struct cursor *c, struct message *m) {
  cursor_bytes(c, m->sync.hash, sizeof m->sync.hash);
}

static void sync_write(struct writer *w, const struct message *m) {
  writer_bytes(w, m->sync.hash, sizeof m->sync.hash);
}

static void list_read(struct cursor *c, struct message *m) {
  struct message_list *l = &m->list;
  l->wants_list = cursor_flag(c);
  l->n = cursor_u16(c);
  demand(c, l->n <= MAX_MEMBERS);
  l->rows = (const uint8_t(*)[LISTED_BYTES])cursor_view(c, c->failed ? 0 : (size_t)l->n * LISTED_BYTES);
  struct identity_key before = {{0}};
  for (size_t i = 0; l->rows && !c->failed && i < l->n; i++) {
    struct listed row = listed_read(l->rows[i]);
    demand(c, row.incarnation.boot_epoch > 0 && row.n_accusers <= LISTED_MAX_ACCUSERS);
    demand(c, i == 0 || identity_key_compare(&before, &row.key) < 0);
    before = row.key;
  }
}

static void list_write(struct writer *w, const struct message *m) {
  MUST(m->list.n <= MAX_MEMBERS);
  writer_u8(w, m->list.wants_list);
  writer_u16(w, m->list.n);
  writer_bytes(w, m->list.rows, (size_t)m->list.n * LISTED_BYTES);
}

static void seek_read(struct cursor *c, struct message *m) {
  cursor_bytes(c, m->seek.key.bytes, sizeof m->seek.key.bytes);
}

static void seek_write(struct writer *w, const struct message *m) {
  writer_bytes(w, m->seek.key.bytes, sizeof m->seek.key.bytes);
}

static void found_read(struct cursor *c, struct message *m) {
  cursor_bytes(c, m->found.key.bytes, sizeof m->found.key.bytes);
  m->found.is_there = cursor_flag(c);
}

static void found_write(struct writer *w, const struct message *m) {
  writer_bytes(w, m->found.key.bytes, sizeof m->found.key.bytes);
  writer_u8(w, m->found.is_there);
}

/* ---- RELAY and NOT-RELAYED -------------------------------------------------------------------------------------------- */

static bool is_relayable(size_t n_frame) {
  return n_frame >= FRAME_HEAD_BYTES + FRAME_TAG_BYTES && n_frame <= MAX_RELAYED_BYTES;
}

static void relay_read(struct cursor *c, struct message *m) {
  struct message_relay *r = &m->relay;
  cursor_bytes(c, r->key.bytes, sizeof r->key.bytes);
  r->way = cursor_flag(c) ? RELAY_FROM : RELAY_TO;
  r->n_frame = c->left;
  demand(c, is_relayable(r->n_frame));
  r->frame = cursor_view(c, r->n_frame);
}

static void relay_write(struct writer *w, const struct message *m) {
  MUST(is_relayable(m->relay.n_frame));
  writer_bytes(w, m->relay.key.bytes, sizeof m->relay.key.bytes);
  writer_u8(w, m->relay.way == RELAY_FROM);
  writer_bytes(w, m->relay.frame, m->relay.n_frame);
}

static void not_relayed_read(struct cursor *c, struct message *m) {
  cursor_bytes(c, m->not_relayed.key.bytes, sizeof m->not_relayed.key.bytes);
  uint8_t code = cursor_u8(c);
  demand(c, code != 0);
  m->not_relayed.reason = reason_from_code(code);
}

static void not_relayed_write(struct writer *w, const struct message *m) {
  MUST(m->not_relayed.reason != ERR_OK);
  writer_bytes(w, m->not_relayed.key.bytes, sizeof m->not_relayed.key.bytes);
  writer_u8(w, reason_code(m->not_relayed.reason));
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */

static const struct codec {
  void (*read)(struct cursor *c, struct message *m);
  void (*write)(struct writer *w, const struct message *m);
} codecs[MESSAGE_END] = {
    [MESSAGE_HELLO] = {hello_read, hello_write},
    [MESSAGE_STATE] = {state_read, state_write},
    [MESSAGE_ASK] = {ask_read, ask_write},
    [MESSAGE_MANIFEST] = {manifest_view, manifest_copy},
    [MESSAGE_NOT_YET] = {not_yet_read, not_yet_write},
    [MESSAGE_REFUSED] = {refused_read, refused_write},
    [MESSAGE_GET] = {get_read, get_write},
    [MESSAGE_CHUNK] = {chunk_read, chunk_write},
    [MESSAGE_SCHEMA] = {schema_read, schema_write},
    [MESSAGE_DONE] = {done_read, done_write},
    [MESSAGE_BYE] = {bye_read, bye_write},
    [MESSAGE_BEAT] = {beat_read, beat_write},
    [MESSAGE_ASK_JOB] = {ask_job_read, ask_job_write},
    [MESSAGE_JOB_FILE] = {job_file_view, job_file_copy},
    [MESSAGE_POOL] = {pool_read, pool_write},
    [MESSAGE_NEWS] = {news_read, news_write},
    [MESSAGE_SYNC] = {sync_read, sync_write},
    [MESSAGE_LIST] = {list_read, list_write},
    [MESSAGE_SEEK] = {seek_read, seek_write},
    [MESSAGE_FOUND] = {found_read, found_write},
    [MESSAGE_RELAY] = {relay_read, relay_write},
    [MESSAGE_NOT_RELAYED] = {not_relayed_read, not_relayed_write},
    [MESSAGE_SKETCH] = {sketch_view, sketch_copy},
};

enum err message_read(uint8_t type, const uint8_t *bytes, size_t n, struct message *out_message) {
  if (type >= MESSAGE_END || !codecs[type].read)
    return ERR_FRAME;
  struct message m;
  struct cursor c;
  m.type = (enum message_type)type;
  cursor_init(&c, bytes, n);
  codecs[type].read(&c, &m);
  if (cursor_end(&c) != ERR_OK)
    return ERR_MESSAGE;
  *out_message = m;
  return ERR_OK;
}

void message_write(const struct message *m, struct writer *w) {
  MUST(m->type < MESSAGE_END && codecs[m->type].write);
  codecs[m->type].write(w, m);
}

/* ---- handshake payloads --------------------------------------------------------------------------------------------- */

static void offer_get(struct cursor *c, struct offer *o) {
  o->version_min = cursor_u16(c);
  o->version_max = cursor_u16(c);
  cursor_bytes(c, o->swarm, sizeof o->swarm);
  o->session_index = cursor_u32(c);
  o->boot_epoch = cursor_u64(c);
  demand(c, o->version_min >= 1 && o->version_min <= o->version_max);
}

static void offer_put(struct writer *w, const struct offer *o) {
  writer_u16(w, o->version_min);
  writer_u16(w, o->version_max);
  writer_bytes(w, o->swarm, sizeof o->swarm);
  writer_u32(w, o->session_index);
  writer_u64(w, o->boot_epoch);
}

enum err offer_read(const uint8_t *bytes, size_t n, struct offer *out_offer) {
  struct offer o;
  struct cursor c;
  cursor_init(&c, bytes, n);
  offer_get(&c, &o);
  demand(&c, o.session_index != 0);
  if (cursor_end(&c) != ERR_OK)
    return ERR_MESSAGE;
  *out_offer = o;
  return ERR_OK;
}

void offer_write(const struct offer *o, uint8_t out_bytes[OFFER_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, OFFER_BYTES);
  offer_put(&w, o);
  MUST(writer_end(&w) == ERR_OK && w.n_bytes == OFFER_BYTES);
}

enum err answer_read(const uint8_t *bytes, size_t n, struct answer *out_answer) {
  struct answer a;
  struct cursor c;
  cursor_init(&c, bytes, n);
  a.verdict = reason_from_code(cursor_u8(&c));
  a.version = cursor_u16(&c);
  offer_get(&c, &a.own);
  if (a.verdict == ERR_OK)
    demand(&c, a.own.session_index != 0 && a.version >= a.own.version_min && a.version <= a.own.version_max);
  else
    demand(&c, (a.verdict == ERR_VERSION || a.verdict == ERR_SWARM) && a.own.session_index == 0 && a.version == 0);
  if (cursor_end(&c) != ERR_OK)
    return ERR_MESSAGE;
  *out_answer = a;
  return ERR_OK;
}

void answer_write(const struct answer *a, uint8_t out_bytes[ANSWER_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, ANSWER_BYTES);
  writer_u8(&w, reason_code(a->verdict));
  writer_u16(&w, a->version);
  offer_put(&w, &a->own);
  MUST(writer_end(&w) == ERR_OK && w.n_bytes == ANSWER_BYTES);
}
