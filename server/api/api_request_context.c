/* server/api/api_request_context.c - fits prompt and answer into the context, and chooses the
 * tokens that a context shift drops; see api_request_impl.h.
 *
 * max_tokens is cut to the room after the prompt. Where the context may be shifted, a longer answer
 * is allowed: its request holds one context of tokens (max_known), and whenever it is full the
 * engine drops n_discard tokens after the first n_keep.
 */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/tokenizer/tokenizer.h"

#include <string.h>

/* An answer with context shift has at most so many contexts of tokens, as in Ollama: without a
 * bound a model that does not end its text would continue until request_timeout. */
#define MAX_CONTEXTS 10

/* Least number of tokens of the context that a shift does not keep, as in llama-server. */
#define LEAST_BEHIND 4

uint32_t api_request_context(const struct api_request *p, const struct server_model *model)
{
    const uint32_t wanted = p->params.max_context;

    return wanted > 0 && wanted < model->max_context ? wanted : model->max_context;
}

static uint32_t at_most(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int more_than_cache(struct api_request *p, const struct server_model *model, uint32_t n)
{
    p->reason = REJECTION_CONTEXT;
    return api_error_set(
        &p->error, 400, "max_tokens", "context_length_exceeded",
        "the prompt and the completion need %u tokens, but the whole KV cache holds %u", n,
        model->max_kv_tokens);
}

/* Fit an answer that continues beyond its context. */
static int fit_shifted(struct api_request *p, const struct server_model *model,
                       struct request_size *size)
{
    const uint32_t context = at_most(api_request_context(p, model), model->max_kv_tokens);

    if (size->n_prompt >= context)
        return more_than_cache(p, model, size->n_prompt + 1);
    size->max_known = context;
    size->max_tokens = at_most(p->params.max_tokens, MAX_CONTEXTS * context);
    return 0;
}

int api_request_fit(struct api_request *p, const struct server_model *model,
                    struct request_size *size)
{
    const uint32_t room = api_request_context(p, model) - size->n_prompt;
    const uint32_t wanted = p->params.max_tokens, in_cache = model->max_kv_tokens;

    size->max_tokens = at_most(wanted, room);
    if (room == 0 && wanted > 0)
        return api_request_too_long(p, model, size->n_prompt);
    if (model->shifts_context && !p->params.ends_with_context &&
        (wanted > room || size->n_prompt + wanted > in_cache))
        return fit_shifted(p, model, size);
    if (wanted == p->params.default_max_tokens && size->n_prompt < in_cache)
        size->max_tokens = at_most(size->max_tokens, in_cache - size->n_prompt);
    if ((uint64_t)size->n_prompt + size->max_tokens <= in_cache)
        return 0;
    return more_than_cache(p, model, size->n_prompt + size->max_tokens);
}

void api_request_cut_middle(const struct params *p, const struct tokenizer *t, uint32_t context,
                            struct token_list *ids)
{
    const uint32_t n = (uint32_t)ids->n, wanted = p->n_keep < 0 ? n : (uint32_t)p->n_keep;
    const uint32_t keep = at_most(wanted + tokenizer_adds_bos(t), context - 1);
    const uint32_t freed = (context - keep) / 2 > 1 ? (context - keep) / 2 : 1;
    const uint32_t room = context - freed - keep;
    const uint32_t left = keep + room > 0 ? room : 1; /* at least 1, because no prompt is empty */

    memmove(ids->ids + keep, ids->ids + (n - left), left * sizeof(*ids->ids));
    ids->n = keep + left;
}

/* Return the number of tokens that a shift keeps: BOS in addition to the body's n_keep, as in
 * llama-server. */
static uint32_t n_kept(const struct params *p, const struct tokenizer *t, const struct request *r)
{
    const uint32_t most = r->max_known > LEAST_BEHIND ? r->max_known - LEAST_BEHIND : 0;

    if (p->n_keep < 0)
        return at_most(r->n_prompt, most);
    return at_most((uint32_t)p->n_keep + tokenizer_adds_bos(t), most);
}

void api_request_set_shift(const struct params *p, const struct tokenizer *t, struct request *r)
{
    uint32_t left;

    if (!request_may_shift(r))
        return;
    r->n_keep = n_kept(p, t, r);
    left = r->max_known - r->n_keep;
    r->n_discard = p->n_discard > 0 ? at_most(p->n_discard, left - 1) : left / 2;
}
