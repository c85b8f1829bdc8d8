#include "models/judging/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"

enum err metrics_init(struct metrics *m, enum task task, size_t n_classes, size_t n) {
  struct metrics fresh = {.task = task, .n_classes = task_type(task)->has_said_classes ? n_classes : 0};
  enum err e = outcomes_init(&fresh.outcomes, task, n_classes, n);
  if (e == ERR_OK && fresh.n_classes > 0) {
    fresh.classes = calloc(fresh.n_classes, sizeof *fresh.classes);
    e = fresh.classes == NULL ? ERR_NO_MEMORY : ERR_OK;
  }
  if (e != ERR_OK)
    metrics_done(&fresh);
  else
    *m = fresh;
  return e;
}

void metrics_done(struct metrics *m) {
  outcomes_done(&m->outcomes);
  free(m->classes);
  *m = (struct metrics){0};
}

void metrics_add(struct metrics *m, const float *outputs, const struct answers *answers, size_t n, size_t n_outputs,
                 double loss_sum) {
  outcomes_add(&m->outcomes, outputs, answers, n, n_outputs);
  m->loss_sum += loss_sum;
}

/* Where each figure goes. */
static const size_t figure_fields[N_FIGURES] = {
    [FIGURE_ACCURACY] = offsetof(struct metrics, accuracy), [FIGURE_BALANCED] = offsetof(struct metrics, balanced),
    [FIGURE_MACRO_F1] = offsetof(struct metrics, macro_f1), [FIGURE_AUC] = offsetof(struct metrics, auc),
    [FIGURE_MSE] = offsetof(struct metrics, mse),           [FIGURE_R2] = offsetof(struct metrics, r2),
};

static double *figure_field(struct metrics *m, enum figure figure) {
  return (double *)(void *)((char *)m + figure_fields[figure]);
}

enum err metrics_end(struct metrics *m) {
  struct tally t;
  enum err e = tally_init(&t, &m->outcomes);
  if (e != ERR_OK)
    return e;
  m->n = m->outcomes.n;
  m->loss = m->n > 0 ? m->loss_sum / (double)m->n : 0;
  for (enum figure f = 0; f < N_FIGURES; f++)
    *figure_field(m, f) = tally_figure(&t, f, NULL);
  if (m->n_classes > 0)
    m->n_present = tally_classes(&t, NULL);
  for (size_t c = 0; c < m->n_classes; c++)
    m->classes[c] = t.classes[c];
  tally_done(&t);
  return ERR_OK;
}

enum figure figure_of_metric(enum metric metric) {
  static const enum figure figures[N_METRICS] = {[METRIC_ACCURACY] = FIGURE_ACCURACY,
                                                 [METRIC_R2] = FIGURE_R2,
                                                 [METRIC_AUC] = FIGURE_AUC,
                                                 [METRIC_MACRO_F1] = FIGURE_MACRO_F1};
  MUST(metric != METRIC_BY_TASK);
  return figures[metric];
}

double metrics_headline(const struct metrics *m, enum metric metric) {
  if (metric == METRIC_BY_TASK)
    metric = task_metric(m->task, m->outcomes.n_classes);
  return *(const double *)(const void *)((const char *)m + figure_fields[figure_of_metric(metric)]);
}

double metrics_right(const struct metrics *m) {
  uint64_t right = 0, all = 0;
  for (size_t i = 0; i < m->n_classes; i++) {
    right += m->classes[i].correct;
    all += m->classes[i].support;
  }
  return all > 0 ? (double)right / (double)all : (double)NAN;
}

void metrics_note(const struct metrics *m, const struct contract *contract, char out_note[MAX_REASON_BYTES]) {
  const char *missing = task_type(m->task)->what_missing;
  size_t present = 0;
  out_note[0] = '\0';
  if (missing != NULL && isnan(metrics_headline(m, contract_metric(contract))))
    snprintf(out_note, MAX_REASON_BYTES, "%s: not comparable", missing);
  if (missing != NULL || m->n_present > 1)
    return;
  while (present < m->n_classes && m->classes[present].support == 0)
    present++;
  if (present == m->n_classes)
    snprintf(out_note, MAX_REASON_BYTES, "no samples in this test set: not comparable");
  else
    snprintf(out_note, MAX_REASON_BYTES, "only class \"%s\" in this test set: not comparable",
             contract->classes[present].text);
}
