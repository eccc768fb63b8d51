/* server/api/params/params_prompt.c - fields of completions and embeddings that chats do not
 * have.
 *
 * The order of params_fields.inc matters for one of them: `best_of` is compared with `n`, so its
 * row follows those of `n`.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <string.h>

int params_parse_best_of(const struct field_args *a)
{
    if (field_uint(a->v, a->name, 1, PARAMS_MAX_CHOICES, &a->p->n_each, a->e) < 0)
        return ERR_INVAL;
    if (a->p->n_each >= a->p->n)
        return 0;
    return params_refuse(a, "%u is below 'n' %u", a->p->n_each, a->p->n);
}

/* Editors send an empty suffix at the end of a file: then there is no gap. */
int params_parse_suffix(const struct field_args *a)
{
    if (!cJSON_IsString(a->v))
        return params_refuse(a, "must be a string");
    if (a->v->valuestring[0] == '\0')
        return 0;
    if (!a->limits->can_infill)
        return params_refuse(
            a, "is not supported: this model's vocabulary has no fill-in-the-middle tokens");
    a->p->infill.suffix = a->v->valuestring;
    return 0;
}

/* Some clients send false for "none". */
int params_parse_logprobs(const struct field_args *a)
{
    uint32_t n = 0;

    if (cJSON_IsFalse(a->v))
        return 0;
    if (params_top_count(a, &n) < 0)
        return ERR_INVAL;
    a->p->sampling.n_top = (int32_t)n;
    return 0;
}

int params_parse_dimensions(const struct field_args *a)
{
    return field_uint(a->v, a->name, 1, a->limits->n_embd, &a->p->dimensions, a->e);
}

int params_parse_embed_dtype(const struct field_args *a)
{
    static const char *const names[] = {[NUMBER_FLOAT32] = "float32",
                                        [NUMBER_FLOAT16] = "float16",
                                        [NUMBER_BFLOAT16] = "bfloat16"};
    const char *name = cJSON_GetStringValue(a->v);

    for (size_t i = 0; name != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        a->p->number_type = (enum number_type)i;
        if (strcmp(name, names[i]) == 0)
            return 0;
    }
    a->p->number_type = NUMBER_FLOAT32;
    if (name != NULL && strcmp(name, "float") == 0) /* the older name of float32 */
        return 0;
    return params_refuse(a, "must be float32, float16 or bfloat16");
}

/* The server runs on little-endian machines, so native is little. */
int params_parse_endianness(const struct field_args *a)
{
    const char *name = cJSON_GetStringValue(a->v);

    a->p->big_endian = name != NULL && strcmp(name, "big") == 0;
    if (a->p->big_endian ||
        (name != NULL && (strcmp(name, "little") == 0 || strcmp(name, "native") == 0)))
        return 0;
    return params_refuse(a, "must be native, little or big");
}

int params_parse_encoding_format(const struct field_args *a)
{
    a->p->as_base64 = cJSON_IsString(a->v) && strcmp(a->v->valuestring, "base64") == 0;
    if (a->p->as_base64 || (cJSON_IsString(a->v) && strcmp(a->v->valuestring, "float") == 0))
        return 0;
    return params_refuse(a, "must be float or base64");
}
