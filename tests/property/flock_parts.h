/* What the sources of the flock share. */
#ifndef TESTS_PROPERTY_FLOCK_PARTS_H
#define TESTS_PROPERTY_FLOCK_PARTS_H

#include "tests/property/flock.h"

enum flock_event_kind {
  FLOCK_WAKE,
  FLOCK_FRAME,
  FLOCK_DIAL,
  FLOCK_GONE,
  FLOCK_TRAINED,
  FLOCK_DURABLE,
  FLOCK_WRITTEN,
  FLOCK_HEARTBEAT, /* agent, conn: the two ends of a link */
};

struct flock_event {
  uint64_t at_ms, order;
  enum flock_event_kind kind;
  size_t agent;
  uint64_t life, conn;
  enum dial_event dial;
  void *data; /* frame, job, result */
  size_t n;
};

void flock_push(struct flock *f, struct flock_event e);

/* flock_link.c */
struct link flock_link_table(struct flock_agent *a);
void flock_close_wires(struct flock *f, size_t a, size_t b); /* b SIZE_MAX: all of a */

/* flock_ports.c */
struct gossip_events flock_events(struct flock_agent *a);
struct round_ports flock_round_ports(struct flock_agent *a);
size_t flock_peer_index(const struct flock_agent *a, size_t other); /* SIZE_MAX: not listed */
void flock_note_put(struct flock_agent *a, const char *name, size_t about, const char *text);

/* flock_work.c */
uint32_t flock_epoch_steps(const struct flock_agent *a);
void flock_do_train(struct flock_agent *a, struct trainer_job *job);
void flock_do_write(struct flock_agent *a, struct scribe_job *job);
void flock_durable_copy(struct flock_durable *to, const struct flock_durable *from);
void flock_durable_clear(struct flock_durable *d);
struct buffer flock_buffer(const void *bytes, size_t n);

#endif
