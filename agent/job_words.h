/* NAME[@VERSION]: how people name a job. Pure; any thread. */
#ifndef AGENT_JOB_WORDS_H
#define AGENT_JOB_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

struct job_words {
  char name[MAX_NAME_BYTES];
  uint32_t version; /* 0: not said */
};

enum { JOB_WORDS_BYTES = MAX_NAME_BYTES + 16 };

/* ERR_SYNTAX, ERR_RANGE; why is half a sentence with the remedy. */
MUST_USE enum err job_words_read(const char *text, struct job_words *out_words, char why[MAX_REASON_BYTES]);

/* "inspection@2" */
void job_words_write(const char *name, uint32_t version, char out_text[JOB_WORDS_BYTES]);

/* Whether they mean this job. */
bool job_words_fit(const struct job_words *words, const char *name, uint32_t version);

#endif
