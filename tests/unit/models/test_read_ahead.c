#include "models/data/read_ahead.h"

#include "base/rng.h"
#include "models/data/scratch.h"
#include "tests/unit/models/data_kit.h"
#include "tests/unit/suite.h"

enum { N_ROWS = 3000 };

/* Row i is bytes that follow from i. */
static void row_write(uint32_t i, size_t row_bytes, uint8_t *out_row) {
  struct rng rng;
  rng_init(&rng, i);
  for (size_t k = 0; k < row_bytes; k++)
    out_row[k] = k % 64 == 0 ? (uint8_t)rng_below(&rng, 256) : (uint8_t)(out_row[k - 1] + i);
}

static struct scratch *scratch_of(size_t row_bytes) {
  struct scratch *s = NULL;
  uint8_t *row = malloc(row_bytes);
  ck_assert(row != NULL);
  ck_assert_int_eq(scratch_open("/tmp", row_bytes, &s), ERR_OK);
  for (uint32_t i = 0; i < N_ROWS; i++) {
    row_write(i, row_bytes, row);
    ck_assert_int_eq(scratch_put(s, row), ERR_OK);
  }
  ck_assert_int_eq(scratch_end(s), ERR_OK);
  ck_assert_uint_eq(scratch_row_bytes(s), row_bytes);
  free(row);
  return s;
}

static void order_of(uint32_t order[N_ROWS], struct rng *rng) {
  for (uint32_t i = 0; i < N_ROWS; i++)
    order[i] = i;
  rng_shuffle(rng, order, N_ROWS);
}

/* Takes the plan in handfuls, as batches do. */
static void assert_taken(struct read_ahead *a, const uint32_t *order, size_t n, size_t row_bytes, struct rng *rng) {
  uint8_t *expected = malloc(row_bytes);
  ck_assert(expected != NULL);
  read_ahead_plan(a, order, n);
  for (size_t at = 0, got; at < n; at += got) {
    const void *rows;
    ck_assert(read_ahead_is_at(a, order + at));
    ck_assert(!read_ahead_is_at(a, order + at + 1));
    size_t most = 1 + rng_below(rng, 40);
    ck_assert_int_eq(read_ahead_take(a, most, &rows, &got), ERR_OK);
    ck_assert(got >= 1 && got <= most && got <= n - at);
    for (size_t i = 0; i < got; i++) {
      row_write(order[at + i], row_bytes, expected);
      ck_assert_mem_eq((const uint8_t *)rows + i * row_bytes, expected, row_bytes);
    }
  }
  ck_assert(!read_ahead_is_at(a, order + n));
  free(expected);
}

/* Rows that are read together and alone, a buffer that holds many, one, and less than a gap; windows of all, of some and of one; from the
 * page cache and from the disk. */
START_TEST(rows_come_in_the_order_of_the_plan) {
  static const size_t widths[] = {3, 784, 5000}, windows[] = {(size_t)2 * N_ROWS, 700, 61, 2};
  uint32_t order[N_ROWS];
  struct rng rng;
  rng_init(&rng, 1);
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
    struct scratch *s = scratch_of(widths[w]);
    for (size_t k = 0; k < sizeof windows / sizeof *windows; k++) {
      struct read_ahead *a = NULL;
      ck_assert_int_eq(read_ahead_new(s, windows[k], &a), ERR_OK);
      order_of(order, &rng);
      assert_taken(a, order, N_ROWS, widths[w], &rng);
      order_of(order, &rng);
      kit_cool_scratch();
      assert_taken(a, order + 17, 1000, widths[w], &rng); /* a part of a pass, as rounds by steps take it */
      assert_taken(a, order, 1, widths[w], &rng);
      read_ahead_free(a);
    }
    scratch_close(s);
  }
}
END_TEST

START_TEST(plans_end_when_they_are_left) {
  struct scratch *s = scratch_of(784);
  struct read_ahead *a = NULL;
  struct rng rng;
  uint32_t order[N_ROWS];
  const void *rows;
  size_t n;
  rng_init(&rng, 2);
  order_of(order, &rng);
  ck_assert_int_eq(read_ahead_new(s, 500, &a), ERR_OK);
  ck_assert(!read_ahead_is_at(a, order));
  read_ahead_plan(a, order, N_ROWS);
  ck_assert_int_eq(read_ahead_take(a, 32, &rows, &n), ERR_OK);
  ck_assert(read_ahead_is_at(a, order + n));
  read_ahead_plan(a, NULL, 0);
  ck_assert(!read_ahead_is_at(a, order + n));
  assert_taken(a, order + 100, 900, 784, &rng);
  read_ahead_free(a);
  scratch_close(s);
}
END_TEST

START_TEST(files_that_are_cut_are_errors) {
  static const size_t windows[] = {900, 4}; /* many rows in a read, and one */
  struct rng rng;
  uint32_t order[N_ROWS];
  const void *rows;
  size_t n;
  rng_init(&rng, 3);
  order_of(order, &rng);
  for (size_t k = 0; k < 2; k++) {
    struct scratch *s = scratch_of(784);
    struct read_ahead *a = NULL;
    ck_assert_int_eq(read_ahead_new(s, windows[k], &a), ERR_OK);
    read_ahead_plan(a, order, N_ROWS);
    ck_assert_uint_eq(kit_cut_scratch(), 1);
    ck_assert_int_eq(read_ahead_take(a, 32, &rows, &n), ERR_IO);
    read_ahead_free(a);
    scratch_close(s);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("models/read_ahead", rows_come_in_the_order_of_the_plan, plans_end_when_they_are_left,
                   files_that_are_cut_are_errors);
}
