/* core/runtime/spin_word.h - a counter that threads wait for: they spin for some microseconds, then
 * call sched_yield() between polls, and after SPIN_WORD_US sleep on a futex.
 *
 * spin_word_wait() acquires the writes before the spin_word_announce() that it saw.
 *
 * Thread: any.
 * Memory: the struct is the caller's, zero is a valid start.
 */
#ifndef CORE_RUNTIME_SPIN_WORD_H
#define CORE_RUNTIME_SPIN_WORD_H

#include <stdatomic.h>
#include <stdint.h>

/* Longest busy wait: longer than the gaps inside a step, shorter than what idle time would show. */
#define SPIN_WORD_US 200

struct spin_word {
    _Alignas(64) atomic_uint count; /* number of announcements */
    atomic_uint sleepers;
};

/* Measure the pauses of this processor that fill the part of SPIN_WORD_US without system calls:
 * `n_pauses` of spin_word_wait(). Takes some ten microseconds. */
uint32_t spin_word_count_pauses(void);

/* Wait until the count differs from `seen`. */
void spin_word_wait(struct spin_word *w, unsigned seen, uint32_t n_pauses);
void spin_word_announce(struct spin_word *w);

#endif
