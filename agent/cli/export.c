/* starling export: a kept model as other programs read it, with what makes it usable, and a model card beside it. */
#include <fcntl.h>
#include <float.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/trial.h"
#include "agent/cli/verbs.h"
#include "agent/file.h"
#include "agent/round_json.h"
#include "agent/scalar.h"
#include "crypto/digest.h"
#include "models/exchange/foreign.h"
#include "models/exchange/onnx.h"

enum { FLAG_FORMAT, FLAG_OUT, FLAG_MODEL, FLAG_LAYOUT, N_FACTS = 32 };

struct exporter;

struct export {
  struct trial trial;
  const struct exporter *how;
  enum layout layout; /* of formats that have one */
  char path[MAX_PATH_BYTES], card[MAX_PATH_BYTES + 8];
  struct tensor_note facts[N_FACTS]; /* texts on the heap */
  size_t n_facts;
  bool has_failed; /* no memory for one of them */
};

/* A format that can be written. */
struct exporter {
  const char *word, *ending;
  enum err (*write)(const struct export *x);
  bool is_whole;   /* it computes by itself: no layout is chosen, and what goes in is raw */
  const char *use; /* for the card: how it is read */
};

/* ---- what makes a model usable ------------------------------------------------------------------------------------ */

/* Adds a fact; the text is moved. */
static void add_fact(struct export *x, const char *key, const char *text) {
  x->has_failed = x->has_failed || text == NULL;
  if (text != NULL && x->n_facts < N_FACTS)
    x->facts[x->n_facts++] = (struct tensor_note){key, text};
}

__attribute__((format(printf, 3, 4))) static void say_fact(struct export *x, const char *key, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0)
    text = NULL;
  va_end(arguments);
  add_fact(x, key, text);
}

static void add_json(struct export *x, const char *key, json_t *value) {
  enum { FLOAT_DIGITS = 9 }; /* tell every float from every other */
  add_fact(x, key, json_dumps(value, JSON_REAL_PRECISION(FLOAT_DIGITS)));
  json_decref(value);
}

static void add_digest(struct export *x, const char *key, const struct digest *d) {
  char hex[DIGEST_TEXT_BYTES];
  digest_hex(d, hex);
  say_fact(x, key, "%s", hex);
}

/* The shortest decimal that is the float. */
static json_t *float_json(float value) {
  char text[32];
  int digits = 1;
  do
    snprintf(text, sizeof text, "%.*g", digits, (double)value);
  while (strtof(text, NULL) != value && digits++ < FLT_DECIMAL_DIG);
  return json_real(strtod(text, NULL));
}

static json_t *feature_json(const struct contract *c, size_t i) {
  double lo, hi;
  const struct feature *f = &c->features[i];
  if (f->n_categories > 0)
    return json_pack("{s:s, s:o}", "name", f->name, "categories", json_names(f->categories, f->n_categories));
  contract_feature_range(c, i, &lo, &hi);
  float fill;
  json_t *missing = contract_fill(c, i, &fill) ? float_json(fill) : NULL;
  return json_pack("{s:s, s:s*, s:o*, s:o*, s:o*}", "name", f->name, "unit", f->unit[0] ? f->unit : NULL, "missing",
                   missing, "min", lo > -DBL_MAX ? json_real(lo) : NULL, "max", hi < DBL_MAX ? json_real(hi) : NULL);
}

static json_t *features_json(const struct contract *c) {
  json_t *features = json_array();
  for (size_t i = 0; i < c->n_features; i++)
    json_array_append_new(features, feature_json(c, i));
  return features;
}

static void add_meaning(struct export *x, const struct contract *c) {
  double lo, hi;
  char shape[SHAPE_TEXT_BYTES];
  scalar_shape_write((const uint32_t[]){c->height, c->width, c->channels}, shape);
  say_fact(x, "task", "%s", task_name(c->task));
  if (c->n_classes > 0)
    add_json(x, "classes", json_names(c->classes, c->n_classes));
  if (!contract_is_image(c)) {
    add_json(x, "features", features_json(c));
    return;
  }
  contract_range(c, &lo, &hi);
  say_fact(x, "input", "%s", shape);
  add_json(x, "range", json_pack("[o, o]", json_number(lo), json_number(hi)));
}

static void add_scale(struct export *x) {
  const struct scale *s = trial_scale(&x->trial);
  json_t *mean = json_array(), *sd = json_array();
  for (size_t i = 0; i < s->n; i++) {
    json_array_append_new(mean, json_real(s->mean[i]));
    json_array_append_new(sd, json_real(s->sd[i]));
  }
  if (s->n > 0)
    add_json(x, "scale", json_pack("{s:O, s:O}", "mean", mean, "sd", sd));
  json_decref(mean);
  json_decref(sd);
}

static void add_figures(struct export *x) {
  const struct store_metrics *m = &x->trial.round.metrics;
  const struct {
    bool has;
    const char *key;
    double headline, loss;
  } sets[] = {{m->has_local, "local test", m->local_headline, m->local_loss},
              {m->has_global, "global test", m->global_headline, m->global_loss},
              {m->has_validation, "validation", m->validation_headline, m->validation_loss}};
  const char *metric = metric_name(contract_metric(x->trial.site_job->job.contract));
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    if (sets[i].has)
      add_json(x, sets[i].key,
               json_pack("{s:s, s:o, s:o}", "metric", metric, "value", json_number(sets[i].headline), "loss",
                         json_number(sets[i].loss)));
}

static enum err add_facts(struct export *x) {
  const struct job_config *job = &x->trial.site_job->job;
  struct digest contract, schema;
  char label[ROUND_LABEL_BYTES];
  enum err e = contract_hash(job->contract, &digest_blake2b, &contract);
  if (e != ERR_OK)
    return e;
  schema_hash(x->trial.schema, &digest_blake2b, &schema);
  round_label_write(x->trial.round.label, label);
  if (!x->how->is_whole && x->layout == LAYOUT_TORCH)
    say_fact(x, "format", "pt"); /* as Hugging Face's readers ask for */
  say_fact(x, "producer", "starling %s", STARLING_VERSION);
  if (!x->how->is_whole)
    say_fact(x, "layout", "%s", layout_names[x->layout]);
  say_fact(x, "job", "%s@%" PRIu32, job->name, job->version);
  say_fact(x, "round", "%s", label);
  say_fact(x, "model", "%s", job->arch);
  add_meaning(x, job->contract);
  add_scale(x);
  add_figures(x);
  add_digest(x, "contract", &contract);
  add_digest(x, "schema", &schema);
  return x->has_failed ? ERR_NO_MEMORY : ERR_OK;
}

static void export_done(struct export *x) {
  for (size_t i = 0; i < x->n_facts; i++)
    free((void *)(uintptr_t)x->facts[i].text);
  trial_close(&x->trial);
}

/* ---- formats ------------------------------------------------------------------------------------------------------ */

/* A part of a tensor follows the one before it, in the schema as there; returns how many tensors there are more. */
static size_t lay_out(const struct export *x, size_t i, struct foreign_place *place, float *values,
                      struct tensor_out *out) {
  const struct tensor *t = schema_tensor(x->trial.schema, i);
  foreign_place(x->trial.schema, i, x->layout, place);
  foreign_write(place, learner_served(x->trial.learner) + t->offset, values + t->offset);
  if (place->part > 0)
    return 0;
  *out = (struct tensor_out){.name = place->name, .rank = place->foreign_rank, .values = values + t->offset};
  memcpy(out->size, place->foreign_size, sizeof out->size);
  return 1;
}

static enum err write_tensors(const struct export *x, enum tensor_format format) {
  size_t n = schema_tensors(x->trial.schema), n_out = 0;
  struct foreign_place *places = calloc(n, sizeof *places);
  struct tensor_out *tensors = calloc(n, sizeof *tensors);
  float *values = malloc(schema_parameters(x->trial.schema) * sizeof *values);
  enum err e = ERR_NO_MEMORY;
  if (places && tensors && values) {
    for (size_t i = 0; i < n; i++)
      n_out += lay_out(x, i, &places[i], values, &tensors[n_out]);
    e = tensor_file_write(x->path, format, tensors, n_out, x->facts, x->n_facts);
  }
  free(values);
  free(tensors);
  free(places);
  return e;
}

static enum err write_safetensors(const struct export *x) {
  return write_tensors(x, TENSORS_SAFETENSORS);
}

static enum err write_npz(const struct export *x) {
  return write_tensors(x, TENSORS_NPZ);
}

static enum err write_onnx(const struct export *x) {
  return onnx_write(x->path, &(const struct onnx_model){.schema = x->trial.schema,
                                                        .contract = x->trial.site_job->job.contract,
                                                        .scale = trial_scale(&x->trial),
                                                        .values = learner_served(x->trial.learner),
                                                        .notes = x->facts,
                                                        .n_notes = x->n_facts});
}

static const struct exporter exporters[] = {
    {"safetensors", ".safetensors", write_safetensors, false,
     "from safetensors.torch import load_file  # or safetensors.numpy\ntensors = load_file(FILE)\n"},
    {"npz", ".npz", write_npz, false, "import numpy\ntensors = dict(numpy.load(FILE))\n"},
    {"onnx", ".onnx", write_onnx, true,
     "import onnxruntime\nsession = onnxruntime.InferenceSession(FILE)\noutputs = session.run(None, {\"input\": x})\n"},
};

enum { N_EXPORTERS = sizeof exporters / sizeof *exporters };

static const struct exporter *exporter_of_word(const char *word) {
  for (size_t i = 0; i < N_EXPORTERS; i++)
    if (strcmp(exporters[i].word, word) == 0)
      return &exporters[i];
  return NULL;
}

static const struct exporter *exporter_of_file(const char *path) {
  size_t n = strlen(path);
  for (size_t i = 0; i < N_EXPORTERS; i++) {
    size_t n_ending = strlen(exporters[i].ending);
    if (n > n_ending && strcmp(path + n - n_ending, exporters[i].ending) == 0)
      return &exporters[i];
  }
  return NULL;
}

/* By its word, else by the ending of --out, without which it stays as it is; a file is never called what it is not. */
static int choose_exporter(struct call *call, struct export *x) {
  const char *word = call->flags[FLAG_FORMAT], *out = call->flags[FLAG_OUT];
  const struct exporter *of_word = word ? exporter_of_word(word) : NULL, *of_file = out ? exporter_of_file(out) : NULL;
  if (word && !of_word)
    return answer_error(call, EXIT_USAGE, "usage", NULL,
                        "--format: %s cannot be written; write safetensors, npz or onnx", word);
  if (of_word && of_file && of_word != of_file)
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--out: %s is what a file of %s is called; end it in %s", out,
                        of_file->word, of_word->ending);
  if (out && !of_word && !of_file)
    return answer_error(call, EXIT_USAGE, "usage", NULL,
                        "--out: %s does not say what to write; end it in .safetensors, .npz or .onnx, or add --format",
                        out);
  if (of_word || of_file)
    x->how = of_word ? of_word : of_file;
  return EXIT_DONE;
}

/* ---- the card ----------------------------------------------------------------------------------------------------- */

/* Text of a table's cell: a bar would end it. */
static void write_cell(const char *text, FILE *out) {
  for (; *text; text++)
    fprintf(out, "%s%c", *text == '|' ? "\\" : "", (unsigned char)*text < ' ' ? ' ' : *text);
}

/* A series is an image of height 1; only the graph takes it as one. */
static void write_image_shape(const struct export *x, FILE *out) {
  const struct contract *c = x->trial.site_job->job.contract;
  uint32_t h = c->height, w = c->width, n = c->channels;
  bool channels_first = !x->how->is_whole && x->layout == LAYOUT_TORCH;
  if (h == 1 && channels_first)
    fprintf(out, "[batch, %" PRIu32 ", %" PRIu32 "]: values and steps of a series, as Conv1d takes them", n, w);
  else if (h == 1 && !x->how->is_whole)
    fprintf(out, "[batch, %" PRIu32 ", %" PRIu32 "]: steps and values of a series", w, n);
  else if (channels_first)
    fprintf(out, "[batch, %" PRIu32 ", %" PRIu32 ", %" PRIu32 "]: channels, height and width of an image", n, h, w);
  else
    fprintf(out, "[batch, %" PRIu32 ", %" PRIu32 ", %" PRIu32 "]: %s", h, w, n,
            h == 1 ? "one row, steps and values of a series" : "height, width and channels of an image");
}

/* What goes in: shape, order and unit. */
static void write_inputs(const struct export *x, FILE *out) {
  const struct contract *c = x->trial.site_job->job.contract;
  bool is_whole = x->how->is_whole;
  double lo, hi;
  contract_range(c, &lo, &hi);
  fprintf(out, "%s: float32 ", is_whole ? "Input `input`" : "Inputs");
  if (!contract_is_image(c))
    fprintf(out, "[batch, %zu]: the values of `features` in their order", contract_n_inputs(c));
  else
    write_image_shape(x, out);
  if (contract_is_image(c))
    fprintf(out, ", in `range`; a byte b of an image file is %.9g + b / 255 * %.9g", lo, hi - lo);
  if (contract_n_scaled(c) < contract_n_inputs(c))
    fputs("; a feature with categories is as many inputs, 1 for the one that it is and 0 for the others, which are not "
          "scaled",
          out);
  fputs(is_whole ? ". The model scales them itself.\n"
        : trial_scale(&x->trial)->n > 0
            ? ". Before the model sees them they are scaled: (x - mean) / sd with the numbers of `scale`.\n"
            : ".\n",
        out);
  if (!contract_is_image(c))
    fputs("The number in `missing` stands for an empty field; features without it have none empty.\n", out);
}

/* What comes out, of a graph and of bare tensors. */
static void write_outputs(const struct export *x, FILE *out) {
  static const struct {
    const char *graph, *tensors;
  } outputs[] = {
      [ANSWER_CLASS] = {"`scores` and `probabilities`, their softmax, in the order of `classes`",
                        "scores, in the order of `classes`; their softmax are the probabilities"},
      [ANSWER_NUMBER] = {"`value`, the number itself", "the number itself"},
      [ANSWER_SET] = {"`scores` and `probabilities`, their sigmoid: whether each of `classes` applies",
                      "scores, in the order of `classes`; their sigmoid is the probability that a class applies"},
      [ANSWER_INPUTS] = {
          "`reconstruction`, the scaled inputs again, and `score`, their mean squared error: how unlike "
          "what was learnt a sample is",
          "the scaled inputs again; their mean squared error says how unlike what was learnt a sample is"}};
  enum answer_kind answer = task_type(x->trial.site_job->job.contract->task)->answer;
  fprintf(out, "\nOutputs: %s.\n", x->how->is_whole ? outputs[answer].graph : outputs[answer].tensors);
}

static void write_tensor_list(const struct export *x, FILE *out) {
  fputs("The layers are those of `model`, from left to right (`starling help layers`); their tensors:\n\n"
        "| tensor | shape |\n|---|---|\n",
        out);
  for (size_t i = 0; i < schema_tensors(x->trial.schema); i++) {
    struct foreign_place place;
    foreign_place(x->trial.schema, i, x->layout, &place);
    fprintf(out, "| %s | [", place.name);
    for (uint32_t k = 0; k < place.foreign_rank; k++)
      fprintf(out, "%s%" PRIu64, k ? ", " : "", place.foreign_size[k]);
    fputs("] |\n", out);
  }
  fputc('\n', out);
}

static void write_card(const struct export *x, FILE *out) {
  const struct store_metrics *m = &x->trial.round.metrics;
  char label[ROUND_LABEL_BYTES];
  round_label_write(x->trial.round.label, label);
  fprintf(out, "# %s, round %s\n\n", x->trial.site_job->job.name, label);
  fputs("A model that sites train together with Starling: each on its own data, which stays where it is.\n\n"
        "| what | value |\n|---|---|\n",
        out);
  for (size_t i = 0; i < x->n_facts; i++) {
    fprintf(out, "| %s | ", x->facts[i].key);
    write_cell(x->facts[i].text, out);
    fputs(" |\n", out);
  }
  fputs("\n## Use\n\n", out);
  write_inputs(x, out);
  write_outputs(x, out);
  fprintf(out, "\n```python\n%s```\n\n", x->how->use);
  if (!x->how->is_whole)
    write_tensor_list(x, out);
  fputs("## Limits\n\n", out);
  fputs(
      m->has_local || m->has_global || m->has_validation
          ? "Figures are of this site's own data at that round: it was never trained on `local test`, and `validation` "
            "chose among rounds. "
          : "The model was not evaluated here. ",
      out);
  fputs("Other sites' data may differ; `starling eval` and `starling compare` say what the model is worth on yours.\n",
        out);
}

static enum err put_card(const struct export *x) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  if (!out)
    return ERR_NO_MEMORY;
  write_card(x, out);
  enum err e = fclose(out) == 0 ? file_create(x->card, 0666, text) : ERR_NO_MEMORY;
  free(text);
  return e;
}

/* ---- the verb ----------------------------------------------------------------------------------------------------- */

static void view(const struct call *call, const json_t *data, FILE *out) {
  const char *file = json_string_value(json_object_get(data, "file"));
  if (call->format == FORMAT_TSV)
    fprintf(out, "%s\t%s\n", file, json_is_true(json_object_get(data, "changed")) ? "yes" : "no");
  else
    fprintf(out, "%s %s, round %s of %s, with its card %s\n", call->checks ? "would write" : "wrote", file,
            json_string_value(json_object_get(data, "label")), json_string_value(json_object_get(data, "job")),
            json_string_value(json_object_get(data, "card")));
}

static json_t *export_json(const struct export *x) {
  char label[ROUND_LABEL_BYTES];
  json_t *facts = json_object();
  for (size_t i = 0; i < x->n_facts; i++)
    json_object_set_new(facts, x->facts[i].key, json_string(x->facts[i].text));
  round_label_write(x->trial.round.label, label);
  return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s, s:I, s:o}", "job", x->trial.site_job->job.name, "label", label,
                   "format", x->how->word, "layout", x->how->is_whole ? NULL : layout_names[x->layout], "file", x->path,
                   "card", x->card, "tensors", (json_int_t)schema_tensors(x->trial.schema), "metadata", facts);
}

static bool name_files(struct export *x, const char *out) {
  char label[ROUND_LABEL_BYTES];
  round_label_write(x->trial.round.label, label);
  int n = out ? snprintf(x->path, sizeof x->path, "%s", out)
              : snprintf(x->path, sizeof x->path, "%s-%s%s", x->trial.site_job->job.name, label, x->how->ending);
  snprintf(x->card, sizeof x->card, "%s.md", x->path);
  return (size_t)n < sizeof x->path;
}

/* Also a link that leads nowhere. */
static bool is_there(const char *path) {
  return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Both files or none; the one that was in work stands in *out_at. */
static enum err write_both(const struct export *x, const char **out_at) {
  *out_at = x->path;
  enum err e = x->how->write(x);
  if (e != ERR_OK)
    return e;
  *out_at = x->card;
  if ((e = put_card(x)) != ERR_OK)
    unlink(x->path);
  return e;
}

static int write_files(struct call *call, struct export *x) {
  const char *at = is_there(x->path) ? x->path : x->card;
  enum err e = is_there(at) ? ERR_EXISTS : ERR_OK;
  if (e == ERR_OK && !call->checks)
    e = write_both(x, &at);
  if (e == ERR_EXISTS)
    return answer_error(call, EXIT_FAILED, err_name(e), "remove it, or name another by --out", "%s: it exists already",
                        at);
  if (e != ERR_OK)
    return answer_error(call, exit_code_of(e), err_name(e), NULL, "%s: %s", at, err_sentence(e));
  return answer_change(call, export_json(x), true, view);
}

static int run(struct call *call, struct export *x, enum err e) {
  if (e != ERR_OK)
    return trial_error(call, &x->trial, e);
  if ((e = add_facts(x)) != ERR_OK)
    return answer_error(call, exit_code_of(e), err_name(e), NULL, "%s", err_sentence(e));
  if (!name_files(x, call->flags[FLAG_OUT]))
    return answer_error(call, EXIT_USAGE, err_name(ERR_LIMIT), NULL, "--out: the path is too long");
  return write_files(call, x);
}

int verb_export(struct call *call) {
  char why[MAX_REASON_BYTES];
  struct model_choice choice = {.pick = MODEL_SERVING};
  struct export x = {.how = &exporters[0]};
  const struct site_job_config *job;
  struct config *c;
  size_t layout = LAYOUT_TORCH;
  if (choose_exporter(call, &x))
    return EXIT_USAGE;
  if (x.how->is_whole && call->flags[FLAG_LAYOUT])
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--layout: %s has only one; leave it out", x.how->word);
  if (call->flags[FLAG_LAYOUT] && scalar_word(call->flags[FLAG_LAYOUT], layout_names, &layout, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--layout: %s", why);
  if (!model_flag_read(call, call->flags[FLAG_MODEL], &choice))
    return EXIT_USAGE;
  if (!call_load_job(call, &c, &job))
    return EXIT_USAGE;
  x.layout = (enum layout)layout;
  int code = run(call, &x, trial_open_stored(&x.trial, c, job, &choice));
  export_done(&x);
  config_free(c);
  return code;
}
