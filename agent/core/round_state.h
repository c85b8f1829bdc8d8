/* A round machine as bytes, with its configuration, and back: where a record of what it did begins.
 *
 * Only of a machine that is quiet: nothing of it is with trainer or scribe, nothing waits for them, nothing is to be gone back to.
 * Payloads that wait have their manifests and no bytes, for the machine never looks into them. Traffic counts are not in it, they
 * come with each result. What is read may be foreign: every bound holds, every enum is one, before a machine is made of it. */
#ifndef AGENT_CORE_ROUND_STATE_H
#define AGENT_CORE_ROUND_STATE_H

#include "agent/core/round_machine.h"
#include "base/bytes.h"

/* As far as the machine knows; that nothing is with trainer and scribe is the caller's to know. */
bool round_state_is_quiet(const struct round_machine *m);

void round_state_write(const struct round_machine *m, struct writer *w);

/* What the machine borrows. */
struct round_lent {
  struct round_config config;
  struct gossip_peer_config *peers;
  char (*names)[MAX_NAME_BYTES];
};

void round_lent_free(struct round_lent *lent); /* NULL is allowed */

/* ERR_SYNTAX: no machine is like that; ERR_NO_MEMORY. */
MUST_USE enum err round_state_read(struct cursor *c, const struct round_ports *ports, void *context,
                                   struct round_lent **out_lent, struct round_machine **out_machine);

/* A manifest in its canonical form; one that is none makes the cursor fail. */
void state_write_manifest(const struct manifest *m, struct writer *w);
void state_read_manifest(struct cursor *c, struct manifest *out_manifest);

#endif
