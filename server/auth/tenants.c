/* server/auth/tenants.c - see tenants.h.
 *
 * A fixed array of opt.max entries and a hash index of their names, both taken at the start, so
 * that no call can fail for memory. tenants_index() finds a name or gives it an entry: a free one,
 * else the least recently used idle one, else the last, which all further names share. "Recently"
 * is counted in calls, not in time.
 */
#include "server/auth/tenants.h"

#include "core/base/err.h"
#include "core/base/hash_index.h"
#include "core/base/mem.h"
#include "core/base/name_copy.h"
#include "scheduler/request/request.h"

#include <string.h>

_Static_assert(WEIGHTS_MAX_VALUE <= REQUEST_MAX_WEIGHT, "a weight of the settings is one of ours");

struct tenant {
    uint64_t used; /* number of the latest call of tenants_index() for it */
    uint32_t weight, n_open;
    bool is_fixed; /* from the settings */
    char name[WEIGHTS_MAX_NAME + 1];
};

struct tenants {
    struct tenants_options opt;
    uint64_t n_calls, n_shared;
    uint32_t n;       /* indices in use, without the shared one */
    bool has_shared;  /* the last index has been given away */
    struct hash_index by_name; /* of the list, as index + 1; with room for all */
    struct tenant list[];
};

static void settle_tenant(struct tenants *t, uint32_t i, const char *name, uint32_t weight)
{
    struct tenant *p = &t->list[i];

    hash_index_remove(&t->by_name, hash_of_text(p->name), i + 1);
    *p = (struct tenant){.used = t->n_calls, .weight = weight};
    (void)name_copy(p->name, sizeof(p->name), name);
    (void)hash_index_add(&t->by_name, hash_of_text(p->name), i + 1);
}

static void take_weights(struct tenants *t)
{
    const char *text = t->opt.weights != NULL ? t->opt.weights : "";
    struct weight w;

    while (weights_next(&text, &w) > 0 && t->n + 1 < t->opt.max) {
        settle_tenant(t, t->n, w.name, w.value);
        t->list[t->n++].is_fixed = true;
    }
}

int tenants_create(struct tenants **out, const struct tenants_options *options)
{
    const uint32_t max = options->max > 0 ? options->max : 1;
    struct tenants *t = mem_calloc(1, sizeof(*t) + max * sizeof(struct tenant));

    *out = NULL;
    if (t == NULL)
        return ERR_NOMEM;
    t->opt = *options;
    t->opt.max = max;
    if (hash_index_reserve(&t->by_name, max) < 0) {
        mem_free(t);
        return ERR_NOMEM;
    }
    settle_tenant(t, 0, "", 1);
    t->list[0].is_fixed = true;
    t->n = 1;
    take_weights(t);
    if (max > 1)
        settle_tenant(t, max - 1, "(others)", 1);
    *out = t;
    return 0;
}

void tenants_destroy(struct tenants **t)
{
    if (t == NULL || *t == NULL)
        return;
    hash_index_release(&(*t)->by_name);
    mem_free(*t);
    *t = NULL;
}

/* Return the index to reuse for a new name: the least recently used idle one, or the last. */
static uint32_t oldest_idle(const struct tenants *t)
{
    uint32_t best = t->opt.max - 1;

    for (uint32_t i = 1; i < t->n; i++) {
        const struct tenant *p = &t->list[i];

        if (p->is_fixed || p->n_open > 0)
            continue;
        if (best == t->opt.max - 1 || p->used < t->list[best].used)
            best = i;
    }
    return best;
}

static uint32_t give_index(struct tenants *t, const char *name)
{
    uint32_t i;

    if (t->n + 1 < t->opt.max) {
        i = t->n++;
    } else {
        i = oldest_idle(t);
        if (i == t->opt.max - 1) {
            t->n_shared++;
            t->has_shared = i > 0;
            return i;
        }
    }
    settle_tenant(t, i, name, 1);
    return i;
}

uint32_t tenants_index(struct tenants *t, const char *name)
{
    struct hash_walk w = {.hash = hash_of_text(name)};
    uintptr_t item;

    t->n_calls++;
    while ((item = hash_index_next(&t->by_name, &w)) != 0) {
        struct tenant *p = &t->list[item - 1];

        if (item - 1 < t->n && strcmp(p->name, name) == 0) {
            p->used = t->n_calls;
            return (uint32_t)item - 1;
        }
    }
    return give_index(t, name);
}

int tenants_check(const struct tenants *t, uint32_t index, uint32_t n, struct api_error *e)
{
    const uint32_t limit = t->opt.limit;
    const struct tenant *p = &t->list[index];

    if (limit == 0 || p->n_open + n <= limit)
        return 0;
    if (n > limit)
        return api_error_set(
            e, 400, "n", NULL,
            "%u choices are more than a tenant may ever have at the same time (%u)", n, limit);
    return api_error_set(e, 429, NULL, "rate_limit_exceeded",
                         "the tenant '%s' has %u requests under way, and its limit is %u", p->name,
                         p->n_open, limit);
}

uint32_t tenants_room(const struct tenants *t, uint32_t index)
{
    const uint32_t n = t->list[index].n_open;

    if (t->opt.limit == 0)
        return UINT32_MAX;
    return n < t->opt.limit ? t->opt.limit - n : 0;
}

void tenants_begin(struct tenants *t, uint32_t index)
{
    t->list[index].n_open++;
}

void tenants_end(struct tenants *t, uint32_t index)
{
    t->list[index].n_open--;
}

uint32_t tenants_weight(const struct tenants *t, uint32_t index)
{
    return t->list[index].weight;
}

const char *tenants_name(const struct tenants *t, uint32_t index)
{
    if (index < t->n || (index == t->opt.max - 1 && t->has_shared))
        return t->list[index].name;
    return NULL;
}

uint32_t tenants_n(const struct tenants *t)
{
    return t->n + (t->has_shared ? 1 : 0);
}

uint64_t tenants_n_shared(const struct tenants *t)
{
    return t->n_shared;
}
