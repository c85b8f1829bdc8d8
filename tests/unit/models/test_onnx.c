#include "models/exchange/onnx.h"

#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

#include <unistd.h>

static char path[64];

static void setup(void) {
  snprintf(path, sizeof path, "/tmp/test_onnx_%d.onnx", (int)getpid());
  unlink(path);
}

static void teardown(void) {
  unlink(path);
}

START_TEST(every_kind_of_layer_has_a_row) {
  for (size_t i = 0; layer_type_at(i) != NULL; i++)
    ck_assert_msg(onnx_has(layer_type_at(i)), "%s", layer_type_at(i)->word);
  const struct layer_type stranger = {.word = "stranger"};
  ck_assert(!onnx_has(&stranger));
}
END_TEST

/* Writes 1, 2, 3 … as the model; the error. */
static enum err written(const char *arch, const struct contract *c, const struct scale *scale, const char *to) {
  struct schema *s = toy_schema(arch, c);
  const struct tensor_note note = {"key", "text"};
  float *values = calloc(schema_parameters(s), sizeof *values);
  ck_assert_ptr_nonnull(values);
  for (size_t i = 0; i < schema_parameters(s); i++)
    values[i] = (float)(i + 1);
  enum err e = onnx_write(to, &(const struct onnx_model){s, c, scale, values, &note, 1});
  free(values);
  schema_free(s);
  return e;
}

static size_t read_back(uint8_t *out, size_t capacity) {
  FILE *f = fopen(path, "rb");
  ck_assert_ptr_nonnull(f);
  size_t n = fread(out, 1, capacity, f);
  ck_assert_int_eq(fclose(f), 0);
  ck_assert_uint_lt(n, capacity);
  return n;
}

static bool has(const uint8_t *bytes, size_t n, const void *part, size_t n_part) {
  return memmem(bytes, n, part, n_part) != NULL;
}

#define HAS(part) has(bytes, n, part, sizeof(part) - 1)
#define HAS_FLOATS(...) has(bytes, n, (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}))

START_TEST(a_graph_has_names_shapes_values_and_notes) {
  static uint8_t bytes[16384];
  struct contract c = toy_image(3, 2, 2, 2, 1);
  double mean = 1.0 / 3, sd = 4;
  const struct scale scale = {SCALE_FIXED, 1, &mean, &sd};
  ck_assert_int_eq(written("conv 1x2x2, relu, dense classes", &c, &scale, path), ERR_OK);
  size_t n = read_back(bytes, sizeof bytes);
  ck_assert(HAS("\x08\x08\x12\x08starling")); /* ir_version 8, producer_name */
  ck_assert(HAS("\x42\x04\x0a\x00\x10\x11")); /* opset_import of domain "", version 17 */
  ck_assert(HAS("key\x12\x04text") && HAS("conv1.weight") && HAS("dense1.bias") && HAS("probabilities"));
  ck_assert(HAS_FLOATS(1, 3, 2, 4, 5, 7, 6, 8)); /* [out][1][k][in] as [out][in][1][k] */
  ck_assert(HAS_FLOATS(9, 10));
  ck_assert(HAS_FLOATS((float)mean) && HAS_FLOATS((float)(mean - (double)(float)mean)) && HAS_FLOATS(0.25f));
}
END_TEST

START_TEST(gates_of_a_gru_are_in_onnx_order) {
  static uint8_t bytes[16384];
  struct contract c = toy_image(1, 3, 2, 2, 1);
  ck_assert_int_eq(written("gru 1, dense classes", &c, &(const struct scale){0}, path), ERR_OK);
  size_t n = read_back(bytes, sizeof bytes);
  ck_assert(HAS_FLOATS(3, 4, 1, 2, 5, 6)); /* z, r, n of r, z, n */
  ck_assert(HAS_FLOATS(8, 7, 9));
  ck_assert(HAS_FLOATS(11, 10, 12, 14, 13, 15));
}
END_TEST

START_TEST(nothing_is_overwritten_and_nothing_left_behind) {
  struct contract c = toy_classes(2, 2);
  const struct scale none = {0};
  ck_assert_int_eq(written("dense classes", &c, &none, path), ERR_OK);
  ck_assert_int_eq(written("dense classes", &c, &none, path), ERR_EXISTS);
  ck_assert_int_eq(written("dense classes", &c, &none, "/tmp/no such folder/m.onnx"), ERR_NOT_FOUND);
}
END_TEST

int main(void) {
  TCase *t = tcase_create("onnx");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, every_kind_of_layer_has_a_row);
  tcase_add_test(t, a_graph_has_names_shapes_values_and_notes);
  tcase_add_test(t, gates_of_a_gru_are_in_onnx_order);
  tcase_add_test(t, nothing_is_overwritten_and_nothing_left_behind);
  return suite_run_case("onnx", t);
}
