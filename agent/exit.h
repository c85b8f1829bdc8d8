/* How the program ends, the same for every verb. */
#ifndef AGENT_EXIT_H
#define AGENT_EXIT_H

#include "base/err.h"

enum exit_code {
  EXIT_DONE = 0,
  EXIT_FAILED = 1,      /* what was asked about or for failed */
  EXIT_UNREACHABLE = 2, /* no agent answers, or it is not allowed */
  EXIT_TIMED_OUT = 3,
  EXIT_USAGE = 4, /* arguments, configuration, data or state */
  EXIT_INTERNAL = 5,
};

/* The code for an error where nothing closer is known. */
int exit_code_of(enum err e);

#endif
