#include "crypto/digest.h"
#include "crypto/leaves.h"
#include "crypto/merkle.h"
#include "tests/unit/crypto/vectors.h"
#include "tests/unit/suite.h"

enum { MAX_TEST_CHUNKS = 40 };

static uint8_t *pattern_new(size_t n) {
  uint8_t *bytes = malloc(n + 1);
  ck_assert_ptr_nonnull(bytes);
  for (size_t i = 0; i < n; i++)
    bytes[i] = (uint8_t)(i * 7 + i / CHUNK_BYTES);
  return bytes;
}

START_TEST(golden_roots) {
  static const size_t sizes[] = {0,
                                 1,
                                 CHUNK_BYTES - 1,
                                 CHUNK_BYTES,
                                 CHUNK_BYTES + 1,
                                 2 * CHUNK_BYTES + 17,
                                 3 * CHUNK_BYTES + 17,
                                 4 * CHUNK_BYTES + 17,
                                 5 * CHUNK_BYTES + 17,
                                 6 * CHUNK_BYTES + 17,
                                 7 * CHUNK_BYTES + 17,
                                 8 * CHUNK_BYTES + 17,
                                 39 * CHUNK_BYTES + 5};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint8_t *bytes = pattern_new(sizes[i]);
    struct digest root;
    char name[32];
    snprintf(name, sizeof name, "root_%zu", sizes[i]);
    merkle_root(&digest_blake2b, bytes, sizes[i], &root);
    assert_golden(name, root.bytes, sizeof root.bytes);
    free(bytes);
  }
}
END_TEST

START_TEST(chunks_are_counted) {
  ck_assert_uint_eq(merkle_n_chunks(0), 1);
  ck_assert_uint_eq(merkle_n_chunks(1), 1);
  ck_assert_uint_eq(merkle_n_chunks(CHUNK_BYTES), 1);
  ck_assert_uint_eq(merkle_n_chunks(CHUNK_BYTES + 1), 2);
  ck_assert_uint_eq(merkle_n_chunks((uint64_t)CHUNK_BYTES * MAX_CHUNKS), MAX_CHUNKS);
  ck_assert_uint_eq(merkle_n_chunks(UINT64_MAX), (uint64_t)1 << 48);
}
END_TEST

START_TEST(an_empty_payload_is_one_empty_chunk) {
  struct digest whole, leaf, streamed;
  struct merkle m;
  merkle_root(&digest_blake2b, NULL, 0, &whole);
  merkle_leaf(&digest_blake2b, NULL, 0, &leaf);
  merkle_init(&m, &digest_blake2b);
  merkle_end(&m, &streamed);
  ck_assert(digest_equal(&whole, &leaf));
  ck_assert(digest_equal(&whole, &streamed));
}
END_TEST

/* Each kernel, from every kind of end that a message can have, at both kinds of addresses. */
START_TEST(leaves_at_once_are_the_leaves) {
  static const size_t tails[] = {1, 126, 127, 128, 129, 254, 255, 256, CHUNK_BYTES - 128, CHUNK_BYTES - 1, CHUNK_BYTES};
  struct digest leaves[MAX_LEAVES_AT_ONCE], leaf;
  size_t n_kernels, n = (size_t)MAX_LEAVES_AT_ONCE * CHUNK_BYTES;
  const struct leaves_kernel *kernels = leaves_kernels(&n_kernels);
  uint8_t *bytes = pattern_new(n + 1);
  uint32_t x = 1;
  for (size_t i = 0; i < n + 1; i++) {
    x = x * 1664525u + 1013904223u;
    bytes[i] = (uint8_t)(x >> 24);
  }
  for (size_t k = 0; k < n_kernels; k++)
    for (size_t whole = 0; whole < kernels[k].at_once; whole++)
      for (size_t t = whole % 2; t < sizeof tails / sizeof *tails; t += 2) {
        const uint8_t *chunks = bytes + t % 3 / 2;
        kernels[k].hash(chunks, whole * CHUNK_BYTES + tails[t], leaves);
        for (size_t i = 0; i <= whole; i++) {
          merkle_leaf(&digest_blake2b, chunks + i * CHUNK_BYTES, i < whole ? CHUNK_BYTES : tails[t], &leaf);
          ck_assert_msg(digest_equal(&leaf, &leaves[i]), "%s: %zu chunks and %zu bytes, leaf %zu", kernels[k].name,
                        whole, tails[t], i);
        }
      }
  free(bytes);
}
END_TEST

/* In pieces of any size the tree's digest is the root. */
START_TEST(the_tree_is_a_digest) {
  static const size_t sizes[] = {0, 1, CHUNK_BYTES, (size_t)3 * CHUNK_BYTES, (size_t)11 * CHUNK_BYTES + 7};
  static const size_t pieces[] = {1000, CHUNK_BYTES, CHUNK_BYTES + 1, (size_t)5 * CHUNK_BYTES - 3,
                                  (size_t)20 * CHUNK_BYTES};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint8_t *bytes = pattern_new(sizes[i]);
    struct digest root, streamed, whole = digest_of(&digest_tree, bytes, sizes[i]);
    merkle_root(&digest_blake2b, bytes, sizes[i], &root);
    ck_assert(digest_equal(&whole, &root));
    for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
      struct digest_state state;
      digest_tree.init(&state);
      for (size_t at = 0; at < sizes[i]; at += pieces[k])
        digest_tree.add(&state, bytes + at, sizes[i] - at < pieces[k] ? sizes[i] - at : pieces[k]);
      digest_tree.end(&state, &streamed);
      ck_assert(digest_equal(&streamed, &root));
    }
    free(bytes);
  }
}
END_TEST

static void leaves_fill(struct digest *leaves, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint8_t chunk = (uint8_t)i;
    merkle_leaf(&digest_blake2b, &chunk, 1, &leaves[i]);
  }
}

static struct digest streamed_root(size_t n) {
  struct digest root;
  struct merkle m;
  merkle_init(&m, &digest_blake2b);
  for (size_t i = 0; i < n; i++) {
    uint8_t chunk = (uint8_t)i;
    merkle_add(&m, &chunk, 1);
  }
  merkle_end(&m, &root);
  return root;
}

START_TEST(every_leaf_is_proved) {
  struct digest leaves[MAX_TEST_CHUNKS];
  struct merkle_proof proof;
  leaves_fill(leaves, MAX_TEST_CHUNKS);
  for (size_t n = 1; n <= MAX_TEST_CHUNKS; n++) {
    struct digest root = streamed_root(n);
    for (size_t i = 0; i < n; i++) {
      merkle_prove(&digest_blake2b, leaves, n, i, &proof);
      ck_assert_uint_le(proof.n_siblings, 6);
      ck_assert_int_eq(merkle_verify(&digest_blake2b, &root, n, i, &leaves[i], &proof), ERR_OK);
    }
  }
}
END_TEST

START_TEST(no_other_leaf_index_or_count_is_proved) {
  struct digest leaves[MAX_TEST_CHUNKS];
  struct merkle_proof proof;
  leaves_fill(leaves, MAX_TEST_CHUNKS);
  for (size_t n = 2; n <= 20; n++) {
    struct digest root = streamed_root(n);
    for (size_t i = 0; i < n; i++) {
      merkle_prove(&digest_blake2b, leaves, n, i, &proof);
      for (size_t j = 0; j < MAX_TEST_CHUNKS; j++) {
        if (j != i)
          ck_assert_int_eq(merkle_verify(&digest_blake2b, &root, n, i, &leaves[j], &proof), ERR_ROOT);
        if (j != i)
          ck_assert_int_eq(merkle_verify(&digest_blake2b, &root, n, j, &leaves[i], &proof), ERR_ROOT);
      }
    }
  }
}
END_TEST

START_TEST(damaged_proofs_are_refused) {
  struct digest leaves[13], root = streamed_root(13);
  struct merkle_proof proof;
  leaves_fill(leaves, 13);
  merkle_prove(&digest_blake2b, leaves, 13, 5, &proof);
  ck_assert_uint_eq(proof.n_siblings, 4);
  for (size_t bit = 0; bit / 256 < 4; bit++) {
    uint8_t *byte = &proof.siblings[bit / 256].bytes[bit % 256 / 8];
    *byte ^= (uint8_t)(1u << bit % 8);
    ck_assert_int_eq(merkle_verify(&digest_blake2b, &root, 13, 5, &leaves[5], &proof), ERR_ROOT);
    *byte ^= (uint8_t)(1u << bit % 8);
  }
  for (unsigned n = 0; n < 256; n++) {
    proof.n_siblings = (uint8_t)n;
    ck_assert_int_eq(merkle_verify(&digest_blake2b, &root, 13, 5, &leaves[5], &proof), n == 4 ? ERR_OK : ERR_ROOT);
  }
  proof.n_siblings = 4;
  ck_assert_int_eq(merkle_verify(&digest_blake2b, &root, MAX_CHUNKS + 1, 5, &leaves[5], &proof), ERR_ROOT);
  ck_assert_int_eq(merkle_verify(&digest_blake2b, &root, 13, 13, &leaves[5], &proof), ERR_ROOT);
  ck_assert_int_eq(merkle_verify(&digest_blake2b, &root, 0, 0, &leaves[5], &proof), ERR_ROOT);
}
END_TEST

/* A node's preimage is not a chunk's: a leaf and an inner node never collide. */
START_TEST(an_inner_node_is_no_leaf) {
  struct digest leaves[2], root = streamed_root(2), forged;
  leaves_fill(leaves, 2);
  merkle_leaf(&digest_blake2b, leaves, sizeof leaves, &forged);
  ck_assert(!digest_equal(&forged, &root));
}
END_TEST

START_TEST(the_largest_tree) {
  static struct digest leaves[MAX_CHUNKS];
  struct digest root = streamed_root(MAX_CHUNKS);
  struct merkle_proof proof;
  leaves_fill(leaves, MAX_CHUNKS);
  merkle_prove(&digest_blake2b, leaves, MAX_CHUNKS, 40000, &proof);
  ck_assert_uint_eq(proof.n_siblings, MERKLE_MAX_DEPTH);
  ck_assert_int_eq(merkle_verify(&digest_blake2b, &root, MAX_CHUNKS, 40000, &leaves[40000], &proof), ERR_OK);
}
END_TEST

int main(void) {
  return SUITE_RUN("crypto/merkle", golden_roots, chunks_are_counted, an_empty_payload_is_one_empty_chunk,
                   leaves_at_once_are_the_leaves, the_tree_is_a_digest, every_leaf_is_proved,
                   no_other_leaf_index_or_count_is_proved, damaged_proofs_are_refused, an_inner_node_is_no_leaf,
                   the_largest_tree);
}
