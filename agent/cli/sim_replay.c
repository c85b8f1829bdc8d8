/* starling sim --replay: a recorded story once more, up to where one likes, and the first event in which it differs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/cli/answer.h"
#include "agent/cli/sim.h"
#include "agent/cli/table.h"
#include "agent/scalar.h"
#include "agent/sim/trace.h"

struct replay {
  struct trace_reader *reader;
  uint64_t stop_at, n;              /* events; stop_at 0: at the end */
  bool is_over, differs, has_ended; /* has_ended: something was recorded where nothing happens now */
  struct trace_record then, now;    /* of the first event that differs; of the last one */
  bool has_then;
  enum err error; /* of the trace */
};

static bool on_step(void *context, struct sim *s) {
  struct replay *r = context;
  r->error = trace_next(r->reader, &r->then, &r->has_then);
  if (r->error || !r->has_then) {
    r->is_over = true; /* what was recorded has been repeated */
    return false;
  }
  r->n++;
  r->now = trace_record_of(s);
  r->differs = !trace_record_equal(&r->then, &r->now);
  return !r->differs && r->n != r->stop_at;
}

/* After the last event of the simulation there must be none in the trace. */
static void look_for_more(struct replay *r) {
  if (r->is_over || r->differs || r->n == r->stop_at)
    return;
  r->error = trace_next(r->reader, &r->then, &r->has_then);
  r->differs = r->error == ERR_OK && r->has_then;
  r->has_ended = r->differs;
  r->n += r->differs;
}

static json_t *record_json(const struct trace_record *r) {
  char hash[17];
  snprintf(hash, sizeof hash, "%016" PRIx64, r->hash);
  return json_pack("{s:f, s:I, s:s, s:I, s:s}", "seconds", (double)r->at_us / 1e6 - (double)SIM_START_MS / 1e3, "agent",
                   (json_int_t)r->agent, "kind", trace_kind_name(r->kind), "bytes", (json_int_t)r->n, "trace", hash);
}

static json_t *state_json(const struct sim_agent *a) {
  struct round_view v = {0};
  size_t n_sessions = 0, n_waiting = 0, n_waited_for = 0;
  if (a->is_alive)
    round_view(a->machine, &v);
  for (size_t i = 0; a->is_alive && i < a->n_peers; i++) {
    const struct round_peer *p = &a->machine->peers[i];
    n_sessions += p->has_session;
    n_waiting += p->inbox.n_queue;
    struct round_peer_view pv;
    round_peer_view(a->machine, i, &pv);
    n_waited_for += pv.is_waited_for;
  }
  const char *phase = !a->is_alive ? "dead" : v.is_halted ? phase_name(PHASE_HALTED) : phase_name(v.phase);
  return json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "agent", (json_int_t)a->number, "phase", phase,
                   "round", (json_int_t)a->durable.committed.round, "sub", (json_int_t)a->durable.committed.sub,
                   "in_work", (json_int_t)v.in_work.round, "published",
                   (json_int_t)(a->durable.n_kept ? a->durable.kept[a->durable.n_kept - 1].position.sequence : 0),
                   "sessions", (json_int_t)n_sessions, "waiting_links", (json_int_t)n_waiting, "waited_for",
                   (json_int_t)n_waited_for, "jumps", (json_int_t)a->n_jumps);
}

/* With bytes and hash: it may be those that differ. */
static void view_record(const json_t *record, FILE *out) {
  fprintf(out, "%s of agent %.0f at %.6f s (%.0f bytes, trace %s)", json_string_value(json_object_get(record, "kind")),
          json_number_value(json_object_get(record, "agent")), json_number_value(json_object_get(record, "seconds")),
          json_number_value(json_object_get(record, "bytes")), json_string_value(json_object_get(record, "trace")));
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {
      {"AGENT", "agent", FORM_COUNT},          {"PHASE", "phase", FORM_TEXT},
      {"ROUND", "round", FORM_COUNT},          {"SUB", "sub", FORM_COUNT | COLUMN_IF_ANY},
      {"IN WORK", "in_work", FORM_COUNT},      {"PUBLISHED", "published", FORM_COUNT},
      {"SESSIONS", "sessions", FORM_COUNT},    {"LINKS WAITING", "waiting_links", FORM_COUNT | COLUMN_IF_ANY},
      {"WAITS FOR", "waited_for", FORM_COUNT}, {"JUMPS", "jumps", FORM_COUNT | COLUMN_IF_ANY}};
  bool is_tsv = call->format == FORMAT_TSV;
  table_print(columns, sizeof columns / sizeof *columns, json_object_get(data, "rows"), is_tsv, out);
  if (is_tsv)
    return;
  double seconds = json_number_value(json_object_get(data, "seconds"));
  fprintf(out, "\n%.0f events, %.6f s: ", json_number_value(json_object_get(data, "events")), seconds);
  const json_t *then = json_object_get(json_object_get(data, "difference"), "recorded");
  const json_t *now = json_object_get(json_object_get(data, "difference"), "now");
  if (json_is_null(json_object_get(data, "difference"))) {
    fprintf(out, "as it was recorded, trace %s\n", json_string_value(json_object_get(data, "trace")));
  } else {
    fprintf(out, "the last one differs: recorded ");
    view_record(then, out);
    fprintf(out, json_is_null(now) ? ", and now the story has ended" : ", now ");
    if (!json_is_null(now))
      view_record(now, out);
    fputc('\n', out);
  }
  sim_broken_view(json_object_get(data, "broken"), out);
}

static json_t *replay_json(const struct replay *r, const struct sim *s) {
  char trace[17];
  json_t *rows = json_array(), *difference = json_null();
  snprintf(trace, sizeof trace, "%016" PRIx64, s->trace);
  for (size_t i = 0; i < s->n_agents; i++)
    json_array_append_new(rows, state_json(s->agents[i]));
  if (r->differs)
    difference = json_pack("{s:o, s:o}", "recorded", record_json(&r->then), "now",
                           r->has_ended ? json_null() : record_json(&r->now));
  return json_pack("{s:I, s:f, s:s, s:b, s:o, s:o, s:o}", "events", (json_int_t)r->n, "seconds",
                   (double)s->now_us / 1e6 - (double)SIM_START_MS / 1e3, "trace", trace, "equal", !r->differs,
                   "difference", difference, "broken", sim_broken_json(s), "rows", rows);
}

static void warn_of_the_end(struct call *call, const struct replay *r, const char *path) {
  if (r->is_over)
    answer_warn(call, "%s: it ends with event %" PRIu64 ", before the story does; what comes after it is not compared",
                path, r->n);
  if (r->stop_at > r->n && !r->differs)
    answer_warn(call, "--stop-at: there is no event %" PRIu64 "; the last one is %" PRIu64, r->stop_at, r->n);
}

int sim_replay(struct call *call) {
  struct replay r = {0};
  struct scenario *c;
  char why[MAX_CONFIG_WHY_BYTES];
  const char *path = call->flags[SIM_REPLAY], *stop_at = call->flags[SIM_STOP_AT];
  enum err e = stop_at ? scalar_integer(stop_at, 1, MAX_TRACE_RECORDS, &r.stop_at, why) : ERR_OK;
  if (e)
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "--stop-at: %s", why);
  if (sim_is_agent_trace(path))
    return sim_replay_agent(call, r.stop_at);
  e = trace_open(path, &r.reader, &c, why);
  if (e)
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", why);
  struct sim *s = scenario_sim(c);
  scenario_run(c, s, &(struct scenario_observer){&r, on_step});
  look_for_more(&r);
  if (!r.error)
    warn_of_the_end(call, &r, path);
  int code = r.error ? answer_error(call, EXIT_USAGE, err_name(r.error), "record it again with --trace",
                                    "%s: event %" PRIu64 ": %s", path, r.n + 1, err_sentence(r.error))
                     : answer(call, replay_json(&r, s), view);
  if (code == EXIT_DONE && r.differs)
    code = EXIT_FAILED;
  sim_free(s);
  scenario_free(c);
  trace_reader_free(r.reader);
  return code;
}
