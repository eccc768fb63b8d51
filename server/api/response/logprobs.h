/* server/api/response/logprobs.h - the four parallel arrays of the legacy "logprobs" object, and
 * the entries of a chat's.
 *
 * They are JSON text that grows by one entry per token, so that nothing is stored twice.
 *
 * Thread: one owner.
 * Memory: bounded by HTTP_MAX_REPLY together.
 */
#ifndef SERVER_API_RESPONSE_LOGPROBS_H
#define SERVER_API_RESPONSE_LOGPROBS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "scheduler/request/request.h"

struct tokenizer;

struct logprobs {
    uint32_t n; /* entries since the last clear */
    struct buf tokens, values, tops, offsets;
};

struct logprob_entry {
    int32_t id;
    const float *logprob;          /* NULL for the first prompt token: null in the arrays */
    const struct top_logprob *top; /* [n_top], best first */
    uint32_t n_top;
    uint64_t offset; /* characters before the token */
    bool as_ids;     /* tokens are named "token_id:5" */
    bool has_shares; /* the numbers are probabilities: prob and top_probs in an entry */
};

void logprobs_init(struct logprobs *l);
void logprobs_release(struct logprobs *l);
void logprobs_clear(struct logprobs *l);

void logprobs_add(struct logprobs *l, const struct tokenizer *t, const struct logprob_entry *entry);

/* Appends {"tokens":[…],"token_logprobs":[…],"top_logprobs":[…],"text_offset":[…]}. */
void logprobs_render(const struct logprobs *l, struct buf *out);

/* Appends the entry as a chat has it, with a comma before it unless `b` is empty:
 * {"token":…,"logprob":…,"bytes":[…],"top_logprobs":[…]}; with_ids: "id":… before each token. */
void logprobs_add_entry(struct buf *b, const struct tokenizer *t,
                        const struct logprob_entry *entry, bool with_ids);

/* Appends a comma and the entry of a prompt's token:
 * {"5":{"logprob":…,"rank":…,"decoded_token":…},…} by ids, the token itself first. */
void logprobs_add_ranked(struct buf *b, const struct tokenizer *t,
                         const struct logprob_entry *entry, uint32_t rank);

/* Appends a token as a JSON string: its text, or "bytes:\\xe2\\x82" if that is not UTF-8. */
void logprobs_add_token(struct buf *b, const struct tokenizer *t, int32_t id);

#endif
