/* A fuzz target is one function over foreign bytes that must neither crash nor leak, whatever they are: libFuzzer's entry.
 *
 * TARGET.c is the target, the folder TARGET/ its corpus. Linked with replay.c it is a test that needs no fuzzer; linked
 * by clang with -fsanitize=fuzzer,address,undefined and the room's sources it is one. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
