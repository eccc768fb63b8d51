/* server/server_metrics.c - GET /metrics: a snapshot of all counters, rendered as text.
 *
 * The I/O thread takes the snapshot, whose pointers lead to live counters, and renders it itself
 * for a few models. For many models the text takes tens of milliseconds: then the counters and
 * names are copied and a pool thread renders the copy; see server_impl.h.
 */
#include "server/server_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/version.h"
#include "server/admin/info.h"
#include "server/api/engine_client.h"
#include "server/auth/tenants.h"
#include "server/batches/batch_runner.h"
#include "server/http/http_call.h"
#include "server/process/syscall_filter.h"
#include "server/storage/response_keeper.h"
#include "server/storage/stream_store.h"
#include "server/storage/usage_keeper.h"

#include <stdio.h>
#include <string.h>

#define FEW_MODELS 8 /* the text of so many models takes a millisecond or two */

struct model_words { /* copies, because a reload may free the originals */
    char id[256], arch[64], ftype[32], kv_type[16];
};

struct metrics_job {
    struct body_job body; /* has no body: the call is a GET */
    struct metrics_scene scene; /* its pointers lead to the members below */
    const char *labels[METRICS_MAX_ROUTES];
    struct metrics_model models[SERVER_MAX_MODELS];
    /* The next two are for a copy that a pool thread renders. */
    struct metrics *counts;    /* [scene.n_models] */
    struct model_words *words; /* [scene.n_models] */
    struct metrics_server server_counts;
    struct loop_guard guard;
    uint64_t edge[HTTP_EDGE_COUNT];
    char isa[32];
    struct buf out;
};

/* ---- the snapshot ---- */

static void fill_life(const struct model_life *l, struct metrics_model *out)
{
    out->is_loaded = l->state == MODEL_READY;
    out->is_loading = l->state == MODEL_LOADING;
    out->has_failed = l->state == MODEL_FAILED;
    out->n_loads = l->n_loads;
    out->n_unloads = l->n_unloads;
    out->n_load_failures = l->n_failures;
    out->load_us = l->all_load_us;
    out->n_load_waits = l->waits.n;
}

static uint32_t fill_models(struct server *s, struct metrics_model *models)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->opt.n_models; i++) {
        if (s->models[i].life.is_gone)
            continue;
        info_fill_metrics(s->models[i].engine, &models[n]);
        fill_life(&s->models[i].life, &models[n++]);
    }
    return n;
}

/* Return the ISA of the first loaded model; "": none is loaded. */
static const char *isa_of(const struct server *s)
{
    uint32_t i = 0;

    while (i + 1 < s->opt.n_models && s->models[i].model.isa[0] == '\0')
        i++;
    return s->models[i].model.isa;
}

static void take_picture(struct server *s, struct metrics_job *j)
{
    const struct response_counts kept = response_keeper_counts(s->keeper);
    const struct stream_counts streams = stream_store_counts(s->streams);
    const struct batch_runner_counts batches = batch_runner_counts(s->batch_runner);
    const struct batch_store_counts files = batch_store_counts(s->batch_store);
    const struct request_keeper_counts requests = request_keeper_counts(s->requests);
    size_t n_routes;
    const struct http_route *routes = server_routes(&n_routes);

    j->scene = (struct metrics_scene){
        .models = j->models,
        .names = metrics_names_of(s->opt.metrics_names),
        .server_counts = &s->server_counts,
        .routes = j->labels,
        .n_routes = n_routes + 1,
        .isa = isa_of(s),
        .version = quire_version(),
        .pools = {worker_pool_stats(s->text_pool), worker_pool_stats(s->constraint_pool),
                  worker_pool_stats(s->adapter_pool), worker_pool_stats(s->answer_pool)},
        .memory_used = s->memory.used,
        .memory_max = s->memory.max,
        .streams = {streams.n_running, streams.n_ended, streams.bytes, streams.n_resumed,
                    streams.n_evicted, streams.n_stopped},
        .n_kept = kept.n,
        .kept_bytes = kept.bytes,
        .batches = {batches.n_batches, batches.n_running, batches.n_waiting,
                    batches.n_done[BATCH_OUTPUT], batches.n_done[BATCH_ERRORS], files.n_files,
                    files.bytes},
        .requests = {requests.n, requests.bytes, requests.n_restored, requests.n_lost,
                     requests.n_unkept},
        .lost = {files.n_lost, kept.n_lost, usage_keeper_n_lost(s->usage_keeper)},
        .n_connections = http_n_connections(s->http),
        .edge = http_edge_counts(s->http),
        .n_tenants = tenants_n(s->tenants),
        .n_tenants_shared = tenants_n_shared(s->tenants),
        .n_log_dropped = log_dropped(),
        .n_syscalls_refused = syscall_filter_n_refused(),
        .loop = &s->guard,
        .uptime_s = (double)(clock_us() - s->start_us) / 1e6,
        .unix_s = clock_unix_s()};

    for (size_t i = 0; i < n_routes; i++)
        j->labels[i] = routes[i].path;
    j->labels[n_routes] = "other";
    j->scene.n_models = fill_models(s, j->models);
}

/* ---- on a pool thread ---- */

static void copy_words(struct metrics_model *m, struct model_words *w)
{
    snprintf(w->id, sizeof(w->id), "%s", m->id);
    snprintf(w->arch, sizeof(w->arch), "%s", m->arch);
    snprintf(w->ftype, sizeof(w->ftype), "%s", m->ftype);
    snprintf(w->kv_type, sizeof(w->kv_type), "%s", m->kv_type);
    m->id = w->id;
    m->arch = w->arch;
    m->ftype = w->ftype;
    m->kv_type = w->kv_type;
}

/* Copy everything that the snapshot points to and the loop may change. */
static int copy_picture(struct metrics_job *j)
{
    struct metrics_scene *scene = &j->scene;

    j->counts = mem_alloc(scene->n_models * sizeof(*j->counts));
    j->words = mem_alloc(scene->n_models * sizeof(*j->words));
    if (j->counts == NULL || j->words == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < scene->n_models; i++) {
        j->counts[i] = *j->models[i].counts;
        j->models[i].counts = &j->counts[i];
        copy_words(&j->models[i], &j->words[i]);
    }
    j->server_counts = *scene->server_counts;
    j->guard = *scene->loop;
    memcpy(j->edge, scene->edge, sizeof(j->edge));
    snprintf(j->isa, sizeof(j->isa), "%s", scene->isa);
    scene->server_counts = &j->server_counts;
    scene->loop = &j->guard;
    scene->edge = j->edge;
    scene->isa = j->isa;
    return 0;
}

static void metrics_job_destroy(struct metrics_job *j)
{
    for (uint32_t i = 0; i < j->scene.n_models; i++)
        info_release_metrics(&j->models[i]);
    mem_free(j->counts);
    mem_free(j->words);
    buf_release(&j->out);
    mem_free(j);
}

static void metrics_job_read(struct body_job *b)
{
    struct metrics_job *j = list_entry(b, struct metrics_job, body);

    metrics_render(&j->scene, &j->out);
}

static void metrics_job_done(struct body_job *b)
{
    struct metrics_job *j = list_entry(b, struct metrics_job, body);

    body_job_release(b);
    if (b->call != NULL)
        info_reply_metrics(b->call, &j->out);
    metrics_job_destroy(j);
}

/* ---- the page ---- */

static int render_on_pool(struct server *s, struct metrics_job *j, struct http_call *call)
{
    const int rc = copy_picture(j);

    j->body.read = metrics_job_read;
    j->body.done = metrics_job_done;
    return rc == 0 ? body_job_start(&j->body, &s->body_jobs, call, "metrics") : rc;
}

void server_tell_metrics(struct server *s, struct http_call *call)
{
    struct metrics_job *j = mem_calloc(1, sizeof(*j));
    struct api_error e;

    if (j == NULL) {
        api_error_no_memory(&e);
        http_call_reply_error(call, &e);
        return;
    }
    info_begin_metrics(&j->out);
    take_picture(s, j);
    if (j->scene.n_models > FEW_MODELS && render_on_pool(s, j, call) == 0)
        return;
    metrics_render(&j->scene, &j->out); /* few models, or no pool thread is free */
    info_reply_metrics(call, &j->out);
    metrics_job_destroy(j);
}
