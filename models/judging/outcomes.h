/* Outcomes: what a model said of each sample of a test set, in the set's order, and the figures that follow.
 *
 * Two models on one test set have outcomes that belong together sample by sample; comparison.[ch] lives on that. A figure
 * can be taken over the samples as they are or over a resample, where counts[i] says how often sample i was drawn.
 *
 *   accuracy   right / all; a set of classes is right when every class of it is
 *   balanced   mean recall over the classes *present* (Brodersen et al. 2010, The balanced accuracy)
 *   macro-F1   mean over the classes present of 2·correct / (support + predicted)
 *   AUC        the chance that a sample of class 1 scores above one of class 0, ties count half; by rank sums (Mann & Whitney
 *              1947; Hanley & McNeil 1982). Of two classes the score is z₁ − z₀, which orders like the softmax; of sets the
 *              figure is the mean over the classes that some samples have and some have not; to reconstruct the score is the
 *              squared error, and every class but the first counts as 1
 *   MSE        mean squared error; to reconstruct over all inputs
 *   R2         1 − Σ(y − ŷ)² / Σ(y − ȳ)²; to reconstruct 1 − Σ(x − x̂)² / Σx² of the standardised inputs
 *
 * With samples of fewer than two classes, sets that do not differ, or targets that do not vary, nothing can be told apart:
 * there is no figure (NaN), never a flattering 100 %. Nor is there one that is not of the task. Pure, in double, one thread
 * at a time. */
#ifndef MODELS_JUDGING_OUTCOMES_H
#define MODELS_JUDGING_OUTCOMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/contract.h"

struct outcome {
  float output;      /* two classes: z₁ − z₀; regress: ŷ; reconstruct: mean squared error */
  float target;      /* regress: y; reconstruct: mean square of the inputs */
  uint16_t is, said; /* equal exactly when the model is right. Classes, said = n_classes where no output is a number;
                      * multilabel: 0, and 0 or 1; reconstruct: is is the label or NO_LABEL */
};

/* One class of a sample's set: it applies where the output is above 0. */
struct mark {
  float output;
  bool is, said;
};

struct outcomes {
  enum task task;
  size_t n_classes;
  size_t n, capacity;
  struct outcome *rows; /* [capacity], n of them filled */
  struct mark *marks;   /* multilabel: [capacity][n_classes]; else NULL */
};

struct class_figures {
  uint64_t support;   /* samples of this class */
  uint64_t predicted; /* samples said to be of this class */
  uint64_t correct;   /* both */
};

/* Room for n samples. ERR_NO_MEMORY. */
MUST_USE enum err outcomes_init(struct outcomes *o, enum task task, size_t n_classes, size_t n);
void outcomes_done(struct outcomes *o);

/* One batch of n, outputs [n][n_outputs]. The predicted class is the first of the largest outputs; a row without any number
 * (all NaN) predicts nothing and is wrong, and so is an output of a set that is none. */
void outcomes_add(struct outcomes *o, const float *outputs, const struct answers *answers, size_t n, size_t n_outputs);

enum figure { FIGURE_ACCURACY, FIGURE_BALANCED, FIGURE_MACRO_F1, FIGURE_AUC, FIGURE_MSE, FIGURE_R2, N_FIGURES };

/* What taking figures needs beside the outcomes, so that a resample allocates nothing. */
struct tally {
  const struct outcomes *outcomes; /* borrowed */
  size_t n_scores;                 /* a sample: 1 or, for sets, n_classes; 0: this task has no AUC */
  uint32_t *order;                 /* [n_scores][n] ascending by score */
  struct class_figures *classes;   /* [n_classes] of the counts last used */
};

/* n ≤ MAX_SAMPLES. ERR_NO_MEMORY. */
MUST_USE enum err tally_init(struct tally *t, const struct outcomes *o);
void tally_done(struct tally *t);

/* Fills `classes`. counts: [n], or NULL for each sample once. Returns the number of classes present. */
size_t tally_classes(struct tally *t, const uint32_t *counts);

/* The figure, NaN where there is none. */
double tally_figure(struct tally *t, enum figure figure, const uint32_t *counts);

#endif
