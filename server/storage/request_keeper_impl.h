/* server/storage/request_keeper_impl.h - shared by the files of request_keeper.h: request_keeper.c
 * has the jobs and the file, kept_request.c the requests and their records.
 *
 * Thread: the loop's, except for the members that the job uses while it runs.
 * Memory: as request_keeper.h says.
 */
#ifndef SERVER_STORAGE_REQUEST_KEEPER_IMPL_H
#define SERVER_STORAGE_REQUEST_KEEPER_IMPL_H

#include "server/process/worker_pool.h"
#include "server/storage/request_keeper.h"

/* Bytes of records that wait for the disk; with more, no further requests are kept. */
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
    uint64_t n_bytes; /* bytes of the request's records */
    uint32_t n_known; /* tokens in records, written or not */
    bool is_running, is_put_off;
    bool is_over; /* the file has a record that the request is gone */
    struct kept_request_runner runner;
};

struct request_waiter { /* waits for the request's first record */
    struct list link;
    struct kept_request *request;
    void (*written)(void *ud, bool is_kept);
    void *ud;
};

struct request_keeper {
    struct request_keeper_options opt;
    struct request_log *log; /* NULL: another process has the file */
    struct worker_job job;
    bool has_job; /* `job` is posted */
    enum request_task task;
    bool is_stopping, has_put_off, is_closed;
    int rc, reason; /* of the job, with errno; below: the log that it opened */
    struct request_log *opened;
    uint64_t n_opened_lost;
    uv_timer_t timer;
    struct list all;              /* struct kept_request */
    struct list waiting, written; /* struct request_waiter: for records in `gathers`, in `writes` */
    struct buf gathers, writes;
    uint64_t next_number;
    uint64_t bytes, garbage; /* of the file; of records that are gone */
    uint64_t compact_at;     /* garbage at which the file is compacted */
    uint64_t synced_us;
    uint64_t failed_us; /* when the disk last failed; or 0 */
    bool is_unsynced, is_full;
    uint32_t n, n_saved; /* kept requests; requests of the file that were not taken up */
    uint64_t n_restored, n_lost, n_unkept;
    struct saved_requests saved; /* requests of the file, until on_saved takes them */
    bool has_saved;
    void (*on_saved)(void *ud, struct saved_requests *saved);
    void *saved_ud;
    char err[400];
};

/* Start the next job if none runs and there is work. */
void request_keeper_pump(struct request_keeper *k);
/* True: the disk has failed within the last seconds. */
bool request_keeper_has_failed(const struct request_keeper *k);
/* Start the timer, which runs while there is work. */
void request_keeper_tick(struct request_keeper *k);

/* Record the tokens that the file does not have yet. */
void kept_request_write_tokens(struct kept_request *r);
/* Free the request; its records stay. */
void kept_request_forget(struct kept_request *r);

#endif
