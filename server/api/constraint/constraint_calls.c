/* server/api/constraint/constraint_calls.c - see constraint_calls.h. */
#include "server/api/constraint/constraint_calls.h"

#include "core/grammar/json_schema.h"

#include <stdio.h>

#define MAX_BLANKS 40 /* white space in a row */

static const char *text_of(const cJSON *calls, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(calls, name));
}

static struct grammar_piece blanks(struct grammar_builder *b)
{
    struct byte_set set = {{0}};

    byte_set_add(&set, ' ');
    byte_set_add(&set, '\n');
    byte_set_add(&set, '\t');
    byte_set_add(&set, '\r');
    return grammar_repeat(b, grammar_one_of(b, &set), 0, MAX_BLANKS);
}

/* p, white space, and the text. */
static struct grammar_piece then_text(struct grammar_builder *b, struct grammar_piece p,
                                      const char *text)
{
    p = grammar_then(b, p, blanks(b));
    return grammar_then(b, p, grammar_text(b, text));
}

static struct grammar_piece then_call(struct grammar_builder *b, struct grammar_piece p,
                                      uint32_t rule)
{
    p = grammar_then(b, p, blanks(b));
    return grammar_then(b, p, grammar_call(b, rule));
}

/* The name needs no escapes: it is of letters, digits, '_', '.' and '-'. */
static struct grammar_piece call_of(struct grammar_builder *b, const cJSON *calls,
                                    const cJSON *tool)
{
    const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(tool, "parameters");
    struct grammar_piece p = grammar_text(b, "{");
    char text[300];

    p = then_text(b, p, "\"name\"");
    p = then_text(b, p, ":");
    snprintf(text, sizeof(text), "\"%s\"", text_of(tool, "name"));
    p = then_text(b, p, text);
    p = then_text(b, p, ",");
    snprintf(text, sizeof(text), "\"%s\"", text_of(calls, "arguments"));
    p = then_text(b, p, text);
    p = then_text(b, p, ":");
    p = grammar_then(b, p, blanks(b));
    p = grammar_then(b, p, grammar_schema(b, parameters));
    return then_text(b, p, "}");
}

/* A rule of its own, which each call is. */
static uint32_t call_rule(struct grammar_builder *b, const cJSON *calls)
{
    const cJSON *tool = cJSON_GetObjectItemCaseSensitive(calls, "tools")->child;
    const uint32_t rule = grammar_rule(b, "a tool call");
    struct grammar_piece p = call_of(b, calls, tool);

    for (tool = tool->next; tool != NULL && grammar_builder_error(b) == 0; tool = tool->next)
        p = grammar_or(b, p, call_of(b, calls, tool));
    grammar_define(b, rule, p);
    return rule;
}

/* Up to `most` times the text and the call of a rule. */
static struct grammar_piece more(struct grammar_builder *b, const char *text, uint32_t rule,
                                 uint32_t most)
{
    const uint32_t next = grammar_rule(b, "another tool call");
    struct grammar_piece p = grammar_empty(b);

    if (text[0] != '\0')
        p = then_text(b, p, text);
    grammar_define(b, next, then_call(b, p, rule));
    return grammar_repeat_rule(b, next, 0, most);
}

/* The mark; where it may be missing, or nothing. */
static struct grammar_piece open_piece(struct grammar_builder *b, const cJSON *calls)
{
    struct grammar_piece p = grammar_text(b, text_of(calls, "open"));

    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(calls, "may_be_bare")))
        p = grammar_or(b, p, grammar_empty(b));
    return p;
}

static struct grammar_piece list_piece(struct grammar_builder *b, const cJSON *calls,
                                       uint32_t call, uint32_t max)
{
    struct grammar_piece p = then_text(b, open_piece(b, calls), "[");

    p = then_call(b, p, call);
    if (max > 1)
        p = grammar_then(b, p, more(b, ",", call, max - 1));
    return then_text(b, p, "]");
}

/* A call between marks of its own. */
static uint32_t marked_rule(struct grammar_builder *b, const cJSON *calls, uint32_t call)
{
    const uint32_t rule = grammar_rule(b, "a marked tool call");
    const char *close = text_of(calls, "close");
    struct grammar_piece p = then_call(b, open_piece(b, calls), call);

    grammar_define(b, rule, close[0] != '\0' ? then_text(b, p, close) : p);
    return rule;
}

struct grammar_piece constraint_calls_piece(struct grammar_builder *b, const cJSON *calls)
{
    const uint32_t max = (uint32_t)cJSON_GetObjectItemCaseSensitive(calls, "max")->valueint;
    const uint32_t call = call_rule(b, calls);
    struct grammar_piece p;
    uint32_t marked;

    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(calls, "is_list")))
        return list_piece(b, calls, call, max);
    marked = marked_rule(b, calls, call);
    p = grammar_call(b, marked);
    return max > 1 ? grammar_then(b, p, more(b, "", marked, max - 1)) : p;
}
