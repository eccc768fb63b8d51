/* server/storage/request_keeper.c - the jobs and the timer of request_keeper.h.
 *
 * One job at a time runs on the storage thread: it writes all waiting records, syncs, compacts or
 * opens the file. Two buffers alternate: the I/O thread fills `gathers` while the job writes
 * `writes`. request_keeper_pump() picks the next job whenever one ends, a record is added, or the
 * timer ticks.
 */
#include "server/storage/request_keeper_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/process/loop_guard.h"
#include "server/storage/request_log.h"

#include <errno.h>
#include <stdio.h>

/* Interval at which tokens are written, which bounds the computation that a kill loses, and at
 * which a file that another process holds is tried again. */
#define TICK_MS 250
#define SYNC_US 1000000u
/* The file is compacted when so many bytes, and half of it, belong to requests that are gone. */
#define MIN_GARBAGE ((uint64_t)4 << 20)

/* ---- the job ---- */

static void on_request_keeper_work(struct worker_job *job)
{
    struct request_keeper *k = list_entry(job, struct request_keeper, job);

    switch (k->task) {
    case REQUEST_TASK_WRITE:
        k->rc = request_log_append(k->log, k->writes.data, k->writes.len);
        break;
    case REQUEST_TASK_SYNC:
        k->rc = request_log_sync(k->log);
        break;
    case REQUEST_TASK_COMPACT:
        k->rc = request_log_compact(k->log);
        break;
    case REQUEST_TASK_OPEN:
        k->rc = request_log_open(&k->opened, k->opt.path, &k->saved, &k->n_opened_lost, k->err,
                                 sizeof(k->err));
        break;
    }
    k->reason = errno;
}

static void note_trouble(struct request_keeper *k, const char *what)
{
    if (k->rc < 0 && k->failed_us == 0)
        log_error("requests", "event=not_written what=%s errno=%d reason=%s", what, k->reason,
                  err_name(k->rc));
    if (k->rc == 0 && k->failed_us > 0)
        log_info("requests", "event=written_again");
    k->failed_us = k->rc < 0 ? clock_us() : 0;
}

/* Put records that could not be written before the new ones, so that the record of a request that
 * is gone is not lost. Requests do not wait for them. */
static void gather_again(struct request_keeper *k)
{
    const struct buf gathers = k->gathers;

    buf_add(&k->writes, gathers.data, gathers.len);
    k->writes.err = 0; /* without room the later records are lost */
    k->gathers = k->writes;
    k->writes = gathers;
    list_move_back(&k->written, &k->waiting);
}

/* Tell the waiting requests; one whose first record was not written is not kept. */
static void after_write(struct request_keeper *k)
{
    const bool is_written = k->rc == 0; /* copied, because a callback may begin the next job */
    struct list told;

    note_trouble(k, "records");
    k->is_unsynced = k->is_unsynced || is_written;
    if (!is_written)
        gather_again(k);
    buf_clear(&k->writes);
    request_keeper_tick(k);
    list_init(&told);
    list_move_back(&told, &k->written);
    while (!list_is_empty(&told)) {
        struct request_waiter *w = list_entry(told.next, struct request_waiter, link);
        void (*written)(void *ud, bool is_kept) = w->written;
        void *ud = w->ud;

        list_unlink(&w->link);
        if (!is_written) {
            k->n_unkept++;
            kept_request_drop(w->request);
        }
        mem_free(w);
        written(ud, is_written);
    }
}

static void have_saved(struct request_keeper *k)
{
    const struct saved_requests *s = &k->saved;

    k->n_saved = (uint32_t)s->n;
    k->next_number = s->n > 0 ? s->all[s->n - 1].number + 1 : 1;
    k->has_saved = true;
}

static void hand_over_saved(struct request_keeper *k)
{
    struct saved_requests saved = k->saved;

    if (!k->has_saved || k->on_saved == NULL || k->is_stopping)
        return;
    k->has_saved = false;
    k->saved = (struct saved_requests){0};
    k->on_saved(k->saved_ud, &saved);
}

static void after_open(struct request_keeper *k)
{
    char quoted[500];

    if (k->rc == ERR_BUSY)
        return;
    if (k->rc < 0) {
        if (k->failed_us == 0)
            log_error("requests", "event=not_opened reason=%s",
                      log_quote(quoted, sizeof(quoted), k->err));
        k->failed_us = clock_us();
        return;
    }
    k->failed_us = 0;
    k->log = k->opened;
    k->bytes = request_log_bytes(k->log);
    k->n_lost += k->n_opened_lost;
    log_info("requests", "event=requests_db_taken_over requests=%zu", k->saved.n);
    have_saved(k);
    hand_over_saved(k);
}

static void after_compact(struct request_keeper *k)
{
    note_trouble(k, "file");
    k->garbage = k->rc == 0 ? 0 : k->garbage;
    k->compact_at = k->rc == 0 ? MIN_GARBAGE : 2 * k->garbage; /* after a failure it is not tried
                                                                * again soon */
}

static void on_request_keeper_done(struct worker_job *job)
{
    struct request_keeper *k = list_entry(job, struct request_keeper, job);

    k->has_job = false;
    if (k->log != NULL)
        k->bytes = request_log_bytes(k->log);
    switch (k->task) {
    case REQUEST_TASK_WRITE:
        after_write(k);
        break;
    case REQUEST_TASK_SYNC:
        if (k->rc < 0) /* a sync that succeeds does not undo a failed write */
            note_trouble(k, "disk");
        k->synced_us = clock_us();
        k->is_unsynced = false;
        break;
    case REQUEST_TASK_COMPACT:
        after_compact(k);
        break;
    case REQUEST_TASK_OPEN:
        after_open(k);
        break;
    }
    request_keeper_pump(k);
}

static void work(struct request_keeper *k, enum request_task task)
{
    k->task = task;
    k->job.work = on_request_keeper_work;
    k->job.done = on_request_keeper_done;
    k->job.name = "request_keeper";
    k->job.subject = "the file of requests";
    k->has_job = true;
    (void)worker_pool_post(k->opt.storage, &k->job); /* the storage thread has no limit of jobs */
}

static void write_gathered(struct request_keeper *k)
{
    const struct buf empty = k->writes;

    k->writes = k->gathers;
    k->gathers = empty;
    list_move_back(&k->written, &k->waiting);
    work(k, REQUEST_TASK_WRITE);
}

void request_keeper_pump(struct request_keeper *k)
{
    if (k->has_job || k->log == NULL || k->is_closed)
        return;
    if (k->gathers.len > 0 && !request_keeper_has_failed(k))
        write_gathered(k);
    else if (k->is_unsynced && (k->is_stopping || clock_us() - k->synced_us >= SYNC_US))
        work(k, REQUEST_TASK_SYNC);
    else if (k->garbage >= k->compact_at && k->garbage >= k->bytes / 2 && !k->is_stopping)
        work(k, REQUEST_TASK_COMPACT);
    else if (k->has_put_off && k->gathers.len == 0)
        request_log_close(&k->log); /* so that the next process need not wait until this one has
                                     * ended */
}

static void on_keeper_timer(uv_timer_t *timer)
{
    LOOP_CALLBACK(timer->loop, "request_keeper.timer");
    struct request_keeper *k = timer->data;
    uint32_t n_running = 0;

    if (k->log == NULL && !k->has_job && !k->is_stopping)
        work(k, REQUEST_TASK_OPEN);
    list_each(it, &k->all) {
        struct kept_request *r = list_entry(it, struct kept_request, link);

        if (!r->is_running)
            continue;
        n_running++;
        kept_request_write_tokens(r);
    }
    request_keeper_pump(k);
    if (n_running == 0 && (k->log != NULL || k->is_stopping) && k->gathers.len == 0 &&
        !k->is_unsynced && !k->has_job)
        uv_timer_stop(timer);
}

void request_keeper_tick(struct request_keeper *k)
{
    if (!k->is_closed && !uv_is_active((uv_handle_t *)&k->timer))
        uv_timer_start(&k->timer, on_keeper_timer, TICK_MS, TICK_MS);
}

struct request_keeper_counts request_keeper_counts(const struct request_keeper *k)
{
    if (k == NULL)
        return (struct request_keeper_counts){0};
    return (struct request_keeper_counts){.n = k->n + k->n_saved,
                                          .bytes = k->bytes,
                                          .n_restored = k->n_restored,
                                          .n_lost = k->n_lost,
                                          .n_unkept = k->n_unkept};
}

/* ---- life ---- */

int request_keeper_open(struct request_keeper **out, const struct request_keeper_options *options,
                        char *err, size_t err_len)
{
    struct request_keeper *k = mem_calloc(1, sizeof(*k));
    int rc;

    *out = NULL;
    if (k == NULL)
        return snprintf(err, err_len, "no memory for requests_db"), ERR_NOMEM;
    k->opt = *options;
    k->compact_at = MIN_GARBAGE;
    list_init(&k->all);
    list_init(&k->waiting);
    list_init(&k->written);
    buf_init(&k->gathers, 2 * REQUESTS_MAX_WAITING);
    buf_init(&k->writes, 2 * REQUESTS_MAX_WAITING);
    uv_timer_init(options->loop, &k->timer);
    uv_unref((uv_handle_t *)&k->timer);
    k->timer.data = k;
    *out = k;
    rc = request_log_open(&k->log, options->path, &k->saved, &k->n_lost, err, err_len);
    if (rc == ERR_BUSY) {
        log_info("requests", "event=requests_db_is_waited_for");
        return 0;
    }
    if (rc < 0)
        return rc;
    k->bytes = request_log_bytes(k->log);
    have_saved(k);
    return 0;
}

void request_keeper_start(struct request_keeper *k)
{
    if (k->log == NULL)
        request_keeper_tick(k);
}

void request_keeper_on_saved(struct request_keeper *k,
                             void (*saved)(void *ud, struct saved_requests *saved), void *ud)
{
    k->on_saved = saved;
    k->saved_ud = ud;
    hand_over_saved(k);
}

/* Put off all that run. A runner's callback may drop its request, or others. */
void request_keeper_put_off(struct request_keeper *k)
{
    struct list rest;

    if (k == NULL || k->is_stopping)
        return;
    k->is_stopping = true;
    list_init(&rest);
    list_move_back(&rest, &k->all);
    while (!list_is_empty(&rest)) {
        struct kept_request *r = list_entry(rest.next, struct kept_request, link);

        list_unlink(&r->link);
        list_push_back(&k->all, &r->link);
        if (!r->is_running)
            continue;
        r->is_put_off = true;
        kept_request_end(r, 0);
        r->runner.put_off(r->runner.ud);
    }
    k->has_put_off = true;
    request_keeper_pump(k);
}

bool request_keeper_is_idle(const struct request_keeper *k)
{
    return k == NULL || (!k->has_job && (k->log == NULL || k->failed_us > 0 ||
                                         (k->gathers.len == 0 && !k->is_unsynced)));
}

bool request_keeper_is_open(const struct request_keeper *k)
{
    return k != NULL && k->log != NULL;
}

void request_keeper_stop(struct request_keeper *k)
{
    if (k == NULL || k->is_closed)
        return;
    k->is_closed = true;
    uv_close((uv_handle_t *)&k->timer, NULL);
}

void request_keeper_close(struct request_keeper **keeper)
{
    struct request_keeper *k = keeper != NULL ? *keeper : NULL;

    if (k == NULL)
        return;
    list_each(it, &k->all)
        kept_request_forget(list_entry(it, struct kept_request, link));
    list_each(it, &k->waiting)
        mem_free(list_entry(it, struct request_waiter, link));
    list_each(it, &k->written)
        mem_free(list_entry(it, struct request_waiter, link));
    request_log_close(&k->log);
    saved_requests_release(&k->saved);
    buf_release(&k->gathers);
    buf_release(&k->writes);
    mem_free(k);
    *keeper = NULL;
}
