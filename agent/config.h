/* The configuration: a job file that is equal on every site and a site file that is local.
 *
 * Both are YAML. Every scalar is read as text and converted by the one strict, locale-free converter with the mark's own
 * line and column; every key stands once in the option table of config.c, which is also the reference that
 * `starling config keys` prints. Anything unknown, doubled, of the wrong type or out of range is one line
 * `file:line:column: what, expected, nearest known key`, and nothing is started.
 *
 * Thread: read by main before any thread starts, const to all afterwards. Owner: main. */
#ifndef AGENT_CONFIG_H
#define AGENT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/topology.h"
#include "agent/option.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/limits.h"
#include "crypto/identity.h"
#include "models/clustering/groups.h"
#include "models/contract.h"
#include "models/learner.h"
#include "models/merging/rule.h"
#include "models/merging/statistic.h"
#include "models/net/layer.h"
#include "store/store.h"

enum merge_weights { WEIGHTS_METROPOLIS, WEIGHTS_SAMPLES, WEIGHTS_SIMILARITY };
enum average_rule { AVERAGE_NEIGHBOURS, AVERAGE_PUSH_SUM };
enum when_done { WHEN_DONE_EXIT, WHEN_DONE_SERVE };
enum shadow_mode { SHADOW_AUTO, SHADOW_ON, SHADOW_OFF };
enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };
enum metered { UNMETERED, METERED };
enum relay_mode { RELAY_OFF, RELAY_ON };
enum kernels_mode { KERNELS_MEASURED, KERNELS_BUILT_IN };
enum log_format { LOG_TEXT, LOG_JSON };

/* A class as a task of `continual.tasks` names it. */
struct listed_class {
  char name[MAX_NAME_BYTES];
  uint32_t task;
  struct place place;
};

/* Sites that are alike learn together (agent/core/cluster.h). */
struct cluster_settings {
  bool is_on;
  struct groups_wish groups;
  uint32_t steps; /* of pre-training, whose change is a site's direction */
  double kappa;   /* of mixing_affinity; 0: membership alone */
  double shift;   /* share of labels that moves before a site is placed anew; 1: never */
};

/* Layers of the model by name, or by their word for all of a kind. */
enum { MAX_PERSONAL_LAYERS = 32 };
struct layer_names {
  char list[MAX_PERSONAL_LAYERS][MAX_LAYER_NAME_BYTES];
  size_t n;
};

/* The job file: equal everywhere. */
struct job_config {
  char name[MAX_NAME_BYTES];
  uint32_t version;
  char run_label[MAX_NAME_BYTES]; /* "" ; tells apart runs of one job */
  struct contract *contract;
  char *arch; /* "dense 128, relu, dense classes"; once it is loaded with its personal layers */
  struct layer_names personal_layers;
  struct train_config train;
  bool is_steps_auto; /* train.steps: auto: the swarm's median of steps in an epoch */
  enum statistic_policy statistics;
  struct continual_config continual; /* its offset is the site's */
  struct listed_class *listed;       /* of continual.tasks, in order */
  size_t n_listed;
  struct cluster_settings cluster;
  enum average_rule average;
  struct job_topology topology;   /* directed with push-sum */
  uint64_t count;                 /* number of the last round; 0 = for ever */
  char init_name[MAX_NAME_BYTES]; /* warm start from this job … */
  uint32_t init_version;          /* … and version; 0: none */
  uint32_t activate_ready;        /* takes over serving when so many peers are ready; 0: people say so */
  char *text;                     /* the file as it stands, without a final NUL … */
  size_t n_text;                  /* … at most MAX_JOB_TEXT_BYTES where it is to travel */
  struct digest file;             /* of the canonical form, shown when it differs between peers */
};

static inline bool job_is_push_sum(const struct job_config *job) {
  return job->average == AVERAGE_PUSH_SUM;
}

/* The site's side of a job. */
struct site_job_config {
  char *job_path;
  struct job_config job;
  char *train_path, *train_labels;             /* labels: IDX and NumPy */
  char *test_path, *test_labels;               /* local test set; NULL: held out from train */
  char *global_test_path, *global_test_labels; /* a common test set; NULL: none */
  uint32_t part;                               /* of a split public set, 1 … n; 0 = the job splits nothing */
  uint32_t memory_max_mib;                     /* of samples; more are streamed */
  uint32_t continual_offset;                   /* of the site's order of tasks … */
  bool is_offset_by_part;                      /* … or the part − 1 */
  uint32_t arrive;                             /* samples that arrive a round; 0: all are there */
  bool watch;                                  /* the training data grow (agent/stream.h) */
  uint64_t train_seed;                         /* order and dropout only */
  enum merge_weights weights;
  double kappa;     /* of WEIGHTS_SIMILARITY */
  double max_share; /* cap of one peer's weight, whatever the rule */
  struct rule_setting rule;
  uint32_t min_peers; /* default 1 with peers, 0 without */
  double deadline_min_s, deadline_max_s;
  double meet_s;   /* how long an agent without a committed round waits for its peers */
  double linger_s; /* default 2 × deadline_max_s */
  double every_s;  /* between the starts of two trainings, at least */
  uint32_t alone_rounds;
  uint32_t staleness_max; /* τ */
  enum shadow_mode shadow;
  enum when_done when_done;
  enum serving_mode serve; /* until a command says otherwise */
};

struct peer_config {
  char name[MAX_NAME_BYTES];
  struct identity_key key;
  char address[MAX_ADDRESS_BYTES];  /* "" = it dials us */
  char origin[MAX_PATH_BYTES + 32]; /* file:line, shown by `config show` */
};

struct config {
  char path[MAX_PATH_BYTES]; /* of the site file; relative paths in it are relative to its folder */
  char swarm[MAX_NAME_BYTES];
  char name[MAX_NAME_BYTES];
  char key_file[MAX_PATH_BYTES];
  char passphrase_file[MAX_PATH_BYTES]; /* "" = prompt when needed and on a terminal */
  char state_dir[MAX_PATH_BYTES];
  char (*listen)[MAX_ADDRESS_BYTES];
  size_t n_listen;
  char advertise[MAX_ADDRESS_BYTES]; /* "" = what `listen` says */
  struct peer_config *peers;         /* ascending by key */
  size_t n_peers;
  struct identity_key *accept_keys; /* job files that one of these proposes are accepted at once */
  size_t n_accept_keys;
  uint32_t keep_last, keep_best; /* models in the store: the newest, and the best on the validation split */
  uint32_t store_max_mib;        /* 0: no cap */
  uint32_t payload_max_mib;
  uint32_t trace_mib;  /* 0: nothing is recorded */
  uint32_t follow_max; /* peers, at most: each costs a copy of the model in memory */
  enum kernels_mode kernels;
  enum metered metered;
  enum relay_mode relay; /* carries sessions of two peers */
  enum log_level log_level;
  enum log_format log_format;
  struct site_job_config *jobs; /* no two of one name, version and label */
  size_t n_jobs;

  struct config_value *values; /* every value in effect, as `config show` prints them */
  size_t n_values;
  char (*warnings)[MAX_REASON_BYTES]; /* what is allowed, but probably not meant */
  size_t n_warnings;
};

struct config_value {
  const struct option *option;
  const struct site_job_config *job; /* NULL: of the site or a peer */
  char *path;                        /* "peers[mec-03].key" */
  char *text;
  char *origin; /* "site.yaml:4", "STARLING_LOG_LEVEL" or "default" */
};

enum { MAX_CONFIG_WHY_BYTES = 2 * MAX_PATH_BYTES + 2 * MAX_REASON_BYTES, MAX_LISTEN = 16 };

/* Loads the site file, its job file and the files conf.d/NAME.yaml beside it (one peer each), and the STARLING_…
 * overrides of `environment` (NULL-terminated "NAME=value" strings, may be NULL). What can be known without the key file
 * and the data is checked. out_why is the one line for people: ERR_NOT_FOUND, ERR_PERMISSION, ERR_IO: a file; ERR_LIMIT: a
 * cap; ERR_SYNTAX: malformed, an unknown, missing or unfitting key; ERR_RANGE; ERR_EXISTS: something stands twice. */
MUST_USE enum err config_load(const char *path, const char *const *environment, struct config **out_config,
                              char out_why[MAX_CONFIG_WHY_BYTES]);
/* Loads a job file alone, as the one job of a config that has nothing else: no site, no data. Errors as config_load. */
MUST_USE enum err config_load_job(const char *path, struct config **out_config, char out_why[MAX_CONFIG_WHY_BYTES]);
void config_free(struct config *c);

/* The same without the jobs, for who does not have their files yet. */
MUST_USE enum err config_load_site(const char *path, const char *const *environment, struct config **out_config,
                                   char out_why[MAX_CONFIG_WHY_BYTES]);

/* Reads the text of a job file by the same rules; nothing in it names a file. `settings`: the site's side, taken over from
 * another version of the job, or NULL to judge the job file alone. Messages call it `label`. The caller frees the job with
 * config_job_free. Errors as config_load. */
MUST_USE enum err config_read_job(const struct config *site, const struct site_job_config *settings, const char *label,
                                  const char *text, size_t n_text, struct site_job_config **out_job,
                                  char out_why[MAX_CONFIG_WHY_BYTES]);
void config_job_free(struct site_job_config *job); /* NULL is allowed */

/* Settings from a map of keys, nested or with dots. */
struct config_layer {
  const char *file;        /* for messages */
  enum option_group group; /* GROUP_JOB, GROUP_SITE_JOB (paths are relative to the file's folder) */
  const struct tree *map;
};

/* A site of n_peers peers with one job, without files of its own, as an experiment makes many: where several layers give a key
 * the first one counts, and so stands the place of each in messages. Otherwise as config_load, whose errors it has; the
 * configuration has neither peers nor name, and of the values in effect those of the job. All is borrowed for the call. */
MUST_USE enum err config_compose(const struct config_layer *layers, size_t n_layers, size_t n_peers,
                                 struct config **out_config, char out_why[MAX_CONFIG_WHY_BYTES]);

/* The id of a job, by which peers and the store know it. */
struct digest config_job_id(const struct config *c, const struct job_config *job);

/* Whether the agent with this key can run this config: it is not one of its own peers. ERR_EXISTS. */
MUST_USE enum err config_check_key(const struct config *c, const struct identity_key *own,
                                   char out_why[MAX_CONFIG_WHY_BYTES]);

#endif
