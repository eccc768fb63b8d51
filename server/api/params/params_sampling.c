/* server/api/params/params_sampling.c - how tokens are chosen, and when it is enough. */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/api/params/field.h"

#include <string.h>

/* vLLM's -1 means the same as 0: off. */
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

/* A token id written as a decimal string without sign or leading zeros; -1 when it is none. */
static int32_t id_of_key(const char *key, int32_t n_vocab)
{
    int64_t id = 0;

    if (key[0] == '\0' || (key[0] == '0' && key[1] != '\0'))
        return -1;
    for (; *key != '\0'; key++) {
        if (*key < '0' || *key > '9')
            return -1;
        id = id * 10 + (*key - '0');
        if (id >= n_vocab)
            return -1;
    }
    return (int32_t)id;
}

/* Of duplicate keys the last one holds here as well. */
struct logit_bias *params_bias_slot(struct params *p, int32_t id)
{
    for (uint32_t i = 0; i < p->sampling.n_bias; i++)
        if (p->bias[i].id == id)
            return &p->bias[i];
    return p->sampling.n_bias < SAMPLING_MAX_BIAS ? &p->bias[p->sampling.n_bias++] : NULL;
}

int params_parse_logit_bias(const struct field_args *a)
{
    if (!cJSON_IsObject(a->v))
        return params_refuse(a, "must be an object");
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        const int32_t id = id_of_key(it->string, a->limits->n_vocab);
        struct logit_bias bias = {.id = id};
        struct logit_bias *slot;

        if (id < 0)
            return params_refuse(a, "must have token ids between 0 and %d as keys",
                                 a->limits->n_vocab - 1);
        if (field_float(it, a->name, -100, 100, &bias.bias, a->e) < 0)
            return ERR_INVAL;
        slot = params_bias_slot(a->p, id);
        if (slot == NULL)
            return params_refuse(a, "must have at most %d entries", SAMPLING_MAX_BIAS);
        *slot = bias;
    }
    return 0;
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

int params_parse_prompt_logprobs(const struct field_args *a)
{
    uint32_t n = 0;

    if (field_uint(a->v, a->name, 0, PARAMS_MAX_LOGPROBS, &n, a->e) < 0)
        return ERR_INVAL;
    a->p->prompt_logprobs = (int32_t)n;
    return 0;
}

int params_parse_stop_token_ids(const struct field_args *a)
{
    return field_ids(a->v, a->name, a->limits->n_vocab, REQUEST_MAX_STOP_IDS, a->p->stop_ids,
                     &a->p->n_stop_ids, a->e);
}
