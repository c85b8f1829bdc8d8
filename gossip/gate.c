#include "gossip/gate.h"

#include <stdio.h>
#include <string.h>

#include "gossip/link.h"

struct gate_row *gate_add(struct gate *g, int fd, const char *address, uint64_t now_ms) {
  size_t n_half_open = 0;
  for (size_t i = 0; i < g->n_rows; i++)
    n_half_open += !g->rows[i].is_admitted;
  if (n_half_open == MAX_GATE_HALF_OPEN || g->n_rows == MAX_GATE_ROWS)
    return NULL;
  struct gate_row *row = &g->rows[g->n_rows++];
  *row = (struct gate_row){.fd = fd, .conn = CONN_NONE, .close_at_ms = now_ms + GATE_PATIENCE_MS};
  snprintf(row->address, sizeof row->address, "%s", address);
  return row;
}

bool gate_admit(struct gate *g, const char *address) {
  struct gate_row *asking = NULL;
  size_t n_address = 0, n_total = 0;
  for (size_t i = 0; i < g->n_rows; i++) {
    struct gate_row *row = &g->rows[i];
    bool is_same = strcmp(row->address, address) == 0, counts = row->is_admitted && !row->has_session;
    n_total += counts;
    n_address += counts && is_same;
    if (!row->is_admitted && is_same && !asking)
      asking = row; /* connections of one address are alike: the oldest stands for the one that asks */
  }
  if (!asking || n_address >= MAX_GATE_PER_ADDRESS || n_total >= MAX_GATE_TOTAL)
    return false;
  asking->is_admitted = true;
  return true;
}

struct gate_row *gate_find_fd(struct gate *g, int fd) {
  for (size_t i = 0; i < g->n_rows; i++)
    if (g->rows[i].fd == fd)
      return &g->rows[i];
  return NULL;
}

struct gate_row *gate_find_conn(struct gate *g, uint64_t conn) {
  for (size_t i = 0; i < g->n_rows; i++)
    if (g->rows[i].conn == conn)
      return &g->rows[i];
  return NULL;
}

void gate_set_session(struct gate_row *row, bool has_session, uint64_t now_ms) {
  row->has_session = has_session;
  row->close_at_ms = has_session ? UINT64_MAX : now_ms + GATE_PATIENCE_MS;
}

void gate_kick(struct gate_row *row, uint64_t now_ms) {
  row->has_session = false;
  row->close_at_ms = now_ms + GATE_KICK_MS;
}

bool gate_take_frame(struct gate_row *row, uint64_t now_ms) {
  row->n_frames = row->has_session ? 0 : row->n_frames + 1;
  if (row->n_frames <= MAX_GATE_FRAMES)
    return true;
  if (row->n_frames == MAX_GATE_FRAMES + 1)
    row->close_at_ms = now_ms;
  return false;
}

void gate_remove(struct gate *g, struct gate_row *row) {
  *row = g->rows[--g->n_rows];
}

struct gate_row *gate_find_over(struct gate *g) {
  for (size_t i = 0; i < g->n_rows; i++)
    if (g->rows[i].is_over)
      return &g->rows[i];
  return NULL;
}

struct gate_row *gate_overdue(struct gate *g, uint64_t now_ms) {
  for (size_t i = 0; i < g->n_rows; i++)
    if (g->rows[i].close_at_ms <= now_ms) {
      g->rows[i].close_at_ms = UINT64_MAX;
      return &g->rows[i];
    }
  return NULL;
}

uint64_t gate_due_ms(const struct gate *g) {
  uint64_t due_ms = UINT64_MAX;
  for (size_t i = 0; i < g->n_rows; i++)
    if (g->rows[i].close_at_ms < due_ms)
      due_ms = g->rows[i].close_at_ms;
  return due_ms;
}
