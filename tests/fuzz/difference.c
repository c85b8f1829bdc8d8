/* The first difference between two texts, divided by the first zero byte: words that can be shown, none when their lines
 * are equal. */
#include "gossip/difference.h"

#include <string.h>

#include "base/must.h"
#include "tests/fuzz/fuzz.h"

/* Without the end of a last line that is not empty. */
static struct text lines_of(struct text t) {
  bool is_ended = t.n >= 2 && t.at[t.n - 1] == '\n' && t.at[t.n - 2] != '\n';
  return (struct text){t.at, t.n - is_ended};
}

static bool lines_equal(struct text a, struct text b) {
  a = lines_of(a), b = lines_of(b);
  return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
  struct text ours = {(const char *)data, zero ? (size_t)(zero - data) : size};
  struct text theirs = {(const char *)data + (zero ? ours.n + 1 : size), zero ? size - ours.n - 1 : 0};
  bool are_equal = lines_equal(ours, theirs);
  char words[MAX_REASON_BYTES];
  memset(words, 'x', sizeof words);
  MUST(difference_find(ours, theirs, words) != are_equal);
  MUST(memchr(words, '\0', sizeof words) != NULL && (words[0] == '\0') == are_equal);
  for (const char *at = words; *at; at++)
    MUST((unsigned char)*at >= ' ' && *at != 0x7f);
  return 0;
}
