/* Statistics in a merge: what becomes of the running means and variances of normalising layers (ROLE_STATISTIC).
 *
 * They are not learnt by gradient but seen in the data, so averaging them as weights is one of three things to do:
 *
 *   mean     as weights: x + Σ w_j (x̂_j − x̂)
 *   local    each agent keeps its own (Li et al. 2021, FedBN); what peers send of theirs is not taken into x
 *   pooled   those of all samples together, by the law of total variance: with the own share w_0 = 1 − Σ w_j, m_0 and v_0
 *            being x's, m ← Σ w m and v ← E[v] + Var[m] = Σ w (v + (m − m̄)²). A variance whose mean is not in the schema
 *            is averaged
 *
 * A tensor called STEM.running_var is a variance, STEM.running_mean of the same shape its mean, as PyTorch names them; every
 * other statistic counts as a mean. A joiner has none of its own: it starts from the median of all tensors, whatever the
 * policy. Updates carry statistics under each policy, so `local` is no secrecy. No policy leaves a variance below 0, whatever peers sent: lossy differences to public
 * copies may pass it. A counter of batches is an integer, and this schema has only floats, so there is none to average.
 *
 * Statistics take no part in distances and norm bounds (learnt_distance): they are as large as the data's units make them,
 * so that one unscaled feature would drown all weights in the norm, and a site whose data differ would have its *weights*
 * scaled down for that. For the same reason the bound does not scale them. What protects them is the finite sum, the floor
 * at 0, the middle by coordinate under every rule but the mean (merging/rule.h), and `local`.
 *
 * Pure but for opening; owner: the learner. */
#ifndef MODELS_MERGING_STATISTIC_H
#define MODELS_MERGING_STATISTIC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "models/kernels/mean.h"
#include "models/schema.h"

enum statistic_policy { STATISTIC_MEAN, STATISTIC_LOCAL, STATISTIC_POOLED, N_STATISTIC_POLICIES };

const char *statistic_policy_name(enum statistic_policy policy); /* "mean", "local", "pooled" */

/* One tensor, by its place in the model. */
struct statistic {
  size_t offset, n;
  bool is_variance;
  bool has_mean;
  size_t mean_offset;
};

struct statistics {
  size_t n;
  struct statistic *list; /* by ascending offset */
};

/* Whether a tensor is a variance, by its name. */
bool statistic_is_variance(const struct tensor *t);

/* Those of a schema. ERR_NO_MEMORY. */
MUST_USE enum err statistics_open(const struct schema *schema, struct statistics *out_statistics);
void statistics_done(struct statistics *s);

/* The merged statistics to their places in out_x [P], whose other values stay; it overlaps nothing else. Each term is a model [P] and
 * its weight, which no bound has scaled, Σ ≤ 1; own is what x̂_j are differences to. ERR_MERGE_REFUSED: one is not finite; those
 * places are then undefined. */
MUST_USE enum err statistics_merge(const struct statistics *s, enum statistic_policy policy, const float *x,
                                   const float *own, const struct mean_term *terms, size_t n_terms, float *out_x);

/* The same of a merge that trims: x + share · (t − x), 0 ≤ share ≤ 1, t being by coordinate the mean of models[0] = x and those of
 * peers without the f smallest and the f largest, 2f < n_models ≤ MAX_PEERS + 1; under `local` those of x. */
MUST_USE enum err statistics_trim(const struct statistics *s, enum statistic_policy policy, const float *const *models,
                                  size_t n_models, size_t f, double share, float *out_x);

/* Variances below 0 become 0: after values came from elsewhere. */
void statistics_floor(const struct statistics *s, float *x);

/* The values between statistic k − 1 and statistic k, 0 ≤ k ≤ s->n, of a model of n: all ranges together are what is learnt. May be
 * empty. */
void learnt_range(const struct statistics *s, size_t k, size_t n, size_t *out_start, size_t *out_end);

/* ‖a − b‖₂ over the n values that are no statistics. */
double learnt_distance(const struct statistics *s, const float *a, const float *b, size_t n);

/* cos(a − origin, b − origin) over the same; 0 where one of them is the origin, or is not finite. */
double learnt_cosine(const struct statistics *s, const float *origin, const float *a, const float *b, size_t n);

#endif
