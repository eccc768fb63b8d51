/* server/api/response/logprobs.c - log-probabilities as JSON text.
 *
 * Each entry is rendered when its token comes and never parsed again; an answer only puts brackets
 * around the buffers. A token whose bytes are not UTF-8 gets a name of hexadecimal digits. In
 * objects keyed by text, of several tokens with equal text the chosen one is kept, else the best.
 */
#include "server/api/response/logprobs.h"

#include "core/json/json.h"
#include "core/tokenizer/tokenizer.h"
#include "server/http/http_call.h"

#include <string.h>

void logprobs_init(struct logprobs *l)
{
    l->n = 0;
    buf_init(&l->tokens, HTTP_MAX_REPLY / 4);
    buf_init(&l->values, HTTP_MAX_REPLY / 4);
    buf_init(&l->tops, HTTP_MAX_REPLY);
    buf_init(&l->offsets, HTTP_MAX_REPLY / 4);
}

void logprobs_release(struct logprobs *l)
{
    buf_release(&l->tokens);
    buf_release(&l->values);
    buf_release(&l->tops);
    buf_release(&l->offsets);
}

void logprobs_clear(struct logprobs *l)
{
    l->n = 0;
    buf_clear(&l->tokens);
    buf_clear(&l->values);
    buf_clear(&l->tops);
    buf_clear(&l->offsets);
}

void logprobs_add_token(struct buf *b, const struct tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *piece = tokenizer_piece(t, id, &n);

    if (json_is_utf8(piece, n)) {
        json_add_string(b, piece, n);
        return;
    }
    buf_add_str(b, "\"bytes:");
    for (size_t i = 0; i < n; i++)
        buf_printf(b, "\\\\x%02x", (unsigned char)piece[i]);
    buf_add_char(b, '"');
}

static void add_token_name(struct buf *b, const struct tokenizer *t, const struct logprob_entry *e,
                           int32_t id)
{
    if (e->as_ids)
        buf_printf(b, "\"token_id:%d\"", id);
    else
        logprobs_add_token(b, t, id);
}

/* Do two ids have the same text? A JSON object should have each key once. */
static bool has_same_text(const struct tokenizer *t, const struct logprob_entry *e, int32_t a,
                          int32_t b)
{
    size_t n_a = 0, n_b = 0;
    const char *text_a = tokenizer_piece(t, a, &n_a);
    const char *text_b = tokenizer_piece(t, b, &n_b);

    if (e->as_ids)
        return a == b;
    return n_a == n_b && memcmp(text_a, text_b, n_a) == 0;
}

static void add_logprob_member(struct buf *b, const struct tokenizer *t,
                               const struct logprob_entry *e, int32_t id, float logprob)
{
    if (b->data[b->len - 1] != '{')
        buf_add_char(b, ',');
    add_token_name(b, t, e, id);
    buf_add_char(b, ':');
    json_add_float(b, logprob);
}

/* Appends the alternatives, best first, and the token itself if it is not among them. */
static void add_top(struct buf *b, const struct tokenizer *t, const struct logprob_entry *e)
{
    bool seen = false;

    if (buf_add_char(b, '{') < 0)
        return;
    for (uint32_t i = 0; i < e->n_top; i++) {
        bool is_duplicate = false;

        if (e->top[i].id != e->id && has_same_text(t, e, e->top[i].id, e->id))
            continue; /* the key belongs to the token that was chosen */
        for (uint32_t k = 0; k < i; k++)
            is_duplicate = is_duplicate || has_same_text(t, e, e->top[i].id, e->top[k].id);
        if (is_duplicate)
            continue;
        seen = seen || e->top[i].id == e->id;
        add_logprob_member(b, t, e, e->top[i].id, e->top[i].logprob);
    }
    if (!seen)
        add_logprob_member(b, t, e, e->id, *e->logprob);
    buf_add_char(b, '}');
}

void logprobs_add(struct logprobs *l, const struct tokenizer *t, const struct logprob_entry *e)
{
    if (l->n++ > 0) {
        buf_add_char(&l->tokens, ',');
        buf_add_char(&l->values, ',');
        buf_add_char(&l->tops, ',');
        buf_add_char(&l->offsets, ',');
    }
    add_token_name(&l->tokens, t, e, e->id);
    buf_printf(&l->offsets, "%llu", (unsigned long long)e->offset);
    if (e->logprob == NULL) {
        buf_add_str(&l->values, "null");
        buf_add_str(&l->tops, "null");
        return;
    }
    json_add_float(&l->values, *e->logprob);
    add_top(&l->tops, t, e);
}

static void add_array(struct buf *out, const char *key, const struct buf *items)
{
    buf_add_str(out, key);
    buf_add_char(out, '[');
    buf_add(out, items->data, items->len);
    buf_add_char(out, ']');
    if (items->err < 0)
        out->err = items->err;
}

void logprobs_render(const struct logprobs *l, struct buf *out)
{
    add_array(out, "{\"tokens\":", &l->tokens);
    add_array(out, ",\"token_logprobs\":", &l->values);
    add_array(out, ",\"top_logprobs\":", &l->tops);
    add_array(out, ",\"text_offset\":", &l->offsets);
    buf_add_char(out, '}');
}

static void add_chat_token(struct buf *b, const struct tokenizer *t, const struct logprob_entry *e,
                           struct top_logprob x, bool with_id)
{
    size_t n = 0;
    const char *piece = tokenizer_piece(t, x.id, &n);

    buf_add_char(b, '{');
    if (with_id)
        buf_printf(b, "\"id\":%d,", x.id);
    buf_add_str(b, "\"token\":");
    add_token_name(b, t, e, x.id);
    buf_add_str(b, e->has_shares ? ",\"prob\":" : ",\"logprob\":");
    json_add_float(b, x.logprob);
    buf_add_str(b, ",\"bytes\":[");
    for (size_t i = 0; i < n; i++)
        buf_printf(b, i > 0 ? ",%u" : "%u", (unsigned char)piece[i]);
    buf_add_char(b, ']');
}

void logprobs_add_entry(struct buf *b, const struct tokenizer *t, const struct logprob_entry *e,
                        bool with_ids)
{
    if (b->len > 0)
        buf_add_char(b, ',');
    add_chat_token(b, t, e, (struct top_logprob){e->id, *e->logprob}, with_ids);
    buf_add_str(b, e->has_shares ? ",\"top_probs\":[" : ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < e->n_top; i++) {
        if (i > 0)
            buf_add_char(b, ',');
        add_chat_token(b, t, e, e->top[i], with_ids);
        buf_add_char(b, '}');
    }
    buf_add_str(b, "]}");
}

static void add_ranked(struct buf *b, const struct tokenizer *t, struct top_logprob x,
                       uint32_t rank)
{
    buf_printf(b, "\"%d\":{\"logprob\":", x.id);
    json_add_float(b, x.logprob);
    buf_printf(b, ",\"rank\":%u,\"decoded_token\":", rank);
    logprobs_add_token(b, t, x.id);
    buf_add_char(b, '}');
}

void logprobs_add_ranked(struct buf *b, const struct tokenizer *t, const struct logprob_entry *e,
                         uint32_t rank)
{
    buf_add_str(b, ",{");
    add_ranked(b, t, (struct top_logprob){e->id, *e->logprob}, rank);
    for (uint32_t i = 0; i < e->n_top; i++) {
        if (e->top[i].id == e->id)
            continue;
        buf_add_char(b, ',');
        add_ranked(b, t, e->top[i], i + 1);
    }
    buf_add_char(b, '}');
}
