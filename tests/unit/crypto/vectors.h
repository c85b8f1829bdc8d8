/* Test vectors in JSON, as far as they need it: the pairs "name": "text" of a file, in order; structure is ignored. */
#ifndef TESTS_UNIT_CRYPTO_VECTORS_H
#define TESTS_UNIT_CRYPTO_VECTORS_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vectors {
  char *text;
  char *at;
  const char *name; /* of the pair last read */
  const char *value;
};

/* False: there is no such file. The path is relative to the root of the tree, where tests run. */
static inline bool vectors_open(struct vectors *v, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file)
    return false;
  fseek(file, 0, SEEK_END);
  size_t n = (size_t)ftell(file);
  rewind(file);
  *v = (struct vectors){.text = calloc(n + 1, 1)};
  ck_assert_ptr_nonnull(v->text);
  ck_assert_uint_eq(fread(v->text, 1, n, file), n);
  fclose(file);
  v->at = v->text;
  return true;
}

static inline void vectors_close(struct vectors *v) {
  free(v->text);
}

/* The next string, cut out in place; NULL at the end. */
static inline char *vectors_string(struct vectors *v) {
  char *start = strchr(v->at, '"');
  char *end = start ? strchr(start + 1, '"') : NULL;
  if (!end)
    return NULL;
  *end = '\0';
  v->at = end + 1;
  return start + 1;
}

/* The next pair; false at the end. */
static inline bool vectors_next(struct vectors *v) {
  v->name = vectors_string(v);
  while (v->name) {
    size_t n_gap = strspn(v->at, ": \n");
    bool is_name = memchr(v->at, ':', n_gap) != NULL;
    v->at += n_gap;
    if (is_name && *v->at == '"') {
      v->value = vectors_string(v);
      return v->value != NULL;
    }
    v->name = vectors_string(v);
  }
  return false;
}

/* The value of the first pair of this name in the file. */
static inline const char *vectors_find(const char *path, const char *name, struct vectors *v) {
  ck_assert_msg(vectors_open(v, path), "%s is missing", path);
  while (vectors_next(v))
    if (strcmp(v->name, name) == 0)
      return v->value;
  ck_abort_msg("%s has no %s", path, name);
}

static inline size_t bytes_from_hex(const char *hex, uint8_t *out, size_t capacity) {
  size_t n = strlen(hex) / 2;
  ck_assert_uint_eq(strlen(hex) % 2, 0);
  ck_assert_uint_le(n, capacity);
  for (size_t i = 0; i < n; i++) {
    char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
    char *end = NULL;
    out[i] = (uint8_t)strtoul(digits, &end, 16);
    ck_assert_ptr_eq(end, digits + 2);
  }
  return n;
}

/* These bytes are the golden ones of this name. */
static inline void assert_golden(const char *name, const void *bytes, size_t n) {
  static uint8_t expected[4096];
  struct vectors v;
  const char *hex = vectors_find("tests/golden/crypto_objects.json", name, &v);
  size_t n_expected = bytes_from_hex(hex, expected, sizeof expected);
  vectors_close(&v);
  ck_assert_uint_eq(n, n_expected);
  ck_assert_msg(memcmp(bytes, expected, n) == 0, "%s differs from the golden bytes", name);
}

#endif
