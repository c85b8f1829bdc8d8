#include "models/learner_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/must.h"
#include "models/floats.h"
#include "models/merging/nearby.h"

/* ---- snapshots
 *
 *   head   magic 8, version u32, zero u32, schema hash 32, P u64, zero u64                          64 bytes
 *   half   head, own step f64, ring (n u32, oldest u32, 32 × f64), x, first state, x̂              336 + 12·P
 *          version 2, of optimisers with more than momentum: optimiser u32, zero u32, t u64, other states
 *          versions 3 and 4: as 1 and 2 without x there, and at the end width u32, zero u32 and x beside x̂
 *          (models/merging/nearby.h)
 *   model  head, x                                                                                  64 + 4·P */

enum {
  MODEL_VERSION = 1,
  HALF_VERSION = 4,
  HEAD_BYTES = 64,
  STATE_BYTES = 8 + 4 + 4 + 8 * MERGE_RING,
  TAIL_BYTES = 16,
  MAGIC_BYTES = 8
};

static const char half_magic[MAGIC_BYTES] = "starhalf", model_magic[MAGIC_BYTES] = "starmodl";

/* Room and place of an array in a snapshot. */
static size_t array_bytes(const struct learner *l) {
  return codec_full_bytes(l->n);
}

static void head_write(const struct learner *l, const char magic[MAGIC_BYTES], uint32_t version,
                       uint8_t out_bytes[HEAD_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, HEAD_BYTES);
  writer_bytes(&w, magic, MAGIC_BYTES);
  writer_u32(&w, version);
  writer_u32(&w, 0);
  writer_bytes(&w, l->config.schema_hash.bytes, DIGEST_BYTES);
  writer_u64(&w, l->n);
  writer_u64(&w, 0);
  MUST(writer_end(&w) == ERR_OK);
}

/* The head of n values of the schema with this hash, of the newest version or one before. */
static enum err head_judge(const struct digest *schema_hash, size_t n_values, const char magic[MAGIC_BYTES],
                           uint32_t newest, const uint8_t *bytes, size_t n_bytes, uint32_t *out_version) {
  struct cursor c;
  char found[MAGIC_BYTES];
  struct digest schema;
  if (n_bytes < HEAD_BYTES)
    return ERR_TRUNCATED;
  cursor_init(&c, bytes, HEAD_BYTES);
  cursor_bytes(&c, found, sizeof found);
  uint32_t version = cursor_u32(&c), zero = cursor_u32(&c);
  cursor_bytes(&c, schema.bytes, sizeof schema.bytes);
  uint64_t n = cursor_u64(&c), zero_too = cursor_u64(&c);
  if (memcmp(found, magic, sizeof found) != 0 || version == 0)
    return ERR_CORRUPT;
  if (version > newest)
    return ERR_TOO_NEW;
  if (!digest_equal(&schema, schema_hash))
    return ERR_SCHEMA;
  if (zero || zero_too || n != n_values)
    return ERR_CORRUPT;
  *out_version = version;
  return ERR_OK;
}

static enum err size_judge(size_t n_bytes, size_t expected_bytes) {
  return n_bytes < expected_bytes ? ERR_TRUNCATED : n_bytes > expected_bytes ? ERR_TRAILING : ERR_OK;
}

/* The head of a model, and its size. */
static enum err model_judge(const struct digest *schema_hash, size_t n_values, const uint8_t *bytes, size_t n_bytes) {
  uint32_t version;
  enum err e = head_judge(schema_hash, n_values, model_magic, MODEL_VERSION, bytes, n_bytes, &version);
  return e ? e : size_judge(n_bytes, HEAD_BYTES + codec_full_bytes(n_values));
}

static void state_write(const struct learner *l, uint8_t out_bytes[STATE_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, STATE_BYTES);
  writer_f64(&w, l->own_step);
  writer_u32(&w, l->ring.n);
  writer_u32(&w, l->ring.oldest);
  for (size_t i = 0; i < MERGE_RING; i++)
    writer_f64(&w, l->ring.distances[i]);
  MUST(writer_end(&w) == ERR_OK);
}

static bool is_distance(double d) {
  return isfinite(d) && d >= 0;
}

static enum err state_read(const uint8_t bytes[STATE_BYTES], double *out_own_step, struct distance_ring *out_ring) {
  struct cursor c;
  cursor_init(&c, bytes, STATE_BYTES);
  *out_own_step = cursor_f64(&c);
  out_ring->n = cursor_u32(&c);
  out_ring->oldest = cursor_u32(&c);
  bool sound = is_distance(*out_own_step) && out_ring->n <= MERGE_RING && out_ring->oldest < MERGE_RING;
  sound = sound && (out_ring->n == MERGE_RING || out_ring->oldest == 0);
  for (size_t i = 0; i < MERGE_RING; i++) {
    out_ring->distances[i] = cursor_f64(&c);
    sound = sound && is_distance(out_ring->distances[i]);
  }
  return sound ? ERR_OK : ERR_CORRUPT;
}

/* x, the first state, x̂ */
enum { HALF_ARRAYS = 3 };

/* What is where in a half. */
struct half {
  enum optimiser kind; /* whose states they are */
  uint64_t n_taken;
  size_t width; /* of an x that stands beside x̂; 0: it stands whole */
};

/* The half's that would be written now. */
static struct half half_now(const struct learner *l) {
  return (struct half){
      .kind = l->config.train.optimiser.kind, .n_taken = l->n_taken, .width = l->pending ? l->nearby_width : 0};
}

static bool has_tail(const struct half *h) {
  return optimiser_states(h->kind) > 1;
}

static size_t first_state_at(const struct learner *l, const struct half *h) {
  return HEAD_BYTES + STATE_BYTES + (h->width > 0 ? 0 : array_bytes(l));
}

static size_t copy_at(const struct learner *l, const struct half *h) {
  return first_state_at(l, h) + array_bytes(l);
}

static size_t tail_at(const struct learner *l, const struct half *h) {
  return copy_at(l, h) + array_bytes(l);
}

static size_t nearby_at(const struct learner *l, const struct half *h) {
  return tail_at(l, h) + (has_tail(h) ? TAIL_BYTES + (optimiser_states(h->kind) - 1) * array_bytes(l) : 0);
}

static size_t half_bytes(const struct learner *l, const struct half *h) {
  return nearby_at(l, h) + (h->width > 0 ? NEARBY_HEAD_BYTES + nearby_bytes(l->n, h->width) : 0);
}

size_t learner_half_arrays(const struct train_config *train) {
  return HALF_ARRAYS - 1 + optimiser_states(train->optimiser.kind);
}

size_t learner_half_bytes(const struct learner *l) {
  struct half h = half_now(l);
  return half_bytes(l, &h);
}

size_t learner_half_copy_offset(const struct learner *l) {
  struct half h = half_now(l);
  return copy_at(l, &h);
}

static void tail_write(const struct learner *l, uint8_t *out_bytes) {
  struct writer w;
  writer_init(&w, out_bytes, TAIL_BYTES);
  writer_u32(&w, l->config.train.optimiser.kind);
  writer_u32(&w, 0);
  writer_u64(&w, l->n_taken);
  MUST(writer_end(&w) == ERR_OK);
  for (size_t i = 1; i < learner_states(l); i++)
    codec_write_values(l->states[i], l->n, out_bytes + TAIL_BYTES + (i - 1) * array_bytes(l));
}

static void x_write(const struct learner *l, const struct half *h, uint8_t *out_bytes) {
  if (h->width == 0) {
    codec_write_values(l->x, l->n, out_bytes + HEAD_BYTES + STATE_BYTES);
    return;
  }
  struct writer w;
  uint8_t *at = out_bytes + nearby_at(l, h);
  writer_init(&w, at, NEARBY_HEAD_BYTES);
  writer_u32(&w, (uint32_t)h->width);
  writer_u32(&w, 0);
  MUST(writer_end(&w) == ERR_OK);
  nearby_write(l->x, l->spare, l->n, h->width, at + NEARBY_HEAD_BYTES);
}

void learner_half_write(const struct learner *l, uint8_t *out_bytes) {
  struct half h = half_now(l);
  uint32_t version = 1 + (has_tail(&h) ? 1u : 0) + (h.width > 0 ? 2u : 0);
  head_write(l, half_magic, version, out_bytes);
  state_write(l, out_bytes + HEAD_BYTES);
  x_write(l, &h, out_bytes);
  codec_write_values(l->states[0], l->n, out_bytes + first_state_at(l, &h));
  codec_write_values(l->pending ? l->spare : l->copy, l->n, out_bytes + copy_at(l, &h));
  if (has_tail(&h))
    tail_write(l, out_bytes + tail_at(l, &h));
}

/* What a tail begins with; ERR_CORRUPT: no optimiser with one, or more steps than anyone takes. */
static enum err tail_head(const uint8_t bytes[TAIL_BYTES], struct half *h) {
  struct cursor c;
  cursor_init(&c, bytes, TAIL_BYTES);
  uint32_t kind = cursor_u32(&c), zero = cursor_u32(&c);
  uint64_t n_taken = cursor_u64(&c);
  if (kind >= N_OPTIMISERS || optimiser_states((enum optimiser)kind) < 2 || zero || n_taken > INT64_MAX)
    return ERR_CORRUPT;
  h->kind = (enum optimiser)kind;
  h->n_taken = n_taken;
  return ERR_OK;
}

static enum err nearby_head(const struct learner *l, const uint8_t bytes[NEARBY_HEAD_BYTES], struct half *h) {
  struct cursor c;
  cursor_init(&c, bytes, NEARBY_HEAD_BYTES);
  uint32_t width = cursor_u32(&c), zero = cursor_u32(&c);
  if (width < 1 || width > 2 || zero || !learner_nearby_is_shorter(l, width))
    return ERR_CORRUPT;
  h->width = width;
  return ERR_OK;
}

/* Takes the half apart as far as its length hangs on it; ERR_TRUNCATED: it ends before. */
static enum err half_judge(const struct learner *l, const uint8_t *bytes, size_t n_bytes, struct half *out_half) {
  uint32_t version = 0;
  enum err e = head_judge(&l->config.schema_hash, l->n, half_magic, HALF_VERSION, bytes, n_bytes, &version);
  struct half h = {.kind = OPTIMISER_SGD, .width = version > 2};
  if (!e && version % 2 == 0)
    e = n_bytes < tail_at(l, &h) + TAIL_BYTES ? ERR_TRUNCATED : tail_head(bytes + tail_at(l, &h), &h);
  if (!e && version > 2) {
    size_t at = nearby_at(l, &h);
    e = n_bytes < at + NEARBY_HEAD_BYTES ? ERR_TRUNCATED : nearby_head(l, bytes + at, &h);
  }
  if (!e)
    *out_half = h;
  return e;
}

size_t learner_half_measure(const struct learner *l, const uint8_t *bytes, size_t n_bytes) {
  struct half h;
  return half_judge(l, bytes, n_bytes, &h) ? learner_half_bytes(l) : half_bytes(l, &h);
}

size_t learner_half_most(const struct learner *l) {
  size_t most = 0;
  for (enum optimiser kind = 0; kind < N_OPTIMISERS; kind++) {
    size_t n = half_bytes(l, &(struct half){.kind = kind});
    most = n > most ? n : most;
  }
  return most;
}

/* Its floats, before any of them is taken. */
static enum err floats_judge(const struct learner *l, const struct half *h, const uint8_t *bytes) {
  enum err e = codec_check_values(bytes + first_state_at(l, h), 2 * l->n);
  for (size_t i = 1; i < optimiser_states(h->kind) && !e; i++)
    e = codec_check_values(bytes + tail_at(l, h) + TAIL_BYTES + (i - 1) * array_bytes(l), l->n);
  if (e)
    return e;
  return h->width == 0
             ? codec_check_values(bytes + HEAD_BYTES + STATE_BYTES, l->n)
             : nearby_read(bytes + nearby_at(l, h) + NEARBY_HEAD_BYTES, h->width, bytes + copy_at(l, h), l->n, NULL);
}

void learner_forget_states(struct learner *l) {
  l->n_taken = 0;
  for (size_t i = 0; i < learner_states(l) && l->states[i]; i++)
    memset(l->states[i], 0, l->n * sizeof *l->states[i]);
}

/* Takes the states over where they mean the same: mean and mean square, or momentum; else they begin anew. */
static void take_states(struct learner *l, const struct half *h, const uint8_t *bytes) {
  learner_forget_states(l);
  if (optimiser_states(h->kind) != learner_states(l))
    return;
  l->n_taken = h->n_taken;
  for (size_t i = 0; i < learner_states(l); i++) {
    size_t at = i == 0 ? first_state_at(l, h) : tail_at(l, h) + TAIL_BYTES + (i - 1) * array_bytes(l);
    MUST(l->states[i]);
    memcpy(l->states[i], bytes + at, array_bytes(l));
  }
}

static void take_x(struct learner *l, const struct half *h, const uint8_t *bytes) {
  if (h->width == 0)
    memcpy(l->x, bytes + HEAD_BYTES + STATE_BYTES, array_bytes(l));
  else
    MUST(nearby_read(bytes + nearby_at(l, h) + NEARBY_HEAD_BYTES, h->width, bytes + copy_at(l, h), l->n, l->x) ==
         ERR_OK); /* judged before */
}

enum err learner_half_read(struct learner *l, const uint8_t *bytes, size_t n_bytes) {
  double own_step;
  struct distance_ring ring;
  struct half h;
  enum err e = half_judge(l, bytes, n_bytes, &h);
  if (!e)
    e = size_judge(n_bytes, half_bytes(l, &h));
  if (!e)
    e = state_read(bytes + HEAD_BYTES, &own_step, &ring);
  if (!e)
    e = floats_judge(l, &h, bytes);
  if (e)
    return e;
  take_x(l, &h, bytes);
  take_states(l, &h, bytes);
  memcpy(l->copy, bytes + copy_at(l, &h), array_bytes(l));
  l->own_step = own_step;
  l->ring = ring;
  l->pending = false;
  return ERR_OK;
}

size_t learner_model_bytes(const struct learner *l) {
  return HEAD_BYTES + array_bytes(l);
}

void learner_model_write(const struct learner *l, uint8_t *out_bytes) {
  head_write(l, model_magic, MODEL_VERSION, out_bytes);
  codec_write_values(l->x, l->n, out_bytes + HEAD_BYTES);
}

enum err learner_model_read(struct learner *l, const uint8_t *bytes, size_t n_bytes) {
  enum err e = model_judge(&l->config.schema_hash, l->n, bytes, n_bytes);
  return e ? e : codec_read_values(bytes + HEAD_BYTES, array_bytes(l), l->x, l->n);
}

double learner_model_distance(const struct learner *a, const struct learner *b, size_t offset, size_t n_values) {
  MUST(a->n == b->n && offset <= a->n && n_values <= a->n - offset);
  double apart = 0, size = 0;
  for (size_t i = offset; i < offset + n_values; i++) {
    double d = (double)b->x[i] - (double)a->x[i];
    apart += d * d;
    size += (double)a->x[i] * (double)a->x[i];
  }
  return apart == 0 ? 0 : size > 0 ? sqrt(apart / size) : NAN;
}

/* ---- warm start */

static bool is_alike(const struct tensor *a, const struct tensor *b) {
  return strcmp(a->name, b->name) == 0 && a->role == b->role && a->rank == b->rank &&
         memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

static const struct tensor *find_alike(const struct schema *from, const struct tensor *own) {
  for (size_t i = 0; i < schema_tensors(from); i++)
    if (is_alike(schema_tensor(from, i), own))
      return schema_tensor(from, i);
  return NULL;
}

static void take_alike(struct learner *l, const struct schema *from, const float *values, bool *out_taken) {
  for (size_t i = 0; i < schema_tensors(l->config.schema); i++) {
    const struct tensor *own = schema_tensor(l->config.schema, i), *theirs = find_alike(from, own);
    out_taken[i] = theirs != NULL;
    if (theirs)
      memcpy(l->x + own->offset, values + theirs->offset, own->n_values * sizeof *values);
  }
  memcpy(l->copy, l->x, l->n * sizeof *l->x);
}

enum err learner_take(struct learner *l, const struct schema *from, const struct digest *from_hash,
                      const uint8_t *bytes, size_t n_bytes, bool *out_taken) {
  size_t n = schema_parameters(from);
  enum err e = model_judge(from_hash, n, bytes, n_bytes);
  if (e)
    return e;
  float *values = floats_new(n);
  if (!values)
    return ERR_NO_MEMORY;
  e = codec_read_values(bytes + HEAD_BYTES, 4 * n, values, n);
  if (!e)
    take_alike(l, from, values, out_taken);
  free(values);
  return e;
}

/* ---- models from elsewhere */

const float *learner_values(const struct learner *l) {
  return l->x;
}

enum err learner_go_on_from(struct learner *l, const float *values, bool is_first) {
  if (!floats_finite(values, l->n))
    return ERR_NON_FINITE;
  memmove(l->x, values, l->n * sizeof *l->x);
  statistics_floor(&l->statistics, l->x);
  learner_forget_states(l);
  if (is_first)
    memcpy(l->copy, l->x, l->n * sizeof *l->x);
  return ERR_OK;
}
