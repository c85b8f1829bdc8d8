#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/clock.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"

uint64_t agent_tick_disk(struct agent *a, uint64_t now_ms) {
  bool keeps_few = a->disk.is_known && a->disk.state != DISK_OK;
  uint64_t due_ms = keeps_few != a->keeps_few ? now_ms : disk_due_ms(&a->disk);
  if (a->is_measuring)
    return UINT64_MAX;
  if (now_ms < due_ms)
    return due_ms;
  struct scribe_job *job = calloc(1, sizeof *job);
  if (!job)
    return now_ms + DISK_MEASURE_MS;
  job->kind = SCRIBE_MEASURE;
  job->keeps_few = a->keeps_few = keeps_few;
  a->is_measuring = true;
  scribe_put(a->scribe, job);
  return UINT64_MAX;
}

/* Halting and resuming are told by the round machines, with the reason. */
static void tell(struct agent *a) {
  static const struct {
    const char *name, *text;
  } told[] = {
      [DISK_OK] = {"disk-ok", "there is room again"},
      [DISK_LOW] = {"disk-low", "older models that are not pinned are let go"},
      [DISK_TIGHT] = {"disk-tight", "it trains and merges, and publishes no update until there is room"},
  };
  char text[MAX_REASON_BYTES];
  enum disk_state state = a->disk.state;
  snprintf(text, sizeof text, "room for %" PRIu64 " more rounds: %s", disk_rounds_left(&a->disk), told[state].text);
  log_event(state == DISK_OK ? LOG_INFO : LOG_WARNING, told[state].name, NULL, LOG_FIELDS(log_text("text", text)));
  agent_write_event(a, told[state].name, NULL, text);
}

/* The keeping that the state asks for goes with the next measurement, which is put at once. */
static void enter(struct agent *a) {
  tell(a);
  for (size_t i = 0; i < a->n_jobs; i++) {
    round_set_tight(a->jobs[i]->round, a->disk.state == DISK_TIGHT);
    if (a->disk.state != DISK_OK)
      outbox_shrink(&a->jobs[i]->outbox);
  }
}

void agent_take_room(struct agent *a, const struct scribe_result *r) {
  enum disk_state before = a->disk.state;
  if (r->kind == SCRIBE_MEASURE)
    a->is_measuring = false;
  disk_expect(&a->disk, r->n_published, r->n_committed);
  if (r->has_room)
    (void)disk_measured(&a->disk, &r->room, clock_ms());
  if (a->disk.state != before)
    enter(a);
}

void agent_look_at_halts(struct agent *a) {
  bool is_halted = false;
  for (size_t i = 0; i < a->n_jobs; i++) {
    struct round_view view;
    round_view(a->jobs[i]->round, &view);
    is_halted = is_halted || (view.is_halted && !a->jobs[i]->is_stopped);
  }
  (void)disk_set_halted(&a->disk, is_halted);
}
