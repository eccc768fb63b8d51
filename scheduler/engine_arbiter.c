/* scheduler/engine_arbiter.c - see engine_arbiter.h.
 *
 * Start-time fair queueing over an array of engines; choose_engine() scans all of them, as there
 * are few. `start` is an engine's tag: engine_arbiter_end() adds the step's duration / share to it,
 * and compete() lifts an engine that was idle to `now`, so that idle time is not saved up. The
 * engine that ends its turn picks the one with the least tag and, on its own thread, calls that
 * engine's `granted`.
 */
#include "scheduler/engine_arbiter.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <pthread.h>

/* Tags are in thousandths of a microsecond at a share of one: shares up to 1000 divide evenly. */
#define SCALE 1000u
#define NO_ENGINE UINT32_MAX

struct contender {
    uint32_t share;
    bool competes;  /* has the turn, waits for it, or is about to ask again */
    uint64_t start; /* tag of the next step; while the engine does not compete, tag at the end of
                     * its last step */
    void (*granted)(void *ud);
    void *ud;
};

struct engine_arbiter {
    pthread_mutex_t mutex;
    uint64_t now;  /* virtual time: the start tag of the step under way, or of the last one */
    uint32_t owner;
    uint32_t n;
    struct contender engines[];
};

int engine_arbiter_create(struct engine_arbiter **out, const uint32_t *shares, uint32_t n)
{
    struct engine_arbiter *t = mem_calloc(1, sizeof(*t) + n * sizeof(t->engines[0]));

    *out = NULL;
    if (t == NULL)
        return ERR_NOMEM;
    pthread_mutex_init(&t->mutex, NULL);
    for (uint32_t i = 0; i < n; i++) {
        assert(shares[i] >= 1 && shares[i] <= SCALE);
        t->engines[i].share = shares[i];
    }
    t->owner = NO_ENGINE;
    t->n = n;
    *out = t;
    return 0;
}

void engine_arbiter_set_share(struct engine_arbiter *t, uint32_t engine, uint32_t share)
{
    if (t == NULL)
        return;
    assert(share >= 1 && share <= SCALE);
    pthread_mutex_lock(&t->mutex);
    t->engines[engine].share = share;
    pthread_mutex_unlock(&t->mutex);
}

void engine_arbiter_destroy(struct engine_arbiter **arbiter)
{
    struct engine_arbiter *t = arbiter != NULL ? *arbiter : NULL;

    if (t == NULL)
        return;
    pthread_mutex_destroy(&t->mutex);
    mem_free(t);
    *arbiter = NULL;
}

void engine_arbiter_join(struct engine_arbiter *t, uint32_t engine, void (*granted)(void *ud),
                         void *ud)
{
    if (t == NULL)
        return;
    t->engines[engine].granted = granted;
    t->engines[engine].ud = ud;
}

/* ---- with the mutex held ---- */

static void compete(struct engine_arbiter *t, struct contender *c)
{
    c->competes = true;
    if (c->start < t->now)
        c->start = t->now;
}

/* Give the turn to the competing engine with the least tag and tell it, unless it is `self`, the
 * engine that calls. */
static void choose_engine(struct engine_arbiter *t, uint32_t self)
{
    uint32_t first = NO_ENGINE;

    for (uint32_t i = 0; i < t->n; i++)
        if (t->engines[i].competes &&
            (first == NO_ENGINE || t->engines[i].start < t->engines[first].start))
            first = i;
    t->owner = first;
    if (first == NO_ENGINE)
        return;
    t->now = t->engines[first].start;
    if (first != self)
        t->engines[first].granted(t->engines[first].ud);
}

/* ---- the engines' ---- */

bool engine_arbiter_ask(struct engine_arbiter *t, uint32_t engine)
{
    bool is_own;

    if (t == NULL)
        return true;
    pthread_mutex_lock(&t->mutex);
    if (!t->engines[engine].competes)
        compete(t, &t->engines[engine]);
    if (t->owner == NO_ENGINE)
        choose_engine(t, engine);
    is_own = t->owner == engine;
    pthread_mutex_unlock(&t->mutex);
    return is_own;
}

uint32_t engine_arbiter_n_rivals(struct engine_arbiter *t, uint32_t engine)
{
    uint32_t n = 0;

    if (t == NULL)
        return 0;
    pthread_mutex_lock(&t->mutex);
    for (uint32_t i = 0; i < t->n; i++)
        n += i != engine && t->engines[i].competes;
    pthread_mutex_unlock(&t->mutex);
    return n;
}

void engine_arbiter_end(struct engine_arbiter *t, uint32_t engine, uint64_t us, bool wants_more)
{
    if (t == NULL)
        return;
    pthread_mutex_lock(&t->mutex);
    assert(t->owner == engine || !wants_more);
    t->engines[engine].start += us * SCALE / t->engines[engine].share;
    t->engines[engine].competes = wants_more;
    if (t->owner == engine)
        choose_engine(t, engine);
    pthread_mutex_unlock(&t->mutex);
}
