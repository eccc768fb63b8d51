/* server/cli/serve_reload.c - see serve_reload.h.
 *
 * begin_reading() on the I/O thread copies the data of the models that the reader needs;
 * read_again() on a pool thread parses all settings and prepares `next` for known models, and new
 * models after the served ones; apply() on the I/O thread then compares and puts them into force.
 * If reading fails, everything prepared is dropped and the settings in force do not change.
 */
#include "server/cli/serve_reload.h"

#include "config/models.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/hold.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/hub/cached.h"
#include "core/hub/reference.h"
#include "scheduler/engine_arbiter.h"
#include "server/cli/serve_model.h"
#include "server/cli/serve_models.h"
#include "server/server.h"

#include <stdio.h>
#include <string.h>

#define GONE UINT32_MAX /* value in now[]: the model was removed from the settings */

struct serve_reload {
    struct serve_reload_options opt;
    struct config fresh;
    bool has_fresh;
    uint32_t n;                              /* models before; */
    char *known[MODELS_MAX];                 /* [n] the text of each model's setting, copied because
                                              * the I/O thread may change it meanwhile */
    uint32_t n_added;                        /* new models after the n known ones, made but not
                                              * served yet */
    uint32_t now[MODELS_MAX];                /* [n] index of the model in the fresh settings */
    struct served_settings next[MODELS_MAX]; /* [n] for those that were not removed */
};

int serve_reload_create(struct serve_reload **out, const struct serve_reload_options *options)
{
    *out = mem_calloc(1, sizeof(**out));
    if (*out == NULL)
        return ERR_NOMEM;
    (*out)->opt = *options;
    return 0;
}

/* Drop everything that was read and not applied. */
static void drop_reload(struct serve_reload *r)
{
    struct serve_models *m = r->opt.models;

    for (uint32_t i = 0; i < r->n; i++) {
        served_settings_release(&r->next[i]);
        mem_free(r->known[i]);
        r->known[i] = NULL;
    }
    for (uint32_t i = 0; i < r->n_added; i++)
        served_release(&m->all[r->n + i]);
    r->n = r->n_added = 0;
    if (r->has_fresh)
        config_release(&r->fresh);
    r->has_fresh = false;
}

void serve_reload_destroy(struct serve_reload **r)
{
    if (*r == NULL)
        return;
    drop_reload(*r);
    mem_free(*r);
    *r = NULL;
}

/* ---- reading ---- */

static void item_of(const struct served *m, struct model_item *item)
{
    models_get(m->config.model, 0, item);
}

/* Return the index of the model with that name, even if it was removed; or r->n. */
static uint32_t find_model_item(const struct serve_reload *r, const char *name,
                                struct model_item *item)
{
    for (uint32_t i = 0; i < r->n; i++) {
        models_get(r->known[i], 0, item);
        if (strcmp(item->name, name) == 0)
            return i;
    }
    return r->n;
}

static int find_cached(struct model_item *item, char *err, size_t err_len)
{
    char path[HUB_MAX_FOUND];
    const int rc = hub_cached(item->path, path, err, err_len);

    if (rc < 0)
        return rc;
    if (strchr(path, ',') != NULL ||
        snprintf(item->path, sizeof(item->path), "%s", path) >= (int)sizeof(item->path)) {
        snprintf(err, err_len, "%.200s: the path is too long, or contains a comma", path);
        return ERR_INVAL;
    }
    return 0;
}

/* Replace Hub names by paths. The Hub is asked only at the start, before the sandbox is entered: a
 * model whose name existed then keeps its path; a new one is looked up only in the cache. */
static int keep_fetched(struct serve_reload *r, char *err, size_t err_len)
{
    const char *text = r->fresh.model;
    struct model_item item;
    char one[MODELS_MAX_TEXT];
    struct buf list;
    int rc;

    buf_init(&list, 2 * MODELS_MAX * MODELS_MAX_TEXT);
    while ((rc = models_next(&text, &item, err, err_len)) > 0) {
        if (hub_reference_is(item.path)) {
            struct model_item known;

            if (find_model_item(r, item.name, &known) < r->n)
                item = known;
            else if ((rc = find_cached(&item, err, err_len)) < 0)
                break;
        }
        models_text(&item, one);
        buf_printf(&list, "%s%s", list.len > 0 ? "," : "", one);
    }
    if (rc == 0 && list.err == 0 && list.len > 0)
        rc = config_set_models(&r->fresh, list.data, err, err_len);
    buf_release(&list);
    return rc;
}

static int read_model(struct serve_reload *r, uint32_t i, char *err, size_t err_len)
{
    struct serve_models *m = r->opt.models;
    struct model_item item, known;
    uint32_t at;

    models_get(r->fresh.model, i, &item);
    at = find_model_item(r, item.name, &known);
    if (at < r->n) {
        r->now[at] = i;
        return served_settings_read(&r->next[at], &r->fresh, i, hub_cached, err, err_len);
    }
    if (r->n + r->n_added == MODELS_MAX) {
        snprintf(err, err_len,
                 "the process has served %d models, which is the limit: restart it to add more",
                 MODELS_MAX);
        return EXIT_FAILED;
    }
    return served_init(&m->all[r->n + r->n_added++], &r->fresh, i, hub_cached, err, err_len);
}

/* Check the names of the models after the change. */
static int check_names(const struct serve_reload *r, char *err, size_t err_len)
{
    const struct served *all = r->opt.models->all;
    struct served_names names[MODELS_MAX];

    for (uint32_t i = 0; i < r->n + r->n_added; i++) {
        const struct config *c = i < r->n ? &r->next[i].config : &all[i].config;

        names[i] = (struct served_names){all[i].id, c->alias, c->adapters};
        if (i < r->n && r->now[i] == GONE)
            names[i].id = NULL;
    }
    return serve_models_check(names, r->n + r->n_added, err, err_len);
}

static int read_fresh(struct serve_reload *r, char *err, size_t err_len)
{
    enum config_action action;

    if (config_load(&r->fresh, r->opt.argc, r->opt.argv, &action, err, err_len) < 0)
        return ERR_INVAL;
    r->has_fresh = true;
    if (keep_fetched(r, err, err_len) < 0)
        return ERR_INVAL;
    for (uint32_t i = 0; i < config_n_models(&r->fresh); i++)
        if (read_model(r, i, err, err_len) != EXIT_OK)
            return ERR_INVAL;
    return check_names(r, err, err_len) == EXIT_OK ? 0 : ERR_INVAL;
}

/* On the I/O thread: copy the data of the models that the reading thread needs. */
static int begin_reading(void *ud)
{
    struct serve_reload *r = ud;

    drop_reload(r);
    for (; r->n < r->opt.models->n; r->n++) {
        r->now[r->n] = GONE;
        r->known[r->n] = mem_strdup(r->opt.models->all[r->n].config.model);
        if (r->known[r->n] == NULL) {
            drop_reload(r);
            return ERR_NOMEM;
        }
    }
    return 0;
}

static int read_again(void *ud, char *err, size_t err_len)
{
    struct serve_reload *r = ud;
    int rc;

    hold_here("QUIRE_DEBUG_HOLD_SETTINGS");
    rc = read_fresh(r, err, err_len);
    if (rc < 0)
        drop_reload(r);
    return rc;
}

/* ---- applying ---- */

static bool is_in(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}
#define IS_IN(name, names) is_in(name, names, sizeof(names) / sizeof(names[0]))

static void tell_restart(const char *model, const char *setting)
{
    char id[280];

    log_warn("main", "event=needs_restart setting=%s model=%s", setting,
             log_quote(id, sizeof(id), model));
}

static void apply_server(struct serve_reload *r)
{
    static const char *const taken[] = {"memory_limit", "models_dir"};
    struct config *c = r->opt.config;
    const char *name;
    uint32_t at = 0;

    while ((name = config_differs(c, &r->fresh, false, &at)) != NULL) {
        if (!IS_IN(name, taken))
            tell_restart("", name);
        else if (config_take(c, &r->fresh, name) == 0)
            log_info("main", "event=changed setting=%s", name);
    }
    r->opt.models->memory_limit = c->memory_limit;
    server_set_memory_limit(r->opt.models->server, c->memory_limit);
}

/* True: the model must be loaded again. Settings that take effect at once are applied here; those
 * that need a restart keep their old values. */
static bool differs(struct served *m, struct served_settings *next)
{
    static const char *const at_once[] = {"load",  "idle_unload",  "keep_loaded",
                                          "share", "max_queue_ms", "request_timeout"};
    static const char *const fixed[] = {"max_sequences", "queue_limit", "journal", "kv_events"};
    struct model_item was, is;
    const char *name;
    uint32_t at = 0;
    bool reloads;

    item_of(m, &was);
    models_get(next->config.model, 0, &is);
    reloads = strcmp(was.path, is.path) != 0;
    while ((name = config_differs(&m->config, &next->config, true, &at)) != NULL) {
        if (IS_IN(name, fixed)) {
            tell_restart(m->id, name);
            (void)config_take(&next->config, &m->config, name);
        } else if (IS_IN(name, at_once)) {
            (void)config_take(&m->config, &next->config, name);
        } else {
            reloads = true;
        }
    }
    return reloads;
}

static void change(struct serve_reload *r, uint32_t i)
{
    struct serve_models *models = r->opt.models;
    struct served *m = &models->all[i];
    const bool was_gone = m->is_gone, reloads = differs(m, &r->next[i]) || was_gone;
    struct server_model info;
    char id[280];

    served_settings_release(&m->next);
    m->has_next = reloads;
    m->is_gone = false;
    if (reloads) {
        m->next = r->next[i];
        r->next[i] = (struct served_settings){0};
        log_info("main", "event=%s model=%s", was_gone ? "added" : "changed",
                 log_quote(id, sizeof(id), m->id));
    }
    engine_arbiter_set_share(models->arbiter, i, (uint32_t)m->config.share);
    info = served_info(m);
    server_change_model(models->server, i, &info, reloads);
}

static void remove_model(struct serve_reload *r, uint32_t i)
{
    struct served *m = &r->opt.models->all[i];
    char id[280];

    if (m->is_gone)
        return;
    m->is_gone = true;
    log_info("main", "event=removed model=%s", log_quote(id, sizeof(id), m->id));
    server_remove_model(r->opt.models->server, i);
}

static void add_models(struct serve_reload *r)
{
    struct serve_models *models = r->opt.models;
    char err[300], id[280], quoted[400];

    for (uint32_t k = 0; k < r->n_added; k++) {
        struct served *m = &models->all[models->n];

        engine_arbiter_set_share(models->arbiter, models->n, m->info.share);
        if (server_add_model(models->server, &m->info, err, sizeof(err)) < 0) {
            log_error("main", "event=not_added model=%s reason=%s",
                      log_quote(id, sizeof(id), m->id), log_quote(quoted, sizeof(quoted), err));
            break; /* the new models after it are dropped too */
        }
        log_info("main", "event=added model=%s", log_quote(id, sizeof(id), m->id));
        models->n++;
    }
    r->n_added -= models->n - r->n;
    r->n = models->n;
}

static void apply(void *ud)
{
    struct serve_reload *r = ud;

    apply_server(r);
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->now[i] == GONE)
            remove_model(r, i);
        else
            change(r, i);
    }
    add_models(r);
    server_settle(r->opt.models->server);
    drop_reload(r);
}

struct server_reload serve_reload_callbacks(struct serve_reload *r)
{
    return (struct server_reload){begin_reading, read_again, apply, r};
}
