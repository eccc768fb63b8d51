/* server/api/formats/llamacpp.c - answers of POST /completion and /infill, in the shape of
 * llama-server.
 *
 * Each object is complete in itself: the last one of a choice repeats the settings and the prompt.
 * For `response_fields` the whole object is rendered, parsed again, and the wanted members are
 * copied. id_slot is the request's, or 0, plus the number of the choice: a slot only names a text
 * (server/storage/slot_table.h).
 */
#include "server/api/response/response_writer.h"

#include "core/base/err.h"
#include "core/json/json.h"
#include "core/tokenizer/tokenizer.h"
#include "server/http/http_call.h"

#include <inttypes.h>
#include <string.h>

static void begin_llamacpp(struct response_writer *a)
{
    (void)a; /* each object is complete in itself */
}

/* ,"temperature":0.8 */
static void add_llamacpp_number(struct buf *out, const char *name, float value)
{
    buf_printf(out, ",\"%s\":", name);
    json_add_float(out, value);
}

static const char *yes_no(bool value)
{
    return value ? "true" : "false";
}

/* A number of tokens as llama-server writes it: -1 stands for all. */
static int64_t or_all(uint32_t n)
{
    return n == UINT32_MAX ? -1 : (int64_t)n;
}

static void add_dry(struct buf *out, const struct params *p)
{
    add_llamacpp_number(out, "dry_multiplier", p->sampling.dry_multiplier);
    add_llamacpp_number(out, "dry_base", p->sampling.dry_base);
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

/* Penalties and DRY come before the stages of a chain and are not among them. */
static void add_samplers(struct buf *out, const struct params *p)
{
    static const char *const names[] = {
        [STAGE_TOP_N_SIGMA] = "top_n_sigma", [STAGE_TOP_K] = "top_k",
        [STAGE_TYPICAL] = "typ_p",           [STAGE_TOP_P] = "top_p",
        [STAGE_MIN_P] = "min_p",             [STAGE_XTC] = "xtc",
        [STAGE_TEMPERATURE] = "temperature"};

    buf_add_str(out, ",\"samplers\":[");
    if (p->uses_penalties)
        buf_add_str(out, "\"penalties\",");
    if (p->uses_dry)
        buf_add_str(out, "\"dry\",");
    for (uint32_t i = 0; i < p->n_samplers; i++)
        buf_printf(out, "\"%s\",", names[p->samplers[i]]);
    if (out->len > 0 && out->data[out->len - 1] == ',')
        out->len--;
    buf_add_char(out, ']');
}

void llamacpp_settings(const struct params *p, uint64_t seed, struct buf *out)
{
    const struct sampling *s = &p->sampling;

    buf_printf(out, "{\"n_predict\":%" PRId64 ",\"max_tokens\":%" PRId64 ",\"seed\":%" PRIu64,
               or_all(p->max_tokens), or_all(p->max_tokens), seed);
    add_llamacpp_number(out, "temperature", s->temperature);
    add_llamacpp_number(out, "dynatemp_range", s->dynatemp_range);
    add_llamacpp_number(out, "dynatemp_exponent", s->dynatemp_exponent);
    add_llamacpp_number(out, "top_n_sigma", s->top_n_sigma > 0 ? s->top_n_sigma : -1);
    buf_printf(out, ",\"min_keep\":%u", s->min_keep);
    buf_printf(out, ",\"top_k\":%d", s->top_k);
    add_llamacpp_number(out, "top_p", s->top_p);
    add_llamacpp_number(out, "min_p", s->min_p);
    add_llamacpp_number(out, "typical_p", s->typical_p > 0 ? s->typical_p : 1);
    add_llamacpp_number(out, "xtc_probability", s->xtc_probability);
    add_llamacpp_number(out, "xtc_threshold", s->xtc_threshold);
    buf_printf(out, ",\"repeat_last_n\":%" PRId64,
               p->has_no_window || s->penalty_last_n == 0 ? 0 : or_all(s->penalty_last_n));
    add_llamacpp_number(out, "repeat_penalty", s->repetition_penalty);
    add_llamacpp_number(out, "presence_penalty", s->presence_penalty);
    add_llamacpp_number(out, "frequency_penalty", s->frequency_penalty);
    add_dry(out, p);
    buf_printf(out, ",\"mirostat\":%d", p->has_mirostat ? 2 : 0);
    add_llamacpp_number(out, "mirostat_tau", s->mirostat_tau);
    add_llamacpp_number(out, "mirostat_eta", s->mirostat_eta);
    add_stops(out, p);
    add_samplers(out, p);
    buf_printf(out, ",\"n_keep\":%d,\"n_discard\":%u", p->n_keep, p->n_discard);
    buf_printf(out, ",\"min_tokens\":%u,\"ignore_eos\":%s,\"stream\":%s,\"n_probs\":%d,",
               p->min_tokens, yes_no(p->ignore_eos), yes_no(p->stream),
               s->n_top > 0 ? s->n_top : 0);
    buf_printf(out,
               "\"n_indent\":%u,\"t_max_predict_ms\":%u,\"timings_per_token\":%s,"
               "\"post_sampling_probs\":%s}",
               p->n_indent, p->t_max_predict_ms, yes_no(p->timings_per_token),
               yes_no(s->wants_shares));
}

/* Append the prompt as the model reads it, with its special tokens. */
static void add_llamacpp_prompt(struct buf *out, const struct choice *c)
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

/* {"index":0,"content":"…","tokens":[…] */
static void open_object(struct buf *out, const struct choice *c)
{
    buf_printf(out, "{\"index\":%u,\"content\":", c->index);
    json_add_string(out, c->text.data, c->text.len);
    buf_printf(out, ",\"tokens\":[%s],\"id_slot\":%u", c->ids.len > 0 ? c->ids.data : "",
               c->rules->slot + c->index);
}

static void add_probabilities(struct buf *out, const struct choice *c)
{
    if (c->entries.len == 0)
        return;
    buf_add_str(out, ",\"completion_probabilities\":[");
    buf_add(out, c->entries.data, c->entries.len);
    buf_add_char(out, ']');
}

/* Tokens of the context at the end, without those that context shifts dropped. */
static uint64_t n_known(const struct choice *c)
{
    const uint64_t n = c->prompt->ids.n + c->n_tokens;

    return n - request_n_shifts(n, c->max_known, c->n_discard) * c->n_discard;
}

/* True: the context was shifted, or the answer ended because the context was full. */
static bool is_truncated(const struct response_writer *a, const struct choice *c)
{
    return c->prompt->ids.n + c->n_tokens > c->max_known ||
           (c->finish == FINISH_LENGTH && !c->has_run_out && c->n_tokens < a->params->max_tokens);
}

static void add_all_llamacpp(const struct response_writer *a, struct buf *out, struct choice *c);

/* Copy the wanted members of the answer, in the order of the request, each under its path. A member
 * that does not exist is left out. */
static void pick_members(const cJSON *wanted, const cJSON *all, cJSON *to)
{
    for (const cJSON *it = wanted->child; it != NULL; it = it->next) {
        const char *name = it->valuestring, *slash;
        const cJSON *at = all;

        for (; (slash = strchr(name, '/')) != NULL && at != NULL; name = slash + 1) {
            const cJSON *member = at->child;

            while (member != NULL && (member->string == NULL ||
                                      strlen(member->string) != (size_t)(slash - name) ||
                                      memcmp(member->string, name, (size_t)(slash - name)) != 0))
                member = member->next;
            at = member;
        }
        at = at != NULL && cJSON_IsObject(at) ? cJSON_GetObjectItemCaseSensitive(at, name) : NULL;
        if (at != NULL && cJSON_GetObjectItemCaseSensitive(to, it->valuestring) == NULL)
            json_put(to, it->valuestring, cJSON_Duplicate(at, true));
    }
}

static void add_picked(const struct response_writer *a, struct buf *out, struct choice *c)
{
    cJSON *all = NULL, *picked = cJSON_CreateObject();
    const char *why = NULL;
    struct buf whole;

    buf_init(&whole, HTTP_MAX_REPLY);
    add_all_llamacpp(a, &whole, c);
    json_watch();
    if (whole.err == 0 && json_parse(whole.data, whole.len, &all, &why) == 0 && picked != NULL) {
        pick_members(a->params->response_fields, all, picked);
        json_add_value(out, picked);
    }
    if (all == NULL || picked == NULL || json_is_incomplete())
        out->err = ERR_NOMEM;
    cJSON_Delete(picked);
    cJSON_Delete(all);
    buf_release(&whole);
}

static void add_llamacpp_result(const struct response_writer *a, struct buf *out, struct choice *c)
{
    if (a->params->response_fields != NULL)
        add_picked(a, out, c);
    else
        add_all_llamacpp(a, out, c);
}

static void add_all_llamacpp(const struct response_writer *a, struct buf *out, struct choice *c)
{
    const size_t n_prompt = c->prompt->ids.n;
    const uint32_t k = c->index % a->params->n_each; /* choices of a prompt differ by seeds */

    open_object(out, c);
    buf_add_str(out, ",\"stop\":true,\"model\":");
    json_add_cstring(out, a->model);
    buf_printf(out, ",\"tokens_predicted\":%u,\"tokens_evaluated\":%zu,\"generation_settings\":",
               c->n_tokens, n_prompt);
    llamacpp_settings(a->params, a->params->sampling.seed + k, out);
    add_llamacpp_prompt(out, c);
    buf_printf(out, ",\"has_new_line\":%s,\"truncated\":%s,\"stop_type\":\"%s\"",
               yes_no(c->has_new_line), yes_no(is_truncated(a, c)), stop_type(c));
    buf_add_str(out, ",\"stopping_word\":");
    json_add_cstring(out, c->stop.found != NULL ? c->stop.found : "");
    buf_printf(out, ",\"tokens_cached\":%" PRIu64, n_known(c) - (c->n_tokens > 0));
    response_add_rates(out, c);
    add_probabilities(out, c);
    buf_add_char(out, '}');
    response_pass_choice(out, c);
}

static void whole_llamacpp(struct response_writer *a, struct buf *out)
{
    const bool is_list = a->n_choices > 1;

    buf_add_str(out, is_list ? "[" : "");
    for (uint32_t i = 0; i < a->n_choices; i++) {
        buf_add_str(out, i > 0 ? "," : "");
        add_llamacpp_result(a, out, &a->choices[i]);
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
    if (a->params->timings_per_token)
        response_add_rates(out, c);
    response_add_progress(a, out, c);
    buf_add_char(out, '}');
    response_end_frame(out);
    response_pass_choice(out, c);
}

/* The last frame of a choice has no content: the rest of the text goes into a frame before it. */
static void llamacpp_frame(struct response_writer *a, struct choice *c, struct buf *out)
{
    if (c->text.len > 0 || c->ids.len > 0 || (c->has_progress && a->params->return_progress))
        add_delta(a, c, out);
    if (c->finish == FINISH_NONE)
        return;
    response_begin_frame(a, out);
    add_llamacpp_result(a, out, c);
    response_end_frame(out);
}

static void end_llamacpp(struct response_writer *a, struct buf *out)
{
    (void)a; /* no [DONE] here: the last frame says that it stops */
    (void)out;
}

static void llamacpp_failure(const struct api_error *e, struct buf *out)
{
    buf_add_str(out, "data: ");
    api_error_render(e, out);
    buf_add_str(out, "\n\n");
}

const struct wire_format wire_llamacpp = {
    .id_prefix = "cmpl-",
    .form = PARAMS_NATIVE,
    .begin = begin_llamacpp,
    .whole = whole_llamacpp,
    .frame = llamacpp_frame,
    .close = end_llamacpp,
    .failure = llamacpp_failure,
};

const struct wire_format wire_llamacpp_infill = {
    .id_prefix = "cmpl-",
    .form = PARAMS_INFILL,
    .begin = begin_llamacpp,
    .whole = whole_llamacpp,
    .frame = llamacpp_frame,
    .close = end_llamacpp,
    .failure = llamacpp_failure,
};
