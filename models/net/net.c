#include "models/net/net.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/must.h"
#include "models/floats.h"
#include "models/net/sgd.h"

/* Above this many floats of workspace the architecture is not meant for this machine. */
enum { MAX_WORKSPACE = 1 << 28, LINE_FLOATS = 16 };

/* A layer's part of the net. */
struct place {
  const struct kernel *kernel;
  bool relu;        /* the kernel does the relu that follows */
  bool skipped;     /* it is that relu */
  size_t offset;    /* of its parameters in the training layout */
  size_t n_weights; /* trained, as the kernel lays them out */
  float *out;       /* [max_batch][n_out] */
  float *kept;      /* [max_batch][kernel's] */
};

struct net {
  const struct arch *arch;
  size_t max_batch;
  size_t first_trained; /* the layer at which going backwards ends */
  size_t n_floats;      /* of the training layout */
  size_t n;             /* samples of the batch in work */
  struct net_range *ranges;
  size_t n_ranges;
  float *workspace; /* all below lies in it; net_load and net_store use it as room for one layer */
  float *input;     /* [max_batch][n_inputs] */
  float *delta[2];  /* [max_batch][widest] ∂L/∂out of a layer and of the one before it */
  float *scratch;
  struct place places[];
};

/* ---- laying out */

static size_t whole_lines(size_t n) {
  return (n + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
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
    place->skipped = i > 0 && l->type == &layer_relu && net->places[i - 1].kernel->takes_relu;
    if (place->skipped)
      net->places[i - 1].relu = true;
    bool own = place->kernel->weights != NULL;
    place->n_weights = own ? place->kernel->weights(l) : l->n_trained;
    place->offset = own ? whole_lines(net->n_floats) : net->n_floats;
    net->n_floats = place->offset + place->n_weights + l->n_statistics;
  }
  while (a->layers[net->first_trained].n_trained == 0)
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
  if (place->skipped || !place->kernel->forward)
    place->out = out_of(net, i);
  else
    place->out = take(r, net->max_batch, l->n_out);
  if (ends_block(net->arch, i))
    place->kept = net->places[l->partner].kept;
  else
    place->kept = place->kernel->kept ? take(r, net->max_batch, place->kernel->kept(l)) : NULL;
}

static void lay_out(struct net *net, struct room *r) {
  const struct arch *a = net->arch;
  size_t widest = 0, scratch = 0, layer = 0;
  net->input = take(r, net->max_batch, a->n_inputs);
  for (size_t i = 0; i < a->n_layers; i++) {
    const struct layer *l = &a->layers[i];
    const struct kernel *k = net->places[i].kernel;
    lay_out_layer(net, i, r);
    size_t n_scratch = k->scratch ? k->scratch(l, net->max_batch) : 0;
    size_t n_layer = k->weights ? net->places[i].n_weights : 0;
    scratch = n_scratch > scratch ? n_scratch : scratch;
    layer = n_layer > layer ? n_layer : layer;
    widest = i > net->first_trained && l->n_in > widest ? l->n_in : widest;
  }
  net->delta[0] = take(r, net->max_batch, widest);
  net->delta[1] = take(r, net->max_batch, widest);
  net->scratch = take(r, 1, scratch);
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

/* A net without workspace, and how large that has to be. */
static enum err net_plan(const struct arch *arch, const struct net_config *config, struct net **out_net,
                         size_t *out_floats) {
  MUST(config->max_batch >= 1 && config->max_batch <= MAX_BATCH);
  struct room counting = {0};
  struct net *net = calloc(1, sizeof *net + arch->n_layers * sizeof *net->places);
  if (!net)
    return ERR_NO_MEMORY;
  net->arch = arch;
  net->max_batch = config->max_batch;
  choose(net, config);
  lay_out(net, &counting);
  if (counting.overflow) {
    net_free(net);
    return ERR_LIMIT;
  }
  *out_net = net; /* now the caller's */
  *out_floats = counting.used;
  return ERR_OK;
}

enum err net_workspace(const struct arch *arch, const struct net_config *config, size_t *out_floats) {
  struct net *net = NULL;
  enum err e = net_plan(arch, config, &net, out_floats);
  net_free(net);
  return e;
}

enum err net_open(const struct arch *arch, const struct net_config *config, struct net **out_net) {
  struct net *net = NULL;
  size_t n_floats;
  openblas_set_num_threads(1);
  enum err e = net_plan(arch, config, &net, &n_floats);
  if (e)
    return e;
  net->workspace = floats_new(n_floats);
  net->ranges = calloc(arch->n_layers, sizeof *net->ranges);
  if (!net->workspace || !net->ranges) {
    net_free(net);
    return ERR_NO_MEMORY;
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
  free(net);
}

/* ---- weights */

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

/* A place is never before the layer's in the model, so going from the last layer to the first nothing is overwritten that
 * has not been moved; and back from the first to the last. */
void net_load(struct net *net, float *a) {
  size_t end = net->n_floats;
  for (size_t i = net->arch->n_layers; i-- > 0;) {
    const struct layer *l = &net->arch->layers[i];
    const struct place *place = &net->places[i];
    float *to = a + place->offset, *from = a + l->offset;
    memmove(to + place->n_weights, from + l->n_trained, l->n_statistics * sizeof *a);
    if (place->kernel->load) {
      memcpy(net->workspace, from, l->n_trained * sizeof *a);
      place->kernel->load(l, net->workspace, to);
    } else {
      memmove(to, from, l->n_trained * sizeof *a);
    }
    size_t used = place->offset + place->n_weights + l->n_statistics;
    memset(a + used, 0, (end - used) * sizeof *a);
    end = place->offset;
  }
}

void net_store(struct net *net, float *a) {
  for (size_t i = 0; i < net->arch->n_layers; i++) {
    const struct layer *l = &net->arch->layers[i];
    const struct place *place = &net->places[i];
    float *to = a + l->offset, *from = a + place->offset;
    if (place->kernel->store) {
      memcpy(net->workspace, from, place->n_weights * sizeof *a);
      place->kernel->store(l, net->workspace, to);
    } else {
      memmove(to, from, l->n_trained * sizeof *a);
    }
    memmove(to + l->n_trained, from + place->n_weights, l->n_statistics * sizeof *a);
  }
}

/* ---- a batch */

float *net_input(struct net *net) {
  return net->input;
}

static struct pass pass_of(struct net *net, const float *w, size_t i) {
  const struct arch *a = net->arch;
  const struct place *place = &net->places[i];
  return (struct pass){.n = net->n,
                       .w = w + place->offset,
                       .in = out_of(net, i),
                       .before = ends_block(a, i) ? out_of(net, a->layers[i].partner) : NULL,
                       .out = place->out,
                       .kept = place->kept,
                       .scratch = net->scratch,
                       .relu = place->relu};
}

/* `training` is w when its statistics are to move on. */
static const float *forward(struct net *net, const float *w, size_t n, float *training, struct rng *dropout) {
  MUST(n >= 1 && n <= net->max_batch);
  const struct arch *a = net->arch;
  net->n = n;
  for (size_t i = 0; i < a->n_layers; i++) {
    const struct place *place = &net->places[i];
    struct pass pass = pass_of(net, w, i);
    pass.rng = dropout;
    pass.statistics = training ? training + place->offset + place->n_weights : NULL;
    if (!place->skipped && place->kernel->forward)
      place->kernel->forward(&a->layers[i], &pass);
  }
  return net->places[a->n_layers - 1].out;
}

const float *net_forward(struct net *net, const float *w, size_t n) {
  return forward(net, w, n, NULL, NULL);
}

const float *net_forward_training(struct net *net, float *w, size_t n, struct rng *dropout) {
  return forward(net, w, n, w, dropout);
}

/* One layer, with a step when `stepped`, its weights, is not NULL. */
static void backward_layer(struct net *net, size_t i, const struct pass *pass, struct gradient *gradient,
                           const struct descent *descent, float *stepped) {
  const struct place *place = &net->places[i];
  bool folds = stepped && place->kernel->folds;
  gradient->momentum = (float)descent->momentum;
  gradient->rate = (float)descent->rate;
  gradient->decay = (float)descent->decay;
  gradient->w = folds ? stepped : NULL;
  place->kernel->backward(&net->arch->layers[i], pass, gradient);
  if (stepped && !folds && place->n_weights > 0)
    sgd_step(stepped, gradient->g, place->n_weights, descent->rate, descent->decay);
}

/* `training` is w when each layer is to be stepped. */
static void backward(struct net *net, const float *w, float *training, const float *d_z, const struct descent *descent,
                     float *g) {
  const float *d_out = d_z;
  size_t turn = 0;
  for (size_t i = net->arch->n_layers; i-- > net->first_trained;) {
    const struct place *place = &net->places[i];
    if (place->skipped)
      continue;
    struct pass pass = pass_of(net, w, i);
    struct gradient gradient = {.d_out = d_out, .g = g + place->offset};
    gradient.d_in = i > net->first_trained ? net->delta[turn] : NULL;
    turn = !turn;
    backward_layer(net, i, &pass, &gradient, descent, training ? training + place->offset : NULL);
    d_out = gradient.d_in;
  }
}

void net_backward(struct net *net, const float *w, const float *d_z, double momentum, float *g) {
  backward(net, w, NULL, d_z, &(struct descent){.momentum = momentum}, g);
}

void net_descend(struct net *net, float *w, const float *d_z, const struct descent *descent, float *m) {
  backward(net, w, w, d_z, descent, m);
}
