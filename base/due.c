#include "base/due.h"

#include <stdlib.h>

#include "base/must.h"

enum err due_init(struct due *d, size_t n) {
  size_t width = 1;
  while (width < n)
    width *= 2;
  uint64_t *at = malloc(2 * width * sizeof *at);
  if (!at)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < 2 * width; i++)
    at[i] = DUE_NEVER;
  *d = (struct due){at, width};
  return ERR_OK;
}

void due_done(struct due *d) {
  free(d->at);
  *d = (struct due){0};
}

void due_set(struct due *d, size_t i, uint64_t at) {
  MUST(i < d->width);
  size_t place = d->width + i;
  d->at[place] = at;
  while (place > 1) {
    uint64_t beside = d->at[place ^ 1], earlier = at < beside ? at : beside;
    place /= 2;
    if (d->at[place] == earlier)
      return;
    d->at[place] = at = earlier;
  }
}

size_t due_next(const struct due *d, size_t from, uint64_t now) {
  if (from >= d->width)
    return SIZE_MAX;
  size_t place = d->width + from;
  while (d->at[place] > now) {
    while (place % 2 == 1) /* a right side: nothing more below what is above it */
      place /= 2;
    if (place == 0)
      return SIZE_MAX;
    place++;
  }
  while (place < d->width)
    place = d->at[2 * place] <= now ? 2 * place : 2 * place + 1;
  return place - d->width;
}
