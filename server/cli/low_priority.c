/* server/cli/low_priority.c - see low_priority.h.
 *
 * The work runs on a new thread with a higher nice value, and the caller waits. A new thread is
 * needed because an unprivileged thread cannot raise its priority again; threads that the work
 * starts inherit the nice value.
 */
#include "server/cli/low_priority.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/resource.h>

/* With this nice value the work gets a tenth of a core that steps also need, and all of an idle
 * one. With SCHED_IDLE it would never end under a steady load. */
#define NICE 10

struct job {
    void (*work)(void *ud);
    void *ud;
};

static void *run_at_low_priority(void *ud)
{
    const struct job *job = ud;

    (void)setpriority(PRIO_PROCESS, 0, NICE); /* on Linux it affects only this thread */
    job->work(job->ud);
    return NULL;
}

/* Run the work on a thread that ends afterwards: a lowered priority cannot be raised again. */
void low_priority_run(void (*work)(void *ud), void *ud)
{
    struct job job = {work, ud};
    pthread_t thread;

    if (pthread_create(&thread, NULL, run_at_low_priority, &job) == 0)
        pthread_join(thread, NULL);
    else
        work(ud);
}
