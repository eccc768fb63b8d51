/* server/api/params/params_native.c - fields that only llama-server's own endpoints have. */
#include "server/api/params/params_impl.h"

#include "core/base/budget.h"
#include "core/base/err.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/params/field.h"

#include <string.h>

#define BAN (-100.0f) /* what a bias of false means */

/* ---- prompts ---- */

/* Is it an id or a text? */
static bool is_part(const struct field_args *a, const cJSON *v)
{
    return cJSON_IsString(v) || field_is_int(v, 0, a->limits->n_vocab - 1);
}

/* A string, or a list of ids and strings. */
static int check_prompt(const struct field_args *a, const cJSON *v)
{
    if (cJSON_IsString(v))
        return 0;
    if (!cJSON_IsArray(v) || v->child == NULL)
        return params_refuse(
            a, "must be a string, a list of strings and token ids, or a list of such");
    for (const cJSON *it = v->child; it != NULL; it = it->next)
        if (!is_part(a, it))
            return params_refuse(a, "must hold texts and token ids between 0 and %d",
                                 a->limits->n_vocab - 1);
    return 0;
}

/* A list with an id in it is one prompt, any other a list of prompts. */
int params_parse_native_prompt(const struct field_args *a)
{
    uint32_t n = 0;

    a->p->prompt = a->v;
    a->p->n_prompts = 1;
    a->p->is_prompt_list = cJSON_IsArray(a->v) && a->v->child != NULL;
    for (const cJSON *it = a->v->child; it != NULL && cJSON_IsArray(a->v); it = it->next)
        a->p->is_prompt_list = a->p->is_prompt_list && !cJSON_IsNumber(it);
    if (!a->p->is_prompt_list)
        return check_prompt(a, a->v);
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        if (++n > PARAMS_MAX_CHOICES)
            return params_refuse(a, "must hold at most %d prompts", PARAMS_MAX_CHOICES);
        if (check_prompt(a, it) < 0)
            return ERR_INVAL;
    }
    a->p->n_prompts = n;
    return 0;
}

static int parse_text(const struct field_args *a, const char **out)
{
    if (!cJSON_IsString(a->v))
        return params_refuse(a, "must be a string");
    *out = a->v->valuestring;
    return 0;
}

int params_parse_input_prefix(const struct field_args *a)
{
    if (!a->limits->can_infill)
        return params_refuse(
            a, "is not supported: this model's vocabulary has no tokens for filling gaps");
    return parse_text(a, &a->p->infill.prefix);
}

int params_parse_input_suffix(const struct field_args *a)
{
    return parse_text(a, &a->p->infill.suffix);
}

/* What comes between the text before the gap and the gap. */
int params_parse_infill_prompt(const struct field_args *a)
{
    a->p->prompt = a->v;
    if (cJSON_IsString(a->v))
        return 0;
    return params_refuse(a, "must be a string");
}

int params_parse_input_extra(const struct field_args *a)
{
    for (const cJSON *it = a->v->child; cJSON_IsArray(a->v) && it != NULL; it = it->next) {
        const cJSON *name = field_find(it, "filename");

        if (!cJSON_IsString(field_find(it, "text")) || (name != NULL && !cJSON_IsString(name)))
            return params_refuse(a, "must hold objects with a text and a filename");
    }
    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list");
    a->p->infill.extra = a->v;
    return 0;
}

/* ---- how much, and how ---- */

/* -1: no limit; -2: until the context is full, which is the same. */
int params_parse_n_predict(const struct field_args *a)
{
    if (!field_is_int(a->v, -2, INT32_MAX))
        return params_refuse(a, "must be an integer, -1 for no limit");
    a->p->max_tokens = a->v->valuedouble < 0 ? PARAMS_NO_LIMIT : (uint32_t)a->v->valuedouble;
    return 0;
}

/* Of no effect: penalties look at the whole text. */
int params_parse_repeat_last_n(const struct field_args *a)
{
    if (field_is_int(a->v, -1, INT32_MAX))
        return 0;
    return params_refuse(a, "must be an integer from -1 on");
}

/* -1, and what llama-server has for it as an unsigned number: another seed each time. */
int params_parse_native_seed(const struct field_args *a)
{
    if (field_is_int(a->v, -1, -1) || field_is_int(a->v, UINT32_MAX, UINT32_MAX))
        return 0;
    return params_parse_seed(a);
}

int params_parse_n_probs(const struct field_args *a)
{
    uint32_t n = 0;

    if (field_uint(a->v, a->name, 0, PARAMS_MAX_LOGPROBS, &n, a->e) < 0)
        return ERR_INVAL;
    a->p->sampling.n_top = n > 0 ? (int32_t)n : -1;
    return 0;
}

int params_parse_post_sampling_probs(const struct field_args *a)
{
    if (cJSON_IsFalse(a->v))
        return 0;
    return params_refuse(a, "is not supported: only false");
}

/* ---- of no effect ---- */

static int ignore_bool(const struct field_args *a)
{
    bool ignored;

    return field_bool(a->v, a->name, &ignored, a->e);
}

int params_parse_cache_prompt(const struct field_args *a)
{
    return ignore_bool(a);
}

int params_parse_timings_per_token(const struct field_args *a)
{
    return ignore_bool(a);
}

int params_parse_id_slot(const struct field_args *a)
{
    if (field_is_int(a->v, -1, INT32_MAX))
        return 0;
    return params_refuse(a, "must be an integer from -1 on");
}

/* ---- logit_bias ---- */

static int add_bias(const struct field_args *a, int32_t id, float bias)
{
    struct logit_bias *slot = params_bias_slot(a->p, id);

    if (slot == NULL)
        return params_refuse(a, "must have at most %d entries", SAMPLING_MAX_BIAS);
    *slot = (struct logit_bias){id, bias};
    return 0;
}

/* Each of the text's tokens. */
static int add_text_bias(const struct field_args *a, const char *text, float bias)
{
    struct token_list list = {0};
    int rc = 0, encoded;

    encoded = tokenizer_encode(a->limits->tokenizer, text, strlen(text), 0, SAMPLING_MAX_BIAS,
                               a->limits->budget, &list);
    if (encoded == ERR_NOMEM)
        rc = api_error_no_memory(a->e);
    else if (encoded < 0)
        rc = params_refuse(a, "%s",
                           budget_error(a->limits->budget) < 0 ? "takes too many steps to tokenize"
                                                               : "has a text of too many tokens");
    for (size_t i = 0; rc == 0 && i < list.n; i++)
        rc = add_bias(a, list.ids[i], bias);
    token_list_release(&list);
    return rc;
}

static int read_bias(const struct field_args *a, const cJSON *v, float *bias)
{
    *bias = BAN;
    return cJSON_IsFalse(v) ? 0 : field_float(v, a->name, -100, 100, bias, a->e);
}

/* [15043, 1.5], ["Hello", -0.5] or [15043, false] */
static int take_pair(const struct field_args *a, const cJSON *pair)
{
    float bias;

    if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2 || !is_part(a, pair->child))
        return params_refuse(a, "must hold pairs of a token id below %d or a text, and a bias",
                             a->limits->n_vocab);
    if (read_bias(a, pair->child->next, &bias) < 0)
        return ERR_INVAL;
    if (cJSON_IsString(pair->child))
        return add_text_bias(a, pair->child->valuestring, bias);
    return add_bias(a, (int32_t)pair->child->valuedouble, bias);
}

int params_parse_native_logit_bias(const struct field_args *a)
{
    int rc = 0;

    if (!cJSON_IsArray(a->v))
        return params_parse_logit_bias(a);
    for (const cJSON *it = a->v->child; rc == 0 && it != NULL; it = it->next)
        rc = take_pair(a, it);
    return rc;
}
