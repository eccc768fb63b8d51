/* server/api/params/params_output.c - the fields that choose the parts and the shape of an answer,
 * and how much of the prompt is read.
 *
 * Where APIs have several names for one thing (the budget of thoughts), each name has a function
 * and all of them share one reader. A value that could only matter to tools or media that this
 * server does not have is accepted; one that asks for them is refused.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <string.h>

/* ---- thoughts ---- */

int params_parse_reasoning_format(const struct field_args *a)
{
    static const struct {
        const char *name;
        enum reasoning_format format;
    } formats[] = {{"none", REASONING_INLINE},
                   {"auto", REASONING_APART},
                   {"deepseek", REASONING_APART},
                   {"deepseek-legacy", REASONING_LEGACY}};

    for (size_t i = 0; cJSON_IsString(a->v) && i < sizeof(formats) / sizeof(formats[0]); i++)
        if (strcmp(a->v->valuestring, formats[i].name) == 0) {
            a->p->reasoning_format = formats[i].format;
            return 0;
        }
    return params_refuse(a, "must be none, auto, deepseek or deepseek-legacy");
}

int params_parse_include_reasoning(const struct field_args *a)
{
    bool wanted = true;

    if (field_bool(a->v, a->name, &wanted, a->e) < 0)
        return ERR_INVAL;
    if (!wanted)
        a->p->reasoning_format = REASONING_HIDDEN;
    return 0;
}

/* -1: no limit; 0: no thoughts. */
int params_parse_reasoning_budget(const struct field_args *a)
{
    if (!field_is_int(a->v, -1, INT32_MAX))
        return params_refuse(a, "must be an integer, -1 for no limit");
    if (a->v->valuedouble == 0)
        a->p->thinking = THINKING_OFF;
    a->p->thinking_budget = a->v->valuedouble > 0 ? (uint32_t)a->v->valuedouble : THOUGHT_NO_LIMIT;
    return 0;
}

/* The length is checked later, when the message is tokenized. */
int params_parse_reasoning_budget_message(const struct field_args *a)
{
    if (!cJSON_IsString(a->v))
        return params_refuse(a, "must be a string");
    a->p->budget_message = a->v->valuestring;
    return 0;
}

/* ---- the parts of an answer ---- */

/* Names that belong to tools which this server does not have change nothing. */
int params_parse_include(const struct field_args *a)
{
    static const char *const harmless[] = {
        "reasoning.encrypted_content",          "web_search_call.results",
        "web_search_call.action.sources",       "file_search_call.results",
        "code_interpreter_call.outputs",        "message.input_image.image_url",
        "computer_call_output.output.image_url"};
    const size_t n = sizeof(harmless) / sizeof(harmless[0]);

    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list of names");
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        const char *name = cJSON_IsString(it) ? it->valuestring : "";
        size_t i = 0;

        while (i < n && strcmp(harmless[i], name) != 0)
            i++;
        if (strcmp(name, "message.output_text.logprobs") == 0)
            a->p->sampling.n_top = a->p->sampling.n_top > 0 ? a->p->sampling.n_top : 0;
        else if (i == n)
            return params_refuse(a, "has '%.60s', which is an unknown name", name);
    }
    return 0;
}

int params_parse_modalities(const struct field_args *a)
{
    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return params_refuse(a, "must be [\"text\"]");
    for (const cJSON *it = a->v->child; it != NULL; it = it->next)
        if (!cJSON_IsString(it) || strcmp(it->valuestring, "text") != 0)
            return params_refuse(a, "must be [\"text\"]: other modalities are not supported");
    return 0;
}

/* ---- vectors ---- */

int params_parse_embd_normalize(const struct field_args *a)
{
    if (!field_is_int(a->v, -1, 100))
        return params_refuse(a, "must be an integer from -1 to 100");
    a->p->embd_normalize = (int32_t)a->v->valuedouble;
    a->p->has_normalize = true;
    return 0;
}

int params_parse_normalize(const struct field_args *a)
{
    bool wanted = true;

    if (field_bool(a->v, a->name, &wanted, a->e) < 0)
        return ERR_INVAL;
    a->p->has_normalize = true;
    a->p->embd_normalize = wanted ? 2 : -1;
    return 0;
}

/* The activation of a vector is its normalization, that of a classifier makes probabilities of its
 * outputs. */
int params_parse_use_activation(const struct field_args *a)
{
    bool wanted = true;

    if (field_bool(a->v, a->name, &wanted, a->e) < 0)
        return ERR_INVAL;
    a->p->without_activation = !wanted;
    a->p->has_normalize = true;
    a->p->embd_normalize = wanted ? 2 : -1;
    return 0;
}

/* ---- the prompt ---- */

int params_parse_add_special_tokens(const struct field_args *a)
{
    a->p->has_add_special = true;
    return field_bool(a->v, a->name, &a->p->add_special, a->e);
}

/* -1: cut to as many tokens as fit. */
int params_parse_truncate_prompt_tokens(const struct field_args *a)
{
    if (!field_is_int(a->v, -1, INT32_MAX) || a->v->valuedouble == 0)
        return params_refuse(a, "must be an integer of at least 1, or -1 for as many as fit");
    a->p->max_prompt = a->v->valuedouble < 0 ? UINT32_MAX : (uint32_t)a->v->valuedouble;
    return 0;
}

int params_parse_truncation_side(const struct field_args *a)
{
    const char *side = cJSON_IsString(a->v) ? a->v->valuestring : "";

    a->p->cuts_end = strcmp(side, "right") == 0;
    if (a->p->cuts_end || strcmp(side, "left") == 0)
        return 0;
    return params_refuse(a, "must be left or right");
}
