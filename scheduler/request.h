/* scheduler/request.h - a request as the engine knows it: what the client asked for, which never
 * changes, and room for its tokens.
 *
 * The server fills it, posts it, and knows it by id from then on. Everything that a request will
 * ever need is allocated here, before the post, so that the engine allocates nothing: `ids` has
 * room for the prompt and every token it may generate, or for max_known tokens, if that is less.
 *
 * Context shift, where max_known < n_prompt + max_tokens. Once max_known tokens are known and the
 * request continues, ids[n_keep .. n_keep + n_discard) are thrown away, those behind them move to
 * the front, and all keys and values are computed again at the new positions (the prefix cache has
 * the kept beginning). So P1 still holds: the next tokens are those of a request whose prompt is
 * the remaining ids, with the same state of its sampler. That state is kept: the tokens generated
 * so far count for max_tokens and min_tokens, random numbers are drawn for positions counted from
 * the true beginning, and constraint, thought and mirostat_mu stay as they are. Penalties and DRY
 * see only ids: they forget the discarded tokens, and prompt tokens still count as prompt tokens.
 *
 * Thread: the server's until queue_post() returns 0, then the engine's.
 * Memory: one allocation; request_destroy() frees it (the engine does, at the terminal event).
 */
#ifndef SCHEDULER_REQUEST_H
#define SCHEDULER_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/runtime/batch.h"
#include "core/runtime/thought.h"
#include "kvcache/kv_manager.h"
#include "scheduler/drafts/history_lookup.h"
#include "scheduler/drafts/prediction.h"
#include "scheduler/drafts/token_lookup.h"
#include "scheduler/token_counts.h"

enum priority { PRIORITY_LOW = 0, PRIORITY_NORMAL, PRIORITY_HIGH, PRIORITY_CRITICAL };
#define PRIORITY_COUNT 4
#define REQUEST_MAX_STOP_IDS 64
#define REQUEST_MAX_WEIGHT 1000
#define REQUEST_MAX_ADAPTER_NAME 127
#define REQUEST_MAX_MESSAGE 256 /* tokens */

/* How the last hidden states of the prompt are pooled. */
enum pooling {
    POOLING_NONE = 0,
    POOLING_MEAN, /* their sum, which the server divides */
    POOLING_FIRST,
    POOLING_LAST,
    POOLING_ALL, /* every token's by itself */
};

enum finish { /* why a request ended */
    FINISH_NONE = 0,
    FINISH_STOP,      /* end-of-generation token or stop_token_ids */
    FINISH_LENGTH,    /* max_tokens or the context */
    FINISH_CANCELLED, /* by the server: client gone, stop string, shutdown */
    FINISH_TIMEOUT,   /* deadline passed, in the queue or running */
    FINISH_QUEUE_TIMEOUT, /* queue_until passed before the first step */
    FINISH_ERROR,     /* the engine could not continue it */
    FINISH_DRY_RUN,   /* the dry run was answered */
};

struct request {
    uint64_t id;          /* unique in the process, never 0 */
    uint64_t arrival_us;  /* clock_us() when the server accepted it */
    uint64_t deadline_us; /* the client's deadline: ends then; earlier ones go first; 0 = none */
    uint64_t first_by_us; /* deadline of the first token, which only affects the order; 0 = none */
    uint64_t timeout_us;  /* the server's timeout: given up then; 0 = never */
    uint64_t queue_until_us; /* given up then unless its first step was made; 0 = never */
    uint64_t prefix_owner; /* id of an earlier request with the same prompt and salt whose blocks it
                            * shares: it starts once that one's prompt is computed; 0 = none */
    enum priority priority;
    uint32_t tenant;      /* its tenant's index: < sched_options.max_tenants */
    uint32_t weight;      /* the tenant's weight, 1 .. REQUEST_MAX_WEIGHT */
    uint32_t n_prompt;    /* tokens of the prompt in ids[] at the start, >= 1 */
    uint32_t n_resumed;   /* tokens behind the prompt of an answer that this request continues:
                           * generated elsewhere, and counted as if here; < max_tokens, or 0 */
    uint32_t max_tokens;  /* >= 0; with 0 the prompt is only scored */
    uint32_t max_known;   /* most tokens in ids[] at a time; less than n_prompt + max_tokens: the
                           * context is shifted */
    uint32_t n_keep;      /* a context shift keeps the first n_keep tokens, < max_known - 1, */
    uint32_t n_discard;   /* and discards the n_discard behind them; 1 to max_known - 1 - n_keep */
    uint32_t min_tokens;  /* no end-of-generation token or stop id ends it before so many tokens */
    bool ignore_eos;      /* end-of-generation tokens do not end it */
    bool drafts;          /* its next tokens may be guessed (drafts/drafter.h) */
    bool score_prompt;    /* EVENT_SCORE for prompt tokens 1 .. n_prompt-1 */
    bool reports_progress; /* EVENT_PROGRESS before the first step, and after each that computes
                            * some of the prompt */
    enum pooling pooling;
    float *pooled;        /* [n_pooled], zeroed; owned by the server, which keeps it until the end:
                           * the engine adds to it; with POOLING_ALL [n_prompt][n_pooled] */
    uint32_t n_pooled;    /* n_embd of the model */
    float *labels;        /* outputs of the model's classifier, whose input is `pooled`; owned by
                           * the server; NULL: the classifier is not run */
    uint32_t second_at;   /* position at which the second of two texts that are read together
                           * begins; 0: there is one text */
    bool asks_store;      /* the block store was asked how much of the prompt it has, and will
                           * answer (prefix_fetch.h) */
    bool is_dry_run;      /* nothing is computed: one EVENT_END with `probe` filled in */
    struct prefix_copy *copy; /* of a dry run: blocks to copy instead (prefix_copy.h), or NULL */
    uint32_t n_stop_ids;
    int32_t stop_ids[REQUEST_MAX_STOP_IDS];
    struct sampling sampling; /* sampling.bias points behind the request's own memory */
    float mirostat_mu;        /* state of mirostat; 2 tau at the start */
    int32_t *ids;             /* [max_known] */
    struct kv_key key;        /* the server fills key.salt; the rest is set up */
    struct token_counts counts; /* updated by the scheduler; `list` is NULL without penalties */
    struct token_lookup lookup; /* index of ids, for drafts; zero: no drafts are made */
    uint32_t lookup_distance;   /* distance from the end to the place of the last guess; 0: none */
    struct history_place history; /* place of the last guess in earlier answers */
    struct prediction prediction; /* predicted answer; the server fills its ids */
    struct constraint_state *constraint; /* what may be generated; the sampler updates it; or
                                          * NULL */
    struct thought thought; /* the thought before the answer; updated by the sampler */
    int32_t *thought_message; /* [size.n_message] filled by the server, for `thought` */
    struct constraint *constraint_of; /* the constraint of that state; holds a reference */
    void (*drop_constraint)(struct constraint **c); /* releases constraint_of at the end; or NULL */
    struct adapter *adapter; /* adapter that its tokens are computed with, or NULL; holds a
                              * reference. Keys and values differ from those without it: key.salt
                              * tells them apart */
    float adapter_scale;
    char adapter_name[REQUEST_MAX_ADAPTER_NAME + 1]; /* the text that key.origin points to */
    void (*drop_adapter)(struct adapter **a); /* called with `adapter` at the end, if not NULL */
    /* Called with `adapter`, if not NULL, when the request begins (change 1) or ends (-1) to wait,
     * or, with `runs`, to run; a preempted request waits. Engine thread. */
    void (*count_adapter)(struct adapter *a, bool runs, int change);
};

struct request_size {
    uint32_t n_prompt, max_tokens, n_bias;
    uint32_t max_known; /* 0 or too large: n_prompt + max_tokens */
    bool penalties; /* at least one of the three penalties is on */
    bool drafts;    /* its next tokens may be guessed (drafts/drafter.h) */
    uint32_t n_prediction; /* tokens of the prediction */
    uint32_t n_message;    /* tokens of the message that ends a thought, at most
                            * REQUEST_MAX_MESSAGE */
    size_t constraint_bytes; /* bytes of the constraint's state; 0 = no constraint */
};

/* Allocate with room for everything. ids, key, sampling.bias and counts are set up, counts empty; a
 * constraint's state is zeroed; priority normal, tenant 0 of weight 1, the sampling greedy without
 * log-probs. Where the context will be shifted, half of it is discarded and nothing kept.
 * ERR_NOMEM, ERR_LIMIT (2^31 tokens and more), ERR_INVAL (max_known leaves no room behind the
 * prompt). */
int request_create(struct request **out, const struct request_size *size);
/* Create a dry run, which tells what `like` would find; nothing is computed. */
int request_create_dry_run(struct request **out, const struct request *like);
/* Give the references to its adapter and constraint back. Called before its last event is
 * published, because the client may ask for another adapter at once. */
void request_let_go(struct request *r);
void request_destroy(struct request **r);

/* Must every row of the prompt be computed, even if it is cached? */
bool request_wants_rows(const struct request *r);

/* Will the context be shifted if the request generates all its tokens? */
static inline bool request_may_shift(const struct request *r)
{
    return r->max_known < (uint64_t)r->n_prompt + r->max_tokens;
}
/* How often a context was shifted that has had n tokens in all, prompt and answer. */
static inline uint64_t request_n_shifts(uint64_t n, uint32_t max_known, uint32_t n_discard)
{
    return n <= max_known ? 0 : (n - max_known - 1) / n_discard + 1;
}

/* Tokens in ids[] at the start: the prompt and the answer that is continued. */
static inline uint32_t request_n_given(const struct request *r)
{
    return r->n_prompt + r->n_resumed;
}

/* Is one of the three penalties on? */
bool sampling_has_penalty(const struct sampling *s);

const char *priority_name(enum priority p); /* "normal" */
/* "high" or "2" -> PRIORITY_HIGH; false: the text is not a priority. */
bool priority_find(const char *text, enum priority *out);
const char *finish_name(enum finish f);     /* "length" */

#endif
