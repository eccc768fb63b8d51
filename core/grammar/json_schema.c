/* core/grammar/json_schema.c - walks a schema and writes it as pieces of a grammar.
 *
 * schema_write() handles the keywords of a schema in a fixed order: references, merging of $ref and
 * allOf, unions, listed values, types. A schema that is referred to becomes a rule at its first
 * mention and is written later from a list, so recursive schemas end, and calls are nested as deep
 * as the JSON text. A keyword is handled, refused, or an annotation; check_keywords() refuses
 * assertions that the grammar would not enforce.
 */
#include "core/grammar/json_schema.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/char_class.h"
#include "core/grammar/json_schema_impl.h"
#include "core/grammar/regex.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Keywords that are handled, here or in the files that write values. */
static const char *const handled[] = {
    "type",      "enum",     "const",            "properties",       "required",
    "items",     "minItems", "maxItems",         "pattern",          "additionalProperties",
    "minLength", "format",   "maxLength",        "prefixItems",      "minimum",
    "maximum",   "anyOf",    "exclusiveMinimum", "exclusiveMaximum", "oneOf",
    "allOf",     "$ref",     "multipleOf",       "uniqueItems",      "minProperties",
    "maxProperties",         "nullable",         "additionalItems",  "patternProperties",
    "propertyNames",
};
/* Assertions of any draft that are not enforced. */
static const char *const refused[] = {
    "not",               "if",
    "contains",          "dependencies",
    "dependentRequired", "dependentSchemas",
    "unevaluatedItems",  "unevaluatedProperties",
    "$dynamicRef",       "$recursiveRef",
    "divisibleBy",       "disallow", /* draft 3 */
    "extends",           "then",
    "else",
};

static const char *const type_names[] = {"null",   "boolean", "integer", "number",
                                         "string", "array",   "object"};

static bool word_is_among(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, list[i]) == 0)
            return true;
    return false;
}

#define IS_AMONG(word, list) word_is_among(word, list, sizeof(list) / sizeof((list)[0]))

bool schema_is_annotation(const char *keyword)
{
    return !IS_AMONG(keyword, handled) && !IS_AMONG(keyword, refused);
}

bool schema_is_refused(const char *keyword)
{
    return IS_AMONG(keyword, refused);
}

bool schema_has_failed(const struct schema *s)
{
    return grammar_builder_error(s->b) != 0;
}

struct grammar_piece schema_refuse(struct schema *s, const struct schema_node *at,
                                   const char *format, ...)
{
    char what[160];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    grammar_builder_fail(s->b, ERR_UNSUPPORTED, "at '%.90s': %s", at->pointer, what);
    return (struct grammar_piece){0};
}

const cJSON *schema_get(const cJSON *schema, const char *keyword)
{
    return cJSON_GetObjectItemCaseSensitive(schema, keyword);
}

/* ---- references ---- */

/* Returns the rule of a schema that is referred to; write_rules() writes it later. */
static uint32_t rule_of(struct schema *s, const struct schema_node *at, const cJSON *target,
                        const char *name)
{
    struct schema_known *known = schema_known(s, target);
    char quoted[120];

    schema_spend(s, 10);
    if (known->rule > 0)
        return s->rules[known->rule - 1].rule;
    if (s->n_rules == SCHEMA_MAX_RULES) {
        schema_refuse(s, at, "the schema refers to more than %d schemas with $ref",
                      SCHEMA_MAX_RULES);
        return 0;
    }
    snprintf(quoted, sizeof(quoted), "the schema '%.80s'", name);
    s->rules[s->n_rules].schema = target;
    s->rules[s->n_rules].rule = grammar_rule(s->b, quoted);
    snprintf(s->rules[s->n_rules].pointer, SCHEMA_MAX_POINTER, "%s", name);
    known->rule = ++s->n_rules;
    return s->rules[s->n_rules - 1].rule;
}

/* ---- any JSON ---- */

const char *schema_word(const struct schema *s, const char *word)
{
    if (!s->is_python)
        return word;
    return word[0] == 'n' ? "None" : word[0] == 't' ? "True" : "False";
}

struct grammar_piece schema_comma(struct schema *s)
{
    struct grammar_piece comma;

    if (s->members != NULL)
        return s->members->comma(s->members->ud);
    comma = grammar_text(s->b, ",");
    return grammar_then(s->b, comma, grammar_repeat(s->b, grammar_text(s->b, " "), 0, 1));
}

struct grammar_piece schema_colon(struct schema *s)
{
    struct grammar_piece colon = grammar_text(s->b, ":");

    return grammar_then(s->b, colon, grammar_repeat(s->b, grammar_text(s->b, " "), 0, 1));
}

uint32_t schema_char_rule(struct schema *s)
{
    struct char_class all = {.n = 0};

    if (s->character < 0) {
        s->character = (int32_t)grammar_rule(s->b, "a character");
        char_class_add(&all, 1, CHAR_LAST);
        grammar_define(s->b, (uint32_t)s->character, grammar_json_char(s->b, &all));
    }
    return (uint32_t)s->character;
}

/* Writes a list: open item (, item)* close, or open close. */
static struct grammar_piece list_of(struct schema *s, uint32_t item, const char *open,
                                    const char *close)
{
    struct grammar_piece p = grammar_text(s->b, open), items, more;

    items = grammar_call(s->b, item);
    more = schema_comma(s);
    more = grammar_then(s->b, more, grammar_call(s->b, item));
    more = grammar_repeat(s->b, more, 0, GRAMMAR_NO_LIMIT);
    items = grammar_repeat(s->b, grammar_then(s->b, items, more), 0, 1);
    p = grammar_then(s->b, p, items);
    return grammar_then(s->b, p, grammar_text(s->b, close));
}

static uint32_t member_rule(struct schema *s, uint32_t value)
{
    const uint32_t rule = grammar_rule(s->b, "a member");
    struct grammar_piece p = schema_any_string(s, 0, GRAMMAR_NO_LIMIT);

    p = grammar_then(s->b, p, schema_colon(s));
    grammar_define(s->b, rule, grammar_then(s->b, p, grammar_call(s->b, value)));
    return rule;
}

uint32_t schema_value_rule(struct schema *s)
{
    const char *null = schema_word(s, "null"), *yes = schema_word(s, "true"),
               *no = schema_word(s, "false");
    struct text_ref words[] = {{null, strlen(null)}, {yes, strlen(yes)}, {no, strlen(no)}};
    struct grammar_piece p;
    uint32_t value, member;

    if (s->value >= 0)
        return (uint32_t)s->value;
    value = grammar_rule(s->b, "a value");
    s->value = (int32_t)value;
    schema_char_rule(s);
    member = member_rule(s, value);
    p = list_of(s, member, "{", "}");
    p = grammar_or(s->b, p, list_of(s, value, "[", "]"));
    p = grammar_or(s->b, p, schema_any_string(s, 0, GRAMMAR_NO_LIMIT));
    p = grammar_or(s->b, p, schema_any_number(s));
    p = grammar_or(s->b, p, grammar_choice(s->b, words, 3));
    grammar_define(s->b, value, p);
    return value;
}

/* ---- types ---- */

static unsigned type_named(const cJSON *v)
{
    for (unsigned i = 0; cJSON_IsString(v) && i < 7; i++)
        if (strcmp(v->valuestring, type_names[i]) == 0)
            return 1u << i | (1u << i == SCHEMA_NUMBER ? SCHEMA_INTEGER : 0u);
    return 0;
}

unsigned schema_types(struct schema *s, const struct schema_node *at)
{
    const cJSON *type = schema_get(at->schema, "type"), *it;
    unsigned types = type_named(type);

    if (type == NULL)
        return SCHEMA_ANY;
    schema_spend(s, 1 + 2 * schema_size(type));
    if (cJSON_IsArray(type) && type->child != NULL) {
        cJSON_ArrayForEach(it, type) {
            if (type_named(it) == 0)
                types = UINT32_MAX;
            types |= type_named(it);
        }
    }
    if (types != 0 && types != UINT32_MAX)
        return types;
    if (cJSON_IsArray(type) && type->child == NULL)
        schema_refuse(s, at,
                      "no value is valid: 'type' is an empty list, or 'allOf', '$ref' and the "
                      "schema itself have no type in common");
    else
        schema_refuse(s, at, "'type' must be the name of a type or a list of names");
    return 0;
}

static bool has_any(const cJSON *schema, const char *const *keywords, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (schema_get(schema, keywords[i]) != NULL)
            return true;
    return false;
}

#define HAS_ANY(schema, ...)                                                                       \
    has_any(schema, (const char *const[]){__VA_ARGS__},                                            \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

unsigned schema_written_types(struct schema *s, const struct schema_node *at)
{
    const cJSON *schema = at->schema;
    unsigned types = 0;

    if (schema_get(schema, "type") != NULL)
        return schema_types(s, at);
    if (HAS_ANY(schema, "properties", "required", "additionalProperties", "minProperties",
                "maxProperties", "patternProperties", "propertyNames"))
        types |= SCHEMA_OBJECT;
    if (HAS_ANY(schema, "items", "prefixItems", "minItems", "maxItems", "uniqueItems"))
        types |= SCHEMA_ARRAY;
    if (HAS_ANY(schema, "minLength", "maxLength", "pattern") || schema_has_known_format(schema))
        types |= SCHEMA_STRING;
    if (HAS_ANY(schema, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                "multipleOf"))
        types |= SCHEMA_NUMBER | SCHEMA_INTEGER;
    return types != 0 ? types : SCHEMA_ANY;
}

uint32_t schema_count(struct schema *s, const struct schema_node *at, const char *keyword,
                      uint32_t otherwise)
{
    const cJSON *v = schema_get(at->schema, keyword);

    if (v == NULL)
        return otherwise;
    if (cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble <= GRAMMAR_MAX_REPEAT &&
        v->valuedouble == (uint32_t)v->valuedouble)
        return (uint32_t)v->valuedouble;
    schema_refuse(s, at, "'%s' must be an integer between 0 and %u", keyword, GRAMMAR_MAX_REPEAT);
    return otherwise;
}

/* ---- a schema ---- */

/* True: the refused keyword, as this schema uses it, holds for every value. */
static bool asserts_nothing(const cJSON *schema, const cJSON *keyword)
{
    if (strcmp(keyword->string, "not") == 0)
        return cJSON_IsFalse(keyword);
    if (strcmp(keyword->string, "if") == 0)
        return !HAS_ANY(schema, "then", "else");
    if (strcmp(keyword->string, "then") == 0 || strcmp(keyword->string, "else") == 0)
        return true; /* without "if", which is refused */
    return strncmp(keyword->string, "unevaluated", 11) == 0 &&
           (cJSON_IsTrue(keyword) || (cJSON_IsObject(keyword) && keyword->child == NULL));
}

static void check_keywords(struct schema *s, const struct schema_node *at)
{
    const cJSON *it;

    cJSON_ArrayForEach(it, at->schema) {
        schema_spend(s, 20); /* comparisons of words */
        if (IS_AMONG(it->string, refused) && !asserts_nothing(at->schema, it))
            schema_refuse(s, at, "the keyword '%.40s' is not supported", it->string);
    }
}

static struct grammar_piece write_type(struct schema *s, const struct schema_node *at,
                                       unsigned type)
{
    const char *yes = schema_word(s, "true"), *no = schema_word(s, "false");
    struct text_ref words[] = {{yes, strlen(yes)}, {no, strlen(no)}};

    switch ((enum schema_type)type) {
    case SCHEMA_NULL:
        return grammar_text(s->b, schema_word(s, "null"));
    case SCHEMA_BOOLEAN:
        return grammar_choice(s->b, words, 2);
    case SCHEMA_INTEGER:
        return schema_number(s, at, true);
    case SCHEMA_NUMBER:
        return schema_number(s, at, false);
    case SCHEMA_STRING:
        return schema_string(s, at);
    case SCHEMA_ARRAY:
        return schema_array(s, at);
    case SCHEMA_OBJECT:
    case SCHEMA_ANY:
        break;
    }
    return schema_object(s, at);
}

static struct grammar_piece write_types(struct schema *s, const struct schema_node *at)
{
    unsigned types = schema_written_types(s, at);
    struct grammar_piece p = {0}, q;
    bool any = false;

    if (types == SCHEMA_ANY && !HAS_ANY(at->schema, "type"))
        return grammar_call(s->b, schema_value_rule(s));
    if (types & SCHEMA_NUMBER) /* numbers include integers */
        types &= ~(unsigned)SCHEMA_INTEGER;
    for (unsigned i = 0; i < 7 && !schema_has_failed(s); i++) {
        if (!(types >> i & 1))
            continue;
        q = write_type(s, at, 1u << i);
        p = any ? grammar_or(s->b, p, q) : q;
        any = true;
    }
    return p;
}

static bool is_plain_reference(const cJSON *schema)
{
    const cJSON *it;

    cJSON_ArrayForEach(it, schema) {
        if (strcmp(it->string, "$ref") != 0 && !schema_is_annotation(it->string))
            return false;
    }
    return schema_get(schema, "$ref") != NULL;
}

static struct grammar_piece write_reference(struct schema *s, const struct schema_node *at)
{
    const cJSON *target = schema_target(s, at);
    uint32_t rule;

    if (target == NULL)
        return (struct grammar_piece){0};
    rule = rule_of(s, at, target, schema_get(at->schema, "$ref")->valuestring);
    return grammar_call(s->b, rule);
}

/* Writes OpenAPI's nullable: null as well, unless the values are listed. */
static struct grammar_piece write_nullable(struct schema *s, const struct schema_node *at)
{
    const cJSON *nullable = schema_get(at->schema, "nullable"), *it;
    cJSON *copy = schema_keep(s, at, cJSON_CreateObject());
    struct schema_node here = *at;
    struct grammar_piece p;

    if (!cJSON_IsBool(nullable))
        return schema_refuse(s, at, "'nullable' must be true or false");
    if (copy == NULL)
        return (struct grammar_piece){0};
    cJSON_ArrayForEach(it, at->schema) {
        schema_spend(s, 2);
        if (strcmp(it->string, "nullable") != 0 &&
            json_put_reference(copy, it->string, it) == NULL)
            grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    }
    here.schema = copy;
    here.depth++;
    p = schema_write(s, &here);
    if (cJSON_IsTrue(nullable) && !HAS_ANY(copy, "enum", "const"))
        p = grammar_or(s->b, p, grammar_text(s->b, schema_word(s, "null")));
    return p;
}

/* Writes a schema whose exclusive bounds are draft 4's truth values, with numbers instead. */
static struct grammar_piece write_new_bounds(struct schema *s, const struct schema_node *at)
{
    cJSON *copy = schema_keep(s, at, cJSON_CreateObject());
    struct schema_node here = *at;
    const cJSON *it;

    if (copy == NULL)
        return (struct grammar_piece){0};
    cJSON_ArrayForEach(it, at->schema) {
        const char *name = schema_bound_name(at->schema, it);

        schema_spend(s, 2);
        if (name != NULL && json_put_reference(copy, name, it) == NULL)
            grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    }
    here.schema = copy;
    here.depth++;
    return schema_write(s, &here);
}

struct grammar_piece schema_write(struct schema *s, const struct schema_node *at)
{
    const struct grammar_piece none = {0};
    struct schema_node here = *at;
    const cJSON *any;

    if (schema_has_failed(s))
        return none;
    if (at->depth > SCHEMA_MAX_DEPTH)
        return schema_refuse(s, at,
                             "schemas are nested too deeply, or refer to each other in a cycle");
    if (cJSON_IsTrue(at->schema))
        return grammar_call(s->b, schema_value_rule(s));
    if (!cJSON_IsObject(at->schema))
        return schema_refuse(s, at,
                             cJSON_IsFalse(at->schema) ? "the schema false matches no value"
                                                       : "a schema must be an object");
    check_keywords(s, at);
    if (schema_has_failed(s))
        return none;
    if (HAS_ANY(at->schema, "nullable"))
        return write_nullable(s, at);
    if (is_plain_reference(at->schema))
        return write_reference(s, at);
    if (HAS_ANY(at->schema, "$ref", "allOf")) {
        here.schema = schema_merge(s, at);
        here.depth++;
        return here.schema != NULL ? schema_write(s, &here) : none;
    }
    if (schema_has_old_bounds(at->schema))
        return write_new_bounds(s, at);
    any = schema_get(at->schema, "anyOf");
    if (any != NULL)
        return schema_union(s, at, any, "anyOf");
    any = schema_get(at->schema, "oneOf");
    if (any != NULL)
        return schema_union(s, at, any, "oneOf");
    if (HAS_ANY(at->schema, "enum", "const") && s->members != NULL)
        return schema_refuse(s, at,
                             "'enum' and 'const' of an object are not supported where the model "
                             "writes its members one by one");
    if (HAS_ANY(at->schema, "enum", "const"))
        return schema_values(s, at);
    return write_types(s, at);
}

/* ---- the whole ---- */

static void write_rules(struct schema *s)
{
    for (uint32_t i = 0; i < s->n_rules && !schema_has_failed(s); i++) {
        struct schema_node at = {.schema = s->rules[i].schema};

        memcpy(at.pointer, s->rules[i].pointer, sizeof(at.pointer));
        grammar_define(s->b, s->rules[i].rule, schema_write(s, &at));
    }
}

int schema_begin(struct schema *s, struct grammar_builder *b, const cJSON *root)
{
    *s = (struct schema){.b = b, .root = root, .character = -1, .value = -1, .plain = -1};
    s->rules = mem_calloc(SCHEMA_MAX_RULES, sizeof(*s->rules));
    s->merged = mem_calloc(SCHEMA_MAX_MERGED, sizeof(*s->merged));
    s->known = mem_calloc(SCHEMA_KNOWN_SLOTS, sizeof(*s->known));
    if (s->rules != NULL && s->merged != NULL && s->known != NULL)
        return 0;
    grammar_builder_fail(b, ERR_NOMEM, "out of memory");
    return ERR_NOMEM;
}

void schema_end(struct schema *s)
{
    for (uint32_t i = 0; s->merged != NULL && i < s->n_merged; i++)
        cJSON_Delete(s->merged[i]);
    mem_free(s->merged);
    mem_free(s->known);
    mem_free(s->rules);
}

/* Writes the schema and all that it refers to; returns its rule, which is made first. */
static uint32_t write_whole(struct schema *s, const cJSON *schema)
{
    const struct schema_node at = {.schema = schema, .pointer = "#"};
    const uint32_t rule = rule_of(s, &at, schema, "#");

    write_rules(s);
    return rule;
}

struct grammar_piece schema_rules(struct schema *s, const cJSON *schema)
{
    return grammar_call(s->b, write_whole(s, schema));
}

struct grammar_piece grammar_schema(struct grammar_builder *b, const cJSON *schema)
{
    struct grammar_piece p = {0};
    struct schema s;

    if (schema_begin(&s, b, schema) == 0)
        p = schema_rules(&s, schema);
    schema_end(&s);
    return p;
}

int schema_to_grammar(struct grammar **out, const cJSON *schema, struct budget *budget, char *err,
                      size_t err_len)
{
    struct grammar_builder *b;
    struct schema s;
    int rc = grammar_builder_create(&b, budget);

    *out = NULL;
    snprintf(err, err_len, "out of memory");
    if (rc < 0)
        return rc;
    if (schema_begin(&s, b, schema) == 0)
        (void)write_whole(&s, schema);
    schema_end(&s);
    rc = grammar_builder_finish(b, out, err, err_len);
    grammar_builder_destroy(&b);
    return rc;
}
