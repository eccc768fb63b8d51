/* server/models/model_choice.c - see model_choice.h.
 *
 * model_choose() is called again after each step until nothing is left to do, so that it returns
 * one step at a time: look at an unknown file, unload an idle model, then serve the model that is
 * waited for longest (load it, refuse it, or make room). Sums of bytes and times saturate
 * (add_bytes()), because UINT64_MAX means "never".
 */
#include "server/models/model_choice.h"

#define NOBODY UINT32_MAX

static uint64_t add_bytes(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Return the time since which the model has had no requests. */
static uint64_t idle_since(const struct model_view *v)
{
    return v->used_us > v->ready_us ? v->used_us : v->ready_us;
}

static uint64_t idle_until(const struct model_view *v)
{
    return add_bytes(idle_since(v), v->idle_us);
}

static uint64_t stay_until(const struct model_view *v)
{
    const uint64_t stay = v->load_us > MODEL_MIN_STAY_US ? v->load_us : MODEL_MIN_STAY_US;

    return add_bytes(v->ready_us, stay);
}

static bool is_there(const struct model_view *v)
{
    return v->state == MODEL_READY || v->state == MODEL_LOADING || v->state == MODEL_UNLOADING;
}

/* Find a model to unload even if no other model needs its memory: its unload was requested, or it
 * has been idle too long. */
static uint32_t find_leaver(const struct model_view *v, uint32_t n, uint64_t now_us)
{
    for (uint32_t i = 0; i < n; i++) {
        if (v[i].state != MODEL_READY || v[i].is_busy)
            continue;
        if (v[i].wants_unload || (!v[i].is_pinned && idle_until(&v[i]) <= now_us))
            return i;
    }
    return NOBODY;
}

/* Find the model that can be loaded and for which a request has waited longest. */
static uint32_t find_oldest(const struct model_view *v, uint32_t n)
{
    uint32_t oldest = NOBODY;

    for (uint32_t i = 0; i < n; i++)
        if (v[i].wanted_us > 0 && (v[i].state == MODEL_UNLOADED || v[i].state == MODEL_FAILED) &&
            (oldest == NOBODY || v[i].wanted_us < v[oldest].wanted_us))
            oldest = i;
    return oldest;
}

static bool is_changing(const struct model_view *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i].state == MODEL_LOADING || v[i].state == MODEL_UNLOADING)
            return true;
    return false;
}

static uint64_t taken(const struct model_view *v, uint32_t n, const struct model_memory *m)
{
    uint64_t sum = m->base;

    for (uint32_t i = 0; i < n; i++)
        sum = add_bytes(sum, is_there(&v[i]) ? v[i].bytes : 0);
    return sum;
}

/* Count the bytes that no unload can free: the process and the pinned models. */
static uint64_t kept(const struct model_view *v, uint32_t n, const struct model_memory *m)
{
    uint64_t sum = m->base;

    for (uint32_t i = 0; i < n; i++)
        sum = add_bytes(sum, v[i].is_pinned && is_there(&v[i]) ? v[i].bytes : 0);
    return sum;
}

/* Find a model to unload for room: of those without requests the least recently used. */
static uint32_t find_idle(const struct model_view *v, uint32_t n)
{
    uint32_t found = NOBODY;

    for (uint32_t i = 0; i < n; i++)
        if (v[i].state == MODEL_READY && !v[i].is_busy && !v[i].is_pinned &&
            (found == NOBODY || idle_since(&v[i]) < idle_since(&v[found])))
            found = i;
    return found;
}

/* Find the model to hold when all models have requests: of those that have stayed long enough the
 * one that was loaded first. */
static uint32_t find_held(const struct model_view *v, uint32_t n, uint64_t now_us)
{
    uint32_t found = NOBODY;

    for (uint32_t i = 0; i < n; i++)
        if (v[i].state == MODEL_READY && !v[i].is_pinned && stay_until(&v[i]) <= now_us &&
            (found == NOBODY || v[i].ready_us < v[found].ready_us))
            found = i;
    return found;
}

static struct model_choice choose_to_unload(const struct model_view *v, uint32_t n, uint64_t now_us)
{
    uint32_t i = find_idle(v, n);

    if (i != NOBODY)
        return (struct model_choice){MODEL_STEP_UNLOAD, i};
    i = find_held(v, n, now_us);
    return i != NOBODY ? (struct model_choice){MODEL_STEP_HOLD, i} : (struct model_choice){0};
}

/* Find a model whose file has not been looked at; a look may run beside a load or an unload. */
static uint32_t find_unknown(const struct model_view *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i].wanted_us > 0 && (v[i].state == MODEL_UNLOADED || v[i].state == MODEL_FAILED) &&
            !v[i].is_known && !v[i].is_looked_at)
            return i;
    return NOBODY;
}

struct model_choice model_choose(const struct model_view *v, uint32_t n,
                                 const struct model_memory *m, uint64_t now_us)
{
    uint32_t i = find_unknown(v, n);

    if (i != NOBODY)
        return (struct model_choice){MODEL_STEP_LOOK, i};
    if (is_changing(v, n))
        return (struct model_choice){0};
    i = find_leaver(v, n, now_us);
    if (i != NOBODY)
        return (struct model_choice){MODEL_STEP_UNLOAD, i};
    i = find_oldest(v, n);
    if (i == NOBODY || !v[i].is_known)
        return (struct model_choice){0};
    if (m->limit > 0 && add_bytes(kept(v, n, m), v[i].bytes) > m->limit)
        return (struct model_choice){MODEL_STEP_REFUSE, i};
    if (m->limit == 0 || add_bytes(taken(v, n, m), v[i].bytes) <= m->limit)
        return (struct model_choice){MODEL_STEP_LOAD, i};
    return choose_to_unload(v, n, now_us);
}

uint64_t model_choice_next_us(const struct model_view *v, uint32_t n, uint64_t now_us)
{
    const bool is_waiting = find_oldest(v, n) != NOBODY;
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = v[i].is_busy ? UINT64_MAX : idle_until(&v[i]);

        if (v[i].state != MODEL_READY || v[i].is_pinned)
            continue;
        if (is_waiting && stay_until(&v[i]) > now_us && stay_until(&v[i]) < at)
            at = stay_until(&v[i]);
        next = at < next ? at : next;
    }
    return next;
}
