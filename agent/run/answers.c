#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock.h"
#include "agent/event_json.h"
#include "agent/round_json.h"
#include "agent/run/parts.h"
#include "agent/run/request.h"

enum { DEFAULT_ROUNDS = 20, DEFAULT_EVENTS = 20, MEMBERS_AT_ONCE = 64 /* that fit in one line */ };

/* NULL: there is none of these words, or without a word it is not clear which. */
static struct agent_job *find_job(const struct agent *a, const json_t *request) {
  const char *text = json_string_value(json_object_get(request, "job"));
  struct job_words words;
  char why[MAX_REASON_BYTES];
  if (text && job_words_read(text, &words, why) != ERR_OK)
    return NULL;
  return agent_find_job(a, text ? &words : NULL);
}

/* The job that a request is about; NULL after saying which there are. */
struct agent_job *agent_asked_job(struct agent *a, uint64_t client, const json_t *request) {
  struct agent_job *found = find_job(a, request);
  char known[MAX_REASON_BYTES] = "";
  size_t n = 0;
  if (found)
    return found;
  for (size_t i = 0; i < a->n_jobs && n < sizeof known; i++) {
    const struct job_config *job = &a->jobs[i]->config->job;
    if (!a->jobs[i]->is_stopped)
      n += (size_t)snprintf(known + n, sizeof known - n, "%s%s@%" PRIu32, n ? ", " : "", job->name, job->version);
  }
  bool is_named = json_object_get(request, "job") != NULL;
  char text[2 * MAX_REASON_BYTES];
  if (n == 0) {
    control_fail(a->control, client, ERR_NOT_FOUND, "this agent runs no job",
                 "`starling job status` shows why; `starling job accept` starts one");
    return NULL;
  }
  snprintf(text, sizeof text, "%s; this agent runs %s", is_named ? "no such job" : "which job is meant?", known);
  control_fail(a->control, client, is_named ? ERR_NOT_FOUND : ERR_RANGE, text, "write --job NAME[@VERSION]");
  return NULL;
}

static uint64_t status_mark(const struct agent *a, const json_t *request) {
  const struct agent_job *j = find_job(a, request);
  return j ? status_change(j) : 0;
}

static void answer_status_now(struct agent *a, uint64_t client, const json_t *request, uint64_t until_ms) {
  (void)until_ms;
  const struct agent_job *j = agent_asked_job(a, client, request);
  if (j)
    control_answer(a->control, client, status_json(j, clock_ms()));
}

static const struct parked_kind status_kind = {status_mark, answer_status_now};

/* With "unless": only when what status tells first is no longer what the client has seen, or its time is over. */
static void answer_status(struct agent *a, uint64_t client, const json_t *request) {
  const struct agent_job *j = agent_asked_job(a, client, request);
  const json_t *unless = json_object_get(request, "unless");
  if (!j)
    return;
  struct parked parked = {.kind = &status_kind, .client = client, .request = (json_t *)request};
  parked.seen = (uint64_t)json_integer_value(unless);
  parked.until_ms = clock_ms() + PARKED_MS;
  if (json_is_integer(unless) && parked.seen == status_mark(a, request))
    parking_put(a, &a->parking, &parked);
  else
    control_answer(a->control, client, status_json(j, clock_ms()));
}

static void answer_peers(struct agent *a, uint64_t client, const json_t *request) {
  const struct agent_job *j = agent_asked_job(a, client, request);
  if (j)
    control_answer(a->control, client, status_peers_json(j, clock_ms()));
}

static void answer_members(struct agent *a, uint64_t client, const json_t *request) {
  uint64_t from = agent_asked_number(request, "from", 0);
  control_answer(a->control, client, status_members_json(a, from, MEMBERS_AT_ONCE, clock_ms()));
}

static void answer_health(struct agent *a, uint64_t client, const json_t *request) {
  (void)request;
  control_answer(a->control, client, status_health_json(a));
}

uint64_t agent_asked_number(const json_t *request, const char *key, uint64_t otherwise) {
  const json_t *value = json_object_get(request, key);
  return json_is_integer(value) && json_integer_value(value) >= 0 ? (uint64_t)json_integer_value(value) : otherwise;
}

/* Without a sub the round's own number is meant. */
bool agent_asked_label(struct agent *a, uint64_t client, const json_t *request, struct round_label *out_label) {
  const json_t *round = json_object_get(request, "round"), *sub = json_object_get(request, "sub");
  json_int_t number = json_integer_value(round), after = json_integer_value(sub);
  bool is_label = json_is_integer(round) && number >= 0 && (!sub || json_is_integer(sub)) && after >= 0;
  if (is_label && after <= UINT32_MAX) {
    *out_label = (struct round_label){(uint64_t)number, (uint32_t)after};
    return true;
  }
  control_fail(a->control, client, ERR_RANGE, "round and sub are whole numbers", NULL);
  return false;
}

/* History is the scribe's; the client waits for its result. */
static void ask_scribe(struct agent *a, uint64_t client, const json_t *request, bool one_round) {
  const struct agent_job *j = agent_asked_job(a, client, request);
  struct round_label label = {0};
  if (!j || (one_round && !agent_asked_label(a, client, request, &label)))
    return;
  struct scribe_job *job = calloc(1, sizeof *job);
  if (!job) {
    control_fail(a->control, client, ERR_NO_MEMORY, err_sentence(ERR_NO_MEMORY), NULL);
    return;
  }
  uint64_t n = agent_asked_number(request, "last", DEFAULT_ROUNDS);
  job->kind = SCRIBE_QUERY;
  job->client = client;
  job->of_job = j->id;
  job->from_round = agent_asked_number(request, "from", 0);
  job->n_rounds = n < SCRIBE_MAX_ROUNDS ? (uint32_t)n : SCRIBE_MAX_ROUNDS;
  job->one_round = one_round;
  job->label = label;
  scribe_put(a->scribe, job);
}

/* A client that waits is answered when there is an event, or its time is over. */
static void ask_events(struct agent *a, uint64_t client, const json_t *request, uint64_t until_ms) {
  struct scribe_job *job = calloc(1, sizeof *job);
  if (!job) {
    control_fail(a->control, client, ERR_NO_MEMORY, err_sentence(ERR_NO_MEMORY), NULL);
    return;
  }
  job->kind = SCRIBE_EVENTS;
  job->client = client;
  job->is_after = json_is_integer(json_object_get(request, "after"));
  job->after_id = agent_asked_number(request, "after", 0);
  uint64_t n_rows = agent_asked_number(request, "last", DEFAULT_EVENTS);
  job->n_rows = n_rows < UINT32_MAX ? (uint32_t)n_rows : UINT32_MAX;
  job->wait_until_ms = until_ms;
  scribe_put(a->scribe, job);
}

static void answer_events(struct agent *a, uint64_t client, const json_t *request) {
  ask_events(a, client, request, json_is_true(json_object_get(request, "wait")) ? clock_ms() + PARKED_MS : 0);
}

static uint64_t events_mark(const struct agent *a, const json_t *request) {
  (void)request;
  return a->n_written;
}

static const struct parked_kind events_kind = {events_mark, ask_events};

void agent_answer_events(struct agent *a, const struct scribe_result *r) {
  if (r->error != ERR_OK) {
    control_fail(a->control, r->client, r->error, err_sentence(r->error), NULL);
  } else if (r->n_events == 0 && clock_ms() < r->wait_until_ms) {
    json_t *request = json_pack("{s:I}", "after", (json_int_t)r->after_id);
    parking_put(a, &a->parking, &(struct parked){&events_kind, r->client, a->n_written, r->wait_until_ms, request});
    json_decref(request);
  } else {
    control_answer(a->control, r->client, events_json(r->events, r->n_events, r->after_id));
  }
}

static void answer_rounds(struct agent *a, uint64_t client, const json_t *request) {
  ask_scribe(a, client, request, false);
}

static void answer_round(struct agent *a, uint64_t client, const json_t *request) {
  ask_scribe(a, client, request, true);
}

static const struct {
  const char *ask;
  void (*answer)(struct agent *a, uint64_t client, const json_t *request);
  bool needs_all; /* not before everything runs */
} requests[] = {
    {"status", answer_status, true},
    {"peers", answer_peers, true},
    {"members", answer_members, true},
    {"health", answer_health, false},
    {"rounds", answer_rounds, true},
    {"round", answer_round, true},
    {"events", answer_events, true},
    {"pin", agent_answer_pin, true},
    {"unpin", agent_answer_unpin, true},
    {"serve", agent_answer_serve, true},
    {"roll-back", agent_answer_roll_back, true},
    {"import", agent_answer_import, true},
    {"trace", agent_answer_trace, true},
    {"jobs", answer_jobs, true},
    {"job-propose", answer_job_propose, true},
    {"job-accept", answer_job_accept, true},
    {"job-stop", answer_job_stop, true},
    {"job-serve", answer_job_serve, true},
    {"job-file", answer_job_file, true},
};

static void on_request(void *context, uint64_t client, const json_t *request) {
  struct agent *a = context;
  const char *ask = json_string_value(json_object_get(request, "ask"));
  char why[MAX_REASON_BYTES];
  enum err e = request_judge(request, why);
  if (e != ERR_OK) {
    control_fail(a->control, client, e, why, NULL);
    return;
  }
  for (size_t i = 0; ask && i < sizeof requests / sizeof *requests; i++) {
    if (strcmp(ask, requests[i].ask) != 0)
      continue;
    if (requests[i].needs_all && !a->scribe)
      control_fail(a->control, client, ERR_STOPPED, a->sentence, NULL);
    else
      requests[i].answer(a, client, request);
    return;
  }
  control_fail(a->control, client, ERR_UNSUPPORTED, "this agent does not know that request", NULL);
}

struct control_events agent_control_events(struct agent *a) {
  return (struct control_events){.context = a, .on_request = on_request};
}

static json_t *round_list(const struct scribe_result *r) {
  json_t *o = json_object();
  json_t *rows = json_array();
  for (size_t i = 0; i < r->n_rounds; i++)
    json_array_append_new(rows, round_json(&r->rounds[i]));
  json_object_set_new(o, "rounds", rows);
  return o;
}

void agent_answer_query(struct agent *a, const struct scribe_result *r) {
  bool is_one = r->contributions != NULL;
  char missing[MAX_REASON_BYTES];
  round_missing_write(r->label, missing);
  if (r->error == ERR_NOT_FOUND)
    control_fail(a->control, r->client, r->error, missing, NULL);
  else if (r->error != ERR_OK)
    control_fail(a->control, r->client, r->error, err_sentence(r->error), NULL);
  else if (is_one)
    control_answer(a->control, r->client, round_json_with_peers(&r->rounds[0], r->contributions, r->n_contributions));
  else
    control_answer(a->control, r->client, round_list(r));
}
