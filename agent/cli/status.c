/* starling status [--watch]. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/catalogue.h"
#include "agent/cli/peer_view.h"
#include "agent/cli/verbs.h"
#include "agent/scalar.h"

enum { FLAG_WATCH };

static void print_at(const json_t *data, const char *path, enum column_form form, FILE *out) {
  value_print(json_at(data, path), form, out);
}

/* By this host's clock. */
static void print_next_round(const json_t *in_s, FILE *out) {
  if (!json_is_number(in_s))
    return;
  time_t at = time(NULL) + (time_t)json_number_value(in_s);
  struct tm local;
  char text[16] = "";
  if (localtime_r(&at, &local))
    strftime(text, sizeof text, "%H:%M:%S", &local);
  fprintf(out, ", next round at %s", text);
}

/* "round 7 of 20, training 34/120, waits for mec-03, closes in 12.0s" */
static void print_job(const json_t *data, FILE *out) {
  fputs("job       ", out);
  print_at(data, "job.name", FORM_TEXT, out);
  fputs(" v", out);
  print_at(data, "job.version", FORM_COUNT, out);
  fputs(", ", out);
  print_at(data, "job.parameters", FORM_COUNT, out);
  fputs(" parameters; ", out);
  print_at(data, "job.phase", FORM_TEXT, out);
  fputs(" round ", out);
  print_at(data, "job.round_in_work", FORM_COUNT, out);
  if (json_integer_value(json_at(data, "job.count"))) {
    fputs(" of ", out);
    print_at(data, "job.count", FORM_COUNT, out);
  }
  if (json_integer_value(json_at(data, "job.progress_total"))) {
    fputs(", batch ", out);
    print_at(data, "job.progress", FORM_COUNT, out);
    fputc('/', out);
    print_at(data, "job.progress_total", FORM_COUNT, out);
  }
  if (json_array_size(json_at(data, "job.waiting_for"))) {
    fputs(", waits for ", out);
    print_at(data, "job.waiting_for", FORM_TEXT, out);
  }
  if (json_is_number(json_at(data, "job.closes_in_s"))) {
    fputs(", closes in ", out);
    print_at(data, "job.closes_in_s", FORM_DURATION, out);
  }
  print_next_round(json_at(data, "job.next_round_in_s"), out);
  fputc('\n', out);
}

/* One line a poll: what TSV has, and what --watch prints where there is no terminal. */
static void print_overview(const json_t *data, bool is_tsv, FILE *out) {
  static const struct column columns[] = {{"AGENT", "name", FORM_TEXT},
                                          {"STATE", "word", FORM_TEXT},
                                          {"ROUND", "job.round", FORM_COUNT},
                                          {"SUB", "job.sub", FORM_COUNT | COLUMN_IF_ANY},
                                          {"PHASE", "job.phase", FORM_TEXT},
                                          {"LOSS", "job.train_loss", FORM_LOSS},
                                          {"METRIC", "job.metric", FORM_TEXT},
                                          {"LOCAL", "job.local", FORM_HEADLINE},
                                          {"GLOBAL", "job.global", FORM_HEADLINE | COLUMN_IF_ANY},
                                          {"SENT", "sent_bytes", FORM_BYTES},
                                          {"RECEIVED", "received_bytes", FORM_BYTES},
                                          {"UP", "uptime_s", FORM_DURATION},
                                          {"DISK", "disk.state", FORM_TEXT},
                                          {"ROUNDS LEFT", "disk.rounds_left", FORM_COUNT | COLUMN_IN_TSV}};
  json_t *rows = json_pack("[O]", data);
  table_print(columns, sizeof columns / sizeof *columns, rows, is_tsv, out);
  json_decref(rows);
}

/* Why a headline is "-". */
static void print_note(const json_t *data, const char *what, const char *path, FILE *out) {
  if (json_string_length(json_at(data, path)) == 0)
    return;
  fprintf(out, "%-10s", what);
  print_at(data, path, FORM_TEXT, out);
  fputc('\n', out);
}

/* Samples that did not fit into memory. */
static void print_streamed(const json_t *data, FILE *out) {
  if (json_integer_value(json_at(data, "job.streamed_bytes")) == 0)
    return;
  fputs("samples   ", out);
  print_at(data, "job.streamed_bytes", FORM_BYTES, out);
  fputs(" streamed from disk, ", out);
  print_at(data, "job.samples_bytes", FORM_BYTES, out);
  fputs(" in memory (data.memory_max_mib)\n", out);
}

/* What the model trained alone costs; nothing where none is wanted. */
static void print_shadow(const json_t *data, FILE *out) {
  const json_t *shadow = json_at(data, "job.shadow");
  const char *mode = json_string_value(json_object_get(shadow, "mode"));
  if (!mode || strcmp(mode, "off") == 0)
    return;
  fputs("alone     ", out);
  if (!json_is_true(json_object_get(shadow, "on"))) {
    fprintf(out, "no model is trained alone (%s); for `compare` write alone: { shadow: on }\n", mode);
    return;
  }
  fputs("one model, ", out);
  if (json_is_number(json_object_get(shadow, "seconds"))) {
    value_print(json_object_get(shadow, "seconds"), FORM_DURATION, out);
    fputs(" a round, ", out);
    value_print(json_object_get(shadow, "share"), FORM_PERCENT, out);
    fputs(" % of it, ", out);
  }
  value_print(json_object_get(shadow, "memory_bytes"), FORM_BYTES, out);
  fprintf(out, " (%s)\n", mode);
}

/* Which task it is the turn of; nothing for a job without any. */
/* Only where the site has something of its own. */
static void print_personal(const json_t *data, FILE *out) {
  const char *method = json_string_value(json_at(data, "job.personal.method"));
  if (!method || strcmp(method, "none") == 0)
    return;
  fprintf(out, "personal  %s: what is judged and served is this site's own; ", method);
  print_at(data, "job.personal.parameters", FORM_COUNT, out);
  fputs(" parameters of the swarm's model stay here\n", out);
}

static void print_continual(const json_t *data, FILE *out) {
  const json_t *class;
  size_t i;
  if (!json_is_object(json_at(data, "job.continual")))
    return;
  fputs("task      ", out);
  print_at(data, "job.continual.task", FORM_COUNT, out);
  fputs(" of ", out);
  print_at(data, "job.continual.tasks", FORM_COUNT, out);
  json_array_foreach(json_at(data, "job.continual.classes"), i, class) {
    fputs(i == 0 ? " (" : ", ", out);
    value_print(class, FORM_TEXT, out);
  }
  fputs("); kept of those before: ", out);
  print_at(data, "job.continual.kept", FORM_COUNT, out);
  fputs(" samples; `starling rounds --continual` shows what is forgotten\n", out);
}

/* With which sites it learns; nothing where they are not grouped. */
static void print_cluster(const json_t *data, FILE *out) {
  if (!json_is_object(json_at(data, "job.cluster")))
    return;
  fputs("group     ", out);
  print_at(data, "job.cluster.group", FORM_COUNT, out);
  fputs(" of ", out);
  print_at(data, "job.cluster.groups", FORM_COUNT, out);
  fputs(", with ", out);
  print_at(data, "job.cluster.members", FORM_COUNT, out);
  fputs(" of the ", out);
  print_at(data, "job.cluster.known", FORM_COUNT, out);
  fputs(" sites that are known, this one included\n", out);
}

/* Its part of push-sum's mass, that is 1 an agent; nothing without. */
static void print_mass(const json_t *data, FILE *out) {
  if (!json_is_object(json_at(data, "job.mass")))
    return;
  fputs("mass      ", out);
  print_at(data, "job.mass.held", FORM_LOSS, out);
  fputs(" held, ", out);
  print_at(data, "job.mass.written_off", FORM_LOSS, out);
  fputs(" written off (average: push-sum)\n", out);
}

/* How near the end of the disk is; nothing where there is room. */
static void print_disk(const json_t *data, FILE *out) {
  const char *state = json_string_value(json_at(data, "disk.state"));
  if (!state || strcmp(state, "ok") == 0)
    return;
  fprintf(out, "disk      %s, room for ", state);
  print_at(data, "disk.rounds_left", FORM_COUNT, out);
  fputs(" more rounds\n", out);
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  const json_t *jobs = json_object_get(data, "jobs");
  if (call->format == FORMAT_TABLE && !call->job && json_array_size(jobs) > 1) {
    jobs_print(jobs, false, out);
    fputc('\n', out);
  }
  print_overview(data, call->format == FORMAT_TSV, out);
  if (call->format == FORMAT_TSV)
    return;
  fputs("why       ", out);
  print_at(data, "why", FORM_TEXT, out);
  fputc('\n', out);
  print_job(data, out);
  print_streamed(data, out);
  print_shadow(data, out);
  print_personal(data, out);
  print_continual(data, out);
  print_cluster(data, out);
  print_mass(data, out);
  print_disk(data, out);
  print_note(data, "local", "job.local_note", out);
  print_note(data, "global", "job.global_note", out);
  if (json_array_size(json_object_get(data, "peers"))) {
    fputc('\n', out);
    peers_print(data, false, out);
  }
  if (json_array_size(json_object_get(data, "strangers")))
    fprintf(out, "\n%zu strangers tried to connect: `starling peer list` shows them\n",
            json_array_size(json_object_get(data, "strangers")));
}

static int show(struct call *call, const struct config *c) {
  int code;
  json_t *data = agent_need(call, c, call_request(call, json_pack("{s:s}", "ask", "status")), &code);
  return data ? answer(call, data, view) : code;
}

/* Again and again, on a terminal in place, until the agent cannot be reached or the reader is gone. */
static int watch(struct call *call, const struct config *c, double seconds) {
  bool redraws = call->format == FORMAT_TABLE && isatty(STDOUT_FILENO);
  struct timespec pause = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  for (;;) {
    if (redraws)
      fputs("\x1b[H\x1b[2J", stdout);
    int code = show(call, c);
    if (code || ferror(stdout))
      return code;
    json_array_clear(call->warnings);
    nanosleep(&pause, NULL);
  }
}

int verb_status(struct call *call) {
  const char *given = call->flags[FLAG_WATCH];
  char why[MAX_REASON_BYTES];
  double seconds = 2;
  struct config *c;
  if (given && given[0] && scalar_number(given, 0.1, 86400, &seconds, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--watch: %s", why);
  const struct site_job_config *job;
  if (!(call->job ? call_load_job(call, &c, &job) : call_load_config(call, &c)))
    return EXIT_USAGE;
  int code = given ? watch(call, c, seconds) : show(call, c);
  config_free(c);
  return code;
}
