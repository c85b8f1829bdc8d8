/* The signed job file. First byte: 0 the rest is one, 1 a mask over a signed one. What is read is canonical; only what its
 * proposer signed, to the bit, verifies. */
#include "crypto/job_file.h"

#include <string.h>

#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static const struct identity *proposer;
static uint8_t written[JOB_FILE_MAX_BYTES];

static size_t write_file(const struct job_file *f) {
  struct writer w;
  writer_init(&w, written, sizeof written);
  job_file_write(f, &w);
  MUST(writer_end(&w) == ERR_OK);
  return w.n_bytes;
}

static enum err read_signed(const uint8_t *bytes, size_t n) {
  struct job_file f;
  enum err e = job_file_read(bytes, n, &f);
  if (e != ERR_OK)
    return e;
  MUST(write_file(&f) == n && memcmp(written, bytes, n) == 0);
  return job_file_verify(&f);
}

static void feed_mask(struct cursor *input) {
  static uint8_t bytes[JOB_FILE_MAX_BYTES];
  struct job_file f = {.name = "inspection", .run_label = "a", .version = 2, .text = "job: inspection\n", .n_text = 16};
  job_file_sign(&f, proposer);
  size_t n = write_file(&f);
  memcpy(bytes, written, n);
  bool changed = mask_bytes(input, bytes, n);
  MUST((read_signed(bytes, n) == ERR_OK) != changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (proposer == NULL)
    proposer = identity_numbered(1);
  struct cursor input;
  cursor_init(&input, data, size);
  if (cursor_u8(&input) % 2 == 0)
    (void)read_signed(input.at, input.left); /* what is signed may come from the corpus */
  else
    feed_mask(&input);
  return 0;
}
