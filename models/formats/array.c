#include "models/formats/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "models/kernels/half.h"

static double of_f16(uint64_t bits) {
  uint16_t half = (uint16_t)bits;
  float x;
  half_kernels(&(size_t){0})->to_floats(&half, 1, &x);
  return (double)x;
}

static double of_f32(uint64_t bits) {
  uint32_t word = (uint32_t)bits;
  float x;
  memcpy(&x, &word, sizeof x);
  return (double)x;
}

static double of_bf16(uint64_t bits) {
  return of_f32(bits << 16);
}

static double of_f64(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static double of_bool(uint64_t bits) {
  return bits != 0;
}

static double of_unsigned(uint64_t bits) {
  return (double)bits;
}

static double of_i8(uint64_t bits) {
  return (double)(int8_t)bits;
}

static double of_i16(uint64_t bits) {
  return (double)(int16_t)bits;
}

static double of_i32(uint64_t bits) {
  return (double)(int32_t)bits;
}

static double of_i64(uint64_t bits) {
  return (double)(int64_t)bits;
}

static const struct type {
  const char *name, *code;
  uint8_t n_bytes;
  bool is_float;
  double (*value)(uint64_t bits);
} types[] = {
    [ARRAY_F16] = {"float16", "F16", 2, true, of_f16},  [ARRAY_BF16] = {"bfloat16", "BF16", 2, true, of_bf16},
    [ARRAY_F32] = {"float32", "F32", 4, true, of_f32},  [ARRAY_F64] = {"float64", "F64", 8, true, of_f64},
    [ARRAY_BOOL] = {"bool", "BOOL", 1, false, of_bool}, [ARRAY_U8] = {"uint8", "U8", 1, false, of_unsigned},
    [ARRAY_I8] = {"int8", "I8", 1, false, of_i8},       [ARRAY_U16] = {"uint16", "U16", 2, false, of_unsigned},
    [ARRAY_I16] = {"int16", "I16", 2, false, of_i16},   [ARRAY_U32] = {"uint32", "U32", 4, false, of_unsigned},
    [ARRAY_I32] = {"int32", "I32", 4, false, of_i32},   [ARRAY_U64] = {"uint64", "U64", 8, false, of_unsigned},
    [ARRAY_I64] = {"int64", "I64", 8, false, of_i64},
};

enum err array_measure(struct array *a) {
  uint64_t n = 1, n_bytes;
  for (uint32_t i = 0; i < a->rank; i++)
    if (__builtin_mul_overflow(n, a->size[i], &n))
      return ERR_LIMIT;
  if (__builtin_mul_overflow(n, (uint64_t)types[a->type].n_bytes, &n_bytes) || n_bytes > INT64_MAX)
    return ERR_LIMIT;
  a->n_values = n;
  a->n_bytes = n_bytes;
  return ERR_OK;
}

const char *array_type_name(enum array_type type) {
  return types[type].name;
}

enum err array_type_find(const char *code, enum array_type *out_type) {
  for (size_t i = 0; i < N_ARRAY_TYPES; i++)
    if (strcmp(types[i].code, code) == 0) {
      *out_type = (enum array_type)i;
      return ERR_OK;
    }
  return ERR_NOT_FOUND;
}

size_t array_type_bytes(enum array_type type) {
  return types[type].n_bytes;
}

bool array_type_is_float(enum array_type type) {
  return types[type].is_float;
}

void array_shape_text(const struct array *a, char out_text[ARRAY_SHAPE_TEXT_BYTES]) {
  int n = snprintf(out_text, ARRAY_SHAPE_TEXT_BYTES, "[");
  for (uint32_t i = 0; i < a->rank; i++)
    n += snprintf(out_text + n, ARRAY_SHAPE_TEXT_BYTES - (size_t)n, "%s%" PRIu64, i > 0 ? "," : "", a->size[i]);
  snprintf(out_text + n, ARRAY_SHAPE_TEXT_BYTES - (size_t)n, "]");
}

double array_value(const struct array *a, const uint8_t *bytes) {
  const struct type *t = &types[a->type];
  uint64_t bits = 0;
  for (size_t i = 0; i < t->n_bytes; i++)
    bits |= (uint64_t)bytes[a->is_big_endian ? t->n_bytes - 1U - i : i] << 8 * i;
  return t->value(bits);
}

void array_floats(const struct array *a, const uint8_t *bytes, size_t n, float *out_values) {
  for (size_t i = 0; i < n; i++)
    out_values[i] = (float)array_value(a, bytes + i * types[a->type].n_bytes);
}

void array_permute(const float *in, uint32_t rank, const uint64_t *size, const uint32_t *axis, float *out) {
  uint64_t step[ARRAY_MAX_RANK], at[ARRAY_MAX_RANK] = {0}, n = 1, from = 0;
  MUST(rank <= ARRAY_MAX_RANK);
  for (uint32_t i = rank; i-- > 0; n *= size[i])
    step[i] = n;
  for (uint64_t i = 0; i < n; i++) {
    out[i] = in[from];
    for (uint32_t k = rank; k-- > 0;) { /* the next index of out, and where that value stands in in */
      from += step[axis[k]];
      if (++at[k] < size[axis[k]])
        break;
      from -= at[k] * step[axis[k]];
      at[k] = 0;
    }
  }
}
