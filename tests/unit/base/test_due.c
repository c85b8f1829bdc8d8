#include "base/due.h"

#include "base/rng.h"
#include "tests/unit/suite.h"

enum { N = 37, STEPS = 4000, LATEST = 50 };

/* What the tournament must say, by looking at all. */
static size_t next_of(const uint64_t at[N], size_t from, uint64_t now) {
  while (from < N && at[from] > now)
    from++;
  return from < N ? from : SIZE_MAX;
}

START_TEST(it_knows_the_first_and_the_next) {
  struct due d;
  struct rng rng;
  uint64_t at[N];
  rng_init(&rng, 7);
  ck_assert(due_init(&d, N) == ERR_OK);
  for (size_t i = 0; i < N; i++)
    at[i] = DUE_NEVER;
  ck_assert(due_first(&d) == DUE_NEVER);
  for (size_t step = 0; step < STEPS; step++) {
    size_t i = rng_below(&rng, N), from = rng_below(&rng, N + 2);
    uint64_t now = rng_below(&rng, LATEST), first = DUE_NEVER;
    at[i] = rng_below(&rng, 3) == 0 ? DUE_NEVER : rng_below(&rng, LATEST);
    due_set(&d, i, at[i]);
    for (size_t k = 0; k < N; k++)
      first = at[k] < first ? at[k] : first;
    if (due_first(&d) != first || due_get(&d, i) != at[i] || due_next(&d, from, now) != next_of(at, from, now))
      ck_abort_msg("step %zu", step);
  }
  due_done(&d);
}
END_TEST

START_TEST(one_thing_or_none) {
  struct due d;
  for (size_t n = 0; n < 2; n++) {
    ck_assert(due_init(&d, n) == ERR_OK);
    ck_assert(due_first(&d) == DUE_NEVER);
    ck_assert(due_next(&d, 0, 5) == SIZE_MAX);
    due_set(&d, 0, 5);
    ck_assert(due_first(&d) == 5);
    ck_assert(due_next(&d, 0, 4) == SIZE_MAX);
    ck_assert(due_next(&d, 0, 5) == 0);
    ck_assert(due_next(&d, 1, 5) == SIZE_MAX);
    due_done(&d);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("due", it_knows_the_first_and_the_next, one_thing_or_none);
}
