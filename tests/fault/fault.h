/* Fails one call of the outside world: of memory, files, sockets, ZeroMQ, libsodium, libyaml, zlib. fault.c has the table of
 * what can fail; the linker puts it between the rooms and the libraries. Only calls of the thread that armed it count. */
#ifndef TESTS_FAULT_FAULT_H
#define TESTS_FAULT_FAULT_H

#include <stdbool.h>
#include <stddef.h>

/* The k-th call from now on (from 1) fails, with this errno where it has one. */
void fault_arm(size_t k, int errno_value);

/* From now on none fails; whether one did. */
bool fault_disarm(void);

/* Calls in between do not count; whether it was armed. */
bool fault_pause(void);
void fault_go_on(bool was_armed);

/* From now on only allocations count, of this program and where it asks here by itself. */
void fault_memory_only(void);

/* Allocations that this thread has made and not freed. */
long fault_live(void);

/* One more allocation of a library: must it fail? */
bool fault_strikes(void);

#endif
