#include "agent/run/snapshot.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/must.h"
#include "models/formats/number.h"

enum { LINE_BYTES = 32 + NUMBER_TEXT_BYTES };

/* Two lines a pair, and two before them. */
static size_t text_bound(size_t n_pairs) {
  return (size_t)2 * LINE_BYTES * (n_pairs + 1); /* n_pairs ≤ MAX_FEATURES */
}

size_t snapshot_bound(const struct contract *contract, size_t n_learner) {
  return n_learner + (scale_is_measured(contract->scale.rule) ? text_bound(contract_n_inputs(contract)) : 0);
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
