/* What the files of the loop share: the agent and its parts. Not for anybody else. Loop thread only. */
#ifndef AGENT_RUN_PARTS_H
#define AGENT_RUN_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/config.h"
#include "agent/core/cluster.h"
#include "agent/core/disk.h"
#include "agent/core/pool.h"
#include "agent/core/recorder.h"
#include "agent/core/round.h"
#include "agent/exit.h"
#include "agent/job_words.h"
#include "agent/run/control.h"
#include "agent/run/log_limit.h"
#include "agent/run/outbox.h"
#include "agent/run/parked.h"
#include "agent/run/scribe.h"
#include "agent/run/sums.h"
#include "agent/run/trainer.h"
#include "crypto/identity.h"
#include "crypto/job_file.h"
#include "gossip/gossip.h"
#include "models/schema.h"

enum { SERVING_ROUNDS = 3 /* whose mean says how good a job is */ };

/* What the store knows of a job when it starts. */
struct job_past {
  struct store_resume from;
  struct buffer half, model, shadow;
  struct buffer warm; /* model of the job that it starts from, on its first start */
  bool is_shadow_lost;
  struct position *positions;       /* [config->n_peers] */
  double headlines[SERVING_ROUNDS]; /* on the validation split, newest first … */
  size_t n_headlines;               /* … so many */
  char why[MAX_CONFIG_WHY_BYTES];   /* after an error */
};

/* One model being learnt: its round machine and its trainer thread. */
struct agent_job {
  struct agent *agent;
  size_t index; /* in agent->jobs and for gossip */
  const struct site_job_config *config;
  struct site_job_config *own_config; /* the same where it is not the site file's; freed with the job */
  struct digest id, schema_digest, contract_digest;
  struct digest data_digest;         /* of the contract without its seed: with equal ones headlines can be compared */
  const struct agent_job *warm_from; /* NULL: all tensors are new */
  struct job_past past;              /* until it has started */
  bool is_stopped;                   /* it keeps its index, and does nothing any more */
  double headlines[SERVING_ROUNDS];  /* as in the past */
  size_t n_headlines;
  struct schema *schema;
  char *schema_text, *contract_text; /* canonical, for peers that differ */
  uint8_t (*proofs)[MANIFEST_BYTES]; /* [n_peers] newest manifest of each that we hold, for its HELLO … */
  bool *has_proof;                   /* … */
  uint64_t *awaited_copies;          /* [n_peers] sequence whose full copy it gets when that is signed; 0: none */
  size_t *copy_of;                   /* [n_peers] the copy in the trainer's learner; SIZE_MAX: it is not followed */
  struct sums_roster roster;         /* of push-sum */
  struct trainer *trainer;
  struct gossip_job_config told; /* what gossip says of it */
  struct round_config rules;
  struct round_machine *round;
  struct recorder *recorder; /* of it; NULL: off */
  struct outbox outbox;
  struct cluster *cluster;                                          /* NULL unless sites are grouped */
  struct pool *pool;                                                /* NULL unless the job's scaling is pooled */
  char local_note[MAX_REASON_BYTES], global_note[MAX_REASON_BYTES]; /* why a test set has no headline, or "" */
  struct shadow_figures shadow;
  struct continual_figures continual;
  struct mass_figures mass;
};

enum { MAX_UNWRITTEN_EVENTS = 16 };

/* Work for the scribe that ends on the loop. */
struct agent_call {
  struct scribe_call scribe; /* first */
  void (*done)(struct agent *a, struct agent_call *call, enum err e);
};

/* A job file that is known here: the site's own, or one that came from a peer or by `job propose`. */
struct known_file {
  struct job_file file; /* its text is in `bytes` */
  uint8_t *bytes;       /* canonical … */
  size_t n_bytes;       /* … 0: longer than one that travels */
  enum job_file_state state;
  const struct site_job_config *configured; /* in the site file; NULL */
  char fault[MAX_REASON_BYTES];             /* why it is accepted and does not run here; "": it does, or may */
};

struct book_peer {
  size_t next;    /* file to be offered next; SIZE_MAX: it has not asked */
  unsigned n_new; /* taken from it in the minute that began then */
  uint64_t minute_ms;
  uint64_t ask_at_ms; /* for what was not taken; UINT64_MAX: nothing */
};

struct book {
  struct known_file files[STORE_MAX_JOB_FILES];
  size_t n;
  struct book_peer *peers; /* [config->n_peers] */
};

struct agent {
  const struct config *config;
  struct identity *identity;
  struct swarm_id swarm;

  struct gossip_peer_config *peers; /* [config->n_peers], ascending by key */

  struct store *store; /* until the scribe takes it over */
  uint64_t boot_epoch;
  struct gossip *gossip;
  struct control *control;
  struct scribe *scribe;
  struct agent_job *jobs[MAX_JOBS_IN_HELLO];
  size_t n_jobs;
  struct agent_job *starting[MAX_JOBS_IN_HELLO]; /* whose past is being read; NULL: free */
  struct book book;
  struct serving { /* which version serves, by the name of the job */
    char name[MAX_NAME_BYTES];
    uint32_t version;            /* that was said or has taken over; 0: the oldest that runs */
    char note[MAX_REASON_BYTES]; /* why a newer one does not take over yet */
  } serving[MAX_JOBS_IN_HELLO];
  size_t n_serving;
  int signal_fd;
  uint64_t started_ms;

  struct disk disk;
  bool is_measuring; /* a measurement is with the scribe … */
  bool keeps_few;    /* … and what the last one told it to keep */
  bool is_tracing;   /* a file of `starling trace` is with the scribe */

  struct parking parking;
  struct log_limit event_limit;                       /* of the event ring */
  struct scribe_job *unwritten[MAX_UNWRITTEN_EVENTS]; /* events that a full disk refused, oldest first */
  size_t n_unwritten;
  uint64_t n_written; /* transactions: the mark of those who wait for events */

  bool holds; /* stays up without working rather than exit with EXIT_USAGE */
  bool is_stopping;
  int exit_code;
  char sentence[MAX_CONFIG_WHY_BYTES]; /* why it cannot work; shown by `health` */
};

/* Peers whose keys are below our own. */
size_t agent_n_before(const struct agent *a);

/* The label of the peer with the key, our own name for our own key, "" for a stranger's. */
const char *agent_name_of_key(const struct agent *a, const struct identity_key *key);

/* Ends the loop with an exit code and one line. */
void agent_fail(struct agent *a, int exit_code, const char *event, const char *sentence);

/* job.c: from the configuration to a running job, one step after the other; the store is there until job_resume is done
 * for all. On failure `why` has the sentence, "" when the error's own says it. */
MUST_USE enum err job_new(struct agent *a, const struct site_job_config *config, struct agent_job **out_job,
                          char why[MAX_CONFIG_WHY_BYTES]);
MUST_USE enum err job_start_round(struct agent_job *j);
MUST_USE enum err job_start_trainer(struct agent_job *j);

/* Fills in j->past; whoever has the store. Then, on the loop: from there on it runs. */
MUST_USE enum err job_read_past(struct agent_job *j, struct store *store);
void job_go_on(struct agent_job *j);

/* Adds the job to the agent's, which frees it. */
void agent_add_job(struct agent *a, struct agent_job *j);
void job_free(struct agent_job *j);

/* Starts the job of a config (moved) in the running agent. */
MUST_USE enum err agent_start_job(struct agent *a, struct site_job_config *config, char why[MAX_CONFIG_WHY_BYTES]);
void job_stop(struct agent_job *j);
/* Stops a job that was accepted and cannot run here: that is told and kept with its file, and the other jobs go on. */
void job_refuse(struct agent_job *j, const char *why);

/* The running job of these words; where they leave the version open, the one that serves. NULL words: the only name that there
 * is. NULL: there is none such, or it is not clear. */
struct agent_job *agent_find_job(const struct agent *a, const struct job_words *words);

/* Hands a call to the scribe; `done` is called on the loop. The call is freed by its `drop`. */
void agent_call(struct agent *a, struct agent_call *call);
void agent_take_call(struct agent *a, struct scribe_result *r);

/* ---- book.c: job files ---- */

/* At start, with the store: the site's own files, and what was proposed, accepted and stopped before. */
MUST_USE enum err book_open(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]);
void book_close(struct agent *a);

struct known_file *book_find(struct agent *a, const struct digest *job);

void book_on_session(struct agent *a, size_t peer, bool is_up);
void book_on_ask(struct agent *a, size_t peer, const struct digest *job);
void book_on_file(struct agent *a, size_t peer, const struct job_file *f, const uint8_t *bytes, size_t n);

/* Offers what has not been offered, asks again; when it is due next. */
uint64_t book_turn(struct agent *a, uint64_t now_ms);

/* `job propose`: signs and keeps a text. client 0: nobody waits. */
void book_propose(struct agent *a, uint64_t client, const char *text, bool only_checks);
/* `job accept|stop`: to another state, and then a job starts or stops. */
void book_change(struct agent *a, uint64_t client, struct known_file *k, enum job_file_state state, bool only_checks);

/* ---- copies.c: full copies of what peers hold of us ---- */

/* The manifest of the one for this peer, of this round if there is one. ERR_NOT_YET: it is offered when it is signed, or there
 * is none yet; ERR_GONE. */
MUST_USE enum err copies_find(struct agent_job *j, size_t peer, uint64_t round, uint8_t out_bytes[MANIFEST_BYTES]);

/* ---- serving.c ---- */

/* At start, with the store. */
MUST_USE enum err serving_open(struct agent *a);
bool serving_is(const struct agent_job *j);
const char *serving_note(const struct agent *a, const char *name);
/* After a commit, and when peers tell of theirs: a newer version may take over. */
void serving_judge(struct agent *a);
void serving_on_commit(struct agent_job *j);
/* `job serve`. client 0: nobody waits. */
void serving_set(struct agent *a, uint64_t client, const struct agent_job *j, const char *text, bool only_checks);
size_t serving_ready(const struct agent_job *j);
bool serving_mean(const struct agent_job *j, double *out_mean);

/* job_answers.c */
void answer_jobs(struct agent *a, uint64_t client, const json_t *request);
void answer_job_propose(struct agent *a, uint64_t client, const json_t *request);
void answer_job_accept(struct agent *a, uint64_t client, const json_t *request);
void answer_job_stop(struct agent *a, uint64_t client, const json_t *request);
void answer_job_serve(struct agent *a, uint64_t client, const json_t *request);
void answer_job_file(struct agent *a, uint64_t client, const json_t *request);
json_t *jobs_rows(struct agent *a);

/* What gossip is told of the job; borrows its texts. */
const struct gossip_job_config *job_gossip_config(struct agent_job *j);

/* ports.c: the tables that tie gossip and the round machines together. */
extern const struct gossip_events agent_gossip_events; /* context: struct agent */
extern const struct round_ports agent_round_ports;     /* context: struct agent_job */

/* Writes a row of the event ring; those about a peer (or "stranger") are subject to the limit of agent/run/log_limit.h. */
void agent_write_event(struct agent *a, const char *name, const char *peer, const char *text);

/* disk.c: the ladder of agent/core/disk.h. Measures when that is due, and returns when it is next. */
uint64_t agent_tick_disk(struct agent *a, uint64_t now_ms);
void agent_take_room(struct agent *a, const struct scribe_result *result);
void agent_look_at_halts(struct agent *a);

/* Takes what trainer and scribe have finished. */
void agent_take_results(struct agent *a);

/* Words of the link for the log, and the reasons of peers without a session for the round machine. */
void agent_take_notes(struct agent *a);

/* pooling.c: pooled scaling of a job; nothing happens in other jobs. */
MUST_USE enum err pooling_start(struct agent_job *j);
void pooling_on_loaded(struct agent_job *j, const struct trainer_result *r);
void pooling_on_hello(struct agent_job *j, size_t peer);
void pooling_on_gone(struct agent_job *j, size_t peer); /* its session, or the job there */
void pooling_on_words(struct agent_job *j, size_t peer, const struct wire_pool *words);

/* Whether it waits for peers' statistics, and whose: "mec-03, mec-09". */
bool pooling_waits(const struct agent_job *j, char *out_names, size_t capacity);

/* clustering.c: groups of sites; nothing happens in other jobs. After job->round is made. */
MUST_USE enum err clustering_start(struct agent_job *j);
void clustering_on_result(struct agent_job *j, const struct trainer_result *r);
void clustering_on_epoch(struct agent_job *j, uint64_t boot_epoch);
void clustering_on_hello(struct agent_job *j, size_t peer);
void clustering_on_gone(struct agent_job *j, size_t peer); /* its session, or the job there */
bool clustering_wants(struct agent_job *j, size_t peer, const struct signed_sketch *s);
void clustering_on_sketch(struct agent_job *j, size_t peer, const struct signed_sketch *s, const uint8_t *bytes);
uint64_t clustering_turn(struct agent_job *j, uint64_t now_ms); /* when it is due again */

/* status.c: what the agent says of itself. */
json_t *status_json(const struct agent_job *j, uint64_t now_ms);
json_t *status_peers_json(const struct agent_job *j, uint64_t now_ms);
/* Up to n members of the swarm from number `first` on, ascending by key, and how many there are in each state. */
json_t *status_members_json(const struct agent *a, size_t first, size_t n, uint64_t now_ms);

/* Healthy is an agent whose jobs all are; else the first that is not says why. */
json_t *status_health_json(const struct agent *a);

/* A number that moves with what people wait for: word, phase, round, and the state of each peer. */
uint64_t status_change(const struct agent_job *j);

/* recording.c: the flight recorders of the jobs. After job->round is made; nothing where trace_mib is 0. */
MUST_USE enum err recording_start(struct agent_job *j);
void agent_answer_trace(struct agent *a, uint64_t client, const json_t *request);
/* At start: what nobody came to take. */
void recordings_forget(const struct agent *a);
/* The agent ends by a fault: each ring as a file in the state directory. */
void recordings_keep(const struct agent *a);

/* answers.c: what the control socket is asked. */
struct control_events agent_control_events(struct agent *a);
void agent_answer_query(struct agent *a, const struct scribe_result *result);
void agent_answer_events(struct agent *a, const struct scribe_result *result);

/* The job that a request names, or the only one that there is; NULL after saying which there are. */
struct agent_job *agent_asked_job(struct agent *a, uint64_t client, const json_t *request);

/* The label of a request; false after saying that it is none. */
bool agent_asked_label(struct agent *a, uint64_t client, const json_t *request, struct round_label *out_label);

/* A whole number ≥ 0 of a request. */
uint64_t agent_asked_number(const json_t *request, const char *key, uint64_t otherwise);

/* model_answers.c: requests about kept models. */
void agent_answer_pin(struct agent *a, uint64_t client, const json_t *request);
void agent_answer_unpin(struct agent *a, uint64_t client, const json_t *request);
void agent_answer_serve(struct agent *a, uint64_t client, const json_t *request);
void agent_answer_roll_back(struct agent *a, uint64_t client, const json_t *request);
void agent_answer_import(struct agent *a, uint64_t client, const json_t *request);
void agent_answer_change(struct agent *a, const struct scribe_result *result);

#endif
