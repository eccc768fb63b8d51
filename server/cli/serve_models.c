/* server/cli/serve_models.c - see serve_models.h.
 *
 * The models are an array whose indexes never change: a removed model keeps its place, a new one is
 * appended. At the start the models with load = start are loaded one by one. Later the I/O thread
 * decides (server/models/model_set.h) and calls the functions of struct server_loader: look, load
 * and unload run on a thread of the pool, loaded and unloaded on the I/O thread, so only one thread
 * uses a model at any time. */
#include "server/cli/serve_models.h"

#include "config/adapters.h"
#include "config/config.h"
#include "config/models.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/hold.h"
#include "core/base/mem.h"
#include "core/base/name_list.h"
#include "core/hub/pull.h"
#include "core/model/model.h"
#include "core/runtime/thread_pool.h"
#include "scheduler/engine_arbiter.h"
#include "server/adapters/adapter_set.h"
#include "server/cli/low_priority.h"
#include "server/cli/memory_estimate.h"
#include "server/cli/model_files.h"
#include "server/cli/serve_model.h"
#include "server/metrics/process_stats.h"
#include "server/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(MODELS_MAX <= SERVER_MAX_MODELS, "the server has room for what settings can list");

/* ---- before they are loaded ---- */

/* True: another model has the same name. Names that differ only in bytes that are not UTF-8 are
 * equal in JSON. */
static bool has_twin(const struct served_names *all, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++)
        if (all[j].id != NULL && strcmp(all[j].id, all[i].id) == 0)
            return true;
    return false;
}

/* Find a model or adapter with the name. Requests name adapters like models, so a name must be
 * unique among both. */
static bool find_name(const struct served_names *all, uint32_t n, uint32_t but, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].id == NULL)
            continue;
        if (strcmp(all[i].id, name) == 0 || name_list_has(all[i].alias, name) ||
            (i != but && adapter_set_lists(all[i].adapters, name)))
            return true;
    }
    return strcmp(name, "default") == 0;
}

static int check_adapters(const struct served_names *all, uint32_t n, uint32_t i, char *err,
                          size_t err_len)
{
    const char *list = all[i].adapters;
    struct model_item item;

    while (adapters_next(&list, &item, err, err_len) > 0)
        if (find_name(all, n, i, item.name)) {
            snprintf(
                err, err_len,
                "'adapters': '%s' is already the name of a model or of another model's adapter",
                item.name);
            return EXIT_USAGE;
        }
    return EXIT_OK;
}

int serve_models_check(const struct served_names *all, uint32_t n, char *err, size_t err_len)
{
    int code = EXIT_OK;

    for (uint32_t i = 0; i < n && code == EXIT_OK; i++) {
        if (all[i].id == NULL)
            continue;
        if (has_twin(all, i)) {
            snprintf(err, err_len,
                     "two models have the name '%s': give one of them another name with NAME=PATH",
                     all[i].id);
            return EXIT_USAGE;
        }
        code = check_adapters(all, n, i, err, err_len);
    }
    return code;
}

static int init_all(struct serve_models *s, const struct config *c, char *err, size_t err_len)
{
    struct served_names names[MODELS_MAX];

    for (uint32_t i = 0; i < s->n; i++) {
        const struct served *m = &s->all[i];
        const int code = served_init(&s->all[i], c, i, hub_pull, err, err_len);

        if (code != EXIT_OK)
            return code;
        names[i] = (struct served_names){m->id, m->config.alias, m->config.adapters};
    }
    return serve_models_check(names, s->n, err, err_len);
}

/* One model needs no arbiter; but with a file of settings more models may be added later. */
static int make_arbiter(struct serve_models *s, const struct config *c)
{
    uint32_t shares[MODELS_MAX];

    if (s->n == 1 && config_path(c) == NULL && c->models_dir[0] == '\0')
        return 0;
    for (uint32_t i = 0; i < MODELS_MAX; i++)
        shares[i] = i < s->n ? s->all[i].info.share : 1;
    return engine_arbiter_create(&s->arbiter, shares, MODELS_MAX);
}

int serve_models_init(struct serve_models *s, const struct config *c, char *err, size_t err_len)
{
    struct process_stats now;
    int code;

    process_read(&now);
    s->process_bytes = now.resident_bytes + MEMORY_ESTIMATE_SERVER;
    s->memory_limit = c->memory_limit;
    s->n = config_n_models(c);
    s->all = mem_calloc(MODELS_MAX, sizeof(*s->all));
    if (s->all == NULL)
        return snprintf(err, err_len, "no memory"), EXIT_FAILED;
    code = init_all(s, c, err, err_len);
    if (code != EXIT_OK || make_arbiter(s, c) == 0)
        return code;
    snprintf(err, err_len, "no memory");
    return EXIT_FAILED;
}

void serve_models_release(struct serve_models *s)
{
    for (uint32_t i = 0; s->all != NULL && i < s->n; i++)
        served_release(&s->all[i]);
    mem_free(s->all);
    s->all = NULL;
    engine_arbiter_destroy(&s->arbiter);
    thread_pool_destroy(&s->pool);
}

/* ---- at the start ---- */

/* Measured bytes of the process for each token of a vocabulary, with the largest ones. */
#define TOKEN_BYTES 200

/* Returns the sum of memory that `quire plan` prints. */
static uint64_t most_bytes(const struct memory_estimate *e, const struct instance *engine)
{
    return memory_estimate_sum(e) + e->swap + e->adapters +
           (uint64_t)engine->model->shape.n_vocab * TOKEN_BYTES;
}

static int estimate(const struct serve_models *s, struct served *m, char *err, size_t err_len)
{
    const struct instance_company among = {.pool = s->pool, .numa = &s->numa};
    struct memory_estimate e;
    struct instance engine;
    const int code = memory_estimate_make(&e, &engine, &m->config, &among, err, err_len);

    if (code != EXIT_OK)
        return code;
    m->bytes = most_bytes(&e, &engine);
    instance_release(&engine);
    return EXIT_OK;
}

static int load_one(struct serve_models *s, uint32_t i, bool is_beside, char *err, size_t err_len)
{
    const struct served_company company = {s->pool,     &s->numa,  s->arbiter, i,
                                           server_wake, s->server, &s->place,  is_beside};
    const uint64_t start = clock_us();
    struct served *m = &s->all[i];
    struct memory_estimate e;
    const int code = served_load(m, &company, err, err_len);

    m->load_us = clock_us() - start;
    if (code != EXIT_OK)
        return code;
    e = memory_estimate_of(&m->engine, &m->draft.engine, &m->config);
    m->bytes = most_bytes(&e, &m->engine); /* for a memory_limit that may be set later */
    return EXIT_OK;
}

/* At the start: check that the next model fits besides those that are loaded. */
static int check_memory_room(struct serve_models *s, uint32_t i, char *err, size_t err_len)
{
    uint64_t sum = s->process_bytes;
    int code;

    if (s->memory_limit == 0)
        return EXIT_OK;
    code = estimate(s, &s->all[i], err, err_len);
    for (uint32_t k = 0; k <= i; k++)
        sum += s->all[k].bytes;
    if (code != EXIT_OK || sum <= s->memory_limit)
        return code;
    snprintf(err, err_len,
             "with this model, the models that are loaded at the start (load) and the process take "
             "%" PRIu64 " MiB, but memory_limit is %" PRIu64 " MiB",
             sum >> 20, s->memory_limit >> 20);
    return EXIT_USAGE;
}

static int load_at_start(struct serve_models *s, uint32_t i, char *err, size_t err_len)
{
    const int code = check_memory_room(s, i, err, err_len);

    return code == EXIT_OK ? load_one(s, i, false, err, err_len) : code;
}

static bool is_first(const struct serve_models *s, uint32_t i)
{
    return s->all[i].config.load == CONFIG_LOAD_START;
}

/* Load one model after the other: each uses all threads, and only one needs memory for loading. */
static int load_first(struct serve_models *s, char *err, size_t err_len)
{
    for (uint32_t i = 0; i < s->n; i++) {
        char why[400];
        const int code =
            is_first(s, i) ? load_at_start(s, i, why, sizeof(why)) : (int)EXIT_OK;

        if (code == EXIT_OK)
            continue;
        if (s->n > 1)
            snprintf(err, err_len, "the model '%s': %.360s", s->all[i].id, why);
        else
            snprintf(err, err_len, "%s", why);
        return code;
    }
    return EXIT_OK;
}

int serve_models_load(struct serve_models *s, const struct config *c, char *err, size_t err_len)
{
    instance_plan_numa(&s->numa, c);
    if (instance_make_thread_pool(&s->pool, c, &s->numa, err, err_len) < 0)
        return EXIT_FAILED;
    return load_first(s, err, err_len);
}

uint32_t serve_models_permille(const struct serve_models *s)
{
    uint32_t sum = 0, n = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        sum += is_first(s, i) ? served_permille(&s->all[i]) : 0;
        n += is_first(s, i) ? 1 : 0;
    }
    return n > 0 ? sum / n : 0;
}

static void attach(struct serve_models *s, uint32_t i)
{
    served_complete(&s->all[i]);
    server_set_model(s->server, i, &s->all[i].info);
    server_attach(s->server, i, s->all[i].queue);
}

void serve_models_attach(struct serve_models *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (is_first(s, i))
            attach(s, i);
    server_ready(s->server);
}

/* ---- while others are served ---- */

struct looking {
    struct serve_models *s;
    struct served *m;
    char *err;
    size_t err_len;
    int code;
};

static void look_inside(void *ud)
{
    struct looking *l = ud;

    l->code = estimate(l->s, l->m, l->err, l->err_len);
}

/* Estimate the memory of a model from the header of its file. */
static int look_at_files(void *ud, uint32_t i, uint64_t files, struct server_look *out, char *err,
                         size_t err_len)
{
    struct serve_models *s = ud;
    struct looking l = {s, &s->all[i], err, err_len, EXIT_OK};
    struct model_item item;

    models_get(l.m->config.model, 0, &item);
    *out = (struct server_look){.files = model_files_hash(item.path)};
    if (out->files == files || s->memory_limit == 0)
        return 0;
    low_priority_run(look_inside, &l);
    out->bytes = l.m->bytes;
    return l.code == EXIT_OK ? 0 : ERR_FORMAT;
}

static int load_served(void *ud, uint32_t i, char *err, size_t err_len)
{
    struct serve_models *s = ud;

    hold_here("QUIRE_DEBUG_HOLD_LOAD_MODEL");
    snprintf(err, err_len, "loading failed without a reason");
    return load_one(s, i, true, err, err_len) == EXIT_OK ? 0 : ERR_FORMAT;
}

static void unload(void *ud, uint32_t i)
{
    served_unload(&((struct serve_models *)ud)->all[i]);
}

static void loaded(void *ud, uint32_t i)
{
    attach(ud, i);
}

static void unloaded(void *ud, uint32_t i)
{
    struct serve_models *s = ud;

    served_take_next(&s->all[i]);
    served_refresh(&s->all[i]); /* the parts of the load were freed */
    server_set_before(s->server, i, &s->all[i].info);
}

static uint32_t permille(void *ud, uint32_t i)
{
    return served_permille(&((struct serve_models *)ud)->all[i]);
}

struct server_loader serve_models_loader(struct serve_models *s)
{
    return (struct server_loader){look_at_files, load_served, unload, loaded,
                                  unloaded,      permille,    s};
}

/* ---- the end ---- */

static void for_each(struct serve_models *s, void (*end)(struct served *m))
{
    for (uint32_t i = 0; i < s->n; i++)
        if (!server_is_changing(s->server, i))
            end(&s->all[i]);
}

void serve_models_stop(struct serve_models *s)
{
    for_each(s, served_stop);
    for_each(s, served_join);
    for_each(s, served_flush);
}
