/* The event ring as JSON: the same whether a running agent answers or the database is read without one. */
#ifndef AGENT_EVENT_JSON_H
#define AGENT_EVENT_JSON_H

#include <jansson.h>

#include "store/store.h"

/* {"events":[{"id","at","name","peer","text"}],"after"}: peer is null for the agent's own; the next reading goes on behind
 * `after`. NULL: no memory. */
json_t *events_json(const struct store_event_row *rows, size_t n_rows, uint64_t after_id);

#endif
