#include "models/learner_sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "models/floats.h"
#include "models/learner_parts.h"

/* After learner_shared's room was changed. */
static void put_shared(struct learner *l) {
  if (l->shared)
    share_scatter(&l->share, l->shared, l->x);
}

enum err learner_push(struct learner *l, const struct push *p, uint8_t *out_values) {
  l->pending = false;
  enum err e = push_sum_push(p, learner_shared(l), l->copy, l->n_shared, l->spare);
  if (e)
    return e;
  put_shared(l);
  codec_write_values(l->spare, l->n_shared, out_values);
  l->pending = true;
  l->nearby_width = 0;
  return ERR_OK;
}

void learner_push_back(struct learner *l, const struct push *p) {
  MUST(l->pending);
  push_sum_take_back(p, learner_shared(l), l->copy, l->spare, l->n_shared);
  put_shared(l);
  l->pending = false;
}

double *learner_gather_begin(struct learner *l, double mass) {
  double *u = malloc(l->n_shared * sizeof *u);
  if (u)
    push_sum_begin(mass, learner_shared(l), l->n_shared, u);
  return u;
}

enum err learner_gather(struct learner *l, size_t copy, double share, const uint8_t *bytes, size_t n_bytes, double *u) {
  MUST(!l->pending);
  enum err e = codec_read_values(bytes, n_bytes, l->spare, l->n_shared);
  if (!e)
    push_sum_take(share, l->spare, learner_copy(l, copy), l->n_shared, u);
  return e;
}

enum err learner_gather_end(struct learner *l, double mass, double *u) {
  MUST(!l->pending);
  enum err e = push_sum_end(mass, u, l->n_shared, l->spare);
  free(u);
  if (e)
    return ERR_MERGE_REFUSED;
  learner_take_shared(l);
  learner_floor(l);
  l->has_step = false;
  return ERR_OK;
}

enum err learner_adopt_sums(struct learner *l, const size_t *copies, const double *masses, size_t n) {
  const float *chosen[MAX_PEERS];
  MUST(n >= 1 && n <= l->config.n_copies && !l->pending);
  float *means = floats_new(n * l->n_shared);
  if (!means)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < n; i++) {
    float *mean = means + i * l->n_shared;
    const float *sum = learner_copy(l, copies[i]);
    for (size_t k = 0; k < l->n_shared; k++)
      mean[k] = (float)((double)sum[k] / masses[i]);
    chosen[i] = mean;
  }
  learner_adopt_values(l, chosen, n);
  free(means);
  return ERR_OK;
}
