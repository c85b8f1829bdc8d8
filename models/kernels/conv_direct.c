#include <string.h>

#include "models/floats.h"
#include "models/kernels/conv.h"
#include "models/kernels/pool.h"

#define INLINE __attribute__((always_inline)) inline
#if defined __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* The compiler is neither to compute it again at each use nor to keep what is there for the next turn. */
#define IN_REGISTER(pointer) __asm__("" : "+r"(pointer))

enum {
  MAX_TILE_TAPS = 28,
  MAX_TILE_ROWS = 5,
  MAX_ROW_TAPS = 5,
  MAX_CHUNK = 32,
  MAX_CHUNK_FLOATS = 1 << 15,
  BAND_SAMPLES = 8,
  LINE_FLOATS = 16
};

static size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

static size_t whole_lines(size_t n) {
  return (n + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
}

/* How many of `left` come next: as few tiles as `most` allows, all about equal. */
static size_t next_tile(size_t left, size_t most) {
  size_t n_tiles = (left + most - 1) / most;
  return (left + n_tiles - 1) / n_tiles;
}

/* Samples worked on together, even; each has `size` floats of scratch. */
static size_t chunk_of(size_t n, size_t size) {
  size_t chunk = MAX_CHUNK;
  while (chunk > 2 && (chunk / 2 >= n || chunk * size > MAX_CHUNK_FLOATS))
    chunk /= 2;
  return chunk;
}

/* ---- windows along one side */

/* Output i sees the inputs origin + i·step + t, t < n_taps, as far as they are among 0 … n_in − 1. */
struct axis {
  size_t n_in, n_taps, n_out, step;
  ptrdiff_t origin;
};

struct range {
  size_t from, to;
};

static ptrdiff_t axis_start(const struct axis *a, size_t i) {
  return a->origin + (ptrdiff_t)(i * a->step);
}

/* The taps of output i that meet an input. */
static struct range axis_taps(const struct axis *a, size_t i) {
  ptrdiff_t start = axis_start(a, i), left = (ptrdiff_t)a->n_in - start;
  size_t from = start < 0 ? min_size((size_t)-start, a->n_taps) : 0;
  size_t to = left > 0 ? min_size((size_t)left, a->n_taps) : 0;
  return (struct range){from, to > from ? to : from};
}

/* How many outputs from j on have the same taps; where those are all, this need not be counted. */
static size_t axis_alike(const struct axis *a, size_t j) {
  ptrdiff_t left = (ptrdiff_t)(a->n_in - a->n_taps) - axis_start(a, j);
  if (axis_start(a, j) >= 0 && left >= 0 && a->n_in >= a->n_taps)
    return min_size((size_t)left / a->step + 1, a->n_out - j);
  struct range first = axis_taps(a, j), next;
  size_t n = 0;
  do {
    n++;
    next = axis_taps(a, j + n);
  } while (j + n < a->n_out && next.from == first.from && next.to == first.to);
  return n;
}

static struct axis axis_forward(size_t n_in, size_t n_taps, size_t stride, size_t pad, size_t n_out) {
  return (struct axis){n_in, n_taps, n_out, stride, -(ptrdiff_t)pad};
}

/* The inputs p, p + stride, … of one side: input p + k·stride meets tap first + j·stride in output q + k − j, where
 * first = (p + pad) mod stride and q = ⌊(p + pad)/stride⌋. With the taps in reverse that is an axis of step 1. */
struct phase {
  size_t first, n_taps;
  struct axis axis;
};

static struct phase phase_of(size_t n_in, size_t n_taps, size_t stride, size_t pad, size_t n_out, size_t p) {
  size_t first = (p + pad) % stride, q = (p + pad) / stride;
  size_t n = first < n_taps ? (n_taps - first + stride - 1) / stride : 0;
  return (struct phase){first, n, {n_out, n, (n_in - p + stride - 1) / stride, 1, (ptrdiff_t)(q + 1) - (ptrdiff_t)n}};
}

/* ---- what the loops of a kernel see */

/* out[i, j, c] = b[c] + Σ_{h, w, r} x[start_i + h, start_j + w, r] · w[c, h, w, r] of n samples. Strides in floats. */
struct gather {
  size_t n;
  struct axis high, wide;
  const float *x;
  size_t x_pixel, x_row, x_group;
  const float *w;
  size_t w_tap, w_row, w_vector;
  const float *bias; /* NULL: 0 */
  bool relu;
  float *out;
  size_t n_channels, out_pixel, out_row, out_image;
};

/* n_columns outputs side by side in one row, whose windows are cut by the border alike. */
struct span {
  const float *x, *w;
  size_t n_rows, run; /* of taps: n_rows times `run` floats of x side by side */
  size_t n_columns, x_step;
  float *out;
};

static struct span span_of(const struct gather *g, size_t i, size_t j, size_t n_columns) {
  struct range high = axis_taps(&g->high, i), wide = axis_taps(&g->wide, j);
  struct span s = {.x = g->x,
                   .w = g->w,
                   .n_columns = n_columns,
                   .x_step = g->wide.step * g->x_pixel,
                   .out = g->out + i * g->out_row + j * g->out_pixel};
  if (high.from == high.to || wide.from == wide.to)
    return s;
  size_t row = (size_t)(axis_start(&g->high, i) + (ptrdiff_t)high.from);
  size_t column = (size_t)(axis_start(&g->wide, j) + (ptrdiff_t)wide.from);
  s.x += row * g->x_row + column * g->x_pixel;
  s.w += high.from * g->w_row + wide.from * g->w_tap;
  s.n_rows = high.to - high.from;
  s.run = (wide.to - wide.from) * g->x_pixel;
  return s;
}

/* ∂L/∂w of one group of samples: g[v][row·run + tap] += Σ_sites dz[site] · x[site + row·x_row + tap]. Tiles of it overlap
 * at the far ends; what is before the three `done` was added already. */
struct taps {
  const float *x;
  size_t x_row, x_down, x_right; /* to the next row of taps, to the next site below, beside */
  size_t out_height, out_width;
  const float *dz;
  size_t dz_pixel;
  float *g;
  size_t run, n_taps; /* taps in a row, in all */
  size_t row_done, tap_done, vector_done;
};

struct tap_tile {
  size_t rows, taps, vectors;
  bool slides; /* takes two sites side by side at once: for one channel in and stride 1 */
  void (*run)(const struct taps *s, size_t vector, size_t row, size_t tap);
};

/* The cheapest tile. Its cost by the rule of most CPUs: two multiply-adds, or two loads, or four cycles of latency. */
static const struct tap_tile *tap_tile_of(const struct tap_tile *tiles, size_t n_tiles, size_t n_rows, size_t run,
                                          size_t n_vectors, bool may_slide) {
  const struct tap_tile *best = NULL;
  size_t least = 0;
  for (size_t i = 0; i < n_tiles; i++) {
    const struct tap_tile *t = &tiles[i];
    if (t->rows > n_rows || t->taps > run || t->vectors > n_vectors || (t->slides && !may_slide))
      continue;
    size_t n = ((n_rows + t->rows - 1) / t->rows) * ((run + t->taps - 1) / t->taps) *
               ((n_vectors + t->vectors - 1) / t->vectors);
    size_t values = t->slides ? t->rows * (t->taps + 1) / 2 : t->rows * t->taps;
    size_t loads = values + t->vectors, sums = t->rows * t->taps * t->vectors;
    size_t slots = loads > sums ? loads : sums, cost = n * (slots > 8 ? slots + 1 : 9);
    if (!best || cost < least) {
      best = t;
      least = cost;
    }
  }
  return best;
}

/* How a group of samples is laid out: [height + 2·pad][width + 2·pad][c_padded], interleaved. */
struct weave {
  size_t height, width, c, c_padded, pad_height, pad_width;
};

static size_t weave_size(const struct weave *w) {
  return (w->height + 2 * w->pad_height) * (w->width + 2 * w->pad_width) * w->c_padded;
}

/* ---- four lanes: any CPU, and NEON */

#if defined __aarch64__
#include <arm_neon.h>
typedef float32x4_t four;
#define fma(a, b, c) vfmaq_f32(c, a, b)
#else
typedef float four __attribute__((vector_size(16)));
#define fma(a, b, c) ((a) * (b) + (c))
#endif

static inline four four_load(const float *p) {
  four v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline four four_max_zero(four v) {
  four out = v;
  for (size_t i = 0; i < 4; i++)
    out[i] = v[i] < 0 ? 0 : v[i];
  return out;
}

static inline void four_put(float *p, size_t next, four v, size_t n, bool both) {
  (void)next, (void)both;
  memcpy(p, &v, min_size(n, 4) * sizeof *p);
}

static inline void four_add(float *p, four v) {
  v = four_load(p) + v;
  memcpy(p, &v, sizeof v);
}

static inline void four_give(float *p, four v) {
  memcpy(p, &v, sizeof v);
}

static inline four four_where_equal(four a, float x, four v) {
  for (size_t i = 0; i < 4; i++)
    v[i] = a[i] == x ? v[i] : 0;
  return v;
}

#define KERNEL(name) portable_##name
#define TARGET
#define VEC four
#define WIDTH 4
#define GROUP 1
#define take four_load
#define take_weights four_load
#define broadcast(p) ((four){*(p), *(p), *(p), *(p)})
#define zero() ((four){0})
#define rectify four_max_zero
#define put four_put
#define add four_add
#define give four_give
#define where_equal four_where_equal
#define LARGEST pool_lanes.largest
#define SITES(vectors) ((vectors) == 1 ? 8 : 6)
#define EACH_SITES(make, vectors) EACH_SITES_##vectors(make)
#define EACH_SITES_1(make) make(1, 1) make(2, 1) make(3, 1) make(4, 1) make(5, 1) make(6, 1) make(7, 1) make(8, 1)
#define EACH_SITES_2(make) make(1, 2) make(2, 2) make(3, 2) make(4, 2) make(5, 2) make(6, 2)
#define EACH_TILE(make)                                                                                                \
  make(1, 1, 1, 0) make(1, 3, 1, 0) make(1, 5, 1, 0) make(1, 8, 1, 0) make(1, 12, 1, 0) make(2, 5, 1, 1)               \
      make(3, 3, 1, 1) make(1, 1, 2, 0) make(1, 3, 2, 0) make(1, 4, 2, 0) make(1, 5, 2, 0) make(1, 6, 2, 0)
#include "models/kernels/conv_direct_body.h"

const struct conv_kernel conv_direct = {.name = "direct",
                                        .pools = true,
                                        .weights = portable_weights,
                                        .load = portable_load,
                                        .store = portable_store,
                                        .scratch = portable_scratch,
                                        .forward = portable_forward,
                                        .backward = portable_backward};

#if defined __x86_64__
#include <immintrin.h>

/* ---- AVX2: eight lanes in 16 registers */

#define AVX2 __attribute__((target("avx2,fma")))

INLINE AVX2 static void avx2_put(float *p, size_t next, __m256 v, size_t n, bool both) {
  (void)next, (void)both;
  if (n >= 8) {
    _mm256_storeu_ps(p, v);
    return;
  }
  float lanes[8];
  _mm256_storeu_ps(lanes, v);
  memcpy(p, lanes, n * sizeof *p);
}

INLINE AVX2 static void avx2_add(float *p, __m256 v) {
  _mm256_storeu_ps(p, _mm256_add_ps(_mm256_loadu_ps(p), v));
}

INLINE AVX2 static __m256 avx2_where_equal(__m256 a, float x, __m256 v) {
  return _mm256_and_ps(v, _mm256_cmp_ps(a, _mm256_set1_ps(x), _CMP_EQ_OQ));
}

#define KERNEL(name) avx2_##name
#define TARGET AVX2
#define VEC __m256
#define WIDTH 8
#define GROUP 1
#define take _mm256_loadu_ps
#define take_weights _mm256_loadu_ps
#define broadcast _mm256_broadcast_ss
#define zero _mm256_setzero_ps
#define rectify(v) _mm256_max_ps(_mm256_setzero_ps(), v)
#define put avx2_put
#define add avx2_add
#define give _mm256_storeu_ps
#define where_equal avx2_where_equal
#define LARGEST pool_avx2.largest
#define fma _mm256_fmadd_ps
#undef SITES
#undef EACH_SITES_1
#define SITES(vectors) ((vectors) == 1 ? 12 : 6)
#define EACH_SITES_1(make)                                                                                             \
  make(1, 1) make(2, 1) make(3, 1) make(4, 1) make(5, 1) make(6, 1) make(7, 1) make(8, 1) make(9, 1) make(10, 1)       \
      make(11, 1) make(12, 1)
#include "models/kernels/conv_direct_body.h"

const struct conv_kernel conv_direct_avx2 = {.name = "direct-avx2",
                                             .needs = {.avx2 = true},
                                             .pools = true,
                                             .weights = avx2_weights,
                                             .load = avx2_load,
                                             .store = avx2_store,
                                             .scratch = avx2_scratch,
                                             .forward = avx2_forward,
                                             .backward = avx2_backward};

/* ---- AVX-512: sixteen lanes in 32 registers */

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

INLINE AVX512 static __mmask16 first_lanes(size_t n) {
  return (__mmask16)(n >= 16 ? 0xffff : (1U << n) - 1);
}

INLINE AVX512 static void avx512_put(float *p, size_t next, __m512 v, size_t n, bool both) {
  (void)next, (void)both;
  if (n >= 16)
    _mm512_storeu_ps(p, v);
  else
    _mm512_mask_storeu_ps(p, first_lanes(n), v);
}

INLINE AVX512 static void avx512_add(float *p, __m512 v) {
  _mm512_storeu_ps(p, _mm512_add_ps(_mm512_loadu_ps(p), v));
}

INLINE AVX512 static __m512 avx512_where_equal(__m512 a, float x, __m512 v) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, _mm512_set1_ps(x), _CMP_EQ_OQ), v);
}

#define KERNEL(name) avx512_##name
#define TARGET AVX512
#define VEC __m512
#define WIDTH 16
#define GROUP 1
#define take _mm512_loadu_ps
#define take_weights _mm512_loadu_ps
#define broadcast(p) _mm512_set1_ps(*(p))
#define zero _mm512_setzero_ps
#define rectify(v) _mm512_max_ps(_mm512_setzero_ps(), v)
#define put avx512_put
#define add avx512_add
#define give _mm512_storeu_ps
#define where_equal avx512_where_equal
#define LARGEST pool_avx512.largest
#define fma _mm512_fmadd_ps
#undef SITES
#undef EACH_SITES_2
#undef EACH_TILE
#define SITES(vectors) 12
#define EACH_SITES_2(make)                                                                                             \
  make(1, 2) make(2, 2) make(3, 2) make(4, 2) make(5, 2) make(6, 2) make(7, 2) make(8, 2) make(9, 2) make(10, 2)       \
      make(11, 2) make(12, 2)
#define EACH_TILE(make)                                                                                                \
  make(1, 1, 1, 0) make(1, 3, 1, 0) make(1, 5, 1, 0) make(1, 8, 1, 0) make(1, 12, 1, 0) make(1, 16, 1, 0)              \
      make(1, 20, 1, 0) make(1, 24, 1, 0) make(3, 3, 1, 1) make(3, 9, 1, 0) make(5, 5, 1, 1) make(1, 1, 2, 0)          \
          make(1, 3, 2, 0) make(1, 5, 2, 0) make(1, 8, 2, 0) make(1, 10, 2, 0) make(1, 12, 2, 0) make(2, 5, 2, 1)      \
              make(3, 3, 2, 1) make(3, 4, 2, 0)
#include "models/kernels/conv_direct_body.h"

const struct conv_kernel conv_direct_avx512 = {.name = "direct-avx512",
                                               .needs = {.avx2 = true, .avx512 = true},
                                               .pools = true,
                                               .weights = avx512_weights,
                                               .load = avx512_load,
                                               .store = avx512_store,
                                               .scratch = avx512_scratch,
                                               .forward = avx512_forward,
                                               .backward = avx512_backward};

/* ---- AVX-512, two samples side by side: the lanes of channel c are 2c and 2c + 1 */

/* Lanes 0, 2, … 14, 1, 3, … 15: the one sample in the lower half, the other one in the upper. */
INLINE AVX512 static __m512 samples_apart(__m512 v) {
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15), v);
}

INLINE AVX512 static __m512 paired_load_weights(const float *p) {
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                               _mm512_castps256_ps512(_mm256_loadu_ps(p)));
}

INLINE AVX512 static __m512 paired_broadcast(const float *p) {
  double both;
  memcpy(&both, p, sizeof both);
  return _mm512_castpd_ps(_mm512_set1_pd(both));
}

INLINE AVX512 static void paired_put(float *p, size_t next, __m512 v, size_t n, bool both) {
  v = samples_apart(v);
  __m256 first = _mm512_castps512_ps256(v), second = _mm512_extractf32x8_ps(v, 1);
  /* Extracting straight to memory would not spare the lanes that are masked a page fault (Intel SDM: E6NF). */
  __asm__("" : "+v"(second));
  __mmask8 lanes = (__mmask8)(n >= 8 ? 0xff : (1U << n) - 1);
  _mm256_mask_storeu_ps(p, lanes, first);
  if (both)
    _mm256_mask_storeu_ps(p + next, lanes, second);
}

INLINE AVX512 static void paired_add(float *p, __m512 v) {
  v = samples_apart(v);
  __m256 sum = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  _mm256_storeu_ps(p, _mm256_add_ps(_mm256_loadu_ps(p), sum));
}

/* Where whole vectors of one sample would be half empty, or the loads more than the sums. */
static bool paired_fits(const struct conv_shape *s) {
  return s->c_out <= 16 || s->c_in <= 8;
}

#define KERNEL(name) paired_##name
#define TARGET AVX512
#define VEC __m512
#define WIDTH 16
#define GROUP 2
#define take _mm512_loadu_ps
#define zero _mm512_setzero_ps
#define rectify(v) _mm512_max_ps(_mm512_setzero_ps(), v)
#define give _mm512_storeu_ps
#define where_equal avx512_where_equal
#define LARGEST pool_avx512.largest
#define fma _mm512_fmadd_ps
#define take_weights paired_load_weights
#define broadcast paired_broadcast
#define put paired_put
#define add paired_add
#include "models/kernels/conv_direct_body.h"

const struct conv_kernel conv_paired_avx512 = {.name = "paired-avx512",
                                               .needs = {.avx2 = true, .avx512 = true},
                                               .fits = paired_fits,
                                               .pools = true,
                                               .weights = paired_weights,
                                               .load = paired_load,
                                               .store = paired_store,
                                               .scratch = paired_scratch,
                                               .forward = paired_forward,
                                               .backward = paired_backward};
#endif
