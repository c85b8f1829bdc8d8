/* What the layers, losses and optimisers compute against what PyTorch does (cases.py), each case under every kernel of this
 * host: outputs, gradients by inputs and by weights, moved statistics.
 *
 * usage: equality FILE
 *
 * The norm: max |a − b| ≤ 1e-5 · max(1, max |b|) over an array, b being PyTorch's in single precision. Ends with the line
 * `ran N, failed N, skipped N`; it also fails when a word of the layer table, a loss or an optimiser is in no case. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "models/floats.h"
#include "models/net/arch.h"
#include "models/net/loss.h"
#include "models/net/net.h"
#include "models/net/optimiser.h"

static const double tolerance = 1e-5;

enum { MAX_ARRAYS = 16, MAX_TEXT = 512, MAX_KINDS = 64, SLACK = 16 };

/* ---- a case as it stands in the file */

struct array {
  char name[32];
  size_t n;
  float *values;
};

struct test_case {
  char name[MAX_TEXT], arch[MAX_TEXT], loss[MAX_TEXT], optimiser[MAX_TEXT];
  unsigned height, width, channels;
  size_t batch, outputs;
  struct array arrays[MAX_ARRAYS];
  size_t n_arrays;
};

static void case_done(struct test_case *c) {
  for (size_t i = 0; i < c->n_arrays; i++)
    free(c->arrays[i].values);
  *c = (struct test_case){0};
}

static const struct array *array_of(const struct test_case *c, const char *name) {
  for (size_t i = 0; i < c->n_arrays; i++)
    if (strcmp(c->arrays[i].name, name) == 0)
      return &c->arrays[i];
  fprintf(stderr, "%s: the file lacks the array %s\n", c->name, name);
  exit(1);
}

static void read_values(struct array *a, char *line) {
  char *at = line;
  a->values = floats_new(a->n + 1);
  MUST(a->values);
  for (size_t i = 0; i < a->n; i++)
    a->values[i] = strtof(at, &at);
  MUST(*at == '\n');
}

/* One line that is neither `array` nor `end`. */
static void read_fact(struct test_case *c, const char *line) {
  const struct {
    const char *word;
    char *text;
  } texts[] = {{"case ", c->name}, {"arch ", c->arch}, {"loss ", c->loss}, {"optimiser ", c->optimiser}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (strncmp(line, texts[i].word, strlen(texts[i].word)) == 0)
      snprintf(texts[i].text, MAX_TEXT, "%.*s", (int)strcspn(line, "\n") - (int)strlen(texts[i].word),
               line + strlen(texts[i].word));
  (void)(sscanf(line, "input %u %u %u", &c->height, &c->width, &c->channels) || sscanf(line, "batch %zu", &c->batch) ||
         sscanf(line, "outputs %zu", &c->outputs));
}

/* The next case of the file; false at its end. */
static bool case_read(FILE *f, struct test_case *c) {
  char *line = NULL;
  size_t room = 0;
  bool ended = false;
  while (!ended && getline(&line, &room, f) > 0) {
    struct array a = {.name = ""};
    ended = strcmp(line, "end\n") == 0;
    if (sscanf(line, "array %31s %zu", a.name, &a.n) == 2) {
      MUST(c->n_arrays < MAX_ARRAYS && getline(&line, &room, f) > 0);
      read_values(&a, line);
      c->arrays[c->n_arrays++] = a;
    } else {
      read_fact(c, line);
    }
  }
  free(line);
  return ended;
}

/* ---- judging */

static size_t n_ran, n_failed, n_skipped;
static const char *covered[MAX_KINDS]; /* words and kinds that were in a case */
static size_t n_covered;

static void cover(const char *kind) {
  for (size_t i = 0; i < n_covered; i++)
    if (strcmp(covered[i], kind) == 0)
      return;
  MUST(n_covered < MAX_KINDS);
  covered[n_covered++] = kind;
}

static void report(bool passed, const char *name, const char *what, const char *why) {
  n_ran++;
  n_failed += !passed;
  if (!passed)
    printf("%s, %s: %s\n", name, what, why);
}

static void demand(const char *kind) {
  for (size_t i = 0; i < n_covered; i++)
    if (strcmp(covered[i], kind) == 0)
      return;
  report(false, kind, "coverage", "in no case of cases.py");
}

static void skip(const char *name, const char *why) {
  n_ran++;
  n_skipped++;
  printf("%s ... skipped: %s\n", name, why);
}

static void compare(const struct test_case *c, const char *name, const float *got, size_t n, const char *kernels) {
  const struct array *expected = array_of(c, name);
  char why[MAX_TEXT] = "";
  double largest = 1, apart = 0;
  size_t where = 0;
  for (size_t i = 0; i < n && i < expected->n; i++) {
    double d = fabs((double)got[i] - (double)expected->values[i]);
    largest = fmax(largest, fabs((double)expected->values[i]));
    if (!(d <= apart)) {
      apart = d;
      where = i;
    }
  }
  bool passed = n == expected->n && apart <= tolerance * largest;
  snprintf(why, sizeof why, "%s of %zu (PyTorch: %zu) values differ by %.3g at %zu, the largest is %.3g", name, n,
           expected->n, apart, where, largest);
  report(passed, c->name, kernels, why);
}

/* ---- the layers, one after the other with the kernel of some rank */

struct run {
  const struct arch *arch;
  size_t n, rank;
  const struct kernel *kernels[MAX_LAYERS];
  float *w[MAX_LAYERS]; /* as its kernel lays it out, statistics behind */
  float *g[MAX_LAYERS];
  float *out[MAX_LAYERS + 1], *d_out[MAX_LAYERS + 1], *kept[MAX_LAYERS], *scratch[MAX_LAYERS];
};

static float *room(size_t n) {
  float *x = floats_new(n + SLACK);
  MUST(x);
  return x;
}

static size_t n_weights(const struct run *r, size_t i) {
  const struct layer *l = &r->arch->layers[i];
  return r->kernels[i]->weights ? r->kernels[i]->weights(l) : l->n_trained;
}

static bool ends_block(const struct run *r, size_t i) {
  const struct layer *l = &r->arch->layers[i];
  return r->arch->layers[l->partner].type->closes == l->type;
}

static const struct kernel *kernel_of_rank(const struct layer *l, size_t rank) {
  struct cpu cpu = cpu_detect();
  const struct kernel *k = rank < l->type->n_kernels ? &l->type->kernels[rank] : l->type->kernels;
  return k->fits && !k->fits(l, &cpu) ? l->type->kernels : k;
}

static void run_open(struct run *r, const float *w) {
  r->out[0] = room(r->n * r->arch->n_inputs);
  r->d_out[0] = room(r->n * r->arch->n_inputs);
  for (size_t i = 0; i < r->arch->n_layers; i++) {
    const struct layer *l = &r->arch->layers[i];
    const struct kernel *k = r->kernels[i] = kernel_of_rank(l, r->rank);
    const float *own = w + l->offset;
    r->w[i] = room(n_weights(r, i) + l->n_statistics);
    r->g[i] = room(n_weights(r, i));
    if (k->load)
      k->load(l, own, r->w[i]);
    else
      memcpy(r->w[i], own, l->n_trained * sizeof *own);
    memcpy(r->w[i] + n_weights(r, i), own + l->n_trained, l->n_statistics * sizeof *own);
    r->out[i + 1] = room(r->n * l->n_out);
    r->d_out[i + 1] = room(r->n * l->n_out);
    r->kept[i] = room(k->kept ? r->n * k->kept(l) : 0);
    r->scratch[i] = room(k->scratch ? k->scratch(l, r->n) : 0);
  }
}

static void run_done(struct run *r) {
  for (size_t i = 0; i <= r->arch->n_layers; i++) {
    float *arrays[] = {r->w[i], r->g[i], r->out[i], r->d_out[i], r->kept[i], r->scratch[i]};
    size_t n = i < r->arch->n_layers ? 6 : 0;
    for (size_t k = 0; k < n; k++)
      free(arrays[k]);
  }
  free(r->out[r->arch->n_layers]);
  free(r->d_out[r->arch->n_layers]);
}

static struct pass pass_of(const struct run *r, size_t i, bool training) {
  const struct layer *l = &r->arch->layers[i];
  size_t keeper = ends_block(r, i) ? l->partner : i;
  return (struct pass){.n = r->n,
                       .w = r->w[i],
                       .statistics = training ? r->w[i] + n_weights(r, i) : NULL,
                       .in = r->out[i],
                       .before = ends_block(r, i) ? r->out[l->partner] : NULL,
                       .out = r->out[i + 1],
                       .kept = r->kept[keeper],
                       .scratch = r->scratch[i]};
}

static const float *run_forward(struct run *r, bool training) {
  struct rng rng;
  rng_init(&rng, 1);
  for (size_t i = 0; i < r->arch->n_layers; i++) {
    const struct layer *l = &r->arch->layers[i];
    struct pass pass = pass_of(r, i, training);
    pass.rng = training ? &rng : NULL;
    if (r->kernels[i]->forward)
      r->kernels[i]->forward(l, &pass);
    else
      memcpy(pass.out, pass.in, r->n * l->n_out * sizeof *pass.out);
  }
  return r->out[r->arch->n_layers];
}

static void run_backward(struct run *r) {
  for (size_t i = r->arch->n_layers; i-- > 0;) {
    struct pass pass = pass_of(r, i, false);
    r->kernels[i]->backward(&r->arch->layers[i], &pass,
                            &(struct gradient){.d_out = r->d_out[i + 1], .d_in = r->d_out[i], .g = r->g[i]});
  }
}

/* Weights or gradients in the order of the model. */
static void run_store(const struct run *r, float *const *arrays, bool statistics, float *model) {
  for (size_t i = 0; i < r->arch->n_layers; i++) {
    const struct layer *l = &r->arch->layers[i];
    float *own = model + l->offset;
    if (r->kernels[i]->store)
      r->kernels[i]->store(l, arrays[i], own);
    else
      memcpy(own, arrays[i], l->n_trained * sizeof *own);
    if (statistics)
      memcpy(own + l->n_trained, arrays[i] + n_weights(r, i), l->n_statistics * sizeof *own);
  }
}

/* ---- cases of nets */

/* The number behind a word of the text; `otherwise` where it is not there. */
static double number_after(const char *text, const char *word, double otherwise) {
  const char *at = strstr(text, word);
  return at ? strtod(at + strlen(word), NULL) : otherwise;
}

/* "huber 0.25", "cross-entropy weights 0.5 1 2 3 0.25" */
static struct loss loss_of(const struct test_case *c, float weights[MAX_KINDS]) {
  struct loss loss = {.kind = N_LOSS_KINDS};
  for (enum loss_kind kind = 0; kind < N_LOSS_KINDS; kind++) {
    const char *name = loss_kind_name(kind);
    if (strncmp(c->loss, name, strlen(name)) == 0)
      loss.kind = kind;
  }
  loss.label_smoothing = number_after(c->loss, " smoothing ", 0);
  loss.delta = number_after(c->loss, "huber ", 0);
  const char *at = strstr(c->loss, " weights ");
  char *end = NULL;
  for (size_t i = 0; at && i < c->outputs; i++, at = end)
    weights[i] = strtof(i == 0 ? at + strlen(" weights ") : at, &end);
  loss.weights = end ? weights : NULL;
  return loss;
}

static double mean_loss(const struct test_case *c, const float *z, float *d_z) {
  const float *y = array_of(c, "y")->values;
  float weights[MAX_KINDS];
  uint16_t labels[MAX_KINDS] = {0};
  const struct loss loss = loss_of(c, weights);
  const struct answers answers = {labels, y};
  for (size_t i = 0; loss.kind == LOSS_CROSS_ENTROPY && i < c->batch; i++)
    labels[i] = (uint16_t)y[i];
  struct loss_sum s = loss_of_batch(&loss, z, &answers, c->batch, c->outputs, d_z);
  cover(loss_kind_name(loss.kind));
  return s.sum / s.weight;
}

static struct contract *contract_of(const struct test_case *c) {
  struct contract *contract = contract_new();
  char name[MAX_NAME_BYTES];
  MUST(contract);
  for (size_t i = 0; i < c->outputs; i++) {
    snprintf(name, sizeof name, "class %zu", i);
    MUST(contract_add_class(contract, name) == ERR_OK);
  }
  bool is_row = c->height * c->width == 1;
  for (size_t i = 0; is_row && i < c->channels; i++) {
    snprintf(name, sizeof name, "x%zu", i);
    MUST(contract_add_feature(contract, name, NULL) == ERR_OK);
  }
  if (!is_row) {
    contract->height = c->height;
    contract->width = c->width;
    contract->channels = c->channels;
  }
  contract->range_lo = 0; /* what embed asks of tokens */
  contract->range_hi = 1;
  return contract;
}

static void check_rank(const struct test_case *c, const struct schema *schema, size_t rank) {
  struct run r = {.arch = schema_arch(schema), .n = c->batch, .rank = rank};
  size_t n = schema_parameters(schema);
  char kernels[MAX_TEXT];
  float *model = room(n), loss;
  run_open(&r, array_of(c, "w")->values);
  snprintf(kernels, sizeof kernels, "kernels of rank %zu", rank);
  memcpy(r.out[0], array_of(c, "x")->values, array_of(c, "x")->n * sizeof *r.out[0]);
  const float *z = run_forward(&r, true);
  loss = (float)mean_loss(c, z, r.d_out[r.arch->n_layers]);
  compare(c, "z", z, c->batch * c->outputs, kernels);
  compare(c, "loss", &loss, 1, kernels);
  run_backward(&r);
  compare(c, "d_x", r.d_out[0], c->batch * r.arch->n_inputs, kernels);
  run_store(&r, r.g, false, model);
  compare(c, "d_w", model, n, kernels);
  run_store(&r, r.w, true, model);
  compare(c, "w_after", model, n, kernels);
  compare(c, "z_after", run_forward(&r, false), c->batch * c->outputs, kernels);
  free(model);
  run_done(&r);
}

static void check_net(const struct test_case *c) {
  struct contract *contract = contract_of(c);
  struct schema *schema = NULL;
  char why[MAX_REASON_BYTES] = "";
  size_t n_ranks = 1;
  enum err e = schema_from_arch(c->arch, contract, &schema, why);
  bool fits = !e && schema_parameters(schema) == array_of(c, "w")->n;
  if (e == ERR_SYNTAX)
    skip(c->name, why);
  else if (!fits)
    report(false, c->name, c->arch, e ? why : "another number of weights");
  for (size_t i = 0; fits && i < schema_arch(schema)->n_layers; i++) {
    const struct layer_type *type = schema_arch(schema)->layers[i].type;
    cover(type->word);
    n_ranks = type->n_kernels > n_ranks ? type->n_kernels : n_ranks;
  }
  for (size_t rank = 0; fits && rank < n_ranks; rank++)
    check_rank(c, schema, rank);
  schema_free(schema);
  contract_free(contract);
}

/* ---- cases of optimisers: "adamw rate 0.01 decay 0.01" */

static struct optimiser_config optimiser_of(const struct test_case *c) {
  struct optimiser_config o = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  for (enum optimiser kind = 0; kind < N_OPTIMISERS; kind++) {
    size_t n = strlen(optimiser_name(kind));
    if (strncmp(c->optimiser, optimiser_name(kind), n) == 0 && c->optimiser[n] == ' ')
      o.kind = kind;
  }
  o.momentum = number_after(c->optimiser, " momentum ", 0);
  o.nesterov = strncmp(c->optimiser, "nesterov", 8) == 0;
  o.weight_decay = number_after(c->optimiser, " decay ", 0);
  return o;
}

static void check_optimiser(const struct test_case *c) {
  const struct optimiser_config o = optimiser_of(c);
  const struct array *w = array_of(c, "w"), *gradients = array_of(c, "gradients");
  cover(optimiser_name(o.kind));
  for (size_t kernel = 0; kernel < optimiser_kernels(); kernel++) {
    float *x = room(w->n), *m = room(w->n), *v = room(w->n);
    memcpy(x, w->values, w->n * sizeof *x);
    for (size_t at = 0; at < gradients->n / w->n; at++) {
      const struct optimiser_step step = {number_after(c->optimiser, " rate ", 0), 1, at + 1};
      optimiser_apply_by(kernel, &o, &step, x, gradients->values + at * w->n, (float *const[]){m, v}, w->n);
    }
    compare(c, "w_after", x, w->n, kernel == 0 ? "plain kernel" : "vector kernel");
    free(x);
    free(m);
    free(v);
  }
}

int main(int argc, char **argv) {
  FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
  struct test_case c = {0};
  if (!f) {
    fprintf(stderr, "usage: equality FILE, which tests/torch/cases.py writes\n");
    return 1;
  }
  for (; case_read(f, &c); case_done(&c)) {
    if (c.optimiser[0])
      check_optimiser(&c);
    else
      check_net(&c);
  }
  case_done(&c);
  fclose(f);
  for (size_t i = 0; layer_type_at(i); i++)
    demand(layer_type_at(i)->word);
  for (enum loss_kind kind = 0; kind < N_LOSS_KINDS; kind++)
    demand(loss_kind_name(kind));
  for (enum optimiser kind = 0; kind < N_OPTIMISERS; kind++)
    demand(optimiser_name(kind));
  printf("ran %zu, failed %zu, skipped %zu\n", n_ran, n_failed, n_skipped);
  return n_failed != 0;
}
