/* The demo: five agents on loopback learn Fashion-MNIST together, then each learns alone, and both are compared.
 *
 * Everything is real: keys, configs, one process an agent, the control socket. All of it lies in one folder, and keys in
 * it are kept, so that a repeated demo repeats its bits. Main thread. */
#ifndef AGENT_CLI_DEMO_H
#define AGENT_CLI_DEMO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/cli/cli.h"
#include "store/store.h"

enum { DEMO_SITES = 5 };

struct demo_options {
  const char *folder;
  uint64_t rounds, seed;
};

/* One agent of the demo. */
struct demo_site {
  char folder[MAX_PATH_BYTES]; /* with key, configs and states */
  char name[MAX_NAME_BYTES];
  struct identity_key key;
  uint16_t port;
  pid_t pid;      /* 0: does not run */
  json_t *status; /* last answer, NULL before the first */
  uint32_t n_test;
  struct store_metrics swarm, alone; /* final */
  uint64_t sent_before;              /* bytes, by its processes that were killed */
  uint64_t sent_bytes;               /* final, by all of them */
};

/* Makes the demo's folder when it is missing and holds it until the descriptor is closed, so that no second demo works in
 * it: ERR_LOCKED. `why` is one line. */
MUST_USE enum err demo_folder_open(const char *path, int *out_fd, char why[MAX_CONFIG_WHY_BYTES]);

/* Looks for the data set, makes or keeps the keys, finds free ports, writes job and site files, removes the states of an earlier run.
 * `why` is one line. */
MUST_USE enum err demo_write_sites(const struct demo_options *options, struct demo_site sites[DEMO_SITES],
                                   char why[MAX_CONFIG_WHY_BYTES]);

/* Live table on a terminal (redrawn in place); else a line a round. `seconds` since the start. */
struct demo_view {
  bool is_terminal;
  uint64_t printed_round;
  int n_drawn; /* lines to go up before drawing again */
};

void demo_view_show(struct demo_view *view, const struct demo_site sites[DEMO_SITES], double seconds);

/* A line about one site between the others. */
void demo_view_note(struct demo_view *view, const struct demo_site *site, const char *text);

/* The table of both runs, two sentences, what to try next, and the result line. */
void demo_view_result(const struct demo_options *options, const struct demo_site sites[DEMO_SITES], double seconds);

#endif
