/* Work that the round machine hands to the trainer and the scribe, and what comes back.
 *
 * Every structure is made by its sender on the heap and moved; trainer_job_free and its sisters free it with whatever is
 * still inside, and take NULL. */
#ifndef AGENT_CORE_WORK_H
#define AGENT_CORE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/limits.h"
#include "crypto/manifest.h"
#include "models/clustering/sketch.h"
#include "models/data/scale.h"
#include "models/judging/metrics.h"
#include "store/store.h"

/* Bytes on the heap, moved. */
struct buffer {
  uint8_t *bytes;
  size_t n_bytes;
};

/* ---- trainer ------------------------------------------------------------------------------------------------------ */

/* The model that is trained alone beside the swarm's, after its last training (agent/run/shadow.h). */
struct shadow_figures {
  bool is_on;
  uint64_t n_trainings, n_steps; /* in all */
  double seconds, headline;      /* of the last one; headline on the local test set, NaN: none */
  double share;                  /* of a round's time that training and storing take, median of the last rounds */
  size_t memory_bytes;           /* of its learner */
};

/* Where a job with tasks stands after its last training (models/continual/continual.h). */
struct continual_figures {
  bool is_on;
  uint32_t position, task, n_tasks, n_done; /* place in this site's order, and the task there, from 0 */
  uint64_t n_replay;                        /* samples that are kept of tasks that are over */
  uint64_t n_samples, n_arrived;            /* of the present task; of all */
  char found[16];                           /* the test that ended the task before, "" where its rounds were over … */
  double found_p;                           /* … and the chance of that without drift */
};

/* The account of push-sum as the trainer left it (agent/core/mass.h). */
struct mass_figures {
  bool is_on;
  double held, written_off;
  struct mass_given {
    double told, taken;
  } * peers; /* [n_peers] to and of each, in all; owned */
};

enum trainer_job_kind {
  JOB_LOAD,    /* open data and learner, restore what `half` and `model` hold (either may be empty) */
  JOB_TRAIN,   /* local steps, then encode: answered with payload and half */
  JOB_MERGE,   /* own x̂' is durable; apply links, merge, evaluate: answered with the model (and a half for a jump) */
  JOB_ADOPT,   /* apply links, x := median of the copies, evaluate: answered with model and half */
  JOB_SCALE,   /* standardise by `scale` from now on, once, before the first training */
  JOB_RESTORE, /* take half and model as they are, peers' copies stay; what was trained is forgotten. After an error the
                  model is as it was committed last */
  JOB_UNDO,    /* of a JOB_RESTORE that was not committed: the model is as it was committed last */
};

/* One link of a peer's chain, or a full copy, as it came. */
struct link_in {
  struct manifest manifest;
  uint8_t *payload; /* NULL for kind none */
};

/* A peer in a merge, in key order. */
struct merge_peer {
  size_t peer;           /* = its copy in the learner */
  struct link_in *links; /* in sequence order, a full copy first */
  size_t n_links;
  bool use;      /* give it weight once its links are applied */
  double weight; /* w_j, lag included */
  uint32_t lag;
  /* out: */
  enum err
      reason; /* of a link that failed (ERR_ROOT, ERR_LENGTH, ERR_NON_FINITE): not merged, links after it dropped */
  size_t n_applied;
  uint8_t fate;           /* enum fate (models/merging/rule.h) */
  double distance, share; /* of its copy from ours, and with which weight that went in */
};

struct trainer_job {
  enum trainer_job_kind kind;
  struct round_label label;  /* the label in work */
  struct buffer half, model; /* JOB_LOAD, JOB_RESTORE */
  struct scale scale;        /* JOB_SCALE */
  double rate_scale;         /* JOB_TRAIN */
  uint32_t steps;            /* JOB_TRAIN: 0 = as the job file says */
  bool start_chain;          /* JOB_TRAIN */
  bool *told;                /* JOB_TRAIN of push-sum: [n_peers] to whom mass is given; NULL: to nobody */
  uint64_t account;          /* JOB_TRAIN of push-sum: the boot epoch, as the number of an account that begins */
  bool begins_anew;          /* JOB_TRAIN of push-sum: the account of mass was lost, or is an old one */
  bool wants_copy_root;      /* JOB_TRAIN */
  bool whole_snapshot;       /* JOB_MERGE: answer with a half too */
  bool is_import;            /* JOB_RESTORE: the model alone, from elsewhere; answered with model and half */
  bool is_withheld;          /* JOB_MERGE: what was encoded before was not published */
  struct merge_peer *peers;  /* JOB_MERGE, JOB_ADOPT */
  size_t n_peers;
};

struct trainer_result {
  enum trainer_job_kind kind;
  struct round_label label;
  /* JOB_TRAIN: the model is as before the job; JOB_MERGE: ERR_MERGE_REFUSED = own half-step kept; JOB_ADOPT:
   * ERR_NOT_FOUND = no copy was usable. Any other error of the last two must end the process: the model is in between. */
  enum err error;
  char sentence[MAX_PATH_BYTES +
                2 * MAX_REASON_BYTES]; /* JOB_LOAD: file, place and remedy, or a warning; JOB_MERGE: a warning */

  /* JOB_LOAD: sizes of the local sets. JOB_TRAIN: what the manifest says. */
  uint32_t n_samples, n_validation, n_test, n_global_test;
  uint32_t epoch_steps;                   /* JOB_LOAD: in one pass over the training samples */
  uint64_t samples_bytes, streamed_bytes; /* JOB_LOAD: of all sets, in memory and on disk */

  /* JOB_LOAD with pooled scaling: the numbers kept with the model, else (n = 0) the statistics of the training samples. */
  struct scale scale;
  struct scale_stats stats;

  uint32_t local_steps;
  double train_loss, seconds; /* loss: NaN after a training that failed */

  struct buffer payload; /* JOB_TRAIN */
  struct digest payload_root;
  double mass;                 /* push-sum: of the sum */
  struct mass_figures account; /* any kind */
  struct buffer half;
  uint64_t copy_offset, n_copy; /* where x̂ stands in the half */
  struct digest copy_root;      /* Merkle root of those bytes where it was wanted, else zeros */

  struct buffer model; /* JOB_MERGE, JOB_ADOPT */
  struct store_metrics metrics;
  struct store_tasks tasks; /* JOB_MERGE, JOB_ADOPT */
  double
      local_right; /* of the local test, also where it has one class and so no headline; NaN: the task says no classes */
  struct buffer shadow;                                             /* empty: none */
  char local_note[MAX_REASON_BYTES], global_note[MAX_REASON_BYTES]; /* why a test set has no headline, or "" */
  struct merge_peer *peers;                                         /* moved back, links freed */
  size_t n_peers;

  char warm_note[2 * MAX_REASON_BYTES];   /* JOB_LOAD: which tensors came from another job's model, or "" */
  struct shadow_figures shadow_figures;   /* any kind */
  struct continual_figures continual;     /* any kind */
  bool is_stream_refused;                 /* JOB_TRAIN: of watched data that changed, what came is not taken … */
  char stream_note[2 * MAX_REASON_BYTES]; /* … and why, or what is lost; "" where there is nothing to tell */
  bool has_new_task;                      /* JOB_TRAIN: it began with this training */
  char shadow_note[MAX_REASON_BYTES];     /* any kind: what is worth a line in the log, or "" */

  /* JOB_LOAD, JOB_SCALE, JOB_TRAIN of a job that is clustered: this site's sketch where it is news, and why there is none, or "" */
  bool has_sketch;
  struct sketch sketch;
  char sketch_note[MAX_REASON_BYTES];
};

void trainer_job_free(struct trainer_job *job);
void trainer_result_free(struct trainer_result *result);

/* ---- scribe ------------------------------------------------------------------------------------------------------- */

enum scribe_job_kind {
  SCRIBE_PUBLISH,
  SCRIBE_COMMIT,
  SCRIBE_EVENT,
  SCRIBE_RAISE_EPOCH,
  SCRIBE_LOAD_MODEL, /* a kept snapshot's bytes: answered with half and model, or with the model of a file, which is removed */
  SCRIBE_ROLL_BACK, /* commits it as what to go on from */
  SCRIBE_QUERY,     /* rounds for a CLI client */
  SCRIBE_EVENTS,    /* events for one */
  SCRIBE_CHANGE,    /* a pin or the serving pointer for one */
  SCRIBE_MEASURE,   /* room is measured, as after every publication and commit */
  SCRIBE_CALL,
  N_SCRIBE_JOB_KINDS
};

/* Work of a round machine, which no other may delay and whose result goes to it; the rest is for people. */
bool scribe_kind_is_of_round(enum scribe_job_kind kind);

/* Something else that needs the store: `run` is called by the scribe with it, `drop` frees whatever is left. */
struct scribe_call {
  enum err (*run)(struct store *store, struct scribe_call *call);
  void (*drop)(struct scribe_call *call);
};

enum model_change { CHANGE_PIN, CHANGE_UNPIN, CHANGE_SERVE };

struct scribe_job {
  enum scribe_job_kind kind;
  size_t owner; /* index of the agent's job whose work it is; comes back with the result */

  /* SCRIBE_PUBLISH; its pointers point into the buffers below and manifest bytes here. */
  struct store_publication publication;
  uint8_t manifest[MANIFEST_BYTES];
  struct buffer payload, half;
  struct scribe_job *before; /* the commit of the round before, to be made with it; NULL: there is none. Owned */

  /* SCRIBE_COMMIT */
  struct store_commitment commitment;
  struct buffer model, shadow;
  struct store_contribution *contributions;

  /* SCRIBE_EVENT */
  char event_name[MAX_NAME_BYTES], event_peer[MAX_NAME_BYTES], event_text[MAX_REASON_BYTES];
  int64_t at_unix_s;

  uint64_t above; /* SCRIBE_RAISE_EPOCH */

  bool keeps_few; /* SCRIBE_MEASURE: from now on, as store_keep_few says */

  /* SCRIBE_LOAD_MODEL (max_bytes of each file), SCRIBE_ROLL_BACK (note, at_unix_s): of_job and label are those below */
  size_t max_bytes;
  char *path; /* SCRIBE_LOAD_MODEL: owned; NULL: of the model with that label */
  char note[STORE_NOTE_BYTES];

  /* SCRIBE_CHANGE: of the model `label` of the job of_job, for `client`, all below; with note and at_unix_s */
  enum model_change change;
  enum serving_mode serve;
  struct scribe_call *call; /* SCRIBE_CALL */

  /* SCRIBE_QUERY: whose answer it is and what is asked: the last n rounds, n rounds from one on, or one with its peers */
  uint64_t client;
  struct digest of_job;
  uint64_t from_round;
  uint32_t n_rounds;
  bool one_round;
  struct round_label label;

  /* SCRIBE_EVENTS: for the client above, events after an id, or the last n_rows when none is given, and how long the client
   * waits for one */
  bool is_after;
  uint64_t after_id, wait_until_ms;
  uint32_t n_rows;
};

/* Nothing has changed and nothing is lost by going on without it: a roll-back whose model is not kept any more or damaged. A
 * failed write is not. */
bool scribe_is_refused(enum scribe_job_kind kind, enum err e);

/* A full or read-only disk: everything is as it was, and the work can be tried again later. */
bool err_is_temporary(enum err e);

struct scribe_result {
  enum scribe_job_kind kind;
  size_t owner;
  enum err error;

  bool has_committed; /* SCRIBE_PUBLISH: the round before, too */

  /* After SCRIBE_PUBLISH: descriptors from which the payload and the copy are served (−1: none). */
  int payload_fd, copy_fd;
  struct scribe_job *job; /* moved back when the error is temporary, so that it can be tried again, else NULL */

  uint64_t boot_epoch; /* SCRIBE_RAISE_EPOCH */

  /* SCRIBE_PUBLISH, SCRIBE_COMMIT, SCRIBE_MEASURE */
  bool has_room;
  struct store_room room;
  uint64_t n_published, n_committed; /* bytes of the files that it has written */
  double shadow_seconds; /* of a commit: how long it took for the model trained alone, by its share of the bytes */

  struct buffer half, model;        /* SCRIBE_LOAD_MODEL */
  struct store_roll_back roll_back; /* SCRIBE_ROLL_BACK: what was committed */

  bool changed; /* SCRIBE_CHANGE */

  struct scribe_call *call; /* SCRIBE_CALL: moved back, whatever became of it */

  /* SCRIBE_QUERY, SCRIBE_CHANGE */
  uint64_t client;
  struct round_label label; /* that was asked for */
  struct store_round *rounds;
  size_t n_rounds;
  struct store_contribution *contributions; /* one_round */
  size_t n_contributions;

  /* SCRIBE_EVENTS */
  struct store_event_row *events;
  size_t n_events;
  uint64_t after_id, wait_until_ms; /* where the next reading begins */
};

void scribe_job_free(struct scribe_job *job);

/* Whoever keeps or closes the descriptors has taken them before: both are −1. */
void scribe_result_free(struct scribe_result *result);

#endif
