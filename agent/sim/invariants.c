#include "agent/sim/invariants.h"

#include <stdlib.h>
#include <string.h>

#include "agent/sim/parts.h"
#include "base/must.h"

static const struct {
  const char *name, *sentence;
} texts[N_SIM_INVARIANTS] = {
#define X(symbol, name, sentence) {name, sentence},
    SIM_INVARIANTS(X)
#undef X
};

const char *sim_invariant_name(enum sim_invariant i) {
  return texts[i].name;
}

const char *sim_invariant_sentence(enum sim_invariant i) {
  return texts[i].sentence;
}

bool sim_holds(struct sim_agent *a, enum sim_invariant i, bool holds) {
  struct sim *s = a->sim;
  if (holds)
    return true;
  if (s->n_broken++ == 0)
    s->first_broken = (struct sim_broken){i, a->number, s->now_us};
  if (s->watch.broken)
    s->watch.broken(s->watch.context, a, i);
  return false;
}

static bool gather_length(struct sim_agent *a) {
  return a->machine->phase != PHASE_GATHERING || a->machine->deadline_ms <= sim_config(a)->deadline_max_ms;
}

/* The end is set once, when the gather begins: whatever makes it longer is seen. */
static bool gather_ends(struct sim_agent *a) {
  struct round_view v;
  bool gathers = a->machine->phase == PHASE_GATHERING;
  uint64_t now_ms = sim_clock_ms(a);
  if (gathers && !a->was_gathering)
    a->gather_until_ms = now_ms + a->machine->deadline_ms;
  a->was_gathering = gathers;
  if (!gathers)
    return true;
  round_view(a->machine, &v);
  return now_ms < a->gather_until_ms && v.closes_at_ms <= a->gather_until_ms;
}

static bool queues(struct sim_agent *a) {
  for (size_t i = 0; i < a->n_peers; i++) {
    const struct inbox *in = &a->machine->peers[i].inbox;
    if (in->n_queue > KEEP_PAYLOADS || in->n_offers > KEEP_PAYLOADS)
      return false;
  }
  return true;
}

static bool memory(struct sim_agent *a) {
  uint64_t waiting = 0;
  for (size_t i = 0; i < a->n_peers; i++)
    waiting += inbox_bytes(&a->machine->peers[i].inbox);
  return waiting <= sim_config(a)->payload_max_bytes;
}

/* Nothing but itself keeps it from committing the next round. */
static bool should_move(const struct sim_agent *a) {
  const struct round_machine *m = a->machine;
  bool waits = m->phase == PHASE_ALONE || m->phase == PHASE_PAUSED || m->phase == PHASE_FINISHED;
  return !waits && m->halted == ERR_OK && a->host.disk == ERR_OK && a->host.paused_until_us <= a->sim->now_us;
}

static uint64_t writing_ms(const struct sim_agent *a) {
  uint64_t bytes = 4 * (uint64_t)sim_config(a)->full_bytes;
  return a->host.writing_ms + (a->host.disk_bytes_per_s > 0 ? bytes * 1000 / a->host.disk_bytes_per_s : 0);
}

uint64_t sim_round_bound_ms(const struct sim_agent *a) {
  const struct sim_host *h = &a->host;
  uint64_t training_ms = h->step_ms > 0 ? h->step_ms * a->last_steps : h->training_ms;
  double work_ms = 2 * (double)(h->loading_ms + training_ms + h->merging_ms) / h->speed;
  uint64_t owed_ms = h->disk_free_us > a->sim->now_us ? (h->disk_free_us - a->sim->now_us) / 1000 : 0;
  return sim_config(a)->meet_ms + 2 * sim_config(a)->deadline_max_ms + 2 * sim_config(a)->every_ms + JUMP_RETRY_MS +
         HALTED_RETRY_MS + (uint64_t)work_ms + 6 * writing_ms(a) + owed_ms;
}

static bool round_ends(struct sim_agent *a) {
  bool has_moved = sim_label_is_after(a->durable.committed, a->moved_at);
  a->moved_at = a->durable.committed;
  if (has_moved || !should_move(a))
    a->moved_ms = a->sim->now_ms;
  return a->sim->now_ms - a->moved_ms <= sim_round_bound_ms(a);
}

static bool no_round_lost(struct sim_agent *a) {
  return !sim_label_is_after(a->started_from, a->machine->committed);
}

static bool mass_is_kept(struct sim_agent *a) {
  size_t n;
  if (!sim_config(a)->is_push_sum || a->sim->mass_is_void)
    return true;
  return __builtin_fabs(sim_mass(a->sim, &n) - (double)n) <= 1e-6;
}

void sim_check(struct sim_agent *a, bool was_idle) {
  static const struct {
    enum sim_invariant invariant;
    bool (*holds)(struct sim_agent *a);
    bool is_of_machine; /* nothing but what the machine does can break it */
  } table[] = {{SIM_INVARIANT_GATHER_LENGTH, gather_length, false},
               {SIM_INVARIANT_GATHER_ENDS, gather_ends, false},
               {SIM_INVARIANT_QUEUES, queues, true},
               {SIM_INVARIANT_MEMORY, memory, true},
               {SIM_INVARIANT_ROUND_ENDS, round_ends, false},
               {SIM_INVARIANT_MASS, mass_is_kept, true},
               {SIM_INVARIANT_NO_ROUND_LOST, no_round_lost, true}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!was_idle || !table[i].is_of_machine)
      sim_holds(a, table[i].invariant, table[i].holds(a));
}

void sim_check_all(struct sim *s) {
  for (size_t i = 0; i < s->n_agents; i++)
    if (s->agents[i]->is_alive && s->agents[i]->host.paused_until_us <= s->now_us)
      sim_check(s->agents[i], false);
}

/* ---- together ---- */

/* false: it has no model yet. */
static bool first_number(const struct sim_agent *a, double *out) {
  if (!a->is_alive || a->durable.model.n_bytes < sizeof *out)
    return false;
  memcpy(out, a->durable.model.bytes, sizeof *out);
  return true;
}

double sim_spread(const struct sim *s) {
  double low = 0, high = 0, x;
  bool has = false;
  for (size_t i = 0; i < s->n_agents; i++) {
    if (!first_number(s->agents[i], &x))
      continue;
    low = !has || x < low ? x : low;
    high = !has || x > high ? x : high;
    has = true;
  }
  return high - low;
}

static double mixed(const struct sim_agent *a, const double *h) {
  double x = h[a->number];
  for (size_t i = 0; i < a->n_peers; i++) {
    const struct sim_agent *other = a->sim->agents[a->peers[i].agent];
    size_t degree = a->n_peers > other->n_peers ? a->n_peers : other->n_peers;
    x += (h[other->number] - h[a->number]) / (double)(1 + degree);
  }
  return x;
}

double sim_spread_undisturbed(const struct sim *s) {
  enum { ROUNDS = 200 }; /* 0.75^200: nothing is left of the beginning */
  double *x = calloc(s->n_agents + 1, sizeof *x), *h = calloc(s->n_agents + 1, sizeof *h);
  MUST(x != NULL && h != NULL);
  for (size_t r = 0; r < ROUNDS; r++) {
    for (size_t i = 0; i < s->n_agents; i++)
      h[i] = x[i] + SIM_PULL * (sim_goal(s->agents[i], 0) - x[i]);
    for (size_t i = 0; i < s->n_agents; i++)
      x[i] = mixed(s->agents[i], h);
  }
  double low = x[0], high = x[0];
  for (size_t i = 1; i < s->n_agents; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  free(x);
  free(h);
  return high - low;
}

double sim_spread_bound(const struct sim *s) {
  double low = sim_goal(s->agents[0], 0), high = low;
  for (size_t i = 1; i < s->n_agents; i++) {
    double goal = sim_goal(s->agents[i], 0);
    low = goal < low ? goal : low;
    high = goal > high ? goal : high;
  }
  return sim_spread_undisturbed(s) + SIM_PULL * (high - low);
}

void sim_check_together(struct sim *s) {
  sim_holds(s->agents[0], SIM_INVARIANT_CONVERGES, sim_spread(s) <= sim_spread_bound(s));
}
