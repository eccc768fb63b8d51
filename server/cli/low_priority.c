/* server/cli/low_priority.c - see low_priority.h. */
#include "server/cli/low_priority.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/resource.h>

/* A tenth of a core that is wanted by steps as well, and all of one that is not. At SCHED_IDLE the
 * work would not come to its end under a steady load. */
#define NICE 10

struct job {
    void (*work)(void *ud);
    void *ud;
};

static void *run(void *ud)
{
    const struct job *job = ud;

    (void)setpriority(PRIO_PROCESS, 0, NICE); /* of this thread alone */
    job->work(job->ud);
    return NULL;
}

/* On a thread that goes afterwards: a priority that was lowered stays so. */
void low_priority_run(void (*work)(void *ud), void *ud)
{
    struct job job = {work, ud};
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, &job) == 0)
        pthread_join(thread, NULL);
    else
        work(ud);
}
