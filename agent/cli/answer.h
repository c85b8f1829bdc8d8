/* What a verb says in the end: data or one error, in the format asked for.
 *
 *   --format json   {"schema":1,"ok":true,"data":{…},"warnings":[…]}                              on standard output
 *                   {"schema":1,"ok":false,"error":{"code":…,"message":…,"hint":…},"warnings":[]}  on standard output
 *   otherwise       the verb's view of the data on standard output; one line for an error and for each warning on standard
 *                   error
 *
 * Text from outside is shown with its control characters escaped. */
#ifndef AGENT_CLI_ANSWER_H
#define AGENT_CLI_ANSWER_H

#include <stdio.h>

#include "agent/cli/cli.h"

/* Prints the data (moved; NULL: no memory) and returns EXIT_DONE. `view` prints tables and TSV. */
int answer(struct call *call, json_t *data, void (*view)(const struct call *call, const json_t *data, FILE *out));

/* The same for a verb that changes something: `changed` and `check` (it was only asked what would change) join the data. */
int answer_change(struct call *call, json_t *data, bool changed,
                  void (*view)(const struct call *call, const json_t *data, FILE *out));

/* The view of a change that makes `what` something: "X is accepted", "X would be accepted", or that it is so already; as
 * TSV the thing and yes or no. */
void view_state_change(const struct call *call, const json_t *data, const char *what, const char *state, FILE *out);

/* Prints an error and returns `code`. `name` is stable: err_name(e), or "usage" for arguments that are no verb's; hint NULL or what to do. */
__attribute__((format(printf, 5, 6))) int answer_error(struct call *call, int code, const char *name, const char *hint,
                                                       const char *format, ...);

/* For a verb that answers line by line: what there is to warn of, on standard error, before the first. */
void answer_warnings(struct call *call);

/* Adds a warning to the answer to come. */
__attribute__((format(printf, 2, 3))) void answer_warn(struct call *call, const char *format, ...);

/* Writes text from outside: control characters and malformed UTF-8 as \xNN. */
void text_print(const char *text, FILE *out);

#endif
