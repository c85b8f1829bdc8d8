#include "models/learner_parts.h"

#include <math.h>

#include "base/must.h"

/* Sets what the caller is told of each, and what its difference is multiplied by. */
static void judge_distances(const struct learner *l, struct contribution *contributions, size_t n, double bound) {
  for (size_t i = 0; i < n; i++) {
    struct contribution *c = &contributions[i];
    c->distance = learnt_distance(&l->statistics, learner_copy(l, c->copy), l->copy, l->n_shared);
    c->clipped = c->distance > bound;
    double weight = codec_gamma(l->config.codec) * c->weight;
    l->terms[i] = (struct mean_term){learner_copy(l, c->copy), c->clipped ? weight * (bound / c->distance) : weight};
  }
}

/* The merged model into spare: what is learnt under the bound, statistics by their policy and full weight. */
static enum err merge_into_spare(struct learner *l, const struct contribution *contributions, size_t n) {
  const float *x = learner_shared(l);
  enum err e = merge_apply(x, l->copy, l->terms, n, l->n_shared, l->spare);
  for (size_t i = 0; i < n; i++)
    l->terms[i].weight = codec_gamma(l->config.codec) * contributions[i].weight;
  return e ? e : statistics_merge(&l->statistics, l->config.statistics, x, l->copy, l->terms, n, l->spare);
}

enum err learner_merge(struct learner *l, struct contribution *contributions, size_t n) {
  MUST(n <= l->config.n_copies && !l->pending);
  double bound = distance_ring_bound(&l->ring, l->own_step);
  judge_distances(l, contributions, n, bound);
  enum err e = merge_into_spare(l, contributions, n);
  if (e)
    return e;
  learner_take_shared(l);
  for (size_t i = 0; i < n; i++)
    if (contributions[i].weight > 0)
      distance_ring_put(&l->ring, fmin(contributions[i].distance, bound));
  return ERR_OK;
}

void learner_adopt_median(struct learner *l, const size_t *copies, size_t n) {
  const float *chosen[MAX_PEERS];
  MUST(n >= 1 && n <= l->config.n_copies);
  for (size_t i = 0; i < n; i++)
    chosen[i] = learner_copy(l, copies[i]);
  merge_median(l->spare, chosen, n, l->n_shared);
  learner_take_shared(l);
  learner_floor(l);
  terms_forget(&l->added);
}
