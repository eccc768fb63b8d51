/* server/adapters/adapter_list.c - see adapter_list.h.
 *
 * A sorted array searched linearly: a set has at most 1024 names. An adapter may be evicted only
 * while the list's own reference is the last one (adapter_is_alone()). Bytes are counted before a
 * file is read, so that reads in progress cannot exceed the limit together. All under the set's
 * mutex.
 */
#include "server/adapters/adapter_list.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/adapter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- entries ---- */

struct adapter_entry *adapter_list_find(const struct adapter_list *l, const char *name)
{
    for (uint32_t i = 0; i < l->n && name[0] != '\0'; i++)
        if (strcmp(l->entries[i].name, name) == 0)
            return &l->entries[i];
    return NULL;
}

struct adapter_entry *adapter_list_find_id(const struct adapter_list *l, uint32_t id)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->entries[i].id == id)
            return &l->entries[i];
    return NULL;
}

/* Remove the adapter from memory; only the list may hold it. */
static void evict(struct adapter_list *l, struct adapter_entry *e)
{
    l->bytes -= e->bytes;
    adapter_unref(&e->adapter);
}

static void drop_entry(struct adapter_list *l, struct adapter_entry *e)
{
    const uint32_t i = (uint32_t)(e - l->entries);

    mem_free(e->path);
    memmove(e, e + 1, (l->n - i - 1) * sizeof(*e));
    l->n--;
}

void adapter_list_sweep(struct adapter_list *l)
{
    for (uint32_t i = l->n; i-- > 0;) {
        struct adapter_entry *e = &l->entries[i];

        if (e->name[0] != '\0' || e->read != NULL)
            continue;
        if (e->adapter != NULL && adapter_is_alone(e->adapter))
            evict(l, e);
        if (e->adapter == NULL)
            drop_entry(l, e);
    }
}

uint32_t adapter_list_n_known(const struct adapter_list *l)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->n; i++)
        n += l->entries[i].name[0] != '\0';
    return n;
}

static int reserve_entry(struct adapter_list *l)
{
    const uint32_t cap = l->cap > 0 ? 2 * l->cap : 8;
    struct adapter_entry *more;

    if (l->n < l->cap)
        return 0;
    more = mem_realloc(l->entries, cap * sizeof(*more));
    if (more == NULL)
        return ERR_NOMEM;
    l->entries = more;
    l->cap = cap;
    return 0;
}

int adapter_list_add(struct adapter_list *l, const char *name, const char *path, uint32_t *id)
{
    char *copy = mem_strdup(path);
    struct adapter_entry *e;

    if (copy == NULL || reserve_entry(l) < 0) {
        mem_free(copy);
        return ERR_NOMEM;
    }
    e = &l->entries[l->n++];
    *e = (struct adapter_entry){.id = l->next_id++, .path = copy, .created = (int64_t)time(NULL)};
    snprintf(e->name, sizeof(e->name), "%s", name);
    *id = e->id;
    return 0;
}

void adapter_list_release(struct adapter_list *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        adapter_unref(&l->entries[i].adapter);
        mem_free(l->entries[i].path);
    }
    mem_free(l->entries);
    *l = (struct adapter_list){0};
}

/* ---- memory ---- */

/* Return the least recently used adapter that no request holds, or NULL. */
static struct adapter_entry *least_used(struct adapter_list *l)
{
    struct adapter_entry *least = NULL;

    for (uint32_t i = 0; i < l->n; i++) {
        struct adapter_entry *e = &l->entries[i];

        if (e->adapter != NULL && adapter_is_alone(e->adapter) &&
            (least == NULL || e->last_used < least->last_used))
            least = e;
    }
    return least;
}

int adapter_list_make_room(struct adapter_list *l, uint64_t bytes, struct api_error *e)
{
    adapter_list_sweep(l);
    if (bytes > l->max_bytes)
        return api_error_set(e, 400, NULL, "adapter_too_large",
                             "the adapter needs %" PRIu64
                             " bytes, but the setting adapter_memory is %" PRIu64,
                             bytes, l->max_bytes);
    while (l->max_bytes - bytes < l->bytes) {
        struct adapter_entry *least = least_used(l);

        if (least == NULL)
            return api_error_set(e, 429, NULL, "adapter_memory_full",
                                 "all adapters in memory are in use by requests, and there is no "
                                 "room for one more (setting adapter_memory)");
        evict(l, least);
        l->n_evicted++;
    }
    l->bytes += bytes;
    return 0;
}
