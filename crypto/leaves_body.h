/* The lanes of crypto/leaves.c for one instruction set, which says before it includes this:
 *
 *   N_LANES             lanes of a vector
 *   TARGET              the attribute of a function that may use it
 *   NAME(x)             x with the set's name
 *   words_load          word w of every lane's block, from the blocks as they lie in memory
 *   TURN_n(v)           every lane turned right by n = 32, 24, 16, 63 bits */

typedef uint64_t NAME(vector) __attribute__((vector_size(8 * N_LANES)));

/* A lane's message is the tag 0 and its chunk, cut into blocks; the last one is filled up with zeros. */
struct NAME(lane) {
  const uint8_t *chunk;
  size_t n_message, n_blocks;
  uint8_t first[BLOCK_BYTES], last[BLOCK_BYTES];
};

static void NAME(lane_init)(struct NAME(lane) * lane, const uint8_t *chunk, size_t n) {
  lane->chunk = chunk;
  lane->n_message = n + 1;
  lane->n_blocks = n / BLOCK_BYTES + 1;
  memset(lane->first, 0, BLOCK_BYTES);
  memset(lane->last, 0, BLOCK_BYTES);
  if (lane->n_blocks == 1) {
    memcpy(lane->last + 1, chunk, n);
    return;
  }
  size_t before = (lane->n_blocks - 1) * BLOCK_BYTES;
  memcpy(lane->first + 1, chunk, BLOCK_BYTES - 1);
  memcpy(lane->last, chunk + before - 1, lane->n_message - before);
}

static inline const uint8_t *NAME(lane_block)(const struct NAME(lane) * lane, size_t i) {
  if (i + 1 >= lane->n_blocks)
    return lane->last;
  return i == 0 ? lane->first : lane->chunk + i * BLOCK_BYTES - 1;
}

/* G of RFC 7693, section 3.1, in every lane. */
#define MIX(a, b, c, d, x, y)                                                                                          \
  do {                                                                                                                 \
    v[a] += v[b] + (x);                                                                                                \
    v[d] = TURN_32(v[d] ^ v[a]);                                                                                       \
    v[c] += v[d];                                                                                                      \
    v[b] = TURN_24(v[b] ^ v[c]);                                                                                       \
    v[a] += v[b] + (y);                                                                                                \
    v[d] = TURN_16(v[d] ^ v[a]);                                                                                       \
    v[c] += v[d];                                                                                                      \
    v[b] = TURN_63(v[b] ^ v[c]);                                                                                       \
  } while (0)

/* F: one block of every lane; `n_bytes` counts up to its end, `last` is all ones for a lane's last block. */
TARGET static inline void NAME(compress)(NAME(vector) h[8], const uint8_t *const blocks[N_LANES],
                                         const uint64_t n_bytes[N_LANES], const uint64_t last[N_LANES]) {
  NAME(vector) m[N_WORDS], v[N_WORDS], counted, ends;
  words_load(blocks, m);
  memcpy(&counted, n_bytes, sizeof counted);
  memcpy(&ends, last, sizeof ends);
  for (size_t i = 0; i < 8; i++) {
    v[i] = h[i];
    v[8 + i] = (NAME(vector)){0} + start[i];
  }
  v[12] ^= counted;
  v[14] ^= ends;
#pragma GCC unroll 12
  for (size_t r = 0; r < N_ROUNDS; r++) {
    const uint8_t *s = sigma[r];
    MIX(0, 4, 8, 12, m[s[0]], m[s[1]]);
    MIX(1, 5, 9, 13, m[s[2]], m[s[3]]);
    MIX(2, 6, 10, 14, m[s[4]], m[s[5]]);
    MIX(3, 7, 11, 15, m[s[6]], m[s[7]]);
    MIX(0, 5, 10, 15, m[s[8]], m[s[9]]);
    MIX(1, 6, 11, 12, m[s[10]], m[s[11]]);
    MIX(2, 7, 8, 13, m[s[12]], m[s[13]]);
    MIX(3, 4, 9, 14, m[s[14]], m[s[15]]);
  }
  for (size_t i = 0; i < 8; i++)
    h[i] ^= v[i] ^ v[8 + i];
}

TARGET static void NAME(leaf_write)(const NAME(vector) h[8], size_t lane, struct digest *out_leaf) {
  for (size_t i = 0; i < DIGEST_BYTES / 8; i++) {
    uint64_t words[N_LANES];
    memcpy(words, &h[i], sizeof words);
    memcpy(out_leaf->bytes + 8 * i, &words[lane], 8);
  }
}

/* Lanes without a chunk do the first one's work again. The last chunk ends first where it is shorter; what its lane does after
 * that nobody looks at. */
TARGET static void NAME(leaves_hash)(const uint8_t *chunks, size_t n_bytes, struct digest *out_leaves) {
  struct NAME(lane) lanes[N_LANES];
  NAME(vector) h[8];
  size_t n = (n_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
  for (size_t k = 0; k < N_LANES; k++) {
    size_t at = k < n ? k * CHUNK_BYTES : 0, left = n_bytes - at;
    NAME(lane_init)(&lanes[k], chunks + at, left < CHUNK_BYTES ? left : CHUNK_BYTES);
  }
  for (size_t i = 0; i < 8; i++)
    h[i] = (NAME(vector)){0} + start[i];
  h[0] ^= 0x01010000 ^ DIGEST_BYTES; /* no key, sequential */
  for (size_t i = 0; i < lanes[0].n_blocks; i++) {
    const uint8_t *blocks[N_LANES];
    uint64_t counted[N_LANES], ends[N_LANES];
    for (size_t k = 0; k < N_LANES; k++) {
      bool is_last = i + 1 == lanes[k].n_blocks;
      blocks[k] = NAME(lane_block)(&lanes[k], i);
      counted[k] = is_last ? lanes[k].n_message : (i + 1) * BLOCK_BYTES;
      ends[k] = is_last ? UINT64_MAX : 0;
    }
    NAME(compress)(h, blocks, counted, ends);
    if (i + 1 == lanes[n - 1].n_blocks)
      NAME(leaf_write)(h, n - 1, &out_leaves[n - 1]);
  }
  for (size_t k = 0; k + 1 < n; k++)
    NAME(leaf_write)(h, k, &out_leaves[k]);
}

#undef MIX
#undef TURN_32
#undef TURN_24
#undef TURN_16
#undef TURN_63
#undef NAME
#undef TARGET
#undef N_LANES
#undef words_load
