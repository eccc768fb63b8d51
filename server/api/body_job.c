/* server/api/body_job.c - reads a call's body on a pool thread; see body_job.h.
 *
 * The body moves from the call to the job, which counts its bytes as requests' memory until it
 * releases or returns it. When the client disconnects, the job's call becomes NULL and the job is
 * cancelled: `read` is skipped if it has not begun. done() runs in any case, so the owner frees the
 * job in one place.
 */
#include "server/api/body_job.h"

#include "server/http/http_call.h"

static void hold_body(struct body_job *j)
{
    j->body = http_call_take_body(j->call);
    request_memory_count(j->jobs->memory, (int64_t)j->body.cap, false);
}

static void let_body_go(struct body_job *j)
{
    request_memory_count(j->jobs->memory, -(int64_t)j->body.cap, false);
}

static void on_call_gone(void *ud)
{
    struct body_job *j = ud;

    j->call = NULL;
    worker_job_cancel(&j->job);
}

static void body_job_work(struct worker_job *job)
{
    struct body_job *j = list_entry(job, struct body_job, job);

    if (!atomic_load(&job->canceled))
        j->read(j);
}

static void body_job_done(struct worker_job *job)
{
    struct body_job *j = list_entry(job, struct body_job, job);

    j->jobs->n--;
    if (j->call != NULL)
        http_call_on_gone(j->call, NULL, NULL);
    j->done(j);
}

int body_job_start(struct body_job *j, struct body_jobs *jobs, struct http_call *call,
                   const char *name)
{
    int rc;

    j->jobs = jobs;
    j->call = call;
    j->job = (struct worker_job){.work = body_job_work, .done = body_job_done, .name = name};
    hold_body(j);
    rc = worker_pool_post(jobs->pool, &j->job);
    if (rc < 0) {
        body_job_return(j);
        return rc;
    }
    jobs->n++;
    http_call_on_gone(call, on_call_gone, j);
    return 0;
}

void body_job_return(struct body_job *j)
{
    let_body_go(j);
    http_call_give_body(j->call, &j->body);
}

void body_job_release(struct body_job *j)
{
    let_body_go(j);
    buf_release(&j->body);
}
