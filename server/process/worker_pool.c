/* server/process/worker_pool.c - see worker_pool.h.
 *
 * Two lists under one mutex: jobs that wait, and jobs that are done. A thread takes a job, works
 * without the mutex, puts the job on `done` and wakes the loop; on_ended(), on the I/O thread,
 * calls done() for each, over several turns of the loop if they take long. The mutex is a leaf: no
 * other lock is taken while it is held.
 */
#include "server/process/worker_pool.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/float_mode.h"
#include "core/base/mem.h"
#include "server/process/loop_guard.h"

#include <pthread.h>
#include <signal.h>

struct worker {
    struct worker_pool *pool;
    pthread_t thread;
    uint64_t owner; /* of its job */
    const char *subject;
    uint64_t begin_us; /* clock_us() at which its job began; 0 = it has no job */
};

struct worker_pool {
    uv_async_t ended; /* wakes the loop: jobs are in `done` */
    uint32_t n_threads, max_waiting;
    uint32_t n_posted; /* jobs whose done() has not been called; the I/O thread's */
    struct worker workers[WORKER_POOL_MAX_THREADS];
    pthread_mutex_t lock; /* guards the members below, and the workers' members but `thread`; a
                           * leaf */
    pthread_cond_t posted;
    struct list waiting, done;
    struct worker_pool_stats stats;
    bool is_ending;
};

/* ---- the threads ---- */

static uint32_t n_running_of(const struct worker_pool *p, uint64_t owner)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_threads; i++)
        n += p->workers[i].begin_us != 0 && p->workers[i].owner == owner;
    return n;
}

/* Take the first job of an owner with the fewest jobs running; there is one. Under the lock. */
static struct worker_job *take_job(struct worker_pool *p)
{
    struct worker_job *best = NULL;
    uint32_t fewest = UINT32_MAX;

    list_each(it, &p->waiting) {
        struct worker_job *job = list_entry(it, struct worker_job, link);
        const uint32_t n = n_running_of(p, job->owner);

        if (n < fewest) {
            best = job;
            fewest = n;
        }
        if (fewest == 0)
            break;
    }
    list_unlink(&best->link);
    p->stats.n_waiting--;
    return best;
}

static void run_job(struct worker_pool *p, struct worker *w, struct worker_job *job)
{
    w->owner = job->owner;
    w->subject = job->subject != NULL ? job->subject : "";
    w->begin_us = clock_us();
    p->stats.n_running++;
    pthread_mutex_unlock(&p->lock);
    job->work(job);
    pthread_mutex_lock(&p->lock);
    p->stats.n_running--;
    p->stats.n_done++;
    p->stats.busy_us += clock_us() - w->begin_us;
    w->begin_us = 0;
    list_push_back(&p->done, &job->link);
    uv_async_send(&p->ended);
}

static void *work(void *ud)
{
    struct worker *w = ud;
    struct worker_pool *p = w->pool;

    float_mode_set();
    pthread_mutex_lock(&p->lock);
    while (!p->is_ending || !list_is_empty(&p->waiting)) {
        if (list_is_empty(&p->waiting))
            pthread_cond_wait(&p->posted, &p->lock);
        else
            run_job(p, w, take_job(p));
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Start threads that block all signals. Under the lock, since the first threads may get jobs at
 * once. */
static int start_threads(struct worker_pool *p, uint32_t n)
{
    sigset_t all, before;

    sigfillset(&all);
    sigdelset(&all, SIGSYS); /* sent when the sandbox refuses a system call */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&p->lock);
    while (p->n_threads < n) {
        struct worker *w = &p->workers[p->n_threads];

        w->pool = p;
        if (pthread_create(&w->thread, NULL, work, w) != 0)
            break;
        p->n_threads++;
    }
    pthread_mutex_unlock(&p->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return p->n_threads == n ? 0 : ERR_INTERNAL;
}

/* ---- the I/O thread ---- */

static struct worker_job *take_done(struct worker_pool *p)
{
    struct worker_job *job = NULL;

    pthread_mutex_lock(&p->lock);
    if (!list_is_empty(&p->done)) {
        job = list_entry(p->done.next, struct worker_job, link);
        list_unlink(&job->link);
    }
    pthread_mutex_unlock(&p->lock);
    return job;
}

static void on_ended(uv_async_t *ended)
{
    LOOP_CALLBACK(ended->loop, "worker_pool.ended");
    struct worker_pool *p = ended->data;
    struct worker_job *job;

    while ((job = take_done(p)) != NULL) {
        LOOP_PART(ended->loop, job->name);
        p->n_posted--;
        job->done(job);
        if (!loop_guard_is_due(ended->loop))
            continue;
        uv_async_send(&p->ended); /* the rest waits for the next turn */
        return;
    }
}

int worker_pool_create(struct worker_pool **out, const struct worker_pool_options *options)
{
    struct worker_pool *p = mem_calloc(1, sizeof(*p));

    *out = NULL;
    if (p == NULL)
        return ERR_NOMEM;
    p->ended.data = p;
    p->max_waiting = options->max_waiting;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->posted, NULL);
    list_init(&p->waiting);
    list_init(&p->done);
    if (start_threads(p, options->n_threads) < 0 ||
        uv_async_init(options->loop, &p->ended, on_ended) != 0) {
        worker_pool_destroy(&p);
        return ERR_INTERNAL;
    }
    *out = p;
    return 0;
}

int worker_pool_start(struct worker_pool *p, uint32_t n_threads)
{
    return start_threads(p, n_threads);
}

void worker_pool_stop(struct worker_pool *p)
{
    if (p != NULL && !uv_is_closing((uv_handle_t *)&p->ended))
        uv_close((uv_handle_t *)&p->ended, NULL);
}

void worker_pool_destroy(struct worker_pool **pool)
{
    struct worker_pool *p = pool != NULL ? *pool : NULL;

    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->is_ending = true;
    pthread_cond_broadcast(&p->posted);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_threads; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->posted);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
    *pool = NULL;
}

int worker_pool_post(struct worker_pool *p, struct worker_job *job)
{
    int rc = ERR_AGAIN;

    atomic_store(&job->canceled, false);
    pthread_mutex_lock(&p->lock);
    if (p->stats.n_waiting < p->max_waiting) {
        list_push_back(&p->waiting, &job->link);
        p->stats.n_waiting++;
        pthread_cond_signal(&p->posted);
        rc = 0;
    }
    pthread_mutex_unlock(&p->lock);
    p->n_posted += rc == 0;
    return rc;
}

bool worker_pool_is_idle(const struct worker_pool *p)
{
    return p == NULL || p->n_posted == 0;
}

void worker_job_cancel(struct worker_job *job)
{
    atomic_store(&job->canceled, true);
}

struct worker_pool_stats worker_pool_stats(struct worker_pool *p)
{
    struct worker_pool_stats stats;

    if (p == NULL)
        return (struct worker_pool_stats){.oldest = ""};
    pthread_mutex_lock(&p->lock);
    stats = p->stats;
    stats.oldest = "";
    for (uint32_t i = 0; i < p->n_threads; i++)
        if (p->workers[i].begin_us != 0 &&
            (stats.oldest_us == 0 || p->workers[i].begin_us < stats.oldest_us)) {
            stats.oldest_us = p->workers[i].begin_us;
            stats.oldest = p->workers[i].subject;
        }
    pthread_mutex_unlock(&p->lock);
    return stats;
}
