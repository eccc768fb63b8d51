/* server/api/constraint/constraint_arguments.c - see constraint_arguments.h. */
#include "server/api/constraint/constraint_arguments.h"

#include "core/base/err.h"
#include "core/grammar/json_schema.h"
#include "server/api/chat/call_value.h"
#include "server/api/chat/family.h"

#include <string.h>

static const cJSON *member_of(const cJSON *schema, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(schema, name);
}

/* ---- values ---- */

/* The text that ends a raw value. */
static const char *end_of(const struct call_pattern *p)
{
    for (uint32_t i = pattern_hole(p) + 1; i < p->n; i++)
        if (p->at[i].kind == PATTERN_TEXT && !p->at[i].is_optional)
            return p->at[i].text;
    return "";
}

static bool has_kind(const struct family *f, enum pattern_kind kind)
{
    for (uint32_t i = 0; i < f->n_arguments; i++)
        if (f->arguments[i].at[pattern_hole(&f->arguments[i])].kind == kind)
            return true;
    return false;
}

/* A string between the family's quotes. */
static struct grammar_piece quoted_piece(const struct calls_tool *t, const cJSON *schema)
{
    const struct schema_text how = {.end = t->family->quotes[1]};
    struct grammar_piece p = grammar_text(t->b, t->family->quotes[0]);

    p = grammar_then(t->b, p, grammar_schema_text(t->b, t->parameters, schema, &how));
    return grammar_then(t->b, p, grammar_text(t->b, t->family->quotes[1]));
}

/* The values of the schema, of these types, as the pattern's hole has them. False: it has none. */
static bool value_piece(const struct calls_tool *t, const struct call_pattern *p,
                        const cJSON *schema, unsigned types, struct grammar_piece *out)
{
    const enum pattern_kind kind = p->at[pattern_hole(p)].kind;
    const bool has_strings = (types & ARGUMENT_STRING) != 0;
    const bool has_others = (types & ~(unsigned)ARGUMENT_STRING) != 0;
    const struct schema_text how = {.end = end_of(p),
                                    .is_plain = has_others && kind == PATTERN_VALUE_TEXT};
    struct grammar_piece others;

    if (kind == PATTERN_VALUE_PYTHON ||
        (kind == PATTERN_VALUE_JSON && !has_kind(t->family, PATTERN_VALUE_STRING))) {
        *out = grammar_schema_within(t->b, t->parameters, schema, true,
                                     kind == PATTERN_VALUE_PYTHON);
        return true;
    }
    if (kind == PATTERN_VALUE_STRING && has_strings)
        *out = grammar_schema_text(t->b, t->parameters, schema, &how);
    if (kind == PATTERN_VALUE_STRING)
        return has_strings;
    if (kind == PATTERN_VALUE_TEXT && has_strings)
        *out = grammar_schema_text(t->b, t->parameters, schema, &how);
    if (kind == PATTERN_VALUE_QUOTED && has_strings)
        *out = quoted_piece(t, schema);
    if (!has_others)
        return has_strings && kind != PATTERN_VALUE_JSON;
    others = grammar_schema_within(t->b, t->parameters, schema, false, false);
    *out = has_strings && kind != PATTERN_VALUE_JSON ? grammar_or(t->b, *out, others) : others;
    return true;
}

/* One pattern of arguments with the key and its value. False: it has no such value. */
static bool pattern_argument(const struct calls_tool *t, const struct call_pattern *p,
                             const cJSON *schema, unsigned types, struct grammar_piece *out)
{
    const uint32_t hole = pattern_hole(p);
    struct grammar_piece value;
    const enum pattern_kind kind = p->at[hole].kind;

    if ((kind == PATTERN_VALUE_STRING && (types & ARGUMENT_STRING) == 0) ||
        (kind == PATTERN_VALUE_JSON && types == ARGUMENT_STRING &&
         has_kind(t->family, PATTERN_VALUE_STRING)))
        return false;
    *out = calls_pattern_piece(t, p, 0, hole);
    if (!value_piece(t, p, schema, types, &value))
        return false;
    *out = grammar_then(t->b, *out, value);
    *out = grammar_then(t->b, *out, calls_pattern_piece(t, p, hole + 1, p->n));
    return true;
}

/* The rule of one argument. */
static uint32_t argument_rule(const struct calls_tool *t, const char *key, const cJSON *schema)
{
    const uint32_t rule = grammar_rule(t->b, "an argument");
    const unsigned types = call_value_schema_types(t->parameters, schema);
    struct calls_tool one = *t;
    struct grammar_piece p = {0}, q;
    bool any = false;

    one.is_argument = true;
    one.key = key;
    for (uint32_t i = 0; i < t->family->n_arguments; i++) {
        if (!pattern_argument(&one, &t->family->arguments[i], schema, types, &q))
            continue;
        p = any ? grammar_or(t->b, p, q) : q;
        any = true;
    }
    if (!any)
        grammar_builder_fail(t->b, ERR_UNSUPPORTED,
                             "the argument '%.60s' of '%.60s' has no value that can be written",
                             key != NULL ? key : "", t->name);
    grammar_define(t->b, rule, p);
    return rule;
}

/* ---- arguments ---- */

static struct grammar_piece comma_piece(const struct calls_tool *t)
{
    const struct call_pattern *comma = &t->family->comma;

    return comma->n > 0 ? calls_pattern_piece(t, comma, 0, comma->n) : grammar_empty(t->b);
}

/* Any arguments, at least none: of a function whose schema names none. */
static struct grammar_piece any_arguments(const struct calls_tool *t)
{
    cJSON *anything = cJSON_CreateTrue();
    struct grammar_piece p = {0}, more;
    uint32_t one, next;

    if (anything == NULL) {
        grammar_builder_fail(t->b, ERR_NOMEM, "out of memory");
        return p;
    }
    one = argument_rule(t, NULL, anything);
    next = grammar_rule(t->b, "another argument");
    more = comma_piece(t);
    grammar_define(t->b, next, grammar_then(t->b, more, grammar_call(t->b, one)));
    p = grammar_call(t->b, one);
    p = grammar_then(t->b, p, grammar_repeat_rule(t->b, next, 0, GRAMMAR_NO_LIMIT));
    p = grammar_or(t->b, p, grammar_empty(t->b));
    cJSON_Delete(anything);
    return p;
}

static bool is_required(const cJSON *parameters, const char *key)
{
    const cJSON *it;

    cJSON_ArrayForEach(it, member_of(parameters, "required"))
    {
        if (cJSON_IsString(it) && strcmp(it->valuestring, key) == 0)
            return true;
    }
    return false;
}

/* What can follow, from the property `it` on: rules for where an argument stands before it, and
 * where none does. From the last property to the first, so that each rule calls those behind it. */
struct rests {
    uint32_t first, later;
};

static struct rests rest_rules(const struct calls_tool *t, const cJSON *it,
                               const struct rests *behind)
{
    const bool must = is_required(t->parameters, it->string);
    const uint32_t one = argument_rule(t, it->string, it);
    const struct rests out = {grammar_rule(t->b, "arguments"),
                              grammar_rule(t->b, "further arguments")};
    struct grammar_piece p = grammar_call(t->b, one);

    p = grammar_then(t->b, p, grammar_call(t->b, behind->later));
    if (!must)
        p = grammar_or(t->b, p, grammar_call(t->b, behind->first));
    grammar_define(t->b, out.first, p);
    p = comma_piece(t);
    p = grammar_then(t->b, p, grammar_call(t->b, one));
    p = grammar_then(t->b, p, grammar_call(t->b, behind->later));
    if (!must)
        p = grammar_or(t->b, p, grammar_call(t->b, behind->later));
    grammar_define(t->b, out.later, p);
    return out;
}

/* Assertions about the object as a whole, which arguments one by one cannot be held to. */
const char *calls_arguments_unsupported(const cJSON *parameters)
{
    static const char *const keywords[] = {"$ref",  "allOf", "anyOf",         "oneOf",
                                           "enum",  "const", "minProperties", "maxProperties",
                                           "not"};

    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++)
        if (member_of(parameters, keywords[i]) != NULL)
            return keywords[i];
    return NULL;
}

struct grammar_piece calls_arguments_piece(const struct calls_tool *t)
{
    const cJSON *properties = member_of(t->parameters, "properties"), *it;
    const char *keyword = calls_arguments_unsupported(t->parameters);
    struct rests rests;
    uint32_t end;

    if (keyword != NULL) {
        grammar_builder_fail(t->b, ERR_UNSUPPORTED,
                             "the parameters of '%.60s' must be an object that names its "
                             "properties: '%s' is not supported there with this model", t->name,
                             keyword);
        return (struct grammar_piece){0};
    }
    if (properties == NULL || properties->child == NULL)
        return cJSON_IsFalse(member_of(t->parameters, "additionalProperties"))
                   ? grammar_empty(t->b)
                   : any_arguments(t);
    end = grammar_rule(t->b, "no more arguments");
    grammar_define(t->b, end, grammar_empty(t->b));
    rests = (struct rests){end, end};
    /* cJSON's lists lead back from the first element to the last. */
    for (it = properties->child->prev; grammar_builder_error(t->b) == 0; it = it->prev) {
        rests = rest_rules(t, it, &rests);
        if (it == properties->child)
            break;
    }
    return grammar_call(t->b, rests.first);
}
