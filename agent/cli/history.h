/* The database without an agent: committed rounds are read, and what the verbs change is opened. */
#ifndef AGENT_CLI_HISTORY_H
#define AGENT_CLI_HISTORY_H

#include "agent/cli/cli.h"
#include "store/store.h"

/* Opens the store of the config for reading. The caller closes it. ERR_NOT_CONNECTED: there is no database; else as
 * store_open_read_only. */
MUST_USE enum err history_open(const struct config *c, struct store **out_store, char why[MAX_REASON_BYTES]);

/* Whose database it is. ERR_NOT_FOUND: nobody's yet; else as history_open. */
MUST_USE enum err history_identity(const struct config *c, uint8_t out_identity[32], char why[MAX_REASON_BYTES]);

/* Opens it to change it, under the store's lock and by that identity. ERR_LOCKED: an agent runs; else as store_open. */
MUST_USE enum err history_open_to_change(const struct config *c, const uint8_t identity[32], struct store **out_store,
                                         char why[MAX_REASON_BYTES]);

struct history_query {
  struct digest job; /* config_job_id */
  bool one_round;    /* {…, "peers": […]} of `label`; else {"rounds": […]} */
  struct round_label label;
  size_t last; /* the last so many */
};

/* The same `data` that a running agent answers. ERR_NOT_FOUND: not that round; else as history_open. */
MUST_USE enum err history_read(const struct config *c, const struct history_query *query, json_t **out_data,
                               char why[MAX_REASON_BYTES]);

/* Adds to a round the name of its headline and why a figure is missing where the model was evaluated. */
void round_explain(json_t *round, const struct contract *contract);

#endif
