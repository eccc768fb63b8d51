/* core/grammar/json_schema_values.c - enum and const: the values that the rest of the schema
 * allows.
 *
 * Each listed value is checked against the other keywords while the grammar is compiled, and those
 * that pass are written as a trie of their texts (grammar_choice). Keywords that cannot be checked
 * that way are refused. Numbers keep the spelling of the schema and are compared exactly.
 */
#include "core/grammar/json_schema_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/expr.h"
#include "core/grammar/regex.h"
#include "core/json/json_number.h"

#include <string.h>

/* The keywords that a value is checked against, beside its type. */
static const char *const checked[] = {"minLength",        "maxLength", "pattern",
                                      "minimum",          "maximum",   "exclusiveMinimum",
                                      "exclusiveMaximum", "format",    NULL};

static unsigned value_type(const cJSON *v)
{
    if (cJSON_IsNumber(v))
        return json_number_is_whole(v) ? SCHEMA_INTEGER : SCHEMA_NUMBER;
    return cJSON_IsNull(v)     ? SCHEMA_NULL
           : cJSON_IsBool(v)   ? SCHEMA_BOOLEAN
           : cJSON_IsString(v) ? SCHEMA_STRING
           : cJSON_IsArray(v)  ? SCHEMA_ARRAY
                               : SCHEMA_OBJECT;
}

/* ---- as text ---- */

char *schema_value_text(struct schema *s, const cJSON *v)
{
    char *text = json_value_text(v);

    if (text == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    schema_spend(s, 5);
    return text;
}

/* ---- the other keywords ---- */

static bool is_checked(const char *keyword)
{
    for (int i = 0; checked[i] != NULL; i++)
        if (strcmp(keyword, checked[i]) == 0)
            return true;
    return false;
}

/* Refuses keywords that cannot be checked against values. */
static void check_keywords(struct schema *s, const struct schema_node *at)
{
    const cJSON *it;

    cJSON_ArrayForEach(it, at->schema)
    {
        if (schema_is_annotation(it->string) || strcmp(it->string, "enum") == 0 ||
            strcmp(it->string, "const") == 0 || strcmp(it->string, "type") == 0 ||
            schema_is_refused(it->string)) /* schema_write() found that it asserts nothing */
            continue;
        if (!is_checked(it->string))
            schema_refuse(s, at, "'%.40s' is not supported together with 'enum' or 'const'",
                          it->string);
    }
}

static bool is_within(const cJSON *schema, const char *keyword, const cJSON *v, int sign,
                      bool or_equal)
{
    const cJSON *bound = schema_get(schema, keyword);
    const int beyond = cJSON_IsNumber(bound) ? sign * json_number_compare(v, bound) : 1;

    return beyond > 0 || (or_equal && beyond >= 0);
}

static bool number_fits(const cJSON *schema, const cJSON *v)
{
    return is_within(schema, "minimum", v, 1, true) && is_within(schema, "maximum", v, -1, true) &&
           is_within(schema, "exclusiveMinimum", v, 1, false) &&
           is_within(schema, "exclusiveMaximum", v, -1, false);
}

/* True: the string fits lengths and pattern. The format of a listed value is not checked. */
static bool string_fits(struct schema *s, const struct schema_node *at, const char *text)
{
    const cJSON *pattern = schema_get(at->schema, "pattern");
    struct expr_set *e = NULL;
    uint64_t n = 0;
    bool fits;

    for (const char *c = text; *c != '\0'; c++)
        n += ((uint8_t)*c & 0xC0) != 0x80;
    schema_spend(s, 10 + n);
    fits = n >= schema_count(s, at, "minLength", 0) &&
           n <= schema_count(s, at, "maxLength", GRAMMAR_NO_LIMIT);
    if (pattern == NULL || !fits)
        return fits;
    if (!cJSON_IsString(pattern)) {
        schema_refuse(s, at, "'pattern' must be a string");
        return false;
    }
    if (regex_alphabet(&e, s->b, REGEX_JSON) == 0)
        fits = expr_matches(e,
                            grammar_regex_expr(e, s->b, pattern->valuestring,
                                               strlen(pattern->valuestring), REGEX_SEARCH),
                            text);
    expr_destroy(&e);
    schema_point(s, at, "pattern");
    return fits;
}

static bool value_fits(struct schema *s, const struct schema_node *at, const cJSON *v)
{
    if (cJSON_IsNumber(v))
        return number_fits(at->schema, v);
    return !cJSON_IsString(v) || string_fits(s, at, v->valuestring);
}

/* ---- writing ---- */

bool schema_next_value(struct schema *s, const struct schema_node *at, const cJSON **v)
{
    const cJSON *list = schema_get(at->schema, "enum"), *only = schema_get(at->schema, "const");
    const unsigned types = schema_types(s, at);

    if (list == NULL) {
        *v = *v == NULL ? only : NULL;
        list = only;
    } else {
        *v = *v == NULL ? list->child : (*v)->next;
    }
    for (; *v != NULL && !schema_has_failed(s); *v = list == only ? NULL : (*v)->next) {
        schema_spend(s, 4);
        if ((value_type(*v) & types) != 0 && (only == NULL || schema_equal(s, *v, only)) &&
            value_fits(s, at, *v))
            return true;
    }
    return false;
}

/* Returns the value's text, with the words of JSON or Python; NULL with an error. */
static char *written_value(struct schema *s, const cJSON *v)
{
    const char *word = cJSON_IsNull(v)    ? "null"
                       : cJSON_IsTrue(v)  ? "true"
                       : cJSON_IsFalse(v) ? "false"
                                          : NULL;
    char *text = word != NULL ? mem_strdup(schema_word(s, word)) : schema_value_text(s, v);

    if (text == NULL && !schema_has_failed(s))
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    return text;
}

static struct grammar_piece write_texts(struct schema *s, const struct schema_node *at, uint32_t n)
{
    struct text_ref *texts = mem_calloc(n, sizeof(*texts));
    struct grammar_piece p = {0};
    const cJSON *v = NULL;
    uint32_t n_texts = 0;

    if (texts == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    while (!schema_has_failed(s) && n_texts < n && schema_next_value(s, at, &v)) {
        char *text = written_value(s, v);

        if (text != NULL)
            texts[n_texts++] = (struct text_ref){text, strlen(text)};
        schema_spend(s, 10 + (text != NULL ? texts[n_texts - 1].n / 5 : 0));
    }
    if (n_texts == 0 && !schema_has_failed(s))
        schema_refuse(s, at, "no value of 'enum' or 'const' is valid under the rest of the schema");
    if (!schema_has_failed(s))
        p = grammar_choice(s->b, texts, n_texts);
    for (uint32_t i = 0; i < n_texts; i++)
        mem_free((void *)(uintptr_t)texts[i].bytes);
    mem_free(texts);
    return p;
}

struct grammar_piece schema_values(struct schema *s, const struct schema_node *at)
{
    const cJSON *list = schema_get(at->schema, "enum");

    check_keywords(s, at);
    if (list != NULL && (!cJSON_IsArray(list) || list->child == NULL))
        return schema_refuse(s, at,
                             cJSON_IsArray(list)
                                 ? "no value is valid: 'enum' is empty, or the lists of 'allOf' "
                                   "and '$ref' have no value in common"
                                 : "'enum' must be a list with at least one value");
    if (schema_has_failed(s))
        return (struct grammar_piece){0};
    return write_texts(s, at, list != NULL ? (uint32_t)cJSON_GetArraySize(list) : 1);
}
