#include "models/judging/outcomes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

enum err outcomes_init(struct outcomes *o, enum task task, size_t n_classes, size_t n) {
  MUST((task == TASK_CLASSIFY) == (n_classes > 0));
  struct outcome *rows = calloc(n + 1, sizeof *rows);
  if (rows == NULL)
    return ERR_NO_MEMORY;
  *o = (struct outcomes){.task = task, .n_classes = n_classes, .capacity = n, .rows = rows};
  return ERR_OK;
}

void outcomes_done(struct outcomes *o) {
  free(o->rows);
  *o = (struct outcomes){0};
}

/* The first of the largest; n when no output is a number. */
static size_t largest(const float *outputs, size_t n) {
  size_t best = n;
  for (size_t i = 0; i < n; i++)
    if (!isnan(outputs[i]) && (best == n || outputs[i] > outputs[best]))
      best = i;
  return best;
}

/* A score that is no number is on the wrong side of every other. */
static float score_of(const float outputs[2], uint16_t is) {
  float score = outputs[1] - outputs[0];
  return !isnan(score) ? score : is == 1 ? -INFINITY : INFINITY;
}

void outcomes_add_classes(struct outcomes *o, const float *outputs, const uint16_t *labels, size_t n) {
  MUST(o->task == TASK_CLASSIFY && n <= o->capacity - o->n);
  for (size_t i = 0; i < n; i++) {
    const float *z = outputs + i * o->n_classes;
    MUST(labels[i] < o->n_classes);
    o->rows[o->n++] = (struct outcome){
        .output = o->n_classes == 2 ? score_of(z, labels[i]) : 0,
        .is = labels[i],
        .said = (uint16_t)largest(z, o->n_classes),
    };
  }
}

void outcomes_add_targets(struct outcomes *o, const float *outputs, const float *targets, size_t n) {
  MUST(o->task == TASK_REGRESS && n <= o->capacity - o->n);
  for (size_t i = 0; i < n; i++)
    o->rows[o->n++] = (struct outcome){.output = outputs[i], .target = targets[i]};
}

/* ---- order by score ----------------------------------------------------------------------------------------------- */

static uint32_t count_of(const uint32_t *counts, size_t i) {
  return counts == NULL ? 1 : counts[i];
}

/* Merges the sorted runs [from, middle) and [middle, to) into `into`. */
static void merge_runs(const struct outcome *rows, const uint32_t *order, size_t from, size_t middle, size_t to,
                       uint32_t *into) {
  size_t left = from, right = middle;
  for (size_t i = from; i < to; i++) {
    bool takes_left = left < middle && (right == to || rows[order[left]].output <= rows[order[right]].output);
    into[i] = takes_left ? order[left++] : order[right++];
  }
}

/* Merge sort from the bottom; `spare` has the size of `order`. */
static void sort_by_score(const struct outcome *rows, uint32_t *order, uint32_t *spare, size_t n) {
  for (size_t i = 0; i < n; i++)
    order[i] = (uint32_t)i;
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t from = 0; from < n; from += 2 * width) {
      size_t middle = from + width < n ? from + width : n, to = middle + width < n ? middle + width : n;
      merge_runs(rows, order, from, middle, to, spare);
    }
    memcpy(order, spare, n * sizeof *order);
  }
}

static enum err order_init(struct tally *t) {
  size_t n = t->outcomes->n;
  t->order = calloc(n + 1, sizeof *t->order);
  uint32_t *spare = calloc(n + 1, sizeof *spare);
  enum err e = t->order != NULL && spare != NULL ? ERR_OK : ERR_NO_MEMORY;
  if (e == ERR_OK)
    sort_by_score(t->outcomes->rows, t->order, spare, n);
  free(spare);
  return e;
}

enum err tally_init(struct tally *t, const struct outcomes *o) {
  struct tally fresh = {.outcomes = o, .classes = calloc(o->n_classes + 1, sizeof *fresh.classes)};
  enum err e = fresh.classes == NULL ? ERR_NO_MEMORY : ERR_OK;
  if (e == ERR_OK && o->n_classes == 2)
    e = order_init(&fresh);
  if (e != ERR_OK)
    tally_done(&fresh);
  else
    *t = fresh;
  return e;
}

void tally_done(struct tally *t) {
  free(t->order);
  free(t->classes);
  *t = (struct tally){0};
}

/* ---- figures ------------------------------------------------------------------------------------------------------ */

size_t tally_classes(struct tally *t, const uint32_t *counts) {
  const struct outcomes *o = t->outcomes;
  size_t n_present = 0;
  memset(t->classes, 0, o->n_classes * sizeof *t->classes);
  for (size_t i = 0; i < o->n; i++) {
    const struct outcome *r = &o->rows[i];
    uint32_t count = count_of(counts, i);
    t->classes[r->is].support += count;
    if (r->said < o->n_classes)
      t->classes[r->said].predicted += count;
    if (r->said == r->is)
      t->classes[r->is].correct += count;
  }
  for (size_t c = 0; c < o->n_classes; c++)
    n_present += t->classes[c].support > 0;
  return n_present;
}

static double accuracy(struct tally *t, const uint32_t *counts) {
  uint64_t correct = 0, all = 0;
  if (tally_classes(t, counts) < 2)
    return NAN;
  for (size_t c = 0; c < t->outcomes->n_classes; c++) {
    correct += t->classes[c].correct;
    all += t->classes[c].support;
  }
  return (double)correct / (double)all;
}

static double balanced(struct tally *t, const uint32_t *counts) {
  size_t n_present = tally_classes(t, counts);
  double sum = 0;
  for (size_t c = 0; c < t->outcomes->n_classes; c++)
    if (t->classes[c].support > 0)
      sum += (double)t->classes[c].correct / (double)t->classes[c].support;
  return n_present < 2 ? NAN : sum / (double)n_present;
}

static double macro_f1(struct tally *t, const uint32_t *counts) {
  size_t n_present = tally_classes(t, counts);
  double sum = 0;
  for (size_t c = 0; c < t->outcomes->n_classes; c++) {
    const struct class_figures *f = &t->classes[c];
    if (f->support > 0)
      sum += 2 * (double)f->correct / (double)(f->support + f->predicted);
  }
  return n_present < 2 ? NAN : sum / (double)n_present;
}

/* U of class 1 over n₁·n₀: in ascending order of scores each sample of class 1 beats the samples of class 0 below it, and
 * half of those that tie with it. */
static double auc(struct tally *t, const uint32_t *counts) {
  const struct outcomes *o = t->outcomes;
  double n[2] = {0, 0}, u = 0;
  MUST(o->n_classes == 2);
  for (size_t at = 0; at < o->n;) {
    double tied[2] = {0, 0};
    float score = o->rows[t->order[at]].output;
    for (; at < o->n && o->rows[t->order[at]].output == score; at++)
      tied[o->rows[t->order[at]].is] += count_of(counts, t->order[at]);
    u += tied[1] * (n[0] + tied[0] / 2);
    n[0] += tied[0];
    n[1] += tied[1];
  }
  return n[0] > 0 && n[1] > 0 ? u / (n[0] * n[1]) : NAN;
}

struct targets {
  double n, mean, m2, squared_error;
};

static struct targets targets_of(const struct tally *t, const uint32_t *counts) {
  const struct outcomes *o = t->outcomes;
  struct targets s = {0};
  for (size_t i = 0; i < o->n; i++) { /* Welford 1962, weighted */
    double count = count_of(counts, i), y = (double)o->rows[i].target, error = (double)o->rows[i].output - y;
    if (count <= 0)
      continue;
    s.n += count;
    double delta = y - s.mean;
    s.mean += count * delta / s.n;
    s.m2 += count * delta * (y - s.mean);
    s.squared_error += count * error * error;
  }
  return s;
}

static double mse(struct tally *t, const uint32_t *counts) {
  struct targets s = targets_of(t, counts);
  return s.n > 0 ? s.squared_error / s.n : NAN;
}

static double r2(struct tally *t, const uint32_t *counts) {
  struct targets s = targets_of(t, counts);
  return s.m2 > 0 ? 1 - s.squared_error / s.m2 : NAN;
}

double tally_figure(struct tally *t, enum figure figure, const uint32_t *counts) {
  static double (*const figures[])(struct tally *, const uint32_t *) = {
      [FIGURE_ACCURACY] = accuracy, [FIGURE_BALANCED] = balanced, [FIGURE_MACRO_F1] = macro_f1,
      [FIGURE_AUC] = auc,           [FIGURE_MSE] = mse,           [FIGURE_R2] = r2,
  };
  return figures[figure](t, counts);
}
