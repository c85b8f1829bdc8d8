#include "models/net/net.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/must.h"
#include "models/floats.h"
#include "models/net/optimiser.h"

/* Above this many floats of workspace the architecture is not meant for this machine. */
enum { MAX_WORKSPACE = 1 << 28, LINE_FLOATS = 16, PIECE_FLOATS = 4096 };

/* A layer's part of the net. */
struct place {
  const struct kernel *kernel;
  bool relu;        /* the kernel does the relu that follows */
  size_t pool;      /* index of the pool that the kernel does, too; 0: none */
  bool skipped;     /* it is that relu, or that pool */
  bool gates;       /* the kernel does the relu before it backwards, and writes ∂L/∂in over in */
  bool gated;       /* the kernel behind it does so */
  size_t offset;    /* of its parameters in the training layout */
  size_t n_weights; /* trained, as the kernel lays them out */
  float *out;       /* [max_batch][n_out_of] */
  float *kept;      /* [max_batch][n_kept] */
  size_t n_kept;
};

/* What works on a part of the batch: consecutive samples, a block of them at a time. */
struct lane {
  float *delta[2]; /* [at_once][widest] ∂L/∂out of a layer and of the one before it */
  float *scratch;
  float *g; /* [n_floats] its sum of ∂L/∂w; NULL for the first lane, whose sum is the caller's */
  struct rng rng;
};

struct net {
  const struct arch *arch;
  size_t max_batch;
  size_t first_trained; /* the layer at which going backwards ends … */
  bool to_inputs;       /* … with ∂L/∂input, too */
  size_t n_floats;      /* of the training layout */
  size_t n;             /* samples of the batch in work */
  struct net_range *ranges;
  size_t n_ranges;
  struct team *team;
  size_t n_threads, n_lanes, block; /* block 0: all of a lane's samples at once */
  struct lane *lanes;               /* [n_lanes] */
  float *lane_g;                    /* [n_lanes − 1][n_floats]; NULL: one lane */
  float *workspace;                 /* all below lies in it; net_load and net_store use it as room for one layer */
  float *input;                     /* [max_batch][n_inputs] */
  struct place places[];
};

/* ---- laying out */

static size_t whole_lines(size_t n) {
  return (n + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
}

static size_t at_most(size_t n, size_t most) {
  return n < most ? n : most;
}

/* Samples of a lane of a batch of n; the last lanes may have fewer, or none. */
static size_t lane_samples(const struct net *net, size_t n) {
  return (n + net->n_lanes - 1) / net->n_lanes;
}

/* Samples that go through the layers together. */
static size_t at_once(const struct net *net, size_t n) {
  size_t of_lane = lane_samples(net, n);
  return net->block > 0 ? at_most(net->block, of_lane) : of_lane;
}

/* How a batch is split. Statistics are those of a whole batch, so a net with some has one lane and no blocks. */
static void split(struct net *net, const struct net_config *config) {
  const struct selection *s = config->selection;
  bool whole = s == NULL || net->arch->n_trained < net->arch->n_parameters;
  net->team = config->team;
  net->block = whole ? 0 : s->block;
  net->n_lanes = whole || s->lanes == 0 ? 1 : at_most(at_most(s->lanes, MAX_LANES), config->max_batch);
  net->n_threads = whole || s->threads == 0 ? 1 : at_most(s->threads, net->n_lanes);
}

/* A relu or a pool is skipped where the kernel before it does it. */
static void find_skipped(struct net *net, size_t i) {
  const struct layer *layers = net->arch->layers;
  if (i == 0)
    return;
  size_t before = i - 1;
  if (layers[i].type == &layer_relu && net->places[before].kernel->takes_relu) {
    net->places[i].skipped = net->places[before].relu = true;
    return;
  }
  if (net->places[before].skipped && layers[before].type == &layer_relu)
    before--;
  const struct kernel *kernel = net->places[before].kernel;
  if (layers[i].type == &layer_pool && kernel->takes_pool && kernel->takes_pool(&layers[before], &layers[i])) {
    net->places[i].skipped = true;
    net->places[before].pool = i;
  }
}

/* What comes in from a relu that the layer before it does is read by nobody else. */
static void find_gate(struct net *net, size_t i) {
  struct place *places = net->places;
  if (i >= 2 && places[i].kernel->gates && net->arch->layers[i - 1].type == &layer_relu && places[i - 1].skipped)
    places[i].gates = places[i - 2].gated = true;
}

/* Values a sample of what a layer's kernel puts out. */
static size_t n_out_of(const struct net *net, size_t i) {
  return net->arch->layers[net->places[i].pool ? net->places[i].pool : i].n_out;
}

/* Which kernel each layer takes, and where its parameters are. */
static void choose(struct net *net, const struct net_config *config) {
  const struct arch *a = net->arch;
  for (size_t i = 0; i < a->n_layers; i++) {
    const struct layer *l = &a->layers[i];
    struct place *place = &net->places[i];
    char key[MAX_SELECTION_KEY_BYTES];
    layer_key(l, config->batch, key);
    place->kernel = layer_kernel(l, selection_find(config->selection, key), &config->cpu);
    find_skipped(net, i);
    find_gate(net, i);
    bool own = place->kernel->weights != NULL;
    place->n_weights = own ? place->kernel->weights(l) : l->n_trained;
    place->offset = own ? whole_lines(net->n_floats) : net->n_floats;
    net->n_floats = place->offset + place->n_weights + l->n_statistics;
  }
  net->to_inputs = config->to_inputs;
  while (!net->to_inputs && net->first_trained < a->n_layers && a->layers[net->first_trained].n_trained == 0)
    net->first_trained++;
}

/* Hands out parts of the workspace, each on a cache line; counts only, while there is none. */
struct room {
  float *base;
  size_t used;
  bool overflow;
};

static float *take(struct room *r, size_t n, size_t floats) {
  size_t at = whole_lines(r->used), total = 0, used = 0;
  r->overflow = r->overflow || !size_mul(n, floats, &total) || !size_add(at, total, &used) || used > MAX_WORKSPACE;
  if (r->overflow || total == 0)
    return NULL;
  r->used = used;
  return r->base ? r->base + at : NULL;
}

static bool ends_block(const struct arch *a, size_t i) {
  return a->layers[a->layers[i].partner].type->closes == a->layers[i].type;
}

static float *out_of(struct net *net, size_t i) {
  return i > 0 ? net->places[i - 1].out : net->input;
}

static void lay_out_layer(struct net *net, size_t i, struct room *r) {
  const struct layer *l = &net->arch->layers[i];
  struct place *place = &net->places[i];
  MUST(place->kernel);
  if (place->skipped || !place->kernel->forward)
    place->out = out_of(net, i);
  else
    place->out = take(r, net->max_batch, n_out_of(net, i));
  bool shares = ends_block(net->arch, i);
  place->n_kept = shares ? net->places[l->partner].n_kept : place->kernel->kept ? place->kernel->kept(l) : 0;
  place->kept = shares ? net->places[l->partner].kept : take(r, net->max_batch, place->n_kept);
}

static bool wants_d_in(const struct net *net, size_t i) {
  return net->to_inputs || i > net->first_trained;
}

static void lay_out(struct net *net, struct room *r) {
  const struct arch *a = net->arch;
  size_t widest = 0, scratch = 0, layer = 0;
  net->input = take(r, net->max_batch, a->n_inputs);
  for (size_t i = 0; i < a->n_layers; i++) {
    const struct layer *l = &a->layers[i];
    lay_out_layer(net, i, r);
    const struct kernel *k = net->places[i].kernel;
    MUST(k);
    size_t n_scratch = k->scratch ? k->scratch(l, at_once(net, net->max_batch)) : 0;
    size_t n_layer = k->weights ? net->places[i].n_weights : 0;
    scratch = n_scratch > scratch ? n_scratch : scratch;
    layer = n_layer > layer ? n_layer : layer;
    widest = wants_d_in(net, i) && !net->places[i].gates && l->n_in > widest ? l->n_in : widest;
  }
  for (size_t k = 0; k < net->n_lanes; k++) {
    net->lanes[k].delta[0] = take(r, at_once(net, net->max_batch), widest);
    net->lanes[k].delta[1] = take(r, at_once(net, net->max_batch), widest);
    net->lanes[k].scratch = take(r, 1, scratch);
  }
  r->used = layer > r->used ? layer : r->used; /* MAX_PARAMETERS and padding at most */
}

/* Consecutive layers without statistics are one range, padding between them included. */
static void find_ranges(struct net *net) {
  bool goes_on = false;
  for (size_t i = 0; i < net->arch->n_layers; i++) {
    const struct layer *l = &net->arch->layers[i];
    const struct place *place = &net->places[i];
    if (l->n_trained > 0 && !goes_on)
      net->ranges[net->n_ranges++].offset = place->offset;
    if (l->n_trained > 0)
      net->ranges[net->n_ranges - 1].n = place->offset + place->n_weights - net->ranges[net->n_ranges - 1].offset;
    goes_on = (goes_on || l->n_trained > 0) && l->n_statistics == 0;
  }
}

/* ---- opening and closing */

/* Its row of each further lane. */
static enum err measure_lanes(const struct net *net, size_t *out_floats) {
  size_t total;
  if (!size_mul(net->n_lanes - 1, whole_lines(net->n_floats), &total) || total > MAX_WORKSPACE)
    return ERR_LIMIT;
  *out_floats = total;
  return ERR_OK;
}

/* A net without workspace, and how large that has to be. */
static enum err net_plan(const struct arch *arch, const struct net_config *config, struct net **out_net,
                         struct net_size *out_size) {
  MUST(config->max_batch >= 1 && config->max_batch <= MAX_BATCH);
  struct room counting = {0};
  struct net *net = calloc(1, sizeof *net + arch->n_layers * sizeof *net->places);
  if (!net)
    return ERR_NO_MEMORY;
  net->arch = arch;
  net->max_batch = config->max_batch;
  split(net, config);
  net->lanes = calloc(net->n_lanes, sizeof *net->lanes);
  if (!net->lanes) {
    net_free(net);
    return ERR_NO_MEMORY;
  }
  choose(net, config);
  lay_out(net, &counting);
  struct net_size size = {.n_workspace = counting.used, .n_floats = net->n_floats};
  if (counting.overflow || measure_lanes(net, &size.n_lanes)) {
    net_free(net);
    return ERR_LIMIT;
  }
  *out_net = net; /* now the caller's */
  *out_size = size;
  return ERR_OK;
}

enum err net_measure(const struct arch *arch, const struct net_config *config, struct net_size *out_size) {
  struct net *net = NULL;
  enum err e = net_plan(arch, config, &net, out_size);
  net_free(net);
  return e;
}

/* Not in the workspace, which net_load writes to: what pads the layouts stays 0. */
static enum err open_lanes(struct net *net, size_t n_floats) {
  size_t row = whole_lines(net->n_floats);
  if (net->n_lanes == 1)
    return ERR_OK;
  net->lane_g = floats_new(n_floats);
  if (!net->lane_g)
    return ERR_NO_MEMORY;
  for (size_t k = 1; k < net->n_lanes; k++)
    net->lanes[k].g = net->lane_g + (k - 1) * row;
  return ERR_OK;
}

enum err net_open(const struct arch *arch, const struct net_config *config, struct net **out_net) {
  struct net *net = NULL;
  struct net_size size;
  openblas_set_num_threads(1);
  enum err e = net_plan(arch, config, &net, &size);
  if (e)
    return e;
  net->workspace = floats_new(size.n_workspace);
  net->ranges = calloc(arch->n_layers, sizeof *net->ranges);
  e = net->workspace && net->ranges ? open_lanes(net, size.n_lanes) : ERR_NO_MEMORY;
  if (e) {
    net_free(net);
    return e;
  }
  struct room room = {.base = net->workspace};
  lay_out(net, &room);
  find_ranges(net);
  *out_net = net; /* now the caller's */
  return ERR_OK;
}

void net_free(struct net *net) {
  if (!net)
    return;
  free(net->workspace);
  free(net->ranges);
  free(net->lanes);
  free(net->lane_g);
  free(net);
}

/* ---- weights */

const char *net_blas(void) {
  return openblas_get_corename();
}

void net_init_weights(const struct arch *arch, const struct digest *seed, float *out_w) {
  struct rng rng;
  rng_init_digest(&rng, seed);
  for (size_t i = 0; i < arch->n_layers; i++)
    if (arch->layers[i].type->init)
      arch->layers[i].type->init(&arch->layers[i], &rng, out_w + arch->layers[i].offset);
}

const struct kernel *net_kernel(const struct net *net, size_t layer) {
  MUST(layer < net->arch->n_layers);
  return net->places[layer].kernel;
}

size_t net_floats(const struct net *net) {
  return net->n_floats;
}

const struct net_range *net_trained(const struct net *net, size_t *out_n) {
  *out_n = net->n_ranges;
  return net->ranges;
}

struct net_range net_layer_trained(const struct net *net, size_t layer) {
  MUST(layer < net->arch->n_layers);
  const struct place *place = &net->places[layer];
  return (struct net_range){place->offset, net->arch->layers[layer].n_trained > 0 ? place->n_weights : 0};
}

/* Where the values of a layer are read that a kernel lays out anew: they may not lie where they are to go. */
static const float *source(struct net *net, const float *from, size_t n, bool is_in_place) {
  return is_in_place ? memcpy(net->workspace, from, n * sizeof *from) : from;
}

/* A place is never before the layer's in the model, so going from the last layer to the first nothing is overwritten that
 * has not been moved; and back from the first to the last. */
void net_load_from(struct net *net, const float *values, float *out_w) {
  size_t end = net->n_floats;
  for (size_t i = net->arch->n_layers; i-- > 0;) {
    const struct layer *l = &net->arch->layers[i];
    const struct place *place = &net->places[i];
    float *to = out_w + place->offset;
    const float *from = values + l->offset;
    memmove(to + place->n_weights, from + l->n_trained, l->n_statistics * sizeof *to);
    if (place->kernel->load)
      place->kernel->load(l, source(net, from, l->n_trained, values == out_w), to);
    else
      memmove(to, from, l->n_trained * sizeof *to);
    size_t used = place->offset + place->n_weights + l->n_statistics;
    memset(out_w + used, 0, (end - used) * sizeof *out_w);
    end = place->offset;
  }
}

void net_store_to(struct net *net, const float *w, float *out_values) {
  for (size_t i = 0; i < net->arch->n_layers; i++) {
    const struct layer *l = &net->arch->layers[i];
    const struct place *place = &net->places[i];
    float *to = out_values + l->offset;
    const float *from = w + place->offset;
    if (place->kernel->store)
      place->kernel->store(l, source(net, from, place->n_weights, w == out_values), to);
    else
      memmove(to, from, l->n_trained * sizeof *to);
    memmove(to + l->n_trained, from + place->n_weights, l->n_statistics * sizeof *to);
  }
}

void net_load(struct net *net, float *a) {
  net_load_from(net, a, a);
}

void net_store(struct net *net, float *a) {
  net_store_to(net, a, a);
}

/* ---- a batch */

float *net_input(struct net *net) {
  return net->input;
}

/* What the lanes do with a batch, each with its part of it. */
struct work {
  struct net *net;
  const float *w;
  float *training; /* w, in a pass that moves statistics on or steps; else NULL */
  const float *d_z;
  const struct descent *descent;
  float *g;
};

/* Consecutive samples that go through the layers together. */
struct block {
  struct lane *lane;
  size_t first, n;
  bool is_first, is_last; /* of its lane */
};

static size_t lanes_used(const struct net *net) {
  size_t of_lane = lane_samples(net, net->n);
  return (net->n + of_lane - 1) / of_lane;
}

static void for_blocks(const struct work *work, size_t k, void (*run)(const struct work *work, const struct block *b)) {
  struct net *net = work->net;
  size_t of_lane = lane_samples(net, net->n), at = k * of_lane, end = at_most(at + of_lane, net->n);
  size_t step = at_once(net, net->n);
  for (size_t first = at; at < end; at += step)
    run(work, &(struct block){.lane = &net->lanes[k],
                              .first = at,
                              .n = at_most(step, end - at),
                              .is_first = at == first,
                              .is_last = at + step >= end});
}

/* Thread t of the team does lanes t, t + threads … */
static void for_lanes(const struct work *work, size_t t, void (*run)(const struct work *work, const struct block *b)) {
  for (size_t k = t; k < lanes_used(work->net); k += work->net->n_threads)
    for_blocks(work, k, run);
}

static float *rows(float *array, size_t first, size_t floats) {
  return array ? array + first * floats : NULL;
}

static struct pass pass_of(const struct work *work, const struct block *b, size_t i) {
  struct net *net = work->net;
  const struct arch *a = net->arch;
  const struct layer *l = &a->layers[i];
  const struct place *place = &net->places[i], *pool = place->pool ? &net->places[place->pool] : NULL;
  return (struct pass){.n = b->n,
                       .w = work->w + place->offset,
                       .in = rows(out_of(net, i), b->first, l->n_in),
                       .before = ends_block(a, i) ? rows(out_of(net, l->partner), b->first, l->n_out) : NULL,
                       .out = rows(place->out, b->first, n_out_of(net, i)),
                       .kept = rows(place->kept, b->first, place->n_kept),
                       .which = pool ? rows(pool->kept, b->first, pool->n_kept) : NULL,
                       .scratch = b->lane->scratch,
                       .relu = place->relu};
}

static void forward_block(const struct work *work, const struct block *b, struct rng *dropout) {
  struct net *net = work->net;
  for (size_t i = 0; i < net->arch->n_layers; i++) {
    const struct place *place = &net->places[i];
    struct pass pass = pass_of(work, b, i);
    pass.rng = dropout;
    pass.statistics = work->training ? work->training + place->offset + place->n_weights : NULL;
    if (!place->skipped && place->kernel->forward)
      place->kernel->forward(&net->arch->layers[i], &pass);
  }
}

static void judge_block(const struct work *work, const struct block *b) {
  forward_block(work, b, NULL);
}

static void train_block(const struct work *work, const struct block *b) {
  forward_block(work, b, &b->lane->rng);
}

static void judge_lanes(void *context, size_t t) {
  for_lanes(context, t, judge_block);
}

static void train_lanes(void *context, size_t t) {
  for_lanes(context, t, train_block);
}

static const float *outputs(const struct net *net) {
  return net->places[net->arch->n_layers - 1].out;
}

const float *net_forward(struct net *net, const float *w, size_t n) {
  MUST(n >= 1 && n <= net->max_batch);
  struct work work = {.net = net, .w = w};
  net->n = n;
  team_run(net->team, net->n_threads, judge_lanes, &work);
  return outputs(net);
}

/* One lane draws from the caller's generator itself, several from their own, which the caller's seeds. */
const float *net_forward_training(struct net *net, float *w, size_t n, struct rng *dropout) {
  MUST(n >= 1 && n <= net->max_batch);
  struct work work = {.net = net, .w = w};
  work.training = w;
  net->n = n;
  if (net->n_lanes == 1 && dropout)
    net->lanes[0].rng = *dropout;
  for (size_t k = 0; net->n_lanes > 1 && dropout && k < net->n_lanes; k++)
    rng_init(&net->lanes[k].rng, rng_u64(dropout));
  team_run(net->team, net->n_threads, dropout ? train_lanes : judge_lanes, &work);
  if (net->n_lanes == 1 && dropout)
    *dropout = net->lanes[0].rng;
  return outputs(net);
}

/* One layer; with a step where this is the last that is added to its gradient. */
static void backward_layer(const struct work *work, const struct block *b, size_t i, struct gradient *gradient) {
  const struct net *net = work->net;
  const struct place *place = &net->places[i];
  const struct descent *descent = work->descent;
  float beta = b->lane->g ? 0 : (float)descent->momentum; /* g ← βg + … of the first block, then g ← g + … */
  bool steps = work->training && net->n_lanes == 1 && b->is_last, folds = steps && place->kernel->folds;
  struct pass pass = pass_of(work, b, i);
  pass.relu = place->relu && !place->gated;
  gradient->momentum = b->is_first ? beta : 1;
  gradient->rate = (float)descent->rate;
  gradient->decay = (float)descent->decay;
  gradient->w = folds ? work->training + place->offset : NULL;
  place->kernel->backward(&net->arch->layers[i], &pass, gradient);
  if (steps && !folds && place->n_weights > 0)
    optimiser_descend(work->training + place->offset, gradient->g, place->n_weights, descent->rate, descent->decay);
}

static void backward_block(const struct work *work, const struct block *b) {
  struct net *net = work->net;
  float *g = b->lane->g ? b->lane->g : work->g;
  const float *d_out = work->d_z + b->first * net->arch->n_outputs;
  size_t turn = 0;
  for (size_t i = net->arch->n_layers; i-- > net->first_trained;) {
    if (net->places[i].skipped)
      continue;
    struct gradient gradient = {.d_out = d_out, .g = g + net->places[i].offset};
    gradient.gated = net->places[i].gates;
    if (wants_d_in(net, i))
      gradient.d_in = gradient.gated ? rows(out_of(net, i), b->first, net->arch->layers[i].n_in) : b->lane->delta[turn];
    turn = !turn;
    backward_layer(work, b, i, &gradient);
    d_out = gradient.d_in;
  }
}

static void backward_lanes(void *context, size_t t) {
  for_lanes(context, t, backward_block);
}

/* A piece of g ← g + Σ lanes' g, in the order of the lanes, and of the step. Pieces are as long whatever the threads, for
 * the ends of an array may be computed in another way than its middle. */
static void sum_piece(const struct work *work, size_t first) {
  const struct net *net = work->net;
  size_t n = at_most(PIECE_FLOATS, net->n_floats - first);
  float *to = work->g + first;
  for (size_t k = 1; k < lanes_used(net); k++) {
    const float *from = net->lanes[k].g + first;
    for (size_t i = 0; i < n; i++)
      to[i] += from[i];
  }
  if (work->training)
    optimiser_descend(work->training + first, to, n, work->descent->rate, work->descent->decay);
}

static void sum_lanes(void *context, size_t t) {
  const struct work *work = context;
  for (size_t at = t * PIECE_FLOATS; at < work->net->n_floats; at += work->net->n_threads * PIECE_FLOATS)
    sum_piece(work, at);
}

static void backward(struct work *work) {
  struct net *net = work->net;
  team_run(net->team, net->n_threads, backward_lanes, work);
  if (net->n_lanes > 1)
    team_run(net->team, net->n_threads, sum_lanes, work);
}

void net_backward(struct net *net, const float *w, const float *d_z, double momentum, float *g) {
  backward(&(struct work){.net = net, .w = w, .d_z = d_z, .descent = &(struct descent){.momentum = momentum}, .g = g});
}

void net_descend(struct net *net, float *w, const float *d_z, const struct descent *descent, float *m) {
  backward(&(struct work){.net = net, .w = w, .training = w, .d_z = d_z, .descent = descent, .g = m});
}
