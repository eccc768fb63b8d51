/* server/api/constraint/constraint_calls.c - writes tool calls by the family's patterns.
 *
 * The patterns that output_reader.c reads by are written here as grammar pieces, item by item, so
 * that a constrained call is always one that the parser understands. A call is a rule that is a
 * choice of all tools; the section repeats it. Names of control tokens in texts become the bytes by
 * which token_trie.h spells them.
 */
#include "server/api/constraint/constraint_calls.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/json_schema.h"
#include "core/grammar/regex.h"
#include "core/grammar/token_trie.h"
#include "server/api/chat/call_value.h"
#include "server/api/chat/family.h"
#include "server/api/constraint/constraint_arguments.h"

#include <stdio.h>
#include <string.h>

/* ---- pieces of a pattern ---- */

static struct grammar_piece regex_piece(struct grammar_builder *b, const char *regex)
{
    return grammar_regex(b, regex, strlen(regex), 0);
}

/* Writes the name of a control token, of n bytes, as token_trie.h spells it. */
static struct grammar_piece mark_piece(struct grammar_builder *b, const char *name, size_t n)
{
    char bytes[TOKEN_TRIE_MAX_BYTES];

    memset(bytes, TOKEN_TRIE_MARK, n + 2);
    memcpy(bytes + 1, name, n);
    return grammar_bytes(b, bytes, n + 2);
}

struct grammar_piece calls_text_piece(const struct calls_tool *t, const char *text)
{
    struct grammar_piece p = grammar_empty(t->b);
    size_t plain = 0, n;

    if (t->trie == NULL)
        return grammar_then(t->b, p, grammar_text(t->b, text));
    for (size_t at = 0; text[at] != '\0';) {
        n = token_trie_mark_at(t->trie, text + at);
        if (n == 0) {
            at++;
            continue;
        }
        p = grammar_then(t->b, p, grammar_bytes(t->b, text + plain, at - plain));
        p = grammar_then(t->b, p, mark_piece(t->b, text + at, n));
        at += n;
        plain = at;
    }
    return grammar_then(t->b, p, grammar_text(t->b, text + plain));
}

struct grammar_piece calls_blanks(const struct calls_tool *t)
{
    struct calls_shared *shared = t->shared;

    if (t->is_terse)
        return regex_piece(t->b, "[ \\n]?");
    if (!shared->has_blanks) {
        shared->blanks = grammar_rule(t->b, "white space");
        grammar_define(t->b, shared->blanks, regex_piece(t->b, "[ \\n\\t\\r]{0,40}"));
        shared->has_blanks = true;
    }
    return grammar_call(t->b, shared->blanks);
}

/* Writes p, white space, and the text. */
static struct grammar_piece then_text(const struct calls_tool *t, struct grammar_piece p,
                                      const char *text)
{
    p = grammar_then(t->b, p, calls_blanks(t));
    return grammar_then(t->b, p, grammar_text(t->b, text));
}

/* Writes p, white space, and the beginning of a member with that name. */
static struct grammar_piece then_member(const struct calls_tool *t, struct grammar_piece p,
                                        const char *name)
{
    char text[300];

    snprintf(text, sizeof(text), "\"%s\"", name);
    p = then_text(t, p, text);
    p = then_text(t, p, ":");
    return grammar_then(t->b, p, calls_blanks(t));
}

/* Writes {"name":"NAME","arguments":…}. Names need no escapes: they consist of letters, digits,
 * '_', '.' and '-'. */
static struct grammar_piece object_piece(const struct calls_tool *t)
{
    const char *const *members = t->family->members;
    struct grammar_builder *b = t->b;
    struct grammar_piece p = then_member(t, grammar_text(b, "{"), members[0]);
    char text[300];

    snprintf(text, sizeof(text), "\"%s\"", t->name);
    p = grammar_then(b, p, grammar_text(b, text));
    p = then_member(t, then_text(t, p, ","), members[1]);
    p = grammar_then(b, p, grammar_schema(b, t->parameters));
    return then_text(t, p, "}");
}

/* Writes {"NAME":arguments}. */
static struct grammar_piece keyed_piece(const struct calls_tool *t)
{
    struct grammar_piece p = then_member(t, grammar_text(t->b, "{"), t->name);

    p = grammar_then(t->b, p, grammar_schema(t->b, t->parameters));
    return then_text(t, p, "}");
}

/* Writes functions.NAME:INDEX. */
static struct grammar_piece index_piece(const struct calls_tool *t)
{
    struct grammar_piece p = grammar_text(t->b, "functions.");

    p = grammar_then(t->b, p, grammar_text(t->b, t->name));
    return grammar_then(t->b, p, regex_piece(t->b, ":[0-9]{1,3}"));
}

static struct grammar_piece item_piece(const struct calls_tool *t, const struct pattern_item *item)
{
    switch (item->kind) {
    case PATTERN_TEXT:
        return calls_text_piece(t, item->text);
    case PATTERN_BLANKS:
        return calls_blanks(t);
    case PATTERN_NAME:
        return grammar_text(t->b, t->name);
    case PATTERN_NAME_INDEX:
        return index_piece(t);
    case PATTERN_ID:
        return regex_piece(t->b, "[A-Za-z0-9]{9}");
    case PATTERN_SKIP:
        return regex_piece(t->b,
                           t->is_argument ? "(number|boolean|null|array|object)" : "[0-9]{1,3}");
    case PATTERN_KEY:
        return grammar_schema_key(t->b, t->key);
    case PATTERN_JSON:
        return grammar_schema(t->b, t->parameters);
    case PATTERN_OBJECT:
        return object_piece(t);
    case PATTERN_KEYED:
        return keyed_piece(t);
    case PATTERN_ARGUMENTS:
        return calls_arguments_piece(t);
    default:
        return grammar_empty(t->b);
    }
}

/* True: item i is one of the texts at which a lazy grammar begins. They complete a trigger as plain
 * texts. */
static bool is_trigger(const struct family *f, const struct call_pattern *p, uint32_t i)
{
    if (p->at[i].kind != PATTERN_TEXT || p != (f->section.n > 0 ? &f->section : &f->calls[0]))
        return false;
    for (uint32_t k = 0; k < i; k++)
        if (p->at[k].kind != PATTERN_BLANKS &&
            !(p->at[k].kind == PATTERN_TEXT && p->at[k].is_optional))
            return false;
    return true;
}

struct grammar_piece calls_pattern_piece(const struct calls_tool *t, const struct call_pattern *p,
                                         uint32_t from, uint32_t to)
{
    struct grammar_piece out = grammar_empty(t->b), q;

    for (uint32_t i = from; i < to; i++) {
        if (p->at[i].kind == PATTERN_GROUP) {
            i += p->at[i].n_items;
            continue;
        }
        q = item_piece(t, &p->at[i]);
        if (t->is_lazy && is_trigger(t->family, p, i))
            q = grammar_or(t->b, q, grammar_text(t->b, p->at[i].text));
        if (i == 0 && p->at[i].is_optional)
            q = grammar_or(t->b, q, grammar_empty(t->b));
        out = grammar_then(t->b, out, q);
    }
    return out;
}

/* ---- calls ---- */

/* Writes a header; in a lazy grammar from the word on that is the trigger. */
static struct grammar_piece header_piece(const struct calls_tool *t, const struct call_pattern *h)
{
    struct grammar_piece p;
    uint32_t from = 0;

    if (!t->is_lazy)
        return calls_pattern_piece(t, h, 0, h->n);
    while (h->at[from].kind != PATTERN_NAME)
        from++;
    p = grammar_text(t->b, family_header_word(h));
    return grammar_then(t->b, p, calls_pattern_piece(t, h, from, h->n));
}

/* Writes a message for the function, whose content is the arguments. */
static struct grammar_piece channel_piece(const struct calls_tool *t)
{
    const struct family *f = t->family;
    struct grammar_piece p = header_piece(t, &f->headers[0]);

    for (uint32_t i = 1; i < f->n_headers; i++)
        p = grammar_or(t->b, p, header_piece(t, &f->headers[i]));
    return grammar_then(t->b, p, calls_pattern_piece(t, &f->calls[0], 0, f->calls[0].n));
}

/* Writes a message that is a thought, or nothing. Its text has no mark that would end the
 * message. */
static struct grammar_piece thought_piece(const struct calls_tool *t)
{
    struct grammar_piece p = calls_text_piece(t, t->family->message[0]);

    p = grammar_then(t->b, p, regex_piece(t->b, "(?![\\s\\S]*<\\|(end|channel)\\|>)[^\\x00]*"));
    p = grammar_then(t->b, p, calls_text_piece(t, t->family->message[1]));
    return grammar_or(t->b, p, grammar_empty(t->b));
}

static struct grammar_piece tool_piece(const struct calls_tool *any, const cJSON *tool)
{
    const struct family *f = any->family;
    const struct calls_tool t = {
        .b = any->b,
        .shared = any->shared,
        .family = f,
        .trie = any->trie,
        .is_terse = any->is_terse,
        .is_lazy = any->is_lazy,
        .name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tool, "name")),
        .parameters = cJSON_GetObjectItemCaseSensitive(tool, "parameters"),
    };

    return f->has_channels ? channel_piece(&t)
                           : calls_pattern_piece(&t, &f->calls[0], 0, f->calls[0].n);
}

/* Makes the rule of a call, a choice of all tools. */
static uint32_t call_rule(const struct calls_tool *t, const cJSON *calls)
{
    struct grammar_builder *b = t->b;
    const cJSON *tool = cJSON_GetObjectItemCaseSensitive(calls, "tools")->child;
    const uint32_t rule = grammar_rule(b, "a tool call");
    struct grammar_piece p = tool_piece(t, tool);

    for (tool = tool->next; tool != NULL && grammar_builder_error(b) == 0; tool = tool->next)
        p = grammar_or(b, p, tool_piece(t, tool));
    grammar_define(b, rule, p);
    return rule;
}

/* Writes, up to `most` times, the text between two calls and a call. */
static struct grammar_piece more_calls(const struct calls_tool *t, uint32_t call, uint32_t most)
{
    const struct call_pattern *between = &t->family->between;
    const uint32_t next = grammar_rule(t->b, "another tool call");
    struct grammar_piece p =
        between->n > 0 ? calls_pattern_piece(t, between, 0, between->n) : calls_blanks(t);

    grammar_define(t->b, next, grammar_then(t->b, p, grammar_call(t->b, call)));
    return grammar_repeat_rule(t->b, next, 0, most);
}

static bool is_set(const cJSON *calls, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(calls, name));
}

/* Writes a text of that schema, after the header of the final channel if the family has
 * channels. */
static struct grammar_piece answer_piece(const struct calls_tool *t, const cJSON *answer)
{
    struct grammar_piece p = grammar_empty(t->b);

    if (t->family->has_channels && t->family->off[2] != NULL)
        p = calls_text_piece(t, t->family->off[2]);
    return grammar_then(t->b, p, grammar_schema(t->b, answer));
}

/* Writes p, or a text of the answer's schema in its place. */
static struct grammar_piece or_answer(const struct calls_tool *t, struct grammar_piece p,
                                      const cJSON *answer)
{
    return answer == NULL ? p : grammar_or(t->b, p, answer_piece(t, answer));
}

/* Writes an answer in Harmony's messages, which ends with the first call. */
static struct grammar_piece messages_piece(const struct calls_tool *t, const cJSON *calls)
{
    const cJSON *answer = cJSON_GetObjectItemCaseSensitive(calls, "answer");
    struct grammar_piece p =
        is_set(calls, "thinks") && !t->is_lazy ? thought_piece(t) : grammar_empty(t->b);
    struct grammar_piece q;

    if (cJSON_GetObjectItemCaseSensitive(calls, "tools")->child == NULL)
        return grammar_then(t->b, p, answer_piece(t, answer));
    q = grammar_call(t->b, call_rule(t, calls));
    return grammar_then(t->b, p, or_answer(t, q, answer));
}

static struct grammar_piece section_piece(const struct calls_tool *t, const cJSON *calls)
{
    const uint32_t max = (uint32_t)cJSON_GetObjectItemCaseSensitive(calls, "max")->valueint;
    const struct call_pattern *section = &t->family->section;
    const uint32_t hole = pattern_hole(section);
    const uint32_t call = call_rule(t, calls);
    struct grammar_piece p = calls_pattern_piece(t, section, 0, hole);

    p = grammar_then(t->b, p, grammar_call(t->b, call));
    if (max > 1)
        p = grammar_then(t->b, p, more_calls(t, call, max - 1));
    if (section->n > 0)
        p = grammar_then(t->b, p, calls_pattern_piece(t, section, hole + 1, section->n));
    return or_answer(t, p, cJSON_GetObjectItemCaseSensitive(calls, "answer"));
}

struct grammar_piece constraint_calls_piece(struct grammar_builder *b, const cJSON *calls,
                                            const struct token_trie *trie)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(calls, "family"));
    struct calls_shared shared = {0};
    struct calls_tool t = {.b = b,
                           .shared = &shared,
                           .trie = trie,
                           .is_terse = is_set(calls, "is_terse"),
                           .is_lazy = is_set(calls, "is_lazy")};
    struct grammar_piece p = {0};
    struct family *f;
    char why[100];

    t.family = f = family_create(text, strlen(text), why, sizeof(why));
    if (f == NULL)
        grammar_builder_fail(b, ERR_NOMEM, "out of memory");
    else
        p = f->has_channels ? messages_piece(&t, calls) : section_piece(&t, calls);
    for (uint32_t i = 0; i < shared.n; i++)
        mem_free(shared.strings[i].key);
    family_destroy(&f);
    return p;
}
