#include "agent/run/agent.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/key.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "agent/run/signals.h"
#include "agent/run/snapshot.h"
#include "base/must.h"
#include "crypto/digest.h"
#include "crypto/names.h"
#include "crypto/random.h"

enum { STORE_RETRY_MS = 30000, STOP_LIMIT_S = 10, MAX_SNAPSHOT_BYTES_PER_PARAMETER = 64 };

void agent_fail(struct agent *a, int exit_code, const char *event, const char *sentence) {
  a->exit_code = exit_code;
  snprintf(a->sentence, sizeof a->sentence, "%s", sentence);
  log_event(LOG_ERROR, event, NULL, LOG_FIELDS(log_text("text", sentence)));
  a->is_stopping = exit_code != EXIT_USAGE || !a->holds;
}

/* ---- start, one part after the other ------------------------------------------------------------------------------ */

static enum err describe_job(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  const struct job_config *job = &a->site_job->job;
  char reason[MAX_REASON_BYTES];
  enum err e = schema_from_arch(job->arch, job->contract, &a->schema, reason);
  if (e != ERR_OK) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: model: %s", a->site_job->job_path, reason);
    return e;
  }
  a->schema_text = calloc(1, MAX_SCHEMA_TEXT_BYTES);
  a->contract_text = calloc(1, MAX_SCHEMA_TEXT_BYTES);
  if (!a->schema_text || !a->contract_text)
    return ERR_NO_MEMORY;
  size_t n;
  schema_text(a->schema, a->schema_text);
  e = contract_text(job->contract, a->contract_text, MAX_SCHEMA_TEXT_BYTES, &n);
  if (e == ERR_OK)
    e = contract_hash(job->contract, &digest_blake2b, &a->contract_digest);
  if (e != ERR_OK) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: the contract is too long: %s", a->site_job->job_path, err_sentence(e));
    return e;
  }
  schema_hash(a->schema, &digest_blake2b, &a->schema_digest);
  a->swarm = swarm_id(a->config->swarm);
  a->job = config_job_id(a->config);
  return ERR_OK;
}

/* Seed of the first weights, equal at every agent of the job: H(tag ‖ job id ‖ schema hash ‖ init_seed). */
static struct digest init_digest(const struct agent *a) {
  static const char tag[] = "starling/v1/init";
  struct digest_state state;
  struct digest seed;
  uint8_t number[8];
  struct writer w;
  writer_init(&w, number, sizeof number);
  writer_u64(&w, a->site_job->job.contract->init_seed);
  digest_blake2b.init(&state);
  digest_blake2b.add(&state, tag, sizeof tag);
  digest_blake2b.add(&state, a->job.bytes, DIGEST_BYTES);
  digest_blake2b.add(&state, a->schema_digest.bytes, DIGEST_BYTES);
  digest_blake2b.add(&state, number, sizeof number);
  digest_blake2b.end(&state, &seed);
  return seed;
}

static enum err take_peers(struct agent *a) {
  size_t n = a->config->n_peers;
  a->peers = calloc(n + 1, sizeof *a->peers);
  a->keys = calloc(n + 1, sizeof *a->keys);
  a->names = calloc(n + 1, sizeof *a->names);
  a->proofs = calloc(n + 1, sizeof *a->proofs);
  a->has_proof = calloc(n + 1, sizeof *a->has_proof);
  if (!a->peers || !a->keys || !a->names || !a->proofs || !a->has_proof)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < n; i++) {
    const struct peer_config *p = &a->config->peers[i];
    a->peers[i].key = a->keys[i] = p->key;
    a->names[i] = p->name;
    snprintf(a->peers[i].name, sizeof a->peers[i].name, "%s", p->name);
    snprintf(a->peers[i].address, sizeof a->peers[i].address, "%s", p->address);
  }
  return ERR_OK;
}

static enum err open_control(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  char path[MAX_PATH_BYTES + 16];
  if (a->control)
    return ERR_OK;
  snprintf(path, sizeof path, "%s/control.sock", a->config->state_dir);
  struct control_events events = agent_control_events(a);
  return control_open(path, &events, &a->control, why);
}

static void take_signal(struct agent *a) {
  int number = signals_take(a->signal_fd);
  if (number == SIGHUP)
    log_event(LOG_WARNING, "reload", NULL, LOG_FIELDS(log_text("text", "configuration is read at the next start")));
  else if (number != 0)
    a->is_stopping = true;
}

/* Nothing works, but the probe and the people who ask are told why, for so long or until somebody stops us. */
static void stand_by(struct agent *a, uint64_t until_ms) {
  char why[MAX_CONFIG_WHY_BYTES];
  if (open_control(a, why) != ERR_OK)
    log_event(LOG_ERROR, "control", NULL, LOG_FIELDS(log_text("text", why)));
  while (!a->is_stopping && clock_ms() < until_ms) {
    struct link_fd lent[CONTROL_MAX_FDS];
    struct pollfd fds[1 + CONTROL_MAX_FDS] = {{.fd = a->signal_fd, .events = POLLIN}};
    size_t n = a->control ? control_fds(a->control, lent) : 0;
    for (size_t i = 0; i < n; i++)
      fds[1 + i] = (struct pollfd){.fd = lent[i].fd, .events = lent[i].want_write ? POLLIN | POLLOUT : POLLIN};
    if (poll(fds, 1 + n, CONTROL_STAGE_MS) > 0 && fds[0].revents)
      take_signal(a);
    for (size_t i = 0; i < n; i++)
      lent[i].ready = fds[1 + i].revents != 0;
    if (a->control)
      control_ready(a->control, lent, n, clock_ms());
  }
}

/* A full or read-only disk is waited for: leaving would only make the supervisor start us again and again. */
static enum err open_store(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  char warning[MAX_REASON_BYTES] = "";
  struct store_config config = {.state_dir = a->config->state_dir,
                                .digest = &digest_blake2b,
                                .keep_last = a->config->keep_last,
                                .random = (uint32_t)random_u64()};
  memcpy(config.identity, identity_public(a->identity)->bytes, sizeof config.identity);
  enum err e;
  while (err_is_temporary(e = store_open(&config, &a->store, warning, why))) {
    log_event(LOG_ERROR, "halted", NULL, LOG_FIELDS(log_text("text", why)));
    snprintf(a->sentence, sizeof a->sentence, "%s", why);
    stand_by(a, clock_ms() + STORE_RETRY_MS);
    if (a->is_stopping)
      return ERR_STOPPED;
  }
  a->sentence[0] = '\0';
  if (e != ERR_OK)
    return e;
  if (warning[0])
    log_event(LOG_WARNING, "state-dir", NULL, LOG_FIELDS(log_text("text", warning)));
  a->boot_epoch = store_boot_epoch(a->store);
  return ERR_OK;
}

static enum err start_trainer(struct agent *a) {
  struct trainer_config config = {
      .site_job = a->site_job, .schema = a->schema, .init = init_digest(a), .n_copies = a->config->n_peers};
  return trainer_start(&config, &a->trainer);
}

static enum err new_round(struct agent *a) {
  const struct site_job_config *s = a->site_job;
  size_t n_parameters = schema_parameters(a->schema);
  struct round_config config = {
      .identity = {.swarm = a->swarm, .job = a->job, .schema = a->schema_digest, .contract = a->contract_digest},
      .encoding = s->job.codec == CODEC_F16 ? ENCODING_F16 : ENCODING_F32,
      .link_bytes = codec_bound(s->job.codec, n_parameters),
      .full_bytes = codec_bound(CODEC_F32, n_parameters),
      .payload_max_bytes = (uint64_t)a->config->payload_max_mib << 20,
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
      .boot_epoch = a->boot_epoch,
  };
  struct round_ports ports = agent_round_ports(a);
  return round_new(&config, &ports, &a->round);
}

static uint64_t read_clock(void *context) {
  (void)context;
  return clock_ms();
}

static enum err open_gossip(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  size_t n_listen = a->config->n_listen;
  const char **listen = calloc(n_listen + 1, sizeof *listen);
  if (!listen)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < n_listen; i++)
    listen[i] = a->config->listen[i];
  struct gossip_job_config job = {.job = a->job,
                                  .file = a->site_job->job.file,
                                  .schema = a->schema_digest,
                                  .contract = a->contract_digest,
                                  .schema_text = a->schema_text,
                                  .contract_text = a->contract_text};
  struct gossip_config config = {
      .identity = a->identity,
      .boot_epoch = a->boot_epoch,
      .listen = listen,
      .n_listen = n_listen,
      .peers = a->peers,
      .n_peers = a->config->n_peers,
      .jobs = &job,
      .n_jobs = 1,
      .payload_max_bytes = (uint64_t)a->config->payload_max_mib << 20,
      .payload_bound = codec_bound(CODEC_F32, schema_parameters(a->schema)),
      .now_ms = read_clock,
  };
  memcpy(config.swarm, a->swarm.bytes, sizeof config.swarm);
  struct gossip_events events = agent_gossip_events(a);
  enum err e = gossip_open(&config, &events, &a->gossip, why);
  free(listen);
  return e;
}

static enum err load_file(struct agent *a, const struct digest *name, struct buffer *out) {
  if (digest_is_zero(name))
    return ERR_OK;
  size_t n_learner = schema_parameters(a->schema) * MAX_SNAPSHOT_BYTES_PER_PARAMETER + MAX_KEY_FILE_BYTES;
  size_t cap = snapshot_bound(a->site_job->job.contract, n_learner);
  return store_file_load(a->store, name, cap, &out->bytes, &out->n_bytes);
}

/* Reads where to go on, then gives the store to the scribe and begins. */
static enum err resume(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  struct store_resume from;
  struct buffer half = {0}, model = {0};
  struct position *positions = calloc(a->config->n_peers + 1, sizeof *positions);
  enum err e = positions ? store_resume(a->store, &a->job, &from, why) : ERR_NO_MEMORY;
  for (size_t i = 0; e == ERR_OK && i < a->config->n_peers; i++)
    e = store_position(a->store, &a->job, a->keys[i].bytes, &positions[i].boot_epoch, &positions[i].sequence);
  if (e == ERR_OK)
    e = load_file(a, &from.half, &half);
  if (e == ERR_OK)
    e = load_file(a, &from.model, &model);
  if (e == ERR_OK)
    e = outbox_load(&a->outbox, a->store, &a->job);
  if (e == ERR_OK)
    e = scribe_start(&a->store, &a->job, &a->scribe);
  if (e == ERR_OK) {
    if (from.fell_back)
      log_event(LOG_WARNING, "snapshot-damaged", NULL,
                LOG_FIELDS(log_text("text", "the newest snapshot is damaged, the one before it is used")));
    log_event(LOG_INFO, "resumed", NULL,
              LOG_FIELDS(log_integer("round", (int64_t)from.committed.round), log_integer("sub", from.committed.sub)));
    round_start(a->round, &from, half, model, positions, clock_ms());
  } else {
    free(half.bytes);
    free(model.bytes);
  }
  free(positions);
  return e;
}

static enum err start(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  enum err e = key_open(a->config, &a->identity, why);
  if (e == ERR_OK)
    e = describe_job(a, why);
  if (e == ERR_OK)
    e = take_peers(a);
  if (e == ERR_OK)
    e = open_store(a, why);
  if (e == ERR_OK)
    e = new_round(a);
  if (e == ERR_OK)
    e = open_gossip(a, why); /* as early as the boot epoch is durable: peers wait for nothing else */
  if (e == ERR_OK)
    e = open_control(a, why);
  if (e == ERR_OK)
    e = start_trainer(a);
  if (e == ERR_OK)
    e = resume(a, why);
  return e;
}

/* Gossip first: its callbacks ask all the others. */
static void stop(struct agent *a) {
  gossip_close(a->gossip, ERR_STOPPED);
  trainer_stop(a->trainer);
  scribe_stop(a->scribe);
  control_close(a->control);
  round_free(a->round);
  outbox_done(&a->outbox);
  store_close(a->store);
  schema_free(a->schema);
  identity_free(a->identity);
  free(a->schema_text);
  free(a->contract_text);
  free(a->peers);
  free(a->keys);
  free(a->names);
  free(a->proofs);
  free(a->has_proof);
}

/* ---- loop --------------------------------------------------------------------------------------------------------- */

static int64_t time_left(uint64_t due_ms, uint64_t now_ms) {
  if (due_ms == UINT64_MAX)
    return -1;
  return due_ms > now_ms ? (int64_t)(due_ms - now_ms) : 0;
}

static void end_when_done(struct agent *a, uint64_t now_ms) {
  enum round_end end = round_end(a->round, now_ms);
  bool is_over = end == ROUND_ENDED || end == ROUND_ENDED_SHORT;
  if (!is_over || a->site_job->when_done != WHEN_DONE_EXIT)
    return;
  a->exit_code = end == ROUND_ENDED_SHORT ? EXIT_FAILED : EXIT_DONE;
  a->is_stopping = true;
}

static void turn(struct agent *a) {
  enum { SIGNALS, TRAINER, SCRIBE, N_OWN };
  struct link_fd fds[N_OWN + CONTROL_MAX_FDS] = {
      [SIGNALS] = {.fd = a->signal_fd},
      [TRAINER] = {.fd = trainer_fd(a->trainer)},
      [SCRIBE] = {.fd = scribe_fd(a->scribe)},
  };
  size_t n_control = control_fds(a->control, fds + N_OWN);
  uint64_t now_ms = clock_ms();
  uint64_t due_ms = round_tick(a->round, now_ms);
  if (control_due_ms(a->control) < due_ms)
    due_ms = control_due_ms(a->control);
  end_when_done(a, now_ms);
  if (a->is_stopping)
    return;
  link_poll(a->gossip, fds, N_OWN + n_control, time_left(due_ms, now_ms));
  if (fds[SIGNALS].ready)
    take_signal(a);
  agent_take_results(a);
  agent_take_notes(a);
  control_ready(a->control, fds + N_OWN, n_control, clock_ms());
}

static void log_started(const struct agent *a) {
  log_event(LOG_INFO, "started", NULL,
            LOG_FIELDS(log_text("name", a->config->name), log_text("job", a->site_job->job.name),
                       log_integer("parameters", (int64_t)schema_parameters(a->schema)),
                       log_integer("peers", (int64_t)a->config->n_peers),
                       log_text("listen", a->config->n_listen > 0 ? a->config->listen[0] : "none")));
}

/* A peer takes about five descriptors, and strangers one each until the gate sends them away. With none left no round can
 * be written, so the soft limit is raised as far as the hard one allows. */
static void take_descriptors(size_t n_peers) {
  enum { A_PEER = 5, NEEDED = 128, PLENTY = 4096 };
  rlim_t of_peers = A_PEER * (rlim_t)n_peers;
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= PLENTY + of_peers)
    return;
  limit.rlim_cur = limit.rlim_max < PLENTY + of_peers ? limit.rlim_max : PLENTY + of_peers;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < NEEDED + of_peers)
    log_event(LOG_WARNING, "few-descriptors", NULL,
              LOG_FIELDS(log_integer("limit", (int64_t)limit.rlim_cur),
                         log_integer("needed", (int64_t)(NEEDED + of_peers)),
                         log_text("text", "strangers can take the last one: raise the limit of open files")));
}

int agent_run(const struct config *config, bool holds) {
  struct agent a = {
      .config = config, .site_job = &config->jobs[0], .holds = holds, .signal_fd = -1, .started_ms = clock_ms()};
  char why[MAX_CONFIG_WHY_BYTES] = "";
  log_set(config->log_level, config->log_format);
  take_descriptors(config->n_peers);
  outbox_init(&a.outbox);
  enum err e = signals_open(&a.signal_fd);
  if (e == ERR_OK)
    e = start(&a, why);
  if (e == ERR_OK)
    log_started(&a);
  else if (e != ERR_STOPPED)
    agent_fail(&a, exit_code_of(e), "cannot-start", why[0] ? why : err_sentence(e));
  while (e == ERR_OK && !a.is_stopping)
    turn(&a);
  if (!a.is_stopping && e != ERR_STOPPED)
    stand_by(&a, UINT64_MAX);
  signals_limit_end(STOP_LIMIT_S);
  stop(&a);
  signals_limit_end(0);
  if (a.signal_fd >= 0)
    close(a.signal_fd);
  log_event(LOG_INFO, "stopped", NULL, LOG_FIELDS(log_integer("exit", a.exit_code)));
  return a.exit_code;
}
