/* Preloaded into an agent, makes a library break what it promises. Each switch is an environment variable:
 *
 * SHIM_REPEATS   random numbers of eight bytes are always the same
 * SHIM_CALL      write, sync, rename, open, truncate or unlink: the SHIM_AT-th call of that kind about a file under the folder
 *                SHIM_UNDER fails with SHIM_ERRNO, and the file SHIM_FIRED is made
 *                or memory: the SHIM_AT-th allocation of the program itself, not of its libraries, fails
 * SHIM_LIES      with SHIM_CALL=write: it writes nothing and says that it did
 */
#undef _FILE_OFFSET_BITS /* both kinds of names are caught */
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void randombytes_buf(void *out, size_t n);

static bool is_on(const char *name) {
  return getenv(name) != NULL;
}

/* ---- libsodium */

void randombytes_buf(void *out, size_t n) {
  void (*real)(void *, size_t);
  *(void **)&real = dlsym(RTLD_NEXT, "randombytes_buf");
  if (n == 8 && is_on("SHIM_REPEATS"))
    memset(out, 7, n);
  else
    real(out, n);
}

/* ---- files */

static bool is_under(const char *path) {
  const char *folder = getenv("SHIM_UNDER");
  return folder != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

static bool fd_is_under(int fd) {
  char name[40], target[PATH_MAX];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(name, target, sizeof target - 1);
  if (n < 0)
    return false;
  target[n] = '\0';
  return is_under(target);
}

static bool at_is_under(int dir_fd, const char *path) {
  return path[0] == '/' || dir_fd == AT_FDCWD ? is_under(path) : fd_is_under(dir_fd);
}

static void tell_fired(void) {
  const char *path = getenv("SHIM_FIRED");
  if (path != NULL) {
    long fd = syscall(SYS_open, path, O_WRONLY | O_CREAT, 0600);
    if (fd >= 0)
      close((int)fd);
  }
}

/* Whether this call, about a file under the folder, is the one to fail. */
static bool fails(const char *call) {
  static atomic_ulong n_seen;
  const char *chosen = getenv("SHIM_CALL"), *at = getenv("SHIM_AT"), *number = getenv("SHIM_ERRNO");
  if (chosen == NULL || at == NULL || number == NULL || strcmp(chosen, call) != 0)
    return false;
  if (atomic_fetch_add(&n_seen, 1) + 1 != strtoul(at, NULL, 10))
    return false;
  tell_fired();
  errno = (int)strtol(number, NULL, 10);
  return true;
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses): libc's are reserved; types, lists
#define BY_FD(name, kind, parameters, arguments)                                                                       \
  int name parameters {                                                                                                \
    int(*real) parameters;                                                                                             \
    *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                         \
    return fd_is_under(fd) && fails(kind) ? -1 : real arguments;                                                       \
  }

#define WRITE(name, parameters, arguments)                                                                             \
  ssize_t name parameters {                                                                                            \
    ssize_t(*real) parameters;                                                                                         \
    *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                         \
    if (!fd_is_under(fd) || !fails("write"))                                                                           \
      return real arguments;                                                                                           \
    return is_on("SHIM_LIES") ? (ssize_t)n : -1;                                                                       \
  }

#define BY_PATH(name, kind, parameters, arguments, dir_fd)                                                             \
  int name parameters {                                                                                                \
    int(*real) parameters;                                                                                             \
    *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                         \
    return at_is_under(dir_fd, path) && fails(kind) ? -1 : real arguments;                                             \
  }

WRITE(write, (int fd, const void *bytes, size_t n), (fd, bytes, n))
WRITE(pwrite, (int fd, const void *bytes, size_t n, off_t at), (fd, bytes, n, at))
WRITE(pwrite64, (int fd, const void *bytes, size_t n, off64_t at), (fd, bytes, n, at))
BY_FD(fsync, "sync", (int fd), (fd))
BY_FD(fdatasync, "sync", (int fd), (fd))
BY_FD(ftruncate, "truncate", (int fd, off_t n), (fd, n))
BY_FD(ftruncate64, "truncate", (int fd, off64_t n), (fd, n))
BY_PATH(rename, "rename", (const char *path, const char *to), (path, to), AT_FDCWD)
BY_PATH(renameat, "rename", (int dir, const char *path, int to_dir, const char *to), (dir, path, to_dir, to), dir)
BY_PATH(unlink, "unlink", (const char *path), (path), AT_FDCWD)
BY_PATH(unlinkat, "unlink", (int dir, const char *path, int flags), (dir, path, flags), dir)

#define OPEN(name)                                                                                                     \
  int name(const char *path, int flags, ...) {                                                                         \
    int (*real)(const char *, int, ...);                                                                               \
    va_list more;                                                                                                      \
    *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                         \
    va_start(more, flags);                                                                                             \
    unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, unsigned) : 0;                                        \
    va_end(more);                                                                                                      \
    return at_is_under(AT_FDCWD, path) && fails("open") ? -1 : real(path, flags, mode);                                \
  }

#define OPENAT(name)                                                                                                   \
  int name(int dir, const char *path, int flags, ...) {                                                                \
    int (*real)(int, const char *, int, ...);                                                                          \
    va_list more;                                                                                                      \
    *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                         \
    va_start(more, flags);                                                                                             \
    unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, unsigned) : 0;                                        \
    va_end(more);                                                                                                      \
    return at_is_under(dir, path) && fails("open") ? -1 : real(dir, path, flags, mode);                                \
  }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* ---- memory */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t n);

static uintptr_t text_from, text_to; /* of the program */

static int find_text(struct dl_phdr_info *object, size_t n, void *context) {
  (void)n, (void)context;
  for (size_t i = 0; i < object->dlpi_phnum; i++)
    if (object->dlpi_phdr[i].p_type == PT_LOAD && (object->dlpi_phdr[i].p_flags & PF_X)) {
      text_from = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
      text_to = text_from + object->dlpi_phdr[i].p_memsz;
    }
  return 1; /* the first object is the program */
}

__attribute__((constructor)) static void find_program(void) {
  const char *chosen = getenv("SHIM_CALL");
  if (chosen != NULL && strcmp(chosen, "memory") == 0)
    dl_iterate_phdr(find_text, NULL);
}

static bool is_refused(const void *caller) {
  return (uintptr_t)caller >= text_from && (uintptr_t)caller < text_to && fails("memory");
}

void *malloc(size_t n) {
  return is_refused(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size) {
  return is_refused(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t n) {
  return is_refused(__builtin_return_address(0)) ? NULL : __libc_realloc(old, n);
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses)
