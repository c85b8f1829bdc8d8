/* starling data check: this site's data held against the contract, before a key, a peer or a model exists. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/round_json.h"
#include "crypto/digest.h"
#include "models/data/check.h"

enum { FLAG_JOB, FLAG_LABELS };

/* The answer as it grows, over all files of all jobs. */
struct report {
  struct call *call; /* takes the warnings */
  json_t *files, *findings;
  size_t n_errors, n_warnings;
  char why[MAX_CONFIG_WHY_BYTES];
};

/* One file of a job. */
struct data_role {
  const char *name; /* "train", "test", "global_test" */
  struct data_file file;
};

static void add_findings(struct report *r, const char *path, const struct findings *f) {
  for (size_t i = 0; i < f->n; i++) {
    const struct finding *it = &f->items[i];
    json_array_append_new(r->findings, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "file", path, "severity",
                                                 it->is_error ? "error" : "warning", "code", finding_name(it->code),
                                                 "about", json_text(it->about), "sentence", json_text(it->sentence),
                                                 "line", it->line ? json_integer((json_int_t)it->line) : json_null()));
  }
  r->n_errors += f->n_errors;
  r->n_warnings += f->n + f->n_left_out - f->n_errors;
}

static void add_file(struct report *r, const struct job_config *job, const struct data_role *role,
                     const struct profile *p, const struct findings *f) {
  const struct contract *c = job->contract;
  json_array_append_new(
      r->files, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "job", job->name, "role", role->name,
                          "file", role->file.path, "samples", (json_int_t)p->n_samples, "features",
                          (json_int_t)c->n_features, "features_ok", (json_int_t)check_features_ok(f, c), "classes",
                          (json_int_t)c->n_classes, "classes_present", (json_int_t)check_classes_present(p, c),
                          "errors", (json_int_t)f->n_errors, "findings_left_out", (json_int_t)f->n_left_out));
}

/* Reads and judges one file; the training file's profile is kept for the others to be compared with. */
static enum err check_file(struct report *r, const struct job_config *job, const struct data_role *role,
                           struct profile **training) {
  const struct profile_options options = {
      .contract = job->contract, .fn = &digest_blake2b, .against = *training ? (*training)->samples : NULL};
  struct profile *p = NULL;
  struct findings f = {0};
  struct data_place place;
  enum err e = profile_read(&role->file, &options, &p, &place);
  if (e) {
    data_place_text(&place, r->why, sizeof r->why);
    return e;
  }
  if (options.against && sample_set_is_full(options.against))
    answer_warn(r->call, "%s: duplicates of the first %d training samples only were looked for", role->file.path,
                MAX_PROFILE_SAMPLES);
  e = *training ? check_test(p, job->contract, &f) : check_training(p, job->contract, &f);
  if (e) {
    snprintf(r->why, sizeof r->why, "%s: %s", role->file.path, err_sentence(e));
  } else {
    add_findings(r, role->file.path, &f);
    add_file(r, job, role, p, &f);
  }
  findings_done(&f);
  if (*training)
    profile_free(p);
  else
    *training = p;
  return e;
}

static enum err check_site_job(struct report *r, const struct site_job_config *s) {
  const struct data_role roles[] = {{"train", {s->train_path, s->train_labels}},
                                    {"test", {s->test_path, s->test_labels}},
                                    {"global_test", {s->global_test_path, s->global_test_labels}}};
  struct profile *training = NULL;
  enum err e = ERR_OK;
  for (size_t i = 0; i < sizeof roles / sizeof *roles && !e; i++)
    if (roles[i].file.path)
      e = check_file(r, &s->job, &roles[i], &training);
  profile_free(training);
  return e;
}

static void view_summary(const json_t *file, FILE *out) {
  json_int_t n_features = json_integer_value(json_object_get(file, "features"));
  text_print(json_string_value(json_object_get(file, "file")), out);
  fprintf(out, " (%s): %" JSON_INTEGER_FORMAT " samples", json_string_value(json_object_get(file, "role")),
          json_integer_value(json_object_get(file, "samples")));
  if (n_features)
    fprintf(out, " · %" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT " features ok",
            json_integer_value(json_object_get(file, "features_ok")), n_features);
  if (json_integer_value(json_object_get(file, "classes")))
    fprintf(out, " · classes %" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT,
            json_integer_value(json_object_get(file, "classes_present")),
            json_integer_value(json_object_get(file, "classes")));
  fputc('\n', out);
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {
      {"FINDING", "severity", FORM_TEXT}, {"CODE", "code", FORM_TEXT},
      {"FILE", "file", FORM_TEXT},        {"LINE", "line", FORM_COUNT},
      {"ABOUT", "about", FORM_TEXT},      {"WHAT, AND WHAT TO DO", "sentence", FORM_TEXT}};
  const json_t *findings = json_object_get(data, "findings"), *files = json_object_get(data, "files");
  for (size_t i = 0; call->format == FORMAT_TABLE && i < json_array_size(files); i++)
    view_summary(json_array_get(files, i), out);
  if (json_array_size(findings) > 0)
    table_print(columns, sizeof columns / sizeof *columns, findings, call->format == FORMAT_TSV, out);
  else if (call->format == FORMAT_TABLE)
    fputs("nothing to complain about\n", out);
}

static int answer_report(struct call *call, struct report *r, enum err e) {
  if (e) {
    json_decref(r->files);
    json_decref(r->findings);
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", r->why);
  }
  int code = answer(call,
                    json_pack("{s:o, s:o, s:I, s:I}", "files", r->files, "findings", r->findings, "errors",
                              (json_int_t)r->n_errors, "warnings", (json_int_t)r->n_warnings),
                    view);
  return code ? code : r->n_errors ? EXIT_FAILED : EXIT_DONE;
}

/* FILE --job JOB: nothing else need exist. */
static bool load_job(struct call *call, struct config **out_config) {
  char why[MAX_CONFIG_WHY_BYTES];
  if (!call->flags[FLAG_JOB]) {
    answer_error(call, EXIT_USAGE, "usage", NULL,
                 "a file is held against a job; write starling data check FILE --job JOB.yaml");
    return false;
  }
  enum err e = config_load_job(call->flags[FLAG_JOB], out_config, why);
  if (e)
    answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", why);
  return !e;
}

int verb_data_check(struct call *call) {
  const char *path = call->n_arguments ? call->arguments[0] : NULL;
  struct config *c;
  if (!path && (call->flags[FLAG_JOB] || call->flags[FLAG_LABELS]))
    return answer_error(call, EXIT_USAGE, "usage", NULL,
                        "--job and --labels belong to a file; write starling data check FILE");
  if (!(path ? load_job(call, &c) : call_load_config(call, &c)))
    return EXIT_USAGE;
  struct report r = {.call = call, .files = json_array(), .findings = json_array()};
  enum err e = ERR_OK;
  struct profile *training = NULL;
  if (path)
    e = check_file(&r, &c->jobs[0].job, &(struct data_role){"train", {path, call->flags[FLAG_LABELS]}}, &training);
  for (size_t i = 0; i < c->n_jobs && !path && !e; i++)
    e = check_site_job(&r, &c->jobs[i]);
  int code = answer_report(call, &r, e);
  profile_free(training);
  config_free(c);
  return code;
}
