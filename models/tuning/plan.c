#include "models/tuning/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"
#include "models/floats.h"
#include "models/net/net.h"

enum { MAX_PLAN_LANES = 8, MIN_BLOCK = 4, MAX_LANE_FLOATS = 1 << 20 /* of all gradients beside the model's own */ };

/* ---- operations ---- */

static uint32_t variant_number(struct plan *p, const struct layer *l, const struct kernel *k) {
  char name[MAX_VARIANT_BYTES];
  snprintf(name, sizeof name, "%.20s %.23s", l->type->word, k->name);
  for (uint32_t i = 0; i < p->n_variants; i++)
    if (strcmp(p->variants[i], name) == 0)
      return i;
  if (p->n_variants < MAX_COST_VARIANTS)
    memcpy(p->variants[p->n_variants++], name, sizeof name);
  return p->n_variants - 1;
}

static size_t kernels_that_run(const struct layer *l, const struct cpu *cpu) {
  size_t n = 0;
  for (size_t i = 0; i < l->type->n_kernels; i++)
    n += kernel_fits(&l->type->kernels[i], l, cpu);
  return n;
}

static double at_least_one(double x) {
  return x > 1 ? x : 1;
}

static void put_operation(struct plan *p, size_t layer, const char *key) {
  const struct layer *l = &p->arch->layers[layer];
  struct tuner_operation *o = &p->operations[p->n_operations];
  o->pixels = (double)l->out.height * l->out.width;
  o->channels = l->out.channels;
  o->depth = at_least_one(layer_flops(l) / (2 * o->pixels * o->channels));
  o->count = 1;
  for (size_t i = 0; i < l->type->n_kernels && o->n_variants < MAX_TUNER_VARIANTS; i++)
    if (kernel_fits(&l->type->kernels[i], l, &p->cpu))
      o->variants[o->n_variants++] = variant_number(p, l, &l->type->kernels[i]);
  p->layers[p->n_operations] = layer;
  memcpy(p->keys[p->n_operations++], key, MAX_SELECTION_KEY_BYTES);
}

static void find_operations(struct plan *p) {
  for (size_t i = 0; i < p->arch->n_layers; i++) {
    const struct layer *l = &p->arch->layers[i];
    char key[MAX_SELECTION_KEY_BYTES];
    size_t same = 0;
    if (l->type->closes || (l->n_trained == 0 && kernels_that_run(l, &p->cpu) < 2))
      continue;
    layer_key(l, p->batch, key);
    while (same < p->n_operations && strcmp(p->keys[same], key) != 0)
      same++;
    if (same < p->n_operations)
      p->operations[same].count++;
    else if (p->n_operations < MAX_TUNER_OPERATIONS)
      put_operation(p, i, key);
  }
}

/* ---- splits ---- */

static void put_splits(struct plan *p, uint32_t lanes, uint32_t threads) {
  uint32_t of_lane = (p->batch + lanes - 1) / lanes;
  for (uint32_t block = 0; block<of_lane; block = block> 0 ? 2 * block : MIN_BLOCK)
    if (p->n_splits < MAX_TUNER_SPLITS)
      p->splits[p->n_splits++] = (struct tuner_split){lanes, threads, block};
}

static void find_splits(struct plan *p, uint32_t n_threads) {
  const struct arch *a = p->arch;
  if (a->n_trained < a->n_parameters) {
    p->splits[p->n_splits++] = (struct tuner_split){1, 1, 0};
    return;
  }
  for (uint32_t lanes = 1; lanes <= MAX_PLAN_LANES && lanes <= p->batch; lanes *= 2) {
    if ((lanes - 1) * a->n_parameters > MAX_LANE_FLOATS)
      return;
    for (uint32_t threads = 1; threads <= lanes && threads <= n_threads; threads *= 2)
      put_splits(p, lanes, threads);
  }
}

enum err plan_make(const struct arch *arch, uint32_t batch, const struct cpu *cpu, uint32_t n_threads,
                   struct plan *out_plan) {
  memset(out_plan, 0, sizeof *out_plan);
  out_plan->arch = arch;
  out_plan->batch = batch;
  out_plan->cpu = *cpu;
  find_operations(out_plan);
  find_splits(out_plan, n_threads);
  return out_plan->n_operations > 0 ? ERR_OK : ERR_RANGE;
}

const char *plan_kernel(const struct plan *p, size_t operation, uint32_t variant) {
  MUST(operation < p->n_operations && variant < p->operations[operation].n_variants);
  return strchr(p->variants[p->operations[operation].variants[variant]], ' ') + 1;
}

void plan_selection(const struct plan *p, const struct tuner_choice *choice, struct selection *out_selection) {
  const struct tuner_split *s = &p->splits[choice->split];
  memset(out_selection, 0, sizeof *out_selection);
  out_selection->lanes = s->lanes;
  out_selection->threads = s->threads;
  out_selection->block = s->block;
  for (size_t i = 0; i < p->n_operations; i++)
    MUST(selection_put(out_selection, p->keys[i], plan_kernel(p, i, choice->variants[i])) == ERR_OK);
}

void plan_defaults(const struct plan *p, struct selection *out_selection) {
  memset(out_selection, 0, sizeof *out_selection);
  out_selection->lanes = out_selection->threads = 1;
  for (size_t i = 0; i < p->n_operations; i++) {
    const struct kernel *k = layer_kernel(&p->arch->layers[p->layers[i]], NULL, &p->cpu);
    MUST(selection_put(out_selection, p->keys[i], k->name) == ERR_OK);
  }
}

/* ---- work to be measured ---- */

struct workload {
  size_t batch;
  struct net *net;
  float *w, *m, *d_z; /* [net_floats], [net_floats], [batch][n_outputs] */
  struct arch *alone; /* the net's, of an operation alone; else NULL */
};

static enum err open_workload(const struct arch *arch, struct net_config *config, struct workload *w) {
  struct rng rng;
  enum err e = net_open(arch, config, &w->net);
  if (e)
    return e;
  w->batch = config->batch;
  w->w = floats_new(net_floats(w->net));
  w->m = floats_new(net_floats(w->net));
  w->d_z = floats_new(w->batch * arch->n_outputs);
  if (!w->w || !w->m || !w->d_z)
    return ERR_NO_MEMORY;
  rng_init(&rng, 1);
  floats_draw(w->w, arch->n_parameters, 0.1, &rng);
  floats_draw(w->d_z, w->batch * arch->n_outputs, 1e-3, &rng);
  net_load(w->net, w->w);
  floats_draw(net_input(w->net), w->batch * arch->n_inputs, 1, &rng);
  return ERR_OK;
}

static enum err open_any(const struct plan *p, struct arch *alone, const struct selection *selection, struct team *team,
                         bool to_inputs, struct workload **out_workload) {
  struct workload *w = calloc(1, sizeof *w);
  if (!w) {
    free(alone);
    return ERR_NO_MEMORY;
  }
  w->alone = alone; /* now the workload's */
  struct net_config config = {.max_batch = p->batch,
                              .batch = p->batch,
                              .cpu = p->cpu,
                              .selection = selection,
                              .team = team,
                              .to_inputs = to_inputs};
  enum err e = open_workload(alone ? alone : p->arch, &config, w);
  if (e)
    workload_close(w);
  else
    *out_workload = w;
  return e;
}

/* An architecture of one layer, and the relu behind it. */
static struct arch *arch_alone(const struct arch *whole, size_t layer) {
  const struct layer *l = &whole->layers[layer];
  bool with_relu = layer + 1 < whole->n_layers && whole->layers[layer + 1].type == &layer_relu;
  struct arch *a = calloc(1, sizeof *a + 2 * sizeof *a->layers);
  if (!a)
    return NULL;
  a->input = l->in;
  a->n_inputs = l->n_in;
  a->n_outputs = l->n_out;
  a->n_parameters = l->n_trained + l->n_statistics;
  a->n_trained = l->n_trained;
  a->n_layers = with_relu ? 2 : 1;
  memcpy(a->layers, l, a->n_layers * sizeof *l);
  for (size_t i = 0; i < a->n_layers; i++) {
    a->layers[i].offset = i == 0 ? 0 : a->n_parameters;
    a->layers[i].partner = i;
  }
  return a;
}

enum err workload_open(const struct plan *p, const struct tuner_cell *cell, struct team *team,
                       struct workload **out_workload) {
  const struct tuner_split *s = &p->splits[cell->split];
  struct selection selection = {.lanes = s->lanes, .threads = s->threads, .block = s->block};
  MUST(selection_put(&selection, p->keys[cell->operation], plan_kernel(p, cell->operation, cell->variant)) == ERR_OK);
  struct arch *alone = arch_alone(p->arch, p->layers[cell->operation]);
  if (!alone)
    return ERR_NO_MEMORY;
  return open_any(p, alone, &selection, team, p->layers[cell->operation] > 0, out_workload);
}

enum err workload_open_net(const struct plan *p, const struct selection *selection, struct team *team,
                           struct workload **out_workload) {
  return open_any(p, NULL, selection, team, false, out_workload);
}

void workload_close(struct workload *w) {
  if (!w)
    return;
  net_free(w->net);
  free(w->w);
  free(w->m);
  free(w->d_z);
  free(w->alone);
  free(w);
}

/* With a rate that is 0 the weights stay, so the last step is like the first. */
void workload_run(struct workload *w) {
  struct rng dropout;
  rng_init(&dropout, 1);
  net_forward_training(w->net, w->w, w->batch, &dropout);
  net_descend(w->net, w->w, w->d_z, &(struct descent){.momentum = 0.9}, w->m);
}
