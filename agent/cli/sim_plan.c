/* starling sim --from: what a swarm of so many sites with this site's job would do, and what would help. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/history.h"
#include "agent/cli/sim.h"
#include "agent/cli/table.h"
#include "agent/scalar.h"
#include "agent/sim/outlook.h"
#include "agent/site_job.h"
#include "agent/tuning.h"
#include "base/must.h"
#include "models/merging/codec.h"
#include "models/schema.h"

enum { DEFAULT_DEGREE = 4, MAX_DEGREE = MAX_PEERS / 2 };

static const double least_gain = 0.1, least_share = 0.01;

/* ---- what is asked ---- */

struct asked {
  struct call *call;
  const struct site_job_config *job;
  struct outlook_order order;
  struct codec codec;
  size_t n_parameters, n_shared;
  const char *training_from;
};

static enum err refuse(struct asked *a, enum sim_flag flag, enum err e, const char *why, int *out_code) {
  *out_code = answer_error(a->call, EXIT_USAGE, err_name(e), NULL, "%s: %s", a->call->verb->flags[flag].name, why);
  return e;
}

/* "4mbit/80ms": two values and what each may be. */
static enum err read_pair(const char *text, enum err (*first)(const char *, double *, char *),
                          enum err (*second)(const char *, double *, char *), const char *form, double out[2],
                          char why[MAX_REASON_BYTES]) {
  char head[MAX_NAME_BYTES];
  const char *slash = strchr(text, '/');
  size_t n = slash ? (size_t)(slash - text) : 0;
  if (!slash || n >= sizeof head) {
    snprintf(why, MAX_REASON_BYTES, "\"%.40s\" is no pair; write for example %s", text, form);
    return ERR_SYNTAX;
  }
  memcpy(head, text, n);
  head[n] = 0;
  enum err e = first(head, &out[0], why);
  return e ? e : second(slash + 1, &out[1], why);
}

static enum err read_rate(const char *text, double *out, char *why) {
  static const struct scalar_unit units[] = {{"kbit", 1}, {"mbit", 1e3}, {"gbit", 1e6}, {NULL, 0}};
  return scalar_quantity(text, units, 1, 1e9, out, why);
}

static enum err read_delay(const char *text, double *out, char *why) {
  static const struct scalar_unit units[] = {{"ms", 1}, {NULL, 0}};
  return scalar_quantity(text, units, 0, 60000, out, why);
}

static enum err read_share(const char *text, double *out, char *why) {
  static const struct scalar_unit units[] = {{"%", 0.01}, {NULL, 0}};
  return scalar_quantity(text, units, 0, 1, out, why);
}

static enum err read_speed(const char *text, double *out, char *why) {
  return scalar_number(text, 0.001, 1, out, why);
}

static enum err read_time(const char *text, double *out, char *why) {
  static const struct scalar_unit units[] = {{"ms", 1e-3}, {"s", 1}, {"min", 60}, {NULL, 0}};
  return scalar_quantity(text, units, 0.001, 86400, out, why);
}

/* The flags that say how large and how far apart. */
static enum err read_flags(struct asked *a, int *out_code) {
  const char *const *flags = a->call->flags;
  char why[MAX_REASON_BYTES];
  double link[2] = {0}, slow[2] = {0, 1};
  enum err e = flags[SIM_AGENTS] ? scalar_integer(flags[SIM_AGENTS], 2, MAX_SCENARIO_AGENTS, &a->order.n_agents, why)
                                 : ERR_SYNTAX;
  if (e)
    return refuse(a, SIM_AGENTS, e, flags[SIM_AGENTS] ? why : "is missing; write how many there are to be", out_code);
  e = flags[SIM_LINK] ? read_pair(flags[SIM_LINK], read_rate, read_delay, "4mbit/80ms", link, why) : ERR_SYNTAX;
  if (e)
    return refuse(a, SIM_LINK, e, flags[SIM_LINK] ? why : "is missing; write a site's line, for example 4mbit/80ms",
                  out_code);
  e = flags[SIM_SLOW] ? read_pair(flags[SIM_SLOW], read_share, read_speed, "10%/0.25", slow, why) : ERR_OK;
  if (e)
    return refuse(a, SIM_SLOW, e, why, out_code);
  a->order.seed = 1;
  e = flags[SIM_SEED] ? scalar_integer(flags[SIM_SEED], 0, MAX_SCENARIO_SEED, &a->order.seed, why) : ERR_OK;
  if (e)
    return refuse(a, SIM_SEED, e, why, out_code);
  a->order.rate_kbit = link[0];
  a->order.delay_ms = link[1];
  a->order.slow_share = slow[0];
  a->order.slow_speed = slow[1];
  return ERR_OK;
}

/* ---- how long a training takes here ---- */

/* The last round's; 0: there is none. */
static double seconds_of_last_round(const struct config *c, const struct site_job_config *job) {
  char why[MAX_REASON_BYTES];
  struct digest id = config_job_id(c, &job->job);
  struct store_round last;
  struct store *store;
  size_t n = 0;
  if (history_open(c, &store, why) != ERR_OK)
    return 0;
  enum err e = store_rounds(store, &id, 0, &last, 1, &n);
  store_close(store);
  return e == ERR_OK && n == 1 ? last.train_seconds : 0;
}

/* By the step that `starling tune` measured, where the job says how many there are; 0: not known. */
static double seconds_tuned(const struct config *c, const struct site_job_config *job, const struct schema *schema) {
  const struct cpu cpu = cpu_detect();
  const struct host host = host_look("");
  char path[MAX_PATH_BYTES];
  struct plan *p = calloc(1, sizeof *p);
  struct tuning *t = calloc(1, sizeof *t);
  double seconds = 0;
  if (p && t && plan_make(schema_arch(schema), job->job.train.batch, &cpu, host_threads(&host), p) == ERR_OK &&
      tuning_path(c->state_dir, job->job.name, job->job.version, path) == ERR_OK &&
      tuning_file_read(path, p, t) == ERR_OK) {
    const struct tuned_host *known = tuning_find(t, &host);
    seconds = known ? known->seconds * job->job.train.steps : 0;
    tuning_done(t);
  }
  free(p);
  free(t);
  return seconds;
}

static enum err find_training(struct asked *a, const struct config *c, const struct schema *schema, int *out_code) {
  char why[MAX_REASON_BYTES];
  const char *given = a->call->flags[SIM_TRAINING];
  enum err e = given ? read_time(given, &a->order.training_s, why) : ERR_OK;
  if (e)
    return refuse(a, SIM_TRAINING, e, why, out_code);
  a->training_from = "given";
  if (!given && (a->order.training_s = seconds_of_last_round(c, a->job)) > 0)
    a->training_from = "last-round";
  else if (!given && (a->order.training_s = seconds_tuned(c, a->job, schema)) > 0)
    a->training_from = "tuned";
  if (a->order.training_s > 0)
    return ERR_OK;
  return refuse(a, SIM_TRAINING, ERR_NOT_FOUND,
                "no round was trained here yet; write how long a round's training takes, for example --training 2s",
                out_code);
}

/* ---- the job ---- */

static struct outlook_order order_with(const struct asked *a, struct codec codec) {
  struct outlook_order o = a->order;
  o.payload_bytes = codec_bound(codec, a->n_shared);
  o.gamma = codec_gamma(codec);
  return o;
}

/* In a random topology some have twice as many peers. */
static uint64_t max_agents(uint64_t degree) {
  return scenario_max_agents(2 * degree);
}

static enum err read_job(struct asked *a, const struct config *c, int *out_code) {
  struct schema *schema;
  char why[MAX_REASON_BYTES];
  const struct site_job_config *job = a->job;
  enum err e = schema_from_arch(job->job.arch, job->job.contract, &schema, why);
  if (e)
    return refuse(a, SIM_FROM, e, why, out_code);
  a->n_parameters = schema_parameters(schema);
  a->n_shared = schema_shared(schema);
  a->codec = job->job.contract->codec;
  a->order.degree = c->n_peers > 0 ? c->n_peers : DEFAULT_DEGREE;
  if (a->order.degree > a->order.n_agents - 1)
    a->order.degree = a->order.n_agents - 1;
  if (a->order.degree > MAX_DEGREE)
    a->order.degree = MAX_DEGREE;
  if (a->order.n_agents > max_agents(a->order.degree)) {
    schema_free(schema);
    snprintf(why, sizeof why, "%llu sites of %llu peers would take more than 4 GiB; write at most %llu",
             (unsigned long long)a->order.n_agents, (unsigned long long)a->order.degree,
             (unsigned long long)max_agents(a->order.degree));
    return refuse(a, SIM_AGENTS, ERR_LIMIT, why, out_code);
  }
  a->order.round = (struct scenario_round){.deadline_min_s = job->deadline_min_s,
                                           .deadline_max_s = job->deadline_max_s,
                                           .meet_s = job->meet_s,
                                           .every_s = job->every_s,
                                           .min_peers = 1,
                                           .alone_rounds = job->alone_rounds};
  a->order.payload_max_bytes = (uint64_t)c->payload_max_mib << 20;
  a->order = order_with(a, a->codec);
  e = find_training(a, c, schema, out_code);
  schema_free(schema);
  return e;
}

/* ---- what would help ---- */

static void advise(json_t *list, const char *change, const char *figure, double now, double then, const char *cost) {
  bool is_time = strcmp(figure, "training-share") != 0;
  double gain = is_time ? 1 - then / now : then / now - 1;
  bool is_of_note = is_time || then - now > least_share;
  if (now > 0 && then > 0 && gain > least_gain && is_of_note)
    json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:f, s:s?}", "change", change, "figure", figure, "now",
                                          now, "then", then, "gain", gain, "cost", cost));
}

/* "a round takes 4.20s instead of 1m04s": as people read times elsewhere. */
static void times_differ(const char *what, double then_s, double now_s, char out[MAX_REASON_BYTES]) {
  json_t *then = json_real(then_s), *now = json_real(now_s);
  FILE *to = fmemopen(out, MAX_REASON_BYTES, "w");
  MUST(then && now && to);
  fprintf(to, "%s takes ", what);
  value_print(then, FORM_DURATION, to);
  fprintf(to, " instead of ");
  value_print(now, FORM_DURATION, to);
  fclose(to);
  json_decref(then);
  json_decref(now);
}

static void try_codecs(const struct asked *a, const struct outlook *now, json_t *list) {
  static const struct codec codecs[] = {{CODEC_F16, 0}, {CODEC_Q8, 0}, {CODEC_Q4, 0}, {CODEC_TOPK, 0.01}};
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
    struct outlook_order o = order_with(a, codecs[i]);
    char change[MAX_REASON_BYTES];
    if (o.payload_bytes >= a->order.payload_bytes)
      continue;
    struct outlook then = outlook_of(&o);
    snprintf(change, sizeof change, "codec: %s%s instead of %s, %.1f %% of the bytes", codec_name(codecs[i].kind),
             codecs[i].kind == CODEC_TOPK ? " 0.01" : "", codec_name(a->codec.kind),
             100 * (double)o.payload_bytes / (double)a->order.payload_bytes);
    advise(list, change, "consensus", now->consensus_s, then.consensus_s, NULL);
  }
}

static void try_degree(const struct asked *a, const struct outlook *now, uint64_t degree, json_t *list) {
  struct outlook_order o = a->order;
  char change[MAX_REASON_BYTES], cost[MAX_REASON_BYTES];
  if (degree < 2 || degree > MAX_DEGREE || degree >= a->order.n_agents || degree == a->order.degree ||
      a->order.n_agents > max_agents(degree))
    return;
  o.degree = degree;
  struct outlook then = outlook_of(&o);
  snprintf(change, sizeof change, "%llu peers a site instead of %llu", (unsigned long long)degree,
           (unsigned long long)a->order.degree);
  times_differ("a round", then.round_s, now->round_s, cost);
  advise(list, change, "consensus", now->consensus_s, then.consensus_s, cost);
}

static void try_degrees(const struct asked *a, const struct outlook *now, json_t *list) {
  try_degree(a, now, a->order.degree / 2, list);
  try_degree(a, now, a->order.degree * 2, list);
}

static void try_longer_rounds(const struct asked *a, const struct outlook *now, json_t *list) {
  enum { TIMES = 4 };
  struct outlook_order o = a->order;
  o.training_s *= TIMES;
  struct outlook then = outlook_of(&o);
  char cost[MAX_REASON_BYTES];
  times_differ("consensus", then.consensus_s, now->consensus_s, cost);
  advise(list, "four times as many steps a round", "training-share", now->training_share, then.training_share, cost);
}

static void try_patience(const struct asked *a, const struct outlook *now, json_t *list) {
  enum { TIMES = 4 };
  struct outlook_order o = a->order;
  char change[MAX_REASON_BYTES], cost[MAX_REASON_BYTES];
  if (now->left_out < least_gain)
    return;
  o.round.deadline_max_s *= TIMES;
  struct outlook then = outlook_of(&o);
  snprintf(change, sizeof change, "round.deadline_max_s: %.0f, for %.0f %% of the updates come too late",
           o.round.deadline_max_s, 100 * now->left_out);
  times_differ("a round", then.round_s, now->round_s, cost);
  advise(list, change, "consensus", now->consensus_s, then.consensus_s, cost);
}

/* The slow ones are late then; their updates count in a later round. */
static void try_deadline(const struct asked *a, const struct outlook *now, json_t *list) {
  static const double slack = 1.2;
  struct outlook_order o = a->order;
  char change[MAX_REASON_BYTES], cost[MAX_REASON_BYTES];
  if (a->order.slow_share <= 0)
    return;
  o.slow_share = 0;
  double without_s = outlook_of(&o).round_s - o.training_s; /* from the own update to the others' */
  o.slow_share = a->order.slow_share;
  o.round.deadline_max_s = slack * without_s > o.round.deadline_min_s ? slack * without_s : o.round.deadline_min_s;
  struct outlook then = outlook_of(&o);
  snprintf(change, sizeof change, "round.deadline_max_s: %.1f", o.round.deadline_max_s);
  snprintf(cost, sizeof cost, "%.0f %% of the slow sites' updates are left out of their round, instead of %.0f %%",
           100 * then.rows[OUTLOOK_SLOW].left_out, 100 * now->rows[OUTLOOK_SLOW].left_out);
  advise(list, change, "round", now->round_s, then.round_s, cost);
}

/* ---- the answer ---- */

static json_t *kinds_json(const struct asked *a, const struct outlook *o) {
  static const char *const names[N_OUTLOOK_KINDS] = {"ordinary", "slow"};
  json_t *rows = json_array();
  for (size_t i = 0; i < N_OUTLOOK_KINDS; i++) {
    const struct outlook_row *r = &o->rows[i];
    if (r->n_agents > 0)
      json_array_append_new(rows, json_pack("{s:s, s:f, s:I, s:f, s:f, s:f, s:f, s:f}", "kind", names[i], "speed",
                                            i == OUTLOOK_SLOW ? a->order.slow_speed : 1.0, "simulated",
                                            (json_int_t)r->n_agents, "round_seconds", r->round_s, "round_p95_seconds",
                                            r->round_p95_s, "left_out", r->left_out, "last", r->last, "arrival_seconds",
                                            r->arrival_s));
  }
  return rows;
}

static json_t *plan_json(const struct asked *a, const struct outlook *o, json_t *advice) {
  json_t *data = json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:I, s:f, s:f, s:f, s:s, s:f}", "job", a->job->job.name,
                           "agents", (json_int_t)a->order.n_agents, "simulated", (json_int_t)o->n_simulated, "degree",
                           (json_int_t)a->order.degree, "parameters", (json_int_t)a->n_parameters, "codec",
                           codec_name(a->codec.kind), "update_bytes", (json_int_t)a->order.payload_bytes, "rate_kbit",
                           a->order.rate_kbit, "delay_ms", a->order.delay_ms, "training_seconds", a->order.training_s,
                           "training_from", a->training_from, "every_seconds", a->order.round.every_s);
  json_t *figures = json_pack(
      "{s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o}", "round_seconds", o->round_s, "round_p95_seconds", o->round_p95_s,
      "round_bytes", o->round_bytes, "left_out", o->left_out, "training_share", o->training_share, "consensus_rounds",
      o->consensus_rounds < MAX_OUTLOOK_ROUNDS ? json_integer((json_int_t)o->consensus_rounds) : json_null(),
      "consensus_seconds", o->consensus_rounds < MAX_OUTLOOK_ROUNDS ? json_real(o->consensus_s) : json_null(), "kinds",
      kinds_json(a, o), "advice", advice);
  json_object_update(data, figures);
  json_decref(figures);
  return data;
}

static double number(const json_t *data, const char *key) {
  return json_number_value(json_object_get(data, key));
}

static void view_advice(const json_t *list, FILE *out) {
  static const struct {
    const char *name, *text;
    enum column_form form;
  } figures[] = {{"consensus", "consensus in", FORM_DURATION},
                 {"round", "a round in", FORM_DURATION},
                 {"training-share", "training, of its time,", FORM_PERCENT}};
  size_t i;
  const json_t *row;
  fprintf(out,
          json_array_size(list) > 0 ? "\nWhat would help:\n" : "\nNothing that was tried helps by more than 10 %%.\n");
  json_array_foreach(list, i, row) {
    const char *name = json_string_value(json_object_get(row, "figure"));
    const char *cost = json_string_value(json_object_get(row, "cost"));
    size_t k = 0;
    while (strcmp(figures[k].name, name) != 0)
      k++;
    fprintf(out, "  %s: %s ", json_string_value(json_object_get(row, "change")), figures[k].text);
    value_print(json_object_get(row, "then"), figures[k].form, out);
    fprintf(out, " instead of ");
    value_print(json_object_get(row, "now"), figures[k].form, out);
    fprintf(out, "%s (%.0f %% %s)%s%s\n", k == 2 ? " %" : "", 100 * number(row, "gain"), k == 2 ? "more" : "less",
            cost ? "; " : "", cost ? cost : "");
  }
}

static void view_summary(const json_t *data, FILE *out) {
  fprintf(out, "\n%.0f agents of %.0f peers, lines of %.0f kbit/s and %.0f ms; %s: %.0f parameters, an update is ",
          number(data, "agents"), number(data, "degree"), number(data, "rate_kbit"), number(data, "delay_ms"),
          json_string_value(json_object_get(data, "job")), number(data, "parameters"));
  value_print(json_object_get(data, "update_bytes"), FORM_BYTES, out);
  fprintf(out, " (%s)\na round takes ", json_string_value(json_object_get(data, "codec")));
  value_print(json_object_get(data, "round_seconds"), FORM_DURATION, out);
  fprintf(out, " (median), ");
  value_print(json_object_get(data, "round_p95_seconds"), FORM_DURATION, out);
  fprintf(out, " (95th percentile); ");
  value_print(json_object_get(data, "training_seconds"), FORM_DURATION, out);
  fprintf(out, " of it is training");
  if (number(data, "every_seconds") > 0) {
    fprintf(out, "; round.every_s spaces them: ");
    value_print(json_object_get(data, "every_seconds"), FORM_DURATION, out);
  }
  fprintf(out, "\nan agent sends ");
  value_print(json_object_get(data, "round_bytes"), FORM_BYTES, out);
  fprintf(out, " a round; %.1f %% of the updates come too late for theirs\n", 100 * number(data, "left_out"));
  if (json_is_null(json_object_get(data, "consensus_rounds"))) {
    fprintf(out, "a difference between sites does not go away within a million rounds\n");
    return;
  }
  fprintf(out, "a difference between sites is down to a hundredth after %.0f rounds, ",
          number(data, "consensus_rounds"));
  value_print(json_object_get(data, "consensus_seconds"), FORM_DURATION, out);
  fprintf(out, "\n");
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"HOSTS", "kind", FORM_TEXT},
                                          {"SPEED", "speed", FORM_SCORE},
                                          {"SIMULATED", "simulated", FORM_COUNT},
                                          {"A ROUND", "round_seconds", FORM_DURATION},
                                          {"P95", "round_p95_seconds", FORM_DURATION},
                                          {"ARRIVES AFTER", "arrival_seconds", FORM_DURATION},
                                          {"LAST %", "last", FORM_PERCENT},
                                          {"LEFT OUT %", "left_out", FORM_PERCENT}};
  bool is_tsv = call->format == FORMAT_TSV;
  table_print(columns, sizeof columns / sizeof *columns, json_object_get(data, "kinds"), is_tsv, out);
  if (is_tsv)
    return;
  view_summary(data, out);
  view_advice(json_object_get(data, "advice"), out);
}

static int look_ahead(struct asked *a, const struct config *c) {
  int code = EXIT_USAGE;
  if (read_flags(a, &code) != ERR_OK || read_job(a, c, &code) != ERR_OK)
    return code;
  struct outlook now = outlook_of(&a->order);
  json_t *advice = json_array();
  try_codecs(a, &now, advice);
  try_degrees(a, &now, advice);
  try_longer_rounds(a, &now, advice);
  try_patience(a, &now, advice);
  try_deadline(a, &now, advice);
  return answer(a->call, plan_json(a, &now, advice), view);
}

int sim_plan(struct call *call) {
  struct config *c;
  struct asked a = {.call = call};
  call->site_path = call->flags[SIM_FROM];
  if (!call_load_job(call, &c, &a.job))
    return EXIT_USAGE;
  int code = look_ahead(&a, c);
  config_free(c);
  return code;
}
