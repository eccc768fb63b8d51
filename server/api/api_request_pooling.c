/* server/api/api_request_pooling.c - the pooling of a text's states, for requests that generate
 * nothing; see api_request.h.
 *
 * Wire format, task and model decide what the engine computes for a text: one vector, a vector for
 * each token, the outputs of the classifier, which reads the vectors, or those of a classifier of
 * tokens. All of this is one array of the prompt, allocated here, so that the engine allocates
 * nothing in a step and the answer can use it after the request was freed.
 */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/model.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/response/response_writer.h"
#include "server/http/http_call.h"

#define MAX_COMPARISONS ((uint64_t)1 << 32) /* products of two numbers in the scores of a call */

static int refuse_pooling(struct api_request *p, const struct server_model *m, const char *what)
{
    const char *kind = m->n_labels > 0         ? "a classifier (POST /classify)"
                       : m->n_token_labels > 0 ? "a classifier of tokens (POST /pooling)"
                       : m->is_late            ? "a late interaction model (POST /pooling)"
                       : m->is_encoder         ? "an embedding model (POST /v1/embeddings)"
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
        return refuse_pooling(p, m, "has no labels of texts");
    if ((form & PARAMS_PAIRS) != 0 && m->n_labels > 0 && !m->is_cross)
        return refuse_pooling(p, m, "has several labels, and none of them is a relevance score");
    if (m->is_late && (form & (PARAMS_OLLAMA_VECTORS | PARAMS_COHERE_EMBED)) != 0)
        return refuse_pooling(p, m, "has no vector of a whole text");
    if (form == PARAMS_EMBED && m->keeps_tokens && !m->is_late && !p->wire_format->gives_tokens)
        return api_error_set(
            &p->error, 400, "model", "unsupported_model",
            "the model '%s' is served with the pooling none, and this endpoint cannot return a "
            "vector for each token: use POST /embedding or /pooling",
            m->id);
    return 0;
}

/* ---- what is computed ---- */

struct text_outputs {     /* all zero: one vector, the pooled states */
    bool is_each;         /* a vector for each token */
    bool has_labels;      /* the outputs of the classifier */
    enum token_head head; /* what makes a token's vector; NONE: its state is the vector */
};

static enum pooling_task default_task(const struct server_model *m)
{
    return m->n_labels > 0                 ? TASK_CLASSIFY
           : m->n_token_labels > 0         ? TASK_TOKEN_CLASSIFY
           : m->keeps_tokens || m->is_late ? TASK_TOKEN_EMBED
                                           : TASK_EMBED;
}

static struct text_outputs outputs_of_task(enum pooling_task task, const struct server_model *m)
{
    switch (task) {
    case TASK_CLASSIFY:
        return (struct text_outputs){.has_labels = true};
    case TASK_TOKEN_EMBED:
        return (struct text_outputs){
            .is_each = true, .head = m->n_token_vector > 0 ? TOKEN_HEAD_VECTOR : TOKEN_HEAD_NONE};
    case TASK_TOKEN_CLASSIFY:
        return (struct text_outputs){
            .is_each = true, .head = m->has_weights ? TOKEN_HEAD_WEIGHT : TOKEN_HEAD_LABELS};
    case TASK_UNSET:
    case TASK_EMBED:
        break;
    }
    return (struct text_outputs){0};
}

static struct text_outputs outputs_of(const struct params *p, const struct server_model *m)
{
    const bool is_pair = (p->form & PARAMS_PAIRS) != 0;

    if (p->form == PARAMS_POOL)
        return outputs_of_task(p->task == TASK_UNSET ? default_task(m) : p->task, m);
    if (p->form == PARAMS_CLASSIFY || (is_pair && m->is_cross))
        return outputs_of_task(TASK_CLASSIFY, m);
    if (m->is_late || (p->form == PARAMS_EMBED && m->keeps_tokens))
        return outputs_of_task(TASK_TOKEN_EMBED, m);
    return (struct text_outputs){0};
}

static uint32_t width_of(const struct server_model *m, enum token_head head)
{
    switch (head) {
    case TOKEN_HEAD_LABELS:
        return m->n_token_labels;
    case TOKEN_HEAD_VECTOR:
        return m->n_token_vector;
    case TOKEN_HEAD_WEIGHT:
        return 1;
    case TOKEN_HEAD_NONE:
    case TOKEN_HEAD_COUNT:
        break;
    }
    return m->n_embd;
}

static int check_outputs(struct api_request *p, const struct server_model *m,
                         const struct text_outputs *o)
{
    const bool is_labels =
        o->has_labels || o->head == TOKEN_HEAD_LABELS || o->head == TOKEN_HEAD_WEIGHT;

    if (o->has_labels && m->n_labels == 0)
        return refuse_pooling(p, m, "has no labels of texts");
    if (o->head == TOKEN_HEAD_LABELS && m->n_token_labels == 0)
        return refuse_pooling(p, m, "has neither labels of tokens nor lexical weights");
    if (is_labels && p->params.dimensions > 0)
        return api_error_set(&p->error, 400, "dimensions", NULL,
                             "'dimensions' is for vectors: scores of labels and lexical weights "
                             "cannot be cut");
    if (p->params.dimensions > width_of(m, o->head))
        return api_error_set(&p->error, 400, "dimensions", NULL,
                             "'dimensions' is above %u, the numbers of a token's vector",
                             width_of(m, o->head));
    if (m->is_late && p->params.form == PARAMS_EMBED && p->params.as_base64)
        return api_error_set(&p->error, 400, "encoding_format", NULL,
                             "'encoding_format' must be float for the model '%s', which gives a "
                             "vector for each token",
                             m->id);
    return 0;
}

/* Refuse to make a vector for each token if the answer would be too large. */
static int check_pooling_room(struct api_request *p, uint32_t width)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < p->params.n_prompts; i++)
        n += p->prompts[i].ids.n;
    if (n * width * RESPONSE_NUMBER_BYTES <= HTTP_MAX_REPLY)
        return 0;
    return api_error_set(&p->error, 400, "input", NULL,
                         "%llu vectors, one for each token, of %u numbers do not fit into an "
                         "answer (at most %zu bytes)",
                         (unsigned long long)n, width, HTTP_MAX_REPLY);
}

/* Refuse scores of late interaction that would take a thread of the answer pool many seconds: each
 * token of a query is compared with each of its documents. */
static int check_comparisons(struct api_request *p, uint32_t width)
{
    const struct params *params = &p->params;
    uint64_t n = 0;

    for (uint32_t i = 0; i < params->n_documents; i++)
        n += (uint64_t)p->prompts[params->n_queries > 1 ? i : 0].ids.n *
             p->prompts[params->n_queries + i].ids.n * width;
    if (n <= MAX_COMPARISONS)
        return 0;
    return api_error_set(&p->error, 400, "documents", NULL,
                         "the tokens of queries and documents make %llu products, more than %llu: "
                         "send fewer documents in a call",
                         (unsigned long long)n, (unsigned long long)MAX_COMPARISONS);
}

static int check_room(struct api_request *p, uint32_t width)
{
    return (p->params.form & PARAMS_PAIRS) != 0 ? check_comparisons(p, width)
                                                : check_pooling_room(p, width);
}

/* Leave out BOS where the model's vectors do, and for lexical weights EOS too, as vLLM does. */
static void skip_ends(const struct server_model *m, enum token_head head, struct prompt *prompt)
{
    const int32_t *ids = prompt->ids.ids;
    const bool is_weight = head == TOKEN_HEAD_WEIGHT;
    const bool skips_bos = is_weight || (head == TOKEN_HEAD_VECTOR && m->skips_bos);

    if (skips_bos && ids[0] == tokenizer_bos(m->tokenizer)) {
        prompt->n_skipped = 1;
        prompt->n_pooled--;
    }
    if (is_weight && prompt->n_pooled > 0 && ids[prompt->ids.n - 1] == tokenizer_eos(m->tokenizer))
        prompt->n_pooled--;
}

/* Allocate the prompt's vectors and, behind them, its labels. */
static int take_outputs(struct api_request *p, const struct server_model *m,
                        const struct text_outputs *o, struct prompt *prompt)
{
    size_t n;

    prompt->is_each = o->is_each;
    prompt->has_token_labels = o->head == TOKEN_HEAD_LABELS;
    prompt->has_weights = o->head == TOKEN_HEAD_WEIGHT;
    prompt->width = width_of(m, o->head);
    prompt->n_pooled = o->is_each ? (uint32_t)prompt->ids.n : 1;
    n = (size_t)prompt->n_pooled * prompt->width + (o->has_labels ? m->n_labels : 0);
    prompt->pooled = mem_calloc(n, sizeof(*prompt->pooled));
    if (prompt->pooled == NULL)
        return api_request_no_memory(p);
    prompt->pooled_bytes = n * sizeof(*prompt->pooled);
    if (o->has_labels)
        prompt->labels = prompt->pooled + (size_t)prompt->n_pooled * prompt->width;
    skip_ends(m, o->head, prompt);
    return 0;
}

int api_request_pool(struct api_request *p, const struct server_model *m, struct request *r,
                     struct prompt *prompt)
{
    const struct text_outputs o = outputs_of(&p->params, m);

    if (check_outputs(p, m, &o) < 0)
        return ERR_INVAL;
    if (o.is_each && prompt == p->prompts && check_room(p, width_of(m, o.head)) < 0)
        return ERR_INVAL;
    if (take_outputs(p, m, &o, prompt) < 0)
        return ERR_NOMEM;
    r->pooling = o.is_each ? POOLING_ALL : m->pooling;
    r->pooled = prompt->pooled;
    r->n_pooled = prompt->width;
    r->token_head = (uint8_t)o.head;
    r->labels = prompt->labels;
    r->second_at = prompt->second_at;
    return 0;
}
