/* core/tokenizer/token.h - what the vocabulary and the tokenizer say of a token alike.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_TOKENIZER_TOKEN_H
#define CORE_TOKENIZER_TOKEN_H

#include <stdint.h>

#define TOKEN_NONE (-1) /* in place of an id */

/* The tokens that stand around a gap in a text, or TOKEN_NONE. A prompt for what is missing is
 * prefix, text before, suffix, text after, middle; before these, `repository` and `file` may each
 * precede a name. */
struct infill_tokens {
    int32_t prefix, suffix, middle, pad, repository, file;
};

#endif
