/* How a trainer computes on this host: the selection in effect, and the threads for it.
 *
 * When it is opened it is read from the job's file of measurements, or measured for about a second, kept, and then used
 * (agent/tuning.h). Before every training the host is looked at again: when its quota or its affinity has changed, a few
 * measurements tell the new one. Each of these is one line in the log. Nothing here fails: what cannot be measured or kept
 * is told, and the built-in defaults compute.
 *
 * Thread: the trainer's. Owner: the trainer. */
#ifndef AGENT_RUN_KERNELS_H
#define AGENT_RUN_KERNELS_H

#include <stdbool.h>

#include "agent/tuning.h"

struct kernels_config {
  const char *path; /* of the job's file; NULL: defaults, and nothing is measured; borrowed, as the rest is */
  const char *root; /* of the host's files; "" */
  const char *job;  /* for the log */
  const struct arch *arch;
  uint32_t batch;
  uint32_t n_jobs; /* that share the host's processors, at least 1 */
};

struct kernels; /* about 200 KiB: on the heap */

/* Looks and chooses. The hook is asked between measurements; when it ends them, the defaults compute. ERR_NO_MEMORY. */
MUST_USE enum err kernels_open(const struct kernels_config *config, const struct work_hook *hook,
                               struct kernels **out_kernels);
void kernels_close(struct kernels *k); /* NULL is allowed */

/* Looks at the host again and chooses; true when something else is to compute from now on. The team that there was lives on
 * until kernels_settled says that nothing uses it any more, or to the end. */
bool kernels_look(struct kernels *k, const struct work_hook *hook);
void kernels_settled(struct kernels *k);

/* For net_open and the learner: NULL for the defaults. */
const struct selection *kernels_selection(const struct kernels *k);
struct team *kernels_team(const struct kernels *k);

#endif
