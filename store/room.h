/* What the sources of this room share behind store.h. */
#ifndef STORE_ROOM_H
#define STORE_ROOM_H

#include "store/database.h"
#include "store/files.h"
#include "store/query.h"
#include "store/store.h"

struct store {
  struct database database;
  struct files files;
  int state_fd, lock_fd; /* −1: not open */
  uint64_t epoch;
  uint32_t keep_last, keep_best;
  bool keeps_few; /* of these the newest only */
  uint64_t max_bytes;
  bool read_only;
  bool poisoned; /* a sync or commit failed: what the disk holds is not known, nothing is written any more */
};

/* One transaction: begin, body, the files that it put are synced, commit; then files that no row names are removed, those of a body that failed included.
 * ERR_READ_ONLY on a reader's handle, ERR_IO for ever after the first ERR_IO. */
MUST_USE enum err room_transaction(struct store *s, enum err (*body)(struct store *s, const void *argument),
                                   const void *argument);

/* The row number of a job: 0 when it has none; room_job_add gives it one. */
MUST_USE enum err room_job_find(struct store *s, const struct digest *job, uint64_t *out_id);
MUST_USE enum err room_job_add(struct store *s, const struct digest *job, uint64_t *out_id);

/* Inside a transaction: stores bytes under their digest, which is reckoned where it is zeros. NULL: no file,
 * zeros. */
MUST_USE enum err room_file_put(struct store *s, const uint8_t *bytes, size_t n_bytes, struct digest *name);

/* Inside a transaction. */
MUST_USE enum err room_event_add(struct store *s, int64_t at_unix_s, const char *name, const char *peer,
                                 const char *text);

/* Inside a transaction: lets go of what a publication puts beyond those that are kept, payloads and half-steps … */
MUST_USE enum err room_keep_publications(struct store *s, uint64_t job);

/* … and of models: what a commitment, an unpinning and another serving pointer run. */
MUST_USE enum err room_keep_models(struct store *s, uint64_t job);

/* Bounds that hold whatever the database says. */
MUST_USE enum err room_commit_judge(const struct store_commitment *c);

/* Bodies of a transaction: struct store_commitment, struct store_publication. */
MUST_USE enum err room_commit(struct store *s, const void *argument);
MUST_USE enum err room_publish(struct store *s, const void *argument);

/* The newest publication's sequence, 0 without one. */
MUST_USE enum err room_last_published(struct store *s, uint64_t job, uint64_t *out_sequence);

/* ERR_NOT_FOUND. */
MUST_USE enum err room_roll_back_last(struct store *s, uint64_t job, struct store_roll_back *out_last);

/* Two parameters, two columns. */
void bind_label(struct query *q, struct round_label label);
struct round_label column_label(struct query *q);

/* ERR_NO_SPACE when so many bytes more would exceed the cap. */
MUST_USE enum err room_admit(struct store *s, uint64_t n_bytes);

/* < 0, 0, > 0 as a is before, equal to, after b. */
int label_compare(struct round_label a, struct round_label b);

/* Zeros when the job has no commitment. */
MUST_USE enum err room_last_committed(struct store *s, uint64_t job, struct round_label *out_label);

/* Zeros when no commitment of the job has dealt with the origin. */
MUST_USE enum err room_position_get(struct store *s, uint64_t job, const uint8_t origin[32], uint64_t *out_boot_epoch,
                                    uint64_t *out_sequence);

/* A label fits the database's signed integers. */
bool label_is_valid(struct round_label label);

#endif
