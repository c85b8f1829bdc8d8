#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/run/parts.h"
#include "crypto/digest.h"
#include "crypto/merkle.h"

enum { PIECE_BYTES = 16 * CHUNK_BYTES };

struct copy_call {
  struct agent_call call;
  struct agent_job *job;
  uint64_t sequence;
  int fd; /* own */
  uint64_t offset, n_bytes;
  struct digest root;
};

/* ---- scribe thread ---- */

static enum err read_piece(int fd, uint64_t offset, uint8_t *out, size_t n) {
  for (size_t n_read = 0; n_read < n;) {
    ssize_t got = pread(fd, out + n_read, n - n_read, (off_t)(offset + n_read));
    if (got <= 0)
      return ERR_GONE; /* no failure of the store's: it writes on */
    n_read += (size_t)got;
  }
  return ERR_OK;
}

static enum err run_root(struct store *store, struct scribe_call *call) {
  struct copy_call *c = (struct copy_call *)call;
  (void)store;
  uint8_t *piece = malloc(PIECE_BYTES);
  if (!piece)
    return ERR_NO_MEMORY;
  struct merkle tree;
  merkle_init(&tree, &digest_blake2b);
  enum err e = ERR_OK;
  for (uint64_t at = 0; at < c->n_bytes && e == ERR_OK; at += PIECE_BYTES) {
    size_t n = c->n_bytes - at < PIECE_BYTES ? (size_t)(c->n_bytes - at) : PIECE_BYTES;
    e = read_piece(c->fd, c->offset + at, piece, n);
    if (e == ERR_OK)
      merkle_add(&tree, piece, n);
  }
  if (e == ERR_OK)
    merkle_end(&tree, &c->root);
  free(piece);
  return e;
}

static void drop_root(struct scribe_call *call) {
  struct copy_call *c = (struct copy_call *)call;
  close(c->fd);
  free(c);
}

/* ---- loop thread ---- */

/* Whoever asked for it gets it now; after a failure they ask again, and hear that it is gone. */
static void root_done(struct agent *a, struct agent_call *call, enum err e) {
  struct copy_call *c = (struct copy_call *)call;
  struct agent_job *j = c->job;
  struct publication *p = outbox_find(&j->outbox, c->sequence);
  if (p) {
    p->copy.is_under_way = false;
    p->copy.is_signed = e == ERR_OK;
  }
  if (p && e != ERR_OK)
    publication_drop_copy(p);
  if (p && e == ERR_OK) {
    struct served *s = &p->copy.of;
    s->manifest = manifest_of_copy(&p->update.manifest, &c->root, c->n_bytes);
    manifest_sign(&s->manifest, a->identity);
    manifest_write(&s->manifest, s->bytes);
  }
  for (size_t i = 0; i < a->config->n_peers; i++) {
    if (j->awaited_copies[i] != c->sequence)
      continue;
    j->awaited_copies[i] = 0;
    if (p && e == ERR_OK && !j->is_stopped)
      gossip_offer(a->gossip, i, j->index, p->copy.of.bytes);
  }
}

static void start(struct agent_job *j, struct publication *p) {
  struct copy_call *c = calloc(1, sizeof *c);
  int fd = c ? fcntl(p->copy.of.fd, F_DUPFD_CLOEXEC, 0) : -1;
  if (fd < 0) {
    free(c);
    return;
  }
  *c = (struct copy_call){.call = {.scribe = {run_root, drop_root}, .done = root_done},
                          .job = j,
                          .sequence = p->update.manifest.sequence,
                          .fd = fd,
                          .offset = p->copy.of.offset,
                          .n_bytes = p->copy.n_bytes};
  p->copy.is_under_way = true;
  agent_call(j->agent, &c->call);
}

enum err copies_find(struct agent_job *j, size_t peer, uint64_t round, uint8_t out_bytes[MANIFEST_BYTES]) {
  uint64_t sequence;
  enum err e = outbox_find_full(&j->outbox, round, out_bytes, &sequence);
  if (e != ERR_NOT_YET || sequence == 0)
    return e;
  struct publication *p = outbox_find(&j->outbox, sequence);
  j->awaited_copies[peer] = sequence;
  if (!p->copy.is_under_way)
    start(j, p);
  return ERR_NOT_YET;
}
