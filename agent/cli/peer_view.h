/* The peers of a `status` or `peers` answer as a table. */
#ifndef AGENT_CLI_PEER_VIEW_H
#define AGENT_CLI_PEER_VIEW_H

#include "agent/cli/table.h"

void peers_print(const json_t *data, bool is_tsv, FILE *out);

#endif
