/* The connection gate as libzmq drives it, but in any order: descriptors are accepted, addresses ask, connections send, get
 * a session, are kicked and end, time passes. An event is an operation and its argument, a byte each. */
#include "gossip/gate.h"

#include <string.h>

#include "gossip/link.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

enum { N_DESCRIPTORS = 64, N_ADDRESSES = 5 };

static struct gate gate;
static uint64_t now_ms;

static void address_of(uint8_t arg, char out_address[GATE_ADDRESS_BYTES]) {
  snprintf(out_address, GATE_ADDRESS_BYTES, "10.0.0.%d", arg % N_ADDRESSES);
}

static void accept_one(uint8_t arg) {
  char address[GATE_ADDRESS_BYTES];
  address_of(arg / N_DESCRIPTORS, address);
  int fd = arg % N_DESCRIPTORS;
  if (!gate_find_fd(&gate, fd))
    (void)gate_add(&gate, fd, address, now_ms);
}

static void ask(uint8_t arg) {
  char address[GATE_ADDRESS_BYTES];
  address_of(arg, address);
  (void)gate_admit(&gate, address);
}

static void send_frame(uint8_t arg) {
  struct gate_row *row = gate_find_fd(&gate, arg % N_DESCRIPTORS);
  if (!row)
    return;
  row->conn = CONN_ACCEPTED | arg;
  row->is_admitted = true;
  bool was_counted = !row->has_session;
  for (int i = 0; i < 100; i++)
    if (!gate_take_frame(row, now_ms))
      MUST(was_counted && row->n_frames > MAX_GATE_FRAMES && row->close_at_ms != 0);
}

static void begin_session(uint8_t arg) {
  struct gate_row *row = gate_find_fd(&gate, arg % N_DESCRIPTORS);
  if (row && row->is_admitted)
    gate_set_session(row, arg >= N_DESCRIPTORS, now_ms);
}

static void kick(uint8_t arg) {
  struct gate_row *row = gate_find_fd(&gate, arg % N_DESCRIPTORS);
  if (row)
    gate_kick(row, now_ms);
}

static void end(uint8_t arg) {
  struct gate_row *row = gate_find_fd(&gate, arg % N_DESCRIPTORS);
  if (row)
    row->is_over = true;
}

static void pass(uint8_t arg) {
  now_ms += 50 * (uint64_t)arg;
}

static void (*const operations[])(uint8_t arg) = {accept_one,    accept_one, ask, ask, send_frame,
                                                  begin_session, kick,       end, pass};

/* What the link does after every event, and that it comes to an end. */
static void settle(void) {
  for (struct gate_row *row; (row = gate_find_over(&gate));)
    gate_remove(&gate, row);
  size_t n_overdue = 0;
  for (struct gate_row *row; (row = gate_overdue(&gate, now_ms));) {
    MUST(!row->has_session);
    MUST(++n_overdue <= gate.n_rows);
  }
  MUST(gate_due_ms(&gate) > now_ms);
}

static size_t count(const char *address, bool admitted) {
  size_t n = 0;
  for (size_t i = 0; i < gate.n_rows; i++) {
    const struct gate_row *row = &gate.rows[i];
    n += !row->has_session && row->is_admitted == admitted && (!address || strcmp(row->address, address) == 0);
  }
  return n;
}

/* An address may have more connections than it would be admitted with only when they have sent frames, or lost sessions. */
static void check_asking(uint8_t arg) {
  char address[GATE_ADDRESS_BYTES];
  address_of(arg, address);
  size_t n = count(address, true), n_total = count(NULL, true);
  bool is_admitted = gate_admit(&gate, address);
  MUST(!is_admitted || (n < MAX_GATE_PER_ADDRESS && n_total < MAX_GATE_TOTAL));
  MUST(count(address, true) == n + is_admitted);
}

static void check_rows(void) {
  MUST(gate.n_rows <= MAX_GATE_ROWS && count(NULL, false) <= MAX_GATE_HALF_OPEN);
  for (size_t i = 0; i < gate.n_rows; i++)
    MUST(gate_find_fd(&gate, gate.rows[i].fd) == &gate.rows[i]); /* no descriptor twice */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  memset(&gate, 0, sizeof gate);
  now_ms = 1000;
  for (size_t i = 0; i + 1 < size; i += 2) {
    operations[data[i] % (sizeof operations / sizeof *operations)](data[i + 1]);
    settle();
    check_asking(data[i + 1]);
    check_rows();
  }
  return 0;
}
