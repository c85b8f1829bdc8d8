#include "models/learner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/must.h"
#include "models/floats.h"
#include "models/merging/merge.h"
#include "models/merging/nearby.h"
#include "models/merging/statistic.h"
#include "models/net/loss.h"
#include "models/net/net.h"

/* Samples that are judged at a time, when they are small. */
enum { EVALUATION_BATCH = 256, EVALUATION_FLOATS = 1 << 20 };

static const uint64_t NO_PASS = UINT64_MAX;

struct learner {
  struct learner_config config;
  const struct arch *arch;
  size_t n; /* P */
  struct net *net;

  /* [P]; while the net works, in its layout, [net_floats] */
  float *x;                            /* the model */
  float *states[MAX_OPTIMISER_STATES]; /* the optimiser's; NULL behind its last */
  float *gradient;                     /* NULL: it is added straight into the momentum */
  uint64_t n_taken;                    /* steps of the optimiser so far */

  float *copy;  /* [P] x̂ */
  float *spare; /* [P] x̂' while it is pending; else where x is laid out anew and a merge begins */
  bool pending;
  size_t nearby_width; /* of an x that is near it then (models/merging/nearby.h); 0: it is not */

  struct { /* what the last learner_train began with */
    bool is_known;
    float *x, *states[MAX_OPTIMISER_STATES]; /* [P] */
    uint64_t n_taken;
    double own_step;
  } before;

  float **copies; /* [n_copies][P] x̂_j */

  struct statistics statistics; /* which values of a model they are */
  struct distance_ring ring;
  uint32_t steps;          /* a round; 0: by epochs */
  double own_step;         /* ‖x after − x before‖ of the last learner_train */
  uint64_t rounding_seed;  /* of the payload of that round */
  uint32_t *codec_scratch; /* NULL: the codec wants none */
  struct mean_term *terms; /* [n_copies] room for a merge */

  const struct dataset *train;
  const struct dataset *tests[N_TEST_SETS];
  uint32_t *order;   /* [train->n] */
  uint64_t in_order; /* by steps: the pass whose order that is; else NO_PASS */

  /* One batch. */
  size_t max_batch;
  uint32_t *index;  /* [max_batch] */
  uint16_t *labels; /* [max_batch] */
  float *targets;   /* [max_batch][n_outputs] */
  float *d_z;       /* [max_batch][n_outputs] */
  float *weights;   /* [n_outputs] of classes in training; NULL: all count alike */
};

/* ---- opening and closing */

static enum err check_schema(const struct schema *s) {
  if (!schema_arch(s))
    return ERR_UNSUPPORTED;
  for (size_t i = 0; i < schema_tensors(s); i++)
    if (schema_tensor(s, i)->role == ROLE_PERSONAL)
      return ERR_UNSUPPORTED;
  return ERR_OK;
}

static enum err allocate_copies(struct learner *l) {
  size_t n = l->config.n_copies;
  l->copies = calloc(n + 1, sizeof *l->copies);
  l->terms = calloc(n + 1, sizeof *l->terms);
  if (!l->copies || !l->terms)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < n; i++)
    if (!(l->copies[i] = floats_new(l->n)))
      return ERR_NO_MEMORY;
  return ERR_OK;
}

static enum err allocate_scratch(struct learner *l) {
  size_t n = codec_scratch(l->config.codec);
  l->codec_scratch = n > 0 ? calloc(n, sizeof *l->codec_scratch) : NULL;
  return n > 0 && !l->codec_scratch ? ERR_NO_MEMORY : ERR_OK;
}

static size_t n_states(const struct learner *l) {
  return optimiser_states(l->config.train.optimiser.kind);
}

/* They change places, so each must be able to be x. */
static enum err allocate_model(struct learner *l) {
  bool has_gradient = !optimiser_folds(&l->config.train.optimiser), has_all = true;
  float **const arrays[] = {&l->x, &l->copy, &l->spare, &l->before.x, has_gradient ? &l->gradient : NULL};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    if (arrays[i])
      has_all = has_all && (*arrays[i] = floats_new(net_floats(l->net)));
  for (size_t i = 0; i < n_states(l); i++)
    has_all = has_all && (l->states[i] = floats_new(net_floats(l->net))) &&
              (l->before.states[i] = floats_new(net_floats(l->net)));
  return has_all ? ERR_OK : ERR_NO_MEMORY;
}

/* Room for the training batch, or for more to judge by where samples are small. */
static enum err plan_net(const struct arch *arch, uint32_t batch, const struct selection *selection,
                         struct net_config *out_config, struct net_size *out_size) {
  struct net_config config = {.max_batch = batch, .batch = batch, .cpu = cpu_detect(), .selection = selection};
  struct net_size training, judging;
  enum err e = net_measure(arch, &config, &training);
  if (e)
    return e;
  *out_config = config;
  *out_size = training;
  for (config.max_batch = EVALUATION_BATCH; config.max_batch > batch; config.max_batch /= 2) {
    e = net_measure(arch, &config, &judging);
    if (e == ERR_OK && (judging.n_workspace <= EVALUATION_FLOATS || judging.n_workspace == training.n_workspace)) {
      *out_config = config;
      *out_size = judging;
      return ERR_OK;
    }
  }
  return ERR_OK;
}

/* x, x̂, the spare one and x before; what the optimiser has, and had before. */
static size_t own_arrays(const struct train_config *train) {
  return 4 + 2 * optimiser_states(train->optimiser.kind) + !optimiser_folds(&train->optimiser);
}

/* What the heap takes for so many bytes: its own word and a line, or the pages that are only theirs. */
static size_t heap_bytes(size_t n_bytes) {
  enum { MAPPED_BYTES = 128 << 10, PAGE_BYTES = 4096, LINE_BYTES = 64 };
  return n_bytes == 0 ? 0 : n_bytes + (n_bytes < MAPPED_BYTES ? 2 * LINE_BYTES : PAGE_BYTES + LINE_BYTES);
}

static size_t array_bytes_of(size_t n_floats) {
  return heap_bytes(n_floats * sizeof(float));
}

/* No product wraps: what is laid out is at most a few times MAX_PARAMETERS, of which there are at most MAX_PEERS copies. */
enum err learner_memory(const struct learner_config *c, size_t *out_bytes) {
  enum {
    OF_LAYER = 256 /* in the net's tables */,
    OF_LANE = 64,
    OF_ALL = 4096 /* learner, net, the last small arrays */
  };
  const struct arch *arch = schema_arch(c->schema);
  struct net_config net;
  struct net_size size;
  enum err e = plan_net(arch, c->train.batch, c->selection, &net, &size);
  if (e)
    return e;
  size_t lanes = c->selection != NULL ? c->selection->lanes : 1;
  *out_bytes =
      array_bytes_of(size.n_workspace) + array_bytes_of(size.n_lanes) +
      own_arrays(&c->train) * array_bytes_of(size.n_floats) +
      c->n_copies * array_bytes_of(schema_parameters(c->schema)) + 2 * array_bytes_of(net.max_batch * arch->n_outputs) +
      heap_bytes(net.max_batch * (sizeof(uint32_t) + sizeof(uint16_t))) +
      heap_bytes(codec_scratch(c->codec) * sizeof(uint32_t)) +
      c->n_copies * (sizeof(float *) + sizeof(struct mean_term)) + lanes * OF_LANE + arch->n_layers * OF_LAYER + OF_ALL;
  return ERR_OK;
}

static enum err open_net(struct learner *l) {
  struct net_config config;
  struct net_size size;
  enum err e = plan_net(l->arch, l->config.train.batch, l->config.selection, &config, &size);
  if (e)
    return e;
  config.team = l->config.team;
  l->max_batch = config.max_batch;
  return net_open(l->arch, &config, &l->net);
}

static enum err allocate_batch(struct learner *l) {
  l->index = calloc(l->max_batch, sizeof *l->index);
  l->labels = calloc(l->max_batch, sizeof *l->labels);
  l->targets = floats_new(l->max_batch * l->arch->n_outputs);
  l->d_z = floats_new(l->max_batch * l->arch->n_outputs);
  if (!l->index || !l->labels || !l->targets || !l->d_z)
    return ERR_NO_MEMORY;
  return ERR_OK;
}

/* What is as long as the net's layout or its batches: all that depends on how it computes. */
static enum err allocate_for_net(struct learner *l) {
  enum err e = open_net(l);
  if (!e)
    e = allocate_model(l);
  return e ? e : allocate_batch(l);
}

static void free_for_net(struct learner *l) {
  float **const arrays[] = {&l->x, &l->gradient, &l->copy, &l->spare, &l->before.x, &l->targets, &l->d_z};
  net_free(l->net);
  l->net = NULL;
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    free(*arrays[i]);
    *arrays[i] = NULL;
  }
  for (size_t i = 0; i < MAX_OPTIMISER_STATES; i++) {
    free(l->states[i]);
    free(l->before.states[i]);
    l->states[i] = l->before.states[i] = NULL;
  }
  free(l->index);
  free(l->labels);
  l->index = NULL;
  l->labels = NULL;
}

enum err learner_open(const struct learner_config *config, struct learner **out_learner) {
  MUST(config->n_copies <= MAX_PEERS);
  enum err e = check_schema(config->schema);
  if (!e)
    e = train_config_check(&config->train);
  if (e)
    return e;
  struct learner *l = calloc(1, sizeof *l);
  if (!l)
    return ERR_NO_MEMORY;
  l->config = *config;
  l->arch = schema_arch(config->schema);
  l->n = schema_parameters(config->schema);
  l->in_order = NO_PASS;
  e = statistics_open(config->schema, &l->statistics);
  if (!e)
    e = allocate_for_net(l);
  if (!e)
    e = allocate_copies(l);
  if (!e)
    e = allocate_scratch(l);
  if (e) {
    learner_free(l);
    return e;
  }
  net_init_weights(l->arch, &config->init, l->x);
  memcpy(l->copy, l->x, l->n * sizeof *l->x);
  learner_set_steps(l, 0);
  *out_learner = l;
  return ERR_OK;
}

void learner_free(struct learner *l) {
  if (!l)
    return;
  for (size_t i = 0; l->copies && i < l->config.n_copies; i++)
    free(l->copies[i]);
  free_for_net(l);
  statistics_done(&l->statistics);
  free(l->weights);
  free(l->copies);
  free(l->terms);
  free(l->codec_scratch);
  free(l->order);
  free(l);
}

enum err learner_select(struct learner *l, const struct selection *selection, struct team *team) {
  struct learner new = {.config = l->config, .arch = l->arch, .n = l->n}, old = *l;
  new.config.selection = selection;
  new.config.team = team;
  enum err e = allocate_for_net(&new);
  if (e) {
    free_for_net(&new);
    return e;
  }
  size_t n_bytes = l->n * sizeof *l->x;
  memcpy(new.x, l->x, n_bytes);
  memcpy(new.copy, l->copy, n_bytes);
  memcpy(new.spare, l->spare, n_bytes);
  for (size_t i = 0; i < n_states(l) && new.states[i]; i++)
    memcpy(new.states[i], l->states[i], n_bytes);
  l->config = new.config;
  l->net = new.net;
  l->x = new.x;
  l->copy = new.copy;
  l->spare = new.spare;
  l->gradient = new.gradient;
  memcpy(l->states, new.states, sizeof l->states);
  l->before = new.before; /* nothing is known there */
  l->max_batch = new.max_batch;
  l->index = new.index;
  l->labels = new.labels;
  l->targets = new.targets;
  l->d_z = new.d_z;
  free_for_net(&old);
  return ERR_OK;
}

/* ---- data */

static bool fits(const struct learner *l, const struct dataset *d) {
  if (d->n_inputs != l->arch->n_inputs)
    return false;
  return task_outputs(d->task, d->n_classes, d->n_inputs) == l->arch->n_outputs;
}

static enum err weigh_classes(struct learner *l, const struct dataset *train) {
  const struct class_weights *c = &l->config.train.class_weights;
  if (c->rule == CLASS_WEIGHTS_NONE)
    return ERR_OK;
  if (train->n_classes != l->arch->n_outputs || (c->rule == CLASS_WEIGHTS_GIVEN && c->n != train->n_classes))
    return ERR_CONTRACT;
  l->weights = floats_new(train->n_classes);
  if (!l->weights)
    return ERR_NO_MEMORY;
  if (c->rule == CLASS_WEIGHTS_GIVEN)
    memcpy(l->weights, c->values, c->n * sizeof *c->values);
  else
    loss_balance(l->arch->loss, train->class_counts, train->n_classes, train->n, l->weights);
  return ERR_OK;
}

enum err learner_attach(struct learner *l, const struct dataset *train,
                        const struct dataset *const tests[N_TEST_SETS]) {
  MUST(train && !l->train);
  if (!fits(l, train))
    return ERR_CONTRACT;
  for (size_t i = 0; i < N_TEST_SETS; i++)
    if (tests[i] && (!fits(l, tests[i]) || tests[i]->task != train->task))
      return ERR_CONTRACT;
  if (train->n == 0)
    return ERR_RANGE;
  enum err e = weigh_classes(l, train);
  if (e)
    return e;
  l->order = calloc(train->n, sizeof *l->order);
  if (!l->order)
    return ERR_NO_MEMORY;
  l->train = train;
  memcpy(l->tests, tests, sizeof l->tests);
  return ERR_OK;
}

/* What is right of n samples, whose inputs the net has been given. */
static struct answers answers_of(struct learner *l, const struct dataset *d, const uint32_t *index, size_t n) {
  if (d->labels)
    dataset_gather_labels(d, index, n, l->labels);
  if (d->targets)
    dataset_gather_targets(d, index, n, l->targets);
  return (struct answers){.labels = d->labels ? l->labels : NULL,
                          .targets = task_type(d->task)->answer == ANSWER_INPUTS ? net_input(l->net) : l->targets};
}

/* The loss by which models are judged; training may weigh and smooth. */
static struct loss plain_loss(const struct learner *l) {
  return (struct loss){.kind = l->arch->loss, .delta = l->config.train.huber_delta};
}

/* ---- training */

uint32_t learner_epoch_steps(const struct learner *l) {
  return (uint32_t)((l->train->n + l->config.train.batch - 1) / l->config.train.batch);
}

void learner_set_steps(struct learner *l, uint32_t steps) {
  l->steps = steps > 0 ? steps : l->config.train.steps;
}

static size_t steps_of_round(const struct learner *l) {
  return l->steps > 0 ? l->steps : (size_t)l->config.train.epochs * learner_epoch_steps(l);
}

/* The order in which a round visits the samples: shuffled anew for each pass. By epochs the passes are the round's own, by
 * steps they go through the rounds, and each has a stream of its own. */
struct sampler {
  struct rng rng;
  uint64_t pass;
  size_t at;
  size_t steps_left; /* of the round */
};

static void order_reset(struct learner *l) {
  for (size_t i = 0; i < l->train->n; i++)
    l->order[i] = (uint32_t)i;
}

/* Rounds of few steps stay in one pass, so its order is kept from one to the next. */
static void order_by_pass(struct learner *l, uint64_t pass) {
  struct rng rng;
  if (l->in_order == pass)
    return;
  train_stream(&rng, STREAM_ORDER, l->config.train_seed, l->config.part, pass, 0);
  order_reset(l);
  rng_shuffle(&rng, l->order, l->train->n);
  l->in_order = pass;
}

/* Streamed samples are read ahead, within the pass and the round. */
static void pass_begin(struct sampler *s, struct learner *l) {
  if (l->steps > 0)
    order_by_pass(l, s->pass);
  else
    rng_shuffle(&s->rng, l->order, l->train->n);
  size_t left = l->train->n - s->at, wanted = s->steps_left * l->config.train.batch;
  dataset_plan(l->train, l->order + s->at, left < wanted ? left : wanted);
}

static void sampler_init(struct sampler *s, struct learner *l, uint64_t round, uint32_t sub) {
  uint64_t batch = (round - 1 + sub) * l->steps, per_pass = learner_epoch_steps(l);
  *s = (struct sampler){.pass = batch / per_pass,
                        .at = (size_t)(batch % per_pass) * l->config.train.batch,
                        .steps_left = steps_of_round(l)};
  if (l->steps == 0) {
    train_stream(&s->rng, STREAM_ORDER, l->config.train_seed, l->config.part, round, sub);
    order_reset(l);
    l->in_order = NO_PASS;
  }
  pass_begin(s, l);
}

static const uint32_t *sampler_next(struct sampler *s, struct learner *l, size_t *out_n) {
  if (s->at == l->train->n) {
    s->at = 0;
    s->pass++;
    pass_begin(s, l);
  }
  size_t left = l->train->n - s->at;
  *out_n = left < l->config.train.batch ? left : l->config.train.batch;
  const uint32_t *index = l->order + s->at;
  s->at += *out_n;
  s->steps_left--;
  return index;
}

/* Backwards from d_z, and a step of the optimiser. */
static void step(struct learner *l, double rate) {
  const struct optimiser_config *c = &l->config.train.optimiser;
  l->n_taken++;
  if (!l->gradient) {
    net_descend(l->net, l->x, l->d_z, &(struct descent){c->momentum, rate, c->weight_decay}, l->states[0]);
    return;
  }
  size_t n_ranges;
  const struct net_range *ranges = net_trained(l->net, &n_ranges);
  double square_sum = 0;
  net_backward(l->net, l->x, l->d_z, 0, l->gradient);
  for (size_t i = 0; c->clip_norm > 0 && i < n_ranges; i++)
    square_sum += floats_square_sum(l->gradient + ranges[i].offset, ranges[i].n);
  const struct optimiser_step now = {.rate = rate, .scale = optimiser_clip(c, square_sum), .t = l->n_taken};
  for (size_t i = 0; i < n_ranges; i++) {
    size_t at = ranges[i].offset;
    float *states[MAX_OPTIMISER_STATES] = {0};
    for (size_t k = 0; k < n_states(l); k++)
      states[k] = l->states[k] + at;
    optimiser_apply(c, &now, l->x + at, l->gradient + at, states, ranges[i].n);
  }
}

static enum err train_batch(struct learner *l, const uint32_t *index, size_t n, double rate, struct rng *dropout,
                            struct loss_sum *out_sum) {
  struct loss loss = plain_loss(l);
  loss.label_smoothing = l->config.train.label_smoothing;
  loss.weights = l->weights;
  enum err e = dataset_gather(l->train, index, n, net_input(l->net));
  if (e)
    return e;
  const float *z = net_forward_training(l->net, l->x, n, dropout);
  const struct answers answers = answers_of(l, l->train, index, n);
  *out_sum = loss_of_batch(&loss, z, &answers, n, l->arch->n_outputs, l->d_z);
  step(l, rate);
  return ERR_OK;
}

static enum err call_hook(const struct work_hook *hook, size_t done, size_t total) {
  return hook ? hook->between_batches(hook->context, done, total) : ERR_OK;
}

/* The steps of a round, x and the states being in the net's layout. */
static enum err train_steps(struct learner *l, uint64_t round, uint32_t sub, double rate, const struct work_hook *hook,
                            double *out_loss) {
  size_t total = steps_of_round(l);
  struct loss_sum all = {0};
  struct sampler sampler;
  struct rng dropout;
  sampler_init(&sampler, l, round, sub);
  train_stream(&dropout, STREAM_DROPOUT, l->config.train_seed, l->config.part, round, sub);
  for (size_t step = 0; step < total; step++) {
    enum err e = call_hook(hook, step, total);
    if (e)
      return e;
    size_t n;
    struct loss_sum one;
    const uint32_t *index = sampler_next(&sampler, l, &n);
    if ((e = train_batch(l, index, n, rate, &dropout, &one)))
      return e;
    all.sum += one.sum;
    all.weight += one.weight;
    if (!isfinite(all.sum))
      return ERR_NON_FINITE;
  }
  *out_loss = all.weight > 0 ? all.sum / all.weight : 0;
  return ERR_OK;
}

static uint64_t rounding_seed(const struct learner *l, uint64_t round, uint32_t sub) {
  struct rng rng;
  train_stream(&rng, STREAM_ROUNDING, l->config.train_seed, l->config.part, round, sub);
  return rng_u64(&rng);
}

/* After own_step is known: with a value of x that is not finite it is not either. */
static bool is_finite(const struct learner *l) {
  bool finite = isfinite(l->own_step);
  for (size_t i = 0; i < l->statistics.n; i++)
    finite = finite && floats_finite(l->x + l->statistics.list[i].offset, l->statistics.list[i].n);
  for (size_t i = 0; i < n_states(l); i++)
    finite = finite && floats_finite(l->states[i], l->n);
  return finite;
}

static void swap(float **a, float **b) {
  float *held = *a;
  *a = *b;
  *b = held;
}

static void swap_before(struct learner *l) {
  swap(&l->x, &l->before.x);
  for (size_t i = 0; i < n_states(l); i++)
    swap(&l->states[i], &l->before.states[i]);
}

/* x and the states into the net's layout, and as they are kept as those before. */
static void begin(struct learner *l) {
  swap_before(l);
  l->before.n_taken = l->n_taken;
  l->before.own_step = l->own_step;
  l->before.is_known = true;
  net_load_from(l->net, l->before.x, l->x);
  for (size_t i = 0; i < n_states(l); i++)
    net_load_from(l->net, l->before.states[i], l->states[i]);
}

/* Out of the net's layout, each by way of the spare array. */
static void store(struct learner *l, float **array) {
  net_store_to(l->net, *array, l->spare);
  swap(array, &l->spare);
}

static void store_all(struct learner *l) {
  store(l, &l->x);
  for (size_t i = 0; i < n_states(l); i++)
    store(l, &l->states[i]);
}

enum err learner_train(struct learner *l, uint64_t round, uint32_t sub, double rate_scale, const struct work_hook *hook,
                       struct train_report *out_report) {
  MUST(l->train);
  double rate = rate_scale * train_rate(&l->config.train, round), loss = 0;
  l->pending = false;
  l->rounding_seed = rounding_seed(l, round, sub);
  begin(l);
  enum err e = train_steps(l, round, sub, rate, hook, &loss);
  dataset_plan(l->train, NULL, 0);
  store_all(l);
  if (e)
    return e;
  l->own_step = learnt_distance(&l->statistics, l->x, l->before.x, l->n);
  if (!is_finite(l))
    return ERR_NON_FINITE;
  *out_report = (struct train_report){
      .local_steps = (uint32_t)steps_of_round(l), .n_samples = (uint32_t)l->train->n, .loss = loss};
  return ERR_OK;
}

void learner_undo(struct learner *l) {
  MUST(l->before.is_known);
  swap_before(l);
  l->n_taken = l->before.n_taken;
  l->own_step = l->before.own_step;
  l->before.is_known = l->pending = false;
}

/* ---- the own update */

enum { NEARBY_HEAD_BYTES = 8 };

/* Room and place of an array in a snapshot. */
static size_t array_bytes(const struct learner *l) {
  return codec_full_bytes(l->n);
}

size_t learner_payload_bound(const struct learner *l) {
  return codec_payload_bound(l->config.codec, l->n);
}

static enum err encode_full(struct learner *l, uint8_t *out_payload, size_t *out_n_bytes) {
  if (!floats_finite(l->x, l->n))
    return ERR_NON_FINITE;
  codec_write_values(l->x, l->n, out_payload);
  memcpy(l->spare, l->x, l->n * sizeof *l->x);
  *out_n_bytes = codec_full_bytes(l->n);
  return ERR_OK;
}

static enum err encode_difference(struct learner *l, uint8_t *out_payload, size_t *out_n_bytes) {
  return codec_encode(l->config.codec, l->x, l->copy, l->n, l->rounding_seed, l->codec_scratch, out_payload,
                      out_n_bytes, l->spare);
}

static bool is_shorter(const struct learner *l, size_t width) {
  return NEARBY_HEAD_BYTES + nearby_bytes(l->n, width) < array_bytes(l);
}

/* In a half x stands beside x̂' where that is shorter. */
static size_t nearby_width(const struct learner *l) {
  static const size_t width_of[N_CODECS] = {[CODEC_F32] = 1, [CODEC_F16] = 2};
  size_t width = width_of[l->config.codec.kind];
  return width > 0 && is_shorter(l, width) && nearby_fits(l->x, l->spare, l->n, width) ? width : 0;
}

enum err learner_encode(struct learner *l, bool start_chain, uint8_t *out_payload, size_t *out_n_bytes) {
  l->pending = false;
  enum err e = start_chain ? encode_full(l, out_payload, out_n_bytes) : encode_difference(l, out_payload, out_n_bytes);
  l->pending = e == ERR_OK;
  l->nearby_width = l->pending ? nearby_width(l) : 0;
  return e;
}

void learner_published(struct learner *l) {
  MUST(l->pending);
  float *published = l->spare;
  l->spare = l->copy;
  l->copy = published;
  l->pending = false;
}

void learner_withheld(struct learner *l) {
  MUST(l->pending);
  l->pending = false;
}

/* ---- copies of peers, merging */

static float *copy_of(const struct learner *l, size_t copy) {
  MUST(copy < l->config.n_copies);
  return l->copies[copy];
}

enum err learner_copy_set(struct learner *l, size_t copy, const uint8_t *bytes, size_t n_bytes) {
  return codec_read_values(bytes, n_bytes, copy_of(l, copy), l->n);
}

enum err learner_copy_add(struct learner *l, size_t copy, enum codec_kind codec, const uint8_t *bytes, size_t n_bytes) {
  return codec_add(codec, bytes, n_bytes, copy_of(l, copy), l->n);
}

size_t learner_copy_bytes(const struct learner *l) {
  return codec_full_bytes(l->n);
}

void learner_copy_write(const struct learner *l, size_t copy, uint8_t *out_bytes) {
  codec_write_values(copy_of(l, copy), l->n, out_bytes);
}

/* Sets what the caller is told of each, and what its difference is multiplied by. */
static void judge_distances(const struct learner *l, struct contribution *contributions, size_t n, double bound) {
  for (size_t i = 0; i < n; i++) {
    struct contribution *c = &contributions[i];
    c->distance = learnt_distance(&l->statistics, copy_of(l, c->copy), l->copy, l->n);
    c->clipped = c->distance > bound;
    double weight = codec_gamma(l->config.codec) * c->weight;
    l->terms[i] = (struct mean_term){copy_of(l, c->copy), c->clipped ? weight * (bound / c->distance) : weight};
  }
}

/* The merged model into spare: what is learnt under the bound, statistics by their policy and full weight. */
static enum err merge_into_spare(struct learner *l, const struct contribution *contributions, size_t n) {
  enum err e = merge_apply(l->x, l->copy, l->terms, n, l->n, l->spare);
  for (size_t i = 0; i < n; i++)
    l->terms[i].weight = codec_gamma(l->config.codec) * contributions[i].weight;
  return e ? e : statistics_merge(&l->statistics, l->config.statistics, l->x, l->copy, l->terms, n, l->spare);
}

enum err learner_merge(struct learner *l, struct contribution *contributions, size_t n) {
  MUST(n <= l->config.n_copies && !l->pending);
  double bound = distance_ring_bound(&l->ring, l->own_step);
  judge_distances(l, contributions, n, bound);
  enum err e = merge_into_spare(l, contributions, n);
  if (e)
    return e;
  float *merged = l->spare;
  l->spare = l->x;
  l->x = merged;
  for (size_t i = 0; i < n; i++)
    if (contributions[i].weight > 0)
      distance_ring_put(&l->ring, fmin(contributions[i].distance, bound));
  return ERR_OK;
}

void learner_adopt_median(struct learner *l, const size_t *copies, size_t n) {
  const float *chosen[MAX_PEERS];
  MUST(n >= 1 && n <= l->config.n_copies);
  for (size_t i = 0; i < n; i++)
    chosen[i] = copy_of(l, copies[i]);
  merge_median(l->x, chosen, n, l->n);
  statistics_floor(&l->statistics, l->x);
}

/* ---- evaluation */

/* The samples from `first` on that are evaluated at once; their number. */
static size_t evaluation_batch(struct learner *l, const struct dataset *d, size_t first) {
  size_t n = d->n - first < l->max_batch ? d->n - first : l->max_batch;
  for (size_t i = 0; i < n; i++)
    l->index[i] = (uint32_t)(first + i);
  return n;
}

static enum err evaluate_batch(struct learner *l, const struct dataset *d, const float *w, size_t first,
                               struct metrics *m) {
  if (first + l->max_batch < d->n)
    dataset_expect(d, l->index, evaluation_batch(l, d, first + l->max_batch));
  size_t n = evaluation_batch(l, d, first);
  enum err e = dataset_gather(d, l->index, n, net_input(l->net));
  if (e)
    return e;
  const float *z = net_forward(l->net, w, n);
  const struct answers answers = answers_of(l, d, l->index, n);
  const struct loss loss = plain_loss(l);
  double loss_sum = loss_of_batch(&loss, z, &answers, n, l->arch->n_outputs, NULL).sum;
  metrics_add(m, z, &answers, n, l->arch->n_outputs, loss_sum);
  return ERR_OK;
}

enum err learner_evaluate(struct learner *l, enum test_set which, const struct work_hook *hook,
                          struct metrics *out_metrics) {
  const struct dataset *d = l->tests[which];
  if (!d)
    return ERR_NOT_FOUND;
  struct metrics m;
  enum err e = metrics_init(&m, d->task, d->n_classes, d->n);
  if (e)
    return e;
  float *w = l->spare;
  if (l->pending) /* that is x̂' */
    net_load(l->net, w = l->x);
  else
    net_load_from(l->net, l->x, w);
  for (size_t at = 0; at < d->n && !e; at += l->max_batch) {
    e = call_hook(hook, at, d->n);
    if (!e)
      e = evaluate_batch(l, d, w, at, &m);
  }
  if (l->pending)
    net_store(l->net, l->x);
  if (!e)
    e = metrics_end(&m);
  if (e) {
    metrics_done(&m);
    return e;
  }
  *out_metrics = m; /* now the caller's */
  return ERR_OK;
}

/* ---- snapshots
 *
 *   head   magic 8, version u32, zero u32, schema hash 32, P u64, zero u64                          64 bytes
 *   half   head, own step f64, ring (n u32, oldest u32, 32 × f64), x, first state, x̂              336 + 12·P
 *          version 2, of optimisers with more than momentum: optimiser u32, zero u32, t u64, other states
 *          versions 3 and 4: as 1 and 2 without x there, and at the end width u32, zero u32 and x beside x̂
 *          (models/merging/nearby.h)
 *   model  head, x                                                                                  64 + 4·P */

enum {
  MODEL_VERSION = 1,
  HALF_VERSION = 4,
  HEAD_BYTES = 64,
  STATE_BYTES = 8 + 4 + 4 + 8 * MERGE_RING,
  TAIL_BYTES = 16,
  MAGIC_BYTES = 8
};

static const char half_magic[MAGIC_BYTES] = "starhalf", model_magic[MAGIC_BYTES] = "starmodl";

static void head_write(const struct learner *l, const char magic[MAGIC_BYTES], uint32_t version,
                       uint8_t out_bytes[HEAD_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, HEAD_BYTES);
  writer_bytes(&w, magic, MAGIC_BYTES);
  writer_u32(&w, version);
  writer_u32(&w, 0);
  writer_bytes(&w, l->config.schema_hash.bytes, DIGEST_BYTES);
  writer_u64(&w, l->n);
  writer_u64(&w, 0);
  MUST(writer_end(&w) == ERR_OK);
}

/* The head of n values of the schema with this hash, of the newest version or one before. */
static enum err head_judge(const struct digest *schema_hash, size_t n_values, const char magic[MAGIC_BYTES],
                           uint32_t newest, const uint8_t *bytes, size_t n_bytes, uint32_t *out_version) {
  struct cursor c;
  char found[MAGIC_BYTES];
  struct digest schema;
  if (n_bytes < HEAD_BYTES)
    return ERR_TRUNCATED;
  cursor_init(&c, bytes, HEAD_BYTES);
  cursor_bytes(&c, found, sizeof found);
  uint32_t version = cursor_u32(&c), zero = cursor_u32(&c);
  cursor_bytes(&c, schema.bytes, sizeof schema.bytes);
  uint64_t n = cursor_u64(&c), zero_too = cursor_u64(&c);
  if (memcmp(found, magic, sizeof found) != 0 || version == 0)
    return ERR_CORRUPT;
  if (version > newest)
    return ERR_TOO_NEW;
  if (!digest_equal(&schema, schema_hash))
    return ERR_SCHEMA;
  if (zero || zero_too || n != n_values)
    return ERR_CORRUPT;
  *out_version = version;
  return ERR_OK;
}

static enum err size_judge(size_t n_bytes, size_t expected_bytes) {
  return n_bytes < expected_bytes ? ERR_TRUNCATED : n_bytes > expected_bytes ? ERR_TRAILING : ERR_OK;
}

/* The head of a model, and its size. */
static enum err model_judge(const struct digest *schema_hash, size_t n_values, const uint8_t *bytes, size_t n_bytes) {
  uint32_t version;
  enum err e = head_judge(schema_hash, n_values, model_magic, MODEL_VERSION, bytes, n_bytes, &version);
  return e ? e : size_judge(n_bytes, HEAD_BYTES + codec_full_bytes(n_values));
}

static void state_write(const struct learner *l, uint8_t out_bytes[STATE_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, STATE_BYTES);
  writer_f64(&w, l->own_step);
  writer_u32(&w, l->ring.n);
  writer_u32(&w, l->ring.oldest);
  for (size_t i = 0; i < MERGE_RING; i++)
    writer_f64(&w, l->ring.distances[i]);
  MUST(writer_end(&w) == ERR_OK);
}

static bool is_distance(double d) {
  return isfinite(d) && d >= 0;
}

static enum err state_read(const uint8_t bytes[STATE_BYTES], double *out_own_step, struct distance_ring *out_ring) {
  struct cursor c;
  cursor_init(&c, bytes, STATE_BYTES);
  *out_own_step = cursor_f64(&c);
  out_ring->n = cursor_u32(&c);
  out_ring->oldest = cursor_u32(&c);
  bool sound = is_distance(*out_own_step) && out_ring->n <= MERGE_RING && out_ring->oldest < MERGE_RING;
  sound = sound && (out_ring->n == MERGE_RING || out_ring->oldest == 0);
  for (size_t i = 0; i < MERGE_RING; i++) {
    out_ring->distances[i] = cursor_f64(&c);
    sound = sound && is_distance(out_ring->distances[i]);
  }
  return sound ? ERR_OK : ERR_CORRUPT;
}

/* x, the first state, x̂ */
enum { HALF_ARRAYS = 3 };

/* What is where in a half. */
struct half {
  enum optimiser kind; /* whose states they are */
  uint64_t n_taken;
  size_t width; /* of an x that stands beside x̂; 0: it stands whole */
};

/* The half's that would be written now. */
static struct half half_now(const struct learner *l) {
  return (struct half){
      .kind = l->config.train.optimiser.kind, .n_taken = l->n_taken, .width = l->pending ? l->nearby_width : 0};
}

static bool has_tail(const struct half *h) {
  return optimiser_states(h->kind) > 1;
}

static size_t first_state_at(const struct learner *l, const struct half *h) {
  return HEAD_BYTES + STATE_BYTES + (h->width > 0 ? 0 : array_bytes(l));
}

static size_t copy_at(const struct learner *l, const struct half *h) {
  return first_state_at(l, h) + array_bytes(l);
}

static size_t tail_at(const struct learner *l, const struct half *h) {
  return copy_at(l, h) + array_bytes(l);
}

static size_t nearby_at(const struct learner *l, const struct half *h) {
  return tail_at(l, h) + (has_tail(h) ? TAIL_BYTES + (optimiser_states(h->kind) - 1) * array_bytes(l) : 0);
}

static size_t half_bytes(const struct learner *l, const struct half *h) {
  return nearby_at(l, h) + (h->width > 0 ? NEARBY_HEAD_BYTES + nearby_bytes(l->n, h->width) : 0);
}

size_t learner_half_arrays(const struct train_config *train) {
  return HALF_ARRAYS - 1 + optimiser_states(train->optimiser.kind);
}

size_t learner_half_bytes(const struct learner *l) {
  struct half h = half_now(l);
  return half_bytes(l, &h);
}

size_t learner_half_copy_offset(const struct learner *l) {
  struct half h = half_now(l);
  return copy_at(l, &h);
}

static void tail_write(const struct learner *l, uint8_t *out_bytes) {
  struct writer w;
  writer_init(&w, out_bytes, TAIL_BYTES);
  writer_u32(&w, l->config.train.optimiser.kind);
  writer_u32(&w, 0);
  writer_u64(&w, l->n_taken);
  MUST(writer_end(&w) == ERR_OK);
  for (size_t i = 1; i < n_states(l); i++)
    codec_write_values(l->states[i], l->n, out_bytes + TAIL_BYTES + (i - 1) * array_bytes(l));
}

static void x_write(const struct learner *l, const struct half *h, uint8_t *out_bytes) {
  if (h->width == 0) {
    codec_write_values(l->x, l->n, out_bytes + HEAD_BYTES + STATE_BYTES);
    return;
  }
  struct writer w;
  uint8_t *at = out_bytes + nearby_at(l, h);
  writer_init(&w, at, NEARBY_HEAD_BYTES);
  writer_u32(&w, (uint32_t)h->width);
  writer_u32(&w, 0);
  MUST(writer_end(&w) == ERR_OK);
  nearby_write(l->x, l->spare, l->n, h->width, at + NEARBY_HEAD_BYTES);
}

void learner_half_write(const struct learner *l, uint8_t *out_bytes) {
  struct half h = half_now(l);
  uint32_t version = 1 + (has_tail(&h) ? 1u : 0) + (h.width > 0 ? 2u : 0);
  head_write(l, half_magic, version, out_bytes);
  state_write(l, out_bytes + HEAD_BYTES);
  x_write(l, &h, out_bytes);
  codec_write_values(l->states[0], l->n, out_bytes + first_state_at(l, &h));
  codec_write_values(l->pending ? l->spare : l->copy, l->n, out_bytes + copy_at(l, &h));
  if (has_tail(&h))
    tail_write(l, out_bytes + tail_at(l, &h));
}

/* What a tail begins with; ERR_CORRUPT: no optimiser with one, or more steps than anyone takes. */
static enum err tail_head(const uint8_t bytes[TAIL_BYTES], struct half *h) {
  struct cursor c;
  cursor_init(&c, bytes, TAIL_BYTES);
  uint32_t kind = cursor_u32(&c), zero = cursor_u32(&c);
  uint64_t n_taken = cursor_u64(&c);
  if (kind >= N_OPTIMISERS || optimiser_states((enum optimiser)kind) < 2 || zero || n_taken > INT64_MAX)
    return ERR_CORRUPT;
  h->kind = (enum optimiser)kind;
  h->n_taken = n_taken;
  return ERR_OK;
}

static enum err nearby_head(const struct learner *l, const uint8_t bytes[NEARBY_HEAD_BYTES], struct half *h) {
  struct cursor c;
  cursor_init(&c, bytes, NEARBY_HEAD_BYTES);
  uint32_t width = cursor_u32(&c), zero = cursor_u32(&c);
  if (width < 1 || width > 2 || zero || !is_shorter(l, width))
    return ERR_CORRUPT;
  h->width = width;
  return ERR_OK;
}

/* Takes the half apart as far as its length hangs on it; ERR_TRUNCATED: it ends before. */
static enum err half_judge(const struct learner *l, const uint8_t *bytes, size_t n_bytes, struct half *out_half) {
  uint32_t version = 0;
  enum err e = head_judge(&l->config.schema_hash, l->n, half_magic, HALF_VERSION, bytes, n_bytes, &version);
  struct half h = {.kind = OPTIMISER_SGD, .width = version > 2};
  if (!e && version % 2 == 0)
    e = n_bytes < tail_at(l, &h) + TAIL_BYTES ? ERR_TRUNCATED : tail_head(bytes + tail_at(l, &h), &h);
  if (!e && version > 2) {
    size_t at = nearby_at(l, &h);
    e = n_bytes < at + NEARBY_HEAD_BYTES ? ERR_TRUNCATED : nearby_head(l, bytes + at, &h);
  }
  if (!e)
    *out_half = h;
  return e;
}

size_t learner_half_measure(const struct learner *l, const uint8_t *bytes, size_t n_bytes) {
  struct half h;
  return half_judge(l, bytes, n_bytes, &h) ? learner_half_bytes(l) : half_bytes(l, &h);
}

size_t learner_half_most(const struct learner *l) {
  size_t most = 0;
  for (enum optimiser kind = 0; kind < N_OPTIMISERS; kind++) {
    size_t n = half_bytes(l, &(struct half){.kind = kind});
    most = n > most ? n : most;
  }
  return most;
}

/* Its floats, before any of them is taken. */
static enum err floats_judge(const struct learner *l, const struct half *h, const uint8_t *bytes) {
  enum err e = codec_check_values(bytes + first_state_at(l, h), 2 * l->n);
  for (size_t i = 1; i < optimiser_states(h->kind) && !e; i++)
    e = codec_check_values(bytes + tail_at(l, h) + TAIL_BYTES + (i - 1) * array_bytes(l), l->n);
  if (e)
    return e;
  return h->width == 0
             ? codec_check_values(bytes + HEAD_BYTES + STATE_BYTES, l->n)
             : nearby_read(bytes + nearby_at(l, h) + NEARBY_HEAD_BYTES, h->width, bytes + copy_at(l, h), l->n, NULL);
}

static void forget_states(struct learner *l) {
  l->n_taken = 0;
  for (size_t i = 0; i < n_states(l) && l->states[i]; i++)
    memset(l->states[i], 0, l->n * sizeof *l->states[i]);
}

/* Takes the states over where they mean the same: mean and mean square, or momentum; else they begin anew. */
static void take_states(struct learner *l, const struct half *h, const uint8_t *bytes) {
  forget_states(l);
  if (optimiser_states(h->kind) != n_states(l))
    return;
  l->n_taken = h->n_taken;
  for (size_t i = 0; i < n_states(l); i++) {
    size_t at = i == 0 ? first_state_at(l, h) : tail_at(l, h) + TAIL_BYTES + (i - 1) * array_bytes(l);
    MUST(l->states[i]);
    memcpy(l->states[i], bytes + at, array_bytes(l));
  }
}

static void take_x(struct learner *l, const struct half *h, const uint8_t *bytes) {
  if (h->width == 0)
    memcpy(l->x, bytes + HEAD_BYTES + STATE_BYTES, array_bytes(l));
  else
    MUST(nearby_read(bytes + nearby_at(l, h) + NEARBY_HEAD_BYTES, h->width, bytes + copy_at(l, h), l->n, l->x) ==
         ERR_OK); /* judged before */
}

enum err learner_half_read(struct learner *l, const uint8_t *bytes, size_t n_bytes) {
  double own_step;
  struct distance_ring ring;
  struct half h;
  enum err e = half_judge(l, bytes, n_bytes, &h);
  if (!e)
    e = size_judge(n_bytes, half_bytes(l, &h));
  if (!e)
    e = state_read(bytes + HEAD_BYTES, &own_step, &ring);
  if (!e)
    e = floats_judge(l, &h, bytes);
  if (e)
    return e;
  take_x(l, &h, bytes);
  take_states(l, &h, bytes);
  memcpy(l->copy, bytes + copy_at(l, &h), array_bytes(l));
  l->own_step = own_step;
  l->ring = ring;
  l->pending = false;
  return ERR_OK;
}

size_t learner_model_bytes(const struct learner *l) {
  return HEAD_BYTES + array_bytes(l);
}

void learner_model_write(const struct learner *l, uint8_t *out_bytes) {
  head_write(l, model_magic, MODEL_VERSION, out_bytes);
  codec_write_values(l->x, l->n, out_bytes + HEAD_BYTES);
}

enum err learner_model_read(struct learner *l, const uint8_t *bytes, size_t n_bytes) {
  enum err e = model_judge(&l->config.schema_hash, l->n, bytes, n_bytes);
  return e ? e : codec_read_values(bytes + HEAD_BYTES, array_bytes(l), l->x, l->n);
}

double learner_model_distance(const struct learner *a, const struct learner *b, size_t offset, size_t n_values) {
  MUST(a->n == b->n && offset <= a->n && n_values <= a->n - offset);
  double apart = 0, size = 0;
  for (size_t i = offset; i < offset + n_values; i++) {
    double d = (double)b->x[i] - (double)a->x[i];
    apart += d * d;
    size += (double)a->x[i] * (double)a->x[i];
  }
  return apart == 0 ? 0 : size > 0 ? sqrt(apart / size) : NAN;
}

/* ---- warm start */

static bool is_alike(const struct tensor *a, const struct tensor *b) {
  return strcmp(a->name, b->name) == 0 && a->role == b->role && a->rank == b->rank &&
         memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

static const struct tensor *find_alike(const struct schema *from, const struct tensor *own) {
  for (size_t i = 0; i < schema_tensors(from); i++)
    if (is_alike(schema_tensor(from, i), own))
      return schema_tensor(from, i);
  return NULL;
}

static void take_alike(struct learner *l, const struct schema *from, const float *values, bool *out_taken) {
  for (size_t i = 0; i < schema_tensors(l->config.schema); i++) {
    const struct tensor *own = schema_tensor(l->config.schema, i), *theirs = find_alike(from, own);
    out_taken[i] = theirs != NULL;
    if (theirs)
      memcpy(l->x + own->offset, values + theirs->offset, own->n_values * sizeof *values);
  }
  memcpy(l->copy, l->x, l->n * sizeof *l->x);
}

enum err learner_take(struct learner *l, const struct schema *from, const struct digest *from_hash,
                      const uint8_t *bytes, size_t n_bytes, bool *out_taken) {
  size_t n = schema_parameters(from);
  enum err e = model_judge(from_hash, n, bytes, n_bytes);
  if (e)
    return e;
  float *values = floats_new(n);
  if (!values)
    return ERR_NO_MEMORY;
  e = codec_read_values(bytes + HEAD_BYTES, 4 * n, values, n);
  if (!e)
    take_alike(l, from, values, out_taken);
  free(values);
  return e;
}

/* ---- models from elsewhere */

const float *learner_values(const struct learner *l) {
  return l->x;
}

enum err learner_go_on_from(struct learner *l, const float *values, bool is_first) {
  if (!floats_finite(values, l->n))
    return ERR_NON_FINITE;
  memmove(l->x, values, l->n * sizeof *l->x);
  statistics_floor(&l->statistics, l->x);
  forget_states(l);
  if (is_first)
    memcpy(l->copy, l->x, l->n * sizeof *l->x);
  return ERR_OK;
}
