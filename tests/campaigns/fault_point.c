/* The agent at the n-th passing of the point that FAULT_POINT names ("name n"): it is killed there. Every passing is written
 * into the file that FAULT_POINT_LOG names. */
#include "base/fault_point.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fault_point(const char *name) {
  static atomic_ulong n_passed;
  const char *chosen = getenv("FAULT_POINT"), *log = getenv("FAULT_POINT_LOG");
  char text[64];
  unsigned long at = 0;
  if (log != NULL) {
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int n = snprintf(text, sizeof text, "%s\n", name);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
      abort();
    close(fd);
  }
  if (chosen == NULL || sscanf(chosen, "%63s %lu", text, &at) != 2 || strcmp(text, name) != 0)
    return;
  if (atomic_fetch_add(&n_passed, 1) + 1 == at)
    kill(getpid(), SIGKILL);
}
