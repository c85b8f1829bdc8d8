/* The store while one allocation fails, its own or one of SQLite: for every k the call that met it says so and leaves its
 * results alone, nothing is leaked, and what is opened again is what was acknowledged, or one step more. */
#include <sqlite3.h>

#include "base/must.h"
#include "tests/fault/fault.h"
#include "tests/size.h"
#include "tests/unit/store/fixture.h"

enum { MAX_K = 20000, N_ROUNDS = 3 };

static sqlite3_mem_methods of_sqlite;

static void *sqlite_malloc(int n) {
  return fault_strikes() ? NULL : of_sqlite.xMalloc(n);
}

static void *sqlite_realloc(void *old, int n) {
  return fault_strikes() ? NULL : of_sqlite.xRealloc(old, n);
}

static void hook_sqlite(void) {
  MUST(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &of_sqlite) == SQLITE_OK);
  sqlite3_mem_methods hooked = of_sqlite;
  hooked.xMalloc = sqlite_malloc;
  hooked.xRealloc = sqlite_realloc;
  MUST(sqlite3_config(SQLITE_CONFIG_MALLOC, &hooked) == SQLITE_OK && sqlite3_initialize() == SQLITE_OK);
}

/* What a want of memory may become: that, or a handle that has to be closed. */
static bool is_of_memory(enum err e) {
  return e == ERR_NO_MEMORY || e == ERR_IO;
}

/* ---- what is done, each from a state directory of some rounds; the number of steps (publications and commits) that it acknowledged */

static struct fixture f;
static bool leaks;

static enum err try_open(struct store **out_store) {
  struct store *const untouched = NULL;
  *out_store = untouched;
  enum err e = fixture_try(&f, 7, out_store);
  MUST((e == ERR_OK) == (*out_store != untouched));
  MUST(e == ERR_OK || (is_of_memory(e) && f.why[0] != '\0') || e == ERR_NO_MEMORY);
  return e;
}

static size_t open_and_close(void) {
  struct store *s;
  if (try_open(&s) == ERR_OK)
    store_close(s);
  return 0;
}

static size_t do_round(void) {
  struct store *s;
  size_t n = 0;
  bool was_armed = fault_pause();
  MUST(try_open(&s) == ERR_OK);
  fault_go_on(was_armed);
  enum err e = round_publish(s, N_ROUNDS + 1, N_ROUNDS + 1);
  n += e == ERR_OK;
  if (e == ERR_OK)
    n += (e = round_commit(s, N_ROUNDS + 1)) == ERR_OK;
  if (e == ERR_OK)
    n += (e = round_publish(s, N_ROUNDS + 2, N_ROUNDS + 2)) == ERR_OK;
  if (e == ERR_OK)
    n += (e = round_turn(s, N_ROUNDS + 2, N_ROUNDS + 3)) == ERR_OK ? 2 : 0;
  MUST(e == ERR_OK || is_of_memory(e));
  store_close(s);
  return n;
}

static size_t read_all(void) {
  static const struct store_resume untouched = {.sequence = 77};
  struct store *s = NULL;
  struct store_resume r = untouched;
  struct store_outbox_entry entries[KEEP_PAYLOADS];
  struct store_round rounds[8];
  struct store_event_row events[8];
  size_t n = 77;
  uint8_t *bytes = NULL;
  char why[MAX_REASON_BYTES] = "";
  if (store_open_read_only(f.state, &lanes, &s, why) != ERR_OK) {
    MUST(s == NULL);
    return 0;
  }
  enum err e = store_resume(s, &job_one, &r, why);
  MUST(e == ERR_OK || (is_of_memory(e) && r.sequence == 77));
  if (e == ERR_OK) {
    MUST(r.committed.round == N_ROUNDS && !r.fell_back);
    enum err loaded = store_file_load(s, &r.model, ROUND_BYTES, &bytes, &n);
    MUST(loaded == ERR_OK ? n == ROUND_BYTES : is_of_memory(loaded) && bytes == NULL && n == 77);
  }
  free(bytes);
  n = 77;
  e = store_outbox(s, &job_one, entries, KEEP_PAYLOADS, &n);
  MUST(e == ERR_OK ? n == N_ROUNDS : is_of_memory(e));
  e = store_rounds(s, &job_one, 1, rounds, 8, &n);
  MUST(e == ERR_OK ? n == N_ROUNDS : is_of_memory(e));
  e = store_events(s, 0, events, 8, &n);
  MUST(e == ERR_OK || is_of_memory(e));
  store_close(s);
  return 0;
}

static size_t change_models(void) {
  struct store *s;
  struct store_roll_back done;
  bool changed;
  bool was_armed = fault_pause();
  MUST(try_open(&s) == ERR_OK);
  fault_go_on(was_armed);
  const struct round_label two = {.round = 2};
  enum err e = store_pin(s, &job_one, two, "kept", 7, &changed);
  if (e == ERR_OK)
    e = store_serve(s, &job_one, SERVE_PINNED, two, 7, &changed);
  if (e == ERR_OK)
    e = store_event(s, 7, "X", NULL, "text");
  if (e == ERR_OK)
    e = store_roll_back(s, &job_one, two, "why", 7, &done, &changed);
  MUST(e == ERR_OK || is_of_memory(e));
  store_close(s);
  return 0;
}

static const struct {
  const char *name;
  size_t (*run)(void);
} scenarios[] = {{"open", open_and_close},
                 {"publish and commit", do_round},
                 {"read", read_all},
                 {"pin, serve, roll back", change_models}};

/* ---- each with every k */

static void make(void) {
  struct store *s = NULL;
  f = (struct fixture){0};
  snprintf(f.base, sizeof f.base, "%s/fault-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  MUST(mkdtemp(f.base) != NULL);
  snprintf(f.state, sizeof f.state, "%.60s/state", f.base);
  MUST(fixture_try(&f, 7, &s) == ERR_OK);
  for (uint64_t r = 1; r <= N_ROUNDS; r++)
    MUST(round_publish(s, r, r) == ERR_OK && round_commit(s, r) == ERR_OK);
  store_close(s);
}

static void judge(size_t n_acked) {
  struct store *s = NULL;
  struct store_resume r;
  MUST(fixture_try(&f, 7, &s) == ERR_OK);
  MUST(store_resume(s, &job_one, &r, f.why) == ERR_OK && !r.fell_back);
  uint64_t steps = 2 * r.committed.round + (r.at == RESUME_PUBLISHED), acked = 2 * (uint64_t)N_ROUNDS + n_acked;
  MUST(steps >= acked && steps <= acked + 2);
  store_close(s);
}

/* Whether there was a k-th allocation. */
static bool fail_at(size_t i, size_t k) {
  make();
  long before = fault_live();
  fault_arm(k, ENOMEM);
  size_t n_acked = scenarios[i].run();
  if (leaks)
    MUST(malloc(1) != NULL || k > 0);
  bool is_fired = fault_disarm();
  MUST(sqlite3_memory_used() == 0);
  MUST(fault_live() == before);
  judge(n_acked);
  fixture_free(&f);
  return is_fired;
}

/* `leaks` loses what a test must notice. */
int main(int argc, char **argv) {
  size_t stride = argc > 1 ? strtoul(argv[1], NULL, 10) : least_or(613, 61), total = 0;
  MUST(stride > 0);
  leaks = argc > 2 && strcmp(argv[2], "leaks") == 0;
  fault_memory_only();
  hook_sqlite();
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
    size_t n = 0, k = 1 + i % stride;
    make(); /* what libraries keep for good */
    scenarios[i].run();
    fixture_free(&f);
    for (; k < MAX_K && fail_at(i, k); k += stride)
      n++;
    MUST(n > 0 && k < MAX_K);
    printf("%s: %zu faults of %zu allocations\n", scenarios[i].name, n, k - 1);
    total += n;
  }
  printf("runs %zu failures 0\n", total);
  return 0;
}
