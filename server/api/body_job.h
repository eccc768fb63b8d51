/* server/api/body_job.h - bodies that the I/O thread does not look at itself: a thread of a pool
 * reads them first.
 *
 * The I/O thread parses bodies of HTTP_SMALL_BODY at most (http_call.h). A handler that takes
 * longer ones embeds a body_job, which takes the body from the call and hands it to a thread.
 * done() follows on the I/O thread in any case; the call may have lost its client by then.
 *
 * Thread: the loop's, but for `read`.
 * Memory: the job has the body until body_job_release(), and counts it as requests' memory.
 */
#ifndef SERVER_API_BODY_JOB_H
#define SERVER_API_BODY_JOB_H

#include "core/base/buf.h"
#include "server/api/request_memory.h"
#include "server/process/worker_pool.h"

struct http_call;

struct body_jobs { /* of a server */
    struct worker_pool *pool;
    struct request_memory *memory;
    uint32_t n; /* that have not been done */
};

struct body_job {
    struct worker_job job;
    struct body_jobs *jobs;
    struct http_call *call; /* NULL: its client has left */
    struct buf body;
    void (*read)(struct body_job *j); /* on a thread of the pool; not where nobody waits any more */
    void (*done)(struct body_job *j); /* releases it, and answers the call, where it is there */
};

/* 0; ERR_AGAIN: too many wait, the body is the call's again, and done() does not come. */
int body_job_start(struct body_job *j, struct body_jobs *jobs, struct http_call *call,
                   const char *name /* borrows for ever */);
/* The call gets its body back. */
void body_job_return(struct body_job *j);
void body_job_release(struct body_job *j);

#endif
