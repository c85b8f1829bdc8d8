/* The file that holds an agent's secret key.
 *
 *   untrusted comment: starling secret key GHW8-AR2K
 *   base64( "Ed" ‖ kdf 2 ‖ salt 16 ‖ ops u64 ‖ memory u64 ‖ public key 32 ‖ seed 32 ⊕ stream 32 ‖ checksum 32 )
 *
 * kdf is "00" (no passphrase: salt, ops, memory and stream are zero) or "Ar" (Argon2id 1.3, RFC 9106: the stream is its
 * output). The checksum is BLAKE2b-256 of the algorithm, the public key and the plain seed, so a wrong passphrase and a
 * damaged file are both noticed. The format follows minisign's.
 *
 * Every refusal comes with one line in `out_why` that names the rule that failed and, where one exists, the command
 * that mends it; never a byte of the key. Touches the file system, from main only. */
#ifndef CRYPTO_KEY_FILE_H
#define CRYPTO_KEY_FILE_H

#include "base/err.h"
#include "base/limits.h"
#include "crypto/identity.h"

enum { MAX_PASSPHRASE_BYTES = 1024 /* with the final NUL */ };

/* Where a passphrase comes from: a prompt or a file, the caller's business. `read` fills `out_passphrase` (which is
 * guarded memory and wiped after use) and returns ERR_OK, or says why it cannot. Asked only when the file needs one. */
struct passphrase_source {
  enum err (*read)(void *context, char out_passphrase[MAX_PASSPHRASE_BYTES]);
  void *context;
};

/* Writes a new file, mode 0600, durable when it returns: temporary file, fsync, link to the name, fsync of the
 * directory. `passphrase` NULL or "": none. ERR_EXISTS: never overwrites. Else an error of the file system. */
MUST_USE enum err key_file_create(const char *path, const struct identity *id, const char *passphrase,
                                  char out_why[MAX_REASON_BYTES]);

/* Reads a key. Links are followed and the target is judged: a regular file of at most MAX_KEY_FILE_BYTES, not writable
 * by others, and (a) owned by us with no permission for group and others, or (b) inside `credentials_dir`
 * (systemd's $CREDENTIALS_DIRECTORY; NULL: none), or (c) on a read-only mount and not readable by others (Kubernetes
 * secrets). Never blocks on a FIFO. `source` NULL: a file with passphrase is refused. The caller frees the identity.
 * ERR_NOT_FOUND, ERR_PERMISSION (a rule above), ERR_LIMIT (size), ERR_TRUNCATED, ERR_SYNTAX (not this format),
 * ERR_TOO_NEW (algorithm or kdf unknown), ERR_RANGE (Argon2id cost outside the bounds), ERR_CORRUPT (checksum without
 * passphrase), ERR_PASSPHRASE (missing, or checksum with passphrase), ERR_NO_MEMORY, ERR_IO. */
MUST_USE enum err key_file_open(const char *path, const char *credentials_dir, const struct passphrase_source *source,
                                struct identity **out_identity, char out_why[MAX_REASON_BYTES]);

#endif
