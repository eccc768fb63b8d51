/* core/runtime/thread_pool.c - see thread_pool.h.
 *
 * Pairings: `epoch` is released by thread_pool_run() and acquired by a worker: it publishes fn and
 * ud. `arrived`/`phase` make the barrier: each arrival is acq_rel, the last one releases the new
 * phase and the waiters acquire it. The shares need no order of their own: two sets of them serve
 * regions in turn, and before a thread arrives at the barrier of one region it renews its share for
 * the next, which no other thread touches then.
 */
#include "core/runtime/thread_pool.h"

#include "core/base/cpus.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#include <assert.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of the THREAD_POOL_SPIN_US, so long without a system call: a barrier of a quiet thread pool is
 * over by then. */
#define PAUSE_US 10
#define NO_CPU UINT32_MAX

/* What is left of a thread's share: the first item in the low half, the end in the high half, one
 * word so that owner and thieves change it by compare-and-swap. UNTOUCHED: all of it. */
#define UNTOUCHED UINT64_MAX

struct share {
    _Alignas(64) atomic_uint_fast64_t left[2]; /* by region parity */
};

struct member {
    struct thread_pool_worker w;
    pthread_t thread;
    uint32_t cpu; /* to be pinned to, or NO_CPU */
};

struct thread_pool {
    uint32_t n;
    void (*fn)(void *ud, struct thread_pool_worker *w);
    void *ud;
    struct member *members; /* [n]; the first is the caller of thread_pool_run() */
    struct share *shares;   /* [n] */
    uint32_t n_started;     /* threads made, the members after the first */
    pthread_t callers[THREAD_POOL_MAX_CALLERS]; /* of thread_pool_run(), pinned if they are to be */
    uint32_t n_callers;
    uint32_t n_pauses; /* in PAUSE_US */
    _Alignas(64) atomic_uint epoch; /* counts thread_pool_run calls */
    atomic_uint epoch_sleepers;
    atomic_bool stop;
    _Alignas(64) atomic_uint arrived;
    _Alignas(64) atomic_uint phase; /* counts barriers */
    atomic_uint phase_sleepers;
};

/* ---- waiting ---- */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void futex_wait(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake_all(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* A pause is 40 cycles on one processor and 140 on the next. The best of three: an interrupt
 * must not make it look long. */
static uint32_t count_pauses(void)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 3; i++) {
        const uint64_t from = now_ns();
        uint64_t ns;

        for (int j = 0; j < 256; j++)
            _mm_pause();
        ns = now_ns() - from;
        best = ns < best ? ns : best;
    }
    return (uint32_t)(PAUSE_US * 1000u * 256u / (best > 0 ? best : 1)) + 1;
}

static bool changes_while_spinning(const struct thread_pool *t, atomic_uint *word, unsigned seen)
{
    uint64_t end;

    for (uint32_t i = 0; i < t->n_pauses; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != seen)
            return true;
        _mm_pause();
    }
    end = now_ns() + (THREAD_POOL_SPIN_US - PAUSE_US) * 1000;
    do {
        sched_yield();
        if (atomic_load_explicit(word, memory_order_acquire) != seen)
            return true;
    } while (now_ns() < end);
    return false;
}

/* Wait until *word differs from `seen`. The sleeper count is raised before the word is checked
 * again and the waker changes the word before it reads the count (both seq_cst), so a wake-up
 * cannot be missed. */
static void wait_change(const struct thread_pool *t, atomic_uint *word, atomic_uint *sleepers,
                        unsigned seen)
{
    if (changes_while_spinning(t, word, seen))
        return;
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

/* ---- life ---- */

static void pin_to(const struct member *m)
{
    cpu_set_t set[8] = {0}; /* 8,192 CPUs, the kernel's most */
    int rc;

    if (m->cpu == NO_CPU)
        return;
    CPU_SET_S(m->cpu, sizeof(set), set);
    rc = pthread_setaffinity_np(pthread_self(), sizeof(set), set);
    if (rc != 0)
        log_warn("threads", "event=not-pinned thread=%u cpu=%u cause=%s", m->w.index, m->cpu,
                 strerrorname_np(rc));
}

static void *worker_main(void *arg)
{
    struct member *m = arg;
    struct thread_pool *t = m->w.pool;
    unsigned seen = 0;

    pin_to(m);
    for (;;) {
        wait_change(t, &t->epoch, &t->epoch_sleepers, seen);
        seen = atomic_load(&t->epoch);
        if (atomic_load(&t->stop))
            return NULL;
        mem_guard_begin("a worker's part of the step");
        t->fn(t->ud, &m->w);
        mem_guard_end();
        thread_pool_barrier(&m->w); /* the end of the run */
    }
}

static void choose_cpus(struct thread_pool *t)
{
    struct cpus cpus;

    cpus_read(&cpus, "");
    for (uint32_t i = 0; i < t->n; i++)
        t->members[i].cpu = i < cpus.n ? cpus.id[i] : NO_CPU;
    if (t->n > cpus.n)
        log_warn("threads", "event=not-pinned threads=%u cause=more-threads-than-cpus cpus=%u",
                 t->n - cpus.n, cpus.n);
}

static int make_members(struct thread_pool *t, bool pin)
{
    t->members = mem_calloc(t->n, sizeof(*t->members));
    t->shares = mem_aligned(t->n, sizeof(*t->shares));
    if (t->members == NULL || t->shares == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < t->n; i++) {
        t->members[i] = (struct member){.w = {.pool = t, .index = i}, .cpu = NO_CPU};
        for (int parity = 0; parity < 2; parity++)
            atomic_init(&t->shares[i].left[parity], UNTOUCHED);
    }
    if (pin)
        choose_cpus(t);
    for (uint32_t i = 1; i < t->n; i++, t->n_started++)
        if (pthread_create(&t->members[i].thread, NULL, worker_main, &t->members[i]) != 0)
            return ERR_INTERNAL;
    return 0;
}

int thread_pool_create(struct thread_pool **out, const struct thread_pool_options *options)
{
    struct thread_pool *t;
    int rc;

    *out = NULL;
    if (options->n_threads == 0)
        return ERR_INVAL;
    t = mem_aligned(1, sizeof(*t));
    if (t == NULL)
        return ERR_NOMEM;
    t->n = options->n_threads;
    t->n_pauses = count_pauses();
    rc = make_members(t, options->pin);
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
    announce(&t->epoch, &t->epoch_sleepers);
    for (uint32_t i = 1; i <= t->n_started; i++)
        pthread_join(t->members[i].thread, NULL);
    mem_free(t->members);
    mem_free(t->shares);
    mem_free(t);
    *pool = NULL;
}

uint32_t thread_pool_n_threads(const struct thread_pool *t)
{
    return t->n;
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
    pin_to(&t->members[0]);
}

void thread_pool_run(struct thread_pool *t, void (*fn)(void *ud, struct thread_pool_worker *w),
                     void *ud)
{
    know_caller(t);
    t->fn = fn;
    t->ud = ud;
    if (t->n > 1)
        announce(&t->epoch, &t->epoch_sleepers);
    fn(ud, &t->members[0].w);
    thread_pool_barrier(&t->members[0].w);
}

static uint64_t range(uint64_t from, uint64_t end)
{
    return end << 32 | from;
}

/* What is left of thread i's share, as [from, end). */
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

static uint32_t end_of(uint64_t left)
{
    return (uint32_t)(left >> 32);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The owner's way: from the front. */
static bool take_own(struct thread_pool_worker *w, uint32_t n, uint32_t grain, uint32_t *from,
                     uint32_t *to)
{
    const struct thread_pool *t = w->pool;
    atomic_uint_fast64_t *word = &t->shares[w->index].left[w->region & 1];
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed), left;

    do {
        left = left_of(seen, w->index, n, t->n);
        *from = from_of(left);
        *to = *from + least(grain, end_of(left) - *from);
        if (*from == *to)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(word, &seen, range(*to, end_of(left)),
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* The thread with the most left, and in *seen its word; t->n when nothing is left. */
static uint32_t richest(const struct thread_pool_worker *w, uint32_t n, uint64_t *seen)
{
    const struct thread_pool *t = w->pool;
    uint32_t most = 0, victim = t->n;

    for (uint32_t i = 0; i < t->n; i++) {
        const uint64_t word =
            atomic_load_explicit(&t->shares[i].left[w->region & 1], memory_order_relaxed);
        const uint64_t left = left_of(word, i, n, t->n);

        if (end_of(left) - from_of(left) > most) {
            most = end_of(left) - from_of(left);
            victim = i;
            *seen = word;
        }
    }
    return victim;
}

/* Take items from the back of the victim's share: at most half, since its owner goes on from the
 * front. False: another thread took items of it meanwhile. */
static bool steal(struct thread_pool_worker *w, uint32_t n, uint32_t grain, uint32_t *from,
                  uint32_t *to)
{
    const struct thread_pool *t = w->pool;

    for (;;) {
        uint64_t seen = 0;
        const uint32_t victim = richest(w, n, &seen);
        uint64_t left;

        if (victim == t->n)
            return false;
        left = left_of(seen, victim, n, t->n);
        *to = end_of(left);
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
    const unsigned phase = atomic_load_explicit(&t->phase, memory_order_relaxed);

    atomic_store_explicit(&t->shares[w->index].left[(w->region + 1) & 1], UNTOUCHED,
                          memory_order_relaxed);
    w->region++;
    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) + 1 == t->n) {
        atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
        announce(&t->phase, &t->phase_sleepers);
    } else {
        wait_change(t, &t->phase, &t->phase_sleepers, phase);
    }
}
