/* UTF-8 as it is in texts for people: whole characters, none of them a control. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character at `at`, which ends with NUL; 0: it is malformed, or a control (C0, DEL, C1). */
size_t utf8_character_bytes(const char *at);

#endif
