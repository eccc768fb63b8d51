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

/* Everything that came out, as a sender that clears each time would see it. */
static void take(struct output_parser *s, struct said *out)
{
    if (s->thought.len > 0)
        strncat(out->thought, s->thought.data, s->thought.len);
    if (s->text.len > 0)
        strncat(out->text, s->text.data, s->text.len);
    buf_clear(&s->thought);
    buf_clear(&s->text);
    for (; s->n_sent < s->n_calls; s->n_sent++) {
        const struct output_call *c = &s->calls[s->n_sent];

        snprintf(out->calls + strlen(out->calls), sizeof(out->calls) - strlen(out->calls),
                 "%s(%s);", c->name, c->arguments);
    }
}

static struct said say(const struct output_style *style, bool tools, bool thinks, const char *text,
                       size_t step)
{
    const size_t n = strlen(text);
    struct said out = {"", "", ""};
    struct output_parser s;

    output_parser_init(&s, style, tools, thinks);
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
    {OUTPUT_HERMES, false, true, false, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":", "",
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":", ""},
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
    {OUTPUT_MISTRAL, false, true, false,
     "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"a\":[]}},{\"name\":\"g\",\"arguments\":{}}]",
     "", "", "f({\"a\":[]});g({});"},
    {OUTPUT_GRANITE, true, true, false, "<|tool_call|>[{\"name\":\"f\",\"arguments\":{}}]", "", "",
     "f({});"},
    {OUTPUT_GRANITE, true, true, false, "<|tool_call|>[]", "", "<|tool_call|>[]", ""},
    {OUTPUT_DEEPSEEK, true, true, true,
     "so</think>\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n"
     "```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n"
     "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "so", "", "f({\"a\": 1});g({});"},
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
        const struct output_style style = {scene->syntax, scene->thoughts};

        for (size_t step = 1; step <= strlen(scene->said); step++) {
            const struct said got = say(&style, scene->tools, scene->thinks, scene->said, step);

            if (strcmp(got.thought, scene->thought) != 0 || strcmp(got.text, scene->text) != 0 ||
                strcmp(got.calls, scene->calls) != 0)
                fail_msg("scene %zu by %zu: thought '%s' text '%s' calls '%s'", i, step,
                         got.thought, got.text, got.calls);
        }
    }
}

/* Nothing is held back that cannot be the beginning of a mark. */
static void text_comes_at_once(void **state)
{
    const struct output_style style = {OUTPUT_HERMES, true};
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
    const struct output_style openai = {OUTPUT_HERMES, false}, mistral = {OUTPUT_MISTRAL, false};
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
    const struct output_style style = {OUTPUT_HERMES, true};
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
        const struct output_style style = {all[i], true};
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
        cmocka_unit_test(ids_suit_the_template),
        cmocka_unit_test(styles_are_read_off_templates),
        cmocka_unit_test(json_parts),
        cmocka_unit_test(lack_of_memory_shows),
        cmocka_unit_test(blanks_without_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
