/* A disk that loses what was not synced: powercut rounds|migration CUTS IMAGES SEED [CONTROL]
 *
 * The store runs some rounds, some starts included, or opens what version 1 left, and every call by which it or SQLite changes the
 * state directory is written down. Then the power is cut after CUTS of those calls, spread over all: from what was synced by then
 * and what was not, IMAGES disks are made, on which unsynced writes are missing, torn at sectors or out of order, and names that no
 * directory sync followed come and go; the second of each is what a kill leaves. Each disk is opened by the store: nothing that it had
 * acknowledged may be missing, nothing may be damaged, and a database is of the old version or of the new one.
 *
 * CONTROL: `normal` runs SQLite with synchronous=NORMAL, `files` syncs no file of files/, `folder` not that folder itself,
 * `bare` has no transactions: each has to lose.
 * Prints a line FAIL for each failure and `runs N failures N` at last. The model is that of Pillai et al., OSDI 2014: data of
 * a file is durable by a sync of it, its name by a sync of its directory; in between anything may have happened. */
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <sys/syscall.h>

#define FIXTURE_ROUND_BYTES 17000 /* files that are written over when nothing names them any more */
#include "base/must.h"
#include "store/room.h"
#include "tests/unit/store/fixture.h"

enum {
  SECTOR_BYTES = 512,
  MAX_OPS = 20000,
  MAX_INODES = 2000,
  MAX_NAMES = 400,
  MAX_FDS = 1024,
  NAME_BYTES = 80,
  N_ROUNDS = 14,
  ROUNDS_A_START = 5,
  CHECKPOINT_PAGES = 24 /* so that the log is written back in the middle of rounds, too */
};

enum folder { FOLDER_BASE, FOLDER_STATE, FOLDER_FILES, N_FOLDERS };
enum op_kind { OP_WRITE, OP_TRUNCATE, OP_SYNC, OP_CREATE, OP_UNLINK, OP_RENAME, OP_SYNC_FOLDER };

struct op {
  enum op_kind kind;
  enum folder folder; /* of names */
  unsigned inode;
  uint64_t offset;
  size_t n;
  uint8_t *bytes;
  char name[NAME_BYTES], to[NAME_BYTES];
  uint64_t n_told; /* steps that were acknowledged before it */
  uint64_t epoch;  /* boot epoch that was given out before it */
};

static struct op ops[MAX_OPS];
static size_t n_ops;
static bool is_recording;
static uint64_t n_told, told_epoch;
static const char *control = "";
static struct fixture live;

/* ---- what the names mean while it is recorded */

struct name {
  enum folder folder;
  char name[NAME_BYTES];
  unsigned inode;
};

static struct name names[MAX_NAMES];
static size_t n_names;
static unsigned n_inodes;
static struct fd_entry {
  enum { FD_FOREIGN, FD_FILE, FD_FOLDER } kind;
  enum folder folder;
  unsigned inode;
} fds[MAX_FDS];

static struct name *name_find(struct name *list, size_t n, enum folder folder, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (list[i].folder == folder && strcmp(list[i].name, name) == 0)
      return &list[i];
  return NULL;
}

static void name_set(struct name *list, size_t *n, enum folder folder, const char *name, unsigned inode) {
  struct name *known = name_find(list, *n, folder, name);
  MUST(known != NULL || *n < MAX_NAMES);
  if (known == NULL)
    known = &list[(*n)++];
  *known = (struct name){.folder = folder, .inode = inode};
  snprintf(known->name, sizeof known->name, "%s", name);
}

static void name_drop(struct name *list, size_t *n, enum folder folder, const char *name) {
  struct name *known = name_find(list, *n, folder, name);
  if (known != NULL)
    *known = list[--*n];
}

static struct op *op_new(enum op_kind kind) {
  MUST(n_ops < MAX_OPS);
  struct op *op = &ops[n_ops++];
  *op = (struct op){.kind = kind, .n_told = n_told, .epoch = told_epoch};
  return op;
}

static void op_names(enum op_kind kind, enum folder folder, const char *name, const char *to, unsigned inode) {
  struct op *op = op_new(kind);
  op->folder = folder;
  op->inode = inode;
  snprintf(op->name, sizeof op->name, "%s", name);
  snprintf(op->to, sizeof op->to, "%s", to);
}

/* Which folder and name a path means; false for what does not belong to the disk: the index of the log is no file that lasts, the
 * lock has no content that counts. */
static bool place_of(int dir_fd, const char *path, enum folder *out_folder, const char **out_name) {
  size_t n_base = strlen(live.base), n_state = strlen(live.state);
  if (path[0] != '/') {
    if (dir_fd < 0 || dir_fd >= MAX_FDS || fds[dir_fd].kind != FD_FOLDER)
      return false;
    *out_folder = fds[dir_fd].folder;
    *out_name = path;
  } else if (strncmp(path, live.state, n_state) == 0 && path[n_state] == '/') {
    *out_folder = FOLDER_STATE;
    *out_name = path + n_state + 1;
  } else if (strncmp(path, live.base, n_base) == 0 && path[n_base] == '/') {
    *out_folder = FOLDER_BASE;
    *out_name = path + n_base + 1;
  } else {
    return false;
  }
  return strstr(*out_name, "-shm") == NULL && strcmp(*out_name, "lock") != 0;
}

static bool folder_of(enum folder in, const char *name, enum folder *out) {
  if (strcmp(name, ".") == 0)
    *out = in;
  else if (in == FOLDER_STATE && strcmp(name, "..") == 0)
    *out = FOLDER_BASE;
  else if (in == FOLDER_BASE && strcmp(name, "state") == 0)
    *out = FOLDER_STATE;
  else if (in == FOLDER_STATE && strcmp(name, "files") == 0)
    *out = FOLDER_FILES;
  else
    return false;
  return true;
}

static void on_open(int fd, int dir_fd, const char *path, int flags) {
  enum folder folder, opened;
  const char *name;
  if (!is_recording || fd < 0)
    return;
  MUST(fd < MAX_FDS);
  fds[fd] = (struct fd_entry){.kind = FD_FOREIGN};
  if (!place_of(dir_fd, path, &folder, &name))
    return;
  if (folder_of(folder, name, &opened)) {
    fds[fd] = (struct fd_entry){.kind = FD_FOLDER, .folder = opened};
    return;
  }
  struct name *known = name_find(names, n_names, folder, name);
  if (known == NULL) {
    MUST((flags & O_CREAT) && n_inodes < MAX_INODES);
    op_names(OP_CREATE, folder, name, "", n_inodes);
    name_set(names, &n_names, folder, name, n_inodes++);
    known = name_find(names, n_names, folder, name);
  }
  fds[fd] = (struct fd_entry){.kind = FD_FILE, .folder = folder, .inode = known->inode};
  if (flags & O_TRUNC)
    op_new(OP_TRUNCATE)->inode = known->inode;
}

static void on_write(int fd, const void *bytes, ssize_t n, uint64_t offset) {
  if (!is_recording || n <= 0 || fd >= MAX_FDS || fds[fd].kind != FD_FILE)
    return;
  struct op *op = op_new(OP_WRITE);
  op->inode = fds[fd].inode;
  op->offset = offset;
  op->n = (size_t)n;
  op->bytes = malloc((size_t)n);
  MUST(op->bytes != NULL);
  memcpy(op->bytes, bytes, (size_t)n);
}

static void on_sync(int fd) {
  if (!is_recording || fd >= MAX_FDS || fds[fd].kind == FD_FOREIGN)
    return;
  if (fds[fd].kind == FD_FOLDER) {
    if (strcmp(control, "folder") != 0 || fds[fd].folder != FOLDER_FILES)
      op_new(OP_SYNC_FOLDER)->folder = fds[fd].folder;
  } else if (strcmp(control, "files") != 0 || fds[fd].folder != FOLDER_FILES) {
    op_new(OP_SYNC)->inode = fds[fd].inode;
  }
}

static void on_unlink(int dir_fd, const char *path) {
  enum folder folder;
  const char *name;
  if (!is_recording || !place_of(dir_fd, path, &folder, &name))
    return;
  op_names(OP_UNLINK, folder, name, "", 0);
  name_drop(names, &n_names, folder, name);
}

static void on_rename(int dir_fd, const char *path, const char *to) {
  enum folder folder;
  const char *name;
  if (!is_recording || !place_of(dir_fd, path, &folder, &name))
    return;
  struct name *known = name_find(names, n_names, folder, name);
  MUST(known != NULL && strchr(to, '/') == NULL);
  unsigned inode = known->inode;
  op_names(OP_RENAME, folder, name, to, inode);
  name_drop(names, &n_names, folder, name);
  name_set(names, &n_names, folder, to, inode);
}

static void on_mkdir(int dir_fd, const char *path) {
  enum folder folder;
  const char *name;
  if (is_recording && place_of(dir_fd, path, &folder, &name))
    op_names(OP_CREATE, folder, name, "", MAX_INODES);
}

/* ---- the calls, of the store and of SQLite; what is not here changes nothing that lasts */

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc's are reserved
int open64(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int fd = (int)syscall(SYS_open, path, flags, flags & O_CREAT ? va_arg(more, unsigned) : 0);
  va_end(more);
  on_open(fd, AT_FDCWD, path, flags);
  return fd;
}

int openat64(int dir_fd, const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int fd = (int)syscall(SYS_openat, dir_fd, path, flags, flags & O_CREAT ? va_arg(more, unsigned) : 0);
  va_end(more);
  on_open(fd, dir_fd, path, flags);
  return fd;
}

ssize_t write(int fd, const void *bytes, size_t n) {
  off_t at = (off_t)syscall(SYS_lseek, fd, 0, SEEK_CUR);
  ssize_t done = syscall(SYS_write, fd, bytes, n);
  on_write(fd, bytes, done, (uint64_t)(at < 0 ? 0 : at));
  return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) {
  ssize_t done = syscall(SYS_pwrite64, fd, bytes, n, at);
  on_write(fd, bytes, done, (uint64_t)at);
  return done;
}

int ftruncate64(int fd, off64_t n) {
  int done = (int)syscall(SYS_ftruncate, fd, n);
  if (is_recording && done == 0 && fd < MAX_FDS && fds[fd].kind == FD_FILE) {
    struct op *op = op_new(OP_TRUNCATE);
    op->inode = fds[fd].inode;
    op->offset = (uint64_t)n;
  }
  return done;
}

int fsync(int fd) {
  on_sync(fd);
  return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
  on_sync(fd);
  return (int)syscall(SYS_fdatasync, fd);
}

int unlink(const char *path) {
  int done = (int)syscall(SYS_unlink, path);
  if (done == 0)
    on_unlink(AT_FDCWD, path);
  return done;
}

int unlinkat(int dir_fd, const char *path, int flags) {
  int done = (int)syscall(SYS_unlinkat, dir_fd, path, flags);
  if (done == 0)
    on_unlink(dir_fd, path);
  return done;
}

int renameat(int dir_fd, const char *path, int to_fd, const char *to) {
  int done = (int)syscall(SYS_renameat, dir_fd, path, to_fd, to);
  if (done == 0)
    on_rename(dir_fd, path, to);
  return done;
}

int mkdir(const char *path, mode_t mode) {
  int done = (int)syscall(SYS_mkdir, path, mode);
  if (done == 0)
    on_mkdir(AT_FDCWD, path);
  return done;
}

int mkdirat(int dir_fd, const char *path, mode_t mode) {
  int done = (int)syscall(SYS_mkdirat, dir_fd, path, mode);
  if (done == 0)
    on_mkdir(dir_fd, path);
  return done;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

int sqlite3_exec(sqlite3 *d, const char *sql, int (*callback)(void *, int, char **, char **), void *context,
                 char **errmsg) {
  int (*real)(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
  *(void **)&real = dlsym(RTLD_NEXT, "sqlite3_exec");
  bool is_bare = is_recording && strcmp(control, "bare") == 0;
  return is_bare && (strcmp(sql, "BEGIN IMMEDIATE") == 0 || strcmp(sql, "COMMIT") == 0)
             ? SQLITE_OK
             : real(d, sql, callback, context, errmsg);
}

/* ---- the rounds */

static struct store *open_live(void) {
  struct store *s = NULL;
  MUST(fixture_try(&live, 7, &s) == ERR_OK);
  told_epoch = store_boot_epoch(s);
  char pragma[64];
  snprintf(pragma, sizeof pragma, "PRAGMA wal_autocheckpoint = %d", CHECKPOINT_PAGES);
  MUST(sqlite3_exec(s->database.sqlite, pragma, NULL, NULL, NULL) == SQLITE_OK);
  if (strcmp(control, "normal") == 0)
    MUST(sqlite3_exec(s->database.sqlite, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL) == SQLITE_OK);
  return s;
}

/* Every third commitment is made with the publication after it. */
static void record_rounds(void) {
  struct store *s = NULL;
  bool is_published = false;
  is_recording = true;
  for (uint64_t round = 1; round <= N_ROUNDS; round++) {
    bool is_turn = round % 3 == 0 && round % ROUNDS_A_START != 0;
    if (s == NULL)
      s = open_live();
    if (!is_published)
      MUST(round_publish(s, round, round) == ERR_OK);
    n_told += !is_published;
    MUST((is_turn ? round_turn(s, round, round + 1) : round_commit(s, round)) == ERR_OK);
    n_told += is_turn ? 2 : 1;
    is_published = is_turn;
    if (round % ROUNDS_A_START == 0) {
      store_close(s);
      s = NULL;
    }
  }
  is_recording = false;
  store_close(s);
}

/* ---- the disk, as far as a number of calls */

struct content {
  uint8_t *bytes;
  size_t n;
};

static struct content durable[MAX_INODES];
static size_t pending[MAX_OPS], n_pending; /* in order: calls that no sync has made durable */
static struct name durable_names[MAX_NAMES];
static size_t n_durable_names;

static void content_resize(struct content *c, size_t n) {
  c->bytes = realloc(c->bytes, n > 0 ? n : 1);
  MUST(c->bytes != NULL);
  if (n > c->n)
    memset(c->bytes + c->n, 0, n - c->n);
  c->n = n;
}

static void content_write(struct content *c, uint64_t offset, const uint8_t *bytes, size_t n) {
  if (offset + n > c->n)
    content_resize(c, (size_t)offset + n);
  memcpy(c->bytes + offset, bytes, n);
}

static void content_apply(struct content *c, const struct op *op) {
  if (op->kind == OP_WRITE)
    content_write(c, op->offset, op->bytes, op->n);
  else
    content_resize(c, (size_t)op->offset);
}

static void names_apply(struct name *list, size_t *n, const struct op *op) {
  if (op->kind == OP_CREATE)
    name_set(list, n, op->folder, op->name, op->inode);
  else
    name_drop(list, n, op->folder, op->name);
  if (op->kind == OP_RENAME)
    name_set(list, n, op->folder, op->to, op->inode);
}

static bool is_of_names(const struct op *op) {
  return op->kind == OP_CREATE || op->kind == OP_UNLINK || op->kind == OP_RENAME;
}

/* Whether a sync makes the pending call durable. */
static bool is_synced_by(const struct op *op, const struct op *sync) {
  if (sync->kind == OP_SYNC_FOLDER)
    return is_of_names(op) && op->folder == sync->folder;
  return !is_of_names(op) && op->inode == sync->inode;
}

static void disk_advance(size_t at) {
  const struct op *op = &ops[at];
  if (op->kind != OP_SYNC && op->kind != OP_SYNC_FOLDER) {
    pending[n_pending++] = at;
    return;
  }
  size_t n = 0;
  for (size_t i = 0; i < n_pending; i++) {
    const struct op *p = &ops[pending[i]];
    if (!is_synced_by(p, op))
      pending[n++] = pending[i];
    else if (is_of_names(p))
      names_apply(durable_names, &n_durable_names, p);
    else
      content_apply(&durable[p->inode], p);
  }
  n_pending = n;
}

/* ---- images */

/* What an image does with pending calls: each is there or not; all are; none is; each sector for itself; a part of them from the start. */
enum luck { LUCK_EACH, LUCK_ALL, LUCK_NONE, LUCK_SECTORS, LUCK_PREFIX, N_LUCKS };

static bool is_lucky(enum luck luck, struct rng *rng, size_t i, size_t prefix) {
  switch (luck) {
  case LUCK_ALL:
    return true;
  case LUCK_NONE:
    return false;
  case LUCK_PREFIX:
    return i < prefix;
  default:
    return rng_below(rng, 2) == 0;
  }
}

static void write_sectors(struct content *c, const struct op *op, struct rng *rng) {
  for (size_t done = 0; done < op->n;) {
    size_t n = SECTOR_BYTES - (size_t)((op->offset + done) % SECTOR_BYTES);
    n = n < op->n - done ? n : op->n - done;
    if (rng_below(rng, 2) == 0)
      content_write(c, op->offset + done, op->bytes + done, n);
    done += n;
  }
}

static void name_path(const struct fixture *f, const struct name *n, char out[static 256]) {
  static const char *const folders[N_FOLDERS] = {"", "/state", "/state/files"};
  snprintf(out, 256, "%s%s/%s", f->base, folders[n->folder], n->name);
}

static void image_file(const struct fixture *f, const struct name *n, const struct content *c) {
  char path[256];
  name_path(f, n, path);
  int fd = (int)syscall(SYS_open, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0)
    return; /* its folder did not come to be */
  MUST(c->n == 0 || syscall(SYS_write, fd, c->bytes, c->n) == (long)c->n);
  close(fd);
}

static void image_make(const struct fixture *f, enum luck luck, struct rng *rng) {
  static struct content now[MAX_INODES];
  struct name list[MAX_NAMES];
  size_t n = n_durable_names, prefix = rng_below(rng, (uint32_t)n_pending + 1);
  memcpy(list, durable_names, sizeof list);
  for (unsigned i = 0; i < n_inodes; i++) {
    content_resize(&now[i], durable[i].n);
    if (durable[i].n > 0)
      memcpy(now[i].bytes, durable[i].bytes, durable[i].n);
  }
  for (size_t i = 0; i < n_pending; i++) {
    const struct op *op = &ops[pending[i]];
    if (luck == LUCK_SECTORS && op->kind == OP_WRITE)
      write_sectors(&now[op->inode], op, rng);
    else if (!is_lucky(luck, rng, i, prefix))
      continue;
    else if (is_of_names(op))
      names_apply(list, &n, op);
    else
      content_apply(&now[op->inode], op);
  }
  for (enum folder folder = FOLDER_BASE; folder < N_FOLDERS; folder++)
    for (size_t i = 0; i < n; i++) {
      char path[256];
      name_path(f, &list[i], path);
      if (list[i].folder == folder && list[i].inode == MAX_INODES)
        (void)syscall(SYS_mkdir, path, 0700);
      else if (list[i].folder == folder)
        image_file(f, &list[i], &now[list[i].inode]);
    }
}

/* ---- what has to be there */

static bool file_is(struct store *s, const struct digest *name, const uint8_t *expected) {
  uint8_t *bytes = NULL;
  size_t n = 0;
  bool is = store_file_load(s, name, ROUND_BYTES, &bytes, &n) == ERR_OK && n == ROUND_BYTES &&
            memcmp(bytes, expected, ROUND_BYTES) == 0;
  free(bytes);
  return is;
}

static const char *outbox_fault(struct store *s, uint64_t newest) {
  struct store_outbox_entry entries[KEEP_PAYLOADS];
  size_t n = 0;
  if (store_outbox(s, &job_one, entries, KEEP_PAYLOADS, &n) != ERR_OK ||
      n != (newest < KEEP_PAYLOADS ? newest : KEEP_PAYLOADS))
    return "the updates that are offered again are not all there";
  for (size_t i = 0; i < n; i++) {
    struct round_bytes b = round_bytes(entries[i].label);
    if (entries[i].sequence != newest - i || memcmp(entries[i].manifest, b.manifest, sizeof b.manifest) != 0 ||
        !file_is(s, &entries[i].payload, b.payload))
      return "an update that is offered again is another";
  }
  return NULL;
}

/* What was acknowledged before the power went. */
struct acked {
  uint64_t n_steps, epoch;
};

static const char *resume_fault(struct store *s, const struct store_resume *r, const struct acked *acked) {
  uint64_t n_steps = 2 * r->committed.round + (r->at == RESUME_PUBLISHED);
  struct round_bytes b = round_bytes(r->at == RESUME_PUBLISHED ? r->published : r->committed);
  if (r->fell_back)
    return "a snapshot is damaged";
  if (n_steps < acked->n_steps)
    return "an acknowledged step is lost";
  if (n_steps > acked->n_steps + 2)
    return "there is more than was done";
  if (store_boot_epoch(s) >> 32 <= acked->epoch >> 32)
    return "the boot epoch is not above the one before";
  if (r->at != RESUME_FRESH && !file_is(s, &r->half, b.half))
    return "the half-step is damaged";
  if (r->at == RESUME_COMMITTED && !file_is(s, &r->model, b.model))
    return "the model is damaged";
  return outbox_fault(s, r->sequence);
}

static const char *next_fault(struct store *s, const struct store_resume *r) {
  uint64_t round = r->committed.round + 1, sequence = r->sequence;
  if (r->at != RESUME_PUBLISHED && round_publish(s, round, ++sequence) != ERR_OK)
    return "no further round can be published";
  return round_commit(s, round) == ERR_OK ? NULL : "the round cannot be committed";
}

/* NULL, or what is wrong; `f` has why. */
static const char *judge_rounds(struct fixture *f, const struct acked *acked) {
  struct store *s = NULL;
  struct store_resume r;
  if (fixture_try(f, 7, &s) != ERR_OK)
    return f->why;
  const char *fault = store_resume(s, &job_one, &r, f->why) == ERR_OK ? resume_fault(s, &r, acked) : "it cannot go on";
  if (fault == NULL)
    fault = next_fault(s, &r);
  store_close(s);
  return fault;
}

/* ---- a database of version 1 */

enum { OLD_VERSION = 1, NEW_VERSION = 4, OLD_ROUNDS = 5, OLD_BYTES = 3000 /* of each of its files */ };

static void file_make(const char *path, const void *bytes, size_t n) {
  int fd = (int)syscall(SYS_open, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  MUST(fd >= 0 && syscall(SYS_write, fd, bytes, n) == (long)n);
  close(fd);
}

/* As it comes to be durable: a file that the disk has from the beginning. */
static void adopt(enum folder folder, const char *name) {
  struct name known = {.folder = folder, .inode = n_inodes};
  char path[256];
  snprintf(known.name, sizeof known.name, "%s", name);
  name_path(&live, &known, path);
  int fd = (int)syscall(SYS_open, path, O_RDONLY);
  off_t n = lseek(fd, 0, SEEK_END);
  MUST(fd >= 0 && n >= 0);
  content_resize(&durable[n_inodes], (size_t)n);
  MUST(pread(fd, durable[n_inodes].bytes, (size_t)n, 0) == n);
  close(fd);
  name_set(names, &n_names, folder, name, n_inodes);
  name_set(durable_names, &n_durable_names, folder, name, n_inodes++);
}

static void old_files_make(void) {
  for (uint64_t r = 1; r <= OLD_ROUNDS; r++) {
    struct round_bytes b = round_bytes((struct round_label){.round = r});
    const uint8_t *const files[] = {b.payload, b.half, b.model};
    for (size_t i = 0; i < 3; i++) {
      char hex[DIGEST_TEXT_BYTES], path[256];
      struct digest name = digest_bytes(files[i], OLD_BYTES);
      digest_hex(&name, hex);
      snprintf(path, sizeof path, "%s/files/%s", live.state, hex);
      file_make(path, files[i], OLD_BYTES);
      adopt(FOLDER_FILES, hex);
    }
  }
}

static void old_database_make(void) {
  static char sql[1 << 16];
  sqlite3 *db;
  FILE *file = fopen("tests/unit/store/version_1.sql", "r");
  MUST(file != NULL && fread(sql, 1, sizeof sql - 1, file) > 0 && feof(file));
  fclose(file);
  char path[256];
  snprintf(path, sizeof path, "%s/state.db", live.state);
  MUST(sqlite3_open(path, &db) == SQLITE_OK && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
  MUST(sqlite3_close(db) == SQLITE_OK);
  adopt(FOLDER_STATE, "state.db");
}

static void record_migration(void) {
  char path[256];
  snprintf(path, sizeof path, "%s/files", live.state);
  MUST(syscall(SYS_mkdir, live.state, 0700) == 0 && syscall(SYS_mkdir, path, 0700) == 0);
  name_set(durable_names, &n_durable_names, FOLDER_BASE, "state", MAX_INODES);
  name_set(durable_names, &n_durable_names, FOLDER_STATE, "files", MAX_INODES);
  old_database_make();
  old_files_make();
  is_recording = true;
  struct store *s = open_live();
  is_recording = false;
  store_close(s);
}

static int version_of(const struct fixture *f) {
  char path[256];
  sqlite3 *db;
  sqlite3_stmt *statement = NULL;
  int version = -1;
  snprintf(path, sizeof path, "%s/state.db", f->state);
  if (sqlite3_open(path, &db) == SQLITE_OK &&
      sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, NULL) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW)
    version = sqlite3_column_int(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return version;
}

static const char *judge_migration(struct fixture *f, const struct acked *acked) {
  struct store *s = NULL;
  struct store_resume r;
  int version = version_of(f);
  if (version != OLD_VERSION && version != NEW_VERSION)
    return "it is of no version";
  if (acked->epoch > 0 && version != NEW_VERSION)
    return "it was opened and is old again";
  if (fixture_try(f, 7, &s) != ERR_OK)
    return f->why;
  bool is_whole = store_resume(s, &job_one, &r, f->why) == ERR_OK && !r.fell_back && r.at == RESUME_PUBLISHED &&
                  r.committed.round == OLD_ROUNDS - 1 && r.published.round == OLD_ROUNDS && r.sequence == OLD_ROUNDS;
  const char *fault = is_whole ? next_fault(s, &r) : "its rounds are not what they were";
  store_close(s);
  return fault == NULL && version_of(f) != NEW_VERSION ? "it was not brought up" : fault;
}

static const struct story {
  const char *name;
  void (*record)(void);
  const char *(*judge)(struct fixture *f, const struct acked *acked);
} stories[] = {{"rounds", record_rounds, judge_rounds}, {"migration", record_migration, judge_migration}};

/* Cuts the power after that many calls; how many disks are not as they should be. */
static size_t cut(const struct story *story, size_t at, size_t n_images, struct rng *rng) {
  bool is_last =
      at + 1 == n_ops; /* else the cut is just before the next call: what came before that was acknowledged */
  const struct acked acked = {is_last ? n_told : ops[at + 1].n_told, is_last ? told_epoch : ops[at + 1].epoch};
  size_t n_failures = 0;
  for (size_t i = 0; i < n_images; i++) {
    struct fixture image = {0};
    snprintf(image.base, sizeof image.base, "%.40s/image", live.base);
    snprintf(image.state, sizeof image.state, "%.40s/image/state", live.base);
    MUST(syscall(SYS_mkdir, image.base, 0700) == 0);
    enum luck luck = i < N_LUCKS ? (enum luck)i : i % 2 == 0 ? LUCK_EACH : LUCK_SECTORS;
    image_make(&image, luck, rng);
    const char *fault = story->judge(&image, &acked);
    if (fault != NULL) {
      printf("FAIL cut after call %zu (%u), disk %zu: %s\n", at, (unsigned)ops[at].kind, i, fault);
      n_failures++;
    }
    fixture_free(&image);
  }
  return n_failures;
}

/* Calls do not come in equal numbers from run to run: cuts are spread over those that came. */
static size_t cut_everywhere(const struct story *story, size_t n_cuts, size_t n_images, struct rng *rng,
                             size_t *out_runs) {
  size_t n_failures = 0, made = 0;
  *out_runs = 0;
  for (size_t at = 0; at < n_ops; at++) {
    disk_advance(at);
    for (; made * n_ops < (at + 1) * n_cuts; made++, *out_runs += n_images)
      n_failures += cut(story, at, n_images, rng);
  }
  return n_failures;
}

int main(int argc, char **argv) {
  MUST(argc >= 5);
  const struct story *story = &stories[strcmp(argv[1], stories[1].name) == 0];
  struct rng rng;
  size_t n_runs;
  rng_init(&rng, strtoul(argv[4], NULL, 10));
  control = argc > 5 ? argv[5] : "";
  snprintf(live.base, sizeof live.base, "%s/powercut-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  MUST(mkdtemp(live.base) != NULL);
  snprintf(live.state, sizeof live.state, "%.60s/state", live.base);
  story->record();
  size_t n_failures = cut_everywhere(story, strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10), &rng, &n_runs);
  fixture_free(&live);
  printf("%zu calls\nruns %zu failures %zu\n", n_ops, n_runs, n_failures);
  return n_failures > 0;
}
