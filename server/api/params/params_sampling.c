/* server/api/params/params_sampling.c - the fields of sampling, and of where an answer ends.
 *
 * A field that is a number within a range, such as temperature, needs no function: its row in
 * params_fields.inc has the range and the member of struct params. The fields here need more
 * checks.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/api/params/field.h"

#include <string.h>

/* vLLM's -1 means off, as 0 does. */
int params_parse_top_k(const struct field_args *a)
{
    if (!field_is_int(a->v, -1, INT32_MAX))
        return params_refuse(a, "must be an integer, -1 or 0 for off");
    a->p->sampling.top_k = a->v->valuedouble < 0 ? 0 : (int32_t)a->v->valuedouble;
    return 0;
}

int params_parse_seed(const struct field_args *a)
{
    a->p->has_seed = true;
    return field_seed(a->v, a->name, &a->p->sampling.seed, a->e);
}

static int add_stop(const struct field_args *a, const cJSON *v)
{
    struct stop_list *list = &a->p->stop;
    size_t len;

    if (!cJSON_IsString(v))
        return params_refuse(a, "must be a string or a list of strings");
    len = strlen(v->valuestring);
    if (len == 0 || len > STOP_MAX_BYTES)
        return api_error_set(a->e, 400, a->name, NULL,
                             "a stop string must have 1 to %d bytes, got %zu", STOP_MAX_BYTES, len);
    if (list->n == STOP_MAX)
        return params_refuse(a, "must hold at most %d strings", STOP_MAX);
    list->text[list->n] = mem_strdup(v->valuestring);
    if (list->text[list->n] == NULL)
        return api_error_no_memory(a->e);
    list->n++;
    return 0;
}

int params_parse_stop(const struct field_args *a)
{
    if (!cJSON_IsArray(a->v))
        return add_stop(a, a->v);
    for (const cJSON *it = a->v->child; it != NULL; it = it->next)
        if (add_stop(a, it) < 0)
            return ERR_INVAL;
    return 0;
}

int params_top_count(const struct field_args *a, uint32_t *n)
{
    if (cJSON_IsNumber(a->v) && a->v->valuedouble == -1)
        return params_refuse(a,
                             "-1 asks for all %d tokens of the vocabulary, but at most %d are "
                             "returned; use logprob_token_ids to choose them in a chat",
                             a->limits->n_vocab, PARAMS_MAX_LOGPROBS);
    return field_uint(a->v, a->name, 0, PARAMS_MAX_LOGPROBS, n, a->e);
}

int params_parse_prompt_logprobs(const struct field_args *a)
{
    uint32_t n = 0;

    if (params_top_count(a, &n) < 0)
        return ERR_INVAL;
    a->p->prompt_logprobs = (int32_t)n;
    return 0;
}

int params_parse_skip_special_tokens(const struct field_args *a)
{
    bool skips = true;

    if (field_bool(a->v, a->name, &skips, a->e) < 0)
        return ERR_INVAL;
    a->p->shows_special = !skips;
    return 0;
}

int params_parse_stop_token_ids(const struct field_args *a)
{
    return field_ids(a->v, a->name, a->limits->n_vocab, REQUEST_MAX_STOP_IDS, a->p->stop_ids,
                     &a->p->n_stop_ids, a->e);
}
