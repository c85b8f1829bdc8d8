#include "crypto/digest.h"

#include <sodium.h>

#include "crypto/merkle.h"

_Static_assert(sizeof(crypto_generichash_state) <= DIGEST_STATE_BYTES, "the base room reserves enough");
_Static_assert(_Alignof(crypto_generichash_state) <= _Alignof(struct digest_state), "and aligns it");

static crypto_generichash_state *blake2b_state(struct digest_state *state) {
  return (crypto_generichash_state *)(void *)state->opaque;
}

static void blake2b_init(struct digest_state *state) {
  crypto_generichash_init(blake2b_state(state), NULL, 0, DIGEST_BYTES);
}

static void blake2b_add(struct digest_state *state, const void *bytes, size_t n_bytes) {
  if (n_bytes > 0)
    crypto_generichash_update(blake2b_state(state), bytes, n_bytes);
}

static void blake2b_end(struct digest_state *state, struct digest *out_digest) {
  crypto_generichash_final(blake2b_state(state), out_digest->bytes, DIGEST_BYTES);
}

static void blake2b_whole(const void *bytes, size_t n_bytes, struct digest *out_digest) {
  crypto_generichash(out_digest->bytes, DIGEST_BYTES, bytes, n_bytes, NULL, 0);
}

const struct digest_fn digest_blake2b = {
    .init = blake2b_init, .add = blake2b_add, .end = blake2b_end, .whole = blake2b_whole};

/* ---- the tree ----------------------------------------------------------------------------------------------------- */

struct tree {
  struct merkle merkle;
  crypto_generichash_state leaf; /* the chunk that has begun */
  size_t n_leaf;                 /* its bytes so far, < CHUNK_BYTES; 0: none has begun */
};

_Static_assert(sizeof(struct tree) <= DIGEST_STATE_BYTES, "the base room reserves enough");
_Static_assert(_Alignof(struct tree) <= _Alignof(struct digest_state), "and aligns it");

static struct tree *tree_of(struct digest_state *state) {
  return (struct tree *)(void *)state->opaque;
}

static void tree_init(struct digest_state *state) {
  struct tree *t = tree_of(state);
  merkle_init(&t->merkle, &digest_blake2b);
  t->n_leaf = 0;
}

static void leaf_end(struct tree *t) {
  struct digest leaf;
  crypto_generichash_final(&t->leaf, leaf.bytes, DIGEST_BYTES);
  merkle_add_leaf(&t->merkle, &leaf);
  t->n_leaf = 0;
}

/* As much as the chunk that has begun takes; a new one begins where none has. */
static size_t leaf_add(struct tree *t, const uint8_t *bytes, size_t n_bytes) {
  static const uint8_t tag = 0;
  size_t n = n_bytes < CHUNK_BYTES - t->n_leaf ? n_bytes : CHUNK_BYTES - t->n_leaf;
  if (t->n_leaf == 0) {
    crypto_generichash_init(&t->leaf, NULL, 0, DIGEST_BYTES);
    crypto_generichash_update(&t->leaf, &tag, sizeof tag);
  }
  crypto_generichash_update(&t->leaf, bytes, n);
  t->n_leaf += n;
  if (t->n_leaf == CHUNK_BYTES)
    leaf_end(t);
  return n;
}

static void tree_add(struct digest_state *state, const void *bytes, size_t n_bytes) {
  struct tree *t = tree_of(state);
  for (size_t at = 0; at < n_bytes;) {
    size_t n_whole = t->n_leaf == 0 ? (n_bytes - at) / CHUNK_BYTES * CHUNK_BYTES : 0;
    merkle_add(&t->merkle, (const uint8_t *)bytes + at, n_whole);
    at += n_whole;
    if (at < n_bytes)
      at += leaf_add(t, (const uint8_t *)bytes + at, n_bytes - at);
  }
}

static void tree_end(struct digest_state *state, struct digest *out_digest) {
  struct tree *t = tree_of(state);
  if (t->n_leaf > 0)
    leaf_end(t);
  merkle_end(&t->merkle, out_digest);
}

static void tree_whole(const void *bytes, size_t n_bytes, struct digest *out_digest) {
  merkle_root(&digest_blake2b, bytes, n_bytes, out_digest);
}

const struct digest_fn digest_tree = {
    .init = tree_init, .add = tree_add, .end = tree_end, .whole = tree_whole, .before = &digest_blake2b};
