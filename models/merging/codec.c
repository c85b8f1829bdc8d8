#include "models/merging/codec.h"

#include <string.h>

#include "base/must.h"
#include "models/floats.h"
#include "models/kernels/half.h"

/* Wire order is memory order. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "payloads and snapshots are little-endian arrays");
_Static_assert(sizeof(float) == 4, "float is IEEE binary32");

enum { BLOCK = 512 }; /* values in work at a time, on the stack */

static void f32_encode(const float *values, size_t n, uint8_t *out_bytes) {
  memcpy(out_bytes, values, n * sizeof *values);
}

static void f32_decode(const uint8_t *bytes, size_t n, float *out_values) {
  memcpy(out_values, bytes, n * sizeof *out_values);
}

static void f16_encode(const float *values, size_t n, uint8_t *out_bytes) {
  uint16_t halves[BLOCK];
  half_fastest()->from_floats(values, n, halves);
  memcpy(out_bytes, halves, n * sizeof *halves);
}

static void f16_decode(const uint8_t *bytes, size_t n, float *out_values) {
  uint16_t halves[BLOCK];
  memcpy(halves, bytes, n * sizeof *halves);
  half_fastest()->to_floats(halves, n, out_values);
}

/* encode and decode take at most BLOCK values. */
static const struct codec_row {
  const char *name;
  size_t value_bytes;
  void (*encode)(const float *values, size_t n, uint8_t *out_bytes);
  void (*decode)(const uint8_t *bytes, size_t n, float *out_values);
} codecs[N_CODECS] = {
    [CODEC_F32] = {"f32", 4, f32_encode, f32_decode},
    [CODEC_F16] = {"f16", 2, f16_encode, f16_decode},
};

static const struct codec_row *row_of(enum codec c) {
  MUST((unsigned)c < N_CODECS);
  return &codecs[c];
}

static size_t block_length(size_t start, size_t n) {
  return n - start < BLOCK ? n - start : BLOCK;
}

const char *codec_name(enum codec c) {
  return row_of(c)->name;
}

size_t codec_bound(enum codec c, size_t n_values) {
  return n_values * row_of(c)->value_bytes;
}

enum err codec_encode(enum codec c, const float *x, const float *copy, size_t n_values, uint8_t *out_bytes) {
  const struct codec_row *row = row_of(c);
  float difference[BLOCK];
  for (size_t at = 0; at < n_values; at += BLOCK) {
    size_t n = block_length(at, n_values);
    for (size_t i = 0; i < n; i++)
      difference[i] = x[at + i] - copy[at + i];
    if (!floats_finite(difference, n))
      return ERR_NON_FINITE;
    row->encode(difference, n, out_bytes + at * row->value_bytes);
  }
  return ERR_OK;
}

/* copy + decode(bytes) of one block. */
static void add_block(const struct codec_row *row, const uint8_t *bytes, const float *copy, size_t n,
                      float out_sum[BLOCK]) {
  row->decode(bytes, n, out_sum);
  for (size_t i = 0; i < n; i++)
    out_sum[i] = copy[i] + out_sum[i];
}

enum err codec_add(enum codec c, const uint8_t *bytes, size_t n_bytes, float *copy, size_t n_values) {
  if ((unsigned)c >= N_CODECS)
    return ERR_ENCODING;
  if (n_bytes != codec_bound(c, n_values))
    return ERR_LENGTH;
  const struct codec_row *row = row_of(c);
  float sum[BLOCK];
  for (size_t at = 0; at < n_values; at += BLOCK) {
    size_t n = block_length(at, n_values);
    add_block(row, bytes + at * row->value_bytes, copy + at, n, sum);
    if (!floats_finite(sum, n)) /* also when the payload is not, for the copy is finite */
      return ERR_NON_FINITE;
  }
  for (size_t at = 0; at < n_values; at += BLOCK) {
    size_t n = block_length(at, n_values);
    add_block(row, bytes + at * row->value_bytes, copy + at, n, sum);
    memcpy(copy + at, sum, n * sizeof *sum);
  }
  return ERR_OK;
}

void codec_write_values(const float *values, size_t n_values, uint8_t *out_bytes) {
  memcpy(out_bytes, values, n_values * sizeof *values);
}

enum err codec_check_values(const uint8_t *bytes, size_t n_values) {
  float block[BLOCK];
  for (size_t at = 0; at < n_values; at += BLOCK) {
    size_t n = block_length(at, n_values);
    memcpy(block, bytes + at * sizeof *block, n * sizeof *block);
    if (!floats_finite(block, n))
      return ERR_NON_FINITE;
  }
  return ERR_OK;
}

enum err codec_read_values(const uint8_t *bytes, size_t n_bytes, float *out_values, size_t n_values) {
  if (n_bytes != n_values * sizeof *out_values)
    return ERR_LENGTH;
  enum err e = codec_check_values(bytes, n_values);
  if (!e)
    memcpy(out_values, bytes, n_bytes);
  return e;
}
