#include "agent/sim/scenario.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/file.h"
#include "agent/scalar.h"
#include "agent/sim/scenario_keys.h"
#include "agent/tree.h"
#include "base/must.h"

enum { BYTES_PER_KIB = 1024 };
_Static_assert(MAX_SCENARIO_BYTES == 256 * BYTES_PER_KIB, "why_unread");

static const uint64_t max_memory_bytes = UINT64_C(4) << 30;

/* ---- reading by the table ---- */

struct reader {
  const char *path;
  struct scenario *scenario;
  char *why;
};

__attribute__((format(printf, 4, 5))) static enum err fail(const struct reader *r, enum err e, struct place at,
                                                           const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  place_tell(r->why, MAX_CONFIG_WHY_BYTES, r->path, at, format,
             arguments); // NOLINT(clang-analyzer-valist.Uninitialized)
  va_end(arguments);
  return e;
}

static const struct scenario_key *key_find(enum scenario_group group, const char *name) {
  for (size_t i = 0; i < n_scenario_keys; i++)
    if (scenario_key_is_in(&scenario_keys[i], group) && strcmp(scenario_keys[i].name, name) == 0)
      return &scenario_keys[i];
  return NULL;
}

static enum err fail_unknown(const struct reader *r, enum scenario_group group, const struct tree *child) {
  for (size_t i = 0; i < n_scenario_keys; i++)
    if (scenario_key_is_in(&scenario_keys[i], group) && is_near(child->key, scenario_keys[i].name))
      return fail(r, ERR_SYNTAX, child->key_place, "unknown key \"%s%.60s\"; did you mean %s%s?",
                  scenario_groups[group].name, child->key, scenario_groups[group].name, scenario_keys[i].name);
  char known[MAX_REASON_BYTES] = "";
  for (size_t i = 0, n = 0; i < n_scenario_keys && n < sizeof known; i++)
    if (scenario_key_is_in(&scenario_keys[i], group))
      n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", scenario_keys[i].name);
  return fail(r, ERR_SYNTAX, child->key_place, "unknown key \"%s%.60s\"; write one of %s", scenario_groups[group].name,
              child->key, known);
}

static enum err read_map(const struct reader *r, enum scenario_group group, const struct tree *map, char *base,
                         bool reads_lists);

/* ---- lists ---- */

static enum err read_list(const struct reader *r, const struct scenario_key *k, const struct tree *list, char *base) {
  size_t n = 0, i = 0;
  if (list->kind != TREE_LIST)
    return fail(r, ERR_SYNTAX, list->place, "%s: a list is expected here; write lines of the form - { KEY: VALUE }",
                k->name);
  for (const struct tree *child = list->first; child; child = child->next)
    n++;
  char *items = calloc(n + 1, scenario_groups[k->inner].item_bytes);
  if (!items)
    return fail(r, ERR_NO_MEMORY, list->place, "%s", err_sentence(ERR_NO_MEMORY));
  memcpy(base + k->offset, &items, sizeof items); /* the scenario's now */
  memcpy(base + k->offset + sizeof items, &n, sizeof n);
  enum err e = ERR_OK;
  for (const struct tree *child = list->first; child && !e; child = child->next) {
    char *item = items + i++ * scenario_groups[k->inner].item_bytes;
    scenario_item_begin(r->scenario, k->inner, item);
    e = read_map(r, k->inner, child, item, false);
  }
  return e;
}

/* ---- maps ---- */

static enum err read_child(const struct reader *r, enum scenario_group group, const struct tree *child, char *base,
                           bool reads_lists) {
  const struct scenario_key *k = key_find(group, child->key);
  char why[MAX_REASON_BYTES];
  if (!k)
    return fail_unknown(r, group, child);
  if ((k->form == SCENARIO_LIST) != reads_lists)
    return ERR_OK;
  if (k->form == SCENARIO_LIST)
    return read_list(r, k, child, base);
  if (k->form == SCENARIO_SECTION)
    return read_map(r, k->inner, child, base + scenario_key_offset(k, group), false);
  if (child->kind != TREE_TEXT)
    return fail(r, ERR_SYNTAX, child->place, "%s%s: one value is expected here", scenario_groups[group].name, k->name);
  enum err e = scenario_scalar(k, child->text, base + scenario_key_offset(k, group), why);
  return e ? fail(r, e, child->place, "%s%s: %s", scenario_groups[group].name, k->name, why) : ERR_OK;
}

static const struct tree *child_find(const struct tree *map, const char *key) {
  const struct tree *child = map->first;
  while (child && strcmp(child->key, key) != 0)
    child = child->next;
  return child;
}

static enum err read_map(const struct reader *r, enum scenario_group group, const struct tree *map, char *base,
                         bool reads_lists) {
  if (map->kind != TREE_MAP)
    return fail(r, ERR_SYNTAX, map->place, "no keys; write lines of the form KEY: VALUE");
  for (const struct tree *child = map->first; child; child = child->next) {
    const struct tree *first = child_find(map, child->key);
    if (first != child)
      return fail(r, ERR_EXISTS, child->key_place, "%s%s: the key stands in line %u already; remove one",
                  scenario_groups[group].name, child->key, first->key_place.line);
    enum err e = read_child(r, group, child, base, reads_lists);
    if (e)
      return e;
  }
  for (size_t i = 0; i < n_scenario_keys; i++)
    if (scenario_keys[i].group == group && !scenario_keys[i].fallback && !child_find(map, scenario_keys[i].name))
      return fail(r, ERR_SYNTAX, map->place, "%s%s: is missing; write %s: …", scenario_groups[group].name,
                  scenario_keys[i].name, scenario_keys[i].name);
  return ERR_OK;
}

/* ---- what holds between keys ---- */

/* Where the value of a key stands; nowhere: it was not written. */
static struct place place_of(const struct tree *map, const char *key) {
  const struct tree *child = child_find(map, key);
  return child ? child->place : (struct place){0};
}

static enum err check_range(const struct reader *r, const struct tree *item, const char *list, const char *key,
                            const struct agent_range *range) {
  return range->last < r->scenario->n_agents || range->first > range->last
             ? ERR_OK
             : fail(r, ERR_RANGE, place_of(item, key), "%s[].%s: there is no agent %llu; the last one is %llu", list,
                    key, (unsigned long long)range->last, (unsigned long long)r->scenario->n_agents - 1);
}

static enum err check_event(const struct reader *r, const struct tree *item, const struct scenario_event *e) {
  bool lasts = e->action == ACTION_PAUSE || e->action == ACTION_SLOW || e->action == ACTION_LEAP;
  enum err error = check_range(r, item, "events", "agents", &e->agents);
  if (!error)
    error = check_range(r, item, "events", "to", &e->to);
  return error || !lasts || e->for_s > 0
             ? error
             : fail(r, ERR_SYNTAX, item->place, "events[].for_s: is missing or 0; write how long, for_s: …");
}

static const struct tree *first_item(const struct tree *top, const char *list) {
  const struct tree *child = child_find(top, list);
  return child ? child->first : NULL;
}

/* The scenario's items are in the order of the file still. */
static enum err check_lists(const struct reader *r, const struct tree *top) {
  const struct scenario *c = r->scenario;
  const struct tree *host = first_item(top, "hosts"), *link = first_item(top, "links"),
                    *event = first_item(top, "events");
  enum err e = ERR_OK;
  for (size_t i = 0; i < c->n_hosts && !e; i++, host = host->next)
    e = check_range(r, host, "hosts", "agents", &c->hosts[i].agents);
  for (size_t i = 0; i < c->n_links && !e; i++, link = link->next)
    if ((e = check_range(r, link, "links", "agents", &c->links[i].agents)) == ERR_OK)
      e = check_range(r, link, "links", "to", &c->links[i].to);
  for (size_t i = 0; i < c->n_events && !e; i++, event = event->next)
    e = check_event(r, event, &c->events[i]);
  return e;
}

size_t scenario_degree(const struct scenario *c) {
  return topology_degree((enum topology)c->topology, (size_t)c->n_agents, (size_t)c->degree);
}

uint64_t scenario_max_agents(uint64_t n_peers) {
  enum { AGENT_KIB = 5, PEER_KIB = 2 };
  return max_memory_bytes / BYTES_PER_KIB / (AGENT_KIB + PEER_KIB * n_peers);
}

static enum err fail_memory(const struct reader *r, const struct tree *top, uint64_t possible_kib) {
  const struct scenario *c = r->scenario;
  return fail(
      r, ERR_LIMIT, place_of(top, child_find(top, "model_kib") ? "model_kib" : "agents"),
      "%llu agents with models of %llu KiB would take more than 4 GiB; write model_kib: %llu or fidelity: protocol",
      (unsigned long long)c->n_agents, (unsigned long long)c->model_kib, (unsigned long long)possible_kib);
}

static uint64_t range_size(const struct agent_range *range) {
  return range->last - range->first + 1;
}

/* What hosts, links and events are done to, one after the other: every link of their agents. */
static enum err check_steps(const struct reader *r, const struct tree *top) {
  const struct scenario *c = r->scenario;
  uint64_t n = 0;
  for (size_t i = 0; i < c->n_hosts; i++)
    n += range_size(&c->hosts[i].agents);
  for (size_t i = 0; i < c->n_links; i++)
    n += range_size(&c->links[i].agents);
  for (size_t i = 0; i < c->n_events; i++)
    n += range_size(&c->events[i].agents);
  n *= scenario_degree(c);
  return n <= MAX_SCENARIO_STEPS
             ? ERR_OK
             : fail(r, ERR_LIMIT, place_of(top, child_find(top, "events") ? "events" : "hosts"),
                    "hosts, links, events: those of %llu links, at most %d are possible; name fewer "
                    "agents in them, or make fewer of them",
                    (unsigned long long)n, MAX_SCENARIO_STEPS);
}

static enum err check(const struct reader *r, const struct tree *top) {
  const struct scenario *c = r->scenario;
  if (scenario_degree(c) > MAX_PEERS)
    return fail(r, ERR_LIMIT, place_of(top, "topology"),
                "topology: full has %zu peers an agent; at most %d are possible; write topology: random",
                scenario_degree(c), MAX_PEERS);
  char why[MAX_REASON_BYTES];
  enum err fits = topology_check((enum topology)c->topology, (size_t)c->n_agents, (size_t)c->degree, why);
  if (fits != ERR_OK)
    return fail(r, fits, place_of(top, child_find(top, "degree") ? "degree" : "topology"), "%s", why);
  if (c->n_agents > scenario_max_agents(scenario_degree(c)))
    return fail(r, ERR_LIMIT, place_of(top, "agents"),
                "%llu agents of up to %zu peers would take more than 4 GiB; write %llu or a smaller degree",
                (unsigned long long)c->n_agents, scenario_degree(c),
                (unsigned long long)scenario_max_agents(scenario_degree(c)));
  /* three vectors and twice as much on its disk, one of each peer, and what is kept */
  uint64_t models = c->n_agents * (scenario_degree(c) + KEEP_PAYLOADS + 8);
  if (c->fidelity == SIM_SEALED && models * c->model_kib > max_memory_bytes / BYTES_PER_KIB)
    return fail_memory(r, top, max_memory_bytes / BYTES_PER_KIB / models);
  if (c->round.deadline_min_s > c->round.deadline_max_s)
    return fail(r, ERR_RANGE, place_of(top, "round"),
                "round.deadline_min_s: is above round.deadline_max_s, %g and %g; write a smaller one",
                c->round.deadline_min_s, c->round.deadline_max_s);
  enum err e = check_lists(r, top);
  return e ? e : check_steps(r, top);
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
  scenario_defaults(IN_TOP, base);
  e = read_map(r, IN_TOP, tree, base, false);
  if (!e)
    e = read_map(r, IN_TOP, tree, base, true);
  if (!e)
    e = check(r, tree);
  tree_free(tree);
  sort_events(r->scenario);
  return e;
}

static const char *why_unread(enum err e) {
  switch (e) {
  case ERR_UNSUPPORTED:
    return "it is not a regular file; name a scenario in YAML";
  case ERR_NOT_FOUND:
    return "it does not exist; check the path";
  case ERR_LIMIT:
    return "it or its name is too long; a scenario has at most 256 KiB";
  default:
    return err_sentence(e);
  }
}

enum err scenario_read(const char *path, const char *bytes, size_t n_bytes, struct scenario **out_scenario,
                       char out_why[MAX_CONFIG_WHY_BYTES]) { // NOLINT(readability-non-const-parameter): by the reader
  struct reader r = {path, calloc(1, sizeof *r.scenario), out_why};
  enum err e = ERR_OK;
  if (!r.scenario)
    e = fail(&r, ERR_NO_MEMORY, (struct place){0}, "%s", err_sentence(ERR_NO_MEMORY));
  else if (n_bytes > MAX_SCENARIO_BYTES)
    e = fail(&r, ERR_LIMIT, (struct place){0}, "%s", why_unread(ERR_LIMIT));
  else
    e = read_scenario(&r, bytes, n_bytes);
  if (e)
    scenario_free(r.scenario);
  else
    *out_scenario = r.scenario;
  return e;
}

// NOLINTNEXTLINE(readability-non-const-parameter): it is written through the reader
enum err scenario_load(const char *path, struct scenario **out_scenario, char out_why[MAX_CONFIG_WHY_BYTES]) {
  char *bytes = NULL;
  size_t n_bytes;
  enum err e = file_read(path, MAX_SCENARIO_BYTES, &bytes, &n_bytes);
  if (e)
    fail(&(struct reader){path, NULL, out_why}, e, (struct place){0}, "%s", why_unread(e));
  else
    e = scenario_read(path, bytes, n_bytes, out_scenario, out_why);
  free(bytes);
  return e;
}

enum err scenario_seed(struct scenario *c, const char *text,
                       char out_why[MAX_REASON_BYTES]) { // NOLINT(readability-non-const-parameter)
  return scalar_integer(text, 0, MAX_SCENARIO_SEED, &c->seed, out_why);
}

void scenario_free(struct scenario *c) {
  if (!c)
    return;
  free(c->hosts);
  free(c->links);
  free(c->events);
  free(c);
}
