/* The inside of the round machine, for its own sources, their tests and the simulator, which looks whether all is well:
 * round.c (life, events, time, showing), round_jump.c (meeting, joining, jumping), round_train.c (training, publishing, what
 * the disk refuses), round_merge.c (gathering, merging, committing) and round_back.c (going back to a kept model). */
#ifndef AGENT_CORE_ROUND_MACHINE_H
#define AGENT_CORE_ROUND_MACHINE_H

#include "agent/core/round.h"
#include "agent/core/round_peer.h"
#include "base/due.h"

enum {
  HALTED_RETRY_MS = 5000,
  JUMP_FROM = 2, /* committed rounds behind */
  JUMP_RETRY_MS = 5000,
  MAX_ADOPTED_COPIES = 3, /* a joiner starts from the median of so many */
  TRAIN_FAILURES_HALVE = 2,
  TRAIN_FAILURES_PAUSE = 3,
  NOTICE_ROUNDS = 8, /* commits for which peers are told of a roll-back */
  N_UNWRITTEN = 2,   /* a publication or commit, and a raise of the epoch */
};

struct round_machine {
  const struct round_config *config;
  struct round_self self;
  const struct round_ports *ports;
  struct round_peer *peers; /* [n_peers] */

  uint64_t due_ms;    /* of the next tick that does something; 0: something happened */
  struct due pump_ms; /* of each peer: when its inbox is looked after next */
  size_t n_followed;  /* by the topology */

  enum phase phase;
  bool starts_chain;            /* the next payload to be encoded is a full one … */
  bool encodes_full;            /* … as is the one of the training in work */
  bool begins_anew;             /* push-sum: the next training begins a new account of mass */
  struct round_label committed; /* durable */
  struct round_label reached;   /* = committed, or the label of the commit under way */
  struct round_label in_work;   /* label of what is trained, gathered or merged */

  /* own chain */
  struct position own;    /* newest publication that is durable */
  uint64_t last_sequence; /* highest ever used */
  struct publishing {     /* handed to the scribe, not durable yet; own, NULL: nothing */
    struct position position;
    uint8_t manifest[MANIFEST_BYTES];
  } * publishing;

  /* the round in work */
  uint64_t started_ms, clock_ms, deadline_ms; /* clock: own payload durable; deadline: length of the gather */
  struct deadline deadline;
  uint64_t training_ms;
  double train_loss; /* of the training in work … */
  bool has_loss;     /* … or, after a restart, not known */
  bool commit_pending;
  uint32_t train_failures;
  uint32_t epoch_steps, steps;    /* in one epoch of ours; of the training in work or the last one */
  uint64_t next_training_ms;      /* not before */
  struct trainer_result *trained; /* waits for the commit before it, or for the raised epoch */
  struct scribe_job *held;        /* the pending commit, while it waits for the training; NULL: it is being written */
  uint64_t held_until_ms;
  enum resume_at resume_at;

  /* meeting, jumping, alone */
  bool awaits_scale; /* of the pool; meet_ms begins when it is there */
  bool is_adopting;
  uint32_t rounds_alone;
  uint64_t wait_until_ms; /* what the phase says: end of meeting, of a jump, of being alone */
  uint64_t next_jump_ms;  /* not before: one has failed */

  /* the disk */
  enum err halted;  /* ERR_OK: not halted */
  bool is_tight;    /* no room for an update of ours … */
  bool is_withheld; /* … so that the round in work has none */
  bool is_short, has_failed;
  struct scribe_job *unwritten[N_UNWRITTEN];
  uint64_t retry_at_ms;
  uint64_t raising_above; /* highest epoch that was proved; 0: no raise is under way */

  /* going back */
  struct {
    enum { BACK_NONE, BACK_WAITS, BACK_WORKS } stage;
    enum phase from; /* where it was when the work began */
    enum err error;  /* of the last one */
    struct round_label to, label;
    char *note; /* own; NULL: none */
    int64_t at_unix_s;
    char *path; /* own: of a model from elsewhere that is taken instead; NULL: none */
  } back;
  struct wire_notice *notice; /* own: what peers are told … */
  uint64_t notice_round;      /* … until NOTICE_ROUNDS more than this one are committed */

  uint64_t finished_at_ms;

  /* shown */
  struct {
    uint32_t n_samples, n_test, n_global_test;
    uint64_t samples_bytes, streamed_bytes;
    double train_loss;
    bool has_loss;
    struct store_metrics metrics;
    uint32_t n_merged, n_expected;
  } shown;
  uint64_t sent_bytes, received_bytes, sent_at_commit, received_at_commit;
};

/* ---- round.c ---- */

/* Whoever listens hears what comes in. */
void machine_hear(const struct round_machine *m, const struct round_input *input);
/* Something happened: the next tick looks at everything that may follow. */
void machine_wake(struct round_machine *m);
/* The peer's inbox has room or lacks something that it did not: the tick looks after it. */
void machine_look_after(struct round_machine *m, size_t peer);

void machine_note(struct round_machine *m, const char *name, size_t peer, const char *text);
void machine_enter(struct round_machine *m, enum phase phase);
struct trainer_job *machine_trainer_job(const struct round_machine *m, enum trainer_job_kind kind);
struct scribe_job *machine_scribe_job(enum scribe_job_kind kind);
/* A commit of what the trainer answered, whose model it takes; who had a part in it and how long it took is the caller's to say. */
struct scribe_job *machine_commit_job(const struct round_machine *m, struct trainer_result *r, struct round_label label,
                                      enum round_outcome outcome);
void machine_put_train(struct round_machine *m, struct trainer_job *job);
void machine_put_write(struct round_machine *m, struct scribe_job *job);
/* Whom the round in work takes updates of, by the topology; a jump takes those of all who are followed. */
void machine_choose(struct round_machine *m, bool is_jump);

/* Of those to whom something is given [n_peers], whoever hears us in the graph of the round in work, where that rotates. */
void machine_narrow(const struct round_machine *m, bool *told);
/* Of oneself in the round's graph. */
uint32_t machine_degree(const struct round_machine *m);
void machine_quarantine(struct round_machine *m, size_t peer, const char *name, enum err reason);

/* ---- round_jump.c ---- */

/* A jump is due: enough peers vouch for a round that we cannot reach by training. */
bool machine_should_jump(const struct round_machine *m, uint64_t now_ms);
/* So few are as far as we are that nobody may follow them: the number stays until the others have come up. */
bool machine_marks_time(const struct round_machine *m);
void machine_jump(struct round_machine *m, uint64_t now_ms);
void machine_jump_failed(struct round_machine *m, uint64_t now_ms);
void machine_tick_meeting(struct round_machine *m, uint64_t now_ms);
void machine_tick_jumping(struct round_machine *m, uint64_t now_ms);

/* ---- round_train.c ---- */

bool machine_is_finished(const struct round_machine *m);
bool machine_is_alone(const struct round_machine *m);
void machine_tick_idle(struct round_machine *m, uint64_t now_ms);
void machine_tick_alone(struct round_machine *m, uint64_t now_ms);
/* After a merge, while its commit is under way, only the plain next step may begin. */
void machine_go_on(struct round_machine *m, uint64_t now_ms);
void machine_on_train_result(struct round_machine *m, struct trainer_result *r); /* moved */
void machine_on_published(struct round_machine *m, uint64_t now_ms);
void machine_publish_waiting(struct round_machine *m);
void machine_raise_epoch(struct round_machine *m);
/* The epoch rose while the disk held a publication back, which is of an epoch that is over: it says now that there is no update. Its
 * steps stay in the model, and the next update, which starts a chain, has them. */
void machine_restate_unwritten(struct round_machine *m);
/* The peer holds an update of ours that we do not know. */
void machine_roll_forward(struct round_machine *m, size_t peer, const struct manifest *proof);

/* ---- round_merge.c ---- */

void machine_start_gather(struct round_machine *m, uint64_t now_ms);
bool machine_waits_for(const struct round_machine *m, const struct round_peer *p);
void machine_tick_gathering(struct round_machine *m, uint64_t now_ms);
void machine_start_merge(struct round_machine *m, enum trainer_job_kind kind);
void machine_on_merge_result(struct round_machine *m, struct trainer_result *r, uint64_t now_ms);
void machine_on_committed(struct round_machine *m);
/* How many peers a round wants: no more than there are in the group. */
uint32_t machine_min_peers(const struct round_machine *m);
/* The commit that waits is written. */
void machine_release(struct round_machine *m);

/* ---- round_back.c ---- */

/* A roll-back waits and nothing stands in its way. */
bool machine_may_go_back(const struct round_machine *m);
void machine_go_back(struct round_machine *m);
bool machine_is_importing(const struct round_machine *m);
void machine_on_imported(struct round_machine *m);
void machine_on_model_loaded(struct round_machine *m, struct scribe_result *r);
void machine_on_restored(struct round_machine *m, struct trainer_result *r);
/* It was let go of or damaged since it was loaded: the trainer takes back what was committed. */
void machine_on_roll_back_refused(struct round_machine *m, const struct scribe_result *r);
void machine_on_undone(struct round_machine *m, const struct trainer_result *r);
void machine_on_rolled_back(struct round_machine *m, const struct scribe_result *r);
/* Tells peers of it as long as NOTICE_ROUNDS say. */
void machine_set_notice(struct round_machine *m, const struct store_roll_back *r);
/* A peer's STATE: what it tells that is new. */
void machine_take_notice(struct round_machine *m, size_t peer, const struct wire_notice *notice);

#endif
