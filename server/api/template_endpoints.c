/* server/api/template_endpoints.c - see template_endpoints.h. */
#include "server/api/template_endpoints.h"

#include "core/base/json.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "server/api/engine_client.h"
#include "server/api/formats/anthropic_body.h"
#include "server/api/parse_job.h"
#include "server/api/response_writer.h"
#include "server/http/http.h"

static const struct dialect apply = {.form = PARAMS_CHAT, .keeps_text = true};
static const struct dialect tokenize = {.form = PARAMS_CHAT};
static const struct dialect count = {.form = PARAMS_CHAT, .convert = messages_to_counted_chat};

static void destroy(struct intake *in)
{
    in->desk->n_jobs--;
    intake_release(in);
    mem_free(in);
}

static void on_gone(void *ud)
{
    intake_leave(ud);
}

static void add_tokens(struct buf *out, const struct token_list *ids, uint32_t max_context)
{
    buf_printf(out, "{\"count\":%zu,\"max_model_len\":%u,\"tokens\":[", ids->n, max_context);
    for (size_t i = 0; i < ids->n; i++)
        buf_printf(out, i > 0 ? ",%d" : "%d", ids->ids[i]);
    buf_add_str(out, "]}");
}

static void on_ready(struct intake *in)
{
    const struct prompt *prompt = in->prepared.prompts;
    struct buf out;

    if (in->call != NULL) {
        buf_init(&out, HTTP_MAX_REPLY);
        if (in->dialect == &apply) {
            buf_add_str(&out, "{\"prompt\":");
            json_add_string(&out, prompt->text, prompt->n_text);
            buf_add_char(&out, '}');
        } else if (in->dialect == &tokenize) {
            add_tokens(&out, &prompt->ids, in->desk->model->max_context);
        } else {
            buf_printf(&out, "{\"input_tokens\":%zu}", prompt->ids.n);
        }
        http_call_reply(in->call, 200, "application/json", &out);
        in->call = NULL;
    }
    destroy(in);
}

static void start(struct desk *d, struct http_call *call, const struct dialect *dialect)
{
    struct intake *in = mem_calloc(1, sizeof(*in));
    struct api_error e;

    if (in == NULL) {
        api_error_set(&e, 500, NULL, NULL, "out of memory");
        http_call_reply_error(call, &e);
        return;
    }
    d->n_jobs++;
    http_call_on_gone(call, on_gone, in);
    intake_start(in, d, call, dialect, on_ready);
}

void prompting_apply(struct desk *d, struct http_call *call)
{
    start(d, call, &apply);
}

void prompting_count(struct desk *d, struct http_call *call)
{
    start(d, call, &count);
}

void prompting_tokenize(struct desk *d, struct http_call *call)
{
    start(d, call, &tokenize);
}
