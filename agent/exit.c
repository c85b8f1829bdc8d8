#include "agent/exit.h"

int exit_code_of(enum err e) {
  switch (e) {
  case ERR_OK:
    return EXIT_DONE;
  case ERR_LOCKED:
  case ERR_PERMISSION:
  case ERR_BUSY:
  case ERR_NOT_CONNECTED:
    return EXIT_UNREACHABLE;
  case ERR_TIMED_OUT:
    return EXIT_TIMED_OUT;
  case ERR_NO_MEMORY:
  case ERR_IO:
  case ERR_NO_SPACE:
  case ERR_READ_ONLY:
    return EXIT_INTERNAL;
  default:
    return EXIT_USAGE;
  }
}
