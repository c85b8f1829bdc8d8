#include "models/clustering/sketch.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

enum { N_SHARED = 4000, N_OTHER = 300, N_ALL = N_SHARED + N_OTHER };

static const struct digest seed = {{1, 2, 3}};

/* Shared values between a personal tensor and a statistic. */
static struct schema *schema_new_mixed(void) {
  static const struct tensor tensors[] = {
      {.name = "head", .role = ROLE_PERSONAL, .rank = 1, .shape = {N_OTHER - 100}},
      {.name = "body", .role = ROLE_SHARED, .rank = 2, .shape = {40, 100}},
      {.name = "mean", .role = ROLE_STATISTIC, .rank = 1, .shape = {100}},
  };
  struct schema *s;
  ck_assert_int_eq(schema_new(tensors, 3, &s), ERR_OK);
  return s;
}

static void draw(struct rng *rng, float *x) {
  for (size_t i = 0; i < N_ALL; i++)
    x[i] = (float)(rng_unit(rng) + rng_unit(rng) + rng_unit(rng) - 1.5);
}

static struct sketch sketch_from_zero(const float *to) {
  static const float zeros[N_ALL];
  struct schema *s = schema_new_mixed();
  struct sketch made;
  ck_assert_int_eq(sketch_of(s, zeros, to, &seed, &made), ERR_OK);
  schema_free(s);
  return made;
}

static double true_cosine(const float *a, const float *b) {
  double aa = 0, bb = 0, ab = 0;
  for (size_t i = N_OTHER - 100; i < N_OTHER - 100 + N_SHARED; i++) {
    aa += (double)a[i] * a[i];
    bb += (double)b[i] * b[i];
    ab += (double)a[i] * b[i];
  }
  return ab / sqrt(aa * bb);
}

START_TEST(a_sketch_keeps_the_cosine) {
  struct rng rng;
  double worst = 0, squares = 0;
  enum { N_PAIRS = 60 };
  rng_init(&rng, 1);
  for (int pair = 0; pair < N_PAIRS; pair++) {
    float a[N_ALL], b[N_ALL], share = (float)pair / N_PAIRS;
    draw(&rng, a);
    draw(&rng, b);
    for (size_t i = 0; i < N_ALL; i++)
      b[i] = share * a[i] + (1 - share) * b[i];
    struct sketch of_a = sketch_from_zero(a), of_b = sketch_from_zero(b);
    double off = sketch_cosine(&of_a, &of_b) - true_cosine(a, b);
    worst = fmax(worst, fabs(off));
    squares += off * off;
  }
  ck_assert_double_lt(sqrt(squares / N_PAIRS), 0.0625); /* 1/√256 */
  ck_assert_double_lt(worst, 0.2);
}
END_TEST

START_TEST(only_shared_tensors_count) {
  struct rng rng;
  float a[N_ALL], b[N_ALL];
  rng_init(&rng, 2);
  draw(&rng, a);
  memcpy(b, a, sizeof b);
  for (size_t i = 0; i < N_ALL; i++)
    if (i < N_OTHER - 100 || i >= N_OTHER - 100 + N_SHARED)
      b[i] += 100;
  struct sketch of_a = sketch_from_zero(a), of_b = sketch_from_zero(b);
  ck_assert_mem_eq(&of_a, &of_b, sizeof of_a);
  b[N_OTHER] = -b[N_OTHER] + 1;
  of_b = sketch_from_zero(b);
  ck_assert_mem_ne(&of_a, &of_b, sizeof of_a);
}
END_TEST

START_TEST(length_is_thrown_away_and_sign_is_not) {
  struct rng rng;
  float a[N_ALL], longer[N_ALL], opposite[N_ALL];
  rng_init(&rng, 3);
  draw(&rng, a);
  for (size_t i = 0; i < N_ALL; i++) {
    longer[i] = 1024 * a[i];
    opposite[i] = -a[i];
  }
  struct sketch of_a = sketch_from_zero(a), of_longer = sketch_from_zero(longer), back = sketch_from_zero(opposite);
  ck_assert_mem_eq(&of_a, &of_longer, sizeof of_a);
  ck_assert(sketch_cosine(&of_a, &of_longer) == 1);
  ck_assert_double_lt(fabs(sketch_cosine(&of_a, &back) + 1), 1e-15);
  ck_assert(sketch_is_canonical(&of_a) && sketch_is_canonical(&back));
}
END_TEST

START_TEST(another_seed_is_another_sketch) {
  struct rng rng;
  float a[N_ALL], zeros[N_ALL] = {0};
  struct schema *s = schema_new_mixed();
  struct sketch other, one;
  rng_init(&rng, 4);
  draw(&rng, a);
  ck_assert_int_eq(sketch_of(s, zeros, a, &(struct digest){{1, 2, 4}}, &other), ERR_OK);
  one = sketch_from_zero(a);
  ck_assert_double_lt(fabs(sketch_cosine(&one, &other)), 0.3);
  schema_free(s);
}
END_TEST

START_TEST(no_direction_is_an_error) {
  float zeros[N_ALL] = {0}, bad[N_ALL] = {0};
  struct schema *s = schema_new_mixed();
  struct sketch made;
  ck_assert_int_eq(sketch_of(s, zeros, zeros, &seed, &made), ERR_RANGE);
  bad[0] = 1; /* personal */
  ck_assert_int_eq(sketch_of(s, zeros, bad, &seed, &made), ERR_RANGE);
  bad[N_OTHER] = NAN;
  ck_assert_int_eq(sketch_of(s, zeros, bad, &seed, &made), ERR_NON_FINITE);
  bad[N_OTHER] = INFINITY;
  ck_assert_int_eq(sketch_of(s, zeros, bad, &seed, &made), ERR_NON_FINITE);
  schema_free(s);
}
END_TEST

START_TEST(one_direction_has_one_encoding) {
  struct sketch s = {{0}};
  ck_assert(!sketch_is_canonical(&s));
  s.cells[7] = 32766;
  ck_assert(!sketch_is_canonical(&s));
  s.cells[8] = -32767;
  ck_assert(sketch_is_canonical(&s));
  s.cells[9] = -32768;
  ck_assert(!sketch_is_canonical(&s));
}
END_TEST

START_TEST(the_longest_products_are_exact) {
  struct sketch a, b;
  for (size_t i = 0; i < SKETCH_CELLS; i++) {
    a.cells[i] = SKETCH_MOST;
    b.cells[i] = i % 2 ? SKETCH_MOST : -SKETCH_MOST;
  }
  ck_assert(sketch_cosine(&a, &a) == 1);
  ck_assert(sketch_cosine(&a, &b) == 0);
  b.cells[0] = SKETCH_MOST; /* b began with its opposite */
  ck_assert(sketch_cosine(&a, &b) == 2.0 / SKETCH_CELLS);
  ck_assert(sketch_cosine(&a, &b) == sketch_cosine(&b, &a));
}
END_TEST

int main(void) {
  return SUITE_RUN("sketch", a_sketch_keeps_the_cosine, only_shared_tensors_count,
                   length_is_thrown_away_and_sign_is_not, another_seed_is_another_sketch, no_direction_is_an_error,
                   one_direction_has_one_encoding, the_longest_products_are_exact);
}
