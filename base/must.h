/* MUST(cond): a statement about our own code, checked in every build. When it is false the program has a bug, its state
 * cannot be trusted, and it aborts at once with the place; the store makes that safe. Never for input from outside. */
#ifndef BASE_MUST_H
#define BASE_MUST_H

#define MUST(cond) ((cond) ? (void)0 : must_fail(#cond, __FILE__, __LINE__))

__attribute__((noreturn, cold)) void must_fail(const char *condition, const char *file, int line);

#endif
