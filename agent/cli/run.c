/* starling run. */
#include "agent/run/agent.h"

#include <signal.h>

#include "agent/cli/verbs.h"

enum { FLAG_HOLD };

/* Without a configuration there is no place to answer from: stay up, silent, until somebody stops it. */
static void hold_until_stopped(void) {
  sigset_t stop;
  int signal;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  sigprocmask(SIG_BLOCK, &stop, NULL);
  sigwait(&stop, &signal);
}

int verb_run(struct call *call) {
  struct config *c;
  bool holds = call->flags[FLAG_HOLD] != NULL;
  if (!call_load_config(call, &c)) {
    if (holds)
      hold_until_stopped();
    return EXIT_USAGE;
  }
  int code = agent_run(c, holds);
  config_free(c);
  return code;
}
