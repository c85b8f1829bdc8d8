#include "crypto/frame.h"
#include "tests/unit/suite.h"

#include <string.h>

static const struct frame_head sample = {
    .type = 7, .session_index = 0xa1b2c3d4, .n_plain = 3, .counter = 0x0102030405060708};

START_TEST(bytes_are_as_documented) {
  static const uint8_t expected[FRAME_HEAD_BYTES] = {'S', 'T', 'L', '1', 7, 0, 0, 0, 0xd4, 0xc3, 0xb2, 0xa1,
                                                     3,   0,   0,   0,   8, 7, 6, 5, 4,    3,    2,    1};
  uint8_t bytes[FRAME_HEAD_BYTES];
  frame_head_write(&sample, bytes);
  ck_assert_mem_eq(bytes, expected, sizeof expected);
}
END_TEST

START_TEST(written_and_read_back) {
  uint8_t frame[FRAME_HEAD_BYTES + 3 + FRAME_TAG_BYTES] = {0};
  struct frame_head head;
  frame_head_write(&sample, frame);
  ck_assert_uint_eq(frame_bytes(sample.n_plain), sizeof frame);
  ck_assert_int_eq(frame_head_read(frame, sizeof frame, &head), ERR_OK);
  ck_assert_uint_eq(head.type, sample.type);
  ck_assert_uint_eq(head.session_index, sample.session_index);
  ck_assert_uint_eq(head.n_plain, sample.n_plain);
  ck_assert_uint_eq(head.counter, sample.counter);
}
END_TEST

START_TEST(every_other_length_is_refused) {
  uint8_t frame[FRAME_HEAD_BYTES + 3 + FRAME_TAG_BYTES + 8] = {0};
  struct frame_head head;
  frame_head_write(&sample, frame);
  for (size_t n = 0; n <= sizeof frame; n++)
    ck_assert_int_eq(frame_head_read(frame, n, &head), n == frame_bytes(3) ? ERR_OK : ERR_FRAME);
}
END_TEST

START_TEST(magic_flags_and_padding_must_be_exact) {
  uint8_t frame[FRAME_HEAD_BYTES + 3 + FRAME_TAG_BYTES] = {0};
  struct frame_head head;
  static const size_t fixed[] = {0, 1, 2, 3, 5, 6, 7};
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
    frame_head_write(&sample, frame);
    frame[fixed[i]] ^= 1;
    ck_assert_int_eq(frame_head_read(frame, sizeof frame, &head), ERR_FRAME);
  }
}
END_TEST

START_TEST(the_largest_plaintext) {
  static uint8_t frame[FRAME_HEAD_BYTES + MAX_FRAME_PLAIN_BYTES + 1 + FRAME_TAG_BYTES];
  struct frame_head head = {.n_plain = MAX_FRAME_PLAIN_BYTES}, out;
  frame_head_write(&head, frame);
  ck_assert_int_eq(frame_head_read(frame, frame_bytes(head.n_plain), &out), ERR_OK);
  ck_assert_uint_le(frame_bytes(head.n_plain), MAX_FRAME_BYTES);
  head.n_plain++;
  frame_head_write(&head, frame);
  ck_assert_int_eq(frame_head_read(frame, frame_bytes(head.n_plain), &out), ERR_FRAME);
  head.n_plain = UINT32_MAX;
  frame_head_write(&head, frame);
  ck_assert_int_eq(frame_head_read(frame, sizeof frame, &out), ERR_FRAME);
}
END_TEST

int main(void) {
  return SUITE_RUN("crypto/frame", bytes_are_as_documented, written_and_read_back, every_other_length_is_refused,
                   magic_flags_and_padding_must_be_exact, the_largest_plaintext);
}
