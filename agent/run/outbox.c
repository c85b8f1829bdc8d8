#include "agent/run/outbox.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"

enum { KEEP_COPIES = 2 /* the newest, and the one that somebody may still be fetching */ };

static void served_close(struct served *s) {
  if (s->fd >= 0)
    close(s->fd);
  s->fd = -1;
}

static void publication_init(struct publication *p) {
  memset(p, 0, sizeof *p);
  p->update.fd = p->copy.of.fd = -1;
}

static void publication_close(struct publication *p) {
  served_close(&p->update);
  served_close(&p->copy.of);
}

void publication_drop_copy(struct publication *p) {
  served_close(&p->copy.of);
}

void outbox_init(struct outbox *o) {
  o->n_entries = 0;
  publication_init(&o->pending);
}

void outbox_done(struct outbox *o) {
  for (size_t i = 0; i < o->n_entries; i++)
    publication_close(&o->entries[i]);
  o->n_entries = 0;
}

static void outbox_add(struct outbox *o, const struct publication *p) {
  if (o->n_entries == KEEP_PAYLOADS) {
    publication_close(&o->entries[0]);
    memmove(o->entries, o->entries + 1, (KEEP_PAYLOADS - 1) * sizeof *o->entries);
    o->n_entries--;
  }
  o->entries[o->n_entries++] = *p;
  if (o->n_entries > KEEP_COPIES)
    served_close(&o->entries[o->n_entries - KEEP_COPIES - 1].copy.of);
}

/* Own manifests come from our own store or hand; one that does not read is our bug or a damaged row. */
static enum err served_set(struct served *s, const uint8_t *bytes, size_t n) {
  if (n != MANIFEST_BYTES)
    return ERR_CORRUPT;
  memcpy(s->bytes, bytes, n);
  return manifest_read(s->bytes, n, &s->manifest) == ERR_OK ? ERR_OK : ERR_CORRUPT;
}

static enum err entry_load(struct store *store, const struct store_outbox_entry *e, struct publication *out) {
  publication_init(out);
  uint64_t n_bytes;
  enum err err = served_set(&out->update, e->manifest, e->n_manifest);
  if (err != ERR_OK)
    return err;
  if (e->has_payload && store_file_open(store, &e->payload, &out->update.fd, &n_bytes) != ERR_OK)
    out->update.fd = -1;
  if (!e->has_copy || out->update.manifest.kind != MANIFEST_DIFFERENCE)
    return ERR_OK;
  /* Its root is reckoned and signed when a peer asks: what was damaged must not get one. */
  if (store_file_check(store, &e->half) != ERR_OK ||
      store_file_open(store, &e->half, &out->copy.of.fd, &n_bytes) != ERR_OK)
    out->copy.of.fd = -1;
  out->copy.of.offset = e->copy_offset;
  out->copy.n_bytes = e->n_copy;
  return ERR_OK;
}

enum err outbox_load(struct outbox *o, struct store *store, const struct digest *job) {
  struct store_outbox_entry *rows = calloc(KEEP_PAYLOADS, sizeof *rows);
  size_t n = 0;
  enum err e = rows ? store_outbox(store, job, rows, KEEP_PAYLOADS, &n) : ERR_NO_MEMORY;
  for (size_t i = n; e == ERR_OK && i > 0; i--) { /* newest first there, oldest first here */
    struct publication p;
    e = entry_load(store, &rows[i - 1], &p);
    if (e == ERR_OK)
      outbox_add(o, &p);
    else
      publication_close(&p);
  }
  free(rows);
  return e;
}

void outbox_prepare(struct outbox *o, const struct scribe_job *job) {
  publication_init(&o->pending);
  MUST(served_set(&o->pending.update, job->manifest, MANIFEST_BYTES) == ERR_OK);
  o->pending.copy.of.offset = job->publication.copy_offset;
  o->pending.copy.n_bytes = job->publication.n_copy;
}

void outbox_publish(struct outbox *o, struct scribe_result *result) {
  o->pending.update.fd = result->payload_fd;
  o->pending.copy.of.fd = result->copy_fd;
  result->payload_fd = result->copy_fd = -1; /* now the outbox's */
  outbox_add(o, &o->pending);
  publication_init(&o->pending);
}

void outbox_shrink(struct outbox *o) {
  for (size_t k = 0; k + 1 < o->n_entries; k++)
    served_close(&o->entries[k].copy.of);
}

/* What serves as the full copy of a publication: a chain start is one itself, and so is a sum. */
static const struct served *full_copy(const struct publication *p) {
  const struct served *s = p->update.manifest.kind != MANIFEST_DIFFERENCE && p->update.manifest.kind != MANIFEST_NONE
                               ? &p->update
                               : &p->copy.of;
  return s->fd >= 0 ? s : NULL;
}

static enum err find_link(const struct outbox *o, uint64_t first, size_t i, const struct served **out) {
  if (o->n_entries == 0 || first > o->entries[o->n_entries - 1].update.manifest.sequence)
    return i == 0 ? ERR_NOT_YET : ERR_NOT_FOUND;
  if (first < o->entries[0].update.manifest.sequence)
    return ERR_GONE;
  for (size_t k = 0; k < o->n_entries; k++) {
    const struct served *s = &o->entries[k].update;
    if (s->manifest.sequence < first || i-- > 0)
      continue;
    *out = s;
    return s->fd >= 0 || s->manifest.kind == MANIFEST_NONE ? ERR_OK : ERR_GONE;
  }
  return ERR_NOT_FOUND;
}

enum err outbox_find_link(const struct outbox *o, uint64_t first, size_t i, uint8_t out_bytes[MANIFEST_BYTES]) {
  const struct served *found = NULL;
  enum err e = find_link(o, first, i, &found);
  if (e == ERR_OK)
    memcpy(out_bytes, found->bytes, MANIFEST_BYTES);
  return e;
}

enum err outbox_find_full(const struct outbox *o, uint64_t round, uint8_t out_bytes[MANIFEST_BYTES],
                          uint64_t *out_sequence) {
  const struct publication *newest = NULL, *fit = NULL;
  *out_sequence = 0;
  for (size_t k = o->n_entries; k > 0 && fit == NULL; k--) {
    const struct publication *p = &o->entries[k - 1];
    if (full_copy(p) == NULL)
      continue;
    newest = newest == NULL ? p : newest;
    fit = p->update.manifest.round <= round ? p : NULL;
  }
  if (newest == NULL)
    return o->n_entries == 0 ? ERR_NOT_YET : ERR_GONE;
  const struct publication *best = fit != NULL ? fit : newest;
  if (full_copy(best) == &best->copy.of && !best->copy.is_signed) {
    *out_sequence = best->update.manifest.sequence;
    return ERR_NOT_YET;
  }
  memcpy(out_bytes, full_copy(best)->bytes, MANIFEST_BYTES);
  return ERR_OK;
}

struct publication *outbox_find(struct outbox *o, uint64_t sequence) {
  for (size_t k = 0; k < o->n_entries; k++)
    if (o->entries[k].update.manifest.sequence == sequence)
      return &o->entries[k];
  return NULL;
}

static const struct served *find_root(const struct outbox *o, const struct digest *root) {
  for (size_t k = o->n_entries; k > 0; k--) {
    const struct publication *p = &o->entries[k - 1];
    const struct served *both[] = {&p->update, p->copy.is_signed ? &p->copy.of : NULL};
    for (size_t i = 0; i < 2; i++)
      if (both[i] != NULL && both[i]->fd >= 0 && digest_equal(&both[i]->manifest.payload_root, root))
        return both[i];
  }
  return NULL;
}

enum err outbox_read(const struct outbox *o, const struct digest *root, uint64_t offset, uint8_t *out, size_t n) {
  const struct served *s = find_root(o, root);
  if (!s)
    return ERR_GONE;
  if (offset > s->manifest.n_payload || n > s->manifest.n_payload - offset)
    return ERR_RANGE;
  size_t n_read = 0;
  while (n_read < n) {
    ssize_t got = pread(s->fd, out + n_read, n - n_read, (off_t)(s->offset + offset + n_read));
    if (got <= 0)
      return ERR_GONE;
    n_read += (size_t)got;
  }
  return ERR_OK;
}
