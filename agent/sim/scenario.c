#include "agent/sim/scenario.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/file.h"
#include "agent/scalar.h"
#include "agent/tree.h"
#include "base/must.h"

enum {
  US_PER_MS = 1000,
  MS_PER_S = 1000,
  BYTES_PER_KIB = 1024,
  BYTES_PER_S_OF_KBIT = 125,
  SLICE_MS = 1000,
  MAX_DEGREE = MAX_PEERS / 2
};

static const uint64_t max_memory_bytes = UINT64_C(4) << 30;

/* ---- the keys ---- */

/* What stands side by side in one map. */
enum group { GROUP_TOP, GROUP_LINK, GROUP_HOST, GROUP_ROUND, GROUP_HOSTS, GROUP_LINKS, GROUP_EVENTS, N_GROUPS };

enum form {
  FORM_WHOLE,   /* uint64_t */
  FORM_REAL,    /* double */
  FORM_WORD,    /* unsigned: index of the word */
  FORM_FLAG,    /* bool */
  FORM_AGENTS,  /* struct agent_range: 3 or 0..7 */
  FORM_SECTION, /* a map of the group `inner`, whose fields lie at the offset */
  FORM_LIST,    /* a list of such maps, each on the heap */
};

struct key {
  enum group group;
  const char *name;
  size_t offset;
  enum form form;
  const char *fallback; /* NULL: required */
  double min, max;
  const char *const *words;
  enum group inner;
};

static const char *const topology_words[] = {"full", "ring", "random", NULL};
static const char *const fidelity_words[] = {"sealed", "protocol", NULL};
static const char *const action_words[] = {"kill", "start", "wipe", "pause", "fill",
                                           "free", "part",  "mute", "heal",  NULL};
static const char *const flag_words[] = {"false", "true", NULL};

#define TOP(field) GROUP_TOP, #field, offsetof(struct scenario, field)
#define OF(group, type, field) group, #field, offsetof(struct type, field)
#define LINK(field) OF(GROUP_LINK, scenario_link, field)
#define HOST(field) OF(GROUP_HOST, scenario_host, field)
#define ROUND(field) OF(GROUP_ROUND, scenario_round, field)

static const double max_seed = 9007199254740991.0, max_ms = 86400000, max_rate = 1e9;

static const struct key keys[] = {
    {TOP(seed), FORM_WHOLE, "1", 0, max_seed, NULL, 0},
    {GROUP_TOP, "agents", offsetof(struct scenario, n_agents), FORM_WHOLE, NULL, 1, MAX_SCENARIO_AGENTS, NULL, 0},
    {TOP(topology), FORM_WORD, "ring", 0, 0, topology_words, 0},
    {TOP(degree), FORM_WHOLE, "4", 1, MAX_DEGREE, NULL, 0},
    {TOP(fidelity), FORM_WORD, "sealed", 0, 0, fidelity_words, 0},
    {TOP(rounds), FORM_WHOLE, "20", 1, 1000000, NULL, 0},
    {TOP(model_kib), FORM_WHOLE, "100", 1, 1 << 20, NULL, 0},
    {TOP(duration_s), FORM_REAL, "86400", 1, 1e9, NULL, 0},
    {TOP(link), FORM_SECTION, "", 0, 0, NULL, GROUP_LINK},
    {TOP(host), FORM_SECTION, "", 0, 0, NULL, GROUP_HOST},
    {TOP(round), FORM_SECTION, "", 0, 0, NULL, GROUP_ROUND},
    {TOP(hosts), FORM_LIST, "", 0, 0, NULL, GROUP_HOSTS},
    {TOP(links), FORM_LIST, "", 0, 0, NULL, GROUP_LINKS},
    {TOP(events), FORM_LIST, "", 0, 0, NULL, GROUP_EVENTS},
    {LINK(delay_ms), FORM_REAL, "10", 0, max_ms, NULL, 0},
    {LINK(jitter_ms), FORM_REAL, "0", 0, max_ms, NULL, 0},
    {LINK(rate_kbit), FORM_REAL, "0", 0, max_rate, NULL, 0},
    {LINK(loss), FORM_REAL, "0", 0, 1, NULL, 0},
    {LINK(duplicate), FORM_REAL, "0", 0, 1, NULL, 0},
    {LINK(reorder), FORM_REAL, "0", 0, 1, NULL, 0},
    {LINK(nat_idle_ms), FORM_REAL, "0", 0, max_ms, NULL, 0},
    {HOST(speed), FORM_REAL, "1", 1e-4, 1e4, NULL, 0},
    {HOST(up_kbit), FORM_REAL, "0", 0, max_rate, NULL, 0},
    {HOST(down_kbit), FORM_REAL, "0", 0, max_rate, NULL, 0},
    {HOST(disk_kib_s), FORM_REAL, "0", 0, max_rate, NULL, 0},
    {HOST(loading_ms), FORM_WHOLE, "5", 0, max_ms, NULL, 0},
    {HOST(training_ms), FORM_WHOLE, "1000", 1, max_ms, NULL, 0},
    {HOST(merging_ms), FORM_WHOLE, "5", 0, max_ms, NULL, 0},
    {HOST(writing_ms), FORM_WHOLE, "20", 0, max_ms, NULL, 0},
    {HOST(samples), FORM_WHOLE, "1000", 1, 1e9, NULL, 0},
    {ROUND(deadline_min_s), FORM_REAL, "1", 0.001, 86400, NULL, 0},
    {ROUND(deadline_max_s), FORM_REAL, "120", 0.001, 86400, NULL, 0},
    {ROUND(meet_s), FORM_REAL, "30", 0, 86400, NULL, 0},
    {ROUND(every_s), FORM_REAL, "0", 0, 86400, NULL, 0},
    {ROUND(min_peers), FORM_WHOLE, "1", 0, MAX_PEERS, NULL, 0},
    {ROUND(alone_rounds), FORM_WHOLE, "3", 0, 1000000, NULL, 0},
    {OF(GROUP_HOSTS, scenario_hosts, agents), FORM_AGENTS, NULL, 0, 0, NULL, 0},
    {OF(GROUP_LINKS, scenario_links, agents), FORM_AGENTS, NULL, 0, 0, NULL, 0},
    {OF(GROUP_LINKS, scenario_links, to), FORM_AGENTS, NULL, 0, 0, NULL, 0},
    {OF(GROUP_LINKS, scenario_links, one_way), FORM_FLAG, "false", 0, 0, flag_words, 0},
    {OF(GROUP_EVENTS, scenario_event, at_s), FORM_REAL, NULL, 0, 1e9, NULL, 0},
    {GROUP_EVENTS, "do", offsetof(struct scenario_event, action), FORM_WORD, NULL, 0, 0, action_words, 0},
    {OF(GROUP_EVENTS, scenario_event, agents), FORM_AGENTS, NULL, 0, 0, NULL, 0},
    {OF(GROUP_EVENTS, scenario_event, to), FORM_AGENTS, "", 0, 0, NULL, 0},
    {OF(GROUP_EVENTS, scenario_event, for_s), FORM_REAL, "0", 0, 1e9, NULL, 0},
};

enum { N_KEYS = sizeof keys / sizeof *keys };

/* Items of hosts and links have the keys of a host and a link, too, with what stands under `host` and `link` as defaults. */
static const struct {
  enum group base;
  size_t offset;
  const char *name;
} groups[N_GROUPS] = {[GROUP_TOP] = {N_GROUPS, 0, ""},
                      [GROUP_LINK] = {N_GROUPS, 0, "link."},
                      [GROUP_HOST] = {N_GROUPS, 0, "host."},
                      [GROUP_ROUND] = {N_GROUPS, 0, "round."},
                      [GROUP_HOSTS] = {GROUP_HOST, offsetof(struct scenario_hosts, host), "hosts[]."},
                      [GROUP_LINKS] = {GROUP_LINK, offsetof(struct scenario_links, link), "links[]."},
                      [GROUP_EVENTS] = {N_GROUPS, 0, "events[]."}};

/* ---- reading by the table ---- */

struct reader {
  const char *path;
  struct scenario *scenario;
  char *why;
};

__attribute__((format(printf, 4, 5))) static enum err fail(const struct reader *r, enum err e, struct place at,
                                                           const char *format, ...) {
  char sentence[2 * MAX_REASON_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  if (at.line)
    snprintf(r->why, MAX_CONFIG_WHY_BYTES, "%s:%u:%u: %s", r->path, at.line, at.column, sentence);
  else
    snprintf(r->why, MAX_CONFIG_WHY_BYTES, "%s: %s", r->path, sentence);
  return e;
}

static enum err read_agents(const char *text, struct agent_range *out, char why[MAX_REASON_BYTES]) {
  const char *dots = strstr(text, "..");
  char first[MAX_NAME_BYTES];
  snprintf(first, sizeof first, "%.*s", dots ? (int)(dots - text) : (int)strlen(text), text);
  struct agent_range range;
  enum err e = scalar_integer(first, 0, MAX_SCENARIO_AGENTS - 1, &range.first, why);
  range.last = range.first;
  if (!e && dots)
    e = scalar_integer(dots + 2, range.first, MAX_SCENARIO_AGENTS - 1, &range.last, why);
  if (!e)
    *out = range;
  return e;
}

static enum err read_scalar(const struct key *k, const char *text, void *field, char why[MAX_REASON_BYTES]) {
  size_t index;
  enum err e;
  switch (k->form) {
  case FORM_WHOLE:
    return scalar_integer(text, (uint64_t)k->min, (uint64_t)k->max, field, why);
  case FORM_REAL:
    return scalar_number(text, k->min, k->max, field, why);
  case FORM_AGENTS:
    return read_agents(text, field, why);
  case FORM_FLAG:
    if ((e = scalar_word(text, k->words, &index, why)) == ERR_OK)
      *(bool *)field = index == 1;
    return e;
  default:
    if ((e = scalar_word(text, k->words, &index, why)) == ERR_OK)
      *(unsigned *)field = (unsigned)index;
    return e;
  }
}

/* Of the group itself or of the one that its items extend; *base becomes where its fields lie. */
static const struct key *key_find(enum group group, const char *name, char **base) {
  for (size_t i = 0; i < N_KEYS; i++) {
    if (strcmp(keys[i].name, name) != 0)
      continue;
    if (keys[i].group == group)
      return &keys[i];
    if (keys[i].group == groups[group].base) {
      *base += groups[group].offset;
      return &keys[i];
    }
  }
  return NULL;
}

static enum err fail_unknown(const struct reader *r, enum group group, const struct tree *child) {
  for (size_t i = 0; i < N_KEYS; i++)
    if ((keys[i].group == group || keys[i].group == groups[group].base) && is_near(child->key, keys[i].name))
      return fail(r, ERR_SYNTAX, child->key_place, "unknown key \"%s%.60s\"; did you mean %s%s?", groups[group].name,
                  child->key, groups[group].name, keys[i].name);
  char known[MAX_REASON_BYTES] = "";
  for (size_t i = 0, n = 0; i < N_KEYS && n < sizeof known; i++)
    if (keys[i].group == group || keys[i].group == groups[group].base)
      n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", keys[i].name);
  return fail(r, ERR_SYNTAX, child->key_place, "unknown key \"%s%.60s\"; write one of %s", groups[group].name,
              child->key, known);
}

static enum err read_map(const struct reader *r, enum group group, const struct tree *map, char *base,
                         bool reads_lists);

static void defaults(enum group group, char *base) {
  char why[MAX_REASON_BYTES];
  for (size_t i = 0; i < N_KEYS; i++) {
    const struct key *k = &keys[i];
    if (k->group != group || !k->fallback)
      continue;
    if (k->form == FORM_SECTION)
      defaults(k->inner, base + k->offset);
    else if (k->fallback[0])
      MUST(read_scalar(k, k->fallback, base + k->offset, why) == ERR_OK);
  }
}

/* ---- lists ---- */

static const size_t item_bytes[N_GROUPS] = {[GROUP_HOSTS] = sizeof(struct scenario_hosts),
                                            [GROUP_LINKS] = sizeof(struct scenario_links),
                                            [GROUP_EVENTS] = sizeof(struct scenario_event)};

static void *item_begin(const struct reader *r, enum group group, char *items, size_t i) {
  char *item = items + i * item_bytes[group];
  defaults(group, item);
  if (group == GROUP_HOSTS)
    ((struct scenario_hosts *)(void *)item)->host = r->scenario->host;
  if (group == GROUP_LINKS)
    ((struct scenario_links *)(void *)item)->link = r->scenario->link;
  if (group == GROUP_EVENTS)
    ((struct scenario_event *)(void *)item)->to = (struct agent_range){1, 0};
  return item;
}

static enum err read_list(const struct reader *r, const struct key *k, const struct tree *list, char *base) {
  size_t n = 0, i = 0;
  if (list->kind != TREE_LIST)
    return fail(r, ERR_SYNTAX, list->place, "%s: a list is expected here; write lines of the form - { KEY: VALUE }",
                k->name);
  for (const struct tree *child = list->first; child; child = child->next)
    n++;
  char *items = calloc(n + 1, item_bytes[k->inner]);
  if (!items)
    return fail(r, ERR_NO_MEMORY, list->place, "%s", err_sentence(ERR_NO_MEMORY));
  memcpy(base + k->offset, &items, sizeof items); /* the scenario's now */
  memcpy(base + k->offset + sizeof items, &n, sizeof n);
  enum err e = ERR_OK;
  for (const struct tree *child = list->first; child && !e; child = child->next)
    e = read_map(r, k->inner, child, item_begin(r, k->inner, items, i++), false);
  return e;
}

#define LIST_IS_FOLLOWED_BY_ITS_LENGTH(field)                                                                          \
  _Static_assert(offsetof(struct scenario, n_##field) == offsetof(struct scenario, field) + sizeof(void *), "read_"    \
                                                                                                            "list")
LIST_IS_FOLLOWED_BY_ITS_LENGTH(hosts);
LIST_IS_FOLLOWED_BY_ITS_LENGTH(links);
LIST_IS_FOLLOWED_BY_ITS_LENGTH(events);

/* ---- maps ---- */

static enum err read_child(const struct reader *r, enum group group, const struct tree *child, char *base,
                           bool reads_lists) {
  const struct key *k = key_find(group, child->key, &base);
  char why[MAX_REASON_BYTES];
  if (!k)
    return fail_unknown(r, group, child);
  if ((k->form == FORM_LIST) != reads_lists)
    return ERR_OK;
  if (k->form == FORM_LIST)
    return read_list(r, k, child, base);
  if (k->form == FORM_SECTION)
    return read_map(r, k->inner, child, base + k->offset, false);
  if (child->kind != TREE_TEXT)
    return fail(r, ERR_SYNTAX, child->place, "%s%s: one value is expected here", groups[group].name, k->name);
  enum err e = read_scalar(k, child->text, base + k->offset, why);
  return e ? fail(r, e, child->place, "%s%s: %s", groups[group].name, k->name, why) : ERR_OK;
}

static const struct tree *child_find(const struct tree *map, const char *key) {
  const struct tree *child = map->first;
  while (child && strcmp(child->key, key) != 0)
    child = child->next;
  return child;
}

static enum err read_map(const struct reader *r, enum group group, const struct tree *map, char *base,
                         bool reads_lists) {
  if (map->kind != TREE_MAP)
    return fail(r, ERR_SYNTAX, map->place, "no keys; write lines of the form KEY: VALUE");
  for (const struct tree *child = map->first; child; child = child->next) {
    const struct tree *first = child_find(map, child->key);
    if (first != child)
      return fail(r, ERR_EXISTS, child->key_place, "%s%s: the key stands in line %u already; remove one",
                  groups[group].name, child->key, first->key_place.line);
    enum err e = read_child(r, group, child, base, reads_lists);
    if (e)
      return e;
  }
  for (size_t i = 0; i < N_KEYS; i++)
    if (keys[i].group == group && !keys[i].fallback && !child_find(map, keys[i].name))
      return fail(r, ERR_SYNTAX, map->place, "%s%s: is missing; write %s: …", groups[group].name, keys[i].name,
                  keys[i].name);
  return ERR_OK;
}

/* ---- what holds between keys ---- */

static enum err check_range(const struct reader *r, const char *list, const struct agent_range *range) {
  return range->last < r->scenario->n_agents || range->first > range->last
             ? ERR_OK
             : fail(r, ERR_RANGE, (struct place){0}, "%s: there is no agent %llu; the last one is %llu", list,
                    (unsigned long long)range->last, (unsigned long long)r->scenario->n_agents - 1);
}

static size_t degree_of(const struct scenario *c) {
  static const size_t ring_degree = 2;
  size_t others = (size_t)c->n_agents - 1;
  size_t wanted = c->topology == TOPOLOGY_FULL   ? others
                  : c->topology == TOPOLOGY_RING ? ring_degree
                                                 : 2 * (size_t)c->degree;
  return wanted < others ? wanted : others;
}

static enum err check(const struct reader *r) {
  const struct scenario *c = r->scenario;
  const struct place nowhere = {0};
  enum err e = ERR_OK;
  if (degree_of(c) > MAX_PEERS)
    return fail(r, ERR_LIMIT, nowhere, "topology: full has %zu peers an agent; at most %d are possible", degree_of(c),
                MAX_PEERS);
  if (c->topology == TOPOLOGY_RANDOM && c->degree >= c->n_agents)
    return fail(r, ERR_RANGE, nowhere, "degree: there are only %llu other agents", (unsigned long long)c->n_agents - 1);
  /* three vectors and twice as much on its disk, one of each peer, and what is kept */
  uint64_t models = c->n_agents * (degree_of(c) + KEEP_PAYLOADS + 8);
  if (models * c->model_kib > max_memory_bytes / BYTES_PER_KIB)
    return fail(r, ERR_LIMIT, nowhere,
                "%llu agents with models of %llu KiB would take more than 4 GiB; write model_kib: %llu",
                (unsigned long long)c->n_agents, (unsigned long long)c->model_kib,
                (unsigned long long)(max_memory_bytes / BYTES_PER_KIB / models));
  if (c->round.deadline_min_s > c->round.deadline_max_s)
    return fail(r, ERR_RANGE, nowhere, "round.deadline_min_s: is above round.deadline_max_s");
  for (size_t i = 0; i < c->n_hosts && !e; i++)
    e = check_range(r, "hosts[].agents", &c->hosts[i].agents);
  for (size_t i = 0; i < c->n_links && !e; i++)
    if ((e = check_range(r, "links[].agents", &c->links[i].agents)) == ERR_OK)
      e = check_range(r, "links[].to", &c->links[i].to);
  for (size_t i = 0; i < c->n_events && !e; i++)
    if ((e = check_range(r, "events[].agents", &c->events[i].agents)) == ERR_OK)
      e = check_range(r, "events[].to", &c->events[i].to);
  return e;
}

/* Of equal times the one that was written first comes first. */
static void sort_events(struct scenario *c) {
  for (size_t i = 1; i < c->n_events; i++) {
    struct scenario_event e = c->events[i];
    size_t at = i;
    for (; at > 0 && c->events[at - 1].at_s > e.at_s; at--)
      c->events[at] = c->events[at - 1];
    c->events[at] = e;
  }
}

static enum err read_scenario(const struct reader *r, const char *bytes, size_t n_bytes) {
  struct tree *tree;
  struct place at = {0};
  char sentence[MAX_REASON_BYTES];
  enum err e = tree_read(bytes, n_bytes, &tree, &at, sentence);
  if (e)
    return fail(r, e, at, "%s", sentence);
  char *base = (char *)r->scenario;
  defaults(GROUP_TOP, base);
  e = read_map(r, GROUP_TOP, tree, base, false);
  if (!e)
    e = read_map(r, GROUP_TOP, tree, base, true);
  if (!e)
    e = check(r);
  tree_free(tree);
  sort_events(r->scenario);
  return e;
}

// NOLINTNEXTLINE(readability-non-const-parameter): it is written through the reader
enum err scenario_load(const char *path, struct scenario **out_scenario, char out_why[MAX_CONFIG_WHY_BYTES]) {
  char *bytes = NULL;
  size_t n_bytes;
  struct reader r = {path, calloc(1, sizeof *r.scenario), out_why};
  enum err e = r.scenario ? file_read(path, MAX_SCENARIO_BYTES, &bytes, &n_bytes) : ERR_NO_MEMORY;
  if (e)
    fail(&r, e, (struct place){0}, "%s", err_sentence(e));
  else
    e = read_scenario(&r, bytes, n_bytes);
  free(bytes);
  if (e)
    scenario_free(r.scenario);
  else
    *out_scenario = r.scenario;
  return e;
}

enum err scenario_seed(struct scenario *c, const char *text,
                       char out_why[MAX_REASON_BYTES]) { // NOLINT(readability-non-const-parameter)
  return scalar_integer(text, 0, (uint64_t)max_seed, &c->seed, out_why);
}

void scenario_free(struct scenario *c) {
  if (!c)
    return;
  free(c->hosts);
  free(c->links);
  free(c->events);
  free(c);
}

/* ---- the swarm ---- */

static uint64_t us_of(double ms) {
  return (uint64_t)(ms * US_PER_MS);
}

static uint64_t ms_of(double s) {
  return (uint64_t)(s * MS_PER_S);
}

/* A rate that is not 0 stays one. */
static uint64_t bytes_per_s(double kbit) {
  double bytes = kbit * BYTES_PER_S_OF_KBIT;
  return kbit > 0 && bytes < 1 ? 1 : (uint64_t)bytes;
}

static void meet(struct sim *s, size_t a, size_t b) {
  if (a == b || sim_peer_index(s->agents[a], b) != SIZE_MAX)
    return;
  sim_learn(s, a, b);
  sim_learn(s, b, a);
}

static void connect_full(const struct scenario *c, struct sim *s) {
  (void)c;
  for (size_t i = 0; i < s->n_agents; i++)
    for (size_t k = i + 1; k < s->n_agents; k++)
      meet(s, i, k);
}

static void connect_ring(const struct scenario *c, struct sim *s) {
  (void)c;
  for (size_t i = 0; i < s->n_agents; i++)
    meet(s, i, (i + 1) % s->n_agents);
}

/* Each chooses `degree` others that have less than twice as many peers; the ring keeps it in one piece. */
static void connect_random(const struct scenario *c, struct sim *s) {
  connect_ring(c, s);
  for (size_t i = 0; i < s->n_agents; i++)
    for (size_t tries = 0; tries < 16 * c->degree && s->agents[i]->n_peers < c->degree; tries++) {
      size_t other = (size_t)rng_below(&s->rng, s->n_agents);
      if (s->agents[other]->n_peers < 2 * c->degree)
        meet(s, i, other);
    }
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

static void set_host(struct sim_agent *a, const struct scenario_host *h) {
  a->host.speed = h->speed;
  a->host.nic.up_bytes_per_s = bytes_per_s(h->up_kbit);
  a->host.nic.down_bytes_per_s = bytes_per_s(h->down_kbit);
  a->host.disk_bytes_per_s = (uint64_t)(h->disk_kib_s * BYTES_PER_KIB);
  a->host.loading_ms = h->loading_ms;
  a->host.training_ms = h->training_ms;
  a->host.merging_ms = h->merging_ms;
  a->host.writing_ms = h->writing_ms;
  a->samples = (uint32_t)h->samples;
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

struct sim *scenario_sim(const struct scenario *c) {
  static void (*const connect[])(const struct scenario *, struct sim *) = {
      [TOPOLOGY_FULL] = connect_full, [TOPOLOGY_RING] = connect_ring, [TOPOLOGY_RANDOM] = connect_random};
  struct sim *s = sim_new_as((enum sim_fidelity)c->fidelity, (size_t)c->n_agents,
                             (size_t)c->model_kib * BYTES_PER_KIB / sizeof(double), c->seed);
  set_link(&s->default_link, &c->link);
  connect[c->topology](c, s);
  for (size_t i = 0; i < s->n_agents; i++) {
    set_host(s->agents[i], &c->host);
    set_round(&s->agents[i]->config, c);
  }
  for (size_t i = 0; i < c->n_hosts; i++)
    for (size_t a = (size_t)c->hosts[i].agents.first; a <= c->hosts[i].agents.last; a++)
      set_host(s->agents[a], &c->hosts[i].host);
  for (size_t i = 0; i < c->n_links; i++)
    for_pairs(s, &c->links[i].agents, &c->links[i].to, act_link, &c->links[i]);
  return s;
}

/* ---- what happens ---- */

static void do_kill(struct sim *s, size_t a, const struct scenario_event *e) {
  (void)e;
  if (s->agents[a]->is_alive)
    sim_kill(s, a);
}

static void do_start(struct sim *s, size_t a, const struct scenario_event *e) {
  (void)e;
  if (!s->agents[a]->is_alive)
    sim_start(s, a);
}

static void do_wipe(struct sim *s, size_t a, const struct scenario_event *e) {
  do_kill(s, a, e);
  sim_restore(s, a, NULL);
}

static void do_pause(struct sim *s, size_t a, const struct scenario_event *e) {
  sim_pause(s, a, ms_of(e->for_s));
}

static void do_fill(struct sim *s, size_t a, const struct scenario_event *e) {
  s->agents[a]->host.disk = e->action == ACTION_FILL ? ERR_NO_SPACE : ERR_OK;
}

static void act_pair(struct sim *s, size_t a, size_t b, const void *context) {
  static void (*const act[N_SCENARIO_ACTIONS])(struct sim *, size_t, size_t) = {
      [ACTION_PART] = sim_part, [ACTION_MUTE] = sim_mute, [ACTION_HEAL] = sim_heal};
  act[((const struct scenario_event *)context)->action](s, a, b);
}

static void happen(struct sim *s, const struct scenario_event *e) {
  static void (*const act[N_SCENARIO_ACTIONS])(struct sim *, size_t, const struct scenario_event *) = {
      [ACTION_KILL] = do_kill,   [ACTION_START] = do_start, [ACTION_WIPE] = do_wipe,
      [ACTION_PAUSE] = do_pause, [ACTION_FILL] = do_fill,   [ACTION_FREE] = do_fill};
  const struct agent_range all = {0, s->n_agents - 1};
  if (!act[e->action])
    for_pairs(s, &e->agents, e->to.first > e->to.last ? &all : &e->to, act_pair, e);
  for (size_t a = (size_t)e->agents.first; act[e->action] && a <= e->agents.last; a++)
    act[e->action](s, a, e);
}

static bool all_finished(const struct sim *s) {
  for (size_t i = 0; i < s->n_agents; i++)
    if (s->agents[i]->is_alive && s->agents[i]->machine->phase != PHASE_FINISHED)
      return false;
  return true;
}

void scenario_run(const struct scenario *c, struct sim *s) {
  uint64_t start_ms = s->now_ms, end_ms = start_ms + ms_of(c->duration_s);
  size_t next = 0;
  sim_start_all(s);
  while (s->now_ms < end_ms && s->n_broken == 0 && (next < c->n_events || !all_finished(s))) {
    uint64_t until_ms = s->now_ms + SLICE_MS < end_ms ? s->now_ms + SLICE_MS : end_ms;
    if (next < c->n_events && start_ms + ms_of(c->events[next].at_s) < until_ms)
      until_ms = start_ms + ms_of(c->events[next].at_s);
    while (s->n_broken == 0 && sim_step(s, until_ms))
      ;
    for (; next < c->n_events && start_ms + ms_of(c->events[next].at_s) <= s->now_ms; next++)
      happen(s, &c->events[next]);
  }
}
