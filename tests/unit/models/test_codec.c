#include "models/merging/codec.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "models/kernels/half.h"
#include "models/kernels/select.h"
#include "tests/unit/suite.h"

#define N ((size_t)1500) /* more than one block, and no multiple of eight */

static uint32_t scratch[SELECT_BINS]; /* never cleared, so that what an encoding leaves there is seen */

static void fill(float *x, size_t n, uint64_t seed, double scale) {
  struct rng rng;
  rng_init(&rng, seed);
  for (size_t i = 0; i < n; i++)
    x[i] = (float)(scale * (2 * rng_unit(&rng) - 1));
}

static double largest_difference(const float *a, const float *b, size_t n) {
  double largest = 0;
  for (size_t i = 0; i < n; i++)
    largest = fmax(largest, fabs((double)a[i] - (double)b[i]));
  return largest;
}

static struct codec of(enum codec_kind kind) {
  return (struct codec){kind, kind == CODEC_TOPK ? 0.1 : 0};
}

/* The copy to come is what whoever is sent the bytes adds up. */
static size_t encode(enum codec_kind kind, const float *x, const float *copy, uint64_t seed, uint8_t bytes[4 * N]) {
  size_t n_bytes;
  float next[N], added[N];
  memcpy(added, copy, sizeof added);
  ck_assert_int_eq(codec_encode(of(kind), x, copy, N, seed, scratch, bytes, &n_bytes, next), ERR_OK);
  ck_assert_int_eq(codec_add(kind, bytes, n_bytes, added, N), ERR_OK);
  ck_assert_mem_eq(next, added, sizeof next);
  ck_assert_uint_le(n_bytes, codec_bound(of(kind), N));
  ck_assert_uint_le(codec_scratch(of(kind)), SELECT_BINS);
  ck_assert(kind == CODEC_TOPK || n_bytes == codec_bound(of(kind), N));
  return n_bytes;
}

static void send(enum codec_kind kind, const float *x, float *copy) {
  uint8_t bytes[4 * N];
  size_t n_bytes = encode(kind, x, copy, 1, bytes);
  ck_assert_int_eq(codec_add(kind, bytes, n_bytes, copy, N), ERR_OK);
}

START_TEST(sizes_and_names) {
  static const char *const names[N_CODECS] = {"f32", "f16", "q8", "q4", "topk"};
  for (int c = 0; c < N_CODECS; c++)
    ck_assert_str_eq(codec_name((enum codec_kind)c), names[c]);
  ck_assert_uint_eq(codec_bound(of(CODEC_F32), N), 4 * N);
  ck_assert_uint_eq(codec_bound(of(CODEC_F16), N), 2 * N);
  ck_assert_uint_eq(codec_bound(of(CODEC_Q8), N), N + 24);
  ck_assert_uint_eq(codec_bound(of(CODEC_Q4), N - 1), N / 2 + 24);
  ck_assert_uint_eq(codec_bound(of(CODEC_TOPK), N), 450 + (N >> 7));
  ck_assert_uint_eq(codec_bound((struct codec){CODEC_TOPK, 0.01}, 1000000), 37873);
  ck_assert_uint_eq(codec_bound(of(CODEC_TOPK), 1), 3);
  ck_assert_uint_eq(codec_full_bytes(N), 4 * N);
  ck_assert_uint_eq(codec_payload_bound(of(CODEC_Q8), N), 4 * N);
  ck_assert_uint_eq(codec_payload_bound(of(CODEC_Q8), 1), 5);
  ck_assert_double_eq_tol(codec_gamma((struct codec){CODEC_TOPK, 0.01}), 0.1, 1e-12);
  ck_assert(codec_gamma(of(CODEC_F32)) == 1 && codec_gamma(of(CODEC_Q4)) == 1);
}
END_TEST

/* Sent again and again, everything arrives, however little one payload brings. */
START_TEST(every_codec_catches_up) {
  static const int payloads[N_CODECS] = {2, 3, 5, 12, 40};
  for (int c = 0; c < N_CODECS; c++) {
    float x[N], copy[N];
    fill(x, N, 1, 1);
    fill(copy, N, 2, 1);
    for (int i = 0; i < payloads[c]; i++)
      send((enum codec_kind)c, x, copy);
    double left = largest_difference(x, copy, N);
    ck_assert_msg(left < 1e-6, "%s leaves %g", codec_name((enum codec_kind)c), left);
  }
}
END_TEST

/* The mean over many seeds is the difference itself; a seed gives the same bytes each time, and another one others. */
static void check_unbiased(enum codec_kind kind, int limit) {
  enum { SEEDS = 400 };
  float x[N], none[N] = {0};
  double sum[N] = {0}, scale = 1.0 / limit;
  uint8_t first[4 * N], again[4 * N];
  fill(x, N, 3, 1);
  size_t n_bytes = encode(kind, x, none, 5, first);
  ck_assert_uint_eq(encode(kind, x, none, 5, again), n_bytes);
  ck_assert_mem_eq(first, again, n_bytes);
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    float copy[N] = {0};
    encode(kind, x, none, seed << 40 | seed, again);
    ck_assert_int_eq(codec_add(kind, again, n_bytes, copy, N), ERR_OK);
    ck_assert_double_le(largest_difference(copy, x, N), 1.0001 * scale);
    for (size_t i = 0; i < N; i++)
      sum[i] += (double)copy[i];
  }
  ck_assert_mem_ne(first, again, n_bytes);
  double mean_error = 0;
  for (size_t i = 0; i < N; i++) {
    double error = sum[i] / SEEDS - (double)x[i];
    ck_assert_double_le(fabs(error), 5 * 0.5 * scale / sqrt(SEEDS)); /* five deviations of the widest kind */
    mean_error += error / (double)N;
  }
  ck_assert_double_le(fabs(mean_error), 5 * 0.5 * scale / sqrt(SEEDS * (double)N));
}

START_TEST(rounding_is_unbiased) {
  check_unbiased(CODEC_Q8, 127);
  check_unbiased(CODEC_Q4, 7);
}
END_TEST

/* Blocks of nothing, of what is next to nothing, and of next to everything. */
START_TEST(quantised_extremes) {
  float x[N] = {0}, copy[N] = {0};
  for (size_t i = 0; i < 256; i++)
    x[i] = i % 2 ? 1e-40f : -0.0f;
  x[600] = 3e38f;
  send(CODEC_Q8, x, copy);
  for (size_t i = 0; i < N; i++)
    ck_assert(i == 600 ? fabsf(copy[i] - 3e38f) < 1e32f : copy[i] == 0);
}
END_TEST

static int descending(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x < y) - (x > y);
}

START_TEST(the_largest_are_sent) {
  float x[N], copy[N] = {0}, magnitudes[N];
  fill(x, N, 9, 1);
  for (size_t i = 0; i < N; i++)
    magnitudes[i] = fabsf(x[i]);
  qsort(magnitudes, N, sizeof *magnitudes, descending);
  send(CODEC_TOPK, x, copy);
  size_t n_sent = 0;
  for (size_t i = 0; i < N; i++) {
    n_sent += copy[i] != 0;
    if (copy[i] != 0)
      ck_assert_float_eq_tol(copy[i], x[i], 0x1p-11f);
    ck_assert(copy[i] != 0 || fabsf(x[i]) <= magnitudes[149] * (1 + 0x1p-8f));
    ck_assert(copy[i] == 0 || fabsf(x[i]) >= magnitudes[149] * (1 - 0x1p-8f));
  }
  ck_assert_uint_eq(n_sent, 150);
}
END_TEST

/* Of equal ones those that stand first; of fewer than wanted all; of none one. */
START_TEST(few_and_equal_differences) {
  float x[N], copy[N] = {0};
  uint8_t bytes[4 * N];
  for (size_t i = 0; i < N; i++)
    x[i] = i % 2 ? 1 : -1;
  send(CODEC_TOPK, x, copy);
  for (size_t i = 0; i < N; i++)
    ck_assert(copy[i] == (i < 150 ? x[i] : 0));
  memset(x, 0, sizeof x);
  memset(copy, 0, sizeof copy);
  x[7] = 0x1p-30f; /* nothing in binary16, but not nothing */
  x[N - 1] = 2;
  const uint8_t two[] = {7, 0, 0, 0xd3, 0x0b, 0x00, 0x40}; /* gap 1491 */
  ck_assert_uint_eq(encode(CODEC_TOPK, x, copy, 0, bytes), sizeof two);
  ck_assert_mem_eq(bytes, two, sizeof two);
  memset(x, 0, sizeof x);
  ck_assert_uint_eq(encode(CODEC_TOPK, x, copy, 0, bytes), 3);
  ck_assert_mem_eq(bytes, (uint8_t[3]){0}, 3);
}
END_TEST

/* The longest gaps that there can be stay within the bound. */
START_TEST(bound_holds_for_long_gaps) {
  enum { LONG = 300000 };
  static float x[LONG], none[LONG];
  static uint8_t bytes[4 * LONG];
  for (size_t step = 120; step < 70000; step += step / 9) {
    for (size_t i = 0; i < LONG; i++)
      x[i] = i % step == step - 1 ? 1 : 0;
    struct codec c = {CODEC_TOPK, floor((double)LONG / (double)step) / LONG};
    size_t n_bytes;
    ck_assert_int_eq(codec_encode(c, x, none, LONG, 0, scratch, bytes, &n_bytes, NULL), ERR_OK);
    ck_assert_uint_le(n_bytes, codec_bound(c, LONG));
    memset(none, 0, sizeof none);
    ck_assert_int_eq(codec_add(CODEC_TOPK, bytes, n_bytes, none, LONG), ERR_OK);
    for (size_t i = 0; i < LONG; i++)
      if (none[i] != x[i])
        ck_abort_msg("step %zu: %zu", step, i);
    memset(none, 0, sizeof none);
  }
}
END_TEST

/* What one payload loses the following ones bring. */
START_TEST(error_is_fed_back) {
  float x[N], copy[N];
  fill(x, N, 1, 1);
  fill(copy, N, 2, 1);
  send(CODEC_F16, x, copy);
  double first = largest_difference(x, copy, N);
  ck_assert_double_gt(first, 1e-5);
  ck_assert_double_lt(first, 1e-3);
  send(CODEC_F16, x, copy);
  ck_assert_double_lt(largest_difference(x, copy, N), 1e-6);
}
END_TEST

START_TEST(f32_follows_within_one_rounding) {
  float x[N], copy[N];
  fill(x, N, 1, 3);
  fill(copy, N, 2, 3);
  send(CODEC_F32, x, copy);
  ck_assert_double_lt(largest_difference(x, copy, N), 1e-6);
}
END_TEST

START_TEST(f16_saturates_and_catches_up) {
  float x[N] = {[0] = 150000, [N - 1] = -150000}, copy[N] = {0};
  send(CODEC_F16, x, copy);
  ck_assert_float_eq(copy[0], 65504);
  ck_assert_float_eq(copy[N - 1], -65504);
  send(CODEC_F16, x, copy);
  send(CODEC_F16, x, copy);
  ck_assert_float_eq_tol(copy[0], 150000, 8);
  ck_assert_float_eq_tol(copy[N - 1], -150000, 8);
}
END_TEST

START_TEST(non_finite_is_not_encoded) {
  const float bad[] = {NAN, INFINITY, -INFINITY};
  uint8_t bytes[4 * N];
  size_t n_bytes;
  for (int c = 0; c < N_CODECS; c++)
    for (size_t i = 0; i < 3; i++) {
      float x[N] = {0}, copy[N] = {0};
      x[N - 1] = bad[i];
      ck_assert_int_eq(codec_encode(of((enum codec_kind)c), x, copy, N, 0, scratch, bytes, &n_bytes, NULL),
                       ERR_NON_FINITE);
    }
  float x[N] = {FLT_MAX}, copy[N] = {-FLT_MAX}; /* the difference overflows */
  ck_assert_int_eq(codec_encode(of(CODEC_F16), x, copy, N, 0, scratch, bytes, &n_bytes, NULL), ERR_NON_FINITE);
}
END_TEST

static void refuse(enum codec_kind c, const uint8_t *bytes, size_t n_bytes, enum err expected) {
  float copy[N], before[N];
  fill(copy, N, 3, 1);
  copy[1] = FLT_MAX;
  memcpy(before, copy, sizeof copy);
  ck_assert_int_eq(codec_add(c, bytes, n_bytes, copy, N), expected);
  ck_assert_mem_eq(copy, before, sizeof copy);
}

START_TEST(bad_payloads_leave_the_copy) {
  uint8_t bytes[4 * N + 1] = {0};
  refuse(CODEC_F32, bytes, 4 * N - 1, ERR_LENGTH);
  refuse(CODEC_F32, bytes, 4 * N + 1, ERR_LENGTH);
  refuse(CODEC_F32, bytes, 0, ERR_LENGTH);
  refuse(CODEC_F16, bytes, 4 * N, ERR_LENGTH);
  refuse((enum codec_kind)7, bytes, 4 * N, ERR_ENCODING);
  const uint16_t halves[] = {0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff};
  for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
    memcpy(bytes + 2 * (N - 1), &halves[i], 2);
    refuse(CODEC_F16, bytes, 2 * N, ERR_NON_FINITE);
  }
  const float values[] = {NAN, INFINITY, -INFINITY};
  for (size_t i = 0; i < 3; i++) {
    memcpy(bytes + 4 * (N - 1), &values[i], 4);
    refuse(CODEC_F32, bytes, 4 * N, ERR_NON_FINITE);
  }
  memset(bytes, 0, sizeof bytes);
  memcpy(bytes + 4, &(float){FLT_MAX}, 4); /* finite, but not the sum */
  refuse(CODEC_F32, bytes, 4 * N, ERR_NON_FINITE);
}
END_TEST

START_TEST(bad_quantised_payloads_leave_the_copy) {
  uint8_t bytes[4 * N] = {0};
  const size_t n8 = codec_bound(of(CODEC_Q8), N), n4 = codec_bound(of(CODEC_Q4), N);
  refuse(CODEC_Q8, bytes, n8 - 1, ERR_LENGTH);
  refuse(CODEC_Q8, bytes, n8 + 1, ERR_LENGTH);
  refuse(CODEC_Q4, bytes, n4 - 1, ERR_LENGTH);
  refuse(CODEC_Q4, bytes, 0, ERR_LENGTH);
  bytes[n8 - 1] = 0x80; /* −128 */
  refuse(CODEC_Q8, bytes, n8, ERR_ENCODING);
  bytes[n8 - 1] = 0;
  bytes[n4 - 1] = 0x80; /* −8 */
  refuse(CODEC_Q4, bytes, n4, ERR_ENCODING);
  bytes[n4 - 1] = 0;
  const float scales[] = {-1, -0.0f, NAN, INFINITY, FLT_MAX};
  const enum err expected[] = {ERR_ENCODING, ERR_ENCODING, ERR_NON_FINITE, ERR_NON_FINITE, ERR_NON_FINITE};
  bytes[5] = 2;
  for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
    memcpy(bytes, &scales[i], 4);
    refuse(CODEC_Q8, bytes, n8, expected[i]);
    refuse(CODEC_Q4, bytes, n4, expected[i]);
  }
}
END_TEST

START_TEST(a_half_byte_too_many_is_refused) {
  float copy[3] = {0};
  uint8_t bytes[] = {0, 0, 0x80, 0x3f, 0x7f, 0x01}; /* scale 1: −1, 7, 1 */
  ck_assert_int_eq(codec_add(CODEC_Q4, bytes, sizeof bytes, copy, 3), ERR_OK);
  ck_assert(copy[0] == -1 && copy[1] == 7 && copy[2] == 1);
  bytes[5] = 0x11;
  ck_assert_int_eq(codec_add(CODEC_Q4, bytes, sizeof bytes, copy, 3), ERR_ENCODING);
  ck_assert(copy[0] == -1 && copy[1] == 7 && copy[2] == 1);
}
END_TEST

START_TEST(bad_entries_leave_the_copy) {
  static const struct {
    uint8_t bytes[12];
    size_t n;
    enum err expected;
  } rows[] = {
      {{0}, 0, ERR_LENGTH},
      {{1, 0, 0x3c, 5}, 4, ERR_LENGTH},                        /* a gap without a value */
      {{1, 0}, 2, ERR_LENGTH},                                 /* half a value */
      {{0x81}, 1, ERR_LENGTH},                                 /* half a gap */
      {{0x81, 0, 0, 0x3c}, 4, ERR_ENCODING},                   /* one byte would have done */
      {{0x81, 0x80, 0x80, 0x80, 0, 0, 0x3c}, 7, ERR_ENCODING}, /* a fifth byte */
      {{0xdc, 0x0b, 0, 0x3c}, 4, ERR_ENCODING},                /* index 1500 of 1500 */
      {{0xdb, 0x0b, 0, 0x3c, 0, 0, 0x3c}, 7, ERR_ENCODING},    /* 1499, then beyond */
      {{0xff, 0xff, 0xff, 0x7f, 0, 0x3c}, 6, ERR_ENCODING},
      {{0, 0, 0x3c, 0, 0, 0x7c}, 6, ERR_NON_FINITE},
      {{0, 0, 0x3c, 0, 0, 0x7e}, 6, ERR_NON_FINITE},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    refuse(CODEC_TOPK, rows[i].bytes, rows[i].n, rows[i].expected);
  uint8_t many[4 * N] = {0}; /* every value of the model: more than any fraction */
  refuse(CODEC_TOPK, many, 3 * N, ERR_LENGTH);
  float copy[N] = {0};
  const uint8_t last[] = {0xdb, 0x0b, 0, 0x3c};
  ck_assert_int_eq(codec_add(CODEC_TOPK, last, sizeof last, copy, N), ERR_OK);
  ck_assert(copy[N - 1] == 1 && copy[0] == 0);
}
END_TEST

/* −0 and denormals come through both dense codecs of floats; nothing flushes them. */
START_TEST(smallest_values_are_kept) {
  volatile float smallest = 0x1p-149f; /* not folded by the compiler */
  float x[N] = {-0.0f, 0, 0x1p-24f, -0x1.8p-25f}, copy[N] = {0};
  uint8_t bytes[4 * N];
  x[1] = smallest;
  encode(CODEC_F32, x, copy, 0, bytes);
  ck_assert_mem_eq(bytes, x, sizeof x);
  copy[0] = -0.0f;
  ck_assert_int_eq(codec_add(CODEC_F32, bytes, sizeof bytes, copy, N), ERR_OK);
  ck_assert_mem_eq(copy, x, sizeof x);
  encode(CODEC_F16, x, (float[N]){0}, 0, bytes);
  const uint8_t halves[] = {0, 0x80, 0, 0, 1, 0, 1, 0x80}; /* −0, 0, 2^−24, −¾·2^−24 rounded */
  ck_assert_mem_eq(bytes, halves, sizeof halves);
}
END_TEST

/* All kernels agree on every half and on random floats of every magnitude. */
START_TEST(kernels_agree) {
  enum { COUNT = 1 << 16 };
  static float values[COUNT], from[COUNT], from_too[COUNT];
  static uint16_t halves[COUNT], to[COUNT], to_too[COUNT];
  size_t n;
  const struct half_kernel *k = half_kernels(&n);
  const struct cpu cpu = cpu_detect();
  struct rng rng;
  rng_init(&rng, 11);
  for (uint32_t i = 0; i < COUNT; i++) {
    halves[i] = (uint16_t)i;
    uint32_t bits = (uint32_t)rng_u64(&rng);
    if ((bits & 0x7f800000) == 0x7f800000)
      bits ^= 0x40000000;
    if (i % 2) /* in the range of halves more often */
      bits = (bits & 0x80ffffffu) | (uint32_t)(0x60 + rng_below(&rng, 0x28)) << 23;
    memcpy(&values[i], &bits, 4);
  }
  k[0].from_floats(values, COUNT, to);
  k[0].to_floats(halves, COUNT, from);
  for (size_t i = 1; i < n; i++) {
    if (!cpu_has(&cpu, &k[i].needs))
      continue;
    k[i].from_floats(values, COUNT, to_too);
    k[i].to_floats(halves, COUNT, from_too);
    ck_assert_mem_eq(to, to_too, sizeof to);
    for (size_t j = 0; j < COUNT; j++)
      if (!isnan(from[j])) /* a signalling NaN may come back quiet */
        ck_assert_mem_eq(&from[j], &from_too[j], 4);
      else
        ck_assert(isnan(from_too[j]));
  }
  ck_assert(cpu_has(&cpu, &half_fastest()->needs));
}
END_TEST

/* Every finite half survives the way up and down. */
START_TEST(halves_come_back) {
  size_t n;
  const struct half_kernel *k = half_kernels(&n);
  const struct cpu cpu = cpu_detect();
  for (size_t i = 0; i < n; i++)
    for (uint32_t h = 0; h < 1 << 16 && cpu_has(&cpu, &k[i].needs); h++) {
      uint16_t half = (uint16_t)h, back[9];
      float x[9];
      if ((h & 0x7c00) == 0x7c00)
        continue;
      const uint16_t row[9] = {half, half, half, half, half, half, half, half, half};
      k[i].to_floats(row, 9, x);
      k[i].from_floats(x, 9, back);
      ck_assert_mem_eq(back, row, sizeof row);
    }
}
END_TEST

START_TEST(whole_models) {
  float x[N], back[N] = {0};
  uint8_t bytes[4 * N];
  fill(x, N, 4, 100);
  codec_write_values(x, N, bytes);
  ck_assert_int_eq(codec_read_values(bytes, 4 * N, back, N), ERR_OK);
  ck_assert_mem_eq(x, back, sizeof x);
  ck_assert_int_eq(codec_read_values(bytes, 4 * N - 4, back, N), ERR_LENGTH);
  memcpy(bytes + 4 * (N - 1), &(float){NAN}, 4);
  ck_assert_int_eq(codec_read_values(bytes, 4 * N, back, N), ERR_NON_FINITE);
  ck_assert_mem_eq(x, back, sizeof x);
  const uint8_t one[4] = {0, 0, 0x80, 0x3f};
  ck_assert_int_eq(codec_read_values(one, 4, back, 1), ERR_OK);
  ck_assert_float_eq(back[0], 1);
}
END_TEST

int main(void) {
  return SUITE_RUN("codec", sizes_and_names, error_is_fed_back, every_codec_catches_up, rounding_is_unbiased,
                   quantised_extremes, the_largest_are_sent, few_and_equal_differences, bound_holds_for_long_gaps,
                   f32_follows_within_one_rounding, f16_saturates_and_catches_up, non_finite_is_not_encoded,
                   bad_payloads_leave_the_copy, bad_quantised_payloads_leave_the_copy, a_half_byte_too_many_is_refused,
                   bad_entries_leave_the_copy, smallest_values_are_kept, kernels_agree, halves_come_back, whole_models);
}
