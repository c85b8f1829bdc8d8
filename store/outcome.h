/* The names of outcomes in the database: stable, like those of errors. */
#ifndef STORE_OUTCOME_H
#define STORE_OUTCOME_H

#include "store/store.h"

const char *outcome_name(enum round_outcome outcome);
MUST_USE enum err outcome_find(const char *name, enum round_outcome *out_outcome);

#endif
