#include "models/net/optimiser.h"

#include <cblas.h>
#include <math.h>

#include "base/must.h"
#include "models/kernels/cpu.h"

/* The numbers of one step, rounded once for all values. Both formulas are written so that what an option switches off is
 * a factor of 1 or a term of 0. */
struct numbers {
  float scale;         /* of the gradient */
  float decay;         /* λ where it goes through the gradient, else 0 */
  float shrink;        /* x is multiplied by it first */
  float rate;          /* sgd: η; adam: η/(1 − β₁ᵗ) */
  float keep1, take1;  /* sgd: β, 1; adam: β₁, 1 − β₁ */
  float keep2, take2;  /* adam: β₂, 1 − β₂ */
  float root, epsilon; /* adam: √(1 − β₂ᵗ), ε */
  float of_g, of_m;    /* sgd: what of g and m is stepped along: 0, 1; with nesterov 1, β */
};

typedef void step_fn(const struct numbers *s, float *x, const float *g, float *const states[], size_t n);

/* ---- sgd */

static inline __attribute__((always_inline)) void
sgd_body(const struct numbers *s, float *restrict x, const float *restrict gradient, float *restrict m, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float g = gradient[i] * s->scale + s->decay * x[i];
    m[i] = s->keep1 * m[i] + g;
    x[i] -= s->rate * (s->of_g * g + s->of_m * m[i]);
  }
}

static void sgd_plain(const struct numbers *s, float *x, const float *g, float *const states[], size_t n) {
  sgd_body(s, x, g, states[0], n);
}

/* ---- adam, adamw */

static void adam_values(const struct numbers *s, float *restrict x, const float *restrict gradient, float *restrict m,
                        float *restrict v, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float g = gradient[i] * s->scale + s->decay * x[i];
    m[i] = s->keep1 * m[i] + s->take1 * g;
    v[i] = s->keep2 * v[i] + s->take2 * (g * g);
    x[i] = x[i] * s->shrink - s->rate * (m[i] / (sqrtf(v[i]) / s->root + s->epsilon));
  }
}

static void adam_plain(const struct numbers *s, float *x, const float *g, float *const states[], size_t n) {
  adam_values(s, x, g, states[0], states[1], n);
}

/* ---- AVX2: the same operations in the same order, so the same bits */

#if defined __x86_64__
#include <immintrin.h>

__attribute__((target("avx2"))) static void sgd_avx2(const struct numbers *s, float *x, const float *g,
                                                     float *const states[], size_t n) {
  sgd_body(s, x, g, states[0], n);
}

__attribute__((target("avx2"))) static void adam_avx2(const struct numbers *s, float *x, const float *gradient,
                                                      float *const states[], size_t n) {
  const __m256 scale = _mm256_set1_ps(s->scale), decay = _mm256_set1_ps(s->decay), shrink = _mm256_set1_ps(s->shrink);
  const __m256 rate = _mm256_set1_ps(s->rate), root = _mm256_set1_ps(s->root), epsilon = _mm256_set1_ps(s->epsilon);
  const __m256 keep1 = _mm256_set1_ps(s->keep1), take1 = _mm256_set1_ps(s->take1);
  const __m256 keep2 = _mm256_set1_ps(s->keep2), take2 = _mm256_set1_ps(s->take2);
  float *first = states[0], *second = states[1];
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 at = _mm256_loadu_ps(x + i), m = _mm256_loadu_ps(first + i), v = _mm256_loadu_ps(second + i);
    __m256 g = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(gradient + i), scale), _mm256_mul_ps(decay, at));
    m = _mm256_add_ps(_mm256_mul_ps(keep1, m), _mm256_mul_ps(take1, g));
    v = _mm256_add_ps(_mm256_mul_ps(keep2, v), _mm256_mul_ps(take2, _mm256_mul_ps(g, g)));
    __m256 divisor = _mm256_add_ps(_mm256_div_ps(_mm256_sqrt_ps(v), root), epsilon);
    __m256 step = _mm256_mul_ps(rate, _mm256_div_ps(m, divisor));
    _mm256_storeu_ps(first + i, m);
    _mm256_storeu_ps(second + i, v);
    _mm256_storeu_ps(x + i, _mm256_sub_ps(_mm256_mul_ps(at, shrink), step));
  }
  adam_values(s, x + i, gradient + i, first + i, second + i, n - i);
}

#define AVX2(step) step##_avx2
#else
#define AVX2(step) NULL
#endif

/* ---- the table */

static const struct optimiser_type {
  const char *word;
  size_t n_states;
  step_fn *plain, *avx2;
} types[N_OPTIMISERS] = {
    [OPTIMISER_SGD] = {"sgd", 1, sgd_plain, AVX2(sgd)},
    [OPTIMISER_ADAM] = {"adam", 2, adam_plain, AVX2(adam)},
    [OPTIMISER_ADAMW] = {"adamw", 2, adam_plain, AVX2(adam)},
};

static const struct optimiser_type *type_of(enum optimiser kind) {
  MUST((size_t)kind < N_OPTIMISERS);
  return &types[kind];
}

const char *optimiser_name(enum optimiser kind) {
  return type_of(kind)->word;
}

size_t optimiser_states(enum optimiser kind) {
  return type_of(kind)->n_states;
}

static bool is_share(double v) {
  return isfinite(v) && v >= 0 && v < 1;
}

static bool is_amount(double v) {
  return isfinite(v) && v >= 0 && v <= 1e6;
}

bool optimiser_fits(const struct optimiser_config *c) {
  if ((size_t)c->kind >= N_OPTIMISERS || !is_amount(c->weight_decay) || !is_amount(c->clip_norm))
    return false;
  if (c->kind == OPTIMISER_SGD)
    return is_share(c->momentum) && (!c->nesterov || c->momentum > 0);
  return is_share(c->beta1) && is_share(c->beta2) && is_amount(c->epsilon) && c->epsilon > 0;
}

bool optimiser_folds(const struct optimiser_config *c) {
  return c->kind == OPTIMISER_SGD && !c->nesterov && c->clip_norm <= 0;
}

double optimiser_clip(const struct optimiser_config *c, double square_sum) {
  double factor = c->clip_norm / (sqrt(square_sum) + 1e-6);
  return c->clip_norm > 0 && factor < 1 ? factor : 1;
}

static struct numbers numbers_of(const struct optimiser_config *c, const struct optimiser_step *step) {
  struct numbers s = {.scale = (float)step->scale, .shrink = 1, .take1 = 1};
  double t = (double)step->t, corrected = step->rate / (1 - pow(c->beta1, t));
  s.decay = c->kind == OPTIMISER_ADAMW ? 0 : (float)c->weight_decay;
  if (c->kind == OPTIMISER_SGD) {
    s.rate = (float)step->rate;
    s.keep1 = (float)c->momentum;
    s.of_g = c->nesterov ? 1 : 0;
    s.of_m = c->nesterov ? s.keep1 : 1;
    return s;
  }
  s.shrink = c->kind == OPTIMISER_ADAMW ? (float)(1 - step->rate * c->weight_decay) : 1;
  s.rate = (float)corrected;
  s.keep1 = (float)c->beta1, s.take1 = (float)(1 - c->beta1);
  s.keep2 = (float)c->beta2, s.take2 = (float)(1 - c->beta2);
  s.root = (float)sqrt(1 - pow(c->beta2, t)), s.epsilon = (float)c->epsilon;
  return s;
}

size_t optimiser_kernels(void) {
  return cpu_detect().avx2 ? 2 : 1;
}

void optimiser_apply_by(size_t kernel, const struct optimiser_config *c, const struct optimiser_step *step, float *x,
                        const float *g, float *const states[MAX_OPTIMISER_STATES], size_t n) {
  const struct optimiser_type *type = type_of(c->kind);
  const struct numbers s = numbers_of(c, step);
  MUST(step->t > 0 && kernel < optimiser_kernels());
  (kernel > 0 ? type->avx2 : type->plain)(&s, x, g, states, n);
}

void optimiser_descend(float *x, float *m, size_t n, double rate, double weight_decay) {
  if (weight_decay > 0)
    cblas_saxpy((blasint)n, (float)weight_decay, x, 1, m, 1);
  cblas_saxpy((blasint)n, (float)-rate, m, 1, x, 1);
}

void optimiser_apply(const struct optimiser_config *c, const struct optimiser_step *step, float *x, const float *g,
                     float *const states[MAX_OPTIMISER_STATES], size_t n) {
  optimiser_apply_by(optimiser_kernels() - 1, c, step, x, g, states, n);
}
