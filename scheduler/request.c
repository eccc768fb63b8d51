/* scheduler/request.c - see request.h. */
#include "scheduler/request.h"

#include "core/base/err.h"
#include "core/base/mem.h"

static uint32_t counts_for(const struct request_size *size)
{
    uint32_t n = 16;

    if (!size->penalties)
        return 0;
    while (n <= 2 * (size->n_prompt + size->max_tokens))
        n *= 2;
    return n;
}

int request_create(struct request **out, const struct request_size *size)
{
    const uint64_t n_ids = (uint64_t)size->n_prompt + size->max_tokens;
    struct request *r;
    uint32_t n_counts;
    size_t bytes;

    *out = NULL;
    if (n_ids >= UINT32_MAX / 8 || size->n_bias > SAMPLING_MAX_BIAS)
        return ERR_LIMIT;
    n_counts = counts_for(size);
    bytes = sizeof(*r) + n_counts * sizeof(struct token_count) +
            size->n_bias * sizeof(struct logit_bias) + n_ids * sizeof(int32_t);
    r = mem_calloc(1, bytes);
    if (r == NULL)
        return ERR_NOMEM;
    r->n_prompt = size->n_prompt;
    r->max_tokens = size->max_tokens;
    r->n_counts = n_counts;
    r->counts = n_counts > 0 ? (struct token_count *)(r + 1) : NULL;
    r->sampling.bias =
        (struct logit_bias *)(void *)((struct token_count *)(void *)(r + 1) + n_counts);
    r->sampling.n_bias = size->n_bias;
    r->ids = (int32_t *)(r->sampling.bias + size->n_bias);
    for (uint32_t i = 0; i < n_counts; i++)
        r->counts[i].id = -1;
    r->priority = PRIORITY_NORMAL;
    r->sampling.top_p = 1.0f;
    r->sampling.repetition_penalty = 1.0f;
    r->sampling.n_top = -1;
    *out = r;
    return 0;
}

void request_destroy(struct request **r)
{
    if (r == NULL)
        return;
    mem_free(*r);
    *r = NULL;
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

const char *finish_name(enum finish f)
{
    static const char *const names[] = {"none", "stop", "length", "cancelled", "timeout", "error"};

    return names[f];
}
