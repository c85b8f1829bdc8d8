#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/file.h"
#include "agent/round_json.h"
#include "agent/run/parts.h"
#include "agent/run/snapshot.h"
#include "agent/text.h"

/* The note of a request: bounded, and no control characters. False after answering. */
static bool take_note(struct agent *a, uint64_t client, const json_t *request, char out_note[STORE_NOTE_BYTES]) {
  const char *note = json_string_value(json_object_get(request, "note"));
  if (!note || (strlen(note) < STORE_NOTE_BYTES && text_is_clean(note))) {
    snprintf(out_note, STORE_NOTE_BYTES, "%s", note ? note : "");
    return true;
  }
  control_fail(a->control, client, ERR_LIMIT, "the note is too long or has control characters",
               "write at most 160 bytes of text");
  return false;
}

static void ask_change(struct agent *a, uint64_t client, const json_t *request, enum model_change change) {
  const struct agent_job *j = agent_asked_job(a, client, request);
  struct round_label label;
  if (!j || !agent_asked_label(a, client, request, &label))
    return;
  struct scribe_job *job = calloc(1, sizeof *job);
  if (!job) {
    control_fail(a->control, client, ERR_NO_MEMORY, err_sentence(ERR_NO_MEMORY), NULL);
    return;
  }
  const char *mode = json_string_value(json_object_get(request, "mode"));
  job->kind = SCRIBE_CHANGE;
  job->client = client;
  job->of_job = j->id;
  job->change = change;
  job->at_unix_s = time(NULL);
  job->label = label;
  bool is_good = take_note(a, client, request, job->note);
  if (is_good && change == CHANGE_SERVE && (!mode || serving_mode_find(mode, &job->serve) != ERR_OK)) {
    control_fail(a->control, client, ERR_RANGE, "no such mode of serving", "write best, latest or pinned");
    is_good = false;
  }
  if (is_good)
    scribe_put(a->scribe, job);
  else
    scribe_job_free(job);
}

void agent_answer_pin(struct agent *a, uint64_t client, const json_t *request) {
  ask_change(a, client, request, CHANGE_PIN);
}

void agent_answer_unpin(struct agent *a, uint64_t client, const json_t *request) {
  ask_change(a, client, request, CHANGE_UNPIN);
}

void agent_answer_serve(struct agent *a, uint64_t client, const json_t *request) {
  ask_change(a, client, request, CHANGE_SERVE);
}

static void model_missing(struct agent *a, uint64_t client, struct round_label label) {
  char label_text[ROUND_LABEL_BYTES], text[MAX_REASON_BYTES];
  round_label_write(label, label_text);
  snprintf(text, sizeof text, "the model of round %s is not kept", label_text);
  control_fail(a->control, client, ERR_NOT_FOUND, text, "`starling models list` shows what is kept");
}

void agent_answer_change(struct agent *a, const struct scribe_result *r) {
  if (r->error == ERR_NOT_FOUND)
    model_missing(a, r->client, r->label);
  else if (r->error != ERR_OK)
    control_fail(a->control, r->client, r->error, err_sentence(r->error), NULL);
  else
    control_answer(a->control, r->client, json_pack("{s:b}", "changed", r->changed));
}

/* {"pending", "error", "label"}: whether one is under way, why the last one was refused, what it was committed as. */
static json_t *roll_back_state(const struct agent_job *j) {
  struct round_roll_back_view v;
  char label[ROUND_LABEL_BYTES];
  round_roll_back_view(j->round, &v);
  round_label_write(v.label, label);
  return json_pack("{s:b, s:o, s:o}", "pending", v.is_pending, "error",
                   v.error ? json_string(err_sentence(v.error)) : json_null(), "label",
                   v.label.round || v.label.sub ? json_string(label) : json_null());
}

/* With a round it begins, without one it says how far it is: it takes effect between two rounds, which may be long. */
void agent_answer_roll_back(struct agent *a, uint64_t client, const json_t *request) {
  char note[STORE_NOTE_BYTES];
  struct agent_job *j = agent_asked_job(a, client, request);
  if (!j || !take_note(a, client, request, note))
    return;
  struct round_label to;
  bool begins = json_object_get(request, "round") != NULL;
  if (begins && !agent_asked_label(a, client, request, &to))
    return;
  enum err e = begins ? round_on_roll_back(j->round, to, note, time(NULL)) : ERR_OK;
  if (e != ERR_OK)
    control_fail(a->control, client, e, "another roll-back or import is under way", "wait until it is done");
  else
    control_answer(a->control, client, roll_back_state(j));
}

/* The same with a file, that a verb has put into the state directory under a name that only imports have. */
void agent_answer_import(struct agent *a, uint64_t client, const json_t *request) {
  const char *file = json_string_value(json_object_get(request, "file"));
  char path[MAX_PATH_BYTES];
  struct agent_job *j = agent_asked_job(a, client, request);
  if (!j)
    return;
  if (file && (strncmp(file, IMPORT_FILE, strlen(IMPORT_FILE)) != 0 || strchr(file, '/') != NULL)) {
    control_fail(a->control, client, ERR_RANGE, "no file of an import", "use `starling models import`");
    return;
  }
  enum err e = file ? path_join(a->config->state_dir, file, path) : ERR_OK;
  if (e == ERR_OK && file)
    e = round_on_import(j->round, path);
  if (e != ERR_OK)
    control_fail(a->control, client, e, "another roll-back or import is under way", "wait until it is done");
  else
    control_answer(a->control, client, roll_back_state(j));
}
