/* Comparison: is one model better than another on the same test samples, or is it luck?
 *
 * The samples are the same, so the difference is judged sample by sample; what both models get right or wrong says nothing.
 *
 *   accuracy   difference (b − c)/n of the b samples that only the second has right and the c that only the first has;
 *              95 % interval: Tango's score interval (Tango 1998, Statistics in Medicine 17:891), whose coverage holds
 *              with few samples and at b = c = 0; p-value: McNemar 1947, exact binomial below 25 pairs that differ, else
 *              the asymptotic one without correction (Fagerland, Lydersen, Laake 2013, BMC Med. Res. Methodology 13:91)
 *   others     paired bootstrap: both models on the same resample of samples, 2000 times (fewer above 200 000 samples);
 *              expanded percentile interval (Efron & Tibshirani 1993, ch. 13; Hesterberg 2015, The American Statistician
 *              69:371, which widens it by t instead of z and √(n/(n − 1)))
 *
 * The second *helps* when the whole interval lies above 0 and, for accuracy, McNemar's p is below 0.05; it is *worse* in
 * the mirrored case; else there is no evidence. So of models that are equal, less than about 1 in 40 is said to help.
 *
 * Samples to see 2 points (0.02) with a power of 80 % at 5 %, two-sided: for accuracy n = (z₀.₉₇₅ √ψ + z₀.₈ √(ψ − δ²))² / δ²
 * with the share ψ of samples on which the two differ (Connor 1987, Biometrics 43:207); for others
 * n · ((z₀.₉₇₅ + z₀.₈) · se / δ)² with the bootstrap's standard error.
 *
 * Pure, in double; the bootstrap's generator is seeded by the caller so that the same question has the same answer. */
#ifndef MODELS_JUDGING_COMPARISON_H
#define MODELS_JUDGING_COMPARISON_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/judging/outcomes.h"

enum verdict { VERDICT_NO_EVIDENCE, VERDICT_HELPS, VERDICT_WORSE };

struct comparison {
  enum figure figure;
  size_t n;
  double first, second; /* NaN: these samples cannot tell models apart, and so is all below */
  double difference;    /* second − first */
  double lo, hi;        /* 95 % interval of it; NaN: too few samples for one */
  uint64_t only_first;  /* accuracy: samples that only this model has right */
  uint64_t only_second; /* … */
  double p_value;       /* accuracy; NaN otherwise */
  double needed;        /* samples to see 2 points; NaN: unknown */
  enum verdict verdict;
};

/* Outcomes of the two models over the same samples in the same order. ERR_NO_MEMORY; ERR_CONTRACT: not the same samples. */
MUST_USE enum err comparison_make(const struct outcomes *first, const struct outcomes *second, enum figure figure,
                                  uint64_t seed, struct comparison *out_comparison);

/* The parts, for those who hold them against tables. b: only the second is right; c: only the first. */
double mcnemar_p_value(uint64_t b, uint64_t c);
void tango_interval(uint64_t b, uint64_t c, uint64_t n, double *out_lo, double *out_hi);
double connor_samples(double discordance, double difference);

#endif
