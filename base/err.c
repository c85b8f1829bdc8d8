#include "base/err.h"

#include <errno.h>
#include <stddef.h>

static const struct {
  const char *name;
  const char *sentence;
} errors[ERR_COUNT] = {
#define X(symbol, name, sentence) [ERR_##symbol] = {name, sentence},
    ERR_LIST_FAULTS(X) ERR_LIST_DROPS(X)
#undef X
};

static int is_listed(enum err e) {
  return (int)e >= 0 && e < ERR_COUNT;
}

const char *err_name(enum err e) {
  return is_listed(e) ? errors[e].name : "unknown";
}

const char *err_sentence(enum err e) {
  return is_listed(e) ? errors[e].sentence : "an error outside the list";
}

int err_drop_index(enum err e) {
  return e >= ERR_FIRST_DROP && e < ERR_COUNT ? (int)e - ERR_FIRST_DROP : -1;
}

enum err err_from_errno(int errno_value) {
  static const struct {
    int value;
    enum err e;
  } table[] = {
      {ENOMEM, ERR_NO_MEMORY},   {ENOSPC, ERR_NO_SPACE}, {EDQUOT, ERR_NO_SPACE},   {EROFS, ERR_READ_ONLY},
      {ENOENT, ERR_NOT_FOUND},   {EEXIST, ERR_EXISTS},   {EACCES, ERR_PERMISSION}, {EPERM, ERR_PERMISSION},
      {ELOOP, ERR_PERMISSION},   {EAGAIN, ERR_BUSY},     {ENOTDIR, ERR_NOT_FOUND}, {EISDIR, ERR_EXISTS},
      {ENAMETOOLONG, ERR_LIMIT},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].value == errno_value)
      return table[i].e;
  return ERR_IO;
}
