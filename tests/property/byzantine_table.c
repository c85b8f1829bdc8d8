/* Fashion-MNIST, some agents bad: accuracy of the good ones by rule and attack, with the deployed learner and rules.
 *
 * usage: table_byzantine SUITE [ROUNDS [SEED…]]
 *   full      20 agents, all with all, 4 bad, iid and Dirichlet 0.3: rules × attacks
 *   dumbbell  two halves of 10 with five classes each, one edge, nobody bad
 *   ring      10 good, each with 2 good and 2 bad neighbours
 *   third     24 agents at random, degree about 8, 5 bad, at most a third in each neighbourhood (A21, A23)
 *   exact     13 agents, all with all, 4 bad: exactly a third (A22)
 * The last line is `table byzantine-SUITE ok`, or SHORT and why. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "crypto/digest.h"
#include "models/contract.h"
#include "models/data/split.h"
#include "tests/property/bad_swarm.h"

#define FASHION "/usr/share/datasets/fashion-mnist/"

enum { ROW = 28, INPUTS = ROW * ROW, CLASSES = 10, N_TRAIN = 60000, N_TEST = 2000, MOST_SEEDS = 5 };

static const char arch[] = "dense 32, relu, dense classes";

static struct {
  uint32_t rounds;
  uint64_t seeds[MOST_SEEDS];
  size_t n_seeds;
  const char *shortfall; /* first reason */
  char reason[200];
} run;

/* ---- data ---------------------------------------------------------------------------------------------------------- */

static struct {
  struct contract *contract;
  struct schema *schema;
  struct splits all;
  struct dataset *test;
} fashion;

static void load_fashion(void) {
  struct data_place why;
  char reason[MAX_REASON_BYTES], name[2] = "0";
  struct contract *c = contract_new();
  MUST(c != NULL);
  for (size_t i = 0; i < CLASSES; i++, name[0]++)
    MUST(contract_add_class(c, name) == ERR_OK);
  c->height = c->width = ROW;
  c->channels = 1;
  c->holdout = c->validation = 0;
  MUST(schema_from_arch(arch, c, &fashion.schema, reason) == ERR_OK);
  const struct data_source source = {
      .train = {FASHION "train-images-idx3-ubyte.gz", FASHION "train-labels-idx1-ubyte.gz"}};
  const struct data_file test = {FASHION "t10k-images-idx3-ubyte.gz", FASHION "t10k-labels-idx1-ubyte.gz"};
  enum err e = dataset_open(&source, c, &digest_blake2b, &fashion.all, &why);
  if (e == ERR_OK)
    e = dataset_open_test(&test, c, &fashion.all.train->scale, NULL, NULL, &fashion.test, &why);
  if (e != ERR_OK) {
    data_place_text(&why, reason, sizeof reason);
    fprintf(stderr, "%s\n", reason);
    exit(1);
  }
  fashion.contract = c;
  fashion.test->n = N_TEST;
}

/* The samples that `part` says. */
static struct dataset *take(const uint16_t *part, uint16_t which) {
  const struct dataset *all = fashion.all.train;
  struct dataset *d = malloc(sizeof *d);
  MUST(d);
  *d = *all;
  d->bytes = malloc(all->n * INPUTS);
  d->labels = calloc(all->n, sizeof *d->labels);
  MUST(d->bytes && d->labels);
  d->n = 0;
  for (size_t i = 0; i < all->n; i++)
    if (part[i] == which) {
      memcpy(d->bytes + d->n * INPUTS, all->bytes + i * INPUTS, INPUTS);
      d->labels[d->n++] = all->labels[i];
    }
  return d;
}

static void give(struct bad_swarm *s, const char *split) {
  const struct dataset *all = fashion.all.train;
  uint16_t *part = calloc(all->n, sizeof *part);
  MUST(part);
  struct split rule = {.rule = strtod(split, NULL) > 0 ? SPLIT_DIRICHLET : SPLIT_IID,
                       .alpha = strtod(split, NULL),
                       .n_parts = (uint32_t)s->n,
                       .seed = s->seed};
  MUST(split_assign(&rule, all->labels, all->n, CLASSES, part) == ERR_OK);
  for (size_t i = 0; i < all->n && strcmp(split, "halves") == 0; i++) /* classes 0–4 to the first half */
    part[i] = (uint16_t)(1 + part[i] % (s->n / 2) + (all->labels[i] < CLASSES / 2 ? 0 : s->n / 2));
  for (size_t i = 0; i < s->n; i++)
    s->train[i] = take(part, (uint16_t)(i + 1));
  free(part);
}

static void take_back(struct bad_swarm *s) {
  for (size_t i = 0; i < s->n; i++) {
    free(s->train[i]->bytes);
    free(s->train[i]->labels);
    free(s->train[i]);
  }
}

/* ---- runs ---------------------------------------------------------------------------------------------------------- */

/* A rule under its name; the mean of the literature has no norm bound, the deployed one has. */
struct candidate {
  const char *name;
  enum merge_rule rule;
  double norm_bound;
};

static const struct candidate unbounded = {"plain mean", RULE_MEAN, 1e6};
static const struct candidate rule_mean = {"mean", RULE_MEAN, 0}, rule_clip = {"clip", RULE_CLIP, 0},
                              multi_krum = {"multi-krum", RULE_MULTI_KRUM, 0}, nnm = {"nnm", RULE_NNM, 0},
                              median = {"median", RULE_MEDIAN, 0}, trimmed = {"trimmed", RULE_TRIMMED, 0},
                              krum = {"krum", RULE_KRUM, 0}, centred = {"centred-clip", RULE_CENTRED_CLIP, 0},
                              geometric = {"geometric-median", RULE_GEOMETRIC_MEDIAN, 0},
                              trust = {"trust", RULE_TRUST, 0}, robust = {"robust", RULE_ROBUST, 0};

struct row {
  size_t n, n_bad;
  void (*edges)(struct bad_swarm *s);
  const char *split;
  uint32_t f, steps;
  double rate;
};

struct figure {
  double mean, worst, of_mean, left_out, kept;
};

static void random_eight(struct bad_swarm *s) {
  bad_swarm_random(s, 8);
}

/* Means over the seeds, the worst of all. */
static struct figure figure_of(const struct row *row, const struct candidate *rule, enum attack attack) {
  struct figure f = {.worst = 1};
  for (size_t k = 0; k < run.n_seeds; k++) {
    struct bad_swarm s = {
        .schema = fashion.schema,
        .test = fashion.test,
        .row_inputs = ROW,
        .n = row->n,
        .n_bad = row->n_bad,
        .attack = attack,
        .rule = {.rule = rule->rule, .byzantine = row->f, .max_share = 0.5, .norm_bound = rule->norm_bound},
        .rounds = run.rounds,
        .steps = row->steps > 0 ? row->steps : 10,
        .batch = 32,
        .learning_rate = row->rate > 0 ? row->rate : 0.02,
        .momentum = 0.9,
        .seed = run.seeds[k]};
    struct bad_swarm_result r;
    row->edges(&s);
    give(&s, row->split);
    bad_swarm_run(&s, &r);
    take_back(&s);
    const double share = 1.0 / (double)run.n_seeds;
    f.mean += 100 * share * r.mean;
    f.of_mean += 100 * share * r.of_mean;
    f.worst = fmin(f.worst, r.worst);
    f.kept += r.n_bad ? 100 * share * (double)r.n_bad_kept / (double)r.n_bad : 0;
    f.left_out += 100 * share * (double)r.n_good_left_out / (double)r.n_good;
  }
  f.worst *= 100;
  return f;
}

__attribute__((format(printf, 2, 3))) static void expect(bool is_so, const char *format, ...) {
  va_list args;
  if (is_so || run.shortfall)
    return;
  va_start(args, format);
  vsnprintf(run.reason, sizeof run.reason, format, args);
  va_end(args);
  run.shortfall = run.reason;
}

static void print_row(const char *split, const char *rule, enum attack attack, const struct figure *f) {
  printf("%-8s %-17s %-11s mean %5.1f  worst %5.1f  mean model %5.1f  bad kept %3.0f %%  good left out %3.0f %%\n",
         split, rule, attack_name(attack), f->mean, f->worst, f->of_mean, f->kept, f->left_out);
  fflush(stdout);
}

static void suite_full(void) {
  static const struct candidate *const rules[] = {&unbounded, &rule_mean, &rule_clip, &multi_krum, &nnm,   &median,
                                                  &trimmed,   &krum,      &centred,   &geometric,  &trust, NULL};
  static const enum attack attacks[] = {ATTACK_NONE, ATTACK_SIGN_FLIP, ATTACK_IPM, ATTACK_ALIE, ATTACK_LABEL_FLIP};
  static const char *const splits[] = {"iid", "0.3"};
  for (size_t s = 0; s < 2; s++)
    for (size_t k = 0; rules[k] != NULL; k++) {
      const struct row row = {.n = 20, .n_bad = 4, .edges = bad_swarm_full, .split = splits[s], .f = 4};
      double clean = 0, most = s == 0 ? 3 : 6;
      for (size_t a = 0; a < sizeof attacks / sizeof *attacks; a++) {
        struct figure f = figure_of(&row, rules[k], attacks[a]);
        bool is_scaled = attacks[a] == ATTACK_SIGN_FLIP || attacks[a] == ATTACK_IPM;
        clean = attacks[a] == ATTACK_NONE ? f.mean : clean;
        print_row(splits[s], rules[k]->name, attacks[a], &f);
        if (rules[k] == &unbounded)
          expect(!is_scaled || f.mean <= 20, "the plain mean still has %.1f under %s", f.mean, attack_name(attacks[a]));
        if (rules[k] == &rule_clip || rules[k] == &multi_krum)
          expect(!is_scaled || f.mean >= clean - most, "%s loses %.1f points under %s, split %s", rules[k]->name,
                 clean - f.mean, attack_name(attacks[a]), splits[s]);
      }
    }
}

static void suite_dumbbell(void) {
  static const struct candidate *const rules[] = {&rule_mean, &rule_clip, &robust,    &median,
                                                  &trimmed,   &krum,      &geometric, NULL};
  const struct row row = {
      .n = 20, .edges = bad_swarm_dumbbell, .split = "halves", .f = RULE_A_THIRD, .steps = 1, .rate = 0.01};
  double gossip = 0;
  for (size_t k = 0; rules[k] != NULL; k++) {
    struct figure f = figure_of(&row, rules[k], ATTACK_NONE);
    gossip = rules[k] == &rule_mean ? f.mean : gossip;
    print_row(row.split, rules[k]->name, ATTACK_NONE, &f);
    if (rules[k] == &rule_clip)
      expect(f.mean >= gossip - 2, "clip loses %.1f points of gossip's", gossip - f.mean);
    if (rules[k] == &median || rules[k] == &trimmed)
      expect(f.mean <= 50, "%s does not cut the bridge: %.1f", rules[k]->name, f.mean);
  }
}

static void suite_ring(void) {
  static const struct candidate *const rules[] = {&unbounded, &rule_clip, &median, &trimmed, &nnm, NULL};
  static const enum attack attacks[] = {ATTACK_NONE, ATTACK_IPM, ATTACK_ALIE, ATTACK_DISSENSUS};
  const struct row row = {.n = 30, .n_bad = 20, .edges = bad_swarm_ring, .split = "iid", .f = 2};
  for (size_t k = 0; rules[k] != NULL; k++)
    for (size_t a = 0; a < sizeof attacks / sizeof *attacks; a++) {
      struct figure f = figure_of(&row, rules[k], attacks[a]);
      print_row(row.split, rules[k]->name, attacks[a], &f);
    }
}

static void suite_of_third(const struct row *row, double most, bool is_promised) {
  static const struct candidate *const rules[] = {&unbounded, &robust, NULL};
  static const enum attack attacks[] = {ATTACK_NONE,     ATTACK_STALE, ATTACK_SIGN_FLIP, ATTACK_GAUSSIAN,
                                        ATTACK_ALIE,     ATTACK_IPM,   ATTACK_DISSENSUS, ATTACK_LABEL_FLIP,
                                        ATTACK_ADAPTIVE, ATTACK_MEDIAN};
  double mean_clean = 0, clean = 0;
  for (size_t k = 0; rules[k] != NULL; k++)
    for (size_t a = 0; a < sizeof attacks / sizeof *attacks; a++) {
      struct figure f = figure_of(row, rules[k], attacks[a]);
      clean = attacks[a] == ATTACK_NONE ? f.mean : clean;
      print_row(row->split, rules[k]->name, attacks[a], &f);
      if (rules[k] == &unbounded) {
        mean_clean = attacks[a] == ATTACK_NONE ? f.mean : mean_clean;
        expect(attacks[a] != ATTACK_SIGN_FLIP || f.mean <= 20, "the plain mean still has %.1f under sign-flip", f.mean);
        continue;
      }
      expect(attacks[a] != ATTACK_NONE || f.mean >= mean_clean - 1.5, "robust costs %.1f points without attack",
             mean_clean - f.mean);
      expect(!is_promised || f.mean >= clean - most, "robust loses %.1f points under %s", clean - f.mean,
             attack_name(attacks[a]));
    }
}

static void suite_third(void) {
  suite_of_third(&(struct row){.n = 24, .n_bad = 5, .edges = random_eight, .split = "iid", .f = RULE_A_THIRD}, 3, true);
  suite_of_third(&(struct row){.n = 24, .n_bad = 5, .edges = random_eight, .split = "0.5", .f = RULE_A_THIRD}, 7, true);
}

static void suite_exact(void) {
  suite_of_third(&(struct row){.n = 13, .n_bad = 4, .edges = bad_swarm_full, .split = "iid", .f = RULE_A_THIRD}, 5,
                 true);
  suite_of_third(&(struct row){.n = 13, .n_bad = 4, .edges = bad_swarm_full, .split = "0.5", .f = RULE_A_THIRD}, 0,
                 false);
}

int main(int n_args, char **args) {
  static const struct {
    const char *name;
    void (*run)(void);
    uint32_t rounds;
  } suites[] = {{"full", suite_full, 60},
                {"dumbbell", suite_dumbbell, 100},
                {"ring", suite_ring, 60},
                {"third", suite_third, 40},
                {"exact", suite_exact, 40}};
  for (size_t i = 0; n_args > 1 && i < sizeof suites / sizeof *suites; i++) {
    if (strcmp(args[1], suites[i].name) != 0)
      continue;
    run.rounds = n_args > 2 ? (uint32_t)strtoul(args[2], NULL, 10) : suites[i].rounds;
    for (int k = 3; k < n_args && run.n_seeds < MOST_SEEDS; k++)
      run.seeds[run.n_seeds++] = strtoull(args[k], NULL, 10);
    for (; run.n_seeds == 0 || (n_args <= 3 && run.n_seeds < 3); run.n_seeds++)
      run.seeds[run.n_seeds] = run.n_seeds + 1;
    load_fashion();
    suites[i].run();
    printf("table byzantine-%s %s%s\n", args[1], run.shortfall ? "SHORT: " : "ok", run.shortfall ? run.shortfall : "");
    return run.shortfall != NULL;
  }
  fprintf(stderr, "usage: table_byzantine full|dumbbell|ring|third|exact [ROUNDS [SEED…]]\n");
  return 2;
}
