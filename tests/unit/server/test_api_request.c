/* tests/unit/server/test_api_request.c - bodies of all wire formats: with little memory, few
 * steps, and texts that a quadratic search would take for ever to look through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/api/chat/chat.h"
#include "server/api/constraint/constraint_cache.h"
#include "server/api/api_request.h"
#include "server/api/response/response_writer.h"
#include "server/api/text_endpoints.h"
#include "tests/unit/server/byte_tokenizer.inc"

static struct tokenizer tokenizer = {.has_bos = true};
static struct constraint_cache *constraint_cache;
static struct chat *chat;

/* A cache in which nothing is found. */
static void forget_constraints(void)
{
    const struct constraint_cache_options options = {
        .tokenizer = &tokenizer, .max_entries = 4, .max_bytes = 1u << 20};

    constraint_cache_destroy(&constraint_cache);
    assert_int_equal(constraint_cache_create(&constraint_cache, &options), 0);
}

static int set_up(void **state)
{
    char err[256];

    (void)state;
    forget_constraints();
    return chat_create(&chat, &(struct chat_options){.template = "chatml"}, &tokenizer, err,
                       sizeof(err));
}

static int tear_down(void **state)
{
    (void)state;
    constraint_cache_destroy(&constraint_cache);
    chat_destroy(&chat);
    return 0;
}

static void try_body(struct api_request *p, const struct wire_format *wire_format,
                     const char *body, size_t n, uint32_t context, struct budget *budget)
{
    const struct server_model model = {.id = "m", .max_context = context, .max_kv_tokens = context,
                                       .n_embd = 8, .tokenizer = &tokenizer, .chat = chat,
                                       .constraint_cache = constraint_cache};
    const struct buf b = {.data = (char *)(uintptr_t)body, .len = n, .max = SIZE_MAX};

    *p = (struct api_request){0};
    api_request_parse(p, &model, wire_format, &b, NULL, budget);
}

struct body {
    const struct wire_format *wire_format;
    const char *text;
};

static const struct body bodies[] = {
    {&wire_openai_chat,
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}],"
     "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"
     "\"object\",\"properties\":{\"a\":{\"allOf\":[{\"type\":\"string\"},{\"maxLength\":4}]}}}}}],"
     "\"tool_choice\":\"required\"}"},
    {&wire_anthropic_messages,
     "{\"max_tokens\":4,\"system\":[{\"type\":\"text\",\"text\":\"s\"}],\"messages\":[{\"role\":"
     "\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
     "\"thinking\":\"t\"},{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"tool_use\",\"id\":\"c\","
     "\"name\":\"f\",\"input\":{\"x\":1}}]},{\"role\":\"user\",\"content\":[{\"type\":"
     "\"tool_result\",\"tool_use_id\":\"c\",\"content\":\"r\"},{\"type\":\"text\",\"text\":\"u\"}]}"
     "],\"tools\":[{\"name\":\"f\",\"description\":\"d\",\"input_schema\":{\"type\":\"object\"}}],"
     "\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\"},\"stop_sequences\":[\"x\"],"
     "\"thinking\":{\"type\":\"disabled\"}}"},
    {&wire_openai_responses,
     "{\"instructions\":\"i\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
     "\"text\":\"q\"}]},{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\","
     "\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"4\"}]"
     ",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}],"
     "\"max_output_tokens\":4,\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\","
     "\"schema\":{\"type\":\"boolean\"}}},\"tool_choice\":\"none\"}"},
    {&wire_openai_completions,
     "{\"prompt\":[\"ab\",\"cd\"],\"response_format\":{\"type\":\"json_schema\","
     "\"json_schema\":{\"schema\":{\"oneOf\":[{\"type\":\"integer\","
     "\"enum\":[1,2]},{\"type\":\"string\","
     "\"pattern\":\"a+\"}]}}},\"dry_multiplier\":1,\"stop\":[\"x\"]}"},
    {&wire_llamacpp, "{\"prompt\":[\"ab\",5,\"cd\"],\"grammar\":\"root ::= [a-z]{2,30}\","
                    "\"logit_bias\":[[\"hello\",1]]}"},
    {&wire_openai_completions,
     "{\"prompt\":\"ab\",\"max_tokens\":9,\"grammar\":\"root ::= [a-z]+ \\\"!\\\"\","
     "\"resume\":{\"tokens\":[100,101],\"seed\":3,\"id\":\"a\"}}"},
    {&wire_openai_embeddings, "{\"input\":[\"ab\",\"cd\"]}"},
    {&wire_tokenize, "{\"content\":\"ab cd\",\"with_pieces\":true}"},
    {&wire_tokenize, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"},
    {&wire_detokenize, "{\"tokens\":[5,6,7]}"},
    {&wire_apply_template, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"},
    {&wire_count_tokens, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"},
    {&wire_ollama_generate,
     "{\"model\":\"m:latest\",\"system\":\"s\",\"prompt\":\"p\",\"context\":[5,6],\"format\":"
     "{\"type\":\"boolean\"},\"options\":{\"stop\":[\"x\"],\"num_predict\":4,"
     "\"dry_multiplier\":1}}"},
    {&wire_ollama_generate, "{\"prompt\":\"p\",\"raw\":true,\"format\":\"json\"}"},
    {&wire_ollama_generate, "{}"},
    {&wire_ollama_chat,
     "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":"
     "\"a long story, which does not fit\"},{\"role\":\"assistant\",\"thinking\":\"t\","
     "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]},"
     "{\"role\":\"tool\",\"tool_name\":\"f\",\"content\":\"4\"},{\"role\":\"user\",\"content\":"
     "\"hi\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
     "\"options\":{\"num_ctx\":160}}"},
    {&wire_ollama_chat, "{\"messages\":[]}"},
    {&wire_ollama_embed, "{\"input\":[\"ab\",\"cd\"],\"options\":{\"num_ctx\":2}}"},
    {&wire_ollama_embed, "{\"input\":[]}"},
    {&wire_ollama_embeddings, "{\"prompt\":\"ab\"}"},
    {&wire_ollama_embeddings, "{\"prompt\":\"\"}"},
};

/* Whatever allocation fails, cJSON's as well: a 500, or the same request as with enough memory. */
static void lack_of_memory_is_a_500(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        const struct body *b = &bodies[i];
        const size_t n = strlen(b->text);
        struct api_request whole, p;
        bool has_failed;
        int64_t k = 0;

        try_body(&whole, b->wire_format, b->text, n, 2048, NULL);
        if (whole.error.status != 0)
            fail_msg("%s: %s", b->text, whole.error.message);
        do {
            forget_constraints();
            mem_fail_after(k++);
            try_body(&p, b->wire_format, b->text, n, 2048, NULL);
            has_failed = mem_has_failed();
            mem_fail_after(-1);
            if (p.error.status != 0 && p.error.status != 500)
                fail_msg("%s: %lld: %d %s", b->text, (long long)k, p.error.status,
                         p.error.message);
            if (p.error.status == 0) {
                assert_int_equal(p.n_choices, whole.n_choices);
                if (p.n_choices > 0)
                    assert_int_equal(p.prompts[0].ids.n, whole.prompts[0].ids.n);
                if (p.echo.err == 0 && whole.echo.len > 0) {
                    assert_int_equal(p.echo.len, whole.echo.len);
                    if (strstr(whole.echo.data, "created_at") == NULL) /* that is now */
                        assert_memory_equal(p.echo.data, whole.echo.data, p.echo.len);
                }
                assert_int_equal(p.params.stop.n, whole.params.stop.n);
                assert_true((p.constraint != NULL) == (whole.constraint != NULL));
            }
            api_request_release(&p);
        } while (has_failed);
        printf("note: body %zu: %lld failing allocations\n", i, (long long)k - 1);
        api_request_release(&whole);
    }
}

static void few_steps_are_a_400(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        const struct body *b = &bodies[i];

        for (uint64_t most = 0; most < 100000; most += 1 + most / 8) {
            struct budget budget = {.steps_left = most};
            struct api_request p;

            forget_constraints();
            try_body(&p, b->wire_format, b->text, strlen(b->text), 2048, &budget);
            if (budget.err < 0 && (p.error.status != 400 || p.error.param[0] == '\0' ||
                                   strstr(p.error.message, "too many steps") == NULL))
                fail_msg("%s: %d '%s' %s", b->text, p.error.status, p.error.param,
                         p.error.message);
            if (budget.err == 0)
                assert_int_equal(p.error.status, 0);
            api_request_release(&p);
        }
    }
}

/* 4 MB of one character, to be found in a prompt of as much: a quadratic search takes hours. */
static void continuing_is_linear(void **state)
{
    static const char head[] = "{\"continue_final_message\":true,\"add_generation_prompt\":false,"
                               "\"messages\":[{\"role\":\"assistant\",\"content\":\"";
    const size_t n = 4u << 20;
    char *body = malloc(sizeof(head) + n + 8);
    struct api_request p;
    size_t len;
    (void)state;

    memcpy(body, head, sizeof(head) - 1);
    memset(body + sizeof(head) - 1, 'a', n);
    body[sizeof(head) - 1 + n / 2 + 1] = 'b';
    memcpy(body + sizeof(head) - 1 + n, "\"}]}", 5);
    len = sizeof(head) - 1 + n + 4;
    alarm(120);
    try_body(&p, &wire_openai_chat, body, len, 16u << 20, NULL);
    alarm(0);
    assert_int_equal(p.error.status, 0);
    assert_int_equal(p.prompts[0].ids.ids[p.prompts[0].ids.n - 1], BYTE_0 + 'a');
    api_request_release(&p);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lack_of_memory_is_a_500),
        cmocka_unit_test(few_steps_are_a_400),
        cmocka_unit_test(continuing_is_linear),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
