/* server/process/startup.c - see startup.h.
 *
 * The trials open all descriptors, or start all threads (with the stack size of libuv's pool), at
 * once and release them again: they fail with a sentence where libuv would abort. They run
 * single-threaded, right before the loop is made.
 */
#include "server/process/startup.h"

#include "core/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_TRIED 128
#define POOL_STACK_BYTES ((size_t)8 << 20) /* stack of a thread of libuv's pool */

void startup_open_standard_fds(void)
{
    /* In ascending order, because open() returns the lowest closed descriptor. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0)
            return; /* a system without /dev/null: there is no stream to report it on */
}

void startup_ignore_signals(void)
{
    static const int ignored[] = {
        SIGPIPE, SIGXFSZ, /* write() returns an error instead */
        SIGUSR1, SIGHUP,  /* until the loop handles them */
        SIGCHLD,          /* ignored explicitly, children leave no zombies */
        /* These are never sent by this program. */
        SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT,
    };

    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    for (int n = SIGRTMIN; n <= SIGRTMAX; n++)
        signal(n, SIG_IGN);
}

int startup_try_descriptors(unsigned n, char *err, size_t err_len)
{
    int fds[MAX_TRIED], rc = 0;
    unsigned opened = 0;

    n = n < MAX_TRIED ? n : MAX_TRIED;
    while (opened < n && rc == 0) {
        fds[opened] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fds[opened] >= 0)
            opened++;
        else
            rc = -errno;
    }
    if (rc < 0)
        snprintf(err, err_len, "the start needs %u file descriptors, but only %u can be opened: %s",
                 n, opened, strerror(-rc));
    for (unsigned i = 0; i < opened; i++)
        close(fds[i]);
    return rc < 0 ? ERR_LIMIT : 0;
}

static void *wait_for_end(void *ud)
{
    while (sem_wait(ud) != 0)
        ;
    return NULL;
}

int startup_try_threads(unsigned n, char *err, size_t err_len)
{
    pthread_t threads[MAX_TRIED];
    pthread_attr_t attr;
    unsigned started = 0;
    sem_t end;
    int errnum = 0;

    n = n < MAX_TRIED ? n : MAX_TRIED;
    if (sem_init(&end, 0, 0) != 0 || pthread_attr_init(&attr) != 0)
        return snprintf(err, err_len, "the process cannot start threads"), ERR_LIMIT;
    (void)pthread_attr_setstacksize(&attr, POOL_STACK_BYTES);
    while (started < n && errnum == 0) {
        errnum = pthread_create(&threads[started], &attr, wait_for_end, &end);
        started += errnum == 0;
    }
    if (errnum != 0)
        snprintf(err, err_len,
                 "the start needs %u threads with stacks of %zu MB, but only %u can be started: %s "
                 "(check the limits on memory and processes)",
                 n, POOL_STACK_BYTES >> 20, started, strerror(errnum));
    for (unsigned i = 0; i < started; i++)
        sem_post(&end);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&attr);
    sem_destroy(&end);
    return errnum != 0 ? ERR_LIMIT : 0;
}
