#include "models/data/read_ahead.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "models/data/scratch.h"

/* Rows apart by so many bytes are still one read: copying them costs about what asking once more does. */
enum { GAP_BYTES = 8192, TOLD_BYTES = 1 << 20, TOLD_READS = 64, PARTS = 4 };

/* The rows of the plan from one place on. */
struct window {
  uint64_t *wanted; /* [capacity] row in the file << 32 | place in the window, ascending */
  uint8_t *rows;    /* [capacity] in the order of the plan */
  size_t n;
  size_t n_read, n_told; /* of `wanted`: in memory; told to the kernel */
  bool is_cold;          /* the page cache lacked some */
};

struct read_ahead {
  struct scratch *scratch;
  size_t row_bytes;
  size_t capacity;           /* rows of a window */
  struct window windows[2];  /* what is taken, and what comes after */
  size_t taken;              /* rows of the first */
  const uint32_t *order;     /* of the plan: where it stands … */
  size_t left;               /* … and how many rows are still to be taken, */
  const uint32_t *unplanned; /* those that are in no window yet, */
  size_t n_unplanned;
  size_t n_window; /* rows of a window of this plan */
};

size_t read_ahead_row_bytes(size_t row_bytes) {
  return row_bytes + sizeof(uint64_t);
}

enum err read_ahead_new(struct scratch *s, size_t n_rows, struct read_ahead **out_ahead) {
  struct read_ahead *a = calloc(1, sizeof *a);
  if (a == NULL)
    return ERR_NO_MEMORY;
  *a = (struct read_ahead){.scratch = s, .row_bytes = scratch_row_bytes(s), .capacity = n_rows / 2};
  MUST(a->capacity > 0);
  for (size_t i = 0; i < 2; i++) {
    struct window *w = &a->windows[i];
    w->wanted = calloc(a->capacity, sizeof *w->wanted);
    w->rows = calloc(a->capacity, a->row_bytes);
    if (w->wanted == NULL || w->rows == NULL) {
      read_ahead_free(a);
      return ERR_NO_MEMORY;
    }
  }
  *out_ahead = a;
  return ERR_OK;
}

void read_ahead_free(struct read_ahead *a) {
  if (a == NULL)
    return;
  for (size_t i = 0; i < 2; i++) {
    free(a->windows[i].wanted);
    free(a->windows[i].rows);
  }
  free(a);
}

/* ---- what a window wants ---- */

static void sift(uint64_t *x, size_t root, size_t n) {
  uint64_t value = x[root];
  for (size_t child; (child = 2 * root + 1) < n; root = child) {
    child += child + 1 < n && x[child + 1] > x[child];
    if (x[child] <= value)
      break;
    x[root] = x[child];
  }
  x[root] = value;
}

/* Ascending, in place and without memory of its own, which qsort takes (Floyd 1964, heapsort). */
static void sort(uint64_t *x, size_t n) {
  for (size_t root = n / 2; root-- > 0;)
    sift(x, root, n);
  for (size_t end = n; end-- > 1;) {
    uint64_t largest = x[0];
    x[0] = x[end];
    x[end] = largest;
    sift(x, 0, end);
  }
}

static void window_begin(struct read_ahead *a, struct window *w) {
  w->n = a->n_unplanned < a->n_window ? a->n_unplanned : a->n_window;
  w->n_read = w->n_told = 0;
  w->is_cold = false;
  for (size_t i = 0; i < w->n; i++)
    w->wanted[i] = (uint64_t)a->unplanned[i] << 32 | i;
  sort(w->wanted, w->n);
  a->unplanned += w->n;
  a->n_unplanned -= w->n;
}

static size_t row_of(const struct window *w, size_t i) {
  return (size_t)(w->wanted[i] >> 32);
}

static uint8_t *place_of(const struct read_ahead *a, const struct window *w, size_t i) {
  return w->rows + (w->wanted[i] & UINT32_MAX) * a->row_bytes;
}

/* ---- reading ---- */

/* How many of those wanted are one read, from the i-th on, and how many rows of the file that is. */
static size_t read_of(const struct read_ahead *a, const struct window *w, size_t i, size_t *out_rows) {
  size_t first = row_of(w, i), n = 1, most = scratch_buffer_bytes(a->row_bytes) / a->row_bytes;
  size_t gap = GAP_BYTES / a->row_bytes + 1;
  while (i + n < w->n && row_of(w, i + n) - row_of(w, i + n - 1) <= gap && row_of(w, i + n) - first < most)
    n++;
  *out_rows = row_of(w, i + n - 1) - first + 1;
  return n;
}

/* Tells the kernel of what is read after `i`. */
static void tell(const struct read_ahead *a, struct window *w, size_t i) {
  size_t n_rows, n_bytes = 0;
  w->n_told = w->n_told < i ? i : w->n_told;
  for (size_t reads = 0; reads < TOLD_READS && n_bytes < TOLD_BYTES && w->n_told < w->n; reads++) {
    size_t n = read_of(a, w, w->n_told, &n_rows);
    scratch_expect(a->scratch, row_of(w, w->n_told), n_rows);
    w->n_told += n;
    n_bytes += n_rows * a->row_bytes;
  }
}

/* One read: those wanted from the next on. */
static enum err window_read(const struct read_ahead *a, struct window *w) {
  const void *found = NULL;
  size_t n_rows, i = w->n_read, n = read_of(a, w, i, &n_rows), first = row_of(w, i);
  bool was_cached = true;
  if (w->is_cold && i + n >= w->n_told)
    tell(a, w, i + n);
  enum err e = n == 1 ? scratch_look_at(a->scratch, first, place_of(a, w, i), &was_cached)
                      : scratch_look(a->scratch, first, n_rows, &found, &was_cached);
  if (e != ERR_OK)
    return e;
  for (size_t k = i; n > 1 && k < i + n; k++)
    memcpy(place_of(a, w, k), (const uint8_t *)found + (row_of(w, k) - first) * a->row_bytes, a->row_bytes);
  w->is_cold = w->is_cold || !was_cached;
  w->n_read += n;
  return ERR_OK;
}

static enum err window_fill(const struct read_ahead *a, struct window *w, size_t until) {
  enum err e = ERR_OK;
  while (e == ERR_OK && w->n_read < until)
    e = window_read(a, w);
  return e;
}

/* ---- the plan ---- */

/* A quarter of the plan, so that even a short one does not begin with all of its reading. */
void read_ahead_plan(struct read_ahead *a, const uint32_t *order, size_t n) {
  size_t quarter = (n + PARTS - 1) / PARTS;
  a->order = a->unplanned = order;
  a->left = a->n_unplanned = n;
  a->n_window = quarter < a->capacity ? quarter : a->capacity;
  a->taken = 0;
  for (size_t i = 0; n > 0 && i < 2; i++)
    window_begin(a, &a->windows[i]);
}

bool read_ahead_is_at(const struct read_ahead *a, const uint32_t *index) {
  return a->left > 0 && index == a->order;
}

static void turn(struct read_ahead *a) {
  struct window done = a->windows[0];
  a->windows[0] = a->windows[1];
  a->windows[1] = done;
  a->taken = 0;
  window_begin(a, &a->windows[1]);
}

enum err read_ahead_take(struct read_ahead *a, size_t n, const void **out_rows, size_t *out_n) {
  MUST(a->left > 0);
  if (a->taken == a->windows[0].n)
    turn(a);
  struct window *now = &a->windows[0], *next = &a->windows[1];
  size_t left = now->n - a->taken;
  n = n < left ? n : left;
  enum err e = window_fill(a, now, now->n);
  if (e == ERR_OK) /* as much of the next as was taken of this one */
    e = window_fill(a, next, (size_t)((uint64_t)next->n * (a->taken + n) / now->n));
  if (e != ERR_OK)
    return e;
  *out_rows = now->rows + a->taken * a->row_bytes;
  *out_n = n;
  a->taken += n;
  a->order += n;
  a->left -= n;
  return ERR_OK;
}
