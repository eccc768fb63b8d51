/* server/api/api_request_resume.c - continues an answer that another server has begun; see
 * api_request_impl.h.
 *
 * Random numbers are drawn by position, and penalties look at the ids, so for these it suffices
 * that the answer's tokens follow the prompt. The states of constraint and thought are advanced
 * token by token. Mirostat's state depends on logits that are not stored, so it is refused. */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/constraint.h"
#include "core/tokenizer/tokenizer.h"
#include "server/storage/saved_requests.h"

#include <stdio.h>
#include <string.h>

/* Steps of the request's budget that one token through a grammar costs. */
#define TOKEN_STEPS 64

static int refuse_resume(struct api_request *p, const char *field, const char *why)
{
    return api_error_set(&p->error, 400, field, NULL, "'%s' %s", field, why);
}

static int check_rest(struct api_request *p)
{
    const struct params *params = &p->params;

    if (p->n_choices != 1)
        return refuse_resume(p, "resume",
                             "continues one choice of one prompt: 'n' and 'best_of' must be 1");
    if (params->sampling.mirostat_tau > 0)
        return refuse_resume(p, "resume",
                             "and 'mirostat' cannot be used together: the state of mirostat cannot "
                             "be restored from tokens");
    if (params->prompt_logprobs >= 0)
        return refuse_resume(p, "resume", "and 'prompt_logprobs' cannot be used together");
    return 0;
}

static bool token_is_among(int32_t id, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static bool is_eog(const struct tokenizer *t, int32_t id)
{
    size_t n_eog;
    const int32_t *eog = tokenizer_eog(t, &n_eog);

    return token_is_among(id, eog, n_eog);
}

/* True: the engine would have ended the answer with token i. */
static bool text_ends_with(const struct request *r, const struct tokenizer *t, uint32_t i,
                           int32_t id)
{
    return i >= r->min_tokens &&
           ((!r->ignore_eos && is_eog(t, id)) || token_is_among(id, r->stop_ids, r->n_stop_ids));
}

/* Advance thought and constraint by a token, as the sampler does after its choice. */
static enum constraint_status take_resumed(struct request *r, const struct tokenizer *t,
                                           struct constraint_scratch *scratch, int32_t id)
{
    const bool is_thought = thought_take(&r->thought, id, r->constraint != NULL);

    if (r->constraint == NULL || is_thought || is_eog(t, id))
        return CONSTRAINT_OPEN;
    return constraint_take(r->constraint, scratch, id);
}

static int lead_through(struct api_request *p, const struct tokenizer *t, struct request *r,
                        struct constraint_scratch *scratch)
{
    const struct resume_spec *resume = &p->params.resume;
    enum constraint_status status = CONSTRAINT_OPEN;

    for (uint32_t i = 0; i < resume->n; i++) {
        if (p->resume_end != FINISH_NONE)
            return refuse_resume(p, "resume.tokens",
                                 "has tokens after the one that ends the answer");
        status = take_resumed(r, t, scratch, resume->tokens[i]);
        if (status == CONSTRAINT_BROKEN)
            return refuse_resume(
                p, "resume.tokens",
                "has a token that the grammar or schema does not allow at that position");
        if (r->constraint != NULL && budget_spend(p->budget, TOKEN_STEPS) < 0)
            return refuse_resume(p, "resume.tokens", "takes too many steps to check");
        if (text_ends_with(r, t, i, resume->tokens[i]) || status == CONSTRAINT_DONE)
            p->resume_end = FINISH_STOP;
    }
    p->resume_is_complete = status == CONSTRAINT_DONE;
    p->resume_is_eog =
        resume->n > 0 && !r->ignore_eos && is_eog(t, resume->tokens[resume->n - 1]);
    if (p->resume_end == FINISH_NONE && resume->n == r->max_tokens)
        p->resume_end = FINISH_LENGTH;
    if (p->resume_end == FINISH_NONE)
        p->resume_end = (enum finish)resume->finish;
    return 0;
}

/* Continue the answer of an earlier process, with the seed, id and time that it chose if the body
 * had none. */
int api_request_restore(struct api_request *p, const struct saved_request *saved)
{
    struct resume_spec *r = &p->params.resume;
    int32_t *tokens = mem_alloc(((size_t)r->n + saved->n_tokens + 1) * sizeof(*tokens));

    if (tokens == NULL)
        return api_request_no_memory(p);
    if (r->n > 0)
        memcpy(tokens, r->tokens, r->n * sizeof(*tokens));
    if (saved->n_tokens > 0)
        memcpy(tokens + r->n, saved->tokens, saved->n_tokens * sizeof(*tokens));
    mem_free(r->tokens);
    r->tokens = tokens;
    r->is_restored = true;
    r->has_past = r->is_on;
    r->n_past = r->n;
    r->n += saved->n_tokens;
    r->is_on = r->has_past || r->n > 0 || saved->has_end;
    r->finish = saved->has_end ? saved->finish : FINISH_NONE;
    snprintf(r->id, sizeof(r->id), "%s", saved->id);
    r->created = saved->begin.created;
    p->params.has_seed = true;
    p->params.sampling.seed = saved->begin.seed;
    p->params.priority = (enum priority)saved->begin.priority;
    return 0;
}

int api_request_resume(struct api_request *p, const struct server_model *model, struct request *r)
{
    const struct resume_spec *resume = &p->params.resume;
    struct constraint_scratch *scratch = NULL;
    int rc;

    if (check_rest(p) < 0)
        return ERR_INVAL;
    if (resume->n > r->max_tokens)
        return refuse_resume(p, "resume.tokens", "has more tokens than the answer may have");
    if (resume->n >= r->max_known - r->n_prompt && request_may_shift(r))
        return refuse_resume(
            p, "resume.tokens",
            "fills the context: an answer whose context was shifted cannot be resumed");
    if (r->constraint != NULL && constraint_scratch_create(&scratch) < 0)
        return api_request_no_memory(p);
    if (resume->n > 0)
        r->score_prompt = false; /* the prompt's scores were sent before */
    memcpy(r->ids + r->n_prompt, resume->tokens, resume->n * sizeof(*r->ids));
    r->n_resumed = resume->n;
    rc = lead_through(p, model->tokenizer, r, scratch);
    constraint_scratch_destroy(&scratch);
    return rc;
}
