/* Runs a program and writes to descriptor 3 the peak of its resident memory in KiB; ends as it does. A child's peak begins
 * with that of whoever forked it, so what is measured is started by something small. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  struct rusage usage;
  int status;
  pid_t child = argc > 1 ? fork() : -1;
  if (child == 0) {
    close(3);
    execv(argv[1], argv + 1);
    _exit(127);
  }
  if (child < 0 || wait4(child, &status, 0, &usage) != child)
    return 126;
  dprintf(3, "%ld\n", usage.ru_maxrss);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}
