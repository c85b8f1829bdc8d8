/* A job file that somebody stands for: the text as it is, the job that it describes, who proposes it, and a signature. It is
 * how a swarm agrees on a new job or version without copying files by hand, and how a new site gets its job.
 *
 * Canonical bytes, little-endian, in this order:
 *   format u8 (1) · swarm 16 · job 32 · proposer 32 · version u32 · n u8 · name n · n u8 · run label n · n u16 · text n ·
 *   signature 64
 * The signature covers the BLAKE2b-256 of everything before it, so that what is signed stays short. One object has one
 * encoding: what was read, written again, gives the same bytes. Whether the text is a job file, and of this name, version and
 * label, is for whoever can parse it.
 *
 * Pure; any thread. */
#ifndef CRYPTO_JOB_FILE_H
#define CRYPTO_JOB_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/limits.h"
#include "crypto/identity.h"
#include "crypto/names.h"

enum {
  JOB_FILE_FORMAT = 1,
  JOB_FILE_MAX_BYTES = 1 + 16 + 32 + 32 + 4 + 2 * MAX_NAME_BYTES + 2 + MAX_JOB_TEXT_BYTES + SIGNATURE_BYTES,
};

struct job_file {
  struct swarm_id swarm;
  struct digest job; /* job_id of the three that follow */
  char name[MAX_NAME_BYTES], run_label[MAX_NAME_BYTES];
  uint32_t version; /* ≥ 1 */
  struct identity_key proposer;
  const char *text; /* borrowed, without a final NUL */
  size_t n_text;    /* 1 … MAX_JOB_TEXT_BYTES */
  struct signature signature;
};

/* Reads and checks the form; the text borrows from `bytes`. ERR_TRUNCATED or ERR_TRAILING (length), ERR_VERSION (format),
 * ERR_LENGTH (text empty or too long), ERR_MESSAGE (a name or label that is none, a version of 0, a control byte in the text
 * other than newline, tab or carriage return), ERR_JOB (the job is not that of the names). */
MUST_USE enum err job_file_read(const void *bytes, size_t n, struct job_file *out_file);

/* Writes at most JOB_FILE_MAX_BYTES; what is outside the bounds is our own bug. */
void job_file_write(const struct job_file *f, struct writer *w);

/* Sets job, proposer and signature, in the domain "starling/v1/job-file". */
void job_file_sign(struct job_file *f, const struct identity *id);

/* ERR_SIGNATURE: not signed by its proposer. */
MUST_USE enum err job_file_verify(const struct job_file *f);

#endif
