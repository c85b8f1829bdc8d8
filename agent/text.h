/* Text from outside, for a terminal or a log. */
#ifndef AGENT_TEXT_H
#define AGENT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at `at`, or 0 when it must be escaped: the final NUL, C0 and C1 controls, malformed UTF-8
 * (RFC 3629), and the characters that break a line or turn the direction of writing (U+2028 … U+202E, U+2066 … U+2069). */
size_t text_character_bytes(const char *at);

/* Whether nothing of it must be escaped. */
bool text_is_clean(const char *text);

/* Copies with every such byte as \xNN, cut at a whole character where it does not fit. */
void text_escape(const char *text, char *out_text, size_t capacity);

/* The n bytes as a string of their own; the caller frees. NULL: no memory. */
char *text_copy(const char *bytes, size_t n);

#endif
