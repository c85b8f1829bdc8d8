/* What the files of the loop share: the agent and its parts. Not for anybody else. Loop thread only. */
#ifndef AGENT_RUN_PARTS_H
#define AGENT_RUN_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/config.h"
#include "agent/core/round.h"
#include "agent/exit.h"
#include "agent/run/control.h"
#include "agent/run/outbox.h"
#include "agent/run/scribe.h"
#include "agent/run/trainer.h"
#include "crypto/identity.h"
#include "gossip/gossip.h"
#include "models/schema.h"

struct agent {
  const struct config *config;
  const struct site_job_config *site_job;
  struct identity *identity;
  struct swarm_id swarm;
  struct digest job, schema_digest, contract_digest;
  struct schema *schema;
  char *schema_text, *contract_text; /* canonical, for peers that differ */

  struct gossip_peer_config *peers;  /* [config->n_peers], ascending by key */
  struct identity_key *keys;         /* [config->n_peers] */
  const char **names;                /* [config->n_peers] */
  uint8_t (*proofs)[MANIFEST_BYTES]; /* newest manifest of each peer that we hold, for its HELLO … */
  bool *has_proof;                   /* … */

  struct store *store; /* until the scribe takes it over */
  uint64_t boot_epoch;
  struct gossip *gossip;
  struct control *control;
  struct trainer *trainer;
  struct scribe *scribe;
  struct round_machine *round;
  struct outbox outbox;
  int signal_fd;
  uint64_t started_ms;

  bool holds; /* stays up without working rather than exit with EXIT_USAGE */
  bool is_stopping;
  int exit_code;
  char sentence[MAX_CONFIG_WHY_BYTES]; /* why it cannot work; shown by `health` */
};

/* Ends the loop with an exit code and one line. */
void agent_fail(struct agent *a, int exit_code, const char *event, const char *sentence);

/* ports.c: the tables that tie gossip and the round machine together. */
struct gossip_events agent_gossip_events(struct agent *a);
struct round_ports agent_round_ports(struct agent *a);

/* Takes what trainer and scribe have finished. */
void agent_take_results(struct agent *a);

/* Words of the link for the log, and the reasons of peers without a session for the round machine. */
void agent_take_notes(struct agent *a);

/* answers.c: what the control socket is asked. */
struct control_events agent_control_events(struct agent *a);
void agent_answer_query(struct agent *a, const struct scribe_result *result);

#endif
