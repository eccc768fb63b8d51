/* tests/fuzz/target.h - what every fuzz target has: its entry, and how it says that a promise does
 * not hold.
 *
 * Thread: one.
 * Memory: none.
 */
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* libFuzzer and replay.c keep the input of a run that was aborted. */
static inline void require(bool holds)
{
    if (!holds)
        abort();
}

#endif
