/* server/api/rendered_prompts.c - POST /v1/completions/render and /v1/chat/completions/render; see
 * text_endpoints.h.
 *
 * Offsets are found by comparing the prompt's text with the piece of each token in turn. Where a
 * piece does not match, normalization has changed the text before it was cut, and the answer has no
 * offsets.
 */
#include "server/api/text_endpoints.h"

#include "core/json/json.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/api_request.h"
#include "server/api/response/response_writer.h"

#include <inttypes.h>
#include <string.h>

/* ---- the place of each token in the text ---- */

struct walk {
    const char *text;
    size_t n, at;     /* bytes of the text; the tokens so far end at byte `at` */
    uint64_t n_chars; /* characters that begin before `at` */
};

static bool begins_char(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

/* A token that begins within a character also covers it: that character then belongs to the token
 * before and to this one, as in Hugging Face's tokenizers. */
static void pass(struct walk *w, size_t n, struct buf *out)
{
    const bool is_within = w->at < w->n && !begins_char(w->text[w->at]) && n > 0;
    const uint64_t begin = w->n_chars - (is_within ? 1 : 0);

    for (const size_t end = w->at + n; w->at < end; w->at++)
        w->n_chars += begins_char(w->text[w->at]);
    buf_printf(out, "[%" PRIu64 ",%" PRIu64 "]", begin, w->n_chars);
}

static bool rendered_fits(const struct walk *w, const char *piece, size_t n)
{
    return w->n - w->at >= n && memcmp(w->text + w->at, piece, n) == 0;
}

/* Append a token's offsets. False: they are unknown, because normalization has changed the text. A
 * space that SentencePiece adds before a text is not part of it, and special tokens that were added
 * have no offsets. */
static bool add_offset(struct walk *w, const struct tokenizer *t, int32_t id, bool is_added,
                       struct buf *out)
{
    size_t n;
    const char *piece = tokenizer_piece(t, id, &n);

    if (is_added) {
        buf_add_str(out, "[0,0]");
        return true;
    }
    if (!rendered_fits(w, piece, n) && w->at == 0 && n > 0 && piece[0] == ' ') {
        piece++;
        n--;
    }
    if (!rendered_fits(w, piece, n))
        return false;
    pass(w, n, out);
    return true;
}

static void add_offsets(struct buf *out, const struct tokenizer *t, const struct prompt *prompt)
{
    struct walk w = {.text = prompt->text, .n = prompt->n_text};
    bool are_known = prompt->is_text && prompt->text != NULL;
    struct buf list;

    buf_init(&list, out->max);
    for (size_t i = 0; i < prompt->ids.n && are_known; i++) {
        const bool is_added = (i == 0 && prompt->has_added_bos) || w.at == w.n;

        buf_add_str(&list, i > 0 ? "," : "[");
        are_known = add_offset(&w, t, prompt->ids.ids[i], is_added, &list);
    }
    buf_add_str(out, ",\"token_offsets\":");
    if (are_known && w.at == w.n) {
        buf_add(out, list.data, list.len);
        buf_add_char(out, ']');
    } else {
        buf_add_str(out, "null");
    }
    out->err = list.err < 0 ? list.err : out->err;
    buf_release(&list);
}

/* ---- the sampling, under vLLM's names ---- */

static void add_rendered_number(struct buf *out, const char *name, float v)
{
    buf_printf(out, ",\"%s\":", name);
    json_add_float(out, v);
}

static void add_flag(struct buf *out, const char *name, bool v)
{
    buf_printf(out, ",\"%s\":%s", name, v ? "true" : "false");
}

static void add_count(struct buf *out, const char *name, int64_t v)
{
    if (v < 0)
        buf_printf(out, ",\"%s\":null", name);
    else
        buf_printf(out, ",\"%s\":%" PRId64, name, v);
}

static void add_stops(struct buf *out, const struct params *p)
{
    buf_add_str(out, ",\"stop\":[");
    for (uint32_t i = 0; i < p->stop.n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        json_add_cstring(out, p->stop.text[i]);
    }
    buf_add_str(out, "],\"stop_token_ids\":[");
    for (uint32_t i = 0; i < p->n_stop_ids; i++)
        buf_printf(out, i > 0 ? ",%d" : "%d", p->stop_ids[i]);
    buf_add_char(out, ']');
}

static void add_sampling(struct buf *out, const struct params *p, uint32_t context,
                         uint32_t n_prompt)
{
    const struct sampling *s = &p->sampling;
    const uint32_t room = context - n_prompt;

    buf_printf(out, ",\"sampling_params\":{\"n\":%u,\"max_tokens\":%u,\"min_tokens\":%u", p->n,
               p->max_tokens < room ? p->max_tokens : room, p->min_tokens);
    add_count(out, "seed", p->has_seed ? (int64_t)(s->seed & INT64_MAX) : -1);
    add_rendered_number(out, "temperature", s->temperature);
    add_rendered_number(out, "top_p", s->top_p);
    buf_printf(out, ",\"top_k\":%d", s->top_k);
    add_rendered_number(out, "min_p", s->min_p);
    add_rendered_number(out, "repetition_penalty", s->repetition_penalty);
    add_rendered_number(out, "frequency_penalty", s->frequency_penalty);
    add_rendered_number(out, "presence_penalty", s->presence_penalty);
    add_stops(out, p);
    add_flag(out, "ignore_eos", p->ignore_eos);
    add_flag(out, "include_stop_str_in_output", p->includes_stop);
    add_flag(out, "skip_special_tokens", !p->shows_special);
    add_count(out, "logprobs", s->n_top);
    add_count(out, "prompt_logprobs", p->prompt_logprobs);
    buf_add_char(out, '}');
}

/* ---- the answers ---- */

static void add_rendered(struct api_request *p, const struct server_model *model,
                         const struct prompt *prompt)
{
    struct buf *out = &p->echo;

    buf_add_str(out, "{\"token_ids\":[");
    for (size_t i = 0; i < prompt->ids.n; i++)
        buf_printf(out, i > 0 ? ",%d" : "%d", prompt->ids.ids[i]);
    buf_add_char(out, ']');
    if (p->params.return_token_offsets)
        add_offsets(out, model->tokenizer, prompt);
    add_sampling(out, &p->params, model->max_context, (uint32_t)prompt->ids.n);
    buf_add_char(out, '}');
}

static int render(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    (void)body;
    buf_add_char(&p->echo, '[');
    for (uint32_t i = 0; i < p->params.n_prompts; i++) {
        if (i > 0)
            buf_add_char(&p->echo, ',');
        add_rendered(p, model, &p->prompts[i]);
    }
    buf_add_char(&p->echo, ']');
    return 0;
}

static int render_chat(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    (void)body;
    add_rendered(p, model, p->prompts);
    return 0;
}

/* Bytes of a token's id and offsets in the answer, for the memory that is counted before. */
#define ANSWER_BYTES 32

const struct wire_format wire_render = {.form = PARAMS_TEXT,
                                        .answer = render,
                                        .must_fit = true,
                                        .keeps_text = true,
                                        .answer_bytes = ANSWER_BYTES};
const struct wire_format wire_chat_render = {.form = PARAMS_CHAT,
                                             .answer = render_chat,
                                             .must_fit = true,
                                             .keeps_text = true,
                                             .answer_bytes = ANSWER_BYTES};
