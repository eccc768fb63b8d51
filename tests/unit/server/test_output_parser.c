/* tests/unit/server/test_output_parser.c - thoughts, text and tool calls taken apart, however the
 * text is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "server/api/chat/output_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct said {
    char thought[400], text[400], calls[600];
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

/* Everything that came out, as a stream would send it: "f({…});" is a whole call, "f({…" a cut
 * one. */
static void take(struct output_parser *s, struct said *out)
{
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

static void start(struct output_parser *s, const struct output_style *style, bool tools,
                  bool thinks)
{
    if (style->syntax == OUTPUT_FORCED)
        output_parser_init_forced(s, NULL, style, thinks);
    else if (style->syntax == OUTPUT_FORCED_NAMED)
        output_parser_init_forced(s, "f", style, thinks);
    else
        output_parser_init(s, style, tools, thinks);
}

static struct said say(const struct output_style *style, bool tools, bool thinks, const char *text,
                       size_t step)
{
    const size_t n = strlen(text);
    struct said out = {"", "", ""};
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

struct scene {
    enum output_syntax syntax;
    bool thoughts, tools, thinks;
    const char *said, *thought, *text, *calls;
};

static const struct scene scenes[] = {
    {OUTPUT_HERMES, false, false, false, "Hello, <world>! ", "", "Hello, <world>! ", ""},
    {OUTPUT_HERMES, false, true, false, "  two blanks  \n", "", "  two blanks  \n", ""},
    {OUTPUT_HERMES, true, false, false, "<think>\nI see.\n</think>\n\nYes.", "I see.", "Yes.", ""},
    {OUTPUT_HERMES, true, false, true, "I see.\n</think>\n\nYes.\n", "I see.", "Yes.\n", ""},
    {OUTPUT_HERMES, true, false, true, "cut before the en", "cut before the en", "", ""},
    {OUTPUT_HERMES, true, false, false, "No <think> later </think>", "",
     "No <think> later </think>", ""},
    {OUTPUT_HERMES, true, false, false, "a < b <t", "", "a < b <t", ""},
    {OUTPUT_HERMES, false, true, false,
     "Let me look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1.0, \"b\": \"}</x>\"}}\n"
     "</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
     "", "Let me look.", "f({\"a\": 1.0, \"b\": \"}</x>\"});g({});"},
    {OUTPUT_HERMES, false, true, false,
     "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>", "", "",
     "f({\"a\":1});"},
    {OUTPUT_HERMES, false, true, false, "<tool_call>{\"name\":\"f\"}</tool_call> done", "", "done",
     "f({});"},
    {OUTPUT_HERMES, false, true, false, "<tool_call>{\"name\":\"f\",</tool_call> x", "",
     "<tool_call>{\"name\":\"f\",</tool_call> x", ""},
    {OUTPUT_HERMES, false, true, false, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":", "", "",
     "f({\"a\":~;"},
    {OUTPUT_HERMES, false, true, false, "<tool_call>{\"name\":\"f\"", "", "", "f(~;"},
    {OUTPUT_HERMES, false, true, false, "<tool_call>{\"na", "", "<tool_call>{\"na", ""},
    {OUTPUT_HERMES, false, true, false,
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\": oops}}</tool_call> so", "", "so",
     "f({\"a\": oops}}~;"},
    {OUTPUT_HERMES, false, true, false,
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"</tool_call>\"}}</tool_call>", "", "",
     "f({\"a\":\"</tool_call>\"});"},
    {OUTPUT_HERMES, false, true, false,
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"x\ny\tz\"}}</tool_call>", "", "",
     "f({\"a\":\"x\\ny\\tz\"});"},
    {OUTPUT_HERMES, false, true, false,
     "<tool_call>{\"name\":\"f\",\"arguments\":{}}}\n</tool_call>so", "", "so", "f({});"},
    {OUTPUT_HERMES, false, true, false, "<tool_call>{\"name\":\"f\",\"arguments\":{}}} and", "",
     "} and", "f({});"},
    {OUTPUT_HERMES, false, true, false,
     "<tool_call>{\"id\":7,\"name\":\"f\",\"arguments\":{},\"x\":[{\"name\":1}]}</tool_call>", "",
     "", "f({});"},
    {OUTPUT_HERMES, false, true, false,
     "<tool_call>{\"arguments\":{\"name\":\"g\"},\"n\\u0061me\":\"f\"}</tool_call>", "", "",
     "f({\"name\":\"g\"});"},
    {OUTPUT_HERMES, false, true, false,
     "<tool_call>{\"name\":\"\\\"f\\\"\",\"arguments\":{\"a\":1}}</tool_call>", "", "",
     "\"f\"({\"a\":1});"},
    {OUTPUT_HERMES, false, true, false, "<tool_call></tool_call>", "", "<tool_call></tool_call>",
     ""},
    {OUTPUT_HERMES, false, true, false, "<tool_call>what <tool_call>{\"name\":\"f\"}</tool_call>",
     "", "<tool_call>what", "f({});"},
    {OUTPUT_HERMES, false, true, false, "<tool_call>{\"name\":7}</tool_call>", "",
     "<tool_call>{\"name\":7}</tool_call>", ""},
    {OUTPUT_HERMES, false, false, false, "<tool_call>{\"name\":\"f\"}</tool_call>", "",
     "<tool_call>{\"name\":\"f\"}</tool_call>", ""},
    {OUTPUT_HERMES, true, true, true,
     "hm </think><tool_call>{\"name\":\"f\",\"arguments\":{\"n\":[1,{\"x\":null}]}}</tool_call>",
     "hm", "", "f({\"n\":[1,{\"x\":null}]});"},
    {OUTPUT_LLAMA3, false, true, false, "{\"name\": \"f\", \"parameters\": {\"q\": \"é\"}}", "", "",
     "f({\"q\": \"é\"});"},
    {OUTPUT_LLAMA3, false, true, false,
     "<|python_tag|>{\"name\":\"f\",\"parameters\":{}}; {\"name\":\"g\",\"parameters\":{}}", "", "",
     "f({});g({});"},
    {OUTPUT_LLAMA3, false, true, false, "{\"answer\": 42} is it", "", "{\"answer\": 42} is it", ""},
    {OUTPUT_LLAMA3, false, true, false, "A set: {1, 2}", "", "A set: {1, 2}", ""},
    {OUTPUT_LLAMA3, false, true, false, "{\"name\": \"Ada\", \"age\": 36}", "", "", "Ada({});"},
    {OUTPUT_LLAMA3, false, true, false, "{\"name\": \"Ada\", \"a", "", "{\"name\": \"Ada\", \"a",
     ""},
    {OUTPUT_LLAMA3, false, true, false, "{\"name\":\"f\",\"parameters\":{\"a\":\"};\"}} bye", "",
     "bye", "f({\"a\":\"};\"});"},
    {OUTPUT_MISTRAL, false, true, false,
     "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"a\":[]}},{\"name\":\"g\",\"arguments\":{}}]",
     "", "", "f({\"a\":[]});g({});"},
    {OUTPUT_MISTRAL, false, true, false,
     "So. [TOOL_CALLS]get_x[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]abcdefghi[ARGS]{\"b\"", "", "So.",
     "get_x({\"a\": 1});g({\"b\"~;"},
    {OUTPUT_MISTRAL, false, true, false, "[TOOL_CALLS]get_x", "", "[TOOL_CALLS]get_x", ""},
    {OUTPUT_MISTRAL, false, true, false, "[TOOL_CALLS]f[ARGS]", "", "", "f(~;"},
    {OUTPUT_MISTRAL, false, true, false, "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{}},{\"na", "",
     "", "f({});"},
    {OUTPUT_GRANITE, true, true, false, "<|tool_call|>[{\"name\":\"f\",\"arguments\":{}}]", "", "",
     "f({});"},
    {OUTPUT_GRANITE, true, true, false, "<|tool_call|>[]", "", "<|tool_call|>[]", ""},
    {OUTPUT_DEEPSEEK, true, true, true,
     "so</think>\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n"
     "```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n"
     "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "so", "", "f({\"a\": 1});g({});"},
    {OUTPUT_DEEPSEEK, true, true, true,
     "so</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": "
     "\"```\"}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{\"b\":<｜tool▁calls▁end｜>.",
     "so", ".", "f({\"a\": \"```\"});g({\"b\":~;"},
    {OUTPUT_DEEPSEEK, false, true, false,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```py", "",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```py", ""},
    {OUTPUT_HARMONY, true, true, false,
     "<|channel|>commentary to=functions.f<|message|>{\"a\":1}<|call|><|start|>assistant<|channel|>"
     "final<|message|>Hi",
     "", "Hi", "f({\"a\":1});"},
    {OUTPUT_HARMONY, true, true, false,
     "<|channel|>commentary to=functions.f<|message|>{\"a\":1<|end|><|start|>assistant<|channel|>"
     "final<|message|>Hi",
     "", "Hi", "f({\"a\":1~;"},
    {OUTPUT_HARMONY, true, true, false,
     "<|channel|>commentary to=functions.f<|message|>no<|end|><|channel|>final<|message|>Hi", "",
     "noHi", ""},
    {OUTPUT_FORCED, false, true, false,
     "[{\"name\": \"f\", \"arguments\": {\"a\": [1]}}, {\"name\": \"g\", \"arguments\": {\"b\": "
     "\"x",
     "", "", "f({\"a\": [1]});g({\"b\": \"x~;"},
    {OUTPUT_FORCED, false, true, false, "[{\"name\":\"f\",\"argu", "", "", "f(~;"},
    {OUTPUT_FORCED, false, true, false, "[{\"na", "", "", ""},
    {OUTPUT_FORCED, true, true, true, "Hm.\n</think>\n\n[{\"name\":\"f\",\"arguments\":{}}]", "Hm.",
     "", "f({});"},
    {OUTPUT_FORCED, true, true, false, "<think>Hm.</think>[{\"name\":\"f\",\"arguments\":{}}]",
     "Hm.", "", "f({});"},
    {OUTPUT_FORCED, true, true, false, "[{\"name\":\"f\",\"arguments\":{}}]", "", "", "f({});"},
    {OUTPUT_FORCED, true, true, false, "<think>Hm", "Hm", "", ""},
    {OUTPUT_FORCED_NAMED, true, true, true, "Hm.</think>{\"a\":1}", "Hm.", "", "f({\"a\":1});"},
    {OUTPUT_FORCED_NAMED, true, true, false, "{\"a\":1", "", "", "f({\"a\":1~;"},
    {OUTPUT_FORCED, false, true, false, "[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"g", "", "",
     "f({});"},
    {OUTPUT_FORCED_NAMED, false, true, false, "{\"a\": 1, \"b\": [", "", "",
     "f({\"a\": 1, \"b\": [~;"},
    {OUTPUT_FORCED_NAMED, false, true, false, " {\"a\": 1}\n", "", "", "f({\"a\": 1});"},
    {OUTPUT_FORCED_NAMED, false, true, false, " ", "", "", "f(~;"},
    {OUTPUT_HARMONY, true, true, false,
     "<|channel|>analysis<|message|>Let me think.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{\"a\":1}",
     "Let me think.", "", "f({\"a\":1});"},
    {OUTPUT_HARMONY, true, false, false,
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|> Hi. ",
     "Hm.", " Hi. ", ""},
    {OUTPUT_HARMONY, true, true, false, "no channel at all", "", "no channel at all", ""},
};

static void scenes_in_any_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        const struct scene *scene = &scenes[i];
        const struct output_style style = {scene->syntax, scene->thoughts, false};

        for (size_t step = 1; step <= strlen(scene->said); step++) {
            const struct said got = say(&style, scene->tools, scene->thinks, scene->said, step);

            if (strcmp(got.thought, scene->thought) != 0 || strcmp(got.text, scene->text) != 0 ||
                strcmp(got.calls, scene->calls) != 0)
                fail_msg("%s by %zu: thought '%s' text '%s' calls '%s'", scene->said, step,
                         got.thought, got.text, got.calls);
        }
    }
}

/* Nothing is held back that cannot be the beginning of a mark. */
static void text_comes_at_once(void **state)
{
    const struct output_style style = {OUTPUT_HERMES, true, false};
    struct output_parser s;
    (void)state;

    output_parser_init(&s, &style, true, false);
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
    const struct output_style openai = {OUTPUT_HERMES, false, false};
    const struct output_style mistral = {OUTPUT_MISTRAL, false, false};
    struct output_parser s;
    (void)state;

    output_parser_init(&s, &openai, true, false);
    output_parser_feed(&s, "<tool_call>{\"name\":\"f\"}</tool_call>", 35);
    assert_int_equal(s.n_calls, 1);
    assert_memory_equal(s.calls[0].id, "call_", 5);
    assert_int_equal(strlen(s.calls[0].id), 14);
    output_parser_release(&s);
    output_parser_init(&s, &mistral, true, false);
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
        enum output_syntax syntax;
        bool thoughts;
    } cases[] = {
        {"plain {{ messages }}", OUTPUT_HERMES, false},
        {"... <tool_call> ... </think>", OUTPUT_HERMES, true},
        {"<|python_tag|>", OUTPUT_LLAMA3, false},
        {"[TOOL_CALLS]", OUTPUT_MISTRAL, false},
        {"<|tool_call|> </think>", OUTPUT_GRANITE, true},
        {"<｜tool▁calls▁begin｜> </think>", OUTPUT_DEEPSEEK, true},
        {"<|channel|>analysis", OUTPUT_HARMONY, true},
    };
    struct output_style style;
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        style = output_style_find(cases[i].text);
        assert_int_equal(style.syntax, cases[i].syntax);
        assert_int_equal(style.has_thoughts, cases[i].thoughts);
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
    const struct output_style style = {OUTPUT_HERMES, false, false};
    static const char head[] = "<tool_call>{\"name\":\"f\",\"arguments\":{";
    struct output_parser s;
    struct buf object;
    (void)state;

    output_parser_init(&s, &style, true, false);
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
    const struct output_style style = {OUTPUT_HERMES, false, false};
    static const char call[] = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
    struct output_parser s;
    (void)state;

    output_parser_init(&s, &style, true, false);
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
    const struct output_style style = {OUTPUT_HERMES, true, false};
    static const char text[] = "<think>a</think>b<tool_call>{\"name\":\"f\"}</tool_call>";
    int64_t n = 0;
    (void)state;

    do {
        struct output_parser s;

        mem_fail_after(n++);
        output_parser_init(&s, &style, true, false);
        output_parser_feed(&s, text, strlen(text));
        output_parser_end(&s);
        if (!mem_has_failed())
            assert_int_equal(s.n_calls, 1);
        else if (s.n_calls == 0 && strstr(s.text.data != NULL ? s.text.data : "", "tool") == NULL)
            assert_true(output_parser_error(&s) < 0);
        output_parser_release(&s);
    } while (mem_has_failed());
    mem_fail_after(-1);
    assert_true(n > 3);
}

/* A model may write blanks until it is stopped: each is looked at a few times, not all of them with
 * every token. (Quadratic, this takes an hour.) */
static void blanks_without_end(void **state)
{
    static const enum output_syntax all[] = {OUTPUT_HERMES, OUTPUT_LLAMA3, OUTPUT_MISTRAL};
    const size_t n = 2000000;
    (void)state;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const struct output_style style = {all[i], true, false};
        struct output_parser s;

        alarm(120);
        output_parser_init(&s, &style, true, false);
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
