#include "crypto/signed_sketch.h"

#include <string.h>

#include "crypto/random.h"
#include "tests/unit/crypto/vectors.h"
#include "tests/unit/suite.h"

enum { AT_ORIGIN = 1 + 16 + 3 * 32, AT_EPOCH = AT_ORIGIN + 32, AT_SERIAL = AT_EPOCH + 8 };

static uint8_t bytes[SIGNED_SKETCH_BYTES + 1];

static struct signed_sketch sample(void) {
  struct signed_sketch s = {.swarm = swarm_id("k3vz-7qd2"), .boot_epoch = 0x0102030405060708, .serial = 2};
  uint8_t seed[IDENTITY_SEED_BYTES];
  struct identity *id = NULL;
  for (unsigned i = 0; i < sizeof seed; i++)
    seed[i] = (uint8_t)i;
  memset(s.job.bytes, 0x22, sizeof s.job.bytes);
  memset(s.schema.bytes, 0x33, sizeof s.schema.bytes);
  memset(s.contract.bytes, 0x44, sizeof s.contract.bytes);
  for (unsigned i = 0; i < sizeof s.cells; i++)
    s.cells[i] = (uint8_t)(3 * i);
  ck_assert_int_eq(random_open(), ERR_OK);
  ck_assert_int_eq(identity_from_seed(seed, &id), ERR_OK);
  signed_sketch_sign(&s, id);
  identity_free(id);
  return s;
}

START_TEST(golden) {
  struct signed_sketch s = sample();
  signed_sketch_write(&s, bytes);
  assert_golden("signed_sketch", bytes, SIGNED_SKETCH_BYTES);
  ck_assert_int_le(SIGNED_SKETCH_BYTES, 1024);
}
END_TEST

START_TEST(written_and_read_back) {
  struct signed_sketch s = sample(), back;
  signed_sketch_write(&s, bytes);
  ck_assert_int_eq(signed_sketch_read(bytes, SIGNED_SKETCH_BYTES, &back), ERR_OK);
  ck_assert_int_eq(signed_sketch_verify(&back), ERR_OK);
  ck_assert_mem_eq(back.cells, s.cells, sizeof s.cells);
  ck_assert_uint_eq(back.boot_epoch, s.boot_epoch);
  ck_assert_uint_eq(back.serial, 2);
}
END_TEST

START_TEST(cut_or_longer_is_refused) {
  struct signed_sketch s = sample(), back;
  signed_sketch_write(&s, bytes);
  for (size_t k = 0; k < SIGNED_SKETCH_BYTES; k++)
    ck_assert_int_eq(signed_sketch_read(bytes, k, &back), ERR_TRUNCATED);
  ck_assert_int_eq(signed_sketch_read(bytes, SIGNED_SKETCH_BYTES + 1, &back), ERR_TRAILING);
}
END_TEST

/* Not one byte can be changed. */
START_TEST(what_was_changed_does_not_verify) {
  struct signed_sketch s = sample(), back;
  signed_sketch_write(&s, bytes);
  for (size_t i = 0; i < SIGNED_SKETCH_BYTES; i++) {
    bytes[i] ^= 1;
    enum err e = signed_sketch_read(bytes, SIGNED_SKETCH_BYTES, &back);
    ck_assert(e != ERR_OK || signed_sketch_verify(&back) == ERR_SIGNATURE);
    bytes[i] ^= 1;
  }
}
END_TEST

START_TEST(the_form_is_checked_before_the_signature) {
  struct signed_sketch s = sample(), back;
  signed_sketch_write(&s, bytes);
  bytes[0] = 2;
  ck_assert_int_eq(signed_sketch_read(bytes, SIGNED_SKETCH_BYTES, &back), ERR_VERSION);
  signed_sketch_write(&s, bytes);
  memset(bytes + AT_EPOCH, 0, 8);
  ck_assert_int_eq(signed_sketch_read(bytes, SIGNED_SKETCH_BYTES, &back), ERR_MESSAGE);
  signed_sketch_write(&s, bytes);
  memset(bytes + AT_SERIAL, 0, 4);
  ck_assert_int_eq(signed_sketch_read(bytes, SIGNED_SKETCH_BYTES, &back), ERR_MESSAGE);
}
END_TEST

START_TEST(a_later_life_is_newer_than_any_serial) {
  struct signed_sketch a = {.boot_epoch = 1, .serial = 9}, b = {.boot_epoch = 2, .serial = 1};
  ck_assert_int_lt(signed_sketch_compare(&a, &b), 0);
  ck_assert_int_gt(signed_sketch_compare(&b, &a), 0);
  b.boot_epoch = 1;
  ck_assert_int_gt(signed_sketch_compare(&a, &b), 0);
  b.serial = 9;
  ck_assert_int_eq(signed_sketch_compare(&a, &b), 0);
}
END_TEST

int main(void) {
  return SUITE_RUN("signed_sketch", golden, written_and_read_back, cut_or_longer_is_refused,
                   what_was_changed_does_not_verify, the_form_is_checked_before_the_signature,
                   a_later_life_is_newer_than_any_serial);
}
