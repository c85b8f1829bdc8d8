/* The first difference between two canonical texts, in words. A canonical text is a list of lines `what: value`; its
 * line at which ours and theirs part is what a person must mend. Pure; any thread. */
#ifndef GOSSIP_DIFFERENCE_H
#define GOSSIP_DIFFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"

/* A text that is not NUL-terminated. */
struct text {
  const char *at;
  size_t n;
};

/* Compares line by line and writes for example
 *   class 2 is "dent" here, "scratch" there      (the line differs)
 *   feature 7 is missing here, temp_C there      (one side has a line more)
 * False, with out_words "", when the lines are equal: a last line may lack its newline. Lines longer than fits are cut. Foreign text: bytes that are not
 * printable UTF-8 are shown as "?". */
bool difference_find(struct text ours, struct text theirs, char out_words[MAX_REASON_BYTES]);

/* The longest beginning of the NUL-terminated text that has at most `capacity` bytes and ends with a whole line. */
struct text text_whole_lines(const char *text, size_t capacity);

#endif
