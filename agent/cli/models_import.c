/* starling models import: a model that was trained elsewhere becomes the one to go on from. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/history.h"
#include "agent/cli/models.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/file.h"
#include "agent/key.h"
#include "agent/round_json.h"
#include "agent/run/shadow.h"
#include "agent/run/snapshot.h"
#include "agent/scalar.h"
#include "agent/site_job.h"
#include "base/fd.h"
#include "crypto/digest.h"
#include "models/exchange/foreign.h"

enum { FLAG_LAYOUT, FLAG_MAP, FLAG_PARTIAL, FLAG_TIMEOUT };

struct import {
  struct call *call;
  const struct config *config;
  const struct site_job_config *site_job;
  struct digest job;
  struct schema *schema;
  struct learner *learner;
  struct tensor_file *file;
  struct match match;

  /* what is stored of the job; empty before its first round */
  struct store_resume from;
  struct buffer half, model, shadow;
  struct buffer scale; /* text of a measured scaling; empty: the contract has it */
  float *x;            /* [P] the model to come */

  struct round_label label; /* under which it is committed */
  bool changes;
  double timeout_s;               /* for a running agent to come to the end of its round */
  char why[MAX_CONFIG_WHY_BYTES]; /* after an error */
};

static void import_done(struct import *i) {
  match_done(&i->match);
  tensor_file_close(i->file);
  learner_free(i->learner);
  schema_free(i->schema);
  free(i->half.bytes);
  free(i->model.bytes);
  free(i->shadow.bytes);
  free(i->scale.bytes);
  free(i->x);
}

static enum err because(struct import *i, enum err e, const char *what) {
  if (e != ERR_OK && i->why[0] == '\0')
    snprintf(i->why, sizeof i->why, "%s: %s", what, err_sentence(e));
  return e;
}

static enum err because_of_file(struct import *i, enum err e, const struct data_place *place) {
  if (e != ERR_OK)
    data_place_text(place, i->why, sizeof i->why);
  return e;
}

/* ---- the file against the model ----------------------------------------------------------------------------------- */

static enum err open_learner(struct import *i) {
  char reason[MAX_REASON_BYTES];
  enum err e = schema_from_arch(i->site_job->job.arch, i->site_job->job.contract, &i->schema, reason);
  if (e != ERR_OK)
    return because(i, e, "the model");
  struct learner_config config = site_job_learner(i->site_job, i->schema);
  config.init = site_job_first_weights(i->site_job, &i->job, &config.schema_hash);
  if ((e = learner_open(&config, &i->learner)) == ERR_OK) {
    size_t n = schema_parameters(i->schema) * sizeof *i->x;
    i->x = malloc(n);
    if (i->x == NULL)
      e = ERR_NO_MEMORY;
    else
      memcpy(i->x, learner_values(i->learner), n);
  }
  return because(i, e, "the model");
}

static enum err read_map(struct import *i, struct map_line **out_lines, size_t *out_n) {
  const char *path = i->call->flags[FLAG_MAP];
  char *text = NULL, reason[MAX_REASON_BYTES];
  size_t n = 0;
  if (!path)
    return ERR_OK;
  enum err e = file_read(path, MAX_MAP_BYTES, &text, &n);
  snprintf(reason, sizeof reason, "%s", err_sentence(e));
  if (e == ERR_OK)
    e = map_read(text, n, out_lines, out_n, reason);
  if (e != ERR_OK)
    snprintf(i->why, sizeof i->why, "%.3000s: %s", path, reason);
  free(text);
  return e;
}

static enum err match_file(struct import *i, const char *path, const size_t *layout) {
  struct data_place place = {0};
  struct map_line *map = NULL;
  size_t n_map = 0;
  char reason[MAX_REASON_BYTES];
  enum err e = because_of_file(i, tensor_file_open(path, &i->file, &place), &place);
  if (e == ERR_OK)
    e = read_map(i, &map, &n_map);
  if (e == ERR_OK) {
    enum layout how = layout ? (enum layout) * layout : layout_guess(i->file);
    e = match_make(i->schema, i->file, how, map, n_map, &i->match, reason);
    if (e != ERR_OK)
      snprintf(i->why, sizeof i->why, "%.3000s: %s", path, reason);
  }
  free(map);
  return e;
}

/* "7 of 8 tensors" and the first that is not matched. */
static enum err judge_match(struct import *i, const char *path) {
  const struct match *m = &i->match;
  size_t n_bad = m->count[MATCH_MISSING] + m->count[MATCH_SHAPE] + m->count[MATCH_EXTRA], k = 0;
  char shape[ARRAY_SHAPE_TEXT_BYTES];
  if (m->count[MATCH_TAKEN] > 0 && (n_bad == 0 || i->call->flags[FLAG_PARTIAL]))
    return ERR_OK;
  while (m->rows[k].state == MATCH_TAKEN || m->rows[k].state == MATCH_SKIPPED)
    k++;
  const struct match_row *row = &m->rows[k];
  int n =
      snprintf(i->why, sizeof i->why, "%.3000s: matched %zu of %zu tensors (layout %s), %zu extra in the file; ", path,
               m->count[MATCH_TAKEN], schema_tensors(i->schema), layout_names[m->layout], m->count[MATCH_EXTRA]);
  char *at = i->why + n;
  size_t left = sizeof i->why - (size_t)n;
  if (row->theirs != SIZE_MAX)
    array_shape_text(&tensor_file_tensor(i->file, row->theirs)->array, shape);
  if (row->state == MATCH_EXTRA)
    snprintf(at, left, "%.64s %s belongs to none of the model's", tensor_file_tensor(i->file, row->theirs)->name,
             shape);
  else if (row->state == MATCH_SHAPE)
    snprintf(at, left, "%.64s has the shape %s there", schema_tensor(i->schema, row->own)->name, shape);
  else
    snprintf(at, left, "%.64s is missing", schema_tensor(i->schema, row->own)->name);
  return ERR_SCHEMA;
}

static void warn_of_contract(const struct import *i) {
  const char *theirs = tensor_file_note(i->file, "contract");
  struct digest own;
  char hex[DIGEST_TEXT_BYTES];
  if (!theirs || contract_hash(i->site_job->job.contract, &digest_blake2b, &own) != ERR_OK)
    return;
  digest_hex(&own, hex);
  if (strcmp(theirs, hex) != 0)
    answer_warn(i->call,
                "it was exported under another contract: its classes, features or scaling may mean something else");
}

/* ---- the store ---------------------------------------------------------------------------------------------------- */

/* A stored file; the learner's part is its first n_learner bytes. */
static enum err load(struct store *s, const struct digest *name, size_t n_most, struct buffer *out) {
  return digest_is_zero(name) ? ERR_OK : store_file_load(s, name, n_most, &out->bytes, &out->n_bytes);
}

static enum err read_half(struct import *i) {
  struct buffer part, sealed, unsealed = snapshot_unsealed(&i->half, &sealed);
  struct scale scale = {0};
  size_t n_half = learner_half_measure(i->learner, unsealed.bytes, unsealed.n_bytes);
  enum err e = snapshot_split(i->site_job->job.contract, &unsealed, n_half, &part, &scale);
  if (e == ERR_OK)
    e = snapshot_scale_text(&scale, &i->scale);
  if (e == ERR_OK)
    e = learner_half_read(i->learner, part.bytes, part.n_bytes);
  scale_done(&scale);
  return e;
}

/* Scaling that is the site's to measure, where nothing is stored yet that has it. */
static enum err measure_scale(struct import *i) {
  const struct scale none = {0};
  struct splits data = {0};
  struct dataset *unused = NULL;
  struct data_place place = {0};
  enum scale_rule rule = i->site_job->job.contract->scale.rule;
  if (!scale_is_measured(rule) || i->half.n_bytes > 0)
    return ERR_OK;
  if (rule != SCALE_LOCAL) {
    snprintf(
        i->why, sizeof i->why,
        "the job's scaling is pooled and no site has its numbers yet; import after the first round, or write mean and "
        "sd into the job file");
    return ERR_CONTRACT;
  }
  struct data_memory memory = site_job_memory(i->site_job, i->schema, i->config->n_peers, i->config->state_dir);
  enum err e =
      because_of_file(i, site_job_open_data(i->site_job, &none, false, NULL, &memory, &data, &unused, &place), &place);
  if (e == ERR_OK)
    e = because(i, snapshot_scale_text(&data.train->scale, &i->scale), "the scaling");
  splits_close(&data);
  return e;
}

/* What the learner is now, and what of it has to go on: the public copy and the scaling. */
static enum err read_past(struct import *i, struct store *s) {
  const struct job_config *job = &i->site_job->job;
  char reason[MAX_REASON_BYTES];
  size_t n = schema_parameters(i->schema), n_half = learner_half_most(i->learner),
         n_model = learner_model_most(i->learner);
  enum err e = store_resume(s, &i->job, &i->from, reason);
  if (e == ERR_OK)
    e = load(s, &i->from.half, snapshot_bound(job, n, n_half), &i->half);
  if (e == ERR_OK)
    e = load(s, &i->from.model, snapshot_bound(job, n, n_model), &i->model);
  if (e == ERR_OK &&
      load(s, &i->from.shadow, snapshot_bound(job, n, n_half) + SHADOW_TRAILER_BYTES, &i->shadow) != ERR_OK)
    i->shadow = (struct buffer){0}; /* it is then trained anew */
  if (e == ERR_OK && i->half.n_bytes > 0)
    e = read_half(i);
  if (e == ERR_OK && i->model.n_bytes > 0)
    e = learner_model_read(i->learner, i->model.bytes,
                           learner_model_measure(schema_parameters(i->schema), i->model.bytes, i->model.n_bytes));
  if (e == ERR_OK)
    memcpy(i->x, learner_values(i->learner), schema_parameters(i->schema) * sizeof *i->x);
  return because(i, e, "the stored model");
}

static enum err read_file(struct import *i) {
  struct data_place place = {0};
  enum err e = because_of_file(i, match_read(&i->match, i->schema, i->file, i->x, &place), &place);
  if (e != ERR_OK)
    return e;
  i->changes = i->from.at == RESUME_FRESH ||
               memcmp(i->x, learner_values(i->learner), schema_parameters(i->schema) * sizeof *i->x) != 0;
  i->label = (struct round_label){i->from.committed.round, i->from.committed.sub + i->changes};
  return because(i, learner_go_on_from(i->learner, i->x, i->from.sequence == 0), "the model");
}

/* The learner's bytes and the text of its scaling. */
static enum err snapshot(const struct import *i, size_t n, void (*write)(const struct learner *l, uint8_t *out),
                         struct buffer *out) {
  *out = (struct buffer){malloc(n + i->scale.n_bytes), n + i->scale.n_bytes};
  if (out->bytes == NULL)
    return ERR_NO_MEMORY;
  write(i->learner, out->bytes);
  if (i->scale.n_bytes > 0)
    memcpy(out->bytes + n, i->scale.bytes, i->scale.n_bytes);
  return ERR_OK;
}

static enum err commit(struct import *i, struct store *s) {
  struct buffer model = {0}, half = {0};
  char text[STORE_EVENT_TEXT_BYTES], label[ROUND_LABEL_BYTES];
  enum err e = snapshot(i, learner_model_bytes(i->learner), learner_model_write, &model);
  if (e == ERR_OK)
    e = snapshot(i, learner_half_bytes(i->learner), learner_half_write, &half);
  if (e == ERR_OK)
    e = snapshot_carry(&i->half, &half);
  if (e == ERR_OK)
    e = store_commit(s, &(struct store_commitment){.job = i->job,
                                                   .label = i->label,
                                                   .outcome = ROUND_ADOPTED,
                                                   .model = model.bytes,
                                                   .n_model = model.n_bytes,
                                                   .own_half = half.bytes,
                                                   .n_own_half = half.n_bytes,
                                                   .shadow = i->shadow.bytes,
                                                   .n_shadow = i->shadow.n_bytes,
                                                   .shadow_headline = __builtin_nan(""),
                                                   .shadow_seconds = __builtin_nan(""),
                                                   .seconds = __builtin_nan("")});
  round_label_write(i->label, label);
  snprintf(text, sizeof text, "the model of %.300s goes on as round %s of %s", i->call->arguments[0], label,
           i->site_job->job.name);
  if (e == ERR_OK)
    e = store_event(s, time(NULL), "model-imported", "", text);
  free(model.bytes);
  free(half.bytes);
  return because(i, e, i->config->state_dir);
}

/* ---- the agent ---------------------------------------------------------------------------------------------------- */

/* What the agent is to take, in a file of its state directory. */
static enum err write_for_agent(struct import *i, char path[MAX_PATH_BYTES]) {
  struct buffer model = {0};
  enum err e = path_join(i->config->state_dir, IMPORT_FILE "XXXXXX", path);
  int fd = e == ERR_OK ? mkostemp(path, O_CLOEXEC) : -1;
  if (e == ERR_OK && fd < 0)
    e = err_from_errno(errno);
  if (e == ERR_OK)
    e = snapshot(i, learner_model_bytes(i->learner), learner_model_write, &model);
  if (e == ERR_OK)
    e = fd_write_all(fd, model.bytes, model.n_bytes);
  if (fd >= 0)
    close(fd);
  free(model.bytes);
  return because(i, e, i->config->state_dir);
}

/* It commits the model between two of its rounds, and says as which. */
static enum err ask_agent(struct import *i) {
  const char *state_dir = i->config->state_dir, *label;
  char path[MAX_PATH_BYTES] = "", reason[MAX_REASON_BYTES];
  json_t *begun = NULL, *done = NULL;
  enum err e = write_for_agent(i, path);
  if (e == ERR_OK)
    e = agent_ask(i->call, state_dir,
                  call_request(i->call, json_pack("{s:s, s:s}", "ask", "import", "file", strrchr(path, '/') + 1)),
                  &begun, i->why);
  if (e == ERR_OK)
    e = agent_wait_between_rounds(i->call, state_dir, "import", i->timeout_s, begun, &done, i->why);
  if (e == ERR_OK && (label = json_string_value(json_object_get(done, "label"))) != NULL)
    e = because(i, model_label_read(label, &i->label, reason), "the answer");
  json_decref(done);
  if (path[0] != '\0' && e != ERR_TIMED_OUT)
    unlink(path); /* where the agent has not */
  return e;
}

/* Nobody has run here yet: the database will be this site's key's. */
static enum err own_key(struct import *i, uint8_t out_identity[32]) {
  struct identity *identity = NULL;
  enum err e = key_open(i->config, &identity, i->why);
  if (e == ERR_OK)
    memcpy(out_identity, identity_public(identity)->bytes, 32);
  identity_free(identity);
  return e;
}

static enum err open_store(struct import *i, struct store **out_store) {
  char reason[MAX_REASON_BYTES];
  uint8_t identity[32];
  enum err e = history_identity(i->config, identity, reason);
  if (e == ERR_NOT_CONNECTED)
    e = own_key(i, identity);
  if (e == ERR_OK)
    e = history_open_to_change(i->config, identity, out_store, reason);
  if (e != ERR_OK && e != ERR_LOCKED && i->why[0] == '\0')
    snprintf(i->why, sizeof i->why, "%s", reason);
  return e;
}

/* With --check what is there is only looked at. */
static enum err open_to_look(struct import *i, struct store **out_store) {
  char reason[MAX_REASON_BYTES];
  enum err e = history_open(i->config, out_store, reason);
  if (e != ERR_OK && e != ERR_NOT_CONNECTED)
    snprintf(i->why, sizeof i->why, "%s", reason);
  return e == ERR_NOT_CONNECTED ? ERR_OK : e;
}

/* What was given and taken stands in the agent's snapshots: it writes them. */
static enum err judge_sums(struct import *i) {
  if (!job_is_push_sum(&i->site_job->job) || i->from.at == RESUME_FRESH)
    return ERR_OK;
  snprintf(i->why, sizeof i->why,
           "the account of average: push-sum is the running agent's; start it with `starling run` and import again");
  return ERR_NOT_CONNECTED;
}

/* The store is this verb's to change, or a running agent's. */
static enum err go_on(struct import *i) {
  struct store *s = NULL;
  enum err e = i->call->checks ? open_to_look(i, &s) : open_store(i, &s);
  bool is_running = e == ERR_LOCKED;
  if (is_running)
    e = open_to_look(i, &s);
  if (e == ERR_OK && s != NULL)
    e = read_past(i, s);
  if (e == ERR_OK)
    e = measure_scale(i);
  if (e == ERR_OK)
    e = read_file(i);
  if (e == ERR_OK && i->changes && !is_running)
    e = judge_sums(i);
  if (e == ERR_OK && i->changes && !i->call->checks)
    e = is_running ? ask_agent(i) : commit(i, s);
  store_close(s);
  return e;
}

/* ---- the answer --------------------------------------------------------------------------------------------------- */

static json_t *row_json(const struct import *i, const struct match_row *row) {
  const struct tensor *own = row->own == SIZE_MAX ? NULL : schema_tensor(i->schema, row->own);
  const struct stored_tensor *theirs = row->theirs == SIZE_MAX ? NULL : tensor_file_tensor(i->file, row->theirs);
  char own_shape[ARRAY_SHAPE_TEXT_BYTES] = "", their_shape[ARRAY_SHAPE_TEXT_BYTES] = "";
  struct array a = {0};
  if (own) {
    a.rank = own->rank;
    for (uint32_t k = 0; k < own->rank; k++)
      a.size[k] = own->shape[k];
    array_shape_text(&a, own_shape);
  }
  if (theirs)
    array_shape_text(&theirs->array, their_shape);
  return json_pack("{s:s, s:s?, s:s?, s:s?, s:s?, s:s?}", "state", match_state_name(row->state), "tensor",
                   own ? own->name : NULL, "shape", own ? own_shape : NULL, "theirs", theirs ? theirs->name : NULL,
                   "their_shape", theirs ? their_shape : NULL, "type",
                   theirs ? array_type_name(theirs->array.type) : NULL);
}

static json_t *import_json(const struct import *i, const char *path) {
  const struct match *m = &i->match;
  size_t n_missing = m->count[MATCH_MISSING] + m->count[MATCH_SHAPE];
  char label[ROUND_LABEL_BYTES];
  json_t *rows = json_array();
  for (size_t k = 0; k < m->n; k++)
    json_array_append_new(rows, row_json(i, &m->rows[k]));
  round_label_write(i->label, label);
  return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "job", i->site_job->job.name, "file", path,
                   "layout", layout_names[m->layout], "label", label, "matched", (json_int_t)m->count[MATCH_TAKEN],
                   "missing", (json_int_t)n_missing, "extra", (json_int_t)m->count[MATCH_EXTRA], "skipped",
                   (json_int_t)m->count[MATCH_SKIPPED], "tensors", rows);
}

static void view_rows(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"STATE", "state", FORM_TEXT},       {"TENSOR", "tensor", FORM_TEXT},
                                          {"SHAPE", "shape", FORM_TEXT},       {"IN THE FILE", "theirs", FORM_TEXT},
                                          {"SHAPE", "their_shape", FORM_TEXT}, {"TYPE", "type", FORM_TEXT}};
  table_print(columns, sizeof columns / sizeof *columns, json_object_get(data, "tensors"), call->format == FORMAT_TSV,
              out);
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  bool changed = json_is_true(json_object_get(data, "changed"));
  view_rows(call, data, out);
  if (call->format == FORMAT_TSV)
    return;
  fprintf(out, "\nlayout %s: %lld matched, %lld missing, %lld extra, %lld skipped (counters, no part of a model)\n",
          json_string_value(json_object_get(data, "layout")),
          (long long)json_integer_value(json_object_get(data, "matched")),
          (long long)json_integer_value(json_object_get(data, "missing")),
          (long long)json_integer_value(json_object_get(data, "extra")),
          (long long)json_integer_value(json_object_get(data, "skipped")));
  if (changed)
    fprintf(out, "the job %s on from it as round %s\n", call->checks ? "would go" : "goes",
            json_string_value(json_object_get(data, "label")));
  else
    fputs("it is the model already; nothing changed\n", out);
}

static int answer_import(struct import *i, const char *path, enum err e) {
  const char *recipe = tensor_file_recipe(path);
  if (e == ERR_OK)
    return answer_change(i->call, import_json(i, path), i->changes, view);
  if (e == ERR_SCHEMA && i->match.n > 0 && i->call->format == FORMAT_TABLE) {
    json_t *data = import_json(i, path);
    view_rows(i->call, data, stdout);
    json_decref(data);
  }
  if (e == ERR_SCHEMA)
    return answer_error(i->call, EXIT_USAGE, err_name(e), "try --layout, give a --map, or take what fits by --partial",
                        "%s", i->why);
  return answer_error(i->call, e == ERR_STOPPED ? EXIT_FAILED : exit_code_of(e), err_name(e),
                      e == ERR_UNSUPPORTED ? recipe : NULL, "%s", i->why);
}

int verb_models_import(struct call *call) {
  const char *path = call->arguments[0];
  char why[MAX_REASON_BYTES];
  struct config *c;
  struct import i = {.call = call};
  size_t layout = LAYOUT_TORCH;
  if (call->flags[FLAG_LAYOUT] && scalar_word(call->flags[FLAG_LAYOUT], layout_names, &layout, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--layout: %s", why);
  i.timeout_s = 600;
  if (call->flags[FLAG_TIMEOUT] && scalar_number(call->flags[FLAG_TIMEOUT], 0, 1e9, &i.timeout_s, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--timeout: %s", why);
  if (!call_load_job(call, &c, &i.site_job))
    return EXIT_USAGE;
  i.config = c;
  i.job = config_job_id(c, &i.site_job->job);
  enum err e = open_learner(&i);
  if (e == ERR_OK)
    e = match_file(&i, path, call->flags[FLAG_LAYOUT] ? &layout : NULL);
  if (e == ERR_OK) {
    warn_of_contract(&i);
    e = judge_match(&i, path);
  }
  if (e == ERR_OK)
    e = go_on(&i);
  int code = answer_import(&i, path, e);
  import_done(&i);
  config_free(c);
  return code;
}
