#include "models/merging/nearby.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000, ROOM = N / 32, ROOM_BYTES = 4 * ROOM };

static float moved(float x, int32_t ulps) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits += (uint32_t)ulps;
  memcpy(&x, &bits, sizeof x);
  return x;
}

struct bench {
  float x[N], y[N];
  uint8_t bytes[4 * N], near[4 * N]; /* of y */
};

/* Differences of up to ±most. */
static struct bench *bench_new(int32_t most) {
  struct bench *b = calloc(1, sizeof *b);
  for (int32_t i = 0; i < N; i++) {
    b->y[i] = (float)(i % 2 ? -1 : 1) * (0.01f + (float)i);
    b->x[i] = moved(b->y[i], i % 3 == 0 ? 0 : (i * 7919) % (2 * most + 1) - most);
  }
  b->x[5] = moved(b->y[5], most);
  b->x[6] = moved(b->y[6], -most);
  return b;
}

static enum err read_back(struct bench *b, size_t width, float *out) {
  memcpy(b->near, b->y, sizeof b->y);
  return nearby_read(b->bytes, width, b->near, N, out);
}

static void check(struct bench *b, size_t width) {
  float back[N];
  ck_assert(nearby_fits(b->x, b->y, N, width));
  memset(b->bytes, 0xa5, sizeof b->bytes);
  nearby_write(b->x, b->y, N, width, b->bytes);
  ck_assert_int_eq(b->bytes[nearby_bytes(N, width)], 0xa5);
  ck_assert_int_eq(read_back(b, width, back), ERR_OK);
  ck_assert_mem_eq(back, b->x, sizeof back);
  ck_assert_int_eq(read_back(b, width, NULL), ERR_OK);
}

START_TEST(what_is_written_is_read) {
  for (size_t width = 1; width <= 2; width++) {
    struct bench *b = bench_new(width == 1 ? 127 : 32767);
    ck_assert_uint_eq(nearby_bytes(N, width), N * width + ROOM_BYTES);
    check(b, width);
    const float far[] = {0,
                         -0.0f,
                         1e-45f,
                         -3,
                         3e38f,
                         moved(b->y[60], width == 1 ? 128 : 32768),
                         moved(b->y[70], width == 1 ? -128 : -32768)};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
      b->x[10 * i + 10] = far[i]; /* 60 and 70 are the last two */
    check(b, width);
    free(b);
  }
}
END_TEST

START_TEST(there_is_room_for_so_many) {
  struct bench *b = bench_new(127);
  for (size_t i = 0; i < ROOM; i++)
    b->x[N - 1 - i] = 0;
  check(b, 1);
  ck_assert(nearby_fits(b->x, b->y, N, 2));
  b->x[0] = moved(b->y[0], 128);
  ck_assert(!nearby_fits(b->x, b->y, N, 1));
  free(b);
}
END_TEST

/* x = y + 1 ulp, as bytes that any host writes. */
START_TEST(golden) {
  enum { SHORT = 32 };
  float x[SHORT], y[SHORT], back[SHORT];
  uint8_t bytes[SHORT + 4], expected[SHORT + 4];
  for (size_t i = 0; i < SHORT; i++)
    x[i] = moved(y[i] = 1.5f, -1);
  x[3] = -2; /* c0000000 */
  memset(expected, 0xff, SHORT);
  expected[3] = 0x80;
  memcpy(expected + SHORT, (const uint8_t[]){0, 0, 0, 0xc0}, 4);
  nearby_write(x, y, SHORT, 1, bytes);
  ck_assert_mem_eq(bytes, expected, sizeof bytes);
  ck_assert_int_eq(nearby_read(bytes, 1, (const uint8_t *)y, SHORT, back), ERR_OK);
  ck_assert_mem_eq(back, x, sizeof x);
}
END_TEST

START_TEST(damage_is_refused) {
  struct bench *b = bench_new(127);
  b->x[40] = -1e9f;
  check(b, 1);
  b->bytes[40] = 0; /* so its value stands behind for nobody */
  ck_assert_int_eq(read_back(b, 1, NULL), ERR_CORRUPT);
  b->bytes[40] = 0x80;
  memcpy(b->bytes + N, &(float){NAN}, 4);
  ck_assert_int_eq(read_back(b, 1, NULL), ERR_NON_FINITE);
  memset(b->bytes, 0x80, N);
  memset(b->bytes + N, 1, ROOM_BYTES);
  ck_assert_int_eq(read_back(b, 1, NULL), ERR_CORRUPT); /* more than there is room for */
  free(b);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/nearby", what_is_written_is_read, there_is_room_for_so_many, golden, damage_is_refused);
}
