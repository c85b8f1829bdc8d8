#include "agent/sim/scenario_keys.h"

#include <stdio.h>
#include <string.h>

#include "agent/option.h"
#include "agent/scalar.h"
#include "base/must.h"

enum { MAX_DEGREE = MAX_PEERS / 2 };

static const char *const fidelity_words[] = {"sealed", "protocol", NULL};
static const char *const flag_words[] = {"false", "true", NULL};
static const char *const action_words[] = {
#define X(symbol, word) word,
    SCENARIO_ACTIONS(X)
#undef X
        NULL};

#define TOP(field) IN_TOP, #field, offsetof(struct scenario, field)
#define OF(group, type, field) group, #field, offsetof(struct type, field)
#define LINK(field) OF(IN_LINK, scenario_link, field)
#define HOST(field) OF(IN_HOST, scenario_host, field)
#define ROUND(field) OF(IN_ROUND, scenario_round, field)
#define WHOLE SCENARIO_WHOLE
#define REAL SCENARIO_REAL

static const double max_ms = 86400000, max_rate = 1e9;

const struct scenario_key scenario_keys[] = {
    {TOP(seed), WHOLE, "1", 0, MAX_SCENARIO_SEED, NULL, 0},
    {IN_TOP, "agents", offsetof(struct scenario, n_agents), WHOLE, NULL, 1, MAX_SCENARIO_AGENTS, NULL, 0},
    {TOP(topology), SCENARIO_WORD, "ring", 0, 0, topology_words, 0},
    {TOP(degree), WHOLE, "4", 1, MAX_DEGREE, NULL, 0},
    {TOP(average), SCENARIO_WORD, "neighbours", 0, 0, average_words, 0},
    {TOP(fidelity), SCENARIO_WORD, "sealed", 0, 0, fidelity_words, 0},
    {TOP(rounds), WHOLE, "20", 0, 1000000, NULL, 0},
    {TOP(settle_rounds), WHOLE, "0", 0, 1000000, NULL, 0},
    {TOP(model_kib), WHOLE, "100", 1, 1 << 20, NULL, 0},
    {TOP(relay), SCENARIO_FLAG, "true", 0, 0, flag_words, 0},
    {TOP(duration_s), REAL, "86400", 1, 1e9, NULL, 0},
    {TOP(link), SCENARIO_SECTION, "", 0, 0, NULL, IN_LINK},
    {TOP(host), SCENARIO_SECTION, "", 0, 0, NULL, IN_HOST},
    {TOP(round), SCENARIO_SECTION, "", 0, 0, NULL, IN_ROUND},
    {TOP(hosts), SCENARIO_LIST, "", 0, 0, NULL, IN_HOSTS},
    {TOP(links), SCENARIO_LIST, "", 0, 0, NULL, IN_LINKS},
    {TOP(events), SCENARIO_LIST, "", 0, 0, NULL, IN_EVENTS},
    {LINK(delay_ms), REAL, "10", 0, max_ms, NULL, 0},
    {LINK(jitter_ms), REAL, "0", 0, max_ms, NULL, 0},
    {LINK(rate_kbit), REAL, "0", 0, max_rate, NULL, 0},
    {LINK(loss), REAL, "0", 0, 1, NULL, 0},
    {LINK(duplicate), REAL, "0", 0, 1, NULL, 0},
    {LINK(reorder), REAL, "0", 0, 1, NULL, 0},
    {LINK(nat_idle_ms), REAL, "0", 0, max_ms, NULL, 0},
    {HOST(speed), REAL, "1", 1e-4, 1e4, NULL, 0},
    {HOST(up_kbit), REAL, "0", 0, max_rate, NULL, 0},
    {HOST(down_kbit), REAL, "0", 0, max_rate, NULL, 0},
    {HOST(disk_kib_s), REAL, "0", 0, max_rate, NULL, 0},
    {HOST(loading_ms), WHOLE, "5", 0, max_ms, NULL, 0},
    {HOST(training_ms), WHOLE, "1000", 1, max_ms, NULL, 0},
    {HOST(merging_ms), WHOLE, "5", 0, max_ms, NULL, 0},
    {HOST(writing_ms), WHOLE, "20", 0, max_ms, NULL, 0},
    {HOST(samples), WHOLE, "1000", 1, 1e9, NULL, 0},
    {HOST(memory_kib), WHOLE, "0", 0, 1 << 30, NULL, 0},
    {HOST(version), WHOLE, "0", 0, UINT16_MAX, NULL, 0},
    {ROUND(deadline_min_s), REAL, "1", 0.001, 86400, NULL, 0},
    {ROUND(deadline_max_s), REAL, "120", 0.001, 86400, NULL, 0},
    {ROUND(meet_s), REAL, "30", 0, 86400, NULL, 0},
    {ROUND(every_s), REAL, "0", 0, 86400, NULL, 0},
    {ROUND(min_peers), WHOLE, "1", 0, MAX_PEERS, NULL, 0},
    {ROUND(alone_rounds), WHOLE, "3", 0, 1000000, NULL, 0},
    {OF(IN_HOSTS, scenario_hosts, agents), SCENARIO_AGENTS, NULL, 0, 0, NULL, 0},
    {OF(IN_LINKS, scenario_links, agents), SCENARIO_AGENTS, NULL, 0, 0, NULL, 0},
    {OF(IN_LINKS, scenario_links, to), SCENARIO_AGENTS, NULL, 0, 0, NULL, 0},
    {OF(IN_LINKS, scenario_links, one_way), SCENARIO_FLAG, "false", 0, 0, flag_words, 0},
    {OF(IN_EVENTS, scenario_event, at_s), REAL, NULL, 0, 1e9, NULL, 0},
    {IN_EVENTS, "do", offsetof(struct scenario_event, action), SCENARIO_WORD, NULL, 0, 0, action_words, 0},
    {OF(IN_EVENTS, scenario_event, agents), SCENARIO_AGENTS, NULL, 0, 0, NULL, 0},
    {OF(IN_EVENTS, scenario_event, to), SCENARIO_AGENTS, "", 0, 0, NULL, 0},
    {OF(IN_EVENTS, scenario_event, for_s), REAL, "0", 0, 1e9, NULL, 0},
    {OF(IN_EVENTS, scenario_event, times), WHOLE, "1", 1, 1000000, NULL, 0},
    {OF(IN_EVENTS, scenario_event, version), WHOLE, "0", 0, UINT16_MAX, NULL, 0},
};

const size_t n_scenario_keys = sizeof scenario_keys / sizeof *scenario_keys;

const struct scenario_group_form scenario_groups[N_SCENARIO_GROUPS] = {
    [IN_TOP] = {N_SCENARIO_GROUPS, 0, "", 0},
    [IN_LINK] = {N_SCENARIO_GROUPS, 0, "link.", 0},
    [IN_HOST] = {N_SCENARIO_GROUPS, 0, "host.", 0},
    [IN_ROUND] = {N_SCENARIO_GROUPS, 0, "round.", 0},
    [IN_HOSTS] = {IN_HOST, offsetof(struct scenario_hosts, host), "hosts[].", sizeof(struct scenario_hosts)},
    [IN_LINKS] = {IN_LINK, offsetof(struct scenario_links, link), "links[].", sizeof(struct scenario_links)},
    [IN_EVENTS] = {N_SCENARIO_GROUPS, 0, "events[].", sizeof(struct scenario_event)}};

#define LIST_IS_FOLLOWED_BY_ITS_LENGTH(field)                                                                          \
  _Static_assert(offsetof(struct scenario, n_##field) == offsetof(struct scenario, field) + sizeof(void *),            \
                 "SCENARIO_LIST")
LIST_IS_FOLLOWED_BY_ITS_LENGTH(hosts);
LIST_IS_FOLLOWED_BY_ITS_LENGTH(links);
LIST_IS_FOLLOWED_BY_ITS_LENGTH(events);

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

enum err scenario_scalar(const struct scenario_key *k, const char *text, void *field, char why[MAX_REASON_BYTES]) {
  size_t index;
  enum err e;
  switch (k->form) {
  case SCENARIO_WHOLE:
    return scalar_integer(text, (uint64_t)k->min, (uint64_t)k->max, field, why);
  case SCENARIO_REAL:
    return scalar_number(text, k->min, k->max, field, why);
  case SCENARIO_AGENTS:
    return read_agents(text, field, why);
  case SCENARIO_FLAG:
    if ((e = scalar_word(text, k->words, &index, why)) == ERR_OK)
      *(bool *)field = index == 1;
    return e;
  default:
    if ((e = scalar_word(text, k->words, &index, why)) == ERR_OK)
      *(unsigned *)field = (unsigned)index;
    return e;
  }
}

void scenario_defaults(enum scenario_group group, void *base) {
  char why[MAX_REASON_BYTES];
  for (size_t i = 0; i < n_scenario_keys; i++) {
    const struct scenario_key *k = &scenario_keys[i];
    if (k->group != group || !k->fallback)
      continue;
    if (k->form == SCENARIO_SECTION)
      scenario_defaults(k->inner, (char *)base + k->offset);
    else if (k->fallback[0])
      MUST(scenario_scalar(k, k->fallback, (char *)base + k->offset, why) == ERR_OK);
  }
}

void scenario_item_begin(const struct scenario *c, enum scenario_group group, void *item) {
  scenario_defaults(group, item);
  if (group == IN_HOSTS)
    ((struct scenario_hosts *)item)->host = c->host;
  if (group == IN_LINKS)
    ((struct scenario_links *)item)->link = c->link;
  if (group == IN_EVENTS)
    ((struct scenario_event *)item)->to = (struct agent_range){1, 0};
}
