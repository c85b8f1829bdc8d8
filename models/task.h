/* Tasks: what a model is to say of a sample. One row a task; what a task's classes, labels, losses and headlines are stands
 * here and nowhere else.
 *
 *   task         the model says                     right is                        loss                      headline
 *   classify     which one of the classes           the class                       cross-entropy             accuracy
 *   regress      a number                           the number                      mean-squared-error, huber R2
 *   multilabel   of each class, whether it applies  a set of classes, even none     binary-cross-entropy      macro-F1
 *   reconstruct  the inputs again                   the standardised inputs         mean-squared-error        AUC, else R2
 *
 * Reconstruct finds anomalies: a model that has learnt to give normal samples back gives others back badly, and a sample's
 * score is its mean squared error (Hawkins et al. 2002). Its classes, where it has any, say what is normal, the first, and
 * what is an anomaly, every other; a sample may have none of them, and is taken for normal in training. Static; any
 * thread. */
#ifndef MODELS_TASK_H
#define MODELS_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum task { TASK_CLASSIFY, TASK_REGRESS, TASK_MULTILABEL, TASK_RECONSTRUCT, N_TASKS };

enum loss_kind { LOSS_CROSS_ENTROPY, LOSS_MEAN_SQUARED_ERROR, LOSS_HUBER, LOSS_BINARY_CROSS_ENTROPY, N_LOSS_KINDS };

/* The one figure by which a job is known in every view (the headline). */
enum metric { METRIC_BY_TASK, METRIC_ACCURACY, METRIC_R2, METRIC_AUC, METRIC_MACRO_F1, N_METRICS };

/* What is learnt from beside the inputs. */
enum answer_kind {
  ANSWER_CLASS,  /* one class: a label */
  ANSWER_NUMBER, /* one number: a target */
  ANSWER_SET,    /* some of the classes: a target of 1 or 0 each */
  ANSWER_INPUTS, /* the inputs; the label, where there is one, is for judging only */
};

enum { MAX_TASK_LOSSES = 2 };

struct task_type {
  const char *word; /* in job files and canonical texts */
  enum answer_kind answer;
  const char *outputs;      /* what `dense` of the last layer is called instead of a number */
  size_t min_classes;       /* 0: there may be none */
  bool takes_classes;       /* there may be some */
  bool needs_label;         /* a table must have a column of it */
  bool has_said_classes;    /* the model's outputs name classes: recall, precision, F1 of each */
  const char *what_missing; /* of a test set, when there is no headline; NULL: said by its classes */
  size_t n_losses;
  enum loss_kind losses[MAX_TASK_LOSSES]; /* that fit, the task's own first */
};

const struct task_type *task_type(enum task task);

/* "classify"; "cross-entropy"; "accuracy". */
const char *task_name(enum task task);
const char *loss_kind_name(enum loss_kind loss);
const char *metric_name(enum metric metric);

bool task_takes_loss(enum task task, enum loss_kind loss);

/* The headline of a task with so many classes, unless the contract says another, and whether another is one of it. */
enum metric task_metric(enum task task, size_t n_classes);
bool task_takes_metric(enum task task, size_t n_classes, enum metric metric);

/* How many numbers the model says of a sample. */
size_t task_outputs(enum task task, size_t n_classes, size_t n_inputs);

enum { SET_SEPARATOR = ';' };   /* between the classes of a field */
enum { NO_LABEL = UINT16_MAX }; /* of a sample to reconstruct of which nobody said what it is */

/* What is right of n samples, for losses and figures; a task has one of the arrays, or both. */
struct answers {
  const uint16_t *labels; /* [n] classify: below n_classes; reconstruct: that or NO_LABEL */
  const float *targets;   /* [n][n_outputs] regress, multilabel, reconstruct */
};

#endif
