/* Canonical text: lines of `what: value` that are hashed, compared and saved. Room-internal. */
#ifndef MODELS_TEXT_H
#define MODELS_TEXT_H

#include "base/bytes.h"

/* Appends one formatted line and its line feed. A line above TEXT_LINE_BYTES fails the writer. */
enum { TEXT_LINE_BYTES = 512 };
void text_line(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends the text with a NUL that is not counted. ERR_LIMIT when something did not fit. */
MUST_USE enum err text_end(struct writer *w, size_t *out_n_bytes);

#endif
