/* Figures of an evaluation, accumulated batch by batch.
 *
 * outcomes.h says what each figure is and when there is none: NaN here. The figures of a task that is not this one's are
 * NaN too. Every figure over classes is over those *present* in the evaluated samples, and n_present says how many. */
#ifndef MODELS_JUDGING_METRICS_H
#define MODELS_JUDGING_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/contract.h"
#include "models/judging/outcomes.h"

struct metrics {
  enum task task;
  uint64_t n;
  double loss;     /* mean over n; 0 for no samples */
  double accuracy; /* 0 … 1 */
  double balanced;
  double macro_f1;
  double auc;
  double mse;
  double r2;
  size_t n_classes, n_present;   /* 0 where the model does not name classes */
  struct class_figures *classes; /* [n_classes] */
  struct outcomes outcomes;      /* in the order of the test set */

  double loss_sum; /* while it runs */
};

/* Room for n samples; n_classes is the contract's. ERR_NO_MEMORY. */
MUST_USE enum err metrics_init(struct metrics *m, enum task task, size_t n_classes, size_t n);
void metrics_done(struct metrics *m);

/* One batch of n, outputs [n][n_outputs]. loss_sum: the sum of the n samples' losses. */
void metrics_add(struct metrics *m, const float *outputs, const struct answers *answers, size_t n, size_t n_outputs,
                 double loss_sum);

/* Turns what was added into the figures. ERR_NO_MEMORY. */
MUST_USE enum err metrics_end(struct metrics *m);

/* The figure of a headline, which is not METRIC_BY_TASK (contract_metric says which is in effect). */
enum figure figure_of_metric(enum metric metric);

/* The figure by which a job is known; NaN: these samples cannot tell models apart. */
double metrics_headline(const struct metrics *m, enum metric metric);

/* Share of the samples whose class was said right, also where only one class is present; NaN: of none, or of a task that says no
 * classes. */
double metrics_right(const struct metrics *m);

/* Why there is no headline: `only class "ok" in this test set: not comparable`; "" when there is one. */
void metrics_note(const struct metrics *m, const struct contract *contract, char out_note[MAX_REASON_BYTES]);

#endif
