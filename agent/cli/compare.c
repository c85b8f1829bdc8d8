/* starling compare: is the swarm worth it here? The model trained alone, the swarm's, and the site's own half-step, on the
 * same held-out samples. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/table.h"
#include "agent/cli/trial.h"
#include "agent/cli/verbs.h"
#include "agent/round_json.h"
#include "agent/run/shadow.h"
#include "agent/scalar.h"
#include "models/judging/comparison.h"

enum { FLAG_SET, FLAG_BY };

enum model { ALONE, SWARM, PERSONAL, N_MODELS };

static const char *const model_names[N_MODELS] = {[ALONE] = "alone", [SWARM] = "swarm", [PERSONAL] = "personal"};

/* Of two models the one with fewer trainings is not judged against the other when it has less than this share of its. */
#define ENOUGH_TRAININGS 0.9

struct bout {
  struct trial trial;
  enum metric metric;
  uint64_t n_trainings; /* of the model trained alone */
  struct metrics metrics[N_MODELS];
  struct comparison swarm, personal; /* against alone, by the headline */
  struct comparison balanced;        /* swarm against alone; classes only */
};

static bool has_too_few(uint64_t n, uint64_t of_other) {
  return (double)n < ENOUGH_TRAININGS * (double)of_other;
}

static bool is_comparable(const struct bout *b) {
  return b->swarm.difference == b->swarm.difference; /* not NaN */
}

/* ---- judging ------------------------------------------------------------------------------------------------------ */

/* Why there is no model trained alone, with the remedy. */
static int refuse_without_shadow(struct call *call, const struct bout *b) {
  static const char *const reasons[] = {
      [SHADOW_AUTO] = ("none was begun, or it was given up because training and storing it took more than 10 % of a "
                       "round (the log and "
                       "`events` say which)"),
      [SHADOW_ON] = "its first training is not committed yet",
      [SHADOW_OFF] = "alone.shadow is off",
  };
  enum shadow_mode mode = b->trial.site_job->shadow;
  return answer_error(call, EXIT_FAILED, err_name(ERR_NOT_FOUND),
                      mode == SHADOW_ON ? "wait for the next round"
                                        : "write alone: { shadow: on } into the job of the site file and restart",
                      "there is no model trained alone to compare with: %s", reasons[mode]);
}

static enum err evaluate(struct bout *b) {
  struct trial *t = &b->trial;
  struct buffer half;
  uint64_t n_steps;
  enum err e = shadow_split(&t->shadow, &half, &b->n_trainings, &n_steps);
  if (e != ERR_OK)
    snprintf(t->why, sizeof t->why, "the stored model trained alone: %s", err_sentence(e));
  if (e == ERR_OK)
    e = trial_evaluate_half(t, &half, &b->metrics[ALONE]);
  if (e == ERR_OK)
    e = trial_evaluate_model(t, &b->metrics[SWARM]);
  if (e == ERR_OK)
    e = trial_evaluate_half(t, &t->half, &b->metrics[PERSONAL]);
  return e;
}

/* The same question has the same answer: the bootstrap's seed follows from what is compared. */
static enum err against_alone(const struct bout *b, enum model model, enum figure figure, struct comparison *out) {
  uint64_t seed = b->trial.round.label.round * 1000003 + b->metrics[ALONE].n;
  return comparison_make(&b->metrics[ALONE].outcomes, &b->metrics[model].outcomes, figure, seed, out);
}

static enum err judge(struct bout *b) {
  enum figure figure = figure_of_metric(b->metric);
  enum err e = against_alone(b, SWARM, figure, &b->swarm);
  if (e == ERR_OK)
    e = against_alone(b, PERSONAL, figure, &b->personal);
  if (e == ERR_OK && b->metrics[ALONE].n_classes > 0)
    e = against_alone(b, SWARM, FIGURE_BALANCED, &b->balanced);
  if (e != ERR_OK)
    snprintf(b->trial.why, sizeof b->trial.why, "the comparison: %s", err_sentence(e));
  return e;
}

/* ---- the answer --------------------------------------------------------------------------------------------------- */

static const char *verdict_word(const struct bout *b) {
  static const char *const words[] = {
      [VERDICT_NO_EVIDENCE] = "no-evidence", [VERDICT_HELPS] = "helps", [VERDICT_WORSE] = "worse"};
  uint64_t n_alone = b->n_trainings, n_site = b->trial.n_trainings;
  return !is_comparable(b)              ? "not-comparable"
         : has_too_few(n_alone, n_site) ? "too-early"
         : has_too_few(n_site, n_alone) ? "rolled-back"
                                        : words[b->swarm.verdict];
}

static json_t *whole_number(double value) {
  static const double most = 1e15;
  return value >= 0 && value <= most ? json_integer((json_int_t)value) : json_null();
}

static json_t *difference_json(const struct comparison *r) {
  return json_pack("{s:o, s:o, s:o}", "difference", json_number(r->difference), "low", json_number(r->lo), "high",
                   json_number(r->hi));
}

static json_t *recall(const struct metrics *m, size_t c) {
  const struct class_figures *f = &m->classes[c];
  return f->support > 0 ? json_real((double)f->correct / (double)f->support) : json_null();
}

/* Whether the comma-separated list names the class; NULL names all. */
static bool names_class(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == n && strncmp(at, name, n) == 0)
      return true;
  return list == NULL;
}

static json_t *class_rows(const struct bout *b, const char *by) {
  const struct contract *contract = b->trial.site_job->job.contract;
  json_t *rows = json_array();
  for (size_t c = 0; c < contract->n_classes; c++) {
    if (!names_class(by, contract->classes[c].text))
      continue;
    json_t *row = json_pack("{s:s, s:I}", "class", contract->classes[c].text, "samples",
                            (json_int_t)b->metrics[ALONE].classes[c].support);
    for (size_t i = 0; i < N_MODELS; i++)
      json_object_set_new(row, model_names[i], recall(&b->metrics[i], c));
    json_array_append_new(rows, row);
  }
  return rows;
}

static json_t *bout_json(const struct bout *b, const char *by) {
  const struct trial *t = &b->trial;
  const struct contract *contract = t->site_job->job.contract;
  char note[MAX_REASON_BYTES], label[ROUND_LABEL_BYTES];
  metrics_note(&b->metrics[ALONE], contract, note);
  round_label_write(t->round.label, label);
  json_t *o =
      json_pack("{s:s, s:s, s:s, s:I, s:b, s:s, s:s, s:I, s:I}", "job", t->site_job->job.name, "set",
                trial_sets[t->set], "label", label, "samples", (json_int_t)b->metrics[ALONE].n, "held_out",
                t->set == TEST_LOCAL && t->site_job->test_path == NULL, "metric", metric_name(b->metric), "note", note,
                "alone_trainings", (json_int_t)b->n_trainings, "site_trainings", (json_int_t)t->n_trainings);
  for (size_t i = 0; i < N_MODELS; i++)
    json_object_set_new(o, model_names[i], json_number(metrics_headline(&b->metrics[i], b->metric)));
  json_object_update_new(o, difference_json(&b->swarm));
  json_object_set_new(o, "p_value", json_number(b->swarm.p_value));
  json_object_set_new(o, "only_alone_right", json_integer((json_int_t)b->swarm.only_first));
  json_object_set_new(o, "only_swarm_right", json_integer((json_int_t)b->swarm.only_second));
  json_object_set_new(o, "samples_needed", whole_number(b->swarm.needed));
  json_object_set_new(o, "verdict", json_string(verdict_word(b)));
  json_object_set_new(o, "personal_alone", difference_json(&b->personal));
  if (b->metrics[ALONE].n_classes > 0) {
    json_object_set_new(o, "balanced", difference_json(&b->balanced));
    json_object_set_new(o, "classes", class_rows(b, by));
  }
  return o;
}

/* ---- its view ----------------------------------------------------------------------------------------------------- */

static double number_at(const json_t *data, const char *path) {
  return json_number_value(json_at(data, path));
}

/* "+4.8 points, 95 % interval +1.9 … +7.7 (paired)"; other figures than accuracy with three decimals. */
static void print_difference(const json_t *of, bool is_points, FILE *out) {
  double scale = is_points ? 100 : 1;
  int decimals = is_points ? 1 : 3;
  fprintf(out, "%+.*f%s", decimals, scale * number_at(of, "difference"), is_points ? " points" : "");
  if (json_is_null(json_object_get(of, "low")))
    fputs(", too few samples for an interval", out);
  else
    fprintf(out, ", 95 %% interval %+.*f … %+.*f (paired)", decimals, scale * number_at(of, "low"), decimals,
            scale * number_at(of, "high"));
}

static const char *verdict_sentence(const char *verdict) {
  static const struct {
    const char *word, *sentence;
  } verdicts[] = {{"helps", "the swarm helps this site"},
                  {"worse", "the swarm's model is worse here; alone is better"},
                  {"no-evidence", "no evidence that it helps; alone is simpler"},
                  {"too-early", "too early to say: the model trained alone has missed trainings"},
                  {"rolled-back", "too early to say: this site was rolled back, the model trained alone was not"}};
  for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
    if (strcmp(verdict, verdicts[i].word) == 0)
      return verdicts[i].sentence;
  return "not comparable";
}

static void print_samples(const json_t *data, FILE *out) {
  const char *set = json_string_value(json_object_get(data, "set"));
  fprintf(out, "%s round %s, %s test set: %.0f samples%s\n", json_string_value(json_object_get(data, "job")),
          json_string_value(json_object_get(data, "label")), strcmp(set, "local") == 0 ? "your" : set,
          number_at(data, "samples"),
          json_is_true(json_object_get(data, "held_out")) ? " (held out, never trained on)"
                                                          : " (a file of its own, not trained on here)");
}

static void print_headlines(const json_t *data, FILE *out) {
  fprintf(out, "%s ", json_string_value(json_object_get(data, "metric")));
  for (size_t i = 0; i < N_MODELS; i++) {
    fprintf(out, " %s ", model_names[i]);
    value_print(json_object_get(data, model_names[i]), headline_form(data, model_names[i]), out);
    fputs(i + 1 < N_MODELS ? " ·" : "\n", out);
  }
  fputs("personal: the swarm's model after this site's newest local training\n", out);
}

static void print_verdict(const json_t *data, FILE *out) {
  bool is_points = strcmp(json_string_value(json_object_get(data, "metric")), metric_name(METRIC_ACCURACY)) == 0;
  const char *verdict = json_string_value(json_object_get(data, "verdict"));
  fputs("\nswarm - alone = ", out);
  print_difference(data, is_points, out);
  fprintf(out, ": %s\npersonal - alone = ", verdict_sentence(verdict));
  print_difference(json_object_get(data, "personal_alone"), is_points, out);
  fputc('\n', out);
  if (json_is_number(json_at(data, "balanced.difference"))) {
    fputs("balanced accuracy, swarm - alone = ", out);
    print_difference(json_object_get(data, "balanced"), true, out);
    fputc('\n', out);
  }
  if (json_is_number(json_object_get(data, "samples_needed")))
    fprintf(out, "to see a difference of %s it takes about %.0f samples (power 80 %%)\n",
            is_points ? "2 points" : "0.02", number_at(data, "samples_needed"));
  fprintf(out, "trained alone %.0f times, with the swarm %.0f times\n", number_at(data, "alone_trainings"),
          number_at(data, "site_trainings"));
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column whole[] = {{"JOB", "job", FORM_TEXT},
                                        {"ROUND", "label", FORM_TEXT},
                                        {"SET", "set", FORM_TEXT},
                                        {"SAMPLES", "samples", FORM_COUNT},
                                        {"METRIC", "metric", FORM_TEXT},
                                        {"ALONE", "alone", FORM_HEADLINE},
                                        {"SWARM", "swarm", FORM_HEADLINE},
                                        {"PERSONAL", "personal", FORM_HEADLINE},
                                        {"DIFFERENCE", "difference", FORM_SCORE},
                                        {"LOW", "low", FORM_SCORE},
                                        {"HIGH", "high", FORM_SCORE},
                                        {"NEEDED", "samples_needed", FORM_COUNT},
                                        {"VERDICT", "verdict", FORM_TEXT}};
  static const struct column classes[] = {{"CLASS", "class", FORM_TEXT},
                                          {"SAMPLES", "samples", FORM_COUNT},
                                          {"ALONE", "alone", FORM_PERCENT},
                                          {"SWARM", "swarm", FORM_PERCENT},
                                          {"PERSONAL", "personal", FORM_PERCENT}};
  if (call->format == FORMAT_TSV) {
    json_t *rows = json_pack("[O]", data);
    table_print(whole, sizeof whole / sizeof *whole, rows, true, out);
    json_decref(rows);
    return;
  }
  print_samples(data, out);
  print_headlines(data, out);
  if (json_is_null(json_object_get(data, "difference")))
    fprintf(out, "\n%s\n", json_string_value(json_object_get(data, "note")));
  else
    print_verdict(data, out);
  if (json_array_size(json_object_get(data, "classes")) > 0) {
    fputs("\nright answers of each class, in percent\n", out);
    table_print(classes, sizeof classes / sizeof *classes, json_object_get(data, "classes"), false, out);
  }
}

/* ---- the verb ----------------------------------------------------------------------------------------------------- */

/* Every name of the list is a class of the job; else the answer is given and false. */
static bool check_classes(struct call *call, const struct contract *contract, const char *by) {
  for (const char *at = by; at && *at; at += strcspn(at, ","), at += *at == ',') {
    char name[MAX_NAME_BYTES];
    size_t i = 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
    while (i < contract->n_classes && strcmp(contract->classes[i].text, name) != 0)
      i++;
    if (i == contract->n_classes) {
      (void)answer_error(call, EXIT_USAGE, "usage", NULL, "--by: the job has no class %s", name);
      return false;
    }
  }
  return true;
}

static int compare(struct call *call, struct bout *b, const struct config *c, const struct site_job_config *job,
                   enum test_set set) {
  struct trial *t = &b->trial;
  enum err e = trial_open(t, c, job, set);
  if (e == ERR_OK && (t->shadow.n_bytes == 0 || t->half.n_bytes == 0))
    return refuse_without_shadow(call, b);
  b->metric = contract_metric(t->site_job->job.contract);
  if (e == ERR_OK)
    e = evaluate(b);
  if (e == ERR_OK)
    e = judge(b);
  if (e != ERR_OK)
    return trial_error(call, t, e);
  int code = answer(call, bout_json(b, call->flags[FLAG_BY]), view);
  return code != EXIT_DONE ? code : strcmp(verdict_word(b), "helps") == 0 ? EXIT_DONE : EXIT_FAILED;
}

int verb_compare(struct call *call) {
  static const char *const sets[] = {"local", "global", NULL};
  static const enum test_set set_of[] = {TEST_LOCAL, TEST_GLOBAL};
  char why[MAX_REASON_BYTES];
  size_t set = 0;
  struct config *c;
  if (call->flags[FLAG_SET] && scalar_word(call->flags[FLAG_SET], sets, &set, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--set: %s", why);
  const struct site_job_config *job;
  if (!call_load_job(call, &c, &job))
    return EXIT_USAGE;
  struct bout b = {0};
  int code = check_classes(call, job->job.contract, call->flags[FLAG_BY]) ? compare(call, &b, c, job, set_of[set])
                                                                          : EXIT_USAGE;
  for (size_t i = 0; i < N_MODELS; i++)
    metrics_done(&b.metrics[i]);
  trial_close(&b.trial);
  config_free(c);
  return code;
}
