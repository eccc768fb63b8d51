/* server/api/api_request_scoring.c - the prompts of /generative_scoring; see api_request.h.
 *
 * A prompt is the query's tokens and then an item's, or the other way round: each part is tokenized
 * alone, and BOS is added before the first. So the query's tokens are the same in all prompts, and
 * are computed once.
 */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/tokenizer/tokenizer.h"

#include <string.h>

#define MAX_TOKENS ((uint64_t)8 << 20) /* of all prompts, whose query is repeated */

static int add_part(struct api_request *p, const struct server_model *model, const cJSON *v,
                    struct prompt *prompt)
{
    const bool adds = prompt->ids.n == 0 && (!p->params.has_add_special || p->params.add_special);
    const unsigned flags = (adds ? TOKENIZER_ADD_SPECIAL : 0u) | TOKENIZER_PARSE_SPECIAL;
    const size_t max = api_request_context(p, model);
    int rc = 0;

    if (cJSON_IsString(v))
        return tokenizer_encode(model->tokenizer, v->valuestring, strlen(v->valuestring), flags,
                                max, p->budget, &prompt->ids);
    for (const cJSON *it = v->child; rc == 0 && it != NULL; it = it->next)
        rc = token_list_add(&prompt->ids, (int32_t)it->valuedouble, max);
    return rc;
}

static int take_labels(struct api_request *p, struct prompt *prompt)
{
    const uint32_t n = p->params.n_label_ids;

    prompt->label_ids = mem_dup(p->params.label_ids, n * sizeof(*prompt->label_ids));
    prompt->label_logprobs = mem_calloc(n, sizeof(*prompt->label_logprobs));
    if (prompt->label_ids == NULL || prompt->label_logprobs == NULL)
        return api_request_no_memory(p);
    prompt->n_labels = n;
    return 0;
}

int api_request_take_item(struct api_request *p, const struct server_model *model, uint32_t i)
{
    const cJSON *item = cJSON_GetArrayItem(p->params.documents, (int)i);
    const cJSON *parts[] = {p->params.queries, item};
    struct prompt *prompt = &p->prompts[i];
    int rc = 0;

    for (int k = 0; rc == 0 && k < 2; k++)
        rc = add_part(p, model, parts[p->params.item_first ? 1 - k : k], prompt);
    if (rc == ERR_LIMIT && budget_error(p->budget) == 0)
        return api_request_too_long(p, model, 0);
    if (rc < 0)
        return api_request_cannot_encode(p);
    if (prompt->ids.n == 0)
        return api_error_set(&p->error, 400, "items", NULL,
                             "query and item %u are empty, and the model needs a token before the "
                             "one that it chooses",
                             i);
    if (prompt->ids.n * (uint64_t)p->params.n_prompts > MAX_TOKENS)
        return api_error_set(&p->error, 400, "items", NULL,
                             "the query, repeated for each item, is more than %llu million tokens: "
                             "send fewer items in a call",
                             (unsigned long long)(MAX_TOKENS >> 20));
    return take_labels(p, prompt);
}
