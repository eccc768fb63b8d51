/* scheduler/request/request.c - see request.h.
 *
 * One allocation holds the struct and, after it, all its arrays. measure() computes the size of
 * each array, and place_arrays() hands them out in descending order of alignment, so that no
 * padding is needed. The I/O thread creates requests before it posts them; the engine thread
 * destroys them after their last event was emitted.
 */
#include "scheduler/request/request.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

struct array_bytes { /* bytes of the arrays that follow struct request in memory, in this order */
    size_t state, hashes, counts, bias, lookup, prediction, message, ids;
};

/* Place the arrays after the struct, in descending order of their alignment. */
static void place_arrays(struct request *r, const struct request_size *size,
                         const struct array_bytes *b)
{
    uint8_t *at = (uint8_t *)(r + 1);

    r->constraint = b->state > 0 ? (struct constraint_state *)(void *)at : NULL;
    at += b->state;
    r->key.hashes = (struct prefix_hash *)(void *)at;
    at += b->hashes;
    if (b->counts > 0)
        token_counts_init(&r->counts, at, r->max_known);
    at += b->counts;
    r->sampling.bias = (struct logit_bias *)(void *)at;
    at += b->bias;
    if (b->lookup > 0)
        token_lookup_init(&r->lookup, at, r->max_known);
    at += b->lookup;
    if (b->prediction > 0)
        prediction_init(&r->prediction, at, size->n_prediction);
    at += b->prediction;
    r->thought_message = (int32_t *)(void *)at;
    at += b->message;
    r->ids = (int32_t *)(void *)at;
    r->key.ids = r->ids;
}

static struct array_bytes measure(const struct request_size *size, uint32_t n_ids)
{
    return (struct array_bytes){
        .state = (size->constraint_bytes + 15) / 16 * 16,
        .hashes = (size_t)(n_ids / BLOCK_TOKENS) * sizeof(struct prefix_hash),
        .counts = size->penalties ? token_counts_bytes(n_ids) : 0,
        .bias = size->n_bias * sizeof(struct logit_bias),
        .lookup = size->drafts ? token_lookup_bytes(n_ids) : 0,
        .prediction = prediction_bytes(size->n_prediction),
        .message = size->n_message * sizeof(int32_t),
        .ids = n_ids * sizeof(int32_t),
    };
}

int request_create(struct request **out, const struct request_size *size)
{
    const uint64_t n_all = (uint64_t)size->n_prompt + size->max_tokens;
    const uint64_t n_ids = size->max_known > 0 && size->max_known < n_all ? size->max_known : n_all;
    struct array_bytes b;
    struct request *r;

    *out = NULL;
    if (n_ids < n_all && n_ids <= size->n_prompt)
        return ERR_INVAL;
    if (n_ids >= UINT32_MAX / 8 || n_all > INT32_MAX || size->n_bias > SAMPLING_MAX_BIAS ||
        size->n_prediction > INT32_MAX / 8 || size->n_message > REQUEST_MAX_MESSAGE)
        return ERR_LIMIT;
    b = measure(size, (uint32_t)n_ids);
    r = mem_calloc(1, sizeof(*r) + b.state + b.hashes + b.counts + b.bias + b.lookup +
                          b.prediction + b.message + b.ids);
    if (r == NULL)
        return ERR_NOMEM;
    r->n_prompt = size->n_prompt;
    r->max_tokens = size->max_tokens;
    r->max_known = (uint32_t)n_ids;
    r->n_discard = r->max_known / 2;
    r->sampling.n_bias = size->n_bias;
    r->drafts = size->drafts;
    place_arrays(r, size, &b);
    r->priority = PRIORITY_NORMAL;
    r->weight = 1;
    r->sampling.top_p = 1.0f;
    r->sampling.typical_p = 1.0f;
    r->sampling.repetition_penalty = 1.0f;
    r->sampling.n_top = -1;
    *out = r;
    return 0;
}

void request_let_go(struct request *r)
{
    if (r->drop_constraint != NULL)
        r->drop_constraint(&r->constraint_of);
    if (r->drop_adapter != NULL)
        r->drop_adapter(&r->adapter);
    r->drop_constraint = NULL;
    r->drop_adapter = NULL;
}

void request_destroy(struct request **r)
{
    if (r == NULL || *r == NULL)
        return;
    request_let_go(*r);
    mem_free(*r);
    *r = NULL;
}

bool request_wants_rows(const struct request *r)
{
    return r->score_prompt || r->pooling == POOLING_MEAN || r->pooling == POOLING_FIRST ||
           r->pooling == POOLING_ALL;
}

bool request_needs_rows(const struct request *r)
{
    return request_wants_rows(r) || r->rows_from > 0;
}

uint32_t request_may_reuse(const struct request *r)
{
    if (request_wants_rows(r))
        return 0;
    return r->rows_from > 0 && r->rows_from < r->n_prompt ? r->rows_from : r->n_prompt - 1;
}

bool sampling_has_penalty(const struct sampling *s)
{
    return s->repetition_penalty != 1.0f || s->frequency_penalty != 0.0f ||
           s->presence_penalty != 0.0f;
}

const char *priority_name(enum priority p)
{
    static const char *const names[PRIORITY_COUNT] = {"low", "normal", "high", "critical"};

    return names[p];
}

bool priority_find(const char *text, enum priority *out)
{
    for (int p = 0; p < PRIORITY_COUNT; p++) {
        const char digit[2] = {(char)('0' + p), '\0'};

        if (strcmp(text, priority_name((enum priority)p)) == 0 || strcmp(text, digit) == 0) {
            *out = (enum priority)p;
            return true;
        }
    }
    return false;
}

const char *finish_name(enum finish f)
{
    static const char *const names[] = {
        [FINISH_NONE] = "none",
        [FINISH_STOP] = "stop",
        [FINISH_LENGTH] = "length",
        [FINISH_CANCELLED] = "cancelled",
        [FINISH_TIMEOUT] = "timeout",
        [FINISH_QUEUE_TIMEOUT] = "queue_timeout",
        [FINISH_ERROR] = "error",
        [FINISH_DRY_RUN] = "dry_run",
    };

    return names[f];
}

int request_create_dry_run(struct request **out, const struct request *like)
{
    const struct request_size size = {.n_prompt = like->n_prompt, .max_tokens = like->max_tokens,
                                      .max_known = like->max_known};

    if (request_create(out, &size) < 0)
        return ERR_NOMEM;
    memcpy((*out)->ids, like->ids, like->n_prompt * sizeof(*like->ids));
    (*out)->arrival_us = like->arrival_us;
    (*out)->deadline_us = like->deadline_us;
    (*out)->first_by_us = like->first_by_us;
    (*out)->key.salt = like->key.salt;
    (*out)->priority = like->priority;
    (*out)->tenant = like->tenant;
    (*out)->weight = like->weight;
    (*out)->score_prompt = like->score_prompt;
    (*out)->pooling = like->pooling; /* `pooled` stays NULL: nothing is computed */
    (*out)->rows_from = like->rows_from;
    (*out)->is_dry_run = true;
    return 0;
}
