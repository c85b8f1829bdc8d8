#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/round_json.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "agent/text.h"
#include "base/fault_point.h"
#include "base/must.h"

/* ---- gossip → round machines -------------------------------------------------------------------------------------- */

static struct agent_job *job_of(void *context, size_t job) {
  struct agent *a = context;
  MUST(job < a->n_jobs);
  return a->jobs[job];
}

static void on_session(void *context, size_t peer, bool is_up, enum err reason) {
  struct agent *a = context;
  for (size_t i = 0; i < a->n_jobs; i++)
    if (!a->jobs[i]->is_stopped) {
      round_on_session(a->jobs[i]->round, peer, is_up, reason, clock_ms());
      if (!is_up) {
        pooling_on_gone(a->jobs[i], peer);
        clustering_on_gone(a->jobs[i], peer);
      }
    }
  book_on_session(a, peer, is_up);
  const char *name = is_up ? "peer-connected" : "peer-disconnected";
  struct gossip_peer_info info;
  gossip_peer_info(a->gossip, peer, &info);
  struct log_field fields[3] = {log_text("reason", err_name(reason))};
  if (is_up && info.via != SIZE_MAX)
    fields[1] = log_text("via", a->peers[info.via].name);
  log_event(LOG_INFO, name, a->peers[peer].name, fields);
  agent_write_event(a, name, a->peers[peer].name, is_up ? "a session stands" : err_sentence(reason));
}

/* Is this really a manifest of ours? Only then does the claim count. */
static bool is_own(const struct agent_job *j, const uint8_t *bytes, struct manifest *out) {
  return manifest_read(bytes, MANIFEST_BYTES, out) == ERR_OK &&
         identity_key_equal(&out->origin, identity_public(j->agent->identity)) && digest_equal(&out->job, &j->id) &&
         manifest_verify(out) == ERR_OK;
}

static void on_hello(void *context, size_t peer, size_t job, const struct hello_job *hello) {
  struct agent_job *j = job_of(context, job);
  struct manifest proof;
  bool is_proved = hello->has_proof && is_own(j, hello->proof, &proof);
  if (hello->has_proof && !is_proved)
    gossip_count(j->agent->gossip, peer, ERR_FALSE_HISTORY);
  round_on_hello(j->round, peer, hello, is_proved ? &proof : NULL, clock_ms());
  pooling_on_hello(j, peer);
  clustering_on_hello(j, peer);
}

static void on_refused_job(void *context, size_t peer, size_t job, enum err reason) {
  struct agent_job *j = job_of(context, job);
  round_on_refused_job(j->round, peer, reason, clock_ms());
  pooling_on_gone(j, peer);
  clustering_on_gone(j, peer);
}

static void on_state(void *context, size_t peer, size_t job, const struct wire_state *state) {
  round_on_state(job_of(context, job)->round, peer, state, clock_ms());
  serving_judge(context);
}

static void remember_proof(struct agent_job *j, size_t peer, const struct manifest *m, const uint8_t *bytes) {
  struct manifest held;
  if (j->has_proof[peer] && manifest_read(j->proofs[peer], MANIFEST_BYTES, &held) == ERR_OK &&
      manifest_compare_position(m, &held) <= 0)
    return;
  memcpy(j->proofs[peer], bytes, MANIFEST_BYTES);
  j->has_proof[peer] = true;
}

static void on_manifest(void *context, size_t peer, size_t job, const struct manifest *m, const uint8_t *bytes) {
  struct agent_job *j = job_of(context, job);
  remember_proof(j, peer, m, bytes);
  round_on_manifest(j->round, peer, m, clock_ms());
}

static void on_payload(void *context, size_t peer, size_t job, const struct manifest *m, uint8_t *payload) {
  round_on_payload(job_of(context, job)->round, peer, m, payload, clock_ms());
}

static void on_fetch_failed(void *context, size_t peer, size_t job, const struct manifest *m, enum err reason) {
  (void)m;
  round_on_failed(job_of(context, job)->round, peer, reason, clock_ms());
}

static void on_answer(void *context, size_t peer, size_t job, uint64_t first, enum err reason) {
  (void)first;
  round_on_failed(job_of(context, job)->round, peer, reason, clock_ms());
}

static void on_done(void *context, size_t peer, size_t job, uint64_t sequence, enum err outcome) {
  round_on_done(job_of(context, job)->round, peer, sequence, outcome, clock_ms());
}

static void fill_hello(void *context, size_t peer, size_t job, struct hello_job *out_hello) {
  struct agent_job *j = job_of(context, job);
  round_fill_hello(j->round, peer, out_hello);
  out_hello->has_proof = j->has_proof[peer];
  memcpy(out_hello->proof, j->proofs[peer], MANIFEST_BYTES);
}

static void fill_state(void *context, size_t peer, size_t job, struct wire_state *out_state) {
  struct agent_job *j = job_of(context, job);
  round_fill_state(j->round, peer, out_state);
  trainer_progress(j->trainer, &out_state->progress, &out_state->progress_total);
}

static enum err find_manifest(void *context, size_t peer, size_t job, enum manifest_kind kind, uint64_t first, size_t i,
                              uint8_t out_bytes[MANIFEST_BYTES]) {
  struct agent_job *j = job_of(context, job);
  if (kind == MANIFEST_FULL)
    return i > 0 ? ERR_NOT_FOUND : copies_find(j, peer, round_copy_for(j->round, peer), out_bytes);
  return outbox_find_link(&j->outbox, first, i, out_bytes);
}

static enum err read_payload(void *context, size_t job, const struct digest *root, uint64_t offset, uint8_t *out,
                             size_t n) {
  return outbox_read(&job_of(context, job)->outbox, root, offset, out, n);
}

static void on_pool(void *context, size_t peer, size_t job, const struct wire_pool *pool) {
  pooling_on_words(job_of(context, job), peer, pool);
}

static bool wants_sketch(void *context, size_t peer, size_t job, const struct signed_sketch *s) {
  return clustering_wants(job_of(context, job), peer, s);
}

static void on_sketch(void *context, size_t peer, size_t job, const struct signed_sketch *s, const uint8_t *bytes) {
  clustering_on_sketch(job_of(context, job), peer, s, bytes);
}

static void on_ask_job(void *context, size_t peer, const struct digest *job) {
  book_on_ask(context, peer, job);
}

static void on_job_file(void *context, size_t peer, const struct job_file *f, const uint8_t *bytes, size_t n) {
  book_on_file(context, peer, f, bytes, n);
}

const struct gossip_events agent_gossip_events = {
    .on_session = on_session,
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
    .read_payload = read_payload,
};

/* ---- round machine → gossip, trainer, scribe ---------------------------------------------------------------------- */

static void port_ask(void *context, size_t peer, enum manifest_kind kind, uint64_t first, size_t n) {
  struct agent_job *j = context;
  gossip_ask(j->agent->gossip, peer, j->index, kind, first, n);
}

static enum err port_fetch(void *context, size_t peer, const struct manifest *m) {
  struct agent_job *j = context;
  return gossip_fetch(j->agent->gossip, peer, j->index, m);
}

static void port_cancel(void *context, size_t peer) {
  struct agent_job *j = context;
  gossip_fetch_cancel(j->agent->gossip, peer, j->index);
}

static void port_train(void *context, struct trainer_job *job) {
  struct agent_job *j = context;
  trainer_put(j->trainer, job);
}

/* The epoch is the agent's: while one job has it raised, none publishes. */
static void hold_publications(struct agent_job *j, uint64_t above) {
  for (size_t i = 0; i < j->agent->n_jobs; i++)
    if (j->agent->jobs[i] != j && !j->agent->jobs[i]->is_stopped)
      round_epoch_rises(j->agent->jobs[i]->round, above);
}

static void port_write(void *context, struct scribe_job *job) {
  struct agent_job *j = context;
  job->owner = j->index;
  if (job->kind == SCRIBE_PUBLISH)
    outbox_prepare(&j->outbox, job);
  if (job->kind == SCRIBE_RAISE_EPOCH)
    hold_publications(j, job->above);
  scribe_put(j->agent->scribe, job);
}

static void port_sign(void *context, struct manifest *m, uint8_t out_bytes[MANIFEST_BYTES]) {
  struct agent_job *j = context;
  manifest_sign(m, j->agent->identity);
  manifest_write(m, out_bytes);
}

static void port_offer(void *context, const uint8_t manifest[MANIFEST_BYTES]) {
  struct agent_job *j = context;
  FAULT_POINT("offer-begins");
  for (size_t i = 0; i < j->agent->config->n_peers; i++)
    if (round_is_follower(j->round, i))
      gossip_offer(j->agent->gossip, i, j->index, manifest);
  FAULT_POINT("offered");
}

static void port_state_changed(void *context) {
  struct agent_job *j = context;
  gossip_state_changed(j->agent->gossip, j->index);
}

static void port_done(void *context, size_t peer, uint64_t sequence, enum err outcome) {
  struct agent_job *j = context;
  gossip_done(j->agent->gossip, peer, j->index, sequence, outcome);
}

static void port_count(void *context, size_t peer, enum err reason) {
  struct agent_job *j = context;
  gossip_count(j->agent->gossip, peer, reason);
}

/* A full disk refuses what would tell of it: the first events of that time are written when there is room again. */
static void keep_unwritten(struct agent *a, struct scribe_job *job) {
  if (a->n_unwritten < MAX_UNWRITTEN_EVENTS)
    a->unwritten[a->n_unwritten++] = job;
  else
    scribe_job_free(job);
}

void agent_write_event(struct agent *a, const char *name, const char *peer, const char *text) {
  uint32_t n_left_out = 0;
  if (peer && !log_limit_take(&a->event_limit, name, peer, clock_ms(), &n_left_out))
    return;
  struct scribe_job *job = calloc(1, sizeof *job);
  if (!job)
    return; /* the log has it */
  job->kind = SCRIBE_EVENT;
  job->at_unix_s = time(NULL);
  strncpy(job->event_name, name, sizeof job->event_name - 1);
  strncpy(job->event_peer, peer ? peer : "", sizeof job->event_peer - 1);
  text_escape(text, job->event_text, sizeof job->event_text); /* a peer's words may be in it */
  size_t n = strlen(job->event_text);
  if (n_left_out > 0)
    snprintf(job->event_text + n, sizeof job->event_text - n, " (and %" PRIu32 " more like it)", n_left_out);
  if (a->scribe)
    scribe_put(a->scribe, job);
  else
    keep_unwritten(a, job);
}

/* Names of the peers that the last merge had to do without, and why: "mec-03:late mec-09:absent". */
static void name_missing(const struct agent_job *j, char *out_text, size_t capacity) {
  size_t n = 0;
  out_text[0] = '\0';
  for (size_t i = 0; i < j->agent->config->n_peers && n < capacity; i++) {
    struct round_peer_view p;
    round_peer_view(j->round, i, &p);
    if (p.last_reason != ERR_OK)
      n += (size_t)snprintf(out_text + n, capacity - n, "%s%s:%s", n ? " " : "", j->agent->peers[i].name,
                            err_name(p.last_reason));
  }
}

/* "-" where the test set cannot tell models apart; `status` says why. */
static struct log_field log_headline(const char *name, double value) {
  return __builtin_isnan(value) ? log_text(name, "-") : log_real(name, value);
}

/* Its name, with the version where the agent has several jobs. */
static void label_job(const struct agent_job *j, char out_label[JOB_WORDS_BYTES]) {
  const struct job_config *job = &j->config->job;
  if (j->agent->n_jobs > 1)
    job_words_write(job->name, job->version, out_label);
  else
    snprintf(out_label, JOB_WORDS_BYTES, "%s", job->name);
}

static void log_round(const struct agent_job *j) {
  struct round_view v;
  char label[ROUND_LABEL_BYTES], job[JOB_WORDS_BYTES], missing[MAX_REASON_BYTES];
  round_view(j->round, &v);
  round_label_write(v.committed, label);
  label_job(j, job);
  name_missing(j, missing, sizeof missing);
  struct log_field fields[11] = {log_text("job", job), log_text("round", label), log_integer("merged", v.n_merged),
                                 log_integer("of", v.n_expected)};
  size_t n = 4;
  if (v.has_loss)
    fields[n++] = log_real("loss", v.train_loss);
  if (v.metrics.has_local || v.metrics.has_global)
    fields[n++] = log_text("metric", metric_name(contract_metric(j->config->job.contract)));
  if (v.metrics.has_local)
    fields[n++] = log_headline("local", v.metrics.local_headline);
  if (v.metrics.has_global)
    fields[n++] = log_headline("global", v.metrics.global_headline);
  if (missing[0])
    fields[n++] = log_text("missing", missing);
  log_event(LOG_INFO, "round-committed", NULL, fields);
}

/* What is not worth a warning. */
static enum log_level level_of(const char *name) {
  static const char *const good_news[] = {"alone-over", "finished", "jumped",           "adopted",
                                          "peer-back",  "resumed",  "model-rolled-back"};
  for (size_t i = 0; i < sizeof good_news / sizeof *good_news; i++)
    if (strcmp(name, good_news[i]) == 0)
      return LOG_INFO;
  return LOG_WARNING;
}

static void port_note(void *context, const char *name, size_t peer, const char *text) {
  struct agent_job *j = context;
  char job[JOB_WORDS_BYTES];
  const char *who = peer == SIZE_MAX ? NULL : j->agent->peers[peer].name;
  bool has_event = strcmp(name, "model-rolled-back") == 0; /* the store wrote it with the commit */
  if (strcmp(name, "round-committed") == 0) {
    log_round(j); /* its row says the rest */
    serving_on_commit(j);
    serving_judge(j->agent);
    return;
  }
  label_job(j, job);
  log_event(level_of(name), name, who, LOG_FIELDS(log_text("job", job), log_text("text", text)));
  if (!has_event)
    agent_write_event(j->agent, name, who, text);
}

const struct round_ports agent_round_ports = {
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

/* ---- results ------------------------------------------------------------------------------------------------------ */

/* Whether the round machine can go on from it, as struct trainer_result says. */
static bool is_usable(const struct trainer_result *r) {
  bool is_merge = r->kind == JOB_MERGE || r->kind == JOB_ADOPT;
  return !is_merge || r->error == ERR_OK || r->error == (r->kind == JOB_MERGE ? ERR_MERGE_REFUSED : ERR_NOT_FOUND);
}

/* Another task's turn: what is worth a line and an event. */
static void tell_task(struct agent_job *j, const struct continual_figures *f) {
  char text[MAX_REASON_BYTES], why[64] = "";
  if (f->found[0])
    snprintf(why, sizeof why, "; the %s drifted (p = %.1e)", f->found, f->found_p);
  snprintf(text, sizeof text,
           "task %" PRIu32 " of %" PRIu32 " begins, as number %" PRIu32 " here; samples kept of tasks before: %" PRIu64
           "%s",
           f->task + 1, f->n_tasks, f->position + 1, f->n_replay, why);
  log_event(LOG_INFO, "task-begun", NULL, LOG_FIELDS(log_text("job", j->config->job.name), log_text("text", text)));
  agent_write_event(j->agent, "task-begun", NULL, text);
}

static void take_trained(struct agent_job *j, struct trainer_result *r) {
  bool is_load = r->kind == JOB_LOAD;
  enum err e = r->error;
  if (!is_usable(r)) {
    agent_fail(j->agent, EXIT_INTERNAL, "merge-failed", err_sentence(e));
    trainer_result_free(r);
    return;
  }
  if (r->kind == JOB_MERGE && r->sentence[0]) {
    log_event(LOG_WARNING, "own-model-kept", NULL,
              LOG_FIELDS(log_text("job", j->config->job.name), log_text("text", r->sentence)));
    agent_write_event(j->agent, "own-model-kept", NULL, r->sentence);
  }
  if (r->model.n_bytes > 0) {
    memcpy(j->local_note, r->local_note, sizeof j->local_note);
    memcpy(j->global_note, r->global_note, sizeof j->global_note);
  }
  j->shadow = r->shadow_figures;
  j->continual = r->continual;
  free(j->mass.peers);
  j->mass = r->account;
  r->account = (struct mass_figures){0}; /* now the job's */
  if (r->stream_note[0]) {
    const char *name = r->is_stream_refused ? "stream-refused" : "stream-lost";
    log_event(LOG_WARNING, name, NULL,
              LOG_FIELDS(log_text("job", j->config->job.name), log_text("text", r->stream_note)));
    agent_write_event(j->agent, name, NULL, r->stream_note);
  }
  if (r->has_new_task)
    tell_task(j, &r->continual);
  if (r->shadow_note[0]) {
    log_event(LOG_WARNING, "shadow-off", NULL,
              LOG_FIELDS(log_text("job", j->config->job.name), log_text("text", r->shadow_note)));
    agent_write_event(j->agent, "shadow-off", NULL, r->shadow_note);
  }
  if (is_load && e != ERR_OK && j->own_config) {
    job_refuse(j, r->sentence);
    trainer_result_free(r);
    return;
  }
  if (is_load && e != ERR_OK)
    agent_fail(j->agent, EXIT_USAGE, "data-refused", r->sentence);
  else if (is_load)
    log_event(LOG_INFO, "data-loaded", NULL,
              LOG_FIELDS(log_text("job", j->config->job.name), log_integer("train", r->n_samples),
                         log_integer("validation", r->n_validation), log_integer("test", r->n_test),
                         log_integer("global_test", r->n_global_test),
                         log_integer("streamed_bytes", (int64_t)r->streamed_bytes), log_text("warning", r->sentence)));
  if (is_load && e == ERR_OK && r->warm_note[0]) {
    log_event(LOG_INFO, "warm-start", NULL,
              LOG_FIELDS(log_text("job", j->config->job.name), log_integer("version", j->config->job.version),
                         log_text("text", r->warm_note)));
    agent_write_event(j->agent, "warm-start", NULL, r->warm_note);
  }
  if (is_load && e == ERR_OK)
    pooling_on_loaded(j, r);
  clustering_on_result(j, r);
  round_on_trained(j->round, r, clock_ms());
}

/* The owner's machine hears it with the result. */
static void take_epoch(struct agent_job *owner, uint64_t boot_epoch) {
  struct agent *a = owner->agent;
  a->boot_epoch = boot_epoch;
  gossip_set_boot_epoch(a->gossip, boot_epoch);
  for (size_t i = 0; i < a->n_jobs; i++)
    clustering_on_epoch(a->jobs[i], boot_epoch);
  for (size_t i = 0; i < a->n_jobs; i++)
    if (a->jobs[i] != owner && !a->jobs[i]->is_stopped)
      round_epoch_rose(a->jobs[i]->round, boot_epoch);
}

static void go_on_writing(struct agent *a) {
  a->n_written++;
  for (size_t i = 0; i < a->n_unwritten; i++)
    scribe_put(a->scribe, a->unwritten[i]);
  a->n_unwritten = 0; /* now the scribe's */
}

/* A round that was not written, or any write that failed so that the store writes nothing any more. */
static bool has_lost_store(const struct scribe_result *r) {
  static const bool only_reads[N_SCRIBE_JOB_KINDS] = {
      [SCRIBE_LOAD_MODEL] = true, [SCRIBE_QUERY] = true, [SCRIBE_EVENTS] = true};
  if (r->error == ERR_OK || err_is_temporary(r->error) || scribe_is_refused(r->kind, r->error))
    return false;
  return scribe_kind_is_of_round(r->kind) || (r->error == ERR_IO && !only_reads[r->kind]);
}

static void take_written(struct agent *a, struct scribe_result *r) {
  bool is_round = scribe_kind_is_of_round(r->kind);
  if (has_lost_store(r)) {
    char sentence[MAX_PATH_BYTES + MAX_REASON_BYTES];
    snprintf(sentence, sizeof sentence, "%s: %s could not be written: %s; a restart recovers", a->config->state_dir,
             is_round ? "a round" : "the database", err_sentence(r->error));
    agent_fail(a, EXIT_INTERNAL, "store-failed", sentence);
  }
  if (is_round && has_lost_store(r)) {
    scribe_result_free(r);
    return;
  }
  agent_take_room(a, r);
  if (r->kind == SCRIBE_QUERY)
    agent_answer_query(a, r);
  if (r->kind == SCRIBE_CHANGE)
    agent_answer_change(a, r);
  if (r->kind == SCRIBE_EVENTS)
    agent_answer_events(a, r);
  if (r->kind == SCRIBE_CALL)
    agent_take_call(a, r);
  if (r->kind == SCRIBE_EVENT && r->job) {
    keep_unwritten(a, r->job);
    r->job = NULL; /* now the agent's */
  } else if (r->error == ERR_OK && (is_round || r->kind == SCRIBE_EVENT)) {
    go_on_writing(a);
  }
  if (!is_round) {
    scribe_result_free(r);
    return;
  }
  struct agent_job *owner = a->jobs[r->owner];
  if (r->kind == SCRIBE_PUBLISH && r->error == ERR_OK)
    outbox_publish(&owner->outbox, r);
  if (r->kind == SCRIBE_RAISE_EPOCH && r->error == ERR_OK)
    take_epoch(owner, r->boot_epoch);
  if (owner->is_stopped) {
    scribe_result_free(r);
  } else {
    if (r->kind == SCRIBE_COMMIT || r->has_committed)
      trainer_shadow_stored(owner->trainer, r->shadow_seconds);
    FAULT_POINT("written");
    round_on_written(owner->round, r, clock_ms());
  }
  agent_look_at_halts(a);
}

void agent_take_results(struct agent *a) {
  uint64_t sent = gossip_sent_bytes(a->gossip), received = gossip_received_bytes(a->gossip);
  for (size_t i = 0; i < a->n_jobs; i++) {
    if (a->jobs[i]->is_stopped)
      continue;
    round_set_traffic(a->jobs[i]->round, sent, received);
    for (struct trainer_result *r;
         !a->is_stopping && !a->jobs[i]->is_stopped && (r = trainer_poll(a->jobs[i]->trainer));)
      take_trained(a->jobs[i], r);
  }
  for (struct scribe_result *r; !a->is_stopping && (r = scribe_poll(a->scribe));)
    take_written(a, r);
}

void agent_take_notes(struct agent *a) {
  for (struct gossip_note n; gossip_note_take(a->gossip, &n);) {
    const char *who = n.peer == SIZE_MAX ? "stranger" : a->peers[n.peer].name;
    log_event(LOG_WARNING, err_name(n.reason), who, LOG_FIELDS(log_text("text", n.text)));
    agent_write_event(a, err_name(n.reason), who, n.text);
  }
  size_t peer;
  enum err reason;
  while (gossip_reason_take(a->gossip, &peer, &reason))
    for (size_t j = 0; j < a->n_jobs; j++)
      if (!a->jobs[j]->is_stopped)
        round_on_session(a->jobs[j]->round, peer, false, reason, clock_ms());
}
