#include <string.h>

#include "crypto/job_file.h"
#include "crypto/random.h"
#include "tests/unit/crypto/vectors.h"
#include "tests/unit/suite.h"

static const char text[] = "job: inspection\nversion: 2\nrun_label: night\n";

enum { AT_JOB = 17, AT_PROPOSER = 49, AT_VERSION = 81, AT_NAME = 86, AT_LABEL = 97, AT_N_TEXT = 102, AT_TEXT = 104 };

static struct identity *identity_sample(uint8_t first) {
  uint8_t seed[IDENTITY_SEED_BYTES];
  struct identity *id = NULL;
  for (unsigned i = 0; i < sizeof seed; i++)
    seed[i] = (uint8_t)(first + i);
  ck_assert_int_eq(identity_from_seed(seed, &id), ERR_OK);
  return id;
}

/* The job file of tests/ref/manifest_twin.py, signed. */
static struct job_file sample(void) {
  struct job_file f = {.swarm = swarm_id("k3vz-7qd2"),
                       .name = "inspection",
                       .run_label = "night",
                       .version = 2,
                       .text = text,
                       .n_text = sizeof text - 1};
  struct identity *id = identity_sample(0);
  job_file_sign(&f, id);
  identity_free(id);
  return f;
}

static size_t bytes_of(const struct job_file *f, uint8_t out[JOB_FILE_MAX_BYTES]) {
  struct writer w;
  writer_init(&w, out, JOB_FILE_MAX_BYTES);
  job_file_write(f, &w);
  ck_assert_int_eq(writer_end(&w), ERR_OK);
  return w.n_bytes;
}

static uint8_t bytes[JOB_FILE_MAX_BYTES + 1], again[JOB_FILE_MAX_BYTES];

START_TEST(golden) {
  struct job_file f = sample();
  size_t n = bytes_of(&f, bytes);
  assert_golden("job_file", bytes, n);
  ck_assert_mem_eq(bytes + AT_NAME, "inspection", 10);
  ck_assert_mem_eq(bytes + AT_LABEL, "night", 5);
  ck_assert_mem_eq(bytes + AT_TEXT, text, sizeof text - 1);
}
END_TEST

START_TEST(written_and_read_back) {
  struct job_file f = sample(), back;
  size_t n = bytes_of(&f, bytes);
  ck_assert_int_eq(job_file_read(bytes, n, &back), ERR_OK);
  ck_assert_int_eq(job_file_verify(&back), ERR_OK);
  ck_assert_str_eq(back.name, "inspection");
  ck_assert_str_eq(back.run_label, "night");
  ck_assert_uint_eq(back.version, 2);
  ck_assert_uint_eq(back.n_text, sizeof text - 1);
  ck_assert_uint_eq(bytes_of(&back, again), n);
  ck_assert_mem_eq(again, bytes, n);
}
END_TEST

/* Every accepted string of bytes is the only encoding of what was read, and no flipped bit survives. */
START_TEST(one_encoding_and_no_bit_may_flip) {
  struct job_file f = sample(), back;
  size_t n = bytes_of(&f, bytes);
  for (size_t bit = 0; bit / 8 < n; bit++) {
    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    if (job_file_read(bytes, n, &back) == ERR_OK) {
      ck_assert_uint_eq(bytes_of(&back, again), n);
      ck_assert_mem_eq(again, bytes, n);
      ck_assert_int_eq(job_file_verify(&back), ERR_SIGNATURE);
    }
    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
}
END_TEST

START_TEST(cut_or_longer_is_refused) {
  struct job_file f = sample(), back;
  size_t n = bytes_of(&f, bytes);
  for (size_t k = 0; k < n; k++)
    ck_assert_int_ne(job_file_read(bytes, k, &back), ERR_OK);
  ck_assert_int_eq(job_file_read(bytes, n + 1, &back), ERR_TRAILING);
}
END_TEST

/* One byte changed to what has no meaning there. */
START_TEST(values_without_meaning_are_refused) {
  static const struct {
    size_t at;
    uint8_t value;
    enum err expected;
  } wrong[] = {
      {0, 2, ERR_VERSION},
      {AT_JOB, 0, ERR_JOB},
      {AT_VERSION, 0, ERR_MESSAGE},
      {AT_VERSION, 3, ERR_JOB},
      {AT_NAME, '/', ERR_MESSAGE},
      {AT_NAME, 0, ERR_MESSAGE},
      {AT_NAME + 1, 'N', ERR_JOB},
      {AT_LABEL, ' ', ERR_MESSAGE},
      {AT_LABEL, 'N', ERR_JOB},
      {AT_TEXT, 0, ERR_MESSAGE},
      {AT_TEXT, 0x1b, ERR_MESSAGE},
      {AT_TEXT, 0x7f, ERR_MESSAGE},
      {AT_N_TEXT + 1, 0xff, ERR_LENGTH},
  };
  struct job_file f = sample(), back;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    size_t n = bytes_of(&f, bytes);
    ck_assert_uint_ne(bytes[wrong[i].at], wrong[i].value);
    bytes[wrong[i].at] = wrong[i].value;
    enum err e = job_file_read(bytes, n, &back);
    ck_assert_msg(e == wrong[i].expected, "case %zu: %s", i, err_name(e));
  }
}
END_TEST

START_TEST(the_longest_fits_and_one_more_does_not) {
  static char long_text[MAX_JOB_TEXT_BYTES];
  memset(long_text, 'x', sizeof long_text);
  struct identity *id = identity_sample(0);
  struct job_file f = {.version = 1, .text = long_text, .n_text = sizeof long_text}, back;
  memset(f.name, 'n', MAX_NAME_BYTES - 1);
  memset(f.run_label, 'l', MAX_NAME_BYTES - 1);
  job_file_sign(&f, id);
  size_t n = bytes_of(&f, bytes);
  ck_assert_uint_le(n, MAX_FRAME_PLAIN_BYTES);
  ck_assert_int_eq(job_file_read(bytes, n, &back), ERR_OK);
  ck_assert_int_eq(job_file_verify(&back), ERR_OK);
  size_t at = n - SIGNATURE_BYTES - sizeof long_text - 2;
  ck_assert_uint_eq(bytes[at] | bytes[at + 1] << 8, MAX_JOB_TEXT_BYTES);
  bytes[at]++;
  ck_assert_int_eq(job_file_read(bytes, n + 1, &back), ERR_LENGTH);
  identity_free(id);
}
END_TEST

START_TEST(who_did_not_sign_is_no_proposer) {
  struct job_file f = sample();
  struct identity *other = identity_sample(99);
  f.proposer = *identity_public(other);
  ck_assert_int_eq(job_file_verify(&f), ERR_SIGNATURE);
  f = sample();
  f.swarm = swarm_id("another");
  ck_assert_int_eq(job_file_verify(&f), ERR_SIGNATURE);
  identity_free(other);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  return SUITE_RUN("crypto/job_file", golden, written_and_read_back, one_encoding_and_no_bit_may_flip,
                   cut_or_longer_is_refused, values_without_meaning_are_refused, the_longest_fits_and_one_more_does_not,
                   who_did_not_sign_is_no_proposer);
}
