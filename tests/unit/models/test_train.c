#include "models/train.h"

#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "tests/unit/suite.h"

static const struct train_config good = {.epochs = 1,
                                         .batch = 32,
                                         .learning_rate = 0.1,
                                         .optimiser = {.momentum = 0.9},
                                         .step_rounds = 10,
                                         .step_factor = 0.5,
                                         .total_rounds = 20};

START_TEST(schedules) {
  struct train_config c = good;
  ck_assert_double_eq(train_rate(&c, 1), 0.1);
  ck_assert_double_eq(train_rate(&c, 1000), 0.1);
  c.schedule = SCHEDULE_STEP;
  ck_assert_double_eq(train_rate(&c, 10), 0.1);
  ck_assert_double_eq(train_rate(&c, 11), 0.05);
  ck_assert_double_eq(train_rate(&c, 31), 0.0125);
  c.schedule = SCHEDULE_COSINE;
  ck_assert_double_eq_tol(train_rate(&c, 1), 0.1, 1e-15);
  ck_assert_double_eq_tol(train_rate(&c, 11), 0.05, 1e-15);
  ck_assert_double_gt(train_rate(&c, 20), 0);
  ck_assert_double_eq(train_rate(&c, 21), 0);
  ck_assert_double_eq(train_rate(&c, UINT64_MAX), 0);
}
END_TEST

START_TEST(bad_configs_are_refused) {
  struct train_config bad[13];
  for (size_t i = 0; i < 13; i++)
    bad[i] = good;
  bad[0].epochs = 0;
  bad[1].batch = 0;
  bad[2].batch = MAX_BATCH + 1;
  bad[3].learning_rate = 0;
  bad[4].learning_rate = NAN;
  bad[5].learning_rate = -1;
  bad[6].optimiser.momentum = 1;
  bad[7].optimiser.momentum = -0.1;
  bad[8].optimiser.weight_decay = INFINITY;
  bad[9].schedule = (enum schedule)3;
  bad[10].schedule = SCHEDULE_STEP;
  bad[10].step_rounds = 0;
  bad[11].schedule = SCHEDULE_STEP;
  bad[11].step_factor = NAN;
  bad[12].schedule = SCHEDULE_COSINE;
  bad[12].total_rounds = 0;
  ck_assert_int_eq(train_config_check(&good), ERR_OK);
  for (size_t i = 0; i < 13; i++)
    ck_assert_msg(train_config_check(&bad[i]) == ERR_RANGE, "case %zu", i);
}
END_TEST

/* Streams differ in each of their five coordinates, and two coordinates cannot cancel out. */
START_TEST(streams_are_told_apart) {
  struct rng streams[9];
  train_stream(&streams[0], STREAM_ORDER, 1, 2, 3, 4);
  train_stream(&streams[1], STREAM_DROPOUT, 1, 2, 3, 4);
  train_stream(&streams[2], STREAM_ORDER, 2, 2, 3, 4);
  train_stream(&streams[3], STREAM_ORDER, 1, 3, 3, 4);
  train_stream(&streams[4], STREAM_ORDER, 1, 2, 4, 4);
  train_stream(&streams[5], STREAM_ORDER, 1, 2, 3, 5);
  train_stream(&streams[6], STREAM_ORDER, 2, 1, 3, 4);
  train_stream(&streams[7], STREAM_ORDER, 1, 2, 4, 3);
  train_stream(&streams[8], STREAM_ORDER, 0, 3, 3, 4);
  for (size_t i = 0; i < 9; i++)
    for (size_t j = 0; j < i; j++)
      ck_assert_msg(memcmp(&streams[i], &streams[j], sizeof streams[i]) != 0, "%zu and %zu", i, j);
  struct rng again;
  train_stream(&again, STREAM_ORDER, 1, 2, 3, 4);
  ck_assert_mem_eq(&again, &streams[0], sizeof again);
}
END_TEST

int main(void) {
  return SUITE_RUN("train", schedules, bad_configs_are_refused, streams_are_told_apart);
}
