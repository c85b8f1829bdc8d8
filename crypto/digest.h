/* The hashes of the program behind the base room's `struct digest_fn`: BLAKE2b-256 (RFC 7693), and the root of the Merkle tree
 * over 64 KiB chunks that it makes (crypto/merkle.h), which is several times as fast for what has more than two of them. The
 * tree names files; names of earlier versions are BLAKE2b-256 of the whole. At most MAX_CHUNKS chunks. Pure; any thread. */
#ifndef CRYPTO_DIGEST_H
#define CRYPTO_DIGEST_H

#include "base/digest.h"

extern const struct digest_fn digest_blake2b, digest_tree;

#endif
