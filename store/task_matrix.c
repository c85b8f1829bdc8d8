#include <stdlib.h>

#include "store/room.h"

/* The rows of one position: one time of the matrix, where there are any. */
static enum err time_read(struct store *s, uint64_t job, uint32_t position, struct store_matrix *m) {
  struct query q = query_begin(&s->database, SQL_TASK_ACCURACIES);
  bind_u64(&q, job);
  bind_u64(&q, position);
  bool is_any = false, is_sound = true;
  while (is_sound && query_next(&q)) {
    uint64_t task = column_u64(&q), trained = column_u64(&q);
    double accuracy = column_f64(&q);
    is_sound = task < STORE_MAX_TASKS && trained < STORE_MAX_TASKS;
    if (!is_sound)
      break;
    m->times[m->n_times].trained = (uint32_t)trained;
    m->times[m->n_times].accuracy[task] = accuracy;
    m->times[m->n_times].label = column_label(&q);
    m->n_tasks = task + 1 > m->n_tasks ? (uint32_t)task + 1 : m->n_tasks;
    is_any = true;
  }
  enum err e = query_end(&q);
  m->n_times += is_any;
  return e != ERR_OK || is_sound ? e : ERR_CORRUPT;
}

enum err store_task_matrix(struct store *s, const struct digest *job, struct store_matrix *out_matrix) {
  uint64_t id;
  enum err e = room_job_find(s, job, &id);
  struct store_matrix *m = e == ERR_OK ? calloc(1, sizeof *m) : NULL;
  if (e == ERR_OK && m == NULL)
    e = ERR_NO_MEMORY;
  for (size_t t = 0; e == ERR_OK && t < STORE_MAX_TASKS; t++)
    for (size_t q = 0; q < STORE_MAX_TASKS; q++)
      m->times[t].accuracy[q] = __builtin_nan("");
  for (uint32_t position = 0; e == ERR_OK && position < STORE_MAX_TASKS; position++)
    e = time_read(s, id, position, m);
  if (e == ERR_OK && m->n_times == 0)
    e = ERR_NOT_FOUND;
  if (e == ERR_OK)
    *out_matrix = *m;
  free(m);
  return e;
}
