/* The keys of a scenario file: one table, by which scenario.c reads, scenario_text.c writes and shrink.c takes back. Internal to
 * these three. */
#ifndef AGENT_SIM_SCENARIO_KEYS_H
#define AGENT_SIM_SCENARIO_KEYS_H

#include "agent/sim/scenario.h"

/* What stands side by side in one map. */
enum scenario_group { IN_TOP, IN_LINK, IN_HOST, IN_ROUND, IN_HOSTS, IN_LINKS, IN_EVENTS, N_SCENARIO_GROUPS };

enum scenario_form {
  SCENARIO_WHOLE,   /* uint64_t */
  SCENARIO_REAL,    /* double */
  SCENARIO_WORD,    /* unsigned: index of the word */
  SCENARIO_FLAG,    /* bool */
  SCENARIO_AGENTS,  /* struct agent_range: 3 or 0..7 */
  SCENARIO_SECTION, /* a map of the group `inner`, whose fields lie at the offset */
  SCENARIO_LIST,    /* a list of such maps, each on the heap; its length is the next field */
};

struct scenario_key {
  enum scenario_group group;
  const char *name;
  size_t offset;
  enum scenario_form form;
  const char *fallback; /* NULL: required */
  double min, max;
  const char *const *words;
  enum scenario_group inner;
};

extern const struct scenario_key scenario_keys[];
extern const size_t n_scenario_keys;

/* Items of hosts and links have the keys of a host and a link, too, with what stands under `host` and `link` as defaults. */
struct scenario_group_form {
  enum scenario_group base; /* N_SCENARIO_GROUPS: none */
  size_t offset;            /* of the base's fields in an item */
  const char *name;         /* "hosts[]." */
  size_t item_bytes;        /* of a list's */
};

extern const struct scenario_group_form scenario_groups[N_SCENARIO_GROUPS];

/* Whether the key may stand in a map of the group, by itself or by the one that its items extend. */
static inline bool scenario_key_is_in(const struct scenario_key *k, enum scenario_group group) {
  return k->group == group || k->group == scenario_groups[group].base;
}

/* Where its field lies in a map of the group. */
static inline size_t scenario_key_offset(const struct scenario_key *k, enum scenario_group group) {
  return k->offset + (k->group == group ? 0 : scenario_groups[group].offset);
}

/* What a list's item has before its keys are read. */
void scenario_item_begin(const struct scenario *c, enum scenario_group group, void *item);

/* Fills in what has a default. */
void scenario_defaults(enum scenario_group group, void *base);

enum err scenario_scalar(const struct scenario_key *k, const char *text, void *field, char why[MAX_REASON_BYTES]);

#endif
