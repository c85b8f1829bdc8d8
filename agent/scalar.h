/* Text to values: the one strict converter for configuration files, environment variables and the command line.
 *
 * The whole text must be the value: "5s" is not 5, "0,5" is not 0, "010" is not 8, "maybe" is not true. Nothing depends
 * on the locale. On failure `why` is half a sentence that quotes the text and says what to write instead; ERR_SYNTAX: not
 * of the form, ERR_RANGE: of the form, but outside the bounds. Pure; any thread. */
#ifndef AGENT_SCALAR_H
#define AGENT_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

/* Decimal digits only, min … max. */
MUST_USE enum err scalar_integer(const char *text, uint64_t min, uint64_t max, uint64_t *out_value,
                                 char why[MAX_REASON_BYTES]);

/* A finite decimal number (models/formats/number.h), min … max. */
MUST_USE enum err scalar_number(const char *text, double min, double max, double *out_value,
                                char why[MAX_REASON_BYTES]);

/* One of the words, NULL-terminated; its index. */
MUST_USE enum err scalar_word(const char *text, const char *const *words, size_t *out_index,
                              char why[MAX_REASON_BYTES]);

/* A label: 1 … 63 letters, digits, '.', '_' and '-', beginning with a letter or digit, so that it can name a file. */
MUST_USE enum err scalar_label(const char *text, char why[MAX_REASON_BYTES]);

/* tcp://HOST:PORT with a port of 1 … 65535 or ipc:///ABSOLUTE/PATH. To listen HOST is a numeric address (IPv6 in
 * brackets); to dial it may be a name. */
enum address_use { ADDRESS_LISTEN, ADDRESS_DIAL };
MUST_USE enum err scalar_address(const char *text, enum address_use use, char why[MAX_REASON_BYTES]);

/* "28x28x1": height, width, channels; "128x9": steps and values of a series, which is an image of height 1. And back. */
enum { SHAPE_TEXT_BYTES = 33 };
void scalar_shape_write(const uint32_t shape[3], char out_text[SHAPE_TEXT_BYTES]);
MUST_USE enum err scalar_shape(const char *text, uint32_t out_shape[3], char why[MAX_REASON_BYTES]);

/* "4mbit": a number with one of the units, of which the last one has no name; the number times the unit's factor is
 * min … max. */
struct scalar_unit {
  const char *name;
  double factor;
};
MUST_USE enum err scalar_quantity(const char *text, const struct scalar_unit *units, double min, double max,
                                  double *out_value, char why[MAX_REASON_BYTES]);

/* "0..255": two numbers, the first below the second. */
MUST_USE enum err scalar_range(const char *text, double *out_lo, double *out_hi, char why[MAX_REASON_BYTES]);

/* Whether `candidate` is near enough to `text` to be worth proposing. */
bool is_near(const char *text, const char *candidate);

#endif
