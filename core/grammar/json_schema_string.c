/* core/grammar/json_schema_string.c - JSON strings of a schema: lengths, patterns, formats. */
#include "core/grammar/json_schema_impl.h"

#include "core/grammar/expr.h"
#include "core/grammar/regex.h"

#include <stdio.h>
#include <string.h>

#define TWO_DIGITS_24 "([01][0-9]|2[0-3])"
#define DATE                                                                                       \
    "[12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"   \
    "02-(0[1-9]|1[0-9]|2[0-8]))"
#define TIME                                                                                       \
    TWO_DIGITS_24 ":[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]" TWO_DIGITS_24 ":[0-5][0-9])"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define LABEL "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?"
#define HOST LABEL "(\\." LABEL "){0,3}"
#define HEX4 "[0-9a-f]{1,4}"
#define WORD "[A-Za-z0-9_~-]{0,40}"

/* Each is a part of what the format allows, in a common spelling. Other formats are notes to the
 * reader, as the standard has it. */
static const struct {
    const char *name, *regex;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P([1-9][0-9]{0,3}[DW]|T[1-9][0-9]{0,3}[HMS])"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"email", "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,16}){0,2}@" LABEL "(\\." LABEL
              "){0,2}\\.[a-z]{2,8}"},
    {"ipv4", BYTE "(\\." BYTE "){3}"},
    {"ipv6", HEX4 "(:" HEX4 "){7}"},
    {"hostname", HOST},
    {"uri", "https?://" HOST "(/" WORD "){0,6}"},
};

struct grammar_piece schema_any_string(struct schema *s, uint32_t min, uint32_t max)
{
    const uint32_t character = schema_char_rule(s);
    struct grammar_piece p = grammar_text(s->b, "\"");

    if (max > 0)
        p = grammar_then(s->b, p, grammar_repeat_rule(s->b, character, min, max));
    return grammar_then(s->b, p, grammar_text(s->b, "\""));
}

static struct grammar_piece quoted(struct schema *s, const char *regex, unsigned flags)
{
    struct grammar_piece p = grammar_text(s->b, "\"");

    p = grammar_then(s->b, p, grammar_regex(s->b, regex, strlen(regex), flags | REGEX_JSON));
    return grammar_then(s->b, p, grammar_text(s->b, "\""));
}

/* The expression of a known format, or NULL. */
static const char *format_regex(const cJSON *format)
{
    for (size_t i = 0; cJSON_IsString(format) && i < sizeof(formats) / sizeof(formats[0]); i++)
        if (strcmp(formats[i].name, format->valuestring) == 0)
            return formats[i].regex;
    return NULL;
}

bool schema_has_known_format(const cJSON *schema)
{
    return format_regex(schema_get(schema, "format")) != NULL;
}

/* What an expression or an automaton is refused for is told with a pointer to it. */
void schema_point(struct schema *s, const struct schema_node *at, const char *keyword)
{
    char why[100];

    snprintf(why, sizeof(why), "%s", grammar_builder_sentence(s->b));
    if (strncmp(why, "at character", 12) == 0 || strncmp(why, "it makes", 8) == 0 ||
        strncmp(why, "no text", 7) == 0 || strncmp(why, "too many different", 18) == 0)
        grammar_builder_retell(s->b, "at '%.70s': '%s': %s", at->pointer, keyword, why);
}

uint32_t schema_string_expr(struct schema *s, const struct schema_node *at, struct expr_set *e)
{
    const cJSON *pattern = schema_get(at->schema, "pattern");
    const char *format = format_regex(schema_get(at->schema, "format"));
    const uint32_t min = schema_count(s, at, "minLength", 0);
    const uint32_t max = schema_count(s, at, "maxLength", GRAMMAR_NO_LIMIT);
    uint32_t out = expr_repeat(e, expr_any(e), min, max);

    if (format != NULL)
        out = expr_and(e, out, grammar_regex_expr(e, s->b, format, strlen(format), 0));
    if (pattern != NULL && !cJSON_IsString(pattern))
        schema_refuse(s, at, "'pattern' must be a string");
    else if (pattern != NULL)
        out = expr_and(e, out,
                       grammar_regex_expr(e, s->b, pattern->valuestring,
                                          strlen(pattern->valuestring), REGEX_SEARCH));
    schema_point(s, at, pattern != NULL ? "pattern" : "maxLength");
    return out;
}

/* Several of them at once. */
static struct grammar_piece with_all(struct schema *s, const struct schema_node *at)
{
    struct grammar_piece p = grammar_text(s->b, "\"");
    struct expr_set *e = NULL;

    if (regex_alphabet(&e, s->b, REGEX_JSON) == 0)
        p = grammar_then(s->b, p, expr_piece(e, schema_string_expr(s, at, e), true));
    expr_destroy(&e);
    schema_point(s, at, schema_get(at->schema, "pattern") != NULL ? "pattern" : "maxLength");
    return grammar_then(s->b, p, grammar_text(s->b, "\""));
}

static struct grammar_piece with_pattern(struct schema *s, const struct schema_node *at,
                                         const char *pattern)
{
    const struct grammar_piece p = quoted(s, pattern, REGEX_SEARCH);

    schema_point(s, at, "pattern");
    return p;
}

struct grammar_piece schema_string(struct schema *s, const struct schema_node *at)
{
    const cJSON *pattern = schema_get(at->schema, "pattern");
    const cJSON *format = schema_get(at->schema, "format");
    const uint32_t min = schema_count(s, at, "minLength", 0);
    const uint32_t max = schema_count(s, at, "maxLength", GRAMMAR_NO_LIMIT);
    const bool has_length = min > 0 || max != GRAMMAR_NO_LIMIT;

    if (min > max)
        return schema_refuse(s, at, "minLength is above maxLength");
    if (format != NULL && !cJSON_IsString(format))
        return schema_refuse(s, at, "'format' must be a string");
    if (pattern != NULL && !cJSON_IsString(pattern))
        return schema_refuse(s, at, "'pattern' must be a string");
    if ((pattern != NULL) + (format_regex(format) != NULL) + has_length > 1)
        return with_all(s, at);
    if (format_regex(format) != NULL)
        return quoted(s, format_regex(format), 0);
    if (pattern == NULL)
        return schema_any_string(s, min, max);
    return with_pattern(s, at, pattern->valuestring);
}
