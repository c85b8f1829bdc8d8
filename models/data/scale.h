/* Standardisation: x' = (x − mean) / sd, and where its numbers come from.
 *
 *   none   x' = x
 *   fixed  the numbers stand in the contract: one pair for all inputs or one pair per number (a column of
 *          categories has none)
 *   local  the numbers are this site's own training samples' (a warning: sites then see different inputs)
 *   pooled the numbers are those of the training samples of all sites together (agent/core/pool.h)
 *
 * `local` and `pooled` become numbers once, and those are saved with the model as text. An input that does
 * not vary has no scale; its sd is taken as 1. */
#ifndef MODELS_DATA_SCALE_H
#define MODELS_DATA_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum scale_rule { SCALE_NONE, SCALE_FIXED, SCALE_LOCAL, SCALE_POOLED };

/* Whether the numbers are measured at the sites, and so kept with the model rather than in the contract. */
bool scale_is_measured(enum scale_rule rule);

/* Owns its arrays. Zero-initialised is SCALE_NONE. */
struct scale {
  enum scale_rule rule;
  size_t n;     /* 0 for none and where the numbers are not known yet; else 1 or the number of inputs */
  double *mean; /* [n] */
  double *sd;   /* [n], > 0, finite */
};

/* Allocates n pairs (mean 0, sd 1) and sets the rule. ERR_LIMIT above MAX_FEATURES; ERR_NO_MEMORY. */
MUST_USE enum err scale_init(struct scale *s, enum scale_rule rule, size_t n);
void scale_done(struct scale *s);
MUST_USE enum err scale_copy(const struct scale *s, struct scale *out_copy);

/* "none", "fixed", "local", "pooled". Static storage. */
const char *scale_rule_name(enum scale_rule rule);

/* The text form, one fact a line: `scale: fixed`, `scale pairs: 1`, `scale mean 0: 14.2`,
 * `scale sd 0: 3.1` …; numbers read back to the same bits. Part of the contract's text and of what is saved with a
 * model. */
void scale_write(struct writer *w, const struct scale *s);

/* Reads exactly what scale_write writes. ERR_SYNTAX, ERR_RANGE (a count or an sd that cannot be), ERR_LIMIT,
 * ERR_NO_MEMORY. */
MUST_USE enum err scale_read(const char *text, size_t n_bytes, struct scale *out_scale);

/* Mean and standard deviation by Welford's updating (Technometrics 1962), in double, samples in order. */
struct scale_stats {
  size_t n; /* 1 or the number of inputs */
  uint64_t count;
  double *mean; /* [n] */
  double *m2;   /* [n] sum of squared deviations */
  double *x;    /* [n] the next observation, written by the caller */
};

MUST_USE enum err scale_stats_init(struct scale_stats *s, size_t n);
void scale_stats_done(struct scale_stats *s);

/* Takes s->x, one observation of each of the n quantities. */
void scale_stats_add(struct scale_stats *s);

/* Takes all that `from` took: the statistics of both together (Chan, Golub, LeVeque, The American Statistician 1983).
 * Same n. The result depends on the order of merging in the last bits. */
void scale_stats_merge(struct scale_stats *s, const struct scale_stats *from);

/* Numbers of a measured rule: the mean and the population's sd of what was taken, at least one observation. */
MUST_USE enum err scale_stats_end(const struct scale_stats *s, enum scale_rule rule, struct scale *out_scale);

#endif
