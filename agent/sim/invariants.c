#include "agent/sim/invariants.h"

#include <inttypes.h>
#include <stdio.h>

#include "agent/sim/parts.h"

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
  return a->machine->phase != PHASE_GATHERING || a->machine->deadline_ms <= a->config.deadline_max_ms;
}

/* The end is set once, when the gather begins: whatever makes it longer is seen. */
static bool gather_ends(struct sim_agent *a) {
  struct round_view v;
  bool gathers = a->machine->phase == PHASE_GATHERING;
  uint64_t now_ms = a->sim->now_ms;
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
  return waiting <= a->config.payload_max_bytes;
}

void sim_check(struct sim_agent *a, bool was_idle) {
  static const struct {
    enum sim_invariant invariant;
    bool (*holds)(struct sim_agent *a);
    bool is_of_machine; /* nothing but what the machine does can break it */
  } table[] = {{SIM_INVARIANT_GATHER_LENGTH, gather_length, false},
               {SIM_INVARIANT_GATHER_ENDS, gather_ends, false},
               {SIM_INVARIANT_QUEUES, queues, true},
               {SIM_INVARIANT_MEMORY, memory, true}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!was_idle || !table[i].is_of_machine)
      sim_holds(a, table[i].invariant, table[i].holds(a));
}
