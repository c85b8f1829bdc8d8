/* A public key as people see, copy and type it.
 *
 *   52 base32 digits (Crockford's alphabet: no I, L, O, U) of the 256 bits, most significant first, the last
 *   four bits zero; after each 13 one check digit (Luhn mod 32); shown as 14 groups of 4 with dashes.
 *
 * A mistyped digit is always noticed, two swapped neighbours are except for 0 and Z (of 496 pairs of digits, one).
 * Reading takes either case, O for 0, I and L for 1, spaces and dashes anywhere; and standard base64, 44 characters.
 * Pure; any thread. */
#ifndef CRYPTO_KEY_TEXT_H
#define CRYPTO_KEY_TEXT_H

#include "base/err.h"
#include "crypto/identity.h"

enum {
  KEY_TEXT_BYTES = 14 * 5, /* 14 groups, 13 dashes, NUL */
  KEY_SHORT_BYTES = 2 * 5, /* the first two groups, for logs and tables; never enough to identify a peer */
};

void key_text_write(const struct identity_key *key, char out_text[KEY_TEXT_BYTES]);
void key_text_short(const struct identity_key *key, char out_text[KEY_SHORT_BYTES]);

/* ERR_SYNTAX: wrong length or a character outside the alphabet. ERR_CORRUPT: a check digit does not match, so the key
 * is mistyped. ERR_RANGE: well-formed, but no usable key (`identity_key_check`). */
MUST_USE enum err key_text_read(const char *text, struct identity_key *out_key);

#endif
