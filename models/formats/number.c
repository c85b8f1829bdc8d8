#include "models/formats/number.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

/* The calling thread works in the C locale between these two; making it allocates nothing. */
struct c_locale {
  locale_t made, before;
};

static struct c_locale c_locale_enter(void) {
  struct c_locale l;
  l.made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  MUST(l.made != (locale_t)0);
  l.before = uselocale(l.made);
  return l;
}

static void c_locale_leave(struct c_locale l) {
  uselocale(l.before);
  freelocale(l.made);
}

static size_t n_digits(const char *s) {
  size_t n = 0;
  while (s[n] >= '0' && s[n] <= '9')
    n++;
  return n;
}

static const char *skip_sign(const char *s) {
  return *s == '+' || *s == '-' ? s + 1 : s;
}

static bool is_decimal(const char *s) {
  s = skip_sign(s);
  size_t whole = n_digits(s), fraction = 0;
  s += whole;
  if (*s == '.') {
    fraction = n_digits(s + 1);
    s += 1 + fraction;
  }
  if (whole + fraction == 0)
    return false;
  if (*s == 'e' || *s == 'E') {
    s = skip_sign(s + 1);
    size_t exponent = n_digits(s);
    if (exponent == 0)
      return false;
    s += exponent;
  }
  return *s == '\0';
}

enum err number_read(const char *text, size_t n_bytes, double *out_value) {
  char copy[MAX_NUMBER_BYTES + 1];
  if (n_bytes > MAX_NUMBER_BYTES)
    return ERR_LIMIT;
  memcpy(copy, text, n_bytes);
  copy[n_bytes] = '\0';
  if (strlen(copy) != n_bytes || !is_decimal(copy))
    return ERR_SYNTAX;
  struct c_locale locale = c_locale_enter();
  double value = strtod(copy, NULL);
  c_locale_leave(locale);
  if (!isfinite(value))
    return ERR_RANGE;
  *out_value = value;
  return ERR_OK;
}

void number_write(double value, char out_text[NUMBER_TEXT_BYTES]) {
  MUST(isfinite(value));
  struct c_locale locale = c_locale_enter();
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(out_text, NUMBER_TEXT_BYTES, "%.*g", digits, value);
    if (strtod(out_text, NULL) == value)
      break;
  }
  c_locale_leave(locale);
}
