#include "gossip/notes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/must.h"

void notes_init(struct notes *notes, size_t n_peers) {
  *notes = (struct notes){.n_peers = n_peers};
}

void notes_done(struct notes *notes) {
  free(notes->waiting);
  free(notes->pauses);
  *notes = (struct notes){0};
}

/* The pair's pause, one that is over, or a new one; NULL: no memory. */
static struct note_pause *pause_of(struct notes *notes, uint64_t now_ms, size_t peer, enum err reason) {
  struct note_pause *over = NULL;
  for (size_t i = 0; i < notes->n_pauses; i++) {
    struct note_pause *p = &notes->pauses[i];
    if (p->peer == peer && p->reason == reason)
      return p;
    if (p->until_ms <= now_ms)
      over = p;
  }
  if (!over) {
    struct note_pause *pauses = array_grown(notes->pauses, &notes->pause_capacity, notes->n_pauses, sizeof *pauses,
                                            (notes->n_peers + 1) * ERR_COUNT);
    if (!pauses)
      return NULL;
    notes->pauses = pauses;
    over = &pauses[notes->n_pauses++];
  }
  *over = (struct note_pause){.peer = peer, .reason = reason};
  return over;
}

static void drop_oldest(struct notes *notes) {
  memmove(notes->waiting, notes->waiting + 1, --notes->n * sizeof *notes->waiting);
}

void notes_put(struct notes *notes, uint64_t now_ms, size_t peer, enum err reason, const char *text) {
  MUST((peer < notes->n_peers || peer == SIZE_MAX) && reason < ERR_COUNT);
  struct note_pause *p = pause_of(notes, now_ms, peer, reason);
  if (!p || now_ms < p->until_ms)
    return;
  p->until_ms = now_ms + NOTE_EVERY_MS;
  if (notes->n == MAX_NOTES)
    drop_oldest(notes);
  struct gossip_note *waiting = array_grown(notes->waiting, &notes->capacity, notes->n, sizeof *waiting, MAX_NOTES);
  if (!waiting)
    return;
  notes->waiting = waiting;
  struct gossip_note *note = &waiting[notes->n++];
  *note = (struct gossip_note){.peer = peer, .reason = reason};
  snprintf(note->text, sizeof note->text, "%s", text);
}

bool notes_take(struct notes *notes, struct gossip_note *out_note) {
  if (notes->n == 0)
    return false;
  *out_note = notes->waiting[0];
  drop_oldest(notes);
  if (notes->n == 0) {
    free(notes->waiting);
    notes->waiting = NULL;
    notes->capacity = 0;
  }
  return true;
}
