#include "models/judging/metrics.h"

#include <math.h>

#include "tests/unit/suite.h"

static void add_classes(struct metrics *m, const float *outputs, const uint16_t *labels, size_t n, double loss_sum) {
  metrics_add(m, outputs, &(struct answers){.labels = labels}, n, m->n_classes, loss_sum);
}

static void add_targets(struct metrics *m, const float *outputs, const float *targets, size_t n, double loss_sum) {
  metrics_add(m, outputs, &(struct answers){.targets = targets}, n, 1, loss_sum);
}

START_TEST(figures_of_three_classes) {
  struct metrics m;
  ck_assert_int_eq(metrics_init(&m, TASK_CLASSIFY, 4, 6), ERR_OK);
  /* class 3 is absent but predicted once: its predictions cost others their recall, its own F1 is not in the mean */
  const float first[] = {9, 1, 0, 0, /**/ 0, 2, 1, 0, /**/ 0, 0, 0, 5};
  const float second[] = {1, 1, 0, 0, /**/ 0, 0, 3, 0, /**/ -5, -4, -6, -9};
  add_classes(&m, first, (const uint16_t[]){0, 1, 2}, 3, 1.5);
  add_classes(&m, second, (const uint16_t[]){0, 2, 0}, 3, 3);
  ck_assert_int_eq(metrics_end(&m), ERR_OK);
  ck_assert_uint_eq(m.n, 6);
  ck_assert_double_eq_tol(m.loss, 0.75, 1e-15);
  ck_assert_double_eq_tol(m.accuracy, 4.0 / 6, 1e-15);
  static const struct class_figures expected[] = {{3, 2, 2}, {1, 2, 1}, {2, 1, 1}, {0, 1, 0}};
  for (size_t c = 0; c < 4; c++) {
    ck_assert_uint_eq(m.classes[c].support, expected[c].support);
    ck_assert_uint_eq(m.classes[c].predicted, expected[c].predicted);
    ck_assert_uint_eq(m.classes[c].correct, expected[c].correct);
  }
  ck_assert_double_eq_tol(m.macro_f1, (4.0 / 5 + 2.0 / 3 + 2.0 / 3) / 3, 1e-15);
  ck_assert_double_eq_tol(m.balanced, (2.0 / 3 + 1 + 1.0 / 2) / 3, 1e-15);
  ck_assert_uint_eq(m.n_present, 3);
  ck_assert(isnan(m.auc) && isnan(m.r2));
  ck_assert(metrics_headline(&m, METRIC_ACCURACY) == m.accuracy);
  metrics_done(&m);
}
END_TEST

START_TEST(no_number_is_no_answer) {
  struct metrics m;
  ck_assert_int_eq(metrics_init(&m, TASK_CLASSIFY, 2, 3), ERR_OK);
  const float outputs[] = {NAN, NAN, /**/ NAN, -INFINITY, /**/ INFINITY, 0};
  add_classes(&m, outputs, (const uint16_t[]){0, 1, 0}, 3, 0);
  ck_assert_int_eq(metrics_end(&m), ERR_OK);
  ck_assert_uint_eq(m.classes[0].predicted, 1);
  ck_assert_uint_eq(m.classes[1].predicted, 1);
  ck_assert_double_eq_tol(m.accuracy, 2.0 / 3, 1e-15);
  metrics_done(&m);
}
END_TEST

START_TEST(regression_over_batches) {
  struct metrics m;
  ck_assert_int_eq(metrics_init(&m, TASK_REGRESS, 0, 4), ERR_OK);
  add_targets(&m, (const float[]){1, 2}, (const float[]){1, 3}, 2, 1);
  add_targets(&m, (const float[]){5, 7}, (const float[]){5, 7}, 2, 0);
  ck_assert_int_eq(metrics_end(&m), ERR_OK);
  ck_assert_double_eq_tol(m.mse, 0.25, 1e-15);
  ck_assert_double_eq_tol(m.r2, 1 - 1.0 / 20, 1e-15); /* mean 4, Σ(y − ȳ)² = 9 + 1 + 1 + 9 */
  ck_assert_double_eq_tol(m.loss, 0.25, 1e-15);
  metrics_done(&m);
}
END_TEST

START_TEST(constant_targets_and_nothing) {
  struct metrics m;
  ck_assert_int_eq(metrics_init(&m, TASK_REGRESS, 0, 4), ERR_OK);
  ck_assert_int_eq(metrics_end(&m), ERR_OK);
  ck_assert(m.loss == 0 && isnan(m.mse) && isnan(m.r2) && m.n == 0);
  add_targets(&m, (const float[]){1, 2}, (const float[]){2, 2}, 2, 1);
  ck_assert_int_eq(metrics_end(&m), ERR_OK);
  ck_assert(isnan(m.r2) && m.mse == 0.5);
  char note[MAX_REASON_BYTES];
  metrics_note(&m, &(struct contract){.task = TASK_REGRESS}, note);
  ck_assert_str_eq(note, "the targets of this test set do not vary: not comparable");
  metrics_done(&m);
  ck_assert_int_eq(metrics_init(&m, TASK_CLASSIFY, 3, 2), ERR_OK);
  ck_assert_int_eq(metrics_end(&m), ERR_OK);
  ck_assert(isnan(m.accuracy) && isnan(m.macro_f1));
  metrics_done(&m);
  ck_assert_ptr_null(m.classes);
}
END_TEST

START_TEST(one_class_is_not_perfect) {
  struct class_name names[] = {{"ok"}, {"bad"}, {"odd"}};
  struct contract contract = {.n_classes = 3, .classes = names};
  struct metrics m;
  char note[MAX_REASON_BYTES];
  ck_assert_int_eq(metrics_init(&m, TASK_CLASSIFY, 3, 2), ERR_OK);
  add_classes(&m, (const float[]){0, 9, 0, /**/ 0, 9, 0}, (const uint16_t[]){1, 1}, 2, 0);
  ck_assert_int_eq(metrics_end(&m), ERR_OK);
  ck_assert(isnan(metrics_headline(&m, METRIC_ACCURACY)) && isnan(m.balanced) && isnan(m.macro_f1));
  ck_assert_uint_eq(m.classes[1].correct, 2);
  ck_assert(metrics_right(&m) == 1);
  metrics_note(&m, &contract, note);
  ck_assert_str_eq(note, "only class \"bad\" in this test set: not comparable");
  metrics_done(&m);
}
END_TEST

/* The headline of each task and why there is none. */
START_TEST(headlines_of_other_tasks) {
  struct metrics m;
  char note[MAX_REASON_BYTES];
  const struct contract sets = {.task = TASK_MULTILABEL, .n_classes = 2},
                        anomalies = {.task = TASK_RECONSTRUCT, .n_classes = 2};
  ck_assert_int_eq(metrics_init(&m, TASK_MULTILABEL, 2, 4), ERR_OK);
  metrics_add(&m, (const float[]){1, -1}, &(struct answers){.targets = (const float[]){1, 0}}, 1, 2, 0);
  ck_assert_int_eq(metrics_end(&m), ERR_OK);
  metrics_note(&m, &sets, note);
  ck_assert_str_eq(note, "no class both applies and does not in this test set: not comparable");
  metrics_add(&m, (const float[]){-1, 1}, &(struct answers){.targets = (const float[]){0, 1}}, 1, 2, 0);
  ck_assert_int_eq(metrics_end(&m), ERR_OK);
  metrics_note(&m, &sets, note);
  ck_assert_str_eq(note, "");
  ck_assert(metrics_headline(&m, METRIC_BY_TASK) == 1 && metrics_headline(&m, METRIC_AUC) == 1 && m.n_present == 2);
  ck_assert_uint_eq(m.classes[1].correct, 1);
  metrics_done(&m);
  ck_assert_int_eq(metrics_init(&m, TASK_RECONSTRUCT, 2, 4), ERR_OK);
  metrics_add(&m, (const float[]){1, 1}, &(struct answers){(const uint16_t[]){0}, (const float[]){1, 0}}, 1, 2, 0.5);
  ck_assert_int_eq(metrics_end(&m), ERR_OK);
  metrics_note(&m, &anomalies, note);
  ck_assert_str_eq(note, "this test set does not have both normal samples and anomalies by its labels: not comparable");
  ck_assert(isnan(metrics_headline(&m, METRIC_AUC)) && metrics_headline(&m, METRIC_R2) == 0 && m.n_classes == 0);
  metrics_done(&m);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/metrics", figures_of_three_classes, no_number_is_no_answer, regression_over_batches,
                   constant_targets_and_nothing, one_class_is_not_perfect, headlines_of_other_tasks);
}
