/* Files that nothing names any more, kept to be written over: a round lets go of as many as it makes, of the same sizes, and
 * what a file costs the kernel (its place on the disk, its pages in memory, and giving both back) is then paid once.
 *
 * A spare stands under the name it had until it is taken; who has it open keeps its bytes, for it is renamed first, so that
 * nobody can open it any more, and a file that somebody still has open is not written over. Sizes must be equal, so that the
 * file's length stays and only its bytes are synced. One writer. */
#ifndef STORE_SPARES_H
#define STORE_SPARES_H

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"

enum {
  MAX_SPARES = 8,
  SPARE_MIN_BYTES = 16 * 1024,       /* a smaller one is made as fast */
  SPARE_MAX_BYTES = 4 * 1024 * 1024, /* a larger one's room on the disk is worth more */
};

struct spare {
  uint64_t n_bytes;
  char name[DIGEST_TEXT_BYTES];
};

struct spares {
  struct spare of[MAX_SPARES]; /* oldest first */
  size_t n;
};

/* A file of the folder becomes a spare, in the place of the oldest one where there are too many, or is removed. 0, or −1 and
 * errno: it stands as it was. */
int spares_put(struct spares *s, int dir_fd, const char *name, uint64_t n_bytes);

/* A spare of that size under the name, opened for writing; −1: there is none. No spare has the name afterwards. */
int spares_take(struct spares *s, int dir_fd, const char *name, uint64_t n_bytes);

uint64_t spares_bytes(const struct spares *s);

/* Removes them all. */
void spares_drop(struct spares *s, int dir_fd);

#endif
