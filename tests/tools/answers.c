/* tests/tools/answers.c - takes models' answers apart for the tests that compare with templates.
 *
 * Reads one JSON object a line: {"template": "...", "text": "...", "tools": [...], "thinks":
 * false}, or with "family" in place of the template, and with the "prompt" in place of "thinks".
 * The text is fed whole, byte by byte, and cut in two at every byte; all must come to the same.
 * Prints one line for each: {"family": "...", "reasoning": "...", "content": "...", "calls":
 * [{"name": "...", "arguments": "...", "id": "...", "whole": true}], "error": 0}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/base/buf.h"
#include "core/jinja/template.h"
#include "core/json/json.h"
#include "server/api/chat/call_tools.h"
#include "server/api/chat/chat_caps.h"
#include "server/api/chat/output_parser.h"
#include "server/api/params/conversation.h"

#define MAX_TEXT ((size_t)16 << 20)

struct job {
    struct output_style style;
    struct conversation chat;
    struct call_tools *tools;
    bool thinks;
    const char *text;
    size_t n;
};

static void add_calls(struct buf *out, const struct output_parser *s)
{
    buf_add_str(out, ",\"calls\":[");
    for (uint32_t i = 0; i < s->n_calls; i++) {
        const struct buf *arguments = &s->calls[i].arguments;

        buf_add_str(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        json_add_cstring(out, s->calls[i].name);
        buf_add_str(out, ",\"arguments\":");
        json_add_string(out, arguments->data != NULL ? arguments->data : "", arguments->len);
        buf_add_str(out, ",\"id\":");
        json_add_cstring(out, s->calls[i].id);
        buf_printf(out, ",\"whole\":%s}", s->calls[i].is_whole ? "true" : "false");
    }
    buf_add_str(out, "]");
}

/* Pieces of `step` bytes, but that the first has `first`. */
static void read_answer(const struct job *job, size_t first, size_t step, struct buf *out)
{
    struct output_parser s;

    output_parser_init(&s, &job->style, job->tools, true, job->thinks);
    for (size_t at = 0, n = first; at < job->n; at += n, n = step) {
        n = n < job->n - at ? n : job->n - at;
        output_parser_feed(&s, job->text + at, n);
    }
    output_parser_end(&s);
    buf_clear(out);
    buf_add_str(out, "{\"family\":");
    json_add_cstring(out, job->style.family != NULL ? job->style.family->name : "");
    buf_add_str(out, ",\"reasoning\":");
    json_add_string(out, s.thought.data != NULL ? s.thought.data : "", s.thought.len);
    buf_add_str(out, ",\"content\":");
    json_add_string(out, s.text.data != NULL ? s.text.data : "", s.text.len);
    add_calls(out, &s);
    buf_printf(out, ",\"error\":%d}", output_parser_error(&s));
    output_parser_release(&s);
}

/* 0, or the cut that changed the result. */
static size_t find_cut(const struct job *job, const struct buf *whole, struct buf *out)
{
    read_answer(job, 1, 1, out);
    if (out->len != whole->len || memcmp(out->data, whole->data, out->len) != 0)
        return job->n;
    for (size_t at = 1; at < job->n; at++) {
        read_answer(job, at, job->n, out);
        if (out->len != whole->len || memcmp(out->data, whole->data, out->len) != 0)
            return at;
    }
    return 0;
}

static int add_tools(struct conversation *chat, const cJSON *tools)
{
    const cJSON *it;

    cJSON_ArrayForEach(it, tools)
    {
        const cJSON *function = cJSON_GetObjectItem(it, "function");
        const struct tool tool = {
            .name = cJSON_GetStringValue(cJSON_GetObjectItem(function, "name")),
            .parameters = cJSON_GetObjectItem(function, "parameters"),
        };

        if (tool.name == NULL || conversation_add_tool(chat, &tool) < 0)
            return -1;
    }
    return 0;
}

/* As the server finds it: by the template's signs, and what it writes for a call. */
static struct output_style style_of(const char *source)
{
    static const struct chat_tokens tokens = {.bos = {"", 0}, .eos = {"</s>", 4}};
    static char *last;
    static const struct family *family;
    struct template *t = NULL;
    struct chat_caps caps;
    char why[200];

    if (last != NULL && strcmp(last, source) == 0)
        return output_style_of(family, source);
    free(last);
    last = strdup(source);
    family = family_of_template(source);
    if (template_create(&t, source, strlen(source), why, sizeof(why)) == 0 &&
        chat_caps_probe(&caps, t, source, &tokens) == 0)
        (void)chat_caps_find_family(&family, &caps, t, source, &tokens);
    template_destroy(&t);
    return output_style_of(family, source);
}

static void answer(const cJSON *line)
{
    const char *template = cJSON_GetStringValue(cJSON_GetObjectItem(line, "template"));
    const char *family = cJSON_GetStringValue(cJSON_GetObjectItem(line, "family"));
    const char *prompt = cJSON_GetStringValue(cJSON_GetObjectItem(line, "prompt"));
    struct job job = {.thinks = cJSON_IsTrue(cJSON_GetObjectItem(line, "thinks")),
                      .text = cJSON_GetStringValue(cJSON_GetObjectItem(line, "text"))};
    struct buf whole, cut;
    size_t at;

    job.n = strlen(job.text);
    job.style =
        family != NULL ? output_style_of(family_find(family), "</think>") : style_of(template);
    if (prompt != NULL)
        job.thinks = output_parser_prompt_thinks(&job.style, prompt, strlen(prompt));
    if (add_tools(&job.chat, cJSON_GetObjectItem(line, "tools")) < 0)
        abort();
    if (call_tools_create(&job.tools, &job.chat) < 0)
        abort();
    buf_init(&whole, MAX_TEXT);
    buf_init(&cut, MAX_TEXT);
    read_answer(&job, job.n, job.n, &whole);
    at = cJSON_IsFalse(cJSON_GetObjectItem(line, "cuts")) ? 0 : find_cut(&job, &whole, &cut);
    if (at > 0)
        printf("{\"error\":\"cut at byte %zu\",\"whole\":%s,\"cut\":%s}\n", at, whole.data,
               cut.data);
    else
        printf("%s\n", whole.data);
    fflush(stdout);
    buf_release(&whole);
    buf_release(&cut);
    call_tools_destroy(&job.tools);
    conversation_release(&job.chat);
}

int main(void)
{
    char *text = NULL;
    size_t size = 0;

    while (getline(&text, &size, stdin) > 0) {
        cJSON *line = NULL;
        const char *why = "";

        if (json_parse(text, strcspn(text, "\n"), &line, &why) < 0)
            return fprintf(stderr, "answers: %s\n", why), 1;
        answer(line);
        cJSON_Delete(line);
    }
    free(text);
    return 0;
}
