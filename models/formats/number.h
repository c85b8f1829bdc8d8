/* Decimal numbers as text, strict and free of the locale: "21.5" is a number everywhere, "21,5" nowhere.
 *
 * Pure; any thread. */
#ifndef MODELS_FORMATS_NUMBER_H
#define MODELS_FORMATS_NUMBER_H

#include <stddef.h>

#include "base/err.h"

enum { NUMBER_TEXT_BYTES = 32, MAX_NUMBER_BYTES = 512 };

/* Reads [+-] digits [. digits] [e [+-] digits] that fills all n_bytes; at least one digit before the exponent. The result
 * is the nearest double. ERR_SYNTAX: not of that form (also empty, "nan", "inf", hexadecimal, surrounded by spaces);
 * ERR_RANGE: too large to be finite; ERR_LIMIT: longer than MAX_NUMBER_BYTES. */
MUST_USE enum err number_read(const char *text, size_t n_bytes, double *out_value);

/* Writes the shortest of 15, 16 or 17 digits that reads back to the same bits, NUL-terminated. `value` is finite. */
void number_write(double value, char out_text[NUMBER_TEXT_BYTES]);

#endif
