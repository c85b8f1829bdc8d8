#include "crypto/leaves.h"

#include <string.h>

#include "base/must.h"

#if defined __x86_64__
#include <immintrin.h>

#define LANES __attribute__((target("avx2")))

enum { BLOCK_BYTES = 128, N_WORDS = 16, N_ROUNDS = 12, N_FULL_BLOCKS = CHUNK_BYTES / BLOCK_BYTES };

/* The message of a lane is the tag 0 and the chunk: 512 blocks and one byte. */
_Static_assert(CHUNK_BYTES % BLOCK_BYTES == 0, "the last block holds one byte");

static const uint64_t start[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

/* RFC 7693, section 2.7; rounds 10 and 11 are 0 and 1 again. */
static const uint8_t sigma[N_ROUNDS][N_WORDS] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

bool leaves_supported(void) {
  return __builtin_cpu_supports("avx2");
}

/* Word w of every lane's block, from the four blocks as they lie in memory. */
LANES static inline void words_load(const uint8_t *const blocks[LEAVES_AT_ONCE], __m256i out_words[N_WORDS]) {
  for (size_t w = 0; w < N_WORDS; w += 4) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(blocks[0] + 8 * w));
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(blocks[1] + 8 * w));
    __m256i c = _mm256_loadu_si256((const __m256i *)(const void *)(blocks[2] + 8 * w));
    __m256i d = _mm256_loadu_si256((const __m256i *)(const void *)(blocks[3] + 8 * w));
    __m256i ab_even = _mm256_unpacklo_epi64(a, b), ab_odd = _mm256_unpackhi_epi64(a, b);
    __m256i cd_even = _mm256_unpacklo_epi64(c, d), cd_odd = _mm256_unpackhi_epi64(c, d);
    out_words[w] = _mm256_permute2x128_si256(ab_even, cd_even, 0x20);
    out_words[w + 1] = _mm256_permute2x128_si256(ab_odd, cd_odd, 0x20);
    out_words[w + 2] = _mm256_permute2x128_si256(ab_even, cd_even, 0x31);
    out_words[w + 3] = _mm256_permute2x128_si256(ab_odd, cd_odd, 0x31);
  }
}

/* G of RFC 7693, section 3.1, in every lane. */
LANES static inline __attribute__((always_inline)) void mix(__m256i v[N_WORDS], size_t a, size_t b, size_t c, size_t d,
                                                            __m256i x, __m256i y) {
  const __m256i by_24 = _mm256_setr_epi8(3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10, 3, 4, 5, 6, 7, 0, 1, 2,
                                         11, 12, 13, 14, 15, 8, 9, 10);
  const __m256i by_16 = _mm256_setr_epi8(2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9, 2, 3, 4, 5, 6, 7, 0, 1,
                                         10, 11, 12, 13, 14, 15, 8, 9);
  v[a] = _mm256_add_epi64(_mm256_add_epi64(v[a], v[b]), x);
  v[d] = _mm256_shuffle_epi32(_mm256_xor_si256(v[d], v[a]), 0xb1);
  v[c] = _mm256_add_epi64(v[c], v[d]);
  v[b] = _mm256_shuffle_epi8(_mm256_xor_si256(v[b], v[c]), by_24);
  v[a] = _mm256_add_epi64(_mm256_add_epi64(v[a], v[b]), y);
  v[d] = _mm256_shuffle_epi8(_mm256_xor_si256(v[d], v[a]), by_16);
  v[c] = _mm256_add_epi64(v[c], v[d]);
  __m256i turned = _mm256_xor_si256(v[b], v[c]);
  v[b] = _mm256_or_si256(_mm256_srli_epi64(turned, 63), _mm256_add_epi64(turned, turned));
}

/* F: one block of every lane; `n_bytes` counts up to its end. */
LANES static void compress(__m256i h[8], const uint8_t *const blocks[LEAVES_AT_ONCE], uint64_t n_bytes, bool is_last) {
  __m256i m[N_WORDS], v[N_WORDS];
  words_load(blocks, m);
  for (size_t i = 0; i < 8; i++) {
    v[i] = h[i];
    v[8 + i] = _mm256_set1_epi64x((long long)start[i]);
  }
  v[12] = _mm256_xor_si256(v[12], _mm256_set1_epi64x((long long)n_bytes));
  if (is_last)
    v[14] = _mm256_xor_si256(v[14], _mm256_set1_epi64x(-1));
#pragma GCC unroll 12
  for (size_t r = 0; r < N_ROUNDS; r++) {
    const uint8_t *s = sigma[r];
    mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
    mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
    mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
    mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
    mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
    mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
    mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
    mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
  }
  for (size_t i = 0; i < 8; i++)
    h[i] = _mm256_xor_si256(h[i], _mm256_xor_si256(v[i], v[8 + i]));
}

LANES static void leaves_out(const __m256i h[8], struct digest out_leaves[LEAVES_AT_ONCE]) {
  for (size_t i = 0; i < DIGEST_BYTES / 8; i++) {
    uint64_t word[LEAVES_AT_ONCE];
    memcpy(word, &h[i], sizeof word);
    for (size_t k = 0; k < LEAVES_AT_ONCE; k++)
      memcpy(out_leaves[k].bytes + 8 * i, &word[k], 8);
  }
}

LANES void leaves_hash(const uint8_t *chunks, struct digest out_leaves[LEAVES_AT_ONCE]) {
  uint8_t ends[LEAVES_AT_ONCE][BLOCK_BYTES] = {0}; /* the block with the tag, then the one with the last byte */
  const uint8_t *blocks[LEAVES_AT_ONCE];
  __m256i h[8];
  for (size_t i = 0; i < 8; i++)
    h[i] = _mm256_set1_epi64x((long long)start[i]);
  h[0] = _mm256_xor_si256(h[0], _mm256_set1_epi64x(0x01010000 ^ DIGEST_BYTES)); /* no key, sequential */
  for (size_t k = 0; k < LEAVES_AT_ONCE; k++) {
    memcpy(ends[k] + 1, chunks + k * CHUNK_BYTES, BLOCK_BYTES - 1);
    blocks[k] = ends[k];
  }
  compress(h, blocks, BLOCK_BYTES, false);
  for (size_t i = 1; i < N_FULL_BLOCKS; i++) {
    for (size_t k = 0; k < LEAVES_AT_ONCE; k++)
      blocks[k] = chunks + k * CHUNK_BYTES + i * BLOCK_BYTES - 1;
    compress(h, blocks, (i + 1) * BLOCK_BYTES, false);
  }
  for (size_t k = 0; k < LEAVES_AT_ONCE; k++) {
    memset(ends[k], 0, BLOCK_BYTES);
    ends[k][0] = chunks[(k + 1) * CHUNK_BYTES - 1];
    blocks[k] = ends[k];
  }
  compress(h, blocks, CHUNK_BYTES + 1, true);
  leaves_out(h, out_leaves);
}

#else

bool leaves_supported(void) {
  return false;
}

void leaves_hash(const uint8_t *chunks, struct digest out_leaves[LEAVES_AT_ONCE]) {
  (void)chunks;
  (void)out_leaves;
  MUST(false);
}

#endif
