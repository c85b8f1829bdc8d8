#include "crypto/job_file.h"

#include <string.h>

#include "base/must.h"
#include "crypto/digest.h"

static const char domain[] = "starling/v1/job-file";

static bool is_name(const char *text, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!(text[i] >= 'a' && text[i] <= 'z') && !(text[i] >= 'A' && text[i] <= 'Z') &&
        !(text[i] >= '0' && text[i] <= '9') && text[i] != '.' && text[i] != '_' && text[i] != '-')
      return false;
  return true;
}

static bool is_text(const char *text, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (((unsigned char)text[i] < ' ' && text[i] != '\n' && text[i] != '\t' && text[i] != '\r') || text[i] == 0x7f)
      return false;
  return true;
}

/* A short name with its length before it: whether it is one. */
static bool name_read(struct cursor *c, size_t min, char out_name[MAX_NAME_BYTES]) {
  size_t n = cursor_u8(c);
  const char *at = (const char *)cursor_view(c, n);
  if (!at || n < min || n >= MAX_NAME_BYTES || !is_name(at, n))
    return false;
  memcpy(out_name, at, n);
  return true;
}

static enum err body_read(struct cursor *c, struct job_file *f) {
  cursor_bytes(c, f->swarm.bytes, sizeof f->swarm.bytes);
  cursor_bytes(c, f->job.bytes, DIGEST_BYTES);
  cursor_bytes(c, f->proposer.bytes, sizeof f->proposer.bytes);
  f->version = cursor_u32(c);
  bool is_named = name_read(c, 1, f->name);
  is_named &= name_read(c, 0, f->run_label);
  f->n_text = cursor_u16(c);
  if (!c->failed && (f->n_text == 0 || f->n_text > MAX_JOB_TEXT_BYTES))
    return ERR_LENGTH;
  f->text = (const char *)cursor_view(c, f->n_text);
  cursor_bytes(c, f->signature.bytes, SIGNATURE_BYTES);
  enum err e = cursor_end(c);
  return e == ERR_OK && (!is_named || f->version == 0 || !is_text(f->text, f->n_text)) ? ERR_MESSAGE : e;
}

static enum err job_file_judge(const struct job_file *f) {
  struct digest job = job_id(&f->swarm, f->name, f->version, f->run_label);
  return digest_equal(&job, &f->job) ? ERR_OK : ERR_JOB;
}

enum err job_file_read(const void *bytes, size_t n, struct job_file *out_file) {
  struct job_file f = {0};
  struct cursor c;
  cursor_init(&c, bytes, n);
  uint8_t format = cursor_u8(&c);
  if (!c.failed && format != JOB_FILE_FORMAT)
    return ERR_VERSION;
  enum err e = body_read(&c, &f);
  if (e == ERR_OK)
    e = job_file_judge(&f);
  if (e == ERR_OK)
    *out_file = f;
  return e;
}

static void name_write(const char *name, struct writer *w) {
  size_t n = strlen(name);
  MUST(n < MAX_NAME_BYTES);
  writer_u8(w, (uint8_t)n);
  writer_bytes(w, name, n);
}

static void body_write(const struct job_file *f, struct writer *w) {
  MUST(f->n_text >= 1 && f->n_text <= MAX_JOB_TEXT_BYTES && f->name[0] && f->version > 0);
  writer_u8(w, JOB_FILE_FORMAT);
  writer_bytes(w, f->swarm.bytes, sizeof f->swarm.bytes);
  writer_bytes(w, f->job.bytes, DIGEST_BYTES);
  writer_bytes(w, f->proposer.bytes, sizeof f->proposer.bytes);
  writer_u32(w, f->version);
  name_write(f->name, w);
  name_write(f->run_label, w);
  writer_u16(w, (uint16_t)f->n_text);
  writer_bytes(w, f->text, f->n_text);
}

void job_file_write(const struct job_file *f, struct writer *w) {
  body_write(f, w);
  writer_bytes(w, f->signature.bytes, SIGNATURE_BYTES);
}

static struct digest body_digest(const struct job_file *f) {
  uint8_t body[JOB_FILE_MAX_BYTES];
  struct writer w;
  writer_init(&w, body, sizeof body);
  body_write(f, &w);
  MUST(writer_end(&w) == ERR_OK);
  return digest_of(&digest_blake2b, body, w.n_bytes);
}

void job_file_sign(struct job_file *f, const struct identity *id) {
  f->job = job_id(&f->swarm, f->name, f->version, f->run_label);
  f->proposer = *identity_public(id);
  struct digest body = body_digest(f);
  identity_sign(id, domain, body.bytes, DIGEST_BYTES, &f->signature);
}

enum err job_file_verify(const struct job_file *f) {
  struct digest body = body_digest(f);
  return signature_verify(&f->proposer, domain, body.bytes, DIGEST_BYTES, &f->signature);
}
