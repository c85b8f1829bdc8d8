#include "agent/tree.h"
#include "agent/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct builder {
  yaml_parser_t parser;
  yaml_event_t event; /* the one at hand */
  size_t n_nodes;
  struct place *out_place;
  char *why;
};

static struct place place_of(yaml_mark_t mark) {
  return (struct place){(uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

static enum err fail(struct builder *b, enum err e, struct place at, const char *sentence) {
  *b->out_place = at;
  snprintf(b->why, MAX_REASON_BYTES, "%s", sentence);
  return e;
}

/* ---- the bytes ---------------------------------------------------------------------------------------------------- */

/* Decodes one character of UTF-8; its length, 0 when it is malformed. */
static size_t utf8_read(const unsigned char *at, size_t left, uint32_t *out_code) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t n = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
  if (n == 0 || n > left)
    return 0;
  uint32_t code = n == 1 ? at[0] : at[0] & (0x7fu >> n);
  for (size_t i = 1; i < n; i++) {
    if (at[i] >> 6 != 2)
      return 0;
    code = code << 6 | (at[i] & 0x3fu);
  }
  if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
    return 0;
  *out_code = code;
  return n;
}

/* What may not stand in the file, as half a sentence; NULL: fine. */
static const char *character_fault(uint32_t code) {
  if (code == '\t')
    return "a tab; write spaces";
  if (code == 0)
    return "a NUL byte; is this a text file?";
  if ((code < 0x20 && code != '\n' && code != '\r') || (code >= 0x7f && code <= 0x9f))
    return "a control character; remove it";
  if (code == 0x2028 || code == 0x2029 || code == 0xfeff || code == 0xfffe || code == 0xffff)
    return "an invisible character; remove it";
  return NULL;
}

static enum err check_characters(struct builder *b, const char *bytes, size_t n_bytes) {
  struct place at = {1, 1};
  for (size_t i = 0; i < n_bytes;) {
    uint32_t code;
    size_t n = utf8_read((const unsigned char *)bytes + i, n_bytes - i, &code);
    if (n == 0)
      return fail(b, ERR_SYNTAX, at, "a byte that is not UTF-8; save the file as UTF-8");
    const char *fault = character_fault(code);
    if (fault)
      return fail(b, ERR_SYNTAX, at, fault);
    bool ends_line = code == '\n' || (code == '\r' && !(i + 1 < n_bytes && bytes[i + 1] == '\n'));
    at = ends_line ? (struct place){at.line + 1, 1} : (struct place){at.line, at.column + (code != '\r')};
    i += n;
  }
  return ERR_OK;
}

/* ---- the events --------------------------------------------------------------------------------------------------- */

/* libyaml's words and ours, for what people meet; what is not closed is shown where it begins. */
struct problem {
  const char *words, *sentence;
  bool at_beginning;
};

static const struct problem *problem_find(const char *words) {
  static const struct problem table[] = {
      {"mapping values are not allowed in this context",
       "a ':' that does not belong here; check the indentation or quote the value", false},
      {"could not find expected ':'", "a key without ':'; write KEY: VALUE", true},
      {"did not find expected key", "no key where one is expected; check indentation and quotes", false},
      {"did not find expected ',' or ']'", "the list that begins here is not closed; write ']'", true},
      {"did not find expected ',' or '}'", "the map that begins here is not closed; write '}'", true},
      {"did not find expected '-' indicator", "no '-' where a list goes on; check the indentation", false},
      {"did not find expected <document start>", "text after the end of the document; check the indentation", false},
      {"did not find expected node content", "no value where one is expected; write one or remove the comma", false},
      {"found unexpected end of stream", "the quotes that begin here are not closed; write the closing one", true},
      {"found character that cannot start any token", "a character that cannot begin a value; quote the value", false},
      {"block sequence entries are not allowed in this context",
       "a '-' that does not belong here; start the list on a new line", false},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(words, table[i].words) == 0)
      return &table[i];
  return NULL;
}

static enum err fail_parser(struct builder *b) {
  const yaml_parser_t *p = &b->parser;
  if (p->error == YAML_MEMORY_ERROR)
    return fail(b, ERR_NO_MEMORY, (struct place){0}, err_sentence(ERR_NO_MEMORY));
  const char *words = p->problem ? p->problem : err_sentence(ERR_SYNTAX);
  const struct problem *known = problem_find(words);
  return fail(b, ERR_SYNTAX, place_of(known && known->at_beginning ? p->context_mark : p->problem_mark),
              known ? known->sentence : words);
}

static enum err next_event(struct builder *b) {
  yaml_event_delete(&b->event);
  if (yaml_parser_parse(&b->parser, &b->event))
    return ERR_OK;
  memset(&b->event, 0, sizeof b->event);
  return fail_parser(b);
}

static enum err refuse_extras(struct builder *b) {
  struct place at = place_of(b->event.start_mark);
  const yaml_char_t *anchor = NULL, *tag = NULL;
  switch (b->event.type) {
  case YAML_ALIAS_EVENT:
    return fail(b, ERR_SYNTAX, at, "an alias; write the value out");
  case YAML_SCALAR_EVENT:
    anchor = b->event.data.scalar.anchor, tag = b->event.data.scalar.tag;
    break;
  case YAML_SEQUENCE_START_EVENT:
    anchor = b->event.data.sequence_start.anchor, tag = b->event.data.sequence_start.tag;
    break;
  case YAML_MAPPING_START_EVENT:
    anchor = b->event.data.mapping_start.anchor, tag = b->event.data.mapping_start.tag;
    break;
  default:
    break;
  }
  if (anchor)
    return fail(b, ERR_SYNTAX, at, "an anchor ('&'); quote the value or write it out");
  return tag ? fail(b, ERR_SYNTAX, at, "a tag ('!'); quote the value or remove it") : ERR_OK;
}

/* Copies the scalar at hand. Line breaks come from folding, other control characters from escapes in quotes. */
static enum err take_text(struct builder *b, char **out_text) {
  const char *value = (const char *)b->event.data.scalar.value;
  size_t n = b->event.data.scalar.length;
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
      return fail(b, ERR_SYNTAX, place_of(b->event.start_mark),
                  "a line break or control character inside a value; write it in one line");
  char *text = text_copy(value, n);
  if (!text)
    return fail(b, ERR_NO_MEMORY, (struct place){0}, err_sentence(ERR_NO_MEMORY));
  *out_text = text;
  return ERR_OK;
}

static enum err build(struct builder *b, size_t depth, struct tree **out_tree);

/* The children of the list or map that has just begun, up to its end event. */
static enum err build_children(struct builder *b, size_t depth, struct tree *parent) {
  yaml_event_type_t end = parent->kind == TREE_LIST ? YAML_SEQUENCE_END_EVENT : YAML_MAPPING_END_EVENT;
  for (struct tree **tail = &parent->first;; tail = &(*tail)->next) {
    char *key = NULL;
    struct place key_place = {0};
    enum err e = next_event(b);
    if (e || b->event.type == end)
      return e;
    if (parent->kind == TREE_MAP) {
      key_place = place_of(b->event.start_mark);
      e = refuse_extras(b);
      if (!e && b->event.type != YAML_SCALAR_EVENT)
        e = fail(b, ERR_SYNTAX, key_place, "a list or map as key; write a word");
      if (!e)
        e = take_text(b, &key);
      if (!e)
        e = next_event(b);
    }
    if (!e)
      e = build(b, depth + 1, tail);
    if (e) {
      free(key);
      return e;
    }
    (*tail)->key = key;
    (*tail)->key_place = key_place;
  }
}

/* The node that begins with the event at hand. */
static enum err build(struct builder *b, size_t depth, struct tree **out_tree) {
  struct place at = place_of(b->event.start_mark);
  enum err e = refuse_extras(b);
  if (e)
    return e;
  if (depth > MAX_TREE_DEPTH)
    return fail(b, ERR_LIMIT, at, "nested too deeply; no key needs this");
  if (++b->n_nodes > MAX_TREE_NODES)
    return fail(b, ERR_LIMIT, at, "too many values in one file");
  struct tree *node = calloc(1, sizeof *node);
  if (!node)
    return fail(b, ERR_NO_MEMORY, (struct place){0}, err_sentence(ERR_NO_MEMORY));
  node->place = at;
  node->kind = b->event.type == YAML_SCALAR_EVENT           ? TREE_TEXT
               : b->event.type == YAML_SEQUENCE_START_EVENT ? TREE_LIST
                                                            : TREE_MAP;
  e = node->kind == TREE_TEXT ? take_text(b, &node->text) : build_children(b, depth, node);
  if (e) {
    tree_free(node);
    return e;
  }
  *out_tree = node;
  return ERR_OK;
}

/* Stream and document around the one root node. */
static enum err build_document(struct builder *b, struct tree **out_tree) {
  enum err e = next_event(b); /* start of the stream */
  if (!e)
    e = next_event(b);
  if (!e && b->event.type == YAML_STREAM_END_EVENT)
    e = fail(b, ERR_SYNTAX, (struct place){1, 1}, "the file is empty");
  if (!e)
    e = next_event(b);
  if (!e)
    e = build(b, 1, out_tree);
  if (!e)
    e = next_event(b); /* end of the document */
  if (!e)
    e = next_event(b);
  if (!e && b->event.type != YAML_STREAM_END_EVENT)
    e = fail(b, ERR_SYNTAX, place_of(b->event.start_mark), "a second document ('---'); one file holds one");
  return e;
}

enum err tree_read(const char *bytes, size_t n_bytes, struct tree **out_tree, struct place *out_place,
                   char why[MAX_REASON_BYTES]) {
  static const char bom[] = "\xef\xbb\xbf";
  struct builder b = {.out_place = out_place};
  b.why = why;
  if (n_bytes >= 3 && memcmp(bytes, bom, 3) == 0)
    bytes += 3, n_bytes -= 3;
  enum err e = check_characters(&b, bytes, n_bytes);
  if (e)
    return e;
  if (!yaml_parser_initialize(&b.parser))
    return fail(&b, ERR_NO_MEMORY, (struct place){0}, err_sentence(ERR_NO_MEMORY));
  yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&b.parser, (const unsigned char *)bytes, n_bytes);
  struct tree *root = NULL;
  e = build_document(&b, &root);
  yaml_event_delete(&b.event);
  yaml_parser_delete(&b.parser);
  if (e) {
    tree_free(root);
    return e;
  }
  *out_tree = root;
  return ERR_OK;
}

void tree_free(struct tree *t) {
  while (t) {
    struct tree *next = t->next;
    tree_free(t->first);
    free(t->text);
    free(t->key);
    free(t);
    t = next;
  }
}

void place_tell(char *out, size_t n, const char *path, struct place at, const char *format, va_list arguments) {
  char sentence[2 * MAX_REASON_BYTES];
  vsnprintf(sentence, sizeof sentence, format, arguments);
  if (at.line)
    snprintf(out, n, "%s:%u:%u: %s", path, at.line, at.column, sentence);
  else
    snprintf(out, n, "%s: %s", path, sentence);
}
