/* starling sim --random: seeds, one scenario each, and of one that breaks an invariant the smallest that does. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/cli/answer.h"
#include "agent/cli/sim.h"
#include "agent/cli/table.h"
#include "agent/clock.h"
#include "agent/file.h"
#include "agent/scalar.h"
#include "agent/sim/swarming.h"

enum { MAX_SHRINK_RUNS = 400, MAX_BROKEN = 20, REPORT_EVERY = 100 };

struct campaign {
  struct call *call;
  uint64_t first, n; /* n UINT64_MAX: until stopped */
  uint64_t n_done, n_events, virtual_ms;
  json_t *broken;
  sigset_t stops;
};

static bool is_stopped(const struct campaign *g) {
  const struct timespec at_once = {0};
  return sigtimedwait(&g->stops, NULL, &at_once) > 0;
}

/* The file that breaks it again; false: it cannot be written, and a warning says so. */
static bool write_regression(struct campaign *g, const struct scenario *c, const struct sim_broken *b,
                             const char *path) {
  char *text = scenario_text(c);
  size_t size = strlen(text) + MAX_REASON_BYTES;
  char *whole = malloc(size);
  enum err e = whole ? ERR_OK : ERR_NO_MEMORY;
  if (whole) {
    snprintf(whole, size,
             "# starling sim --random 1 --seed %" PRIu64 ", made small. Broken: %s: not true that\n# %s.\n%s",
             g->first + g->n_done, sim_invariant_name(b->invariant), sim_invariant_sentence(b->invariant), text);
    e = file_replace(path, 0644, whole);
  }
  if (e)
    answer_warn(g->call, "%s: %s; the scenario is not kept", path, err_sentence(e));
  free(whole);
  free(text);
  return e == ERR_OK;
}

static void keep_broken(struct campaign *g, const struct scenario *c, const struct scenario_verdict *v) {
  char path[64];
  uint64_t seed = g->first + g->n_done;
  snprintf(path, sizeof path, "sim-%" PRIu64 ".yaml", seed);
  struct scenario *small = scenario_shrink_invariant(c, v->first.invariant, MAX_SHRINK_RUNS);
  bool is_kept = write_regression(g, small, &v->first, path);
  json_array_append_new(
      g->broken, json_pack("{s:I, s:s, s:s, s:I, s:f, s:s?, s:I, s:I}", "seed", (json_int_t)seed, "invariant",
                           sim_invariant_name(v->first.invariant), "sentence",
                           sim_invariant_sentence(v->first.invariant), "agent", (json_int_t)v->first.agent, "seconds",
                           (double)v->first.at_us / 1e6 - (double)SIM_START_MS / 1e3, "file", is_kept ? path : NULL,
                           "agents", (json_int_t)small->n_agents, "events", (json_int_t)small->n_events));
  scenario_free(small);
}

static void run_one(struct campaign *g) {
  struct scenario *c = scenario_random(g->first + g->n_done);
  struct scenario_verdict v = scenario_judge(c);
  g->n_events += v.n_events;
  g->virtual_ms += v.virtual_ms;
  if (v.is_broken)
    keep_broken(g, c, &v);
  scenario_free(c);
  g->n_done++;
  if (g->n == UINT64_MAX && g->n_done % REPORT_EVERY == 0)
    fprintf(stderr, "%" PRIu64 " seeds, %zu broken\n", g->n_done, json_array_size(g->broken));
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"SEED", "seed", FORM_COUNT},     {"BROKEN", "invariant", FORM_TEXT},
                                          {"AGENT", "agent", FORM_COUNT},   {"AT", "seconds", FORM_DURATION},
                                          {"AGENTS", "agents", FORM_COUNT}, {"EVENTS", "events", FORM_COUNT},
                                          {"SCENARIO", "file", FORM_TEXT}};
  const json_t *rows = json_object_get(data, "broken");
  bool is_tsv = call->format == FORMAT_TSV;
  if (is_tsv || json_array_size(rows) > 0)
    table_print(columns, sizeof columns / sizeof *columns, rows, is_tsv, out);
  if (is_tsv)
    return;
  fprintf(out, "%.0f seeds from %.0f on: %zu broken; %.0f events, ", json_number_value(json_object_get(data, "seeds")),
          json_number_value(json_object_get(data, "first_seed")), json_array_size(rows),
          json_number_value(json_object_get(data, "events")));
  value_print(json_object_get(data, "virtual_seconds"), FORM_DURATION, out);
  fprintf(out, " of virtual time in ");
  value_print(json_object_get(data, "wall_seconds"), FORM_DURATION, out);
  fprintf(out, "\n");
}

/* With an error *out_flag is what it is about. */
static enum err read_numbers(struct campaign *g, enum sim_flag *out_flag, char why[MAX_REASON_BYTES]) {
  const char *seed = g->call->flags[SIM_SEED], *n = g->call->flags[SIM_RANDOM];
  g->first = 1;
  g->n = UINT64_MAX;
  enum err e = seed ? scalar_integer(seed, 0, MAX_SCENARIO_SEED / 2, &g->first, why) : ERR_OK;
  *out_flag = e ? SIM_SEED : SIM_RANDOM;
  if (!e && n[0])
    e = scalar_integer(n, 1, MAX_SCENARIO_SEED / 2, &g->n, why);
  return e;
}

int sim_random(struct call *call) {
  struct campaign g = {.call = call, .broken = json_array()};
  char why[MAX_REASON_BYTES];
  enum sim_flag flag;
  enum err e = read_numbers(&g, &flag, why);
  if (e) {
    json_decref(g.broken);
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s: %s", call->verb->flags[flag].name, why);
  }
  sigemptyset(&g.stops);
  sigaddset(&g.stops, SIGINT);
  sigaddset(&g.stops, SIGTERM);
  sigprocmask(SIG_BLOCK, &g.stops, NULL);
  double start_s = clock_s();
  while (g.n_done < g.n && json_array_size(g.broken) < MAX_BROKEN && !is_stopped(&g))
    run_one(&g);
  bool is_broken = json_array_size(g.broken) > 0;
  json_t *data = json_pack("{s:I, s:I, s:I, s:f, s:f, s:o}", "first_seed", (json_int_t)g.first, "seeds",
                           (json_int_t)g.n_done, "events", (json_int_t)g.n_events, "virtual_seconds",
                           (double)g.virtual_ms / 1e3, "wall_seconds", clock_s() - start_s, "broken", g.broken);
  int code = answer(call, data, view);
  return code == EXIT_DONE && is_broken ? EXIT_FAILED : code;
}
