#include "base/fd.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/suite.h"

enum { N = 1 << 20 };

static uint8_t sent[N], got[N];

static void on_signal(int number) {
  (void)number;
}

/* Writes far more than a pipe holds, so that both sides go by pieces. */
static void *write_all(void *context) {
  int fd = *(int *)context;
  ck_assert_int_eq(fd_write_all(fd, sent, N), ERR_OK);
  close(fd);
  return NULL;
}

static void pipe_open(int ends[2]) {
  ck_assert_int_eq(pipe(ends), 0);
  for (size_t i = 0; i < N; i++)
    sent[i] = (uint8_t)(i * 31 >> 3);
}

START_TEST(pieces_become_a_whole) {
  int ends[2];
  size_t n = 0;
  pthread_t writer;
  pipe_open(ends);
  ck_assert_int_eq(pthread_create(&writer, NULL, write_all, &ends[1]), 0);
  ck_assert_int_eq(fd_read_full(ends[0], got, N - 3, &n), ERR_OK);
  ck_assert_uint_eq(n, N - 3);
  ck_assert_mem_eq(got, sent, N - 3);
  ck_assert_int_eq(fd_read_full(ends[0], got, N, &n), ERR_OK); /* the end comes first */
  ck_assert_uint_eq(n, 3);
  ck_assert_mem_eq(got, sent + N - 3, 3);
  pthread_join(writer, NULL);
  close(ends[0]);
}
END_TEST

START_TEST(signals_do_not_end_a_write) {
  struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART */
  int ends[2];
  size_t n = 0, n_all = 0;
  pthread_t writer;
  pipe_open(ends);
  ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
  ck_assert_int_eq(pthread_create(&writer, NULL, write_all, &ends[1]), 0);
  do {
    pthread_kill(writer, SIGUSR1);
    ck_assert_int_eq(fd_read_full(ends[0], got + n_all, 1000, &n), ERR_OK);
    n_all += n;
  } while (n_all + 1000 < N);
  ck_assert_int_eq(fd_read_full(ends[0], got + n_all, N - n_all, &n), ERR_OK);
  ck_assert_uint_eq(n_all + n, N);
  ck_assert_mem_eq(got, sent, N);
  pthread_join(writer, NULL);
  close(ends[0]);
}
END_TEST

START_TEST(a_failure_is_told) {
  int ends[2];
  size_t n = 7;
  pipe_open(ends);
  ck_assert_int_eq(fd_read_full(ends[1], got, 1, &n), ERR_IO);
  ck_assert_int_eq(errno, EBADF);
  ck_assert_uint_eq(n, 7);
  ck_assert_int_eq(fd_write_all(ends[0], sent, 1), ERR_IO);
  ck_assert_int_eq(errno, EBADF);
  close(ends[0]);
  close(ends[1]);
}
END_TEST

int main(void) {
  return SUITE_RUN("base/fd", pieces_become_a_whole, signals_do_not_end_a_write, a_failure_is_told);
}
