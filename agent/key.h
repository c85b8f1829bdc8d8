/* The agent's own key, opened as the configuration says. Main thread, before any other starts. */
#ifndef AGENT_KEY_H
#define AGENT_KEY_H

#include "agent/config.h"
#include "base/err.h"
#include "crypto/identity.h"
#include "crypto/key_file.h"

/* Opens the key file; a passphrase comes from passphrase_file, or from the terminal when there is one. Then makes sure
 * that the key is not one of the config's own peers. out_why is one line with the place and the remedy. Errors as
 * key_file_open and config_check_key. */
MUST_USE enum err key_open(const struct config *config, struct identity **out_identity,
                           char out_why[MAX_CONFIG_WHY_BYTES]);

/* Reads a passphrase: from a file (its first line) when path is not empty, else from the terminal without echo.
 * ERR_PASSPHRASE: neither is possible; ERR_STOPPED: a signal
 * that ends the program came meanwhile; ERR_LIMIT, or the file's error. The caller wipes it. */
MUST_USE enum err passphrase_read(const char *path, char out_passphrase[MAX_PASSPHRASE_BYTES]);

#endif
