/* How a public data set is divided among n agents, so that each takes its part alone.
 *
 * The division follows from the labels and the seed only: every agent computes the whole assignment and keeps its own
 * part. Parts are numbered 1 … n_parts.
 *
 *   iid          shuffled and dealt in turn; sizes differ by at most one
 *   dirichlet a  for each class p ~ Dir(a·1_n), the shuffled class is cut at the cumulative p; all proportions are drawn
 *                again until every part has SPLIT_MIN_SAMPLES (Hsu, Qi, Brown 2019; Li et al. 2022)
 *   groups k     classes and parts are each cut into k groups in their order; a group's classes are shuffled and dealt in turn
 *                to its parts
 *   shards k     sorted by label, cut into n·k equal shards, k shards dealt to each part (McMahan et al. 2017)
 *
 * Gamma variates are made as Marsaglia & Tsang 2000, in logarithms so that a small `a` does not underflow. log, exp and
 * sqrt of two C libraries may differ in the last bit; such a difference matters only when a cut p·m falls on an integer
 * within about m·2^-50, so two hosts disagree with a probability near 10^-10 a split. iid and shards use integers only. */
#ifndef MODELS_DATA_SPLIT_H
#define MODELS_DATA_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { SPLIT_MIN_SAMPLES = 40, SPLIT_MAX_DRAWS = 50000 };

enum split_rule { SPLIT_NONE, SPLIT_IID, SPLIT_DIRICHLET, SPLIT_SHARDS, SPLIT_GROUPS };

struct split {
  enum split_rule rule;
  double alpha;    /* dirichlet: > 0 */
  uint32_t shards; /* shards: per part, ≥ 1; groups: how many, at most classes and parts */
  uint32_t n_parts;
  uint32_t samples; /* of a part, on average: n_parts · samples of the set, chosen by the seed, are divided; 0: all */
  uint64_t seed;
};

/* "none", "iid", "dirichlet", "shards", "groups". Static storage. */
const char *split_rule_name(enum split_rule rule);

/* Writes the part, 1 … n_parts, of each of the n samples; 0: it is nobody's. The split has passed contract_check and its rule is not
 * SPLIT_NONE. labels [n], each < n_classes; for a task without classes pass n_classes 1 and zeros.
 * ERR_RANGE: too few samples for these parts, or no draw of SPLIT_MAX_DRAWS gave every part SPLIT_MIN_SAMPLES; ERR_LIMIT:
 * more than MAX_SAMPLES; ERR_NO_MEMORY. */
MUST_USE enum err split_assign(const struct split *split, const uint16_t *labels, size_t n, size_t n_classes,
                               uint16_t *out_part);

#endif
