/* What the tests of the data side share: files that live in memory, contracts, a toy hash. */
#ifndef TESTS_UNIT_MODELS_DATA_KIT_H
#define TESTS_UNIT_MODELS_DATA_KIT_H

#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/digest.h"
#include "models/contract.h"
#include "models/formats/data_file.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define KIT_SANITISED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define KIT_SANITISED 1
#endif
#endif
#ifndef KIT_SANITISED
#define KIT_SANITISED 0
#endif

#define FASHION "/usr/share/datasets/fashion-mnist/"

/* ---- a file in memory with a path; gone with its descriptor ---- */

struct kit_file {
  int fd;
  char path[40];
};

static inline struct kit_file kit_file(const void *bytes, size_t n_bytes) {
  struct kit_file f = {.fd = memfd_create("data", MFD_CLOEXEC)};
  ck_assert_int_ge(f.fd, 0);
  ck_assert_int_eq(write(f.fd, bytes, n_bytes), (ssize_t)n_bytes);
  snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
  return f;
}

static inline struct kit_file kit_text(const char *text) {
  return kit_file(text, strlen(text));
}

static inline struct kit_file kit_gzip(const void *bytes, size_t n_bytes) {
  struct kit_file f = kit_file("", 0);
  gzFile gz = gzopen(f.path, "wb");
  ck_assert_ptr_nonnull(gz);
  ck_assert_int_eq(gzwrite(gz, bytes, (unsigned)n_bytes), (int)n_bytes);
  ck_assert_int_eq(gzclose(gz), Z_OK);
  return f;
}

static inline void kit_file_close(struct kit_file *f) {
  close(f->fd);
}

/* ---- IDX bytes ---- */

static inline size_t kit_idx_head(uint8_t *out, uint8_t type, uint8_t rank, const uint32_t *sizes) {
  size_t n = 0;
  out[n++] = 0;
  out[n++] = 0;
  out[n++] = type;
  out[n++] = rank;
  for (uint8_t i = 0; i < rank; i++)
    for (int shift = 24; shift >= 0; shift -= 8)
      out[n++] = (uint8_t)(sizes[i] >> shift);
  return n;
}

/* ---- contracts ---- */

/* verdict of { ok, scratch, dent } from force_N and temp_C; nothing held out. */
static inline struct contract *kit_table(void) {
  struct contract *c = contract_new();
  ck_assert_ptr_nonnull(c);
  snprintf(c->label, sizeof c->label, "verdict");
  ck_assert_int_eq(contract_add_class(c, "ok"), ERR_OK);
  ck_assert_int_eq(contract_add_class(c, "scratch"), ERR_OK);
  ck_assert_int_eq(contract_add_class(c, "dent"), ERR_OK);
  ck_assert_int_eq(contract_add_feature(c, "force_N", "N"), ERR_OK);
  ck_assert_int_eq(contract_add_feature(c, "temp_C", NULL), ERR_OK);
  c->holdout = c->validation = 0;
  return c;
}

static inline struct contract *kit_image(uint32_t height, uint32_t width, unsigned n_classes) {
  struct contract *c = contract_new();
  ck_assert_ptr_nonnull(c);
  for (unsigned i = 0; i < n_classes; i++) {
    char name[8];
    snprintf(name, sizeof name, "c%u", i);
    ck_assert_int_eq(contract_add_class(c, name), ERR_OK);
  }
  c->height = height;
  c->width = width;
  c->channels = 1;
  c->holdout = c->validation = 0;
  return c;
}

static inline void kit_check(const struct contract *c) {
  char reason[MAX_REASON_BYTES] = "";
  ck_assert_msg(contract_check(c, reason) == ERR_OK, "%s", reason);
}

/* ---- a toy hash: four multiplicative lanes; the same for any chunking ---- */

static inline void kit_digest_init(struct digest_state *state) {
  memset(state, 0, sizeof *state);
}

static inline void kit_digest_add(struct digest_state *state, const void *bytes, size_t n_bytes) {
  uint64_t lanes[4];
  memcpy(lanes, state->opaque, sizeof lanes);
  for (size_t i = 0; i < n_bytes; i++)
    for (size_t k = 0; k < 4; k++) {
      lanes[k] = (lanes[k] + ((const uint8_t *)bytes)[i] + k + 1) * 0x9e3779b97f4a7c15u;
      lanes[k] ^= lanes[k] >> 29;
    }
  memcpy(state->opaque, lanes, sizeof lanes);
}

static inline void kit_digest_end(struct digest_state *state, struct digest *out_digest) {
  memcpy(out_digest->bytes, state->opaque, DIGEST_BYTES);
}

static const struct digest_fn kit_digest = {.init = kit_digest_init, .add = kit_digest_add, .end = kit_digest_end};

/* ---- memory ---- */

/* Whether the address space is this program's alone: sanitisers and valgrind take their own. */
static inline bool kit_memory_is_ours(void) {
  const char *preload = getenv("LD_PRELOAD");
  return !KIT_SANITISED && (preload == NULL || strstr(preload, "vgpreload") == NULL);
}

/* Runs `body` in a child that may take n_bytes more address space than now, where that can be limited. */
static inline void kit_in_little_memory(size_t n_bytes, void (*body)(void)) {
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    char pages[64] = "";
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fgets(pages, sizeof pages, statm) == NULL)
      _exit(2);
    fclose(statm);
    rlim_t limit = strtoul(pages, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) + n_bytes;
    if (kit_memory_is_ours() && setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) != 0)
      _exit(3);
    body();
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child status %x", (unsigned)status);
}

/* Does something to the scratch files of streamed samples that this process has open; to how many. */
static inline size_t kit_each_scratch(int (*with)(int fd)) {
  size_t n = 0;
  for (int fd = 0; fd < 256; fd++) {
    char entry[32], target[256];
    snprintf(entry, sizeof entry, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(entry, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    if (strstr(target, "/.samples-") != NULL && with(fd) == 0)
      n++;
  }
  return n;
}

static inline int kit_empty(int fd) {
  return ftruncate(fd, 0);
}

static inline int kit_forget(int fd) {
  return fsync(fd) == 0 ? posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) : -1;
}

/* Empties them; takes them out of the page cache, where the file system is on a disk. */
static inline size_t kit_cut_scratch(void) {
  return kit_each_scratch(kit_empty);
}

static inline size_t kit_cool_scratch(void) {
  return kit_each_scratch(kit_forget);
}

#endif
