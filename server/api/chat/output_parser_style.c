/* server/api/chat/output_parser_style.c - the marks of each family of models, and whose template
 * shows which. */
#include "server/api/chat/output_parser_impl.h"

#include <string.h>

#define THINK .think_open = "<think>", .think_close = "</think>"

static const struct speech_marks marks[] = {
    [SPEECH_HERMES] = {THINK, .call_open = "<tool_call>", .call_close = "</tool_call>"},
    [SPEECH_LLAMA3] = {THINK, .call_open = "<|python_tag|>"},
    [SPEECH_MISTRAL] = {THINK, .call_open = "[TOOL_CALLS]"},
    [SPEECH_GRANITE] = {THINK, .call_open = "<|tool_call|>"},
    [SPEECH_DEEPSEEK] = {THINK,
                         .call_open = "<｜tool▁calls▁begin｜>",
                         .call_close = "<｜tool▁calls▁end｜>"},
    [SPEECH_HARMONY] = {.header_open = "<|channel|>",
                        .header_close = "<|message|>",
                        .part_close = "<|end|>"},
    [SPEECH_FORCED] = {NULL},
    [SPEECH_FORCED_NAMED] = {NULL},
};

/* The first that is found in the template tells the syntax. */
static const struct {
    const char *text;
    enum speech_syntax syntax;
} signs[] = {
    {"<|channel|>", SPEECH_HARMONY},
    {"tool▁calls▁begin", SPEECH_DEEPSEEK},
    {"[TOOL_CALLS]", SPEECH_MISTRAL},
    {"<|tool_call|>", SPEECH_GRANITE},
    {"<tool_call>", SPEECH_HERMES},
    {"<|python_tag|>", SPEECH_LLAMA3},
    {"<|start_header_id|>ipython", SPEECH_LLAMA3},
    {"\"parameters\": dictionary", SPEECH_LLAMA3},
};

const struct speech_marks *speech_marks(enum speech_syntax syntax)
{
    return &marks[syntax];
}

struct speech_style speech_style_find(const char *chat_template)
{
    struct speech_style style = {.syntax = SPEECH_HERMES};
    size_t i = 0;

    while (i < sizeof(signs) / sizeof(signs[0]) && strstr(chat_template, signs[i].text) == NULL)
        i++;
    if (i < sizeof(signs) / sizeof(signs[0]))
        style.syntax = signs[i].syntax;
    style.has_thoughts =
        style.syntax == SPEECH_HARMONY || strstr(chat_template, "</think>") != NULL;
    return style;
}

static bool is(const char *mark, const char *name, size_t n)
{
    return mark != NULL && strlen(mark) == n && memcmp(mark, name, n) == 0;
}

bool speech_is_mark(const struct speech_style *style, const char *name, size_t n)
{
    static const char *const inner[] = {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
                                        "<｜tool▁sep｜>"};
    const struct speech_marks *m = speech_marks(style->syntax);

    if (style->syntax == SPEECH_HARMONY)
        return is(m->header_open, name, n) || is(m->header_close, name, n) ||
               is(m->part_close, name, n) || is("<|start|>", name, n) ||
               is("<|constrain|>", name, n) || is("<|call|>", name, n);
    for (size_t i = 0; style->syntax == SPEECH_DEEPSEEK && i < 3; i++)
        if (is(inner[i], name, n))
            return true;
    return is(m->think_open, name, n) || is(m->think_close, name, n) || is(m->call_open, name, n) ||
           is(m->call_close, name, n);
}

bool speech_prompt_thinks(const struct speech_style *style, const char *prompt, size_t n)
{
    const char *open = speech_marks(style->syntax)->think_open;
    size_t len;

    if (!style->has_thoughts || open == NULL)
        return false;
    len = strlen(open);
    while (n > 0 && strchr(" \t\r\n", prompt[n - 1]) != NULL)
        n--;
    return n >= len && memcmp(prompt + n - len, open, len) == 0;
}

void speech_close_thought(const struct speech_style *style, struct buf *prompt)
{
    buf_add_str(prompt, "\n");
    buf_add_str(prompt, speech_marks(style->syntax)->think_close);
    buf_add_str(prompt, "\n\n");
}
