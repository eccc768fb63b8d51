/* server/requests/request_keeper_impl.h - what the files of request_keeper.h share:
 * request_keeper.c has the thread and the file, kept_request.c the requests and their records.
 *
 * Thread: the loop's, but for what the job writes, reads and opens.
 * Memory: as request_keeper.h says.
 */
#ifndef SERVER_REQUESTS_REQUEST_KEEPER_IMPL_H
#define SERVER_REQUESTS_REQUEST_KEEPER_IMPL_H

#include "server/process/worker_pool.h"
#include "server/requests/request_keeper.h"

/* Records that wait for the disk, beside which no more requests are kept. */
#define REQUESTS_MAX_WAITING ((size_t)64 << 20)

enum request_task {
    REQUEST_TASK_WRITE = 0,
    REQUEST_TASK_SYNC,
    REQUEST_TASK_COMPACT,
    REQUEST_TASK_OPEN
};

struct kept_request {
    struct request_keeper *keeper;
    struct list link;
    uint64_t number;
    char id[REQUEST_RECORD_ID];
    uint64_t n_bytes; /* of its records */
    uint32_t n_known; /* tokens that were written, or are on their way */
    bool is_running, is_put_off;
    bool is_over; /* the file says that it is gone */
    struct kept_request_runner runner;
};

struct request_waiter { /* for its first record */
    struct list link;
    struct kept_request *request;
    void (*written)(void *ud, bool is_kept);
    void *ud;
};

struct request_keeper {
    struct request_keeper_options opt;
    struct request_log *log; /* NULL: another process has it */
    struct worker_pool *pool;
    struct worker_job job;
    enum request_task task;
    bool is_working, is_stopping, has_put_off, is_closed;
    int rc, reason; /* of the job, with errno; and what it has opened, with who is lost */
    struct request_log *opened;
    uint64_t n_opened_lost;
    uv_timer_t timer;
    struct list all; /* struct kept_request */
    struct list waiting,
        written; /* struct request_waiter: of what gathers, of what the job writes */
    struct buf gathers, writes;
    uint64_t next_number;
    uint64_t bytes, garbage; /* of the file; of it, of what is gone */
    uint64_t compact_at;     /* garbage */
    uint64_t synced_us;
    uint64_t failed_us; /* when the disk did not take something, last; or 0 */
    bool is_unsynced, is_full;
    uint32_t n, n_saved; /* kept; of the file, not taken up */
    uint64_t n_restored, n_lost, n_unkept;
    struct saved_requests saved; /* until somebody takes them */
    bool has_saved;
    void (*on_saved)(void *ud, struct saved_requests *saved);
    void *saved_ud;
    char err[400];
};

/* What waits is written, if nothing else is being done. */
void request_keeper_pump(struct request_keeper *k);
/* The disk did not take something a moment ago. */
bool request_keeper_has_failed(const struct request_keeper *k);
/* Its timer runs from now on, as long as there is something to do. */
void request_keeper_tick(struct request_keeper *k);

/* What the request has more than the file. */
void kept_request_write_tokens(struct kept_request *r);
/* It is no more; its records stay. */
void kept_request_forget(struct kept_request *r);

#endif
