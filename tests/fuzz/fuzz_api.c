/* tests/fuzz/fuzz_api.c - libFuzzer: any bytes as the body of a request of any wire format.
 *
 * The first byte chooses the format ('0' /v1/completions, '1' chat, '2' messages, '3' responses,
 * '4' /completion, '5' /infill, '6' embeddings, '?' rankings, '@' scores, 'A' classes, 'B' pooling;
 * 64 above these the model is a cross-encoder), the rest is the body. What is accepted must keep
 * its promises: ids within the vocabulary, lengths within the limits, finite sampling parameters,
 * guesses at its next tokens that are some.
 * What is refused must have an error that renders as valid JSON. The byte tokenizer stands in for a
 * real one, so that the corpus is about the body.
 */
#include <math.h>
#include <stdlib.h>

#include "core/json/json.h"
#include "scheduler/drafts/engine_drafter.h"
#include "server/api/api_request.h"
#include "server/api/body_scan.h"
#include "server/api/text_endpoints.h"
#include "server/api/chat/chat.h"
#include "server/api/constraint/constraint_cache.h"
#include "server/api/response/response_writer.h"
#include "tests/fuzz/target.h"
#include "tests/unit/server/byte_tokenizer.inc"

#define CONTEXT 512
#define MAX_STEPS 5000000 /* a tenth of what a request has: sanitizers make them slow */

static void check_request(const struct request *r)
{
    const struct sampling *s = &r->sampling;

    require(r->n_prompt >= 1 && r->n_prompt + r->max_tokens <= CONTEXT);
    require(r->n_resumed <= r->max_tokens);
    for (uint32_t i = 0; i < request_n_given(r); i++)
        require(r->ids[i] >= 0 && r->ids[i] < BYTE_WORDS + BYTE_N_WORDS);
    for (uint32_t i = 0; i < s->n_bias; i++)
        require(s->bias[i].id >= 0 && s->bias[i].id < BYTE_WORDS + BYTE_N_WORDS &&
                (fabsf(s->bias[i].bias) <= 100 || s->bias[i].bias == -INFINITY));
    require(s->temperature >= -2 && s->temperature <= 2 && s->top_p > 0 && s->top_p <= 1);
    require(s->min_p >= 0 && s->min_p <= 1 && s->top_k >= 0 && s->n_top <= SAMPLING_MAX_TOP);
    require(s->repetition_penalty > 0 && isfinite(s->repetition_penalty));
    require(s->n_chain <= SAMPLING_MAX_CHAIN && isfinite(s->top_n_sigma));
    for (uint32_t i = 0; i < s->n_chain; i++)
        require(s->chain[i] <= STAGE_TEMPERATURE);
    for (const int32_t *at = s->bad_words; at != NULL && *at > 0; at += *at + 1)
        for (int32_t i = 1; i <= *at; i++)
            require(at[i] >= 0 && at[i] < BYTE_WORDS + BYTE_N_WORDS);
    require(r->n_stop_ids <= REQUEST_MAX_STOP_IDS && r->priority < PRIORITY_COUNT);
}

static bool is_id(int32_t id)
{
    return id >= 0 && id < BYTE_WORDS + BYTE_N_WORDS;
}

/* Guess behind each of a few tokens, as if they had been chosen: those guessed, or any. */
static void check_drafts(struct engine_drafter *d, struct request *r)
{
    const struct drafter drafter = engine_drafter_get(d);
    uint32_t n = request_n_given(r);

    require(r->prediction.n <= CONTEXT);
    prediction_begin(&r->prediction, r->ids, r->n_prompt, n);
    for (uint32_t i = 0; i < 8 && r->drafts && n + DRAFT_MAX + 1 < r->max_known; i++) {
        const struct draft draft = drafter.propose(drafter.ud, r, n, DRAFT_MAX);

        require(draft.n <= DRAFT_MAX);
        for (uint32_t k = 0; k < draft.n; k++)
            require(is_id(r->ids[n + k]));
        r->ids[n] = draft.n > 0 && i % 3 > 0 ? r->ids[n] : (int32_t)(i * 31 % 200);
        prediction_take(&r->prediction, r->ids, ++n);
    }
    require(r->prediction.accepted <= r->prediction.n);
}

static const struct wire_format *wire_format_of(uint8_t byte)
{
    const struct wire_format *const all[] = {&wire_openai_completions,
                                             &wire_openai_chat,
                                             &wire_anthropic_messages,
                                             &wire_openai_responses,
                                             &wire_llamacpp,
                                             &wire_llamacpp_infill,
                                             &wire_openai_embeddings,
                                             &wire_tokenize,
                                             &wire_detokenize,
                                             &wire_apply_template,
                                             &wire_count_tokens,
                                             &wire_ollama_generate,
                                             &wire_ollama_chat,
                                             &wire_ollama_embed,
                                             &wire_ollama_embeddings,
                                             &wire_rerank,
                                             &wire_score,
                                             &wire_classify,
                                             &wire_pooling,
                                             &wire_openai_decisions,
                                             &wire_systemone,
                                             &wire_generative_scoring,
                                             &wire_cohere_embed};

    return all[(uint8_t)(byte - '0') % 64 % (sizeof(all) / sizeof(all[0]))];
}

static struct constraint_cache *constraints(const struct tokenizer *t)
{
    static struct constraint_cache *c;
    const struct constraint_cache_options options = {
        .tokenizer = t, .max_entries = 2, .max_bytes = 4u << 20};

    if (c == NULL)
        require(constraint_cache_create(&c, &options) == 0);
    return c;
}

static struct chat *chatml(const struct tokenizer *t)
{
    const struct chat_options options = {.template = "chatml"};
    static struct chat *c;
    char err[256];

    if (c == NULL)
        require(chat_create(&c, &options, t, err, sizeof(err)) == 0);
    return c;
}

static void check_error(const struct api_error *e)
{
    const char *why = NULL;
    cJSON *v = NULL;
    struct buf b;

    buf_init(&b, 4096);
    api_error_render(e, &b);
    require(json_parse(b.data, b.len, &v, &why) == 0);
    cJSON_Delete(v);
    buf_release(&b);
}

/* The scan stays in the body; of one that was accepted it has found the model that stands there. */
static void check_scan(const struct buf *body, bool is_accepted)
{
    const struct body_scan scan = body_scan(body->data, body->len);
    const char *model;
    size_t n;

    require(scan.model == NULL ||
            (scan.model >= body->data && scan.model + scan.n_model <= body->data + body->len));
    if (is_accepted && json_member_text(body->data, body->len, "model", &model, &n))
        require(scan.model == model && scan.n_model == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct tokenizer tokenizer = {.has_bos = true};
    static struct engine_drafter *drafter; /* made once: its scratch is large */
    const struct server_model model = {.id = "m",
                                       .max_context = CONTEXT,
                                       .max_kv_tokens = CONTEXT,
                                       .makes_drafts = true,
                                       .pins_prefixes = true,
                                       .n_embd = 8,
                                       .n_labels = n > 0 && (uint8_t)(data[0] - '0') >= 64,
                                       .is_cross = n > 0 && (uint8_t)(data[0] - '0') >= 64,
                                       .tokenizer = &tokenizer,
                                       .chat = chatml(&tokenizer),
                                       .constraint_cache = constraints(&tokenizer)};
    const struct api_headers headers = {.keeps_streams = true};
    struct budget budget = {.steps_left = MAX_STEPS};
    struct api_request p = {0};
    struct buf body;
    char *text;

    if (n == 0)
        return 0;
    text = mem_dup(data + 1, n - 1); /* its own block: the sanitizer sees a read past the end */
    require(text != NULL || n == 1);
    body = (struct buf){.data = text, .len = n - 1, .cap = n - 1, .max = n - 1};
    api_request_parse(&p, &model, wire_format_of(data[0]), &body, &headers, &budget);
    require(drafter != NULL || engine_drafter_create(&drafter, NULL, 0) == 0);
    for (uint32_t i = 0; p.error.status == 0 && i < p.n_choices; i++) {
        check_request(p.requests[i]);
        check_drafts(drafter, p.requests[i]);
    }
    if (p.error.status != 0)
        check_error(&p.error);
    check_scan(&body, p.error.status == 0);
    api_request_release(&p);
    mem_free(text);
    return 0;
}
