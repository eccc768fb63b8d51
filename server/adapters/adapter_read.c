/* server/adapters/adapter_read.c - reads adapters' files for the waits; see adapter_set.h.
 *
 * A read belongs to an entry and is one job of the pool. The job's thread has the path, the flag
 * `canceled` and the results for on_read(); the waits belong to the I/O thread. When the last wait
 * is canceled, so is the job; if a new wait has come by the time it ends, the job is run again.
 */
#include "server/adapters/adapter_set_impl.h"

#include "config/models.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/model/adapter.h"
#include "server/adapters/adapter_file.h"
#include "server/process/worker_pool.h"

#include <string.h>

struct adapter_read {
    struct worker_job job;
    struct adapter_set *set;
    uint32_t id;       /* id of the entry */
    char *path;        /* of the file; for a load, until the job runs, as the client wrote it */
    struct list waits; /* struct adapter_wait */
    /* For a load: the name that its adapter gets. */
    bool is_load, replaces;
    char name[ADAPTER_SET_MAX_NAME + 1];
    /* The job's results: on failure no bytes are reserved and `error` is filled. */
    int rc;
    struct adapter *adapter;
    uint64_t reserved;
    struct api_error error;
};

/* ---- on the pool's thread ---- */

static int find_file(struct adapter_read *r)
{
    char found[ADAPTER_FILE_MAX_PATH];
    char *path;

    if (!adapter_file_find(r->set->folder, r->path, found))
        return api_error_set(&r->error, 404, "lora_path", NULL,
                             "there is no such file or folder in adapters_dir");
    path = mem_strdup(found);
    if (path == NULL)
        return api_error_no_memory(&r->error);
    mem_free(r->path);
    r->path = path;
    return 0;
}

static int reserve(struct adapter_read *r, uint64_t bytes)
{
    int rc;

    adapter_set_lock(r->set);
    rc = adapter_list_make_room(&r->set->list, bytes, &r->error);
    adapter_set_unlock(r->set);
    r->reserved = rc == 0 ? bytes : 0;
    return rc;
}

static void give_back(struct adapter_read *r)
{
    adapter_set_lock(r->set);
    r->set->list.bytes -= r->reserved;
    adapter_set_unlock(r->set);
    r->reserved = 0;
}

static int load_read_adapter(struct adapter_read *r, const struct gguf *g)
{
    char err[400] = "";
    int rc = reserve(r, adapter_most_bytes(g));

    if (rc < 0)
        return rc;
    rc = adapter_load(&r->adapter, g, r->set->model, &r->job.canceled, err, sizeof(err));
    if (rc == 0)
        return 0;
    give_back(r);
    api_error_set(&r->error, rc == ERR_NOMEM ? 500 : 400, NULL, "adapter_unusable", "%s", err);
    return rc;
}

static int read_file(struct adapter_read *r)
{
    char err[400] = "";
    struct gguf *g;
    int rc = r->is_load ? find_file(r) : 0;

    if (rc < 0)
        return rc;
    rc = adapter_file_open(&g, r->path, err, sizeof(err));
    if (rc < 0)
        return api_error_set(&r->error, rc == ERR_NOENT ? 404 : 400, NULL, "adapter_unusable", "%s",
                             err);
    rc = load_read_adapter(r, g);
    gguf_close(&g);
    return rc;
}

static void on_read_work(struct worker_job *job)
{
    struct adapter_read *r = list_entry(job, struct adapter_read, job);

    r->error = (struct api_error){0};
    r->rc = atomic_load(&job->canceled) ? ERR_CANCELED : read_file(r);
}

/* ---- on the I/O thread: reads ---- */

static void destroy_read(struct adapter_read *r)
{
    mem_free(r->path);
    mem_free(r);
}

static void on_read(struct worker_job *job);

/* Create the read of the entry, and set entry->read. */
static int make_read(struct adapter_set *s, struct adapter_entry *entry, struct adapter_read **out)
{
    struct adapter_read *r = mem_calloc(1, sizeof(*r));

    *out = NULL;
    if (r == NULL)
        return ERR_NOMEM;
    r->job.work = on_read_work;
    r->job.done = on_read;
    r->job.name = "adapter_read";
    r->set = s;
    r->id = entry->id;
    r->path = mem_strdup(entry->path);
    list_init(&r->waits);
    if (r->path == NULL) {
        destroy_read(r);
        return ERR_NOMEM;
    }
    entry->read = r;
    *out = r;
    return 0;
}

/* Call done() of the waits: the read has failed, or they hold the adapter. `r` no longer belongs to
 * an entry, and is freed. */
static void tell_readers(struct adapter_read *r)
{
    while (!list_is_empty(&r->waits)) {
        struct adapter_wait *w = list_entry(r->waits.next, struct adapter_wait, link);

        list_unlink(&w->link);
        w->read = NULL;
        w->error = r->error;
        w->done(w);
    }
    destroy_read(r);
}

static int refuse_known(struct api_error *e, const char *name)
{
    return api_error_set(
        e, 400, "lora_name", NULL,
        "the adapter '%s' is already loaded: send 'load_inplace': true to replace it", name);
}

/* Give the name of a load to its adapter, unless another adapter has it by now. */
static int give_name(struct adapter_read *r, struct adapter_entry *entry)
{
    struct adapter_list *l = &r->set->list;
    struct adapter_entry *old = adapter_list_find(l, r->name);

    if (old != NULL && !r->replaces)
        return refuse_known(&r->error, r->name);
    if (old != NULL)
        old->name[0] = '\0'; /* the default adapter is stored by its name, and stays */
    memcpy(entry->name, r->name, sizeof(entry->name));
    entry->last_used = ++l->clock;
    mem_free(entry->path);
    entry->path = r->path; /* with links resolved */
    r->path = NULL;
    return 0;
}

static void keep_adapter(struct adapter_read *r, struct adapter_entry *entry)
{
    struct adapter_list *l = &r->set->list;
    struct adapter *a = r->adapter;

    r->adapter = NULL;
    r->set->n_reads++;
    l->bytes = l->bytes - r->reserved + a->bytes;
    entry->adapter = a;
    entry->bytes = a->bytes;
    entry->rank = a->max_rank;
}

/* End the entry's read. Each wait gets its reference under the mutex, before another thread can
 * evict the adapter. */
static void settle_read(struct adapter_read *r)
{
    struct adapter_entry *entry = adapter_list_find_id(&r->set->list, r->id);

    entry->read = NULL;
    if (r->rc == 0)
        keep_adapter(r, entry);
    if (r->rc == 0 && r->is_load)
        r->rc = give_name(r, entry);
    list_each(it, &r->waits)
        if (r->rc == 0)
            list_entry(it, struct adapter_wait, link)->adapter = adapter_ref(entry->adapter);
    adapter_list_sweep(&r->set->list);
}

static void end_read(struct adapter_read *r)
{
    struct adapter_set *s = r->set;

    adapter_set_lock(s);
    settle_read(r);
    adapter_set_unlock(s);
    tell_readers(r);
}

/* Post the job, or, without a pool, run it here. */
static void start_read(struct adapter_read *r)
{
    if (r->set->pool == NULL) {
        r->job.work(&r->job);
        r->job.done(&r->job);
    } else if (worker_pool_post(r->set->pool, &r->job) < 0) {
        r->rc = api_error_set(&r->error, 429, NULL, "queue_full",
                              "too many adapters are being read");
        end_read(r);
    }
}

static void on_read(struct worker_job *job)
{
    struct adapter_read *r = list_entry(job, struct adapter_read, job);

    if (r->rc == ERR_CANCELED && !list_is_empty(&r->waits))
        start_read(r);
    else
        end_read(r);
}

/* ---- waits ---- */

static void enlist(struct adapter_wait *w, struct adapter_read *r)
{
    w->adapter = NULL;
    w->error = (struct api_error){0};
    w->read = r;
    list_push_back(&r->waits, &w->link);
}

static struct adapter_wait *leave_read(struct adapter_wait *w)
{
    struct adapter_read *r = w->read;

    list_unlink(&w->link);
    w->read = NULL;
    if (list_is_empty(&r->waits))
        worker_job_cancel(&r->job);
    return w;
}

bool adapter_wait_cancel(struct adapter_wait *w)
{
    if (w->read == NULL)
        return false;
    leave_read(w);
    adapter_unref(&w->adapter);
    return true;
}

static int refuse_closed(struct api_error *e)
{
    return api_error_set(e, 503, NULL, NULL, "the server is shutting down");
}

/* Wait for the file of the entry; *fresh: a new read, to be started after the mutex is released. */
static int wait_for(struct adapter_set *s, struct adapter_entry *entry, struct adapter_wait *w,
                    struct adapter_read **fresh, struct api_error *e)
{
    if (s->is_closed)
        return refuse_closed(e);
    if (entry->read == NULL && make_read(s, entry, fresh) < 0)
        return api_error_no_memory(e);
    enlist(w, entry->read);
    return ERR_AGAIN;
}

int adapter_set_take(struct adapter_set *s, const char *name, struct adapter_wait *w,
                     struct adapter **out, struct api_error *e)
{
    struct adapter_read *fresh = NULL;
    struct adapter_entry *entry;
    int rc = 0;

    *out = NULL;
    adapter_set_lock(s);
    entry = adapter_list_find(&s->list, name);
    if (entry == NULL)
        rc = api_error_set(e, 404, "model", "model_not_found", "there is no adapter '%.127s'",
                           name);
    else if (entry->adapter != NULL)
        *out = adapter_ref(entry->adapter);
    else
        rc = wait_for(s, entry, w, &fresh, e);
    if (entry != NULL)
        entry->last_used = ++s->list.clock;
    adapter_set_unlock(s);
    if (fresh != NULL)
        start_read(fresh);
    return rc;
}

static int check_source(const struct adapter_set *s, const struct adapter_source *what,
                        struct api_error *e)
{
    if (!models_is_name(what->name, strlen(what->name)))
        return api_error_set(e, 400, "lora_name", NULL, MODELS_NAME_RULE);
    if (s->folder[0] == '\0')
        return api_error_set(e, 501, NULL, NULL,
                             "clients may not load adapters: the setting adapters_dir is empty");
    if (strncmp(what->path, "hf:", 3) == 0)
        return api_error_set(e, 400, "lora_path", NULL,
                             "adapters of the Hub are only downloaded when the server starts "
                             "(setting adapters): 'lora_path' must be in adapters_dir");
    return 0;
}

/* Check that the name is free, or may be replaced, and that the set has room for another name. */
static int check_adapter_room(const struct adapter_set *s, const struct adapter_source *what,
                              struct api_error *e)
{
    const bool is_known = adapter_list_find(&s->list, what->name) != NULL;

    if (s->is_closed)
        return refuse_closed(e);
    if (is_known && !what->replaces)
        return refuse_known(e, what->name);
    if (!is_known && adapter_list_n_known(&s->list) >= ADAPTER_SET_MAX)
        return api_error_set(e, 400, NULL, NULL,
                             "%d adapters are loaded, which is the limit: unload one first",
                             ADAPTER_SET_MAX);
    return 0;
}

/* Add an entry without a name, which is not found until its file was read. */
static int begin_load(struct adapter_set *s, const struct adapter_source *what,
                      struct adapter_wait *w, struct adapter_read **fresh, struct api_error *e)
{
    uint32_t id;

    if (adapter_list_add(&s->list, "", what->path, &id) < 0)
        return api_error_no_memory(e);
    if (make_read(s, adapter_list_find_id(&s->list, id), fresh) < 0) {
        adapter_list_sweep(&s->list);
        return api_error_no_memory(e);
    }
    (*fresh)->is_load = true;
    (*fresh)->replaces = what->replaces;
    memcpy((*fresh)->name, what->name, strlen(what->name) + 1); /* it fits: names are checked */
    enlist(w, *fresh);
    return ERR_AGAIN;
}

int adapter_set_load(struct adapter_set *s, const struct adapter_source *what,
                     struct adapter_wait *w, struct api_error *e)
{
    struct adapter_read *fresh = NULL;
    int rc = check_source(s, what, e);

    if (rc < 0)
        return rc;
    adapter_set_lock(s);
    rc = check_adapter_room(s, what, e);
    if (rc == 0)
        rc = begin_load(s, what, w, &fresh, e);
    adapter_set_unlock(s);
    if (fresh != NULL)
        start_read(fresh);
    return rc;
}

/* ---- the end ---- */

/* Remove any one wait from its read and return it; NULL: none is left. */
static struct adapter_wait *any_wait(struct adapter_set *s)
{
    struct adapter_wait *w = NULL;

    adapter_set_lock(s);
    for (uint32_t i = 0; i < s->list.n && w == NULL; i++) {
        struct adapter_read *r = s->list.entries[i].read;

        if (r != NULL && !list_is_empty(&r->waits))
            w = leave_read(list_entry(r->waits.next, struct adapter_wait, link));
    }
    adapter_set_unlock(s);
    return w;
}

void adapter_set_close(struct adapter_set *s)
{
    struct adapter_wait *w;

    if (s == NULL)
        return;
    adapter_set_lock(s);
    s->is_closed = true;
    adapter_set_unlock(s);
    while ((w = any_wait(s)) != NULL) {
        refuse_closed(&w->error);
        w->done(w);
    }
}

bool adapter_set_is_idle(const struct adapter_set *s)
{
    bool is_read = false;

    if (s == NULL)
        return true;
    adapter_set_lock(s);
    for (uint32_t i = 0; i < s->list.n; i++)
        is_read = is_read || s->list.entries[i].read != NULL;
    adapter_set_unlock(s);
    return !is_read;
}
