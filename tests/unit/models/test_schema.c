#include "models/schema.h"

#include <stdio.h>

#include "models/net/arch.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

static struct tensor tensor_of(const char *name, uint32_t rows, uint32_t columns) {
  struct tensor t = {.role = ROLE_SHARED, .rank = 2, .shape = {rows, columns}};
  snprintf(t.name, sizeof t.name, "%s", name);
  return t;
}

START_TEST(tensors_follow_the_architecture) {
  struct contract c = toy_classes(784, 10);
  struct schema *s = toy_schema("dense 128 as hidden1, relu, dense classes", &c);
  ck_assert_uint_eq(schema_tensors(s), 4);
  ck_assert_uint_eq(schema_parameters(s), 784 * 128 + 128 + 128 * 10 + 10);
  const struct tensor *t = schema_tensor(s, 2);
  ck_assert_str_eq(t->name, "dense2.weight");
  ck_assert_uint_eq(t->shape[0], 10);
  ck_assert_uint_eq(t->shape[1], 128);
  ck_assert_uint_eq(t->offset, 784 * 128 + 128);
  ck_assert_uint_eq(t->n_values, 1280);
  ck_assert_uint_eq(schema_arch(s)->layers[2].offset, t->offset);
  schema_free(s);
}
END_TEST

START_TEST(text_names_every_tensor) {
  struct contract c = toy_classes(784, 10);
  struct schema *s = toy_schema("dense 128 as hidden1,relu,softmax", &c);
  char text[MAX_SCHEMA_TEXT_BYTES];
  schema_text(s, text);
  ck_assert_str_eq(text, "model: dense 128 as hidden1, relu, dense 10\n"
                         "tensor 1: hidden1.weight [128,784] f32 shared\n"
                         "tensor 2: hidden1.bias [128] f32 shared\n"
                         "tensor 3: dense2.weight [10,128] f32 shared\n"
                         "tensor 4: dense2.bias [10] f32 shared\n");
  schema_free(s);
}
END_TEST

START_TEST(text_of_tensors_alone) {
  struct tensor tensors[] = {tensor_of("body", 2, 3), tensor_of("head", 4, 5), tensor_of("mean", 6, 1)};
  tensors[1].role = ROLE_PERSONAL;
  tensors[2].role = ROLE_STATISTIC;
  struct schema *s;
  char text[MAX_SCHEMA_TEXT_BYTES];
  ck_assert_int_eq(schema_new(tensors, 3, &s), ERR_OK);
  schema_text(s, text);
  ck_assert_ptr_null(schema_arch(s));
  ck_assert_str_eq(text, "model: tensors\ntensor 1: body [2,3] f32 shared\ntensor 2: head [-] f32 personal\n"
                         "tensor 3: mean [6,1] f32 statistic\n");
  schema_free(s);
}
END_TEST

/* A text that does not fit ends with a whole line and a count; the count adds up. */
START_TEST(long_text_is_cut_at_a_line) {
  static struct tensor tensors[MAX_TENSORS];
  char text[MAX_SCHEMA_TEXT_BYTES], name[MAX_NAME_BYTES];
  for (unsigned i = 0; i < MAX_TENSORS; i++) {
    snprintf(name, sizeof name, "layer%u", i);
    tensors[i] = tensor_of(name, 1, 1);
  }
  struct schema *s;
  ck_assert_int_eq(schema_new(tensors, MAX_TENSORS, &s), ERR_OK);
  memset(text, 'x', sizeof text);
  schema_text(s, text);
  size_t n = strnlen(text, sizeof text), lines = 0;
  ck_assert_uint_lt(n, sizeof text);
  ck_assert_uint_gt(n, sizeof text - 100);
  for (size_t i = 0; i < n; i++)
    lines += text[i] == '\n';
  const char *last = text + n - 1;
  while (last[-1] != '\n')
    last--;
  ck_assert_mem_eq(last, "and ", 4);
  ck_assert_uint_eq(lines - 1 + strtoul(last + 4, NULL, 10), MAX_TENSORS + 1);
  schema_free(s);
}
END_TEST

static struct digest hash_of(const char *arch, size_t n_inputs) {
  struct contract c = toy_classes(n_inputs, 10);
  struct schema *s = toy_schema(arch, &c);
  struct digest h;
  schema_hash(s, &kit_digest, &h);
  schema_free(s);
  return h;
}

START_TEST(hash_is_of_the_meaning) {
  struct digest base = hash_of("dense 16, relu, dense classes", 8);
  struct digest same = hash_of("dense  16 ,relu,softmax", 8);
  ck_assert(digest_equal(&base, &same));
  const struct digest others[] = {hash_of("dense 16, relu, dense classes", 9), hash_of("dense 16, tanh, softmax", 8),
                                  hash_of("dense 17, relu, softmax", 8), hash_of("dense 16 as a, relu, softmax", 8),
                                  hash_of("dropout 0.1, dense 16, relu, softmax", 8)};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    ck_assert_msg(!digest_equal(&base, &others[i]), "other %zu", i);
}
END_TEST

/* Roles are hashed, the shapes of personal tensors are not. */
START_TEST(personal_shapes_are_free) {
  struct tensor tensors[] = {tensor_of("body", 2, 3), tensor_of("head", 4, 5)};
  struct digest hashes[3];
  for (int i = 0; i < 3; i++) {
    struct schema *s;
    tensors[1].role = i < 2 ? ROLE_PERSONAL : ROLE_SHARED;
    tensors[1].shape[0] = (uint32_t)(4 + i);
    ck_assert_int_eq(schema_new(tensors, 2, &s), ERR_OK);
    schema_hash(s, &kit_digest, &hashes[i]);
    schema_free(s);
  }
  ck_assert(digest_equal(&hashes[0], &hashes[1]));
  ck_assert(!digest_equal(&hashes[0], &hashes[2]));
}
END_TEST

START_TEST(bad_tensors_are_refused) {
  struct tensor good = tensor_of("a", 2, 3);
  const struct {
    struct tensor tensors[2];
    enum err expected;
  } cases[] = {
      {{good, good}, ERR_EXISTS},
      {{good, tensor_of("", 1, 1)}, ERR_SYNTAX},
      {{good, tensor_of("b c", 1, 1)}, ERR_SYNTAX},
      {{good, tensor_of("b\n", 1, 1)}, ERR_SYNTAX},
      {{good, tensor_of("b", 0, 1)}, ERR_SYNTAX},
      {{good, {.name = "b", .rank = 0}}, ERR_SYNTAX},
      {{good, {.name = "b", .rank = MAX_RANK + 1, .shape = {1, 1, 1, 1}}}, ERR_SYNTAX},
      {{good, {.name = "b", .rank = 1, .shape = {1}, .role = (enum role)3}}, ERR_SYNTAX},
      {{good, tensor_of("b", UINT32_MAX, UINT32_MAX)}, ERR_LIMIT},
      {{good, tensor_of("b", MAX_PARAMETERS, 1)}, ERR_LIMIT},
      {{good, tensor_of("b", 1u << 16, 1u << 16)}, ERR_LIMIT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct schema *s = NULL;
    ck_assert_msg(schema_new(cases[i].tensors, 2, &s) == cases[i].expected, "case %zu", i);
    ck_assert_ptr_null(s);
  }
  struct schema *s = NULL;
  ck_assert_int_eq(schema_new(&good, 0, &s), ERR_RANGE);
  ck_assert_int_eq(schema_new(&good, MAX_TENSORS + 1, &s), ERR_LIMIT);
  struct tensor unended = good;
  memset(unended.name, 'n', sizeof unended.name);
  ck_assert_int_eq(schema_new(&unended, 1, &s), ERR_SYNTAX);
}
END_TEST

int main(void) {
  return SUITE_RUN("schema", tensors_follow_the_architecture, text_names_every_tensor, text_of_tensors_alone,
                   long_text_is_cut_at_a_line, hash_is_of_the_meaning, personal_shapes_are_free,
                   bad_tensors_are_refused);
}
