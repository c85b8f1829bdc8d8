/* What the control socket is asked about jobs and their files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/round_json.h"
#include "agent/run/parts.h"
#include "crypto/key_text.h"

static const char *state_word(const struct known_file *k) {
  static const char *const words[] = {
      [JOB_FILE_PROPOSED] = "proposed", [JOB_FILE_ACCEPTED] = "accepted", [JOB_FILE_STOPPED] = "stopped"};
  return k->configured && k->state == JOB_FILE_ACCEPTED ? "configured" : words[k->state];
}

static struct agent_job *running(const struct agent *a, const struct digest *id) {
  for (size_t i = 0; i < a->n_jobs; i++)
    if (!a->jobs[i]->is_stopped && digest_equal(&a->jobs[i]->id, id))
      return a->jobs[i];
  return NULL;
}

/* The peer has a job of that name and version, but another schema or contract. */
static bool differs(const struct agent_job *j, size_t peer) {
  struct round_peer_view view;
  round_peer_view(j->round, peer, &view);
  return view.standing == ERR_SCHEMA || view.standing == ERR_CONTRACT;
}

/* `j`: the job where it runs here, else NULL. */
static size_t count_accepted(const struct agent *a, const struct digest *id, const struct agent_job *j) {
  size_t n = 0;
  for (size_t i = 0; i < a->config->n_peers; i++)
    n += gossip_names_job(a->gossip, i, id) && !(j && differs(j, i));
  return n;
}

static json_t *row_of(struct agent *a, const struct known_file *k) {
  char key[KEY_TEXT_BYTES];
  struct agent_job *j = running(a, &k->file.job);
  struct round_view v = {.phase = PHASE_PAUSED};
  double mean = 0;
  bool is_measured = j && serving_mean(j, &mean);
  key_text_write(&k->file.proposer, key);
  if (j)
    round_view(j->round, &v);
  json_t *o = json_object();
  json_object_set_new(o, "job", json_string(k->file.name));
  json_object_set_new(o, "version", json_integer(k->file.version));
  json_object_set_new(o, "run_label", json_string(k->file.run_label));
  json_object_set_new(o, "state", json_string(state_word(k)));
  json_object_set_new(o, "running", json_boolean(j != NULL));
  json_object_set_new(o, "accepted", json_integer((json_int_t)count_accepted(a, &k->file.job, j)));
  json_object_set_new(o, "ready", json_integer(j ? (json_int_t)serving_ready(j) : 0));
  json_object_set_new(o, "peers", json_integer((json_int_t)a->config->n_peers));
  json_object_set_new(o, "serving", json_boolean(j && serving_is(j)));
  json_object_set_new(o, "phase", j ? json_string(phase_name(v.phase)) : json_null());
  json_object_set_new(o, "round", j ? json_integer((json_int_t)v.committed.round) : json_null());
  json_object_set_new(o, "metric",
                      j ? json_string(metric_name(contract_metric(j->config->job.contract))) : json_null());
  json_object_set_new(o, "validation", is_measured ? json_real(mean) : json_null());
  json_object_set_new(o, "signed_by", json_string(agent_name_of_key(a, &k->file.proposer)));
  json_object_set_new(o, "proposer", json_string(key));
  json_object_set_new(o, "note", json_text(j && serving_is(j) ? serving_note(a, k->file.name) : k->fault));
  return o;
}

json_t *jobs_rows(struct agent *a) {
  json_t *rows = json_array();
  for (size_t i = 0; i < a->book.n; i++)
    json_array_append_new(rows, row_of(a, &a->book.files[i]));
  return rows;
}

void answer_jobs(struct agent *a, uint64_t client, const json_t *request) {
  (void)request;
  control_answer(a->control, client, json_pack("{s:o}", "jobs", jobs_rows(a)));
}

/* ---- the file that a request names -------------------------------------------------------------------------------- */

/* NULL after saying why. */
static struct known_file *asked_file(struct agent *a, uint64_t client, const json_t *request) {
  const char *text = json_string_value(json_object_get(request, "job"));
  struct job_words words;
  struct known_file *found = NULL;
  char why[MAX_REASON_BYTES] = "which job is meant?";
  size_t n = 0;
  if (text && job_words_read(text, &words, why) == ERR_OK) {
    for (size_t i = 0; i < a->book.n; i++)
      if (job_words_fit(&words, a->book.files[i].file.name, a->book.files[i].file.version)) {
        found = &a->book.files[i];
        n++;
      }
    if (n == 1)
      return found;
    snprintf(why, sizeof why, n ? "there are several versions of %s" : "there is no job file of %s", words.name);
  }
  control_fail(a->control, client, n ? ERR_RANGE : ERR_NOT_FOUND, why,
               "`starling job status` shows them: NAME@VERSION");
  return NULL;
}

static bool only_checks(const json_t *request) {
  return json_is_true(json_object_get(request, "check"));
}

void answer_job_propose(struct agent *a, uint64_t client, const json_t *request) {
  const char *text = json_string_value(json_object_get(request, "text"));
  book_propose(a, client, text ? text : "", only_checks(request));
}

void answer_job_accept(struct agent *a, uint64_t client, const json_t *request) {
  struct known_file *k = asked_file(a, client, request);
  if (k)
    book_change(a, client, k, JOB_FILE_ACCEPTED, only_checks(request));
}

void answer_job_stop(struct agent *a, uint64_t client, const json_t *request) {
  struct known_file *k = asked_file(a, client, request);
  if (k)
    book_change(a, client, k, JOB_FILE_STOPPED, only_checks(request));
}

void answer_job_serve(struct agent *a, uint64_t client, const json_t *request) {
  struct known_file *k = asked_file(a, client, request);
  if (!k)
    return;
  const struct agent_job *j = running(a, &k->file.job);
  char words[JOB_WORDS_BYTES], text[MAX_REASON_BYTES];
  job_words_write(k->file.name, k->file.version, words);
  if (!j) {
    snprintf(text, sizeof text, "%s does not run here", words);
    control_fail(a->control, client, ERR_NOT_FOUND, text, "`starling job accept` starts it");
    return;
  }
  snprintf(text, sizeof text, "serving %s: by command", words);
  serving_set(a, client, j, text, only_checks(request));
}

/* What is known of a name, newest last, and a question to the peer for what is not: whoever wants more asks again. */
void answer_job_file(struct agent *a, uint64_t client, const json_t *request) {
  static const struct digest all = {{0}};
  const char *peer = json_string_value(json_object_get(request, "peer"));
  size_t from = SIZE_MAX;
  for (size_t i = 0; peer && i < a->config->n_peers; i++)
    if (strcmp(a->peers[i].name, peer) == 0)
      from = i;
  if (peer && from == SIZE_MAX) {
    control_fail(a->control, client, ERR_NOT_FOUND, "there is no peer of that name", "`starling peer list` shows them");
    return;
  }
  if (from != SIZE_MAX)
    gossip_ask_job(a->gossip, from, &all);
  struct known_file *k = asked_file(a, client, request);
  if (!k)
    return;
  json_t *text = k->n_bytes ? json_stringn(k->file.text, k->file.n_text) : NULL;
  if (!text) {
    control_fail(a->control, client, ERR_LIMIT, "the job file is longer than one that travels, or no UTF-8",
                 "copy it by hand");
    return;
  }
  json_t *o = row_of(a, k);
  json_object_set_new(o, "text", text);
  control_answer(a->control, client, o);
}
