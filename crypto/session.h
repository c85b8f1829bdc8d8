/* A session: the two keys of a finished handshake and what has been sealed and opened with them.
 *
 * Frames are sealed with ChaCha20-Poly1305 (RFC 8439), nonce = 0^32 ‖ counter, the head as additional data. Below us is
 * one ordered stream, so a counter must be greater than the last accepted one; gaps are allowed. The session wants a
 * new handshake after 120 s, 2^20 frames or 1 GiB (both directions together) and refuses to work after 180 s or 2^24
 * frames: WireGuard's scheme. Time is an argument, in monotonic milliseconds; a clock that runs backwards expires the
 * session.
 *
 * Lives in guarded, locked memory. One thread at a time. */
#ifndef CRYPTO_SESSION_H
#define CRYPTO_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "crypto/frame.h"
#include "crypto/noise.h"

struct bulk;

enum {
  SESSION_REKEY_MS = 120 * 1000,
  SESSION_EXPIRE_MS = 180 * 1000,
  SESSION_REKEY_FRAMES = 1 << 20,
  SESSION_EXPIRE_FRAMES = 1 << 24,
  SESSION_REKEY_BYTES = 1 << 30,
};

/* Between whom a session stands. An index is chosen by the side that receives frames under it. */
struct session_ends {
  uint32_t own_index;
  uint32_t peer_index;
  bool is_initiator;
};

/* Read freely; written only here. */
struct session {
  struct session_ends ends;
  uint64_t created_ms;
  uint64_t next_send;    /* counter of the next frame out */
  uint64_t next_receive; /* lowest counter still acceptable */
  uint64_t n_frames;     /* sealed and opened */
  uint64_t n_bytes;      /* their plaintext */
  struct bulk *bulk;     /* for long frames; NULL: not yet, or not on this host */
  bool has_no_bulk;
  struct session_keys keys[]; /* one */
};

/* Copies the keys; the caller wipes its own. ERR_NO_MEMORY. */
MUST_USE enum err session_new(const struct session_keys *keys, const struct session_ends *ends, uint64_t now_ms,
                              struct session **out_session);

/* Takes NULL. Wipes the keys. */
void session_free(struct session *s);

/* Makes a frame in place: `frame` holds frame_bytes(n_plain) bytes with the plaintext at FRAME_HEAD_BYTES; the head is
 * written, the plaintext becomes ciphertext, the tag follows. n_plain ≤ MAX_FRAME_PLAIN_BYTES.
 * ERR_KEY_EXPIRED: the frame is untouched. */
MUST_USE enum err session_seal(struct session *s, uint64_t now_ms, uint8_t type, uint8_t *frame, size_t n_plain);

/* Opens in place a frame whose `head` came from `frame_head_read` and whose session_index chose this session: the
 * n_plain bytes at FRAME_HEAD_BYTES become plaintext. ERR_KEY_EXPIRED, ERR_REPLAY (counter not above the last, or 2^64
 * − 1), ERR_SEAL (it did not authenticate; the state is as before, the frame's contents are void). */
MUST_USE enum err session_open_frame(struct session *s, uint64_t now_ms, const struct frame_head *head, uint8_t *frame);

/* Time for a new handshake; only the initiator acts on it. */
bool session_wants_rekey(const struct session *s, uint64_t now_ms);

/* Neither seals nor opens any more. */
bool session_is_expired(const struct session *s, uint64_t now_ms);

#endif
