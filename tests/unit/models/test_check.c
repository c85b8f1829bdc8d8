#include "models/data/check.h"

#include <math.h>

#include "models/data/proposal.h"
#include "tests/unit/models/data_kit.h"
#include "tests/unit/suite.h"

/* force_N about 14.2 (sd 3.1), temp_C about 21.5 (sd 4), −40..85. */
static struct contract *press(void) {
  struct contract *c = kit_table();
  ck_assert_int_eq(scale_init(&c->scale, SCALE_FIXED, 2), ERR_OK);
  c->scale.mean[0] = 14.2;
  c->scale.sd[0] = 3.1;
  c->scale.mean[1] = 21.5;
  c->scale.sd[1] = 4;
  c->features[1].range_lo = -40;
  c->features[1].range_hi = 85;
  kit_check(c);
  return c;
}

/* Ripples that give a row's force and temperature the contract's mean and about its sd. */
static double ripple(int i) {
  return ((i * 7) % 11 - 5) / 3.16;
}

static const char *const classes[] = {"ok", "scratch", "dent"};

/* n rows with a · temperature + b. */
static struct kit_file rows(int n, double a, double b) {
  struct kit_file f = kit_text("force_N,temp_C,verdict\n");
  for (int i = 0; i < n; i++)
    dprintf(f.fd, "%.4f,%.4f,%s\n", 14.2 + 3.1 * ripple(i + 3), a * (21.5 + 4 * ripple(i)) + b, classes[i % 3]);
  return f;
}

static struct profile *profiled(const struct data_file *file, const struct contract *c,
                                const struct sample_set *against) {
  const struct profile_options options = {.contract = c, .fn = &kit_digest, .against = against};
  struct profile *p = NULL;
  struct data_place why = {0};
  enum err e = profile_read(file, &options, &p, &why);
  ck_assert_msg(e == ERR_OK, "%s", why.sentence);
  return p;
}

static struct findings checked(const struct data_file *file, const struct contract *c) {
  struct findings f = {0};
  struct profile *p = profiled(file, c, NULL);
  ck_assert_int_eq(check_training(p, c, &f), ERR_OK);
  profile_free(p);
  return f;
}

static struct findings checked_text(struct kit_file *f, const struct contract *c) {
  struct findings found = checked(&(struct data_file){f->path, NULL}, c);
  kit_file_close(f);
  return found;
}

/* The finding of this code about something; its sentence says `says`. */
static const struct finding *expect(const struct findings *f, enum finding_code code, const char *about, bool is_error,
                                    const char *says) {
  for (size_t i = 0; i < f->n; i++)
    if (f->items[i].code == code && strcmp(f->items[i].about, about) == 0) {
      ck_assert_msg(strstr(f->items[i].sentence, says) != NULL, "%s: %s", about, f->items[i].sentence);
      ck_assert_int_eq(f->items[i].is_error, is_error);
      return &f->items[i];
    }
  for (size_t i = 0; i < f->n; i++)
    fprintf(stderr, "%s: %s: %s\n", finding_name(f->items[i].code), f->items[i].about, f->items[i].sentence);
  ck_abort_msg("no finding %s about %s", finding_name(code), about);
}

START_TEST(good_data_have_no_finding) {
  struct contract *c = press();
  struct kit_file f = rows(300, 1, 0);
  struct profile *p = profiled(&(struct data_file){f.path, NULL}, c, NULL);
  struct findings found = {0};
  ck_assert_int_eq(check_training(p, c, &found), ERR_OK);
  ck_assert_msg(found.n == 0, "%s: %s", found.items[0].about, found.items[0].sentence);
  ck_assert_uint_eq(check_features_ok(&found, c), 2);
  ck_assert_uint_eq(check_classes_present(p, c), 3);
  ck_assert_uint_eq(p->n_samples, 300);
  const struct column_profile *force = profile_column(p, "force_N");
  ck_assert_uint_eq(force->n, 300);
  ck_assert_double_eq_tol(force->mean, 14.2, 0.05);
  ck_assert_double_eq_tol(column_sd(force), 3.1, 0.05);
  ck_assert_double_eq_tol(force->min, 14.2 - 3.1 * 5 / 3.16, 1e-3);
  profile_free(p);
  findings_done(&found);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(wrong_units_are_named) {
  static const struct {
    double a, b; /* what the site feeds, from °C */
    const char *word;
  } cases[] = {
      {1, 273.15, ": Kelvin? subtract 273.15"},
      {1.8, 32, ": Fahrenheit? subtract 32"},
      {1000, 0, ": in thousandths? divide by 1000"},
      {100, 0, ": percent? divide by 100"},
      {255, 0, ": 0..255 instead of 0..1? divide by 255"},
      {1e-2, 0, ": fractions instead of percent? multiply by 100"},
      {1 / 255.0, 0, ": 0..1 instead of 0..255? multiply by 255"},
      {0.25, -21.5 / 4, ": standardised already? give the raw values"},
  };
  for (int with_scale = 0; with_scale < 2; with_scale++)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      struct contract *c = press();
      struct kit_file f = rows(300, cases[i].a, cases[i].b);
      bool is_absurd = fabs(cases[i].a * 21.5 + cases[i].b - 21.5) / 4 > 10;
      bool is_told_by_range = fabs(cases[i].a * 21.5 + cases[i].b) > 85;
      if (!with_scale) {
        scale_done(&c->scale);
        c->features[1].range_lo = 0;
        c->features[1].range_hi = 40;
      }
      struct findings found = checked_text(&f, c);
      if (with_scale || is_told_by_range)
        expect(&found, FINDING_UNIT, "feature 1 \"temp_C\"", is_told_by_range || is_absurd, cases[i].word);
      findings_done(&found);
      contract_free(c);
    }
}
END_TEST

START_TEST(kelvin_is_told_as_people_do) {
  struct contract *c = press();
  struct kit_file f = rows(300, 1, 273.15);
  struct findings found = checked_text(&f, c);
  const struct finding *unit = expect(&found, FINDING_UNIT, "feature 1 \"temp_C\"", true,
                                      "mean 294.6 but contract range -40..85: Kelvin? subtract 273.15");
  ck_assert_uint_eq(unit->line, 2);
  ck_assert(found.n == 1 && found.n_errors == 1 && check_features_ok(&found, c) == 1);
  findings_done(&found);
  contract_free(c);
}
END_TEST

START_TEST(a_few_outliers_are_no_unit) {
  struct contract *c = press();
  struct kit_file f = rows(300, 1, 0);
  dprintf(f.fd, "14,900,ok\n");
  struct findings found = checked_text(&f, c);
  const struct finding *range =
      expect(&found, FINDING_RANGE, "feature 1 \"temp_C\"", true, "1 of 301 values are outside");
  ck_assert_uint_eq(range->line, 302);
  findings_done(&found);
  contract_free(c);
}
END_TEST

START_TEST(a_far_mean_without_a_known_unit_is_another_scaling) {
  struct contract *c = press();
  struct kit_file f = rows(300, 1, 20);
  struct findings found = checked_text(&f, c);
  expect(&found, FINDING_SCALING, "feature 1 \"temp_C\"", false, "mean 41.48, sd 4 but contract mean 21.5, sd 4");
  findings_done(&found);
  contract_free(c);
}
END_TEST

/* One file with everything wrong: no finding hides another. */
START_TEST(every_finding_is_told) {
  struct contract *c = press();
  struct kit_file f = kit_text("note,temp_C,force_N,verdict,id\n");
  snprintf(c->holdout_by, sizeof c->holdout_by, "batch");
  for (int i = 0; i < 20; i++)
    dprintf(f.fd, "x,21.5,%.3f,ok,%d\n", 14.2 + ripple(i), i);
  dprintf(f.fd, "x,21.5,,ok,1\n" /* line 22 */
                "x,21.5,nan,ok,1\n"
                "x,21.5,5 N,ok,1\n" /* line 24 */
                "x,21,5,14,ok,1\n"  /* ragged */
                "x,21.5,14,dents,1\n"
                "x,21.5,14,,1\n"
                "x,21.5,14,dent,1\n");
  struct findings found = checked_text(&f, c);
  ck_assert_uint_eq(expect(&found, FINDING_MISSING_VALUE, "feature 0 \"force_N\"", true, "2 values are missing")->line,
                    22);
  ck_assert_uint_eq(
      expect(&found, FINDING_NOT_A_NUMBER, "feature 0 \"force_N\"", true, "1 values are no numbers")->line, 24);
  expect(&found, FINDING_CONSTANT, "feature 1 \"temp_C\"", false, "every value is 21.5");
  expect(&found, FINDING_COLUMN_MISSING, "columns", true, "\"batch\", which holdout_by names");
  ck_assert_uint_eq(expect(&found, FINDING_RAGGED, "columns", true, "1 rows do not have the header's 5 fields")->line,
                    25);
  expect(&found, FINDING_COLUMN_EXTRA, "columns", false, "not in the contract and ignored: 2, the first is \"note\"");
  expect(&found, FINDING_COLUMN_ORDER, "columns", false, "nothing need be done");
  expect(&found, FINDING_MISSING_VALUE, "label \"verdict\"", true, "1 labels are missing");
  expect(&found, FINDING_CLASS_ABSENT, "class 1 \"scratch\"", false, "has no sample here");
  expect(&found, FINDING_CLASS_TINY, "class 2 \"dent\"", false, "has 1 samples");
  ck_assert_uint_eq(expect(&found, FINDING_CLASS_UNKNOWN, "class \"dents\"", true, "is not in the contract")->line, 26);
  expect(&found, FINDING_FEW_SAMPLES, "samples", false, "there are 26");
  ck_assert_uint_eq(found.n, 12);
  ck_assert_uint_eq(found.n_errors, 6);
  ck_assert_uint_eq(check_features_ok(&found, c), 0);
  findings_done(&found);

  f = kit_text("temp_C,temp_C,verdict\n1,2,ok\n");
  found = checked_text(&f, c);
  expect(&found, FINDING_COLUMN_MISSING, "feature 0 \"force_N\"", true, "there is no such column");
  expect(&found, FINDING_COLUMN_REPEATED, "columns", true, "stands twice");
  expect(&found, FINDING_FEW_SAMPLES, "samples", true, "too few to learn from");
  findings_done(&found);
  f = kit_text("temp_C;force_N;verdict\n1;2;ok\n");
  found = checked_text(&f, c);
  expect(&found, FINDING_COLUMN_MISSING, "feature 0 \"force_N\"", true, "separated by commas?");
  expect(&found, FINDING_COLUMN_MISSING, "label \"verdict\"", true, "there is no such column");
  findings_done(&found);
  contract_free(c);
}
END_TEST

START_TEST(test_samples_that_were_trained_on_are_counted) {
  struct contract *c = press();
  struct kit_file train = rows(40, 1, 0), test = kit_text("verdict,temp_C,force_N\n");
  for (int i = 0; i < 6; i++) /* of two rows that are the training file's, in another order and layout */
    dprintf(test.fd, "ok,%.4f0,%.4f\n", 21.5 + 4 * ripple(i), 14.2 + 3.1 * ripple(i + 3) + (i < 2 ? 0 : 0.5));
  struct profile *p = profiled(&(struct data_file){train.path, NULL}, c, NULL);
  struct profile *t = profiled(&(struct data_file){test.path, NULL}, c, p->samples);
  struct findings found = {0};
  ck_assert_uint_eq(t->n_duplicates, 2);
  ck_assert(!sample_set_is_full(p->samples));
  ck_assert_int_eq(check_test(t, c, &found), ERR_OK);
  expect(&found, FINDING_DUPLICATES, "samples", false, "2 of 6 test samples stand in the training file too");
  findings_done(&found);
  profile_free(t);
  t = profiled(&(struct data_file){train.path, NULL}, c, p->samples);
  ck_assert_int_eq(check_test(t, c, &found), ERR_OK);
  expect(&found, FINDING_DUPLICATES, "samples", true, "40 of 40");
  findings_done(&found);
  profile_free(t);
  profile_free(p);
  kit_file_close(&train);
  kit_file_close(&test);
  contract_free(c);
}
END_TEST

static struct kit_file images(uint32_t n, int step) {
  uint8_t bytes[16 + 64 * 4];
  size_t at = kit_idx_head(bytes, 8, 3, (uint32_t[]){n, 2, 2});
  for (uint32_t i = 0; i < 4 * n; i++)
    bytes[at++] = (uint8_t)(i % 2 * (unsigned)step + (step > 1 ? i % 7 : 0));
  return kit_file(bytes, at);
}

START_TEST(images_are_judged_as_one_quantity) {
  struct contract *c = kit_image(2, 2, 3);
  uint8_t bytes[8 + 64];
  size_t at = kit_idx_head(bytes, 8, 1, (uint32_t[]){60});
  for (int i = 0; i < 60; i++)
    bytes[at++] = (uint8_t)(i % 2 ? 0 : i == 2 ? 7 : 1);
  struct kit_file labels = kit_file(bytes, at), good = images(60, 240), dark = images(60, 1);
  struct findings found = checked(&(struct data_file){good.path, labels.path}, c);
  expect(&found, FINDING_CLASS_UNKNOWN, "class \"7\"", true, "1 samples have it");
  expect(&found, FINDING_CLASS_ABSENT, "class 2 \"c2\"", false, "no sample");
  ck_assert_uint_eq(found.n, 2);
  findings_done(&found);
  found = checked(&(struct data_file){dark.path, labels.path}, c);
  expect(&found, FINDING_UNIT, "images", false, "every byte is 0 or 1");
  findings_done(&found);
  ck_assert_int_eq(scale_init(&c->scale, SCALE_FIXED, 1), ERR_OK);
  c->scale.mean[0] = 0.45;
  c->scale.sd[0] = 0.47;
  c->range_lo = 0;
  c->range_hi = 255; /* while the numbers of the scaling are those of 0..1 */
  found = checked(&(struct data_file){good.path, labels.path}, c);
  expect(&found, FINDING_UNIT, "images", true, ": 0..255 instead of 0..1? divide by 255");
  findings_done(&found);
  c->height = 4;
  c->range_hi = 1;
  found = checked(&(struct data_file){good.path, labels.path}, c);
  expect(&found, FINDING_SHAPE, "images", true, "they are 2x2x1, the contract's 4x2x1");
  findings_done(&found);
  kit_file_close(&labels);
  kit_file_close(&good);
  kit_file_close(&dark);
  contract_free(c);
}
END_TEST

START_TEST(samples_that_were_read_are_judged_too) {
  struct contract *c = press();
  struct kit_file f = rows(300, 255, 0);
  struct splits s = {0};
  struct data_place why;
  struct findings found = {0};
  c->features[1].range_hi = INFINITY;
  ck_assert_int_eq(dataset_open(&(struct data_source){.train = {f.path, NULL}}, c, &kit_digest, &s, &why), ERR_OK);
  ck_assert_int_eq(check_dataset(s.train, c, &found), ERR_OK);
  ck_assert_uint_eq(found.n, 1);
  expect(&found, FINDING_UNIT, "feature 1 \"temp_C\"", true, ": 0..255 instead of 0..1? divide by 255");
  findings_done(&found);
  splits_close(&s);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

/* n rows of which every tenth lacks its temperature, and every ninth its line. */
static struct kit_file typed_rows(int n, const char *rest) {
  struct kit_file f = kit_text("force_N,temp_C,line,verdict\n");
  for (int i = 0; i < n; i++) {
    char temp[16];
    snprintf(temp, sizeof temp, "%.4f", 21.5 + 4 * ripple(i));
    dprintf(f.fd, "%.4f,%s,%s,%s\n", 14.2 + 3.1 * ripple(i + 3), i % 10 == 9 ? "" : temp,
            i % 9 == 8   ? "NA"
            : i % 2 == 0 ? "left"
                         : "right",
            classes[i % 3]);
  }
  dprintf(f.fd, "%s", rest);
  return f;
}

/* Small values are no standardised ones where the contract's scaling says that they are small. */
START_TEST(a_range_that_is_too_narrow_is_named) {
  struct contract *c = press();
  c->scale.mean[1] = 0.1;
  c->scale.sd[1] = 1.1;
  c->features[1].range_lo = 0;
  c->features[1].range_hi = 1;
  struct kit_file f = rows(300, 0.25, -21.5 / 4);
  struct findings found = checked_text(&f, c);
  expect(&found, FINDING_RANGE, "feature 1 \"temp_C\"", true, "or widen the range");
  ck_assert_uint_eq(found.n, 1);
  findings_done(&found);
  contract_free(c);
}
END_TEST

/* Proposes from the text; "" is no label column. */
static enum err proposed(const struct kit_file *f, const char *label, const enum task *task, struct contract **out_c,
                         char reason[MAX_REASON_BYTES]) {
  const struct profile_options options = {.label = label};
  struct profile *p = NULL;
  struct data_place why = {0};
  ck_assert_int_eq(profile_read(&(struct data_file){f->path, NULL}, &options, &p, &why), ERR_OK);
  enum err e = contract_propose(p, task, out_c, reason);
  profile_free(p);
  return e;
}

/* A counter is no feature, half is no yes and no; sets of classes are columns of 0 and 1, or names with ';' between. */
START_TEST(columns_are_told_apart) {
  struct kit_file f = kit_text("id,x,half,hot,loud,tags\n");
  for (int i = 0; i < 60; i++)
    dprintf(f.fd, "%d,%d,%s,%d,%d,%s\n", 100 + (i * 7) % 60, i % 2 ? -1 : 1,
            i % 3 == 0   ? "0.5"
            : i % 3 == 1 ? "0"
                         : "1",
            i % 4 == 0, i % 5 == 0, i % 4 == 0 ? "hot; loud" : "loud");
  const enum task multilabel = TASK_MULTILABEL;
  struct contract *c = NULL;
  char reason[MAX_REASON_BYTES];
  ck_assert_msg(proposed(&f, "", &multilabel, &c, reason) == ERR_OK, "%s", reason);
  ck_assert(c->n_classes == 2 && c->n_features == 3 && c->label[0] == '\0');
  ck_assert_str_eq(c->classes[0].text, "hot");
  ck_assert_str_eq(c->features[0].name, "x");
  ck_assert_str_eq(c->features[1].name, "half");
  ck_assert(c->scale.mean[0] == 0 && !signbit(c->scale.mean[0]));
  contract_free(c);
  ck_assert_msg(proposed(&f, NULL, NULL, &c, reason) == ERR_OK, "%s", reason);
  ck_assert(c->task == TASK_MULTILABEL && c->n_classes == 2 && c->n_features == 4);
  ck_assert_str_eq(c->label, "tags");
  contract_free(c);
  kit_file_close(&f);
  f = kit_text("x,tags\n0.5,hot\n1,loud\n");
  ck_assert_int_eq(proposed(&f, "", &multilabel, &c, reason), ERR_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(reason, "by --label"));
  kit_file_close(&f);
}
END_TEST

START_TEST(categories_and_blanks_are_proposed_and_checked) {
  struct kit_file f = typed_rows(300, ""), odd = typed_rows(300, "14,21,middle,ok\n");
  struct contract *c = NULL;
  char reason[MAX_REASON_BYTES];
  ck_assert_msg(proposed(&f, NULL, NULL, &c, reason) == ERR_OK, "%s", reason);
  ck_assert(c->n_features == 3 && c->scale.n == 2 && c->features[2].n_categories == 3);
  ck_assert_str_eq(c->features[2].categories[0].text, "left");
  ck_assert_str_eq(c->features[2].categories[2].text, CATEGORY_MISSING);
  ck_assert(c->features[1].missing.rule == MISSING_MEAN && c->features[0].missing.rule == MISSING_INHERITED);
  struct findings found = checked(&(struct data_file){f.path, NULL}, c);
  expect(&found, FINDING_MISSING_VALUE, "feature 1 \"temp_C\"", false, "30 of 300 values are missing; 21.");
  ck_assert_uint_eq(found.n, 1);
  findings_done(&found);
  found = checked_text(&odd, c);
  const struct finding *unknown =
      expect(&found, FINDING_CATEGORY_UNKNOWN, "feature 2 \"line\"", true, "the first is \"middle\"");
  ck_assert_uint_eq(unknown->line, 302);
  findings_done(&found);
  c->features[2].n_categories = 2; /* without `missing` */
  found = checked_text(&f, c);
  expect(&found, FINDING_MISSING_VALUE, "feature 2 \"line\"", true, "list the category \"missing\"");
  findings_done(&found);
  contract_free(c);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/check", categories_and_blanks_are_proposed_and_checked, columns_are_told_apart,
                   a_range_that_is_too_narrow_is_named, good_data_have_no_finding, wrong_units_are_named,
                   kelvin_is_told_as_people_do, a_few_outliers_are_no_unit,
                   a_far_mean_without_a_known_unit_is_another_scaling, every_finding_is_told,
                   test_samples_that_were_trained_on_are_counted, images_are_judged_as_one_quantity,
                   samples_that_were_read_are_judged_too);
}
