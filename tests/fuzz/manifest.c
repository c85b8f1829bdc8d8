/* The manifest. First byte: 0 the rest is one, 1 a mask over a signed one. What is read is canonical; only what its origin
 * signed, to the bit, verifies. */
#include "crypto/manifest.h"

#include <string.h>

#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static const struct identity *origin;

static enum err read_signed(const uint8_t *bytes, size_t n, struct manifest *out_manifest) {
  enum err e = manifest_read(bytes, n, out_manifest);
  if (e != ERR_OK)
    return e;
  uint8_t again[MANIFEST_BYTES];
  manifest_write(out_manifest, again);
  MUST(n == sizeof again && memcmp(again, bytes, n) == 0);
  return manifest_verify(out_manifest);
}

static void feed_own(const uint8_t *bytes, size_t n) {
  struct manifest m;
  uint8_t again[MANIFEST_BYTES];
  enum err e = read_signed(bytes, n, &m);
  if (e != ERR_OK && e != ERR_SIGNATURE)
    return;
  manifest_sign(&m, origin); /* what may be said may be signed */
  manifest_write(&m, again);
  MUST(read_signed(again, sizeof again, &m) == ERR_OK);
}

static void feed_mask(struct cursor *input) {
  struct manifest m = {.kind = MANIFEST_FULL, .sequence = 3, .round = 2, .samples = 10, .mu = 1, .n_payload = 400};
  uint8_t bytes[MANIFEST_BYTES];
  manifest_sign(&m, origin);
  manifest_write(&m, bytes);
  bool changed = mask_bytes(input, bytes, sizeof bytes);
  MUST((read_signed(bytes, sizeof bytes, &m) == ERR_OK) != changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (origin == NULL)
    origin = identity_numbered(1);
  struct cursor input;
  cursor_init(&input, data, size);
  if (cursor_u8(&input) % 2 == 0)
    feed_own(input.at, input.left);
  else
    feed_mask(&input);
  return 0;
}
