/* The signed sketch and the table that takes it. First byte: 0 the rest is one, 1 a mask over a signed one. What is read is canonical; only what its
 * origin signed, to the bit, verifies; whatever the cells say, a table takes it or not, and groups what it has. */
#include "crypto/signed_sketch.h"

#include <string.h>

#include "agent/core/cluster.h"
#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static struct identity *origin;

static void sign(void *context, struct signed_sketch *s) {
  (void)context;
  signed_sketch_sign(s, origin);
}

static enum err send(void *context, size_t peer, const uint8_t *bytes) {
  (void)context, (void)peer, (void)bytes;
  return ERR_OK;
}

static void set_affinity(void *context, size_t peer, double affinity) {
  (void)context, (void)peer;
  MUST(affinity >= 0 && affinity <= 1);
}

static void tell_place(void *context, bool is_alone, const char *text) {
  (void)context, (void)is_alone, (void)text;
}

/* A table of one peer, which is whoever the sketch is of or passes it on. */
static void put(const struct signed_sketch *s, const uint8_t *bytes, bool is_peer) {
  static const struct cluster_ports ports = {sign, send, set_affinity, tell_place};
  struct gossip_peer_config peer = {.name = "one", .key = s->origin};
  peer.key.bytes[0] ^= !is_peer;
  const struct cluster_config config = {
      .wish = {0, 4}, .kappa = 2, .own = *identity_public(origin), .peers = &peer, .n_peers = 1, .boot_epoch = 1};
  struct sketch own = {{SKETCH_MOST, 1, 2, 3}};
  struct cluster *c;
  MUST(cluster_new(&config, &ports, &c) == ERR_OK);
  cluster_on_hello(c, 0);
  enum err e = cluster_on_sketch(c, 0, s, bytes);
  MUST(e == ERR_OK || e == ERR_ENCODING);
  cluster_on_own(c, &own);
  cluster_turn(c, 0);
  cluster_free(c);
}

static enum err read_signed(const uint8_t *bytes, size_t n) {
  struct signed_sketch s;
  uint8_t again[SIGNED_SKETCH_BYTES];
  enum err e = signed_sketch_read(bytes, n, &s);
  if (e != ERR_OK)
    return e;
  signed_sketch_write(&s, again);
  MUST(n == SIGNED_SKETCH_BYTES && memcmp(again, bytes, n) == 0);
  put(&s, bytes, true);
  put(&s, bytes, false);
  return signed_sketch_verify(&s);
}

static void feed_mask(struct cursor *input) {
  uint8_t bytes[SIGNED_SKETCH_BYTES];
  struct signed_sketch s = {.boot_epoch = 7, .serial = 1, .cells = {0xff, 0x7f, 1}};
  signed_sketch_sign(&s, origin);
  signed_sketch_write(&s, bytes);
  bool changed = mask_bytes(input, bytes, sizeof bytes);
  MUST((read_signed(bytes, sizeof bytes) == ERR_OK) != changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (origin == NULL)
    origin = identity_numbered(1);
  struct cursor input;
  cursor_init(&input, data, size);
  if (cursor_u8(&input) % 2 == 0)
    (void)read_signed(input.at, input.left); /* what is signed may come from the corpus */
  else
    feed_mask(&input);
  return 0;
}
