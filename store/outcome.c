#include "store/outcome.h"

#include "base/must.h"
#include "store/query.h"

static const char *const names[] = {
    [ROUND_MERGED] = "merged",   [ROUND_SHORT] = "short",
    [ROUND_JUMPED] = "jumped",   [ROUND_MERGE_REFUSED] = "merge-refused",
    [ROUND_ADOPTED] = "adopted", [ROUND_ROLLED_BACK] = "rolled-back",
};

enum { N_OUTCOMES = sizeof names / sizeof *names };

const char *outcome_name(enum round_outcome outcome) {
  MUST((size_t)outcome < N_OUTCOMES);
  return names[outcome];
}

enum err outcome_find(const char *name, enum round_outcome *out_outcome) {
  size_t i;
  enum err e = word_find(names, N_OUTCOMES, name, &i);
  if (e == ERR_OK)
    *out_outcome = (enum round_outcome)i;
  return e;
}
