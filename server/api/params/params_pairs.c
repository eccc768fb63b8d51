/* server/api/params/params_pairs.c - queries and documents of rankings and scores.
 *
 * Each API has its own names for the two lists (`texts`, `data_1`, `items`); all of them fill
 * queries and documents, and the texts stay in the JSON tree. A cross-encoder reads one prompt for
 * each document; any other model embeds every query and every document, one prompt each.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <string.h>

/* The text itself, or that of an object; NULL: neither. */
static const cJSON *pair_text(const cJSON *v)
{
    const cJSON *text = cJSON_IsObject(v) ? field_find(v, "text") : v;

    return cJSON_IsString(text) ? text : NULL;
}

static int take_texts(const struct field_args *a, const cJSON **out, uint32_t *n)
{
    *out = a->v;
    *n = 1;
    if (pair_text(a->v) != NULL)
        return 0;
    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return params_refuse(a, "must be a text, an object with a 'text', or a list of these");
    *n = 0;
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        if (pair_text(it) == NULL)
            return params_refuse(
                a, "must hold strings or objects with a 'text': element %u is neither", *n);
        if (++*n > PARAMS_MAX_TEXTS)
            return params_refuse(a, "must hold at most %d texts", PARAMS_MAX_TEXTS);
    }
    return 0;
}

int params_parse_query(const struct field_args *a)
{
    if (pair_text(a->v) == NULL)
        return params_refuse(a, "must be a string, or an object with a 'text'");
    return take_texts(a, &a->p->queries, &a->p->n_queries);
}

int params_parse_documents(const struct field_args *a)
{
    a->p->is_texts = false;
    return take_texts(a, &a->p->documents, &a->p->n_documents);
}

int params_parse_texts(const struct field_args *a)
{
    a->p->is_texts = true;
    return take_texts(a, &a->p->documents, &a->p->n_documents);
}

int params_parse_text_1(const struct field_args *a)
{
    return take_texts(a, &a->p->queries, &a->p->n_queries);
}

int params_parse_text_2(const struct field_args *a)
{
    return take_texts(a, &a->p->documents, &a->p->n_documents);
}

int params_parse_return_documents(const struct field_args *a)
{
    a->p->has_return_documents = true;
    return field_bool(a->v, a->name, &a->p->return_documents, a->e);
}

int params_parse_task(const struct field_args *a)
{
    static const char *const names[] = {[TASK_EMBED] = "embed",
                                        [TASK_CLASSIFY] = "classify",
                                        [TASK_TOKEN_EMBED] = "token_embed",
                                        [TASK_TOKEN_CLASSIFY] = "token_classify"};

    for (int i = TASK_EMBED; cJSON_IsString(a->v) && i <= TASK_TOKEN_CLASSIFY; i++)
        if (strcmp(a->v->valuestring, names[i]) == 0) {
            a->p->task = (enum pooling_task)i;
            return 0;
        }
    return params_refuse(a, "must be embed, classify, token_embed or token_classify");
}

const char *params_missing_pair(const struct params *p)
{
    if (p->queries == NULL)
        return p->form == PARAMS_RERANK ? "query" : "text_1";
    if (p->documents == NULL)
        return p->form == PARAMS_RERANK ? "documents" : "text_2";
    return NULL;
}

int params_settle_pairs(struct params *p, const struct params_limits *limits, struct api_error *e)
{
    if (p->n_queries != 1 && p->n_queries != p->n_documents)
        return api_error_set(e, 400, "text_1", NULL,
                             "%u texts cannot be compared with %u: 'text_1' must be one text, or "
                             "as many as 'text_2' has",
                             p->n_queries, p->n_documents);
    p->cuts_end = true;
    p->n_prompts = limits->is_cross ? p->n_documents : p->n_queries + p->n_documents;
    return 0;
}

static const cJSON *nth(const cJSON *list, uint32_t i)
{
    if (!cJSON_IsArray(list))
        return pair_text(list);
    list = list->child;
    while (i-- > 0)
        list = list->next;
    return pair_text(list);
}

const cJSON *params_query(const struct params *p, uint32_t i)
{
    return nth(p->queries, i);
}

const cJSON *params_document(const struct params *p, uint32_t i)
{
    return nth(p->documents, i);
}
