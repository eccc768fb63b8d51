/* core/grammar/json_schema_array.c - JSON arrays of a schema. */
#include "core/grammar/json_schema_impl.h"

#include <stdio.h>

struct array {
    const cJSON *items; /* NULL: nothing was said */
    uint32_t n_prefix, min, max;
    uint32_t item; /* its rule */
};

static void read_array(struct schema *s, const struct schema_node *at, struct array *a)
{
    const cJSON *prefix = schema_get(at->schema, "prefixItems");
    const cJSON *unique = schema_get(at->schema, "uniqueItems");

    a->items = schema_get(at->schema, "items");
    a->min = schema_count(s, at, "minItems", 0);
    a->max = schema_count(s, at, "maxItems", GRAMMAR_NO_LIMIT);
    if (prefix != NULL && (!cJSON_IsArray(prefix) || prefix->child == NULL))
        schema_refuse(s, at, "'prefixItems' must be a list with at least one schema");
    if (a->items != NULL && !cJSON_IsObject(a->items) && !cJSON_IsBool(a->items))
        schema_refuse(s, at, "'items' must be a schema");
    a->n_prefix = (uint32_t)cJSON_GetArraySize(prefix);
    if (a->n_prefix > a->max)
        a->n_prefix = a->max;
    if (cJSON_IsFalse(a->items) || (a->items == NULL && prefix != NULL && a->min <= a->n_prefix))
        a->max = a->max < a->n_prefix ? a->max : a->n_prefix; /* nothing behind the prefix */
    if (a->min < a->n_prefix)
        a->min = a->n_prefix;
    if (unique != NULL && !cJSON_IsFalse(unique) && a->max > 1)
        schema_refuse(s, at, "'uniqueItems' is supported only up to one item");
    if (a->min > a->max)
        schema_refuse(s, at, "no array is as long as minItems and as short as maxItems or items");
}

static struct grammar_piece prefix_items(struct schema *s, const struct schema_node *at,
                                         const struct array *a)
{
    const cJSON *it = schema_get(at->schema, "prefixItems");
    struct grammar_piece p = grammar_empty(s->b);

    it = it != NULL ? it->child : NULL;
    for (uint32_t i = 0; i < a->n_prefix && !schema_has_failed(s); i++, it = it->next) {
        char index[12];
        struct schema_node in;

        snprintf(index, sizeof(index), "%u", i);
        in = schema_in(at, it, "prefixItems", index);
        if (i > 0)
            p = grammar_then(s->b, p, schema_comma(s));
        p = grammar_then(s->b, p, schema_write(s, &in));
    }
    return p;
}

/* The item is a rule, because it stands twice: as the first, and behind a comma. */
static uint32_t item_rule(struct schema *s, const struct schema_node *at, const cJSON *items)
{
    const struct schema_node in = schema_in(at, items, "items", NULL);
    uint32_t rule;

    if (items == NULL || cJSON_IsTrue(items))
        return schema_value_rule(s);
    rule = grammar_rule(s->b, "an item");
    grammar_define(s->b, rule, schema_write(s, &in));
    return rule;
}

static struct grammar_piece more_items(struct schema *s, const struct array *a, uint32_t before)
{
    struct grammar_piece p = schema_comma(s);

    p = grammar_then(s->b, p, grammar_call(s->b, a->item));
    return grammar_repeat(s->b, p, a->min > before ? a->min - before : 0,
                          a->max == GRAMMAR_NO_LIMIT ? a->max : a->max - before);
}

static struct grammar_piece items_alone(struct schema *s, const struct array *a)
{
    struct grammar_piece p = grammar_call(s->b, a->item);

    if (a->max > 1)
        p = grammar_then(s->b, p, more_items(s, a, 1));
    return a->min == 0 ? grammar_repeat(s->b, p, 0, 1) : p;
}

struct grammar_piece schema_array(struct schema *s, const struct schema_node *at)
{
    struct array a = {.n_prefix = 0};
    struct grammar_piece p, inside;

    read_array(s, at, &a);
    if (schema_has_failed(s))
        return (struct grammar_piece){0};
    if (a.max > a.n_prefix)
        a.item = item_rule(s, at, a.items);
    p = grammar_text(s->b, "[");
    if (a.n_prefix > 0) {
        inside = prefix_items(s, at, &a);
        if (a.max > a.n_prefix)
            inside = grammar_then(s->b, inside, more_items(s, &a, a.n_prefix));
    } else {
        inside = a.max > 0 ? items_alone(s, &a) : grammar_empty(s->b);
    }
    p = grammar_then(s->b, p, inside);
    return grammar_then(s->b, p, grammar_text(s->b, "]"));
}
