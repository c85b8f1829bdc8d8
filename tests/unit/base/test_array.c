#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>

#include "tests/unit/suite.h"

START_TEST(it_grows_to_its_bound_and_keeps_what_it_holds) {
  enum { MAX = 11 };
  int *a = NULL;
  size_t n = 0, capacity = 0;
  for (; n < MAX; n++) {
    int *grown = array_grown(a, &capacity, n, sizeof *a, MAX);
    ck_assert(grown != NULL && capacity > n && capacity <= MAX);
    a = grown;
    a[n] = (int)n;
  }
  ck_assert(array_grown(a, &capacity, n, sizeof *a, MAX) == NULL);
  for (size_t i = 0; i < n; i++)
    ck_assert_int_eq(a[i], (int)i);
  ck_assert(array_grown(a, &capacity, n, SIZE_MAX / 2, (size_t)2 * MAX) == NULL);
  ck_assert_uint_eq(capacity, MAX);
  free(a);
}
END_TEST

int main(void) {
  return SUITE_RUN("array", it_grows_to_its_bound_and_keeps_what_it_holds);
}
