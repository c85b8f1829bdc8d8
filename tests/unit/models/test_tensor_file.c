#include "models/formats/tensor_file.h"

#include <math.h>
#include <sys/stat.h>

#include "models/formats/safetensors.h"
#include "tests/unit/models/data_kit.h"
#include "tests/unit/suite.h"

static enum err read_head(const char *text, uint64_t n_data, struct safetensors_head *h, char why[MAX_REASON_BYTES]) {
  why[0] = '\0';
  enum err e = safetensors_head_read(text, strlen(text), n_data, h, why);
  ck_assert_int_eq(e == ERR_OK, why[0] == '\0');
  return e;
}

START_TEST(a_head_lists_tensors_by_place) {
  struct safetensors_head h;
  char why[MAX_REASON_BYTES];
  ck_assert_int_eq(read_head("{\"__metadata__\":{\"format\":\"pt\"},"
                             "\"b\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[8,12]},"
                             "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                             "\"c\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[12,20]}}   ",
                             20, &h, why),
                   ERR_OK);
  ck_assert_uint_eq(h.n, 3);
  ck_assert_str_eq(h.tensors[0].name, "a");
  ck_assert_str_eq(h.tensors[1].name, "b");
  ck_assert_int_eq(h.tensors[1].array.type, ARRAY_F16);
  ck_assert_uint_eq(h.tensors[2].array.rank, 0);
  ck_assert_uint_eq(h.n_notes, 1);
  ck_assert_str_eq(h.notes[0].text, "pt");
  safetensors_head_done(&h);
}
END_TEST

#define F32(offsets, shape) "{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"

START_TEST(a_head_that_lies_is_refused) {
  static const struct {
    const char *text;
    uint64_t n_data;
    enum err e;
    const char *says;
  } cases[] = {
      {"", 0, ERR_SYNTAX, "no JSON of tensors"},
      {"[]", 0, ERR_SYNTAX, "no JSON"},
      {"{}", 0, ERR_RANGE, "no tensors"},
      {"{\"a\":1}", 0, ERR_SYNTAX, "no JSON"},
      {"{\"a\":" F32("0,8", "2") "", 8, ERR_SYNTAX, "no JSON"},
      {"{\"a\":" F32("0,8", "2") "} x", 8, ERR_SYNTAX, "no JSON"},
      {"{\"a\":" F32("0,8", "2") ",\"a\":" F32("8,16", "2") "}", 16, ERR_EXISTS, "twice"},
      {"{\"a\":" F32("0,8", "2") ",\"b\":" F32("4,12", "2") "}", 12, ERR_CORRUPT, "a and b overlap"},
      {"{\"a\":" F32("0,8", "2") ",\"b\":" F32("12,20", "2") "}", 20, ERR_CORRUPT, "4 bytes before tensor b"},
      {"{\"a\":" F32("4,12", "2") "}", 12, ERR_CORRUPT, "4 bytes before tensor a"},
      {"{\"a\":" F32("0,8", "2") "}", 12, ERR_TRAILING, "4 bytes follow"},
      {"{\"a\":" F32("0,8", "2") "}", 7, ERR_TRUNCATED, "ends at byte 8 of 7"},
      {"{\"a\":" F32("8,0", "2") "}", 8, ERR_CORRUPT, "ends before it begins"},
      {"{\"a\":" F32("-8,0", "2") "}", 8, ERR_CORRUPT, "ends before it begins"},
      {"{\"a\":" F32("0,8", "3") "}", 8, ERR_CORRUPT, "has 8 bytes, its shape needs 12"},
      {"{\"a\":" F32("0,8", "4294967296,4294967296") "}", 8, ERR_LIMIT, "more values than can be counted"},
      {"{\"a\":" F32("0,8", "99999999999999999999") "}", 8, ERR_SYNTAX, "no JSON"},
      {"{\"a\":" F32("0,8", "-2") "}", 8, ERR_SYNTAX, "no whole number"},
      {"{\"a\":" F32("0,8", "2.0") "}", 8, ERR_SYNTAX, "no whole number"},
      {"{\"a\":" F32("0,8", "1,1,1,1,1,1,1,1,2") "}", 8, ERR_UNSUPPORTED, "dimensions"},
      {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8, ERR_UNSUPPORTED, "F8_E4M3"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, ERR_SYNTAX, "no JSON"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8, ERR_SYNTAX, "no JSON"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[[2]],\"data_offsets\":[0,8]}}", 8, ERR_SYNTAX, "no JSON"},
      {"{\"__metadata__\":{\"a\":1},\"a\":" F32("0,8", "2") "}", 8, ERR_SYNTAX, "no JSON"},
      {"{\"\":" F32("0,8", "2") "}", 8, ERR_LIMIT, "name"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct safetensors_head h;
    char why[MAX_REASON_BYTES];
    enum err e = read_head(cases[i].text, cases[i].n_data, &h, why);
    ck_assert_msg(e == cases[i].e && strstr(why, cases[i].says) != NULL, "%s: %s, %s", cases[i].text, err_name(e), why);
  }
}
END_TEST

/* The piece over and over, after what a head begins with. */
static void fill(char *text, size_t n, const char *begin, const char *piece) {
  size_t n_begin = strlen(begin), n_piece = strlen(piece);
  for (size_t i = 0; i < n; i++)
    text[i] = *(i < n_begin ? &begin[i] : &piece[(i - n_begin) % n_piece]);
}

/* Many small values cost JSON far more than their text. */
static void wide_body(void) {
  enum { N = 4 << 20 };
  char *text = malloc(N), why[MAX_REASON_BYTES];
  struct safetensors_head h;
  ck_assert_ptr_nonnull(text);
  fill(text, N, "{\"a\":[", ",");
  ck_assert_int_eq(safetensors_head_read(text, N, 0, &h, why), ERR_LIMIT);
  fill(text, N, "{\"a\":[", "[],");
  ck_assert_int_eq(safetensors_head_read(text, N, 0, &h, why), ERR_LIMIT);
  fill(text, N, "[", "[");
  ck_assert_int_eq(safetensors_head_read(text, N, 0, &h, why), ERR_SYNTAX);
  free(text);
}

START_TEST(a_wide_or_deep_head_takes_little_memory) {
  kit_in_little_memory(16 << 20, wide_body);
}
END_TEST

/* ---- files ---- */

static const char pattern[] = "/tmp/test_tensor_file_XXXXXX";
static char folder[sizeof pattern] = "/tmp/test_tensor_file_XXXXXX";

static const char *path_of(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void setup(void) {
  ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void) {
  static const char *const names[] = {"a.safetensors", "a.npz"};
  for (size_t i = 0; i < 2; i++)
    unlink(path_of(names[i]));
  rmdir(folder);
  snprintf(folder, sizeof folder, "%s", pattern);
}

static const float weight[] = {1, -2, 3.5F, 4, 5, 6}, bias[] = {-0.0F, 1e-40F};
static const struct tensor_out tensors[] = {{"layer.weight", 2, {2, 3}, weight}, {"layer.bias", 1, {2}, bias}};
static const struct tensor_note notes[] = {{"format", "pt"}, {"classes", "[\"ok\", \"d\xc3\xa9j\xc3\xa0\"]"}};

static void write_and_read(const char *name, enum tensor_format format) {
  struct tensor_file *f = NULL;
  struct data_place why = {0};
  float out[6] = {0};
  ck_assert_int_eq(tensor_file_write(path_of(name), format, tensors, 2, notes, 2), ERR_OK);
  ck_assert_int_eq(tensor_file_write(path_of(name), format, tensors, 2, notes, 2), ERR_EXISTS);
  ck_assert_msg(tensor_file_open(path_of(name), &f, &why) == ERR_OK, "%s", why.sentence);
  ck_assert_uint_eq(tensor_file_n(f), 2);
  ck_assert_str_eq(tensor_file_tensor(f, 1)->name, "layer.bias");
  ck_assert_int_eq(tensor_file_read(f, 1, out, &why), ERR_OK);
  for (size_t i = 0; i < 2; i++)
    ck_assert(out[i] == bias[i] && !signbit(out[i]) == !signbit(bias[i]));
  ck_assert_int_eq(tensor_file_read(f, 0, out, &why), ERR_OK);
  ck_assert_mem_eq(out, weight, sizeof weight);
  if (format == TENSORS_SAFETENSORS)
    ck_assert_str_eq(tensor_file_note(f, "classes"), notes[1].text);
  ck_assert_ptr_null(tensor_file_note(f, "none"));
  tensor_file_close(f);
}

START_TEST(what_cannot_be_written_says_why) {
  for (int format = 0; format < N_TENSOR_FORMATS; format++)
    ck_assert_int_eq(tensor_file_write("/nowhere/a", (enum tensor_format)format, tensors, 2, notes, 2), ERR_NOT_FOUND);
}
END_TEST

/* In a folder where others may write: a link where the file is made must not lead elsewhere. */
START_TEST(a_link_that_was_put_there_is_not_followed) {
  static const char *const names[N_TENSOR_FORMATS] = {[TENSORS_SAFETENSORS] = "a.safetensors", [TENSORS_NPZ] = "a.npz"};
  for (int format = 0; format < N_TENSOR_FORMATS; format++) {
    char victim[128], part[192];
    struct stat st;
    snprintf(victim, sizeof victim, "%s", path_of("victim"));
    snprintf(part, sizeof part, "%s.%ld.part", path_of(names[format]), (long)getpid());
    FILE *f = fopen(victim, "w");
    ck_assert(f != NULL && fputs("precious", f) >= 0 && fclose(f) == 0);
    ck_assert_int_eq(symlink(victim, part), 0);
    ck_assert_int_eq(tensor_file_write(path_of(names[format]), (enum tensor_format)format, tensors, 2, notes, 2),
                     ERR_OK);
    ck_assert(lstat(path_of(names[format]), &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1);
    ck_assert(stat(victim, &st) == 0 && st.st_size == 8);
    ck_assert_int_ne(lstat(part, &st), 0);
    unlink(victim);
  }
}
END_TEST

START_TEST(what_is_written_is_read) {
  write_and_read("a.safetensors", TENSORS_SAFETENSORS);
  write_and_read("a.npz", TENSORS_NPZ);
}
END_TEST

static void put_file(const char *name, const char *head, const void *data, size_t n_data, uint64_t n_head) {
  FILE *out = fopen(path_of(name), "wb");
  ck_assert_ptr_nonnull(out);
  fwrite(&n_head, 1, 8, out);
  fputs(head, out);
  fwrite(data, 1, n_data, out);
  ck_assert_int_eq(fclose(out), 0);
}

START_TEST(values_are_finite) {
  static const float bad[] = {1, NAN};
  static const char head[] = "{\"a\":" F32("0,8", "2") "}";
  struct tensor_file *f = NULL;
  struct data_place why = {0};
  float out[2];
  put_file("a.safetensors", head, bad, sizeof bad, strlen(head));
  ck_assert_int_eq(tensor_file_open(path_of("a.safetensors"), &f, &why), ERR_OK);
  ck_assert_int_eq(tensor_file_read(f, 0, out, &why), ERR_NON_FINITE);
  ck_assert_ptr_nonnull(strstr(why.sentence, "value 1 of tensor a"));
  tensor_file_close(f);
}
END_TEST

START_TEST(a_file_that_shrinks_is_an_error_and_no_signal) {
  static const char head[] = "{\"a\":" F32("0,8", "2") "}";
  struct tensor_file *f = NULL;
  struct data_place why = {0};
  float out[2];
  put_file("a.safetensors", head, weight, 8, strlen(head));
  ck_assert_int_eq(tensor_file_open(path_of("a.safetensors"), &f, &why), ERR_OK);
  ck_assert_int_eq(truncate(path_of("a.safetensors"), 20), 0);
  ck_assert_int_eq(tensor_file_read(f, 0, out, &why), ERR_TRUNCATED);
  tensor_file_close(f);
}
END_TEST

START_TEST(lying_lengths_of_the_head) {
  static const uint64_t lengths[] = {0, 1, 1000, 5 << 20, UINT64_MAX, INT64_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    struct tensor_file *f = NULL;
    struct data_place why = {0};
    put_file("a.safetensors", "{}", "", 0, lengths[i]);
    ck_assert_int_ne(tensor_file_open(path_of("a.safetensors"), &f, &why), ERR_OK);
    ck_assert(why.sentence[0] != '\0');
  }
}
END_TEST

START_TEST(other_formats_have_a_recipe) {
  struct tensor_file *f = NULL;
  struct data_place why = {0};
  ck_assert_int_eq(tensor_file_open("model.pt", &f, &why), ERR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(tensor_file_recipe("model.PT"), "numpy.savez"));
  ck_assert_ptr_nonnull(strstr(tensor_file_recipe("model.keras"), "numpy.savez"));
  ck_assert_ptr_null(tensor_file_recipe("model.npz"));
  ck_assert_int_eq(tensor_file_open("model.txt", &f, &why), ERR_UNSUPPORTED);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("tensor_file");
  TCase *heads = tcase_create("heads"), *files = tcase_create("files");
  tcase_add_test(heads, a_head_lists_tensors_by_place);
  tcase_add_test(heads, a_head_that_lies_is_refused);
  tcase_add_test(heads, a_wide_or_deep_head_takes_little_memory);
  tcase_add_checked_fixture(files, setup, teardown);
  tcase_add_test(files, what_cannot_be_written_says_why);
  tcase_add_test(files, a_link_that_was_put_there_is_not_followed);
  tcase_add_test(files, what_is_written_is_read);
  tcase_add_test(files, values_are_finite);
  tcase_add_test(files, a_file_that_shrinks_is_an_error_and_no_signal);
  tcase_add_test(files, lying_lengths_of_the_head);
  tcase_add_test(files, other_formats_have_a_recipe);
  suite_add_tcase(suite, heads);
  suite_add_tcase(suite, files);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
