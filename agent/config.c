#include "agent/config.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/file.h"
#include "agent/option_type.h"
#include "agent/tree.h"
#include "base/must.h"
#include "crypto/digest.h"
#include "crypto/names.h"
#include "models/net/arch.h"
#include "models/schema.h"

struct loader {
  struct config *c;
  struct site_job_config *site_job;
  struct contract *contract;
  const char *const *environment;
  char folder[MAX_PATH_BYTES];
  struct tree *site, *job; /* job: of the job file */
  const struct tree *site_job_map;
  struct option_reader reader;
  char variables[MAX_OPTIONS][MAX_OPTION_NAME_BYTES + 16]; /* names of overrides in effect */
  char *why;
};

static const struct option *known(enum option_group group, const char *path) {
  const struct option *o = option_find(group, path);
  MUST(o != NULL);
  return o;
}

static bool is_given(const struct loader *l, enum option_group group, const char *path) {
  return option_is_given(&l->reader, known(group, path));
}

static const struct tree *group_map(const struct loader *l, enum option_group group) {
  return group == GROUP_JOB ? l->job : group == GROUP_SITE_JOB ? l->site_job_map : l->site;
}

/* Fails about an option, where it was given or else where its map begins. */
#define FAIL(l, group, key, e, ...)                                                                                    \
  (((l)->reader.file = (group) == GROUP_JOB ? (l)->site_job->job_path : (l)->c->path),                                 \
   option_fail(&(l)->reader, known(group, key), e, group_map(l, group), __VA_ARGS__))

static enum err no_memory(char *why) {
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s", err_sentence(ERR_NO_MEMORY));
  return ERR_NO_MEMORY;
}

__attribute__((format(printf, 2, 3))) static enum err warn(struct config *c, const char *format, ...) {
  void *grown = realloc(c->warnings, (c->n_warnings + 1) * sizeof *c->warnings);
  if (!grown)
    return ERR_NO_MEMORY;
  c->warnings = grown;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(c->warnings[c->n_warnings++], sizeof *c->warnings, format, arguments);
  va_end(arguments);
  return ERR_OK;
}

/* Half a sentence for a file that cannot be read. */
static const char *file_remedy(enum err e) {
  switch (e) {
  case ERR_NOT_FOUND:
    return "it does not exist; check the path, `starling init` makes a first one";
  case ERR_PERMISSION:
    return "access is not allowed; check owner and mode";
  case ERR_UNSUPPORTED:
    return "it is not a regular file";
  case ERR_LIMIT:
    return "it is larger than 256 KiB; is it the right file?";
  default:
    return err_sentence(e);
  }
}

static enum err read_bytes(const char *path, char **out_bytes, size_t *out_n_bytes, char *why) {
  enum err e = file_read(path, MAX_CONFIG_BYTES, out_bytes, out_n_bytes);
  if (!e)
    return ERR_OK;
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", path, file_remedy(e));
  return e == ERR_UNSUPPORTED ? ERR_IO : e;
}

/* The tree of what stands in a file, or came under its name; errors have their place. */
static enum err parse_tree(const char *path, const char *bytes, size_t n_bytes, struct tree **out_tree, char *why) {
  char sentence[MAX_REASON_BYTES];
  struct place at = {0};
  enum err e = tree_read(bytes, n_bytes, out_tree, &at, sentence);
  if (e && at.line)
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s:%u:%u: %s", path, at.line, at.column, sentence);
  else if (e)
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", path, sentence);
  return e;
}

static enum err read_tree(const char *path, struct tree **out_tree, char *why) {
  char *bytes;
  size_t n_bytes;
  enum err e = read_bytes(path, &bytes, &n_bytes, why);
  if (e)
    return e;
  e = parse_tree(path, bytes, n_bytes, out_tree, why);
  free(bytes);
  return e;
}

static const struct tree *child_of(const struct tree *map, const char *key) {
  for (const struct tree *child = map->first; child; child = child->next)
    if (strcmp(child->key, key) == 0)
      return child;
  return NULL;
}

/* ---- the environment ---------------------------------------------------------------------------------------------- */

/* STARLING_STORE_KEEP_LAST for store.keep_last. */
static void variable_name(const struct option *o, char out_name[MAX_OPTION_NAME_BYTES + 16]) {
  static const char from[] = "abcdefghijklmnopqrstuvwxyz.", to[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  snprintf(out_name, MAX_OPTION_NAME_BYTES + 16, "STARLING_%s", o->path);
  for (char *at = out_name; *at; at++) {
    const char *small = strchr(from, *at);
    if (small)
      *at = to[small - from];
  }
}

static const char *variable_value(const char *const *environment, const char *name) {
  size_t n = strlen(name);
  for (; environment && *environment; environment++)
    if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=')
      return *environment + n + 1;
  return NULL;
}

/* Every scalar of the site file can be overridden, those of a job while there is one; what must agree between sites stands
 * in files alone. */
static enum err read_environment(struct loader *l, enum option_group group) {
  enum err e = ERR_OK;
  for (size_t i = 0; i < n_options && !e; i++) {
    const struct option *o = &option_table[i];
    if (option_group(o) != group || o->type->is_list)
      continue;
    variable_name(o, l->variables[i]);
    const char *value = variable_value(l->environment, l->variables[i]);
    if (value && group == GROUP_SITE_JOB && l->c->n_jobs > 1) {
      snprintf(l->why, MAX_CONFIG_WHY_BYTES, "%s: it would count for one of %zu jobs; write it into %s instead",
               l->variables[i], l->c->n_jobs, l->c->path);
      return ERR_LIMIT;
    }
    if (value)
      e = option_read_variable(&l->reader, o, l->variables[i], value);
  }
  return e;
}

/* One group of the reader: the file, the environment, the defaults. */
static enum err read_group(struct loader *l, enum option_group group, const struct tree *map) {
  enum err e = option_read_map(&l->reader, group, map);
  if (!e && group != GROUP_JOB)
    e = read_environment(l, group);
  return e ? e : option_read_defaults(&l->reader, group, map);
}

/* ---- peers -------------------------------------------------------------------------------------------------------- */

static enum err read_peer(const char *file, const struct tree *map, struct peer_config *out_peer, char *why) {
  struct peer_config peer = {0};
  struct option_reader r = {.file = file, .folder = "", .bases = {[IN_PEER] = &peer}};
  r.why = why;
  enum err e = option_read_map(&r, GROUP_PEER, map);
  if (!e)
    e = option_read_defaults(&r, GROUP_PEER, map);
  if (e)
    return e;
  snprintf(peer.origin, sizeof peer.origin, "%s:%u", file, map->place.line);
  *out_peer = peer;
  return ERR_OK;
}

/* One file of conf.d. */
static enum err read_peer_file(const char *path, struct peer_config *out_peer, char *why) {
  struct tree *map = NULL;
  enum err e = read_tree(path, &map, why);
  if (!e)
    e = read_peer(path, map, out_peer, why);
  tree_free(map);
  return e;
}

/* Refuses a key or name that another peer has, naming both places. */
static enum err add_peer(struct config *c, const struct peer_config *peer, char *why) {
  for (size_t i = 0; i < c->n_peers; i++) {
    const struct peer_config *other = &c->peers[i];
    bool same_key = identity_key_equal(&other->key, &peer->key);
    if (same_key || strcmp(other->name, peer->name) == 0) {
      snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: peers[]: %s has the same %s as %s in %s; remove one", peer->origin,
               peer->name, same_key ? "key" : "name", other->name, other->origin);
      return ERR_EXISTS;
    }
  }
  if (c->n_peers >= MAX_PEERS) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: peers[]: more than %d peers; remove some", peer->origin, MAX_PEERS);
    return ERR_LIMIT;
  }
  struct peer_config *grown = realloc(c->peers, (c->n_peers + 1) * sizeof *grown);
  if (!grown)
    return no_memory(why);
  c->peers = grown;
  c->peers[c->n_peers++] = *peer;
  return ERR_OK;
}

static int is_peer_file(const struct dirent *entry) {
  size_t n = strlen(entry->d_name);
  return entry->d_name[0] != '.' && n > 5 && strcmp(entry->d_name + n - 5, ".yaml") == 0;
}

static int compare_names(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name); /* alphasort would follow the locale */
}

static enum err read_peer_folder(struct loader *l) {
  char folder[MAX_PATH_BYTES], path[MAX_PATH_BYTES];
  struct dirent **entries = NULL;
  struct peer_config peer;
  enum err e = path_join(l->folder, "conf.d", folder);
  int n = e ? 0 : scandir(folder, &entries, is_peer_file, compare_names);
  if (n < 0 && errno != ENOENT) {
    e = err_from_errno(errno);
    snprintf(l->why, MAX_CONFIG_WHY_BYTES, "%s: %s", folder, file_remedy(e));
  }
  for (int i = 0; i < n; i++) {
    if (!e)
      e = path_join(folder, entries[i]->d_name, path);
    if (!e)
      e = read_peer_file(path, &peer, l->why);
    if (!e)
      e = add_peer(l->c, &peer, l->why);
    free(entries[i]);
  }
  free(entries);
  return e;
}

static int compare_peers(const void *a, const void *b) {
  return identity_key_compare(&((const struct peer_config *)a)->key, &((const struct peer_config *)b)->key);
}

static enum err read_peers(struct loader *l) {
  enum err e = ERR_OK;
  const struct tree *list = child_of(l->site, "peers");
  struct peer_config peer;
  for (const struct tree *map = list ? list->first : NULL; map && !e; map = map->next) {
    e = read_peer(l->c->path, map, &peer, l->why);
    if (!e)
      e = add_peer(l->c, &peer, l->why);
  }
  if (!e)
    e = read_peer_folder(l);
  if (!e && l->c->n_peers)
    qsort(l->c->peers, l->c->n_peers, sizeof *l->c->peers, compare_peers);
  return e;
}

struct digest config_job_id(const struct config *c, const struct job_config *job) {
  struct swarm_id swarm = swarm_id(c->swarm);
  return job_id(&swarm, job->name, job->version, job->run_label);
}

enum err config_check_key(const struct config *c, const struct identity_key *own, char out_why[MAX_CONFIG_WHY_BYTES]) {
  for (size_t i = 0; i < c->n_peers; i++)
    if (identity_key_equal(&c->peers[i].key, own)) {
      snprintf(out_why, MAX_CONFIG_WHY_BYTES,
               "%s: peers[]: %s has this agent's own key; write the peer's key or remove it", c->peers[i].origin,
               c->peers[i].name);
      return ERR_EXISTS;
    }
  return ERR_OK;
}

/* ---- the job ------------------------------------------------------------------------------------------------------ */

static enum err new_jobs(struct loader *l) {
  const struct tree *list = child_of(l->site, "jobs");
  size_t n = 0;
  for (const struct tree *map = list->first; map; map = map->next)
    n++;
  if (n == 0)
    return FAIL(l, GROUP_SITE, "jobs", ERR_SYNTAX, "no job; write at least one");
  if (n > MAX_JOBS_IN_HELLO)
    return FAIL(l, GROUP_SITE, "jobs", ERR_LIMIT, "%zu jobs; an agent runs at most %d", n, MAX_JOBS_IN_HELLO);
  l->c->jobs = calloc(n, sizeof *l->c->jobs);
  if (!l->c->jobs)
    return no_memory(l->why);
  l->c->n_jobs = n;
  return ERR_OK;
}

/* What was given for the job before does not count for this one. */
static void begin_job(struct loader *l, struct site_job_config *job, const struct tree *map) {
  for (size_t i = 0; i < n_options; i++)
    if (option_group(&option_table[i]) == GROUP_SITE_JOB || option_group(&option_table[i]) == GROUP_JOB)
      l->reader.origins[i] = (struct option_origin){0};
  tree_free(l->job);
  l->job = NULL;
  l->site_job = job;
  l->site_job_map = map;
  l->reader.file = l->c->path;
  l->reader.bases[IN_SITE_JOB] = job;
}

/* Reads the text that the job has. */
static enum err read_job_text(struct loader *l) {
  struct job_config *job = &l->site_job->job;
  l->contract = job->contract = contract_new();
  if (!job->contract)
    return no_memory(l->why);
  enum err e = parse_tree(l->site_job->job_path, job->text, job->n_text, &l->job, l->why);
  if (e)
    return e;
  l->reader.file = l->site_job->job_path;
  l->reader.bases[IN_JOB] = job;
  l->reader.bases[IN_CONTRACT] = job->contract;
  return read_group(l, GROUP_JOB, l->job);
}

static enum err read_job_file(struct loader *l) {
  struct job_config *job = &l->site_job->job;
  enum err e = read_bytes(l->site_job->job_path, &job->text, &job->n_text, l->why);
  if (e == ERR_NOT_FOUND)
    return FAIL(l, GROUP_SITE_JOB, "job", e, "%s does not exist; fetch it with `starling job pull`, or copy it there",
                l->site_job->job_path);
  return e ? e : read_job_text(l);
}

/* ---- defaults that follow from other values ----------------------------------------------------------------------- */

static enum err fill_key_file(struct loader *l) {
  struct config *c = l->c;
  const char *credentials = variable_value(l->environment, "CREDENTIALS_DIRECTORY");
  if (is_given(l, GROUP_SITE, "key_file"))
    return ERR_OK;
  if (credentials && path_join(credentials, "agent.key", c->key_file) == ERR_OK && access(c->key_file, F_OK) == 0)
    return ERR_OK;
  return path_join(l->folder, "agent.key", c->key_file);
}

static void fill_site_job(struct loader *l) {
  struct site_job_config *s = l->site_job;
  bool has_peers = l->c->n_peers > 0;
  if (!is_given(l, GROUP_SITE_JOB, "round.min_peers"))
    s->min_peers = has_peers;
  if (!is_given(l, GROUP_SITE_JOB, "round.meet_s"))
    s->meet_s = has_peers ? 30 : 0;
  if (!is_given(l, GROUP_SITE_JOB, "round.linger_s"))
    s->linger_s = 2 * s->deadline_max_s;
}

static void fill_job(struct loader *l) {
  struct job_config *job = &l->site_job->job;
  if (!is_given(l, GROUP_JOB, "loss"))
    l->contract->loss = task_type(l->contract->task)->losses[0];
  l->contract->metric = contract_metric(l->contract);
  if (is_given(l, GROUP_JOB, "train.steps") && !is_given(l, GROUP_JOB, "train.epochs"))
    job->train.epochs = job->is_steps_auto; /* so many where the swarm's number is not known */
  if (!is_given(l, GROUP_JOB, "train.learning_rate"))
    job->train.learning_rate = job->train.optimiser.kind == OPTIMISER_SGD ? 0.05 : 0.001;
  job->train.total_rounds = job->count;
  job->topology.is_directed = job_is_push_sum(job);
  if (job_is_push_sum(job) && !is_given(l, GROUP_JOB, "merge.statistics"))
    job->statistics = STATISTIC_MEAN;
}

/* ---- what must fit together --------------------------------------------------------------------------------------- */

static enum err check_rounds(struct loader *l) {
  const struct site_job_config *s = l->site_job;
  if (s->deadline_min_s > s->deadline_max_s)
    return FAIL(l, GROUP_SITE_JOB, "round.deadline_min_s", ERR_RANGE,
                "%g is above round.deadline_max_s, which is %g; write a smaller one", s->deadline_min_s,
                s->deadline_max_s);
  if (s->every_s > s->deadline_max_s) {
    enum err e = warn(l->c,
                      "round.every_s is %g, but peers wait at most %g s for an update if they have our "
                      "round.deadline_max_s: they will call this agent slow",
                      s->every_s, s->deadline_max_s);
    if (e)
      return e;
  }
  size_t n_neighbours = job_topology_degree(&s->job.topology, l->c->n_peers + 1);
  if (s->min_peers > n_neighbours)
    return warn(l->c, "round.min_peers is %" PRIu32 ", but only %zu peers are %s: no round will get its number",
                s->min_peers, n_neighbours, n_neighbours < l->c->n_peers ? "averaged with in a round" : "configured");
  return ERR_OK;
}

static enum err check_training(struct loader *l) {
  const struct job_config *job = &l->site_job->job;
  if (is_given(l, GROUP_JOB, "train.steps") && is_given(l, GROUP_JOB, "train.epochs"))
    return FAIL(l, GROUP_JOB, "train.steps", ERR_EXISTS, "train.epochs is given too; remove one");
  if (job->train.schedule == SCHEDULE_COSINE && job->count == 0)
    return FAIL(l, GROUP_JOB, "train.schedule", ERR_SYNTAX, "cosine needs the last round; write count: N");
  return ERR_OK;
}

/* The classes of a group have numbers from here on. */
static enum err check_listed(struct loader *l) {
  struct job_config *job = &l->site_job->job;
  l->reader.file = l->site_job->job_path;
  for (const struct listed_class *c = job->listed; c < job->listed + job->n_listed; c++) {
    size_t class = 0;
    while (class < l->contract->n_classes && strcmp(l->contract->classes[class].text, c->name) != 0)
      class ++;
    if (class == l->contract->n_classes)
      return option_fail_at(&l->reader, ERR_RANGE, c->place,
                            "continual.tasks: there is no class \"%.60s\"; write one of `classes`, or add it there",
                            c->name);
    enum err e = task_list_put(&job->continual.tasks, class, c->task);
    if (e)
      return option_fail_at(&l->reader, e, c->place,
                            "continual.tasks: the class %.60s is in a task already; remove one", c->name);
  }
  return ERR_OK;
}

/* What continual learning cannot go with. */
static enum err check_continual_uses(struct loader *l) {
  const struct job_config *job = &l->site_job->job;
  const struct continual_config *c = &job->continual;
  if (l->contract->task != TASK_CLASSIFY)
    return FAIL(l, GROUP_JOB, "continual.tasks", ERR_RANGE,
                "tasks are groups of classes; write task: classify, or remove the line");
  bool is_detected = c->boundaries == BOUNDARIES_DETECTED;
  if (c->rounds == 0 && !is_detected)
    return FAIL(l, GROUP_JOB, "continual.rounds", ERR_SYNTAX,
                "is missing; write how many rounds a task lasts, or boundaries: detected");
  if (c->rounds > 0 && is_detected)
    return FAIL(l, GROUP_JOB, "continual.rounds", ERR_EXISTS, "continual.boundaries are detected; remove one of them");
  if (!is_detected && is_given(l, GROUP_JOB, "continual.false_alarm"))
    return FAIL(l, GROUP_JOB, "continual.false_alarm", ERR_RANGE, "is of boundaries: detected; remove the line");
  for (size_t i = 1; c->tasks.kind == INCREMENT_DOMAIN && i < c->tasks.n_tasks; i++)
    if (task_list_size(&c->tasks, i) != task_list_size(&c->tasks, 0))
      return FAIL(l, GROUP_JOB, "continual.tasks", ERR_RANGE,
                  "domain-incremental tasks have as many classes each; the first has %zu, task %zu has %zu",
                  task_list_size(&c->tasks, 0), i + 1, task_list_size(&c->tasks, i));
  if (job->train.label_smoothing > 0)
    return FAIL(l, GROUP_JOB, "train.label_smoothing", ERR_RANGE,
                "does not go with continual.tasks, where not every class counts; remove one of them");
  if (job->train.class_weights.rule != CLASS_WEIGHTS_NONE && c->tasks.kind == INCREMENT_DOMAIN)
    return FAIL(l, GROUP_JOB, "train.class_weights", ERR_RANGE,
                "are of classes, and domain-incremental outputs are places in a group; remove the line");
  if (c->replay_use == REPLAY_AGEM && c->replay == 0)
    return FAIL(l, GROUP_JOB, "continual.replay_use", ERR_RANGE, "a-gem needs samples; write continual.replay: 100");
  if (c->lwf && c->replay > 0 && c->replay_use == REPLAY_MIXED)
    return FAIL(l, GROUP_JOB, "continual.lwf", ERR_EXISTS,
                "continual.replay is mixed into the loss too; remove one of them");
  if (c->ewc > 0 && strstr(job->arch, "batchnorm") != NULL)
    return FAIL(l, GROUP_JOB, "continual.ewc", ERR_RANGE,
                "measures one sample at a time, which batchnorm cannot; write groupnorm or layernorm in `model`");
  return ERR_OK;
}

static enum err check_continual(struct loader *l) {
  static const char *const keys[] = {"continual.kind", "continual.rounds", "continual.replay", "continual.ewc",
                                     "continual.lwf"};
  struct job_config *job = &l->site_job->job;
  for (size_t i = 0; i < sizeof keys / sizeof *keys && job->n_listed == 0; i++)
    if (is_given(l, GROUP_JOB, keys[i]))
      return FAIL(l, GROUP_JOB, keys[i], ERR_SYNTAX, "continual.tasks is missing; write the groups of classes");
  if (job->n_listed == 0)
    return ERR_OK;
  if (task_list_init(&job->continual.tasks, job->continual.tasks.kind, l->contract->n_classes))
    return no_memory(l->why);
  enum err e = check_listed(l);
  return e ? e : check_continual_uses(l);
}

static enum err check_watch(struct loader *l) {
  const struct site_job_config *s = l->site_job;
  if (!s->watch)
    return ERR_OK;
  if (data_format_of(&(struct data_file){s->train_path, s->train_labels}) != DATA_CSV)
    return FAIL(l, GROUP_SITE_JOB, "data.watch", ERR_RANGE, "is for CSV files; remove the line");
  if (s->part > 0)
    return FAIL(l, GROUP_SITE_JOB, "data.watch", ERR_RANGE, "a part of a public set does not grow; remove the line");
  return ERR_OK;
}

/* Where this site stands in the order of tasks. */
static enum err check_offset(struct loader *l) {
  struct site_job_config *s = l->site_job;
  struct continual_config *c = &s->job.continual;
  bool is_detected = c->tasks.n_tasks > 0 && c->boundaries == BOUNDARIES_DETECTED;
  if (s->arrive > 0 && !is_detected)
    return FAIL(l, GROUP_SITE_JOB, "data.arrive", ERR_SYNTAX,
                "the job has no continual.boundaries: detected; remove the line");
  if (is_detected && (s->continual_offset > 0 || s->is_offset_by_part))
    return FAIL(l, GROUP_SITE_JOB, "continual.offset", ERR_EXISTS,
                "the order is that in which the data come, for continual.boundaries are detected; remove the line");
  c->arrive = s->arrive;
  if (c->tasks.n_tasks == 0) {
    if (s->continual_offset > 0 || s->is_offset_by_part)
      return FAIL(l, GROUP_SITE_JOB, "continual.offset", ERR_SYNTAX, "the job has no continual.tasks; remove the line");
    return ERR_OK;
  }
  if (s->is_offset_by_part && s->part == 0)
    return FAIL(l, GROUP_SITE_JOB, "continual.offset", ERR_SYNTAX,
                "the job splits nothing, so that there is no part; write a number");
  c->offset = s->is_offset_by_part ? s->part - 1 : s->continual_offset;
  return ERR_OK;
}

static bool counts_any(const struct class_weights *weights) {
  for (size_t i = 0; i < weights->n; i++)
    if (weights->values[i] > 0)
      return true;
  return false;
}

/* Settings that count only with some others: given without them they would be thought to count. */
static enum err check_train_uses(struct loader *l) {
  const struct train_config *t = &l->site_job->job.train;
  bool is_sgd = t->optimiser.kind == OPTIMISER_SGD, is_adam = !is_sgd;
  const struct {
    const char *path;
    bool counts;
    const char *remedy;
  } uses[] = {
      {"train.momentum", is_sgd, "is of sgd; remove the line, adam has beta1"},
      {"train.nesterov", is_sgd, "is of sgd; remove the line or write optimizer: sgd"},
      {"train.beta1", is_adam, "is of adam and adamw; remove the line, sgd has momentum"},
      {"train.beta2", is_adam, "is of adam and adamw; remove the line or write optimizer: adam"},
      {"train.epsilon", is_adam, "is of adam and adamw; remove the line or write optimizer: adam"},
      {"train.label_smoothing", l->contract->loss == LOSS_CROSS_ENTROPY,
       "is of the loss cross-entropy; remove the line"},
      {"train.huber_delta", l->contract->loss == LOSS_HUBER,
       "is of the loss huber; remove the line or write loss: huber"},
      {"train.class_weights", task_type(l->contract->task)->has_said_classes,
       "this task does not say classes; remove the line"},
  };
  for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
    if (!uses[i].counts && is_given(l, GROUP_JOB, uses[i].path))
      return FAIL(l, GROUP_JOB, uses[i].path, ERR_RANGE, "%s", uses[i].remedy);
  if (t->optimiser.nesterov && t->optimiser.momentum <= 0)
    return FAIL(l, GROUP_JOB, "train.nesterov", ERR_RANGE, "needs a momentum above 0; write one or remove the line");
  if (t->class_weights.rule == CLASS_WEIGHTS_GIVEN && t->class_weights.n != l->contract->n_classes)
    return FAIL(l, GROUP_JOB, "train.class_weights", ERR_RANGE, "%zu numbers for %zu classes; write one for each",
                t->class_weights.n, l->contract->n_classes);
  if (t->class_weights.rule == CLASS_WEIGHTS_GIVEN && !counts_any(&t->class_weights))
    return FAIL(l, GROUP_JOB, "train.class_weights", ERR_RANGE,
                "every class counts 0, so that nothing would be learnt; write a number above 0");
  return ERR_OK;
}

/* What counts only where sites are grouped. */
static enum err check_cluster(struct loader *l) {
  static const char *const keys[] = {"cluster.max", "cluster.steps", "cluster.kappa", "cluster.shift"};
  const struct cluster_settings *c = &l->site_job->job.cluster;
  for (size_t i = 0; !c->is_on && i < sizeof keys / sizeof *keys; i++)
    if (is_given(l, GROUP_JOB, keys[i]))
      return FAIL(l, GROUP_JOB, keys[i], ERR_RANGE, "counts only with groups; write cluster.groups: auto or a number");
  if (c->groups.n > 0 && is_given(l, GROUP_JOB, "cluster.max"))
    return FAIL(l, GROUP_JOB, "cluster.max", ERR_RANGE, "is of groups: auto; remove the line");
  const enum graph_rule rule = l->site_job->job.topology.rule;
  if (c->is_on && rule != GRAPH_PEERS && rule != GRAPH_FULL)
    return FAIL(l, GROUP_JOB, "cluster.groups", ERR_RANGE,
                "does not go with this topology, whose graph knows no groups, so that sites would have no neighbour of "
                "their own; remove the line topology or write groups: none");
  return ERR_OK;
}

/* What is given away in parts cannot be chosen among, and is told whole. */
static enum err check_average(struct loader *l) {
  const struct job_config *job = &l->site_job->job;
  const struct {
    const char *path;
    bool fits;
    const char *remedy;
  } uses[] = {
      {"codec", l->contract->codec.kind == CODEC_F32,
       "does not go with average: push-sum, whose sums are told whole; write f32"},
      {"merge.statistics", job->statistics == STATISTIC_MEAN,
       "does not go with average: push-sum, which gives them away as it does weights; write mean"},
      {"cluster.groups", !job->cluster.is_on,
       "does not go with average: push-sum, whose mass is that of all; write groups: none or average: neighbours"},
  };
  for (size_t i = 0; job_is_push_sum(job) && i < sizeof uses / sizeof *uses; i++)
    if (!uses[i].fits)
      return FAIL(l, GROUP_JOB, uses[i].path, ERR_RANGE, "%s", uses[i].remedy);
  return ERR_OK;
}

/* Weights are the sender's. */
static enum err check_average_here(struct loader *l) {
  const struct site_job_config *s = l->site_job;
  if (!job_is_push_sum(&s->job))
    return ERR_OK;
  if (s->rule.rule != RULE_MEAN)
    return FAIL(l, GROUP_SITE_JOB, "merge.rule", ERR_RANGE,
                "%s chooses among models, and average: push-sum of the job gives parts of sums; write mean",
                merge_rule_name(s->rule.rule));
  static const char *const keys[] = {"merge.weights", "merge.norm_bound", "merge.max_share"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (is_given(l, GROUP_SITE_JOB, keys[i]))
      return FAIL(l, GROUP_SITE_JOB, keys[i], ERR_RANGE,
                  "is of no use with average: push-sum of the job, where who gives says how much; remove the line");
  return ERR_OK;
}

/* Of more groups than there are agents each would be alone. */
static enum err check_groups(struct loader *l) {
  const struct cluster_settings *c = &l->site_job->job.cluster;
  if (!c->is_on || l->c->n_peers == 0 || c->groups.n <= l->c->n_peers + 1)
    return ERR_OK;
  return FAIL(l, GROUP_JOB, "cluster.groups", ERR_RANGE,
              "%" PRIu32 " groups are more than the %zu agents that this one knows with itself; write fewer, or auto",
              c->groups.n, l->c->n_peers + 1);
}

static enum err check_split(struct loader *l) {
  const struct split *split = &l->contract->split;
  if (split->rule == SPLIT_NONE && is_given(l, GROUP_JOB, "split.n"))
    return FAIL(l, GROUP_JOB, "split.n", ERR_SYNTAX,
                "there is no split.rule; write rule: iid, dirichlet ALPHA, shards K or groups K");
  if (split->rule != SPLIT_NONE && split->n_parts == 0)
    return FAIL(l, GROUP_JOB, "split.rule", ERR_SYNTAX, "split.n is missing; write into how many parts");
  return ERR_OK;
}

static enum err check_part(struct loader *l) {
  const struct split *split = &l->contract->split;
  const struct site_job_config *s = l->site_job;
  if (split->rule == SPLIT_NONE && s->part != 0)
    return FAIL(l, GROUP_SITE_JOB, "data.part", ERR_SYNTAX, "the job splits nothing; remove the line");
  if (split->rule != SPLIT_NONE && s->part == 0)
    return FAIL(l, GROUP_SITE_JOB, "data.part", ERR_SYNTAX, "is missing, the job splits the data; write 1 to %" PRIu32,
                split->n_parts);
  if (s->part > split->n_parts)
    return FAIL(l, GROUP_SITE_JOB, "data.part", ERR_RANGE, "%" PRIu32 " is out of range; write 1 to %" PRIu32, s->part,
                split->n_parts);
  return ERR_OK;
}

static enum err check_labels(struct loader *l) {
  static const struct {
    const char *samples, *labels;
  } pairs[] = {{"data.test", "data.test_labels"}, {"data.global_test", "data.global_test_labels"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (is_given(l, GROUP_SITE_JOB, pairs[i].labels) && !is_given(l, GROUP_SITE_JOB, pairs[i].samples))
      return FAIL(l, GROUP_SITE_JOB, pairs[i].labels, ERR_SYNTAX, "%s is missing; write where its samples are",
                  pairs[i].samples);
  return ERR_OK;
}

/* The contract's own judgement, said where the contract begins to be written. */
static enum err check_contract(struct loader *l) {
  char reason[MAX_REASON_BYTES];
  const struct contract *c = l->contract;
  if (task_type(c->task)->min_classes > 0 && c->n_classes == 0)
    return FAIL(l, GROUP_JOB, "classes", ERR_SYNTAX,
                "is missing; write the names in their order, as in [ ok, scratch ]");
  if (c->n_features == 0 && c->channels == 0)
    return FAIL(l, GROUP_JOB, "features", ERR_SYNTAX,
                "is missing; write the columns, or input: 28x28x1 for images, 128x9 for series");
  if (!task_takes_loss(c->task, c->loss))
    return FAIL(l, GROUP_JOB, "loss", ERR_RANGE, "does not fit task: %s; remove the line", task_name(c->task));
  enum err e = contract_check(c, reason);
  if (e)
    return FAIL(l, GROUP_JOB, contract_metric_fits(c) ? "task" : "metric", e, "%s", reason);
  static const char *const warnings[] = {
      [SCALE_NONE] = NULL,
      [SCALE_FIXED] = NULL,
      [SCALE_LOCAL] = "scale is local: each site then sees other inputs; numbers in the job file are better",
      [SCALE_POOLED] =
          "scale is pooled: the number of samples, and mean and sd of each feature, are told to the peers; "
          "every site needs every other as a peer",
  };
  return warnings[c->scale.rule] ? warn(l->c, "%s", warnings[c->scale.rule]) : ERR_OK;
}

/* From here on the architecture says which layers are personal. */
static enum err make_personal(struct loader *l) {
  struct job_config *job = &l->site_job->job;
  const struct layer_names *of = &job->personal_layers;
  const char *names[MAX_PERSONAL_LAYERS];
  char reason[MAX_REASON_BYTES], *text = NULL;
  for (size_t i = 0; i < of->n; i++)
    names[i] = of->list[i];
  if (of->n == 0)
    return ERR_OK;
  enum err e = arch_make_personal(job->arch, l->contract, names, of->n, &text, reason);
  if (e)
    return FAIL(l, GROUP_JOB, "personal.layers", e, "%s", reason);
  free(job->arch);
  job->arch = text; /* now the job's */
  return ERR_OK;
}

static enum err check_model(struct loader *l) {
  char reason[MAX_REASON_BYTES];
  struct schema *schema;
  size_t n_bytes;
  const uint32_t batch = l->site_job->job.train.batch;
  enum err e = schema_from_arch(l->site_job->job.arch, l->contract, &schema, reason);
  if (e)
    return FAIL(l, GROUP_JOB, "model", e, "%s", reason);
  schema_free(schema);
  if ((e = make_personal(l)) != ERR_OK)
    return e;
  if (schema_from_arch(l->site_job->job.arch, l->contract, &schema, reason))
    return no_memory(l->why); /* the same has been made before */
  const struct learner_config learner = {.schema = schema, .train = l->site_job->job.train};
  e = learner_memory(&learner, &n_bytes);
  schema_free(schema);
  if (e == ERR_LIMIT)
    return FAIL(l, GROUP_JOB, "model", e,
                "a batch of %" PRIu32
                " samples takes more than 1 GiB between its layers; make train.batch or the layers "
                "smaller",
                batch);
  return e ? no_memory(l->why) : ERR_OK;
}

static enum err check_memory(struct loader *l) {
  char reason[MAX_REASON_BYTES];
  struct schema *schema;
  enum err e = schema_from_arch(l->site_job->job.arch, l->contract, &schema, reason);
  if (e)
    return no_memory(l->why); /* check_model has made the same one */
  uint64_t copy = codec_full_bytes(schema_shared(schema)), mib = (copy + (1 << 20) - 1) >> 20;
  size_t n_followed = job_topology_follows(&l->site_job->job.topology, l->c->n_peers + 1);
  uint64_t all_mib = (n_followed * copy + (1 << 20) - 1) >> 20;
  schema_free(schema);
  if (l->c->n_peers && mib > l->c->payload_max_mib)
    return FAIL(l, GROUP_SITE, "payload_max_mib", ERR_RANGE,
                "%" PRIu32 " is too small for this model, whose full copy has %" PRIu64 " MiB; write at least that",
                l->c->payload_max_mib, mib);
  if (all_mib > l->c->payload_max_mib)
    return warn(l->c,
                "payload_max_mib is %" PRIu32 ", full copies of all %zu peers have %" PRIu64
                " MiB: rounds may miss updates for want of room",
                l->c->payload_max_mib, n_followed, all_mib);
  return ERR_OK;
}

/* As many of the configured peers as the rule is told may be bad: too many to be told from the good ones. */
static enum err check_rule(struct loader *l) {
  struct rule_setting s = l->site_job->rule;
  const size_t bucket = s.bucket > 1 ? s.bucket : 1,
               n_neighbours = job_topology_degree(&l->site_job->job.topology, l->c->n_peers + 1),
               n_rows = (n_neighbours + bucket) / bucket;
  const char *name = merge_rule_name(s.rule), *const each = bucket > 1 ? "buckets of models" : "models";
  const bool is_told = is_given(l, GROUP_SITE_JOB, "merge.byzantine") && s.byzantine != RULE_A_THIRD;
  const size_t f = is_told ? s.byzantine : 0, least = merge_rule_least(s.rule, f);
  if (is_told && (s.rule == RULE_MEAN || s.rule == RULE_TRUST))
    return FAIL(l, GROUP_SITE_JOB, "merge.byzantine", ERR_RANGE, "%s counts no bad ones; remove the line", name);
  if (s.rule == RULE_TRUST && l->site_job->job.personal_layers.n > 0)
    return FAIL(l, GROUP_SITE_JOB, "merge.rule", ERR_RANGE,
                "trust measures peers by the training of a whole model, and personal.layers of the job keep some here; "
                "write robust or another rule");
  if (bucket > 1 && !merge_rule_takes_buckets(s.rule))
    return FAIL(l, GROUP_SITE_JOB, "merge.bucketing", ERR_RANGE, "is of no use with %s; remove the line", name);
  if (n_neighbours == 0 || n_rows >= least)
    return ERR_OK;
  if (f > 0)
    return FAIL(
        l, GROUP_SITE_JOB, "merge.byzantine", ERR_RANGE,
        "with %zu bad ones %s needs at least %zu %s, and there are %zu with this agent's own; make it smaller or add "
        "peers",
        f, name, least, each, n_rows);
  return FAIL(l, GROUP_SITE_JOB, "merge.rule", ERR_RANGE,
              "%s needs at least %zu %s, and there are %zu with this agent's own; write robust or add peers", name,
              least, each, n_rows);
}

/* Rules that choose know no weights. */
static enum err check_weights(struct loader *l) {
  const struct site_job_config *s = l->site_job;
  if (s->weights != WEIGHTS_SIMILARITY && is_given(l, GROUP_SITE_JOB, "merge.kappa"))
    return FAIL(l, GROUP_SITE_JOB, "merge.kappa", ERR_RANGE,
                "is of merge.weights: similarity; write that too, or remove the line");
  if (s->weights == WEIGHTS_SIMILARITY && s->rule.rule != RULE_MEAN && s->rule.rule != RULE_CLIP)
    return FAIL(l, GROUP_SITE_JOB, "merge.weights", ERR_RANGE,
                "similarity is of no use with merge.rule %s; write mean or clip", merge_rule_name(s->rule.rule));
  return ERR_OK;
}

/* Following is what costs: memory for a copy of every followed peer's model, and its updates each round. */
static enum err check_follow(struct loader *l) {
  const struct config *c = l->c;
  const struct job_topology *t = &l->site_job->job.topology;
  char why[MAX_REASON_BYTES], text[MAX_TOPOLOGY_TEXT];
  enum err e = job_topology_check(t, c->n_peers + 1, why);
  if (e)
    return FAIL(l, GROUP_JOB, "topology", e, "%s", why);
  size_t n_followed = job_topology_follows(t, c->n_peers + 1);
  if (n_followed <= c->follow_max)
    return ERR_OK;
  if (t->rule == GRAPH_PEERS)
    return FAIL(l, GROUP_SITE, "follow_max", ERR_LIMIT,
                "%zu peers are configured, but at most %" PRIu32
                " may be followed; remove some, raise follow_max, or write topology: regular %" PRIu32
                " in the job file",
                c->n_peers, c->follow_max, c->follow_max < 4 ? 2 : 4);
  job_topology_write(t, text);
  return FAIL(l, GROUP_JOB, "topology", ERR_LIMIT,
              "%s takes updates of %zu peers, but follow_max of the site file is %" PRIu32
              "; raise follow_max, or write a topology of fewer",
              text, n_followed, c->follow_max);
}

/* Two jobs of one name, version and label would be one to every peer. */
static enum err check_distinct(struct loader *l) {
  const struct job_config *job = &l->site_job->job;
  for (const struct site_job_config *other = l->c->jobs; other < l->site_job; other++)
    if (strcmp(other->job.name, job->name) == 0 && other->job.version == job->version &&
        strcmp(other->job.run_label, job->run_label) == 0)
      return FAIL(l, GROUP_SITE_JOB, "job", ERR_EXISTS, "%s@%" PRIu32 " stands here twice; remove one", job->name,
                  job->version);
  return ERR_OK;
}

static enum err check_names(struct loader *l) {
  for (size_t i = 0; i < l->c->n_peers; i++)
    if (strcmp(l->c->peers[i].name, l->c->name) == 0)
      return warn(l->c, "peer %s in %s has this agent's name", l->c->name, l->c->peers[i].origin);
  return ERR_OK;
}

/* Step by step along the gradient: only then do the steps of a round say what the gradient was. */
static enum err check_drift(struct loader *l) {
  const struct train_config *t = &l->site_job->job.train;
  if (!t->control_variates || (optimiser_folds(&t->optimiser) && t->optimiser.momentum <= 0))
    return ERR_OK;
  return FAIL(l, GROUP_JOB, "train.control_variates", ERR_RANGE,
              "needs sgd without momentum, nesterov and clip_norm; write momentum: 0 beside it, or remove the line");
}

/* What a method of its own settings takes, and what it needs. */
static enum err check_personal(struct loader *l) {
  struct job_config *job = &l->site_job->job;
  struct personal_config *p = &job->train.personal;
  bool has_layers = job->personal_layers.n > 0, is_partial;
  if (has_layers && !is_given(l, GROUP_JOB, "personal.method"))
    p->method = PERSONAL_PARTIAL;
  is_partial = p->method == PERSONAL_PARTIAL;
  const struct {
    const char *path;
    bool counts;
    const char *remedy;
  } uses[] = {
      {"personal.layers", is_partial, "is of the method partial; write method: partial or remove the line"},
      {"personal.head_epochs", is_partial, "is of the method partial; write layers: [ … ] too, or remove the line"},
      {"personal.lambda", p->method == PERSONAL_DITTO,
       "is of the method ditto; write method: ditto or remove the line"},
  };
  for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
    if (!uses[i].counts && is_given(l, GROUP_JOB, uses[i].path))
      return FAIL(l, GROUP_JOB, uses[i].path, ERR_RANGE, "%s", uses[i].remedy);
  if (is_partial && !has_layers)
    return FAIL(l, GROUP_JOB, "personal.method", ERR_RANGE,
                "partial needs the layers that stay here; write layers: [ dense2 ] or the like");
  if (personal_type(p->method)->wants_validation && l->contract->validation <= 0)
    return FAIL(l, GROUP_JOB, "personal.method", ERR_RANGE,
                "%s chooses its mixture on validation samples; write validation: 0.1 or another method",
                personal_type(p->method)->word);
  if (personal_type(p->method)->n_models > 0 && job->continual.tasks.n_tasks > 0)
    return FAIL(l, GROUP_JOB, "personal.method", ERR_RANGE,
                "%s does not go with continual.tasks; write partial, none, or no tasks",
                personal_type(p->method)->word);
  return ERR_OK;
}

/* What a job file must be by itself, and what the site's settings must be for it. */
static enum err (*const job_checks[])(struct loader *) = {
    check_training, check_train_uses, check_drift,    check_personal,  check_cluster,
    check_average,  check_split,      check_contract, check_continual, check_model};
static enum err (*const site_checks[])(struct loader *) = {check_part,         check_labels, check_watch, check_offset,
                                                           check_follow,       check_memory, check_rule,  check_weights,
                                                           check_average_here, check_groups};

static enum err run_checks(struct loader *l, enum err (*const checks[])(struct loader *), size_t n) {
  enum err e = ERR_OK;
  for (size_t i = 0; i < n && !e; i++)
    e = checks[i](l);
  return e;
}

#define CHECK(l, checks) run_checks(l, checks, sizeof(checks) / sizeof *(checks))

/* ---- the values in effect ----------------------------------------------------------------------------------------- */

/* What `write` says, as a string; NULL: no memory. */
static char *value_text(const struct option_reader *r, const struct option *o) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  if (!out)
    return NULL;
  option_write(r, o, out);
  if (fclose(out) == 0)
    return text;
  free(text);
  return NULL;
}

static enum err add_value(struct config *c, const struct option_reader *r, const struct option *o, const char *path,
                          const char *origin) {
  struct config_value *grown = realloc(c->values, (c->n_values + 1) * sizeof *grown);
  if (!grown)
    return ERR_NO_MEMORY;
  c->values = grown;
  struct config_value *v = &c->values[c->n_values++];
  *v = (struct config_value){.option = o, .path = strdup(path), .text = value_text(r, o), .origin = strdup(origin)};
  return v->path && v->text && v->origin ? ERR_OK : ERR_NO_MEMORY;
}

static enum err add_peer_values(struct config *c) {
  enum err e = ERR_OK;
  for (size_t i = 0; i < c->n_peers; i++) {
    struct option_reader r = {.bases = {[IN_PEER] = &c->peers[i]}};
    for (const struct option *o = option_table; o < option_table + n_options && !e; o++) {
      char path[2 * MAX_NAME_BYTES];
      snprintf(path, sizeof path, "peers[%s].%s", c->peers[i].name, o->path);
      if (option_group(o) == GROUP_PEER)
        e = add_value(c, &r, o, path, c->peers[i].origin);
    }
  }
  return e;
}

static enum err add_values(struct loader *l, enum option_group group, const struct site_job_config *job) {
  enum err e = ERR_OK;
  for (const struct option *o = option_table; o < option_table + n_options && !e; o++) {
    const struct option_origin *from = &l->reader.origins[option_index(o)];
    char path[MAX_OPTION_NAME_BYTES], origin[MAX_PATH_BYTES + 16];
    if (option_group(o) != group)
      continue;
    option_name(o, path);
    if (from->file && from->place.line)
      snprintf(origin, sizeof origin, "%s:%u", from->file, from->place.line);
    else
      snprintf(origin, sizeof origin, "%s", from->file ? from->file : "default");
    if (strcmp(path, "peers") == 0)
      e = add_peer_values(l->c);
    else if (strcmp(path, "jobs") != 0)
      e = add_value(l->c, &l->reader, o, path, origin);
    if (!e && job)
      l->c->values[l->c->n_values - 1].job = job;
  }
  return e ? no_memory(l->why) : ERR_OK;
}

/* Where there are several jobs: "jobs[inspection].data.train" and "job[inspection].task"; a name that two versions share has
 * its version. */
static enum err name_value(const struct config *c, struct config_value *v) {
  const struct job_config *job = &v->job->job;
  size_t n_alike = 0;
  for (size_t i = 0; i < c->n_jobs; i++)
    n_alike += strcmp(c->jobs[i].job.name, job->name) == 0;
  char version[16] = "", path[2 * MAX_OPTION_NAME_BYTES + MAX_NAME_BYTES];
  if (n_alike > 1)
    snprintf(version, sizeof version, "@%" PRIu32, job->version);
  snprintf(path, sizeof path, "%s[%s%s].%s", option_group(v->option) == GROUP_JOB ? "job" : "jobs", job->name, version,
           v->option->path);
  free(v->path);
  v->path = strdup(path);
  return v->path ? ERR_OK : ERR_NO_MEMORY;
}

static enum err name_values(struct config *c) {
  enum err e = ERR_OK;
  for (size_t i = 0; i < c->n_values && c->n_jobs > 1 && !e; i++)
    if (c->values[i].job)
      e = name_value(c, &c->values[i]);
  return e;
}

/* H(one `path=value` line an option of the job file, in the order of the table). */
static enum err digest_job(struct loader *l) {
  struct digest_state state;
  digest_blake2b.init(&state);
  for (const struct option *o = option_table; o < option_table + n_options; o++) {
    if (option_group(o) != GROUP_JOB)
      continue;
    char *text = value_text(&l->reader, o);
    if (!text)
      return no_memory(l->why);
    digest_blake2b.add(&state, o->path, strlen(o->path));
    digest_blake2b.add(&state, "=", 1);
    digest_blake2b.add(&state, text, strlen(text));
    digest_blake2b.add(&state, "\n", 1);
    free(text);
  }
  digest_blake2b.end(&state, &l->site_job->job.file);
  return ERR_OK;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

/* Of a job whose keys are read: what follows from them, whether they fit, and what is in effect. */
static enum err settle_job(struct loader *l) {
  fill_site_job(l);
  fill_job(l);
  enum err e = check_distinct(l);
  if (!e)
    e = check_rounds(l);
  if (!e)
    e = CHECK(l, job_checks);
  if (!e)
    e = CHECK(l, site_checks);
  if (!e)
    e = add_values(l, GROUP_SITE_JOB, l->site_job);
  if (!e)
    e = add_values(l, GROUP_JOB, l->site_job);
  return e ? e : digest_job(l);
}

static enum err load_job(struct loader *l) {
  enum err e = read_group(l, GROUP_SITE_JOB, l->site_job_map);
  if (!e)
    e = read_job_file(l);
  return e ? e : settle_job(l);
}

static enum err load_jobs(struct loader *l) {
  enum err e = new_jobs(l);
  size_t i = 0;
  for (const struct tree *map = child_of(l->site, "jobs")->first; map && !e; map = map->next) {
    begin_job(l, &l->c->jobs[i++], map);
    e = load_job(l);
  }
  return e;
}

static enum err load_site(struct loader *l) {
  enum err e = read_tree(l->c->path, &l->site, l->why);
  if (!e)
    e = read_group(l, GROUP_SITE, l->site);
  if (!e)
    e = read_peers(l);
  if (!e)
    e = fill_key_file(l);
  return e ? e : add_values(l, GROUP_SITE, NULL);
}

static enum err load(struct loader *l) {
  enum err e = load_site(l);
  if (!e)
    e = load_jobs(l);
  if (!e)
    e = check_names(l);
  if (!e && name_values(l->c))
    e = no_memory(l->why);
  return e;
}

/* The job file alone: everything of it that can be judged without a site. */
static enum err load_only_job(struct loader *l) {
  l->c->jobs = calloc(1, sizeof *l->c->jobs);
  if (!l->c->jobs)
    return no_memory(l->why);
  l->c->n_jobs = 1;
  l->site_job = &l->c->jobs[0];
  l->site_job->job_path = strdup(l->c->path);
  enum err e = l->site_job->job_path ? read_job_file(l) : no_memory(l->why);
  if (e)
    return e;
  fill_job(l);
  return CHECK(l, job_checks);
}

static void loader_free(struct loader *l) {
  if (!l)
    return;
  tree_free(l->site);
  tree_free(l->job);
  free(l);
}

/* For the site file at `path`; its jobs only when all of it is wanted. */
static enum err load_from(const char *path, const char *const *environment, enum err (*what)(struct loader *l),
                          struct config **out_config, char *out_why) {
  if (strlen(path) >= MAX_PATH_BYTES) {
    snprintf(out_why, MAX_CONFIG_WHY_BYTES, "the path of the file is too long");
    return ERR_LIMIT;
  }
  struct config *c = calloc(1, sizeof *c);
  struct loader *l = calloc(1, sizeof *l);
  enum err e = c && l ? ERR_OK : no_memory(out_why);
  if (!e) {
    snprintf(c->path, sizeof c->path, "%s", path);
    path_folder(path, l->folder);
    l->c = c;
    l->environment = environment;
    l->why = out_why;
    l->reader = (struct option_reader){.file = c->path, .folder = l->folder, .bases = {[IN_SITE] = c}, .why = out_why};
    snprintf(out_why, MAX_CONFIG_WHY_BYTES, "%s: a path is too long", path);
    e = what(l);
  }
  loader_free(l);
  if (e) {
    config_free(c);
    return e;
  }
  *out_config = c;
  return ERR_OK;
}

enum err config_load(const char *path, const char *const *environment, struct config **out_config,
                     char out_why[MAX_CONFIG_WHY_BYTES]) {
  return load_from(path, environment, load, out_config, out_why);
}

enum err config_load_site(const char *path, const char *const *environment, struct config **out_config,
                          char out_why[MAX_CONFIG_WHY_BYTES]) {
  return load_from(path, environment, load_site, out_config, out_why);
}

enum err config_load_job(const char *path, struct config **out_config, char out_why[MAX_CONFIG_WHY_BYTES]) {
  return load_from(path, NULL, load_only_job, out_config, out_why);
}

/* ---- a job file that did not come from this site's disk ------------------------------------------------------------- */

static char *copy_text(const char *text, bool *has_failed) {
  char *copy = text ? strdup(text) : NULL;
  *has_failed |= text && !copy;
  return copy;
}

/* The site's side of a job, for another version of it. */
static enum err copy_settings(const struct site_job_config *from, struct site_job_config *to) {
  bool has_failed = false;
  char *label = to->job_path;
  struct job_config job = to->job;
  *to = *from;
  to->job_path = label;
  to->job = job;
  to->train_path = copy_text(from->train_path, &has_failed);
  to->train_labels = copy_text(from->train_labels, &has_failed);
  to->test_path = copy_text(from->test_path, &has_failed);
  to->test_labels = copy_text(from->test_labels, &has_failed);
  to->global_test_path = copy_text(from->global_test_path, &has_failed);
  to->global_test_labels = copy_text(from->global_test_labels, &has_failed);
  return has_failed ? ERR_NO_MEMORY : ERR_OK;
}

static enum err load_text(struct loader *l, const struct site_job_config *settings, const char *label, const char *text,
                          size_t n_text) {
  bool has_failed = false;
  l->site_job->job_path = copy_text(label, &has_failed);
  l->site_job->job.text = malloc(n_text + 1);
  if (has_failed || !l->site_job->job.text)
    return no_memory(l->why);
  memcpy(l->site_job->job.text, text, n_text);
  l->site_job->job.n_text = n_text;
  if (settings && copy_settings(settings, l->site_job))
    return no_memory(l->why);
  enum err e = read_job_text(l);
  if (e)
    return e;
  fill_job(l);
  e = CHECK(l, job_checks);
  if (!e && settings)
    e = CHECK(l, site_checks);
  return e ? e : digest_job(l);
}

enum err config_read_job(const struct config *site, const struct site_job_config *settings, const char *label,
                         const char *text, size_t n_text, struct site_job_config **out_job,
                         char out_why[MAX_CONFIG_WHY_BYTES]) {
  struct config *scratch = calloc(1, sizeof *scratch); /* what the checks ask of a site, and their warnings */
  struct loader *l = calloc(1, sizeof *l);
  struct site_job_config *job = calloc(1, sizeof *job);
  enum err e = scratch && l && job ? ERR_OK : no_memory(out_why);
  if (!e) {
    memcpy(scratch->path, site->path, sizeof scratch->path);
    scratch->n_peers = site->n_peers;
    scratch->payload_max_mib = site->payload_max_mib;
    scratch->follow_max = site->follow_max;
    *l = (struct loader){.c = scratch, .site_job = job, .why = out_why};
    l->reader = (struct option_reader){.file = scratch->path, .folder = "", .why = out_why};
    e = load_text(l, settings, label, text, n_text);
    scratch->n_peers = 0;
  }
  loader_free(l);
  config_free(scratch);
  if (e) {
    config_job_free(job);
    return e;
  }
  *out_job = job;
  return ERR_OK;
}

/* ---- a job of layers ---------------------------------------------------------------------------------------------- */

static enum err read_layers(struct loader *l, const struct config_layer *layers, size_t n, enum option_group group) {
  char folder[MAX_PATH_BYTES];
  enum err e = ERR_OK;
  for (size_t i = 0; i < n && !e; i++) {
    if (layers[i].group != group)
      continue;
    path_folder(layers[i].file, folder);
    l->reader.file = layers[i].file;
    l->reader.folder = folder;
    e = option_read_map(&l->reader, group, layers[i].map);
    l->reader.folder = l->folder;
  }
  return e ? e : option_read_defaults(&l->reader, group, group_map(l, group));
}

/* The first map of a group, for what stands nowhere. */
static const struct tree *first_map(const struct config_layer *layers, size_t n, enum option_group group) {
  for (size_t i = 0; i < n; i++)
    if (layers[i].group == group)
      return layers[i].map;
  return NULL;
}

static enum err compose(struct loader *l, const struct config_layer *layers, size_t n) {
  struct config *c = l->c;
  c->payload_max_mib = UINT32_MAX; /* there is as much as is needed */
  c->follow_max = MAX_PEERS;
  c->jobs = calloc(1, sizeof *c->jobs);
  if (!c->jobs || !(c->jobs[0].job.contract = contract_new()))
    return no_memory(l->why);
  c->n_jobs = 1;
  l->site_job = &c->jobs[0];
  l->contract = l->site_job->job.contract;
  l->reader.bases[IN_SITE_JOB] = l->site_job;
  l->reader.bases[IN_JOB] = &l->site_job->job;
  l->reader.bases[IN_CONTRACT] = l->contract;
  l->reader.keeps_given = true;
  enum err e = read_layers(l, layers, n, GROUP_SITE_JOB);
  if (!e)
    e = read_layers(l, layers, n, GROUP_JOB);
  return e ? e : settle_job(l);
}

enum err config_compose(const struct config_layer *layers, size_t n_layers, size_t n_peers, struct config **out_config,
                        char out_why[MAX_CONFIG_WHY_BYTES]) {
  struct config *c = calloc(1, sizeof *c);
  struct loader *l = calloc(1, sizeof *l);
  enum err e = c && l ? ERR_OK : no_memory(out_why);
  if (!e) {
    const struct tree *site_job = first_map(layers, n_layers, GROUP_SITE_JOB);
    const struct tree *job = first_map(layers, n_layers, GROUP_JOB);
    MUST(site_job && job);
    *l = (struct loader){.c = c, .site_job_map = site_job, .job = (struct tree *)(uintptr_t)job, .why = out_why};
    snprintf(c->path, sizeof c->path, "%s", layers[0].file);
    l->reader = (struct option_reader){.file = c->path, .folder = l->folder, .why = out_why};
    c->n_peers = n_peers;
    e = compose(l, layers, n_layers);
    c->n_peers = 0;
    l->job = NULL; /* borrowed */
  }
  loader_free(l);
  if (e) {
    config_free(c);
    return e;
  }
  *out_config = c;
  return ERR_OK;
}

static void site_job_done(struct site_job_config *s) {
  contract_free(s->job.contract);
  free(s->job.arch);
  free(s->job.text);
  free(s->job.train.class_weights.values);
  free(s->job.listed);
  task_list_done(&s->job.continual.tasks);
  char *const texts[] = {s->job_path,    s->train_path,       s->train_labels,      s->test_path,
                         s->test_labels, s->global_test_path, s->global_test_labels};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    free(texts[i]);
}

void config_job_free(struct site_job_config *job) {
  if (job)
    site_job_done(job);
  free(job);
}

void config_free(struct config *c) {
  if (!c)
    return;
  for (size_t i = 0; i < c->n_jobs; i++)
    site_job_done(&c->jobs[i]);
  for (size_t i = 0; i < c->n_values; i++) {
    free(c->values[i].path);
    free(c->values[i].text);
    free(c->values[i].origin);
  }
  free(c->values);
  free(c->warnings);
  free(c->jobs);
  free(c->peers);
  free(c->listen);
  free(c->accept_keys);
  free(c);
}
