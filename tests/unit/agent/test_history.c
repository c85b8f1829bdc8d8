/* Rounds without a running agent: from the database, page for page the same rows. */
#include "agent/cli/history.h"
#include "agent/round_json.h"
#include "crypto/digest.h"
#include "tests/unit/agent/cli_capture.h"
#include "tests/unit/agent/site_folder.h"
#include "tests/unit/suite.h"

#include <math.h>

static struct cli_capture c;

/* A store with `n` committed rounds and one that is only published. */
static void write_history(const struct site_folder *f, uint64_t n) {
  struct config *config;
  struct store *s;
  char why[MAX_CONFIG_WHY_BYTES], warning[MAX_REASON_BYTES];
  ck_assert_int_eq(config_load(f->site, NULL, &config, why), ERR_OK);
  const struct store_config sc = {.state_dir = config->state_dir, .digest = &digest_tree, .keep_last = 2, .random = 1};
  enum err e = store_open(&sc, &s, warning, why);
  ck_assert_msg(e == ERR_OK, "%s", why);
  struct digest job = config_job_id(config, &config->jobs[0].job);
  static const uint8_t bytes[8] = {1, 2, 3};
  for (uint64_t r = 1; r <= n + 1; r++) {
    const struct store_publication p = {.job = job,
                                        .label = {r, 0},
                                        .boot_epoch = store_boot_epoch(s),
                                        .sequence = r,
                                        .manifest = bytes,
                                        .n_manifest = 8,
                                        .payload = bytes,
                                        .n_payload = 8,
                                        .half = bytes,
                                        .n_half = 8,
                                        .n_copy = 4,
                                        .train_loss = 0.5,
                                        .train_seconds = 1.25,
                                        .n_samples = 300};
    ck_assert_int_eq(store_publish(s, &p), ERR_OK);
    struct store_contribution peers[2] = {
        {.name = "mec-03",
         .reason = ERR_OK,
         .weight = 0.5,
         .lag = 1,
         .n_bytes = 1804,
         .arrival_ms = 12,
         .boot_epoch = 1,
         .sequence = r},
        {.name = "mec-09", .reason = ERR_LATE, .arrival_ms = -1, .boot_epoch = 1, .sequence = 1}};
    memcpy(peers[0].origin, test_key(1).bytes, 32);
    memcpy(peers[1].origin, test_key(2).bytes, 32);
    const struct store_commitment k = {.job = job,
                                       .label = {r, 0},
                                       .outcome = ROUND_MERGED,
                                       .model = bytes,
                                       .n_model = 8,
                                       .metrics = {.has_local = true, .local_loss = 0.25, .local_headline = 0.885},
                                       .contributions = peers,
                                       .n_contributions = 2,
                                       .sent_bytes = 100,
                                       .received_bytes = 200,
                                       .seconds = 2.5};
    if (r <= n)
      ck_assert_int_eq(store_commit(s, &k), ERR_OK);
  }
  store_close(s);
  config_free(config);
}

START_TEST(rounds_come_from_the_database) {
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB);
  write_history(&f, 3);
  CLI(&c, "-C", f.site, "rounds", "list", "-n", "2", "--format", "json");
  ck_assert_msg(c.code == EXIT_DONE, "%s", c.out);
  json_t *object = cli_capture_json(&c);
  const json_t *rows = json_object_get(json_object_get(object, "data"), "rounds"), *row = json_array_get(rows, 0);
  ck_assert_uint_eq(json_array_size(rows), 2);
  ck_assert_str_eq(json_string_value(json_object_get(row, "label")), "3");
  ck_assert_str_eq(json_string_value(json_object_get(row, "outcome")), "merged");
  ck_assert(json_real_value(json_object_get(row, "local")) == 0.885);
  ck_assert(json_is_null(json_object_get(row, "global")));
  ck_assert_uint_eq(strlen(json_string_value(json_object_get(row, "model"))), 64);
  ck_assert_int_eq(json_integer_value(json_object_get(row, "merged")), 1);
  ck_assert_int_eq(json_integer_value(json_object_get(row, "expected")), 2);
  row = json_array_get(rows, 1);
  ck_assert_str_ne(json_string_value(json_object_get(row, "state")), "committed");
  ck_assert(json_is_null(json_object_get(row, "committed_at")));
  json_decref(object);

  CLI(&c, "-C", f.site, "rounds", "show", "2");
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_ptr_nonnull(strstr(c.out, "88.5"));
  ck_assert_ptr_nonnull(strstr(c.out, "mec-03"));
  ck_assert_ptr_nonnull(strstr(c.out, "late"));
  CLI(&c, "-C", f.site, "rounds", "show", "9");
  ck_assert_int_eq(c.code, EXIT_FAILED);
  ck_assert_str_eq(c.err, "starling: there is no round 9\n");
  CLI(&c, "-C", f.site, "rounds", "wait", "3");
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_str_eq(c.out, "3\n");
  CLI(&c, "-C", f.site, "rounds", "wait", "4"); /* published is not committed */
  ck_assert_int_eq(c.code, EXIT_UNREACHABLE);
  site_folder_free(&f);
}
END_TEST

START_TEST(a_model_that_does_not_fit_is_not_evaluated) {
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB);
  write_history(&f, 1);
  CLI(&c, "-C", f.site, "eval");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "the model of round 1"));
  site_folder_free(&f);
}
END_TEST

START_TEST(what_is_not_finite_is_null) {
  json_t *number = json_number(1.5), *nan = json_number(NAN), *infinity = json_number(INFINITY);
  ck_assert(json_real_value(number) == 1.5);
  ck_assert(json_is_null(nan) && json_is_null(infinity));
  json_decref(number);

  const struct store_round sub = {.label = {418, 2}, .committed = true, .outcome = ROUND_SHORT, .train_loss = NAN};
  json_t *row = round_json(&sub);
  ck_assert_str_eq(json_string_value(json_object_get(row, "label")), "418+2");
  ck_assert_str_eq(json_string_value(json_object_get(row, "outcome")), "short");
  ck_assert_str_eq(json_string_value(json_object_get(row, "committed_at")), "1970-01-01T00:00:00Z");
  ck_assert(json_is_null(json_object_get(row, "train_loss")));
  ck_assert(json_is_null(json_object_get(row, "model")));
  json_decref(row);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/history", rounds_come_from_the_database, a_model_that_does_not_fit_is_not_evaluated,
                   what_is_not_finite_is_null);
}
