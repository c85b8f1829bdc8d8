#include <stdio.h>

#include "agent/cli/cli.h"
#include "crypto/random.h"

extern char **environ;

int main(int argc, char **argv) {
  if (random_open()) {
    fputs("starling: the kernel gives no randomness\n", stderr);
    return EXIT_INTERNAL;
  }
  return cli_main(argc, (const char *const *)argv, (const char *const *)environ);
}
