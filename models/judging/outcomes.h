/* Outcomes: what a model said of each sample of a test set, in the set's order, and the figures that follow.
 *
 * Two models on one test set have outcomes that belong together sample by sample; comparison.[ch] lives on that. A figure
 * can be taken over the samples as they are or over a resample, where counts[i] says how often sample i was drawn.
 *
 *   accuracy   correct / all
 *   balanced   mean recall over the classes *present* (Brodersen et al. 2010, The balanced accuracy)
 *   macro-F1   mean over the classes present of 2·correct / (support + predicted)
 *   AUC        of two classes: the chance that a sample of class 1 scores above one of class 0, ties count half; by rank
 *              sums (Mann & Whitney 1947; Hanley & McNeil 1982). The score is z₁ − z₀, which orders like the softmax
 *   R2         1 − Σ(y − ŷ)² / Σ(y − ȳ)²
 *
 * With samples of fewer than two classes, or targets that do not vary, nothing can be told apart: there is no figure (NaN),
 * never a flattering 100 %. Pure, in double, one thread at a time. */
#ifndef MODELS_JUDGING_OUTCOMES_H
#define MODELS_JUDGING_OUTCOMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/contract.h"

struct outcome {
  float output;      /* two classes: z₁ − z₀; regression: ŷ */
  float target;      /* regression: y */
  uint16_t is, said; /* classes; said = n_classes where no output is a number */
};

struct outcomes {
  enum task task;
  size_t n_classes; /* 0 for regression */
  size_t n, capacity;
  struct outcome *rows; /* [capacity], n of them filled */
};

struct class_figures {
  uint64_t support;   /* samples of this class */
  uint64_t predicted; /* samples said to be of this class */
  uint64_t correct;   /* both */
};

/* Room for n samples. ERR_NO_MEMORY. */
MUST_USE enum err outcomes_init(struct outcomes *o, enum task task, size_t n_classes, size_t n);
void outcomes_done(struct outcomes *o);

/* One batch of n. The predicted class is the first of the largest outputs; a row without any number (all NaN) predicts
 * nothing and is wrong. */
void outcomes_add_classes(struct outcomes *o, const float *outputs /* [n][n_classes] */,
                          const uint16_t *labels /* [n] */, size_t n);
void outcomes_add_targets(struct outcomes *o, const float *outputs /* [n] */, const float *targets /* [n] */, size_t n);

enum figure { FIGURE_ACCURACY, FIGURE_BALANCED, FIGURE_MACRO_F1, FIGURE_AUC, FIGURE_MSE, FIGURE_R2 };

/* What taking figures needs beside the outcomes, so that a resample allocates nothing. */
struct tally {
  const struct outcomes *outcomes; /* borrowed */
  uint32_t *order;                 /* [n] ascending by score; two classes only */
  struct class_figures *classes;   /* [n_classes] of the counts last used */
};

/* n ≤ MAX_SAMPLES. ERR_NO_MEMORY. */
MUST_USE enum err tally_init(struct tally *t, const struct outcomes *o);
void tally_done(struct tally *t);

/* Fills `classes`. counts: [n], or NULL for each sample once. Returns the number of classes present. */
size_t tally_classes(struct tally *t, const uint32_t *counts);

/* The figure, NaN where there is none. AUC: only with exactly two classes. */
double tally_figure(struct tally *t, enum figure figure, const uint32_t *counts);

#endif
