/* scheduler/request/prediction.h - a client's guess at the whole answer (OpenAI's predicted
 * outputs).
 *
 * While the answer follows the prediction, the next guess is the prediction's next token. Where the
 * answer differs, the answer's last tokens are looked up in the prediction to find where it follows
 * again. How much of a prediction came true depends on the answer's tokens alone, and is the same
 * under any load.
 *
 * Source: OpenAI, "Predicted Outputs" (platform documentation): usage counts tokens of the
 * prediction that appeared in the completion, and those that did not.
 *
 * Thread: the server's until the post, then the engine's, as the rest of a request.
 * Memory: the request's.
 */
#ifndef SCHEDULER_REQUEST_PREDICTION_H
#define SCHEDULER_REQUEST_PREDICTION_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/request/token_lookup.h"

#define PREDICTION_FRESH 4 /* at its beginning the prediction counts as a match of so many tokens */

struct prediction { /* zero: none */
    int32_t *ids; /* [n] */
    uint32_t n;
    uint32_t at;       /* index of the next token, if the answer follows; n: it does not */
    uint32_t n_right;  /* tokens in a row that came true, PREDICTION_FRESH at the beginning */
    uint32_t accepted; /* tokens that came true in all, n at most */
    struct token_lookup lookup; /* the index of all ids */
};

/* Bytes for n ids and their index; the memory is to be aligned to 4 and zeroed. */
size_t prediction_bytes(uint32_t n);
/* Set up a prediction of n ids in `memory`, of prediction_bytes(n). The caller fills p->ids before
 * prediction_begin(). */
void prediction_init(struct prediction *p, void *memory, uint32_t n);
/* Start to follow the answer; the prediction's ids must be filled in. Tokens n_prompt .. n_given -
 * 1 of `ids` are the part of the answer that is known already. O(n + n_given). */
void prediction_begin(struct prediction *p, const int32_t *ids, uint32_t n_prompt,
                      uint32_t n_given);
/* Called when the answer got another token, the last one of ids[0 .. n_known). */
void prediction_take(struct prediction *p, const int32_t *ids, uint32_t n_known);

#endif
