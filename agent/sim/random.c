/* Random scenarios. */
#include <stdlib.h>

#include "agent/sim/swarming.h"
#include "base/must.h"

enum {
  MAX_RANDOM_AGENTS = 8,
  MAX_RANDOM_EVENTS = 14,
  N_HEALING = 5, /* events that make all whole again */
  TROUBLE_S = 75,
  SETTLE_ROUNDS_OF_DIAMETER = 6,
  RECONNECT_ROUNDS = 12, /* until the last of them has dialled again */
};

static double cents(double x) {
  return (double)(uint64_t)(100 * x + 0.5) / 100;
}

static double between(struct rng *r, double low, double high) {
  return cents(low + (high - low) * rng_unit(r));
}

static bool one_in(struct rng *r, uint64_t n) {
  return rng_below(r, n) == 0;
}

/* low … high */
static uint64_t whole(struct rng *r, uint64_t low, uint64_t high) {
  return low + rng_below(r, high - low + 1);
}

static struct scenario_link random_link(struct rng *r) {
  struct scenario_link l = {.delay_ms = between(r, 1, 150)};
  l.jitter_ms = one_in(r, 2) ? 0 : between(r, 0, 100);
  l.rate_kbit = one_in(r, 2) ? 0 : between(r, 2000, 20000);
  l.loss = one_in(r, 2) ? 0 : between(r, 0, 0.03);
  l.duplicate = one_in(r, 3) ? between(r, 0, 0.05) : 0;
  l.reorder = one_in(r, 3) ? between(r, 0, 0.05) : 0;
  l.nat_idle_ms = one_in(r, 8) ? between(r, 1500, 20000) : 0;
  return l;
}

static struct scenario_host random_host(struct rng *r) {
  struct scenario_host h = {.speed = 1, .samples = whole(r, 20, 2000)};
  h.loading_ms = whole(r, 1, 3000);
  h.training_ms = whole(r, 300, 2300);
  h.merging_ms = whole(r, 1, 100);
  h.writing_ms = whole(r, 1, 60);
  h.up_kbit = one_in(r, 4) ? between(r, 4000, 50000) : 0;
  h.down_kbit = one_in(r, 4) ? between(r, 4000, 50000) : 0;
  h.disk_kib_s = one_in(r, 4) ? between(r, 500, 5000) : 0;
  h.memory_kib = one_in(r, 4) ? whole(r, 1, 64) : 0;
  return h;
}

static struct agent_range random_range(struct rng *r, const struct scenario *c) {
  uint64_t first = rng_below(r, c->n_agents);
  return (struct agent_range){first, one_in(r, 3) ? whole(r, first, c->n_agents - 1) : first};
}

static void *items(size_t n, size_t size) {
  void *p = calloc(n + 1, size);
  MUST(p != NULL);
  return p;
}

static void add_hosts(struct rng *r, struct scenario *c) {
  c->n_hosts = (size_t)rng_below(r, 3);
  c->hosts = items(c->n_hosts, sizeof *c->hosts);
  for (size_t i = 0; i < c->n_hosts; i++) {
    c->hosts[i] = (struct scenario_hosts){random_range(r, c), c->host};
    c->hosts[i].host.speed = between(r, 0.25, 2);
  }
}

static void add_links(struct rng *r, struct scenario *c) {
  c->n_links = (size_t)rng_below(r, 3);
  c->links = items(c->n_links, sizeof *c->links);
  for (size_t i = 0; i < c->n_links; i++)
    c->links[i] = (struct scenario_links){random_range(r, c), random_range(r, c), one_in(r, 3), random_link(r)};
}

/* How often what happens; who is killed comes back more often than not. */
static const struct {
  enum scenario_action action;
  unsigned weight;
} happenings[] = {{ACTION_KILL, 6},  {ACTION_START, 8}, {ACTION_WIPE, 1},    {ACTION_SAVE, 1},     {ACTION_RESTORE, 1},
                  {ACTION_PAUSE, 3}, {ACTION_LEAP, 1},  {ACTION_SPEAK, 2},   {ACTION_FILL, 2},     {ACTION_SLOW, 2},
                  {ACTION_FREE, 3},  {ACTION_PART, 5},  {ACTION_MUTE, 3},    {ACTION_HEAL, 5},     {ACTION_FAIL, 1},
                  {ACTION_BACK, 2},  {ACTION_CLAIM, 1}, {ACTION_CORRUPT, 1}, {ACTION_UNFOLLOW, 1}, {ACTION_HONEST, 2}};

static unsigned random_action(struct rng *r) {
  enum { N = sizeof happenings / sizeof *happenings };
  unsigned sum = 0;
  for (size_t i = 0; i < N; i++)
    sum += happenings[i].weight;
  unsigned at = (unsigned)rng_below(r, sum);
  size_t i = 0;
  for (; at >= happenings[i].weight; i++)
    at -= happenings[i].weight;
  return happenings[i].action;
}

/* One liar is what agents bear. A lie that is signed leads those with fewer than three peers, who stay ahead, and its author's
 * own chain waits for the round that it names: that is no random event. */
static struct scenario_event random_event(struct rng *r, const struct scenario *c, double at_s) {
  struct scenario_event e = {.at_s = at_s, .action = random_action(r), .times = 1, .agents = random_range(r, c)};
  bool is_lie = e.action == ACTION_CLAIM || e.action == ACTION_UNFOLLOW;
  if (is_lie)
    e.agents = (struct agent_range){c->n_agents - 1, c->n_agents - 1};
  e.to = (struct agent_range){1, 0};
  bool is_of_pair = e.action == ACTION_PART || e.action == ACTION_MUTE || e.action == ACTION_HEAL;
  if (is_of_pair && one_in(r, 2))
    e.to = random_range(r, c);
  if (e.action == ACTION_PAUSE)
    e.for_s = between(r, 1, 15);
  if (e.action == ACTION_LEAP)
    e.for_s = between(r, 1, 3000);
  if (e.action == ACTION_SPEAK) /* the oldest, the newest, or one that nobody else does */
    e.version = one_in(r, 4) ? GOSSIP_VERSION + 1U : whole(r, GOSSIP_VERSION_MIN, GOSSIP_VERSION);
  if (e.action == ACTION_SLOW)
    e.for_s = between(r, 0.1, 2);
  if (e.action == ACTION_CORRUPT) /* three in a row would end in quarantine, which lasts */
    e.times = whole(r, 1, 2);
  if (e.action == ACTION_BACK)
    e.times = whole(r, 1, SIM_KEEP_MODELS - 1);
  return e;
}

static void add_events(struct rng *r, struct scenario *c) {
  static const enum scenario_action healing[N_HEALING] = {ACTION_HEAL, ACTION_FREE, ACTION_HONEST, ACTION_SPEAK,
                                                          ACTION_START};
  size_t n = (size_t)whole(r, 1, MAX_RANDOM_EVENTS);
  double at_s = between(r, 0, 10);
  c->events = items(n + N_HEALING, sizeof *c->events);
  for (size_t i = 0; i < n; i++) {
    c->events[c->n_events++] = random_event(r, c, at_s);
    at_s = cents(at_s + between(r, 0, 2 * (double)TROUBLE_S / (double)n));
  }
  for (size_t i = 0; i < N_HEALING; i++)
    c->events[c->n_events++] = (struct scenario_event){
        .at_s = at_s, .action = healing[i], .times = 1, .agents = {0, c->n_agents - 1}, .to = {1, 0}};
}

static uint64_t diameter_at_most(const struct scenario *c) {
  return c->topology == TOPOLOGY_FULL ? 1 : (c->n_agents + 1) / 2;
}

struct scenario *scenario_random(uint64_t seed) {
  struct rng rng, *r = &rng;
  struct scenario *c = items(1, sizeof *c);
  rng_init(r, seed);
  *c = (struct scenario){.seed = seed, .n_agents = whole(r, 2, MAX_RANDOM_AGENTS), .duration_s = 3000};
  c->topology = (unsigned)rng_below(r, TOPOLOGY_RANDOM + 1);
  if (c->topology == TOPOLOGY_RANDOM && c->n_agents < 5)
    c->topology = TOPOLOGY_FULL;
  c->degree = whole(r, 2, 3);
  c->rounds = one_in(r, 5) ? whole(r, 5, 60) : 0;
  c->settle_rounds = SETTLE_ROUNDS_OF_DIAMETER * diameter_at_most(c) + RECONNECT_ROUNDS;
  c->model_kib = one_in(r, 10) ? whole(r, 65, 130) : whole(r, 1, 4); /* of two or three chunks; of one */
  c->link = random_link(r);
  c->host = random_host(r);
  c->round = (struct scenario_round){.deadline_min_s = 1,
                                     .deadline_max_s = between(r, 4, 12),
                                     .meet_s = between(r, 0, 8),
                                     .every_s = one_in(r, 6) ? between(r, 1, 4) : 0,
                                     .min_peers = c->n_agents > 3 && one_in(r, 4) ? 2 : 1,
                                     .alone_rounds = whole(r, 1, 4)};
  add_hosts(r, c);
  add_links(r, c);
  add_events(r, c);
  c->fidelity = one_in(r, 8) ? SIM_SEALED : SIM_PROTOCOL; /* the same story, sooner */
  c->average = one_in(r, 6) ? AVERAGE_PUSH_SUM : AVERAGE_NEIGHBOURS;
  return c;
}
