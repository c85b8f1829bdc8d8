#include "models/continual/regularise.h"

#include <math.h>

#include "base/rng.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

/* ---- A-GEM */

START_TEST(a_gradient_that_would_undo_what_is_remembered_is_projected) {
  float g[] = {1, 2, -2}, r[] = {0, 3, 4};
  ck_assert(agem_project(g, r, 3)); /* g·r = −2, ‖r‖² = 25: g + 2/25 r */
  ck_assert_float_eq_tol(g[0], 1, 1e-7F);
  ck_assert_float_eq_tol(g[1], 2.24F, 1e-6F);
  ck_assert_float_eq_tol(g[2], -1.68F, 1e-6F);
  double dot = 0;
  for (size_t i = 0; i < 3; i++)
    dot += (double)g[i] * (double)r[i];
  ck_assert_double_eq_tol(dot, 0, 1e-6);
}
END_TEST

START_TEST(a_gradient_that_agrees_stays_to_the_bit) {
  float g[] = {1, 2, 0.1F}, with[] = {0, 3, 4}, zero[] = {0, 0, 0};
  const float as_it_was[] = {1, 2, 0.1F};
  ck_assert(!agem_project(g, with, 3));
  ck_assert(!agem_project(g, zero, 3));
  for (size_t i = 0; i < 3; i++)
    ck_assert(g[i] == as_it_was[i]);
}
END_TEST

/* ---- EWC */

START_TEST(squares_are_of_one_sample_at_a_time) {
  float f[2] = {0, 0};
  const float one[] = {1, -3}, other[] = {-1, 1};
  fisher_add(f, one, 2, 2);
  fisher_add(f, other, 2, 2);
  ck_assert_float_eq_tol(f[0], 1, 1e-7F); /* the square of the mean gradient would be 0 */
  ck_assert_float_eq_tol(f[1], 5, 1e-6F);
}
END_TEST

START_TEST(terms_of_two_tasks_are_one) {
  const float f1[] = {2, 0, 1}, x1[] = {1, 5, -1}, f2[] = {6, 0, 0}, x2[] = {3, 7, 4}, x[] = {0.5F, 1, 2};
  float f[3] = {0}, anchor[3] = {0}, g[3] = {0};
  ewc_consolidate(EWC_SEPARATE, 0, f1, x1, 3, f, anchor);
  ewc_consolidate(EWC_SEPARATE, 0, f2, x2, 3, f, anchor);
  ewc_gradient(0.5, f, anchor, x, 3, g);
  for (size_t i = 0; i < 3; i++) {
    double expected =
        0.5 * ((double)f1[i] * ((double)x[i] - (double)x1[i]) + (double)f2[i] * ((double)x[i] - (double)x2[i]));
    ck_assert_double_eq_tol((double)g[i], expected, 1e-5);
  }
}
END_TEST

START_TEST(online_forgets_old_importance_and_stands_at_the_newest_weights) {
  const float f1[] = {2, 4}, x1[] = {1, 5}, f2[] = {6, 1}, x2[] = {3, 7};
  float f[2] = {0}, anchor[2] = {0};
  ewc_consolidate(EWC_ONLINE, 0.5, f1, x1, 2, f, anchor);
  ewc_consolidate(EWC_ONLINE, 0.5, f2, x2, 2, f, anchor);
  ck_assert_float_eq(f[0], 7);
  ck_assert_float_eq(f[1], 3);
  ck_assert_mem_eq(anchor, x2, sizeof anchor);
}
END_TEST

/* ---- LwF */

enum { N_OUTPUTS = 5 };

/* T² KL(softmax(old/T) ‖ softmax(z/T)) by its definition. */
static double divergence(const double *old_z, const double *z, const bool *counts, double temperature) {
  double old_sum = 0, sum = 0, loss = 0;
  for (size_t c = 0; c < N_OUTPUTS; c++) {
    old_sum += counts[c] ? exp(old_z[c] / temperature) : 0;
    sum += counts[c] ? exp(z[c] / temperature) : 0;
  }
  for (size_t c = 0; c < N_OUTPUTS; c++) {
    if (!counts[c])
      continue;
    double old_p = exp(old_z[c] / temperature) / old_sum, p = exp(z[c] / temperature) / sum;
    loss += old_p * log(old_p / p);
  }
  return temperature * temperature * loss;
}

START_TEST(the_gradient_of_distillation_is_that_of_finite_differences) {
  const bool counts[N_OUTPUTS] = {true, true, false, true, true};
  const double temperature = 2, share = 0.3, step = 1e-5;
  struct rng rng;
  rng_init(&rng, 7);
  for (int round = 0; round < 50; round++) {
    float old_z[N_OUTPUTS], z[N_OUTPUTS], d_z[N_OUTPUTS] = {0};
    double old_d[N_OUTPUTS], at[N_OUTPUTS];
    for (size_t c = 0; c < N_OUTPUTS; c++) {
      old_d[c] = (double)(old_z[c] = (float)(3 * toy_normal(&rng)));
      at[c] = (double)(z[c] = (float)(3 * toy_normal(&rng)));
    }
    double loss = distil_row(old_z, z, counts, N_OUTPUTS, temperature, share, d_z);
    ck_assert_double_eq_tol(loss, share * divergence(old_d, at, counts, temperature), 1e-6);
    for (size_t c = 0; c < N_OUTPUTS; c++) {
      double before = at[c];
      at[c] = before + step;
      double above = divergence(old_d, at, counts, temperature);
      at[c] = before - step;
      double below = divergence(old_d, at, counts, temperature);
      at[c] = before;
      ck_assert_double_eq_tol((double)d_z[c], share * (above - below) / (2 * step), 1e-5);
    }
  }
}
END_TEST

START_TEST(one_output_alone_teaches_nothing) {
  const bool counts[N_OUTPUTS] = {false, true, false, false, false};
  const float old_z[N_OUTPUTS] = {1, 2, 3, 4, 5}, z[N_OUTPUTS] = {5, 4, 3, 2, 1};
  float d_z[N_OUTPUTS] = {0};
  ck_assert_double_eq(distil_row(old_z, z, counts, N_OUTPUTS, 2, 1, d_z), 0);
  for (size_t c = 0; c < N_OUTPUTS; c++)
    ck_assert_float_eq(d_z[c], 0);
}
END_TEST

int main(void) {
  return SUITE_RUN("regularise", a_gradient_that_would_undo_what_is_remembered_is_projected,
                   a_gradient_that_agrees_stays_to_the_bit, squares_are_of_one_sample_at_a_time,
                   terms_of_two_tasks_are_one, online_forgets_old_importance_and_stands_at_the_newest_weights,
                   the_gradient_of_distillation_is_that_of_finite_differences, one_output_alone_teaches_nothing);
}
