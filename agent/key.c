#include "agent/key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* One line without its end; anything longer than the cap is refused, not cut. */
static enum err read_line(FILE *in, char out_line[MAX_PASSPHRASE_BYTES]) {
  if (!fgets(out_line, MAX_PASSPHRASE_BYTES, in))
    return ferror(in) ? ERR_IO : ERR_PASSPHRASE;
  size_t n = strcspn(out_line, "\r\n");
  if (out_line[n] == '\0' && n == MAX_PASSPHRASE_BYTES - 1)
    return ERR_LIMIT;
  out_line[n] = '\0';
  return n > 0 ? ERR_OK : ERR_PASSPHRASE;
}

static enum err read_file(const char *path, char out_passphrase[MAX_PASSPHRASE_BYTES]) {
  FILE *in = fopen(path, "re");
  if (!in)
    return err_from_errno(errno);
  setvbuf(in, NULL, _IONBF, 0); /* no copy of the secret stays in a buffer */
  enum err e = read_line(in, out_passphrase);
  fclose(in);
  return e;
}

static enum err read_terminal(char out_passphrase[MAX_PASSPHRASE_BYTES]) {
  FILE *terminal = fopen("/dev/tty", "r+e");
  if (!terminal)
    return ERR_PASSPHRASE;
  setvbuf(terminal, NULL, _IONBF, 0);
  struct termios shown;
  bool is_terminal = tcgetattr(fileno(terminal), &shown) == 0;
  if (is_terminal) {
    struct termios hidden = shown;
    hidden.c_lflag &= (tcflag_t)~ECHO;
    tcsetattr(fileno(terminal), TCSAFLUSH, &hidden);
    fputs("Passphrase: ", terminal);
  }
  enum err e = is_terminal ? read_line(terminal, out_passphrase) : ERR_PASSPHRASE;
  if (is_terminal) {
    fputc('\n', terminal);
    tcsetattr(fileno(terminal), TCSAFLUSH, &shown);
  }
  fclose(terminal);
  return e;
}

enum err passphrase_read(const char *path, char out_passphrase[MAX_PASSPHRASE_BYTES]) {
  return path[0] ? read_file(path, out_passphrase) : read_terminal(out_passphrase);
}

static enum err read_for_key_file(void *context, char out_passphrase[MAX_PASSPHRASE_BYTES]) {
  const struct config *config = context;
  return passphrase_read(config->passphrase_file, out_passphrase);
}

enum err key_open(const struct config *config, struct identity **out_identity, char out_why[MAX_CONFIG_WHY_BYTES]) {
  struct passphrase_source source = {.read = read_for_key_file, .context = (void *)config};
  struct identity *id = NULL;
  char reason[MAX_REASON_BYTES];
  enum err e = key_file_open(config->key_file, getenv("CREDENTIALS_DIRECTORY"), &source, &id, reason);
  if (e != ERR_OK) {
    snprintf(out_why, MAX_CONFIG_WHY_BYTES, "%s: %s", config->key_file, reason);
    return e;
  }
  e = config_check_key(config, identity_public(id), out_why);
  if (e != ERR_OK) {
    identity_free(id);
    return e;
  }
  *out_identity = id;
  return ERR_OK;
}
