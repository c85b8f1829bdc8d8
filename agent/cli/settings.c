/* starling config check|show|keys. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/history.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/cli/written.h"
#include "agent/core/work.h"
#include "agent/key.h"
#include "agent/round_json.h"
#include "agent/site_job.h"
#include "agent/tuning.h"
#include "crypto/key_text.h"
#include "models/learner.h"
#include "models/schema.h"

static const char *const scope_names[] = {[MUST_AGREE] = "must agree", [ANNOUNCED] = "announced", [LOCAL] = "local"};

/* ---- show --------------------------------------------------------------------------------------------------------- */

static void view_show(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"KEY", "path", FORM_TEXT},
                                          {"SCOPE", "scope", FORM_TEXT},
                                          {"ORIGIN", "origin", FORM_TEXT},
                                          {"VALUE", "value", FORM_TEXT}};
  table_print(columns, sizeof columns / sizeof *columns, json_object_get(data, "values"), call->format == FORMAT_TSV,
              out);
}

int verb_config_show(struct call *call) {
  struct config *c;
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  json_t *values = json_array();
  for (size_t i = 0; i < c->n_values; i++) {
    const struct config_value *v = &c->values[i];
    json_array_append_new(values, json_pack("{s:s, s:s, s:s, s:s}", "path", v->path, "value", v->text, "origin",
                                            v->origin, "scope", scope_names[v->option->scope]));
  }
  config_free(c);
  return answer(call, json_pack("{s:o}", "values", values), view_show);
}

/* ---- keys --------------------------------------------------------------------------------------------------------- */

static const char *text_at(const json_t *row, const char *key) {
  return json_string_value(json_object_get(row, key));
}

/* As a manual has it: a heading line, then what may stand there, then the sentence. */
static void print_key(const json_t *row, FILE *out) {
  enum { INDENT = 4, LINE = 100 };
  char values[2 * MAX_REASON_BYTES];
  const char *range = text_at(row, "range"), *fallback = text_at(row, "default");
  bool is_required = strcmp(fallback, "required") == 0;
  fprintf(out, "%-30s %s file, %s\n%*s", text_at(row, "path"), text_at(row, "file"), text_at(row, "scope"), INDENT, "");
  snprintf(values, sizeof values, "%s%s%s; %s%s", text_at(row, "type"), range[0] ? ": " : "", range,
           is_required ? "" : "default ", fallback[0] ? fallback : "none");
  text_flow(values, INDENT, LINE, out);
  fprintf(out, "%*s", INDENT, "");
  text_flow(text_at(row, "sentence"), INDENT, LINE, out);
}

static void view_keys(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"KEY", "path", FORM_TEXT},        {"FILE", "file", FORM_TEXT},
                                          {"TYPE", "type", FORM_TEXT},       {"DEFAULT", "default", FORM_TEXT},
                                          {"RANGE", "range", FORM_TEXT},     {"SCOPE", "scope", FORM_TEXT},
                                          {"MEANING", "sentence", FORM_TEXT}};
  const json_t *row, *rows = json_object_get(data, "keys");
  size_t i;
  if (call->format == FORMAT_TSV) {
    table_print(columns, sizeof columns / sizeof *columns, rows, true, out);
    return;
  }
  json_array_foreach(rows, i, row) {
    print_key(row, out);
  }
}

/* "1 to 1000", "error|warning|info|debug" or "". */
static void write_range(const struct option *o, char out_range[MAX_REASON_BYTES]) {
  size_t n = 0;
  out_range[0] = '\0';
  for (size_t i = 0; o->words && o->words[i]; i++)
    n += (size_t)snprintf(out_range + n, MAX_REASON_BYTES - n, "%s%s", i ? "|" : "", o->words[i]);
  if (o->max > o->min)
    snprintf(out_range, MAX_REASON_BYTES, "%.16g to %.16g", o->min, o->max);
}

static json_t *key_row(const struct option *o) {
  static const char *const files[N_OPTION_GROUPS] = {
      [GROUP_SITE] = "site", [GROUP_PEER] = "site, conf.d", [GROUP_SITE_JOB] = "site", [GROUP_JOB] = "job"};
  char name[MAX_OPTION_NAME_BYTES], range[MAX_REASON_BYTES];
  option_name(o, name);
  write_range(o, range);
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "path", name, "file", files[option_group(o)], "type",
                   o->type->name, "default", o->fallback ? o->fallback : "required", "range", range, "scope",
                   scope_names[o->scope], "sentence", o->sentence);
}

int verb_config_keys(struct call *call) {
  const char *pattern = call->n_arguments ? call->arguments[0] : "";
  json_t *keys = json_array();
  for (size_t i = 0; i < n_options; i++) {
    char name[MAX_OPTION_NAME_BYTES];
    option_name(&option_table[i], name);
    if (strstr(name, pattern) || strstr(option_table[i].sentence, pattern))
      json_array_append_new(keys, key_row(&option_table[i]));
  }
  if (json_array_size(keys) == 0) {
    json_decref(keys);
    return answer_error(call, EXIT_FAILED, err_name(ERR_NOT_FOUND), "`starling config keys` prints them all",
                        "no key matches %s", pattern);
  }
  return answer(call, json_pack("{s:o}", "keys", keys), view_keys);
}

/* ---- check -------------------------------------------------------------------------------------------------------- */

/* Where a value of a job stands, for messages. */
static const struct config_value *value_of(const struct config *c, const struct site_job_config *job,
                                           const char *path) {
  for (size_t i = 0; i < c->n_values; i++)
    if (c->values[i].job == job && strcmp(c->values[i].option->path, path) == 0)
      return &c->values[i];
  return NULL;
}

/* Data files exist and may be read; what is in them is for the trainer to judge. */
static enum err check_data_files(const struct config *c, const struct site_job_config *s,
                                 char why[MAX_CONFIG_WHY_BYTES]) {
  const struct {
    const char *key, *path;
  } files[] = {{"data.train", s->train_path},
               {"data.train_labels", s->train_labels},
               {"data.test", s->test_path},
               {"data.test_labels", s->test_labels},
               {"data.global_test", s->global_test_path},
               {"data.global_test_labels", s->global_test_labels}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (files[i].path && access(files[i].path, R_OK) != 0) {
      enum err e = err_from_errno(errno);
      const struct config_value *v = value_of(c, s, files[i].key);
      snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s: %s: %s; correct the path", v ? v->origin : c->path,
               v ? v->path : files[i].key, files[i].path, err_sentence(e));
      return e;
    }
  return ERR_OK;
}

/* ---- how a start will compute ---- */

/* Of the ways that can be chosen, about the one that takes most: as many lanes as any, and each kernel that takes more. */
static enum err largest_selection(const struct plan *p, struct learner_config *learner, struct selection *out) {
  size_t most = 0, n_bytes = 0;
  enum err e;
  plan_defaults(p, out);
  for (size_t i = 0; i < p->n_splits; i++)
    out->lanes = p->splits[i].lanes > out->lanes ? p->splits[i].lanes : out->lanes;
  learner->selection = out;
  if ((e = learner_memory(learner, &most)) != ERR_OK)
    return e;
  for (size_t o = 0; o < p->n_operations; o++)
    for (uint32_t v = 0; v < p->operations[o].n_variants; v++) {
      struct selection other = *out;
      learner->selection = &other;
      if (selection_put(&other, p->keys[o], plan_kernel(p, o, v)) == ERR_OK &&
          learner_memory(learner, &n_bytes) == ERR_OK && n_bytes > most) {
        most = n_bytes;
        *out = other;
      }
    }
  learner->selection = out;
  return ERR_OK;
}

/* As it was measured here, else as it may be; a learner without a selection is what computes where nothing is measured. */
static enum err select_for_forecast(const struct config *c, const struct site_job_config *s,
                                    struct learner_config *learner, struct selection *out) {
  const struct cpu cpu = cpu_detect();
  const struct host host = host_look("");
  uint32_t threads = host_threads(&host) / (uint32_t)c->n_jobs;
  char path[MAX_PATH_BYTES];
  struct plan *p = calloc(1, sizeof *p);
  struct tuning *t = calloc(1, sizeof *t);
  enum err e = p != NULL && t != NULL ? ERR_OK : ERR_NO_MEMORY;
  if (e != ERR_OK || c->kernels != KERNELS_MEASURED ||
      plan_make(schema_arch(learner->schema), s->job.train.batch, &cpu, threads > 1 ? threads : 1, p) != ERR_OK)
    goto out;
  if (tuning_path(c->state_dir, s->job.name, s->job.version, path) != ERR_OK || tuning_file_read(path, p, t) != ERR_OK)
    *t = (struct tuning){0};
  const struct tuned_host *known = tuning_find(t, &host);
  if (known != NULL)
    *out = known->selection;
  learner->selection = out;
  if (known == NULL)
    e = largest_selection(p, learner, out);
  tuning_done(t);
out:
  free(p);
  free(t);
  return e;
}

/* What the learner of a job will take, and the one of the model trained alone: 0 without one; by auto it may end soon. */
static enum err forecast_learners(const struct config *c, const struct site_job_config *s, const struct schema *schema,
                                  size_t *out_bytes, size_t *out_shadow) {
  struct learner_config learner = site_job_learner(s, schema);
  struct selection selection = {0};
  *out_shadow = 0;
  enum err e = select_for_forecast(c, s, &learner, &selection);
  if (e == ERR_OK && shadow_is_wanted(c, s))
    e = learner_memory(&learner, out_shadow);
  learner.n_copies = job_topology_follows(&s->job.topology, c->n_peers + 1);
  return e == ERR_OK ? learner_memory(&learner, out_bytes) : e;
}

/* Seconds a round that it took last, or that the site's own training took, which is as long; null before the first. */
static json_t *shadow_seconds(const struct config *c, const struct site_job_config *s) {
  char why[MAX_REASON_BYTES];
  struct digest job = config_job_id(c, &s->job);
  struct store_round last;
  struct store *store;
  size_t n = 0;
  if (history_open(c, &store, why) != ERR_OK)
    return json_null();
  enum err e = store_rounds(store, &job, 0, &last, 1, &n);
  store_close(store);
  if (e != ERR_OK || n == 0)
    return json_null();
  return json_number(digest_is_zero(&last.shadow) ? last.train_seconds : last.shadow_seconds);
}

/* What the jobs will cost: learners, and a snapshot and a payload in flight in memory; the updates of one
 * round. */
static json_t *forecast_job(const struct config *c, const struct site_job_config *s) {
  const struct job_config *job = &s->job;
  struct schema *schema;
  char reason[MAX_REASON_BYTES];
  if (schema_from_arch(job->arch, job->contract, &schema, reason))
    return NULL; /* config_load has made the same one */
  size_t n_parameters = schema_parameters(schema), n_shared = schema_shared(schema), learner = 0, shadow = 0;
  enum err e = forecast_learners(c, s, schema, &learner, &shadow);
  schema_free(schema);
  if (e)
    return NULL; /* only for lack of memory: config_load has judged it */
  size_t model = codec_full_bytes(n_parameters);
  size_t half = site_job_half_arrays(s, c->n_peers), update = site_job_update_bound(s, n_shared);
  size_t memory = learner + shadow + half * model + update;
  size_t disk = (half + 2 * ((size_t)c->keep_last + c->keep_best)) * model +
                (shadow > 0 ? half * ((size_t)c->keep_last + c->keep_best) * model : 0);
  size_t round = job_topology_follows(&job->topology, c->n_peers + 1) * update;
  uint64_t written = written_a_round(c, s);
  return json_pack("{s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:o}", "job", job->name, "version",
                   (json_int_t)job->version, "model", job->arch, "parameters", (json_int_t)n_parameters, "memory_bytes",
                   (json_int_t)memory, "samples_max_bytes", (json_int_t)s->memory_max_mib << 20, "disk_bytes",
                   (json_int_t)disk, "round_bytes", (json_int_t)round, "shadow_bytes", (json_int_t)shadow,
                   "shadow_seconds", shadow > 0 ? shadow_seconds(c, s) : json_null(), "written_bytes",
                   (json_int_t)written, "written_day_bytes", written_a_day(written, seconds_a_round(c, s)));
}

/* The first job's row with what is of the site; where there are several, all of them in `jobs`, too. */
static json_t *forecast(const struct config *c, const struct identity_key *own) {
  char key[KEY_TEXT_BYTES];
  key_text_write(own, key);
  json_t *rows = json_array();
  for (size_t i = 0; i < c->n_jobs; i++) {
    json_t *row = forecast_job(c, &c->jobs[i]);
    if (row)
      json_object_update_new(row, json_pack("{s:s, s:s, s:I, s:I}", "site_file", c->path, "key", key, "peers",
                                            (json_int_t)c->n_peers, "follow_max", (json_int_t)c->follow_max));
    json_array_append_new(rows, row);
  }
  json_t *o = json_copy(json_array_get(rows, 0));
  if (o)
    json_object_set(o, "jobs", rows);
  json_decref(rows);
  return o;
}

static void view_check(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"SITE FILE", "site_file", FORM_TEXT | COLUMN_IN_TSV},
                                          {"JOB", "job", FORM_TEXT},
                                          {"PARAMETERS", "parameters", FORM_COUNT},
                                          {"PEERS", "peers", FORM_COUNT},
                                          {"FOLLOWED AT MOST", "follow_max", FORM_COUNT},
                                          {"IN MEMORY", "memory_bytes", FORM_BYTES},
                                          {"SAMPLES AT MOST", "samples_max_bytes", FORM_BYTES},
                                          {"ON DISK", "disk_bytes", FORM_BYTES},
                                          {"SENT A ROUND", "round_bytes", FORM_BYTES},
                                          {"WRITTEN A ROUND", "written_bytes", FORM_BYTES},
                                          {"WRITTEN A DAY", "written_day_bytes", FORM_BYTES}};
  table_print(columns, sizeof columns / sizeof *columns, json_object_get(data, "jobs"), call->format == FORMAT_TSV,
              out);
  if (call->format == FORMAT_TSV || json_integer_value(json_object_get(data, "shadow_bytes")) == 0)
    return;
  fputs("of these ", out);
  value_print(json_object_get(data, "shadow_bytes"), FORM_BYTES, out);
  fputs(" in memory are for a model trained alone, for `compare`; its training takes as long as the site's own", out);
  if (json_is_number(json_object_get(data, "shadow_seconds"))) {
    fputs(", last ", out);
    value_print(json_object_get(data, "shadow_seconds"), FORM_DURATION, out);
    fputs(" a round", out);
  }
  fputc('\n', out);
}

/* Where the cap leaves no room for what the configuration wants to keep. */
static void warn_of_cap(struct call *call, const struct config *c, const json_t *data) {
  const uint64_t database_bytes = 5u << 20, rounds = 3, mib = 1u << 20;
  uint64_t kept = (uint64_t)json_integer_value(json_object_get(data, "disk_bytes"));
  uint64_t round = (uint64_t)json_integer_value(json_object_get(data, "written_bytes"));
  uint64_t needed = kept + rounds * round + database_bytes;
  if (c->store_max_mib > 0 && needed > c->store_max_mib * mib)
    answer_warn(call,
                "store.max_mib is %" PRIu32 ", and %" PRIu64
                " are needed to keep the models that the configuration names: older ones will be let go",
                c->store_max_mib, needed / mib + 1);
}

int verb_config_check(struct call *call) {
  char why[MAX_CONFIG_WHY_BYTES];
  struct config *c;
  struct identity *identity = NULL;
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  enum err e = ERR_OK;
  for (size_t i = 0; i < c->n_jobs && !e; i++)
    e = check_data_files(c, &c->jobs[i], why);
  if (!e)
    e = key_open(c, &identity, why);
  json_t *data = e ? NULL : forecast(c, identity_public(identity));
  warn_of_cap(call, c, data);
  int code = e ? answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", why) : answer(call, data, view_check);
  identity_free(identity);
  config_free(c);
  return code;
}
