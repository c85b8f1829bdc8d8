#include "agent/experiment/experiment.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/file.h"
#include "agent/scalar.h"
#include "base/bytes.h"
#include "base/must.h"
#include "crypto/digest.h"

static const uint64_t max_seed = UINT64_C(1) << 52;

struct reader {
  const char *path;
  struct experiment *x;
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

/* ---- keys --------------------------------------------------------------------------------------------------------- */

/* A key of the file or of a method. `into` is the structure that the key's map is read into. */
struct key {
  const char *name;
  bool is_required;
  enum err (*read)(const struct reader *r, const struct key *k, const struct tree *value, void *into);
  size_t offset;
  uint64_t min, max; /* whole numbers */
};

static const struct tree *child_of(const struct tree *map, const char *key) {
  const struct tree *child = map->first;
  while (child && strcmp(child->key, key) != 0)
    child = child->next;
  return child;
}

static enum err fail_unknown(const struct reader *r, const struct key *keys, size_t n, const struct tree *child,
                             const char *prefix) {
  char known[MAX_REASON_BYTES] = "";
  for (size_t i = 0; i < n; i++)
    if (is_near(child->key, keys[i].name))
      return fail(r, ERR_SYNTAX, child->key_place, "unknown key \"%s%.60s\"; did you mean %s%s?", prefix, child->key,
                  prefix, keys[i].name);
  for (size_t i = 0, at = 0; i < n && at < sizeof known; i++)
    at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", keys[i].name);
  return fail(r, ERR_SYNTAX, child->key_place, "unknown key \"%s%.60s\"; write one of %s", prefix, child->key, known);
}

static enum err read_keys(const struct reader *r, const struct key *keys, size_t n, const struct tree *map,
                          const char *prefix, void *into) {
  if (map->kind != TREE_MAP)
    return fail(r, ERR_SYNTAX, map->place, "no keys; write lines of the form KEY: VALUE");
  for (const struct tree *child = map->first; child; child = child->next) {
    size_t i = 0;
    while (i < n && strcmp(keys[i].name, child->key) != 0)
      i++;
    if (i == n)
      return fail_unknown(r, keys, n, child, prefix);
    if (child_of(map, child->key) != child)
      return fail(r, ERR_EXISTS, child->key_place, "%s%s: the key stands in line %u already; remove one", prefix,
                  child->key, child_of(map, child->key)->key_place.line);
    enum err e = keys[i].read(r, &keys[i], child, into);
    if (e)
      return e;
  }
  for (size_t i = 0; i < n; i++)
    if (keys[i].is_required && !child_of(map, keys[i].name))
      return fail(r, ERR_SYNTAX, map->place, "%s%s: is missing; write %s: …", prefix, keys[i].name, keys[i].name);
  return ERR_OK;
}

static enum err need_text(const struct reader *r, const char *name, const struct tree *value) {
  return value->kind == TREE_TEXT && value->text[0]
             ? ERR_OK
             : fail(r, ERR_SYNTAX, value->place, "%s: one value is expected here", name);
}

static enum err need_list(const struct reader *r, const char *name, const struct tree *value, size_t max,
                          size_t *out_n) {
  if (value->kind != TREE_LIST || !value->first)
    return fail(r, ERR_SYNTAX, value->place, "%s: a list is expected here; write %s: [ …, … ]", name, name);
  size_t n = 0;
  for (const struct tree *item = value->first; item; item = item->next)
    n++;
  if (n > max)
    return fail(r, ERR_LIMIT, value->place, "%s: %zu of them; at most %zu are possible", name, n, max);
  *out_n = n;
  return ERR_OK;
}

static enum err read_whole(const struct reader *r, const struct key *k, const struct tree *value, void *into) {
  char why[MAX_REASON_BYTES];
  uint64_t number = 0;
  enum err e = need_text(r, k->name, value);
  if (e)
    return e;
  e = scalar_integer(value->text, k->min, k->max, &number, why);
  memcpy((char *)into + k->offset, &number, sizeof number);
  return e ? fail(r, e, value->place, "%s: %s", k->name, why) : ERR_OK;
}

static enum err read_label(const struct reader *r, const struct key *k, const struct tree *value, void *into) {
  enum err e = need_text(r, k->name, value);
  if (e)
    return e;
  if (strlen(value->text) >= MAX_NAME_BYTES)
    return fail(r, ERR_LIMIT, value->place, "%s: the name has more than %d bytes; write a shorter one", k->name,
                MAX_NAME_BYTES - 1);
  memcpy((char *)into + k->offset, value->text, strlen(value->text) + 1);
  return ERR_OK;
}

static enum err read_word(const struct reader *r, const struct key *k, const struct tree *value,
                          const char *const words[], void *into) {
  char why[MAX_REASON_BYTES];
  size_t index = 0;
  enum err e = need_text(r, k->name, value);
  if (e)
    return e;
  e = scalar_word(value->text, words, &index, why);
  *(unsigned *)(void *)((char *)into + k->offset) = (unsigned)index;
  return e ? fail(r, e, value->place, "%s: %s", k->name, why) : ERR_OK;
}

static enum err read_topology(const struct reader *r, const struct key *k, const struct tree *value, void *into) {
  return read_word(r, k, value, topology_words, into);
}

static enum err read_attack(const struct reader *r, const struct key *k, const struct tree *value, void *into) {
  const char *words[N_ATTACKS + 1] = {NULL};
  for (enum attack a = 0; a < N_ATTACKS; a++)
    words[a] = attack_name(a);
  return read_word(r, k, value, words, into);
}

static enum err read_seeds(const struct reader *r, const struct key *k, const struct tree *value, void *into) {
  struct experiment *x = into;
  char why[MAX_REASON_BYTES];
  enum err e = need_list(r, k->name, value, MAX_EXPERIMENT_SEEDS, &x->n_seeds);
  const struct tree *item = value->first;
  for (size_t i = 0; !e && i < x->n_seeds; i++, item = item->next) {
    e = need_text(r, k->name, item);
    if (!e && (e = scalar_integer(item->text, 0, max_seed, &x->seeds[i], why)) != ERR_OK)
      e = fail(r, e, item->place, "seeds: %s", why);
    for (size_t j = 0; !e && j < i; j++)
      if (x->seeds[j] == x->seeds[i])
        e = fail(r, ERR_EXISTS, item->place, "seeds: %" PRIu64 " stands here twice; remove one", x->seeds[i]);
  }
  return e;
}

static enum err read_splits(const struct reader *r, const struct key *k, const struct tree *value, void *into) {
  struct experiment *x = into;
  enum err e = need_list(r, k->name, value, MAX_EXPERIMENT_SPLITS, &x->n_splits);
  const struct tree *item = value->first;
  for (size_t i = 0; !e && i < x->n_splits; i++, item = item->next) {
    e = need_text(r, k->name, item);
    for (size_t j = 0; !e && j < i; j++)
      if (strcmp(x->splits[j]->text, item->text) == 0)
        e = fail(r, ERR_EXISTS, item->place, "splits: %.60s stands here twice; remove one", item->text);
    x->splits[i] = item;
  }
  return e;
}

static enum err read_job(const struct reader *r, const struct key *k, const struct tree *value, void *into) {
  struct experiment *x = into;
  char folder[MAX_PATH_BYTES];
  enum err e = need_text(r, k->name, value);
  if (e)
    return e;
  path_folder(r->path, folder);
  e = path_join(folder, value->text, x->job_path);
  return e ? fail(r, e, value->place, "job: the path is too long") : ERR_OK;
}

/* ---- set ---------------------------------------------------------------------------------------------------------- */

/* Keys of the job file and the site file that follow from the experiment's own. */
static const struct {
  const char *key, *instead;
} own_keys[] = {
    {"job", "name"},          {"version", "methods"},  {"run_label", "methods"},     {"count", "rounds"},
    {"split.rule", "splits"}, {"split.n", "agents"},   {"split.samples", "samples"}, {"split.seed", "seeds"},
    {"init_seed", "seeds"},   {"train.seed", "seeds"}, {"data.part", "agents"},
};

static bool is_section(const char *path) {
  size_t n = strlen(path);
  for (size_t i = 0; i < n_options; i++)
    if ((option_group(&option_table[i]) == GROUP_JOB || option_group(&option_table[i]) == GROUP_SITE_JOB) &&
        strncmp(option_table[i].path, path, n) == 0 && option_table[i].path[n] == '.')
      return true;
  return false;
}

static bool is_option(const char *path) {
  return option_find(GROUP_JOB, path) || option_find(GROUP_SITE_JOB, path);
}

static enum err add_setting(const struct reader *r, struct experiment_settings *s, const struct tree *value,
                            const char *path) {
  for (size_t i = 0; i < sizeof own_keys / sizeof *own_keys; i++)
    if (strcmp(own_keys[i].key, path) == 0)
      return fail(r, ERR_EXISTS, value->key_place, "set: %s follows from the experiment's own `%s`; remove it", path,
                  own_keys[i].instead);
  for (size_t i = 0; i < s->n; i++)
    if (strcmp(s->nodes[i].key, path) == 0)
      return fail(r, ERR_EXISTS, value->key_place, "set: %s stands in line %u already; remove one", path,
                  s->nodes[i].key_place.line);
  if (s->n == MAX_EXPERIMENT_SETTINGS)
    return fail(r, ERR_LIMIT, value->key_place, "set: more than %d keys; put some into a job file",
                MAX_EXPERIMENT_SETTINGS);
  if (!s->nodes && !(s->nodes = calloc(MAX_EXPERIMENT_SETTINGS, sizeof *s->nodes)))
    return fail(r, ERR_NO_MEMORY, value->key_place, "%s", err_sentence(ERR_NO_MEMORY));
  struct tree *node = &s->nodes[s->n];
  *node = *value;
  node->key = strdup(path);
  if (!node->key)
    return fail(r, ERR_NO_MEMORY, value->key_place, "%s", err_sentence(ERR_NO_MEMORY));
  s->n++;
  struct tree *map = option_find(GROUP_SITE_JOB, path) ? &s->site : &s->job;
  node->next = map->first;
  map->first = node;
  return ERR_OK;
}

static enum err read_section(const struct reader *r, struct experiment_settings *s, const struct tree *map,
                             const char *section) {
  enum err e = ERR_OK;
  for (const struct tree *child = map->first; child && !e; child = child->next) {
    char path[MAX_REASON_BYTES - 8], rule[MAX_REASON_BYTES];
    snprintf(path, sizeof path, "%.100s%s%.100s", section, section[0] ? "." : "", child->key);
    snprintf(rule, sizeof rule, "%s.rule", path);
    if (!is_option(path) && child->kind == TREE_MAP && is_section(path))
      e = read_section(r, s, child, path);
    else
      e = add_setting(r, s, child, !is_option(path) && is_option(rule) && child->kind == TREE_TEXT ? rule : path);
  }
  return e;
}

/* Names are looked up when a configuration is made of them. */
static enum err read_set(const struct reader *r, const struct key *k, const struct tree *value, void *into) {
  struct experiment_settings *s = (void *)((char *)into + k->offset);
  if (value->kind != TREE_MAP)
    return fail(r, ERR_SYNTAX, value->place, "set: keys are expected here; write set: { KEY: VALUE }");
  return read_section(r, s, value, "");
}

static void settings_init(struct experiment_settings *s, struct place at) {
  s->job = s->site = (struct tree){.kind = TREE_MAP, .place = at};
}

static void settings_done(struct experiment_settings *s) {
  for (size_t i = 0; i < s->n; i++)
    free(s->nodes[i].key);
  free(s->nodes);
}

/* ---- methods ------------------------------------------------------------------------------------------------------ */

#define N_KEYS(keys) (sizeof(keys) / sizeof *(keys))
#define METHOD(field) offsetof(struct experiment_method, field)

static const struct key method_keys[] = {
    {"name", true, read_label, METHOD(name), 0, 0},
    {"topology", false, read_topology, METHOD(topology), 0, 0},
    {"degree", false, read_whole, METHOD(degree), 1, MAX_PEERS},
    {"attack", false, read_attack, METHOD(attack), 0, 0},
    {"attackers", false, read_whole, METHOD(n_attackers), 0, MAX_EXPERIMENT_AGENTS},
    {"set", false, read_set, METHOD(settings), 0, 0},
};

static enum err read_method(const struct reader *r, const struct tree *item, struct experiment_method *m) {
  const struct experiment *x = r->x;
  m->place = item->place;
  m->topology = x->topology;
  m->degree = x->degree;
  m->attack = x->attack;
  m->n_attackers = x->n_attackers;
  settings_init(&m->settings, item->place);
  enum err e = read_keys(r, method_keys, N_KEYS(method_keys), item, "methods[].", m);
  if (e)
    return e;
  for (const struct experiment_method *other = x->methods; other < m; other++)
    if (strcmp(other->name, m->name) == 0)
      return fail(r, ERR_EXISTS, item->place, "methods[].name: %s stands here twice; remove one", m->name);
  char why[MAX_REASON_BYTES];
  e = topology_check((enum topology)m->topology, (size_t)x->n_agents, (size_t)m->degree, why);
  if (e)
    return fail(r, e, item->place, "methods[].topology: %s", why);
  size_t degree = topology_degree((enum topology)m->topology, (size_t)x->n_agents, (size_t)m->degree);
  return degree <= MAX_PEERS
             ? ERR_OK
             : fail(r, ERR_LIMIT, item->place,
                    "methods[].topology: %zu peers an agent, at most %d are possible; write another one", degree,
                    MAX_PEERS);
}

/* After all other keys, for they are what a method has if it says nothing. */
static enum err read_methods(const struct reader *r, const struct tree *top) {
  const struct tree *list = child_of(top, "methods");
  size_t n = 0;
  enum err e = need_list(r, "methods", list, MAX_EXPERIMENT_METHODS, &n);
  for (const struct tree *item = list->first; item && !e; item = item->next)
    e = read_method(r, item, &r->x->methods[r->x->n_methods++]);
  return e;
}

/* ---- the file ----------------------------------------------------------------------------------------------------- */

static enum err read_later(const struct reader *r, const struct key *k, const struct tree *value, void *into) {
  (void)r;
  (void)k;
  (void)value;
  (void)into;
  return ERR_OK;
}

#define TOP(field) offsetof(struct experiment, field)

static const struct key top_keys[] = {
    {"name", true, read_label, TOP(name), 0, 0},
    {"agents", true, read_whole, TOP(n_agents), 1, MAX_EXPERIMENT_AGENTS},
    {"rounds", true, read_whole, TOP(n_rounds), 1, MAX_EXPERIMENT_ROUNDS},
    {"samples", false, read_whole, TOP(n_samples), 1, MAX_SAMPLES},
    {"seeds", true, read_seeds, 0, 0, 0},
    {"splits", true, read_splits, 0, 0, 0},
    {"topology", false, read_topology, TOP(topology), 0, 0},
    {"degree", false, read_whole, TOP(degree), 1, MAX_PEERS},
    {"attack", false, read_attack, TOP(attack), 0, 0},
    {"attackers", false, read_whole, TOP(n_attackers), 0, MAX_EXPERIMENT_AGENTS},
    {"hidden_groups", false, read_whole, TOP(n_groups), 1, MAX_CLASSES},
    {"job", false, read_job, 0, 0, 0},
    {"set", false, read_set, TOP(settings), 0, 0},
    {"methods", true, read_later, 0, 0, 0},
};

static const char *why_unread(enum err e) {
  switch (e) {
  case ERR_UNSUPPORTED:
    return "it is not a regular file";
  case ERR_NOT_FOUND:
    return "it does not exist; check the path";
  case ERR_LIMIT:
    return "it or its name is too long; such a file has at most 256 KiB";
  default:
    return err_sentence(e);
  }
}

static enum err read_tree(const struct reader *r, struct tree **out_tree) {
  char *bytes = NULL, sentence[MAX_REASON_BYTES];
  size_t n_bytes;
  struct place at = {0};
  enum err e = file_read(r->path, MAX_EXPERIMENT_BYTES, &bytes, &n_bytes);
  if (e)
    return fail(r, e, at, "%s", why_unread(e));
  e = tree_read(bytes, n_bytes, out_tree, &at, sentence);
  free(bytes);
  return e ? fail(r, e, at, "%s", sentence) : ERR_OK;
}

static enum err read_experiment(const struct reader *r) {
  struct experiment *x = r->x;
  enum err e = read_tree(r, &x->tree);
  if (e)
    return e;
  x->topology = TOPOLOGY_FULL;
  x->degree = 4;
  settings_init(&x->settings, x->tree->place);
  e = read_keys(r, top_keys, N_KEYS(top_keys), x->tree, "", x);
  if (!e)
    e = read_methods(r, x->tree);
  if (!e && x->job_path[0])
    e = read_tree(&(struct reader){x->job_path, x, r->why}, &x->job_tree);
  return e;
}

struct sim_learning_options experiment_options(const struct experiment *x, size_t method) {
  const struct experiment_method *m = &x->methods[method];
  return (struct sim_learning_options){.judged_from = x->n_rounds,
                                       .sets_rounds = true,
                                       .n_bad = (size_t)m->n_attackers,
                                       .attack = (enum attack)m->attack,
                                       .n_groups = (size_t)x->n_groups};
}

static enum err check_learning(const struct reader *r, const struct experiment *x, size_t method,
                               const struct config *c) {
  char sentence[MAX_REASON_BYTES];
  const struct sim_learning_options options = experiment_options(x, method);
  enum err e = sim_learning_check(&c->jobs[0], &options, (size_t)x->n_agents, sentence);
  if (!e)
    return ERR_OK;
  return fail(r, e, x->methods[method].place, "%s", sentence);
}

/* The job's own topology is a graph over all members, which every agent makes of those that it knows. */
static enum err check_graph(const struct reader *r, const struct experiment_method *m, const struct config *c) {
  const struct job_topology *t = &c->jobs[0].job.topology;
  char text[MAX_TOPOLOGY_TEXT];
  if (t->rule == GRAPH_PEERS || m->topology == TOPOLOGY_FULL || m->topology == TOPOLOGY_ALONE)
    return ERR_OK;
  job_topology_write(t, text);
  return fail(r, ERR_RANGE, m->place,
              "methods[].topology: of method %s is %s, so that agents know only some of the others, and the job's own "
              "topology, %s, "
              "is a graph of all; write topology: full, or take the job's out of `set`",
              m->name, topology_words[m->topology], text);
}

/* Each method with each split, so that nothing is found out after an hour. */
static enum err check_all(const struct reader *r) {
  const struct experiment *x = r->x;
  enum err e = ERR_OK;
  for (size_t m = 0; m < x->n_methods && !e; m++)
    for (size_t s = 0; s < x->n_splits && !e; s++) {
      struct config *c = NULL;
      e = experiment_config(x, &(struct experiment_run){m, s, x->seeds[0]}, &c, r->why);
      if (!e)
        e = check_graph(r, &x->methods[m], c);
      if (!e)
        e = check_learning(r, x, m, c);
      config_free(c);
    }
  return e;
}

enum err experiment_load(const char *path, struct experiment **out_experiment,
                         char out_why[MAX_CONFIG_WHY_BYTES]) { // NOLINT(readability-non-const-parameter): by the reader
  struct experiment *x = calloc(1, sizeof *x);
  struct reader r = {.path = path, .x = x, .why = out_why};
  if (!x)
    return fail(&r, ERR_NO_MEMORY, (struct place){0}, "%s", err_sentence(ERR_NO_MEMORY));
  enum err e = ERR_LIMIT;
  if (strlen(path) >= sizeof x->path)
    (void)fail(&r, e, (struct place){0}, "%s", why_unread(e));
  else
    e = read_experiment(&r);
  if (!e) {
    snprintf(x->path, sizeof x->path, "%s", path);
    e = check_all(&r);
  }
  if (e)
    experiment_free(x);
  else
    *out_experiment = x;
  return e;
}

void experiment_free(struct experiment *x) {
  if (!x)
    return;
  settings_done(&x->settings);
  for (size_t i = 0; i < x->n_methods; i++)
    settings_done(&x->methods[i].settings);
  tree_free(x->tree);
  tree_free(x->job_tree);
  free(x);
}

/* ---- runs --------------------------------------------------------------------------------------------------------- */

size_t experiment_runs(const struct experiment *x) {
  return x->n_methods * x->n_splits * x->n_seeds;
}

struct experiment_run experiment_run_at(const struct experiment *x, size_t i) {
  return (struct experiment_run){i / x->n_seeds / x->n_splits, i / x->n_seeds % x->n_splits, x->seeds[i % x->n_seeds]};
}

/* What follows from the experiment's own keys. */
struct own {
  struct tree map, nodes[12];
  size_t n;
  char agents[24], samples[24], rounds[24], seed[24];
};

static void own_put(struct own *o, const char *key, const char *text, struct place at) {
  MUST(o->n < sizeof o->nodes / sizeof *o->nodes);
  struct tree *node = &o->nodes[o->n++];
  *node = (struct tree){.kind = TREE_TEXT,
                        .place = at,
                        .key_place = at,
                        .key = (char *)(uintptr_t)key, /* read only */
                        .text = (char *)(uintptr_t)text,
                        .next = o->map.first};
  o->map.first = node;
}

static void own_init(struct own *o, const struct experiment *x, const struct experiment_run *run) {
  *o = (struct own){.map = {.kind = TREE_MAP, .place = x->methods[run->method].place}};
  snprintf(o->agents, sizeof o->agents, "%" PRIu64, x->n_agents);
  snprintf(o->samples, sizeof o->samples, "%" PRIu64, x->n_samples);
  snprintf(o->rounds, sizeof o->rounds, "%" PRIu64, x->n_rounds);
  snprintf(o->seed, sizeof o->seed, "%" PRIu64, run->seed);
}

static void own_job(struct own *o, const struct experiment *x, const struct experiment_run *run) {
  const struct tree *split = x->splits[run->split];
  struct place at = x->methods[run->method].place;
  own_init(o, x, run);
  own_put(o, "job", "experiment", at);
  own_put(o, "version", "1", at);
  own_put(o, "count", o->rounds, at);
  own_put(o, "split.rule", split->text, split->place);
  own_put(o, "split.n", o->agents, at);
  if (x->n_samples > 0)
    own_put(o, "split.samples", o->samples, at);
  own_put(o, "split.seed", o->seed, at);
  own_put(o, "init_seed", o->seed, at);
}

static void own_site(struct own *o, const struct experiment *x, const struct experiment_run *run) {
  struct place at = x->methods[run->method].place;
  own_init(o, x, run);
  own_put(o, "job", x->path, at);
  own_put(o, "data.part", "1", at);
  own_put(o, "train.seed", o->seed, at);
  own_put(o, "alone.shadow", "off", at);
}

enum err experiment_config(const struct experiment *x, const struct experiment_run *run, struct config **out_config,
                           char out_why[MAX_CONFIG_WHY_BYTES]) {
  const struct experiment_method *m = &x->methods[run->method];
  struct own job, site;
  own_job(&job, x, run);
  own_site(&site, x, run);
  const struct config_layer layers[] = {
      {x->path, GROUP_SITE_JOB, &site.map},         {x->path, GROUP_SITE_JOB, &m->settings.site},
      {x->path, GROUP_SITE_JOB, &x->settings.site}, {x->path, GROUP_JOB, &job.map},
      {x->path, GROUP_JOB, &m->settings.job},       {x->path, GROUP_JOB, &x->settings.job},
      {x->job_path, GROUP_JOB, x->job_tree}};
  size_t n_peers = topology_degree((enum topology)m->topology, (size_t)x->n_agents, (size_t)m->degree);
  return config_compose(layers, sizeof layers / sizeof *layers - (x->job_tree == NULL), n_peers, out_config, out_why);
}

/* ---- what a run is known by --------------------------------------------------------------------------------------- */

static void add_text(struct digest_state *state, const char *name, const char *text) {
  digest_blake2b.add(state, name, strlen(name) + 1);
  digest_blake2b.add(state, text, strlen(text) + 1);
}

static void add_number(struct digest_state *state, const char *name, uint64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, number);
  add_text(state, name, text);
}

static void add_file(struct digest_state *state, const char *path) {
  struct stat status;
  if (!path || stat(path, &status) != 0)
    return;
  add_number(state, path, (uint64_t)status.st_size);
  add_number(state, "s", (uint64_t)status.st_mtim.tv_sec);
  add_number(state, "ns", (uint64_t)status.st_mtim.tv_nsec);
}

struct digest experiment_run_id(const struct experiment *x, const struct experiment_run *run, const struct config *c) {
  const struct experiment_method *m = &x->methods[run->method];
  const struct site_job_config *s = &c->jobs[0];
  const char *const files[] = {s->train_path,  s->train_labels,     s->test_path,
                               s->test_labels, s->global_test_path, s->global_test_labels};
  struct digest_state state;
  struct digest id;
  digest_blake2b.init(&state);
  add_text(&state, "starling/v1/experiment", STARLING_VERSION);
  for (size_t i = 0; i < c->n_values; i++)
    if (strcmp(c->values[i].path, "jobs[].job") != 0) /* where the experiment stands */
      add_text(&state, c->values[i].path, c->values[i].text);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    add_file(&state, files[i]);
  add_text(&state, "topology", topology_words[m->topology]);
  add_number(&state, "degree", m->degree);
  add_number(&state, "agents", x->n_agents);
  if (m->n_attackers > 0 && m->attack != ATTACK_NONE) {
    add_text(&state, "attack", attack_name((enum attack)m->attack));
    add_number(&state, "attackers", m->n_attackers);
  }
  if (x->n_groups > 1)
    add_number(&state, "hidden groups", x->n_groups);
  add_number(&state, "seed", run->seed);
  digest_blake2b.end(&state, &id);
  return id;
}
