/* The store: what an agent knows after a power cut.
 *
 * One SQLite database (WAL, synchronous=FULL, nothing else) and one folder of content-addressed files, both in the state
 * directory. Rows name files by their digest; a file is written, synced, renamed into place and its folder synced before
 * the row that names it is committed, and its digest is checked when it is loaded. schema.sql is the schema, `user_version`
 * its version. Floats are opaque bytes here.
 *
 * A round is two transactions: store_publish(r) makes the payload durable before its first byte leaves the host,
 * store_commit(r) makes the merged model the one to start from. Where the next training is brief the second one is made with the
 * publication of the round after it.
 *
 * Thread: the scribe owns the writing handle. A reader (CLI without an agent) opens its own with store_open_read_only.
 * Errors: ERR_NO_SPACE and ERR_READ_ONLY leave everything as it was and may be tried again; ERR_IO (a failed fsync or
 * commit) must end the process: the handle writes nothing any more. ERR_TOO_NEW, ERR_FOREIGN, ERR_LOCKED, ERR_PERMISSION,
 * ERR_UNSUPPORTED only from opening; ERR_CORRUPT from opening and from what reads files or rows. ERR_RANGE for a number
 * that the database cannot hold: rounds and own sequences and epochs are below 2^63. `why` receives one sentence with
 * the path and the remedy, "" when there is nothing to say. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/limits.h"

struct store;

struct store_config {
  const char *state_dir; /* created 0700 when missing */
  uint8_t identity[32];  /* public key; a database of another identity is ERR_FOREIGN */
  const struct digest_fn *digest;
  uint32_t keep_last; /* newest committed snapshots kept, ≥ 1 */
  uint32_t keep_best; /* … and the best ones on the validation split: struct store_model says how they are ordered */
  uint64_t max_bytes; /* a round that would make the state directory larger is refused as by a full disk; 0: no cap */
  uint32_t random;    /* lower half of the new boot epoch: the store has no randomness of its own */
};

/* Takes the lock (who holds it is waited for two seconds, as a verb only has it for a moment), checks the file system (network file systems are refused, overlay and tmpfs set *out_warning), opens or
 * creates and migrates the database, runs an integrity check, raises the boot epoch durably, turns `running` rows into
 * `interrupted` and removes files that no row names. out_warning is "" or one sentence. A missing database beside files
 * that it named is ERR_CORRUPT, not a first start. */
MUST_USE enum err store_open(const struct store_config *config, struct store **out_store,
                             char out_warning[MAX_REASON_BYTES], char out_why[MAX_REASON_BYTES]);

/* Beside a running agent or without one; nothing is locked and no row changes. ERR_UNSUPPORTED when the database is of an
 * older version; on a read-only file system ERR_READ_ONLY when the log holds rounds that the main file lacks. */
MUST_USE enum err store_open_read_only(const char *state_dir, const struct digest_fn *digest, struct store **out_store,
                                       char out_why[MAX_REASON_BYTES]);
void store_close(struct store *s);

/* Whose database it is. ERR_NOT_FOUND: nobody's yet. Either handle. */
MUST_USE enum err store_identity(struct store *s, uint8_t out_identity[32]);

/* (upper half of the stored epoch + 1) << 32 | 32 random bits; differs at every open. */
uint64_t store_boot_epoch(const struct store *s);

/* Proof of a rolled-back store: the upper half becomes above's + 1 (durable); returns the new epoch. ERR_RANGE when above
 * leaves no room. */
MUST_USE enum err store_raise_epoch(struct store *s, uint64_t above, uint64_t *out_epoch);

/* ---- files -------------------------------------------------------------------------------------------------------- */

/* Opens a named file for reading by range (the loop serves payloads from it). The caller closes the descriptor.
 * ERR_NOT_FOUND when it is gone. The contents are not verified here: chunks are, by their receiver. */
MUST_USE enum err store_file_open(const struct store *s, const struct digest *name, int *out_fd, uint64_t *out_n_bytes);

/* Reads the whole file; ERR_CORRUPT: it is gone or not what its name says. */
MUST_USE enum err store_file_check(const struct store *s, const struct digest *name);

/* Loads a whole file of at most max_bytes and checks its digest. ERR_CORRUPT, ERR_LIMIT. Caller frees. */
MUST_USE enum err store_file_load(const struct store *s, const struct digest *name, size_t max_bytes,
                                  uint8_t **out_bytes, size_t *out_n_bytes);

/* ---- rounds ------------------------------------------------------------------------------------------------------- */

enum { STORE_MANIFEST_MAX_BYTES = 1024 };

/* Label of a round: committed number and local sub-rounds since. */
struct round_label {
  uint64_t round;
  uint32_t sub;
};

static inline bool round_label_equal(struct round_label a, struct round_label b) {
  return a.round == b.round && a.sub == b.sub;
}

enum { ROUND_LABEL_BYTES = 40 };

/* "418", or "418+2" for the second local sub-round after it. */
static inline void round_label_write(struct round_label label, char out_text[ROUND_LABEL_BYTES]) {
  int n = snprintf(out_text, ROUND_LABEL_BYTES, "%" PRIu64, label.round);
  if (label.sub > 0)
    snprintf(out_text + n, ROUND_LABEL_BYTES - (size_t)n, "+%" PRIu32, label.sub);
}

enum { STORE_NOTE_BYTES = 161 /* a note of people, with the final NUL; longer is ERR_LIMIT */ };

/* Going back to a model that was kept; store_roll_back does it. */
struct store_roll_back {
  struct round_label label; /* of the commitment that it made */
  struct round_label to;
  int64_t at_unix_s;
  char note[STORE_NOTE_BYTES];
};

/* What store_publish makes durable. Bytes are borrowed for the call. */
struct store_publication {
  struct digest job;
  struct round_label label;
  uint64_t boot_epoch, sequence;
  struct digest chain;     /* c(s) after this payload */
  const uint8_t *manifest; /* signed bytes */
  size_t n_manifest;
  const uint8_t *payload; /* NULL for kind none */
  size_t n_payload;
  struct digest
      payload_digest;  /* of the payload by the store's digest, for who has it already; zeros: it is reckoned */
  const uint8_t *half; /* snapshot after training; NULL for kind none */
  size_t n_half;
  uint64_t copy_offset; /* where x̂ stands in the half … */
  uint64_t n_copy;      /* … and its length; 0: no copy is served, for the payload is full, or there is none */
  double train_loss;    /* NaN, NaN and 0 where no training succeeded */
  double train_seconds;
  uint32_t n_samples;
};

/* ERR_EXISTS when the label was published in this boot epoch with other bytes; the same bytes again change nothing.
 * ERR_RANGE when the label is not after the last committed one, the sequence not above every one used before, the boot
 * epoch not the present one, or x̂ not inside the half. */
MUST_USE enum err store_publish(struct store *s, const struct store_publication *p);

enum round_outcome {
  ROUND_MERGED,
  ROUND_SHORT,
  ROUND_JUMPED,
  ROUND_MERGE_REFUSED,
  ROUND_ADOPTED,
  ROUND_ROLLED_BACK /* written by store_roll_back alone */
};

/* One row a peer a round: took part or why not. */
struct store_contribution {
  uint8_t origin[32];
  char name[MAX_NAME_BYTES];
  enum err reason; /* ERR_OK = merged */
  uint8_t fate;    /* what the rule of the merge made of it: 0 kept, 1 clipped, 2 left out */
  uint32_t lag;
  double weight;
  uint64_t boot_epoch, sequence; /* position of its copy after the merge */
  uint64_t n_bytes;              /* received for this round */
  int64_t arrival_ms;            /* after our own payload was durable; −1 = did not arrive */
};

/* Of the merged model on each task of a job that has tasks (models/continual/tasks.h); reading a round leaves it out. */
enum { STORE_MAX_TASKS = 64 };
struct store_tasks {
  uint32_t n;                       /* 0: there are none, and nothing below counts */
  uint32_t position, trained;       /* place in this site's order, and the task that stands there */
  double accuracy[STORE_MAX_TASKS]; /* [n] NaN: not measured */
};

/* Of the merged model on this site's test split, on the common test set, on this site's validation split. */
struct store_metrics {
  bool has_local, has_global, has_validation;
  double local_loss, local_headline; /* headline: accuracy, R² or AUC */
  double global_loss, global_headline;
  double validation_loss, validation_headline;
  double local_macro_f1, global_macro_f1;
  double local_balanced, global_balanced; /* balanced accuracy */
};

struct store_commitment {
  struct digest job;
  struct round_label label;
  enum round_outcome outcome;
  const uint8_t *model; /* merged model bytes */
  size_t n_model;
  const uint8_t *own_half; /* whole snapshot of a jump or adoption; NULL refers to the newest half for what merging … */
  size_t n_own_half;       /* … does not change */
  const uint8_t *shadow;   /* the model that is trained alone; NULL: none */
  size_t n_shadow;
  double shadow_headline; /* on this site's test split */
  double shadow_seconds;  /* that its training took */
  struct store_metrics metrics;
  struct store_tasks tasks;
  const struct store_contribution *contributions;
  size_t n_contributions;
  uint64_t sent_bytes, received_bytes; /* on the wire since the last commit */
  double seconds;                      /* the round, from the start of training */
};

/* Lets go of the models that no rule keeps: kept are the newest, the best, the pinned, the one that is served as pinned.
 * Merges the newest publication, unless jumped or adopted. The label comes after the last committed one; it need not be the
 * publication's (419 becomes 418+1 where too few peers contributed). ERR_NOT_FOUND when none waits. The same label again
 * with the same model changes nothing; with another it is ERR_EXISTS; before the last committed one it is ERR_RANGE. */
MUST_USE enum err store_commit(struct store *s, const struct store_commitment *c);

/* A commitment without a half of its own, and the publication of the round after it: both or none. */
MUST_USE enum err store_turn(struct store *s, const struct store_commitment *c, const struct store_publication *p);

/* Where to start (restart table): nothing, after COMMIT(label), or in GATHERING(label) with the stored half-step. A
 * publication of kind none has no half-step: its round is trained again and published under the next sequence, so that
 * sequence and chain hold also with RESUME_FRESH. */
enum resume_at { RESUME_FRESH, RESUME_COMMITTED, RESUME_PUBLISHED };

struct store_resume {
  enum resume_at at;
  struct round_label committed; /* last committed label, zeros when none */
  uint32_t n_short;             /* commitments since its number that too few peers took part in; roll-backs are none */
  struct round_label published; /* with RESUME_PUBLISHED */
  uint64_t sequence;            /* highest own sequence ever published in this job, 0 = none */
  uint64_t sequence_epoch;      /* its boot epoch */
  struct digest chain;          /* c(sequence) of the newest payload; zeros: none, or forgotten: start a new chain */
  struct digest half, model;    /* files to load, zeros when none; no model with RESUME_PUBLISHED */
  struct digest shadow;         /* of the newest commitment, zeros when none; not checked here */
  bool has_roll_back;           /* ever: the last one */
  struct store_roll_back roll_back;
  bool fell_back; /* the newest snapshot was damaged, an older one is used: start a new chain */
};

/* Checks the digests of the files it names. When the newest snapshot is damaged it falls back to the one before, writes
 * the event snapshot-damaged and forgets what was newer, so that those rounds can be learnt again (a reader only looks).
 * ERR_CORRUPT with a sentence when none is whole. */
MUST_USE enum err store_resume(struct store *s, const struct digest *job, struct store_resume *out_resume,
                               char out_why[MAX_REASON_BYTES]);

/* The newest KEEP_PAYLOADS own publications, newest first: what the outbox serves after a restart. */
struct store_outbox_entry {
  uint64_t boot_epoch, sequence;
  struct round_label label;
  struct digest chain;
  uint8_t manifest[STORE_MANIFEST_MAX_BYTES];
  size_t n_manifest;
  bool has_payload;      /* false: kind none, or lost */
  struct digest payload; /* file */
  bool has_copy;
  struct digest half;
  uint64_t copy_offset, n_copy;
};

MUST_USE enum err store_outbox(struct store *s, const struct digest *job, struct store_outbox_entry *out_entries,
                               size_t capacity, size_t *out_n);

/* Newest merged (boot epoch, sequence) of an origin: what is a duplicate after a restart. Zeros when none. */
MUST_USE enum err store_position(struct store *s, const struct digest *job, const uint8_t origin[32],
                                 uint64_t *out_boot_epoch, uint64_t *out_sequence);

/* ---- events ------------------------------------------------------------------------------------------------------- */

enum { STORE_EVENT_TEXT_BYTES = 512 };

struct store_event_row {
  uint64_t id; /* rises by one from row to row, never used twice: where a reader goes on */
  int64_t at_unix_s;
  char name[MAX_NAME_BYTES], peer[MAX_NAME_BYTES];
  char text[STORE_EVENT_TEXT_BYTES]; /* cut where it is longer */
};

/* Events after an id (0: from the oldest that is kept) in order. Either handle. */
MUST_USE enum err store_events(struct store *s, uint64_t after_id, struct store_event_row *out_rows, size_t capacity,
                               size_t *out_n);

/* The newest id, 0 when there was none yet: store_events after it gives what happens from now on. Either handle. */
MUST_USE enum err store_event_last(struct store *s, uint64_t *out_id);

/* Kept as a ring of the last 10 000. `name` is stable (WORDS-WITH-DASHES), `text` a sentence. */
MUST_USE enum err store_event(struct store *s, int64_t at_unix_s, const char *name, const char *peer, const char *text);

/* ---- room --------------------------------------------------------------------------------------------------------- */

struct store_room {
  uint64_t free_bytes; /* of the file system, for this user */
  uint64_t used_bytes; /* by the files of the state directory */
};

MUST_USE enum err store_measure(const struct store *s, struct store_room *out_room);

/* Keeps as little as a restart needs while the disk is nearly full: the newest snapshot, and what is pinned. What is let go
 * is let go at once. With `few` false the next rounds are kept again as the configuration says. */
MUST_USE enum err store_keep_few(struct store *s, bool few);

/* ---- reading (either handle) -------------------------------------------------------------------------------------- */

/* A number that was not there (the training of a jumped round, the time of an uncommitted one) or was not a number is
 * NaN here; an evaluation whose loss is not a number is not there at all (has_… false, zeros). */
struct store_round {
  struct round_label label;
  bool committed;   /* false: published, still gathering, or interrupted */
  bool interrupted; /* the agent ended between publication and commitment */
  enum round_outcome outcome;
  int64_t committed_unix_s;
  double train_loss, train_seconds, seconds;
  uint32_t n_samples;
  struct store_metrics metrics;
  uint32_t n_merged, n_expected;
  uint64_t sent_bytes, received_bytes;
  struct digest model;  /* file, zeros: no longer kept */
  struct digest shadow; /* file, zeros: none, or no longer kept */
  double shadow_headline, shadow_seconds;
  uint64_t sequence;
};

/* Rounds in ascending order: the last `capacity` of the job when from_round is 0, else from that round on. */
MUST_USE enum err store_rounds(struct store *s, const struct digest *job, uint64_t from_round,
                               struct store_round *out_rounds, size_t capacity, size_t *out_n);

/* The round of a label and who took part in it, in key order (out_peers may be NULL with capacity 0). ERR_NOT_FOUND. */
MUST_USE enum err store_round_find(struct store *s, const struct digest *job, struct round_label label,
                                   struct store_round *out_round, struct store_contribution *out_peers, size_t capacity,
                                   size_t *out_n_peers);

/* R of continual learning: of each position in this site's order that was trained the newest commitment. */
struct store_matrix {
  uint32_t n_times, n_tasks;
  struct {
    uint32_t trained; /* which task */
    struct round_label label;
    double accuracy[STORE_MAX_TASKS]; /* [n_tasks] NaN: not measured */
  } times[STORE_MAX_TASKS];
};

/* ERR_NOT_FOUND: none was measured. Either handle. */
MUST_USE enum err store_task_matrix(struct store *s, const struct digest *job, struct store_matrix *out_matrix);

/* Jobs with at least one row, so that the CLI can name the only one. */
MUST_USE enum err store_jobs(struct store *s, struct digest *out_jobs, size_t capacity, size_t *out_n);

/* ---- models that are kept, served, taken back ---------------------------------------------------------------------
 * A *model* here is a commitment whose snapshot is still kept. Changing calls need the writing handle, say whether they
 * changed anything, and change nothing when it is so already. */

struct store_model {
  struct round_label label;
  double
      mean; /* of the validation headline over this and the two commitments before it: the higher the better; NaN where
                  one of the three was not measured, such a model is never among the best */
  bool pinned;
  int64_t pinned_unix_s;
  char note[STORE_NOTE_BYTES];
};

/* Newest first. */
MUST_USE enum err store_models(struct store *s, const struct digest *job, struct store_model *out_models,
                               size_t capacity, size_t *out_n);

/* The files of a model. ERR_NOT_FOUND: no such model is kept. Either handle. */
MUST_USE enum err store_model_files(struct store *s, const struct digest *job, struct round_label label,
                                    struct digest *out_model, struct digest *out_half);

enum { STORE_MAX_PINS = 256 };

/* ERR_NOT_FOUND: no such model is kept. ERR_LIMIT: STORE_MAX_PINS are pinned. Unpinning lets go of the model at once where no
 * other rule keeps it, and is nothing to do for one that is not pinned. */
MUST_USE enum err store_pin(struct store *s, const struct digest *job, struct round_label label, const char *note,
                            int64_t at_unix_s, bool *out_changed);
MUST_USE enum err store_unpin(struct store *s, const struct digest *job, struct round_label label, bool *out_changed);

enum serving_mode { SERVE_BEST, SERVE_LATEST, SERVE_PINNED };

/* "best", "latest", "pinned". */
const char *serving_mode_name(enum serving_mode mode);
MUST_USE enum err serving_mode_find(const char *name, enum serving_mode *out_mode);

/* From now on this mode, whatever the configuration says; with SERVE_PINNED this model (ERR_NOT_FOUND when it is not
 * kept), which is then kept. */
MUST_USE enum err store_serve(struct store *s, const struct digest *job, enum serving_mode mode,
                              struct round_label label, int64_t at_unix_s, bool *out_changed);

struct store_serving {
  enum serving_mode asked; /* by the last store_serve, else by the configuration */
  bool by_command;         /* the former */
  enum serving_mode mode;  /* LATEST where best has no model with three figures, or nothing is pinned */
  struct round_label label;
};

/* What is served now. SERVE_PINNED of the configuration is the newest pinned model. ERR_NOT_FOUND without any model. */
MUST_USE enum err store_serving(struct store *s, const struct digest *job, enum serving_mode configured,
                                struct store_serving *out_serving);

/* Makes a kept model the one to start from: a commitment `rolled-back` with its model, its half and its figures
 * (the model that is trained alone stays where it is), under the
 * number of the last commitment and the next sub (380 after 418 is 418+1), with the event model-rolled-back. The chain is
 * forgotten, so that the next payload starts one. Changes nothing where the newest commitment is that model already.
 * ERR_NOT_FOUND: not kept. out_done is what the newest commitment is then, whether changed or not. */
MUST_USE enum err store_roll_back(struct store *s, const struct digest *job, struct round_label to, const char *note,
                                  int64_t at_unix_s, struct store_roll_back *out_done, bool *out_changed);

/* How many trainings of this site a commitment has behind it: those that a roll-back took out, or that a store which was put
 * back does not know of, do not count. ERR_NOT_FOUND: no such commitment. Either handle. */
MUST_USE enum err store_trainings(struct store *s, const struct digest *job, struct round_label label, uint64_t *out_n);

/* The newest one, ERR_NOT_FOUND when there was none. Either handle. */
MUST_USE enum err store_roll_back_last(struct store *s, const struct digest *job, struct store_roll_back *out_last);

/* ---- job files ---------------------------------------------------------------------------------------------------- */

enum { STORE_JOB_TEXT_MAX_BYTES = 60 * 1024, STORE_MAX_JOB_FILES = 64 };
enum job_file_state { JOB_FILE_PROPOSED, JOB_FILE_ACCEPTED, JOB_FILE_STOPPED };

struct store_job_file {
  struct digest digest; /* of the job: one file is known of each */
  char name[MAX_NAME_BYTES];
  uint32_t version;
  uint8_t proposer[32], signature[64];
  enum job_file_state state;
  int64_t at_unix_s; /* when it came in */
  char *text;        /* heap; store_job_files_free */
};

/* Adds one, text borrowed; the same again changes nothing, its state included. ERR_EXISTS: other contents under that digest.
 * ERR_LIMIT: the text is too long, or STORE_MAX_JOB_FILES are stored. */
MUST_USE enum err store_job_file_put(struct store *s, const struct store_job_file *file, bool *out_changed);

/* ERR_NOT_FOUND. */
MUST_USE enum err store_job_file_set_state(struct store *s, const struct digest *digest, enum job_file_state state,
                                           bool *out_changed);

/* By name and version. */
MUST_USE enum err store_job_file_list(struct store *s, struct store_job_file *out_files, size_t capacity,
                                      size_t *out_n);
void store_job_files_free(struct store_job_file *files, size_t n);

/* Which version of the job of this name serves; 0: nobody has said. */
MUST_USE enum err store_serving_job(struct store *s, const char *name, uint32_t *out_version);
MUST_USE enum err store_serve_job(struct store *s, const char *name, uint32_t version, int64_t at_unix_s,
                                  bool *out_changed);

#endif
