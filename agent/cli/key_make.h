/* A key in a file, for `init` and `key new`. */
#ifndef AGENT_CLI_KEY_MAKE_H
#define AGENT_CLI_KEY_MAKE_H

#include "agent/config.h"
#include "crypto/identity.h"

/* passphrase_file: NULL none, "" asks on the terminal, else its first line protects the key. The caller frees the
 * identity. why is one line with the place. ERR_EXISTS: never overwrites; ERR_PASSPHRASE; errors of the file system. */
MUST_USE enum err key_make(const char *path, const char *passphrase_file, struct identity **out_identity,
                           char why[MAX_CONFIG_WHY_BYTES]);

/* Whether a key stands there already, protected just so: then it is opened, *out_identity is not NULL. Else *out_identity
 * is NULL and one may be made. ERR_EXISTS, ERR_PASSPHRASE: it is protected otherwise; errors of key_file_open. */
MUST_USE enum err key_find(const char *path, const char *passphrase_file, struct identity **out_identity,
                           char why[MAX_CONFIG_WHY_BYTES]);

#endif
