/* server/api/api_request.c - see api_request.h.
 *
 * One pass on the thread that parses the body: JSON, then params, then all that is compiled or
 * tokenized once for the request (constraint, breakers, messages), then the prompts as tokens, then
 * one struct request for each choice. The parts of the body that the requests and the answer need
 * are copied or rendered here, because its JSON tree is freed at the end.
 */
#include "server/api/chat/call_tools.h"
#include "server/api/api_request_impl.h"

#include "config/objectives.h"
#include "config/weights.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/constraint.h"
#include "core/model/adapter.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/chat/chat.h"
#include "server/api/constraint/constraint_cache.h"
#include "server/api/infill.h"
#include "server/api/kept_input.h"
#include "server/api/params/kept_items.h"
#include "server/api/response/response_writer.h"
#include "server/api/constraint/strict_calls.h"
#include "server/http/http_call.h"
#include "server/http/proxy_headers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <xxhash.h>

#define MAX_TTFT_MS 86400000

/* Requests of one tenant with the same cache_salt share cached prefixes and constraints. A zero
 * byte stands between name and salt, and the seed is secret, so that no client can get another
 * one's salt. */
uint64_t api_request_salt(const char *tenant, const char *cache_salt, uint64_t seed)
{
    char text[WEIGHTS_MAX_NAME + PARAMS_MAX_SALT + 2] = "";
    const size_t n = strlen(tenant) + 1, n_salt = strlen(cache_salt);

    memcpy(text, tenant, n);
    memcpy(text + n, cache_salt, n_salt);
    return XXH3_64bits_withSeed(text, n + n_salt, seed);
}

static uint64_t salt_of(const struct api_request *p, const struct api_headers *headers)
{
    const char *tenant = headers->tenant != NULL ? headers->tenant : "";

    return api_request_salt(tenant, p->params.cache_salt, headers->salt_seed);
}

/* True: the request shares its prefix cache only within a tenant or a cache_salt. Then KV events
 * carry its salt. */
static bool is_private(const struct api_request *p, const struct api_headers *headers)
{
    return (headers->tenant != NULL && headers->tenant[0] != '\0') ||
           p->params.cache_salt[0] != '\0';
}

/* Keys and values that were computed with an adapter are shared only where the same numbers and
 * scale were used; its name and the time of its load do not matter. */
static uint64_t salt_with(uint64_t salt, const struct adapter *a, float scale)
{
    struct {
        uint64_t adapter[2];
        float scale, unused;
    } made_by = {.scale = scale};

    memcpy(made_by.adapter, a->id, sizeof(made_by.adapter));
    return XXH3_64bits_withSeed(&made_by, sizeof(made_by), salt);
}

void api_request_adapt(struct api_request *p, struct adapter *a)
{
    p->adapter = a;
    for (uint32_t i = 0; i < p->n_choices; i++) {
        struct request *r = p->requests[i];

        r->adapter = adapter_ref(a);
        r->adapter_scale = p->params.adapter.scale;
        r->drop_adapter = adapter_unref;
        r->count_adapter = adapter_count;
        r->key.salt = salt_with(r->key.salt, a, r->adapter_scale);
        snprintf(r->adapter_name, sizeof(r->adapter_name), "%s", p->params.adapter.name);
        r->key.origin.adapter = r->adapter_name;
    }
    p->receipt.adapter = a;
    p->receipt.adapter_name = p->params.adapter.name;
    p->receipt.adapter_scale = p->params.adapter.scale;
}

const char *api_request_model(const struct api_request *p, const struct server_model *model)
{
    if (p->params.is_adapter_model)
        return p->params.adapter.name;
    return p->params.asked_model[0] != '\0' ? p->params.asked_model : model->id;
}

/* Fill in choice k of a prompt. Choices differ by their seeds, so the same seed gives the same n
 * choices. The first choice scores the prompt for all of them. */
static void fill_request(struct request *r, const struct params *p, const struct prompt *prompt,
                         uint32_t k, uint64_t salt)
{
    struct logit_bias *bias = (struct logit_bias *)r->sampling.bias;

    memcpy(r->ids, prompt->ids.ids, prompt->ids.n * sizeof(*r->ids));
    if (p->sampling.n_bias > 0)
        memcpy(bias, p->bias, p->sampling.n_bias * sizeof(*bias));
    r->sampling = p->sampling;
    r->sampling.bias = bias;
    if (p->n_each > p->n && r->sampling.n_top < 0) /* best_of compares log-probabilities */
        r->sampling.n_top = 0;
    if (k == 0 && p->prompt_logprobs > r->sampling.n_top)
        r->sampling.n_top = p->prompt_logprobs;
    r->sampling.seed += k;
    r->sampling.label_ids = prompt->label_ids;
    r->sampling.label_logprobs = prompt->label_logprobs;
    r->sampling.n_labels = prompt->label_ids != NULL ? prompt->n_labels : 0;
    r->marks = prompt->marks;
    r->rows_from = prompt->marks.n > 0 ? prompt->marks.at[0].pos : 0;
    r->mirostat_mu = 2 * p->sampling.mirostat_tau;
    r->thought = prompt->thought;
    r->n_pins = k == 0 ? prompt->n_pins : 0;
    memcpy(r->pins, prompt->pins, sizeof(r->pins));
    r->key.salt = salt;
    r->priority = p->priority;
    r->min_tokens = p->min_tokens;
    r->ignore_eos = p->ignore_eos;
    r->reports_progress =
        p->stream && (p->return_progress || p->timings_per_token || p->continuous_usage);
    r->score_prompt = (p->echo && p->sampling.n_top >= 0) || (k == 0 && p->prompt_logprobs >= 0);
    r->n_stop_ids = p->n_stop_ids;
    memcpy(r->stop_ids, p->stop_ids, p->n_stop_ids * sizeof(*r->stop_ids));
}

/* Count the tokens of the message that ends the prompt's thought: not 0 only if there may be a
 * thought that has a budget or that its client may end. */
static uint32_t message_size(const struct api_request *p, const struct prompt *prompt)
{
    const struct thought *t = &prompt->thought;

    if (t->phase == THOUGHT_NONE || t->n_left == 0 ||
        (t->n_left == THOUGHT_NO_LIMIT && !p->params.reasoning_control))
        return 0;
    return (uint32_t)p->budget_message.n;
}

static void give_message(struct request *r, const struct token_list *message, uint32_t n)
{
    if (n == 0)
        return;
    memcpy(r->thought_message, message->ids, n * sizeof(*message->ids));
    r->thought.message = r->thought_message;
    r->thought.n_message = n;
}

/* Give the request a state of the constraint of its own, and a reference to the constraint. */
static void constrain_request(struct request *r, struct constraint *c)
{
    if (c == NULL)
        return;
    constraint_state_init(r->constraint, c);
    r->constraint_of = constraint_ref(c);
    r->drop_constraint = constraint_unref;
}

static int make_requests(struct api_request *p, const struct server_model *model,
                         const struct api_headers *headers)
{
    const struct params *params = &p->params;
    const uint64_t salt = salt_of(p, headers);

    if (params->prediction.len > 0 && api_request_take_prediction(p, model) < 0)
        return ERR_INVAL;
    for (uint32_t i = 0; i < p->n_choices; i++) {
        struct prompt *prompt = &p->prompts[i / params->n_each];
        struct request_size size = {.n_prompt = (uint32_t)prompt->ids.n,
                                    .n_bias = params->sampling.n_bias,
                                    .drafts = model->makes_drafts && !params->without_drafts &&
                                              (params->form & PARAMS_POOLED) == 0,
                                    .n_prediction = (uint32_t)p->prediction.n,
                                    .n_message = message_size(p, prompt),
                                    .penalties = params->sampling.penalty_last_n == 0 &&
                                                 sampling_has_penalty(&params->sampling)};

        if (p->constraint != NULL)
            size.constraint_bytes = constraint_state_bytes();
        if (api_request_fit(p, model, &size) < 0)
            return ERR_INVAL;
        if (request_create(&p->requests[i], &size) < 0)
            return api_request_no_memory(p);
        fill_request(p->requests[i], params, prompt, i % params->n_each, salt);
        give_message(p->requests[i], &p->budget_message, size.n_message);
        p->requests[i]->key.origin.salt = is_private(p, headers) ? salt : 0;
        api_request_set_shift(params, model->tokenizer, p->requests[i]);
        if (p->prediction.n > 0)
            memcpy(p->requests[i]->prediction.ids, p->prediction.ids,
                   p->prediction.n * sizeof(*p->prediction.ids));
        constrain_request(p->requests[i], p->constraint);
        if (params->resume.is_on && api_request_resume(p, model, p->requests[i]) < 0)
            return ERR_INVAL;
        if ((params->form & PARAMS_POOLED) != 0 &&
            api_request_pool(p, model, p->requests[i], prompt) < 0)
            return ERR_INVAL;
    }
    return 0;
}

/* Check, for a call that makes no requests, that prompts and answers would fit into the context. */
static int check_request_room(struct api_request *p, const struct server_model *model)
{
    for (uint32_t i = 0; i < p->params.n_prompts; i++) {
        struct request_size size = {.n_prompt = (uint32_t)p->prompts[i].ids.n};

        if (api_request_fit(p, model, &size) < 0)
            return ERR_INVAL;
    }
    return 0;
}

/* Take the priority from the gateway's header, which overrides the client's. A name that is neither
 * in the setting `objectives` nor a priority is ignored. */
static bool take_objective(struct api_request *p, const struct api_headers *headers)
{
    char word[16];

    if (headers->objective == NULL)
        return false;
    if (headers->objectives != NULL &&
        objectives_find(headers->objectives, headers->objective, word, sizeof(word)))
        return priority_find(word, &p->params.priority);
    return priority_find(headers->objective, &p->params.priority);
}

static int take_ttft(struct api_request *p, const char *header)
{
    const char *name = proxy_header_name(PROXY_TTFT_MS);
    char *end = NULL;
    double ms;

    if (header == NULL)
        return 0;
    ms = header[0] >= '0' && header[0] <= '9' ? strtod(header, &end) : 0;
    if (end == NULL || *end != '\0' || !(ms >= 1 && ms <= MAX_TTFT_MS))
        return api_error_set(&p->error, 400, name, NULL,
                             "the header %s must be milliseconds, from 1 to %d", name, MAX_TTFT_MS);
    p->params.ttft_ms = (uint32_t)ms;
    return 0;
}

static int take_priority(struct api_request *p, const char *header)
{
    if (header == NULL || p->params.has_priority)
        return 0;
    if (priority_find(header, &p->params.priority))
        return 0;
    return api_error_set(&p->error, 400, "X-Priority", NULL,
                         "the header X-Priority must be low, normal, high, critical or 0 to 3");
}

static int take_seed(struct api_request *p)
{
    if (p->params.has_seed)
        return 0;
    if (getrandom(&p->params.sampling.seed, sizeof(p->params.sampling.seed), 0) < 0)
        return api_error_set(&p->error, 500, NULL, NULL,
                             "the operating system gave no random number for the seed");
    p->params.sampling.seed >>= 11; /* 53 bits: a JSON number gives it back exactly */
    return 0;
}

static bool has_breaker(const struct params *p, const char *piece, size_t n)
{
    for (uint32_t i = 0; i < p->n_breakers; i++)
        if (memmem(piece, n, p->breakers[i], strlen(p->breakers[i])) != NULL)
            return true;
    return false;
}

/* Mark the tokens that have one of DRY's breakers in their text. */
static int find_breakers(struct api_request *p, const struct tokenizer *t)
{
    const int32_t n_vocab = tokenizer_n_vocab(t);

    if (p->params.n_breakers == 0)
        return 0;
    p->breakers = mem_calloc((size_t)n_vocab / 32 + 1, sizeof(*p->breakers));
    if (p->breakers == NULL)
        return api_request_no_memory(p);
    for (int32_t id = 0; id < n_vocab; id++) {
        size_t n;
        const char *piece = tokenizer_piece(t, id, &n);

        if (id % 64 == 0 && budget_spend(p->budget, 64 * (uint64_t)p->params.n_breakers) < 0)
            return api_request_cannot_encode(p);
        if (has_breaker(&p->params, piece, n))
            p->breakers[id >> 5] |= (uint32_t)1 << (id & 31);
    }
    p->params.sampling.dry_breakers = p->breakers;
    return 0;
}

static int take_constraint(struct api_request *p, const struct server_model *model,
                           const struct api_headers *headers)
{
    struct constraint_spec spec = p->params.constraint;

    if (spec.kind == CONSTRAINT_NONE)
        return 0;
    spec.owner = salt_of(p, headers);
    return constraint_cache_get(model->constraint_cache, &spec, p->budget, &p->constraint,
                                &p->error);
}

static int hold_strict_calls(struct api_request *p, const struct server_model *model)
{
    if ((p->params.form & PARAMS_TURNS) == 0)
        return 0;
    if (strict_calls_check_patterns(&p->params, p->budget, &p->error) < 0)
        return ERR_INVAL;
    return strict_calls_constrain(&p->params, chat_style(chat_for(model->chat, &p->params)),
                                  &p->error);
}

/* Copy the parts of the tools that the output parser needs, because the body is freed before the
 * answer comes. */
static int keep_tools(struct api_request *p)
{
    return call_tools_create(&p->tools, &p->params.chat) < 0 ? api_request_no_memory(p) : 0;
}

static int check_task(struct api_request *p, const struct server_model *model)
{
    if ((p->wire_format->form & PARAMS_POOLED) != 0)
        return api_request_check_pooling(p, model);
    if (!model->is_encoder ||
        (model->decider != NULL && (p->wire_format->form & PARAMS_DECISIONS) != 0))
        return 0;
    return api_error_set(&p->error, 400, "model", "unsupported_model",
                         "the model '%s' is an encoder, which generates no text: use POST %s",
                         model->id, model->only_decides ? "/v1/decisions" : "/v1/embeddings");
}

/* Fill in a receipt's source. A receipt tells how to compute an answer from its beginning, so a
 * resumed answer has none. */
static int take_receipt(struct api_request *p, const struct server_model *model,
                        const struct buf *body)
{
    if (!p->params.receipt)
        return 0;
    if (model->receipt_origin == NULL)
        return api_error_set(&p->error, 400, "receipt", NULL,
                             "receipts of the model '%s' are off: set receipts = on", model->id);
    if (p->params.resume.is_on)
        return api_error_set(
            &p->error, 400, "receipt", NULL,
            "'receipt' and 'resume' cannot be used together: a resumed answer has no receipt");
    p->receipt.origin = model->receipt_origin;
    p->receipt.time = p->params.chat.now;
    return receipt_take_body(&p->receipt, body) < 0 ? api_request_no_memory(p) : 0;
}

/* Refuse a request for thinking if the model has no thoughts, as Ollama does; in other APIs it is
 * ignored. */
static int check_think(struct api_request *p, const struct server_model *model)
{
    if ((p->params.form & PARAMS_OLLAMA_TURNS) == 0 || p->params.thinking != THINKING_ON ||
        output_style_has_thoughts(chat_style(chat_for(model->chat, &p->params))))
        return 0;
    return api_error_set(&p->error, 400, "think", NULL,
                         "'think' is not supported: the model '%s' does not support thinking",
                         model->id);
}

static int make_prompts(struct api_request *p, const struct server_model *model)
{
    if ((p->params.form & PARAMS_DECISIONS) != 0)
        return api_request_decide(p, model);
    for (uint32_t i = 0; i < p->params.n_prompts; i++)
        if (api_request_make_prompt(p, model, i) < 0)
            return ERR_INVAL;
    return 0;
}

static int build_requests(struct api_request *p, const struct server_model *model, cJSON *body,
                          const struct api_headers *headers)
{
    const struct params_limits limits = {.model = model->id,
                                         .aliases = model->aliases,
                                         .adapters = model->adapters,
                                         .tokenizer = model->tokenizer,
                                         .defaults = model->sampling,
                                         .request_defaults = model->request_defaults,
                                         .shifts_context = model->shifts_context,
                                         .keeps = headers->keeps,
                                         .keeps_streams = headers->keeps_streams,
                                         .resumable = headers->resumable,
                                         .resume_tokens = headers->resume_tokens,
                                         .kept = p->kept,
                                         .can_infill = infill_is_known(model->tokenizer),
                                         .n_embd = model->n_embd,
                                         .is_cross = model->is_cross,
                                         .budget = p->budget,
                                         .n_vocab = tokenizer_n_vocab(model->tokenizer)};

    if (check_task(p, model) < 0)
        return ERR_INVAL;
    if (params_parse(&p->params, p->wire_format->form, body, &limits, &p->error) < 0 ||
        check_think(p, model) < 0 ||
        (!take_objective(p, headers) && take_priority(p, headers->priority) < 0) ||
        take_ttft(p, headers->ttft_ms) < 0 ||
        (headers->restored != NULL && api_request_restore(p, headers->restored) < 0) ||
        take_seed(p) < 0 || hold_strict_calls(p, model) < 0 || keep_tools(p) < 0 ||
        take_constraint(p, model, headers) < 0 || find_breakers(p, model->tokenizer) < 0 ||
        api_request_take_budget_message(p, model) < 0)
        return ERR_INVAL;
    p->params.chat.now = headers->now > 0 ? headers->now : (int64_t)time(NULL);
    if (p->params.adapter.name[0] == '\0' && !p->params.has_lora)
        adapter_set_default(model->adapters, &p->params.adapter);
    if (!p->params.has_return_documents)
        p->params.return_documents = p->wire_format->gives_documents && !p->params.is_texts;
    if (p->wire_format->echo != NULL && p->wire_format->echo(body, &p->echo) < 0)
        return api_request_no_memory(p);
    if (p->params.store && p->wire_format->answer == NULL &&
        kept_input_list(body, p->kept, &p->input) < 0)
        return api_request_no_memory(p);
    p->n_choices = p->params.n_prompts * p->params.n_each;
    p->prompts = mem_calloc(p->params.n_prompts, sizeof(*p->prompts));
    p->requests = mem_calloc(p->n_choices, sizeof(struct request *));
    if (p->prompts == NULL || p->requests == NULL)
        return api_request_no_memory(p);
    if (make_prompts(p, model) < 0)
        return ERR_INVAL;
    cJSON_Delete(p->params.joined_texts); /* the texts are tokens now */
    p->params.joined_texts = NULL;
    if (p->wire_format->answer == NULL)
        return make_requests(p, model, headers);
    p->n_choices = 0; /* the call needs only the prompts */
    return p->wire_format->must_fit ? check_request_room(p, model) : 0;
}

static int build_request(struct api_request *p, const struct server_model *model, cJSON *body,
                         const struct api_headers *headers)
{
    if (p->wire_format->pick != NULL)
        p->wire_format = p->wire_format->pick(body);
    if (!cJSON_IsObject(body))
        return api_error_set(&p->error, 400, NULL, NULL, "the body must be a JSON object");
    if (p->wire_format->form == PARAMS_RESPONSES && headers->keeps && headers->kept == NULL) {
        if (kept_input_wish(body, &p->wish, &p->error) < 0)
            return ERR_INVAL;
        p->has_wish = p->wish.previous[0] != '\0' || p->wish.items.len > 0;
        if (p->has_wish)
            return 0;
    }
    if (p->wire_format->form != 0 && build_requests(p, model, body, headers) < 0)
        return ERR_INVAL;
    return p->wire_format->answer != NULL ? p->wire_format->answer(p, model, body) : 0;
}

void api_request_parse(struct api_request *p, const struct server_model *model,
                       const struct wire_format *wire_format, const struct buf *body,
                       const struct api_headers *headers, struct budget *budget)
{
    static const struct api_headers none = {0};
    const char *why = NULL;
    cJSON *json = NULL, *kept = NULL;
    struct kept_items items = {0};
    int rc;

    p->wire_format = wire_format;
    p->budget = budget;
    buf_init(&p->echo, HTTP_MAX_REPLY);
    buf_init(&p->input, HTTP_MAX_REPLY);
    p->reason = REJECTION_INVALID;
    rc = json_parse(body->data, body->len, &json, &why);
    if (rc == 0 && headers != NULL && headers->kept != NULL)
        rc = json_parse(headers->kept->data, headers->kept->len, &kept, &why);
    if (rc == 0 && kept != NULL)
        rc = kept_items_init(&items, kept);
    p->kept = kept != NULL ? &items : NULL;
    if (rc < 0)
        api_error_set(&p->error, rc == ERR_NOMEM ? 500 : 400, NULL, NULL, "%s",
                      why != NULL ? why : "out of memory");
    else if (build_request(p, model, json, headers != NULL ? headers : &none) == 0)
        take_receipt(p, model, body);
    p->params.prompt = NULL; /* it points into the JSON tree */
    p->params.context = NULL;
    p->params.infill = (struct infill_spec){0};
    p->params.constraint.value = NULL;
    p->params.constraint.triggers = NULL;
    p->params.triggers = NULL;
    p->budget = NULL;
    p->kept = NULL;
    kept_items_release(&items);
    cJSON_Delete(json);
    cJSON_Delete(kept);
}

void api_request_release(struct api_request *p)
{
    for (uint32_t i = 0; p->requests != NULL && i < p->n_choices; i++)
        request_destroy(&p->requests[i]);
    for (uint32_t i = 0; p->prompts != NULL && i < p->params.n_prompts; i++) {
        mem_free(p->prompts[i].text);
        mem_free(p->prompts[i].pooled);
        mem_free(p->prompts[i].label_ids);
        mem_free(p->prompts[i].label_logprobs);
        mem_free(p->prompts[i].paths);
        mem_free((void *)p->prompts[i].marks.at);
        mem_free(p->prompts[i].marks.outs);
        token_list_release(&p->prompts[i].ids);
        buf_release(&p->prompts[i].scores);
    }
    token_list_release(&p->prediction);
    token_list_release(&p->budget_message);
    mem_free(p->requests);
    mem_free(p->prompts);
    mem_free(p->breakers);
    constraint_unref(&p->constraint);
    adapter_unref(&p->adapter);
    call_tools_destroy(&p->tools);
    params_release(&p->params);
    buf_release(&p->echo);
    buf_release(&p->input);
    receipt_release(&p->receipt);
    buf_release(&p->wish.items);
    *p = (struct api_request){0};
}

uint64_t api_request_n_tokens(const struct api_request *p)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < p->n_choices; i++)
        n += (uint64_t)p->requests[i]->n_prompt + p->requests[i]->max_tokens;
    return n;
}
