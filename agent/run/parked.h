/* Clients of the control socket whose answer waits for news, so that nobody has to ask again and again.
 *
 * A request is parked with a mark: a number that changes when there is something new. It is answered as soon as the mark
 * has moved, and at the latest after PARKED_MS, well before the client's patience ends. Loop thread only. */
#ifndef AGENT_RUN_PARKED_H
#define AGENT_RUN_PARKED_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

struct agent;

enum { PARKED_MS = 1000, MAX_PARKED = 2 * MAX_CONTROL_CLIENTS };

/* What a kind of request waits for, and how it is answered then: whatever there is, or before until_ms parked again. */
struct parked_kind {
  uint64_t (*mark)(const struct agent *a, const json_t *request);
  void (*answer)(struct agent *a, uint64_t client, const json_t *request, uint64_t until_ms);
};

struct parked {
  const struct parked_kind *kind;
  uint64_t client, seen, until_ms;
  json_t *request;
};

/* Zero-initialised: empty. Oldest first. */
struct parking {
  struct parked places[MAX_PARKED];
  size_t n;
};

/* Parks a request until its mark is no longer `seen`. When all places are taken the oldest one is answered, with
 * whatever there is. */
void parking_put(struct agent *a, struct parking *p, const struct parked *parked);

/* Answers all whose mark has moved or whose time is over. */
void parking_turn(struct agent *a, struct parking *p, uint64_t now_ms);

/* When the next one's time is over; UINT64_MAX when none waits. */
uint64_t parking_due_ms(const struct parking *p);

void parking_done(struct parking *p);

#endif
