/* tests/unit/server/test_strict_calls.c - which texts a chat with strict tools may have, in each
 * syntax of calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/grammar/constraint.h"
#include "server/api/chat/output_parser.h"
#include "server/api/constraint/constraint_cache.h"
#include "server/api/params/params.h"
#include "server/api/constraint/strict_calls.h"
#include "tests/unit/server/byte_tokenizer.inc"

#define QWEN3_CODER "<function=<parameter=</parameter>"
#define CITY "{\"city\":\"x\"}"

enum answer { WRONG = 0, PREFIX, MATCH };

static struct tokenizer *tokenizer;
static struct constraint_cache *cache;
static struct constraint_scratch *scratch;
static struct constraint_state *state_of_text;

static void add_tool(struct params *p, const char *name, const cJSON *parameters,
                     const cJSON *strict)
{
    const struct tool tool = {.name = name, .parameters = parameters, .strict = strict};

    assert_int_equal(conversation_add_tool(&p->chat, &tool), 0);
}

/* "weather" has a schema and is strict, "free" takes any object. */
static struct constraint *constraint_for(const char *template, bool parallel)
{
    const struct output_style style = output_style_find(template);
    cJSON *schema = cJSON_Parse("{\"type\":\"object\",\"properties\":{\"city\":{\"const\":\"x\"}},"
                                "\"required\":[\"city\"],\"additionalProperties\":false}");
    cJSON *yes = cJSON_CreateTrue();
    struct params p = {.form = PARAMS_CHAT, .parallel_tool_calls = parallel};
    struct constraint *c = NULL;
    struct api_error e = {0};

    add_tool(&p, "weather", schema, yes);
    add_tool(&p, "free", NULL, NULL);
    assert_int_equal(strict_calls_constrain(&p, &style, &e), 0);
    if (p.constraint.kind != CONSTRAINT_NONE &&
        constraint_cache_get(cache, &p.constraint, NULL, &c, &e) < 0)
        fail_msg("%s", e.message);
    cJSON_Delete(p.forced_schema);
    conversation_release(&p.chat);
    cJSON_Delete(schema);
    cJSON_Delete(yes);
    return c;
}

static enum answer answer_to(const struct constraint *c, const char *text)
{
    constraint_state_init(state_of_text, c);
    if (constraint_advance(state_of_text, scratch, text, strlen(text)) == CONSTRAINT_BROKEN)
        return WRONG;
    return constraint_may_end(state_of_text, scratch) ? MATCH : PREFIX;
}

static void calls_are_as_their_schemas_say(void **state)
{
    static const struct {
        const char *template, *text;
        enum answer answer;
    } examples[] = {
        {"<tool_call>", "Hello, {\"name\": 1}", MATCH},
        {"<tool_call>", "I look: <tool_call>\n{\"name\": \"weather\", \"arguments\": " CITY
                        "}\n</tool_call>", MATCH},
        {"<tool_call>", "<tool_call>{\"name\":\"weather\",\"arguments\":" CITY "}</tool_call>\n"
                        "<tool_call>{\"name\":\"free\",\"arguments\":{\"a\":[1]}}</tool_call>",
         MATCH},
        {"<tool_call>", "<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"y\"", WRONG},
        {"<tool_call>", "<tool_call>{\"name\":\"storm\"", WRONG},
        {"<tool_call>", "<tool_call>{\"name\":\"free\",\"arguments\":1", WRONG},
        {"<tool_call>", "<tool_call>well", WRONG},
        {"<tool_call>", "<tool_call>{\"name\":\"weather\",\"arguments\":" CITY "}", PREFIX},
        {"[TOOL_CALLS]", "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": " CITY "}, "
                         "{\"name\": \"free\", \"arguments\": {}}]", MATCH},
        {"[TOOL_CALLS]", "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {}", WRONG},
        {"<|tool_call|>", "<|tool_call|>[ {\"name\":\"free\",\"arguments\":{}} ]", MATCH},
        {"<|tool_call|>", "<|tool_call|>[]", WRONG},
        {"<|python_tag|>", " {\"name\": \"weather\", \"parameters\": " CITY "}", MATCH},
        {"<|python_tag|>", "<|python_tag|>{\"name\": \"free\", \"parameters\": {}}", MATCH},
        {"<|python_tag|>", "{\"name\": \"storm", WRONG},
        {"<|python_tag|>", "{\"names\": [\"storm\"]}", MATCH},
        {"<|python_tag|>", "{\"a\": \"name\"}", MATCH},
        {"<|python_tag|>", "No: {\"name\": \"storm\"}", MATCH},
        {"<|channel|>", "<|channel|>analysis<|message|>Hm.<|end|>", MATCH},
        {"<|channel|>",
         "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" CITY, MATCH},
        {"<|channel|>", " to=functions.free<|channel|>commentary json<|message|>{\"a\":1}", MATCH},
        {"<|channel|>", "<|channel|>commentary to=functions.storm", WRONG},
        {"tool▁calls▁begin", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" CITY
                             "<｜tool▁call▁end｜><｜tool▁calls▁end｜>", MATCH},
        {"tool▁calls▁begin", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{}", WRONG},
        {"[TOOL_CALLS][ARGS]", "So. [TOOL_CALLS]weather[ARGS]" CITY
                               "[TOOL_CALLS]free[ARGS]{}", MATCH},
        {QWEN3_CODER, "<tool_call>\n<function=weather>\n<parameter=city>\nx\n</parameter>\n"
                      "</function>\n</tool_call>", MATCH},
        {QWEN3_CODER, "<function=weather>\n<parameter=city>\nx\n</parameter>\n</function>\n"
                      "</tool_call>", MATCH},
        {QWEN3_CODER, "<tool_call>\n<function=weather>\n<parameter=city>\ny", WRONG},
        {QWEN3_CODER, "<tool_call>\n<function=weather>\n</function>", WRONG},
        {QWEN3_CODER, "<tool_call>\n<function=free>\n<parameter=a>\n[1]\n</parameter>\n"
                      "<parameter=b>\nx</parameter>\n</function>\n</tool_call>", WRONG},
        {"<|tool_call>", "<|tool_call>call:weather{city:<|\"|>x<|\"|>}<tool_call|>", MATCH},
        {"<|tool_call>", "<|tool_call>call:weather{city:<|\"|>y", WRONG},
        {"<|tool_call_start|>", "<|tool_call_start|>[weather(city=\"x\"), free(a=True, b=[None])]"
                                "<|tool_call_end|>", MATCH},
        {"<|tool_call_start|>", "<|tool_call_start|>[weather(city='", WRONG},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        struct constraint *c = constraint_for(examples[i].template, true);

        assert_non_null(c);
        if (answer_to(c, examples[i].text) != examples[i].answer)
            fail_msg("%s: %s", examples[i].template, examples[i].text);
        constraint_unref(&c);
    }
}

static void one_call_where_one_is_wanted(void **state)
{
    static const char one[] = "<tool_call>{\"name\":\"free\",\"arguments\":{}}</tool_call>";
    struct constraint *c = constraint_for("<tool_call>", false);
    char two[300];
    (void)state;

    snprintf(two, sizeof(two), "%s%s", one, one);
    assert_int_equal(answer_to(c, one), MATCH);
    assert_int_equal(answer_to(c, two), WRONG);
    constraint_unref(&c);
}

static void unknown_families_are_not_held(void **state)
{
    (void)state;

    assert_null(constraint_for("{{ messages }}", true));
}

static int set_up(void **state)
{
    struct constraint_cache_options options = {.max_entries = 8, .max_bytes = SIZE_MAX};
    char err[100];
    (void)state;

    state_of_text = malloc(constraint_state_bytes());
    if (state_of_text == NULL || tokenizer_create(&tokenizer, NULL, err, sizeof(err)) < 0)
        return -1;
    options.tokenizer = tokenizer;
    return constraint_cache_create(&cache, &options) + constraint_scratch_create(&scratch);
}

static int tear_down(void **state)
{
    (void)state;
    constraint_cache_destroy(&cache);
    constraint_scratch_destroy(&scratch);
    tokenizer_destroy(&tokenizer);
    free(state_of_text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_as_their_schemas_say),
        cmocka_unit_test(one_call_where_one_is_wanted),
        cmocka_unit_test(unknown_families_are_not_held),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
