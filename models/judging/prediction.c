#include "models/judging/prediction.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/data/dataset.h"
#include "models/data/sample.h"
#include "models/floats.h"
#include "models/net/net.h"

enum { MOST_AT_ONCE = 64 };

struct predictor {
  const struct contract *contract;
  const struct scale *scale;
  size_t n_outputs, n_at_once;
  struct net *net;
  float *w;              /* [net_floats] in the net's layout */
  struct dataset window; /* the samples read and not yet put through the net; one of its arrays */
  uint32_t index[MOST_AT_ONCE];
  uint64_t unsaid;       /* the sample of which nothing can be said; 0: none */
  double *probabilities; /* [n_outputs] */
};

/* ---- one batch ---- */

static void softmax(const float *z, size_t n, double *out) {
  double most = (double)z[0], sum = 0;
  for (size_t i = 1; i < n; i++)
    most = fmax(most, (double)z[i]);
  for (size_t i = 0; i < n; i++)
    sum += out[i] = exp((double)z[i] - most);
  for (size_t i = 0; i < n; i++)
    out[i] /= sum;
}

static void say_class(struct predictor *p, const float *x, struct prediction *it) {
  (void)x;
  softmax(it->outputs, it->n_outputs, p->probabilities);
  it->probabilities = p->probabilities;
  for (size_t i = 1; i < it->n_outputs; i++)
    if (it->outputs[i] > it->outputs[it->label])
      it->label = i;
}

static void say_number(struct predictor *p, const float *x, struct prediction *it) {
  (void)p, (void)x, (void)it;
}

static void say_set(struct predictor *p, const float *x, struct prediction *it) {
  (void)x;
  for (size_t i = 0; i < it->n_outputs; i++)
    p->probabilities[i] = 1 / (1 + exp(-(double)it->outputs[i]));
  it->probabilities = p->probabilities;
}

static void say_score(struct predictor *p, const float *x, struct prediction *it) {
  (void)p;
  for (size_t i = 0; i < it->n_outputs; i++) {
    double d = (double)it->outputs[i] - (double)x[i];
    it->score += d * d / (double)it->n_outputs;
  }
}

/* Puts what waits through the net; `first` is the number of the sample before the first of it. */
static enum err flush(struct predictor *p, uint64_t first, const struct prediction_sink *sink) {
  static void (*const says[])(struct predictor *, const float *, struct prediction *) = {
      [ANSWER_CLASS] = say_class, [ANSWER_NUMBER] = say_number, [ANSWER_SET] = say_set, [ANSWER_INPUTS] = say_score};
  size_t n = p->window.n;
  if (n == 0)
    return ERR_OK;
  float *x = net_input(p->net);
  enum err e = dataset_gather(&p->window, p->index, n, x);
  p->window.n = 0;
  if (e != ERR_OK)
    return e;
  const float *z = net_forward(p->net, p->w, n);
  for (size_t i = 0; i < n && e == ERR_OK; i++) {
    struct prediction it = {.sample = first + i + 1, .n_outputs = p->n_outputs, .outputs = z + i * p->n_outputs};
    if (!floats_finite(it.outputs, it.n_outputs)) {
      p->unsaid = it.sample;
      return ERR_NON_FINITE;
    }
    says[task_type(p->contract->task)->answer](p, x + i * p->window.n_inputs, &it);
    e = sink->put(sink->context, &it);
  }
  return e;
}

/* ---- one file ---- */

struct reading {
  struct predictor *p;
  const struct prediction_sink *sink;
  uint64_t n_done; /* samples whose predictions were given away */
};

/* Room for samples of one type; how bytes are scaled is another matter than how floats are. */
static enum err window_open(struct predictor *p, const struct sample *first) {
  struct dataset *d = &p->window;
  if (first->floats != NULL)
    d->floats = malloc(p->n_at_once * d->n_inputs * sizeof *d->floats);
  else
    d->bytes = malloc(p->n_at_once * d->n_inputs);
  return d->bytes != NULL || d->floats != NULL ? dataset_rescale(d, p->contract, p->scale) : ERR_NO_MEMORY;
}

static void window_close(struct dataset *d) {
  free(d->floats);
  free(d->bytes);
  d->floats = NULL;
  d->bytes = NULL;
  d->n = 0;
}

static enum err put(void *context, const struct sample *sample) {
  struct reading *r = context;
  struct dataset *d = &r->p->window;
  enum err e = ERR_OK;
  if (d->floats == NULL && d->bytes == NULL)
    e = window_open(r->p, sample);
  if (e != ERR_OK)
    return e;
  if (d->floats != NULL)
    memcpy(d->floats + d->n * d->n_inputs, sample->floats, d->n_inputs * sizeof *d->floats);
  else
    memcpy(d->bytes + d->n * d->n_inputs, sample->bytes, d->n_inputs);
  if (++d->n < r->p->n_at_once)
    return ERR_OK;
  e = flush(r->p, r->n_done, r->sink);
  r->n_done += r->p->n_at_once;
  return e;
}

/* The line that the reader had come to is another sample's. */
static enum err refuse_unsaid(const struct predictor *p, enum err e, struct data_place *why) {
  why->line = why->column = 0;
  return data_fault(why, e,
                    "what the model says of sample %" PRIu64 " is no finite number; check the units of its values",
                    p->unsaid);
}

enum err predictor_read(struct predictor *p, const char *path, const struct prediction_sink *sink,
                        struct data_place *why) {
  struct reading r = {.p = p, .sink = sink};
  const struct sample_sink samples = {put, &r, NULL};
  size_t n_ignored;
  p->unsaid = 0;
  enum err e = sample_read_inputs(path, p->contract, &samples, &n_ignored, why);
  if (e == ERR_OK && (e = flush(p, r.n_done, sink)) != ERR_OK)
    e = data_fault(why, e, "%s", err_sentence(e));
  if (p->unsaid > 0)
    e = refuse_unsaid(p, e, why);
  window_close(&p->window);
  return e;
}

/* ---- opening ---- */

/* The largest batch that there is room for. */
static enum err open_net(struct predictor *p, const struct arch *arch) {
  enum err e = ERR_LIMIT;
  for (p->n_at_once = MOST_AT_ONCE; e == ERR_LIMIT && p->n_at_once > 0; p->n_at_once /= 2) {
    const struct net_config config = {.max_batch = p->n_at_once, .batch = p->n_at_once, .cpu = cpu_detect()};
    e = net_open(arch, &config, &p->net);
    if (e == ERR_OK)
      break;
  }
  return e;
}

static enum err open_window(struct predictor *p) {
  struct dataset *d = &p->window;
  d->task = p->contract->task;
  d->n_inputs = contract_n_inputs(p->contract);
  d->shift = calloc(d->n_inputs, sizeof *d->shift);
  d->gain = calloc(d->n_inputs, sizeof *d->gain);
  for (uint32_t i = 0; i < MOST_AT_ONCE; i++)
    p->index[i] = i;
  return d->shift != NULL && d->gain != NULL ? ERR_OK : ERR_NO_MEMORY;
}

static enum err open_weights(struct predictor *p, const float *values, size_t n) {
  p->w = floats_new(net_floats(p->net));
  p->probabilities = calloc(p->n_outputs, sizeof *p->probabilities);
  if (p->w == NULL || p->probabilities == NULL)
    return ERR_NO_MEMORY;
  memcpy(p->w, values, n * sizeof *p->w);
  net_load(p->net, p->w);
  return ERR_OK;
}

enum err predictor_open(const struct schema *schema, const struct contract *contract, const struct scale *scale,
                        const float *values, struct predictor **out_predictor) {
  if (scale->n > 1 && scale->n != contract_n_scaled(contract))
    return ERR_RANGE;
  struct predictor *p = calloc(1, sizeof *p);
  if (p == NULL)
    return ERR_NO_MEMORY;
  p->contract = contract;
  p->scale = scale;
  p->n_outputs = schema_arch(schema)->n_outputs;
  enum err e = open_net(p, schema_arch(schema));
  if (e == ERR_OK)
    e = open_window(p);
  if (e == ERR_OK)
    e = open_weights(p, values, schema_parameters(schema));
  if (e != ERR_OK) {
    predictor_close(p);
    return e;
  }
  *out_predictor = p;
  return ERR_OK;
}

void predictor_close(struct predictor *p) {
  if (p == NULL)
    return;
  window_close(&p->window);
  scale_done(&p->window.scale);
  free(p->window.shift);
  free(p->window.gain);
  net_free(p->net);
  free(p->w);
  free(p->probabilities);
  free(p);
}
