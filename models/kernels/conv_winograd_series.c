/* F(6, 3) along a series: a tile of 6 outputs sees 8 inputs d. With the matrices of Lavin & Gray 2016 for the points 0, ±1, ±2,
 * ±½ and infinity
 *
 *   Y = Aᵀ[(G g) ⊙ (Bᵀ d)]     Bᵀ = 1  0   −21/4    0    21/4     0   −1  0     G =   1      0      0
 *                                   0  1     1   −17/4  −17/4     1    1  0         −2/9   −2/9   −2/9
 *                                   0 −1     1    17/4  −17/4    −1    1  0         −2/9    2/9   −2/9
 *                                   0 1/2   1/4   −5/2   −5/4     2    1  0         1/90   1/45   2/45
 *                                   0 −1/2  1/4    5/2   −5/4    −2    1  0         1/90  −1/45   2/45
 *                                   0  2     4    −5/2    −5     1/2   1  0        32/45  16/45   8/45
 *                                   0 −2     4     5/2    −5    −1/2   1  0        32/45 −16/45   8/45
 *                                   0 −1     0    21/4     0   −21/4   0  1           0      0      1
 *
 * and A's rows the powers 0 … 5 of the points, ⊙ is, over channels, one product of matrices for each of the 8 places
 * (models/kernels/gemm.h). ∂L/∂x is the same sum over the mirrored kernel; the gradient of the transformed kernel is
 * (Bᵀ d) ⊙ (A dY), and that of the kernel Gᵀ times it. */
#include <math.h>
#include <string.h>

#include "models/floats.h"
#include "models/kernels/conv.h"
#include "models/kernels/gemm.h"

#define INLINE __attribute__((always_inline)) inline
#if defined __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Forwards the tiles of a step, and what is made of them, are to fit into the first cache; their number is a tile of gemm. */
enum {
  TAPS = 3,
  OUTPUTS = 6,
  PLACES = 8,
  TILES = 14,
  TILES_BACK = 96,
  COLUMNS = 2 * GEMM_PANEL,
  SAMPLES = 4,
  AHEAD = 24
};

static bool series_fits(const struct conv_shape *s) {
  return s->height == 1 && s->kernel_height == 1 && s->kernel_width == TAPS && s->stride == 1 && s->pad_height == 0 &&
         s->pad_width < TAPS && s->c_in % GEMM_PANEL == 0 && s->c_out % GEMM_PANEL == 0;
}

/* ---- own layout: for each tap [c_out][c_in] as gemm packs it, biases behind */

static size_t series_weights(const struct conv_shape *s) {
  return (TAPS * s->c_in + 1) * s->c_out;
}

/* Where the weight from one to the other is. */
static size_t packed_at(size_t output, size_t input, size_t n_in) {
  return (output / GEMM_PANEL * n_in + input) * GEMM_PANEL + output % GEMM_PANEL;
}

static void series_load(const struct conv_shape *s, const float *w, float *own) {
  size_t n_pairs = s->c_in * s->c_out;
  for (size_t o = 0; o < s->c_out; o++)
    for (size_t t = 0; t < TAPS; t++)
      for (size_t c = 0; c < s->c_in; c++)
        own[t * n_pairs + packed_at(o, c, s->c_in)] = *w++;
  memcpy(own + TAPS * n_pairs, w, s->c_out * sizeof *w);
}

static void series_store(const struct conv_shape *s, const float *own, float *w) {
  size_t n_pairs = s->c_in * s->c_out;
  for (size_t o = 0; o < s->c_out; o++)
    for (size_t t = 0; t < TAPS; t++)
      for (size_t c = 0; c < s->c_in; c++)
        *w++ = own[t * n_pairs + packed_at(o, c, s->c_in)];
  memcpy(w, own + TAPS * n_pairs, s->c_out * sizeof *w);
}

/* From outputs to inputs, the taps in reverse; packed like that, too. */
static void kernels_mirror(const struct conv_shape *s, const float *own, float *mirrored) {
  for (size_t t = TAPS; t-- > 0; own += s->c_in * s->c_out)
    for (size_t o = 0; o < s->c_out; o += GEMM_PANEL)
      for (size_t c = 0; c < s->c_in; c += GEMM_PANEL)
        gemm_transpose(GEMM_PANEL, GEMM_PANEL, own + packed_at(o, c, s->c_in), GEMM_PANEL,
                       mirrored + t * s->c_in * s->c_out + packed_at(c, o, s->c_out), GEMM_PANEL);
}

/* ---- what the loops of a kernel see */

/* n series that a sum goes over: x forwards; backwards ∂L/∂z, which is ∂L/∂y where y > 0. */
struct series {
  size_t n, n_steps, channels, pad; /* [n][n_steps][channels], zero outside */
  const float *x, *mask;            /* counts where the mask is > 0; NULL: everywhere */
  size_t n_out, n_tiles;            /* outputs of a series, and their tiles */
};

static struct series series_of(size_t n, size_t n_steps, size_t channels, size_t pad, size_t n_out) {
  return (struct series){.n = n,
                         .n_steps = n_steps,
                         .channels = channels,
                         .pad = pad,
                         .n_out = n_out,
                         .n_tiles = (n_out + OUTPUTS - 1) / OUTPUTS};
}

struct result {
  float *y; /* [n][n_out][channels] */
  size_t channels;
  const float *bias; /* NULL: 0 */
  bool relu;
  bool gated; /* 0 where y was not positive before */
};

struct room {
  float *u;     /* [8] of c_out × c_in, or backwards of c_in × c_out, as gemm packs them */
  float *du;    /* [8] of c_out × c_in */
  float *v, *m; /* [8][TILES_BACK][channels] */
  float *zeros; /* [COLUMNS] */
};

static size_t most_channels(const struct conv_shape *s) {
  return s->c_in > s->c_out ? s->c_in : s->c_out;
}

static size_t series_scratch(const struct conv_shape *s, size_t n) {
  (void)n;
  return PLACES * (2 * s->c_in * s->c_out + 2 * most_channels(s) * TILES_BACK) + COLUMNS;
}

static struct room room_of(const struct conv_shape *s, float *scratch) {
  size_t n_u = PLACES * s->c_in * s->c_out, n_v = PLACES * most_channels(s) * TILES_BACK;
  struct room r;
  r.u = scratch;
  r.du = r.u + n_u;
  r.v = r.du + n_u;
  r.m = r.v + n_v;
  r.zeros = r.m + n_v;
  memset(r.zeros, 0, COLUMNS * sizeof *r.zeros);
  return r;
}

/* How many of `left` tiles come next: about equal steps. */
static size_t next_tiles(size_t left, size_t most) {
  size_t n_steps = (left + most - 1) / most;
  return (left + n_steps - 1) / n_steps;
}

/* ---- four lanes: any CPU, and NEON */

#if defined __aarch64__
#include <arm_neon.h>
typedef float32x4_t four;
#define fma(a, b, c) vfmaq_f32(c, a, b)
#define GEMM GEMM_NEON
#else
typedef float four __attribute__((vector_size(16)));
#define fma(a, b, c) ((a) * (b) + (c))
#define GEMM GEMM_PORTABLE
#endif
typedef int32_t four_mask __attribute__((vector_size(16)));

static inline four four_take(const float *p) {
  four v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline void four_give(float *p, four v) {
  memcpy(p, &v, sizeof v);
}

static inline four four_where(four_mask mask, four v) {
  return (four)((four_mask)v & mask);
}

static inline four four_largest(four a, four b) {
  return (four)(((four_mask)a & (a > b)) | ((four_mask)b & ~(a > b)));
}

#define KERNEL(name) series_##name
#define TARGET
#define VEC four
#define WIDTH 4
#define take four_take
#define give four_give
#define same(x) ((four){x, x, x, x})
#define largest(a, b) four_largest(a, b)
#define where_positive(a, v) four_where((four_mask)((a) > same(0)), v)
#include "models/kernels/conv_series_body.h"

#define ROW(row, text, ...)                                                                                            \
  const struct conv_kernel conv_##row = {.name = text,                                                                 \
                                         .needs = {__VA_ARGS__},                                                       \
                                         .gates = true,                                                                \
                                         .fits = series_fits,                                                          \
                                         .weights = series_weights,                                                    \
                                         .load = series_load,                                                          \
                                         .store = series_store,                                                        \
                                         .scratch = series_scratch,                                                    \
                                         .forward = row##_forward,                                                     \
                                         .backward = row##_backward};

#if defined __aarch64__
ROW(series, "winograd-series", .neon = true)
#else
ROW(series, "winograd-series", 0)
#endif

#if defined __x86_64__
#include <immintrin.h>

#define KERNEL(name) series_avx2_##name
#define TARGET __attribute__((target("avx2,fma")))
#define VEC __m256
#define WIDTH 8
#define take _mm256_loadu_ps
#define give _mm256_storeu_ps
#define same(x) _mm256_set1_ps(x)
#define fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define largest(a, b) _mm256_max_ps(a, b)
#define where_positive(a, v) _mm256_and_ps(v, _mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_GT_OQ))
#define GEMM GEMM_AVX2
#include "models/kernels/conv_series_body.h"

ROW(series_avx2, "winograd-series-avx2", .avx2 = true)

#define KERNEL(name) series_avx512_##name
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define VEC __m512
#define WIDTH 16
#define take _mm512_loadu_ps
#define give _mm512_storeu_ps
#define same(x) _mm512_set1_ps(x)
#define fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define largest(a, b) _mm512_max_ps(a, b)
#define where_positive(a, v) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_GT_OQ), v)
#define GEMM GEMM_AVX512
#include "models/kernels/conv_series_body.h"

ROW(series_avx512, "winograd-series-avx512", .avx2 = true, .avx512 = true)
#endif
