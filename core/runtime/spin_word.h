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

/* Longest busy wait in microseconds: longer than the gaps inside a step, too short to be seen as
 * CPU use of an idle server. */
#define SPIN_WORD_US 200

struct spin_word {
    _Alignas(64) atomic_uint count; /* number of calls of spin_word_announce() */
    atomic_uint sleepers;
};

/* Measure how many pause instructions fill the part of SPIN_WORD_US that is spent without system
 * calls; the caller passes the result to spin_word_wait() as n_pauses. Takes tens of
 * microseconds. */
uint32_t spin_word_count_pauses(void);

/* Wait until w->count differs from `seen`; spin_word_announce() increments it and wakes all
 * sleepers. */
void spin_word_wait(struct spin_word *w, unsigned seen, uint32_t n_pauses);
void spin_word_announce(struct spin_word *w);

#endif
