/* server/api/formats/llamacpp.c - answers of POST /completion and /infill, in the shape of
 * llama-server.
 *
 * There are no slots: id_slot is the number of the choice.
 */
#include "server/api/response/response_writer.h"

#include "core/base/json.h"
#include "core/tokenizer/tokenizer.h"
#include "server/http/http_call.h"

#include <inttypes.h>

static void begin(struct response_writer *a)
{
    (void)a; /* each object is complete in itself */
}

/* ,"temperature":0.8 */
static void add_number(struct buf *out, const char *name, float value)
{
    buf_printf(out, ",\"%s\":", name);
    json_add_float(out, value);
}

static const char *yes_no(bool value)
{
    return value ? "true" : "false";
}

/* How many: -1 stands for all. */
static int64_t or_all(uint32_t n)
{
    return n == UINT32_MAX ? -1 : (int64_t)n;
}

static void add_dry(struct buf *out, const struct params *p)
{
    add_number(out, "dry_multiplier", p->sampling.dry_multiplier);
    add_number(out, "dry_base", p->sampling.dry_base);
    buf_printf(out, ",\"dry_allowed_length\":%u,\"dry_penalty_last_n\":%" PRId64,
               p->sampling.dry_allowed_length, or_all(p->sampling.dry_last_n));
    buf_add_str(out, ",\"dry_sequence_breakers\":[");
    for (uint32_t i = 0; i < p->n_breakers; i++) {
        buf_add_str(out, i > 0 ? "," : "");
        json_add_cstring(out, p->breakers[i]);
    }
    buf_add_char(out, ']');
}

static void add_stops(struct buf *out, const struct params *p)
{
    buf_add_str(out, ",\"stop\":[");
    for (size_t i = 0; i < p->stop.n; i++) {
        buf_add_str(out, i > 0 ? "," : "");
        json_add_cstring(out, p->stop.text[i]);
    }
    buf_add_char(out, ']');
}

void llamacpp_settings(const struct params *p, uint64_t seed, struct buf *out)
{
    const struct sampling *s = &p->sampling;

    buf_printf(out, "{\"n_predict\":%" PRId64 ",\"max_tokens\":%" PRId64 ",\"seed\":%" PRIu64,
               or_all(p->max_tokens), or_all(p->max_tokens), seed);
    add_number(out, "temperature", s->temperature);
    buf_printf(out, ",\"top_k\":%d", s->top_k);
    add_number(out, "top_p", s->top_p);
    add_number(out, "min_p", s->min_p);
    add_number(out, "typical_p", s->typical_p > 0 ? s->typical_p : 1);
    add_number(out, "xtc_probability", s->xtc_probability);
    add_number(out, "xtc_threshold", s->xtc_threshold);
    buf_add_str(out, ",\"repeat_last_n\":-1");
    add_number(out, "repeat_penalty", s->repetition_penalty);
    add_number(out, "presence_penalty", s->presence_penalty);
    add_number(out, "frequency_penalty", s->frequency_penalty);
    add_dry(out, p);
    buf_printf(out, ",\"mirostat\":%d", p->has_mirostat ? 2 : 0);
    add_number(out, "mirostat_tau", s->mirostat_tau);
    add_number(out, "mirostat_eta", s->mirostat_eta);
    add_stops(out, p);
    buf_printf(out, ",\"min_tokens\":%u,\"ignore_eos\":%s,\"stream\":%s,\"n_probs\":%d,",
               p->min_tokens, yes_no(p->ignore_eos), yes_no(p->stream),
               s->n_top > 0 ? s->n_top : 0);
    buf_add_str(out, "\"post_sampling_probs\":false}");
}

/* The prompt as the model reads it. */
static void add_prompt(struct buf *out, const struct choice *c)
{
    const struct token_list *ids = &c->prompt->ids;
    struct detok d;
    struct buf text;

    buf_init(&text, HTTP_MAX_REPLY / 8);
    detok_init(&d, c->rules->tokenizer, true);
    d.show_control = true;
    for (size_t i = 0; i < ids->n; i++)
        detok_feed(&d, ids->ids[i], &text);
    detok_finish(&d, &text);
    buf_add_str(out, ",\"prompt\":");
    json_add_string(out, text.data, text.len);
    if (text.err < 0)
        out->err = text.err;
    buf_release(&text);
}

static const char *stop_type(const struct choice *c)
{
    if (c->finish == FINISH_LENGTH)
        return "limit";
    if (c->finish != FINISH_STOP)
        return "none";
    return c->stop.found != NULL ? "word" : "eos";
}

/* "predicted_n":8,"predicted_ms":… and what follows from the two */
static void add_rate(struct buf *out, const char *what, uint64_t n, uint64_t us)
{
    const double ms = (double)us / 1e3;

    buf_printf(out, "\"%s_n\":%" PRIu64 ",\"%s_ms\":%.3f,", what, n, what, ms);
    buf_printf(out, "\"%s_per_token_ms\":%.3f,\"%s_per_second\":%.3f", what,
               n > 0 ? ms / (double)n : 0, what, us > 0 ? (double)n * 1e6 / (double)us : 0);
}

static void add_timings(struct buf *out, const struct choice *c)
{
    const struct event_times *t = &c->times;

    buf_printf(out, ",\"timings\":{\"cache_n\":%u,", t->n_cached);
    add_rate(out, "prompt", c->prompt->ids.n - t->n_cached, t->prefill_us);
    buf_add_char(out, ',');
    add_rate(out, "predicted", c->n_tokens, t->decode_us);
    buf_add_char(out, '}');
}

/* {"index":0,"content":"…","tokens":[…] */
static void open_object(struct buf *out, const struct choice *c)
{
    buf_printf(out, "{\"index\":%u,\"content\":", c->index);
    json_add_string(out, c->text.data, c->text.len);
    buf_printf(out, ",\"tokens\":[%s],\"id_slot\":%u", c->ids.len > 0 ? c->ids.data : "", c->index);
}

static void add_probabilities(struct buf *out, const struct choice *c)
{
    if (c->entries.len == 0)
        return;
    buf_add_str(out, ",\"completion_probabilities\":[");
    buf_add(out, c->entries.data, c->entries.len);
    buf_add_char(out, ']');
}

static void add_result(const struct response_writer *a, struct buf *out, struct choice *c)
{
    const size_t n_prompt = c->prompt->ids.n;
    const uint32_t k = c->index % a->params->n_each; /* choices of a prompt differ by seeds */

    open_object(out, c);
    buf_add_str(out, ",\"stop\":true,\"model\":");
    json_add_cstring(out, a->model);
    buf_printf(out, ",\"tokens_predicted\":%u,\"tokens_evaluated\":%zu,\"generation_settings\":",
               c->n_tokens, n_prompt);
    llamacpp_settings(a->params, a->params->sampling.seed + k, out);
    add_prompt(out, c);
    buf_printf(out, ",\"has_new_line\":%s,\"truncated\":false,\"stop_type\":\"%s\"",
               yes_no(c->has_new_line), stop_type(c));
    buf_add_str(out, ",\"stopping_word\":");
    json_add_cstring(out, c->stop.found != NULL ? c->stop.found : "");
    buf_printf(out, ",\"tokens_cached\":%zu", n_prompt + c->n_tokens - (c->n_tokens > 0));
    add_timings(out, c);
    add_probabilities(out, c);
    buf_add_char(out, '}');
    response_pass_choice(out, c);
}

static void whole(struct response_writer *a, struct buf *out)
{
    const bool is_list = a->n_choices > 1;

    buf_add_str(out, is_list ? "[" : "");
    for (uint32_t i = 0; i < a->n_choices; i++) {
        buf_add_str(out, i > 0 ? "," : "");
        add_result(a, out, &a->choices[i]);
    }
    buf_add_str(out, is_list ? "]" : "");
}

static void add_delta(struct response_writer *a, struct choice *c, struct buf *out)
{
    response_begin_frame(a, out);
    open_object(out, c);
    buf_printf(out, ",\"stop\":false,\"tokens_predicted\":%u,\"tokens_evaluated\":%zu", c->n_tokens,
               c->prompt->ids.n);
    add_probabilities(out, c);
    buf_add_char(out, '}');
    response_end_frame(out);
    response_pass_choice(out, c);
}

/* The last frame of a choice has no content: what is left goes before it. */
static void frame(struct response_writer *a, struct choice *c, struct buf *out)
{
    if (c->text.len > 0 || c->ids.len > 0)
        add_delta(a, c, out);
    if (c->finish == FINISH_NONE)
        return;
    response_begin_frame(a, out);
    add_result(a, out, c);
    response_end_frame(out);
}

static void end(struct response_writer *a, struct buf *out)
{
    (void)a; /* no [DONE] here: the last frame says that it stops */
    (void)out;
}

static void failure(const struct api_error *e, struct buf *out)
{
    buf_add_str(out, "data: ");
    api_error_render(e, out);
    buf_add_str(out, "\n\n");
}

const struct wire_format wire_llamacpp = {
    .id_prefix = "cmpl-",
    .form = PARAMS_NATIVE,
    .begin = begin,
    .whole = whole,
    .frame = frame,
    .close = end,
    .failure = failure,
};

const struct wire_format wire_llamacpp_infill = {
    .id_prefix = "cmpl-",
    .form = PARAMS_INFILL,
    .begin = begin,
    .whole = whole,
    .frame = frame,
    .close = end,
    .failure = failure,
};
