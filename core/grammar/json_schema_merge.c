/* core/grammar/json_schema_merge.c - merges schemas that all apply into one.
 *
 * A merged schema is a new object whose members are references into the client's tree, or new where
 * two schemas differ. It has no $ref and no allOf at its top; where members differ below, it gets
 * an allOf of both, which is merged when the compiler reaches it. So merging costs what is written,
 * even of recursive schemas.
 */
#include "core/grammar/json_schema_impl.h"

#include "core/base/err.h"
#include "core/json/json_number.h"

#include <stdio.h>
#include <string.h>

#define MAX_PRODUCT 64 /* branches of the product of two unions */

static cJSON *new_schema(struct schema *s, const struct schema_node *at)
{
    return schema_keep(s, at, cJSON_CreateObject());
}

/* Adds a new item to a schema; `item` may be NULL: out of memory. */
static void put_keyword(struct schema *s, cJSON *to, const char *name, cJSON *item)
{
    if (to == NULL || json_put(to, name, item) == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    schema_spend(s, 2);
}

static void add_keyword(struct schema *s, cJSON *to, const char *name, const cJSON *v)
{
    if (to == NULL || json_put_reference(to, name, v) == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    schema_spend(s, 2);
}

static cJSON *add_keyword_list(struct schema *s, cJSON *to, const char *name)
{
    cJSON *list = cJSON_AddArrayToObject(to, name);

    if (list == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    return list;
}

/* Makes {"allOf":[a,b]}, which is merged when the compiler reaches it; NULL with an error. */
static cJSON *both(struct schema *s, const cJSON *a, const cJSON *b)
{
    cJSON *made = cJSON_CreateObject(), *list = add_keyword_list(s, made, "allOf");

    add_keyword(s, list, NULL, a);
    add_keyword(s, list, NULL, b);
    return made;
}

static void add_both(struct schema *s, cJSON *to, const char *name, const cJSON *a, const cJSON *b)
{
    if (cJSON_IsFalse(a) || cJSON_IsFalse(b))
        put_keyword(s, to, name, cJSON_CreateFalse());
    else if (cJSON_IsTrue(a) || a == b)
        add_keyword(s, to, name, b);
    else if (cJSON_IsTrue(b))
        add_keyword(s, to, name, a);
    else
        put_keyword(s, to, name, both(s, a, b));
}

/* ---- keywords that both have ---- */

static bool is_keyword_of(const char *keyword, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(keyword, *list) == 0)
            return true;
    return false;
}

static const char *const lower_bounds[] = {"minimum",   "exclusiveMinimum", "minLength",
                                           "minItems",  "minProperties",    NULL};
static const char *const upper_bounds[] = {"maximum",   "exclusiveMaximum", "maxLength",
                                           "maxItems",  "maxProperties",    NULL};
static const char *const schemas[] = {"items", "additionalProperties", "propertyNames", NULL};
static const char *const unions[] = {"anyOf", "oneOf", NULL};

static bool names_type(const cJSON *types, const char *name)
{
    const cJSON *it;

    if (cJSON_IsString(types))
        return strcmp(types->valuestring, name) == 0;
    cJSON_ArrayForEach(it, types) {
        if (cJSON_IsString(it) && strcmp(it->valuestring, name) == 0)
            return true;
    }
    return false;
}

static void merge_types(struct schema *s, cJSON *to, const cJSON *a, const cJSON *b)
{
    static const char *const names[] = {"null", "boolean", "string", "array", "object", "number"};
    cJSON *list = add_keyword_list(s, to, "type");

    schema_spend(s, 16 * (1 + schema_size(a) + schema_size(b)));
    for (int i = 0; i < 6; i++)
        if (names_type(a, names[i]) && names_type(b, names[i]))
            put_keyword(s, list, NULL, cJSON_CreateString(names[i]));
    if ((names_type(a, "integer") || names_type(a, "number")) &&
        (names_type(b, "integer") || names_type(b, "number")) &&
        !(names_type(a, "number") && names_type(b, "number")))
        put_keyword(s, list, NULL, cJSON_CreateString("integer"));
}

static void merge_enums(struct schema *s, cJSON *to, const cJSON *a, const cJSON *b)
{
    cJSON *list = add_keyword_list(s, to, "enum");
    const uint64_t n_b = schema_size(b);
    const cJSON *x, *y;

    cJSON_ArrayForEach(x, a) {
        schema_spend(s, 1 + n_b / 4);
        for (y = b->child; y != NULL && !schema_has_failed(s) && !schema_equal(s, x, y);
             y = y->next)
            ;
        if (schema_has_failed(s))
            return;
        if (y != NULL)
            add_keyword(s, list, NULL, x);
    }
}

static void add_all_keywords(struct schema *s, cJSON *list, const cJSON *from)
{
    const cJSON *it;

    cJSON_ArrayForEach(it, from) {
        if (schema_has_failed(s))
            return;
        add_keyword(s, list, NULL, it);
    }
}

static void merge_required(struct schema *s, cJSON *to, const cJSON *a, const cJSON *b)
{
    cJSON *list = add_keyword_list(s, to, "required");

    add_all_keywords(s, list, a);
    add_all_keywords(s, list, b);
}

static void merge_unions(struct schema *s, const struct schema_node *at, cJSON *to,
                         const char *keyword, const cJSON *a, const cJSON *b)
{
    cJSON *list = add_keyword_list(s, to, keyword);
    const cJSON *x, *y;

    if (cJSON_GetArraySize(a) * (int64_t)cJSON_GetArraySize(b) > MAX_PRODUCT) {
        schema_refuse(s, at, "two '%s' for one value have too many branches together", keyword);
        return;
    }
    cJSON_ArrayForEach(x, a) {
        cJSON_ArrayForEach(y, b) put_keyword(s, list, NULL, both(s, x, y));
    }
}

/* A property that only one side names must obey the other side's additionalProperties. */
static void add_merged_property(struct schema *s, cJSON *to, const cJSON *p, const cJSON *other)
{
    const cJSON *additional = schema_get(other, "additionalProperties");

    if (additional == NULL)
        add_keyword(s, to, p->string, p);
    else
        add_both(s, to, p->string, p, additional);
}

static void merge_properties(struct schema *s, cJSON *to, const cJSON *a, const cJSON *b)
{
    const cJSON *of_a = schema_get(a, "properties"), *of_b = schema_get(b, "properties"), *p;
    const uint64_t n_a = schema_size(of_a), n_b = schema_size(of_b);
    cJSON *made = cJSON_AddObjectToObject(to, "properties");

    if (made == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    schema_spend(s, 2 * n_a * n_b); /* each name is searched among the other's */
    if (schema_has_failed(s))
        return;
    cJSON_ArrayForEach(p, of_a) {
        if (of_b != NULL && schema_get(of_b, p->string) != NULL)
            add_both(s, made, p->string, p, schema_get(of_b, p->string));
        else
            add_merged_property(s, made, p, b);
    }
    cJSON_ArrayForEach(p, of_b) {
        if (of_a == NULL || schema_get(of_a, p->string) == NULL)
            add_merged_property(s, made, p, a);
    }
}

static void merge_keyword(struct schema *s, const struct schema_node *at, cJSON *to,
                          const cJSON *a, const cJSON *b)
{
    const char *keyword = a->string;
    const bool numbers = cJSON_IsNumber(a) && cJSON_IsNumber(b);
    const bool lists = cJSON_IsArray(a) && cJSON_IsArray(b);

    if (strcmp(keyword, "type") == 0)
        merge_types(s, to, a, b);
    else if (lists && strcmp(keyword, "enum") == 0)
        merge_enums(s, to, a, b);
    else if (lists && strcmp(keyword, "required") == 0)
        merge_required(s, to, a, b);
    else if (numbers && is_keyword_of(keyword, lower_bounds))
        add_keyword(s, to, keyword, json_number_compare(a, b) > 0 ? a : b);
    else if (numbers && is_keyword_of(keyword, upper_bounds))
        add_keyword(s, to, keyword, json_number_compare(a, b) < 0 ? a : b);
    else if (is_keyword_of(keyword, schemas))
        add_both(s, to, keyword, a, b);
    else if (lists && is_keyword_of(keyword, unions))
        merge_unions(s, at, to, keyword, a, b);
    else if (schema_equal(s, a, b))
        add_keyword(s, to, keyword, a);
    else if (strcmp(keyword, "const") == 0)
        schema_refuse(s, at, "no value is valid: two different 'const' apply to it");
    else
        schema_refuse(s, at, "two different '%.40s' for one value are not supported", keyword);
}

/* Merges a tuple with the `items` of the other side, which apply to each of its items. */
static void merge_tuple(struct schema *s, cJSON *to, const cJSON *tuple, const cJSON *items)
{
    cJSON *list = add_keyword_list(s, to, "prefixItems");
    const cJSON *it;

    cJSON_ArrayForEach(it, tuple) {
        schema_spend(s, 1);
        if (schema_has_failed(s))
            return;
        add_both(s, list, NULL, it, items);
    }
}

/* Merges a tuple on one side with `items` on the other; false: there is no such pair. */
static bool merge_tuples(struct schema *s, const struct schema_node *at, cJSON *to, const cJSON *a,
                         const cJSON *b)
{
    const cJSON *of_a = schema_get(a, "prefixItems"), *of_b = schema_get(b, "prefixItems");
    const cJSON *items_a = schema_get(a, "items"), *items_b = schema_get(b, "items");

    if ((cJSON_IsArray(items_a) && (items_b != NULL || of_b != NULL)) ||
        (cJSON_IsArray(items_b) && (items_a != NULL || of_a != NULL)))
        schema_refuse(s, at, "two tuples for one value are not supported");
    if (of_a != NULL && of_b == NULL && items_b != NULL)
        merge_tuple(s, to, of_a, items_b);
    else if (of_b != NULL && of_a == NULL && items_a != NULL)
        merge_tuple(s, to, of_b, items_a);
    else
        return false;
    return true;
}

/* Refuses additionalProperties of one schema beside patterns of the other: it depends only on
 * patterns beside it. */
static void check_patterns(struct schema *s, const struct schema_node *at, const cJSON *a,
                           const cJSON *b)
{
    const cJSON *additional = schema_get(a, "additionalProperties");
    const cJSON *patterns = schema_get(b, "patternProperties");

    if (additional != NULL && !cJSON_IsTrue(additional) && patterns != NULL &&
        patterns != schema_get(a, "patternProperties"))
        schema_refuse(s, at,
                      "'additionalProperties' is not supported with the 'patternProperties' of "
                      "another schema");
}

static bool is_special(const char *keyword)
{
    return strcmp(keyword, "properties") == 0 || strcmp(keyword, "$ref") == 0 ||
           strcmp(keyword, "allOf") == 0 || schema_is_annotation(keyword);
}

static void combine_into(struct schema *s, const struct schema_node *at, cJSON *to,
                         const cJSON *a, const cJSON *b)
{
    const bool has_tuple = merge_tuples(s, at, to, a, b);
    const cJSON *it;

    check_patterns(s, at, a, b);
    check_patterns(s, at, b, a);
    if (schema_get(a, "properties") != NULL || schema_get(b, "properties") != NULL)
        merge_properties(s, to, a, b);
    cJSON_ArrayForEach(it, a) {
        const cJSON *other = schema_has_failed(s) ? NULL : schema_get(b, it->string);

        if (is_special(it->string) || (has_tuple && strcmp(it->string, "prefixItems") == 0))
            continue;
        if (other != NULL)
            merge_keyword(s, at, to, it, other);
        else
            add_keyword(s, to, it->string, it);
    }
    cJSON_ArrayForEach(it, b) {
        if (!schema_has_failed(s) && !is_special(it->string) &&
            !(has_tuple && strcmp(it->string, "prefixItems") == 0) &&
            schema_get(a, it->string) == NULL)
            add_keyword(s, to, it->string, it);
    }
}

static const cJSON *combine(struct schema *s, const struct schema_node *at, const cJSON *a,
                            const cJSON *b)
{
    cJSON *to = new_schema(s, at);

    if (to == NULL || a == NULL || b == NULL)
        return NULL;
    schema_spend(s, 20 + 2 * (schema_size(a) + 10) * (schema_size(b) + 10));
    if (schema_has_failed(s))
        return NULL;
    combine_into(s, at, to, a, b);
    return schema_has_failed(s) ? NULL : to;
}

/* ---- $ref and allOf ---- */

/* Writes OpenAPI's nullable as one more type; without a type null is not written. */
static void add_nullable_type(struct schema *s, cJSON *to, const cJSON *type)
{
    cJSON *list = add_keyword_list(s, to, "type");

    if (cJSON_IsString(type))
        add_keyword(s, list, NULL, type);
    else
        add_all_keywords(s, list, type);
    put_keyword(s, list, NULL, cJSON_CreateString("null"));
}

bool schema_has_old_bounds(const cJSON *schema)
{
    return cJSON_IsBool(schema_get(schema, "exclusiveMinimum")) ||
           cJSON_IsBool(schema_get(schema, "exclusiveMaximum"));
}

const char *schema_bound_name(const cJSON *schema, const cJSON *member)
{
    static const char *const pairs[][2] = {{"minimum", "exclusiveMinimum"},
                                           {"maximum", "exclusiveMaximum"}};

    for (int i = 0; i < 2; i++) {
        if (cJSON_IsBool(member) && strcmp(member->string, pairs[i][1]) == 0)
            return NULL;
        if (strcmp(member->string, pairs[i][0]) == 0 &&
            cJSON_IsTrue(schema_get(schema, pairs[i][1])))
            return pairs[i][1];
    }
    return member->string;
}

/* Copies the schema's own keywords, without $ref and allOf. */
static const cJSON *own(struct schema *s, const struct schema_node *at)
{
    cJSON *to = new_schema(s, at);
    const cJSON *it;

    if (to == NULL)
        return NULL;
    cJSON_ArrayForEach(it, at->schema) {
        schema_spend(s, 20); /* comparisons of words */
        if (schema_has_failed(s))
            return NULL;
        if (strcmp(it->string, "nullable") == 0)
            continue;
        if (strcmp(it->string, "type") == 0 && cJSON_IsTrue(schema_get(at->schema, "nullable")))
            add_nullable_type(s, to, it);
        else if ((strcmp(it->string, "properties") == 0 || !is_special(it->string)) &&
                 schema_bound_name(at->schema, it) != NULL)
            add_keyword(s, to, schema_bound_name(at->schema, it), it);
    }
    return to;
}

static const cJSON *merge_all_of(struct schema *s, const struct schema_node *at,
                                 const cJSON *merged)
{
    const cJSON *list = schema_get(at->schema, "allOf"), *it;
    uint32_t n = 0;

    if (list != NULL && (!cJSON_IsArray(list) || list->child == NULL)) {
        schema_refuse(s, at, "'allOf' must be a list with at least one schema");
        return NULL;
    }
    cJSON_ArrayForEach(it, list) {
        char index[12];
        struct schema_node in;

        snprintf(index, sizeof(index), "%u", n++);
        in = schema_in(at, it, "allOf", index);
        merged = combine(s, at, merged, schema_merge(s, &in));
        if (merged == NULL || schema_has_failed(s))
            return NULL;
    }
    return merged;
}

static const cJSON *merge_schemas(struct schema *s, const struct schema_node *at)
{
    struct schema_node in = *at;
    const cJSON *merged;

    if (at->depth > SCHEMA_MAX_DEPTH) {
        schema_refuse(s, at, "schemas are nested too deeply, or refer to each other in a cycle");
        return NULL;
    }
    if (cJSON_IsTrue(at->schema))
        return new_schema(s, at);
    if (!cJSON_IsObject(at->schema)) {
        schema_refuse(s, at,
                      cJSON_IsFalse(at->schema) ? "the schema false matches no value"
                                                : "a schema must be an object");
        return NULL;
    }
    merged = own(s, at);
    if (schema_get(at->schema, "$ref") != NULL) {
        in.schema = schema_target(s, at);
        in.depth++;
        merged = in.schema != NULL ? combine(s, at, merged, schema_merge(s, &in)) : NULL;
    }
    return merged != NULL ? merge_all_of(s, at, merged) : NULL;
}

/* Merges a schema once, however many refer to it: else each level of $refs that fork would double
 * the work. */
const cJSON *schema_merge(struct schema *s, const struct schema_node *at)
{
    const cJSON *merged;

    if (schema_has_failed(s))
        return NULL;
    if (at->schema != NULL && schema_known(s, at->schema)->merged != NULL)
        return schema_known(s, at->schema)->merged;
    merged = merge_schemas(s, at);
    if (merged != NULL)
        schema_known(s, at->schema)->merged = merged;
    return merged;
}

const cJSON *schema_merge_two(struct schema *s, const struct schema_node *at, const cJSON *schema,
                              const cJSON *also)
{
    struct schema_node one = *at, two = *at;
    const cJSON *a;

    one.schema = schema;
    two.schema = also;
    two.depth++;
    a = schema_merge(s, &one);
    return a != NULL ? combine(s, at, a, schema_merge(s, &two)) : NULL;
}
