#include "models/continual/rehearsal.h"

#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { N_INPUTS = 3, N_CLASSES = 4 };

/* n samples whose first input is their own number, of the classes in turn. */
static struct dataset numbered(size_t n) {
  struct dataset d = toy_dataset(TASK_CLASSIFY, n, N_INPUTS, N_CLASSES);
  for (size_t i = 0; i < n; i++) {
    d.floats[i * N_INPUTS] = (float)i;
    d.labels[i] = (uint16_t)(i % N_CLASSES);
  }
  return d;
}

static void offer(struct rehearsal *b, const struct dataset *d, size_t first, size_t n) {
  for (size_t i = first; i < first + n; i++)
    ck_assert_int_eq(rehearsal_offer(b, d, &(uint32_t){(uint32_t)i}, 1), ERR_OK);
}

static struct rehearsal *open_like(enum replay_rule rule, size_t a_class, const struct dataset *d, uint64_t seed) {
  struct rehearsal *b = NULL;
  ck_assert_int_eq(rehearsal_open(rule, a_class, N_CLASSES, d, seed, &b), ERR_OK);
  return b;
}

static uint8_t *bytes_of(const struct rehearsal *b, size_t *out_n) {
  struct writer w;
  uint8_t *bytes = malloc(rehearsal_bytes(b));
  ck_assert_ptr_nonnull(bytes);
  writer_init(&w, bytes, rehearsal_bytes(b));
  rehearsal_write(b, &w);
  ck_assert_int_eq(writer_end(&w), ERR_OK);
  ck_assert_uint_eq(w.n_bytes, rehearsal_bytes(b));
  *out_n = w.n_bytes;
  return bytes;
}

/* Which samples are held, by their numbers: one pass over what is written. */
static void count_held(const struct rehearsal *b, uint32_t *counts, size_t n_reservoirs) {
  size_t n;
  uint8_t *bytes = bytes_of(b, &n);
  struct cursor c;
  cursor_init(&c, bytes, n);
  (void)cursor_view(&c, 24 + 16 * n_reservoirs);
  while (c.left > 0) {
    (void)cursor_u16(&c);
    counts[(size_t)cursor_f32(&c)]++;
    (void)cursor_view(&c, sizeof(float) * (N_INPUTS - 1));
  }
  free(bytes);
}

START_TEST(a_class_has_its_cap_however_many_of_another_come) {
  struct dataset d = numbered(400);
  struct rehearsal *b = open_like(REPLAY_BALANCED, 5, &d, 1);
  for (size_t i = 0; i < 400; i++)
    d.labels[i] = i < 3 ? 2 : 0;
  offer(b, &d, 0, 400);
  ck_assert_uint_eq(rehearsal_samples_of(b, 0), 5);
  ck_assert_uint_eq(rehearsal_samples_of(b, 2), 3);
  ck_assert_uint_eq(rehearsal_samples(b), 8);
  rehearsal_free(b);
  toy_dataset_done(&d);
}
END_TEST

/* Every sample of n stays with probability m/n. Over S seeds the count of each is binomial; the sum of (count − S·p)²/(S·p(1−p))
 * over n samples has mean n and, nearly independent, variance about 2n. */
static double spread_of(enum replay_rule rule, size_t a_class, size_t n, size_t n_reservoirs) {
  enum { SEEDS = 400 };
  struct dataset d = numbered(n);
  uint32_t *counts = calloc(n, sizeof *counts);
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct rehearsal *b = open_like(rule, a_class, &d, seed * 77);
    offer(b, &d, 0, n);
    count_held(b, counts, n_reservoirs);
    rehearsal_free(b);
  }
  double p = (double)(a_class * N_CLASSES) / (double)n, sum = 0;
  for (size_t i = 0; i < n; i++) {
    double off = counts[i] - SEEDS * p;
    sum += off * off / (SEEDS * p * (1 - p));
  }
  free(counts);
  toy_dataset_done(&d);
  return sum / (double)n;
}

START_TEST(each_sample_is_as_likely_to_stay) {
  ck_assert_double_eq_tol(spread_of(REPLAY_RESERVOIR, 5, 200, 1), 1, 0.4); /* 4 σ = 4 √(2/200) */
  ck_assert_double_eq_tol(spread_of(REPLAY_BALANCED, 5, 200, N_CLASSES), 1, 0.4);
}
END_TEST

START_TEST(it_does_not_matter_in_how_many_pieces_they_come) {
  struct dataset d = numbered(300);
  uint32_t all[300];
  for (uint32_t i = 0; i < 300; i++)
    all[i] = i;
  struct rehearsal *a = open_like(REPLAY_RESERVOIR, 5, &d, 9), *b = open_like(REPLAY_RESERVOIR, 5, &d, 9);
  offer(a, &d, 0, 300);
  ck_assert_int_eq(rehearsal_offer(b, &d, all, 300), ERR_OK);
  size_t n, n_too;
  uint8_t *bytes = bytes_of(a, &n), *bytes_too = bytes_of(b, &n_too);
  ck_assert_uint_eq(n, n_too);
  ck_assert_mem_eq(bytes, bytes_too, n);
  free(bytes);
  free(bytes_too);
  rehearsal_free(a);
  rehearsal_free(b);
  toy_dataset_done(&d);
}
END_TEST

/* Written in the middle of a stream and read into a new one, it goes on to the same bits. */
START_TEST(a_restart_changes_nothing) {
  struct dataset d = numbered(300);
  struct rehearsal *a = open_like(REPLAY_BALANCED, 6, &d, 9), *b = open_like(REPLAY_BALANCED, 6, &d, 9);
  struct cursor c;
  size_t n, n_too;
  offer(a, &d, 0, 120);
  uint8_t *bytes = bytes_of(a, &n);
  cursor_init(&c, bytes, n);
  ck_assert_int_eq(rehearsal_read(b, &c), ERR_OK);
  free(bytes);
  offer(a, &d, 120, 180);
  offer(b, &d, 120, 180);
  bytes = bytes_of(a, &n);
  uint8_t *bytes_too = bytes_of(b, &n_too);
  ck_assert_uint_eq(n, n_too);
  ck_assert_mem_eq(bytes, bytes_too, n);
  free(bytes);
  free(bytes_too);
  rehearsal_free(a);
  rehearsal_free(b);
  toy_dataset_done(&d);
}
END_TEST

START_TEST(damaged_bytes_change_nothing) {
  struct dataset d = numbered(100);
  struct rehearsal *b = open_like(REPLAY_BALANCED, 6, &d, 9), *small = open_like(REPLAY_BALANCED, 5, &d, 9);
  struct cursor c;
  size_t n, n_after;
  offer(b, &d, 0, 100);
  uint8_t *bytes = bytes_of(b, &n);
  cursor_init(&c, bytes, n);
  ck_assert_int_eq(rehearsal_read(small, &c), ERR_CORRUPT);
  for (size_t cut = 0; cut < n; cut++) {
    cursor_init(&c, bytes, cut);
    ck_assert_int_eq(rehearsal_read(b, &c), ERR_TRUNCATED);
  }
  uint8_t *damaged = calloc(1, n + 1);
  memcpy(damaged, bytes, n);
  cursor_init(&c, damaged, n + 1);
  ck_assert_int_eq(rehearsal_read(b, &c), ERR_TRAILING);
  damaged[24 + 8] ^= 1; /* how many of the first class are held */
  cursor_init(&c, damaged, n);
  ck_assert_int_ne(rehearsal_read(b, &c), ERR_OK);
  memcpy(damaged, bytes, n);
  damaged[24 + 16 * N_CLASSES] = 0xff; /* a label */
  cursor_init(&c, damaged, n);
  ck_assert_int_eq(rehearsal_read(b, &c), ERR_CORRUPT);
  memcpy(damaged, bytes, n);
  memset(damaged + n - 4, 0xff, 4); /* an input that is no number */
  cursor_init(&c, damaged, n);
  ck_assert_int_eq(rehearsal_read(b, &c), ERR_CORRUPT);
  uint8_t *after = bytes_of(b, &n_after);
  ck_assert_mem_eq(after, bytes, n);
  free(after);
  free(damaged);
  free(bytes);
  rehearsal_free(b);
  rehearsal_free(small);
  toy_dataset_done(&d);
}
END_TEST

START_TEST(draws_are_standardised_and_repeat) {
  struct dataset d = numbered(40);
  struct rehearsal *b = open_like(REPLAY_BALANCED, 10, &d, 1);
  float x[16 * N_INPUTS], again[16 * N_INPUTS];
  uint16_t labels[16], labels_again[16];
  struct rng rng, same;
  offer(b, &d, 0, 40);
  d.shift[0] = 1;
  d.gain[0] = 2;
  rng_init(&rng, 3);
  same = rng;
  rehearsal_draw(b, &d, &rng, 16, x, labels);
  rehearsal_draw(b, &d, &same, 16, again, labels_again);
  ck_assert_mem_eq(x, again, sizeof x);
  ck_assert_mem_eq(labels, labels_again, sizeof labels);
  for (size_t i = 0; i < 16; i++)
    ck_assert_uint_eq((uint32_t)(x[i * N_INPUTS] / 2 + 1) % N_CLASSES, labels[i]);
  rehearsal_free(b);
  toy_dataset_done(&d);
}
END_TEST

START_TEST(more_than_memory_is_refused_before_it_is_taken) {
  struct dataset d = numbered(4);
  struct rehearsal *b = NULL;
  ck_assert_int_eq(rehearsal_open(REPLAY_BALANCED, SIZE_MAX / 2, N_CLASSES, &d, 1, &b), ERR_LIMIT);
  ck_assert_ptr_null(b);
  toy_dataset_done(&d);
}
END_TEST

int main(void) {
  return SUITE_RUN("rehearsal", a_class_has_its_cap_however_many_of_another_come, each_sample_is_as_likely_to_stay,
                   it_does_not_matter_in_how_many_pieces_they_come, a_restart_changes_nothing,
                   damaged_bytes_change_nothing, draws_are_standardised_and_repeat,
                   more_than_memory_is_refused_before_it_is_taken);
}
