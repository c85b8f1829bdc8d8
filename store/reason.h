/* The one sentence for people that opening hands back: it names the path and the remedy. */
#ifndef STORE_REASON_H
#define STORE_REASON_H

#include "base/limits.h"

/* Like snprintf into the whole buffer; what does not fit is cut. */
__attribute__((format(printf, 2, 3))) void reason_set(char out_reason[MAX_REASON_BYTES], const char *format, ...);

/* The end of a path, short enough to leave room for the sentence. Borrowed from the path. */
const char *reason_path(const char *path);

#endif
