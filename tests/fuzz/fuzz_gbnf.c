/* tests/fuzz/fuzz_gbnf.c - libFuzzer: any bytes as a grammar in GBNF; behind a NUL, choices of
 * tokens.
 *
 * What is accepted is walked: what a mask allows is never refused afterwards.
 */
#include "core/grammar/gbnf.h"

#include "tests/fuzz/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *nul = memchr(data, 0, n);
    const size_t n_text = nul != NULL ? (size_t)(nul - data) : n;
    struct budget budget = {.steps_left = WALK_STEPS};
    char *own = mem_dup(data, n_text); /* the sanitizer sees a read past the end */
    struct grammar *g = NULL;
    struct constraint *c;
    struct buf text;
    char err[300] = "";
    int rc;

    rc = grammar_from_gbnf(&g, own, n_text, &budget, err, sizeof(err));
    c = walk_constraint(rc, g, &budget, err);
    buf_init(&text, 1u << 20);
    if (c != NULL)
        walk_grow(c, data + n_text, n - n_text, &text);
    buf_release(&text);
    constraint_unref(&c);
    mem_free(own);
    return 0;
}
