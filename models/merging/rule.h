/* Rules of a merge: what becomes of one's own model and those of peers of whom some may be bad.
 *
 * The neighbourhood are n = m + 1 models, one's own public copy x̂ and the copies x̂_j of the m peers heard, f of which may be
 * anything. Before every rule a peer's difference d_j = x̂_j − x̂ is shortened to the norm bound B where it is longer.
 *
 *   mean              x + γ Σ w_j d_j with the mixing weights of merging/mixing.h (Lian et al. 2017)
 *   median            by coordinate (Yin et al. 2018)
 *   trimmed           by coordinate, without the f smallest and the f largest (Yin et al. 2018)
 *   krum              the model whose n − f − 2 nearest are nearest (Blanchard et al. 2017)
 *   multi-krum        the mean of the n − f best by that score (the paper leaves open how many)
 *   geometric-median  8 steps of smoothed Weiszfeld (Pillutla et al. 2022)
 *   centred-clip      3 steps of centred clipping from x̂, the radius is the median distance (Karimireddy et al. 2021)
 *   clip              x + γ Σ w_j d_j min(1, τ/‖d_j‖): ClippedGossip (He, Karimireddy & Jaggi 2022). τ is the median of the
 *                     distances, the lower one of two, or the (m − f)-th smallest where that is less
 *   nnm               each model becomes the mean of the n − f nearest to it, then trimmed (Allouah et al. 2023)
 *   trust             FLTrust (Cao et al. 2021) with one's own last training as the root: with y_j = x̂_j − x before it, y_own =
 *                     x − x before it and TS_j = max(0, cos(y_j, y_own)), Σ TS_j (‖y_own‖/‖y_j‖) y_j / Σ TS_j. A y_j shorter than a
 *                     hundred-thousandth of y_own is left out: it is rounding. Where data are skewed honest peers point elsewhere than
 *                     oneself, and this costs 9 to 17 points of accuracy without any attack: it is for sites of equal data
 *   robust            clip with fewer than 6 configured peers or fewer than 3 heard, else nnm
 *
 * Where fewer are heard than the rule needs for the f that is set, or than it needs for any bad one where f is a third, clip
 * judges in its place: of 6 peers of whom 2 may be bad 2 that are heard may be those, and no statistic of three models tells. With
 * mixing weights who is not heard counts as oneself, so that two can do no more than when all are there.
 *
 * A rule that chooses or averages takes the place of the mixing weights: all models count alike; only mean and clip
 * weigh by degrees or samples. Order statistics and choices cut bridges: a swarm of two groups that one edge joins stays two
 * swarms; clip does not. What works with how many bad ones is said in f of a *neighbourhood*, and holds for up to a third.
 *
 * Bucketing puts the mean of `bucket` models drawn at random in the place of each before the rule, for honest models that differ
 * much (Karimireddy, He & Jaggi 2022). Worker momentum (the same authors, 2021) is what peers send already: differences are made by
 * optimisers whose momentum is kept from round to round, so their noise is averaged over 1/(1 − β) steps before a rule sees it.
 *
 * No peer moves the model by more than max_share · B: a coefficient above max_share is cut and the rest is one's own; of trust it
 * is the share TS_j / Σ TS_j. An order statistic lies between what others say, and its whole step is shortened to max_share · B; where
 * nothing is trimmed it is a mean and cut likewise.
 *
 * Statistics of normalising layers count in no distance. With mean they follow merging/statistic.h. With any other rule they
 * are trimmed by coordinate, of the f smallest and largest, or, where f is 0 or that leaves none, of all but the middle; of one
 * peer alone nothing is taken. With clip that is gone towards by as much as the mixing weights leave to peers, each at most
 * max_share.
 *
 * Sums run in double in the order in which the peers are given, by ascending key, and all that is random follows from the
 * seed: the order of arrival changes no bit. Memory: the space below, O(n² + n·1024) whatever P is. Thread and owner: the learner's. */
#ifndef MODELS_MERGING_RULE_H
#define MODELS_MERGING_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/kernels/mean.h"
#include "models/merging/statistic.h"

enum merge_rule {
  RULE_MEAN,
  RULE_MEDIAN,
  RULE_TRIMMED,
  RULE_KRUM,
  RULE_MULTI_KRUM,
  RULE_GEOMETRIC_MEDIAN,
  RULE_CENTRED_CLIP,
  RULE_CLIP,
  RULE_NNM,
  RULE_TRUST,
  RULE_ROBUST,
  N_MERGE_RULES
};

const char *merge_rule_name(enum merge_rule rule); /* as above */

static const uint32_t RULE_A_THIRD = UINT32_MAX;

/* Zeros are the mean without a cap. */
struct rule_setting {
  enum merge_rule rule;
  uint32_t byzantine;    /* f; RULE_A_THIRD: ⌊m/3⌋ */
  uint32_t bucket;       /* models in a bucket; 0 and 1: none */
  double max_share;      /* of one peer; 0: no cap */
  double norm_bound;     /* B in medians of accepted distances; 0: MERGE_BOUND_FACTOR */
  uint32_t n_configured; /* peers of the job, heard or not: what `robust` goes by */
};

/* How many models a rule needs for f bad ones. */
size_t merge_rule_least(enum merge_rule rule, size_t f);

/* Whether bucketing is of use before it. */
bool merge_rule_takes_buckets(enum merge_rule rule);

/* Which rule judges what that many peers say: the one that is set, or clip in its place; never RULE_ROBUST. */
enum merge_rule rule_that_judges(const struct rule_setting *setting, size_t n_heard);

/* f with that many heard: as set, or a third as far as the rule bears it; clip believes at least one. */
size_t rule_byzantine(const struct rule_setting *setting, size_t n_heard);

/* What a rule made of a peer. */
enum fate {
  FATE_KEPT,
  FATE_CLIPPED,  /* its difference was shortened, by the bound or by the rule */
  FATE_LEFT_OUT, /* it was not chosen */
  N_FATES
};

const char *fate_name(enum fate fate); /* "kept", "clipped", "left-out" */

struct rule_peer {
  const float *values; /* x̂_j [P] */
  double weight;       /* w_j of mixing: 0 ≤ w_j, Σ ≤ 1; at 0 a peer takes no part */
  double distance;     /* ‖x̂_j − x̂‖ of what is learnt */
  /* out: */
  enum fate fate;
  double
      share; /* with which its difference went in: the coefficient of the sum times what shortened it; of an order statistic the
                   part of the models that it was taken of; of trust its share of all trust */
};

struct rule_merge {
  const float *x, *own; /* [P] the model and x̂ */
  const float *
      before; /* [P] the model before its last training; NULL: not known, as after an adoption or with personal tensors; trust is clip then */
  size_t n_values;
  double gamma, bound;
  uint64_t seed; /* of buckets */
  const struct statistics *statistics;
  enum statistic_policy policy;
  struct rule_peer *peers; /* by ascending key */
  size_t n_peers;
};

struct rule_space;

/* Room for merges with at most n_peers. ERR_NO_MEMORY. */
MUST_USE enum err rule_space_new(const struct rule_setting *setting, size_t n_peers, struct rule_space **out_space);
void rule_space_free(struct rule_space *s);

/* What that takes, without what the heap adds to each of its arrays; their number. */
size_t rule_space_bytes(const struct rule_setting *setting, size_t n_peers, size_t *out_n_arrays);

/* The merged model to out_x [P], which overlaps nothing else. Without peers it is x to the bit. ERR_MERGE_REFUSED: it is not finite;
 * out_x is then undefined. */
MUST_USE enum err rule_merge(struct rule_space *s, const struct rule_setting *setting, const struct rule_merge *m,
                             float *out_x);

#endif
