/* YAML as a tree of text: every value is text, a list or a map, with the line and column where it stands.
 *
 * libyaml's events are used directly, because the place of every key and value is wanted, no scalar may be coerced, and
 * anchors, aliases and tags must be seen to be refused. The subset that is left reads the same in every YAML version: one
 * document, UTF-8 (a BOM and CRLF are fine), no tabs or control characters. Bounded before anything is built: bytes by
 * the caller, MAX_TREE_DEPTH levels, MAX_TREE_NODES nodes. Any thread; the caller frees. */
#ifndef AGENT_TREE_H
#define AGENT_TREE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

enum { MAX_TREE_DEPTH = 12, MAX_TREE_NODES = 65536 };

/* From 1; columns count characters. 0: the whole file. */
struct place {
  uint32_t line, column;
};

enum tree_kind { TREE_TEXT, TREE_LIST, TREE_MAP };

struct tree {
  enum tree_kind kind;
  struct place place;
  char *text; /* TREE_TEXT: without control characters */
  char *key;  /* child of a map */
  struct place key_place;
  struct tree *first, *next; /* children in order; NULL at the end */
};

/* Errors come with their place and half a sentence with the remedy. ERR_SYNTAX, ERR_LIMIT, ERR_NO_MEMORY. */
MUST_USE enum err tree_read(const char *bytes, size_t n_bytes, struct tree **out_tree, struct place *out_place,
                            char why[MAX_REASON_BYTES]);
void tree_free(struct tree *t);

/* The one line of an error in a file: "path:line:column: what is wrong; what to write", or "path: …" where there is no place. */
__attribute__((format(printf, 5, 0))) void place_tell(char *out, size_t n, const char *path, struct place at,
                                                      const char *format, va_list arguments);

#endif
