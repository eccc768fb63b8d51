/* server/api/response/response_writer.c - the parts of answers that wire formats share.
 *
 * A wire format (server/api/formats/) composes its JSON from these functions; they append to `out`,
 * whose first error stays in it, so nothing is checked in between. The head of each object is
 * rendered once per answer and copied into every frame, because it never changes.
 */
#include "server/api/response/response_writer.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/hex.h"
#include "core/base/version.h"
#include "core/json/json.h"
#include "server/http/http_call.h"
#include "server/api/response/receipt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define HEAD_MAX ((size_t)64 << 10) /* a model's name is the only part without a fixed length */

void response_random_hex(char out[25])
{
    unsigned char random[12] = {0};

    (void)!getrandom(random, sizeof(random), 0);
    hex_write(out, random, sizeof(random));
}

void response_draw_id(const struct wire_format *wire_format, char *out, size_t size)
{
    char hex[25];

    response_random_hex(hex);
    snprintf(out, size, "%s%s", wire_format->id_prefix, hex);
}

int response_init(struct response_writer *a, const struct wire_format *wire_format,
                  const char *model, struct choice *choices, uint32_t n_choices)
{
    *a = (struct response_writer){.wire_format = wire_format, .model = model, .choices = choices};
    a->n_choices = n_choices;
    a->created = (int64_t)time(NULL);
    response_draw_id(wire_format, a->id, sizeof(a->id));
    buf_init(&a->head, HEAD_MAX);
    buf_init(&a->frame_head, HEAD_MAX);
    buf_init(&a->piece, HTTP_MAX_REPLY / 4);
    buf_init(&a->items, HTTP_MAX_REPLY / 4);
    buf_init(&a->probs, HTTP_MAX_REPLY / 4);
    wire_format->begin(a);
    return a->head.err < 0 ? a->head.err : a->frame_head.err;
}

int response_set_request_id(struct response_writer *a, const char *request_id)
{
    char id[sizeof(a->id)];

    snprintf(id, sizeof(id), "%s%s", a->wire_format->id_prefix, request_id);
    return response_set_identity(a, id, 0);
}

int response_set_identity(struct response_writer *a, const char *id, int64_t created)
{
    if (id[0] != '\0')
        snprintf(a->id, sizeof(a->id), "%s", id);
    if (created > 0)
        a->created = created;
    buf_clear(&a->head);
    buf_clear(&a->frame_head);
    a->wire_format->begin(a);
    return a->head.err < 0 ? a->head.err : a->frame_head.err;
}

void response_release(struct response_writer *a)
{
    buf_release(&a->head);
    buf_release(&a->frame_head);
    buf_release(&a->piece);
    buf_release(&a->items);
    buf_release(&a->probs);
}

void response_add_head(const struct response_writer *a, const char *object, struct buf *out)
{
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", a->id,
               object, a->created);
    json_add_cstring(out, a->model);
    buf_add_str(out, ",\"system_fingerprint\":");
    json_add_cstring(out, quire_version());
    buf_add_str(out, ",\"choices\":[");
}

void response_end_choices(const struct response_writer *a, struct buf *out)
{
    buf_add_char(out, ']');
    if (a->include_usage && a->params->continuous_usage) {
        buf_add_char(out, ',');
        response_add_usage(out, &a->usage, (a->params->form & PARAMS_CHATS) != 0);
    } else if (a->include_usage) {
        buf_add_str(out, ",\"usage\":null");
    }
    if (a->current != NULL && a->params->timings_per_token)
        response_add_rates(out, a->current);
    if (a->current != NULL)
        response_add_progress(a, out, a->current);
    buf_add_char(out, '}');
    response_end_frame(out);
}

void response_add_failure(const struct api_error *e, struct buf *out)
{
    buf_add_str(out, "data: ");
    api_error_render(e, out);
    buf_add_str(out, "\n\ndata: [DONE]\n\n");
}

void response_begin_frame(const struct response_writer *a, struct buf *out)
{
    buf_add_str(out, "data: ");
    buf_add(out, a->frame_head.data, a->frame_head.len);
}

void response_end_frame(struct buf *out)
{
    buf_add_str(out, "\n\n");
}

void response_add_finish(struct buf *out, const struct choice *c)
{
    const char *name = choice_finish_name(c);

    if (name == NULL)
        buf_add_str(out, ",\"finish_reason\":null");
    else
        buf_printf(out, ",\"finish_reason\":\"%s\"", name);
}

static void render_prompt_ids(struct choice *c, struct buf *out)
{
    const struct token_list *ids = &c->prompt->ids;

    buf_add_str(out, ",\"prompt_token_ids\":");
    if (c->has_prompt_ids_sent) {
        buf_add_str(out, "null");
        return;
    }
    c->has_prompt_ids_sent = true;
    for (size_t i = 0; i < ids->n; i++)
        buf_printf(out, "%c%d", i > 0 ? ',' : '[', ids->ids[i]);
    buf_add_char(out, ']');
}

/* Appends the times of a choice. preempted_ms is without kept blocks, swapped_ms with a copy of
 * them. The rest of the total is the way between the engine and this thread, split into delivery_ms
 * and the wait for a client that does not read; the parts add up to the total. */
static void render_timings(const struct choice *c, struct buf *out)
{
    const struct event_times *t = &c->times;
    const uint64_t known = t->queue_us + t->prefill_us + t->decode_us + t->preempted_us;
    const uint64_t total = c->total_us > known ? c->total_us : known;
    const uint64_t rest = total - known;
    const uint64_t blocked = c->blocked_us < rest ? c->blocked_us : rest;

    buf_printf(out,
               ",\"timings\":{\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,"
               "\"preempted_ms\":%.3f,\"swapped_ms\":%.3f,\"delivery_ms\":%.3f,"
               "\"write_blocked_ms\":%.3f,\"total_ms\":%.3f,",
               ms_of(t->queue_us), ms_of(t->prefill_us), ms_of(t->decode_us),
               ms_of(t->preempted_us - t->swapped_us), ms_of(t->swapped_us), ms_of(rest - blocked),
               ms_of(blocked), ms_of(total));
    buf_printf(out,
               "\"n_preempted\":%u,\"prompt_tokens\":%zu,\"cached_tokens\":%u,"
               "\"completion_tokens\":%u,\"draft_tokens\":%u,\"accepted_draft_tokens\":%u}",
               t->n_preempted, c->prompt->ids.n, t->n_cached, c->n_tokens, t->n_drafted,
               t->n_accepted);
}

void response_add_extras(struct buf *out, struct choice *c)
{
    if (c->rules->wants_ids) {
        buf_printf(out, ",\"token_ids\":[%s]", c->ids.len > 0 ? c->ids.data : "");
        render_prompt_ids(c, out);
    }
    if (c->rules->wants_timings && c->finish != FINISH_NONE)
        render_timings(c, out);
}

void response_add_prompt_scores(struct buf *out, const struct choice *c)
{
    if (!c->rules->wants_prompt_scores)
        return;
    buf_add_str(out, ",\"prompt_logprobs\":[");
    buf_add(out, c->prompt->scores.data, c->prompt->scores.len);
    buf_add_char(out, ']');
}

void response_add_usage(struct buf *out, const struct response_usage *u, bool has_thoughts)
{
    buf_printf(out,
               "\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"completion_tokens\":%" PRIu64
               ",\"total_tokens\":%" PRIu64
               ",\"prompt_tokens_details\":{\"cached_tokens\":%" PRIu64,
               u->prompt, u->completion, u->prompt + u->completion, u->cached);
    if (u->has_breakpoints)
        buf_printf(out, ",\"cache_write_tokens\":%" PRIu64 ",\"pinned_tokens\":%" PRIu64,
                   u->prompt - u->cached, u->pinned);
    buf_add_char(out, '}');
    if (has_thoughts || u->prediction > 0)
        buf_add_str(out, ",\"completion_tokens_details\":{");
    if (has_thoughts)
        buf_printf(out, "\"reasoning_tokens\":%" PRIu64 "%s", u->thinking,
                   u->prediction > 0 ? "," : "");
    if (u->prediction > 0)
        buf_printf(out,
                   "\"accepted_prediction_tokens\":%" PRIu64
                   ",\"rejected_prediction_tokens\":%" PRIu64,
                   u->predicted, u->prediction - u->predicted);
    buf_add_str(out, has_thoughts || u->prediction > 0 ? "}}" : "}");
}

static struct receipt_choice of_choice(const struct choice *c)
{
    return (struct receipt_choice){.index = c->index,
                                   .seed = c->seed,
                                   .prompt = c->prompt->ids.ids,
                                   .n_prompt = c->prompt->ids.n,
                                   .answer = c->tokens.ids,
                                   .n_answer = c->tokens.n,
                                   .labels = c->prompt->label_logprobs,
                                   .n_labels = c->prompt->n_labels,
                                   .finish = choice_finish_name(c)};
}

void response_add_receipt(const struct response_writer *a, struct buf *out)
{
    struct receipt_choice *choices;

    if (a->receipt == NULL)
        return;
    choices = mem_calloc(a->n_choices, sizeof(*choices));
    if (choices == NULL) {
        out->err = ERR_NOMEM;
        return;
    }
    for (uint32_t i = 0; i < a->n_choices; i++) {
        choices[i] = of_choice(&a->choices[i]);
        if (a->choices[i].tokens.n != a->choices[i].n_tokens) /* memory ran out for some tokens */
            out->err = ERR_NOMEM;
    }
    buf_add_str(out, ",\"receipt\":");
    receipt_add(a->receipt, a->wire_format->endpoint, choices, a->n_choices, out);
    mem_free(choices);
}

void response_pass_choice(struct buf *out, struct choice *c)
{
    const int rc = choice_error(c);

    choice_clear(c);
    if (rc < 0)
        out->err = rc;
}

void response_close_stream(const struct response_writer *a, bool has_thoughts, struct buf *out)
{
    if (a->include_usage || a->receipt != NULL) {
        response_begin_frame(a, out);
        buf_add_str(out, "],");
        response_add_usage(out, &a->usage, has_thoughts);
        response_add_receipt(a, out);
        buf_add_char(out, '}');
        response_end_frame(out);
    }
    buf_add_str(out, "data: [DONE]\n\n");
}
