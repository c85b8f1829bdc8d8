#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/round_json.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "base/must.h"

static const size_t ONLY_JOB = 0; /* this version runs one job an agent */

/* ---- gossip → round machine --------------------------------------------------------------------------------------- */

static void on_session(void *context, size_t peer, bool is_up, enum err reason) {
  struct agent *a = context;
  round_on_session(a->round, peer, is_up, reason, clock_ms());
  log_event(LOG_INFO, is_up ? "peer-connected" : "peer-disconnected", a->names[peer],
            LOG_FIELDS(log_text("reason", err_name(reason))));
}

/* Is this really a manifest of ours? Only then does the claim count. */
static bool is_own(const struct agent *a, const uint8_t *bytes, struct manifest *out) {
  return manifest_read(bytes, MANIFEST_BYTES, out) == ERR_OK &&
         identity_key_equal(&out->origin, identity_public(a->identity)) && digest_equal(&out->job, &a->job) &&
         manifest_verify(out) == ERR_OK;
}

static void on_hello(void *context, size_t peer, size_t job, const struct hello_job *hello) {
  struct agent *a = context;
  (void)job;
  struct manifest proof;
  bool is_proved = hello->has_proof && is_own(a, hello->proof, &proof);
  if (hello->has_proof && !is_proved)
    gossip_count(a->gossip, peer, ERR_FALSE_HISTORY);
  round_on_hello(a->round, peer, hello, is_proved ? &proof : NULL, clock_ms());
}

static void on_refused_job(void *context, size_t peer, size_t job, enum err reason) {
  struct agent *a = context;
  (void)job;
  round_on_refused_job(a->round, peer, reason, clock_ms());
}

static void on_state(void *context, size_t peer, size_t job, const struct wire_state *state) {
  struct agent *a = context;
  (void)job;
  round_on_state(a->round, peer, state, clock_ms());
}

static void remember_proof(struct agent *a, size_t peer, const struct manifest *m, const uint8_t *bytes) {
  struct manifest held;
  if (a->has_proof[peer] && manifest_read(a->proofs[peer], MANIFEST_BYTES, &held) == ERR_OK &&
      manifest_compare_position(m, &held) <= 0)
    return;
  memcpy(a->proofs[peer], bytes, MANIFEST_BYTES);
  a->has_proof[peer] = true;
}

static void on_manifest(void *context, size_t peer, size_t job, const struct manifest *m, const uint8_t *bytes) {
  struct agent *a = context;
  (void)job;
  remember_proof(a, peer, m, bytes);
  round_on_manifest(a->round, peer, m, clock_ms());
}

static void on_payload(void *context, size_t peer, size_t job, const struct manifest *m, uint8_t *payload) {
  struct agent *a = context;
  (void)job;
  round_on_payload(a->round, peer, m, payload, clock_ms());
}

static void on_fetch_failed(void *context, size_t peer, size_t job, const struct manifest *m, enum err reason) {
  struct agent *a = context;
  (void)job;
  (void)m;
  round_on_failed(a->round, peer, reason, clock_ms());
}

static void on_answer(void *context, size_t peer, size_t job, uint64_t first, enum err reason) {
  struct agent *a = context;
  (void)job;
  (void)first;
  round_on_failed(a->round, peer, reason, clock_ms());
}

static void on_done(void *context, size_t peer, size_t job, uint64_t sequence, enum err outcome) {
  struct agent *a = context;
  (void)job;
  round_on_done(a->round, peer, sequence, outcome, clock_ms());
}

static void fill_hello(void *context, size_t peer, size_t job, struct hello_job *out_hello) {
  struct agent *a = context;
  (void)job;
  round_fill_hello(a->round, peer, out_hello);
  out_hello->has_proof = a->has_proof[peer];
  memcpy(out_hello->proof, a->proofs[peer], MANIFEST_BYTES);
}

static void fill_state(void *context, size_t peer, size_t job, struct wire_state *out_state) {
  struct agent *a = context;
  (void)job;
  round_fill_state(a->round, peer, out_state);
  trainer_progress(a->trainer, &out_state->progress, &out_state->progress_total);
}

static enum err find_manifest(void *context, size_t peer, size_t job, enum manifest_kind kind, uint64_t first, size_t i,
                              uint8_t out_bytes[MANIFEST_BYTES]) {
  struct agent *a = context;
  (void)peer;
  (void)job;
  return outbox_find(&a->outbox, kind, first, i, out_bytes);
}

static enum err read_payload(void *context, size_t job, const struct digest *root, uint64_t offset, uint8_t *out,
                             size_t n) {
  struct agent *a = context;
  (void)job;
  return outbox_read(&a->outbox, root, offset, out, n);
}

struct gossip_events agent_gossip_events(struct agent *a) {
  return (struct gossip_events){
      .context = a,
      .on_session = on_session,
      .on_hello = on_hello,
      .on_refused_job = on_refused_job,
      .on_state = on_state,
      .on_manifest = on_manifest,
      .on_payload = on_payload,
      .on_fetch_failed = on_fetch_failed,
      .on_answer = on_answer,
      .on_done = on_done,
      .fill_hello = fill_hello,
      .fill_state = fill_state,
      .find_manifest = find_manifest,
      .read_payload = read_payload,
  };
}

/* ---- round machine → gossip, trainer, scribe ---------------------------------------------------------------------- */

static void port_ask(void *context, size_t peer, enum manifest_kind kind, uint64_t first, size_t n) {
  struct agent *a = context;
  gossip_ask(a->gossip, peer, ONLY_JOB, kind, first, n);
}

static enum err port_fetch(void *context, size_t peer, const struct manifest *m) {
  struct agent *a = context;
  return gossip_fetch(a->gossip, peer, ONLY_JOB, m);
}

static void port_cancel(void *context, size_t peer) {
  struct agent *a = context;
  gossip_fetch_cancel(a->gossip, peer, ONLY_JOB);
}

static void port_train(void *context, struct trainer_job *job) {
  struct agent *a = context;
  trainer_put(a->trainer, job);
}

static void port_write(void *context, struct scribe_job *job) {
  struct agent *a = context;
  if (job->kind == SCRIBE_PUBLISH)
    outbox_prepare(&a->outbox, job);
  scribe_put(a->scribe, job);
}

static void port_sign(void *context, struct manifest *m, uint8_t out_bytes[MANIFEST_BYTES]) {
  struct agent *a = context;
  manifest_sign(m, a->identity);
  manifest_write(m, out_bytes);
}

static void port_offer(void *context, const uint8_t manifest[MANIFEST_BYTES]) {
  struct agent *a = context;
  for (size_t i = 0; i < a->config->n_peers; i++)
    gossip_offer(a->gossip, i, ONLY_JOB, manifest);
}

static void port_state_changed(void *context) {
  struct agent *a = context;
  gossip_state_changed(a->gossip, ONLY_JOB);
}

static void port_done(void *context, size_t peer, uint64_t sequence, enum err outcome) {
  struct agent *a = context;
  gossip_done(a->gossip, peer, ONLY_JOB, sequence, outcome);
}

static void port_count(void *context, size_t peer, enum err reason) {
  struct agent *a = context;
  gossip_count(a->gossip, peer, reason);
}

static void write_event(struct agent *a, const char *name, const char *peer, const char *text) {
  struct scribe_job *job = calloc(1, sizeof *job);
  if (!job)
    return; /* the log has it */
  job->kind = SCRIBE_EVENT;
  job->at_unix_s = time(NULL);
  strncpy(job->event_name, name, sizeof job->event_name - 1);
  strncpy(job->event_peer, peer ? peer : "", sizeof job->event_peer - 1);
  strncpy(job->event_text, text, sizeof job->event_text - 1);
  scribe_put(a->scribe, job);
}

/* Names of the peers that the last merge had to do without, and why: "mec-03:late mec-09:absent". */
static void name_missing(const struct agent *a, char *out_text, size_t capacity) {
  size_t n = 0;
  out_text[0] = '\0';
  for (size_t i = 0; i < a->config->n_peers && n < capacity; i++) {
    struct round_peer_view p;
    round_peer_view(a->round, i, &p);
    if (p.last_reason != ERR_OK)
      n += (size_t)snprintf(out_text + n, capacity - n, "%s%s:%s", n ? " " : "", a->names[i], err_name(p.last_reason));
  }
}

static void log_round(struct agent *a) {
  struct round_view v;
  char label[ROUND_LABEL_BYTES], missing[MAX_REASON_BYTES];
  round_view(a->round, &v);
  round_label_write(v.committed, label);
  name_missing(a, missing, sizeof missing);
  struct log_field fields[8] = {log_text("round", label), log_integer("merged", v.n_merged),
                                log_integer("of", v.n_expected)};
  size_t n = 3;
  if (v.has_loss)
    fields[n++] = log_real("loss", v.train_loss);
  if (v.metrics.has_local)
    fields[n++] = log_real("local", v.metrics.local_headline);
  if (v.metrics.has_global)
    fields[n++] = log_real("global", v.metrics.global_headline);
  if (missing[0])
    fields[n++] = log_text("missing", missing);
  log_event(LOG_INFO, "round-committed", NULL, fields);
}

/* What is not worth a warning. */
static enum log_level level_of(const char *name) {
  static const char *const good_news[] = {"alone-over", "finished", "jumped", "adopted", "peer-back", "resumed"};
  for (size_t i = 0; i < sizeof good_news / sizeof *good_news; i++)
    if (strcmp(name, good_news[i]) == 0)
      return LOG_INFO;
  return LOG_WARNING;
}

static void port_note(void *context, const char *name, size_t peer, const char *text) {
  struct agent *a = context;
  const char *who = peer == SIZE_MAX ? NULL : a->names[peer];
  if (strcmp(name, "round-committed") == 0) {
    log_round(a); /* its row says the rest */
    return;
  }
  log_event(level_of(name), name, who, LOG_FIELDS(log_text("text", text)));
  write_event(a, name, who, text);
}

struct round_ports agent_round_ports(struct agent *a) {
  return (struct round_ports){
      .context = a,
      .inbox = {.context = a, .ask = port_ask, .fetch = port_fetch, .cancel = port_cancel},
      .train = port_train,
      .write = port_write,
      .sign = port_sign,
      .offer = port_offer,
      .state_changed = port_state_changed,
      .done = port_done,
      .count = port_count,
      .note = port_note,
  };
}

/* ---- results ------------------------------------------------------------------------------------------------------ */

/* Whether the round machine can go on from it, as struct trainer_result says. */
static bool is_usable(const struct trainer_result *r) {
  bool is_merge = r->kind == JOB_MERGE || r->kind == JOB_ADOPT;
  return !is_merge || r->error == ERR_OK || r->error == (r->kind == JOB_MERGE ? ERR_MERGE_REFUSED : ERR_NOT_FOUND);
}

static void take_trained(struct agent *a, struct trainer_result *r) {
  bool is_load = r->kind == JOB_LOAD;
  enum err e = r->error;
  if (!is_usable(r)) {
    agent_fail(a, EXIT_INTERNAL, "merge-failed", err_sentence(e));
    trainer_result_free(r);
    return;
  }
  if (is_load && e != ERR_OK)
    agent_fail(a, EXIT_USAGE, "data-refused", r->sentence);
  else if (is_load)
    log_event(LOG_INFO, "data-loaded", NULL,
              LOG_FIELDS(log_integer("train", r->n_samples), log_integer("validation", r->n_validation),
                         log_integer("test", r->n_test), log_integer("global_test", r->n_global_test),
                         log_text("warning", r->sentence)));
  round_on_trained(a->round, r, clock_ms());
}

static void take_written(struct agent *a, struct scribe_result *r) {
  bool is_round = r->kind == SCRIBE_PUBLISH || r->kind == SCRIBE_COMMIT || r->kind == SCRIBE_RAISE_EPOCH;
  if (is_round && r->error != ERR_OK && !err_is_temporary(r->error)) {
    char sentence[MAX_PATH_BYTES + MAX_REASON_BYTES];
    snprintf(sentence, sizeof sentence, "%s: a round could not be written: %s; a restart recovers",
             a->config->state_dir, err_sentence(r->error));
    agent_fail(a, EXIT_INTERNAL, "store-failed", sentence);
    scribe_result_free(r);
    return;
  }
  if (r->kind == SCRIBE_PUBLISH && r->error == ERR_OK)
    outbox_publish(&a->outbox, r);
  if (r->kind == SCRIBE_RAISE_EPOCH && r->error == ERR_OK) {
    a->boot_epoch = r->boot_epoch;
    gossip_set_boot_epoch(a->gossip, r->boot_epoch);
  }
  if (r->kind == SCRIBE_QUERY)
    agent_answer_query(a, r);
  round_on_written(a->round, r, clock_ms());
}

void agent_take_results(struct agent *a) {
  uint64_t sent = gossip_sent_bytes(a->gossip), received = gossip_received_bytes(a->gossip);
  round_set_traffic(a->round, sent, received);
  for (struct trainer_result *r; !a->is_stopping && (r = trainer_poll(a->trainer));)
    take_trained(a, r);
  for (struct scribe_result *r; !a->is_stopping && (r = scribe_poll(a->scribe));)
    take_written(a, r);
}

void agent_take_notes(struct agent *a) {
  for (struct gossip_note n; gossip_note_take(a->gossip, &n);)
    log_event(LOG_WARNING, err_name(n.reason), n.peer == SIZE_MAX ? "stranger" : a->names[n.peer],
              LOG_FIELDS(log_text("text", n.text)));
  for (size_t i = 0; i < a->config->n_peers; i++) {
    struct gossip_peer_info info;
    gossip_peer_info(a->gossip, i, &info);
    if (!info.has_session)
      round_on_session(a->round, i, false, info.reason, clock_ms());
  }
}
