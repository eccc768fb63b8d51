/* server/api/api_request_pairs.c - queries and documents as tokens; see api_request.h.
 *
 * A model that makes vectors reads each text alone; a cross-encoder reads both in one text, as the
 * model's template says or, without one, as BERT does: [CLS] query [SEP] document [SEP].
 */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/chat/chat.h"
#include "server/http/http_call.h"

#include <string.h>

/* Cut the text after its first `most` tokens, but keep the special tokens that end it; most 0: do
 * not cut. */
static void cut_pair(struct token_list *list, const struct prompt_ends *e, uint32_t most)
{
    const size_t n = list->n - e->before - e->behind;

    if (most == 0 || n <= most)
        return;
    memmove(list->ids + e->before + most, list->ids + list->n - e->behind,
            e->behind * sizeof(*list->ids));
    list->n -= n - most;
}

static int encode(struct api_request *p, const struct server_model *model, const char *text,
                  uint32_t most, struct token_list *list)
{
    const struct prompt_ends e = api_request_ends(p, model->tokenizer);
    const bool adds = e.before + e.behind > 0;
    const size_t n = strlen(text);
    const size_t max = most > 0 || p->params.max_prompt > 0 ? n * 4 + 16 : model->max_context;
    const int rc = tokenizer_encode(model->tokenizer, text, n,
                                    (adds ? TOKENIZER_ADD_SPECIAL : 0u) | TOKENIZER_PARSE_SPECIAL,
                                    max, p->budget, list);

    if (rc == ERR_LIMIT && budget_error(p->budget) == 0)
        return api_request_too_long(p, model, 0);
    if (rc < 0)
        return api_request_cannot_encode(p);
    cut_pair(list, &e, most);
    return 0;
}

static int keep_text(struct api_request *p, struct prompt *prompt, const char *text)
{
    if (!p->params.return_documents)
        return 0;
    mem_free(prompt->text);
    prompt->n_text = strlen(text);
    prompt->text = mem_strdup(text);
    return prompt->text != NULL ? 0 : api_request_no_memory(p);
}

/* ---- alone ---- */

static int take_alone(struct api_request *p, const struct server_model *model, uint32_t i)
{
    struct params *params = &p->params;
    const bool is_query = i < params->n_queries;
    const cJSON *v = is_query ? params_query(params, i)
                              : params_document(params, i - params->n_queries);
    int rc = encode(p, model, v->valuestring,
                    is_query ? params->max_query_tokens : params->max_document_tokens,
                    &p->prompts[i].ids);

    if (rc == 0 && p->prompts[i].ids.n == 0)
        return api_error_set(
            &p->error, 400, is_query ? "query" : "documents", NULL,
            "a text is empty, and this model has no BOS token that could stand for it");
    return rc == 0 && !is_query ? keep_text(p, &p->prompts[i], v->valuestring) : rc;
}

/* ---- together ---- */

/* Append the template `text` with query and document in their places; only the template's own spans
 * may name special tokens. */
static void fill_template(const char *text, const char *query, const char *document,
                          struct buf *out, struct spans *own)
{
    static const char query_mark[] = "{query}", document_mark[] = "{document}";

    while (*text != '\0') {
        const bool is_query = strncmp(text, query_mark, sizeof(query_mark) - 1) == 0;
        const bool is_document = strncmp(text, document_mark, sizeof(document_mark) - 1) == 0;
        const size_t n = strcspn(text + 1, "{") + 1, from = out->len;

        if (is_query || is_document) {
            buf_add_str(out, is_query ? query : document);
            text += is_query ? sizeof(query_mark) - 1 : sizeof(document_mark) - 1;
            continue;
        }
        buf_add(out, text, n);
        spans_add(own, from, out->len);
        text += n;
    }
}

static int take_filled(struct api_request *p, const struct server_model *model,
                       struct prompt *prompt, const char *query, const char *document)
{
    struct spans own = {0};
    struct buf text;
    int rc = 0;

    if (p->params.max_query_tokens > 0 || p->params.max_document_tokens > 0)
        return api_error_set(
            &p->error, 400,
            p->params.max_query_tokens > 0 ? "max_tokens_per_query" : "max_tokens_per_doc", NULL,
            "the model '%s' puts the query and the document into a template, so neither can be "
            "truncated to a number of tokens",
            model->id);
    buf_init(&text, CHAT_MAX_PROMPT);
    fill_template(tokenizer_rerank_template(model->tokenizer), query, document, &text, &own);
    if (text.err < 0 || own.err < 0)
        rc = text.err == ERR_LIMIT ? api_request_too_long(p, model, 0) : api_request_no_memory(p);
    if (rc == 0) {
        prompt->text = buf_detach(&text, &prompt->n_text);
        rc = api_request_encode_text(p, model, prompt, &own);
    }
    buf_release(&text);
    spans_release(&own);
    return rc;
}

/* Append the document's tokens to the query's, without the token that begins a text. */
static int append(struct api_request *p, const struct server_model *model, struct prompt *prompt,
                  const struct token_list *document)
{
    const struct prompt_ends e = api_request_ends(p, model->tokenizer);
    const int32_t separator = tokenizer_pair_separator(model->tokenizer);
    const size_t max = prompt->ids.n + document->n + 1;
    int rc = 0;

    if (separator != TOKEN_NONE && e.behind > 0)
        rc = token_list_add(&prompt->ids, separator, max);
    prompt->second_at = (uint32_t)prompt->ids.n;
    for (size_t i = e.before; rc == 0 && i < document->n; i++)
        rc = token_list_add(&prompt->ids, document->ids[i], max);
    return rc < 0 ? api_request_no_memory(p) : 0;
}

/* Cut the document's end if query and document are too long together; the special tokens that end
 * the text stay. */
static void shorten(const struct api_request *p, const struct server_model *model,
                    struct prompt *prompt)
{
    const struct prompt_ends e = api_request_ends(p, model->tokenizer);
    const size_t most = p->params.max_prompt == UINT32_MAX ? model->max_context
                                                           : p->params.max_prompt;
    struct token_list *list = &prompt->ids;

    if (p->params.max_prompt == 0 || list->n <= most || most < prompt->second_at + e.behind)
        return;
    memmove(list->ids + most - e.behind, list->ids + list->n - e.behind,
            e.behind * sizeof(*list->ids));
    list->n = most;
}

static int take_pair(struct api_request *p, const struct server_model *model,
                     struct prompt *prompt, const char *query, const char *document)
{
    struct token_list list = {0};
    int rc = encode(p, model, query, p->params.max_query_tokens, &prompt->ids);

    if (rc == 0)
        rc = encode(p, model, document, p->params.max_document_tokens, &list);
    if (rc == 0)
        rc = append(p, model, prompt, &list);
    token_list_release(&list);
    if (rc < 0)
        return rc;
    shorten(p, model, prompt);
    if (prompt->ids.n == 0)
        return api_error_set(&p->error, 400, "documents", NULL, "both texts are empty");
    return 0;
}

static int take_together(struct api_request *p, const struct server_model *model, uint32_t i)
{
    const struct params *params = &p->params;
    const char *query = params_query(params, params->n_queries > 1 ? i : 0)->valuestring;
    const char *document = params_document(params, i)->valuestring;
    int rc = tokenizer_rerank_template(model->tokenizer) != NULL
                 ? take_filled(p, model, &p->prompts[i], query, document)
                 : take_pair(p, model, &p->prompts[i], query, document);

    return rc == 0 ? keep_text(p, &p->prompts[i], document) : rc;
}

int api_request_take_pair(struct api_request *p, const struct server_model *model, uint32_t i)
{
    if (model->is_cross)
        return take_together(p, model, i);
    return take_alone(p, model, i);
}
