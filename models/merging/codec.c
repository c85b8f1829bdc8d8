#include "models/merging/codec.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/must.h"
#include "models/floats.h"
#include "models/kernels/half.h"
#include "models/kernels/quantise.h"
#include "models/kernels/select.h"

/* Wire order is memory order. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "payloads and snapshots are little-endian arrays");
_Static_assert(sizeof(float) == 4, "float is IEEE binary32");

enum { BLOCK = QUANTISE_BLOCK }; /* values in work at a time, on the stack */

static size_t block_length(size_t start, size_t n) {
  return n - start < BLOCK ? n - start : BLOCK;
}

/* ---- one block of a dense codec: as many bytes for as many values */

struct rounding {
  uint64_t seed;
  size_t place; /* of the block's first value */
};

static size_t f32_bytes(size_t n) {
  return 4 * n;
}

static void f32_encode(const float *values, size_t n, const struct rounding *r, uint8_t *out_bytes) {
  (void)r;
  memcpy(out_bytes, values, n * sizeof *values);
}

static bool f32_decode(const uint8_t *bytes, size_t n, float *out_values) {
  memcpy(out_values, bytes, n * sizeof *out_values);
  return true;
}

static size_t f16_bytes(size_t n) {
  return 2 * n;
}

static void f16_encode(const float *values, size_t n, const struct rounding *r, uint8_t *out_bytes) {
  uint16_t halves[BLOCK];
  (void)r;
  half_fastest()->from_floats(values, n, halves);
  memcpy(out_bytes, halves, n * sizeof *halves);
}

static bool f16_decode(const uint8_t *bytes, size_t n, float *out_values) {
  uint16_t halves[BLOCK];
  memcpy(halves, bytes, n * sizeof *halves);
  half_fastest()->to_floats(halves, n, out_values);
  return true;
}

enum { SCALE_BYTES = 4, Q8_LIMIT = 127, Q4_LIMIT = 7 };

static size_t q8_bytes(size_t n) {
  return (n + BLOCK - 1) / BLOCK * SCALE_BYTES + n;
}

static size_t q4_bytes(size_t n) {
  return (n + BLOCK - 1) / BLOCK * SCALE_BYTES + (n + 1) / 2;
}

static void quantise(const float *values, size_t n, const struct rounding *r, int limit, uint8_t *out_scale,
                     int8_t *out_q) {
  float scale = quantise_fastest()->quantise(values, n, limit, r->seed, (uint32_t)r->place, out_q);
  memcpy(out_scale, &scale, SCALE_BYTES);
}

/* Whether scale and values are such as an encoder writes. */
static bool restore(const uint8_t *scale_bytes, const int8_t *q, size_t n, int limit, float *out_values) {
  float scale;
  int least = 0;
  memcpy(&scale, scale_bytes, SCALE_BYTES);
  for (size_t i = 0; i < n; i++)
    least = q[i] < least ? q[i] : least;
  quantise_fastest()->restore(q, n, scale, out_values);
  return least >= -limit && !signbit(scale);
}

static void q8_encode(const float *values, size_t n, const struct rounding *r, uint8_t *out_bytes) {
  int8_t q[BLOCK];
  quantise(values, n, r, Q8_LIMIT, out_bytes, q);
  memcpy(out_bytes + SCALE_BYTES, q, n);
}

static bool q8_decode(const uint8_t *bytes, size_t n, float *out_values) {
  int8_t q[BLOCK];
  memcpy(q, bytes + SCALE_BYTES, n);
  return restore(bytes, q, n, Q8_LIMIT, out_values);
}

static void q4_encode(const float *values, size_t n, const struct rounding *r, uint8_t *out_bytes) {
  int8_t q[BLOCK + 1];
  quantise(values, n, r, Q4_LIMIT, out_bytes, q);
  q[n] = 0;
  for (size_t i = 0; i < n; i += 2)
    out_bytes[SCALE_BYTES + i / 2] = (uint8_t)((q[i] & 15) | (q[i + 1] & 15) << 4);
}

static bool q4_decode(const uint8_t *bytes, size_t n, float *out_values) {
  int8_t q[BLOCK + 1];
  for (size_t i = 0; i < n; i += 2) {
    int pair = bytes[SCALE_BYTES + i / 2];
    q[i] = (int8_t)(((pair & 15) ^ 8) - 8);
    q[i + 1] = (int8_t)((pair >> 4 ^ 8) - 8);
  }
  return restore(bytes, q, n, Q4_LIMIT, out_values) && (n % 2 == 0 || q[n] == 0);
}

/* encode and decode take at most a block; `bytes` also says where a block begins. */
static const struct codec_row {
  const char *name;
  size_t (*bytes)(size_t n); /* NULL: not dense */
  void (*encode)(const float *values, size_t n, const struct rounding *r, uint8_t *out_bytes);
  bool (*decode)(const uint8_t *bytes, size_t n, float *out_values); /* false: no encoder writes this */
} codecs[N_CODECS] = {
    [CODEC_F32] = {"f32", f32_bytes, f32_encode, f32_decode},
    [CODEC_F16] = {"f16", f16_bytes, f16_encode, f16_decode},
    [CODEC_Q8] = {"q8", q8_bytes, q8_encode, q8_decode},
    [CODEC_Q4] = {"q4", q4_bytes, q4_encode, q4_decode},
    [CODEC_TOPK] = {"topk", NULL, NULL, NULL},
};

static const struct codec_row *row_of(enum codec_kind kind) {
  MUST((unsigned)kind < N_CODECS);
  return &codecs[kind];
}

static enum err difference(const float *x, const float *copy, size_t n, float out[BLOCK]) {
  for (size_t i = 0; i < n; i++)
    out[i] = x[i] - copy[i];
  return floats_finite(out, n) ? ERR_OK : ERR_NON_FINITE;
}

static enum err dense_encode(const struct codec_row *row, const float *x, const float *copy, size_t n_values,
                             uint64_t seed, uint8_t *out_bytes, float *out_next) {
  float values[BLOCK];
  for (size_t at = 0; at < n_values; at += BLOCK) {
    size_t n = block_length(at, n_values);
    enum err e = difference(x + at, copy + at, n, values);
    if (e)
      return e;
    uint8_t *bytes = out_bytes + row->bytes(at);
    row->encode(values, n, &(struct rounding){seed, at}, bytes);
    if (!out_next)
      continue;
    MUST(row->decode(bytes, n, values)); /* what an encoder writes is read */
    if (!floats_add(copy + at, values, n, out_next + at))
      return ERR_NON_FINITE;
  }
  return ERR_OK;
}

static enum err dense_add(const struct codec_row *row, const uint8_t *bytes, size_t n_bytes, float *copy,
                          size_t n_values) {
  float sum[BLOCK];
  if (n_bytes != row->bytes(n_values))
    return ERR_LENGTH;
  for (int write = 0; write <= 1; write++) /* first whether it may be done, then the same again */
    for (size_t at = 0; at < n_values; at += BLOCK) {
      size_t n = block_length(at, n_values);
      if (!row->decode(bytes + row->bytes(at), n, sum))
        return ERR_ENCODING;
      if (!floats_add(copy + at, sum, n, write ? copy + at : sum))
        return ERR_NON_FINITE; /* also when the payload is not, for the copy is finite */
    }
  return ERR_OK;
}

/* ---- the largest differences */

enum { GAP_BITS = 7, MAX_GAP_BYTES = 4, VALUE_BYTES = 2 };
_Static_assert(MAX_PARAMETERS <= 1 << MAX_GAP_BYTES * GAP_BITS, "every gap fits");

static size_t entries_of(double fraction, size_t n_values) {
  double n = ceil(fraction * (double)n_values);
  return n > 1 ? (size_t)n : 1;
}

/* Gaps and their entries are n values together, so few gaps are long. */
static size_t entries_bound(size_t n_entries, size_t n_values) {
  size_t longer = 0;
  for (int bytes = 1; bytes < MAX_GAP_BYTES; bytes++) {
    size_t gaps = n_values >> bytes * GAP_BITS;
    longer += gaps < n_entries ? gaps : n_entries;
  }
  return n_entries * (VALUE_BYTES + 1) + longer;
}

struct entry_writer {
  uint8_t *at;
  size_t next;          /* the index after the last entry's */
  uint32_t bin, of_bin; /* the smallest that is wanted, and how many of it still are */
};

static void write_entry(struct entry_writer *w, size_t index, float value) {
  uint16_t half;
  size_t gap = index - w->next;
  for (; gap >> GAP_BITS; gap >>= GAP_BITS)
    *w->at++ = (uint8_t)(gap | 1 << GAP_BITS);
  *w->at++ = (uint8_t)gap;
  half_fastest()->from_floats(&value, 1, &half);
  memcpy(w->at, &half, VALUE_BYTES);
  w->at += VALUE_BYTES;
  w->next = index + 1;
}

static bool is_wanted(struct entry_writer *w, float value) {
  if (select_bits(value) >> SELECT_SHIFT > w->bin)
    return true;
  if (w->of_bin == 0)
    return false;
  w->of_bin--;
  return true;
}

static void write_entries(struct entry_writer *w, const struct select_kernel *k, const float *values, size_t n,
                          size_t at) {
  uint16_t places[BLOCK + 1];
  size_t n_places = k->find(values, n, w->bin << SELECT_SHIFT, places);
  for (size_t i = 0; i < n_places; i++)
    if (is_wanted(w, values[places[i]]))
      write_entry(w, at + places[i], values[places[i]]);
}

static enum err topk_encode(double fraction, const float *x, const float *copy, size_t n_values,
                            uint32_t histogram[SELECT_BINS], struct entry_writer *w) {
  float values[BLOCK];
  memset(histogram, 0, SELECT_BINS * sizeof *histogram);
  for (size_t at = 0; at < n_values; at += BLOCK) {
    size_t n = block_length(at, n_values);
    enum err e = difference(x + at, copy + at, n, values);
    if (e)
      return e;
    select_count(values, n, histogram);
  }
  const struct select_kernel *k = select_fastest();
  select_bound(histogram, (uint32_t)entries_of(fraction, n_values), &w->bin, &w->of_bin);
  for (size_t at = 0; at < n_values; at += BLOCK) {
    size_t n = block_length(at, n_values);
    for (size_t i = 0; i < n; i++)
      values[i] = x[at + i] - copy[at + i];
    write_entries(w, k, values, n, at);
  }
  if (w->next == 0) /* all are zero */
    write_entry(w, 0, 0);
  return ERR_OK;
}

struct entry {
  size_t index;
  float value;
};

/* The next gap, in as few bytes as it takes; false: in more. */
static bool read_gap(struct cursor *c, size_t *out_gap) {
  size_t gap = 0;
  for (int i = 0; i < MAX_GAP_BYTES; i++) {
    uint8_t byte = cursor_u8(c);
    gap |= (size_t)(byte & ((1 << GAP_BITS) - 1)) << i * GAP_BITS;
    if (byte >> GAP_BITS == 0) {
      *out_gap = gap;
      return byte != 0 || i == 0;
    }
  }
  return false;
}

/* The entry after the one before `next`; next becomes the index after it. */
static enum err read_entry(struct cursor *c, size_t n_values, size_t *next, struct entry *out_entry) {
  size_t gap = 0;
  bool is_short = read_gap(c, &gap);
  uint16_t half = cursor_u16(c);
  if (c->failed)
    return ERR_LENGTH;
  if (!is_short || gap >= n_values - *next)
    return ERR_ENCODING;
  out_entry->index = *next + gap;
  half_fastest()->to_floats(&half, 1, &out_entry->value);
  *next = out_entry->index + 1;
  return ERR_OK;
}

static enum err topk_add(const uint8_t *bytes, size_t n_bytes, float *copy, size_t n_values) {
  if (n_bytes == 0 || n_bytes > entries_bound(entries_of(CODEC_MAX_FRACTION, n_values), n_values))
    return ERR_LENGTH;
  for (int write = 0; write <= 1; write++) {
    struct cursor c;
    size_t next = 0;
    cursor_init(&c, bytes, n_bytes);
    while (c.left > 0) {
      struct entry entry;
      enum err e = read_entry(&c, n_values, &next, &entry);
      if (e)
        return e;
      float sum = copy[entry.index] + entry.value;
      if (write)
        copy[entry.index] = sum;
      else if (!isfinite(sum))
        return ERR_NON_FINITE;
    }
  }
  return ERR_OK;
}

/* ---- all of them */

const char *codec_name(enum codec_kind kind) {
  return row_of(kind)->name;
}

size_t codec_bound(struct codec c, size_t n_values) {
  const struct codec_row *row = row_of(c.kind);
  return row->bytes ? row->bytes(n_values) : entries_bound(entries_of(c.fraction, n_values), n_values);
}

size_t codec_full_bytes(size_t n_values) {
  return f32_bytes(n_values);
}

size_t codec_payload_bound(struct codec c, size_t n_values) {
  size_t link = codec_bound(c, n_values), full = codec_full_bytes(n_values);
  return link > full ? link : full;
}

double codec_gamma(struct codec c) {
  return c.kind == CODEC_TOPK ? sqrt(c.fraction) : 1;
}

size_t codec_scratch(struct codec c) {
  return c.kind == CODEC_TOPK ? SELECT_BINS : 0;
}

enum err codec_encode(struct codec c, const float *x, const float *copy, size_t n_values, uint64_t seed,
                      uint32_t *scratch, uint8_t *out_bytes, size_t *out_n_bytes, float *out_next) {
  const struct codec_row *row = row_of(c.kind);
  if (row->bytes) {
    *out_n_bytes = row->bytes(n_values);
    return dense_encode(row, x, copy, n_values, seed, out_bytes, out_next);
  }
  struct entry_writer w = {.at = out_bytes};
  enum err e = topk_encode(c.fraction, x, copy, n_values, scratch, &w);
  *out_n_bytes = (size_t)(w.at - out_bytes);
  if (e || !out_next)
    return e;
  memcpy(out_next, copy, n_values * sizeof *copy);
  return topk_add(out_bytes, *out_n_bytes, out_next, n_values);
}

enum err codec_add(enum codec_kind kind, const uint8_t *bytes, size_t n_bytes, float *copy, size_t n_values) {
  if ((unsigned)kind >= N_CODECS)
    return ERR_ENCODING;
  const struct codec_row *row = row_of(kind);
  return row->bytes ? dense_add(row, bytes, n_bytes, copy, n_values) : topk_add(bytes, n_bytes, copy, n_values);
}

/* ---- models as they are */

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
  if (n_bytes != codec_full_bytes(n_values))
    return ERR_LENGTH;
  enum err e = codec_check_values(bytes, n_values);
  if (!e)
    memcpy(out_values, bytes, n_bytes);
  return e;
}
