/* A trace: what a simulated swarm did, event by event, with the scenario that it followed, so that another program can do it
 * again and say where it differs.
 *
 *   "starling-trace 1\n"                      17 bytes
 *   length of the scenario                    u32, at most MAX_SCENARIO_BYTES
 *   the scenario, as scenario_text writes it
 *   records of 24 bytes, at most MAX_TRACE_RECORDS:
 *     when                                    u64, microseconds of the simulation's clock
 *     hash of the story up to here            u64 (struct sim.trace)
 *     agent                                   u32
 *     kind << 24 | bytes                      u32 (enum sim_event_kind; of a frame)
 *
 * Numbers are little-endian. The hash takes in all that was before, so that equal hashes are equal stories. What is read is
 * foreign: bounds are checked before anything is allocated. One thread. */
#ifndef AGENT_SIM_TRACE_H
#define AGENT_SIM_TRACE_H

#include "agent/sim/scenario.h"

enum { TRACE_RECORD_BYTES = 24, MAX_TRACE_RECORDS = 1 << 24 };

struct trace_record {
  uint64_t at_us, hash;
  uint32_t agent, n;
  uint8_t kind;
};

/* Of the event that was handled last. */
struct trace_record trace_record_of(const struct sim *s);
bool trace_record_equal(const struct trace_record *a, const struct trace_record *b);

/* "frame", "wake" …; static. */
const char *trace_kind_name(uint8_t kind);

/* ---- writing ---- */

struct trace_writer;

/* Replaces an old trace. ERR_EXISTS: another file; errors of the file system; a FIFO that nobody reads is ERR_IO. */
MUST_USE enum err trace_create(const char *path, const struct scenario *c, struct trace_writer **out_writer);

/* ERR_LIMIT: it has MAX_TRACE_RECORDS; what was written before stays a trace. ERR_IO, ERR_NO_SPACE come with trace_close, too. */
MUST_USE enum err trace_put(struct trace_writer *w, const struct trace_record *r);
MUST_USE enum err trace_close(struct trace_writer *w); /* NULL is allowed */

/* ---- reading ---- */

struct trace_reader;

/* Errors are one line, with the path and what to do: of the file system, ERR_UNSUPPORTED (no regular file), ERR_SYNTAX,
 * ERR_TOO_NEW, ERR_TRUNCATED, ERR_LIMIT, those of scenario_read. */
MUST_USE enum err trace_open(const char *path, struct trace_reader **out_reader, struct scenario **out_scenario,
                             char out_why[MAX_CONFIG_WHY_BYTES]);

/* The next record; *out_has false: there is none. ERR_TRUNCATED: it ends in the middle of one; ERR_SYNTAX: an agent or kind
 * that there is not, or a time before the last one's; ERR_LIMIT; ERR_IO. */
MUST_USE enum err trace_next(struct trace_reader *r, struct trace_record *out_record, bool *out_has);
void trace_reader_free(struct trace_reader *r);

#endif
