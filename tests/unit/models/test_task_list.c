#include "models/continual/tasks.h"

#include <string.h>

#include "tests/unit/suite.h"

enum { N_CLASSES = 5 };

/* { 3, 0 }, { 1, 4 }; class 2 is in none. */
static struct task_list two_tasks(enum increment kind) {
  struct task_list t;
  ck_assert_int_eq(task_list_init(&t, kind, N_CLASSES), ERR_OK);
  ck_assert_int_eq(task_list_put(&t, 3, 0), ERR_OK);
  ck_assert_int_eq(task_list_put(&t, 0, 0), ERR_OK);
  ck_assert_int_eq(task_list_put(&t, 1, 1), ERR_OK);
  ck_assert_int_eq(task_list_put(&t, 4, 1), ERR_OK);
  return t;
}

/* Which outputs of one sample are still in sight, as a text, and which is right. */
static const char *view(const struct task_list *t, const bool *is_seen, uint16_t label, uint16_t *out_right) {
  static char text[N_CLASSES + 1];
  float z[N_CLASSES] = {1, 2, 3, 4, 5};
  *out_right = label;
  task_list_view(t, is_seen, z, out_right, 1, N_CLASSES);
  for (size_t c = 0; c < N_CLASSES; c++)
    text[c] = z[c] > -1e20F ? '1' : '0';
  return text;
}

START_TEST(class_incremental_lets_all_compete_that_were_seen) {
  struct task_list t = two_tasks(INCREMENT_CLASS);
  const bool first[N_CLASSES] = {true, false, false, true, false}, both[N_CLASSES] = {true, true, false, true, true};
  uint16_t right;
  ck_assert_str_eq(view(&t, first, 3, &right), "10010");
  ck_assert_uint_eq(right, 3);
  ck_assert_str_eq(view(&t, both, 3, &right), "11011");
  task_list_done(&t);
}
END_TEST

START_TEST(task_incremental_lets_those_of_the_samples_task_compete) {
  struct task_list t = two_tasks(INCREMENT_TASK);
  uint16_t right;
  ck_assert_str_eq(view(&t, NULL, 3, &right), "10010");
  ck_assert_str_eq(view(&t, NULL, 4, &right), "01001");
  ck_assert_uint_eq(right, 4);
  task_list_done(&t);
}
END_TEST

START_TEST(domain_incremental_says_the_place_in_the_group) {
  struct task_list t = two_tasks(INCREMENT_DOMAIN);
  uint16_t right;
  ck_assert_str_eq(view(&t, NULL, 3, &right), "11000");
  ck_assert_uint_eq(right, 0); /* named first */
  ck_assert_str_eq(view(&t, NULL, 4, &right), "11000");
  ck_assert_uint_eq(right, 1);
  task_list_done(&t);
}
END_TEST

START_TEST(a_class_is_in_one_task_and_known) {
  struct task_list t = two_tasks(INCREMENT_CLASS);
  ck_assert_uint_eq(t.n_tasks, 2);
  ck_assert_uint_eq(task_list_size(&t, 1), 2);
  ck_assert_int_eq(task_list_put(&t, 3, 1), ERR_EXISTS);
  ck_assert_int_eq(task_list_put(&t, N_CLASSES, 1), ERR_RANGE);
  ck_assert_int_eq(task_list_put(&t, 2, MAX_TASKS), ERR_LIMIT);
  ck_assert_uint_eq(t.task_of[2], NO_TASK);
  task_list_done(&t);
}
END_TEST

int main(void) {
  return SUITE_RUN("task_list", class_incremental_lets_all_compete_that_were_seen,
                   task_incremental_lets_those_of_the_samples_task_compete,
                   domain_incremental_says_the_place_in_the_group, a_class_is_in_one_task_and_known);
}
