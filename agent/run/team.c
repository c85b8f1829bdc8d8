#include "agent/run/team.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/must.h"

struct threads {
  struct team team; /* first */
  pthread_mutex_t mutex;
  pthread_cond_t has_work, is_done;

  /* under the mutex: the work, which of its parts is next, and how many are not done */
  void (*part)(void *context, size_t i);
  void *context;
  size_t n_parts, next, n_open;
  bool ends;

  uint32_t n; /* threads besides the caller's */
  pthread_t threads[];
};

/* Does parts until none is left; with the mutex, which is let go of meanwhile. */
static void do_parts(struct threads *t) {
  while (t->next < t->n_parts) {
    size_t i = t->next++;
    pthread_mutex_unlock(&t->mutex);
    t->part(t->context, i);
    pthread_mutex_lock(&t->mutex);
    if (--t->n_open == 0)
      pthread_cond_signal(&t->is_done);
  }
}

static void *thread_main(void *context) {
  struct threads *t = context;
  pthread_mutex_lock(&t->mutex);
  while (!t->ends) {
    do_parts(t);
    if (!t->ends)
      pthread_cond_wait(&t->has_work, &t->mutex);
  }
  pthread_mutex_unlock(&t->mutex);
  return NULL;
}

static void run(struct team *team, size_t n, void (*part)(void *context, size_t i), void *context) {
  struct threads *t = (struct threads *)team;
  pthread_mutex_lock(&t->mutex);
  MUST(t->n_open == 0);
  t->part = part;
  t->context = context;
  t->n_parts = t->n_open = n;
  t->next = 0;
  pthread_cond_broadcast(&t->has_work);
  do_parts(t);
  while (t->n_open > 0)
    pthread_cond_wait(&t->is_done, &t->mutex);
  pthread_mutex_unlock(&t->mutex);
}

struct team *team_start(uint32_t n_threads) {
  if (n_threads < 2)
    return NULL;
  struct threads *t = calloc(1, sizeof *t + (n_threads - 1) * sizeof *t->threads);
  if (t == NULL)
    return NULL;
  t->team.run = run;
  MUST(pthread_mutex_init(&t->mutex, NULL) == 0 && pthread_cond_init(&t->has_work, NULL) == 0 &&
       pthread_cond_init(&t->is_done, NULL) == 0);
  sigset_t all, before; /* signals are the loop's */
  sigfillset(&all);
  MUST(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
  while (t->n + 1 < n_threads && pthread_create(&t->threads[t->n], NULL, thread_main, t) == 0)
    t->n++;
  MUST(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
  if (t->n > 0)
    return &t->team;
  team_stop(&t->team);
  return NULL;
}

void team_stop(struct team *team) {
  struct threads *t = (struct threads *)team;
  if (t == NULL)
    return;
  pthread_mutex_lock(&t->mutex);
  t->ends = true;
  pthread_cond_broadcast(&t->has_work);
  pthread_mutex_unlock(&t->mutex);
  for (uint32_t i = 0; i < t->n; i++)
    pthread_join(t->threads[i], NULL);
  pthread_cond_destroy(&t->has_work);
  pthread_cond_destroy(&t->is_done);
  pthread_mutex_destroy(&t->mutex);
  free(t);
}
