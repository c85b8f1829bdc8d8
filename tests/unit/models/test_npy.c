#include "models/formats/npy.h"

#include <math.h>

#include "tests/unit/models/data_kit.h"
#include "tests/unit/suite.h"

#define FOLDER "tests/unit/models/arrays/" /* written by NumPy: arrays.py */

static double wanted(const struct array *a, uint64_t i) {
  bool is_unsigned = a->type == ARRAY_U8 || a->type == ARRAY_U16 || a->type == ARRAY_U32 || a->type == ARRAY_U64;
  return a->type == ARRAY_BOOL ? (double)(i % 2) : is_unsigned ? (double)i : (double)i - 4;
}

static struct npy_file *open_ok(const char *path, const char *otherwise) {
  struct npy_file *f = NULL;
  struct data_place why = {0};
  enum err e = npy_open(path, otherwise, &f, &why);
  ck_assert_msg(e == ERR_OK, "%s: %s", path, why.sentence);
  return f;
}

/* All twelve values, whichever index runs fastest in the file. */
static void check_values(struct npy_file *f) {
  const struct array *a = npy_array(f);
  struct data_place why = {0};
  uint8_t bytes[12 * 8];
  ck_assert_uint_eq(a->rank, 3);
  ck_assert_uint_eq(a->size[0], 3);
  ck_assert_uint_eq(a->size[1], 2);
  ck_assert_uint_eq(a->size[2], 2);
  ck_assert_uint_eq(a->n_values, 12);
  ck_assert_int_eq(npy_read(f, bytes, 12 * array_type_bytes(a->type), &why), ERR_OK);
  ck_assert_int_eq(npy_end(f, &why), ERR_OK);
  for (uint64_t i = 0; i < 12; i++) {
    uint64_t at = a->is_fortran ? i / 4 + 3 * (i / 2 % 2) + 6 * (i % 2) : i;
    ck_assert_double_eq(array_value(a, bytes + at * array_type_bytes(a->type)), wanted(a, i));
  }
}

START_TEST(every_type_order_and_version_that_numpy_writes) {
  static const struct {
    const char *name;
    enum array_type type;
  } cases[] = {{"b1_xx", ARRAY_BOOL},      {"u1_xx", ARRAY_U8},       {"i1_xx", ARRAY_I8},  {"u2_le", ARRAY_U16},
               {"u2_be", ARRAY_U16},       {"i2_le", ARRAY_I16},      {"i2_be", ARRAY_I16}, {"u4_le", ARRAY_U32},
               {"i4_le", ARRAY_I32},       {"i4_be", ARRAY_I32},      {"u8_le", ARRAY_U64}, {"i8_le", ARRAY_I64},
               {"i8_be", ARRAY_I64},       {"f2_le", ARRAY_F16},      {"f2_be", ARRAY_F16}, {"f4_le", ARRAY_F32},
               {"f4_be", ARRAY_F32},       {"f8_le", ARRAY_F64},      {"f8_be", ARRAY_F64}, {"f4_fortran", ARRAY_F32},
               {"f4_version2", ARRAY_F32}, {"f4_version3", ARRAY_F32}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[128];
    snprintf(path, sizeof path, FOLDER "%s.npy", cases[i].name);
    struct npy_file *f = open_ok(path, NULL);
    ck_assert_int_eq(npy_array(f)->type, cases[i].type);
    ck_assert_int_eq(npy_array(f)->is_fortran, strcmp(cases[i].name, "f4_fortran") == 0);
    check_values(f);
    npy_close(f);
  }
}
END_TEST

START_TEST(arrays_of_archives_are_found_by_name) {
  struct npy_file *f = open_ok(FOLDER "stored.npz", "x");
  check_values(f);
  npy_close(f);
  f = open_ok(FOLDER "zip64.npz", "x");
  check_values(f);
  npy_close(f);
  f = open_ok(FOLDER "deflate.npz:x_train", "x");
  check_values(f);
  npy_close(f);
  struct data_place why = {0};
  ck_assert_int_eq(npy_open(FOLDER "deflate.npz", "x", &f, &why), ERR_NOT_FOUND);
  ck_assert_str_eq(why.sentence, "it has no array x, but x_train, y_train; name one as in data.npz:x_train");
}
END_TEST

START_TEST(a_scalar_has_one_value) {
  struct npy_file *f = open_ok(FOLDER "scalar.npy", NULL);
  ck_assert_uint_eq(npy_array(f)->rank, 0);
  ck_assert_uint_eq(npy_array(f)->n_values, 1);
  npy_close(f);
}
END_TEST

START_TEST(what_is_no_number_is_refused) {
  static const struct {
    const char *name, *says;
  } cases[] = {{"objects", "Python objects, which are never read"},
               {"records", "records; save each field"},
               {"complex", "the type '<c8'"},
               {"text", "the type '<U2'"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct npy_file *f = NULL;
    struct data_place why = {0};
    char path[128];
    snprintf(path, sizeof path, FOLDER "%s.npy", cases[i].name);
    ck_assert_int_eq(npy_open(path, NULL, &f, &why), ERR_UNSUPPORTED);
    ck_assert_msg(strstr(why.sentence, cases[i].says) != NULL, "%s", why.sentence);
    ck_assert_str_eq(why.path, path);
  }
}
END_TEST

START_TEST(heads_are_taken_strictly) {
  static const struct {
    const char *head;
    enum err e;
  } cases[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n", ERR_OK},
      {"{\"shape\": (3,), \"descr\": \"|u1\", \"fortran_order\": True}", ERR_OK},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", ERR_OK},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L)}", ERR_OK},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3)}", ERR_SYNTAX},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4}", ERR_SYNTAX},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}", ERR_SYNTAX},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}", ERR_SYNTAX},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1e3,)}", ERR_SYNTAX},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}", ERR_SYNTAX},
      {"{'descr': '<f4', 'shape': (3,)}", ERR_SYNTAX},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", ERR_SYNTAX},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}", ERR_SYNTAX},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} __import__('os')", ERR_SYNTAX},
      {"{'descr': __import__('os'), 'fortran_order': False, 'shape': (3,)}", ERR_SYNTAX},
      {"{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}", ERR_SYNTAX},
      {"", ERR_SYNTAX},
      {"{'descr': '<f16', 'fortran_order': False, 'shape': (3,)}", ERR_UNSUPPORTED},
      {"{'descr': '|f4', 'fortran_order': False, 'shape': (3,)}", ERR_UNSUPPORTED},
      {"{'descr': 'f4', 'fortran_order': False, 'shape': (3,)}", ERR_UNSUPPORTED},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", ERR_UNSUPPORTED},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", ERR_UNSUPPORTED},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", ERR_UNSUPPORTED},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", ERR_LIMIT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", ERR_LIMIT},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693951,)}", ERR_LIMIT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct array a = {0};
    char why[MAX_REASON_BYTES] = "";
    enum err e = npy_head_read(cases[i].head, strlen(cases[i].head), &a, why);
    ck_assert_msg(e == cases[i].e, "%s: %s, %s", cases[i].head, err_name(e), why);
    ck_assert_int_eq(e == ERR_OK, why[0] == '\0');
  }
}
END_TEST

START_TEST(a_head_that_is_written_is_read) {
  const struct array shapes[] = {{.type = ARRAY_F32, .rank = 2, .size = {3, 4}},
                                 {.type = ARRAY_U8, .rank = 1, .size = {7}},
                                 {.type = ARRAY_I64, .rank = 0},
                                 {.type = ARRAY_F64, .rank = 3, .size = {0, 2, 3}}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    uint8_t bytes[NPY_MAX_HEAD_BYTES];
    struct array back = {0};
    char why[MAX_REASON_BYTES] = "", one[ARRAY_SHAPE_TEXT_BYTES], two[ARRAY_SHAPE_TEXT_BYTES];
    size_t n = npy_head_write(&shapes[i], bytes);
    ck_assert_uint_eq(n % 64, 0);
    ck_assert_msg(npy_head_read((const char *)bytes + 10, n - 10, &back, why) == ERR_OK, "%s", why);
    array_shape_text(&shapes[i], one);
    array_shape_text(&back, two);
    ck_assert_str_eq(one, two);
    ck_assert_int_eq(back.type, shapes[i].type);
  }
}
END_TEST

/* `n` bytes of a whole file of [3] f4, some more after it. */
static enum err open_part(size_t n, size_t n_more) {
  const struct array a = {.type = ARRAY_F32, .rank = 1, .size = {3}};
  uint8_t bytes[NPY_MAX_HEAD_BYTES] = {0};
  size_t n_whole = npy_head_write(&a, bytes) + 12;
  memset(bytes + n_whole - 12, 0, 12 + n_more);
  struct kit_file file = kit_file(bytes, (n < n_whole ? n : n_whole) + n_more);
  struct npy_file *f = NULL;
  struct data_place why = {0};
  enum err e = npy_open(file.path, NULL, &f, &why);
  ck_assert_int_eq(e == ERR_OK, why.sentence[0] == '\0');
  npy_close(f);
  kit_file_close(&file);
  return e;
}

START_TEST(a_file_has_the_length_that_its_shape_says) {
  ck_assert_int_eq(open_part(SIZE_MAX, 0), ERR_OK);
  ck_assert_int_eq(open_part(SIZE_MAX, 1), ERR_TRAILING);
  for (size_t n = 0; n < 128 + 12; n++)
    ck_assert_int_eq(open_part(n, 0), ERR_TRUNCATED);
}
END_TEST

static void huge_body(void) {
  struct array a = {.type = ARRAY_F64, .rank = 2, .size = {1 << 20, 1 << 20}};
  uint8_t bytes[NPY_MAX_HEAD_BYTES];
  size_t n = npy_head_write(&a, bytes);
  struct kit_file file = kit_file(bytes, n);
  struct npy_file *f = NULL;
  struct data_place why = {0};
  ck_assert_int_eq(npy_open(file.path, NULL, &f, &why), ERR_TRUNCATED);
}

START_TEST(a_declared_size_is_never_allocated) {
  kit_in_little_memory(16 << 20, huge_body);
}
END_TEST

START_TEST(axes_are_turned) {
  static const float in[] = {0, 1, 2, 3, 4, 5}; /* [1][2][3] */
  static const float turned[] = {0, 3, 1, 4, 2, 5};
  float out[6];
  array_permute(in, 3, (const uint64_t[]){1, 2, 3}, (const uint32_t[]){2, 0, 1}, out);
  ck_assert_mem_eq(out, turned, sizeof turned);
  array_permute(in, 2, (const uint64_t[]){2, 3}, (const uint32_t[]){0, 1}, out);
  ck_assert_mem_eq(out, in, sizeof in);
}
END_TEST

START_TEST(bfloat_and_half_are_exact) {
  const struct array half = {.type = ARRAY_F16}, brain = {.type = ARRAY_BF16};
  ck_assert_double_eq(array_value(&half, (const uint8_t[]){0x00, 0x3e}), 1.5);
  ck_assert_double_eq(array_value(&brain, (const uint8_t[]){0xc0, 0x3f}), 1.5);
  ck_assert(isnan(array_value(&half, (const uint8_t[]){0x00, 0x7e})));
}
END_TEST

int main(void) {
  return SUITE_RUN("npy", every_type_order_and_version_that_numpy_writes, arrays_of_archives_are_found_by_name,
                   a_scalar_has_one_value, what_is_no_number_is_refused, heads_are_taken_strictly,
                   a_head_that_is_written_is_read, a_file_has_the_length_that_its_shape_says,
                   a_declared_size_is_never_allocated, axes_are_turned, bfloat_and_half_are_exact);
}
