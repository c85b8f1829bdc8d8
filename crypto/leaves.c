#include "crypto/leaves.h"

#include <stdbool.h>
#include <string.h>

#if defined __x86_64__
#include <immintrin.h>

enum { BLOCK_BYTES = 128, N_WORDS = 16, N_ROUNDS = 12 };

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

/* ---- AVX2 */

#define AVX2 __attribute__((target("avx2")))

AVX2 static inline void avx2_words_load(const uint8_t *const blocks[4], void *out_words) {
  __m256i *words = out_words;
  for (size_t w = 0; w < N_WORDS; w += 4) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(blocks[0] + 8 * w));
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(blocks[1] + 8 * w));
    __m256i c = _mm256_loadu_si256((const __m256i *)(const void *)(blocks[2] + 8 * w));
    __m256i d = _mm256_loadu_si256((const __m256i *)(const void *)(blocks[3] + 8 * w));
    __m256i ab_even = _mm256_unpacklo_epi64(a, b), ab_odd = _mm256_unpackhi_epi64(a, b);
    __m256i cd_even = _mm256_unpacklo_epi64(c, d), cd_odd = _mm256_unpackhi_epi64(c, d);
    words[w] = _mm256_permute2x128_si256(ab_even, cd_even, 0x20);
    words[w + 1] = _mm256_permute2x128_si256(ab_odd, cd_odd, 0x20);
    words[w + 2] = _mm256_permute2x128_si256(ab_even, cd_even, 0x31);
    words[w + 3] = _mm256_permute2x128_si256(ab_odd, cd_odd, 0x31);
  }
}

#define N_LANES 4
#define TARGET AVX2
#define NAME(x) avx2_##x
#define words_load avx2_words_load
#define AVX2_BYTES(v, ...) ((avx2_vector)_mm256_shuffle_epi8((__m256i)(v), _mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)))
#define TURN_32(v) ((avx2_vector)_mm256_shuffle_epi32((__m256i)(v), 0xb1))
#define TURN_24(v) AVX2_BYTES(v, 3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10)
#define TURN_16(v) AVX2_BYTES(v, 2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9)
#define TURN_63(v)                                                                                                     \
  ((avx2_vector)_mm256_or_si256(_mm256_srli_epi64((__m256i)(v), 63), _mm256_add_epi64((__m256i)(v), (__m256i)(v))))
#include "crypto/leaves_body.h"

/* ---- AVX-512 */

#define AVX512 __attribute__((target("avx512f")))

/* Eight rows of eight words, turned over: pairs of words, then of pairs, then of halves. */
AVX512 static inline void avx512_turn_over(const uint8_t *const blocks[8], size_t at, __m512i out_words[8]) {
  __m512i row[8], pair[8], four[8];
  for (size_t k = 0; k < 8; k++)
    row[k] = _mm512_loadu_si512(blocks[k] + at);
  for (size_t k = 0; k < 8; k += 2) {
    pair[k] = _mm512_unpacklo_epi64(row[k], row[k + 1]);
    pair[k + 1] = _mm512_unpackhi_epi64(row[k], row[k + 1]);
  }
  for (size_t k = 0; k < 8; k += 4)
    for (size_t i = 0; i < 2; i++) {
      four[k + i] = _mm512_shuffle_i64x2(pair[k + i], pair[k + i + 2], 0x88);     /* words i, i + 4 of four lanes */
      four[k + i + 2] = _mm512_shuffle_i64x2(pair[k + i], pair[k + i + 2], 0xdd); /* words i + 2, i + 6 */
    }
  for (size_t i = 0; i < 4; i++) {
    out_words[i] = _mm512_shuffle_i64x2(four[i], four[i + 4], 0x88);
    out_words[i + 4] = _mm512_shuffle_i64x2(four[i], four[i + 4], 0xdd);
  }
}

AVX512 static inline void avx512_words_load(const uint8_t *const blocks[8], void *out_words) {
  __m512i *words = out_words;
  avx512_turn_over(blocks, 0, words);
  avx512_turn_over(blocks, 64, words + 8);
}

#define N_LANES 8
#define TARGET AVX512
#define NAME(x) avx512_##x
#define words_load avx512_words_load
#define TURN_32(v) ((avx512_vector)_mm512_ror_epi64((__m512i)(v), 32))
#define TURN_24(v) ((avx512_vector)_mm512_ror_epi64((__m512i)(v), 24))
#define TURN_16(v) ((avx512_vector)_mm512_ror_epi64((__m512i)(v), 16))
#define TURN_63(v) ((avx512_vector)_mm512_ror_epi64((__m512i)(v), 63))
#include "crypto/leaves_body.h"

static const struct leaves_kernel kernels[] = {
    {"avx512", 8, avx512_leaves_hash},
    {"avx2", 4, avx2_leaves_hash},
};

const struct leaves_kernel *leaves_kernels(size_t *out_n) {
  size_t n_kernels = sizeof kernels / sizeof *kernels;
  size_t first = __builtin_cpu_supports("avx512f") ? 0 : __builtin_cpu_supports("avx2") ? 1 : n_kernels;
  *out_n = n_kernels - first;
  return kernels + first;
}

#else

const struct leaves_kernel *leaves_kernels(size_t *out_n) {
  *out_n = 0;
  return NULL;
}

#endif
