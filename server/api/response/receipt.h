/* server/api/response/receipt.h - records what an answer was computed from, so that it can be
 * computed again (`quire verify`) and compared.
 *
 * A receipt is a JSON object:
 *
 *   {"receipt":1,"quire":"0.9","model":"NAME","weights":["sha256:…", one for each file],
 *    "settings":{"kv_type":…,"load_type":…,"context":…,"context_shift":…},
 *    "defaults":{…for requests that do not set them…},
 *    "adapter":{"name":…,"scale":…,"numbers":"128 bits of its numbers, as hex"},
 *    "endpoint":"/v1/completions","time":Unix seconds, as given to its chat template,
 *    "request":{the body},
 *    "choices":[{"index":0,"seed":"…","prompt_tokens":18,"prompt":"sha256:…","answer":"sha256:…",
 *                "tokens":[…],"finish_reason":"stop","labels":[…]}]}
 *
 * `prompt` and `answer` are digests of token ids (digest.h). The seed is a text, for many readers
 * of JSON cannot represent all 64-bit numbers. `labels`, in decisions only, are the
 * log-probabilities of the labels, by option. `adapter` is left out if there is none. By P1 nothing
 * else affects the tokens: no other request, no number of threads, no instruction set.
 *
 * Thread: any.
 * Memory: appended to `out`, whose errors stay in it.
 */
#ifndef SERVER_API_RESPONSE_RECEIPT_H
#define SERVER_API_RESPONSE_RECEIPT_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

#define RECEIPT_VERSION 1

struct adapter;

struct receipt_source { /* for a request that wants a receipt; zero: it does not */
    const char *origin; /* members from "quire" to "defaults", of its model; borrowed */
    struct buf body;    /* its JSON without white space; owned */
    int64_t time;       /* Unix seconds, as given to its chat template */
    const char *adapter_name; /* borrowed, as the adapter */
    const struct adapter *adapter; /* NULL: none */
    float adapter_scale;
};

struct receipt_choice { /* all borrowed */
    uint32_t index;
    uint64_t seed;
    const int32_t *prompt, *answer; /* [n_prompt], [n_answer] token ids */
    size_t n_prompt, n_answer;
    const char *finish;             /* "stop" */
    const float *labels;            /* [n_labels] log-probabilities of a decision's options */
    uint32_t n_labels;              /* 0: it is no decision */
};

/* Keep the body of a request. 0 or ERR_NOMEM. */
int receipt_take_body(struct receipt_source *s, const struct buf *body);
void receipt_release(struct receipt_source *s);

/* Append the receipt of an answer with n choices. */
void receipt_add(const struct receipt_source *s, const char *endpoint,
                 const struct receipt_choice *choices, uint32_t n, struct buf *out);

#endif
