#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/round_machine.h"
#include "base/must.h"

/* ---- what comes next ---------------------------------------------------------------------------------------------- */

bool machine_is_finished(const struct round_machine *m) {
  return m->config->count > 0 && m->reached.round >= m->config->count;
}

static bool anybody_has_news(const struct round_machine *m) {
  for (size_t i = 0; i < m->self.n_peers; i++)
    if (m->peers[i].is_followed && m->peers[i].has_session && m->peers[i].has_state && m->peers[i].has_news &&
        !round_peer_is_elsewhere(&m->peers[i]))
      return true;
  return false;
}

bool machine_is_alone(const struct round_machine *m) {
  return machine_min_peers(m) > 0 && m->rounds_alone >= m->config->alone_rounds && !anybody_has_news(m);
}

static bool is_counted(const struct round_peer *p) {
  return p->epoch_steps > 0 && !p->is_quarantined && round_peer_refusal(p) == ERR_OK;
}

/* The median, of an even number the lower of the two middle ones. */
static uint32_t median_steps(const struct round_machine *m) {
  uint32_t steps[MAX_PEERS + 1] = {m->epoch_steps};
  size_t n = 1;
  for (size_t i = 0; i < m->self.n_peers; i++) {
    if (!is_counted(&m->peers[i]))
      continue;
    size_t at = n++;
    for (; at > 0 && steps[at - 1] > m->peers[i].epoch_steps; at--)
      steps[at] = steps[at - 1];
    steps[at] = m->peers[i].epoch_steps;
  }
  return steps[(n - 1) / 2];
}

/* Whoever takes what is given: it is there, follows us, and has a sum to take the next ones from. */
static bool is_told(const struct round_peer *p) {
  bool is_there = p->has_session && p->has_hello && p->has_state && !p->is_quarantined && p->job_reason == ERR_OK;
  return is_there && p->is_follower && p->state.follows && !p->state.finished && p->has_base &&
         !round_peer_is_elsewhere(p);
}

static bool *told(const struct round_machine *m) {
  bool *all = calloc(m->self.n_peers + 1, sizeof *all);
  MUST(all != NULL);
  for (size_t i = 0; i < m->self.n_peers; i++)
    all[i] = is_told(&m->peers[i]);
  machine_narrow(m, all);
  return all;
}

static void start_training(struct round_machine *m, uint64_t now_ms) {
  m->in_work = (struct round_label){.round = m->reached.round + 1, .sub = m->reached.sub};
  m->started_ms = now_ms;
  m->next_training_ms = now_ms + m->config->every_ms;
  m->encodes_full = m->starts_chain;
  m->starts_chain = false;
  struct trainer_job *job = machine_trainer_job(m, JOB_TRAIN);
  job->rate_scale = m->train_failures >= TRAIN_FAILURES_HALVE ? 0.5 : 1;
  job->start_chain = m->encodes_full;
  if (m->config->is_push_sum && !job->start_chain)
    job->told = told(m);
  job->account = m->self.boot_epoch;
  job->begins_anew = m->begins_anew && m->raising_above == 0;
  m->begins_anew = m->begins_anew && !job->begins_anew;
  job->wants_copy_root = (m->last_sequence + 1) % MANIFEST_COPY_ROOT_EVERY == 0;
  if (m->config->is_steps_auto)
    job->steps = m->steps = median_steps(m);
  machine_put_train(m, job);
  machine_enter(m, PHASE_TRAINING);
}

void machine_tick_idle(struct round_machine *m, uint64_t now_ms) {
  if (m->commit_pending)
    return;
  if (machine_is_finished(m)) {
    m->finished_at_ms = now_ms;
    machine_note(m, "finished", SIZE_MAX, "the last round of the job is committed");
    machine_enter(m, PHASE_FINISHED);
  } else if (machine_should_jump(m, now_ms)) {
    machine_jump(m, now_ms);
  } else if (machine_is_alone(m)) {
    m->wait_until_ms = now_ms + m->config->linger_ms;
    machine_note(m, "alone", SIZE_MAX, "no peer took part for too long: waiting without training until one is back");
    machine_enter(m, PHASE_ALONE);
  } else if (now_ms >= m->next_training_ms) {
    start_training(m, now_ms);
  }
}

/* A training that has to wait for its time waits in IDLE, where a jump may come before it. */
void machine_go_on(struct round_machine *m, uint64_t now_ms) {
  bool is_plain = !machine_is_finished(m) && !machine_is_alone(m) && !machine_should_jump(m, now_ms) &&
                  now_ms >= m->next_training_ms && m->back.stage == BACK_NONE;
  if (is_plain)
    start_training(m, now_ms);
  else
    machine_enter(m, PHASE_COMMITTING);
}

/* The time without any session is what ends a job that waits alone. */
void machine_tick_alone(struct round_machine *m, uint64_t now_ms) {
  if (!machine_is_alone(m)) {
    m->wait_until_ms = 0;
    machine_note(m, "alone-over", SIZE_MAX, "a peer is back");
    machine_enter(m, PHASE_IDLE);
    return;
  }
  for (size_t i = 0; i < m->self.n_peers; i++) {
    uint64_t until_ms = (m->peers[i].has_session ? now_ms : m->peers[i].lost_at_ms) + m->config->linger_ms;
    m->wait_until_ms = until_ms > m->wait_until_ms ? until_ms : m->wait_until_ms;
  }
  if (m->config->count == 0 || now_ms < m->wait_until_ms)
    return;
  m->is_short = true;
  m->finished_at_ms = now_ms;
  machine_note(m, "finished-short", SIZE_MAX, "no peer came back: the job ends before its last round");
  machine_enter(m, PHASE_FINISHED);
}

/* ---- publishing --------------------------------------------------------------------------------------------------- */

static struct manifest own_manifest(const struct round_machine *m, const struct trainer_result *r, enum err missing) {
  const struct round_identity *id = &m->config->identity;
  struct manifest own = {.swarm = id->swarm, .job = id->job, .schema = id->schema, .contract = id->contract};
  own.boot_epoch = m->self.boot_epoch;
  own.sequence = m->last_sequence + 1;
  own.round = m->in_work.round;
  own.sub = m->in_work.sub < UINT16_MAX ? (uint16_t)m->in_work.sub : UINT16_MAX; /* shown, never reckoned with */
  own.degree = (uint16_t)machine_degree(m);
  own.mu = 1;
  if (missing != ERR_OK) { /* no update this round: the chain as it is, the reason in the encoding */
    int index = err_drop_index(missing);
    own.kind = MANIFEST_NONE;
    own.encoding = (uint8_t)(index < 0 ? 0 : index);
    own.chain = m->own.chain;
    return own;
  }
  bool is_whole = m->encodes_full || m->config->is_push_sum;
  own.kind = m->config->is_push_sum ? MANIFEST_SUM : is_whole ? MANIFEST_FULL : MANIFEST_DIFFERENCE;
  own.encoding = is_whole ? ENCODING_F32 : m->config->encoding;
  own.local_steps = r->local_steps;
  own.samples = r->n_samples;
  own.payload_root = r->payload_root;
  own.n_payload = r->payload.n_bytes;
  own.chain = is_whole ? chain_start(&r->payload_root) : m->own.chain;
  if (m->config->is_push_sum)
    own.mu = r->mass;
  else if (own.sequence % MANIFEST_COPY_ROOT_EVERY == 0)
    own.copy_root = r->copy_root;
  return own;
}

/* Moves payload and half from the result. A payload that starts a chain is the full copy itself. */
static void attach_payload(struct scribe_job *job, const struct manifest *manifest, struct trainer_result *r) {
  job->payload = r->payload;
  job->half = r->half;
  r->payload = r->half = (struct buffer){0}; /* now the job's */
  job->publication.payload = job->payload.bytes;
  job->publication.n_payload = job->payload.n_bytes;
  job->publication.payload_digest = r->payload_root; /* files are named by the root of the same tree */
  job->publication.half = job->half.bytes;
  job->publication.n_half = job->half.n_bytes;
  job->publication.copy_offset = r->copy_offset;
  job->publication.n_copy = manifest->kind == MANIFEST_DIFFERENCE ? r->n_copy : 0;
}

/* Signs it; until it is durable, this is what is being published. */
static void state_publication(struct round_machine *m, struct scribe_job *job, struct manifest *manifest) {
  m->ports->sign(m->self.context, manifest, job->manifest);
  m->last_sequence = manifest->sequence;
  free(m->publishing);
  m->publishing = malloc(sizeof *m->publishing);
  MUST(m->publishing != NULL);
  m->publishing->position = link_place(manifest).position;
  memcpy(m->publishing->manifest, job->manifest, MANIFEST_BYTES);
  job->publication.boot_epoch = manifest->boot_epoch;
  job->publication.sequence = manifest->sequence;
  job->publication.chain = m->publishing->position.chain;
}

/* A training that failed publishes that there is nothing, and so does one for whose update there is no room: its steps stay
 * in the model, and the next difference has them. */
static void publish(struct round_machine *m, struct trainer_result *r) {
  struct scribe_job *job = machine_scribe_job(SCRIBE_PUBLISH);
  bool has_trained = r->error == ERR_OK;
  m->is_withheld = has_trained && m->is_tight;
  m->starts_chain = m->starts_chain || (m->is_withheld && m->encodes_full);
  struct manifest manifest = own_manifest(m, r, m->is_withheld ? ERR_NO_ROOM : r->error);
  job->publication = (struct store_publication){
      .job = manifest.job,
      .label = m->in_work,
      .manifest = job->manifest,
      .n_manifest = MANIFEST_BYTES,
      .train_loss = has_trained ? r->train_loss : __builtin_nan(""),
      .train_seconds = has_trained ? r->seconds : __builtin_nan(""),
      .n_samples = has_trained ? r->n_samples : 0,
  };
  state_publication(m, job, &manifest);
  if (manifest.kind != MANIFEST_NONE)
    attach_payload(job, &manifest, r);
  job->before = m->held;
  m->held = NULL; /* now the job's */
  machine_enter(m, PHASE_PUBLISHING);
  machine_put_write(m, job);
}

void machine_restate_unwritten(struct round_machine *m) {
  for (size_t i = 0; i < N_UNWRITTEN && m->unwritten[i]; i++) {
    struct scribe_job *job = m->unwritten[i];
    if (job->kind != SCRIBE_PUBLISH || job->publication.boot_epoch == m->self.boot_epoch)
      continue;
    struct store_publication *p = &job->publication;
    free(job->payload.bytes);
    free(job->half.bytes);
    job->payload = job->half = (struct buffer){0};
    m->is_withheld = m->is_withheld || p->n_payload > 0;
    p->payload = p->half = NULL;
    p->n_payload = p->n_half = p->copy_offset = p->n_copy = 0;
    p->payload_digest = (struct digest){0};
    if (p->sequence == m->last_sequence)
      m->last_sequence--; /* nobody knows of it, and a gap would be waited for */
    struct manifest manifest = own_manifest(m, NULL, ERR_NO_ROOM);
    state_publication(m, job, &manifest);
  }
}

static void training_failed(struct round_machine *m, const struct trainer_result *r) {
  m->train_failures++;
  m->starts_chain = m->starts_chain || m->encodes_full;
  const char *measure = m->train_failures >= TRAIN_FAILURES_PAUSE   ? ", the job is paused"
                        : m->train_failures >= TRAIN_FAILURES_HALVE ? ", the learning rate is halved"
                                                                    : "";
  char text[MAX_REASON_BYTES];
  snprintf(text, sizeof text, "training failed: %s; the model is as it was committed%s", err_sentence(r->error),
           measure);
  machine_note(m, "train-failed", SIZE_MAX, text);
}

void machine_on_train_result(struct round_machine *m, struct trainer_result *r) {
  if (r->error == ERR_OK) {
    m->train_failures = 0;
    m->training_ms = (uint64_t)(r->seconds * 1000);
    m->steps = r->local_steps;
    m->has_loss = true;
    m->train_loss = r->train_loss;
  } else {
    training_failed(m, r);
  }
  m->trained = r;
  machine_publish_waiting(m);
}

void machine_publish_waiting(struct round_machine *m) {
  struct trainer_result *r = m->trained;
  bool is_in_the_way = m->raising_above > 0 || m->back.stage != BACK_NONE; /* a roll-back forgets it */
  if (r && is_in_the_way)
    machine_release(m);
  if (!r || is_in_the_way || (m->commit_pending && !m->held))
    return;
  m->trained = NULL;
  publish(m, r);
  trainer_result_free(r);
}

void machine_on_published(struct round_machine *m, uint64_t now_ms) {
  m->own = m->publishing->position;
  m->ports->offer(m->self.context, m->publishing->manifest);
  free(m->publishing);
  m->publishing = NULL;
  if (m->train_failures >= TRAIN_FAILURES_PAUSE)
    machine_enter(m, PHASE_PAUSED);
  else
    machine_start_gather(m, now_ms);
}

/* ---- rolled-back store -------------------------------------------------------------------------------------------- */

void machine_raise_epoch(struct round_machine *m) {
  struct scribe_job *job = machine_scribe_job(SCRIBE_RAISE_EPOCH);
  job->above = m->raising_above;
  machine_put_write(m, job);
}

/* This store was rolled back or lost: what is encoded next starts a chain, above everything that peers have seen. A raise
 * that is under way already is followed by another one, so that the scribe has one at a time. */
void machine_roll_forward(struct round_machine *m, size_t peer, const struct manifest *proof) {
  bool is_known = proof->boot_epoch <= m->self.boot_epoch && proof->sequence <= m->last_sequence;
  if (proof->sequence > m->last_sequence)
    m->last_sequence = proof->sequence;
  if (is_known || proof->boot_epoch <= m->raising_above)
    return;
  bool is_raising = m->raising_above > 0;
  m->starts_chain = true;
  m->begins_anew = m->config->is_push_sum;
  m->raising_above = proof->boot_epoch;
  machine_note(m, "rolled-back", peer,
               "it holds a newer update of ours than our store: a backup was restored or state was lost");
  if (!is_raising)
    machine_raise_epoch(m);
}
