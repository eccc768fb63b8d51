/* server/api/api_request_prompts.c - the prompts of a body as tokens; see api_request.h. */
#include "server/api/api_request_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/chat/chat.h"
#include "server/api/infill.h"
#include "server/api/response/response_writer.h"
#include "server/http/http_call.h"

#include <string.h>
#include <xxhash.h>

int api_request_no_memory(struct api_request *p)
{
    return api_error_no_memory(&p->error);
}

/* What the client called the text. */
static const char *text_field(const struct api_request *p)
{
    switch (p->params.form) {
    case PARAMS_CHAT:
    case PARAMS_MESSAGES:
    case PARAMS_COUNT:
        return "messages";
    case PARAMS_RESPONSES:
    case PARAMS_EMBED:
        return "input";
    default:
        return "prompt";
    }
}

/* Why tokenizing has failed, if not for lack of room in the context: steps, or memory. */
int api_request_cannot_encode(struct api_request *p)
{
    if (budget_error(p->budget) == 0)
        return api_request_no_memory(p);
    return api_error_set(&p->error, 400, text_field(p), NULL,
                         "'%s' takes too many steps to tokenize", text_field(p));
}

int api_request_too_long(struct api_request *p, const struct server_model *model)
{
    p->reason = REJECTION_CONTEXT;
    return api_error_set(&p->error, 400, text_field(p), "context_length_exceeded",
                         "this model's context is %u tokens, and the prompt leaves no room in it",
                         model->max_context);
}

/* prompt->text as ids. A client's own prompt may name special tokens anywhere, and gets those that
 * the model begins with; a chat's, which has them, only in the spans (else NULL). */
static int encode_text(struct api_request *p, const struct server_model *model,
                       struct prompt *prompt, const struct spans *own)
{
    const struct tokenizer *t = model->tokenizer;
    const int32_t bos = tokenizer_bos(t);
    const uint32_t max = model->max_context;
    const int rc =
        own != NULL ? tokenizer_encode_own(t, prompt->text, prompt->n_text, own, max, p->budget,
                                           &prompt->ids)
                    : tokenizer_encode(t, prompt->text, prompt->n_text,
                                       TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, max,
                                       p->budget, &prompt->ids);

    prompt->is_text = true;
    if (rc == ERR_LIMIT && budget_error(p->budget) == 0)
        return api_request_too_long(p, model);
    if (rc < 0)
        return api_request_cannot_encode(p);
    if (prompt->ids.n == 0) { /* something must come before the first token */
        if (bos == TOKEN_NONE)
            return api_error_set(&p->error, 400, "prompt", NULL,
                                 "the prompt is empty and this model has no token to begin with");
        prompt->ids.ids = mem_dup(&bos, sizeof(bos));
        if (prompt->ids.ids == NULL)
            return api_request_no_memory(p);
        prompt->ids.n = prompt->ids.cap = 1;
        prompt->has_added_bos = true;
    } else {
        prompt->has_added_bos = tokenizer_adds_bos(t) && prompt->ids.ids[0] == bos;
    }
    return 0;
}

/* The text of an echoed list of ids; control tokens are no text. */
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

/* An id, or a text; only the first text of a prompt gets BOS and a prefix space. */
static int add_part(struct api_request *p, struct prompt *prompt,
                    const struct server_model *model, const cJSON *v, bool is_first)
{
    const unsigned flags = (is_first ? TOKENIZER_ADD_SPECIAL : 0u) | TOKENIZER_PARSE_SPECIAL;
    const size_t max = model->max_context;

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
        rc = add_part(p, prompt, model, it, it == list->child);
    if (rc == ERR_LIMIT && budget_error(p->budget) == 0)
        return api_request_too_long(p, model);
    if (rc < 0)
        return api_request_cannot_encode(p);
    if (prompt->ids.n == 0)
        return api_error_set(&p->error, 400, "prompt", NULL, "the prompt is empty");
    return p->params.echo ? decode_ids(p, model->tokenizer, prompt) : 0;
}

static int take_text(struct api_request *p, const struct server_model *model,
                     struct prompt *prompt, const cJSON *v)
{
    prompt->n_text = strlen(v->valuestring);
    prompt->text = mem_strdup(v->valuestring);
    if (prompt->text == NULL)
        return api_request_no_memory(p);
    return encode_text(p, model, prompt, NULL);
}

/* The text that the model reads. A constraint is for content, not for thoughts: what the server
 * writes to end them is no client's either. */
static int render_chat(struct api_request *p, const struct server_model *model,
                       struct prompt *prompt, struct buf *text, struct spans *own)
{
    const struct output_style *style = chat_style(model->chat);
    int rc = chat_render(model->chat, &p->params, p->budget, text, own, &p->error);
    size_t n;

    if (rc == 0 && text->data == NULL && buf_add_str(text, "") < 0)
        rc = api_request_no_memory(p);
    if (rc < 0)
        return rc;
    n = text->len;
    prompt->thinks = output_parser_prompt_thinks(style, text->data, n);
    if (prompt->thinks && p->constraint != NULL) {
        output_parser_close_thought(style, text);
        spans_add(own, n, text->len);
        prompt->thinks = false;
    }
    return text->err < 0 || own->err < 0 ? api_request_no_memory(p) : 0;
}

/* A template writes the special tokens out, the first one as well. */
static int take_chat(struct api_request *p, const struct server_model *model,
                     struct prompt *prompt)
{
    struct spans own = {0};
    struct buf text;
    int rc;

    buf_init(&text, CHAT_MAX_PROMPT);
    rc = render_chat(p, model, prompt, &text, &own);
    if (rc == 0) {
        prompt->text = buf_detach(&text, &prompt->n_text);
        rc = encode_text(p, model, prompt, &own);
    }
    buf_release(&text);
    spans_release(&own);
    return rc;
}

static int take_infill(struct api_request *p, const struct server_model *model,
                       struct prompt *prompt, const cJSON *v)
{
    const int rc = infill_encode(model->tokenizer, &p->params.infill, v, model->max_context,
                                 p->budget, &prompt->ids);

    if (rc == ERR_LIMIT && budget_error(p->budget) == 0)
        return api_request_too_long(p, model);
    return rc < 0 ? api_request_cannot_encode(p) : 0;
}

static int take_prompt(struct api_request *p, const struct server_model *model, uint32_t i)
{
    const cJSON *v;

    if ((p->params.form & PARAMS_CHATS) != 0)
        return take_chat(p, model, &p->prompts[i]);
    v = params_prompt(&p->params, i);
    if (p->params.infill.suffix != NULL)
        return take_infill(p, model, &p->prompts[i], v);
    return cJSON_IsString(v) ? take_text(p, model, &p->prompts[i], v)
                             : take_parts(p, model, &p->prompts[i], v);
}

/* The first prompt with the same tokens; the prompts before it are complete. */
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

int api_request_make_prompt(struct api_request *p, const struct server_model *model, uint32_t i)
{
    struct prompt *prompt = &p->prompts[i];
    const int rc = take_prompt(p, model, i);

    if (rc < 0)
        return rc;
    if (!p->params.echo && !p->wire_format->keeps_text) {
        mem_free(prompt->text);
        prompt->text = NULL;
    }
    buf_init(&prompt->scores, HTTP_MAX_REPLY);
    prompt->at_start = true;
    for (size_t k = 0; k < prompt->ids.n; k++)
        prompt->at_start =
            prompt->at_start && tokenizer_is_control(model->tokenizer, prompt->ids.ids[k]);
    if (p->constraint != NULL) /* a leading blank is then the constraint's */
        prompt->at_start = false;
    find_twin(p, i);
    return 0;
}
