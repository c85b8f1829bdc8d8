/* What members say of themselves and of each other. First byte: 0 the rest is a statement, 1 an accusation, 2 a mask over a signed
 * statement, 3 over a signed accusation; the rest then also goes through a table of members. What is read is canonical; only what
 * was signed, to the bit, verifies. */
#include "crypto/statement.h"

#include <string.h>

#include "base/must.h"
#include "gossip/members.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static struct identity *own, *other, *third;
static struct members table;

static enum err read_statement(const uint8_t *bytes, size_t n) {
  struct statement s;
  uint8_t again[STATEMENT_MAX_BYTES];
  enum err e = statement_read(bytes, n, &s);
  if (e != ERR_OK)
    return e;
  MUST(statement_write(&s, again) == n && memcmp(again, bytes, n) == 0);
  return statement_verify(&s);
}

static enum err read_accusation(const uint8_t *bytes, size_t n) {
  struct accusation a;
  uint8_t again[ACCUSATION_BYTES];
  enum err e = accusation_read(bytes, n, &a);
  if (e != ERR_OK)
    return e;
  accusation_write(&a, again);
  MUST(n == ACCUSATION_BYTES && memcmp(again, bytes, n) == 0);
  return accusation_verify(&a);
}

static void feed_masks(struct cursor *input, bool is_accusation) {
  uint8_t bytes[STATEMENT_MAX_BYTES];
  struct statement s = {.incarnation = {7, 1}, .name = "mec-07", .addresses = "tcp://10.0.0.7:7411"};
  struct accusation a = {.accused = *identity_public(third), .incarnation = {7, 1}};
  statement_sign(&s, other);
  accusation_sign(&a, other);
  size_t n = ACCUSATION_BYTES;
  if (is_accusation)
    accusation_write(&a, bytes);
  else
    n = statement_write(&s, bytes);
  bool changed = mask_bytes(input, bytes, n);
  enum err e = is_accusation ? read_accusation(bytes, n) : read_statement(bytes, n);
  MUST((e == ERR_OK) != changed);
}

/* A table that knows the three of them. */
static void table_open(void) {
  struct identity_key peer = *identity_public(other);
  struct statement s = {.incarnation = {7, 1}};
  uint8_t bytes[STATEMENT_MAX_BYTES];
  struct members_config config = {.key = *identity_public(own),
                                  .boot_epoch = 7,
                                  .name = "",
                                  .addresses = "",
                                  .peers = &peer,
                                  .n_peers = 1,
                                  .max = 4,
                                  .beat_ms = 1000,
                                  .seal = members_seal_of(own)};
  MUST(members_init(&table, &config, 1000) == ERR_OK);
  statement_sign(&s, other);
  MUST(members_take_statement(&table, 0, bytes, statement_write(&s, bytes), 1000) == ERR_OK);
  statement_sign(&s, third);
  MUST(members_take_statement(&table, 0, bytes, statement_write(&s, bytes), 1000) == ERR_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (own == NULL) {
    own = identity_numbered(1);
    other = identity_numbered(2);
    third = identity_numbered(3);
  }
  struct cursor input;
  cursor_init(&input, data, size);
  uint8_t kind = cursor_u8(&input) % 4;
  const uint8_t *rest = input.at;
  size_t n = input.left;
  if (kind == 0)
    (void)read_statement(rest, n);
  else if (kind == 1)
    (void)read_accusation(rest, n);
  else
    feed_masks(&input, kind == 3);
  table_open();
  (void)!members_take_statement(&table, 0, rest, n, 2000);
  (void)!members_take_accusation(&table, 0, rest, n, 2000);
  (void)members_tick(&table, 100000);
  MUST(table.n >= 3 && table.n <= 4);
  members_done(&table);
  return 0;
}
