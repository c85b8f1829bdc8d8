#include "agent/job_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/scalar.h"

enum { MAX_VERSION = 1000000 };

enum err job_words_read(const char *text, struct job_words *out_words, char why[MAX_REASON_BYTES]) {
  struct job_words words = {.version = 0};
  size_t n = strcspn(text, "@");
  uint64_t version = 0;
  if (n == 0 || n >= MAX_NAME_BYTES) {
    snprintf(why, MAX_REASON_BYTES, "\"%.80s\" is no job; write NAME or NAME@VERSION", text);
    return ERR_SYNTAX;
  }
  memcpy(words.name, text, n);
  enum err e = scalar_label(words.name, why);
  if (!e && text[n] == '@')
    e = scalar_integer(text + n + 1, 1, MAX_VERSION, &version, why);
  if (e)
    return e;
  words.version = (uint32_t)version;
  *out_words = words;
  return ERR_OK;
}

void job_words_write(const char *name, uint32_t version, char out_text[JOB_WORDS_BYTES]) {
  snprintf(out_text, JOB_WORDS_BYTES, "%s@%" PRIu32, name, version);
}

bool job_words_fit(const struct job_words *words, const char *name, uint32_t version) {
  return strcmp(words->name, name) == 0 && (words->version == 0 || words->version == version);
}
