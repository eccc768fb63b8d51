/* core/tokenizer/token.h - types of the vocabulary that users of the tokenizer need too.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_TOKENIZER_TOKEN_H
#define CORE_TOKENIZER_TOKEN_H

#include <stdint.h>

#define TOKEN_NONE (-1) /* stands for "no token" */

/* Ids of the tokens around a gap (fill in the middle), or TOKEN_NONE. A prompt is prefix, text
 * before the gap, suffix, text after it, middle; before these, `repository` and `file` may each
 * precede a name. */
struct infill_tokens {
    int32_t prefix, suffix, middle, pad, repository, file;
};

#endif
