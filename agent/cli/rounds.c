/* starling rounds list|show|wait: from the running agent, or from the database when none runs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/history.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/cli/wait.h"
#include "agent/cli/written.h"
#include "agent/scalar.h"

enum {
  FLAG_LAST,
  FLAG_TIMEOUT = 0,
  MAX_ROUNDS = 1000,
  MAX_ROUNDS_ASKED = 100 /* what surely fits into an answer's line */
};

/* "418" or "418+2". */
static bool read_label(struct call *call, const char *text, struct round_label *out_label) {
  char number[MAX_NAME_BYTES], why[MAX_REASON_BYTES];
  const char *plus = strchr(text, '+');
  uint64_t round, sub = 0;
  snprintf(number, sizeof number, "%.*s", (int)(plus ? plus - text : (ptrdiff_t)strlen(text)), text);
  if (scalar_integer(number, 0, INT64_MAX, &round, why) ||
      (plus && scalar_integer(plus + 1, 1, UINT32_MAX, &sub, why))) {
    answer_error(call, EXIT_USAGE, "usage", NULL, "ROUND: %s", why);
    return false;
  }
  *out_label = (struct round_label){round, (uint32_t)sub};
  return true;
}

/* Asks the agent; when none runs there, or for more than fits into its answer, the database. `request` is moved. */
static json_t *ask(struct call *call, const struct config *c, json_t *request, const struct history_query *query,
                   int *out_code) {
  char why[MAX_CONFIG_WHY_BYTES] = "the agent was not asked", database_why[MAX_REASON_BYTES];
  json_t *data = NULL;
  enum err e = ERR_NOT_CONNECTED;
  if (query->last <= MAX_ROUNDS_ASKED)
    e = agent_ask(call, c->state_dir, request, &data, why);
  else
    json_decref(request);
  if (e == ERR_OK)
    return data;
  if (e != ERR_NOT_CONNECTED) {
    *out_code = answer_error(call, ask_exit_code(e), err_name(e), NULL, "%s", why);
    return NULL;
  }
  e = history_read(c, query, &data, database_why);
  if (e == ERR_OK)
    return data;
  bool is_missing = e == ERR_NOT_FOUND && query->one_round, says_all = is_missing || e == ERR_NOT_CONNECTED;
  *out_code = answer_error(call, is_missing ? EXIT_FAILED : EXIT_UNREACHABLE, err_name(e), NULL, "%s%s%s",
                           says_all ? "" : why, says_all ? "" : ", and ", database_why);
  return NULL;
}

static void explain_headlines(json_t *rounds, const struct contract *contract) {
  json_t *round;
  size_t i;
  json_array_foreach(rounds, i, round) {
    round_explain(round, contract);
  }
}

/* Each note once, under the rounds that need it. */
static void print_notes(const json_t *round, FILE *out) {
  static const char *const notes[] = {"local_note", "global_note"};
  for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
    if (json_string_length(json_object_get(round, notes[i])) > 0)
      fprintf(out, "%.*s: %s\n", (int)strcspn(notes[i], "_"), notes[i],
              json_string_value(json_object_get(round, notes[i])));
}

/* ---- list --------------------------------------------------------------------------------------------------------- */

static const struct column round_columns[] = {
    {"ROUND", "label", FORM_TEXT},           {"STATE", "state", FORM_TEXT | COLUMN_IN_TSV},
    {"OUTCOME", "outcome|state", FORM_TEXT}, {"COMMITTED", "committed_at", FORM_TEXT},
    {"LOSS", "train_loss", FORM_LOSS},       {"METRIC", "metric", FORM_TEXT},
    {"LOCAL", "local", FORM_HEADLINE},       {"GLOBAL", "global", FORM_HEADLINE | COLUMN_IF_ANY},
    {"MERGED", "merged", FORM_COUNT},        {"OF", "expected", FORM_COUNT},
    {"TRAINED", "train_s", FORM_DURATION},   {"TOOK", "seconds", FORM_DURATION},
    {"SENT", "sent_bytes", FORM_BYTES},      {"RECEIVED", "received_bytes", FORM_BYTES}};
enum { N_ROUND_COLUMNS = sizeof round_columns / sizeof *round_columns };

static void view_list(const struct call *call, const json_t *data, FILE *out) {
  const json_t *rounds = json_object_get(data, "rounds");
  table_print(round_columns, N_ROUND_COLUMNS, rounds, call->format == FORMAT_TSV, out);
  if (call->format == FORMAT_TABLE && json_array_size(rounds) > 0)
    print_notes(json_array_get(rounds, json_array_size(rounds) - 1), out);
}

int verb_rounds_list(struct call *call) {
  char why[MAX_REASON_BYTES];
  uint64_t last = 20;
  struct config *c;
  int code = EXIT_USAGE;
  if (call->flags[FLAG_LAST] && scalar_integer(call->flags[FLAG_LAST], 1, MAX_ROUNDS, &last, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--last: %s", why);
  const struct site_job_config *job;
  if (!call_load_job(call, &c, &job))
    return EXIT_USAGE;
  json_t *data = ask(call, c, call_request(call, json_pack("{s:s, s:I}", "ask", "rounds", "last", (json_int_t)last)),
                     &(struct history_query){.job = config_job_id(c, &job->job), .last = (size_t)last}, &code);
  if (data)
    explain_headlines(json_object_get(data, "rounds"), job->job.contract);
  config_free(c);
  return data ? answer(call, data, view_list) : code;
}

/* ---- show --------------------------------------------------------------------------------------------------------- */

/* Keys are long, and names may change: "mec-03: GHW8-…" under the table. */
static void print_keys(const json_t *peers, FILE *out) {
  const json_t *peer;
  size_t i;
  if (json_array_size(peers) > 0)
    fputc('\n', out);
  json_array_foreach(peers, i, peer) {
    value_print(json_object_get(peer, "name"), FORM_TEXT, out);
    fprintf(out, ": %s\n", json_string_value(json_object_get(peer, "key")));
  }
}

static void view_show(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"PEER", "name", FORM_TEXT},
                                          {"REASON", "reason", FORM_TEXT},
                                          {"WEIGHT", "weight", FORM_LOSS},
                                          {"LAG", "lag", FORM_COUNT | COLUMN_IF_ANY},
                                          {"RULE", "fate", FORM_TEXT},
                                          {"BYTES", "bytes", FORM_BYTES},
                                          {"ARRIVED MS", "arrival_ms", FORM_COUNT},
                                          {"KEY", "key", FORM_TEXT | COLUMN_IN_TSV}};
  if (call->format == FORMAT_TABLE) {
    json_t *rows = json_pack("[O]", data);
    table_print(round_columns, N_ROUND_COLUMNS, rows, false, out);
    json_decref(rows);
    print_notes(data, out);
    fputs("\nwritten   ", out);
    value_print(json_object_get(data, "written_bytes"), FORM_BYTES, out);
    fputs(" a round, ", out);
    value_print(json_object_get(data, "written_day_bytes"), FORM_BYTES, out);
    fputs(" a day with rounds as long as this one\n", out);
    fputc('\n', out);
  }
  table_print(columns, sizeof columns / sizeof *columns, json_object_get(data, "peers"), call->format == FORMAT_TSV,
              out);
  if (call->format == FORMAT_TABLE)
    print_keys(json_object_get(data, "peers"), out);
}

static void add_written(json_t *data, const struct config *c, const struct site_job_config *job) {
  uint64_t written = written_a_round(c, job);
  double seconds = json_number_value(json_object_get(data, "seconds"));
  seconds = seconds > 0 && seconds < job->every_s ? job->every_s : seconds;
  json_object_set_new(data, "written_bytes", json_integer((json_int_t)written));
  json_object_set_new(data, "written_day_bytes", written_a_day(written, seconds));
}

int verb_rounds_show(struct call *call) {
  struct round_label label;
  struct config *c;
  int code = EXIT_USAGE;
  if (!read_label(call, call->arguments[0], &label))
    return EXIT_USAGE;
  const struct site_job_config *job;
  if (!call_load_job(call, &c, &job))
    return EXIT_USAGE;
  json_t *request =
      json_pack("{s:s, s:I, s:I}", "ask", "round", "round", (json_int_t)label.round, "sub", (json_int_t)label.sub);
  json_t *data =
      ask(call, c, call_request(call, request),
          &(struct history_query){.job = config_job_id(c, &job->job), .one_round = true, .label = label}, &code);
  if (data) {
    round_explain(data, job->job.contract);
    add_written(data, c, job);
  }
  config_free(c);
  return data ? answer(call, data, view_show) : code;
}

/* ---- wait --------------------------------------------------------------------------------------------------------- */

int verb_rounds_wait(struct call *call) {
  char condition[MAX_NAME_BYTES], why[MAX_REASON_BYTES];
  uint64_t round;
  if (scalar_integer(call->arguments[0], 1, INT64_MAX, &round, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "ROUND: %s", why);
  snprintf(condition, sizeof condition, "round=%" PRIu64, round);
  return wait_for(call, condition, call->flags[FLAG_TIMEOUT]);
}
