/* core/grammar/json_schema_string.c - JSON strings of a schema: lengths, patterns, formats.
 *
 * One of the three alone maps onto a piece: a counted repetition, or a regular expression, a format
 * being a fixed one. Several at once are the intersection of expressions (expr.h) and become one
 * automaton. Lengths that a format implies anyway are dropped first, because each would multiply
 * the automaton's states by the count.
 */
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

#define ANY_LABEL "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
#define ANY_LOCAL "[A-Za-z0-9_+-]+"

/* A known format. Its expression allows the common spellings, not all that the standard allows;
 * other formats are annotations, as the standard says. */
struct format {
    const char *name, *regex;
    /* The expression to use beside lengths, which bound it: it has no counted repetition, so the
     * automaton of both counts characters once. NULL: `regex` serves for that. */
    const char *uncounted;
    uint32_t shortest, longest; /* lengths of the texts of `regex` */
};
static const struct format formats[] = {
    {"date", DATE, NULL, 10, 10},
    {"time", TIME, NULL, 9, 21},
    {"date-time", DATE "T" TIME, NULL, 20, 32},
    {"duration", "P([1-9][0-9]{0,3}[DW]|T[1-9][0-9]{0,3}[HMS])", NULL, 3, 7},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", NULL, 36, 36},
    {"email",
     "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,16}){0,2}@" LABEL "(\\." LABEL "){0,2}\\.[a-z]{2,8}",
     ANY_LOCAL "(\\." ANY_LOCAL ")*@" ANY_LABEL "(\\." ANY_LABEL ")*\\.[a-z]{2,8}", 6, 174},
    {"ipv4", BYTE "(\\." BYTE "){3}", NULL, 7, 15},
    {"ipv6", HEX4 "(:" HEX4 "){7}", NULL, 15, 39},
    {"hostname", HOST, ANY_LABEL "(\\." ANY_LABEL ")*", 1, 131},
    {"uri", "https?://" HOST "(/" WORD "){0,6}",
     "https?://" ANY_LABEL "(\\." ANY_LABEL ")*(/[A-Za-z0-9_~-]*)*", 8, 385},
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

static const struct format *known_format(const cJSON *schema)
{
    const cJSON *name = schema_get(schema, "format");

    for (size_t i = 0; cJSON_IsString(name) && i < sizeof(formats) / sizeof(formats[0]); i++)
        if (strcmp(formats[i].name, name->valuestring) == 0)
            return &formats[i];
    return NULL;
}

bool schema_has_known_format(const cJSON *schema)
{
    return known_format(schema) != NULL;
}

/* Reads the lengths; one that the format implies becomes 0 or GRAMMAR_NO_LIMIT. */
static void read_lengths(struct schema *s, const struct schema_node *at, uint32_t *min,
                         uint32_t *max)
{
    const struct format *format = known_format(at->schema);

    *min = schema_count(s, at, "minLength", 0);
    *max = schema_count(s, at, "maxLength", GRAMMAR_NO_LIMIT);
    if (format == NULL)
        return;
    if (*min <= format->shortest)
        *min = 0;
    if (*max >= format->longest && *min <= format->longest)
        *max = *min > 0 ? format->longest : GRAMMAR_NO_LIMIT;
}

static bool are_lengths(uint32_t min, uint32_t max)
{
    return min > 0 || max != GRAMMAR_NO_LIMIT;
}

/* Adds the pointer and the keyword to errors of regular expressions and automata, which do not name
 * a place. */
void schema_point(struct schema *s, const struct schema_node *at, const char *keyword)
{
    char why[100];

    snprintf(why, sizeof(why), "%s", grammar_builder_sentence(s->b));
    if (strncmp(why, "at character", 12) == 0 || strncmp(why, "its automaton", 13) == 0 ||
        strncmp(why, "no text", 7) == 0 || strncmp(why, "it distinguishes", 16) == 0)
        grammar_builder_retell(s->b, "at '%.70s': '%s': %s", at->pointer, keyword, why);
}

uint32_t schema_string_expr(struct schema *s, const struct schema_node *at, struct expr_set *e)
{
    const cJSON *pattern = schema_get(at->schema, "pattern");
    const struct format *format = known_format(at->schema);
    const char *regex = format != NULL ? format->regex : NULL;
    uint32_t min, max, out;

    read_lengths(s, at, &min, &max);
    out = expr_repeat(e, expr_any(e), min, max);
    if (format != NULL && are_lengths(min, max) && format->uncounted != NULL)
        regex = format->uncounted;
    if (regex != NULL)
        out = expr_and(e, out, grammar_regex_expr(e, s->b, regex, strlen(regex), 0));
    if (pattern != NULL && !cJSON_IsString(pattern))
        schema_refuse(s, at, "'pattern' must be a string");
    else if (pattern != NULL)
        out = expr_and(e, out,
                       grammar_regex_expr(e, s->b, pattern->valuestring,
                                          strlen(pattern->valuestring), REGEX_SEARCH));
    schema_point(s, at, pattern != NULL ? "pattern" : "maxLength");
    return out;
}

uint32_t schema_listed_strings(struct schema *s, const struct schema_node *at, struct expr_set *e)
{
    const cJSON *v = NULL;
    uint32_t out = EXPR_NONE;

    while (!schema_has_failed(s) && schema_next_value(s, at, &v))
        if (cJSON_IsString(v))
            out = expr_or(e, out, expr_text(e, v->valuestring));
    return out;
}

/* Writes a string with several of pattern, format and lengths. */
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
    const struct format *known = known_format(at->schema);
    uint32_t min = schema_count(s, at, "minLength", 0);
    uint32_t max = schema_count(s, at, "maxLength", GRAMMAR_NO_LIMIT);

    if (min > max)
        return schema_refuse(s, at, "minLength is above maxLength");
    read_lengths(s, at, &min, &max);
    if (format != NULL && !cJSON_IsString(format))
        return schema_refuse(s, at, "'format' must be a string");
    if (pattern != NULL && !cJSON_IsString(pattern))
        return schema_refuse(s, at, "'pattern' must be a string");
    if ((pattern != NULL) + (known != NULL) + are_lengths(min, max) > 1)
        return with_all(s, at);
    if (known != NULL)
        return quoted(s, known->regex, 0);
    if (pattern == NULL)
        return schema_any_string(s, min, max);
    return with_pattern(s, at, pattern->valuestring);
}
