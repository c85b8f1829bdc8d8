/* What a request over the control socket may have. A member has one meaning and one type wherever it stands, so one table
 * says it for all; a request is held against it before anything is done, so that what was meant as round "12" is not taken
 * for no round at all. Pure. */
#ifndef AGENT_RUN_REQUEST_H
#define AGENT_RUN_REQUEST_H

#include <jansson.h>

#include "base/err.h"
#include "base/limits.h"

/* ERR_RANGE with the member and what it has to be: unknown, of another type, negative or too large. */
MUST_USE enum err request_judge(const json_t *request, char out_why[MAX_REASON_BYTES]);

#endif
