#include "models/continual/tasks.h"

#include <stdlib.h>

#include "base/must.h"

/* Far below every output, and finite, so that 0 times it is 0. */
static const float OUT_OF_SIGHT = -1e30F;

enum err task_list_init(struct task_list *t, enum increment kind, size_t n_classes) {
  struct task_list made = {.kind = kind, .n_classes = n_classes};
  made.task_of = calloc(n_classes + 1, sizeof *made.task_of);
  made.place = calloc(n_classes + 1, sizeof *made.place);
  if (!made.task_of || !made.place) {
    task_list_done(&made);
    return ERR_NO_MEMORY;
  }
  for (size_t c = 0; c < n_classes; c++)
    made.task_of[c] = NO_TASK;
  *t = made;
  return ERR_OK;
}

void task_list_done(struct task_list *t) {
  free(t->task_of);
  free(t->place);
  *t = (struct task_list){0};
}

size_t task_list_size(const struct task_list *t, size_t task) {
  size_t n = 0;
  for (size_t c = 0; c < t->n_classes; c++)
    n += t->task_of[c] == task;
  return n;
}

enum err task_list_put(struct task_list *t, size_t class, size_t task) {
  if (task >= MAX_TASKS)
    return ERR_LIMIT;
  if (class >= t->n_classes)
    return ERR_RANGE;
  if (t->task_of[class] != NO_TASK)
    return ERR_EXISTS;
  t->place[class] = (uint16_t)task_list_size(t, task);
  t->task_of[class] = (uint16_t)task;
  t->n_tasks = task >= t->n_tasks ? task + 1 : t->n_tasks;
  return ERR_OK;
}

bool task_list_counts(const struct task_list *t, const bool *is_seen, size_t task, size_t output) {
  if (t->kind == INCREMENT_DOMAIN)
    return output < task_list_size(t, task);
  if (output >= t->n_classes)
    return false;
  return t->kind == INCREMENT_CLASS ? is_seen[output] : t->task_of[output] == task;
}

void task_list_view(const struct task_list *t, const bool *is_seen, float *z, uint16_t *labels, size_t n, size_t k) {
  for (size_t i = 0; i < n; i++, z += k) {
    MUST(labels[i] < t->n_classes);
    size_t task = t->task_of[labels[i]];
    if (t->kind == INCREMENT_DOMAIN && task != NO_TASK)
      labels[i] = t->place[labels[i]];
    size_t size = t->kind == INCREMENT_DOMAIN && task != NO_TASK ? task_list_size(t, task) : 0;
    for (size_t c = 0; c < k; c++) {
      bool counts = t->kind == INCREMENT_DOMAIN ? c < size : task_list_counts(t, is_seen, task, c);
      if (!counts)
        z[c] = OUT_OF_SIGHT;
    }
  }
}
