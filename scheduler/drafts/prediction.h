/* scheduler/drafts/prediction.h - a client's guess at the whole answer (OpenAI's predicted
 * outputs).
 *
 * While the answer follows it, the next token guessed is the next one of the prediction. Where the
 * answer leaves it, the place where both meet again is looked up by the answer's last tokens. How
 * much of a prediction came true depends on the tokens of the answer alone, whether drafts are
 * made or not: it is the same under any load.
 *
 * Source: OpenAI, "Predicted Outputs" (platform documentation): usage counts tokens of the
 * prediction that appeared in the completion, and those that did not.
 *
 * Thread: the server's until the post, then the engine's, as the rest of a request.
 * Memory: the request's.
 */
#ifndef SCHEDULER_DRAFTS_PREDICTION_H
#define SCHEDULER_DRAFTS_PREDICTION_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/drafts/token_lookup.h"

#define PREDICTION_FRESH 4 /* the beginning is trusted as if so many tokens had come true */

struct prediction { /* zero: none */
    int32_t *ids; /* [n] */
    uint32_t n;
    uint32_t at;       /* what comes next, if the answer follows it; n: it does not */
    uint32_t n_right;  /* tokens in a row that came true, with PREDICTION_FRESH at the beginning */
    uint32_t accepted; /* tokens that came true in all, n at most */
    struct token_lookup lookup; /* of all ids */
};

/* Memory behind the n ids, aligned to 4 and zeroed. */
size_t prediction_bytes(uint32_t n);
/* memory: prediction_bytes() of them; ids are its first n, to be filled in by the caller before
 * prediction_begin(). */
void prediction_init(struct prediction *p, void *memory, uint32_t n);
/* The ids are there, and of the answer, whose tokens stand in ids behind the n_prompt of the
 * prompt, those up to n_given. O(n + n_given). */
void prediction_begin(struct prediction *p, const int32_t *ids, uint32_t n_prompt,
                      uint32_t n_given);
/* The answer goes on: ids[0 .. n_known) ends with its latest token. */
void prediction_take(struct prediction *p, const int32_t *ids, uint32_t n_known);

#endif
