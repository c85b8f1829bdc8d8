#include "agent/scalar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/edit_distance.h"
#include "base/host.h"
#include "models/formats/number.h"

#define FAIL(error, ...) (snprintf(why, MAX_REASON_BYTES, __VA_ARGS__), (error))
#define QUOTED "\"%.40s\""

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_label_byte(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
}

/* n digits as a number; false when it does not fit. */
static bool digits_value(const char *text, size_t n, uint64_t *out_value) {
  uint64_t value = 0;
  for (size_t i = 0; i < n; i++)
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
      return false;
  *out_value = value;
  return true;
}

static size_t count_digits(const char *text) {
  size_t n = 0;
  while (is_digit(text[n]))
    n++;
  return n;
}

/* "s", " MiB": no digit further on, as in 1e9, 0x3, 1_000 and 5.5, of which the first digits are another number. */
static bool is_unit(const char *text) {
  return *text != '.' && *text != ',' && strcspn(text, "0123456789") == strlen(text);
}

enum err scalar_integer(const char *text, uint64_t min, uint64_t max, uint64_t *out_value, char why[MAX_REASON_BYTES]) {
  size_t n = count_digits(text);
  if (n == 0 || text[n] != '\0')
    return n > 0 && is_unit(text + n)
               ? FAIL(ERR_SYNTAX, QUOTED " is not a whole number; write %.*s, units stand in the key's name", text,
                      (int)(n > 20 ? 20 : n), text)
               : FAIL(ERR_SYNTAX, QUOTED " is not a whole number; write digits only", text);
  if (n > 1 && text[0] == '0')
    return FAIL(ERR_SYNTAX, QUOTED " begins with 0; write it without, numbers are decimal", text);
  uint64_t value;
  if (!digits_value(text, n, &value) || value < min || value > max)
    return FAIL(ERR_RANGE, QUOTED " is out of range; write %" PRIu64 " to %" PRIu64, text, min, max);
  *out_value = value;
  return ERR_OK;
}

enum err scalar_number(const char *text, double min, double max, double *out_value, char why[MAX_REASON_BYTES]) {
  double value;
  enum err e = number_read(text, strlen(text), &value);
  if (e == ERR_RANGE || (!e && (value < min || value > max)))
    return FAIL(ERR_RANGE, QUOTED " is out of range; write %.12g to %.12g", text, min, max);
  if (e) {
    const char *comma = strchr(text, ',');
    return comma && comma == strrchr(text, ',') && strlen(text) <= 40
               ? FAIL(ERR_SYNTAX, QUOTED " is not a number; write %.*s.%s", text, (int)(comma - text), text, comma + 1)
               : FAIL(ERR_SYNTAX, QUOTED " is not a number; write a finite decimal one such as 0.5", text);
  }
  *out_value = value;
  return ERR_OK;
}

static enum err fail_unit(const char *text, const struct scalar_unit *units, char why[MAX_REASON_BYTES]) {
  char known[64] = "";
  for (size_t i = 0, n = 0; units[i].name && n < sizeof known; i++)
    n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", units[i].name);
  return FAIL(ERR_SYNTAX, QUOTED " has no unit that is known here; write a number and one of %s", text, known);
}

enum err scalar_quantity(const char *text, const struct scalar_unit *units, double min, double max, double *out_value,
                         char why[MAX_REASON_BYTES]) {
  size_t n_text = strlen(text);
  for (const struct scalar_unit *u = units; u->name; u++) {
    size_t n = strlen(u->name);
    double value;
    if (n_text <= n || strcmp(text + n_text - n, u->name) != 0)
      continue;
    enum err e = number_read(text, n_text - n, &value);
    if (e == ERR_SYNTAX)
      continue; /* "ms" ends in "s" */
    if (e || value * u->factor < min || value * u->factor > max)
      return FAIL(ERR_RANGE, QUOTED " is out of range; write %.12g%s to %.12g%s", text, min / u->factor, u->name,
                  max / u->factor, u->name);
    *out_value = value * u->factor;
    return ERR_OK;
  }
  return fail_unit(text, units, why);
}

enum err scalar_word(const char *text, const char *const *words, size_t *out_index, char why[MAX_REASON_BYTES]) {
  for (size_t i = 0; words[i]; i++)
    if (strcmp(text, words[i]) == 0) {
      *out_index = i;
      return ERR_OK;
    }
  int n = snprintf(why, MAX_REASON_BYTES, QUOTED " is not known here; write ", text);
  for (size_t i = 0; words[i] && n < MAX_REASON_BYTES; i++)
    n += snprintf(why + n, MAX_REASON_BYTES - (size_t)n, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
  return ERR_SYNTAX;
}

enum err scalar_label(const char *text, char why[MAX_REASON_BYTES]) {
  size_t n = strlen(text);
  if (n >= MAX_NAME_BYTES)
    return FAIL(ERR_LIMIT, QUOTED "… is too long; write at most %d characters", text, MAX_NAME_BYTES - 1);
  bool good = n > 0 && text[0] != '.' && text[0] != '_' && text[0] != '-';
  for (size_t i = 0; i < n; i++)
    good = good && is_label_byte(text[i]);
  return good ? ERR_OK
              : FAIL(ERR_SYNTAX,
                     QUOTED " is not a label; write letters, digits, '.', '_' and '-', a letter or digit first", text);
}

/* ---- addresses ---------------------------------------------------------------------------------------------------- */

static bool is_host_name(const char *host, size_t n) {
  bool has_letter = false;
  for (size_t i = 0; i < n; i++) {
    if (!is_label_byte(host[i]))
      return false;
    has_letter = has_letter || !(is_digit(host[i]) || host[i] == '.');
  }
  return n > 0 && n < 254 && has_letter && host[0] != '.' && host[0] != '-';
}

static enum err tcp_check(const char *text, enum address_use use, char why[MAX_REASON_BYTES]) {
  const char *host = text + strlen("tcp://");
  const char *colon = strrchr(host, ':');
  const char *bracket = strrchr(host, ']');
  if (!colon || (bracket && bracket > colon))
    return FAIL(ERR_SYNTAX, QUOTED " has no port; write it as in tcp://10.20.0.3:7411", text);
  size_t n_digits = count_digits(colon + 1);
  uint64_t port;
  if (n_digits == 0 || colon[1 + n_digits] != '\0')
    return FAIL(ERR_SYNTAX, QUOTED " has no numeric port; write it as in tcp://10.20.0.3:7411", text);
  if (!digits_value(colon + 1, n_digits, &port) || port < 1 || port > 65535)
    return FAIL(ERR_RANGE, QUOTED " has a port out of range; write 1 to 65535", text);
  size_t n_host = (size_t)(colon - host);
  if (host_is_number(host, n_host) || (use == ADDRESS_DIAL && is_host_name(host, n_host)))
    return ERR_OK;
  return use == ADDRESS_LISTEN
             ? FAIL(ERR_SYNTAX, QUOTED " has no numeric host; write tcp://[::]:%" PRIu64 " for every interface", text,
                    port)
             : FAIL(ERR_SYNTAX, QUOTED " has no usable host; write a name, an IPv4 address or [IPv6]", text);
}

enum err scalar_address(const char *text, enum address_use use, char why[MAX_REASON_BYTES]) {
  enum { MAX_IPC_PATH = 107 }; /* sun_path, with its NUL */
  if (strlen(text) >= MAX_ADDRESS_BYTES)
    return FAIL(ERR_LIMIT, QUOTED "… is too long; an address has at most %d bytes", text, MAX_ADDRESS_BYTES - 1);
  if (strncmp(text, "tcp://", 6) == 0)
    return tcp_check(text, use, why);
  if (strncmp(text, "ipc:///", 7) == 0 && strlen(text + 6) <= MAX_IPC_PATH)
    return ERR_OK;
  return FAIL(ERR_SYNTAX, QUOTED " is not an address; write tcp://HOST:PORT or ipc:///PATH", text);
}

/* ---- shapes and ranges -------------------------------------------------------------------------------------------- */

enum err scalar_shape(const char *text, uint32_t out_shape[3], char why[MAX_REASON_BYTES]) {
  uint32_t shape[3];
  size_t n_extents = 0;
  for (const char *at = text; n_extents < 3; at++) {
    size_t n = count_digits(at);
    uint64_t extent;
    if (n == 0 || at[0] == '-' || (at[n] != 'x' && at[n] != '\0'))
      break;
    if (!digits_value(at, n, &extent) || extent < 1 || extent > MAX_FEATURES)
      return FAIL(ERR_RANGE, QUOTED " has an extent out of range; write 1 to %d", text, MAX_FEATURES);
    shape[n_extents++] = (uint32_t)extent;
    at += n;
    if (*at == '\0' && n_extents > 1) {
      out_shape[0] = 1; /* the only row of a series */
      memcpy(out_shape + 3 - n_extents, shape, n_extents * sizeof *shape);
      return ERR_OK;
    }
    if (*at == '\0')
      break;
  }
  return FAIL(ERR_SYNTAX,
              QUOTED
              " is not a shape; write height x width x channels of an image as in 28x28x1, or steps x values of a "
              "series as in 128x9",
              text);
}

void scalar_shape_write(const uint32_t shape[3], char out_text[SHAPE_TEXT_BYTES]) {
  int n = shape[0] > 1 ? snprintf(out_text, SHAPE_TEXT_BYTES, "%" PRIu32 "x", shape[0]) : 0;
  snprintf(out_text + n, SHAPE_TEXT_BYTES - (size_t)n, "%" PRIu32 "x%" PRIu32, shape[1], shape[2]);
}

enum err scalar_range(const char *text, double *out_lo, double *out_hi, char why[MAX_REASON_BYTES]) {
  const char *dots = strstr(text, "..");
  double lo, hi;
  if (!dots || number_read(text, (size_t)(dots - text), &lo) || number_read(dots + 2, strlen(dots + 2), &hi))
    return FAIL(ERR_SYNTAX, QUOTED " is not a range; write two numbers as in 0..255", text);
  if (!(lo < hi))
    return FAIL(ERR_RANGE, QUOTED " is an empty range; write the smaller number first", text);
  *out_lo = lo;
  *out_hi = hi;
  return ERR_OK;
}

/* ---- proposals ---------------------------------------------------------------------------------------------------- */

bool is_near(const char *text, const char *candidate) {
  size_t n = strlen(candidate);
  return edit_distance(text, candidate) <= (n < 4 ? 1 : n < 8 ? 2 : 3);
}
