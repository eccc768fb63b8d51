/* core/grammar/json_schema_union.c - anyOf and oneOf: the branches, each with what stands beside
 * the union. */
#include "core/grammar/json_schema_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

#define MAX_BRANCHES 256

/* The schema without its anyOf or oneOf. */
static const cJSON *without(struct schema *s, const struct schema_node *at, const char *keyword)
{
    cJSON *copy = schema_keep(s, at, cJSON_CreateObject());
    const cJSON *it;

    if (copy == NULL)
        return NULL;
    cJSON_ArrayForEach(it, at->schema) {
        if (strcmp(it->string, keyword) == 0 || schema_is_annotation(it->string))
            continue;
        if (json_put_reference(copy, it->string, it) == NULL)
            grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    }
    return copy;
}

static void check_exclusive(struct schema *s, const struct schema_node *at,
                            const cJSON *const *branches, uint32_t n)
{
    for (uint32_t i = 0; i < n && !schema_has_failed(s); i++)
        for (uint32_t k = 0; k < n && !schema_has_failed(s); k++)
            if (i != k && !schema_excludes(s, at, branches[i], branches[k]))
                schema_refuse(s, at,
                              "oneOf is supported where no value can match two branches, and "
                              "branches %u and %u may match one",
                              i < k ? i : k, i < k ? k : i);
}

/* Did merging leave no type or no value? */
static bool is_impossible(const cJSON *merged)
{
    const cJSON *type = schema_get(merged, "type"), *values = schema_get(merged, "enum");

    return (cJSON_IsArray(type) && type->child == NULL) ||
           (cJSON_IsArray(values) && values->child == NULL);
}

/* A branch with all that stands beside the union, or as it is: a plain reference stays one, so that
 * recursion goes through a rule. */
static const cJSON *merge_branch(struct schema *s, struct schema_node *in, const cJSON *base,
                                 bool exclusive)
{
    const cJSON *branch = in->schema, *merged = NULL;

    if (exclusive || base->child != NULL || schema_get(branch, "allOf") != NULL)
        merged = schema_merge_two(s, in, branch, base);
    if (merged != NULL && (base->child != NULL || schema_get(branch, "allOf") != NULL))
        in->schema = merged;
    return merged;
}

/* Branches that contradict what stands beside them are left out. */
struct grammar_piece schema_union(struct schema *s, const struct schema_node *at,
                                  const cJSON *list, const char *keyword, bool exclusive)
{
    const cJSON *base = without(s, at, keyword), *it, **merged;
    struct grammar_piece p = {0}, q;
    uint32_t n = 0;
    bool any = false;

    if (base == NULL)
        return p;
    if (!cJSON_IsArray(list) || list->child == NULL || cJSON_GetArraySize(list) > MAX_BRANCHES)
        return schema_refuse(s, at, "'%s' must be a list of 1 to %d schemas", keyword,
                             MAX_BRANCHES);
    merged = mem_calloc(MAX_BRANCHES, sizeof(*merged));
    if (merged == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    for (it = list->child; it != NULL && !schema_has_failed(s); it = it->next, n++) {
        char index[12];
        struct schema_node in;

        snprintf(index, sizeof(index), "%u", n);
        in = schema_in(at, it, keyword, index);
        merged[n] = merge_branch(s, &in, base, exclusive);
        if (merged[n] != NULL && is_impossible(merged[n])) {
            merged[n] = NULL;
            continue;
        }
        q = schema_write(s, &in);
        p = any ? grammar_or(s->b, p, q) : q;
        any = true;
    }
    if (!any && !schema_has_failed(s))
        schema_refuse(s, at, "no branch of '%s' is possible", keyword);
    if (exclusive && !schema_has_failed(s))
        check_exclusive(s, at, merged, n);
    mem_free(merged);
    return p;
}
