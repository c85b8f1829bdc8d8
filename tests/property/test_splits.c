/* Which split a sample is in, over many seeds: a file that grows, is shuffled or gets a test file beside it moves none, and
 * the rows of one group are never on two sides. The places come from the program's own hash. */
#include <math.h>

#include "base/rng.h"
#include "crypto/digest.h"
#include "models/data/dataset.h"
#include "tests/unit/models/data_kit.h"
#include "tests/unit/suite.h"

enum { SEEDS = 30, ROWS = 900, GROUPS = 120 };
enum side { SIDE_NONE, SIDE_TRAIN, SIDE_VALIDATION, SIDE_TEST };

struct shape {
  double holdout, validation;
  bool by_group;
};

static struct shape shape_of(struct rng *r) {
  return (struct shape){
      .holdout = 0.5 * rng_unit(r), .validation = 0.4 * rng_unit(r), .by_group = rng_below(r, 2) == 1};
}

static struct contract *contract_of(const struct shape *s) {
  struct contract *c = kit_table();
  c->holdout = s->holdout;
  c->validation = s->validation;
  if (s->by_group)
    snprintf(c->holdout_by, sizeof c->holdout_by, "part");
  kit_check(c);
  return c;
}

/* Rows order[0 … n−1], each known by its force; the group of a row is row % GROUPS. */
static struct kit_file file_of(const uint32_t *order, size_t n) {
  struct kit_file f = kit_text("part,force_N,temp_C,verdict\n");
  for (size_t i = 0; i < n; i++)
    dprintf(f.fd, "no-%u,%u,%u,%s\n", order[i] % GROUPS, order[i], order[i] * 7 % 11, order[i] % 3 ? "ok" : "dent");
  return f;
}

static void note(const struct dataset *d, enum side side, enum side out_side[ROWS]) {
  for (size_t i = 0; d != NULL && i < d->n; i++) {
    size_t row = (size_t)d->floats[i * d->n_inputs];
    ck_assert_int_eq(out_side[row], SIDE_NONE); /* no row is in two */
    out_side[row] = side;
  }
}

static void sides(const struct data_source *source, const struct contract *c, enum side out_side[ROWS]) {
  struct splits s = {0};
  struct data_place why;
  ck_assert_int_eq(dataset_open(source, c, &digest_blake2b, &s, &why), ERR_OK);
  memset(out_side, 0, ROWS * sizeof *out_side);
  note(s.train, SIDE_TRAIN, out_side);
  note(s.validation, SIDE_VALIDATION, out_side);
  if (source->test.path == NULL)
    note(s.test, SIDE_TEST, out_side);
  splits_close(&s);
}

/* The fraction on a side is the one asked for, within 5 standard deviations of as many independent units. */
static void fraction_fits(const enum side side[ROWS], enum side which, double expected, size_t n_units) {
  size_t n = 0;
  for (size_t i = 0; i < ROWS; i++)
    n += side[i] == which;
  double tolerance = 5 * sqrt(expected * (1 - expected) / (double)n_units) + 1e-9;
  ck_assert_double_eq_tol((double)n / ROWS, expected, tolerance);
}

static void check(uint64_t seed) {
  struct rng r;
  rng_init(&r, seed);
  struct shape shape = shape_of(&r);
  struct contract *c = contract_of(&shape);
  uint32_t order[ROWS];
  enum side first[ROWS], grown[ROWS], tested[ROWS];
  for (uint32_t i = 0; i < ROWS; i++)
    order[i] = i;
  rng_shuffle(&r, order, ROWS);
  size_t n = 300 + rng_below(&r, 300);
  struct kit_file small = file_of(order, n);
  rng_shuffle(&r, order, ROWS);
  struct kit_file large = file_of(order, ROWS), test = kit_text("part,force_N,temp_C,verdict\nno-1,1,2,ok\n");
  sides(&(struct data_source){.train = {small.path, NULL}}, c, first);
  sides(&(struct data_source){.train = {large.path, NULL}}, c, grown);
  sides(&(struct data_source){.train = {large.path, NULL}, .test = {test.path, NULL}}, c, tested);
  for (size_t i = 0; i < ROWS; i++) {
    ck_assert_int_ne(grown[i], SIDE_NONE);
    ck_assert(first[i] == SIDE_NONE || first[i] == grown[i]);
    ck_assert_int_eq(tested[i], grown[i] == SIDE_TEST ? SIDE_TRAIN : grown[i]);
    if (shape.by_group)
      ck_assert_int_eq(grown[i], grown[i % GROUPS]);
  }
  size_t n_units = shape.by_group ? GROUPS : ROWS;
  fraction_fits(grown, SIDE_TEST, shape.holdout, n_units);
  fraction_fits(grown, SIDE_VALIDATION, shape.validation, n_units);
  kit_file_close(&small);
  kit_file_close(&large);
  kit_file_close(&test);
  contract_free(c);
}

START_TEST(a_sample_stays_in_its_split) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++)
    check(seed);
}
END_TEST

int main(void) {
  return SUITE_RUN("property/splits", a_sample_stays_in_its_split);
}
