#include "agent/sim/queue.h"

#include <stdlib.h>

#include "base/must.h"

enum { MIN_CAPACITY = 256 };

static bool is_before(const struct sim_event *a, const struct sim_event *b) {
  return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void resize(struct sim_queue *q, size_t capacity) {
  q->heap = realloc(q->heap, capacity * sizeof *q->heap);
  MUST(q->heap != NULL);
  q->capacity = capacity;
}

void sim_queue_put(struct sim_queue *q, struct sim_event e) {
  if (q->n == q->capacity)
    resize(q, q->capacity ? q->capacity + q->capacity / 2 : MIN_CAPACITY);
  e.order = q->n_put++;
  size_t i = q->n++;
  for (; i > 0 && is_before(&e, &q->heap[(i - 1) / 2]); i = (i - 1) / 2)
    q->heap[i] = q->heap[(i - 1) / 2];
  q->heap[i] = e;
}

const struct sim_event *sim_queue_first(const struct sim_queue *q) {
  return q->n > 0 ? &q->heap[0] : NULL;
}

struct sim_event sim_queue_take(struct sim_queue *q) {
  MUST(q->n > 0);
  struct sim_event first = q->heap[0], last = q->heap[--q->n];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < q->n; i = child) {
    if (child + 1 < q->n && is_before(&q->heap[child + 1], &q->heap[child]))
      child++;
    if (!is_before(&q->heap[child], &last))
      break;
    q->heap[i] = q->heap[child];
  }
  q->heap[i] = last;
  if (q->n < q->capacity / 2 && q->capacity / 4 * 3 >= MIN_CAPACITY)
    resize(q, q->capacity / 4 * 3);
  return first;
}

void sim_queue_done(struct sim_queue *q) {
  free(q->heap);
  *q = (struct sim_queue){0};
}
