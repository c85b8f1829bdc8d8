#include "models/learner_parts.h"

#include <math.h>
#include <string.h>

#include "base/must.h"
#include "models/merging/mixing.h"

/* Distances, and what the rule is told of each. */
static void judge_distances(struct learner *l, struct contribution *contributions, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct contribution *c = &contributions[i];
    const float *copy = learner_copy(l, c->copy);
    c->distance = learnt_distance(&l->statistics, copy, l->copy, l->n_shared);
    l->merging[i] = (struct rule_peer){.values = copy, .weight = c->weight, .distance = c->distance};
  }
}

/* Weights by similarity; spare is lost. */
static void weigh_alike(struct learner *l, struct contribution *contributions, size_t n) {
  const float *x = learner_shared(l), *before = learner_shared_of(l, l->before.x, l->spare);
  double own = 1, sum = 0, left = 1;
  for (size_t i = 0; i < n; i++)
    own -= contributions[i].weight;
  for (size_t i = 0; i < n; i++) {
    struct contribution *c = &contributions[i];
    double cosine = learnt_cosine(&l->statistics, before, x, learner_copy(l, c->copy), l->n_shared);
    c->weight *= mixing_affinity(l->config.kappa, cosine);
    sum += c->weight;
  }
  sum += fmax(own, 0);
  for (size_t i = 0; i < n && sum > 0; i++) {
    contributions[i].weight = fmin(contributions[i].weight / sum, left);
    left -= contributions[i].weight;
  }
}

/* Of the draws of a merge: the same after a restart, and known to nobody else. */
static uint64_t merge_seed(const struct learner *l) {
  uint64_t bits;
  memcpy(&bits, &l->own_step, sizeof bits);
  return rng_mix(rng_mix(bits + l->config.train_seed) + l->config.part);
}

/* Tells what became of it, and keeps the distance of what was accepted. */
static void settle(struct learner *l, struct contribution *c, const struct rule_peer *peer, double bound) {
  c->fate = peer->fate;
  c->share = peer->share;
  if (c->weight > 0 && c->fate != FATE_LEFT_OUT)
    distance_ring_put(&l->ring, fmin(c->distance, bound));
}

static double norm_bound(const struct learner *l) {
  return l->config.rule.norm_bound > 0 ? l->config.rule.norm_bound : MERGE_BOUND_FACTOR;
}

enum err learner_merge(struct learner *l, struct contribution *contributions, size_t n) {
  MUST(n <= l->config.n_copies && !l->pending);
  if (l->config.kappa > 0 && l->has_step)
    weigh_alike(l, contributions, n);
  const struct rule_merge m = {.x = learner_shared(l),
                               .own = l->copy,
                               .before = l->has_step && learner_keeps_root(l) ? l->before.x : NULL,
                               .n_values = l->n_shared,
                               .gamma = codec_gamma(l->config.codec),
                               .bound = distance_ring_bound(&l->ring, l->own_step, norm_bound(l)),
                               .seed = merge_seed(l),
                               .statistics = &l->statistics,
                               .policy = l->config.statistics,
                               .peers = l->merging,
                               .n_peers = n};
  judge_distances(l, contributions, n);
  enum err e = rule_merge(l->space, &l->config.rule, &m, l->spare);
  if (e)
    return e;
  learner_take_shared(l);
  l->has_step = false;
  for (size_t i = 0; i < n; i++)
    settle(l, &contributions[i], &l->merging[i], m.bound);
  return ERR_OK;
}

void learner_adopt_median(struct learner *l, const size_t *copies, size_t n) {
  const float *chosen[MAX_PEERS];
  MUST(n >= 1 && n <= l->config.n_copies);
  for (size_t i = 0; i < n; i++)
    chosen[i] = learner_copy(l, copies[i]);
  learner_adopt_values(l, chosen, n);
}

void learner_adopt_values(struct learner *l, const float *const *chosen, size_t n) {
  merge_median(l->spare, chosen, n, l->n_shared);
  learner_take_shared(l);
  learner_floor(l);
  l->has_step = false;
  learner_own_reset(l);
  terms_forget(&l->added);
}
