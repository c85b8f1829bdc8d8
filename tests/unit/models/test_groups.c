#include "models/clustering/groups.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

enum { MOST = 60 };

static const struct digest seed = {{9, 8, 7}};

/* n sketches, of which i has hidden direction i % n_hidden and as much noise. */
struct field {
  struct sketch sketches[MOST];
  const struct sketch *of[MOST];
  size_t n, n_hidden;
};

static void field_init(struct field *f, size_t n, size_t n_hidden, double noise, uint64_t story) {
  double directions[MOST][SKETCH_CELLS];
  struct rng rng;
  rng_init(&rng, story);
  *f = (struct field){.n = n, .n_hidden = n_hidden};
  for (size_t h = 0; h < n_hidden; h++)
    for (size_t c = 0; c < SKETCH_CELLS; c++)
      directions[h][c] = rng_unit(&rng) - 0.5;
  for (size_t i = 0; i < n; i++) {
    double values[SKETCH_CELLS], most = 0;
    for (size_t c = 0; c < SKETCH_CELLS; c++) {
      values[c] = directions[i % n_hidden][c] + noise * (rng_unit(&rng) - 0.5);
      most = fmax(most, fabs(values[c]));
    }
    for (size_t c = 0; c < SKETCH_CELLS; c++)
      f->sketches[i].cells[c] = (int16_t)lrint(values[c] / most * SKETCH_MOST);
    f->of[i] = &f->sketches[i];
  }
}

static struct groups find(const struct field *f, uint32_t n_wanted) {
  struct groups g;
  const struct groups_wish wish = {n_wanted, 8};
  ck_assert_int_eq(groups_find(f->of, f->n, &wish, &seed, &g), ERR_OK);
  return g;
}

/* Numbered by first members, hidden directions are groups. */
static bool is_right(const struct field *f, const struct groups *g) {
  for (size_t i = 0; i < f->n; i++)
    if (g->of[i] != i % f->n_hidden)
      return false;
  return g->n_groups == f->n_hidden;
}

START_TEST(hidden_groups_are_found) {
  for (size_t hidden = 2; hidden <= 5; hidden++)
    for (uint64_t story = 1; story <= 20; story++) {
      struct field f;
      field_init(&f, 20, hidden, 1.0, story);
      struct groups given = find(&f, (uint32_t)hidden), by_itself = find(&f, 0);
      ck_assert_msg(is_right(&f, &given), "%zu groups, story %d, given", hidden, (int)story);
      ck_assert_msg(is_right(&f, &by_itself), "%zu groups, story %d, auto", hidden, (int)story);
      ck_assert_double_gt(by_itself.silhouette, GROUPS_LEAST);
    }
}
END_TEST

START_TEST(what_is_alike_is_one_group) {
  for (uint64_t story = 1; story <= 20; story++) {
    struct field f;
    field_init(&f, 20, 1, 1.0, story);
    struct groups g = find(&f, 0);
    ck_assert_uint_eq(g.n_groups, 1);
    ck_assert(g.silhouette == 0);
  }
}
END_TEST

START_TEST(what_is_nothing_alike_is_one_group) {
  for (uint64_t story = 1; story <= 20; story++) {
    struct field f;
    field_init(&f, 20, 20, 0, story);
    ck_assert_uint_eq(find(&f, 0).n_groups, 1);
  }
}
END_TEST

START_TEST(few_sketches_are_no_trouble) {
  struct field f;
  field_init(&f, 3, 3, 0, 1);
  for (f.n = 0; f.n <= 3; f.n++) {
    struct groups g = find(&f, 3);
    ck_assert_uint_eq(g.n_groups, f.n > 0); /* not each a group of its own */
    g = find(&f, 0);
    ck_assert_uint_eq(g.n_groups, f.n > 0);
  }
}
END_TEST

START_TEST(equal_sketches_share_a_group) {
  struct field f;
  field_init(&f, 6, 1, 0, 1);
  struct groups g = find(&f, 3);
  ck_assert_uint_eq(g.n_groups, 1);
}
END_TEST

/* The same set at another agent: it is the same memory for nobody. */
START_TEST(the_result_hangs_on_nothing_else) {
  struct field f;
  field_init(&f, 40, 4, 3.0, 5);
  struct groups first = find(&f, 0), again = find(&f, 0);
  ck_assert_mem_eq(first.of, again.of, f.n);
  ck_assert(first.silhouette == again.silhouette);
}
END_TEST

START_TEST(a_newcomer_goes_to_the_nearest) {
  size_t n_right = 0;
  for (uint64_t story = 1; story <= 20; story++) {
    struct field f;
    field_init(&f, 21, 3, 1.5, story);
    f.n = 20;
    struct groups before = find(&f, 0);
    f.n = 21;
    struct groups after = find(&f, 0);
    ck_assert_mem_eq(before.of, after.of, 20);
    n_right += after.of[20] == 20 % 3;
  }
  ck_assert_uint_eq(n_right, 20);
}
END_TEST

/* Bits that every host has to have: found once, of sketches of whole numbers alone. */
START_TEST(known_bits) {
  struct field f = {.n = 12};
  uint64_t h = 1;
  for (size_t i = 0; i < f.n; i++) {
    for (size_t c = 0; c < SKETCH_CELLS; c++)
      f.sketches[i].cells[c] = (int16_t)((int)((h = rng_mix(h)) % 20001) - 10000 + (c % 3 == i % 3 ? 9000 : 0));
    f.sketches[i].cells[0] = SKETCH_MOST;
    f.of[i] = &f.sketches[i];
  }
  static const uint8_t expected[] = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2};
  struct groups g = find(&f, 0);
  ck_assert_mem_eq(g.of, expected, f.n);
  ck_assert_msg(g.silhouette == 0x1.cb17527211cf5p-2, "%a", g.silhouette);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN("groups", 60, hidden_groups_are_found, what_is_alike_is_one_group,
                          what_is_nothing_alike_is_one_group, few_sketches_are_no_trouble, equal_sketches_share_a_group,
                          the_result_hangs_on_nothing_else, a_newcomer_goes_to_the_nearest, known_bits);
}
