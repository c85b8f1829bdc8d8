/* Preloaded into an agent: its wall clock is the host's plus the seconds in the file named by CLOCK_SHIM_FILE, an i64 that a
 * test changes while the agent runs. Other clocks are untouched. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;

__attribute__((constructor)) static void shim_open(void) {
  const char *path = getenv("CLOCK_SHIM_FILE");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, fd, 0);
  if (fd >= 0)
    close(fd);
  if (map == MAP_FAILED)
    abort();
  offset_s = map;
}

static void host_clock(clockid_t clock, struct timespec *out) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real)
    *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
  real(clock, out);
}

int clock_gettime(clockid_t clock_id, struct timespec *tp) {
  host_clock(clock_id, tp);
  if (offset_s && (clock_id == CLOCK_REALTIME || clock_id == CLOCK_REALTIME_COARSE))
    tp->tv_sec += *offset_s;
  return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
  (void)tz;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  tv->tv_sec = t.tv_sec;
  tv->tv_usec = t.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *timer) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (timer)
    *timer = t.tv_sec;
  return t.tv_sec;
}
