/* core/grammar/json_schema_array.c - JSON arrays of a schema.
 *
 * read_array() reduces all keywords to a prefix of fixed items, one schema for the items after it,
 * and a minimum and maximum: a `false` in the prefix, or no schema after it, lowers the maximum.
 * Then an array is the prefix, and a counted repetition of "comma, item". An array of different
 * values is written by json_schema_unique.c.
 */
#include "core/grammar/json_schema_impl.h"

#include <stdio.h>

struct array {
    const cJSON *prefix; /* the list of a tuple, or NULL */
    const cJSON *items;  /* schema of the items after the prefix, or NULL */
    const char *items_keyword;
    uint32_t n_prefix, min, max;
    uint32_t item; /* rule of an item after the prefix */
    bool is_unique;
};

/* Reads the items' keywords. Older drafts write a tuple as a list in `items`, and the rest as
 * `additionalItems`. */
static void read_items(struct schema *s, const struct schema_node *at, struct array *a)
{
    const cJSON *items = schema_get(at->schema, "items");

    a->prefix = schema_get(at->schema, "prefixItems");
    a->items = items;
    a->items_keyword = "items";
    if (a->prefix == NULL && cJSON_IsArray(items)) {
        a->prefix = items;
        a->items = NULL;
    }
    if (a->prefix != NULL && a->items == NULL) {
        a->items = schema_get(at->schema, "additionalItems");
        a->items_keyword = "additionalItems";
    }
    if (a->prefix != NULL && !cJSON_IsArray(a->prefix))
        schema_refuse(s, at, "'prefixItems' must be a list of schemas");
    if (a->items != NULL && !cJSON_IsObject(a->items) && !cJSON_IsBool(a->items))
        schema_refuse(s, at, "'%s' must be a schema", a->items_keyword);
}

/* Returns how many items of the prefix are written: up to the maximum, or to one that must not be
 * there. */
static uint32_t prefix_length(struct schema *s, struct array *a)
{
    const cJSON *it;
    uint32_t n = 0;

    schema_spend(s, 1 + schema_size(a->prefix));
    cJSON_ArrayForEach(it, a->prefix)
    {
        if (cJSON_IsFalse(it) && n < a->max)
            a->max = n;
        if (n == a->max)
            break;
        n++;
    }
    return n;
}

static void read_array(struct schema *s, const struct schema_node *at, struct array *a)
{
    const cJSON *unique = schema_get(at->schema, "uniqueItems");

    read_items(s, at, a);
    a->min = schema_count(s, at, "minItems", 0);
    a->max = schema_count(s, at, "maxItems", GRAMMAR_NO_LIMIT);
    if (unique != NULL && !cJSON_IsBool(unique))
        schema_refuse(s, at, "'uniqueItems' must be true or false");
    a->n_prefix = prefix_length(s, a);
    if (cJSON_IsFalse(a->items) || (a->items == NULL && a->n_prefix > 0 && a->min <= a->n_prefix))
        a->max = a->max < a->n_prefix ? a->max : a->n_prefix; /* no items after the prefix */
    if (a->min < a->n_prefix)
        a->min = a->n_prefix;
    a->is_unique = cJSON_IsTrue(unique) && a->max > 1;
    if (a->is_unique && a->n_prefix > 0)
        schema_refuse(s, at, "'uniqueItems' is not supported for a tuple ('prefixItems')");
    if (a->min > a->max)
        schema_refuse(s, at,
                      "'minItems' is above the number of items that 'maxItems', 'prefixItems' or "
                      "'items' allow");
}

static struct grammar_piece prefix_items(struct schema *s, const struct schema_node *at,
                                         const struct array *a)
{
    const cJSON *it = a->prefix != NULL ? a->prefix->child : NULL;
    struct grammar_piece p = grammar_empty(s->b);

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

/* Makes the item a rule, because it is used twice: as the first one, and after a comma. */
static uint32_t item_rule(struct schema *s, const struct schema_node *at, const struct array *a)
{
    const struct schema_node in = schema_in(at, a->items, a->items_keyword, NULL);
    uint32_t rule;

    if (a->items == NULL || cJSON_IsTrue(a->items))
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
    if (a.is_unique)
        return schema_unique(s, at, a.items, a.min, a.max);
    if (a.max > a.n_prefix)
        a.item = item_rule(s, at, &a);
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
