/* Order statistics: every kernel against sorting, on all inputs of zeros and ones (Knuth's 0-1 principle) and on random ones. */
#include "models/kernels/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

enum { MOST = 40, COLUMNS = 1 << ORDER_NETWORK_MAX };

static float values[MOST][COLUMNS], out[COLUMNS];

static const float *const *rows(void) {
  static const float *row[MOST];
  for (size_t k = 0; k < MOST; k++)
    row[k] = values[k];
  return row;
}

static int ascending(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static void sorted_column(size_t n, size_t i, float v[MOST]) {
  for (size_t k = 0; k < n; k++)
    v[k] = values[k][i];
  qsort(v, n, sizeof *v, ascending);
}

static double median_twin(size_t n, size_t i) {
  float v[MOST];
  sorted_column(n, i, v);
  return ((double)v[(n - 1) / 2] + (double)v[n / 2]) / 2;
}

static double trimmed_twin(size_t n, size_t f, size_t i) {
  float v[MOST];
  long double sum = 0;
  sorted_column(n, i, v);
  for (size_t k = f; k < n - f; k++)
    sum += (long double)v[k];
  return (double)(sum / (long double)(n - 2 * f));
}

static const struct order_kernel *kernel_at(size_t i) {
  size_t n;
  const struct order_kernel *k = order_kernels(&n);
  struct cpu cpu = cpu_detect();
  ck_assert(cpu_has(&cpu, &order_fastest()->needs));
  return i < n && cpu_has(&cpu, &k[i].needs) ? &k[i] : NULL;
}

static void compare(const struct order_kernel *k, size_t n, size_t n_values) {
  k->median(rows(), n, n_values, out);
  for (size_t i = 0; i < n_values; i++)
    ck_assert_msg(out[i] == (float)median_twin(n, i), "%s: median of %zu at %zu", k->name, n, i);
  for (size_t f = 0; 2 * f < n; f++) {
    k->trimmed(rows(), n, n_values, f, out);
    for (size_t i = 0; i < n_values; i++)
      ck_assert_msg(fabs((double)out[i] - trimmed_twin(n, f, i)) <= 6e-8 * fabs(trimmed_twin(n, f, i)),
                    "%s: %zu trimmed by %zu at %zu", k->name, n, f, i);
  }
}

/* Of n sorted zeros and ones, how many ones stand at from … to − 1. */
static int ones_between(size_t n, int ones, size_t from, size_t to) {
  int first = (int)n - ones, start = (int)from > first ? (int)from : first;
  return start < (int)to ? (int)to - start : 0;
}

/* What sorts every input of zeros and ones sorts every input; the trimmed means say where the ones are. */
START_TEST(zeros_and_ones_are_sorted) {
  const struct order_kernel *k;
  for (size_t which = 0; (k = kernel_at(which)); which++)
    for (size_t n = 1; n <= ORDER_NETWORK_MAX; n++) {
      size_t columns = (size_t)1 << n;
      for (size_t i = 0; i < columns; i++)
        for (size_t wire = 0; wire < n; wire++)
          values[wire][i] = (float)(i >> wire & 1);
      for (size_t f = 0; 2 * f < n; f++) {
        k->trimmed(rows(), n, columns, f, out);
        for (size_t i = 0; i < columns; i++)
          if (out[i] != (float)(ones_between(n, __builtin_popcountl(i), f, n - f) * (1.0 / (double)(n - 2 * f))))
            ck_abort_msg("%s: %zu wires, %zu cut, input %zx", k->name, n, f, i);
      }
      k->median(rows(), n, columns, out);
      for (size_t i = 0; i < columns; i++)
        if (out[i] != 0.5f * (float)(ones_between(n, __builtin_popcountl(i), (n - 1) / 2, (n - 1) / 2 + 1) +
                                     ones_between(n, __builtin_popcountl(i), n / 2, n / 2 + 1)))
          ck_abort_msg("%s: median of %zu wires, input %zx", k->name, n, i);
    }
}
END_TEST

START_TEST(random_values_of_any_number_and_length) {
  const struct order_kernel *k;
  struct rng rng;
  rng_init(&rng, 4);
  for (size_t j = 0; j < MOST; j++)
    for (size_t i = 0; i < 70; i++)
      values[j][i] = (float)((rng_unit(&rng) - 0.5) * pow(10, (double)rng_below(&rng, 60) - 30));
  for (size_t which = 0; (k = kernel_at(which)); which++)
    for (size_t n = 1; n <= MOST; n += n < 18 ? 1 : 11) {
      compare(k, n, 70);
      for (size_t length = 0; length < 36; length += 5) {
        out[length] = 7;
        k->median(rows(), n, length, out);
        ck_assert(out[length] == 7);
      }
    }
}
END_TEST

/* The same bits from every kernel. */
START_TEST(kernels_agree) {
  static float first[2][257];
  const struct order_kernel *k;
  struct rng rng;
  rng_init(&rng, 5);
  for (size_t n = 1; n <= 18; n++) {
    for (size_t j = 0; j < n; j++)
      for (size_t i = 0; i < 257; i++)
        values[j][i] = (float)(rng_unit(&rng) - 0.5);
    for (size_t which = 0; (k = kernel_at(which)); which++) {
      float got[2][257];
      k->median(rows(), n, 257, got[0]);
      k->trimmed(rows(), n, 257, (n - 1) / 3, got[1]);
      if (which == 0)
        memcpy(first, got, sizeof first);
      for (size_t i = 0; i < 257; i++)
        ck_assert_msg(first[0][i] == got[0][i] && first[1][i] == got[1][i], "%s of %zu", k->name, n);
    }
  }
}
END_TEST

/* A NaN is against the contract. It stays at its coordinate and does not vanish there: an untrimmed mean has it. */
START_TEST(nan_stays_at_its_coordinate) {
  const struct order_kernel *k;
  for (size_t which = 0; (k = kernel_at(which)); which++)
    for (size_t n = 3; n <= 17; n += 2)
      for (size_t wire = 0; wire < n; wire++) {
        for (size_t j = 0; j < n; j++)
          for (size_t i = 0; i < 33; i++)
            values[j][i] = (float)((j * 7 + i) % n);
        values[wire][20] = NAN;
        k->trimmed(rows(), n, 33, 0, out);
        ck_assert_msg(isnan(out[20]), "%s loses it among %zu", k->name, n);
        k->median(rows(), n, 33, out);
        ck_assert(isnan(out[20]) || (out[20] >= 0 && out[20] < (float)n));
        for (size_t i = 0; i < 33; i++)
          ck_assert(i == 20 || out[i] == (float)median_twin(n, i));
      }
}
END_TEST

int main(void) {
  return SUITE_RUN("order", zeros_and_ones_are_sorted, random_values_of_any_number_and_length, kernels_agree,
                   nan_stays_at_its_coordinate);
}
