/* tests/unit/server/test_api.c - bodies to requests, and events to choices, with a byte
 * tokenizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/api/api_request.h"
#include "server/api/response/choice.h"
#include "server/api/response/response_writer.h"
#include "tests/unit/server/byte_tokenizer.inc"

static struct tokenizer tokenizer = {.has_bos = true};

static struct server_model the_model(void)
{
    return (struct server_model){
        .id = "m", .max_context = 64, .max_kv_tokens = 60, .tokenizer = &tokenizer};
}

static struct api_headers headers_with(const char *priority, const char *tenant)
{
    return (struct api_headers){
        .priority = priority, .tenant = tenant, .salt_seed = 5};
}

static void parse_for(struct api_request *p, const char *body, const char *tenant)
{
    const struct server_model model = the_model();
    const struct buf b = {.data = (char *)body, .len = strlen(body), .max = SIZE_MAX};
    const struct api_headers headers = headers_with(NULL, tenant);

    *p = (struct api_request){0};
    api_request_parse(p, &model, &wire_openai_completions, &b, &headers, NULL);
}

static void parse_text(struct api_request *p, const char *body, const char *priority)
{
    const struct server_model model = the_model();
    const struct buf b = {.data = (char *)body, .len = strlen(body), .max = SIZE_MAX};
    const struct api_headers headers = headers_with(priority, NULL);

    *p = (struct api_request){0};
    api_request_parse(p, &model, &wire_openai_completions, &b, &headers, NULL);
}

/* ---- requests ---- */

static void defaults_are_openais(void **state)
{
    struct api_request p;
    (void)state;

    parse_text(&p, "{\"prompt\":\"hello world\"}", NULL);
    assert_int_equal(p.error.status, 0);
    assert_int_equal(p.n_choices, 1);
    const struct request *r = p.requests[0];
    assert_int_equal(r->n_prompt, 3);
    assert_int_equal(r->ids[0], BYTE_BOS);
    assert_int_equal(r->ids[1], BYTE_WORDS);
    assert_int_equal(r->ids[2], BYTE_WORDS + 1);
    assert_int_equal(r->max_tokens, 16);
    assert_int_equal(r->priority, PRIORITY_NORMAL);
    assert_true(r->sampling.temperature == 1 && r->sampling.top_p == 1);
    assert_true(r->sampling.repetition_penalty == 1 && r->sampling.min_p == 0);
    assert_int_equal(r->sampling.n_top, -1);
    assert_null(r->counts.list);
    assert_false(r->score_prompt || r->ignore_eos);
    api_request_release(&p);
}

static void every_field_arrives(void **state)
{
    struct api_request p;
    (void)state;

    parse_text(
        &p,
        "{\"model\":\"m\",\"prompt\":[[4,5],[6]],\"n\":2,\"max_tokens\":9,\"min_tokens\":3,"
        "\"temperature\":0.5,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.25,\"seed\":77,"
        "\"repetition_penalty\":1.5,\"frequency_penalty\":-1,\"presence_penalty\":2,"
        "\"logit_bias\":{\"3\":-100,\"9\":5,\"3\":7},\"stop\":[\"x\",\"yy\"],"
        "\"stop_token_ids\":[8,9],\"logprobs\":4,\"echo\":true,\"ignore_eos\":true,"
        "\"return_token_ids\":true,\"stream\":true,\"stream_options\":{\"include_usage\":true},"
        "\"priority\":\"critical\",\"deadline_ms\":5000,\"max_queue_ms\":700,"
        "\"cache_salt\":\"s\",\"timings\":true,\"user\":\"u\",\"what\":1,\"ever\":{}}",
        "low");
    assert_int_equal(p.error.status, 0);
    assert_int_equal(p.n_choices, 4);
    assert_int_equal(p.params.n_unknown, 2);
    assert_int_equal(p.params.deadline_ms, 5000);
    assert_int_equal(p.params.max_queue_ms, 700);
    assert_true(p.params.timings);
    assert_string_equal(p.params.cache_salt, "s");
    assert_true(p.params.stream && p.params.include_usage && p.params.echo);
    assert_true(p.params.return_token_ids);
    assert_int_equal(p.params.stop.n, 2);
    assert_string_equal(p.params.stop.text[1], "yy");
    for (uint32_t i = 0; i < 4; i++) {
        const struct request *r = p.requests[i];

        assert_int_equal(r->n_prompt, i < 2 ? 2 : 1);
        assert_int_equal(r->ids[0], i < 2 ? 4 : 6);
        assert_int_equal(r->max_tokens, 9);
        assert_int_equal(r->min_tokens, 3);
        assert_true(r->sampling.temperature == 0.5f && r->sampling.top_p == 0.9f);
        assert_true(r->sampling.min_p == 0.25f && r->sampling.top_k == 40);
        assert_true(r->sampling.repetition_penalty == 1.5f);
        assert_true(r->sampling.frequency_penalty == -1 && r->sampling.presence_penalty == 2);
        assert_int_equal(r->sampling.seed, 77 + i % 2);
        assert_int_equal(r->sampling.n_bias, 2);
        assert_int_equal(r->sampling.bias[0].id, 3);
        assert_true(r->sampling.bias[0].bias == 7 && r->sampling.bias[1].bias == 5);
        assert_int_equal(r->n_stop_ids, 2);
        assert_int_equal(r->stop_ids[1], 9);
        assert_int_equal(r->sampling.n_top, 4);
        assert_true(r->score_prompt && r->ignore_eos);
        assert_int_equal(r->priority, PRIORITY_CRITICAL);
        assert_non_null(r->counts.list);
    }
    api_request_release(&p);
}

static void lengths_are_fitted_or_refused(void **state)
{
    char text[128], body[256];
    struct api_request p;
    (void)state;

    memset(text, 'x', sizeof(text));
    for (uint32_t n = 1; n < 100; n++) {
        snprintf(body, sizeof(body), "{\"prompt\":\"%.*s\",\"max_tokens\":5}", (int)n, text);
        parse_text(&p, body, NULL);
        if (n + 1 + 5 <= 60) {
            assert_int_equal(p.error.status, 0);
            assert_int_equal(p.requests[0]->max_tokens, 5);
        } else {
            assert_int_equal(p.error.status, 400);
            assert_string_equal(p.error.code, "context_length_exceeded");
            assert_int_equal(p.reason, REJECTION_CONTEXT);
        }
        api_request_release(&p);
    }
    struct server_model model = the_model();
    model.max_kv_tokens = 1000;
    struct buf b = {.data = (char *)"{\"prompt\":\"0123456789\",\"max_tokens\":1000}",
                    .len = 41,
                    .max = SIZE_MAX};
    p = (struct api_request){0};
    api_request_parse(&p, &model, &wire_openai_completions, &b, NULL, NULL);
    assert_int_equal(p.error.status, 0);
    assert_int_equal(p.requests[0]->max_tokens, 64 - 11);
    api_request_release(&p);
}

static void an_empty_prompt_needs_a_bos(void **state)
{
    struct api_request p;
    (void)state;

    parse_text(&p, "{\"prompt\":\"\"}", NULL);
    assert_int_equal(p.error.status, 0);
    assert_int_equal(p.requests[0]->n_prompt, 1);
    assert_int_equal(p.requests[0]->ids[0], BYTE_BOS);
    assert_true(p.prompts[0].at_start && p.prompts[0].has_added_bos);
    api_request_release(&p);
    tokenizer.has_bos = false;
    parse_text(&p, "{\"prompt\":\"\"}", NULL);
    assert_int_equal(p.error.status, 400);
    assert_string_equal(p.error.param, "prompt");
    api_request_release(&p);
    tokenizer.has_bos = true;
}

static void priorities_come_from_the_body_or_the_header(void **state)
{
    static const struct {
        const char *body, *header;
        int expected; /* -1: refused */
    } cases[] = {
        {"{\"prompt\":\"a\"}", NULL, PRIORITY_NORMAL},
        {"{\"prompt\":\"a\"}", "high", PRIORITY_HIGH},
        {"{\"prompt\":\"a\"}", "0", PRIORITY_LOW},
        {"{\"prompt\":\"a\"}", "4", -1},
        {"{\"prompt\":\"a\",\"priority\":3}", "low", PRIORITY_CRITICAL},
        {"{\"prompt\":\"a\",\"priority\":\"1\"}", NULL, PRIORITY_NORMAL},
        {"{\"prompt\":\"a\",\"priority\":null}", "low", PRIORITY_LOW},
        {"{\"prompt\":\"a\",\"priority\":4}", NULL, -1},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_request p;

        parse_text(&p, cases[i].body, cases[i].header);
        assert_int_equal(p.error.status, cases[i].expected < 0 ? 400 : 0);
        if (cases[i].expected >= 0)
            assert_int_equal(p.requests[0]->priority, cases[i].expected);
        api_request_release(&p);
    }
}

/* ---- sharing ---- */

static uint64_t salt_for(const char *tenant, const char *salt)
{
    struct api_request p;
    char body[400];
    uint64_t found;

    snprintf(body, sizeof(body), "{\"prompt\":\"x\",\"cache_salt\":\"%s\"}", salt);
    parse_for(&p, body, tenant);
    assert_int_equal(p.error.status, 0);
    found = p.requests[0]->key.salt;
    api_request_release(&p);
    return found;
}

/* What is shared depends on tenant and salt together, and on where one ends and the other begins,
 * so that no salt of one is that of another. */
static void salts_keep_tenants_apart(void **state)
{
    const char *const pairs[][2] = {{NULL, ""},      {NULL, "ab"}, {"a", ""},   {"ab", ""},
                                    {"a", "b"},      {"b", "a"},   {"abc", ""}, {NULL, "abc"},
                                    {"a", "bc"},     {"ab", "c"}};
    const size_t n = sizeof(pairs) / sizeof(pairs[0]);
    (void)state;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            assert_int_equal(salt_for(pairs[i][0], pairs[i][1]) ==
                                 salt_for(pairs[k][0], pairs[k][1]),
                             i == k);
    assert_true(salt_for(NULL, "") == salt_for("", "")); /* nobody in particular */
}

static void salts_are_checked(void **state)
{
    char body[400];
    struct api_request p;
    (void)state;

    snprintf(body, sizeof(body), "{\"prompt\":\"x\",\"cache_salt\":\"%0256d\"}", 1);
    parse_text(&p, body, NULL);
    assert_int_equal(p.error.status, 0);
    api_request_release(&p);
    snprintf(body, sizeof(body), "{\"prompt\":\"x\",\"cache_salt\":\"%0257d\"}", 1);
    parse_text(&p, body, NULL);
    assert_int_equal(p.error.status, 400);
    assert_string_equal(p.error.param, "cache_salt");
    api_request_release(&p);
}

static void equal_prompts_know_each_other(void **state)
{
    static const uint32_t twins[] = {0, 1, 0, 3, 1, 0};
    struct api_request p;
    (void)state;

    parse_text(&p, "{\"prompt\":[[4,5],[6],[4,5],[4,5,6],[6],[4,5]],\"n\":2}", NULL);
    assert_int_equal(p.error.status, 0);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(p.prompts[i].twin, twins[i]);
    api_request_release(&p);
}

static void a_dry_run_asks_for_the_same(void **state)
{
    struct api_request p;
    struct request *dry;
    (void)state;

    parse_for(&p, "{\"prompt\":[7,8,9],\"max_tokens\":21,\"priority\":\"high\"}", "t");
    p.requests[0]->tenant = 3;
    p.requests[0]->weight = 9;
    assert_int_equal(request_create_dry_run(&dry, p.requests[0]), 0);
    assert_true(dry->is_dry_run && dry->n_prompt == 3 && dry->max_tokens == 21);
    assert_true(dry->ids[2] == 9 && dry->priority == PRIORITY_HIGH);
    assert_true(dry->key.salt == p.requests[0]->key.salt && dry->key.salt != 0);
    assert_true(dry->tenant == 3 && dry->weight == 9);
    assert_true(!request_wants_rows(dry));
    request_destroy(&dry);
    p.requests[0]->score_prompt = true;
    p.requests[0]->pooling = POOLING_LAST;
    assert_int_equal(request_create_dry_run(&dry, p.requests[0]), 0);
    assert_true(dry->score_prompt && dry->pooling == POOLING_LAST && dry->pooled == NULL);
    request_destroy(&dry);
    mem_fail_after(0);
    assert_int_equal(request_create_dry_run(&dry, p.requests[0]), ERR_NOMEM);
    mem_fail_after(-1);
    api_request_release(&p);
}

static void without_a_seed_every_request_has_its_own(void **state)
{
    struct api_request a, b;
    (void)state;

    parse_text(&a, "{\"prompt\":\"a\"}", NULL);
    parse_text(&b, "{\"prompt\":\"a\"}", NULL);
    assert_true(a.requests[0]->sampling.seed != b.requests[0]->sampling.seed);
    api_request_release(&a);
    api_request_release(&b);
}

/* Each allocation fails once: an answer every time, and nothing is lost (the sanitizer looks). */
static void survives_failing_allocations(void **state)
{
    static const char body[] =
        "{\"prompt\":[\"hello\",\"x\"],\"n\":2,\"stop\":[\"a\",\"b\"],\"echo\":true,"
        "\"presence_penalty\":1,\"logprobs\":1}";
    int64_t n = 0;
    bool failed;
    (void)state;

    do {
        struct api_request p;

        mem_fail_after(n++);
        parse_text(&p, body, NULL);
        failed = mem_has_failed();
        mem_fail_after(-1);
        assert_true((p.error.status != 0) == failed);
        if (failed)
            assert_int_equal(p.error.status, 500);
        api_request_release(&p);
    } while (failed);
    assert_true(n > 8);
}

/* ---- choices ---- */

struct stage { /* a choice with everything that it borrows */
    struct prompt prompt;
    struct stop_list stop;
    struct choice_rules rules;
    struct choice choice;
    struct buf scratch, out;
};

static void set_up(struct stage *s, const char *prompt, const char *stop)
{
    *s = (struct stage){.rules = {.tokenizer = &tokenizer, .stop = &s->stop}};
    s->prompt = (struct prompt){.text = mem_strdup(prompt),
                                .n_text = strlen(prompt),
                                .is_text = true,
                                .has_added_bos = true};
    tokenizer_encode(&tokenizer, prompt, strlen(prompt),
                     TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, SIZE_MAX, NULL,
                     &s->prompt.ids);
    if (stop != NULL)
        s->stop.text[s->stop.n++] = mem_strdup(stop);
    buf_init(&s->scratch, 1 << 20);
    buf_init(&s->out, 1 << 20);
}

static void tear_down(struct stage *s)
{
    choice_release(&s->choice);
    mem_free(s->prompt.text);
    token_list_release(&s->prompt.ids);
    stop_list_release(&s->stop);
    buf_release(&s->scratch);
    buf_release(&s->out);
}

static struct event token(int32_t id)
{
    return (struct event){.kind = EVENT_TOKEN,
                          .token = id,
                          .is_eog = id == BYTE_EOS,
                          .logprob = -0.5f,
                          .n_top = 1,
                          .top = {{.id = BYTE_0 + 'z', .logprob = -0.25f}}};
}

static bool feed(struct stage *s, int32_t id)
{
    const struct event e = token(id);

    return choice_token(&s->choice, &e, &s->scratch);
}

static const char *render(struct stage *s)
{
    static const char before[] = "data: ", behind[] = "]}\n\n";
    struct response_writer a = {.wire_format = &wire_openai_completions};

    buf_clear(&s->out);
    a.wire_format->frame(&a, &s->choice, &s->out);
    assert_int_equal(s->out.err, 0);
    buf_consume(&s->out, strlen(before));
    s->out.len -= strlen(behind);
    s->out.data[s->out.len] = '\0';
    return s->out.data;
}

static void text_and_finish(void **state)
{
    struct stage s;
    (void)state;

    set_up(&s, "hi", NULL);
    choice_init(&s.choice, 3, &s.prompt, &s.rules);
    assert_false(choice_has_output(&s.choice));
    assert_false(feed(&s, BYTE_WORDS));
    assert_true(choice_has_output(&s.choice));
    assert_string_equal(
        render(&s), "{\"index\":3,\"text\":\"hello\",\"finish_reason\":null,\"logprobs\":null}");
    assert_false(choice_has_output(&s.choice));
    feed(&s, BYTE_WORDS + 1);
    feed(&s, BYTE_EOS);
    choice_end(&s.choice, FINISH_STOP, &s.scratch);
    assert_string_equal(
        render(&s),
        "{\"index\":3,\"text\":\" world\",\"finish_reason\":\"stop\",\"logprobs\":null}");
    assert_int_equal(s.choice.n_tokens, 3);
    tear_down(&s);
}

/* In the last frame only, and the parts make up the total. */
static void timings_come_with_the_end(void **state)
{
    struct stage s;
    (void)state;

    set_up(&s, "hi", NULL);
    s.rules.wants_timings = true;
    choice_init(&s.choice, 0, &s.prompt, &s.rules);
    feed(&s, BYTE_WORDS);
    assert_null(strstr(render(&s), "timings"));
    s.choice.times = (struct event_times){.queue_us = 1000,
                                          .prefill_us = 2500,
                                          .decode_us = 30001,
                                          .preempted_us = 4,
                                          .swapped_us = 3,
                                          .n_preempted = 2,
                                          .n_cached = 1,
                                          .n_drafted = 4,
                                          .n_accepted = 3};
    s.choice.total_us = 33600;
    s.choice.blocked_us = 55;
    choice_end(&s.choice, FINISH_LENGTH, &s.scratch);
    assert_string_equal(
        render(&s),
        "{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\",\"logprobs\":null,\"timings\":{"
        "\"queue_ms\":1.000,\"prefill_ms\":2.500,\"decode_ms\":30.001,\"preempted_ms\":0.001,"
        "\"swapped_ms\":0.003,"
        "\"delivery_ms\":0.040,\"write_blocked_ms\":0.055,\"total_ms\":33.600,"
        "\"n_preempted\":2,\"prompt_tokens\":3,"
        "\"cached_tokens\":1,\"completion_tokens\":1,\"draft_tokens\":4,"
        "\"accepted_draft_tokens\":3}}");
    tear_down(&s);
}

/* A character that comes in bytes appears whole or as U+FFFD, never in part. */
static void characters_are_whole(void **state)
{
    struct stage s;
    (void)state;

    set_up(&s, "hi", NULL);
    choice_init(&s.choice, 0, &s.prompt, &s.rules);
    feed(&s, BYTE_0 + 0xe2);
    feed(&s, BYTE_0 + 0x82);
    assert_false(choice_has_output(&s.choice));
    feed(&s, BYTE_0 + 0xac);
    assert_string_equal(
        render(&s),
        "{\"index\":0,\"text\":\"\xe2\x82\xac\",\"finish_reason\":null,\"logprobs\":null}");
    feed(&s, BYTE_0 + 0xe2);
    choice_end(&s.choice, FINISH_LENGTH, &s.scratch);
    assert_string_equal(
        render(&s),
        "{\"index\":0,\"text\":\"\xef\xbf\xbd\",\"finish_reason\":\"length\",\"logprobs\":null}");
    tear_down(&s);
}

static void stop_ends_over_token_boundaries(void **state)
{
    struct stage s;
    (void)state;

    set_up(&s, "hi", "lo w");
    choice_init(&s.choice, 0, &s.prompt, &s.rules);
    assert_false(feed(&s, BYTE_WORDS)); /* "hello": "lo" is held back */
    assert_string_equal(s.choice.text.data, "hel");
    assert_true(feed(&s, BYTE_WORDS + 1));
    assert_false(feed(&s, BYTE_WORDS)); /* what the engine had still made is not wanted */
    choice_end(&s.choice, FINISH_CANCELLED, &s.scratch);
    assert_string_equal(
        render(&s), "{\"index\":0,\"text\":\"hel\",\"finish_reason\":\"stop\",\"logprobs\":null}");
    assert_int_equal(s.choice.n_tokens, 2);
    tear_down(&s);
}

static void stop_waits_for_min_tokens(void **state)
{
    struct stage s;
    (void)state;

    set_up(&s, "hi", "hello");
    s.rules.min_tokens = 3;
    choice_init(&s.choice, 0, &s.prompt, &s.rules);
    assert_false(feed(&s, BYTE_WORDS));
    assert_false(feed(&s, BYTE_WORDS));
    assert_true(feed(&s, BYTE_WORDS));
    assert_string_equal(s.choice.text.data, "hellohello");
    tear_down(&s);
}

static void logprobs_are_parallel_arrays(void **state)
{
    struct stage s;
    (void)state;

    set_up(&s, "hi", NULL);
    s.rules.wants_logprobs = s.rules.wants_ids = true;
    s.rules.n_top = 1;
    choice_init(&s.choice, 0, &s.prompt, &s.rules);
    feed(&s, BYTE_WORDS);
    feed(&s, BYTE_0 + 0xc3);
    feed(&s, BYTE_0 + 0xa9);
    feed(&s, BYTE_0 + 'z');
    feed(&s, BYTE_EOS);
    choice_end(&s.choice, FINISH_STOP, &s.scratch);
    assert_string_equal(
        render(&s),
        "{\"index\":0,\"text\":\"hello\xc3\xa9z\",\"finish_reason\":\"stop\",\"logprobs\":{"
        "\"tokens\":[\"hello\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"z\",\"</s>\"],"
        "\"token_logprobs\":[-0.5,-0.5,-0.5,-0.5,-0.5],"
        "\"top_logprobs\":[{\"z\":-0.25,\"hello\":-0.5},{\"z\":-0.25,\"bytes:\\\\xc3\":-0.5},"
        "{\"z\":-0.25,\"bytes:\\\\xa9\":-0.5},{\"z\":-0.25},{\"z\":-0.25,\"</s>\":-0.5}],"
        "\"text_offset\":[0,5,5,6,7]},\"token_ids\":[259,198,172,125,1],\"prompt_token_ids\":[0,"
        "107,108]}");
    tear_down(&s);
}

static void echo_comes_first_with_its_scores(void **state)
{
    struct event e = token(0);
    struct stage s;
    (void)state;

    set_up(&s, "<|x|>hello\xc3\xa9", NULL);
    assert_int_equal(s.prompt.ids.n, 5);
    s.rules.wants_logprobs = s.rules.echo = true;
    s.rules.n_top = 1;
    choice_init(&s.choice, 0, &s.prompt, &s.rules);
    e.kind = EVENT_SCORE;
    for (uint32_t pos = 1; pos < 5; pos++) {
        assert_false(choice_has_output(&s.choice));
        e.token = s.prompt.ids.ids[pos];
        e.pos = pos;
        choice_score(&s.choice, &e);
    }
    assert_true(choice_has_output(&s.choice));
    feed(&s, BYTE_0 + '!');
    assert_string_equal(
        render(&s),
        "{\"index\":0,\"text\":\"<|x|>hello\xc3\xa9!\",\"finish_reason\":null,\"logprobs\":{"
        "\"tokens\":[\"<s>\",\"<|x|>\",\"hello\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"!\"],"
        "\"token_logprobs\":[null,-0.5,-0.5,-0.5,-0.5,-0.5],"
        "\"top_logprobs\":[null,{\"z\":-0.25,\"<|x|>\":-0.5},{\"z\":-0.25,\"hello\":-0.5},"
        "{\"z\":-0.25,\"bytes:\\\\xc3\":-0.5},{\"z\":-0.25,\"bytes:\\\\xa9\":-0.5},"
        "{\"z\":-0.25,\"!\":-0.5}],"
        "\"text_offset\":[0,0,5,10,10,11]}}");
    tear_down(&s);
}

static void echo_without_logprobs_waits_for_nothing(void **state)
{
    struct stage s;
    (void)state;

    set_up(&s, "hello", NULL);
    s.rules.echo = true;
    choice_init(&s.choice, 0, &s.prompt, &s.rules);
    assert_true(choice_has_output(&s.choice));
    assert_string_equal(s.choice.text.data, "hello");
    tear_down(&s);
}

/* ---- answers ---- */

/* An answer of one choice whose id, time and version are known. */
static void begin_answer(struct stage *s, struct response_writer *a,
                         const struct wire_format *wire_format)
{
    static const struct params plain = {.form = PARAMS_TEXT};

    assert_int_equal(response_init(a, wire_format, "a \"model\"", &s->choice, 1), 0);
    a->params = &plain;
    buf_clear(&a->head);
    buf_clear(&a->frame_head);
    buf_add_str(&a->head, "{\"id\":\"x\",\"choices\":[");
    buf_add_str(&a->frame_head, "{\"id\":\"x\",\"choices\":[");
}

/* The frames of a stream, byte for byte, after the head. */
static void frames_to_the_letter(void **state)
{
    struct api_error e;
    struct response_writer a;
    struct stage s;
    (void)state;

    set_up(&s, "hi", NULL);
    choice_init(&s.choice, 0, &s.prompt, &s.rules);
    begin_answer(&s, &a, &wire_openai_completions);
    feed(&s, BYTE_0 + '\n');
    a.wire_format->frame(&a, &s.choice, &s.out);
    feed(&s, BYTE_WORDS);
    a.include_usage = true;
    a.usage = (struct response_usage){.prompt = 5, .completion = 2, .cached = 1};
    a.wire_format->frame(&a, &s.choice, &s.out);
    a.wire_format->close(&a, &s.out);
    assert_string_equal(
        s.out.data,
        "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"text\":\"\\n\",\"finish_reason\":null,"
        "\"logprobs\":null}]}\n\n"
        "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"text\":\"hello\",\"finish_reason\":null,"
        "\"logprobs\":null}],\"usage\":null}\n\n"
        "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,"
        "\"total_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":1}}}\n\n"
        "data: [DONE]\n\n");
    buf_clear(&s.out);
    a.include_usage = false;
    a.wire_format->close(&a, &s.out);
    assert_string_equal(s.out.data, "data: [DONE]\n\n");
    buf_clear(&s.out);
    api_error_set(&e, 408, NULL, "deadline_exceeded", "late");
    a.wire_format->failure(&e, &s.out);
    assert_string_equal(s.out.data,
                        "data: {\"error\":{\"message\":\"late\",\"type\":\"timeout_error\","
                        "\"param\":null,\"code\":\"deadline_exceeded\"}}\n\ndata: [DONE]\n\n");
    response_release(&a);
    tear_down(&s);
}

static void the_head_is_json(void **state)
{
    const char *why = NULL;
    struct response_writer a;
    cJSON *v;
    (void)state;

    assert_int_equal(response_init(&a, &wire_openai_completions, "a \"model\"", NULL, 0), 0);
    buf_add_str(&a.head, "]}");
    assert_int_equal(json_parse(a.head.data, a.head.len, &v, &why), 0);
    assert_string_equal(cJSON_GetObjectItem(v, "model")->valuestring, "a \"model\"");
    assert_string_equal(cJSON_GetObjectItem(v, "object")->valuestring, "text_completion");
    assert_int_equal(strlen(cJSON_GetObjectItem(v, "id")->valuestring), 5 + 24);
    cJSON_Delete(v);
    response_release(&a);
}

/* An answer that lost a part is an error, not a shorter answer. */
static void lost_text_is_an_error(void **state)
{
    struct response_writer a;
    struct stage s;
    (void)state;

    set_up(&s, "hi", NULL);
    choice_init(&s.choice, 0, &s.prompt, &s.rules);
    begin_answer(&s, &a, &wire_openai_completions);
    s.choice.text.max = 12;
    feed(&s, BYTE_WORDS);
    feed(&s, BYTE_WORDS);
    assert_int_equal(choice_error(&s.choice), 0);
    feed(&s, BYTE_WORDS);
    assert_int_equal(choice_error(&s.choice), ERR_LIMIT);
    a.wire_format->whole(&a, &s.out);
    assert_int_equal(s.out.err, ERR_LIMIT);
    response_release(&a);
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_openais),
        cmocka_unit_test(every_field_arrives),
        cmocka_unit_test(lengths_are_fitted_or_refused),
        cmocka_unit_test(an_empty_prompt_needs_a_bos),
        cmocka_unit_test(priorities_come_from_the_body_or_the_header),
        cmocka_unit_test(salts_keep_tenants_apart),
        cmocka_unit_test(salts_are_checked),
        cmocka_unit_test(equal_prompts_know_each_other),
        cmocka_unit_test(a_dry_run_asks_for_the_same),
        cmocka_unit_test(without_a_seed_every_request_has_its_own),
        cmocka_unit_test(survives_failing_allocations),
        cmocka_unit_test(text_and_finish),
        cmocka_unit_test(timings_come_with_the_end),
        cmocka_unit_test(characters_are_whole),
        cmocka_unit_test(stop_ends_over_token_boundaries),
        cmocka_unit_test(stop_waits_for_min_tokens),
        cmocka_unit_test(logprobs_are_parallel_arrays),
        cmocka_unit_test(echo_comes_first_with_its_scores),
        cmocka_unit_test(echo_without_logprobs_waits_for_nothing),
        cmocka_unit_test(frames_to_the_letter),
        cmocka_unit_test(the_head_is_json),
        cmocka_unit_test(lost_text_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
