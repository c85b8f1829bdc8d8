#include "models/learner_parts.h"

#include <math.h>
#include <string.h>

#include "base/must.h"
#include "models/floats.h"

/* The samples of a round: those of the present task; all where there are none, or before the first training. */
static const uint32_t *pool_of(const struct learner *l, size_t *out_n) {
  size_t n = 0;
  const uint32_t *samples = l->continual ? continual_samples(l->continual, &n) : NULL;
  *out_n = n > 0 ? n : l->train->n;
  return n > 0 ? samples : NULL;
}

static size_t pool_size(const struct learner *l) {
  size_t n;
  (void)pool_of(l, &n);
  return n;
}

uint32_t learner_epoch_steps(const struct learner *l) {
  return (uint32_t)((pool_size(l) + l->config.train.batch - 1) / l->config.train.batch);
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
  size_t n, at;
  size_t steps_left; /* of the round */
};

static void order_reset(struct learner *l) {
  size_t n;
  const uint32_t *pool = pool_of(l, &n);
  for (size_t i = 0; i < n; i++)
    l->order[i] = pool ? pool[i] : (uint32_t)i;
}

/* Rounds of few steps stay in one pass, so its order is kept from one to the next. */
static void order_by_pass(struct learner *l, uint64_t pass) {
  struct rng rng;
  if (l->in_order == pass)
    return;
  train_stream(&rng, STREAM_ORDER, l->config.train_seed, l->config.part, pass, 0);
  order_reset(l);
  rng_shuffle(&rng, l->order, pool_size(l));
  l->in_order = pass;
}

/* Streamed samples are read ahead, within the pass and the round. */
static void pass_begin(struct sampler *s, struct learner *l) {
  if (l->steps > 0)
    order_by_pass(l, s->pass);
  else
    rng_shuffle(&s->rng, l->order, s->n);
  size_t left = s->n - s->at, wanted = s->steps_left * l->config.train.batch;
  dataset_plan(l->train, l->order + s->at, left < wanted ? left : wanted);
}

static void sampler_init(struct sampler *s, struct learner *l, const struct training *training) {
  uint64_t round = training->round;
  uint32_t sub = training->sub;
  uint64_t batch = (round - 1 + sub) * l->steps, per_pass = learner_epoch_steps(l);
  *s = (struct sampler){.n = pool_size(l),
                        .pass = batch / per_pass,
                        .at = (size_t)(batch % per_pass) * l->config.train.batch,
                        .steps_left = training->n_steps};
  if (l->steps == 0) {
    train_stream(&s->rng, STREAM_ORDER, l->config.train_seed, l->config.part, round, sub);
    order_reset(l);
    l->in_order = NO_PASS;
  }
  pass_begin(s, l);
}

static const uint32_t *sampler_next(struct sampler *s, struct learner *l, size_t *out_n) {
  if (s->at == s->n) {
    s->at = 0;
    s->pass++;
    pass_begin(s, l);
  }
  size_t left = s->n - s->at;
  *out_n = left < l->config.train.batch ? left : l->config.train.batch;
  const uint32_t *index = l->order + s->at;
  s->at += *out_n;
  s->steps_left--;
  return index;
}

static void apply_gradient(struct learner *l, const struct training *training) {
  const struct optimiser_config *c = &l->config.train.optimiser;
  const struct net_range *ranges = training->ranges;
  size_t n_ranges = training->n_ranges;
  double square_sum = 0;
  for (size_t i = 0; c->clip_norm > 0 && i < n_ranges; i++)
    square_sum += floats_square_sum(l->gradient + ranges[i].offset, ranges[i].n);
  const struct optimiser_step now = {.rate = training->rate, .scale = optimiser_clip(c, square_sum), .t = l->n_taken};
  for (size_t i = 0; i < n_ranges; i++) {
    size_t at = ranges[i].offset;
    float *states[MAX_OPTIMISER_STATES] = {0};
    for (size_t k = 0; k < learner_states(l); k++)
      states[k] = l->states[k] + at;
    optimiser_apply(c, &now, l->x + at, l->gradient + at, states, ranges[i].n);
  }
}

/* Backwards from d_z, and a step of the optimiser. */
static enum err step(struct learner *l, const struct lesson *lesson, const struct term_batch *batch) {
  const struct training *training = &lesson->training;
  const struct optimiser_config *c = &l->config.train.optimiser;
  l->n_taken++;
  if (!lesson->is_apart) {
    const struct descent descent = {c->momentum, training->rate, c->weight_decay};
    net_descend(l->net, l->x, l->d_z, &descent, l->states[0]);
    return ERR_OK;
  }
  net_backward(l->net, l->x, l->d_z, 0, l->gradient);
  enum err e = terms_at(lesson->terms, TERM_GRADIENT, training, batch);
  if (!e && l->continual)
    continual_on_gradient(l->continual, l->net, training->loss, l->x, l->gradient, batch->n);
  if (!e)
    apply_gradient(l, training);
  return e;
}

/* The outputs of which those of no task that counts are out of sight, and the labels with them. */
static const float *in_sight(struct learner *l, const float *z, size_t n) {
  if (!l->continual)
    return z;
  memcpy(l->z, z, n * l->arch->n_outputs * sizeof *z);
  continual_view(l->continual, l->z, l->labels, n, l->arch->n_outputs);
  return l->z;
}

static enum err train_batch(struct learner *l, const struct lesson *lesson, struct term_batch *b, struct rng *dropout,
                            struct loss_sum *out_sum) {
  const struct training *training = &lesson->training;
  enum err e = dataset_gather(l->train, b->index, b->n, net_input(l->net));
  if (!e)
    e = terms_at(lesson->terms, TERM_INPUTS, training, b);
  if (e)
    return e;
  if (l->continual)
    continual_before(l->continual, l->net, b->n);
  b->z = net_forward_training(l->net, l->x, b->n, dropout);
  const struct answers answers = learner_answers(l, l->train, b->index, b->n);
  const float *z = in_sight(l, b->z, b->n);
  *out_sum = loss_of_batch(training->loss, z, &answers, b->n, b->n_outputs, l->d_z);
  b->d_z = l->d_z;
  if (l->continual)
    continual_on_outputs(l->continual, b->z, b->n, b->n_outputs, l->d_z);
  e = terms_at(lesson->terms, TERM_OUTPUTS, training, b);
  return e ? e : step(l, lesson, b);
}

/* Whether the gradient must be whole before a step. */
static bool is_apart(const struct learner *l, const struct lesson *lesson) {
  size_t n_ranges;
  bool adds = learner_has_tasks(&l->config) && continual_adds(l->config.continual);
  return !optimiser_folds(&l->config.train.optimiser) || terms_have(lesson->terms, TERM_GRADIENT) || adds ||
         lesson->training.ranges != net_trained(l->net, &n_ranges);
}

enum err learner_teach(struct learner *l, struct lesson *lesson, const struct work_hook *hook, double *out_loss) {
  lesson->is_apart = is_apart(l, lesson);
  MUST(l->gradient || !lesson->is_apart);
  const struct training *training = &lesson->training;
  struct loss_sum all = {0};
  struct sampler sampler;
  struct rng dropout;
  sampler_init(&sampler, l, training);
  train_stream(&dropout, STREAM_DROPOUT, l->config.train_seed, l->config.part, training->round, training->sub);
  for (size_t step = 0; step < training->n_steps; step++) {
    enum err e = learner_call_hook(hook, lesson->done + step, lesson->total);
    if (e)
      return e;
    struct loss_sum one;
    struct term_batch b = {.step = step, .n_outputs = l->arch->n_outputs, .g = l->gradient};
    b.index = sampler_next(&sampler, l, &b.n);
    if ((e = train_batch(l, lesson, &b, &dropout, &one)))
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
  bool finite = isfinite(l->own_step) && (!l->shared || floats_finite(l->x, l->n));
  for (size_t i = 0; i < l->statistics.n && !l->shared; i++)
    finite = finite && floats_finite(l->x + l->statistics.list[i].offset, l->statistics.list[i].n);
  for (size_t i = 0; i < learner_states(l); i++)
    finite = finite && floats_finite(l->states[i], l->n);
  return finite && terms_finite(&l->added, l->n);
}

void learner_swap(float **a, float **b) {
  float *held = *a;
  *a = *b;
  *b = held;
}

static void swap_before(struct learner *l) {
  learner_swap(&l->x, &l->before.x);
  for (size_t i = 0; i < learner_states(l); i++)
    learner_swap(&l->states[i], &l->before.states[i]);
}

/* In any layout. */
static void reset_states(struct learner *l) {
  l->n_taken = 0;
  for (size_t i = 0; i < learner_states(l); i++)
    memset(l->states[i], 0, net_floats(l->net) * sizeof *l->states[i]);
}

/* x and the states into the net's layout, and as they are kept as those before. */
static void begin(struct learner *l) {
  swap_before(l);
  l->before.n_taken = l->n_taken;
  l->before.own_step = l->own_step;
  l->before.is_known = true;
  terms_keep(&l->added, l->n);
  net_load_from(l->net, l->before.x, l->x);
  for (size_t i = 0; i < learner_states(l); i++)
    net_load_from(l->net, l->before.states[i], l->states[i]);
  if (l->config.train.momentum_reset)
    reset_states(l);
}

/* Out of the net's layout, each by way of the spare array. */
static void store(struct learner *l, float **array) {
  net_store_to(l->net, *array, l->spare);
  learner_swap(array, &l->spare);
}

static void store_all(struct learner *l) {
  store(l, &l->x);
  for (size_t i = 0; i < learner_states(l); i++)
    store(l, &l->states[i]);
}

struct loss learner_training_loss(const struct learner *l) {
  struct loss loss = learner_plain_loss(l);
  loss.label_smoothing = l->config.train.label_smoothing;
  loss.weights = l->weights;
  return loss;
}

/* Of everything, x being in the layout of the net. */
struct training learner_training(const struct learner *l, uint64_t round, uint32_t sub) {
  struct training t = {.config = &l->config.train,
                       .data = l->train,
                       .net = l->net,
                       .n_values = l->n,
                       .start = l->before.x,
                       .x = l->x,
                       .shared = l->trained.shared,
                       .n_shared = l->trained.n_shared,
                       .round = round,
                       .sub = sub,
                       .rate = train_rate(&l->config.train, round),
                       .n_steps = steps_of_round(l)};
  t.ranges = net_trained(l->net, &t.n_ranges);
  return t;
}

/* The task whose turn it is; what ends with the one before is reckoned from the model as it is. */
static enum err begin_task(struct learner *l, uint64_t round, uint32_t sub) {
  const struct continual_turn turn = {
      .net = l->net, .w = l->x, .values = l->before.x, .round = round, .sub = sub, .max_batch = l->max_batch};
  l->in_order = NO_PASS; /* it may be of another task */
  return continual_begin(l->continual, &turn);
}

/* Steps in which only the personal layers are trained, before those of the round. */
static size_t head_steps(const struct learner *l) {
  return l->shared ? (size_t)l->config.train.personal.head_epochs * learner_epoch_steps(l) : 0;
}

/* FedRep: the personal layers, the others being fixed; then the others. */
static enum err teach_head(struct learner *l, struct lesson *lesson, const struct work_hook *hook) {
  struct lesson head = *lesson;
  double loss;
  head.training.ranges = l->trained.personal;
  head.training.n_ranges = l->trained.n_personal;
  head.training.n_shared = 0;
  head.training.n_steps = lesson->done;
  head.done = 0;
  lesson->training.ranges = l->trained.shared;
  lesson->training.n_ranges = l->trained.n_shared;
  return learner_teach(l, &head, hook, &loss);
}

static enum err teach_round(struct learner *l, struct lesson *lesson, const struct work_hook *hook, double *out_loss) {
  enum err e = terms_begin(lesson->terms, &lesson->training);
  if (!e && lesson->done > 0)
    e = teach_head(l, lesson, hook);
  if (!e)
    e = learner_teach(l, lesson, hook, out_loss);
  return e ? e : terms_end(lesson->terms, &lesson->training);
}

enum err learner_train(struct learner *l, uint64_t round, uint32_t sub, double rate_scale, const struct work_hook *hook,
                       struct train_report *out_report) {
  MUST(l->train);
  l->pending = l->has_step = false;
  l->rounding_seed = rounding_seed(l, round, sub);
  begin(l);
  enum err e = l->continual ? begin_task(l, round, sub) : ERR_OK;
  const struct loss loss = learner_training_loss(l);
  size_t before = head_steps(l), n_steps = steps_of_round(l);
  struct lesson lesson = {
      .training = learner_training(l, round, sub), .terms = &l->added, .done = before, .total = before + n_steps};
  lesson.training.loss = &loss;
  lesson.training.rate *= rate_scale;
  double mean_loss = 0;
  if (!e)
    e = teach_round(l, &lesson, hook, &mean_loss);
  dataset_plan(l->train, NULL, 0);
  store_all(l);
  if (e)
    return e;
  l->own_step =
      learnt_distance(&l->statistics, learner_shared(l), learner_shared_of(l, l->before.x, l->spare), l->n_shared);
  if (!is_finite(l))
    return ERR_NON_FINITE;
  l->has_step = true;
  *out_report =
      (struct train_report){.local_steps = (uint32_t)n_steps, .n_samples = (uint32_t)l->train->n, .loss = mean_loss};
  return ERR_OK;
}

void learner_undo(struct learner *l) {
  MUST(l->before.is_known);
  swap_before(l);
  terms_undo(&l->added);
  if (l->continual)
    continual_undo(l->continual);
  l->n_taken = l->before.n_taken;
  l->own_step = l->before.own_step;
  l->before.is_known = l->pending = l->has_step = false;
}
