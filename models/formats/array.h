/* Arrays of numbers as NumPy and safetensors files describe them: what their values are, and how bytes become floats.
 *
 * Pure; any thread. */
#ifndef MODELS_FORMATS_ARRAY_H
#define MODELS_FORMATS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { ARRAY_MAX_RANK = 8, ARRAY_SHAPE_TEXT_BYTES = ARRAY_MAX_RANK * 21 + 3 };

enum array_type {
  ARRAY_F16,
  ARRAY_BF16,
  ARRAY_F32,
  ARRAY_F64,
  ARRAY_BOOL,
  ARRAY_U8,
  ARRAY_I8,
  ARRAY_U16,
  ARRAY_I16,
  ARRAY_U32,
  ARRAY_I32,
  ARRAY_U64,
  ARRAY_I64,
  N_ARRAY_TYPES
};

struct array {
  enum array_type type;
  bool is_big_endian;
  bool is_fortran; /* the first index runs fastest */
  uint32_t rank;   /* 0 … ARRAY_MAX_RANK; 0: one value */
  uint64_t size[ARRAY_MAX_RANK];
  uint64_t n_values, n_bytes; /* set by array_measure */
};

/* Sets n_values and n_bytes; size 0 is allowed. ERR_LIMIT: they do not fit in 63 bits. */
MUST_USE enum err array_measure(struct array *a);

/* "float32", as NumPy says. Static storage. */
const char *array_type_name(enum array_type type);

/* By the safetensors code, "F32". ERR_NOT_FOUND. */
MUST_USE enum err array_type_find(const char *code, enum array_type *out_type);

size_t array_type_bytes(enum array_type type); /* of a value */
bool array_type_is_float(enum array_type type);

/* "[60000, 28, 28]" */
void array_shape_text(const struct array *a, char out_text[ARRAY_SHAPE_TEXT_BYTES]);

/* The value at these bytes; integers above 2^53 are rounded, any float bits are taken as they are. */
double array_value(const struct array *a, const uint8_t *bytes);

/* n values in the order of the bytes, rounded to float: beyond its range they are infinite. */
void array_floats(const struct array *a, const uint8_t *bytes, size_t n, float *out_values);

/* Turns axes: out, in C order, has extent size[axis[k]] in its axis k; in [size…] in C order, `axis` a permutation of
 * 0 … rank − 1, rank ≤ ARRAY_MAX_RANK. */
void array_permute(const float *in, uint32_t rank, const uint64_t *size, const uint32_t *axis, float *out);

#endif
