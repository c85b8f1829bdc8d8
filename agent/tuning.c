#include "agent/tuning.h"

#include <stdio.h>
#include <string.h>

#include "agent/clock.h"
#include "agent/file.h"
#include "agent/job_words.h"
#include "base/limits.h"
#include "base/must.h"

enum { MIN_RUNS = 3, MAX_RUNS = 200, DUELS = 9 };

static const double enough_s = 2e-3; /* of one measurement */
static const double worth = 0.98;    /* a choice must be so much faster than something simpler */

/* ---- measuring ---- */

static double run_once(struct workload *w) {
  double start = clock_s();
  workload_run(w);
  return clock_s() - start;
}

/* The fastest of several steps: what else the host does only adds. */
static double fastest(struct workload *w) {
  double total = 0, best = 0;
  workload_run(w);
  for (size_t i = 0; i < MIN_RUNS || (i < MAX_RUNS && total < enough_s); i++) {
    double seconds = run_once(w);
    total += seconds;
    best = i == 0 || seconds < best ? seconds : best;
  }
  return best > 0 ? best : 1e-9;
}

static enum err measure_cell(const struct tuning_order *order, struct tuner *tuner, const struct tuner_cell *cell) {
  struct workload *w;
  enum err e = workload_open(order->plan, cell, order->team, &w);
  if (e)
    return e;
  double seconds = fastest(w);
  workload_close(w);
  tuner_put(tuner, cell, seconds);
  if (order->observer)
    order->observer->measured(order->observer->context, order->plan, cell, seconds);
  return ERR_OK;
}

static enum err measure_cells(const struct tuning_order *order, struct tuner *tuner, double end_s) {
  for (;;) {
    struct tuner_cell cell;
    bool has;
    enum err e = order->hook ? order->hook->between_batches(order->hook->context, tuner_measured(tuner), 0) : ERR_OK;
    if (!e)
      e = tuner_next(tuner, &cell, &has);
    if (e || !has)
      return e;
    if ((e = measure_cell(order, tuner, &cell)) != ERR_OK || clock_s() > end_s)
      return e;
  }
}

/* ---- whole steps, against each other ---- */

enum { BY_DEFAULT, KERNELS_ALONE, AS_CHOSEN, N_RIVALS };

/* One after the other, again and again, so that what else the host does hits all of them alike. */
static enum err duel(const struct tuning_order *order, const struct selection *const rivals[N_RIVALS],
                     double out_seconds[N_RIVALS]) {
  struct workload *w[N_RIVALS] = {0};
  enum err e = ERR_OK;
  for (size_t i = 0; i < N_RIVALS && !e; i++)
    e = workload_open_net(order->plan, rivals[i], order->team, &w[i]);
  for (size_t i = 0; i < N_RIVALS && !e; i++)
    out_seconds[i] = fastest(w[i]);
  for (size_t turn = 0; turn < DUELS && !e; turn++)
    for (size_t i = 0; i < N_RIVALS; i++) {
      double seconds = run_once(w[i]);
      out_seconds[i] = seconds < out_seconds[i] ? seconds : out_seconds[i];
    }
  for (size_t i = 0; i < N_RIVALS; i++)
    workload_close(w[i]);
  return e;
}

static enum err take_fastest(const struct tuning_order *order, const struct tuner_choice *choice,
                             struct tuned_host *out_host, struct tuning_outcome *outcome) {
  struct selection by_default, alone, chosen;
  double seconds[N_RIVALS];
  plan_defaults(order->plan, &by_default);
  plan_selection(order->plan, choice, &chosen);
  alone = chosen;
  alone.lanes = alone.threads = 1;
  alone.block = 0;
  const struct selection *const rivals[N_RIVALS] = {&by_default, &alone, &chosen};
  enum err e = duel(order, rivals, seconds);
  if (e)
    return e;
  size_t best = BY_DEFAULT;
  for (size_t i = KERNELS_ALONE; i < N_RIVALS; i++)
    if (seconds[i] < worth * seconds[best])
      best = i;
  out_host->selection = *rivals[best];
  out_host->seconds = outcome->step = seconds[best] > 0 ? seconds[best] : 1e-9;
  outcome->step_before = seconds[BY_DEFAULT];
  return ERR_OK;
}

/* ---- the whole ---- */

static const struct tuned_host *of_number(const struct tuning *t, uint32_t number) {
  for (size_t i = 0; i < t->n_hosts; i++)
    if (t->hosts[i].number == number)
      return &t->hosts[i];
  return NULL;
}

/* Which number this machine has, or is to have: the least that none has, so that it never grows out of what the cost model
 * can compute with. */
static uint32_t machine_number(const struct tuning *t, const char *machine) {
  uint32_t next = 0;
  for (size_t i = 0; i < t->n_hosts; i++)
    if (strcmp(t->hosts[i].machine, machine) == 0)
      return t->hosts[i].number;
  while (of_number(t, next))
    next++;
  return next;
}

static struct tuner_config config_of(const struct tuning *t, const struct tuning_order *order,
                                     const struct tuned_host *host) {
  const struct plan *p = order->plan;
  struct tuner_config config = tuner_defaults();
  config.operations = p->operations;
  config.n_operations = p->n_operations;
  config.splits = p->splits;
  config.n_splits = p->n_splits;
  config.batch = p->batch;
  config.n_variants = p->n_variants;
  config.host = (struct tuner_host){host->processors, host->number};
  if (t->cost && t->n_hosts > 0)
    tuner_learn_again(&config, t->cost, (struct tuner_host){t->hosts[0].processors, t->hosts[0].number});
  return config;
}

static enum err keep(struct tuning *t, const struct plan *p, const struct tuner *tuner, const struct tuned_host *host) {
  struct cost_model *cost = NULL;
  enum err e = cost_new(p->n_variants, &cost);
  if (e)
    return e;
  MUST(cost_take(cost, cost_weights(tuner_model(tuner))) == ERR_OK);
  cost_free(t->cost);
  t->cost = cost;
  tuning_put(t, host);
  return ERR_OK;
}

enum err tuning_measure(struct tuning *t, const struct tuning_order *order, struct tuning_outcome *out_outcome,
                        struct tuner **out_tuner) {
  double start = clock_s();
  struct tuner *tuner = NULL;
  struct tuning_outcome outcome = {0};
  struct tuned_host host = {.processors = host_processors(order->host)};
  host_machine(order->host, host.machine);
  host.number = machine_number(t, host.machine);
  struct tuner_config config = config_of(t, order, &host);
  enum err e = tuner_new(&config, &tuner);
  if (!e)
    e = measure_cells(order, tuner, start + order->seconds);
  if (!e)
    e = tuner_choose(tuner, &outcome.choice);
  if (!e)
    e = take_fastest(order, &outcome.choice, &host, &outcome);
  if (!e)
    e = keep(t, order->plan, tuner, &host);
  if (!e) {
    outcome.n_cells = tuner_cells(tuner);
    outcome.n_measured = tuner_measured(tuner);
    outcome.seconds = clock_s() - start;
    outcome.is_again = config.old != NULL;
    *out_outcome = outcome;
  }
  if (!e && out_tuner)
    *out_tuner = tuner; /* now the caller's */
  else
    tuner_free(tuner);
  return e;
}

enum err tuning_path(const char *state_dir, const char *job, uint32_t version, char out_path[MAX_PATH_BYTES]) {
  char name[JOB_WORDS_BYTES + 32];
  snprintf(name, sizeof name, "tuning-%s@%u.json", job, version);
  return path_join(state_dir, name, out_path);
}
