#include "models/data/sample_set.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "models/data/profile.h"

/* Open addressing, at most half full; 0 marks a free place, so the key 0 is kept as 1. */
struct sample_set {
  size_t n, capacity;
  size_t n_places; /* a power of two */
  uint64_t *places;
  bool is_full;
};

enum { FIRST_PLACES = 1 << 10 };

enum err sample_set_new(size_t capacity, struct sample_set **out_set) {
  struct sample_set *s = calloc(1, sizeof *s);
  if (s == NULL)
    return ERR_NO_MEMORY;
  *s = (struct sample_set){.capacity = capacity, .n_places = FIRST_PLACES};
  s->places = calloc(s->n_places, sizeof *s->places);
  if (s->places == NULL) {
    free(s);
    return ERR_NO_MEMORY;
  }
  *out_set = s;
  return ERR_OK;
}

void sample_set_free(struct sample_set *s) {
  if (s == NULL)
    return;
  free(s->places);
  free(s);
}

uint64_t sample_key(const struct digest_fn *fn, const struct sample *sample, size_t n_inputs) {
  struct digest_state state;
  struct digest hash;
  struct cursor c;
  fn->init(&state);
  if (sample->bytes != NULL)
    fn->add(&state, sample->bytes, n_inputs);
  else
    fn->add(&state, sample->floats, n_inputs * sizeof *sample->floats); /* never leaves this host */
  fn->end(&state, &hash);
  cursor_init(&c, hash.bytes, sizeof hash.bytes);
  return cursor_u64(&c);
}

/* Where the key stands or would. */
static uint64_t *place_of(const struct sample_set *s, uint64_t key) {
  size_t at = key & (s->n_places - 1);
  while (s->places[at] != 0 && s->places[at] != key)
    at = (at + 1) & (s->n_places - 1);
  return &s->places[at];
}

static uint64_t stored(uint64_t key) {
  return key == 0 ? 1 : key;
}

static enum err grow(struct sample_set *s) {
  struct sample_set grown = *s;
  grown.n_places = 2 * s->n_places;
  grown.places = calloc(grown.n_places, sizeof *grown.places);
  if (grown.places == NULL)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < s->n_places; i++)
    if (s->places[i] != 0)
      *place_of(&grown, s->places[i]) = s->places[i];
  free(s->places);
  *s = grown;
  return ERR_OK;
}

enum err sample_set_put(struct sample_set *s, uint64_t key) {
  key = stored(key);
  if (*place_of(s, key) == key)
    return ERR_OK;
  s->is_full = s->n == s->capacity;
  if (s->is_full)
    return ERR_OK;
  if (2 * (s->n + 1) > s->n_places) {
    enum err e = grow(s);
    if (e != ERR_OK)
      return e;
  }
  *place_of(s, key) = key;
  s->n++;
  return ERR_OK;
}

bool sample_set_has(const struct sample_set *s, uint64_t key) {
  return *place_of(s, stored(key)) == stored(key);
}

bool sample_set_is_full(const struct sample_set *s) {
  return s->is_full;
}
