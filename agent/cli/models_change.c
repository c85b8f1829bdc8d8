/* starling models pin|unpin|serve|rollback: asked of the running agent, else done in its store under the store's lock. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/history.h"
#include "agent/cli/models.h"
#include "agent/cli/trial.h"
#include "agent/cli/verbs.h"
#include "agent/clock.h"
#include "agent/round_json.h"
#include "agent/scalar.h"
#include "agent/text.h"

enum { FLAG_NOTE, FLAG_TIMEOUT };

/* One change: what is wanted, and how each of the three ways does it. */
struct change {
  struct call *call;
  struct config *config;
  const struct site_job_config *site_job;
  struct digest job;
  struct round_label label; /* of the model; zeros for a mode without one */
  enum serving_mode mode;   /* serve */
  const char *note;
  double timeout_s;
  const struct change_kind *kind;
  char why[MAX_CONFIG_WHY_BYTES]; /* after an error */
};

struct change_kind {
  const char *ask;  /* the agent's request */
  const char *done; /* "pinned round %s" */
  bool needs_model; /* that is kept, whatever the judge says */
  /* What the store says: would it change anything? */
  enum err (*judge)(struct change *c, struct store *s, bool *out_changes);
  enum err (*write)(struct change *c, struct store *s, bool *out_changed);
  /* After the agent took the request: until it is done. NULL: it is then. */
  enum err (*wait)(struct change *c, json_t *first);
};

/* ---- what each does ----------------------------------------------------------------------------------------------- */

static enum err find_pin(struct change *c, struct store *s, bool *out_pinned, struct store_model *out_model) {
  struct store_model *models = calloc(MODELS_MAX, sizeof *models);
  size_t n = 0;
  enum err e = models ? store_models(s, &c->job, models, MODELS_MAX, &n) : ERR_NO_MEMORY;
  *out_pinned = false;
  for (size_t i = 0; e == ERR_OK && i < n; i++)
    if (round_label_equal(models[i].label, c->label)) {
      *out_pinned = models[i].pinned;
      *out_model = models[i];
    }
  free(models);
  return e;
}

static enum err judge_pin(struct change *c, struct store *s, bool *out_changes) {
  struct store_model model;
  bool pinned;
  enum err e = find_pin(c, s, &pinned, &model);
  *out_changes = !pinned || (c->call->flags[FLAG_NOTE] && strcmp(model.note, c->note) != 0);
  return e;
}

static enum err write_pin(struct change *c, struct store *s, bool *out_changed) {
  return store_pin(s, &c->job, c->label, c->note, time(NULL), out_changed);
}

static enum err judge_unpin(struct change *c, struct store *s, bool *out_changes) {
  struct store_model model;
  return find_pin(c, s, out_changes, &model);
}

static enum err write_unpin(struct change *c, struct store *s, bool *out_changed) {
  return store_unpin(s, &c->job, c->label, out_changed);
}

static enum err judge_serve(struct change *c, struct store *s, bool *out_changes) {
  struct store_serving now;
  enum err e = store_serving(s, &c->job, c->site_job->serve, &now);
  *out_changes = e != ERR_OK || now.asked != c->mode ||
                 (c->mode == SERVE_PINNED && !(now.by_command && round_label_equal(now.label, c->label)));
  return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err write_serve(struct change *c, struct store *s, bool *out_changed) {
  return store_serve(s, &c->job, c->mode, c->label, time(NULL), out_changed);
}

/* Does the agent train on from it already, as itself or after going back to it? */
static enum err is_back(struct change *c, struct store *s, bool *out_is) {
  struct store_roll_back last = {0};
  struct store_model newest = {0};
  size_t n = 0;
  *out_is = false;
  enum err e = store_models(s, &c->job, &newest, 1, &n);
  if (e != ERR_OK || n == 0)
    return e;
  e = store_roll_back_last(s, &c->job, &last);
  bool was_back = e == ERR_OK && round_label_equal(last.label, newest.label) && round_label_equal(last.to, c->label);
  *out_is = was_back || round_label_equal(newest.label, c->label);
  return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* It goes back only to a model that is kept and that this job's file still describes. With push-sum what was given since cannot be
 * had back: the model alone changes, as by an import. */
static enum err judge_roll_back(struct change *c, struct store *s, bool *out_changes) {
  const struct model_choice target = {.pick = MODEL_ROUND, .label = c->label};
  struct trial t;
  bool is;
  enum err e = is_back(c, s, &is);
  if (e == ERR_OK && !is && job_is_push_sum(&c->site_job->job)) {
    snprintf(
        c->why, sizeof c->why,
        "a job of average: push-sum does not go back, for what it gave since is given; export the model and take it "
        "with `starling models import`");
    return ERR_UNSUPPORTED;
  }
  if (e != ERR_OK)
    return e;
  *out_changes = !is;
  if (is)
    return ERR_OK;
  e = trial_open_stored(&t, c->config, c->site_job, &target);
  snprintf(c->why, sizeof c->why, "%s", t.why);
  trial_close(&t);
  return e;
}

static enum err write_roll_back(struct change *c, struct store *s, bool *out_changed) {
  struct store_roll_back done;
  return store_roll_back(s, &c->job, c->label, c->note, time(NULL), &done, out_changed);
}

/* The agent does it between two rounds. */
static enum err wait_roll_back(struct change *c, json_t *state) {
  json_t *done = NULL;
  enum err e =
      agent_wait_between_rounds(c->call, c->config->state_dir, c->kind->ask, c->timeout_s, state, &done, c->why);
  json_decref(done);
  return e;
}

static const struct change_kind pin = {"pin", "pinned", true, judge_pin, write_pin, NULL};
static const struct change_kind unpin = {"unpin", "no longer pinned", true, judge_unpin, write_unpin, NULL};
static const struct change_kind serve = {"serve", "served", false, judge_serve, write_serve, NULL};
static const struct change_kind roll_back = {"roll-back",     "the model to go on from", false,
                                             judge_roll_back, write_roll_back,           wait_roll_back};

/* ---- the three ways ----------------------------------------------------------------------------------------------- */

/* What is there, read only: is the model kept, and would anything change? */
static enum err judge(struct change *c, bool *out_changes) {
  char reason[MAX_REASON_BYTES];
  struct store *s;
  struct store_round round;
  const struct model_choice choice = {.pick = MODEL_ROUND, .label = c->label};
  enum err e = history_open(c->config, &s, reason);
  if (e != ERR_OK) {
    snprintf(c->why, sizeof c->why, "%s", reason);
    return e;
  }
  if (c->kind->needs_model || c->mode == SERVE_PINNED)
    e = model_find(s, c->config, c->site_job, &choice, &round, c->why);
  if (e == ERR_OK && (e = c->kind->judge(c, s, out_changes)) != ERR_OK && c->why[0] == '\0')
    snprintf(c->why, sizeof c->why, "the database could not be read: %s", err_sentence(e));
  store_close(s);
  return e;
}

static enum err ask_agent(struct change *c, bool *out_changed) {
  json_t *answered = NULL;
  json_t *request = json_pack("{s:s, s:I, s:I, s:s, s:s}", "ask", c->kind->ask, "round", (json_int_t)c->label.round,
                              "sub", (json_int_t)c->label.sub, "note", c->note, "mode", serving_mode_name(c->mode));
  enum err e = agent_ask(c->call, c->config->state_dir, call_request(c->call, request), &answered, c->why);
  if (e != ERR_OK)
    return e;
  if (c->kind->wait) {
    *out_changed = true;
    return c->kind->wait(c, answered);
  }
  *out_changed = json_is_true(json_object_get(answered, "changed"));
  json_decref(answered);
  return ERR_OK;
}

/* No agent runs: the store is written under its lock, by the identity that it has. */
static enum err write_store(struct change *c, bool *out_changed) {
  char reason[MAX_REASON_BYTES];
  uint8_t identity[32];
  struct store *s;
  enum err e = history_identity(c->config, identity, reason);
  if (e == ERR_OK)
    e = history_open_to_change(c->config, identity, &s, reason);
  if (e != ERR_OK) {
    snprintf(c->why, sizeof c->why, "%s", reason);
    return e;
  }
  e = c->kind->write(c, s, out_changed);
  if (e != ERR_OK)
    snprintf(c->why, sizeof c->why, "%s: %s", c->config->state_dir, err_sentence(e));
  store_close(s);
  return e;
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  view_state_change(call, data, json_string_value(json_object_get(data, "model")),
                    json_string_value(json_object_get(data, "done")), out);
}

static int change_run(struct change *c) {
  bool changes = false;
  enum err e = judge(c, &changes);
  if (e == ERR_OK && changes && !c->call->checks) {
    e = ask_agent(c, &changes);
    if (e == ERR_NOT_CONNECTED)
      e = write_store(c, &changes);
  }
  char label[ROUND_LABEL_BYTES];
  round_label_write(c->label, label);
  int code =
      e == ERR_NOT_FOUND || e == ERR_SCHEMA || e == ERR_CONTRACT || e == ERR_STOPPED ? EXIT_FAILED : exit_code_of(e);
  return e ? answer_error(c->call, code, err_name(e), NULL, "%s", c->why)
           : answer_change(c->call,
                           json_pack("{s:s, s:s, s:s}", "model",
                                     c->kind == &serve && c->mode != SERVE_PINNED ? serving_mode_name(c->mode) : label,
                                     "note", c->note, "done", c->kind->done),
                           changes, view);
}

/* ---- the verbs ---------------------------------------------------------------------------------------------------- */

static int run(struct call *call, const struct change_kind *kind, struct change *c) {
  c->call = call;
  c->kind = kind;
  if (strlen(c->note) >= STORE_NOTE_BYTES || !text_is_clean(c->note))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--note: write at most %d bytes of text in one line",
                        STORE_NOTE_BYTES - 1);
  if (!call_load_job(call, &c->config, &c->site_job))
    return EXIT_USAGE;
  c->job = config_job_id(c->config, &c->site_job->job);
  int code = change_run(c);
  config_free(c->config);
  return code;
}

static int run_on_round(struct call *call, const struct change_kind *kind, const char *note, double timeout_s) {
  char why[MAX_REASON_BYTES];
  struct change c = {.note = note ? note : "", .timeout_s = timeout_s, .mode = SERVE_LATEST};
  if (model_label_read(call->arguments[0], &c.label, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "ROUND: %s", why);
  return run(call, kind, &c);
}

int verb_models_pin(struct call *call) {
  return run_on_round(call, &pin, call->flags[FLAG_NOTE], 0);
}

int verb_models_unpin(struct call *call) {
  return run_on_round(call, &unpin, NULL, 0);
}

int verb_models_serve(struct call *call) {
  static const char *const words[] = {"best", "latest", NULL};
  char why[MAX_REASON_BYTES];
  struct change c = {.note = "", .mode = SERVE_PINNED};
  size_t word;
  if (scalar_word(call->arguments[0], words, &word, why) == ERR_OK)
    c.mode = word == 0 ? SERVE_BEST : SERVE_LATEST;
  else if (model_label_read(call->arguments[0], &c.label, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL,
                        "%s: no such model; write best, latest, or a round as 418 or 418+2", call->arguments[0]);
  return run(call, &serve, &c);
}

int verb_models_rollback(struct call *call) {
  const char *given = call->flags[FLAG_TIMEOUT];
  char why[MAX_REASON_BYTES];
  double timeout_s = 600;
  if (given && scalar_number(given, 0, 1e9, &timeout_s, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--timeout: %s", why);
  return run_on_round(call, &roll_back, call->flags[FLAG_NOTE], timeout_s);
}
