#include "gossip/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

enum { FIRST_WINDOW_CHUNKS = FIRST_FETCH_WINDOW_BYTES / CHUNK_BYTES, MAX_REPEATS = 16 };

void fetches_init(struct fetches *f, struct fetch_budget *budget) {
  *f = (struct fetches){
      .budget = budget, .window = FIRST_WINDOW_CHUNKS, .rtt_ms = -1, .answer_ms = FETCH_FIRST_ANSWER_MS};
}

void fetches_done(struct fetches *f) {
  for (size_t i = 0; f->table && i < MAX_FETCHES; i++)
    if (f->table->slots[i].step != FETCH_FREE)
      fetch_drop(f, &f->table->slots[i]);
}

static bool has_chunk(const struct fetch *fetch, uint32_t index) {
  return fetch->have[index / 8] >> (index % 8) & 1;
}

static size_t chunk_bytes(const struct fetch *fetch, uint32_t index) {
  uint64_t left = fetch->manifest.n_payload - (uint64_t)index * CHUNK_BYTES;
  return left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
}

static struct fetch *find(struct fetches *f, enum fetch_step step, const struct digest *root) {
  for (size_t i = 0; f->table && i < MAX_FETCHES; i++)
    if (f->table->slots[i].step == step && (!root || digest_equal(&f->table->slots[i].manifest.payload_root, root)))
      return &f->table->slots[i];
  return NULL;
}

struct fetch *fetch_running(struct fetches *f, const struct digest *root) {
  if (root)
    return find(f, FETCH_RUNNING, root);
  struct fetch *first = NULL;
  for (size_t i = 0; f->table && i < MAX_FETCHES; i++)
    if (f->table->slots[i].step == FETCH_RUNNING && (!first || f->table->slots[i].turn < first->turn))
      first = &f->table->slots[i];
  return first;
}

void fetches_drop_parked(struct fetches *f) {
  for (struct fetch *parked; (parked = find(f, FETCH_PARKED, NULL));)
    fetch_drop(f, parked);
}

/* The table is there while something is in it. */
static void table_end(struct fetches *f) {
  if (f->table->n_used > 0)
    return;
  free(f->table);
  f->table = NULL;
}

static uint64_t held_bytes(const struct fetches *f, const struct manifest *m) {
  uint64_t held = f->budget->held_bytes;
  return held > 0 && held < m->n_payload ? held : m->n_payload;
}

static enum err place_fill(struct fetches *f, struct fetch *fetch, const struct manifest *m) {
  if (m->n_payload > f->budget->limit - f->budget->used)
    return ERR_BUDGET;
  uint32_t n_chunks = (uint32_t)((m->n_payload + CHUNK_BYTES - 1) / CHUNK_BYTES);
  uint8_t *payload = malloc((size_t)held_bytes(f, m)), *have = calloc((n_chunks + 7) / 8, 1);
  if (!payload || !have) {
    free(payload);
    free(have);
    return ERR_NO_MEMORY;
  }
  f->budget->used += m->n_payload;
  *fetch = (struct fetch){.step = FETCH_PARKED, .manifest = *m, .payload = payload, .have = have, .n_chunks = n_chunks};
  f->table->n_used++;
  return ERR_OK;
}

/* A place with memory for the payload: the parked one of the same payload, else a new one. */
static enum err fetch_place(struct fetches *f, const struct manifest *m, struct fetch **out_fetch) {
  struct fetch *fetch = find(f, FETCH_PARKED, &m->payload_root);
  if (fetch && fetch->manifest.n_payload == m->n_payload) {
    *out_fetch = fetch;
    return ERR_OK;
  }
  bool is_full = f->table && f->table->n_used == MAX_FETCHES;
  if (is_full || m->n_payload > f->budget->limit - f->budget->used)
    fetches_drop_parked(f);
  if (!f->table && !(f->table = calloc(1, sizeof *f->table)))
    return ERR_NO_MEMORY;
  if (f->table->n_used == MAX_FETCHES)
    return ERR_BUSY;
  fetch = find(f, FETCH_FREE, NULL);
  enum err e = place_fill(f, fetch, m);
  if (e != ERR_OK)
    table_end(f);
  else
    *out_fetch = fetch;
  return e;
}

enum err fetch_start(struct fetches *f, size_t job, const struct manifest *m, uint64_t now_ms) {
  MUST(m->n_payload >= 1 && m->n_payload <= (uint64_t)MAX_CHUNKS * CHUNK_BYTES);
  if (fetch_running(f, &m->payload_root))
    return ERR_BUSY;
  bool was_idle = !fetch_running(f, NULL);
  struct fetch *fetch;
  enum err e = fetch_place(f, m, &fetch);
  if (e != ERR_OK)
    return e;
  fetch->step = FETCH_RUNNING;
  fetch->job = job;
  fetch->manifest = *m;
  struct fetch_table *t = f->table;
  fetch->turn = t->next_turn++;
  if (was_idle) {
    t->progress_ms = t->rate_ms = now_ms;
    t->rate_bytes = 0;
    t->n_repeats = 0;
  }
  return ERR_OK;
}

static bool is_requested(const struct fetch_table *t, const struct fetch *fetch, uint32_t index) {
  for (size_t i = 0; i < t->n_requests; i++)
    if (t->requests[i].fetch == fetch && t->requests[i].index == index)
      return true;
  return false;
}

static bool is_wanted(const struct fetch_table *t, const struct fetch *fetch, uint32_t index) {
  return index < fetch->n_chunks && !has_chunk(fetch, index) && !is_requested(t, fetch, index);
}

/* The earliest fetch of which chunks are still to be asked for, and the first of them. */
static struct fetch *next_wanted(struct fetch_table *t, uint32_t *out_index) {
  struct fetch *best = NULL;
  for (size_t i = 0; i < MAX_FETCHES; i++) {
    struct fetch *fetch = &t->slots[i];
    if (fetch->step != FETCH_RUNNING || (best && best->turn < fetch->turn))
      continue;
    for (uint32_t k = 0; k < fetch->n_chunks; k++)
      if (is_wanted(t, fetch, k)) {
        best = fetch;
        *out_index = k;
        break;
      }
  }
  return best;
}

bool fetch_next(struct fetches *f, struct message_get *out_get, struct fetch **out_fetch) {
  struct fetch_table *t = f->table;
  if (!t)
    return false;
  size_t room = f->window > t->n_requests ? f->window - t->n_requests : 0;
  if (t->n_requests > 0 && room < f->window / 4) /* fewer and longer GETs */
    return false;
  uint32_t first = 0, count = 0;
  struct fetch *fetch = next_wanted(t, &first);
  if (!fetch || room == 0)
    return false;
  while (count < room && is_wanted(t, fetch, first + count))
    count++;
  *out_get = (struct message_get){.root = fetch->manifest.payload_root,
                                  .job = fetch->manifest.job,
                                  .n_payload = fetch->manifest.n_payload,
                                  .first = first,
                                  .count = count};
  *out_fetch = fetch;
  return true;
}

void fetch_asked(struct fetches *f, struct fetch *fetch, const struct message_get *get, uint64_t now_ms) {
  struct fetch_table *t = f->table;
  MUST(t->n_requests + get->count <= MAX_WINDOW_CHUNKS);
  if (t->n_requests == 0 && t->n_repeats == 0)
    t->progress_ms = now_ms;
  for (uint32_t i = 0; i < get->count; i++)
    t->requests[t->n_requests++] = (struct fetch_request){.fetch = fetch,
                                                          .index = get->first + i,
                                                          .is_last = i + 1 == get->count,
                                                          .is_again = t->n_repeats > 0,
                                                          .sent_ms = now_ms};
}

static void request_remove(struct fetch_table *t, size_t i) {
  t->n_requests--;
  memmove(&t->requests[i], &t->requests[i + 1], (t->n_requests - i) * sizeof *t->requests);
}

static void window_fit(struct fetches *f, uint64_t took_ms) {
  if (took_ms < FETCH_PROMPT_MS && f->window < MAX_WINDOW_CHUNKS)
    f->window *= 2;
  else if (took_ms > FETCH_SLOW_MS && f->window > 1)
    f->window /= 2;
}

/* How long an answer took tells the round trip and what the window should be. */
static void answer_measured(struct fetches *f, const struct fetch_request *r, uint64_t now_ms) {
  double took_ms = (double)(now_ms - r->sent_ms);
  if (r->is_again)
    return;
  if (r->is_last)
    window_fit(f, now_ms - r->sent_ms);
  if (f->table->n_requests == 1)
    fetches_add_rtt(f, now_ms - r->sent_ms);
  f->answer_ms = took_ms > f->answer_ms ? took_ms : f->answer_ms + (took_ms - f->answer_ms) / 8;
}

static void request_answered(struct fetches *f, const struct fetch *fetch, uint32_t index, uint64_t now_ms) {
  for (size_t i = 0; i < f->table->n_requests; i++) {
    const struct fetch_request *r = &f->table->requests[i];
    if (r->fetch != fetch || r->index != index)
      continue;
    answer_measured(f, r, now_ms);
    request_remove(f->table, i);
    return;
  }
}

static void chunk_put(const struct fetches *f, struct fetch *fetch, const struct message_chunk *chunk) {
  uint64_t at = (uint64_t)chunk->index * CHUNK_BYTES, held = held_bytes(f, &fetch->manifest);
  if (at < held)
    memcpy(fetch->payload + at, chunk->data, chunk->n_data < held - at ? chunk->n_data : (size_t)(held - at));
}

enum err fetch_chunk(struct fetches *f, const struct message_chunk *chunk, uint64_t now_ms,
                     struct fetch **out_complete) {
  *out_complete = NULL;
  struct fetch *fetch = NULL;
  for (size_t i = 0; f->table && i < MAX_FETCHES && !fetch; i++)
    if (f->table->slots[i].step == FETCH_RUNNING &&
        memcmp(f->table->slots[i].manifest.payload_root.bytes, chunk->root_prefix, ROOT_PREFIX_BYTES) == 0)
      fetch = &f->table->slots[i];
  if (!fetch)
    return ERR_REPLAY;
  if (chunk->index >= fetch->n_chunks || chunk->n_data != chunk_bytes(fetch, chunk->index))
    return ERR_MESSAGE;
  if (has_chunk(fetch, chunk->index))
    return ERR_REPLAY;
  chunk_put(f, fetch, chunk);
  fetch->have[chunk->index / 8] |= (uint8_t)(1u << (chunk->index % 8));
  fetch->n_have++;
  f->table->progress_ms = now_ms;
  f->table->n_repeats = 0;
  f->table->rate_bytes += chunk->n_data;
  request_answered(f, fetch, chunk->index, now_ms);
  if (fetch->n_have == fetch->n_chunks)
    *out_complete = fetch;
  return ERR_OK;
}

/* Takes the fetch's requests back. */
static void requests_forget(struct fetch_table *t, const struct fetch *fetch) {
  for (size_t i = t->n_requests; i-- > 0;)
    if (t->requests[i].fetch == fetch)
      request_remove(t, i);
}

uint8_t *fetch_take(struct fetches *f, struct fetch *fetch) {
  MUST(fetch->step == FETCH_RUNNING && fetch->n_have == fetch->n_chunks);
  uint8_t *payload = fetch->payload;
  fetch->payload = NULL;
  fetch_drop(f, fetch);
  return payload;
}

void fetch_park(struct fetches *f, struct fetch *fetch) {
  requests_forget(f->table, fetch);
  fetch->step = FETCH_PARKED;
}

void fetch_drop(struct fetches *f, struct fetch *fetch) {
  requests_forget(f->table, fetch);
  f->budget->used -= fetch->manifest.n_payload;
  free(fetch->payload);
  free(fetch->have);
  *fetch = (struct fetch){0};
  f->table->n_used--;
  table_end(f);
}

void fetches_cancel(struct fetches *f, size_t job) {
  for (size_t i = 0; f->table && i < MAX_FETCHES; i++)
    if (f->table->slots[i].step != FETCH_FREE && f->table->slots[i].job == job)
      fetch_drop(f, &f->table->slots[i]);
}

void fetches_renew(struct fetches *f) {
  if (f->table)
    f->table->n_requests = 0;
}

void fetches_add_rtt(struct fetches *f, uint64_t rtt_ms) {
  f->rtt_ms = f->rtt_ms < 0 ? (double)rtt_ms : f->rtt_ms + ((double)rtt_ms - f->rtt_ms) / 8;
}

/* From the last progress to the next repetition: the waits of all so far, each twice the one before. */
static uint64_t repeat_ms(const struct fetches *f) {
  uint64_t wait_ms = FETCH_REPEAT_MS;
  if (4 * f->answer_ms > (double)wait_ms)
    wait_ms = (uint64_t)(4 * f->answer_ms);
  return wait_ms * ((UINT64_C(2) << f->table->n_repeats) - 1);
}

struct fetch *fetches_tick(struct fetches *f, uint64_t now_ms) {
  struct fetch *running = fetch_running(f, NULL);
  if (!running)
    return NULL;
  struct fetch_table *t = f->table;
  if (now_ms - t->rate_ms >= FETCH_RATE_MS) {
    bool is_slow = t->rate_bytes < FETCH_RATE_BYTES;
    t->rate_ms = now_ms;
    t->rate_bytes = 0;
    if (is_slow)
      return running;
  }
  if (t->n_requests > 0 && now_ms - t->progress_ms >= repeat_ms(f)) {
    t->n_requests = 0;
    t->n_repeats += t->n_repeats < MAX_REPEATS;
  }
  return NULL;
}

uint64_t fetches_due_ms(const struct fetches *f) {
  bool is_running = false;
  for (size_t i = 0; f->table && i < MAX_FETCHES; i++)
    is_running = is_running || f->table->slots[i].step == FETCH_RUNNING;
  if (!is_running)
    return UINT64_MAX;
  const struct fetch_table *t = f->table;
  uint64_t rate_ms = t->rate_ms + FETCH_RATE_MS, again_ms = t->progress_ms + repeat_ms(f);
  return t->n_requests > 0 && again_ms < rate_ms ? again_ms : rate_ms;
}
