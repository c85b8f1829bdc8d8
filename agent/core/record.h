/* What a round machine is told and what it does about it, as records: the words of recorder.h and replay.h.
 *
 * A record, little-endian: length of the body u32 · kind u8 · detail u8 (the kind of a job, or 0) · peer u16 (0xffff: none) · time u64,
 * milliseconds of the agent's monotonic clock · body. First comes a checkpoint (round_state.h; detail 1: nothing is missing before
 * it), then inputs, each followed by the outputs that it made. Bodies hold no sample, no weight and no secret: of a payload or a
 * snapshot the length. Pure; any thread. */
#ifndef AGENT_CORE_RECORD_H
#define AGENT_CORE_RECORD_H

#include "agent/core/round.h"
#include "base/bytes.h"

enum { RECORD_HEAD_BYTES = 16, RECORD_NO_PEER = 0xffff };

/* Of a file of them: a line that names the version. */
#define RECORD_MAGIC "starling-agent-trace 3\n"
enum { N_RECORD_MAGIC = sizeof RECORD_MAGIC - 1, N_RECORD_MAGIC_NAME = N_RECORD_MAGIC - 2 /* without the version */ };

/* symbol, word. Inputs stand in the order of enum round_input_kind. */
#define RECORD_INPUTS(X)                                                                                               \
  X(START, "start")                                                                                                    \
  X(SESSION, "session")                                                                                                \
  X(HELLO, "hello")                                                                                                    \
  X(REFUSED_JOB, "refused-job")                                                                                        \
  X(STATE, "state")                                                                                                    \
  X(MANIFEST, "manifest")                                                                                              \
  X(PAYLOAD, "payload")                                                                                                \
  X(FAILED, "failed")                                                                                                  \
  X(AFFINITY, "affinity")                                                                                              \
  X(DONE, "done")                                                                                                      \
  X(TRAINED, "trained")                                                                                                \
  X(WRITTEN, "written")                                                                                                \
  X(EPOCH_RISES, "epoch-rises")                                                                                        \
  X(EPOCH_ROSE, "epoch-rose")                                                                                          \
  X(ROLL_BACK, "roll-back")                                                                                            \
  X(IMPORT, "import")                                                                                                  \
  X(TIGHT, "tight")                                                                                                    \
  X(TRAFFIC, "traffic")                                                                                                \
  X(RELEASE, "release")                                                                                                \
  X(TICK, "tick")

#define RECORD_OUTPUTS(X)                                                                                              \
  X(ASK, "asks")                                                                                                       \
  X(FETCH, "fetches")                                                                                                  \
  X(CANCEL, "cancels")                                                                                                 \
  X(TRAIN, "puts to the trainer")                                                                                      \
  X(WRITE, "puts to the scribe")                                                                                       \
  X(SIGN, "signs")                                                                                                     \
  X(OFFER, "offers")                                                                                                   \
  X(CHANGED, "tells its state")                                                                                        \
  X(TELL_DONE, "tells what became of an update")                                                                       \
  X(COUNT, "counts")                                                                                                   \
  X(NOTE, "notes")

enum record_kind {
#define X(symbol, word) RECORD_##symbol,
  RECORD_INPUTS(X) RECORD_OUTPUTS(X)
#undef X
      RECORD_CHECKPOINT,
  N_RECORD_KINDS,
  FIRST_OUTPUT = RECORD_ASK
};

const char *record_kind_name(enum record_kind kind);

struct record_head {
  uint32_t n_body;
  enum record_kind kind;
  uint8_t detail;
  uint16_t peer;
  uint64_t at_ms;
};

void record_head_write(const struct record_head *h, struct writer *w);
/* A kind that there is not makes the cursor fail. */
void record_head_read(struct cursor *c, struct record_head *out_head);

/* An output: whatever of it the kind has. */
struct round_output {
  enum record_kind kind;
  size_t peer; /* SIZE_MAX: none */
  uint8_t detail;
  enum err reason;
  uint64_t first, n;
  const char *name, *text;         /* NOTE */
  const uint8_t *manifest;         /* FETCH, SIGN, OFFER: its bytes */
  const struct trainer_job *train; /* TRAIN */
  const struct scribe_job *write;  /* WRITE */
};

/* Head and body at the writer's place; the writer fails where they do not fit. */
void record_write_input(const struct round_input *in, struct writer *w);
void record_write_output(const struct round_output *out, uint64_t at_ms, struct writer *w);

/* ---- the bodies of inputs, read ---- */

struct record_input {
  bool flag;
  enum err reason;
  uint64_t first, second;
  struct round_label label;
  struct store_resume resume; /* START; first and second are lengths of half and model */
  struct position positions[MAX_PEERS];
  struct hello_job hello;        /* HELLO; flag: with the proof below */
  struct wire_state state;       /* STATE */
  struct manifest manifest;      /* HELLO, MANIFEST, PAYLOAD */
  struct trainer_result trained; /* TRAINED: lengths without bytes, peers below */
  struct merge_peer outcomes[MAX_PEERS];
  size_t n_outcomes;
  struct scribe_result written; /* WRITTEN */
  char text[MAX_PATH_BYTES];    /* ROLL_BACK, IMPORT */
};

/* The whole body, for a machine with n_peers; ERR_SYNTAX. */
MUST_USE enum err record_read_input(const struct record_head *h, struct cursor *body, size_t n_peers,
                                    struct record_input *out_input);

/* "merge 418 of round …": what a record is about, for people. */
void record_text(const struct record_head *h, const uint8_t *body, char out_text[MAX_REASON_BYTES]);

#endif
