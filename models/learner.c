#include "models/learner_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "models/floats.h"

/* Samples that are judged at a time, when they are small. */
enum { EVALUATION_BATCH = 256, EVALUATION_FLOATS = 1 << 20 };

/* ---- opening and closing */

static enum err check_schema(const struct schema *s) {
  return schema_arch(s) ? ERR_OK : ERR_UNSUPPORTED;
}

static enum err allocate_copies(struct learner *l) {
  size_t n = l->config.n_copies;
  l->copies = calloc(n + 1, sizeof *l->copies);
  l->merging = calloc(n + 1, sizeof *l->merging);
  if (!l->copies || !l->merging)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < n; i++)
    if (!(l->copies[i] = floats_new(l->n_shared)))
      return ERR_NO_MEMORY;
  return rule_space_new(&l->config.rule, n, &l->space);
}

static enum err allocate_scratch(struct learner *l) {
  size_t n = codec_scratch(l->config.codec);
  l->codec_scratch = n > 0 ? calloc(n, sizeof *l->codec_scratch) : NULL;
  return n > 0 && !l->codec_scratch ? ERR_NO_MEMORY : ERR_OK;
}

size_t learner_states(const struct learner *l) {
  return optimiser_states(l->config.train.optimiser.kind);
}

bool learner_has_tasks(const struct learner_config *c) {
  return c->continual != NULL && c->continual->tasks.n_tasks > 0;
}

/* An array for it, apart from the momentum. */
static bool takes_gradient(const struct learner_config *c) {
  return !optimiser_folds(&c->train.optimiser) || terms_need_gradient(&c->train) || c->train.personal.head_epochs > 0 ||
         personal_type(c->train.personal.method)->needs_gradient ||
         (learner_has_tasks(c) && continual_adds(c->continual));
}

/* They change places, so each must be able to be x. */
static enum err allocate_model(struct learner *l) {
  bool has_gradient = takes_gradient(&l->config), has_all = true;
  size_t n_own = personal_type(l->config.train.personal.method)->n_models;
  float **const arrays[] = {&l->x,
                            &l->copy,
                            &l->spare,
                            &l->before.x,
                            has_gradient ? &l->gradient : NULL,
                            n_own > 0 ? &l->own.v : NULL,
                            n_own > 1 ? &l->own.served : NULL};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    if (arrays[i])
      has_all = has_all && (*arrays[i] = floats_new(net_floats(l->net)));
  for (size_t i = 0; i < learner_states(l); i++)
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

/* x, x̂, the spare one and x before; what the optimiser has, and had before; a gradient, what terms work in, and the own models. */
static size_t own_arrays(const struct learner_config *c) {
  return 4 + 2 * optimiser_states(c->train.optimiser.kind) + takes_gradient(c) + terms_size(&c->train).n_work +
         personal_type(c->train.personal.method)->n_models;
}

static bool has_personal(const struct schema *s) {
  return schema_shared(s) < schema_parameters(s);
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
    OF_LAYER = 288 /* in the net's tables, and here */,
    OF_LANE = 64,
    OF_TENSOR = sizeof(struct tensor) + sizeof(struct share_range),
    OF_ALL = 4096 /* learner, net, the last small arrays */
  };
  const struct arch *arch = schema_arch(c->schema);
  struct net_config net;
  struct net_size size;
  enum err e = plan_net(arch, c->train.batch, c->selection, &net, &size);
  if (e)
    return e;
  size_t lanes = c->selection != NULL ? c->selection->lanes : 1, of_tasks = 0;
  if (learner_has_tasks(c) && (e = continual_memory(c->continual, schema_parameters(c->schema), size.n_floats,
                                                    net.max_batch, arch->n_outputs, &of_tasks)))
    return e;
  size_t n_space, space = rule_space_bytes(&c->rule, c->n_copies, &n_space);
  *out_bytes = array_bytes_of(size.n_workspace) + array_bytes_of(size.n_lanes) +
               own_arrays(c) * array_bytes_of(size.n_floats) +
               (c->n_copies + has_personal(c->schema)) * array_bytes_of(schema_shared(c->schema)) +
               terms_size(&c->train).n_arrays * array_bytes_of(schema_parameters(c->schema)) +
               OF_TENSOR * schema_tensors(c->schema) + 2 * array_bytes_of(net.max_batch * arch->n_outputs) +
               heap_bytes(net.max_batch * (sizeof(uint32_t) + sizeof(uint16_t))) +
               heap_bytes(codec_scratch(c->codec) * sizeof(uint32_t)) +
               c->n_copies * (sizeof(float *) + sizeof(struct rule_peer)) + heap_bytes(space) +
               (n_space + lanes) * OF_LANE + arch->n_layers * OF_LAYER + OF_ALL + of_tasks;
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
  if (learner_has_tasks(&l->config) && !(l->z = floats_new(l->max_batch * l->arch->n_outputs)))
    return ERR_NO_MEMORY;
  if (!l->index || !l->labels || !l->targets || !l->d_z)
    return ERR_NO_MEMORY;
  return ERR_OK;
}

static enum err find_trained(struct learner *l) {
  struct trained *t = &l->trained;
  size_t n_layers = l->arch->n_layers;
  t->shared = calloc(n_layers, sizeof *t->shared);
  t->personal = calloc(n_layers, sizeof *t->personal);
  if (!t->shared || !t->personal)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < n_layers; i++) {
    struct net_range r = net_layer_trained(l->net, i);
    if (r.n > 0 && l->arch->layers[i].is_personal)
      t->personal[t->n_personal++] = r;
    else if (r.n > 0)
      t->shared[t->n_shared++] = r;
  }
  return ERR_OK;
}

/* What is as long as the net's layout or its batches: all that depends on how it computes. */
static enum err allocate_for_net(struct learner *l) {
  enum err e = open_net(l);
  if (!e)
    e = find_trained(l);
  if (!e)
    e = allocate_model(l);
  return e ? e : allocate_batch(l);
}

static void free_for_net(struct learner *l) {
  float **const arrays[] = {&l->x,       &l->gradient, &l->copy, &l->spare, &l->before.x,
                            &l->targets, &l->d_z,      &l->z,    &l->own.v, &l->own.served};
  net_free(l->net);
  l->net = NULL;
  free(l->trained.shared);
  free(l->trained.personal);
  l->trained = (struct trained){0};
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

static enum err open_share(struct learner *l) {
  enum err e = share_open(l->config.schema, &l->share);
  l->n_shared = l->share.n;
  if (!e && l->n_shared < l->n)
    e = (l->shared = floats_new(l->n_shared)) ? ERR_OK : ERR_NO_MEMORY;
  return e ? e : statistics_open(l->share.schema, &l->statistics);
}

static enum err allocate_ledger(struct learner *l) {
  const struct learner_ledger *ledger = l->config.ledger;
  struct ledger_room *room = &l->ledger;
  if (!ledger)
    return ERR_OK;
  room->bytes = calloc(1, ledger->most_bytes);
  room->numbers = calloc(2 + ledger->most_bytes / 4, sizeof *room->numbers);
  room->arrays = calloc(l->config.n_copies + 1, sizeof *room->arrays);
  room->copies = calloc(l->config.n_copies + 1, sizeof *room->copies);
  return room->bytes && room->numbers && room->arrays && room->copies ? ERR_OK : ERR_NO_MEMORY;
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
  e = open_share(l);
  if (!e)
    e = allocate_for_net(l);
  if (!e)
    e = terms_open(&config->train, l->n, net_floats(l->net), &l->added);
  if (!e)
    e = allocate_copies(l);
  if (!e)
    e = allocate_scratch(l);
  if (!e)
    e = allocate_ledger(l);
  if (e) {
    learner_free(l);
    return e;
  }
  net_init_weights(l->arch, &config->init, l->x);
  memcpy(l->copy, learner_shared(l), l->n_shared * sizeof *l->x);
  learner_own_reset(l);
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
  terms_close(&l->added);
  statistics_done(&l->statistics);
  share_close(&l->share);
  free(l->shared);
  free(l->weights);
  free(l->copies);
  free(l->merging);
  free(l->ledger.bytes);
  free(l->ledger.numbers);
  free(l->ledger.arrays);
  free(l->ledger.copies);
  rule_space_free(l->space);
  free(l->codec_scratch);
  free(l->order);
  continual_free(l->continual);
  free(l);
}

enum err learner_select(struct learner *l, const struct selection *selection, struct team *team) {
  struct learner new = {.config = l->config, .arch = l->arch, .n = l->n}, old = *l;
  new.config.selection = selection;
  new.config.team = team;
  enum err e = allocate_for_net(&new);
  if (!e)
    e = terms_fit(&l->added, net_floats(new.net));
  if (e) {
    free_for_net(&new);
    return e;
  }
  size_t n_bytes = l->n * sizeof *l->x;
  memcpy(new.x, l->x, n_bytes);
  memcpy(new.copy, l->copy, n_bytes);
  memcpy(new.spare, l->spare, n_bytes);
  if (l->own.v)
    memcpy(new.own.v, l->own.v, n_bytes);
  if (l->own.served)
    memcpy(new.own.served, l->own.served, n_bytes);
  for (size_t i = 0; i < learner_states(l) && new.states[i]; i++)
    memcpy(new.states[i], l->states[i], n_bytes);
  l->config = new.config;
  l->net = new.net;
  l->x = new.x;
  l->copy = new.copy;
  l->spare = new.spare;
  l->gradient = new.gradient;
  l->own.v = new.own.v;
  l->own.served = new.own.served;
  l->trained = new.trained;
  memcpy(l->states, new.states, sizeof l->states);
  l->before = new.before; /* nothing is known there */
  l->has_step = false;
  l->max_batch = new.max_batch;
  l->index = new.index;
  l->labels = new.labels;
  l->targets = new.targets;
  l->d_z = new.d_z;
  l->z = new.z;
  free_for_net(&old);
  return ERR_OK;
}

/* ---- what is shared */

float *learner_shared_of(const struct learner *l, float *model, float *room) {
  if (!l->shared)
    return model;
  share_gather(&l->share, model, room);
  return room;
}

float *learner_shared(struct learner *l) {
  return learner_shared_of(l, l->x, l->shared);
}

void learner_take_shared(struct learner *l) {
  float *taken = l->spare;
  if (l->shared) {
    share_scatter(&l->share, taken, l->x);
    return;
  }
  l->spare = l->x;
  l->x = taken;
}

void learner_floor(struct learner *l) {
  float *shared = learner_shared(l);
  statistics_floor(&l->statistics, shared);
  if (l->shared)
    share_scatter(&l->share, shared, l->x);
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

static enum err check_sets(const struct learner *l, const struct dataset *train,
                           const struct dataset *const tests[N_TEST_SETS]) {
  if (!fits(l, train))
    return ERR_CONTRACT;
  for (size_t i = 0; i < N_TEST_SETS; i++)
    if (tests[i] && (!fits(l, tests[i]) || tests[i]->task != train->task))
      return ERR_CONTRACT;
  return train->n == 0 ? ERR_RANGE : ERR_OK;
}

enum err learner_attach(struct learner *l, const struct dataset *train,
                        const struct dataset *const tests[N_TEST_SETS]) {
  MUST(train && !l->train);
  enum err e = check_sets(l, train, tests);
  if (!e)
    e = weigh_classes(l, train);
  if (!e && !(l->order = calloc(train->n, sizeof *l->order)))
    e = ERR_NO_MEMORY;
  if (!e && learner_has_tasks(&l->config))
    e = continual_open(l->config.continual, train, l->n, l->config.train_seed, l->config.part, &l->continual);
  if (e) {
    free(l->weights);
    free(l->order);
    l->weights = NULL;
    l->order = NULL;
    return e;
  }
  l->train = train;
  memcpy(l->tests, tests, sizeof l->tests);
  return ERR_OK;
}

enum err learner_reattach(struct learner *l, const struct dataset *train,
                          const struct dataset *const tests[N_TEST_SETS]) {
  MUST(train && l->train);
  enum err e = check_sets(l, train, tests);
  uint32_t *order = e ? NULL : calloc(train->n, sizeof *order);
  if (!order)
    return e ? e : ERR_NO_MEMORY;
  float *weights = l->weights;
  l->weights = NULL;
  e = weigh_classes(l, train);
  if (!e && l->continual)
    e = continual_reattach(l->continual, train);
  if (e) {
    free(l->weights);
    free(order);
    l->weights = weights;
    return e;
  }
  free(weights);
  free(l->order);
  l->order = order;
  l->in_order = NO_PASS;
  l->train = train;
  memcpy(l->tests, tests, sizeof l->tests);
  return ERR_OK;
}

struct continual *learner_continual(const struct learner *l) {
  return l->continual;
}

/* What is right of n samples, whose inputs the net has been given. */
struct answers learner_answers(struct learner *l, const struct dataset *d, const uint32_t *index, size_t n) {
  if (d->labels)
    dataset_gather_labels(d, index, n, l->labels);
  if (d->targets)
    dataset_gather_targets(d, index, n, l->targets);
  return (struct answers){.labels = d->labels ? l->labels : NULL,
                          .targets = task_type(d->task)->answer == ANSWER_INPUTS ? net_input(l->net) : l->targets};
}

/* The loss by which models are judged; training may weigh and smooth. */
struct loss learner_plain_loss(const struct learner *l) {
  return (struct loss){.kind = l->arch->loss, .delta = l->config.train.huber_delta};
}

enum err learner_call_hook(const struct work_hook *hook, size_t done, size_t total) {
  return hook ? hook->between_batches(hook->context, done, total) : ERR_OK;
}

/* ---- evaluation */

/* The samples from `first` on that are evaluated at once; their number. */
static size_t evaluation_batch(struct learner *l, const struct dataset *d, size_t first) {
  size_t n = d->n - first < l->max_batch ? d->n - first : l->max_batch;
  for (size_t i = 0; i < n; i++)
    l->index[i] = (uint32_t)(first + i);
  return n;
}

/* What a model is asked of: the samples of a set a batch at a time, and who is told what it says. */
struct judgement {
  struct metrics *metrics;   /* NULL: tasks are judged */
  struct task_score *scores; /* [n_tasks] */
};

/* The first of the largest outputs. */
static size_t said(const float *z, size_t k) {
  size_t best = 0;
  for (size_t c = 1; c < k; c++)
    best = z[c] > z[best] ? c : best;
  return best;
}

static void judge_tasks(struct learner *l, const struct dataset *d, const float *z, const struct answers *answers,
                        size_t n, struct task_score *scores) {
  const struct task_list *tasks = &l->config.continual->tasks;
  size_t k = l->arch->n_outputs;
  memcpy(l->z, z, n * k * sizeof *z);
  continual_view(l->continual, l->z, l->labels, n, k);
  for (size_t i = 0; i < n; i++) {
    size_t task = tasks->task_of[d->labels[l->index[i]]];
    if (task == NO_TASK)
      continue;
    scores[task].n++;
    scores[task].n_right += said(l->z + i * k, k) == answers->labels[i];
  }
}

/* Domain- and task-incremental models cannot be asked otherwise; class-incremental ones are asked of all classes. */
static const float *asked(struct learner *l, const float *z, size_t n) {
  if (!l->continual || l->config.continual->tasks.kind == INCREMENT_CLASS)
    return z;
  memcpy(l->z, z, n * l->arch->n_outputs * sizeof *z);
  continual_view(l->continual, l->z, l->labels, n, l->arch->n_outputs);
  return l->z;
}

static enum err evaluate_batch(struct learner *l, const struct dataset *d, const float *w, size_t first,
                               const struct judgement *j) {
  if (first + l->max_batch < d->n)
    dataset_expect(d, l->index, evaluation_batch(l, d, first + l->max_batch));
  size_t n = evaluation_batch(l, d, first);
  enum err e = dataset_gather(d, l->index, n, net_input(l->net));
  if (e)
    return e;
  const float *z = net_forward(l->net, w, n);
  const struct answers answers = learner_answers(l, d, l->index, n);
  const struct loss loss = learner_plain_loss(l);
  if (!j->metrics) {
    judge_tasks(l, d, z, &answers, n, j->scores);
    return ERR_OK;
  }
  z = asked(l, z, n);
  double loss_sum = loss_of_batch(&loss, z, &answers, n, l->arch->n_outputs, NULL).sum;
  metrics_add(j->metrics, z, &answers, n, l->arch->n_outputs, loss_sum);
  return ERR_OK;
}

/* A model that is in the layout of the net. */
static enum err judge_loaded(struct learner *l, const struct dataset *d, const float *w, const struct work_hook *hook,
                             const struct judgement *j) {
  enum err e = ERR_OK;
  for (size_t at = 0; at < d->n && !e; at += l->max_batch) {
    e = learner_call_hook(hook, at, d->n);
    if (!e)
      e = evaluate_batch(l, d, w, at, j);
  }
  return e;
}

/* A model in its own order, in which it is afterwards, too. */
static enum err judge(struct learner *l, const struct dataset *d, float *values, const struct work_hook *hook,
                      const struct judgement *j) {
  if (!l->pending) {
    net_load_from(l->net, values, l->spare);
    return judge_loaded(l, d, l->spare, hook, j);
  }
  net_load(l->net, values); /* spare is x̂' */
  enum err e = judge_loaded(l, d, values, hook, j);
  net_store(l->net, values);
  return e;
}

enum err learner_evaluate_values(struct learner *l, const struct dataset *d, float *values,
                                 const struct work_hook *hook, struct metrics *out_metrics) {
  struct metrics m;
  enum err e = metrics_init(&m, d->task, d->n_classes, d->n);
  if (e)
    return e;
  e = judge(l, d, values, hook, &(struct judgement){.metrics = &m});
  if (!e)
    e = metrics_end(&m);
  if (e) {
    metrics_done(&m);
    return e;
  }
  *out_metrics = m; /* now the caller's */
  return ERR_OK;
}

enum err learner_evaluate(struct learner *l, enum test_set which, const struct work_hook *hook,
                          struct metrics *out_metrics) {
  const struct dataset *d = l->tests[which];
  return d ? learner_evaluate_values(l, d, learner_judged(l), hook, out_metrics) : ERR_NOT_FOUND;
}

enum err learner_evaluate_tasks(struct learner *l, enum test_set which, const struct work_hook *hook,
                                struct task_score *out_scores) {
  const struct dataset *d = l->tests[which];
  MUST(l->continual);
  if (!d)
    return ERR_NOT_FOUND;
  memset(out_scores, 0, l->config.continual->tasks.n_tasks * sizeof *out_scores);
  return judge(l, d, learner_judged(l), hook, &(struct judgement){.scores = out_scores});
}
