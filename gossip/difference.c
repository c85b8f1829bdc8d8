#include "gossip/difference.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SHOWN = 80 }; /* bytes of one name or value in the sentence */

struct text text_whole_lines(const char *text, size_t capacity) {
  size_t n = strlen(text);
  if (n <= capacity)
    return (struct text){text, n};
  while (capacity > 0 && text[capacity - 1] != '\n')
    capacity--;
  return (struct text){text, capacity};
}

/* Takes the first line, without its newline. */
static struct text line_take(struct text *rest) {
  const char *end = rest->n ? memchr(rest->at, '\n', rest->n) : NULL;
  struct text line = {rest->at, end ? (size_t)(end - rest->at) : rest->n};
  size_t used = line.n + (end != NULL);
  *rest = (struct text){rest->at + used, rest->n - used};
  return line;
}

static bool text_equal(struct text a, struct text b) {
  return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

/* Splits `what: value`; a line without a colon is all value. */
static struct text line_split(struct text line, struct text *out_value) {
  for (size_t i = 0; i + 1 < line.n; i++)
    if (line.at[i] == ':' && line.at[i + 1] == ' ') {
      *out_value = (struct text){line.at + i + 2, line.n - i - 2};
      return (struct text){line.at, i};
    }
  *out_value = line;
  return (struct text){line.at, 0};
}

/* Bytes of the UTF-8 sequence at the beginning, 0 when it is none (RFC 3629) or not printable. */
static size_t utf8_length(struct text t) {
  static const struct {
    uint8_t mask, lead;
    uint32_t least;
  } forms[] = {{0x80, 0x00, ' '}, {0xe0, 0xc0, 0xa0}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
  for (size_t n = 1; n <= 4 && n <= t.n; n++) {
    if (((uint8_t)t.at[0] & forms[n - 1].mask) != forms[n - 1].lead)
      continue;
    uint32_t point = (uint8_t)t.at[0] & (uint8_t)~forms[n - 1].mask;
    for (size_t i = 1; i < n; i++) {
      if (((uint8_t)t.at[i] & 0xc0) != 0x80)
        return 0;
      point = point << 6 | ((uint8_t)t.at[i] & 0x3f);
    }
    bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
    return point < forms[n - 1].least || is_surrogate || point > 0x10ffff || point == 0x7f ? 0 : n;
  }
  return 0;
}

/* What a sentence shows of foreign text: printable UTF-8, cut at a whole character. */
static void text_show(struct text t, char out[MAX_SHOWN]) {
  size_t used = 0;
  while (t.n > 0) {
    size_t n = utf8_length(t);
    if (used + (n ? n : 1) >= MAX_SHOWN)
      break;
    if (n)
      memcpy(out + used, t.at, n);
    else
      out[used] = '?';
    used += n ? n : 1;
    t = (struct text){t.at + (n ? n : 1), t.n - (n ? n : 1)};
  }
  out[used] = '\0';
}

static void difference_say(struct text ours, struct text theirs, bool we_have, bool they_have,
                           char out_words[MAX_REASON_BYTES]) {
  struct text value_ours = {"", 0}, value_theirs = {"", 0}, name = {"", 0}, name_theirs = {"", 0};
  if (we_have)
    name = line_split(ours, &value_ours);
  if (they_have)
    name_theirs = line_split(theirs, &value_theirs);
  bool is_same_name = we_have && they_have && text_equal(name, name_theirs);
  if (we_have && they_have && !is_same_name) /* another line altogether: show both whole */
    value_ours = ours, value_theirs = theirs;

  char shown_name[MAX_SHOWN], here[MAX_SHOWN], there[MAX_SHOWN];
  text_show(we_have ? name : name_theirs, shown_name);
  text_show(value_ours, here);
  text_show(value_theirs, there);
  bool is_named = (is_same_name || !we_have || !they_have) && shown_name[0];
  snprintf(out_words, MAX_REASON_BYTES, "%s is %s here, %s there", is_named ? shown_name : "a line",
           we_have ? here : "missing", they_have ? there : "missing");
}

bool difference_find(struct text ours, struct text theirs, char out_words[MAX_REASON_BYTES]) {
  out_words[0] = '\0';
  while (ours.n > 0 || theirs.n > 0) {
    bool we_have = ours.n > 0, they_have = theirs.n > 0;
    struct text a = line_take(&ours), b = line_take(&theirs);
    if (we_have && they_have && text_equal(a, b))
      continue;
    difference_say(a, b, we_have, they_have, out_words);
    return true;
  }
  return false;
}
