#include "agent/run/signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/must.h"

static sigset_t our_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

static void mask(int how) {
  sigset_t set = our_signals();
  MUST(pthread_sigmask(how, &set, NULL) == 0);
}

/* OpenBLAS starts threads while it is loaded, and a signal that one of them takes would end the program. So the three are
 * blocked before any library is set up, which those threads inherit, and unblocked for the main thread afterwards. */
static void before_libraries(void) {
  mask(SIG_BLOCK);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_libraries;

__attribute__((constructor)) static void after_libraries(void) {
  mask(SIG_UNBLOCK);
}

enum err signals_open(int *out_fd) {
  sigset_t set = our_signals();
  mask(SIG_BLOCK);
  MUST(signal(SIGPIPE, SIG_IGN) != SIG_ERR && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
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

void signals_limit_end(unsigned seconds) {
  alarm(seconds);
}
