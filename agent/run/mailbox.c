#include "agent/run/mailbox.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fault_point.h"
#include "base/must.h"

struct mailbox {
  pthread_mutex_t mutex;
  pthread_cond_t filled;
  int fd; /* its counter is 1 while something waits, else 0; changed under the mutex only */
  size_t capacity, first, n;
  void *ring[];
};

enum err mailbox_new(size_t capacity, struct mailbox **out_mailbox) {
  size_t n_bytes;
  if (!size_mul(capacity, sizeof(void *), &n_bytes) || !size_add(n_bytes, sizeof(struct mailbox), &n_bytes))
    return ERR_NO_MEMORY;
  struct mailbox *m = malloc(n_bytes);
  if (m == NULL)
    return ERR_NO_MEMORY;
  *m = (struct mailbox){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .capacity = capacity};
  if (m->fd < 0) {
    free(m);
    return err_from_errno(errno);
  }
  MUST(pthread_mutex_init(&m->mutex, NULL) == 0);
  MUST(pthread_cond_init(&m->filled, NULL) == 0);
  *out_mailbox = m;
  return ERR_OK;
}

void mailbox_free(struct mailbox *m) {
  if (m == NULL)
    return;
  MUST(m->n == 0);
  close(m->fd);
  pthread_cond_destroy(&m->filled);
  pthread_mutex_destroy(&m->mutex);
  free(m);
}

void mailbox_put(struct mailbox *m, void *item) {
  MUST(item != NULL);
  FAULT_POINT("mailbox-put");
  pthread_mutex_lock(&m->mutex);
  MUST(m->n < m->capacity);
  m->ring[(m->first + m->n) % m->capacity] = item;
  if (m->n++ == 0)
    MUST(eventfd_write(m->fd, 1) == 0);
  pthread_cond_signal(&m->filled);
  pthread_mutex_unlock(&m->mutex);
}

/* Under the mutex, not empty. */
static void *first_out(struct mailbox *m) {
  void *item = m->ring[m->first];
  m->first = (m->first + 1) % m->capacity;
  eventfd_t count;
  if (--m->n == 0)
    MUST(eventfd_read(m->fd, &count) == 0);
  return item;
}

void *mailbox_take(struct mailbox *m) {
  pthread_mutex_lock(&m->mutex);
  while (m->n == 0)
    pthread_cond_wait(&m->filled, &m->mutex);
  void *item = first_out(m);
  pthread_mutex_unlock(&m->mutex);
  FAULT_POINT("mailbox-taken");
  return item;
}

void *mailbox_poll(struct mailbox *m) {
  pthread_mutex_lock(&m->mutex);
  void *item = m->n > 0 ? first_out(m) : NULL;
  pthread_mutex_unlock(&m->mutex);
  return item;
}

int mailbox_fd(const struct mailbox *m) {
  return m->fd;
}
