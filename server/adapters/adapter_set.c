/* server/adapters/adapter_set.c - see adapter_set.h.
 *
 * Names and queries, each under the set's mutex and without I/O, so that the I/O thread and parsing
 * threads may call them. The settings' adapters are read one after the other in
 * adapter_set_create(), on the calling thread, through the same functions as later loads: without a
 * pool a read has ended when adapter_set_take() returns.
 */
#include "server/adapters/adapter_set_impl.h"

#include "config/adapters.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/adapter.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---- */

static void forget_adapter(struct adapter_set *s, struct adapter_entry *e)
{
    if (strcmp(s->chosen.name, e->name) == 0)
        s->chosen = (struct adapter_choice){.name = ""};
    e->name[0] = '\0';
    adapter_list_sweep(&s->list);
}

int adapter_set_unload(struct adapter_set *s, const char *name, struct api_error *e)
{
    struct adapter_entry *entry;
    int rc = 0;

    adapter_set_lock(s);
    entry = adapter_list_find(&s->list, name);
    if (entry != NULL)
        forget_adapter(s, entry);
    else
        rc = api_error_set(e, 404, "lora_name", NULL, "there is no adapter '%.127s'", name);
    adapter_set_unlock(s);
    return rc;
}

/* ---- queries ---- */

bool adapter_set_has(const struct adapter_set *s, const char *name)
{
    bool has;

    if (s == NULL)
        return false;
    adapter_set_lock(s);
    has = adapter_list_find(&s->list, name) != NULL;
    adapter_set_unlock(s);
    return has;
}

bool adapter_set_lists(const char *list, const char *name)
{
    struct model_item item;
    char err[8];

    while (adapters_next(&list, &item, err, sizeof(err)) > 0)
        if (strcmp(item.name, name) == 0)
            return true;
    return false;
}

bool adapter_set_name(const struct adapter_set *s, uint32_t id, char name[ADAPTER_SET_MAX_NAME + 1])
{
    const struct adapter_entry *e;

    if (s == NULL)
        return false;
    adapter_set_lock(s);
    e = adapter_list_find_id(&s->list, id);
    if (e != NULL)
        memcpy(name, e->name, sizeof(e->name));
    adapter_set_unlock(s);
    return e != NULL && name[0] != '\0';
}

void adapter_set_default(const struct adapter_set *s, struct adapter_choice *out)
{
    *out = (struct adapter_choice){.name = ""};
    if (s == NULL)
        return;
    adapter_set_lock(s);
    *out = s->chosen;
    adapter_set_unlock(s);
}

int adapter_set_apply(struct adapter_set *s, const struct adapter_choice *choice,
                      struct api_error *e)
{
    int rc = 0;

    adapter_set_lock(s);
    if (choice->name[0] != '\0' && adapter_list_find(&s->list, choice->name) == NULL)
        rc = api_error_set(e, 404, "model", "model_not_found", "there is no adapter '%.127s'",
                           choice->name);
    else
        s->chosen = *choice;
    adapter_set_unlock(s);
    return rc;
}

static void describe(const struct adapter_set *s, const struct adapter_entry *e,
                     struct adapter_info *out)
{
    *out = (struct adapter_info){.id = e->id,
                                 .created = e->created,
                                 .is_resident = e->adapter != NULL,
                                 .rank = e->rank,
                                 .bytes = e->bytes};
    snprintf(out->name, sizeof(out->name), "%s", e->name);
    snprintf(out->path, sizeof(out->path), "%s", e->path);
    out->scale = strcmp(s->chosen.name, e->name) == 0 ? s->chosen.scale : 0.0f;
}

bool adapter_set_next(const struct adapter_set *s, uint32_t from, struct adapter_info *out)
{
    bool has = false;

    if (s == NULL)
        return false;
    adapter_set_lock(s);
    for (uint32_t i = 0; i < s->list.n && !has; i++) {
        has = s->list.entries[i].id >= from && s->list.entries[i].name[0] != '\0';
        if (has)
            describe(s, &s->list.entries[i], out);
    }
    adapter_set_unlock(s);
    return has;
}

bool adapter_set_find(const struct adapter_set *s, const char *name, struct adapter_info *out)
{
    const struct adapter_entry *e;

    if (s == NULL)
        return false;
    adapter_set_lock(s);
    e = adapter_list_find(&s->list, name);
    if (e != NULL)
        describe(s, e, out);
    adapter_set_unlock(s);
    return e != NULL;
}

void adapter_set_get_stats(const struct adapter_set *s, struct adapter_set_stats *out)
{
    *out = (struct adapter_set_stats){0};
    if (s == NULL)
        return;
    adapter_set_lock(s);
    out->n_known = adapter_list_n_known(&s->list);
    for (uint32_t i = 0; i < s->list.n; i++)
        out->n_resident += s->list.entries[i].adapter != NULL;
    out->bytes = s->list.bytes;
    out->max_bytes = s->list.max_bytes;
    out->n_reads = s->n_reads;
    out->n_evicted = s->list.n_evicted;
    out->may_grow = s->folder != NULL && s->folder[0] != '\0';
    adapter_set_unlock(s);
}

static void add_names(const struct adapter_set *s, enum adapter_use use, struct buf *out)
{
    const char *before = "";

    if (s == NULL)
        return;
    adapter_set_lock(s);
    for (uint32_t i = 0; i < s->list.n; i++) {
        const struct adapter_entry *e = &s->list.entries[i];

        if (e->name[0] == '\0' || e->adapter == NULL || adapter_n_requests(e->adapter, use) == 0)
            continue;
        buf_add_str(out, before);
        buf_add_str(out, e->name);
        before = ",";
    }
    adapter_set_unlock(s);
}

void adapter_set_add_running(const struct adapter_set *s, struct buf *out)
{
    add_names(s, ADAPTER_RUNNING, out);
}

void adapter_set_add_waiting(const struct adapter_set *s, struct buf *out)
{
    add_names(s, ADAPTER_WAITING, out);
}

/* ---- from the settings ---- */

static void on_listed(struct adapter_wait *w)
{
    (void)w; /* read_listed() checks the wait afterwards */
}

static int read_listed(struct adapter_set *s, const struct model_item *item, char *err,
                       size_t err_len)
{
    struct adapter_wait w = {.done = on_listed};
    struct adapter *a = NULL;
    uint32_t id;
    int rc = adapter_list_add(&s->list, item->name, item->path, &id);

    if (rc < 0)
        return snprintf(err, err_len, "out of memory"), rc;
    rc = adapter_set_take(s, item->name, &w, &a, &w.error);
    adapter_unref(&w.adapter);
    if (w.error.status == 0)
        return 0;
    snprintf(err, err_len, "the adapter '%s': %s", item->name, w.error.message);
    return rc == ERR_AGAIN ? ERR_INVAL : rc;
}

int adapter_set_create(struct adapter_set **out, const struct adapter_set_options *options,
                       char *err, size_t err_len)
{
    struct adapter_set *s = mem_calloc(1, sizeof(*s));
    const char *list = options->list;
    struct model_item item;
    int rc;

    *out = NULL;
    if (s == NULL)
        return snprintf(err, err_len, "out of memory"), ERR_NOMEM;
    s->model = options->model;
    s->folder = options->folder;
    s->list.max_bytes = options->max_bytes;
    pthread_mutex_init(&s->mutex, NULL);
    while ((rc = adapters_next(&list, &item, err, err_len)) > 0)
        if ((rc = read_listed(s, &item, err, err_len)) < 0)
            break;
    if (rc < 0)
        adapter_set_destroy(&s);
    *out = s;
    return rc;
}

void adapter_set_destroy(struct adapter_set **set)
{
    struct adapter_set *s = *set;

    *set = NULL;
    if (s == NULL)
        return;
    adapter_list_release(&s->list);
    pthread_mutex_destroy(&s->mutex);
    mem_free(s);
}

void adapter_set_read_on(struct adapter_set *s, struct worker_pool *pool)
{
    if (s != NULL)
        s->pool = pool;
}
