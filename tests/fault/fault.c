#include "tests/fault/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>
#include <zlib.h>
#include <zmq.h>

static _Thread_local size_t calls_left; /* 0: not armed, or fired */
static _Thread_local int errno_of_fault;
static _Thread_local bool is_fired;
static _Thread_local size_t calls_put_by;
static bool counts_only_memory;
static _Thread_local long n_live;

void fault_arm(size_t k, int errno_value) {
  calls_left = k;
  errno_of_fault = errno_value;
  is_fired = false;
}

bool fault_disarm(void) {
  calls_left = 0;
  return is_fired;
}

bool fault_pause(void) {
  calls_put_by = calls_left;
  calls_left = 0;
  return calls_put_by > 0;
}

void fault_go_on(bool was_armed) {
  calls_left = was_armed ? calls_put_by : 0;
}

void fault_memory_only(void) {
  counts_only_memory = true;
}

static bool is_this_one(void) {
  if (calls_left == 0 || --calls_left > 0)
    return false;
  is_fired = true;
  errno = errno_of_fault;
  return true;
}

bool fault_strikes(void) {
  return is_this_one();
}

/* result, name, parameters, arguments, what it returns when it fails */
#define CALLS(X)                                                                                                       \
  X(FILE *, open_memstream, (char **text, size_t *n), (text, n), NULL)                                                 \
  X(FILE *, fopen64, (const char *path, const char *mode), (path, mode), NULL)                                         \
  X(int, ferror, (FILE * f), (f), 1)                                                                                   \
  X(ssize_t, read, (int fd, void *bytes, size_t n), (fd, bytes, n), -1)                                                \
  X(ssize_t, write, (int fd, const void *bytes, size_t n), (fd, bytes, n), -1)                                         \
  X(ssize_t, pread64, (int fd, void *bytes, size_t n, off64_t at), (fd, bytes, n, at), -1)                             \
  X(off64_t, lseek64, (int fd, off64_t at, int whence), (fd, at, whence), -1)                                          \
  X(int, mkostemp64, (char *path, int flags), (path, flags), -1)                                                       \
  X(int, rename, (const char *from, const char *to), (from, to), -1)                                                   \
  X(int, fsync, (int fd), (fd), -1)                                                                                    \
  X(int, link, (const char *from, const char *to), (from, to), -1)                                                     \
  X(int, unlink, (const char *path), (path), -1)                                                                       \
  X(int, fstat64, (int fd, struct stat64 *out), (fd, out), -1)                                                         \
  X(int, lstat64, (const char *path, struct stat64 *out), (path, out), -1)                                             \
  X(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)                                   \
  X(int, bind, (int fd, const struct sockaddr *at, socklen_t n), (fd, at, n), -1)                                      \
  X(int, connect, (int fd, const struct sockaddr *at, socklen_t n), (fd, at, n), -1)                                   \
  X(int, listen, (int fd, int n), (fd, n), -1)                                                                         \
  X(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)                                                                \
  X(int, chmod, (const char *path, mode_t mode), (path, mode), -1)                                                     \
  X(int, accept4, (int fd, struct sockaddr *at, socklen_t *n, int flags), (fd, at, n, flags), -1)                      \
  X(int, getsockopt, (int fd, int level, int name, void *out, socklen_t *n), (fd, level, name, out, n), -1)            \
  X(ssize_t, send, (int fd, const void *bytes, size_t n, int flags), (fd, bytes, n, flags), -1)                        \
  X(ssize_t, recv, (int fd, void *bytes, size_t n, int flags), (fd, bytes, n, flags), -1)                              \
  X(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms), -1)                                              \
  X(void *, sodium_malloc, (size_t n), (n), NULL)                                                                      \
  X(int, crypto_pwhash,                                                                                                \
    (unsigned char *out, unsigned long long n_out, const char *text, unsigned long long n_text,                        \
     const unsigned char *salt, unsigned long long ops, size_t memory, int algorithm),                                 \
    (out, n_out, text, n_text, salt, ops, memory, algorithm), -1)                                                      \
  X(int, crypto_scalarmult, (unsigned char *out, const unsigned char *secret, const unsigned char *point),             \
    (out, secret, point), -1)                                                                                          \
  X(int, yaml_parser_initialize, (yaml_parser_t * parser), (parser), 0)                                                \
  X(gzFile, gzdopen, (int fd, const char *mode), (fd, mode), NULL)                                                     \
  X(int, gzbuffer, (gzFile f, unsigned n), (f, n), -1)                                                                 \
  X(int, gzread, (gzFile f, void *bytes, unsigned n), (f, bytes, n), -1)                                               \
  X(void *, zmq_ctx_new, (void), (), NULL)                                                                             \
  X(int, zmq_ctx_set, (void *context, int name, int value), (context, name, value), -1)                                \
  X(void *, zmq_socket, (void *context, int type), (context, type), NULL)                                              \
  X(int, zmq_setsockopt, (void *s, int name, const void *value, size_t n), (s, name, value, n), -1)                    \
  X(int, zmq_getsockopt, (void *s, int name, void *value, size_t *n), (s, name, value, n), -1)                         \
  X(int, zmq_socket_monitor, (void *s, const char *address, int events), (s, address, events), -1)                     \
  X(int, zmq_bind, (void *s, const char *address), (s, address), -1)                                                   \
  X(int, zmq_connect, (void *s, const char *address), (s, address), -1)                                                \
  X(int, zmq_send, (void *s, const void *bytes, size_t n, int flags), (s, bytes, n, flags), -1)                        \
  X(int, zmq_poll, (zmq_pollitem_t * items, int n, long ms), (items, n, ms), -1)                                       \
  X(int, zmq_msg_init_size, (zmq_msg_t * m, size_t n), (m, n), -1)                                                     \
  X(int, zmq_msg_send, (zmq_msg_t * m, void *s, int flags), (m, s, flags), -1)                                         \
  X(int, zmq_msg_recv, (zmq_msg_t * m, void *s, int flags), (m, s, flags), -1)

#define WRAP(result, name, parameters, arguments, failure)                                                             \
  result __real_##name parameters;                                                                                     \
  result __wrap_##name parameters;                                                                                     \
  result __wrap_##name parameters {                                                                                    \
    return !counts_only_memory && is_this_one() ? (failure) : __real_##name arguments;                                 \
  }
CALLS(WRAP)

/* result, name, parameters, arguments, whether what comes lives beside what was */
#define ALLOCATIONS(X)                                                                                                 \
  X(void *, malloc, (size_t n), (n), true)                                                                             \
  X(void *, calloc, (size_t n, size_t size), (n, size), true)                                                          \
  X(void *, realloc, (void *old, size_t n), (old, n), old == NULL)                                                     \
  X(void *, reallocarray, (void *old, size_t n, size_t size), (old, n, size), old == NULL)                             \
  X(char *, strdup, (const char *text), (text), true)                                                                  \
  X(char *, strndup, (const char *text, size_t n), (text, n), true)                                                    \
  X(char *, realpath, (const char *path, char *out), (path, out), out == NULL)

#define WRAP_ALLOCATION(result, name, parameters, arguments, is_new)                                                   \
  result __real_##name parameters;                                                                                     \
  result __wrap_##name parameters;                                                                                     \
  result __wrap_##name parameters {                                                                                    \
    if (is_this_one())                                                                                                 \
      return NULL;                                                                                                     \
    const long n_more = (is_new);                                                                                      \
    result made = __real_##name arguments;                                                                             \
    n_live += made != NULL ? n_more : 0;                                                                               \
    return made;                                                                                                       \
  }
ALLOCATIONS(WRAP_ALLOCATION)

void __real_free(void *old);
void __wrap_free(void *old);

void __wrap_free(void *old) {
  n_live -= old != NULL;
  __real_free(old);
}

long fault_live(void) {
  return n_live;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

int __wrap_open64(const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0; // NOLINT(clang-analyzer-valist.Uninitialized)
  va_end(args);
  return !counts_only_memory && is_this_one() ? -1 : __real_open64(path, flags, mode);
}
