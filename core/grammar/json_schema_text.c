/* core/grammar/json_schema_text.c - values of a schema that are not written as JSON.
 *
 * Arguments of some chat templates are raw strings, up to a text that ends them, or Python
 * literals. The strings of a schema become an expression from which the end and texts that would be
 * read as another type are subtracted; a list of strings (enum) is filtered and spelled out
 * instead, because as an expression a long list is too large.
 */
#include "core/grammar/json_schema.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/char_class.h"
#include "core/grammar/expr.h"
#include "core/grammar/json_schema_impl.h"
#include "core/grammar/regex.h"

#include <string.h>

static uint32_t strings_of(struct schema *s, const struct schema_node *at, struct expr_set *e);

static uint32_t strings_of_branches(struct schema *s, const struct schema_node *at,
                                    const cJSON *list, const char *keyword, struct expr_set *e)
{
    const cJSON *base = schema_without(s, at, keyword), *it;
    uint32_t out = EXPR_NONE, n = 0;

    cJSON_ArrayForEach(it, list)
    {
        struct schema_node in;

        if (schema_has_failed(s) || base == NULL)
            return EXPR_NONE;
        if (schema_branch(s, at, keyword, n++, it, base, &in))
            out = expr_or(e, out, strings_of(s, &in, e));
    }
    return out;
}

/* Returns the strings that the schema allows; EXPR_NONE if there are none. */
static uint32_t strings_of(struct schema *s, const struct schema_node *at, struct expr_set *e)
{
    const cJSON *any = schema_get(at->schema, "anyOf"), *one = schema_get(at->schema, "oneOf");
    struct schema_node here = *at;
    unsigned types;

    schema_spend(s, 20);
    if (schema_has_failed(s) || cJSON_IsTrue(at->schema))
        return schema_has_failed(s) ? EXPR_NONE : EXPR_ALL;
    if (at->depth > SCHEMA_MAX_DEPTH || !cJSON_IsObject(at->schema)) {
        schema_refuse(s, at, "a schema must be an object, and must not refer to itself in a cycle");
        return EXPR_NONE;
    }
    if (schema_get(at->schema, "$ref") != NULL || schema_get(at->schema, "allOf") != NULL) {
        here.schema = schema_merge(s, at);
        here.depth++;
        return here.schema != NULL ? strings_of(s, &here, e) : EXPR_NONE;
    }
    here.depth++;
    if (any != NULL || one != NULL)
        return strings_of_branches(s, &here, any != NULL ? any : one,
                                   any != NULL ? "anyOf" : "oneOf", e);
    if (schema_get(at->schema, "enum") != NULL || schema_get(at->schema, "const") != NULL)
        return schema_listed_strings(s, at, e);
    types = schema_written_types(s, at);
    return (types & SCHEMA_STRING) != 0 ? schema_string_expr(s, at, e) : EXPR_NONE;
}

/* ---- lists of strings: spelled out, for as an expression a long list is too large ---- */

struct listed {
    struct text_ref *texts;
    uint32_t n, cap;
};

static bool list_string(struct schema *s, struct listed *l, const char *text)
{
    const uint32_t cap = l->cap > 0 ? 2 * l->cap : 16;
    struct text_ref *more = l->texts;

    if (l->n == l->cap) {
        more = mem_realloc(l->texts, cap * sizeof(*more));
        if (more == NULL) {
            grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
            return false;
        }
        l->texts = more;
        l->cap = cap;
    }
    l->texts[l->n++] = (struct text_ref){text, strlen(text)};
    return true;
}

static bool list_strings(struct schema *s, const struct schema_node *at, struct listed *l);

static bool list_branches(struct schema *s, const struct schema_node *at, const cJSON *list,
                          const char *keyword, struct listed *l)
{
    const cJSON *base = schema_without(s, at, keyword), *it;
    uint32_t n = 0;

    cJSON_ArrayForEach(it, list)
    {
        struct schema_node in;

        if (base == NULL || schema_has_failed(s) ||
            (schema_branch(s, at, keyword, n++, it, base, &in) && !list_strings(s, &in, l)))
            return false;
    }
    return true;
}

/* Collects the schema's strings if all of them are listed (enum, const). False: some are not. */
static bool list_strings(struct schema *s, const struct schema_node *at, struct listed *l)
{
    const cJSON *any = schema_get(at->schema, "anyOf"), *one = schema_get(at->schema, "oneOf");
    struct schema_node here = *at;
    const cJSON *v = NULL;

    schema_spend(s, 20);
    if (schema_has_failed(s) || at->depth > SCHEMA_MAX_DEPTH || !cJSON_IsObject(at->schema))
        return false;
    here.depth++;
    if (schema_get(at->schema, "$ref") != NULL || schema_get(at->schema, "allOf") != NULL) {
        here.schema = schema_merge(s, at);
        return here.schema != NULL && list_strings(s, &here, l);
    }
    if (any != NULL || one != NULL)
        return list_branches(s, &here, any != NULL ? any : one, any != NULL ? "anyOf" : "oneOf", l);
    if (schema_get(at->schema, "enum") == NULL && schema_get(at->schema, "const") == NULL)
        return (schema_written_types(s, at) & SCHEMA_STRING) == 0;
    while (!schema_has_failed(s) && schema_next_value(s, at, &v))
        if (cJSON_IsString(v) && !list_string(s, l, v->valuestring))
            return false;
    return true;
}

/* Writes the listed strings that do not contain the end and are not read as another value. False:
 * there are none. */
static bool write_listed(struct schema *s, const struct schema_text *how, struct expr_set *e,
                         struct listed *l, struct grammar_piece *piece)
{
    const uint32_t others = how->others != NULL
                                ? grammar_regex_expr(e, s->b, how->others, strlen(how->others), 0)
                                : EXPR_NONE;
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->n && !schema_has_failed(s); i++) {
        schema_spend(s, 10 + l->texts[i].n / 5);
        if (strstr(l->texts[i].bytes, how->end) == NULL &&
            (how->others == NULL || !expr_matches(e, others, l->texts[i].bytes)))
            l->texts[n++] = l->texts[i];
    }
    if (schema_has_failed(s) || n == 0)
        return false;
    *piece = grammar_choice(s->b, l->texts, n);
    return !schema_has_failed(s);
}

static bool write_expr(struct schema *s, const struct schema_node *at,
                       const struct schema_text *how, struct expr_set *e,
                       struct grammar_piece *piece)
{
    uint32_t out = strings_of(s, at, e);
    const uint32_t has_end = expr_then(e, EXPR_ALL, expr_then(e, expr_text(e, how->end), EXPR_ALL));

    out = expr_and(e, out, expr_not(e, has_end));
    if (how->others != NULL)
        out = expr_and(
            e, out, expr_not(e, grammar_regex_expr(e, s->b, how->others, strlen(how->others), 0)));
    return !schema_has_failed(s) && expr_piece_or_none(e, out, false, piece);
}

static bool write_text(struct schema *s, const cJSON *schema, const struct schema_text *how,
                       struct expr_set *e, struct grammar_piece *piece)
{
    const struct schema_node at = {.schema = schema, .pointer = "#"};
    struct listed listed = {0};
    const bool is_listed = list_strings(s, &at, &listed);
    const bool any = is_listed ? write_listed(s, how, e, &listed, piece)
                               : !schema_has_failed(s) && write_expr(s, &at, how, e, piece);

    mem_free(listed.texts);
    return any;
}

bool grammar_schema_text(struct grammar_builder *b, const cJSON *root, const cJSON *schema,
                         const struct schema_text *how, struct grammar_piece *out)
{
    struct char_class all = {.n = 0};
    struct expr_set *e = NULL;
    bool any = false;
    struct schema s;

    *out = (struct grammar_piece){0};
    char_class_add(&all, 1, CHAR_LAST); /* U+0000 would end a C string */
    if (schema_begin(&s, b, root) == 0 && expr_create(&e, b, &all) == 0)
        any = write_text(&s, schema, how, e, out);
    expr_destroy(&e);
    schema_end(&s);
    return any;
}

/* Returns the schema without its strings; NULL with an error. */
static const cJSON *without_strings(struct schema *s, const cJSON *schema)
{
    static const char *const types[] = {"null", "boolean", "number", "array", "object"};
    const struct schema_node at = {.schema = schema, .pointer = "#"};
    cJSON *also = schema_keep(s, &at, cJSON_CreateObject());

    if (also == NULL)
        return NULL;
    if (json_put(also, "type", cJSON_CreateStringArray(types, 5)) == NULL) {
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
        return NULL;
    }
    return schema_merge_two(s, &at, schema, also);
}

struct grammar_piece grammar_schema_within(struct grammar_builder *b, const cJSON *root,
                                           const cJSON *schema, bool has_strings, bool is_python)
{
    struct grammar_piece p = {0};
    struct schema s;

    if (schema_begin(&s, b, root) == 0) {
        s.is_python = is_python;
        if (!has_strings)
            schema = without_strings(&s, schema);
        if (schema != NULL)
            p = schema_rules(&s, schema);
    }
    schema_end(&s);
    return p;
}
