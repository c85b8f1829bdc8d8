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
  size_t n_name = strlen(name);
  if (log != NULL) {
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int n = snprintf(text, sizeof text, "%s\n", name);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
      abort();
    close(fd);
  }
  if (chosen == NULL || strncmp(chosen, name, n_name) != 0 || chosen[n_name] != ' ')
    return;
  if (atomic_fetch_add(&n_passed, 1) + 1 == strtoul(chosen + n_name, NULL, 10))
    kill(getpid(), SIGKILL);
}
