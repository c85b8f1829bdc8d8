#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>

void must_fail(const char *condition, const char *file, int line) {
  fprintf(stderr, "starling: bug at %s:%d: %s does not hold\n", file, line, condition);
  abort();
}
