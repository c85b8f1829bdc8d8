/* A team: several threads that do parts of one piece of work, given by the caller, since this room has no threads of its
 * own (agent/run/team.h has those of the agent). NULL is a team of one: the caller's own thread. */
#ifndef MODELS_KERNELS_TEAM_H
#define MODELS_KERNELS_TEAM_H

#include <stddef.h>

struct team {
  /* Calls part(context, i) once for each i < n, in any order and on any thread, and returns when all are done. */
  void (*run)(struct team *team, size_t n, void (*part)(void *context, size_t i), void *context);
};

static inline void team_run(struct team *team, size_t n, void (*part)(void *context, size_t i), void *context) {
  if (team != NULL && n > 1) {
    team->run(team, n, part, context);
    return;
  }
  for (size_t i = 0; i < n; i++)
    part(context, i);
}

#endif
