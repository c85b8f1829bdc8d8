/* Push-sum with learners: two of them, and what is personal. */
#include <stdlib.h>
#include <string.h>

#include "models/floats.h"
#include "models/learner_sums.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { N_INPUTS = 6, N_CLASSES = 3, N_SHARED = (N_INPUTS + 1) * 8, N_ALL = N_SHARED + 9 * N_CLASSES };

static const char personal_head[] = "dense 8, relu, dense classes personal";

/* An account of N_ACCOUNT bytes at most, that speaks of both copies, the second one first, once it has any byte. */
enum { N_ACCOUNT = 13 };
struct account {
  struct learner_ledger ledger;
  uint8_t bytes[N_ACCOUNT];
  size_t n;
};

static size_t account_bytes(const void *context) {
  return ((const struct account *)context)->n;
}

static void account_write(const void *context, uint8_t *out) {
  memcpy(out, ((const struct account *)context)->bytes, ((const struct account *)context)->n);
}

static size_t account_copies(const void *context, size_t *out) {
  out[0] = 1;
  out[1] = 0;
  return ((const struct account *)context)->n > 0 ? 2 : 0;
}

static bool account_fits(const void *context, const uint8_t *bytes, size_t n, size_t n_copies) {
  (void)context;
  return n == 0 || (n_copies == 2 && bytes[0] != 0xee);
}

static void account_take(void *context, const uint8_t *bytes, size_t n, size_t *out_stands) {
  struct account *a = context;
  memcpy(a->bytes, bytes, n);
  a->n = n;
  out_stands[0] = n > 0 ? 1 : SIZE_MAX;
  out_stands[1] = n > 0 ? 0 : SIZE_MAX;
}

static void account_init(struct account *a, const char *text) {
  *a = (struct account){.ledger = {.context = a,
                                   .most_bytes = N_ACCOUNT,
                                   .bytes = account_bytes,
                                   .write = account_write,
                                   .copies = account_copies,
                                   .fits = account_fits,
                                   .take = account_take},
                        .n = strlen(text)};
  memcpy(a->bytes, text, a->n);
}

struct site {
  const struct learner_ledger *ledger; /* NULL */
  struct contract contract;
  struct schema *schema;
  struct dataset train;
  struct learner *l;
  double mu, sent;
};

static void site_init(struct site *s, uint64_t data) {
  s->contract = toy_classes(N_INPUTS, N_CLASSES);
  s->schema = toy_schema(personal_head, &s->contract);
  s->train = toy_clouds(data, 60, N_INPUTS, N_CLASSES);
  s->mu = s->sent = 1;
  struct learner_config c = {
      .schema = s->schema,
      .train = {.epochs = 1, .batch = 16, .learning_rate = 0.05, .optimiser = {.kind = OPTIMISER_SGD, .momentum = 0.9}},
      .codec = {CODEC_F32, 0},
      .init = {{9}},
      .train_seed = data,
      .n_copies = 2,
      .ledger = s->ledger};
  schema_hash(s->schema, &kit_digest, &c.schema_hash);
  const struct dataset *const tests[N_TEST_SETS] = {0};
  ck_assert_int_eq(learner_open(&c, &s->l), ERR_OK);
  ck_assert_int_eq(learner_attach(s->l, &s->train, tests), ERR_OK);
}

static void site_done(struct site *s) {
  learner_free(s->l);
  schema_free(s->schema);
  toy_dataset_done(&s->train);
}

static void train(struct site *s) {
  struct train_report report;
  ck_assert_int_eq(learner_train(s->l, 1, 0, 1 / s->mu, NULL, &report), ERR_OK);
}

static struct push half_of(const struct site *s) {
  return (struct push){.mass = s->mu, .amount = s->mu / 2, .rest = s->mu / 2, .n_told = 1};
}

static void push(struct site *s, uint8_t *out) {
  const struct push p = half_of(s);
  ck_assert_int_eq(learner_push(s->l, &p, out), ERR_OK);
  learner_published(s->l);
  s->mu = p.rest;
}

static void gather(struct site *s, double given, double share, const uint8_t *bytes) {
  double *u = learner_gather_begin(s->l, s->mu);
  ck_assert_ptr_nonnull(u);
  ck_assert_int_eq(learner_gather(s->l, 0, share, bytes, learner_copy_bytes(s->l), u), ERR_OK);
  s->mu += given;
  ck_assert_int_eq(learner_gather_end(s->l, s->mu, u), ERR_OK);
}

static void values(const struct site *s, float out[N_ALL]) {
  memcpy(out, learner_values(s->l), N_ALL * sizeof *out);
}

START_TEST(what_is_shared_is_given_and_taken_and_what_is_personal_stays) {
  struct site a = {0}, b = {0};
  uint8_t base[4 * N_SHARED], sum[4 * N_SHARED];
  float of_a[N_ALL], of_b[N_ALL], after[N_ALL];
  site_init(&a, 1);
  site_init(&b, 2);
  ck_assert_uint_eq(learner_copy_bytes(a.l), sizeof sum);
  const struct push nobody = {.mass = 1, .rest = 1};
  ck_assert_int_eq(learner_push(a.l, &nobody, base), ERR_OK);
  learner_published(a.l);
  gather(&b, 0, 0, base);
  train(&a);
  train(&b);
  values(&a, of_a);
  values(&b, of_b);
  push(&a, sum);
  gather(&b, 0.5, 1, sum);
  values(&b, after);
  ck_assert_double_eq(a.mu, 0.5);
  ck_assert_double_eq(b.mu, 1.5);
  for (size_t i = 0; i < N_SHARED; i++)
    ck_assert_float_eq_tol(after[i], (0.5F * of_a[i] + of_b[i]) / 1.5F, 1e-6F);
  for (size_t i = N_SHARED; i < N_ALL; i++)
    ck_assert_float_eq(after[i], of_b[i]);
  values(&a, after);
  for (size_t i = 0; i < N_ALL; i++)
    ck_assert_float_eq_tol(after[i], of_a[i], 1e-6F);
  gather(&b, 0, 1, sum); /* once more: nothing */
  float again[N_ALL];
  values(&b, again);
  for (size_t i = 0; i < N_SHARED; i++)
    ck_assert_float_eq_tol(again[i], (0.5F * of_a[i] + of_b[i]) / 1.5F, 1e-6F);
  site_done(&a);
  site_done(&b);
}
END_TEST

START_TEST(what_did_not_leave_is_in_the_next_one) {
  struct site a = {0}, b = {0};
  uint8_t sum[4 * N_SHARED], other[4 * N_SHARED];
  site_init(&a, 1);
  site_init(&b, 1);
  train(&a);
  train(&b);
  const struct push p = half_of(&a);
  ck_assert_int_eq(learner_push(a.l, &p, sum), ERR_OK);
  learner_push_back(a.l, &p);
  ck_assert_int_eq(learner_push(a.l, &p, sum), ERR_OK);
  ck_assert_int_eq(learner_push(b.l, &p, other), ERR_OK);
  float x[N_SHARED], y[N_SHARED];
  ck_assert_int_eq(codec_read_values(sum, sizeof sum, x, N_SHARED), ERR_OK);
  ck_assert_int_eq(codec_read_values(other, sizeof other, y, N_SHARED), ERR_OK);
  ck_assert_double_lt(floats_distance(x, y, N_SHARED), 1e-5);
  site_done(&a);
  site_done(&b);
}
END_TEST

START_TEST(a_sum_that_is_no_sum_changes_nothing) {
  struct site a = {0};
  uint8_t sum[4 * N_SHARED];
  float before[N_ALL], after[N_ALL];
  site_init(&a, 1);
  values(&a, before);
  memset(sum, 0xff, sizeof sum); /* NaN */
  double *u = learner_gather_begin(a.l, 1);
  ck_assert_int_eq(learner_gather(a.l, 0, 1, sum, sizeof sum, u), ERR_NON_FINITE);
  ck_assert_int_eq(learner_gather(a.l, 0, 1, sum, sizeof sum - 4, u), ERR_LENGTH);
  u[3] = 1e300;
  ck_assert_int_eq(learner_gather_end(a.l, 1, u), ERR_MERGE_REFUSED);
  values(&a, after);
  ck_assert_mem_eq(before, after, sizeof before);
  site_done(&a);
}
END_TEST

START_TEST(a_joiner_starts_from_means_of_sums) {
  struct site a = {0};
  float values_of[N_SHARED], after[N_ALL];
  uint8_t sum[4 * N_SHARED];
  site_init(&a, 1);
  for (size_t k = 0; k < 2; k++) {
    for (size_t i = 0; i < N_SHARED; i++)
      values_of[i] = (float)(k + 1) * 3;
    codec_write_values(values_of, N_SHARED, sum);
    ck_assert_int_eq(learner_copy_set(a.l, k, sum, sizeof sum), ERR_OK);
  }
  ck_assert_int_eq(learner_adopt_sums(a.l, (const size_t[]){0, 1}, (const double[]){3, 2}, 2), ERR_OK);
  values(&a, after);
  ck_assert_float_eq(after[0], 2); /* between 1 and 3 */
  site_done(&a);
}
END_TEST

static void fill_copies(struct site *s) {
  uint8_t bytes[4 * N_SHARED];
  float of[N_SHARED];
  for (size_t k = 0; k < 2; k++) {
    for (size_t i = 0; i < N_SHARED; i++)
      of[i] = (float)(100 * k + i);
    codec_write_values(of, N_SHARED, bytes);
    ck_assert_int_eq(learner_copy_set(s->l, k, bytes, sizeof bytes), ERR_OK);
  }
}

/* Of one of the two forms. */
struct form {
  size_t (*bytes)(const struct learner *l);
  void (*write)(const struct learner *l, uint8_t *out);
  enum err (*read)(struct learner *l, const uint8_t *bytes, size_t n);
};
static const struct form forms[] = {{learner_half_bytes, learner_half_write, learner_half_read},
                                    {learner_model_bytes, learner_model_write, learner_model_read}};

static void check_form(const struct form *f, const char *text) {
  struct account of_a, of_b;
  account_init(&of_a, text);
  account_init(&of_b, "other");
  struct site a = {.ledger = &of_a.ledger}, b = {.ledger = &of_b.ledger}, without = {0};
  site_init(&a, 1);
  site_init(&b, 2);
  site_init(&without, 3);
  fill_copies(&a);
  size_t n = f->bytes(a.l), at = 0;
  uint8_t *bytes = malloc(n), expected[4 * N_SHARED], found[4 * N_SHARED];
  ck_assert_ptr_nonnull(bytes);
  f->write(a.l, bytes);
  ck_assert_int_eq(f->read(b.l, bytes, n), ERR_OK);
  ck_assert_uint_eq(of_b.n, strlen(text));
  ck_assert_mem_eq(of_b.bytes, text, of_b.n);
  for (size_t k = 0; k < 2 && of_a.n > 0; k++) {
    learner_copy_write(a.l, k, expected);
    learner_copy_write(b.l, k, found);
    ck_assert_mem_eq(found, expected, sizeof found);
  }
  ck_assert_int_eq(f->read(without.l, bytes, n), ERR_OK);
  while (memcmp(bytes + at, "push-sum", 8) != 0)
    at++;
  account_init(&of_b, "other");
  size_t word = at + 16 + 16 + 8; /* of its head: word, counts; the first number is the length */
  const double bad[] = {N_ACCOUNT + 1, -1, 0.5, 0.0 / 0.0}, first = of_a.n > 0 ? 0xee : 0;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    memcpy(bytes + word - 8, &bad[i], sizeof bad[i]);
    ck_assert_int_ne(f->read(b.l, bytes, n), ERR_OK);
  }
  f->write(a.l, bytes);
  if (of_a.n > 0) {
    memcpy(bytes + word, &first, sizeof first); /* what it says is no account */
    ck_assert_int_eq(f->read(b.l, bytes, n), ERR_CORRUPT);
  }
  ck_assert_mem_eq(of_b.bytes, "other", 5);
  free(bytes);
  site_done(&a);
  site_done(&b);
  site_done(&without);
}

START_TEST(an_account_is_kept_beside_half_and_model) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    check_form(&forms[i], "thirteen \xff\1\2\3");
    check_form(&forms[i], "five!");
    check_form(&forms[i], "");
  }
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN("learner-sums", 60, what_is_shared_is_given_and_taken_and_what_is_personal_stays,
                          what_did_not_leave_is_in_the_next_one, a_sum_that_is_no_sum_changes_nothing,
                          a_joiner_starts_from_means_of_sums, an_account_is_kept_beside_half_and_model);
}
