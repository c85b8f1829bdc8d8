#include "models/judging/outcomes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

enum err outcomes_init(struct outcomes *o, enum task task, size_t n_classes, size_t n) {
  const struct task_type *t = task_type(task);
  MUST(n_classes >= t->min_classes && (n_classes == 0 || t->takes_classes));
  struct outcomes fresh = {.task = task, .n_classes = n_classes, .capacity = n};
  fresh.rows = calloc(n + 1, sizeof *fresh.rows);
  if (t->answer == ANSWER_SET)
    fresh.marks = calloc(n + 1, n_classes * sizeof *fresh.marks);
  if (fresh.rows == NULL || (t->answer == ANSWER_SET && fresh.marks == NULL)) {
    outcomes_done(&fresh);
    return ERR_NO_MEMORY;
  }
  *o = fresh;
  return ERR_OK;
}

void outcomes_done(struct outcomes *o) {
  free(o->rows);
  free(o->marks);
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
static float score_of(float score, bool is_positive) {
  return !isnan(score) ? score : is_positive ? -INFINITY : INFINITY;
}

static struct outcome class_outcome(struct outcomes *o, const float *z, const struct answers *a, size_t i, size_t k) {
  uint16_t is = a->labels[i];
  MUST(k == o->n_classes && is < k);
  return (struct outcome){
      .output = k == 2 ? score_of(z[1] - z[0], is == 1) : 0, .is = is, .said = (uint16_t)largest(z, k)};
}

static struct outcome number_outcome(struct outcomes *o, const float *z, const struct answers *a, size_t i, size_t k) {
  (void)o;
  MUST(k == 1);
  return (struct outcome){.output = z[0], .target = a->targets[i]};
}

static struct outcome set_outcome(struct outcomes *o, const float *z, const struct answers *a, size_t i, size_t k) {
  struct mark *marks = o->marks + o->n * k;
  bool is_wrong = false;
  MUST(k == o->n_classes);
  for (size_t c = 0; c < k; c++) {
    bool is = a->targets[i * k + c] > 0, said = isnan(z[c]) ? !is : z[c] > 0;
    marks[c] = (struct mark){score_of(z[c], is), is, said};
    is_wrong = is_wrong || is != said;
  }
  return (struct outcome){.said = is_wrong};
}

static struct outcome input_outcome(struct outcomes *o, const float *z, const struct answers *a, size_t i, size_t k) {
  (void)o;
  const float *x = a->targets + i * k;
  uint16_t is = a->labels != NULL ? a->labels[i] : NO_LABEL;
  double error = 0, square = 0;
  for (size_t c = 0; c < k; c++) {
    double d = (double)z[c] - (double)x[c];
    error += d * d;
    square += (double)x[c] * (double)x[c];
  }
  float score = score_of((float)(error / (double)k), is != 0 && is != NO_LABEL);
  return (struct outcome){.output = score, .target = (float)(square / (double)k), .is = is, .said = NO_LABEL};
}

void outcomes_add(struct outcomes *o, const float *outputs, const struct answers *answers, size_t n, size_t n_outputs) {
  static struct outcome (*const kinds[])(struct outcomes *, const float *, const struct answers *, size_t, size_t) = {
      [ANSWER_CLASS] = class_outcome,
      [ANSWER_NUMBER] = number_outcome,
      [ANSWER_SET] = set_outcome,
      [ANSWER_INPUTS] = input_outcome,
  };
  MUST(n <= o->capacity - o->n);
  for (size_t i = 0; i < n; i++) {
    o->rows[o->n] = kinds[task_type(o->task)->answer](o, outputs + i * n_outputs, answers, i, n_outputs);
    o->n++;
  }
}

/* ---- order by score ----------------------------------------------------------------------------------------------- */

static uint32_t count_of(const uint32_t *counts, size_t i) {
  return counts == NULL ? 1 : counts[i];
}

/* Scores a sample: those of which a chance of order is asked. */
static size_t scores_of(const struct outcomes *o) {
  switch (task_type(o->task)->answer) {
  case ANSWER_CLASS:
    return o->n_classes == 2;
  case ANSWER_SET:
    return o->n_classes;
  case ANSWER_INPUTS:
    return o->n_classes > 0;
  case ANSWER_NUMBER:
    break;
  }
  return 0;
}

static float score_at(const struct outcomes *o, size_t i, size_t which) {
  return o->marks != NULL ? o->marks[i * o->n_classes + which].output : o->rows[i].output;
}

/* Whether the score should be high (1) or low (0); −1: nobody knows. */
static int side_of(const struct outcomes *o, size_t i, size_t which) {
  if (o->marks != NULL)
    return o->marks[i * o->n_classes + which].is;
  return o->rows[i].is == NO_LABEL ? -1 : o->rows[i].is > 0;
}

/* One score of every sample. */
struct scores {
  const struct outcomes *outcomes;
  size_t which;
};

/* Merges the sorted runs [from, middle) and [middle, to) into `into`. */
static void merge_runs(const struct scores *s, const uint32_t *order, size_t from, size_t middle, size_t to,
                       uint32_t *into) {
  size_t left = from, right = middle;
  for (size_t i = from; i < to; i++) {
    bool takes_left = left < middle && (right == to || score_at(s->outcomes, order[left], s->which) <=
                                                           score_at(s->outcomes, order[right], s->which));
    into[i] = takes_left ? order[left++] : order[right++];
  }
}

/* Merge sort from the bottom; `spare` has the size of `order`. */
static void sort_by_score(const struct scores *s, uint32_t *order, uint32_t *spare, size_t n) {
  for (size_t i = 0; i < n; i++)
    order[i] = (uint32_t)i;
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t from = 0; from < n; from += 2 * width) {
      size_t middle = from + width < n ? from + width : n, to = middle + width < n ? middle + width : n;
      merge_runs(s, order, from, middle, to, spare);
    }
    memcpy(order, spare, n * sizeof *order);
  }
}

static enum err order_init(struct tally *t) {
  size_t n = t->outcomes->n;
  t->order = calloc(n + 1, t->n_scores * sizeof *t->order);
  uint32_t *spare = calloc(n + 1, sizeof *spare);
  enum err e = t->order != NULL && spare != NULL ? ERR_OK : ERR_NO_MEMORY;
  for (size_t which = 0; e == ERR_OK && which < t->n_scores; which++)
    sort_by_score(&(struct scores){t->outcomes, which}, t->order + which * n, spare, n);
  free(spare);
  return e;
}

enum err tally_init(struct tally *t, const struct outcomes *o) {
  struct tally fresh = {
      .outcomes = o, .n_scores = scores_of(o), .classes = calloc(o->n_classes + 1, sizeof *fresh.classes)};
  enum err e = fresh.classes == NULL ? ERR_NO_MEMORY : ERR_OK;
  if (e == ERR_OK && fresh.n_scores > 0)
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

static void count_class(struct tally *t, size_t i, uint32_t count) {
  const struct outcome *r = &t->outcomes->rows[i];
  t->classes[r->is].support += count;
  if (r->said < t->outcomes->n_classes)
    t->classes[r->said].predicted += count;
  if (r->said == r->is)
    t->classes[r->is].correct += count;
}

static void count_set(struct tally *t, size_t i, uint32_t count) {
  const struct mark *marks = t->outcomes->marks + i * t->outcomes->n_classes;
  for (size_t c = 0; c < t->outcomes->n_classes; c++) {
    t->classes[c].support += marks[c].is ? count : 0;
    t->classes[c].predicted += marks[c].said ? count : 0;
    t->classes[c].correct += marks[c].is && marks[c].said ? count : 0;
  }
}

size_t tally_classes(struct tally *t, const uint32_t *counts) {
  const struct outcomes *o = t->outcomes;
  size_t n_present = 0;
  MUST(task_type(o->task)->has_said_classes);
  memset(t->classes, 0, o->n_classes * sizeof *t->classes);
  for (size_t i = 0; i < o->n; i++) {
    if (o->marks != NULL)
      count_set(t, i, count_of(counts, i));
    else
      count_class(t, i, count_of(counts, i));
  }
  for (size_t c = 0; c < o->n_classes; c++)
    n_present += t->classes[c].support > 0;
  return n_present;
}

struct answered {
  uint64_t right, all;
};

static struct answered answered_of(const struct tally *t, const uint32_t *counts) {
  const struct outcomes *o = t->outcomes;
  struct answered a = {0};
  for (size_t i = 0; i < o->n; i++) {
    a.all += count_of(counts, i);
    a.right += o->rows[i].said == o->rows[i].is ? count_of(counts, i) : 0;
  }
  return a;
}

/* Counts the classes; whether their samples can be told apart, some having a class and some not. */
static bool is_telling(struct tally *t, const uint32_t *counts, size_t *out_n_present) {
  uint64_t all = answered_of(t, counts).all;
  bool is_mixed = false;
  *out_n_present = tally_classes(t, counts);
  for (size_t c = 0; c < t->outcomes->n_classes; c++)
    is_mixed = is_mixed || (t->classes[c].support > 0 && t->classes[c].support < all);
  return is_mixed;
}

static double accuracy(struct tally *t, const uint32_t *counts) {
  size_t n_present;
  struct answered a = answered_of(t, counts);
  return is_telling(t, counts, &n_present) ? (double)a.right / (double)a.all : NAN;
}

static double balanced(struct tally *t, const uint32_t *counts) {
  size_t n_present;
  double sum = 0;
  if (!is_telling(t, counts, &n_present))
    return NAN;
  for (size_t c = 0; c < t->outcomes->n_classes; c++)
    if (t->classes[c].support > 0)
      sum += (double)t->classes[c].correct / (double)t->classes[c].support;
  return sum / (double)n_present;
}

static double macro_f1(struct tally *t, const uint32_t *counts) {
  size_t n_present;
  double sum = 0;
  if (!is_telling(t, counts, &n_present))
    return NAN;
  for (size_t c = 0; c < t->outcomes->n_classes; c++) {
    const struct class_figures *f = &t->classes[c];
    if (f->support > 0)
      sum += 2 * (double)f->correct / (double)(f->support + f->predicted);
  }
  return sum / (double)n_present;
}

/* U of class 1 over n₁·n₀: in ascending order of scores each sample of class 1 beats the samples of class 0 below it, and
 * half of those that tie with it. */
static double auc_of(const struct tally *t, size_t which, const uint32_t *counts) {
  const struct outcomes *o = t->outcomes;
  const uint32_t *order = t->order + which * o->n;
  double n[2] = {0, 0}, u = 0;
  for (size_t at = 0; at < o->n;) {
    double tied[2] = {0, 0};
    float score = score_at(o, order[at], which);
    for (; at < o->n && score_at(o, order[at], which) == score; at++) {
      int side = side_of(o, order[at], which);
      if (side >= 0)
        tied[side] += count_of(counts, order[at]);
    }
    u += tied[1] * (n[0] + tied[0] / 2);
    n[0] += tied[0];
    n[1] += tied[1];
  }
  return n[0] > 0 && n[1] > 0 ? u / (n[0] * n[1]) : NAN;
}

static double auc(struct tally *t, const uint32_t *counts) {
  double sum = 0, n = 0;
  for (size_t which = 0; which < t->n_scores; which++) {
    double one = auc_of(t, which, counts);
    sum += isnan(one) ? 0 : one;
    n += isnan(one) ? 0 : 1;
  }
  return n > 0 ? sum / n : NAN;
}

/* Sums over samples: how far outputs are off, how far what is right is spread. */
struct squares {
  double n, error, spread;
};

static struct squares squares_of_numbers(const struct outcomes *o, const uint32_t *counts) {
  struct squares s = {0};
  double mean = 0;
  for (size_t i = 0; i < o->n; i++) { /* Welford 1962, weighted */
    double count = count_of(counts, i), y = (double)o->rows[i].target, error = (double)o->rows[i].output - y;
    if (count <= 0)
      continue;
    s.n += count;
    double delta = y - mean;
    mean += count * delta / s.n;
    s.spread += count * delta * (y - mean);
    s.error += count * error * error;
  }
  return s;
}

static struct squares squares_of_inputs(const struct outcomes *o, const uint32_t *counts) {
  struct squares s = {0};
  for (size_t i = 0; i < o->n; i++) {
    double count = count_of(counts, i);
    s.n += count;
    s.error += count > 0 ? count * (double)o->rows[i].output : 0;
    s.spread += count * (double)o->rows[i].target;
  }
  return s;
}

static struct squares squares_of(const struct tally *t, const uint32_t *counts) {
  bool is_number = task_type(t->outcomes->task)->answer == ANSWER_NUMBER;
  return is_number ? squares_of_numbers(t->outcomes, counts) : squares_of_inputs(t->outcomes, counts);
}

static double mse(struct tally *t, const uint32_t *counts) {
  struct squares s = squares_of(t, counts);
  return s.n > 0 ? s.error / s.n : NAN;
}

static double r2(struct tally *t, const uint32_t *counts) {
  struct squares s = squares_of(t, counts);
  return s.spread > 0 ? 1 - s.error / s.spread : NAN;
}

#define OF(answer) (1U << (answer))

double tally_figure(struct tally *t, enum figure figure, const uint32_t *counts) {
  static const unsigned of_classes = OF(ANSWER_CLASS) | OF(ANSWER_SET),
                        of_values = OF(ANSWER_NUMBER) | OF(ANSWER_INPUTS);
  static const struct {
    double (*of)(struct tally *, const uint32_t *);
    const unsigned *answers; /* NULL: any; there may be no score */
  } figures[] = {
      [FIGURE_ACCURACY] = {accuracy, &of_classes},
      [FIGURE_BALANCED] = {balanced, &of_classes},
      [FIGURE_MACRO_F1] = {macro_f1, &of_classes},
      [FIGURE_AUC] = {auc, NULL},
      [FIGURE_MSE] = {mse, &of_values},
      [FIGURE_R2] = {r2, &of_values},
  };
  unsigned answer = OF(task_type(t->outcomes->task)->answer);
  return figures[figure].answers == NULL || (*figures[figure].answers & answer) ? figures[figure].of(t, counts) : NAN;
}
