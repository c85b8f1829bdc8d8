/* The connection gate: the connections that came in, and which may stay. Only those without a session are counted
 * against the limits; each has ten seconds to become one with a session.
 *
 * libzmq tells of a connection three times: it was accepted (descriptor), it asks to be admitted (address only), it
 * sends (its number). The rows join the three. Pure; the loop thread. */
#ifndef GOSSIP_GATE_H
#define GOSSIP_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

enum {
  GATE_ADDRESS_BYTES = 64,
  GATE_PATIENCE_MS = 10 * 1000,
  MAX_GATE_FRAMES = 512, /* that may come without a session; a handshake needs two */
  GATE_KICK_MS = 50,     /* so that what was sent before can leave */
  MAX_GATE_HALF_OPEN = 2 * MAX_GATE_TOTAL,
  MAX_GATE_ROWS = 2 * MAX_PEERS + MAX_GATE_TOTAL + MAX_GATE_HALF_OPEN,
};

struct gate_row {
  int fd;
  uint64_t conn; /* CONN_NONE until it has sent something */
  bool is_admitted, has_session;
  unsigned n_frames;    /* without a session */
  bool is_over;         /* ended; what it had sent before is still to be read */
  uint64_t close_at_ms; /* UINT64_MAX: not now */
  char address[GATE_ADDRESS_BYTES];
};

struct gate {
  struct gate_row rows[MAX_GATE_ROWS];
  size_t n_rows;
};

/* A connection was accepted. NULL: the limit of those not yet admitted is reached, it should be closed at once. The
 * descriptor must not be in the table. */
struct gate_row *gate_add(struct gate *g, int fd, const char *address, uint64_t now_ms);

/* A connection from this address asks: true, and it is counted, when fewer than MAX_GATE_PER_ADDRESS of the address
 * and fewer than MAX_GATE_TOTAL in all are in without a session. */
bool gate_admit(struct gate *g, const char *address);

struct gate_row *gate_find_fd(struct gate *g, int fd);
struct gate_row *gate_find_conn(struct gate *g, uint64_t conn);

void gate_set_session(struct gate_row *row, bool has_session, uint64_t now_ms);
void gate_kick(struct gate_row *row, uint64_t now_ms);

/* A frame has come; false: it is one too many for a connection without a session, which ends now. */
bool gate_take_frame(struct gate_row *row, uint64_t now_ms);

/* Rows move: pointers to others become void. */
void gate_remove(struct gate *g, struct gate_row *row);

/* A row that has ended; NULL when there is none. */
struct gate_row *gate_find_over(struct gate *g);

/* A row whose time is over, once; NULL when there is none. */
struct gate_row *gate_overdue(struct gate *g, uint64_t now_ms);

/* When the next row's time is over; UINT64_MAX: never. */
uint64_t gate_due_ms(const struct gate *g);

#endif
