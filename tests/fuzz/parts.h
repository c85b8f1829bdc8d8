/* What several targets need: known identities, masks over honest bytes, a file that lives in memory. */
#ifndef TESTS_FUZZ_PARTS_H
#define TESTS_FUZZ_PARTS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/must.h"
#include "crypto/identity.h"
#include "crypto/random.h"
#include "models/formats/data_file.h"

/* The identity of the seed n, 0, 0 …; to be made once a program: guarded memory is slow to come by. */
static inline struct identity *identity_numbered(uint8_t n) {
  uint8_t seed[IDENTITY_SEED_BYTES] = {n};
  struct identity *id;
  MUST(random_open() == ERR_OK);
  MUST(identity_from_seed(seed, &id) == ERR_OK);
  return id;
}

/* Flips in the n bytes the bits that the rest of the input has set; whether that changed any. */
static inline bool mask_bytes(struct cursor *input, uint8_t *bytes, size_t n) {
  uint8_t changed = 0;
  for (size_t i = 0; i < n && input->left > 0; i++) {
    uint8_t mask = cursor_u8(input);
    bytes[i] ^= mask;
    changed |= mask;
  }
  return changed != 0;
}

struct memory_file {
  int fd;
  char path[40];
};

static inline struct memory_file memory_file_new(const void *bytes, size_t n) {
  struct memory_file f = {.fd = memfd_create("fuzz", MFD_CLOEXEC)};
  MUST(f.fd >= 0 && write(f.fd, bytes, n) == (ssize_t)n);
  snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
  return f;
}

static inline void memory_file_free(struct memory_file *f) {
  close(f->fd);
}

/* A reader of files says what is wrong whenever it refuses one, and only then. */
static inline void memory_file_read(const void *bytes, size_t n,
                                    enum err (*read_all)(const char *path, struct data_place *why)) {
  struct memory_file f = memory_file_new(bytes, n);
  struct data_place why = {0};
  enum err e = read_all(f.path, &why);
  MUST((e == ERR_OK) == (why.sentence[0] == '\0'));
  memory_file_free(&f);
}

#endif
