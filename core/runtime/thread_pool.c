/* core/runtime/thread_pool.c - see thread_pool.h.
 *
 * Pairings: thread_pool_run() releases `epoch` and a worker acquires it, which publishes fn and ud.
 * The shares need no order of their own: two sets of them serve regions in turn, and before a
 * thread arrives at the barrier of one region it renews its share for the next, which no other
 * thread touches then. `drained` needs none either: once a region is drained it stays so.
 */
#include "core/runtime/thread_pool.h"

#include "core/base/cpus.h"
#include "core/base/err.h"
#include "core/base/float_mode.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/runtime/barrier_tree.h"
#include "core/runtime/spin_word.h"
#include "core/runtime/topology.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define NO_CPU UINT32_MAX

/* The rest of a thread's share: the first item in the low half, the end in the high half, one word
 * so that owner and thieves change it by compare-and-swap. UNTOUCHED: the whole share. */
#define UNTOUCHED UINT64_MAX

struct share {
    _Alignas(64) atomic_uint_fast64_t left[2]; /* [region % 2] what is left of the thread's share */
};

/* Threads that steal from each other first. */
struct group {
    _Alignas(64) atomic_uint drained; /* index + 1 of the region in which no thread of the group has
                                       * items left */
    struct topology_group threads;
};

struct member {
    struct thread_pool_worker w;
    uint32_t group;
    pthread_t thread;
    uint32_t cpu;     /* the CPU that the member is kept at, or NO_CPU: it may run anywhere */
    cpu_set_t set[8]; /* CPUs that the member is kept on: 8,192, the kernel's most */
};

struct thread_pool {
    uint32_t n;
    void (*fn)(void *ud, struct thread_pool_worker *w);
    void *ud;
    struct member *members; /* [n]; the first is the caller of thread_pool_run() */
    struct share *shares;   /* [n] */
    uint32_t n_started;     /* threads made, the members after the first */
    pthread_t callers[THREAD_POOL_MAX_CALLERS]; /* callers of thread_pool_run(), pinned if `pin` is
                                                 * set */
    uint32_t n_callers;
    uint32_t n_pauses;
    struct group *groups; /* [n_groups] */
    uint32_t n_groups;
    struct barrier_tree *barrier;
    struct spin_word epoch; /* counts thread_pool_run calls */
    atomic_bool stop;
};

/* ---- create and destroy ---- */

static void pin(const struct member *m)
{
    int rc;

    if (m->cpu == NO_CPU)
        return;
    rc = pthread_setaffinity_np(pthread_self(), sizeof(m->set), m->set);
    if (rc != 0)
        log_warn("threads", "event=not-pinned thread=%u cpu=%u cause=%s", m->w.index, m->cpu,
                 strerrorname_np(rc));
}

static void *worker_main(void *arg)
{
    struct member *m = arg;
    struct thread_pool *t = m->w.pool;
    unsigned seen = 0;

    float_mode_set();
    pin(m);
    for (;;) {
        spin_word_wait(&t->epoch, seen, t->n_pauses);
        seen = atomic_load(&t->epoch.count);
        if (atomic_load(&t->stop))
            return NULL;
        mem_guard_begin("a worker's part of the step");
        t->fn(t->ud, &m->w);
        mem_guard_end();
        thread_pool_barrier(&m->w); /* the end of the run */
    }
}

/* Keep each thread on one CPU, or on all CPUs of that CPU's node. */
static void choose_cpus(struct thread_pool *t, const struct cpus *cpus, bool one_each)
{
    for (uint32_t i = 0; i < t->n && (i < cpus->n || !one_each); i++) {
        const struct cpu *meant = &cpus->cpu[i < cpus->n ? i : cpus->n - 1];
        struct member *m = &t->members[i];

        m->cpu = meant->id;
        for (const struct cpu *c = cpus->cpu; c < cpus->cpu + cpus->n; c++)
            if (one_each ? c == meant : c->node == meant->node)
                CPU_SET_S(c->id, sizeof(m->set), m->set);
    }
    if (one_each && t->n > cpus->n)
        log_warn("threads", "event=not-pinned threads=%u cause=more-threads-than-cpus cpus=%u",
                 t->n - cpus->n, cpus->n);
}

/* Make the groups of the members, and their barrier. */
static int make_groups(struct thread_pool *t, const struct cpus *cpus)
{
    struct topology_group *groups = mem_calloc(t->n, sizeof(*groups));
    int rc = ERR_NOMEM;

    if (groups != NULL) {
        t->n_groups = topology_groups(groups, cpus, t->n);
        t->groups = mem_aligned(t->n_groups, sizeof(*t->groups));
        if (t->groups != NULL)
            rc = barrier_tree_create(&t->barrier, groups, t->n_groups, t->n_pauses);
    }
    for (uint32_t g = 0; rc == 0 && g < t->n_groups; g++) {
        t->groups[g].threads = groups[g];
        for (uint32_t i = 0; i < groups[g].n; i++)
            t->members[groups[g].first + i].group = g;
    }
    mem_free(groups);
    return rc;
}

static int make_members(struct thread_pool *t, const struct cpus *cpus,
                        const struct thread_pool_options *options)
{
    int rc;

    t->members = mem_calloc(t->n, sizeof(*t->members));
    t->shares = mem_aligned(t->n, sizeof(*t->shares));
    if (t->members == NULL || t->shares == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < t->n; i++) {
        t->members[i] = (struct member){.w = {.pool = t, .index = i}, .cpu = NO_CPU};
        for (int parity = 0; parity < 2; parity++)
            atomic_init(&t->shares[i].left[parity], UNTOUCHED);
    }
    rc = make_groups(t, cpus);
    if (rc < 0)
        return rc;
    if (options->pin || options->keep_nodes)
        choose_cpus(t, cpus, options->pin);
    for (uint32_t i = 1; i < t->n; i++, t->n_started++)
        if (pthread_create(&t->members[i].thread, NULL, worker_main, &t->members[i]) != 0)
            return ERR_INTERNAL;
    return 0;
}

int thread_pool_create(struct thread_pool **out, const struct thread_pool_options *options)
{
    const struct cpus *cpus = options->cpus;
    struct thread_pool *t;
    struct cpus here;
    int rc;

    *out = NULL;
    if (options->n_threads == 0)
        return ERR_INVAL;
    t = mem_aligned(1, sizeof(*t));
    if (t == NULL)
        return ERR_NOMEM;
    t->n = options->n_threads;
    t->n_pauses = spin_word_count_pauses();
    if (cpus == NULL) {
        cpus_read(&here, "");
        cpus = &here;
    }
    rc = make_members(t, cpus, options);
    if (rc < 0) {
        thread_pool_destroy(&t);
        return rc;
    }
    *out = t;
    return 0;
}

void thread_pool_destroy(struct thread_pool **pool)
{
    struct thread_pool *t = pool != NULL ? *pool : NULL;

    if (t == NULL)
        return;
    atomic_store(&t->stop, true);
    spin_word_announce(&t->epoch);
    for (uint32_t i = 1; i <= t->n_started; i++)
        pthread_join(t->members[i].thread, NULL);
    barrier_tree_destroy(&t->barrier);
    mem_free(t->groups);
    mem_free(t->members);
    mem_free(t->shares);
    mem_free(t);
    *pool = NULL;
}

uint32_t thread_pool_n_threads(const struct thread_pool *t)
{
    return t->n;
}

uint32_t thread_pool_n_barriers(const struct thread_pool *t)
{
    return t->members[0].w.region;
}

/* ---- a run ---- */

static void know_caller(struct thread_pool *t)
{
    for (uint32_t i = 0; i < t->n_callers; i++)
        if (pthread_equal(t->callers[i], pthread_self()))
            return;
    if (t->n_callers == THREAD_POOL_MAX_CALLERS)
        return;
    t->callers[t->n_callers++] = pthread_self();
    pin(&t->members[0]);
}

void thread_pool_run(struct thread_pool *t, void (*fn)(void *ud, struct thread_pool_worker *w),
                     void *ud)
{
    know_caller(t);
    t->fn = fn;
    t->ud = ud;
    if (t->n > 1)
        spin_word_announce(&t->epoch);
    fn(ud, &t->members[0].w);
    thread_pool_barrier(&t->members[0].w);
}

static uint64_t range(uint64_t from, uint64_t end)
{
    return end << 32 | from;
}

/* Return the rest of thread i's share, as [from, end). */
static uint64_t left_of(uint64_t word, uint32_t i, uint32_t n, uint32_t n_threads)
{
    if (word != UNTOUCHED)
        return word;
    return range((uint64_t)n * i / n_threads, (uint64_t)n * (i + 1) / n_threads);
}

static uint32_t from_of(uint64_t left)
{
    return (uint32_t)left;
}

static uint32_t range_end(uint64_t left)
{
    return (uint32_t)(left >> 32);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Take from the front of the thread's own share. */
static bool take_own(struct thread_pool_worker *w, uint32_t n, uint32_t grain, uint32_t *from,
                     uint32_t *to)
{
    const struct thread_pool *t = w->pool;
    atomic_uint_fast64_t *word = &t->shares[w->index].left[w->region & 1];
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed), left;

    do {
        left = left_of(seen, w->index, n, t->n);
        *from = from_of(left);
        *to = *from + least(grain, range_end(left) - *from);
        if (*from == *to)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(word, &seen, range(*to, range_end(left)),
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Return the most items that a thread of the group has left; *victim and *seen get that thread and
 * its word. 0: none, and g->drained remembers it, because at the end of a region each thread asks
 * all groups. */
static uint32_t richest_of(const struct thread_pool_worker *w, struct group *g, uint32_t n,
                           uint32_t *victim, uint64_t *seen)
{
    const struct thread_pool *t = w->pool;
    const uint32_t first = g->threads.first;
    uint32_t most = 0;

    if (atomic_load_explicit(&g->drained, memory_order_relaxed) == w->region + 1)
        return 0;
    for (uint32_t i = first; i < first + g->threads.n; i++) {
        const uint64_t word =
            atomic_load_explicit(&t->shares[i].left[w->region & 1], memory_order_relaxed);
        const uint64_t left = left_of(word, i, n, t->n);

        if (range_end(left) - from_of(left) > most) {
            most = range_end(left) - from_of(left);
            *victim = i;
            *seen = word;
        }
    }
    if (most == 0)
        atomic_store_explicit(&g->drained, w->region + 1, memory_order_relaxed);
    return most;
}

/* Like richest_of(), over all other groups of the thread's memory node (same_node), or of all other
 * nodes. */
static uint32_t richest_elsewhere(const struct thread_pool_worker *w, bool same_node, uint32_t n,
                                  uint32_t *victim, uint64_t *seen)
{
    const struct thread_pool *t = w->pool;
    const uint32_t own = t->members[w->index].group;
    uint32_t most = 0;

    for (uint32_t g = 0; g < t->n_groups; g++) {
        const bool is_near = t->groups[g].threads.node == t->groups[own].threads.node;
        uint32_t thread = 0;
        uint64_t word = 0;

        if (g == own || is_near != same_node)
            continue;
        const uint32_t left = richest_of(w, &t->groups[g], n, &thread, &word);

        if (left > most) {
            most = left;
            *victim = thread;
            *seen = word;
        }
    }
    return most;
}

/* Return the thread with the most items left among the nearest threads that have any, and its word
 * in *seen; t->n: no items are left. */
static uint32_t choose_victim(const struct thread_pool_worker *w, uint32_t n, uint64_t *seen)
{
    const struct thread_pool *t = w->pool;
    uint32_t victim = t->n;

    if (richest_of(w, &t->groups[t->members[w->index].group], n, &victim, seen) == 0 &&
        t->n_groups > 1 && richest_elsewhere(w, true, n, &victim, seen) == 0)
        (void)richest_elsewhere(w, false, n, &victim, seen);
    return victim;
}

/* Take items from the back of the victim's share, at most half of it, since its owner takes from
 * the front. False: another thread took some of its items meanwhile. */
static bool steal(struct thread_pool_worker *w, uint32_t n, uint32_t grain, uint32_t *from,
                  uint32_t *to)
{
    const struct thread_pool *t = w->pool;

    for (;;) {
        uint64_t seen = 0;
        const uint32_t victim = choose_victim(w, n, &seen);
        uint64_t left;

        if (victim == t->n)
            return false;
        left = left_of(seen, victim, n, t->n);
        *to = range_end(left);
        *from = *to - least(grain, (*to - from_of(left) + 1) / 2);
        if (atomic_compare_exchange_strong_explicit(
                &t->shares[victim].left[w->region & 1], &seen, range(from_of(left), *from),
                memory_order_relaxed, memory_order_relaxed))
            return true;
    }
}

bool thread_pool_take(struct thread_pool_worker *w, uint32_t n, uint32_t grain, uint32_t *from,
                      uint32_t *to)
{
    assert(grain > 0 && n < UINT32_MAX);
    return take_own(w, n, grain, from, to) || steal(w, n, grain, from, to);
}

void thread_pool_barrier(struct thread_pool_worker *w)
{
    struct thread_pool *t = w->pool;

    atomic_store_explicit(&t->shares[w->index].left[(w->region + 1) & 1], UNTOUCHED,
                          memory_order_relaxed);
    w->region++;
    barrier_tree_wait(t->barrier, t->members[w->index].group);
}
