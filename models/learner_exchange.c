#include "models/learner_parts.h"

#include <string.h>

#include "base/must.h"
#include "models/floats.h"
#include "models/merging/nearby.h"

/* ---- the own update */

size_t learner_payload_bound(const struct learner *l) {
  return codec_payload_bound(l->config.codec, l->n_shared);
}

static enum err encode_full(struct learner *l, uint8_t *out_payload, size_t *out_n_bytes) {
  const float *x = learner_shared(l);
  if (!floats_finite(x, l->n_shared))
    return ERR_NON_FINITE;
  codec_write_values(x, l->n_shared, out_payload);
  memcpy(l->spare, x, l->n_shared * sizeof *x);
  *out_n_bytes = codec_full_bytes(l->n_shared);
  return ERR_OK;
}

static enum err encode_difference(struct learner *l, uint8_t *out_payload, size_t *out_n_bytes) {
  return codec_encode(l->config.codec, learner_shared(l), l->copy, l->n_shared, l->rounding_seed, l->codec_scratch,
                      out_payload, out_n_bytes, l->spare);
}

bool learner_nearby_is_shorter(const struct learner *l, size_t width) {
  return NEARBY_HEAD_BYTES + nearby_bytes(l->n, width) < codec_full_bytes(l->n);
}

/* In a half x stands beside x̂' where that is shorter, and x̂' is of all of it. */
static size_t nearby_width(const struct learner *l) {
  static const size_t width_of[N_CODECS] = {[CODEC_F32] = 1, [CODEC_F16] = 2};
  size_t width = width_of[l->config.codec.kind];
  return width > 0 && !l->shared && learner_nearby_is_shorter(l, width) && nearby_fits(l->x, l->spare, l->n, width)
             ? width
             : 0;
}

enum err learner_encode(struct learner *l, bool start_chain, uint8_t *out_payload, size_t *out_n_bytes) {
  l->pending = false;
  enum err e = start_chain ? encode_full(l, out_payload, out_n_bytes) : encode_difference(l, out_payload, out_n_bytes);
  l->pending = e == ERR_OK;
  l->nearby_width = l->pending ? nearby_width(l) : 0;
  return e;
}

void learner_published(struct learner *l) {
  MUST(l->pending);
  float *published = l->spare;
  l->spare = l->copy;
  l->copy = published;
  l->pending = false;
}

void learner_withheld(struct learner *l) {
  MUST(l->pending);
  l->pending = false;
}

/* ---- copies of peers, merging */

float *learner_copy(const struct learner *l, size_t copy) {
  MUST(copy < l->config.n_copies);
  return l->copies[copy];
}

enum err learner_copy_set(struct learner *l, size_t copy, const uint8_t *bytes, size_t n_bytes) {
  return codec_read_values(bytes, n_bytes, learner_copy(l, copy), l->n_shared);
}

enum err learner_copy_add(struct learner *l, size_t copy, enum codec_kind codec, const uint8_t *bytes, size_t n_bytes) {
  return codec_add(codec, bytes, n_bytes, learner_copy(l, copy), l->n_shared);
}

size_t learner_copy_bytes(const struct learner *l) {
  return codec_full_bytes(l->n_shared);
}

void learner_copy_write(const struct learner *l, size_t copy, uint8_t *out_bytes) {
  codec_write_values(learner_copy(l, copy), l->n_shared, out_bytes);
}
