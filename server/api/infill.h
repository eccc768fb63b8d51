/* server/api/infill.h - prompts that ask for the text between two texts.
 *
 * [BOS] repository and other files, prefix, text before the gap, suffix, text after it, middle: for
 * models whose vocabulary has tokens for this. The texts are plain: names of special tokens in them
 * are ordinary text.
 *
 * Thread: any.
 * Memory: a spec borrows from the JSON tree of the body.
 */
#ifndef SERVER_API_INFILL_H
#define SERVER_API_INFILL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/json/json.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/params/infill_spec.h"

/* True: the model's vocabulary has the tokens for such prompts. */
bool infill_is_known(const struct tokenizer *t);

/* Append the prompt with `prompt`, a string or ids within the vocabulary or NULL, before the gap;
 * the list may have at most `max` ids: ERR_LIMIT when there are more, or when the budget (NULL: no
 * limit) is used up, ERR_CANCELED, ERR_NOMEM. */
int infill_encode(const struct tokenizer *t, const struct infill_spec *spec, const cJSON *prompt,
                  size_t max, struct budget *budget, struct token_list *out);

#endif
