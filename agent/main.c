#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/cli/cli.h"
#include "crypto/random.h"

/* Where a parent has closed one of descriptors 0 to 2, the next file that is opened would get its number, and a snapshot
 * the lines of the log. */
static void hold_standard_descriptors(void) {
  int fd;
  do
    fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0)
    close(fd);
}

int main(int argc, char **argv) {
  hold_standard_descriptors();
  if (random_open()) {
    fputs("starling: the kernel gives no randomness\n", stderr);
    return EXIT_INTERNAL;
  }
  return cli_main(argc, (const char *const *)argv, (const char *const *)environ);
}
