#include "models/tuning/plan.h"

#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

static struct plan plan;

static struct schema *make(const char *line, size_t n_inputs, uint32_t batch, uint32_t n_threads) {
  struct contract c = toy_classes(n_inputs, 3);
  struct schema *s = toy_schema(line, &c);
  struct cpu cpu = cpu_detect();
  ck_assert_int_eq(plan_make(schema_arch(s), batch, &cpu, n_threads, &plan), ERR_OK);
  return s;
}

START_TEST(operations_are_layers_that_differ) {
  struct schema *s = make("dense 16, relu, dense 16, relu, dense 16, tanh, dense classes", 8, 32, 1);
  ck_assert_uint_eq(plan.n_operations, 3);
  ck_assert_str_eq(plan.keys[0], "dense 16 of 1x1x8 batch 32");
  ck_assert_str_eq(plan.keys[1], "dense 16 of 1x1x16 batch 32");
  ck_assert_double_eq(plan.operations[1].count, 2);
  ck_assert_uint_eq(plan.layers[2], 6);
  ck_assert_double_eq(plan.operations[1].depth, 16);
  ck_assert_double_eq(plan.operations[1].channels, 16);
  ck_assert_str_eq(plan_kernel(&plan, 0, 0), "plain");
  schema_free(s);
}
END_TEST

START_TEST(splits_keep_within_the_host) {
  struct schema *s = make("dense 16, relu, dense classes", 8, 32, 1);
  ck_assert_uint_eq(plan.n_splits,
                    10); /* blocks of 0, 4, 8, 16 for one lane, 0, 4, 8 for two, 0, 4 for four, 0 for eight */
  ck_assert_uint_eq(plan.splits[0].lanes, 1);
  ck_assert_uint_eq(plan.splits[0].block, 0);
  for (size_t i = 0; i < plan.n_splits; i++)
    ck_assert_uint_eq(plan.splits[i].threads, 1);
  schema_free(s);
  s = make("dense 16, relu, dense classes", 8, 32, 2);
  ck_assert_uint_eq(plan.n_splits, 16);
  schema_free(s);
  s = make("dense 16, relu, dense classes", 8, 1, 8);
  ck_assert_uint_eq(plan.n_splits, 1);
  schema_free(s);
  s = make("dense 4000, relu, dense 400, relu, dense classes", 8, 32, 8); /* 1.6 M floats: no second gradient */
  ck_assert_uint_eq(plan.n_splits, 4);
  schema_free(s);
}
END_TEST

START_TEST(every_cell_is_work) {
  struct schema *s = make("dense 9, relu, dropout 0.5, dense classes", 7, 5, 2);
  for (size_t o = 0; o < plan.n_operations; o++)
    for (uint32_t v = 0; v < plan.operations[o].n_variants; v++)
      for (size_t split = 0; split < plan.n_splits; split++) {
        struct workload *w;
        ck_assert_int_eq(workload_open(&plan, &(struct tuner_cell){o, split, v}, NULL, &w), ERR_OK);
        workload_run(w);
        workload_run(w);
        workload_close(w);
      }
  schema_free(s);
}
END_TEST

START_TEST(a_choice_is_a_selection) {
  struct schema *s = make("dense 9, relu, dense classes", 7, 32, 2);
  struct tuner_choice choice = {.split = plan.n_splits - 1};
  struct selection selection;
  struct workload *w;
  plan_selection(&plan, &choice, &selection);
  ck_assert_uint_eq(selection.lanes, 8);
  ck_assert_uint_eq(selection.threads, 2);
  ck_assert_uint_eq(selection.n, 2);
  ck_assert_str_eq(selection_find(&selection, "dense 9 of 1x1x7 batch 32"), "plain");
  ck_assert_int_eq(workload_open_net(&plan, &selection, NULL, &w), ERR_OK);
  workload_run(w);
  workload_close(w);
  schema_free(s);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/plan", operations_are_layers_that_differ, splits_keep_within_the_host, every_cell_is_work,
                   a_choice_is_a_selection);
}
