/* tests/fuzz/fuzz_output_parser.c - libFuzzer: any text as what a model says, taken apart whole and
 * in pieces.
 *
 * The first byte chooses the family, the second which marks count, the third how the text is cut.
 * What comes out does not depend on the cuts.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/json/json.h"
#include "server/api/chat/call_tools.h"
#include "server/api/chat/output_parser.h"
#include "server/api/params/conversation.h"
#include "tests/fuzz/target.h"

#define MAX_SAID (1u << 20)

struct said {
    struct buf thought, text, calls;
};

/* As a sender does that sends at once. */
static void take(struct output_parser *s, struct said *out)
{
    buf_add(&out->thought, s->thought.data != NULL ? s->thought.data : "", s->thought.len);
    buf_add(&out->text, s->text.data != NULL ? s->text.data : "", s->text.len);
    for (uint32_t i = s->n_sent; i < s->n_calls; i++) {
        const struct output_call *c = &s->calls[i];

        if (!c->was_announced) {
            buf_add_str(&out->calls, c->name);
            buf_add_char(&out->calls, '(');
        }
        if (c->arguments.len > c->n_sent)
            buf_add(&out->calls, c->arguments.data + c->n_sent, c->arguments.len - c->n_sent);
        if (c->is_over)
            buf_add_str(&out->calls, c->is_whole ? ");" : "~;");
    }
    output_parser_clear(s);
}

/* Arguments that are whole are an object; others are one once they are closed. */
static void check_calls(const struct output_parser *s)
{
    for (uint32_t i = 0; i < s->n_calls; i++) {
        struct buf object;
        const char *why = NULL;
        cJSON *json = NULL;

        buf_init(&object, MAX_SAID);
        output_call_add_object(&s->calls[i], &object);
        require(json_parse(object.data, object.len, &json, &why) == 0 && cJSON_IsObject(json));
        cJSON_Delete(json);
        buf_release(&object);
    }
}

/* The family of that number, and behind all of them the calls that are forced: *is_named for one of
 * a function that is known. */
static const struct family *family_at(uint8_t number, bool *is_forced, bool *is_named)
{
    const struct family *f = family_table();
    uint32_t n = 0;

    for (const struct family *it = f; it != NULL; it = it->next)
        n++;
    *is_forced = number % (n + 2) >= n;
    *is_named = number % (n + 2) == n;
    for (uint32_t i = number % n; i > 0; i--)
        f = f->next;
    return f;
}

/* A function with parameters of all types. */
static void add_tool(struct conversation *chat)
{
    static const char schema[] = "{\"properties\":{\"s\":{\"type\":\"string\"},"
                                 "\"i\":{\"type\":[\"integer\",\"null\"]},"
                                 "\"o\":{\"$ref\":\"#/$defs/o\"},\"b\":{\"enum\":[true]}},"
                                 "\"$defs\":{\"o\":{\"anyOf\":[{\"type\":\"object\"},"
                                 "{\"$ref\":\"#/$defs/o\"}]}}}";
    static cJSON *parameters;
    struct tool tool = {.name = "f"};

    if (parameters == NULL)
        parameters = cJSON_Parse(schema);
    tool.parameters = parameters;
    require(conversation_add_tool(chat, &tool) == 0);
}

static void say(struct said *out, const uint8_t *how, const char *text, size_t n, uint32_t cuts)
{
    bool is_forced, is_named;
    const struct family *family = family_at(how[0], &is_forced, &is_named);
    const struct output_style style = output_style_of(family, (how[1] & 1) != 0 ? "</think>" : "");
    struct conversation chat = {0};
    struct call_tools *tools;
    struct output_parser s;

    buf_init(&out->thought, MAX_SAID);
    buf_init(&out->text, MAX_SAID);
    buf_init(&out->calls, MAX_SAID);
    add_tool(&chat);
    require(call_tools_create(&tools, &chat) == 0);
    if (is_forced)
        output_parser_init_forced(&s, is_named ? "f" : NULL, &style, NULL, (how[1] & 4) != 0);
    else
        output_parser_init(&s, &style, tools, (how[1] & 2) != 0, (how[1] & 4) != 0);
    for (size_t i = 0, len; i < n; i += len) {
        cuts = cuts * 1664525 + 1013904223;
        len = cuts == 0 ? n : 1 + (cuts >> 24) % 7;
        if (how[2] == 0 || len > n - i)
            len = n - i;
        output_parser_feed(&s, text + i, len);
        take(&s, out);
    }
    output_parser_end(&s);
    take(&s, out);
    require(output_parser_error(&s) == 0 && !output_parser_has_more(&s));
    check_calls(&s);
    output_parser_release(&s);
    call_tools_destroy(&tools);
    conversation_release(&chat);
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static void release(struct said *s)
{
    buf_release(&s->thought);
    buf_release(&s->text);
    buf_release(&s->calls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t whole[3];
    struct said a, b;

    if (n < 3 || !json_is_utf8((const char *)data + 3, n - 3))
        return 0;
    memcpy(whole, data, 3);
    whole[2] = 0;
    say(&a, whole, (const char *)data + 3, n - 3, 0);
    whole[2] = 1;
    say(&b, whole, (const char *)data + 3, n - 3, data[2]);
    require(same(&a.thought, &b.thought) && same(&a.text, &b.text) && same(&a.calls, &b.calls));
    release(&a);
    release(&b);
    return 0;
}
