#include "models/kernels/selection.h"

#include <stdio.h>
#include <string.h>

void selection_key(const char *layer_text, uint32_t height, uint32_t width, uint32_t channels, uint32_t batch,
                   char out_key[MAX_SELECTION_KEY_BYTES]) {
  enum { NUMBERS = 56 }; /* " of HxWxC batch N" with four numbers of ten digits */
  snprintf(out_key, MAX_SELECTION_KEY_BYTES, "%.*s of %ux%ux%u batch %u", MAX_SELECTION_KEY_BYTES - NUMBERS, layer_text,
           height, width, channels, batch);
}

static struct selection_entry *entry_of(const struct selection *s, const char *key) {
  for (size_t i = 0; s != NULL && i < s->n; i++)
    if (strcmp(s->entries[i].key, key) == 0)
      return (struct selection_entry *)&s->entries[i];
  return NULL;
}

const char *selection_find(const struct selection *s, const char *key) {
  const struct selection_entry *entry = entry_of(s, key);
  return entry != NULL ? entry->kernel : NULL;
}

enum err selection_put(struct selection *s, const char *key, const char *kernel) {
  if (strlen(key) >= MAX_SELECTION_KEY_BYTES || strlen(kernel) >= MAX_KERNEL_NAME_BYTES)
    return ERR_LIMIT;
  struct selection_entry *entry = entry_of(s, key);
  if (entry == NULL && s->n == MAX_SELECTION)
    return ERR_LIMIT;
  if (entry == NULL) {
    entry = &s->entries[s->n++];
    memcpy(entry->key, key, strlen(key) + 1);
  }
  memcpy(entry->kernel, kernel, strlen(kernel) + 1);
  return ERR_OK;
}
