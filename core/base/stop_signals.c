/* core/base/stop_signals.c - see stop_signals.h.
 *
 * The thread waits in sigwait(), so the callback runs in an ordinary thread and may lock and log.
 * After the second signal it sleeps in sigtimedwait() until the deadline; closing sets a flag and
 * sends it a SIGTERM to wake it. It depends on no other thread, which is why it can end a process
 * that hangs.
 */
#include "core/base/stop_signals.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct stop_signals {
    struct stop_signals_options opt;
    pthread_t thread;
    sigset_t set;
    atomic_bool is_closing; /* set: a SIGTERM to the thread is only to wake it */
    pthread_mutex_t lock;   /* held while `told` is called; only locks that `told` takes are taken
                             * inside */
    bool is_muted;
};

/* Wait for the deadline and end the process. Returns false when the program ends in order; further
 * signals change nothing. */
static bool kill_later(const struct stop_signals *s)
{
    const uint64_t end = clock_ms() + s->opt.kill_after_ms;
    uint64_t now;

    while ((now = clock_ms()) < end) {
        const struct timespec left = {(time_t)((end - now) / 1000),
                                      (long)((end - now) % 1000) * 1000000};

        sigtimedwait(&s->set, NULL, &left);
        if (atomic_load(&s->is_closing))
            return false;
    }
    log_error("main",
              "event=killed reason=\"the process did not end within %u ms of the second signal\"",
              s->opt.kill_after_ms);
    (void)log_flush(50);
    _exit(EXIT_FAILURE);
}

static void tell_signal(struct stop_signals *s, int number, unsigned nth)
{
    pthread_mutex_lock(&s->lock);
    if (!s->is_muted)
        s->opt.told(s->opt.ud, number, nth);
    pthread_mutex_unlock(&s->lock);
}

static void *receive_signal(void *ud)
{
    struct stop_signals *s = ud;
    unsigned nth = 0;
    int number;

    while (sigwait(&s->set, &number) == 0 && !atomic_load(&s->is_closing)) {
        tell_signal(s, number, ++nth);
        if (nth == 2 && !kill_later(s))
            break;
    }
    return NULL;
}

int stop_signals_open(struct stop_signals **out, const struct stop_signals_options *options)
{
    struct stop_signals *s = mem_calloc(1, sizeof(*s));

    *out = NULL;
    if (s == NULL)
        return ERR_NOMEM;
    s->opt = *options;
    pthread_mutex_init(&s->lock, NULL);
    sigemptyset(&s->set);
    sigaddset(&s->set, SIGTERM);
    sigaddset(&s->set, SIGINT);
    if (pthread_sigmask(SIG_BLOCK, &s->set, NULL) != 0 ||
        pthread_create(&s->thread, NULL, receive_signal, s) != 0) {
        mem_free(s);
        return ERR_INTERNAL;
    }
    *out = s;
    return 0;
}

void stop_signals_mute(struct stop_signals *s)
{
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->is_muted = true;
    pthread_mutex_unlock(&s->lock);
}

void stop_signals_close(struct stop_signals **signals)
{
    struct stop_signals *s = signals != NULL ? *signals : NULL;

    if (s == NULL)
        return;
    atomic_store(&s->is_closing, true);
    pthread_kill(s->thread, SIGTERM);
    pthread_join(s->thread, NULL);
    mem_free(s);
    *signals = NULL;
}
