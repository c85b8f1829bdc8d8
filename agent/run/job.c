#include <stdio.h>
#include <stdlib.h>

#include "agent/clock.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "agent/run/snapshot.h"
#include "base/must.h"
#include "crypto/digest.h"
#include "crypto/names.h"

enum { MAX_SNAPSHOT_BYTES_PER_PARAMETER = 64 };

/* ---- what it is --------------------------------------------------------------------------------------------------- */

static enum err describe(struct agent_job *j, char why[MAX_CONFIG_WHY_BYTES]) {
  const struct job_config *job = &j->config->job;
  char reason[MAX_REASON_BYTES];
  enum err e = schema_from_arch(job->arch, job->contract, &j->schema, reason);
  if (e != ERR_OK) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: model: %s", j->config->job_path, reason);
    return e;
  }
  size_t n;
  schema_text(j->schema, j->schema_text);
  e = contract_text(job->contract, j->contract_text, MAX_SCHEMA_TEXT_BYTES, &n);
  if (e == ERR_OK)
    e = contract_hash(job->contract, &digest_blake2b, &j->contract_digest);
  if (e != ERR_OK) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: the contract is too long: %s", j->config->job_path, err_sentence(e));
    return e;
  }
  schema_hash(j->schema, &digest_blake2b, &j->schema_digest);
  j->id = job_id(&j->agent->swarm, job->name, job->version, job->run_label);
  return ERR_OK;
}

/* Seed of the first weights, equal at every agent of the job: H(tag ‖ job id ‖ schema hash ‖ init_seed). */
static struct digest init_digest(const struct agent_job *j) {
  static const char tag[] = "starling/v1/init";
  struct digest_state state;
  struct digest seed;
  uint8_t number[8];
  struct writer w;
  writer_init(&w, number, sizeof number);
  writer_u64(&w, j->config->job.contract->init_seed);
  digest_blake2b.init(&state);
  digest_blake2b.add(&state, tag, sizeof tag);
  digest_blake2b.add(&state, j->id.bytes, DIGEST_BYTES);
  digest_blake2b.add(&state, j->schema_digest.bytes, DIGEST_BYTES);
  digest_blake2b.add(&state, number, sizeof number);
  digest_blake2b.end(&state, &seed);
  return seed;
}

enum err job_new(struct agent *a, const struct site_job_config *config, char why[MAX_CONFIG_WHY_BYTES]) {
  MUST(a->n_jobs < MAX_JOBS_IN_HELLO);
  struct agent_job *j = calloc(1, sizeof *j);
  if (!j)
    return ERR_NO_MEMORY;
  *j = (struct agent_job){.agent = a, .index = a->n_jobs, .config = config};
  outbox_init(&j->outbox);
  a->jobs[a->n_jobs++] = j; /* now the agent's, which frees it */
  j->schema_text = calloc(1, MAX_SCHEMA_TEXT_BYTES);
  j->contract_text = calloc(1, MAX_SCHEMA_TEXT_BYTES);
  j->proofs = calloc(a->config->n_peers + 1, sizeof *j->proofs);
  j->has_proof = calloc(a->config->n_peers + 1, sizeof *j->has_proof);
  bool has_room = j->schema_text && j->contract_text && j->proofs && j->has_proof;
  return has_room ? describe(j, why) : ERR_NO_MEMORY;
}

void job_free(struct agent_job *j) {
  if (!j)
    return;
  trainer_stop(j->trainer);
  round_free(j->round);
  pool_free(j->pool);
  outbox_done(&j->outbox);
  schema_free(j->schema);
  free(j->schema_text);
  free(j->contract_text);
  free(j->proofs);
  free(j->has_proof);
  free(j);
}

struct gossip_job_config job_gossip_config(const struct agent_job *j) {
  return (struct gossip_job_config){.job = j->id,
                                    .file = j->config->job.file,
                                    .schema = j->schema_digest,
                                    .contract = j->contract_digest,
                                    .schema_text = j->schema_text,
                                    .contract_text = j->contract_text};
}

/* ---- what runs it ------------------------------------------------------------------------------------------------- */

static size_t snapshot_max_bytes(const struct agent_job *j) {
  size_t n_learner = schema_parameters(j->schema) * MAX_SNAPSHOT_BYTES_PER_PARAMETER + MAX_KEY_FILE_BYTES;
  return snapshot_bound(j->config->job.contract, n_learner);
}

enum err job_start_round(struct agent_job *j) {
  struct agent *a = j->agent;
  const struct site_job_config *s = j->config;
  size_t n_parameters = schema_parameters(j->schema);
  struct round_config config = {
      .identity = {.swarm = a->swarm, .job = j->id, .schema = j->schema_digest, .contract = j->contract_digest},
      .encoding = s->job.codec == CODEC_F16 ? ENCODING_F16 : ENCODING_F32,
      .link_bytes = codec_bound(s->job.codec, n_parameters),
      .full_bytes = codec_bound(CODEC_F32, n_parameters),
      .payload_max_bytes = (uint64_t)a->config->payload_max_mib << 20,
      .snapshot_max_bytes = snapshot_max_bytes(j),
      .keys = a->keys,
      .names = a->names,
      .n_peers = a->config->n_peers,
      .count = s->job.count,
      .min_peers = s->min_peers,
      .alone_rounds = s->alone_rounds,
      .staleness_max = s->staleness_max,
      .by_samples = s->weights == WEIGHTS_SAMPLES,
      .max_share = s->max_share,
      .deadline_min_ms = (uint64_t)(s->deadline_min_s * 1000),
      .deadline_max_ms = (uint64_t)(s->deadline_max_s * 1000),
      .meet_ms = a->config->n_peers > 0 ? (uint64_t)(s->meet_s * 1000) : 0,
      .linger_ms = (uint64_t)(s->linger_s * 1000),
      .every_ms = (uint64_t)(s->every_s * 1000),
      .is_steps_auto = s->job.is_steps_auto,
      .is_pooled = s->job.contract->scale.rule == SCALE_POOLED,
      .boot_epoch = a->boot_epoch,
  };
  uint64_t publish_bytes, commit_bytes;
  disk_forecast(config.link_bytes, config.full_bytes, &publish_bytes, &commit_bytes);
  disk_expect(&a->disk, publish_bytes, commit_bytes);
  struct round_ports ports = agent_round_ports(j);
  enum err e = pooling_start(j);
  return e == ERR_OK ? round_new(&config, &ports, &j->round) : e;
}

enum err job_start_trainer(struct agent_job *j) {
  struct trainer_config config = {
      .site_job = j->config, .schema = j->schema, .init = init_digest(j), .n_copies = j->agent->config->n_peers};
  return trainer_start(&config, &j->trainer);
}

static enum err load_file(const struct agent_job *j, const struct digest *name, struct buffer *out) {
  if (digest_is_zero(name))
    return ERR_OK;
  return store_file_load(j->agent->store, name, snapshot_max_bytes(j), &out->bytes, &out->n_bytes);
}

static void log_resumed(const struct agent_job *j, const struct store_resume *from) {
  if (from->fell_back)
    log_event(LOG_WARNING, "snapshot-damaged", NULL,
              LOG_FIELDS(log_text("text", "the newest snapshot is damaged, the one before it is used")));
  log_event(LOG_INFO, "resumed", NULL,
            LOG_FIELDS(log_text("job", j->config->job.name), log_integer("round", (int64_t)from->committed.round),
                       log_integer("sub", from->committed.sub)));
}

enum err job_resume(struct agent_job *j, char why[MAX_CONFIG_WHY_BYTES]) {
  struct agent *a = j->agent;
  struct store_resume from;
  struct buffer half = {0}, model = {0}, shadow = {0};
  struct position *positions = calloc(a->config->n_peers + 1, sizeof *positions);
  enum err e = positions ? store_resume(a->store, &j->id, &from, why) : ERR_NO_MEMORY;
  for (size_t i = 0; e == ERR_OK && i < a->config->n_peers; i++)
    e = store_position(a->store, &j->id, a->keys[i].bytes, &positions[i].boot_epoch, &positions[i].sequence);
  if (e == ERR_OK)
    e = load_file(j, &from.half, &half);
  if (e == ERR_OK)
    e = load_file(j, &from.model, &model);
  if (e == ERR_OK && load_file(j, &from.shadow, &shadow) != ERR_OK)
    log_event(LOG_WARNING, "shadow-lost", NULL, LOG_FIELDS(log_text("text", "the model trained alone is damaged")));
  if (e == ERR_OK)
    e = outbox_load(&j->outbox, a->store, &j->id);
  if (e == ERR_OK) {
    log_resumed(j, &from);
    trainer_set_shadow(j->trainer, shadow, from.committed.round == 0 && from.committed.sub == 0);
    round_start(j->round, &from, half, model, positions, clock_ms());
  } else {
    free(half.bytes);
    free(model.bytes);
    free(shadow.bytes);
  }
  free(positions);
  return e;
}
