/* core/runtime/spin_word.c - see spin_word.h.
 *
 * Three phases of a wait: PAUSE_US of pause instructions, counted beforehand so that the loop needs
 * no clock; sched_yield() between polls up to SPIN_WORD_US; then a futex. An announcement makes a
 * system call only when the count of sleepers is not 0, so a busy pool never enters the kernel.
 */
#include "core/runtime/spin_word.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The part of SPIN_WORD_US that is spent without a system call: a barrier of a quiet thread pool
 * takes less. */
#define PAUSE_US 10

/* Give the core to its sibling thread, and the bus to other cores, for a moment. */
static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else /* aarch64 */
    __asm__ volatile("yield" : : : "memory");
#endif
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void futex_wait(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake_all(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Measure how many pauses fill PAUSE_US: a pause is 40 cycles on one processor and 140 on another.
 * The best of three counts, so that an interrupt does not make it look long. */
uint32_t spin_word_count_pauses(void)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 3; i++) {
        const uint64_t from = now_ns();
        uint64_t ns;

        for (int j = 0; j < 256; j++)
            pause_cpu();
        ns = now_ns() - from;
        best = ns < best ? ns : best;
    }
    return (uint32_t)(PAUSE_US * 1000u * 256u / (best > 0 ? best : 1)) + 1;
}

static bool changes_while_spinning(atomic_uint *word, unsigned seen, uint32_t n_pauses)
{
    uint64_t end;

    for (uint32_t i = 0; i < n_pauses; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != seen)
            return true;
        pause_cpu();
    }
    end = now_ns() + (SPIN_WORD_US - PAUSE_US) * 1000;
    do {
        sched_yield();
        if (atomic_load_explicit(word, memory_order_acquire) != seen)
            return true;
    } while (now_ns() < end);
    return false;
}

/* No wake-up is missed: the sleeper raises the count of sleepers before it checks the word again,
 * and the waker changes the word before it reads that count (both seq_cst). */
void spin_word_wait(struct spin_word *w, unsigned seen, uint32_t n_pauses)
{
    if (changes_while_spinning(&w->count, seen, n_pauses))
        return;
    atomic_fetch_add(&w->sleepers, 1);
    while (atomic_load(&w->count) == seen)
        futex_wait(&w->count, seen);
    atomic_fetch_sub(&w->sleepers, 1);
}

void spin_word_announce(struct spin_word *w)
{
    atomic_fetch_add(&w->count, 1);
    if (atomic_load(&w->sleepers) > 0)
        futex_wake_all(&w->count);
}
