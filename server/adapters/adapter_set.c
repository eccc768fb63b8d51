/* server/adapters/adapter_set.c - see adapter_set.h.
 *
 * An entry is a name with its file, and the adapter while it is resident. One whose name was
 * forgotten while requests hold its adapter stays in the list, nameless, so that its bytes count
 * until they are free: for all entries, bytes == sum of resident adapters + what is being read.
 */
#include "server/adapters/adapter_set.h"

#include "config/adapters.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/model_folder.h"
#include "core/model/adapter.h"
#include "server/adapters/adapter_file.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct entry {
    uint32_t id;
    char name[ADAPTER_SET_MAX_NAME + 1]; /* "": forgotten */
    char *path;
    int64_t created;
    uint64_t last_used;      /* of the set's clock */
    struct adapter *adapter; /* NULL: not resident */
    uint32_t rank;           /* as of the last time that it was read */
    uint64_t bytes;
    bool is_being_read;
};

struct adapter_set {
    const struct model *model;
    const char *folder;
    uint64_t max_bytes;
    /* Protects all that follows; `was_read` is signalled when an entry's reading ends. No other
     * mutex is taken while it is held. */
    pthread_mutex_t mutex;
    pthread_cond_t was_read;
    struct entry *entries; /* in ascending order of ids */
    uint32_t n, cap, next_id;
    uint64_t clock, bytes;
    struct adapter_choice chosen; /* for requests that say nothing */
    uint64_t n_reads, n_evicted;
};

static void lock(const struct adapter_set *s)
{
    pthread_mutex_lock((pthread_mutex_t *)&s->mutex);
}

static void unlock(const struct adapter_set *s)
{
    pthread_mutex_unlock((pthread_mutex_t *)&s->mutex);
}

/* ---- the list ---- */

static struct entry *find(const struct adapter_set *s, const char *name)
{
    for (uint32_t i = 0; i < s->n && name[0] != '\0'; i++)
        if (strcmp(s->entries[i].name, name) == 0)
            return &s->entries[i];
    return NULL;
}

static struct entry *find_id(const struct adapter_set *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->entries[i].id == id)
            return &s->entries[i];
    return NULL;
}

/* Its adapter leaves memory, which no one else may hold. */
static void evict(struct adapter_set *s, struct entry *e)
{
    s->bytes -= e->bytes;
    adapter_unref(&e->adapter);
}

static void drop_entry(struct adapter_set *s, struct entry *e)
{
    const uint32_t i = (uint32_t)(e - s->entries);

    mem_free(e->path);
    memmove(e, e + 1, (s->n - i - 1) * sizeof(*e));
    s->n--;
}

/* Those whose name was forgotten, once no request holds them. */
static void sweep(struct adapter_set *s)
{
    for (uint32_t i = s->n; i-- > 0;) {
        struct entry *e = &s->entries[i];

        if (e->name[0] != '\0' || e->is_being_read)
            continue;
        if (e->adapter != NULL && adapter_is_alone(e->adapter))
            evict(s, e);
        if (e->adapter == NULL)
            drop_entry(s, e);
    }
}

static void forget(struct adapter_set *s, struct entry *e)
{
    if (strcmp(s->chosen.name, e->name) == 0)
        s->chosen = (struct adapter_choice){.name = ""};
    e->name[0] = '\0';
    sweep(s);
}

static uint32_t n_known(const struct adapter_set *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n; i++)
        n += s->entries[i].name[0] != '\0';
    return n;
}

/* Room for one more; the pointers given out before are void then. */
static int reserve_entry(struct adapter_set *s)
{
    const uint32_t cap = s->cap > 0 ? 2 * s->cap : 8;
    struct entry *more;

    if (s->n < s->cap)
        return 0;
    more = mem_realloc(s->entries, cap * sizeof(*more));
    if (more == NULL)
        return ERR_NOMEM;
    s->entries = more;
    s->cap = cap;
    return 0;
}

static int add_entry(struct adapter_set *s, const char *name, const char *path, uint32_t *id)
{
    char *copy = mem_strdup(path);
    struct entry *e;

    if (copy == NULL || reserve_entry(s) < 0) {
        mem_free(copy);
        return ERR_NOMEM;
    }
    e = &s->entries[s->n++];
    *e = (struct entry){.id = s->next_id++, .path = copy, .created = (int64_t)time(NULL)};
    snprintf(e->name, sizeof(e->name), "%s", name);
    *id = e->id;
    return 0;
}

/* ---- memory ---- */

/* The one that was used longest ago of those that no request holds, or NULL. */
static struct entry *least_used(struct adapter_set *s)
{
    struct entry *least = NULL;

    for (uint32_t i = 0; i < s->n; i++) {
        struct entry *e = &s->entries[i];

        if (e->adapter != NULL && adapter_is_alone(e->adapter) &&
            (least == NULL || e->last_used < least->last_used))
            least = e;
    }
    return least;
}

static int make_room(struct adapter_set *s, uint64_t bytes, struct api_error *e)
{
    sweep(s);
    if (bytes > s->max_bytes)
        return api_error_set(e, 400, NULL, "adapter_too_large",
                             "the adapter takes %" PRIu64 " bytes, but the setting adapter_memory "
                             "is %" PRIu64,
                             bytes, s->max_bytes);
    while (s->max_bytes - bytes < s->bytes) {
        struct entry *least = least_used(s);

        if (least == NULL)
            return api_error_set(e, 429, NULL, "adapter_memory_full",
                                 "all adapters in memory are in use by requests, and there is no "
                                 "room for one more (setting adapter_memory)");
        evict(s, least);
        s->n_evicted++;
    }
    s->bytes += bytes;
    return 0;
}

/* ---- reading ---- */

/* Read the file, with the room that it takes reserved; *reserved: how much that is. Without the
 * mutex. */
static int read_file(struct adapter_set *s, const char *path, struct adapter **out,
                     uint64_t *reserved, struct api_error *e)
{
    char err[400] = "";
    struct gguf *g;
    int rc = adapter_file_open(&g, path, err, sizeof(err));

    *out = NULL;
    *reserved = 0;
    if (rc < 0)
        return api_error_set(e, rc == ERR_NOENT ? 404 : 400, NULL, "adapter_unusable", "%s", err);
    lock(s);
    rc = make_room(s, adapter_most_bytes(g), e);
    unlock(s);
    if (rc == 0) {
        *reserved = adapter_most_bytes(g);
        rc = adapter_load(out, g, s->model, err, sizeof(err));
        if (rc < 0)
            api_error_set(e, rc == ERR_NOMEM ? 500 : 400, NULL, "adapter_unusable", "%s", err);
    }
    gguf_close(&g);
    return rc;
}

/* Read the file of entry `id`, which is marked as being read. The caller holds the mutex before and
 * after; *out is held once for it. */
static int read_entry(struct adapter_set *s, uint32_t id, struct adapter **out, struct api_error *e)
{
    char *path = mem_strdup(find_id(s, id)->path);
    struct adapter *a = NULL;
    uint64_t reserved = 0;
    struct entry *entry;
    int rc = path != NULL ? 0 : api_error_no_memory(e);

    unlock(s);
    if (rc == 0)
        rc = read_file(s, path, &a, &reserved, e);
    mem_free(path);
    lock(s);
    entry = find_id(s, id); /* being read, so it is still there, though its name may not be */
    entry->is_being_read = false;
    s->bytes -= reserved;
    if (rc == 0) {
        s->n_reads++;
        entry->adapter = a;
        entry->bytes = a->bytes;
        entry->rank = a->max_rank;
        s->bytes += a->bytes;
        *out = adapter_ref(a);
    }
    pthread_cond_broadcast(&s->was_read);
    return rc;
}

static int no_such(struct api_error *e, const char *name)
{
    return api_error_set(e, 404, "model", "model_not_found", "there is no adapter '%.127s'", name);
}

int adapter_set_take(struct adapter_set *s, const char *name, bool may_read, struct adapter **out,
                     struct api_error *e)
{
    struct entry *entry;
    int rc = 0;

    *out = NULL;
    lock(s);
    while ((entry = find(s, name)) != NULL && entry->is_being_read && may_read)
        pthread_cond_wait(&s->was_read, &s->mutex);
    if (entry != NULL)
        entry->last_used = ++s->clock;
    if (entry == NULL) {
        rc = no_such(e, name);
    } else if (entry->adapter != NULL) {
        *out = adapter_ref(entry->adapter);
    } else if (!may_read) {
        rc = ERR_AGAIN;
    } else {
        entry->is_being_read = true;
        rc = read_entry(s, entry->id, out, e);
    }
    unlock(s);
    return rc;
}

/* ---- names that come and go ---- */

/* A new name, under which nothing is found until it was read. */
static int load_new(struct adapter_set *s, const char *name, const char *path, bool replaces,
                    struct api_error *e)
{
    struct adapter *a = NULL;
    struct entry *old;
    uint32_t id = 0;
    int rc;

    if (add_entry(s, "", path, &id) < 0)
        return api_error_no_memory(e);
    find_id(s, id)->is_being_read = true;
    rc = read_entry(s, id, &a, e);
    adapter_unref(&a);
    old = find(s, name); /* it may have come meanwhile */
    if (rc == 0 && old != NULL && !replaces)
        rc = api_error_set(e, 400, "lora_name", NULL, "there is an adapter '%s' already", name);
    if (rc == 0 && old != NULL)
        old->name[0] = '\0'; /* what holds for requests that say nothing is the name */
    if (rc == 0) {
        struct entry *entry = find_id(s, id);

        snprintf(entry->name, sizeof(entry->name), "%s", name);
        entry->last_used = ++s->clock;
    }
    sweep(s);
    return rc;
}

int adapter_set_load(struct adapter_set *s, const char *name, const char *path, bool replaces,
                     struct api_error *e)
{
    char found[ADAPTER_SET_MAX_PATH];
    int rc = 0;

    if (!models_is_name(name, strlen(name)))
        return api_error_set(e, 400, "lora_name", NULL, MODELS_NAME_RULE);
    if (s->folder[0] == '\0')
        return api_error_set(e, 501, NULL, NULL,
                             "clients may not load adapters: the setting adapters_dir is empty");
    if (!adapter_file_find(s->folder, path, found))
        return api_error_set(e, 404, "lora_path", NULL,
                             "there is no such file or folder in adapters_dir");
    lock(s);
    if (find(s, name) != NULL && !replaces)
        rc = api_error_set(e, 400, "lora_name", NULL, "there is an adapter '%s' already", name);
    else if (find(s, name) == NULL && n_known(s) >= ADAPTER_SET_MAX)
        rc = api_error_set(e, 400, NULL, NULL, "there are %d adapters already: unload one first",
                           ADAPTER_SET_MAX);
    else
        rc = load_new(s, name, found, replaces, e);
    unlock(s);
    return rc;
}

int adapter_set_unload(struct adapter_set *s, const char *name, struct api_error *e)
{
    struct entry *entry;
    int rc = 0;

    lock(s);
    entry = find(s, name);
    if (entry != NULL)
        forget(s, entry);
    else
        rc = api_error_set(e, 404, "lora_name", NULL, "there is no adapter '%.127s'", name);
    unlock(s);
    return rc;
}

/* ---- what there is ---- */

bool adapter_set_has(const struct adapter_set *s, const char *name)
{
    bool has;

    if (s == NULL)
        return false;
    lock(s);
    has = find(s, name) != NULL;
    unlock(s);
    return has;
}

bool adapter_set_name(const struct adapter_set *s, uint32_t id, char name[ADAPTER_SET_MAX_NAME + 1])
{
    const struct entry *e;

    if (s == NULL)
        return false;
    lock(s);
    e = find_id(s, id);
    if (e != NULL)
        memcpy(name, e->name, sizeof(e->name));
    unlock(s);
    return e != NULL && name[0] != '\0';
}

void adapter_set_default(const struct adapter_set *s, struct adapter_choice *out)
{
    *out = (struct adapter_choice){.name = ""};
    if (s == NULL)
        return;
    lock(s);
    *out = s->chosen;
    unlock(s);
}

int adapter_set_apply(struct adapter_set *s, const struct adapter_choice *choice,
                      struct api_error *e)
{
    int rc = 0;

    lock(s);
    if (choice->name[0] != '\0' && find(s, choice->name) == NULL)
        rc = no_such(e, choice->name);
    else
        s->chosen = *choice;
    unlock(s);
    return rc;
}

static void describe(const struct adapter_set *s, const struct entry *e, struct adapter_info *out)
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
    lock(s);
    for (uint32_t i = 0; i < s->n && !has; i++) {
        has = s->entries[i].id >= from && s->entries[i].name[0] != '\0';
        if (has)
            describe(s, &s->entries[i], out);
    }
    unlock(s);
    return has;
}

bool adapter_set_find(const struct adapter_set *s, const char *name, struct adapter_info *out)
{
    const struct entry *e;

    if (s == NULL)
        return false;
    lock(s);
    e = find(s, name);
    if (e != NULL)
        describe(s, e, out);
    unlock(s);
    return e != NULL;
}

void adapter_set_get_stats(const struct adapter_set *s, struct adapter_set_stats *out)
{
    *out = (struct adapter_set_stats){0};
    if (s == NULL)
        return;
    lock(s);
    out->n_known = n_known(s);
    for (uint32_t i = 0; i < s->n; i++)
        out->n_resident += s->entries[i].adapter != NULL;
    out->bytes = s->bytes;
    out->max_bytes = s->max_bytes;
    out->n_reads = s->n_reads;
    out->n_evicted = s->n_evicted;
    unlock(s);
}

/* ---- from the settings ---- */

static int read_listed(struct adapter_set *s, const struct model_item *item, char *err,
                       size_t err_len)
{
    struct api_error e = {0};
    struct adapter *a = NULL;
    uint32_t id;
    int rc = add_entry(s, item->name, item->path, &id);

    if (rc < 0)
        return snprintf(err, err_len, "out of memory"), rc;
    rc = adapter_set_take(s, item->name, true, &a, &e);
    adapter_unref(&a);
    if (rc < 0)
        snprintf(err, err_len, "the adapter '%s': %s", item->name, e.message);
    return rc;
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
    s->max_bytes = options->max_bytes;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->was_read, NULL);
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
    for (uint32_t i = 0; i < s->n; i++) {
        adapter_unref(&s->entries[i].adapter);
        mem_free(s->entries[i].path);
    }
    mem_free(s->entries);
    pthread_cond_destroy(&s->was_read);
    pthread_mutex_destroy(&s->mutex);
    mem_free(s);
}
