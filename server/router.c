/* server/router.c - the handlers of all routes; see server_impl.h and routes.inc.
 *
 * The table is built from api/routes.inc: each row becomes a struct http_route with its handler,
 * the handler's argument and the limit of the body. The HTTP layer calls a handler on the I/O
 * thread when the body is complete. A handler finds its model and passes the call on; none waits.
 * Posts that compute are scanned for "model" first (body_scan()), long bodies on a pool thread.
 */
#include "server/server_impl.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/version.h"
#include "server/admin/anthropic_pages.h"
#include "server/admin/info.h"
#include "server/admin/ollama_pages.h"
#include "server/admin/vllm_pages.h"
#include "server/api/adapter_call.h"
#include "server/api/body_job.h"
#include "server/api/body_scan.h"
#include "server/api/completion/completion.h"
#include "server/api/completion/control_call.h"
#include "server/api/completion/dry_run.h"
#include "server/api/engine_client.h"
#include "server/api/keep_alive.h"
#include "server/api/kept_responses.h"
#include "server/api/response/response_writer.h"
#include "server/api/slot_call.h"
#include "server/api/stream_call.h"
#include "server/api/text_endpoints.h"
#include "server/auth/tenants.h"
#include "server/batches/batch_pages.h"
#include "server/batches/batch_runner.h"
#include "server/batches/file_upload.h"
#include "server/models/model_pages.h"
#include "server/models/model_router.h"
#include "server/page/page.h"
#include "server/process/syscall_filter.h"
#include "server/process/worker_pool.h"
#include "server/storage/response_keeper.h"
#include "server/storage/stream_store.h"
#include "server/storage/usage_keeper.h"

#include <string.h>

#define MAX_INLINE_SCAN ((size_t)1 << 20)

/* Return the model that ?model= names, which must be loaded; NULL: the call has been answered. */
static struct served_model *model_for(void *ud, struct http_call *call)
{
    struct server *s = ud;
    struct served_model *h = model_router_by_query(s->models, s->opt.n_models, call);

    return h != NULL && model_set_check_ready(&s->set, h, call) ? h : NULL;
}

static void on_debug(void *ud, struct http_call *call)
{
    const enum debug_page *page = http_call_arg(call);
    struct served_model *h = model_for(ud, call);

    if (h != NULL)
        debug_ask(&h->debug, call, *page);
}

/* Apply Ollama's `keep_alive`, the time for which the model stays after this request, which its
 * server takes with /v1/systemone, too: only to models that requests load, and only from clients
 * who may unload one. Without it the setting idle_unload applies. */
static void take_keep_alive(struct server *s, struct served_model *h, struct http_call *call,
                            enum params_form form, const struct body_scan *scan)
{
    uint64_t us;

    if (h->model.load != SERVER_LOAD_DEMAND || !auth_is_operator(&s->auth, call))
        return;
    if ((form & (PARAMS_OLLAMA | PARAMS_SYSTEMONE)) == 0 || scan->keep_alive == NULL ||
        !keep_alive_read(scan->keep_alive, scan->n_keep_alive, &us))
        us = h->model.idle_unload_us;
    h->life.idle_us = us;
}

static void on_scanned(struct server *s, struct http_call *call, struct body_scan scan)
{
    const struct wire_format *format = http_call_arg(call);
    struct served_model *h;

    if (format == &wire_ollama_show && scan.model == NULL) {
        scan.model = scan.name;
        scan.n_model = scan.n_name;
    }
    h = model_router_by_body(s->models, s->opt.n_models, call, &scan);
    if (h != NULL)
        take_keep_alive(s, h, call, format->form, &scan);
    if (h == NULL)
        s->server_counts.rejections[REJECTION_INVALID]++;
    else
        model_set_start(&s->set, h, call, format, &scan);
}

struct scan_job {
    struct body_job body;
    struct server *server;
    struct body_scan scan;
};

static void scan_read(struct body_job *j)
{
    list_entry(j, struct scan_job, body)->scan = body_scan(j->body.data, j->body.len);
}

static void scan_done(struct body_job *j)
{
    struct scan_job *scan = list_entry(j, struct scan_job, body);
    struct http_call *call = j->call;

    if (call != NULL) {
        body_job_return(j);
        on_scanned(scan->server, call, scan->scan);
    } else {
        body_job_release(j);
    }
    mem_free(scan);
}

static void scan_on_pool(struct server *s, struct http_call *call)
{
    struct scan_job *j = mem_calloc(1, sizeof(*j));
    struct api_error e;

    if (j != NULL) {
        j->server = s;
        j->body.read = scan_read;
        j->body.done = scan_done;
        if (body_job_start(&j->body, &s->body_jobs, call, "scan") == 0)
            return;
        mem_free(j);
    }
    api_error_set(&e, 429, NULL, "queue_full", "too many requests are being parsed");
    http_call_reply_error(call, &e);
}

/* Begin a POST that computes. A long body is scanned by a pool thread, because scanning takes a
 * millisecond or more for each megabyte. */
static void on_work_route(void *ud, struct http_call *call)
{
    const struct buf *body = http_call_body(call);

    if (body->len <= MAX_INLINE_SCAN)
        on_scanned(ud, call, body_scan(body->data, body->len));
    else
        scan_on_pool(ud, call);
}

static void on_slot(void *ud, struct http_call *call)
{
    struct served_model *h = model_for(ud, call);

    if (h != NULL)
        slot_call_start(h->engine, call);
}

static bool is_model_name(void *ud, const char *name)
{
    struct server *s = ud;

    return model_router_has_model(s->models, s->opt.n_models, name);
}

static void on_load_adapter(void *ud, struct http_call *call)
{
    struct served_model *h = model_for(ud, call);

    if (h != NULL)
        adapter_call_load(h->engine, call, is_model_name, ud);
}

static void on_unload_adapter(void *ud, struct http_call *call)
{
    struct served_model *h = model_for(ud, call);

    if (h != NULL)
        adapter_call_unload(h->engine, call);
}

static void on_adapters(void *ud, struct http_call *call)
{
    struct served_model *h = model_for(ud, call);

    if (h != NULL)
        adapter_call_list(h->engine, call);
}

static void on_props(void *ud, struct http_call *call)
{
    const struct server *s = ud;
    const struct served_model *h = model_for(ud, call);

    if (h != NULL && http_call_is(call, HTTP_POST))
        info_post_props(s->opt.takes_props, call);
    else if (h != NULL)
        info_props(&h->model, call);
}

/* Fill in the models that are served now; returns how many. */
static uint32_t list_models(struct server *s, const struct server_model *models[SERVER_MAX_MODELS])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->opt.n_models; i++) {
        if (s->models[i].life.is_gone)
            continue;
        model_set_tell(&s->models[i]);
        models[n++] = &s->models[i].model;
    }
    return n;
}

static void on_models(void *ud, struct http_call *call)
{
    const struct server_model *models[SERVER_MAX_MODELS];
    const uint32_t n = list_models(ud, models);

    if (anthropic_pages_are_wanted(call))
        anthropic_pages_models(call, models, n);
    else
        info_models(call, models, n);
}

static void on_server_info(void *ud, struct http_call *call)
{
    const struct server_model *models[SERVER_MAX_MODELS];
    const uint32_t n = list_models(ud, models);

    vllm_pages_server_info(call, models, n);
}

static void on_tokenizer_info(void *ud, struct http_call *call)
{
    const struct served_model *h = model_for(ud, call);

    if (h != NULL)
        vllm_pages_tokenizer_info(call, &h->model);
}

static void on_get_server_info(void *ud, struct http_call *call)
{
    const struct served_model *h = model_for(ud, call);

    if (h != NULL)
        vllm_pages_get_server_info(call, &h->model);
}

static void on_kv_event_sources(void *ud, struct http_call *call)
{
    const struct served_model *h = model_for(ud, call);

    if (h != NULL)
        vllm_pages_kv_event_sources(call, &h->model);
}

static void on_usage(void *ud, struct http_call *call)
{
    struct server *s = ud;

    server_tell_usage(s, call);
}

static void on_load(void *ud, struct http_call *call)
{
    const struct server *s = ud;
    uint64_t n = 0;

    for (uint32_t i = 0; i < s->opt.n_models; i++)
        n += s->models[i].engine->n_jobs + s->models[i].life.waits.n;
    vllm_pages_load(call, n);
}

static void on_ollama_tags(void *ud, struct http_call *call)
{
    const struct server_model *models[SERVER_MAX_MODELS];
    const uint32_t n = list_models(ud, models);

    ollama_pages_tags(call, models, n);
}

static void on_ollama_ps(void *ud, struct http_call *call)
{
    const struct server_model *models[SERVER_MAX_MODELS];
    const uint32_t n = list_models(ud, models);

    ollama_pages_ps(call, models, n);
}

static void on_ollama_version(void *ud, struct http_call *call)
{
    (void)ud;
    ollama_pages_version(call);
}

static void on_root(void *ud, struct http_call *call)
{
    const struct server *s = ud;

    http_call_set_header(call, "Vary", "Accept"); /* the answer depends on Accept */
    if (s->opt.has_page && page_is_wanted(http_call_header(call, "Accept")))
        page_show(call);
    else
        ollama_pages_running(call);
}

static void on_page_file(void *ud, struct http_call *call)
{
    const struct server *s = ud;
    struct api_error e;

    if (s->opt.has_page) {
        page_file(call);
        return;
    }
    api_error_set(&e, 404, NULL, NULL, "there is no page here (the setting 'page')");
    http_call_reply_error(call, &e);
}

static void on_ollama_refuse(void *ud, struct http_call *call)
{
    (void)ud;
    ollama_pages_refuse(call);
}

static void on_model(void *ud, struct http_call *call)
{
    struct server *s = ud;
    const char *name = http_call_tail(call);
    struct served_model *h = model_router_find(s->models, s->opt.n_models, name);

    if (h != NULL)
        model_set_tell(h);
    if (h == NULL)
        model_router_refuse(call, name);
    else if (anthropic_pages_are_wanted(call))
        anthropic_pages_model(call, &h->model);
    else
        info_model(call, &h->model, name);
}

static void on_live(void *ud, struct http_call *call)
{
    (void)ud;
    info_live(call);
}

static bool is_stuck(struct worker_pool *pool)
{
    return info_is_stuck(worker_pool_stats(pool).oldest_us, INFO_STUCK_PARSE_US);
}

static void on_health(void *ud, struct http_call *call)
{
    struct server *s = ud;
    const struct worker_pool_stats storage = worker_pool_stats(s->storage);
    const char *trouble = NULL;
    char sentence[100];

    if (s->auth.is_loading) {
        auth_set_retry(&s->auth, call);
        trouble = AUTH_LOADING;
    }
    for (uint32_t i = 0; trouble == NULL && i < s->opt.n_models; i++)
        trouble = served_model_trouble(&s->models[i]);
    if (trouble == NULL && info_is_stuck(storage.oldest_us, INFO_STUCK_DISK_US)) {
        snprintf(sentence, sizeof(sentence), "%s has not answered for a minute", storage.oldest);
        trouble = sentence;
    }
    if (trouble == NULL && (is_stuck(s->text_pool) || is_stuck(s->constraint_pool)))
        trouble = "the parsing of a request does not end";
    info_health(call, trouble);
}

static void on_load_model(void *ud, struct http_call *call)
{
    model_pages_load(&((struct server *)ud)->set, call);
}

static void on_unload_model(void *ud, struct http_call *call)
{
    model_pages_unload(&((struct server *)ud)->set, call);
}

static void on_debug_models(void *ud, struct http_call *call)
{
    model_pages_debug(&((struct server *)ud)->set, call);
}

static void on_kept(void *ud, struct http_call *call)
{
    const enum kept_responses_page *page = http_call_arg(call);
    const char *stream = http_call_query(call, "stream");
    struct server *s = ud;

    if (stream_call_is_restoring(s->restorer, &s->opt, call))
        return;
    if (*page == KEPT_RESPONSES_ONE && !http_call_is(call, HTTP_DELETE) && stream != NULL &&
        strcmp(stream, "false") != 0) {
        stream_call_response(s->streams, s->restorer, &s->opt, call);
        return;
    }
    kept_responses_ask(s->keeper, &s->opt, call, *page);
}

static void on_stream(void *ud, struct http_call *call)
{
    struct server *s = ud;

    stream_call_one(s->streams, s->restorer, &s->opt, call);
}

static void on_conversation(void *ud, struct http_call *call)
{
    struct server *s = ud;

    stream_call_conversation(s->streams, s->restorer, &s->opt, call);
}

static void on_stream_lookup(void *ud, struct http_call *call)
{
    struct server *s = ud;

    stream_call_look_up(s->streams, &s->opt, &s->body_jobs, call);
}

/* Handle a control call. Its body names a completion, not a model: each model's engine client
 * searches for it. */
static void on_control(void *ud, struct http_call *call)
{
    struct server *s = ud;
    struct control_order o = {0};
    struct api_error e;
    bool is_taken = false;

    if (control_order_read(&o, call, &e) < 0) {
        http_call_reply_error(call, &e);
    } else {
        for (uint32_t i = 0; i < s->opt.n_models && !is_taken; i++)
            is_taken = control_call_take(s->models[i].engine, call, &o);
        if (!is_taken)
            control_call_answer_unknown(call);
    }
    control_order_release(&o);
}

static void on_batches(void *ud, struct http_call *call)
{
    const enum batch_page_kind *kind = http_call_arg(call);
    struct server *s = ud;

    if (*kind == BATCH_PAGE_FILES && http_call_is(call, HTTP_POST))
        file_upload_end(&s->batch_pages, call);
    else
        batch_pages_ask(&s->batch_pages, call, *kind);
}

static void on_upload_piece(void *ud, struct http_call *call)
{
    file_upload_receive(&((struct server *)ud)->batch_pages, call);
}

static void on_debug_batches(void *ud, struct http_call *call)
{
    struct buf out;

    buf_init(&out, HTTP_MAX_REPLY);
    batch_runner_describe(((struct server *)ud)->batch_runner, &out);
    http_call_reply_page(call, "application/json", &out);
}

static void on_version(void *ud, struct http_call *call)
{
    (void)ud;
    info_version(call);
}

static void on_openapi(void *ud, struct http_call *call)
{
    (void)ud;
    info_openapi(call);
}

static void on_metrics(void *ud, struct http_call *call)
{
    server_tell_metrics(ud, call);
}

/* The handler argument of ROUTE in routes.inc: */
/* A handler, its argument, and the largest body that it accepts; 0 is the setting max_body, for
 * handlers that parse on pool threads or do not look at the body. */
#define PAGE(name) on_##name, NULL, HTTP_SMALL_BODY
#define REFUSAL(name) on_##name, NULL, 0
#define LOOK_UP(name) on_##name, NULL, STREAM_CALL_MAX_BODY
#define DEBUG(page) on_debug, &(const enum debug_page){DEBUG_##page}, HTTP_SMALL_BODY
#define KEPT(page)                                                                                 \
    on_kept, &(const enum kept_responses_page){KEPT_RESPONSES_##page}, HTTP_SMALL_BODY
#define BATCHES(page)                                                                              \
    on_batches, &(const enum batch_page_kind){BATCH_PAGE_##page}, BATCH_PAGE_MAX_BODY
#define WORK(format) on_work_route, &wire_##format, 0
#define ERRORS(flags)                                                                              \
    ((flags)&AUTH_ANTHROPIC ? anthropic_messages_error                                             \
     : (flags)&AUTH_OLLAMA  ? ollama_error                                                         \
     : (flags)&AUTH_COHERE  ? cohere_error                                                         \
                            : NULL)
#define ID_HEADER(flags) ((flags) & (AUTH_ANTHROPIC | AUTH_BY_VERSION) ? "Request-Id" : NULL)
#define TYPE(flags) ((flags) & (AUTH_OLLAMA | AUTH_UPLOAD)) != 0
#define BODY(flags) TYPE(flags), ((flags)&AUTH_UPLOAD) != 0 ? on_upload_piece : NULL

static const struct http_route routes[] = {
#define ROUTE(path, also, tail, methods, id, handler, flags, body, reply, text)                    \
    {path, methods, handler, ERRORS(flags), flags, also, ID_HEADER(flags), BODY(flags)},
#include "server/api/routes.inc"
#undef ROUTE
};
#define N_ROUTES (sizeof(routes) / sizeof(routes[0]))
_Static_assert(N_ROUTES < METRICS_MAX_ROUTES, "each route is a label, and so is the lack of one");

const struct http_route *server_routes(size_t *n)
{
    *n = N_ROUTES;
    return routes;
}
