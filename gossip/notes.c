#include "gossip/notes.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"

enum err notes_init(struct notes *notes, size_t n_peers) {
  *notes = (struct notes){.n_peers = n_peers};
  notes->next_ms = calloc((n_peers + 1) * ERR_COUNT, sizeof *notes->next_ms);
  return notes->next_ms ? ERR_OK : ERR_NO_MEMORY;
}

void notes_done(struct notes *notes) {
  free(notes->next_ms);
  *notes = (struct notes){0};
}

void notes_put(struct notes *notes, uint64_t now_ms, size_t peer, enum err reason, const char *text) {
  size_t row = peer == SIZE_MAX ? notes->n_peers : peer;
  MUST(row <= notes->n_peers && reason < ERR_COUNT);
  uint64_t *next_ms = &notes->next_ms[row * ERR_COUNT + reason];
  if (now_ms < *next_ms)
    return;
  *next_ms = now_ms + NOTE_EVERY_MS;
  if (notes->n == MAX_NOTES) {
    notes->first = (notes->first + 1) % MAX_NOTES;
    notes->n--;
  }
  struct gossip_note *note = &notes->ring[(notes->first + notes->n++) % MAX_NOTES];
  *note = (struct gossip_note){.peer = peer, .reason = reason};
  snprintf(note->text, sizeof note->text, "%s", text);
}

bool notes_take(struct notes *notes, struct gossip_note *out_note) {
  if (notes->n == 0)
    return false;
  *out_note = notes->ring[notes->first];
  notes->first = (notes->first + 1) % MAX_NOTES;
  notes->n--;
  return true;
}
