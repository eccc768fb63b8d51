/* server/api/text_endpoints.c - see text_endpoints.h.
 *
 * Each endpoint is a wire format with an `answer` function, which writes the whole reply into the
 * request's echo, on the thread that has parsed the body. So such a call is an API call that ends
 * with its parse: on_ready() only sends the reply.
 */
#include "server/api/text_endpoints.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/api_call.h"
#include "server/api/engine_client.h"
#include "server/api/params/field.h"
#include "server/api/refusal.h"
#include "server/api/response/response_writer.h"
#include "server/http/http_call.h"

#include <string.h>

/* ---- /tokenize ---- */

static int read_text_flag(const cJSON *body, const char *name, bool *out, struct api_error *e)
{
    const cJSON *v = field_find(body, name);

    return v != NULL ? field_bool(v, name, out, e) : 0;
}

static void add_token_piece(struct buf *out, const struct tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *piece = tokenizer_piece(t, id, &n);

    buf_printf(out, "{\"id\":%d,\"piece\":", id);
    if (json_is_utf8(piece, n)) {
        json_add_string(out, piece, n);
    } else {
        for (size_t i = 0; i < n; i++)
            buf_printf(out, "%c%u", i > 0 ? ',' : '[', (unsigned char)piece[i]);
        buf_add_char(out, ']');
    }
    buf_add_char(out, '}');
}

/* Append "KEY":[…], with the tokens' pieces in `t` unless that is NULL. */
static void add_id_list(struct buf *out, const char *key, const struct token_list *list,
                        const struct tokenizer *t)
{
    buf_printf(out, "\"%s\":[", key);
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        if (t != NULL)
            add_token_piece(out, t, list->ids[i]);
        else
            buf_printf(out, "%d", list->ids[i]);
    }
    buf_add_char(out, ']');
}

static void add_tokens(struct buf *out, const struct token_list *list, const struct tokenizer *t)
{
    add_id_list(out, "tokens", list, t);
}

/* ,"token_strs":[…]: vLLM's pieces */
static void add_strings(struct buf *out, const struct token_list *list, const struct tokenizer *t)
{
    buf_add_str(out, ",\"token_strs\":[");
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        logprobs_add_token(out, t, list->ids[i]);
    }
    buf_add_char(out, ']');
}

static void add_count(struct buf *out, const struct token_list *list,
                      const struct server_model *model)
{
    buf_printf(out, "\"count\":%zu,\"max_model_len\":%u,", list->n, model->max_context);
}

/* Tokenize with more steps for a longer text: bodies may be as large as max_body, and take at most
 * some 5 steps a byte. A normalizer may make several tokens of a byte; each is a step. */
static int encode_text(struct api_request *p, const struct tokenizer *t, const char *name,
                       const char *text, unsigned flags, struct token_list *list)
{
    const size_t n = strlen(text);

    if (p->budget != NULL)
        p->budget->steps_left += 8 * (uint64_t)n;
    if (tokenizer_encode(t, text, n, flags, SIZE_MAX, p->budget, list) == 0)
        return 0;
    if (budget_error(p->budget) == 0)
        return api_error_no_memory(&p->error);
    return api_error_set(&p->error, 400, name, NULL, "'%s' takes too many steps to tokenize", name);
}

static int encode(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    const cJSON *content = field_find(body, "content"), *prompt = field_find(body, "prompt");
    const bool is_vllm = content == NULL && prompt != NULL;
    const cJSON *text = is_vllm ? prompt : content;
    const char *name = is_vllm ? "prompt" : "content";
    bool add_special = is_vllm, parse_special = true, with_pieces = false;
    bool with_strings = false;
    struct token_list list = {0};
    int rc;

    if (!cJSON_IsString(text))
        return api_error_set(&p->error, 400, name, NULL, "'%s' must be a string", name);
    if (read_text_flag(body, "add_special", &add_special, &p->error) < 0 ||
        read_text_flag(body, "add_special_tokens", &add_special, &p->error) < 0 ||
        read_text_flag(body, "parse_special", &parse_special, &p->error) < 0 ||
        read_text_flag(body, "with_pieces", &with_pieces, &p->error) < 0 ||
        read_text_flag(body, "return_token_strs", &with_strings, &p->error) < 0)
        return ERR_INVAL;
    rc = encode_text(p, model->tokenizer, name, text->valuestring,
                     (add_special ? TOKENIZER_ADD_SPECIAL : 0u) |
                         (parse_special ? TOKENIZER_PARSE_SPECIAL : 0u),
                     &list);
    if (rc < 0)
        return rc;
    buf_add_char(&p->echo, '{');
    if (is_vllm)
        add_count(&p->echo, &list, model);
    add_tokens(&p->echo, &list, with_pieces ? model->tokenizer : NULL);
    if (with_strings)
        add_strings(&p->echo, &list, model->tokenizer);
    buf_add_char(&p->echo, '}');
    token_list_release(&list);
    return 0;
}

static int encode_chat(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    bool with_strings = false;

    if (read_text_flag(body, "return_token_strs", &with_strings, &p->error) < 0)
        return ERR_INVAL;
    buf_add_char(&p->echo, '{');
    add_count(&p->echo, &p->prompts->ids, model);
    add_tokens(&p->echo, &p->prompts->ids, NULL);
    if (with_strings)
        add_strings(&p->echo, &p->prompts->ids, model->tokenizer);
    buf_add_char(&p->echo, '}');
    return 0;
}

static const struct wire_format *pick(const cJSON *body)
{
    static const struct wire_format text = {.answer = encode},
                                    chat = {.form = PARAMS_CHAT, .answer = encode_chat};

    return field_find(body, "messages") != NULL ? &chat : &text;
}

/* Bytes of the answer: each byte of the body may become a token in a list, and a number in the
 * answer. */
const struct wire_format wire_tokenize = {.pick = pick, .answer = encode, .answer_bytes = 12};

/* ---- /detokenize ---- */

static int decode(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    const cJSON *tokens = field_find(body, "tokens");
    const int32_t n_vocab = tokenizer_n_vocab(model->tokenizer);
    struct detok d;
    struct buf text;

    if (!cJSON_IsArray(tokens))
        return api_error_set(&p->error, 400, "tokens", NULL,
                             "'tokens' must be an array of token ids");
    buf_init(&text, HTTP_MAX_REPLY / 8);
    detok_init(&d, model->tokenizer, true);
    d.show_control = true;
    for (const cJSON *it = tokens->child; it != NULL && p->error.status == 0; it = it->next) {
        if (!field_is_int(it, 0, n_vocab - 1))
            api_error_set(&p->error, 400, "tokens", NULL,
                          "'tokens' must hold token ids between 0 and %d", n_vocab - 1);
        else if (budget_spend(p->budget, 1) < 0)
            api_error_set(&p->error, 400, "tokens", NULL,
                          "'tokens' takes too many steps to detokenize");
        else
            detok_feed(&d, (int32_t)it->valuedouble, &text);
    }
    detok_finish(&d, &text);
    buf_add_str(&p->echo, field_find(body, "model") != NULL ? "{\"prompt\":" : "{\"content\":");
    json_add_string(&p->echo, text.data, text.len);
    buf_add_char(&p->echo, '}');
    if (text.err < 0)
        p->echo.err = text.err;
    buf_release(&text);
    return p->error.status == 0 ? 0 : ERR_INVAL;
}

const struct wire_format wire_detokenize = {.answer = decode, .answer_bytes = 12};

/* ---- chats ---- */

static int add_rendered_prompt(struct api_request *p, const struct server_model *model,
                               const cJSON *body)
{
    (void)model, (void)body;
    buf_add_str(&p->echo, "{\"prompt\":");
    json_add_string(&p->echo, p->prompts->text, p->prompts->n_text);
    buf_add_char(&p->echo, '}');
    return 0;
}

const struct wire_format wire_apply_template = {
    .form = PARAMS_CHAT, .keeps_text = true, .answer = add_rendered_prompt};

static int count_tokens(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    (void)model, (void)body;
    buf_printf(&p->echo, "{\"input_tokens\":%zu", p->prompts->ids.n);
    if (p->params.edits.is_wanted)
        buf_printf(&p->echo, ",\"context_management\":{\"original_input_tokens\":%u}",
                   p->params.edits.n_original);
    buf_add_char(&p->echo, '}');
    return 0;
}

const struct wire_format wire_count_tokens = {.form = PARAMS_COUNT, .answer = count_tokens};

static int count_input(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    (void)model, (void)body;
    buf_printf(&p->echo, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}",
               p->prompts->ids.n);
    return 0;
}

const struct wire_format wire_chat_input_tokens = {.form = PARAMS_CHAT, .answer = count_input};
const struct wire_format wire_input_tokens = {.form = PARAMS_RESPONSES, .answer = count_input};
