#include "crypto/merkle.h"

#include <string.h>

#include "base/must.h"
#include "crypto/digest.h"
#include "crypto/leaves.h"

uint64_t merkle_n_chunks(uint64_t n_bytes) {
  return n_bytes == 0 ? 1 : (n_bytes - 1) / CHUNK_BYTES + 1;
}

void merkle_leaf(const struct digest_fn *fn, const void *chunk, size_t n, struct digest *out_leaf) {
  static const uint8_t tag = 0;
  struct digest_state state;
  fn->init(&state);
  fn->add(&state, &tag, sizeof tag);
  fn->add(&state, chunk, n);
  fn->end(&state, out_leaf);
}

static struct digest merkle_node(const struct digest_fn *fn, const struct digest *left, const struct digest *right) {
  static const uint8_t tag = 1;
  struct digest node;
  struct digest_state state;
  fn->init(&state);
  fn->add(&state, &tag, sizeof tag);
  fn->add(&state, left->bytes, DIGEST_BYTES);
  fn->add(&state, right->bytes, DIGEST_BYTES);
  fn->end(&state, &node);
  return node;
}

void merkle_init(struct merkle *m, const struct digest_fn *fn) {
  *m = (struct merkle){.fn = fn};
}

/* One full subtree stands on the stack for each one bit of n_leaves; adding a leaf carries like adding one. */
void merkle_add_leaf(struct merkle *m, const struct digest *leaf) {
  MUST(m->n_leaves < MAX_CHUNKS);
  unsigned top = (unsigned)__builtin_popcount(m->n_leaves);
  struct digest node = *leaf;
  for (uint32_t bits = m->n_leaves; bits & 1; bits >>= 1)
    node = merkle_node(m->fn, &m->stack[--top], &node);
  m->stack[top] = node;
  m->n_leaves++;
}

/* What several lanes take at once, as long as they are faster: from three chunks on. Returns the bytes done. */
static size_t merkle_add_lanes(struct merkle *m, const uint8_t *chunks, size_t n_bytes) {
  enum { WORTH_BYTES = 2 * CHUNK_BYTES };
  struct digest leaves[MAX_LEAVES_AT_ONCE];
  size_t n_kernels, done = 0;
  const struct leaves_kernel *kernel = leaves_kernels(&n_kernels);
  while (m->fn == &digest_blake2b && n_kernels > 0 && n_bytes - done > WORTH_BYTES) {
    size_t most = kernel->at_once * CHUNK_BYTES, n = n_bytes - done < most ? n_bytes - done : most;
    kernel->hash(chunks + done, n, leaves);
    for (size_t i = 0; i * CHUNK_BYTES < n; i++)
      merkle_add_leaf(m, &leaves[i]);
    done += n;
  }
  return done;
}

void merkle_add(struct merkle *m, const void *chunks, size_t n_bytes) {
  struct digest leaf;
  for (size_t at = merkle_add_lanes(m, chunks, n_bytes); at < n_bytes; at += CHUNK_BYTES) {
    merkle_leaf(m->fn, (const uint8_t *)chunks + at, n_bytes - at < CHUNK_BYTES ? n_bytes - at : CHUNK_BYTES, &leaf);
    merkle_add_leaf(m, &leaf);
  }
}

void merkle_end(struct merkle *m, struct digest *out_root) {
  struct digest empty;
  if (m->n_leaves == 0) {
    merkle_leaf(m->fn, "", 0, &empty);
    merkle_add_leaf(m, &empty);
  }
  unsigned top = (unsigned)__builtin_popcount(m->n_leaves);
  struct digest node = m->stack[--top];
  while (top > 0)
    node = merkle_node(m->fn, &m->stack[--top], &node);
  *out_root = node;
}

void merkle_root(const struct digest_fn *fn, const void *bytes, size_t n, struct digest *out_root) {
  struct merkle m;
  merkle_init(&m, fn);
  merkle_add(&m, bytes, n);
  merkle_end(&m, out_root);
}

static struct digest subtree_root(const struct digest_fn *fn, const struct digest *leaves, size_t n_leaves) {
  struct digest root;
  struct merkle m;
  merkle_init(&m, fn);
  for (size_t i = 0; i < n_leaves; i++)
    merkle_add_leaf(&m, &leaves[i]);
  merkle_end(&m, &root);
  return root;
}

/* The left subtree holds the largest power of two below n leaves, n ≥ 2. */
static size_t left_size(size_t n) {
  size_t size = 1;
  while (size * 2 < n)
    size *= 2;
  return size;
}

void merkle_prove(const struct digest_fn *fn, const struct digest *leaves, size_t n_leaves, size_t index,
                  struct merkle_proof *out_proof) {
  MUST(n_leaves >= 1 && n_leaves <= MAX_CHUNKS && index < n_leaves);
  struct digest downwards[MERKLE_MAX_DEPTH];
  unsigned n = 0;
  while (n_leaves > 1) {
    size_t left = left_size(n_leaves);
    if (index < left) {
      downwards[n++] = subtree_root(fn, leaves + left, n_leaves - left);
      n_leaves = left;
    } else {
      downwards[n++] = subtree_root(fn, leaves, left);
      leaves += left;
      index -= left;
      n_leaves -= left;
    }
  }
  out_proof->n_siblings = (uint8_t)n;
  for (unsigned i = 0; i < n; i++)
    out_proof->siblings[i] = downwards[n - 1 - i];
}

enum err merkle_verify(const struct digest_fn *fn, const struct digest *root, size_t n_leaves, size_t index,
                       const struct digest *leaf, const struct merkle_proof *proof) {
  if (n_leaves > MAX_CHUNKS || index >= n_leaves || proof->n_siblings > MERKLE_MAX_DEPTH)
    return ERR_ROOT;
  struct digest node = *leaf;
  unsigned used = 0;
  for (size_t last = n_leaves - 1; last > 0; last /= 2, index /= 2) {
    bool is_right = index % 2 == 1;
    if (index == last && !is_right)
      continue; /* odd, promoted */
    if (used == proof->n_siblings)
      return ERR_ROOT;
    const struct digest *sibling = &proof->siblings[used++];
    node = is_right ? merkle_node(fn, sibling, &node) : merkle_node(fn, &node, sibling);
  }
  return used == proof->n_siblings && digest_equal(&node, root) ? ERR_OK : ERR_ROOT;
}
