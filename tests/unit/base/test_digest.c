#include "base/digest.h"
#include "tests/unit/suite.h"

/* A toy hash that shows the order of calls: each byte is added to the next of 32 cells. */
struct toy {
  size_t at;
  uint8_t cells[DIGEST_BYTES];
};

static void toy_init(struct digest_state *state) {
  memset(state, 0, sizeof *state);
}

static void toy_add(struct digest_state *state, const void *bytes, size_t n_bytes) {
  struct toy toy;
  memcpy(&toy, state->opaque, sizeof toy);
  for (size_t i = 0; i < n_bytes; i++)
    toy.cells[toy.at++ % DIGEST_BYTES] += ((const uint8_t *)bytes)[i];
  memcpy(state->opaque, &toy, sizeof toy);
}

static void toy_end(struct digest_state *state, struct digest *out_digest) {
  struct toy toy;
  memcpy(&toy, state->opaque, sizeof toy);
  memcpy(out_digest->bytes, toy.cells, DIGEST_BYTES);
}

static const struct digest_fn toy_fn = {.init = toy_init, .add = toy_add, .end = toy_end};

START_TEST(digest_of_is_init_add_end) {
  struct digest d = digest_of(&toy_fn, "abc", 3);
  ck_assert_mem_eq(d.bytes, "abc", 3);
  for (size_t i = 3; i < DIGEST_BYTES; i++)
    ck_assert_uint_eq(d.bytes[i], 0);
}
END_TEST

START_TEST(digest_of_nothing) {
  struct digest d = digest_of(&toy_fn, NULL, 0);
  ck_assert(digest_is_zero(&d));
}
END_TEST

START_TEST(one_bit_anywhere_makes_it_unequal) {
  const struct digest zero = {{0}};
  ck_assert(digest_is_zero(&zero));
  for (size_t i = 0; i < (size_t)DIGEST_BYTES * 8; i++) {
    struct digest d = {{0}};
    d.bytes[i / 8] = (uint8_t)(1u << i % 8);
    ck_assert(!digest_is_zero(&d));
    ck_assert(!digest_equal(&d, &zero));
    ck_assert(digest_equal(&d, &d));
  }
}
END_TEST

START_TEST(hexadecimal) {
  const struct digest d = {{0x00, 0x01, 0x9a, 0xf0, 0x10, [DIGEST_BYTES - 1] = 0xfe}};
  char text[DIGEST_TEXT_BYTES];
  memset(text, 'x', sizeof text);
  digest_hex(&d, text);
  ck_assert_str_eq(text, "00019af0100000000000000000000000"
                         "000000000000000000000000000000fe");
}
END_TEST

int main(void) {
  return SUITE_RUN("base/digest", digest_of_is_init_add_end, digest_of_nothing, one_bit_anywhere_makes_it_unequal,
                   hexadecimal);
}
