#include "models/kernels/gemm.h"

#include <math.h>
#include <string.h>

#define INLINE __attribute__((always_inline)) inline
#if defined __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define EACH(i, n) UNROLL for (size_t i = 0; i < (n); i++) /* NOLINT(bugprone-macro-parentheses): i is declared */

enum { STRIP = 32 * GEMM_PANEL }; /* inputs of a layer with few outputs: its weights then stay in the first cache */

static size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Rows of the tile that begins at row i of n: as few tiles as most allows, and none much lower than the others. */
static size_t next_rows(size_t n, size_t i, size_t most) {
  size_t left = n - i, n_tiles = (left + most - 1) / most;
  return (left + n_tiles - 1) / n_tiles;
}

/* ---- layouts */

size_t gemm_padded(size_t n) {
  return (n + GEMM_PANEL - 1) / GEMM_PANEL * GEMM_PANEL;
}

size_t gemm_packed(size_t n_out, size_t n_in) {
  return gemm_padded(n_out) * n_in;
}

typedef float four __attribute__((vector_size(16)));

static four four_load(const float *from) {
  four v;
  memcpy(&v, from, sizeof v);
  return v;
}

static void four_store(float *to, four v) {
  memcpy(to, &v, sizeof v);
}

/* A 4×4 block: two steps of interleaving. */
static void transpose_block(const float *a, size_t a_stride, float *out, size_t out_stride) {
  four r0 = four_load(a), r1 = four_load(a + a_stride), r2 = four_load(a + 2 * a_stride),
       r3 = four_load(a + 3 * a_stride);
  four low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  four low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  four_store(out, __builtin_shufflevector(low01, low23, 0, 1, 4, 5));
  four_store(out + out_stride, __builtin_shufflevector(low01, low23, 2, 3, 6, 7));
  four_store(out + 2 * out_stride, __builtin_shufflevector(high01, high23, 0, 1, 4, 5));
  four_store(out + 3 * out_stride, __builtin_shufflevector(high01, high23, 2, 3, 6, 7));
}

void gemm_transpose(size_t rows, size_t columns, const float *a, size_t a_stride, float *out, size_t out_stride) {
  size_t whole_rows = rows - rows % 4, whole_columns = columns - columns % 4;
  for (size_t j = 0; j < whole_columns; j += 4)
    for (size_t i = 0; i < whole_rows; i += 4)
      transpose_block(a + i * a_stride + j, a_stride, out + j * out_stride + i, out_stride);
  for (size_t i = 0; i < rows; i++)
    for (size_t j = i < whole_rows ? whole_columns : 0; j < columns; j++)
      out[j * out_stride + i] = a[i * a_stride + j];
}

void gemm_pack(size_t n_out, size_t n_in, const float *w, float *out_packed) {
  for (size_t p = 0; p < n_out; p += GEMM_PANEL, out_packed += n_in * GEMM_PANEL) {
    size_t n = min_size(GEMM_PANEL, n_out - p);
    if (n < GEMM_PANEL)
      memset(out_packed, 0, n_in * GEMM_PANEL * sizeof *out_packed);
    gemm_transpose(n, n_in, w + p * n_in, n_in, out_packed, GEMM_PANEL);
  }
}

void gemm_unpack(size_t n_out, size_t n_in, const float *packed, float *out_w) {
  for (size_t p = 0; p < n_out; p += GEMM_PANEL, packed += n_in * GEMM_PANEL)
    gemm_transpose(n_in, min_size(GEMM_PANEL, n_out - p), packed, GEMM_PANEL, out_w + p * n_in, n_in);
}

/* Up to a panel of one sample's dy, zero where y ≤ 0 and behind the last. */
static void prepare_panel(size_t n, const float *restrict dy, const float *restrict y, float *restrict out) {
  for (size_t i = 0; i < n; i++) {
    float value = dy[i]; /* loaded in any case, so that there is no branch */
    out[i] = !y || y[i] > 0 ? value : 0;
  }
  for (size_t i = n; i < GEMM_PANEL; i++)
    out[i] = 0;
}

void gemm_prepare(const struct gemm_shape *s, const float *dy, const float *y, const struct gemm_delta *out_delta) {
  size_t n_padded = gemm_padded(s->n);
  for (size_t o = 0; o < s->n_out; o += GEMM_PANEL) {
    float *panel = out_delta->panels + o * s->n;
    for (size_t i = 0; i < s->n; i++) {
      size_t at = i * s->y_stride + o;
      prepare_panel(min_size(GEMM_PANEL, s->n_out - o), dy + at, y ? y + at : NULL, panel + i * GEMM_PANEL);
    }
    if (!out_delta->columns)
      continue;
    float *columns = out_delta->columns + o * n_padded;
    gemm_transpose(s->n, GEMM_PANEL, panel, GEMM_PANEL, columns, n_padded);
    for (size_t i = 0; i < GEMM_PANEL && s->n < n_padded; i++)
      memset(columns + i * n_padded + s->n, 0, (n_padded - s->n) * sizeof *columns);
  }
}

#define EACH_ROWS_2(DO, ...) DO(1, __VA_ARGS__) DO(2, __VA_ARGS__)
#define EACH_ROWS_6(DO, ...)                                                                                           \
  EACH_ROWS_2(DO, __VA_ARGS__)                                                                                         \
  DO(3, __VA_ARGS__) DO(4, __VA_ARGS__) DO(5, __VA_ARGS__) DO(6, __VA_ARGS__)
#define EACH_ROWS_14(DO, ...)                                                                                          \
  EACH_ROWS_6(DO, __VA_ARGS__)                                                                                         \
  DO(7, __VA_ARGS__)                                                                                                   \
  DO(8, __VA_ARGS__)                                                                                                   \
  DO(9, __VA_ARGS__) DO(10, __VA_ARGS__) DO(11, __VA_ARGS__) DO(12, __VA_ARGS__) DO(13, __VA_ARGS__) DO(14, __VA_ARGS__)

/* ---- portable */

static four four_max(four a, four b) {
  return (four)(((a > b) & (__typeof__(a > b))a) | (~(a > b) & (__typeof__(a > b))b));
}

static four four_where_positive(four a, four v) {
  return (four)((a > 0) & (__typeof__(a > 0))v);
}

static float four_total(four v) {
  return (v[0] + v[1]) + (v[2] + v[3]);
}

static void part_store(float *to, const float *from, size_t n) {
  for (size_t i = 0; i < n; i++)
    to[i] = from[i];
}

#define KERNEL(name) portable_##name
#define TARGET
#define VEC four
#define WIDTH 4
#define load(p) four_load(p)
#define store(p, v) four_store(p, v)
#define store_part(p, v, n) part_store(p, (const float *)&(v), n)
#define broadcast(p) ((four){*(p), *(p), *(p), *(p)})
#define fma(a, b, c) ((a) * (b) + (c))
#define zero() ((four){0})
#define max(a, b) four_max(a, b)
#define total(v) four_total(v)
#define where_positive(a, v) four_where_positive(a, v)
#define ROWS 2
#define PANELS 1
#define LATE false
#define EACH_ROWS EACH_ROWS_2
#include "models/kernels/gemm_body.h"

#if defined __x86_64__
#include <immintrin.h>

/* ---- AVX2 */

__attribute__((target("avx2,fma"))) static __m256i avx2_mask(size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

__attribute__((target("avx2,fma"))) static float avx2_total(__m256 v) {
  return four_total((four)_mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
}

#define KERNEL(name) avx2_##name
#define TARGET __attribute__((target("avx2,fma")))
#define VEC __m256
#define WIDTH 8
#define load(p) _mm256_loadu_ps(p)
#define store(p, v) _mm256_storeu_ps(p, v)
#define store_part(p, v, n) _mm256_maskstore_ps(p, avx2_mask(n), v)
#define broadcast(p) _mm256_broadcast_ss(p)
#define fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define zero() _mm256_setzero_ps()
#define max(a, b) _mm256_max_ps(a, b)
#define total(v) avx2_total(v)
#define where_positive(a, v) _mm256_and_ps(v, _mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_GT_OQ))
#define ROWS 6
#define PANELS 1
#define LATE false
#define EACH_ROWS EACH_ROWS_6
#include "models/kernels/gemm_body.h"

/* ---- AVX-512 */

#define KERNEL(name) avx512_##name
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#define VEC __m512
#define WIDTH 16
#define load(p) _mm512_loadu_ps(p)
#define store(p, v) _mm512_storeu_ps(p, v)
#define store_part(p, v, n) _mm512_mask_storeu_ps(p, (__mmask16)((1U << (n)) - 1), v)
#define broadcast(p) _mm512_set1_ps(*(p))
#define fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define zero() _mm512_setzero_ps()
#define max(a, b) _mm512_max_ps(a, b)
#define total(v) _mm512_reduce_add_ps(v)
#define where_positive(a, v) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_GT_OQ), v)
#define ROWS 14
#define PANELS 2
#define LATE true
#define EACH_ROWS EACH_ROWS_14
#include "models/kernels/gemm_body.h"
#endif

#if defined __aarch64__
#include <arm_neon.h>

static float32x4_t neon_max(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}

#define KERNEL(name) neon_##name
#define TARGET
#define VEC float32x4_t
#define WIDTH 4
#define load(p) vld1q_f32(p)
#define store(p, v) vst1q_f32(p, v)
#define store_part(p, v, n) part_store(p, (const float *)&(v), n)
#define broadcast(p) vld1q_dup_f32(p)
#define fma(a, b, c) vfmaq_f32(c, a, b)
#define zero() vdupq_n_f32(0)
#define max(a, b) neon_max(a, b)
#define total(v) vaddvq_f32(v)
#define where_positive(a, v) vbslq_f32(vcgtq_f32(a, vdupq_n_f32(0)), v, vdupq_n_f32(0))
#define ROWS 6
#define PANELS 1
#define LATE false
#define EACH_ROWS EACH_ROWS_6
#include "models/kernels/gemm_body.h"
#endif

#define ROW(kernel, ...)                                                                                               \
  {                                                                                                                    \
#kernel, {__VA_ARGS__ }, kernel##_forward, kernel##_back_inputs, kernel##_back_weights, kernel##_back_bias,        \
              kernel##_few_forward, kernel##_few_backward                                                              \
  }

static const struct gemm kernels[] = {
    [GEMM_PORTABLE] = ROW(portable, 0),
#if defined __x86_64__
    [GEMM_AVX2] = ROW(avx2, .avx2 = true),
    [GEMM_AVX512] = ROW(avx512, .avx512 = true),
#elif defined __aarch64__
    [GEMM_NEON] = ROW(neon, .neon = true),
#endif
};

const struct gemm *gemm_kernel(size_t i) {
  return i < sizeof kernels / sizeof *kernels ? &kernels[i] : NULL;
}

const struct gemm *gemm_fastest(const struct cpu *cpu) {
  return &kernels[CPU_FASTEST(cpu, kernels)];
}
