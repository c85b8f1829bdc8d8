#include "agent/run/signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/must.h"

enum err signals_open(int *out_fd) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  MUST(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  MUST(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0)
    return err_from_errno(errno);
  *out_fd = fd;
  return ERR_OK;
}

int signals_take(int fd) {
  struct signalfd_siginfo info;
  return read(fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}
