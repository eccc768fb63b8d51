/* core/grammar/json_schema_unique.c - arrays whose items are all different.
 *
 * A grammar remembers what was written only by its position, so this is done only for items with
 * few values: there is a rule for each set of values that have been written, made when another rule
 * first needs it.
 */
#include "core/grammar/json_schema_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#define MAX_VALUES 16
#define MAX_SETS 1100 /* all sets of ten values, or the small ones of sixteen */

struct unique {
    struct schema *s;
    uint32_t values[MAX_VALUES];   /* rules */
    const cJSON *listed[MAX_VALUES]; /* the value, if the schema lists it */
    uint32_t n, min, max;
    uint32_t *rest; /* [1 << n] rule + 1 of what follows this set of values, or 0 */
};

static void add_unique(struct unique *u, const struct schema_node *at, const cJSON *v,
                       const char *text)
{
    if (u->n == MAX_VALUES) {
        schema_refuse(u->s, at,
                      "'uniqueItems' is only supported for items with an 'enum' of up to %d values",
                      MAX_VALUES);
        return;
    }
    u->values[u->n] = grammar_rule(u->s->b, "an item");
    grammar_define(u->s->b, u->values[u->n], grammar_text(u->s->b, text));
    u->listed[u->n++] = v;
}

/* True: the value is listed already. 1.0 and 1 are the same item. */
static bool is_known_value(struct unique *u, const cJSON *v)
{
    uint32_t i = 0;

    while (i < u->n && !schema_equal(u->s, u->listed[i], v))
        i++;
    return i < u->n;
}

static void add_listed(struct unique *u, const struct schema_node *at)
{
    const cJSON *v = NULL;

    while (!schema_has_failed(u->s) && schema_next_value(u->s, at, &v)) {
        char *text = !is_known_value(u, v) ? schema_value_text(u->s, v) : NULL;

        if (text != NULL)
            add_unique(u, at, v, text);
        mem_free(text);
    }
}

static void add_words(struct unique *u, const struct schema_node *at)
{
    static const char *const words[] = {"null", "true", "false"};
    const unsigned types = schema_types(u->s, at);

    if ((types & ~(unsigned)(SCHEMA_NULL | SCHEMA_BOOLEAN)) != 0) {
        schema_refuse(u->s, at,
                      "'uniqueItems' is only supported for items with an 'enum' of up to %d values",
                      MAX_VALUES);
        return;
    }
    for (int i = 0; i < 3; i++)
        if (types & (i == 0 ? SCHEMA_NULL : SCHEMA_BOOLEAN))
            add_unique(u, at, NULL, words[i]);
}

static void read_values(struct unique *u, const struct schema_node *at, const cJSON *items)
{
    struct schema_node in = schema_in(at, items, "items", NULL);

    if (!cJSON_IsObject(items)) {
        schema_refuse(u->s, at,
                      "'uniqueItems' is only supported for items with an 'enum' of up to %d values",
                      MAX_VALUES);
        return;
    }
    in.schema = schema_merge(u->s, &in);
    if (in.schema == NULL)
        return;
    if (schema_get(in.schema, "enum") != NULL || schema_get(in.schema, "const") != NULL) {
        schema_values(u->s, &in); /* reports errors in them; the piece is not used */
        add_listed(u, &in);
    } else {
        add_words(u, &in);
    }
}

static uint64_t sets_below(uint32_t n, uint32_t max)
{
    uint64_t sum = 1, ways = 1;

    for (uint32_t k = 1; k < max && k <= n; k++) {
        ways = ways * (n - k + 1) / k;
        sum += ways;
    }
    return sum;
}

/* Returns the rule of what can follow the values in `set`. */
static uint32_t rest_of(struct unique *u, uint32_t set)
{
    const uint32_t written = (uint32_t)__builtin_popcount(set);
    struct grammar_builder *b = u->s->b;
    struct grammar_piece p = {0}, q;
    bool any = written >= u->min;
    uint32_t rule;

    if (u->rest[set] > 0 || schema_has_failed(u->s))
        return u->rest[set] - 1;
    rule = grammar_rule(b, "further items");
    u->rest[set] = rule + 1;
    for (uint32_t i = 0; i < u->n && written < u->max;
         i++) /* rules first: a piece is contiguous */
        if (!(set >> i & 1) && written + 1 < u->max)
            rest_of(u, set | 1u << i);
    if (any)
        p = grammar_empty(b);
    for (uint32_t i = 0; i < u->n && written < u->max; i++) {
        if (set >> i & 1)
            continue;
        q = written > 0 ? schema_comma(u->s) : grammar_empty(b);
        q = grammar_then(b, q, grammar_call(b, u->values[i]));
        if (written + 1 < u->max)
            q = grammar_then(b, q, grammar_call(b, rest_of(u, set | 1u << i)));
        p = any ? grammar_or(b, p, q) : q;
        any = true;
    }
    grammar_define(b, rule, p);
    return rule;
}

struct grammar_piece schema_unique(struct schema *s, const struct schema_node *at,
                                   const cJSON *items, uint32_t min, uint32_t max)
{
    struct unique u = {.s = s, .min = min, .max = max};
    struct grammar_piece p = {0};
    uint32_t first;

    read_values(&u, at, items);
    if (u.max > u.n)
        u.max = u.n;
    if (!schema_has_failed(s) && (u.min > u.n || u.max == 0))
        schema_refuse(s, at, "'minItems' is above the number of different items");
    else if (!schema_has_failed(s) && sets_below(u.n, u.max) > MAX_SETS)
        schema_refuse(s, at, "'uniqueItems' with %u values and up to %u items is not supported",
                      u.n, u.max);
    if (schema_has_failed(s))
        return p;
    u.rest = mem_calloc((size_t)1 << u.n, sizeof(*u.rest));
    if (u.rest == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    else {
        first = rest_of(&u, 0);
        p = grammar_text(s->b, "[");
        p = grammar_then(s->b, p, grammar_call(s->b, first));
        p = grammar_then(s->b, p, grammar_text(s->b, "]"));
    }
    mem_free(u.rest);
    return p;
}
