/* Making a scenario that breaks as small as breaks it still. */
#include <stdlib.h>
#include <string.h>

#include "agent/sim/scenario_keys.h"
#include "agent/sim/swarming.h"
#include "base/must.h"

struct shrink {
  struct scenario *best;
  struct scenario_shrinking *how;
};

/* Takes the candidate, which is moved in, when it breaks; whether it did. */
static bool take(struct shrink *s, struct scenario *candidate) {
  bool is_better = s->how->n_runs < s->how->max_runs;
  if (is_better) {
    s->how->n_runs++;
    is_better = s->how->breaks(s->how->context, candidate);
  }
  scenario_free(is_better ? s->best : candidate);
  s->best = is_better ? candidate : s->best;
  return is_better;
}

static void cut(void *items, size_t *n, size_t size, size_t first, size_t n_cut) {
  char *p = items;
  memmove(p + first * size, p + (first + n_cut) * size, (*n - first - n_cut) * size);
  *n -= n_cut;
}

/* Leaves out pieces of a list, of half its length, of a quarter and so on down to one. */
#define SHRINK_LIST(s, field)                                                                                          \
  for (size_t piece = (s)->best->n_##field; piece > 0; piece /= 2)                                                     \
    for (size_t first = 0; first < (s)->best->n_##field;) {                                                            \
      size_t left = (s)->best->n_##field - first, n_cut = piece < left ? piece : left;                                 \
      struct scenario *c = scenario_copy((s)->best);                                                                   \
      cut(c->field, &c->n_##field, sizeof *c->field, first, n_cut);                                                    \
      if (!take((s), c))                                                                                               \
        first += n_cut;                                                                                                \
    }

static void shrink_events(struct shrink *s) {
  SHRINK_LIST(s, events)
}

static void shrink_hosts_and_links(struct shrink *s) {
  SHRINK_LIST(s, hosts)
  SHRINK_LIST(s, links)
}

/* The range without the agents that there are no longer; false: nobody is left. */
static bool clip(struct agent_range *r, uint64_t n) {
  r->last = r->last < n ? r->last : n - 1;
  return r->first < n;
}

static bool is_all(const struct agent_range *r) {
  return r->first > r->last;
}

static void remove_agents(struct scenario *c, uint64_t n) {
  c->n_agents = n;
  for (size_t i = c->n_hosts; i-- > 0;)
    if (!clip(&c->hosts[i].agents, n))
      cut(c->hosts, &c->n_hosts, sizeof *c->hosts, i, 1);
  for (size_t i = c->n_links; i-- > 0;)
    if (!clip(&c->links[i].agents, n) || !clip(&c->links[i].to, n))
      cut(c->links, &c->n_links, sizeof *c->links, i, 1);
  for (size_t i = c->n_events; i-- > 0;)
    if (!clip(&c->events[i].agents, n) || (!is_all(&c->events[i].to) && !clip(&c->events[i].to, n)))
      cut(c->events, &c->n_events, sizeof *c->events, i, 1);
}

static void shrink_agents(struct shrink *s) {
  uint64_t n = s->best->n_agents / 2;
  while (n > 0 && n < s->best->n_agents) {
    struct scenario *c = scenario_copy(s->best);
    remove_agents(c, n);
    bool is_possible = c->topology != TOPOLOGY_RANDOM || c->degree < n;
    bool is_taken = is_possible && take(s, c);
    if (!is_possible)
      scenario_free(c);
    n = is_taken ? n / 2 : n + 1;
  }
}

/* Each event of one agent instead of a range, and each setting as if it had not been given. */
static void shrink_ranges(struct shrink *s) {
  for (size_t i = 0; i < s->best->n_events; i++) {
    struct scenario *c = scenario_copy(s->best);
    struct agent_range *r = &c->events[i].agents;
    bool is_one = r->first == r->last;
    r->last = r->first;
    if (is_one)
      scenario_free(c);
    else
      take(s, c);
  }
}

static void shrink_settings(struct shrink *s) {
  struct scenario plain = {0};
  scenario_defaults(IN_TOP, &plain);
  for (size_t i = 0; i < n_scenario_keys; i++) {
    const struct scenario_key *k = &scenario_keys[i];
    static const size_t sections[N_SCENARIO_GROUPS] = {[IN_LINK] = offsetof(struct scenario, link),
                                                       [IN_HOST] = offsetof(struct scenario, host),
                                                       [IN_ROUND] = offsetof(struct scenario, round)};
    bool is_value = k->form == SCENARIO_REAL || k->form == SCENARIO_WHOLE;
    if (!is_value || sections[k->group] == 0)
      continue;
    struct scenario *c = scenario_copy(s->best);
    char *to = (char *)c + sections[k->group] + k->offset;
    const char *from = (const char *)&plain + sections[k->group] + k->offset;
    bool is_plain = memcmp(to, from, sizeof(uint64_t)) == 0; /* of either form */
    memcpy(to, from, sizeof(uint64_t));
    if (is_plain)
      scenario_free(c);
    else
      take(s, c);
  }
}

static void shrink_size(struct shrink *s) {
  for (uint64_t kib = 1; kib < s->best->model_kib; kib *= 2) {
    struct scenario *c = scenario_copy(s->best);
    c->model_kib = kib;
    if (take(s, c))
      break;
  }
  for (bool goes_on = true; goes_on && s->best->rounds > 1;) {
    struct scenario *c = scenario_copy(s->best);
    c->rounds /= 2;
    goes_on = take(s, c);
  }
}

/* Sooner: the events at half their times, as often as it goes. */
static void shrink_time(struct shrink *s) {
  for (bool goes_on = true; goes_on && s->best->n_events > 0;) {
    struct scenario *c = scenario_copy(s->best);
    for (size_t i = 0; i < c->n_events; i++)
      c->events[i].at_s = (double)(uint64_t)(c->events[i].at_s * 5) / 10;
    goes_on = c->events[c->n_events - 1].at_s > 0;
    if (!goes_on)
      scenario_free(c);
    else
      goes_on = take(s, c);
  }
}

struct scenario *scenario_shrink(const struct scenario *c, struct scenario_shrinking *how) {
  static void (*const pass[])(struct shrink *) = {
      shrink_events, shrink_agents, shrink_hosts_and_links, shrink_ranges, shrink_settings, shrink_size, shrink_time};
  struct shrink s = {scenario_copy(c), how};
  const struct scenario *before;
  do {
    before = s.best;
    for (size_t i = 0; i < sizeof pass / sizeof *pass; i++)
      pass[i](&s);
  } while (s.best != before && how->n_runs < how->max_runs);
  return s.best;
}

struct scenario_verdict scenario_judge(const struct scenario *c) {
  struct sim *s = scenario_sim(c);
  scenario_run(c, s, NULL);
  struct scenario_verdict v = {.is_broken = s->n_broken > 0,
                               .first = s->first_broken,
                               .n_events = s->n_events,
                               .trace = s->trace,
                               .virtual_ms = s->now_ms - SIM_START_MS};
  sim_free(s);
  return v;
}

static bool breaks_it(void *context, const struct scenario *candidate) {
  struct scenario_verdict v = scenario_judge(candidate);
  return v.is_broken && v.first.invariant == *(const enum sim_invariant *)context;
}

struct scenario *scenario_shrink_invariant(const struct scenario *c, enum sim_invariant broken, size_t max_runs) {
  struct scenario_shrinking how = {breaks_it, &broken, max_runs, 0};
  return scenario_shrink(c, &how);
}
