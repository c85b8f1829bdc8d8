#include "models/judging/outcomes.h"

#include <math.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

/* Scores of two classes as outputs { 0, score }. */
static struct outcomes two_classes(const float *scores, const uint16_t *labels, size_t n) {
  struct outcomes o;
  ck_assert_int_eq(outcomes_init(&o, TASK_CLASSIFY, 2, n), ERR_OK);
  for (size_t i = 0; i < n; i++)
    outcomes_add(&o, (const float[]){0, scores[i]}, &(struct answers){.labels = &labels[i]}, 1, 2);
  return o;
}

static double figure_of(const struct outcomes *o, enum figure figure, const uint32_t *counts) {
  struct tally t;
  ck_assert_int_eq(tally_init(&t, o), ERR_OK);
  double value = tally_figure(&t, figure, counts);
  tally_done(&t);
  return value;
}

static double auc_of(const float *scores, const uint16_t *labels, size_t n) {
  struct outcomes o = two_classes(scores, labels, n);
  double value = figure_of(&o, FIGURE_AUC, NULL);
  outcomes_done(&o);
  return value;
}

/* Hanley & McNeil 1982, table 1: 109 CT images rated 1 … 5 by one reader, 58 normal and 51 abnormal; W = 0.893. */
START_TEST(auc_of_hanley_and_mcneil) {
  static const size_t normal[] = {33, 6, 6, 11, 2}, abnormal[] = {3, 2, 2, 11, 33};
  float scores[109];
  uint16_t labels[109];
  size_t n = 0;
  for (size_t rating = 0; rating < 5; rating++)
    for (size_t i = 0; i < normal[rating] + abnormal[rating]; i++) {
      scores[n] = (float)rating;
      labels[n++] = i >= normal[rating];
    }
  ck_assert_uint_eq(n, 109);
  ck_assert_double_eq_tol(auc_of(scores, labels, n), 0.893, 0.0005);
}
END_TEST

/* Won by the sample of class 1, ties half. */
static double share_of_pairs(const float *scores, const uint16_t *labels, size_t n) {
  double won = 0, pairs = 0;
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++) {
      bool is_pair = labels[i] == 1 && labels[j] == 0;
      won += is_pair * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]));
      pairs += is_pair;
    }
  return won / pairs;
}

/* The rank sum against all pairs, with many ties. */
START_TEST(auc_is_the_share_of_pairs) {
  struct rng rng;
  rng_init(&rng, 3);
  for (int round = 0; round < 50; round++) {
    enum { N = 37 };
    float scores[N];
    uint16_t labels[N];
    for (size_t i = 0; i < N; i++) {
      scores[i] = (float)rng_below(&rng, 8) - 4;
      labels[i] = i == 0 ? 0 : i == 1 ? 1 : (uint16_t)rng_below(&rng, 2);
    }
    ck_assert_double_eq_tol(auc_of(scores, labels, N), share_of_pairs(scores, labels, N), 1e-12);
  }
}
END_TEST

START_TEST(a_score_that_is_no_number_is_wrong) {
  const float best[] = {NAN, 1, 2}, worst[] = {0, NAN, 1};
  ck_assert_double_eq(auc_of(best, (const uint16_t[]){0, 1, 1}, 3), 0);
  ck_assert_double_eq(auc_of(worst, (const uint16_t[]){0, 1, 1}, 3), 0.5);
}
END_TEST

START_TEST(one_class_has_no_figures) {
  struct outcomes o = two_classes((const float[]){1, 2, 3}, (const uint16_t[]){1, 1, 1}, 3);
  for (enum figure f = FIGURE_ACCURACY; f <= FIGURE_AUC; f++)
    ck_assert(isnan(figure_of(&o, f, NULL)));
  outcomes_done(&o);
}
END_TEST

/* Counting a sample k times is having it k times. */
START_TEST(counts_are_repetitions) {
  static const float scores[] = {-1, 2, 0.5F, -3, 2, 0.5F};
  static const uint16_t labels[] = {0, 1, 1, 1, 0, 0};
  static const uint32_t counts[] = {2, 0, 3, 1, 1, 2};
  float repeated[9];
  uint16_t repeated_labels[9];
  size_t n = 0;
  for (size_t i = 0; i < 6; i++)
    for (uint32_t k = 0; k < counts[i]; k++) {
      repeated[n] = scores[i];
      repeated_labels[n++] = labels[i];
    }
  struct outcomes a = two_classes(scores, labels, 6), b = two_classes(repeated, repeated_labels, n);
  for (enum figure f = FIGURE_ACCURACY; f <= FIGURE_AUC; f++)
    ck_assert_double_eq_tol(figure_of(&a, f, counts), figure_of(&b, f, NULL), 1e-12);
  outcomes_done(&a);
  outcomes_done(&b);
}
END_TEST

START_TEST(counts_of_numbers) {
  struct outcomes a, b;
  ck_assert_int_eq(outcomes_init(&a, TASK_REGRESS, 0, 3), ERR_OK);
  ck_assert_int_eq(outcomes_init(&b, TASK_REGRESS, 0, 4), ERR_OK);
  outcomes_add(&a, (const float[]){1, 2, 9}, &(struct answers){.targets = (const float[]){1, 4, 5}}, 3, 1);
  outcomes_add(&b, (const float[]){1, 2, 2, 2}, &(struct answers){.targets = (const float[]){1, 4, 4, 4}}, 4, 1);
  const uint32_t counts[] = {1, 3, 0};
  ck_assert_double_eq_tol(figure_of(&a, FIGURE_R2, counts), 1 - 12 / 6.75, 1e-12);
  ck_assert_double_eq_tol(figure_of(&b, FIGURE_R2, NULL), 1 - 12 / 6.75, 1e-12);
  ck_assert_double_eq_tol(figure_of(&a, FIGURE_MSE, counts), 3, 1e-12);
  outcomes_done(&a);
  outcomes_done(&b);
}
END_TEST

/* Four samples of two classes. By hand: class 0 has tp 1, fp 1, fn 1; class 1 tp 2, fp 0, fn 0. */
static struct outcomes sets(void) {
  static const float z[] = {1, 2, /**/ -1, 3, /**/ 2, -1, /**/ -2, -3}, y[] = {1, 1, /**/ 1, 1, /**/ 0, 0, /**/ 0, 0};
  struct outcomes o;
  ck_assert_int_eq(outcomes_init(&o, TASK_MULTILABEL, 2, 4), ERR_OK);
  outcomes_add(&o, z, &(struct answers){.targets = y}, 4, 2);
  return o;
}

START_TEST(figures_of_sets) {
  struct outcomes o = sets();
  ck_assert_double_eq_tol(figure_of(&o, FIGURE_MACRO_F1, NULL), (0.5 + 1) / 2, 1e-15);
  ck_assert_double_eq_tol(figure_of(&o, FIGURE_ACCURACY, NULL), 0.5, 1e-15); /* both classes right */
  ck_assert_double_eq_tol(figure_of(&o, FIGURE_BALANCED, NULL), (0.5 + 1) / 2, 1e-15);
  ck_assert_double_eq_tol(figure_of(&o, FIGURE_AUC, NULL), (0.5 + 1) / 2, 1e-15);
  ck_assert(isnan(figure_of(&o, FIGURE_MSE, NULL)) && isnan(figure_of(&o, FIGURE_R2, NULL)));
  const uint32_t first_two[] = {1, 1, 0, 0}, counts[] = {2, 0, 1, 1};
  for (enum figure f = FIGURE_ACCURACY; f <= FIGURE_AUC; f++) /* both have both classes: nothing to tell apart */
    ck_assert(isnan(figure_of(&o, f, first_two)));
  ck_assert_double_eq_tol(figure_of(&o, FIGURE_ACCURACY, counts), 3.0 / 4, 1e-15);
  ck_assert_double_eq_tol(figure_of(&o, FIGURE_MACRO_F1, counts), (4.0 / 5 + 1) / 2, 1e-15);
  outcomes_done(&o);
}
END_TEST

START_TEST(an_output_of_a_set_that_is_no_number_is_wrong) {
  struct outcomes o;
  ck_assert_int_eq(outcomes_init(&o, TASK_MULTILABEL, 1, 2), ERR_OK);
  outcomes_add(&o, (const float[]){NAN, NAN}, &(struct answers){.targets = (const float[]){1, 0}}, 2, 1);
  ck_assert(o.marks[0].is && !o.marks[0].said && !o.marks[1].is && o.marks[1].said);
  ck_assert_double_eq(figure_of(&o, FIGURE_ACCURACY, NULL), 0);
  ck_assert_double_eq(figure_of(&o, FIGURE_AUC, NULL), 0);
  outcomes_done(&o);
}
END_TEST

/* Errors 0.5, 2, 0.25, 8: the anomalies, of whatever class, are the second and the last; the third is unknown. */
START_TEST(figures_of_what_is_reconstructed) {
  static const float z[] = {1, 1, /**/ 2, 2, /**/ 0.5F, 0.5F, /**/ 0, 0}, x[] = {1, 0, /**/ 0, 2, /**/ 0, 1, /**/ 4, 0};
  static const uint16_t labels[] = {0, 2, NO_LABEL, 1};
  struct outcomes o;
  ck_assert_int_eq(outcomes_init(&o, TASK_RECONSTRUCT, 3, 4), ERR_OK);
  outcomes_add(&o, z, &(struct answers){labels, x}, 4, 2);
  ck_assert_double_eq(figure_of(&o, FIGURE_AUC, NULL), 1);
  ck_assert_double_eq_tol(figure_of(&o, FIGURE_MSE, NULL), (0.5 + 2 + 0.25 + 8) / 4, 1e-7);
  ck_assert_double_eq_tol(figure_of(&o, FIGURE_R2, NULL), 1 - (1 + 4 + 0.5 + 16) / 22, 1e-7);
  ck_assert(isnan(figure_of(&o, FIGURE_ACCURACY, NULL)) && isnan(figure_of(&o, FIGURE_MACRO_F1, NULL)));
  ck_assert(isnan(figure_of(&o, FIGURE_AUC, (const uint32_t[]){1, 0, 3, 0})));
  ck_assert_double_eq(figure_of(&o, FIGURE_AUC, (const uint32_t[]){1, 0, 3, 2}), 1);
  outcomes_done(&o);
  ck_assert_int_eq(outcomes_init(&o, TASK_RECONSTRUCT, 0, 4), ERR_OK);
  outcomes_add(&o, z, &(struct answers){.targets = x}, 4, 2);
  ck_assert(isnan(figure_of(&o, FIGURE_AUC, NULL)));
  ck_assert_double_eq_tol(figure_of(&o, FIGURE_R2, NULL), 1 - (1 + 4 + 0.5 + 16) / 22, 1e-7);
  outcomes_done(&o);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/outcomes", auc_of_hanley_and_mcneil, auc_is_the_share_of_pairs,
                   a_score_that_is_no_number_is_wrong, one_class_has_no_figures, counts_are_repetitions,
                   counts_of_numbers, figures_of_sets, an_output_of_a_set_that_is_no_number_is_wrong,
                   figures_of_what_is_reconstructed);
}
