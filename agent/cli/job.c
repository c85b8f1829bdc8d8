/* starling job status|propose|accept|stop|serve: job files and which of them run. The running agent does it; without one what
 * is proposed, accepted or stopped is written into the database for its next start. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/catalogue.h"
#include "agent/cli/history.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/file.h"
#include "agent/job_words.h"
#include "agent/key.h"
#include "agent/text.h"
#include "crypto/job_file.h"
#include "crypto/names.h"

/* ---- status ------------------------------------------------------------------------------------------------------- */

void jobs_print(const json_t *rows, bool is_tsv, FILE *out) {
  static const struct column columns[] = {{"JOB", "job", FORM_TEXT},
                                          {"VERSION", "version", FORM_COUNT},
                                          {"STATE", "state", FORM_TEXT},
                                          {"ACCEPTED", "accepted", FORM_COUNT},
                                          {"READY", "ready", FORM_COUNT},
                                          {"PEERS", "peers", FORM_COUNT},
                                          {"SERVING", "serving", FORM_TEXT},
                                          {"ROUND", "round", FORM_COUNT},
                                          {"PHASE", "phase", FORM_TEXT},
                                          {"VAL", "validation", FORM_HEADLINE},
                                          {"SIGNED BY", "signed_by", FORM_TEXT}};
  const json_t *row;
  size_t i;
  table_print(columns, sizeof columns / sizeof *columns, rows, is_tsv, out);
  json_array_foreach(rows, i, row) {
    const char *note = json_string_value(json_object_get(row, "note"));
    if (!is_tsv && note && note[0]) {
      text_print(note, out);
      fputc('\n', out);
    }
  }
}

static void view_status(const struct call *call, const json_t *data, FILE *out) {
  jobs_print(json_object_get(data, "jobs"), call->format == FORMAT_TSV, out);
}

int verb_job_status(struct call *call) {
  char why[MAX_CONFIG_WHY_BYTES];
  json_t *data = NULL;
  struct config *c;
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  enum err e = agent_ask(call, c->state_dir, json_pack("{s:s}", "ask", "jobs"), &data, why);
  if (e == ERR_NOT_CONNECTED)
    data = json_pack("{s:o}", "jobs", catalogue_rows(c));
  config_free(c);
  return data ? answer(call, data, view_status) : answer_error(call, ask_exit_code(e), err_name(e), NULL, "%s", why);
}

/* ---- changes ------------------------------------------------------------------------------------------------------ */

static void view_change(const struct call *call, const json_t *data, FILE *out) {
  view_state_change(call, data, json_string_value(json_object_get(data, "job")),
                    json_string_value(json_object_get(data, "to")), out);
}

static int answer_changed(struct call *call, const char *job, const char *to, bool changed, bool is_stored) {
  return answer_change(call, json_pack("{s:s, s:s, s:b}", "job", job, "to", to, "needs_start", is_stored && changed),
                       changed, view_change);
}

/* The agent's own answer; ERR_NOT_CONNECTED when none runs. */
static enum err ask_agent(struct call *call, const struct config *c, json_t *request, bool *out_changed,
                          char why[MAX_CONFIG_WHY_BYTES]) {
  json_t *data = NULL;
  json_object_set_new(request, "check", json_boolean(call->checks));
  enum err e = agent_ask(call, c->state_dir, request, &data, why);
  if (e == ERR_OK)
    *out_changed = json_is_true(json_object_get(data, "changed"));
  json_decref(data);
  return e;
}

static enum err write_state(struct store *store, struct store_job_file *row, bool is_configured, bool *out_changed) {
  bool is_put = false, is_set = false;
  enum err e = store_job_file_put(store, row, &is_put);
  if (e == ERR_EXISTS && is_configured)
    e = ERR_OK;
  if (e == ERR_OK)
    e = store_job_file_set_state(store, &row->digest, row->state, &is_set);
  *out_changed = is_put || is_set;
  return e;
}

/* A text of this site, signed, as the store keeps it. The row borrows the text. */
static void sign_row(const struct config *c, const struct identity *id, const struct job_config *job, const char *text,
                     struct store_job_file *row) {
  struct job_file f = {.swarm = swarm_id(c->swarm), .version = job->version, .text = text, .n_text = strlen(text)};
  memcpy(f.name, job->name, sizeof f.name);
  memcpy(f.run_label, job->run_label, sizeof f.run_label);
  job_file_sign(&f, id);
  *row = (struct store_job_file){.digest = f.job, .version = f.version, .at_unix_s = time(NULL), .text = (char *)text};
  memcpy(row->name, f.name, sizeof row->name);
  memcpy(row->proposer, f.proposer.bytes, sizeof row->proposer);
  memcpy(row->signature, f.signature.bytes, sizeof row->signature);
}

/* ---- propose ------------------------------------------------------------------------------------------------------ */

static enum err propose_stored(struct call *call, const struct config *c, const struct job_config *job,
                               const char *text, bool *out_changed, char why[MAX_CONFIG_WHY_BYTES]) {
  struct identity *id = NULL;
  struct store *store = NULL;
  enum err e = key_open(c, &id, why);
  if (e == ERR_OK)
    e = history_open_to_change(c, identity_public(id)->bytes, &store, why);
  if (e == ERR_OK) {
    struct store_job_file row;
    sign_row(c, id, job, text, &row);
    row.state = JOB_FILE_PROPOSED;
    e = catalogue_may_add(c, store, &row, out_changed, why);
    if (e == ERR_OK && *out_changed && !call->checks)
      e = store_job_file_put(store, &row, out_changed);
  }
  store_close(store);
  identity_free(id);
  return e;
}

int verb_job_propose(struct call *call) {
  const char *path = call->arguments[0];
  char why[MAX_CONFIG_WHY_BYTES] = "", job[JOB_WORDS_BYTES] = "";
  char *text = NULL;
  size_t n_text;
  struct config *c;
  struct site_job_config *read = NULL;
  bool changed = false, is_stored = false;
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  enum err e = file_read(path, MAX_JOB_TEXT_BYTES, &text, &n_text);
  if (e)
    snprintf(why, sizeof why,
             e == ERR_LIMIT ? "%s: a job file that travels has at most 48 KiB" : "%s: %s; correct the path", path,
             err_sentence(e));
  else
    e = config_read_job(c, NULL, path, text, n_text, &read, why);
  int code = EXIT_USAGE;
  if (e == ERR_OK) {
    job_words_write(read->job.name, read->job.version, job);
    e = ask_agent(call, c, json_pack("{s:s, s:s}", "ask", "job-propose", "text", text), &changed, why);
    code = e ? ask_exit_code(e) : EXIT_DONE;
    is_stored = e == ERR_NOT_CONNECTED;
    if (is_stored) {
      e = propose_stored(call, c, &read->job, text, &changed, why);
      code = e == ERR_EXISTS ? EXIT_FAILED : e ? exit_code_of(e) : EXIT_DONE;
    }
  }
  config_job_free(read);
  config_free(c);
  free(text);
  return e ? answer_error(call, code, err_name(e), NULL, "%s", why[0] ? why : err_sentence(e))
           : answer_changed(call, job, "proposed", changed, is_stored);
}

/* ---- accept, stop, serve ------------------------------------------------------------------------------------------ */

struct change {
  const char *ask, *to;
  enum job_file_state state;
};

static enum err change_stored(struct call *call, const struct config *c, const struct known_job *k,
                              const struct change *change, bool *out_changed, char why[MAX_CONFIG_WHY_BYTES]) {
  struct identity *id = NULL;
  struct store *store = NULL;
  struct store_job_file row;
  char *text = NULL;
  *out_changed = k->state != change->state;
  if (!*out_changed || call->checks)
    return ERR_OK;
  enum err e = key_open(c, &id, why);
  if (e == ERR_OK)
    e = history_open_to_change(c, identity_public(id)->bytes, &store, why);
  if (e == ERR_OK && k->is_configured) {
    text = text_copy(k->job->job.text, k->job->job.n_text);
    if (text)
      sign_row(c, id, &k->job->job, text, &row);
    else
      e = ERR_NO_MEMORY;
  } else if (e == ERR_OK) {
    row = k->row;
  }
  if (e == ERR_OK) {
    row.state = change->state;
    e = write_state(store, &row, k->is_configured, out_changed);
  }
  free(text);
  store_close(store);
  identity_free(id);
  return e;
}

static int change(struct call *call, const struct change *change) {
  char why[MAX_CONFIG_WHY_BYTES] = "", job[JOB_WORDS_BYTES];
  struct config *c;
  struct catalogue catalogue;
  bool changed = false;
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  enum err e = catalogue_open(&catalogue, c, why);
  const struct known_job *k = NULL;
  if (e == ERR_OK)
    e = catalogue_find(&catalogue, call->arguments[0], &k, why);
  int code = e ? e == ERR_NOT_FOUND ? EXIT_FAILED : EXIT_USAGE : EXIT_DONE;
  bool is_stored = false;
  if (k) {
    job_words_write(k->job->job.name, k->job->job.version, job);
    e = ask_agent(call, c, json_pack("{s:s, s:s}", "ask", change->ask, "job", job), &changed, why);
    code = e ? ask_exit_code(e) : EXIT_DONE;
    is_stored = e == ERR_NOT_CONNECTED && strcmp(change->ask, "job-serve") != 0;
    if (is_stored) {
      e = change_stored(call, c, k, change, &changed, why);
      code = e == ERR_EXISTS ? EXIT_FAILED : e ? exit_code_of(e) : EXIT_DONE;
    }
  }
  catalogue_close(&catalogue);
  config_free(c);
  return e ? answer_error(call, code, err_name(e), NULL, "%s", why[0] ? why : err_sentence(e))
           : answer_changed(call, job, change->to, changed, is_stored);
}

int verb_job_accept(struct call *call) {
  return change(call, &(struct change){"job-accept", "accepted", JOB_FILE_ACCEPTED});
}

int verb_job_stop(struct call *call) {
  return change(call, &(struct change){"job-stop", "stopped", JOB_FILE_STOPPED});
}

int verb_job_serve(struct call *call) {
  return change(call, &(struct change){"job-serve", "serving", JOB_FILE_ACCEPTED});
}
