#include "models/data/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "tests/unit/suite.h"

enum { N = 10000, N_CLASSES = 10, N_PARTS = 5 };

/* Classes in an order like a file's: scattered, 1000 of each. */
static void labels_fill(uint16_t *labels) {
  for (uint32_t i = 0; i < N; i++)
    labels[i] = (uint16_t)(i * 7u % N_CLASSES);
}

struct counts {
  size_t part[N_PARTS];
  size_t of[N_PARTS][N_CLASSES];
};

static struct counts assign(const struct split *split, uint16_t *out_part) {
  static uint16_t labels[N];
  struct counts c = {0};
  labels_fill(labels);
  ck_assert_int_eq(split_assign(split, labels, N, N_CLASSES, out_part), ERR_OK);
  for (size_t i = 0; i < N; i++) {
    MUST(out_part[i] >= 1 && out_part[i] <= N_PARTS);
    c.part[out_part[i] - 1]++;
    c.of[out_part[i] - 1][labels[i]]++;
  }
  return c;
}

static uint16_t part[N], again[N];

START_TEST(same_seed_same_parts) {
  static const struct split rules[] = {
      {.rule = SPLIT_IID, .n_parts = N_PARTS, .seed = 3},
      {.rule = SPLIT_DIRICHLET, .alpha = 0.3, .n_parts = N_PARTS, .seed = 3},
      {.rule = SPLIT_SHARDS, .shards = 2, .n_parts = N_PARTS, .seed = 3},
  };
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    struct split other = rules[i];
    other.seed = 4;
    assign(&rules[i], part);
    assign(&rules[i], again);
    ck_assert_mem_eq(part, again, sizeof part);
    assign(&other, again);
    ck_assert_mem_ne(part, again, sizeof part);
  }
}
END_TEST

/* The assignment is a promise between versions and hosts: a change of it is a change of the contract. */
START_TEST(assignments_are_golden) {
  static const struct {
    struct split split;
    uint64_t hash;
  } table[] = {
      {{.rule = SPLIT_IID, .n_parts = N_PARTS, .seed = 1}, 0xb40c2f9daf9e9affu},
      {{.rule = SPLIT_DIRICHLET, .alpha = 0.3, .n_parts = N_PARTS, .seed = 1}, 0x64a57d6622d984dcu},
      {{.rule = SPLIT_SHARDS, .shards = 2, .n_parts = N_PARTS, .seed = 1}, 0x92f5996912cf2405u},
  };
  for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    assign(&table[k].split, part);
    for (size_t i = 0; i < N; i++)
      hash = (hash ^ part[i]) * 0x100000001b3u;
    ck_assert_msg(hash == table[k].hash, "%zu: 0x%016llxu", k, (unsigned long long)hash);
  }
}
END_TEST

START_TEST(iid_is_even) {
  const struct split split = {.rule = SPLIT_IID, .n_parts = N_PARTS, .seed = 1};
  struct counts c = assign(&split, part);
  for (size_t k = 0; k < N_PARTS; k++) {
    ck_assert_uint_eq(c.part[k], N / N_PARTS);
    for (size_t l = 0; l < N_CLASSES; l++) /* mean 200, sd 12.6 */
      ck_assert(c.of[k][l] > 140 && c.of[k][l] < 260);
  }
}
END_TEST

START_TEST(shards_give_each_part_few_classes) {
  const struct split split = {.rule = SPLIT_SHARDS, .shards = 2, .n_parts = N_PARTS, .seed = 1};
  struct counts c = assign(&split, part);
  for (size_t k = 0; k < N_PARTS; k++) {
    size_t n_classes = 0;
    for (size_t l = 0; l < N_CLASSES; l++)
      n_classes += c.of[k][l] > 0;
    ck_assert_uint_eq(c.part[k], N / N_PARTS);
    ck_assert_uint_eq(n_classes, 2);
  }
}
END_TEST

/* Mean over classes of Σ_k p_k²; expectation for Dir(a·1_n) is (a + 1) / (n·a + 1). */
static double concentration(double alpha, uint64_t seed) {
  const struct split split = {.rule = SPLIT_DIRICHLET, .alpha = alpha, .n_parts = N_PARTS, .seed = seed};
  struct counts c = assign(&split, part);
  double sum = 0;
  for (size_t k = 0; k < N_PARTS; k++)
    for (size_t l = 0; l < N_CLASSES; l++)
      sum += pow((double)c.of[k][l] * N_CLASSES / N, 2) / N_CLASSES;
  return sum;
}

START_TEST(groups_have_classes_of_their_own) {
  const struct split split = {.rule = SPLIT_GROUPS, .shards = 2, .n_parts = N_PARTS, .seed = 3};
  struct counts c = assign(&split, part); /* parts 1, 2 have classes 0 … 4, parts 3, 4, 5 the others */
  for (size_t k = 0; k < N_PARTS; k++)
    for (size_t y = 0; y < N_CLASSES; y++)
      if ((k < 2) == (y < 5))
        ck_assert(c.of[k][y] > (k < 2 ? 400 : 250));
      else
        ck_assert_uint_eq(c.of[k][y], 0);
}
END_TEST

START_TEST(dirichlet_has_its_moments) {
  static const double alphas[] = {0.05, 0.3, 1, 5, 1000};
  for (size_t a = 0; a < sizeof alphas / sizeof alphas[0]; a++) {
    double sum = 0, expected = (alphas[a] + 1) / (N_PARTS * alphas[a] + 1);
    for (uint64_t seed = 0; seed < 100; seed++)
      sum += concentration(alphas[a], seed);
    ck_assert_msg(fabs(sum / 100 - expected) < 0.03, "alpha %g: %g, expected %g", alphas[a], sum / 100, expected);
  }
}
END_TEST

START_TEST(dirichlet_keeps_every_part_usable) {
  for (uint64_t seed = 0; seed < 200; seed++) {
    const struct split split = {.rule = SPLIT_DIRICHLET, .alpha = 0.01, .n_parts = N_PARTS, .seed = seed};
    struct counts c = assign(&split, part);
    for (size_t k = 0; k < N_PARTS; k++)
      ck_assert_uint_ge(c.part[k], SPLIT_MIN_SAMPLES);
  }
}
END_TEST

START_TEST(of_a_part_of_the_samples_the_rest_is_nobodys) {
  static uint16_t labels[N];
  size_t counts[N_PARTS + 1] = {0}, of_class[N_CLASSES] = {0};
  struct split split = {.rule = SPLIT_IID, .n_parts = N_PARTS, .samples = 60, .seed = 3};
  labels_fill(labels);
  ck_assert_int_eq(split_assign(&split, labels, N, N_CLASSES, part), ERR_OK);
  for (size_t i = 0; i < N; i++) {
    counts[part[i]]++;
    of_class[labels[i]] += part[i] > 0;
  }
  for (size_t k = 1; k <= N_PARTS; k++)
    ck_assert_uint_eq(counts[k], 60);
  for (size_t k = 0; k < N_CLASSES; k++) /* drawn, not the first ones: 30 of each class expected */
    ck_assert(of_class[k] > 10 && of_class[k] < 50);
  split.seed = 4;
  ck_assert_int_eq(split_assign(&split, labels, N, N_CLASSES, again), ERR_OK);
  ck_assert_mem_ne(part, again, sizeof part);
  split.samples = N / N_PARTS; /* all of them */
  ck_assert_int_eq(split_assign(&split, labels, N, N_CLASSES, part), ERR_OK);
  split.samples = 0;
  ck_assert_int_eq(split_assign(&split, labels, N, N_CLASSES, again), ERR_OK);
  ck_assert_mem_eq(part, again, sizeof part);
  split.samples = N / N_PARTS + 1;
  ck_assert_int_eq(split_assign(&split, labels, N, N_CLASSES, part), ERR_RANGE);
}
END_TEST

START_TEST(what_cannot_be_split_is_refused) {
  uint16_t labels[400] = {0}, out[400];
  memset(out, 0x5a, sizeof out);
  struct split split = {.rule = SPLIT_DIRICHLET, .alpha = 1, .n_parts = 11};
  ck_assert_int_eq(split_assign(&split, labels, 400, 1, out), ERR_RANGE); /* 440 needed */
  split = (struct split){.rule = SPLIT_DIRICHLET, .alpha = 0.001, .n_parts = 10};
  ck_assert_int_eq(split_assign(&split, labels, 400, 1, out), ERR_RANGE); /* exactly even: never drawn */
  split = (struct split){.rule = SPLIT_SHARDS, .shards = 41, .n_parts = 10};
  ck_assert_int_eq(split_assign(&split, labels, 400, 1, out), ERR_RANGE);
  split = (struct split){.rule = SPLIT_IID, .n_parts = 401};
  ck_assert_int_eq(split_assign(&split, labels, 400, 1, out), ERR_RANGE);
  for (size_t i = 0; i < 400; i++)
    ck_assert_uint_eq(out[i], 0x5a5a);
  split.n_parts = 400;
  ck_assert_int_eq(split_assign(&split, labels, 400, 1, out), ERR_OK);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/split", same_seed_same_parts, assignments_are_golden, iid_is_even,
                   shards_give_each_part_few_classes, groups_have_classes_of_their_own, dirichlet_has_its_moments,
                   dirichlet_keeps_every_part_usable, of_a_part_of_the_samples_the_rest_is_nobodys,
                   what_cannot_be_split_is_refused);
}
