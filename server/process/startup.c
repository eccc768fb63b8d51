/* server/process/startup.c - see startup.h. */
#include "server/process/startup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

void startup_open_standard_fds(void)
{
    /* In order, so that open() returns just the one that is missing. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0)
            return; /* a system without /dev/null: nothing can be done, and nobody can be told */
}

void startup_ignore_signals(void)
{
    static const int ignored[] = {
        SIGPIPE, SIGXFSZ,                                /* an error of write() instead */
        SIGUSR1, SIGHUP,                                 /* until the loop handles them */
        SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, /* nothing here sends them */
        SIGCHLD, /* ignored explicitly, children leave no zombies */
    };

    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    for (int n = SIGRTMIN; n <= SIGRTMAX; n++)
        signal(n, SIG_IGN);
}
