/* server/api/params/params_native.c - prompts, and fields that llama-server has.
 *
 * A prompt is only checked here and stays in the JSON tree, as a string, ids or a list of prompts:
 * params_prompt() finds the i-th, and api_request_prompts.c tokenizes it. Fields of llama-server
 * that do nothing here are still checked, so that a wrong value is a 400.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "core/json/json_number.h"
#include "server/api/params/field.h"

#include <float.h>

#define MAX_RESPONSE_FIELDS 64

/* ---- prompts ---- */

/* True: the element is a token id or a text. */
static bool is_part(const struct field_args *a, const cJSON *v)
{
    return cJSON_IsString(v) || field_is_int(v, 0, a->limits->n_vocab - 1);
}

/* llama-server's form of a prompt that may have images: {"prompt_string":"…"} */
static int check_object(const struct field_args *a, const cJSON *v)
{
    const cJSON *images = field_find(v, "multimodal_data");

    if (images != NULL && !(cJSON_IsArray(images) && images->child == NULL))
        return api_error_set(a->e, 400, "prompt.multimodal_data", NULL,
                             "'prompt.multimodal_data' is not supported: this model takes no "
                             "images, sound or files");
    if (cJSON_IsString(field_find(v, "prompt_string")))
        return 0;
    return params_refuse(a, "must have a string 'prompt_string' when it is an object");
}

/* Check one prompt: a string, a list of ids and strings, or an object with a string. */
static int check_prompt(const struct field_args *a, const cJSON *v)
{
    if (cJSON_IsString(v))
        return 0;
    if (cJSON_IsObject(v))
        return check_object(a, v);
    if (!cJSON_IsArray(v) || v->child == NULL)
        return params_refuse(
            a, "must be a string, a list of strings and token ids, or a list of these");
    for (const cJSON *it = v->child; it != NULL; it = it->next)
        if (!is_part(a, it))
            return params_refuse(a, "must hold texts and token ids between 0 and %d",
                                 a->limits->n_vocab - 1);
    return 0;
}

/* A list with an id in it is one prompt, any other a list of prompts. */
int params_parse_prompt(const struct field_args *a)
{
    const uint32_t most = (a->p->form & PARAMS_POOLED) != 0 ? PARAMS_MAX_TEXTS : PARAMS_MAX_CHOICES;
    uint32_t n = 0;

    a->p->prompt = a->v;
    a->p->n_prompts = 1;
    a->p->is_prompt_list = cJSON_IsArray(a->v) && a->v->child != NULL;
    for (const cJSON *it = a->v->child; it != NULL && cJSON_IsArray(a->v); it = it->next)
        a->p->is_prompt_list = a->p->is_prompt_list && !cJSON_IsNumber(it);
    if (!a->p->is_prompt_list)
        return check_prompt(a, a->v);
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        if (++n > most)
            return params_refuse(a, "must hold at most %u prompts", most);
        if (check_prompt(a, it) < 0)
            return ERR_INVAL;
    }
    a->p->n_prompts = n;
    return 0;
}

/* The texts of an embedding have the forms of /completion's prompts. A list that begins with a
 * message is a conversation, as in vLLM. */
int params_parse_input(const struct field_args *a)
{
    a->p->has_content = false;
    if (cJSON_IsArray(a->v) && field_text(a->v->child, "role") != NULL)
        return params_parse_messages(a);
    return params_parse_prompt(a);
}

int params_parse_content(const struct field_args *a)
{
    a->p->has_content = true;
    return params_parse_prompt(a);
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
            a, "is not supported: this model's vocabulary has no fill-in-the-middle tokens");
    return parse_text(a, &a->p->infill.prefix);
}

int params_parse_input_suffix(const struct field_args *a)
{
    return parse_text(a, &a->p->infill.suffix);
}

/* The text between input_prefix and the gap. */
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

static int parse_most(const struct field_args *a, int least)
{
    char room[32];

    if (!cJSON_IsNumber(a->v))
        return params_refuse(a, "must be an integer");
    if (!field_is_int(a->v, least, INT32_MAX))
        return params_refuse(a, "must be an integer between %d and %d, got %.40s", least, INT32_MAX,
                             json_number_text(a->v, room));
    a->p->max_tokens = a->v->valuedouble < 0 ? PARAMS_NO_LIMIT : (uint32_t)a->v->valuedouble;
    return 0;
}

/* -1: no limit. Anthropic's clients must give a limit. */
int params_parse_max_tokens(const struct field_args *a)
{
    return parse_most(a, (a->p->form & PARAMS_ANTHROPIC) != 0 ? 0 : -1);
}

/* -2: until the context is full, which is the same as -1. */
int params_parse_n_predict(const struct field_args *a)
{
    return parse_most(a, -2);
}

/* -1, also as an unsigned number as in llama-server, means another seed each time. */
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
    if (n > 0)
        a->p->sampling.n_top = (int32_t)n;
    return 0;
}

/* Some clients send -1 for no limit. */
int params_parse_t_max_predict_ms(const struct field_args *a)
{
    if (!field_is_int(a->v, -1, 0x1p53))
        return params_refuse(a, "must be an integer of milliseconds, -1 or 0 for no limit");
    if (a->v->valuedouble > 0)
        a->p->t_max_predict_ms =
            a->v->valuedouble < UINT32_MAX ? (uint32_t)a->v->valuedouble : UINT32_MAX;
    return 0;
}

int params_parse_response_fields(const struct field_args *a)
{
    uint32_t n = 0;

    for (const cJSON *it = a->v->child; cJSON_IsArray(a->v) && it != NULL; it = it->next)
        if (!cJSON_IsString(it) || ++n > MAX_RESPONSE_FIELDS)
            return params_refuse(a, "must hold at most %d names", MAX_RESPONSE_FIELDS);
    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list of names");
    if (n == 0)
        return 0;
    a->p->response_fields = cJSON_Duplicate(a->v, true);
    return a->p->response_fields != NULL ? 0 : api_error_no_memory(a->e);
}

/* ---- of no effect, but checked ---- */

static int check_int(const struct field_args *a, int least)
{
    if (field_is_int(a->v, least, INT32_MAX))
        return 0;
    return params_refuse(a, "must be an integer of at least %d", least);
}

int params_parse_cache_prompt(const struct field_args *a)
{
    bool ignored;

    return field_bool(a->v, a->name, &ignored, a->e);
}

/* -1: any slot. */
int params_parse_id_slot(const struct field_args *a)
{
    double id;

    if (check_int(a, -1) < 0)
        return ERR_INVAL;
    id = a->v->valuedouble;
    a->p->slot = id >= 0 ? (uint32_t)id : 0;
    return 0;
}

int params_parse_n_keep(const struct field_args *a)
{
    if (check_int(a, -1) < 0)
        return ERR_INVAL;
    a->p->n_keep = (int32_t)a->v->valuedouble;
    return 0;
}

int params_parse_n_cache_reuse(const struct field_args *a)
{
    return check_int(a, 0);
}

int params_parse_adaptive_target(const struct field_args *a)
{
    if (cJSON_IsNumber(a->v) && a->v->valuedouble < 0 && a->v->valuedouble >= -FLT_MAX)
        return 0;
    return params_refuse(a,
                         "must be below 0 (off): this server does not have the adaptive-p sampler");
}
