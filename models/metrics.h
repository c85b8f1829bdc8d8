/* Figures of an evaluation, accumulated batch by batch in double.
 *
 * Classification: accuracy, per-class counts, and macro-F1 = mean over the classes *present* in the evaluated samples
 * (support > 0) of 2·correct / (support + predicted). The predicted class is the first of the largest outputs; an output
 * row without any number (all NaN) predicts nothing and is wrong.
 * Regression: MSE and R² = 1 − Σ(y − ŷ)² / Σ(y − ȳ)²; R² is 0 where the targets do not vary. */
#ifndef MODELS_METRICS_H
#define MODELS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/contract.h"

struct class_figures {
  uint64_t support;   /* samples of this class */
  uint64_t predicted; /* samples said to be of this class */
  uint64_t correct;   /* both */
};

struct metrics {
  enum task task;
  uint64_t n;
  double loss;     /* mean over n */
  double accuracy; /* classification, 0 … 1 */
  double macro_f1;
  double mse; /* regression */
  double r2;
  size_t n_classes;
  struct class_figures *classes; /* [n_classes] */

  /* sums while it runs */
  double loss_sum;
  double squared_error;
  double target_mean, target_m2; /* Welford */
};

/* n_classes is 0 for regression. ERR_NO_MEMORY. */
MUST_USE enum err metrics_init(struct metrics *m, enum task task, size_t n_classes);
void metrics_done(struct metrics *m);

/* One batch of n. loss_sum: the sum of the n samples' losses. */
void metrics_add_classes(struct metrics *m, const float *outputs /* [n][n_classes] */, const uint16_t *labels /* [n] */,
                         size_t n, double loss_sum);
void metrics_add_targets(struct metrics *m, const float *outputs /* [n] */, const float *targets /* [n] */, size_t n,
                         double loss_sum);

/* Turns the sums into the figures. Zero samples: all figures are 0. */
void metrics_end(struct metrics *m);

#endif
