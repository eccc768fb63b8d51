/* server/api/template_endpoints.c - see template_endpoints.h. */
#include "server/api/template_endpoints.h"

#include "core/base/json.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "server/api/api_call.h"
#include "server/api/engine_client.h"
#include "server/api/refusal.h"
#include "server/api/response/response_writer.h"
#include "server/http/http_call.h"

static const struct wire_format apply = {.form = PARAMS_CHAT, .keeps_text = true};
static const struct wire_format tokenize = {.form = PARAMS_CHAT};
static const struct wire_format count = {.form = PARAMS_COUNT};

static void destroy(struct api_call *api)
{
    api->engine->n_jobs--;
    api_call_release(api);
    mem_free(api);
}

static void on_gone(void *ud)
{
    api_call_leave(ud);
}

static void add_tokens(struct buf *out, const struct token_list *ids, uint32_t max_context)
{
    buf_printf(out, "{\"count\":%zu,\"max_model_len\":%u,\"tokens\":[", ids->n, max_context);
    for (size_t i = 0; i < ids->n; i++)
        buf_printf(out, i > 0 ? ",%d" : "%d", ids->ids[i]);
    buf_add_str(out, "]}");
}

static void on_ready(struct api_call *api)
{
    const struct prompt *prompt = api->request.prompts;
    struct buf out;

    if (api->call != NULL) {
        buf_init(&out, HTTP_MAX_REPLY);
        if (api->wire_format == &apply) {
            buf_add_str(&out, "{\"prompt\":");
            json_add_string(&out, prompt->text, prompt->n_text);
            buf_add_char(&out, '}');
        } else if (api->wire_format == &tokenize) {
            add_tokens(&out, &prompt->ids, api->engine->model->max_context);
        } else {
            buf_printf(&out, "{\"input_tokens\":%zu}", prompt->ids.n);
        }
        http_call_reply(api->call, 200, "application/json", &out);
        api->call = NULL;
    }
    destroy(api);
}

static void start(struct engine_client *engine, struct http_call *call,
                  const struct wire_format *wire_format, const struct body_scan *scan)
{
    struct api_call *api = mem_calloc(1, sizeof(*api));

    if (api == NULL) {
        refusal_send_no_memory(engine, call);
        return;
    }
    engine->n_jobs++;
    http_call_on_gone(call, on_gone, api);
    api_call_start(api, engine, call, wire_format, scan, on_ready);
}

void template_endpoints_apply(struct engine_client *engine, struct http_call *call,
                              const struct body_scan *scan)
{
    start(engine, call, &apply, scan);
}

void template_endpoints_count(struct engine_client *engine, struct http_call *call,
                              const struct body_scan *scan)
{
    start(engine, call, &count, scan);
}

void template_endpoints_tokenize(struct engine_client *engine, struct http_call *call,
                                 const struct body_scan *scan)
{
    start(engine, call, &tokenize, scan);
}
