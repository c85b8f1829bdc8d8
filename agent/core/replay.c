#include "agent/core/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/round_state.h"

enum { MAX_JOBS = 8, MAX_OUTPUT_BYTES = 1 << 20 };

struct replay {
  const uint8_t *bytes; /* [n_bytes], of which `at` are done */
  size_t n_bytes, at;
  struct round_machine *machine;
  struct round_lent *lent;
  struct trainer_job *train[MAX_JOBS]; /* that wait for their results, oldest first */
  struct scribe_job *write[MAX_JOBS];
  size_t n_train, n_write;
  uint64_t last_ms, n_gaps;
  enum err error; /* found by a port */
  bool is_cut;    /* what comes of the event is not recorded: nothing is compared until the next checkpoint */
  struct replay_event event;
  struct record_input in;
  uint8_t output[MAX_OUTPUT_BYTES];
};

/* ---- records ------------------------------------------------------------------------------------------------------ */

/* The record at `at`; false: there is none. */
static enum err peek(const struct replay *r, struct record_head *out_head, const uint8_t **out_body, bool *out_has) {
  struct cursor c;
  cursor_init(&c, r->bytes + r->at, r->n_bytes - r->at);
  *out_has = c.left > 0;
  if (!*out_has)
    return ERR_OK;
  if (c.left < RECORD_HEAD_BYTES)
    return ERR_TRUNCATED;
  record_head_read(&c, out_head);
  if (c.failed)
    return ERR_SYNTAX;
  if (out_head->n_body > c.left)
    return ERR_TRUNCATED;
  *out_body = c.at;
  return ERR_OK;
}

static void take(struct replay *r, const struct record_head *h) {
  r->at += RECORD_HEAD_BYTES + h->n_body;
}

static const char *peer_name(const struct replay *r, uint16_t peer) {
  return peer < r->machine->self.n_peers ? r->machine->self.peers[peer].name : "";
}

static void describe(const struct replay *r, const struct record_head *h, const uint8_t *body,
                     char out_text[MAX_REASON_BYTES]) {
  char text[MAX_REASON_BYTES];
  const char *peer = peer_name(r, h->peer);
  record_text(h, body, text);
  snprintf(out_text, MAX_REASON_BYTES, "%.170s%s%s", text, peer[0] ? " of " : "", peer);
}

static void differ(struct replay *r, const char *recorded, const char *now) {
  if (r->event.differs)
    return;
  r->event.differs = true;
  snprintf(r->event.recorded, sizeof r->event.recorded, "%s", recorded);
  snprintf(r->event.now, sizeof r->event.now, "%s", now);
}

/* ---- outputs ------------------------------------------------------------------------------------------------------ */

/* What was recorded of the next output, which `out` must be; *out_body NULL: nothing, or nothing is compared any more. */
static void expect(struct replay *r, const struct round_output *out) {
  struct record_head then, now;
  const uint8_t *body;
  bool has;
  struct writer w;
  struct cursor c;
  char recorded[MAX_REASON_BYTES], text[MAX_REASON_BYTES];
  if (r->is_cut || r->event.differs || r->error)
    return;
  r->error = peek(r, &then, &body, &has);
  if (r->error)
    return;
  if (!has || (then.kind == RECORD_CHECKPOINT && !then.detail)) {
    r->is_cut = true;
    return;
  }
  writer_init(&w, r->output, sizeof r->output);
  record_write_output(out, then.at_ms, &w);
  if (w.failed) {
    r->error = ERR_SYNTAX;
    return;
  }
  size_t n = RECORD_HEAD_BYTES + then.n_body;
  if (w.n_bytes == n && memcmp(r->output, r->bytes + r->at, n) == 0) {
    take(r, &then);
    return;
  }
  cursor_init(&c, r->output, w.n_bytes);
  record_head_read(&c, &now);
  describe(r, &now, c.at, text);
  describe(r, &then, body, recorded);
  differ(r, then.kind >= FIRST_OUTPUT && then.kind < RECORD_CHECKPOINT ? recorded : "nothing more", text);
}

/* The recorded output of a kind whose answer the machine needs. */
static const uint8_t *recorded_body(struct replay *r, enum record_kind kind, size_t n_least) {
  struct record_head h;
  const uint8_t *body;
  bool has;
  if (r->is_cut || r->event.differs || r->error || peek(r, &h, &body, &has) != ERR_OK || !has)
    return NULL;
  return h.kind == kind && h.n_body >= n_least ? body : NULL;
}

static void port_ask(void *context, size_t peer, enum manifest_kind kind, uint64_t first, size_t n) {
  expect(context,
         &(struct round_output){.kind = RECORD_ASK, .detail = (uint8_t)kind, .peer = peer, .first = first, .n = n});
}

static enum err port_fetch(void *context, size_t peer, const struct manifest *m) {
  enum { N_REASON = 2 };
  uint8_t bytes[MANIFEST_BYTES];
  manifest_write(m, bytes);
  const uint8_t *body = recorded_body(context, RECORD_FETCH, N_REASON);
  enum err reason = body ? (enum err)(body[0] | body[1] << 8) : ERR_NO_SESSION;
  reason = reason < ERR_COUNT ? reason : ERR_NO_SESSION;
  expect(context, &(struct round_output){.kind = RECORD_FETCH, .peer = peer, .reason = reason, .manifest = bytes});
  return reason;
}

static void port_cancel(void *context, size_t peer) {
  expect(context, &(struct round_output){.kind = RECORD_CANCEL, .peer = peer});
}

static void port_train(void *context, struct trainer_job *job) {
  struct replay *r = context;
  expect(r, &(struct round_output){.kind = RECORD_TRAIN, .detail = (uint8_t)job->kind, .peer = SIZE_MAX, .train = job});
  if (r->n_train < MAX_JOBS) {
    r->train[r->n_train++] = job;
    return;
  }
  r->error = ERR_SYNTAX;
  trainer_job_free(job);
}

static void port_write(void *context, struct scribe_job *job) {
  struct replay *r = context;
  expect(r, &(struct round_output){.kind = RECORD_WRITE, .detail = (uint8_t)job->kind, .peer = SIZE_MAX, .write = job});
  if (r->n_write < MAX_JOBS) {
    r->write[r->n_write++] = job;
    return;
  }
  r->error = ERR_SYNTAX;
  scribe_job_free(job);
}

/* Origin and signature are the record's, everything else must be the machine's. */
static void port_sign(void *context, struct manifest *m, uint8_t out_bytes[MANIFEST_BYTES]) {
  enum { N_BEFORE = 2 + 8 + 8 };
  const uint8_t *body = recorded_body(context, RECORD_SIGN, N_BEFORE + MANIFEST_BYTES);
  struct manifest then;
  if (body && manifest_read(body + N_BEFORE, MANIFEST_BYTES, &then) == ERR_OK) {
    m->origin = then.origin;
    m->signature = then.signature;
  }
  manifest_write(m, out_bytes);
  expect(context, &(struct round_output){.kind = RECORD_SIGN, .peer = SIZE_MAX, .manifest = out_bytes});
}

static void port_offer(void *context, const uint8_t manifest[MANIFEST_BYTES]) {
  expect(context, &(struct round_output){.kind = RECORD_OFFER, .peer = SIZE_MAX, .manifest = manifest});
}

static void port_state_changed(void *context) {
  expect(context, &(struct round_output){.kind = RECORD_CHANGED, .peer = SIZE_MAX});
}

static void port_done(void *context, size_t peer, uint64_t sequence, enum err outcome) {
  expect(context, &(struct round_output){.kind = RECORD_TELL_DONE, .peer = peer, .first = sequence, .reason = outcome});
}

static void port_count(void *context, size_t peer, enum err reason) {
  expect(context, &(struct round_output){.kind = RECORD_COUNT, .peer = peer, .reason = reason});
}

static void port_note(void *context, const char *name, size_t peer, const char *text) {
  expect(context, &(struct round_output){.kind = RECORD_NOTE, .peer = peer, .name = name, .text = text});
}

static const struct round_ports ports = {
    .inbox = {.ask = port_ask, .fetch = port_fetch, .cancel = port_cancel},
    .train = port_train,
    .write = port_write,
    .sign = port_sign,
    .offer = port_offer,
    .state_changed = port_state_changed,
    .done = port_done,
    .count = port_count,
    .note = port_note,
};

/* ---- inputs ------------------------------------------------------------------------------------------------------- */

/* What stands for so many bytes that nobody looks at. */
static enum err stand_in(uint64_t n, struct buffer *out) {
  *out = (struct buffer){.bytes = n > 0 ? malloc(1) : NULL, .n_bytes = (size_t)n};
  return n > 0 && !out->bytes ? ERR_NO_MEMORY : ERR_OK;
}

static enum err feed_start(struct replay *r, uint64_t now_ms) {
  struct buffer half, model;
  if (r->machine->phase != PHASE_LOADING || r->n_train > 0)
    return ERR_SYNTAX;
  enum err e = stand_in(r->in.first, &half);
  if (e == ERR_OK && (e = stand_in(r->in.second, &model)) != ERR_OK)
    free(half.bytes);
  if (e == ERR_OK)
    round_start(r->machine, &r->in.resume, half, model, r->in.positions, now_ms);
  return e;
}

static enum err feed_payload(struct replay *r, size_t peer, uint64_t now_ms) {
  const struct inbox *in = &r->machine->peers[peer].inbox;
  bool has_room = in->n_queue < KEEP_PAYLOADS || r->in.manifest.kind == MANIFEST_FULL;
  uint8_t *payload = in->is_fetching && has_room ? malloc(1) : NULL;
  if (!payload)
    return in->is_fetching && has_room ? ERR_NO_MEMORY : ERR_SYNTAX;
  round_on_payload(r->machine, peer, &r->in.manifest, payload, now_ms);
  return ERR_OK;
}

/* As struct trainer_result says. */
static bool may_be_trained(const struct trainer_result *t) {
  if (t->kind == JOB_MERGE)
    return t->error == ERR_OK || t->error == ERR_MERGE_REFUSED;
  return t->kind != JOB_ADOPT || t->error == ERR_OK || t->error == ERR_NOT_FOUND;
}

/* Its rows are the job's, with what became of each. */
static enum err take_rows(struct trainer_job *job, const struct record_input *in, struct trainer_result *t) {
  if (in->n_outcomes != job->n_peers)
    return ERR_SYNTAX;
  for (size_t i = 0; i < job->n_peers; i++) {
    struct merge_peer *row = &job->peers[i];
    if (in->outcomes[i].n_applied > row->n_links)
      return ERR_SYNTAX;
    row->reason = in->outcomes[i].reason;
    row->n_applied = in->outcomes[i].n_applied;
    row->fate = in->outcomes[i].fate;
  }
  t->peers = job->peers;
  t->n_peers = job->n_peers;
  job->peers = NULL; /* now the result's */
  job->n_peers = 0;
  return ERR_OK;
}

static enum err feed_trained(struct replay *r, uint64_t now_ms) {
  size_t at = 0;
  while (at < r->n_train && r->train[at]->kind != r->in.trained.kind)
    at++;
  if (at == r->n_train || !may_be_trained(&r->in.trained))
    return ERR_SYNTAX;
  struct trainer_result *t = malloc(sizeof *t);
  if (!t)
    return ERR_NO_MEMORY;
  *t = r->in.trained;
  enum err e = take_rows(r->train[at], &r->in, t);
  if (stand_in(t->payload.n_bytes, &t->payload) != ERR_OK || stand_in(t->half.n_bytes, &t->half) != ERR_OK ||
      stand_in(t->model.n_bytes, &t->model) != ERR_OK || stand_in(t->shadow.n_bytes, &t->shadow) != ERR_OK)
    e = ERR_NO_MEMORY;
  if (e != ERR_OK) {
    trainer_result_free(t);
    return e;
  }
  trainer_job_free(r->train[at]);
  for (r->n_train--; at < r->n_train; at++)
    r->train[at] = r->train[at + 1];
  round_on_trained(r->machine, t, now_ms);
  return ERR_OK;
}

/* As the agent hands results on: other failures end it before. */
static bool may_be_written(const struct replay *r, const struct scribe_result *w) {
  const struct round_machine *m = r->machine;
  bool has_place = !m->unwritten[0] || !m->unwritten[1];
  if (w->kind == SCRIBE_PUBLISH && w->error == ERR_OK && !m->publishing)
    return false;
  return w->error == ERR_OK || w->kind == SCRIBE_LOAD_MODEL || scribe_is_refused(w->kind, w->error) ||
         (err_is_temporary(w->error) && has_place);
}

static enum err feed_written(struct replay *r, uint64_t now_ms) {
  size_t at = 0;
  while (at < r->n_write && r->write[at]->kind != r->in.written.kind)
    at++;
  if (at == r->n_write || !may_be_written(r, &r->in.written))
    return ERR_SYNTAX;
  struct scribe_result *w = malloc(sizeof *w);
  if (!w)
    return ERR_NO_MEMORY;
  *w = r->in.written;
  w->payload_fd = w->copy_fd = -1;
  if (stand_in(w->half.n_bytes, &w->half) != ERR_OK || stand_in(w->model.n_bytes, &w->model) != ERR_OK) {
    scribe_result_free(w);
    return ERR_NO_MEMORY;
  }
  if (err_is_temporary(w->error))
    w->job = r->write[at];
  else
    scribe_job_free(r->write[at]);
  for (r->n_write--; at < r->n_write; at++)
    r->write[at] = r->write[at + 1];
  round_on_written(r->machine, w, now_ms);
  return ERR_OK;
}

static double double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static enum err feed_peer(struct replay *r, const struct record_head *h) {
  struct round_machine *m = r->machine;
  const struct record_input *in = &r->in;
  size_t peer = h->peer;
  switch (h->kind) {
  case RECORD_SESSION:
    round_on_session(m, peer, in->flag, in->reason, h->at_ms);
    break;
  case RECORD_HELLO:
    round_on_hello(m, peer, &in->hello, in->flag ? &in->manifest : NULL, h->at_ms);
    break;
  case RECORD_REFUSED_JOB:
    round_on_refused_job(m, peer, in->reason, h->at_ms);
    break;
  case RECORD_STATE:
    round_on_state(m, peer, &in->state, h->at_ms);
    break;
  case RECORD_MANIFEST:
    round_on_manifest(m, peer, &in->manifest, h->at_ms);
    break;
  case RECORD_PAYLOAD:
    return feed_payload(r, peer, h->at_ms);
  case RECORD_AFFINITY:
    round_set_affinity(m, peer, double_of_bits(in->first));
    break;
  case RECORD_FAILED:
    round_on_failed(m, peer, in->reason, h->at_ms);
    break;
  default:
    round_on_done(m, peer, in->first, in->reason, h->at_ms);
    break;
  }
  return ERR_OK;
}

static enum err feed(struct replay *r, const struct record_head *h) {
  struct round_machine *m = r->machine;
  const struct record_input *in = &r->in;
  enum err answer = ERR_OK; /* to people, who are not here */
  switch (h->kind) {
  case RECORD_START:
    return feed_start(r, h->at_ms);
  case RECORD_TRAINED:
    return feed_trained(r, h->at_ms);
  case RECORD_WRITTEN:
    return feed_written(r, h->at_ms);
  case RECORD_EPOCH_RISES:
    round_epoch_rises(m, in->first);
    break;
  case RECORD_EPOCH_ROSE:
    round_epoch_rose(m, in->first);
    break;
  case RECORD_ROLL_BACK:
    answer = round_on_roll_back(m, in->label, in->text, (int64_t)in->first);
    break;
  case RECORD_IMPORT:
    answer = round_on_import(m, in->text);
    break;
  case RECORD_TIGHT:
    round_set_tight(m, in->flag);
    break;
  case RECORD_TRAFFIC:
    round_set_traffic(m, in->first, in->second);
    break;
  case RECORD_RELEASE:
    round_release(m);
    break;
  case RECORD_TICK:
    round_tick(m, h->at_ms);
    break;
  default:
    return feed_peer(r, h);
  }
  return answer == ERR_NO_MEMORY ? answer : ERR_OK;
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

static void forget_jobs(struct replay *r) {
  while (r->n_train > 0)
    trainer_job_free(r->train[--r->n_train]);
  while (r->n_write > 0)
    scribe_job_free(r->write[--r->n_write]);
}

static enum err load(struct replay *r, const struct record_head *h, const uint8_t *body) {
  struct round_machine *m;
  struct round_lent *lent;
  struct cursor c;
  cursor_init(&c, body, h->n_body);
  enum err e = round_state_read(&c, &ports, r, &lent, &m);
  if (e != ERR_OK)
    return e;
  forget_jobs(r);
  round_free(r->machine);
  round_lent_free(r->lent);
  r->machine = m;
  r->lent = lent;
  r->is_cut = false;
  return ERR_OK;
}

static enum err compare(struct replay *r, const struct record_head *h, const uint8_t *body) {
  uint8_t *now = malloc((size_t)h->n_body + 1);
  if (!now)
    return ERR_NO_MEMORY;
  struct writer w;
  writer_init(&w, now, h->n_body);
  if (r->n_train + r->n_write == 0 && round_state_is_quiet(r->machine))
    round_state_write(r->machine, &w);
  if (w.failed || w.n_bytes != h->n_body || memcmp(now, body, h->n_body) != 0)
    differ(r, "the state that the checkpoint has", "another one");
  free(now);
  return ERR_OK;
}

static enum err on_checkpoint(struct replay *r, const struct record_head *h, const uint8_t *body) {
  if (h->detail > 1)
    return ERR_SYNTAX;
  if (h->detail && !r->is_cut)
    return compare(r, h, body);
  r->n_gaps++;
  return load(r, h, body);
}

static enum err on_input(struct replay *r, const struct record_head *h, const uint8_t *body) {
  struct cursor c;
  if (h->kind >= FIRST_OUTPUT)
    return ERR_SYNTAX;
  cursor_init(&c, body, h->n_body);
  enum err e = record_read_input(h, &c, r->machine->self.n_peers, &r->in);
  if (e == ERR_OK)
    e = feed(r, h);
  return e == ERR_OK ? r->error : e;
}

/* Everything that was recorded of the event must have happened. */
static enum err on_end(struct replay *r) {
  struct record_head h;
  const uint8_t *body;
  bool has;
  char text[MAX_REASON_BYTES];
  enum err e = peek(r, &h, &body, &has);
  if (e != ERR_OK || !has || h.kind < FIRST_OUTPUT || h.kind == RECORD_CHECKPOINT)
    return e;
  describe(r, &h, body, text);
  differ(r, text, "nothing more");
  return ERR_OK;
}

enum err replay_next(struct replay *r, bool *out_has) {
  struct record_head h;
  const uint8_t *body;
  *out_has = false;
  if (r->event.differs)
    return ERR_OK;
  enum err e = peek(r, &h, &body, out_has);
  if (e != ERR_OK || !*out_has)
    return e;
  *out_has = false;
  if (h.at_ms < r->last_ms)
    return ERR_SYNTAX;
  r->last_ms = h.at_ms;
  r->event.n++;
  r->event.at_ms = h.at_ms;
  r->event.peer = peer_name(r, h.peer);
  record_text(&h, body, r->event.text);
  take(r, &h);
  e = h.kind == RECORD_CHECKPOINT ? on_checkpoint(r, &h, body) : on_input(r, &h, body);
  if (e == ERR_OK && !r->event.differs)
    e = on_end(r);
  *out_has = e == ERR_OK;
  return e;
}

enum err replay_new(const uint8_t *bytes, size_t n_bytes, struct replay **out_replay) {
  struct replay *r = calloc(1, sizeof *r);
  struct record_head h;
  const uint8_t *body;
  bool has;
  if (!r)
    return ERR_NO_MEMORY;
  r->bytes = bytes;
  r->n_bytes = n_bytes;
  r->event.peer = "";
  enum err e = peek(r, &h, &body, &has);
  if (e == ERR_OK && (!has || h.kind != RECORD_CHECKPOINT || h.detail > 1))
    e = has ? ERR_SYNTAX : ERR_TRUNCATED;
  if (e == ERR_OK)
    e = load(r, &h, body);
  if (e != ERR_OK) {
    replay_free(r);
    return e;
  }
  take(r, &h);
  r->last_ms = h.at_ms;
  *out_replay = r;
  return ERR_OK;
}

void replay_free(struct replay *r) {
  if (!r)
    return;
  forget_jobs(r);
  round_free(r->machine);
  round_lent_free(r->lent);
  free(r);
}

const struct replay_event *replay_event(const struct replay *r) {
  return &r->event;
}

uint64_t replay_gaps(const struct replay *r) {
  return r->n_gaps;
}

const struct round_machine *replay_machine(const struct replay *r) {
  return r->machine;
}
