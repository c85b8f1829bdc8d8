/* Whether data are what the contract says: every finding, in words and with the remedy, before a peer or a model exists.
 *
 * An error is what a reader of samples refuses, or what makes a model of it worthless; a warning may be as it should be.
 * Pure; any thread. */
#ifndef MODELS_DATA_CHECK_H
#define MODELS_DATA_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "models/contract.h"
#include "models/data/dataset.h"
#include "models/data/profile.h"

/* Stable names, for scripts. */
#define FINDING_LIST(X)                                                                                                \
  X(COLUMN_MISSING, "column-missing")                                                                                  \
  X(COLUMN_REPEATED, "column-repeated")                                                                                \
  X(COLUMN_EXTRA, "column-extra")                                                                                      \
  X(COLUMN_ORDER, "column-order")                                                                                      \
  X(SHAPE, "shape")                                                                                                    \
  X(RAGGED, "ragged")                                                                                                  \
  X(MISSING_VALUE, "missing-value")                                                                                    \
  X(NOT_A_NUMBER, "not-a-number")                                                                                      \
  X(RANGE, "range")                                                                                                    \
  X(UNIT, "unit")                                                                                                      \
  X(SCALING, "scaling")                                                                                                \
  X(CONSTANT, "constant")                                                                                              \
  X(CATEGORY_UNKNOWN, "category-unknown")                                                                              \
  X(CLASS_UNKNOWN, "class-unknown")                                                                                    \
  X(CLASS_ABSENT, "class-absent")                                                                                      \
  X(CLASS_TINY, "class-tiny")                                                                                          \
  X(FEW_SAMPLES, "few-samples")                                                                                        \
  X(DUPLICATES, "duplicates")

enum finding_code {
#define X(symbol, name) FINDING_##symbol,
  FINDING_LIST(X)
#undef X
      N_FINDING_CODES
};
const char *finding_name(enum finding_code code);

enum { MAX_FINDINGS = 1000, MAX_FINDING_ABOUT_BYTES = MAX_NAME_BYTES + 32, TINY_CLASS = 10, FEW_SAMPLES = 40 };

struct finding {
  bool is_error;
  enum finding_code code;
  char about[MAX_FINDING_ABOUT_BYTES]; /* `feature 6 "temp_C"`, `class 2 "dent"`; "": the whole */
  char sentence[MAX_REASON_BYTES];
  uint64_t line; /* where it is first seen; 0: nowhere in particular */
};

/* Zero-initialise. Owned by whoever did. */
struct findings {
  struct finding *items;
  size_t n, n_errors;
  size_t n_left_out; /* above MAX_FINDINGS; counted as errors too where they are */
};
void findings_done(struct findings *f);

/* Adds what is wrong with a training file, features first in the contract's order. ERR_NO_MEMORY. */
MUST_USE enum err check_training(const struct profile *p, const struct contract *c, struct findings *f);

/* The same for a file that is only tested on, and that was profiled `against` the training file: neither absent classes
 * nor few samples matter, duplicates do. */
MUST_USE enum err check_test(const struct profile *p, const struct contract *c, struct findings *f);

/* Units and scaling alone, of samples that were read already: what a run can still be warned about. ERR_NO_MEMORY; ERR_IO,
 * of streamed samples. */
MUST_USE enum err check_dataset(const struct dataset *d, const struct contract *c, struct findings *f);

/* How many of the contract's features have no finding in the profile's columns, and how many classes have a sample. */
size_t check_features_ok(const struct findings *f, const struct contract *c);
size_t check_classes_present(const struct profile *p, const struct contract *c);

#endif
