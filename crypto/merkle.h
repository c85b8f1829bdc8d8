/* The Merkle tree over a payload's chunks of CHUNK_BYTES (the last one may be shorter).
 *
 *   leaf = H(0 ‖ chunk)    node = H(1 ‖ left ‖ right)    an odd node is promoted to the next level as it is
 *
 * which is the tree of RFC 6962, section 2.1. An empty payload is one empty chunk: its root is H(0). The root alone
 * binds contents, not length; the manifest that carries it states the length. Pure; any thread. */
#ifndef CRYPTO_MERKLE_H
#define CRYPTO_MERKLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/limits.h"

enum { MERKLE_MAX_DEPTH = 16 /* 2^16 = MAX_CHUNKS leaves */ };

/* 1 for an empty payload. */
uint64_t merkle_n_chunks(uint64_t n_bytes);

/* The root of a payload in memory. n ≤ MAX_CHUNKS · CHUNK_BYTES. */
void merkle_root(const struct digest_fn *fn, const void *bytes, size_t n, struct digest *out_root);

/* The root of a payload that is read piece by piece: add the leaves in order. */
struct merkle {
  const struct digest_fn *fn;
  uint32_t n_leaves;
  struct digest
      stack[MERKLE_MAX_DEPTH + 1]; /* roots of the full subtrees so far, largest first: the ones of n_leaves */
};

void merkle_init(struct merkle *m, const struct digest_fn *fn);

/* The next chunks, which follow each other; all but the last one of all have CHUNK_BYTES; at most MAX_CHUNKS. */
void merkle_add(struct merkle *m, const void *chunks, size_t n_bytes);
void merkle_add_leaf(struct merkle *m, const struct digest *leaf);
void merkle_end(struct merkle *m, struct digest *out_root);

void merkle_leaf(const struct digest_fn *fn, const void *chunk, size_t n, struct digest *out_leaf);

/* The siblings on the way from leaf `index` to the root, lowest first. */
struct merkle_proof {
  uint8_t n_siblings;
  struct digest siblings[MERKLE_MAX_DEPTH];
};

/* From all leaves, 1 … MAX_CHUNKS; index < n_leaves. */
void merkle_prove(const struct digest_fn *fn, const struct digest *leaves, size_t n_leaves, size_t index,
                  struct merkle_proof *out_proof);

/* ERR_ROOT: `leaf` is not the leaf `index` of the n_leaves under this root, or the proof has not exactly the length
 * that its place in the tree demands. Any input. */
MUST_USE enum err merkle_verify(const struct digest_fn *fn, const struct digest *root, size_t n_leaves, size_t index,
                                const struct digest *leaf, const struct merkle_proof *proof);

#endif
