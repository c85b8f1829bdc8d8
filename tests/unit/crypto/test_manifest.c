#include <math.h>

#include "base/limits.h"
#include "crypto/manifest.h"
#include "crypto/random.h"
#include "tests/unit/crypto/vectors.h"
#include "tests/unit/suite.h"

#include <stdbool.h>

/* Where the fields stand. */
enum {
  AT_VERSION = 0,
  AT_KIND = 1,
  AT_ENCODING = 2,
  AT_ZERO = 3,
  AT_MU = 184,
  AT_CHAIN = 192,
  AT_PAYLOAD_ROOT = 224,
  AT_LENGTH = 256,
  AT_COPY_ROOT = 264,
  AT_UNUSED = 296,
  AT_SIGNATURE = 389,
};

static struct identity *identity_sample(void) {
  uint8_t seed[IDENTITY_SEED_BYTES];
  struct identity *id = NULL;
  for (unsigned i = 0; i < sizeof seed; i++)
    seed[i] = (uint8_t)i;
  ck_assert_int_eq(identity_from_seed(seed, &id), ERR_OK);
  return id;
}

static struct digest digest_filled(uint8_t fill) {
  struct digest d;
  memset(d.bytes, fill, sizeof d.bytes);
  return d;
}

/* The manifests of tests/ref/manifest_twin.py, signed. */
static struct manifest manifest_sample(enum manifest_kind kind) {
  struct manifest m = {.kind = kind,
                       .job = digest_filled(0x22),
                       .schema = digest_filled(0x33),
                       .contract = digest_filled(0x44),
                       .boot_epoch = 0x0102030405060708,
                       .round = 419,
                       .sub = 2,
                       .degree = 3,
                       .local_steps = 1234,
                       .samples = 5678,
                       .mu = 1,
                       .chain = digest_filled(0x55)};
  memset(m.swarm.bytes, 0x11, sizeof m.swarm.bytes);
  if (kind == MANIFEST_NONE) {
    m.encoding = 5;
    m.sequence = 32;
  } else if (kind == MANIFEST_DIFFERENCE) {
    m.encoding = ENCODING_F16;
    m.sequence = 33;
    m.payload_root = digest_filled(0x66);
    m.n_payload = 203530;
  } else {
    m.encoding = ENCODING_F32;
    m.sequence = 48;
    m.payload_root = digest_filled(0x66);
    m.n_payload = 407060;
    if (kind == MANIFEST_SUM) {
      m.mu = 2.375;
      m.chain = chain_start(&m.payload_root);
    } else {
      m.copy_root = digest_filled(0x77);
    }
  }
  struct identity *id = identity_sample();
  manifest_sign(&m, id);
  identity_free(id);
  return m;
}

static const enum manifest_kind kinds[] = {MANIFEST_NONE, MANIFEST_DIFFERENCE, MANIFEST_FULL, MANIFEST_SUM};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

START_TEST(golden) {
  static const char *const names[] = {"manifest_none", "manifest_difference", "manifest_full", "manifest_sum"};
  for (size_t i = 0; i < N_KINDS; i++) {
    struct manifest m = manifest_sample(kinds[i]);
    uint8_t bytes[MANIFEST_BYTES];
    manifest_write(&m, bytes);
    assert_golden(names[i], bytes, sizeof bytes);
  }
}
END_TEST

/* A copy stands where its update leads: at the chain after a difference, at that of a full one. */
START_TEST(of_a_copy) {
  const struct digest root = digest_filled(0x88);
  for (size_t i = 1; i < N_KINDS - 1; i++) { /* a sum has none: it is one */
    struct manifest update = manifest_sample(kinds[i]), copy = manifest_of_copy(&update, &root, 4000), back;
    struct digest after = kinds[i] == MANIFEST_FULL ? update.chain : chain_next(&update.chain, &update.payload_root);
    struct identity *id = identity_sample();
    uint8_t bytes[MANIFEST_BYTES];
    manifest_sign(&copy, id);
    identity_free(id);
    manifest_write(&copy, bytes);
    ck_assert_int_eq(manifest_read(bytes, sizeof bytes, &back), ERR_OK);
    ck_assert_int_eq(manifest_verify(&back), ERR_OK);
    ck_assert(back.kind == MANIFEST_FULL && back.encoding == ENCODING_F32 && back.n_payload == 4000);
    ck_assert(digest_equal(&back.chain, &after) && digest_equal(&back.payload_root, &root));
    ck_assert(manifest_compare_position(&back, &update) == 0 && digest_equal(&back.copy_root, &update.copy_root));
  }
}
END_TEST

START_TEST(written_and_read_back) {
  for (size_t i = 0; i < N_KINDS; i++) {
    struct manifest m = manifest_sample(kinds[i]), back;
    uint8_t bytes[MANIFEST_BYTES], again[MANIFEST_BYTES];
    manifest_write(&m, bytes);
    ck_assert_int_eq(manifest_read(bytes, sizeof bytes, &back), ERR_OK);
    ck_assert_int_eq(manifest_verify(&back), ERR_OK);
    ck_assert_int_eq(back.kind, m.kind);
    ck_assert_uint_eq(back.encoding, m.encoding);
    ck_assert_uint_eq(back.sequence, m.sequence);
    ck_assert_uint_eq(back.n_payload, m.n_payload);
    manifest_write(&back, again);
    ck_assert_mem_eq(again, bytes, sizeof bytes);
  }
}
END_TEST

/* Whatever bytes are accepted, they are the only encoding of what was read; and no flipped bit survives the signature,
 * each tried in one of the kinds. */
START_TEST(one_encoding_and_no_bit_may_flip) {
  for (size_t i = 0; i < N_KINDS; i++) {
    struct manifest m = manifest_sample(kinds[i]);
    uint8_t bytes[MANIFEST_BYTES], again[MANIFEST_BYTES];
    manifest_write(&m, bytes);
    for (size_t bit = 0; bit / 8 < MANIFEST_BYTES; bit++) {
      struct manifest back;
      bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
      if (manifest_read(bytes, sizeof bytes, &back) == ERR_OK) {
        manifest_write(&back, again);
        ck_assert_mem_eq(again, bytes, sizeof bytes);
        if (bit % N_KINDS == i)
          ck_assert_int_eq(manifest_verify(&back), ERR_SIGNATURE);
      }
      bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
  }
}
END_TEST

static void assert_refused(const uint8_t *bytes, size_t n, enum err expected, const char *what) {
  struct manifest out, untouched;
  memset(&out, 0xa5, sizeof out);
  memcpy(&untouched, &out, sizeof out);
  enum err e = manifest_read(bytes, n, &out);
  ck_assert_msg(e == expected, "%s: %s", what, err_name(e));
  ck_assert_mem_eq(&out, &untouched, sizeof out);
}

START_TEST(other_lengths_are_refused) {
  struct manifest m = manifest_sample(MANIFEST_FULL);
  uint8_t bytes[MANIFEST_BYTES + 1] = {0};
  manifest_write(&m, bytes);
  for (size_t n = 0; n < MANIFEST_BYTES; n++)
    assert_refused(bytes, n, ERR_TRUNCATED, "too short");
  assert_refused(bytes, MANIFEST_BYTES + 1, ERR_TRAILING, "too long");
}
END_TEST

START_TEST(every_rule_has_its_error) {
  static const struct {
    const char *what;
    enum manifest_kind kind;
    unsigned at;
    uint8_t value;
    enum err expected;
  } cases[] = {
      {"version 0", MANIFEST_FULL, AT_VERSION, 0, ERR_VERSION},
      {"version 2", MANIFEST_FULL, AT_VERSION, 2, ERR_VERSION},
      {"unknown kind", MANIFEST_FULL, AT_KIND, N_MANIFEST_KINDS, ERR_MESSAGE},
      {"unknown encoding", MANIFEST_FULL, AT_ENCODING, N_ENCODINGS, ERR_ENCODING},
      {"zero byte", MANIFEST_FULL, AT_ZERO, 1, ERR_MESSAGE},
      {"mu not 1", MANIFEST_FULL, AT_MU, 1, ERR_MESSAGE},
      {"mu infinite", MANIFEST_FULL, AT_MU + 7, 0x7f, ERR_MESSAGE},
      {"mu of a sum below 0", MANIFEST_SUM, AT_MU + 7, 0xc0, ERR_MASS},
      {"sum in another encoding", MANIFEST_SUM, AT_ENCODING, ENCODING_F16, ERR_ENCODING},
      {"sum of another chain", MANIFEST_SUM, AT_CHAIN, 1, ERR_CHAIN},
      {"copy root of a sum", MANIFEST_SUM, AT_COPY_ROOT, 1, ERR_MESSAGE},
      {"payload too long", MANIFEST_FULL, AT_LENGTH + 4, 1, ERR_LENGTH},
      {"copy root out of place", MANIFEST_DIFFERENCE, AT_COPY_ROOT, 1, ERR_MESSAGE},
      {"copy root of nothing", MANIFEST_NONE, AT_COPY_ROOT, 1, ERR_MESSAGE},
      {"root of nothing", MANIFEST_NONE, AT_PAYLOAD_ROOT, 1, ERR_MESSAGE},
      {"length of nothing", MANIFEST_NONE, AT_LENGTH, 1, ERR_LENGTH},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct manifest m = manifest_sample(cases[i].kind);
    uint8_t bytes[MANIFEST_BYTES];
    manifest_write(&m, bytes);
    bytes[cases[i].at] = cases[i].value;
    assert_refused(bytes, sizeof bytes, cases[i].expected, cases[i].what);
  }
}
END_TEST

START_TEST(mu_that_is_no_number_is_refused) {
  struct manifest m = manifest_sample(MANIFEST_FULL);
  uint8_t bytes[MANIFEST_BYTES];
  manifest_write(&m, bytes);
  memset(bytes + AT_MU, 0xff, 8);
  assert_refused(bytes, sizeof bytes, ERR_MESSAGE, "NaN");
  static const double no_masses[] = {NAN, INFINITY, -INFINITY, 0, -1};
  for (size_t i = 0; i < sizeof no_masses / sizeof *no_masses; i++) {
    struct manifest sum = manifest_sample(MANIFEST_SUM);
    sum.mu = no_masses[i];
    manifest_write(&sum, bytes);
    assert_refused(bytes, sizeof bytes, ERR_MASS, "no mass");
  }
}
END_TEST

START_TEST(every_unused_byte_must_be_zero) {
  struct manifest m = manifest_sample(MANIFEST_FULL);
  uint8_t bytes[MANIFEST_BYTES];
  manifest_write(&m, bytes);
  for (size_t i = AT_UNUSED; i < AT_SIGNATURE; i++) {
    bytes[i] = 1;
    assert_refused(bytes, sizeof bytes, ERR_MESSAGE, "unused");
    bytes[i] = 0;
  }
}
END_TEST

START_TEST(payload_lengths_have_bounds) {
  struct manifest m = manifest_sample(MANIFEST_FULL), out;
  uint8_t bytes[MANIFEST_BYTES];
  m.n_payload = (uint64_t)MAX_CHUNKS * CHUNK_BYTES;
  manifest_write(&m, bytes);
  ck_assert_int_eq(manifest_read(bytes, sizeof bytes, &out), ERR_OK);
  m.n_payload++;
  manifest_write(&m, bytes);
  assert_refused(bytes, sizeof bytes, ERR_LENGTH, "one more");
  m.n_payload = 0;
  manifest_write(&m, bytes);
  assert_refused(bytes, sizeof bytes, ERR_LENGTH, "empty");
}
END_TEST

START_TEST(only_the_origin_signs) {
  struct manifest m = manifest_sample(MANIFEST_FULL);
  struct identity *other = NULL;
  ck_assert_int_eq(identity_new(&other), ERR_OK);
  m.origin = *identity_public(other);
  ck_assert_int_eq(manifest_verify(&m), ERR_SIGNATURE);
  manifest_sign(&m, other);
  ck_assert_int_eq(manifest_verify(&m), ERR_OK);
  identity_free(other);
}
END_TEST

START_TEST(positions_are_ordered_by_epoch_then_sequence) {
  struct manifest a = {.boot_epoch = 1, .sequence = 9}, b = {.boot_epoch = 2, .sequence = 3};
  struct manifest c = {.boot_epoch = 2, .sequence = 4};
  ck_assert_int_lt(manifest_compare_position(&a, &b), 0);
  ck_assert_int_lt(manifest_compare_position(&b, &c), 0);
  ck_assert_int_gt(manifest_compare_position(&c, &a), 0);
  ck_assert_int_eq(manifest_compare_position(&b, &b), 0);
  a.boot_epoch = UINT64_MAX;
  ck_assert_int_gt(manifest_compare_position(&a, &b), 0);
}
END_TEST

START_TEST(golden_chain) {
  struct digest first = digest_filled(0x66), second = digest_filled(0x77);
  struct digest start = chain_start(&first);
  struct digest next = chain_next(&start, &second);
  assert_golden("chain_start", start.bytes, sizeof start.bytes);
  assert_golden("chain_next", next.bytes, sizeof next.bytes);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  return SUITE_RUN("crypto/manifest", golden, of_a_copy, written_and_read_back, one_encoding_and_no_bit_may_flip,
                   other_lengths_are_refused, every_rule_has_its_error, mu_that_is_no_number_is_refused,
                   every_unused_byte_must_be_zero, payload_lengths_have_bounds, only_the_origin_signs,
                   positions_are_ordered_by_epoch_then_sequence, golden_chain);
}
