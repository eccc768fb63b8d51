/* server/api/params/field.c - see field.h.
 *
 * Ranges are tested so that a NaN fails them. An integer is any JSON number without a fraction, in
 * whatever notation (1e3). A seed needs all of its 64 bits, which a double does not have, so
 * field_seed() reads the literal's own digits where it can. Paths are short fixed texts that are
 * cut when they are too long: they only name a place in an error.
 */
#include "server/api/params/field.h"

#include "core/base/err.h"
#include "core/json/json_number.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool field_is_int(const cJSON *v, double min, double max)
{
    return cJSON_IsNumber(v) && isfinite(v->valuedouble) &&
           v->valuedouble == floor(v->valuedouble) && v->valuedouble >= min &&
           v->valuedouble <= max;
}

const cJSON *field_find(const cJSON *object, const char *name)
{
    const cJSON *found = NULL;

    if (!cJSON_IsObject(object))
        return NULL;
    for (const cJSON *v = object->child; v != NULL; v = v->next)
        if (strcmp(v->string, name) == 0)
            found = v;
    return cJSON_IsNull(found) ? NULL : found;
}

const char *field_text(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(field_find(object, name));
}

int field_bool(const cJSON *v, const char *name, bool *out, struct api_error *e)
{
    if (!cJSON_IsBool(v))
        return api_error_set(e, 400, name, NULL, "'%s' must be true or false", name);
    *out = cJSON_IsTrue(v);
    return 0;
}

int field_uint(const cJSON *v, const char *name, uint32_t min, uint32_t max, uint32_t *out,
               struct api_error *e)
{
    char room[32];

    if (!cJSON_IsNumber(v))
        return api_error_set(e, 400, name, NULL, "'%s' must be an integer", name);
    if (!field_is_int(v, min, max))
        return api_error_set(e, 400, name, NULL,
                             "'%s' must be an integer between %u and %u, got %.40s", name, min, max,
                             json_number_text(v, room));
    *out = (uint32_t)v->valuedouble;
    return 0;
}

int field_float(const cJSON *v, const char *name, double min, double max, float *out,
                struct api_error *e)
{
    char room[32];

    if (!cJSON_IsNumber(v))
        return api_error_set(e, 400, name, NULL, "'%s' must be a number", name);
    if (!(v->valuedouble >= min && v->valuedouble <= max)) /* a NaN is in no range */
        return api_error_set(e, 400, name, NULL, "'%s' must be between %g and %g, got %.40s", name,
                             min, max, json_number_text(v, room));
    *out = (float)v->valuedouble;
    return 0;
}

int field_seed(const cJSON *v, const char *name, uint64_t *out, struct api_error *e)
{
    const char *literal = json_number_literal(v);

    errno = 0;
    if (literal != NULL && json_number_is_whole_text(literal, strlen(literal)))
        *out = literal[0] == '-' ? (uint64_t)strtoll(literal, NULL, 10)
                                 : strtoull(literal, NULL, 10);
    else if (field_is_int(v, -0x1p63, 0x1.fffffffffffffp63)) /* the last double below 2^64 */
        *out = v->valuedouble < 0 ? (uint64_t)(int64_t)v->valuedouble : (uint64_t)v->valuedouble;
    else
        errno = ERANGE;
    if (errno == 0)
        return 0;
    return api_error_set(e, 400, name, NULL, "'%s' must be an integer of 64 bits", name);
}

int field_ids(const cJSON *v, const char *name, int32_t n_vocab, uint32_t max, int32_t *ids,
              uint32_t *n, struct api_error *e)
{
    *n = 0;
    if (!cJSON_IsArray(v))
        return api_error_set(e, 400, name, NULL, "'%s' must be an array of token ids", name);
    for (const cJSON *it = v->child; it != NULL; it = it->next) {
        if (!field_is_int(it, 0, n_vocab - 1))
            return api_error_set(e, 400, name, NULL, "'%s' must hold token ids between 0 and %d",
                                 name, n_vocab - 1);
        if (*n == max)
            return api_error_set(e, 400, name, NULL, "'%s' must hold at most %u token ids", name,
                                 max);
        ids[(*n)++] = (int32_t)it->valuedouble;
    }
    return 0;
}

struct field_path field_path(const char *name, int i, struct api_error *e)
{
    struct field_path p = {.e = e};

    snprintf(p.text, sizeof(p.text), i < 0 ? "%.24s" : "%.24s[%d]", name, i);
    return p;
}

struct field_path field_path_in(const struct field_path *p, const char *member, int i)
{
    struct field_path in = {.e = p->e};

    snprintf(in.text, sizeof(in.text), i < 0 ? "%.36s.%s" : "%.36s.%s[%d]", p->text, member, i);
    return in;
}

int field_refuse(const struct field_path *p, const char *member, const char *what)
{
    char name[96];

    snprintf(name, sizeof(name), member[0] != '\0' ? "%s.%.24s" : "%s", p->text, member);
    return api_error_set(p->e, 400, name, NULL, "'%s' must be %s", name, what);
}

const char *field_need_text(const struct field_path *p, const cJSON *object, const char *member)
{
    const char *text = field_text(object, member);

    if (text == NULL)
        field_refuse(p, member, "a string");
    return text;
}
