/* The database file: a real one of three rounds, patched. First u32: where the file ends, beyond its end not at all; then
 * patches, each (at u32, length u8, bytes). Whatever it says then, opening, reading and going on end with an error or
 * without one. */
#include "store/store.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/must.h"
#include "crypto/digest.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_DATABASE_BYTES = 512 * 1024, MANY = 8, N_ROUNDS = 3, FILE_BYTES = 64 };

static const struct digest job = {{1, 2, 3}};
static const char *const databases[] = {"state.db", "state.db-wal", "state.db-shm"};
static char folder[64], state[80];
static uint8_t whole[MAX_DATABASE_BYTES], patched[MAX_DATABASE_BYTES];
static size_t n_whole;

static const char *path_of(const char *name) {
  static char path[160];
  snprintf(path, sizeof path, "%s/%s", state, name);
  return path;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
  (void)status, (void)type, (void)walk;
  return remove(path);
}

static void remove_all(void) {
  nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static enum err open_store(struct store **out_store, char why[MAX_REASON_BYTES]) {
  char warning[MAX_REASON_BYTES];
  struct store_config config = {
      .state_dir = state, .identity = {7}, .digest = &digest_tree, .keep_last = 3, .keep_best = 2};
  return store_open(&config, out_store, warning, why);
}

/* The contents of a file of a round: its number and what it is. */
static void fill(uint8_t bytes[FILE_BYTES], uint64_t round, char kind) {
  memset(bytes, kind, FILE_BYTES);
  bytes[0] = (uint8_t)round;
}

static enum err play_round(struct store *s, uint64_t round) {
  uint8_t payload[FILE_BYTES], half[FILE_BYTES], model[FILE_BYTES];
  fill(payload, round, 'p');
  fill(half, round, 'h');
  fill(model, round, 'm');
  struct store_contribution peer = {.origin = {9}, .name = "mec-03", .weight = 0.5, .sequence = round};
  struct store_publication p = {.job = job,
                                .label = {round, 0},
                                .boot_epoch = store_boot_epoch(s),
                                .sequence = round,
                                .chain = {{(uint8_t)round}},
                                .manifest = payload,
                                .n_manifest = FILE_BYTES,
                                .payload = payload,
                                .n_payload = FILE_BYTES,
                                .half = half,
                                .n_half = FILE_BYTES,
                                .n_copy = 8,
                                .train_loss = 0.5};
  struct store_commitment c = {.job = job,
                               .label = {round, 0},
                               .outcome = ROUND_MERGED,
                               .model = model,
                               .n_model = FILE_BYTES,
                               .metrics = {.has_validation = true, .validation_headline = 0.9},
                               .contributions = &peer,
                               .n_contributions = 1};
  enum err e = store_publish(s, &p);
  return e == ERR_OK ? store_commit(s, &c) : e;
}

static void open_all(void) {
  struct store *s;
  char why[MAX_REASON_BYTES];
  struct store_job_file file = {.digest = {{5}}, .name = "inspection", .version = 2, .text = "job: inspection\n"};
  bool changed;
  const char *shm = "/dev/shm"; /* where a sync costs nothing */
  snprintf(folder, sizeof folder, "%s/starling-fuzz-XXXXXX", access(shm, W_OK) == 0 ? shm : "/tmp");
  MUST(mkdtemp(folder) != NULL && atexit(remove_all) == 0);
  snprintf(state, sizeof state, "%s/state", folder);
  MUST(open_store(&s, why) == ERR_OK);
  for (uint64_t r = 1; r <= N_ROUNDS; r++)
    MUST(play_round(s, r) == ERR_OK);
  MUST(store_job_file_put(s, &file, &changed) == ERR_OK);
  MUST(store_event(s, 1, "AGENT-STARTED", "", "it started") == ERR_OK);
  store_close(s);
  FILE *in = fopen(path_of(databases[0]), "rb");
  MUST(in != NULL);
  n_whole = fread(whole, 1, sizeof whole, in);
  MUST(n_whole > 0 && n_whole < sizeof whole);
  fclose(in);
}

static size_t patch(struct cursor *input) {
  size_t end = cursor_u32(input);
  memcpy(patched, whole, n_whole);
  while (input->left > 5) { /* a head and a byte */
    size_t at = cursor_u32(input) % n_whole, n = cursor_u8(input);
    for (size_t i = 0; i < n && at + i < n_whole && input->left > 0; i++)
      patched[at + i] = cursor_u8(input);
  }
  return end < n_whole ? end : n_whole;
}

/* What a reader asks for. */
static void read_all(struct store *s) {
  static struct store_round rounds[MANY];
  static struct store_contribution peers[MANY];
  static struct store_event_row events[MANY];
  static struct store_model models[MANY];
  static struct store_outbox_entry entries[MANY];
  struct digest jobs[MANY];
  struct store_resume resume;
  struct store_serving serving;
  struct store_roll_back back;
  struct store_job_file files[MANY];
  char why[MAX_REASON_BYTES];
  size_t n;
  enum err e = store_jobs(s, jobs, MANY, &n);
  MUST(e != ERR_OK || n <= MANY);
  e = store_rounds(s, &job, 0, rounds, MANY, &n);
  MUST(e != ERR_OK || n <= MANY);
  e = store_round_find(s, &job, (struct round_label){2, 0}, rounds, peers, MANY, &n);
  MUST(e != ERR_OK || n <= MANY);
  e = store_events(s, 0, events, MANY, &n);
  MUST(e != ERR_OK || n <= MANY);
  e = store_models(s, &job, models, MANY, &n);
  MUST(e != ERR_OK || n <= MANY);
  e = store_outbox(s, &job, entries, MANY, &n);
  MUST(e != ERR_OK || n <= MANY);
  e = store_serving(s, &job, SERVE_BEST, &serving);
  MUST(e != ERR_IO);
  e = store_roll_back_last(s, &job, &back);
  MUST(e != ERR_IO);
  e = store_resume(s, &job, &resume, why);
  MUST(e != ERR_IO);
  if (store_job_file_list(s, files, MANY, &n) == ERR_OK)
    store_job_files_free(files, n);
}

/* What an agent does next. */
static void go_on(struct store *s) {
  bool changed;
  struct store_roll_back done;
  enum err e = play_round(s, N_ROUNDS + 1);
  if (e == ERR_OK)
    e = store_pin(s, &job, (struct round_label){3, 0}, "kept", 1, &changed);
  if (e == ERR_OK)
    e = store_roll_back(s, &job, (struct round_label){3, 0}, "back", 1, &done, &changed);
  if (e == ERR_OK)
    e = store_event(s, 2, "WENT-ON", "", "it went on");
  MUST(e != ERR_NO_MEMORY);
}

static void write_file(const char *name, const void *bytes, size_t n) {
  FILE *out = fopen(path_of(name), "wb");
  MUST(out != NULL && fwrite(bytes, 1, n, out) == n);
  fclose(out);
}

/* The files of the rounds are there again, whatever the last input let go. */
static void lay_out(size_t n) {
  for (size_t i = 0; i < sizeof databases / sizeof *databases; i++)
    unlink(path_of(databases[i]));
  for (size_t i = 0; i < (size_t)N_ROUNDS * 3; i++) {
    uint8_t bytes[FILE_BYTES];
    char text[80] = "files/";
    fill(bytes, 1 + i / 3, "phm"[i % 3]);
    struct digest name = digest_of(&digest_blake2b, bytes, sizeof bytes);
    digest_hex(&name, text + strlen(text));
    write_file(text, bytes, sizeof bytes);
  }
  write_file(databases[0], patched, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (n_whole == 0)
    open_all();
  struct cursor input;
  struct store *s;
  char why[MAX_REASON_BYTES];
  cursor_init(&input, data, size);
  lay_out(patch(&input));
  enum err e = store_open_read_only(state, &digest_tree, &s, why);
  MUST((e == ERR_OK) == (why[0] == '\0'));
  if (e == ERR_OK) {
    read_all(s);
    store_close(s);
  }
  e = open_store(&s, why);
  MUST((e == ERR_OK) == (why[0] == '\0'));
  if (e == ERR_OK) {
    read_all(s);
    go_on(s);
    store_close(s);
  }
  return 0;
}
