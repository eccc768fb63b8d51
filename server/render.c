/* server/render.c - see render.h. */
#include "server/render.h"

#include "core/base/version.h"
#include "server/json.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define HEAD_MAX ((size_t)64 << 10) /* a model's name is the only part without a fixed length */

int render_head(struct buf *head, const char *model)
{
    unsigned char random[12];

    if (getrandom(random, sizeof(random), 0) < 0)
        memset(random, 0, sizeof(random));
    buf_init(head, HEAD_MAX);
    buf_add_str(head, "{\"id\":\"cmpl-");
    for (size_t i = 0; i < sizeof(random); i++)
        buf_printf(head, "%02x", random[i]);
    buf_printf(head, "\",\"object\":\"text_completion\",\"created\":%" PRId64 ",\"model\":",
               (int64_t)time(NULL));
    json_add_cstring(head, model);
    buf_add_str(head, ",\"system_fingerprint\":");
    json_add_cstring(head, quire_version());
    buf_add_str(head, ",\"choices\":[");
    return head->err;
}

static void add_usage(struct buf *out, const struct render_usage *u)
{
    buf_printf(out,
               "\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"completion_tokens\":%" PRIu64
               ",\"total_tokens\":%" PRIu64 ",\"prompt_tokens_details\":{\"cached_tokens\":%" PRIu64
               "}}",
               u->prompt, u->completion, u->prompt + u->completion, u->cached);
}

static void add_choice(struct buf *out, struct choice *choice)
{
    const int rc = choice_error(choice);

    choice_render(choice, out);
    if (rc < 0)
        out->err = rc;
}

void render_whole(struct buf *out, const struct buf *head, struct choice *choices, uint32_t n,
                  const struct render_usage *usage)
{
    buf_add(out, head->data, head->len);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        add_choice(out, &choices[i]);
    }
    buf_add_str(out, "],");
    add_usage(out, usage);
    buf_add_char(out, '}');
}

void render_frame(struct buf *out, const struct buf *head, struct choice *choice, bool has_usage)
{
    buf_add_str(out, "data: ");
    buf_add(out, head->data, head->len);
    add_choice(out, choice);
    buf_add_str(out, has_usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}

void render_done(struct buf *out, const struct buf *head, const struct render_usage *usage)
{
    if (usage != NULL) {
        buf_add_str(out, "data: ");
        buf_add(out, head->data, head->len);
        buf_add_str(out, "],");
        add_usage(out, usage);
        buf_add_str(out, "}\n\n");
    }
    buf_add_str(out, "data: [DONE]\n\n");
}

void render_failure(struct buf *out, const struct api_error *e)
{
    buf_add_str(out, "data: ");
    api_error_render(e, out);
    buf_add_str(out, "\n\ndata: [DONE]\n\n");
}
