/* core/run/team.c - see team.h.
 *
 * Pairings: `epoch` is released by team_run() and acquired by a worker: it publishes fn and ud.
 * `arrived`/`phase` make the barrier: each arrival is acq_rel, the last one releases the new phase
 * and the waiters acquire it. `next[i]` needs no order of its own: regions are separated by
 * barriers, and the last to arrive at one clears the counter that nobody takes from any more.
 */
#include "core/run/team.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About 50 us on current machines: longer than the gaps inside a step, shorter than what idle
 * time would show. */
#define SPINS 2000

struct team {
    uint32_t n;
    void (*fn)(void *ud, struct team_worker *w);
    void *ud;
    pthread_t *threads; /* [n - 1] */
    uint32_t n_started;
    _Alignas(64) atomic_uint epoch;   /* counts team_run calls */
    atomic_uint epoch_sleepers;
    atomic_bool stop;
    _Alignas(64) atomic_uint arrived;
    _Alignas(64) atomic_uint phase;   /* counts barriers */
    atomic_uint phase_sleepers;
    _Alignas(64) atomic_uint next[2]; /* items taken, by region parity */
};

static void futex_wait(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake_all(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Wait until *word differs from `seen`. The sleeper count is raised before the word is checked
 * again and the waker changes the word before it reads the count (both seq_cst), so a wake-up
 * cannot be missed. */
static void wait_change(atomic_uint *word, atomic_uint *sleepers, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != seen)
            return;
        _mm_pause();
    }
    atomic_fetch_add(sleepers, 1);
    while (atomic_load(word) == seen)
        futex_wait(word, seen);
    atomic_fetch_sub(sleepers, 1);
}

static void announce(atomic_uint *word, atomic_uint *sleepers)
{
    atomic_fetch_add(word, 1);
    if (atomic_load(sleepers) > 0)
        futex_wake_all(word);
}

struct start {
    struct team *team;
    uint32_t index;
};

static void *worker_main(void *arg)
{
    struct start *start = arg;
    struct team *t = start->team;
    struct team_worker w = {.team = t, .index = start->index};
    unsigned seen = 0;

    mem_free(start);
    for (;;) {
        wait_change(&t->epoch, &t->epoch_sleepers, seen);
        seen = atomic_load(&t->epoch);
        if (atomic_load(&t->stop))
            return NULL;
        w.region = 0;
        mem_guard_begin("a worker's part of the step");
        t->fn(t->ud, &w);
        mem_guard_end();
        team_barrier(&w); /* the end of the run */
    }
}

static int start_worker(struct team *t, uint32_t index)
{
    struct start *start = mem_alloc(sizeof(*start));

    if (start == NULL)
        return ERR_NOMEM;
    *start = (struct start){.team = t, .index = index};
    if (pthread_create(&t->threads[index - 1], NULL, worker_main, start) != 0) {
        mem_free(start);
        return ERR_INTERNAL;
    }
    t->n_started++;
    return 0;
}

int team_create(struct team **out, uint32_t n_threads)
{
    struct team *t;
    int rc = 0;

    *out = NULL;
    if (n_threads == 0)
        return ERR_INVAL;
    t = mem_aligned(1, sizeof(*t));
    if (t == NULL)
        return ERR_NOMEM;
    t->n = n_threads;
    t->threads = mem_calloc(n_threads, sizeof(*t->threads));
    if (t->threads == NULL)
        rc = ERR_NOMEM;
    for (uint32_t i = 1; i < n_threads && rc == 0; i++)
        rc = start_worker(t, i);
    if (rc < 0) {
        team_destroy(&t);
        return rc;
    }
    *out = t;
    return 0;
}

void team_destroy(struct team **team)
{
    struct team *t = team != NULL ? *team : NULL;

    if (t == NULL)
        return;
    atomic_store(&t->stop, true);
    announce(&t->epoch, &t->epoch_sleepers);
    for (uint32_t i = 0; i < t->n_started; i++)
        pthread_join(t->threads[i], NULL);
    mem_free(t->threads);
    mem_free(t);
    *team = NULL;
}

uint32_t team_n_threads(const struct team *t)
{
    return t->n;
}

void team_run(struct team *t, void (*fn)(void *ud, struct team_worker *w), void *ud)
{
    struct team_worker w = {.team = t};

    t->fn = fn;
    t->ud = ud;
    atomic_store(&t->next[0], 0);
    atomic_store(&t->next[1], 0);
    if (t->n > 1)
        announce(&t->epoch, &t->epoch_sleepers);
    fn(ud, &w);
    team_barrier(&w);
}

bool team_take(struct team_worker *w, uint32_t n, uint32_t grain, uint32_t *from, uint32_t *to)
{
    atomic_uint *next = &w->team->next[w->region & 1];
    uint32_t at;

    if (atomic_load_explicit(next, memory_order_relaxed) >= n)
        return false;
    at = atomic_fetch_add_explicit(next, grain, memory_order_relaxed);
    if (at >= n)
        return false;
    *from = at;
    *to = n - at < grain ? n : at + grain;
    return true;
}

/* The counter of this region is cleared by the last to arrive: nobody takes from it any more, and
 * it is used again two regions later. */
void team_barrier(struct team_worker *w)
{
    struct team *t = w->team;
    const unsigned phase = atomic_load_explicit(&t->phase, memory_order_relaxed);

    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) + 1 == t->n) {
        atomic_store_explicit(&t->next[w->region & 1], 0, memory_order_relaxed);
        atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
        announce(&t->phase, &t->phase_sleepers);
    } else {
        wait_change(&t->phase, &t->phase_sleepers, phase);
    }
    w->region++;
}
