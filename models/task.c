#include "models/task.h"

#include "base/must.h"

static const struct task_type types[N_TASKS] = {
    [TASK_CLASSIFY] = {.word = "classify",
                       .answer = ANSWER_CLASS,
                       .outputs = "classes",
                       .min_classes = 2,
                       .takes_classes = true,
                       .needs_label = true,
                       .has_said_classes = true,
                       .n_losses = 1,
                       .losses = {LOSS_CROSS_ENTROPY}},
    [TASK_REGRESS] = {.word = "regress",
                      .answer = ANSWER_NUMBER,
                      .outputs = "targets",
                      .needs_label = true,
                      .what_missing = "the targets of this test set do not vary",
                      .n_losses = 2,
                      .losses = {LOSS_MEAN_SQUARED_ERROR, LOSS_HUBER}},
    [TASK_MULTILABEL] = {.word = "multilabel",
                         .answer = ANSWER_SET,
                         .outputs = "classes",
                         .min_classes = 1,
                         .takes_classes = true,
                         .has_said_classes = true,
                         .what_missing = "no class both applies and does not in this test set",
                         .n_losses = 1,
                         .losses = {LOSS_BINARY_CROSS_ENTROPY}},
    [TASK_RECONSTRUCT] = {.word = "reconstruct",
                          .answer = ANSWER_INPUTS,
                          .outputs = "inputs",
                          .takes_classes = true,
                          .what_missing = "this test set does not have both normal samples and anomalies by its labels",
                          .n_losses = 1,
                          .losses = {LOSS_MEAN_SQUARED_ERROR}},
};

const struct task_type *task_type(enum task task) {
  MUST((size_t)task < N_TASKS);
  return &types[task];
}

const char *task_name(enum task task) {
  return task_type(task)->word;
}

const char *loss_kind_name(enum loss_kind loss) {
  static const char *const names[N_LOSS_KINDS] = {[LOSS_CROSS_ENTROPY] = "cross-entropy",
                                                  [LOSS_MEAN_SQUARED_ERROR] = "mean-squared-error",
                                                  [LOSS_HUBER] = "huber",
                                                  [LOSS_BINARY_CROSS_ENTROPY] = "binary-cross-entropy"};
  return names[loss];
}

const char *metric_name(enum metric metric) {
  static const char *const names[N_METRICS] = {[METRIC_BY_TASK] = "",
                                               [METRIC_ACCURACY] = "accuracy",
                                               [METRIC_R2] = "R2",
                                               [METRIC_AUC] = "AUC",
                                               [METRIC_MACRO_F1] = "macro-F1"};
  return names[metric];
}

bool task_takes_loss(enum task task, enum loss_kind loss) {
  const struct task_type *t = task_type(task);
  for (size_t i = 0; i < t->n_losses; i++)
    if (t->losses[i] == loss)
      return true;
  return false;
}

/* Headlines, a task's own first; the numbers of classes for which there is one. */
static const struct headline {
  enum task task;
  enum metric metric;
  size_t min_classes, max_classes;
} headlines[] = {
    {TASK_CLASSIFY, METRIC_ACCURACY, 0, SIZE_MAX},   {TASK_CLASSIFY, METRIC_AUC, 2, 2},
    {TASK_CLASSIFY, METRIC_MACRO_F1, 2, SIZE_MAX},   {TASK_REGRESS, METRIC_R2, 0, SIZE_MAX},
    {TASK_MULTILABEL, METRIC_MACRO_F1, 0, SIZE_MAX}, {TASK_MULTILABEL, METRIC_AUC, 1, SIZE_MAX},
    {TASK_RECONSTRUCT, METRIC_AUC, 2, SIZE_MAX},     {TASK_RECONSTRUCT, METRIC_R2, 0, SIZE_MAX},
};
enum { N_HEADLINES = sizeof headlines / sizeof *headlines };

static bool is_headline(const struct headline *h, enum task task, size_t n_classes) {
  return h->task == task && n_classes >= h->min_classes && n_classes <= h->max_classes;
}

enum metric task_metric(enum task task, size_t n_classes) {
  size_t i = 0;
  while (i < N_HEADLINES && !is_headline(&headlines[i], task, n_classes))
    i++;
  MUST(i < N_HEADLINES);
  return headlines[i].metric;
}

bool task_takes_metric(enum task task, size_t n_classes, enum metric metric) {
  for (size_t i = 0; i < N_HEADLINES; i++)
    if (is_headline(&headlines[i], task, n_classes) && headlines[i].metric == metric)
      return true;
  return false;
}

size_t task_outputs(enum task task, size_t n_classes, size_t n_inputs) {
  switch (task_type(task)->answer) {
  case ANSWER_CLASS:
  case ANSWER_SET:
    return n_classes;
  case ANSWER_INPUTS:
    return n_inputs;
  case ANSWER_NUMBER:
    break;
  }
  return 1;
}
