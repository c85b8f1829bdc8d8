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
#include "models/task.h"

static const double tolerance = 1e-5;

enum { MAX_ARRAYS = 16, MAX_TEXT = 512, MAX_WORD = 64, MAX_KINDS = 64, SLACK = 16 };

/* ---- a case as it stands in the file */

struct array {
  char name[MAX_WORD];
  size_t n;
  float *values;
};

struct test_case {
  char name[MAX_TEXT], arch[MAX_TEXT], loss[MAX_TEXT], optimiser[MAX_TEXT];
  uint32_t height, width, channels;
  size_t batch, outputs;
  struct array arrays[MAX_ARRAYS];
  size_t n_arrays;
};

static void case_done(struct test_case *c) {
  for (size_t i = 0; i < c->n_arrays; i++)
    free(c->arrays[i].values);
  *c = (struct test_case){0};
}

/* NULL: there is none. */
static const struct array *find_array(const struct test_case *c, const char *name) {
  for (size_t i = 0; i < c->n_arrays; i++)
    if (strcmp(c->arrays[i].name, name) == 0)
      return &c->arrays[i];
  return NULL;
}

static const struct array *array_of(const struct test_case *c, const char *name) {
  const struct array *a = find_array(c, name);
  if (!a)
    fprintf(stderr, "%s: the file lacks the array %s\n", c->name, name);
  MUST(a);
  return a;
}

static void read_values(struct array *a, char *line) {
  char *at = line;
  a->values = floats_new(a->n + 1);
  MUST(a->values);
  for (size_t i = 0; i < a->n; i++)
    a->values[i] = strtof(at, &at);
  MUST(*at == '\n');
}

/* The number behind a word of the line; 0 without it. */
static double number_of(const char *line, const char *word) {
  char spaced[MAX_WORD];
  snprintf(spaced, sizeof spaced, " %s ", word);
  const char *at = strstr(line, spaced);
  return at ? strtod(at + strlen(spaced), NULL) : 0;
}

static void read_input(struct test_case *c, const char *line) {
  uint32_t *extents[] = {&c->height, &c->width, &c->channels};
  char *at = NULL;
  for (size_t i = 0; i < 3; i++)
    *extents[i] = (uint32_t)strtoul(i == 0 ? line + strlen("input ") : at, &at, 10);
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
  if (strncmp(line, "input ", 6) == 0)
    read_input(c, line);
  if (strncmp(line, "batch ", 6) == 0)
    c->batch = strtoul(line + 6, NULL, 10);
  if (strncmp(line, "outputs ", 8) == 0)
    c->outputs = strtoul(line + 8, NULL, 10);
}

static bool is_kind(const char *line, const char *kind) {
  size_t n = strlen(kind);
  return strncmp(line, kind, n) == 0 && (line[n] == ' ' || line[n] == '\0');
}

/* The next case of the file; false at its end. */
static bool case_read(FILE *f, struct test_case *c) {
  char *line = NULL;
  size_t room = 0;
  bool ended = false;
  while (!ended && getline(&line, &room, f) > 0) {
    ended = strcmp(line, "end\n") == 0;
    if (strncmp(line, "array ", 6) == 0) {
      struct array *a = &c->arrays[c->n_arrays++];
      MUST(c->n_arrays <= MAX_ARRAYS && strlen(line) < sizeof a->name);
      snprintf(a->name, sizeof a->name, "%.*s", (int)strcspn(line + 6, " "), line + 6);
      a->n = strtoul(line + 6 + strlen(a->name), NULL, 10);
      MUST(getline(&line, &room, f) > 0);
      read_values(a, line);
    } else {
      read_fact(c, line);
    }
  }
  free(line);
  return ended;
}

/* ---- judging */

static size_t n_ran, n_failed;
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

static const struct kernel *kernel_of(const struct run *r, size_t i) {
  MUST(r->kernels[i]);
  return r->kernels[i];
}

static size_t n_weights(const struct run *r, size_t i) {
  const struct layer *l = &r->arch->layers[i];
  return kernel_of(r, i)->weights ? kernel_of(r, i)->weights(l) : l->n_trained;
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
    if (kernel_of(r, i)->forward)
      kernel_of(r, i)->forward(l, &pass);
    else
      memcpy(pass.out, pass.in, r->n * l->n_out * sizeof *pass.out);
  }
  return r->out[r->arch->n_layers];
}

static void run_backward(struct run *r) {
  for (size_t i = r->arch->n_layers; i-- > 0;) {
    struct pass pass = pass_of(r, i, false);
    kernel_of(r, i)->backward(&r->arch->layers[i], &pass,
                              &(struct gradient){.d_out = r->d_out[i + 1], .d_in = r->d_out[i], .g = r->g[i]});
  }
}

/* Weights or gradients in the order of the model. */
static void run_store(const struct run *r, float *const *arrays, bool statistics, float *model) {
  for (size_t i = 0; i < r->arch->n_layers; i++) {
    const struct layer *l = &r->arch->layers[i];
    float *own = model + l->offset;
    if (kernel_of(r, i)->store)
      kernel_of(r, i)->store(l, arrays[i], own);
    else
      memcpy(own, arrays[i], l->n_trained * sizeof *own);
    if (statistics)
      memcpy(own + l->n_trained, arrays[i] + n_weights(r, i), l->n_statistics * sizeof *own);
  }
}

/* ---- cases of nets */

static struct loss loss_of(const struct test_case *c) {
  const struct array *weights = find_array(c, "weights");
  struct loss loss = {.kind = N_LOSS_KINDS,
                      .label_smoothing = number_of(c->loss, "smoothing"),
                      .delta = number_of(c->loss, "delta"),
                      .weights = weights ? weights->values : NULL};
  for (int kind = 0; kind < N_LOSS_KINDS; kind++)
    if (is_kind(c->loss, loss_kind_name((enum loss_kind)kind)))
      loss.kind = (enum loss_kind)kind;
  return loss;
}

static double mean_loss(const struct test_case *c, const struct loss *loss, const float *z, float *d_z) {
  const struct array *y = array_of(c, "y");
  uint16_t labels[MAX_KINDS];
  MUST(c->batch <= MAX_KINDS && y->n >= c->batch);
  for (size_t i = 0; i < c->batch; i++)
    labels[i] = y->n == c->batch ? (uint16_t)y->values[i] : 0;
  const struct answers answers = {.labels = labels, .targets = y->values};
  struct loss_sum sum = loss_of_batch(loss, z, &answers, c->batch, c->outputs, d_z);
  return sum.sum / sum.weight;
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

static void check_rank(const struct test_case *c, const struct schema *schema, const struct loss *kind, size_t rank) {
  struct run r = {.arch = schema_arch(schema), .n = c->batch, .rank = rank};
  size_t n = schema_parameters(schema);
  char kernels[MAX_TEXT];
  float *model = room(n), loss;
  run_open(&r, array_of(c, "w")->values);
  snprintf(kernels, sizeof kernels, "kernels of rank %zu", rank);
  memcpy(r.out[0], array_of(c, "x")->values, array_of(c, "x")->n * sizeof *r.out[0]);
  const float *z = run_forward(&r, true);
  loss = (float)mean_loss(c, kind, z, r.d_out[r.arch->n_layers]);
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
  struct loss loss = loss_of(c);
  if (!fits)
    report(false, c->name, c->arch, e ? why : "another number of weights");
  if (loss.kind == N_LOSS_KINDS)
    report(false, c->name, c->loss, "no such loss");
  else
    cover(loss_kind_name(loss.kind));
  fits = fits && loss.kind < N_LOSS_KINDS;
  for (size_t i = 0; fits && i < schema_arch(schema)->n_layers; i++) {
    const struct layer_type *type = schema_arch(schema)->layers[i].type;
    cover(type->word);
    n_ranks = type->n_kernels > n_ranks ? type->n_kernels : n_ranks;
  }
  for (size_t rank = 0; fits && rank < n_ranks; rank++)
    check_rank(c, schema, &loss, rank);
  schema_free(schema);
  contract_free(contract);
}

/* ---- cases of optimisers */

static struct optimiser_config optimiser_of(const struct test_case *c) {
  const char *line = c->optimiser;
  struct optimiser_config o = {.kind = N_OPTIMISERS,
                               .momentum = number_of(line, "momentum"),
                               .nesterov = number_of(line, "nesterov") > 0,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .epsilon = 1e-8,
                               .weight_decay = number_of(line, "decay"),
                               .clip_norm = number_of(line, "clip")};
  for (int kind = 0; kind < N_OPTIMISERS; kind++)
    if (is_kind(line, optimiser_name((enum optimiser)kind)))
      o.kind = (enum optimiser)kind;
  return o;
}

static void run_steps(const struct test_case *c, const struct optimiser_config *o, size_t kernel, float *w) {
  const struct array *gradients = array_of(c, "gradients");
  size_t n = array_of(c, "w")->n;
  float *states[MAX_OPTIMISER_STATES];
  for (size_t i = 0; i < MAX_OPTIMISER_STATES; i++)
    states[i] = room(n);
  for (size_t t = 0; t < gradients->n / n; t++) {
    const float *g = gradients->values + t * n;
    double squares = 0;
    for (size_t i = 0; i < n; i++)
      squares += (double)g[i] * (double)g[i];
    const struct optimiser_step step = {
        .rate = number_of(c->optimiser, "rate"), .scale = optimiser_clip(o, squares), .t = t + 1};
    optimiser_apply_by(kernel, o, &step, w, g, states, n);
  }
  for (size_t i = 0; i < MAX_OPTIMISER_STATES; i++)
    free(states[i]);
}

static void check_optimiser(const struct test_case *c) {
  const struct array *first = array_of(c, "w");
  struct optimiser_config o = optimiser_of(c);
  if (o.kind == N_OPTIMISERS) {
    report(false, c->name, c->optimiser, "no such optimiser");
    return;
  }
  cover(optimiser_name(o.kind));
  for (size_t kernel = 0; kernel < optimiser_kernels(); kernel++) {
    char what[MAX_WORD];
    float *w = room(first->n);
    memcpy(w, first->values, first->n * sizeof *w);
    run_steps(c, &o, kernel, w);
    snprintf(what, sizeof what, "kernel %zu", kernel);
    compare(c, "w_after", w, first->n, what);
    free(w);
  }
}

int main(int argc, char **argv) {
  FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
  struct test_case c = {0};
  if (!f) {
    fprintf(stderr, "usage: equality FILE, which tests/torch/cases.py writes\n");
    return 1;
  }
  for (; case_read(f, &c); case_done(&c))
    (c.arch[0] != '\0' ? check_net : check_optimiser)(&c);
  case_done(&c);
  fclose(f);
  for (size_t i = 0; layer_type_at(i); i++)
    demand(layer_type_at(i)->word);
  for (int kind = 0; kind < N_LOSS_KINDS; kind++)
    demand(loss_kind_name((enum loss_kind)kind));
  for (int kind = 0; kind < N_OPTIMISERS; kind++)
    demand(optimiser_name((enum optimiser)kind));
  printf("ran %zu, failed %zu, skipped 0\n", n_ran, n_failed);
  return n_failed != 0;
}
