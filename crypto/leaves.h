/* Merkle leaves of several chunks at once: BLAKE2b-256 (RFC 7693) in the lanes of vector registers, eight with AVX-512, four
 * with AVX2, several times as fast as one after the other. Whatever is sent, received or stored is hashed, and hashing is the
 * dearest thing that happens to its bytes. The results are those of merkle_leaf. Pure; any thread. */
#ifndef CRYPTO_LEAVES_H
#define CRYPTO_LEAVES_H

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/limits.h"

enum { MAX_LEAVES_AT_ONCE = 8 };

struct leaves_kernel {
  const char *name;
  size_t at_once;
  /* Of n_bytes, 1 … at_once · CHUNK_BYTES: whole chunks that follow each other, the last one may be shorter. A call takes
   * about as long for one chunk as for at_once. */
  void (*hash)(const uint8_t *chunks, size_t n_bytes, struct digest *out_leaves);
};

/* Those that this CPU has, the fastest first; none where it has none. */
const struct leaves_kernel *leaves_kernels(size_t *out_n);

#endif
