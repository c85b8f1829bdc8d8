#include "models/continual/rehearsal.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/must.h"
#include "models/floats.h"

static const size_t MAX_REHEARSAL_BYTES = (size_t)1 << 30;

struct rehearsal {
  enum replay_rule rule;
  size_t a_class, n_classes, n_inputs, n_slots;
  size_t value_bytes; /* of an input */
  uint64_t seed;
  uint64_t *n_offered; /* [n_classes] balanced: of each class; else the first counts all */
  size_t *n_held;      /* [n_classes] the same */
  uint16_t *labels;    /* [n_slots] */
  uint8_t *rows;       /* [n_slots][n_inputs] bytes or floats */
  uint32_t *filled;    /* [n_slots] slots that are in use, ascending */
  size_t n_filled;
  uint32_t *drawn; /* [MAX_BATCH] */
};

static size_t row_bytes(const struct rehearsal *b) {
  return b->n_inputs * b->value_bytes;
}

enum err rehearsal_memory(size_t a_class, size_t n_classes, size_t n_inputs, bool has_bytes, size_t *out_bytes) {
  size_t n_slots, a_slot, all;
  if (!size_mul(n_inputs, has_bytes ? 1 : sizeof(float), &a_slot) || !size_mul(a_class, n_classes, &n_slots) ||
      !size_add(a_slot, sizeof(uint16_t) + sizeof(uint32_t), &a_slot) || !size_mul(a_slot, n_slots, &all) ||
      all > MAX_REHEARSAL_BYTES)
    return ERR_LIMIT;
  *out_bytes = all;
  return ERR_OK;
}

enum err rehearsal_open(enum replay_rule rule, size_t a_class, size_t n_classes, const struct dataset *like,
                        uint64_t seed, struct rehearsal **out_buffer) {
  size_t n_bytes;
  enum err e = rehearsal_memory(a_class, n_classes, like->n_inputs, dataset_has_bytes(like), &n_bytes);
  struct rehearsal *b = e ? NULL : calloc(1, sizeof *b);
  if (!b)
    return e ? e : ERR_NO_MEMORY;
  *b = (struct rehearsal){.rule = rule,
                          .a_class = a_class,
                          .n_classes = n_classes,
                          .n_inputs = like->n_inputs,
                          .n_slots = a_class * n_classes,
                          .value_bytes = dataset_has_bytes(like) ? 1 : sizeof(float),
                          .seed = seed};
  b->n_offered = calloc(n_classes + 1, sizeof *b->n_offered);
  b->n_held = calloc(n_classes + 1, sizeof *b->n_held);
  b->labels = calloc(b->n_slots + 1, sizeof *b->labels);
  b->rows = calloc(b->n_slots + 1, row_bytes(b));
  b->filled = calloc(b->n_slots + 1, sizeof *b->filled);
  b->drawn = calloc(MAX_BATCH, sizeof *b->drawn);
  if (!b->n_offered || !b->n_held || !b->labels || !b->rows || !b->filled || !b->drawn) {
    rehearsal_free(b);
    return ERR_NO_MEMORY;
  }
  *out_buffer = b;
  return ERR_OK;
}

void rehearsal_free(struct rehearsal *b) {
  if (!b)
    return;
  free(b->n_offered);
  free(b->n_held);
  free(b->labels);
  free(b->rows);
  free(b->filled);
  free(b->drawn);
  free(b);
}

/* ---- filling */

/* The reservoir of a class: where its slots begin, and how many it has. */
static size_t first_slot(const struct rehearsal *b, size_t reservoir) {
  return reservoir * b->a_class;
}

static size_t slots_of(const struct rehearsal *b) {
  return b->rule == REPLAY_BALANCED ? b->a_class : b->n_slots;
}

static size_t reservoirs(const struct rehearsal *b) {
  return b->rule == REPLAY_BALANCED ? b->n_classes : 1;
}

static void list_filled(struct rehearsal *b) {
  b->n_filled = 0;
  for (size_t r = 0; r < reservoirs(b); r++)
    for (size_t i = 0; i < b->n_held[r]; i++)
      b->filled[b->n_filled++] = (uint32_t)(first_slot(b, r) + i);
}

/* Where the next sample of a reservoir goes; SIZE_MAX: nowhere. */
static size_t slot_for_next(struct rehearsal *b, size_t reservoir) {
  size_t most = slots_of(b);
  uint64_t n = b->n_offered[reservoir]++;
  if (n < most)
    return first_slot(b, reservoir) + b->n_held[reservoir]++;
  struct rng rng;
  rng_init(&rng, rng_mix(rng_mix(b->seed + reservoir) + n));
  uint64_t at = rng_below(&rng, n + 1);
  return at < most ? first_slot(b, reservoir) + (size_t)at : SIZE_MAX;
}

enum err rehearsal_offer(struct rehearsal *b, const struct dataset *from, const uint32_t *index, size_t n) {
  MUST(from->n_inputs == b->n_inputs && dataset_has_bytes(from) == (b->value_bytes == 1) && from->labels);
  for (size_t i = 0; i < n; i++) {
    const void *row;
    size_t n_rows, class = from->labels[index[i]];
    enum err e = dataset_rows(from, index[i], &row, &n_rows);
    if (e)
      return e;
    MUST(class < b->n_classes);
    size_t slot = slot_for_next(b, b->rule == REPLAY_BALANCED ? class : 0);
    if (slot == SIZE_MAX)
      continue;
    memcpy(b->rows + slot * row_bytes(b), row, row_bytes(b));
    b->labels[slot] = (uint16_t) class;
  }
  list_filled(b);
  return ERR_OK;
}

size_t rehearsal_samples(const struct rehearsal *b) {
  return b->n_filled;
}

size_t rehearsal_samples_of(const struct rehearsal *b, size_t class) {
  size_t n = 0;
  for (size_t i = 0; i < b->n_filled; i++)
    n += b->labels[b->filled[i]] == class;
  return n;
}

/* ---- drawing */

void rehearsal_draw(struct rehearsal *b, const struct dataset *like, struct rng *rng, size_t n, float *out_x,
                    uint16_t *out_labels) {
  MUST(b->n_filled > 0 && n <= MAX_BATCH);
  struct dataset held = *like; /* its standardisation, our samples */
  held.n = b->n_slots;
  held.bytes = b->value_bytes == 1 ? b->rows : NULL;
  held.floats = b->value_bytes == 1 ? NULL : (float *)(void *)b->rows;
  held.labels = b->labels;
  held.scratch = NULL;
  held.ahead = NULL;
  for (size_t i = 0; i < n; i++)
    b->drawn[i] = b->filled[rng_below(rng, b->n_filled)];
  MUST(dataset_gather(&held, b->drawn, n, out_x) == ERR_OK); /* from memory */
  dataset_gather_labels(&held, b->drawn, n, out_labels);
}

/* ---- as bytes: rule u32, inputs u32, classes u32, slots a class u32, value bytes u32, zero u32; of each reservoir offered u64,
 * held u64; of each held sample label u16 and its row */

size_t rehearsal_bytes(const struct rehearsal *b) {
  return 24 + reservoirs(b) * 16 + b->n_filled * (2 + row_bytes(b));
}

size_t rehearsal_bound(size_t a_class, size_t n_classes, size_t n_inputs) {
  size_t n_bytes;
  bool can =
      rehearsal_memory(a_class, n_classes, n_inputs, true, &n_bytes) == ERR_OK; /* a float takes four times as much */
  return (can ? 4 * n_bytes : 4 * MAX_REHEARSAL_BYTES) + 24 + 16 * n_classes;
}

void rehearsal_write(const struct rehearsal *b, struct writer *w) {
  const uint32_t head[] = {
      b->rule, (uint32_t)b->n_inputs, (uint32_t)b->n_classes, (uint32_t)b->a_class, (uint32_t)b->value_bytes, 0};
  for (size_t i = 0; i < sizeof head / sizeof *head; i++)
    writer_u32(w, head[i]);
  for (size_t r = 0; r < reservoirs(b); r++) {
    writer_u64(w, b->n_offered[r]);
    writer_u64(w, b->n_held[r]);
  }
  for (size_t i = 0; i < b->n_filled; i++) {
    writer_u16(w, b->labels[b->filled[i]]);
    writer_bytes(w, b->rows + b->filled[i] * row_bytes(b), row_bytes(b));
  }
}

static bool head_fits(const struct rehearsal *b, struct cursor *c) {
  const uint32_t head[] = {
      b->rule, (uint32_t)b->n_inputs, (uint32_t)b->n_classes, (uint32_t)b->a_class, (uint32_t)b->value_bytes, 0};
  bool fits = true;
  for (size_t i = 0; i < sizeof head / sizeof *head; i++)
    fits = cursor_u32(c) == head[i] && fits;
  return fits;
}

/* A look over all before anything is taken. */
static enum err judge(const struct rehearsal *b, struct cursor c) {
  bool fits = head_fits(b, &c);
  size_t n = 0;
  for (size_t r = 0; r < reservoirs(b); r++) {
    uint64_t offered = cursor_u64(&c), held = cursor_u64(&c);
    fits = fits && held == (offered < slots_of(b) ? offered : slots_of(b));
    n += fits ? (size_t)held : 0;
  }
  if (c.failed)
    return ERR_TRUNCATED;
  if (!fits)
    return ERR_CORRUPT;
  for (size_t i = 0; i < n; i++) {
    fits = cursor_u16(&c) < b->n_classes && fits;
    const uint8_t *row = cursor_view(&c, row_bytes(b));
    if (!row)
      return ERR_TRUNCATED;
    if (b->value_bytes == 1)
      continue;
    for (size_t k = 0; k < b->n_inputs; k++) {
      float value;
      memcpy(&value, row + k * sizeof value, sizeof value);
      fits = floats_finite(&value, 1) && fits;
    }
  }
  return fits ? cursor_end(&c) : ERR_CORRUPT;
}

enum err rehearsal_read(struct rehearsal *b, struct cursor *c) {
  enum err e = judge(b, *c);
  if (e)
    return e;
  MUST(head_fits(b, c));
  for (size_t r = 0; r < reservoirs(b); r++) {
    b->n_offered[r] = cursor_u64(c);
    b->n_held[r] = (size_t)cursor_u64(c);
  }
  list_filled(b);
  for (size_t i = 0; i < b->n_filled; i++) {
    b->labels[b->filled[i]] = cursor_u16(c);
    cursor_bytes(c, b->rows + b->filled[i] * row_bytes(b), row_bytes(b));
  }
  return ERR_OK;
}
