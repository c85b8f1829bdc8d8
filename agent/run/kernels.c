#include "agent/run/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "agent/run/log.h"
#include "agent/run/team.h"

static const double budget_s = 1;

struct kernels {
  struct kernels_config config;
  struct host host;
  struct plan plan;
  struct tuning tuning;
  struct team *team, *before; /* before: what a learner may still use */
  bool is_known;
  struct selection selection;
};

const struct selection *kernels_selection(const struct kernels *k) {
  return k->is_known ? &k->selection : NULL;
}

struct team *kernels_team(const struct kernels *k) {
  return k->team;
}

static uint32_t threads_of(const struct kernels *k) {
  uint32_t share = host_threads(&k->host) / k->config.n_jobs;
  return share > 1 ? share : 1;
}

static void tell(const struct kernels *k, const char *event, const struct tuned_host *h,
                 const struct tuning_outcome *outcome) {
  log_event(LOG_INFO, event, NULL,
            LOG_FIELDS(log_text("job", k->config.job), log_integer("measured", (int64_t)outcome->n_measured),
                       log_integer("cells", (int64_t)outcome->n_cells), log_real("took_ms", outcome->seconds * 1e3),
                       log_integer("lanes", h->selection.lanes), log_integer("threads", h->selection.threads),
                       log_integer("block", h->selection.block), log_real("step_us", h->seconds * 1e6),
                       log_real("processors", h->processors), log_text("machine", h->machine)));
}

static void warn(const struct kernels *k, const char *event, const char *what, enum err e, const char *then) {
  log_event(LOG_WARNING, event, NULL,
            LOG_FIELDS(log_text("job", k->config.job), log_text("what", what), log_text("why", err_sentence(e)),
                       log_text("then", then)));
}

/* ---- the file ---- */

static void read_file(struct kernels *k) {
  enum err e = tuning_file_read(k->config.path, &k->plan, &k->tuning);
  if (e != ERR_OK && e != ERR_NOT_FOUND && e != ERR_FOREIGN)
    warn(k, "kernels-file-ignored", k->config.path, e, "it is measured anew");
}

static void write_file(const struct kernels *k) {
  enum err e = tuning_file_write(k->config.path, &k->plan, &k->tuning);
  if (e != ERR_OK)
    warn(k, "kernels-not-kept", k->config.path, e, "the next start measures again");
}

/* ---- choosing ---- */

static void take(struct kernels *k, const struct tuned_host *h) {
  k->selection = h->selection;
  if (k->selection.threads > threads_of(k))
    k->selection.threads = threads_of(k); /* of the same bits */
  k->is_known = true;
}

static void measure(struct kernels *k, const struct work_hook *hook) {
  struct tuning_outcome outcome;
  struct team *team = team_start(threads_of(k));
  const struct tuning_order order = {
      .plan = &k->plan, .host = &k->host, .team = team, .seconds = budget_s, .hook = hook};
  enum err e = tuning_measure(&k->tuning, &order, &outcome, NULL);
  team_stop(team);
  if (e != ERR_OK) {
    if (e != ERR_STOPPED)
      warn(k, "kernels-not-measured", "measuring", e, "the built-in kernels compute");
    return;
  }
  write_file(k); /* before a training has its bits */
  take(k, &k->tuning.hosts[0]);
  tell(k, outcome.is_again ? "kernels-measured-again" : "kernels-measured", &k->tuning.hosts[0], &outcome);
}

/* What there is to choose from follows from the threads that may work. */
static enum err plan(struct kernels *k) {
  struct cpu cpu = cpu_detect();
  return plan_make(k->config.arch, k->config.batch, &cpu, threads_of(k), &k->plan);
}

static void choose(struct kernels *k, const struct work_hook *hook) {
  const struct tuned_host *known = tuning_find(&k->tuning, &k->host);
  k->is_known = false;
  if (known != NULL) {
    take(k, known);
    tell(k, "kernels-reused", known, &(struct tuning_outcome){0});
  } else {
    measure(k, hook);
  }
  k->team = k->is_known ? team_start(k->selection.threads) : NULL;
}

enum err kernels_open(const struct kernels_config *config, const struct work_hook *hook, struct kernels **out_kernels) {
  struct kernels *k = calloc(1, sizeof *k);
  if (k == NULL)
    return ERR_NO_MEMORY;
  k->config = *config;
  *out_kernels = k;
  if (config->path == NULL)
    return ERR_OK;
  k->host = host_look(config->root);
  if (plan(k) != ERR_OK)
    return ERR_OK;
  read_file(k);
  choose(k, hook);
  return ERR_OK;
}

void kernels_close(struct kernels *k) {
  if (k == NULL)
    return;
  team_stop(k->team);
  team_stop(k->before);
  tuning_done(&k->tuning);
  free(k);
}

static bool is_same_host(const struct host *a, const struct host *b) {
  char of_a[FINGERPRINT_BYTES], of_b[FINGERPRINT_BYTES];
  host_machine(a, of_a);
  host_machine(b, of_b);
  return fingerprint_equal(of_a, host_processors(a), of_b, host_processors(b));
}

bool kernels_look(struct kernels *k, const struct work_hook *hook) {
  if (k->config.path == NULL)
    return false;
  struct host now = host_look(k->config.root);
  if (is_same_host(&now, &k->host))
    return false;
  k->host = now;
  if (plan(k) != ERR_OK)
    return false;
  if (k->before == NULL)
    k->before = k->team;
  else
    team_stop(k->team); /* no learner has taken it */
  choose(k, hook);
  return true;
}

void kernels_settled(struct kernels *k) {
  team_stop(k->before);
  k->before = NULL;
}
