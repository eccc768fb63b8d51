/* tests/fuzz/fuzz_regex.c - libFuzzer: any bytes as a regular expression; behind a NUL, choices of
 * tokens.
 *
 * What is accepted is walked: what a mask allows is never refused afterwards.
 */
#include "core/grammar/regex.h"

#include "tests/fuzz/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    walk_notation(data, n, grammar_from_regex);
    return 0;
}
