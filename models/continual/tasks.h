/* Tasks: a site's classes in groups that are learnt one after the other, and what of the model's outputs counts in each.
 *
 *   class-incremental    one head; the classes seen so far compete
 *   domain-incremental   the outputs 0 … k−1 say the place of a class in its group; every group has k classes
 *   task-incremental     the task is known with a sample: the classes of its group compete
 *
 * Sources: van de Ven & Tolias 2019 (the three scenarios). Pure; any thread. */
#ifndef MODELS_CONTINUAL_TASKS_H
#define MODELS_CONTINUAL_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum increment { INCREMENT_CLASS, INCREMENT_DOMAIN, INCREMENT_TASK };
enum { MAX_TASKS = 64, NO_TASK = UINT16_MAX };

struct task_list {
  enum increment kind;
  size_t n_tasks;    /* 0: there are none, all classes are learnt at once */
  size_t n_classes;  /* of the contract */
  uint16_t *task_of; /* [n_classes] NO_TASK: in no group, and so never trained on */
  uint16_t *place;   /* [n_classes] in its group, in the order in which they were named */
};

/* Room for n_classes, none in a group yet. ERR_NO_MEMORY. */
MUST_USE enum err task_list_init(struct task_list *t, enum increment kind, size_t n_classes);
void task_list_done(struct task_list *t);

/* The class belongs to this task from now on, behind those that do already; the highest task + 1 is their number. ERR_EXISTS: it
 * is in a group; ERR_RANGE: no such class; ERR_LIMIT: more than MAX_TASKS. */
MUST_USE enum err task_list_put(struct task_list *t, size_t class, size_t task);

/* Classes of a task. */
size_t task_list_size(const struct task_list *t, size_t task);

/* Sets the outputs z [n][k], k ≥ n_classes, that do not count for a sample so low that no loss or choice sees them, and makes
 * labels [n] the numbers of the outputs that are right. is_seen [n_classes]: class-incremental only; a label that was not seen
 * competes with those that were. */
void task_list_view(const struct task_list *t, const bool *is_seen, float *z, uint16_t *labels, size_t n, size_t k);

/* Which outputs [k] count for the samples of one task, or, class-incremental, of those before `task` in is_seen. */
bool task_list_counts(const struct task_list *t, const bool *is_seen, size_t task, size_t output);

#endif
