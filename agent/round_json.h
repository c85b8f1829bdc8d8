/* Rounds of the store as text and as JSON: the same rows whether a running agent answers or the database is read without one. */
#ifndef AGENT_ROUND_JSON_H
#define AGENT_ROUND_JSON_H

#include <jansson.h>

#include "models/contract.h"
#include "store/store.h"

/* "there is no round 418" */
void round_missing_write(struct round_label label, char out_sentence[MAX_REASON_BYTES]);

/* {"round","sub","label","state","outcome","committed_at","train_loss","train_s","seconds","samples","local","global",
 * "local_loss","global_loss","local_macro_f1","global_macro_f1","local_balanced","global_balanced",
 * "merged","expected","sent_bytes","received_bytes","model"}; what a round does not have yet is null. Accuracies are
 * fractions, null where a test set has samples of one class only. NULL: no memory. */
json_t *round_json(const struct store_round *r);

/* {"name","key","reason","clipped","fate","lag","weight","bytes","arrival_ms"} */
json_t *contribution_json(const struct store_contribution *c);

/* A round with "peers": its contributions. */
json_t *round_json_with_peers(const struct store_round *r, const struct store_contribution *rows, size_t n_rows);

/* A text that may hold any bytes, as those of files of data: what is no character stands as \\xNN (agent/text.h). NULL: no memory. */
json_t *json_text(const char *text);

/* Names of classes or categories, in their order. */
json_t *json_names(const struct class_name *names, size_t n);

/* RFC 3339 in UTC; null for a time that has no such form. */
json_t *json_time(int64_t unix_s);

/* A number, or null when it is not finite. */
json_t *json_number(double value);

/* So many of n as a fraction, or null where there is none. */
json_t *json_share(uint64_t part, uint64_t n);

#endif
