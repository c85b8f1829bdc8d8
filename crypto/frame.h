/* The head of a frame, 24 bytes, little-endian:
 *
 *    0  magic "STL1"     8  session_index u32, the receiver's
 *    4  type u8         12  plaintext length u32
 *    5  flags u8, zero  16  counter u64
 *    6  zero 2          24  ciphertext, then the tag of 16 bytes
 *
 * The head is the additional data of the seal. Handshake messages travel in the same shape: their last 16 bytes stand
 * in the tag's place and the length counts those before. What the types mean is the gossip room's. Pure; any thread. */
#ifndef CRYPTO_FRAME_H
#define CRYPTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

struct frame_head {
  uint8_t type;
  uint32_t session_index;
  uint32_t n_plain; /* ≤ MAX_FRAME_PLAIN_BYTES */
  uint64_t counter;
};

static inline size_t frame_bytes(size_t n_plain) {
  return FRAME_HEAD_BYTES + n_plain + FRAME_TAG_BYTES;
}

void frame_head_write(const struct frame_head *head, uint8_t out_bytes[FRAME_HEAD_BYTES]);

/* Judges a whole frame of n bytes by its head. ERR_FRAME: not exactly as long as the head says, or a wrong magic, flag,
 * padding or length. */
MUST_USE enum err frame_head_read(const uint8_t *frame, size_t n, struct frame_head *out_head);

#endif
