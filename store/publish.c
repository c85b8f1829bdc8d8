#include <string.h>

#include "base/must.h"
#include "store/room.h"

/* Bounds that hold whatever the database says. */
static enum err publication_judge(const struct store *s, const struct store_publication *p) {
  MUST(p->manifest != NULL);
  if (p->n_manifest == 0 || p->n_manifest > STORE_MANIFEST_MAX_BYTES)
    return ERR_LIMIT;
  if (!label_is_valid(p->label) || p->sequence == 0 || p->sequence > INT64_MAX || p->boot_epoch != s->epoch)
    return ERR_RANGE;
  return p->copy_offset > p->n_half || p->n_copy > p->n_half - p->copy_offset ? ERR_RANGE : ERR_OK;
}

/* Is the label published in this epoch? ERR_EXISTS when it is, with other bytes: the manifest signs sequence and root. */
static enum err publication_compare(struct store *s, uint64_t job, const struct store_publication *p,
                                    bool *out_is_there) {
  uint8_t manifest[STORE_MANIFEST_MAX_BYTES];
  struct digest stored;
  bool same = false;
  struct query q = query_begin(&s->database, SQL_PUBLICATION_FIND);
  bind_u64(&q, job);
  bind_label(&q, p->label);
  bind_u64(&q, p->boot_epoch);
  bool is_there = query_next(&q);
  if (is_there) {
    same = column_u64(&q) == p->sequence;
    same = column_blob(&q, manifest, sizeof manifest) == p->n_manifest && same;
    bool has_payload = column_digest(&q, &stored);
    same = same && memcmp(manifest, p->manifest, p->n_manifest) == 0 && has_payload == (p->payload != NULL) &&
           (!has_payload || files_is_name(&s->files, &stored, p->payload, p->n_payload));
  }
  enum err e = query_end(&q);
  if (e == ERR_OK && is_there && !same)
    e = ERR_EXISTS;
  if (e == ERR_OK)
    *out_is_there = is_there;
  return e;
}

/* The label comes after the last commitment, the sequence after every one that was ever used. */
static enum err publication_follows(struct store *s, uint64_t job, const struct store_publication *p) {
  struct round_label committed;
  enum err e = room_last_committed(s, job, &committed);
  if (e != ERR_OK)
    return e;
  uint64_t sequence = 0;
  if ((e = room_last_published(s, job, &sequence)) != ERR_OK)
    return e;
  return label_compare(p->label, committed) > 0 && p->sequence > sequence ? ERR_OK : ERR_RANGE;
}

static enum err publication_add(struct store *s, uint64_t job, const struct store_publication *p,
                                const struct digest *payload, const struct digest *half) {
  struct query q = query_begin(&s->database, SQL_PUBLICATION_ADD);
  bind_u64(&q, job);
  bind_u64(&q, p->sequence);
  bind_u64(&q, p->boot_epoch);
  bind_label(&q, p->label);
  bind_blob(&q, p->chain.bytes, DIGEST_BYTES);
  bind_blob(&q, p->manifest, p->n_manifest);
  bind_digest(&q, payload);
  bind_digest(&q, half);
  bind_u64(&q, p->copy_offset);
  bind_u64(&q, p->n_copy);
  bind_f64(&q, p->train_loss);
  bind_f64(&q, p->train_seconds);
  bind_u64(&q, p->n_samples);
  return query_run(&q);
}

enum err room_publish(struct store *s, const void *argument) {
  const struct store_publication *p = argument;
  struct digest payload = p->payload_digest, half = {0};
  uint64_t job;
  bool is_there;
  enum err e;
  if ((e = room_job_add(s, &p->job, &job)) != ERR_OK || (e = publication_compare(s, job, p, &is_there)) != ERR_OK)
    return e;
  if (is_there)
    return ERR_OK;
  if ((e = publication_follows(s, job, p)) != ERR_OK || (e = room_admit(s, p->n_payload + p->n_half)) != ERR_OK)
    return e;
  if ((e = room_file_put(s, p->payload, p->n_payload, &payload)) != ERR_OK ||
      (e = room_file_put(s, p->half, p->n_half, &half)) != ERR_OK ||
      (e = publication_add(s, job, p, &payload, &half)) != ERR_OK)
    return e;
  return room_keep_publications(s, job);
}

enum err store_publish(struct store *s, const struct store_publication *p) {
  enum err e = publication_judge(s, p);
  return e == ERR_OK ? room_transaction(s, room_publish, p) : e;
}

/* The commitment of a round and the publication of the one after it. */
struct turn {
  const struct store_commitment *commitment;
  const struct store_publication *publication;
};

static enum err turn_body(struct store *s, const void *argument) {
  const struct turn *t = argument;
  enum err e = room_commit(s, t->commitment);
  return e == ERR_OK ? room_publish(s, t->publication) : e;
}

enum err store_turn(struct store *s, const struct store_commitment *c, const struct store_publication *p) {
  MUST(c->own_half == NULL);
  const struct turn turn = {c, p};
  enum err e = room_commit_judge(c);
  if (e == ERR_OK)
    e = publication_judge(s, p);
  return e == ERR_OK ? room_transaction(s, turn_body, &turn) : e;
}
