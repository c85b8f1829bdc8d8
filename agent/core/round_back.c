#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/round_machine.h"
#include "base/must.h"

static void forget_path(struct round_machine *m) {
  free(m->back.path);
  m->back.path = NULL;
}

enum err round_on_roll_back(struct round_machine *m, struct round_label to, const char *note, int64_t at_unix_s) {
  machine_hear(m,
               &(struct round_input){
                   .kind = INPUT_ROLL_BACK, .peer = SIZE_MAX, .first = (uint64_t)at_unix_s, .label = to, .what = note});
  if (m->config->is_push_sum)
    return ERR_UNSUPPORTED; /* what was given since cannot be had back: an import changes the model alone */
  if (m->back.stage != BACK_NONE)
    return !m->back.path && round_label_equal(m->back.to, to) ? ERR_OK : ERR_BUSY;
  if (strlen(note) >= STORE_NOTE_BYTES)
    return ERR_LIMIT;
  char *own = strdup(note);
  if (!own)
    return ERR_NO_MEMORY;
  machine_wake(m);
  m->back.stage = BACK_WAITS;
  m->back.error = ERR_OK;
  m->back.to = to;
  m->back.at_unix_s = at_unix_s;
  forget_path(m);
  free(m->back.note);
  m->back.note = own;
  return ERR_OK;
}

enum err round_on_import(struct round_machine *m, const char *path) {
  machine_hear(m, &(struct round_input){.kind = INPUT_IMPORT, .peer = SIZE_MAX, .what = path});
  if (m->back.stage != BACK_NONE)
    return ERR_BUSY;
  if (strlen(path) >= MAX_PATH_BYTES || path[0] == '\0')
    return ERR_LIMIT;
  char *own = strdup(path);
  if (!own)
    return ERR_NO_MEMORY;
  forget_path(m);
  machine_wake(m);
  m->back.stage = BACK_WAITS;
  m->back.error = ERR_OK;
  m->back.path = own;
  return ERR_OK;
}

static bool is_import(const struct round_machine *m) {
  return m->back.path != NULL;
}

bool machine_is_importing(const struct round_machine *m) {
  return m->back.stage == BACK_WORKS && is_import(m);
}

/* Between rounds: nothing is said that is not committed, and no commit is under way. A training that has just ended is
 * between rounds too, for nobody knows of it yet. */
bool machine_may_go_back(const struct round_machine *m) {
  static const bool is_between[N_PHASES] = {
      [PHASE_IDLE] = true, [PHASE_ALONE] = true, [PHASE_PAUSED] = true, [PHASE_FINISHED] = true};
  bool has_trained = m->phase == PHASE_TRAINING && m->trained != NULL;
  return m->back.stage == BACK_WAITS && (is_between[m->phase] || has_trained) && !m->commit_pending &&
         m->raising_above == 0 && m->halted == ERR_OK;
}

/* The training that nobody knows of is forgotten. */
static void forget_training(struct round_machine *m) {
  if (m->trained == NULL)
    return;
  m->starts_chain = m->starts_chain || m->encodes_full;
  trainer_result_free(m->trained);
  m->trained = NULL;
}

void machine_go_back(struct round_machine *m) {
  MUST(machine_may_go_back(m));
  forget_training(m);
  m->back.stage = BACK_WORKS;
  m->back.from = m->phase;
  m->wait_until_ms = 0;
  struct scribe_job *job = machine_scribe_job(SCRIBE_LOAD_MODEL);
  job->of_job = m->config->identity.job;
  job->label = m->back.to;
  job->path = is_import(m) ? strdup(m->back.path) : NULL;
  MUST(!is_import(m) || job->path != NULL);
  job->max_bytes = m->config->snapshot_max_bytes;
  machine_enter(m, PHASE_COMMITTING);
  machine_put_write(m, job);
}

/* Everything is as it was committed: what does not train any more stays so, the rest goes on from between two rounds. */
static void give_up(struct round_machine *m, enum err reason) {
  char text[MAX_REASON_BYTES], to[ROUND_LABEL_BYTES];
  round_label_write(m->back.to, to);
  snprintf(text, sizeof text, "the model %s%s was not taken: %s", is_import(m) ? "from elsewhere" : "of round ",
           is_import(m) ? "" : to, err_sentence(reason));
  m->back.stage = BACK_NONE;
  m->back.error = reason;
  m->in_work = m->reached;
  machine_note(m, is_import(m) ? "import-refused" : "roll-back-refused", SIZE_MAX, text);
  bool is_at_rest = m->back.from == PHASE_PAUSED || m->back.from == PHASE_FINISHED;
  machine_enter(m, is_at_rest ? m->back.from : PHASE_IDLE);
}

/* A model that cannot be read is refused before anything changes; the trainer forgets what it trained in any case. */
void machine_on_model_loaded(struct round_machine *m, struct scribe_result *r) {
  struct trainer_job *job = machine_trainer_job(m, JOB_RESTORE);
  m->back.error = r->error;
  job->is_import = is_import(m);
  job->half = r->half;
  job->model = r->model;
  r->half = r->model = (struct buffer){0}; /* now the job's */
  machine_put_train(m, job);
}

/* Nobody else has a part in it. */
static void commit_import(struct round_machine *m, struct trainer_result *r) {
  m->reached = m->in_work = (struct round_label){m->committed.round, m->committed.sub + 1};
  struct scribe_job *job = machine_commit_job(m, r, m->reached, ROUND_ADOPTED);
  job->commitment.seconds = __builtin_nan("");
  m->commit_pending = true;
  machine_put_write(m, job);
}

void machine_on_imported(struct round_machine *m) {
  char text[MAX_REASON_BYTES], label[ROUND_LABEL_BYTES];
  m->back.stage = BACK_NONE;
  m->back.label = m->committed = m->reached;
  m->commit_pending = false;
  m->train_failures = 0;
  m->has_loss = m->shown.has_loss = false;
  round_label_write(m->committed, label);
  snprintf(text, sizeof text, "a model from elsewhere goes on as round %s", label);
  machine_note(m, "model-imported", SIZE_MAX, text);
  machine_enter(m, PHASE_IDLE);
}

void machine_on_restored(struct round_machine *m, struct trainer_result *r) {
  if (m->back.error != ERR_OK || r->error != ERR_OK) {
    give_up(m, m->back.error != ERR_OK ? m->back.error : r->error);
    return;
  }
  m->shown.metrics = r->metrics;
  if (is_import(m)) {
    commit_import(m, r);
    return;
  }
  struct scribe_job *job = machine_scribe_job(SCRIBE_ROLL_BACK);
  job->of_job = m->config->identity.job;
  job->label = m->back.to;
  job->at_unix_s = m->back.at_unix_s;
  snprintf(job->note, sizeof job->note, "%s", m->back.note ? m->back.note : "");
  machine_put_write(m, job);
}

void machine_on_roll_back_refused(struct round_machine *m, const struct scribe_result *r) {
  m->back.error = r->error;
  machine_put_train(m, machine_trainer_job(m, JOB_UNDO));
}

void machine_on_undone(struct round_machine *m, const struct trainer_result *r) {
  if (r->error == ERR_OK)
    m->shown.metrics = r->metrics;
  give_up(m, m->back.error);
}

/* Peers' copies of us no longer fit the model: what is published next starts a chain. */
void machine_on_rolled_back(struct round_machine *m, const struct scribe_result *r) {
  char text[2 * MAX_REASON_BYTES], from[ROUND_LABEL_BYTES], to[ROUND_LABEL_BYTES];
  m->back.stage = BACK_NONE;
  m->back.label = r->roll_back.label;
  m->committed = m->reached = m->in_work = r->roll_back.label;
  m->starts_chain = true;
  m->train_failures = 0;
  m->has_loss = m->shown.has_loss = false;
  machine_set_notice(m, &r->roll_back);
  round_label_write(r->roll_back.to, from);
  round_label_write(r->roll_back.label, to);
  snprintf(text, sizeof text, "the model of round %s goes on as %s%s%s", from, to,
           r->roll_back.note[0] != '\0' ? ": " : "", r->roll_back.note);
  machine_note(m, "model-rolled-back", SIZE_MAX, text);
  machine_enter(m, PHASE_IDLE);
}

void machine_set_notice(struct round_machine *m, const struct store_roll_back *r) {
  if (!m->notice)
    m->notice = malloc(sizeof *m->notice);
  MUST(m->notice != NULL);
  *m->notice = (struct wire_notice){.kind = NOTICE_ROLLED_BACK, .round = r->to.round, .sub = r->to.sub};
  snprintf(m->notice->text, sizeof m->notice->text, "%s", r->note);
  m->notice_round = r->label.round;
}

static bool is_same(const struct wire_notice *a, const struct wire_notice *b) {
  return a->kind == b->kind && a->round == b->round && a->sub == b->sub && strcmp(a->text, b->text) == 0;
}

void machine_take_notice(struct round_machine *m, size_t peer, const struct wire_notice *notice) {
  struct wire_notice **known = &m->peers[peer].noticed;
  if (notice->kind == NOTICE_NONE) {
    free(*known);
    *known = NULL;
    return;
  }
  if (*known && is_same(notice, *known))
    return;
  if (!*known)
    *known = malloc(sizeof **known);
  MUST(*known != NULL);
  **known = *notice;
  char text[MAX_REASON_BYTES];
  notice_text(notice, text);
  machine_note(m, "peer-rolled-back", peer, text);
}

void notice_text(const struct wire_notice *n, char out_text[MAX_REASON_BYTES]) {
  char label[ROUND_LABEL_BYTES];
  round_label_write((struct round_label){n->round, n->sub}, label);
  snprintf(out_text, MAX_REASON_BYTES, "rolled back to %s%s%s", label, n->text[0] != '\0' ? ": " : "", n->text);
}

void round_roll_back_view(const struct round_machine *m, struct round_roll_back_view *out_view) {
  *out_view = (struct round_roll_back_view){
      .is_pending = m->back.stage != BACK_NONE, .error = m->back.error, .to = m->back.to, .label = m->back.label};
}
