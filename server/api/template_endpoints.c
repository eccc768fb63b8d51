/* server/api/template_endpoints.c - see template_endpoints.h. */
#include "server/api/template_endpoints.h"

#include "core/base/json.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "server/api/engine_client.h"
#include "server/api/parse_job.h"
#include "server/api/response/response_writer.h"
#include "server/http/http.h"

static const struct wire_format apply = {.form = PARAMS_CHAT, .keeps_text = true};
static const struct wire_format tokenize = {.form = PARAMS_CHAT};
static const struct wire_format count = {.form = PARAMS_COUNT};

static void destroy(struct parse_job *in)
{
    in->engine->n_jobs--;
    parse_job_release(in);
    mem_free(in);
}

static void on_gone(void *ud)
{
    parse_job_leave(ud);
}

static void add_tokens(struct buf *out, const struct token_list *ids, uint32_t max_context)
{
    buf_printf(out, "{\"count\":%zu,\"max_model_len\":%u,\"tokens\":[", ids->n, max_context);
    for (size_t i = 0; i < ids->n; i++)
        buf_printf(out, i > 0 ? ",%d" : "%d", ids->ids[i]);
    buf_add_str(out, "]}");
}

static void on_ready(struct parse_job *in)
{
    const struct prompt *prompt = in->parsed.prompts;
    struct buf out;

    if (in->call != NULL) {
        buf_init(&out, HTTP_MAX_REPLY);
        if (in->wire_format == &apply) {
            buf_add_str(&out, "{\"prompt\":");
            json_add_string(&out, prompt->text, prompt->n_text);
            buf_add_char(&out, '}');
        } else if (in->wire_format == &tokenize) {
            add_tokens(&out, &prompt->ids, in->engine->model->max_context);
        } else {
            buf_printf(&out, "{\"input_tokens\":%zu}", prompt->ids.n);
        }
        http_call_reply(in->call, 200, "application/json", &out);
        in->call = NULL;
    }
    destroy(in);
}

static void start(struct engine_client *d, struct http_call *call,
                  const struct wire_format *wire_format)
{
    struct parse_job *in = mem_calloc(1, sizeof(*in));
    struct api_error e;

    if (in == NULL) {
        api_error_no_memory(&e);
        http_call_reply_error(call, &e);
        return;
    }
    d->n_jobs++;
    http_call_on_gone(call, on_gone, in);
    parse_job_start(in, d, call, wire_format, on_ready);
}

void template_endpoints_apply(struct engine_client *d, struct http_call *call)
{
    start(d, call, &apply);
}

void template_endpoints_count(struct engine_client *d, struct http_call *call)
{
    start(d, call, &count);
}

void template_endpoints_tokenize(struct engine_client *d, struct http_call *call)
{
    start(d, call, &tokenize);
}
