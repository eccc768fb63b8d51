/* server/api/api_request_pooling.c - the pooling of a text's states, for requests that generate
 * nothing; see api_request.h.
 *
 * Wire format, task and model decide what the engine computes for a text: one vector, a vector for
 * each token, or the outputs of the classifier, which reads the vectors. All of this is one array
 * of the prompt, allocated here, so that the engine allocates nothing in a step and the answer can
 * use it after the request was freed.
 */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/api/response/response_writer.h"
#include "server/http/http_call.h"

static int refuse_pooling(struct api_request *p, const struct server_model *m, const char *what)
{
    const char *kind = m->n_labels > 0 ? "a classifier (POST /classify)"
                       : m->is_encoder ? "an embedding model (POST /v1/embeddings)"
                                       : "a generative model";

    return api_error_set(&p->error, 400, "model", "unsupported_model",
                         "the model '%s' is %s: it %s", m->id, kind, what);
}

int api_request_check_pooling(struct api_request *p, const struct server_model *m)
{
    const enum params_form form = p->wire_format->form;

    if (m->only_decides)
        return api_error_set(&p->error, 400, "model", "unsupported_model",
                             "the model '%s' was trained for decisions only (POST /v1/decisions): "
                             "its states are no embeddings",
                             m->id);
    if (form == PARAMS_CLASSIFY && m->n_labels == 0)
        return refuse_pooling(p, m, "has no labels");
    if ((form & PARAMS_PAIRS) != 0 && m->n_labels > 0 && !m->is_cross)
        return refuse_pooling(p, m, "has several labels, and none of them is a relevance score");
    if (form == PARAMS_EMBED && m->keeps_tokens && !p->wire_format->gives_tokens)
        return api_error_set(
            &p->error, 400, "model", "unsupported_model",
            "the model '%s' is served with the pooling none, and this endpoint cannot return a "
            "vector for each token: use POST /embedding or /pooling",
            m->id);
    return 0;
}

static bool wants_labels(const struct params *p, const struct server_model *m)
{
    return (p->form & PARAMS_PAIRS) != 0 ? m->is_cross
           : p->form == PARAMS_POOL      ? p->task == TASK_CLASSIFY ||
                                               (p->task == TASK_UNSET && m->n_labels > 0)
                                         : p->form == PARAMS_CLASSIFY;
}

static bool wants_each(const struct params *p, const struct server_model *m)
{
    if (p->form == PARAMS_POOL)
        return p->task == TASK_TOKEN_EMBED ||
               (p->task == TASK_UNSET && m->keeps_tokens && m->n_labels == 0);
    return p->form == PARAMS_EMBED && m->keeps_tokens;
}

/* Refuse to make a vector for each token if the answer would be too large. */
static int check_pooling_room(struct api_request *p, const struct server_model *m)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < p->params.n_prompts; i++)
        n += p->prompts[i].ids.n;
    if (n * m->n_embd * RESPONSE_NUMBER_BYTES <= HTTP_MAX_REPLY)
        return 0;
    return api_error_set(&p->error, 400, "input", NULL,
                         "%llu vectors, one for each token, of %u numbers do not fit into an "
                         "answer (at most %zu bytes)",
                         (unsigned long long)n, m->n_embd, HTTP_MAX_REPLY);
}

int api_request_pool(struct api_request *p, const struct server_model *m, struct request *r,
                     struct prompt *prompt)
{
    const bool has_labels = wants_labels(&p->params, m);
    size_t n;

    if (has_labels && m->n_labels == 0)
        return refuse_pooling(p, m, "has no labels");
    prompt->is_each = wants_each(&p->params, m);
    if (prompt->is_each && check_pooling_room(p, m) < 0)
        return ERR_INVAL;
    prompt->n_pooled = prompt->is_each ? (uint32_t)prompt->ids.n : 1;
    n = (size_t)prompt->n_pooled * m->n_embd + (has_labels ? m->n_labels : 0);
    prompt->pooled = mem_calloc(n, sizeof(*prompt->pooled));
    if (prompt->pooled == NULL)
        return api_request_no_memory(p);
    prompt->pooled_bytes = n * sizeof(*prompt->pooled);
    if (has_labels)
        prompt->labels = prompt->pooled + (size_t)prompt->n_pooled * m->n_embd;
    r->pooling = prompt->is_each ? POOLING_ALL : m->pooling;
    r->pooled = prompt->pooled;
    r->n_pooled = m->n_embd;
    r->labels = prompt->labels;
    r->second_at = prompt->second_at;
    return 0;
}
