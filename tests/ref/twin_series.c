/* embed and gru in double, step by step. */
#include <math.h>
#include <stdlib.h>

#include "tests/ref/twin_layer.h"

/* ---- embed */

static void embed_forward(const struct twin_pass *p) {
  size_t width = p->l->out.channels;
  for (size_t i = 0; i < p->n * p->l->n_out; i++)
    p->out[i] = p->w[(size_t)p->in[i / width] * width + i % width];
}

static void embed_backward(const struct twin_pass *p) {
  size_t width = p->l->out.channels;
  for (size_t i = 0; i < p->n * p->l->n_out; i++)
    p->g[(size_t)p->in[i / width] * width + i % width] += p->d_out[i];
}

/* ---- gru */

/* What one step of one sample has: [H] each. */
struct step {
  double *before, *r, *z, *n, *candidate;
};

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

struct place {
  size_t c, h, steps;
  const double *w_ih, *w_hh, *b_ih, *b_hh;
};

static struct place place_of(const struct twin_pass *p) {
  size_t c = p->l->in.channels, h = p->l->out.channels;
  const double *w_hh = p->w + 3 * h * c, *b_ih = w_hh + 3 * h * h;
  return (struct place){c, h, p->l->in.width, p->w, w_hh, b_ih, b_ih + 3 * h};
}

static double row_times(const double *matrix, size_t row, const double *x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += matrix[row * n + i] * x[i];
  return sum;
}

static void step_forward(const struct place *w, const double *x, const struct step *s, double *state) {
  for (size_t j = 0; j < w->h; j++) {
    double of_x[3], of_h[3];
    for (size_t gate = 0; gate < 3; gate++) {
      size_t row = gate * w->h + j;
      of_x[gate] = row_times(w->w_ih, row, x, w->c) + w->b_ih[row];
      of_h[gate] = row_times(w->w_hh, row, s->before, w->h) + w->b_hh[row];
    }
    s->r[j] = sigmoid(of_x[0] + of_h[0]);
    s->z[j] = sigmoid(of_x[1] + of_h[1]);
    s->candidate[j] = of_h[2];
    s->n[j] = tanh(of_x[2] + s->r[j] * of_h[2]);
  }
  for (size_t j = 0; j < w->h; j++)
    state[j] = (1 - s->z[j]) * s->n[j] + s->z[j] * s->before[j];
}

/* ∂L/∂ of the sums of one gate's row: its weights and biases, x and the state before. */
static void gate_backward(const struct twin_pass *p, const struct place *w, size_t row, const double *x,
                          const double *before, double d_x_sum, double d_h_sum, double *d_x, double *d_before) {
  double *g_ih = p->g + row * w->c, *g_hh = p->g + 3 * w->h * w->c + row * w->h;
  double *g_bias = p->g + 3 * w->h * (w->c + w->h) + row;
  for (size_t i = 0; i < w->c; i++) {
    g_ih[i] += d_x_sum * x[i];
    d_x[i] += d_x_sum * w->w_ih[row * w->c + i];
  }
  for (size_t i = 0; i < w->h; i++) {
    g_hh[i] += d_h_sum * before[i];
    d_before[i] += d_h_sum * w->w_hh[row * w->h + i];
  }
  g_bias[0] += d_x_sum;
  g_bias[3 * w->h] += d_h_sum;
}

static void step_backward(const struct twin_pass *p, const struct place *w, const struct step *s, const double *x,
                          const double *d_state, double *d_x, double *d_before) {
  for (size_t j = 0; j < w->h; j++) {
    double r = s->r[j], z = s->z[j], n = s->n[j], d_n = d_state[j] * (1 - z) * (1 - n * n);
    double d_r = d_n * s->candidate[j] * r * (1 - r), d_z = d_state[j] * (s->before[j] - n) * z * (1 - z);
    gate_backward(p, w, j, x, s->before, d_r, d_r, d_x, d_before);
    gate_backward(p, w, w->h + j, x, s->before, d_z, d_z, d_x, d_before);
    gate_backward(p, w, 2 * w->h + j, x, s->before, d_n, d_n * r, d_x, d_before);
    d_before[j] += d_state[j] * z;
  }
}

/* One sample: all steps forwards, and back where p->d_out is there. */
static void sample_run(const struct twin_pass *p, size_t sample) {
  struct place w = place_of(p);
  double *states = twin_doubles((w.steps + 1) * w.h), *d_states = twin_doubles((w.steps + 1) * w.h);
  double *values = twin_doubles(w.steps * 4 * w.h);
  const double *x = p->in + sample * p->l->n_in;
  size_t first_out = p->l->every_state ? 0 : w.steps - 1, n_out = p->l->n_out;
  for (int back = 0; back <= (p->d_out != NULL); back++)
    for (size_t k = 0; k < w.steps; k++) {
      size_t t = back ? w.steps - 1 - k : k;
      double *v = values + t * 4 * w.h, *d_state = d_states + (t + 1) * w.h;
      const struct step s = {states + t * w.h, v, v + w.h, v + 2 * w.h, v + 3 * w.h};
      if (!back) {
        step_forward(&w, x + t * w.c, &s, states + (t + 1) * w.h);
        continue;
      }
      for (size_t j = 0; t >= first_out && j < w.h; j++)
        d_state[j] += p->d_out[sample * n_out + (t - first_out) * w.h + j];
      step_backward(p, &w, &s, x + t * w.c, d_state, p->d_in + sample * p->l->n_in + t * w.c, d_states + t * w.h);
    }
  for (size_t i = 0; !p->d_out && i < n_out; i++)
    p->out[sample * n_out + i] = states[(first_out + 1) * w.h + i];
  free(states);
  free(d_states);
  free(values);
}

static void gru_run(const struct twin_pass *p) {
  for (size_t i = 0; i < p->n; i++)
    sample_run(p, i);
}

const struct twin_layer twin_embed = {"embed", embed_forward, embed_backward};
const struct twin_layer twin_gru = {"gru", gru_run, gru_run};
