#include "crypto/names.h"

#include <sodium.h>
#include <string.h>

#include "crypto/digest.h"

static void add_u32(struct digest_state *state, uint32_t v) {
  uint8_t bytes[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
  digest_blake2b.add(state, bytes, sizeof bytes);
}

static void add_text(struct digest_state *state, const char *text) {
  size_t n = strlen(text);
  add_u32(state, (uint32_t)n);
  digest_blake2b.add(state, text, n);
}

struct swarm_id swarm_id(const char *text) {
  static const char domain[] = "starling/v1/swarm";
  struct swarm_id id;
  crypto_generichash_state state;
  crypto_generichash_init(&state, NULL, 0, sizeof id.bytes);
  crypto_generichash_update(&state, (const uint8_t *)domain, sizeof domain);
  crypto_generichash_update(&state, (const uint8_t *)text, strlen(text));
  crypto_generichash_final(&state, id.bytes, sizeof id.bytes);
  return id;
}

struct digest job_id(const struct swarm_id *swarm, const char *name, uint32_t version, const char *run_label) {
  static const char domain[] = "starling/v1/job";
  struct digest id;
  struct digest_state state;
  digest_blake2b.init(&state);
  digest_blake2b.add(&state, domain, sizeof domain);
  digest_blake2b.add(&state, swarm->bytes, sizeof swarm->bytes);
  add_text(&state, name);
  add_u32(&state, version);
  add_text(&state, run_label);
  digest_blake2b.end(&state, &id);
  return id;
}
