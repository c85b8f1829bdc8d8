/* The swarm of a scenario, and what happens to it. */
#include <stdlib.h>

#include "agent/sim/parts.h"
#include "agent/sim/scenario.h"
#include "base/must.h"

enum {
  US_PER_MS = 1000,
  MS_PER_S = 1000,
  BYTES_PER_KIB = 1024,
  BYTES_PER_S_OF_KBIT = 125,
  SLICE_MS = 1000,
  PROTOCOL_DIMS = 4, /* numbers that are held of a model, however long it is said to be */
};

static uint64_t us_of(double ms) {
  return (uint64_t)(ms * US_PER_MS);
}

static uint64_t ms_of(double s) {
  return (uint64_t)(s * MS_PER_S);
}

/* A rate that is not 0 stays one. */
static uint64_t rate_of(double bytes_per_s) {
  return bytes_per_s > 0 && bytes_per_s < 1 ? 1 : (uint64_t)bytes_per_s;
}

static uint64_t bytes_per_s(double kbit) {
  return rate_of(kbit * BYTES_PER_S_OF_KBIT);
}

static void set_link(struct sim_link *to, const struct scenario_link *from) {
  to->delay_us = us_of(from->delay_ms);
  to->jitter_us = us_of(from->jitter_ms);
  to->bytes_per_s = bytes_per_s(from->rate_kbit);
  to->loss = from->loss;
  to->duplicate = from->duplicate;
  to->reorder = from->reorder;
  to->nat_idle_us = us_of(from->nat_idle_ms);
}

/* An older program speaks all versions up to its own, one with another major its own alone. */
static void set_version(struct sim_agent *a, uint64_t version) {
  a->version_max = (uint16_t)version;
  a->version_min = version > GOSSIP_VERSION ? (uint16_t)version : version > 0 ? GOSSIP_VERSION_MIN : 0;
}

/* Room for one update of each peer there is in any case: of less a site file warns. */
static void set_memory(struct sim_agent *a, uint64_t kib) {
  struct sim *s = a->sim;
  uint64_t bytes = kib * BYTES_PER_KIB, least = a->n_peers * s->payload_bytes;
  uint64_t most = kib == 0 ? s->config.payload_max_bytes : bytes > least ? bytes : least;
  if (most != sim_config(a)->payload_max_bytes)
    sim_own_config(a)->payload_max_bytes = most;
}

static void set_host(struct sim_agent *a, const struct scenario_host *h) {
  a->host.speed = h->speed;
  a->host.nic.up_bytes_per_s = bytes_per_s(h->up_kbit);
  a->host.nic.down_bytes_per_s = bytes_per_s(h->down_kbit);
  a->host.disk_bytes_per_s = rate_of(h->disk_kib_s * BYTES_PER_KIB);
  a->host.loading_ms = h->loading_ms;
  a->host.training_ms = h->training_ms;
  a->host.merging_ms = h->merging_ms;
  a->host.writing_ms = h->writing_ms;
  a->samples = (uint32_t)h->samples;
  set_version(a, h->version);
  set_memory(a, h->memory_kib);
}

static void set_round(struct round_config *config, const struct scenario *c) {
  config->count = c->rounds;
  config->deadline_min_ms = ms_of(c->round.deadline_min_s);
  config->deadline_max_ms = ms_of(c->round.deadline_max_s);
  config->meet_ms = ms_of(c->round.meet_s);
  config->every_ms = ms_of(c->round.every_s);
  config->min_peers = (uint32_t)c->round.min_peers;
  config->alone_rounds = (uint32_t)c->round.alone_rounds;
  config->linger_ms = 2 * config->deadline_max_ms;
}

/* For one update of each peer, however many and long they are. */
static void give_room(struct sim *s) {
  for (size_t i = 0; i < s->n_agents; i++) {
    uint64_t all = s->agents[i]->n_peers * s->payload_bytes;
    if (all > s->config.payload_max_bytes)
      s->config.payload_max_bytes = all;
  }
}

/* Every pair of the two ranges that lists each other; a pair that does not has no link. */
static void for_pairs(struct sim *s, const struct agent_range *from, const struct agent_range *to,
                      void (*act)(struct sim *s, size_t a, size_t b, const void *context), const void *context) {
  for (size_t a = (size_t)from->first; a <= from->last; a++)
    for (size_t i = 0; i < s->agents[a]->n_peers; i++) {
      size_t b = s->agents[a]->peers[i].agent;
      if (b >= to->first && b <= to->last)
        act(s, a, b, context);
    }
}

static void act_link(struct sim *s, size_t a, size_t b, const void *context) {
  const struct scenario_links *l = context;
  set_link(sim_link(s, a, b), &l->link);
  if (!l->one_way)
    set_link(sim_link(s, b, a), &l->link);
}

static const struct scenario_host *host_of(const struct scenario *c, size_t a) {
  const struct scenario_host *h = &c->host;
  for (size_t i = 0; i < c->n_hosts; i++)
    if (a >= c->hosts[i].agents.first && a <= c->hosts[i].agents.last)
      h = &c->hosts[i].host;
  return h;
}

struct sim *scenario_sim(const struct scenario *c) {
  uint64_t payload_bytes = c->model_kib * BYTES_PER_KIB;
  struct sim *s = c->fidelity == SIM_PROTOCOL
                      ? sim_new_protocol((size_t)c->n_agents, PROTOCOL_DIMS, payload_bytes, c->seed)
                      : sim_new((size_t)c->n_agents, (size_t)payload_bytes / sizeof(double), c->seed);
  set_link(&s->default_link, &c->link);
  topology_connect((enum topology)c->topology, s, (size_t)c->degree);
  set_round(&s->config, c);
  if (c->average == AVERAGE_PUSH_SUM)
    sim_push_sum(s);
  give_room(s);
  s->relays = c->relay;
  for (size_t i = 0; i < s->n_agents; i++)
    set_host(s->agents[i], &c->host);
  for (size_t i = 0; i < c->n_hosts; i++)
    for (size_t a = (size_t)c->hosts[i].agents.first; a <= c->hosts[i].agents.last; a++)
      set_host(s->agents[a], &c->hosts[i].host);
  for (size_t i = 0; i < c->n_links; i++)
    for_pairs(s, &c->links[i].agents, &c->links[i].to, act_link, &c->links[i]);
  return s;
}

/* ---- what happens ---- */

struct stage {
  const struct scenario *scenario;
  struct sim *sim;
  struct sim_durable **saved; /* [n_agents], NULL: none */
  uint64_t whole_ms;          /* since when everything is; 0: it is not … */
  uint64_t rounds;            /* … and how many more rounds they get */
  size_t *n_commits;          /* [n_agents], then */
};

static void do_kill(struct stage *g, size_t a, const struct scenario_event *e) {
  (void)e;
  if (g->sim->agents[a]->is_alive)
    sim_kill(g->sim, a);
}

static void do_start(struct stage *g, size_t a, const struct scenario_event *e) {
  (void)e;
  if (!g->sim->agents[a]->is_alive)
    sim_start(g->sim, a);
}

static void do_wipe(struct stage *g, size_t a, const struct scenario_event *e) {
  do_kill(g, a, e);
  sim_restore(g->sim, a, NULL);
}

static void do_save(struct stage *g, size_t a, const struct scenario_event *e) {
  (void)e;
  sim_durable_free(g->saved[a]);
  g->saved[a] = sim_back_up(g->sim, a);
}

static void do_restore(struct stage *g, size_t a, const struct scenario_event *e) {
  if (!g->saved[a])
    return;
  do_kill(g, a, e);
  sim_restore(g->sim, a, g->saved[a]);
}

static void do_pause(struct stage *g, size_t a, const struct scenario_event *e) {
  sim_pause(g->sim, a, ms_of(e->for_s));
}

static void do_leap(struct stage *g, size_t a, const struct scenario_event *e) {
  sim_leap(g->sim, a, ms_of(e->for_s));
}

/* A program is changed by a restart. */
static void do_speak(struct stage *g, size_t a, const struct scenario_event *e) {
  struct sim_agent *agent = g->sim->agents[a];
  bool was_alive = agent->is_alive;
  if (agent->version_max == e->version)
    return;
  do_kill(g, a, e);
  set_version(agent, e->version);
  if (was_alive)
    sim_start(g->sim, a);
}

static void do_disk(struct stage *g, size_t a, const struct scenario_event *e) {
  struct sim_host *h = &g->sim->agents[a]->host;
  h->disk = e->action == ACTION_FILL ? ERR_NO_SPACE : ERR_OK;
  h->writing_ms = e->action == ACTION_SLOW ? ms_of(e->for_s) : host_of(g->scenario, a)->writing_ms;
}

/* Of those that it keeps; who is down or goes back already is not asked. */
static void do_back(struct stage *g, size_t a, const struct scenario_event *e) {
  (void)(sim_roll_back(g->sim, a, (size_t)e->times) != ERR_OK);
}

static void do_fail(struct stage *g, size_t a, const struct scenario_event *e) {
  g->sim->agents[a]->fail_trainings = (uint32_t)e->times;
}

static void do_corrupt(struct stage *g, size_t a, const struct scenario_event *e) {
  g->sim->agents[a]->corrupt = (uint32_t)e->times;
}

static void claim_far(struct wire_state *state) {
  state->round += SCENARIO_LIE_ROUNDS;
  state->round_in_work += SCENARIO_LIE_ROUNDS;
}

static void sign_far(struct manifest *m) {
  m->round += SCENARIO_LIE_ROUNDS;
}

static void follow_nobody(struct wire_state *state) {
  state->follows = false;
}

static void do_lie(struct stage *g, size_t a, const struct scenario_event *e) {
  struct sim_agent *agent = g->sim->agents[a];
  agent->lie = e->action == ACTION_HONEST ? NULL : e->action == ACTION_UNFOLLOW ? follow_nobody : claim_far;
  agent->lie_in_manifest = e->action == ACTION_SIGN ? sign_far : NULL;
  if (e->action == ACTION_HONEST)
    agent->corrupt = agent->fail_trainings = 0;
}

static void act_pair(struct sim *s, size_t a, size_t b, const void *context) {
  static void (*const act[N_SCENARIO_ACTIONS])(struct sim *, size_t, size_t) = {
      [ACTION_PART] = sim_part, [ACTION_MUTE] = sim_mute, [ACTION_HEAL] = sim_heal};
  act[((const struct scenario_event *)context)->action](s, a, b);
}

static void happen(struct stage *g, const struct scenario_event *e) {
  static void (*const act[N_SCENARIO_ACTIONS])(struct stage *, size_t, const struct scenario_event *) = {
      [ACTION_KILL] = do_kill,       [ACTION_START] = do_start, [ACTION_WIPE] = do_wipe, [ACTION_SAVE] = do_save,
      [ACTION_RESTORE] = do_restore, [ACTION_PAUSE] = do_pause, [ACTION_LEAP] = do_leap, [ACTION_SPEAK] = do_speak,
      [ACTION_FILL] = do_disk,       [ACTION_SLOW] = do_disk,   [ACTION_FREE] = do_disk, [ACTION_FAIL] = do_fail,
      [ACTION_BACK] = do_back,       [ACTION_CLAIM] = do_lie,   [ACTION_SIGN] = do_lie,  [ACTION_CORRUPT] = do_corrupt,
      [ACTION_UNFOLLOW] = do_lie,    [ACTION_HONEST] = do_lie};
  const struct agent_range all = {0, g->scenario->n_agents - 1};
  if (!act[e->action])
    for_pairs(g->sim, &e->agents, e->to.first > e->to.last ? &all : &e->to, act_pair, e);
  for (size_t a = (size_t)e->agents.first; act[e->action] && a <= e->agents.last; a++)
    act[e->action](g, a, e);
}

/* ---- coming together again ---- */

static bool links_are_whole(const struct sim_agent *a) {
  for (size_t i = 0; i < a->n_links; i++)
    if (sim_link_of(a->sim, &a->links[i])->is_cut)
      return false;
  return true;
}

static bool is_whole(const struct sim_agent *a) {
  bool is_understood = a->version_max <= GOSSIP_VERSION;
  return is_understood && a->is_alive && a->host.disk == ERR_OK && a->host.paused_until_us <= a->sim->now_us &&
         !a->lie && !a->lie_in_manifest && a->corrupt == 0 && a->fail_trainings == 0 && links_are_whole(a);
}

static bool all_are_whole(const struct sim *s) {
  for (size_t i = 0; i < s->n_agents; i++)
    if (!is_whole(s->agents[i]))
      return false;
  return true;
}

static bool is_finished(const struct sim_agent *a) {
  return a->machine->phase == PHASE_FINISHED;
}

static bool have_settled(const struct stage *g) {
  uint64_t bound_ms = 0;
  bool have = true;
  for (size_t i = 0; i < g->sim->n_agents; i++) {
    const struct sim_agent *a = g->sim->agents[i];
    uint64_t round_ms = sim_round_bound_ms(a);
    bound_ms = round_ms > bound_ms ? round_ms : bound_ms;
    have = have && (is_finished(a) || a->n_commits >= g->n_commits[i] + g->rounds);
  }
  return have || g->sim->now_ms - g->whole_ms > g->rounds * bound_ms;
}

static bool any_finished(const struct sim *s) {
  for (size_t i = 0; i < s->n_agents; i++)
    if (is_finished(s->agents[i]))
      return true;
  return false;
}

/* Who must not jump counts up to the others round by round. */
static uint64_t rounds_apart(const struct sim *s) {
  uint64_t low = UINT64_MAX, high = 0;
  for (size_t i = 0; i < s->n_agents; i++) {
    uint64_t round = s->agents[i]->durable.committed.round;
    low = round < low ? round : low;
    high = round > high ? round : high;
  }
  return high - low;
}

/* Whether the run is over because all had time to come together; it looks whether they are. */
static bool settles(struct stage *g) {
  if (g->scenario->settle_rounds == 0 || !all_are_whole(g->sim)) {
    g->whole_ms = 0;
    return false;
  }
  if (g->whole_ms == 0) {
    g->whole_ms = g->sim->now_ms;
    g->rounds = g->scenario->settle_rounds + rounds_apart(g->sim);
    for (size_t i = 0; i < g->sim->n_agents; i++)
      g->n_commits[i] = g->sim->agents[i]->n_commits;
  }
  if (!have_settled(g))
    return false;
  if (!any_finished(g->sim))
    sim_check_together(g->sim);
  return true;
}

/* ---- time ---- */

static bool all_finished(const struct sim *s) {
  for (size_t i = 0; i < s->n_agents; i++)
    if (s->agents[i]->is_alive && !is_finished(s->agents[i]))
      return false;
  return true;
}

static bool run_until(struct sim *s, uint64_t until_ms, const struct scenario_observer *observer) {
  while (s->n_broken == 0 && sim_step(s, until_ms))
    if (observer && !observer->stepped(observer->context, s))
      return false;
  return true;
}

/* Until when nothing has to be looked at: a slice, or longer where no event is in it. */
static uint64_t slice_end(const struct sim *s, uint64_t end_ms) {
  const struct sim_event *first = sim_queue_first(&s->queue);
  uint64_t until_ms = s->now_ms + SLICE_MS, first_ms = first ? first->at_us / US_PER_MS : end_ms;
  if (first_ms > until_ms)
    until_ms = first_ms;
  return until_ms < end_ms ? until_ms : end_ms;
}

static void run(struct stage *g, const struct scenario_observer *observer) {
  const struct scenario *c = g->scenario;
  struct sim *s = g->sim;
  uint64_t start_ms = s->now_ms, end_ms = start_ms + ms_of(c->duration_s);
  size_t next = 0;
  bool is_over = false;
  while (!is_over && s->now_ms < end_ms && s->n_broken == 0 && (next < c->n_events || !all_finished(s))) {
    uint64_t until_ms = slice_end(s, end_ms);
    if (next < c->n_events && start_ms + ms_of(c->events[next].at_s) < until_ms)
      until_ms = start_ms + ms_of(c->events[next].at_s);
    is_over = !run_until(s, until_ms, observer);
    for (; next < c->n_events && start_ms + ms_of(c->events[next].at_s) <= s->now_ms; next++)
      happen(g, &c->events[next]);
    sim_check_all(s);
    is_over = is_over || (next == c->n_events && settles(g));
  }
}

void scenario_run(const struct scenario *c, struct sim *s, const struct scenario_observer *observer) {
  struct stage g = {.scenario = c,
                    .sim = s,
                    .saved = calloc(s->n_agents + 1, sizeof(void *)),
                    .n_commits = calloc(s->n_agents + 1, sizeof(size_t))};
  MUST(g.saved != NULL && g.n_commits != NULL);
  sim_start_all(s);
  run(&g, observer);
  for (size_t i = 0; i < s->n_agents; i++)
    sim_durable_free(g.saved[i]);
  free(g.saved);
  free(g.n_commits);
}
