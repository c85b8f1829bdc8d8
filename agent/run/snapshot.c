#include "agent/run/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/must.h"
#include "models/formats/number.h"

enum { LINE_BYTES = 32 + NUMBER_TEXT_BYTES };

/* Two lines a pair, and two before them. */
static size_t text_bound(size_t n_pairs) {
  return (size_t)2 * LINE_BYTES * (n_pairs + 1); /* n_pairs ≤ MAX_FEATURES */
}

enum err snapshot_scale_text(const struct scale *scale, struct buffer *out_text) {
  *out_text = (struct buffer){0};
  if (!scale_is_measured(scale->rule) || scale->n == 0)
    return ERR_OK;
  size_t capacity = text_bound(scale->n);
  uint8_t *bytes = malloc(capacity);
  if (bytes == NULL)
    return ERR_NO_MEMORY;
  struct writer w;
  writer_init(&w, bytes, capacity);
  scale_write(&w, scale);
  MUST(writer_end(&w) == ERR_OK);
  *out_text = (struct buffer){bytes, w.n_bytes};
  return ERR_OK;
}

enum err snapshot_split(const struct contract *contract, const struct buffer *snapshot, size_t n_learner,
                        struct buffer *out_learner, struct scale *out_scale) {
  if (!scale_is_measured(contract->scale.rule) || snapshot->n_bytes < n_learner) {
    *out_learner = *snapshot;
    *out_scale = (struct scale){0};
    return ERR_OK;
  }
  const char *text = (const char *)snapshot->bytes + n_learner;
  enum err e = scale_read(text, snapshot->n_bytes - n_learner, out_scale);
  if (e == ERR_OK)
    *out_learner = (struct buffer){snapshot->bytes, n_learner};
  return e == ERR_OK || e == ERR_NO_MEMORY ? e : ERR_CORRUPT;
}

/* ---- what continual learning keeps ---- */

enum { SEAL_MAGIC_BYTES = 8, SEAL_TRAILER_BYTES = 8 + SEAL_MAGIC_BYTES };
static const char seal_magic[SEAL_MAGIC_BYTES] = "starseal";

enum err snapshot_seal(const struct at_rest_key *key, const struct learner *l, struct buffer *half) {
  const struct continual *c = learner_continual(l);
  if (c == NULL)
    return ERR_OK;
  size_t n = continual_bytes(c), n_sealed = n + AT_REST_MORE_BYTES;
  uint8_t *plain = malloc(n), *grown = realloc(half->bytes, half->n_bytes + n_sealed + SEAL_TRAILER_BYTES);
  if (grown != NULL)
    half->bytes = grown;
  if (plain == NULL || grown == NULL) {
    free(plain);
    return ERR_NO_MEMORY;
  }
  struct writer w;
  continual_write(c, plain);
  at_rest_seal(key, plain, n, half->bytes + half->n_bytes);
  free(plain);
  writer_init(&w, half->bytes + half->n_bytes + n_sealed, SEAL_TRAILER_BYTES);
  writer_u64(&w, n_sealed);
  writer_bytes(&w, seal_magic, sizeof seal_magic);
  MUST(writer_end(&w) == ERR_OK);
  half->n_bytes += n_sealed + SEAL_TRAILER_BYTES;
  return ERR_OK;
}

struct buffer snapshot_unsealed(const struct buffer *half, struct buffer *out_sealed) {
  struct cursor c;
  *out_sealed = (struct buffer){0};
  if (half->n_bytes < SEAL_TRAILER_BYTES)
    return *half;
  size_t n_before = half->n_bytes - SEAL_TRAILER_BYTES;
  cursor_init(&c, half->bytes + n_before, SEAL_TRAILER_BYTES);
  uint64_t n_sealed = cursor_u64(&c);
  if (memcmp(c.at, seal_magic, sizeof seal_magic) != 0 || n_sealed > n_before)
    return *half;
  *out_sealed = (struct buffer){half->bytes + n_before - n_sealed, (size_t)n_sealed};
  return (struct buffer){half->bytes, n_before - (size_t)n_sealed};
}

enum err snapshot_unseal(const struct at_rest_key *key, const struct buffer *sealed, struct learner *l) {
  struct continual *c = learner_continual(l);
  if (c == NULL || sealed->n_bytes == 0)
    return ERR_OK;
  if (sealed->n_bytes < AT_REST_MORE_BYTES)
    return ERR_SEAL;
  size_t n = sealed->n_bytes - AT_REST_MORE_BYTES;
  uint8_t *plain = malloc(n + 1);
  if (plain == NULL)
    return ERR_NO_MEMORY;
  enum err e = at_rest_open(key, sealed->bytes, sealed->n_bytes, plain);
  if (e == ERR_OK)
    e = continual_read(c, plain, n);
  free(plain);
  return e;
}

enum err snapshot_carry(const struct buffer *from, struct buffer *half) {
  struct buffer sealed, before = snapshot_unsealed(from, &sealed);
  size_t n = from->n_bytes - before.n_bytes;
  if (n == 0)
    return ERR_OK;
  uint8_t *grown = realloc(half->bytes, half->n_bytes + n);
  if (grown == NULL)
    return ERR_NO_MEMORY;
  memcpy(grown + half->n_bytes, from->bytes + before.n_bytes, n);
  half->bytes = grown;
  half->n_bytes += n;
  return ERR_OK;
}

/* ---- how long it can be ---- */

static size_t sealed_bound(const struct job_config *job, size_t n_values) {
  const struct continual_config *c = &job->continual;
  if (c->tasks.n_tasks == 0)
    return 0;
  return continual_bound(c, n_values, contract_n_inputs(job->contract)) + AT_REST_MORE_BYTES + SEAL_TRAILER_BYTES;
}

size_t snapshot_bound(const struct job_config *job, size_t n_values, size_t n_learner) {
  bool has_text = scale_is_measured(job->contract->scale.rule);
  return n_learner + (has_text ? text_bound(contract_n_inputs(job->contract)) : 0) + sealed_bound(job, n_values);
}
