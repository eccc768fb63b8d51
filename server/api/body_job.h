/* server/api/body_job.h - bodies that are too long for the I/O thread: a thread of a pool reads
 * them first.
 *
 * The I/O thread parses bodies of HTTP_SMALL_BODY at most (http_call.h). A handler that takes
 * longer ones embeds a body_job, which takes the body from the call and hands it to a thread.
 * done() is always called afterwards on the I/O thread; the client may have disconnected by then.
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

struct body_jobs { /* the jobs of a server */
    struct worker_pool *pool;
    struct request_memory *memory;
    uint32_t n; /* jobs that are not done */
};

struct body_job {
    struct worker_job job;
    struct body_jobs *jobs;
    struct http_call *call; /* NULL: its client has disconnected */
    struct buf body;
    void (*read)(struct body_job *j); /* called on a thread of the pool, unless the client has
                                       * disconnected before */
    void (*done)(struct body_job *j); /* releases the job, and answers the call if that is not
                                       * NULL */
};

/* Post the job. ERR_AGAIN: too many jobs wait; the call has its body again, and done() is not
 * called. */
int body_job_start(struct body_job *j, struct body_jobs *jobs, struct http_call *call,
                   const char *name /* borrows for ever */);
/* Give the body back to the call. */
void body_job_return(struct body_job *j);
void body_job_release(struct body_job *j);

#endif
