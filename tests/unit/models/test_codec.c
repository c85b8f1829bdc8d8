#include "models/merging/codec.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "models/kernels/half.h"
#include "tests/unit/suite.h"

#define N ((size_t)1500) /* more than one block, and no multiple of eight */

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

static void send(enum codec c, const float *x, float *copy) {
  uint8_t bytes[4 * N];
  ck_assert_int_eq(codec_encode(c, x, copy, N, bytes), ERR_OK);
  ck_assert_int_eq(codec_add(c, bytes, codec_bound(c, N), copy, N), ERR_OK);
}

START_TEST(sizes_and_names) {
  ck_assert_uint_eq(codec_bound(CODEC_F32, N), 4 * N);
  ck_assert_uint_eq(codec_bound(CODEC_F16, N), 2 * N);
  ck_assert_str_eq(codec_name(CODEC_F32), "f32");
  ck_assert_str_eq(codec_name(CODEC_F16), "f16");
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
  for (int c = 0; c < N_CODECS; c++)
    for (size_t i = 0; i < 3; i++) {
      float x[N] = {0}, copy[N] = {0};
      x[N - 1] = bad[i];
      ck_assert_int_eq(codec_encode((enum codec)c, x, copy, N, bytes), ERR_NON_FINITE);
    }
  float x[N] = {FLT_MAX}, copy[N] = {-FLT_MAX}; /* the difference overflows */
  ck_assert_int_eq(codec_encode(CODEC_F16, x, copy, N, bytes), ERR_NON_FINITE);
}
END_TEST

static void refuse(enum codec c, const uint8_t *bytes, size_t n_bytes, enum err expected) {
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
  refuse((enum codec)7, bytes, 4 * N, ERR_ENCODING);
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

/* −0 and denormals come through both codecs; nothing flushes them. */
START_TEST(smallest_values_are_kept) {
  volatile float smallest = 0x1p-149f; /* not folded by the compiler */
  float x[N] = {-0.0f, 0, 0x1p-24f, -0x1.8p-25f}, copy[N] = {0};
  uint8_t bytes[4 * N];
  x[1] = smallest;
  ck_assert_int_eq(codec_encode(CODEC_F32, x, copy, N, bytes), ERR_OK);
  ck_assert_mem_eq(bytes, x, sizeof x);
  copy[0] = -0.0f;
  ck_assert_int_eq(codec_add(CODEC_F32, bytes, sizeof bytes, copy, N), ERR_OK);
  ck_assert_mem_eq(copy, x, sizeof x);
  ck_assert_int_eq(codec_encode(CODEC_F16, x, (float[N]){0}, N, bytes), ERR_OK);
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
    if (!k[i].supported())
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
  ck_assert(half_fastest()->supported());
}
END_TEST

/* Every finite half survives the way up and down. */
START_TEST(halves_come_back) {
  size_t n;
  const struct half_kernel *k = half_kernels(&n);
  for (size_t i = 0; i < n; i++)
    for (uint32_t h = 0; h < 1 << 16 && k[i].supported(); h++) {
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
  return SUITE_RUN("codec", sizes_and_names, error_is_fed_back, f32_follows_within_one_rounding,
                   f16_saturates_and_catches_up, non_finite_is_not_encoded, bad_payloads_leave_the_copy,
                   smallest_values_are_kept, kernels_agree, halves_come_back, whole_models);
}
