#include "models/continual/continual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/must.h"
#include "models/floats.h"
#include "models/merging/codec.h"
#include "models/train.h"

static const double LWF_TEMPERATURE = 2;

/* Arrays of a model's length that are kept: F, θ*, the teacher. */
enum kept { KEPT_IMPORTANCE, KEPT_ANCHOR, KEPT_TEACHER, N_KEPT };

/* Where it stands. */
struct turn {
  bool has_begun;
  uint32_t position, n_done, task;
  uint64_t first, arrived; /* samples of the present task are those from first on that have arrived */
  enum drift_test found;   /* what ended the task before */
  double found_p;
};

struct continual {
  const struct continual_config *config;
  const struct dataset *train;
  size_t n; /* values of a model */
  uint64_t train_seed;
  uint32_t part;

  /* the state */
  struct turn at;
  bool *is_seen;              /* [n_classes] */
  struct drift_sample before; /* what is known of the samples of the present task */
  struct rehearsal *buffer;   /* NULL: none */
  float *kept[N_KEPT];        /* [n] in the order of the model; NULL: not wanted */

  /* the state before the last continual_begin: where no task ended, only what every turn may change */
  struct {
    bool is_known;
    struct turn at;
    bool *is_seen;
    struct drift_sample before;
    uint8_t *whole; /* [n_whole] as bytes, where a task ended; else NULL */
    size_t n_whole;
  } undo;

  /* what a training works with */
  float *laid[N_KEPT]; /* [n_floats] the same in the net's layout */
  float *other;        /* [n_floats] a gradient beside the step's own; NULL: not wanted */
  size_t n_floats;
  struct drift_sample now; /* of those that are new */
  uint32_t *samples;       /* [train->n], n_samples of them */
  size_t n_samples;
  struct rng rng;
  size_t max_batch, n_outputs;
  float *z, *d_z, *old_z; /* [max_batch][n_outputs] */
  uint16_t *labels;       /* [max_batch] */
  bool *counts;           /* [n_outputs] */
};

static bool wants(const struct continual_config *c, enum kept kept) {
  return kept == KEPT_TEACHER ? c->lwf : c->ewc > 0;
}

static bool wants_other(const struct continual_config *c) {
  return c->ewc > 0 || (c->replay > 0 && c->replay_use == REPLAY_AGEM);
}

bool continual_adds(const struct continual_config *config) {
  return config->replay > 0 || config->ewc > 0 || config->lwf;
}

/* ---- opening and closing */

size_t continual_position(const struct continual_config *config, uint64_t round) {
  uint64_t at = round > 0 ? (round - 1) / config->rounds : 0;
  return at < config->tasks.n_tasks ? (size_t)at : config->tasks.n_tasks - 1;
}

size_t continual_task_at(const struct continual_config *config, size_t position) {
  return (position + config->offset) % config->tasks.n_tasks;
}

static bool detects(const struct continual_config *c) {
  return c->boundaries == BOUNDARIES_DETECTED;
}

/* How many samples have arrived at a round. */
static uint64_t arrived_at(const struct continual *c, uint64_t round) {
  uint64_t n = c->train->n, arrive = c->config->arrive;
  return arrive == 0 || round > n / arrive ? n : arrive * round;
}

/* The samples of the present task, into `samples`. */
static void list_samples(struct continual *c) {
  const struct task_list *tasks = &c->config->tasks;
  size_t end = detects(c->config) && c->at.arrived < c->train->n ? (size_t)c->at.arrived : c->train->n;
  c->n_samples = 0;
  for (size_t i = detects(c->config) ? (size_t)c->at.first : 0; i < end; i++) {
    uint16_t task = tasks->task_of[c->train->labels[i]];
    if (detects(c->config) ? task != NO_TASK : task == c->at.task)
      c->samples[c->n_samples++] = (uint32_t)i;
  }
}

size_t continual_task_without(const struct continual_config *config, const struct dataset *train) {
  bool has[MAX_TASKS] = {false};
  size_t task = 0;
  for (size_t class = 0; class < config->tasks.n_classes && class < train->n_classes; class ++)
    if (config->tasks.task_of[class] != NO_TASK && train->class_counts[class] > 0)
      has[config->tasks.task_of[class]] = true;
  while (task < config->tasks.n_tasks && has[task])
    task++;
  return task;
}

static enum err allocate(struct continual *c) {
  size_t n_classes = c->config->tasks.n_classes;
  c->before = (struct drift_sample){.labels = calloc(n_classes + 1, sizeof(uint64_t)), .n_classes = n_classes};
  c->now = (struct drift_sample){.labels = calloc(n_classes + 1, sizeof(uint64_t)), .n_classes = n_classes};
  c->undo.before = (struct drift_sample){.labels = calloc(n_classes + 1, sizeof(uint64_t)), .n_classes = n_classes};
  c->undo.is_seen = calloc(n_classes + 1, sizeof *c->undo.is_seen);
  c->is_seen = calloc(n_classes + 1, sizeof *c->is_seen);
  c->samples = calloc(c->train->n + 1, sizeof *c->samples);
  bool has_all =
      c->is_seen && c->samples && c->before.labels && c->now.labels && c->undo.is_seen && c->undo.before.labels;
  for (enum kept k = 0; k < N_KEPT; k++)
    has_all = has_all && (!wants(c->config, k) || (c->kept[k] = floats_new(c->n)));
  if (!has_all)
    return ERR_NO_MEMORY;
  if (c->config->replay == 0)
    return ERR_OK;
  return rehearsal_open(c->config->replay_rule, c->config->replay, c->config->tasks.n_classes, c->train,
                        rng_mix(c->train_seed) + c->part, &c->buffer);
}

/* Of a task whose turn will come, or of all. */
static bool lacks_samples(const struct continual_config *config, const struct dataset *train) {
  size_t without = continual_task_without(config, train);
  if (!detects(config))
    return without < config->tasks.n_tasks;
  for (size_t class = 0; class < config->tasks.n_classes; class ++)
    if (config->tasks.task_of[class] != NO_TASK && train->class_counts[class] > 0)
      return false;
  return true;
}

enum err continual_open(const struct continual_config *config, const struct dataset *train, size_t n_values,
                        uint64_t train_seed, uint32_t part, struct continual **out_continual) {
  MUST(config->tasks.n_tasks > 0 && (config->rounds > 0 || detects(config)) && train->labels &&
       config->tasks.n_classes == train->n_classes);
  if (lacks_samples(config, train))
    return ERR_RANGE;
  struct continual *c = calloc(1, sizeof *c);
  if (!c)
    return ERR_NO_MEMORY;
  *c = (struct continual){.config = config, .train = train, .n = n_values, .train_seed = train_seed, .part = part};
  enum err e = allocate(c);
  if (e) {
    continual_free(c);
    return e;
  }
  *out_continual = c;
  return ERR_OK;
}

enum err continual_reattach(struct continual *c, const struct dataset *train) {
  if (lacks_samples(c->config, train))
    return ERR_RANGE;
  uint32_t *samples = calloc(train->n + 1, sizeof *samples);
  if (!samples)
    return ERR_NO_MEMORY;
  free(c->samples);
  c->samples = samples;
  c->n_samples = 0;
  c->train = train;
  return ERR_OK;
}

static void free_laid(struct continual *c) {
  for (enum kept k = 0; k < N_KEPT; k++) {
    free(c->laid[k]);
    c->laid[k] = NULL;
  }
  free(c->other);
  c->other = NULL;
  c->n_floats = 0;
}

static void free_batch(struct continual *c) {
  free(c->z);
  free(c->d_z);
  free(c->old_z);
  free(c->labels);
  free(c->counts);
  c->z = c->d_z = c->old_z = NULL;
  c->labels = NULL;
  c->counts = NULL;
  c->max_batch = c->n_outputs = 0;
}

void continual_free(struct continual *c) {
  if (!c)
    return;
  free_laid(c);
  free_batch(c);
  for (enum kept k = 0; k < N_KEPT; k++)
    free(c->kept[k]);
  rehearsal_free(c->buffer);
  free(c->undo.whole);
  free(c->undo.before.labels);
  free(c->undo.is_seen);
  free(c->is_seen);
  free(c->before.labels);
  free(c->now.labels);
  free(c->samples);
  free(c);
}

enum err continual_memory(const struct continual_config *config, size_t n_values, size_t n_floats, size_t batch,
                          size_t n_outputs, size_t *out_bytes) {
  size_t n = wants_other(config) ? n_floats : 0;
  for (enum kept k = 0; k < N_KEPT; k++)
    n += wants(config, k) ? n_values + n_floats : 0;
  n += 4 * batch * n_outputs;
  return size_mul(n, sizeof(float), out_bytes) ? ERR_OK : ERR_LIMIT;
}

/* Room in the net's layout, which may have changed since the last training. */
static enum err fit(struct continual *c, size_t n_floats, size_t max_batch) {
  bool has_all = true;
  if (c->n_floats != n_floats) {
    free_laid(c);
    for (enum kept k = 0; k < N_KEPT; k++)
      has_all = has_all && (!c->kept[k] || (c->laid[k] = floats_new(n_floats)));
    has_all = has_all && (!wants_other(c->config) || (c->other = floats_new(n_floats)));
    c->n_floats = has_all ? n_floats : 0;
  }
  size_t k = c->config->tasks.n_classes;
  if (has_all && c->max_batch != max_batch) {
    free_batch(c);
    c->z = floats_new(max_batch * k);
    c->d_z = floats_new(max_batch * k);
    c->old_z = floats_new(max_batch * k);
    c->labels = calloc(max_batch, sizeof *c->labels);
    c->counts = calloc(k, sizeof *c->counts);
    has_all = c->z && c->d_z && c->old_z && c->labels && c->counts;
    c->max_batch = has_all ? max_batch : 0;
    c->n_outputs = k;
  }
  return has_all ? ERR_OK : ERR_NO_MEMORY;
}

/* ---- the end of a task */

void continual_view(const struct continual *c, float *z, uint16_t *labels, size_t n, size_t k) {
  task_list_view(&c->config->tasks, c->is_seen, z, labels, n, k);
}

/* A class drawn from softmax(z) over what counts for samples of the present task. */
static uint16_t draw_class(struct continual *c, const float *z, struct rng *rng) {
  size_t k = c->n_outputs, last = 0;
  double largest = -INFINITY, sum = 0, at = 0;
  for (size_t i = 0; i < k; i++)
    if (c->counts[i])
      largest = fmax(largest, (double)z[i]);
  for (size_t i = 0; i < k; i++)
    sum += c->counts[i] ? exp((double)z[i] - largest) : 0;
  double point = rng_unit(rng) * sum;
  for (size_t i = 0; i < k; i++) {
    if (!c->counts[i])
      continue;
    last = i;
    if ((at += exp((double)z[i] - largest)) > point)
      break;
  }
  return (uint16_t)last;
}

static void count_outputs(struct continual *c, size_t task) {
  for (size_t i = 0; i < c->n_outputs; i++)
    c->counts[i] = task_list_counts(&c->config->tasks, c->is_seen, task, i);
}

static void hide_outputs(const struct continual *c, float *z) {
  for (size_t i = 0; i < c->n_outputs; i++)
    z[i] = c->counts[i] ? z[i] : -1e30F;
}

/* The gradient of one sample's log p(y|x) into `other`, y drawn from the model; its input is in the net. */
static void gradient_of_one(struct continual *c, const struct continual_turn *t, struct rng *rng) {
  const struct loss plain = {.kind = LOSS_CROSS_ENTROPY};
  memcpy(c->z, net_forward_training(t->net, t->w, 1, NULL), c->n_outputs * sizeof *c->z);
  c->labels[0] = draw_class(c, c->z, rng);
  hide_outputs(c, c->z);
  const struct answers drawn = {.labels = c->labels};
  (void)loss_of_batch(&plain, c->z, &drawn, 1, c->n_outputs, c->d_z);
  net_backward(t->net, t->w, c->d_z, 0, c->other);
}

/* F of the task that ends, in the order of the model, into the place of the teacher's or anchor's layout: a scratch array. */
static enum err measure_fisher(struct continual *c, const struct continual_turn *t, float *out_f) {
  struct rng rng;
  train_stream(&rng, STREAM_FISHER, c->train_seed, c->part, c->at.position, 0);
  rng_shuffle(&rng, c->samples, c->n_samples);
  size_t n = c->n_samples < c->config->ewc_samples ? c->n_samples : c->config->ewc_samples, n_ranges;
  const struct net_range *ranges = net_trained(t->net, &n_ranges);
  memset(out_f, 0, c->n_floats * sizeof *out_f);
  memset(c->other, 0, c->n_floats * sizeof *c->other);
  count_outputs(c, c->at.task);
  for (size_t i = 0; i < n; i++) {
    enum err e = dataset_gather(c->train, &c->samples[i], 1, net_input(t->net));
    if (e)
      return e;
    gradient_of_one(c, t, &rng);
    for (size_t r = 0; r < n_ranges; r++)
      fisher_add(out_f + ranges[r].offset, c->other + ranges[r].offset, ranges[r].n, n);
  }
  net_store(t->net, out_f);
  return ERR_OK;
}

/* ---- taking a turn back */

static void forget_before(struct continual *c) {
  free(c->undo.whole);
  c->undo.whole = NULL;
  c->undo.is_known = false;
}

static void keep_turn(struct continual *c) {
  forget_before(c);
  c->undo.is_known = true;
  c->undo.at = c->at;
  memcpy(c->undo.is_seen, c->is_seen, c->config->tasks.n_classes * sizeof *c->is_seen);
  drift_sample_copy(&c->undo.before, &c->before);
}

/* Buffer and arrays change where a task ends alone. */
static enum err keep_whole(struct continual *c) {
  c->undo.n_whole = continual_bytes(c);
  c->undo.whole = malloc(c->undo.n_whole);
  if (!c->undo.whole)
    return ERR_NO_MEMORY;
  continual_write(c, c->undo.whole);
  return ERR_OK;
}

void continual_undo(struct continual *c) {
  if (!c->undo.is_known)
    return;
  if (c->undo.whole)
    MUST(continual_read(c, c->undo.whole, c->undo.n_whole) == ERR_OK);
  c->at = c->undo.at;
  memcpy(c->is_seen, c->undo.is_seen, c->config->tasks.n_classes * sizeof *c->is_seen);
  drift_sample_copy(&c->before, &c->undo.before);
  c->n_samples = 0;
  if (c->at.has_begun)
    list_samples(c);
  forget_before(c);
}

/* ---- the end of a task, whole */

static enum err consolidate(struct continual *c, const struct continual_turn *t) {
  float *f = c->laid[KEPT_IMPORTANCE]; /* free between trainings */
  enum err e = keep_whole(c);
  list_samples(c);
  if (!e && c->config->ewc > 0)
    e = measure_fisher(c, t, f);
  list_samples(c);
  if (!e && c->buffer)
    e = rehearsal_offer(c->buffer, c->train, c->samples, c->n_samples);
  if (e)
    return e;
  if (c->config->ewc > 0)
    ewc_consolidate(c->config->ewc_rule, c->config->ewc_decay, f, t->values, c->n, c->kept[KEPT_IMPORTANCE],
                    c->kept[KEPT_ANCHOR]);
  if (c->config->lwf)
    memcpy(c->kept[KEPT_TEACHER], t->values, c->n * sizeof *t->values);
  c->at.n_done++;
  return ERR_OK;
}

static void see(struct continual *c, size_t class) {
  if (c->config->tasks.task_of[class] != NO_TASK)
    c->is_seen[class] = true;
}

/* ---- boundaries that are given */

static enum err turn_by_rounds(struct continual *c, const struct continual_turn *t) {
  size_t position = continual_position(c->config, t->round);
  enum err e = c->at.has_begun && position != c->at.position ? consolidate(c, t) : ERR_OK;
  if (e)
    return e;
  c->at.position = (uint32_t)position;
  c->at.task = (uint32_t)continual_task_at(c->config, position);
  for (size_t class = 0; class < c->config->tasks.n_classes; class ++)
    if (c->config->tasks.task_of[class] == c->at.task)
      see(c, class);
  return ERR_OK;
}

/* ---- boundaries that are detected */

/* 1 − p(y|x), where the classes seen so far compete. */
static double error_of(const float *z, uint16_t label, size_t k) {
  double largest = -INFINITY, sum = 0;
  for (size_t i = 0; i < k; i++)
    largest = fmax(largest, (double)z[i]);
  for (size_t i = 0; i < k; i++)
    sum += exp((double)z[i] - largest);
  return 1 - exp((double)z[label] - largest) / sum;
}

/* What the model says of n samples, before it is trained on them, into `now`. */
static enum err look_at_batch(struct continual *c, const struct continual_turn *t, const uint32_t *index, size_t n) {
  size_t k = c->n_outputs, n_inputs = c->train->n_inputs;
  enum err e = dataset_gather(c->train, index, n, net_input(t->net));
  if (e)
    return e;
  for (size_t i = 0; i < n; i++)
    for (size_t p = 0; p < DRIFT_PROJECTIONS; p++)
      moments_put(&c->now.inputs[p], drift_project(net_input(t->net) + i * n_inputs, n_inputs, p));
  memcpy(c->z, net_forward(t->net, t->w, n), n * k * sizeof *c->z);
  dataset_gather_labels(c->train, index, n, c->labels);
  for (size_t i = 0; i < n; i++)
    c->now.labels[c->labels[i]]++;
  continual_view(c, c->z, c->labels, n, k);
  for (size_t i = 0; i < n; i++)
    moments_put(&c->now.loss, error_of(c->z + i * k, c->labels[i], k));
  return ERR_OK;
}

static enum err look_at_new(struct continual *c, const struct continual_turn *t, uint64_t first, uint64_t end) {
  enum err e = ERR_OK;
  drift_sample_clear(&c->now);
  c->n_samples = 0;
  for (uint64_t i = first; i < end; i++)
    if (c->config->tasks.task_of[c->train->labels[i]] != NO_TASK)
      c->samples[c->n_samples++] = (uint32_t)i;
  for (size_t at = 0; at < c->n_samples && !e; at += t->max_batch)
    e = look_at_batch(c, t, c->samples + at, c->n_samples - at < t->max_batch ? c->n_samples - at : t->max_batch);
  return e;
}

/* The task that most samples of the present one are of; all of their classes are seen. */
static uint32_t task_of_most(struct continual *c) {
  uint64_t counts[MAX_TASKS] = {0};
  uint32_t most = 0;
  for (size_t i = 0; i < c->n_samples; i++) {
    size_t class = c->train->labels[c->samples[i]];
    counts[c->config->tasks.task_of[class]]++;
    see(c, class);
  }
  for (uint32_t task = 1; task < c->config->tasks.n_tasks; task++)
    most = counts[task] > counts[most] ? task : most;
  return most;
}

/* The samples among which a boundary was found may be of both sides, so that those after them are the first to compare with. */
static enum err turn_by_drift(struct continual *c, const struct continual_turn *t) {
  uint64_t arrived = arrived_at(c, t->round);
  if (c->at.arrived > c->train->n) { /* samples of before are gone: what is left is of the present task */
    c->at.arrived = c->train->n;
    c->at.first = 0;
  }
  enum err e = arrived > c->at.arrived ? look_at_new(c, t, c->at.arrived, arrived) : ERR_OK;
  if (e || arrived <= c->at.arrived)
    return e;
  double p;
  enum drift_test found = drift_judge(&c->before, &c->now, c->config->false_alarm, &p);
  if (found && (e = consolidate(c, t)))
    return e;
  if (found) {
    c->at.position = c->at.position + 1 < MAX_TASKS ? c->at.position + 1 : MAX_TASKS - 1;
    c->at.first = c->at.arrived;
    c->at.found = found;
    c->at.found_p = p;
    drift_sample_clear(&c->before);
  } else {
    drift_sample_add(&c->before, &c->now);
  }
  c->at.arrived = arrived;
  list_samples(c);
  c->at.task = task_of_most(c);
  return ERR_OK;
}

enum err continual_begin(struct continual *c, const struct continual_turn *t) {
  keep_turn(c);
  enum err e = fit(c, net_floats(t->net), t->max_batch);
  if (!e)
    e = detects(c->config) ? turn_by_drift(c, t) : turn_by_rounds(c, t);
  if (e)
    return e;
  c->at.has_begun = true;
  list_samples(c);
  for (enum kept k = 0; k < N_KEPT; k++)
    if (c->kept[k])
      net_load_from(t->net, c->kept[k], c->laid[k]);
  train_stream(&c->rng, STREAM_REPLAY, c->train_seed, c->part, t->round, t->sub);
  return c->n_samples > 0 ? ERR_OK : ERR_RANGE;
}

const uint32_t *continual_samples(const struct continual *c, size_t *out_n) {
  *out_n = c->n_samples;
  return c->samples;
}

/* ---- a step */

/* 1/t */
static double share_of_new(const struct continual *c) {
  return 1 / (double)(c->at.n_done + 1);
}

static bool rehearses(const struct continual *c) {
  return c->buffer && rehearsal_samples(c->buffer) > 0;
}

static bool is_taught(const struct continual *c) {
  return c->config->lwf && c->at.n_done > 0;
}

void continual_before(struct continual *c, struct net *net, size_t n) {
  if (is_taught(c))
    memcpy(c->old_z, net_forward(net, c->laid[KEPT_TEACHER], n), n * c->n_outputs * sizeof *c->old_z);
}

/* Task-incremental: each of the tasks before has its outputs; else those of all classes before stand together. */
static void distil(struct continual *c, const float *z, size_t n, size_t k, float *d_z) {
  const struct task_list *tasks = &c->config->tasks;
  double share = (1 - share_of_new(c)) / (double)n;
  for (size_t p = 0; p < tasks->n_tasks; p++) {
    size_t n_heads = tasks->kind == INCREMENT_TASK ? c->at.n_done : 1;
    bool is_past = p != c->at.task;
    for (size_t o = 0; o < k; o++) {
      bool of_task = tasks->kind == INCREMENT_DOMAIN || (o < tasks->n_classes && c->is_seen[o]);
      c->counts[o] = of_task && task_list_counts(tasks, c->is_seen, p, o);
      if (tasks->kind == INCREMENT_CLASS)
        c->counts[o] = c->counts[o] && tasks->task_of[o] != c->at.task;
    }
    for (size_t i = 0; i < n && is_past; i++)
      (void)distil_row(c->old_z + i * k, z + i * k, c->counts, k, LWF_TEMPERATURE, share / (double)n_heads,
                       d_z + i * k);
    if (tasks->kind != INCREMENT_TASK && is_past)
      break;
  }
}

void continual_on_outputs(struct continual *c, const float *z, size_t n, size_t k, float *d_z) {
  bool mixes = rehearses(c) && c->config->replay_use == REPLAY_MIXED;
  if (mixes || is_taught(c))
    floats_scale(d_z, n * k, (float)share_of_new(c));
  if (is_taught(c))
    distil(c, z, n, k, d_z);
}

/* The gradient of `share` times the mean loss of a batch of the buffer: g ← momentum·g + … */
static void rehearse(struct continual *c, struct net *net, const struct loss *loss, float *w, double share,
                     double momentum, float *g, size_t n) {
  rehearsal_draw(c->buffer, c->train, &c->rng, n, net_input(net), c->labels);
  memcpy(c->z, net_forward_training(net, w, n, NULL), n * c->n_outputs * sizeof *c->z);
  continual_view(c, c->z, c->labels, n, c->n_outputs);
  const struct answers answers = {.labels = c->labels};
  (void)loss_of_batch(loss, c->z, &answers, n, c->n_outputs, c->d_z);
  floats_scale(c->d_z, n * c->n_outputs, (float)share);
  net_backward(net, w, c->d_z, momentum, g);
}

void continual_on_gradient(struct continual *c, struct net *net, const struct loss *loss, float *w, float *g,
                           size_t n) {
  size_t n_ranges;
  const struct net_range *ranges = net_trained(net, &n_ranges);
  if (rehearses(c) && c->config->replay_use == REPLAY_MIXED)
    rehearse(c, net, loss, w, 1 - share_of_new(c), 1, g, n);
  if (rehearses(c) && c->config->replay_use == REPLAY_AGEM) {
    memset(c->other, 0, c->n_floats * sizeof *c->other);
    rehearse(c, net, loss, w, 1, 0, c->other, n);
    (void)agem_project(g, c->other, c->n_floats);
  }
  for (size_t r = 0; r < n_ranges && c->config->ewc > 0 && c->at.n_done > 0; r++) {
    size_t at = ranges[r].offset;
    ewc_gradient(c->config->ewc, c->laid[KEPT_IMPORTANCE] + at, c->laid[KEPT_ANCHOR] + at, w + at, ranges[r].n, g + at);
  }
}

struct continual_status continual_status(const struct continual *c) {
  return (struct continual_status){.has_begun = c->at.has_begun,
                                   .position = c->at.position,
                                   .task = c->at.task,
                                   .n_tasks = c->config->tasks.n_tasks,
                                   .n_done = c->at.n_done,
                                   .n_replay = c->buffer ? rehearsal_samples(c->buffer) : 0,
                                   .n_arrived = detects(c->config) ? (size_t)c->at.arrived : c->train->n,
                                   .n_samples = c->n_samples,
                                   .found = c->at.found,
                                   .found_p = c->at.found_p};
}

/* ---- as bytes
 *
 *   magic 8, version, begun, position, done, task, classes, parts (bits: F and θ*, teacher, buffer, drift), found u32 each;
 *   values, first, arrived u64, found_p f64; is_seen a byte a class
 *   drift: moments (three f64 each) of the loss and the projections, labels u64 a class
 *   the arrays; the buffer */

enum {
  STATE_VERSION = 1,
  STATE_HEAD_BYTES = 72,
  STATE_MAGIC_BYTES = 8,
  STATE_MOMENTS_BYTES = 24 * (1 + DRIFT_PROJECTIONS)
};
static const char state_magic[STATE_MAGIC_BYTES] = "starcont";

static uint32_t parts_of(const struct continual *c) {
  return (c->config->ewc > 0 ? 1u : 0) | (c->config->lwf ? 2u : 0) | (c->buffer ? 4u : 0) |
         (detects(c->config) ? 8u : 0);
}

static size_t drift_bytes(size_t n_classes) {
  return STATE_MOMENTS_BYTES + 8 * n_classes;
}

size_t continual_bytes(const struct continual *c) {
  size_t n_classes = c->config->tasks.n_classes;
  size_t n = STATE_HEAD_BYTES + n_classes + (detects(c->config) ? drift_bytes(n_classes) : 0);
  n += c->buffer ? rehearsal_bytes(c->buffer) : 0;
  for (enum kept k = 0; k < N_KEPT; k++)
    n += c->kept[k] ? codec_full_bytes(c->n) : 0;
  return n;
}

size_t continual_bound(const struct continual_config *config, size_t n_values, size_t n_inputs) {
  size_t n_classes = config->tasks.n_classes;
  return STATE_HEAD_BYTES + n_classes + drift_bytes(n_classes) + N_KEPT * codec_full_bytes(n_values) +
         rehearsal_bound(config->replay, n_classes, n_inputs);
}

static void moments_write(const struct moments *m, struct writer *w) {
  writer_f64(w, m->n);
  writer_f64(w, m->mean);
  writer_f64(w, m->squares);
}

static void drift_write(const struct drift_sample *s, struct writer *w) {
  moments_write(&s->loss, w);
  for (size_t k = 0; k < DRIFT_PROJECTIONS; k++)
    moments_write(&s->inputs[k], w);
  for (size_t i = 0; i < s->n_classes; i++)
    writer_u64(w, s->labels[i]);
}

void continual_write(const struct continual *c, uint8_t *out_bytes) {
  struct writer w;
  writer_init(&w, out_bytes, continual_bytes(c));
  writer_bytes(&w, state_magic, sizeof state_magic);
  const uint32_t head[] = {STATE_VERSION, c->at.has_begun, c->at.position,
                           c->at.n_done,  c->at.task,      (uint32_t)c->config->tasks.n_classes,
                           parts_of(c),   c->at.found};
  for (size_t i = 0; i < sizeof head / sizeof *head; i++)
    writer_u32(&w, head[i]);
  writer_u64(&w, c->n);
  writer_u64(&w, c->at.first);
  writer_u64(&w, c->at.arrived);
  writer_f64(&w, c->at.found_p);
  for (size_t i = 0; i < c->config->tasks.n_classes; i++)
    writer_u8(&w, c->is_seen[i]);
  if (detects(c->config))
    drift_write(&c->before, &w);
  for (enum kept k = 0; k < N_KEPT; k++)
    for (size_t i = 0; c->kept[k] && i < c->n; i++)
      writer_f32(&w, c->kept[k][i]);
  if (c->buffer)
    rehearsal_write(c->buffer, &w);
  MUST(writer_end(&w) == ERR_OK);
}

static enum err head_read(const struct continual *c, struct cursor *at, struct turn *out) {
  char magic[STATE_MAGIC_BYTES];
  cursor_bytes(at, magic, sizeof magic);
  uint32_t version = cursor_u32(at), begun = cursor_u32(at);
  struct turn h = {.has_begun = begun == 1, .position = cursor_u32(at)};
  h.n_done = cursor_u32(at);
  h.task = cursor_u32(at);
  uint32_t n_classes = cursor_u32(at), parts = cursor_u32(at);
  uint32_t found = cursor_u32(at);
  uint64_t n = cursor_u64(at);
  h.first = cursor_u64(at);
  h.arrived = cursor_u64(at);
  h.found_p = cursor_f64(at);
  if (at->failed)
    return ERR_TRUNCATED;
  if (memcmp(magic, state_magic, sizeof magic) != 0)
    return ERR_CORRUPT;
  if (version > STATE_VERSION)
    return ERR_TOO_NEW;
  size_t n_positions = detects(c->config) ? MAX_TASKS : c->config->tasks.n_tasks;
  bool fits = begun <= 1 && h.position < n_positions && h.task < c->config->tasks.n_tasks && found <= DRIFT_INPUTS;
  fits = fits && n_classes == c->config->tasks.n_classes && parts == parts_of(c) && n == c->n && h.first <= h.arrived;
  if (!fits || !isfinite(h.found_p))
    return ERR_CORRUPT;
  h.found = (enum drift_test)found;
  *out = h;
  return ERR_OK;
}

static bool moments_read(struct cursor *at, struct moments *out) {
  *out = (struct moments){.n = cursor_f64(at)};
  out->mean = cursor_f64(at);
  out->squares = cursor_f64(at);
  return isfinite(out->n) && isfinite(out->mean) && isfinite(out->squares) && out->n >= 0 && out->squares >= 0;
}

/* Takes it, or, with NULL, only looks. */
static bool drift_read(struct cursor *at, size_t n_classes, struct drift_sample *out) {
  struct moments m;
  bool is_sound = moments_read(at, &m);
  if (out)
    out->loss = m;
  for (size_t k = 0; k < DRIFT_PROJECTIONS; k++) {
    is_sound = moments_read(at, &m) && is_sound;
    if (out)
      out->inputs[k] = m;
  }
  for (size_t i = 0; i < n_classes; i++) {
    uint64_t count = cursor_u64(at);
    if (out)
      out->labels[i] = count;
  }
  return is_sound;
}

/* What stands before the buffer. */
static enum err body_judge(const struct continual *c, struct cursor *at) {
  size_t n_classes = c->config->tasks.n_classes;
  bool is_sound = true;
  for (size_t i = 0; i < n_classes; i++)
    is_sound = cursor_u8(at) <= 1 && is_sound;
  if (detects(c->config))
    is_sound = drift_read(at, n_classes, NULL) && is_sound;
  for (enum kept k = 0; k < N_KEPT; k++) {
    const uint8_t *bytes = c->kept[k] ? cursor_view(at, codec_full_bytes(c->n)) : NULL;
    is_sound = is_sound && !(bytes && codec_check_values(bytes, c->n));
  }
  return at->failed ? ERR_TRUNCATED : is_sound ? ERR_OK : ERR_CORRUPT;
}

enum err continual_read(struct continual *c, const uint8_t *bytes, size_t n_bytes) {
  struct cursor at;
  struct turn head;
  cursor_init(&at, bytes, n_bytes);
  enum err e = head_read(c, &at, &head);
  struct cursor body = at;
  if (!e)
    e = body_judge(c, &at);
  if (!e)
    e = c->buffer ? rehearsal_read(c->buffer, &at) : cursor_end(&at);
  if (e)
    return e;
  c->at = head;
  c->n_samples = 0; /* listed when the next training begins */
  for (size_t i = 0; i < c->config->tasks.n_classes; i++)
    c->is_seen[i] = cursor_u8(&body) == 1;
  if (detects(c->config))
    (void)drift_read(&body, c->config->tasks.n_classes, &c->before);
  for (enum kept k = 0; k < N_KEPT; k++)
    for (size_t i = 0; c->kept[k] && i < c->n; i++)
      c->kept[k][i] = cursor_f32(&body);
  return ERR_OK;
}
