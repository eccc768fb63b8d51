/* server/api/formats/openai_completions.c - answers of POST /v1/completions.
 *
 * A frame of a stream has the same head and choices as the whole answer, so one function renders a
 * choice for both. It empties the choice each time: the next frame has only what came since.
 */
#include "server/api/response/response_writer.h"

#include "core/json/json.h"

static void begin_completions(struct response_writer *a)
{
    response_add_head(a, "text_completion", &a->head);
    buf_add(&a->frame_head, a->head.data, a->head.len);
}

/* {"index":0,"text":"…","finish_reason":null,"logprobs":null} */
static void add_text_choice(struct buf *out, struct choice *c)
{
    buf_printf(out, "{\"index\":%u,\"text\":", c->index);
    json_add_string(out, c->text.data, c->text.len);
    response_add_finish(out, c);
    buf_add_str(out, ",\"logprobs\":");
    if (c->logprobs.n > 0)
        logprobs_render(&c->logprobs, out);
    else
        buf_add_str(out, "null");
    response_add_prompt_scores(out, c);
    response_add_extras(out, c);
    buf_add_char(out, '}');
    response_pass_choice(out, c);
}

static void whole_completions(struct response_writer *a, struct buf *out)
{
    buf_add(out, a->head.data, a->head.len);
    for (uint32_t i = 0; i < a->n_choices; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        add_text_choice(out, &a->choices[i]);
    }
    buf_add_str(out, "],");
    response_add_usage(out, &a->usage, false);
    response_add_receipt(a, out);
    buf_add_char(out, '}');
}

static void completions_frame(struct response_writer *a, struct choice *c, struct buf *out)
{
    response_begin_frame(a, out);
    add_text_choice(out, c);
    response_end_choices(a, out);
}

static void end_completions(struct response_writer *a, struct buf *out)
{
    response_close_stream(a, false, out);
}

const struct wire_format wire_openai_completions = {
    .endpoint = "/v1/completions",
    .id_prefix = "cmpl-",
    .form = PARAMS_TEXT,
    .begin = begin_completions,
    .whole = whole_completions,
    .frame = completions_frame,
    .close = end_completions,
    .failure = response_add_failure,
};
