#include "agent/experiment/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/sim/learning.h"
#include "agent/sim/scenario.h"
#include "base/bytes.h"
#include "base/must.h"
#include "crypto/digest.h"
#include "models/continual/matrix.h"
#include "models/formats/unpack.h"

/* ---- the swarm ---------------------------------------------------------------------------------------------------- */

enum { HELD_NUMBERS = 4, MAX_VIRTUAL_S = 1000000000 };

/* Accuracies on each task when another began, and at the end. */
struct history {
  size_t n_tasks, n_times, trained[STORE_MAX_TASKS];
  double r[STORE_MAX_TASKS * STORE_MAX_TASKS]; /* [n_times][n_tasks] */
};

struct story {
  const struct experiment_watch *watch;
  struct history *histories; /* [n_agents] */
  struct experiment_agent *agents;
  uint64_t n_events, n_rounds;
  struct digest_state models; /* the last ones, as they are committed */
};

/* The last one of each position stays. */
static void put_tasks(struct history *h, const struct store_tasks *tasks) {
  if (tasks->n == 0 || tasks->position >= STORE_MAX_TASKS)
    return;
  h->n_tasks = tasks->n;
  h->n_times = tasks->position + 1;
  h->trained[tasks->position] = tasks->trained;
  memcpy(h->r + (size_t)tasks->position * tasks->n, tasks->accuracy, tasks->n * sizeof *h->r);
}

static void on_committed(void *context, const struct sim_agent *a, const struct store_commitment *c) {
  struct story *g = context;
  struct experiment_agent *own = &g->agents[a->number];
  if (c->label.round >= g->n_rounds && c->model)
    digest_blake2b.add(&g->models, c->model, c->n_model);
  own->sent_bytes += c->sent_bytes;
  own->round = c->label.round;
  put_tasks(&g->histories[a->number], &c->tasks);
  own->local = c->metrics.has_local ? c->metrics.local_headline : __builtin_nan("");
  own->global = c->metrics.has_global ? c->metrics.global_headline : __builtin_nan("");
}

static bool on_step(void *context, struct sim *s) {
  enum { LOOK_EVERY = 64 };
  struct story *g = context;
  if (g->n_events++ % LOOK_EVERY != 0)
    return true;
  uint64_t lowest = UINT64_MAX;
  for (size_t i = 0; i < s->n_agents; i++)
    lowest = g->agents[i].round < lowest ? g->agents[i].round : lowest;
  atomic_store(g->watch->round, lowest);
  return !atomic_load(g->watch->stop);
}

static struct sim *swarm(const struct experiment *x, const struct experiment_run *run) {
  const struct experiment_method *m = &x->methods[run->method];
  struct sim *s = sim_new_protocol((size_t)x->n_agents, HELD_NUMBERS, HELD_NUMBERS * sizeof(double), run->seed);
  topology_connect((enum topology)m->topology, s, (size_t)m->degree);
  return s;
}

/* Why the run is none; ERR_OK: all honest agents are through. */
static enum err judge(const struct experiment *x, size_t method, const struct sim *s, const struct sim_learning *l,
                      const struct story *g, char why[MAX_CONFIG_WHY_BYTES]) {
  const char *sentence = NULL;
  const size_t n_honest = s->n_agents - (size_t)x->methods[method].n_attackers;
  enum err e = sim_learning_fault(l, &sentence);
  if (e) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s", sentence);
    return e;
  }
  if (s->n_broken > 0) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "agent %zu: not true that %s", s->first_broken.agent,
             sim_invariant_sentence(s->first_broken.invariant));
    return ERR_CORRUPT;
  }
  if (atomic_load(g->watch->stop))
    return ERR_STOPPED;
  for (size_t i = 0; i < n_honest; i++)
    if (g->agents[i].round < x->n_rounds) {
      snprintf(why, MAX_CONFIG_WHY_BYTES, "agent %zu ended after round %" PRIu64 " of %" PRIu64, i, g->agents[i].round,
               x->n_rounds);
      return ERR_TIMED_OUT;
    }
  return ERR_OK;
}

static uint64_t hash_of(struct story *g, uint64_t trace) {
  struct digest hash;
  struct cursor c;
  digest_blake2b.end(&g->models, &hash);
  cursor_init(&c, hash.bytes, sizeof hash.bytes);
  return trace ^ cursor_u64(&c);
}

/* A test of one class has no headline: what was right of it counts for the whole of all tests. */
static void put_test(struct experiment_agent *a, size_t n_tests, double right) {
  a->n_tests = n_tests;
  if (a->local != a->local)
    a->local = right;
}

static enum err play(const struct experiment *x, const struct experiment_run *run, struct config *config,
                     struct story *g, uint64_t *out_trace, char why[MAX_CONFIG_WHY_BYTES]) {
  const struct sim_learning_options options = experiment_options(x, run->method);
  const struct scenario scenario = {.n_agents = x->n_agents, .duration_s = MAX_VIRTUAL_S};
  const struct scenario_observer observer = {g, on_step};
  struct sim_learning *l = NULL;
  struct sim *s = swarm(x, run);
  s->watch.context = g;
  s->watch.committed = on_committed;
  enum err e = sim_learning_open(config, &config->jobs[0], s, &options, &l, why);
  if (!e) {
    scenario_run(&scenario, s, &observer);
    e = judge(x, run->method, s, l, g, why);
    for (size_t i = 0; i < s->n_agents; i++)
      put_test(&g->agents[i], sim_learning_tests(l, i), sim_learning_right(l, i));
    *out_trace = hash_of(g, s->trace);
  }
  sim_free(s);
  sim_learning_close(l);
  return e;
}

enum err experiment_do(const struct experiment *x, const struct experiment_run *run, struct config *config,
                       const struct experiment_watch *watch, struct experiment_result *out_result,
                       char out_why[MAX_CONFIG_WHY_BYTES]) {
  double start_s = clock_s();
  struct experiment_result r = {.n_agents = (size_t)x->n_agents, .agents = calloc(x->n_agents, sizeof *r.agents)};
  struct story g = {.watch = watch, .agents = r.agents, .n_rounds = x->n_rounds};
  g.histories = calloc(x->n_agents, sizeof *g.histories);
  MUST(r.agents != NULL && g.histories != NULL);
  digest_blake2b.init(&g.models);
  enum err e = play(x, run, config, &g, &r.trace, out_why);
  for (size_t i = 0; i < r.n_agents; i++) {
    const struct history *h = &g.histories[i];
    struct continual_summary s = {__builtin_nan(""), __builtin_nan(""), __builtin_nan("")};
    if (h->n_times > 0)
      s = matrix_summary(h->r, h->trained, h->n_times, h->n_tasks);
    r.agents[i].acc = s.acc;
    r.agents[i].forgetting = s.forgetting;
  }
  free(g.histories);
  if (e) {
    experiment_result_done(&r);
    return e;
  }
  r.seconds = clock_s() - start_s;
  *out_result = r;
  return ERR_OK;
}

void experiment_result_done(struct experiment_result *r) {
  free(r->agents);
  *r = (struct experiment_result){0};
}

/* ---- unpacked data ------------------------------------------------------------------------------------------------ */

enum { MAX_UNPACKED = 64 };

struct data_cache {
  char folder[MAX_PATH_BYTES];
  char *from[MAX_UNPACKED], *to[MAX_UNPACKED];
  size_t n;
};

enum err data_cache_open(struct data_cache **out_cache, char out_why[MAX_CONFIG_WHY_BYTES]) {
  const char *base = getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe): nobody sets it
  struct data_cache *c = calloc(1, sizeof *c);
  MUST(c != NULL);
  int n = snprintf(c->folder, sizeof c->folder, "%s/starling-experiment-XXXXXX", base && base[0] ? base : "/tmp");
  if (n < (int)sizeof c->folder && mkdtemp(c->folder)) {
    *out_cache = c;
    return ERR_OK;
  }
  enum err e = n < (int)sizeof c->folder ? err_from_errno(errno) : ERR_LIMIT;
  snprintf(out_why, MAX_CONFIG_WHY_BYTES, "%s: %s; set TMPDIR to a folder for unpacked data", c->folder,
           err_sentence(e));
  free(c);
  return e;
}

void data_cache_close(struct data_cache *c) {
  if (!c)
    return;
  for (size_t i = 0; i < c->n; i++) {
    unlink(c->to[i]);
    free(c->from[i]);
    free(c->to[i]);
  }
  rmdir(c->folder);
  free(c);
}

static bool is_gzip(const char *path) {
  size_t n = path ? strlen(path) : 0;
  return n > 3 && strcmp(path + n - 3, ".gz") == 0;
}

static enum err unpack_one(struct data_cache *c, const char *from, const char **out_to, char *why) {
  char to[MAX_PATH_BYTES + 32];
  for (size_t i = 0; i < c->n; i++)
    if (strcmp(c->from[i], from) == 0) {
      *out_to = c->to[i];
      return ERR_OK;
    }
  snprintf(to, sizeof to, "%s/data%zu", c->folder, c->n);
  enum err e = c->n < MAX_UNPACKED ? unpack(from, to) : ERR_LIMIT;
  if (e) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s; check the path, and the room in %s", from, err_sentence(e), c->folder);
    return e;
  }
  c->from[c->n] = strdup(from);
  c->to[c->n] = strdup(to);
  MUST(c->from[c->n] && c->to[c->n]);
  *out_to = c->to[c->n++];
  return ERR_OK;
}

enum err data_cache_take(struct data_cache *c, struct config *config, char out_why[MAX_CONFIG_WHY_BYTES]) {
  struct site_job_config *s = &config->jobs[0];
  char **const paths[] = {&s->train_path,  &s->train_labels,     &s->test_path,
                          &s->test_labels, &s->global_test_path, &s->global_test_labels};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    const char *to = NULL;
    if (!is_gzip(*paths[i]))
      continue;
    enum err e = unpack_one(c, *paths[i], &to, out_why);
    if (e)
      return e;
    free(*paths[i]);
    *paths[i] = strdup(to);
    MUST(*paths[i] != NULL);
  }
  return ERR_OK;
}
