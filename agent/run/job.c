#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "agent/run/snapshot.h"
#include "agent/site_job.h"
#include "base/must.h"
#include "crypto/digest.h"
#include "crypto/names.h"
#include "models/net/arch.h"

enum {
  MAX_SNAPSHOT_BYTES_PER_PARAMETER = 160, /* a half with all that sections may hold */
  HOLD_MS = 25                            /* about what a sync takes: longer trainings hide it */
};

/* ---- what it is --------------------------------------------------------------------------------------------------- */

/* What else is agreed with the contract: a line of its text, and part of its hash. */
static void tell_line(struct agent_job *j, const char *line) {
  size_t n_line = strlen(line), n = strlen(j->contract_text);
  if (n + n_line < MAX_SCHEMA_TEXT_BYTES)
    memcpy(j->contract_text + n, line, n_line + 1);
  struct digest_state state;
  digest_blake2b.init(&state);
  digest_blake2b.add(&state, j->contract_digest.bytes, DIGEST_BYTES);
  digest_blake2b.add(&state, line, n_line);
  digest_blake2b.end(&state, &j->contract_digest);
}

/* Where the first weights come from; who averages with whom; how statistics are merged, of a model that has some. */
static void tell_job(struct agent_job *j) {
  const struct job_config *job = &j->config->job;
  const struct arch *arch = schema_arch(j->schema);
  char from[JOB_WORDS_BYTES], line[JOB_WORDS_BYTES + MAX_REASON_BYTES];
  if (job->init_version > 0) {
    job_words_write(job->init_name, job->init_version, from);
    snprintf(line, sizeof line, "init from: %s\n", from);
    tell_line(j, line);
  }
  if (job->cluster.is_on) {
    const struct cluster_settings *c = &job->cluster;
    snprintf(line, sizeof line,
             "cluster: groups %" PRIu32 " of %" PRIu32 ", steps %" PRIu32 ", kappa %.9g, shift %.9g\n", c->groups.n,
             c->groups.most, c->steps, c->kappa, c->shift);
    tell_line(j, line);
  }
  if (job->topology.rule != GRAPH_PEERS) {
    char topology[MAX_TOPOLOGY_TEXT];
    job_topology_write(&job->topology, topology);
    snprintf(line, sizeof line, "topology: %s\n", topology);
    tell_line(j, line);
  }
  if (job_is_push_sum(job))
    tell_line(j, "average: push-sum\n");
  if (arch->n_trained < arch->n_parameters) {
    snprintf(line, sizeof line, "merge statistics: %s\n", statistic_policy_name(job->statistics));
    tell_line(j, line);
  }
}

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
  struct contract data = *job->contract; /* borrows all that it points to */
  data.init_seed = 0;
  if (e == ERR_OK)
    e = contract_hash(&data, &digest_blake2b, &j->data_digest);
  if (e != ERR_OK) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: the contract is too long: %s", j->config->job_path, err_sentence(e));
    return e;
  }
  schema_hash(j->schema, &digest_blake2b, &j->schema_digest);
  tell_job(j);
  j->id = job_id(&j->agent->swarm, job->name, job->version, job->run_label);
  return ERR_OK;
}

/* The job that this one starts from, if the site has it. */
static const struct agent_job *find_warm(const struct agent *a, const struct job_config *job) {
  struct job_words words = {.version = job->init_version};
  memcpy(words.name, job->init_name, sizeof words.name);
  for (size_t i = 0; job->init_version > 0 && i < a->n_jobs; i++)
    if (job_words_fit(&words, a->jobs[i]->config->job.name, a->jobs[i]->config->job.version))
      return a->jobs[i];
  return NULL;
}

enum err job_new(struct agent *a, const struct site_job_config *config, struct agent_job **out_job,
                 char why[MAX_CONFIG_WHY_BYTES]) {
  struct agent_job *j = calloc(1, sizeof *j);
  if (!j)
    return ERR_NO_MEMORY;
  *j = (struct agent_job){.agent = a, .config = config, .warm_from = find_warm(a, &config->job)};
  outbox_init(&j->outbox);
  j->schema_text = calloc(1, MAX_SCHEMA_TEXT_BYTES);
  j->contract_text = calloc(1, MAX_SCHEMA_TEXT_BYTES);
  j->proofs = calloc(a->config->n_peers + 1, sizeof *j->proofs);
  j->has_proof = calloc(a->config->n_peers + 1, sizeof *j->has_proof);
  j->awaited_copies = calloc(a->config->n_peers + 1, sizeof *j->awaited_copies);
  j->copy_of = calloc(a->config->n_peers + 1, sizeof *j->copy_of);
  bool has_room = j->schema_text && j->contract_text && j->proofs && j->has_proof && j->awaited_copies && j->copy_of;
  enum err e = has_room ? describe(j, why) : ERR_NO_MEMORY;
  if (e == ERR_OK)
    *out_job = j;
  else
    job_free(j);
  return e;
}

void agent_add_job(struct agent *a, struct agent_job *j) {
  MUST(a->n_jobs < MAX_JOBS_IN_HELLO);
  j->index = a->n_jobs;
  a->jobs[a->n_jobs++] = j;
}

static void past_done(struct job_past *past) {
  free(past->half.bytes);
  free(past->model.bytes);
  free(past->shadow.bytes);
  free(past->warm.bytes);
  free(past->positions);
  *past = (struct job_past){.positions = NULL};
}

void job_free(struct agent_job *j) {
  if (!j)
    return;
  trainer_stop(j->trainer);
  past_done(&j->past);
  round_free(j->round);
  recorder_free(j->recorder);
  pool_free(j->pool);
  cluster_free(j->cluster);
  outbox_done(&j->outbox);
  schema_free(j->schema);
  free(j->schema_text);
  free(j->contract_text);
  free(j->proofs);
  free(j->has_proof);
  free(j->awaited_copies);
  free(j->copy_of);
  free(j->mass.peers);
  config_job_free(j->own_config);
  free(j);
}

const struct gossip_job_config *job_gossip_config(struct agent_job *j) {
  j->told = (struct gossip_job_config){.job = j->id,
                                       .file = j->config->job.file,
                                       .schema = j->schema_digest,
                                       .contract = j->contract_digest,
                                       .schema_text = j->schema_text,
                                       .contract_text = j->contract_text};
  return &j->told;
}

/* ---- what runs it ------------------------------------------------------------------------------------------------- */

/* Those who were followed once may be more than those who are. */
static size_t snapshot_max_bytes(const struct schema *schema, const struct job_config *job) {
  size_t n = schema_parameters(schema), n_learner = n * MAX_SNAPSHOT_BYTES_PER_PARAMETER + MAX_KEY_FILE_BYTES;
  if (job_is_push_sum(job))
    n_learner += MAX_PEERS * codec_full_bytes(schema_shared(schema)) + learner_ledger_bytes(MASS_BYTES_MOST);
  return snapshot_bound(job, n, n_learner);
}

enum err job_start_round(struct agent_job *j) {
  struct agent *a = j->agent;
  const struct site_job_config *s = j->config;
  size_t n_shared = schema_shared(j->schema);
  j->rules = site_job_rounds(s, a->config->n_peers);
  j->rules.identity = (struct round_identity){
      .swarm = a->swarm, .job = j->id, .schema = j->schema_digest, .contract = j->contract_digest};
  j->rules.link_bytes = site_job_update_bound(s, n_shared);
  j->rules.full_bytes = site_job_full_bound(s, n_shared);
  j->rules.payload_max_bytes = (uint64_t)a->config->payload_max_mib << 20;
  j->rules.snapshot_max_bytes = snapshot_max_bytes(j->schema, &s->job);
  j->rules.hold_ms = HOLD_MS;
  struct round_self self = {a->peers, a->config->n_peers, a->boot_epoch, j, agent_n_before(a)};
  uint64_t publish_bytes, commit_bytes;
  disk_forecast(j->rules.link_bytes, codec_full_bytes(schema_parameters(j->schema)),
                site_job_half_arrays(s, a->config->n_peers), &publish_bytes, &commit_bytes);
  disk_expect(&a->disk, publish_bytes, commit_bytes);
  enum err e = pooling_start(j);
  if (e == ERR_OK)
    e = round_new(&j->rules, &self, &agent_round_ports, &j->round);
  if (e == ERR_OK)
    e = clustering_start(j);
  return e == ERR_OK ? recording_start(j) : e;
}

enum err job_start_trainer(struct agent_job *j) {
  size_t n_copies = 0;
  for (size_t i = 0; i < j->agent->config->n_peers; i++) {
    j->copy_of[i] = round_follows(j->round, i) ? n_copies++ : SIZE_MAX;
  }
  j->roster = (struct sums_roster){.own = *identity_public(j->agent->identity),
                                   .peers = j->agent->peers,
                                   .n_peers = j->agent->config->n_peers,
                                   .n_agents = site_job_agents(j->config, j->agent->config->n_peers),
                                   .copy_of = j->copy_of};
  struct trainer_config config = {.site_job = j->config,
                                  .schema = j->schema,
                                  .init = site_job_first_weights(j->config, &j->id, &j->schema_digest),
                                  .n_copies = n_copies,
                                  .copy_of = j->copy_of,
                                  .roster = job_is_push_sum(&j->config->job) ? &j->roster : NULL};
  const struct config *c = j->agent->config;
  config.state_dir = c->state_dir;
  config.measures = c->kernels == KERNELS_MEASURED;
  config.n_jobs = c->n_jobs > 1 ? (uint32_t)c->n_jobs : 1;
  at_rest_key_of(j->agent->identity, SEALED_PURPOSE, &config.at_rest);
  enum err e = trainer_start(&config, &j->trainer);
  at_rest_key_wipe(&config.at_rest);
  return e;
}

static enum err load_file(struct store *store, const struct schema *schema, const struct job_config *job,
                          const struct digest *name, struct buffer *out) {
  if (digest_is_zero(name))
    return ERR_OK;
  return store_file_load(store, name, snapshot_max_bytes(schema, job), &out->bytes, &out->n_bytes);
}

static enum err load_own(const struct agent_job *j, struct store *store, const struct digest *name,
                         struct buffer *out) {
  return load_file(store, j->schema, &j->config->job, name, out);
}

/* How good the last rounds were. */
static enum err read_headlines(struct agent_job *j, struct store *store) {
  struct store_round rounds[SERVING_ROUNDS];
  struct job_past *past = &j->past;
  size_t n = 0;
  enum err e = store_rounds(store, &j->id, 0, rounds, SERVING_ROUNDS, &n);
  for (size_t i = n; e == ERR_OK && i > 0; i--)
    if (rounds[i - 1].committed && rounds[i - 1].metrics.has_validation)
      past->headlines[past->n_headlines++] = rounds[i - 1].metrics.validation_headline;
  return e;
}

/* The newest committed model of the job that this one starts from; none is no error. */
static enum err read_warm(struct agent_job *j, struct store *store) {
  enum { LOOK_BACK = 16 };
  const struct agent_job *from = j->warm_from;
  struct store_round rounds[LOOK_BACK];
  size_t n = 0;
  if (!from || j->past.from.at != RESUME_FRESH)
    return ERR_OK;
  enum err e = store_rounds(store, &from->id, 0, rounds, LOOK_BACK, &n);
  while (e == ERR_OK && n > 0 && digest_is_zero(&rounds[n - 1].model))
    n--;
  if (e == ERR_OK && n > 0)
    e = load_file(store, from->schema, &from->config->job, &rounds[n - 1].model, &j->past.warm);
  return e;
}

enum err job_read_past(struct agent_job *j, struct store *store) {
  const struct agent *a = j->agent;
  struct job_past *past = &j->past;
  past->positions = calloc(a->config->n_peers + 1, sizeof *past->positions);
  enum err e = past->positions ? store_resume(store, &j->id, &past->from, past->why) : ERR_NO_MEMORY;
  for (size_t i = 0; e == ERR_OK && i < a->config->n_peers; i++) {
    struct position *p = &past->positions[i];
    e = store_position(store, &j->id, a->peers[i].key.bytes, &p->boot_epoch, &p->sequence);
  }
  if (e == ERR_OK)
    e = load_own(j, store, &past->from.half, &past->half);
  if (e == ERR_OK)
    e = load_own(j, store, &past->from.model, &past->model);
  if (e == ERR_OK)
    past->is_shadow_lost = load_own(j, store, &past->from.shadow, &past->shadow) != ERR_OK;
  if (e == ERR_OK)
    e = read_headlines(j, store);
  if (e == ERR_OK)
    e = read_warm(j, store);
  return e == ERR_OK ? outbox_load(&j->outbox, store, &j->id) : e;
}

static void log_resumed(const struct agent_job *j) {
  const struct store_resume *from = &j->past.from;
  if (from->fell_back)
    log_event(LOG_WARNING, "snapshot-damaged", NULL,
              LOG_FIELDS(log_text("text", "the newest snapshot is damaged, the one before it is used")));
  if (j->past.is_shadow_lost)
    log_event(LOG_WARNING, "shadow-lost", NULL, LOG_FIELDS(log_text("text", "the model trained alone is damaged")));
  log_event(LOG_INFO, "resumed", NULL,
            LOG_FIELDS(log_text("job", j->config->job.name), log_integer("version", j->config->job.version),
                       log_integer("round", (int64_t)from->committed.round), log_integer("sub", from->committed.sub)));
}

/* Moves the model to start from into the trainer. */
static void lend_warm(struct agent_job *j) {
  const struct job_config *job = &j->config->job;
  bool is_first = j->past.from.at == RESUME_FRESH;
  if (job->init_version == 0 || !is_first)
    return;
  if (j->past.warm.n_bytes > 0) {
    struct warm_start warm = {
        .schema = j->warm_from->schema, .schema_hash = j->warm_from->schema_digest, .model = j->past.warm};
    j->past.warm = (struct buffer){0}; /* now the trainer's */
    trainer_set_warm(j->trainer, &warm);
    return;
  }
  char text[MAX_REASON_BYTES];
  snprintf(text, sizeof text, "this site has no model of %s@%" PRIu32 ": all tensors are new", job->init_name,
           job->init_version);
  log_event(LOG_WARNING, "warm-start", NULL, LOG_FIELDS(log_text("job", job->name), log_text("text", text)));
}

/* Of the training whose half-step is stored without its commitment; 0: there is none. */
static uint32_t steps_of_half(const struct agent_job *j) {
  const struct outbox *o = &j->outbox;
  bool is_open = j->past.from.at == RESUME_PUBLISHED && o->n_entries > 0;
  return is_open ? o->entries[o->n_entries - 1].update.manifest.local_steps : 0;
}

void job_go_on(struct agent_job *j) {
  struct job_past *past = &j->past;
  const struct store_resume *from = &past->from;
  log_resumed(j);
  trainer_set_shadow(j->trainer, past->shadow, from->committed.round == 0 && from->committed.sub == 0,
                     steps_of_half(j));
  lend_warm(j);
  memcpy(j->headlines, past->headlines, sizeof j->headlines);
  j->n_headlines = past->n_headlines;
  round_start(j->round, from, past->half, past->model, past->positions, clock_ms());
  past->half = past->model = past->shadow = (struct buffer){0}; /* moved */
  past_done(past);
}

/* ---- while the agent runs ----------------------------------------------------------------------------------------- */

struct past_call {
  struct agent_call call;
  struct agent_job *job; /* in agent->starting */
};

static enum err run_past(struct store *store, struct scribe_call *call) {
  return job_read_past(((struct past_call *)call)->job, store);
}

static void drop_past(struct scribe_call *call) {
  free(call);
}

static void tell_fault(const struct agent_job *j, const char *why) {
  char words[JOB_WORDS_BYTES];
  struct known_file *k = book_find(j->agent, &j->id);
  job_words_write(j->config->job.name, j->config->job.version, words);
  if (k)
    snprintf(k->fault, sizeof k->fault, "%s", why);
  log_event(LOG_ERROR, "job-cannot-start", NULL, LOG_FIELDS(log_text("job", words), log_text("text", why)));
  agent_write_event(j->agent, "job-cannot-start", NULL, why);
}

void job_refuse(struct agent_job *j, const char *why) {
  tell_fault(j, why);
  job_stop(j);
}

/* Peers that are here already are told, and told of. */
static enum err join(struct agent_job *j) {
  struct agent *a = j->agent;
  size_t index;
  enum err e = job_start_round(j);
  if (e == ERR_OK)
    e = job_start_trainer(j);
  if (e != ERR_OK)
    return e;
  agent_add_job(a, j); /* before gossip asks for its words */
  e = gossip_add_job(a->gossip, job_gossip_config(j), site_job_payload_bound(j->config, schema_shared(j->schema)),
                     &index);
  if (e != ERR_OK) {
    a->n_jobs--;
    return e;
  }
  MUST(index == j->index);
  return ERR_OK;
}

static void past_read(struct agent *a, struct agent_call *call, enum err e) {
  struct agent_job *j = ((struct past_call *)call)->job;
  for (size_t i = 0; i < MAX_JOBS_IN_HELLO; i++)
    if (a->starting[i] == j)
      a->starting[i] = NULL;
  if (e == ERR_OK)
    e = join(j);
  if (e != ERR_OK) {
    tell_fault(j, j->past.why[0] ? j->past.why : err_sentence(e));
    job_free(j);
    return;
  }
  round_set_tight(j->round, a->disk.state == DISK_TIGHT);
  job_go_on(j);
  for (size_t i = 0; i < a->config->n_peers; i++) {
    struct gossip_peer_info info;
    gossip_peer_info(a->gossip, i, &info);
    round_on_session(j->round, i, info.has_session, info.has_session ? ERR_OK : info.reason, clock_ms());
  }
}

enum err agent_start_job(struct agent *a, struct site_job_config *config, char why[MAX_CONFIG_WHY_BYTES]) {
  size_t place = 0, n = a->n_jobs;
  for (size_t i = 0; i < MAX_JOBS_IN_HELLO; i++)
    n += a->starting[i] != NULL;
  while (place < MAX_JOBS_IN_HELLO && a->starting[place])
    place++;
  struct past_call *call = calloc(1, sizeof *call);
  struct agent_job *j = NULL;
  enum err e = !call ? ERR_NO_MEMORY : n >= MAX_JOBS_IN_HELLO ? ERR_LIMIT : job_new(a, config, &j, why);
  if (e != ERR_OK) {
    if (e == ERR_LIMIT)
      snprintf(why, MAX_CONFIG_WHY_BYTES, "%d jobs were started since the start: restart the agent", MAX_JOBS_IN_HELLO);
    free(call);
    config_job_free(config);
    return e;
  }
  j->own_config = config;
  a->starting[place] = j;
  *call = (struct past_call){.call = {.scribe = {run_past, drop_past}, .done = past_read}, .job = j};
  agent_call(a, &call->call);
  return ERR_OK;
}

/* Its trainer ends between two batches; what the scribe still writes of it is only written. */
void job_stop(struct agent_job *j) {
  if (j->is_stopped)
    return;
  if (j->round)
    round_release(j->round);
  j->is_stopped = true;
  gossip_end_job(j->agent->gossip, j->index);
  trainer_stop(j->trainer);
  j->trainer = NULL;
}

/* ---- calls -------------------------------------------------------------------------------------------------------- */

void agent_call(struct agent *a, struct agent_call *call) {
  struct scribe_job *job = calloc(1, sizeof *job);
  if (!job) {
    call->done(a, call, ERR_NO_MEMORY);
    call->scribe.drop(&call->scribe);
    return;
  }
  job->kind = SCRIBE_CALL;
  job->call = &call->scribe; /* now the scribe's */
  scribe_put(a->scribe, job);
}

void agent_take_call(struct agent *a, struct scribe_result *r) {
  struct agent_call *call = (struct agent_call *)r->call;
  call->done(a, call, r->error);
}

/* ---- which ---------------------------------------------------------------------------------------------------------- */

struct agent_job *agent_find_job(const struct agent *a, const struct job_words *words) {
  struct agent_job *found = NULL;
  for (size_t i = 0; i < a->n_jobs; i++) {
    struct agent_job *j = a->jobs[i];
    const struct job_config *job = &j->config->job;
    if (j->is_stopped || (words && !job_words_fit(words, job->name, job->version)))
      continue;
    if (found && strcmp(found->config->job.name, job->name) != 0)
      return NULL; /* without a word it is not clear which */
    if (!found || serving_is(j))
      found = j;
  }
  return found;
}
