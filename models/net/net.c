#include "models/net/net.h"

#include <cblas.h>
#include <stdlib.h>

#include "base/must.h"
#include "models/floats.h"

/* Above this many floats of workspace the architecture is not meant for this machine. */
enum { MAX_WORKSPACE = 1 << 28 };

struct net {
  const struct arch *arch;
  size_t max_batch;
  size_t first_trained; /* the layer at which going backwards ends */
  size_t n;             /* samples of the batch in work */
  float *workspace;
  float *input;    /* [max_batch][n_inputs] */
  float *delta[2]; /* [max_batch][widest] ∂L/∂out of a layer and of the one before it */
  struct activation {
    float *out;  /* [max_batch][n_out] */
    float *kept; /* [max_batch][n_out] or NULL */
  } activations[];
};

/* Floats of workspace a sample. */
static size_t row_floats(const struct arch *a, size_t *out_widest) {
  size_t row = a->n_inputs, widest = 0;
  for (size_t i = 0; i < a->n_layers; i++) {
    size_t n_out = a->layers[i].n_out;
    row += n_out * (a->layers[i].type->keeps ? 2 : 1);
    widest = n_out > widest ? n_out : widest;
  }
  *out_widest = widest;
  return row + 2 * widest;
}

static float *take(float **at, size_t n) {
  float *taken = *at;
  *at += n;
  return taken;
}

static void lay_out(struct net *net, size_t widest) {
  const struct arch *a = net->arch;
  float *at = net->workspace;
  net->input = take(&at, net->max_batch * a->n_inputs);
  for (size_t i = 0; i < a->n_layers; i++) {
    size_t n = net->max_batch * a->layers[i].n_out;
    net->activations[i].out = take(&at, n);
    net->activations[i].kept = a->layers[i].type->keeps ? take(&at, n) : NULL;
  }
  net->delta[0] = take(&at, net->max_batch * widest);
  net->delta[1] = take(&at, net->max_batch * widest);
}

enum err net_open(const struct arch *arch, size_t max_batch, struct net **out_net) {
  MUST(max_batch >= 1 && max_batch <= MAX_BATCH);
  openblas_set_num_threads(1);
  size_t widest;
  size_t row = row_floats(arch, &widest);
  if (row > MAX_WORKSPACE / max_batch)
    return ERR_LIMIT;
  struct net *net = calloc(1, sizeof *net + arch->n_layers * sizeof *net->activations);
  if (!net)
    return ERR_NO_MEMORY;
  net->arch = arch;
  net->max_batch = max_batch;
  net->workspace = floats_new(row * max_batch);
  if (!net->workspace) {
    net_free(net);
    return ERR_NO_MEMORY;
  }
  lay_out(net, widest);
  while (!arch->layers[net->first_trained].type->stem)
    net->first_trained++;
  *out_net = net;
  return ERR_OK;
}

void net_free(struct net *net) {
  if (net)
    free(net->workspace);
  free(net);
}

void net_init_weights(const struct arch *arch, const struct digest *seed, float *out_w) {
  struct rng rng;
  rng_init_digest(&rng, seed);
  for (size_t i = 0; i < arch->n_layers; i++)
    if (arch->layers[i].type->init)
      arch->layers[i].type->init(&arch->layers[i], &rng, out_w + arch->layers[i].offset);
}

float *net_input(struct net *net) {
  return net->input;
}

static struct pass pass_of(const struct net *net, const float *w, size_t i, struct rng *dropout) {
  return (struct pass){.n = net->n,
                       .w = w + net->arch->layers[i].offset,
                       .in = i > 0 ? net->activations[i - 1].out : net->input,
                       .out = net->activations[i].out,
                       .kept = net->activations[i].kept,
                       .rng = dropout};
}

const float *net_forward(struct net *net, const float *w, size_t n, struct rng *dropout) {
  MUST(n >= 1 && n <= net->max_batch);
  const struct arch *a = net->arch;
  net->n = n;
  for (size_t i = 0; i < a->n_layers; i++) {
    struct pass pass = pass_of(net, w, i, dropout);
    a->layers[i].type->forward(&a->layers[i], &pass);
  }
  return net->activations[a->n_layers - 1].out;
}

void net_backward(struct net *net, const float *w, const float *d_z, double momentum, float *g) {
  const struct arch *a = net->arch;
  const float *d_out = d_z;
  for (size_t i = a->n_layers; i-- > net->first_trained;) {
    const struct layer *l = &a->layers[i];
    struct pass pass = pass_of(net, w, i, NULL);
    struct gradient gradient = {.d_out = d_out, .momentum = (float)momentum};
    gradient.d_in = i > net->first_trained ? net->delta[i % 2] : NULL;
    gradient.g = g + l->offset;
    l->type->backward(l, &pass, &gradient);
    d_out = gradient.d_in;
  }
}
