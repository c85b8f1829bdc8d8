/* What the files of the loop share: the agent and its parts. Not for anybody else. Loop thread only. */
#ifndef AGENT_RUN_PARTS_H
#define AGENT_RUN_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/config.h"
#include "agent/core/disk.h"
#include "agent/core/pool.h"
#include "agent/core/round.h"
#include "agent/exit.h"
#include "agent/run/control.h"
#include "agent/run/log_limit.h"
#include "agent/run/outbox.h"
#include "agent/run/parked.h"
#include "agent/run/scribe.h"
#include "agent/run/trainer.h"
#include "crypto/identity.h"
#include "gossip/gossip.h"
#include "models/schema.h"

/* One model being learnt: its round machine and its trainer thread. */
struct agent_job {
  struct agent *agent;
  size_t index; /* in agent->jobs and for gossip */
  const struct site_job_config *config;
  struct digest id, schema_digest, contract_digest;
  struct schema *schema;
  char *schema_text, *contract_text; /* canonical, for peers that differ */
  uint8_t (*proofs)[MANIFEST_BYTES]; /* [n_peers] newest manifest of each that we hold, for its HELLO … */
  bool *has_proof;                   /* … */
  struct trainer *trainer;
  struct round_machine *round;
  struct outbox outbox;
  struct pool *pool;                                                /* NULL unless the job's scaling is pooled */
  char local_note[MAX_REASON_BYTES], global_note[MAX_REASON_BYTES]; /* why a test set has no headline, or "" */
  struct shadow_figures shadow;
};

enum { MAX_UNWRITTEN_EVENTS = 16 };

struct agent {
  const struct config *config;
  struct identity *identity;
  struct swarm_id swarm;

  struct gossip_peer_config *peers; /* [config->n_peers], ascending by key */
  struct identity_key *keys;        /* [config->n_peers] */
  const char **names;               /* [config->n_peers] */

  struct store *store; /* until the scribe takes it over */
  uint64_t boot_epoch;
  struct gossip *gossip;
  struct control *control;
  struct scribe *scribe;
  struct agent_job *jobs[MAX_JOBS_IN_HELLO];
  size_t n_jobs;
  int signal_fd;
  uint64_t started_ms;

  struct disk disk;
  bool is_measuring; /* a measurement is with the scribe … */
  bool keeps_few;    /* … and what the last one told it to keep */

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

/* Ends the loop with an exit code and one line. */
void agent_fail(struct agent *a, int exit_code, const char *event, const char *sentence);

/* job.c: from the configuration to a running job, one step after the other; the store is there until job_resume is done
 * for all. On failure `why` has the sentence, "" when the error's own says it. */
MUST_USE enum err job_new(struct agent *a, const struct site_job_config *config, char why[MAX_CONFIG_WHY_BYTES]);
MUST_USE enum err job_start_round(struct agent_job *j);
MUST_USE enum err job_start_trainer(struct agent_job *j);
MUST_USE enum err job_resume(struct agent_job *j, char why[MAX_CONFIG_WHY_BYTES]);
void job_free(struct agent_job *j);

/* What gossip is told of the job; borrows its texts. */
struct gossip_job_config job_gossip_config(const struct agent_job *j);

/* ports.c: the tables that tie gossip and the round machines together. */
struct gossip_events agent_gossip_events(struct agent *a);
struct round_ports agent_round_ports(struct agent_job *j);

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
void pooling_on_session(struct agent_job *j, size_t peer, bool is_up);
void pooling_on_hello(struct agent_job *j, size_t peer);
void pooling_on_words(struct agent_job *j, size_t peer, const struct wire_pool *words);

/* Whether it waits for peers' statistics, and whose: "mec-03, mec-09". */
bool pooling_waits(const struct agent_job *j, char *out_names, size_t capacity);

/* answers.c: what the control socket is asked. */
struct control_events agent_control_events(struct agent *a);
void agent_answer_query(struct agent *a, const struct scribe_result *result);
void agent_answer_events(struct agent *a, const struct scribe_result *result);

/* The job that a request names, or the only one that there is; NULL after saying which there are. */
struct agent_job *agent_asked_job(struct agent *a, uint64_t client, const json_t *request);

/* A whole number ≥ 0 of a request. */
uint64_t agent_asked_number(const json_t *request, const char *key, uint64_t otherwise);

/* model_answers.c: requests about kept models. */
void agent_answer_pin(struct agent *a, uint64_t client, const json_t *request);
void agent_answer_unpin(struct agent *a, uint64_t client, const json_t *request);
void agent_answer_serve(struct agent *a, uint64_t client, const json_t *request);
void agent_answer_roll_back(struct agent *a, uint64_t client, const json_t *request);
void agent_answer_change(struct agent *a, const struct scribe_result *result);

#endif
