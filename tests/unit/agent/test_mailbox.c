#include "agent/run/mailbox.h"
#include "tests/unit/suite.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

static struct mailbox *mailbox_of(size_t capacity) {
  struct mailbox *m;
  ck_assert_int_eq(mailbox_new(capacity, &m), ERR_OK);
  return m;
}

static bool is_readable(const struct mailbox *m, int timeout_ms) {
  struct pollfd fd = {.fd = mailbox_fd(m), .events = POLLIN};
  return poll(&fd, 1, timeout_ms) == 1;
}

START_TEST(gives_back_in_order_round_the_ring) {
  struct mailbox *m = mailbox_of(3);
  int items[9];
  for (size_t at = 0; at < 9; at += 3) {
    for (size_t i = 0; i < 3; i++)
      mailbox_put(m, &items[at + i]);
    for (size_t i = 0; i < 3; i++)
      ck_assert_ptr_eq(i % 2 == 0 ? mailbox_take(m) : mailbox_poll(m), &items[at + i]);
  }
  ck_assert_ptr_null(mailbox_poll(m));
  mailbox_free(m);
}
END_TEST

START_TEST(is_readable_exactly_while_something_waits) {
  struct mailbox *m = mailbox_of(2);
  int item;
  ck_assert(!is_readable(m, 0));
  mailbox_put(m, &item);
  mailbox_put(m, &item);
  ck_assert(is_readable(m, 0));
  mailbox_take(m);
  ck_assert(is_readable(m, 0));
  mailbox_poll(m);
  ck_assert(!is_readable(m, 0));
  mailbox_put(m, &item);
  ck_assert(is_readable(m, 0));
  mailbox_take(m);
  mailbox_free(m);
}
END_TEST

enum { N_SENDERS = 3, PER_SENDER = 2000, WINDOW = 8 };

/* A worker that answers every item with itself, as trainer and scribe do. */
struct pair {
  struct mailbox *in, *out;
};

static int end_mark;

static void *echo(void *context) {
  struct pair *p = context;
  for (void *item; (item = mailbox_take(p->in)) != &end_mark;)
    mailbox_put(p->out, item);
  return NULL;
}

START_TEST(a_worker_answers_everything_in_order) {
  struct pair p = {mailbox_of(WINDOW + 1), mailbox_of(WINDOW)};
  static int items[PER_SENDER];
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, echo, &p), 0);
  size_t n_put = 0, n_got = 0;
  while (n_got < PER_SENDER) {
    while (n_put < PER_SENDER && n_put - n_got < WINDOW)
      mailbox_put(p.in, &items[n_put++]);
    ck_assert(is_readable(p.out, 5000));
    for (void *item; (item = mailbox_poll(p.out)) != NULL;)
      ck_assert_ptr_eq(item, &items[n_got++]);
  }
  mailbox_put(p.in, &end_mark);
  pthread_join(thread, NULL);
  mailbox_free(p.in);
  mailbox_free(p.out);
}
END_TEST

struct sender {
  struct mailbox *m;
  int items[PER_SENDER];
};

static void *send_all(void *context) {
  struct sender *s = context;
  for (size_t i = 0; i < PER_SENDER; i++)
    mailbox_put(s->m, &s->items[i]);
  return NULL;
}

START_TEST(several_senders_lose_nothing) {
  static struct sender senders[N_SENDERS];
  struct mailbox *m = mailbox_of((size_t)N_SENDERS * PER_SENDER);
  pthread_t threads[N_SENDERS];
  for (size_t i = 0; i < N_SENDERS; i++) {
    senders[i].m = m;
    ck_assert_int_eq(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
  }
  size_t n_of[N_SENDERS] = {0};
  for (size_t n = 0; n < (size_t)N_SENDERS * PER_SENDER; n++) {
    const int *item = mailbox_take(m);
    for (size_t i = 0; i < N_SENDERS; i++)
      if (n_of[i] < PER_SENDER && item == &senders[i].items[n_of[i]])
        n_of[i]++;
  }
  for (size_t i = 0; i < N_SENDERS; i++) {
    ck_assert_uint_eq(n_of[i], PER_SENDER); /* and each in its sender's order */
    pthread_join(threads[i], NULL);
  }
  ck_assert(!is_readable(m, 0));
  mailbox_free(m);
}
END_TEST

START_TEST(refuses_what_no_memory_holds) {
  struct mailbox *m = NULL;
  ck_assert_int_eq(mailbox_new(SIZE_MAX / 4, &m), ERR_NO_MEMORY);
  ck_assert_ptr_null(m);
  mailbox_free(NULL);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/mailbox", gives_back_in_order_round_the_ring, is_readable_exactly_while_something_waits,
                   a_worker_answers_everything_in_order, several_senders_lose_nothing, refuses_what_no_memory_holds);
}
