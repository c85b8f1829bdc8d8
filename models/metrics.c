#include "models/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "base/must.h"

enum err metrics_init(struct metrics *m, enum task task, size_t n_classes) {
  MUST((task == TASK_CLASSIFY) == (n_classes > 0));
  struct metrics fresh = {.task = task, .n_classes = n_classes};
  if (n_classes > 0) {
    fresh.classes = calloc(n_classes, sizeof *fresh.classes);
    if (fresh.classes == NULL)
      return ERR_NO_MEMORY;
  }
  *m = fresh;
  return ERR_OK;
}

void metrics_done(struct metrics *m) {
  free(m->classes);
  *m = (struct metrics){0};
}

/* The first of the largest; n when no output is a number. */
static size_t largest(const float *outputs, size_t n) {
  size_t best = n;
  for (size_t i = 0; i < n; i++)
    if (!isnan(outputs[i]) && (best == n || outputs[i] > outputs[best]))
      best = i;
  return best;
}

void metrics_add_classes(struct metrics *m, const float *outputs, const uint16_t *labels, size_t n, double loss_sum) {
  MUST(m->task == TASK_CLASSIFY);
  for (size_t i = 0; i < n; i++) {
    size_t said = largest(outputs + i * m->n_classes, m->n_classes), is = labels[i];
    MUST(is < m->n_classes);
    m->classes[is].support++;
    if (said < m->n_classes)
      m->classes[said].predicted++;
    if (said == is)
      m->classes[is].correct++;
  }
  m->n += n;
  m->loss_sum += loss_sum;
}

void metrics_add_targets(struct metrics *m, const float *outputs, const float *targets, size_t n, double loss_sum) {
  MUST(m->task == TASK_REGRESS);
  for (size_t i = 0; i < n; i++) {
    double error = (double)outputs[i] - (double)targets[i];
    m->squared_error += error * error;
    m->n++;
    double delta = (double)targets[i] - m->target_mean;
    m->target_mean += delta / (double)m->n;
    m->target_m2 += delta * ((double)targets[i] - m->target_mean);
  }
  m->loss_sum += loss_sum;
}

static void end_classes(struct metrics *m) {
  uint64_t correct = 0;
  size_t n_present = 0;
  double f1_sum = 0;
  for (size_t c = 0; c < m->n_classes; c++) {
    const struct class_figures *f = &m->classes[c];
    if (f->support == 0)
      continue;
    n_present++;
    correct += f->correct;
    f1_sum += 2 * (double)f->correct / (double)(f->support + f->predicted);
  }
  m->accuracy = (double)correct / (double)m->n;
  m->macro_f1 = f1_sum / (double)n_present;
}

void metrics_end(struct metrics *m) {
  if (m->n == 0)
    return;
  m->loss = m->loss_sum / (double)m->n;
  if (m->task == TASK_CLASSIFY) {
    end_classes(m);
    return;
  }
  m->mse = m->squared_error / (double)m->n;
  m->r2 = m->target_m2 > 0 ? 1 - m->squared_error / m->target_m2 : 0;
}
