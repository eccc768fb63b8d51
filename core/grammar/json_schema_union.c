/* core/grammar/json_schema_union.c - anyOf and oneOf: a choice of the branches.
 *
 * A branch is merged with the keywords beside the union, so that both apply; a branch that
 * contradicts them, or whose listed values they all exclude, is left out. A branch with nothing
 * beside it stays as it is, so that a $ref in it remains the call of a rule and recursion ends.
 * oneOf is treated as anyOf.
 */
#include "core/grammar/json_schema_impl.h"

#include "core/base/err.h"

#include <stdio.h>
#include <string.h>

#define MAX_BRANCHES 256

/* Copies the schema without its anyOf or oneOf, and without annotations. */
const cJSON *schema_without(struct schema *s, const struct schema_node *at, const char *keyword)
{
    cJSON *copy = schema_keep(s, at, cJSON_CreateObject());
    const cJSON *it;

    if (copy == NULL)
        return NULL;
    cJSON_ArrayForEach(it, at->schema)
    {
        if (strcmp(it->string, keyword) == 0 || schema_is_annotation(it->string))
            continue;
        if (json_put_reference(copy, it->string, it) == NULL)
            grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    }
    return copy;
}

bool schema_is_impossible(const cJSON *merged)
{
    const cJSON *type = schema_get(merged, "type"), *values = schema_get(merged, "enum");

    return (cJSON_IsArray(type) && type->child == NULL) ||
           (cJSON_IsArray(values) && values->child == NULL);
}

/* Merges a branch with the keywords beside the union. Without any it stays as it is: a plain
 * reference must stay one, so that recursion goes through a rule. False: it contradicts them. */
static bool merge_branch(struct schema *s, struct schema_node *in, const cJSON *base)
{
    const cJSON *merged, *value = NULL;

    if (base->child == NULL && schema_get(in->schema, "allOf") == NULL)
        return true;
    merged = schema_merge_two(s, in, in->schema, base);
    if (merged == NULL || schema_is_impossible(merged))
        return false;
    in->schema = merged;
    return (schema_get(merged, "enum") == NULL && schema_get(merged, "const") == NULL) ||
           schema_next_value(s, in, &value);
}

bool schema_branch(struct schema *s, const struct schema_node *at, const char *keyword, uint32_t n,
                   const cJSON *branch, const cJSON *base, struct schema_node *in)
{
    char index[12];

    snprintf(index, sizeof(index), "%u", n);
    *in = schema_in(at, branch, keyword, index);
    return !cJSON_IsFalse(branch) && merge_branch(s, in, base);
}

/* Writes the union; branches that contradict the keywords beside it are left out. */
struct grammar_piece schema_union(struct schema *s, const struct schema_node *at, const cJSON *list,
                                  const char *keyword)
{
    const cJSON *base = schema_without(s, at, keyword), *it;
    struct grammar_piece p = {0}, q;
    uint32_t n = 0;
    bool any = false;

    if (base == NULL)
        return p;
    if (!cJSON_IsArray(list) || list->child == NULL || cJSON_GetArraySize(list) > MAX_BRANCHES)
        return schema_refuse(s, at, "'%s' must be a list of 1 to %d schemas", keyword,
                             MAX_BRANCHES);
    for (it = list->child; it != NULL && !schema_has_failed(s); it = it->next, n++) {
        struct schema_node in;

        if (!schema_branch(s, at, keyword, n, it, base, &in))
            continue;
        q = schema_write(s, &in);
        p = any ? grammar_or(s->b, p, q) : q;
        any = true;
    }
    if (!any && !schema_has_failed(s))
        schema_refuse(s, at, "no branch of '%s' matches any value", keyword);
    return p;
}
