/* How far a mistyped word is from a known one, to name the one that was meant. Pure. */
#ifndef BASE_EDIT_DISTANCE_H
#define BASE_EDIT_DISTANCE_H

#include <stddef.h>

/* Levenshtein's distance (1966): the bytes to put in, take out or change that make one of the other. Bytes behind the
 * first MAX_NAME_BYTES − 1 of either do not count. */
size_t edit_distance(const char *a, const char *b);

#endif
