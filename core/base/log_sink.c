/* core/base/log_sink.c - the descriptor that lines are written to, and the thread that does it.
 *
 * Only the thread waits for a slow reader. It takes a line from the ring, writes it with one
 * write(2), and looks for orders (another descriptor, the end) between two lines.
 */
#include "core/base/log_impl.h"

#include "core/base/err.h"
#include "core/base/file_append.h"
#include "core/base/log_ring.h"
#include "core/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define N_SLOTS 1024
#define FILE_MODE 0640
#define STACK_BYTES ((size_t)256 << 10)

enum mode { MODE_DIRECT = 0, MODE_RING, MODE_MUTED };

/* The main thread sets it up; while the thread runs, `fd` and the members from `told` on are its
 * own. */
static struct {
    atomic_int mode; /* enum mode; release: the ring and `work` are set up */
    atomic_bool must_stop, must_reopen;
    atomic_uint_fast64_t dropped; /* relaxed: a count */
    atomic_uint_fast64_t n_done;  /* lines taken from this ring and written, or dropped */
    sem_t work;                   /* posted for each line and each order */
    pthread_t thread;
    struct log_ring *ring;
    char *path; /* path of the log file, or NULL: the descriptor is borrowed */
    int fd;
    uint64_t told;   /* value of `dropped` that a line has reported */
    bool is_mid_line; /* the last write ended within a line */
} sink = {.fd = STDERR_FILENO};

/* ---- writing ---- */

static void count_dropped(uint64_t n)
{
    atomic_fetch_add_explicit(&sink.dropped, n, memory_order_relaxed);
}

uint64_t log_dropped(void)
{
    return atomic_load_explicit(&sink.dropped, memory_order_relaxed);
}

/* Wait until the descriptor is writable; it is non-blocking if a process that shares it set
 * that. */
static bool wait_writable(void)
{
    struct pollfd p = {.fd = sink.fd, .events = POLLOUT};

    return !atomic_load_explicit(&sink.must_stop, memory_order_relaxed) && poll(&p, 1, 100) >= 0;
}

/* Write all, or return false. Usually one write(2): pipes take a line whole, files if there is
 * room. */
static bool write_all(const char *text, size_t n)
{
    while (n > 0) {
        const ssize_t got = write(sink.fd, text, n);

        if (got < 0 && (errno == EINTR || (errno == EAGAIN && wait_writable())))
            continue;
        if (got <= 0)
            return false;
        sink.is_mid_line = (size_t)got < n;
        text += got;
        n -= (size_t)got;
    }
    return true;
}

static bool write_line(const char *line, size_t n)
{
    if (sink.is_mid_line && !write_all("\n", 1))
        return false;
    return write_all(line, n);
}

static void tell_dropped(void)
{
    const uint64_t n = log_dropped();
    char line[LOG_LINE_MAX];
    size_t len;

    if (n == sink.told)
        return;
    len = log_format(line, LOG_WARN, "log", "event=lines_dropped count=%" PRIu64 " total=%" PRIu64,
                     n - sink.told, n);
    if (write_line(line, len))
        sink.told = n;
}

static void write_or_drop(const char *line, size_t n)
{
    if (write_line(line, n))
        tell_dropped();
    else
        count_dropped(1);
}

/* Write from the thread that logs; other threads may do so at the same time. */
static void write_directly(const char *line, size_t n)
{
    ssize_t got;

    do
        got = write(sink.fd, line, n);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)n)
        count_dropped(1);
}

void log_sink_put(const char *line, size_t n)
{
    switch ((enum mode)atomic_load_explicit(&sink.mode, memory_order_acquire)) {
    case MODE_DIRECT:
        write_directly(line, n);
        return;
    case MODE_RING:
        if (log_ring_put(sink.ring, line, n))
            sem_post(&sink.work);
        else
            count_dropped(1);
        return;
    case MODE_MUTED:
        count_dropped(1);
        return;
    }
}

/* ---- the file ---- */

int log_open_file(const char *path, char *err, size_t err_len)
{
    const int fd = file_append_open(path, FILE_MODE);

    if (fd < 0) {
        snprintf(err, err_len, "cannot open the log file '%s': %s", path, file_append_error(errno));
        return ERR_IO;
    }
    sink.path = mem_strdup(path);
    if (sink.path == NULL) {
        close(fd);
        snprintf(err, err_len, "out of memory");
        return ERR_NOMEM;
    }
    sink.fd = fd;
    return 0;
}

static void reopen(void)
{
    const int fd = file_append_open(sink.path, FILE_MODE);
    char line[LOG_LINE_MAX], why[200];
    size_t n;

    if (fd >= 0) {
        close(sink.fd);
        sink.fd = fd;
        sink.is_mid_line = false;
        n = log_format(line, LOG_INFO, "log", "event=reopened");
    } else {
        n = log_format(line, LOG_ERROR, "log", "event=reopen_failed kept=old reason=%s",
                       log_quote(why, sizeof(why), file_append_error(errno)));
    }
    write_or_drop(line, n);
}

void log_reopen(void)
{
    if (sink.path == NULL || atomic_load(&sink.mode) == MODE_MUTED)
        return;
    if (atomic_load(&sink.mode) == MODE_DIRECT) {
        reopen();
        return;
    }
    atomic_store(&sink.must_reopen, true);
    sem_post(&sink.work);
}

void log_sink_use(int fd)
{
    sink.fd = fd;
    sink.is_mid_line = false;
}

/* ---- the thread ---- */

static void write_ring(void)
{
    char line[LOG_LINE_MAX];
    size_t n;

    while ((n = log_ring_take(sink.ring, line)) > 0) {
        if (atomic_exchange(&sink.must_reopen, false))
            reopen();
        write_or_drop(line, n);
        atomic_fetch_add(&sink.n_done, 1);
    }
}

static void *writer_main(void *ud)
{
    (void)ud;
    (void)pthread_setname_np(pthread_self(), LOG_THREAD_NAME);
    for (;;) {
        /* read before the ring, so that every line put before the order to stop is written */
        const bool is_last = atomic_load(&sink.must_stop);

        write_ring();
        if (atomic_exchange(&sink.must_reopen, false))
            reopen();
        if (is_last)
            return NULL;
        while (sem_wait(&sink.work) != 0)
            ;
        while (sem_trywait(&sink.work) == 0) /* one look at the ring serves all of them */
            ;
    }
}

/* Start the thread with all signals blocked: the program's are for its main thread. */
static int start_thread(void)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int rc;

    if (pthread_attr_init(&attr) != 0)
        return ERR_NOMEM;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    sigdelset(&all, SIGSYS); /* raised for a system call that the sandbox refuses */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&sink.thread, &attr, writer_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc == 0 ? 0 : ERR_INTERNAL;
}

int log_start(void)
{
    int rc = 0;

    if (sink.ring == NULL)
        rc = log_ring_create(&sink.ring, N_SLOTS);
    if (rc == 0 && sem_init(&sink.work, 0, 0) != 0)
        rc = ERR_INTERNAL;
    atomic_store(&sink.n_done, 0);
    atomic_store(&sink.must_stop, false);
    if (rc == 0) {
        atomic_store_explicit(&sink.mode, MODE_RING, memory_order_release);
        rc = start_thread();
        if (rc < 0)
            atomic_store(&sink.mode, MODE_DIRECT);
    }
    return rc;
}

bool log_flush(unsigned wait_ms)
{
    const struct timespec moment = {0, 1000000};
    uint64_t n;

    if (atomic_load(&sink.mode) != MODE_RING)
        return atomic_load(&sink.mode) == MODE_DIRECT;
    n = log_ring_n_put(sink.ring);
    while (atomic_load(&sink.n_done) < n && wait_ms-- > 0)
        nanosleep(&moment, NULL);
    return atomic_load(&sink.n_done) >= n;
}

bool log_stop(unsigned wait_ms)
{
    struct timespec until;

    if (atomic_load(&sink.mode) != MODE_RING)
        return atomic_load(&sink.mode) == MODE_DIRECT;
    atomic_store(&sink.must_stop, true);
    sem_post(&sink.work);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    until.tv_sec += (time_t)(wait_ms / 1000) + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_timedjoin_np(sink.thread, NULL, &until) != 0) {
        atomic_store(&sink.mode, MODE_MUTED);
        pthread_detach(sink.thread); /* the thread ends with the process, or when it can write
                                      * again */
        return false;
    }
    atomic_store(&sink.mode, MODE_DIRECT);
    log_ring_destroy(&sink.ring);
    return true;
}
