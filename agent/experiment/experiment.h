/* An experiment: methods × splits × seeds over whole agents in one process, as people write it into a YAML file.
 *
 *   name: personalisation
 *   agents: 20                      parts of the set, one each
 *   rounds: 60
 *   samples: 60                     an agent, with its own test; without it all are divided
 *   seeds: [ 1, 2, 3 ]              of division, first weights, order of samples, links
 *   splits: [ dirichlet 0.3, iid ]  as split.rule of a job file
 *   topology: full                  agent/sim/topology.h; `degree` of random and regular
 *   job: fashion.job.yaml           a job file to begin with; or all of it stands in `set`
 *   set:                            keys of job file and site file (an entry of `jobs:`), nested or with dots
 *     data.train: /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
 *     train: { batch: 32, momentum: 0 }
 *   attackers: 4                    the last so many agents; no figure is of them, whatever they do
 *   attack: sign-flip               what they do (models/merging/attack.h); none: they behave
 *   hidden_groups: 2                groups of sites that number the classes otherwise (agent/sim/attackers.h)
 *   methods:                        a name, and what it sets beside that; its own topology, degree, attack, attackers
 *     - { name: alone, topology: alone }
 *     - { name: mean }
 *     - { name: samples, set: { merge.weights: samples } }
 *     - { name: clip under ipm, attack: ipm, set: { merge: clip } }
 *
 * A run is one method, split and seed: a simulated swarm (agent/sim) whose agents have the deployed agent's gossip node, round
 * machine and trainer. A topology of the job's own (`set: { topology: … }`) is a graph of all, so it needs `full` or `alone` here. Keys and values are those of the option table. Bounded: MAX_EXPERIMENT_… and the bounds of tree.h.
 * Errors are one line, "file:line:column: key: what is wrong; what to write", as of the configuration. Any thread. */
#ifndef AGENT_EXPERIMENT_EXPERIMENT_H
#define AGENT_EXPERIMENT_EXPERIMENT_H

#include "agent/config.h"
#include "agent/sim/learning.h"
#include "agent/sim/topology.h"
#include "agent/tree.h"

enum {
  MAX_EXPERIMENT_BYTES = 256 << 10,
  MAX_EXPERIMENT_AGENTS = 256,
  MAX_EXPERIMENT_ROUNDS = 100000,
  MAX_EXPERIMENT_METHODS = 64,
  MAX_EXPERIMENT_SPLITS = 16,
  MAX_EXPERIMENT_SEEDS = 100,
  MAX_EXPERIMENT_SETTINGS = 64, /* keys of one `set` */
};

/* One `set`: its keys with dots, sorted to job file and site file. */
struct experiment_settings {
  struct tree job, site; /* maps of `nodes` */
  struct tree *nodes;    /* [n], values borrowed of the file's tree */
  size_t n;
};

struct experiment_method {
  char name[MAX_NAME_BYTES];
  struct place place;
  unsigned topology; /* enum topology */
  uint64_t degree;
  unsigned attack;      /* enum attack */
  uint64_t n_attackers; /* the last ones */
  struct experiment_settings settings;
};

struct experiment {
  char path[MAX_PATH_BYTES], job_path[MAX_PATH_BYTES]; /* job_path "": none */
  char name[MAX_NAME_BYTES];
  uint64_t n_agents, n_rounds, n_samples; /* samples 0: all */
  unsigned topology;                      /* of methods that have none */
  uint64_t degree;
  unsigned attack;
  uint64_t n_attackers;
  uint64_t n_groups; /* hidden ones; 0: none */
  uint64_t seeds[MAX_EXPERIMENT_SEEDS];
  size_t n_seeds;
  const struct tree *splits[MAX_EXPERIMENT_SPLITS];
  size_t n_splits;
  struct experiment_settings settings;
  struct experiment_method methods[MAX_EXPERIMENT_METHODS]; /* no two of one name */
  size_t n_methods;
  struct tree *tree, *job_tree;
};

/* One run of it. */
struct experiment_run {
  size_t method, split;
  uint64_t seed;
};

/* Every method can be run with every split; the data are not looked at. Codes as of config_load. */
MUST_USE enum err experiment_load(const char *path, struct experiment **out_experiment,
                                  char out_why[MAX_CONFIG_WHY_BYTES]);
void experiment_free(struct experiment *x); /* NULL is allowed */

/* What its simulations learn by. */
struct sim_learning_options experiment_options(const struct experiment *x, size_t method);

size_t experiment_runs(const struct experiment *x);

/* In the order of the file: all seeds of the first method and split, then those of its next split, … */
struct experiment_run experiment_run_at(const struct experiment *x, size_t i);

/* What every agent of a run has: job file and site file in effect, data.part and train.seed aside. */
MUST_USE enum err experiment_config(const struct experiment *x, const struct experiment_run *run,
                                    struct config **out_config, char out_why[MAX_CONFIG_WHY_BYTES]);

/* Of everything that a run's result follows from, the data by size and time of their files: what was run once need not be run
 * again. The names of method and experiment are no part of it. */
struct digest experiment_run_id(const struct experiment *x, const struct experiment_run *run, const struct config *c);

#endif
