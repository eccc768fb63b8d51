/* server/api/chat/output_parser_style.c - the marks of each family of models, and whose template
 * shows which. */
#include "server/api/chat/output_parser_impl.h"

#include <string.h>

#define THINK .think_open = "<think>", .think_close = "</think>"

static const struct output_marks marks[] = {
    [OUTPUT_HERMES] = {THINK, .call_open = "<tool_call>", .call_close = "</tool_call>"},
    [OUTPUT_LLAMA3] = {THINK, .call_open = "<|python_tag|>"},
    [OUTPUT_MISTRAL] = {THINK, .call_open = "[TOOL_CALLS]"},
    [OUTPUT_GRANITE] = {THINK, .call_open = "<|tool_call|>"},
    [OUTPUT_DEEPSEEK] = {THINK,
                         .call_open = "<｜tool▁calls▁begin｜>",
                         .call_close = "<｜tool▁calls▁end｜>"},
    [OUTPUT_HARMONY] = {.header_open = "<|channel|>",
                        .header_close = "<|message|>",
                        .part_close = "<|end|>"},
    [OUTPUT_FORCED] = {THINK},
    [OUTPUT_FORCED_NAMED] = {THINK},
};

/* The first that is found in the template tells the syntax. */
static const struct {
    const char *text;
    enum output_syntax syntax;
} signs[] = {
    {"<|channel|>", OUTPUT_HARMONY},
    {"tool▁calls▁begin", OUTPUT_DEEPSEEK},
    {"[TOOL_CALLS]", OUTPUT_MISTRAL},
    {"<|tool_call|>", OUTPUT_GRANITE},
    {"<tool_call>", OUTPUT_HERMES},
    {"<|python_tag|>", OUTPUT_LLAMA3},
    {"<|start_header_id|>ipython", OUTPUT_LLAMA3},
    {"\"parameters\": dictionary", OUTPUT_LLAMA3},
};

const struct output_marks *output_marks(enum output_syntax syntax)
{
    return &marks[syntax];
}

struct output_style output_style_find(const char *chat_template)
{
    struct output_style style = {.syntax = OUTPUT_HERMES};
    size_t i = 0;

    while (i < sizeof(signs) / sizeof(signs[0]) && strstr(chat_template, signs[i].text) == NULL)
        i++;
    if (i < sizeof(signs) / sizeof(signs[0]))
        style.syntax = signs[i].syntax;
    style.names_first = style.syntax == OUTPUT_MISTRAL && strstr(chat_template, "[ARGS]") != NULL;
    style.has_thoughts =
        style.syntax == OUTPUT_HARMONY || strstr(chat_template, "</think>") != NULL;
    return style;
}

static bool is(const char *mark, const char *name, size_t n)
{
    return mark != NULL && strlen(mark) == n && memcmp(mark, name, n) == 0;
}

bool output_parser_is_mark(const struct output_style *style, const char *name, size_t n)
{
    static const char *const inner[] = {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
                                        "<｜tool▁sep｜>"};
    const struct output_marks *m = output_marks(style->syntax);

    if (style->syntax == OUTPUT_HARMONY)
        return is(m->header_open, name, n) || is(m->header_close, name, n) ||
               is(m->part_close, name, n) || is("<|start|>", name, n) ||
               is("<|constrain|>", name, n) || is("<|call|>", name, n);
    for (size_t i = 0; style->syntax == OUTPUT_DEEPSEEK && i < 3; i++)
        if (is(inner[i], name, n))
            return true;
    if (style->syntax == OUTPUT_MISTRAL && (is("[ARGS]", name, n) || is("[CALL_ID]", name, n)))
        return true;
    return is(m->think_open, name, n) || is(m->think_close, name, n) || is(m->call_open, name, n) ||
           is(m->call_close, name, n);
}

const char *output_parser_think_open(const struct output_style *style)
{
    return style->has_thoughts ? output_marks(style->syntax)->think_open : NULL;
}

const char *output_parser_think_close(const struct output_style *style)
{
    return style->has_thoughts ? output_marks(style->syntax)->think_close : NULL;
}

static bool ends_with(const char *prompt, size_t n, const char *mark)
{
    const size_t len = mark != NULL ? strlen(mark) : 0;

    while (n > 0 && strchr(" \t\r\n", prompt[n - 1]) != NULL)
        n--;
    return mark != NULL && n >= len && memcmp(prompt + n - len, mark, len) == 0;
}

bool output_parser_prompt_thinks(const struct output_style *style, const char *prompt, size_t n)
{
    return ends_with(prompt, n, output_parser_think_open(style));
}

bool output_parser_prompt_has_thought(const struct output_style *style, const char *prompt,
                                      size_t n)
{
    return ends_with(prompt, n, output_parser_think_close(style));
}

void output_parser_close_thought(const struct output_style *style, struct buf *prompt)
{
    buf_add_str(prompt, "\n");
    buf_add_str(prompt, output_marks(style->syntax)->think_close);
    buf_add_str(prompt, "\n\n");
}

bool output_style_call_form(const struct output_style *style, struct output_call_form *out)
{
    const struct output_marks *m = output_marks(style->syntax);

    *out = (struct output_call_form){.open = m->call_open, .close = "", .arguments = "arguments"};
    switch (style->syntax) {
    case OUTPUT_HERMES:
        out->close = m->call_close;
        return true;
    case OUTPUT_LLAMA3:
        out->arguments = "parameters";
        out->may_be_bare = out->is_single = true;
        return true;
    case OUTPUT_MISTRAL:
    case OUTPUT_GRANITE:
        out->is_list = true;
        return !style->names_first;
    case OUTPUT_DEEPSEEK:
    case OUTPUT_HARMONY:
    case OUTPUT_FORCED:
    case OUTPUT_FORCED_NAMED:
        break;
    }
    return false;
}
