/* server/api/params/params_scoring.c - the fields of vLLM's /generative_scoring: one query, items
 * that each stand before or behind it, and the tokens among which the model chooses next.
 *
 * Query and items are texts or token ids. All of them stay in the JSON tree.
 * https://docs.vllm.ai/en/latest/serving/online_serving/
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

/* True: a text, or a list of token ids that has at least one. */
static bool is_text_or_ids(const struct field_args *a, const cJSON *v)
{
    if (cJSON_IsString(v))
        return true;
    if (!cJSON_IsArray(v) || v->child == NULL)
        return false;
    for (const cJSON *it = v->child; it != NULL; it = it->next)
        if (!field_is_int(it, 0, a->limits->n_vocab - 1))
            return false;
    return true;
}

int params_parse_scoring_query(const struct field_args *a)
{
    if (!is_text_or_ids(a, a->v))
        return params_refuse(a, "must be a text, or a list of token ids between 0 and %d",
                             a->limits->n_vocab - 1);
    a->p->queries = a->v;
    a->p->n_queries = 1;
    return 0;
}

int params_parse_scoring_items(const struct field_args *a)
{
    uint32_t n = 0;

    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return params_refuse(a, "must be a list of texts or of lists of token ids");
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        if (!is_text_or_ids(a, it))
            return params_refuse(a, "must hold texts, or lists of token ids between 0 and %d",
                                 a->limits->n_vocab - 1);
        if (++n > PARAMS_MAX_TEXTS)
            return params_refuse(a, "must hold at most %d items", PARAMS_MAX_TEXTS);
    }
    a->p->documents = a->v;
    a->p->n_documents = n;
    return 0;
}

int params_parse_label_token_ids(const struct field_args *a)
{
    int32_t ids[DECISIONS_MAX_OPTIONS];
    uint32_t n;

    if (field_ids(a->v, a->name, a->limits->n_vocab, DECISIONS_MAX_OPTIONS, ids, &n, a->e) < 0)
        return ERR_INVAL;
    if (n == 0)
        return params_refuse(a, "must hold at least one token id");
    mem_free(a->p->label_ids);
    a->p->label_ids = mem_dup(ids, n * sizeof(*ids));
    a->p->n_label_ids = n;
    return a->p->label_ids != NULL ? 0 : api_error_no_memory(a->e);
}

int params_parse_apply_softmax(const struct field_args *a)
{
    bool applies;

    if (field_bool(a->v, a->name, &applies, a->e) < 0)
        return ERR_INVAL;
    a->p->over_all_tokens = !applies;
    return 0;
}

int params_settle_scoring(struct params *p, struct api_error *e)
{
    const char *missing = p->queries == NULL     ? "query"
                          : p->documents == NULL ? "items"
                          : p->label_ids == NULL ? "label_token_ids"
                                                 : NULL;

    if (missing != NULL)
        return api_error_set(e, 400, missing, NULL, "'%s' is required", missing);
    p->n_prompts = p->n_documents;
    p->max_tokens = 1;
    p->without_drafts = true;
    return 0;
}
