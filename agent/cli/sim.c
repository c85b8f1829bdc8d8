/* starling sim: a swarm in virtual time, as a scenario file describes it, and what became of it. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/sim.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/clock.h"
#include "agent/sim/learning.h"
#include "agent/sim/tally.h"
#include "agent/sim/trace.h"

enum { MAX_SHOWN = 24 };

/* ---- the answer ---- */

static json_t *row_json(const struct sim_agent *a, const struct sim_tally_row *r) {
  enum err reason = sim_tally_reason(r);
  struct round_label at = a->durable.committed;
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:s?, s:I, s:f, s:o}", "agent",
                   (json_int_t)a->number, "round", (json_int_t)at.round, "sub", (json_int_t)at.sub, "merged_rounds",
                   (json_int_t)r->n_rounds, "short_rounds", (json_int_t)r->n_short, "jumps", (json_int_t)r->n_jumps,
                   "round_seconds", sim_tally_round_s(r), "sent_bytes", (json_int_t)r->sent_bytes, "received_bytes",
                   (json_int_t)r->received_bytes, "taken", (json_int_t)r->n_merged, "left_out",
                   (json_int_t)r->n_left_out, "reason", reason ? err_name(reason) : NULL, "last", (json_int_t)r->n_last,
                   "arrival_seconds", sim_tally_arrival_s(r), "headline",
                   r->has_headline ? json_real(r->headline) : json_null());
}

json_t *sim_broken_json(const struct sim *s) {
  if (s->n_broken == 0)
    return json_null();
  const struct sim_broken *b = &s->first_broken;
  return json_pack("{s:s, s:s, s:I, s:f}", "invariant", sim_invariant_name(b->invariant), "sentence",
                   sim_invariant_sentence(b->invariant), "agent", (json_int_t)b->agent, "seconds",
                   (double)b->at_us / 1e6 - (double)SIM_START_MS / 1e3);
}

static json_t *sim_json(const struct scenario *c, const struct sim *s, const struct sim_tally *t, double wall_s) {
  char trace[17];
  double round_s = 0, headline = 0, n_headlines = 0;
  uint64_t n_timed = 0, n_merged = 0, n_left_out = 0, n_sent = 0;
  json_t *rows = json_array();
  snprintf(trace, sizeof trace, "%016" PRIx64, s->trace);
  for (size_t i = 0; i < t->n; i++) {
    const struct sim_tally_row *r = &t->rows[i];
    json_array_append_new(rows, row_json(s->agents[i], r));
    n_timed += sim_tally_round_s(r) > 0;
    n_headlines += r->has_headline;
    headline += r->has_headline ? r->headline : 0;
    round_s += sim_tally_round_s(r);
    n_merged += r->n_merged;
    n_left_out += r->n_left_out;
    n_sent += r->sent_bytes;
  }
  return json_pack("{s:I, s:I, s:s, s:f, s:f, s:I, s:I, s:f, s:I, s:I, s:I, s:o, s:o, s:o}", "agents",
                   (json_int_t)c->n_agents, "seed", (json_int_t)c->seed, "trace", trace, "seconds",
                   (double)(s->now_ms - SIM_START_MS) / 1e3, "wall_seconds", wall_s, "events", (json_int_t)s->n_events,
                   "frames", (json_int_t)s->n_frames, "round_seconds", n_timed ? round_s / (double)n_timed : 0.0,
                   "sent_bytes", (json_int_t)n_sent, "taken", (json_int_t)n_merged, "left_out", (json_int_t)n_left_out,
                   "headline", n_headlines > 0 ? json_real(headline / n_headlines) : json_null(), "broken",
                   sim_broken_json(s), "rows", rows);
}

/* For people the ones that the others waited for longest. */
static int by_lateness(const void *a, const void *b) {
  const json_t *const *x = a, *const *y = b;
  double late_x = json_number_value(json_object_get(*x, "arrival_seconds"));
  double late_y = json_number_value(json_object_get(*y, "arrival_seconds"));
  json_int_t out_x = json_integer_value(json_object_get(*x, "left_out"));
  json_int_t out_y = json_integer_value(json_object_get(*y, "left_out"));
  if (out_x != out_y)
    return out_x > out_y ? -1 : 1;
  if (late_x < late_y || late_x > late_y)
    return late_x > late_y ? -1 : 1;
  json_int_t agent_x = json_integer_value(json_object_get(*x, "agent"));
  return agent_x < json_integer_value(json_object_get(*y, "agent")) ? -1 : 1;
}

static json_t *rows_shown(const json_t *rows) {
  size_t n = json_array_size(rows);
  json_t **sorted = calloc(n + 1, sizeof(void *));
  json_t *shown = json_array();
  for (size_t i = 0; sorted && i < n; i++)
    sorted[i] = json_array_get(rows, i);
  if (sorted)
    qsort(sorted, n, sizeof(void *), by_lateness);
  for (size_t i = 0; sorted && i < n && i < MAX_SHOWN; i++)
    json_array_append_new(shown, json_copy(sorted[i]));
  free(sorted);
  return shown;
}

void sim_broken_view(const json_t *broken, FILE *out) {
  if (!json_is_null(broken))
    fprintf(out, "broken: agent %.0f at %.3f s: %s: not true that %s\n",
            json_number_value(json_object_get(broken, "agent")), json_number_value(json_object_get(broken, "seconds")),
            json_string_value(json_object_get(broken, "invariant")),
            json_string_value(json_object_get(broken, "sentence")));
}

static void view_summary(const json_t *data, FILE *out) {
  double agents = json_number_value(json_object_get(data, "agents"));
  double wall = json_number_value(json_object_get(data, "wall_seconds"));
  double events = json_number_value(json_object_get(data, "events"));
  double taken = json_number_value(json_object_get(data, "taken"));
  double left_out = json_number_value(json_object_get(data, "left_out"));
  double updates = taken + left_out;
  if (agents > MAX_SHOWN)
    fprintf(out, "(the %d of %.0f agents that were left out most and waited for longest)\n", MAX_SHOWN, agents);
  fprintf(out, "\n%.0f agents, %.1f s: ", agents, json_number_value(json_object_get(data, "seconds")));
  value_print(json_object_get(data, "round_seconds"), FORM_DURATION, out);
  fprintf(out, " a round, ");
  value_print(json_object_get(data, "sent_bytes"), FORM_BYTES, out);
  fprintf(out, " sent in all, %.1f %% of updates left out\n", updates > 0 ? 100 * left_out / updates : 0);
  fprintf(out, "trace %s, seed %.0f; %.0f events in %.2f s\n", json_string_value(json_object_get(data, "trace")),
          json_number_value(json_object_get(data, "seed")), events, wall);
  if (!json_is_null(json_object_get(data, "headline")))
    fprintf(out, "headline of the models, mean: %.4f\n", json_number_value(json_object_get(data, "headline")));
  sim_broken_view(json_object_get(data, "broken"), out);
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"AGENT", "agent", FORM_COUNT},
                                          {"ROUND", "round", FORM_COUNT},
                                          {"SUB", "sub", FORM_COUNT | COLUMN_IF_ANY},
                                          {"SHORT", "short_rounds", FORM_COUNT | COLUMN_IF_ANY},
                                          {"JUMPS", "jumps", FORM_COUNT | COLUMN_IF_ANY},
                                          {"A ROUND", "round_seconds", FORM_DURATION},
                                          {"SENT", "sent_bytes", FORM_BYTES},
                                          {"RECEIVED", "received_bytes", FORM_BYTES},
                                          {"TAKEN", "taken", FORM_COUNT},
                                          {"LEFT OUT", "left_out", FORM_COUNT},
                                          {"WHY", "reason", FORM_TEXT | COLUMN_IF_ANY},
                                          {"LAST", "last", FORM_COUNT},
                                          {"ARRIVES AFTER", "arrival_seconds", FORM_DURATION},
                                          {"HEADLINE", "headline", FORM_SCORE | COLUMN_IF_ANY}};
  const json_t *rows = json_object_get(data, "rows");
  bool is_tsv = call->format == FORMAT_TSV;
  json_t *shown = is_tsv ? NULL : rows_shown(rows);
  table_print(columns, sizeof columns / sizeof *columns, is_tsv ? rows : shown, is_tsv, out);
  json_decref(shown);
  if (!is_tsv)
    view_summary(data, out);
}

/* ---- the verb ---- */

enum { LOOK_EVERY = 1024 /* events, whether somebody stops it */ };

struct recording {
  struct trace_writer *writer; /* NULL: none is wanted */
  enum err error;
  sigset_t stops;
  uint64_t n;
  double shown_s; /* when progress was shown last; NaN: nobody looks */
  bool is_stopped;
};

/* One line on a terminal, a second after the last one. */
static void show_progress(struct recording *r, const struct sim *s) {
  double now_s = clock_s();
  if (!(now_s >= r->shown_s + 1))
    return;
  r->shown_s = now_s;
  fprintf(stderr, "\r%.0f s of virtual time, %.0f events ", (double)(s->now_ms - SIM_START_MS) / 1e3,
          (double)s->n_events);
}

static bool on_step(void *context, struct sim *s) {
  struct recording *r = context;
  const struct timespec at_once = {0};
  struct trace_record record = trace_record_of(s);
  if (r->writer && r->error == ERR_OK)
    r->error = trace_put(r->writer, &record);
  if (++r->n % LOOK_EVERY != 0)
    return true;
  show_progress(r, s);
  r->is_stopped = sigtimedwait(&r->stops, NULL, &at_once) > 0;
  return !r->is_stopped;
}

/* The beginning of a story that is longer than a trace may be is one; of a file that cannot be written nothing is left. */
static void warn_of_trace(struct call *call, const char *path, enum err e) {
  struct stat status;
  if (e == ERR_LIMIT) {
    answer_warn(call, "%s: %s; the trace has only the beginning", path, err_sentence(e));
    return;
  }
  answer_warn(call, "%s: %s; there is no trace, make room or name another file", path, err_sentence(e));
  if (lstat(path, &status) == 0 && S_ISREG(status.st_mode))
    unlink(path);
}

/* Runs it until it ends or is interrupted, with a trace where one is wanted: what keeps that from being whole is a warning. */
static void run(struct call *call, const struct scenario *c, struct sim *s, struct recording *r) {
  const struct scenario_observer observer = {r, on_step};
  bool shows = call->format == FORMAT_TABLE && isatty(STDERR_FILENO);
  r->shown_s = shows ? clock_s() : __builtin_nan("");
  sigemptyset(&r->stops);
  sigaddset(&r->stops, SIGINT);
  sigaddset(&r->stops, SIGTERM);
  sigprocmask(SIG_BLOCK, &r->stops, NULL);
  scenario_run(c, s, &observer);
  if (shows)
    fprintf(stderr, "\r\033[K");
  if (r->is_stopped)
    answer_warn(call, "it was stopped after %.0f s of virtual time; this is what became of it until then",
                (double)(s->now_ms - SIM_START_MS) / 1e3);
  enum err e = trace_close(r->writer);
  r->error = r->error ? r->error : e;
  if (r->error && call->flags[SIM_TRACE])
    warn_of_trace(call, call->flags[SIM_TRACE], r->error);
}

/* What learns, where that is asked for. */
struct learning {
  struct config *config;
  struct sim_learning *learning; /* NULL: vectors of numbers */
};

/* False: it is answered why not. */
static bool learning_open(struct call *call, struct sim *s, struct learning *out) {
  const struct site_job_config *job;
  char why[MAX_REASON_BYTES];
  *out = (struct learning){0};
  if (!call->flags[SIM_LEARN])
    return true;
  call->site_path = call->flags[SIM_LEARN];
  if (!call_load_job(call, &out->config, &job))
    return false;
  enum err e = sim_learning_open(out->config, job, s, &(struct sim_learning_options){0}, &out->learning, why);
  if (e)
    answer_error(call, EXIT_USAGE, err_name(e), NULL, "--learn: %s", why);
  return e == ERR_OK;
}

static void learning_close(struct learning *l) {
  sim_learning_close(l->learning);
  config_free(l->config);
}

static int answer_run(struct call *call, const struct scenario *c, struct sim *s, const struct learning *l,
                      struct recording *r) {
  struct sim_tally tally;
  sim_tally_watch(&tally, s);
  double start_s = clock_s();
  run(call, c, s, r);
  const char *why = NULL;
  enum err fault = l->learning ? sim_learning_fault(l->learning, &why) : ERR_OK;
  int code = fault ? answer_error(call, EXIT_USAGE, err_name(fault), NULL, "%s", why)
                   : answer(call, sim_json(c, s, &tally, clock_s() - start_s), view);
  sim_tally_done(&tally);
  bool has_failed = s->n_broken > 0 || (r->error && r->error != ERR_LIMIT);
  return code == EXIT_DONE && has_failed ? EXIT_FAILED : code;
}

static int simulate(struct call *call, const struct scenario *c) {
  struct recording r = {0};
  struct learning l;
  const char *path = call->flags[SIM_TRACE];
  struct sim *s = scenario_sim(c);
  int code = EXIT_USAGE;
  bool is_open = learning_open(call, s, &l);
  enum err e = is_open && path ? trace_create(path, c, &r.writer) : ERR_OK;
  if (e)
    code = answer_error(call, EXIT_USAGE, err_name(e), "name a new file or an old trace that can be written",
                        "--trace: %s: %s", path, err_sentence(e));
  else if (is_open)
    code = answer_run(call, c, s, &l, &r);
  sim_free(s);
  learning_close(&l);
  return code;
}

int sim_scenario(struct call *call) {
  struct scenario *c;
  char why[MAX_CONFIG_WHY_BYTES];
  enum err e = scenario_load(call->arguments[0], &c, why);
  if (e)
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", why);
  e = call->flags[SIM_SEED] ? scenario_seed(c, call->flags[SIM_SEED], why) : ERR_OK;
  int code = e ? answer_error(call, EXIT_USAGE, err_name(e), NULL, "--seed: %s", why) : simulate(call, c);
  scenario_free(c);
  return code;
}

/* What is simulated, and the flags that go with it. */
static const struct {
  enum sim_flag by; /* N_SIM_FLAGS: a file is named */
  int (*run)(struct call *call);
  unsigned flags;
} things[] = {
    {SIM_REPLAY, sim_replay, 1U << SIM_REPLAY | 1U << SIM_STOP_AT},
    {SIM_RANDOM, sim_random, 1U << SIM_RANDOM | 1U << SIM_SEED},
    {SIM_FROM, sim_plan,
     1U << SIM_FROM | 1U << SIM_AGENTS | 1U << SIM_LINK | 1U << SIM_TRAINING | 1U << SIM_SLOW | 1U << SIM_SEED},
    {N_SIM_FLAGS, sim_scenario, 1U << SIM_SEED | 1U << SIM_TRACE | 1U << SIM_LEARN}};

int verb_sim(struct call *call) {
  size_t i = 0;
  while (things[i].by != N_SIM_FLAGS && !call->flags[things[i].by])
    i++;
  bool has_file = call->n_arguments > 0, wants_file = things[i].by == N_SIM_FLAGS;
  if (!has_file && wants_file)
    return answer_error(call, EXIT_USAGE, "usage", NULL,
                        "sim needs FILE.yaml, --from SITE, --random or --replay TRACE");
  if (has_file && !wants_file)
    return answer_error(call, EXIT_USAGE, "usage", NULL, "%s is given, so \"%s\" is one word too many",
                        call->verb->flags[things[i].by].name, call->arguments[0]);
  for (unsigned k = 0; k < N_SIM_FLAGS; k++)
    if (call->flags[k] && !(things[i].flags & 1U << k))
      return answer_error(call, EXIT_USAGE, "usage", NULL, "%s does not go with %s", call->verb->flags[k].name,
                          wants_file ? "FILE.yaml" : call->verb->flags[things[i].by].name);
  return things[i].run(call);
}
