/* Drift: whether samples that have just come are of another kind than those of the present task. Three tests share the chance of a
 * false alarm, α a question (Bonferroni):
 *
 *   loss     the mean of 1 − p(y|x), which the model says before it trains on them, is above that of the samples before by more than
 *            ε = √(2σ²L/m) + 2L/(3m), L = ln(2/α), 1/m = 1/n₀ + 1/n₁                        (ADWIN's cut: Bifet & Gavaldà 2007)
 *   labels   χ² of the two rows of class counts; classes of fewer than 5 expected are one      (Pearson 1900)
 *   inputs   Welch's test of the means of their random projections, each with its share of α     (Welch 1947)
 *
 * A model that learns makes the loss fall, which is no drift. Fewer than DRIFT_LEAST samples on either side answer nothing.
 * Pure; any thread. */
#ifndef MODELS_CONTINUAL_DRIFT_H
#define MODELS_CONTINUAL_DRIFT_H

#include <stddef.h>
#include <stdint.h>

enum { DRIFT_LEAST = 30, DRIFT_PROJECTIONS = 8 };
enum drift_test { DRIFT_NONE, DRIFT_LOSS, DRIFT_LABELS, DRIFT_INPUTS };

/* Count, mean and sum of squared deviations (Welford 1962). */
struct moments {
  double n, mean, squares;
};

void moments_put(struct moments *m, double x);
void moments_add(struct moments *m, const struct moments *other); /* Chan et al. 1983 */

/* What is known of some samples. */
struct drift_sample {
  struct moments loss; /* of 1 − p(y|x), 0 … 1 */
  struct moments inputs[DRIFT_PROJECTIONS];
  uint64_t *labels; /* [n_classes], the caller's */
  size_t n_classes;
};

void drift_sample_add(struct drift_sample *s, const struct drift_sample *other);
void drift_sample_clear(struct drift_sample *s);
void drift_sample_copy(struct drift_sample *to, const struct drift_sample *from); /* of as many classes */

/* The first test that says so; *out_p: how likely that is by chance, of the loss an upper bound. */
enum drift_test drift_judge(const struct drift_sample *before, const struct drift_sample *now, double alpha,
                            double *out_p);

/* "loss", "labels", "inputs"; "" for none. */
const char *drift_test_name(enum drift_test test);

/* P(χ² of so many degrees of freedom ≥ x). */
double chi_square_tail(double x, double degrees);

/* Projection k of inputs x [n]: Σ ±x_i/√n, the signs following from k alone (Achlioptas 2003). */
double drift_project(const float *x, size_t n, size_t k);

#endif
