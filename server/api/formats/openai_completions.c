/* server/api/formats/openai_completions.c - answers of POST /v1/completions. */
#include "server/api/response_writer.h"

#include "core/base/json.h"
#include "core/base/version.h"

#include <inttypes.h>

static void begin(struct answer *a)
{
    buf_printf(&a->head, "{\"id\":\"%s\",\"object\":\"text_completion\",\"created\":%" PRId64,
               a->id, a->created);
    buf_add_str(&a->head, ",\"model\":");
    json_add_cstring(&a->head, a->model);
    buf_add_str(&a->head, ",\"system_fingerprint\":");
    json_add_cstring(&a->head, quire_version());
    buf_add_str(&a->head, ",\"choices\":[");
    buf_add(&a->frame_head, a->head.data, a->head.len);
}

/* {"index":0,"text":"…","finish_reason":null,"logprobs":null} */
static void add_choice(struct buf *out, struct choice *c)
{
    buf_printf(out, "{\"index\":%u,\"text\":", c->index);
    json_add_string(out, c->text.data, c->text.len);
    answer_add_finish(out, c);
    buf_add_str(out, ",\"logprobs\":");
    if (c->logprobs.n > 0)
        logprobs_render(&c->logprobs, out);
    else
        buf_add_str(out, "null");
    answer_add_prompt_scores(out, c);
    answer_add_extras(out, c);
    buf_add_char(out, '}');
    answer_pass_choice(out, c);
}

static void whole(struct answer *a, struct buf *out)
{
    buf_add(out, a->head.data, a->head.len);
    for (uint32_t i = 0; i < a->n_choices; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        add_choice(out, &a->choices[i]);
    }
    buf_add_str(out, "],");
    answer_add_usage(out, &a->usage, false);
    buf_add_char(out, '}');
}

static void frame(struct answer *a, struct choice *c, struct buf *out)
{
    answer_begin_frame(a, out);
    add_choice(out, c);
    buf_add_str(out, a->include_usage ? "],\"usage\":null}" : "]}");
    answer_end_frame(out);
}

static void end(struct answer *a, struct buf *out)
{
    answer_close_stream(a, false, out);
}

static void failure(const struct api_error *e, struct buf *out)
{
    buf_add_str(out, "data: ");
    api_error_render(e, out);
    buf_add_str(out, "\n\ndata: [DONE]\n\n");
}

const struct dialect *dialect_text(void)
{
    static const struct dialect text = {
        .id_prefix = "cmpl-",
        .form = PARAMS_TEXT,
        .begin = begin,
        .whole = whole,
        .frame = frame,
        .close = end,
        .failure = failure,
    };

    return &text;
}
