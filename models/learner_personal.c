#include "models/learner_parts.h"

#include <math.h>
#include <string.h>

#include "base/must.h"
#include "models/floats.h"

enum { N_ALPHAS = 10 /* steps from 0 to 1 */ };

/* ---- what is judged */

static enum personal_method method_of(const struct learner *l) {
  return l->config.train.personal.method;
}

float *learner_judged(struct learner *l) {
  return l->own.served ? l->own.served : l->own.v ? l->own.v : l->x;
}

const float *learner_served(const struct learner *l) {
  return l->own.served ? l->own.served : l->own.v ? l->own.v : l->x;
}

/* out ← αv + (1 − α)x; to the bit v or x at the ends. */
static void mix(const struct learner *l, double alpha, float *out) {
  for (size_t i = 0; i < l->n; i++)
    out[i] = (float)(alpha * (double)l->own.v[i] + (1 - alpha) * (double)l->x[i]);
}

void learner_own_mix(struct learner *l) {
  if (l->own.served)
    mix(l, l->own.alpha, l->own.served);
}

void learner_own_reset(struct learner *l) {
  l->own.alpha = 0.5;
  if (l->own.v)
    memcpy(l->own.v, l->x, l->n * sizeof *l->x);
  learner_own_mix(l);
}

/* ---- how it is trained */

/* λ(v − x): x lies in work[0]. */
static enum err pull_to_merged(struct term *t, const struct training *training, const struct term_batch *b) {
  term_pull(training, t->numbers[0], t->work[0], b->g);
  return ERR_OK;
}

static const struct term_type ditto_pull = {.word = "ditto", .at[TERM_GRADIENT] = pull_to_merged};

static void swap_for_own(struct learner *l) {
  learner_swap(&l->x, &l->before.x);
  for (size_t i = 0; i < learner_states(l); i++)
    learner_swap(&l->states[i], &l->before.states[i]);
}

/* Another model [P] is trained as x is, with an optimiser that knows nothing, in the place of what the round began with, of which
 * nothing is known from then on: there it stands afterwards, in the layout of the net. */
static enum err teach_from(struct learner *l, const float *values, struct lesson *lesson,
                           const struct work_hook *hook) {
  const struct loss loss = learner_training_loss(l);
  uint64_t n_taken = l->n_taken;
  double mean_loss;
  l->before.is_known = false;
  net_load_from(l->net, values, l->before.x);
  for (size_t i = 0; i < learner_states(l); i++)
    memset(l->before.states[i], 0, net_floats(l->net) * sizeof(float));
  swap_for_own(l);
  l->n_taken = 0;
  lesson->training.loss = &loss;
  lesson->training.x = l->x;
  lesson->training.start = values;
  lesson->total = lesson->training.n_steps;
  enum err e = learner_teach(l, lesson, hook, &mean_loss);
  dataset_plan(l->train, NULL, 0);
  swap_for_own(l);
  l->n_taken = n_taken;
  return e;
}

/* What was trained becomes v. */
static enum err take(struct learner *l) {
  net_store_to(l->net, l->before.x, l->spare);
  if (!floats_finite(l->spare, l->n))
    return ERR_NON_FINITE;
  learner_swap(&l->own.v, &l->spare);
  return ERR_OK;
}

static enum err finetune(struct learner *l, struct lesson *lesson, const struct work_hook *hook) {
  lesson->training.n_steps = learner_epoch_steps(l);
  enum err e = teach_from(l, l->x, lesson, hook);
  return e ? e : take(l);
}

static enum err ditto(struct learner *l, struct lesson *lesson, const struct work_hook *hook) {
  const double lambda = l->config.train.personal.lambda;
  net_load_from(l->net, l->x, l->spare);
  *lesson->terms = (struct terms){.n = 1, .list[0] = {.type = &ditto_pull, .numbers[0] = lambda, .work[0] = l->spare}};
  enum err e = teach_from(l, l->own.v, lesson, hook);
  return e ? e : take(l);
}

/* v + (mixture' − mixture)/α: as v's own steps, of which the mixture makes α. The v before then stands where the mixture did. */
static enum err take_mixture(struct learner *l) {
  net_store_to(l->net, l->before.x, l->spare);
  for (size_t i = 0; i < l->n; i++) {
    double moved = (double)l->spare[i] - (double)l->own.served[i];
    l->spare[i] = (float)((double)l->own.v[i] + moved / l->own.alpha);
  }
  if (!floats_finite(l->spare, l->n))
    return ERR_NON_FINITE;
  learner_swap(&l->own.v, &l->spare);
  learner_swap(&l->own.served, &l->spare);
  return ERR_OK;
}

/* The α of 0, 0.1 … 1 whose mixture has the least loss on the validation samples, of equal ones the least. */
static enum err find_alpha(struct learner *l, const struct work_hook *hook, double *out_alpha) {
  double best = 0, least = INFINITY;
  for (size_t k = 0; k <= N_ALPHAS; k++) {
    struct metrics m;
    double alpha = (double)k / N_ALPHAS;
    mix(l, alpha, l->before.x);
    enum err e = learner_evaluate_values(l, l->tests[TEST_VALIDATION], l->before.x, hook, &m);
    if (e)
      return e;
    if (m.loss < least) {
      least = m.loss;
      best = alpha;
    }
    metrics_done(&m);
  }
  *out_alpha = best;
  return ERR_OK;
}

/* The gradient of v is α times that at the mixture, and a step of v moves the mixture by α times that step: so that the mixture is
 * trained at the rate α²η, or αη by optimisers that take no notice of a factor. */
static enum err interpolate(struct learner *l, struct lesson *lesson, const struct work_hook *hook) {
  double alpha = l->own.alpha, best = alpha;
  enum err e = ERR_OK;
  learner_own_mix(l);
  if (alpha > 0) {
    lesson->training.rate *= l->config.train.optimiser.kind == OPTIMISER_SGD ? alpha * alpha : alpha;
    e = teach_from(l, l->own.served, lesson, hook);
    if (!e)
      e = take_mixture(l);
  }
  if (!e && l->tests[TEST_VALIDATION] && (e = find_alpha(l, hook, &best)) && alpha > 0)
    learner_swap(&l->own.v, &l->own.served);
  if (!e)
    l->own.alpha += (best - alpha) / 2;
  learner_own_mix(l);
  return e;
}

enum err learner_personalise(struct learner *l, uint64_t round, uint32_t sub, const struct work_hook *hook) {
  static enum err (*const run[N_PERSONAL_METHODS])(struct learner *, struct lesson *, const struct work_hook *) = {
      [PERSONAL_FINETUNE] = finetune, [PERSONAL_DITTO] = ditto, [PERSONAL_INTERPOLATE] = interpolate};
  struct terms terms = {0}; /* the method's own */
  MUST(l->train && !l->pending);
  if (!run[method_of(l)])
    return ERR_OK;
  struct lesson lesson = {.training = learner_training(l, round, sub), .terms = &terms};
  return run[method_of(l)](l, &lesson, hook);
}
