/* The key file. A passphrase is given only where the cost of Argon2id is the corpus file's least one, so that the fuzzer may
 * ask for any other, and what asks for too much is refused before a passphrase is asked for. */
#include "crypto/key_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

/* The characters of a cost of one pass over 8 KiB in the record's base64, after the salt. */
static const char least_cost[] = "ABAAAAAAAAAAAgAAAAAAAA";
enum { COST_AT = 26 };

static char path[64];

static void remove_file(void) {
  unlink(path);
}

static void open_file(void) {
  const char *shm = "/dev/shm", *folder = access(shm, W_OK) == 0 ? shm : "/tmp";
  snprintf(path, sizeof path, "%s/starling-fuzz-XXXXXX", folder);
  int fd = mkstemp(path);
  MUST(fd >= 0 && random_open() == ERR_OK && atexit(remove_file) == 0);
  close(fd);
}

struct record {
  const uint8_t *text;
  size_t n;
};

/* ERR_STOPPED: not this time. */
static enum err give_passphrase(void *context, char out_passphrase[MAX_PASSPHRASE_BYTES]) {
  const struct record *r = context;
  const uint8_t *line = memchr(r->text, '\n', r->n);
  size_t left = line ? r->n - (size_t)(line + 1 - r->text) : 0;
  if (left < COST_AT + sizeof least_cost || memcmp(line + 1 + COST_AT, least_cost, sizeof least_cost - 1) != 0)
    return ERR_STOPPED;
  snprintf(out_passphrase, MAX_PASSPHRASE_BYTES, "open");
  return ERR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (path[0] == '\0')
    open_file();
  int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
  MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  close(fd);
  struct record r = {data, size};
  struct passphrase_source source = {give_passphrase, &r};
  struct identity *id = NULL;
  char why[MAX_REASON_BYTES] = "";
  enum err e = key_file_open(path, NULL, &source, &id, why);
  MUST((e == ERR_OK) == (id != NULL) && (e == ERR_OK) == (why[0] == '\0'));
  identity_free(id);
  return 0;
}
