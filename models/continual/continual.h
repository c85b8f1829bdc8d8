/* Continual learning: the tasks of one site, one after the other, and what keeps the model from forgetting those before.
 *
 * It belongs to a learner, which asks it at the start of each training which task it is the turn of. Where that is another one than
 * before, the task that ends is *consolidated* first, with the model as it is then, which the last merge made:
 *
 *   replay   its samples are offered to the buffer (rehearsal.h)
 *   EWC      the Fisher information of the model on its samples joins F, and the model becomes θ*
 *   LwF      the model becomes the teacher
 *
 * With t tasks seen, the present one included, a step minimises
 *
 *   (1/t) L(new) + (1 − 1/t) L(batch of the buffer)              replay: mixed            (Rolnick et al. 2019)
 *   (1/t) L(new) + (1 − 1/t) T² KL(teacher ‖ model) on new inputs                LwF
 *   L(new) + ½ λ Σ F (θ − θ*)²                                   EWC
 *   L(new), its gradient projected                               replay: a-gem
 *
 * Where boundaries are *detected*, samples arrive in the order of the training set, and a site learns from those that came since the last
 * boundary. What is new is held against them before it is trained on (drift.h); where it is of another kind, the task that ends is
 * consolidated and the new samples begin the next one. Which task it is follows from most of their labels.
 *
 * Everything here follows from the data, the model and (train seed, part, round, sub), and its state is written and read whole, so that
 * a training that is repeated after a restart has the same bits.
 *
 * Memory: in continual_open, and in continual_fit when the net's layout changes. The learner's; the trainer thread only. */
#ifndef MODELS_CONTINUAL_CONTINUAL_H
#define MODELS_CONTINUAL_CONTINUAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/continual/drift.h"
#include "models/continual/regularise.h"
#include "models/continual/rehearsal.h"
#include "models/continual/tasks.h"
#include "models/data/dataset.h"
#include "models/net/loss.h"
#include "models/net/net.h"

enum boundaries { BOUNDARIES_ROUNDS, BOUNDARIES_DETECTED };
enum replay_use { REPLAY_MIXED, REPLAY_AGEM };
enum { MIN_FISHER_SAMPLES = 500 };

/* All of it must be the same at every agent but `offset` and `arrive`. */
struct continual_config {
  struct task_list tasks; /* n_tasks = 0: none, and nothing else counts */
  enum boundaries boundaries;
  uint32_t rounds;    /* BOUNDARIES_ROUNDS: that a task lasts … */
  uint32_t offset;    /* … and position p trains task (p + offset) mod n_tasks */
  double false_alarm; /* BOUNDARIES_DETECTED: chance of one a round … */
  uint32_t arrive;    /* … and samples that arrive a round; 0: all that there are */
  uint32_t replay;    /* samples a class; 0: no buffer */
  enum replay_rule replay_rule;
  enum replay_use replay_use;
  double ewc; /* λ; 0: none */
  enum ewc_rule ewc_rule;
  double ewc_decay;     /* γ */
  uint32_t ewc_samples; /* of a task's Fisher information; fewer where it has fewer */
  bool lwf;
};

struct continual;

/* For models of n_values and the training set, both for its life. ERR_RANGE: boundaries are given, and the training set has no sample
 * of a task (continual_task_without says of which), or it has none of any; ERR_LIMIT: the buffer would be larger than 1 GiB; ERR_NO_MEMORY. */
MUST_USE enum err continual_open(const struct continual_config *config, const struct dataset *train, size_t n_values,
                                 uint64_t train_seed, uint32_t part, struct continual **out_continual);
void continual_free(struct continual *c);

/* Another training set, in which more samples stand behind those of before. Errors as continual_open, the one of before then stays. */
MUST_USE enum err continual_reattach(struct continual *c, const struct dataset *train);

/* The first task without a training sample; n_tasks: each has one. */
size_t continual_task_without(const struct continual_config *config, const struct dataset *train);

/* Bytes that it takes beside the samples that it keeps and lists; n_floats: an array in the net's layout. ERR_LIMIT. */
MUST_USE enum err continual_memory(const struct continual_config *config, size_t n_values, size_t n_floats,
                                   size_t batch, size_t n_outputs, size_t *out_bytes);

/* Of boundaries that are given: the position in the site's order at a round, min((round − 1)/rounds, n_tasks − 1), and the task there. */
size_t continual_position(const struct continual_config *config, uint64_t round);
size_t continual_task_at(const struct continual_config *config, size_t position);

/* What the turn of a task works with. */
struct continual_turn {
  struct net *net;
  float *w;            /* the model in the net's layout; unchanged afterwards */
  const float *values; /* [n_values] the same in the order of the model */
  uint64_t round;
  uint32_t sub;
  size_t max_batch;
};

/* The start of a training: consolidates the task before where another one begins, takes what a step needs into the net's layout.
 * ERR_IO where samples are on disk, ERR_RANGE: there is no sample of the task any more, ERR_NO_MEMORY; after an error the
 * caller takes it back. */
MUST_USE enum err continual_begin(struct continual *c, const struct continual_turn *turn);

/* The state is as it was before the last continual_begin, whether that failed or not, to the bit: the training was not kept. Once;
 * without one there is nothing to do. */
void continual_undo(struct continual *c);

/* The training samples of the present task, as indices into the training set; at least one. Borrowed until the next
 * continual_begin. */
const uint32_t *continual_samples(const struct continual *c, size_t *out_n);

/* Whether a step does more than descend on the samples of the task: then it needs a gradient of its own. */
bool continual_adds(const struct continual_config *config);

/* Before the batch goes forwards, its n inputs being in the net: what the teacher says of them. The inputs stay. */
void continual_before(struct continual *c, struct net *net, size_t n);

/* What counts of the outputs z [n][k], and which is right, as in training. */
void continual_view(const struct continual *c, float *z, uint16_t *labels, size_t n, size_t k);

/* Once d_z [n][k] holds the gradient of the loss at the outputs z, as the model gave them. */
void continual_on_outputs(struct continual *c, const float *z, size_t n, size_t k, float *d_z);

/* Once g holds the gradient of the weights w, both in the net's layout; n samples of the buffer are rehearsed. The net's input and
 * outputs are lost. */
void continual_on_gradient(struct continual *c, struct net *net, const struct loss *loss, float *w, float *g, size_t n);

/* Where it stands: the position in the order, the task, tasks that were consolidated. */
struct continual_status {
  bool has_begun;
  size_t position, task, n_tasks, n_done;
  size_t n_replay;             /* samples in the buffer */
  size_t n_arrived, n_samples; /* of the training set, and those of the present task, at the last training */
  enum drift_test found; /* the boundary before the present task, and how likely it is by chance; none: it was given */
  double found_p;
};
struct continual_status continual_status(const struct continual *c);

/* The state as bytes. Errors on reading: ERR_CORRUPT (not of such a config, or damaged), ERR_TRUNCATED, ERR_TRAILING, ERR_TOO_NEW;
 * the state is untouched after one. */
size_t continual_bytes(const struct continual *c);
size_t continual_bound(const struct continual_config *config, size_t n_values, size_t n_inputs); /* at most */
void continual_write(const struct continual *c, uint8_t *out_bytes);
MUST_USE enum err continual_read(struct continual *c, const uint8_t *bytes, size_t n_bytes);

#endif
