/* NumPy arrays as samples: through the readers, the profile and the check that other files go through. */
#include "models/data/array_pair.h"

#include <math.h>

#include "models/data/check.h"
#include "models/data/dataset.h"
#include "models/data/proposal.h"
#include "tests/unit/models/data_kit.h"
#include "tests/unit/suite.h"

/* A file with an ending, since formats are known by it; gone after kit_array_close. */
struct array_file {
  char path[40];
};

static struct array_file array_file(const struct array *a, const void *values) {
  struct array_file f = {"/tmp/test_array_pair_XXXXXX.npy"};
  struct array measured = *a;
  uint8_t head[NPY_MAX_HEAD_BYTES];
  ck_assert_int_eq(array_measure(&measured), ERR_OK);
  size_t n = npy_head_write(a, head);
  int fd = mkstemps(f.path, 4);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(write(fd, head, n), (ssize_t)n);
  ck_assert_int_eq(write(fd, values, measured.n_bytes), (ssize_t)measured.n_bytes);
  close(fd);
  return f;
}

static void fault_is(const struct data_file *file, const struct contract *c, enum err wanted, const char *says) {
  struct splits s = {0};
  struct data_place why = {0};
  enum err e = dataset_open(&(struct data_source){.train = *file}, c, &kit_digest, &s, &why);
  ck_assert_msg(e == wanted, "%s: %s", err_name(e), why.sentence);
  ck_assert_msg(strstr(why.sentence, says) != NULL, "%s", why.sentence);
  ck_assert(why.path[0] != '\0');
}

static struct splits open_ok(const struct data_file *file, const struct contract *c) {
  struct splits s = {0};
  struct data_place why = {0};
  enum err e = dataset_open(&(struct data_source){.train = *file}, c, &kit_digest, &s, &why);
  ck_assert_msg(e == ERR_OK, "%s: %s", why.path, why.sentence);
  return s;
}

static const int64_t labels[] = {0, 2, 1};

static struct array_file label_file(void) {
  return array_file(&(struct array){.type = ARRAY_I64, .rank = 1, .size = {3}}, labels);
}

START_TEST(floats_stay_floats_and_bytes_of_images_bytes) {
  static const float x[] = {0, 1, 2, 3, 4, 5};
  static const uint8_t pixels[] = {0, 51, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  struct contract *table = kit_table(), *image = kit_image(2, 2, 3);
  struct array_file a = array_file(&(struct array){.type = ARRAY_F32, .rank = 2, .size = {3, 2}}, x);
  struct array_file b = array_file(&(struct array){.type = ARRAY_U8, .rank = 3, .size = {3, 2, 2}}, pixels);
  struct array_file y = label_file();
  struct splits s = open_ok(&(struct data_file){a.path, y.path}, table);
  ck_assert_uint_eq(s.train->n, 3);
  ck_assert_mem_eq(s.train->floats, x, sizeof x);
  ck_assert_uint_eq(s.train->labels[1], 2);
  splits_close(&s);
  s = open_ok(&(struct data_file){b.path, y.path}, image);
  ck_assert_ptr_null(s.train->floats);
  ck_assert_mem_eq(s.train->bytes, pixels, sizeof pixels);
  float first[4];
  ck_assert_int_eq(dataset_gather(s.train, (const uint32_t[]){0}, 1, first), ERR_OK);
  ck_assert_float_eq(first[1], 0.2F); /* 51 of 255, 0 … 1 */
  splits_close(&s);
  fault_is(&(struct data_file){b.path, y.path}, table, ERR_RANGE, "has 4 values a sample, the contract 2 inputs");
  contract_free(table);
  contract_free(image);
  unlink(a.path);
  unlink(b.path);
  unlink(y.path);
}
END_TEST

START_TEST(bytes_of_rows_are_numbers) {
  static const uint8_t x[] = {0, 1, 200, 3, 4, 5};
  struct contract *c = kit_table();
  struct array_file a = array_file(&(struct array){.type = ARRAY_U8, .rank = 2, .size = {3, 2}}, x);
  struct array_file y = label_file();
  struct splits s = open_ok(&(struct data_file){a.path, y.path}, c);
  ck_assert_float_eq(s.train->floats[2], 200);
  splits_close(&s);
  contract_free(c);
  unlink(a.path);
  unlink(y.path);
}
END_TEST

START_TEST(fortran_order_gives_the_same_samples) {
  struct contract *c = kit_image(2, 2, 3);
  struct data_place why = {0};
  struct array_sample a, b;
  struct array_file y = label_file();
  struct array_pair *plain = NULL, *fortran = NULL;
  c->range_lo = -100;
  c->range_hi = 100;
  ck_assert_int_eq(
      array_pair_open(&(struct data_file){"tests/unit/models/arrays/f4_le.npy", y.path}, c, ARRAYS_BOTH, &plain, &why),
      ERR_OK);
  ck_assert_int_eq(array_pair_open(&(struct data_file){"tests/unit/models/arrays/f4_fortran.npy", y.path}, c,
                                   ARRAYS_BOTH, &fortran, &why),
                   ERR_OK);
  for (uint32_t i = 0; i < array_pair_samples(plain); i++) {
    ck_assert_int_eq(array_pair_next(plain, &a, &why), ERR_OK);
    ck_assert_int_eq(array_pair_next(fortran, &b, &why), ERR_OK);
    for (size_t k = 0; k < 4; k++) {
      ck_assert_float_eq(a.floats[k], (float)(4 * (size_t)i + k) - 4);
      ck_assert_float_eq(b.floats[k], a.floats[k]);
    }
    ck_assert_double_eq(a.labels[0], (double)labels[i]);
  }
  ck_assert_int_eq(array_pair_end(plain, &why), ERR_OK);
  ck_assert_int_eq(array_pair_end(fortran, &why), ERR_OK);
  array_pair_close(plain);
  array_pair_close(fortran);
  contract_free(c);
  unlink(y.path);
}
END_TEST

START_TEST(an_archive_has_inputs_and_labels) {
  struct contract *c = kit_image(2, 2, 3);
  c->range_lo = -100;
  c->range_hi = 100;
  struct splits s = open_ok(&(struct data_file){"tests/unit/models/arrays/stored.npz", NULL}, c);
  ck_assert_uint_eq(s.train->n, 3);
  ck_assert_float_eq(s.train->floats[11], 7);
  ck_assert_uint_eq(s.train->labels[2], 2);
  splits_close(&s);
  fault_is(&(struct data_file){"tests/unit/models/arrays/deflate.npz", NULL}, c, ERR_NOT_FOUND, "x_train, y_train");
  s = open_ok(&(struct data_file){"tests/unit/models/arrays/deflate.npz:x_train",
                                  "tests/unit/models/arrays/deflate.npz:y_train"},
              c);
  ck_assert_uint_eq(s.train->bytes[11], 11);
  splits_close(&s);
  fault_is(&(struct data_file){"tests/unit/models/arrays/f4_le.npy", NULL}, c, ERR_RANGE, "its labels are missing");
  contract_free(c);
}
END_TEST

START_TEST(a_shape_that_means_something_else_is_refused) {
  static const float x[3 * 24] = {0};
  struct contract *c = kit_image(4, 2, 3);
  struct array_file y = label_file();
  static const struct {
    struct array array;
    enum err e;
    const char *says;
  } cases[] = {{{.type = ARRAY_F32, .rank = 4, .size = {3, 4, 2, 3}}, ERR_OK, ""},
               {{.type = ARRAY_F32, .rank = 2, .size = {3, 24}}, ERR_OK, ""},
               {{.type = ARRAY_F32, .rank = 4, .size = {3, 3, 4, 2}}, ERR_RANGE, "x.transpose(0, 2, 3, 1)"},
               {{.type = ARRAY_F32, .rank = 4, .size = {3, 2, 4, 3}}, ERR_RANGE, "transpose the array or correct"},
               {{.type = ARRAY_F32, .rank = 3, .size = {3, 8, 3}}, ERR_RANGE, "the contract's inputs 4x2x3"},
               {{.type = ARRAY_F32, .rank = 1, .size = {72}}, ERR_RANGE, "1 values a sample"}};
  c->channels = 3;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct array_file a = array_file(&cases[i].array, x);
    const struct data_file file = {a.path, y.path};
    if (cases[i].e == ERR_OK) {
      struct splits s = open_ok(&file, c);
      splits_close(&s);
    } else {
      fault_is(&file, c, cases[i].e, cases[i].says);
    }
    unlink(a.path);
  }
  contract_free(c);
  unlink(y.path);
}
END_TEST

START_TEST(a_series_is_an_image_of_height_one) {
  static const float x[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  struct contract *c = kit_image(1, 2, 3);
  struct array_file y = label_file();
  struct array_file a = array_file(&(struct array){.type = ARRAY_F32, .rank = 3, .size = {3, 2, 2}}, x);
  c->channels = 2;
  c->range_lo = 0;
  c->range_hi = 20;
  struct splits s = open_ok(&(struct data_file){a.path, y.path}, c);
  ck_assert_float_eq(s.train->floats[7], 7);
  splits_close(&s);
  contract_free(c);
  unlink(a.path);
  unlink(y.path);
}
END_TEST

START_TEST(values_and_labels_keep_to_the_contract) {
  static const int64_t bad_labels[] = {0, 3, 1};
  static const float float_labels[] = {0, 1, 2}, one_hot[9] = {1};
  static const double x[] = {1, 2, 3, NAN, 5, 6}, y_far[] = {1, 2, 3, 4, 500, 6}, z[] = {1, 2, 3, 1e300, 5, 6};
  struct contract *c = kit_table();
  c->features[0].range_lo = 0;
  c->features[0].range_hi = 100;
  struct array_file y = label_file();
  struct array_file nan = array_file(&(struct array){.type = ARRAY_F64, .rank = 2, .size = {3, 2}}, x);
  struct array_file far = array_file(&(struct array){.type = ARRAY_F64, .rank = 2, .size = {3, 2}}, y_far);
  struct array_file huge = array_file(&(struct array){.type = ARRAY_F64, .rank = 2, .size = {3, 2}}, z);
  struct array_file l = array_file(&(struct array){.type = ARRAY_I64, .rank = 1, .size = {3}}, bad_labels);
  struct array_file lf = array_file(&(struct array){.type = ARRAY_F32, .rank = 1, .size = {3}}, float_labels);
  struct array_file lh = array_file(&(struct array){.type = ARRAY_F32, .rank = 2, .size = {3, 3}}, one_hot);
  struct array_file two = array_file(&(struct array){.type = ARRAY_I64, .rank = 1, .size = {2}}, labels);
  fault_is(&(struct data_file){nan.path, y.path}, c, ERR_RANGE, "sample 1, \"temp_C\" is not a number (NaN)");
  fault_is(&(struct data_file){far.path, y.path}, c, ERR_RANGE,
           "sample 2, \"force_N\" is 500, the contract allows 0 to 100");
  fault_is(&(struct data_file){huge.path, y.path}, c, ERR_RANGE, "sample 1, \"temp_C\" is infinite");
  c->features[0].range_lo = -INFINITY;
  c->features[0].range_hi = INFINITY;
  fault_is(&(struct data_file){far.path, l.path}, c, ERR_RANGE,
           "the label of sample 1 is 3, the contract has 3 classes");
  fault_is(&(struct data_file){far.path, lf.path}, c, ERR_UNSUPPORTED, "y.astype('int64')");
  fault_is(&(struct data_file){far.path, lh.path}, c, ERR_RANGE, "save y.argmax(1)");
  fault_is(&(struct data_file){far.path, two.path}, c, ERR_RANGE, "it has 2 labels for 3 samples");
  contract_free(c);
  enum { N_FILES = 8 };
  struct array_file *const all[N_FILES] = {&y, &nan, &far, &huge, &l, &lf, &lh, &two};
  for (size_t i = 0; i < N_FILES; i++)
    unlink(all[i]->path);
}
END_TEST

static bool has_finding(const struct findings *f, enum finding_code code) {
  for (size_t i = 0; i < f->n; i++)
    if (f->items[i].code == code && f->items[i].is_error)
      return true;
  return false;
}

/* Two classes of their own of three samples, as any type; one of a table, one of images. */
START_TEST(sets_are_columns_of_ones_and_zeros) {
  static const float x[] = {0, 1, 2, 3, 4, 5}, marks[] = {1, 0, 0, 0, 1, 1};
  static const uint8_t bits[] = {1, 0, 0, 0, 1, 1}, pixels[12] = {0};
  static const double half[] = {1, 0, 0, 0, 0.5, 1}, nan[] = {1, 0, 0, 0, 1, NAN};
  struct contract *table = kit_table(), *image = kit_image(2, 2, 2), *const all[] = {table, image};
  table->n_classes = 2;
  table->label[0] = '\0';
  for (size_t i = 0; i < 2; i++) {
    all[i]->task = TASK_MULTILABEL;
    all[i]->loss = LOSS_BINARY_CROSS_ENTROPY;
    kit_check(all[i]);
  }
  struct array_file rows = array_file(&(struct array){.type = ARRAY_F32, .rank = 2, .size = {3, 2}}, x);
  struct array_file images = array_file(&(struct array){.type = ARRAY_U8, .rank = 3, .size = {3, 2, 2}}, pixels);
  struct array_file f = array_file(&(struct array){.type = ARRAY_F32, .rank = 2, .size = {3, 2}}, marks);
  struct array_file b = array_file(&(struct array){.type = ARRAY_BOOL, .rank = 2, .size = {3, 2}}, bits);
  struct array_file h = array_file(&(struct array){.type = ARRAY_F64, .rank = 2, .size = {3, 2}}, half);
  struct array_file n = array_file(&(struct array){.type = ARRAY_F64, .rank = 2, .size = {3, 2}}, nan);
  struct array_file one = label_file();
  const struct data_file files[] = {{rows.path, f.path}, {rows.path, b.path}, {images.path, b.path}};
  for (size_t i = 0; i < 3; i++) {
    struct splits s = open_ok(&files[i], all[i / 2]);
    ck_assert(s.train->n == 3 && s.train->n_targets == 2 && s.train->labels == NULL);
    ck_assert_mem_eq(s.train->targets, marks, sizeof marks);
    ck_assert(s.train->class_counts[0] == 2 && s.train->class_counts[1] == 1);
    splits_close(&s);
  }
  fault_is(&(struct data_file){rows.path, h.path}, table, ERR_RANGE, "class \"ok\" of sample 2 is 0.5; write 1 where");
  fault_is(&(struct data_file){rows.path, n.path}, table, ERR_RANGE, "class \"scratch\" of sample 2 is nan");
  fault_is(&(struct data_file){rows.path, one.path}, table, ERR_RANGE, "have 1 values each, the contract 2 classes");
  struct profile *p = NULL;
  struct data_place why = {0};
  const struct profile_options options = {.contract = table, .fn = &kit_digest};
  ck_assert_int_eq(profile_read(&files[0], &options, &p, &why), ERR_OK);
  ck_assert_uint_eq(profile_column(p, "ok")->n, 3);
  ck_assert(p->n_classes == 2 && p->classes[0].seen.n == 2 && p->classes[1].seen.n == 1);
  ck_assert_uint_eq(profile_column(p, "ok")->outside.n, 0);
  profile_free(p);
  ck_assert_int_eq(profile_read(&(struct data_file){rows.path, h.path}, &options, &p, &why), ERR_OK);
  struct findings found = {0};
  ck_assert_int_eq(check_training(p, table, &found), ERR_OK);
  ck_assert(has_finding(&found, FINDING_RANGE) && !has_finding(&found, FINDING_COLUMN_MISSING));
  findings_done(&found);
  profile_free(p);
  contract_free(table);
  contract_free(image);
  const char *const made[] = {rows.path, images.path, f.path, b.path, h.path, n.path, one.path};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++)
    unlink(made[i]);
}
END_TEST

/* One number a sample is learnt. */
START_TEST(several_targets_are_refused) {
  static const float x[] = {0, 1, 2, 3, 4, 5};
  struct contract *c = kit_table();
  c->task = TASK_REGRESS;
  c->loss = LOSS_MEAN_SQUARED_ERROR;
  c->n_classes = 0;
  struct array_file a = array_file(&(struct array){.type = ARRAY_F32, .rank = 2, .size = {3, 2}}, x);
  fault_is(&(struct data_file){a.path, a.path}, c, ERR_RANGE,
           "it has 2 targets a sample, and a job learns one number; save y[:, 0], and make a job of each");
  contract_free(c);
  unlink(a.path);
}
END_TEST

START_TEST(the_check_tells_what_the_reader_refuses) {
  static const double x[] = {1, 2, 3, NAN, INFINITY, 6};
  static const int64_t bad_labels[] = {0, 3, 1};
  struct contract *c = kit_table();
  struct profile *p = NULL;
  struct findings f = {0};
  struct data_place why = {0};
  struct array_file a = array_file(&(struct array){.type = ARRAY_F64, .rank = 2, .size = {3, 2}}, x);
  struct array_file l = array_file(&(struct array){.type = ARRAY_I64, .rank = 1, .size = {3}}, bad_labels);
  const struct profile_options options = {.contract = c, .fn = &kit_digest};
  ck_assert_msg(profile_read(&(struct data_file){a.path, l.path}, &options, &p, &why) == ERR_OK, "%s", why.sentence);
  ck_assert_int_eq(check_training(p, c, &f), ERR_OK);
  ck_assert_uint_eq(p->n_samples, 3);
  ck_assert(has_finding(&f, FINDING_MISSING_VALUE));
  ck_assert(has_finding(&f, FINDING_NOT_A_NUMBER));
  ck_assert(has_finding(&f, FINDING_CLASS_UNKNOWN));
  findings_done(&f);
  profile_free(p);
  contract_free(c);
  unlink(a.path);
  unlink(l.path);
}
END_TEST

static struct contract *propose(const struct data_file *file) {
  struct profile *p = NULL;
  struct contract *c = NULL;
  struct data_place why = {0};
  char reason[MAX_REASON_BYTES] = "";
  ck_assert_msg(profile_read(file, &(struct profile_options){0}, &p, &why) == ERR_OK, "%s", why.sentence);
  ck_assert_msg(contract_propose(p, NULL, &c, reason) == ERR_OK, "%s", reason);
  profile_free(p);
  return c;
}

START_TEST(a_contract_is_proposed_of_arrays) {
  static const float targets[] = {0.5F, 1.5F, 2};
  struct array_file y = label_file();
  struct array_file t = array_file(&(struct array){.type = ARRAY_F32, .rank = 1, .size = {3}}, targets);
  static const float x[] = {0, 1, 2, 3, 4, 50};
  struct array_file a = array_file(&(struct array){.type = ARRAY_F32, .rank = 2, .size = {3, 2}}, x);
  struct contract *c = propose(&(struct data_file){"tests/unit/models/arrays/u1_xx.npy", y.path});
  ck_assert_int_eq(c->task, TASK_CLASSIFY);
  ck_assert_uint_eq(c->n_classes, 3);
  ck_assert(contract_is_image(c));
  ck_assert_uint_eq(c->height * 100 + c->width * 10 + c->channels, 221);
  ck_assert_double_eq(c->range_hi, 1);
  contract_free(c);
  c = propose(&(struct data_file){"tests/unit/models/arrays/f4_le.npy", t.path});
  ck_assert_int_eq(c->task, TASK_REGRESS);
  ck_assert_uint_eq(c->height * 100 + c->width * 10 + c->channels, 122);
  ck_assert_double_le(c->range_lo, -4);
  ck_assert_double_ge(c->range_hi, 7);
  contract_free(c);
  c = propose(&(struct data_file){a.path, y.path});
  ck_assert_uint_eq(c->n_features, 2);
  ck_assert_str_eq(c->features[1].name, "x1");
  ck_assert_str_eq(c->label, "y");
  c->holdout = c->validation = 0;
  struct splits s = open_ok(&(struct data_file){a.path, y.path}, c);
  splits_close(&s);
  contract_free(c);
  unlink(y.path);
  unlink(t.path);
  unlink(a.path);
}
END_TEST

int main(void) {
  return SUITE_RUN("array_pair", floats_stay_floats_and_bytes_of_images_bytes, bytes_of_rows_are_numbers,
                   fortran_order_gives_the_same_samples, an_archive_has_inputs_and_labels,
                   a_shape_that_means_something_else_is_refused, a_series_is_an_image_of_height_one,
                   values_and_labels_keep_to_the_contract, sets_are_columns_of_ones_and_zeros,
                   several_targets_are_refused, the_check_tells_what_the_reader_refuses,
                   a_contract_is_proposed_of_arrays);
}
