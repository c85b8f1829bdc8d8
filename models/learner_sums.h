/* Push-sum with a learner: x is z = u/μ, x̂ the own sum σ, a peer's copy its sum, all of what is shared; personal
 * layers stay (DFedPGP, Liu et al. 2024). The masses are the caller's (agent/core/mass.h), the arithmetic is
 * models/merging/push_sum.h.
 *
 *   learner_train, at a rate that the caller multiplies by 1/μ
 *   learner_push         σ' pending, and x what stays            then learner_published, or learner_push_back
 *   learner_gather_…     u ← μx, u ← u + what peers' sums grew by, x ← u/μ'
 *
 * in the places of learner_encode and learner_merge; σ begins with the first weights, as x̂ does. Thread: the
 * learner's. */
#ifndef MODELS_LEARNER_SUMS_H
#define MODELS_LEARNER_SUMS_H

#include "models/learner.h"
#include "models/merging/push_sum.h"

/* out_values: learner_copy_bytes, of σ'. ERR_NON_FINITE: nothing is pending, and x is as it was. */
MUST_USE enum err learner_push(struct learner *l, const struct push *p, uint8_t *out_values);

/* It did not leave: in the place of learner_withheld. */
void learner_push_back(struct learner *l, const struct push *p);

/* μ·x of what is shared, to be given to learner_gather_end; NULL: no memory. */
double *learner_gather_begin(struct learner *l, double mass);

/* A peer's sum becomes its copy, and u grows by `share` of what it grew by; 0: it is the first one. ERR_LENGTH,
 * ERR_NON_FINITE: nothing has changed. */
MUST_USE enum err learner_gather(struct learner *l, size_t copy, double share, const uint8_t *bytes, size_t n_bytes,
                                 double *u);

/* x ← u / mass, and u is freed. ERR_MERGE_REFUSED: not all of that is a float; x is unchanged. */
MUST_USE enum err learner_gather_end(struct learner *l, double mass, double *u);

/* A joiner's start: the coordinate median of the peers' sums, each by its mass: of means of all that they ever gave. */
MUST_USE enum err learner_adopt_sums(struct learner *l, const size_t *copies, const double *masses, size_t n);

#endif
