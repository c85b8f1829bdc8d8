#include "gossip/strangers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* One handshake costs 1000; a rate of n a second fills n a millisecond. */
enum { TOKEN = 1000 };

static const struct rate { uint64_t per_second, burst; } per_address = {20, 5}, in_all = {200, 50};

static void bucket_fill(struct bucket *b, struct rate rate, uint64_t now_ms) {
  uint64_t full = rate.burst * TOKEN, passed_ms = now_ms - b->filled_ms;
  b->tokens = passed_ms > full / rate.per_second ? full : b->tokens + passed_ms * rate.per_second;
  if (b->tokens > full)
    b->tokens = full;
  b->filled_ms = now_ms;
}

void strangers_init(struct strangers *s, uint64_t now_ms) {
  *s = (struct strangers){.total = {in_all.burst * TOKEN, now_ms}};
}

static void rows_forget(struct strangers *s) {
  for (size_t i = 0; i < s->n_rows; i++)
    free(s->rows[i].address);
  free(s->rows);
  s->rows = NULL;
  s->n_rows = s->capacity = 0;
}

void strangers_done(struct strangers *s) {
  rows_forget(s);
  free(s->drops);
  *s = (struct strangers){0};
}

/* It has nothing to show and its bucket is full: a new row would be the same. */
static bool is_blank(struct stranger_row *row, uint64_t now_ms) {
  bucket_fill(&row->bucket, per_address, now_ms);
  return row->bucket.tokens == per_address.burst * TOKEN && row->n_unknown_key + row->n_handshake + row->n_gate == 0;
}

void strangers_tidy(struct strangers *s, uint64_t now_ms) {
  for (size_t i = 0; i < s->n_rows; i++)
    if (!is_blank(&s->rows[i], now_ms))
      return;
  rows_forget(s);
}

/* Where a new row goes: over a blank one, behind the last one, or over the least recent. NULL: no memory. */
static struct stranger_row *place_of(struct strangers *s, uint64_t now_ms) {
  struct stranger_row *oldest = s->rows;
  for (size_t i = 0; i < s->n_rows; i++) {
    if (is_blank(&s->rows[i], now_ms))
      return &s->rows[i];
    if (s->rows[i].last_ms < oldest->last_ms)
      oldest = &s->rows[i];
  }
  if (s->n_rows == MAX_STRANGERS)
    return oldest;
  struct stranger_row *rows = array_grown(s->rows, &s->capacity, s->n_rows, sizeof *rows, MAX_STRANGERS);
  if (!rows)
    return oldest;
  s->rows = rows;
  rows[s->n_rows] = (struct stranger_row){0};
  return &rows[s->n_rows++];
}

/* The address's row, or a new one; NULL: no memory. */
static struct stranger_row *row_of(struct strangers *s, const char *address, uint64_t now_ms) {
  for (size_t i = 0; i < s->n_rows; i++)
    if (strcmp(s->rows[i].address, address) == 0)
      return &s->rows[i];
  char *own = strdup(address);
  struct stranger_row *row = own ? place_of(s, now_ms) : NULL;
  if (!row) {
    free(own);
    return NULL;
  }
  free(row->address);
  *row = (struct stranger_row){.address = own, .bucket = {per_address.burst * TOKEN, now_ms}};
  return row;
}

bool strangers_allow(struct strangers *s, const char *address, uint64_t now_ms) {
  struct stranger_row *row = row_of(s, address, now_ms);
  if (!row)
    return false;
  row->last_ms = now_ms;
  bucket_fill(&row->bucket, per_address, now_ms);
  bucket_fill(&s->total, in_all, now_ms);
  if (row->bucket.tokens < TOKEN || s->total.tokens < TOKEN)
    return false;
  row->bucket.tokens -= TOKEN;
  s->total.tokens -= TOKEN;
  return true;
}

void strangers_count(struct strangers *s, const char *address, enum err reason, uint64_t now_ms) {
  struct stranger_row *row = row_of(s, address, now_ms);
  int drop = err_drop_index(reason);
  if (drop >= 0 && !s->drops)
    s->drops = calloc(N_DROPS, sizeof *s->drops);
  if (drop >= 0 && s->drops)
    s->drops[drop]++;
  if (!row)
    return;
  row->last_ms = now_ms;
  if (reason == ERR_UNKNOWN_KEY)
    row->n_unknown_key++;
  else if (reason == ERR_GATE)
    row->n_gate++;
  else
    row->n_handshake++;
}

size_t strangers_list(const struct strangers *s, struct gossip_stranger *out_rows, size_t capacity) {
  size_t n = 0;
  for (size_t i = 0; i < s->n_rows && n < capacity; i++) {
    const struct stranger_row *row = &s->rows[i];
    if (row->n_unknown_key + row->n_handshake + row->n_gate == 0)
      continue;
    out_rows[n] = (struct gossip_stranger){.n_unknown_key = row->n_unknown_key,
                                           .n_handshake = row->n_handshake,
                                           .n_gate = row->n_gate,
                                           .last_ms = row->last_ms};
    snprintf(out_rows[n].address, sizeof out_rows[n].address, "%s", row->address);
    n++;
  }
  return n;
}
