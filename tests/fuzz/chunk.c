/* The tree over a payload's chunks: leaves u16, the index that is claimed u16, then a mask over that leaf and its proof,
 * and over the proof's length. A proof holds only for the leaf, the place and the siblings that it was made for. And the
 * leaves of several chunks at once, filled with the input, are those of one after the other. */
#include "crypto/merkle.h"

#include <string.h>

#include "base/must.h"
#include "crypto/digest.h"
#include "crypto/leaves.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

enum { MAX_LEAVES = 70 };

static void check_proof(struct cursor *input) {
  struct digest leaves[MAX_LEAVES], root, leaf;
  struct merkle_proof proof = {0};
  size_t n = 1 + cursor_u16(input) % MAX_LEAVES, index = cursor_u16(input), place = index % n;
  struct merkle m;
  merkle_init(&m, &digest_blake2b);
  for (size_t i = 0; i < n; i++) {
    merkle_leaf(&digest_blake2b, &i, sizeof i, &leaves[i]);
    merkle_add(&m, &i, sizeof i);
  }
  merkle_end(&m, &root);
  merkle_prove(&digest_blake2b, leaves, n, place, &proof);
  leaf = leaves[place];
  size_t used = proof.n_siblings * sizeof *proof.siblings;
  bool changed = mask_bytes(input, leaf.bytes, sizeof leaf.bytes);
  changed |= mask_bytes(input, (uint8_t *)proof.siblings, used);
  changed |= mask_bytes(input, &proof.n_siblings, 1);
  MUST((merkle_verify(&digest_blake2b, &root, n, index, &leaf, &proof) == ERR_OK) == (!changed && index == place));
}

static void check_leaves(const uint8_t *data, size_t size) {
  static uint8_t chunks[MAX_LEAVES_AT_ONCE * CHUNK_BYTES];
  struct digest one, several[MAX_LEAVES_AT_ONCE];
  size_t n_kernels;
  const struct leaves_kernel *kernels = leaves_kernels(&n_kernels);
  for (size_t i = 0; n_kernels > 0 && i < sizeof chunks; i++)
    chunks[i] = (uint8_t)(data[i % size] + i / size);
  for (size_t k = 0; k < n_kernels; k++) {
    size_t n = kernels[k].at_once * CHUNK_BYTES - data[0] % CHUNK_BYTES;
    kernels[k].hash(chunks, n, several);
    for (size_t i = 0; i * CHUNK_BYTES < n; i++) {
      size_t left = n - i * CHUNK_BYTES;
      merkle_leaf(&digest_blake2b, chunks + i * CHUNK_BYTES, left < CHUNK_BYTES ? left : CHUNK_BYTES, &one);
      MUST(memcmp(&one, &several[i], sizeof one) == 0);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct cursor input;
  cursor_init(&input, data, size);
  check_proof(&input);
  if (size > 0 && size % 8 == 0) /* dearer than all else here */
    check_leaves(data, size);
  return 0;
}
