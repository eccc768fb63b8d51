/* core/hub/interrupt.c - see interrupt.h.
 *
 * The handler sets a flag, which the loops of a download ask for between pieces; nothing is done in
 * the handler itself. Handlers that were set before are put back at the end, when the server
 * installs its own way to stop (core/base/stop_signals.h). Sleeps are cut into naps of NAP_MS, so
 * that a signal just before one is seen soon.
 */
#include "core/hub/interrupt.h"

#include "core/base/clock.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>

#define NAP_MS 50 /* a signal may come between the check and the sleep */

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};
enum { N_NUMBERS = sizeof(numbers) / sizeof(numbers[0]), N_ENDING = 3 };

/* global, because a signal handler uses it */
static volatile sig_atomic_t came;
static struct sigaction before[N_NUMBERS];

static void note_signal(int number)
{
    (void)number;
    came = 1;
}

void hub_interrupt_begin(void)
{
    came = 0;
    for (int i = 0; i < N_NUMBERS; i++) {
        struct sigaction action = {.sa_handler = i < N_ENDING ? note_signal : SIG_IGN};

        sigemptyset(&action.sa_mask);
        sigaction(numbers[i], &action, &before[i]);
        /* a signal that was ignored from outside (nohup) stays ignored */
        if (before[i].sa_handler == SIG_IGN)
            sigaction(numbers[i], &before[i], NULL);
    }
}

void hub_interrupt_end(void)
{
    for (int i = 0; i < N_NUMBERS; i++)
        sigaction(numbers[i], &before[i], NULL);
}

bool hub_interrupt_came(void)
{
    return came != 0;
}

bool hub_interrupt_sleep(uint64_t ms)
{
    const uint64_t end = clock_ms() + ms;
    uint64_t now;

    while (!hub_interrupt_came() && (now = clock_ms()) < end) {
        const uint64_t left = end - now < NAP_MS ? end - now : NAP_MS;
        const struct timespec nap = {0, (long)left * 1000000};

        nanosleep(&nap, NULL);
    }
    return !hub_interrupt_came();
}
