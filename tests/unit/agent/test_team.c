#include "agent/run/team.h"

#include <stdatomic.h>
#include <string.h>

#include "tests/unit/suite.h"

enum { N_PARTS = 64, N_TURNS = 500 };

static struct {
  atomic_uint calls[N_PARTS];
  size_t sum[N_PARTS];
} work;

static void count(void *context, size_t i) {
  ck_assert_ptr_eq(context, &work);
  atomic_fetch_add(&work.calls[i], 1);
  work.sum[i] += i; /* no other thread may be at this part */
}

static void run_all(struct team *team) {
  memset(&work, 0, sizeof work);
  for (size_t turn = 0; turn < N_TURNS; turn++) {
    team_run(team, 1 + turn % N_PARTS, count, &work);
    ck_assert_uint_ge(atomic_load(&work.calls[turn % N_PARTS]),
                      turn / N_PARTS + 1); /* the last part is done on return */
  }
  for (size_t i = 0; i < N_PARTS; i++) {
    size_t expected = 0;
    for (size_t turn = 0; turn < N_TURNS; turn++)
      expected += turn % N_PARTS >= i;
    ck_assert_uint_eq(atomic_load(&work.calls[i]), expected);
    ck_assert_uint_eq(work.sum[i], expected * i);
  }
}

START_TEST(each_part_is_done_once) {
  for (uint32_t n = 0; n <= 4; n++) {
    struct team *team = team_start(n);
    ck_assert_int_eq(team != NULL, n > 1);
    memset(&work, 0, sizeof work);
    run_all(team);
    team_stop(team);
  }
}
END_TEST

START_TEST(a_team_without_work_ends) {
  team_stop(team_start(3));
  team_stop(NULL);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/team", each_part_is_done_once, a_team_without_work_ends);
}
