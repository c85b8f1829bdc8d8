#include "gossip/outbox.h"

#include <stdlib.h>
#include <string.h>

enum err outbox_put(struct outbox *box, uint8_t type, const uint8_t *bytes, size_t n) {
  if (n > MAX_OUTBOX_BYTES - box->n_bytes)
    return ERR_BACKLOG;
  struct outbox_item *item = malloc(sizeof *item + n);
  if (!item)
    return ERR_NO_MEMORY;
  *item = (struct outbox_item){.type = type, .n = n};
  memcpy(item->bytes, bytes, n);
  if (box->last)
    box->last->next = item;
  else
    box->first = item;
  box->last = item;
  box->n_bytes += n;
  return ERR_OK;
}

void outbox_drop(struct outbox *box) {
  struct outbox_item *item = box->first;
  box->first = item->next;
  if (!box->first)
    box->last = NULL;
  box->n_bytes -= item->n;
  free(item);
}

void outbox_clear(struct outbox *box) {
  while (box->first)
    outbox_drop(box);
}
