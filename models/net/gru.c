/* gru: a gated recurrent unit over a series x_1 … x_T (Cho et al. 2014, in the form that PyTorch and cuDNN compute):
 *
 *   r = σ(W_ir·x + b_ir + W_hr·h + b_hr)      h: the state before, 0 at first
 *   z = σ(W_iz·x + b_iz + W_hz·h + b_hz)
 *   n = tanh(W_in·x + b_in + r·(W_hn·h + b_hn))
 *   h ← (1 − z)·n + z·h
 *
 * Parameters: weight_ih_l0 [3H][C], weight_hh_l0 [3H][H], bias_ih_l0 [3H], bias_hh_l0 [3H], each as r, z, n.
 * Gates of a step are [n][T][3H] rows, so the products with x are one, and only those with h go step by step. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/floats.h"
#include "models/kernels/elementary.h"
#include "models/net/layer.h"

static size_t steps_of(const struct layer *l) {
  return l->in.width;
}

static size_t states_of(const struct layer *l) {
  return l->out.channels;
}

static enum err read_states(struct layer *l, const char *text, const struct contract *contract) {
  (void)contract;
  return layer_read_count(text, 1, MAX_PARAMETERS, &l->out.channels);
}

static enum err read_which(struct layer *l, const char *text, const struct contract *contract) {
  (void)contract;
  l->every_state = strcmp(text, "all") == 0;
  return l->every_state || strcmp(text, "last") == 0 ? ERR_OK : ERR_RANGE;
}

static enum err shape(struct layer *l, char why[MAX_REASON_BYTES]) {
  if (l->in.height != 1) {
    snprintf(why, MAX_REASON_BYTES, "gru reads a series, 1 x steps x values; here it is an image of %u rows",
             l->in.height);
    return ERR_RANGE;
  }
  return layer_set_out(l, (struct extent){1, l->every_state ? l->in.width : 1, l->out.channels}, why);
}

static int text(const struct layer *l, char *out_text, size_t capacity) {
  return snprintf(out_text, capacity, "gru %u%s", l->out.channels, l->every_state ? " states all" : "");
}

static size_t tensors(const struct layer *l, struct tensor out_tensors[MAX_LAYER_TENSORS]) {
  uint32_t h = l->out.channels;
  out_tensors[0] = layer_tensor(l, "weight_ih_l0", ROLE_SHARED, 2, (const uint32_t[]){3 * h, l->in.channels});
  out_tensors[1] = layer_tensor(l, "weight_hh_l0", ROLE_SHARED, 2, (const uint32_t[]){3 * h, h});
  out_tensors[2] = layer_tensor(l, "bias_ih_l0", ROLE_SHARED, 1, (const uint32_t[]){3 * h});
  out_tensors[3] = layer_tensor(l, "bias_hh_l0", ROLE_SHARED, 1, (const uint32_t[]){3 * h});
  return 4;
}

/* All uniform in ±1/√H, as PyTorch's. */
static void init(const struct layer *l, struct rng *rng, float *out_w) {
  double bound = 1 / sqrt((double)l->out.channels);
  floats_draw(out_w, l->n_trained, bound, rng);
}

static double flops(const struct layer *l) {
  return 6.0 * (double)steps_of(l) * l->out.channels * ((double)l->in.channels + l->out.channels);
}

/* ---- where things are */

struct parameters {
  const float *weight_ih, *weight_hh, *bias_ih, *bias_hh;
};

static struct parameters parameters_of(const struct layer *l, const float *w) {
  size_t h = states_of(l);
  const float *weight_hh = w + 3 * h * l->in.channels, *bias_ih = weight_hh + 3 * h * h;
  return (struct parameters){w, weight_hh, bias_ih, bias_ih + 3 * h};
}

/* Kept of all samples: [n][T][…] each. */
struct kept {
  float *gates;     /* [3H] r, z, n */
  float *candidate; /* [H] W_hn·h + b_hn */
  float *states;    /* [H] h; the outputs where they are all states */
};

static struct kept kept_of(const struct layer *l, const struct pass *p) {
  size_t values = p->n * steps_of(l) * states_of(l);
  return (struct kept){p->kept, p->kept + 3 * values, l->every_state ? p->out : p->kept + 4 * values};
}

static size_t kept(const struct layer *l) {
  return (l->every_state ? 4 : 5) * steps_of(l) * states_of(l);
}

/* Forwards W_hh·h of one step [n][3H]; backwards ∂L/∂ of the gates' sums [n][T][3H], of the candidates [n][T][H], and of
 * the state [n][H]. */
static size_t scratch(const struct layer *l, size_t n) {
  return n * states_of(l) * (4 * steps_of(l) + 3);
}

static void fill_rows(float *rows, size_t n, const float *row, size_t width) {
  for (size_t i = 0; i < n; i++)
    memcpy(rows + i * width, row, width * sizeof *row);
}

/* ---- forwards */

static void gates_row(size_t h, float *restrict gates, const float *restrict sums, const float *restrict before,
                      float *restrict candidate, float *restrict state) {
  for (size_t j = 0; j < h; j++) {
    float r = fast_sigmoid(gates[j] + sums[j]), z = fast_sigmoid(gates[h + j] + sums[h + j]);
    float n = fast_tanh(gates[2 * h + j] + r * sums[2 * h + j]);
    gates[j] = r;
    gates[h + j] = z;
    gates[2 * h + j] = n;
    candidate[j] = sums[2 * h + j];
    state[j] = (1 - z) * n + z * before[j];
  }
}

static void forward(const struct layer *l, const struct pass *p) {
  size_t steps = steps_of(l), h = states_of(l), c = l->in.channels, rows = p->n * steps;
  struct parameters w = parameters_of(l, p->w);
  struct kept k = kept_of(l, p);
  blasint n = (blasint)p->n, n_c = (blasint)c, n_h = (blasint)h, between = (blasint)(steps * h);
  float *sums = p->scratch, *first = p->scratch + 3 * h * p->n;
  memset(first, 0, h * sizeof *first);
  fill_rows(k.gates, rows, w.bias_ih, 3 * h);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)rows, 3 * n_h, n_c, 1, p->in, n_c, w.weight_ih, n_c, 1,
              k.gates, 3 * n_h);
  for (size_t t = 0; t < steps; t++) {
    fill_rows(sums, p->n, w.bias_hh, 3 * h);
    if (t > 0)
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, 3 * n_h, n_h, 1, k.states + (t - 1) * h, between,
                  w.weight_hh, n_h, 1, sums, 3 * n_h);
    for (size_t i = 0; i < p->n; i++) {
      size_t row = i * steps + t;
      gates_row(h, k.gates + row * 3 * h, sums + i * 3 * h, t > 0 ? k.states + (row - 1) * h : first,
                k.candidate + row * h, k.states + row * h);
    }
  }
  for (size_t i = 0; !l->every_state && i < p->n; i++)
    memcpy(p->out + i * h, k.states + (i * steps + steps - 1) * h, h * sizeof *p->out);
}

/* ---- backwards */

/* d_state: ∂L/∂h, on return its direct part of ∂L/∂ of the state before. */
static void d_gates_row(size_t h, const float *restrict gates, const float *restrict candidate,
                        const float *restrict before, float *restrict d_state, float *restrict d_gates,
                        float *restrict d_candidate) {
  for (size_t j = 0; j < h; j++) {
    float r = gates[j], z = gates[h + j], n = gates[2 * h + j], d = d_state[j];
    float d_n = d * (1 - z) * (1 - n * n);
    d_gates[j] = d_n * candidate[j] * r * (1 - r);
    d_gates[h + j] = d * (before[j] - n) * z * (1 - z);
    d_gates[2 * h + j] = d_n;
    d_candidate[j] = d_n * r;
    d_state[j] = d * z;
  }
}

/* ∂L/∂ of every gate's sum and of the candidates, the last step first. */
static void through_time(const struct layer *l, const struct pass *p, const float *d_out, float *d_gates,
                         float *d_candidate, float *d_state) {
  size_t steps = steps_of(l), h = states_of(l);
  struct parameters w = parameters_of(l, p->w);
  struct kept k = kept_of(l, p);
  blasint n = (blasint)p->n, n_h = (blasint)h, between = (blasint)(steps * h);
  float *first = d_state + p->n * h;
  memset(d_state, 0, p->n * h * sizeof *d_state);
  memset(first, 0, h * sizeof *first);
  for (size_t t = steps; t-- > 0;) {
    for (size_t i = 0; i < p->n; i++) {
      size_t row = i * steps + t, out_row = l->every_state ? row : i;
      for (size_t j = 0; (l->every_state || t == steps - 1) && j < h; j++)
        d_state[i * h + j] += d_out[out_row * h + j];
      d_gates_row(h, k.gates + row * 3 * h, k.candidate + row * h, t > 0 ? k.states + (row - 1) * h : first,
                  d_state + i * h, d_gates + row * 3 * h, d_candidate + row * h);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n_h, 2 * n_h, 1, d_gates + t * 3 * h, 3 * between,
                w.weight_hh, n_h, 1, d_state, n_h);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n_h, n_h, 1, d_candidate + t * h, between,
                w.weight_hh + 2 * h * h, n_h, 1, d_state, n_h);
  }
}

/* g [width] ← β·g + the sum of the rows. */
static void add_rows(float *g, float momentum, const float *rows, size_t n, size_t width, size_t stride) {
  floats_scale(g, width, momentum);
  for (size_t i = 0; i < n; i++)
    cblas_saxpy((blasint)width, 1, rows + i * stride, 1, g, 1);
}

/* The product with the states before: the rows of first steps count for nothing, so that each row's partner is the row
 * before it, and one product does all. They are lost. */
static void d_weight_hh(const struct layer *l, const struct pass *p, float momentum, float *d_gates, float *d_candidate,
                        float *g) {
  size_t steps = steps_of(l), h = states_of(l);
  blasint pairs = (blasint)(p->n * steps - 1), n_h = (blasint)h;
  const float *states = kept_of(l, p).states;
  for (size_t i = 0; i < p->n; i++) {
    memset(d_gates + i * steps * 3 * h, 0, 3 * h * sizeof *d_gates);
    memset(d_candidate + i * steps * h, 0, h * sizeof *d_candidate);
  }
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, 2 * n_h, n_h, pairs, 1, d_gates + 3 * h, 3 * n_h, states, n_h,
              momentum, g, n_h);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n_h, n_h, pairs, 1, d_candidate + h, n_h, states, n_h, momentum,
              g + 2 * h * h, n_h);
}

static void backward(const struct layer *l, const struct pass *p, const struct gradient *d) {
  size_t h = states_of(l), c = l->in.channels, rows = p->n * steps_of(l);
  blasint n_rows = (blasint)rows, n_c = (blasint)c, n_h = (blasint)h;
  float *d_gates = p->scratch, *d_candidate = d_gates + 3 * h * rows, *d_state = d_candidate + h * rows;
  float *g_hh = d->g + 3 * h * c, *g_bias_ih = g_hh + 3 * h * h, *g_bias_hh = g_bias_ih + 3 * h;
  through_time(l, p, d->d_out, d_gates, d_candidate, d_state);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, 3 * n_h, n_c, n_rows, 1, d_gates, 3 * n_h, p->in, n_c,
              d->momentum, d->g, n_c);
  if (d->d_in)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n_rows, n_c, 3 * n_h, 1, d_gates, 3 * n_h, p->w, n_c, 0,
                d->d_in, n_c);
  add_rows(g_bias_ih, d->momentum, d_gates, rows, 3 * h, 3 * h);
  add_rows(g_bias_hh, d->momentum, d_gates, rows, 2 * h, 3 * h);
  add_rows(g_bias_hh + 2 * h, d->momentum, d_candidate, rows, h, h);
  d_weight_hh(l, p, d->momentum, d_gates, d_candidate, g_hh);
}

static const struct kernel kernels[] = {
    {.name = "plain", .kept = kept, .scratch = scratch, .forward = forward, .backward = backward},
};

const struct layer_type layer_gru = {
    .word = "gru",
    .usage = "gru H [states last|all]",
    .sentence = "gated recurrent unit over a series: the last of its H states, or all of them as a series",
    .stem = "gru",
    .words = {{NULL, "a number of states", read_states}, {"states", "'last' or 'all'", read_which}},
    .shape = shape,
    .text = text,
    .tensors = tensors,
    .init = init,
    .flops = flops,
    LAYER_KERNELS(kernels),
};
