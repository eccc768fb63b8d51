/* core/base/stop_signals.h - SIGTERM and SIGINT, received by a thread of their own.
 *
 * The thread reports each signal to the program, which shuts down by itself. The second signal
 * starts a timer of kill_after_ms: when it fires the thread ends the process with exit code 1,
 * whatever the other threads are doing. So a second signal works even if the I/O thread hangs.
 *
 * Thread: open before other threads are created: they inherit that these signals are blocked.
 * Memory: one thread.
 */
#ifndef CORE_BASE_STOP_SIGNALS_H
#define CORE_BASE_STOP_SIGNALS_H

#include <stdint.h>

struct stop_signals;

struct stop_signals_options {
    /* Called on the signals' thread for the nth signal (1 or 2): it should wake another thread. */
    void (*told)(void *ud, int number, unsigned nth);
    void *ud;
    uint32_t kill_after_ms;
};

/* Block the signals and start the thread. ERR_NOMEM; ERR_INTERNAL: no thread could be started. */
int stop_signals_open(struct stop_signals **out, const struct stop_signals_options *options);
/* After this `told` is not called any more; nothing else changes. */
void stop_signals_mute(struct stop_signals *s); /* NULL is allowed */
/* Joins the thread; the signals stay blocked. */
void stop_signals_close(struct stop_signals **s);

#endif
