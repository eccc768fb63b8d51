/* core/grammar/json_schema_disjoint.c - can a value that is written for one schema validate against
 * another?
 *
 * Only plain reasons count: other types, other values, a member that the one always has and the
 * other does not allow with that value, or that the other wants and the one never has.
 */
#include "core/grammar/json_schema_impl.h"

#include <string.h>

static bool requires(struct schema *s, const cJSON *schema, const char *name)
{
    const cJSON *it;

    cJSON_ArrayForEach(it, schema_get(schema, "required")) {
        schema_spend(s, 1);
        if (schema_has_failed(s))
            return false;
        if (cJSON_IsString(it) && strcmp(it->valuestring, name) == 0)
            return true;
    }
    return false;
}

/* The values of enum or const: a list, or one (then *one is set). False: it has neither. */
static bool has_values(const cJSON *schema, const cJSON **list, const cJSON **one)
{
    *list = schema_get(schema, "enum");
    *one = schema_get(schema, "const");
    return *list != NULL || *one != NULL;
}

static bool is_among(struct schema *s, const cJSON *v, const cJSON *list, const cJSON *one)
{
    const cJSON *it;

    if (one != NULL)
        return schema_equal(s, v, one);
    schema_spend(s, 1 + schema_size(list) / 4);
    cJSON_ArrayForEach(it, list) {
        if (schema_has_failed(s) || schema_equal(s, v, it))
            return true;
    }
    return false;
}

static bool values_differ(struct schema *s, const cJSON *a, const cJSON *b)
{
    const cJSON *list_a, *one_a, *list_b, *one_b, *it;

    if (!has_values(a, &list_a, &one_a) || !has_values(b, &list_b, &one_b))
        return false;
    if (one_a != NULL)
        return !is_among(s, one_a, list_b, one_b);
    cJSON_ArrayForEach(it, list_a) {
        if (is_among(s, it, list_b, one_b))
            return false;
    }
    return true;
}

/* Types that may validate; integers are numbers as well. */
static unsigned valid_types(struct schema *s, const struct schema_node *at, const cJSON *schema)
{
    struct schema_node in = *at;

    in.schema = schema;
    return schema_types(s, &in);
}

static unsigned written_types(struct schema *s, const struct schema_node *at, const cJSON *schema)
{
    struct schema_node in = *at;

    in.schema = schema;
    return schema_written_types(s, &in);
}

static bool types_differ(struct schema *s, const struct schema_node *at, const cJSON *a,
                         const cJSON *b)
{
    unsigned written;

    if (schema_get(a, "enum") != NULL || schema_get(a, "const") != NULL ||
        schema_get(a, "anyOf") != NULL || schema_get(a, "oneOf") != NULL)
        written = valid_types(s, at, a);
    else
        written = written_types(s, at, a);
    return (written & valid_types(s, at, b)) == 0;
}

/* A property's schema with its $ref resolved, as far as that is plain. */
static const cJSON *property(struct schema *s, const struct schema_node *at, const cJSON *schema,
                             const char *name)
{
    const cJSON *properties = schema_get(schema, "properties");
    const cJSON *p = NULL;
    struct schema_node in;

    schema_spend(s, 4 + schema_size(properties));
    if (properties != NULL && !schema_has_failed(s))
        p = schema_get(properties, name);
    if (!cJSON_IsObject(p))
        return p;
    in = schema_in(at, p, "properties", name);
    return schema_merge(s, &in);
}

/* Does `a` always have a member that `b` does not allow? */
static bool has_other_member(struct schema *s, const struct schema_node *at, const cJSON *a,
                             const cJSON *b)
{
    const cJSON *it;

    cJSON_ArrayForEach(it, schema_get(a, "required")) {
        const cJSON *of_a, *of_b;

        if (!cJSON_IsString(it))
            continue;
        if (schema_has_failed(s))
            return true;
        of_a = property(s, at, a, it->valuestring);
        of_b = property(s, at, b, it->valuestring);
        if (of_b == NULL ? cJSON_IsFalse(schema_get(b, "additionalProperties"))
                         : cJSON_IsFalse(of_b))
            return true;
        if (cJSON_IsObject(of_a) && cJSON_IsObject(of_b) &&
            (values_differ(s, of_a, of_b) || types_differ(s, at, of_a, of_b)))
            return true;
    }
    return false;
}

/* Does `b` want a member that is never written for `a`? */
static bool lacks_member(struct schema *s, const cJSON *a, const cJSON *b)
{
    const cJSON *properties = schema_get(a, "properties");
    const cJSON *additional = schema_get(a, "additionalProperties"), *it;

    if (properties == NULL ? !cJSON_IsFalse(additional)
                           : additional != NULL && !cJSON_IsFalse(additional))
        return false;
    cJSON_ArrayForEach(it, schema_get(b, "required")) {
        schema_spend(s, 2 + schema_size(properties));
        if (schema_has_failed(s))
            return true;
        if (cJSON_IsString(it) && !requires(s, a, it->valuestring) &&
            (properties == NULL || schema_get(properties, it->valuestring) == NULL))
            return true;
    }
    return false;
}

bool schema_excludes(struct schema *s, const struct schema_node *at, const cJSON *a,
                     const cJSON *b)
{
    if (a == NULL || b == NULL)
        return true; /* an error has been noted */
    schema_spend(s, 20);
    if (types_differ(s, at, a, b) || values_differ(s, a, b))
        return true;
    /* The rest are reasons about objects: is that all that is written for a, and do they count for
     * all objects in b? */
    if (written_types(s, at, a) != SCHEMA_OBJECT || schema_get(a, "anyOf") != NULL ||
        schema_get(a, "oneOf") != NULL || schema_get(a, "enum") != NULL ||
        schema_get(a, "const") != NULL)
        return false;
    return has_other_member(s, at, a, b) || lacks_member(s, a, b);
}
