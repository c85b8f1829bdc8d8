/* starling experiment: methods × splits × seeds, and the table of what they have given. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/clock.h"
#include "agent/experiment/results.h"
#include "agent/host.h"
#include "base/must.h"
#include "models/judging/spread.h"

enum experiment_flag { EXPERIMENT_RESULTS, EXPERIMENT_SHOW };

/* A run as it is planned. */
struct plan_item {
  struct experiment_run run;
  struct digest id;
  struct config *config; /* NULL: there is a result of it, or an item before has the same id */
};

enum { TOLD = SIGUSR1 /* to the main thread: a run has ended */ };

struct pool {
  struct call *call;
  const struct experiment *x;
  struct plan_item *items; /* [n] */
  size_t n, n_missing;
  struct results *results;
  pthread_t main_thread;
  atomic_bool stop;

  pthread_mutex_t lock; /* of what follows, and of results */
  size_t next, n_done;
  double busy_s; /* of runs that are done */
  enum err error;
  char why[MAX_CONFIG_WHY_BYTES + 3 * MAX_NAME_BYTES];
};

struct worker {
  struct pool *pool;
  pthread_t thread;
  _Atomic uint64_t round;
  _Atomic size_t item; /* SIZE_MAX: none */
};

/* ---- planning ----------------------------------------------------------------------------------------------------- */

static bool is_planned(const struct pool *p, size_t n, const struct digest *id) {
  for (size_t i = 0; i < n; i++)
    if (p->items[i].config && digest_equal(&p->items[i].id, id))
      return true;
  return false;
}

/* What is missing keeps its configuration. */
static enum err plan(struct pool *p, struct data_cache *cache, char why[MAX_CONFIG_WHY_BYTES]) {
  enum err e = ERR_OK;
  for (size_t i = 0; i < p->n && !e; i++) {
    struct plan_item *item = &p->items[i];
    struct config *c = NULL;
    item->run = experiment_run_at(p->x, i);
    e = experiment_config(p->x, &item->run, &c, why);
    if (e)
      break;
    item->id = experiment_run_id(p->x, &item->run, c);
    bool is_known = (p->results && results_find(p->results, &item->id)) || is_planned(p, i, &item->id);
    if (!is_known && cache)
      e = data_cache_take(cache, c, why);
    if (!is_known && !e) {
      item->config = c;
      c = NULL;
      p->n_missing++;
    }
    config_free(c);
  }
  return e;
}

/* ---- running ------------------------------------------------------------------------------------------------------ */

/* SIZE_MAX: there is nothing left to do. */
static size_t take_item(struct pool *p) {
  pthread_mutex_lock(&p->lock);
  while (p->next < p->n && !p->items[p->next].config)
    p->next++;
  size_t i = p->next < p->n && !atomic_load(&p->stop) ? p->next++ : SIZE_MAX;
  pthread_mutex_unlock(&p->lock);
  return i;
}

static void put_failure(struct pool *p, const struct experiment_run *run, enum err e, const char *why) {
  if (p->error || e == ERR_STOPPED)
    return;
  p->error = e;
  snprintf(p->why, sizeof p->why, "method %s, split %s, seed %" PRIu64 ": %s", p->x->methods[run->method].name,
           p->x->splits[run->split]->text, run->seed, why);
  atomic_store(&p->stop, true);
}

static void do_item(struct worker *w, size_t i) {
  struct pool *p = w->pool;
  struct plan_item *item = &p->items[i];
  const struct experiment_watch watch = {&p->stop, &w->round};
  struct experiment_result result;
  char why[MAX_CONFIG_WHY_BYTES] = "";
  enum err e = experiment_do(p->x, &item->run, item->config, &watch, &result, why);
  pthread_mutex_lock(&p->lock);
  if (!e) {
    result.id = item->id;
    p->busy_s += result.seconds;
    e = results_put(p->results, p->x, &item->run, &result);
    if (e) {
      snprintf(why, sizeof why, "its result cannot be written: %s; make room or name another file with --results",
               err_sentence(e));
      experiment_result_done(&result);
    } else {
      p->n_done++;
    }
  }
  if (e)
    put_failure(p, &item->run, e, why);
  pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *context) {
  struct worker *w = context;
  for (size_t i; (i = take_item(w->pool)) != SIZE_MAX;) {
    atomic_store(&w->round, 0);
    atomic_store(&w->item, i);
    do_item(w, i);
    atomic_store(&w->item, SIZE_MAX);
    pthread_kill(w->pool->main_thread, TOLD);
  }
  pthread_kill(w->pool->main_thread, TOLD);
  return NULL;
}

/* "12 of 36 runs; FedAvg, dirichlet 0.3, seed 2: round 34 of 60; about 2m10s left" */
static void show_progress(struct pool *p, const struct worker *workers, size_t n) {
  const struct experiment *x = p->x;
  char at[3 * MAX_NAME_BYTES] = "";
  pthread_mutex_lock(&p->lock);
  size_t n_done = p->n_done, n_missing = p->n_missing;
  double left_s = n_done ? p->busy_s / (double)n_done * (double)(n_missing - n_done) / (double)n : 0;
  pthread_mutex_unlock(&p->lock);
  for (size_t i = n; i-- > 0;) {
    size_t item = atomic_load(&workers[i].item);
    if (item == SIZE_MAX)
      continue;
    const struct experiment_run *run = &p->items[item].run;
    snprintf(at, sizeof at, "; %.40s, %.24s, seed %" PRIu64 ": round %" PRIu64 " of %" PRIu64,
             x->methods[run->method].name, x->splits[run->split]->text, run->seed, atomic_load(&workers[i].round),
             x->n_rounds);
  }
  fprintf(stderr, "\r\033[K%zu of %zu runs%s", n_done, n_missing, at);
  if (left_s > 0)
    fprintf(stderr, "; about %.0f min %.0f s left", (double)(uint64_t)(left_s / 60),
            left_s - 60 * (double)(uint64_t)(left_s / 60));
}

static bool is_through(struct pool *p, const struct worker *workers, size_t n) {
  bool is_busy = false;
  for (size_t i = 0; i < n; i++)
    is_busy = is_busy || atomic_load(&workers[i].item) != SIZE_MAX;
  pthread_mutex_lock(&p->lock);
  bool has_more = !atomic_load(&p->stop) && p->n_done < p->n_missing;
  pthread_mutex_unlock(&p->lock);
  return !is_busy && !has_more;
}

static void attend(struct pool *p, const struct worker *workers, size_t n) {
  const struct timespec while_watched = {.tv_nsec = 250000000}, otherwise = {.tv_sec = 1};
  bool shows = p->call->format == FORMAT_TABLE && isatty(STDERR_FILENO);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, TOLD);
  while (!is_through(p, workers, n)) {
    if (shows)
      show_progress(p, workers, n);
    int told = sigtimedwait(&signals, NULL, shows ? &while_watched : &otherwise);
    if (told == SIGINT || told == SIGTERM)
      atomic_store(&p->stop, true);
  }
  if (shows)
    fprintf(stderr, "\r\033[K");
}

/* Blocked before any thread begins, so that the main thread alone takes them. */
static void block_signals(void) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, TOLD);
  sigprocmask(SIG_BLOCK, &signals, NULL);
}

static void run_all(struct pool *p) {
  struct host host = host_look("");
  size_t n = host_threads(&host);
  if (n > p->n_missing)
    n = p->n_missing;
  struct worker *workers = calloc(n + 1, sizeof *workers);
  MUST(workers != NULL);
  p->main_thread = pthread_self();
  block_signals();
  for (size_t i = 0; i < n; i++) {
    workers[i].pool = p;
    atomic_store(&workers[i].item, SIZE_MAX);
  }
  for (size_t i = 0; i < n; i++)
    MUST(pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) == 0);
  attend(p, workers, n);
  for (size_t i = 0; i < n; i++)
    pthread_join(workers[i].thread, NULL);
  free(workers);
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

/* Figures of one method and split, a value a seed. */
struct row {
  double local[MAX_EXPERIMENT_SEEDS], worst[MAX_EXPERIMENT_SEEDS], global[MAX_EXPERIMENT_SEEDS];
  double sent[MAX_EXPERIMENT_SEEDS], seconds[MAX_EXPERIMENT_SEEDS];
  double acc[MAX_EXPERIMENT_SEEDS], forgetting[MAX_EXPERIMENT_SEEDS];
  double last[MAX_EXPERIMENT_SEEDS]; /* the worst agent, where some are bad */
  size_t n;
};

/* On the common test, or where there is none on its own; NaN: nobody was judged. */
static double worst_of(const double *global, const double *local, size_t n, size_t n_local) {
  double worst = __builtin_nan("");
  for (size_t i = 0; i < n; i++)
    worst = global[i] == global[i] && !(worst <= global[i]) ? global[i] : worst;
  for (size_t i = 0; i < n_local && global[0] != global[0]; i++)
    worst = local[i] == local[i] && !(worst <= local[i]) ? local[i] : worst;
  return worst;
}

/* The last n_bad agents do not count. */
static void row_add(struct row *row, const struct experiment_result *r, size_t n_bad) {
  double local[MAX_EXPERIMENT_AGENTS], tests[MAX_EXPERIMENT_AGENTS], global[MAX_EXPERIMENT_AGENTS],
      sent[MAX_EXPERIMENT_AGENTS], acc[MAX_EXPERIMENT_AGENTS], forgetting[MAX_EXPERIMENT_AGENTS];
  size_t n = r->n_agents - n_bad, n_local = 0;
  for (size_t i = 0; i < n; i++) {
    const struct experiment_agent *a = &r->agents[i];
    global[i] = a->global;
    sent[i] = (double)a->sent_bytes;
    acc[i] = a->acc;
    forgetting[i] = a->forgetting;
    if (a->n_tests == 0)
      continue;
    local[n_local] = a->local;
    tests[n_local++] = (double)a->n_tests;
  }
  row->local[row->n] = weighted_mean(local, tests, n_local);
  row->worst[row->n] = worst_decile(local, n_local);
  row->global[row->n] = spread_of(global, n).mean;
  row->acc[row->n] = spread_of(acc, n).mean;
  row->forgetting[row->n] = spread_of(forgetting, n).mean;
  row->last[row->n] = n_bad > 0 ? worst_of(global, local, n, n_local) : __builtin_nan("");
  row->sent[row->n] = spread_of(sent, n).mean;
  row->seconds[row->n++] = r->seconds;
}

static json_t *figure(double value) {
  return value == value ? json_real(value) : json_null();
}

static void set_figure(json_t *row, const char *mean_key, const char *sd_key, const double *values, size_t n) {
  struct spread s = spread_of(values, n);
  json_object_set_new(row, mean_key, figure(s.mean));
  if (sd_key)
    json_object_set_new(row, sd_key, figure(s.sd));
}

static json_t *row_json(const struct pool *p, size_t method, size_t split) {
  struct row row = {.n = 0};
  for (size_t i = 0; i < p->n; i++) {
    const struct plan_item *item = &p->items[i];
    const struct experiment_result *r = item->run.method == method && item->run.split == split && p->results
                                            ? results_find(p->results, &item->id)
                                            : NULL;
    if (r)
      row_add(&row, r, (size_t)p->x->methods[method].n_attackers);
  }
  json_t *json = json_pack("{s:s, s:s, s:I}", "method", p->x->methods[method].name, "split", p->x->splits[split]->text,
                           "seeds", (json_int_t)row.n);
  set_figure(json, "local", "local_sd", row.local, row.n);
  set_figure(json, "worst_decile", "worst_decile_sd", row.worst, row.n);
  set_figure(json, "global", "global_sd", row.global, row.n);
  set_figure(json, "worst", "worst_sd", row.last, row.n);
  set_figure(json, "acc", "acc_sd", row.acc, row.n);
  set_figure(json, "forgetting", "forgetting_sd", row.forgetting, row.n);
  set_figure(json, "sent_bytes", NULL, row.sent, row.n);
  set_figure(json, "run_seconds", NULL, row.seconds, row.n);
  return json;
}

static json_t *data_json(const struct pool *p, const char *path) {
  const struct experiment *x = p->x;
  json_t *rows = json_array();
  for (size_t s = 0; s < x->n_splits; s++)
    for (size_t m = 0; m < x->n_methods; m++)
      json_array_append_new(rows, row_json(p, m, s));
  return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:o}", "experiment", x->name, "agents", (json_int_t)x->n_agents,
                   "rounds", (json_int_t)x->n_rounds, "runs", (json_int_t)p->n, "done", (json_int_t)p->n_done,
                   "missing", (json_int_t)(p->n_missing - p->n_done), "results", path, "rows", rows);
}

/* "82.1 ± 0.3": in percent. */
static void set_shown(json_t *row, const char *key, const char *mean_key, const char *sd_key) {
  const json_t *mean = json_object_get(row, mean_key), *sd = json_object_get(row, sd_key);
  char text[64];
  if (!json_is_number(mean))
    return;
  if (json_is_number(sd))
    snprintf(text, sizeof text, "%.1f ± %.1f", 100 * json_number_value(mean), 100 * json_number_value(sd));
  else
    snprintf(text, sizeof text, "%.1f", 100 * json_number_value(mean));
  json_object_set_new(row, key, json_string(text));
}

static void view_table(const json_t *data, FILE *out) {
  static const struct column columns[] = {{"METHOD", "method", FORM_TEXT},
                                          {"SPLIT", "split", FORM_TEXT},
                                          {"SEEDS", "seeds", FORM_COUNT},
                                          {"LOCAL %", "local_shown", FORM_TEXT},
                                          {"WORST DECILE %", "worst_shown", FORM_TEXT},
                                          {"GLOBAL %", "global_shown", FORM_TEXT},
                                          {"WORST HONEST %", "last_shown", FORM_TEXT | COLUMN_IF_ANY},
                                          {"ACC %", "acc_shown", FORM_TEXT | COLUMN_IF_ANY},
                                          {"FORGETTING %", "forgetting_shown", FORM_TEXT | COLUMN_IF_ANY},
                                          {"SENT AN AGENT", "sent_bytes", FORM_BYTES},
                                          {"A RUN", "run_seconds", FORM_DURATION}};
  json_t *rows = json_deep_copy(json_object_get(data, "rows")), *row;
  size_t i;
  json_array_foreach(rows, i, row) {
    set_shown(row, "local_shown", "local", "local_sd");
    set_shown(row, "worst_shown", "worst_decile", "worst_decile_sd");
    set_shown(row, "global_shown", "global", "global_sd");
    set_shown(row, "last_shown", "worst", "worst_sd");
    set_shown(row, "acc_shown", "acc", "acc_sd");
    set_shown(row, "forgetting_shown", "forgetting", "forgetting_sd");
  }
  table_print(columns, sizeof columns / sizeof *columns, rows, false, out);
  json_decref(rows);
  fprintf(out, "\n%s: %.0f agents, %.0f rounds; mean ± standard deviation over seeds\n",
          json_string_value(json_object_get(data, "experiment")), json_number_value(json_object_get(data, "agents")),
          json_number_value(json_object_get(data, "rounds")));
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"METHOD", "method", FORM_TEXT},
                                          {"SPLIT", "split", FORM_TEXT},
                                          {"SEEDS", "seeds", FORM_COUNT},
                                          {"LOCAL", "local", FORM_SCORE},
                                          {"LOCAL SD", "local_sd", FORM_SCORE},
                                          {"WORST DECILE", "worst_decile", FORM_SCORE},
                                          {"WORST DECILE SD", "worst_decile_sd", FORM_SCORE},
                                          {"GLOBAL", "global", FORM_SCORE},
                                          {"GLOBAL SD", "global_sd", FORM_SCORE},
                                          {"WORST HONEST", "worst", FORM_SCORE},
                                          {"WORST HONEST SD", "worst_sd", FORM_SCORE},
                                          {"ACC", "acc", FORM_SCORE},
                                          {"ACC SD", "acc_sd", FORM_SCORE},
                                          {"FORGETTING", "forgetting", FORM_SCORE},
                                          {"FORGETTING SD", "forgetting_sd", FORM_SCORE},
                                          {"SENT AN AGENT", "sent_bytes", FORM_BYTES},
                                          {"A RUN", "run_seconds", FORM_DURATION}};
  if (call->format == FORMAT_TSV)
    table_print(columns, sizeof columns / sizeof *columns, json_object_get(data, "rows"), true, out);
  else
    view_table(data, out);
}

/* ---- the verb ----------------------------------------------------------------------------------------------------- */

/* FILE.results beside FILE.yaml. */
static void results_path(const struct call *call, char out_path[MAX_PATH_BYTES + 16]) {
  const char *file = call->arguments[0], *flag = call->flags[EXPERIMENT_RESULTS];
  size_t n = strlen(file);
  bool is_yaml = n > 5 && strcmp(file + n - 5, ".yaml") == 0;
  if (flag)
    snprintf(out_path, MAX_PATH_BYTES + 16, "%s", flag);
  else
    snprintf(out_path, MAX_PATH_BYTES + 16, "%.*s.results", (int)(is_yaml ? n - 5 : n), file);
}

static int answer_all(struct pool *p, const char *path) {
  size_t n_left = p->n_missing - p->n_done;
  if (p->error)
    return answer_error(p->call, EXIT_FAILED, err_name(p->error), NULL, "%s", p->why);
  if (n_left > 0)
    answer_warn(p->call, "%zu of %zu runs are missing; run it again to go on", n_left, p->n);
  if (p->results && results_skipped(p->results) > 0)
    answer_warn(p->call, "%s: lines that are no results and were skipped: %zu", path, results_skipped(p->results));
  int code = answer(p->call, data_json(p, path), view);
  return code == EXIT_DONE && n_left > 0 ? EXIT_FAILED : code;
}

static enum err open_results(struct pool *p, const char *path, bool shows) {
  enum err e = results_open(path, !shows, &p->results);
  return e == ERR_NOT_FOUND && shows ? ERR_OK : e;
}

static const char *why_closed(enum err e) {
  return e == ERR_BUSY          ? "another experiment writes there"
         : e == ERR_UNSUPPORTED ? "it is not a regular file"
                                : err_sentence(e);
}

static int conduct(struct pool *p) {
  char why[MAX_CONFIG_WHY_BYTES] = "", path[MAX_PATH_BYTES + 16];
  struct data_cache *cache = NULL;
  bool shows = p->call->flags[EXPERIMENT_SHOW] != NULL;
  results_path(p->call, path);
  enum err e = open_results(p, path, shows);
  if (e)
    return answer_error(p->call, EXIT_USAGE, err_name(e), "name a file that can be written with --results", "%s: %s",
                        path, why_closed(e));
  if (!shows)
    e = data_cache_open(&cache, why);
  if (!e)
    e = plan(p, cache, why);
  if (!e && !shows && p->n_missing > 0)
    run_all(p);
  data_cache_close(cache);
  return e ? answer_error(p->call, EXIT_USAGE, err_name(e), NULL, "%s", why) : answer_all(p, path);
}

int verb_experiment(struct call *call) {
  struct experiment *x;
  char why[MAX_CONFIG_WHY_BYTES];
  enum err e = experiment_load(call->arguments[0], &x, why);
  if (e)
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", why);
  struct pool p = {.call = call, .x = x, .n = experiment_runs(x), .lock = PTHREAD_MUTEX_INITIALIZER};
  p.items = calloc(p.n, sizeof *p.items);
  MUST(p.items != NULL);
  int code = conduct(&p);
  for (size_t i = 0; i < p.n; i++)
    config_free(p.items[i].config);
  free(p.items);
  results_close(p.results);
  experiment_free(x);
  return code;
}
