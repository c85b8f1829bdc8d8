#include "models/judging/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"

enum err metrics_init(struct metrics *m, enum task task, size_t n_classes, size_t n) {
  struct metrics fresh = {.task = task, .n_classes = n_classes};
  enum err e = outcomes_init(&fresh.outcomes, task, n_classes, n);
  if (e == ERR_OK && n_classes > 0) {
    fresh.classes = calloc(n_classes, sizeof *fresh.classes);
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

void metrics_add_classes(struct metrics *m, const float *outputs, const uint16_t *labels, size_t n, double loss_sum) {
  outcomes_add_classes(&m->outcomes, outputs, labels, n);
  m->loss_sum += loss_sum;
}

void metrics_add_targets(struct metrics *m, const float *outputs, const float *targets, size_t n, double loss_sum) {
  outcomes_add_targets(&m->outcomes, outputs, targets, n);
  m->loss_sum += loss_sum;
}

static void end_classes(struct metrics *m, struct tally *t) {
  m->accuracy = tally_figure(t, FIGURE_ACCURACY, NULL);
  m->balanced = tally_figure(t, FIGURE_BALANCED, NULL);
  m->macro_f1 = tally_figure(t, FIGURE_MACRO_F1, NULL);
  if (m->n_classes == 2)
    m->auc = tally_figure(t, FIGURE_AUC, NULL);
  m->n_present = tally_classes(t, NULL);
  for (size_t c = 0; c < m->n_classes; c++)
    m->classes[c] = t->classes[c];
}

enum err metrics_end(struct metrics *m) {
  struct tally t;
  enum err e = tally_init(&t, &m->outcomes);
  if (e != ERR_OK)
    return e;
  m->n = m->outcomes.n;
  m->loss = m->n > 0 ? m->loss_sum / (double)m->n : 0;
  m->accuracy = m->balanced = m->macro_f1 = m->auc = m->mse = m->r2 = NAN;
  if (m->task == TASK_CLASSIFY) {
    end_classes(m, &t);
  } else {
    m->mse = tally_figure(&t, FIGURE_MSE, NULL);
    m->r2 = tally_figure(&t, FIGURE_R2, NULL);
  }
  tally_done(&t);
  return ERR_OK;
}

double metrics_headline(const struct metrics *m, enum metric metric) {
  switch (metric) {
  case METRIC_ACCURACY:
    return m->accuracy;
  case METRIC_R2:
    return m->r2;
  case METRIC_AUC:
    return m->auc;
  case METRIC_BY_TASK:
    break;
  }
  return m->task == TASK_CLASSIFY ? m->accuracy : m->r2;
}

void metrics_note(const struct metrics *m, const struct contract *contract, char out_note[MAX_REASON_BYTES]) {
  size_t present = 0;
  out_note[0] = '\0';
  if (m->task == TASK_REGRESS && isnan(m->r2))
    snprintf(out_note, MAX_REASON_BYTES, "the targets of this test set do not vary: not comparable");
  if (m->task == TASK_REGRESS || m->n_present > 1)
    return;
  while (present < m->n_classes && m->classes[present].support == 0)
    present++;
  if (present == m->n_classes)
    snprintf(out_note, MAX_REASON_BYTES, "no samples in this test set: not comparable");
  else
    snprintf(out_note, MAX_REASON_BYTES, "only class \"%s\" in this test set: not comparable",
             contract->classes[present].text);
}
