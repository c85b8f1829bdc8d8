#include "crypto/statement.h"

#include <string.h>

#include "base/bytes.h"
#include "base/must.h"

enum { FLAG_LEAVES = 1, MAX_PORT_DIGITS = 5 };

static const char statement_domain[] = "starling/v1/statement", accusation_domain[] = "starling/v1/accusation";

int incarnation_compare(const struct incarnation *a, const struct incarnation *b) {
  if (a->boot_epoch != b->boot_epoch)
    return a->boot_epoch < b->boot_epoch ? -1 : 1;
  return a->refutation == b->refutation ? 0 : a->refutation < b->refutation ? -1 : 1;
}

/* ---- texts ---------------------------------------------------------------------------------------------------------- */

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_label_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '.' || c == '_' || c == '-';
}

static bool is_label(const char *text) {
  while (is_label_char(*text))
    text++;
  return *text == '\0';
}

static bool is_host_char(char c) {
  return is_label_char(c) || c == ':' || c == '[' || c == ']' || c == '%';
}

bool statement_is_address(const char *text) {
  static const char scheme[] = "tcp://";
  if (strncmp(text, scheme, sizeof scheme - 1) != 0)
    return false;
  const char *host = text + sizeof scheme - 1, *port = strrchr(host, ':');
  if (!port || port == host)
    return false;
  for (const char *at = host; at < port; at++)
    if (!is_host_char(*at))
      return false;
  size_t n_digits = 0;
  while (is_digit(port[1 + n_digits]))
    n_digits++;
  return n_digits >= 1 && n_digits <= MAX_PORT_DIGITS && port[1 + n_digits] == '\0';
}

bool statement_next_address(const char **at, char out_address[MAX_ADDRESS_BYTES]) {
  size_t n = strcspn(*at, " ");
  if (n == 0 || n >= MAX_ADDRESS_BYTES)
    return false;
  memcpy(out_address, *at, n);
  out_address[n] = '\0';
  *at += n;
  *at += **at == ' ';
  return true;
}

static bool are_addresses(const char *text) {
  char address[MAX_ADDRESS_BYTES];
  size_t n = strlen(text);
  if (n > 0 && text[n - 1] == ' ')
    return false;
  const char *at = text;
  while (*at != '\0')
    if (!statement_next_address(&at, address) || !statement_is_address(address))
      return false;
  return true;
}

/* A short text with its length before it; with a NUL in it, it is none. */
static bool text_read(struct cursor *c, size_t capacity, char *out_text) {
  size_t n = cursor_u8(c);
  const uint8_t *at = cursor_view(c, n);
  if (!at || n >= capacity)
    return false;
  memcpy(out_text, at, n);
  out_text[n] = '\0';
  return strlen(out_text) == n;
}

static void text_write(struct writer *w, const char *text, size_t capacity) {
  size_t n = strnlen(text, capacity);
  MUST(n < capacity);
  writer_u8(w, (uint8_t)n);
  writer_bytes(w, text, n);
}

static void incarnation_read(struct cursor *c, struct incarnation *out) {
  out->boot_epoch = cursor_u64(c);
  out->refutation = cursor_u32(c);
}

static void incarnation_write(struct writer *w, const struct incarnation *i) {
  writer_u64(w, i->boot_epoch);
  writer_u32(w, i->refutation);
}

/* What both objects begin with. False: another format. */
static bool head_read(struct cursor *c, struct swarm_id *out_swarm) {
  uint8_t format = cursor_u8(c);
  cursor_bytes(c, out_swarm->bytes, sizeof out_swarm->bytes);
  return c->failed || format == STATEMENT_FORMAT;
}

static void head_write(struct writer *w, const struct swarm_id *swarm) {
  writer_u8(w, STATEMENT_FORMAT);
  writer_bytes(w, swarm->bytes, sizeof swarm->bytes);
}

/* ---- statements ------------------------------------------------------------------------------------------------------ */

enum err statement_read(const void *bytes, size_t n, struct statement *out_statement) {
  struct statement s = {0};
  struct cursor c;
  cursor_init(&c, bytes, n);
  if (!head_read(&c, &s.swarm))
    return ERR_VERSION;
  cursor_bytes(&c, s.key.bytes, sizeof s.key.bytes);
  incarnation_read(&c, &s.incarnation);
  uint8_t flags = cursor_u8(&c);
  s.leaves = flags == FLAG_LEAVES;
  bool is_good = flags <= FLAG_LEAVES && s.incarnation.boot_epoch > 0;
  is_good &= text_read(&c, sizeof s.name, s.name) && is_label(s.name);
  is_good &= text_read(&c, sizeof s.addresses, s.addresses) && are_addresses(s.addresses);
  cursor_bytes(&c, s.signature.bytes, SIGNATURE_BYTES);
  enum err e = cursor_end(&c);
  if (e == ERR_OK && !is_good)
    e = ERR_MESSAGE;
  if (e == ERR_OK)
    *out_statement = s;
  return e;
}

static void statement_body_write(const struct statement *s, struct writer *w) {
  MUST(s->incarnation.boot_epoch > 0);
  head_write(w, &s->swarm);
  writer_bytes(w, s->key.bytes, sizeof s->key.bytes);
  incarnation_write(w, &s->incarnation);
  writer_u8(w, s->leaves ? FLAG_LEAVES : 0);
  text_write(w, s->name, sizeof s->name);
  text_write(w, s->addresses, sizeof s->addresses);
}

size_t statement_write(const struct statement *s, uint8_t out_bytes[STATEMENT_MAX_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, STATEMENT_MAX_BYTES);
  statement_body_write(s, &w);
  writer_bytes(&w, s->signature.bytes, SIGNATURE_BYTES);
  MUST(writer_end(&w) == ERR_OK);
  return w.n_bytes;
}

static size_t statement_body(const struct statement *s, uint8_t out_bytes[STATEMENT_MAX_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, STATEMENT_MAX_BYTES);
  statement_body_write(s, &w);
  MUST(writer_end(&w) == ERR_OK);
  return w.n_bytes;
}

void statement_sign(struct statement *s, const struct identity *id) {
  uint8_t body[STATEMENT_MAX_BYTES];
  s->key = *identity_public(id);
  size_t n = statement_body(s, body);
  identity_sign(id, statement_domain, body, n, &s->signature);
}

enum err statement_verify(const struct statement *s) {
  uint8_t body[STATEMENT_MAX_BYTES];
  size_t n = statement_body(s, body);
  return signature_verify(&s->key, statement_domain, body, n, &s->signature);
}

/* ---- accusations ----------------------------------------------------------------------------------------------------- */

enum { ACCUSATION_BODY_BYTES = ACCUSATION_BYTES - SIGNATURE_BYTES };

enum err accusation_read(const void *bytes, size_t n, struct accusation *out_accusation) {
  struct accusation a = {0};
  struct cursor c;
  cursor_init(&c, bytes, n);
  if (!head_read(&c, &a.swarm))
    return ERR_VERSION;
  cursor_bytes(&c, a.accuser.bytes, sizeof a.accuser.bytes);
  cursor_bytes(&c, a.accused.bytes, sizeof a.accused.bytes);
  incarnation_read(&c, &a.incarnation);
  cursor_bytes(&c, a.signature.bytes, SIGNATURE_BYTES);
  enum err e = cursor_end(&c);
  if (e == ERR_OK && (a.incarnation.boot_epoch == 0 || identity_key_equal(&a.accuser, &a.accused)))
    e = ERR_MESSAGE;
  if (e == ERR_OK)
    *out_accusation = a;
  return e;
}

void accusation_write(const struct accusation *a, uint8_t out_bytes[ACCUSATION_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, ACCUSATION_BYTES);
  head_write(&w, &a->swarm);
  writer_bytes(&w, a->accuser.bytes, sizeof a->accuser.bytes);
  writer_bytes(&w, a->accused.bytes, sizeof a->accused.bytes);
  incarnation_write(&w, &a->incarnation);
  writer_bytes(&w, a->signature.bytes, SIGNATURE_BYTES);
  MUST(writer_end(&w) == ERR_OK && w.n_bytes == ACCUSATION_BYTES);
}

void accusation_sign(struct accusation *a, const struct identity *id) {
  uint8_t bytes[ACCUSATION_BYTES];
  a->accuser = *identity_public(id);
  accusation_write(a, bytes);
  identity_sign(id, accusation_domain, bytes, ACCUSATION_BODY_BYTES, &a->signature);
}

enum err accusation_verify(const struct accusation *a) {
  uint8_t bytes[ACCUSATION_BYTES];
  accusation_write(a, bytes);
  return signature_verify(&a->accuser, accusation_domain, bytes, ACCUSATION_BODY_BYTES, &a->signature);
}
