/* tests/unit/grammar/byte_trie.h - a vocabulary of single bytes, and texts that constraints take.
 *
 * Thread: one.
 * Memory: taken in set_up(), freed in tear_down(): a group's.
 */
#ifndef TESTS_UNIT_GRAMMAR_BYTE_TRIE_H
#define TESTS_UNIT_GRAMMAR_BYTE_TRIE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/grammar/constraint.h"
#include "core/grammar/token_trie.h"

enum answer { WRONG = 0, PREFIX, MATCH };

static struct token_trie *bytes; /* token b is the byte b */
static struct constraint_scratch *scratch;
static struct constraint_state *state_of_text;

static inline enum answer answer_to(const struct constraint *c, const char *text)
{
    constraint_state_init(state_of_text, c);
    if (constraint_advance(state_of_text, scratch, text, strlen(text)) == CONSTRAINT_BROKEN)
        return WRONG;
    return constraint_may_end(state_of_text, scratch) ? MATCH : PREFIX;
}

static inline int set_up(void **state)
{
    static char all[256];
    struct trie_text texts[256];
    (void)state;

    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
        texts[i] = (struct trie_text){all + i, 1, i, false};
    }
    state_of_text = malloc(constraint_state_bytes());
    return token_trie_create(&bytes, texts, 256, 0) + constraint_scratch_create(&scratch);
}

static inline int tear_down(void **state)
{
    (void)state;
    token_trie_destroy(&bytes);
    constraint_scratch_destroy(&scratch);
    free(state_of_text);
    return 0;
}

#endif
