/* What tuning finds, held against everything that there is to find: each cell of a grid is measured in several sweeps; the
 * tuner is told the first of them, and what it chooses is judged by the median of the others. (By the fastest of them, two
 * threads on a busy host are judged by the one time that both found a processor free.)
 *
 *   bench_tune grid INPUT MODEL BATCH          regrets of the samplers, means over seeds
 *   bench_tune return INPUT MODEL BATCH GROUP  regret after 100 % → 40 % → 100 % of this host's processors, with distillation
 *                                              and without; GROUP is a folder of a control group whose quota is set, or "-":
 *                                              the quota is emulated, a step takes as long as its processor time needs
 *   bench_tune kernels                         for many shapes, the chosen kernel beside the best and the worst one
 *
 * INPUT is HEIGHTxWIDTHxCHANNELS.
 *
 * One line "name value" a result. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/host.h"
#include "agent/run/team.h"
#include "base/must.h"
#include "models/schema.h"
#include "models/tuning/plan.h"

enum { N_SWEEPS = 5, N_SEEDS = 20, MIN_RUNS = 5, MAX_CELLS = 4096, PERIOD_US = 5000, PERIODS = 4 };

static const double run_s = 1.5e-3;

struct grid {
  struct plan plan;
  struct tuner_host host;
  size_t n;
  double told[MAX_CELLS], truth[MAX_CELLS]; /* seconds by cell_index */
};

static size_t cell_index(const struct plan *p, const struct tuner_cell *c) {
  size_t at = 0;
  for (size_t o = 0; o < c->operation; o++)
    at += p->operations[o].n_variants * p->n_splits;
  at += c->split * p->operations[c->operation].n_variants + c->variant;
  MUST(at < MAX_CELLS);
  return at;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): c is declared */
#define FOR_CELLS(p, c)                                                                                                \
  for (struct tuner_cell c = {0}; c.operation < (p)->n_operations; c.operation++)                                      \
    for (c.split = 0; c.split < (p)->n_splits; c.split++)                                                              \
      for (c.variant = 0; c.variant < (p)->operations[c.operation].n_variants; c.variant++)
/* NOLINTEND(bugprone-macro-parentheses) */

static struct schema *make_plan(const char *input, const char *line, uint32_t batch, uint32_t n_threads,
                                struct plan *out_plan) {
  struct contract c = {.task = TASK_CLASSIFY, .loss = LOSS_CROSS_ENTROPY, .n_classes = 10};
  uint32_t *const sides[] = {&c.height, &c.width, &c.channels};
  for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
    char *end;
    *sides[i] = (uint32_t)strtoul(input, &end, 10);
    MUST(*end == (i < 2 ? 'x' : '\0'));
    input = end + 1;
  }
  char why[MAX_REASON_BYTES] = "";
  struct schema *s;
  struct cpu cpu = cpu_detect();
  enum err e = schema_from_arch(line, &c, &s, why);
  if (!e)
    e = plan_make(schema_arch(s), batch, &cpu, n_threads, out_plan);
  if (e) {
    fprintf(stderr, "bench_tune: %s: %s %s\n", line, err_sentence(e), why);
    exit(1);
  }
  return s;
}

/* ---- measuring */

static double run_once(struct workload *w) {
  double start = clock_s();
  workload_run(w);
  return clock_s() - start;
}

/* The fastest step. */
static double fastest(struct workload *w) {
  double total = 0, best = INFINITY;
  workload_run(w);
  for (size_t i = 0; i < MIN_RUNS || total < run_s; i++) {
    double seconds = run_once(w);
    total += seconds;
    best = fmin(best, seconds);
  }
  return best;
}

/* The mean step over some periods of the quota, so that what is taken away counts. */
static double mean(struct workload *w) {
  double start, end;
  size_t n = 0;
  workload_run(w);
  start = clock_s();
  do {
    workload_run(w);
    n++;
    end = clock_s();
  } while (end - start < PERIODS * PERIOD_US * 1e-6);
  return (end - start) / (double)n;
}

static double measure(const struct plan *p, const struct tuner_cell *c, struct team *team,
                      double (*how)(struct workload *w)) {
  struct workload *w;
  MUST(workload_open(p, c, team, &w) == ERR_OK);
  double seconds = how(w);
  workload_close(w);
  return seconds;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void sweep(struct grid *g, struct team *team, double (*how)(struct workload *w)) {
  enum { N_OTHERS = N_SWEEPS - 1 };
  static double others[MAX_CELLS][N_OTHERS];
  for (size_t s = 0; s < N_SWEEPS; s++)
    FOR_CELLS(&g->plan, c) {
      size_t at = cell_index(&g->plan, &c);
      double seconds = measure(&g->plan, &c, team, how);
      *(s == 0 ? &g->told[at] : &others[at][s - 1]) = seconds;
      g->n = at + 1;
    }
  for (size_t at = 0; at < g->n; at++) {
    qsort(others[at], N_OTHERS, sizeof(double), compare);
    g->truth[at] = (others[at][(N_OTHERS - 1) / 2] + others[at][N_OTHERS / 2]) / 2;
  }
}

/* ---- judging */

static double step_seconds(const struct grid *g, size_t split, const uint32_t *variants) {
  double sum = 0;
  for (size_t o = 0; o < g->plan.n_operations; o++) {
    double best = INFINITY;
    for (uint32_t v = 0; v < g->plan.operations[o].n_variants; v++)
      if (!variants || variants[o] == v)
        best = fmin(best, g->truth[cell_index(&g->plan, &(struct tuner_cell){o, split, v})]);
    sum += best * g->plan.operations[o].count;
  }
  return sum;
}

static double best_seconds(const struct grid *g) {
  double best = INFINITY;
  for (size_t s = 0; s < g->plan.n_splits; s++)
    best = fmin(best, step_seconds(g, s, NULL));
  return best;
}

static struct tuner_config config_of(const struct grid *g, uint64_t seed) {
  struct tuner_config c = tuner_defaults();
  c.operations = g->plan.operations;
  c.n_operations = g->plan.n_operations;
  c.splits = g->plan.splits;
  c.n_splits = g->plan.n_splits;
  c.batch = g->plan.batch;
  c.n_variants = g->plan.n_variants;
  c.host = g->host;
  c.seed = seed;
  return c;
}

/* How much slower than the best; *model is what was learnt, and replaced. */
static double regret(const struct grid *g, const struct tuner_config *c, struct cost_model **model,
                     size_t *out_measured) {
  struct tuner *t;
  struct tuner_cell cell;
  struct tuner_choice choice;
  bool has;
  MUST(tuner_new(c, &t) == ERR_OK);
  while (tuner_next(t, &cell, &has) == ERR_OK && has)
    tuner_put(t, &cell, g->told[cell_index(&g->plan, &cell)]);
  MUST(tuner_choose(t, &choice) == ERR_OK);
  *out_measured = tuner_measured(t);
  if (model) {
    cost_free(*model);
    MUST(cost_new(g->plan.n_variants, model) == ERR_OK && cost_take(*model, cost_weights(tuner_model(t))) == ERR_OK);
  }
  tuner_free(t);
  return step_seconds(g, choice.split, choice.variants) / best_seconds(g) - 1;
}

/* ---- grid */

static void bench_grid(struct grid *g, struct team *team) {
  static const struct {
    const char *name;
    struct sampler_weights weights;
    double explored;
  } samplers[] = {{"random", {0, 0, 0}, 1}, /* as it is usually done: nothing is followed up */
                  {"random_then_doubts", {0, 0, 0}, 0},
                  {"r", {0.3, 0, 0}, 0},
                  {"rd", {0.3, 1, 0}, 0},
                  {"rdu", {0.3, 1, 0.3}, 0}};
  size_t measured = 0;
  sweep(g, team, fastest);
  for (size_t i = 0; i < sizeof samplers / sizeof *samplers; i++) {
    double sum = 0, worst = 0;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
      struct tuner_config c = config_of(g, seed);
      c.weights = samplers[i].weights;
      c.explored = samplers[i].explored > 0 ? samplers[i].explored : c.explored;
      double r = regret(g, &c, NULL, &measured);
      sum += r / N_SEEDS;
      worst = fmax(worst, r);
    }
    printf("%s %.5f\n%s_worst %.5f\n", samplers[i].name, sum, samplers[i].name, worst);
  }
  double first = step_seconds(g, 0, (const uint32_t[MAX_TUNER_OPERATIONS]){0});
  printf("cells %zu\nmeasured %zu\nplain %.5f\n", g->n, measured, first / best_seconds(g) - 1);
}

/* ---- return */

static void put(const char *group, const char *file, const char *value) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", group, file);
  FILE *f = fopen(path, "w");
  if (!f || fputs(value, f) < 0 || fclose(f) != 0) {
    perror(path);
    exit(1);
  }
}

static void put_number(const char *group, const char *file, long value) {
  char text[32];
  snprintf(text, sizeof text, "%ld", value);
  put(group, file, text);
}

static bool is_v1(const char *group) {
  char path[512];
  snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", group);
  return access(path, F_OK) == 0;
}

static void sweep_quota(struct grid *g, struct team *team, const char *group, double processors) {
  long quota_us = lround(processors * PERIOD_US);
  if (is_v1(group)) {
    put_number(group, "cpu.cfs_period_us", PERIOD_US);
    put_number(group, "cpu.cfs_quota_us", quota_us);
  } else {
    char text[64];
    snprintf(text, sizeof text, "%ld %d", quota_us, PERIOD_US);
    put(group, "cpu.max", text);
  }
  sweep(g, team, mean);
}

/* Processor time of a step: that of the same cell with one thread. */
static double work_of(const struct grid *g, const double *seconds, struct tuner_cell c) {
  struct tuner_split s = g->plan.splits[c.split];
  s.threads = 1;
  for (size_t i = 0; i < g->plan.n_splits; i++)
    if (memcmp(&g->plan.splits[i], &s, sizeof s) == 0)
      c.split = i;
  return seconds[cell_index(&g->plan, &c)];
}

static void emulate_quota(const struct grid *from, struct grid *g, double processors) {
  FOR_CELLS(&g->plan, c) {
    size_t at = cell_index(&g->plan, &c);
    g->told[at] = fmax(from->told[at], work_of(from, from->told, c) / processors);
    g->truth[at] = fmax(from->truth[at], work_of(from, from->truth, c) / processors);
  }
}

static double return_regret(const struct grid *whole, const struct grid *part, double keep, uint64_t seed,
                            size_t *out_measured) {
  struct cost_model *model = NULL;
  size_t measured;
  struct tuner_config c = config_of(whole, seed);
  regret(whole, &c, &model, &measured);
  for (size_t i = 0; i < 2; i++) {
    const struct grid *g = i == 0 ? part : whole;
    struct cost_model *learnt = NULL;
    c = config_of(g, seed);
    tuner_learn_again(&c, model, i == 0 ? whole->host : part->host);
    c.keep = keep;
    double r = regret(g, &c, &learnt, out_measured);
    cost_free(model);
    model = learnt;
    if (i == 1) {
      cost_free(model);
      return r;
    }
  }
  return 0;
}

static void bench_return(struct grid *whole, struct team *team, const char *group) {
  static struct grid part;
  bool emulated = strcmp(group, "-") == 0;
  double all = whole->host.processors, kept = 0, forgotten = 0;
  size_t measured = 0;
  part.plan = whole->plan;
  part.host = (struct tuner_host){0.4 * all, 0};
  if (emulated) {
    sweep(whole, team, fastest);
    emulate_quota(whole, &part, part.host.processors);
  } else {
    put_number(group, "cgroup.procs", getpid());
    sweep_quota(whole, team, group, all);
    sweep_quota(&part, team, group, part.host.processors);
  }
  for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
    kept += return_regret(whole, &part, tuner_defaults().keep, seed, &measured) / N_SEEDS;
    forgotten += return_regret(whole, &part, 0, seed, &measured) / N_SEEDS;
  }
  printf("cells %zu\nmeasured %zu\nemulated %d\nkept %.5f\nforgotten %.5f\n", whole->n, measured, emulated, kept,
         forgotten);
}

/* ---- kernels */

static void bench_kernels(struct grid *g) {
  static const char *const lines[] = {
      "dense 128, relu, dense classes",
      "dense 512, relu, dense 512, relu, dense classes",
      "dense 64, relu, dense 32, relu, dense 256, relu, dense 96, dense classes",
      "conv 5x5x8, relu, pool 2, conv 5x5x16, relu, pool 2, dense 128, relu, dense classes",
      /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one line in two */
      "conv 3x3x16 pad 1, relu, conv 3x3x16 pad 1, relu, pool 2, conv 3x3x32 pad 1, relu, conv 1x1x64, relu, "
      "conv 3x3x64 stride 2, relu, dense classes",
  };
  static const uint32_t batches[] = {8, 32, 128};
  size_t n = 0, n_good = 0, n_chosen = 0, n_worth = 0;
  double worst = 0;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
      struct schema *s = make_plan("28x28x1", lines[i], batches[b], 1, &g->plan);
      g->plan.n_splits = 1;
      sweep(g, NULL, fastest);
      for (size_t o = 0; o < g->plan.n_operations; o++) {
        size_t chosen = 0, first = cell_index(&g->plan, &(struct tuner_cell){o, 0, 0});
        double best = INFINITY, slowest = 0;
        for (size_t v = 0; v < g->plan.operations[o].n_variants; v++) {
          chosen = g->told[first + v] < g->told[first + chosen] ? v : chosen;
          best = fmin(best, g->truth[first + v]);
          slowest = fmax(slowest, g->truth[first + v]);
        }
        double ratio = g->truth[first + chosen] / best;
        n++;
        n_good += ratio <= 1.05;
        n_chosen += g->plan.operations[o].n_variants > 1;
        n_worth += slowest / g->truth[first + chosen] >= 1.5;
        worst = fmax(worst, ratio);
      }
      schema_free(s);
    }
  printf("shapes %zu\nwith_choice %zu\ngood_share %.4f\nworst_ratio %.4f\nworth_share %.4f\n", n, n_chosen,
         (double)n_good / (double)n, worst, (double)n_worth / (double)n);
}

int main(int argc, char **argv) {
  static struct grid g;
  struct host h = host_look("");
  struct schema *s = NULL;
  struct team *team = team_start(host_threads(&h));
  g.host = (struct tuner_host){host_processors(&h), 0};
  if (argc >= 5)
    s = make_plan(argv[2], argv[3], (uint32_t)strtoul(argv[4], NULL, 10), host_threads(&h), &g.plan);
  if (argc == 5 && strcmp(argv[1], "grid") == 0)
    bench_grid(&g, team);
  else if (argc == 6 && strcmp(argv[1], "return") == 0)
    bench_return(&g, team, argv[5]);
  else if (argc == 2 && strcmp(argv[1], "kernels") == 0)
    bench_kernels(&g);
  else
    fprintf(stderr, "usage: bench_tune grid INPUT MODEL BATCH | return INPUT MODEL BATCH GROUP | kernels\n");
  team_stop(team);
  schema_free(s);
  return 0;
}
