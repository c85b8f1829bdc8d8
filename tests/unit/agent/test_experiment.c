/* Experiment files and `starling experiment`: what is refused and where, that a run has the same bits again, and that what was run
 * once is not run again. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/experiment/results.h"
#include "base/rng.h"
#include "tests/unit/agent/cli_capture.h"
#include "tests/unit/agent/site_folder.h"
#include "tests/unit/suite.h"

#define HEAD "name: tried\nagents: 3\nrounds: 4\nseeds: [ 1, 2 ]\nsplits: [ iid ]\n"
#define SET                                                                                                            \
  "set:\n  task: classify\n  label: y\n  classes: [ low, high ]\n  features: [ a, b ]\n  model: dense classes\n"       \
  "  holdout: 0.25\n  validation: 0\n  data.train: parts.csv\n  train: { batch: 8, momentum: 0 }\n"
#define METHODS                                                                                                        \
  "methods:\n  - { name: alone, topology: alone }\n  - { name: mean, topology: ring }\n"                               \
  "  - { name: fast, topology: ring, set: { train.learning_rate: 0.1 } }\n"
#define GOOD HEAD SET METHODS

static struct site_folder folder;
static struct cli_capture c;
static char path[96], results[96];

/* 60 samples each for three agents; high where a + b is. */
static void set_up(void) {
  struct rng r;
  char *text = malloc(1 << 14);
  size_t n = (size_t)snprintf(text, 64, "a,b,y\n");
  rng_init(&r, 1);
  for (int i = 0; i < 180; i++) {
    double a = rng_unit(&r), b = rng_unit(&r);
    n += (size_t)snprintf(text + n, 64, "%.6f,%.6f,%s\n", a, b, a + b > 1 ? "high" : "low");
  }
  folder = site_folder_new(GOOD_SITE, GOOD_JOB);
  site_folder_write(&folder, "parts.csv", text);
  free(text);
  snprintf(path, sizeof path, "%s/e.yaml", folder.path);
  snprintf(results, sizeof results, "%s/e.results", folder.path);
}

static void tear_down(void) {
  site_folder_free(&folder);
}

static json_t *run_it(int code) {
  CLI(&c, "experiment", path, "--format", "json");
  ck_assert_msg(c.code == code, "%d: %s%s", c.code, c.out, c.err);
  json_t *answer = cli_capture_json(&c), *data = json_incref(json_object_get(answer, "data"));
  json_decref(answer);
  return data;
}

static json_int_t done_of(json_t *data) {
  json_int_t n = json_integer_value(json_object_get(data, "done"));
  json_decref(data);
  return n;
}

static const struct {
  const char *text, *said;
} refused[] = {
    {"name: x\nagents: 3\n", ":1:1: rounds: is missing"},
    {"nam: x\n", ":1:1: unknown key \"nam\"; did you mean name?"},
    {"name: x\nagents: 257\n", ":2:9: agents: \"257\" is out of range; write 1 to 256"},
    {"name: x\nname: y\n", ":2:1: name: the key stands in line 1 already"},
    {"seeds: 3\n", ":1:8: seeds: a list is expected here"},
    {"seeds: [ 4, 4 ]\n", ":1:13: seeds: 4 stands here twice"},
    {"splits: [ iid, iid ]\n", ":1:16: splits: iid stands here twice"},
    {"topology: star\n", ":1:11: topology: \"star\""},
    {HEAD "methods: []\n", ":6:10: methods: a list is expected here"},
    {HEAD "methods: [ { nam: x } ]\n", ":6:14: unknown key \"methods[].nam\"; did you mean methods[].name?"},
    {HEAD SET "methods:\n  - { name: x }\n  - { name: x }\n", "methods[].name: x stands here twice"},
    {HEAD SET "methods: [ { name: x, topology: dumbbell } ]\n", "methods[].topology: agents: 3, a dumbbell has two"},
    {HEAD SET "methods: [ { name: x, topology: regular, degree: 3 } ]\n", "degree: 3, of topology regular it is even"},
    {HEAD SET "methods:\n  - name: x\n    set: { train.momentun: 0.5 }\n",
     ":18:12: unknown key \"train.momentun\"; did you mean train.momentum?"},
    {HEAD SET "methods:\n  - name: x\n    set: { train: { momentum: 2 } }\n",
     ":18:31: train.momentum: \"2\" is out of range"},
    {HEAD SET "methods:\n  - name: x\n    set: { merge: { weight: samples } }\n", "did you mean jobs[].merge.weights?"},
    {HEAD SET "methods:\n  - name: x\n    set: { count: 9 }\n",
     ":18:12: set: count follows from the experiment's own `rounds`"},
    {HEAD SET "methods:\n  - name: x\n    set: { train.batch: 4, train: { batch: 8 } }\n",
     ":18:37: set: train.batch stands in line 18 already"},
    {HEAD SET "methods:\n  - name: x\n    set: { train.nesterov: true }\n", ":18:28: train.nesterov: needs a momentum"},
    {"name: x\nagents: 3\nrounds: 4\nseeds: [ 1 ]\nsplits: [ dirichlet -1 ]\n" SET "methods: [ { name: x } ]\n",
     ":5:11: split.rule: "},
    {HEAD SET "attackers: 3\nmethods: [ { name: x } ]\n", ":17:12: attackers: 3 of 3 agents; at least one is honest"},
    {HEAD SET "methods: [ { name: x, attack: ipm } ]\n", ":16:12: attack: ipm, and nobody does it; write attackers: N"},
    {HEAD SET "methods: [ { name: x, attack: ipn } ]\n", ":16:31: attack: \"ipn\""},
    {HEAD SET "attackers: 1\nmethods: [ { name: x, attack: backdoor } ]\n", "attack: backdoor needs a job of images"},
    {HEAD SET "hidden_groups: 3\nmethods: [ { name: x } ]\n",
     "hidden_groups: 3, and the job has 2 classes; write at most as many"},
    {HEAD SET "methods:\n  - { name: x, topology: full, set: { topology: ring } }\n"
              "  - { name: y, topology: ring, set: { topology: regular 2 } }\n",
     ":18:5: methods[].topology: of method y is ring"},
    {HEAD "set: { task: classify }\nmethods: [ { name: x } ]\n", "data.train: is missing"},
    {HEAD "job: none.yaml\n" METHODS, "none.yaml: it does not exist"},
};

START_TEST(what_is_wrong_has_its_place_and_remedy) {
  site_folder_write(&folder, "e.yaml", refused[_i].text);
  CLI(&c, "experiment", path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_msg(strstr(c.err, refused[_i].said) != NULL, "%s\n%s", refused[_i].said, c.err);
}
END_TEST

START_TEST(every_method_is_run_and_told) {
  site_folder_write(&folder, "e.yaml", GOOD);
  json_t *data = run_it(EXIT_DONE), *rows = json_object_get(data, "rows");
  ck_assert_int_eq(json_integer_value(json_object_get(data, "done")), 6);
  ck_assert_uint_eq(json_array_size(rows), 3);
  const json_t *alone = json_array_get(rows, 0), *mean = json_array_get(rows, 1);
  ck_assert_str_eq(json_string_value(json_object_get(alone, "method")), "alone");
  ck_assert_int_eq(json_integer_value(json_object_get(alone, "seeds")), 2);
  ck_assert(json_number_value(json_object_get(alone, "local")) > 0.5);
  ck_assert(json_is_number(json_object_get(alone, "local_sd")));
  ck_assert(json_is_null(json_object_get(alone, "global")));
  ck_assert(json_number_value(json_object_get(alone, "sent_bytes")) < 1);
  ck_assert(json_number_value(json_object_get(mean, "sent_bytes")) > 100);
  json_decref(data);
  CLI(&c, "experiment", path);
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_ptr_nonnull(strstr(c.out, "LOCAL %"));
  CLI(&c, "experiment", path, "--format", "tsv");
  ck_assert_int_eq(strncmp(c.out, "alone\tiid\t2\t", 12), 0);
}
END_TEST

static size_t count_lines(void) {
  size_t n = 0;
  FILE *in = fopen(results, "r");
  ck_assert_ptr_nonnull(in);
  for (int byte; (byte = fgetc(in)) != EOF;)
    n += byte == '\n';
  fclose(in);
  return n;
}

START_TEST(what_was_run_is_not_run_again) {
  site_folder_write(&folder, "e.yaml", GOOD);
  CLI(&c, "experiment", path, "--show", "--format", "json");
  ck_assert_int_eq(c.code, EXIT_FAILED); /* nothing is there, and nothing was made */
  ck_assert_int_ne(access(results, F_OK), 0);
  ck_assert_int_eq(done_of(run_it(EXIT_DONE)), 6);
  ck_assert_int_eq(done_of(run_it(EXIT_DONE)), 0);
  struct stat status;
  ck_assert_int_eq(stat(results, &status), 0);
  ck_assert_int_eq(truncate(results, status.st_size - 20), 0); /* a power cut in the last line */
  ck_assert_int_eq(done_of(run_it(EXIT_DONE)), 1);
  ck_assert_ptr_nonnull(strstr(c.out, "no results and were skipped: 1"));
  ck_assert_int_eq(done_of(run_it(EXIT_DONE)), 0);
  ck_assert_uint_eq(count_lines(), 7); /* the torn one has its end now */
}
END_TEST

START_TEST(only_what_changed_is_run_again) {
  site_folder_write(&folder, "e.yaml", GOOD);
  ck_assert_int_eq(done_of(run_it(EXIT_DONE)), 6);
  site_folder_write(&folder, "e.yaml", /* another name, another rate, one method more */
                    HEAD SET "methods:\n  - { name: lone, topology: alone }\n  - { name: mean, topology: ring }\n"
                             "  - { name: fast, topology: ring, set: { train.learning_rate: 0.2 } }\n"
                             "  - { name: full, topology: full }\n");
  ck_assert_int_eq(done_of(run_it(EXIT_DONE)), 4);
  site_folder_write(&folder, "parts.csv", "a,b,y\n0,0,low\n");
  CLI(&c, "experiment", path); /* other data: all is missing, and cannot be run */
  ck_assert_int_eq(c.code, EXIT_FAILED);
  ck_assert_ptr_nonnull(strstr(c.err, "cannot be split"));
}
END_TEST

#define ATTACKED                                                                                                       \
  "attackers: 1\nmethods:\n  - { name: none }\n  - { name: ipm, attack: ipm }\n"                                       \
  "  - { name: label-flip, attack: label-flip }\n"

static const char *const repeated[] = {GOOD, HEAD SET ATTACKED, HEAD SET "hidden_groups: 2\n" ATTACKED};

START_TEST(a_run_repeats_bit_for_bit) {
  struct experiment *x;
  char why[MAX_CONFIG_WHY_BYTES];
  site_folder_write(&folder, "e.yaml", repeated[_i]);
  ck_assert_int_eq(experiment_load(path, &x, why), ERR_OK);
  uint64_t traces[3][2];
  for (size_t m = 0; m < 3; m++)
    for (size_t i = 0; i < 2; i++) {
      struct experiment_run run = {.method = m, .seed = 7};
      struct experiment_result result;
      struct config *config;
      atomic_bool stop = false;
      _Atomic uint64_t round = 0;
      const struct experiment_watch watch = {&stop, &round};
      ck_assert_int_eq(experiment_config(x, &run, &config, why), ERR_OK);
      ck_assert_int_eq(experiment_do(x, &run, config, &watch, &result, why), ERR_OK);
      traces[m][i] = result.trace;
      ck_assert_uint_eq(result.agents[0].round, 4);
      experiment_result_done(&result);
      config_free(config);
    }
  for (size_t m = 0; m < 3; m++) {
    ck_assert_uint_eq(traces[m][0], traces[m][1]);
    ck_assert_uint_ne(traces[m][0], traces[(m + 1) % 3][0]);
  }
  experiment_free(x);
}
END_TEST

static double figure_of(const json_t *data, size_t row, const char *key) {
  return json_number_value(json_object_get(json_array_get(json_object_get(data, "rows"), row), key));
}

/* An attacker that behaves changes nothing but who is counted. */
START_TEST(attackers_do_harm_and_are_not_counted) {
  site_folder_write(&folder, "e.yaml",
                    HEAD SET "methods:\n  - { name: mean }\n  - { name: none, attackers: 1 }\n"
                             "  - { name: sign-flip, attackers: 1, attack: sign-flip,"
                             " set: { merge.norm_bound: 1000000 } }\n");
  json_t *data = run_it(EXIT_DONE), *rows = json_object_get(data, "rows");
  ck_assert_int_eq(json_integer_value(json_object_get(data, "done")),
                   4); /* the second is the first, counted otherwise */
  ck_assert(json_is_null(json_object_get(json_array_get(rows, 0), "worst")));
  ck_assert(figure_of(data, 1, "worst") > 0.5 && figure_of(data, 1, "worst") <= figure_of(data, 1, "local") + 0.2);
  ck_assert(figure_of(data, 2, "local") < figure_of(data, 1, "local") - 0.1);
  json_decref(data);
}
END_TEST

/* Two groups of which one says high where the other says low: one model is right for one of them. */
START_TEST(hidden_groups_number_classes_otherwise) {
  site_folder_write(&folder, "e.yaml",
                    HEAD SET "hidden_groups: 2\nmethods:\n  - { name: alone, topology: alone, set: { "
                             "train.learning_rate: 1 } }\n  - { name: mean, set: { train.learning_rate: 1 } }\n");
  json_t *data = run_it(EXIT_DONE);
  ck_assert_double_gt(figure_of(data, 0, "local"), figure_of(data, 1, "local") + 0.1);
  json_decref(data);
}
END_TEST

START_TEST(who_writes_has_the_results_alone) {
  struct results *r;
  site_folder_write(&folder, "e.yaml", GOOD);
  ck_assert_int_eq(results_open(results, true, &r), ERR_OK);
  CLI(&c, "experiment", path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "another experiment writes there"));
  CLI(&c, "experiment", path, "--show"); /* reading is possible meanwhile */
  ck_assert_ptr_nonnull(strstr(c.out, "alone"));
  results_close(r);
}
END_TEST

static void put_line(FILE *f, unsigned number) {
  fprintf(f, "{\"run\": \"%064x\", \"trace\": \"1\", \"agents\": [ {\"local\": 0.5} ]}\n", number);
}

/* More than a plan may have, and what is no line of ours between them. */
START_TEST(results_may_be_many) {
  enum { N = 64 * 16 * 100 + 2 };
  FILE *f = fopen(results, "w");
  ck_assert_ptr_nonnull(f);
  for (unsigned i = 0; i < N; i++) {
    if (i == N - 1)
      fprintf(f, "{\"run\": \"%*d\"}\n\n", 3 * MAX_RESULT_LINE_BYTES, 0);
    put_line(f, i);
  }
  ck_assert_int_eq(fclose(f), 0);
  struct results *r;
  ck_assert_int_eq(results_open(results, false, &r), ERR_OK);
  ck_assert_uint_eq(results_skipped(r), 1);
  struct digest id = {0};
  ck_assert_ptr_nonnull(results_find(r, &id));
  id.bytes[DIGEST_BYTES - 1] = (uint8_t)(N - 1);
  id.bytes[DIGEST_BYTES - 2] = (uint8_t)((N - 1) >> 8);
  id.bytes[DIGEST_BYTES - 3] = (uint8_t)((N - 1) >> 16);
  ck_assert_ptr_nonnull(results_find(r, &id));
  results_close(r);
}
END_TEST

START_TEST(results_are_a_regular_file) {
  site_folder_write(&folder, "e.yaml", GOOD);
  ck_assert_int_eq(mkfifo(results, 0600), 0);
  CLI(&c, "experiment", path, "--show");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "it is not a regular file"));
  CLI(&c, "experiment", path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "it is not a regular file"));
}
END_TEST

START_TEST(a_job_file_is_the_base) {
  site_folder_write(
      &folder, "b.job.yaml",
      "job: b\ntask: classify\nlabel: y\nclasses: [ low, high ]\nfeatures: [ a, b ]\nmodel: dense classes\n"
      "count: 99\ntrain: { learning_rate: 0.3 }\n");
  site_folder_write(&folder, "e.yaml", HEAD "job: b.job.yaml\nset: { data.train: parts.csv }\n" METHODS);
  struct experiment *x;
  struct config *config;
  char why[MAX_CONFIG_WHY_BYTES];
  ck_assert_int_eq(experiment_load(path, &x, why), ERR_OK);
  ck_assert_int_eq(experiment_config(x, &(struct experiment_run){2, 0, 5}, &config, why), ERR_OK);
  const struct site_job_config *s = &config->jobs[0];
  ck_assert(s->job.train.learning_rate == 0.1); /* the method's before the file's */
  ck_assert_uint_eq(s->job.count, 4);
  ck_assert_uint_eq(s->job.contract->split.n_parts, 3);
  ck_assert_uint_eq(s->job.contract->split.seed, 5);
  ck_assert_uint_eq(s->part, 1);
  config_free(config);
  experiment_free(x);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  TCase *tcase = tcase_create("experiment");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, set_up, tear_down);
  tcase_add_loop_test(tcase, what_is_wrong_has_its_place_and_remedy, 0, sizeof refused / sizeof *refused);
  tcase_add_test(tcase, every_method_is_run_and_told);
  tcase_add_test(tcase, what_was_run_is_not_run_again);
  tcase_add_test(tcase, only_what_changed_is_run_again);
  tcase_add_loop_test(tcase, a_run_repeats_bit_for_bit, 0, sizeof repeated / sizeof *repeated);
  tcase_add_test(tcase, attackers_do_harm_and_are_not_counted);
  tcase_add_test(tcase, hidden_groups_number_classes_otherwise);
  tcase_add_test(tcase, who_writes_has_the_results_alone);
  tcase_add_test(tcase, results_may_be_many);
  tcase_add_test(tcase, results_are_a_regular_file);
  tcase_add_test(tcase, a_job_file_is_the_base);
  return suite_run_case("experiment", tcase);
}
