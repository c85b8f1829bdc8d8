#include "base/bytes.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

START_TEST(integers_are_little_endian) {
  static const uint8_t bytes[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f,
                                  0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08};
  struct cursor c;
  cursor_init(&c, bytes, sizeof bytes);
  ck_assert_uint_eq(cursor_u8(&c), 0x01);
  ck_assert_uint_eq(cursor_u16(&c), 0x0203);
  ck_assert_uint_eq(cursor_u32(&c), 0x04050607);
  ck_assert_uint_eq(cursor_u64(&c), 0x08090a0b0c0d0e0fu);
  ck_assert_int_eq(cursor_end(&c), ERR_OK);
}
END_TEST

START_TEST(written_bytes_are_little_endian) {
  static const uint8_t expected[] = {0xff, 0x02, 0x01, 0x06, 0x05, 0x04, 0x03, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08,
                                     0x07, 0,    0,    0x80, 0x3f, 0,    0,    0,    0,    0,    0,    0,    0xc0};
  uint8_t bytes[sizeof expected];
  struct writer w;
  writer_init(&w, bytes, sizeof bytes);
  writer_u8(&w, 0xff);
  writer_u16(&w, 0x0102);
  writer_u32(&w, 0x03040506);
  writer_u64(&w, 0x0708090a0b0c0d0eu);
  writer_f32(&w, 1.0f);
  writer_f64(&w, -2.0);
  ck_assert_int_eq(writer_end(&w), ERR_OK);
  ck_assert_uint_eq(w.n_bytes, sizeof expected);
  ck_assert_mem_eq(bytes, expected, sizeof expected);
}
END_TEST

START_TEST(floats_keep_every_bit) {
  static const uint32_t patterns[] = {0, 0x80000000u, 1, 0x7f7fffffu, 0x7f800000u, 0x7fc12345u, 0xff800000u};
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    uint8_t bytes[12];
    float single;
    memcpy(&single, &patterns[i], sizeof single);
    uint64_t wide_bits = (uint64_t)patterns[i] << 32 | 0x1234;
    double wide;
    memcpy(&wide, &wide_bits, sizeof wide);
    struct writer w;
    writer_init(&w, bytes, sizeof bytes);
    writer_f32(&w, single);
    writer_f64(&w, wide);
    ck_assert_int_eq(writer_end(&w), ERR_OK);

    struct cursor c;
    cursor_init(&c, bytes, sizeof bytes);
    float single_back = cursor_f32(&c);
    double wide_back = cursor_f64(&c);
    ck_assert_int_eq(cursor_end(&c), ERR_OK);
    ck_assert_mem_eq(&single_back, &single, sizeof single);
    ck_assert_mem_eq(&wide_back, &wide, sizeof wide);
  }
}
END_TEST

START_TEST(reading_past_the_end_fails_for_good) {
  static const uint8_t bytes[] = {0xaa, 0xbb, 0xcc};
  struct cursor c;
  cursor_init(&c, bytes, sizeof bytes);
  ck_assert_uint_eq(cursor_u8(&c), 0xaa);
  ck_assert_uint_eq(cursor_u32(&c), 0);
  ck_assert_uint_eq(cursor_u8(&c), 0); /* two bytes are there, but the error sticks */
  ck_assert_uint_eq(cursor_u16(&c), 0);
  ck_assert_uint_eq(cursor_u64(&c), 0);
  ck_assert(cursor_f32(&c) == 0.0f && cursor_f64(&c) == 0.0);
  ck_assert_ptr_null(cursor_view(&c, 1));
  ck_assert_int_eq(cursor_end(&c), ERR_TRUNCATED);
}
END_TEST

START_TEST(each_read_fails_one_byte_short) {
  static const uint8_t bytes[8];
  static const size_t sizes[] = {1, 2, 4, 8};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct cursor c;
    for (size_t missing = 0; missing < 2; missing++) {
      cursor_init(&c, bytes, sizes[i] - missing);
      if (sizes[i] == 1)
        cursor_u8(&c);
      else if (sizes[i] == 2)
        cursor_u16(&c);
      else if (sizes[i] == 4)
        cursor_u32(&c);
      else
        cursor_u64(&c);
      ck_assert_int_eq(cursor_end(&c), missing ? ERR_TRUNCATED : ERR_OK);
    }
  }
}
END_TEST

START_TEST(a_huge_read_does_not_wrap) {
  static const uint8_t bytes[4];
  struct cursor c;
  cursor_init(&c, bytes, sizeof bytes);
  ck_assert_ptr_null(cursor_view(&c, SIZE_MAX));
  ck_assert_int_eq(cursor_end(&c), ERR_TRUNCATED);
}
END_TEST

START_TEST(a_failed_copy_gives_zeros) {
  static const uint8_t bytes[] = {1, 2, 3};
  uint8_t out[4] = {9, 9, 9, 9};
  struct cursor c;
  cursor_init(&c, bytes, sizeof bytes);
  cursor_bytes(&c, out, sizeof out);
  ck_assert_mem_eq(out, ((uint8_t[4]){0}), sizeof out);
  ck_assert_int_eq(cursor_end(&c), ERR_TRUNCATED);
}
END_TEST

START_TEST(copies_and_views_walk_on) {
  static const uint8_t bytes[] = {1, 2, 3, 4, 5};
  uint8_t out[2];
  struct cursor c;
  cursor_init(&c, bytes, sizeof bytes);
  cursor_bytes(&c, out, sizeof out);
  ck_assert_mem_eq(out, bytes, sizeof out);
  ck_assert_ptr_eq(cursor_view(&c, 2), bytes + 2);
  ck_assert_int_eq(cursor_end(&c), ERR_TRAILING);
  ck_assert_uint_eq(cursor_u8(&c), 5);
  ck_assert_int_eq(cursor_end(&c), ERR_OK);
}
END_TEST

START_TEST(empty_input_is_whole) {
  struct cursor c;
  cursor_init(&c, NULL, 0);
  cursor_bytes(&c, NULL, 0);
  ck_assert_int_eq(cursor_end(&c), ERR_OK);
  cursor_u8(&c);
  ck_assert_int_eq(cursor_end(&c), ERR_TRUNCATED);
}
END_TEST

START_TEST(writing_past_the_end_fails_for_good) {
  uint8_t bytes[4] = {0xee, 0xee, 0xee, 0xee};
  struct writer w;
  writer_init(&w, bytes, 3);
  writer_u16(&w, 0x0201);
  ck_assert_int_eq(writer_end(&w), ERR_OK);
  writer_u32(&w, 0xffffffffu);
  writer_u8(&w, 0xff); /* one byte is free, but the error sticks */
  writer_bytes(&w, "x", 1);
  writer_zeros(&w, 1);
  ck_assert_int_eq(writer_end(&w), ERR_LIMIT);
  ck_assert_uint_eq(w.n_bytes, 2);
  ck_assert_mem_eq(bytes, ((uint8_t[]){1, 2, 0xee, 0xee}), sizeof bytes);
}
END_TEST

START_TEST(a_huge_write_does_not_wrap) {
  uint8_t bytes[4];
  struct writer w;
  writer_init(&w, bytes, sizeof bytes);
  writer_u8(&w, 1);
  writer_zeros(&w, SIZE_MAX);
  ck_assert_int_eq(writer_end(&w), ERR_LIMIT);
}
END_TEST

START_TEST(a_full_buffer_is_no_error) {
  uint8_t bytes[5];
  struct writer w;
  writer_init(&w, bytes, sizeof bytes);
  writer_bytes(&w, "abc", 3);
  writer_zeros(&w, 2);
  writer_bytes(&w, NULL, 0);
  writer_zeros(&w, 0);
  ck_assert_int_eq(writer_end(&w), ERR_OK);
  ck_assert_mem_eq(bytes, "abc\0", sizeof bytes);
}
END_TEST

int main(void) {
  return SUITE_RUN("base/bytes", integers_are_little_endian, written_bytes_are_little_endian, floats_keep_every_bit,
                   reading_past_the_end_fails_for_good, each_read_fails_one_byte_short, a_huge_read_does_not_wrap,
                   a_failed_copy_gives_zeros, copies_and_views_walk_on, empty_input_is_whole,
                   writing_past_the_end_fails_for_good, a_huge_write_does_not_wrap, a_full_buffer_is_no_error);
}
