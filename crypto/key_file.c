#include "crypto/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/must.h"
#include "crypto/key_text.h"

/* The record inside the base64. */
enum {
  SALT_BYTES = crypto_pwhash_SALTBYTES,
  SEED_AT = 2 + 2 + SALT_BYTES + 8 + 8 + 32,
  CHECKSUM_AT = SEED_AT + IDENTITY_SEED_BYTES,
  CHECKSUM_BYTES = 32,
  RECORD_BYTES = CHECKSUM_AT + CHECKSUM_BYTES,
  RECORD_CHARS = (RECORD_BYTES + 2) / 3 * 4,
  TEXT_BYTES = 128 + RECORD_CHARS, /* of a file we write */
};

/* Argon2id cost: what we write, and what we accept from a file. */
static const uint64_t write_ops = crypto_pwhash_OPSLIMIT_INTERACTIVE;
static const uint64_t write_memory_bytes = crypto_pwhash_MEMLIMIT_INTERACTIVE;
static const uint64_t max_ops = 16;
static const uint64_t max_memory_bytes = (uint64_t)256 * 1024 * 1024;

static const char comment[] = "untrusted comment: ";
static const char algorithm[2] = {'E', 'd'};
static const char kdf_none[2] = {'0', '0'};
static const char kdf_argon2id[2] = {'A', 'r'};

/* Everything secret that reading or writing a file needs, in one piece of guarded memory. */
struct key_scratch {
  char text[MAX_KEY_FILE_BYTES + 1];
  char passphrase[MAX_PASSPHRASE_BYTES];
  uint8_t record[RECORD_BYTES];
  uint8_t stream[IDENTITY_SEED_BYTES];
  uint8_t seed[IDENTITY_SEED_BYTES];
  uint8_t checksum[CHECKSUM_BYTES];
};

__attribute__((format(printf, 3, 4))) static enum err refuse(char *out_why, enum err e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(out_why, MAX_REASON_BYTES, format, args);
  va_end(args);
  return e;
}

static enum err refuse_errno(char *out_why, int errno_value, const char *what) {
  return refuse(out_why, err_from_errno(errno_value), "%s: %s", what, strerror(errno_value));
}

/* ---- the record ---- */

/* Argon2id of the passphrase, XORed into the record's seed: seals and unseals. */
static enum err seed_xor_stream(struct key_scratch *k, const uint8_t salt[SALT_BYTES], uint64_t ops, uint64_t memory) {
  if (crypto_pwhash(k->stream, sizeof k->stream, k->passphrase, strlen(k->passphrase), salt, ops, (size_t)memory,
                    crypto_pwhash_ALG_ARGON2ID13) != 0)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < IDENTITY_SEED_BYTES; i++)
    k->record[SEED_AT + i] ^= k->stream[i];
  return ERR_OK;
}

/* Over the record with its seed in plain. */
static void record_checksum(const struct key_scratch *k, uint8_t out_checksum[CHECKSUM_BYTES]) {
  crypto_generichash(out_checksum, CHECKSUM_BYTES, k->record, CHECKSUM_AT, NULL, 0);
}

/* Fills k->record; k->passphrase "" : none. */
static enum err record_write(struct key_scratch *k, const struct identity *id) {
  bool sealed = k->passphrase[0] != '\0';
  uint8_t salt[SALT_BYTES] = {0};
  if (sealed)
    randombytes_buf(salt, sizeof salt);
  identity_seed(id, k->seed);
  struct writer w;
  writer_init(&w, k->record, RECORD_BYTES);
  writer_bytes(&w, algorithm, sizeof algorithm);
  writer_bytes(&w, sealed ? kdf_argon2id : kdf_none, sizeof kdf_none);
  writer_bytes(&w, salt, sizeof salt);
  writer_u64(&w, sealed ? write_ops : 0);
  writer_u64(&w, sealed ? write_memory_bytes : 0);
  writer_bytes(&w, identity_public(id)->bytes, sizeof identity_public(id)->bytes);
  writer_bytes(&w, k->seed, sizeof k->seed);
  record_checksum(k, k->checksum);
  writer_bytes(&w, k->checksum, sizeof k->checksum);
  MUST(writer_end(&w) == ERR_OK && w.n_bytes == RECORD_BYTES);
  return sealed ? seed_xor_stream(k, salt, write_ops, write_memory_bytes) : ERR_OK;
}

/* Asks for the passphrase and unseals the record in place. */
static enum err record_unseal(struct key_scratch *k, const uint8_t salt[SALT_BYTES], uint64_t ops, uint64_t memory,
                              const struct passphrase_source *source, char *out_why) {
  if (ops < crypto_pwhash_OPSLIMIT_MIN || ops > max_ops || memory < crypto_pwhash_MEMLIMIT_MIN ||
      memory > max_memory_bytes)
    return refuse(out_why, ERR_RANGE, "its Argon2id cost is out of range (at most %u passes over %u MiB)",
                  (unsigned)max_ops, (unsigned)(max_memory_bytes >> 20));
  if (!source)
    return refuse(out_why, ERR_PASSPHRASE, "the key file has a passphrase and none was given");
  enum err e = source->read(source->context, k->passphrase);
  if (e != ERR_OK)
    return refuse(out_why, e, "the passphrase could not be read: %s", err_sentence(e));
  e = seed_xor_stream(k, salt, ops, memory);
  if (e != ERR_OK)
    return refuse(out_why, e, "not enough memory for its Argon2id cost of %u MiB", (unsigned)(memory >> 20));
  return ERR_OK;
}

/* Turns k->record into an identity. */
static enum err record_read(struct key_scratch *k, const struct passphrase_source *source,
                            struct identity **out_identity, char *out_why) {
  char alg[2], kdf[2];
  uint8_t salt[SALT_BYTES];
  struct identity_key public_key;
  struct cursor c;
  cursor_init(&c, k->record, RECORD_BYTES);
  cursor_bytes(&c, alg, sizeof alg);
  cursor_bytes(&c, kdf, sizeof kdf);
  cursor_bytes(&c, salt, sizeof salt);
  uint64_t ops = cursor_u64(&c);
  uint64_t memory = cursor_u64(&c);
  cursor_bytes(&c, public_key.bytes, sizeof public_key.bytes);

  bool sealed = memcmp(kdf, kdf_argon2id, sizeof kdf) == 0;
  if (memcmp(alg, algorithm, sizeof alg) != 0 || (!sealed && memcmp(kdf, kdf_none, sizeof kdf) != 0))
    return refuse(out_why, ERR_TOO_NEW, "its key or passphrase algorithm is unknown to this version");
  if (sealed) {
    enum err e = record_unseal(k, salt, ops, memory, source, out_why);
    if (e != ERR_OK)
      return e;
  }
  record_checksum(k, k->checksum);
  if (sodium_memcmp(k->checksum, k->record + CHECKSUM_AT, CHECKSUM_BYTES) != 0)
    return sealed ? refuse(out_why, ERR_PASSPHRASE, "the passphrase is wrong, or the key file is damaged")
                  : refuse(out_why, ERR_CORRUPT, "the key file is damaged: its checksum does not match");

  struct identity *id = NULL;
  if (identity_from_seed(k->record + SEED_AT, &id) != ERR_OK)
    return refuse(out_why, ERR_NO_MEMORY, "not enough memory");
  if (!identity_key_equal(identity_public(id), &public_key)) {
    identity_free(id);
    return refuse(out_why, ERR_CORRUPT, "the key file is damaged: its public key is not that of its secret key");
  }
  *out_identity = id;
  return ERR_OK;
}

/* ---- reading ---- */

static bool is_inside(const char *resolved, const char *directory) {
  char *resolved_directory = directory ? realpath(directory, NULL) : NULL;
  size_t n = resolved_directory ? strlen(resolved_directory) : 0;
  bool inside = n > 0 && strncmp(resolved, resolved_directory, n) == 0 && resolved[n] == '/';
  free(resolved_directory);
  return inside;
}

static bool is_read_only(int fd) {
  struct statvfs fs;
  return fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0;
}

/* The rules of the header, on the resolved file. */
static enum err key_file_judge(int fd, const char *resolved, const char *credentials_dir, char *out_why) {
  struct stat st;
  if (fstat(fd, &st) != 0)
    return refuse_errno(out_why, errno, "stat");
  unsigned mode = st.st_mode & 07777u;
  if (!S_ISREG(st.st_mode))
    return refuse(out_why, ERR_PERMISSION, "it is not a regular file");
  if (st.st_size > MAX_KEY_FILE_BYTES)
    return refuse(out_why, ERR_LIMIT, "it is larger than a key file can be (%d bytes)", MAX_KEY_FILE_BYTES);
  if (mode & 022)
    return refuse(out_why, ERR_PERMISSION,
                  "others may write it (mode %04o): chmod 600 it, and make a new key if in doubt", mode);
  if (is_inside(resolved, credentials_dir))
    return ERR_OK;
  if (is_read_only(fd) && (mode & 004) == 0)
    return ERR_OK;
  if (st.st_uid != geteuid())
    return refuse(out_why, ERR_PERMISSION, "it belongs to user %u and we run as %u: chown %u it", (unsigned)st.st_uid,
                  (unsigned)geteuid(), (unsigned)geteuid());
  if (mode & 077)
    return refuse(out_why, ERR_PERMISSION, "others may read it (mode %04o): chmod 600 it", mode);
  return ERR_OK;
}

/* The file's bytes as a string in k->text. */
static enum err text_load(struct key_scratch *k, const char *path, const char *credentials_dir, char *out_why) {
  enum err e = ERR_OK;
  int fd = -1;
  size_t n = 0;
  char *resolved = realpath(path, NULL);
  if (resolved)
    fd = open(resolved, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) {
    e = refuse_errno(out_why, errno, "it cannot be opened");
    goto out;
  }
  e = key_file_judge(fd, resolved, credentials_dir, out_why);
  if (e != ERR_OK)
    goto out;
  if (fd_read_full(fd, k->text, sizeof k->text, &n) != ERR_OK) {
    e = refuse_errno(out_why, errno, "it cannot be read");
    goto out;
  }
  if (n == sizeof k->text) { /* it grew since it was judged */
    e = refuse(out_why, ERR_LIMIT, "it is larger than a key file can be (%d bytes)", MAX_KEY_FILE_BYTES);
    goto out;
  }
  k->text[n] = '\0';
out:
  if (fd >= 0)
    close(fd);
  free(resolved);
  return e;
}

/* k->text to k->record. */
static enum err text_read(struct key_scratch *k, char *out_why) {
  if (k->text[0] == '\0')
    return refuse(out_why, ERR_TRUNCATED, "the key file is empty");
  const char *line = strncmp(k->text, comment, sizeof comment - 1) == 0 ? strchr(k->text, '\n') : NULL;
  if (!line)
    return refuse(out_why, ERR_SYNTAX, "it is not a Starling key file: its first line is no \"untrusted comment: …\"");
  line++;
  size_t n_chars = strcspn(line, "\r\n");
  if (n_chars < RECORD_CHARS)
    return refuse(out_why, ERR_TRUNCATED, "the key file ends too early: restore it from a copy");
  size_t n = 0;
  if (n_chars > RECORD_CHARS || line[n_chars + strspn(line + n_chars, "\r\n")] != '\0' ||
      sodium_base642bin(k->record, RECORD_BYTES, line, n_chars, NULL, &n, NULL, sodium_base64_VARIANT_ORIGINAL) != 0 ||
      n != RECORD_BYTES)
    return refuse(out_why, ERR_SYNTAX, "it is not a Starling key file: its second line is not %d base64 characters",
                  RECORD_CHARS);
  return ERR_OK;
}

enum err key_file_open(const char *path, const char *credentials_dir, const struct passphrase_source *source,
                       struct identity **out_identity, char out_why[MAX_REASON_BYTES]) {
  struct key_scratch *k = sodium_malloc(sizeof *k);
  if (!k)
    return refuse(out_why, ERR_NO_MEMORY, "not enough memory");
  enum err e = text_load(k, path, credentials_dir, out_why);
  if (e == ERR_OK)
    e = text_read(k, out_why);
  if (e == ERR_OK)
    e = record_read(k, source, out_identity, out_why);
  sodium_free(k);
  return e;
}

/* ---- writing ---- */

static size_t text_write(struct key_scratch *k, const struct identity *id) {
  char name[KEY_SHORT_BYTES], base64[RECORD_CHARS + 1];
  key_text_short(identity_public(id), name);
  sodium_bin2base64(base64, sizeof base64, k->record, RECORD_BYTES, sodium_base64_VARIANT_ORIGINAL);
  int n = snprintf(k->text, TEXT_BYTES, "%sstarling secret key %s\n%s\n", comment, name, base64);
  sodium_memzero(base64, sizeof base64);
  MUST(n > 0 && n < TEXT_BYTES);
  return (size_t)n;
}

/* A new file beside `path`, its contents durable. */
static enum err temporary_write(const char *temporary, const char *text, size_t n, char *out_why) {
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return refuse_errno(out_why, errno, "no file can be made in its directory");
  enum err e = ERR_OK;
  if (fd_write_all(fd, text, n) != ERR_OK || fsync(fd) != 0)
    e = refuse_errno(out_why, errno, "it cannot be written");
  close(fd);
  if (e != ERR_OK)
    unlink(temporary);
  return e;
}

static enum err directory_sync(const char *path, char *out_why) {
  const char *slash = strrchr(path, '/');
  char *directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  if (!directory)
    return refuse(out_why, ERR_NO_MEMORY, "not enough memory");
  int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  enum err e = ERR_OK;
  if (fd < 0 || fsync(fd) != 0)
    e = refuse_errno(out_why, errno, "its directory cannot be synchronised");
  if (fd >= 0)
    close(fd);
  free(directory);
  return e;
}

/* `link` never replaces, unlike rename: whoever made the name first keeps it. */
static enum err file_publish(const char *path, const char *text, size_t n, char *out_why) {
  char temporary[MAX_PATH_BYTES];
  int n_path = snprintf(temporary, sizeof temporary, "%s.%08x.tmp", path, randombytes_random());
  if (n_path < 0 || n_path >= (int)sizeof temporary)
    return refuse(out_why, ERR_LIMIT, "its path is too long");
  enum err e = temporary_write(temporary, text, n, out_why);
  if (e != ERR_OK)
    return e;
  int linked = link(temporary, path);
  int link_errno = errno;
  unlink(temporary);
  if (linked != 0 && link_errno == EEXIST)
    return refuse(out_why, ERR_EXISTS, "it exists and is never overwritten: move it away first");
  if (linked != 0)
    return refuse_errno(out_why, link_errno, "it cannot be made");
  return directory_sync(path, out_why);
}

enum err key_file_create(const char *path, const struct identity *id, const char *passphrase,
                         char out_why[MAX_REASON_BYTES]) {
  struct key_scratch *k = sodium_malloc(sizeof *k);
  if (!k)
    return refuse(out_why, ERR_NO_MEMORY, "not enough memory");
  enum err e = ERR_OK;
  int n_passphrase = snprintf(k->passphrase, sizeof k->passphrase, "%s", passphrase ? passphrase : "");
  if (n_passphrase >= MAX_PASSPHRASE_BYTES)
    e = refuse(out_why, ERR_LIMIT, "the passphrase is longer than %d bytes", MAX_PASSPHRASE_BYTES - 1);
  if (e == ERR_OK && record_write(k, id) != ERR_OK)
    e = refuse(out_why, ERR_NO_MEMORY, "not enough memory for the passphrase's Argon2id");
  if (e == ERR_OK)
    e = file_publish(path, k->text, text_write(k, id), out_why);
  sodium_free(k);
  return e;
}
