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
#include "agent/site_job.h"
#include "crypto/digest.h"
#include "crypto/names.h"
#include "crypto/random.h"
#include "crypto/statement.h"

enum { STORE_RETRY_MS = 5000, STOP_LIMIT_S = 10 };

void agent_fail(struct agent *a, int exit_code, const char *event, const char *sentence) {
  a->exit_code = exit_code;
  snprintf(a->sentence, sizeof a->sentence, "%s", sentence);
  log_event(LOG_ERROR, event, NULL, LOG_FIELDS(log_text("text", sentence)));
  a->is_stopping = exit_code != EXIT_USAGE || !a->holds;
}

const char *agent_name_of_key(const struct agent *a, const struct identity_key *key) {
  for (size_t i = 0; i < a->config->n_peers; i++)
    if (identity_key_equal(key, &a->peers[i].key))
      return a->peers[i].name;
  return identity_key_equal(key, identity_public(a->identity)) ? a->config->name : "";
}

size_t agent_n_before(const struct agent *a) {
  size_t n = 0;
  while (n < a->config->n_peers && identity_key_compare(&a->peers[n].key, identity_public(a->identity)) < 0)
    n++;
  return n;
}

/* ---- start, one part after the other ------------------------------------------------------------------------------ */

static enum err take_peers(struct agent *a) {
  size_t n = a->config->n_peers;
  a->peers = calloc(n + 1, sizeof *a->peers);
  if (!a->peers)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < n; i++) {
    const struct peer_config *p = &a->config->peers[i];
    a->peers[i] = (struct gossip_peer_config){p->key, p->name, p->address};
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
                                .digest = &digest_tree,
                                .keep_last = a->config->keep_last,
                                .keep_best = a->config->keep_best,
                                .max_bytes = (uint64_t)a->config->store_max_mib << 20,
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
  recordings_forget(a); /* with the store the folder is ours alone */
  a->boot_epoch = store_boot_epoch(a->store);
  return ERR_OK;
}

static uint64_t read_clock(void *context) {
  (void)context;
  return clock_ms();
}

static bool names_one_interface(const char *listen) {
  return statement_is_address(listen) && !strstr(listen, "//0.0.0.0:") && !strstr(listen, "//[::]:") &&
         !strstr(listen, "//*:");
}

/* What the agent says of where it is, as much as has room. */
static void write_addresses(const struct config *c, char out_addresses[MAX_ADDRESS_BYTES]) {
  size_t n = 0;
  out_addresses[0] = '\0';
  if (statement_is_address(c->advertise))
    snprintf(out_addresses, MAX_ADDRESS_BYTES, "%s", c->advertise);
  for (size_t i = 0; i < c->n_listen && !c->advertise[0]; i++) {
    size_t n_more = strlen(c->listen[i]) + (n > 0);
    if (names_one_interface(c->listen[i]) && n + n_more < MAX_ADDRESS_BYTES)
      n += (size_t)snprintf(out_addresses + n, MAX_ADDRESS_BYTES - n, "%s%s", n > 0 ? " " : "", c->listen[i]);
  }
}

static enum err open_gossip(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  size_t n_listen = a->config->n_listen;
  const char **listen = calloc(n_listen + 1, sizeof *listen);
  if (!listen)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < n_listen; i++)
    listen[i] = a->config->listen[i];
  const struct gossip_job_config *jobs[MAX_JOBS_IN_HELLO];
  uint64_t payload_bound = 0;
  for (size_t i = 0; i < a->n_jobs; i++) {
    uint64_t bound = site_job_payload_bound(a->jobs[i]->config, schema_shared(a->jobs[i]->schema));
    payload_bound = bound > payload_bound ? bound : payload_bound;
    jobs[i] = job_gossip_config(a->jobs[i]);
  }
  char addresses[MAX_ADDRESS_BYTES];
  write_addresses(a->config, addresses);
  struct gossip_config config = {
      .identity = a->identity,
      .boot_epoch = a->boot_epoch,
      .listen = listen,
      .n_listen = n_listen,
      .peers = a->peers,
      .n_peers = a->config->n_peers,
      .jobs = jobs,
      .n_jobs = a->n_jobs,
      .payload_max_bytes = (uint64_t)a->config->payload_max_mib << 20,
      .payload_bound = payload_bound,
      .beat_s = a->config->metered ? GOSSIP_BEAT_METERED_S : GOSSIP_BEAT_S,
      .max_members = MAX_MEMBERS,
      .relay = a->config->relay == RELAY_ON && a->config->metered == UNMETERED ? GOSSIP_RELAY_CARRY : GOSSIP_RELAY_ASK,
      .name = a->config->name,
      .addresses = addresses,
      .now_ms = read_clock,
      .events_context = a,
  };
  memcpy(config.swarm, a->swarm.bytes, sizeof config.swarm);
  enum err e = gossip_open(&config, &agent_gossip_events, &a->gossip, why);
  free(listen);
  return e;
}

static enum err for_each_job(struct agent *a, enum err (*step)(struct agent_job *j)) {
  enum err e = ERR_OK;
  for (size_t i = 0; e == ERR_OK && i < a->n_jobs; i++)
    e = step(a->jobs[i]);
  return e;
}

static enum err new_job(struct agent *a, const struct site_job_config *config, char why[MAX_CONFIG_WHY_BYTES]) {
  struct agent_job *j;
  enum err e = job_new(a, config, &j, why);
  if (e == ERR_OK)
    agent_add_job(a, j);
  return e;
}

/* A job that was accepted in a former run, with the settings that the site has for it now. One that does not fit them any
 * more is told, and the others run. */
static enum err new_accepted(struct agent *a, struct known_file *k) {
  const struct site_job_config *settings = site_job_newest(a->config, k->file.name);
  char label[JOB_WORDS_BYTES], why[MAX_CONFIG_WHY_BYTES] = "the site file has no job of that name any more";
  struct site_job_config *config = NULL;
  job_words_write(k->file.name, k->file.version, label);
  enum err e = settings ? config_read_job(a->config, settings, label, k->file.text, k->file.n_text, &config, why)
                        : ERR_NOT_FOUND;
  if (e == ERR_OK)
    e = new_job(a, config, why);
  if (e == ERR_OK) {
    a->jobs[a->n_jobs - 1]->own_config = config;
    return ERR_OK;
  }
  config_job_free(config);
  if (e == ERR_NO_MEMORY)
    return e;
  snprintf(k->fault, sizeof k->fault, "%s", why[0] ? why : err_sentence(e));
  log_event(LOG_ERROR, "job-cannot-start", NULL, LOG_FIELDS(log_text("job", label), log_text("text", k->fault)));
  return ERR_OK;
}

/* Those of the site file that were not stopped, and those that were accepted. */
static enum err new_jobs(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  enum err e = ERR_OK;
  for (size_t i = 0; e == ERR_OK && i < a->book.n && a->n_jobs < MAX_JOBS_IN_HELLO; i++) {
    struct known_file *k = &a->book.files[i];
    if (k->state == JOB_FILE_ACCEPTED)
      e = k->configured ? new_job(a, k->configured, why) : new_accepted(a, k);
  }
  return e;
}

/* Reads where to go on, then gives the store to the scribe. */
static enum err resume(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  enum err e = ERR_OK;
  for (size_t i = 0; e == ERR_OK && i < a->n_jobs; i++) {
    e = job_read_past(a->jobs[i], a->store);
    if (e != ERR_OK)
      snprintf(why, MAX_CONFIG_WHY_BYTES, "%s", a->jobs[i]->past.why);
  }
  for (size_t i = 0; e == ERR_OK && i < a->n_jobs; i++)
    job_go_on(a->jobs[i]);
  return e == ERR_OK ? scribe_start(&a->store, &a->scribe) : e;
}

static enum err start(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  a->swarm = swarm_id(a->config->swarm);
  enum err e = key_open(a->config, &a->identity, why);
  if (e == ERR_OK)
    e = take_peers(a);
  if (e == ERR_OK)
    e = open_store(a, why);
  if (e == ERR_OK)
    e = book_open(a, why);
  if (e == ERR_OK)
    e = serving_open(a);
  if (e == ERR_OK)
    e = new_jobs(a, why);
  if (e == ERR_OK)
    e = for_each_job(a, job_start_round);
  if (e == ERR_OK)
    e = open_gossip(a, why); /* as early as the boot epoch is durable: peers wait for nothing else */
  if (e == ERR_OK)
    e = open_control(a, why);
  if (e == ERR_OK)
    e = for_each_job(a, job_start_trainer);
  if (e == ERR_OK)
    e = resume(a, why);
  return e;
}

/* The trainers come to their ends side by side. Gossip goes first: its callbacks ask all the others. */
static void stop(struct agent *a) {
  for (size_t i = 0; i < a->n_jobs; i++)
    trainer_interrupt(a->jobs[i]->trainer);
  for (size_t i = 0; i < a->n_jobs; i++)
    if (a->jobs[i]->round)
      round_release(a->jobs[i]->round);
  if (a->exit_code == EXIT_INTERNAL)
    recordings_keep(a);
  gossip_close(a->gossip, ERR_STOPPED);
  scribe_stop(a->scribe); /* before what it may be reading into */
  for (size_t i = 0; i < MAX_JOBS_IN_HELLO; i++)
    job_free(a->starting[i]);
  for (size_t i = a->n_jobs; i > 0; i--) /* a later one may start from an earlier one's model */
    job_free(a->jobs[i - 1]);
  book_close(a);
  control_close(a->control);
  parking_done(&a->parking);
  while (a->n_unwritten > 0)
    scribe_job_free(a->unwritten[--a->n_unwritten]);
  store_close(a->store);
  identity_free(a->identity);
  free(a->peers);
}

/* ---- loop --------------------------------------------------------------------------------------------------------- */

static int64_t time_left(uint64_t due_ms, uint64_t now_ms) {
  if (due_ms == UINT64_MAX)
    return -1;
  return due_ms > now_ms ? (int64_t)(due_ms - now_ms) : 0;
}

/* The agent ends when every job that is to end it has ended. */
static void end_when_done(struct agent *a, uint64_t now_ms) {
  bool is_short = false;
  size_t n_over = 0;
  for (size_t i = 0; i < a->n_jobs; i++) {
    if (a->jobs[i]->is_stopped)
      continue;
    enum round_end end = round_end(a->jobs[i]->round, now_ms);
    bool is_over = end == ROUND_ENDED || end == ROUND_ENDED_SHORT;
    if (!is_over || a->jobs[i]->config->when_done != WHEN_DONE_EXIT)
      return;
    is_short = is_short || end == ROUND_ENDED_SHORT;
    n_over++;
  }
  if (n_over == 0)
    return; /* every one was stopped by people, who may start another */
  a->exit_code = is_short ? EXIT_FAILED : EXIT_DONE;
  a->is_stopping = true;
}

/* When the loop has to turn again at the latest. */
static uint64_t tick(struct agent *a, uint64_t now_ms) {
  uint64_t due_ms = control_due_ms(a->control), parked_ms = parking_due_ms(&a->parking);
  uint64_t disk_ms = agent_tick_disk(a, now_ms);
  due_ms = parked_ms < due_ms ? parked_ms : due_ms;
  due_ms = disk_ms < due_ms ? disk_ms : due_ms;
  uint64_t book_ms = book_turn(a, now_ms);
  due_ms = book_ms < due_ms ? book_ms : due_ms;
  for (size_t i = 0; i < a->n_jobs; i++) {
    if (a->jobs[i]->is_stopped)
      continue;
    uint64_t cluster_ms = clustering_turn(a->jobs[i], now_ms), job_ms = round_tick(a->jobs[i]->round, now_ms);
    due_ms = job_ms < due_ms ? job_ms : due_ms;
    due_ms = cluster_ms < due_ms ? cluster_ms : due_ms;
  }
  return due_ms;
}

static void turn(struct agent *a) {
  struct link_fd fds[2 + MAX_JOBS_IN_HELLO + CONTROL_MAX_FDS] = {{.fd = a->signal_fd}, {.fd = scribe_fd(a->scribe)}};
  size_t n = 2;
  for (size_t i = 0; i < a->n_jobs; i++)
    if (!a->jobs[i]->is_stopped)
      fds[n++].fd = trainer_fd(a->jobs[i]->trainer);
  struct link_fd *of_control = fds + n;
  size_t n_control = control_fds(a->control, of_control);
  uint64_t now_ms = clock_ms();
  uint64_t due_ms = tick(a, now_ms);
  end_when_done(a, now_ms);
  if (a->is_stopping)
    return;
  link_poll(a->gossip, fds, n + n_control, time_left(due_ms, now_ms));
  if (fds[0].ready)
    take_signal(a);
  agent_take_results(a);
  agent_take_notes(a);
  control_ready(a->control, of_control, n_control, clock_ms());
  parking_turn(a, &a->parking, clock_ms());
}

static void log_started(const struct agent *a) {
  const struct config *c = a->config;
  log_event(LOG_INFO, "started", NULL,
            LOG_FIELDS(log_text("name", c->name), log_integer("peers", (int64_t)c->n_peers),
                       log_text("listen", c->n_listen > 0 ? c->listen[0] : "none")));
  for (size_t i = 0; i < a->n_jobs; i++)
    log_event(LOG_INFO, "job", NULL,
              LOG_FIELDS(log_text("job", a->jobs[i]->config->job.name),
                         log_integer("version", a->jobs[i]->config->job.version),
                         log_integer("parameters", (int64_t)schema_parameters(a->jobs[i]->schema))));
}

/* A peer takes about five descriptors, an agent without strangers and peers 40, and strangers up to a hundred, more for
 * moments, until the gate sends them away. The soft limit is raised as far as the hard one allows. */
static enum err take_descriptors(size_t n_peers, char why[MAX_CONFIG_WHY_BYTES]) {
  enum { A_PEER = 5, NEEDED = 192, PLENTY = 4096 };
  rlim_t of_peers = A_PEER * (rlim_t)n_peers;
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= PLENTY + of_peers)
    return ERR_OK;
  limit.rlim_cur = limit.rlim_max < PLENTY + of_peers ? limit.rlim_max : PLENTY + of_peers;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= NEEDED + of_peers)
    return ERR_OK;
  snprintf(
      why, MAX_CONFIG_WHY_BYTES,
      "the limit of open files is %llu and cannot be raised, an agent with %zu peers needs %llu: set `ulimit -Hn`, "
      "LimitNOFILE= or --ulimit nofile= to that",
      (unsigned long long)limit.rlim_cur, n_peers, (unsigned long long)(NEEDED + of_peers));
  return ERR_LIMIT;
}

int agent_run(const struct config *config, bool holds) {
  struct agent a = {.config = config, .holds = holds, .signal_fd = -1, .started_ms = clock_ms()};
  a.disk.max_bytes = (uint64_t)config->store_max_mib << 20;
  a.disk.n_kept = config->keep_last + config->keep_best;
  char why[MAX_CONFIG_WHY_BYTES] = "";
  log_set(config->log_level, config->log_format);
  enum err e = signals_open(&a.signal_fd);
  if (e == ERR_OK)
    e = take_descriptors(config->n_peers, why);
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
