#include "agent/key.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/must.h"

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

/* Waits until a line was typed, or ERR_STOPPED: until one of the signals came, which stays pending. */
static enum err await_line(FILE *terminal, const sigset_t *signals) {
  int fd = signalfd(-1, signals, SFD_CLOEXEC);
  if (fd < 0)
    return err_from_errno(errno);
  struct pollfd fds[] = {{.fd = fileno(terminal), .events = POLLIN}, {.fd = fd, .events = POLLIN}};
  int n;
  do
    n = poll(fds, 2, -1);
  while (n < 0 && errno == EINTR);
  close(fd);
  return n < 0 ? ERR_IO : fds[1].revents != 0 ? ERR_STOPPED : ERR_OK;
}

/* Without echo; a signal that ends the program has its turn when the terminal shows again what is typed. */
static enum err read_hidden(FILE *terminal, char out_passphrase[MAX_PASSPHRASE_BYTES]) {
  static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  struct termios shown, hidden;
  sigset_t signals, before;
  if (tcgetattr(fileno(terminal), &shown) != 0)
    return ERR_PASSPHRASE;
  hidden = shown;
  hidden.c_lflag &= (tcflag_t)~ECHO;
  sigemptyset(&signals);
  for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
    sigaddset(&signals, ending[i]);
  MUST(pthread_sigmask(SIG_BLOCK, &signals, &before) == 0);
  tcsetattr(fileno(terminal), TCSAFLUSH, &hidden);
  fputs("Passphrase: ", terminal);
  enum err e = await_line(terminal, &signals);
  if (e == ERR_OK)
    e = read_line(terminal, out_passphrase);
  fputc('\n', terminal);
  tcsetattr(fileno(terminal), TCSAFLUSH, &shown);
  MUST(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
  return e;
}

static enum err read_terminal(char out_passphrase[MAX_PASSPHRASE_BYTES]) {
  FILE *terminal = fopen("/dev/tty", "r+e");
  if (!terminal)
    return ERR_PASSPHRASE;
  setvbuf(terminal, NULL, _IONBF, 0);
  enum err e = read_hidden(terminal, out_passphrase);
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
