#include "models/contract.h"

#include <math.h>
#include <stdlib.h>

#include "tests/unit/models/data_kit.h"
#include "tests/unit/suite.h"

static struct contract *inspection(void) {
  struct contract *c = kit_table();
  ck_assert_int_eq(scale_init(&c->scale, SCALE_FIXED, 2), ERR_OK);
  c->scale.mean[0] = 14.2;
  c->scale.sd[0] = 3.1;
  c->scale.mean[1] = 21.5;
  c->scale.sd[1] = 4;
  c->init_seed = 7;
  c->range_lo = -40;
  c->holdout = 0.25;
  c->validation = 0.1;
  c->split = (struct split){.rule = SPLIT_DIRICHLET, .alpha = 0.3, .n_parts = 5, .seed = 1};
  return c;
}

START_TEST(text_is_one_fact_a_line) {
  struct contract *c = inspection();
  char text[MAX_SCHEMA_TEXT_BYTES];
  size_t n = 0;
  kit_check(c);
  ck_assert_int_eq(contract_text(c, text, sizeof text, &n), ERR_OK);
  ck_assert_str_eq(text, "contract: 1\n"
                         "task: classify\n"
                         "loss: cross-entropy\n"
                         "label: \"verdict\"\n"
                         "class 0: \"ok\"\n"
                         "class 1: \"scratch\"\n"
                         "class 2: \"dent\"\n"
                         "feature 0: \"force_N\"\n"
                         "unit 0: \"N\"\n"
                         "feature 1: \"temp_C\"\n"
                         "range lo: -40\n"
                         "range hi: any\n"
                         "scale: fixed\n"
                         "scale pairs: 2\n"
                         "scale mean 0: 14.2\n"
                         "scale sd 0: 3.1\n"
                         "scale mean 1: 21.5\n"
                         "scale sd 1: 4\n"
                         "missing: refused\n"
                         "init seed: 7\n"
                         "split: dirichlet\n"
                         "split alpha: 0.3\n"
                         "split parts: 5\n"
                         "split seed: 1\n"
                         "holdout: 0.25\n"
                         "validation: 0.1\n"
                         "holdout by: sample\n");
  ck_assert_uint_eq(n, strlen(text));
  contract_free(c);
}
END_TEST

START_TEST(text_of_an_image_has_its_range) {
  struct contract *c = kit_image(28, 28, 2);
  char text[MAX_SCHEMA_TEXT_BYTES];
  size_t n;
  kit_check(c);
  ck_assert_int_eq(contract_text(c, text, sizeof text, &n), ERR_OK);
  ck_assert_ptr_nonnull(strstr(text, "\nimage: 28 28 1\nrange lo: 0\nrange hi: 1\nscale: none\nscale pairs: 0\n"));
  ck_assert_ptr_nonnull(strstr(text, "\nsplit: none\nholdout: 0\nvalidation: 0\nholdout by: sample\n"));
  contract_free(c);
}
END_TEST

START_TEST(categories_and_missing_values_have_lines_where_they_are_used) {
  struct contract *c = inspection();
  char text[MAX_SCHEMA_TEXT_BYTES];
  size_t n;
  ck_assert_int_eq(contract_add_feature(c, "line", NULL), ERR_OK);
  ck_assert_int_eq(contract_add_category(c, "a"), ERR_OK);
  ck_assert_int_eq(contract_add_category(c, "b\"c"), ERR_OK);
  c->missing.rule = MISSING_MEAN;
  c->features[0].missing = (struct missing){MISSING_NUMBER, -1.5};
  c->features[1].missing.rule = MISSING_REFUSED;
  kit_check(c);
  ck_assert(contract_n_inputs(c) == 4 && contract_n_scaled(c) == 2 && contract_n_measured(c) == 2);
  ck_assert_int_eq(contract_text(c, text, sizeof text, &n), ERR_OK);
  ck_assert_ptr_nonnull(strstr(text, "\nfeature 0: \"force_N\"\nunit 0: \"N\"\nmissing 0: number -1.5\n"
                                     "feature 1: \"temp_C\"\nmissing 1: refused\n"
                                     "feature 2: \"line\"\ncategory 2 0: \"a\"\ncategory 2 1: \"b\\\"c\"\nrange lo"));
  ck_assert_ptr_nonnull(strstr(text, "\nmissing: mean\n"));
  contract_free(c);
}
END_TEST

static void says_no(struct contract *c, const char *says) {
  char reason[MAX_REASON_BYTES];
  ck_assert_int_ne(contract_check(c, reason), ERR_OK);
  ck_assert_msg(strstr(reason, says) != NULL, "%s", reason);
}

START_TEST(categories_and_missing_values_are_checked) {
  struct contract *c = inspection();
  ck_assert_int_eq(contract_add_feature(c, "line", NULL), ERR_OK);
  ck_assert_int_eq(contract_add_category(c, "a"), ERR_OK);
  says_no(c, "has one category");
  ck_assert_int_eq(contract_add_category(c, "a"), ERR_OK);
  says_no(c, "category of line \"a\" stands twice");
  c->features[2].categories[1].text[0] = 'b';
  kit_check(c);
  c->features[2].missing.rule = MISSING_MEAN;
  says_no(c, "list one called \"missing\"");
  c->features[2].missing.rule = MISSING_INHERITED;
  c->features[2].range_hi = 1;
  says_no(c, "neither `range` nor `unit`");
  c->features[2].range_hi = INFINITY;
  c->features[0].missing = (struct missing){MISSING_NUMBER, 1e300};
  says_no(c, "must be finite");
  c->features[0].missing.rule = MISSING_MEAN;
  kit_check(c);
  scale_done(&c->scale);
  ck_assert_int_eq(scale_init(&c->scale, SCALE_FIXED, 4), ERR_OK);
  says_no(c, "scaling has 4 pairs for 2 inputs");
  scale_done(&c->scale);
  c->scale = (struct scale){.rule = SCALE_LOCAL};
  says_no(c, "takes the mean of `scale: { mean, sd }`");
  contract_free(c);
}
END_TEST

START_TEST(names_cannot_forge_lines) {
  struct contract *c = kit_table();
  char text[MAX_SCHEMA_TEXT_BYTES], reason[MAX_REASON_BYTES];
  size_t n;
  ck_assert_int_eq(contract_add_class(c, "a\"\\b"), ERR_OK);
  kit_check(c);
  ck_assert_int_eq(contract_text(c, text, sizeof text, &n), ERR_OK);
  ck_assert_ptr_nonnull(strstr(text, "class 3: \"a\\\"\\\\b\"\n"));
  ck_assert_int_eq(contract_add_class(c, "x\"\nclass 4: \"y"), ERR_OK);
  ck_assert_int_eq(contract_check(c, reason), ERR_SYNTAX);
  ck_assert_ptr_nonnull(strstr(reason, "class 4"));
  contract_free(c);
}
END_TEST

START_TEST(text_and_hash_keep_their_limits) {
  struct contract *c = inspection();
  char text[MAX_SCHEMA_TEXT_BYTES], reason[MAX_REASON_BYTES];
  size_t n = 99, n_all;
  ck_assert_int_eq(contract_text(c, text, sizeof text, &n_all), ERR_OK);
  ck_assert_int_eq(contract_text(c, text, n_all, &n), ERR_LIMIT); /* the NUL does not fit */
  ck_assert_uint_eq(n, 99);
  ck_assert_int_eq(contract_text(c, text, n_all + 1, &n), ERR_OK);
  scale_done(&c->scale);
  for (int i = 0; i < 800; i++) {
    char name[MAX_NAME_BYTES];
    snprintf(name, sizeof name, "a_rather_long_name_of_a_column_%d", i);
    ck_assert_int_eq(contract_add_feature(c, name, NULL), ERR_OK);
  }
  struct digest hash;
  ck_assert_int_eq(contract_hash(c, &kit_digest, &hash), ERR_LIMIT);
  ck_assert_int_eq(contract_check(c, reason), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(reason, "16384"));
  contract_free(c);
}
END_TEST

START_TEST(hash_follows_every_fact) {
  struct contract *c = inspection();
  struct digest first, now;
  ck_assert_int_eq(contract_hash(c, &kit_digest, &first), ERR_OK);
  ck_assert_int_eq(contract_hash(c, &kit_digest, &now), ERR_OK);
  ck_assert(digest_equal(&first, &now));
#define DIFFERS(change, undo)                                                                                          \
  do {                                                                                                                 \
    change;                                                                                                            \
    ck_assert_int_eq(contract_hash(c, &kit_digest, &now), ERR_OK);                                                     \
    ck_assert_msg(!digest_equal(&first, &now), "%s", #change);                                                         \
    undo;                                                                                                              \
  } while (0)
  DIFFERS(c->init_seed = 8, c->init_seed = 7);
  DIFFERS(c->classes[0].text[0] = 'O', c->classes[0].text[0] = 'o');
  DIFFERS(c->features[0].unit[0] = 'M', c->features[0].unit[0] = 'N');
  DIFFERS(c->scale.mean[0] = nextafter(14.2, 15), c->scale.mean[0] = 14.2);
  DIFFERS(c->range_hi = 1, c->range_hi = INFINITY);
  DIFFERS(c->features[1].range_hi = 85, c->features[1].range_hi = INFINITY);
  DIFFERS(c->split.seed = 2, c->split.seed = 1);
  DIFFERS(c->holdout = 0.2, c->holdout = 0.25);
  DIFFERS(c->validation = 0.2, c->validation = 0.1);
  DIFFERS(snprintf(c->holdout_by, sizeof c->holdout_by, "part"), c->holdout_by[0] = '\0');
  DIFFERS(c->task = TASK_REGRESS, c->task = TASK_CLASSIFY);
  DIFFERS(c->label[0] = 'V', c->label[0] = 'v');
#undef DIFFERS
  contract_free(c);
}
END_TEST

static void spoil_classes(struct contract *c) {
  c->n_classes = 1;
}
static void spoil_class_twice(struct contract *c) {
  c->classes[2] = c->classes[0];
}
static void spoil_class_empty(struct contract *c) {
  c->classes[1].text[0] = '\0';
}
static void spoil_class_latin(struct contract *c) {
  snprintf(c->classes[1].text, sizeof c->classes[1].text, "Ma\xdf");
}
static void spoil_class_control(struct contract *c) {
  snprintf(c->classes[1].text, sizeof c->classes[1].text, "a\xc2\x85");
}
static void spoil_regression(struct contract *c) {
  c->task = TASK_REGRESS;
}
static void spoil_loss(struct contract *c) {
  c->loss = LOSS_MEAN_SQUARED_ERROR;
}
static void spoil_both_inputs(struct contract *c) {
  c->height = c->width = c->channels = 1;
}
static void spoil_half_image(struct contract *c) {
  c->height = 5;
}
static void spoil_no_inputs(struct contract *c) {
  c->n_features = 0;
}
static void spoil_huge_image(struct contract *c) {
  c->n_features = 0;
  c->height = c->width = c->channels = UINT32_MAX;
}
static void spoil_label(struct contract *c) {
  c->label[0] = '\0';
}
static void spoil_label_feature(struct contract *c) {
  snprintf(c->label, sizeof c->label, "temp_C");
}
static void spoil_feature_twice(struct contract *c) {
  c->features[1] = c->features[0];
}
static void spoil_unit(struct contract *c) {
  c->features[0].unit[0] = '\n';
}
static void spoil_range(struct contract *c) {
  c->range_hi = c->range_lo = 3;
}
static void spoil_range_nan(struct contract *c) {
  c->range_lo = NAN;
}
static void spoil_range_image(struct contract *c) {
  c->n_features = 0;
  c->height = c->width = c->channels = 2;
  c->range_hi = INFINITY;
}
static void spoil_range_apart(struct contract *c) {
  spoil_range_image(c);
  c->range_lo = -1e308;
  c->range_hi = 1e308;
}
static void spoil_sd_zero(struct contract *c) {
  c->scale.sd[1] = 0;
}
static void spoil_sd_nan(struct contract *c) {
  c->scale.sd[1] = NAN;
}
static void spoil_mean(struct contract *c) {
  c->scale.mean[0] = INFINITY;
}
static void spoil_pairs(struct contract *c) {
  ck_assert_int_eq(contract_add_feature(c, "more", NULL), ERR_OK);
}
static void spoil_local(struct contract *c) {
  c->scale.rule = SCALE_LOCAL;
}
static void spoil_holdout(struct contract *c) {
  c->holdout = 0.95;
}
static void spoil_feature_range(struct contract *c) {
  c->features[0].range_lo = c->features[0].range_hi = 3;
}
static void spoil_validation(struct contract *c) {
  c->validation = -0.1;
}
static void spoil_training(struct contract *c) {
  c->holdout = c->validation = 0.5;
}
static void spoil_group(struct contract *c) {
  snprintf(c->holdout_by, sizeof c->holdout_by, "%s", c->label);
}
static void spoil_group_name(struct contract *c) {
  snprintf(c->holdout_by, sizeof c->holdout_by, "a\tb");
}
static void spoil_holdout_nan(struct contract *c) {
  c->holdout = NAN;
}
static void spoil_parts_zero(struct contract *c) {
  c->split.n_parts = 0;
}
static void spoil_parts_many(struct contract *c) {
  c->split.n_parts = MAX_PARTS + 1;
}
static void spoil_alpha(struct contract *c) {
  c->split.alpha = 0;
}
static void spoil_shards(struct contract *c) {
  c->split.rule = SPLIT_SHARDS;
}

START_TEST(check_says_what_is_wrong) {
  static const struct {
    void (*spoil)(struct contract *);
    enum err e;
    const char *says;
  } table[] = {
      {spoil_classes, ERR_RANGE, "two or more"},
      {spoil_class_twice, ERR_EXISTS, "class \"ok\" stands twice"},
      {spoil_class_empty, ERR_SYNTAX, "class 1 is empty"},
      {spoil_class_latin, ERR_SYNTAX, "save files as UTF-8"},
      {spoil_class_control, ERR_SYNTAX, "control characters"},
      {spoil_regression, ERR_RANGE, "regression has no classes"},
      {spoil_loss, ERR_RANGE, "the loss of task classify is cross-entropy"},
      {spoil_both_inputs, ERR_RANGE, "exactly one"},
      {spoil_half_image, ERR_RANGE, "height, width and channels"},
      {spoil_no_inputs, ERR_RANGE, "exactly one"},
      {spoil_huge_image, ERR_LIMIT, "at most 1048576 values"},
      {spoil_label, ERR_RANGE, "need a `label`"},
      {spoil_label_feature, ERR_EXISTS, "the label \"temp_C\" is also a feature"},
      {spoil_feature_twice, ERR_EXISTS, "feature \"force_N\" stands twice"},
      {spoil_unit, ERR_SYNTAX, "unit of feature 0"},
      {spoil_range, ERR_RANGE, "lower to a higher"},
      {spoil_range_nan, ERR_RANGE, "lower to a higher"},
      {spoil_range_image, ERR_RANGE, "needs both ends"},
      {spoil_range_apart, ERR_RANGE, "a finite number apart"},
      {spoil_sd_zero, ERR_RANGE, "scaling pair 1"},
      {spoil_sd_nan, ERR_RANGE, "scaling pair 1"},
      {spoil_mean, ERR_RANGE, "scaling pair 0"},
      {spoil_pairs, ERR_RANGE, "2 pairs for 3 inputs"},
      {spoil_local, ERR_RANGE, "`local` takes no numbers"},
      {spoil_holdout, ERR_RANGE, "holdout"},
      {spoil_holdout_nan, ERR_RANGE, "holdout"},
      {spoil_feature_range, ERR_RANGE, "the range of feature \"force_N\""},
      {spoil_validation, ERR_RANGE, "the validation must be 0 to 0.9"},
      {spoil_training, ERR_RANGE, "holdout and validation together are 1, at most 0.95"},
      {spoil_group, ERR_RANGE, "whole classes would be kept apart"},
      {spoil_group_name, ERR_SYNTAX, "`holdout_by` has control characters"},
      {spoil_parts_zero, ERR_RANGE, "parts"},
      {spoil_parts_many, ERR_RANGE, "it has 4097"},
      {spoil_alpha, ERR_RANGE, "Dirichlet"},
      {spoil_shards, ERR_RANGE, "shards"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct contract *c = inspection();
    char reason[MAX_REASON_BYTES] = "";
    table[i].spoil(c);
    ck_assert_int_eq(contract_check(c, reason), table[i].e);
    ck_assert_msg(strstr(reason, table[i].says) != NULL, "%zu: %s", i, reason);
    contract_free(c);
  }
}
END_TEST

static struct contract *sets(void) {
  struct contract *c = kit_table();
  c->task = TASK_MULTILABEL;
  c->loss = LOSS_BINARY_CROSS_ENTROPY;
  c->label[0] = '\0';
  return c;
}

static struct contract *anomalies(void) {
  struct contract *c = kit_table();
  c->task = TASK_RECONSTRUCT;
  c->loss = LOSS_MEAN_SQUARED_ERROR;
  return c;
}

static void expect_text(const struct contract *c, const char *part) {
  char text[MAX_SCHEMA_TEXT_BYTES];
  size_t n;
  kit_check(c);
  ck_assert_int_eq(contract_text(c, text, sizeof text, &n), ERR_OK);
  ck_assert_msg(strstr(text, part) != NULL, "%s", text);
}

START_TEST(sets_have_a_column_each_or_one_for_all) {
  struct contract *c = sets();
  ck_assert(contract_has_class_columns(c));
  ck_assert_uint_eq(contract_n_outputs(c), 3);
  ck_assert_int_eq(contract_metric(c), METRIC_MACRO_F1);
  expect_text(c, "task: multilabel\nloss: binary-cross-entropy\nlabel: \"\"\nclass 0: \"ok\"\n");
  snprintf(c->label, sizeof c->label, "tags");
  ck_assert(!contract_has_class_columns(c));
  c->metric = METRIC_AUC;
  expect_text(c, "\nmetric: AUC\n");
  contract_free(c);
}
END_TEST

START_TEST(what_is_reconstructed_may_have_no_classes) {
  struct contract *c = anomalies();
  ck_assert_uint_eq(contract_n_outputs(c), 2);
  ck_assert_int_eq(contract_metric(c), METRIC_AUC);
  expect_text(c, "task: reconstruct\nloss: mean-squared-error\nlabel: \"verdict\"\nclass 0: \"ok\"\n");
  c->n_classes = 0;
  c->label[0] = '\0';
  ck_assert_int_eq(contract_metric(c), METRIC_R2);
  expect_text(c, "label: \"\"\nfeature 0: \"force_N\"\n");
  contract_free(c);
}
END_TEST

static void spoil_set_none(struct contract *c) {
  c->n_classes = 0;
}
static void spoil_set_feature(struct contract *c) {
  snprintf(c->features[1].name, sizeof c->features[1].name, "dent");
}
static void spoil_set_name(struct contract *c) {
  snprintf(c->classes[2].text, sizeof c->classes[2].text, "a;b");
}
static void spoil_set_loss(struct contract *c) {
  c->loss = LOSS_CROSS_ENTROPY;
}
static void spoil_set_metric(struct contract *c) {
  c->metric = METRIC_ACCURACY;
}
static void spoil_set_split(struct contract *c) {
  c->split = (struct split){.rule = SPLIT_SHARDS, .shards = 1, .n_parts = 2};
}
static void spoil_one_class(struct contract *c) {
  c->n_classes = 1;
}
static void spoil_label_alone(struct contract *c) {
  c->n_classes = 0;
}
static void spoil_no_label(struct contract *c) {
  c->label[0] = '\0';
}
static void spoil_huber(struct contract *c) {
  c->loss = LOSS_HUBER;
}

START_TEST(check_says_what_is_wrong_with_other_tasks) {
  static const struct {
    struct contract *(*make)(void);
    void (*spoil)(struct contract *);
    enum err e;
    const char *says;
  } table[] = {
      {sets, spoil_set_none, ERR_RANGE, "needs one or more"},
      {sets, spoil_set_feature, ERR_EXISTS, "the class \"dent\" is also a feature"},
      {sets, spoil_set_name, ERR_SYNTAX, "class \"a;b\" has a ';'"},
      {sets, spoil_set_loss, ERR_RANGE, "the loss of task multilabel is binary-cross-entropy, not cross-entropy"},
      {sets, spoil_set_metric, ERR_RANGE, "the metric of task multilabel is not accuracy"},
      {sets, spoil_set_split, ERR_RANGE, "a split of task multilabel is `iid`"},
      {anomalies, spoil_one_class, ERR_RANGE, "the first class is normal"},
      {anomalies, spoil_label_alone, ERR_RANGE, "give both `label` and `classes`"},
      {anomalies, spoil_no_label, ERR_RANGE, "give both `label` and `classes`"},
      {anomalies, spoil_huber, ERR_RANGE, "the loss of task reconstruct is mean-squared-error, not huber"},
      {anomalies, spoil_set_metric, ERR_RANGE, "the metric of task reconstruct is not accuracy"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct contract *c = table[i].make();
    char reason[MAX_REASON_BYTES] = "";
    kit_check(c);
    table[i].spoil(c);
    ck_assert_int_eq(contract_check(c, reason), table[i].e);
    ck_assert_msg(strstr(reason, table[i].says) != NULL, "%zu: %s", i, reason);
    contract_free(c);
  }
}
END_TEST

/* In binary 0.9 + 0.05 is more than 0.95. */
START_TEST(the_most_that_is_kept_apart_is_allowed) {
  struct contract *c = inspection();
  c->holdout = 0.9, c->validation = 0.05;
  kit_check(c);
  contract_free(c);
}
END_TEST

START_TEST(regression_splits_only_evenly) {
  struct contract *c = contract_new();
  char reason[MAX_REASON_BYTES] = "";
  c->task = TASK_REGRESS;
  c->loss = LOSS_MEAN_SQUARED_ERROR;
  snprintf(c->label, sizeof c->label, "y");
  ck_assert_int_eq(contract_add_feature(c, "x", "m"), ERR_OK);
  kit_check(c);
  ck_assert_uint_eq(contract_n_outputs(c), 1);
  c->split = (struct split){.rule = SPLIT_SHARDS, .shards = 2, .n_parts = 2};
  ck_assert_int_eq(contract_check(c, reason), ERR_RANGE);
  ck_assert_ptr_nonnull(strstr(reason, "`iid`"));
  c->split.rule = SPLIT_IID;
  kit_check(c);
  contract_free(c);
}
END_TEST

/* The headline has a line where it is not the task's own, so that contracts from before keep their hash. */
START_TEST(the_headline_is_a_fact) {
  char plain[1024], own[1024], other[1024], why[MAX_REASON_BYTES];
  size_t n;
  struct contract *c = contract_new();
  c->n_features = 0, c->height = c->width = c->channels = 1;
  ck_assert_int_eq(contract_add_class(c, "a"), ERR_OK);
  ck_assert_int_eq(contract_add_class(c, "b"), ERR_OK);
  ck_assert_int_eq(contract_text(c, plain, sizeof plain, &n), ERR_OK);
  c->metric = METRIC_ACCURACY;
  ck_assert_int_eq(contract_text(c, own, sizeof own, &n), ERR_OK);
  ck_assert_str_eq(own, plain);
  c->metric = METRIC_AUC;
  ck_assert_int_eq(contract_check(c, why), ERR_OK);
  ck_assert_int_eq(contract_text(c, other, sizeof other, &n), ERR_OK);
  ck_assert_ptr_nonnull(strstr(other, "\nmetric: AUC\n"));
  ck_assert_int_eq(contract_add_class(c, "c"), ERR_OK);
  ck_assert_int_eq(contract_check(c, why), ERR_RANGE);
  contract_free(c);
}
END_TEST

/* f32 and f16 merge alike; the others are facts on which peers agree. */
START_TEST(the_codec_is_a_fact_where_it_matters) {
  char plain[1024], other[1024];
  size_t n;
  struct contract *c = kit_table();
  ck_assert_int_eq(contract_text(c, plain, sizeof plain, &n), ERR_OK);
  c->codec.kind = CODEC_F16;
  ck_assert_int_eq(contract_text(c, other, sizeof other, &n), ERR_OK);
  ck_assert_str_eq(other, plain);
  c->codec.kind = CODEC_Q4;
  ck_assert_int_eq(contract_text(c, other, sizeof other, &n), ERR_OK);
  ck_assert_str_eq(other + strlen(plain), "codec: q4\n");
  c->codec = (struct codec){CODEC_TOPK, 0.015};
  ck_assert_int_eq(contract_text(c, other, sizeof other, &n), ERR_OK);
  ck_assert_str_eq(other + strlen(plain), "codec: topk\ncodec fraction: 0.015\n");
  contract_free(c);
}
END_TEST

START_TEST(names_have_a_length) {
  struct contract *c = kit_table();
  char name[MAX_NAME_BYTES + 1];
  memset(name, 'n', MAX_NAME_BYTES);
  name[MAX_NAME_BYTES] = '\0';
  ck_assert_int_eq(contract_add_class(c, name), ERR_LIMIT);
  ck_assert_int_eq(contract_add_feature(c, name, NULL), ERR_LIMIT);
  ck_assert_int_eq(contract_add_feature(c, "x", name), ERR_LIMIT);
  ck_assert_uint_eq(c->n_classes, 3);
  ck_assert_uint_eq(c->n_features, 2);
  name[MAX_NAME_BYTES - 1] = '\0';
  ck_assert_int_eq(contract_add_class(c, name), ERR_OK);
  contract_free(c);
  contract_free(NULL);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/contract", categories_and_missing_values_have_lines_where_they_are_used,
                   categories_and_missing_values_are_checked, text_is_one_fact_a_line, text_of_an_image_has_its_range,
                   names_cannot_forge_lines, text_and_hash_keep_their_limits, hash_follows_every_fact,
                   check_says_what_is_wrong, check_says_what_is_wrong_with_other_tasks,
                   sets_have_a_column_each_or_one_for_all, what_is_reconstructed_may_have_no_classes,
                   the_most_that_is_kept_apart_is_allowed, regression_splits_only_evenly, names_have_a_length,
                   the_headline_is_a_fact, the_codec_is_a_fact_where_it_matters);
}
