/* CSV tables (csv_scan.h) mapped to the contract by the header's names.
 *
 * Columns that the contract does not name are counted and ignored; their order in the file means nothing. Numbers are
 * strict and free of the locale (number.h). A text is one of its column's categories, of which one input each is 1. Missing
 * values, in whatever way they are written, are refused, or filled as the contract says. Rows stream: memory is one field
 * and one row. Pure but for the file; one thread at a time. */
#ifndef MODELS_FORMATS_CSV_READER_H
#define MODELS_FORMATS_CSV_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/contract.h"
#include "models/data/sample.h"
#include "models/formats/data_file.h"

/* Gives every row to the sink, in order. The label column is the one whose header is contract->label, else, when that is
 * a number, the column of that number from 1. On failure *why has line and column (the field's number).
 * ERR_SYNTAX: ragged row, quote out of place or never closed, NUL, a number that is none or is missing, a column missing
 * or twice; ERR_RANGE: a value outside the contract's range, a class or category not in the contract, no features in the contract;
 * ERR_TRUNCATED: empty or without rows; ERR_LIMIT: MAX_CSV_COLUMNS, MAX_CSV_FIELD_BYTES, MAX_SAMPLES; ERR_NO_MEMORY;
 * those of data_open; and whatever the sink returns. */
MUST_USE enum err csv_read(const char *path, const struct contract *contract, const struct sample_sink *sink,
                           size_t *out_n_ignored_columns, struct data_place *why);

#endif
