/* The one list of errors.
 *
 * Every fallible function of every room returns `enum err`; 0 is ERR_OK. The second list holds the reasons for which
 * something that another party sent is dropped or a peer is shown as not taking part: they stand last and without gaps,
 * so `err_drop_index` is the index of their counter in `status`, `peer list` and the rounds table. A name is stable:
 * scripts, JSON and database rows use it. So is the place in the second list: it is the reason's code on the wire, and new
 * reasons are appended. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define MUST_USE __attribute__((warn_unused_result))

/*  symbol, stable name, sentence */
#define ERR_LIST_FAULTS(X)                                                                                             \
  X(OK, "ok", "no error")                                                                                              \
  X(NO_MEMORY, "no-memory", "not enough memory")                                                                       \
  X(IO, "io", "input or output failed")                                                                                \
  X(NO_SPACE, "no-space", "no space left on the device")                                                               \
  X(READ_ONLY, "read-only", "the file system is read-only")                                                            \
  X(NOT_FOUND, "not-found", "it does not exist")                                                                       \
  X(EXISTS, "exists", "it exists already")                                                                             \
  X(PERMISSION, "permission", "access is not allowed")                                                                 \
  X(SYNTAX, "syntax", "it is not well-formed")                                                                         \
  X(RANGE, "range", "a value is out of range")                                                                         \
  X(LIMIT, "limit", "a limit of this version is exceeded")                                                             \
  X(TRUNCATED, "truncated", "it ends too early")                                                                       \
  X(TRAILING, "trailing", "there are bytes after the end")                                                             \
  X(CORRUPT, "corrupt", "its contents do not match their hash or structure")                                           \
  X(TOO_NEW, "too-new", "it was written by a newer version")                                                           \
  X(FOREIGN, "foreign", "it belongs to another identity or job")                                                       \
  X(LOCKED, "locked", "another agent is using it")                                                                     \
  X(BUSY, "busy", "it is in use, try again")                                                                           \
  X(UNSUPPORTED, "unsupported", "this version cannot do that")                                                         \
  X(NOT_CONNECTED, "not-connected", "there is no connection")                                                          \
  X(TIMED_OUT, "timed-out", "it took too long")                                                                        \
  X(PASSPHRASE, "passphrase", "the passphrase is missing or wrong")                                                    \
  X(STOPPED, "stopped", "it was asked to stop")

#define ERR_LIST_DROPS(X)                                                                                              \
  X(NO_SESSION, "no-session", "no authenticated session stands")                                                       \
  X(UNREACHABLE, "unreachable", "no connection to its address could be made")                                          \
  X(NO_ANSWER, "no-answer", "connected, no session: its key differs from the config or it does not know ours")         \
  X(UNKNOWN_KEY, "unknown-key", "the key is not in the config")                                                        \
  X(VERSION, "version", "no common protocol version")                                                                  \
  X(SWARM, "swarm", "it belongs to another swarm")                                                                     \
  X(JOB, "job", "it does not run this job")                                                                            \
  X(SCHEMA, "schema", "its model has another schema")                                                                  \
  X(CONTRACT, "contract", "its data contract differs")                                                                 \
  X(REFUSED, "refused", "it refuses us")                                                                               \
  X(ABSENT, "absent", "two rounds missed without a session")                                                           \
  X(SLOW, "slow", "three rounds missed in a row with a session")                                                       \
  X(PAUSED, "paused", "it is paused")                                                                                  \
  X(FINISHED, "finished", "it has finished its rounds")                                                                \
  X(QUARANTINED, "quarantined", "three broken payloads in a row, or two under one sequence number")                    \
  X(NOT_FOLLOWING, "not-following", "it does not follow us")                                                           \
  X(LATE, "late", "nothing usable arrived before the deadline")                                                        \
  X(STALE, "stale", "its contribution is too old")                                                                     \
  X(NO_UPDATE, "no-update", "it published no update for this round")                                                   \
  X(NOT_YET, "not-yet", "it has not been published yet")                                                               \
  X(GONE, "gone", "it is no longer kept")                                                                              \
  X(FRAME, "frame", "a frame has the wrong size, magic, type or flags")                                                \
  X(MAC, "mac", "the handshake pre-check failed")                                                                      \
  X(HANDSHAKE, "handshake", "the handshake did not verify")                                                            \
  X(SEAL, "seal", "a frame did not authenticate")                                                                      \
  X(REPLAY, "replay", "a frame or manifest was seen before")                                                           \
  X(KEY_EXPIRED, "key-expired", "the session keys are too old")                                                        \
  X(MESSAGE, "message", "a message is malformed")                                                                      \
  X(SIGNATURE, "signature", "the signature does not verify")                                                           \
  X(ORIGIN, "origin", "the manifest is not its sender's own")                                                          \
  X(EQUIVOCATION, "equivocation", "two payloads were published under one sequence number")                             \
  X(FALSE_HISTORY, "false-history", "it claims updates of ours that we did not sign")                                  \
  X(LENGTH, "length", "the declared length does not fit the schema and encoding")                                      \
  X(ENCODING, "encoding", "the encoding is unknown or the payload breaks its form")                                    \
  X(ROOT, "root", "the payload does not match its Merkle root")                                                        \
  X(CHAIN, "chain", "a link of the chain of differences is missing")                                                   \
  X(NON_FINITE, "non-finite", "a value is not finite")                                                                 \
  X(ZERO_SAMPLES, "zero-samples", "the sample count is zero")                                                          \
  X(ABSURD_SAMPLES, "absurd-samples", "the sample count is not believable")                                            \
  X(MERGE_REFUSED, "merge-refused", "the merged model was not finite, the own one was kept")                           \
  X(BUDGET, "budget", "no receive memory is free for it now")                                                          \
  X(BACKLOG, "backlog", "it sends faster than it is read")                                                             \
  X(GATE, "gate", "too many connections without a session")                                                            \
  X(CLONE, "clone", "two agents run with its key: a disk or key file was copied")                                      \
  X(NO_ROOM, "no-room", "its disk has no room for an update")                                                          \
  X(POOL, "pool", "its pooled scaling differs: pooled needs every site to have every other as a peer")                 \
  X(GROUP, "group", "it is of another group of sites, or not placed yet")                                              \
  X(NOT_NEIGHBOUR, "not-neighbour", "the job's topology does not put it beside this agent")                            \
  X(MASS, "mass", "it claims to have given more mass than it can have had")

enum err {
#define X(symbol, name, sentence) ERR_##symbol,
  ERR_LIST_FAULTS(X) ERR_LIST_DROPS(X)
#undef X
      ERR_COUNT,
  ERR_FIRST_DROP = ERR_NO_SESSION,
  N_DROPS = ERR_COUNT - ERR_FIRST_DROP,
};

/* The stable name, "no-session"; "unknown" outside the list. Static storage. */
const char *err_name(enum err e);

/* One sentence without capital or full stop, to stand after a place: "agent.key: access is not allowed". */
const char *err_sentence(enum err e);

/* 0 … N_DROPS − 1 for a reason of the second list, −1 for every other error. */
int err_drop_index(enum err e);

/* The error for an errno value of a file operation; ERR_IO when nothing closer exists. */
enum err err_from_errno(int errno_value);

#endif
