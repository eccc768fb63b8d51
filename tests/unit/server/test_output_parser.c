/* tests/unit/server/test_output_parser.c - thoughts, text and tool calls taken apart, however the
 * text is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/api/chat/call_tools.h"
#include "server/api/chat/output_parser.h"
#include "server/api/params/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HERMES "hermes"
#define LLAMA3 "llama3"
#define MISTRAL "mistral"
#define MISTRAL_ARGS "mistral_args"
#define GRANITE "granite"
#define DEEPSEEK "deepseek_v3"
#define HARMONY "harmony"
#define FORCED "forced"
#define FORCED_NAMED "forced_named"

struct said {
    char thought[400], text[400], calls[600];
    char order[1000]; /* "<thought>…<text>…<f>": what a stream with blocks would send */
    enum output_part open;
};

static void put(char *to, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put(char *to, size_t size, const char *format, ...)
{
    const size_t n = strlen(to);
    va_list args;

    va_start(args, format);
    vsnprintf(to + n, size - n, format, args);
    va_end(args);
}

static void take_piece(const struct output_parser *s, const struct output_piece *p,
                       struct said *out)
{
    const bool is_thought = p->part == OUTPUT_THOUGHT;

    if (p->part == OUTPUT_CALL) {
        if (!s->calls[p->call].was_announced)
            put(out->order, sizeof(out->order), "<%s>", s->calls[p->call].name);
    } else {
        if (p->part != out->open || out->order[0] == '\0')
            put(out->order, sizeof(out->order), is_thought ? "<thought>" : "<text>");
        strncat(out->order, (is_thought ? s->thought.data : s->text.data) + p->at, p->n);
    }
    out->open = p->part;
}

/* Everything that came out, as a stream would send it: "f({…});" is a whole call, "f({…" a cut
 * one. */
static void take(struct output_parser *s, struct said *out)
{
    for (uint32_t i = 0; i < s->n_pieces; i++)
        take_piece(s, &s->pieces[i], out);
    if (s->thought.len > 0)
        strncat(out->thought, s->thought.data, s->thought.len);
    if (s->text.len > 0)
        strncat(out->text, s->text.data, s->text.len);
    for (uint32_t i = s->n_sent; i < s->n_calls; i++) {
        const struct output_call *c = &s->calls[i];

        if (!c->was_announced)
            put(out->calls, sizeof(out->calls), "%s(", c->name);
        if (c->arguments.len > c->n_sent)
            strncat(out->calls, c->arguments.data + c->n_sent, c->arguments.len - c->n_sent);
        if (c->is_over)
            put(out->calls, sizeof(out->calls), "%s", c->is_whole ? ");" : "~;");
    }
    output_parser_clear(s);
}

/* One function f, whose parameters have types. */
static const struct call_tools *tools_with_f(void)
{
    static const char schema[] = "{\"properties\":{\"s\":{\"type\":\"string\"},"
                                 "\"i\":{\"type\":\"integer\"},\"b\":{\"type\":\"boolean\"},"
                                 "\"n\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},"
                                 "\"o\":{\"$ref\":\"#/$defs/o\"}},"
                                 "\"$defs\":{\"o\":{\"type\":\"object\"}}}";
    static struct call_tools *tools;

    if (tools == NULL) {
        struct conversation chat = {0};
        const struct tool tool = {.name = "f", .parameters = cJSON_Parse(schema)};

        assert_int_equal(conversation_add_tool(&chat, &tool), 0);
        assert_int_equal(call_tools_create(&tools, &chat), 0);
        conversation_release(&chat);
        cJSON_Delete((cJSON *)(uintptr_t)tool.parameters);
    }
    return tools;
}

static void start(struct output_parser *s, const struct output_style *style, bool tools,
                  bool thinks)
{
    if (style->family == family_forced(false))
        output_parser_init_forced(s, NULL, style, NULL, thinks);
    else if (style->family == family_forced(true))
        output_parser_init_forced(s, "f", style, NULL, thinks);
    else
        output_parser_init(s, style, tools_with_f(), tools, thinks);
}

static struct said say(const struct output_style *style, bool tools, bool thinks, const char *text,
                       size_t step)
{
    const size_t n = strlen(text);
    struct said out = {"", "", "", "", OUTPUT_TEXT};
    struct output_parser s;

    start(&s, style, tools, thinks);
    for (size_t i = 0; i < n; i += step) {
        output_parser_feed(&s, text + i, n - i < step ? n - i : step);
        take(&s, &out);
    }
    output_parser_end(&s);
    take(&s, &out);
    assert_int_equal(output_parser_error(&s), 0);
    assert_false(output_parser_has_more(&s));
    output_parser_release(&s);
    return out;
}

/* A style with the family of that name. */
static struct output_style style_of(const char *name, bool thinks)
{
    const bool is_forced = strcmp(name, FORCED) == 0, is_named = strcmp(name, FORCED_NAMED) == 0;

    return output_style_of(is_forced || is_named ? family_forced(is_named) : family_find(name),
                           thinks ? "</think>" : "");
}

struct scene {
    const char *family;
    bool thoughts, tools, thinks;
    const char *said, *thought, *text, *calls;
};

static const struct scene scenes[] = {
    {HERMES, false, false, false, "Hello, <world>! ", "", "Hello, <world>! ", ""},
    {HERMES, false, true, false, "  two blanks  \n", "", "  two blanks  \n", ""},
    {HERMES, true, false, false, "<think>\nI see.\n</think>\n\nYes.", "I see.", "Yes.", ""},
    {HERMES, true, false, true, "I see.\n</think>\n\nYes.\n", "I see.", "Yes.\n", ""},
    {HERMES, true, false, true, "cut before the en", "cut before the en", "", ""},
    {HERMES, true, false, false, "No <think> later </think>", "", "No <think> later </think>", ""},
    {HERMES, true, false, false, "a < b <t", "", "a < b <t", ""},
    {HERMES, false, true, false,
     "Let me look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1.0, \"b\": \"}</x>\"}}\n"
     "</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
     "", "Let me look.", "f({\"a\": 1.0, \"b\": \"}</x>\"});g({});"},
    {HERMES, false, true, false,
     "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>", "", "",
     "f({\"a\":1});"},
    {HERMES, false, true, false, "<tool_call>{\"name\":\"f\"}</tool_call> done", "", "done",
     "f({});"},
    {HERMES, false, true, false, "<tool_call>{\"name\":\"f\",</tool_call> x", "",
     "<tool_call>{\"name\":\"f\",</tool_call> x", ""},
    {HERMES, false, true, false, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":", "", "",
     "f({\"a\":~;"},
    {HERMES, false, true, false, "<tool_call>{\"name\":\"f\"", "", "", "f(~;"},
    {HERMES, false, true, false, "<tool_call>{\"na", "", "<tool_call>{\"na", ""},
    {HERMES, false, true, false,
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\": oops}}</tool_call> so", "", "so",
     "f({\"a\": oops}}~;"},
    {HERMES, false, true, false,
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"</tool_call>\"}}</tool_call>", "", "",
     "f({\"a\":\"</tool_call>\"});"},
    {HERMES, false, true, false,
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"x\ny\tz\"}}</tool_call>", "", "",
     "f({\"a\":\"x\\ny\\tz\"});"},
    {HERMES, false, true, false, "<tool_call>{\"name\":\"f\",\"arguments\":{}}}\n</tool_call>so",
     "", "so", "f({});"},
    {HERMES, false, true, false, "<tool_call>{\"name\":\"f\",\"arguments\":{}}} and", "", "} and",
     "f({});"},
    {HERMES, false, true, false,
     "<tool_call>{\"id\":7,\"name\":\"f\",\"arguments\":{},\"x\":[{\"name\":1}]}</tool_call>", "",
     "", "f({});"},
    {HERMES, false, true, false,
     "<tool_call>{\"arguments\":{\"name\":\"g\"},\"n\\u0061me\":\"f\"}</tool_call>", "", "",
     "f({\"name\":\"g\"});"},
    {HERMES, false, true, false,
     "<tool_call>{\"name\":\"\\\"f\\\"\",\"arguments\":{\"a\":1}}</tool_call>", "", "",
     "\"f\"({\"a\":1});"},
    {HERMES, false, true, false, "<tool_call></tool_call>", "", "<tool_call></tool_call>", ""},
    {HERMES, false, true, false, "<tool_call>what <tool_call>{\"name\":\"f\"}</tool_call>", "",
     "<tool_call>what", "f({});"},
    {HERMES, false, true, false, "<tool_call>{\"name\":7}</tool_call>", "",
     "<tool_call>{\"name\":7}</tool_call>", ""},
    {HERMES, false, false, false, "<tool_call>{\"name\":\"f\"}</tool_call>", "",
     "<tool_call>{\"name\":\"f\"}</tool_call>", ""},
    {HERMES, true, true, true,
     "hm </think><tool_call>{\"name\":\"f\",\"arguments\":{\"n\":[1,{\"x\":null}]}}</tool_call>",
     "hm", "", "f({\"n\":[1,{\"x\":null}]});"},
    {LLAMA3, false, true, false, "{\"name\": \"f\", \"parameters\": {\"q\": \"é\"}}", "", "",
     "f({\"q\": \"é\"});"},
    {LLAMA3, false, true, false,
     "<|python_tag|>{\"name\":\"f\",\"parameters\":{}}; {\"name\":\"g\",\"parameters\":{}}", "", "",
     "f({});g({});"},
    {LLAMA3, false, true, false, "{\"answer\": 42} is it", "", "{\"answer\": 42} is it", ""},
    {LLAMA3, false, true, false, "A set: {1, 2}", "", "A set: {1, 2}", ""},
    {LLAMA3, false, true, false, "{\"name\": \"Ada\", \"age\": 36}", "",
     "{\"name\": \"Ada\", \"age\": 36}", ""},
    {LLAMA3, false, true, false, "{\"name\": \"Ada\", \"a", "", "{\"name\": \"Ada\", \"a", ""},
    {LLAMA3, false, true, false, "{\"name\":\"f\",\"parameters\":{\"a\":\"};\"}} bye", "", "bye",
     "f({\"a\":\"};\"});"},
    {MISTRAL, false, true, false,
     "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"a\":[]}},{\"name\":\"g\",\"arguments\":{}}]",
     "", "", "f({\"a\":[]});g({});"},
    {MISTRAL_ARGS, false, true, false,
     "So. [TOOL_CALLS]get_x[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]abcdefghi[ARGS]{\"b\"", "", "So.",
     "get_x({\"a\": 1});g({\"b\"~;"},
    {MISTRAL_ARGS, false, true, false, "[TOOL_CALLS]get_x", "", "[TOOL_CALLS]get_x", ""},
    {MISTRAL_ARGS, false, true, false, "[TOOL_CALLS]f[ARGS]", "", "", "f(~;"},
    {MISTRAL, false, true, false, "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{}},{\"na", "", "",
     "f({});"},
    {GRANITE, true, true, false, "<|tool_call|>[{\"name\":\"f\",\"arguments\":{}}]", "", "",
     "f({});"},
    {GRANITE, true, true, false, "<|tool_call|>[]", "", "<|tool_call|>[]", ""},
    {DEEPSEEK, true, true, true,
     "so</think>\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n"
     "```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n"
     "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "so", "", "f({\"a\": 1});g({});"},
    {DEEPSEEK, true, true, true,
     "so</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": "
     "\"```\"}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{\"b\":<｜tool▁calls▁end｜>.",
     "so", ".", "f({\"a\": \"```\"});g({\"b\":~;"},
    {DEEPSEEK, false, true, false,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```py", "",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```py", ""},
    {HARMONY, true, true, false,
     "<|channel|>commentary to=functions.f<|message|>{\"a\":1}<|call|><|start|>assistant<|channel|>"
     "final<|message|>Hi",
     "", "Hi", "f({\"a\":1});"},
    {HARMONY, true, true, false,
     "<|channel|>commentary to=functions.f<|message|>{\"a\":1<|end|><|start|>assistant<|channel|>"
     "final<|message|>Hi",
     "", "Hi", "f({\"a\":1~;"},
    {HARMONY, true, true, false,
     "<|channel|>commentary to=functions.f<|message|>no<|end|><|channel|>final<|message|>Hi", "",
     "noHi", ""},
    {FORCED, false, true, false,
     "[{\"name\": \"f\", \"arguments\": {\"a\": [1]}}, {\"name\": \"g\", \"arguments\": {\"b\": "
     "\"x",
     "", "", "f({\"a\": [1]});g({\"b\": \"x~;"},
    {FORCED, false, true, false, "[{\"name\":\"f\",\"argu", "", "", "f(~;"},
    {FORCED, false, true, false, "[{\"na", "", "", ""},
    {FORCED, true, true, true, "Hm.\n</think>\n\n[{\"name\":\"f\",\"arguments\":{}}]", "Hm.", "",
     "f({});"},
    {FORCED, true, true, false, "<think>Hm.</think>[{\"name\":\"f\",\"arguments\":{}}]", "Hm.", "",
     "f({});"},
    {FORCED, true, true, false, "[{\"name\":\"f\",\"arguments\":{}}]", "", "", "f({});"},
    {FORCED, true, true, false, "<think>Hm", "Hm", "", ""},
    {FORCED_NAMED, true, true, true, "Hm.</think>{\"a\":1}", "Hm.", "", "f({\"a\":1});"},
    {FORCED_NAMED, true, true, false, "{\"a\":1", "", "", "f({\"a\":1~;"},
    {FORCED, false, true, false, "[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"g", "", "",
     "f({});"},
    {FORCED_NAMED, false, true, false, "{\"a\": 1, \"b\": [", "", "", "f({\"a\": 1, \"b\": [~;"},
    {FORCED_NAMED, false, true, false, " {\"a\": 1}\n", "", "", "f({\"a\": 1});"},
    {FORCED_NAMED, false, true, false, " ", "", "", "f(~;"},
    {HARMONY, true, true, false,
     "<|channel|>analysis<|message|>Let me think.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{\"a\":1}",
     "Let me think.", "", "f({\"a\":1});"},
    {HARMONY, true, false, false,
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|> Hi. ",
     "Hm.", " Hi. ", ""},
    {HARMONY, true, true, false, "no channel at all", "", "no channel at all", ""},
};

/* How each family writes its calls; values of all types. */
#define M3 "]<]minimax[>["
static const struct scene family_scenes[] = {
    {"functionary_v32", false, true, false, "all\nLet me look.>>>f\n{\"i\": 1}>>>f\n{\"i\": 2}", "",
     "Let me look.", "f({\"i\": 1});f({\"i\": 2});"},
    {"functionary_v32", false, true, false, "f\n{\"i\": 1}>>>all\nSo.", "", "So.",
     "f({\"i\": 1});"},
    {"functionary_v32", false, true, false, "all\n>>> all(x)\n>>>all\nall\n>", "",
     ">>> all(x)\nall\n>", ""},
    {"functionary_v32", false, true, false, "allow\n{}", "", "allow\n{}", ""},
    {"functionary_v32", false, true, false, "al", "", "al", ""},
    {"muse", true, true, false,
     " to=self<|message|>Hm.<|eom|><|start|>assistant to=f<|message|><atem:function_calls>\n"
     "<atem:invoke name=\"f\">\n<atem:parameter name=\"s\">1</atem:parameter>\n</atem:invoke>\n"
     "</atem:function_calls><|eom|><|start|>assistant to=f<|message|><atem:function_calls>\n"
     "<atem:invoke name=\"f\">\n<atem:parameter name=\"i\">2</atem:parameter>\n</atem:invoke>\n"
     "</atem:function_calls>",
     "Hm.", "", "f({\"s\": \"1\"});f({\"i\": 2});"},
    {"muse", true, true, false, " to=user<|message|>Hi to=you", "", "Hi to=you", ""},
    {"minimax_m3", false, true, false,
     "So.\n" M3 "<tool_call>\n" M3 "<invoke name=\"f\">" M3 "<s>1 <b>" M3 "</s>" M3 "<i>1" M3
     "</i>" M3 "<o>" M3 "<k>v" M3 "</k>" M3 "<l>" M3 "<item>x" M3 "</item>" M3 "<item>2" M3
     "</item>" M3 "</l>" M3 "</o>" M3 "<l>" M3 "<item>" M3 "<k>3" M3 "</k>" M3 "</item>" M3
     "</l>" M3 "<n>" M3 "</n>" M3 "</invoke>\n" M3 "<invoke name=\"g\">" M3 "</invoke>\n" M3
     "</tool_call>",
     "", "So.",
     "f({\"s\": \"1 <b>\", \"i\": 1, \"o\": {\"k\": \"v\", \"l\": [\"x\", 2]}, \"l\": [{\"k\": "
     "3}], "
     "\"n\": \"\"});g({});"},
    {"minimax_m3", false, true, false,
     M3 "<tool_call>" M3 "<invoke name=\"f\">" M3 "<o>" M3 "<k>v" M3 "</o>" M3 "</k>" M3
        "</invoke>",
     "", "", "f({\"o\": {\"k\": \"v\"}});"},
    {"muse", true, true, false,
     " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>Hi.", "Hm.", "Hi.", ""},
    {"falcon", false, true, false,
     "So.\n<tool_call>\n[\n  {\"name\": \"f\", \"arguments\": {\"i\": 1}},\n  {\"id\": \"a\", "
     "\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"i\": 2}}}\n]\n"
     "</tool_call>",
     "", "So.", "f({\"i\": 1});f({\"i\": 2});"},
    {"hermes", false, true, false,
     "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
     "\"{\\\"i\\\": 2}\"}}</tool_call>",
     "", "", "f({\"i\": 2});"},
    {"hermes", false, true, false,
     "<tool_call>{\"name\": \"f\", \"function\": {\"name\": \"g\"}}</tool_call>", "", "", "f({});"},
    {"qwen3_coder", false, true, false,
     "So.\n<tool_call>\n<function=f>\n<parameter=s>\n1\n\n</parameter>\n<parameter=i>\n1\n"
     "</parameter>\n<parameter=b>\nTrue\n</parameter>\n<parameter=n>\nnull\n</parameter>\n"
     "<parameter=o>\n{'a': [None]}\n</parameter>\n<parameter=x>\n[1]\n</parameter>\n</function>\n"
     "</tool_call>",
     "", "So.",
     "f({\"s\": \"1\\n\", \"i\": 1, \"b\": true, \"n\": null, \"o\": {\"a\": [null]}, \"x\": "
     "[1]});"},
    {"qwen3_coder", false, true, false, "Now.\n\n<function=f>\n</function>\n</tool_call>", "",
     "Now.", "f({});"},
    {"qwen3_coder", false, true, false,
     "<tool_call>\n<function=f>\n<parameter=s>a</parameter>b</function>c</parameter>\n</function>",
     "", "", "f({\"s\": \"a</parameter>b</function>c\"});"},
    {"qwen3_coder", false, true, false, "<tool_call>\n<function=f>\n<parameter=s>\nab", "", "",
     "f({\"s\": \"ab~;"},
    {"qwen3_coder", false, true, false, "Use <function=NAME> for that. <tool_call> too.", "",
     "Use <function=NAME> for that. <tool_call> too.", ""},
    {"glm45", true, true, false,
     "<think>a <tool_call> in a line</think>\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>é"
     "</arg_value>\n<arg_key>i</arg_key>\n<arg_value>x</arg_value>\n</tool_call>"
     "<tool_call>f</tool_call>",
     "a <tool_call> in a line", "", "f({\"s\": \"é\", \"i\": \"x\"});f({});"},
    {"glm45", false, true, false, "One. <tool_call>f</tool_call> Two.", "", "One.\n\nTwo.",
     "f({});"},
    {"glm45", true, true, true, "I look it up.\n<tool_call>f</tool_call>", "I look it up.", "",
     "f({});"},
    {"glm45", true, true, false, "</think>Hi </think>", "", "Hi </think>", ""},
    {"seed_oss", false, true, false,
     "<seed:tool_call>\n<function=f>\n<parameter=s>a\n</parameter>\n</function>\n<function=g>\n"
     "</function>\n</seed:tool_call>x",
     "", "x", "f({\"s\": \"a\\n\"});g({});"},
    {"minimax_m2", false, true, false,
     "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">\"q\" &amp;</parameter>\n"
     "</invoke>\n</minimax:tool_call>",
     "", "", "f({\"s\": \"\\\"q\\\" &amp;\"});"},
    {"kimi_k2", false, true, false,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
     "{\"i\": 1234567890123456789}<|tool_call_end|><|tool_call_begin|>g:1"
     "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     "", "", "f({\"i\": 1234567890123456789});g({});"},
    {"deepseek_v32", true, true, false,
     "</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n"
     "<｜DSML｜parameter name=\"s\" string=\"true\">3</｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"i\" string=\"false\">3</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "", "", "f({\"s\": \"3\", \"i\": 3});"},
    {"gemma4", false, true, false,
     "<|tool_call>call:f{s:<|\"|>a, \"b\"}<|\"|>,o:{k:[<|\"|>x<|\"|>,-1.5]},b:false}<tool_call|>",
     "", "", "f({\"s\": \"a, \\\"b\\\"}\", \"o\": {\"k\": [\"x\", -1.5]}, \"b\": false});"},
    {"gemma4", false, true, false,
     "<|tool_call>call:f{o:{\"k\":[\"a\\\"]}, b\\\\\"]},i:3}<tool_call|>", "", "",
     "f({\"o\": {\"k\": [\"a\\\"]}, b\\\\\"]}, \"i\": 3});"},
    {"lfm2", false, true, false,
     "<|tool_call_start|>[f(s='it\\'s', o={\"a\": (1, None,)}, i=\"7\"), g()]<|tool_call_end|>ok",
     "", "ok", "f({\"s\": \"it's\", \"o\": {\"a\": [1, null]}, \"i\": 7});g({});"},
    {"olmo3", false, true, false, "<function_calls>f(s=\"\\u00e9\")\ng()</function_calls>", "", "",
     "f({\"s\": \"é\"});g({});"},
    {"llama4", false, true, false, "[f(i=1), f(b=True)]", "", "",
     "f({\"i\": 1});f({\"b\": true});"},
    {"llama4", false, true, false, "[1] see(here) [f(i=1)]", "", "[1] see(here) [f(i=1)]", ""},
    {"llama4", false, true, false, "[nobody(i=1)]", "", "[nobody(i=1)]", ""},
    {"apertus", false, true, false,
     "<|tools_prefix|>[{\"f\": {\"i\": 1}}, {\"g\": {}}]<|tools_suffix|>", "", "",
     "f({\"i\": 1});g({});"},
    {"cohere", false, true, false,
     "<|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"i\": "
     "1}}\n"
     "]<|END_ACTION|><|START_RESPONSE|>Hi<|END_RESPONSE|>",
     "", "Hi", "f({\"i\": 1});"},
    {"harmony", true, true, false,
     " to=functions.f<|channel|>commentary json<|message|>{\"i\":1}<|call|>", "", "",
     "f({\"i\":1});"},
    {"harmony", true, true, false,
     "<|channel|>analysis<|channel|>commentary to=f<|message|>{\"i\":1}<|call|>", "", "",
     "f({\"i\":1});"},
};

static void scene_in_any_cut(const struct scene *scene)
{
    const struct output_style style = style_of(scene->family, scene->thoughts);
    const struct said whole =
        say(&style, scene->tools, scene->thinks, scene->said, strlen(scene->said) + 1);

    for (size_t step = 1; step <= strlen(scene->said); step++) {
        const struct said got = say(&style, scene->tools, scene->thinks, scene->said, step);

        if (strcmp(got.thought, scene->thought) != 0 || strcmp(got.text, scene->text) != 0 ||
            strcmp(got.calls, scene->calls) != 0)
            fail_msg("%s by %zu: thought '%s' text '%s' calls '%s'", scene->said, step, got.thought,
                     got.text, got.calls);
        assert_string_equal(got.order, whole.order);
    }
}

static void scenes_in_any_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
        scene_in_any_cut(&scenes[i]);
}

static void families_in_any_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(family_scenes) / sizeof(family_scenes[0]); i++)
        scene_in_any_cut(&family_scenes[i]);
}

/* A family that nobody has described before needs a text, and no more. */
static void a_new_family(void **state)
{
    static const char text[] = "name martian\n"
                               "sign \"((call\"\n"
                               "call \"((call \" NAME \":\" ~ ARGUMENTS \"))\"\n"
                               "argument KEY \"->\" TEXT \";\" ~\n";
    struct output_style style = {.family = NULL};
    struct said got;
    char why[100];
    (void)state;

    style.family = family_create(text, strlen(text), why, sizeof(why));
    assert_non_null(style.family);
    got = say(&style, true, false, "Yes: ((call f: i->3;s->a;b; ))", 4);
    assert_string_equal(got.calls, "f({\"i\": 3, \"s\": \"a;b\"});");
    assert_string_equal(got.text, "Yes:");
    family_destroy((struct family **)&style.family);
}

/* What is wrong with a description is said with its line. */
static void bad_descriptions(void **state)
{
    static const char *const cases[][2] = {
        {"name a b", "line 1: the name must be one word"},
        {"name a\ncall \"x", "line 2: a text has no closing quote"},
        {"name a\ncall \"x\" NAME", "line 2: it must have JSON, OBJECT, KEYED or ARGUMENTS"},
        {"name a\ncall NAME ARGUMENTS", "ARGUMENTS and the lines 'argument' must be used together"},
        {"name a\ncall OBJECT", "OBJECT needs a line 'members'"},
        {"name a\ncall ( JSON", "line 2: a group is not closed"},
        {"name a\ncall ( JSON )?", "line 2: a group must be ( \"text\" … )?"},
        {"name a\ncall )?", "line 2: a group must be ( \"text\" … )?"},
        {"name a\ncall WHAT", "line 2: a pattern has an unknown word"},
        {"name a\nargument KEY TEXT", "line 2: a text must follow TEXT, TAGS or STRING"},
        {"name a\nargument \"a\" KEY TAGS \"b\"",
         "line 2: TAGS must be used in the form \"text\" KEY \"text\" TAGS \"text\""},
        {"name a\nheader \"a\"", "line 2: it must have NAME after a text"},
        {"name a\nchannels \"a\" \"b\"", "'channels' and the lines 'header' must be used together"},
        {"name a\nwhat", "line 2: the keyword is unknown"},
        {"", "it has no 'name'"},
    };
    char why[100];
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_null(family_create(cases[i][0], strlen(cases[i][0]), why, sizeof(why)));
        assert_string_equal(why, cases[i][1]);
    }
}

/* No two families are called the same, and each is short. */
static void built_in_families(void **state)
{
    uint32_t n = 0;
    (void)state;

    for (const struct family *f = family_table(); f != NULL; f = f->next, n++)
        for (const struct family *g = f->next; g != NULL; g = g->next)
            assert_false(family_has_name(g, f->name, strlen(f->name)));
    assert_true(n >= 40);
    assert_ptr_equal(family_find("Qwen3-XML"), family_find("qwen3_coder"));
    assert_null(family_find("nobody"));
}

/* Nothing is held back that cannot be the beginning of a mark. */
static void pieces_have_an_order(void **state)
{
    static const char hermes[] = "<think>A</think>B<tool_call>{\"name\":\"f\"}</tool_call>"
                                 "<think>C</think>D<tool_call>{\"name\":\"f\"}</tool_call>"
                                 "<tool_call>{\"name\":\"g\"}</tool_call>E";
    static const char harmony[] = "<|channel|>commentary<|message|>A<|end|><|start|>assistant"
                                  "<|channel|>analysis<|message|>B<|end|><|start|>assistant"
                                  "<|channel|>final<|message|>C";
    struct output_style style = style_of(HERMES, true);
    (void)state;

    for (size_t step = 1; step <= sizeof(hermes); step++)
        assert_string_equal(say(&style, true, false, hermes, step).order,
                            "<thought>A<text>B<f><thought>C<text>D<f><g><text>E");
    assert_string_equal(say(&style, true, false, hermes, 7).text, "B\n\nD\n\nE");
    style = style_of(HARMONY, true);
    for (size_t step = 1; step <= sizeof(harmony); step++)
        assert_string_equal(say(&style, true, false, harmony, step).order,
                            "<text>A<thought>B<text>C");
    assert_string_equal(say(&style, true, false, harmony, 7).text, "A\n\nC");
}

static void text_comes_at_once(void **state)
{
    const struct output_style style = style_of(HERMES, true);
    struct output_parser s;
    (void)state;

    output_parser_init(&s, &style, NULL, true, false);
    output_parser_feed(&s, "One two", 7);
    assert_string_equal(s.text.data, "One two");
    output_parser_feed(&s, " <tool", 6);
    assert_string_equal(s.text.data, "One two");
    output_parser_feed(&s, "s>", 2);
    assert_string_equal(s.text.data, "One two <tools>");
    output_parser_release(&s);
}

static void ids_suit_the_template(void **state)
{
    const struct output_style openai = style_of(HERMES, false);
    const struct output_style mistral = style_of(MISTRAL, false);
    struct output_parser s;
    (void)state;

    output_parser_init(&s, &openai, NULL, true, false);
    output_parser_feed(&s, "<tool_call>{\"name\":\"f\"}</tool_call>", 35);
    assert_int_equal(s.n_calls, 1);
    assert_memory_equal(s.calls[0].id, "call_", 5);
    assert_int_equal(strlen(s.calls[0].id), 14);
    output_parser_release(&s);
    output_parser_init(&s, &mistral, NULL, true, false);
    output_parser_feed(&s, "[TOOL_CALLS][{\"name\":\"f\"}]", 26);
    output_parser_end(&s);
    assert_int_equal(s.n_calls, 1);
    assert_int_equal(strlen(s.calls[0].id), 9);
    output_parser_release(&s);
}

static void styles_are_read_off_templates(void **state)
{
    static const struct {
        const char *text;
        const char *family; /* NULL: none */
        bool thoughts;
    } cases[] = {
        {"plain {{ messages }}", NULL, false},
        {"... <tool_call> ... </think>", HERMES, true},
        {"<|python_tag|>", LLAMA3, false},
        {"[TOOL_CALLS]", MISTRAL, false},
        {"<|tool_call|> </think>", GRANITE, true},
        {"<｜tool▁calls▁begin｜>```json </think>", DEEPSEEK, true},
        {"<｜tool▁calls▁begin｜> </think>", "deepseek_v31", true},
        {"<|channel|>analysis", HARMONY, true},
    };
    struct output_style style;
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        style = output_style_find(cases[i].text);
        if (cases[i].family == NULL)
            assert_null(style.family);
        else
            assert_ptr_equal(style.family, family_find(cases[i].family));
        assert_int_equal(output_style_has_thoughts(&style), cases[i].thoughts);
    }
    style = output_style_find("</think>");
    assert_true(output_parser_prompt_thinks(&style, "a<think>\n", 9));
    assert_false(output_parser_prompt_thinks(&style, "a<think>\n\n</think>\n\n", 20));
    style = output_style_find("");
    assert_false(output_parser_prompt_thinks(&style, "a<think>", 8));
    style = output_style_find("[TOOL_CALLS]");
    assert_true(output_parser_is_mark(&style, "[TOOL_CALLS]", 12));
    assert_false(output_parser_is_mark(&style, "[INST]", 6));
}

/* Arguments grow with what is written. */
static void arguments_come_at_once(void **state)
{
    const struct output_style style = style_of(HERMES, false);
    static const char head[] = "<tool_call>{\"name\":\"f\",\"arguments\":{";
    struct output_parser s;
    struct buf object;
    (void)state;

    output_parser_init(&s, &style, NULL, true, false);
    output_parser_feed(&s, head, strlen(head));
    assert_int_equal(s.n_calls, 1);
    assert_string_equal(s.calls[0].arguments.data, "{");
    output_parser_feed(&s, "\"a\": \"x", 7);
    assert_string_equal(s.calls[0].arguments.data, "{\"a\": \"x");
    assert_true(output_parser_has_more(&s));
    output_parser_clear(&s);
    assert_false(output_parser_has_more(&s));
    assert_int_equal(s.n_sent, 0); /* it goes on */
    output_parser_feed(&s, "y", 1);
    assert_true(output_parser_has_more(&s));
    output_parser_end(&s);
    assert_false(output_parser_calls_are_whole(&s));
    buf_init(&object, 100);
    output_call_add_object(&s.calls[0], &object);
    assert_string_equal(object.data, "{\"a\": \"xy\"}");
    buf_release(&object);
    output_parser_release(&s);
}

/* More calls than there may be: the first are kept, and the rest is no reason to stop reading. */
static void calls_are_counted(void **state)
{
    const struct output_style style = style_of(HERMES, false);
    static const char call[] = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
    struct output_parser s;
    (void)state;

    output_parser_init(&s, &style, NULL, true, false);
    for (int i = 0; i < OUTPUT_MAX_CALLS + 3; i++)
        output_parser_feed(&s, call, strlen(call));
    output_parser_end(&s);
    assert_int_equal(output_parser_error(&s), 0);
    assert_int_equal(s.n_calls, OUTPUT_MAX_CALLS);
    assert_int_equal(s.text.len, 3 * strlen(call));
    output_parser_release(&s);
}

/* Parts of a JSON text as they were written. */
static void json_parts(void **state)
{
    static const char object[] = " { \"a\\u0062\" : 1.50 , \"x\":[1,\"]}\",{}] ,\"x\": \"\\\"\" } ";
    static const char list[] = "[ 1e3 ,{\"a\":[2]}, \"three\" ]";
    const char *p;
    size_t n;
    (void)state;

    assert_true(json_member_text(object, strlen(object), "ab", &p, &n));
    assert_int_equal(n, 4);
    assert_memory_equal(p, "1.50", 4);
    assert_true(json_member_text(object, strlen(object), "x", &p, &n)); /* the last one */
    assert_memory_equal(p, "\"\\\"\"", n);
    assert_false(json_member_text(object, strlen(object), "y", &p, &n));
    assert_true(json_element_text(list, strlen(list), 1, &p, &n));
    assert_int_equal(n, 9);
    assert_memory_equal(p, "{\"a\":[2]}", n);
    assert_true(json_element_text(list, strlen(list), 0, &p, &n));
    assert_memory_equal(p, "1e3", n);
    assert_false(json_element_text(list, strlen(list), 3, &p, &n));
}

/* A failed allocation is an error, not a shorter answer. */
static void lack_of_memory_shows(void **state)
{
    const struct output_style style = style_of(HERMES, true);
    static const char text[] = "<think>a</think>b<tool_call>{\"name\":\"f\"}</tool_call>";
    int64_t n = 0;
    (void)state;

    do {
        struct output_parser s;

        mem_fail_after(n++);
        output_parser_init(&s, &style, NULL, true, false);
        output_parser_feed(&s, text, strlen(text));
        output_parser_end(&s);
        if (!mem_has_failed())
            assert_int_equal(s.n_calls, 1);
        else if (s.n_calls == 0 && strstr(s.text.data != NULL ? s.text.data : "", "tool") == NULL)
            assert_true(output_parser_error(&s) < 0);
        for (uint32_t i = 0; i < s.n_pieces; i++) {
            const struct output_piece *p = &s.pieces[i];
            const struct buf *of = p->part == OUTPUT_THOUGHT ? &s.thought : &s.text;

            assert_true(p->part == OUTPUT_CALL || p->at + p->n <= of->len);
        }
        output_parser_release(&s);
    } while (mem_has_failed());
    mem_fail_after(-1);
    assert_true(n > 3);
}

/* A model may write blanks until it is stopped: each is looked at a few times, not all of them with
 * every token. (Quadratic, this takes an hour.) */
static void blanks_without_end(void **state)
{
    static const char *const all[] = {HERMES, LLAMA3, MISTRAL};
    const size_t n = 2000000;
    (void)state;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const struct output_style style = style_of(all[i], true);
        struct output_parser s;

        alarm(120);
        output_parser_init(&s, &style, NULL, true, false);
        for (size_t k = 0; k < n; k++)
            output_parser_feed(&s, " ", 1);
        output_parser_feed(&s, "x<", 2);
        output_parser_end(&s);
        alarm(0);
        assert_int_equal(s.text.len, n + 2);
        output_parser_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scenes_in_any_cut),
        cmocka_unit_test(families_in_any_cut),
        cmocka_unit_test(a_new_family),
        cmocka_unit_test(bad_descriptions),
        cmocka_unit_test(built_in_families),
        cmocka_unit_test(pieces_have_an_order),
        cmocka_unit_test(text_comes_at_once),
        cmocka_unit_test(arguments_come_at_once),
        cmocka_unit_test(calls_are_counted),
        cmocka_unit_test(ids_suit_the_template),
        cmocka_unit_test(styles_are_read_off_templates),
        cmocka_unit_test(json_parts),
        cmocka_unit_test(lack_of_memory_shows),
        cmocka_unit_test(blanks_without_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
