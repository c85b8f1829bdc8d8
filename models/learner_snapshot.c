#include "models/learner_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/must.h"
#include "models/floats.h"
#include "models/merging/nearby.h"

/* ---- snapshots
 *
 *   head   magic 8, version u32, zero u32, schema hash 32, P u64, zero u64                          64 bytes
 *   half   head, own step f64, ring (n u32, oldest u32, 32 × f64), x, first state, x̂        336 + 8·P + 4·S
 *          version 2, of optimisers with more than momentum: optimiser u32, zero u32, t u64, other states
 *          versions 3 and 4: as 1 and 2 without x there, and at the end width u32, zero u32 and x beside x̂
 *          (models/merging/nearby.h)
 *          versions 5 to 8: as 1 to 4, and at the end sections: how many u32, zero u32, and each
 *            word 16, numbers u32, arrays u32, values of each u64, the numbers f64, the arrays
 *   model  head, x                                                                                  64 + 4·P
 *          version 2: and sections, "ring" among them: n, oldest, 32 distances as the merge has left them, which the half of
 *          that round does not know
 *
 *   section "push-sum", of either: the length of an account and its bytes, four to a number; the copies it speaks of, of S
 *   values */

enum {
  MODEL_VERSION = 2,
  HALF_VERSION = 8,
  SECTIONS_VERSION = 4, /* is added to a half's with sections */
  HEAD_BYTES = 64,
  STATE_BYTES = 8 + 4 + 4 + 8 * MERGE_RING,
  TAIL_BYTES = 16,
  SECTIONS_BYTES = 8,
  SECTION_HEAD_BYTES = MAX_TERM_WORD_BYTES + 16,
  MAX_SECTIONS = 16,
  MAX_SECTION_NUMBERS = 8192,
  MAX_SECTION_ARRAYS = 32 + MAX_PEERS, /* of P values, all sections together */
  MAGIC_BYTES = 8
};

static const char half_magic[MAGIC_BYTES] = "starhalf", model_magic[MAGIC_BYTES] = "starmodl";

/* Room and place of an array in a snapshot. */
static size_t array_bytes(const struct learner *l) {
  return codec_full_bytes(l->n);
}

static void head_write(const struct learner *l, const char magic[MAGIC_BYTES], uint32_t version,
                       uint8_t out_bytes[HEAD_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, HEAD_BYTES);
  writer_bytes(&w, magic, MAGIC_BYTES);
  writer_u32(&w, version);
  writer_u32(&w, 0);
  writer_bytes(&w, l->config.schema_hash.bytes, DIGEST_BYTES);
  writer_u64(&w, l->n);
  writer_u64(&w, 0);
  MUST(writer_end(&w) == ERR_OK);
}

/* The head of n values of the schema with this hash, of the newest version or one before. */
static enum err head_judge(const struct digest *schema_hash, size_t n_values, const char magic[MAGIC_BYTES],
                           uint32_t newest, const uint8_t *bytes, size_t n_bytes, uint32_t *out_version) {
  struct cursor c;
  char found[MAGIC_BYTES];
  struct digest schema;
  if (n_bytes < HEAD_BYTES)
    return ERR_TRUNCATED;
  cursor_init(&c, bytes, HEAD_BYTES);
  cursor_bytes(&c, found, sizeof found);
  uint32_t version = cursor_u32(&c), zero = cursor_u32(&c);
  cursor_bytes(&c, schema.bytes, sizeof schema.bytes);
  uint64_t n = cursor_u64(&c), zero_too = cursor_u64(&c);
  if (memcmp(found, magic, sizeof found) != 0 || version == 0)
    return ERR_CORRUPT;
  if (version > newest)
    return ERR_TOO_NEW;
  if (!digest_equal(&schema, schema_hash))
    return ERR_SCHEMA;
  if (zero || zero_too || n != n_values)
    return ERR_CORRUPT;
  *out_version = version;
  return ERR_OK;
}

static enum err size_judge(size_t n_bytes, size_t expected_bytes) {
  return n_bytes < expected_bytes ? ERR_TRUNCATED : n_bytes > expected_bytes ? ERR_TRAILING : ERR_OK;
}

static void state_write(const struct learner *l, uint8_t out_bytes[STATE_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, STATE_BYTES);
  writer_f64(&w, l->own_step);
  writer_u32(&w, l->ring.n);
  writer_u32(&w, l->ring.oldest);
  for (size_t i = 0; i < MERGE_RING; i++)
    writer_f64(&w, l->ring.distances[i]);
  MUST(writer_end(&w) == ERR_OK);
}

static bool is_distance(double d) {
  return isfinite(d) && d >= 0;
}

static enum err state_read(const uint8_t bytes[STATE_BYTES], double *out_own_step, struct distance_ring *out_ring) {
  struct cursor c;
  cursor_init(&c, bytes, STATE_BYTES);
  *out_own_step = cursor_f64(&c);
  out_ring->n = cursor_u32(&c);
  out_ring->oldest = cursor_u32(&c);
  bool sound = is_distance(*out_own_step) && out_ring->n <= MERGE_RING && out_ring->oldest < MERGE_RING;
  sound = sound && (out_ring->n == MERGE_RING || out_ring->oldest == 0);
  for (size_t i = 0; i < MERGE_RING; i++) {
    out_ring->distances[i] = cursor_f64(&c);
    sound = sound && is_distance(out_ring->distances[i]);
  }
  return sound ? ERR_OK : ERR_CORRUPT;
}

/* x, the first state, x̂ */
enum { HALF_ARRAYS = 3 };

/* What is where in a half. */
struct half {
  enum optimiser kind; /* whose states they are */
  uint64_t n_taken;
  size_t width;      /* of an x that stands beside x̂; 0: it stands whole */
  size_t n_sections; /* bytes of them all; 0: there are none */
};

/* ---- sections: what training terms keep, the site's own model, the ring beside a model, and what `trust` measures a merge by */

static const char root_word[] = "root";

/* What is kept under one word: numbers and arrays, which are the learner's, or those of `ring`. */
struct section {
  const char *word;
  double *numbers;
  float *const *arrays;
  size_t n_numbers, n_arrays, n_values;
};

enum { RING_NUMBERS = 2 + MERGE_RING };

struct sections {
  struct section list[MAX_SECTIONS];
  size_t n;
  double ring[RING_NUMBERS]; /* the distances, as numbers */
};

static const char ring_word[] = "ring";

static void ring_write(const struct distance_ring *ring, double out[RING_NUMBERS]) {
  out[0] = ring->n;
  out[1] = ring->oldest;
  memcpy(out + 2, ring->distances, sizeof ring->distances);
}

/* Judged before. */
static void ring_read(const double numbers[RING_NUMBERS], struct distance_ring *out_ring) {
  out_ring->n = (uint32_t)numbers[0];
  out_ring->oldest = (uint32_t)numbers[1];
  memcpy(out_ring->distances, numbers + 2, sizeof out_ring->distances);
}

/* ---- the ledger's: bytes as numbers, four to each behind how many they are */

static const char ledger_word[] = "push-sum";

enum { NUMBER_BYTES = 4 };

static size_t ledger_numbers(size_t n_bytes) {
  return 1 + (n_bytes + NUMBER_BYTES - 1) / NUMBER_BYTES;
}

size_t learner_ledger_bytes(size_t most_bytes) {
  return SECTIONS_BYTES + SECTION_HEAD_BYTES + 8 * ledger_numbers(most_bytes);
}

static void ledger_write(const struct learner *l, size_t n_bytes) {
  const struct ledger_room *room = &l->ledger;
  l->config.ledger->write(l->config.ledger->context, room->bytes);
  room->numbers[0] = (double)n_bytes;
  for (size_t i = 1; i < ledger_numbers(n_bytes); i++) {
    uint32_t word = 0;
    for (size_t k = 0; k < NUMBER_BYTES && NUMBER_BYTES * (i - 1) + k < n_bytes; k++)
      word |= (uint32_t)room->bytes[NUMBER_BYTES * (i - 1) + k] << 8 * k;
    room->numbers[i] = word;
  }
}

static struct section ledger_section(const struct learner *l) {
  const struct learner_ledger *ledger = l->config.ledger;
  size_t n_bytes = ledger->bytes(ledger->context), n_copies = ledger->copies(ledger->context, l->ledger.copies);
  MUST(n_bytes <= ledger->most_bytes && n_copies <= l->config.n_copies);
  ledger_write(l, n_bytes);
  for (size_t i = 0; i < n_copies; i++)
    l->ledger.arrays[i] = l->copies[l->ledger.copies[i]];
  return (struct section){.word = ledger_word,
                          .numbers = l->ledger.numbers,
                          .arrays = l->ledger.arrays,
                          .n_numbers = ledger_numbers(n_bytes),
                          .n_arrays = n_copies,
                          .n_values = l->n_shared};
}

/* ---- all of them: a model has only what is served, and what its merge has changed; a half has its ring in front */
enum kind { OF_HALF, OF_MODEL, OF_EITHER };

static void own_sections(const struct learner *l, enum kind kind, struct sections *s) {
  struct section *out = s->list;
  size_t n = 0;
  ring_write(&l->ring, s->ring);
  if (kind == OF_EITHER || (kind == OF_MODEL && l->ring.n > 0))
    out[n++] = (struct section){.word = ring_word, .numbers = s->ring, .n_numbers = RING_NUMBERS};
  if (l->own.v)
    out[n++] = (struct section){.word = "personal",
                                .numbers = (double *)&l->own.alpha,
                                .arrays = &l->own.v,
                                .n_numbers = 1,
                                .n_arrays = 1,
                                .n_values = l->n};
  if (kind != OF_MODEL && learner_keeps_root(l) && (l->has_step || kind == OF_EITHER))
    out[n++] =
        (struct section){.word = root_word, .numbers = NULL, .arrays = &l->before.x, .n_arrays = 1, .n_values = l->n};
  for (size_t i = 0; i < l->added.n && kind != OF_MODEL; i++) {
    const struct term *t = &l->added.list[i];
    if (t->type->n_kept + t->type->n_numbers > 0)
      out[n++] = (struct section){.word = t->type->word,
                                  .numbers = (double *)t->numbers,
                                  .arrays = t->kept,
                                  .n_numbers = t->type->n_numbers,
                                  .n_arrays = t->type->n_kept,
                                  .n_values = l->n};
  }
  if (l->config.ledger && kind != OF_EITHER)
    out[n++] = ledger_section(l);
  s->n = n;
}

static size_t section_bytes(const struct section *s) {
  return SECTION_HEAD_BYTES + 8 * s->n_numbers + s->n_arrays * codec_full_bytes(s->n_values);
}

static size_t sections_now(const struct learner *l, enum kind kind) {
  struct sections own;
  own_sections(l, kind, &own);
  size_t n_bytes = own.n > 0 ? SECTIONS_BYTES : 0;
  for (size_t i = 0; i < own.n; i++)
    n_bytes += section_bytes(&own.list[i]);
  return n_bytes;
}

static void sections_write(const struct learner *l, enum kind kind, uint8_t *out_bytes) {
  struct sections own;
  struct writer w;
  own_sections(l, kind, &own);
  writer_init(&w, out_bytes, SECTIONS_BYTES);
  writer_u32(&w, (uint32_t)own.n);
  writer_u32(&w, 0);
  MUST(writer_end(&w) == ERR_OK);
  uint8_t *at = out_bytes + SECTIONS_BYTES;
  for (size_t i = 0; i < own.n; i++) {
    const struct section *s = &own.list[i];
    char word[MAX_TERM_WORD_BYTES] = {0};
    strncpy(word, s->word, sizeof word - 1);
    writer_init(&w, at, SECTION_HEAD_BYTES + 8 * s->n_numbers);
    writer_bytes(&w, word, sizeof word);
    writer_u32(&w, (uint32_t)s->n_numbers);
    writer_u32(&w, (uint32_t)s->n_arrays);
    writer_u64(&w, s->n_values);
    for (size_t k = 0; k < s->n_numbers; k++)
      writer_f64(&w, s->numbers[k]);
    MUST(writer_end(&w) == ERR_OK);
    at += SECTION_HEAD_BYTES + 8 * s->n_numbers;
    for (size_t k = 0; k < s->n_arrays; k++, at += codec_full_bytes(s->n_values))
      codec_write_values(s->arrays[k], s->n_values, at);
  }
}

/* A section as it stands in a half. */
struct stored {
  char word[MAX_TERM_WORD_BYTES];
  size_t n_numbers, n_arrays, n_values;
  const uint8_t *numbers, *arrays;
  size_t n_bytes;
};

/* ERR_TRUNCATED, ERR_CORRUPT: more than anyone keeps. `left` values may still come. */
static enum err stored_read(const uint8_t *bytes, size_t n_bytes, size_t *left, struct stored *out) {
  struct cursor c;
  if (n_bytes < SECTION_HEAD_BYTES)
    return ERR_TRUNCATED;
  cursor_init(&c, bytes, SECTION_HEAD_BYTES);
  cursor_bytes(&c, out->word, sizeof out->word);
  out->n_numbers = cursor_u32(&c);
  out->n_arrays = cursor_u32(&c);
  uint64_t n_values = cursor_u64(&c);
  if (out->n_numbers > MAX_SECTION_NUMBERS || out->n_arrays > MAX_SECTION_ARRAYS || n_values > MAX_PARAMETERS ||
      out->n_arrays * n_values > *left || out->word[sizeof out->word - 1] != '\0')
    return ERR_CORRUPT;
  out->n_values = (size_t)n_values;
  *left -= out->n_arrays * out->n_values;
  out->numbers = bytes + SECTION_HEAD_BYTES;
  out->arrays = out->numbers + 8 * out->n_numbers;
  out->n_bytes = SECTION_HEAD_BYTES + 8 * out->n_numbers + out->n_arrays * codec_full_bytes(out->n_values);
  return out->n_bytes > n_bytes ? ERR_TRUNCATED : ERR_OK;
}

/* All sections, and what `take` makes of each; NULL: only how long they are. */
static enum err sections_walk(struct learner *l, size_t n_model, const uint8_t *bytes, size_t n_bytes,
                              enum err (*take)(struct learner *l, const struct stored *s), size_t *out_n_bytes) {
  struct cursor c;
  size_t at = SECTIONS_BYTES, left = MAX_SECTION_ARRAYS * n_model;
  if (n_bytes < SECTIONS_BYTES)
    return ERR_TRUNCATED;
  cursor_init(&c, bytes, SECTIONS_BYTES);
  uint32_t n = cursor_u32(&c), zero = cursor_u32(&c);
  if (n < 1 || n > MAX_SECTIONS || zero)
    return ERR_CORRUPT;
  enum err e = ERR_OK;
  for (uint32_t i = 0; i < n && !e; i++) {
    struct stored s;
    e = stored_read(bytes + at, n_bytes - at, &left, &s);
    if (!e && take)
      e = take(l, &s);
    if (!e)
      at += s.n_bytes;
  }
  if (!e)
    *out_n_bytes = at;
  return e;
}

static size_t sections_most(size_t n_values) {
  return SECTIONS_BYTES + MAX_SECTIONS * (SECTION_HEAD_BYTES + 8 * MAX_SECTION_NUMBERS) +
         MAX_SECTION_ARRAYS * codec_full_bytes(n_values);
}

static double stored_number(const struct stored *s, size_t i) {
  struct cursor c;
  cursor_init(&c, s->numbers + 8 * i, 8);
  return cursor_f64(&c);
}

static bool own_fits(const struct stored *s) {
  double alpha = s->n_numbers == 1 ? stored_number(s, 0) : 0;
  return strcmp(s->word, "personal") != 0 || (alpha >= 0 && alpha <= 1);
}

static bool is_count(double x, double most) {
  return x >= 0 && x <= most && x == floor(x);
}

static bool ring_is_sound(double n, double oldest) {
  return is_count(n, MERGE_RING) && is_count(oldest, MERGE_RING - 1) && (n == MERGE_RING || oldest == 0);
}

static bool ring_fits(const struct stored *s) {
  if (strcmp(s->word, ring_word) != 0)
    return true;
  bool fits = s->n_numbers == RING_NUMBERS && ring_is_sound(stored_number(s, 0), stored_number(s, 1));
  for (size_t i = 2; fits && i < RING_NUMBERS; i++)
    fits = is_distance(stored_number(s, i));
  return fits;
}

/* The account as bytes, in the room for them; SIZE_MAX: it is none. */
static size_t ledger_bytes(const struct learner *l, const struct stored *s) {
  double n = s->n_numbers > 0 ? stored_number(s, 0) : -1;
  if (!is_count(n, (double)l->config.ledger->most_bytes) || ledger_numbers((size_t)n) != s->n_numbers)
    return SIZE_MAX;
  for (size_t i = 1; i < s->n_numbers; i++) {
    double word = stored_number(s, i);
    if (!is_count(word, UINT32_MAX))
      return SIZE_MAX;
    for (size_t k = 0; k < NUMBER_BYTES && NUMBER_BYTES * (i - 1) + k < (size_t)n; k++)
      l->ledger.bytes[NUMBER_BYTES * (i - 1) + k] = (uint8_t)((uint32_t)word >> 8 * k);
  }
  return (size_t)n;
}

static bool is_ledger(const struct learner *l, const struct stored *s) {
  return l->config.ledger && strcmp(s->word, ledger_word) == 0;
}

static bool ledger_fits(const struct learner *l, const struct stored *s) {
  const struct learner_ledger *ledger = l->config.ledger;
  if (!is_ledger(l, s))
    return true;
  size_t n_bytes = ledger_bytes(l, s);
  return n_bytes != SIZE_MAX && (s->n_arrays == 0 || s->n_values == l->n_shared) &&
         ledger->fits(ledger->context, l->ledger.bytes, n_bytes, s->n_arrays);
}

/* Judged before. Of a copy that it does not speak of nothing is known. */
static void ledger_take(struct learner *l, const struct stored *s) {
  const struct learner_ledger *ledger = l->config.ledger;
  size_t *stands = l->ledger.copies;
  ledger->take(ledger->context, l->ledger.bytes, ledger_bytes(l, s), stands);
  for (size_t i = 0; i < l->config.n_copies; i++)
    if (stands[i] < s->n_arrays)
      memcpy(l->copies[i], s->arrays + stands[i] * codec_full_bytes(s->n_values), codec_full_bytes(s->n_values));
}

static enum err stored_judge(struct learner *l, const struct stored *s) {
  for (size_t i = 0; i < s->n_numbers; i++)
    if (!isfinite(stored_number(s, i)))
      return ERR_NON_FINITE;
  if (!own_fits(s) || !ring_fits(s) || !ledger_fits(l, s))
    return ERR_CORRUPT;
  return codec_check_values(s->arrays, s->n_arrays * s->n_values);
}

/* One of another shape, or that nobody here keeps, is left. */
static enum err stored_take(struct learner *l, const struct stored *s) {
  struct sections own;
  if (is_ledger(l, s)) {
    ledger_take(l, s);
    return ERR_OK;
  }
  own_sections(l, OF_EITHER, &own);
  for (size_t i = 0; i < own.n; i++) {
    const struct section *o = &own.list[i];
    if (strcmp(o->word, s->word) != 0 || o->n_numbers != s->n_numbers || o->n_arrays != s->n_arrays ||
        (o->n_arrays > 0 && o->n_values != s->n_values))
      continue;
    for (size_t k = 0; k < o->n_numbers; k++)
      o->numbers[k] = stored_number(s, k);
    for (size_t k = 0; k < o->n_arrays; k++)
      memcpy(o->arrays[k], s->arrays + k * codec_full_bytes(s->n_values), codec_full_bytes(s->n_values));
    l->has_step = l->has_step || strcmp(s->word, root_word) == 0;
  }
  ring_read(own.ring, &l->ring);
  return ERR_OK;
}

/* What no section says: x is the own model, and terms know nothing. */
static void sections_clear(struct learner *l) {
  learner_own_reset(l);
  for (size_t i = 0; i < l->added.n; i++) {
    struct term *t = &l->added.list[i];
    memset(t->numbers, 0, sizeof t->numbers);
    for (size_t k = 0; k < t->type->n_kept; k++)
      memset(t->kept[k], 0, l->n * sizeof *t->kept[k]);
  }
}

/* ---- the half */

/* The half's that would be written now. */
static struct half half_now(const struct learner *l) {
  return (struct half){.kind = l->config.train.optimiser.kind,
                       .n_taken = l->n_taken,
                       .width = l->pending ? l->nearby_width : 0,
                       .n_sections = sections_now(l, OF_HALF)};
}

static bool has_tail(const struct half *h) {
  return optimiser_states(h->kind) > 1;
}

static size_t first_state_at(const struct learner *l, const struct half *h) {
  return HEAD_BYTES + STATE_BYTES + (h->width > 0 ? 0 : array_bytes(l));
}

static size_t copy_at(const struct learner *l, const struct half *h) {
  return first_state_at(l, h) + array_bytes(l);
}

static size_t tail_at(const struct learner *l, const struct half *h) {
  return copy_at(l, h) + codec_full_bytes(l->n_shared);
}

static size_t nearby_at(const struct learner *l, const struct half *h) {
  return tail_at(l, h) + (has_tail(h) ? TAIL_BYTES + (optimiser_states(h->kind) - 1) * array_bytes(l) : 0);
}

static size_t sections_at(const struct learner *l, const struct half *h) {
  return nearby_at(l, h) + (h->width > 0 ? NEARBY_HEAD_BYTES + nearby_bytes(l->n, h->width) : 0);
}

static size_t half_bytes(const struct learner *l, const struct half *h) {
  return sections_at(l, h) + h->n_sections;
}

bool learner_keeps_root(const struct learner *l) {
  return l->config.rule.rule == RULE_TRUST && !l->shared;
}

size_t learner_half_arrays(const struct train_config *train, enum merge_rule rule) {
  return HALF_ARRAYS - 1 + optimiser_states(train->optimiser.kind) + terms_size(train).n_kept +
         personal_type(train->personal.method)->n_models + (rule == RULE_TRUST);
}

size_t learner_half_bytes(const struct learner *l) {
  struct half h = half_now(l);
  return half_bytes(l, &h);
}

size_t learner_half_copy_offset(const struct learner *l) {
  struct half h = half_now(l);
  return copy_at(l, &h);
}

static void tail_write(const struct learner *l, uint8_t *out_bytes) {
  struct writer w;
  writer_init(&w, out_bytes, TAIL_BYTES);
  writer_u32(&w, l->config.train.optimiser.kind);
  writer_u32(&w, 0);
  writer_u64(&w, l->n_taken);
  MUST(writer_end(&w) == ERR_OK);
  for (size_t i = 1; i < learner_states(l); i++)
    codec_write_values(l->states[i], l->n, out_bytes + TAIL_BYTES + (i - 1) * array_bytes(l));
}

static void x_write(const struct learner *l, const struct half *h, uint8_t *out_bytes) {
  if (h->width == 0) {
    codec_write_values(l->x, l->n, out_bytes + HEAD_BYTES + STATE_BYTES);
    return;
  }
  struct writer w;
  uint8_t *at = out_bytes + nearby_at(l, h);
  writer_init(&w, at, NEARBY_HEAD_BYTES);
  writer_u32(&w, (uint32_t)h->width);
  writer_u32(&w, 0);
  MUST(writer_end(&w) == ERR_OK);
  nearby_write(l->x, l->spare, l->n, h->width, at + NEARBY_HEAD_BYTES);
}

void learner_half_write(const struct learner *l, uint8_t *out_bytes) {
  struct half h = half_now(l);
  uint32_t version =
      1 + (has_tail(&h) ? 1u : 0) + (h.width > 0 ? 2u : 0) + (h.n_sections > 0 ? (uint32_t)SECTIONS_VERSION : 0);
  head_write(l, half_magic, version, out_bytes);
  state_write(l, out_bytes + HEAD_BYTES);
  x_write(l, &h, out_bytes);
  codec_write_values(l->states[0], l->n, out_bytes + first_state_at(l, &h));
  codec_write_values(l->pending ? l->spare : l->copy, l->n_shared, out_bytes + copy_at(l, &h));
  if (has_tail(&h))
    tail_write(l, out_bytes + tail_at(l, &h));
  if (h.n_sections > 0)
    sections_write(l, OF_HALF, out_bytes + sections_at(l, &h));
}

/* What a tail begins with; ERR_CORRUPT: no optimiser with one, or more steps than anyone takes. */
static enum err tail_head(const uint8_t bytes[TAIL_BYTES], struct half *h) {
  struct cursor c;
  cursor_init(&c, bytes, TAIL_BYTES);
  uint32_t kind = cursor_u32(&c), zero = cursor_u32(&c);
  uint64_t n_taken = cursor_u64(&c);
  if (kind >= N_OPTIMISERS || optimiser_states((enum optimiser)kind) < 2 || zero || n_taken > INT64_MAX)
    return ERR_CORRUPT;
  h->kind = (enum optimiser)kind;
  h->n_taken = n_taken;
  return ERR_OK;
}

static enum err nearby_head(const struct learner *l, const uint8_t bytes[NEARBY_HEAD_BYTES], struct half *h) {
  struct cursor c;
  cursor_init(&c, bytes, NEARBY_HEAD_BYTES);
  uint32_t width = cursor_u32(&c), zero = cursor_u32(&c);
  if (width < 1 || width > 2 || zero || l->shared || !learner_nearby_is_shorter(l, width))
    return ERR_CORRUPT;
  h->width = width;
  return ERR_OK;
}

/* Takes the half apart as far as its length hangs on it; ERR_TRUNCATED: it ends before. */
static enum err half_judge(const struct learner *l, const uint8_t *bytes, size_t n_bytes, struct half *out_half) {
  uint32_t version = 0;
  enum err e = head_judge(&l->config.schema_hash, l->n, half_magic, HALF_VERSION, bytes, n_bytes, &version);
  bool has_sections = version > SECTIONS_VERSION, is_nearby = (version - 1) % SECTIONS_VERSION > 1;
  struct half h = {.kind = OPTIMISER_SGD, .width = is_nearby};
  if (!e && version % 2 == 0)
    e = n_bytes < tail_at(l, &h) + TAIL_BYTES ? ERR_TRUNCATED : tail_head(bytes + tail_at(l, &h), &h);
  if (!e && is_nearby) {
    size_t at = nearby_at(l, &h);
    e = n_bytes < at + NEARBY_HEAD_BYTES ? ERR_TRUNCATED : nearby_head(l, bytes + at, &h);
  }
  if (!e && has_sections) {
    size_t at = sections_at(l, &h);
    e = n_bytes < at ? ERR_TRUNCATED : sections_walk(NULL, l->n, bytes + at, n_bytes - at, NULL, &h.n_sections);
  }
  if (!e)
    *out_half = h;
  return e;
}

size_t learner_half_measure(const struct learner *l, const uint8_t *bytes, size_t n_bytes) {
  struct half h;
  return half_judge(l, bytes, n_bytes, &h) ? learner_half_bytes(l) : half_bytes(l, &h);
}

size_t learner_half_most(const struct learner *l) {
  size_t most = 0;
  for (enum optimiser kind = 0; kind < N_OPTIMISERS; kind++) {
    size_t n = half_bytes(l, &(struct half){.kind = kind});
    most = n > most ? n : most;
  }
  return most + sections_most(l->n);
}

/* Its floats, before any of them is taken. */
static enum err floats_judge(struct learner *l, const struct half *h, const uint8_t *bytes) {
  enum err e = codec_check_values(bytes + first_state_at(l, h), l->n + l->n_shared);
  for (size_t i = 1; i < optimiser_states(h->kind) && !e; i++)
    e = codec_check_values(bytes + tail_at(l, h) + TAIL_BYTES + (i - 1) * array_bytes(l), l->n);
  size_t n_sections;
  if (!e && h->n_sections > 0)
    e = sections_walk(l, l->n, bytes + sections_at(l, h), h->n_sections, stored_judge, &n_sections);
  if (e)
    return e;
  return h->width == 0
             ? codec_check_values(bytes + HEAD_BYTES + STATE_BYTES, l->n)
             : nearby_read(bytes + nearby_at(l, h) + NEARBY_HEAD_BYTES, h->width, bytes + copy_at(l, h), l->n, NULL);
}

void learner_forget_states(struct learner *l) {
  l->n_taken = 0;
  for (size_t i = 0; i < learner_states(l) && l->states[i]; i++)
    memset(l->states[i], 0, l->n * sizeof *l->states[i]);
}

/* Takes the states over where they mean the same: mean and mean square, or momentum; else they begin anew. */
static void take_states(struct learner *l, const struct half *h, const uint8_t *bytes) {
  learner_forget_states(l);
  if (optimiser_states(h->kind) != learner_states(l))
    return;
  l->n_taken = h->n_taken;
  for (size_t i = 0; i < learner_states(l); i++) {
    size_t at = i == 0 ? first_state_at(l, h) : tail_at(l, h) + TAIL_BYTES + (i - 1) * array_bytes(l);
    MUST(l->states[i]);
    memcpy(l->states[i], bytes + at, array_bytes(l));
  }
}

/* Judged before. */
static void take_sections(struct learner *l, const uint8_t *bytes, size_t n_bytes) {
  size_t n_sections;
  if (n_bytes > 0)
    MUST(sections_walk(l, l->n, bytes, n_bytes, stored_take, &n_sections) == ERR_OK);
  learner_own_mix(l);
}

static void take_x(struct learner *l, const struct half *h, const uint8_t *bytes) {
  if (h->width == 0)
    memcpy(l->x, bytes + HEAD_BYTES + STATE_BYTES, array_bytes(l));
  else
    MUST(nearby_read(bytes + nearby_at(l, h) + NEARBY_HEAD_BYTES, h->width, bytes + copy_at(l, h), l->n, l->x) ==
         ERR_OK); /* judged before */
}

enum err learner_half_read(struct learner *l, const uint8_t *bytes, size_t n_bytes) {
  double own_step;
  struct distance_ring ring;
  struct half h;
  enum err e = half_judge(l, bytes, n_bytes, &h);
  if (!e)
    e = size_judge(n_bytes, half_bytes(l, &h));
  if (!e)
    e = state_read(bytes + HEAD_BYTES, &own_step, &ring);
  if (!e)
    e = floats_judge(l, &h, bytes);
  if (e)
    return e;
  take_x(l, &h, bytes);
  take_states(l, &h, bytes);
  l->pending = l->has_step = l->before.is_known = false;
  sections_clear(l);
  l->ring = ring;
  take_sections(l, bytes + sections_at(l, &h), h.n_sections);
  memcpy(l->copy, bytes + copy_at(l, &h), codec_full_bytes(l->n_shared));
  l->own_step = own_step;
  return ERR_OK;
}

static size_t model_sections_at(size_t n_values) {
  return HEAD_BYTES + codec_full_bytes(n_values);
}

/* The head of a model, and its size; how many bytes of it are sections, whose floats are not judged. */
static enum err model_judge(const struct digest *schema_hash, size_t n_values, const uint8_t *bytes, size_t n_bytes,
                            size_t *out_sections) {
  uint32_t version;
  size_t at = model_sections_at(n_values), n_sections = 0;
  enum err e = head_judge(schema_hash, n_values, model_magic, MODEL_VERSION, bytes, n_bytes, &version);
  if (!e && version > 1)
    e = n_bytes < at ? ERR_TRUNCATED : sections_walk(NULL, n_values, bytes + at, n_bytes - at, NULL, &n_sections);
  if (!e)
    e = size_judge(n_bytes, at + n_sections);
  if (!e)
    *out_sections = n_sections;
  return e;
}

size_t learner_model_bytes(const struct learner *l) {
  return model_sections_at(l->n) + sections_now(l, OF_MODEL);
}

size_t learner_model_most(const struct learner *l) {
  return model_sections_at(l->n) + sections_most(l->n);
}

size_t learner_model_measure(size_t n_values, const uint8_t *bytes, size_t n_bytes) {
  size_t at = model_sections_at(n_values), n_sections = 0;
  struct cursor c;
  if (n_bytes <= at)
    return at;
  cursor_init(&c, bytes + MAGIC_BYTES, sizeof(uint32_t));
  bool has_sections = cursor_u32(&c) > 1;
  return has_sections && sections_walk(NULL, n_values, bytes + at, n_bytes - at, NULL, &n_sections) == ERR_OK
             ? at + n_sections
             : at;
}

void learner_model_write(const struct learner *l, uint8_t *out_bytes) {
  bool has_sections = sections_now(l, OF_MODEL) > 0;
  head_write(l, model_magic, has_sections ? MODEL_VERSION : 1, out_bytes);
  codec_write_values(l->x, l->n, out_bytes + HEAD_BYTES);
  if (has_sections)
    sections_write(l, OF_MODEL, out_bytes + model_sections_at(l->n));
}

enum err learner_model_read(struct learner *l, const uint8_t *bytes, size_t n_bytes) {
  size_t n_sections, walked, at = model_sections_at(l->n);
  enum err e = model_judge(&l->config.schema_hash, l->n, bytes, n_bytes, &n_sections);
  if (!e && n_sections > 0)
    e = sections_walk(l, l->n, bytes + at, n_sections, stored_judge, &walked);
  if (!e)
    e = codec_read_values(bytes + HEAD_BYTES, array_bytes(l), l->x, l->n);
  if (e)
    return e;
  learner_own_reset(l);
  take_sections(l, bytes + at, n_sections);
  l->has_step = false;
  return ERR_OK;
}

double learner_model_distance(const struct learner *a, const struct learner *b, size_t offset, size_t n_values) {
  MUST(a->n == b->n && offset <= a->n && n_values <= a->n - offset);
  double apart = 0, size = 0;
  for (size_t i = offset; i < offset + n_values; i++) {
    double d = (double)b->x[i] - (double)a->x[i];
    apart += d * d;
    size += (double)a->x[i] * (double)a->x[i];
  }
  return apart == 0 ? 0 : size > 0 ? sqrt(apart / size) : NAN;
}

/* ---- warm start */

static bool is_alike(const struct tensor *a, const struct tensor *b) {
  return strcmp(a->name, b->name) == 0 && a->role == b->role && a->rank == b->rank &&
         memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

static const struct tensor *find_alike(const struct schema *from, const struct tensor *own) {
  for (size_t i = 0; i < schema_tensors(from); i++)
    if (is_alike(schema_tensor(from, i), own))
      return schema_tensor(from, i);
  return NULL;
}

static void take_alike(struct learner *l, const struct schema *from, const float *values, bool *out_taken) {
  for (size_t i = 0; i < schema_tensors(l->config.schema); i++) {
    const struct tensor *own = schema_tensor(l->config.schema, i), *theirs = find_alike(from, own);
    out_taken[i] = theirs != NULL;
    if (theirs)
      memcpy(l->x + own->offset, values + theirs->offset, own->n_values * sizeof *values);
  }
  memcpy(l->copy, learner_shared(l), l->n_shared * sizeof *l->x);
  learner_own_reset(l);
}

enum err learner_take(struct learner *l, const struct schema *from, const struct digest *from_hash,
                      const uint8_t *bytes, size_t n_bytes, bool *out_taken) {
  size_t n = schema_parameters(from), n_sections;
  enum err e = model_judge(from_hash, n, bytes, n_bytes, &n_sections);
  if (e)
    return e;
  float *values = floats_new(n);
  if (!values)
    return ERR_NO_MEMORY;
  e = codec_read_values(bytes + HEAD_BYTES, 4 * n, values, n);
  if (!e)
    take_alike(l, from, values, out_taken);
  free(values);
  return e;
}

/* ---- models from elsewhere */

const float *learner_values(const struct learner *l) {
  return l->x;
}

enum err learner_go_on_from(struct learner *l, const float *values, bool is_first) {
  if (!floats_finite(values, l->n))
    return ERR_NON_FINITE;
  l->has_step = false;
  memmove(l->x, values, l->n * sizeof *l->x);
  learner_floor(l);
  learner_own_reset(l);
  learner_forget_states(l);
  terms_forget(&l->added);
  if (is_first)
    memcpy(l->copy, learner_shared(l), l->n_shared * sizeof *l->x);
  return ERR_OK;
}
