/* tests/fuzz/fuzz_gbnf.c - libFuzzer: any bytes as a grammar in GBNF; behind a NUL, choices of
 * tokens.
 *
 * What is accepted is walked: what a mask allows is never refused afterwards.
 */
#include "core/grammar/gbnf.h"

#include "tests/fuzz/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    walk_notation(data, n, grammar_from_gbnf);
    return 0;
}
