#include "models/judging/prediction.h"

#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { N = 150 }; /* more than two batches */

static struct data_place why;

/* What came, and after how many samples it is enough. */
struct taken {
  size_t n, enough;
  struct prediction last;
  double numbers[4]; /* probabilities, or outputs, of the last */
};

static enum err take(void *context, const struct prediction *p) {
  struct taken *t = context;
  ck_assert_uint_eq(p->sample, ++t->n);
  t->last = *p;
  for (size_t i = 0; i < p->n_outputs && i < 4; i++)
    t->numbers[i] = p->probabilities != NULL ? p->probabilities[i] : (double)p->outputs[i];
  return t->n == t->enough ? ERR_LIMIT : ERR_OK;
}

/* A table whose row i is i, 2, without labels. */
static struct kit_file counted(void) {
  char text[N * 8 + 32];
  int n = snprintf(text, sizeof text, "temp_C,other,force_N\n");
  for (int i = 1; i <= N; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, "2,,%d\n", i);
  return kit_file(text, (size_t)n);
}

static enum err predicted(const struct contract *c, const char *arch, const float *values, const struct scale *scale,
                          const char *path, struct taken *t) {
  struct schema *s = toy_schema(arch, c);
  struct predictor *p = NULL;
  kit_check(c);
  ck_assert_int_eq(predictor_open(s, c, scale, values, &p), ERR_OK);
  enum err e = predictor_read(p, path, &(const struct prediction_sink){take, t}, &why);
  predictor_close(p);
  schema_free(s);
  return e;
}

static const float three_of_two[] = {1, 0, 0, 1, 0, 0, 0, 0, 0}; /* scores are the inputs, and 0 */
static const struct scale unscaled = {0};

START_TEST(rows_come_in_order_scaled_and_by_the_header) {
  struct contract *c = kit_table();
  double mean[] = {100, 0}, sd[] = {50, 1};
  const struct scale scale = {SCALE_FIXED, 2, mean, sd};
  struct kit_file f = counted();
  struct taken t = {0};
  ck_assert_int_eq(predicted(c, "dense classes", three_of_two, &scale, f.path, &t), ERR_OK);
  ck_assert_uint_eq(t.n, N);
  ck_assert_uint_eq(t.last.label, 1);
  double sum = exp(1) + exp(2) + 1; /* force_N is 150, so (150 - 100)/50 = 1 */
  ck_assert_double_eq_tol(t.numbers[0], exp(1) / sum, 1e-12);
  ck_assert_double_eq_tol(t.numbers[1], exp(2) / sum, 1e-12);
  ck_assert_double_eq_tol(t.numbers[2], 1 / sum, 1e-12);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(the_caller_can_end_it) {
  static const size_t enough[] = {1, 64, 65, N};
  struct contract *c = kit_table();
  struct kit_file f = counted();
  for (size_t i = 0; i < sizeof enough / sizeof *enough; i++) {
    struct taken t = {.enough = enough[i]};
    ck_assert_int_eq(predicted(c, "dense classes", three_of_two, &unscaled, f.path, &t), ERR_LIMIT);
    ck_assert_uint_eq(t.n, enough[i]);
  }
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

/* 3e38 + 3e38 is more than a float holds: the 66th sample stands in the second batch. */
START_TEST(what_is_not_finite_is_not_said) {
  static const float sums[] = {1, 1, 0, 1, 0, 0, 0, 0, 0};
  struct contract *c = kit_table();
  char text[N * 8 + 64];
  int n = snprintf(text, sizeof text, "temp_C,force_N\n");
  for (int i = 1; i <= 70; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%s\n", i == 66 ? "3e38,3e38" : "1,2");
  struct kit_file f = kit_file(text, (size_t)n);
  struct taken t = {0};
  ck_assert_int_eq(predicted(c, "dense classes", sums, &unscaled, f.path, &t), ERR_NON_FINITE);
  ck_assert_uint_eq(t.n, 65);
  ck_assert_uint_eq(why.line, 0);
  ck_assert_ptr_nonnull(strstr(why.sentence, "sample 66 is no finite number"));
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(sets_and_errors_of_reconstruction) {
  struct contract *c = kit_table();
  struct kit_file f = kit_text("force_N,temp_C\n1,-2\n");
  struct taken t = {0};
  c->task = TASK_MULTILABEL;
  c->loss = LOSS_BINARY_CROSS_ENTROPY;
  ck_assert_int_eq(predicted(c, "dense classes", three_of_two, &unscaled, f.path, &t), ERR_OK);
  ck_assert_double_eq_tol(t.numbers[0], 1 / (1 + exp(-1)), 1e-12);
  ck_assert_double_eq_tol(t.numbers[1], 1 / (1 + exp(2)), 1e-12);
  ck_assert_double_eq(t.numbers[2], 0.5);
  t = (struct taken){0};
  c->task = TASK_RECONSTRUCT;
  c->loss = LOSS_MEAN_SQUARED_ERROR;
  ck_assert_int_eq(predicted(c, "dense inputs", (const float[]){1, 0, 0, 0, 3, 0}, &unscaled, f.path, &t), ERR_OK);
  ck_assert_double_eq(t.last.score, (3.0 * 3 + 2.0 * 2) / 2);
  ck_assert_ptr_null(t.last.probabilities);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(bytes_and_floats_follow_each_other) {
  struct contract *c = kit_image(1, 2, 2);
  uint8_t bytes[32];
  size_t n = kit_idx_head(bytes, 8, 3, (const uint32_t[]){1, 1, 2});
  bytes[n++] = 255;
  bytes[n++] = 51;
  struct kit_file idx = kit_file(bytes, n);
  struct schema *s = toy_schema("dense classes", c);
  struct predictor *p = NULL;
  struct taken t = {0};
  const struct prediction_sink sink = {take, &t};
  ck_assert_int_eq(predictor_open(s, c, &unscaled, (const float[]){1, 0, 0, 1, 0, 0}, &p), ERR_OK);
  for (int i = 0; i < 2; i++) {
    t = (struct taken){0};
    ck_assert_msg(predictor_read(p, idx.path, &sink, &why) == ERR_OK, "%s", why.sentence);
    ck_assert_double_eq_tol(t.numbers[0] / t.numbers[1], exp(1 - 0.2), 1e-6);
    struct kit_file table = kit_text("a\n1\n");
    ck_assert_int_eq(predictor_read(p, table.path, &sink, &why), ERR_RANGE); /* no columns: an image is wanted */
    kit_file_close(&table);
  }
  predictor_close(p);
  schema_free(s);
  kit_file_close(&idx);
  contract_free(c);
}
END_TEST

START_TEST(a_scale_of_other_inputs_is_refused) {
  struct contract *c = kit_table();
  struct schema *s = toy_schema("dense classes", c);
  struct predictor *p = NULL;
  double numbers[] = {1, 1, 1};
  const struct scale scale = {SCALE_FIXED, 3, numbers, numbers};
  ck_assert_int_eq(predictor_open(s, c, &scale, three_of_two, &p), ERR_RANGE);
  schema_free(s);
  contract_free(c);
}
END_TEST

int main(void) {
  return SUITE_RUN("prediction", rows_come_in_order_scaled_and_by_the_header, the_caller_can_end_it,
                   what_is_not_finite_is_not_said, sets_and_errors_of_reconstruction,
                   bytes_and_floats_follow_each_other, a_scale_of_other_inputs_is_refused);
}
