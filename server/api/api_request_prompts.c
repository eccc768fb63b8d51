/* server/api/api_request_prompts.c - the prompts of a body as tokens; see api_request.h.
 *
 * Every prompt is treated in the same way: its text is tokenized, or its ids are taken; it is cut
 * where the body allows that; and it gets the number of the first prompt with the same tokens, so
 * that equal prompts of a request are computed once. A text is dropped as soon as it is tokenized,
 * unless the answer repeats it.
 */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/chat/chat.h"
#include "server/api/infill.h"
#include "server/api/params/field.h"
#include "server/api/response/response_writer.h"
#include "server/http/http_call.h"

#include <string.h>
#include <xxhash.h>

int api_request_no_memory(struct api_request *p)
{
    return api_error_no_memory(&p->error);
}

const char *api_request_text_field(const struct api_request *p)
{
    switch (p->params.form) {
    case PARAMS_CHAT:
    case PARAMS_MESSAGES:
    case PARAMS_COUNT:
    case PARAMS_OLLAMA_CHAT:
        return "messages";
    case PARAMS_RERANK:
        return p->params.is_texts ? "texts" : "documents";
    case PARAMS_SCORE:
        return "text_2";
    case PARAMS_SCORING:
        return "items";
    case PARAMS_COHERE_EMBED:
        return p->params.has_inputs ? "inputs" : "texts";
    case PARAMS_CLASSIFY:
    case PARAMS_POOL:
        return "input";
    case PARAMS_EMBED:
        return p->params.has_content ? "content" : "input";
    case PARAMS_RESPONSES:
    case PARAMS_OLLAMA_EMBED:
    case PARAMS_DECIDE:
        return "input";
    case PARAMS_SYSTEMONE:
        return "state";
    default:
        return "prompt";
    }
}

/* Set the error of a tokenizing that failed because steps or memory were used up. */
int api_request_cannot_encode(struct api_request *p)
{
    if (budget_error(p->budget) == 0)
        return api_request_no_memory(p);
    return api_error_set(&p->error, 400, api_request_text_field(p), NULL,
                         "'%s' takes too many steps to tokenize", api_request_text_field(p));
}

int api_request_too_long(struct api_request *p, const struct server_model *model, uint32_t n_prompt)
{
    char size[32] = "";

    p->reason = REJECTION_CONTEXT;
    if (n_prompt > 0)
        snprintf(size, sizeof(size), " of %u", n_prompt);
    api_error_set(&p->error, 400, api_request_text_field(p), "context_length_exceeded",
                  "this model's maximum context length is %u tokens: the prompt%s%s exceeds the "
                  "available context size, or leaves no room in it",
                  api_request_context(p, model),
                  (p->params.form & PARAMS_DECISIONS) != 0 ? ", which is the input and a question,"
                                                           : "",
                  size);
    if ((p->params.form & PARAMS_LLAMA) != 0) {
        p->error.type = "exceed_context_size_error";
        p->error.n_prompt_tokens = n_prompt;
        p->error.n_ctx = api_request_context(p, model);
    }
    return ERR_INVAL;
}

/* True: a prompt that is too long for the context is an error. It is not when tokens are only
 * counted. */
static bool must_fit(const struct api_request *p)
{
    return p->wire_format->answer == NULL || p->wire_format->must_fit;
}

bool api_request_may_cut(const struct api_request *p)
{
    return p->params.cuts_middle && !p->params.ends_with_context;
}

/* Return the most ids to make of a text. A prompt that is cut or edited may first be longer than
 * the context, and llama-server's clients get the length of a refused one. A token has at least one
 * byte, of which a normalization may make 4; some tokens may be added. */
static size_t max_ids(const struct api_request *p, const struct server_model *model, size_t n_text)
{
    const size_t context = api_request_context(p, model), most = n_text * 4 + 16;

    if (p->params.max_prompt == 0 && (p->params.form & PARAMS_LLAMA) == 0 &&
        p->params.edits.n == 0 && must_fit(p) && !api_request_may_cut(p) && !model->only_decides)
        return context;
    return most > context ? most : context;
}

/* Decode the ids of a prompt that is echoed; control tokens are not text. */
static int decode_ids(struct api_request *p, const struct tokenizer *t, struct prompt *prompt)
{
    struct detok d;
    struct buf text;

    buf_init(&text, HTTP_MAX_REPLY / 4);
    detok_init(&d, t, true);
    for (size_t i = 0; i < prompt->ids.n; i++)
        detok_feed(&d, prompt->ids.ids[i], &text);
    detok_finish(&d, &text);
    if (text.err < 0) {
        buf_release(&text);
        return api_request_no_memory(p);
    }
    prompt->text = buf_detach(&text, &prompt->n_text);
    return 0;
}

/* Return the length to which a prompt is cut: the body's, or the one that leaves room for the
 * answer. */
static uint32_t cut_to(const struct api_request *r, const struct server_model *model)
{
    const struct params *p = &r->params;
    const uint32_t context = api_request_context(r, model);
    uint32_t answer = p->max_tokens < context ? p->max_tokens : context - 1;

    if (p->max_tokens == PARAMS_NO_LIMIT)
        answer = 1;
    if (p->form == PARAMS_COHERE_EMBED && p->max_prompt > context)
        return context;
    return p->max_prompt == UINT32_MAX ? context - answer : p->max_prompt;
}

struct prompt_ends api_request_ends(const struct api_request *p, const struct tokenizer *t)
{
    if (p->params.has_add_special && !p->params.add_special)
        return (struct prompt_ends){0};
    return (struct prompt_ends){tokenizer_adds_bos(t) ? 1u : 0u, tokenizer_n_behind(t)};
}

/* Cut the prompt to `most` tokens at the beginning or the end of its text; the special tokens
 * around the text stay if there is room for them. */
static void cut_between(const struct params *p, struct prompt_ends e, uint32_t most,
                        struct token_list *list)
{
    int32_t *ids = list->ids;
    const uint32_t room = most - e.before - e.behind;

    if (most >= e.before + e.behind && p->cuts_end)
        memmove(ids + e.before + room, ids + list->n - e.behind, e.behind * sizeof(*ids));
    else if (most >= e.before + e.behind)
        memmove(ids + e.before, ids + list->n - e.behind - room, (room + e.behind) * sizeof(*ids));
    list->n = most;
}

/* Cut a prompt that is too long; an echo then has the text of the remaining tokens. */
static int fit_prompt(struct api_request *p, const struct server_model *model,
                      struct prompt *prompt)
{
    const uint32_t most = cut_to(p, model);
    struct token_list *list = &prompt->ids;

    if (p->params.max_prompt > 0 && list->n > most) {
        if (p->params.form == PARAMS_COHERE_EMBED)
            cut_between(&p->params, api_request_ends(p, model->tokenizer), most, list);
        else if (!p->params.cuts_end)
            memmove(list->ids, list->ids + (list->n - most), most * sizeof(*list->ids));
        else if ((p->params.form & PARAMS_OLLAMA) != 0 &&
                 tokenizer_is_control(model->tokenizer, list->ids[list->n - 1]))
            list->ids[most - 1] = list->ids[list->n - 1]; /* Ollama cuts the text before the token
                                                           * that ends it */
        prompt->has_added_bos = prompt->has_added_bos && p->params.cuts_end;
        prompt->is_text = false;
        list->n = most;
        mem_free(prompt->text);
        prompt->text = NULL;
        if (p->params.echo && decode_ids(p, model->tokenizer, prompt) < 0)
            return ERR_NOMEM;
    }
    if (api_request_may_cut(p) && list->n >= api_request_context(p, model)) {
        api_request_cut_middle(&p->params, model->tokenizer, api_request_context(p, model), list);
        prompt->is_text = false;
    }
    if (p->params.max_text > 0 && list->n > p->params.max_text)
        return api_error_set(&p->error, 400, api_request_text_field(p), NULL,
                             "a text has %zu tokens, more than 'max_tokens' %u, and 'truncate' is "
                             "NONE",
                             list->n, p->params.max_text);
    if (list->n > api_request_context(p, model) && must_fit(p))
        return api_request_too_long(p, model, (uint32_t)list->n);
    return 0;
}

static int prepend(struct token_list *list, int32_t id, size_t max)
{
    const int rc = token_list_add(list, id, max);

    if (rc < 0)
        return rc;
    memmove(list->ids + 1, list->ids, (list->n - 1) * sizeof(*list->ids));
    list->ids[0] = id;
    return 0;
}

int api_request_encode_text(struct api_request *p, const struct server_model *model,
                            struct prompt *prompt, const struct spans *own)
{
    const bool adds = p->params.has_add_special ? p->params.add_special : own == NULL;
    const unsigned flags = (adds ? TOKENIZER_ADD_SPECIAL : 0u) | TOKENIZER_PARSE_SPECIAL;
    const struct tokenizer *t = model->tokenizer;
    const int32_t bos = tokenizer_bos(t);
    const size_t max = max_ids(p, model, prompt->n_text);
    int rc = own != NULL ? tokenizer_encode_own(t, prompt->text, prompt->n_text, own, max,
                                                p->budget, &prompt->ids)
                         : tokenizer_encode(t, prompt->text, prompt->n_text, flags, max, p->budget,
                                            &prompt->ids);

    prompt->is_text = true;
    if (rc == 0 && own != NULL && adds && bos != TOKEN_NONE)
        rc = prepend(&prompt->ids, bos, max);
    if (rc == ERR_LIMIT && budget_error(p->budget) == 0)
        return api_request_too_long(p, model, 0);
    if (rc < 0)
        return api_request_cannot_encode(p);
    if (prompt->ids.n == 0) { /* the model needs a token before the first one that it generates */
        if (bos == TOKEN_NONE)
            return api_error_set(
                &p->error, 400, "prompt", NULL,
                "the prompt is empty, and this model has no BOS token to begin with");
        prompt->ids.ids = mem_dup(&bos, sizeof(bos));
        if (prompt->ids.ids == NULL)
            return api_request_no_memory(p);
        prompt->ids.n = prompt->ids.cap = 1;
        prompt->has_added_bos = true;
    } else {
        prompt->has_added_bos = adds && tokenizer_adds_bos(t) && prompt->ids.ids[0] == bos;
    }
    return 0;
}

int api_request_take_prediction(struct api_request *p, const struct server_model *model)
{
    const uint32_t max = api_request_context(p, model);
    const int rc = tokenizer_encode(model->tokenizer, p->params.prediction.data,
                                    p->params.prediction.len, 0, max, p->budget, &p->prediction);

    if (rc == ERR_LIMIT && budget_error(p->budget) == 0)
        return api_error_set(&p->error, 400, "prediction", NULL,
                             "'prediction' is longer than the longest possible answer (%u tokens)",
                             max);
    if (rc == ERR_LIMIT || budget_error(p->budget) < 0)
        return api_error_set(&p->error, 400, "prediction", NULL,
                             "'prediction' takes too many steps to tokenize");
    return rc < 0 ? api_request_no_memory(p) : 0;
}

/* Take the text with which the model's family ends a thought, if no other is set. A vocabulary that
 * makes too many tokens of it is not that of the family, and gets none. */
static int take_closing(struct api_request *p, const struct server_model *model)
{
    const char *text = chat_style(chat_for(model->chat, &p->params))->closing;
    int rc;

    if (text == NULL ||
        (p->params.thinking_budget == THOUGHT_NO_LIMIT && !p->params.reasoning_control))
        return 0;
    rc = tokenizer_encode(model->tokenizer, text, strlen(text), TOKENIZER_PARSE_SPECIAL,
                          REQUEST_MAX_MESSAGE, NULL, &p->budget_message);
    if (rc < 0)
        token_list_release(&p->budget_message);
    return rc == ERR_NOMEM ? api_request_no_memory(p) : 0;
}

int api_request_take_budget_message(struct api_request *p, const struct server_model *model)
{
    const char *name = "reasoning_budget_message", *text = p->params.budget_message;
    int rc;

    if (text == NULL && (p->params.form & PARAMS_TURNS) != 0 && model->chat != NULL)
        return take_closing(p, model);

    p->params.budget_message = NULL; /* it may point into the JSON tree */
    if (text == NULL || text[0] == '\0')
        return 0;
    rc = tokenizer_encode(model->tokenizer, text, strlen(text), 0, REQUEST_MAX_MESSAGE, p->budget,
                          &p->budget_message);
    if (rc == ERR_LIMIT && budget_error(p->budget) == 0)
        return api_error_set(&p->error, 400, name, NULL, "'%s' must have at most %d tokens", name,
                             REQUEST_MAX_MESSAGE);
    if (budget_error(p->budget) < 0)
        return api_error_set(&p->error, 400, name, NULL, "'%s' takes too many steps to tokenize",
                             name);
    return rc < 0 ? api_request_no_memory(p) : 0;
}

/* Append an id or a text; only the first text of a prompt gets BOS and a prefix space. */
static int add_prompt_part(struct api_request *p, struct prompt *prompt,
                           const struct server_model *model, const cJSON *v, bool is_first)
{
    const bool adds = is_first && (!p->params.has_add_special || p->params.add_special);
    const unsigned flags = (adds ? TOKENIZER_ADD_SPECIAL : 0u) | TOKENIZER_PARSE_SPECIAL;
    const size_t max = max_ids(p, model, HTTP_MAX_REPLY / 64);

    if (!cJSON_IsString(v))
        return token_list_add(&prompt->ids, (int32_t)v->valuedouble, max);
    return tokenizer_encode(model->tokenizer, v->valuestring, strlen(v->valuestring), flags, max,
                            p->budget, &prompt->ids);
}

/* The ids were checked against the vocabulary by params_parse(). */
static int take_parts(struct api_request *p, const struct server_model *model,
                      struct prompt *prompt, const cJSON *list)
{
    int rc = 0;

    for (const cJSON *it = list->child; rc == 0 && it != NULL; it = it->next)
        rc = add_prompt_part(p, prompt, model, it, it == list->child);
    if (rc == ERR_LIMIT && budget_error(p->budget) == 0)
        return api_request_too_long(p, model, 0);
    if (rc < 0)
        return api_request_cannot_encode(p);
    if (prompt->ids.n == 0)
        return api_error_set(&p->error, 400, "prompt", NULL, "the prompt is empty");
    return p->params.echo ? decode_ids(p, model->tokenizer, prompt) : 0;
}

static int take_prompt_text(struct api_request *p, const struct server_model *model,
                            struct prompt *prompt, const cJSON *v)
{
    prompt->n_text = strlen(v->valuestring);
    prompt->text = mem_strdup(v->valuestring);
    if (prompt->text == NULL)
        return api_request_no_memory(p);
    return api_request_encode_text(p, model, prompt, NULL);
}

static int take_infill(struct api_request *p, const struct server_model *model,
                       struct prompt *prompt, const cJSON *v)
{
    const int rc = infill_encode(model->tokenizer, &p->params.infill, v,
                                 api_request_context(p, model), p->budget, &prompt->ids);

    if (rc == ERR_LIMIT && budget_error(p->budget) == 0)
        return api_request_too_long(p, model, 0);
    return rc < 0 ? api_request_cannot_encode(p) : 0;
}

static int take_prompt(struct api_request *p, const struct server_model *model, uint32_t i)
{
    const cJSON *v;

    if ((p->params.form & PARAMS_DECISIONS) != 0 && model->decider != NULL)
        return api_request_take_trained(p, model, i);
    if (params_has_turns(&p->params))
        return api_request_take_chat(p, model, &p->prompts[i]);
    if ((p->params.form & PARAMS_PAIRS) != 0)
        return api_request_take_pair(p, model, i);
    if (p->params.form == PARAMS_SCORING)
        return api_request_take_item(p, model, i);
    v = params_prompt(&p->params, i);
    if (cJSON_IsObject(v))
        v = field_find(v, "prompt_string");
    if (p->params.infill.suffix != NULL)
        return take_infill(p, model, &p->prompts[i], v);
    return cJSON_IsString(v) ? take_prompt_text(p, model, &p->prompts[i], v)
                             : take_parts(p, model, &p->prompts[i], v);
}

/* Find the first prompt with the same tokens as prompt i; the prompts before i are complete. */
static void find_twin(struct api_request *p, uint32_t i)
{
    struct prompt *prompt = &p->prompts[i];

    prompt->hash = XXH3_64bits(prompt->ids.ids, prompt->ids.n * sizeof(*prompt->ids.ids));
    for (prompt->twin = 0; prompt->twin < i; prompt->twin++) {
        const struct prompt *other = &p->prompts[prompt->twin];

        if (other->hash == prompt->hash && other->ids.n == prompt->ids.n &&
            memcmp(other->ids.ids, prompt->ids.ids, prompt->ids.n * sizeof(*prompt->ids.ids)) == 0)
            return;
    }
}

static uint32_t count_shared(const struct token_list *a, const struct token_list *b)
{
    const size_t most = a->n < b->n ? a->n : b->n;
    size_t n = 0;

    while (n < most && a->ids[n] == b->ids[n])
        n++;
    return (uint32_t)n;
}

/* Find the most tokens that prompt i has in common with the beginning of an earlier prompt. */
static void find_shared(struct api_request *p, uint32_t i)
{
    struct prompt *prompt = &p->prompts[i];
    const struct token_list *own = &prompt->ids;

    for (uint32_t k = i; k-- > 0;) {
        const struct token_list *other = &p->prompts[k].ids;
        const uint32_t n = prompt->n_shared;

        if (n < own->n && n < other->n && own->ids[n] == other->ids[n]) {
            const uint32_t more = count_shared(own, other);

            prompt->n_shared = more > n ? more : n;
        }
    }
}

int api_request_make_prompt(struct api_request *p, const struct server_model *model, uint32_t i)
{
    struct prompt *prompt = &p->prompts[i];
    int rc = take_prompt(p, model, i);

    if (rc == 0)
        rc = fit_prompt(p, model, prompt);
    if (rc < 0)
        return rc;
    if (i == 0 && (p->params.form & PARAMS_TURNS) != 0 &&
        api_request_place_breakpoints(p, model, prompt) < 0)
        return ERR_INVAL;
    if (!p->params.echo && !p->params.return_documents && !p->wire_format->keeps_text) {
        mem_free(prompt->text);
        prompt->text = NULL;
    }
    buf_init(&prompt->scores, HTTP_MAX_REPLY);
    prompt->at_start = true;
    for (size_t k = 0; k < prompt->ids.n; k++)
        prompt->at_start =
            prompt->at_start && tokenizer_is_control(model->tokenizer, prompt->ids.ids[k]);
    if (p->constraint != NULL) /* a leading blank is part of the constrained text */
        prompt->at_start = false;
    find_twin(p, i);
    if (p->params.n_prompts <= SERVER_DRY_RUNS || p->params.deadline_ms > 0)
        find_shared(p, i);
    return 0;
}
